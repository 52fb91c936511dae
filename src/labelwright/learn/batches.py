"""How training data are cut into pieces of work: shards, whose rows are in memory together, and
batches; and batches of chains in time order, with what is said of their labels and what they pass
to a layer above.

A layer passes slots of labels and of pairs of labels (Candidates).  Of first order a pair of labels
is some arcs, of second order some nodes: its *members*."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.kernels import clamped
from labelwright.parallel import even_ranges, sentence_ranges
from labelwright.structures import timeorder
from labelwright.structures.lattice import label_marginals
from labelwright.structures.passing import Candidates
from labelwright.structures.states import Graph, StateSpace
from labelwright.structures.supervision import COMPLETE, Supervision, kinds_of
from labelwright.structures.timeorder import Gains, Messages, Plan

Array = NDArray[Any]

PIECES = 8  # of a shard


class Sizes(NamedTuple):
    """How much may be in one piece of work, and in memory together."""

    batch_tokens: int
    batch_numbers: int
    arc_numbers: int
    shard_numbers: int
    shard_batches: int


class Batch(NamedTuple):
    """Some sentences: one piece of work."""

    number: int
    rows: dict[str, Any]  # their rows of every kind among those of the shard: a slice, or numbers
    data: Any  # what else the expectations need of them


class Shard(NamedTuple):
    """A run of sentences whose rows are in memory together."""

    number: int
    rows: dict[str, tuple[int, int]]  # all its rows of every kind
    pieces: list[dict[str, tuple[int, int]]]  # the same in pieces of whole sentences
    batches: list[Batch]


def pieces_of(
    starts: dict[str, Array], begin: int, end: int, offsets: Array
) -> tuple[dict[str, tuple[int, int]], list[dict[str, tuple[int, int]]]]:
    """The rows of sentences begin:end, and the same in pieces; sentence n has the rows
    starts[name][n:n+2]."""
    tokens = max(1, int(offsets[end] - offsets[begin]) // PIECES)
    cuts = [(begin + a, begin + b) for a, b in sentence_ranges(offsets[begin : end + 1], tokens)]
    made = [
        {name: (int(x[a]), int(x[b])) for name, x in starts.items()}
        for a, b in [(begin, end), *cuts]
    ]
    return made[0], made[1:]


class PairMembers:
    """The arcs (order 1) or nodes (order 2) that stand for each pair of labels x * L + y."""

    def __init__(self, graph: Graph):
        self.n_labels, self.order = len(graph.contexts.opening), graph.order
        label, before = graph.label_of_node.astype(np.int64), graph.label_before
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
    """The slots of the sentences of a batch, by rows in time order; a pair of labels with several
    members has as many entries, one behind the other."""

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
    def of(
        candidates: Candidates, token: Array, plan: Plan, members: PairMembers, width: int
    ) -> "BatchSlots":
        """The slots of tokens [T] in time order."""
        row, slot = runs_of(candidates.ptr[token], np.diff(candidates.ptr)[token])
        later = token[plan.n_first :]
        pair, pair_slot = runs_of(candidates.pair_ptr[later], np.diff(candidates.pair_ptr)[later])
        g = later[pair]
        i, j = np.divmod(
            pair_slot - candidates.pair_ptr[g],
            np.maximum(1, candidates.ptr[g + 1] - candidates.ptr[g]),
        )
        before, label = (
            candidates.label[candidates.ptr[g - 1] + i],
            candidates.label[candidates.ptr[g] + j],
        )
        code = before.astype(np.int64) * members.n_labels + label
        sizes = np.diff(members.ptr)[code]
        some = sizes > 0  # of order 2, pairs that are forbidden have no node
        pair, pair_slot, code, sizes = pair[some], pair_slot[some], code[some], sizes[some]
        entry, place = runs_of(members.ptr[code], sizes)
        member, pair_row = members.member[place], pair[entry] + plan.n_first
        source = target = np.empty(0, np.int64)
        if members.order == 1:
            source = plan.before[pair[entry]] * width + members.source[member]
            target = pair_row * width + members.target[member]
        first = np.cumsum(sizes) - sizes
        labels = candidates.label[slot]
        return BatchSlots(
            row, labels, slot, pair_row, member, source, target, first, pair_slot, sizes
        )

    def fill(self, passed: Array, nodes: Array, E: Array, sums: Messages, graph: Graph) -> None:
        """Put the probabilities of all labels and pairs into their slots."""
        passed[self.slot] = label_marginals(nodes, graph)[self.row, self.label]
        if graph.order == 2:
            probability = nodes[self.pair_row, self.member]
        else:
            arc = E[0].take(self.member) if len(E) == 1 else E[self.pair_row, self.member]
            probability = (
                arc
                * sums.alpha.reshape(-1).take(self.source)
                * sums.into.reshape(-1).take(self.target)
            )
        if len(self.first) == len(probability):
            passed[self.pair_slot] = probability
        elif len(self.first):
            passed[self.pair_slot] = np.add.reduceat(probability, self.first)

    def fill_in_log_space(
        self, passed: Array, rows: Array, nodes: Array, arcs: Array, graph: Graph
    ) -> None:
        """The same for one sentence: its rows, the probabilities of its nodes [t, Q] and arcs [t,
        A]."""
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


NOTHING = np.empty(0, np.int32)


class Path(NamedTuple):
    """The one path of the labels of each sentence."""

    flat: Array  # [T]  where its nodes are in an array [T, Q]
    arc: Array  # [T - n_first]  its arcs


class Said(NamedTuple):
    """What is said of the tokens of a batch, by rows: sets of labels, and weights."""

    # [T, Q]  nodes of the labels that are allowed, where there are sets or costs
    right: Array | None
    cost: Array | None  # [T]  added to the scores of all others
    weight: Array | None  # [T]  how often the sentence counts

    def add_costs(self, node: Array) -> None:
        """Add costs to the scores of nodes that are wrong."""
        if self.cost is not None and self.right is not None:
            node += np.where(self.right, np.array(0, node.dtype), self.cost[:, None])


class Chains(NamedTuple):
    """The sentences of a batch in time order, with their labels."""

    plan: timeorder.Plan
    kind: int  # are all labels known, some, or none (structures.supervision)?
    slots: BatchSlots | None  # what is passed to a layer above
    said: Said
    runs: list[tuple[slice, slice]]  # of the plan, found once: every evaluation needs them
    path: Path | None = None  # of the labels, where it is known and there is only one
    # [T]  where labels have several states: row of each token, sentence by sentence
    row: Array = NOTHING
    gold: Array = NOTHING  # [T]  and their labels

    def path_arcs(self, n_arcs: int) -> Array:
        """How often the paths of the labels have each arc [A], as often as each sentence counts."""
        if self.path is None:
            return np.zeros(n_arcs)
        weight = self.said.weight
        return np.bincount(
            self.path.arc, None if weight is None else weight[self.plan.n_first :], n_arcs
        )


class LabelledChains:
    """Training data as chains over a graph.  Where all labels of a sentence are known, their path
    is known, too, unless labels have several states: its counts need no sums."""

    def __init__(
        self,
        space: StateSpace,
        graph: Graph,
        gold: Array,
        offsets: Array,
        supervision: Supervision,
        candidates: Candidates | None,
        dtype: Any,
    ):
        self.graph, self.latent, self.gold, self.offsets, self.dtype = (
            graph,
            space.latent,
            gold,
            offsets,
            dtype,
        )
        self.supervision, self.candidates = supervision, candidates
        self._members = None if candidates is None else PairMembers(graph)
        self._kinds = kinds_of(gold, offsets, supervision, space.n_labels)
        allowed = supervision.allowed(space.n_labels)
        # nodes that a label or set of labels allows
        self._right = np.zeros((len(allowed), graph.width), np.bool_)
        self._right[:, : graph.n_nodes] = allowed[:, graph.label_of_node]
        self._paths = NOTHING if self.latent else self._paths_of_labels()

    def _paths_of_labels(self) -> Array:
        """The nodes [T] of the paths of labels, in sentences where all labels are known."""
        complete = self._kinds == COMPLETE
        if self.graph.order == 1 or not complete.any():
            return self.gold
        lengths = np.diff(self.offsets)
        tokens = np.repeat(complete, lengths)
        nodes, path = np.zeros_like(self.gold), np.empty(int(tokens.sum()), self.gold.dtype)
        offsets = offsets_from(lengths[complete])
        clamped.paths_of(self.gold[tokens], self.graph.contexts, offsets, path)
        nodes[tokens] = path
        return nodes

    def cut(self, begin: int, end: int, tokens: int) -> Iterator[Array]:
        """The sentences begin:end in batches of about so many tokens: those of one kind together,
        the longest first."""
        kinds = self._kinds[begin:end]
        for kind in np.unique(kinds):
            sentences = begin + np.flatnonzero(kinds == kind)
            lengths = self.offsets[sentences + 1] - self.offsets[sentences]
            order = np.argsort(-lengths, kind="stable")
            sentences, ends = sentences[order], offsets_from(lengths[order])
            n = max(1, -(-int(ends[-1]) // tokens))
            n = n if n < 3 else -(-n // 4) * 4  # so that threads are done together
            for a, b in even_ranges(ends, n):
                yield sentences[a:b]

    def batch(self, sentences: Array) -> tuple[Array, Chains]:
        """Sentences of one kind, the longest first: the token of each row, and what training needs
        of them."""
        lengths = self.offsets[sentences + 1] - self.offsets[sentences]
        plan = timeorder.plan(offsets_from(lengths))
        within = plan.token - (np.cumsum(plan.lengths) - plan.lengths)[plan.rank]
        token = self.offsets[sentences][plan.rank] + within
        slots = None
        if self.candidates is not None and self._members is not None:
            slots = BatchSlots.of(self.candidates, token, plan, self._members, self.graph.width)
        kind = int(self._kinds[sentences[0]])
        made = Chains(plan, kind, slots, self._said(sentences, plan, token, kind), plan.runs)
        if self.latent:
            row = np.argsort(plan.token)
            return token, made._replace(row=row, gold=self.gold[token[row]])
        return token, made._replace(path=self._path(token, made)) if kind == COMPLETE else made

    def _path(self, token: Array, data: Chains) -> Path:
        node, plan = self._paths[token], data.plan
        flat = (np.arange(len(node)) * self.graph.width + node).astype(np.int32)
        arc = (self.graph.contexts.base[node[plan.before]] + node[plan.n_first :]).astype(np.int32)
        return Path(flat, arc)

    def _said(self, sentences: Array, plan: timeorder.Plan, token: Array, kind: int) -> Said:
        """What is said of these sentences, which are sorted by length already."""
        _, of_sentences, of_tokens = self.supervision
        with np.errstate(divide="ignore"):
            cost = None if of_tokens is None else np.log(of_tokens[token]).astype(self.dtype)
        weight = (
            None if of_sentences is None else of_sentences[sentences][plan.rank].astype(self.dtype)
        )
        right = None if kind == COMPLETE and cost is None else self._right[self.gold[token]]
        return Said(right, cost, weight)
