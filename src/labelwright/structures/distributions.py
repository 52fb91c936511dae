"""The answers of a classifier for many instances: a predicted class and a distribution over classes for each."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import OptionError

Array = NDArray[Any]


class Distributions(NamedTuple):
    """The predicted class of M instances, and the classes that have any weight for each."""

    best: Array  # [M] int32  the predicted class
    ptr: Array  # [M+1] int64
    classes: Array  # [nnz] int32  classes of instance i: classes[ptr[i]:ptr[i+1]]
    weights: Array  # [nnz] float64  w(c) > 0; the confidence of c is w(c) / sum


def from_probabilities(dense: Any, classes: Any = None) -> Distributions:
    """Distributions from rows of probabilities, or of other weights of 0 or more [M, C]; the first of the heaviest
    classes is the predicted one.  `classes` [C] is the class of each column (None: its number).

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
    ptr = offsets_from(heavy.sum(axis=1))
    columns = columns.astype(np.int32)
    best = columns[table.argmax(axis=1)]
    return Distributions(best, ptr, columns[np.nonzero(heavy)[1]], table[heavy])


def certain(best: Any) -> Distributions:
    """Distributions of a classifier that only names a class [M]: it has all the weight.

    >>> certain([2, 0]).classes.tolist()
    [2, 0]
    """
    best = np.asarray(best, np.int32)
    return Distributions(best, np.arange(len(best) + 1, dtype=np.int64), best, np.ones(len(best)))
