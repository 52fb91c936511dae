"""CRFsuite's five algorithms on labelwright's learners."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.compat.pycrfsuite.log import TrainingLog
from labelwright.compat.pycrfsuite.parameters import UNLIMITED
from labelwright.errors import OptionError
from labelwright.learn.monitor import Monitor
from labelwright.scoring.parameters import Cells, Parameters, Trained
from labelwright.taggers.crf import CRF
from labelwright.taggers.perceptron import Perceptron
from labelwright.taggers.training import Data, TrainableModel

Array = NDArray[Any]
SLACK = {0: "none", 1: "linear", 2: "quadratic"}  # by the type of passive-aggressive updates


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
        if self.reason is None and self._is_small(weights):
            self.reason = "the stopping criterion"

    def _is_small(self, weights: Array) -> bool:
        """Is the norm of the gradient small, as L-BFGS of CRFsuite's asks for?"""
        last = self.history[-1]
        return "norm" in last and last["norm"] <= self.epsilon * max(1.0, float(np.linalg.norm(weights)))


class _Learner(TrainableModel):
    """What CRFsuite's settings add to a learner of labelwright."""

    settings: dict[str, Any]
    log: TrainingLog
    n_weights: int = 0  # that CRFsuite would count

    def _prepare(self, X: Any, y: Any, more: bool = False, sample_weight: Any = None) -> tuple[Data, Trained]:
        data, trained = super()._prepare(X, y, more, sample_weight)
        parameters = _chosen(data, trained.parameters, self.settings)
        assert parameters.has_weight is not None
        self.n_weights = len(parameters.cells["state"].column) + int(parameters.has_weight.sum())
        self.log.prepared(self.n_weights)
        return data, trained._replace(parameters=parameters, weights=np.zeros(parameters.n_weights, np.float32))

    def _monitor(self, start: Trained, data: Data, dev: Any, progress: Any, place: Any) -> Monitor:
        monitor = _Watched(**self._stopping())
        monitor.watch = lambda now, weights: self.log.iteration(self, now, start, weights)
        monitor.epsilon = self.settings.get("epsilon", 0.0)
        return monitor

    def _after(self, data: Data, development: Any) -> None:
        """Nothing is calibrated or examined here."""


class _LogLinear(_Learner, CRF):
    def _stopping(self) -> dict[str, Any]:
        period = self.settings["period"]
        return super()._stopping() | {
            "max_iter": self.settings["max_iterations"] or UNLIMITED,
            "tol": self.settings["delta"] if period else -np.inf,
            "period": max(1, period),
        }


class _Online(_Learner, Perceptron):
    def _stopping(self) -> dict[str, Any]:
        return super()._stopping() | {"max_iter": max(1, self.settings["max_iterations"])}


def learner(algorithm: str, settings: dict[str, Any], log: TrainingLog) -> Any:
    """An untrained tagger that learns as this algorithm of CRFsuite's does."""
    cells = "all" if settings["feature.possible_states"] else "observed"
    shared: dict[str, Any] = {"cells": cells, "random_state": 0}
    if algorithm == "lbfgs":
        model: Any = _LogLinear(l1=settings["c1"], l2=2 * settings["c2"], prune_labels="off", **shared)
    elif algorithm == "l2sgd":
        model = _LogLinear(l2=2 * settings["c2"], optimizer="sgd", prune_labels="off", **shared)
    elif algorithm == "averaged-perceptron":
        model = _Online(averaging="avg", epsilon=settings["epsilon"], **shared)
    elif algorithm == "passive-aggressive":
        if settings["type"] not in SLACK:
            raise OptionError(f"type: expected 0, 1 or 2, got {settings['type']}")
        model = _Online(
            update="passive-aggressive",
            cost="root" if settings["error_sensitive"] else "sentence",
            averaging="avg" if settings["averaging"] else "none",
            slack=SLACK[settings["type"]],
            aggressiveness=settings["c"],
            epsilon=settings["epsilon"],
            **shared,
        )
    else:
        variances = {"variance": settings["variance"], "gamma": settings["gamma"], "epsilon": settings["epsilon"]}
        model = _Online(update="arow", cost="labels", averaging="none", **variances, **shared)
    model.settings, model.log = settings, log
    return model


def _chosen(data: Data, parameters: Parameters, settings: dict[str, Any]) -> Parameters:
    """The weights that CRFsuite gives to these data: of pairs of attribute and label, and of transitions."""
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
    if least > 0 or len(data.incidences["state"].token_value):  # negative values make negative frequencies
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
