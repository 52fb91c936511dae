"""Sums over the latent paths of one labelling in NumPy, for all sentences of a batch at once.

At token t the nodes of the context of its labels take part; the arcs into it make a small matrix from the slots of the
context before to those of its own, with 0 where there is no arc.  The sentences are sorted by length and go step by
step, as in structures.timeorder."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels.common import trusted_range
from labelwright.kernels.search import LEAST, SAFE_RANGE
from labelwright.kernels.vectorised.chain import _time_order
from labelwright.kernels.vectorised.common import _largest, _log_sums, _softmax


def _contexts_of(label, contexts, order):
    """The contexts [T] of the labellings of all sentences, in time order; -1 behind a forbidden step."""
    steps, y = order.steps, label[order.token]
    if len(contexts.cut) == 1:  # order 1: the context is the label
        return y
    at = np.empty(len(y), np.int64)
    at[: steps[1]] = contexts.opening[y[: steps[1]]]
    for t, (a, b) in enumerate(pairwise(steps[1:])):
        before = at[steps[t] : steps[t] + b - a]
        at[a:b] = np.where(before >= 0, contexts.following[before, y[a:b]], -1)
    return at


class _Places(NamedTuple):
    """Where the nodes and arcs of labellings are, token by token in time order.  Arcs are those into all tokens but the
    first ones: U = T - n_first."""

    node: Any  # [T, C]     nodes of the context
    arc: Any  # [U, C, H]  arcs from the slots before to the targets
    before: Any  # [U]        place of the token before
    slot: Any  # [U, C, H]  the slots of the targets; None where all are there, each at its own place (order 1)
    has_node: Any  # [T, C]     contexts may have fewer nodes; None where all have C
    has_arc: Any  # [U, C, H]

    def nodes(self, numbers, fill):
        """Numbers of the nodes [T, C], with `fill` where there is none."""
        return numbers if self.has_node is None else np.where(self.has_node, numbers, fill)

    def matrices(self, numbers, fill):
        """Numbers of the arcs [U, C, H] as matrices [U, C, C] from slot to slot, with `fill` where there is no arc."""
        if self.slot is None:
            return numbers
        matrices = np.full((*numbers.shape[:2], numbers.shape[1]), fill, numbers.dtype)
        t, i, k = np.nonzero(self.has_arc)
        matrices[t, i, self.slot[t, i, k]] = numbers[t, i, k]
        return matrices

    def arcs(self, matrices):
        """The inverse: numbers of the arcs [U, C, H] from matrices; 0 where there is no arc."""
        if self.slot is None:
            return matrices
        return np.where(self.has_arc, np.take_along_axis(matrices, self.slot, axis=2), 0)


def _places(label, contexts, order, C, H):
    steps = order.steps
    y, n_first, lengths = label[order.token], steps[1], np.diff(steps)
    before = np.repeat(np.array(steps[:-2], np.int64), lengths[1:]) + _counted(lengths[1:])
    slots = np.arange(C)
    if len(contexts.cut) == 1 and C == H and len(contexts.node) == C * len(contexts.opening):
        node = contexts.ptr[y][:, None] + slots
        arc = contexts.base[node][before][..., None] + node[n_first:, None]
        return _Places(node, arc, before, None, None, None)
    at = _contexts_of(label, contexts, order)
    has_node = slots < (contexts.ptr[at + 1] - contexts.ptr[at])[:, None]
    node = contexts.node[np.where(has_node, contexts.ptr[at][:, None] + slots, 0)]
    q = node[before]
    first = contexts.cut[contexts.block[q], y[n_first:, None]]
    n_targets = contexts.cut[contexts.block[q], y[n_first:, None] + 1] - first
    has_arc = (np.arange(H) < n_targets[..., None]) & has_node[before][..., None]
    k = np.where(has_arc, first[..., None] + np.arange(H), 0)
    arc = np.where(has_arc, contexts.base[q][..., None] + k, 0)
    return _Places(node, arc, before, np.where(has_arc, contexts.slot[k], 0), has_node, has_arc)


def _counted(sizes):
    """0, 1, ..., sizes[0] - 1, 0, 1, ..., sizes[1] - 1, ..."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def clamped_posteriors(psi, top, E, arc_top, row, contexts, label, offsets, log_z, states, pairs):
    """Fill log_z [N] with log Z of each sentence's labelling, states [T, C] with P(node in its slot at t | labelling)
    and pairs [T, C, H] with P(node in its slot at t-1, its k-th target at t | labelling).

    Where numbers are too small to trust, log_z is NaN."""
    by_token = len(E) > 1
    order = _time_order(offsets)
    steps, rows = order.steps, row[order.token]
    n_first = steps[1]
    places = _places(label, contexts, order, *pairs.shape[1:])
    weight = places.nodes(psi[rows[:, None], places.node], 0).astype(np.float64)
    M = places.matrices(E[rows[n_first:, None, None], places.arc] if by_token else E[0].take(places.arc), 0)
    alpha, beta, scale = np.empty_like(weight), np.ones_like(weight), np.empty(len(weight))
    with np.errstate(all="ignore"):
        for t, (a, b) in enumerate(pairwise(steps)):
            alpha[a:b] = weight[a:b]
            if t:
                before = alpha[steps[t - 1] : steps[t - 1] + b - a]
                alpha[a:b] *= np.einsum("nr,nrs->ns", before, M[a - n_first : b - n_first])
            scale[a:b] = alpha[a:b].sum(axis=1)
            alpha[a:b] /= scale[a:b, None]
        rate = weight / scale[:, None]
        into = rate.copy()
        for t in range(len(steps) - 2, 0, -1):
            a, b = steps[t], steps[t + 1]
            into[a:b] *= beta[a:b]
            behind = slice(steps[t - 1], steps[t - 1] + b - a)
            np.einsum("nrs,ns->nr", M[a - n_first : b - n_first], into[a:b], out=beta[behind])
        small, large = trusted_range(psi.itemsize)
        bad = ~((scale > small) & (places.nodes(beta, 0).sum(axis=1) / scale < large))
        log_c = np.log(scale) + top[rows]
        P = alpha[places.before][..., None] * M * into[n_first:, None]
    log_c[n_first:] += arc_top[rows[n_first:]] if by_token else arc_top[0]
    log_c[bad] = np.nan
    log_z[:] = np.bincount(order.sentence, log_c, len(log_z))
    states[order.token] = alpha * beta
    pairs[order.token[n_first:]] = places.arcs(P)


def subtract_clamped(node, arcs, contexts, label, offsets, states, pairs, row):
    """Take the clamped posteriors from the free ones: node [T, Q], arcs [T or 1, A] (one row: sums over tokens);
    the token t of these sentences is at row[t]."""
    order = _time_order(offsets)
    places = _places(label, contexts, order, *pairs.shape[1:])
    rows, later = row[order.token], order.token[order.steps[1] :]
    at, counts = rows[:, None] * node.shape[1] + places.node, states[order.token]
    of_arcs, p = places.arc, pairs[later]
    if len(arcs) > 1:
        of_arcs = rows[order.steps[1] :, None, None] * arcs.shape[1] + of_arcs
    if places.slot is not None:
        at, counts = at[places.has_node], counts[places.has_node]
        of_arcs, p = of_arcs[places.has_arc], p[places.has_arc]
    node.reshape(-1)[at.reshape(-1)] -= counts.reshape(-1)
    if len(arcs) > 1:
        arcs.reshape(-1)[of_arcs.reshape(-1)] -= p.reshape(-1)
    else:
        counted = np.bincount(of_arcs.reshape(-1), p.reshape(-1), arcs.shape[1])
        arcs[0] -= counted.astype(arcs.dtype, copy=False)


def clamped_in_log_space(node, arc, contexts, label, states, pairs):
    """`clamped_posteriors` of one sentence for scores of any scale: node [T, Q] and arc [T or 1, A]; returns log Z."""
    T, (C, H) = len(label), pairs.shape[1:]
    places = _places(label, contexts, _time_order(np.array([0, T])), C, H)
    scores, M = _scores_of(node, arc, places)
    beta, log_z = np.zeros((T, C)), 0.0
    for t in range(T - 1, 0, -1):
        log_beta = _log_sums(M[t - 1] + beta[t])
        top = float(_largest(log_beta)[0])
        beta[t - 1] = log_beta - top
        log_z += top
    log_z += float(_log_sums(scores + beta[0]))
    states[0] = _softmax(scores + beta[0])
    P = np.empty_like(M)
    for t in range(1, T):
        P[t - 1] = states[t - 1][:, None] * _softmax(M[t - 1] + beta[t])
        states[t] = P[t - 1].sum(axis=0)
    pairs[1:] = places.arcs(P)
    return log_z


def _scores_of(node, arc, places):
    """The scores of the first nodes [C] of a labelling of one sentence, and those of every later node together with the
    arcs into it: matrices [T - 1, C, C] from slot to slot."""
    token = np.arange(len(node))
    scores = places.nodes(node[token[:, None], places.node], -np.inf)
    M = arc[token[1:, None, None], places.arc] if len(arc) > 1 else arc[0].take(places.arc)
    return scores[0], places.matrices(M, -np.inf) + scores[1:, None]


def labelling_weight(node, arc, contexts, label):
    """log of the summed weight of all latent paths of one labelling [T]: the clamped forward pass."""
    ptr = contexts.ptr
    at = _follow(label, contexts)
    if at is None:
        return -np.inf
    sizes = ptr[at + 1] - ptr[at]
    C = int(sizes.max())
    if C == 1:
        path = contexts.node[ptr[at]]
        arcs = contexts.base[path[:-1]] + path[1:]
        weight = node[np.arange(len(path)), path].sum()
        return weight + (arc[np.arange(1, len(path)), arcs] if len(arc) > 1 else arc[0, arcs]).sum()
    H = int(np.diff(contexts.cut, axis=1).max())
    places = _places(label, contexts, _time_order(np.array([0, len(label)])), C, H)
    first, M = _scores_of(node, arc, places)
    weight = _scaled_weight(first, M)
    if np.isnan(weight):
        for scores in M:
            first = _log_sums((first[:, None] + scores).T)
        weight = float(_log_sums(first))
    return weight


def _scaled_weight(first, M):
    """log of the summed weight of the paths that begin with the scores first [C] and go on by M [T - 1, C, C]; NaN
    where numbers may underflow that could count later."""
    highest, top = first.max(), M.max(axis=(1, 2))
    least = np.where(np.isneginf(M), np.inf, M).min(axis=(1, 2))
    if not (np.isfinite(highest) and np.isfinite(top).all() and (top - least < SAFE_RANGE).all()):
        return np.nan
    E = np.exp(M - top[:, None, None])
    alpha, totals = np.empty((len(M) + 1, len(first))), np.ones(len(M) + 1)
    before = np.exp(first - highest, out=alpha[0])
    for t, step in enumerate(E, 1):
        here = before.dot(step, out=alpha[t])
        totals[t] = total = here.max()
        if not total > 0:
            return np.nan
        here /= total
        before = here
    if ((alpha > 0) & (alpha < LEAST)).any() or ((alpha[0] == 0) & (first > -np.inf)).any():
        return np.nan
    return highest + top.sum() + np.log(totals).sum() + np.log(before.sum())


def _follow(label, contexts):
    """The contexts [T] of one labelling; None where it takes a forbidden step."""
    if len(contexts.cut) == 1:  # order 1: the context is the label
        return label
    following, c = contexts.following, int(contexts.opening[label[0]])
    at = [c]
    for y in label[1:].tolist():
        if c < 0:
            return None
        c = int(following[c, y])
        at.append(c)
    return np.array(at) if c >= 0 else None


def paths_of(label, contexts, offsets, path):
    """path [T] = the nodes of the labellings of all sentences, where every context has one."""
    order = _time_order(offsets)
    at = _contexts_of(label[offsets[0] :], contexts, order)
    path[offsets[0] + order.token] = contexts.node[contexts.ptr[at]]
