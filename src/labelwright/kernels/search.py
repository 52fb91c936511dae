"""Exact decoding of latent models: best-first search over label prefixes.

A prefix y_1..y_t carries a(h) for the nodes h of its context (the states of y_t or, of order 2, the
pairs of states of y_{t-1} and y_t): the summed weight of all its latent paths that end in h.  With

    beta_T(h) = 1,
    beta_t(h) = max over labels y' of  sum_{k in y'} E(h, k) s_{t+1}(k) beta_{t+1}(k)

sum_h a(h) beta_t(h) bounds the weight of every completion, and is exact for a whole labelling: the
first whole one that leaves the queue is the most probable, the next is the second, and so on.

Two arithmetics, one search: scaled numbers, or (`logs`) logarithms where scores differ so much that
numbers underflow.
"""

from typing import NamedTuple

import numpy as np

from labelwright.kernels import kernel, literal_kernel, unsigned
from labelwright.kernels.common import log_sum, pop, push

DONE, LIMIT, FULL, LOST = 0, 1, 2, 3  # how a search call ends
MADE, SIZE, EXPANDED, LABELLINGS, WHOLE = 0, 1, 2, 3, 4  # places in the counters
SMALL = 1e-60  # vectors below this, or above its inverse, are scaled
# numbers below this share of the largest may underflow at the next token, though they could win
# later
LEAST = 1e-50
SAFE_RANGE = 300.0  # scores of one token that differ by less can be searched as scaled numbers
# of two prefixes this close the longer goes first, or equal weights would be searched
# breadth-first;
TIE = 1e-11
DIGITS = 1e-15  # so it is where large weights differ in their last digits
# a search for what is better than a labelling meets this labelling again, but for so much
NEAR = 1e-9


class Arcs(NamedTuple):
    """Exponentials of the arcs."""

    E: np.ndarray  # [T|1, A]  exp(score - top)
    ET: np.ndarray  # [T|1, A]  each block transposed
    top: np.ndarray  # [T|1]
    least: np.ndarray  # [T|1, Q]  the smallest and
    most: np.ndarray  # [T|1, Q]  the largest of the arcs into each node


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
    # [P]     its place in the queue: the priority, and a little more for longer prefixes
    key: np.ndarray
    scale: np.ndarray  # [P]     log of what the vector was divided by
    # [P, C]  summed weight of the latent paths ending in each node of the context
    vector: np.ndarray
    parent: np.ndarray  # [P]
    depth: np.ndarray  # [P]
    context: np.ndarray  # [P]
    heap: np.ndarray  # [P]
    counts: np.ndarray  # [5]


@kernel
def bounds(psi, top, arcs, blocks, cut, beta, log_beta):
    """Fill beta [T, Q] (scaled) and log_beta [T] (log of the scale); False where a number
    underflowed.

    psi [T, Q] = exp(node - top), and arcs as prepare_arcs leaves them, each block transposed: the
    loops run over its sources h.  Most labels are passed over: they could not be the best ones even
    if the arc into each of their nodes were the largest, and those of another label the smallest.
    That leaves 2 or 3 labels of 9 to 20."""
    T, Q = psi.shape
    L = cut.shape[1] - 1
    source_ptr, source, arc_ptr = blocks.source_ptr, blocks.source, blocks.arc_ptr
    best, label_sum = np.empty(Q), np.empty(Q)
    into, low, high, high_of = np.empty(Q), np.empty(Q), np.empty(Q), np.empty(L)
    for h in range(Q):
        beta[T - 1, h] = 1.0
    log_beta[T - 1] = 0.0
    for t in range(T - 1, 0, -1):
        e = t if arcs.ET.shape[0] > 1 else 0
        ET, least, largest = arcs.ET[e], arcs.least[e], arcs.most[e]
        for k in range(Q):
            into[k] = psi[t, k] * beta[t, k]
            low[k] = into[k] * least[k]
            high[k] = into[k] * largest[k]
        most = 0.0
        for b in range(arc_ptr.shape[0] - 1):
            n = unsigned(source_ptr[b + 1] - source_ptr[b])
            floor = 0.0
            for y in range(L):
                lows = highs = 0.0
                for k in range(unsigned(cut[b, y]), unsigned(cut[b, y + 1])):
                    lows += low[k]
                    highs += high[k]
                floor = max(floor, lows)
                high_of[y] = highs
            for h in range(n):
                best[h] = 0.0
            for y in range(L):
                if high_of[y] < floor:
                    continue
                a = unsigned(arc_ptr[b]) + unsigned(cut[b, y] - cut[b, 0]) * n
                for h in range(n):
                    label_sum[h] = 0.0
                for k in range(cut[b, y], cut[b, y + 1]):
                    v = into[k]
                    for h in range(n):
                        label_sum[h] += v * ET[a + h]
                    a += n
                for h in range(n):
                    best[h] = max(best[h], label_sum[h])
            for h in range(source_ptr[b + 1] - source_ptr[b]):
                beta[t - 1, source[source_ptr[b] + h]] = best[h]
                most = max(most, best[h])
        if not most > 0:
            return False
        small = False
        for h in range(Q):
            beta[t - 1, h] /= most
            small |= 0 < beta[t - 1, h] < LEAST
        if small:
            return False
        log_beta[t - 1] = log_beta[t] + np.log(most) + top[t] + arcs.top[e]
    return True


@kernel
def prepare_arcs(scores, blocks, arcs):
    """Fill the exponentials of every token's arcs [T or 1, A]; returns the widest difference
    between finite scores of one token.  With a row per token, the first is not used."""
    T, A = scores.shape
    source_ptr, target, arc_ptr = blocks.source_ptr, blocks.target, blocks.arc_ptr
    widest = 0.0
    for t in range(T):
        high = -np.inf
        low = np.inf
        for a in range(A):
            v = scores[t, a]
            high = max(high, v)
            low = min(low, v if v > -np.inf else np.inf)
        used = T == 1 or t > 0
        arcs.top[t] = high if used else 0.0
        if used:
            widest = max(widest, high - low)
        for b in range(arc_ptr.shape[0] - 1):
            n_sources, n_targets = source_ptr[b + 1] - source_ptr[b], target[b + 1] - target[b]
            a = arc_ptr[b]
            for s in range(n_targets):
                arcs.least[t, target[b] + s], arcs.most[t, target[b] + s] = 1.0, 0.0
            for r in range(n_sources):
                for s in range(n_targets):
                    v = np.exp(scores[t, a] - high) if used and high > -np.inf else 0.0
                    arcs.E[t, a] = v
                    arcs.ET[t, arc_ptr[b] + s * n_sources + r] = v
                    arcs.least[t, target[b] + s] = min(arcs.least[t, target[b] + s], v)
                    arcs.most[t, target[b] + s] = max(arcs.most[t, target[b] + s], v)
                    a += 1
    return widest


@kernel
def prepare(node, arcs, widest, blocks, cut, psi, top, beta, log_beta):
    """psi, top and the bound of a lattice; False where scores differ too much."""
    T, Q = node.shape
    for t in range(T):
        high = -np.inf
        low = np.inf
        for s in range(Q):
            v = node[t, s]
            if v > -np.inf:
                high = max(high, v)
                low = min(low, v)
        if not high - low + 2 * widest < SAFE_RANGE:
            return False
        top[t] = high
        for s in range(Q):
            psi[t, s] = np.exp(node[t, s] - high)
    return bounds(psi, top, arcs, blocks, cut, beta, log_beta)


@literal_kernel
def log_bounds(node, arc, blocks, cut, beta):
    """The bound in logarithms: beta [T, Q]."""
    T, Q = node.shape
    L = cut.shape[1] - 1
    by_token = arc.shape[0] > 1
    source_ptr, source, target, arc_ptr = (
        blocks.source_ptr,
        blocks.source,
        blocks.target,
        blocks.arc_ptr,
    )
    terms = np.empty(Q)
    beta[T - 1] = 0.0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
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
                a += s1 - s0


@kernel
def _extend(lattice, contexts, before, vector, i, t, into, bound):
    """The prefixes of one more label, of a prefix with context `before` and weights vector[i] (-1:
    the first labels): into [Q] = the weight of the paths to each node, bound [L] = that of all
    completions, 0 where no label may follow. False where the weights of one prefix differ too much
    for scaled numbers."""
    psi, E, beta = lattice.psi, lattice.E, lattice.beta
    ptr, nodes, cut = contexts.ptr, contexts.node, contexts.cut
    L = contexts.opening.shape[0]
    e = t if E.shape[0] > 1 else 0
    if before >= 0:
        for j in range(ptr[before], ptr[before + 1]):
            b = contexts.block[nodes[j]]
            for k in range(unsigned(cut[b, 0]), unsigned(cut[b, L])):
                into[k] = 0.0
        for j in range(ptr[before], ptr[before + 1]):
            q = nodes[j]
            b, a, v = contexts.block[q], unsigned(contexts.base[q]), vector[i, j - ptr[before]]
            for k in range(unsigned(cut[b, 0]), unsigned(cut[b, L])):
                into[k] += v * E[e, a + k]
    for y in range(L):
        bound[y] = 0.0
        c = contexts.following[before, y] if before >= 0 else contexts.opening[y]
        if c < 0:
            continue
        most = 0.0
        least = np.inf
        total = 0.0
        for j in range(ptr[c], ptr[c + 1]):
            k = nodes[j]
            v = into[k] * psi[t, k] if before >= 0 else psi[t, k]
            into[k] = v
            most = max(most, v)
            least = min(least, v) if v > 0 else least
            total += v * beta[t, k]
        if least < LEAST * most:
            return False
        bound[y] = total
    return True


@literal_kernel
def _extend_logs(lattice, contexts, before, vector, i, t, into, bound):
    """`_extend` in logarithms."""
    ptr, nodes, places = contexts.ptr, contexts.node, contexts.slot
    e = t if lattice.E.shape[0] > 1 else 0
    terms = np.empty(into.shape[0])
    for y in range(contexts.opening.shape[0]):
        bound[y] = -np.inf
        c = contexts.following[before, y] if before >= 0 else contexts.opening[y]
        if c < 0:
            continue
        for j in range(ptr[c], ptr[c + 1]):
            k, n = nodes[j], 0
            if before >= 0:
                for m in range(ptr[before], ptr[before + 1]):
                    q = nodes[m]
                    b = contexts.block[q]
                    if contexts.cut[b, y] <= k < contexts.cut[b, y + 1]:
                        terms[n] = vector[i, m - ptr[before]] + lattice.E[e, contexts.base[q] + k]
                        n += 1
            into[k] = lattice.psi[t, k] + (log_sum(terms, n) if before >= 0 else 0.0)
        for j in range(ptr[c], ptr[c + 1]):
            terms[places[nodes[j]]] = into[nodes[j]] + lattice.beta[t, nodes[j]]
        bound[y] = log_sum(terms, ptr[c + 1] - ptr[c])
    return True


@kernel
def _consider(lattice, contexts, pool, parent, n, bar, into, bound):
    """Push every label after `parent` (-1: every first label) that can still be among the n best;
    bar holds the n best whole weights so far.  False where the weights of one prefix differ too
    much for scaled numbers."""
    T, t, before, scale = lattice.psi.shape[0], 0, np.int64(-1), 0.0
    if parent >= 0:
        t, before, scale = (
            pool.depth[parent] + 1,
            np.int64(pool.context[parent]),
            pool.scale[parent],
        )
    if lattice.logs:
        _extend_logs(lattice, contexts, before, pool.vector, parent, t, into, bound)
    else:
        if not _extend(lattice, contexts, before, pool.vector, parent, t, into, bound):
            return False
        scale += lattice.top[t] + (
            lattice.arc_top[t if lattice.E.shape[0] > 1 else 0] if t > 0 else 0.0
        )
    for y in range(bound.shape[0]):
        w = bound[y]
        if not lattice.logs:
            w = np.log(w) + scale + lattice.log_beta[t] if w > 0 else -np.inf
        if not w > -np.inf or w < bar[n - 1] - TIE:
            continue
        new, c = (
            pool.counts[MADE],
            contexts.following[before, y] if parent >= 0 else contexts.opening[y],
        )
        first, size = contexts.ptr[c], contexts.ptr[c + 1] - contexts.ptr[c]
        most = 0.0
        for s in range(size):
            v = into[contexts.node[first + s]]
            pool.vector[new, s] = v
            most = max(most, v)
        pool.scale[new] = scale
        # seldom: most prefixes need no second logarithm
        if not lattice.logs and (most < SMALL or most > 1 / SMALL):
            for s in range(size):
                pool.vector[new, s] /= most
            pool.scale[new] += np.log(most)
        pool.priority[new], pool.parent[new], pool.depth[new], pool.context[new] = w, parent, t, c
        pool.key[new] = w + max(TIE, DIGITS * abs(w)) * t
        if t == T - 1:  # whole: it may raise the bar
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
    """Search until the n best labellings have left the queue (DONE), `budget` prefixes were
    expanded (LIMIT), the pool is FULL and must grow, or weights are LOST without logarithms.
    places [n] gets the prefixes that are whole labellings, in order.

    A `greedy` search forgets the rest of the queue with each expansion: it descends to one whole
    labelling."""
    L = contexts.opening.shape[0]
    T, Q = lattice.psi.shape
    counts = pool.counts
    into, bound = np.empty(Q), np.empty(L)
    if counts[MADE] == 0 and not _consider(lattice, contexts, pool, -1, n, bar, into, bound):
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
            if not _consider(lattice, contexts, pool, i, n, bar, into, bound):
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
def _descend(lattice, contexts, vector, labels):
    """Take the label with the best bound at each token: labels [T], its weight, and the best bound
    of those left aside, as logarithms; NaN where scaled numbers are not enough."""
    T, Q = lattice.psi.shape
    into, bound = np.empty(Q), np.empty(contexts.opening.shape[0])
    before, scale, aside, weight = np.int64(-1), 0.0, -np.inf, np.nan
    for t in range(T):
        if not _extend(lattice, contexts, before, vector, 0, t, into, bound):
            return np.nan, aside
        best, second = 0, 0.0
        for y in range(1, bound.shape[0]):
            if bound[y] > bound[best]:
                best, second = y, bound[best]
            else:
                second = max(second, bound[y])
        if not bound[best] > 0:
            return np.nan, aside
        scale += lattice.top[t] + (
            lattice.arc_top[t if lattice.E.shape[0] > 1 else 0] if t > 0 else 0.0
        )
        if second > 0:
            aside = max(aside, np.log(second) + scale + lattice.log_beta[t])
        weight = np.log(bound[best]) + scale
        labels[t] = best
        before = contexts.following[before, best] if before >= 0 else contexts.opening[best]
        most = 0.0
        for j in range(contexts.ptr[before], contexts.ptr[before + 1]):
            most = max(most, into[contexts.node[j]])
        for j in range(contexts.ptr[before], contexts.ptr[before + 1]):
            vector[0, j - contexts.ptr[before]] = into[contexts.node[j]] / most
        scale += np.log(most)
    return weight, aside


@kernel
def _solve_one(node, arcs, widest, blocks, contexts, labels, out):
    """The bound and a descent of one sentence, which most often is proven to be the best labelling,
    or else a search; out[0] stays NaN where that needs logarithms or is long."""
    T, Q = node.shape
    psi = np.empty((T, Q))
    top = np.empty(T)
    beta = np.empty((T, Q))
    log_beta = np.empty(T)
    if not prepare(node, arcs, widest, blocks, contexts.cut, psi, top, beta, log_beta):
        return
    lattice = Weights(psi, top, arcs.E, arcs.top, beta, log_beta, False)
    size, width = max(512, 4 * (T + 8) * contexts.opening.shape[0]), 0
    for c in range(contexts.label.shape[0]):
        width = max(width, contexts.ptr[c + 1] - contexts.ptr[c])
    weight, aside = _descend(lattice, contexts, np.empty((1, width)), labels)
    if aside <= weight + TIE:
        out[0], out[1] = weight, T - 1
    if not aside > weight + TIE:  # proven, or lost
        return
    pool = PrefixPool(
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty((size, width)),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.array([0, 0, 0, 0, -1]),
    )
    places = np.empty(1, np.int64)
    bar = np.full(1, weight - NEAR * max(1.0, abs(weight)))
    if (
        search(lattice, contexts, pool, places, 1, size, False, bar) != DONE
        or pool.counts[LABELLINGS] == 0
    ):
        return
    trace(pool, contexts, places[0], labels)
    out[0], out[1] = pool.priority[places[0]], pool.counts[EXPANDED]


@kernel
def solve(node, arcs, widest, blocks, contexts, offsets, labels, out):
    """The most probable labellings of all sentences of a batch: labels [T] and out [N] = (log
    weight, expansions), NaN where a sentence needs logarithms, or a search that is longer than
    usual."""
    for n in range(offsets.shape[0] - 1):
        a, b = offsets[n], offsets[n + 1]
        out[n] = np.nan
        if b > a:
            _solve_one(node[a:b], arcs, widest, blocks, contexts, labels[a:b], out[n])


@kernel
def solve_by_token(node, arc, blocks, contexts, offsets, labels, out):
    """`solve` for arcs with a row of scores for every token."""
    for n in range(offsets.shape[0] - 1):
        a, b = offsets[n], offsets[n + 1]
        out[n] = np.nan
        if b > a:
            E, ET = np.empty((b - a, arc.shape[1])), np.empty((b - a, arc.shape[1]))
            least, most = np.empty((b - a, node.shape[1])), np.empty((b - a, node.shape[1]))
            arcs = Arcs(E, ET, np.empty(b - a), least, most)
            widest = prepare_arcs(arc[a:b], blocks, arcs)
            _solve_one(node[a:b], arcs, widest, blocks, contexts, labels[a:b], out[n])
