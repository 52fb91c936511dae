"""Corpora from data frames of pandas or Polars, or tables of pyarrow: one row for each token."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from labelwright.corpus.table import Corpus, check_label, check_names, intern_labels, intern_values
from labelwright.corpus.tabular import column_of, columns_in, is_frame, is_missing, text_column
from labelwright.errors import CorpusError


def read_frame(
    frame: Any,
    sentence: str | Sequence[str] = "sentence_id",
    label: str | None = None,
    columns: Sequence[str] | None = None,
    source: str = "frame",
) -> Corpus:
    """Make a corpus from a frame with a row for each token, in order.

    frame : of pandas or Polars, or a table of pyarrow
    sentence : the column that says to which sentence a row belongs, or several (document and sentence)
    label : the column with the labels
    columns : those that are read beside the label; by default all others
    source : what messages call the frame
    """
    if not is_frame(frame):
        kind = type(frame).__name__
        raise CorpusError(f"{source}: expected a data frame of pandas or Polars, or a table of pyarrow, got {kind}")
    keys = [sentence] if isinstance(sentence, str) else list(sentence)
    offsets = _offsets([column_of(frame, key, source) for key in keys], keys, source)
    present = [name for name in columns_in(frame) if name not in keys]
    check_label(label, present, source)
    names = [name for name in (present if columns is None else columns) if name != label]
    check_names(list(map(str, names)), len(names), source)
    texts = [text_column(column_of(frame, name, source), f"{source}: column {name}", "row") for name in names]
    sentences = [range(b - a) for a, b in pairwise(offsets.tolist())]
    read = [intern_values(column, sentences, source) for column in texts]
    if label is not None:
        values = [None if is_missing(value) else value for value in column_of(frame, label, source)]
        read.append(intern_labels(values, sentences, source))
        names.append(label)
    return Corpus(tuple(map(str, names)), tuple(read), offsets, label, source)


def _offsets(ids: list[list[Any]], keys: list[str], source: str) -> np.ndarray:
    """Where sentences begin [N+1]: where the values of these columns change."""
    rows = list(zip(*ids, strict=True))
    if not rows:
        raise CorpusError(f"{source}: got no rows, expected one for each token")
    starts: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows):
        for key, value in zip(keys, row, strict=True):
            if is_missing(value):
                raise CorpusError(f"{source}: row {number} has no {key!r}; fill it down, as in frame[{key!r}].ffill()")
        if number and row == rows[number - 1]:
            continue
        if row in starts:
            name = ", ".join(map(str, row))
            raise CorpusError(
                f"{source}: sentence {name} begins at row {starts[row]} and again at row {number}; sort the rows by "
                "it, or name all columns that tell sentences apart: sentence=[...]"
            )
        starts[row] = number
    return np.array([*starts.values(), len(rows)], np.int64)
