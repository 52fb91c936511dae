"""Exact decoding of latent models: best-first search over label prefixes.

A prefix y_1..y_t carries a(h) for the states h of y_t: the summed weight of all its latent paths that end in h.  With

    beta_T(h) = 1,   beta_t(h) = max over labels y' of  sum_{k in y'} E(h, k) s_{t+1}(k) beta_{t+1}(k)

sum_h a(h) beta_t(h) bounds the weight of every completion, and is exact for a whole labelling: the first whole one that
leaves the queue is the most probable, the next is the second, and so on.

Two arithmetics, one search: scaled numbers, or (`logs`) logarithms where scores differ so much that numbers vanish.
"""

from typing import NamedTuple

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.logs import log_sum

DONE, LIMIT, FULL, LOST = 0, 1, 2, 3  # how a search call ends
MADE, SIZE, EXPANDED, FOUND, WHOLE = 0, 1, 2, 3, 4  # places in the counters
SMALL = 1e-60  # vectors below this, or above its inverse, are scaled
LEAST = 1e-50  # numbers below this share of the largest may vanish at the next token, though they could win later
SAFE_RANGE = 300.0  # scores of one token that differ by less can be searched as scaled numbers
TIE = 1e-11  # of two prefixes this close the longer goes first, or equal weights would be searched breadth-first


class Weights(NamedTuple):
    """A lattice as the search reads it: scaled numbers, or logarithms."""

    psi: np.ndarray  # [T, S]       exp(node - top), or node
    top: np.ndarray  # [T]
    E: np.ndarray  # [T|1, S, S]  exp(arc - arc_top), or arc
    arc_top: np.ndarray  # [T|1]
    beta: np.ndarray  # [T, S]       the bound, scaled
    log_beta: np.ndarray  # [T]          log of its scale
    logs: bool


class Pool(NamedTuple):
    """All prefixes made so far, and the queue of those still open."""

    priority: np.ndarray  # [M]     log of the bound on all completions
    key: np.ndarray  # [M]     its place in the queue: the priority, and a little more for longer prefixes
    scale: np.ndarray  # [M]     log of what the vector was divided by
    vector: np.ndarray  # [M, H]  summed weight of the latent paths ending in each state of the last label
    parent: np.ndarray  # [M]
    depth: np.ndarray  # [M]
    label: np.ndarray  # [M]
    heap: np.ndarray  # [M]
    counts: np.ndarray  # [5]


@kernel
def dense_bounds(psi, top, ET, arc_top, first, beta, log_beta):
    """Fill beta [T, S] (scaled) and log_beta [T] (log of the scale); returns log Z, or NaN where a number vanished.

    psi [T, S] = exp(node - top), ET [T or 1, S, S] = exp(arc - arc_top), transposed: the loops run over h.  The sum
    over all paths rides along, since it reads the same numbers."""
    T, S = psi.shape
    L = first.shape[0] - 1
    by_token = ET.shape[0] > 1
    label_sum = np.empty(S)
    sums = np.ones(S)
    into = np.empty(S)
    into_sum = np.empty(S)
    new_sum = np.empty(S)
    log_sums = 0.0
    for h in range(S):
        beta[T - 1, h] = 1.0
    log_beta[T - 1] = 0.0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        for k in range(S):
            into[k] = psi[t, k] * beta[t, k]
            into_sum[k] = psi[t, k] * sums[k]
            beta[t - 1, k] = 0.0
            new_sum[k] = 0.0
        for y in range(L):
            for h in range(S):
                label_sum[h] = 0.0
            for k in range(first[y], first[y + 1]):
                a, b = into[k], into_sum[k]
                for h in range(S):
                    label_sum[h] += a * ET[e, k, h]
                    new_sum[h] += b * ET[e, k, h]
            for h in range(S):
                beta[t - 1, h] = max(beta[t - 1, h], label_sum[h])
        most = 0.0
        total = 0.0
        for h in range(S):
            most = max(most, beta[t - 1, h])
            total = max(total, new_sum[h])
        if not (most > 0 and total > 0):
            return np.nan
        small = False
        for h in range(S):
            beta[t - 1, h] /= most
            sums[h] = new_sum[h] / total
            small |= 0 < beta[t - 1, h] < LEAST or 0 < sums[h] < LEAST
        if small:
            return np.nan
        log_beta[t - 1] = log_beta[t] + np.log(most) + top[t] + arc_top[e]
        log_sums += np.log(total) + top[t] + arc_top[e]
    total = 0.0
    for h in range(S):
        total += psi[0, h] * sums[h]
    return np.log(total) + top[0] + log_sums if total > 0 else np.nan


@kernel
def exponentiate_arcs(arc, E, ET, top):
    """E = exp(arc - top) of every token's arcs [T or 1, S, S], ET its transpose, top [T or 1] the maximum; returns the
    widest difference between finite scores of one token.  With a row per token, the first is not used."""
    n, S, _ = arc.shape
    widest = 0.0
    for t in range(n):
        high = -np.inf
        low = np.inf
        for r in range(S):
            for s in range(S):
                v = arc[t, r, s]
                high = max(high, v)
                low = min(low, v if v > -np.inf else np.inf)
        used = n == 1 or t > 0
        top[t] = high if used else 0.0
        if used:
            widest = max(widest, high - low)
        for r in range(S):
            for s in range(S):
                v = np.exp(arc[t, r, s] - high) if used and high > -np.inf else 0.0
                E[t, r, s] = v
                ET[t, s, r] = v
    return widest


@kernel
def prepare(node, ET, arc_top, arc_range, first, psi, top, beta, log_beta):
    """psi, top and the bound of a lattice with arcs ET; returns log Z, or NaN where scores differ too much."""
    T, S = node.shape
    for t in range(T):
        high = -np.inf
        low = np.inf
        for s in range(S):
            v = node[t, s]
            if v > -np.inf:
                high = max(high, v)
                low = min(low, v)
        if not high - low + 2 * arc_range < SAFE_RANGE:
            return np.nan
        top[t] = high
        for s in range(S):
            psi[t, s] = np.exp(node[t, s] - high)
    return dense_bounds(psi, top, ET, arc_top, first, beta, log_beta)


@kernel
def log_bounds(node, arc, first, beta):
    """The bound in logarithms: beta [T, S]; returns log Z."""
    T, S = node.shape
    L = first.shape[0] - 1
    by_token = arc.shape[0] > 1
    terms = np.empty(S)
    each = np.empty(S)
    sums = np.zeros(S)
    beta[T - 1] = 0.0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        new = np.empty(S)
        for h in range(S):
            best = -np.inf
            for y in range(L):
                n = 0
                for k in range(first[y], first[y + 1]):
                    terms[n] = arc[e, h, k] + node[t, k] + beta[t, k]
                    n += 1
                best = max(best, log_sum(terms, n))
            beta[t - 1, h] = best
            for k in range(S):
                each[k] = arc[e, h, k] + node[t, k] + sums[k]
            new[h] = log_sum(each, S)
        sums = new
    for h in range(S):
        each[h] = node[0, h] + sums[h]
    return log_sum(each, S)


@kernel
def _push(key, heap, size, i):
    """Put prefix i into a queue of this size."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        if key[heap[up]] >= key[i]:
            break
        heap[at] = heap[up]
        at = up
    heap[at] = i


@kernel
def _pop(key, heap, size):
    """Take the first prefix out of a queue of this size."""
    first = heap[0]
    i = heap[size - 1]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size - 1:
            break
        if down + 1 < size - 1 and key[heap[down + 1]] > key[heap[down]]:
            down += 1
        if key[i] >= key[heap[down]]:
            break
        heap[at] = heap[down]
        at = down
    heap[at] = i
    return first


@kernel
def _extend_logs(lattice, first, pool, parent, t, y, new, terms):
    """Vector and priority of the prefix `parent` + label y, in logarithms."""
    k0, k1 = first[y], first[y + 1]
    e = t if lattice.E.shape[0] > 1 else 0
    for k in range(k0, k1):
        v = lattice.psi[t, k]
        if parent >= 0:
            h0, h1 = first[pool.label[parent]], first[pool.label[parent] + 1]
            for h in range(h0, h1):
                terms[h - h0] = pool.vector[parent, h - h0] + lattice.E[e, h, k]
            v += log_sum(terms, h1 - h0)
        pool.vector[new, k - k0] = v
    for k in range(k0, k1):
        terms[k - k0] = pool.vector[new, k - k0] + lattice.beta[t, k]
    pool.priority[new] = log_sum(terms, k1 - k0)


@kernel
def _consider(lattice, first, pool, parent, n, tie, terms, bar):
    """Push every label after `parent` (-1: every first label) that can still be among the n best; bar holds the n best
    whole weights so far.  False where the weights of one prefix differ too much for scaled numbers."""
    psi, E, beta = lattice.psi, lattice.E, lattice.beta
    vector = pool.vector
    t = pool.depth[parent] + 1 if parent >= 0 else 0
    e = t if E.shape[0] > 1 else 0
    h0, h1 = 0, 0
    base = 0.0
    if parent >= 0:
        h0, h1 = first[pool.label[parent]], first[pool.label[parent] + 1]
        base = pool.scale[parent]
    if not lattice.logs:
        base += lattice.top[t] + (lattice.arc_top[e] if t > 0 else 0.0)
    for y in range(first.shape[0] - 1):
        new = pool.counts[MADE]
        scale = base
        if lattice.logs:
            _extend_logs(lattice, first, pool, parent, t, y, new, terms)
        else:
            k0, k1 = first[y], first[y + 1]
            most = 0.0
            least = np.inf
            bound = 0.0
            for k in range(k0, k1):
                v = 1.0
                if parent >= 0:
                    v = 0.0
                    for h in range(h0, h1):
                        v += vector[parent, h - h0] * E[e, h, k]
                v *= psi[t, k]
                vector[new, k - k0] = v
                most = max(most, v)
                least = min(least, v) if v > 0 else least
                bound += v * beta[t, k]
            if least < LEAST * most:
                return False
            if not bound > 0:
                continue
            pool.priority[new] = np.log(bound) + scale + lattice.log_beta[t]
            if most < SMALL or most > 1 / SMALL:  # seldom: most prefixes need no second logarithm
                for k in range(k1 - k0):
                    vector[new, k] /= most
                scale += np.log(most)
        w = pool.priority[new]
        if not w > -np.inf or w < bar[n - 1] - TIE:
            continue
        pool.scale[new], pool.parent[new], pool.depth[new], pool.label[new] = scale, parent, t, y
        pool.key[new] = w + tie * t
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
        _push(pool.key, pool.heap, pool.counts[SIZE], new)
        pool.counts[SIZE] += 1
    return True


@kernel
def search(lattice, first, pool, found, n, budget, tie, bar):
    """Go on until the n best labellings have left the queue (DONE), `budget` prefixes were expanded (LIMIT), the pool
    is FULL and must grow, or weights are LOST without logarithms.  found [n] gets the places of whole labellings, in
    order.

    With a large `tie` the longest prefix always goes first: a dive to the first whole labelling."""
    L = first.shape[0] - 1
    T = lattice.psi.shape[0]
    terms = np.empty(lattice.psi.shape[1])
    counts = pool.counts
    if counts[MADE] == 0 and not _consider(lattice, first, pool, -1, n, tie, terms, bar):
        return LOST
    while counts[SIZE] > 0:
        i = pool.heap[0]
        if pool.depth[i] < T - 1:
            if counts[EXPANDED] >= budget:
                return LIMIT
            if counts[MADE] + L > pool.heap.shape[0]:
                return FULL
            counts[EXPANDED] += 1
        _pop(pool.key, pool.heap, counts[SIZE])
        counts[SIZE] -= 1
        if pool.depth[i] < T - 1:
            if not _consider(lattice, first, pool, i, n, tie, terms, bar):
                return LOST
            continue
        found[counts[FOUND]] = i
        counts[FOUND] += 1
        if counts[FOUND] == n:
            return DONE
    return DONE


@kernel
def trace(pool, place, labels):
    """Fill labels [T] with the labelling that ends in `place`."""
    at = place
    for t in range(labels.shape[0] - 1, -1, -1):
        labels[t] = pool.label[at]
        at = pool.parent[at]


@kernel
def solve(node, E, ET, arc_top, arc_range, first, pool, labels, out):
    """Bound, search and trace in one call: labels [T] and out = (log weight, log Z) of the most probable labelling.

    False where the scores need logarithms, or the pool as it is does not suffice."""
    T, S = node.shape
    psi = np.empty((T, S))
    top = np.empty(T)
    beta = np.empty((T, S))
    log_beta = np.empty(T)
    log_z = prepare(node, ET, arc_top, arc_range, first, psi, top, beta, log_beta)
    if not np.isfinite(log_z):
        return False
    lattice = Weights(psi, top, E, arc_top, beta, log_beta, False)
    found = np.empty(1, np.int64)
    bar = np.full(1, -np.inf)
    if search(lattice, first, pool, found, 1, pool.heap.shape[0], TIE, bar) != DONE or pool.counts[FOUND] == 0:
        return False
    trace(pool, found[0], labels)
    out[0] = pool.priority[found[0]]
    out[1] = log_z
    return True


@kernel
def solve_by_token(node, arc, first, pool, labels, out):
    """`solve` for arcs that have scores of their own at every token."""
    E = np.empty(arc.shape)
    ET = np.empty(arc.shape)
    top = np.empty(arc.shape[0])
    widest = exponentiate_arcs(arc, E, ET, top)
    return solve(node, E, ET, top, widest, first, pool, labels, out)
