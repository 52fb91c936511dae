"""What is known of labels beside the labels: dictionaries of what words may have, spans of which
only some are marked, and weights of sentences and tokens."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from labelwright.corpus.compressed import decoded, read_bytes
from labelwright.corpus.labels import place_of
from labelwright.corpus.partial_labels import is_set, known_labels, meanings
from labelwright.corpus.schemes import allowed, boundaries, detect_scheme
from labelwright.corpus.table import Corpus, intern_labels
from labelwright.errors import CorpusError, OptionError

Allowed = Mapping[str, Sequence[str] | frozenset[str]]


def read_allowed_labels(path: str | os.PathLike[str]) -> dict[str, frozenset[str]]:
    """A file with a word and its labels on each line, separated by tabs or spaces.

    A word on several lines has the labels of all of them.  Empty lines do not count; there are no
    comments, since # is a word.

    path : of the file, in UTF-8; compressed ones are read, too
    """
    allowed: dict[str, frozenset[str]] = {}
    text = decoded(read_bytes(path), os.fspath(path)).removeprefix("\ufeff")
    for number, line in enumerate(text.splitlines(), 1):
        word, *labels = line.split() or [""]
        if not word:
            continue
        if not labels:
            raise CorpusError(
                f"{os.fspath(path)}:{number}: expected a word and its labels, got only {word!r}"
            )
        allowed[word] = allowed.get(word, frozenset()) | frozenset(labels)
    return allowed


def with_allowed_labels(
    words: Sequence[Sequence[str]], y: Sequence[Sequence[Any]], allowed: Allowed
) -> list[list[Any]]:
    """Labels of which unknown ones are sets where a dictionary knows the word; sets lose what it
    does not allow.

    words : of each sentence
    y : their labels, some of them None or sets of labels
    allowed : the labels that each word may have

    >>> with_allowed_labels([["the", "can"]], [["D", None]], {"can": ["V"], "the": ["N"]})
    [['D', frozenset({'V'})]]
    """
    members = meanings(chain.from_iterable(y))

    def narrowed(word: str, label: Any) -> Any:
        """What is allowed of a set of labels; as it was where nothing is left."""
        several = frozenset(label) if is_set(label) else members[label]
        if several is None or word not in allowed:
            return label
        of_word = frozenset(allowed[word])
        return (of_word & several if several else of_word) or label

    return [list(map(narrowed, *pair)) for pair in zip(words, y, strict=True)]


def allowed_in(corpus: Corpus, allowed: Allowed) -> Corpus:
    """A corpus with the same done to its labels; the words are its first column."""
    return _relabelled(
        corpus, with_allowed_labels(corpus.column(corpus.input_names[0]), corpus.y, allowed)
    )


def _relabelled(corpus: Corpus, y: list[list[Any]]) -> Corpus:
    column = intern_labels(list(chain.from_iterable(y)), y, corpus.source)
    columns = [
        column if name == corpus.label else old
        for name, old in zip(corpus.names, corpus.columns, strict=True)
    ]
    return replace(corpus, columns=tuple(columns), raw=None)


# -- sentences of which only some spans are marked: what is known of the labels of all their tokens

OUTSIDE = "O"


def unmarked_unknown(y: Sequence[Sequence[str]], source: str = "y") -> list[list[Any]]:
    """Labels of which only those of the marked spans are sure: O becomes the set of all labels,
    next to a span the set of those that do not continue it.

    y : labels of each sentence in a scheme: B-PER, I-PER, O, ...; those that are unknown or sets
        stay as they are
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
        raise CorpusError(
            f"{source}: no spans are marked (B-X, I-X, O, ...), so there is nothing to learn from"
        )
    number = {label: code for code, label in enumerate(labels)}
    n, table = len(labels), boundaries(labels)
    outside = table.type_of[:n] < 0
    # [L, L] j follows i in no span
    apart = allowed(labels, scheme).arc & (table.starts[:n, :n] | outside[None, :])
    opened = []
    for given, sentence in zip(sentences, known, strict=True):
        codes = [-1 if label in (None, OUTSIDE) else number[label] for label in sentence]
        row: list[Any] = list(given)
        for t in (t for t, label in enumerate(sentence) if label == OUTSIDE):
            possible = np.ones(n, np.bool_)
            if t > 0 and codes[t - 1] >= 0:
                possible &= apart[codes[t - 1]]
            if t + 1 < len(codes) and codes[t + 1] >= 0:
                possible &= apart[:, codes[t + 1]]
            row[t] = frozenset(labels[k] for k in np.flatnonzero(possible))
        opened.append(row)
    return opened


def with_unmarked_unknown(corpus: Corpus) -> Corpus:
    """A corpus with the same done to its labels."""
    return _relabelled(corpus, unmarked_unknown(corpus.y, corpus.source))


# -- weights of sentences and of tokens in a column of a corpus ------------------------------------


class Weighted(NamedTuple):
    """A corpus without its column of weights, and the weights as `fit(sample_weight=...)` takes
    them."""

    corpus: Corpus
    sample_weight: list[Any]  # [N]  a number, or a list of numbers


def weighted(corpus: Corpus, *, sentence: str | None = None, token: str | None = None) -> Weighted:
    """Take a column of weights out of a corpus, so that it is no feature.

    corpus : with the column
    sentence : the column with the weight of the sentence, the same at all its tokens
    token : the column with the weight of each token; one of the two

    >>> sentences = [[("a", "2"), ("b", "2")], [("c", "1")]]
    >>> corpus = Corpus.from_sequences(sentences, [["N", "V"], ["N"]])
    >>> rest, weights = weighted(corpus, sentence="pos")
    >>> rest.names, weights
    (('word', 'label'), [2.0, 1.0])
    """
    name = sentence if token is None else token
    if name is None or (sentence is not None and token is not None):
        raise OptionError(
            "weighted: name a column with weights of sentences, or one with weights of tokens"
        )
    values = [_weight(corpus, name, code, text) for code, text in enumerate(corpus.values(name))]
    numbers = np.array(values)[corpus.codes(name)].tolist()
    rest = [other for other in corpus.names if other != name]
    if name == corpus.label or not [other for other in rest if other != corpus.label]:
        raise CorpusError(
            f"{corpus.source}: column {name} is the label or the only column; name one with weights"
        )
    weights: list[Any] = [numbers[a:b] for a, b in pairwise(corpus.offsets.tolist())]
    for number, of_tokens in enumerate(weights if token is None else ()):
        distinct = sorted(set(of_tokens))
        if len(distinct) > 1:
            raise CorpusError(
                f"{corpus.source}: sentence {number}: column {name} has the weights "
                f"{distinct[0]:g} and {distinct[1]:g}; give all tokens of a sentence the same, or "
                "use it as the weights of tokens"
            )
        weights[number] = distinct[0] if distinct else 1.0  # it may have no tokens
    return Weighted(corpus.select(rest), weights)


def _weight(corpus: Corpus, name: str, code: int, text: str) -> float:
    """The number that a value of a column is."""
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not 0 <= value < np.inf:
        place = place_of(int(np.argmax(corpus.codes(name) == code)), corpus.offsets)
        raise CorpusError(
            f"{corpus.source}: {place}: column {name}: expected a number of 0 or more, got {text!r}"
        )
    return value
