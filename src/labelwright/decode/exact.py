"""The most probable labelling of a latent model, proven: best-first search over label prefixes (kernels/search.py)."""

import threading
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.kernels import chain
from labelwright.kernels import search as kernels
from labelwright.lattice import Lattice
from labelwright.states import StateSpace

Array = NDArray[Any]
MAX_EXPANSIONS = 100_000  # by default: a flat model costs time, not memory
SAFE_RANGE = 300.0  # scores of one token that differ by less can be searched as scaled numbers
SLICE = 2_000  # expansions between two looks at the clock


class Weights(NamedTuple):
    """A lattice as the search reads it: scaled numbers, or logarithms."""

    psi: Array  # [T, S]       exp(node - top), or node
    top: Array  # [T]
    E: Array  # [T|1, S, S]  exp(arc - arc_top), or arc
    arc_top: Array  # [T|1]
    beta: Array  # [T, S]       the bound, scaled
    log_beta: Array  # [T]          log of its scale
    logs: bool


class Pool(NamedTuple):
    """All prefixes made so far, and the queue of those still open."""

    priority: Array  # [M]     log of the bound on all completions
    scale: Array  # [M]     log of what the vector was divided by
    vector: Array  # [M, H]  summed weight of the latent paths ending in each state of the last label
    parent: Array  # [M]
    depth: Array  # [M]
    label: Array  # [M]
    heap: Array  # [M]
    counts: Array  # [5]

    @classmethod
    def empty(cls, room: int, n_latent: int) -> "Pool":
        parent, depth, label, heap = np.empty((4, room), np.int32)
        counts = np.array([0, 0, 0, 0, -1], np.int64)
        return cls(np.empty(room), np.empty(room), np.empty((room, n_latent)), parent, depth, label, heap, counts)

    def grown(self, room: int) -> "Pool":
        larger = Pool.empty(room, self.vector.shape[1])
        for old, new in zip(self[:-1], larger[:-1], strict=True):
            new[: len(old)] = old
        return larger._replace(counts=self.counts)


class Labellings(NamedTuple):
    """What a search found: whole labellings in order of weight, and what it could not rule out."""

    labels: list[Array]  # each [T]
    log_weights: list[float]
    log_z: float
    proven: int  # how many of them are proven to be the best, second best, ...
    log_open: float  # log of the best bound still open
    expansions: int


_last_arcs = threading.local()  # plain transitions serve many sentences: their exponentials are kept per thread


def _exp_arcs(arc: Array) -> tuple[Array, Array, Array]:
    """exp(arc - top), its transpose, and top."""
    kept = getattr(_last_arcs, "of", None)
    if kept is not None and kept[0] is arc:
        found: tuple[Array, Array, Array] = kept[1]
        return found
    n, S, _ = arc.shape
    flat, top = np.array(arc, np.float64).reshape(n, S * S), np.empty(n)
    if n > 1:
        flat[0] = 0.0
    chain.exponentiate64(flat, top, S * S)
    E = flat.reshape(n, S, S)
    made = E, np.ascontiguousarray(E.transpose(0, 2, 1)), top
    if n == 1:
        _last_arcs.of = (arc, made)
    return made


def _range(scores: Array) -> float:
    """The widest difference between finite scores of one row."""
    finite = np.isfinite(scores)
    high = np.where(finite, scores, -np.inf).max(axis=1)
    low = np.where(finite, scores, np.inf).min(axis=1)
    spread: Array = (high - low)[np.isfinite(high)]
    return float(spread.max(initial=0.0))


def prepare(lattice: Lattice, space: StateSpace) -> tuple[Weights, float]:
    """The bound and log Z of a lattice."""
    node, arc = lattice
    T, S = node.shape
    beta, log_beta = np.empty((T, S)), np.zeros(T)
    arcs = arc.reshape(len(arc), -1)
    if _range(node) + 2 * _range(arcs[1:] if len(arcs) > 1 else arcs) < SAFE_RANGE:
        psi, top = np.array(node, np.float64), np.empty(T)
        chain.exponentiate64(psi, top, S)
        E, ET, arc_top = _exp_arcs(arc)
        log_z = float(kernels.dense_bounds(psi, top, ET, arc_top, space.first, beta, log_beta))
        if np.isfinite(log_z):
            return Weights(psi, top, E, arc_top, beta, log_beta, False), log_z
    log_z = float(kernels.log_bounds(node, arc, space.first, beta))
    none = np.zeros(0)
    return Weights(np.ascontiguousarray(node), none, np.ascontiguousarray(arc), none, beta, log_beta, True), log_z


def labellings(
    lattice: Lattice,
    space: StateSpace,
    n: int = 1,
    max_expansions: int | None = None,
    time_limit: float | None = None,
) -> Labellings:
    """Up to n best labellings in order; with a limit, at least one labelling and a bound on what was missed."""
    budget = MAX_EXPANSIONS if max_expansions is None else max_expansions
    if n < 1:
        raise OptionError(f"n: expected 1 or more labellings, got {n}")
    if budget < 0:
        raise OptionError(f"max_expansions: expected 0 or more, got {max_expansions}")
    if time_limit is not None and not time_limit >= 0:
        raise OptionError(f"time_limit: expected 0 seconds or more, got {time_limit}")
    weights, log_z = prepare(lattice, space)
    T, L = len(lattice.node), space.n_labels
    pool = Pool.empty(2 * (T + 8) * L, int(np.diff(space.first).max()))
    found, bar = np.empty(n, np.int64), np.full(n, -np.inf)
    begun = time.monotonic()
    while True:
        allowed = budget if time_limit is None else min(budget, int(pool.counts[kernels.EXPANDED]) + SLICE)
        status = kernels.search(weights, space.first, pool, found, n, allowed, bar)
        out_of_time = time_limit is not None and time.monotonic() - begun >= time_limit
        if status == kernels.FULL:
            pool = pool.grown(2 * len(pool.heap))
        elif status == kernels.DONE or allowed == budget or out_of_time:
            break
    places = found[: pool.counts[kernels.FOUND]].tolist()
    proven = len(places)
    log_open = -np.inf
    if status == kernels.LIMIT:
        log_open = float(pool.priority[pool.heap[0]])
        if len(places) < n:
            pool = pool.grown(len(pool.heap) + (T + 1) * L)
            dived = int(kernels.dive(weights, space.first, pool, pool.heap[0]))
            rest = [p for p in (int(pool.counts[kernels.WHOLE]), dived) if p >= 0 and p not in places]
            if rest:
                places.append(max(rest, key=lambda p: pool.priority[p]))
    labels = [np.empty(T, np.int32) for _ in places]
    for place, into in zip(places, labels, strict=True):
        kernels.trace(pool, place, into)
    log_weights = [float(pool.priority[place]) for place in places]
    return Labellings(labels, log_weights, log_z, proven, log_open, int(pool.counts[kernels.EXPANDED]))


def exact(
    lattice: Lattice,
    space: StateSpace,
    probabilities: bool = True,
    max_expansions: int | None = None,
    time_limit: float | None = None,
) -> Decoding:
    """The most probable labelling; stopped by a limit, the best so far with a true bound on the probability missed."""
    found = labellings(lattice, space, 1, max_expansions, time_limit)
    if not found.labels:
        return Decoding([], -np.inf, -np.inf, False, None)
    weight = found.log_weights[0]
    proven = found.proven > 0 or found.log_open <= weight
    gap = 0.0 if proven else max(0.0, float(np.exp(found.log_open - found.log_z) - np.exp(weight - found.log_z)))
    labels = [space.labels[y] for y in found.labels[0]]
    p = min(0.0, weight - found.log_z)
    return Decoding(labels, weight, p, proven, gap, label_paths=1, mass=float(np.exp(p)), expansions=found.expansions)
