"""Minus log-likelihood and its gradient over the candidates of every token: the objective of CRFs with many labels.

One evaluation:  weights -> scores of slots -> forward-backward over candidates -> expected minus observed counts of
slots and transitions -> gradient, cell by cell.  Sentences are cut into pieces that depend on the data alone, and every
sum is made by one thread in a fixed order: any number of threads gives the same bits."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import Incidence, invert
from labelwright.kernels import candidate_chains, candidates
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.scoring.sparse_parameters import PrunedParameters, by_slot, hits_of, node_scores, with_ends
from labelwright.structures.candidates import LabelLists, chart, pieces_between
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
PIECE_TOKENS = 4096
PIECES = 16  # of the gradient
GROUPS = 8  # of sentences, each with counts of its own


class PrunedLikelihood:
    """loss(weights) = sum_n log Z(x_n) - score(x_n, y_n), where Z sums over the candidates, and its gradient."""

    def __init__(
        self,
        features: Incidence,
        offsets: Array,
        gold: Array,
        parameters: PrunedParameters,
        lists: LabelLists,
        workers: Workers,
        permitted: StateSpace | None = None,
        prior: Array | None = None,
        lost: Array | None = None,
    ):
        """`permitted` is a state space whose constraints hold; None: all transitions are allowed.  `prior` [slots] is
        what the zero-order model adds to the scores of slots; None: nothing.  Tokens that are `lost` [T], whose only
        candidate is their gold label, cut their sentence into pieces, and teach nothing themselves."""
        self.parameters, self.workers = parameters, workers
        self.shut = _shut(lists, offsets, permitted)
        self.offsets = offsets = offsets if lost is None else pieces_between(offsets, lost)
        self.prior = np.zeros(len(lists.label)) if prior is None else prior
        rules = None if permitted is None or permitted.arc.all() else permitted.arc
        self.chart = chart(lists, offsets, parameters.order, parameters.sparse, rules)
        self.hits = hits_of(features, parameters.cells["state"], lists, workers)
        n = len(parameters.cells["state"].column)
        self._cell_ptr, self._cell_slot, entries = invert(self.hits.ptr, self.hits.cell, n)
        self._cell_value = self.hits.value[entries] if len(self.hits.value) else self.hits.value
        self._cell_pieces = even_ranges(self._cell_ptr, PIECES)
        self.groups = _groups(offsets)
        self._mark_gold(gold)

    def _mark_gold(self, gold: Array) -> None:
        """The slots of the gold labels, and how often they have each transition and triple."""
        made, lists = self.chart, self.chart.lists
        self.gold_slot = lists.places_of(gold)
        sizes, within = np.diff(lists.ptr), self.gold_slot - lists.ptr[:-1]
        later = np.ones(len(gold), np.bool_)
        later[self.offsets[:-1]] = False
        t = np.flatnonzero(later)
        pair = made.pair_ptr[t] + within[t - 1] * sizes[t] + within[t]
        sparse = self.parameters.sparse
        self.gold_pairs = np.bincount(made.places.pair[pair], minlength=len(sparse.second) + 2)
        if made.order == 2:
            t = t[later[t - 1]]
            block = within[t - 1] * made.layout.sources[t] + within[t - 2]
            arc = made.layout.arc_ptr[t] + block * sizes[t] + within[t]
            self.gold_triples = np.bincount(made.places.triple[arc], minlength=len(sparse.third) + 2)

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill `gradient` and return the loss."""
        made, parts = self.chart, self.parameters.slices
        slots = self._slot_scores(weights[parts["state"]]) + self.prior
        pairs = with_ends(weights[parts["transitions"]])
        score = float(slots[self.gold_slot].sum()) + float(self.gold_pairs[:-1] @ pairs[:-1])
        slots[self.shut] = -np.inf
        node = node_scores(made, slots, pairs)
        if made.order == 1:
            nodes, counts, loss = self._sums(node, pairs)
            gradient[parts["transitions"]] = (counts - self.gold_pairs)[:-2]
        else:
            triples = with_ends(weights[parts["triples"]])
            score += float(self.gold_triples[:-1] @ triples[:-1])
            nodes, counts, loss = self._sums(node, triples)
            gradient[parts["triples"]] = (counts - self.gold_triples)[:-2]
            gradient[parts["transitions"]] = (self._pair_counts(nodes, len(pairs)) - self.gold_pairs)[:-2]
        by_label = by_slot(made, nodes)
        by_label[self.gold_slot] -= 1.0
        cells = self._cell_ptr, self._cell_slot, self._cell_value, by_label
        into = gradient[parts["state"]]
        self.workers.run(candidates.collect, [(*cells, a, b, into) for a, b in self._cell_pieces])
        return loss - score

    def precise(self) -> None:
        """The sums are in float64 already."""

    def _slot_scores(self, state: Array) -> Array:
        """The sums of the weights of every slot."""
        ptr = self.chart.lists.ptr
        slots = np.empty(len(self.chart.lists.label))
        pieces = [(int(ptr[self.offsets[a]]), int(ptr[self.offsets[b]])) for group in self.groups for a, b in group]
        self.workers.run(candidates.slot_scores, [(*self.hits, state, a, b, slots) for a, b in pieces])
        return slots

    def _sums(self, node: Array, scores: Array) -> tuple[Array, Array, float]:
        """P(node), the expected number of every transition (of order 2: triple), and the sum of log Z."""
        made, offsets = self.chart, self.offsets
        alpha, beta, message = np.empty((3, len(node)))
        log_z = np.empty(len(offsets) - 1)
        with np.errstate(over="ignore"):  # such sentences are summed in log space
            E = np.exp(scores)

        def sums(*pieces: tuple[int, int]) -> Array:
            counts = np.zeros(len(scores))
            for begin, end in pieces:
                arcs, scratch = (made.arc_place, E, offsets, begin, end), (alpha, beta, message, log_z)
                candidate_chains.sums(made.layout, node, *arcs, *scratch)
                candidate_chains.posteriors(made.layout, *arcs, *scratch, counts)
                for n in (begin + np.flatnonzero(np.isnan(log_z[begin:end]))).tolist():
                    where = made.layout, node, made.arc_place, scores, offsets, n
                    log_z[n] = candidate_chains.log_sums(*where, alpha, beta, counts)
            return counts

        total = np.zeros(len(scores))
        for counts in self.workers.run(sums, self.groups):
            total += counts
        return alpha, total, float(log_z.sum())

    def _pair_counts(self, nodes: Array, n: int) -> Array:
        """Of order 2: how often every transition is expected, from the probabilities of nodes."""
        made = self.chart
        first = np.flatnonzero(np.diff(made.pair_ptr) == 0)  # tokens whose nodes are no pairs
        inner = np.ones(len(nodes), np.bool_)
        for begin, end in zip(
            made.layout.node_ptr[first].tolist(), made.layout.node_ptr[first + 1].tolist(), strict=True
        ):
            inner[begin:end] = False
        counts = np.zeros(n)
        candidates.add_counts(made.places.pair, nodes[inner], 0, len(made.places.pair), counts)
        return counts


def _groups(offsets: Array) -> list[list[tuple[int, int]]]:
    """Ranges of sentences, in groups whose counts are summed by one thread each; they depend on the data alone."""
    pieces = sentence_ranges(offsets, PIECE_TOKENS)
    cuts = np.linspace(0, len(pieces), GROUPS + 1).astype(int).tolist()
    return [pieces[a:b] for a, b in itertools.pairwise(cuts) if a < b]


def _shut(lists: LabelLists, offsets: Array, space: StateSpace | None) -> Array:
    """The slots of labels that may not begin or end a sentence."""
    if space is None or (space.start.all() and space.end.all()):
        return np.empty(0, np.int64)
    token = np.repeat(np.arange(len(lists.ptr) - 1), np.diff(lists.ptr))
    begins, ends = np.zeros(len(lists.ptr) - 1, np.bool_), np.zeros(len(lists.ptr) - 1, np.bool_)
    begins[offsets[:-1]] = True
    ends[offsets[1:] - 1] = True
    bad = (begins[token] & ~space.start[lists.label]) | (ends[token] & ~space.end[lists.label])
    return np.flatnonzero(bad)
