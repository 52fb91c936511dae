"""Unlabelled sentences in the order in which to label them.

How uncertain a tagger is about a sentence is measured in several ways, larger where it is less
sure:

    sequence          H(Y | x), the entropy of all labellings
    sequence-mean     the same, divided by the number of tokens
    token             the mean entropy of the tokens' labels
    token-max         the largest of them
    span              the sum of the binary entropies of all spans: is this an entity, or not?
    least-confidence  1 - P(the best labelling)
    margin            1 - (P(best) - P(second)); of scores without probabilities
                      1 / (1 + best - second)

Settles and Craven (2008), An Analysis of Active Learning Strategies for Sequence Labeling Tasks,
compare most of them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.decode.record import check_whole
from labelwright.errors import OptionError
from labelwright.taggers.base import CONFIDENCE, NBEST, PROBABILITY
from labelwright.wording import did_you_mean

NEGLIGIBLE = 1e-3  # spans that are less probable add next to nothing
WITHOUT_PROBABILITIES = "margin"  # the measure of taggers that have scores alone
Measure = Callable[[Any, Batch], list[float]]
Array = NDArray[Any]


# -- measures --------------------------------------------------------------------------------------


def _sequence_mean(tagger: Any, batch: Batch) -> list[float]:
    lengths = [1 if sentence is None else len(sentence) for sentence in batch]
    return [
        entropy / length for entropy, length in zip(batch.sure.entropies(), lengths, strict=True)
    ]


def _token(tagger: Any, batch: Batch) -> list[float]:
    return [float(tokens.mean()) if len(tokens) else 0.0 for tokens in batch.sure.token_entropies()]


def _span(tagger: Any, batch: Batch) -> list[float]:
    spans = batch.sure.likely_spans(NEGLIGIBLE)
    return [sum(binary_entropy(span.probability or 0.0) for span in sentence) for sentence in spans]


def _least_confidence(tagger: Any, batch: Batch) -> list[float]:
    records = batch.decode(tagger._checked_decoder(None))
    sure = [
        d.confidence if d.log_probability is None else math.exp(d.log_probability) for d in records
    ]
    return [1.0 - (1.0 if p is None else p) for p in sure]


def _margin(tagger: Any, batch: Batch) -> list[float]:
    sure = batch.sure
    margins = [best[0][1] - best[1][1] if len(best) > 1 else None for best in sure.nbest(2)]
    if sure.probabilistic:
        return [0.0 if margin is None else 1.0 - margin for margin in margins]
    return [0.0 if margin is None else 1.0 / (1.0 + margin) for margin in margins]


MEASURES: dict[str, Measure] = {
    "sequence": lambda tagger, batch: batch.sure.entropies(),
    "sequence-mean": _sequence_mean,
    "token": _token,
    "token-max": lambda tagger, batch: [
        float(each.max(initial=0.0)) for each in batch.sure.token_entropies()
    ],
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
    if by not in MEASURES:
        raise OptionError(
            f"by: expected one of {', '.join(MEASURES)}, got {by!r}{did_you_mean(by, MEASURES)}"
        )
    if by == WITHOUT_PROBABILITIES and (tagger._is_sure or NBEST in tagger.can):
        return
    if not tagger._is_sure:
        calibrate = "calibrate it, or " if CONFIDENCE in tagger.can else ""
        raise OptionError(
            f"by: {by!r}: {tagger._lacks(PROBABILITY)}; {calibrate}use by={WITHOUT_PROBABILITIES!r}"
        )
    if by == "span" and tagger.scheme_ is None:
        raise OptionError(
            "by: 'span': the labels make no spans (B-X, I-X, O, ...); use by='token' or "
            "by='sequence'"
        )


# -- sentences unlike each other -------------------------------------------------------------------


def diverse_order(
    scores: Sequence[float], bags: Sequence[Iterable[str]], top: int | None = None
) -> list[int]:
    """The numbers of items, greedily: next comes the largest score x (1 - largest cosine with an
    item before it).

    bags : the words of each item, which count by their inverse document frequency

    >>> diverse_order([3.0, 2.9, 2.0], [["a", "b"], ["a", "b"], ["c"]])
    [0, 2, 1]
    """
    weights, similar = _Vectors(bags), np.zeros(len(scores))
    worth, waiting = np.array(scores, np.float64), np.ones(len(scores), np.bool_)
    order = list[int]()
    for _ in range(len(scores) if top is None else min(top, len(scores))):
        chosen = int(np.argmax(np.where(waiting, worth * (1.0 - similar), -np.inf)))
        order.append(chosen)
        waiting[chosen] = False
        np.maximum(similar, weights.cosines(chosen), out=similar)
    return order


class _Vectors:
    """Sparse vectors of length 1, by item and by word."""

    def __init__(self, bags: Sequence[Iterable[str]]):
        index: dict[str, int] = {}
        rows = [
            np.unique([index.setdefault(word, len(index)) for word in bag]).astype(np.int64)
            for bag in bags
        ]
        self.ptr = offsets_from(np.array([len(row) for row in rows], np.int64))
        self.word = np.concatenate([np.zeros(0, np.int64), *rows])
        item = np.repeat(np.arange(len(rows)), np.diff(self.ptr))
        counts = np.bincount(self.word, minlength=len(index))
        weight = np.log((1.0 + len(rows)) / counts[self.word])
        self.weight = weight / np.sqrt(np.bincount(item, weight**2, len(rows)))[item]
        order = np.argsort(self.word, kind="stable")
        self.item_of, self.weight_of, self.begin = (
            item[order],
            self.weight[order],
            offsets_from(counts),
        )

    def cosines(self, n: int) -> Array:
        """The cosine of item n with every item [N]."""
        sums = np.zeros(len(self.ptr) - 1)
        for k in range(*self.ptr[n : n + 2].tolist()):
            a, b = self.begin[self.word[k] : self.word[k] + 2].tolist()
            sums[self.item_of[a:b]] += self.weight[k] * self.weight_of[a:b]
        return np.minimum(sums, 1.0)


def bags_of(X: Any) -> list[list[str]]:
    """The words of each sentence in lower case; of feature dicts the features."""
    if isinstance(X, Corpus):
        return [[word.lower() for word in sentence] for sentence in X.column(X.input_names[0])]
    if not isinstance(X, Sequence):
        raise OptionError("diverse: compares words; give sentences or a corpus, not encoded data")
    return [[feature for token in sentence for feature in _features(token)] for sentence in X]


def _features(token: Any) -> list[str]:
    if isinstance(token, Mapping):
        return [f"{name}={value}" for name, value in token.items()]
    word = token[0] if isinstance(token, list | tuple) and token else token
    if not isinstance(word, str):
        raise OptionError(
            "diverse: compares words or feature dicts, and these sentences have neither; leave it "
            "out"
        )
    return [word.lower()]


# -- the order -------------------------------------------------------------------------------------


class RankedSentence(NamedTuple):
    """A sentence that is to be labelled, with what the tagger would say."""

    sentence: int  # its number among those that were given
    score: float  # how uncertain the tagger is, by the measure that was asked for
    labels: list[str]


def rank(
    model: Any,
    X: Any,
    by: str = "sequence",
    *,
    top: int | None = None,
    diverse: bool = False,
    layer: str | None = None,
) -> list[RankedSentence]:
    """The sentences of X in the order in which to label them, the most uncertain first; those
    without tokens are left out.

    by : the measure of uncertainty, one of labelwright.active.MEASURES
    top : how many; None: all
    diverse : each sentence shall also be unlike those before it (by its words): uncertainty x
        dissimilarity
    layer : of a cascade, the layer that is asked [the highest]

    >>> from labelwright import CRF
    >>> crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
    >>> [(each.sentence, each.labels) for each in rank(crf, [["he"], ["his", "sister"]])]
    [(1, ['B', 'I']), (0, ['B'])]
    """
    if top is not None:
        check_whole("top", top, 1)
    X, asked = listed(X), chosen_output(model, layer)
    check_measure(model._outputs[asked], by)
    bags = bags_of(X) if diverse else []

    def question(name: str, tagger: Any, batch: Batch) -> list[tuple[float, list[str]]]:
        if name != asked:
            return []
        labels = [d.labels for d in batch.decode(tagger._default_decoder, probabilities=False)]
        return list(zip(MEASURES[by](tagger, batch), labels, strict=True))

    answers = model._ask_outputs(X, question)[asked]
    items = [
        RankedSentence(n, score, labels) for n, (score, labels) in enumerate(answers) if labels
    ]
    if diverse:
        order = diverse_order(
            [item.score for item in items], [bags[item.sentence] for item in items], top
        )
        return [items[n] for n in order]
    return sorted(items, key=lambda item: -item.score)[:top]


def chosen_output(model: Any, layer: str | None) -> str:
    """The output of a model that is asked: a layer of a cascade, by default the highest; other
    taggers have one."""
    if not hasattr(model, "_ask_outputs"):
        raise OptionError(f"model: expected a tagger of sentences, got {type(model).__name__}")
    names = list(model._outputs)
    if layer is None:
        return str(names[-1])
    if layer not in names or not layer:
        known = f"expected one of {', '.join(names)}" if names[0] else "this model has no layers"
        raise OptionError(f"layer: got {layer!r}, {known}")
    return layer
