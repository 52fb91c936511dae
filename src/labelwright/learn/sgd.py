"""Stochastic gradient descent, one sentence a step (Bottou's schedule), for quick models on large data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import Incidence
from labelwright.kernels import online
from labelwright.learn.monitor import Monitor
from labelwright.parameters import Cells, Parameters
from labelwright.states import StateSpace

Array = NDArray[Any]
TRIAL_SENTENCES = 1000  # on which the first learning rate is tried out
TRIAL_RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)


class SGD:
    """The data and weights of a run; a pass is one kernel call."""

    def __init__(
        self,
        layers: dict[str, Incidence],
        offsets: NDArray[np.int64],
        gold: NDArray[np.int32],
        space: StateSpace,
        parameters: Parameters,
        l2: float,
        random_state: int,
    ):
        self.offsets, self.gold, self.parameters = offsets, gold, parameters
        self.n = len(offsets) - 1
        self.decay, self.l2, self.seed = l2 / self.n, l2, random_state
        S, self.first = space.n_states, space.first
        width = S + (-S) % 4
        self.fence = np.where(np.stack([space.start, space.end]), 0.0, -np.inf)
        self.forbidden = np.where(space.arc, 0.0, -np.inf)
        self.state, self.state_cells = layers["state"], parameters.cells["state"]
        self.edge, self.edge_cells = self.state, Cells(np.zeros(1, np.int64), np.empty(0, np.int32))
        if "edge" in layers:
            column = parameters.cells["edge"].column
            self.edge = layers["edge"]
            self.edge_cells = Cells(parameters.cells["edge"].ptr, (column // S * width + column % S).astype(np.int32))
        self.state, self.edge = (
            x._replace(token_value=x.token_value.astype(np.float32)) for x in (self.state, self.edge)
        )

    def one_pass(self, weights: Array, shrink: float, order: Array, eta: float, taken: int) -> tuple[float, float]:
        """Update `weights` (float64, in place); returns the penalised loss met on the way and the new shrink."""
        parts = self.parameters.slices
        S = self.parameters.n_states
        transitions = weights[parts["transitions"]].reshape(S, S)
        edge = weights[parts["edge"]] if "edge" in parts else weights[:0]
        loss, shrink = online.sgd_pass(
            order, self.offsets, self.gold, self.first, self.fence, self.forbidden, weights[parts["state"]],
            transitions, self.state, self.state_cells, self.edge, self.edge_cells, edge, shrink, eta, self.decay, taken,
        )  # fmt: skip
        return loss + 0.5 * self.l2 * shrink**2 * float(weights @ weights), shrink

    def first_rate(self, weights: Array) -> float:
        """The rate that gets furthest in one pass over a sample."""
        sample = np.random.default_rng([self.seed, 0]).permutation(self.n)[:TRIAL_SENTENCES]
        reached = {}
        for eta in TRIAL_RATES:
            copy = weights.copy()
            _, shrink = self.one_pass(copy, 1.0, sample, eta, 0)
            reached[eta] = self.one_pass(copy, shrink, sample, 1e-12, 0)[0]
        return min((eta for eta in reached if np.isfinite(reached[eta])), key=lambda eta: reached[eta], default=0.001)


def sgd(run: SGD, weights: Array, monitor: Monitor, state: dict[str, Array] | None = None) -> Array:
    """Passes over shuffled sentences until the monitor says stop; returns the weights."""
    if state is None:
        w, shrink, done = weights.astype(np.float64), 1.0, 0
        eta = run.first_rate(w)
    else:
        w, shrink, done, eta = state["w"], float(state["shrink"]), int(state["done"]), float(state["eta"])
    while not monitor.stop:
        order = np.random.default_rng([run.seed, done + 1]).permutation(run.n)
        loss, shrink = run.one_pass(w, shrink, order, eta, done * run.n)
        if shrink < 1e-9:
            w *= shrink
            shrink = 1.0
        done += 1
        saved = {"w": w, "shrink": np.array(shrink), "done": np.array(done), "eta": np.array(eta)}
        monitor.report(loss=loss, weights=(w * shrink).astype(np.float32), state=lambda saved=saved: saved)  # type: ignore[misc]
    return monitor.best((w * shrink).astype(np.float32))
