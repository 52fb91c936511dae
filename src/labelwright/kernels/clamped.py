"""Sums over the latent paths of *one* labelling: the observed half of a latent model's gradient.

A labelling follows `contexts` (graph.Contexts): at token t only the nodes of its context take part,
each named by its slot there, and from a node only the arcs to its targets with the next label, each
named by the number of the target among those.
"""

import numpy as np

from labelwright.kernels import kernel, literal_kernel, unsigned
from labelwright.kernels.common import log_sum, plan, softmax, subtract_largest, trusted_range


@kernel
def _follow(label, contexts, at):
    """at [T] = the contexts of a labelling; False where it takes a forbidden step."""
    c = contexts.opening[label[0]]
    at[0] = c
    for t in range(1, label.shape[0]):
        if c >= 0:
            c = contexts.following[c, label[t]]
        at[t] = c
    return c >= 0


@_follow.in_numpy
def _(label, contexts, at):
    if len(contexts.cut) == 1:  # order 1: the context is the label
        at[: len(label)] = label
        return True
    return _follow.function(label, contexts, at)


@kernel
def _places(label, at, contexts, size, slot, targets):
    """size [T] = nodes of each context; from the i-th at t-1 targets[t, i] arcs lead to slot[t, i]
    and onwards."""
    ptr, nodes, block, cut = contexts.ptr, contexts.node, contexts.block, contexts.cut
    for t in range(label.shape[0]):
        size[t] = ptr[at[t] + 1] - ptr[at[t]]
        if t > 0:
            y = label[t]
            for i in range(size[t - 1]):
                b = block[nodes[ptr[at[t - 1]] + i]]
                slot[t, i] = contexts.slot[cut[b, y]]
                targets[t, i] = cut[b, y + 1] - cut[b, y]


@kernel
def _clamp(
    psi, E, row, a, T, label, at, contexts, size, slot, targets, alpha, scale, states, pairs
):
    """Posteriors of one labelling, of the tokens a:a+T (at rows row[a:a+T]), in scaled space;
    returns log of the scaled sum, or NaN where it may underflow."""
    by_token = E.shape[0] > 1
    small, large = trusted_range(psi.itemsize)
    ptr, nodes, block, base, cut = (
        contexts.ptr,
        contexts.node,
        contexts.block,
        contexts.base,
        contexts.cut,
    )
    log_z = 0.0
    for t in range(T):
        total = 0.0
        for s in range(size[t]):
            alpha[t, s] = 0.0 if t > 0 else 1.0
        if t > 0:
            e = row[a + t] if by_token else 0
            i0, y = ptr[at[t - 1]], label[t]
            for r in range(size[t - 1]):
                q = nodes[i0 + r]
                v, first, arc = (
                    alpha[t - 1, r],
                    unsigned(slot[t, r]),
                    unsigned(base[q] + cut[block[q], y]),
                )
                for k in range(unsigned(targets[t, r])):
                    alpha[t, first + k] += v * E[e, arc + k]
        i0 = ptr[at[t]]
        for s in range(size[t]):
            alpha[t, s] *= psi[row[a + t], nodes[i0 + s]]
            total += alpha[t, s]
        if not total > small:
            return np.nan
        scale[t] = total
        log_z += np.log(total)
        for s in range(size[t]):
            alpha[t, s] /= total
    beta = np.ones(alpha.shape[1])
    into = np.empty(alpha.shape[1])
    for t in range(T - 1, -1, -1):
        total = 0.0
        i0 = ptr[at[t]]
        for s in range(size[t]):
            total += beta[s]
            states[a + t, s] = alpha[t, s] * beta[s]
            into[s] = psi[row[a + t], nodes[i0 + s]] * beta[s] / scale[t]
        if not total / scale[t] < large:
            return np.nan
        if t > 0:
            e = row[a + t] if by_token else 0
            i0, y = ptr[at[t - 1]], label[t]
            for r in range(size[t - 1]):
                q = nodes[i0 + r]
                first, arc = unsigned(slot[t, r]), unsigned(base[q] + cut[block[q], y])
                total, before = 0.0, alpha[t - 1, r]
                for k in range(unsigned(targets[t, r])):
                    v = E[e, arc + k] * into[first + k]
                    pairs[a + t, r, k] = before * v
                    total += v
                beta[r] = total
    return log_z


@literal_kernel
def clamped_in_log_space(node, arc, contexts, label, states, pairs):
    """`clamped_posteriors` of one sentence for scores of any scale: node [T, Q] and arc [T or 1,
    A]; returns log Z."""
    T = label.shape[0]
    at = np.empty(T, np.int64)
    size = np.empty(T, np.int64)
    slot = np.empty((T, states.shape[1]), np.int64)
    targets = np.empty((T, states.shape[1]), np.int64)
    _follow(label, contexts, at)
    _places(label, at, contexts, size, slot, targets)
    by_token = arc.shape[0] > 1
    ptr, nodes, block, base, cut = (
        contexts.ptr,
        contexts.node,
        contexts.block,
        contexts.base,
        contexts.cut,
    )
    C = states.shape[1]
    beta = np.zeros((T, C))  # log of the backward messages, less the largest of each token
    p = np.empty(C)
    log_z = 0.0
    for t in range(T - 1, 0, -1):
        e, y = t if by_token else 0, label[t]
        for r in range(size[t - 1]):
            q = nodes[ptr[at[t - 1]] + r]
            k0 = cut[block[q], y]
            for k in range(targets[t, r]):
                p[k] = arc[e, base[q] + k0 + k] + node[t, k0 + k] + beta[t, slot[t, r] + k]
            beta[t - 1, r] = log_sum(p, targets[t, r])
        log_z += subtract_largest(beta[t - 1], 0, size[t - 1])
    for r in range(size[0]):
        states[0, r] = node[0, nodes[ptr[at[0]] + r]] + beta[0, r]
    log_z += softmax(states[0], size[0])
    for t in range(1, T):
        e, y = t if by_token else 0, label[t]
        for s in range(size[t]):
            states[t, s] = 0.0
        for r in range(size[t - 1]):
            q = nodes[ptr[at[t - 1]] + r]
            k0 = cut[block[q], y]
            for k in range(targets[t, r]):
                p[k] = arc[e, base[q] + k0 + k] + node[t, k0 + k] + beta[t, slot[t, r] + k]
            softmax(p, targets[t, r])
            for k in range(targets[t, r]):
                pairs[t, r, k] = states[t - 1, r] * p[k]
                states[t, slot[t, r] + k] += pairs[t, r, k]
    return log_z


@literal_kernel
def labelling_weight(node, arc, contexts, label):
    """log of the summed weight of all latent paths of one labelling [T]: the clamped forward
    pass."""
    T = label.shape[0]
    by_token = arc.shape[0] > 1
    ptr, nodes, block, base, cut = (
        contexts.ptr,
        contexts.node,
        contexts.block,
        contexts.base,
        contexts.cut,
    )
    places = contexts.slot
    at = np.empty(T, np.int64)
    if not _follow(label, contexts, at):
        return -np.inf
    C = 0
    for t in range(T):
        C = max(C, ptr[at[t] + 1] - ptr[at[t]])
    alpha = np.empty(C)
    new = np.empty(C)
    top = np.empty(C)
    for i in range(ptr[at[0]], ptr[at[0] + 1]):
        alpha[i - ptr[at[0]]] = node[0, nodes[i]]
    for t in range(1, T):
        e, y = t if by_token else 0, label[t]
        i0, i1 = ptr[at[t - 1]], ptr[at[t - 1] + 1]
        size = ptr[at[t] + 1] - ptr[at[t]]
        for s in range(size):
            top[s] = -np.inf
            new[s] = 0.0
        for i in range(i0, i1):
            q = nodes[i]
            for k in range(cut[block[q], y], cut[block[q], y + 1]):
                top[places[k]] = max(top[places[k]], alpha[i - i0] + arc[e, base[q] + k])
        for i in range(i0, i1):
            q = nodes[i]
            for k in range(cut[block[q], y], cut[block[q], y + 1]):
                s = places[k]
                if top[s] > -np.inf:
                    new[s] += np.exp(alpha[i - i0] + arc[e, base[q] + k] - top[s])
        for s in range(size):
            more = np.log(new[s]) + top[s] if top[s] > -np.inf else -np.inf
            alpha[s] = more + node[t, nodes[ptr[at[t]] + s]]
    return log_sum(alpha, ptr[at[T - 1] + 1] - ptr[at[T - 1]])


@labelling_weight.in_numpy
def _(node, arc, contexts, label):
    at = np.empty(len(label), np.int64)
    if not _follow(label, contexts, at):
        return -np.inf
    if (contexts.ptr[at + 1] - contexts.ptr[at] > 1).any():
        return labelling_weight.function(node, arc, contexts, label)
    path, t = contexts.node[contexts.ptr[at]], np.arange(len(label))
    arcs = contexts.base[path[:-1]] + path[1:]
    return node[t, path].sum() + arc[t[1:] if len(arc) > 1 else 0, arcs].sum()


@kernel
def clamped_posteriors(psi, top, E, arc_top, row, contexts, label, offsets, log_z, states, pairs):
    """Fill log_z [N] with log Z of each sentence's labelling, states [T, C] with P(node in its slot
    at t | labelling) and pairs [T, C, H] with P(node in its slot at t-1, its k-th target at t |
    labelling).

    psi [T, Q] = exp(node - top) and E [T or 1, A] = exp(arc - arc_top) have the token t of these
    sentences at row[t]. Where numbers are too small to trust, log_z is NaN (see
    clamped_in_log_space).

    Only the nodes of the labelling are touched: the same sums in time order, as dense products with
    all other nodes at 0, take 2.6 times as long (44 states, 4 for each label, ARM)."""
    begin = offsets[0]
    by_token = E.shape[0] > 1
    C = pairs.shape[1]
    longest = 0
    for n in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    alpha = np.empty((longest, C))
    scale = np.empty(longest)
    at = np.empty(longest, np.int64)
    size = np.empty(longest, np.int64)
    slot = np.empty((longest, C), np.int64)
    targets = np.empty((longest, C), np.int64)
    for n in range(offsets.shape[0] - 1):
        a, T = offsets[n] - begin, offsets[n + 1] - offsets[n]
        y = label[a : a + T]
        _follow(y, contexts, at)
        _places(y, at, contexts, size, slot, targets)
        log_z[n] = _clamp(
            psi, E, row, a, T, y, at, contexts, size, slot, targets, alpha, scale, states, pairs
        )
        for t in range(T):
            log_z[n] += top[row[a + t]]
            if t > 0:
                log_z[n] += arc_top[row[a + t] if by_token else 0]


@kernel
def subtract_clamped(node, arcs, contexts, label, offsets, states, pairs, row):
    """Take the clamped posteriors from the free ones: node [T, Q], arcs [T or 1, A] (one row: sums
    over tokens); the token t of these sentences is at row[t]."""
    begin = offsets[0]
    by_token = arcs.shape[0] > 1
    ptr, nodes, block, base, cut = (
        contexts.ptr,
        contexts.node,
        contexts.block,
        contexts.base,
        contexts.cut,
    )
    for n in range(offsets.shape[0] - 1):
        c = np.int64(-1)
        for t in range(offsets[n] - begin, offsets[n + 1] - begin):
            y = label[t]
            if c >= 0:
                e = row[t] if by_token else 0
                for i in range(ptr[c], ptr[c + 1]):
                    q = nodes[i]
                    k0 = cut[block[q], y]
                    arc, r = unsigned(base[q] + k0), i - ptr[c]
                    for k in range(unsigned(cut[block[q], y + 1] - k0)):
                        arcs[e, arc + k] -= pairs[t, r, k]
            c = contexts.following[c, y] if c >= 0 else contexts.opening[y]
            for i in range(ptr[c], ptr[c + 1]):
                node[row[t], nodes[i]] -= states[t, i - ptr[c]]


@kernel
def paths_of(label, contexts, offsets, path):
    """path [T] = the nodes of the labellings of all sentences, where every context has one."""
    for n in range(offsets.shape[0] - 1):
        c = np.int64(-1)
        for t in range(offsets[n], offsets[n + 1]):
            c = contexts.following[c, label[t]] if t > offsets[n] else contexts.opening[label[t]]
            path[t] = contexts.node[contexts.ptr[c]]


@paths_of.in_numpy
def _(label, contexts, offsets, path):
    order, label = plan(offsets), label[offsets[0] :]
    at = contexts.opening[label[order.token]]
    for t in range(1, len(order.steps) - 1):
        a, b = order.steps[t], order.steps[t + 1]
        at[a:b] = contexts.following[at[order.steps[t - 1] :][: b - a], label[order.token[a:b]]]
    path[offsets[0] + order.token] = contexts.node[contexts.ptr[at]]
