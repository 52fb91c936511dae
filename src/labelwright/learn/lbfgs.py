"""Limited-memory BFGS (Nocedal & Wright, algorithm 7.5), resumable to the last bit; and OWL-QN for
losses with an L1 penalty (Andrew & Gao, 2007): one orthant at a time; weights that would cross zero
become zero.

The two-loop recursion runs on coefficients: the direction is a combination of the stored steps s_i,
gradient changes y_i and the gradient, and their inner products are all it needs.  So an iteration
reads the history twice, in parallel. All passes over long vectors are in `Vectors`: on another
device they are other ones, and the rest stays.

float32 serves until its rounding errors hide what a step gains, float64 from there on.
"""

import itertools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.kernels import scoring
from labelwright.learn.monitor import Monitor
from labelwright.learn.variables import Variables
from labelwright.parallel import Workers

Array = NDArray[Any]
PAIRS, FEWER = 20, 10  # pairs (s, y) kept: more save an eighth of all evaluations;
MANY_NUMBERS = 1 << 25  # fewer where the pairs have more numbers than this
SUFFICIENT, CURVATURE = 1e-4, 0.9  # Wolfe's two conditions
MAX_TRIALS = 20
# a relative change of the loss by one step of OWL-QN, from which on the optimum is near
NEAR = 4e-4
NOISE = 1e-5  # a relative change of the loss that may be a rounding error
# bytes of a number: a relative change of the loss that cannot be seen
ROUNDING = {4: 1e-8, 8: 1e-15}


class Objective(Protocol):
    """What an optimiser minimises: fill the gradient, return the loss."""

    def __call__(self, weights: Array, gradient: Array) -> float: ...

    def precise(self) -> "Objective | None":
        """The same in float64; None where it is in float64 already, or cannot be."""


class AroundWeights:
    """objective(origin + change), as a function of the change: penalties then keep weights near
    those of an earlier model."""

    def __init__(self, objective: Objective, origin: Array):
        self.objective, self.origin = objective, origin

    def __call__(self, weights: Array, gradient: Array) -> float:
        return self.objective(self.origin + weights, gradient)

    def precise(self) -> "AroundWeights | None":
        made = self.objective.precise()
        return None if made is None else AroundWeights(made, self.origin)


class OfVariables:
    """An objective as a function of variables that make its weights."""

    def __init__(self, objective: Objective, variables: Variables):
        self.objective, self.variables = objective, variables

    def __call__(self, variables: Array, gradient: Array) -> float:
        weights = self.variables.weights(variables)
        loss = self.objective(weights, gradient[: len(weights)])
        self.variables.pull_back(gradient)
        return loss

    def precise(self) -> "OfVariables | None":
        made = self.objective.precise()
        return None if made is None else OfVariables(made, self.variables)


class Vectors:
    """Vectors of n numbers in memory, and passes over them: over fixed ranges, whose sums are added
    in order."""

    where: Any = staticmethod(np.where)
    sign: Any = staticmethod(np.sign)

    def __init__(self, n: int, workers: Workers):
        cuts = np.linspace(0, n, 9).astype(np.int64).tolist()
        self.ranges = [(a, b) for a, b in itertools.pairwise(cuts) if a < b]
        self.workers = workers

    def of(self, array: Array) -> Array:
        """A vector of these numbers."""
        return array

    def numpy(self, vector: Array) -> Array:
        """Its numbers."""
        return vector

    def variables(self, variables: Variables) -> Variables:
        """The same with vectors."""
        return variables

    def zeros(self, shape: tuple[int, ...], like: Array) -> Array:
        """Zeros of the precision of a vector."""
        return np.zeros(shape, like.dtype)

    def cast(self, vector: Array, itemsize: int) -> Array:
        """A vector whose numbers have so many bytes."""
        return vector.astype(f"f{itemsize}")

    def sum(self, vector: Array) -> float:
        """The sum in float64."""
        return float(np.sum(vector, dtype=np.float64))

    def dot(self, x: Array, y: Array) -> float:
        """x . y in float64."""
        return float(np.dot(x.astype(np.float64), y))

    def dots(self, basis: Array, rows: list[int]) -> Array:
        """The inner products of some rows of the basis with all of them [rows, basis]."""
        return self._sums(scoring.dots, basis, np.array(rows), shape=(len(rows), len(basis)))

    def combine(self, basis: Array, coefficients: Array, out: Array) -> None:
        """out = the sum of the rows of the basis, each times its coefficient."""
        self._run(scoring.combine, basis, coefficients, then=(out,))

    def advance(self, x: Array, direction: Array, step: float, out: Array) -> None:
        """out = x + step * direction."""
        self._run(scoring.advance, x, direction, step, then=(out,))

    def differences(
        self, x: Array, old_x: Array, g: Array, old_g: Array, s: Array, y: Array
    ) -> None:
        """s = x - old_x and y = g - old_g."""
        self._run(scoring.differences, x, old_x, g, old_g, then=(s, y))

    def add_ridge(
        self, x: Array, l2: Array, gradient: Array, direction: Array
    ) -> tuple[float, float]:
        """gradient += l2 x; returns l2 x . x and gradient . direction."""
        squares, slope = self._sums(scoring.add_ridge, x, l2, gradient, direction, shape=(2,))
        return float(squares), float(slope)

    def _run(
        self, function: Callable[..., Any], *arguments: Any, then: tuple[Any, ...] = ()
    ) -> None:
        self.workers.run(function, [(*arguments, a, b, *then) for a, b in self.ranges])

    def _sums(self, function: Callable[..., Any], *arguments: Any, shape: tuple[int, ...]) -> Array:
        """Add up what the kernel writes into its last argument, range by range."""
        parts = np.zeros((len(self.ranges), *shape))
        self.workers.run(
            function,
            [(*arguments, a, b, part) for (a, b), part in zip(self.ranges, parts, strict=True)],
        )
        total: Array = parts.sum(axis=0)
        return total


class History:
    """The last pairs (s_i, y_i), the current gradient, and all their inner products."""

    def __init__(self, x: Array, vectors: Vectors, memory: int):
        self.memory, self.vectors = memory, vectors
        self.basis = vectors.zeros((2 * memory + 1, len(x)), x)  # s_0.. | y_0.. | gradient
        self.gram = np.zeros((2 * memory + 1, 2 * memory + 1))
        self.n_pushed = 0

    def begin(self, gradient: Array) -> None:
        """Take the gradient at the point where the run stands."""
        self.basis[-1] = gradient
        self._measure([2 * self.memory])

    def push(self, x: Array, old_x: Array, g: Array, old_g: Array, gradient: Array) -> None:
        """Take a step, the change of g that it made, and the gradient that goes with g; a pair
        without curvature is dropped."""
        i = self.n_pushed % self.memory
        s, y = self.basis[i], self.basis[self.memory + i]
        self.vectors.differences(x, old_x, g, old_g, s, y)
        self.basis[-1] = gradient
        self._measure([i, self.memory + i, 2 * self.memory])
        if self.gram[i, self.memory + i] > 1e-10 * self.gram[self.memory + i, self.memory + i]:
            self.n_pushed += 1
        else:
            self._forget(i)

    def _measure(self, rows: list[int]) -> None:
        for row, products in zip(rows, self.vectors.dots(self.basis, rows), strict=True):
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
        # a dropped pair leaves its place empty
        newest_first = [i for i in newest_first if G[i, m + i] > 0]
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
        self.vectors.combine(self.basis, delta, out)
        return float(delta @ G[:, -1])

    def state(self) -> dict[str, Array]:
        return {
            "basis": self.vectors.numpy(self.basis),
            "gram": self.gram,
            "n_pushed": np.array(self.n_pushed),
        }

    def restore(self, state: dict[str, Array]) -> None:
        self.basis[:], self.gram[:], self.n_pushed = (
            self.vectors.of(state["basis"]),
            state["gram"],
            int(state["n_pushed"]),
        )


class Descent:
    """A run of L-BFGS: the loss of a problem and its penalties, the point where it stands, and how
    it goes on."""

    def __init__(self, problem: Objective, weights: Array, variables: Variables, vectors: Vectors):
        self.variables, self.vectors = vectors.variables(variables), vectors
        self.problem = OfVariables(problem, self.variables)
        self.evaluations = 0  # since the last report
        self._take(vectors.of(variables.of(weights)))

    def _take(self, x: Array) -> None:
        """Stand at x, with its precision."""
        self.x, self.l2 = x, self.vectors.cast(self.variables.l2, x.itemsize)
        self.trial, self.g, self.new_g, self.direction = (
            self.vectors.zeros((len(x),), x) for _ in range(4)
        )
        self.f, self.downhill = np.nan, self.g
        self.history = History(x, self.vectors, self.n_pairs)

    @property
    def n_pairs(self) -> int:
        """How many pairs (s, y) to keep."""
        return PAIRS if 2 * PAIRS * len(self.x) <= MANY_NUMBERS else FEWER

    def begin(self) -> None:
        """Evaluate the starting point."""
        self.f, _ = self.evaluate(self.x, self.g)
        self.downhill = self.gradient()
        self.history.begin(self.downhill)

    def evaluate(self, at: Array, g: Array) -> tuple[float, float]:
        """The penalised loss, and its slope along the direction."""
        self.evaluations += 1
        loss = self.problem(at, g)
        squares, gd = self.vectors.add_ridge(at, self.l2, g, self.direction)
        return loss + 0.5 * squares, gd

    def gradient(self) -> Array:
        """What directions are made from."""
        return self.g

    def advance(self) -> str | None:
        """Take a step; else say why there is none."""
        slope = self.history.direction(self.direction)
        if -slope < ROUNDING[self.x.itemsize] * abs(self.f):
            return "the possible improvement is below the rounding error"
        step, low, high = self.first_step(), 0.0, np.inf
        for _ in range(MAX_TRIALS):
            self.vectors.advance(self.x, self.direction, step, self.trial)
            f, new_slope = self.evaluate(self.trial, self.new_g)
            if not f <= self.f + SUFFICIENT * step * slope:
                high = step
                if self.is_noise(f, slope, new_slope):
                    break
            elif new_slope < CURVATURE * slope:
                low = step
            else:
                self.accept(f)
                return None
            step = 2 * step if high == np.inf else (low + high) / 2
        if not f < self.f:
            return "no step decreases the loss"
        self.accept(f)
        return None

    def is_noise(self, f: float, slope: float, new_slope: float) -> bool:
        """Is a loss that did not fall one of rounding errors?  So it is where the step is a good
        one by the slopes at both ends (Hager & Zhang, 2005, approximate Wolfe conditions)."""
        return CURVATURE * slope <= new_slope <= -0.8 * slope and abs(f - self.f) <= NOISE * abs(
            self.f
        )

    def first_step(self) -> float:
        """The first length to try."""
        return (
            1.0
            if self.history.n_pushed
            else 1.0 / max(1.0, float(np.sqrt(self.history.gram[-1, -1])))
        )

    def accept(self, f: float) -> None:
        """Stand at the trial point."""
        self.x, self.trial, self.g, self.new_g = self.trial, self.x, self.new_g, self.g
        self.f, self.downhill = f, self.gradient()
        self.history.push(self.x, self.trial, self.g, self.new_g, self.downhill)

    def sharpen(self) -> bool:
        """Go on in float64; False where that cannot be."""
        state = self.history.state()
        try:
            precise = self.problem.precise()
            if precise is None:
                return False
            self._take(self.vectors.cast(self.x, 8))
        except OptionError:  # a device has no memory for it
            return False
        self.problem = precise
        self.history.restore(state)
        self.begin()
        return True

    def forget(self) -> bool:
        """Forget all steps, so that the next direction is that of the gradient; False where there
        are none."""
        known = self.history.n_pushed > 0
        self.history.clear()
        return known

    def weights(self) -> Array:
        """The weights of the point where it stands."""
        return self.vectors.numpy(self.variables.weights(self.x))

    def state(self) -> dict[str, Array]:
        """All that is needed to go on from here."""
        x, g = self.vectors.numpy(self.x), self.vectors.numpy(self.g)
        return {"variables": x, "f": np.array(self.f), "g": g, **self.history.state()}

    def resume(self, state: dict[str, Array], monitor: Monitor) -> None:
        """Go on from a saved state."""
        weights, itemsize = self.weights(), getattr(state.get("variables"), "itemsize", 4)
        if itemsize > self.x.itemsize and (precise := self.problem.precise()) is not None:
            self.problem = precise
            self._take(self.vectors.cast(self.x, 8))
        monitor.check_state(state, self.state() | {"f": np.array(0.0)}, weights)
        self.x[:], self.g[:] = self.vectors.of(state["variables"]), self.vectors.of(state["g"])
        self.f = float(state["f"])
        self.downhill = self.gradient()
        self.history.restore(state)


def pseudo_gradient(
    x: Array, gradient: Array, l1: Array | float, where: Callable[..., Array] = np.where
) -> Array:
    """The derivative of loss + l1 |w| on the side where it decreases; 0 where it increases on both
    sides."""
    right, left = gradient + l1, gradient - l1
    at_zero = where(right < 0, right, where(left > 0, left, 0 * left))
    return where(x > 0, right, where(x < 0, left, at_zero))


class OrthantDescent(Descent):
    """A run of OWL-QN: the same with an L1 penalty."""

    is_near = False  # the optimum

    def evaluate(self, at: Array, g: Array) -> tuple[float, float]:
        f, slope = super().evaluate(at, g)
        return f + self.vectors.sum(self.variables.l1 * abs(at)), slope

    def gradient(self) -> Array:
        return pseudo_gradient(self.x, self.g, self.variables.l1, self.vectors.where)

    def advance(self) -> str | None:
        """Take a step within an orthant.

        Andrew & Gao take only the part of a direction that goes down as the steepest descent does.
        Near the optimum that discards much of what earlier steps have taught about curvature, and
        takes up to four times as many iterations: there only zeros may not leave on the side where
        the loss increases, unless the direction would not lead down otherwise."""
        vectors = self.vectors
        self.history.direction(self.direction)
        opposed = self.direction * self.downhill >= 0
        self.direction[opposed & (self.x == 0) if self.is_near else opposed] = 0
        if not vectors.dot(self.direction, self.downhill) < 0:
            self.direction[opposed] = 0
        orthant = vectors.where(self.x != 0, vectors.sign(self.x), -vectors.sign(self.downhill))
        step = self.first_step()
        for _ in range(MAX_TRIALS):
            self.trial[:] = self.x + step * self.direction
            self.trial[self.trial * orthant <= 0] = 0
            f, _ = self.evaluate(self.trial, self.new_g)
            change = self.trial - self.x
            gain = vectors.dot(change, self.downhill)
            if f <= self.f + SUFFICIENT * min(gain, 0.0):
                self.is_near = self.is_near or self.f - f < NEAR * abs(f)
                self.accept(f)
                return None
            if self.is_noise(
                f, gain, vectors.dot(change, self.new_g + self.variables.l1 * orthant)
            ):
                break
            step *= 0.5
        return "no step decreases the loss"

    def state(self) -> dict[str, Array]:
        return super().state() | {"is_near": np.array(self.is_near)}

    def resume(self, state: dict[str, Array], monitor: Monitor) -> None:
        super().resume(state, monitor)
        self.is_near = bool(state["is_near"])


def minimised(
    problem: Objective,
    weights: Array,
    variables: Variables,
    monitor: Monitor,
    workers: Workers,
    state: dict[str, Array] | None = None,
    vectors: Vectors | None = None,
) -> Array:
    """The weights that minimise the loss and the penalties of the variables, by OWL-QN where these
    have an L1 penalty, else by L-BFGS; from `weights`, or from the saved state of a run, until the
    monitor says stop.  `vectors` are those that the problem takes, in memory by default."""
    kind = OrthantDescent if variables.l1.any() else Descent
    vectors = vectors or Vectors(len(variables.scale), workers)
    run, dtype = kind(problem, weights, variables, vectors), weights.dtype

    def now() -> Array:
        return run.weights().astype(dtype)

    def report() -> None:
        evaluations, run.evaluations = run.evaluations, 0
        norm = float(np.sqrt(run.history.gram[-1, -1]))
        seen: dict[str, Any] = {"loss": run.f, "norm": norm, "evaluations": evaluations}
        monitor.report(**seen, weights=now, state=run.state)

    if state is None:
        run.begin()
        report()
    else:
        run.resume(state, monitor)
    while not monitor.stop:
        failure = run.advance()
        if failure is None:
            report()
        elif not run.sharpen() and not run.forget():
            monitor.finish(f"converged: {failure}")
    return monitor.best(now())
