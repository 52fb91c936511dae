"""Questions about one lattice, in float64: the best path, sums over all paths, the n best paths, sums through spans.

node [T, S] and arc [T or 1, S, S] are scores; minus infinity forbids; arc[t] leads into token t.
"""

import numpy as np

from labelwright.kernels import kernel

UNTRUSTED = 1e-250  # a scale below this has lost digits: the sentence is done again in log space


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
def _log_sum(x):
    m = x.max()
    if not np.isfinite(m):
        return m
    total = 0.0
    for i in range(x.shape[0]):
        total += np.exp(x[i] - m)
    return m + np.log(total)


@kernel
def _scaled_messages(node, arc, alpha, beta, log_c):
    T, S = node.shape
    by_token = arc.shape[0] > 1
    n_arcs = arc.shape[0]
    E = np.empty((n_arcs, S, S))
    top = np.empty(n_arcs)
    for i in range(n_arcs):
        m = arc[i].max() if i > 0 or not by_token else 0.0
        if i == 0 and by_token:
            top[i] = 0.0
            continue
        if not np.isfinite(m):
            return False
        top[i] = m
        for r in range(S):
            for s in range(S):
                E[i, r, s] = np.exp(arc[i, r, s] - m)
    psi = np.empty((T, S))
    scale = np.empty(T)
    for t in range(T):
        m = node[t].max()
        if not np.isfinite(m):
            return False
        total = 0.0
        e = t if by_token else 0
        for s in range(S):
            psi[t, s] = np.exp(node[t, s] - m)
            alpha[t, s] = 0.0
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
            return False
        scale[t] = total
        log_c[t] = np.log(total) + m + (top[e] if t > 0 else 0.0)
        for s in range(S):
            alpha[t, s] /= total
    for s in range(S):
        beta[T - 1, s] = 1.0
    into = np.empty(S)
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        for s in range(S):
            into[s] = psi[t, s] * beta[t, s] / scale[t]
        for r in range(S):
            total = 0.0
            for s in range(S):
                total += E[e, r, s] * into[s]
            beta[t - 1, r] = total
    return True


@kernel
def messages(node, arc, alpha, beta, log_c):
    """Fill alpha, beta [T, S] and log_c [T]; returns log Z.  P(s at t) = alpha_t(s) beta_t(s);
    P(r, s at t-1, t) = alpha_{t-1}(r) exp(arc_t(r, s) + node_t(s) - log_c_t) beta_t(s).

    In scaled probability space; where that underflows, in log space."""
    if _scaled_messages(node, arc, alpha, beta, log_c):
        return log_c.sum()
    T, S = node.shape
    by_token = arc.shape[0] > 1
    terms = np.empty(S)
    forward = np.empty((T, S))
    backward = np.zeros((T, S))
    forward[0] = node[0]
    for t in range(1, T):
        e = t if by_token else 0
        for s in range(S):
            for r in range(S):
                terms[r] = forward[t - 1, r] + arc[e, r, s]
            forward[t, s] = _log_sum(terms) + node[t, s]
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        for r in range(S):
            for s in range(S):
                terms[s] = arc[e, r, s] + node[t, s] + backward[t, s]
            backward[t - 1, r] = _log_sum(terms)
    log_z = _log_sum(forward[T - 1])
    before = 0.0
    for t in range(T):
        so_far = _log_sum(forward[t])
        log_c[t] = so_far - before
        before = so_far
        for s in range(S):
            alpha[t, s] = np.exp(forward[t, s] - so_far) if np.isfinite(so_far) else 0.0
            beta[t, s] = np.exp(backward[t, s] - (log_z - so_far)) if np.isfinite(log_z) else 0.0
            if alpha[t, s] == 0.0:
                beta[t, s] = 0.0
    return log_z


@kernel
def posterior_arcs(node, arc, alpha, beta, log_c, states, arcs):
    """states [T, S] = P(s at t) and arcs [T, S, S] = P(r, s at t-1, t), from messages."""
    T, S = node.shape
    by_token = arc.shape[0] > 1
    for t in range(T):
        e = t if by_token else 0
        for s in range(S):
            states[t, s] = alpha[t, s] * beta[t, s]
            for r in range(S):
                p = 0.0
                if t > 0 and alpha[t - 1, r] > 0 and beta[t, s] > 0:
                    p = alpha[t - 1, r] * np.exp(arc[e, r, s] + node[t, s] - log_c[t]) * beta[t, s]
                arcs[t, r, s] = p


@kernel
def span_probability(node, arc, alpha, beta, log_c, begin, end, opening, inside, closing):
    """P(a span covers exactly begin..end): opening [S+1, S], inside [S, S] and closing [S, S+1] say which moves between
    states start it, go on in it and end it; the last row or column stands for the outside of the sentence."""
    T, S = node.shape
    by_token = arc.shape[0] > 1
    v = np.zeros(S)
    w = np.zeros(S)
    for s in range(S):
        if begin == 0:
            v[s] = alpha[0, s] if opening[S, s] else 0.0
        else:
            e = begin if by_token else 0
            for r in range(S):
                if opening[r, s] and alpha[begin - 1, r] > 0:
                    v[s] += alpha[begin - 1, r] * np.exp(arc[e, r, s] + node[begin, s] - log_c[begin])
    for t in range(begin + 1, end):
        e = t if by_token else 0
        for s in range(S):
            w[s] = 0.0
            for r in range(S):
                if inside[r, s] and v[r] > 0:
                    w[s] += v[r] * np.exp(arc[e, r, s] + node[t, s] - log_c[t])
        v[:] = w
    total = 0.0
    for r in range(S):
        if v[r] > 0:
            if end == T:
                total += v[r] if closing[r, S] else 0.0
            else:
                e = end if by_token else 0
                for s in range(S):
                    if closing[r, s] and beta[end, s] > 0:
                        total += v[r] * np.exp(arc[e, r, s] + node[end, s] - log_c[end]) * beta[end, s]
    return total


@kernel
def _sift_up(heap, priority, depth, size):
    i = size - 1
    while i > 0:
        j = (i - 1) // 2
        a, b = heap[i], heap[j]
        if priority[a] > priority[b] or (priority[a] == priority[b] and depth[a] < depth[b]):
            heap[i], heap[j] = b, a
            i = j
        else:
            return


@kernel
def _sift_down(heap, priority, depth, size):
    i = 0
    while True:
        best = i
        for j in (2 * i + 1, 2 * i + 2):
            if j < size:
                a, b = heap[j], heap[best]
                if priority[a] > priority[b] or (priority[a] == priority[b] and depth[a] < depth[b]):
                    best = j
        if best == i:
            return
        heap[i], heap[best] = heap[best], heap[i]
        i = best


@kernel
def best_paths(node, arc, paths, scores):
    """Fill paths [n, T] and scores [n] with the best paths in order; returns how many there are.

    Best-first search from the last token backwards; delta_t(s), the best score up to (t, s), completes a suffix
    exactly, so the search never turns back: every T pops give one more path."""
    T, S = node.shape
    n = paths.shape[0]
    by_token = arc.shape[0] > 1
    delta = np.empty((T, S))
    delta[0] = node[0]
    for t in range(1, T):
        e = t if by_token else 0
        for s in range(S):
            m = -np.inf
            for r in range(S):
                m = max(m, delta[t - 1, r] + arc[e, r, s])
            delta[t, s] = m + node[t, s]
    room = (n + 1) * T * S + S if (n + 1) * T * S < 4096 else 4096
    priority = np.empty(room)
    suffix = np.empty(room)
    depth = np.empty(room, np.int32)
    state = np.empty(room, np.int32)
    parent = np.empty(room, np.int32)
    heap = np.empty(room, np.int32)
    made = 0
    size = 0
    for s in range(S):
        if delta[T - 1, s] > -np.inf:
            priority[made], suffix[made] = delta[T - 1, s], 0.0
            depth[made], state[made], parent[made] = T - 1, s, -1
            heap[size] = made
            made += 1
            size += 1
            _sift_up(heap, priority, depth, size)
    found = 0
    while size > 0 and found < n:
        i = heap[0]
        size -= 1
        heap[0] = heap[size]
        _sift_down(heap, priority, depth, size)
        t, s = depth[i], state[i]
        if t == 0:
            scores[found] = priority[i]
            j = i
            for u in range(T):
                paths[found, u] = state[j]
                j = parent[j]
            found += 1
            continue
        if made + S > room:
            grown = 2 * room + S
            priority = np.concatenate((priority, np.empty(grown - room)))
            suffix = np.concatenate((suffix, np.empty(grown - room)))
            depth = np.concatenate((depth, np.empty(grown - room, np.int32)))
            state = np.concatenate((state, np.empty(grown - room, np.int32)))
            parent = np.concatenate((parent, np.empty(grown - room, np.int32)))
            heap = np.concatenate((heap, np.empty(grown - room, np.int32)))
            room = grown
        e = t if by_token else 0
        for r in range(S):
            rest = suffix[i] + arc[e, r, s] + node[t, s]
            p = delta[t - 1, r] + rest
            if p > -np.inf:
                priority[made], suffix[made] = p, rest
                depth[made], state[made], parent[made] = t - 1, r, i
                heap[size] = made
                made += 1
                size += 1
                _sift_up(heap, priority, depth, size)
    return found
