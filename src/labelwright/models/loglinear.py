"""Training by log-likelihood, shared by CRFs with and without latent states."""

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.corpus.schemes import allowed, detect_scheme, pairs_of_codes, validate
from labelwright.corpus.table import Corpus, intern_values
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import Encoded, kind_of, learn
from labelwright.features.incidence import Incidence
from labelwright.features.template import Template
from labelwright.learn.lbfgs import lbfgs
from labelwright.learn.monitor import Checkpoint, Monitor, ProgressBar, Record
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.owlqn import owlqn
from labelwright.learn.sgd import SGD, sgd
from labelwright.models.linear import LinearModel
from labelwright.models.warm import carry_over
from labelwright.parallel import Workers
from labelwright.parameters import make_parameters
from labelwright.states import StateSpace, state_space

Array = NDArray[Any]
CELLS = ("observed", "all")
OPTIMIZERS = {"lbfgs": (1000, 10), "sgd": (50, 5)}  # name: default max_iter, iterations over which it must still gain


class LogLinearModel(LinearModel):
    """A linear model whose weights maximise the penalised log-likelihood; subclasses add parameters and their space."""

    template: str | Template
    order: int
    cells: str
    min_count: int
    l1: float
    l2: float
    optimizer: str
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
        checkpoint: Any = None,
        checkpoint_every: float = 10.0,
        resume: bool = False,
        progress: Callable[[Record, int], None] | None = None,
    ) -> Self:
        """Train on sentences X and their labels y (or on a Corpus, whose label column is y).

        dev : (X, y) or a Corpus; the weights that do best on it are kept, and training stops when it no longer improves
        checkpoint : a path; the state of the run is saved there every `checkpoint_every` seconds, and with
            resume=True a run goes on from it, to the very weights that an undisturbed run gives
        """
        self._check_parameters()
        if resume and checkpoint is None:
            raise OptionError("resume: name the checkpoint to go on from")
        previous = None
        if self.warm_start and hasattr(self, "weights_"):
            previous = (self.extractor_, self.space_, self.parameters_, self.weights_)
        corpus, labels, gold = _gold(X, y)
        extractor, layers, offsets = learn(corpus, self.template, self.min_count)
        if "triple" in layers:
            raise OptionError("template: T lines (features on three labels) need order=2")
        if len(gold) != offsets[-1]:
            raise CorpusError(f"y: {len(gold)} labels, but X has {offsets[-1]} tokens")
        _check_shapes(y, offsets)
        self.__dict__.pop("weights_", None)  # a fit that fails from here on leaves no mixture of two models
        self.scheme_ = detect_scheme(labels, pairs=pairs_of_codes(labels, gold, offsets))
        space = self._make_space(labels)
        if self.constraints is not None:
            space = self._constrained(space, _cut([labels[g] for g in gold], offsets))
        offsets = np.unique(offsets)  # sentences without tokens teach nothing
        parameters = make_parameters(layers, extractor.n_features, gold, offsets, space, self.cells)
        self.extractor_, self.space_, self.parameters_ = extractor, space, parameters
        data = _Data(layers, offsets, gold)
        bar = ProgressBar() if progress is None and self.verbose else None
        runs: list[tuple[float, Array, Monitor]] = []
        try:
            for restart in range(self.n_restarts):
                weights = (
                    self._start(restart) if previous is None else carry_over(*previous, extractor, space, parameters)
                )
                place = checkpoint if restart == 0 or checkpoint is None else f"{checkpoint}.{restart + 1}"
                monitor = self._monitor(dev, progress or bar, place, checkpoint_every, data, weights)
                state = monitor.resume() if resume else None
                with monitor, Workers(self.n_jobs) as workers:
                    found = self._optimise(data, weights, monitor, workers, state)
                runs.append((monitor.merit, found, monitor))
                if monitor.interrupted:
                    break
        finally:
            if bar is not None:
                bar.close()
        _, self.weights_, best = max(runs, key=lambda run: run[0])
        self.history_ = [dict(record) for record in best.history]
        self.training_ = {
            "sentences": len(offsets) - 1,
            "tokens": int(offsets[-1]),
            "features": extractor.n_features,
            "weights": len(self.weights_),
            "iterations": self.history_[-1]["iteration"],
            "loss": self.history_[-1]["loss"],
            "seconds": round(sum(run[2].history[-1]["seconds"] for run in runs), 3),
            "stopped": best.reason,
            "labelwright": __version__,
        }
        if len(runs) > 1:
            self.training_["restarts"] = [{"loss": m.history[-1]["loss"], "merit": merit} for merit, _, m in runs]
        return self

    # -- steps of fit -----------------------------------------------------------------------------------------

    def _make_space(self, labels: Sequence[str]) -> StateSpace:
        return state_space(labels)

    def _start(self, restart: int) -> Array:
        """The weights to start from: zero, since the objective of a CRF has one minimum."""
        return np.zeros(self.parameters_.n_weights, np.float32)

    def _check_parameters(self) -> None:
        if self.order != 1:
            raise OptionError(f"order: expected 1, got {self.order}")
        if self.cells not in CELLS:
            raise OptionError(f"cells: expected one of {', '.join(CELLS)}, got {self.cells!r}")
        if self.optimizer not in OPTIMIZERS:
            raise OptionError(f"optimizer: expected one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        for name in ("l1", "l2", "tol"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise OptionError(f"{name}: expected a number of 0 or more, got {value}")
        if self.l1 > 0 and self.optimizer == "sgd":
            raise OptionError("l1: SGD has no L1 penalty; use optimizer='lbfgs'")
        if self.max_iter is not None and self.max_iter < 1:
            raise OptionError(f"max_iter: expected 1 or more, got {self.max_iter}")

    def _constrained(self, space: StateSpace, sentences: list[list[str]]) -> StateSpace:
        """The space under the constraints, after a check that the training labels keep them."""
        assert self.constraints is not None
        scheme = self._scheme(self.constraints)
        allowed(space.labels, scheme)
        problems = validate(sentences, scheme)
        if problems:
            p = problems[0]
            raise CorpusError(
                f"training labels: sentence {p.sentence}, token {p.token}: {p.message}; "
                f"repair them (labelwright convert --repair) or train without constraints"
            )
        return space.constrained(scheme)

    def _monitor(
        self, dev: Any, progress: Any, checkpoint: Any, every: float, data: "_Data", weights: Array
    ) -> Monitor:
        max_iter, period = OPTIMIZERS[self.optimizer]
        return Monitor(
            self.max_iter or max_iter,
            self.tol if self.optimizer == "lbfgs" else 100 * self.tol,
            period=period,
            first=0 if self.optimizer == "lbfgs" else 1,
            dev=None if dev is None else self._dev_score(dev),
            dev_every=5 if self.optimizer == "lbfgs" else 1,
            progress=progress,
            checkpoint=None if checkpoint is None else Checkpoint(checkpoint, self._fingerprint(data, weights), every),
        )

    def _dev_score(self, dev: Any) -> Callable[[Array], float]:
        X, y = (dev, dev.y) if isinstance(dev, Corpus) else dev
        encoded: list[Encoded] = []

        def score(weights: Array) -> float:
            self.weights_ = weights
            if not encoded:
                encoded.append(self.encode(X))
            return evaluate(y, self.predict(encoded[0])).score

        return score

    def _fingerprint(self, data: "_Data", weights: Array) -> str:
        """A hash of all that decides the course of training."""
        layers, offsets, gold = data
        words = {k: v for k, v in self.get_params().items() if k not in ("n_jobs", "verbose", "warm_start", "max_iter")}
        digest = hashlib.sha256(repr((words, self.space_.labels)).encode())
        for array in (offsets, gold, weights, *(a for layer in layers.values() for a in layer)):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _optimise(
        self, data: "_Data", weights: Array, monitor: Monitor, workers: Workers, state: dict[str, Array] | None
    ) -> Array:
        layers, offsets, gold = data
        if self.optimizer == "sgd":
            run = SGD(layers, offsets, gold, self.space_, self.parameters_, self.l2, self.random_state or 0)
            return sgd(run, weights, monitor, state)
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


def _gold(X: Any, y: Sequence[Sequence[str]] | None) -> tuple[Any, list[str], Array]:
    """The training data with their labels as codes: (X ready to learn from, labels, gold [T])."""
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


def _check_shapes(y: Sequence[Sequence[str]] | None, offsets: Array) -> None:
    if y is None:
        return
    if len(y) != len(offsets) - 1:
        raise CorpusError(f"y: {len(y)} sentences, but X has {len(offsets) - 1}")
    for n, (labels, length) in enumerate(zip(y, np.diff(offsets).tolist(), strict=True)):
        if len(labels) != length:
            raise CorpusError(f"y: sentence {n} has {len(labels)} labels, but X has {length} tokens there")


def _cut(flat: list[str], offsets: Array) -> list[list[str]]:
    bounds = offsets.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(bounds)]
