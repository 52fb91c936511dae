"""Taggers that predict label n-grams with a classifier and infer one labelling from predictions that overlap.

Canisius, van den Bosch & Daelemans (2006), "Constraint satisfaction inference".
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.corpus.schemes import SCHEMES, Allowed, allowed, detect_scheme, pairs_of_codes
from labelwright.corpus.spans import Span, spans_of
from labelwright.corpus.table import Corpus
from labelwright.decode.csi import ANYTHING, best_labellings, csi
from labelwright.decode.inference import inference_named
from labelwright.decode.options import MOST, check_seconds, check_whole
from labelwright.decode.record import Decoding
from labelwright.decode.vote import Inferred, oracle
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import Extractor, kind_of, learn
from labelwright.features.incidence import Incidence, with_frequent_keys
from labelwright.features.template import Template
from labelwright.memory.windows import Windows, offsets_of, windows
from labelwright.parallel import Workers, n_threads, sentence_ranges
from labelwright.structures import proposals
from labelwright.structures.distributions import Distributions, certain, from_probabilities
from labelwright.structures.ngrams import check_order, ngram_classes
from labelwright.structures.proposals import Candidates, Weighting
from labelwright.taggers.estimator import Estimator
from labelwright.taggers.linear import check_lengths, rules_among, words_of
from labelwright.taggers.training import labelled, listed

Array = NDArray[Any]
BLOCK_NUMBERS = 1 << 22  # probabilities that a classifier is asked for at once,
BLOCK_TOKENS = 1 << 14  # and tokens that a memory is


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """What the classifier says of some sentences, asked once; its length is their number."""

    blocks: list[Candidates]
    owner: str  # which fit made it

    def __len__(self) -> int:
        return sum(block.n_sentences for block in self.blocks)


class NgramModel(Estimator):
    """A tagger over label n-grams; subclasses say how their classes are learnt and predicted (two methods)."""

    ngram: int
    inference: str
    weighting: str | Weighting
    lengths: Sequence[int] | None = None
    n_jobs: int | None
    verbose: int = 0

    # What fit learns.
    labels_: list[str]  # [L]
    grams_: Array  # [C, n] int32  labels of each class; -1 outside the sentence
    scheme_: str | None  # of the labels, where they follow one
    mark_: str  # tells this fit from all others
    training_: dict[str, Any]  # record of the run

    # -- what subclasses give ---------------------------------------------------------------------------------

    def _fit_classifier(self, X: Any, classes: Array, n_classes: int) -> None:
        """Learn to predict the classes [T] of the tokens of X."""
        raise NotImplementedError

    def _distributions(self, X: Any) -> Iterator[tuple[Distributions, Array]]:
        """What is said of the tokens of X, in blocks of whole sentences, each with its own offsets [N+1] from 0 on."""
        raise NotImplementedError

    # -- fit --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> Self:
        """Train on sentences X and their labels y (or on a Corpus, whose label column is y)."""
        self._check_parameters()
        X, labels, gold = labelled(X, y)
        offsets = _offsets(X)
        if y is not None:
            check_lengths(y, offsets)
        if not len(gold):
            raise CorpusError("X: got no tokens, expected at least one")
        self.__dict__.pop("grams_", None)  # a fit that fails from here on leaves no mixture of two models
        begun = time.perf_counter()
        grams, classes = ngram_classes(gold, offsets, self.ngram)
        self._fit_classifier(X, classes, len(grams))
        self.scheme_ = detect_scheme(labels, pairs=pairs_of_codes(labels, gold, offsets))
        self.labels_, self.grams_, self.mark_ = list(labels), grams, os.urandom(8).hex()
        self.training_ = {
            "sentences": len(offsets) - 1,
            "tokens": int(offsets[-1]),
            "seconds": round(time.perf_counter() - begun, 3),
            "stopped": "done",
            "labelwright": __version__,
        }
        return self

    def _check_parameters(self) -> None:
        check_order(self.ngram)
        inference_named(self.inference)
        proposals.check_weighting(self.weighting)
        proposals.check_lengths(self.lengths, self.ngram)
        n_threads(self.n_jobs)

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of first appearance in the training data."""
        self._check_fitted()
        return list(self.labels_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "grams_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit")

    # -- candidates -------------------------------------------------------------------------------------------

    def encode(self, X: Any) -> Proposed:
        """Ask the classifier once; what labels sentences takes the result, with its weights, in place of X."""
        self._check_fitted()
        if isinstance(X, Proposed):
            if X.owner != self.mark_:
                raise OptionError("the encoded data belong to another model; encode them with this one")
            return X
        return Proposed(list(self._blocks(X)), self.mark_)

    def _blocks(self, X: Any) -> Iterator[Candidates]:
        """Candidates of all sentences, block by block."""
        self._check_fitted()
        if isinstance(X, Proposed):
            yield from self.encode(X).blocks
            return
        X = listed(X)
        offsets = _offsets(X)
        said = self._distributions(X) if offsets[-1] > 0 else iter([(certain([]), offsets)])
        for found, bounds in _shown(said, int(offsets[-1]), self.verbose):
            yield proposals.propose(found, self.grams_, bounds, self.weighting, self.lengths)

    def candidates(self, X: Any) -> list[list[list[str]]]:
        """The candidate labels of every token: its own prediction, then those of its nearest neighbours."""
        return [
            [self._names(row[:size]) for row, size in zip(rows.tolist(), sizes.tolist(), strict=True)]
            for block in self._blocks(X)
            for rows, sizes in zip(_cut(block.domains, block), _cut(block.sizes, block), strict=True)
        ]

    def n_sequences(self, X: Any) -> list[float]:
        """How many candidate sequences each sentence has (table 2 of the paper has their mean)."""
        return [float(n) for block in self._blocks(X) for n in proposals.n_sequences(block)]

    def predict_ngrams(self, X: Any) -> list[list[tuple[str | None, ...]]]:
        """The predicted class of every token: its label with those around it, None outside the sentence."""
        names = [*self.classes_, None]  # -1 is the last
        table = [tuple(names[code] for code in gram) for gram in self.grams_.tolist()]
        return [[table[c] for c in row.tolist()] for block in self._blocks(X) for row in _cut(block.classes, block)]

    # -- answers ----------------------------------------------------------------------------------------------

    def decode(
        self, X: Any, inference: str | None = None, *, constraints: Any = None, time_limit: float | None = None
    ) -> list[Decoding]:
        """The labelling of each sentence; its score is the weight of the constraints that it satisfies.

        inference : none, vote or csi (None: as the model says); only the labelling of csi is a proven optimum
        constraints : "scheme" (or a scheme's name) allows only valid labellings (where the candidates make none, every
            label of the model is a candidate); rules
            (labelwright.constraints: one, a list, functions of the sentence) go to a solver, for `time_limit`
            seconds a sentence at most (both with csi only)
        """
        self._check_fitted()
        name = self.inference if inference is None else inference
        find = inference_named(name)
        check_seconds(time_limit)
        if constraints is not None and name != "csi":
            raise OptionError(f"constraints: inference {name!r} looks at single tokens; use 'csi'")
        scheme, rules = rules_among(constraints)
        permitted, X = self._allowed(scheme), listed(X)
        answers: list[Decoding] = []
        with Workers(self.n_jobs) as workers:
            for block in self._blocks(X):
                found = csi(block, permitted, workers) if name == "csi" else find(block)
                wide = {
                    sentence: self._widen(block, sentence, permitted, found, len(answers) + sentence, scheme)
                    for sentence in np.flatnonzero(found.scores == -np.inf).tolist()
                }
                answers += self._decodings(block, found, proven=name == "csi")
                if rules:
                    kept = [*([scheme] if scheme else []), *rules]
                    self._keep_rules(block, wide, kept, words_of(X), time_limit, answers)
        return answers

    def _widen(
        self, block: Candidates, sentence: int, permitted: Allowed, found: Inferred, number: int, scheme: Any
    ) -> Candidates:
        """Find the best labelling of a sentence whose candidates allow none, with every label a candidate."""
        a, b = block.offsets[sentence : sentence + 2].tolist()
        wide = proposals.widened(block, sentence, len(self.labels_))
        with _too_wide(number, scheme):
            best = csi(wide, permitted)
        if best.scores[0] == -np.inf:
            raise _impossible(number, scheme)
        found.labels[a:b], found.scores[sentence] = best.labels, best.scores[0]
        return wide

    def _decodings(self, block: Candidates, found: Inferred, proven: bool) -> list[Decoding]:
        return [
            Decoding(self._names(row.tolist()), score, None, proven, 0.0 if proven else None)
            for row, score in zip(_cut(found.labels, block), found.scores.tolist(), strict=True)
        ]

    def _keep_rules(
        self,
        block: Candidates,
        wide: dict[int, Candidates],
        rules: Any,
        words: Any,
        time_limit: float | None,
        answers: list[Decoding],
    ) -> None:
        """Put the labellings that users' own rules leave in place of the last answers, by the solver; `wide` are the
        sentences that had to be widened, as are those now whose candidates cannot keep the rules."""
        from labelwright.rules.solver import solve_candidates

        for sentence, number in enumerate(range(len(answers) - block.n_sentences, len(answers))):
            one = proposals.part(block, sentence, sentence + 1) if sentence not in wide else wide[sentence]
            found = solve_candidates(
                proposals.problem(one, 0, self.labels_),
                rules,
                time_limit,
                words=None if words is None else words[number],
                number=number,
                labels=self.labels_,
                scheme=self.scheme_,
                best=answers[number].labels,
                wider=None if sentence in wide else partial(self._wider, block, sentence),
            )
            proven = found.status == "optimal"
            gap = 0.0 if proven else None
            answers[number] = Decoding(found.labels, found.score, None, proven, gap, status=found.status)

    def _wider(self, block: Candidates, sentence: int) -> proposals.Problem:
        """A sentence with every label a candidate, for the solver."""
        return proposals.problem(proposals.widened(block, sentence, len(self.labels_)), 0, self.labels_)

    def predict(self, X: Any) -> list[list[str]]:
        """The labels of each sentence, by the model's own inference."""
        return [found.labels for found in self.decode(X)]

    def predict_nbest(
        self, X: Any, n: int = 5, *, constraints: str | None = None
    ) -> list[list[tuple[list[str], float]]]:
        """Up to n labellings of each sentence that satisfy most, the best first, with their scores (the model's own
        inference does not matter)."""
        check_whole("n", n, 1, MOST)
        self._check_fitted()
        if constraints is not None and not isinstance(constraints, str):
            raise OptionError(f"constraints: expected 'scheme' here, got {constraints!r}; rules are for decode")
        permitted = self._allowed(constraints)
        answers: list[list[tuple[list[str], float]]] = []
        for block in self._blocks(X):
            for sentence in range(block.n_sentences):
                rows, scores = best_labellings(block, sentence, n, permitted)
                if not rows:
                    wide = proposals.widened(block, sentence, len(self.labels_))
                    with _too_wide(len(answers), constraints):
                        rows, scores = best_labellings(wide, 0, n, permitted)
                if not rows:
                    raise _impossible(len(answers), constraints)
                answers.append([(self._names(row.tolist()), score) for row, score in zip(rows, scores, strict=True)])
        return answers

    def predict_oracle(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> list[list[str]]:
        """The true label wherever it is among the candidates, else the token's own prediction: for evaluation only."""
        self._check_fitted()
        y = _true_labels("predict_oracle", X, y)
        data = self.encode(X)
        lengths = [np.diff(block.offsets) for block in data.blocks]
        check_lengths(y, np.concatenate([[0], np.cumsum(np.concatenate([[], *lengths]))]).astype(np.int64))
        index = {label: code for code, label in enumerate(self.labels_)}
        answers: list[list[str]] = []
        for block in data.blocks:
            known = y[len(answers) : len(answers) + block.n_sentences]
            gold = np.array([index.get(label, -1) for labels in known for label in labels], np.int32)
            answers += [d.labels for d in self._decodings(block, oracle(block, gold), proven=False)]
        return answers

    def predict_spans(self, X: Any, *, constraints: Any = None) -> list[list[Span]]:
        """The spans (chunks, entities) of the labelling, without a probability; `constraints` as in `decode`."""
        found = self.decode(X, constraints=constraints)
        return [spans_of(one.labels) if self.scheme_ is not None else [] for one in found]

    def score(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> float:
        """Token accuracy (the convention of scikit-learn's classifiers)."""
        return evaluate(_true_labels("score", X, y), self.predict(X), reading="token").token_accuracy

    def _names(self, codes: list[int]) -> list[str]:
        return [self.labels_[code] for code in codes]

    def _allowed(self, constraints: str | None) -> Allowed:
        """What may follow what under these constraints."""
        if constraints is None:
            return ANYTHING
        if constraints != "scheme" and constraints not in SCHEMES:
            raise OptionError(f"constraints: expected 'scheme' or one of {', '.join(SCHEMES)}, got {constraints!r}")
        if self.scheme_ is None and constraints == "scheme":
            raise OptionError("constraints='scheme': the labels follow no chunk scheme (B-X, I-X, O, ...)")
        if self.scheme_ is not None and constraints not in ("scheme", self.scheme_):
            raise OptionError(f"constraints: the labels follow {self.scheme_}, got {constraints!r}; use 'scheme'")
        return allowed(self.labels_, self.scheme_ or constraints)


class NgramTagger(NgramModel):
    """Label n-grams from any scikit-learn classifier, made one labelling by constraint satisfaction inference.

    classifier : whatever has fit and predict_proba, or decision_function (through a softmax), or only predict (which is
        certain of what it says); a copy of it learns from a sparse matrix (dense, where it must be) with one column for
        each feature, a MemoryBased (or a search for one) from the columns themselves, with its own n_jobs and whatever
        min_count
    ngram : how many labels a class has, the token's own in the middle (1, 3, 5, ...)
    inference : csi, vote, or none (the middle label of the predicted class; with ngram=1 a plain classifier)
    template, min_count : which features tokens have, as in the other models; transitions (B lines) are left out
    weighting : what a constraint is worth: confidence (the paper), count, squared, log, length, or a function of the
        confidences and lengths of constraints (arrays)
    lengths : the lengths of the constraints that count; None for all of 1..ngram

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tagger = NgramTagger(DecisionTreeClassifier(random_state=0)).fit([["the", "dog"], ["it"]], [["B", "I"], ["B"]])
    >>> tagger.predict([["the", "dog"]])
    [['B', 'I']]
    """

    extractor_: Extractor
    windows_: Windows  # in its stead, where the classifier is a MemoryBased
    dense_: bool  # does the classifier refuse sparse matrices?
    classifier_: Any  # trained; None where all tokens of the training data are of one class

    def __init__(
        self,
        classifier: Any,
        ngram: int = 3,
        inference: str = "csi",
        template: str | Template = "window",
        min_count: int = 1,
        weighting: str | Weighting = "confidence",
        lengths: Sequence[int] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.classifier = classifier
        self.ngram = ngram
        self.inference = inference
        self.template = template
        self.min_count = min_count
        self.weighting = weighting
        self.lengths = lengths
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole("min_count", self.min_count, 1)
        can = [name for name in ("fit", *ASK) if callable(getattr(self.classifier, name, None))]
        if isinstance(self.classifier, type) or can[:1] != ["fit"] or len(can) < 2:
            raise OptionError(
                f"classifier: expected an object with fit and one of {', '.join(ASK)}, got {self.classifier!r:.60}"
            )

    def _fit_classifier(self, X: Any, classes: Array, n_classes: int) -> None:
        if getattr(self.classifier, "takes_columns", False):  # a MemoryBased
            self.windows_ = windows(X, self.template)
            self.classifier_ = _copy_of(self.classifier).fit(self.windows_.instances(X)[0], classes)
            return
        self.extractor_, layers, _ = learn(X, self.template, self.min_count)
        matrix = feature_matrix(layers["state"], self.extractor_.n_features)
        if not matrix.nnz:
            raise OptionError("template: no token has a feature of its own; use U lines (or dicts that are not empty)")
        if n_classes == 1:
            self.classifier_ = None
            return
        self.dense_ = False
        try:
            self.classifier_ = _copy_of(self.classifier).fit(matrix, classes)
        except TypeError as error:
            if "parse" not in str(error):
                raise
            self.dense_ = True  # it takes no sparse matrix
            self.classifier_ = _copy_of(self.classifier).fit(matrix.toarray(), classes)

    def _distributions(self, X: Any) -> Iterator[tuple[Distributions, Array]]:
        if getattr(self.classifier, "takes_columns", False):
            yield from remembered(self.classifier_, self.windows_, X)
            return
        layers, offsets = self.extractor_.encode(X)
        matrix = feature_matrix(layers["state"], self.extractor_.n_features)
        for begin, end in sentence_ranges(offsets, max(1, BLOCK_NUMBERS // len(self.grams_))):
            bounds = offsets[begin : end + 1]
            t0, t1 = bounds[[0, -1]].tolist()
            yield self._ask(matrix[t0:t1]), bounds - t0

    def _ask(self, rows: Any) -> Distributions:
        """What the classifier says of rows of features."""
        if self.classifier_ is None or not rows.shape[0]:
            return certain(np.zeros(rows.shape[0], np.int32))
        rows = rows.toarray() if self.dense_ else rows
        method = next(name for name in ASK if hasattr(self.classifier_, name))
        classes = np.asarray(getattr(self.classifier_, "classes_", np.arange(len(self.grams_))))
        try:
            return ASK[method](np.asarray(getattr(self.classifier_, method)(rows)), classes)
        except OptionError as error:
            raise OptionError(f"{type(self.classifier_).__name__}.{method}: {error}") from None

    def save(self, path: Any) -> Self:
        """Not for this model: what a foreign classifier has learnt is code as well as numbers."""
        raise OptionError(
            "save: a NgramTagger holds a classifier that only pickle can store; pickle the tagger, and load only "
            "what you trust"
        )


def remembered(memory: Any, windows: Windows, X: Any) -> Iterator[tuple[Distributions, Array]]:
    """What a MemoryBased whose classes are numbers says of the tokens of X, block by block."""
    data, offsets = windows.instances(X)
    classes = np.array(memory.seen_, np.int32)
    for begin, end in sentence_ranges(offsets, BLOCK_TOKENS):
        bounds = offsets[begin : end + 1]
        found = memory.answers(data._replace(codes=data.codes[bounds[0] : bounds[-1]]))
        said = Distributions(classes[found.best], found.ptr, classes[found.classes], found.votes)
        yield said, bounds - bounds[0]


def feature_matrix(layer: Incidence, n_features: int) -> Any:
    """The features of tokens as a SciPy CSR matrix [T, F]."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    _, _, _, ptr, feature, value = with_frequent_keys(layer, len(layer.keys) + 1)  # all keys hand over their features
    number = np.int32 if len(feature) < 1 << 31 else np.int64
    data = value.astype(np.float64) if len(value) else np.ones(len(feature))
    matrix = csr_matrix((data, feature.astype(number), ptr.astype(number)), shape=(len(ptr) - 1, n_features))
    matrix.sum_duplicates()
    return matrix


def _from_decisions(decisions: Array, classes: Array) -> Distributions:
    """A softmax over decision values [N, C]; one value [N] means the second of two classes."""
    if decisions.ndim == 1:
        decisions = np.stack([np.zeros_like(decisions), decisions], axis=1)
    if decisions.ndim != 2 or decisions.shape[1] != len(classes):
        raise OptionError(
            f"expected one value for each of {len(classes)} classes, got an array of {decisions.shape}; "
            "let it decide for each class against the rest"
        )
    return from_probabilities(np.exp(decisions - decisions.max(axis=1, keepdims=True)), classes)


def _from_predictions(predicted: Array, classes: Array) -> Distributions:
    if predicted.ndim != 1 or not np.isin(predicted, classes).all():
        raise OptionError("expected one of the classes that it was trained on for each row")
    return certain(predicted)


# What a classifier may be asked, the best first, and how its answer is read.
ASK: dict[str, Callable[[Array, Array], Distributions]] = {
    "predict_proba": from_probabilities,
    "decision_function": _from_decisions,
    "predict": _from_predictions,
}


def _copy_of(classifier: Any) -> Any:
    """An untrained copy, as scikit-learn makes it."""
    try:
        from sklearn.base import clone
    except ImportError:
        raise OptionError("NgramTagger: scikit-learn cannot be imported; pip install scikit-learn") from None
    return clone(classifier, safe=False)


def _offsets(X: Any) -> Array:
    """Where the sentences of X begin and end [N+1]."""
    if isinstance(X, Corpus):
        return X.offsets
    if kind_of(X) == "layered":
        raise OptionError(
            "X: a tagger over n-grams cannot be a layer of a cascade; use a CRF, or its labels as a column"
        )
    return offsets_of(X)


def _cut(flat: Array, block: Candidates) -> list[Array]:
    return [flat[a:b] for a, b in pairwise(block.offsets.tolist())]


def _true_labels(asker: str, X: Any, y: Sequence[Sequence[str]] | None) -> Sequence[Sequence[str]]:
    gold: Sequence[Sequence[str]] | None = X.y if y is None and isinstance(X, Corpus) else y
    if gold is None:
        raise OptionError(f"{asker}: give the true labels y")
    return gold


def _impossible(sentence: int, scheme: Any) -> OptionError:
    return OptionError(
        f"sentence {sentence}: no labelling with the labels of this model is valid under constraints={scheme!r}; "
        "decode it without constraints"
    )


@contextmanager
def _too_wide(sentence: int, scheme: Any) -> Iterator[None]:
    """Say why the search of a sentence that was widened is too large."""
    try:
        yield
    except OptionError:
        raise OptionError(
            f"sentence {sentence}: its candidates make no valid labelling under constraints={scheme!r}, and with every "
            "label a candidate there are too many tuples of them; use a lower ngram, or decode it without constraints"
        ) from None


def _shown(
    blocks: Iterator[tuple[Distributions, Array]], n_tokens: int, verbose: int
) -> Iterator[tuple[Distributions, Array]]:
    """The same blocks, with a bar on the terminal where one is asked for."""
    if not verbose or not sys.stderr.isatty():
        yield from blocks
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("classifying", total=n_tokens)
        for found, offsets in blocks:
            bar.update(task, advance=int(offsets[-1]))
            yield found, offsets
