"""The classes of instances: distinct and numbered, checked, sorted where they can be."""

import sys
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.tabular import is_missing
from labelwright.errors import CorpusError

Array = NDArray[Any]


def numbered_classes(y: Any, n: int) -> tuple[list[Any], Array]:
    """The distinct classes in order of first appearance, and the number of each instance's class."""
    if y is None:
        raise CorpusError(
            "y: expected one class for each instance: fit requires y to be passed, but the target y is None"
        )
    if isinstance(y, str):
        raise CorpusError(f"y: expected one class for each instance, got {y!r:.40}")
    if hasattr(y, "__array__") and not hasattr(y, "tolist"):
        y = np.asarray(y)
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        y = _single_column(y)
    listed = y.tolist() if hasattr(y, "tolist") else list(y)
    if len(listed) != n:
        raise CorpusError(f"y: {len(listed)} classes, but X has {n} instances; give one for each")
    try:
        index = {label: i for i, label in enumerate(dict.fromkeys(listed))}
    except TypeError:
        raise CorpusError("y: expected one class for each instance, a string or a number, got lists") from None
    for label, number in index.items():
        if is_missing(label) or label in (np.inf, -np.inf):
            at = next(i for i, other in enumerate(listed) if index[other] == number)
            raise CorpusError(f"y: instance {at} has no class, got {label!r}; leave it out")
    if isinstance(y, np.ndarray) and y.dtype.kind == "f" and (y % 1 != 0).any():
        raise CorpusError("y: an array of fractions looks like a continuous target; give classes, or y.tolist()")
    return list(index), np.fromiter(map(index.__getitem__, listed), np.int32, n)


def _single_column(y: Any) -> Array:
    """Classes given as a table of one column; scikit-learn's own classifiers warn of it, too."""
    kind = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", UserWarning)
    warnings.warn("A column-vector y was passed when a 1d array was expected; give y.ravel()", kind, stacklevel=4)
    return np.asarray(y).reshape(-1)


def sorted_classes(labels: list[Any], keep_order: bool = False) -> Array:
    """Labels as an array, sorted where they can be."""
    kinds = {type(label) for label in labels}
    simple = len(kinds) == 1 and issubclass(next(iter(kinds)), str | Integral | Real)
    array = np.array(labels) if simple else np.array([*labels, None], object)[:-1]
    if keep_order:
        return array
    return np.sort(array) if simple else np.array([*sorted(labels, key=str), None], object)[:-1]
