"""The sentences of training data in batches of chains in time order, with what is said of their labels."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import clamped
from labelwright.learn.shards import even_number
from labelwright.learn.slots import BatchSlots, PairMembers
from labelwright.parallel import even_ranges
from labelwright.structures import timeorder
from labelwright.structures.passing import Candidates
from labelwright.structures.states import Graph, StateSpace
from labelwright.structures.supervision import COMPLETE, Supervision, kinds_of

Array = NDArray[Any]
NOTHING = np.empty(0, np.int32)


class Path(NamedTuple):
    """The one path of the labels of each sentence."""

    flat: Array  # [T]  where its nodes are in an array [T, Q]
    arc: Array  # [T - n_first]  its arcs


class Said(NamedTuple):
    """What is said of the tokens of a batch, by rows: sets of labels, and weights."""

    right: Array | None  # [T, Q]  nodes of the labels that are allowed, where there are sets or costs
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
    path: Path | None = None  # of the labels, where it is known and there is only one
    row: Array = NOTHING  # [T]  where labels have several states: row of each token, sentence by sentence
    gold: Array = NOTHING  # [T]  and their labels

    def path_arcs(self, n_arcs: int) -> Array:
        """How often the paths of the labels have each arc [A], as often as each sentence counts."""
        if self.path is None:
            return np.zeros(n_arcs)
        weight = self.said.weight
        return np.bincount(self.path.arc, None if weight is None else weight[self.plan.n_first :], n_arcs)


class LabelledChains:
    """Training data as chains over a graph.  Where all labels of a sentence are known, their path is known, too, unless
    labels have several states: its counts need no sums."""

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
        self.graph, self.latent, self.gold, self.offsets, self.dtype = graph, space.latent, gold, offsets, dtype
        self.supervision, self.candidates = supervision, candidates
        self._members = None if candidates is None else PairMembers(graph)
        self._kinds = kinds_of(gold, offsets, supervision, space.n_labels)
        allowed = supervision.allowed(space.n_labels)
        self._right = np.zeros((len(allowed), graph.width), np.bool_)  # nodes that a label or set of labels allows
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
        offsets = np.concatenate([[0], np.cumsum(lengths[complete])])
        clamped.paths_of(self.gold[tokens], self.graph.contexts, offsets, path)
        nodes[tokens] = path
        return nodes

    def cut(self, begin: int, end: int, tokens: int) -> Iterator[Array]:
        """The sentences begin:end in batches of about so many tokens: those of one kind together, the longest first."""
        kinds = self._kinds[begin:end]
        for kind in np.unique(kinds):
            sentences = begin + np.flatnonzero(kinds == kind)
            lengths = self.offsets[sentences + 1] - self.offsets[sentences]
            order = np.argsort(-lengths, kind="stable")
            sentences, ends = sentences[order], np.concatenate([[0], np.cumsum(lengths[order])])
            for a, b in even_ranges(ends, even_number(int(ends[-1]), tokens)):
                yield sentences[a:b]

    def batch(self, sentences: Array) -> tuple[Array, Chains]:
        """Sentences of one kind, the longest first: the token of each row, and what training needs of them."""
        lengths = self.offsets[sentences + 1] - self.offsets[sentences]
        plan = timeorder.plan(np.concatenate([[0], np.cumsum(lengths)]))
        within = plan.token - (np.cumsum(plan.lengths) - plan.lengths)[plan.rank]
        token = self.offsets[sentences][plan.rank] + within
        slots = None
        if self.candidates is not None and self._members is not None:
            slots = BatchSlots.of(self.candidates, token, plan, self._members, self.graph.width)
        kind = int(self._kinds[sentences[0]])
        made = Chains(plan, kind, slots, self._said(sentences, plan, token, kind))
        if self.latent:
            row = np.argsort(plan.token)
            return token, made._replace(row=row, gold=self.gold[token[row]])
        return token, made._replace(path=self._path(token, made)) if kind == COMPLETE else made

    def _path(self, token: Array, data: Chains) -> Path:
        """The paths of the labels of a batch."""
        node, plan = self._paths[token], data.plan
        flat = (np.arange(len(node)) * self.graph.width + node).astype(np.int32)
        arc = (self.graph.contexts.base[node[plan.before]] + node[plan.n_first :]).astype(np.int32)
        return Path(flat, arc)

    def _said(self, sentences: Array, plan: timeorder.Plan, token: Array, kind: int) -> Said:
        """What is said of these sentences, which are sorted by length already."""
        _, of_sentences, of_tokens = self.supervision
        with np.errstate(divide="ignore"):
            cost = None if of_tokens is None else np.log(of_tokens[token]).astype(self.dtype)
        weight = None if of_sentences is None else of_sentences[sentences][plan.rank].astype(self.dtype)
        right = None if kind == COMPLETE and cost is None else self._right[self.gold[token]]
        return Said(right, cost, weight)
