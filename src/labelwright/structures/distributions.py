"""What a classifier says of many instances: a predicted class and a distribution over classes for each."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError

Array = NDArray[Any]


class Distributions(NamedTuple):
    """The predicted class of N instances, and the classes that have any weight at each."""

    best: Array  # [N] int32  the predicted class
    ptr: Array  # [N+1] int64
    classes: Array  # [nnz] int32  classes of instance i: classes[ptr[i]:ptr[i+1]]
    weights: Array  # [nnz] float64  w(c) > 0; the confidence of c is w(c) / sum


def from_probabilities(dense: Any, classes: Any = None) -> Distributions:
    """Distributions from rows of probabilities, or of other weights of 0 and more [N, C]; the first of the heaviest
    classes is the predicted one.  `classes` [C] says which class each column stands for (None: its own number).

    >>> from_probabilities([[0.25, 0.75], [1.0, 0.0]]).best.tolist()
    [1, 0]
    """
    table = np.asarray(dense, np.float64)
    columns = np.arange(table.shape[-1]) if classes is None else np.asarray(classes)
    if table.ndim != 2 or columns.shape != table.shape[1:] or not table.shape[1]:
        raise OptionError(f"probabilities: expected rows of {len(columns)} numbers, got an array of {table.shape}")
    wrong = ~(np.isfinite(table) & (table >= 0))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise OptionError(f"probabilities: row {row} has {table[row, column]}; expected finite numbers of 0 or more")
    heavy = table > 0
    ptr = np.concatenate([[0], np.cumsum(heavy.sum(axis=1))]).astype(np.int64)
    columns = columns.astype(np.int32)
    best = columns[table.argmax(axis=1)]
    return Distributions(best, ptr, columns[np.nonzero(heavy)[1]], table[heavy])


def certain(best: Any) -> Distributions:
    """Distributions of a classifier that only names a class [N]: all weight is on it.

    >>> certain([2, 0]).classes.tolist()
    [2, 0]
    """
    best = np.asarray(best, np.int32)
    return Distributions(best, np.arange(len(best) + 1, dtype=np.int64), best, np.ones(len(best)))
