"""One pass of stochastic gradient descent: score a sentence with the current weights, update the
cells it used."""

from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels import kernel
from labelwright.kernels.chain import exponentiate64, exponentiate_arcs, posteriors
from labelwright.kernels.clamped import clamped_in_log_space, clamped_posteriors, subtract_clamped
from labelwright.kernels.common import longest_of
from labelwright.kernels.inference import messages, posterior_arcs


class Topology(NamedTuple):
    """Nodes and arcs, and which of them are forbidden."""

    blocks: Any
    contexts: Any
    state: np.ndarray  # [Q]     state of each node
    # [3, Q]  0, or minus infinity: at the first token, at the others, and also at the last one
    fence: np.ndarray
    node: np.ndarray  # [Q]     at every token
    arc: np.ndarray  # [A]
    has_node: np.ndarray  # [Q]     1 where a plain transition has a weight, else 0
    has_arc: np.ndarray  # [A]
    n_states: int
    most_in_context: int  # nodes of the largest context,
    most_targets: int  # and the most targets of one label that a node has
    states_share: Any  # Sharing
    nodes_share: Any
    arcs_share: Any


class Said(NamedTuple):
    """What is said of labels: codes from n_labels on are sets of labels; weights where there are
    any."""

    n_labels: int
    right: np.ndarray  # [C, Q]  nodes that a label or set of labels allows
    of_sentences: np.ndarray  # [N|0]  how often each sentence counts
    cost: np.ndarray  # [T|0]  added to the scores of wrong nodes


class Sharing(NamedTuple):
    """Columns of states, nodes or arcs whose weights share u, w = u + c v: a step of u and v is one
    of w along (the sum of the gradient over the group) + c^2 (the gradient)."""

    group: np.ndarray  # [C]  empty where nothing is shared
    deviation: np.ndarray  # [C]  c^2; 0 in a group of one
    n_groups: int


class FeaturePart(NamedTuple):
    """The features of states, of nodes (order 2: pairs of states) or of arcs; without weights the
    part is unused."""

    weights: np.ndarray  # [W]
    incidence: Any  # Incidence: the features of each token
    cells: Any  # Cells: the columns of each feature


class Schedule(NamedTuple):
    """Step t has the learning rate eta / (1 + eta decay t)."""

    eta: float
    decay: float
    taken: int  # steps before this pass


class Rows(NamedTuple):
    """What the features of one sentence add up to; the last columns of nodes and arcs take what the
    space forbids."""

    state: np.ndarray  # [T, S]
    node: np.ndarray  # [T|0, Q+1]
    arc: np.ndarray  # [T|1, A+1]


@kernel
def _score(part, t, rows, at):
    """rows[at, :] += the weights of all features of token t."""
    weights, x, cells = part
    for g in range(x.keys.shape[1]):
        k = x.keys[t, g]
        for i in range(x.key_ptr[k], x.key_ptr[k + 1]):
            f = x.key_feature[i]
            for c in range(cells.ptr[f], cells.ptr[f + 1]):
                rows[at, cells.column[c]] += weights[c]
    for i in range(x.token_ptr[t], x.token_ptr[t + 1]):
        f = x.token_feature[i]
        v = x.token_value[i] if x.token_value.shape[0] > 0 else 1.0
        for c in range(cells.ptr[f], cells.ptr[f + 1]):
            rows[at, cells.column[c]] += v * weights[c]


@kernel
def _update(part, t, rows, at, step):
    """weights -= step * rows[at, :] for all features of token t: the adjoint of _score."""
    weights, x, cells = part
    for g in range(x.keys.shape[1]):
        k = x.keys[t, g]
        for i in range(x.key_ptr[k], x.key_ptr[k + 1]):
            f = x.key_feature[i]
            for c in range(cells.ptr[f], cells.ptr[f + 1]):
                weights[c] -= step * rows[at, cells.column[c]]
    for i in range(x.token_ptr[t], x.token_ptr[t + 1]):
        f = x.token_feature[i]
        v = x.token_value[i] if x.token_value.shape[0] > 0 else 1.0
        for c in range(cells.ptr[f], cells.ptr[f + 1]):
            weights[c] -= step * v * rows[at, cells.column[c]]


@kernel
def _difference(node, arc, blocks, contexts, label, nodes, arcs, held, held_pairs):
    """Expected minus observed counts: P(q at t) into nodes [T, Q], and P(arc into t) into arcs,
    both less those of the gold labelling; returns the loss, log Z - log Z of the gold labelling.

    node [T, Q] and arc are scores.  With a row of arcs per token, arcs gets one too; with one row
    [1, A] for all tokens, arcs gets the sum over tokens.  In log space where scores differ too much
    for scaling."""
    T = node.shape[0]
    offsets, row, log_y = np.array([0, T]), np.arange(T), np.empty(1)
    top, arc_top = _exponentials(node, arc, nodes, arcs)
    clamped_posteriors(
        nodes, top, arcs, arc_top, row, contexts, label, offsets, log_y, held, held_pairs
    )
    if np.isnan(log_y[0]):
        log_y[0] = clamped_in_log_space(node, arc, contexts, label, held, held_pairs)
    log_z = _expected(node, arc, blocks, nodes, arcs, top, arc_top)
    subtract_clamped(nodes, arcs, contexts, label, offsets, held, held_pairs, row)
    return log_z - log_y[0]


@kernel
def _exponentials(node, arc, nodes, arcs):
    """Fill nodes and arcs with the exponentials of scores; returns the maxima of these."""
    top, arc_top = np.empty(node.shape[0]), np.empty(arc.shape[0])
    nodes[:] = node
    exponentiate64(nodes, top, node.shape[1])
    exponentiate_arcs(arc, arcs, arc_top)
    return top, arc_top


@kernel
def _expected(node, arc, blocks, nodes, arcs, top, arc_top):
    """Replace the exponentials nodes and arcs of scores by probabilities, or those of arcs by their
    sum; returns log Z."""
    log_z = posteriors(nodes, top, arcs, arc_top, blocks)
    if np.isnan(log_z):
        ahead = np.empty(node.shape)
        log_z = messages(node, arc, blocks, nodes, ahead)
        posterior_arcs(arc, blocks, nodes, ahead, arcs)
    return log_z


@kernel
def _difference_of_sets(node, arc, blocks, label, right, nodes, arcs):
    """As _difference, less the counts of all labellings that the sets of labels allow."""
    T, Q = node.shape
    own, own_nodes, own_arcs = np.empty((T, Q)), np.empty((T, Q)), np.empty(arc.shape)
    for t in range(T):
        for q in range(Q):
            own[t, q] = node[t, q] if right[label[t], q] else -np.inf
    top, arc_top = _exponentials(own, arc, own_nodes, own_arcs)
    log_y = _expected(own, arc, blocks, own_nodes, own_arcs, top, arc_top)
    top, arc_top = _exponentials(node, arc, nodes, arcs)
    log_z = _expected(node, arc, blocks, nodes, arcs, top, arc_top)
    nodes -= own_nodes
    arcs -= own_arcs
    return log_z - log_y


@kernel
def _add_costs(node, label, right, cost):
    """Add the cost of each token to the scores of nodes that its label does not allow."""
    for t in range(node.shape[0]):
        for q in range(node.shape[1]):
            if not right[label[t], q]:
                node[t, q] += cost[t]


@kernel
def _add_features(states, nodes, arcs, begin, rows):
    """Fill rows with the scores of the features of the sentence that begins at token `begin`."""
    on_nodes, on_arcs = nodes.weights.shape[0] > 0, arcs.weights.shape[0] > 0
    for t in range(rows.state.shape[0]):
        _score(states, begin + t, rows.state, t)
        if on_nodes and t > 0:
            _score(nodes, begin + t, rows.node, t)
        if on_arcs and t > 0:
            _score(arcs, begin + t, rows.arc, t)


@kernel
def _lattice(topology, plain, rows, shrink, node, arc):
    """Fill the scores node [T, Q] and arc [T|1, A] of a sentence."""
    T, Q = node.shape
    on_nodes = rows.node.shape[0] > 0
    for t in range(T):
        for q in range(Q):
            v = rows.state[t, topology.state[q]] + plain.node[q]
            if on_nodes:
                v += rows.node[t, q]
            node[t, q] = shrink * v + topology.node[q] + topology.fence[0 if t == 0 else 1, q]
    for q in range(Q):
        node[T - 1, q] += topology.fence[2, q]
    for t in range(arc.shape[0]):
        for k in range(arc.shape[1]):
            arc[t, k] = shrink * (rows.arc[t, k] + plain.arc[k]) + topology.arc[k]


@kernel
def _share(rows, sharing):
    """Replace the gradient of weights by the step of those that share."""
    if sharing.group.shape[0] == 0:
        return
    total = np.empty(sharing.n_groups)
    for t in range(rows.shape[0]):
        total[:] = 0
        for c in range(sharing.group.shape[0]):
            total[sharing.group[c]] += rows[t, c]
        for c in range(sharing.group.shape[0]):
            rows[t, c] = total[sharing.group[c]] + sharing.deviation[c] * rows[t, c]


@kernel
def _descend(topology, states, nodes, arcs, plain, begin, rows, d_node, d_arc, step):
    """Subtract step times the gradient, of which d_node [T, Q] and d_arc [T|1, A] are the counts;
    rows is scratch."""
    T, Q = d_node.shape
    A = d_arc.shape[1]
    on_nodes, on_arcs = nodes.weights.shape[0] > 0, arcs.weights.shape[0] > 0
    rows.state[:] = 0
    for t in range(T):
        for q in range(Q):
            rows.state[t, topology.state[q]] += d_node[t, q]
    _share(rows.state, topology.states_share)
    _share(d_node, topology.nodes_share)
    _share(d_arc, topology.arcs_share)
    for t in range(T):
        for q in range(Q):
            plain.node[q] -= step * d_node[t, q] * topology.has_node[q]
        _update(states, begin + t, rows.state, t, step)
    if on_nodes:
        rows.node[:, Q] = 0
        rows.node[:, :Q] = d_node
    if on_arcs:
        rows.arc[:, A] = 0
        rows.arc[:, :A] = d_arc
    for t in range(1, T):
        if on_nodes:
            _update(nodes, begin + t, rows.node, t, step)
        if on_arcs:
            _update(arcs, begin + t, rows.arc, t, step)
    for t in range(1 if on_arcs else 0, d_arc.shape[0]):
        for k in range(A):
            plain.arc[k] -= step * d_arc[t, k] * topology.has_arc[k]


@kernel
def sgd_pass(order, offsets, gold, said, topology, states, nodes, arcs, plain, schedule, shrink):
    """One pass over the sentences in `order`; returns the losses before each update, summed, and
    the new shrink.

    The true weights are shrink times the stored ones, so that the L2 penalty costs one
    multiplication a sentence. plain (node [Q], arc [A]) has the weights of transitions without
    features."""
    eta, decay, taken = schedule
    Q, A, S = plain.node.shape[0], plain.arc.shape[0], topology.n_states
    on_nodes, on_arcs = nodes.weights.shape[0] > 0, arcs.weights.shape[0] > 0
    most, targets, longest = (
        topology.most_in_context,
        topology.most_targets,
        longest_of(order, offsets),
    )
    held, held_pairs = np.empty((longest, most)), np.empty((longest, most, targets))
    loss = 0.0
    for i in range(order.shape[0]):
        n = order[i]
        begin, T = offsets[n], offsets[n + 1] - offsets[n]
        rate = eta / (1 + eta * decay * (taken + i))
        shrink /= 1 + rate * decay
        n_rows = T if on_arcs else 1
        rows = Rows(
            np.zeros((T, S)), np.zeros((T if on_nodes else 0, Q + 1)), np.zeros((n_rows, A + 1))
        )
        node, arc, d_node, d_arc = (
            np.empty((T, Q)),
            np.empty((n_rows, A)),
            np.empty((T, Q)),
            np.empty((n_rows, A)),
        )
        _add_features(states, nodes, arcs, begin, rows)
        _lattice(topology, plain, rows, shrink, node, arc)
        label = gold[begin : begin + T]
        if said.cost.shape[0] > 0:
            _add_costs(node, label, said.right, said.cost[begin : begin + T])
        if label.max() >= said.n_labels:
            more = _difference_of_sets(node, arc, topology.blocks, label, said.right, d_node, d_arc)
        else:
            more = _difference(
                node,
                arc,
                topology.blocks,
                topology.contexts,
                label,
                d_node,
                d_arc,
                held[:T],
                held_pairs[:T],
            )
        often = said.of_sentences[n] if said.of_sentences.shape[0] > 0 else 1.0
        loss += often * more
        _descend(
            topology, states, nodes, arcs, plain, begin, rows, d_node, d_arc, often * rate / shrink
        )
    return loss, shrink
