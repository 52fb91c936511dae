"""Instances as rows of value codes, every column interned once; and their classes, distinct and
numbered."""

import sys
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import compacted
from labelwright.corpus.tabular import is_frame, is_missing
from labelwright.errors import CorpusError
from labelwright.parallel import computed_once

Array = NDArray[Any]

NAN = float("nan")


class Instances(NamedTuple):
    """M instances of F columns."""

    # [F]  distinct values of each column, in order of first appearance
    values: tuple[list[Any], ...]
    codes: Array  # [M, F] int32  index into values; -1 where a value is missing


def instances(X: Any, source: str = "X") -> Instances:
    """Number the values of each column of a table, a list of rows or an array.

    >>> instances([["a", 1], ["b", 1], ["a", 2]]).codes.tolist()
    [[0, 0], [1, 0], [0, 1]]
    """
    numbered = [_numbered(column, source, i) for i, column in enumerate(_columns_of(X, source))]
    codes = np.stack([column for _, column in numbered], axis=1)
    return Instances(tuple(values for values, _ in numbered), np.ascontiguousarray(codes))


def _columns_of(X: Any, source: str) -> list[Sequence[Any]]:
    """The columns [F] of a table of at least one row; a column of numbers stays an array.
    scikit-learn's checks look for some of the words of errors."""
    if hasattr(X, "toarray"):
        raise CorpusError(
            f"{source}: expected rows of values, got a sparse matrix; give X.toarray()"
        )
    if is_frame(X):
        X = X.to_numpy()
    elif hasattr(X, "__array__"):
        X = np.asarray(X)
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise CorpusError(
            f"{source}: expected rows of values, one for each instance, got {type(X).__name__}"
        )
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise CorpusError(
                f"{source}: expected a table (2 dimensions), got {X.ndim}. Reshape your data: use "
                "X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a single row"
            )
        for what, n in zip(("sample", "feature"), X.shape, strict=True):
            if n == 0:
                raise CorpusError(
                    f"{source}: expected at least one instance and one column, got 0 {what}(s) "
                    f"(shape={X.shape}) while a minimum of 1 is required of both"
                )
        if X.dtype.kind == "c":
            raise CorpusError(
                f"{source}: Complex data not supported; give two columns, X.real and X.imag"
            )
        return list(X.T) if X.dtype.kind in "fiub" else [column.tolist() for column in X.T]
    if len(X) == 0:
        raise CorpusError(f"{source}: expected at least one instance, got none")
    widths = [
        len(row) if hasattr(row, "__len__") and not isinstance(row, str | bytes) else -1
        for row in X
    ]
    row = next((n for n, width in enumerate(widths) if width != widths[0] or width < 1), None)
    if row is not None:
        came = widths[row] if widths[row] >= 0 else f"a {type(X[row]).__name__}"
        raise CorpusError(
            f"{source}: instance {row}: expected {widths[0] if row else 'some'} columns, got {came}"
        )
    return [list(column) for column in zip(*X, strict=True)]


def _numbered(column: Sequence[Any], source: str, number: int) -> tuple[list[Any], Array]:
    """The distinct values of a column in order of first appearance, and the number of each
    instance's value."""
    if isinstance(column, np.ndarray):
        distinct, first, inverse = np.unique(column, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return distinct[order].tolist(), rank[inverse.reshape(-1)]
    try:
        index = {value: i for i, value in enumerate(dict.fromkeys(column))}
        if any(value != value for value in index):
            column = list(map(_known, column))
            index = {value: i for i, value in enumerate(dict.fromkeys(column))}
    except TypeError:
        for n, value in enumerate(column):
            try:
                hash(value)
            except TypeError:
                place, got = f"{source}: instance {n}, column {number}", type(value).__name__
                raise CorpusError(f"{place}: expected a string or a number, got a {got}") from None
        raise
    return list(index), np.fromiter(map(index.__getitem__, column), np.int32, len(column))


def _known(value: Any) -> Any:
    """The value, or one fixed NaN for all NaNs, which are unequal to themselves."""
    return value if value == value else NAN


class ValueNumbers:
    """The number of each known value of each column, for queries; made when the first one comes."""

    def __init__(self, values: Sequence[list[Any]]):
        self.values = values

    @computed_once
    def _numbers(self) -> list[dict[Any, int]]:
        return [
            {_known(value): number for number, value in enumerate(known)} for known in self.values
        ]

    def of_strings(self, columns: Sequence[Sequence[str]]) -> Array:
        """Codes [M, F] of columns of strings [F][M]."""
        numbers = [
            [index.get(s, -1) for s in strings]
            for index, strings in zip(self._numbers, columns, strict=True)
        ]
        return np.array(numbers, np.int32).T

    def translated(self, instances: Instances, source: str = "X") -> Array:
        """Codes [M, F] by the known values; -1 where a value is missing."""
        if len(instances.values) != len(self.values):
            raise CorpusError(
                f"{source}: the model reads {len(self.values)} columns, got {len(instances.values)}"
            )
        codes = np.empty(instances.codes.shape, np.int32)
        for i, (index, present) in enumerate(zip(self._numbers, instances.values, strict=True)):
            numbers = np.array([index.get(_known(value), -1) for value in present], np.int32)
            codes[:, i] = numbers[instances.codes[:, i]]
        return codes

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueNumbers, (self.values,)  # a pickle does without the numbers


def some_instances(data: Instances, kept: Array) -> Instances:
    """Some of the instances, with only the values that occur in them; `kept` [M] says which."""
    columns = [compacted(values, data.codes[kept, i]) for i, values in enumerate(data.values)]
    return Instances(tuple(c.values for c in columns), np.stack([c.codes for c in columns], axis=1))


def joined(old: Instances, new: Instances) -> Instances:
    """All instances of both, the old ones first."""
    values = tuple(
        list(dict.fromkeys(map(_known, [*a, *b])))
        for a, b in zip(old.values, new.values, strict=True)
    )
    return Instances(values, np.concatenate([old.codes, ValueNumbers(values).translated(new)]))


# -- classes ---------------------------------------------------------------------------------------


def numbered_classes(y: Any, n: int) -> tuple[list[Any], Array]:
    """The distinct classes in order of first appearance, and the number of each instance's
    class."""
    if y is None:
        raise CorpusError(
            "y: expected one class for each instance: fit requires y to be passed, but the target "
            "y is None"
        )
    if isinstance(y, str):
        raise CorpusError(f"y: expected one class for each instance, got {y!r:.40}")
    if hasattr(y, "__array__") and not hasattr(y, "tolist"):
        y = np.asarray(y)
    # scikit-learn's own classifiers warn of it, too
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        kind = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", UserWarning)
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; give y.ravel()",
            kind,
            stacklevel=3,
        )
        y = np.asarray(y).reshape(-1)
    listed = y.tolist() if hasattr(y, "tolist") else list(y)
    if len(listed) != n:
        raise CorpusError(f"y: {len(listed)} classes, but X has {n} instances; give one for each")
    try:
        index = {label: i for i, label in enumerate(dict.fromkeys(listed))}
    except TypeError:
        raise CorpusError(
            "y: expected one class for each instance, a string or a number, got lists"
        ) from None
    for label, number in index.items():
        if is_missing(label) or label in (np.inf, -np.inf):
            at = next(i for i, other in enumerate(listed) if index[other] == number)
            raise CorpusError(f"y: instance {at} has no class, got {label!r}; leave it out")
    if isinstance(y, np.ndarray) and y.dtype.kind == "f" and (y % 1 != 0).any():
        raise CorpusError(
            "y: an array of fractions looks like a continuous target; give classes, or y.tolist()"
        )
    return list(index), np.fromiter(map(index.__getitem__, listed), np.int32, n)


def sorted_classes(labels: list[Any], keep_order: bool = False) -> Array:
    """Labels as an array, sorted where they can be."""
    kinds = {type(label) for label in labels}
    simple = len(kinds) == 1 and issubclass(next(iter(kinds)), str | Integral | Real)
    array = np.array(labels) if simple else np.array([*labels, None], object)[:-1]
    if keep_order:
        return array
    return np.sort(array) if simple else np.array([*sorted(labels, key=str), None], object)[:-1]
