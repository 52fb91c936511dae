"""Training one sentence at a time: score with the current weights, update the cells that were used."""

from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.chain import exponentiate64, posteriors, posteriors_by_arc, transpose_blocks
from labelwright.kernels.clamped import clamped_in_log_space, clamped_posteriors, subtract_clamped
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
def _difference(node, arc, blocks, contexts, label, nodes, arcs, held, held_pairs):
    """Expected minus observed counts: P(q at t) into nodes [T, Q], and P(arc into t) into arcs, both less the same for
    the labelling alone; returns the loss, log Z - log Z of the labelling.

    node [T, Q] and arc are scores.  With a row of arcs per token, arcs gets one too; with one row [1, A] for all
    tokens, arcs gets the sum over tokens.  In log space where scores differ too much for scaling."""
    T, Q = node.shape
    n_rows, A = arc.shape
    offsets = np.array([0, T])
    log_z = np.empty(1)
    log_y = np.empty(1)
    top = np.empty(T)
    nodes[:] = node
    exponentiate64(nodes, top, Q)
    E = np.zeros(arc.shape)
    arc_top = np.zeros(n_rows)
    for t in range(0 if n_rows == 1 else 1, n_rows):
        arc_top[t] = arc[t].max()
        for a in range(A):
            E[t, a] = np.exp(arc[t, a] - arc_top[t])
    clamped_posteriors(nodes, top, E, arc_top, contexts, label, offsets, log_y, held, held_pairs)
    if np.isnan(log_y[0]):
        log_y[0] = clamped_in_log_space(node, arc, contexts, label, held, held_pairs)
    if n_rows > 1:
        arcs[:] = E
        posteriors_by_arc(nodes, top, arcs, arc_top, blocks, offsets, log_z)
    else:
        ET = np.empty(A)
        transpose_blocks(E[0], blocks, ET)
        arcs[:] = 0
        posteriors(nodes, top, E, ET, arc_top[0], blocks, offsets, log_z, arcs[0])
        for a in range(A):
            arcs[0, a] *= E[0, a]
    if np.isnan(log_z[0]):
        log_beta = np.empty((T, Q))
        log_z[0] = messages(node, arc, blocks, nodes, log_beta)
        posterior_arcs(node, arc, blocks, nodes, log_beta, arcs)
    subtract_clamped(nodes, arcs, contexts, label, offsets, held, held_pairs)
    return log_z[0] - log_y[0]


class Topology(NamedTuple):
    """Nodes and arcs, and what of them is shut out."""

    blocks: Any
    contexts: Any
    state: np.ndarray  # [Q]     state of each node
    fence: np.ndarray  # [3, Q]  0, or minus infinity, at the first token, at the others, and besides at the last one
    node: np.ndarray  # [Q]     at every token
    arc: np.ndarray  # [A]
    has_node: np.ndarray  # [Q]     1 where a plain move has a weight there, else 0
    has_arc: np.ndarray  # [A]
    n_states: int


@kernel
def sgd_pass(
    order, offsets, gold, topology, state_weights, node_weights, arc_weights, state, node_layer, arc_layer,
    state_cells, node_cells, arc_cells, plain_node, plain_arc, shrink, eta, decay, taken,
):  # fmt: skip
    """One pass of stochastic gradient descent over the sentences in `order`.

    Features count on states, nodes (order 2: pairs of states) and arcs; plain_node [Q] and plain_arc [A] without any.
    The true weights are shrink times the stored ones, so that the L2 penalty costs one multiplication a sentence.
    Step t has the rate eta / (1 + eta decay t).  Returns the losses before each update, summed, and shrink."""
    blocks, contexts, state_of = topology.blocks, topology.contexts, topology.state
    Q, A = plain_node.shape[0], plain_arc.shape[0]
    S = topology.n_states
    on_nodes, on_arcs = node_weights.shape[0] > 0, arc_weights.shape[0] > 0
    most, targets, longest = 0, 0, 0
    for c in range(contexts.label.shape[0]):
        most = max(most, contexts.ptr[c + 1] - contexts.ptr[c])
    for b in range(contexts.cut.shape[0]):
        for y in range(contexts.cut.shape[1] - 1):
            targets = max(targets, contexts.cut[b, y + 1] - contexts.cut[b, y])
    for i in range(order.shape[0]):
        longest = max(longest, offsets[order[i] + 1] - offsets[order[i]])
    held = np.empty((longest, most))
    held_pairs = np.empty((longest, most, targets))
    loss = 0.0
    for i in range(order.shape[0]):
        n = order[i]
        a, T = offsets[n], offsets[n + 1] - offsets[n]
        rate = eta / (1 + eta * decay * (taken + i))
        shrink /= 1 + rate * decay
        n_rows = T if on_arcs else 1
        on_state = np.zeros((T, S))
        on_node = np.zeros((T if on_nodes else 0, Q + 1))
        on_arc = np.zeros((n_rows, A + 1))
        for t in range(T):
            _score(state_weights, state_cells, state, a + t, on_state, t)
            if on_nodes and t > 0:
                _score(node_weights, node_cells, node_layer, a + t, on_node, t)
            if on_arcs and t > 0:
                _score(arc_weights, arc_cells, arc_layer, a + t, on_arc, t)
        node = np.empty((T, Q))
        for t in range(T):
            for q in range(Q):
                v = on_state[t, state_of[q]] + plain_node[q]
                if on_nodes:
                    v += on_node[t, q]
                node[t, q] = shrink * v + topology.node[q] + topology.fence[0 if t == 0 else 1, q]
        for q in range(Q):
            node[T - 1, q] += topology.fence[2, q]
        arc = np.empty((n_rows, A))
        for t in range(n_rows):
            for k in range(A):
                arc[t, k] = shrink * (on_arc[t, k] + plain_arc[k]) + topology.arc[k]
        nodes = np.empty((T, Q))
        arcs = np.empty((n_rows, A))
        loss += _difference(node, arc, blocks, contexts, gold[a : a + T], nodes, arcs, held[:T], held_pairs[:T])
        step = rate / shrink
        on_state[:] = 0
        for t in range(T):
            for q in range(Q):
                on_state[t, state_of[q]] += nodes[t, q]
                plain_node[q] -= step * nodes[t, q] * topology.has_node[q]
            _update(state_weights, state_cells, state, a + t, on_state, t, step)
        if on_nodes:
            on_node[:, Q] = 0
            on_node[:, :Q] = nodes
        if on_arcs:
            on_arc[:, A] = 0
            on_arc[:, :A] = arcs
        for t in range(1, T):
            if on_nodes:
                _update(node_weights, node_cells, node_layer, a + t, on_node, t, step)
            if on_arcs:
                _update(arc_weights, arc_cells, arc_layer, a + t, on_arc, t, step)
        for t in range(1 if on_arcs else 0, n_rows):
            for k in range(A):
                plain_arc[k] -= step * arcs[t, k] * topology.has_arc[k]
    return loss, shrink
