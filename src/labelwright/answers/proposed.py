"""Scored sentences whose structure is a set of overlapping n-gram proposals: the score is the weight of what holds.

Sums over all labellings of a sentence with n-gram proposals, whose scores are divided by a temperature.

Every labelling counts, not only those of the candidates: one that satisfies no constraint has the score 0.  All labels
that are no candidates of a token satisfy the same constraints (none), so one arc stands for all of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.protocol import Ranked, spans_within
from labelwright.corpus.schemes import Allowed, Boundaries, boundaries
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.csi import ANYTHING, INFERENCE, Inferred, best_labellings, csi, labelling_graph, satisfied
from labelwright.decode.record import Decoding, check_seconds
from labelwright.errors import OptionError
from labelwright.parallel import Workers, computed_once
from labelwright.structures import dag, proposals
from labelwright.structures.dag import LabelledGraph
from labelwright.structures.proposals import Distributions, Proposals

Array = NDArray[Any]
DECODERS = ("none", "vote", "csi")
MOST_ARCS = 1 << 23  # of one sentence: some hundred bytes each


# -- sums over all labellings -----------------------------------------------------------------------------------------


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

    def labelled_graph(self) -> LabelledGraph:
        """All labellings, each label with arcs of its own, for users' rules."""
        paths = self.graphs.paths_with(range(len(self.labels)))
        score, T = paths.score / self.temperature, len(paths.candidate)
        return proposals.graph_of_proposals(paths.graph, score, paths.label, T)

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


# -- scored sentences -------------------------------------------------------------------------------------------------


class ProposalBlock:
    """The proposals of some sentences.

    allowed : which label may follow which; `scheme` is the name of that constraint, for error messages
    of_labels : the label scheme of the training labels
    first : the number of the first sentence
    answers : what the classifier says of each token"""

    def __init__(
        self,
        candidates: Proposals,
        labels: Sequence[str],
        of_labels: str | None,
        allowed: Allowed = ANYTHING,
        scheme: str | None = None,
        workers: Workers | None = None,
        first: int = 0,
        answers: Distributions | None = None,
    ):
        self.candidates, self.labels, self.of_labels, self.answers = candidates, tuple(labels), of_labels, answers
        self.allowed, self.scheme, self.workers, self.first = allowed, scheme, workers, first
        self._inferred: dict[str, Inferred] = {}
        self._widened: dict[int, Proposals] = {}
        self._graphs: dict[int, ProposalGraphs] = {}

    @property
    def sentences(self) -> "list[ProposalSentence | None]":
        """The sentences; None where there are no tokens."""
        lengths = np.diff(self.candidates.offsets).tolist()
        return [ProposalSentence(self, n) if length else None for n, length in enumerate(lengths)]

    def inferred(self, name: str) -> Inferred:
        """The labels of all sentences by one kind of inference, computed once."""
        if name not in self._inferred:
            if name == "csi":
                self._inferred[name] = csi(self.candidates, self.allowed, self.workers)
            else:
                self._inferred[name] = INFERENCE[name](self.candidates)
        return self._inferred[name]

    def widened(self, n: int) -> Proposals:
        """One sentence with every label proposed for every token."""
        if n not in self._widened:
            self._widened[n] = proposals.widened(self.candidates, n, len(self.labels))
        return self._widened[n]

    def graphs(self, n: int) -> ProposalGraphs:
        """All labellings of one sentence."""
        if n not in self._graphs:
            one = proposals.part(self.candidates, n, n + 1)
            self._graphs[n] = ProposalGraphs(one, self.labels, self.allowed)
        return self._graphs[n]


class ProposalSentence:
    """One sentence of a block of proposals.

    temperature : what scores are divided by, to be logarithms of probabilities; None: they are scores alone"""

    decoders = DECODERS
    path_of_labelling = "only"

    def __init__(self, block: ProposalBlock, n: int, temperature: float | None = None):
        self.block, self.n, self.temperature = block, n, temperature
        self.labels = block.labels
        self.begin, self.end = block.candidates.offsets[n : n + 2].tolist()

    def __len__(self) -> int:
        return int(self.end - self.begin)

    @property
    def fingerprint(self) -> Array:
        return self.block.candidates.weights[self.begin : self.end]

    @property
    def of_labels(self) -> str | None:
        return self.block.of_labels

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        """The labellings of candidates; then those of all labels, which alone have probabilities."""
        if self.temperature is not None:
            yield self._sums.labelled_graph()
            return
        for one in (self._candidates, self.block.widened(self.n)):
            with _too_wide(self.block.first + self.n, "rules"):
                yield proposals.graph_of_proposals(*labelling_graph(one, self.block.allowed), len(self))

    # -- answers ------------------------------------------------------------------------------------------------------

    def decode(
        self,
        decoder: str,
        *,
        number: int = 0,
        probabilities: bool = True,
        rules: Any = None,
        words: Any = None,
        time_limit: float | None = None,
        **_: Any,
    ) -> Decoding:
        """The labelling by one kind of inference; only that of csi is a proven optimum."""
        inferred, proven = self.block.inferred(decoder), decoder == "csi"
        codes, score = inferred.labels[self.begin : self.end], float(inferred.scores[self.n])
        wide = score == -np.inf  # the proposals make no labelling that is allowed
        if wide:
            codes, score = self._best_of_all_labels(number)
        record = Decoding(self._names(codes), score, None, proven, 0.0 if proven else None)
        if rules:
            record = self._decode_with_rules(number, rules, words, time_limit, record.labels, wide)
        return record if self.temperature is None else self._with_probability(record, probabilities)

    def _with_probability(self, record: Decoding, wanted: bool) -> Decoding:
        """What is known of a labelling whose score is the logarithm of its weight."""
        weight = self.weight_of(np.array([self.labels.index(label) for label in record.labels], np.int32))
        return record._replace(score=weight, log_probability=min(0.0, weight - self.log_z()) if wanted else None)

    def _best_of_all_labels(self, number: int) -> tuple[Array, float]:
        """The best labelling with every label a candidate."""
        with _too_wide(number, self.block.scheme):
            best = csi(self.block.widened(self.n), self.block.allowed)
        if best.scores[0] == -np.inf:
            raise _impossible(number, self.block.scheme)
        return best.labels, float(best.scores[0])

    def _decode_with_rules(
        self, number: int, rules: Any, words: Any, time_limit: float | None, best: list[str], wide: bool
    ) -> Decoding:
        """The best labelling that keeps users' own rules; all labels are candidates where those that were proposed
        cannot keep the rules."""
        from labelwright.answers.ruled import under_rules
        from labelwright.rules.product import TooLargeError
        from labelwright.rules.solver import solve_candidates

        check_seconds(time_limit)
        with suppress(TooLargeError, TooWideError):
            return under_rules(self, rules, words, number).best_by_automata(probabilities=False)
        block = self.block
        one = block.widened(self.n) if wide else proposals.part(block.candidates, self.n, self.n + 1)
        solution = solve_candidates(
            proposals.problem(one, 0, self.labels),
            [*([block.scheme] if block.scheme else []), *rules],
            time_limit,
            words=None if words is None else words[number],
            number=number,
            labels=self.labels,
            scheme=block.of_labels,
            best=best,
            wider=None if wide else lambda: proposals.problem(block.widened(self.n), 0, self.labels),
        )
        proven = solution.status == "optimal"
        gap = 0.0 if proven else None
        return Decoding(solution.labels, solution.score, None, proven, gap, status=solution.status, method="solver")

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings that satisfy most, the best first; of all labels where they have probabilities."""
        if self.temperature is not None:
            return self._sums.best(n)
        block, number = self.block, self.block.first + self.n
        rows, scores = best_labellings(block.candidates, self.n, n, block.allowed)
        if not rows:
            with _too_wide(number, block.scheme):
                rows, scores = best_labellings(block.widened(self.n), 0, n, block.allowed)
        if not rows:
            raise _impossible(number, block.scheme)
        return Ranked(rows, scores)

    def weight_of(self, codes: Array) -> float:
        """The weight of the constraints that a labelling satisfies, divided by the temperature."""
        return float(satisfied(self._candidates, codes)[0]) if self.temperature is None else self._sums.weight_of(codes)

    @computed_once
    def _candidates(self) -> Proposals:
        return proposals.part(self.block.candidates, self.n, self.n + 1)

    def spans_in(self, labels: list[str]) -> list[Span]:
        return spans_of(labels) if self.block.of_labels is not None else []

    # -- probabilities, where there is a temperature ------------------------------------------------------------------

    def tempered(self, temperature: float) -> "ProposalSentence":
        return ProposalSentence(self.block, self.n, temperature * (self.temperature or 1.0))

    @computed_once
    def _sums(self) -> ProposalSums:
        if self.temperature is None:
            raise OptionError("n-gram proposals have scores, not probabilities; calibrate the tagger first")
        return ProposalSums(self.block.graphs(self.n), self.temperature)

    def log_z(self) -> float:
        return self._sums.log_z()

    def log_z_of(self, permitted: Array) -> float:
        return self._sums.log_z_of(permitted)

    def marginals(self) -> Array:
        return self._sums.marginals()

    @property
    def span_types(self) -> tuple[str, ...]:
        return self._sums.span_types

    def span(self, span: Span) -> float:
        return self._sums.span(span)

    def entropy(self) -> float:
        return self._sums.entropy()

    def likely_spans(self, least: float) -> list[Span]:
        return self._sums.likely_spans(least) if self.block.of_labels is not None else []

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        return self._sums.sample(n, rng)

    def _names(self, codes: Array) -> list[str]:
        return [self.labels[code] for code in codes.tolist()]


def _impossible(sentence: int, scheme: Any) -> OptionError:
    return OptionError(
        f"sentence {sentence}: no labelling with the labels of this model is valid under constraints={scheme!r}; "
        "decode it without constraints"
    )


class TooWideError(OptionError):
    """With every label a candidate, there are too many tuples of them."""


@contextmanager
def _too_wide(sentence: int, scheme: Any) -> Iterator[None]:
    """Say why the search of a sentence that was widened is too large."""
    try:
        yield
    except OptionError:
        raise TooWideError(
            f"sentence {sentence}: its candidates make no valid labelling under constraints={scheme!r}, and with every "
            "label a candidate there are too many tuples of them; use a lower ngram, or decode it without constraints"
        ) from None
