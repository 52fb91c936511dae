"""CRFsuite's five algorithms on labelwright's learners."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.compat.pycrfsuite.log import TrainingLog
from labelwright.compat.pycrfsuite.parameters import UNLIMITED
from labelwright.engine.choice import expect_much
from labelwright.errors import OptionError
from labelwright.learn.monitor import Monitor
from labelwright.scoring.parameters import Cells, Parameters
from labelwright.taggers.crf import CRF
from labelwright.taggers.perceptron import Perceptron
from labelwright.taggers.training import Data

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


class Trained(NamedTuple):
    """A tagger, and how many weights CRFsuite would count."""

    tagger: Any
    n_weights: int


def trained(
    algorithm: str, settings: dict[str, Any], log: TrainingLog, n_jobs: int | None, X: Any, y: list[list[str]]
) -> Trained:
    """A tagger that has learnt as this algorithm of CRFsuite's does."""
    model = _untrained(algorithm, settings).set_params(n_jobs=n_jobs)
    model._check_parameters()
    expect_much()
    data, start = model._prepare(X, y)
    parameters = _chosen(data, start.parameters, settings)
    assert parameters.has_weight is not None
    n_weights = len(parameters.cells["state"].column) + int(parameters.has_weight.sum())
    log.prepared(n_weights)
    start = start._replace(parameters=parameters, weights=np.zeros(parameters.n_weights, np.float32))
    learning = model._learner(model)
    monitor = _Watched(**learning.stopping() | _limits(algorithm, settings))
    monitor.watch = lambda now, weights: log.iteration(model, now, start, weights)
    monitor.epsilon = settings.get("epsilon", 0.0)
    weights = model._run(learning, start, data, monitor)
    model._keep(start._replace(weights=weights), data, learning, [monitor])
    return Trained(model, n_weights)


def _limits(algorithm: str, settings: dict[str, Any]) -> dict[str, Any]:
    """When CRFsuite stops, as arguments of Monitor."""
    if algorithm not in ("lbfgs", "l2sgd"):
        return {"max_iter": max(1, settings["max_iterations"])}
    period = settings["period"]
    return {
        "max_iter": settings["max_iterations"] or UNLIMITED,
        "tol": settings["delta"] if period else -np.inf,
        "period": max(1, period),
    }


def _untrained(algorithm: str, settings: dict[str, Any]) -> Any:
    """A tagger with the settings of this algorithm of CRFsuite's."""
    cells = "all" if settings["feature.possible_states"] else "observed"
    shared: dict[str, Any] = {"cells": cells, "random_state": 0}
    if algorithm == "lbfgs":
        model: Any = CRF(l1=settings["c1"], l2=2 * settings["c2"], prune_labels="off", **shared)
    elif algorithm == "l2sgd":
        model = CRF(l2=2 * settings["c2"], optimizer="sgd", prune_labels="off", **shared)
    elif algorithm == "averaged-perceptron":
        model = Perceptron(averaging="avg", epsilon=settings["epsilon"], **shared)
    elif algorithm == "passive-aggressive":
        if settings["type"] not in SLACK:
            raise OptionError(f"type: expected 0, 1 or 2, got {settings['type']}")
        model = Perceptron(
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
        model = Perceptron(update="arow", cost="labels", averaging="none", **variances, **shared)
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
