"""Questions about one lattice, in float64: the best path, sums over all paths, sums through spans.

node [T, Q] and arc [T or 1, A] are scores; minus infinity forbids; arc[t] leads into token t.
`blocks` (graph.Blocks) says which nodes an arc joins: block b has an arc from each of its sources
to each of its targets.
"""

import numpy as np

from labelwright.kernels import kernel, literal_kernel, unsigned
from labelwright.kernels.chain import exponentiate64, exponentiate_arcs, sentence_messages
from labelwright.kernels.common import largest, softmax, subtract_largest, trusted_range

ORDINARY = 1e6  # logarithms below it leave ten digits behind the point


@kernel
def viterbi(node, arc, blocks, path):
    """Fill path [T] with the best nodes and return its score.

    delta_t(s) = node_t(s) + max_r delta_{t-1}(r) + arc_t(r, s); the lowest r wins a tie."""
    T, Q = node.shape
    by_token, rows = arc.shape[0] > 1, blocks.rows
    back = np.empty((T, Q), np.int64)
    delta = node[0].copy()
    best = np.empty(Q)
    for t in range(1, T):
        e = t if by_token else 0
        for s in range(Q):
            best[s] = -np.inf
            back[t, s] = 0
        for i in range(rows.shape[0]):
            r, s0, a = rows[i, 0], unsigned(rows[i, 1]), unsigned(rows[i, 3])
            d = delta[r]
            for s in range(unsigned(rows[i, 2]) - s0):
                v = d + arc[e, a + s]
                better = v > best[s0 + s]
                best[s0 + s] = v if better else best[s0 + s]
                back[t, s0 + s] = r if better else back[t, s0 + s]
        for s in range(Q):
            delta[s] = best[s] + node[t, s]
    at = np.argmax(delta)
    score = delta[at]
    for t in range(T - 1, -1, -1):
        path[t] = at
        at = back[t, at]
    return score


@kernel
def best_paths(node, arc, blocks, offsets, path, scores):
    """`viterbi` of the sentences offsets[n]:offsets[n+1]: fill path [T] and scores [N]."""
    for n in range(offsets.shape[0] - 1):
        a, b = offsets[n], offsets[n + 1]
        scores[n] = 0.0
        if b > a:
            scores[n] = viterbi(node[a:b], arc[a:b] if arc.shape[0] > 1 else arc, blocks, path[a:b])


@kernel
def prefix_scores(node, arc, blocks, delta):
    """delta [T, Q]: the best score of a path up to each node."""
    T, Q = node.shape
    by_token, rows = arc.shape[0] > 1, blocks.rows
    for s in range(Q):
        delta[0, s] = node[0, s]
    for t in range(1, T):
        e = t if by_token else 0
        for s in range(Q):
            delta[t, s] = -np.inf
        for i in range(rows.shape[0]):
            s0, a, d = unsigned(rows[i, 1]), unsigned(rows[i, 3]), delta[t - 1, rows[i, 0]]
            for s in range(unsigned(rows[i, 2]) - s0):
                delta[t, s0 + s] = max(delta[t, s0 + s], d + arc[e, a + s])
        for s in range(Q):
            delta[t, s] += node[t, s]


@kernel
def margins(node, arc, blocks, label_of_node, gold):
    """The scores of the best and of the worst path of the gold labels, and of the best path of any
    other labels.

    A path of other labels has left the gold ones at some token: best prefixes that have and that
    have not are kept."""
    T, Q = node.shape
    by_token, rows = arc.shape[0] > 1, blocks.rows
    best, worst, other = np.full((2, Q), -np.inf), np.full((2, Q), np.inf), np.full((2, Q), -np.inf)
    for q in range(Q):
        if node[0, q] > -np.inf and label_of_node[q] == gold[0]:
            best[0, q] = worst[0, q] = node[0, q]
        else:
            other[0, q] = node[0, q]
    for t in range(1, T):
        e, now, before = t if by_token else 0, t % 2, (t - 1) % 2
        for s in range(Q):
            best[now, s] = other[now, s] = -np.inf
            worst[now, s] = np.inf
        for i in range(rows.shape[0]):
            r, s0, s1, a = rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3]
            for s in range(s0, s1):
                v = arc[e, a + s - s0] + node[t, s]
                if v == -np.inf:
                    continue
                other[now, s] = max(other[now, s], other[before, r] + v)
                if label_of_node[s] == gold[t]:
                    best[now, s] = max(best[now, s], best[before, r] + v)
                    worst[now, s] = min(worst[now, s], worst[before, r] + v)
                else:
                    other[now, s] = max(other[now, s], best[before, r] + v)
    last = (T - 1) % 2
    return best[last].max(), worst[last].min(), other[last].max()


@kernel
def _multiply(alpha, beta, t, nodes):
    """nodes[t] = P(s at t) from the messages of a token."""
    total = 0.0
    for s in range(nodes.shape[1]):
        nodes[t, s] = alpha[t, s] * beta[t, s]
        total += nodes[t, s]
    for s in range(nodes.shape[1]):
        nodes[t, s] /= total


@literal_kernel
def _scaled_messages(node, arc, blocks, nodes, ahead):
    """As `messages`, in scaled probability space; NaN where numbers are too small or too large to
    trust."""
    T, Q = node.shape
    by_token = arc.shape[0] > 1
    psi, E = node.copy(), np.empty(arc.shape)
    top, arc_top = np.empty(T), np.empty(arc.shape[0])
    exponentiate64(psi, top, Q)
    exponentiate_arcs(arc, E, arc_top)
    alpha, beta, into = np.empty((T, Q)), np.empty((T, Q)), np.empty((T, Q))
    scale, sums = np.empty(T), np.empty(T)
    sentence_messages(psi, E, blocks, np.arange(T), 0, T, alpha, beta, into, scale, sums, False)
    small, large = trusted_range(psi.itemsize)
    log_z = 0.0
    for t in range(T - 1, -1, -1):
        if not (scale[t] > small and sums[t] / scale[t] < large):
            return np.nan
        _multiply(alpha, beta, t, nodes)
        for s in range(Q):
            ahead[t, s] = node[t, s] - top[t] + np.log(beta[t, s]) if beta[t, s] > 0 else -np.inf
        log_z += np.log(scale[t]) + top[t]
        if t > 0:
            log_z += arc_top[t if by_token else 0]
    return log_z


@literal_kernel
def _onward(arc, a, ahead, first, last, p):
    """p[i] = P(node first + i at t | r at t-1), where arc[a:] has the scores of the arcs from r to
    nodes first:last; returns the largest of these, and log of the sum of what they weigh against
    it."""
    n = last - first
    top = largest(arc, a, a + n)
    if top == -np.inf:
        top = 0.0
    for i in range(n):
        p[i] = arc[a + i] - top + ahead[first + i]
    return top, softmax(p, n)


@literal_kernel
def messages(node, arc, blocks, nodes, ahead):
    """Fill nodes [T, Q] with P(s at t) and ahead [T, Q] with the log of what s at t and all that
    may follow weigh, less a constant of the token; returns log Z.

    ahead_t(s) = node_t(s) + log beta_t(s) - constant_t, where beta_{t-1}(r) = sum_s exp(arc_t(r, s)
    + ahead_t(s)), so that P(s at t | r at t-1) is the softmax of arc_t(r, s) + ahead_t(s) over s.
    Without the constants, large scores would leave no digits for the differences that count. In
    scaled probability space; where that under- or overflows, in log space.  Without any path, nodes
    are 0."""
    log_z = _scaled_messages(node, arc, blocks, nodes, ahead)
    if not np.isnan(log_z):
        return log_z
    T, Q = node.shape
    by_token, rows = arc.shape[0] > 1, blocks.rows
    p, log_beta, tops = np.empty(Q), np.empty(Q), np.empty(Q)
    ahead[:] = node
    log_z = 0.0
    for t in range(T - 1, -1, -1):
        row = ahead[t]
        log_z += subtract_largest(row, 0, Q)
        if t < T - 1:
            scores, following = arc[t + 1 if by_token else 0], ahead[t + 1]
            tops[:] = log_beta[:] = -np.inf
            for i in range(rows.shape[0]):
                r, s0, s1, a = rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3]
                if row[r] > -np.inf:
                    tops[r], log_beta[r] = _onward(scores, a, following, s0, s1, p)
            log_z += subtract_largest(tops, 0, Q)
            for r in range(Q):
                log_beta[r] += tops[r]
            log_z += subtract_largest(log_beta, 0, Q)
            row += log_beta
    nodes[:] = 0.0
    nodes[0] = ahead[0]
    log_z += softmax(nodes[0], Q)
    for t in range(1, T):
        scores, here = arc[t if by_token else 0], ahead[t]
        for i in range(rows.shape[0]):
            r, s0, s1, a = rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3]
            if nodes[t - 1, r] > 0:
                _onward(scores, a, here, s0, s1, p)
                for s in range(s0, s1):
                    nodes[t, s] += nodes[t - 1, r] * p[s - s0]
    return log_z


@kernel
def _products(E, a, psi, first, last, p):
    """p[i] = E[a + i] psi[first + i] of the nodes first:last; returns their sum."""
    total, a, s = 0.0, unsigned(a), unsigned(first)
    for i in range(unsigned(last - first)):
        p[i] = E[a + i] * psi[s + i]
        total += p[i]
    return total


@literal_kernel
def posterior_arcs(arc, blocks, nodes, ahead, arcs):
    """arcs [T, A] = P(r, s at t-1, t), from messages; one row [1, A] gets the sum over all tokens.

    One exponential for each node and each row of arcs; the products of those that underflow are
    made in log space."""
    T, Q = nodes.shape
    by_token, rows = arc.shape[0] > 1, blocks.rows
    small, _ = trusted_range(nodes.itemsize)
    p, psi, E = np.empty(Q), np.empty(Q), np.empty(arc.shape[1])
    arcs[:] = 0.0
    for t in range(1, T):
        scores, here = arc[t if by_token else 0], ahead[t]
        counts = arcs[t if arcs.shape[0] > 1 else 0]
        if by_token or t == 1:
            top = largest(scores, 0, scores.shape[0])
            for a in range(scores.shape[0]):
                E[a] = np.exp(scores[a] - top) if top > -np.inf else 0.0
        most = largest(here, 0, Q)
        for s in range(Q):
            psi[s] = np.exp(here[s] - most) if most > -np.inf else 0.0
        for i in range(rows.shape[0]):
            r, s0, s1, a = rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3]
            w = nodes[t - 1, r]
            if w > 0:
                total = _products(E, a, psi, s0, s1, p)
                if not total > small:
                    _onward(scores, a, here, s0, s1, p)
                    total = 1.0
                w /= total
                at = unsigned(a)
                for k in range(unsigned(s1 - s0)):
                    counts[at + k] += w * p[k]


@literal_kernel
def _log_ratio(scores, blocks, before, here, node, nodes, p):
    """log beta_{t-1}(r) - (before(r) - node(r)), a constant of all r, from the most probable r;
    before = ahead_{t-1}, here = ahead_t, and node and nodes are the scores and probabilities at
    t-1."""
    best, most, rows = -1, 0.0, blocks.rows
    for i in range(rows.shape[0]):
        if nodes[rows[i, 0]] > most:
            best, most = i, nodes[rows[i, 0]]
    if best < 0:
        return np.nan
    r, s0, s1, a = rows[best, 0], rows[best, 1], rows[best, 2], rows[best, 3]
    top, log_total = _onward(scores, a, here, s0, s1, p)
    return top + log_total - (before[r] - node[r])


@literal_kernel
def span_probabilities(
    node, arc, blocks, state, nodes, ahead, spans, opening, inside, closing, probability
):
    """The probability of each span [K, 3]: begin, end, and which of the tables [C, S+1, S], ... of
    types it goes by."""
    for k in range(len(spans)):
        c = spans[k, 2]
        tables = opening[c], inside[c], closing[c]
        p = span_probability(
            node, arc, blocks, state, nodes, ahead, spans[k, 0], spans[k, 1], *tables
        )
        probability[k] = min(1.0, p)


@literal_kernel
def span_probability(node, arc, blocks, state, nodes, ahead, begin, end, opening, inside, closing):
    """P(a span covers exactly begin..end): opening [S+1, S], inside [S, S] and closing [S, S+1] say
    which transitions between states open, continue and close it; the last row or column stands for
    the outside of the sentence.

    state [Q] is the state of each node.  P(s | r) = exp(arc(r, s) + ahead(s) - log beta(r)) for the
    transitions that count alone; where numbers are so large that this leaves few digits, as in
    `messages`."""
    T, Q = nodes.shape
    outside = inside.shape[0]
    by_token, rows = arc.shape[0] > 1, blocks.rows
    v, p = np.zeros(Q), np.empty(Q)
    if begin == 0:
        for s in range(Q):
            v[s] = nodes[0, s] if opening[outside, state[s]] else 0.0
    for t in range(max(begin, 1), min(end + 1, T)):
        scores, here, before = arc[t if by_token else 0], ahead[t], ahead[t - 1]
        ratio = _log_ratio(scores, blocks, before, here, node[t - 1], nodes[t - 1], p)
        allowed = opening if t == begin else (inside if t < end else closing)
        w = np.zeros(Q)
        for i in range(rows.shape[0]):
            r, s0, s1, a = rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3]
            x, weight = state[r], nodes[t - 1, r] if t == begin else v[r]
            if weight > 0:
                log_beta = before[r] - node[t - 1, r] + ratio
                if max(abs(node[t - 1, r]), abs(before[r]), abs(log_beta)) < ORDINARY:
                    for s in range(s0, s1):
                        if allowed[x, state[s]]:
                            w[s] += weight * np.exp(scores[a + s - s0] + here[s] - log_beta)
                else:
                    _onward(scores, a, here, s0, s1, p)
                    for s in range(s0, s1):
                        w[s] += weight * p[s - s0] if allowed[x, state[s]] else 0.0
        v = w
    total = 0.0
    for s in range(Q):
        if end < T or closing[state[s], outside]:
            total += v[s]
    return total
