"""How linear taggers find their weights: what a training run needs of a learner, and learning by log-likelihood."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.errors import OptionError
from labelwright.learn.lbfgs import AroundWeights, minimised
from labelwright.learn.monitor import Monitor
from labelwright.learn.objective import WithEntityRate
from labelwright.learn.sgd import SGD, sgd
from labelwright.parallel import Workers, one_blas_thread
from labelwright.scoring.parameters import Trained
from labelwright.structures.passing import Candidates
from labelwright.taggers.chain_structure import outside_code
from labelwright.taggers.estimator import is_interrupted
from labelwright.taggers.training import Data
from labelwright.wording import plural

Array = NDArray[Any]
State = dict[str, Array]
OPTIMIZERS = {"lbfgs": (1000, 10), "sgd": (50, 5)}  # name: default max_iter, iterations over which it must still gain
OF_A_FIT = (  # facts of a record that no longer hold once the model has learnt more
    "stopped", "seconds", "best_iteration", "best_dev", "restarts", "calibration", "compressed", "mistakes",
    "convergence",
)  # fmt: skip


class UnfinishedError(KeyboardInterrupt):
    """A signal has ended the training of a part, such as a model to start from: what was learnt so far."""

    def __init__(self, learnt: Trained, history: Sequence[Any]):
        super().__init__()
        self.learnt, self.history = learnt, list(history)

    def monitor(self) -> Monitor:
        """The monitor of the run that ends with this part."""
        monitor = Monitor(len(self.history), 0.0)
        monitor.history, monitor.interrupted = self.history, True
        return monitor


def finished(model: Any, earlier: Any = None) -> Any:
    """A model to start from, after its training.  Where a signal has ended that, it ends the run; the model so far is
    this one, or the earlier one where this one has learnt nothing yet."""
    if not is_interrupted(model):
        return model
    so_far = model if earlier is None or model.training_["iterations"] else earlier
    raise UnfinishedError(so_far._learnt(), so_far.history_)


def lasting(record: Mapping[str, Any]) -> dict[str, Any]:
    """What still holds of the record of a model that has learnt from further sentences."""
    return {name: value for name, value in record.items() if name not in OF_A_FIT}


def record_of(
    trained: Trained,
    sizes: Mapping[str, int],
    monitors: Sequence[Monitor],
    best: Monitor,
    seconds: float = 0.0,
    trains_in: str = "iteration",
) -> dict[str, Any]:
    """What is worth knowing about training, in the model file too: of all runs, and of the best one."""
    last, reason = best.history[-1], str(best.reason).replace("iterations", plural(trains_in))
    record: dict[str, Any] = {
        **sizes,
        "features": trained.extractor.n_features,
        "weights": len(trained.weights),
        "iterations": last["iteration"],
        "loss": last["loss"],
        "seconds": round(sum(m.history[-1]["seconds"] for m in monitors) + seconds, 3),
        "stopped": "interrupted" if monitors[-1].interrupted else reason,
        "labelwright": __version__,
    }
    if best.best_iteration is not None:
        record |= {"best_iteration": best.best_iteration, "best_dev": best.merit}
    if len(monitors) > 1:
        record["restarts"] = [{"loss": m.history[-1]["loss"], "merit": m.merit} for m in monitors]
    return record


class Noise(NamedTuple):
    """Standard deviations of what keeps latent states from staying equal for ever."""

    first: float  # of the first weights
    split: float  # of what is added to those of a trained model


class Likelihood:
    """Weights that maximise the penalised log-likelihood: by L-BFGS, OWL-QN (where l1 is above 0) or SGD."""

    remedy = "use a larger l2, or optimizer='lbfgs'"  # against a loss that is no number
    of_iteration: tuple[str, ...] = ("loss",)  # what the record of each iteration has
    recorded: tuple[str, ...] = ()  # and what it has beside that in checkpoints
    noise = Noise(0.01, 0.03)  # noise of rare features stays, and is worse than none

    def __init__(self, model: Any):
        self.model = model  # whose settings it follows
        self.facts: dict[str, Any] = {}  # for the record of training
        self.seconds = 0.0  # of what is trained on the way

    def check(self) -> None:
        """Refuse settings that do not fit together."""
        model = self.model
        if model.averaging != "none" and model.optimizer != "sgd":
            raise OptionError(f"averaging: {model.averaging!r} is about the passes of SGD; use optimizer='sgd'")
        if model.l1 > 0 and model.optimizer == "sgd":
            raise OptionError("l1: SGD has no L1 penalty; use optimizer='lbfgs'")
        if model.entity_rate is not None and model.optimizer == "sgd":
            raise OptionError("entity_rate: SGD has no term for it; use optimizer='lbfgs'")

    def stopping(self, optimizer: str | None = None) -> dict[str, Any]:
        """When training stops: arguments of Monitor."""
        model, optimizer = self.model, optimizer or self.model.optimizer
        batch = optimizer == "lbfgs"
        max_iter, period = OPTIMIZERS[optimizer]
        return {
            "max_iter": model.max_iter or max_iter,
            "tol": model.tol if batch else 100 * model.tol if model.averaging == "none" else -np.inf,
            "period": period,
            "first": 0 if batch else 1,
            "dev_every": 5 if batch else 1,
            "dev_from": self._average_from or 1,
        }

    @property
    def tolerance(self) -> float | None:
        """The relative improvement below which training stops, for those who watch."""
        return self.model.tol if self.model.optimizer == "lbfgs" else None

    @property
    def may_change(self) -> tuple[str, ...]:
        """Settings that a run which is resumed may have otherwise."""
        return ("max_iter",) if self.model.averaging == "none" else ()

    @property
    def _average_from(self) -> int | None:
        """The first pass whose weights count in the average; development data are asked from there on."""
        model = self.model
        return (model.max_iter or OPTIMIZERS["sgd"][0]) * 2 // 3 + 1 if model.averaging == "avg" else None

    def begin(self, start: Trained) -> None:
        """Before a run from a starting point."""

    def optimise(self, start: Trained, data: Data, monitor: Monitor, workers: Workers, state: State | None) -> Array:
        """The best weights from a starting point; `state` is that of a run to resume."""
        model = self.model
        if model.optimizer == "sgd":
            incidences, offsets, gold, said, _ = data
            seed = model.random_state or 0
            run = SGD(incidences, offsets, gold, start.space, start.parameters, model.l2, seed, said)
            return sgd(run, start.weights, monitor, state, self._average_from)
        problem = self.problem(start, data, workers)
        return minimised(problem, start.weights, model.l1, model.l2, monitor, workers, state)

    def problem(self, trained: Trained, data: Data, workers: Workers) -> Any:
        """What is minimised, but for penalties: the likelihood, with the term of an expected entity rate."""
        structure, rate = self.model._structure, self.model.entity_rate
        if rate is None:
            return structure.objective(trained, data, workers)
        T, often = int(data.offsets[-1]), data.said.of_sentences
        outside = np.full(T, outside_code(rate, trained.space.labels))
        slots = Candidates(data.offsets, np.arange(T + 1), outside, np.full(T + 1, T), has_pairs=False)
        often = np.ones(T) if often is None else np.repeat(often, np.diff(data.offsets))
        return WithEntityRate(structure.objective(trained, data, workers, candidates=slots), rate, often)

    def finish(self, data: Data, development: Any) -> None:
        """What is left to do once the weights are found."""

    def learn_further(self, X: Any, y: Any, sample_weight: Any) -> None:
        """The penalty keeps weights near those that were learnt, instead of near 0."""
        model = self.model
        if not model._is_fitted():
            model.fit(X, y, sample_weight=sample_weight)
            return
        old = model._trained
        data, trained = model._structure.prepare(model, X, y, sample_weight=sample_weight, old=old)
        start = model._begun(trained, 0, split=True)
        start = start._replace(weights=model._structure.carry(old, start))
        monitor, workers = Monitor(**self.stopping("lbfgs")), Workers(model.n_jobs)
        problem = AroundWeights(self.problem(start, data, workers), start.weights)
        with monitor, one_blas_thread():
            change = minimised(problem, np.zeros_like(start.weights), model.l1, model.l2, monitor, workers)
        before = model.training_
        model._keep(start._replace(weights=start.weights + change), data, self, [monitor])
        model.training_ = lasting(before) | model.training_
        for name in ("sentences", "tokens"):
            model.training_[name] += before.get(name, 0)
