"""Exact decoding of latent models: best-first search over label prefixes.

A prefix y_1..y_t carries a(h) for the nodes h of its context (the states of y_t or, of order 2, the pairs of states of
y_{t-1} and y_t): the summed weight of all its latent paths that end in h.  With

    beta_T(h) = 1,   beta_t(h) = max over labels y' of  sum_{k in y'} E(h, k) s_{t+1}(k) beta_{t+1}(k)

sum_h a(h) beta_t(h) bounds the weight of every completion, and is exact for a whole labelling: the first whole one that
leaves the queue is the most probable, the next is the second, and so on.

Two arithmetics, one search: scaled numbers, or (`logs`) logarithms where scores differ so much that numbers underflow.
"""

from typing import NamedTuple

import numpy as np

from labelwright.kernels import kernel, literal_kernel, unsigned
from labelwright.kernels.common import log_sum, pop, push

DONE, LIMIT, FULL, LOST = 0, 1, 2, 3  # how a search call ends
MADE, SIZE, EXPANDED, LABELLINGS, WHOLE = 0, 1, 2, 3, 4  # places in the counters
SMALL = 1e-60  # vectors below this, or above its inverse, are scaled
LEAST = 1e-50  # numbers below this share of the largest may underflow at the next token, though they could win later
SAFE_RANGE = 300.0  # scores of one token that differ by less can be searched as scaled numbers
TIE = 1e-11  # of two prefixes this close the longer goes first, or equal weights would be searched breadth-first;
DIGITS = 1e-15  # so it is where large weights differ in their last digits


class Weights(NamedTuple):
    """A lattice as the search reads it: scaled numbers, or logarithms."""

    psi: np.ndarray  # [T, Q]    exp(node - top), or node
    top: np.ndarray  # [T]
    E: np.ndarray  # [T|1, A]  exp(arc - arc_top), or arc
    arc_top: np.ndarray  # [T|1]
    beta: np.ndarray  # [T, Q]    the bound, scaled
    log_beta: np.ndarray  # [T]       log of its scale
    logs: bool


class PrefixPool(NamedTuple):
    """All prefixes made so far, and the queue of those still open."""

    priority: np.ndarray  # [P]     log of the bound on all completions
    key: np.ndarray  # [P]     its place in the queue: the priority, and a little more for longer prefixes
    scale: np.ndarray  # [P]     log of what the vector was divided by
    vector: np.ndarray  # [P, C]  summed weight of the latent paths ending in each node of the context
    parent: np.ndarray  # [P]
    depth: np.ndarray  # [P]
    context: np.ndarray  # [P]
    heap: np.ndarray  # [P]
    counts: np.ndarray  # [5]


@kernel
def bounds(psi, top, ET, arc_top, blocks, cut, beta, log_beta):
    """Fill beta [T, Q] (scaled) and log_beta [T] (log of the scale); returns log Z, or NaN where a number underflowed.

    psi [T, Q] = exp(node - top), ET [T or 1, A] = exp(arc - arc_top), each block transposed: the loops run over its
    sources h.  The sum over all paths is computed along with it, since it reads the same numbers."""
    T, Q = psi.shape
    L = cut.shape[1] - 1
    by_token = ET.shape[0] > 1
    source_ptr, source, arc_ptr = blocks.source_ptr, blocks.source, blocks.arc_ptr
    best = np.empty(Q)
    label_sum = np.empty(Q)
    new_sum = np.empty(Q)
    sums = np.ones(Q)
    into = np.empty(Q)
    into_sum = np.empty(Q)
    log_sums = 0.0
    for h in range(Q):
        beta[T - 1, h] = 1.0
    log_beta[T - 1] = 0.0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        arcs = ET[e]
        for k in range(Q):
            into[k] = psi[t, k] * beta[t, k]
            into_sum[k] = psi[t, k] * sums[k]
        most = 0.0
        total = 0.0
        for b in range(arc_ptr.shape[0] - 1):
            n = unsigned(source_ptr[b + 1] - source_ptr[b])
            a = unsigned(arc_ptr[b])
            for h in range(n):
                best[h] = 0.0
                new_sum[h] = 0.0
            for y in range(L):
                k0, m = cut[b, y], cut[b, y + 1] - cut[b, y]
                if 0 < m <= 4:  # up to four states at once, whose sums need no memory: a third of the time
                    k1, k2, k3 = k0 + min(1, m - 1), k0 + min(2, m - 1), k0 + min(3, m - 1)
                    v0, w0 = into[k0], into_sum[k0]
                    v1, w1 = (into[k1], into_sum[k1]) if m > 1 else (0.0, 0.0)
                    v2, w2 = (into[k2], into_sum[k2]) if m > 2 else (0.0, 0.0)
                    v3, w3 = (into[k3], into_sum[k3]) if m > 3 else (0.0, 0.0)
                    a1, a2, a3 = a + unsigned(k1 - k0) * n, a + unsigned(k2 - k0) * n, a + unsigned(k3 - k0) * n
                    for h in range(n):
                        x0, x1, x2, x3 = arcs[a + h], arcs[a1 + h], arcs[a2 + h], arcs[a3 + h]
                        best[h] = max(best[h], (v0 * x0 + v1 * x1) + (v2 * x2 + v3 * x3))
                        new_sum[h] += (w0 * x0 + w1 * x1) + (w2 * x2 + w3 * x3)
                    a += unsigned(m) * n
                    continue
                for h in range(n):
                    label_sum[h] = 0.0
                for k in range(k0, k0 + m):
                    v, w = into[k], into_sum[k]
                    for h in range(n):
                        label_sum[h] += v * arcs[a + h]
                        new_sum[h] += w * arcs[a + h]
                    a += n
                for h in range(n):
                    best[h] = max(best[h], label_sum[h])
            for h in range(source_ptr[b + 1] - source_ptr[b]):
                r = source[source_ptr[b] + h]
                beta[t - 1, r] = best[h]
                sums[r] = new_sum[h]
                most = max(most, best[h])
                total = max(total, new_sum[h])
        if not (most > 0 and total > 0):
            return np.nan
        small = False
        for h in range(Q):
            beta[t - 1, h] /= most
            sums[h] /= total
            small |= 0 < beta[t - 1, h] < LEAST or 0 < sums[h] < LEAST
        if small:
            return np.nan
        log_beta[t - 1] = log_beta[t] + np.log(most) + top[t] + arc_top[e]
        log_sums += np.log(total) + top[t] + arc_top[e]
    total = 0.0
    for h in range(Q):
        total += psi[0, h] * sums[h]
    return np.log(total) + top[0] + log_sums if total > 0 else np.nan


@kernel
def exponentiate_arcs(arc, blocks, E, ET, top):
    """E = exp(arc - top) of every token's arcs [T or 1, A], ET the same with each block transposed, top [T or 1] the
    maximum; returns the widest difference between finite scores of one token.  With a row per token, the first is not
    used."""
    n, A = arc.shape
    source_ptr, target, arc_ptr = blocks.source_ptr, blocks.target, blocks.arc_ptr
    widest = 0.0
    for t in range(n):
        high = -np.inf
        low = np.inf
        for a in range(A):
            v = arc[t, a]
            high = max(high, v)
            low = min(low, v if v > -np.inf else np.inf)
        used = n == 1 or t > 0
        top[t] = high if used else 0.0
        if used:
            widest = max(widest, high - low)
        for b in range(arc_ptr.shape[0] - 1):
            n_sources, n_targets = source_ptr[b + 1] - source_ptr[b], target[b + 1] - target[b]
            a = arc_ptr[b]
            for r in range(n_sources):
                for s in range(n_targets):
                    v = np.exp(arc[t, a] - high) if used and high > -np.inf else 0.0
                    E[t, a] = v
                    ET[t, arc_ptr[b] + s * n_sources + r] = v
                    a += 1
    return widest


@kernel
def prepare(node, ET, arc_top, arc_range, blocks, cut, psi, top, beta, log_beta):
    """psi, top and the bound of a lattice with arcs ET; returns log Z, or NaN where scores differ too much."""
    T, Q = node.shape
    for t in range(T):
        high = -np.inf
        low = np.inf
        for s in range(Q):
            v = node[t, s]
            if v > -np.inf:
                high = max(high, v)
                low = min(low, v)
        if not high - low + 2 * arc_range < SAFE_RANGE:
            return np.nan
        top[t] = high
        for s in range(Q):
            psi[t, s] = np.exp(node[t, s] - high)
    return bounds(psi, top, ET, arc_top, blocks, cut, beta, log_beta)


@literal_kernel
def log_bounds(node, arc, blocks, cut, beta):
    """The bound in logarithms: beta [T, Q]; returns log Z."""
    T, Q = node.shape
    L = cut.shape[1] - 1
    by_token = arc.shape[0] > 1
    source_ptr, source, target, arc_ptr = blocks.source_ptr, blocks.source, blocks.target, blocks.arc_ptr
    terms = np.empty(Q)
    each = np.empty(Q)
    sums = np.zeros(Q)
    beta[T - 1] = 0.0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        new = np.empty(Q)
        for b in range(arc_ptr.shape[0] - 1):
            s0, s1 = target[b], target[b + 1]
            a = arc_ptr[b] - s0
            for i in range(source_ptr[b], source_ptr[b + 1]):
                best = -np.inf
                for y in range(L):
                    n = 0
                    for k in range(cut[b, y], cut[b, y + 1]):
                        terms[n] = arc[e, a + k] + node[t, k] + beta[t, k]
                        n += 1
                    best = max(best, log_sum(terms, n))
                beta[t - 1, source[i]] = best
                for k in range(s0, s1):
                    each[k - s0] = arc[e, a + k] + node[t, k] + sums[k]
                new[source[i]] = log_sum(each, s1 - s0)
                a += s1 - s0
        sums = new
    for h in range(Q):
        each[h] = node[0, h] + sums[h]
    return log_sum(each, Q)


@literal_kernel
def _extend_logs(lattice, contexts, pool, parent, t, y, c, new):
    """Vector and priority of the prefix `parent` + label y, which leads to context c, in logarithms."""
    ptr, nodes, places = contexts.ptr, contexts.node, contexts.slot
    e = t if lattice.E.shape[0] > 1 else 0
    size = ptr[c + 1] - ptr[c]
    vector = pool.vector
    terms = np.empty(size)
    if parent >= 0:
        top = np.full(size, -np.inf)
        total = np.zeros(size)
        before = pool.context[parent]
        for summing in range(2):  # the largest term of each node, then the sum over it
            for i in range(ptr[before], ptr[before + 1]):
                q = nodes[i]
                b = contexts.block[q]
                for k in range(contexts.cut[b, y], contexts.cut[b, y + 1]):
                    s = places[k]
                    v = vector[parent, i - ptr[before]] + lattice.E[e, contexts.base[q] + k]
                    if not summing:
                        top[s] = max(top[s], v)
                    elif v > -np.inf:
                        total[s] += np.exp(v - top[s])
        for s in range(size):
            vector[new, s] = np.log(total[s]) + top[s] if total[s] > 0 else -np.inf
            vector[new, s] += lattice.psi[t, nodes[ptr[c] + s]]
    else:
        for s in range(size):
            vector[new, s] = lattice.psi[t, nodes[ptr[c] + s]]
    for s in range(size):
        terms[s] = vector[new, s] + lattice.beta[t, nodes[ptr[c] + s]]
    pool.priority[new] = log_sum(terms, size)


@kernel
def _consider(lattice, contexts, pool, parent, n, bar):
    """Push every label after `parent` (-1: every first label) that can still be among the n best; bar holds the n best
    whole weights so far.  False where the weights of one prefix differ too much for scaled numbers."""
    psi, E, beta = lattice.psi, lattice.E, lattice.beta
    ptr, nodes, places, cut = contexts.ptr, contexts.node, contexts.slot, contexts.cut
    block, base = contexts.block, contexts.base
    vector = pool.vector
    t = pool.depth[parent] + 1 if parent >= 0 else 0
    e = t if E.shape[0] > 1 else 0
    before, log_scale = np.int64(-1), 0.0
    if parent >= 0:
        before = np.int64(pool.context[parent])
        log_scale = pool.scale[parent]
    if not lattice.logs:
        log_scale += lattice.top[t] + (lattice.arc_top[e] if t > 0 else 0.0)
    for y in range(contexts.opening.shape[0]):
        c = contexts.following[before, y] if parent >= 0 else contexts.opening[y]
        if c < 0:
            continue
        new = pool.counts[MADE]
        scale = log_scale
        if lattice.logs:
            _extend_logs(lattice, contexts, pool, parent, t, y, c, new)
        else:
            first, size = ptr[c], ptr[c + 1] - ptr[c]
            for s in range(size):
                vector[new, s] = 0.0 if parent >= 0 else 1.0
            if parent >= 0:
                for i in range(ptr[before], ptr[before + 1]):
                    q = nodes[i]
                    v = vector[parent, i - ptr[before]]
                    k0, k1 = cut[block[q], y], cut[block[q], y + 1]
                    if k0 < k1:
                        a, s = base[q], places[k0] - k0
                        for k in range(k0, k1):
                            vector[new, s + k] += v * E[e, a + k]
            most = 0.0
            least = np.inf
            bound = 0.0
            for s in range(size):
                k = nodes[first + s]
                v = vector[new, s] * psi[t, k]
                vector[new, s] = v
                most = max(most, v)
                least = min(least, v) if v > 0 else least
                bound += v * beta[t, k]
            if least < LEAST * most:
                return False
            if not bound > 0:
                continue
            pool.priority[new] = np.log(bound) + scale + lattice.log_beta[t]
            if most < SMALL or most > 1 / SMALL:  # seldom: most prefixes need no second logarithm
                for s in range(size):
                    vector[new, s] /= most
                scale += np.log(most)
        w = pool.priority[new]
        if not w > -np.inf or w < bar[n - 1] - TIE:
            continue
        pool.scale[new], pool.parent[new], pool.depth[new], pool.context[new] = scale, parent, t, c
        pool.key[new] = w + max(TIE, DIGITS * abs(w)) * t
        if t == psi.shape[0] - 1:  # whole: it may raise the bar
            i = n - 1
            if w > bar[i]:
                while i > 0 and bar[i - 1] < w:
                    bar[i] = bar[i - 1]
                    i -= 1
                bar[i] = w
            if pool.counts[WHOLE] < 0 or w > pool.priority[pool.counts[WHOLE]]:
                pool.counts[WHOLE] = new
        pool.counts[MADE] = new + 1
        push(pool.key, pool.depth, pool.heap, pool.counts[SIZE], new)
        pool.counts[SIZE] += 1
    return True


@kernel
def search(lattice, contexts, pool, places, n, budget, greedy, bar):
    """Search until the n best labellings have left the queue (DONE), `budget` prefixes were expanded (LIMIT), the pool
    is FULL and must grow, or weights are LOST without logarithms.  places [n] gets the prefixes that are whole
    labellings, in order.

    A `greedy` search forgets the rest of the queue with each expansion: it descends to one whole labelling."""
    L = contexts.opening.shape[0]
    T = lattice.psi.shape[0]
    counts = pool.counts
    if counts[MADE] == 0 and not _consider(lattice, contexts, pool, -1, n, bar):
        return LOST
    while counts[SIZE] > 0:
        i = pool.heap[0]
        if pool.depth[i] < T - 1:
            if counts[EXPANDED] >= budget:
                return LIMIT
            if counts[MADE] + L > pool.heap.shape[0]:
                return FULL
            counts[EXPANDED] += 1
        pop(pool.key, pool.depth, pool.heap, counts[SIZE])
        counts[SIZE] = 0 if greedy else counts[SIZE] - 1
        if pool.depth[i] < T - 1:
            if not _consider(lattice, contexts, pool, i, n, bar):
                return LOST
            continue
        places[counts[LABELLINGS]] = i
        counts[LABELLINGS] += 1
        if counts[LABELLINGS] == n:
            return DONE
    return DONE


@kernel
def trace(pool, contexts, place, labels):
    """Fill labels [T] with the labelling that ends in `place`."""
    at = place
    for t in range(labels.shape[0] - 1, -1, -1):
        labels[t] = contexts.label[pool.context[at]]
        at = pool.parent[at]


@kernel
def _solve_one(node, E, ET, arc_top, arc_range, blocks, contexts, labels, out):
    """Bound, search and trace one sentence; out[0] stays NaN where that needs logarithms or a longer search.

    The pool is made here: passing one in would cost more than that."""
    T, Q = node.shape
    psi = np.empty((T, Q))
    top = np.empty(T)
    beta = np.empty((T, Q))
    log_beta = np.empty(T)
    log_z = prepare(node, ET, arc_top, arc_range, blocks, contexts.cut, psi, top, beta, log_beta)
    if not np.isfinite(log_z):
        return
    lattice = Weights(psi, top, E, arc_top, beta, log_beta, False)
    size, width = max(512, 4 * (T + 8) * contexts.opening.shape[0]), 0
    for c in range(contexts.label.shape[0]):
        width = max(width, contexts.ptr[c + 1] - contexts.ptr[c])
    pool = PrefixPool(
        np.empty(size), np.empty(size), np.empty(size), np.empty((size, width)), np.empty(size, np.int32),
        np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32), np.array([0, 0, 0, 0, -1]),
    )  # fmt: skip
    places = np.empty(1, np.int64)
    bar = np.full(1, -np.inf)
    if search(lattice, contexts, pool, places, 1, size, False, bar) != DONE or pool.counts[LABELLINGS] == 0:
        return
    trace(pool, contexts, places[0], labels)
    out[0], out[1], out[2] = pool.priority[places[0]], log_z, pool.counts[EXPANDED]


@kernel
def solve(node, E, ET, arc_top, arc_range, blocks, contexts, offsets, labels, out):
    """The most probable labellings of all sentences of a batch: labels [T] and out [N] = (log weight, log Z,
    expansions), NaN where a sentence needs logarithms, or a search that is longer than usual."""
    for n in range(offsets.shape[0] - 1):
        a, b = offsets[n], offsets[n + 1]
        out[n] = np.nan
        if b > a:
            _solve_one(node[a:b], E, ET, arc_top, arc_range, blocks, contexts, labels[a:b], out[n])


@kernel
def solve_by_token(node, arc, blocks, contexts, offsets, labels, out):
    """`solve` for arcs with a row of scores for every token."""
    for n in range(offsets.shape[0] - 1):
        a, b = offsets[n], offsets[n + 1]
        out[n] = np.nan
        if b > a:
            E = np.empty((b - a, arc.shape[1]))
            ET = np.empty((b - a, arc.shape[1]))
            top = np.empty(b - a)
            widest = exponentiate_arcs(arc[a:b], blocks, E, ET, top)
            _solve_one(node[a:b], E, ET, top, widest, blocks, contexts, labels[a:b], out[n])
