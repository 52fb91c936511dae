"""One pass of stochastic gradient descent: score a sentence with the current weights, update the
cells it used."""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.chain import (
    _exponentiate64,
    exponentiate_arcs,
    posteriors,
)
from cython.cimports.labelwright.kernels.clamped import (
    ClampedScratch,
    _clamped_in_log_space,
    _clamped_posteriors,
    _subtract_clamped,
)
from cython.cimports.labelwright.kernels.common import longest_of
from cython.cimports.labelwright.kernels.graph import BlocksView, ContextsView
from cython.cimports.labelwright.kernels.incidence import IncidenceView
from cython.cimports.labelwright.kernels.inference import (
    LatticeScratch,
    _messages,
    _posterior_arcs,
)
from cython.cimports.libc.math import INFINITY, isnan


class SaidView:
    """learn.sgd.Said."""

    def __init__(self, said):
        self.n_labels = said.n_labels
        self.right = said.right
        self.of_sentences = said.of_sentences
        self.cost = said.cost


class SharingView:
    """learn.sgd.Sharing."""

    def __init__(self, sharing):
        self.group = sharing.group
        self.deviation = sharing.deviation
        self.total = np.empty(sharing.n_groups)


class TopologyView:
    """learn.sgd.Topology."""

    def __init__(self, topology):
        self.blocks = BlocksView(topology.blocks)
        self.contexts = ContextsView(topology.contexts)
        self.state = topology.state
        self.fence = topology.fence
        self.node = topology.node
        self.arc = topology.arc
        self.has_node = topology.has_node
        self.has_arc = topology.has_arc
        self.states_share = SharingView(topology.states_share)
        self.nodes_share = SharingView(topology.nodes_share)
        self.arcs_share = SharingView(topology.arcs_share)


class FeaturePartView:
    """learn.sgd.FeaturePart."""

    def __init__(self, part):
        self.weights = part.weights
        self.incidence = IncidenceView(part.incidence)
        self.cell_ptr = part.cells.ptr
        self.cell_column = part.cells.column


class SentenceScratch:
    """What a step needs, for sentences of up to so many tokens; the last columns of rows of nodes
    and arcs take what the space forbids.

    node, d_node [T, Q] and arc, d_arc [T|1, A] are scores and counts; own_node and own_arc are
    those of the labellings that sets of labels allow."""

    def __init__(self, longest, n_rows, shape, held, on_nodes):
        n_states, Q, A = shape
        self.states = np.empty((longest, n_states))
        self.nodes = np.empty((longest if on_nodes else 0, Q + 1))
        self.arcs = np.empty((n_rows, A + 1))
        self.node, self.d_node, self.own_node = np.empty((3, longest, Q))
        self.own_d_node, self.ahead = np.empty((2, longest, Q))
        self.arc, self.d_arc, self.own_arc, self.own_d_arc = np.empty((4, n_rows, A))
        self.top, self.scale, self.sums = np.empty((3, longest))
        self.arc_top = np.empty(n_rows)
        self.alpha, self.beta, self.into = np.empty((3, longest, Q))
        self.counts = np.empty(A)
        self.row = np.arange(longest)
        self.held = np.empty((longest, held[0]))
        self.held_pairs = np.empty((longest, *held))
        self.clamped = ClampedScratch(longest, held[0])
        self.lattice = LatticeScratch(longest, Q, n_rows, A)


# -- features --------------------------------------------------------------------------------------


def _score(part, t, rows, at):
    """rows[at, :] += the weights of all features of token t."""
    cells = part.cell_ptr
    columns = part.cell_column
    weights = part.weights
    for g in range(part.incidence.keys.shape[1]):
        k = part.incidence.keys[t, g]
        if k >= 0:
            for i in range(part.incidence.key_ptr[k], part.incidence.key_ptr[k + 1]):
                f = part.incidence.key_feature[i]
                for c in range(cells[f], cells[f + 1]):
                    rows[at, columns[c]] += weights[c]
    for i in range(part.incidence.token_ptr[t], part.incidence.token_ptr[t + 1]):
        f = part.incidence.token_feature[i]
        v = part.incidence.token_value[i] if part.incidence.token_value.shape[0] > 0 else 1
        for c in range(cells[f], cells[f + 1]):
            rows[at, columns[c]] += v * weights[c]


def _update(part, t, rows, at, step):
    """weights -= step * rows[at, :] for all features of token t: the adjoint of _score."""
    cells = part.cell_ptr
    columns = part.cell_column
    weights = part.weights
    for g in range(part.incidence.keys.shape[1]):
        k = part.incidence.keys[t, g]
        if k >= 0:
            for i in range(part.incidence.key_ptr[k], part.incidence.key_ptr[k + 1]):
                f = part.incidence.key_feature[i]
                for c in range(cells[f], cells[f + 1]):
                    weights[c] -= step * rows[at, columns[c]]
    for i in range(part.incidence.token_ptr[t], part.incidence.token_ptr[t + 1]):
        f = part.incidence.token_feature[i]
        v = part.incidence.token_value[i] if part.incidence.token_value.shape[0] > 0 else 1
        for c in range(cells[f], cells[f + 1]):
            weights[c] -= step * v * rows[at, columns[c]]


# -- counts ----------------------------------------------------------------------------------------


def _difference(node, arc, topology, label, nodes, arcs, scratch):
    """Expected minus observed counts: P(q at t) into nodes [T, Q], and P(arc into t) into arcs,
    both less those of the gold labelling; returns the loss, log Z - log Z of the gold labelling.

    node [T, Q] and arc are scores.  With a row of arcs per token, arcs gets one too; with one row
    [1, A] for all tokens, arcs gets the sum over tokens.  In log space where scores differ too much
    for scaling."""
    T = node.shape[0]
    top = scratch.top[:T]
    row = scratch.row[:T]
    held = scratch.held[:T]
    pairs = scratch.held_pairs[:T]
    _exponentiate(node, arc, nodes, arcs, scratch)
    log_y = _clamped_posteriors(
        nodes, top, arcs, scratch.arc_top, row, topology.contexts, label, 0,
        T, held, pairs, scratch.clamped,
    )  # fmt: skip
    if isnan(log_y):
        log_y = _clamped_in_log_space(
            node, arc, topology.contexts, label, 0, T, held, pairs, scratch.clamped
        )
    log_z = _expected(node, arc, topology.blocks, nodes, arcs, scratch)
    _subtract_clamped(nodes, arcs, topology.contexts, label, 0, T, held, pairs, row)
    return log_z - log_y


def _exponentiate(node, arc, nodes, arcs, scratch):
    """Fill nodes and arcs with the exponentials of scores less their maxima, which go to the
    scratch."""
    nodes[:, :] = node
    _exponentiate64(nodes, scratch.top, node.shape[1])
    exponentiate_arcs(arc, arcs, scratch.arc_top)


def _expected(node, arc, blocks, nodes, arcs, scratch):
    """Replace the exponentials nodes and arcs of scores by probabilities, or those of arcs by their
    sum; returns log Z."""
    T = node.shape[0]
    log_z = posteriors(
        nodes, scratch.top, arcs, scratch.arc_top, blocks, scratch.row[:T], scratch.alpha[:T],
        scratch.beta[:T], scratch.into[:T], scratch.scale[:T], scratch.sums[:T], scratch.counts,
    )  # fmt: skip
    if isnan(log_z):
        ahead = scratch.ahead[:T]
        log_z = _messages(node, arc, blocks, nodes, ahead, scratch.lattice)
        _posterior_arcs(arc, blocks, nodes, ahead, arcs, scratch.lattice)
    return log_z


def _difference_of_sets(node, arc, topology, label, right, nodes, arcs, scratch):
    """As _difference, less the counts of all labellings that the sets of labels allow."""
    T = node.shape[0]
    own = scratch.own_node[:T]
    own_nodes = scratch.own_d_node[:T]
    own_arcs = scratch.own_d_arc[: arc.shape[0]]
    for t in range(T):
        for q in range(node.shape[1]):
            own[t, q] = node[t, q] if right[label[t], q] else -INFINITY
    _exponentiate(own, arc, own_nodes, own_arcs, scratch)
    log_y = _expected(own, arc, topology.blocks, own_nodes, own_arcs, scratch)
    _exponentiate(node, arc, nodes, arcs, scratch)
    log_z = _expected(node, arc, topology.blocks, nodes, arcs, scratch)
    for t in range(T):
        for q in range(nodes.shape[1]):
            nodes[t, q] -= own_nodes[t, q]
    for t in range(arcs.shape[0]):
        for a in range(arcs.shape[1]):
            arcs[t, a] -= own_arcs[t, a]
    return log_z - log_y


# -- one sentence ----------------------------------------------------------------------------------


def _add_costs(node, label, right, cost):
    """Add the cost of each token to the scores of nodes that its label does not allow."""
    for t in range(node.shape[0]):
        for q in range(node.shape[1]):
            if not right[label[t], q]:
                node[t, q] += cost[t]


def _add_features(states, nodes, arcs, begin, T, scratch):
    """Fill the rows of the scratch with the scores of the features of the sentence that begins at
    token `begin`."""
    scratch.states[:T, :] = 0
    scratch.nodes[:, :] = 0
    scratch.arcs[:, :] = 0
    for t in range(T):
        _score(states, begin + t, scratch.states, t)
        if nodes.weights.shape[0] > 0 and t > 0:
            _score(nodes, begin + t, scratch.nodes, t)
        if arcs.weights.shape[0] > 0 and t > 0:
            _score(arcs, begin + t, scratch.arcs, t)


def _fill_lattice(topology, plain_node, plain_arc, scratch, shrink, node, arc):
    """Fill the scores node [T, Q] and arc [T|1, A] of a sentence."""
    T = node.shape[0]
    for t in range(T):
        for q in range(node.shape[1]):
            v = scratch.states[t, topology.state[q]] + plain_node[q]
            if scratch.nodes.shape[0] > 0:
                v += scratch.nodes[t, q]
            node[t, q] = shrink * v + topology.node[q] + topology.fence[0 if t == 0 else 1, q]
    for q in range(node.shape[1]):
        node[T - 1, q] += topology.fence[2, q]
    for t in range(arc.shape[0]):
        for k in range(arc.shape[1]):
            arc[t, k] = shrink * (scratch.arcs[t, k] + plain_arc[k]) + topology.arc[k]


def _share(rows, sharing):
    """Replace the gradient of weights by the step of those that share."""
    if sharing.group.shape[0] == 0:
        return
    for t in range(rows.shape[0]):
        sharing.total[:] = 0
        for c in range(sharing.group.shape[0]):
            sharing.total[sharing.group[c]] += rows[t, c]
        for c in range(sharing.group.shape[0]):
            rows[t, c] = sharing.total[sharing.group[c]] + sharing.deviation[c] * rows[t, c]


def _descend(
    topology, states, nodes, arcs, plain_node, plain_arc, begin, scratch, d_node, d_arc, step
):
    """Subtract step times the gradient, of which d_node [T, Q] and d_arc [T|1, A] are the
    counts."""
    T = d_node.shape[0]
    on_nodes = nodes.weights.shape[0] > 0
    on_arcs = arcs.weights.shape[0] > 0
    rows = scratch.states[:T]
    rows[:, :] = 0
    for t in range(T):
        for q in range(d_node.shape[1]):
            rows[t, topology.state[q]] += d_node[t, q]
    _share(rows, topology.states_share)
    _share(d_node, topology.nodes_share)
    _share(d_arc, topology.arcs_share)
    for t in range(T):
        for q in range(d_node.shape[1]):
            plain_node[q] -= step * d_node[t, q] * topology.has_node[q]
        _update(states, begin + t, rows, t, step)
    for t in range(1, T):
        if on_nodes:
            _copy_row(d_node, t, scratch.nodes)
            _update(nodes, begin + t, scratch.nodes, t, step)
        if on_arcs:
            _copy_row(d_arc, t, scratch.arcs)
            _update(arcs, begin + t, scratch.arcs, t, step)
    for t in range(1 if on_arcs else 0, d_arc.shape[0]):
        for k in range(d_arc.shape[1]):
            plain_arc[k] -= step * d_arc[t, k] * topology.has_arc[k]


def _copy_row(counts, t, rows):
    """rows[t] = counts[t], and 0 in the column for what the space forbids."""
    for q in range(counts.shape[1]):
        rows[t, q] = counts[t, q]
    rows[t, counts.shape[1]] = 0


def sgd_pass(order, offsets, gold, said, topology, states, nodes, arcs, plain, schedule, shrink):
    """One pass over the sentences in `order`; returns the losses before each update, summed, and
    the new shrink.

    The true weights are shrink times the stored ones, so that the L2 penalty costs one
    multiplication a sentence.  plain (node [Q], arc [A]) has the weights of transitions without
    features."""
    eta, decay, taken = schedule
    what = SaidView(said)
    plain_node = plain.node
    plain_arc = plain.arc
    view = TopologyView(topology)
    state_part = FeaturePartView(states)
    node_part = FeaturePartView(nodes)
    arc_part = FeaturePartView(arcs)
    on_arcs = arc_part.weights.shape[0] > 0
    longest = longest_of(order, offsets)
    shape = topology.n_states, plain_node.shape[0], plain_arc.shape[0]
    held = topology.most_in_context, topology.most_targets
    on_nodes = node_part.weights.shape[0] > 0
    scratch = SentenceScratch(longest, longest if on_arcs else 1, shape, held, on_nodes)
    loss = 0.0
    with cython.nogil:
        for i in range(order.shape[0]):
            n = order[i]
            begin = offsets[n]
            T = offsets[n + 1] - begin
            n_rows = T if on_arcs else 1
            rate = eta / (1 + eta * decay * (taken + i))
            shrink /= 1 + rate * decay
            node = scratch.node[:T]
            arc = scratch.arc[:n_rows]
            d_node = scratch.d_node[:T]
            d_arc = scratch.d_arc[:n_rows]
            label = gold[begin : begin + T]
            _add_features(state_part, node_part, arc_part, begin, T, scratch)
            _fill_lattice(view, plain_node, plain_arc, scratch, shrink, node, arc)
            if what.cost.shape[0] > 0:
                _add_costs(node, label, what.right, what.cost[begin : begin + T])
            if _has_set(label, what.n_labels):
                more = _difference_of_sets(
                    node, arc, view, label, what.right, d_node, d_arc, scratch
                )
            else:
                more = _difference(node, arc, view, label, d_node, d_arc, scratch)
            often = what.of_sentences[n] if what.of_sentences.shape[0] > 0 else 1
            loss += often * more
            _descend(
                view, state_part, node_part, arc_part, plain_node, plain_arc, begin, scratch,
                d_node, d_arc, often * rate / shrink,
            )  # fmt: skip
        return loss, shrink


def _has_set(label, n_labels):
    """Whether one of these labels is a set of labels."""
    for t in range(label.shape[0]):
        if label[t] >= n_labels:
            return True
    return False
