"""Limited-memory BFGS (Nocedal & Wright, algorithm 7.5), resumable to the last bit.

The two-loop recursion runs on coefficients: the direction is a combination of the stored steps s_i, gradient changes
y_i and the gradient, and their inner products are all it needs.  So an iteration reads the history twice, in parallel.
"""

import itertools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import vectors
from labelwright.learn.monitor import Monitor
from labelwright.parallel import Workers

Array = NDArray[Any]
MEMORY = 6  # pairs (s, y) kept
SUFFICIENT, CURVATURE = 1e-4, 0.9  # Wolfe's two conditions
MAX_TRIALS = 20


class Objective(Protocol):
    """What an optimiser minimises: fill the gradient, return the loss."""

    def __call__(self, weights: Array, gradient: Array) -> float: ...


class Ranges:
    """Vector kernels over fixed ranges of a long vector; partial sums are added in order."""

    def __init__(self, n: int, workers: Workers):
        cuts = np.linspace(0, n, 9).astype(np.int64).tolist()
        self.ranges = [(a, b) for a, b in itertools.pairwise(cuts) if a < b]
        self.workers = workers

    def run(self, function: Callable[..., Any], *arguments: Any, then: tuple[Any, ...] = ()) -> None:
        self.workers.run(function, [(*arguments, a, b, *then) for a, b in self.ranges])

    def sums(self, function: Callable[..., Any], *arguments: Any, shape: tuple[int, ...]) -> Array:
        """Add up what the kernel writes into its last argument, range by range."""
        parts = np.zeros((len(self.ranges), *shape))
        self.workers.run(function, [(*arguments, a, b, part) for (a, b), part in zip(self.ranges, parts, strict=True)])
        total: Array = parts.sum(axis=0)
        return total


class History:
    """The last pairs (s_i, y_i), the current gradient, and all their inner products."""

    def __init__(self, n_weights: int, dtype: Any, ranges: Ranges, memory: int = MEMORY):
        self.memory, self.ranges = memory, ranges
        self.basis = np.zeros((2 * memory + 1, n_weights), dtype)  # s_0.. | y_0.. | gradient
        self.gram = np.zeros((2 * memory + 1, 2 * memory + 1))
        self.n_pushed = 0

    @property
    def gradient(self) -> Array:
        row: Array = self.basis[-1]
        return row

    def next_pair(self) -> tuple[Array, Array]:
        """The rows for the next s and y."""
        i = self.n_pushed % self.memory
        return self.basis[i], self.basis[self.memory + i]

    def push(self) -> None:
        """Accept the pair just written and the new gradient; a pair without curvature is dropped."""
        i = self.n_pushed % self.memory
        self._measure([i, self.memory + i, 2 * self.memory])
        if self.gram[i, self.memory + i] > 1e-10 * self.gram[self.memory + i, self.memory + i]:
            self.n_pushed += 1
        else:
            self._forget(i)

    def measure_gradient(self) -> None:
        self._measure([2 * self.memory])

    def _measure(self, rows: list[int]) -> None:
        inner_products = self.ranges.sums(vectors.dots, self.basis, np.array(rows), shape=(len(rows), len(self.basis)))
        for row, products in zip(rows, inner_products, strict=True):
            self.gram[row, :] = products
            self.gram[:, row] = products

    def _forget(self, i: int) -> None:
        for row in (i, self.memory + i):
            self.basis[row] = 0
            self.gram[row, :] = self.gram[:, row] = 0

    def clear(self) -> None:
        for i in range(self.memory):
            self._forget(i)
        self.n_pushed = 0

    def direction(self, out: Array) -> float:
        """Fill `out` with minus H times the gradient; returns its slope, direction . gradient."""
        m, G = self.memory, self.gram
        delta = np.zeros(2 * m + 1)
        delta[-1] = -1.0
        newest_first = [(self.n_pushed - 1 - k) % m for k in range(min(m, self.n_pushed))]
        newest_first = [i for i in newest_first if G[i, m + i] > 0]  # a dropped pair leaves its place empty
        alpha = {}
        for i in newest_first:
            alpha[i] = delta @ G[:, i] / G[i, m + i]
            delta[m + i] -= alpha[i]
        if newest_first:
            i = newest_first[0]
            delta *= G[i, m + i] / G[m + i, m + i]
        for i in reversed(newest_first):
            beta = delta @ G[:, m + i] / G[i, m + i]
            delta[i] += alpha[i] - beta
        self.ranges.run(vectors.combine, self.basis, delta, then=(out,))
        return float(delta @ G[:, -1])

    def state(self) -> dict[str, Array]:
        return {"basis": self.basis, "gram": self.gram, "n_pushed": np.array(self.n_pushed)}

    def restore(self, state: dict[str, Array]) -> None:
        self.basis[:] = state["basis"]
        self.gram[:] = state["gram"]
        self.n_pushed = int(state["n_pushed"])


def lbfgs(
    problem: Objective,
    weights: Array,
    l2: float,
    monitor: Monitor,
    workers: Workers,
    state: dict[str, Array] | None = None,
) -> Array:
    """Minimise loss(w) + l2/2 |w|^2, starting from `weights` or from a saved state; returns the weights."""
    x = weights.copy()
    ranges = Ranges(len(x), workers)
    history = History(len(x), x.dtype, ranges)
    direction, trial, gradient = np.zeros_like(x), np.empty_like(x), np.empty_like(x)

    def evaluate(at: Array, g: Array) -> tuple[float, float, float]:
        """Penalised loss, gradient norm, and slope along the direction."""
        loss = problem(at, g)
        xx, gg, gd = ranges.sums(vectors.add_ridge, at, l2, g, direction, shape=(3,))
        return loss + 0.5 * l2 * xx, float(np.sqrt(gg)), float(gd)

    rounding = 1e-8 if x.dtype == np.float32 else 1e-15
    if state is None:
        f, norm, _ = evaluate(x, history.gradient)
        history.measure_gradient()
        monitor.report(loss=f, norm=norm, evaluations=1, weights=x)
    else:
        monitor.check_state(state, {"x": x, "f": np.array(0.0), **history.state()}, x)
        x[:] = state["x"]
        f = float(state["f"])
        history.restore(state)
    while not monitor.stop:
        slope = history.direction(direction)
        if -slope < rounding * abs(f):
            monitor.finish("converged: the possible improvement is below the rounding error")
            break
        step = 1.0 if history.n_pushed else 1.0 / max(1.0, float(np.sqrt(history.gram[-1, -1])))
        low, high, accepted = 0.0, np.inf, False
        new_f = norm = np.nan
        for trials in range(1, MAX_TRIALS + 1):  # noqa: B007
            ranges.run(vectors.advance, x, direction, step, then=(trial,))
            new_f, norm, new_slope = evaluate(trial, gradient)
            if not new_f <= f + SUFFICIENT * step * slope:
                high = step
            elif new_slope < CURVATURE * slope:
                low = step
            else:
                accepted = True
                break
            step = 2 * step if high == np.inf else (low + high) / 2
        if not accepted and not new_f < f:
            if history.n_pushed == 0:
                monitor.finish("converged: no step decreases the loss")
                break
            history.clear()
            continue
        s, y = history.next_pair()
        ranges.run(vectors.differences, trial, x, gradient, history.gradient, then=(s, y))
        history.gradient[:] = gradient
        history.push()
        x, trial, f = trial, x, new_f
        monitor.report(
            loss=f,
            norm=norm,
            evaluations=trials,
            weights=x,
            state=lambda x=x, f=f: {"x": x, "f": np.array(f), **history.state()},  # type: ignore[misc]
        )
    return monitor.best(x)
