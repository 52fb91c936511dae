"""CRFsuite's trainer: collects sentences, trains by one of five algorithms, writes a model file of
CRFsuite's."""

import errno
import operator
import os
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.compat.pycrfsuite.log import TrainingLog, TrainLogParser
from labelwright.compat.pycrfsuite.tagger import ItemError, ItemSequence, items_of, text_of
from labelwright.errors import CorpusError, LabelwrightError, ModelFileError, OptionError
from labelwright.features.attributes import Collected, Numbers
from labelwright.interchange import crfsuite
from labelwright.interchange.chains import EMPTY, from_crf
from labelwright.learn.monitor import Monitor
from labelwright.modelfile import store
from labelwright.scoring.parameters import Cells, Parameters
from labelwright.taggers.arguments import Data
from labelwright.taggers.crf import CRF
from labelwright.taggers.estimator import uninterrupted
from labelwright.taggers.perceptron import Perceptron

Array = NDArray[Any]
MESSAGES = {-1: "Unknown error occurred", -2: "Insufficient memory", -4: "Incompatible data"}
SLACK = {0: "none", 1: "linear", 2: "quadratic"}  # by the type of passive-aggressive updates

# -- parameters ------------------------------------------------------------------------------------


class Parameter(NamedTuple):
    default: Any
    read: Callable[[str], Any]
    help: str


def _flag(text: str) -> bool:
    return bool(int(text))


def _whole(text: str) -> int:
    return int(float(text))  # 1e3 and 1000.0 count as whole numbers


FEATURES = {
    "feature.minfreq": Parameter(0.0, float, "Drop features that occur less often than this."),
    "feature.possible_states": Parameter(
        False,
        _flag,
        "Also give weights to pairs of attribute and label that the training data do not have.",
    ),
    "feature.possible_transitions": Parameter(
        False, _flag, "Also give weights to transitions that the training data do not have."
    ),
}
UNLIMITED = 2147483647
PERIOD = Parameter(
    10, _whole, "Number of iterations over which the improvement of the loss is measured."
)
PASSES = Parameter(100, _whole, "Largest number of passes over the data.")
MEAN_LOSS = Parameter(0.0, float, "Stop when the mean loss of a sentence is not above this.")

ALGORITHMS: dict[str, dict[str, Parameter]] = {
    "lbfgs": FEATURES
    | {
        "c1": Parameter(0.0, float, "Coefficient of the L1 penalty."),
        "c2": Parameter(1.0, float, "Coefficient of the L2 penalty."),
        "max_iterations": Parameter(UNLIMITED, _whole, "Largest number of L-BFGS iterations."),
        "num_memories": Parameter(
            6, _whole, "Number of past steps for the inverse Hessian (labelwright keeps 6)."
        ),
        "epsilon": Parameter(
            1e-5,
            float,
            "Stop when the norm of the gradient is below this share of the norm of the weights.",
        ),
        "period": PERIOD,
        "delta": Parameter(
            1e-5,
            float,
            "Stop when the relative improvement of the loss over a period is below this.",
        ),
        "linesearch": Parameter(
            "MoreThuente",
            str,
            (
                "Line search: MoreThuente, Backtracking or StrongBacktracking (labelwright's own "
                "is used for all three)."
            ),
        ),
        "max_linesearch": Parameter(
            20, _whole, "Largest number of trials in a line search (labelwright allows 20)."
        ),
    },
    "l2sgd": FEATURES
    | {
        "c2": Parameter(1.0, float, "Coefficient of the L2 penalty."),
        "max_iterations": Parameter(
            1000, _whole, "Largest number of passes (epochs) over the data."
        ),
        "period": PERIOD,
        "delta": Parameter(
            1e-6,
            float,
            "Stop when the relative improvement of the loss over a period is below this.",
        ),
        "calibration.eta": Parameter(
            0.1, float, "First learning rate to try (labelwright tries its own)."
        ),
        "calibration.rate": Parameter(2.0, float, "Factor between learning rates to try."),
        "calibration.samples": Parameter(
            1000.0, float, "Number of sentences used to try learning rates."
        ),
        "calibration.candidates": Parameter(10, _whole, "Number of learning rates to try."),
        "calibration.max_trials": Parameter(
            20, _whole, "Largest number of trials of learning rates."
        ),
    },
    "averaged-perceptron": FEATURES
    | {
        "max_iterations": PASSES,
        "epsilon": Parameter(0.0, float, "Stop when the share of wrong labels is not above this."),
    },
    "passive-aggressive": FEATURES
    | {
        "type": Parameter(1, _whole, "Update: 0 without slack, 1 for PA-I, 2 for PA-II."),
        "c": Parameter(1.0, float, "Aggressiveness: the weight of the slack in PA-I and PA-II."),
        "error_sensitive": Parameter(
            True, _flag, "Let the loss of a sentence grow with its number of wrong labels."
        ),
        "averaging": Parameter(True, _flag, "Return the average of the weights over all updates."),
        "max_iterations": PASSES,
        "epsilon": MEAN_LOSS,
    },
    "arow": FEATURES
    | {
        "variance": Parameter(1.0, float, "Variance of every weight at the start."),
        "gamma": Parameter(1.0, float, "Trade-off between the loss and the change of the weights."),
        "max_iterations": PASSES,
        "epsilon": MEAN_LOSS,
    },
}
ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}
TYPES = {name: parameter.read for known in ALGORITHMS.values() for name, parameter in known.items()}

# -- learners --------------------------------------------------------------------------------------


class _Watched(Monitor):
    """A monitor that stops by CRFsuite's rules and shows every iteration to `watch`."""

    watch: Callable[[Monitor, Array], None]
    epsilon: float = 0.0

    def report(self, **figures: Any) -> None:
        super().report(**figures)
        weights = figures["weights"]
        weights = weights() if callable(weights) else weights
        if self.history[-1]["iteration"] > 0:
            self.watch(self, weights)
        last = self.history[-1]
        if self.reason is None and "norm" in last:  # of the gradient
            is_small = last["norm"] <= self.epsilon * max(1.0, float(np.linalg.norm(weights)))
            self.reason = "the stopping criterion" if is_small else None


def _trained(
    algorithm: str,
    settings: dict[str, Any],
    log: TrainingLog,
    n_jobs: int | None,
    X: Any,
    y: list[list[str]],
) -> tuple[Any, int]:
    """A tagger that has learnt as this algorithm of CRFsuite's does, and how many weights CRFsuite
    would count."""
    model = _untrained(algorithm, settings).set_params(n_jobs=n_jobs)
    model._check_parameters()
    data, start = model._prepare(X, y)
    parameters = _chosen(data, start.parameters, settings)
    assert parameters.has_weight is not None
    n_weights = len(parameters.cells["state"].column) + int(parameters.has_weight.sum())
    log.prepared(n_weights)
    start = start._replace(
        parameters=parameters, weights=np.zeros(parameters.n_weights, np.float32)
    )
    learning = model._learner(model)
    limits: dict[str, Any] = {"max_iter": max(1, settings["max_iterations"])}
    if algorithm in ("lbfgs", "l2sgd"):
        limits = {
            "max_iter": settings["max_iterations"] or UNLIMITED,
            "period": max(1, settings["period"]),
        }
        limits["tol"] = settings["delta"] if settings["period"] else -np.inf
    monitor = _Watched(**learning.stopping() | limits)
    monitor.watch = lambda now, weights: log.iteration(model, now, start, weights)
    monitor.epsilon = settings.get("epsilon", 0.0)
    weights = model._run(learning, start, data, monitor)
    model._keep(start._replace(weights=weights), data, learning, [monitor])
    return model, n_weights


def _untrained(algorithm: str, settings: dict[str, Any]) -> Any:
    """A tagger with the settings of this algorithm of CRFsuite's."""
    cells = "all" if settings["feature.possible_states"] else "observed"
    shared: dict[str, Any] = {"cells": cells, "random_state": 0}
    if algorithm in ("lbfgs", "l2sgd"):
        how = {"l1": settings["c1"]} if algorithm == "lbfgs" else {"optimizer": "sgd"}
        return CRF(l2=2 * settings["c2"], prune_labels="off", **how, **shared)
    shared["epsilon"] = settings["epsilon"]
    if algorithm == "averaged-perceptron":
        return Perceptron(averaging="avg", **shared)
    if algorithm == "arow":
        variances = {"variance": settings["variance"], "gamma": settings["gamma"]}
        return Perceptron(update="arow", cost="labels", averaging="none", **variances, **shared)
    if settings["type"] not in SLACK:
        raise OptionError(f"type: expected 0, 1 or 2, got {settings['type']}")
    return Perceptron(
        update="passive-aggressive",
        cost="root" if settings["error_sensitive"] else "sentence",
        averaging="avg" if settings["averaging"] else "none",
        slack=SLACK[settings["type"]],
        aggressiveness=settings["c"],
        **shared,
    )


def _chosen(data: Data, parameters: Parameters, settings: dict[str, Any]) -> Parameters:
    """The weights that CRFsuite gives to these data: of pairs of attribute and label, and of
    transitions."""
    L, least = parameters.n_states, settings["feature.minfreq"]
    gold, offsets = data.gold.astype(np.int64), data.offsets
    later = np.ones(len(gold), np.bool_)
    later[offsets[:-1]] = False
    pairs = gold[:-1][later[1:]] * L + gold[1:][later[1:]]
    seen = np.bincount(pairs, minlength=L * L)
    has_weight = np.ones(L * L, np.bool_) if settings["feature.possible_transitions"] else seen > 0
    if least > 0:
        has_weight &= seen >= least
    state = parameters.cells["state"]
    # negative values make negative frequencies
    if least > 0 or len(data.incidences["state"].token_value):
        state = _frequent(state, data, least, L)
    return parameters._replace(cells={"state": state}, has_weight=has_weight)


def _frequent(cells: Cells, data: Data, least: float, n_labels: int) -> Cells:
    """The pairs of attribute and label whose values add up to `least` or more."""
    incidence = data.incidences["state"]
    label = np.repeat(data.gold.astype(np.int64), np.diff(incidence.token_ptr))
    code = incidence.token_feature.astype(np.int64) * n_labels + label
    values = incidence.token_value if len(incidence.token_value) else None
    n_features = len(cells.ptr) - 1
    known, place = np.unique(code, return_inverse=True)
    frequency = np.bincount(place, values, len(known))
    owner = np.repeat(np.arange(n_features, dtype=np.int64), np.diff(cells.ptr))
    code = owner * n_labels + cells.column
    kept = np.isin(code, known[frequency >= least])
    if least <= 0:  # pairs that were never seen have the frequency 0
        kept |= ~np.isin(code, known)
    ptr = np.concatenate([[0], np.cumsum(kept)])[cells.ptr]
    return Cells(ptr, cells.column[kept])


# -- the trainer -----------------------------------------------------------------------------------


class CRFSuiteError(Exception):
    """Training failed; `code` says why, as in CRFsuite."""

    def __init__(self, code: int, detail: str = ""):
        self.code = code
        super().__init__(detail or MESSAGES.get(code, "Unexpected error"))


class BaseTrainer:
    """Collects training data and trains models.

    algorithm : lbfgs, l2sgd, ap (averaged perceptron), pa (passive-aggressive) or arow
    params : training parameters, see `set_params`
    verbose : print the messages of training
    """

    _PARAMETER_TYPES = TYPES
    _ALGORITHM_ALIASES = ALIASES
    verbose: bool = True
    # threads of training (labelwright's own addition); None: one for each core
    n_jobs: int | None = None

    def __new__(cls, *arguments: Any, **options: Any) -> "BaseTrainer":
        # subclasses may have a constructor that does not call this one
        trainer = super().__new__(cls)
        trainer._settings = {}
        trainer._select("lbfgs")
        trainer.clear()
        return trainer

    def __init__(
        self,
        algorithm: str | None = None,
        params: Mapping[str, Any] | None = None,
        verbose: bool = True,
    ):
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # -- data --------------------------------------------------------------------------------------

    def append(
        self, xseq: "Iterable[Any] | ItemSequence", yseq: Iterable[str], group: int = 0
    ) -> None:
        """Add a sentence and its labels; `group` is the number by which `train` leaves it out."""
        items, labels, group = items_of(xseq), list(yseq), operator.index(group)
        if not set(map(type, labels)) <= {str}:
            labels = [text_of(label) for label in labels]
        if len(items) != len(labels):
            raise ValueError(
                f"The numbers of items and labels differ: |x| = {len(items)}, |y| = {len(labels)}"
            )
        try:
            self._data.append(items)
        except CorpusError as error:
            raise ItemError(str(error).removeprefix("X: ")) from None
        self._labels.extend(map(self._label_numbers.__getitem__, labels))
        self._groups.append(group)

    def clear(self) -> None:
        """Forget all sentences."""
        self._data = Collected(":")
        self._labels, self._groups = array("i"), array("q")
        self._label_numbers = Numbers()

    # -- parameters --------------------------------------------------------------------------------

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose the algorithm; its parameters get their defaults."""
        name = ALIASES.get(algorithm.lower(), algorithm.lower())
        if name not in ALGORITHMS or type != "crf1d":
            raise ValueError(f"Bad arguments: algorithm={algorithm!r}, type={type!r}")
        self._select(name)

    def _select(self, algorithm: str) -> None:
        self._algorithm = algorithm
        self._settings = {
            name: parameter.default for name, parameter in ALGORITHMS[algorithm].items()
        }

    def params(self) -> list[str]:
        """The names of the parameters of the algorithm."""
        return list(self._settings)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set several parameters."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """All parameters and their values."""
        return {name: self.get(name) for name in self.params()}

    def set(self, name: str, value: Any) -> None:
        """Set a parameter of the algorithm."""
        if name not in self._settings:
            raise ValueError(f"Parameter not found: {name} = {value}")
        text = str(int(value)) if isinstance(value, bool | np.bool_) else str(value)
        try:
            self._settings[name] = TYPES[name](text)
        except ValueError:
            raise ValueError(f"Parameter {name}: cannot read {value!r}") from None

    def get(self, name: str) -> Any:
        """The value of a parameter."""
        if name not in self._settings:
            raise ValueError(f"Parameter not found: {name} = ")
        return self._settings[name]

    def help(self, name: str) -> str:
        """What a parameter does."""
        if name not in self._settings:
            raise ValueError(f"Parameter not found: {name}")
        return ALGORITHMS[self._algorithm][name].help

    # -- training ----------------------------------------------------------------------------------

    def train(self, model: str | bytes | os.PathLike[str], holdout: int = -1) -> None:
        """Train on all sentences but those of the group `holdout`, on which every iteration is
        evaluated, and write the model; an empty name writes none."""
        path = os.fsdecode(model)
        if path and not Path(path).parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        data = self.trained_model(holdout)
        if path:
            try:
                store(path, data)
            except ModelFileError as error:
                raise OSError(str(error)) from error

    def trained_model(self, holdout: int = -1) -> bytes:
        """As `train`, with the contents of the model file as the result."""
        self._before_train()
        for name in [*self._data.names, *self._label_numbers]:
            if "\0" in name or name != name.encode("utf-8", "ignore").decode():
                raise ValueError(
                    f"{name!r}: an attribute or a label with a character that a model file cannot "
                    "hold"
                )
        groups = np.array(self._groups, np.int64)
        held_out, labels = self._part(groups == holdout), list(self._label_numbers)
        log = TrainingLog(self.message, self._algorithm, self._settings, labels, held_out)
        log.start(holdout)
        X, y = self._part(groups != holdout)
        if any(y):
            try:
                tagger, n_weights = _trained(
                    self._algorithm, self._settings, log, self.n_jobs, X, y
                )
            except LabelwrightError as error:
                raise CRFSuiteError(-4, str(error)) from error
            reason, chain = uninterrupted(tagger).training_["stopped"], from_crf(tagger)
        else:
            reason, chain, n_weights = None, EMPTY, 0
            log.prepared(0)
        log.trained(reason)
        log.stored(chain, n_weights, len(self._data.names))
        return crfsuite.write(chain)

    def _part(self, chosen: Any) -> tuple[Collected, list[list[str]]]:
        """The sentences that are chosen [N], and their labels."""
        if not chosen.any():
            return Collected(self._data.separator), []
        names, offsets = list(self._label_numbers), self._data.offsets.tolist()
        y = [
            [names[code] for code in self._labels[offsets[n] : offsets[n + 1]]]
            for n in np.flatnonzero(chosen).tolist()
        ]
        return (self._data if chosen.all() else self._data.take(chosen)), y

    def message(self, message: str) -> None:
        """Receives the messages of training, one by one; prints them if `verbose` is set."""
        if self.verbose:
            print(message, end="")

    def _before_train(self) -> None:
        """For subclasses: is called when training begins."""


class Trainer(BaseTrainer):
    """A trainer that keeps its messages and figures (`logparser`) and calls a method for every
    event."""

    logparser: TrainLogParser | None = None

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()

    def message(self, message: str) -> None:
        log = self.logparser
        event = None if log is None else log.feed(message)
        if log is None or event is None or not self.verbose:
            return
        more: dict[str, Any] = {
            "featgen_progress": log.featgen_percent,
            "iteration": log.last_iteration,
        }
        getattr(self, f"on_{event}")(log.last_log, *([more[event]] if event in more else []))

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        print(log, end="")

    def on_start(self, log: str) -> None:
        print(log, end="")

    on_featgen_end = on_prepared = on_prepare_error = on_optimization_end = on_end = on_start
