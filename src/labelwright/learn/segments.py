"""Expected minus observed counts of segments: what training a SemiCRF makes of the scores of tokens
and segments.

Labels may be known in part, or count more or less than others.  A segmentation agrees with the data
where the labels it is written as are all allowed.  One sentence at a time: the graph of its
segments is summed over twice, with all arcs and with those that agree.  These are a small graph of
their own where labels are known."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import CorpusError
from labelwright.features.incidence import Incidence, observed_cells
from labelwright.features.segments import SegmentFeatures
from labelwright.kernels import segments as kernels
from labelwright.learn.arcs import GraphExpectations
from labelwright.learn.batches import Batch
from labelwright.learn.expectations import Counts, Rows
from labelwright.scoring.assembly import Plain, padded
from labelwright.scoring.carry import old_cells, old_features
from labelwright.scoring.parameters import (
    Before,
    Cells,
    Parameters,
    Trained,
    make_parameters,
    united,
)
from labelwright.structures import dag
from labelwright.structures.passing import Candidates
from labelwright.structures.segments import (
    Arcs,
    Segments,
    SegmentSpace,
    arcs_for,
    arcs_of,
    label_of_role,
    row_offsets,
    rows_of,
)
from labelwright.structures.states import state_space
from labelwright.structures.supervision import Supervision

Array = NDArray[Any]


class Gold(NamedTuple):
    """The segments of the training data."""

    roles: Array  # [T]  role of each token, by the type of its segment
    kinds: Array  # [rows]  type of every row that is a segment; -1 elsewhere


def gold_of(segments: Segments, offsets: Array, space: SegmentSpace) -> Gold:
    """The segments as columns of tokens and types of rows."""
    n, T = space.n_long, int(offsets[-1])
    kind = np.repeat(segments.kind, segments.end - segments.start)
    first, last = np.zeros(T, np.bool_), np.zeros(T, np.bool_)
    first[segments.start] = last[segments.end - 1] = True
    place = np.where(first, np.where(last, 3, 0), np.where(last, 2, 1))  # B I E S
    kinds = np.full(row_offsets(offsets, space.max_length)[-1], -1, np.int32)
    kinds[rows_of(segments, offsets, space.max_length)] = segments.kind
    return Gold((place * n + kind).astype(np.int32), kinds)


def segment_parameters(
    incidences: dict[str, Incidence],
    features: SegmentFeatures,
    gold: Gold,
    offsets: Array,
    space: SegmentSpace,
    cells: str,
    before: Trained | None = None,
) -> Parameters:
    """Which weights exist; those of lengths and dictionaries always do, and all those of a model
    `before` it grows. The last index of transitions is the outside of sentences."""
    n, L = features.n_features, space.n_types
    roles = types = None
    if before is not None and before.segments is not None:
        old, number = before.parameters.cells, before.extractor.numbers_in(features)
        roles, types = (
            Before(Parameters({"state": old[name]}, 1), state_space(names), number)
            for name, names in (
                ("state", before.segments.roles),
                ("segment", before.segments.types),
            )
        )
    inputs = {"state": incidences["state"]}, n, gold.roles, offsets, state_space(space.roles), cells
    tokens = make_parameters(*inputs, roles)
    ptr, column = observed_cells(incidences["segment"], n, gold.kinds, L)
    every = features.always if cells == "observed" else range(features.always.start, n)
    sizes = np.diff(ptr)
    sizes[every.start : every.stop] = L
    column = np.concatenate(
        [np.tile(np.arange(L, dtype=np.int32), len(every)), column[ptr[every.stop] :]]
    )
    of_segments = Cells(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), column)
    if types is not None:
        of_segments = Cells(*united(*of_segments, *types.label_cells("state", space.types), L))
    return Parameters(tokens.cells | {"segment": of_segments}, L + 1)


def carry_segments(before: Trained, now: Trained) -> Array:
    """The weights of one segment model by the numbers of another; 0 for what it lacks."""
    old, new = before.extractor, now.extractor
    assert isinstance(old, SegmentFeatures)
    assert isinstance(new, SegmentFeatures)
    assert before.segments is not None
    assert now.segments is not None
    texts = new.texts.numbers_in(old.texts)
    of_segments = np.where(texts >= 0, old.tokens.n_features + texts, -1)
    features = np.concatenate([old_features(old.tokens, new.tokens), of_segments])
    types = _places(now.segments.types, before.segments.types)
    columns = {"state": _places(now.segments.roles, before.segments.roles), "segment": types}
    parts, old_parts = now.parameters.slices, before.parameters.slices
    weights = np.zeros(now.parameters.n_weights, before.weights.dtype)
    for name, (ptr, column) in now.parameters.cells.items():
        number = old_cells(
            before.parameters.cells[name], Cells(ptr, columns[name][column]), features
        )
        weights[parts[name]] = np.append(before.weights[old_parts[name]], 0)[number]
    L = before.segments.n_types
    transitions = before.weights[old_parts["transitions"]].reshape(L + 1, L + 1)
    known = np.append(types, L)  # and the outside of sentences
    weights[parts["transitions"]] = np.where(
        (known[:, None] < 0) | (known < 0), 0, transitions[known[:, None], known]
    ).reshape(-1)
    return weights


def _places(names: Sequence[str], old: Sequence[str]) -> Array:
    place = {name: number for number, name in enumerate(old)}
    return np.array([place.get(name, -1) for name in names], np.int64)


class SegmentAssembly:
    """Where the columns of rows and the plain transitions belong."""

    def __init__(self, space: SegmentSpace, parameters: Parameters):
        self.space, self.cells, self.parts = space, parameters.cells, parameters.slices
        self.row_width = {"state": padded(space.n_roles), "segment": padded(space.n_types)}
        self.forbidden = ~space.follows.reshape(-1)

    @property
    def token_size(self) -> int:
        """How many numbers every token has: its row and those of the segments that end at it."""
        return self.row_width["state"] + self.space.max_length * self.row_width["segment"]

    def plain(self, weights: Array) -> Plain:
        """Scores of all plain transitions [(L+1)^2] in float64; minus infinity for those that
        cannot be."""
        arc = weights[self.parts["transitions"]].astype(np.float64)
        arc[self.forbidden] = -np.inf
        return Plain(np.empty(0), arc)

    def store_transitions(self, node: Array, arc: Array, weights: Array) -> None:
        weights[self.parts["transitions"]] = arc


class SegmentExpectations(GraphExpectations):
    """Makes rows of counts from rows of scores of tokens and segments."""

    def __init__(
        self,
        assembly: SegmentAssembly,
        gold: Array,
        offsets: Array,
        candidates: Candidates | None = None,
    ):
        self.rows = row_offsets(offsets, assembly.space.max_length)
        super().__init__(assembly, {"state": offsets, "segment": self.rows}, candidates)
        self.gold = gold
        # of the longest sentence: it serves all
        graph = arcs_of(assembly.space, int(np.diff(offsets).max())).dag
        self.source, self.target = graph.source, graph.target
        # of each role
        self.label = np.empty(0, np.int64) if candidates is None else label_of_role(assembly.space)

    def counts(
        self,
        rows: Rows,
        transitions: Plain,
        batch: Batch,
        again: Any,
        share: float = 1.0,
        d_passed: Array | None = None,
        state: None = None,
    ) -> Counts:
        """Replace the scores of a batch by counts, `share` times; d_passed has derivatives of the
        losses of higher layers by what this one passes, and adds what the scores do to them."""
        first = int(np.searchsorted(self.offsets, batch.data[0]))
        gold = self.gold[self.rows[first] : self.rows[first + len(batch.data) - 1]]
        gains = np.empty((0, self.assembly.space.n_roles))
        if d_passed is not None:  # what every role of every token gains [T, R]
            token, slots, label = self._slots(batch.data)
            by_label = np.zeros(
                (int(batch.data[-1] - batch.data[0]), len(self.assembly.space.labels))
            )
            by_label[token, label] = d_passed[slots]
            gains = np.ascontiguousarray(by_label[:, self.label])
        loss, counts = self._count(rows, transitions, batch.data, gold, share, gains)
        return Counts(loss, np.empty(0), counts.reshape(-1))

    def passed(
        self, rows: Rows, transitions: Plain, batch: Batch, again: Any, passed: Array
    ) -> None:
        """Fill the slots of a batch with the probabilities of labels."""
        none = np.full(len(rows["segment"]), -1, np.int32)
        self._count(rows, transitions, batch.data, none, 1.0, np.empty((0, len(self.label))))
        roles = rows["state"][:, : len(self.label)]
        by_label = np.zeros((len(roles), len(self.assembly.space.labels)))
        for role, label in enumerate(self.label.tolist()):
            by_label[:, label] += roles[:, role]
        token, slots, label = self._slots(batch.data)
        passed[slots] = by_label[token, label]

    def _count(
        self,
        rows: Rows,
        transitions: Plain,
        offsets: Array,
        gold: Array,
        share: float,
        gains: Array,
    ) -> tuple[float, Array]:
        space = self.assembly.space
        scores = transitions.arc.reshape(space.n_types + 1, space.n_types + 1)
        counts = np.zeros_like(scores)
        through = (
            space.n_long,
            space.max_length,
            offsets,
            gold,
            self.source,
            self.target,
            share,
            gains,
            counts,
        )
        return kernels.expectations(rows["state"], rows["segment"], scores, *through), counts

    def _slots(self, offsets: Array) -> tuple[Array, slice, Array]:
        """The token of each slot of these sentences (counted from the first), the slots, and their
        labels."""
        assert self.candidates is not None
        ptr = self.candidates.ptr[offsets[0] : offsets[-1] + 1]
        slots = slice(int(ptr[0]), int(ptr[-1]))
        return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), slots, self.candidates.label[slots]


class Said(NamedTuple):
    """What is said of the segments of one sentence."""

    right: Array  # the arcs that agree with the labels, in order
    cost: Array | None  # [A]  added to the scores of all arcs
    weight: float  # how often the sentence counts


class PartialSegmentExpectations(SegmentExpectations):
    """As SegmentExpectations, where labels [T] may be sets and have weights."""

    def __init__(
        self,
        assembly: SegmentAssembly,
        codes: Array,
        supervision: Supervision,
        offsets: Array,
        candidates: Candidates | None = None,
    ):
        super().__init__(assembly, np.empty(0, np.int32), offsets, candidates)
        space = assembly.space
        self._arcs = arcs_for(space, int(np.diff(offsets).max()))
        allowed, (_, of_sentences, of_tokens) = supervision.allowed(len(space.labels)), supervision
        self._said = list[Said]()
        for n, (a, b) in enumerate(pairwise(offsets.tolist())):
            arcs, cost = self._arcs.of(b - a), None
            if of_tokens is not None:
                with np.errstate(divide="ignore"):
                    wrong = np.maximum(np.log(of_tokens[a:b]), -1e30)
                cost = arcs.reading.sums(
                    np.where(allowed[codes[a:b]], 0.0, wrong[:, None]), len(arcs.first)
                )
            right = np.flatnonzero(
                arcs.reading.permitted(allowed[codes[a:b]], len(arcs.first))
            ).astype(np.int32)
            if _agreeing(arcs, np.zeros(len(arcs.first)), right).log_z == -np.inf:
                raise CorpusError(
                    f"training labels: sentence {n}: no segments of up to {space.max_length} "
                    "tokens have labels within its sets of labels; use a larger max_length, or "
                    "mend the labels"
                )
            self._said.append(
                Said(right, cost, 1.0 if of_sentences is None else float(of_sentences[n]))
            )

    def _count(
        self,
        rows: Rows,
        transitions: Plain,
        offsets: Array,
        gold: Array,
        share: float,
        gains: Array,
    ) -> tuple[float, Array]:
        space, first = self.assembly.space, int(np.searchsorted(self.offsets, offsets[0]))
        shape = space.shape
        scores = transitions.arc.reshape(space.n_types + 1, space.n_types + 1)
        counts, loss, row = np.zeros_like(scores), 0.0, 0
        inner = np.empty((int(np.diff(offsets).max()) + 1, space.n_long))
        nothing, no_transition = np.zeros(rows["segment"].shape), np.zeros_like(scores)
        for n, (a, b) in enumerate(pairwise((offsets - offsets[0]).tolist()), first):
            arcs = self._arcs.of(b - a)
            score, gain = np.empty((2, len(arcs.first)))
            kernels.arc_scores(
                rows["state"], a, rows["segment"], row, scores, *shape, b - a, inner, score
            )
            if len(gold):  # only probabilities are asked for
                lost, p = dag.sums(arcs.dag, score)
            else:
                right, cost, weight = self._said[n]
                every = dag.sums(arcs.dag, score if cost is None else score + cost)
                agreeing = _agreeing(arcs, score, right)
                every.arcs[right] -= agreeing.arcs
                lost, p = weight * (every.log_z - agreeing.log_z), weight * every.arcs
            loss += share * lost
            p *= share
            if len(gains):
                kernels.arc_scores(
                    gains, a, nothing, row, no_transition, *shape, b - a, inner, gain
                )
                p += dag.covariance(arcs.dag, score, gain)[1]  # what is passed has no costs
            kernels.arc_counts(
                p, *shape, b - a, inner, rows["state"], a, rows["segment"], row, counts
            )
            row += kernels.n_rows(space.max_length, b - a)
        return loss, counts


def _agreeing(arcs: Arcs, score: Array, right: Array) -> dag.Sums:
    """The sums over the segmentations that agree, on the graph of their arcs alone."""
    graph = arcs.dag
    part = dag.Dag(
        graph.source[right], graph.target[right], graph.n_nodes, graph.sources, graph.sinks
    )
    return dag.sums(part, score[right])
