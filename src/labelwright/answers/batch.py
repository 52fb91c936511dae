"""A batch of scored sentences: every public answer, written once over the protocol of a scored sentence."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.protocol import Scored, impossible
from labelwright.corpus.spans import Span
from labelwright.decode.checks import check_decoder
from labelwright.decode.record import Decoding
from labelwright.errors import CorpusError, OptionError

Array = NDArray[Any]
R = TypeVar("R")
Labels = Sequence[str]


class Batch:
    """Sentences that were scored once and can be asked often.

    sentences : None stands for a sentence without tokens
    first : the number of the first sentence, for error messages
    probabilistic : are weights logarithms of probabilities?
    calibrated : the same sentences with scores as log-probabilities, for confidences of taggers without probabilities
    """

    def __init__(
        self,
        sentences: Sequence[Scored | None],
        first: int = 0,
        probabilistic: bool = True,
        calibrated: Callable[[], "Batch"] | None = None,
    ):
        self.sentences, self.first, self.probabilistic = list(sentences), first, probabilistic
        self._calibrate = calibrated
        self._calibrated: Batch | None = None

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[Scored | None]:
        return iter(self.sentences)

    @property
    def calibrated(self) -> "Batch | None":
        """The batch whose probabilities are the confidences of this one; None where the tagger is not calibrated."""
        if self._calibrated is None and self._calibrate is not None:
            self._calibrated = self._calibrate()
        return self._calibrated

    @property
    def sure(self) -> "Batch":
        """The batch that has probabilities: this one, or the calibrated one whose probabilities are confidences."""
        return self if self.calibrated is None else self.calibrated

    def _each(self, question: Callable[[int, Scored], R], empty: R) -> list[R]:
        """question(number, sentence) for every sentence; `empty` answers where there are no tokens."""
        return [empty if s is None else question(n, s) for n, s in enumerate(self.sentences)]

    # -- answers ------------------------------------------------------------------------------------------------------

    def decode(self, decoder: str, *, probabilities: bool = True, **options: Any) -> list[Decoding]:
        """The best labelling of each sentence by a decoder, with its probability or (calibrated) confidence."""

        def question(n: int, sentence: Scored) -> Decoding:
            check_decoder(decoder, sentence.decoders)
            return sentence.decode(decoder, number=self.first + n, probabilities=probabilities, **options)

        status = "optimal" if options.get("rules") else None
        certain = 0.0 if self.probabilistic and probabilities else None
        nothing = Decoding([], 0.0, certain, True, 0.0, status=status)
        records = self._each(question, nothing)
        if not probabilities or self.calibrated is None:
            return records
        likely = self.calibrated.log_probabilities([record.labels for record in records])
        return [d._replace(confidence=float(np.exp(p))) for d, p in zip(records, likely, strict=True)]

    def under(self, rules: Any, words: Any = None) -> "Batch":
        """The same sentences with only the labellings that satisfy users' rules (labelwright.rules)."""
        calibrated = None if self._calibrate is None else lambda: self.sure.under(rules, words)
        ruled = [
            None if sentence is None else self._ruled(n, sentence, rules, words)
            for n, sentence in enumerate(self.sentences)
        ]
        return Batch(ruled, self.first, self.probabilistic, calibrated)

    def _ruled(self, number: int, sentence: Scored, rules: Any, words: Any) -> Scored:
        from labelwright.answers.ruled import under_rules

        return under_rules(cast(Any, sentence), rules, words, self.first + number)

    def nbest(
        self, n: int, max_expansions: int | None = None, *, rules: Any = None, words: Any = None
    ) -> list[list[tuple[list[str], float]]]:
        """Up to n labellings of each sentence, the best first, with their probabilities (or scores).

        rules : only labellings that satisfy them; probabilities are those of the model without rules"""

        def question(number: int, sentence: Scored) -> list[tuple[list[str], float]]:
            source = self._ruled(number, sentence, rules, words) if rules else sentence
            ranked = source.best(n, max_expansions)
            if not ranked.codes:
                raise impossible(self.first + number)
            values = [float(weight) for weight in ranked.weights]
            if self.probabilistic:
                values = np.minimum(1.0, np.exp(np.array(values) - sentence.log_z())).tolist()
            labels = sentence.labels
            rows = ([labels[code] for code in codes] for codes in ranked.codes)
            return list(zip(rows, values, strict=True))

        return self._each(question, [([], 1.0 if self.probabilistic else 0.0)])

    def _require_probabilities(self, question: str) -> None:
        if not self.probabilistic:
            raise OptionError(f"{question}: this tagger has scores, not probabilities; ask its `calibrated` batch")

    def marginals(self) -> list[list[dict[str, float]]]:
        """The probability of every label at every token."""
        self._require_probabilities("marginals")

        def question(number: int, sentence: Scored) -> list[dict[str, float]]:
            self._check_possible(number, sentence)
            rows = sentence.marginals().tolist()
            return [dict(zip(sentence.labels, row, strict=True)) for row in rows]

        return self._each(question, [])

    def spans(self, labellings: Sequence[list[str]]) -> list[list[Span]]:
        """The spans of these labellings, with their probabilities where the tagger has any."""
        spans = self.spans_in(labellings)
        return self.span_probabilities(spans) if self.probabilistic else spans

    def spans_in(self, labellings: Sequence[list[str]]) -> list[list[Span]]:
        """The spans of these labellings, without a probability."""
        return self._each(lambda n, sentence: sentence.spans_in(labellings[n]), [])

    def span_probabilities(self, spans: Sequence[Sequence[Span]]) -> list[list[Span]]:
        """These spans of each sentence, each with the probability that exactly this span is in the labelling."""
        self._require_probabilities("span_probabilities")
        if len(spans) != len(self):
            raise OptionError(f"spans: expected one list for each of {len(self)} sentences, got {len(spans)}")

        def question(number: int, sentence: Scored) -> list[Span]:
            for span in spans[number]:
                self._check_span(number, sentence, span)
            if spans[number]:
                self._check_possible(number, sentence)
            return [span._replace(probability=sentence.span(span)) for span in spans[number]]

        for number, sentence in enumerate(self.sentences):
            if sentence is None and spans[number]:
                span = spans[number][0]
                place = f"sentence {self.first + number}: {span.start}:{span.end}"
                raise OptionError(f"spans: {place} is not a span of 0 tokens")
        return self._each(question, [])

    def log_probabilities(self, labellings: Sequence[Labels]) -> list[float]:
        """log P(labelling | sentence) of given labellings; minus infinity for labels that the tagger does not know."""
        self._require_probabilities("log_probabilities")
        check_lengths(labellings, [0 if s is None else len(s) for s in self], self.first)
        index: dict[str, int] = {}

        def question(number: int, sentence: Scored) -> float:
            if not index:
                index.update((label, code) for code, label in enumerate(sentence.labels))
            labels = labellings[number]
            if any(label not in index for label in labels):
                return -np.inf
            weight = sentence.weight_of(np.array([index[label] for label in labels], np.int32))
            return min(0.0, weight - sentence.log_z()) if weight > -np.inf else -np.inf

        return self._each(question, 0.0)

    def sample(self, n: int, random_state: int | None = 0) -> list[list[tuple[list[str], float]]]:
        """n labellings of each sentence, drawn from their probabilities; equal ones once, with their share.

        The draws depend on the scores of the sentence, not on its place among others."""
        self._require_probabilities("sample")

        def question(number: int, sentence: Scored) -> list[tuple[list[str], float]]:
            self._check_possible(number, sentence)
            seed = zlib.crc32(np.ascontiguousarray(sentence.fingerprint).data)
            codes = sentence.sample(n, np.random.default_rng([random_state or 0, seed]))
            rows, counts = np.unique(codes, axis=0, return_counts=True)
            labels = np.array(sentence.labels, dtype=object)
            return [(labels[row].tolist(), count / n) for row, count in zip(rows, counts.tolist(), strict=True)]

        return self._each(question, [([], 1.0)])

    def check_possible(self) -> None:
        """Refuse sentences without any labelling that is allowed."""
        self._each(self._check_possible, None)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_possible(self, number: int, sentence: Scored) -> None:
        if sentence.log_z() == -np.inf:
            raise impossible(self.first + number)

    def _check_span(self, number: int, sentence: Scored, span: Span) -> None:
        if span.type not in sentence.span_types:
            known = ", ".join(sentence.span_types)
            raise OptionError(f"spans: no type {span.type!r} in this model, expected one of {known}")
        if not 0 <= span.start < span.end <= len(sentence):
            place = f"sentence {self.first + number}: {span.start}:{span.end}"
            raise OptionError(f"spans: {place} is not a span of {len(sentence)} tokens")


def joined(batches: Sequence[Batch]) -> Batch:
    """Several batches, one behind the other, as one."""
    sentences = [sentence for batch in batches for sentence in batch]
    probabilistic = all(batch.probabilistic for batch in batches)
    if not batches or batches[0]._calibrate is None:
        return Batch(sentences, probabilistic=probabilistic)

    def calibrated() -> Batch:
        return joined([batch.sure for batch in batches])

    return Batch(sentences, probabilistic=probabilistic, calibrated=calibrated)


def check_lengths(labellings: Sequence[Labels], lengths: Sequence[int], first: int = 0, place: str = "y") -> None:
    """Refuse labellings that do not fit sentences of these lengths, of which the first has this number; `place` is what
    errors call them."""
    if len(labellings) != len(lengths):
        raise CorpusError(f"{place}: {len(labellings)} sentences, but X has {len(lengths)}")
    for number, (labels, length) in enumerate(zip(labellings, lengths, strict=True), first):
        if len(labels) != length:
            raise CorpusError(f"{place}: sentence {number} has {len(labels)} labels, but X has {length} tokens there")
