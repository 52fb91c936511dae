"""Weights of sentences and of tokens in a column of a corpus."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, OptionError


class Weighted(NamedTuple):
    """A corpus without its column of weights, and the weights as `fit(sample_weight=...)` takes them."""

    corpus: Corpus
    sample_weight: list[Any]  # [N]  a number, or a list of numbers


def weighted(corpus: Corpus, *, sentence: str | None = None, token: str | None = None) -> Weighted:
    """Take a column of weights out of a corpus, so that it is no feature.

    corpus : with the column
    sentence : the column with the weight of the sentence, the same at all its tokens
    token : the column with the weight of each token; one of the two

    >>> corpus = Corpus.from_sequences([[("a", "2"), ("b", "2")], [("c", "1")]], [["N", "V"], ["N"]])
    >>> rest, weights = weighted(corpus, sentence="pos")
    >>> rest.names, weights
    (('word', 'label'), [2.0, 1.0])
    """
    name = sentence if token is None else token
    if name is None or (sentence is not None and token is not None):
        raise OptionError("weighted: name a column with weights of sentences, or one with weights of tokens")
    numbers = _numbers(corpus, name)
    rest = [other for other in corpus.names if other != name]
    if name == corpus.label or not [other for other in rest if other != corpus.label]:
        raise CorpusError(f"{corpus.source}: column {name} is the label or the only column; name one with weights")
    by_sentence = [numbers[a:b].tolist() for a, b in pairwise(corpus.offsets.tolist())]
    weights = by_sentence if token is not None else [_agreed(x, n, name, corpus) for n, x in enumerate(by_sentence)]
    return Weighted(corpus.select(rest), weights)


def _numbers(corpus: Corpus, name: str) -> np.ndarray:
    """The numbers [T] in a column."""
    values = []
    for code, text in enumerate(corpus.values(name)):
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not 0 <= value < np.inf:
            token = int(np.argmax(corpus.codes(name) == code))
            sentence = int(np.searchsorted(corpus.offsets, token, side="right")) - 1
            place = f"sentence {sentence}, token {token - int(corpus.offsets[sentence])}: column {name}"
            raise CorpusError(f"{corpus.source}: {place}: expected a number of 0 or more, got {text!r}")
        values.append(value)
    return np.asarray(np.array(values)[corpus.codes(name)])


def _agreed(weights: list[float], number: int, name: str, corpus: Corpus) -> float:
    """The weight that all tokens of a sentence have; 1 for one without tokens."""
    if len(set(weights)) > 1:
        first, other = sorted(set(weights))[:2]
        raise CorpusError(
            f"{corpus.source}: sentence {number}: column {name} has the weights {first:g} and {other:g}; give all "
            "tokens of a sentence the same, or use it as the weights of tokens"
        )
    return weights[0] if weights else 1.0
