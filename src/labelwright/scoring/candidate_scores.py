"""From encoded sentences to the scores of their candidates, and to bounds on what pruning missed, in float64."""

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import boundaries
from labelwright.features.incidence import Encoded
from labelwright.kernels import candidate_chains, candidates, missed, zero_order
from labelwright.parallel import Workers, computed_once, sentence_ranges
from labelwright.scoring.sparse_parameters import (
    PrunedParameters,
    Pruning,
    by_slot,
    hits_of,
    node_scores,
    picked,
    with_ends,
)
from labelwright.scoring.trained import Trained
from labelwright.structures.candidates import Chart, LabelLists, chart
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
BLOCK_TOKENS = 4096  # scored together
MOST_NUMBERS = 1 << 26  # scores of all labels of one sentence: longer ones are not proven
WIDEST = {1: 512, 2: 64}  # candidates of a token when they are enlarged, by order


class Transitions(NamedTuple):
    """Transitions above 0, sorted by one of their labels."""

    ptr: Array  # [L+1]
    label: Array  # the other label
    score: Array


class Reach(NamedTuple):
    """What transitions can add at most, for bounds; of order 2 a pair counts with the best triple that ends in it."""

    value: Array  # [P+2]  by place
    out: Transitions  # by the first label
    into: Transitions  # by the second
    best: Array  # [2, L]  the largest transition out of each label, and into it; 0 at least


class Missed(NamedTuple):
    """Bounds on the labellings that pruning has cut off."""

    highest: float  # of their scores
    scores: Array  # [T, L]  of those with this label, which is no candidate


class ScoredChart(NamedTuple):
    """A chart with its scores."""

    chart: Chart
    slots: Array  # [slots]
    nodes: Array  # [nodes]


class CandidateScores:
    """Scores the candidates of encoded sentences, under a state space whose constraints hold."""

    def __init__(
        self,
        trained: Trained,
        space: StateSpace,
        data: Encoded,
        permitted: Array | None = None,
        one: Workers | None = None,
    ):
        parameters: Any = trained.parameters
        assert trained.pruning is not None
        self.parameters: PrunedParameters = parameters
        self.pruning: Pruning = trained.pruning
        self.space, self.permitted, self.offsets, self.scheme = space, permitted, data.offsets, trained.scheme
        self.features, self.cells = data.incidences["state"], self.parameters.cells["state"]
        weights, parts = trained.total_weights, self.parameters.slices
        self.state = weights[parts["state"]]
        self.bias = self.pruning.prior * self.pruning.bias.astype(np.float64)
        self.pairs = with_ends(weights[parts["transitions"]])
        self.arcs = with_ends(weights[parts["triples"]]) if self.order == 2 else self.pairs
        self._one = one or Workers(1)

    def tempered(self, temperature: float) -> "CandidateScores":
        """The same with all scores divided by a temperature; candidates stay the same."""
        cooler = copy.copy(self)
        cooler.__dict__.pop("reach", None)  # computed of the scores
        cooler.state, cooler.bias, cooler.pairs = (x / temperature for x in (self.state, self.bias, self.pairs))
        cooler.arcs = self.arcs / temperature if self.order == 2 else cooler.pairs
        return cooler

    @property
    def order(self) -> int:
        return self.parameters.order

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of sentences that are scored together; they depend on the data alone."""
        return sentence_ranges(self.offsets, BLOCK_TOKENS)

    def lists(self, first: int, end: int, wider: int = 1) -> LabelLists:
        """The candidates of the tokens first:end; `wider` multiplies the cut-off and the most of a token."""
        most = min(WIDEST[self.order], self.pruning.most * wider) if wider > 1 else self.pruning.most
        pruning = self.pruning._replace(cutoff=self.pruning.cutoff * wider, most=most)
        tokens = np.arange(first, end)
        return picked(self.features, self.cells, pruning, tokens, self._one, permitted=self.permitted)[0]

    def scored(self, lists: LabelLists, first: int, offsets: Array) -> ScoredChart:
        """The chart of the candidates of the tokens from `first` on, of which sentences have offsets [n+1]."""
        rules = None if self.space.arc.all() else self.space.arc
        made = chart(lists, offsets, self.order, self.parameters.sparse, rules)
        hits, slots = hits_of(self.features, self.cells, lists, self._one, first), np.empty(len(lists.label))
        candidates.slot_scores(*hits, self.state, 0, len(slots), slots)
        slots += self.bias[lists.label]
        self._shut(made, slots)
        return ScoredChart(made, slots, node_scores(made, slots, self.pairs))

    def _shut(self, made: Chart, slots: Array) -> None:
        """Shut out the labels that may not begin or end a sentence."""
        ptr, label = made.lists
        some = np.diff(made.offsets) > 0
        for tokens, may in ((made.offsets[:-1][some], self.space.start), (made.offsets[1:][some] - 1, self.space.end)):
            if not may.all():
                for t in tokens.tolist():
                    slots[ptr[t] : ptr[t + 1]][~may[label[ptr[t] : ptr[t + 1]]]] = -np.inf

    def rows(self, first: int, end: int) -> Array:
        """The scores of all labels at the tokens of a sentence [T, L]; minus infinity for those not allowed."""
        rows = np.empty((end - first, self.space.n_labels))
        zero_order.label_rows(self.features, self.cells.ptr, self.cells.column, self.state, self.bias, first, end, rows)
        if self.permitted is not None:
            rows[~self.permitted[first:end]] = -np.inf
        rows[0, ~self.space.start] = -np.inf
        rows[-1, ~self.space.end] = -np.inf
        return rows

    # -- what pruning missed ------------------------------------------------------------------------------------------

    @computed_once
    def reach(self) -> Reach:
        sparse, L = self.parameters.sparse, self.space.n_labels
        value = self.pairs.copy()
        if self.order == 2:
            pair = self.parameters.places("transitions", sparse.codes("triples") % L**2)
            extra = np.zeros(len(value))
            np.maximum.at(extra, pair, self.arcs[:-2])
            value += extra
        first, second, scores = sparse.first, sparse.second, value[:-2]
        best = np.zeros((2, L))
        np.maximum.at(best[0], first, scores)
        np.maximum.at(best[1], second, scores)
        return Reach(value, _above_zero(first, second, scores, L), _above_zero(second, first, scores, L), best)

    def around(self, scored: ScoredChart) -> tuple[Array, Array]:
        """The scores of the best paths over candidates up to every slot, and after it."""
        made = scored.chart
        delta, ahead = np.empty((2, len(scored.nodes)))
        back = np.empty(len(delta), np.int64)
        for n in np.flatnonzero(np.diff(made.offsets)).tolist():
            where = made.layout, scored.nodes, made.arc_place, self.arcs, made.offsets, n
            candidate_chains.best_prefixes(*where, delta, back)
            candidate_chains.best_suffixes(*where, ahead)
        upto = by_slot(made, delta, np.maximum)
        return upto, ahead if self.order == 1 else self._ahead_of_slots(scored, ahead)

    def missed(self, scored: ScoredChart, around: tuple[Array, Array], begin: int, end: int, rows: Array) -> Missed:
        """Bounds on the labellings of the sentence begin:end that have a label which is no candidate."""
        made, reach = scored.chart, self.reach
        bound = np.empty_like(rows)
        lists = made.lists.ptr[begin : end + 1], made.lists.label, reach.value, made.places.pair
        tables = tuple(reach.out), tuple(reach.into), reach.best
        highest = missed.missed_bounds(rows, *lists, made.pair_ptr[begin : end + 1], *tables, *around, bound)
        return Missed(float(highest), bound)

    def _ahead_of_slots(self, scored: ScoredChart, ahead: Array) -> Array:
        """Of order 2: bounds on what may come after a slot, whatever the label before it."""
        made = scored.chart
        ptr, sizes = made.lists.ptr, np.diff(made.lists.ptr)
        token = np.repeat(np.arange(len(sizes)), np.diff(made.pair_ptr))
        within = np.arange(len(token)) - made.pair_ptr[token]
        value = scored.slots[ptr[token] + within % sizes[token]] + self.reach.value[made.places.pair]
        value += ahead[made.layout.node_ptr[token] + within]
        after = np.full(len(scored.slots), -np.inf)
        np.maximum.at(after, ptr[token - 1] + within // sizes[token], value)
        last = made.offsets[1:][np.diff(made.offsets) > 0] - 1
        for t in last.tolist():
            after[ptr[t] : ptr[t + 1]] = 0.0
        return after

    def mass_bound(self, scored: ScoredChart, begin: int, end: int, rows: Array) -> float:
        """log of an upper bound on the sum over all labellings of the sentence begin:end, of order 1."""
        made, sparse = scored.chart, self.parameters.sparse
        lists = made.lists.ptr[begin : end + 1], made.lists.label, self.pairs, made.places.pair
        every = made.pair_ptr[begin : end + 1], sparse.pair_ptr, sparse.second, self.reach.best[0]
        return float(missed.mass_bound(rows, *lists, *every))

    @computed_once
    def _triple_codes(self) -> Array:
        return self.parameters.sparse.codes("triples")

    def triples(self, codes: Array) -> Array:
        """The scores of triples of labels (r * L + s) * L + u."""
        known = self._triple_codes
        if not len(known):
            return np.zeros(len(codes))
        place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(known[place] == codes, self.arcs[place], 0.0)

    @computed_once
    def span_types(self) -> tuple[str, ...]:
        return tuple(boundaries(self.space.labels).types)


def _above_zero(by: Array, other: Array, scores: Array, n_labels: int) -> Transitions:
    """Transitions above 0, sorted by one of their labels."""
    chosen = np.flatnonzero(scores > 0)
    chosen = chosen[np.argsort(by[chosen], kind="stable")]
    ptr = offsets_from(np.bincount(by[chosen], minlength=n_labels))
    return Transitions(ptr, other[chosen].astype(np.int32), scores[chosen])
