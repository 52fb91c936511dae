"""Questions about one lattice, in float64: the best path, sums over all paths, the n best paths, sums through spans.

node [T, S] and arc [T or 1, S, S] are scores; minus infinity forbids; arc[t] leads into token t.
"""

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.logs import log_sum

UNTRUSTED = 1e-250  # a scale below this, or a message above the next, has lost digits:
LARGE = 1e280  # the sentence is done again in log space


@kernel
def viterbi(node, arc, path):
    """Fill path [T] with the best states and return its score.

    delta_t(s) = node_t(s) + max_r delta_{t-1}(r) + arc_t(r, s); the lowest r wins a tie."""
    T, S = node.shape
    by_token = arc.shape[0] > 1
    back = np.empty((T, S), np.int64)
    delta = node[0].copy()
    best = np.empty(S)
    for t in range(1, T):
        e = t if by_token else 0
        for s in range(S):
            best[s] = -np.inf
            back[t, s] = 0
        for r in range(S):
            d = delta[r]
            for s in range(S):
                v = d + arc[e, r, s]
                better = v > best[s]
                best[s] = v if better else best[s]
                back[t, s] = r if better else back[t, s]
        for s in range(S):
            delta[s] = best[s] + node[t, s]
    at = np.argmax(delta)
    score = delta[at]
    for t in range(T - 1, -1, -1):
        path[t] = at
        at = back[t, at]
    return score


@kernel
def _scaled_messages(node, arc, states, log_beta):
    """As `messages`, in scaled probability space; NaN where a path that counts may have been too small to keep.

    What underflows in alpha_t, psi_t or E counts at most beta_t / c_t times its own size, so that must stay small."""
    T, S = node.shape
    by_token = arc.shape[0] > 1
    n_arcs = arc.shape[0]
    E = np.empty((n_arcs, S, S))
    top = np.zeros(n_arcs)
    for i in range(1 if by_token else 0, n_arcs):
        top[i] = arc[i].max()
        if not np.isfinite(top[i]):
            return np.nan
        for r in range(S):
            for s in range(S):
                E[i, r, s] = np.exp(arc[i, r, s] - top[i])
    psi = np.empty((T, S))
    alpha = np.zeros((T, S))
    scale = np.empty(T)
    log_c = np.empty(T)
    for t in range(T):
        m = node[t].max()
        if not np.isfinite(m):
            return np.nan
        total = 0.0
        e = t if by_token else 0
        for s in range(S):
            psi[t, s] = np.exp(node[t, s] - m)
        if t == 0:
            for s in range(S):
                alpha[0, s] = psi[0, s]
        else:
            for r in range(S):
                a = alpha[t - 1, r]
                for s in range(S):
                    alpha[t, s] += a * E[e, r, s]
            for s in range(S):
                alpha[t, s] *= psi[t, s]
        for s in range(S):
            total += alpha[t, s]
        if not (total > UNTRUSTED):
            return np.nan
        scale[t] = total
        log_c[t] = np.log(total) + m + (top[e] if t > 0 else 0.0)
        for s in range(S):
            alpha[t, s] /= total
    beta = np.ones(S)
    into = np.empty(S)
    rest = 0.0
    for t in range(T - 1, -1, -1):
        total = 0.0
        p = 0.0
        for s in range(S):
            total += beta[s]
            states[t, s] = alpha[t, s] * beta[s]
            p += states[t, s]
            log_beta[t, s] = rest + np.log(beta[s]) if beta[s] > 0 else -np.inf
            into[s] = psi[t, s] * beta[s] / scale[t]
        if not (total / scale[t] < LARGE):
            return np.nan
        for s in range(S):
            states[t, s] /= p
        rest += log_c[t]
        if t > 0:
            e = t if by_token else 0
            for r in range(S):
                total = 0.0
                for s in range(S):
                    total += E[e, r, s] * into[s]
                beta[r] = total
    return rest


@kernel
def messages(node, arc, states, log_beta):
    """Fill states [T, S] with P(s at t) and log_beta [T, S]; returns log Z.

    log beta_{t-1}(r) = log sum_s exp(arc_t(r, s) + node_t(s) + log beta_t(s)), 0 at the last token;
    P(s at t | r at t-1) = exp(arc_t(r, s) + node_t(s) + log beta_t(s) - log beta_{t-1}(r)).
    In scaled probability space; where that under- or overflows, in log space.  Without any path, states are 0."""
    log_z = _scaled_messages(node, arc, states, log_beta)
    if not np.isnan(log_z):
        return log_z
    T, S = node.shape
    by_token = arc.shape[0] > 1
    terms = np.empty(S)
    log_beta[T - 1] = 0.0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        for r in range(S):
            for s in range(S):
                terms[s] = arc[e, r, s] + node[t, s] + log_beta[t, s]
            log_beta[t - 1, r] = log_sum(terms, S)
    log_z = log_sum(node[0] + log_beta[0], S)
    states[:] = 0.0
    if log_z == -np.inf:
        return log_z
    for s in range(S):
        states[0, s] = np.exp(node[0, s] + log_beta[0, s] - log_z)
    for t in range(1, T):
        e = t if by_token else 0
        for r in range(S):
            if states[t - 1, r] > 0:
                for s in range(S):
                    more = arc[e, r, s] + node[t, s] + log_beta[t, s] - log_beta[t - 1, r]
                    states[t, s] += states[t - 1, r] * np.exp(more)
    return log_z


@kernel
def posterior_arcs(node, arc, states, log_beta, arcs):
    """arcs [T, S, S] = P(r, s at t-1, t), from messages."""
    T, S = node.shape
    by_token = arc.shape[0] > 1
    arcs[:] = 0.0
    for t in range(1, T):
        e = t if by_token else 0
        for r in range(S):
            if states[t - 1, r] > 0:
                for s in range(S):
                    more = arc[e, r, s] + node[t, s] + log_beta[t, s] - log_beta[t - 1, r]
                    arcs[t, r, s] = states[t - 1, r] * np.exp(more)


@kernel
def span_probability(node, arc, states, log_beta, begin, end, opening, inside, closing):
    """P(a span covers exactly begin..end): opening [S+1, S], inside [S, S] and closing [S, S+1] say which moves between
    states start it, go on in it and end it; the last row or column stands for the outside of the sentence."""
    T, S = node.shape
    by_token = arc.shape[0] > 1
    v = np.zeros(S)
    if begin == 0:
        for s in range(S):
            v[s] = states[0, s] if opening[S, s] else 0.0
    for t in range(max(begin, 1), min(end + 1, T)):
        e = t if by_token else 0
        w = np.zeros(S)
        for r in range(S):
            p = states[t - 1, r] if t == begin else v[r]
            if p > 0:
                for s in range(S):
                    move = opening[r, s] if t == begin else (inside[r, s] if t < end else closing[r, s])
                    if move:
                        w[s] += p * np.exp(arc[e, r, s] + node[t, s] + log_beta[t, s] - log_beta[t - 1, r])
        v = w
    total = 0.0
    for s in range(S):
        if end < T or closing[s, S]:
            total += v[s]
    return total
