"""Sparse rows: where runs of known lengths begin and end."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import ranges


def offsets_from(lengths: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Where runs of these lengths [N] begin, and where the last one ends [N+1].

    >>> offsets_from([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.asarray(lengths, np.int64), out=offsets[1:])
    return offsets


def runs_of(
    first: NDArray[Any], sizes: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers first[k], first[k] + 1, ... of runs of these sizes [N], one run behind the other:
    k, and the number.

    >>> [x.tolist() for x in runs_of(np.array([7, 0]), np.array([2, 3]))]
    [[0, 0, 1, 1, 1], [7, 8, 0, 1, 2]]
    """
    return np.repeat(np.arange(len(sizes)), sizes), ranges(first, sizes)
