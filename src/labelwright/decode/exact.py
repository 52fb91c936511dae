"""The most probable labelling of a latent model, proven: best-first search over label prefixes
(kernels/search.py)."""

import itertools
import math
import threading
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.record import MOST, Decoding, Known, check_seconds, check_whole
from labelwright.kernels import search as kernels
from labelwright.structures.dag import doubled
from labelwright.structures.lattice import Lattice, best_path, labelling_weight
from labelwright.structures.states import Blocks, Contexts, Graph, StateSpace

Array = NDArray[Any]
MAX_EXPANSIONS = 100_000  # by default: a flat model costs time,
MAX_POOL = 1 << 30  # and no more bytes than this, also while a pool is copied into a larger one
SLICE = 2_000  # expansions between two looks at the clock
DONE, LIMIT, FULL, LOST = 0, 1, 2, 3  # how a call of the search ends, as in kernels/search.pxd
MADE, SIZE, EXPANDED, LABELLINGS, WHOLE = 0, 1, 2, 3, 4  # places in its counters


class Arcs(NamedTuple):
    """Exponentials of the arcs."""

    E: Array  # [T|1, A]  exp(score - top)
    ET: Array  # [T|1, A]  each block transposed
    top: Array  # [T|1]
    least: Array  # [T|1, Q]  the smallest and
    most: Array  # [T|1, Q]  the largest of the arcs into each node


class Weights(NamedTuple):
    """A lattice as the search reads it: scaled numbers, or logarithms."""

    psi: Array  # [T, Q]    exp(node - top), or node
    top: Array  # [T]
    E: Array  # [T|1, A]  exp(arc - arc_top), or arc
    arc_top: Array  # [T|1]
    beta: Array  # [T, Q]    the bound, scaled
    log_beta: Array  # [T]       log of its scale
    logs: bool


class PrefixPool(NamedTuple):
    """All prefixes made so far, and the queue of those still open."""

    priority: Array  # [P]     log of the bound on all completions
    key: (
        Array  # [P]     its place in the queue: the priority, and a little more for longer prefixes
    )
    scale: Array  # [P]     log of what the vector was divided by
    # [P, C]  summed weight of the latent paths ending in each node of the context
    vector: Array
    parent: Array  # [P]
    depth: Array  # [P]
    context: Array  # [P]
    heap: Array  # [P]
    counts: Array  # [5]


def empty_pool(size: int, n_nodes: int) -> PrefixPool:
    """A pool for so many prefixes, each with the weights of so many nodes."""
    priority, key, scale = np.empty((3, size))
    parent, depth, context, heap = np.empty((4, size), np.int32)
    counts = np.array([0, 0, 0, 0, -1], np.int64)
    return PrefixPool(
        priority, key, scale, np.empty((size, n_nodes)), parent, depth, context, heap, counts
    )


class Labellings(NamedTuple):
    """The result of a search: whole labellings in order of weight, and a bound on all others."""

    labels: list[Array]  # each [T]
    log_weights: list[float]
    proven: int  # how many of them are proven to be the best, second best, ...
    log_open: float  # log of the best bound still open
    expansions: int


_NOTHING = Labellings([], [], 0, -np.inf, 0)


class _Kept(threading.local):
    """The exponentials of plain transitions, which the sentences of a thread share."""

    arcs: tuple[Arcs, float]
    blocks: Blocks | None = None
    scores = b""


_kept = _Kept()


def _arcs(arc: Array, graph: Graph) -> tuple[Arcs, float]:
    """Exponentials of arc scores, and the widest difference between finite scores of one token;
    those of plain transitions are kept for the next sentence."""
    scores = arc.tobytes() if len(arc) == 1 else b""
    if scores and _kept.blocks is graph.blocks and _kept.scores == scores:
        return _kept.arcs
    (E, ET), (least, most) = np.empty((2, *arc.shape)), np.empty((2, len(arc), graph.width))
    arcs = Arcs(E, ET, np.empty(len(arc)), least, most)
    both = arcs, kernels.prepare_arcs(arc, graph.blocks, arcs)
    if scores:
        _kept.arcs, _kept.blocks, _kept.scores = both, graph.blocks, scores
    return both


def prepare(lattice: Lattice, logs: bool = False) -> Weights:
    """A lattice with its bound."""
    node, arc, graph = lattice
    (psi, beta), (top, log_beta) = np.empty((2, *node.shape)), np.empty((2, len(node)))
    arcs, widest = _arcs(arc, graph)
    where = graph.blocks, graph.contexts.cut
    if not logs and kernels.prepare(node, arcs, widest, *where, psi, top, beta, log_beta):
        return Weights(psi, top, arcs.E, arcs.top, beta, log_beta, False)
    kernels.log_bounds(node, arc, *where, beta)
    log_beta[:] = 0.0
    return Weights(
        np.ascontiguousarray(node), top, np.ascontiguousarray(arc), top, beta, log_beta, True
    )


def _first_whole(weights: Weights, contexts: Contexts, pool: PrefixPool) -> int:
    """The best whole labelling made so far, or one by a greedy descent from the head of the
    queue."""
    if pool.counts[WHOLE] < 0:
        places, no_bar = np.empty(1, np.int64), np.full(1, -np.inf)
        pool.counts[LABELLINGS] = 0
        kernels.search(weights, contexts, pool, places, 1, 1 << 60, True, no_bar)
    return int(pool.counts[WHOLE])


def labellings(
    lattice: Lattice,
    n: int = 1,
    max_expansions: int | None = None,
    time_limit: float | None = None,
) -> Labellings:
    """Up to n best labellings in order; with a limit, at least one labelling and a bound on what
    was missed."""
    budget = MAX_EXPANSIONS if max_expansions is None else max_expansions
    check_whole("n", n, 1, MOST)
    check_whole("max_expansions", budget, 0)
    check_seconds(time_limit)
    budget = min(budget, 1 << 60)
    limits = n, budget, time_limit
    return _searched(lattice, *limits, False) or _searched(lattice, *limits, True) or _NOTHING


def _searched(
    lattice: Lattice, n: int, budget: int, time_limit: float | None, logs: bool
) -> Labellings | None:
    """The search with scaled numbers (None where these are not enough), or with logarithms."""
    weights = prepare(lattice, logs)
    contexts = lattice.graph.contexts
    T, L = len(lattice.node), len(contexts.opening)
    pool = empty_pool(2 * (T + 8) * L, lattice.graph.most_in_context)
    places, bar = np.empty(n, np.int64), np.full(n, -np.inf)
    begun = time.monotonic()
    while True:
        stop = budget if time_limit is None else min(budget, int(pool.counts[EXPANDED]) + SLICE)
        # the rest: for _first_whole
        searched = pool._replace(heap=pool.heap[: len(pool.heap) - T * L])
        status = kernels.search(weights, contexts, searched, places, n, stop, False, bar)
        out_of_time = time_limit is not None and time.monotonic() - begun >= time_limit
        if status == FULL and 3 * sum(array.nbytes for array in pool) <= MAX_POOL:
            pool = doubled(pool)
        elif status == FULL:
            status = LIMIT
            break
        elif status == LOST:
            return None
        elif status == DONE or stop == budget or out_of_time:
            break
    whole = places[: pool.counts[LABELLINGS]].tolist()
    proven, expansions = len(whole), int(pool.counts[EXPANDED])
    log_open = -np.inf
    if status == LIMIT:
        log_open = float(pool.priority[pool.heap[0]])
        if len(whole) < n:
            rest = _first_whole(weights, contexts, pool)
            if rest < 0:
                return None
            if rest not in whole:
                whole.append(rest)
    labels = [np.empty(T, np.int32) for _ in whole]
    for place, into in zip(whole, labels, strict=True):
        kernels.trace(pool, contexts, place, into)
    log_weights = [float(pool.priority[place]) for place in whole]
    # the last one is a guess: the labels of the best path may be a better one
    if len(whole) > proven:
        other = lattice.graph.label_of_node[best_path(lattice)[0]].astype(np.int32)
        weight = labelling_weight(lattice, other)
        if weight > log_weights[-1] and not any(np.array_equal(other, codes) for codes in labels):
            labels[-1], log_weights[-1] = other, weight
    return Labellings(labels, log_weights, proven, log_open, expansions)


def exact(
    lattice: Lattice,
    space: StateSpace,
    known: Known | None = None,
    probabilities: bool = True,
    max_expansions: int | None = None,
    time_limit: float | None = None,
) -> Decoding:
    """The most probable labelling; stopped by a limit, the best so far with a true bound on the
    probability missed."""
    known, best = known or Known(lattice), None
    if max_expansions is None and time_limit is None:
        best = known.solved or solved(*lattice, np.array([0, len(lattice.node)]))[0]
    if best is None:
        best = labellings(lattice, 1, max_expansions, time_limit)
    if not best.labels:
        return Decoding([], -np.inf, -np.inf, False, None)
    weight = best.log_weights[0]
    proven = best.proven > 0 or best.log_open <= weight
    labels = [space.labels[y] for y in best.labels[0].tolist()]
    record = Decoding(
        labels,
        weight,
        None,
        proven,
        0.0 if proven else None,
        label_paths=1,
        expansions=best.expansions,
    )
    if not probabilities and proven:
        return record
    log_z = known.sums.log_z
    p = min(0.0, weight - log_z)
    gap = 0.0 if proven else _difference(best.log_open - log_z, weight - log_z)
    return record._replace(log_probability=p, gap=gap, mass=math.exp(p))


def _difference(high: float, low: float) -> float:
    """exp(high) - exp(low), never 0: only a proof closes the gap."""
    return max(5e-324, math.exp(min(0.0, high)) - math.exp(min(0.0, low)))


def solved(node: Array, arc: Array, graph: Graph, offsets: Array) -> list[Labellings | None]:
    """The most probable labelling of each sentence in one kernel call, in the common case: scores
    of ordinary size, a short search.  None in other cases."""
    labels, out = np.empty(len(node), np.int32), np.empty((len(offsets) - 1, 2))
    where = graph.blocks, graph.contexts, offsets, labels, out
    if len(arc) > 1:
        kernels.solve_by_token(node, arc, *where)
    else:
        kernels.solve(node, *_arcs(arc, graph), *where)
    bounds = zip(itertools.pairwise(offsets.tolist()), out.tolist(), strict=True)
    return [
        None
        if math.isnan(weight)
        else Labellings([labels[a:b]], [weight], 1, -np.inf, int(expansions))
        for (a, b), (weight, expansions) in bounds
    ]
