"""Sums and best paths over the candidates of tokens (kernels/candidates.py).

Nodes and arcs are blocks, as in structures.graph, but of every token's own size (structures.candidates.Layout):

    order 1   nodes are slots, arcs (i, j) pairs of slots of neighbours: one block, sources i, targets j
    order 2   nodes are pairs (i, j), arcs (h, i, j): a block for every i, sources (h, i), targets (i, j)

    source h * B + b     target b * J + j     arc (b * H + h) * J + j        of block b of B, with H sources, J targets

`place` is the number of an arc's weight; behind the weights stand one of 0 (no weight) and one of minus infinity.
"""

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, literal_kernel
from labelwright.kernels.logs import log_sum, softmax, subtract_largest

NONE = 1e-14  # a probability that does not count
SMALL, LARGE = 1e-30, 1e200  # scales and messages beyond these: the sums are made again in log space


# -- sums -------------------------------------------------------------------------------------------------------------


@inlined_kernel
def _forward(layout, node, place, E, a, b, alpha, beta, scale):
    """alpha of the tokens a:b of a sentence, their scales, psi in `beta`; returns log Z, or NaN."""
    B, H, J, node_ptr, arc_ptr = layout
    total = 0.0
    for t in range(a, b):
        first, last = node_ptr[t], node_ptr[t + 1]
        top = -np.inf
        for q in range(first, last):
            top = max(top, node[q])
        for q in range(first, last):
            alpha[q] = 1.0 if t == a else 0.0
            beta[q] = np.exp(node[q] - top)
        if t > a:
            before, at = node_ptr[t - 1], arc_ptr[t]
            for block in range(B[t]):
                into = first + block * J[t]
                for h in range(H[t]):
                    x = alpha[before + h * B[t] + block]
                    for j in range(J[t]):
                        alpha[into + j] += x * E[place[at + j]]
                    at += J[t]
        c = 0.0
        for q in range(first, last):
            alpha[q] *= beta[q]
            c += alpha[q]
        if not SMALL < c < LARGE:
            return np.nan
        for q in range(first, last):
            alpha[q] /= c
        scale[t - a] = c
        total += np.log(c) + top
    return total


@inlined_kernel
def _backward(layout, place, E, a, b, beta, message, scale):
    """message and beta of the tokens a:b of a sentence; returns whether a number was too large."""
    B, H, J, node_ptr, arc_ptr = layout
    for q in range(node_ptr[b - 1], node_ptr[b]):
        message[q] = 1.0
        beta[q] /= scale[b - 1 - a]
    too_large = False
    for t in range(b - 2, a - 1, -1):
        first, last = node_ptr[t], node_ptr[t + 1]
        at = arc_ptr[t + 1]
        for block in range(B[t + 1]):
            target = last + block * J[t + 1]
            for h in range(H[t + 1]):
                x = 0.0
                for j in range(J[t + 1]):
                    x += E[place[at + j]] * beta[target + j]
                at += J[t + 1]
                source = first + h * B[t + 1] + block
                too_large = too_large or x > LARGE
                message[source] = x
                beta[source] *= x / scale[t - a]
    return too_large


@kernel
def sums(layout, node, place, E, offsets, n0, n1, alpha, beta, message, log_z):
    """Forward-backward of the sentences n0:n1 in scaled probability space.

        alpha_t(q) = psi_t(q) sum_p alpha_t-1(p) E(p, q) / c_t        sum_q alpha_t(q) = 1        log Z = sum_t log c_t
        beta_t-1(p) = sum_q E(p, q) psi_t(q) beta_t(q) / c_t

    message [nodes] is beta_t, and beta [nodes] psi_t beta_t / c_t, so that P(node) = alpha message and P(arc) = alpha E
    beta: `posteriors` makes these.  log_z[n] is NaN where numbers are too small or too large."""
    most = 1
    for n in range(n0, n1):
        most = max(most, offsets[n + 1] - offsets[n])
    scale = np.empty(most)
    for n in range(n0, n1):
        a, b = offsets[n], offsets[n + 1]
        log_z[n] = _forward(layout, node, place, E, a, b, alpha, beta, scale)
        if not np.isnan(log_z[n]) and _backward(layout, place, E, a, b, beta, message, scale):
            log_z[n] = np.nan


@kernel
def posteriors(layout, place, E, offsets, n0, n1, alpha, beta, message, log_z, counts):
    """alpha = P(node) of the sentences n0:n1 whose `sums` were made, and counts[place] += P(arc), where there is room
    for counts.  Arcs out of nodes that are less probable than NONE do not count."""
    B, H, J, node_ptr, arc_ptr = layout
    for n in range(n0, n1):
        if np.isnan(log_z[n]):
            continue
        for t in range(offsets[n + 1] - 1, offsets[n] - 1, -1):
            first, last = node_ptr[t], node_ptr[t + 1]
            if t > offsets[n] and counts.shape[0] > 0:
                before, at = node_ptr[t - 1], arc_ptr[t]
                for block in range(B[t]):
                    for h in range(H[t]):
                        source = before + h * B[t] + block
                        x = alpha[source]
                        if x * message[source] > NONE:
                            for j in range(J[t]):
                                k = place[at + j]
                                counts[k] += x * E[k] * beta[first + block * J[t] + j]
                        at += J[t]
            for q in range(first, last):
                alpha[q] *= message[q]


@literal_kernel
def log_sums(layout, node, place, score, offsets, n, alpha, ahead, counts):
    """The same for sentence n in log space: alpha [nodes] becomes P(node), counts[place] += P(arc); returns log Z.

    ahead [nodes] is the log of what a node and all that may follow weigh, less a constant of the token: P(q | p) is the
    softmax of score(p, q) + ahead(q) over the targets q of p."""
    B, H, J, node_ptr, arc_ptr = layout
    a, b = offsets[n], offsets[n + 1]
    most = 1
    for t in range(a, b):
        most = max(most, J[t])
    p = np.empty(most)
    log_z = 0.0
    for t in range(b - 1, a - 1, -1):
        first, last = node_ptr[t], node_ptr[t + 1]
        if t == b - 1:
            ahead[first:last] = 0.0
        log_z += subtract_largest(ahead, first, last)
        for q in range(first, last):
            ahead[q] += node[q]
        log_z += subtract_largest(ahead, first, last)
        at = arc_ptr[t]
        for block in range(B[t] if t > a else 0):
            for h in range(H[t]):
                for j in range(J[t]):
                    p[j] = score[place[at + j]] + ahead[first + block * J[t] + j]
                ahead[node_ptr[t - 1] + h * B[t] + block] = log_sum(p, J[t])
                at += J[t]
    alpha[node_ptr[a] : node_ptr[a + 1]] = ahead[node_ptr[a] : node_ptr[a + 1]]
    log_z += softmax(alpha[node_ptr[a] : node_ptr[a + 1]], node_ptr[a + 1] - node_ptr[a])
    for t in range(a + 1, b):
        first, at = node_ptr[t], arc_ptr[t]
        alpha[first : node_ptr[t + 1]] = 0.0
        for block in range(B[t]):
            for h in range(H[t]):
                x = alpha[node_ptr[t - 1] + h * B[t] + block]
                if x > 0:
                    for j in range(J[t]):
                        p[j] = score[place[at + j]] + ahead[first + block * J[t] + j]
                    softmax(p, J[t])
                    for j in range(J[t]):
                        alpha[first + block * J[t] + j] += x * p[j]
                        if counts.shape[0] > 0:
                            counts[place[at + j]] += x * p[j]
                at += J[t]
    return log_z


# -- best paths -------------------------------------------------------------------------------------------------------


@kernel
def best_prefixes(layout, node, place, score, offsets, n, delta, back):
    """delta[q] = the score of the best path up to node q of sentence n, and where it came from (back)."""
    B, H, J, node_ptr, arc_ptr = layout
    a, b = offsets[n], offsets[n + 1]
    for q in range(node_ptr[a], node_ptr[a + 1]):
        delta[q] = node[q]
    for t in range(a + 1, b):
        first, before, at = node_ptr[t], node_ptr[t - 1], arc_ptr[t]
        for q in range(first, node_ptr[t + 1]):
            delta[q] = -np.inf
            back[q] = before
        for block in range(B[t]):
            into = first + block * J[t]
            for h in range(H[t]):
                source = before + h * B[t] + block
                x = delta[source]
                for j in range(J[t]):
                    s = x + score[place[at + j]]
                    if s > delta[into + j]:
                        delta[into + j] = s
                        back[into + j] = source
                at += J[t]
        for q in range(first, node_ptr[t + 1]):
            delta[q] += node[q]


@kernel
def best_suffixes(layout, node, place, score, offsets, n, ahead):
    """ahead[q] = the score of the best continuation after node q of sentence n."""
    B, H, J, node_ptr, arc_ptr = layout
    a, b = offsets[n], offsets[n + 1]
    for q in range(node_ptr[b - 1], node_ptr[b]):
        ahead[q] = 0.0
    for t in range(b - 1, a, -1):
        first, before, at = node_ptr[t], node_ptr[t - 1], arc_ptr[t]
        for block in range(B[t]):
            into = first + block * J[t]
            for h in range(H[t]):
                best = -np.inf
                for j in range(J[t]):
                    best = max(best, score[place[at + j]] + node[into + j] + ahead[into + j])
                ahead[before + h * B[t] + block] = best
                at += J[t]


@kernel
def best_paths(layout, node, place, score, offsets, n0, n1, delta, back, path, best):
    """path[t] = the place of the best path's node among those of its token, best[n] its score, sentence by sentence."""
    node_ptr = layout.node_ptr
    for n in range(n0, n1):
        best_prefixes(layout, node, place, score, offsets, n, delta, back)
        a, b = offsets[n], offsets[n + 1]
        q = node_ptr[b - 1]
        for k in range(node_ptr[b - 1], node_ptr[b]):
            if delta[k] > delta[q]:
                q = k
        best[n] = delta[q]
        for t in range(b - 1, a - 1, -1):
            path[t] = q - node_ptr[t]
            q = back[q]
