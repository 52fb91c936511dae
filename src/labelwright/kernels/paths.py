"""Paths in order of their score: A* from the last token backwards, with the Viterbi score as an exact heuristic.

delta_t(s), the best score up to (t, s), completes every suffix exactly, so the search never turns back.  A suffix puts
only its best predecessor into the queue, and a suffix that leaves the queue puts in its next best sibling: memory grows
with the paths taken, not with the number of states.
"""

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.clamped import labelling_weight

DONE, FULL = 0, 2
MADE, SIZE, TAKEN, LABELLINGS = 0, 1, 2, 3  # places in the counters


@kernel
def prefix_scores(node, arc, delta):
    """delta [T, S]: the best score of a path up to each state."""
    T, S = node.shape
    by_token = arc.shape[0] > 1
    for s in range(S):
        delta[0, s] = node[0, s]
    for t in range(1, T):
        e = t if by_token else 0
        for s in range(S):
            delta[t, s] = -np.inf
        for r in range(S):
            d = delta[t - 1, r]
            for s in range(S):
                delta[t, s] = max(delta[t, s], d + arc[e, r, s])
        for s in range(S):
            delta[t, s] += node[t, s]


@kernel
def _next_best(node, arc, delta, pool, parent, value, state):
    """Push the best way to go on backwards from `parent` (-1: from the end) that comes after (value, state)."""
    T, S = node.shape
    t = pool.depth[parent] - 1 if parent >= 0 else T - 1
    e = t + 1 if arc.shape[0] > 1 else 0
    best, found = -np.inf, -1
    for r in range(S):
        v = delta[t, r]
        if parent >= 0:
            v += arc[e, r, pool.state[parent]]
        if (v < value or (v == value and r > state)) and v > best:
            best, found = v, r
    if found < 0:
        return
    new = pool.counts[MADE]
    pool.counts[MADE] = new + 1
    pool.value[new], pool.state[new], pool.parent[new], pool.depth[new] = best, found, parent, t
    pool.suffix[new] = 0.0
    pool.priority[new] = best
    if parent >= 0:
        s = pool.state[parent]
        pool.suffix[new] = pool.suffix[parent] + node[t + 1, s] + arc[e, found, s]
        pool.priority[new] = delta[t, found] + pool.suffix[new]
    at = pool.counts[SIZE]
    pool.heap[at] = new
    pool.counts[SIZE] = at + 1
    while at > 0:
        up = (at - 1) // 2
        if not _before(pool, pool.heap[at], pool.heap[up]):
            break
        pool.heap[at], pool.heap[up] = pool.heap[up], pool.heap[at]
        at = up


@kernel
def _before(pool, i, j):
    """Higher first; of equals the one nearer to the first token."""
    a, b = pool.priority[i], pool.priority[j]
    return a > b or (a == b and pool.depth[i] < pool.depth[j])


@kernel
def _pop(pool):
    first = pool.heap[0]
    size = pool.counts[SIZE] - 1
    pool.counts[SIZE] = size
    pool.heap[0] = pool.heap[size]
    at = 0
    while True:
        best = at
        for j in range(2 * at + 1, min(2 * at + 3, size)):
            if _before(pool, pool.heap[j], pool.heap[best]):
                best = j
        if best == at:
            return first
        pool.heap[at], pool.heap[best] = pool.heap[best], pool.heap[at]
        at = best


@kernel
def _next_path(node, arc, delta, pool, path):
    """Write the next best path into `path` [T]: 1; no more paths: 0; the pool has no room: -1 (try again later)."""
    if pool.counts[MADE] == 0:
        _next_best(node, arc, delta, pool, -1, np.inf, -1)
    while pool.counts[SIZE] > 0:
        if pool.counts[MADE] + 2 > pool.heap.shape[0]:
            return -1
        i = _pop(pool)
        _next_best(node, arc, delta, pool, pool.parent[i], pool.value[i], pool.state[i])
        if pool.depth[i] == 0:
            pool.counts[TAKEN] += 1
            at = i
            for t in range(path.shape[0]):
                path[t] = pool.state[at]
                at = pool.parent[at]
            pool.last[0] = pool.priority[i]
            return 1
        _next_best(node, arc, delta, pool, i, np.inf, -1)
    return 0


@kernel
def best_paths(node, arc, delta, pool, paths, scores):
    """Fill paths [n, T] and scores [n] until there are n paths or no more (DONE), or the pool is FULL."""
    while pool.counts[TAKEN] < paths.shape[0]:
        n = pool.counts[TAKEN]
        status = _next_path(node, arc, delta, pool, paths[n])
        if status < 0:
            return FULL
        if status == 0:
            return DONE
        scores[n] = pool.last[0]
    return DONE


@kernel
def _slot(labels, slots, i):
    """The slot that holds a labelling equal to labels[i], or the free one where it belongs."""
    mask = slots.shape[0] - 1
    h = np.int64(0)
    for t in range(labels.shape[1]):
        p = (h ^ np.int64(labels[i, t])) * np.int64(1540483477) + np.int64(t)
        h = (p ^ (p >> np.int64(31))) & np.int64(0x7FFFFFFF)
    at = h & mask
    while slots[at] >= 0:
        same = True
        for t in range(labels.shape[1]):
            if labels[slots[at], t] != labels[i, t]:
                same = False
                break
        if same:
            break
        at = (at + 1) & mask
    return at


@kernel
def enter_labellings(labels, slots):
    """Enter every labelling into the (larger) slots."""
    for i in range(labels.shape[0]):
        slots[_slot(labels, slots, i)] = i


@kernel
def latent_dynamic_inference(node, arc, delta, pool, label_of, first, log_z, n, alpha, labels, log_p, slots):
    """Paper 000, figure 3: latent paths in order; each new labelling gets its exact probability; stop when
    p(best) >= alpha (1 - mass found), after n latent paths (0: no limit), or when pool or labels [M, T] are FULL.

    counts[LABELLINGS] labellings are in labels and log_p; pool.last[1] is the mass found, pool.last[2] the best p."""
    T = node.shape[0]
    path = np.empty(T, np.int32)
    while n == 0 or pool.counts[TAKEN] < n:
        found = pool.counts[LABELLINGS]
        if found == labels.shape[0]:
            return FULL
        status = _next_path(node, arc, delta, pool, path)
        if status < 0:
            return FULL
        if status == 0:
            return DONE
        for t in range(T):
            labels[found, t] = label_of[path[t]]
        at = _slot(labels, slots, found)
        if slots[at] >= 0:
            continue
        slots[at] = found
        log_p[found] = min(0.0, labelling_weight(node, arc, labels[found], first) - log_z)
        p_new = np.exp(log_p[found])
        pool.counts[LABELLINGS] = found + 1
        pool.last[1] += p_new
        pool.last[2] = max(pool.last[2], p_new)
        if pool.last[2] >= alpha * (1 - pool.last[1]):
            return DONE
    return DONE
