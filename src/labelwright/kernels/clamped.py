"""Sums over the latent paths of *one* labelling: the observed half of a latent model's gradient.

Label l owns the states first[l]:first[l+1]; at token t only the states of its label take part.  With one state per
label there is one path, and the sums are counts: `path_scores` and `subtract_path`.
"""

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.logs import log_sum

UNTRUSTED = 1e-200  # a scale below this, or a message above the next, may have lost a path that wins later:
LARGE = 1e280  # the sentence is done again in log space


@kernel
def _weights(node, arc, label, first, psi, E):
    """psi [T, H] = exp(node) and E [T, H, H] = exp(arc) at the states of the labels, over their maxima; returns the log
    of what was divided out."""
    by_token = arc.shape[0] > 1
    shift = 0.0
    for t in range(label.shape[0]):
        s0, s1 = first[label[t]], first[label[t] + 1]
        m = np.float64(node[t, s0])
        for s in range(s0, s1):
            m = max(m, np.float64(node[t, s]))
        shift += m
        for s in range(s0, s1):
            psi[t, s - s0] = np.exp(node[t, s] - m)
        if t > 0:
            e = t if by_token else 0
            r0, r1 = first[label[t - 1]], first[label[t - 1] + 1]
            m = np.float64(arc[e, r0, s0])
            for r in range(r0, r1):
                for s in range(s0, s1):
                    m = max(m, np.float64(arc[e, r, s]))
            shift += m
            for r in range(r0, r1):
                for s in range(s0, s1):
                    E[t, r - r0, s - s0] = np.exp(arc[e, r, s] - m)
    return shift


@kernel
def _clamp(psi, E, sizes, alpha, scale, states, pairs):
    """Posteriors of one labelling in scaled space; returns log of the scaled sum, or NaN where it may underflow."""
    T = sizes.shape[0]
    log_z = 0.0
    for t in range(T):
        total = 0.0
        for s in range(sizes[t]):
            v = 1.0
            if t > 0:
                v = 0.0
                for r in range(sizes[t - 1]):
                    v += alpha[t - 1, r] * E[t, r, s]
            alpha[t, s] = v * psi[t, s]
            total += alpha[t, s]
        if not total > UNTRUSTED:
            return np.nan
        scale[t] = total
        log_z += np.log(total)
        for s in range(sizes[t]):
            alpha[t, s] /= total
    beta = np.ones(psi.shape[1])
    into = np.empty(psi.shape[1])
    for t in range(T - 1, -1, -1):
        total = 0.0
        for s in range(sizes[t]):
            total += beta[s]
            states[t, s] = alpha[t, s] * beta[s]
            into[s] = psi[t, s] * beta[s] / scale[t]
        if not total / scale[t] < LARGE:
            return np.nan
        if t > 0:
            for r in range(sizes[t - 1]):
                total = 0.0
                for s in range(sizes[t]):
                    v = E[t, r, s] * into[s]
                    pairs[t, r, s] = alpha[t - 1, r] * v
                    total += v
                beta[r] = total
    return log_z


@kernel
def _clamp_in_log_space(node, arc, label, first, states, pairs):
    """The same for scores of any scale; returns log Z of the labelling."""
    T = label.shape[0]
    by_token = arc.shape[0] > 1
    H = states.shape[1]
    alpha = np.empty((T, H))
    beta = np.zeros((T, H))
    terms = np.empty(H)
    for t in range(T):
        s0, s1 = first[label[t]], first[label[t] + 1]
        for s in range(s0, s1):
            alpha[t, s - s0] = node[t, s]
            if t > 0:
                r0, r1 = first[label[t - 1]], first[label[t - 1] + 1]
                for r in range(r0, r1):
                    terms[r - r0] = alpha[t - 1, r - r0] + arc[t if by_token else 0, r, s]
                alpha[t, s - s0] += log_sum(terms, r1 - r0)
    last = label[T - 1]
    log_z = log_sum(alpha[T - 1], first[last + 1] - first[last])
    for t in range(T - 1, -1, -1):
        s0, s1 = first[label[t]], first[label[t] + 1]
        for s in range(s0, s1):
            states[t, s - s0] = np.exp(alpha[t, s - s0] + beta[t, s - s0] - log_z)
        if t > 0:
            r0, r1 = first[label[t - 1]], first[label[t - 1] + 1]
            for r in range(r0, r1):
                for s in range(s0, s1):
                    v = arc[t if by_token else 0, r, s] + node[t, s] + beta[t, s - s0]
                    terms[s - s0] = v
                    pairs[t, r - r0, s - s0] = np.exp(alpha[t - 1, r - r0] + v - log_z)
                beta[t - 1, r - r0] = log_sum(terms, s1 - s0)
    return log_z


@kernel
def labelling_weight(node, arc, label, first):
    """log of the summed weight of all latent paths of one labelling [T]: the clamped forward pass."""
    T = label.shape[0]
    by_token = arc.shape[0] > 1
    H = 0
    for t in range(T):
        H = max(H, first[label[t] + 1] - first[label[t]])
    alpha = np.empty(H)
    new = np.empty(H)
    terms = np.empty(H)
    for t in range(T):
        s0, s1 = first[label[t]], first[label[t] + 1]
        for s in range(s0, s1):
            new[s - s0] = node[t, s]
            if t > 0:
                r0, r1 = first[label[t - 1]], first[label[t - 1] + 1]
                for r in range(r0, r1):
                    terms[r - r0] = alpha[r - r0] + arc[t if by_token else 0, r, s]
                new[s - s0] += log_sum(terms, r1 - r0)
        for s in range(s1 - s0):
            alpha[s] = new[s]
    return log_sum(alpha, first[label[T - 1] + 1] - first[label[T - 1]])


@kernel
def clamped_posteriors(node, arc, label, first, offsets, log_z, states, pairs):
    """Fill log_z [N] with log Z of each sentence's labelling, states [T, H] with P(its k-th state at t | labelling) and
    pairs [T, H, H] with P(k-th, l-th state at t-1, t | labelling).

    node [T, S] and arc [T or 1, S, S] are scores and begin with the first of the sentences."""
    begin = offsets[0]
    H = states.shape[1]
    longest = 0
    for n in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    psi = np.empty((longest, H))
    E = np.empty((longest, H, H))
    alpha = np.empty((longest, H))
    scale = np.empty(longest)
    sizes = np.empty(longest, np.int64)
    for n in range(offsets.shape[0] - 1):
        a, b = offsets[n] - begin, offsets[n + 1] - begin
        T = b - a
        y = label[a:b]
        arcs = arc[a:b] if arc.shape[0] > 1 else arc
        for t in range(T):
            sizes[t] = first[y[t] + 1] - first[y[t]]
        shift = _weights(node[a:b], arcs, y, first, psi, E)
        found = _clamp(psi, E, sizes[:T], alpha, scale, states[a:b], pairs[a:b])
        if np.isnan(found):
            log_z[n] = _clamp_in_log_space(node[a:b], arcs, y, first, states[a:b], pairs[a:b])
        else:
            log_z[n] = found + shift


@kernel
def subtract_clamped(node, arcs, label, first, offsets, states, pairs):
    """Take the clamped posteriors from the free ones: node [T, S], arcs [T or 1, S, S] (one row: sums over tokens)."""
    begin = offsets[0]
    by_token = arcs.shape[0] > 1
    for n in range(offsets.shape[0] - 1):
        for t in range(offsets[n] - begin, offsets[n + 1] - begin):
            s0, s1 = first[label[t]], first[label[t] + 1]
            for s in range(s0, s1):
                node[t, s] -= states[t, s - s0]
            if t > offsets[n] - begin:
                r0, r1 = first[label[t - 1]], first[label[t - 1] + 1]
                for r in range(r0, r1):
                    for s in range(s0, s1):
                        arcs[t if by_token else 0, r, s] -= pairs[t, r - r0, s - s0]


@kernel
def path_scores(node, arc, path, offsets, scores):
    """scores [N] of the one path of each sentence; node [T, S] and arc [T or 1, S, S] begin with the first of them."""
    begin = offsets[0]
    by_token = arc.shape[0] > 1
    for n in range(offsets.shape[0] - 1):
        score = 0.0
        for t in range(offsets[n] - begin, offsets[n + 1] - begin):
            score += node[t, path[t]]
            if t > offsets[n] - begin:
                score += arc[t if by_token else 0, path[t - 1], path[t]]
        scores[n] = score


@kernel
def subtract_path(node, arcs, path, offsets):
    """As subtract_clamped, where there is one path."""
    begin = offsets[0]
    by_token = arcs.shape[0] > 1
    for n in range(offsets.shape[0] - 1):
        for t in range(offsets[n] - begin, offsets[n + 1] - begin):
            node[t, path[t]] -= 1
            if t > offsets[n] - begin:
                arcs[t if by_token else 0, path[t - 1], path[t]] -= 1
