"""Sums over the latent paths of *one* labelling: the observed half of a latent model's gradient.

A labelling follows `contexts` (structures.states.Contexts): at token t only the nodes of its
context take part, each named by its slot there, and from a node only the arcs to its targets with
the next label, each named by the number of the target among those.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.common import (
    largest_message,
    log_sum,
    smallest_scale,
    softmax,
    subtract_largest,
)
from cython.cimports.labelwright.kernels.graph import contexts_view
from cython.cimports.libc.math import INFINITY, NAN, exp, log


class ClampedScratch:
    """What sums over a labelling need beside their results: for labellings of up to so many tokens,
    and contexts of up to so many nodes.

    at is the context of each token and size its number of nodes; from its i-th node at t-1,
    targets[t, i] arcs lead to slot[t, i] and onwards, and arc[t, i] is the first of them."""

    def __init__(self, n_tokens, n_nodes):
        self.messages = np.empty((n_tokens, n_nodes))
        self.scale = np.empty(n_tokens)
        self.nodes = np.empty((3, n_nodes))
        tokens = np.empty((2, n_tokens), np.int64)
        self.at = tokens[0]
        self.size = tokens[1]
        places = np.empty((3, n_tokens, n_nodes), np.int64)
        self.slot = places[0]
        self.targets = places[1]
        self.arc = places[2]


def _follow(label, first, T, contexts, at):
    """at [T] = the contexts of the labelling label[first:first+T]; False where it takes a forbidden
    step."""
    c = contexts.opening[label[first]]
    at[0] = c
    for t in range(1, T):
        if c >= 0:
            c = contexts.following[c, label[first + t]]
        at[t] = c
    return c >= 0


def _places(label, first, T, contexts, scratch):
    """Fill the rest of the places of a labelling that is followed."""
    at = scratch.at
    size = scratch.size
    slot = scratch.slot
    targets = scratch.targets
    arc = scratch.arc
    for t in range(T):
        size[t] = contexts.ptr[at[t] + 1] - contexts.ptr[at[t]]
        if t > 0:
            y = label[first + t]
            for i in range(size[t - 1]):
                q = contexts.node[contexts.ptr[at[t - 1]] + i]
                b = contexts.block[q]
                k = contexts.cut[b, y]
                slot[t, i] = contexts.slot[k] if k < contexts.slot.shape[0] else 0
                targets[t, i] = contexts.cut[b, y + 1] - k
                arc[t, i] = contexts.base[q] + k


def _clamp(psi, E, row, a, T, contexts, scratch, states, pairs):
    """Posteriors of one labelling, of the tokens a:a+T (at rows row[a:a+T]), in scaled space;
    returns log of the scaled sum, or NaN where it may underflow."""
    by_token = E.shape[0] > 1
    itemsize = cython.sizeof(psi[0, 0])
    small = smallest_scale(itemsize)
    large = largest_message(itemsize)
    alpha = scratch.messages
    scale = scratch.scale
    beta = scratch.nodes[0]
    into = scratch.nodes[1]
    at = scratch.at
    size = scratch.size
    slot = scratch.slot
    targets = scratch.targets
    first_arc = scratch.arc
    nodes = contexts.node
    log_z = 0.0
    for t in range(T):
        here = row[a + t]
        i0 = contexts.ptr[at[t]]
        for s in range(size[t]):
            alpha[t, s] = 0 if t > 0 else 1
        if t > 0:
            e = here if by_token else 0
            for r in range(size[t - 1]):
                v = alpha[t - 1, r]
                first = slot[t, r]
                arc = first_arc[t, r]
                for k in range(targets[t, r]):
                    alpha[t, first + k] += v * E[e, arc + k]
        total = 0.0
        for s in range(size[t]):
            alpha[t, s] *= psi[here, nodes[i0 + s]]
            total += alpha[t, s]
        if not total > small:
            return NAN
        scale[t] = total
        log_z += log(total)
        one = 1 / total
        for s in range(size[t]):
            alpha[t, s] *= one
    for s in range(beta.shape[0]):
        beta[s] = 1
    for t in range(T - 1, -1, -1):
        here = row[a + t]
        i0 = contexts.ptr[at[t]]
        one = 1 / scale[t]
        total = 0.0
        for s in range(size[t]):
            total += beta[s]
            states[a + t, s] = alpha[t, s] * beta[s]
            into[s] = psi[here, nodes[i0 + s]] * beta[s] * one
        if not total * one < large:
            return NAN
        if t > 0:
            e = here if by_token else 0
            for r in range(size[t - 1]):
                before = alpha[t - 1, r]
                first = slot[t, r]
                arc = first_arc[t, r]
                total = 0.0
                for k in range(targets[t, r]):
                    v = E[e, arc + k] * into[first + k]
                    pairs[a + t, r, k] = before * v
                    total += v
                beta[r] = total
    return log_z


def clamped_in_log_space(node, arc, contexts, label, states, pairs):
    """`clamped_posteriors` of one sentence for scores of any scale: node [T, Q] and arc [T or 1,
    A]; returns log Z."""
    view = contexts_view(contexts)
    scratch = ClampedScratch(label.shape[0], states.shape[1])
    with cython.nogil:
        log_z = _clamped_in_log_space(
            node, arc, view, label, 0, label.shape[0], states, pairs, scratch
        )
    return log_z


def _clamped_in_log_space(node, arc, contexts, label, first, T, states, pairs, scratch):
    """`clamped_in_log_space` of the labelling label[first:first+T]."""
    by_token = arc.shape[0] > 1
    beta = scratch.messages  # log of the backward messages, less the largest of each token
    p = scratch.nodes[0]
    at = scratch.at
    size = scratch.size
    slot = scratch.slot
    targets = scratch.targets
    nodes = contexts.node
    ptr = contexts.ptr
    if not _follow(label, first, T, contexts, at):
        return -INFINITY
    _places(label, first, T, contexts, scratch)
    for s in range(beta.shape[1]):
        beta[T - 1, s] = 0
    log_z = 0.0
    for t in range(T - 1, 0, -1):
        e = t if by_token else 0
        for r in range(size[t - 1]):
            q = nodes[ptr[at[t - 1]] + r]
            _weigh(node, arc, e, contexts, t, q, label[first + t], slot[t, r], beta, p)
            beta[t - 1, r] = log_sum(p, targets[t, r])
        log_z += subtract_largest(beta[t - 1], 0, size[t - 1])
    for r in range(size[0]):
        states[0, r] = node[0, nodes[ptr[at[0]] + r]] + beta[0, r]
    log_z += softmax(states[0], size[0])
    for t in range(1, T):
        e = t if by_token else 0
        for s in range(size[t]):
            states[t, s] = 0
        for r in range(size[t - 1]):
            q = nodes[ptr[at[t - 1]] + r]
            _weigh(node, arc, e, contexts, t, q, label[first + t], slot[t, r], beta, p)
            softmax(p, targets[t, r])
            for k in range(targets[t, r]):
                pairs[t, r, k] = states[t - 1, r] * p[k]
                states[t, slot[t, r] + k] += pairs[t, r, k]
    return log_z


def _weigh(node, arc, e, contexts, t, q, y, slot, beta, p):
    """p[k] = log of what the k-th target of node q with label y, and all that follows, weigh."""
    b = contexts.block[q]
    k0 = contexts.cut[b, y]
    first = contexts.base[q] + k0
    for k in range(contexts.cut[b, y + 1] - k0):
        p[k] = arc[e, first + k] + node[t, k0 + k] + beta[t, slot + k]


def labelling_weight(node, arc, contexts, label):
    """log of the summed weight of all latent paths of one labelling [T]: the clamped forward
    pass."""
    view = contexts_view(contexts)
    at = np.empty(label.shape[0], np.int64)
    sums = np.empty((3, node.shape[1]))
    with cython.nogil:
        weight = _labelling_weight(node, arc, view, label, at, sums)
    return weight


def _labelling_weight(node, arc, contexts, label, at, sums):
    T = label.shape[0]
    by_token = arc.shape[0] > 1
    ptr = contexts.ptr
    nodes = contexts.node
    places = contexts.slot
    alpha = sums[0]
    new = sums[1]
    top = sums[2]
    if not _follow(label, 0, T, contexts, at):
        return -INFINITY
    for i in range(ptr[at[0]], ptr[at[0] + 1]):
        alpha[i - ptr[at[0]]] = node[0, nodes[i]]
    for t in range(1, T):
        e = t if by_token else 0
        y = label[t]
        i0 = ptr[at[t - 1]]
        i1 = ptr[at[t - 1] + 1]
        size = ptr[at[t] + 1] - ptr[at[t]]
        for s in range(size):
            top[s] = -INFINITY
            new[s] = 0
        for i in range(i0, i1):
            q = nodes[i]
            b = contexts.block[q]
            a = contexts.base[q]
            for k in range(contexts.cut[b, y], contexts.cut[b, y + 1]):
                s = places[k]
                v = alpha[i - i0] + arc[e, a + k]
                top[s] = v if v > top[s] else top[s]
        for i in range(i0, i1):
            q = nodes[i]
            b = contexts.block[q]
            a = contexts.base[q]
            for k in range(contexts.cut[b, y], contexts.cut[b, y + 1]):
                s = places[k]
                if top[s] > -INFINITY:
                    new[s] += exp(alpha[i - i0] + arc[e, a + k] - top[s])
        for s in range(size):
            v = log(new[s]) + top[s] if top[s] > -INFINITY else -INFINITY
            alpha[s] = v + node[t, nodes[ptr[at[t]] + s]]
    return log_sum(alpha, ptr[at[T - 1] + 1] - ptr[at[T - 1]])


def clamped_posteriors(psi, top, E, arc_top, row, contexts, label, offsets, log_z, states, pairs):
    """Fill log_z [N] with log Z of each sentence's labelling, states [T, C] with P(node in its slot
    at t | labelling) and pairs [T, C, H] with P(node in its slot at t-1, its k-th target at t |
    labelling).

    psi [T, Q] = exp(node - top) and E [T or 1, A] = exp(arc - arc_top) have the token t of these
    sentences at row[t]. Where numbers are too small to trust, log_z is NaN (see
    clamped_in_log_space).

    Only the nodes of the labelling are touched: the same sums in time order, as dense products with
    all other nodes at 0, take 2.6 times as long (44 states, 4 for each label, ARM)."""
    view = contexts_view(contexts)
    longest = 0
    for n in range(offsets.shape[0] - 1):
        if offsets[n + 1] - offsets[n] > longest:
            longest = offsets[n + 1] - offsets[n]
    scratch = ClampedScratch(longest, pairs.shape[1])
    with cython.nogil:
        for n in range(offsets.shape[0] - 1):
            a = offsets[n] - offsets[0]
            T = offsets[n + 1] - offsets[n]
            if T == 0:
                log_z[n] = 0
            else:
                log_z[n] = _clamped_posteriors(
                    psi, top, E, arc_top, row, view, label, a, T, states, pairs, scratch
                )


def _clamped_posteriors(psi, top, E, arc_top, row, contexts, label, a, T, states, pairs, scratch):
    """`clamped_posteriors` of the tokens a:a+T, one sentence: returns log Z or NaN."""
    by_token = E.shape[0] > 1
    if not _follow(label, a, T, contexts, scratch.at):
        return NAN
    _places(label, a, T, contexts, scratch)
    log_z = _clamp(psi, E, row, a, T, contexts, scratch, states, pairs)
    for t in range(T):
        log_z += top[row[a + t]]
        if t > 0:
            log_z += arc_top[row[a + t] if by_token else 0]
    return log_z


def subtract_clamped(node, arcs, contexts, label, offsets, states, pairs, row):
    """Take the clamped posteriors from the free ones: node [T, Q], arcs [T or 1, A] (one row: sums
    over tokens); the token t of these sentences is at row[t]."""
    view = contexts_view(contexts)
    with cython.nogil:
        for n in range(offsets.shape[0] - 1):
            a = offsets[n] - offsets[0]
            b = offsets[n + 1] - offsets[0]
            _subtract_clamped(node, arcs, view, label, a, b, states, pairs, row)


def _subtract_clamped(node, arcs, contexts, label, a, b, states, pairs, row):
    """`subtract_clamped` of the tokens a:b, one sentence."""
    by_token = arcs.shape[0] > 1
    ptr = contexts.ptr
    nodes = contexts.node
    c = -1
    for t in range(a, b):
        y = label[t]
        if c >= 0:
            e = row[t] if by_token else 0
            i0 = ptr[c]
            for r in range(ptr[c + 1] - i0):
                q = nodes[i0 + r]
                block = contexts.block[q]
                k0 = contexts.cut[block, y]
                arc = contexts.base[q] + k0
                for k in range(contexts.cut[block, y + 1] - k0):
                    arcs[e, arc + k] -= pairs[t, r, k]
        c = contexts.following[c, y] if c >= 0 else contexts.opening[y]
        if c < 0:
            break
        i0 = ptr[c]
        for r in range(ptr[c + 1] - i0):
            node[row[t], nodes[i0 + r]] -= states[t, r]


def paths_of(label, contexts, offsets, path):
    """path [T] = the nodes of the labellings of all sentences, where every context has one."""
    view = contexts_view(contexts)
    with cython.nogil:
        for n in range(offsets.shape[0] - 1):
            c = -1
            for t in range(offsets[n], offsets[n + 1]):
                c = view.following[c, label[t]] if c >= 0 else view.opening[label[t]]
                path[t] = view.node[view.ptr[c]]
