"""A batch of scored sentences: every public answer, written once over the protocol of a scored
sentence."""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.calibrated import Calibration
from labelwright.corpus.partial_labels import is_partial
from labelwright.corpus.schemes import is_chunk_label, split_label
from labelwright.corpus.spans import Span, labels_of
from labelwright.corpus.tokenizer import labelled_spans
from labelwright.decode.record import MOST, Decoding, NoSumsError, Ranked, check_decoder, impossible
from labelwright.errors import CorpusError, OptionError
from labelwright.structures.passing import Candidates, Passed, likely

if TYPE_CHECKING:
    from labelwright.answers.chains import Chain
    from labelwright.answers.graphs import GraphSentence

Array = NDArray[Any]
R = TypeVar("R")
Scored = Union[
    "Chain", "GraphSentence"
]  # one sentence with its scores; what it cannot answer, its tagger's `can` lacks
# between the parts of a label that stands for several, such as K_S
JOINED = re.compile(r"(?<=\w)[_+|:](?=\w)")
UNDECIDED = "_"  # in place of a label that is left out, where there is no O
Labels = Sequence[str]
PartialLabels = Sequence[Any]  # of each token a label, None, or a set of labels


class Batch:
    """Sentences that were scored once and can be asked often.

    Labels, scores and proofs are those of the scores as they are; probabilities are calibrated
    where the tagger is. A batch under rules (`under`) answers every question about the labellings
    that satisfy them.

    sentences : None stands for a sentence without tokens
    first : the number of the first sentence, for error messages
    probabilistic : are weights logarithms of probabilities?
    calibration : how probabilities (or confidences, of taggers without probabilities) follow from
        the scores
    """

    def __init__(
        self,
        sentences: Sequence[Scored | None],
        first: int = 0,
        probabilistic: bool = True,
        calibration: Calibration | None = None,
    ):
        self.sentences, self.first, self.probabilistic = list(sentences), first, probabilistic
        self.calibration = calibration
        self._calibrated: Batch | None = None
        self.ruled = False
        self._index: dict[Any, int] = {}  # the codes of the labels
        # of a calibrated batch, whose scores have the temperature already
        self._maps: Calibration | None = None

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[Scored | None]:
        return iter(self.sentences)

    @property
    def calibrated(self) -> "Batch | None":
        """The batch that has the calibrated probabilities of this one; None where the tagger is not
        calibrated."""
        if self._calibrated is None and self.calibration is not None:
            temperature = self.calibration.temperature
            self._calibrated = Batch(
                [None if s is None else s.tempered(temperature) for s in self], self.first
            )
            self._calibrated._maps = self.calibration
        return self._calibrated

    @property
    def raw(self) -> "Batch":
        """The same scores without their calibration."""
        return Batch(self.sentences, self.first, self.probabilistic)

    @property
    def sure(self) -> "Batch":
        """The batch whose probabilities users see: the calibrated one, where there is one, or this
        one."""
        return self if self.calibrated is None else self.calibrated

    def _each(self, question: Callable[[int, Scored], R], empty: R) -> list[R]:
        """question(number, sentence) for every sentence; `empty` answers where there are no
        tokens."""
        return [empty if s is None else question(n, s) for n, s in enumerate(self.sentences)]

    def _each_summed(
        self, question: Callable[[int, Scored], R], without_sums: Callable[[int], R], empty: R
    ) -> list[R]:
        """The same, where rules may leave too many possibilities for sums: then `without_sums`
        answers."""

        def tried(number: int, sentence: Scored) -> R:
            try:
                return question(number, sentence)
            except NoSumsError:
                return without_sums(number)

        return self._each(tried, empty)

    # -- answers -----------------------------------------------------------------------------------

    def decode(self, decoder: str, *, probabilities: bool = True, **options: Any) -> list[Decoding]:
        """The best labelling of each sentence by a decoder, with its probability or (calibrated)
        confidence.

        decoder : one of the tagger's `decoders`
        probabilities : whether to add the probability of the labelling
        **options : go to the decoder
        """

        def question(n: int, sentence: Scored) -> Decoding:
            check_decoder(decoder, sentence.decoders)
            return sentence.decode(
                decoder, number=self.first + n, probabilities=probabilities, **options
            )

        certain = 0.0 if self.probabilistic and probabilities else None
        nothing = Decoding([], 0.0, certain, True, 0.0, status="optimal" if self.ruled else None)
        records = self._each(question, nothing)
        if not probabilities or (
            self.calibrated is None and not (self.ruled and self.probabilistic)
        ):
            return records
        sure, sum_of_nothing = self.sure, cast("float | None", 0.0)
        likely = sure._each_summed(
            lambda n, s: sure._log_probability(s, records[n].labels), lambda n: None, sum_of_nothing
        )
        return [
            self._with_probability(record, p) for record, p in zip(records, likely, strict=True)
        ]

    def _with_probability(self, record: Decoding, log_p: float | None) -> Decoding:
        """A record with the probability (or confidence) that users see; under rules the gap grows
        with it."""
        if not self.probabilistic:
            return record._replace(confidence=None if log_p is None else float(np.exp(log_p)))
        gap = record.gap
        if self.ruled and gap:
            before = record.log_probability
            if log_p is None or before is None or self.calibrated is not None:
                gap = None
            else:
                gap = min(1.0, gap * float(np.exp(min(log_p - before, 700.0))))
        return record._replace(log_probability=log_p, gap=gap)

    def under(self, rules: Any, words: Any = None) -> "Batch":
        """The same sentences with only the labellings that satisfy users' rules
        (labelwright.constraints).

        rules : a rule, or a list of them
        words : the sentences, for rules that read them
        """
        from labelwright.answers.ruled import RuledSentence

        def ruled(number: int, sentence: Scored) -> Scored:
            return RuledSentence(sentence, rules, words, self.first + number)

        batch = Batch(
            self._each(ruled, cast(Any, None)), self.first, self.probabilistic, self.calibration
        )
        batch.ruled, batch._maps = True, self._maps
        return batch

    def nbest(
        self, n: int, max_expansions: int | None = None, distinct: str | None = None
    ) -> list[list[tuple[list[str], float]]]:
        """Up to n labellings of each sentence, the best first, with their probabilities (or
        scores).

        n : how many
        max_expansions : limit of the search of a latent model
        distinct : the label that stands for nothing, as in Tagger.predict_nbest
        """
        most = n if distinct is None else min(MOST, max(100, 10 * n))

        def question(number: int, sentence: Scored) -> list[tuple[list[str], float]]:
            if distinct is not None and distinct not in sentence.labels:
                raise OptionError(f"distinct: the tagger has no label {distinct!r}")
            ranked = sentence.best(most, max_expansions)
            if not ranked.codes:
                raise impossible(self.first + number)
            values = [float(weight) for weight in ranked.weights]
            if self.probabilistic:
                values = self._shares(number, ranked)
            labels = sentence.labels
            rows = ([labels[code] for code in codes] for codes in ranked.codes)
            listed = list(zip(rows, values, strict=True))
            return listed if distinct is None else self._distinct(listed, distinct)[:n]

        return self._each(question, [([], 1.0 if self.probabilistic else 0.0)])

    def _distinct(
        self, listed: list[tuple[list[str], float]], null: str
    ) -> list[tuple[list[str], float]]:
        """The first labelling of each output, with the sum of the probabilities of all that give
        it."""
        outputs: dict[str, tuple[list[str], float]] = {}
        for labels, value in listed:
            output = " ".join(JOINED.sub(" ", str(label)) for label in labels if label != null)
            first, total = outputs.get(output, (labels, 0.0 if self.probabilistic else value))
            outputs[output] = first, total + value if self.probabilistic else total
        return sorted(outputs.values(), key=lambda row: -row[1])

    def _shares(self, number: int, ranked: Ranked) -> list[float]:
        """The probabilities of ranked labellings of a sentence."""
        sentence = self.sure.sentences[number]
        assert sentence is not None
        # where rules are soft, their prices count
        as_ranked = self.calibrated is None and not self.ruled
        weights = (
            ranked.weights if as_ranked else [sentence.weight_of(codes) for codes in ranked.codes]
        )
        shares: list[float] = np.exp(np.minimum(0.0, np.array(weights) - sentence.log_z())).tolist()
        return shares

    def _probable(self, question: str) -> "Batch":
        """The batch whose probabilities answer a question."""
        if not self.probabilistic:
            raise OptionError(
                f"{question}: this tagger has scores, not probabilities; ask its `calibrated` batch"
            )
        return self.sure

    def _each_probable(
        self, name: str, question: Callable[["Batch", Scored], R], empty: R
    ) -> list[R]:
        """question(batch, sentence) for every sentence, of the batch whose probabilities users
        see."""
        sure = self._probable(name)

        def asked(number: int, sentence: Scored) -> R:
            sure._check_possible(number, sentence)
            return question(sure, sentence)

        return sure._each(asked, empty)

    def marginals(self) -> list[list[dict[str, float]]]:
        """The probability of every label at every token."""
        return self._each_probable("marginals", Batch._label_rows, [])

    def _label_rows(self, sentence: Scored) -> list[dict[str, float]]:
        rows = self.label_probabilities(sentence).tolist()
        return [dict(zip(sentence.labels, row, strict=True)) for row in rows]

    def label_probabilities(self, sentence: Scored) -> Array:
        """The probability of every label at every token [T, L] of one of the sentences of this
        batch.

        sentence : one of this batch
        """
        rows = sentence.marginals()
        return rows if self._maps is None else self._maps.token_probabilities(rows)

    def spans(self, labellings: Sequence[list[str]]) -> list[list[Span]]:
        """The spans of these labellings, with their probabilities where the tagger has any (and
        rules leave few enough labellings for sums).

        labellings : for each sentence a list of labels
        """
        spans = self.spans_in(labellings)
        if not self.probabilistic:
            return spans
        sure = self.sure
        return sure._each_summed(
            lambda n, sentence: sure._spans_of(n, sentence, spans[n]), lambda n: spans[n], []
        )

    def spans_in(self, labellings: Sequence[list[str]]) -> list[list[Span]]:
        """The spans of these labellings, without a probability.

        labellings : for each sentence a list of labels
        """
        return self._each(lambda n, sentence: sentence.spans_in(labellings[n]), [])

    def entities(self, labellings: Sequence[list[str]]) -> list[list[Span]]:
        """The spans of labellings with their probabilities (or confidences), where there are any;
        labels that make no chunks are one for each token.  Probabilities are missing where rules
        leave too many labellings for sums.

        labellings : for each sentence a list of labels
        """
        sure = self.sure
        labels = next((s.labels for s in sure if s is not None), ())
        if all(map(is_chunk_label, labels)):
            return sure.spans(labellings)
        if not sure.probabilistic:
            return [labelled_spans(row) for row in labellings]

        def question(number: int, sentence: Scored) -> list[Span]:
            sure._check_possible(number, sentence)
            rows = zip(labellings[number], sure._label_rows(sentence), strict=True)
            return [Span(t, t + 1, label, row[label]) for t, (label, row) in enumerate(rows)]

        return sure._each_summed(question, lambda n: labelled_spans(labellings[n]), [])

    def confident(
        self, labellings: Sequence[list[str]], least: float, scheme: str | None = None
    ) -> list[tuple[list[str], list[Span]]]:
        """Labellings without the entities that are less probable (or less confident) than `least`,
        and the entities that are left: tokens of the others are O, or _ where labels make no
        chunks.

        labellings : for each sentence a list of labels
        least : the least probability of an entity
        scheme : that of the labels
        """
        if self.sure.probabilistic:
            self.sure.check_possible()
        return [
            (
                without(labels, spans, least, scheme),
                [span for span in spans if (span.probability or 0.0) >= least],
            )
            for labels, spans in zip(labellings, self.entities(labellings), strict=True)
        ]

    def span_probabilities(self, spans: Sequence[Sequence[Span]]) -> list[list[Span]]:
        """These spans of each sentence, each with the probability that exactly this span is in the
        labelling.

        spans : those of each sentence; the type "PER|ORG" stands for either of the two
        """
        if len(spans) != len(self):
            raise OptionError(
                f"spans: expected one list for each of {len(self)} sentences, got {len(spans)}"
            )
        sure = self._probable("span_probabilities")
        for number, sentence in enumerate(self.sentences):
            if sentence is None and spans[number]:
                span = spans[number][0]
                place = f"sentence {self.first + number}: {span.start}:{span.end}"
                raise OptionError(f"spans: {place} is not a span of 0 tokens")
        return sure._each(lambda n, sentence: sure._spans_of(n, sentence, spans[n]), [])

    def _spans_of(self, number: int, sentence: Scored, spans: Sequence[Span]) -> list[Span]:
        """Spans of one sentence with their probabilities."""
        for span in spans:
            self._check_span(number, sentence, span)
        if spans:
            self._check_possible(number, sentence)
        chances = self.probabilities_of(sentence, spans)
        return [Span(a, b, kind, p) for (a, b, kind, _), p in zip(spans, chances, strict=True)]

    def probabilities_of(self, sentence: Scored, spans: Sequence[Span]) -> list[float]:
        """The probability of exactly each of these spans in one of the sentences of this batch.

        sentence : one of this batch
        spans : spans of it
        """
        types = [types_of(span.type, sentence.span_types) for span in spans]
        several = any(len(kinds) != 1 for kinds in types)
        asked = (
            spans
            if not several
            else [s._replace(type=k) for s, of in zip(spans, types, strict=True) for k in of]
        )
        found = iter(sentence.span_probabilities(asked))
        chances = [min(1.0, max(0.0, sum(islice(found, len(kinds))))) for kinds in types]
        return chances if self._maps is None else list(map(self._maps.span_probability, chances))

    def log_probabilities(self, labellings: Sequence[PartialLabels]) -> list[float]:
        """log P(labelling | sentence) of given labellings; minus infinity for labels that the
        tagger does not know.

        labellings : for each sentence a list of labels; where one is None or a set of labels, the
            answer is about all labellings that agree with what is given
        """
        check_lengths(labellings, [0 if s is None else len(s) for s in self], self.first)
        sure = self._probable("log_probabilities")
        return sure._each(lambda n, sentence: sure._log_probability(sentence, labellings[n]), 0.0)

    def _log_probability(self, sentence: Scored, labels: PartialLabels) -> float:
        """log P of a labelling, or of all that agree with partial labels."""
        if any(isinstance(label, tuple | Mapping) for label in labels):
            raise CorpusError(
                f"y: expected a label, None or a set of labels at every token, got {labels!r}"
            )
        if not self._index:
            self._index = {label: code for code, label in enumerate(sentence.labels)}
        index = self._index
        if any(map(is_partial, labels)):
            permitted = np.zeros((len(labels), len(index)), np.bool_)
            for row, label in zip(permitted, labels, strict=True):
                some = index if label is None else label if is_partial(label) else [label]
                row[[index[each] for each in some if each in index]] = True
            weight = sentence.log_z_of(permitted)
        else:
            codes = [index.get(label, -1) for label in labels]
            weight = -np.inf if -1 in codes else sentence.weight_of(np.array(codes, np.int32))
        return min(0.0, weight - sentence.log_z()) if weight > -np.inf else -np.inf

    def occurrences(self, types: str | Iterable[str]) -> list[float]:
        """The probability that each sentence has at least one span of these types (of labels that
        make no chunks: at least one token with such a label): 1 - P(none).

        types : one type, or several
        """
        wanted = [types] if isinstance(types, str) else list(types)

        def question(_: Batch, sentence: Scored) -> float:
            others = ~labels_with(wanted, sentence.labels)
            without = sentence.log_z_of(np.broadcast_to(others, (len(sentence), len(others))))
            return min(1.0, max(0.0, -float(np.expm1(without - sentence.log_z()))))

        return self._each_probable("occurrences", question, 0.0)

    def entropies(self) -> list[float]:
        """The entropy of all labellings of each sentence in nats; estimated by samples where a
        labelling is the sum of latent paths, exact otherwise."""
        return self._each_probable("entropies", lambda _, sentence: sentence.entropy(), 0.0)

    def token_entropies(self) -> list[Array]:
        """The entropy [T] of the labels of each token of each sentence in nats."""

        def question(batch: Batch, sentence: Scored) -> Array:
            p = batch.label_probabilities(sentence)
            entropies: Array = -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1)
            return entropies

        return self._each_probable("token_entropies", question, np.zeros(0))

    def likely_spans(self, least: float) -> list[list[Span]]:
        """All spans of each sentence that are at least as probable as `least`, with their
        probabilities.

        least : a probability
        """

        def question(batch: Batch, sentence: Scored) -> list[Span]:
            maps = batch._maps
            if maps is None:
                return sentence.likely_spans(least)
            spans = sentence.likely_spans(maps.span_threshold(least))
            return [
                span._replace(probability=maps.span_probability(span.probability or 0.0))
                for span in spans
            ]

        return self._each_probable("likely_spans", question, [])

    def sample(self, n: int, random_state: int | None = 0) -> list[list[tuple[list[str], float]]]:
        """n labellings of each sentence, drawn from their probabilities; equal ones once, with
        their share.

        The draws depend on the scores of the sentence, not on its place among others.

        n : how many
        random_state : the seed
        """

        def question(_: Batch, sentence: Scored) -> list[tuple[list[str], float]]:
            seed = zlib.crc32(np.ascontiguousarray(sentence.fingerprint).data)
            codes = sentence.sample(n, np.random.default_rng([random_state or 0, seed]))
            rows, counts = np.unique(codes, axis=0, return_counts=True)
            labels = np.array(sentence.labels, dtype=object)
            return [
                (labels[row].tolist(), count / n)
                for row, count in zip(rows, counts.tolist(), strict=True)
            ]

        return self._each_probable("sample", question, [([], 1.0)])

    def check_possible(self) -> None:
        """Refuse sentences without any labelling that is allowed, and rules that leave too many for
        sums."""
        self._each(self._check_possible, None)

    # -- checks ------------------------------------------------------------------------------------

    def _check_possible(self, number: int, sentence: Scored) -> None:
        if sentence.log_z() == -np.inf:
            raise impossible(self.first + number)

    def _check_span(self, number: int, sentence: Scored, span: Span) -> None:
        for kind in types_of(span.type, sentence.span_types):
            if kind not in sentence.span_types:
                known = ", ".join(sentence.span_types)
                raise OptionError(f"spans: no type {kind!r} in this model, expected one of {known}")
        if not 0 <= span.start < span.end <= len(sentence):
            place = f"sentence {self.first + number}: {span.start}:{span.end}"
            raise OptionError(f"spans: {place} is not a span of {len(sentence)} tokens")


def joined(batches: Sequence[Batch]) -> Batch:
    """Several batches, one behind the other, as one."""
    sentences = [sentence for batch in batches for sentence in batch]
    probabilistic = all(batch.probabilistic for batch in batches)
    return Batch(
        sentences,
        probabilistic=probabilistic,
        calibration=batches[0].calibration if batches else None,
    )


def without(
    labels: list[str], entities: Sequence[Span], least: float, scheme: str | None
) -> list[str]:
    """Labels without the entities that are less probable than `least`.

    >>> entities = [Span(0, 2, "NP", 0.4), Span(2, 3, "NP", 0.9)]
    >>> without(["I-NP", "I-NP", "B-NP"], entities, 0.5, "iob1")
    ['O', 'O', 'I-NP']
    >>> without(["D", "N"], [Span(0, 1, "D", 0.9), Span(1, 2, "N", 0.3)], 0.5, None)
    ['D', '_']
    """
    gone = [span for span in entities if (span.probability or 0.0) < least]
    if not gone:
        return labels
    if scheme in ("iob1", "ioe1"):  # whose labels depend on their neighbours
        return labels_of([span for span in entities if span not in gone], len(labels), scheme)
    outside = "O" if all(map(is_chunk_label, labels)) else UNDECIDED
    shown = list(labels)
    for span in gone:
        shown[span.start : span.end] = [outside] * (span.end - span.start)
    return shown


# -- sets of labels and types ----------------------------------------------------------------------


def types_of(kind: str, known: Sequence[str]) -> list[str]:
    """The types that one stands for: "PER|ORG" for two, unless a type is so called."""
    return (
        [kind]
        if kind in known or not isinstance(kind, str)
        else list(dict.fromkeys(kind.split("|")))
    )


def labels_with(types: Sequence[str], labels: Sequence[str]) -> Array:
    """Which labels [L] are of these types of chunks, or are these labels where they make no
    chunks."""
    chunks = all(map(is_chunk_label, labels))
    type_of = [split_label(label)[1] if chunks and label != "O" else label for label in labels]
    known = dict.fromkeys(kind for kind in type_of if not chunks or kind != "O")
    for kind in types:
        if kind not in known:
            expected = ", ".join(map(str, known))
            raise OptionError(f"types: no type {kind!r} in this model, expected one of {expected}")
    if not types:
        raise OptionError("types: expected one at least")
    return np.array([kind in types for kind in type_of])


def check_lengths(
    labellings: Sequence[PartialLabels], lengths: Sequence[int], first: int = 0, place: str = "y"
) -> None:
    """Refuse labellings that do not fit sentences of these lengths, of which the first has this
    number; `place` is what errors call them."""
    if len(labellings) != len(lengths):
        raise CorpusError(f"{place}: {len(labellings)} sentences, but X has {len(lengths)}")
    for number, (labels, length) in enumerate(zip(labellings, lengths, strict=True), first):
        if not isinstance(labels, Sized):
            raise CorpusError(
                f"{place}: sentence {number}: expected a list of labels, got {labels!r:.40}"
            )
        if len(labels) != length:
            raise CorpusError(
                f"{place}: sentence {number} has {len(labels)} labels, but X has {length} tokens "
                "there"
            )


# -- what a layer of a cascade passes --------------------------------------------------------------


def passed_by(batch: Batch, labels: tuple[str, ...], cut: float, pairs: bool = True) -> Passed:
    """Every label at least as probable as `cut` and, with `pairs`, the pairs of neighbouring
    ones."""
    batch.check_possible()
    rows = [np.empty((0, len(labels))) if s is None else s.marginals() for s in batch]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    dense = np.concatenate([np.empty((0, len(labels))), *rows])  # [T, L]
    slots = likely(offsets, dense, cut)
    token = np.repeat(np.arange(len(dense)), np.diff(slots.ptr))
    singles = dense[token, slots.label]
    if not pairs:
        return Passed(labels, slots.without_pairs, singles)
    return Passed(labels, slots, np.concatenate([singles, _pairs(batch, slots)]))


def _pairs(batch: Batch, slots: Candidates) -> Array:
    """The probability of every pair of candidates of neighbouring tokens."""
    ptr, sizes = slots.ptr, np.diff(slots.ptr)
    token = np.repeat(np.arange(len(sizes)), np.diff(slots.pair_ptr))
    within = np.arange(len(token)) - (slots.pair_ptr[token] - len(slots.label))
    first = slots.label[ptr[token - 1] + within // sizes[token]]
    second = slots.label[ptr[token] + within % sizes[token]]
    bounds = np.searchsorted(token, slots.offsets)
    probability = np.empty(len(token))
    for n, sentence in enumerate(batch):
        if sentence is not None:
            here = slice(bounds[n], bounds[n + 1])
            arguments = token[here] - slots.offsets[n], first[here], second[here]
            probability[here] = sentence.pair_marginals(*arguments)
    return probability


# -- predicted labels as lists that NumPy takes for arrays of sentences ----------------------------

# Sentences differ in length.  NumPy would refuse lists of such lists, or take those of equal length
# for a table; scikit-learn, which joins and sorts predictions as arrays, needs one element for each
# sentence.


class Labellings(list[list[Any]]):
    """The labels of each sentence: a list of lists, and for NumPy an array [N] of lists.

    >>> predicted = Labellings([["D", "N"], ["V"]])
    >>> predicted == [["D", "N"], ["V"]], np.asarray(predicted).shape
    (True, (2,))
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return array_of(self)


class LayeredLabellings(dict[str, Labellings]):
    """The labels of each sentence by layer; for NumPy an array [N] of sentences, lists with a tuple
    for each token.

    >>> layers = {"pos": Labellings([["D", "N"]]), "chunk": Labellings([["B", "I"]])}
    >>> np.asarray(LayeredLabellings(layers)).tolist()
    [[('D', 'B'), ('N', 'I')]]
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return array_of(
            list(zip(*layers, strict=True)) for layers in zip(*self.values(), strict=True)
        )


def array_of(sentences: Iterable[Any]) -> Array:
    """One element for each sentence [N], whatever their lengths."""
    items = list(sentences)
    return np.fromiter(items, object, count=len(items))
