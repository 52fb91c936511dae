"""The labels of lower layers of a cascade as further columns, which memories compare like all others."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Column, Corpus, compacted
from labelwright.errors import OptionError
from labelwright.features.extract import kind_of
from labelwright.structures.passing import Layered, Passed


def with_label_columns(X: Any) -> Any:
    """What an upper layer reads as plain input: behind the columns, one for each lower layer (or a key of feature
    dicts), with the most probable label of each token."""
    if not isinstance(X, Layered):
        return X
    kind = kind_of(X.X)
    if kind == "arrays":
        raise OptionError("X: a memory cannot compare arrays of numbers with labels below; use a CRF as this layer")
    best = {name: _best(passed) for name, passed in X.passed.items()}
    if kind == "dicts":
        return _with_keys(X.X, {name: [column.values[code] for code in column.codes] for name, column in best.items()})
    corpus = X.X if isinstance(X.X, Corpus) else Corpus.from_sequences(X.X)
    return replace(corpus, names=(*corpus.names, *best), columns=(*corpus.columns, *best.values()), raw=None)


def _best(passed: Passed) -> Column:
    """The most probable label of every token."""
    slots = passed.candidates
    token = np.repeat(np.arange(len(slots.ptr) - 1), np.diff(slots.ptr))
    first = np.lexsort((-passed.probability[: len(slots.label)], token))  # of each token, the most probable first
    codes: NDArray[np.int32] = slots.label[first[slots.ptr[:-1]]]
    return compacted([str(label) for label in passed.labels], codes)


def _with_keys(X: Any, labels: dict[str, list[str]]) -> list[list[dict[Any, Any]]]:
    made, t = [], 0
    for sentence in X:
        made.append([token | {name: row[i] for name, row in labels.items()} for i, token in enumerate(sentence, t)])
        t += len(sentence)
    return made
