"""Sums over all paths of chains in NumPy: exponentials, rows of arcs, and the messages of one sentence step by step."""

from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels.common import trusted_range

_LOWEST = np.float32(-87.0)  # the logarithm of the smallest float32 that is normal


class _Order(NamedTuple):
    """The tokens of sentences in time order: all first tokens, all second tokens, ..."""

    token: Any  # [T]
    steps: list[int]  # [longest + 1]
    sentence: Any  # [T]


def _time_order(offsets):
    """The time order of the sentences offsets[n]:offsets[n+1] (see structures.timeorder)."""
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    longest = int(lengths[0]) if len(lengths) else 0
    going = np.searchsorted(-lengths, -np.arange(longest), side="left")
    steps = np.concatenate([[0], np.cumsum(going)])
    rank = np.arange(steps[-1]) - np.repeat(steps[:-1], going)
    token = (offsets[:-1] - offsets[0])[order][rank] + np.repeat(np.arange(longest), going)
    return _Order(token, steps.tolist(), order[rank])


class _Run(NamedTuple):
    """Neighbouring blocks of the same size: matrices from their sources to their targets."""

    sources: Any  # [blocks * sources]  nodes, or a slice
    targets: slice
    arcs: slice
    shape: tuple[int, int, int]  # blocks, sources, targets


def _runs(blocks):
    """The blocks of a graph, those of the same size together; blocks without arcs aside."""
    source_ptr, source, target, arc_ptr = blocks
    if len(arc_ptr) == 2:
        Q = len(source)
        return [_Run(slice(0, Q), slice(0, int(target[1])), slice(0, int(arc_ptr[1])), (1, Q, int(target[1])))]
    ends = list(zip(source_ptr.tolist(), target.tolist(), arc_ptr.tolist(), strict=True))
    runs, b = [], 0
    while b < len(ends) - 1:
        shape = ends[b + 1][0] - ends[b][0], ends[b + 1][1] - ends[b][1]
        end = b + 1
        while end < len(ends) - 1 and (ends[end + 1][0] - ends[end][0], ends[end + 1][1] - ends[end][1]) == shape:
            end += 1
        (s, t, a), (s1, t1, a1) = ends[b], ends[end]
        if a1 > a:
            runs.append(_Run(source[s:s1], slice(t, t1), slice(a, a1), (end - b, *shape)))
        b = end
    return runs


def _matrices(run, numbers):
    """The numbers of the arcs [1|T, A] as matrices [1|T, blocks, sources, targets]: a view."""
    return numbers[:, run.arcs].reshape(len(numbers), *run.shape)


def _messages(psi, E, blocks):
    """alpha, beta, into = psi beta / c [T, Q] of one sentence, c [T], and the sums of beta_t [T]."""
    T, Q = psi.shape
    alpha, beta, into = np.empty((3, *psi.shape), psi.dtype)
    scale, ones = np.empty(T, psi.dtype), np.ones(Q, psi.dtype)
    onwards, backwards = _products(E, blocks, T)
    with np.errstate(all="ignore"):
        before = alpha[0]
        before[:] = psi[0]
        scale[0] = total = before.dot(ones)
        before /= total
        for t in range(1, T):
            here = alpha[t]
            onwards(t, before, here)
            here *= psi[t]
            scale[t] = total = here.dot(ones)
            here /= total
            before = here
        np.divide(psi, scale[:, None], out=into)
        after = beta[T - 1]
        after[:] = 1
        for t in range(T - 1, 0, -1):
            arrived = into[t]
            arrived *= after
            after = beta[t - 1]
            backwards(t, arrived, after)
        into[0] *= after
    return alpha, beta, into, scale, beta.sum(axis=1)


def _products(E, blocks, T):
    """Functions that multiply a vector over nodes with the arcs E [1|T, A] into token t, from sources to targets and
    back: f(t, x, out)."""
    parts = [(run, _matrices(run, E)) for run in _runs(blocks)]
    if len(blocks.arc_ptr) == 2:
        M = list(parts[0][1][:, 0])
        M = M * T if len(M) == 1 else M

        def onwards(t, x, out):
            x.dot(M[t], out=out)

        def backwards(t, x, out):
            M[t].dot(x, out=out)

        return onwards, backwards
    row = range(T) if len(E) > 1 else [0] * T

    def onwards_in_blocks(t, x, out):
        out[:] = 0
        for run, M in parts:
            out[run.targets] = np.matmul(x[run.sources].reshape(run.shape[0], 1, -1), M[row[t]]).reshape(-1)

    def backwards_in_blocks(t, x, out):
        out[:] = 0
        for run, M in parts:
            out[run.sources] = np.matmul(M[row[t]], x[run.targets].reshape(run.shape[0], -1, 1)).reshape(-1)

    return onwards_in_blocks, backwards_in_blocks


def _is_trusted(scale, sums, itemsize):
    """Are the scales and messages of a sentence neither too small nor too large?"""
    small, large = trusted_range(itemsize)
    with np.errstate(all="ignore"):
        return bool(((scale > small) & (sums / scale < large)).all())


def exponentiate32(x, top, width):
    _exponentiate(x, top, width, _LOWEST)


def exponentiate64(x, top, width):
    _exponentiate(x, top, width, None)


def _exponentiate(x, top, width, lowest):
    part = x[:, :width]
    part.max(axis=1, out=top)
    known = np.isfinite(top)
    all_known = bool(known.all())
    with np.errstate(invalid="ignore"):
        part -= top[:, None]
        if lowest is not None:
            np.maximum(part, lowest, out=part)
        np.exp(part, out=part)
    x[:, width:] = 0
    if not all_known:
        x[~known] = 0


def exponentiate_arcs(arc, E, top):
    begin = 1 if len(arc) > 1 else 0
    E[:begin] = 0
    top[:begin] = 0
    arc[begin:].max(axis=1, out=top[begin:])
    with np.errstate(invalid="ignore"):
        np.exp(arc[begin:] - top[begin:, None], out=E[begin:])
    E[~np.isfinite(top)] = 0


def pair_nodes(state, edge, used, plain, node_state, node):
    n = len(plain)
    state.take(node_state[:n], axis=1, out=node[:, :n], mode="clip")
    node[:, :n] += plain.astype(node.dtype)
    known = np.flatnonzero(used >= 0)
    if len(known):
        node[:, used[known]] += edge[:, known]


def pair_counts(node, used, node_state, state, edge, plain):
    counts = node[:, : len(plain)]
    order = np.argsort(node_state[: len(plain)], kind="stable")
    ordered = node_state[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    state[:] = 0
    state[:, ordered[first]] = np.add.reduceat(counts.take(order, axis=1), first, axis=1)
    plain += counts.sum(axis=0, dtype=np.float64)
    gather_arcs(node, used, edge)


def spread_arcs(rows, used, base, out):
    known = np.flatnonzero(used >= 0)
    out[:] = base
    out[:, used[known]] += rows[:, known]


def spread_exponentials(rows, used, base, out):
    known = np.flatnonzero(used >= 0)
    column = np.full(out.shape[1], len(used))
    column[used[known]] = known
    rows.take(column, axis=1, out=out, mode="clip")
    out *= base


def gather_arcs(arcs, used, rows):
    n = len(used)
    rows[:, :n] = arcs.take(np.maximum(used, 0), axis=1) * (used >= 0)
    rows[:, n:] = 0
