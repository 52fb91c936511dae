"""Scored sentences whose structure is a set of overlapping n-gram proposals: the score is the weight of what holds."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.proposal_sums import ProposalGraphs, ProposalSums
from labelwright.answers.protocol import Ranked
from labelwright.corpus.schemes import Allowed
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.checks import check_seconds
from labelwright.decode.csi import ANYTHING, best_labellings, csi, labelling_graph
from labelwright.decode.inference import INFERENCE
from labelwright.decode.record import Decoding
from labelwright.decode.vote import Inferred, satisfied
from labelwright.errors import OptionError
from labelwright.locks import computed_once
from labelwright.parallel import Workers
from labelwright.structures import proposals
from labelwright.structures.distributions import Distributions
from labelwright.structures.proposals import Proposals

if TYPE_CHECKING:
    from labelwright.rules.labelled_graphs import LabelledGraph

Array = NDArray[Any]
DECODERS = ("none", "vote", "csi")


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

    def labelled_graphs(self) -> "Iterator[LabelledGraph]":
        """The labellings of candidates; then those of all labels, which alone have probabilities."""
        from labelwright.rules.labelled_graphs import graph_of_proposals

        if self.temperature is not None:
            yield self._sums.labelled_graph()
            return
        for one in (self._candidates, self.block.widened(self.n)):
            with _too_wide(self.block.first + self.n, "rules"):
                yield graph_of_proposals(*labelling_graph(one, self.block.allowed), len(self))

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
