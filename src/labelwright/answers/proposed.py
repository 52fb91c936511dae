"""Scored sentences whose structure is a set of overlapping n-gram proposals: the score is the
weight of what holds.

With a temperature, scores are logarithms of probabilities, and every labelling counts, not only
those of the candidates: one that satisfies no constraint has the score 0.  All labels that are no
candidates of a token satisfy the same constraints (none), so one arc stands for all of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.graphs import GraphSentence
from labelwright.corpus.schemes import Allowed
from labelwright.decode.csi import (
    ANYTHING,
    INFERENCE,
    Inferred,
    best_labellings,
    csi,
    labelling_graph,
    satisfied,
)
from labelwright.decode.record import Decoding, Ranked, check_seconds
from labelwright.errors import OptionError
from labelwright.parallel import Workers, computed_once
from labelwright.rules.formulas import chunk_table
from labelwright.structures import dag, proposals
from labelwright.structures.dag import LabelledGraph, Reading, labelled_graph
from labelwright.structures.proposals import Distributions, Proposals

Array = NDArray[Any]
DECODERS = ("none", "vote", "csi")
MOST_ARCS = 1 << 23  # of one sentence: some hundred bytes each


class Paths(NamedTuple):
    """Labellings as paths of a graph.  The code L stands for all labels that are no candidates of a
    token."""

    graph: dag.Dag
    score: Array  # [A]  of one labelling, not divided by the temperature
    label: Array  # [A]  of the token, up to L
    token: Array  # [A]
    others: Array  # [T, L]  which labels have no arcs of their own


class ProposalBlock:
    """The proposals of some sentences.

    allowed : which label may follow which; `scheme` is the name of that constraint, for error
        messages
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
        self.candidates, self.labels, self.of_labels, self.answers = (
            candidates,
            tuple(labels),
            of_labels,
            answers,
        )
        self.allowed, self.scheme, self.workers, self.first = allowed, scheme, workers, first
        self._inferred: dict[str, Inferred] = {}
        self._widened: dict[int, Proposals] = {}
        self._paths: dict[tuple[int, str | None], Paths] = {}

    @property
    def sentences(self) -> "list[ProposalSentence | None]":
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

    def paths(self, n: int, kind: str | None = None) -> Paths:
        """All labellings of one sentence; labels of this type have arcs of their own, all labels
        where one depends on another."""
        if (n, kind) not in self._paths:
            table = chunk_table(self.labels)
            of_type = (
                []
                if kind is None
                else np.flatnonzero(table.type_of[:-1] == table.types.index(kind)).tolist()
            )
            self._paths[n, kind] = self.paths_with(
                n, range(len(self.labels)) if len(self.allowed.start) else of_type
            )
        return self._paths[n, kind]

    def paths_with(self, n: int, more: Sequence[int]) -> Paths:
        """All labellings of one sentence; these labels have arcs of their own."""
        L = len(self.labels)
        opened = proposals.with_labels(proposals.part(self.candidates, n, n + 1), more, L)
        counts = proposals.arc_counts(opened)
        if counts.sum() > MOST_ARCS:
            raise OptionError(
                f"confidence: with {L} labels as candidates, the n-grams of a sentence of "
                f"{len(counts)} tokens make more than {MOST_ARCS:,} transitions; use a lower "
                "ngram, or leave out constraints"
            )
        graph, score, label, token = labelling_graph(opened, self.allowed)
        candidate = np.zeros((len(counts), L + 1), np.bool_)
        candidate[token, label] = True
        return Paths(graph, score, label, token, ~candidate[:, :L])


class ProposalSentence(GraphSentence):
    """One sentence of a block of proposals.

    temperature : what scores are divided by, to be logarithms of probabilities; None: they are
        scores alone
    kind : the type of spans whose labels have arcs of their own"""

    decoders = DECODERS
    standing = None

    def __init__(
        self,
        block: ProposalBlock,
        n: int,
        temperature: float | None = None,
        kind: str | None = None,
    ):
        self.block, self.n, self.temperature, self.kind = block, n, temperature, kind
        self.labels, self.of_labels, self._stand = block.labels, block.of_labels, None
        self.begin, self.end = block.candidates.offsets[n : n + 2].tolist()
        self.T = self.end - self.begin

    @property
    def fingerprint(self) -> Array:
        return self.block.candidates.weights[self.begin : self.end]

    @property
    def span_types(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(chunk_table(self.labels).types)

    def tempered(self, temperature: float) -> "ProposalSentence":  # type: ignore[override]
        return ProposalSentence(self.block, self.n, temperature * (self.temperature or 1.0))

    # -- its graph, where there is a temperature ---------------------------------------------------

    @computed_once
    def _paths(self) -> Paths:
        if self.temperature is None:
            raise OptionError(
                "n-gram proposals have scores, not probabilities; calibrate the tagger first"
            )
        return self.block.paths(self.n, self.kind)

    @computed_once
    def _made(self) -> tuple[dag.Dag, Array]:
        return self._paths.graph, self._worth(np.ones((len(self), len(self.labels)), np.bool_))

    def _worth(self, permitted: Array) -> Array:
        """The logarithms of weights [A]; minus infinity for labels that are not permitted [T,
        L]."""
        _, score, label, token, others = self._paths
        worth = np.where(np.pad(permitted, ((0, 0), (0, 1))), 0.0, -np.inf)
        with np.errstate(divide="ignore"):
            worth[:, -1] = np.log((permitted & others).sum(axis=1))
        weights: Array = score / (self.temperature or 1.0) + worth[token, label]
        return weights

    @computed_once
    def reading(self) -> Reading:
        _, score, label, token, _ = self._paths
        return Reading(np.arange(len(score)), token, token + 1, label)

    def _of_type(self, kind: str) -> GraphSentence:
        return ProposalSentence(self.block, self.n, self.temperature, kind)

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        """The labellings of candidates; then those of all labels, which alone have
        probabilities."""
        if self.temperature is not None:
            graph, score, label, token, _ = self.block.paths_with(self.n, range(len(self.labels)))
            yield labelled_graph(graph, score / self.temperature, label.astype(np.int64), token)
            return
        for one in (self._candidates, self.block.widened(self.n)):
            with _too_wide(self.block.first + self.n, "rules"):
                graph, score, label, token = labelling_graph(one, self.block.allowed)
                yield labelled_graph(graph, score, label.astype(np.int64), token)

    # -- sums over all labellings ------------------------------------------------------------------

    def log_z_of(self, permitted: Array) -> float:
        return dag.sums(self.graph, self._worth(np.asarray(permitted))).log_z

    def weight_of(self, codes: Array) -> float:
        """The weight of the constraints that a labelling satisfies, divided by the temperature;
        with one, minus infinity where the labelling is not allowed."""
        start, arc, end = self.block.allowed
        valid = not len(start) or (
            start[codes[0]] and end[codes[-1]] and arc[codes[:-1], codes[1:]].all()
        )
        if self.temperature is not None and not valid:
            return -np.inf
        return float(satisfied(self._candidates, codes)[0]) / (self.temperature or 1.0)

    def marginals(self) -> Array:
        """P(label at t) [T, L]; labels that are no candidates share theirs equally."""
        rows = self.reading.marginals(self._sums.arcs, len(self), len(self.labels) + 1)
        others = self._paths.others
        shares = rows[:, -1:] / np.maximum(1, others.sum(axis=1, keepdims=True))
        return np.where(others, shares, rows[:, :-1])

    def entropy(self) -> float:
        """Of the paths, and of the labels that an arc may stand for."""
        _, _, label, token, others = self._paths
        arc = np.flatnonzero(label == len(self.labels))
        return super().entropy() + float(
            self._sums.arcs[arc] @ np.log(others.sum(axis=1)[token[arc]])
        )

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        rows, L = super().sample(n, rng), len(self.labels)
        for t in np.flatnonzero((rows == L).any(axis=0)).tolist():
            drawn = np.flatnonzero(rows[:, t] == L)
            rows[drawn, t] = rng.choice(np.flatnonzero(self._paths.others[t]), len(drawn))
        return rows

    # -- the best labellings -----------------------------------------------------------------------

    def decode(
        self,
        decoder: str,
        *,
        number: int = 0,
        probabilities: bool = True,
        ruled: Any = None,
        **options: Any,
    ) -> Decoding:
        """The labelling by one kind of inference; only that of csi is a proven optimum."""
        inferred, proven = self.block.inferred(decoder), decoder == "csi"
        codes, score = inferred.labels[self.begin : self.end], float(inferred.scores[self.n])
        wide = score == -np.inf  # the proposals make no labelling that is allowed
        if wide:
            with _too_wide(number, self.block.scheme):
                best = csi(self.block.widened(self.n), self.block.allowed)
            if best.scores[0] == -np.inf:
                raise _impossible(number, self.block.scheme)
            codes, score = best.labels, float(best.scores[0])
        labels = [self.labels[code] for code in codes.tolist()]
        record = Decoding(labels, score, None, proven, 0.0 if proven else None)
        if ruled is not None:
            record = self._under_rules(ruled, labels, wide, options.get("time_limit"))
        if self.temperature is None:
            return record
        weight = self.weight_of(
            np.array([self.labels.index(label) for label in record.labels], np.int32)
        )
        log_p = min(0.0, weight - self.log_z()) if probabilities else None
        return record._replace(score=weight, log_probability=log_p)

    def decode_ruled(self, ruled: Any, decoder: str, **options: Any) -> Decoding:  # type: ignore[override]
        return self.decode(decoder, ruled=ruled, **options)

    def _under_rules(
        self, ruled: Any, best: list[str], wide: bool, time_limit: float | None
    ) -> Decoding:
        """The best labelling that keeps users' own rules; all labels are candidates where those
        that were proposed cannot keep the rules."""
        from labelwright.rules.product import TooLargeError
        from labelwright.rules.solver import solve_candidates

        check_seconds(time_limit)
        with suppress(TooLargeError, TooWideError):
            record: Decoding = ruled.best_by_automata(probabilities=False)
            return record
        block, number = self.block, ruled.number
        one = block.widened(self.n) if wide else self._candidates
        solution = solve_candidates(
            proposals.problem(one, 0, self.labels),
            [*([block.scheme] if block.scheme else []), *ruled.rules],
            time_limit,
            words=None if ruled.words is None else ruled.words[number],
            number=number,
            labels=self.labels,
            scheme=block.of_labels,
            best=best,
            wider=None
            if wide
            else lambda: proposals.problem(block.widened(self.n), 0, self.labels),
        )
        proven = solution.status == "optimal"
        gap = 0.0 if proven else None
        return Decoding(
            solution.labels,
            solution.score,
            None,
            proven,
            gap,
            status=solution.status,
            method="solver",
        )

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings that satisfy most, the best first; of all labels where they have
        probabilities (of those with the same score, the codes of labels decide)."""
        if self.temperature is not None:
            paths, values = dag.best_paths(self.graph, self._paths.score / self.temperature, n)
            pairs = zip(paths, values.tolist(), strict=True)
            every = (
                (codes, value)
                for path, value in pairs
                for codes in self._labellings(self._codes_of(path))
            )
            ranked = list(islice(every, n))
            return Ranked([codes for codes, _ in ranked], [value for _, value in ranked])
        block, number = self.block, self.block.first + self.n
        rows, scores = best_labellings(block.candidates, self.n, n, block.allowed)
        if not rows:
            with _too_wide(number, block.scheme):
                rows, scores = best_labellings(block.widened(self.n), 0, n, block.allowed)
        if not rows:
            raise _impossible(number, block.scheme)
        return Ranked(rows, scores)

    def _labellings(self, labels: Array) -> Iterator[Array]:
        """The labellings that one path stands for."""
        choices = [
            np.flatnonzero(self._paths.others[t]).tolist() if label == len(self.labels) else [label]
            for t, label in enumerate(labels.tolist())
        ]
        return (np.array(codes, np.int32) for codes in product(*choices))

    @computed_once
    def _candidates(self) -> Proposals:
        return proposals.part(self.block.candidates, self.n, self.n + 1)


def _impossible(sentence: int, scheme: Any) -> OptionError:
    return OptionError(
        f"sentence {sentence}: no labelling with the labels of this model is valid under "
        f"constraints={scheme!r}; decode it without constraints"
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
            f"sentence {sentence}: its candidates make no valid labelling under "
            f"constraints={scheme!r}, and with every label a candidate there are too many tuples "
            "of them; use a lower ngram, or decode it without constraints"
        ) from None
