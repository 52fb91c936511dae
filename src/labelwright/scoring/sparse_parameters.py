"""Models with many labels: which weights exist, what prunes the labels of a token, and the scores of candidates.

All weights are one vector, as in scoring.parameters: state cells, then the transitions and, of order 2, the triples;
but only pairs and triples of labels that were candidates in training have a weight."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.features.incidence import Incidence
from labelwright.kernels import candidates as kernels
from labelwright.kernels.zero_order import pick_labels
from labelwright.parallel import Workers
from labelwright.scoring.parameters import Cells
from labelwright.structures.candidates import (
    Chart,
    LabelLists,
    SparseTransitions,
    candidate_pairs,
    candidate_triples,
    gold_lists,
    sparse_transitions,
)

Array = NDArray[Any]
MOST_PAIRS = 1 << 22  # of candidates: where there are more, only pairs of gold labels have a weight
MOST_TRIPLES = 1 << 24  # of all tokens together: the same for triples
CHUNK = 2048  # tokens of one piece of work


class PrunedParameters(NamedTuple):
    """The cells of a model with sparse transitions, and where each part lies in the weight vector."""

    cells: dict[str, Cells]
    n_states: int
    order: int
    sparse: SparseTransitions

    @property
    def n_weights(self) -> int:
        return int(max(part.stop for part in self.slices.values()))

    @property
    def slices(self) -> dict[str, slice]:
        """The part of the weight vector of the state cells, of "transitions" and (order 2) of "triples"."""
        sizes = {name: len(cells.column) for name, cells in self.cells.items()}
        sizes["transitions"] = len(self.sparse.second)
        if self.order == 2:
            sizes["triples"] = len(self.sparse.third)
        ends = itertools.accumulate(sizes.values())
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    def codes_of(self, part: str, numbers: Array) -> Array:
        """The pairs r * S + s ("transitions") or triples of weights with these numbers."""
        codes: Array = self.sparse.codes(part)[numbers]
        return codes

    def places(self, part: str, codes: Array) -> Array:
        """The weight of each of these pairs or triples; -1 where there is none."""
        known = self.sparse.codes(part)
        if not len(known):
            return np.full(len(codes), -1)
        place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(known[place] == codes, place, -1)


class Pruning(NamedTuple):
    """The zero-order model that chooses the candidates of a token."""

    weights: Array  # [W of states] float32  on the state cells of the model
    bias: Array  # [L] float32  of every label
    cutoff: float  # candidates are at most so far below the best label, in nats,
    most: int  # and no more than these
    share: float  # of gold labels that it kept on held-out tokens
    prior: float  # times its scores are part of the model's; 0 in files of before


def pruned_parameters(
    cells: dict[str, Cells], lists: LabelLists, gold: Array, offsets: Array, n_labels: int, order: int
) -> PrunedParameters:
    """Weights for all pairs (and triples) of candidates or, where these are too many, of gold labels."""
    pairs = candidate_pairs(lists, offsets, n_labels)
    if len(pairs) > MOST_PAIRS:
        pairs = candidate_pairs(gold_lists(gold), offsets, n_labels)
    triples = np.empty(0, np.int64)
    if order == 2:
        some = candidate_triples(lists, offsets, n_labels, MOST_TRIPLES)
        triples = _gold_triples(gold, offsets, n_labels) if some is None else some
        triples = triples[np.isin(triples // n_labels, pairs) & np.isin(triples % n_labels**2, pairs)]
    return PrunedParameters(cells, n_labels, order, sparse_transitions(n_labels, pairs, triples))


def _gold_triples(gold: Array, offsets: Array, n_labels: int) -> Array:
    """The triples of gold labels, as rising codes."""
    triples = candidate_triples(gold_lists(gold), offsets, n_labels, len(gold))
    assert triples is not None
    return triples


def picked(
    features: Incidence,
    cells: Cells,
    pruning: Pruning,
    tokens: Array,
    workers: Workers,
    permitted: Array | None = None,
) -> tuple[LabelLists, Array]:
    """The candidates of some tokens (numbers in `features`), and their scores [slots] float32."""
    rules = np.empty((0, 0), np.bool_) if permitted is None else permitted
    n_labels = len(pruning.bias)
    most = min(pruning.most, n_labels)

    def pick(begin: int, end: int) -> tuple[Array, Array, Array]:
        part = tokens[begin:end]
        row, sizes = np.empty(n_labels, np.float32), np.empty(len(part), np.int64)
        labels, scores = np.empty((len(part), most), np.int32), np.empty((len(part), most), np.float32)
        model = cells.ptr, cells.column, pruning.weights, pruning.bias
        pick_labels(features, *model, part, rules, pruning.cutoff, most, row, sizes, labels, scores)
        picked = np.arange(most) < sizes[:, None]
        return sizes, labels[picked], scores[picked]

    pieces = workers.run(pick, [(a, min(a + CHUNK, len(tokens))) for a in range(0, len(tokens), CHUNK)])
    if not pieces:
        return LabelLists(np.zeros(1, np.int64), np.empty(0, np.int32)), np.empty(0, np.float32)
    sizes, labels, scores = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return LabelLists(offsets_from(sizes), labels), scores


class Hits(NamedTuple):
    """The state cells of every slot."""

    ptr: Array  # [slots+1]
    cell: Array  # cells of slot s: cell[ptr[s]:ptr[s+1]]
    value: Array  # of their features; empty when all are one


def hits_of(features: Incidence, cells: Cells, lists: LabelLists, workers: Workers, first: int = 0) -> Hits:
    """The cells of the slots of the tokens from `first` on."""
    T = len(lists.ptr) - 1
    pieces = [(a, min(a + CHUNK, T)) for a in range(0, T, CHUNK)]
    if first:
        features = features._replace(keys=features.keys[first:], token_ptr=features.token_ptr[first:])
    counts, nothing = np.zeros(len(lists.label), np.int64), np.empty(0, np.int32)
    empty = np.empty(0, np.float32)

    def count(a: int, b: int) -> None:
        kernels.slot_cells(features, cells.ptr, cells.column, *lists, a, b, True, counts, nothing, empty)

    workers.run(count, pieces)
    ptr = offsets_from(counts)
    cell = np.empty(int(ptr[-1]), np.int32)
    value = np.empty(len(cell) if len(features.token_value) else 0, np.float32)
    fill = ptr[:-1].copy()

    def put(a: int, b: int) -> None:
        kernels.slot_cells(features, cells.ptr, cells.column, *lists, a, b, False, fill, cell, value)

    workers.run(put, pieces)
    return Hits(ptr, cell, value)


def node_scores(chart: Chart, slots: Array, pairs: Array) -> Array:
    """Scores of the nodes of a chart from those of its slots and of transitions by place (with 0 and -inf behind)."""
    if chart.order == 1:
        return slots
    node_ptr, sizes = chart.layout.node_ptr, np.diff(chart.lists.ptr)
    nodes = np.diff(node_ptr)
    token = np.repeat(np.arange(len(sizes)), nodes)
    within = np.arange(len(token)) - node_ptr[token]
    score: Array = slots[chart.lists.ptr[token] + within % sizes[token]]
    later = np.diff(chart.pair_ptr)[token] > 0  # a first token has no pairs
    score[later] += pairs[chart.places.pair]
    return score


def by_slot(chart: Chart, nodes: Array, reduce: Any = np.add) -> Array:
    """Numbers of nodes summed (or reduced otherwise) over the labels before, for every slot."""
    if chart.order == 1:
        return nodes
    node_ptr, sizes = chart.layout.node_ptr, np.diff(chart.lists.ptr)
    token = np.repeat(np.arange(len(sizes)), np.diff(node_ptr))
    slot = chart.lists.ptr[token] + (np.arange(len(token)) - node_ptr[token]) % sizes[token]
    if reduce is np.add:
        return np.bincount(slot, nodes, len(chart.lists.label))
    reduced = np.full(len(chart.lists.label), -np.inf)
    reduce.at(reduced, slot, nodes)
    return reduced


def with_ends(weights: Array) -> Array:
    """Weights in float64 with those of pairs without one (0) and of forbidden pairs (minus infinity) behind."""
    return np.concatenate([weights.astype(np.float64), [0.0, -np.inf]])
