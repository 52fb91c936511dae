"""The most probable segmentations of a segment model with latent states, proven: best-first search over prefixes.

A prefix is the first segments of a sentence with their types; its latent states are summed over:

    forward(prefix, s) = log of the summed weight of its latent paths that end in state s
    beta(p, s) = log of the summed weight of all that may follow state s from token p on
    bound(prefix) = log sum_s exp(forward(prefix, s) + beta(p, s))

The bound is the weight of all labellings that begin with the prefix together, so none of them has more; of a whole
segmentation it is the weight itself.  So whole segmentations leave the queue in order.
"""

import heapq
import itertools
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.checks import MOST, check_seconds, check_whole
from labelwright.structures.segments import Arcs, Segments, SegmentSpace

Array = NDArray[Any]
MAX_EXPANSIONS = 20_000  # by default; one takes about 50 microseconds
SLACK = 1e-9  # by which sums in different orders may differ


class Prefix(NamedTuple):
    """The first segments of a sentence; the last of them, and the prefix before it."""

    end: int
    kind: int  # type; L: the beginning of the sentence
    forward: Array  # [K]  of the states of this type
    before: "Prefix | None"


class Ordered(NamedTuple):
    """Whole segmentations in order of their weights, and a bound on all others."""

    segmentations: list[Segments]
    log_weights: list[float]
    log_open: float  # the largest bound still open; minus infinity where nothing is
    expansions: int


class _Scores:
    """The scores of the arcs of one sentence by their places, and the sums of what follows."""

    def __init__(self, arcs: Arcs, scores: Array, space: SegmentSpace, T: int):
        S, longest = space.n_states, min(space.max_length, T)
        self.space, self.T = space, T
        segment, transition = arcs.length > 0, arcs.length == 0
        self.segment = np.full((T, longest, S), -np.inf)  # by first token, length less 1, state
        self.segment[arcs.first[segment], arcs.length[segment] - 1, arcs.kind[segment]] = scores[segment]
        self.transition = np.full((T, S + 1, S), -np.inf)  # by token, state before, state
        self.transition[arcs.first[transition], arcs.before[transition], arcs.kind[transition]] = scores[transition]
        self.beta = np.zeros((T + 1, S))
        for t in range(T - 1, 0, -1):
            begin = _log_sum(self.segment[t, : T - t] + self.beta[t + 1 : t + 1 + longest], 0)
            self.beta[t] = _log_sum(self.transition[t, :S] + begin, 1)

    def children(self, prefix: Prefix) -> tuple[Array, Array]:
        """What forward is after one more segment of each length and type [D, L, K], and the bounds [D, L]."""
        K, p = self.space.n_latent, prefix.end
        states = slice(prefix.kind * K, prefix.kind * K + len(prefix.forward))
        begin = _log_sum(prefix.forward[:, None] + self.transition[p, states], 0)
        forward = begin + self.segment[p, : self.T - p]
        bounds = forward + self.beta[p + 1 : p + 1 + len(forward)]
        shape = len(forward), self.space.n_types, K
        return forward.reshape(shape), _log_sum(bounds.reshape(shape), 2)


def _log_sum(values: Array, axis: int) -> Array:
    return np.asarray(np.logaddexp.reduce(values, axis=axis))


def best_segmentations(
    arcs: Arcs,
    scores: Array,
    space: SegmentSpace,
    T: int,
    n: int = 1,
    least: float = -np.inf,
    max_expansions: int | None = None,
    time_limit: float | None = None,
) -> Ordered:
    """Up to n segmentations of T tokens in order, of those that have at least this weight."""
    budget = MAX_EXPANSIONS if max_expansions is None else max_expansions
    check_whole("n", n, 1, MOST)
    check_whole("max_expansions", budget, 0)
    check_seconds(time_limit)
    by_place, number = _Scores(arcs, scores, space, T), itertools.count()
    queue = [(-np.inf, next(number), Prefix(0, space.n_types, np.zeros(1), None))]
    whole, weights, expansions = list[Segments](), list[float](), 0
    stop = None if time_limit is None else time.monotonic() + time_limit
    while queue and len(whole) < n:
        priority, _, prefix = queue[0]
        if prefix.end == T:
            heapq.heappop(queue)
            whole.append(_traced(prefix))
            weights.append(-float(priority))
            continue
        if expansions >= budget or (stop is not None and time.monotonic() >= stop):
            break
        heapq.heappop(queue)
        expansions += 1
        forward, bounds = by_place.children(prefix)
        lengths, kinds = np.nonzero((bounds >= least - SLACK) & (bounds > -np.inf))
        for length, kind, bound in zip(lengths.tolist(), kinds.tolist(), bounds[lengths, kinds].tolist(), strict=True):
            longer = Prefix(prefix.end + length + 1, kind, forward[length, kind], prefix)
            heapq.heappush(queue, (-bound, next(number), longer))
    return Ordered(whole, weights, -queue[0][0] if queue else -np.inf, expansions)


def _traced(prefix: Prefix) -> Segments:
    """The segments of a prefix."""
    rows = list[tuple[int, int, int]]()
    while prefix.before is not None:
        rows.append((prefix.before.end, prefix.end, prefix.kind))
        prefix = prefix.before
    return Segments(*np.array(rows[::-1], np.int64).reshape(-1, 3).T)
