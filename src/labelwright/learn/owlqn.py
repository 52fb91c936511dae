"""OWL-QN: L-BFGS for loss + l1 |w| (Andrew & Gao, 2007): one orthant at a time; weights that would cross zero become
zero."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import vectors
from labelwright.learn.lbfgs import MAX_TRIALS, SUFFICIENT, History, Objective, Ranges
from labelwright.learn.monitor import Monitor
from labelwright.parallel import Workers

Array = NDArray[Any]


def pseudo_gradient(x: Array, gradient: Array, l1: float) -> Array:
    """The derivative of loss + l1 |w| on the side where it decreases; 0 where it increases on both sides."""
    right, left = gradient + l1, gradient - l1
    at_zero = np.where(right < 0, right, np.where(left > 0, left, 0))
    result: Array = np.where(x > 0, right, np.where(x < 0, left, at_zero)).astype(x.dtype)
    return result


def owlqn(
    problem: Objective,
    weights: Array,
    l1: float,
    l2: float,
    monitor: Monitor,
    workers: Workers,
    state: dict[str, Array] | None = None,
) -> Array:
    """Minimise loss(w) + l1 |w| + l2/2 |w|^2; returns weights of which many are exactly zero."""
    x = weights.copy()
    ranges = Ranges(len(x), workers)
    history = History(len(x), x.dtype, ranges)
    direction, gradient, smooth = np.zeros_like(x), np.empty_like(x), np.empty_like(x)

    def evaluate(at: Array, g: Array) -> float:
        loss = problem(at, g)
        xx, _, _ = ranges.sums(vectors.add_ridge, at, l2, g, direction, shape=(3,))
        return loss + 0.5 * l2 * float(xx) + l1 * float(np.abs(at).sum(dtype=np.float64))

    if state is None:
        f = evaluate(x, smooth)
        history.gradient[:] = pseudo_gradient(x, smooth, l1)
        history.measure_gradient()
        monitor.report(loss=f, norm=float(np.sqrt(history.gram[-1, -1])), evaluations=1, weights=x)
    else:
        monitor.check_state(state, {"x": x, "f": np.array(0.0), "smooth": smooth, **history.state()}, x)
        x[:] = state["x"]
        smooth[:] = state["smooth"]
        f = float(state["f"])
        history.restore(state)
    while not monitor.stop:
        history.direction(direction)
        downhill = history.gradient
        direction[direction * downhill >= 0] = 0
        orthant = np.where(x != 0, np.sign(x), -np.sign(downhill))
        step = 1.0 if history.n_pushed else 1.0 / max(1.0, float(np.sqrt(history.gram[-1, -1])))
        accepted = False
        for trials in range(1, MAX_TRIALS + 1):  # noqa: B007
            trial = (x + x.dtype.type(step) * direction).astype(x.dtype)
            trial[trial * orthant <= 0] = 0
            new_f = evaluate(trial, gradient)
            gain = float(np.dot((trial - x).astype(np.float64), downhill))
            if new_f <= f + SUFFICIENT * gain:
                accepted = True
                break
            step *= 0.5
        if not accepted:
            if history.n_pushed == 0:
                monitor.finish("converged: no step decreases the loss")
                break
            history.clear()
            continue
        s, y = history.next_pair()
        ranges.run(vectors.differences, trial, x, gradient, smooth, then=(s, y))
        smooth[:] = gradient
        x, f = trial, new_f
        history.gradient[:] = pseudo_gradient(x, smooth, l1)
        history.push()
        monitor.report(
            loss=f,
            norm=float(np.sqrt(history.gram[-1, -1])),
            evaluations=trials,
            weights=x,
            state=lambda x=x, f=f: {"x": x, "f": np.array(f), "smooth": smooth, **history.state()},  # type: ignore[misc]
        )
    return monitor.best(x)
