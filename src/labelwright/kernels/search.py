"""Exact decoding of latent models: best-first search over label prefixes.

A prefix y_1..y_t carries a(h) for the states h of y_t: the summed weight of all its latent paths that end in h.  With

    beta_T(h) = 1,   beta_t(h) = max over labels y' of  sum_{k in y'} E(h, k) s_{t+1}(k) beta_{t+1}(k)

sum_h a(h) beta_t(h) bounds the weight of every completion, and is exact for a whole labelling: the first whole one that
leaves the queue is the most probable, the next is the second, and so on.

Two arithmetics, one search: scaled numbers, or (`logs`) logarithms where scores differ so much that numbers vanish.
"""

import numpy as np

from labelwright.kernels import kernel

DONE, LIMIT, FULL = 0, 1, 2  # how a search call ends
MADE, SIZE, EXPANDED, FOUND, WHOLE = 0, 1, 2, 3, 4  # places in the counters
TIE = 1e-11  # of two prefixes this close the longer goes first, or equal weights would be searched breadth-first


@kernel
def _log_sum(x, n):
    m = -np.inf
    for i in range(n):
        m = max(m, x[i])
    if not np.isfinite(m):
        return m
    total = 0.0
    for i in range(n):
        total += np.exp(x[i] - m)
    return m + np.log(total)


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
        for h in range(S):
            beta[t - 1, h] /= most
            sums[h] = new_sum[h] / total
        log_beta[t - 1] = log_beta[t] + np.log(most) + top[t] + arc_top[e]
        log_sums += np.log(total) + top[t] + arc_top[e]
    total = 0.0
    for h in range(S):
        total += psi[0, h] * sums[h]
    return np.log(total) + top[0] + log_sums if total > 0 else np.nan


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
                best = max(best, _log_sum(terms, n))
            beta[t - 1, h] = best
            for k in range(S):
                each[k] = arc[e, h, k] + node[t, k] + sums[k]
            new[h] = _log_sum(each, S)
        sums = new
    for h in range(S):
        each[h] = node[0, h] + sums[h]
    return _log_sum(each, S)


@kernel
def _before(pool, i, j):
    """Does prefix i leave the queue before prefix j?"""
    return pool.priority[i] + TIE * pool.depth[i] > pool.priority[j] + TIE * pool.depth[j]


@kernel
def _push(pool, i):
    at = pool.counts[SIZE]
    pool.heap[at] = i
    pool.counts[SIZE] = at + 1
    while at > 0:
        up = (at - 1) // 2
        if not _before(pool, pool.heap[at], pool.heap[up]):
            break
        pool.heap[at], pool.heap[up] = pool.heap[up], pool.heap[at]
        at = up


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
def _extend(lattice, first, pool, parent, y, new, terms):
    """Write the prefix `parent` + label y (with parent -1: y alone) into place `new`; False when it has no weight."""
    t = pool.depth[parent] + 1 if parent >= 0 else 0
    T = lattice.psi.shape[0]
    k0, k1 = first[y], first[y + 1]
    e = t if lattice.E.shape[0] > 1 else 0
    pool.parent[new], pool.depth[new], pool.label[new] = parent, t, y
    scale = 0.0
    h0, h1 = 0, 0
    if parent >= 0:
        h0, h1 = first[pool.label[parent]], first[pool.label[parent] + 1]
        scale = pool.scale[parent]
    if lattice.logs:
        for k in range(k0, k1):
            v = lattice.psi[t, k]
            if parent >= 0:
                for h in range(h0, h1):
                    terms[h - h0] = pool.vector[parent, h - h0] + lattice.E[e, h, k]
                v += _log_sum(terms, h1 - h0)
            pool.vector[new, k - k0] = v
        for k in range(k0, k1):
            terms[k - k0] = pool.vector[new, k - k0] + lattice.beta[t, k]
        pool.scale[new] = 0.0
        pool.priority[new] = _log_sum(terms, k1 - k0)
        return pool.priority[new] > -np.inf
    most = 0.0
    for k in range(k0, k1):
        v = 1.0
        if parent >= 0:
            v = 0.0
            for h in range(h0, h1):
                v += pool.vector[parent, h - h0] * lattice.E[e, h, k]
        v *= lattice.psi[t, k]
        pool.vector[new, k - k0] = v
        most = max(most, v)
    if not most > 0:
        return False
    bound = 0.0
    for k in range(k0, k1):
        pool.vector[new, k - k0] /= most
        bound += pool.vector[new, k - k0] * (lattice.beta[t, k] if t < T - 1 else 1.0)
    if not bound > 0:
        return False
    scale += np.log(most) + lattice.top[t] + (lattice.arc_top[e] if t > 0 else 0.0)
    pool.scale[new] = scale
    pool.priority[new] = np.log(bound) + scale + lattice.log_beta[t]
    return True


@kernel
def _consider(lattice, first, pool, parent, n, terms, bar):
    """Push every label after `parent` that can still be among the n best; bar holds the n best whole weights."""
    T = lattice.psi.shape[0]
    for y in range(first.shape[0] - 1):
        new = pool.counts[MADE]
        if not _extend(lattice, first, pool, parent, y, new, terms):
            continue
        if pool.priority[new] < bar[n - 1] - TIE:
            continue
        if pool.depth[new] == T - 1:  # whole: it may raise the bar
            w = pool.priority[new]
            i = n - 1
            if w > bar[i]:
                while i > 0 and bar[i - 1] < w:
                    bar[i] = bar[i - 1]
                    i -= 1
                bar[i] = w
            if pool.counts[WHOLE] < 0 or w > pool.priority[pool.counts[WHOLE]]:
                pool.counts[WHOLE] = new
        pool.counts[MADE] = new + 1
        _push(pool, new)


@kernel
def search(lattice, first, pool, found, n, budget, bar):
    """Go on until the n best labellings have left the queue (DONE), `budget` prefixes were expanded (LIMIT), or the
    pool is FULL and must grow.  found [n] gets the places of whole labellings, in order."""
    L = first.shape[0] - 1
    T = lattice.psi.shape[0]
    terms = np.empty(lattice.psi.shape[1])
    if pool.counts[MADE] == 0:
        _consider(lattice, first, pool, -1, n, terms, bar)
    while pool.counts[SIZE] > 0:
        i = pool.heap[0]
        if pool.depth[i] == T - 1:
            found[pool.counts[FOUND]] = _pop(pool)
            pool.counts[FOUND] += 1
            if pool.counts[FOUND] == n:
                return DONE
            continue
        if pool.counts[EXPANDED] >= budget:
            return LIMIT
        if pool.counts[MADE] + L > pool.heap.shape[0]:
            return FULL
        pool.counts[EXPANDED] += 1
        _consider(lattice, first, pool, _pop(pool), n, terms, bar)
    return DONE


@kernel
def dive(lattice, first, pool, start):
    """Complete the prefix `start` greedily by the bound; returns the place of the whole labelling."""
    T = lattice.psi.shape[0]
    L = first.shape[0] - 1
    terms = np.empty(lattice.psi.shape[1])
    at = start
    while pool.depth[at] < T - 1:
        best = -1
        for y in range(L):
            new = pool.counts[MADE]
            better = _extend(lattice, first, pool, at, y, new, terms)
            if better and (best < 0 or pool.priority[new] > pool.priority[best]):
                best = new
                pool.counts[MADE] = new + 1
        at = best
    return at


@kernel
def trace(pool, place, labels):
    """Fill labels [T] with the labelling that ends in `place`."""
    at = place
    for t in range(labels.shape[0] - 1, -1, -1):
        labels[t] = pool.label[at]
        at = pool.parent[at]
