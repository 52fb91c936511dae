"""Sums over all labellings of a sentence with n-gram proposals, whose scores are divided by a temperature.

Every labelling counts, not only those of the candidates: one that satisfies no constraint has the score 0.  All labels
that are no candidates of a token satisfy the same constraints (none), so one arc stands for all of them.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.protocol import Ranked, spans_within
from labelwright.corpus.schemes import Allowed, Boundaries, boundaries
from labelwright.corpus.spans import Span
from labelwright.decode.csi import labelling_graph
from labelwright.decode.vote import satisfied
from labelwright.errors import OptionError
from labelwright.locks import computed_once
from labelwright.structures import dag, proposals
from labelwright.structures.proposals import Proposals

if TYPE_CHECKING:
    from labelwright.rules.labelled_graphs import LabelledGraph

Array = NDArray[Any]
MOST_ARCS = 1 << 23  # of one sentence: some hundred bytes each


class Paths(NamedTuple):
    """Labellings as paths of a graph.  The code L stands for all labels that are no candidates of a token."""

    graph: dag.Dag
    score: Array  # [A]  of one labelling, not divided by the temperature
    label: Array  # [A]  of the token, up to L
    before: Array  # [A]  of the token before; L at the first one
    token: Array  # [A]
    candidate: Array  # [T, L]  which labels have arcs of their own


class ProposalGraphs:
    """The labellings of one sentence as graphs, which are the same at any temperature.

    one : its proposals
    allowed : which label may follow which; empty tables permit everything"""

    def __init__(self, one: Proposals, labels: Sequence[str], allowed: Allowed):
        self.one, self.labels, self.allowed = one, tuple(labels), allowed
        self._by_type: dict[int | None, Paths] = {}

    @computed_once
    def table(self) -> Boundaries:
        return boundaries(self.labels)

    def paths(self, kind: int | None = None) -> Paths:
        """All labellings; labels of this type have arcs of their own, all labels where one depends on another."""
        if kind not in self._by_type:
            of_type = [] if kind is None else np.flatnonzero(self.table.type_of[:-1] == kind).tolist()
            every = len(self.allowed.start) > 0
            self._by_type[kind] = self.paths_with(range(len(self.labels)) if every else of_type)
        return self._by_type[kind]

    def paths_with(self, more: Sequence[int]) -> Paths:
        """All labellings; these labels have arcs of their own."""
        L = len(self.labels)
        opened = proposals.with_labels(self.one, more, L)
        counts = proposals.arc_counts(opened)
        if counts.sum() > MOST_ARCS:
            raise OptionError(
                f"confidence: with {L} labels as candidates, the n-grams of a sentence of {len(counts)} tokens make "
                f"more than {MOST_ARCS:,} transitions; use a lower ngram, or leave out constraints"
            )
        graph, score, label = labelling_graph(opened, self.allowed)
        at_node = np.full(graph.n_nodes, L)
        at_node[graph.target] = label
        candidate = np.zeros((len(counts), L + 1), np.bool_)
        token = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
        candidate[token, label] = True
        return Paths(graph, score, label, at_node[graph.source], token, candidate[:, :L])


class ProposalSums:
    """One sentence, whose labellings are as probable as exp(satisfied weight / temperature) says."""

    def __init__(self, graphs: ProposalGraphs, temperature: float):
        self.graphs, self.labels, self.temperature = graphs, graphs.labels, temperature

    def _scores(self, paths: Paths, permitted: Array | None = None) -> Array:
        """The logarithms of weights [A]; minus infinity for labels that are not permitted [T, L]."""
        T, L = paths.candidate.shape
        free = ~paths.candidate if permitted is None else permitted & ~paths.candidate
        worth = (
            np.zeros((T, L + 1)) if permitted is None else np.where(np.pad(permitted, ((0, 0), (0, 1))), 0.0, -np.inf)
        )
        with np.errstate(divide="ignore"):
            worth[:, L] = np.log(free.sum(axis=1))
        scores: Array = paths.score / self.temperature + worth[paths.token, paths.label]
        return scores

    def labelled_graph(self) -> "LabelledGraph":
        """All labellings, each label with arcs of its own, for users' rules."""
        from labelwright.rules.labelled_graphs import graph_of_proposals

        paths = self.graphs.paths_with(range(len(self.labels)))
        return graph_of_proposals(paths.graph, paths.score / self.temperature, paths.label, len(paths.candidate))

    # -- answers ------------------------------------------------------------------------------------------------------

    @computed_once
    def _sums(self) -> dag.Sums:
        paths = self.graphs.paths()
        return dag.sums(paths.graph, self._scores(paths))

    def log_z(self) -> float:
        return self._sums.log_z

    def log_z_of(self, permitted: Array) -> float:
        paths = self.graphs.paths()
        return dag.sums(paths.graph, self._scores(paths, np.asarray(permitted))).log_z

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; minus infinity where it is not allowed."""
        start, arc, end = self.graphs.allowed
        if len(start) and not (start[codes[0]] and end[codes[-1]] and arc[codes[:-1], codes[1:]].all()):
            return -np.inf
        return float(satisfied(self.graphs.one, codes)[0]) / self.temperature

    def marginals(self) -> Array:
        """P(label at t) [T, L]; labels that are no candidates share theirs equally."""
        paths = self.graphs.paths()
        T, L = paths.candidate.shape
        rows = np.bincount(paths.token * (L + 1) + paths.label, self._sums.arcs, T * (L + 1)).reshape(T, L + 1)
        others = np.maximum(1, L - paths.candidate.sum(axis=1, keepdims=True))
        shares: Array = np.where(paths.candidate, rows[:, :L], rows[:, L:] / others)
        return np.clip(shares, 0.0, 1.0)

    @property
    def span_types(self) -> tuple[str, ...]:
        return tuple(self.graphs.table.types)

    def span(self, span: Span) -> float:
        """P(exactly this span): of the paths that open it at its first token, go on in it and close it."""
        table, paths = self.graphs.table, self.graphs.paths(self.graphs.table.types.index(span.type))
        inside = table.type_of == table.types.index(span.type)  # [L+1], and so are the tables
        before, label, token = paths.before, paths.label, paths.token
        kept = np.ones(len(token), np.bool_)
        for tokens, pairs in (
            (token == span.start, table.starts & inside),
            ((token > span.start) & (token < span.end), inside[:, None] & inside & ~table.starts & ~table.ends),
            (token == span.end, table.ends & inside[:, None]),
        ):
            kept[tokens] = pairs[before[tokens], label[tokens]]
        scores = np.where(kept, self._scores(paths), -np.inf)
        return float(np.exp(min(0.0, dag.sums(paths.graph, scores).log_z - self.log_z())))

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order: their tokens have labels of the type at least as
        often."""
        rows, of_type = self.marginals(), self.graphs.table.type_of[:-1]
        shares = {kind: rows[:, of_type == number].sum(axis=1) for number, kind in enumerate(self.span_types)}
        return spans_within(shares, least, self.span)

    def entropy(self) -> float:
        """Of the paths, and of the labels that an arc may stand for."""
        paths = self.graphs.paths()
        L = len(self.labels)
        others = paths.label == L
        free = np.log(np.maximum(1, (~paths.candidate).sum(axis=1)))[paths.token[others]]
        return max(0.0, dag.entropy(paths.graph, self._scores(paths)) + float(self._sums.arcs[others] @ free))

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        paths, L = self.graphs.paths(), len(self.labels)
        rows = np.stack([paths.label[path] for path in dag.sample(paths.graph, self._scores(paths), n, rng)])
        for t in np.flatnonzero((rows == L).any(axis=0)).tolist():
            drawn = np.flatnonzero(rows[:, t] == L)
            rows[drawn, t] = rng.choice(np.flatnonzero(~paths.candidate[t]), len(drawn))
        return rows

    def best(self, n: int) -> Ranked:
        """Up to n of all labellings, the best first; of those with the same score, the codes of labels decide."""
        paths = self.graphs.paths()
        best, values = dag.best_paths(paths.graph, paths.score / self.temperature, n)
        pairs = zip(best, values.tolist(), strict=True)
        every = ((codes, value) for path, value in pairs for codes in self._labellings(paths, paths.label[path]))
        ranked = list(islice(every, n))
        return Ranked([codes for codes, _ in ranked], [value for _, value in ranked])

    def _labellings(self, paths: Paths, labels: Array) -> Iterator[Array]:
        """The labellings that one path stands for."""
        L = len(self.labels)
        choices = [
            np.flatnonzero(~paths.candidate[t]).tolist() if label == L else [label]
            for t, label in enumerate(labels.tolist())
        ]
        return (np.array(codes, np.int32) for codes in product(*choices))
