"""What NumPy alone does with arrays, for several packages."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def ranges(begin: Any, sizes: Array) -> Array:
    """begin[0], begin[0] + 1, ... (sizes[0] numbers), begin[1], ...; as one array.

    >>> ranges(np.array([3, 10]), np.array([2, 3])).tolist()
    [3, 4, 10, 11, 12]
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(begin - (ends - sizes), sizes))


def row_maxima(x: Array) -> Array:
    """The largest number of each row [T, 1]; 0 where all are minus infinity."""
    top = x.max(axis=-1, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0.0)


def softmax_of(x: Array) -> Array:
    """exp(x) over their sum along the last axis; 0 where all are minus infinity."""
    e = np.exp(x - row_maxima(x))
    total = e.sum(axis=-1, keepdims=True)
    return np.asarray(e / np.where(total > 0, total, 1.0))
