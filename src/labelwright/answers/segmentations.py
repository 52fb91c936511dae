"""Scored sentences whose structure is a segment graph: every path is a segmentation, with a latent state for each
segment where types have several."""

import math
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.chains import DRAWN
from labelwright.answers.protocol import Ranked, impossible
from labelwright.corpus.spans import Span
from labelwright.decode.record import Decoding
from labelwright.decode.segment_search import best_segmentations
from labelwright.errors import OptionError
from labelwright.kernels import segments as kernels
from labelwright.parallel import computed_once
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
LATENT_DECODERS = ("viterbi", "exact", "marginal")  # where a labelling is the sum of latent paths
HALF = math.log(0.5)  # no other labelling can have more


class SegmentGraph:
    """One sentence: the graph of its segmentations, with scores on the arcs [A]."""

    def __init__(self, arcs: Arcs, scores: Array, space: SegmentSpace):
        self.arcs, self.scores, self.space = arcs, scores, space
        self.labels = space.labels
        self._index = {label: code for code, label in enumerate(space.labels)}

    def __len__(self) -> int:
        return int(self.arcs.dag.n_nodes // (2 * self.space.n_states))

    @property
    def _latent(self) -> bool:
        return self.space.n_latent > 1

    @property
    def decoders(self) -> tuple[str, ...]:
        return LATENT_DECODERS if self._latent else DECODERS

    @property
    def path_of_labelling(self) -> str:
        return "sum" if self._latent else "only"

    @computed_once
    def _sums(self) -> dag.Sums:
        return dag.sums(self.arcs.dag, self.scores)

    @property
    def probabilities(self) -> Array:
        """P(arc) [A]."""
        return self._sums.arcs

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
        """The best segmentation as labels.  Without latent states it is proven to be the most probable (that keeps the
        rules); with them, `viterbi` and rules take that of the best latent path."""
        if rules:
            return self._decode_with_rules(decoder, number, rules, words, probabilities)
        path, score = dag.best_path(self.arcs.dag, self.scores)
        if not len(path):
            raise impossible(number)
        segments = self.arcs.segments(path, self.space)
        if not self._latent:
            log_p = min(0.0, score - self._sums.log_z) if probabilities else None
            return Decoding(self.space.labels_of(segments), score, log_p, True, 0.0)
        if decoder == "exact":
            return self._most_probable(segments, **options)
        if decoder == "marginal":
            return self._judged(self._by_marginals())
        if not probabilities:
            return Decoding(self.space.labels_of(segments), score, None, False, None)
        return self._judged(segments)._replace(score=score)

    def _judged(self, segments: Segments) -> Decoding:
        """The record of a segmentation; half of the mass is a proof, since no other can have more."""
        weight = self._weight(segments)
        log_p = min(0.0, weight - self._sums.log_z)
        exact = log_p >= HALF
        gap = 0.0 if exact else 1.0 - 2.0 * math.exp(log_p)
        return Decoding(self.space.labels_of(segments), weight, log_p, exact, gap)

    def _most_probable(self, first: Segments, **limits: Any) -> Decoding:
        """The most probable segmentation, by search where that of the best latent path is not proven to be it."""
        record = self._judged(first)
        if record.exact:
            return record._replace(expansions=0)
        weight, log_z = record.score, self._sums.log_z
        search = best_segmentations(self.arcs, self.scores, self.space, len(self), least=weight, **limits)
        if search.segmentations and search.log_weights[0] > weight:
            weight = search.log_weights[0]
            record = record._replace(labels=self.space.labels_of(search.segmentations[0]))
        log_p = min(0.0, weight - log_z)
        exact = bool(search.segmentations) or search.log_open <= weight
        missed = math.exp(min(0.0, search.log_open - log_z)) - math.exp(log_p)
        gap = 0.0 if exact else max(5e-324, missed)
        return Decoding(record.labels, weight, log_p, exact, gap, expansions=search.expansions)

    def _by_marginals(self) -> Segments:
        """The segmentation with the most tokens expected to be right: in a segment of the right type, and at the right
        place in it."""
        space, T = self.space, len(self)
        right = self.expected[0].reshape(T, -1, space.n_latent).sum(axis=2).repeat(space.n_latent, axis=1)
        rows = np.zeros((kernels.n_rows(space.max_length, T), space.n_states))
        free, inner = np.zeros((space.n_states + 1, space.n_states + 1)), np.empty((T + 1, space.n_long_states))
        scores = np.empty_like(self.scores)
        kernels.arc_scores(right, 0, rows, 0, free, *space.shape, T, inner, scores)
        scores[self.scores == -np.inf] = -np.inf
        return self.arcs.segments(dag.best_path(self.arcs.dag, scores)[0], space)

    def _decode_with_rules(self, decoder: str, number: int, rules: Any, words: Any, probabilities: bool) -> Decoding:
        from labelwright.answers.ruled import under_rules
        from labelwright.rules.product import TooLargeError

        try:
            ruled = under_rules(self, rules, words, number)
            record = ruled.best_by_automata(probabilities)
        except TooLargeError:
            raise OptionError(
                f"sentence {number}: the automaton of the rules is too large for a segment model; give fewer rules, or "
                "use a CRF, which has a solver for these"
            ) from None
        if not self._latent:
            return record
        judged = self._judged(self._segments_of(record.labels))
        exact = judged.exact and not ruled.bound.soft
        gap = 0.0 if exact else None if ruled.bound.soft or not probabilities else judged.gap
        log_p = judged.log_probability if probabilities else None
        status = "optimal" if exact else "limit"
        return record._replace(log_probability=log_p, exact=exact, gap=gap, status=status)

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order; with latent states by exact search (otherwise nothing is searched for, so that
        no limit applies)."""
        if not self._latent:
            paths, scores = dag.best_paths(self.arcs.dag, self.scores, n)
            return Ranked([self._codes(self.arcs.segments(path, self.space)) for path in paths], scores.tolist())
        graph = self.arcs, self.scores, self.space, len(self)
        search = best_segmentations(*graph, n, max_expansions=max_expansions)
        if not search.segmentations and search.log_open > -np.inf:  # stopped by the limit
            first = self.arcs.segments(dag.best_path(self.arcs.dag, self.scores)[0], self.space)
            return Ranked([self._codes(first)], [self._weight(first)])
        return Ranked([self._codes(segments) for segments in search.segmentations], search.log_weights)

    def _codes(self, segments: Segments) -> Array:
        labels = self.space.labels_of(segments)
        return np.array([self._index[label] for label in labels], np.int32)

    def log_z(self) -> float:
        return self._sums.log_z

    def log_z_of(self, permitted: Array) -> float:
        return self._permitted(permitted).log_z()

    def tempered(self, temperature: float) -> "SegmentGraph":
        return SegmentGraph(self.arcs, self.scores / temperature, self.space)

    @computed_once
    def expected(self) -> tuple[Array, Array, Array]:
        """The probability of each role of each token [T, R], of each segment in each state [rows, S], and the expected
        number of transitions between states [S+1, S+1], of which the last row is the beginning of the sentence."""
        space, T = self.space, len(self)
        S = space.n_states
        roles, rows = np.empty((T, space.n_roles)), np.empty((kernels.n_rows(space.max_length, T), S))
        inner, transitions = np.empty((T + 1, space.n_long_states)), np.zeros((S + 1, S + 1))
        kernels.arc_counts(self._sums.arcs, *space.shape, T, inner, roles, 0, rows, 0, transitions)
        return roles, rows, transitions

    def marginals(self) -> Array:
        """P(label at t) [T, L]."""
        return label_marginals(self.space, self.expected[0], self.arcs, self._sums.arcs)

    def state_marginals(self) -> Array:
        """P(token t is in a segment of latent state s) [T, S]."""
        S, n = self.space.n_states, self.space.n_long_states
        places = self.expected[0]
        states: Array = places[:, 3 * n : 3 * n + S].copy()
        states[:, :n] += places[:, :n] + places[:, n : 2 * n] + places[:, 2 * n : 3 * n]
        return np.clip(states, 0.0, 1.0)

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; minus infinity for one that the scheme does not write."""
        labels = [self.labels[code] for code in codes]
        segments = self._segments_of(labels)
        longest = int((segments.end - segments.start).max())
        if longest > self.space.max_length or self.space.labels_of(segments) != labels:
            return -np.inf
        return self._weight(segments)

    def _segments_of(self, labels: list[str]) -> Segments:
        T = len(labels)
        return segments_in(self.space, labels, np.arange(T), np.array([0, T]))

    def _weight(self, segments: Segments) -> float:
        """The weight of a segmentation: the score of its only path, or the sum over its latent paths."""
        space, T = self.space, len(self)
        if self._latent:
            return self.of_labelling(self._codes(segments)).log_z()
        gold = np.full(kernels.n_rows(space.max_length, T), -1, np.int32)
        gold[rows_of(segments, np.array([0, T]), space.max_length)] = segments.kind
        return float(kernels.subtract_gold(gold, 0, *space.shape, T, self.scores, np.zeros(len(self.scores))))

    def of_labelling(self, codes: Array) -> "SegmentGraph":
        """The graph of the latent paths of one labelling [T] alone."""
        return self._permitted(codes[:, None] == np.arange(len(self.labels)))

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
        same &= arcs.kind // self.space.n_latent == self.span_types.index(span.type)
        return min(1.0, float(self._sums.arcs[same].sum()))

    def entropy(self) -> float:
        """Exact where a labelling is one path.  With latent states an unbiased estimate, as for a LatentCRF: the
        entropy of all paths less that of the paths of a labelling, as the mean over labellings that are drawn."""
        of_paths = self.path_entropy()
        if not self._latent:
            return of_paths
        seed = zlib.crc32(np.ascontiguousarray(self.fingerprint).data)
        codes, counts = np.unique(self.sample(DRAWN, np.random.default_rng(seed)), axis=0, return_counts=True)
        within = [self.of_labelling(row).path_entropy() for row in codes]
        return max(0.0, of_paths - float(counts @ within) / DRAWN)

    def path_entropy(self) -> float:
        """The entropy of all (latent) paths in nats."""
        return max(0.0, dag.entropy(self.arcs.dag, self.scores))

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order."""
        arcs, p = self.arcs, self._sums.arcs
        shape = len(self) + 1, self.space.max_length + 1, self.space.n_types
        segments = np.flatnonzero((arcs.length > 0) & (arcs.kind < self.space.n_long_states))
        kinds = arcs.kind[segments] // self.space.n_latent
        place = np.ravel_multi_index((arcs.first[segments], arcs.length[segments], kinds), shape)
        sums = np.bincount(place, p[segments])
        first, length, kind = np.unravel_index(np.flatnonzero(sums >= least), shape)
        likely = np.minimum(1.0, sums[sums >= least]).tolist()
        rows = zip(first.tolist(), (first + length).tolist(), kind.tolist(), likely, strict=True)
        return [Span(a, b, self.space.types[k], each) for a, b, k, each in rows]

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        paths = dag.sample(self.arcs.dag, self.scores, n, rng)
        return np.stack([self._codes(self.arcs.segments(path, self.space)) for path in paths])
