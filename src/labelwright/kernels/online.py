"""Training one sentence at a time: score with the current weights, update the cells that were used."""

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.chain import exponentiate64, posteriors_by_arc
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
def _expectations(node, arc, n_states, states, arcs):
    """P(s at t) into states [T, width], P(r, s at t-1, t) into arcs [T, width, width]; returns log Z.

    node [T, width] and arc [T, width, width] are scores, padded; both are used up."""
    T, width = node.shape
    offsets = np.array([0, T])
    log_z = np.empty(1)
    top = np.empty(T)
    arc_top = np.empty(T)
    states[:] = node
    arcs[:] = arc
    exponentiate64(states, top, n_states)
    for t in range(T):
        m = -np.inf
        for r in range(n_states):
            for s in range(n_states):
                m = max(m, arc[t, r, s])
        arc_top[t] = m
        for r in range(width):
            for s in range(width):
                inside = r < n_states and s < n_states
                arcs[t, r, s] = np.exp(arc[t, r, s] - m) if inside else 0.0
    posteriors_by_arc(states, top, arcs, arc_top, offsets, log_z)
    if np.isnan(log_z[0]):
        alpha = np.empty((T, n_states))
        beta = np.empty((T, n_states))
        log_c = np.empty(T)
        nodes = np.ascontiguousarray(node[:, :n_states])
        moves = np.ascontiguousarray(arc[:, :n_states, :n_states])
        log_z[0] = messages(nodes, moves, alpha, beta, log_c)
        states[:] = 0
        arcs[:] = 0
        posterior_arcs(nodes, moves, alpha, beta, log_c, states[:, :n_states], arcs[:, :n_states, :n_states])
    return log_z[0]


@kernel
def sgd_pass(
    order,
    offsets,
    gold,
    fence,
    forbidden,
    weights,
    transitions,
    state,
    state_cells,
    edge,
    edge_cells,
    edge_weights,
    shrink,
    eta,
    decay,
    taken,
):
    """One pass of stochastic gradient descent over the sentences in `order`.

    The true weights are shrink times the stored ones, so that the L2 penalty costs one multiplication a sentence.
    Step t has the rate eta / (1 + eta decay t).  Returns (loss before each update, summed; shrink)."""
    S = transitions.shape[0]
    width = S + (-S) % 4
    loss = 0.0
    for i in range(order.shape[0]):
        n = order[i]
        a, T = offsets[n], offsets[n + 1] - offsets[n]
        rate = eta / (1 + eta * decay * (taken + i))
        shrink *= 1 - rate * decay
        if T == 0:
            continue
        node = np.zeros((T, width))
        extra = np.zeros((T, width * width))
        for t in range(T):
            _score(weights, state_cells, state, a + t, node, t)
            if edge_weights.shape[0] > 0 and t > 0:
                _score(edge_weights, edge_cells, edge, a + t, extra, t)
        arc = extra.reshape((T, width, width))
        for t in range(T):
            for s in range(S):
                node[t, s] *= shrink
        for s in range(S):
            node[0, s] += fence[0, s]
            node[T - 1, s] += fence[1, s]
        for t in range(1, T):
            for r in range(S):
                for s in range(S):
                    arc[t, r, s] = shrink * (arc[t, r, s] + transitions[r, s]) + forbidden[r, s]
        score = 0.0
        for t in range(T):
            score += node[t, gold[a + t]]
            if t > 0:
                score += arc[t, gold[a + t - 1], gold[a + t]]
        states = np.empty((T, width))
        arcs = np.empty((T, width, width))
        loss += _expectations(node, arc, S, states, arcs) - score
        step = rate / shrink
        flat = arcs.reshape((T, width * width))
        for t in range(T):
            states[t, gold[a + t]] -= 1
            _update(weights, state_cells, state, a + t, states, t, step)
            if t > 0:
                arcs[t, gold[a + t - 1], gold[a + t]] -= 1
                if edge_weights.shape[0] > 0:
                    _update(edge_weights, edge_cells, edge, a + t, flat, t, step)
                for r in range(S):
                    for s in range(S):
                        transitions[r, s] -= step * arcs[t, r, s]
    return loss, shrink
