"""Sums over all paths of chains in NumPy: exponentials, rows of arcs, and the messages of one
sentence step by step."""

import numpy as np

from labelwright.kernels.common import runs_of

_LOWEST = np.float32(-87.0)  # the logarithm of the smallest float32 that is normal


def _runs(blocks):
    """The blocks of a graph that have arcs, those of the same size together."""
    return [run for run in runs_of(blocks) if run.arcs.stop > run.arcs.start]


def _messages(psi, E, blocks):
    """alpha, beta, into = psi beta / c [T, Q] of one sentence, c [T], and the sums of beta_t
    [T]."""
    T, Q = psi.shape
    alpha, beta, into = np.empty((3, *psi.shape), psi.dtype)
    scale, ones = np.empty(T, psi.dtype), np.ones(Q, psi.dtype)
    onwards, backwards = _products(E, blocks, T)
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
    """Functions that multiply a vector over nodes with the arcs E [1|T, A] into token t, from
    sources to targets and back: f(t, x, out)."""
    parts = [(run, run.matrices(E)) for run in _runs(blocks)]
    if len(blocks.arc_ptr) == 2:
        M = list(parts[0][1][:, 0])
        M = M * T if len(M) == 1 else M
        return (lambda t, x, out: x.dot(M[t], out=out)), (lambda t, x, out: M[t].dot(x, out=out))
    row = range(T) if len(E) > 1 else [0] * T

    def onwards(t, x, out):
        out[:] = 0
        for run, M in parts:
            out[run.target] = np.matmul(
                x[run.nodes].reshape(run.shape[0], 1, -1), M[row[t]]
            ).reshape(-1)

    def backwards(t, x, out):
        out[:] = 0
        for run, M in parts:
            out[run.nodes] = np.matmul(
                M[row[t]], x[run.target].reshape(run.shape[0], -1, 1)
            ).reshape(-1)

    return onwards, backwards


def exponentiate32(x, top, width):
    _exponentiate(x, top, width, _LOWEST)


def exponentiate64(x, top, width):
    _exponentiate(x, top, width, None)


def _exponentiate(x, top, width, lowest):
    part = x[:, :width]
    part.max(axis=1, out=top)
    known = np.isfinite(top)
    all_known = bool(known.all())
    part -= top[:, None]
    if lowest is not None:
        np.maximum(part, lowest, out=part)
    np.exp(part, out=part)
    x[:, width:] = 0
    if not all_known:
        x[~known] = 0


def exponentiate_arcs(arc, E, top):
    begin = 1 if len(arc) > 1 else 0
    E[:begin], E[begin:] = 0, arc[begin:]
    top[:begin] = 0
    _exponentiate(E[begin:], top[begin:], arc.shape[1], None)


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
