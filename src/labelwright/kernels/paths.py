"""Paths in order of their score: A* from the last token backwards, with the Viterbi score as an
exact heuristic.

delta_t(s), the best score up to (t, s), completes every suffix exactly, so no suffix is expanded in
vain.  A suffix puts only its best predecessor into the queue, and a suffix that leaves the queue
puts in its next best sibling: memory grows with the paths taken, not with the number of states.
The best extension of a suffix has its priority, and a sibling that less the difference of the two:
added up again, large scores would be rounded differently at each token, and suffixes of nearly
equal paths would all be expanded before one of them is whole.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.clamped import _labelling_weight
from cython.cimports.labelwright.kernels.common import pop, push
from cython.cimports.labelwright.kernels.graph import contexts_view
from cython.cimports.labelwright.kernels.tables import row_slot
from cython.cimports.libc.math import INFINITY, exp


class RankedView:
    """decode.paths.Ranked."""

    def __init__(self, node, arc, delta, source_ptr, source, origin, base):
        self.node = node
        self.arc = arc
        self.delta = delta
        self.source_ptr = source_ptr
        self.source = source
        self.origin = origin
        self.base = base


class SuffixPoolView:
    """decode.paths.SuffixPool."""

    def __init__(self, priority, value, state, parent, depth, heap, counts, last):
        self.priority = priority
        self.value = value
        self.state = state
        self.parent = parent
        self.depth = depth
        self.heap = heap
        self.counts = counts
        self.last = last


def _last_node(lattice, worse, after):
    """The best of the nodes at the last token, and its score, among those that are worse than the
    score `worse`, or as good and higher than the node `after`; -1 where there is none."""
    t = lattice.delta.shape[0] - 1
    best = -INFINITY
    chosen = -1
    for r in range(lattice.delta.shape[1]):
        v = lattice.delta[t, r]
        if v > best and (v < worse or (v == worse and r > after)):
            best = v
            chosen = r
    return best, chosen


def _next_before(lattice, t, s, worse, after):
    """The same of the nodes at t from which node s at t + 1 is reached."""
    delta = lattice.delta
    arc = lattice.arc
    base = lattice.base
    source = lattice.source
    e = t + 1 if arc.shape[0] > 1 else 0
    best = -INFINITY
    chosen = -1
    for j in range(
        lattice.source_ptr[lattice.origin[s]], lattice.source_ptr[lattice.origin[s] + 1]
    ):
        r = source[j]
        v = delta[t, r] + arc[e, base[r] + s]
        if v > best and (v < worse or (v == worse and r > after)):
            best = v
            chosen = r
    return best, chosen


def _put(pool, t, parent, value, node, priority):
    """Put a new suffix into the queue: `parent` with one more node before it, at t."""
    new = pool.counts[MADE]
    pool.value[new] = value
    pool.state[new] = node
    pool.parent[new] = parent
    pool.depth[new] = t
    pool.priority[new] = priority
    pool.counts[MADE] = new + 1
    push(pool.priority, pool.depth, pool.heap, pool.counts[SIZE], new)
    pool.counts[SIZE] += 1


def _next_path(lattice, pool, path):
    """Write the next best path into `path` [T] and return 1; 0: there are no more; -1: the pool
    must grow first."""
    T = lattice.delta.shape[0]
    counts = pool.counts
    if counts[MADE] == 0:
        best, chosen = _last_node(lattice, INFINITY, -1)
        if chosen >= 0:
            _put(pool, T - 1, -1, best, chosen, best)
    while counts[SIZE] > 0:
        if counts[MADE] + 2 > pool.heap.shape[0]:
            return -1
        i = pop(pool.priority, pool.depth, pool.heap, counts[SIZE])
        counts[SIZE] -= 1
        # Two new suffixes: the next best sibling of i, and the best extension of i backwards.
        t = pool.depth[i]
        parent = pool.parent[i]
        if parent < 0:
            best, chosen = _last_node(lattice, pool.value[i], pool.state[i])
        else:
            best, chosen = _next_before(
                lattice, t, pool.state[parent], pool.value[i], pool.state[i]
            )
        if chosen >= 0:
            priority = pool.priority[i] - (pool.value[i] - best)
            _put(pool, t, parent, best, chosen, priority)
        if t > 0:
            best, chosen = _next_before(lattice, t - 1, pool.state[i], INFINITY, -1)
            if chosen >= 0:
                _put(pool, t - 1, i, best, chosen, pool.priority[i])
            continue
        counts[TAKEN] += 1
        at = i
        for u in range(T):
            path[u] = pool.state[at]
            at = pool.parent[at]
        pool.last[0] = pool.priority[i]
        return 1
    return 0


def best_paths(lattice, pool, paths, scores):
    """Fill paths [n, T] and scores [n] until there are n paths or no more (DONE), or the pool is
    FULL."""
    ranked = RankedView(*lattice)
    view = SuffixPoolView(*pool)
    status = 1
    with cython.nogil:
        while view.counts[TAKEN] < paths.shape[0]:
            n = view.counts[TAKEN]
            status = _next_path(ranked, view, paths[n])
            if status < 1:
                break
            scores[n] = view.last[0]
    return FULL if status < 0 else DONE


def latent_dynamic_inference(
    lattice, contexts, pool, label_of, log_z, n, alpha, labels, log_p, slots, base
):
    """Paper 000, figure 3: latent paths in order; each new labelling gets its exact probability;
    stop when p(best) >= alpha (1 - mass) or there are no more (DONE), after n latent paths (0: no
    LIMIT), or when pool or labels [n, T] are FULL.

    counts[LABELLINGS] labellings are in labels and log_p; pool.last[1] is their mass, pool.last[2]
    the best p."""
    ranked = RankedView(*lattice)
    view = SuffixPoolView(*pool)
    followed = contexts_view(contexts)
    T = ranked.node.shape[0]
    path = np.empty(T, np.int32)
    at = np.empty(T, np.int64)
    sums = np.empty((3, ranked.node.shape[1]))
    with cython.nogil:
        status = _infer(
            ranked, followed, view, label_of, log_z, n, alpha, labels, log_p, slots, base,
            path, at, sums,
        )  # fmt: skip
    return status


def _infer(
    lattice, contexts, pool, label_of, log_z, n, alpha, labels, log_p, slots, base, path, at, sums
):
    """`latent_dynamic_inference`; path, at and sums are scratch."""
    counts = pool.counts
    last = pool.last
    for i in range(counts[LABELLINGS] - 1, -1, -1):  # the slots may be new
        slot = row_slot(slots, labels, labels[i], base)
        if slots[slot] >= 0:
            break
        slots[slot] = i
    while n == 0 or counts[TAKEN] < n:
        new = counts[LABELLINGS]
        if new == labels.shape[0]:
            return FULL
        status = _next_path(lattice, pool, path)
        if status < 0:
            return FULL
        if status == 0:
            return DONE
        for t in range(path.shape[0]):
            labels[new, t] = label_of[path[t]]
        slot = row_slot(slots, labels, labels[new], base)
        if slots[slot] >= 0:
            continue
        slots[slot] = new
        weight = _labelling_weight(lattice.node, lattice.arc, contexts, labels[new], at, sums)
        log_p[new] = weight - log_z if weight < log_z else 0
        p = exp(log_p[new])
        counts[LABELLINGS] = new + 1
        last[1] += p
        last[2] = p if p > last[2] else last[2]
        if last[2] >= alpha * (1 - last[1]):
            return DONE
    return LIMIT
