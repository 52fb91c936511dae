"""Sparse rows: where runs of known lengths begin and end."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def offsets_from(lengths: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Where runs of these lengths [N] begin, and where the last one ends [N+1].

    >>> offsets_from([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.asarray(lengths, np.int64), out=offsets[1:])
    return offsets
