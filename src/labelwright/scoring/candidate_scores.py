"""Models with many labels: which weights exist, what prunes the labels of a token, the scores of
candidates, and bounds on what pruning missed, in float64."""

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import boundaries
from labelwright.features.incidence import Encoded, Incidence
from labelwright.kernels import candidates as kernels
from labelwright.parallel import Workers, computed_once, sentence_ranges
from labelwright.scoring.parameters import Cells, Parameters, Pruning, Trained
from labelwright.structures.candidates import (
    Chart,
    LabelLists,
    candidate_pairs,
    chart,
    gold_lists,
    sparse_transitions,
)
from labelwright.structures.dag import Dag, best_around
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
MOST_PAIRS = 1 << 22  # of candidates: where there are more, only pairs of gold labels have a weight
CHUNK = 2048  # tokens of one piece of work
BLOCK_TOKENS = 4096  # scored together
MOST_NUMBERS = 1 << 26  # scores of all labels of one sentence: longer ones are not proven
WIDEST = 512  # candidates of a token when they are enlarged


def pruned_parameters(
    cells: dict[str, Cells], lists: LabelLists, gold: Array, offsets: Array, n_labels: int
) -> Parameters:
    """Weights for all pairs of candidates or, where these are too many, of gold labels."""
    pairs = candidate_pairs(lists, offsets, n_labels)
    if len(pairs) > MOST_PAIRS:
        pairs = candidate_pairs(gold_lists(gold), offsets, n_labels)
    return Parameters(cells, n_labels, sparse=sparse_transitions(n_labels, pairs))


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
        row, sizes = np.empty((1, n_labels), np.float32), np.empty(len(part), np.int64)
        labels, scores = (
            np.empty((len(part), most), np.int32),
            np.empty((len(part), most), np.float32),
        )
        model = cells.ptr, cells.column, pruning.weights, pruning.bias
        kernels.pick_labels(
            features, *model, part, rules, pruning.cutoff, most, row, sizes, labels, scores
        )
        picked = np.arange(most) < sizes[:, None]
        return sizes, labels[picked], scores[picked]

    pieces = workers.run(
        pick, [(a, min(a + CHUNK, len(tokens))) for a in range(0, len(tokens), CHUNK)]
    )
    if not pieces:
        return LabelLists(np.zeros(1, np.int64), np.empty(0, np.int32)), np.empty(0, np.float32)
    sizes, labels, scores = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return LabelLists(offsets_from(sizes), labels), scores


class Hits(NamedTuple):
    """The state cells of every slot."""

    ptr: Array  # [slots+1]
    cell: Array  # cells of slot s: cell[ptr[s]:ptr[s+1]]
    value: Array  # of their features; empty when all are one


def hits_of(
    features: Incidence, cells: Cells, lists: LabelLists, workers: Workers, first: int = 0
) -> Hits:
    """The cells of the slots of the tokens from `first` on."""
    features = features._replace(token_value=features.token_value.astype(np.float32, copy=False))
    T = len(lists.ptr) - 1
    pieces = [(a, min(a + CHUNK, T)) for a in range(0, T, CHUNK)]
    if first:
        features = features._replace(
            keys=features.keys[first:], token_ptr=features.token_ptr[first:]
        )

    def visit(count: bool, *filled: Array) -> None:
        workers.run(
            lambda a, b: kernels.slot_cells(features, *cells, *lists, a, b, count, *filled), pieces
        )

    counts = np.zeros(len(lists.label), np.int64)
    visit(True, counts, np.empty(0, np.int32), np.empty(0, np.float32))
    ptr = offsets_from(counts)
    cell = np.empty(int(ptr[-1]), np.int32)
    value = np.empty(len(cell) if len(features.token_value) else 0, np.float32)
    visit(False, ptr[:-1].copy(), cell, value)
    return Hits(ptr, cell, value)


def with_ends(weights: Array) -> Array:
    """Weights in float64 with those of pairs without one (0) and of forbidden pairs (minus
    infinity) behind."""
    return np.concatenate([weights.astype(np.float64), [0.0, -np.inf]])


# -- scores and bounds -----------------------------------------------------------------------------


class Transitions(NamedTuple):
    """Transitions above 0, sorted by one of their labels."""

    ptr: Array  # [L+1]
    label: Array  # the other label
    score: Array


class Reach(NamedTuple):
    """What transitions can add at most, for bounds."""

    out: Transitions  # by the first label
    into: Transitions  # by the second
    best: Array  # [2, L]  the largest transition out of each label, and into it; 0 at least


class Missed(NamedTuple):
    """Bounds on the labellings that pruning has cut off."""

    highest: float  # of their scores
    scores: Array  # [T, L]  of those with this label, which is no candidate


class ScoredChart(NamedTuple):
    """A chart with the scores of its slots."""

    chart: Chart
    slots: Array  # [slots]


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
        assert trained.pruning is not None
        self.parameters, self.pruning = trained.parameters, trained.pruning
        self.space, self.permitted, self.offsets, self.scheme = (
            space,
            permitted,
            data.offsets,
            trained.scheme,
        )
        self.features, self.cells = data.incidences["state"], self.parameters.cells["state"]
        weights, parts = trained.total_weights, self.parameters.slices
        self.state = weights[parts["state"]]
        self.bias = self.pruning.prior * self.pruning.bias.astype(np.float64)
        self.pairs = with_ends(weights[parts["transitions"]])
        self._one = one or Workers(1)

    def tempered(self, temperature: float) -> "CandidateScores":
        """The same with all scores divided by a temperature; candidates stay the same."""
        cooler = copy.copy(self)
        cooler.__dict__.pop("reach", None)  # computed of the scores
        cooler.state, cooler.bias, cooler.pairs = (
            x / temperature for x in (self.state, self.bias, self.pairs)
        )
        return cooler

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of sentences that are scored together; they depend on the data alone."""
        return sentence_ranges(self.offsets, BLOCK_TOKENS)

    def lists(self, first: int, end: int, wider: int = 1) -> LabelLists:
        """The candidates of the tokens first:end; `wider` multiplies the cut-off and the most of a
        token."""
        most = min(WIDEST, self.pruning.most * wider) if wider > 1 else self.pruning.most
        pruning = self.pruning._replace(cutoff=self.pruning.cutoff * wider, most=most)
        tokens = np.arange(first, end)
        return picked(
            self.features, self.cells, pruning, tokens, self._one, permitted=self.permitted
        )[0]

    def scored(self, lists: LabelLists, first: int, offsets: Array) -> ScoredChart:
        """The chart of the candidates of the tokens from `first` on, of which sentences have
        offsets [n+1]."""
        rules = None if self.space.arc.all() else self.space.arc
        made = chart(lists, offsets, self.parameters.sparse, rules)
        hits = hits_of(self.features, self.cells, lists, self._one, first)
        slots = np.empty(len(lists.label))
        kernels.slot_scores(*hits, self.state, 0, len(slots), slots)
        slots += self.bias[lists.label]
        self._shut(made, slots)
        return ScoredChart(made, slots)

    def _shut(self, made: Chart, slots: Array) -> None:
        """Shut out the labels that may not begin or end a sentence."""
        ptr, label = made.lists
        some = np.diff(made.offsets) > 0
        for tokens, may in (
            (made.offsets[:-1][some], self.space.start),
            (made.offsets[1:][some] - 1, self.space.end),
        ):
            if not may.all():
                for t in tokens.tolist():
                    slots[ptr[t] : ptr[t + 1]][~may[label[ptr[t] : ptr[t + 1]]]] = -np.inf

    def rows(self, first: int, end: int) -> Array:
        """The scores of all labels at the tokens of a sentence [T, L]; minus infinity for those not
        allowed."""
        rows = self._rows(first, end)
        if self.permitted is not None:
            rows[~self.permitted[first:end]] = -np.inf
        rows[0, ~self.space.start] = -np.inf
        rows[-1, ~self.space.end] = -np.inf
        return rows

    def _rows(self, first: int, end: int) -> Array:
        rows = np.empty((end - first, self.space.n_labels))
        kernels.label_rows(self.features, *self.cells, self.state, self.bias, first, end, rows)
        return rows

    # -- what pruning missed -----------------------------------------------------------------------

    @computed_once
    def reach(self) -> Reach:
        sparse, L = self.parameters.sparse, self.space.n_labels
        first, second, scores = sparse.first, sparse.second, self.pairs[:-2]
        best = np.zeros((2, L))
        np.maximum.at(best[0], first, scores)
        np.maximum.at(best[1], second, scores)
        return Reach(
            _above_zero(first, second, scores, L), _above_zero(second, first, scores, L), best
        )

    def missed(self, scored: ScoredChart, n: int, graph: tuple[Dag, Array], rows: Array) -> Missed:
        """Bounds on the labellings of sentence n, which has this graph, that have a label which is
        no candidate."""
        made, reach, bound = scored.chart, self.reach, rows.copy()
        a, b = made.offsets[n : n + 2].tolist()
        ptr, here = made.lists.ptr[a : b + 1], slice(int(made.lists.ptr[a]), int(made.lists.ptr[b]))
        place = np.repeat(np.arange(b - a), np.diff(ptr)), made.lists.label[here]
        upto, ahead = np.empty((2, len(scored.slots)))
        upto[here], ahead[here] = (x[1:] for x in best_around(*graph))
        ahead[here] += rows[place]
        lists = rows, ptr, made.lists.label, self.pairs, made.place, made.pair_ptr[a : b + 1]
        kernels.add_bounds(*lists, tuple(reach.out), reach.best, upto, True, bound)
        kernels.add_bounds(
            *lists, tuple(reach.into), np.ascontiguousarray(reach.best[::-1]), ahead, False, bound
        )
        bound[place] = -np.inf
        return Missed(float(bound.max()), bound)

    def mass_bound(self, scored: ScoredChart, n: int, rows: Array) -> float:
        """log of an upper bound on the sum over all labellings of sentence n."""
        made, sparse = scored.chart, self.parameters.sparse
        a, b = made.offsets[n : n + 2].tolist()
        lists = (
            made.lists.ptr[a : b + 1],
            made.lists.label,
            self.pairs,
            made.place,
            made.pair_ptr[a : b + 1],
        )
        return float(
            kernels.mass_bound(rows, *lists, sparse.ptr, sparse.second, self.reach.best[0])
        )

    @computed_once
    def span_types(self) -> tuple[str, ...]:
        return tuple(boundaries(self.space.labels).types)


def _above_zero(by: Array, other: Array, scores: Array, n_labels: int) -> Transitions:
    """Transitions above 0, sorted by one of their labels."""
    chosen = np.flatnonzero(scores > 0)
    chosen = chosen[np.argsort(by[chosen], kind="stable")]
    ptr = offsets_from(np.bincount(by[chosen], minlength=n_labels))
    return Transitions(ptr, other[chosen].astype(np.int32), scores[chosen])
