"""Small functions of arrays that many modules share."""

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
