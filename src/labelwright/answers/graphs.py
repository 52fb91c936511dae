"""Scored sentences whose labellings are the paths of a graph: segments, and lattices of a user's own."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.lattice_paths import ScoredLattice
from labelwright.answers.protocol import GraphSentence
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.kernels import segments as kernels
from labelwright.parallel import computed_once
from labelwright.structures import dag
from labelwright.structures.dag import LabelledGraph
from labelwright.structures.feature_lattice import OUTSIDE, ArcLabels, ArcTokens
from labelwright.structures.segments import (
    Arcs,
    Segments,
    SegmentSpace,
    graph_of_segments,
    label_marginals,
    permitted_arcs,
    rows_of,
    segments_in,
)

Array = NDArray[Any]


class SegmentGraph(GraphSentence):
    """One sentence: the graph of its segmentations."""

    def __init__(self, arcs: Arcs, scores: Array, space: SegmentSpace):
        self.arcs, self.scores, self.space = arcs, scores, space
        self.graph, self.labels = arcs.dag, space.labels
        self._index = {label: code for code, label in enumerate(space.labels)}

    def __len__(self) -> int:
        return int(self.graph.n_nodes // (2 * self.space.n_types))

    @property
    def of_labels(self) -> str | None:
        return self.space.scheme

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        yield graph_of_segments(self.arcs, self.scores, self.space)

    def codes_of(self, path: Array) -> Array:
        return np.array([self._index[label] for label in self.space.labels_of(self.arcs.segments(path))], np.int32)

    def permitted_arcs(self, permitted: Array) -> Array:
        return permitted_arcs(self.space, self.arcs, permitted)

    def with_scores(self, scores: Array) -> Self:
        return type(self)(self.arcs, scores, self.space)

    def decode(
        self, decoder: str, *, number: int = 0, rules: Any = None, words: Any = None, **options: Any
    ) -> Decoding:
        """The best segmentation (that keeps the rules) as labels; it is proven to be the most probable."""
        if not rules:
            return super().decode(decoder, number=number, **options)
        from labelwright.answers.ruled import under_rules
        from labelwright.rules.product import TooLargeError

        try:
            return under_rules(self, rules, words, number).best_by_automata(options.get("probabilities", True))
        except TooLargeError:
            raise OptionError(
                f"sentence {number}: the automaton of the rules is too large for a segment model; give fewer rules, or "
                "use a CRF, which has a solver for these"
            ) from None

    def marginals(self) -> Array:
        """P(label at t) [T, L]."""
        space, T = self.space, len(self)
        L = space.n_types
        roles, rows = np.empty((T, space.n_roles)), np.empty((kernels.n_rows(space.max_length, T), L))
        inner, transitions = np.empty((T + 1, space.n_long)), np.zeros((L + 1, L + 1))
        kernels.arc_counts(self._sums.arcs, *space.shape, T, inner, roles, 0, rows, 0, transitions)
        return label_marginals(space, roles, self.arcs, self._sums.arcs)

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; minus infinity for one that the scheme does not write."""
        labels = [self.labels[code] for code in codes]
        segments = self._segments_of(labels)
        longest = int((segments.end - segments.start).max())
        if longest > self.space.max_length or self.space.labels_of(segments) != labels:
            return -np.inf
        T = len(self)
        gold = np.full(kernels.n_rows(self.space.max_length, T), -1, np.int32)
        gold[rows_of(segments, np.array([0, T]), self.space.max_length)] = segments.kind
        return float(kernels.subtract_gold(gold, 0, *self.space.shape, T, self.scores, np.zeros(len(self.scores))))

    def _segments_of(self, labels: list[str]) -> Segments:
        T = len(labels)
        return segments_in(self.space, labels, np.arange(T), np.array([0, T]))

    def spans_in(self, labels: list[str]) -> list[Span]:
        """The spans of a labelling (of labels that follow no scheme: the runs of equal ones)."""
        start, end, kind = self._segments_of(labels)
        rows = zip(start.tolist(), end.tolist(), kind.tolist(), strict=True)
        return [Span(a, b, self.space.types[k]) for a, b, k in rows if k < self.space.n_long]

    @property
    def span_types(self) -> tuple[str, ...]:
        return self.space.types[: self.space.n_long]

    def span(self, span: Span) -> float:
        """The probability of exactly this span; 0 for one of more than max_length tokens."""
        arcs = self.arcs
        same = (arcs.first == span.start) & (arcs.length == span.end - span.start)
        same &= arcs.kind == self.span_types.index(span.type)
        return min(1.0, float(self._sums.arcs[same].sum()))

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order."""
        arcs, p = self.arcs, self._sums.arcs
        likely = np.flatnonzero((arcs.length > 0) & (arcs.kind < self.space.n_long) & (p >= least))
        likely = likely[np.lexsort((arcs.kind[likely], arcs.length[likely], arcs.first[likely]))]
        first, kind = arcs.first[likely], arcs.kind[likely]
        chances = np.minimum(1.0, p[likely])
        rows = zip(*(x.tolist() for x in (first, first + arcs.length[likely], kind, chances)), strict=True)
        return [Span(a, b, self.space.types[k], each) for a, b, k, each in rows]


class LabelledLattice(GraphSentence):
    """One sentence: the lattice of its labellings.

    scored : the lattice with its scores
    writing : how its arcs are written as labels
    tokens : the tokens of its arcs
    """

    def __init__(self, scored: ScoredLattice, writing: ArcLabels, tokens: ArcTokens):
        self.scored, self.writing, self.tokens = scored, writing, tokens
        self.graph, self.scores, self.labels = scored.graph, scored.scores, writing.labels

    def __len__(self) -> int:
        return self.scored.lattice.n_nodes - 1

    @computed_once
    def _sums(self) -> dag.Sums:
        return self.scored._sums

    def codes_of(self, path: Array) -> Array:
        on_path = np.zeros(len(self.scored), np.bool_)
        arcs = self.scored.arc[path]
        on_path[arcs[arcs >= 0]] = True
        here = on_path[self.tokens.arc]
        codes = np.empty(len(self), np.int32)
        codes[self.tokens.token[here]] = self.tokens.label[here]
        return codes

    def permitted_arcs(self, permitted: Array) -> Array:
        allowed = np.ones(len(self.scored) + 1, np.bool_)  # the last: transitions
        allowed[self.tokens.arc[~permitted[self.tokens.token, self.tokens.label]]] = False
        return np.asarray(allowed[self.scored.arc])

    def with_scores(self, scores: Array) -> Self:
        scored = ScoredLattice(self.scored.lattice, self.graph, scores, self.scored.arc)
        return type(self)(scored, self.writing, self.tokens)

    def restricted(self, permitted: Array) -> Self:
        """The same sentence with only the labellings of permitted labels [T, L]."""
        return self.with_scores(np.where(self.permitted_arcs(permitted), self.scores, -np.inf))

    def marginals(self) -> Array:
        """P(label at t) [T, L]: the sum over all arcs that give the token this label."""
        T, L = len(self), len(self.labels)
        p = self.scored.marginals()[self.tokens.arc]
        sums = np.bincount(self.tokens.token * L + self.tokens.label, p, T * L)
        return np.minimum(1.0, sums).reshape(T, L)

    def spans_in(self, labels: list[str]) -> list[Span]:
        return [] if self.writing.scheme is None else spans_of(labels)

    @property
    def span_types(self) -> tuple[str, ...]:
        return () if self.writing.scheme is None else tuple(kind for kind in self.writing.types if kind != OUTSIDE)

    def span(self, span: Span) -> float:
        """The probability of exactly this span; 0 where no arc stands for it."""
        same = np.array([arc[:3] == span[:3] for arc in self.scored.lattice.arcs], np.bool_)
        return float(self.scored.marginals()[same].sum())

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order."""
        arcs, types = zip(self.scored.lattice.arcs, self.scored.marginals().tolist(), strict=True), self.span_types
        return sorted(Span(*arc[:3], min(1.0, p)) for arc, p in arcs if p >= least and arc.label in types)
