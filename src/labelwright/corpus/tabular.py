"""Sentences given as tables, a row for each token: data frames (pandas, Polars, pyarrow) and arrays
of strings.

None of these packages is imported: a frame is known by what it offers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labelwright.errors import CorpusError
from labelwright.wording import shown


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, or a table of pyarrow."""
    return hasattr(X, "columns") and (hasattr(X, "to_numpy") or hasattr(X, "to_pylist"))


def columns_in(frame: Any) -> list[Any]:
    """What the columns of a data frame are called: words, or numbers."""
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def frame_names(X: Any) -> list[str] | None:
    """What the columns of a data frame are called, where they are words."""
    names = columns_in(X) if is_frame(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def column_of(frame: Any, name: str, place: str = "frame") -> list[Any]:
    """The values of a column of a frame."""
    if name not in columns_in(frame):
        raise CorpusError(
            f"{place}: no column {name!r}, expected one of {', '.join(map(str, columns_in(frame)))}"
        )
    column = frame[name]
    values: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    return values


def is_missing(value: Any) -> bool:
    """Is it None, not a number, or pandas.NA, which is neither equal nor unequal to itself?"""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def text_column(values: Sequence[Any], place: str, row_name: str = "token") -> list[str]:
    """A column of cells as strings: whole numbers and truth values are read, too; `place` is what
    an error begins with, `row_name` what it calls a row."""
    for row, value in enumerate(values):
        if not isinstance(value, str | bool | int | np.bool_ | np.integer):
            got = f"expected a string, got {shown(value)} ({type(value).__name__})"
            if is_missing(value):
                got = (
                    "has no value; fill it, or read the file with keep_default_na=False where NA, "
                    "null or nan are words"
                )
            elif isinstance(value, float | np.floating):
                got += "; give features that are numbers as arrays or in dicts"
            raise CorpusError(f"{place}, {row_name} {row}: {got}")
    return list(map(str, values))


def frame_columns(
    frame: Any, names: Sequence[str] | None = None, place: str = "frame"
) -> list[list[Any]]:
    """The values of these columns, or of all (their names may be numbers, or occur twice)."""
    if names is not None:
        return [column_of(frame, name, place) for name in names]
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, i].to_list() for i in range(len(frame.columns))]
    return [column_of(frame, name, place) for name in columns_in(frame)]


def table_rows(sentence: Any, names: Sequence[str] | None, place: str) -> Any:
    """A sentence that is a table as a list of tuples of strings, those of the columns `names` of a
    frame; any other sentence as it is."""
    if is_frame(sentence):
        columns = frame_columns(sentence, names, place)
    elif isinstance(sentence, np.ndarray) and sentence.ndim == 2 and sentence.dtype.kind in "UOT":
        columns = sentence.T.tolist()
    else:
        return sentence
    called = names or range(len(columns))
    texts = [
        text_column(column, f"{place}, column {name}")
        for name, column in zip(called, columns, strict=True)
    ]
    return list(zip(*texts, strict=True))
