"""Scored sentences whose structure is a segment graph: every path is a segmentation."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.protocol import Ranked, impossible
from labelwright.corpus.spans import Span
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.kernels import segments as kernels
from labelwright.locks import computed_once
from labelwright.structures import dag
from labelwright.structures.segments import (
    Arcs,
    Segments,
    SegmentSpace,
    label_marginals,
    permitted_arcs,
    rows_of,
    segments_in,
)

if TYPE_CHECKING:
    from labelwright.rules.labelled_graphs import LabelledGraph

Array = NDArray[Any]
DECODERS = ("viterbi", "exact")  # two names for one thing: every path is a segmentation


class SegmentGraph:
    """One sentence: the graph of its segmentations, with scores on the arcs [A]."""

    decoders = DECODERS
    path_of_labelling = "only"

    def __init__(self, arcs: Arcs, scores: Array, space: SegmentSpace):
        self.arcs, self.scores, self.space = arcs, scores, space
        self.labels = space.labels
        self._index = {label: code for code, label in enumerate(space.labels)}

    def __len__(self) -> int:
        return int(self.arcs.dag.n_nodes // (2 * self.space.n_types))

    @computed_once
    def _sums(self) -> dag.Sums:
        return dag.sums(self.arcs.dag, self.scores)

    @property
    def fingerprint(self) -> Array:
        return self.scores

    @property
    def of_labels(self) -> str | None:
        return self.space.scheme

    def labelled_graphs(self) -> "Iterator[LabelledGraph]":
        from labelwright.rules.labelled_graphs import graph_of_segments

        yield graph_of_segments(self.arcs, self.scores, self.space)

    # -- answers ------------------------------------------------------------------------------------------------------

    def decode(
        self,
        decoder: str,
        *,
        number: int = 0,
        probabilities: bool = True,
        rules: Any = None,
        words: Any = None,
        **options: Any,
    ) -> Decoding:
        """The best segmentation (that keeps the rules) as labels; it is proven to be the most probable."""
        if rules:
            return self._decode_with_rules(number, rules, words, probabilities)
        path, score = dag.best_path(self.arcs.dag, self.scores)
        if not len(path):
            raise impossible(number)
        log_p = min(0.0, score - self._sums.log_z) if probabilities else None
        return Decoding(self.space.labels_of(self.arcs.segments(path)), score, log_p, True, 0.0)

    def _decode_with_rules(self, number: int, rules: Any, words: Any, probabilities: bool) -> Decoding:
        from labelwright.answers.ruled import under_rules
        from labelwright.rules.product import TooLargeError

        try:
            return under_rules(self, rules, words, number).best_by_automata(probabilities)
        except TooLargeError:
            raise OptionError(
                f"sentence {number}: the automaton of the rules is too large for a segment model; give fewer rules, or "
                "use a CRF, which has a solver for these"
            ) from None

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order; nothing is searched for, so no limit applies."""
        paths, scores = dag.best_paths(self.arcs.dag, self.scores, n)
        return Ranked([self._codes(self.arcs.segments(path)) for path in paths], scores.tolist())

    def _codes(self, segments: Segments) -> Array:
        labels = self.space.labels_of(segments)
        return np.array([self._index[label] for label in labels], np.int32)

    def log_z(self) -> float:
        return self._sums.log_z

    def log_z_of(self, permitted: Array) -> float:
        return self._permitted(permitted).log_z()

    def tempered(self, temperature: float) -> "SegmentGraph":
        return SegmentGraph(self.arcs, self.scores / temperature, self.space)

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

    def _permitted(self, permitted: Array) -> "SegmentGraph":
        scores = np.where(permitted_arcs(self.space, self.arcs, permitted), self.scores, -np.inf)
        return SegmentGraph(self.arcs, scores, self.space)

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

    def entropy(self) -> float:
        return max(0.0, dag.entropy(self.arcs.dag, self.scores))

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order."""
        arcs, p = self.arcs, self._sums.arcs
        likely = np.flatnonzero((arcs.length > 0) & (arcs.kind < self.space.n_long) & (p >= least))
        likely = likely[np.lexsort((arcs.kind[likely], arcs.length[likely], arcs.first[likely]))]
        first, kind = arcs.first[likely], arcs.kind[likely]
        chances = np.minimum(1.0, p[likely])
        rows = zip(*(x.tolist() for x in (first, first + arcs.length[likely], kind, chances)), strict=True)
        return [Span(a, b, self.space.types[k], each) for a, b, k, each in rows]

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        paths = dag.sample(self.arcs.dag, self.scores, n, rng)
        return np.stack([self._codes(self.arcs.segments(path)) for path in paths])
