"""What a batch passes to a layer above, and the derivatives by it: slots of labels and of pairs of labels (Candidates).

Of first order a pair of labels is some arcs, of second order some nodes: its *members*."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.structures.lattice import label_marginals
from labelwright.structures.passing import Candidates
from labelwright.structures.states import Graph
from labelwright.structures.timeorder import Gains, Messages, Plan

Array = NDArray[Any]


class PairMembers:
    """The arcs (order 1) or nodes (order 2) that stand for each pair of labels x * L + y."""

    def __init__(self, graph: Graph):
        self.n_labels, self.order = len(graph.contexts.opening), graph.order
        label, before, _, _ = graph.names
        self.source, self.target = graph.ends
        if graph.order == 1:
            real = np.flatnonzero((self.source < graph.n_nodes) & (self.target < graph.n_nodes))
            code = label[self.source[real]] * self.n_labels + label[self.target[real]]
        else:
            real = np.flatnonzero(before >= 0)
            code = before[real] * self.n_labels + label[real]
        order = np.argsort(code, kind="stable")
        self.member = real[order]
        self.ptr = np.searchsorted(code[order], np.arange(self.n_labels**2 + 1))


class BatchSlots(NamedTuple):
    """The slots of the sentences of a batch, by rows in time order; a pair of labels with several members has as many
    entries, one behind the other."""

    row: Array  # [n]  row of each label
    label: Array  # [n]
    slot: Array  # [n]
    pair_row: Array  # [m]  row of each member of a pair
    member: Array  # [m]  arc (order 1) or node (order 2)
    source: Array  # [m]  of an arc: where its source at the row before is in an array [T, Q],
    target: Array  # [m]  and where its target is
    first: Array  # [k]  the first entry of each pair
    pair_slot: Array  # [k]
    members: Array  # [k]  how many entries it has

    @staticmethod
    def of(candidates: Candidates, token: Array, plan: Plan, members: PairMembers, width: int) -> "BatchSlots":
        """The slots of tokens [T] in time order."""
        row, slot = _ranges(candidates.ptr[token], np.diff(candidates.ptr)[token])
        later = token[plan.n_first :]
        pair, pair_slot = _ranges(candidates.pair_ptr[later], np.diff(candidates.pair_ptr)[later])
        g = later[pair]
        i, j = np.divmod(pair_slot - candidates.pair_ptr[g], np.maximum(1, candidates.ptr[g + 1] - candidates.ptr[g]))
        before, label = candidates.label[candidates.ptr[g - 1] + i], candidates.label[candidates.ptr[g] + j]
        code = before.astype(np.int64) * members.n_labels + label
        sizes = np.diff(members.ptr)[code]
        some = sizes > 0  # of order 2, pairs that are forbidden have no node
        pair, pair_slot, code, sizes = pair[some], pair_slot[some], code[some], sizes[some]
        entry, place = _ranges(members.ptr[code], sizes)
        member, pair_row = members.member[place], pair[entry] + plan.n_first
        source = target = np.empty(0, np.int64)
        if members.order == 1:
            source = plan.before[pair[entry]] * width + members.source[member]
            target = pair_row * width + members.target[member]
        first = np.cumsum(sizes) - sizes
        labels = candidates.label[slot]
        return BatchSlots(row, labels, slot, pair_row, member, source, target, first, pair_slot, sizes)

    def fill(self, passed: Array, nodes: Array, E: Array, sums: Messages, graph: Graph) -> None:
        """Put the probabilities of all labels and pairs into their slots."""
        passed[self.slot] = label_marginals(nodes, graph)[self.row, self.label]
        if graph.order == 2:
            self._fill_pairs(passed, nodes[self.pair_row, self.member])
            return
        arc = E[0].take(self.member) if len(E) == 1 else E[self.pair_row, self.member]
        arc = arc * sums.alpha.reshape(-1).take(self.source)
        self._fill_pairs(passed, arc * sums.into.reshape(-1).take(self.target))

    def _fill_pairs(self, passed: Array, probability: Array) -> None:
        if len(self.first) == len(probability):
            passed[self.pair_slot] = probability
        elif len(self.first):
            passed[self.pair_slot] = np.add.reduceat(probability, self.first)

    def fill_in_log_space(self, passed: Array, rows: Array, nodes: Array, arcs: Array, graph: Graph) -> None:
        """The same for one sentence: its rows, the probabilities of its nodes [t, Q] and arcs [t, A]."""
        place = np.full(int(self.row.max()) + 1, -1)
        place[rows] = np.arange(len(rows))
        mine = place[self.row] >= 0
        labels = label_marginals(nodes[:, : graph.n_nodes], graph)
        passed[self.slot[mine]] = labels[place[self.row[mine]], self.label[mine]]
        numbers = nodes if graph.order == 2 else arcs
        for slot, first, size in zip(self.pair_slot, self.first, self.members, strict=True):
            t = place[self.pair_row[first]]
            if t >= 0:
                passed[slot] = numbers[t, self.member[first : first + size]].sum()

    def gains(self, d_passed: Array, graph: Graph) -> Gains:
        """What every node and arc gains: derivatives by what is passed."""
        n_rows, L = int(self.row.max()) + 1, len(graph.contexts.opening)
        by_label = np.zeros((n_rows, L))
        by_label[self.row, self.label] = d_passed[self.slot]
        nodes = np.zeros((n_rows, graph.width))
        nodes[:, : graph.n_nodes] = by_label[:, graph.label_of_node]
        gain = np.repeat(d_passed[self.pair_slot], self.members)
        if graph.order == 2:
            nodes[self.pair_row, self.member] += gain
            none = np.empty(0, np.int64)
            return Gains(nodes, none, none, none, none, np.empty(0))
        return Gains(nodes, self.pair_row, self.member, self.source, self.target, gain)


def _ranges(first: Array, sizes: Array) -> tuple[Array, Array]:
    """The numbers first[k] .. first[k] + sizes[k] of every k, and k itself."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.cumsum(sizes) - sizes
    return owner, np.arange(len(owner)) - starts[owner] + first[owner]
