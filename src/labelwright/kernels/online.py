"""Training one sentence at a time: score with the current weights, update the cells that were used."""

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.chain import exponentiate64, posteriors, posteriors_by_arc
from labelwright.kernels.clamped import clamped_posteriors, subtract_clamped
from labelwright.kernels.inference import messages, posterior_arcs


@kernel
def _score(weights, cells, layer, t, rows, at):
    """rows[at, :] += the weight rows of all features of token t, those of its keys and its own."""
    for g in range(layer.keys.shape[1]):
        k = layer.keys[t, g]
        for i in range(layer.key_ptr[k], layer.key_ptr[k + 1]):
            f = layer.key_feature[i]
            for c in range(cells.ptr[f], cells.ptr[f + 1]):
                rows[at, cells.column[c]] += weights[c]
    for i in range(layer.token_ptr[t], layer.token_ptr[t + 1]):
        f = layer.token_feature[i]
        v = layer.token_value[i] if layer.token_value.shape[0] > 0 else 1.0
        for c in range(cells.ptr[f], cells.ptr[f + 1]):
            rows[at, cells.column[c]] += v * weights[c]


@kernel
def _update(weights, cells, layer, t, rows, at, step):
    """weights -= step * rows[at, :] for all features of token t: the adjoint of _score."""
    for g in range(layer.keys.shape[1]):
        k = layer.keys[t, g]
        for i in range(layer.key_ptr[k], layer.key_ptr[k + 1]):
            f = layer.key_feature[i]
            for c in range(cells.ptr[f], cells.ptr[f + 1]):
                weights[c] -= step * rows[at, cells.column[c]]
    for i in range(layer.token_ptr[t], layer.token_ptr[t + 1]):
        f = layer.token_feature[i]
        v = layer.token_value[i] if layer.token_value.shape[0] > 0 else 1.0
        for c in range(cells.ptr[f], cells.ptr[f + 1]):
            weights[c] -= step * v * rows[at, cells.column[c]]


@kernel
def _exact_expectations(node, arc, S, states, arcs):
    """The same as _expectations for scores of any scale, in log space where need be."""
    T = node.shape[0]
    nodes = np.ascontiguousarray(node[:, :S])
    moves = np.ascontiguousarray(arc[:, :S, :S])
    found = np.empty((T, S))
    log_beta = np.empty((T, S))
    log_z = messages(nodes, moves, found, log_beta)
    each = np.empty((T, S, S))
    posterior_arcs(nodes, moves, found, log_beta, each)
    states[:] = 0
    states[:, :S] = found
    arcs[:] = 0
    for t in range(1, T):
        for r in range(S):
            for s in range(S):
                arcs[t if arcs.shape[0] > 1 else 0, r, s] += each[t, r, s]
    return log_z


@kernel
def _expectations(node, arc, S, states, arcs):
    """P(s at t) into states [T, width], and P(r, s at t-1, t) into arcs; returns log Z.

    node [T, width] and arc are scores, padded.  With a row of arcs per token, arcs gets one too; with one row
    [1, width, width] for all tokens, arcs gets the sum over tokens."""
    T, width = node.shape
    offsets = np.array([0, T])
    log_z = np.empty(1)
    top = np.empty(T)
    states[:] = node
    exponentiate64(states, top, S)
    E = np.zeros(arc.shape)
    arc_top = np.zeros(arc.shape[0])
    for t in range(0 if arc.shape[0] == 1 else 1, arc.shape[0]):
        m = -np.inf
        for r in range(S):
            for s in range(S):
                m = max(m, arc[t, r, s])
        arc_top[t] = m
        for r in range(S):
            for s in range(S):
                E[t, r, s] = np.exp(arc[t, r, s] - m)
    if arc.shape[0] > 1:
        arcs[:] = E
        posteriors_by_arc(states, top, arcs, arc_top, offsets, log_z)
    else:
        arcs[:] = 0
        posteriors(states, top, E[0], np.ascontiguousarray(E[0].T), arc_top[0], offsets, log_z, arcs[0])
        for r in range(width):
            for s in range(width):
                arcs[0, r, s] *= E[0, r, s]
    if np.isnan(log_z[0]):
        return _exact_expectations(node, arc, S, states, arcs)
    return log_z[0]


@kernel
def sgd_pass(
    order, offsets, gold, first, fence, forbidden, weights, transitions, state, state_cells, edge, edge_cells,
    edge_weights, shrink, eta, decay, taken,
):  # fmt: skip
    """One pass of stochastic gradient descent over the sentences in `order`.

    The true weights are shrink times the stored ones, so that the L2 penalty costs one multiplication a sentence.
    Step t has the rate eta / (1 + eta decay t).  Returns the losses before each update, summed, and shrink."""
    S = transitions.shape[0]
    width = S + (-S) % 4
    on_arcs = edge_weights.shape[0] > 0
    longest, most = 0, 0
    for i in range(order.shape[0]):
        longest = max(longest, offsets[order[i] + 1] - offsets[order[i]])
    for i in range(first.shape[0] - 1):
        most = max(most, first[i + 1] - first[i])
    held = np.empty((longest, most))
    held_pairs = np.empty((longest, most, most))
    log_y = np.empty(1)
    loss = 0.0
    for i in range(order.shape[0]):
        n = order[i]
        a, T = offsets[n], offsets[n + 1] - offsets[n]
        rate = eta / (1 + eta * decay * (taken + i))
        shrink /= 1 + rate * decay
        node = np.zeros((T, width))
        rows = T if on_arcs else 1
        flat = np.zeros((rows, width * width))
        arc = flat.reshape((rows, width, width))
        for t in range(T):
            _score(weights, state_cells, state, a + t, node, t)
            if on_arcs and t > 0:
                _score(edge_weights, edge_cells, edge, a + t, flat, t)
        for t in range(T):
            for s in range(S):
                node[t, s] *= shrink
        for s in range(S):
            node[0, s] += fence[0, s]
            node[T - 1, s] += fence[1, s]
        for t in range(rows):
            for r in range(S):
                for s in range(S):
                    arc[t, r, s] = shrink * (arc[t, r, s] + transitions[r, s]) + forbidden[r, s]
        states = np.empty((T, width))
        arcs = np.empty((rows, width, width))
        one = np.array([0, T])
        clamped_posteriors(node, arc, gold[a : a + T], first, one, log_y, held[:T], held_pairs[:T])
        loss += _expectations(node, arc, S, states, arcs) - log_y[0]
        subtract_clamped(states, arcs, gold[a : a + T], first, one, held[:T], held_pairs[:T])
        step = rate / shrink
        for t in range(T):
            _update(weights, state_cells, state, a + t, states, t, step)
        for t in range(1 if on_arcs else 0, rows):
            if on_arcs:
                _update(edge_weights, edge_cells, edge, a + t, arcs.reshape((rows, width * width)), t, step)
            for r in range(S):
                for s in range(S):
                    transitions[r, s] -= step * arcs[t, r, s]
    return loss, shrink
