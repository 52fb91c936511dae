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

import cython
import numpy as np
from cython.cimports.labelwright.kernels.common import log_sum, pop, push
from cython.cimports.labelwright.kernels.graph import blocks_view, contexts_view
from cython.cimports.libc.math import INFINITY, NAN, exp, fabs, log

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


class ArcsView:
    """decode.exact.Arcs."""

    def __init__(self, E, ET, top, least, most):
        self.E = E
        self.ET = ET
        self.top = top
        self.least = least
        self.most = most


class WeightsView:
    """decode.exact.Weights."""

    def __init__(self, psi, top, E, arc_top, beta, log_beta, logs):
        self.psi = psi
        self.top = top
        self.E = E
        self.arc_top = arc_top
        self.beta = beta
        self.log_beta = log_beta
        self.logs = logs


class PrefixPoolView:
    """decode.exact.PrefixPool."""

    def __init__(self, priority, key, scale, vector, parent, depth, context, heap, counts):
        self.priority = priority
        self.key = key
        self.scale = scale
        self.vector = vector
        self.parent = parent
        self.depth = depth
        self.context = context
        self.heap = heap
        self.counts = counts


class SearchScratch:
    """What bounds and expansions need beside their results, for so many nodes and labels."""

    def __init__(self, n_nodes, n_labels):
        self.nodes = np.empty((5, n_nodes))
        self.labels = np.empty(n_labels)


# -- the bound -------------------------------------------------------------------------------------


def prepare_arcs(scores, blocks, arcs):
    """Fill the exponentials of every token's arcs [T or 1, A]; returns the widest difference
    between finite scores of one token.  With a row per token, the first is not used."""
    view = blocks_view(blocks)
    into = ArcsView(*arcs)
    with cython.nogil:
        widest = _prepare_arcs(scores, 0, scores.shape[0], view, into)
    return widest


def _prepare_arcs(scores, first, n, blocks, arcs):
    """`prepare_arcs` of the n rows from `first` on, which become the first rows of `arcs`."""
    E = arcs.E
    ET = arcs.ET
    least = arcs.least
    most = arcs.most
    widest = 0.0
    for t in range(n):
        high = -INFINITY
        low = INFINITY
        for a in range(scores.shape[1]):
            v = scores[first + t, a]
            high = v if v > high else high
            low = v if -INFINITY < v < low else low
        used = n == 1 or t > 0
        arcs.top[t] = high if used else 0
        if used and high - low > widest:
            widest = high - low
        used = used and high > -INFINITY
        for a in range(scores.shape[1]):
            E[t, a] = exp(scores[first + t, a] - high) if used else 0
        for b in range(blocks.arc_ptr.shape[0] - 1):
            n_sources = blocks.source_ptr[b + 1] - blocks.source_ptr[b]
            s0 = blocks.target[b]
            n_targets = blocks.target[b + 1] - s0
            a = blocks.arc_ptr[b]
            for s in range(n_targets):
                least[t, s0 + s] = 1
                most[t, s0 + s] = 0
            for r in range(n_sources):
                for s in range(n_targets):
                    v = E[t, a + s]
                    least[t, s0 + s] = v if v < least[t, s0 + s] else least[t, s0 + s]
                    most[t, s0 + s] = v if v > most[t, s0 + s] else most[t, s0 + s]
                a += n_targets
            for s in range(n_targets):
                a = blocks.arc_ptr[b]
                for r in range(n_sources):
                    ET[t, a + s * n_sources + r] = E[t, a + r * n_targets + s]
    return widest


def prepare(node, arcs, widest, blocks, cut, psi, top, beta, log_beta):
    """psi, top and the bound of a lattice; False where scores differ too much."""
    view = blocks_view(blocks)
    prepared = ArcsView(*arcs)
    scratch = SearchScratch(node.shape[1], cut.shape[1])
    with cython.nogil:
        safe = _prepare(
            node, 0, node.shape[0], prepared, widest, view, cut, psi, top, beta, log_beta, scratch
        )
    return safe


def _prepare(node, first, T, arcs, widest, blocks, cut, psi, top, beta, log_beta, scratch):
    """`prepare` of the T tokens from `first` on, which become the first rows of the results."""
    for t in range(T):
        high = -INFINITY
        low = INFINITY
        for s in range(node.shape[1]):
            v = node[first + t, s]
            high = v if v > high else high
            low = v if -INFINITY < v < low else low
        if not high - low + 2 * widest < SAFE_RANGE:
            return False
        top[t] = high
        for s in range(node.shape[1]):
            psi[t, s] = exp(node[first + t, s] - high)
    return _bounds(psi, T, top, arcs, blocks, cut, beta, log_beta, scratch)


def _bounds(psi, T, top, arcs, blocks, cut, beta, log_beta, scratch):
    """Fill beta [T, Q] (scaled) and log_beta [T] (log of the scale); False where a number
    underflowed.

    psi [T, Q] = exp(node - top), and arcs as prepare_arcs leaves them, each block transposed: the
    loops run over its sources h.  Most labels are passed over: they could not be the best ones even
    if the arc into each of their nodes were the largest, and those of another label the smallest.
    That leaves 2 or 3 labels of 9 to 20."""
    width = psi.shape[1]
    n_labels = cut.shape[1] - 1
    by_token = arcs.ET.shape[0] > 1
    ET = arcs.ET
    least = arcs.least
    most = arcs.most
    best = scratch.nodes[0]
    label_sum = scratch.nodes[1]
    into = scratch.nodes[2]
    low = scratch.nodes[3]
    high = scratch.nodes[4]
    high_of = scratch.labels
    for h in range(width):
        beta[T - 1, h] = 1
    log_beta[T - 1] = 0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        for k in range(width):
            v = psi[t, k] * beta[t, k]
            into[k] = v
            low[k] = v * least[e, k]
            high[k] = v * most[e, k]
        top_beta = 0.0
        for b in range(blocks.arc_ptr.shape[0] - 1):
            i0 = blocks.source_ptr[b]
            n = blocks.source_ptr[b + 1] - i0
            floor = 0.0
            for y in range(n_labels):
                lows = 0.0
                highs = 0.0
                for k in range(cut[b, y], cut[b, y + 1]):
                    lows += low[k]
                    highs += high[k]
                floor = lows if lows > floor else floor
                high_of[y] = highs
            for h in range(n):
                best[h] = 0
            for y in range(n_labels):
                if high_of[y] < floor:
                    continue
                first = cut[b, y]
                last = cut[b, y + 1] - 1
                a = blocks.arc_ptr[b] + (first - cut[b, 0]) * n
                if last < first:
                    continue
                if last == first:
                    v = into[first]
                    for h in range(n):
                        x = v * ET[e, a + h]
                        best[h] = x if x > best[h] else best[h]
                    continue
                v = into[first]
                for h in range(n):
                    label_sum[h] = v * ET[e, a + h]
                for k in range(first + 1, last):
                    a += n
                    v = into[k]
                    for h in range(n):
                        label_sum[h] += v * ET[e, a + h]
                a += n
                v = into[last]
                for h in range(n):
                    x = label_sum[h] + v * ET[e, a + h]
                    best[h] = x if x > best[h] else best[h]
            for h in range(n):
                beta[t - 1, blocks.source[i0 + h]] = best[h]
                top_beta = best[h] if best[h] > top_beta else top_beta
        if not top_beta > 0:
            return False
        small = False
        one = 1 / top_beta
        for h in range(width):
            v = beta[t - 1, h] * one
            beta[t - 1, h] = v
            small |= (v > 0) & (v < LEAST)
        if small:
            return False
        log_beta[t - 1] = log_beta[t] + log(top_beta) + top[t] + arcs.top[e]
    return True


def log_bounds(node, arc, blocks, cut, beta):
    """The bound in logarithms: beta [T, Q]."""
    view = blocks_view(blocks)
    terms = np.empty(node.shape[1])
    with cython.nogil:
        _log_bounds(node, arc, view, cut, beta, terms)


def _log_bounds(node, arc, blocks, cut, beta, terms):
    T = node.shape[0]
    by_token = arc.shape[0] > 1
    for s in range(node.shape[1]):
        beta[T - 1, s] = 0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        for b in range(blocks.arc_ptr.shape[0] - 1):
            s0 = blocks.target[b]
            a = blocks.arc_ptr[b] - s0
            for i in range(blocks.source_ptr[b], blocks.source_ptr[b + 1]):
                best = -INFINITY
                for y in range(cut.shape[1] - 1):
                    n = 0
                    for k in range(cut[b, y], cut[b, y + 1]):
                        terms[n] = arc[e, a + k] + node[t, k] + beta[t, k]
                        n += 1
                    v = log_sum(terms, n)
                    best = v if v > best else best
                beta[t - 1, blocks.source[i]] = best
                a += blocks.target[b + 1] - s0


# -- the search ------------------------------------------------------------------------------------


def _extend(lattice, contexts, before, vector, i, t, into, bound):
    """The prefixes of one more label, of a prefix with context `before` and weights vector[i] (-1:
    the first labels): into [Q] = the weight of the paths to each node, bound [L] = that of all
    completions, 0 where no label may follow. False where the weights of one prefix differ too much
    for scaled numbers."""
    psi = lattice.psi
    E = lattice.E
    beta = lattice.beta
    nodes = contexts.node
    cut = contexts.cut
    n_labels = contexts.opening.shape[0]
    e = t if E.shape[0] > 1 else 0
    if before >= 0:
        i0 = contexts.ptr[before]
        n = contexts.ptr[before + 1] - i0
        for j in range(n):
            b = contexts.block[nodes[i0 + j]]
            for k in range(cut[b, 0], cut[b, n_labels]):
                into[k] = 0
        for j in range(n):
            q = nodes[i0 + j]
            b = contexts.block[q]
            first = cut[b, 0]
            a = contexts.base[q] + first
            v = vector[i, j]
            for k in range(cut[b, n_labels] - first):
                into[first + k] += v * E[e, a + k]
    for y in range(n_labels):
        bound[y] = 0
        c = contexts.following[before, y] if before >= 0 else contexts.opening[y]
        if c < 0:
            continue
        most = 0.0
        least = INFINITY
        total = 0.0
        for j in range(contexts.ptr[c], contexts.ptr[c + 1]):
            k = nodes[j]
            v = into[k] * psi[t, k] if before >= 0 else psi[t, k]
            into[k] = v
            most = v if v > most else most
            least = v if 0 < v < least else least
            total += v * beta[t, k]
        if least < LEAST * most:
            return False
        bound[y] = total
    return True


def _extend_logs(lattice, contexts, before, vector, i, t, into, bound, terms):
    """`_extend` in logarithms."""
    ptr = contexts.ptr
    nodes = contexts.node
    e = t if lattice.E.shape[0] > 1 else 0
    for y in range(contexts.opening.shape[0]):
        bound[y] = -INFINITY
        c = contexts.following[before, y] if before >= 0 else contexts.opening[y]
        if c < 0:
            continue
        for j in range(ptr[c], ptr[c + 1]):
            k = nodes[j]
            into[k] = lattice.psi[t, k]
            if before >= 0:
                n = 0
                for m in range(ptr[before], ptr[before + 1]):
                    q = nodes[m]
                    b = contexts.block[q]
                    if contexts.cut[b, y] <= k < contexts.cut[b, y + 1]:
                        v = vector[i, m - ptr[before]]
                        terms[n] = v + lattice.E[e, contexts.base[q] + k]
                        n += 1
                into[k] += log_sum(terms, n)
        for j in range(ptr[c], ptr[c + 1]):
            terms[contexts.slot[nodes[j]]] = into[nodes[j]] + lattice.beta[t, nodes[j]]
        bound[y] = log_sum(terms, ptr[c + 1] - ptr[c])


def _consider(lattice, T, contexts, pool, parent, n, bar, into, bound, terms):
    """Push every label after `parent` (-1: every first label) that can still be among the n best;
    bar holds the n best whole weights so far.  False where the weights of one prefix differ too
    much for scaled numbers."""
    counts = pool.counts
    t = 0
    before = -1
    scale = 0.0
    if parent >= 0:
        t = pool.depth[parent] + 1
        before = pool.context[parent]
        scale = pool.scale[parent]
    if lattice.logs:
        _extend_logs(lattice, contexts, before, pool.vector, parent, t, into, bound, terms)
    else:
        if not _extend(lattice, contexts, before, pool.vector, parent, t, into, bound):
            return False
        scale += _scale_of(lattice, t)
    for y in range(bound.shape[0]):
        w = bound[y]
        if not lattice.logs:
            w = log(w) + scale + lattice.log_beta[t] if w > 0 else -INFINITY
        if not w > -INFINITY or w < bar[n - 1] - TIE:
            continue
        new = counts[MADE]
        c = contexts.following[before, y] if parent >= 0 else contexts.opening[y]
        first = contexts.ptr[c]
        size = contexts.ptr[c + 1] - first
        most = 0.0
        for s in range(size):
            v = into[contexts.node[first + s]]
            pool.vector[new, s] = v
            most = v if v > most else most
        pool.scale[new] = scale
        # seldom: most prefixes need no second logarithm
        if not lattice.logs and (most < SMALL or most > 1 / SMALL):
            for s in range(size):
                pool.vector[new, s] /= most
            pool.scale[new] += log(most)
        pool.priority[new] = w
        pool.parent[new] = parent
        pool.depth[new] = t
        pool.context[new] = c
        digits = DIGITS * fabs(w)
        pool.key[new] = w + (digits if digits > TIE else TIE) * t
        if t == T - 1:  # whole: it may raise the bar
            _raise(bar, n, w)
            if counts[WHOLE] < 0 or w > pool.priority[counts[WHOLE]]:
                counts[WHOLE] = new
        counts[MADE] = new + 1
        push(pool.key, pool.depth, pool.heap, counts[SIZE], new)
        counts[SIZE] += 1
    return True


def _scale_of(lattice, t):
    """log of what the scaled numbers of a token were divided by."""
    if t == 0:
        return lattice.top[t]
    return lattice.top[t] + lattice.arc_top[t if lattice.E.shape[0] > 1 else 0]


def _raise(bar, n, w):
    """Put w among the n largest numbers, if it is one."""
    i = n - 1
    if w > bar[i]:
        while i > 0 and bar[i - 1] < w:
            bar[i] = bar[i - 1]
            i -= 1
        bar[i] = w


def search(lattice, contexts, pool, places, n, budget, greedy, bar):
    """Search until the n best labellings have left the queue (DONE), `budget` prefixes were
    expanded (LIMIT), the pool is FULL and must grow, or weights are LOST without logarithms.
    places [n] gets the prefixes that are whole labellings, in order.

    A `greedy` search forgets the rest of the queue with each expansion: it descends to one whole
    labelling."""
    weights = WeightsView(*lattice)
    view = PrefixPoolView(*pool)
    followed = contexts_view(contexts)
    scratch = SearchScratch(weights.psi.shape[1], followed.opening.shape[0])
    with cython.nogil:
        status = _search(
            weights, weights.psi.shape[0], followed, view, view.heap.shape[0], places, n, budget,
            greedy, bar, scratch,
        )  # fmt: skip
    return status


def _search(lattice, T, contexts, pool, most, places, n, budget, greedy, bar, scratch):
    """`search` of T tokens with up to `most` prefixes."""
    n_labels = contexts.opening.shape[0]
    counts = pool.counts
    into = scratch.nodes[0]
    terms = scratch.nodes[1]
    bound = scratch.labels
    if counts[MADE] == 0 and not _consider(
        lattice, T, contexts, pool, -1, n, bar, into, bound, terms
    ):
        return LOST
    while counts[SIZE] > 0:
        i = pool.heap[0]
        if pool.depth[i] < T - 1:
            if counts[EXPANDED] >= budget:
                return LIMIT
            if counts[MADE] + n_labels > most:
                return FULL
            counts[EXPANDED] += 1
        pop(pool.key, pool.depth, pool.heap, counts[SIZE])
        counts[SIZE] = 0 if greedy else counts[SIZE] - 1
        if pool.depth[i] < T - 1:
            if not _consider(lattice, T, contexts, pool, i, n, bar, into, bound, terms):
                return LOST
            continue
        places[counts[LABELLINGS]] = i
        counts[LABELLINGS] += 1
        if counts[LABELLINGS] == n:
            return DONE
    return DONE


def trace(pool, contexts, place, labels):
    """Fill labels [T] with the labelling that ends in `place`."""
    view = PrefixPoolView(*pool)
    _trace(view, contexts_view(contexts), place, labels, 0, labels.shape[0])


def _trace(pool, contexts, place, labels, first, T):
    at = place
    for t in range(T - 1, -1, -1):
        labels[first + t] = contexts.label[pool.context[at]]
        at = pool.parent[at]


# -- the common case: no search, or a short one ----------------------------------------------------


def _descend(lattice, contexts, vector, labels, first, T, scratch):
    """Take the label with the best bound at each token: labels [T], its weight, and the best bound
    of those left aside, as logarithms; NaN where scaled numbers are not enough."""
    into = scratch.nodes[0]
    bound = scratch.labels
    before = -1
    scale = 0.0
    aside = -INFINITY
    weight = NAN
    for t in range(T):
        if not _extend(lattice, contexts, before, vector, 0, t, into, bound):
            return NAN, aside
        best = 0
        second = 0.0
        for y in range(1, bound.shape[0]):
            if bound[y] > bound[best]:
                second = bound[best]
                best = y
            elif bound[y] > second:
                second = bound[y]
        if not bound[best] > 0:
            return NAN, aside
        scale += _scale_of(lattice, t)
        if second > 0:
            v = log(second) + scale + lattice.log_beta[t]
            aside = v if v > aside else aside
        weight = log(bound[best]) + scale
        labels[first + t] = best
        before = contexts.following[before, best] if before >= 0 else contexts.opening[best]
        i0 = contexts.ptr[before]
        n = contexts.ptr[before + 1] - i0
        most = 0.0
        for j in range(n):
            v = into[contexts.node[i0 + j]]
            most = v if v > most else most
        one = 1 / most
        for j in range(n):
            vector[0, j] = into[contexts.node[i0 + j]] * one
        scale += log(most)
    return weight, aside


def _solve_one(lattice, T, contexts, pool, places, bar, labels, first, scratch, out, n):
    """A descent of one sentence, which most often is proven to be the best labelling, or else a
    search; out[n, 0] stays NaN where that needs logarithms or is long."""
    counts = pool.counts
    weight, aside = _descend(lattice, contexts, pool.vector, labels, first, T, scratch)
    if aside <= weight + TIE:
        out[n, 0] = weight
        out[n, 1] = T - 1
    if not aside > weight + TIE:  # proven, or lost
        return
    most = max(512, 4 * (T + 8) * contexts.opening.shape[0])
    counts[:] = 0
    counts[WHOLE] = -1
    bar[0] = weight - NEAR * (fabs(weight) if fabs(weight) > 1 else 1)
    status = _search(lattice, T, contexts, pool, most, places, 1, most, False, bar, scratch)
    if status != DONE or counts[LABELLINGS] == 0:
        return
    _trace(pool, contexts, places[0], labels, first, T)
    out[n, 0] = pool.priority[places[0]]
    out[n, 1] = counts[EXPANDED]


def _longest(offsets):
    """The length of the longest sentence."""
    longest = 0
    for n in range(offsets.shape[0] - 1):
        if offsets[n + 1] - offsets[n] > longest:
            longest = offsets[n + 1] - offsets[n]
    return longest


def _empty_pool(T, contexts):
    """A pool for a short search of T tokens."""
    width = 0
    for c in range(contexts.label.shape[0]):
        if contexts.ptr[c + 1] - contexts.ptr[c] > width:
            width = contexts.ptr[c + 1] - contexts.ptr[c]
    size = max(512, 4 * (T + 8) * contexts.opening.shape[0])
    numbers = np.empty((3, size))
    places = np.empty((4, size), np.int32)
    vector = np.empty((size, width))
    return PrefixPoolView(*numbers, vector, *places, np.empty(5, np.int64))


def solve(node, arcs, widest, blocks, contexts, offsets, labels, out):
    """The most probable labellings of all sentences of a batch: labels [T] and out [N] = (log
    weight, expansions), NaN where a sentence needs logarithms, or a search that is longer than
    usual."""
    view = blocks_view(blocks)
    followed = contexts_view(contexts)
    prepared = ArcsView(*arcs)
    T = _longest(offsets)
    tables = np.empty((2, T, node.shape[1]))
    tokens = np.empty((2, T))
    psi = tables[0]
    beta = tables[1]
    top = tokens[0]
    log_beta = tokens[1]
    lattice = WeightsView(psi, top, arcs.E, arcs.top, beta, log_beta, False)
    scratch = SearchScratch(node.shape[1], followed.opening.shape[0])
    pool = _empty_pool(T, followed)
    places = np.empty(1, np.int64)
    bar = np.empty(1)
    with cython.nogil:
        for n in range(offsets.shape[0] - 1):
            a = offsets[n]
            T = offsets[n + 1] - a
            out[n, 0] = NAN
            out[n, 1] = NAN
            if T > 0 and _prepare(
                node, a, T, prepared, widest, view, followed.cut, psi, top, beta, log_beta,
                scratch,
            ):  # fmt: skip
                _solve_one(lattice, T, followed, pool, places, bar, labels, a, scratch, out, n)


def solve_by_token(node, arc, blocks, contexts, offsets, labels, out):
    """`solve` for arcs with a row of scores for every token."""
    view = blocks_view(blocks)
    followed = contexts_view(contexts)
    T = _longest(offsets)
    tables = np.empty((4, T, node.shape[1]))
    tokens = np.empty((3, T))
    E, ET = np.empty((2, T, arc.shape[1]))
    psi = tables[0]
    beta = tables[1]
    top = tokens[0]
    log_beta = tokens[1]
    prepared = ArcsView(E, ET, tokens[2], tables[2], tables[3])
    lattice = WeightsView(psi, top, E, tokens[2], beta, log_beta, False)
    scratch = SearchScratch(node.shape[1], followed.opening.shape[0])
    pool = _empty_pool(T, followed)
    places = np.empty(1, np.int64)
    bar = np.empty(1)
    with cython.nogil:
        for n in range(offsets.shape[0] - 1):
            a = offsets[n]
            T = offsets[n + 1] - a
            out[n, 0] = NAN
            out[n, 1] = NAN
            if T == 0:
                continue
            widest = _prepare_arcs(arc, a, T, view, prepared)
            if _prepare(
                node, a, T, prepared, widest, view, followed.cut, psi, top, beta, log_beta,
                scratch,
            ):  # fmt: skip
                _solve_one(lattice, T, followed, pool, places, bar, labels, a, scratch, out, n)
