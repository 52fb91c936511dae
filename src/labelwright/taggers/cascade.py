"""Cascades of taggers: each layer reads the labels of the one below (Azuma & Matsumoto 2011)."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.corpus.spans import Span
from labelwright.corpus.table import Corpus
from labelwright.decode import Decoding
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import kind_of
from labelwright.features.lexicon import Lexicon
from labelwright.learn.joint import Joint
from labelwright.learn.lbfgs import lbfgs
from labelwright.learn.monitor import Monitor, ProgressBar, Record
from labelwright.parallel import Workers
from labelwright.structures.passing import Layered, Passed, certain, joined, mixed
from labelwright.taggers.estimator import Estimator
from labelwright.taggers.linear import Forced
from labelwright.taggers.loglinear import LogLinearModel
from labelwright.taggers.stacks import Version, some, stacks
from labelwright.taggers.training import INTEGER, REAL, TrainableModel

Array = NDArray[Any]
PASSING = ("best", "marginal", "joint", "sample", "nbest")
READINGS = 10  # labellings passed by "sample" and "nbest"
FOLDS = 5


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
        development = None if dev is None else self._labelled(*_pair(dev), names, "dev: ")
        for attribute in ("layers_", "before_"):
            self.__dict__.pop(attribute, None)
        begun = time.monotonic()
        self.inputs_ = X.input_names if isinstance(X, Corpus) else ()
        self.lexicon_ = None
        source = self._input(X)
        if self.lexicon is not None:
            self.lexicon_, source = Lexicon.learn(_columns(X), gold[self.lexicon])
        fitted: dict[str, TrainableModel] = {}
        inputs, versions = [source], []
        run = _Run(self, layer_progress)
        for k, (name, model) in enumerate(self.layers):
            fitted[name] = run.train(name, model, inputs[k], gold[name])
            if k + 1 < len(self.layers):
                passed, said = self._trained_passing(run, name, fitted[name], inputs[k], gold[name])
                versions.append(said)
                inputs.append(Layered(source, passed))
        self.layers_ = fitted
        self.history_ = [dict(record) for record in fitted[names[-1]].history_]
        self.training_ = {"layers": {name: model.training_ for name, model in fitted.items()}}
        try:
            if self.passing == "joint" and len(names) > 1 and not run.interrupted:
                self.before_ = self._as_it_is()
                self._learn_together(inputs, gold, versions, development, progress)
        except BaseException:
            del self.layers_  # no mixture of weights is left behind
            raise
        self.training_ |= {
            "seconds": round(time.monotonic() - begun, 3),
            "interrupted": run.interrupted or self.training_.get("joint", {}).get("stopped") == "interrupted",
            "labelwright": __version__,
        }
        return self

    def _check(self) -> None:
        layers = self.layers
        sound = isinstance(layers, Sequence) and not isinstance(layers, str) and len(layers) > 0
        if not sound or not all(isinstance(layer, Sequence) and len(layer) == 2 for layer in layers):
            raise OptionError("layers: expected a list of pairs, [('pos', CRF()), ('chunk', CRF())]")
        if self.passing not in PASSING:
            raise OptionError(f"passing: expected one of {', '.join(PASSING)}, got {self.passing!r}")
        names = [name for name, _ in layers]
        for name, model in layers:
            if not isinstance(name, str) or not name:
                raise OptionError(f"layers: the name of a layer must be a word, got {name!r}")
            if names.count(name) > 1:
                raise OptionError(f"layers: two layers are named {name!r}; give each a name of its own")
            if not isinstance(model, TrainableModel):
                raise OptionError(
                    f"layers: {name}: expected a model with features (CRF, LatentCRF, SemiCRF, a perceptron), got "
                    f"{type(model).__name__}; the labels of others can be a column"
                )
            if not model.probabilistic and self.passing != "best":
                raise OptionError(
                    f"layers: {name}: a {type(model).__name__} has no probabilities to pass; use passing='best'"
                )
            try:
                model._check_parameters()
            except OptionError as error:
                raise OptionError(f"layers: {name}: {error}") from None
            if self.passing == "joint" and getattr(model, "l1", 0) > 0:
                raise OptionError(f"layers: {name}: joint training has no L1 penalty; use l1=0, or passing='marginal'")
        if self.lexicon is not None and self.lexicon not in names:
            raise OptionError(f"lexicon: expected a layer, one of {', '.join(names)}, got {self.lexicon!r}")
        if not isinstance(self.jackknife, bool):
            raise OptionError(f"jackknife: expected True or False, got {self.jackknife!r}")
        if not isinstance(self.cut, REAL) or not 0 <= self.cut < 1:
            raise OptionError(f"cut: expected a probability below 1, got {self.cut!r}")
        if self.max_iter is not None and (not isinstance(self.max_iter, INTEGER) or self.max_iter < 1):
            raise OptionError(f"max_iter: expected a whole number of 1 or more, got {self.max_iter!r}")
        if not isinstance(self.tol, REAL) or not self.tol >= 0:
            raise OptionError(f"tol: expected a number of 0 or more, got {self.tol!r}")
        if self.shares is not None and not isinstance(self.shares, Mapping):
            raise OptionError(f"shares: expected {{layer: number}}, got {self.shares!r}")
        for name, share in (self.shares or {}).items():
            if name not in names:
                raise OptionError(f"shares: no layer {name!r}, expected one of {', '.join(names)}")
            if not isinstance(share, REAL) or isinstance(share, bool) or not 0 <= share < float("inf"):
                raise OptionError(f"shares: {name}: expected a number of 0 or more, got {share!r}")

    def _labelled(
        self, X: Any, y: Mapping[str, Sequence[Sequence[str]]] | None, names: list[str], place: str = ""
    ) -> tuple[Any, dict[str, Sequence[Sequence[str]]]]:
        """The input without labels, and the labels of every layer; `place` is what errors begin with."""
        if y is None and isinstance(X, Corpus):
            missing = [name for name in names if name not in X.names]
            if missing:
                raise CorpusError(
                    f"{X.source}: no column for the layer {missing[0]!r}, expected it among {', '.join(X.names)}"
                )
            y = {name: X.column(name) for name in names}
            place = f"{X.source}: column "
        elif not place:
            place = "y: "
        if not isinstance(y, Mapping):
            raise OptionError(f"{place}expected the labels of every layer, {{{names[0]!r}: [...], ...}}")
        for name in names:
            if name not in y:
                raise OptionError(f"{place}no labels for the layer {name!r}, got those of {', '.join(y) or 'none'}")
        for name in y:
            if name not in names:
                raise OptionError(f"{place}no layer {name!r}, expected {', '.join(names)}")
        if isinstance(X, Corpus):
            X = X.select([n for n in X.names if n not in names and n != X.label])
            if not X.names:
                raise CorpusError(f"{X.source}: no column is left to read beside those of the layers")
        elif kind_of(X) == "columns":
            X = Corpus.from_sequences(X)
        lengths = np.diff(X.offsets).tolist() if isinstance(X, Corpus) else [len(sentence) for sentence in X]
        for name in names:
            if not isinstance(y[name], Sequence) or isinstance(y[name], str):
                raise OptionError(f"{place}{name}: expected a list of labels for each sentence, got {y[name]!r:.40}")
            if len(y[name]) != len(lengths):
                raise CorpusError(f"{place}{name}: {len(y[name])} sentences, but X has {len(lengths)}")
            for n, (labels, length) in enumerate(zip(y[name], lengths, strict=True)):
                if len(labels) != length:
                    raise CorpusError(
                        f"{place}{name}: sentence {n} has {len(labels)} labels, but X has {length} tokens there"
                    )
                if any(not isinstance(label, str) or not label or label == "_" for label in labels):
                    raise CorpusError(
                        f"{place}{name}: sentence {n} has a token without a label; label it, or leave the sentence out"
                    )
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
        fresh = model.untrained()
        for name in ("n_jobs", "random_state"):
            if getattr(fresh, name) is None:
                setattr(fresh, name, getattr(self, name))
        fresh.verbose = fresh.verbose or self.verbose
        return fresh

    def _passed(self, model: TrainableModel, X: Any, forced: Forced | None = None) -> Passed:
        """What a trained layer passes to the next."""
        labels = model.space_.labels
        if self.passing == "best":
            return certain(labels, [d.labels for d in model.decode(X, forced=forced, probabilities=False)])
        if self.passing == "nbest":
            found = model.predict_nbest(X, n=READINGS, forced=forced)
            return mixed(labels, [_normalised(readings) for readings in found])
        assert isinstance(model, LogLinearModel)
        if self.passing == "sample":
            return mixed(labels, model.sample(X, READINGS, self.random_state, forced=forced))
        return model.passed(X, self.cut, forced=forced)

    def _trained_passing(
        self, run: "_Run", name: str, trained: TrainableModel, X: Any, gold: Sequence[Sequence[str]]
    ) -> tuple[Passed, list[Version]]:
        """What a layer passes of its training data, and the models that say so of which sentences."""
        n = len(gold)
        if not self.jackknife or n < 2:
            return self._passed(trained, X), [Version(0, n, trained)]
        bounds = np.linspace(0, n, min(FOLDS, n) + 1).astype(int).tolist()
        said, versions = [], []
        model = trained.like()
        for a, b in pairwise(bounds):
            other = trained
            if not run.interrupted:
                other = run.train(name, model, some(X, [(0, a), (b, n)]), [*gold[:a], *gold[b:]])
            said.append(self._passed(other, some(X, [(a, b)])).relabelled(trained.space_.labels))
            versions.append(Version(a, b, other))
        return joined(said), versions

    def _learn_together(
        self,
        inputs: list[Any],
        gold: Mapping[str, Sequence[Sequence[str]]],
        versions: list[list[Version]],
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
            made = stacks(self.layers_, inputs, gold, versions, self.shares or {}, workers)
            l2 = [float(getattr(model, "l2", 0.0)) for model in models]
            weights = lbfgs(Joint(made, sizes, l2), start, 0.0, monitor, workers)
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

    def climb(self, X: Any, forced: Mapping[str, Forced] | None = None) -> Iterator[tuple[str, TrainableModel, Any]]:
        """Every layer with its input, the lowest first: (name, model, what the model reads).

        forced : known labels of some layers, {name: as `decode` of a single model takes them}; those above know them"""
        self._check_fitted()
        _check_layers("forced", forced, self.layers_)
        source = self._input(X)
        above = source
        for k, (name, model) in enumerate(self.layers_.items()):
            yield name, model, above
            if k + 1 < len(self.layers_):
                above = Layered(source, self._passed(model, above, (forced or {}).get(name)))

    def _asked(
        self,
        X: Any,
        question: Callable[..., Any],
        forced: Mapping[str, Forced] | None,
        constraints: str | Mapping[str, str] | None,
    ) -> dict[str, Any]:
        """question(model, its input, forced=..., constraints=...) for every layer; constraints given as one word hold
        for the layers whose labels follow a scheme."""
        if not isinstance(constraints, str):
            _check_layers("constraints", constraints, self.layers_)
        answers = {}
        for name, model, x in self.climb(X, forced):
            words: dict[str, Any] = {"forced": (forced or {}).get(name)}
            if isinstance(constraints, str):
                words["constraints"] = constraints if model.scheme_ is not None else None
            else:
                words["constraints"] = (constraints or {}).get(name)
            answers[name] = question(model, x, **words)
        return answers

    def predict(self, X: Any) -> dict[str, list[list[str]]]:
        """The best labels of each sentence, layer by layer."""
        return {name: model.predict(x) for name, model, x in self.climb(X)}

    def decode(
        self,
        X: Any,
        decoder: str | None = None,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, str] | None = None,
        **options: Any,
    ) -> dict[str, list[Decoding]]:
        """Decoding records, layer by layer; probabilities are those of a layer given what it is passed."""
        return self._asked(
            X, lambda model, x, **words: model.decode(x, decoder, **words, **options), forced, constraints
        )

    def predict_nbest(
        self,
        X: Any,
        n: int = 5,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, str] | None = None,
    ) -> dict[str, list[list[tuple[list[str], float]]]]:
        """Up to n labellings of each sentence with their probabilities, layer by layer."""
        return self._asked(X, lambda model, x, **words: model.predict_nbest(x, n, **words), forced, constraints)

    def predict_marginals(
        self,
        X: Any,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, str] | None = None,
    ) -> dict[str, list[list[dict[str, float]]]]:
        """The probability of every label at every token, layer by layer."""
        return self._asked(X, lambda model, x, **words: model.predict_marginals(x, **words), forced, constraints)

    def predict_spans(
        self,
        X: Any,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, str] | None = None,
    ) -> dict[str, list[list[Span]]]:
        """The spans of the best labelling with their probabilities, layer by layer; none where there are no chunks."""
        return self._asked(X, lambda model, x, **words: model.predict_spans(x, **words), forced, constraints)

    def score(self, X: Any, y: Mapping[str, Sequence[Sequence[str]]] | None = None) -> float:
        """Token accuracy of the highest layer (scikit-learn wants one number; see `predict` for all layers)."""
        self._check_fitted()
        names = list(self.layers_)
        X, gold = self._labelled(X, y, names)
        return evaluate(gold[names[-1]], self.predict(X)[names[-1]], reading="token").token_accuracy

    def _check_fitted(self) -> None:
        if not hasattr(self, "layers_"):
            raise NotFittedError("this Cascade is not trained yet: call fit, or labelwright.load a model file")


class _Run:
    """Trains fresh copies of layers and shows it; after Ctrl-C the rest is trained for one iteration only."""

    def __init__(self, cascade: Cascade, progress: Callable[[str, TrainableModel], Any] | None):
        self.cascade, self.progress, self.interrupted = cascade, progress, False

    def train(self, name: str, model: TrainableModel, X: Any, gold: Sequence[Sequence[str]]) -> TrainableModel:
        fresh = self.cascade._fresh(model)
        limit = fresh.max_iter
        fresh.max_iter = 1 if self.interrupted else limit
        shown = self.progress(name, fresh) if self.progress is not None else None
        try:
            fresh.fit(X, gold, progress=shown)
        finally:
            fresh.max_iter = limit
            getattr(shown, "close", lambda: None)()
        self.interrupted |= fresh.training_["stopped"] == "interrupted"
        return fresh


def _pair(dev: Any) -> tuple[Any, Any]:
    if isinstance(dev, Corpus):
        return dev, None
    if isinstance(dev, tuple | list) and len(dev) == 2:
        return dev[0], dev[1]
    raise OptionError("dev: expected a pair (X, y) or a Corpus")


def _check_layers(word: str, given: Any, layers: Mapping[str, Any]) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(f"{word}: expected {{layer: ...}}, one of {', '.join(layers)}, got {type(given).__name__}")
    for name in given or ():
        if name not in layers:
            raise OptionError(f"{word}: no layer {name!r}, expected one of {', '.join(layers)}")


def _columns(X: Any) -> Corpus:
    if not isinstance(X, Corpus):
        raise OptionError("lexicon: only words and columns have one, got feature dicts or arrays")
    return X


def _normalised(found: list[tuple[list[str], float]]) -> list[tuple[list[str], float]]:
    """The shares of n-best labellings; equal ones where all are too improbable for a number."""
    whole = sum(p for _, p in found)
    return [(labels, p / whole if whole > 0 else 1 / len(found)) for labels, p in found]
