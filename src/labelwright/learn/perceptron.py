"""The perceptron and the latent perceptron (Collins 2002; Sun, Matsuzaki, Okanohara & Tsujii 2009,
figure 1), with passive-aggressive updates (Crammer, Dekel, Keshet, Shalev-Shwartz & Singer 2006)
and AROW (Crammer, Kulesza & Dredze 2009); how far it separates its training data, and how many
mistakes it can make (Sun et al., section 3.2)."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.features.incidence import Incidence
from labelwright.kernels import perceptron as kernels
from labelwright.kernels.tile_paths import TilesView, transitions_of
from labelwright.learn.monitor import Monitor
from labelwright.parallel import Workers, computed_once
from labelwright.scoring.parameters import Parameters
from labelwright.scoring.tiles import Features, TileLayout
from labelwright.structures.lattice import Margins
from labelwright.structures.states import StateSpace
from labelwright.structures.supervision import Supervision

Array = NDArray[Any]
PIECE = 20_000_000  # numbers in all rows of a kernel call: Ctrl-C takes effect between calls
# Without a margin, superfluous latent states drift and their mean blurs; a large margin separates
# them, but is never reached.  On synthetic sequences (benchmarks/perceptron.py) 2.5 usual updates,
# then one, did best among those tried (0 to 6, constant or falling).
EARLY, LARGER = 10, 2.5  # passes before this one have a larger margin, if the margin is automatic
LARGEST = 1e15  # value of a feature that float32 can still add up
NO_VARIANCES = np.empty(0, np.float32)
NO_WEIGHTS = np.empty(0, np.float64)


class TrainingData(NamedTuple):
    """The training data of a run."""

    offsets: Array  # [N+1]
    gold: Array  # [T]  labels, or L + k: one of the labels of set k
    features: Features
    most_cells: int  # of a sentence
    sets: Array  # [K, L]
    of_sentences: Array  # [N]  their updates are multiplied by this; [0]: by 1
    # [T]  and by the mean of this over the tokens with wrong labels; [0]: by 1
    of_tokens: Array


class UpdateRule(NamedTuple):
    """The update at a mistake."""

    margin: float  # by which the gold path must win: this times (number of wrong labels) ** power
    passive: bool  # passive-aggressive or AROW: only as far as needed, and no further than
    limit: float
    damping: float = 0.0  # added to the squared norm of the difference: PA-II and AROW
    power: float = 1.0
    augmented: bool = True  # the best path is the one with the margin on top
    variance: float = 0.0  # AROW: of every weight at first; 0: weights have none
    share: float = 0.0  # of a step, which all latent states of a label take; not with AROW


class Outcome(NamedTuple):
    """What a pass over the data saw."""

    mistakes: int  # sentences that led to an update
    loss: float  # by how much their best paths scored above the gold ones, the margin included
    errors: float  # the sum over sentences of the share of wrong labels


class Averaged:
    """The weights of a run and the mean of all weight vectors since its first sentence.

    The mean is weights - sums / taken, where sums holds each change times the sentences before it:
    the cost of an update depends on what it changes, not on the number of weights.  With AROW,
    weights have variances."""

    def __init__(
        self,
        weights: Array,
        sums: Array | None = None,
        taken: int = 0,
        variances: Array = NO_VARIANCES,
    ):
        self.weights = weights.astype(np.float32)  # [W]
        self.sums = np.zeros(len(weights)) if sums is None else sums.astype(np.float64)  # [W]
        self.taken = taken  # sentences so far
        self.variances = variances.astype(np.float32)  # [W], or [0]: none

    @classmethod
    def begin(cls, weights: Array, rule: UpdateRule) -> Self:
        return cls(
            weights, variances=np.full(len(weights) if rule.variance > 0 else 0, rule.variance)
        )

    def mean(self) -> Array:
        """The mean of the weights after each sentence so far."""
        if self.taken == 0:
            return self.weights.copy()
        return (self.weights - self.sums / self.taken).astype(np.float32)

    def moved(self, there: Callable[[Array], Array]) -> "Averaged":
        """The same run with its weights in another layout."""
        variances = there(self.variances) if len(self.variances) else self.variances
        return Averaged(there(self.weights), there(self.sums), self.taken, variances)

    def restart(self) -> None:
        """Continue from the mean, which itself continues (mavg)."""
        self.weights = self.mean()
        self.sums[:] = 0


class Passes:
    """Training data as the kernel reads them; a margin of NaN means that of a usual update."""

    def __init__(
        self,
        incidences: dict[str, Incidence],
        offsets: NDArray[np.int64],
        gold: NDArray[np.int32],
        said: Supervision,
        space: StateSpace,
        parameters: Parameters,
        rule: UpdateRule,
        seed: int | None,
        batch_size: int = 1,
        workers: Workers | None = None,
    ):
        self.seed, self.batch_size, self.workers = seed, batch_size, workers or Workers(1)
        self.n = len(offsets) - 1
        self.layout = TileLayout(incidences, len(gold), space, parameters)
        self.tiles, self.features = self.layout.tiles, self.layout.features
        self.rule = rule = rule._replace(share=rule.share if space.latent else 0.0)
        ptr = self.features.ptr
        of_sentences = np.diff(ptr[:, offsets], axis=1).sum(axis=0) + 3 * np.diff(offsets)
        self.data = TrainingData(
            offsets,
            gold.astype(np.int64),
            self.features,
            int(of_sentences.max(initial=0)),
            said.sets,
            NO_WEIGHTS if said.of_sentences is None else said.of_sentences,
            NO_WEIGHTS if said.of_tokens is None else said.of_tokens,
        )
        self.views = kernels.DataView(self.data), TilesView(self.tiles)
        if len(self.features.value) and float(np.abs(self.features.value).max()) > LARGEST:
            raise OptionError(
                f"a feature has a value above {LARGEST:g}, too large for a perceptron: scale the "
                "values"
            )
        self.early = 1.0
        if np.isnan(rule.margin):
            value = self.features.value
            squares = (
                np.concatenate([[0.0], np.cumsum(value.astype(np.float64) ** 2)])
                if len(value)
                else None
            )
            of_tokens = np.diff(ptr if squares is None else squares[ptr], axis=1).sum(axis=0)  # [T]
            # By how much an update changes the score of a token that it touches.
            usual = float(np.median(of_tokens)) + self.tiles.order if len(of_tokens) else 0.0
            self.rule, self.early = rule._replace(margin=usual), LARGER
        self.piece = max(1, int(PIECE * self.n / (max(1, len(gold)) * len(self.tiles.fence))))

    def order(self, number: int) -> Array:
        """The sentences in the order of this pass: shuffled, or as they are without a seed."""
        if self.seed is None:
            return np.arange(self.n)
        return np.random.default_rng([self.seed, number]).permutation(self.n)

    def one_pass(self, run: Averaged, number: int) -> Outcome:
        order = self.order(number)
        rule = self.rule._replace(margin=self.rule.margin * (self.early if number < EARLY else 1.0))
        mistakes, loss, errors = 0, 0.0, 0.0
        sequential = self.batch_size == 1
        size = self.piece if sequential else self.batch_size
        transitions = None if sequential else transitions_of(self.views[1], run.weights)
        for begin in range(0, self.n, size):
            piece = order[begin : begin + size]
            if sequential:
                seen = kernels.perceptron_pass(piece, *self.views, rule, run, run.taken)
            else:
                seen = self._mini_batch(piece, rule, run, transitions)
            more, worse, wrong = seen
            run.taken += len(piece)
            mistakes, loss, errors = (
                mistakes + int(more),
                loss + float(worse),
                errors + float(wrong),
            )
        return Outcome(mistakes, loss, errors)

    def _mini_batch(
        self, order: Array, rule: UpdateRule, run: Averaged, transitions: Any
    ) -> tuple[int, float, float]:
        """The best paths of some sentences by the same weights, on all threads; then their updates,
        in order."""
        best, target = self._paths
        wrong = np.empty(len(order), np.int64)
        cuts = (
            np.linspace(0, len(order), min(self.workers.n, len(order)) + 1)
            .astype(np.int64)
            .tolist()
        )

        def part(a: int, b: int) -> None:
            kernels.find_paths(
                order[a:b], *self.views, rule, run.weights, transitions, best, target, wrong[a:b]
            )

        self.workers.run(part, pairwise(cuts))
        result: tuple[int, float, float] = kernels.apply_paths(
            order, *self.views, rule, run, transitions, run.taken, best, target, wrong
        )
        return result

    @computed_once
    def _paths(self) -> tuple[Array, Array]:
        """Scratch for the best path and that of the gold labels [2, T]."""
        best, target = np.empty((2, len(self.data.gold)), np.int64)
        return best, target

    def mean_loss(self, outcome: Outcome) -> float:
        """The loss per sentence by which training may stop: what passive-aggressive and AROW
        updates make small, or the share of wrong labels."""
        return (outcome.loss if self.rule.passive else outcome.errors) / max(1, self.n)

    def share_without(self, mistakes: int) -> float:
        """The share of the sentences that led to no update."""
        return 1 - mistakes / self.n if self.n else 1.0

    def largest_norm(self) -> float | None:
        """M of theorems 2 and 3: the largest norm of the features of a sentence; None where values
        are negative."""
        if len(self.features.value) and self.features.value.min() < 0:
            return None
        return float(kernels.largest_norm(self.features, self.data.offsets, self.tiles.order))


class Averaging(NamedTuple):
    """Which weights are kept, and from which ones passes begin."""

    kind: str  # "none", "avg", "mavg"
    # mavg: pass q begins from the mean of all weights before it when q is a multiple of this
    reset_every: int = 4


def perceptron(
    passes: Passes,
    weights: Array,
    monitor: Monitor,
    averaging: Averaging,
    epsilon: float | None = 0.0,
    state: dict[str, Array] | None = None,
) -> Array:
    """Pass after pass until the monitor says stop, no mistake is left, or the mean loss of a
    sentence is below epsilon (None: only the monitor stops); returns the last weights, or their
    mean."""
    layout = passes.layout
    run, done = Averaged.begin(layout.laid_out(weights), passes.rule), 0

    def result() -> Array:
        return layout.taken_back(run.weights if averaging.kind == "none" else run.mean())

    def saved() -> dict[str, Array]:
        arrays: dict[str, Array] = {"weights": run.weights, "sums": run.sums}
        if len(run.variances):
            arrays["variances"] = run.variances
        return arrays | {"taken": np.array(run.taken), "done": np.array(done)}

    if state is not None:
        monitor.check_state(state, saved(), weights)
        variances = state.get("variances", NO_VARIANCES)
        run, done = (
            Averaged(state["weights"], state["sums"], int(state["taken"]), variances),
            int(state["done"]),
        )

    while not monitor.stop:
        done += 1
        if averaging.kind == "mavg" and done % averaging.reset_every == 0:
            run.restart()
        outcome = passes.one_pass(run, done)
        mistakes, loss = outcome.mistakes, outcome.loss
        if epsilon is not None and mistakes == 0:  # further passes would only change the mean
            run.taken += max(0, monitor.max_iter - done) * passes.n
            monitor.finish("converged: a pass without mistakes")
        elif epsilon is not None and passes.mean_loss(outcome) < epsilon:
            monitor.finish(f"converged: a mean loss per sentence below {epsilon:g}")
        share = passes.share_without(mistakes)
        monitor.report(loss=loss, mistakes=mistakes, separable=share, weights=result, state=saved)
    return monitor.best(result())


TRIED = 2000  # margins for which the bound of theorem 3 is computed


class Convergence(NamedTuple):
    """How the weights of a model separate its training sequences."""

    separable: float  # share whose best path has the gold labels and no other labels score as much
    strictly_separable: float  # share whose every gold path scores above all others (definition 2)
    # smallest distance of the worst gold path above all others, for weights of norm 1
    margin: float | None
    mistake_bound: float | None  # what theorem 2 (strictly separable data) or 3 (any data) allows
    theorem: int | None


class LatentSeparability(NamedTuple):
    """What theorem 1 says of latent states where a vector U of norm 1 separates the data without
    them."""

    plain_margin: float  # delta of U
    # T = sqrt(sum m_i u_i^2): the norm of U copied to all states, where u_i has m_i copies
    expansion: float
    margin_bound: float  # delta / T: some vector of norm 1 separates the data latently by as much
    mistake_bound: float | None  # theorem 2; None where the updates are not those of the theorem


def latent_separability(
    plain_margin: float, expansion: float, norm_of_features: float | None, start: float
) -> LatentSeparability:
    """delta / T, and 2 M^2 / (delta / T)^2 mistakes at most from zero; a start of norm a allows 2 a
    / (delta / T) more.

    >>> latent_separability(1.0, 2.0, 3.0, 0.0)  # 2 T^2 M^2 / delta^2
    LatentSeparability(plain_margin=1.0, expansion=2.0, margin_bound=0.5, mistake_bound=72.0)
    """
    margin, bound = plain_margin / expansion, None
    if norm_of_features is not None:
        bound = 2 * norm_of_features**2 / margin**2 + 2 * start / margin
    return LatentSeparability(plain_margin, expansion, margin, bound)


def convergence(
    margins: list[Margins],
    norm_of_weights: float,
    norm_of_features: float | None,
    passes: int,
    start: float,
) -> Convergence:
    """Summarise the margins of all training sequences; without a norm of features, no theorem
    applies."""
    best, worst, other = (np.array(column) for column in zip(*margins, strict=True))
    margin = bound = theorem = None
    if norm_of_weights > 0:
        gaps = (worst - other) / norm_of_weights
        smallest = float(gaps.min(initial=np.inf))
        margin = smallest if np.isfinite(smallest) else None
        if norm_of_features is not None:
            bound, theorem = mistake_bound(gaps, norm_of_features, passes, start)
    return Convergence(
        float((best > other).mean()), float((worst > other).mean()), margin, bound, theorem
    )


def mistake_bound(
    gaps: Array, norm: float, passes: int = 1, start: float = 0.0
) -> tuple[float, int]:
    """min over d of (R + D)^2 / d^2 with R = sqrt(2) M and D^2 = sum_i max(0, d - g_i)^2 (theorem
    3; with D = 0 theorem 2), and which theorem it is by.

    gaps [N] are the g_i of definition 3 for weights of norm 1; several passes are one over as many
    copies of the data. Every d gives a bound, so a grid of them does.  From a start of norm a
    instead of zero, k updates end at a norm of at least k d - a, and (k d - a)^2 <= (1 + D / R)
    (a^2 + k (R^2 + R D)) in the extended space of the proof.

    >>> gaps = np.array([0.5, 2.0, 1.0])
    >>> bound, theorem = mistake_bound(gaps, norm=3.0, passes=10**6)  # 2 M^2 / d^2 with d = 0.5
    >>> round(bound, 6), theorem
    (72.0, 2)
    """
    finite = np.sort(gaps[np.isfinite(gaps)])
    largest = 100 * max(2 * float(np.abs(finite).max(initial=0.0)), norm)
    smallest = float(finite[0]) if len(finite) and finite[0] > 0 else 1e-9 * largest
    tried = np.append(smallest, np.geomspace(smallest, largest, TRIED))
    below = np.searchsorted(finite, tried)
    sums, squares = (np.concatenate([[0.0], np.cumsum(finite**power)]) for power in (1, 2))
    short = np.maximum(0.0, below * tried**2 - 2 * tried * sums[below] + squares[below])
    longest, missing = max(np.sqrt(2) * norm, 1e-300), np.sqrt(passes * short)
    once = (longest + missing) ** 2 + 2 * start * tried
    bounds = (once + np.hypot(once, 2 * tried * start * np.sqrt(missing / longest))) / (
        2 * tried**2
    )
    best = int(bounds.argmin())
    return float(bounds[best]), 2 if short[best] == 0 else 3
