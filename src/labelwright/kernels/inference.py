"""Questions about one lattice, in float64: the best path, sums over all paths, sums through spans.

node [T, Q] and arc [T or 1, A] are scores; minus infinity forbids; arc[t] leads into token t.
`blocks` (structures.states.Blocks) says which nodes an arc joins: block b has an arc from each of
its sources to each of its targets.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.chain import (
    _exponentiate64,
    exponentiate_arcs,
    sentence_messages,
)
from cython.cimports.labelwright.kernels.common import (
    largest_message,
    smallest_scale,
    softmax,
    subtract_largest,
)
from cython.cimports.labelwright.kernels.graph import blocks_view
from cython.cimports.libc.math import INFINITY, NAN, exp, fabs, isnan, log

ORDINARY = 1e6  # logarithms below it leave ten digits behind the point


class LatticeScratch:
    """What `messages` and `posterior_arcs` need beside their results, for lattices of up to so many
    tokens, nodes, rows of arcs, and arcs."""

    def __init__(self, n_tokens, n_nodes, n_rows, n_arcs):
        self.tables = np.empty((4, n_tokens, n_nodes))
        self.tokens = np.empty((4, n_tokens))
        self.nodes = np.empty((3, n_nodes))
        self.arcs = np.empty((n_rows, n_arcs))
        self.steps = np.arange(n_tokens)


# -- best paths ------------------------------------------------------------------------------------


def viterbi(node, arc, blocks, path):
    """Fill path [T] with the best nodes and return its score.

    delta_t(s) = node_t(s) + max_r delta_{t-1}(r) + arc_t(r, s); the lowest r wins a tie."""
    view = blocks_view(blocks)
    delta = np.empty((node.shape[0], node.shape[1]))
    score = 0.0
    with cython.nogil:
        if node.shape[0] > 0:
            score = _viterbi(node, arc, 0, node.shape[0], view, delta, path)
    return score


def best_paths(node, arc, blocks, offsets, path, scores):
    """`viterbi` of the sentences offsets[n]:offsets[n+1]: fill path [T] and scores [N]."""
    view = blocks_view(blocks)
    longest = 0
    for n in range(offsets.shape[0] - 1):
        if offsets[n + 1] - offsets[n] > longest:
            longest = offsets[n + 1] - offsets[n]
    delta = np.empty((longest, node.shape[1]))
    with cython.nogil:
        for n in range(offsets.shape[0] - 1):
            a = offsets[n]
            b = offsets[n + 1]
            scores[n] = 0
            if b > a:
                scores[n] = _viterbi(node, arc, a, b - a, view, delta, path)


def prefix_scores(node, arc, blocks, delta):
    """delta [T, Q]: the best score of a path up to each node."""
    view = blocks_view(blocks)
    with cython.nogil:
        _prefix_scores(node, arc, 0, node.shape[0], view, delta)


def _viterbi(node, arc, first, T, blocks, delta, path):
    """`viterbi` of the T tokens from `first` on; delta is scratch.

    Maxima alone are all that the way forward needs: the way back finds where they came from, by
    the same sums."""
    by_token = arc.shape[0] > 1
    _prefix_scores(node, arc, first, T, blocks, delta)
    at = 0
    for s in range(1, delta.shape[1]):
        if delta[T - 1, s] > delta[T - 1, at]:
            at = s
    score = delta[T - 1, at]
    path[first + T - 1] = at
    for t in range(T - 1, 0, -1):
        at = _best_source(delta, t - 1, arc, first + t if by_token else 0, blocks, at)
        path[first + t - 1] = at
    return score


def _best_source(delta, t, arc, e, blocks, s):
    """The first node from which node s is reached with the best score; 0 where there is none."""
    n_blocks = blocks.arc_ptr.shape[0] - 1
    block = 0
    while block < n_blocks and not blocks.target[block] <= s < blocks.target[block + 1]:
        block += 1
    if block == n_blocks:
        return 0
    width = blocks.target[block + 1] - blocks.target[block]
    a = blocks.arc_ptr[block] + s - blocks.target[block]
    best = -INFINITY
    chosen = 0
    for k in range(blocks.source_ptr[block], blocks.source_ptr[block + 1]):
        r = blocks.source[k]
        v = delta[t, r] + arc[e, a]
        if v > best:
            best = v
            chosen = r
        a += width
    return chosen


def _prefix_scores(node, arc, first, T, blocks, delta):
    """`prefix_scores` of the T tokens from `first` on, four sources r of a block at a time."""
    width = node.shape[1]
    by_token = arc.shape[0] > 1
    for s in range(width):
        delta[0, s] = node[first, s]
    for t in range(1, T):
        for s in range(width):
            delta[t, s] = -INFINITY
        e = first + t if by_token else 0
        for block in range(blocks.arc_ptr.shape[0] - 1):
            s0 = blocks.target[block]
            n = blocks.target[block + 1] - s0
            a = blocks.arc_ptr[block]
            k = blocks.source_ptr[block]
            last = blocks.source_ptr[block + 1]
            while k + 3 < last:
                p = delta[t - 1, blocks.source[k]]
                q = delta[t - 1, blocks.source[k + 1]]
                u = delta[t - 1, blocks.source[k + 2]]
                v = delta[t - 1, blocks.source[k + 3]]
                b = a + n
                c = b + n
                d = c + n
                for s in range(n):
                    x = p + arc[e, a + s]
                    y = q + arc[e, b + s]
                    x = y if y > x else x
                    y = u + arc[e, c + s]
                    z = v + arc[e, d + s]
                    y = z if z > y else y
                    x = y if y > x else x
                    delta[t, s0 + s] = x if x > delta[t, s0 + s] else delta[t, s0 + s]
                k += 4
                a = d + n
            while k < last:
                p = delta[t - 1, blocks.source[k]]
                for s in range(n):
                    x = p + arc[e, a + s]
                    delta[t, s0 + s] = x if x > delta[t, s0 + s] else delta[t, s0 + s]
                k += 1
                a += n
        for s in range(width):
            delta[t, s] += node[first + t, s]


def margins(node, arc, blocks, label_of_node, gold):
    """The scores of the best and of the worst path of the gold labels, and of the best path of any
    other labels.

    A path of other labels has left the gold ones at some token: best prefixes that have and that
    have not are kept."""
    view = blocks_view(blocks)
    scratch = np.empty((3, 2, node.shape[1]))
    best = scratch[0]
    worst = scratch[1]
    other = scratch[2]
    with cython.nogil:
        last = _margins(node, arc, view, label_of_node, gold, best, worst, other)
        highest = -INFINITY
        lowest = INFINITY
        aside = -INFINITY
        for s in range(node.shape[1]):
            highest = best[last, s] if best[last, s] > highest else highest
            lowest = worst[last, s] if worst[last, s] < lowest else lowest
            aside = other[last, s] if other[last, s] > aside else aside
    return highest, lowest, aside


def _margins(node, arc, blocks, label_of_node, gold, best, worst, other):
    """Fill rows of best, worst and other [2, Q] in turns; returns the number of the last one."""
    width = node.shape[1]
    by_token = arc.shape[0] > 1
    rows = blocks.rows
    for q in range(width):
        best[0, q] = -INFINITY
        worst[0, q] = INFINITY
        other[0, q] = -INFINITY
        if node[0, q] > -INFINITY and label_of_node[q] == gold[0]:
            best[0, q] = node[0, q]
            worst[0, q] = node[0, q]
        else:
            other[0, q] = node[0, q]
    for t in range(1, node.shape[0]):
        e = t if by_token else 0
        now = t % 2
        before = 1 - now
        for s in range(width):
            best[now, s] = -INFINITY
            worst[now, s] = INFINITY
            other[now, s] = -INFINITY
        for i in range(rows.shape[0]):
            r = rows[i, 0]
            s0 = rows[i, 1]
            a = rows[i, 3]
            for s in range(s0, rows[i, 2]):
                v = arc[e, a + s - s0] + node[t, s]
                if v == -INFINITY:
                    continue
                x = other[before, r] + v
                other[now, s] = x if x > other[now, s] else other[now, s]
                x = best[before, r] + v
                if label_of_node[s] == gold[t]:
                    best[now, s] = x if x > best[now, s] else best[now, s]
                    x = worst[before, r] + v
                    worst[now, s] = x if x < worst[now, s] else worst[now, s]
                else:
                    other[now, s] = x if x > other[now, s] else other[now, s]
    return (node.shape[0] - 1) % 2


# -- sums over all paths ---------------------------------------------------------------------------


def messages(node, arc, blocks, nodes, ahead):
    """Fill nodes [T, Q] with P(s at t) and ahead [T, Q] with the log of what s at t and all that
    may follow weigh, less a constant of the token; returns log Z.

    ahead_t(s) = node_t(s) + log beta_t(s) - constant_t, where beta_{t-1}(r) = sum_s exp(arc_t(r, s)
    + ahead_t(s)), so that P(s at t | r at t-1) is the softmax of arc_t(r, s) + ahead_t(s) over s.
    Without the constants, large scores would leave no digits for the differences that count. In
    scaled probability space; where that under- or overflows, in log space.  Without any path, nodes
    are 0."""
    view = blocks_view(blocks)
    scratch = LatticeScratch(node.shape[0], node.shape[1], arc.shape[0], arc.shape[1])
    with cython.nogil:
        log_z = _messages(node, arc, view, nodes, ahead, scratch)
    return log_z


def _messages(node, arc, blocks, nodes, ahead, scratch):
    log_z = _scaled_messages(node, arc, blocks, nodes, ahead, scratch)
    if isnan(log_z):
        log_z = _log_messages(node, arc, blocks, ahead, scratch)
        log_z += _forward(arc, blocks, nodes, ahead, scratch)
    return log_z


def _multiply(alpha, beta, t, nodes):
    """nodes[t] = P(s at t) from the messages of a token."""
    total = 0.0
    for s in range(nodes.shape[1]):
        nodes[t, s] = alpha[t, s] * beta[t, s]
        total += nodes[t, s]
    one = 1 / total
    for s in range(nodes.shape[1]):
        nodes[t, s] *= one


def _scaled_messages(node, arc, blocks, nodes, ahead, scratch):
    """As `messages`, in scaled probability space; NaN where numbers are too small or too large to
    trust."""
    T = node.shape[0]
    n_rows = arc.shape[0]
    by_token = n_rows > 1
    psi = scratch.tables[0, :T]
    alpha = scratch.tables[1, :T]
    beta = scratch.tables[2, :T]
    into = scratch.tables[3, :T]
    top = scratch.tokens[0, :T]
    scale = scratch.tokens[1, :T]
    sums = scratch.tokens[2, :T]
    arc_top = scratch.tokens[3, :n_rows]
    E = scratch.arcs[:n_rows]
    psi[:, :] = node
    _exponentiate64(psi, top, node.shape[1])
    exponentiate_arcs(arc, E, arc_top)
    sentence_messages(psi, E, blocks, scratch.steps, 0, T, alpha, beta, into, scale, sums, False)
    small = smallest_scale(8)
    large = largest_message(8)
    log_z = 0.0
    for t in range(T - 1, -1, -1):
        if not (scale[t] > small and sums[t] / scale[t] < large):
            return NAN
        _multiply(alpha, beta, t, nodes)
        for s in range(node.shape[1]):
            if beta[t, s] > 0:
                ahead[t, s] = node[t, s] - top[t] + log(beta[t, s])
            else:
                ahead[t, s] = -INFINITY
        log_z += log(scale[t]) + top[t]
        if t > 0:
            log_z += arc_top[t if by_token else 0]
    return log_z


def _onward(arc, e, a, ahead, t, first, n, p):
    """p[i] = P(node first + i at t | r at t-1), where arc[e, a:] has the scores of the arcs from r
    to the n nodes from `first` on; returns the largest of these, and log of the sum of what they
    weigh against it."""
    top = -INFINITY
    for i in range(n):
        top = arc[e, a + i] if arc[e, a + i] > top else top
    if top == -INFINITY:
        top = 0
    for i in range(n):
        p[i] = arc[e, a + i] - top + ahead[t, first + i]
    return top, softmax(p, n)


def _log_messages(node, arc, blocks, ahead, scratch):
    """Fill `ahead` in log space; returns the sum of all that was subtracted."""
    T = node.shape[0]
    width = node.shape[1]
    by_token = arc.shape[0] > 1
    rows = blocks.rows
    p = scratch.nodes[0]
    log_beta = scratch.nodes[1]
    tops = scratch.nodes[2]
    ahead[:, :] = node
    log_z = 0.0
    for t in range(T - 1, -1, -1):
        row = ahead[t]
        log_z += subtract_largest(row, 0, width)
        if t < T - 1:
            e = t + 1 if by_token else 0
            for r in range(width):
                tops[r] = -INFINITY
                log_beta[r] = -INFINITY
            for i in range(rows.shape[0]):
                r = rows[i, 0]
                if row[r] > -INFINITY:
                    tops[r], log_beta[r] = _onward(
                        arc, e, rows[i, 3], ahead, t + 1, rows[i, 1], rows[i, 2] - rows[i, 1], p
                    )
            log_z += subtract_largest(tops, 0, width)
            for r in range(width):
                log_beta[r] += tops[r]
            log_z += subtract_largest(log_beta, 0, width)
            for r in range(width):
                row[r] += log_beta[r]
    return log_z


def _forward(arc, blocks, nodes, ahead, scratch):
    """Fill `nodes` from `ahead` in log space; returns log of the sum of what the first nodes
    weigh."""
    T = nodes.shape[0]
    width = nodes.shape[1]
    by_token = arc.shape[0] > 1
    rows = blocks.rows
    p = scratch.nodes[0]
    nodes[:, :] = 0
    nodes[0, :] = ahead[0, :]
    log_total = softmax(nodes[0], width)
    for t in range(1, T):
        e = t if by_token else 0
        for i in range(rows.shape[0]):
            w = nodes[t - 1, rows[i, 0]]
            s0 = rows[i, 1]
            n = rows[i, 2] - s0
            if w > 0:
                _onward(arc, e, rows[i, 3], ahead, t, s0, n, p)
                for s in range(n):
                    nodes[t, s0 + s] += w * p[s]
    return log_total


def posterior_arcs(arc, blocks, nodes, ahead, arcs):
    """arcs [T, A] = P(r, s at t-1, t), from messages; one row [1, A] gets the sum over all tokens.

    One exponential for each node and each row of arcs; the products of those that underflow are
    made in log space."""
    view = blocks_view(blocks)
    scratch = LatticeScratch(1, nodes.shape[1], 1, arc.shape[1])
    with cython.nogil:
        _posterior_arcs(arc, view, nodes, ahead, arcs, scratch)


def _posterior_arcs(arc, blocks, nodes, ahead, arcs, scratch):
    width = nodes.shape[1]
    by_token = arc.shape[0] > 1
    rows = blocks.rows
    small = smallest_scale(8)
    p = scratch.nodes[0]
    psi = scratch.nodes[1]
    E = scratch.arcs[0]
    arcs[:, :] = 0
    for t in range(1, nodes.shape[0]):
        e = t if by_token else 0
        into = t if arcs.shape[0] > 1 else 0
        if by_token or t == 1:
            _exponentials(arc, e, arc.shape[1], E)
        _exponentials(ahead, t, width, psi)
        for i in range(rows.shape[0]):
            w = nodes[t - 1, rows[i, 0]]
            if w > 0:
                s0 = rows[i, 1]
                n = rows[i, 2] - s0
                a = rows[i, 3]
                w0 = w1 = w2 = w3 = 0.0  # four sums do not wait for each other
                k = 0
                while k + 3 < n:
                    for j in range(4):
                        p[k + j] = E[a + k + j] * psi[s0 + k + j]
                    w0 += p[k]
                    w1 += p[k + 1]
                    w2 += p[k + 2]
                    w3 += p[k + 3]
                    k += 4
                while k < n:
                    p[k] = E[a + k] * psi[s0 + k]
                    w0 += p[k]
                    k += 1
                total = (w0 + w1) + (w2 + w3)
                if not total > small:
                    _onward(arc, e, a, ahead, t, s0, n, p)
                    total = 1
                w /= total
                for k in range(n):
                    arcs[into, a + k] += w * p[k]


def _exponentials(x, t, n, out):
    """out[i] = exp(x[t, i]) over the largest of the n; 0 where all are minus infinity."""
    top = -INFINITY
    for i in range(n):
        top = x[t, i] if x[t, i] > top else top
    for i in range(n):
        out[i] = exp(x[t, i] - top) if top > -INFINITY else 0


# -- sums through spans ----------------------------------------------------------------------------


def span_probabilities(
    node, arc, blocks, state, nodes, ahead, spans, opening, inside, closing, probability
):
    """The probability of each span [K, 3]: begin, end, and which of the tables of types it goes by.

    opening [C, S+1, S], inside [C, S, S] and closing [C, S, S+1] say which transitions between
    states open, continue and close a span of each type; the last row or column stands for the
    outside of the sentence.  state [Q] is the state of each node."""
    view = blocks_view(blocks)
    scratch = np.empty((3, nodes.shape[1]))
    v = scratch[0]
    w = scratch[1]
    p = scratch[2]
    with cython.nogil:
        for k in range(spans.shape[0]):
            c = spans[k, 2]
            begin = spans[k, 0]
            end = spans[k, 1]
            one = _span_probability(
                node, arc, view, state, nodes, ahead, begin, end,
                opening[c], inside[c], closing[c], v, w, p,
            )  # fmt: skip
            probability[k] = one if one < 1 else 1


def _log_ratio(arc, e, blocks, ahead, t, node, nodes, p):
    """log beta_{t-1}(r) - (ahead_{t-1}(r) - node_{t-1}(r)), a constant of all r, from the most
    probable r."""
    rows = blocks.rows
    best = -1
    most = 0.0
    for i in range(rows.shape[0]):
        if nodes[t - 1, rows[i, 0]] > most:
            best = i
            most = nodes[t - 1, rows[i, 0]]
    if best < 0:
        return NAN
    r = rows[best, 0]
    s0 = rows[best, 1]
    top, log_total = _onward(arc, e, rows[best, 3], ahead, t, s0, rows[best, 2] - s0, p)
    return top + log_total - (ahead[t - 1, r] - node[t - 1, r])


def _span_probability(
    node, arc, blocks, state, nodes, ahead, begin, end, opening, inside, closing, v, w, p
):
    """P(a span covers exactly begin..end); v, w and p [Q] are scratch.

    P(s | r) = exp(arc(r, s) + ahead(s) - log beta(r)) for the transitions that count alone; where
    numbers are so large that this leaves few digits, as in `messages`."""
    T = nodes.shape[0]
    width = nodes.shape[1]
    outside = inside.shape[0]
    by_token = arc.shape[0] > 1
    for s in range(width):
        v[s] = nodes[0, s] if begin == 0 and opening[outside, state[s]] else 0
    for t in range(max(begin, 1), min(end + 1, T)):
        e = t if by_token else 0
        if t == begin:
            v[:] = nodes[t - 1, :]
        for s in range(width):
            w[s] = 0
        ratio = _log_ratio(arc, e, blocks, ahead, t, node, nodes, p)
        if t == begin:
            _spread(node, arc, e, blocks, state, ahead, t, ratio, opening, v, w, p)
        elif t < end:
            _spread(node, arc, e, blocks, state, ahead, t, ratio, inside, v, w, p)
        else:
            _spread(node, arc, e, blocks, state, ahead, t, ratio, closing, v, w, p)
        v[:] = w
    total = 0.0
    for s in range(width):
        if end < T or closing[state[s], outside]:
            total += v[s]
    return total


def _spread(node, arc, e, blocks, state, ahead, t, ratio, allowed, v, w, p):
    """w[s] += v[r] P(s at t | r at t-1) over the allowed transitions."""
    rows = blocks.rows
    for i in range(rows.shape[0]):
        r = rows[i, 0]
        s0 = rows[i, 1]
        n = rows[i, 2] - s0
        a = rows[i, 3]
        weight = v[r]
        if not weight > 0:
            continue
        log_beta = ahead[t - 1, r] - node[t - 1, r] + ratio
        if (
            fabs(node[t - 1, r]) < ORDINARY
            and fabs(ahead[t - 1, r]) < ORDINARY
            and fabs(log_beta) < ORDINARY
        ):
            for s in range(n):
                if allowed[state[r], state[s0 + s]]:
                    w[s0 + s] += weight * exp(arc[e, a + s] + ahead[t, s0 + s] - log_beta)
        else:
            _onward(arc, e, a, ahead, t, s0, n, p)
            for s in range(n):
                if allowed[state[r], state[s0 + s]]:
                    w[s0 + s] += weight * p[s]
