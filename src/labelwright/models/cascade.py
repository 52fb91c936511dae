"""Cascades of taggers: each layer reads the labels of the one below (Azuma & Matsumoto 2011)."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.corpus.spans import Span
from labelwright.corpus.table import Column, Corpus
from labelwright.decode import Decoding
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import kind_of
from labelwright.learn.joint import Joint, Stack
from labelwright.learn.lbfgs import lbfgs
from labelwright.learn.monitor import Monitor, ProgressBar, Record
from labelwright.models.estimator import Estimator
from labelwright.models.loglinear import LogLinearModel
from labelwright.models.training import INTEGER, REAL, TrainableModel
from labelwright.models.warm import Trained, carry_over
from labelwright.parallel import Workers
from labelwright.passing import Layered, Passed, certain, joined, mixed, part

Array = NDArray[Any]
PASSING = ("best", "marginal", "joint", "sample", "nbest")
READINGS = 10  # labellings passed by "sample" and "nbest"
FOLDS = 5
LEXICON = "lexicon"  # name of the column of labels that words have had


class Cascade(Estimator):
    """Layers of taggers over the same sentences, the lowest first; each reads the input and the labels below it.

    Parameters
    ----------
    layers : [(name, model), ...]: CRF, LatentCRF, SemiCRF; with passing="best" also Perceptron and LatentPerceptron.
        Templates read the labels below by `%y[row]`; a template without it gets the usual lines.
    passing : what a layer is passed: "best" (the best labels), "marginal" (all likely labels, their features weighted
        by their probabilities), "joint" (the same, and then all layers learn together), "sample" (labels
        of drawn labellings), "nbest" (labels of the most probable labellings)
    shares : how much the loss of each layer counts in joint training: {name: number}; 1 where none is given
    jackknife : train upper layers on what lower ones say of sentences that they were not trained on (in five parts)
    cut : labels less probable than this are not passed
    lexicon : name of a layer: the labels of this layer that each word had in training become one more column of input,
        as in `NN|VB`, which `%each` reads
    max_iter, tol : limit of joint training, and when it stops; each layer has its own for the training before it
    n_jobs, random_state, verbose : as elsewhere; they hold for every layer

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = {"pos": [["D", "N", "V"]] * 2, "chunk": [["B-NP", "I-NP", "B-VP"]] * 2}
    >>> from labelwright import CRF
    >>> Cascade([("pos", CRF()), ("chunk", CRF())], n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    {'pos': [['D', 'N', 'V']], 'chunk': [['B-NP', 'I-NP', 'B-VP']]}
    """

    layers_: dict[str, TrainableModel]
    training_: dict[str, Any]
    history_: list[dict[str, Any]]
    inputs_: tuple[str, ...]  # names of the columns of input
    lexicon_: "Lexicon | None"

    def __init__(
        self,
        layers: Sequence[tuple[str, Any]],
        passing: str = "joint",
        shares: Mapping[str, float] | None = None,
        jackknife: bool = False,
        cut: float = 0.001,
        lexicon: str | None = None,
        max_iter: int | None = None,
        tol: float = 1e-5,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ):
        self.layers = layers
        self.passing = passing
        self.shares = shares
        self.jackknife = jackknife
        self.cut = cut
        self.lexicon = lexicon
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- training ---------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Mapping[str, Sequence[Sequence[str]]] | None = None,
        *,
        dev: Any = None,
        progress: Callable[[Record, int], None] | None = None,
        layer_progress: Callable[[str, TrainableModel], Any] | None = None,
    ) -> Self:
        """Train on sentences X and the labels of every layer: y = {name: labels}, or a Corpus with columns so named.

        dev : (X, y) or a Corpus; joint training keeps the weights that do best on it, by the mean of the layers' scores
        progress : called with every iteration of joint training
        layer_progress : called with the name and the model of each layer before it is trained (once for each part of
            the jackknife, too), gives what is called with every iteration of it; closed afterwards if it can be"""
        self._check()
        names = [name for name, _ in self.layers]
        X, gold = self._labelled(X, y, names)
        for attribute in ("layers_", "before_"):
            self.__dict__.pop(attribute, None)
        begun = time.monotonic()
        self.inputs_ = X.input_names if isinstance(X, Corpus) else ()
        self.lexicon_ = None
        source = self._input(X)
        if self.lexicon is not None:
            self.lexicon_, source = Lexicon.learn(_columns(X), gold[self.lexicon])
        fitted: dict[str, TrainableModel] = {}
        inputs, shifted = [source], []
        for k, (name, model) in enumerate(self.layers):
            train = _Training(self, name, model, layer_progress)
            fitted[name] = train(inputs[k], gold[name])
            if k + 1 < len(self.layers):
                passed, versions = self._trained_passing(train, fitted[name], inputs[k], gold[name])
                shifted.append(versions)
                inputs.append(Layered(source, passed))
        self.layers_ = fitted
        self.history_ = [dict(record) for record in fitted[names[-1]].history_]
        self.training_ = {"layers": {name: model.training_ for name, model in fitted.items()}}
        interrupted = any(model.training_["stopped"] == "interrupted" for model in fitted.values())
        if self.passing == "joint" and len(names) > 1 and not interrupted:
            self.before_ = self._as_it_is()
            development = None if dev is None else self._labelled(*_pair(dev), names)
            self._learn_together(inputs, gold, shifted, development, progress)
        self.training_ |= {"seconds": round(time.monotonic() - begun, 3), "labelwright": __version__}
        return self

    def _check(self) -> None:
        layers = self.layers
        sound = isinstance(layers, Sequence) and not isinstance(layers, str) and len(layers) > 0
        if not sound or not all(isinstance(layer, Sequence) and len(layer) == 2 for layer in layers):
            raise OptionError("layers: expected a list of pairs, [('pos', CRF()), ('chunk', CRF())]")
        names = [name for name, _ in layers]
        for name, model in layers:
            if not isinstance(name, str) or not name:
                raise OptionError(f"layers: the name of a layer must be a word, got {name!r}")
            if names.count(name) > 1:
                raise OptionError(f"layers: two layers are named {name!r}; give each a name of its own")
            if not isinstance(model, TrainableModel):
                raise OptionError(f"layers: {name}: expected a model of labelwright, got {type(model).__name__}")
            if not model.probabilistic and self.passing != "best":
                raise OptionError(
                    f"layers: {name}: a {type(model).__name__} has no probabilities to pass; use passing='best'"
                )
            if self.passing == "joint" and getattr(model, "l1", 0) > 0:
                raise OptionError(f"layers: {name}: joint training has no L1 penalty; use l1=0, or passing='marginal'")
        if self.passing not in PASSING:
            raise OptionError(f"passing: expected one of {', '.join(PASSING)}, got {self.passing!r}")
        if self.lexicon is not None and self.lexicon not in names:
            raise OptionError(f"lexicon: expected a layer, one of {', '.join(names)}, got {self.lexicon!r}")
        if not isinstance(self.cut, int | float) or not 0 <= self.cut < 1:
            raise OptionError(f"cut: expected a probability below 1, got {self.cut!r}")
        if self.max_iter is not None and (not isinstance(self.max_iter, INTEGER) or self.max_iter < 1):
            raise OptionError(f"max_iter: expected a whole number of 1 or more, got {self.max_iter!r}")
        if not isinstance(self.tol, REAL) or not self.tol >= 0:
            raise OptionError(f"tol: expected a number of 0 or more, got {self.tol!r}")
        for name, share in (self.shares or {}).items():
            if name not in names:
                raise OptionError(f"shares: no layer {name!r}, expected one of {', '.join(names)}")
            if not isinstance(share, int | float) or not 0 <= share < float("inf"):
                raise OptionError(f"shares: {name}: expected a number of 0 or more, got {share!r}")

    def _labelled(
        self, X: Any, y: Mapping[str, Sequence[Sequence[str]]] | None, names: list[str]
    ) -> tuple[Any, dict[str, Sequence[Sequence[str]]]]:
        """The input without labels, and the labels of every layer."""
        if y is None and isinstance(X, Corpus):
            missing = [name for name in names if name not in X.names]
            if missing:
                raise CorpusError(
                    f"{X.source}: no column for the layer {missing[0]!r}, expected it among {', '.join(X.names)}"
                )
            y = {name: X.column(name) for name in names}
        if not isinstance(y, Mapping):
            raise OptionError(f"y: expected the labels of every layer, {{{names[0]!r}: [...], ...}}")
        for name in names:
            if name not in y:
                raise OptionError(f"y: no labels for the layer {name!r}, got those of {', '.join(y) or 'none'}")
        for name in y:
            if name not in names:
                raise OptionError(f"y: no layer {name!r}, expected {', '.join(names)}")
        if isinstance(X, Corpus):
            X = X.select([n for n in X.names if n not in names and n != X.label])
            if not X.names:
                raise CorpusError(f"{X.source}: no column is left to read beside those of the layers")
        elif kind_of(X) == "columns":
            X = Corpus.from_sequences(X)
        lengths = np.diff(X.offsets).tolist() if isinstance(X, Corpus) else [len(sentence) for sentence in X]
        for name in names:
            if len(y[name]) != len(lengths):
                raise CorpusError(f"y: {name}: {len(y[name])} sentences, but X has {len(lengths)}")
            for n, (labels, length) in enumerate(zip(y[name], lengths, strict=True)):
                if len(labels) != length:
                    raise CorpusError(
                        f"y: {name}: sentence {n} has {len(labels)} labels, but X has {length} tokens there"
                    )
                if any(not isinstance(label, str) or not label or label == "_" for label in labels):
                    raise CorpusError(f"y: {name}: sentence {n} has a token without a label; label it, or leave it out")
        return X, dict(y)

    def _input(self, X: Any) -> Any:
        """What the lowest layer reads."""
        if isinstance(X, Corpus):
            names: Sequence[str] = self.inputs_
            if not set(names) <= set(X.names):  # under other names, as many
                names = [name for name in X.input_names if name not in dict(self.layers)]
            if len(names) != len(self.inputs_):
                raise CorpusError(
                    f"{X.source}: the cascade reads the columns {','.join(self.inputs_)}, got {','.join(X.names)}"
                )
            X = X.select(names)
        elif kind_of(X) == "columns":
            X = Corpus.from_sequences(X)
        if self.lexicon_ is not None:
            X = self.lexicon_.column(_columns(X))
        return X

    def _fresh(self, model: TrainableModel) -> TrainableModel:
        """An untrained copy, with this cascade's threads and seed where it has none of its own."""
        fresh = type(model)(**model.get_params())
        for name in ("n_jobs", "random_state", "verbose"):
            if not getattr(fresh, name):
                setattr(fresh, name, getattr(self, name))
        return fresh

    def _passed(self, model: TrainableModel, X: Any) -> Passed:
        """What a trained layer passes to the next."""
        if self.passing == "best":
            return certain(model.space_.labels, model.predict(X))
        if self.passing == "nbest":
            return mixed(model.space_.labels, [_normalised(found) for found in model.predict_nbest(X, n=READINGS)])
        assert isinstance(model, LogLinearModel)
        if self.passing == "sample":
            return mixed(model.space_.labels, model.sample(X, READINGS, self.random_state or 0))
        return model.passed(X, self.cut)

    def _trained_passing(
        self, train: "_Training", trained: TrainableModel, X: Any, gold: Sequence[Sequence[str]]
    ) -> tuple[Passed, list["_Version"]]:
        """What a layer passes of its training data, and the models that say so of which sentences."""
        n = len(gold)
        if not self.jackknife or n < 2:
            return self._passed(trained, X), [_Version(0, n, trained)]
        bounds = np.linspace(0, n, min(FOLDS, n) + 1).astype(int).tolist()
        said, versions = [], []
        for a, b in pairwise(bounds):
            rest = train(_some(X, [(0, a), (b, n)]), [*gold[:a], *gold[b:]])
            said.append(self._passed(rest, _some(X, [(a, b)])).relabelled(trained.space_.labels))
            versions.append(_Version(a, b, rest))
        return joined(said), versions

    def _learn_together(
        self,
        inputs: list[Any],
        gold: Mapping[str, Sequence[Sequence[str]]],
        shifted: list[list["_Version"]],
        development: tuple[Any, dict[str, Any]] | None,
        progress: Any,
    ) -> None:
        """Maximise the shares of all layers' likelihoods, from where each alone has arrived."""
        models = list(self.layers_.values())
        bar = ProgressBar(self.max_iter, self.tol) if progress is None and self.verbose else None
        dev = None if development is None else self._dev_score(*development)
        limit = self.max_iter or 1000
        monitor = Monitor(limit, self.tol, dev=dev, dev_from=0, progress=progress or bar)
        start = np.concatenate([model.weights_ for model in models])
        sizes = [len(model.weights_) for model in models]
        with monitor, Workers(self.n_jobs) as workers:
            stacks = self._stacks(models, inputs, gold, shifted, workers)
            l2 = [float(getattr(model, "l2", 0.0)) for model in models]
            weights = lbfgs(Joint(stacks, sizes, l2), start, 0.0, monitor, workers)
        if bar is not None:
            bar.close()
        self._set_weights(weights)
        self.history_ = [dict(record) for record in monitor.history]
        last = self.history_[-1]
        self.training_["joint"] = {
            "iterations": last["iteration"],
            "loss": last["loss"],
            "stopped": "interrupted" if monitor.interrupted else monitor.reason,
        }
        if monitor.best_iteration is not None:
            self.training_["joint"] |= {"best_iteration": monitor.best_iteration, "best_dev": monitor.merit}

    def _stacks(
        self,
        models: list[TrainableModel],
        inputs: list[Any],
        gold: Mapping[str, Sequence[Sequence[str]]],
        shifted: list[list["_Version"]],
        workers: Workers,
        dtype: Any = np.float32,
    ) -> list[Stack]:
        """The objectives of all layers over all sentences; with jackknife, over each part of them with weights that
        have not seen it, which count only for the layers above, and once more over all for the layers' own losses."""
        names, n = list(self.layers_), len(inputs[0])
        shares = [float((self.shares or {}).get(name, 1.0)) for name in names]
        ranges = [(version.begin, version.end) for version in shifted[0]]
        stacks = []
        for i, (a, b) in enumerate(ranges):
            layers, constants, shifts = [], [], []
            for k, (name, model) in enumerate(zip(names, models, strict=True)):
                X = inputs[k] if (a, b) == (0, n) else _some(inputs[k], [(a, b)])
                above = None
                if k + 1 < len(models):
                    passed = inputs[k + 1].passed
                    above = passed.candidates if (a, b) == (0, n) else part(passed, a, b).candidates
                layer, fixed = model.objective(X, gold[name][a:b], workers, above, dtype)
                layers.append(layer)
                constants.append(fixed)
                other = shifted[k][i].model if k < len(shifted) else model
                shifts.append(None if other is model else _in_terms_of(model, other) - model.weights_)
            alone = len(ranges) == 1
            stacks.append(
                Stack(layers, constants, shares if alone else [0.0] * (len(models) - 1) + shares[-1:], shifts)
            )
        for top in range(len(models) - 1 if len(ranges) > 1 else 0):
            layers, constants = [], []
            for k in range(top + 1):
                above = inputs[k + 1].passed.candidates if k < top else None
                layer, fixed = models[k].objective(inputs[k], gold[names[k]], workers, above, dtype)
                layers.append(layer)
                constants.append(fixed)
            stacks.append(Stack(layers, constants, [0.0] * top + [shares[top]], [None] * (top + 1)))
        return stacks

    def _set_weights(self, weights: Array) -> None:
        begin = 0
        for model in self.layers_.values():
            model.weights_ = weights[begin : begin + len(model.weights_)].copy()
            begin += len(model.weights_)

    def _as_it_is(self) -> "Cascade":
        """A copy with the weights of now."""
        twin = copy.copy(self)
        twin.layers_ = {name: copy.copy(model) for name, model in self.layers_.items()}
        return twin

    def _dev_score(self, X: Any, gold: Mapping[str, Any]) -> Callable[[Array], float]:
        def score(weights: Array) -> float:
            self._set_weights(weights)
            found = self.predict(X)
            return sum(evaluate(gold[name], found[name]).score for name in found) / len(found)

        return score

    # -- answers ----------------------------------------------------------------------------------------------

    def climb(self, X: Any) -> Iterator[tuple[str, TrainableModel, Any]]:
        """Every layer with its input, the lowest first: (name, model, what the model reads)."""
        self._check_fitted()
        source = self._input(X)
        above = source
        for k, (name, model) in enumerate(self.layers_.items()):
            yield name, model, above
            if k + 1 < len(self.layers_):
                above = Layered(source, self._passed(model, above))

    def predict(self, X: Any) -> dict[str, list[list[str]]]:
        """The best labels of each sentence, layer by layer."""
        return {name: model.predict(x) for name, model, x in self.climb(X)}

    def decode(self, X: Any, decoder: str | None = None, **options: Any) -> dict[str, list[Decoding]]:
        """Decoding records, layer by layer; probabilities are those of a layer given what it is passed."""
        return {name: model.decode(x, decoder, **options) for name, model, x in self.climb(X)}

    def predict_nbest(self, X: Any, n: int = 5) -> dict[str, list[list[tuple[list[str], float]]]]:
        """Up to n labellings of each sentence with their probabilities, layer by layer."""
        return {name: model.predict_nbest(x, n) for name, model, x in self.climb(X)}

    def predict_marginals(self, X: Any) -> dict[str, list[list[dict[str, float]]]]:
        """The probability of every label at every token, layer by layer."""
        return {name: model.predict_marginals(x) for name, model, x in self.climb(X)}

    def predict_spans(self, X: Any) -> dict[str, list[list[Span]]]:
        """The spans of the best labelling with their probabilities, layer by layer; none where there are no chunks."""
        return {name: model.predict_spans(x) for name, model, x in self.climb(X)}

    def score(self, X: Any, y: Mapping[str, Sequence[Sequence[str]]] | None = None) -> float:
        """Token accuracy of the highest layer (scikit-learn wants one number; see `predict` for all layers)."""
        self._check_fitted()
        names = list(self.layers_)
        X, gold = self._labelled(X, y, names)
        return evaluate(gold[names[-1]], self.predict(X)[names[-1]], reading="token").token_accuracy

    def _check_fitted(self) -> None:
        if not hasattr(self, "layers_"):
            raise NotFittedError("this Cascade is not trained yet: call fit, or labelwright.load a model file")

    def save(self, path: Any) -> Self:
        """Write all layers to one safetensors file, whole or not at all."""
        from labelwright.models.files import save

        self._check_fitted()
        save(self, path)
        return self


class _Training(NamedTuple):
    """Trains fresh copies of a layer, and shows it."""

    cascade: Cascade
    name: str
    model: TrainableModel
    progress: Callable[[str, TrainableModel], Any] | None

    def __call__(self, X: Any, gold: Sequence[Sequence[str]]) -> TrainableModel:
        fresh = self.cascade._fresh(self.model)
        shown = self.progress(self.name, fresh) if self.progress is not None else None
        try:
            return fresh.fit(X, gold, progress=shown)
        finally:
            getattr(shown, "close", lambda: None)()


class _Version(NamedTuple):
    """A model, and the sentences begin:end of which it says what is passed."""

    begin: int
    end: int
    model: TrainableModel


def _pair(dev: Any) -> tuple[Any, Any]:
    if isinstance(dev, Corpus):
        return dev, None
    if isinstance(dev, tuple | list) and len(dev) == 2:
        return dev[0], dev[1]
    raise OptionError("dev: expected a pair (X, y) or a Corpus")


def _columns(X: Any) -> Corpus:
    if not isinstance(X, Corpus):
        raise OptionError("lexicon: only words and columns have one, got feature dicts or arrays")
    return X


class Lexicon:
    """The labels that each word (value of the first column) has had in training, as in `NN|VB`."""

    def __init__(self, words: dict[str, str]):
        self.words = words

    @classmethod
    def learn(cls, corpus: Corpus, gold: Sequence[Sequence[str]]) -> tuple["Lexicon", Corpus]:
        """The lexicon, and the training corpus with a column of what each word had *elsewhere*: what a word is known by
        only from the token itself would teach a layer to trust a lexicon that will not have it."""
        labels = [label for sentence in gold for label in sentence]
        order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
        words = corpus.tokens(corpus.names[0])
        seen: dict[str, dict[str, int]] = {}
        for word, label in zip(words, labels, strict=True):
            had = seen.setdefault(word, {})
            had[label] = had.get(label, 0) + 1
        elsewhere = [
            _had({other: n - (other == label) for other, n in seen[word].items()}, order)
            for word, label in zip(words, labels, strict=True)
        ]
        lexicon = cls({word: _had(had, order) for word, had in seen.items()})
        return lexicon, _with_column(corpus, elsewhere)

    def column(self, corpus: Corpus) -> Corpus:
        """A corpus with one more column: the labels that each word has had, `?` for none."""
        had = [self.words.get(word, "?") for word in corpus.values(corpus.names[0])]
        return _with_column(corpus, [had[code] for code in corpus.codes(corpus.names[0]).tolist()])


def _had(counts: Mapping[str, int], order: Mapping[str, int]) -> str:
    return "|".join(sorted((label for label, n in counts.items() if n > 0), key=order.__getitem__)) or "?"


def _with_column(corpus: Corpus, tokens: list[str]) -> Corpus:
    values = list(dict.fromkeys(tokens))
    index = {value: i for i, value in enumerate(values)}
    column = Column(values, np.array([index[value] for value in tokens], np.int32))
    return replace(corpus, names=(*corpus.names, LEXICON), columns=(*corpus.columns, column), raw=None)


def _some(X: Any, ranges: Sequence[tuple[int, int]]) -> Any:
    """The sentences in these ranges."""
    if isinstance(X, Layered):
        return Layered(_some(X.X, ranges), joined([part(X.passed, a, b) for a, b in ranges if a < b]))
    if isinstance(X, Corpus):
        return X.take(np.concatenate([np.arange(a, b) for a, b in ranges]))
    return [sentence for a, b in ranges for sentence in X[a:b]]


def _normalised(found: list[tuple[list[str], float]]) -> list[tuple[list[str], float]]:
    whole = sum(p for _, p in found)
    return [(labels, p / whole) for labels, p in found]


def _in_terms_of(model: TrainableModel, other: TrainableModel) -> Array:
    """The weights of another model for the features and labels of this one; 0 for those that it has not."""
    before = Trained(other.extractor_, other.space_, other.parameters_, other.weights_)
    return carry_over(before, Trained(model.extractor_, model.space_, model.parameters_, np.zeros_like(model.weights_)))
