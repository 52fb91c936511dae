"""Taggers over label n-grams: a class is an n-gram of labels, predictions overlap, inference makes
one labelling of them.  The classes of an NgramTagger are predicted by any classifier of
scikit-learn.

Canisius, van den Bosch & Daelemans (2006), "Constraint satisfaction inference".
"""

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.answers.batch import Batch, check_lengths
from labelwright.answers.proposed import DECODERS, ProposalBlock
from labelwright.corpus.partial_labels import check_complete
from labelwright.corpus.schemes import Allowed, allowed, detect_scheme, pairs_of_codes
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.decode.csi import ANYTHING, inference_named, oracle
from labelwright.decode.record import check_seconds
from labelwright.errors import CorpusError, OptionError
from labelwright.features.extract import Extractor, learn
from labelwright.features.incidence import Incidence, with_frequent_keys
from labelwright.features.sources import Given
from labelwright.inspection.explanation import Asked, Evidence, Explanation, explained
from labelwright.inspection.ngram_evidence import Predictions, ProposedSentence
from labelwright.memory.windows import NO_VECTORS, Windows, offsets_of, windows
from labelwright.parallel import Workers, sentence_ranges
from labelwright.settings import (
    REQUIRED,
    Bounds,
    Choice,
    Default,
    Kind,
    Limit,
    RecipeOnly,
    Signed,
    Whole,
)
from labelwright.structures import proposals
from labelwright.structures.passing import Layered, Passed, likely
from labelwright.structures.passing import certain as passed_labels
from labelwright.structures.proposals import (
    LONGEST,
    Distributions,
    Proposals,
    Weighting,
    certain,
    from_probabilities,
    label_shares,
    ngram_classes,
)
from labelwright.taggers.arguments import (
    Known,
    Question,
    labelled,
    of_this_model,
    token_weights,
    true_labels,
)
from labelwright.taggers.base import (
    CONFIDENCE,
    EXPLANATION,
    FORCED,
    LAYER,
    NBEST,
    ORACLE,
    RULES,
    SHARES,
    Confidences,
    Tagger,
)
from labelwright.taggers.declared import COMMON, chosen, declared
from labelwright.taggers.linear import with_arrays
from labelwright.wording import shown

Array = NDArray[Any]
R = TypeVar("R")
BLOCK_TOKENS = 1 << 14  # that a memory is asked about at once
BLOCK_NUMBERS = 1 << 22  # probabilities that a classifier is asked for at once


class OddNumber(Whole):
    """An odd number of labels."""

    expected = f"an odd number, 1 to {LONGEST}"

    def __init__(self) -> None:
        super().__init__(Bounds(Limit("", lambda value: 1 <= value <= LONGEST and value % 2 == 1)))


class Inference(Choice):
    """How overlapping predictions become one labelling, without the true labels."""

    def complaint(self, value: Any) -> str | None:
        if value == "oracle":
            return (
                "the oracle needs the true labels; use predict_oracle, or labelwright eval MODEL "
                "TEST --oracle"
            )
        return super().complaint(value)


class NameOrFunction(Choice):
    """The name of a weighting, or a function."""

    def complaint(self, value: Any) -> str | None:
        wrong = None if callable(value) else super().complaint(value)
        return wrong and (
            f"expected {self.expected}, or a function of confidences and lengths, got "
            f"{shown(value, 60)}"
        )


class WholeNumbers(Kind):
    """A list of whole numbers."""

    expected = "a list of whole numbers"

    def accepts(self, value: Any) -> bool:
        return hasattr(value, "__iter__") and not isinstance(value, str | Mapping)


# fmt: off
NGRAM = COMMON | declared(
    ngram=(int, 3, (
        "Labels of a predicted n-gram, the token's own in the "
        "middle."
    ), OddNumber(), Signed()),
    inference=(str, "csi",
        (
        "How predictions that overlap become one labelling: csi (satisfies the most constraints), "
        "vote or none."
        ),
        Inference(DECODERS), Signed()),
    weighting=(str | Weighting, "confidence", (
        "Weight of a constraint: confidence, count, squared, log or "
        "length."
    ),
        NameOrFunction(proposals.WEIGHTINGS), Signed()),
    lengths=(Sequence[int] | None, None, (
        "Lengths of the constraints that count, a list of whole "
        "numbers."
    ),
        WholeNumbers(), RecipeOnly(), Default("all of 1 to ngram")),
    classifier=(Any, REQUIRED,
        "Has fit and predict_proba, decision_function (through a softmax) or only predict; learns "
        "from a sparse matrix with a column for each feature, a MemoryBased from the columns of "
        "the template themselves."),
)
# fmt: on


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """What the classifier says of some sentences, asked once; its length is their number."""

    blocks: list[Proposals]
    owner: str  # which fit made it

    def __len__(self) -> int:
        return sum(block.n_sentences for block in self.blocks)


class NgramTagger(Confidences, Tagger):
    """Label n-grams from any scikit-learn classifier, made one labelling by constraint satisfaction
    inference.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = [["the", "dog"], ["it"]], [["B", "I"], ["B"]]
    >>> tagger = NgramTagger(DecisionTreeClassifier(random_state=0)).fit(X, y)
    >>> tagger.predict([["the", "dog"]])
    [['B', 'I']]
    """

    can: ClassVar[frozenset[str]] = frozenset(
        {CONFIDENCE, NBEST, ORACLE, RULES, EXPLANATION, LAYER, SHARES}
    )
    decoders: ClassVar[tuple[str, ...]] = DECODERS
    _default_decoder: ClassVar[str] = "csi"
    _decoder_flag: ClassVar[str] = "--inference"
    _rule_options: ClassVar[tuple[str, ...]] = ("probabilities", "time_limit")
    _further_options: ClassVar[frozenset[str]] = frozenset({"inference", "time_limit"})
    _answer_settings: ClassVar[frozenset[str]] = frozenset({"inference", "weighting", "lengths"})
    classifier: Any
    template: Any
    min_count: int
    ngram: int
    inference: str
    weighting: str | Weighting
    lengths: Sequence[int] | None = None
    n_jobs: int | None
    verbose: int = 0
    dictionaries: Mapping[str, Any] | None = None
    clusters: Mapping[str, Mapping[str, str]] | None = None
    vectors: Any = None
    class_weight: str | Mapping[str, float] | None = None

    # What fit learns.
    labels_: list[str]  # [L]
    grams_: Array  # [C, n] int32  labels of each class; -1 outside the sentence
    scheme_: str | None  # of the labels, where they follow one
    mark_: str  # tells this fit from all others
    _extractor: Extractor
    windows_: Windows  # instead of it, where the classifier is a MemoryBased
    dense_: bool  # does the classifier refuse sparse matrices?
    classifier_: Any  # trained; None where all tokens of the training data are of one class
    training_: dict[str, Any]  # record of the run

    _declared = chosen(
        "classifier ngram inference template min_count weighting lengths n_jobs verbose "
        "dictionaries clusters vectors class_weight",
        NGRAM,
        template="window",
    )

    # -- fit ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None = None,
        *,
        arrays: Sequence[Any] | None = None,
        sample_weight: Sequence[Any] | None = None,
    ) -> Self:
        """Train on sentences X and their labels y (or on a Corpus, whose label column is y).

        X, y : sentences and their labels, or a Corpus
        arrays : numbers beside words and columns, an array [tokens, D] for each sentence, as
            predict takes them; not for memories, which compare symbols
        sample_weight : a number for each sentence, or a list of numbers, one for each token: its
            tokens, or the token, count so many times
        """
        self._check_parameters()
        X, y = listed(X), listed(y)
        if arrays is not None:
            X, y = self._with_arrays(X, arrays, y), None
        tokenizer = self._tokenizer_of(X)
        X, labels, gold, offsets = self._complete(X, y)
        often = token_weights(
            gold, offsets, labels, self.class_weight, sample_weight, self._of_part
        )
        # a fit that fails from here on leaves no mixture of two models
        self.__dict__.pop("grams_", None)
        begun = time.perf_counter()
        grams, classes = ngram_classes(gold, offsets, self.ngram)
        given = Given(self.dictionaries, self.clusters, self.vectors, labels=(labels, gold))
        weights = {} if often is None else {"often": often}  # subclasses may do without
        self._fit_classifier(X, classes, len(grams), given, **weights)
        self.scheme_ = detect_scheme(labels, pairs=pairs_of_codes(labels, gold, offsets))
        self.labels_, self.grams_, self.mark_ = list(labels), grams, os.urandom(8).hex()
        self.training_ = {
            "sentences": len(offsets) - 1,
            "tokens": int(offsets[-1]),
            "seconds": round(time.perf_counter() - begun, 3),
            "stopped": "done",
            "labelwright": __version__,
        }
        self._remember_tokenizer(tokenizer)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, sample_weight: Sequence[Any] | None = None
    ) -> Self:
        """Refused: a classifier of n-grams has a fixed set of classes.

        X, y, sample_weight : as in `fit`
        """
        raise OptionError(
            "partial_fit: an NgramTagger cannot learn further; fit again, or use a MemoryTagger"
        )

    def _complete(
        self, X: Any, y: Any, known: Sequence[Any] = ()
    ) -> tuple[Any, list[Any], Array, Array]:
        """Training data, their labels after those that are known, the label of every token [T], and
        where sentences begin [N+1]."""
        X, labels, gold, sets = labelled(X, y, known)
        check_complete(type(self).__name__, labels, sets)
        offsets = _offsets(X)
        if y is not None:
            check_lengths(y, np.diff(offsets).tolist())
        if not len(gold):
            raise CorpusError("X: got no tokens, expected at least one")
        return X, list(labels), gold, offsets

    def _check_parameters(self) -> None:
        super()._check_parameters()
        proposals.check_lengths(self.lengths, self.ngram)
        if "classifier" not in self._parameter_names():
            return
        can = [name for name in ("fit", *ASK) if callable(getattr(self.classifier, name, None))]
        if isinstance(self.classifier, type) or can[:1] != ["fit"] or len(can) < 2:
            raise OptionError(
                f"classifier: expected an object with fit and one of {', '.join(ASK)}, got "
                f"{self.classifier!r:.60}"
            )

    @property
    def compares_symbols(self) -> bool:
        """Whether the classifier is a memory, not one that learns from features."""
        return bool(getattr(self.classifier, "takes_columns", False))

    # -- the classifier; subclasses may have another -----------------------------------------------

    def _fit_classifier(
        self, X: Any, classes: Array, n_classes: int, given: Given, often: Array | None = None
    ) -> None:
        """Learn to predict the classes [T] of the tokens of X; `given` is what the template reads
        beside them, and `often` [T] how many times each token counts."""
        weights = {} if often is None else {"sample_weight": often}
        if weights and "sample_weight" not in inspect.signature(self.classifier.fit).parameters:
            raise OptionError(
                f"sample_weight: {type(self.classifier).__name__}.fit takes no weights; leave them "
                "out"
            )
        if self.compares_symbols:  # a MemoryBased
            self.windows_, data = windows(X, self.template, given)
            self.classifier_ = _copy_of(self.classifier).fit(data, classes, **weights)
            return
        self._extractor, incidences, _ = learn(X, self.template, self.min_count, given=given)
        matrix = feature_matrix(incidences["state"], self._extractor.n_features)
        if not matrix.nnz:
            raise OptionError(
                "template: no token has a feature of its own; use U lines (or dicts that are not "
                "empty)"
            )
        if n_classes == 1:
            self.classifier_ = None
            return
        self.dense_ = False
        try:
            self.classifier_ = _copy_of(self.classifier).fit(matrix, classes, **weights)
        except TypeError as error:
            if "parse" not in str(error):
                raise
            self.dense_ = True  # it takes no sparse matrix
            self.classifier_ = _copy_of(self.classifier).fit(matrix.toarray(), classes, **weights)

    def _distributions(self, X: Any) -> Iterator[tuple[Distributions, Array]]:
        """What is said of the tokens of X, in blocks of whole sentences, each with its own offsets
        [N+1] from 0 on."""
        if self.compares_symbols:
            yield from remembered(self.classifier_, self.windows_, X)
            return
        incidences, offsets = self._extractor.encode(X)
        matrix = feature_matrix(incidences["state"], self._extractor.n_features)
        for begin, end in sentence_ranges(offsets, max(1, BLOCK_NUMBERS // len(self.grams_))):
            bounds = offsets[begin : end + 1]
            t0, t1 = bounds[[0, -1]].tolist()
            yield self._classify(matrix[t0:t1]), bounds - t0

    def _classify(self, rows: Any) -> Distributions:
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

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of first appearance in the training data."""
        self._check_fitted()
        return list(self.labels_)

    def _is_fitted(self) -> bool:
        return "grams_" in self.__dict__

    # -- candidates --------------------------------------------------------------------------------

    def encode(self, X: Any, *, arrays: Sequence[Any] | None = None) -> Proposed:
        """Ask the classifier once; what labels sentences takes the result, with its weights, in
        place of X.

        X : sentences, or a Corpus
        arrays : an array [tokens, D] of numbers for each sentence, of a model that was trained with
            them
        """
        self._check_fitted()
        X = X if arrays is None else self._with_arrays(X, arrays)
        if isinstance(X, Proposed):
            return of_this_model(X, self.mark_)
        return Proposed(list(self._blocks(X)), self.mark_)

    def _with_numbers(self, X: Any, arrays: Sequence[Any]) -> Proposed:
        return self.encode(X, arrays=arrays)

    def _with_arrays(self, X: Any, arrays: Sequence[Any], y: Any = None) -> Corpus:
        if self.compares_symbols:
            raise OptionError(f"arrays: {NO_VECTORS}")
        return with_arrays(X, arrays, y)

    @property
    def _labels_as_columns(self) -> bool:  # type: ignore[override]
        return self.compares_symbols

    def _blocks(self, X: Any) -> Iterator[Proposals]:
        """Proposals of all sentences, block by block."""
        return (block for block, _ in self._answered(X))

    def _answered(self, X: Any) -> Iterator[tuple[Proposals, Any]]:
        """The same, with the answers of the classifier, which encoded data do not keep."""
        self._check_fitted()
        if isinstance(X, Proposed):
            yield from ((block, None) for block in self.encode(X).blocks)
            return
        X = listed(X)
        offsets = _offsets(X)
        blocks = self._distributions(X) if offsets[-1] > 0 else iter([(certain([]), offsets)])
        for distributions, bounds in _shown(blocks, int(offsets[-1]), self.verbose):
            proposed = proposals.propose(
                distributions, self.grams_, bounds, self.weighting, self.lengths
            )
            yield proposed, distributions

    def candidates(self, X: Any) -> list[list[list[str]]]:
        """The candidate labels of every token: its own prediction, then those of its nearest
        neighbours.

        X : sentences, a Corpus, or what `encode` returned
        """
        return [
            [
                self._names(row[:size])
                for row, size in zip(rows.tolist(), sizes.tolist(), strict=True)
            ]
            for block in self._blocks(X)
            for rows, sizes in zip(
                _cut(block.domains, block), _cut(block.sizes, block), strict=True
            )
        ]

    def n_sequences(self, X: Any) -> list[float]:
        """How many candidate sequences each sentence has (table 2 of the paper has their mean)."""
        return [float(n) for block in self._blocks(X) for n in proposals.n_sequences(block)]

    def predict_ngrams(self, X: Any) -> list[list[tuple[str | None, ...]]]:
        """The predicted class of every token: its label with those around it, None outside the
        sentence.

        X : sentences, a Corpus, or what `encode` returned
        """
        names = [*self.classes_, None]  # -1 is the last
        table = [tuple(names[code] for code in gram) for gram in self.grams_.tolist()]
        return [
            [table[c] for c in row.tolist()]
            for block in self._blocks(X)
            for row in _cut(block.classes, block)
        ]

    # -- scores ------------------------------------------------------------------------------------

    def _ask(
        self, X: Any, question: Question[R], forced: Known = None, constraints: str | None = None
    ) -> list[R]:
        if forced is not None:
            self._require(FORCED, "forced", "it chooses among proposals of its own; use a CRF")
        allowed_next, answers, first, workers = (
            self._allowed(constraints),
            list[R](),
            0,
            Workers(self.n_jobs),
        )
        for candidates, said in self._answered(X):
            scheme = self.scheme_, allowed_next, constraints
            block = ProposalBlock(candidates, self.labels_, *scheme, workers, first, said)
            answers += question(
                Batch(block.sentences, first, probabilistic=False, calibration=self._calibration)
            )
            block.answers = None  # batches that are kept do not need them
            first += candidates.n_sentences
        return answers

    def _passed_by(self, batch: Batch, cut: float) -> Passed:
        """Shares of votes, of single labels."""
        labels = tuple(self.labels_)
        block = next((sentence.block for sentence in batch if sentence is not None), None)  # type: ignore[union-attr]
        if block is None:
            return passed_labels(labels, [[] for _ in batch])
        if block.answers is None:
            raise OptionError(
                "passed: expected the sentences themselves, got what `encode` made of them"
            )
        shares = label_shares(block.answers, self.grams_, block.candidates.offsets, len(labels))
        slots = likely(block.candidates.offsets, shares, cut).without_pairs
        token = np.repeat(np.arange(len(shares)), np.diff(slots.ptr))
        return Passed(labels, slots, shares[token, slots.label])

    def _asker(self, X: Any) -> Callable[[Question[Any]], list[Any]]:
        batches: list[Batch] = self._ask(X, lambda batch: [batch])  # their graphs are made once
        return lambda question: [answer for batch in batches for answer in question(batch)]

    # -- answers -----------------------------------------------------------------------------------

    def _chosen(
        self, decoder: str | None, options: Mapping[str, Any], ruled: bool
    ) -> tuple[str, dict[str, Any]]:
        """`inference` is another name for the decoder; seconds are those of the solver that keeps
        rules."""
        named = options.get("inference")
        check_seconds(options.get("time_limit"))
        return super()._chosen(decoder if named is None else named, options, ruled)

    def _checked_decoder(self, decoder: str | None) -> str:
        name = self.inference if decoder is None else decoder
        inference_named(name)
        return name

    def _check_constraints(self, decoder: str, constraints: Any) -> None:
        if constraints is not None and decoder != "csi":
            raise OptionError(
                f"constraints: inference {decoder!r} looks at single tokens; use 'csi'"
            )

    def predict_oracle(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> list[list[str]]:
        """The true label wherever it is among the candidates, else the token's own prediction: for
        evaluation only.

        X, y : sentences and their true labels, or a Corpus
        """
        self._check_fitted()
        y = true_labels("predict_oracle", X, y)
        data = self.encode(X)
        check_lengths(
            y, [length for block in data.blocks for length in np.diff(block.offsets).tolist()]
        )
        index = {label: code for code, label in enumerate(self.labels_)}
        answers: list[list[str]] = []
        for block in data.blocks:
            known = y[len(answers) : len(answers) + block.n_sentences]
            gold = np.array(
                [index.get(label, -1) for labels in known for label in labels], np.int32
            )
            codes = oracle(block, gold).labels
            answers += [self._names(row.tolist()) for row in _cut(codes, block)]
        return answers

    def _explained(self, X: Any, words: Sequence[str | None], asked: Asked) -> list[Explanation]:
        return explained(lambda: self._evidence(X, words, asked), self.labels_, words, asked)

    def _evidence(self, X: Any, words: Sequence[str | None], asked: Asked) -> Evidence:
        """What speaks for the labels of one sentence."""
        return ProposedSentence(self, self._predictions(X, asked), words, asked)

    def _predictions(self, X: Any, asked: Asked) -> Predictions:
        ((proposed, distributions),) = self._answered(X)
        (decoded,) = self.decode(Proposed([proposed], self.mark_), constraints=asked.constraints)
        return Predictions(distributions, proposed, decoded.labels, decoded.score)

    def _allowed(self, constraints: str | None) -> Allowed:
        """What may follow what under these constraints."""
        return ANYTHING if constraints is None else allowed(self.labels_, self._scheme(constraints))

    def _names(self, codes: list[int]) -> list[str]:
        return [self.labels_[code] for code in codes]

    def pack(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Not for this model: what a foreign classifier has learnt is code as well as numbers."""
        raise OptionError(
            "save: a NgramTagger holds a classifier that only pickle can store; pickle the tagger, "
            "and load only what you trust"
        )


def remembered(memory: Any, windows: Windows, X: Any) -> Iterator[tuple[Distributions, Array]]:
    """What a MemoryBased whose classes are numbers says of the tokens of X, block by block."""
    classes = np.array(memory.seen_, np.int32)

    def votes(answers: Any) -> Distributions:
        return Distributions(
            classes[answers.best], answers.ptr, classes[answers.classes], answers.votes
        )

    few = windows.few(X)
    answers = None if few is None else memory.answers_to_few(few[0])
    if few is not None and answers is not None:
        yield votes(answers), few[1]
        return
    data, offsets = windows.instances(X)
    for begin, end in sentence_ranges(offsets, BLOCK_TOKENS):
        bounds = offsets[begin : end + 1]
        yield (
            votes(memory.answers(data._replace(codes=data.codes[bounds[0] : bounds[-1]]))),
            bounds - bounds[0],
        )


def _offsets(X: Any) -> Array:
    """Where the sentences of X begin and end [N+1]."""
    if isinstance(X, Corpus):
        return X.offsets
    return _offsets(X.X) if isinstance(X, Layered) else offsets_of(X)


def _cut(flat: Array, block: Proposals) -> list[Array]:
    return [flat[a:b] for a, b in pairwise(block.offsets.tolist())]


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
        for distributions, offsets in blocks:
            bar.update(task, advance=int(offsets[-1]))
            yield distributions, offsets


def feature_matrix(incidence: Incidence, n_features: int) -> Any:
    """The features of tokens as a SciPy CSR matrix [T, F]."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    # without any keys
    _, _, _, ptr, feature, value = with_frequent_keys(incidence, len(incidence.keys) + 1)
    number = np.int32 if len(feature) < 1 << 31 else np.int64
    data = value.astype(np.float64) if len(value) else np.ones(len(feature))
    matrix = csr_matrix(
        (data, feature.astype(number), ptr.astype(number)), shape=(len(ptr) - 1, n_features)
    )
    matrix.sum_duplicates()
    return matrix


def _from_decisions(decisions: Array, classes: Array) -> Distributions:
    """A softmax over decision values [N, C]; one value [N] means the second of two classes."""
    if decisions.ndim == 1:
        decisions = np.stack([np.zeros_like(decisions), decisions], axis=1)
    if decisions.ndim != 2 or decisions.shape[1] != len(classes):
        raise OptionError(
            f"expected one value for each of {len(classes)} classes, got an array of "
            f"{decisions.shape}; let it decide for each class against the rest"
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
        raise OptionError(
            "NgramTagger: scikit-learn cannot be imported; pip install 'labelwright[sklearn]'"
        ) from None
    return clone(classifier, safe=False)
