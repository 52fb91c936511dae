"""Minus log-likelihood and its gradient over the candidates of every token: the objective of CRFs with many labels.

One evaluation:  weights -> scores of slots -> forward-backward over candidates -> expected minus observed counts of
slots and transitions -> gradient, cell by cell.  Sentences are cut into pieces that depend on the data alone, and every
sum is made by one thread in a fixed order: any number of threads gives the same bits."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import Incidence, invert
from labelwright.kernels import candidates
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.scoring.candidate_scores import PrunedParameters, hits_of, with_ends
from labelwright.structures import dag
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
        self.chart = chart(lists, offsets, parameters.sparse, rules)
        self.hits = hits_of(features, parameters.cells["state"], lists, workers)
        n = len(parameters.cells["state"].column)
        self._cell_ptr, self._cell_slot, entries = invert(self.hits.ptr, self.hits.cell, n)
        self._cell_value = self.hits.value[entries] if len(self.hits.value) else self.hits.value
        self._cell_pieces = even_ranges(self._cell_ptr, PIECES)
        self.groups = _groups(offsets)
        self._mark_gold(gold)

    def _mark_gold(self, gold: Array) -> None:
        """The slots of the gold labels, and how often they have each transition."""
        made, lists = self.chart, self.chart.lists
        self.gold_slot = lists.places_of(gold)
        sizes, within = np.diff(lists.ptr), self.gold_slot - lists.ptr[:-1]
        later = np.ones(len(gold), np.bool_)
        later[self.offsets[:-1]] = False
        t = np.flatnonzero(later)
        pair = made.pair_ptr[t] + within[t - 1] * sizes[t] + within[t]
        self.gold_pairs = np.bincount(made.place[pair], minlength=len(self.parameters.sparse.second) + 2)

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill `gradient` and return the loss."""
        parts = self.parameters.slices
        slots = self._slot_scores(weights[parts["state"]]) + self.prior
        pairs = with_ends(weights[parts["transitions"]])
        score = float(slots[self.gold_slot].sum()) + float(self.gold_pairs[:-1] @ pairs[:-1])
        slots[self.shut] = -np.inf
        by_label, counts, loss = self._sums(slots, pairs)
        gradient[parts["transitions"]] = (counts - self.gold_pairs)[:-2]
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

    def _sums(self, slots: Array, pairs: Array) -> tuple[Array, Array, float]:
        """P(slot), the expected number of every transition, and the sum of log Z."""
        made, offsets = self.chart, self.offsets
        alpha, beta, message = np.empty((3, len(slots)))
        log_z = np.empty(len(offsets) - 1)
        with np.errstate(over="ignore"):  # such sentences are summed as graphs
            E = np.exp(pairs)

        def sums(*pieces: tuple[int, int]) -> Array:
            counts = np.zeros(len(pairs))
            for begin, end in pieces:
                where = made.lists.ptr, made.pair_ptr, slots, made.place, E, offsets, begin, end
                candidates.posteriors(*where, alpha, beta, message, log_z, counts)
                for n in (begin + np.flatnonzero(np.isnan(log_z[begin:end]))).tolist():
                    log_z[n] = self._graph_sums(n, slots, pairs, alpha, counts)
            return counts

        total = np.zeros(len(pairs))
        for counts in self.workers.run(sums, self.groups):
            total += counts
        return alpha, total, float(log_z.sum())

    def _graph_sums(self, n: int, slots: Array, pairs: Array, nodes: Array, counts: Array) -> float:
        """The same of one sentence, whatever the size of its scores; returns log Z."""
        made = self.chart
        a, b = self.offsets[n : n + 2].tolist()
        graph, scores = made.of(a, b).graphs(slots[made.lists.ptr[a] : made.lists.ptr[b]], pairs).of(0)
        sums = dag.sums(graph, scores)
        nodes[made.lists.ptr[a] : made.lists.ptr[b]] = np.bincount(graph.target - 1, sums.arcs, graph.n_nodes - 1)
        place = made.place[made.pair_ptr[a] : made.pair_ptr[b]]
        counts += np.bincount(place, sums.arcs, len(counts))
        return sums.log_z


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
