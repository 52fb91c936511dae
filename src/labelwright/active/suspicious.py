"""Labels of the training data that a model of the other sentences finds improbable: often they are
mistakes."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.active.ranking import chosen_output
from labelwright.answers.batch import Batch, Scored
from labelwright.corpus.partial_labels import is_partial, left_open, written
from labelwright.corpus.spans import Span, labels_of, spans_of
from labelwright.decode.record import check_whole
from labelwright.errors import OptionError
from labelwright.search.folds import parts
from labelwright.search.samples import SearchData, fitted, gold_of, looked_at, without_calibration
from labelwright.taggers.base import CONFIDENCE, PROBABILITY
from labelwright.taggers.estimator import uninterrupted, untrained

Array = NDArray[Any]
UNITS = ("span", "token", "sentence")
LIKELY = 0.01  # alternatives to a span that are less probable are not looked at
HELD_OUT = 10  # one sentence in ten calibrates a model without probabilities


class Doubt(NamedTuple):
    """Something that is annotated, and that the model finds less probable than something else."""

    sentence: int
    probability: float  # of the annotation
    gold: Span | None  # its tokens, and its label or type; None: no span is annotated here
    suggested: Span | None  # what is more probable; None: no span
    suggested_probability: float

    @property
    def score(self) -> float:
        """What doubts are ordered by, the smallest first: the probability of the annotation by
        token (long spans are improbable as such), times that of anything but the suggestion."""
        length = 1 if self.gold is None else self.gold.end - self.gold.start
        return float(self.probability ** (1 / length) * (1.0 - self.suggested_probability))

    @property
    def place(self) -> tuple[int, int]:
        """The tokens that it is about, the end exclusive."""
        spans = [span for span in (self.gold, self.suggested) if span is not None]
        return min(span.start for span in spans), max(span.end for span in spans)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts."""
        gold, suggested = (
            None if span is None else span._asdict() for span in (self.gold, self.suggested)
        )
        numbers = {
            "probability": self.probability,
            "suggested_probability": self.suggested_probability,
        }
        return {"sentence": self.sentence, **numbers, "gold": gold, "suggested": suggested}


class Held(NamedTuple):
    """What a model that has not seen a sentence says of it."""

    labels: list[str]  # the best ones
    # of the annotated label, or set of labels, of each token; None: it is unknown
    probabilities: list[float | None]
    doubts: list[Doubt]


class Doubts(NamedTuple):
    """The doubts about the labels of a corpus, the most doubtful first."""

    by: str  # span, token or sentence
    doubts: list[Doubt]
    sentences: list[Held]  # all sentences in order


class Part(NamedTuple):
    """One fold that is done."""

    n_train: int
    n_test: int
    n_doubts: int
    seconds: float


def doubts(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    by: str | None = None,
    folds: int = 5,
    layer: str | None = None,
    random_state: int | None = 0,
    progress: Callable[[Part], None] | None = None,
) -> Doubts:
    """Labels that are suspicious: a model that is trained on the other folds finds another one more
    probable.

    The model stays as it is.  A tagger without probabilities is calibrated on a tenth of what it is
    trained on.  Labels may be unknown, or sets: the former are never doubted, the latter by the
    probability of the whole set.

    by : span (is exactly this span annotated? and are there others?), token, or sentence (the
        labels as a whole) [span where labels follow a scheme, otherwise token]
    layer : of a cascade, the layer whose labels are looked at [the highest]

    >>> from labelwright import CRF
    >>> X, y = [["the", "dog", "barks"], ["a", "dog", "sings"]] * 10, [["D", "N", "V"]] * 20
    >>> y[3] = ["D", "V", "V"]
    >>> first = doubts(CRF(max_iter=20, n_jobs=1), X, y).doubts[0]
    >>> first.sentence, first.gold.start, first.gold.type, first.suggested.type
    (3, 1, 'V', 'N')
    """
    if by is not None and by not in UNITS:
        raise OptionError(f"by: expected one of {', '.join(UNITS)}, got {by!r}")
    check_whole("folds", folds, 2)
    if not getattr(model, "can", frozenset()) & {PROBABILITY, CONFIDENCE}:
        kind = f"a {type(model).__name__} has no probabilities"
        lacks = model._lacks(PROBABILITY) if hasattr(model, "_lacks") else kind
        raise OptionError(f"model: {lacks}; use another tagger, as a CRF")
    data = looked_at(X, y, least=folds, asker=f"{folds}-fold cross-validation")
    sentences: list[Held | None] = [None] * data.n
    gold: list[list[Any]] = []
    for train, test in parts(data.n, folds, random_state):
        begun = time.monotonic()
        trained = _trained(model, data, train)
        name = chosen_output(trained, layer)
        by = by or ("token" if trained._outputs[name].scheme_ is None else "span")
        gold = gold or left_open(gold_of(data.X, data.y, name))
        annotated = [gold[number] for number in test.tolist()]
        answers = trained._ask_outputs(data.take(test)[0], partial(judged, name, annotated, by))[
            name
        ]
        for number, held in zip(test.tolist(), answers, strict=True):
            sentences[number] = held._replace(
                doubts=[each._replace(sentence=number) for each in held.doubts]
            )
        if progress is not None:
            n_doubts = sum(len(held.doubts) for held in answers)
            progress(Part(len(train), len(test), n_doubts, time.monotonic() - begun))
    done = [held for held in sentences if held is not None]
    listed = sorted(
        (each for held in done for each in held.doubts),
        key=lambda each: (each.score, each.probability),
    )
    return Doubts(by or "token", listed, done)


def _trained(model: Any, data: SearchData, rows: Array) -> Any:
    """The model, trained on these sentences, so that it is sure or calibrated."""
    if PROBABILITY in model.can or not hasattr(model, "calibrate"):
        return uninterrupted(fitted(untrained(model, part=True), *data.take(rows)))
    held_out = rows[::HELD_OUT]
    rest = data.take(np.setdiff1d(rows, held_out))
    trained = uninterrupted(fitted(without_calibration(untrained(model, part=True)), *rest))
    X, y = data.take(held_out)
    return trained.calibrate(X) if y is None else trained.calibrate(X, y)


def judged(
    asked: str, all_gold: Sequence[Sequence[Any]], by: str, name: str, tagger: Any, batch: Batch
) -> list[Held]:
    """What the output that is asked for says of a batch of sentences with gold labels that it has
    not seen."""
    if name != asked:
        return []
    if not tagger._is_sure:
        raise OptionError(f"model: {tagger._lacks(PROBABILITY)}; use another tagger, as a CRF")
    gold = all_gold[batch.first : batch.first + len(batch)]
    sure = batch.sure
    best = [
        record.labels for record in batch.decode(tagger._checked_decoder(None), probabilities=False)
    ]
    spans = sure.likely_spans(LIKELY) if by == "span" else [[]] * len(batch)
    of_sentences = sure.log_probabilities(gold) if by == "sentence" else [0.0] * len(batch)
    answers = []
    for sentence, labels, predicted, likely, log_p in zip(
        sure, gold, best, spans, of_sentences, strict=True
    ):
        if sentence is None:
            answers.append(Held([], [], []))
            continue
        known = Annotated(sentence, list(labels), tagger.scheme_)
        if by == "span":
            doubted = _of_spans(known, likely) + _of_tokens(known, is_partial)
        elif by == "token":
            doubted = _of_tokens(known)
        elif all(known.agrees(t, label) for t, label in enumerate(predicted)):
            doubted = []
        else:  # the labels of the sentence are not the best ones
            p = float(np.exp(log_p))
            doubted = [Doubt(0, p, Span(0, len(known.gold), "", p), None, 0.0)]
        answers.append(Held(predicted, known.probabilities, doubted))
    return answers


class Annotated:
    """A scored sentence with its annotation: for each token a label, a set of labels, or None where
    it is unknown."""

    def __init__(self, sentence: Scored, gold: list[Any], scheme: str | None):
        self.sentence, self.gold, self.scheme = sentence, gold, scheme
        self.rows = sentence.marginals()
        index = {label: code for code, label in enumerate(sentence.labels)}
        self.permitted = np.ones(self.rows.shape, np.bool_)
        for row, label in zip(self.permitted, gold, strict=True):
            if label is not None:
                row[:] = False
                row[[index[each] for each in _members(label) if each in index]] = True
        sums = np.where(self.permitted, self.rows, 0.0).sum(axis=1).tolist()
        self.probabilities = [
            None if label is None else min(1.0, p) for label, p in zip(gold, sums, strict=True)
        ]

    def agrees(self, t: int, label: str) -> bool:
        """May the token have this label, as far as is known?"""
        return self.gold[t] is None or label in _members(self.gold[t])

    def spans(self) -> list[Span]:
        """The spans that are annotated, as far as labels are known."""
        if not any(map(is_partial, self.gold)):
            known = all(label in self.sentence.labels for label in self.gold)
            return self.sentence.spans_in(self.gold) if known else spans_of(self.gold)
        return spans_of(["O" if is_partial(label) else label for label in self.gold])

    def probability(self, span: Span) -> float:
        """That of an annotated span: exactly this one, or, beside tokens that are open, that its
        tokens have these labels."""
        ends = [t for t in (span.start - 1, span.end) if 0 <= t < len(self.gold)]
        if not any(is_partial(self.gold[t]) for t in ends):
            return (
                self.sentence.span_probabilities([span])[0]
                if span.type in self.sentence.span_types
                else 0.0
            )
        permitted = np.ones_like(self.permitted)
        permitted[span.start : span.end] = self.permitted[span.start : span.end]
        return float(np.exp(min(0.0, self.sentence.log_z_of(permitted) - self.sentence.log_z())))

    def excludes(self, span: Span, tokens: Sequence[int]) -> bool:
        """Is the known label of one of these tokens another than its label in this span?"""
        if not any(map(is_partial, self.gold)):
            return True
        labels = labels_of([span._replace(probability=None)], len(self.gold), self.scheme or "iob2")
        return any(not is_partial(self.gold[t]) and self.gold[t] != labels[t] for t in tokens)


def _members(label: Any) -> Any:
    return label if is_partial(label) else (label,)


def _of_tokens(known: Annotated, wanted: Callable[[Any], bool] = lambda label: True) -> list[Doubt]:
    """Tokens with a label, or a set of labels, to which another is preferred."""
    labels, doubted = known.sentence.labels, list[Doubt]()
    best, highest = known.rows.argmax(axis=1).tolist(), known.rows.max(axis=1).tolist()
    for t, (gold, p) in enumerate(zip(known.gold, known.probabilities, strict=True)):
        other = labels[best[t]]
        if p is not None and wanted(gold) and not known.agrees(t, other) and highest[t] > p:
            annotated = Span(t, t + 1, str(written(gold)), p)
            doubted.append(Doubt(0, p, annotated, Span(t, t + 1, other, highest[t]), highest[t]))
    return doubted


def _of_spans(known: Annotated, likely: Sequence[Span]) -> list[Doubt]:
    """Spans to which others, or none, are preferred; and spans that are probable where none is
    annotated."""
    annotated, doubted = known.spans(), list[Doubt]()
    for span in annotated:
        p = known.probability(span)
        within = range(span.start, span.end)
        others = [
            c
            for c in likely
            if _overlap(c, span) and c[:3] != span[:3] and known.excludes(c, within)
        ]
        best = max(others, key=_probability, default=None)
        none = max(0.0, 1.0 - p - sum(map(_probability, others)))  # exact for a span of one token
        preferred = None if best is None or none >= _probability(best) else best
        against = none if preferred is None else _probability(preferred)
        if against > p:
            doubted.append(Doubt(0, p, span._replace(probability=p), preferred, against))
    for span in likely:
        free = not any(_overlap(span, each) for each in annotated)
        if _probability(span) > 0.5 and free and known.excludes(span, range(span.start, span.end)):
            doubted.append(Doubt(0, 1.0 - _probability(span), None, span, _probability(span)))
    # one doubt for each suggestion, which may concern several spans: the least probable
    kept: dict[Any, Doubt] = {}
    for number, each in enumerate(doubted):
        suggestion = each.suggested or number
        if suggestion not in kept or each.score < kept[suggestion].score:
            kept[suggestion] = each
    return list(kept.values())


def _probability(span: Span) -> float:
    return span.probability or 0.0


def _overlap(a: Span, b: Span) -> bool:
    return a.start < b.end and b.start < a.end
