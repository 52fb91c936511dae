"""How uncertain a tagger is about a sentence: one measure for each way to ask, larger where it is less sure.

    sequence          H(Y | x), the entropy of all labellings
    sequence-mean     the same, divided by the number of tokens
    token             the mean entropy of the tokens' labels
    token-max         the largest of them
    span              the sum of the binary entropies of all spans: is this an entity, or not?
    least-confidence  1 - P(the best labelling)
    margin            1 - (P(best) - P(second)); of scores without probabilities 1 / (1 + best - second)

Settles and Craven (2008), An Analysis of Active Learning Strategies for Sequence Labeling Tasks, compare most of them.
"""

import math
from collections.abc import Callable
from typing import Any

from labelwright.answers.batch import Batch
from labelwright.errors import OptionError
from labelwright.taggers.base import CONFIDENCE, NBEST, PROBABILITY

NEGLIGIBLE = 1e-3  # spans that are less probable add next to nothing
WITHOUT_PROBABILITIES = "margin"  # the measure of taggers that have scores alone

Measure = Callable[[Any, Batch], list[float]]


def _sequence(tagger: Any, batch: Batch) -> list[float]:
    return batch.sure.entropies()


def _sequence_mean(tagger: Any, batch: Batch) -> list[float]:
    lengths = [1 if sentence is None else len(sentence) for sentence in batch]
    return [entropy / length for entropy, length in zip(batch.sure.entropies(), lengths, strict=True)]


def _token(tagger: Any, batch: Batch) -> list[float]:
    return [float(tokens.mean()) if len(tokens) else 0.0 for tokens in batch.sure.token_entropies()]


def _token_max(tagger: Any, batch: Batch) -> list[float]:
    return [float(tokens.max(initial=0.0)) for tokens in batch.sure.token_entropies()]


def _span(tagger: Any, batch: Batch) -> list[float]:
    spans = batch.sure.likely_spans(NEGLIGIBLE)
    return [sum(binary_entropy(span.probability or 0.0) for span in sentence) for sentence in spans]


def _least_confidence(tagger: Any, batch: Batch) -> list[float]:
    records = batch.decode(tagger._checked_decoder(None))
    sure = [d.confidence if d.log_probability is None else math.exp(d.log_probability) for d in records]
    return [1.0 - (1.0 if p is None else p) for p in sure]


def _margin(tagger: Any, batch: Batch) -> list[float]:
    sure = batch.sure
    margins = [best[0][1] - best[1][1] if len(best) > 1 else None for best in sure.nbest(2)]
    if sure.probabilistic:
        return [0.0 if margin is None else 1.0 - margin for margin in margins]
    return [0.0 if margin is None else 1.0 / (1.0 + margin) for margin in margins]


MEASURES: dict[str, Measure] = {
    "sequence": _sequence,
    "sequence-mean": _sequence_mean,
    "token": _token,
    "token-max": _token_max,
    "span": _span,
    "least-confidence": _least_confidence,
    WITHOUT_PROBABILITIES: _margin,
}


def binary_entropy(p: float) -> float:
    """The entropy of yes or no in nats.

    >>> binary_entropy(1.0), round(binary_entropy(0.5), 3)
    (0.0, 0.693)
    """
    return sum((-q * math.log(q) for q in (p, 1.0 - p) if q > 0), 0.0)


def check_measure(tagger: Any, by: str) -> None:
    """Refuse a measure that there is not, or that this tagger has no answer to."""
    from labelwright.wording import did_you_mean

    if by not in MEASURES:
        raise OptionError(f"by: expected one of {', '.join(MEASURES)}, got {by!r}{did_you_mean(by, MEASURES)}")
    if by == WITHOUT_PROBABILITIES and (tagger._is_sure or NBEST in tagger.can):
        return
    if not tagger._is_sure:
        calibrate = "calibrate it, or " if CONFIDENCE in tagger.can else ""
        raise OptionError(f"by: {by!r}: {tagger._lacks(PROBABILITY)}; {calibrate}use by={WITHOUT_PROBABILITIES!r}")
    if by == "span" and tagger.scheme_ is None:
        raise OptionError("by: 'span': the labels make no spans (B-X, I-X, O, ...); use by='token' or by='sequence'")
