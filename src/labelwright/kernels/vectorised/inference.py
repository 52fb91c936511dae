"""Questions about one lattice in NumPy: a loop over its tokens, and vectors over its nodes and
arcs.  With it a CRF labels in 1.7 times, and gives probabilities in 2.4 times the time of compiled
code (22 states)."""

from itertools import pairwise

import numpy as np

from labelwright.kernels.common import (
    log_sums,
    plan,
    row_maxima,
    softmax_of,
    subtract_largest,
    trusted_range,
)
from labelwright.kernels.vectorised.chain import _messages, _runs, exponentiate64, exponentiate_arcs

_ARCS = 1 << 18  # probabilities of arcs that are computed at once
_AT_ONCE = 1 << 14  # sums of scores of which the best are chosen at once


def _sources_of(blocks, n_nodes):
    """The sources of every node and the arcs from them [Q, most]; the number of arcs where there
    are fewer."""
    runs = _runs(blocks)
    most = max((run.shape[1] for run in runs), default=1)
    sources = np.zeros((n_nodes, most), np.int64)
    arcs = np.full((n_nodes, most), int(blocks.arc_ptr[-1]))
    nodes = np.arange(n_nodes)
    for run in runs:
        n, width = run.shape[1:]
        first = np.repeat(nodes[run.nodes].reshape(run.shape[:2]), width, axis=0)
        sources[run.target, :n] = first
        numbers = np.arange(run.arcs.start, run.arcs.stop).reshape(run.shape)
        arcs[run.target, :n] = numbers.transpose(0, 2, 1).reshape(-1, n)
    return sources, arcs


def viterbi(node, arc, blocks, path):
    if len(blocks.arc_ptr) > 2:
        scores = np.empty(1)
        best_paths(node, arc, blocks, np.array([0, len(node)]), path, scores)
        return scores[0]
    Q = node.shape[1]
    return _first_order_path(node, arc.reshape(-1, Q, Q), path)


def _first_order_path(node, arcs, path):
    """Fill path [T] with the best path by the scores of nodes [T, Q] and of arcs [1|T, Q, Q];
    returns its score."""
    T, Q = node.shape
    delta, reached = np.empty_like(node), np.empty((Q, Q))
    if len(arcs) == 1:
        arcs = [arcs[0]] * T
    delta[0] = before = node[0]
    for t in range(1, T):
        here = delta[t]
        np.add(before[:, None], arcs[t], out=reached)
        np.maximum.reduce(reached, axis=0, out=here)
        here += node[t]
        before = here
    at = int(before.argmax())
    score = before[at]
    for t in range(T - 1, 0, -1):
        path[t] = at
        into_node = delta[t - 1] + arcs[t][:, at]
        at = int(into_node.argmax())
        if into_node[at] == -np.inf:
            at = 0
    path[0] = at
    return score


def best_paths(node, arc, blocks, offsets, path, scores):
    """`viterbi` of the sentences offsets[n]:offsets[n+1], all of them at once: fill path [T] and
    scores [N]."""
    order = plan(offsets)
    steps, token, sentence = order.steps.tolist(), order.token + offsets[0], order.order[order.rank]
    scores[:] = 0.0
    if len(steps) < 2:
        return
    in_order = node.take(token, axis=0)
    arcs = arc.take(token, axis=0) if len(arc) > 1 else arc
    delta = _prefix_scores(in_order, arcs, blocks, steps)
    sources, into = _sources_of(blocks, node.shape[1])
    arcs = np.concatenate([arcs, np.full((len(arcs), 1), -np.inf)], axis=1)
    scores_into = arcs[0][into] if len(arc) == 1 else None  # [Q, most]
    dense = len(blocks.arc_ptr) == 2
    at = np.zeros(len(node), np.int64)
    for t in range(len(steps) - 2, -1, -1):
        a, b = steps[t], steps[t + 1]
        going = steps[t + 2] - b if t + 2 < len(steps) else 0
        ends = a + going + np.arange(b - a - going)
        at[ends] = delta[ends].argmax(axis=1)
        scores[sentence[ends]] = delta[ends, at[ends]]
        if going:
            here = slice(b, b + going)
            to, each = at[here], np.arange(going)
            before = delta[a : a + going] if dense else delta[a + each[:, None], sources[to]]
            arrived = (
                scores_into[to] if scores_into is not None else arcs[b + each[:, None], into[to]]
            )
            arrived += before
            chosen = arrived.argmax(axis=1)
            at[a : a + going] = np.where(arrived[each, chosen] > -np.inf, sources[to, chosen], 0)
    path[token] = at


def prefix_scores(node, arc, blocks, delta):
    delta[:] = _prefix_scores(node, arc, blocks, list(range(len(node) + 1)))


def _prefix_scores(node, arc, blocks, steps):
    """The best score of a path up to each node [T, Q], in time order."""
    delta = np.empty_like(node)
    parts = [(run, run.matrices(arc)) for run in _runs(blocks)]
    single = len(parts) == 1 and isinstance(parts[0][0].nodes, slice)
    for t, (a, b) in enumerate(pairwise(steps)):
        if t == 0:
            delta[a:b] = node[a:b]
            continue
        before, here = delta[steps[t - 1] : steps[t - 1] + b - a], delta[a:b]
        if not single:
            here[:] = -np.inf
        for run, scores in parts:
            left = before[:, run.nodes].reshape(b - a, *run.shape[:2])
            right = here[:, run.target].reshape(b - a, run.shape[0], run.shape[2])
            _add_best(left, scores if len(arc) == 1 else scores[a:b], right)
        here += node[a:b]
    return delta


def _add_best(x, arc, out):
    """out[n, b, s] = max_r x[n, b, r] + arc[n|1, b, r, s]: for few sentences at once, for many
    source by source."""
    if out.size * x.shape[2] <= _AT_ONCE:
        np.maximum.reduce(x[..., None] + arc, axis=2, out=out)
        return
    np.add(x[:, :, 0, None], arc[:, :, 0], out=out)
    sums = np.empty_like(out)
    for r in range(1, x.shape[2]):
        np.add(x[:, :, r, None], arc[:, :, r], out=sums)
        np.maximum(out, sums, out=out)


def _scaled_messages(node, arc, blocks, nodes, ahead):
    psi, E = node.copy(), np.empty(arc.shape)
    top, arc_top = np.empty(len(node)), np.empty(len(arc))
    exponentiate64(psi, top, node.shape[1])
    exponentiate_arcs(arc, E, arc_top)
    alpha, beta, _, scale, sums = _messages(psi, E, blocks)
    small, large = trusted_range(psi.itemsize)
    if not ((scale > small) & (sums / scale < large)).all():
        return np.nan
    np.multiply(alpha, beta, out=nodes)
    nodes /= nodes.sum(axis=1, keepdims=True)
    np.log(beta, out=ahead)
    ahead += node - top[:, None]
    log_c = np.log(scale) + top
    log_c[1:] += arc_top[1:] if len(arc) > 1 else arc_top[0]
    return np.cumsum(log_c[::-1])[-1]


def messages(node, arc, blocks, nodes, ahead):
    """Fill nodes [T, Q] with P(s at t), and ahead [T, Q] with the log of what s at t and all that
    may follow weigh, less a constant of the token; returns log Z.

    In scaled probability space; where that under- or overflows, in log space.  Without any path,
    nodes are 0."""
    log_z = _scaled_messages(node, arc, blocks, nodes, ahead)
    if not np.isnan(log_z):
        return log_z
    T, Q = node.shape
    parts = [(run, *_without_tops(run, arc)) for run in _runs(blocks)]
    ahead[:] = node - row_maxima(node)
    log_z = row_maxima(node).sum()
    for t in range(T - 1, 0, -1):
        log_beta, tops = np.full((2, Q), -np.inf)
        e = t if len(arc) > 1 else 0
        for run, scores, arc_tops in parts:
            v = scores[e] + ahead[t, run.target].reshape(run.shape[0], 1, -1)
            log_beta[run.nodes], tops[run.nodes] = log_sums(v).reshape(-1), arc_tops[e].reshape(-1)
        tops[ahead[t - 1] == -np.inf] = -np.inf
        log_z += subtract_largest(tops, 0, Q)
        log_beta += tops
        log_z += subtract_largest(log_beta, 0, Q)
        ahead[t - 1] += log_beta
    log_z += float(log_sums(ahead[0]))
    nodes[:] = 0.0
    nodes[0] = softmax_of(ahead[0])
    for t in range(1, T):
        for run, scores, _ in parts:
            p = nodes[t - 1, run.nodes].reshape(*run.shape[:2], 1)
            v = scores[t if len(arc) > 1 else 0] + ahead[t, run.target].reshape(run.shape[0], 1, -1)
            nodes[t, run.target] = (p * softmax_of(v)).sum(axis=1).reshape(-1)
    return log_z


def _without_tops(run, arc):
    """The scores of the arcs of a run [T or 1, blocks, sources, targets], less the largest of each
    source, and that."""
    scores = run.matrices(arc)
    tops = row_maxima(scores)
    return scores - tops, tops


def posterior_arcs(arc, blocks, nodes, ahead, arcs):
    T, summed = len(nodes), len(arcs) == 1
    arcs[:] = 0.0
    small, _ = trusted_range(nodes.itemsize)
    n = max(1, _ARCS // arc.shape[1])
    E = np.exp(arc - row_maxima(arc)) if len(arc) == 1 else None
    for begin in range(1, T, n):
        end = min(begin + n, T)
        here = arc[begin:end] if len(arc) > 1 else arc
        weights = np.exp(here - row_maxima(here)) if E is None else E
        psi = np.exp(ahead[begin:end] - row_maxima(ahead[begin:end]))
        for run in _runs(blocks):
            shape = end - begin, *run.shape
            p = nodes[begin - 1 : end - 1, run.nodes].reshape(shape[:3])
            P = run.matrices(weights) * psi[:, run.target].reshape(shape[0], shape[1], 1, shape[3])
            total = P.sum(axis=-1)
            underflows = np.nonzero((total <= small) & (p > 0))
            if len(underflows[0]):
                t, block, r = underflows
                scores = _without_tops(run, here)[0][t if len(arc) > 1 else 0, block, r]
                P[underflows] = softmax_of(
                    scores + ahead[begin:end, run.target].reshape(shape[0], shape[1], -1)[t, block]
                )
                total[underflows] = 1.0
            P *= np.divide(p, total, out=np.zeros_like(p), where=p > 0)[..., None]
            P = P.reshape(end - begin, -1)
            if summed:
                arcs[0, run.arcs] += P.sum(axis=0)
            else:
                arcs[begin:end, run.arcs] = P


def span_probability(node, arc, blocks, state, nodes, ahead, begin, end, opening, inside, closing):
    T, outside = len(nodes), len(inside)
    v = np.zeros(nodes.shape[1])
    if begin == 0:
        v = np.where(opening[outside, state], nodes[0], 0.0)
    runs = _runs(blocks)
    for t in range(max(begin, 1), min(end + 1, T)):
        table = opening if t == begin else inside if t < end else closing
        p, w = nodes[t - 1] if t == begin else v, np.zeros_like(v)
        for run in runs:
            shape = run.shape
            sources, targets = (
                state[run.nodes].reshape(*shape[:2], 1),
                state[run.target].reshape(shape[0], 1, -1),
            )
            scores = _without_tops(run, arc[t : t + 1] if len(arc) > 1 else arc)[0][0]
            onward = softmax_of(scores + ahead[t, run.target].reshape(shape[0], 1, -1))
            more = p[run.nodes].reshape(*shape[:2], 1) * onward
            w[run.target] = (more * table[sources, targets]).sum(axis=1).reshape(-1)
        v = w
    return float(v.sum() if end < T else v[closing[state, outside]].sum())
