"""The best path of a lattice, the best label of each token, and the best paths in order
(kernels/paths.py)."""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.record import MOST, Decoding, Known, check_seconds, check_whole, judged
from labelwright.errors import OptionError
from labelwright.kernels import paths as kernels
from labelwright.kernels.inference import prefix_scores
from labelwright.kernels.tables import BASE
from labelwright.structures.dag import doubled
from labelwright.structures.lattice import Lattice, label_marginals, posterior
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
N_PATHS = 30  # the paper's LDI-A
SLICE = 500  # latent paths between two looks at the clock
# with no limit on n, the search stops here (about a gigabyte) without a proof,
MAX_SUFFIXES = 20_000_000
MAX_LABELS = 100_000_000  # or when the labellings have so many labels together
DONE, LIMIT, FULL = 0, 1, 2  # how a call of the search ends, as in kernels/paths.pxd
MADE, SIZE, TAKEN, LABELLINGS = 0, 1, 2, 3  # places in its counters


def viterbi(
    lattice: Lattice, space: StateSpace, known: Known | None = None, probabilities: bool = True
) -> Decoding:
    """The labels of the best path, with the probability of the labelling unless `probabilities` is
    off: exact where every label has one state; on a latent model the best hidden path (BHP)."""
    known = known or Known(lattice)
    nodes, score = known.path
    codes, exact = lattice.graph.label_of_node[nodes], not space.latent
    decoding = Decoding(
        [space.labels[y] for y in codes.tolist()], score, None, exact, 0.0 if exact else None
    )
    return judged(decoding, known, codes) if probabilities else decoding


def marginal(
    lattice: Lattice, space: StateSpace, known: Known | None = None, probabilities: bool = True
) -> Decoding:
    """The most probable label of every token."""
    known = known or Known(lattice)
    codes = label_marginals(known.sums.nodes, lattice.graph).argmax(axis=1).astype("int32")
    exact = not space.latent and bool((lattice.graph.label_of_node[known.path[0]] == codes).all())
    return scored(codes, space, known, exact)


def scored(codes: Array, space: StateSpace, known: Known, exact: bool = False) -> Decoding:
    """Labels [T] with their probability, and with the score that follows from it."""
    decoding = Decoding(
        [space.labels[y] for y in codes.tolist()], 0.0, None, exact, 0.0 if exact else None
    )
    decoding = judged(decoding, known, codes)
    return decoding._replace(score=(decoding.log_probability or 0.0) + known.sums.log_z)


# -- best paths in order ---------------------------------------------------------------------------


class Ranked(NamedTuple):
    """A lattice as the search reads it: r may precede s where r is a source of the block
    origin[s]."""

    node: Array  # [T, Q]
    arc: Array  # [T|1, A]
    delta: Array  # [T, Q]  the best score of a path up to each node
    source_ptr: Array  # [B+1]
    source: Array  # [Q]
    origin: Array  # [Q]
    base: Array  # [Q]    the arc from r to s is number base[r] + s


class SuffixPool(NamedTuple):
    """All suffixes made so far, and the queue of those still open."""

    priority: Array  # [P]  score of the best path with this suffix
    value: Array  # [P]  the score by which it was chosen among its siblings
    state: Array  # [P]
    parent: Array  # [P]
    depth: Array  # [P]  its first token
    heap: Array  # [P]
    counts: Array  # [4]
    last: Array  # [3]  score of the last path; mass and best probability (LDI)

    @classmethod
    def empty(cls, size: int) -> "SuffixPool":
        priority, value = np.empty((2, size))
        state, parent, depth, heap = np.empty((4, size), np.int32)
        return cls(priority, value, state, parent, depth, heap, np.zeros(4, np.int64), np.zeros(3))


def ranked(lattice: Lattice) -> Ranked:
    """A lattice as the search reads it."""
    node, arc, graph = lattice
    delta = np.empty_like(node)
    prefix_scores(node, arc, graph.blocks, delta)
    blocks = graph.blocks
    return Ranked(
        node, arc, delta, blocks.source_ptr, blocks.source, graph.origin, graph.contexts.base
    )


def best_paths(lattice: Lattice, n: int) -> tuple[Array, Array]:
    """Up to n best paths [n, T] of nodes in order, and their scores [n]."""
    check_whole("n", n, 1, MOST)
    T = len(lattice.node)
    paths, scores = np.empty((n, T), np.int32), np.empty(n)
    searched, pool = ranked(lattice), SuffixPool.empty(64 + 4 * T)
    while kernels.best_paths(searched, pool, paths, scores) == FULL:
        pool = doubled(pool)
    taken = int(pool.counts[TAKEN])
    return paths[:taken], scores[:taken]


# -- latent-dynamic inference (Sun & Tsujii 2009, figure 3) ----------------------------------------


class Listed(NamedTuple):
    """The labellings of LDI with their exact probabilities, in the order of its search."""

    labels: Array  # [M, T]
    log_probabilities: Array  # [M]
    log_z: float
    latent_paths: int
    mass: float


def candidates(
    lattice: Lattice, n: int = N_PATHS, alpha: float = 1.0, time_limit: float | None = None
) -> Listed:
    """Run LDI: n latent paths at most (0: no limit); alpha below 1 loosens the stopping rule
    (equation 9)."""
    check_whole("n", n, 0)
    n = min(n, 1 << 60)
    if not isinstance(alpha, int | float | np.floating) or not 0 < alpha <= 1:
        raise OptionError(f"alpha: expected a number above 0 and up to 1, got {alpha!r}")
    check_seconds(time_limit)
    graph, T = lattice.graph, len(lattice.node)
    searched, pool = ranked(lattice), SuffixPool.empty(64 + 4 * T)
    log_z = posterior(lattice).log_z
    labels, log_p, slots = np.empty((32, T), np.int32), np.empty(32), np.full(128, -1, np.int32)
    begun = time.monotonic()
    while True:
        taken = int(pool.counts[TAKEN])
        stop = n if time_limit is None else taken + SLICE if n == 0 else min(n, taken + SLICE)
        status = kernels.latent_dynamic_inference(
            searched,
            graph.contexts,
            pool,
            graph.label_of_node,
            log_z,
            stop,
            alpha,
            labels,
            log_p,
            slots,
            BASE,
        )
        if status == DONE or (status == LIMIT and stop == n):
            break
        if time_limit is not None and time.monotonic() - begun >= time_limit:
            break
        if pool.counts[MADE] + 2 > len(pool.heap):
            if len(pool.heap) >= MAX_SUFFIXES:
                break
            pool = doubled(pool)
        if pool.counts[LABELLINGS] == len(labels):
            if labels.size >= MAX_LABELS:
                break
            labels = np.concatenate([labels, np.empty_like(labels)])
            log_p = np.concatenate([log_p, np.empty_like(log_p)])
            slots = np.full(4 * len(labels), -1, np.int32)
    m = int(pool.counts[LABELLINGS])
    return Listed(labels[:m], log_p[:m], log_z, int(pool.counts[TAKEN]), float(pool.last[1]))


def ldi(
    lattice: Lattice,
    space: StateSpace,
    known: Known | None = None,
    probabilities: bool = True,
    n: int = N_PATHS,
    alpha: float = 1.0,
    time_limit: float | None = None,
) -> Decoding:
    """The best labelling of LDI's list; `exact` when no unseen labelling can be more probable."""
    listed = candidates(lattice, n, alpha, time_limit)
    if len(listed.labels) == 0:
        return Decoding([], -np.inf, -np.inf, False, None)
    best = int(listed.log_probabilities.argmax())
    log_p = float(listed.log_probabilities[best])
    unseen = max(0.0, 1.0 - listed.mass)
    exact = bool(np.exp(log_p) >= unseen)
    return Decoding(
        [space.labels[y] for y in listed.labels[best]],
        log_p + listed.log_z,
        log_p,
        exact,
        0.0 if exact else unseen - float(np.exp(log_p)),
        latent_paths=listed.latent_paths,
        label_paths=len(listed.labels),
        mass=min(1.0, listed.mass),
    )
