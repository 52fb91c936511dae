"""Training by log-likelihood, shared by CRFs with and without latent states."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.corpus.schemes import detect_scheme, pairs_of_codes, validate
from labelwright.corpus.table import Corpus, intern_values
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import ColumnFeatures, Encoded, kind_of, learn
from labelwright.features.incidence import Incidence
from labelwright.features.template import Template
from labelwright.learn.lbfgs import lbfgs
from labelwright.learn.monitor import Checkpoint, Monitor, ProgressBar, Record
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.owlqn import owlqn
from labelwright.learn.sgd import SGD, sgd
from labelwright.models.linear import LinearModel, check_lengths
from labelwright.models.warm import Trained, carry_over
from labelwright.parallel import Workers
from labelwright.parameters import make_parameters
from labelwright.states import state_space

Array = NDArray[Any]
CELLS = ("observed", "all")
AVERAGING = ("none", "avg")
OPTIMIZERS = {"lbfgs": (1000, 10), "sgd": (50, 5)}  # name: default max_iter, iterations over which it must still gain


INTEGER, REAL = (int, np.integer), (int, float, np.integer, np.floating)
NUMBERS: dict[str, tuple[Any, int]] = {  # parameter: type, least value
    "l1": (REAL, 0),
    "l2": (REAL, 0),
    "tol": (REAL, 0),
    "min_count": (INTEGER, 1),
    "max_iter": (INTEGER, 1),
    "n_restarts": (INTEGER, 1),
    "random_state": (INTEGER, 0),
}


class LogLinearModel(LinearModel):
    """A linear model whose weights maximise the penalised log-likelihood; subclasses add parameters and their space."""

    template: str | Template
    order: int
    cells: str
    min_count: int
    l1: float
    l2: float
    optimizer: str
    averaging: str
    max_iter: int | None
    tol: float
    constraints: str | None
    warm_start: bool
    random_state: int | None
    verbose: int
    n_restarts: int = 1

    def fit(
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None = None,
        *,
        dev: Any = None,
        init: "LogLinearModel | None" = None,
        checkpoint: Any = None,
        checkpoint_every: float = 10.0,
        resume: bool = False,
        progress: Callable[[Record, int], None] | None = None,
    ) -> Self:
        """Train on sentences X and their labels y (or on a Corpus, whose label column is y).

        dev : (X, y) or a Corpus; the weights that do best on it are kept, and training stops when it no longer improves
        init : a trained model to start from; labels that have more latent states here get copies of its states, told
            apart by a little noise, as are further restarts (warm_start=True starts from this model's own last fit)
        checkpoint : a path; the state of the run is saved there every `checkpoint_every` seconds, and with
            resume=True a run goes on from it, to the very weights that an undisturbed run gives
        """
        self._check_parameters()
        if resume and checkpoint is None:
            raise OptionError("resume: name the checkpoint to go on from")
        before = None
        old = self if init is None and self.warm_start and hasattr(self, "weights_") else init
        if old is not None:
            old._check_fitted()
            before = Trained(old.extractor_, old.space_, old.parameters_, old.weights_)
        data = self._prepare(X, y)
        tol = self.tol if self.optimizer == "lbfgs" else None
        bar = ProgressBar(self.max_iter, tol) if progress is None and self.verbose else None
        runs: list[tuple[Array, Monitor]] = []
        try:
            development = None if dev is None else self._development(dev)
            for restart in range(self.n_restarts):
                weights = self._start(restart, before is not None)
                if before is not None:
                    now = Trained(self.extractor_, self.space_, self.parameters_, weights)
                    weights = carry_over(before, now, shake=restart > 0)
                place = checkpoint if restart == 0 or checkpoint is None else f"{checkpoint}.{restart + 1}"
                monitor = self._monitor(development, progress or bar, place, checkpoint_every, data, weights)
                state = monitor.resume() if resume else None
                with monitor, Workers(self.n_jobs) as workers:
                    runs.append((self._optimise(data, weights, monitor, workers, state), monitor))
                if monitor.interrupted:
                    break
        finally:
            self.__dict__.pop("weights_", None)
            if bar is not None:
                bar.close()
        self.weights_, best = max(runs, key=lambda run: run[1].merit)
        self.history_ = [dict(record) for record in best.history]
        self.training_ = self._record(data, best, [monitor for _, monitor in runs])
        return self

    # -- steps of fit -----------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Sequence[Sequence[str]] | None) -> "_Data":
        """Learn the features and the state space; the training data as integers."""
        corpus, labels, gold = _gold(X, y)
        extractor, layers, offsets = learn(corpus, self.template, self.min_count)
        patterns = extractor.vocabulary.template.patterns if isinstance(extractor, ColumnFeatures) else ()
        if self.order == 1 and any(pattern.kind == "T" for pattern in patterns):
            raise OptionError("template: T lines are features on three labels; use order=2")
        if y is not None:
            check_lengths(y, offsets)
        self.__dict__.pop("weights_", None)  # a fit that fails from here on leaves no mixture of two models
        self.scheme_ = detect_scheme(labels, pairs=pairs_of_codes(labels, gold, offsets))
        scheme = None
        if self.constraints is not None:
            scheme = self._checked_scheme(_cut([labels[g] for g in gold], offsets))
        space = state_space(labels, self._latent_states(labels), self.order, scheme)
        offsets = np.unique(offsets)  # sentences without tokens teach nothing
        self.parameters_ = make_parameters(layers, extractor.n_features, gold, offsets, space, self.cells)
        self.extractor_, self.space_ = extractor, space
        return _Data(layers, offsets, gold)

    def _record(self, data: "_Data", best: Monitor, monitors: list[Monitor]) -> dict[str, Any]:
        """What is worth knowing about the training run, in the model file too."""
        last = best.history[-1]
        record: dict[str, Any] = {
            "sentences": len(data.offsets) - 1,
            "tokens": int(data.offsets[-1]),
            "features": self.extractor_.n_features,
            "weights": len(self.weights_),
            "iterations": last["iteration"],
            "loss": last["loss"],
            "seconds": round(sum(m.history[-1]["seconds"] for m in monitors), 3),
            "stopped": "interrupted" if monitors[-1].interrupted else best.reason,
            "labelwright": __version__,
        }
        if best.best_iteration is not None:
            record["best_iteration"] = best.best_iteration
            record["best_dev"] = best.merit
        if len(monitors) > 1:
            record["restarts"] = [{"loss": m.history[-1]["loss"], "merit": m.merit} for m in monitors]
        return record

    def _latent_states(self, labels: Sequence[str]) -> list[int]:
        """How many states each label has."""
        return [1] * len(labels)

    def _start(self, restart: int, split: bool) -> Array:
        """The weights to start from, or to add to those of a model that is split: zero, since a CRF has one optimum."""
        return np.zeros(self.parameters_.n_weights, np.float32)

    def _check_parameters(self) -> None:
        if self.order not in (1, 2) or not isinstance(self.order, INTEGER) or isinstance(self.order, bool):
            raise OptionError(f"order: expected 1 or 2, got {self.order!r}")
        if self.cells not in CELLS:
            raise OptionError(f"cells: expected one of {', '.join(CELLS)}, got {self.cells!r}")
        if self.optimizer not in OPTIMIZERS:
            raise OptionError(f"optimizer: expected one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        for name, (kinds, least) in NUMBERS.items():
            value = getattr(self, name, None)
            if value is None and name in ("max_iter", "random_state"):
                continue
            sound = isinstance(value, kinds) and not isinstance(value, bool) and least <= value < float("inf")
            if not sound:
                what = "a whole number" if kinds is INTEGER else "a number"
                raise OptionError(f"{name}: expected {what} of {least} or more, got {value!r}")
        if self.averaging not in AVERAGING:
            raise OptionError(f"averaging: expected one of {', '.join(AVERAGING)}, got {self.averaging!r}")
        if self.averaging != "none" and self.optimizer != "sgd":
            raise OptionError(f"averaging: {self.averaging!r} is about the passes of SGD; use optimizer='sgd'")
        if self.l1 > 0 and self.optimizer == "sgd":
            raise OptionError("l1: SGD has no L1 penalty; use optimizer='lbfgs'")

    def _checked_scheme(self, sentences: list[list[str]]) -> str:
        """The scheme that the constraints name, after a check that the training labels keep it."""
        assert self.constraints is not None
        scheme = self._scheme(self.constraints)
        problems = validate(sentences, scheme)
        if problems:
            p = problems[0]
            raise CorpusError(
                f"training labels: sentence {p.sentence}, token {p.token}: {p.message}; "
                f"repair them (labelwright convert --repair) or train without constraints"
            )
        return scheme

    def _monitor(
        self,
        dev: "_Development | None",
        progress: Any,
        checkpoint: Any,
        every: float,
        data: "_Data",
        weights: Array,
    ) -> Monitor:
        max_iter, period = OPTIMIZERS[self.optimizer]
        return Monitor(
            self.max_iter or max_iter,
            self.tol if self.optimizer == "lbfgs" else 100 * self.tol if self.averaging == "none" else -np.inf,
            period=period,
            first=0 if self.optimizer == "lbfgs" else 1,
            dev=None if dev is None else self._dev_score(dev),
            dev_every=5 if self.optimizer == "lbfgs" else 1,
            dev_from=self._average_from or 1,
            progress=progress,
            checkpoint=None
            if checkpoint is None
            else Checkpoint(checkpoint, self._fingerprint(data, dev, weights), every),
        )

    @property
    def _average_from(self) -> int | None:
        """The first pass whose weights count in the average; development data are asked from there on."""
        return (self.max_iter or OPTIMIZERS["sgd"][0]) * 2 // 3 + 1 if self.averaging == "avg" else None

    def _development(self, dev: Any) -> "_Development":
        """Development data, encoded and checked before the first iteration."""
        if isinstance(dev, Corpus):
            X, y = dev, dev.y
        elif isinstance(dev, tuple | list) and len(dev) == 2:
            X, y = dev
        else:
            raise OptionError("dev: expected a pair (X, y) or a Corpus")
        self.weights_ = np.zeros(self.parameters_.n_weights, np.float32)
        encoded = self.encode(X)
        try:
            check_lengths(y, encoded.offsets)
        except CorpusError as error:
            raise CorpusError(f"dev: {error}") from None
        return _Development(encoded, [list(labels) for labels in y])

    def _dev_score(self, development: "_Development") -> Callable[[Array], float]:
        def score(weights: Array) -> float:
            self.weights_ = weights
            return evaluate(development.y, self.predict(development.X)).score

        return score

    def _fingerprint(self, data: "_Data", dev: "_Development | None", weights: Array) -> str:
        """A hash of all that decides the course of training."""
        idle = ("n_jobs", "verbose", "warm_start") + (("max_iter",) if self.averaging == "none" else ())
        words = {k: v for k, v in self.get_params().items() if k not in idle}
        digest = hashlib.sha256(repr((words, self.space_.labels, dev and dev.y)).encode())
        arrays = [data.offsets, data.gold, weights, *(a for layer in data.layers.values() for a in layer)]
        if dev is not None:
            arrays += [dev.X.offsets, *(a for layer in dev.X.layers.values() for a in layer)]
        for array in arrays:
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _optimise(
        self, data: "_Data", weights: Array, monitor: Monitor, workers: Workers, state: dict[str, Array] | None
    ) -> Array:
        layers, offsets, gold = data
        if self.optimizer == "sgd":
            run = SGD(layers, offsets, gold, self.space_, self.parameters_, self.l2, self.random_state or 0)
            return sgd(run, weights, monitor, state, self._average_from)
        n_features = self.extractor_.n_features
        problem = LogLikelihood(layers, n_features, offsets, gold, self.space_, self.parameters_, workers)
        if self.l1 > 0:
            return owlqn(problem, weights, self.l1, self.l2, monitor, workers, state)
        return lbfgs(problem, weights, self.l2, monitor, workers, state)


class _Data(NamedTuple):
    """The training data as integers."""

    layers: dict[str, Incidence]
    offsets: Array  # [N+1]
    gold: Array  # [T]  labels


class _Development(NamedTuple):
    """The development data."""

    X: Encoded
    y: list[list[str]]


def _gold(X: Any, y: Sequence[Sequence[str]] | None) -> tuple[Any, list[str], Array]:
    """The training data with their labels as codes: (X ready to learn from, labels, gold [T])."""
    if isinstance(X, Encoded):
        raise OptionError("fit: takes sentences, not encoded data: features are learnt from them")
    if not isinstance(X, Corpus) and not hasattr(X, "__len__") and isinstance(X, Iterable):
        X = list(X)
    if isinstance(X, Corpus):
        if y is None:
            if X.label is None:
                raise CorpusError(f"{X.source}: has no label column; name one of {', '.join(X.names)} as the label")
            return X, X.values(X.label), X.codes(X.label)
    elif y is None:
        raise OptionError("fit: give the labels y")
    elif kind_of(X) == "columns":
        corpus = Corpus.from_sequences(X, y)
        return corpus, corpus.values("label"), corpus.codes("label")
    flat = [label for sentence in y for label in sentence]
    column = intern_values(flat, y, "y")
    return X, column.values, column.codes


def _cut(flat: list[str], offsets: Array) -> list[list[str]]:
    bounds = offsets.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(bounds)]
