"""Sentences of which only some spans are marked: what is known of the labels of all their tokens."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from labelwright.corpus.partial_labels import known_labels
from labelwright.corpus.schemes import allowed, boundaries, detect_scheme
from labelwright.corpus.table import Corpus, intern_labels
from labelwright.errors import CorpusError

OUTSIDE = "O"


def unmarked_unknown(y: Sequence[Sequence[str]], source: str = "y") -> list[list[Any]]:
    """Labels of which only those of the marked spans are sure: O becomes the set of all labels, next to a span the set
    of those that do not continue it.

    y : labels of each sentence in a scheme: B-PER, I-PER, O, ...; those that are unknown or sets stay as they are
    source : what errors begin with

    >>> [[_, _, after, last]] = unmarked_unknown([["B-PER", "I-PER", "O", "O"]])
    >>> sorted(after), sorted(last)
    (['B-PER', 'O'], ['B-PER', 'I-PER', 'O'])
    """
    sentences = [list(labels) for labels in y]
    known = [known_labels(labels) for labels in sentences]
    single = dict.fromkeys(label for labels in known for label in labels if label is not None)
    labels = list(dict.fromkeys([OUTSIDE, *single]))
    scheme = detect_scheme(labels, [[label or OUTSIDE for label in labels] for labels in known])
    if scheme is None or len(labels) == 1:
        raise CorpusError(f"{source}: no spans are marked (B-X, I-X, O, ...), so there is nothing to learn from")
    number = {label: code for code, label in enumerate(labels)}
    apart = _apart(labels, scheme)
    return [
        [given if label is None else label for given, label in zip(*both, strict=True)]
        for both in zip(sentences, (_opened(sentence, labels, number, apart) for sentence in known), strict=True)
    ]


def with_unmarked_unknown(corpus: Corpus) -> Corpus:
    """A corpus with the same done to its labels."""
    assert corpus.label is not None
    opened = unmarked_unknown(corpus.y, corpus.source)
    column = intern_labels(list(chain.from_iterable(opened)), opened, corpus.source)
    place = corpus.names.index(corpus.label)
    return replace(corpus, columns=(*corpus.columns[:place], column, *corpus.columns[place + 1 :]), raw=None)


def _apart(labels: list[str], scheme: str) -> np.ndarray:
    """Whether label j may follow label i and does not continue its span [L, L]."""
    n, table = len(labels), boundaries(labels)
    inside = table.type_of[:n] >= 0
    return np.asarray(allowed(labels, scheme).arc & (table.starts[:n, :n] | ~inside[None, :]))


def _opened(sentence: list[Any], labels: list[str], number: dict[str, int], apart: np.ndarray) -> list[Any]:
    """The labels of a sentence, None where they are not known, with those outside of spans left open."""
    opened: list[Any] = list(sentence)
    for t, label in enumerate(sentence):
        if label != OUTSIDE:
            continue
        possible = np.ones(len(labels), np.bool_)
        if t > 0 and sentence[t - 1] not in (None, OUTSIDE):
            possible &= apart[number[sentence[t - 1]]]
        if t + 1 < len(sentence) and sentence[t + 1] not in (None, OUTSIDE):
            possible &= apart[:, number[sentence[t + 1]]]
        opened[t] = frozenset(labels[k] for k in np.flatnonzero(possible))
    return opened
