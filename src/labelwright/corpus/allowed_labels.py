"""A dictionary of words and the labels that each may have, for tokens whose label is unknown."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from labelwright.corpus.compressed import read_bytes
from labelwright.corpus.partial_labels import is_set, one_of, sets_among
from labelwright.corpus.table import Corpus, intern_labels
from labelwright.errors import CorpusError, unreadable

Allowed = Mapping[str, Sequence[str] | frozenset[str]]


def read_allowed_labels(path: str | os.PathLike[str]) -> dict[str, frozenset[str]]:
    """A file with a word and its labels on each line, separated by tabs or spaces.

    A word on several lines has the labels of all of them.  Empty lines do not count; there are no comments, since # is
    a word.

    path : of the file, in UTF-8; compressed ones are read, too
    """
    allowed: dict[str, frozenset[str]] = {}
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise unreadable(CorpusError, os.fspath(path), error) from None
    for number, line in enumerate(lines, 1):
        word, *labels = line.split() or [""]
        if not word:
            continue
        if not labels:
            raise CorpusError(f"{os.fspath(path)}:{number}: expected a word and its labels, got only {word!r}")
        allowed[word] = allowed.get(word, frozenset()) | frozenset(labels)
    return allowed


def with_allowed_labels(
    words: Sequence[Sequence[str]], y: Sequence[Sequence[Any]], allowed: Allowed
) -> list[list[Any]]:
    """Labels of which unknown ones are sets where a dictionary knows the word; sets lose what it does not allow.

    words : of each sentence
    y : their labels, some of them None or sets of labels
    allowed : the labels that each word may have

    >>> with_allowed_labels([["the", "can"]], [["D", None]], {"can": ["V"], "the": ["N"]})
    [['D', frozenset({'V'})]]
    """
    distinct = list(dict.fromkeys(label for labels in y for label in labels if not is_set(label)))
    left_open = {value for value, found in zip(distinct, sets_among(distinct), strict=True) if found is not None}
    return [
        [
            _narrowed(one_of(label) or frozenset(), allowed[word], label)
            if word in allowed and (is_set(label) or label in left_open)
            else label
            for word, label in zip(sentence, labels, strict=True)
        ]
        for sentence, labels in zip(words, y, strict=True)
    ]


def allowed_in(corpus: Corpus, allowed: Allowed) -> Corpus:
    """A corpus with the same done to its labels; the words are its first column."""
    assert corpus.label is not None
    y = with_allowed_labels(corpus.column(corpus.input_names[0]), corpus.y, allowed)
    column = intern_labels(list(chain.from_iterable(y)), y, corpus.source)
    place = corpus.names.index(corpus.label)
    return replace(corpus, columns=(*corpus.columns[:place], column, *corpus.columns[place + 1 :]), raw=None)


def _narrowed(members: frozenset[Any], allowed: Sequence[Any] | frozenset[Any], label: Any) -> Any:
    """A set of labels within those that are allowed; as it was where nothing is left."""
    left = frozenset(allowed) & members if members else frozenset(allowed)
    return left or label
