"""Scored sentences whose labellings are the paths of a graph, however it was built: segments,
lattices of a user's own, n-gram proposals, candidates of pruned labels, products with rules."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.record import Decoding, Ranked, impossible
from labelwright.errors import CorpusError, OptionError
from labelwright.parallel import computed_once
from labelwright.rules.formulas import chunk_table
from labelwright.structures import dag
from labelwright.structures.dag import Dag, LabelledGraph, Reading, labelled_graph
from labelwright.structures.feature_lattice import OUTSIDE, ArcLabels, ArcTokens, FeatureLattice
from labelwright.structures.segments import Arcs, SpanArcs, graph_of_segments

Array = NDArray[Any]
DECODERS = ("viterbi", "exact")  # two names for one thing, since the best path is proven


class ArcPairs(NamedTuple):
    """The arcs in the order of the tokens that they read, one each, with the label before."""

    ptr: Array  # [T+1]
    arc: Array  # [n]  arcs of token t: arc[ptr[t]:ptr[t+1]]
    before: Array  # [n]  L at the first token
    label: Array  # [n]


class GraphSentence:
    """One sentence: a graph with scores on its arcs [A], every path of which is a labelling.

    T : the number of tokens
    reading : what makes the labels that arcs give to tokens
    scheme : that of the labels
    spans : what makes the arcs that stand for spans; None: a span is made by the labels of
        neighbouring tokens
    """

    decoders: tuple[str, ...] = DECODERS
    # what a labelling is worth: its only path, its "best" one, or the "sum" of several
    path_of_labelling = "only"
    labels: tuple[str, ...]
    of_labels: str | None
    span_types: tuple[str, ...]

    def __init__(
        self,
        graph: Dag,
        scores: Array,
        T: int,
        labels: tuple[str, ...],
        reading: Callable[[], Reading],
        scheme: str | None,
        span_types: tuple[str, ...],
        spans: Callable[[], SpanArcs] | None = None,
    ):
        self._made, self.T, self.labels = (graph, scores), T, labels
        self.of_labels, self.span_types, self._read, self._stand = (
            scheme,
            span_types,
            reading,
            spans,
        )

    def __len__(self) -> int:
        return self.T

    @computed_once
    def _made(self) -> tuple[Dag, Array]:
        """The graph and the scores of its arcs, where they are made when they are first asked
        for."""
        raise NotImplementedError

    @property
    def graph(self) -> Dag:
        return self._made[0]

    @property
    def scores(self) -> Array:
        return self._made[1]

    def _with(self, scores: Array) -> Self:
        """The same sentence with other scores."""
        other = copy.copy(self)
        for name in ("_sums", "_onwards", "_path"):
            other.__dict__.pop(name, None)
        other._made = self.graph, scores
        return other

    @computed_once
    def reading(self) -> Reading:
        return self._read()

    @computed_once
    def standing(self) -> SpanArcs | None:
        """The arcs that stand for spans."""
        return None if self._stand is None else self._stand()

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        """The graph for rules, of arcs that read one token each."""
        reading = self.reading
        yield labelled_graph(self.graph, self.scores, reading.label.astype(np.int64), reading.begin)

    # -- the best labellings -----------------------------------------------------------------------

    def _codes_of(self, path: Array) -> Array:
        return self.reading.codes(path).astype(np.int32)

    @computed_once
    def _path(self) -> tuple[Array, float]:
        return dag.best_path_of(self.graph, self.scores)

    def decode(
        self, decoder: str, *, number: int = 0, probabilities: bool = True, **options: Any
    ) -> Decoding:
        """The labels of the best path, which is proven to be the most probable labelling."""
        path, score = self._path
        if not len(path):
            raise impossible(number)
        log_p = min(0.0, score - self.log_z()) if probabilities else None
        return Decoding(
            [self.labels[code] for code in self._codes_of(path).tolist()], score, log_p, True, 0.0
        )

    def decode_ruled(
        self, ruled: Any, decoder: str, probabilities: bool = True, **options: Any
    ) -> Decoding:
        """The best labelling that keeps rules."""
        from labelwright.rules.product import TooLargeError

        try:
            record: Decoding = ruled.best_by_automata(probabilities)
        except TooLargeError:
            raise OptionError(
                f"sentence {ruled.number}: the automaton of the rules is too large for a segment "
                "model; give fewer rules, or use a CRF, which has a solver for these"
            ) from None
        return record

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order; nothing is searched for, so no limit applies."""
        paths, scores = dag.best_paths(self.graph, self.scores, n)
        return Ranked([self._codes_of(path) for path in paths], scores.tolist())

    # -- sums --------------------------------------------------------------------------------------

    @computed_once
    def _sums(self) -> dag.Sums:
        return dag.sums_of(self.graph, self.scores)

    def log_z(self) -> float:
        return self._sums.log_z

    def _permitted(self, permitted: Array) -> Array:
        """Which arcs [A] leave every token one of its permitted labels [T, L]."""
        return self.reading.permitted(permitted, len(self.scores))

    def restricted(self, permitted: Array) -> Self:
        """The same sentence with only the labellings of permitted labels [T, L]."""
        return self._with(np.where(self._permitted(permitted), self.scores, -np.inf))

    def log_z_of(self, permitted: Array) -> float:
        kept, graph = np.flatnonzero(self._permitted(permitted)), self.graph
        part = graph._replace(source=graph.source[kept], target=graph.target[kept])
        return dag.sums_of(part, self.scores[kept]).log_z

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; minus infinity for one that is no path."""
        return self.log_z_of(np.asarray(codes)[:, None] == np.arange(len(self.labels)))

    def tempered(self, temperature: float) -> Self:
        return self._with(self.scores / temperature)

    def marginals(self) -> Array:
        """P(label at t) [T, L]."""
        return self.reading.marginals(self._sums.arcs, len(self), len(self.labels))

    def entropy(self) -> float:
        return max(0.0, dag.entropy(self.graph, self.scores))

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        return np.stack(
            [self._codes_of(path) for path in dag.sample(self.graph, self.scores, n, rng)]
        )

    @property
    def fingerprint(self) -> Array:
        return self.scores

    # -- neighbouring labels -----------------------------------------------------------------------

    @computed_once
    def pairs(self) -> ArcPairs:
        arc, token, _, label = self.reading
        order = np.argsort(token, kind="stable")
        last = np.full(self.graph.n_nodes, len(self.labels))  # label read
        last[self.graph.target[arc]] = label
        before = last[self.graph.source[arc]]
        return ArcPairs(
            np.searchsorted(token[order], np.arange(len(self) + 1)),
            *(x[order] for x in (arc, before, label)),
        )

    def pair_marginals(self, token: Array, first: Array, second: Array) -> Array:
        """P(label `first` at token - 1 and label `second` at token) [P]."""
        ptr, arc, before, label = self.pairs
        L = len(self.labels) + 1
        code = (np.repeat(np.arange(len(self)), np.diff(ptr)) * L + before) * L + label
        every, place = np.unique(code, return_inverse=True)
        shares = np.bincount(place.reshape(-1), self._sums.arcs[arc])
        wanted = (token * L + first) * L + second
        at = np.minimum(np.searchsorted(every, wanted), len(every) - 1)
        return np.where(every[at] == wanted, shares[at], 0.0)

    # -- spans -------------------------------------------------------------------------------------

    def spans_in(self, labels: list[str]) -> list[Span]:
        """The spans of a labelling; of labels that follow no scheme, where segments are spans, the
        runs of equal ones."""
        if self.of_labels is not None or self._stand is None:
            return [] if self.of_labels is None else spans_of(labels)
        runs = [(kind, len(list(run))) for kind, run in groupby(labels)]
        ends = np.cumsum([length for _, length in runs]).tolist()
        return [
            Span(end - length, end, kind) for (kind, length), end in zip(runs, ends, strict=True)
        ]

    def span_probabilities(self, spans: Sequence[Span]) -> list[float]:
        """The probability of exactly each span."""
        return list(map(self._span, spans))

    def _span(self, span: Span) -> float:
        if self.standing is None:
            shares = self._of_type(span.type)._ends(span.type, span.start)
            return min(1.0, next(islice(shares, span.end - span.start - 1, None), 0.0))
        arc, start, end, kind = self.standing
        same = (
            (start == span.start) & (end == span.end) & (kind == self.span_types.index(span.type))
        )
        return min(1.0, float(self._sums.arcs[arc[same]].sum()))

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order."""
        spans = list[Span]()
        if self.standing is not None:
            arc, start, end, kinds = self.standing  # several may stand for one span
            K, W = len(self.span_types), int((end - start).max(initial=0)) + 1
            table = np.bincount((start * W + end - start) * K + kinds, self._sums.arcs[arc])
            likely = np.flatnonzero((table >= least) & (table > 0))
            rows = likely // K // W, likely // K % W, likely % K, np.minimum(1.0, table[likely])
            for begin, length, k, share in zip(*(x.tolist() for x in rows), strict=True):
                spans.append(Span(begin, begin + length, self.span_types[k], share))
        elif self.of_labels is not None:
            for kind in self.span_types:
                graph = self._of_type(kind)
                for begin in range(len(self)):
                    shares = enumerate(graph._ends(kind, begin, least), begin + 1)
                    spans += [
                        Span(begin, stop, kind, min(1.0, share))
                        for stop, share in shares
                        if share >= least
                    ]
        return sorted(spans)

    def _of_type(self, kind: str) -> "GraphSentence":
        """The sentence as a graph in which all labels of a type have arcs of their own."""
        return self

    @computed_once
    def _onwards(self) -> Array:
        """P(arc | its source) [A]."""
        p, source = self._sums.arcs, self.graph.source
        through = np.bincount(source, p, self.graph.n_nodes)[source]
        return np.divide(p, through, out=np.zeros_like(p), where=through > 0)

    def _ends(self, kind: str, start: int, least: float = 0.0) -> Iterator[float]:
        """P(a span of this type is start:end) for end = start + 1, start + 2, ... while P(it goes
        on) is `least` or more: the sum over the arcs that open it, times P(arc | its source) along
        those that continue it."""
        table = chunk_table(self.labels)
        # [L+1]; the last is the outside of the sentence
        inside = table.type_of == table.types.index(kind)
        opens, closes = table.starts & inside, table.ends & inside[:, None]
        stays = inside[:, None] & inside & ~table.starts & ~table.ends
        (source, target, n_nodes), (ptr, arcs, before, label) = self.graph[:3], self.pairs
        still_open: Array = np.zeros(n_nodes)
        for t in range(start, len(self)):
            here = slice(ptr[t], ptr[t + 1])
            arc, pair = arcs[here], (before[here], label[here])
            if t == start:
                share, kept = self._sums.arcs[arc], opens[pair]
            else:
                share, kept = still_open[source[arc]] * self._onwards[arc], stays[pair]
                yield float(share[closes[pair]].sum())
            still_open = np.bincount(target[arc[kept]], share[kept], n_nodes)
            if still_open.sum() < least:
                return
        yield float(still_open.sum())


# -- graphs whose arcs stand for spans -------------------------------------------------------------


class SegmentSentence(GraphSentence):
    """The segmentations of one sentence."""

    def __init__(self, arcs: Arcs, scores: Array):
        space = arcs.space
        super().__init__(
            arcs.dag, scores, arcs.T, space.labels, lambda: arcs.reading, space.scheme,
            space.types[: space.n_long], lambda: arcs.spans,
        )  # fmt: skip
        self.arcs = arcs

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        yield graph_of_segments(self.arcs, self.scores)


# -- lattices of a user's own: answers are about paths, which are lists of numbers of arcs ---------


class LatticePath(NamedTuple):
    """A path through a lattice and what is known about it."""

    arcs: list[int]  #: the numbers of its arcs
    score: float  #: of the path, before normalisation
    log_probability: float  #: log P(path | lattice)


class ScoredLattice:
    """One lattice with its scores; made by `LatticeCRF.scored`.

    lattice : the lattice
    graph : its graph, with transitions between labels or without
    scores : [E]  of the arcs of the graph
    arc : [E]  which arc of the lattice each is; -1: a transition
    """

    def __init__(self, lattice: FeatureLattice, graph: dag.Dag, scores: Array, arc: Array):
        self.lattice, self.graph, self.scores, self.arc = lattice, graph, scores, arc

    def __len__(self) -> int:
        """The number of arcs of the lattice."""
        return len(self.lattice)

    @computed_once
    def _sums(self) -> dag.Sums:
        return dag.sums(self.graph, self.scores) if len(self.scores) else dag.Sums(0.0, np.empty(0))

    def log_z(self) -> float:
        """The logarithm of the summed weight exp(score) of all paths; minus infinity where there is
        none."""
        return self._sums.log_z

    def best(self, n: int = 1) -> list[LatticePath]:
        """Up to n paths, the best first.

        n : how many
        """
        if not len(self.scores):
            return [LatticePath([], 0.0, 0.0)]
        if n == 1:
            arcs, score = self.best_arcs()
            return [self._path(arcs, score)] if arcs else []
        paths, scores = dag.best_paths(self.graph, self.scores, n)
        return [
            self._path(self._on_lattice(path), score)
            for path, score in zip(paths, scores.tolist(), strict=True)
        ]

    def best_arcs(self) -> tuple[list[int], float]:
        """The numbers of the arcs of the best path and its score; no arcs and minus infinity where
        there is none.  This needs no sums over paths."""
        path, score = dag.best_path(self.graph, self.scores)
        return self._on_lattice(path), score

    def _path(self, arcs: list[int], score: float) -> LatticePath:
        return LatticePath(arcs, score, min(0.0, score - self.log_z()))

    def _on_lattice(self, path: Array) -> list[int]:
        arcs: list[int] = [arc for arc in self.arc[path].tolist() if arc >= 0]
        return arcs

    def marginals(self) -> Array:
        """P(arc) of the arcs of the lattice [A]."""
        marginals = np.zeros(len(self.lattice))
        is_arc = self.arc >= 0
        marginals[self.arc[is_arc]] = self._sums.arcs[is_arc]
        return marginals

    def weight_of(self, path: Iterable[Any]) -> float:
        """The score of a path.

        path : numbers of arcs, or (source, target, label) of each
        """
        given = self.lattice.path(path)
        return float(self.scores[graph_arcs(self.graph, self.arc, given)].sum())

    def entropy(self) -> float:
        """The entropy of all paths in nats."""
        return dag.entropy(self.graph, self.scores) if len(self.scores) else 0.0

    def sample(self, n: int, random_state: Any = None) -> list[list[int]]:
        """n paths, drawn from their probabilities.

        n : how many
        random_state : a seed, or a generator of NumPy
        """
        if not len(self.scores):
            return [[] for _ in range(n)]
        return [
            self._on_lattice(path) for path in dag.sample(self.graph, self.scores, n, random_state)
        ]

    def restricted(self, allowed: Any) -> "ScoredLattice":
        """The same lattice with only the paths whose arcs are all allowed.

        allowed : a truth value for each arc of the lattice
        """
        permitted = np.asarray(allowed)
        if permitted.shape != (len(self.lattice),) or permitted.dtype != np.bool_:
            raise OptionError(
                f"allowed: expected {len(self.lattice)} truth values, one for each arc"
            )
        kept = (self.arc < 0) | np.append(permitted, True)[self.arc]
        return ScoredLattice(
            self.lattice, self.graph, np.where(kept, self.scores, -np.inf), self.arc
        )


def graph_arcs(graph: dag.Dag, arc: Array, path: list[int]) -> Array:
    """The arcs of a graph on a path of its lattice, transitions among them; `arc` [E] as in
    ScoredLattice."""
    place = np.full(int(arc.max(initial=-1)) + 1, -1)
    place[arc[arc >= 0]] = np.flatnonzero(arc >= 0)
    arcs = place[np.array(path, np.int64)]
    if (arc >= 0).all():
        return arcs
    # what transitions lead from and to
    before, after = graph.target[arcs[:-1]], graph.source[arcs[1:]]
    is_pair = np.flatnonzero(arc < 0)
    code = graph.source[is_pair].astype(np.int64) * graph.n_nodes + graph.target[is_pair]
    order = np.argsort(code)
    wanted = before.astype(np.int64) * graph.n_nodes + after
    return np.concatenate([arcs, is_pair[order[np.searchsorted(code, wanted, sorter=order)]]])


def checked_path(lattice: FeatureLattice, given: Any, number: int) -> list[int]:
    """The path that was given for a lattice, in an error with the number of the lattice."""
    try:
        return lattice.path(given)
    except CorpusError as error:
        raise CorpusError(f"y: lattice {number}: {error}") from None
    except TypeError:
        raise CorpusError(
            f"y: lattice {number}: expected a list of arcs, got {given!r:.60}"
        ) from None


def lattice_sentence(scored: ScoredLattice, writing: ArcLabels, tokens: ArcTokens) -> GraphSentence:
    """The labellings of one sentence that are the paths of a lattice, whose arcs have these
    tokens."""
    lattice, of_arc = scored.lattice, np.flatnonzero(scored.arc >= 0)
    place = np.empty(len(lattice), np.int64)  # of an arc of the lattice in the graph
    place[scored.arc[of_arc]] = of_arc
    types = (
        () if writing.scheme is None else tuple(kind for kind in writing.types if kind != OUTSIDE)
    )

    def reading() -> Reading:
        arc = place[tokens.arc]
        order = np.argsort(arc, kind="stable")
        return Reading(
            *(values[order] for values in (arc, tokens.token, tokens.token + 1, tokens.label))
        )

    def spans() -> SpanArcs:
        number = {kind: code for code, kind in enumerate(types)}
        rows = [
            (place[n], *arc[:2], number[arc.label])
            for n, arc in enumerate(lattice.arcs)
            if arc.label in number
        ]
        return SpanArcs(*np.array(rows, np.int64).reshape(-1, 4).T)

    known = scored.graph, scored.scores, lattice.n_nodes - 1, writing.labels
    return GraphSentence(
        *known, reading, writing.scheme, types, None if writing.scheme is None else spans
    )
