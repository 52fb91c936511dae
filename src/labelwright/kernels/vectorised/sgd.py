"""One pass of stochastic gradient descent in NumPy: the weights that some sentences use are looked up together, each
sentence is then scored and updated by a few operations on vectors."""

from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels.vectorised.chain import exponentiate64, exponentiate_arcs, posteriors
from labelwright.kernels.vectorised.clamped import (
    clamped_in_log_space,
    clamped_posteriors,
    labelling_weight,
    paths_of,
    subtract_clamped,
)
from labelwright.kernels.vectorised.inference import messages, posterior_arcs
from labelwright.kernels.vectorised.tables import _ranges

_TOKENS = 512  # whose weights are looked up together


class _Used(NamedTuple):
    """The weights that some sentences use, token by token."""

    cell: Any  # weight
    place: Any  # where it counts in the rows of its sentence [T * W]
    value: Any  # of its feature; empty where all are one
    ptr: Any  # [n+1]  of sentence i: ptr[i]:ptr[i+1]


class _Part:
    """The features of states, of nodes or of arcs, with the lists of keys and tokens one behind the other."""

    def __init__(self, part, width, first):
        self.weights, x, self.cells = part
        self.keys, self.key_ptr, self.token_ptr = x.keys, x.key_ptr, x.token_ptr
        self.feature = np.concatenate([x.key_feature, x.token_feature])
        self.value = x.token_value
        if len(self.value):
            self.value = np.concatenate([np.ones(len(x.key_feature)), self.value])
        self.n_of_keys = len(x.key_feature)
        self.width, self.first = width, first  # tokens before the first of a sentence have no features
        self.used = _Used(*np.empty((4, 0), np.int64))

    def look_up(self, begins, ends):
        """Find the weights of the sentences begins[i]:ends[i]."""
        begins = np.minimum(begins + self.first, ends)
        lengths = ends - begins
        token = _ranges(begins, lengths)
        keys = self.keys[token]
        first = np.concatenate([self.key_ptr[keys], self.n_of_keys + self.token_ptr[token][:, None]], axis=1)
        of_token = np.diff(self.token_ptr)[token][:, None]
        sizes = np.concatenate([self.key_ptr[keys + 1] - self.key_ptr[keys], of_token], axis=1)
        entry = _ranges(first.reshape(-1), sizes.reshape(-1))
        feature = self.feature[entry]
        n_cells = self.cells.ptr[feature + 1] - self.cells.ptr[feature]
        cell = _ranges(self.cells.ptr[feature], n_cells)
        row = _ranges(np.full(len(lengths), self.first), lengths)
        place = np.repeat(np.repeat(row, sizes.sum(axis=1)) * self.width, n_cells) + self.cells.column[cell]
        value = np.repeat(self.value[entry], n_cells) if len(self.value) else self.value
        of_feature = np.concatenate([[0], np.cumsum(n_cells)])
        of_tokens = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))])
        self.used = _Used(cell, place, value, of_feature[of_tokens[np.concatenate([[0], np.cumsum(lengths)])]])

    def of(self, i):
        cell, place, value, ptr = self.used
        here = slice(ptr[i], ptr[i + 1])
        return cell[here], place[here], value[here] if len(value) else None

    def rows(self, i, T):
        """What the features of sentence i add up to [T, width]."""
        cell, place, value = self.of(i)
        amount = self.weights[cell]
        if value is not None:
            amount *= value
        return np.bincount(place, amount, T * self.width).reshape(T, self.width)

    def update(self, i, rows, step):
        """weights -= step * rows for all features of sentence i."""
        cell, place, value = self.of(i)
        amount = step * rows.reshape(-1)[place]
        if value is not None:
            amount *= value
        np.subtract.at(self.weights, cell, amount)


class _Sizes(NamedTuple):
    """How many nodes a context has at most, and how many targets of one label a node has."""

    nodes: int
    targets: int


def _difference(node, arc, topology, label, sizes):
    """Expected minus observed counts of nodes [T, Q] and arcs [T|1, A], and the loss (see kernels.sgd)."""
    T, blocks, contexts = len(node), topology.blocks, topology.contexts
    nodes, arcs = node.copy(), np.empty(arc.shape)
    top, arc_top = np.empty(T), np.empty(len(arc))
    exponentiate64(nodes, top, node.shape[1])
    exponentiate_arcs(arc, arcs, arc_top)
    offsets, every = np.array([0, T]), np.arange(T)
    latent = sizes.nodes > 1
    if latent:
        held, pairs, log_y = np.zeros((T, sizes.nodes)), np.zeros((T, *sizes)), np.empty(1)
        clamped_posteriors(nodes, top, arcs, arc_top, every, contexts, label, offsets, log_y, held, pairs)
        if np.isnan(log_y[0]):
            log_y[0] = clamped_in_log_space(node, arc, contexts, label, held, pairs)
        weight = log_y[0]
    else:
        weight = labelling_weight(node, arc, contexts, label)
    log_z = _expected(node, arc, blocks, nodes, arcs, top, arc_top)
    if latent:
        subtract_clamped(nodes, arcs, contexts, label, offsets, held, pairs, every)
    else:
        path = np.empty(T, np.int64)
        paths_of(label, contexts, offsets, path)
        nodes[every, path] -= 1
        of_arcs = contexts.base[path[:-1]] + path[1:]
        np.subtract.at(arcs, (every[1:] if len(arcs) > 1 else 0, of_arcs), 1)
    return nodes, arcs, log_z - weight


def _expected(node, arc, blocks, nodes, arcs, top, arc_top):
    """Make exponentials of scores the probabilities of nodes and arcs, or the sum of those of arcs; log Z."""
    log_z = posteriors(nodes, top, arcs, arc_top, blocks)
    if np.isnan(log_z):
        ahead = np.empty_like(node)
        log_z = messages(node, arc, blocks, nodes, ahead)
        posterior_arcs(arc, blocks, nodes, ahead, arcs)
    return log_z


def _difference_of_sets(node, arc, topology, right):
    """As _difference, less the counts of all paths of nodes that sets of labels allow [T, Q]."""
    sums = []
    for scores in (node, np.where(right, node, -np.inf)):
        nodes, arcs, top, arc_top = scores.copy(), np.empty(arc.shape), np.empty(len(node)), np.empty(len(arc))
        exponentiate64(nodes, top, node.shape[1])
        exponentiate_arcs(arc, arcs, arc_top)
        sums.append((nodes, arcs, _expected(scores, arc, topology.blocks, nodes, arcs, top, arc_top)))
    return [free - own for free, own in zip(*sums, strict=True)]


def _lattice(topology, plain, rows, shrink):
    """The scores node [T, Q] and arc [T|1, A] of a sentence from rows of scores (None: there are no features)."""
    state, on_nodes, on_arcs = rows
    node = state.take(topology.state, axis=1)
    node += plain.node
    if on_nodes is not None:
        node += on_nodes[:, :-1]
    node *= shrink
    node += topology.node
    node[0] += topology.fence[0]
    node[1:] += topology.fence[1]
    node[-1] += topology.fence[2]
    arc = plain.arc[None] if on_arcs is None else on_arcs[:, :-1] + plain.arc
    return node, shrink * arc + topology.arc


def _beside(counts):
    """Counts with a column of 0, which takes what the space forbids."""
    return np.concatenate([counts, np.zeros((len(counts), 1))], axis=1)


def sgd_pass(order, offsets, gold, said, topology, states, nodes, arcs, plain, schedule, shrink):
    """One pass over the sentences in `order`; returns the losses before each update, summed, and the new shrink.

    The true weights are shrink times the stored ones.  plain (node [Q], arc [A]) has the weights of transitions without
    features."""
    eta, decay, taken = schedule
    contexts, Q, A = topology.contexts, len(plain.node), len(plain.arc)
    sizes = _Sizes(int(np.diff(contexts.ptr).max()), int(np.diff(contexts.cut, axis=1).max()))
    on_states = _Part(states, topology.n_states, 0)
    on_nodes = _Part(nodes, Q + 1, 1) if len(nodes.weights) else None
    on_arcs = _Part(arcs, A + 1, 1) if len(arcs.weights) else None
    parts = [part for part in (on_states, on_nodes, on_arcs) if part is not None]
    by_state = np.argsort(topology.state, kind="stable")
    state = topology.state[by_state]
    opens = np.flatnonzero(np.diff(state, prepend=-1))
    lengths = np.diff(offsets)[order]
    loss, begin = 0.0, 0
    while begin < len(order):
        end = begin + max(1, int(np.searchsorted(np.cumsum(lengths[begin : begin + _TOKENS]), _TOKENS)))
        some = order[begin:end]
        for part in parts:
            part.look_up(offsets[some], offsets[some + 1])
        for i, n in enumerate(some.tolist()):
            T = int(offsets[n + 1] - offsets[n])
            rate = eta / (1 + eta * decay * (taken + begin + i))
            shrink /= 1 + rate * decay
            rows = [None if part is None else part.rows(i, T) for part in (on_states, on_nodes, on_arcs)]
            node, arc = _lattice(topology, plain, rows, shrink)
            label = gold[offsets[n] : offsets[n + 1]]
            right = said.right[label]
            if len(said.cost):
                node += np.where(right, 0.0, said.cost[offsets[n] : offsets[n + 1], None])
            if label.max() >= said.n_labels:
                d_node, d_arc, more = _difference_of_sets(node, arc, topology, right)
            else:
                d_node, d_arc, more = _difference(node, arc, topology, label, sizes)
            often = said.of_sentences[n] if len(said.of_sentences) else 1.0
            loss += often * more
            step = often * rate / shrink
            d_state = np.zeros((T, topology.n_states))
            d_state[:, state[opens]] = np.add.reduceat(d_node.take(by_state, axis=1), opens, axis=1)
            on_states.update(i, d_state, step)
            if on_nodes is not None:
                on_nodes.update(i, _beside(d_node), step)
            if on_arcs is not None:
                on_arcs.update(i, _beside(d_arc), step)
            plain.node[:] -= step * d_node.sum(axis=0) * topology.has_node
            plain.arc[:] -= step * d_arc[1 if on_arcs is not None else 0 :].sum(axis=0) * topology.has_arc
        begin = end
    return loss, shrink
