"""What a chain passes to the layer above it, and what comes back: the forward-backward of Azuma & Matsumoto (2011).

A layer passes probabilities of labels and of pairs of neighbouring labels, each in its slot.  Given the derivatives g
of a loss by these, the derivative by the score of a node or an arc is its covariance with the gain G of a path, the sum
of g over the labels and pairs on it.  With the messages of kernels.chain, and gains gamma_t(s) on nodes, g_t(r, s) on
arcs:

    alpha'_t(s) = psi_t(s) sum_r E(r, s) (alpha'_{t-1}(r) + g_t(r, s) alpha_{t-1}(r)) / c_t + gamma_t(s) alpha_t(s)
    beta'_{t-1}(r) = sum_s E(r, s) psi_t(s) (beta'_t(s) + (gamma_t(s) + g_t(r, s)) beta_t(s)) / c_t
    Cov(G, s at t) = alpha'_t(s) beta_t(s) + alpha_t(s) beta'_t(s)

if the mean of G is zero.  It is made so token by token, by taking the mean of what token t adds off its gamma_t, which
keeps all numbers small.
"""

from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.chain import LARGE, _forward, _onwards


class Names(NamedTuple):
    """Which label a node stands for (all int64)."""

    label: Any  # [Q]
    before: Any  # [Q]    label of the first state of its pair, -1: none; of first order: -2
    first: Any  # [L+1]  of first order: label l owns the nodes first[l]:first[l+1]
    base: Any  # [Q]    the arc from q to k is number base[q] + k


@kernel
def _returns(x, i, E, e, blocks, out, j):
    """out[j, r] = sum_s E[e, arc from r to s] x[i, s]."""
    source_ptr, source, target, arc_ptr = blocks.source_ptr, blocks.source, blocks.target, blocks.arc_ptr
    for b in range(arc_ptr.shape[0] - 1):
        s0, a = np.uint64(target[b]), np.uint64(arc_ptr[b])
        width = np.uint64(target[b + 1]) - s0
        for k in range(source_ptr[b], source_ptr[b + 1]):
            total = E[e, 0] * 0  # of the right type; x may not be filled yet
            for s in range(width):
                total += E[e, a + s] * x[i, s0 + s]
            out[j, source[k]] = total
            a += width


@kernel
def _messages(psi, a, T, E, blocks, alpha, beta, into, scale):
    """alpha, beta and into = psi beta / c of the tokens a:a+T; False where the numbers are too small or too large."""
    by_token = E.shape[0] > 1
    width = psi.shape[1]
    if not _forward(psi, a, T, E, by_token, blocks, alpha, scale):
        return False
    largest = psi[0, 0] * 0
    for s in range(width):
        beta[T - 1, s] = 1
    for t in range(T - 1, -1, -1):
        one = 1 / scale[t]
        total = psi[0, 0] * 0
        for s in range(width):
            total += beta[t, s]
            into[t, s] = psi[a + t, s] * beta[t, s] * one
        largest = max(largest, total * one)
        if not largest < LARGE:
            return False
        if t > 0:
            _returns(into, t, E, a + t if by_token else 0, blocks, beta, t - 1)
    return True


@kernel
def _pair(alpha, into, t, E, e, names, x, y):
    """P(labels x, y at t-1, t), of first order."""
    total = 0.0
    for r in range(names.first[x], names.first[x + 1]):
        part = 0.0
        for s in range(names.first[y], names.first[y + 1]):
            part += E[e, names.base[r] + s] * into[t, s]
        total += alpha[t - 1, r] * part
    return total


@kernel
def _sums(alpha, beta, t, names, labels, pairs):
    """labels [L] = P(label at t), and of second order pairs [L, L] = P(labels at t-1, t)."""
    labels[:] = 0
    second = pairs.shape[0] > 0
    if second:
        pairs[:] = 0
    for q in range(names.label.shape[0]):
        p = alpha[t, q] * beta[t, q]
        labels[names.label[q]] += p
        if second and names.before[q] >= 0:
            pairs[names.before[q], names.label[q]] += p


@kernel
def marginals(psi, E, blocks, names, offsets, begin, ptr, label, pair_ptr, failed, out):
    """out[slot] = P(label at t), P(labels at t-1, t) of the candidates of these sentences.

    psi [T, Q] and E [1 or T, A] as in kernels.chain; offsets [N+1] and ptr, pair_ptr count from token `begin` of the
    whole corpus.  failed[n]: the numbers of sentence n are too small or too large."""
    longest = 1
    for n in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    width, L = psi.shape[1], names.first.shape[0] - 1
    alpha, beta, into = (
        np.empty((longest, width), psi.dtype),
        np.empty((longest, width), psi.dtype),
        np.empty((longest, width), psi.dtype),
    )
    scale = np.empty(longest, psi.dtype)
    labels = np.empty(L, np.float64)
    second = names.before[0] >= -1
    pairs = np.empty((L if second else 0, L), np.float64)
    for n in range(offsets.shape[0] - 1):
        a, T = offsets[n] - begin, offsets[n + 1] - offsets[n]
        failed[n] = T > 0 and not _messages(psi, a, T, E, blocks, alpha, beta, into, scale)
        if failed[n]:
            continue
        for t in range(T):
            g = offsets[n] + t
            _sums(alpha, beta, t, names, labels, pairs)
            for i in range(ptr[g], ptr[g + 1]):
                out[i] = labels[label[i]]
            if t > 0:
                k = pair_ptr[g]
                for i in range(ptr[g - 1], ptr[g]):
                    for j in range(ptr[g], ptr[g + 1]):
                        if second:
                            out[k] = pairs[label[i], label[j]]
                        else:
                            e = a + t if E.shape[0] > 1 else 0
                            out[k] = _pair(alpha, into, t, E, e, names, label[i], label[j])
                        k += 1


@kernel
def covariances(psi, E, blocks, names, offsets, begin, ptr, label, pair_ptr, pull, skip, nodes, arcs):
    """Add to nodes [T, Q] the covariance of every node with the gain of a path, whose derivatives `pull` holds by
    slots; likewise to arcs [T, A], or to arcs [1, A], divided by E, where all tokens share E.

    Sentences with skip[n] are left alone."""
    longest = 1
    for n in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    width = psi.shape[1]
    zero = psi[0, 0] * 0
    alpha, beta, into = (
        np.empty((longest, width), psi.dtype),
        np.empty((longest, width), psi.dtype),
        np.empty((longest, width), psi.dtype),
    )
    ahead, behind, gamma = (
        np.empty((longest, width), psi.dtype),  # alpha'
        np.empty((longest, width), psi.dtype),  # beta'
        np.empty((longest, width), psi.dtype),
    )
    turned = np.empty((1, width), psi.dtype)  # psi (beta' + gamma beta) / c
    scale = np.empty(longest, psi.dtype)
    second = names.before[0] >= -1
    by_token = E.shape[0] > 1
    source_ptr, source, target, arc_ptr = blocks.source_ptr, blocks.source, blocks.target, blocks.arc_ptr
    for n in range(offsets.shape[0] - 1):
        a, T = offsets[n] - begin, offsets[n + 1] - offsets[n]
        if T == 0 or skip[n] or not _messages(psi, a, T, E, blocks, alpha, beta, into, scale):
            continue
        for t in range(T):
            g = offsets[n] + t
            e = a + t if by_token else 0
            _gains(t, g, names, second, ptr, label, pair_ptr, pull, gamma)
            mean = 0.0
            for q in range(names.label.shape[0]):
                mean += gamma[t, q] * alpha[t, q] * beta[t, q]
            if t > 0 and not second:
                k = pair_ptr[g]
                for i in range(ptr[g - 1], ptr[g]):
                    for j in range(ptr[g], ptr[g + 1]):
                        if pull[k] != 0:
                            mean += pull[k] * _pair(alpha, into, t, E, e, names, label[i], label[j])
                        k += 1
            for q in range(width):
                gamma[t, q] -= mean
            if t > 0:
                _onwards(ahead, t - 1, E, e, blocks, ahead, t)
                if not second:
                    k = pair_ptr[g]
                    for i in range(ptr[g - 1], ptr[g]):
                        for j in range(ptr[g], ptr[g + 1]):
                            if pull[k] != 0:
                                for r in range(names.first[label[i]], names.first[label[i] + 1]):
                                    w = pull[k] * alpha[t - 1, r]
                                    for s in range(names.first[label[j]], names.first[label[j] + 1]):
                                        ahead[t, s] += w * E[e, names.base[r] + s]
                            k += 1
            one = 1 / scale[t]
            for q in range(width):
                arrived = ahead[t, q] * psi[a + t, q] * one if t > 0 else zero
                ahead[t, q] = arrived + gamma[t, q] * alpha[t, q]
        for q in range(width):
            behind[T - 1, q] = 0
        for t in range(T - 1, -1, -1):
            g = offsets[n] + t
            e = a + t if by_token else 0
            for q in range(width):
                nodes[a + t, q] += ahead[t, q] * beta[t, q] + alpha[t, q] * behind[t, q]
            if t == 0:
                break
            one = 1 / scale[t]
            for q in range(width):
                turned[0, q] = psi[a + t, q] * one * behind[t, q] + gamma[t, q] * into[t, q]
            _returns(turned, 0, E, e, blocks, behind, t - 1)
            for b in range(arc_ptr.shape[0] - 1):
                s0, at = np.uint64(target[b]), np.uint64(arc_ptr[b])
                columns = np.uint64(target[b + 1]) - s0
                for i in range(source_ptr[b], source_ptr[b + 1]):
                    v, w = ahead[t - 1, source[i]], alpha[t - 1, source[i]]
                    if by_token:
                        for s in range(columns):
                            arcs[e, at + s] += E[e, at + s] * (v * into[t, s0 + s] + w * turned[0, s0 + s])
                    else:
                        for s in range(columns):
                            arcs[0, at + s] += v * into[t, s0 + s] + w * turned[0, s0 + s]
                    at += columns
            if second:
                continue
            k = pair_ptr[g]
            for i in range(ptr[g - 1], ptr[g]):
                for j in range(ptr[g], ptr[g + 1]):
                    if pull[k] != 0:
                        for r in range(names.first[label[i]], names.first[label[i] + 1]):
                            for s in range(names.first[label[j]], names.first[label[j] + 1]):
                                gain = pull[k] * into[t, s]
                                back = gain * E[e, names.base[r] + s]
                                behind[t - 1, r] += back
                                arcs[e, names.base[r] + s] += alpha[t - 1, r] * (back if by_token else gain)
                    k += 1


@kernel
def _gains(t, g, names, second, ptr, label, pair_ptr, pull, gamma):
    """gamma[t] = the gains of the nodes of token t, which is token g of the corpus."""
    for q in range(gamma.shape[1]):
        gamma[t, q] = 0
    if not second:
        for i in range(ptr[g], ptr[g + 1]):
            for q in range(names.first[label[i]], names.first[label[i] + 1]):
                gamma[t, q] = pull[i]
        return
    for q in range(names.label.shape[0]):
        for j in range(ptr[g], ptr[g + 1]):
            if label[j] == names.label[q]:
                gamma[t, q] += pull[j]
                if t > 0:
                    k = pair_ptr[g] + j - ptr[g]
                    for i in range(ptr[g - 1], ptr[g]):
                        if label[i] == names.before[q]:
                            gamma[t, q] += pull[k]
                        k += ptr[g + 1] - ptr[g]
