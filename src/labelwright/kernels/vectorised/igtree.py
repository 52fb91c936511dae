"""Descent of an IGTree in NumPy: all queries together, level by level."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def descend(code: Array, child: Array, queries: Array, reached: Array, levels: Array) -> None:
    """Write the last node that each query [Q, F] reaches, and how many columns remain below it."""
    Q, F = queries.shape
    width = int(max(code.max(initial=0), queries.max(initial=0))) + 1
    parent = np.repeat(np.arange(len(code)), np.diff(child))
    keys = parent * width + code[1:]  # sorted: children stand by parent, then by code
    reached[:], levels[:] = 0, F
    going = np.arange(Q if len(keys) else 0)
    for level in range(F):
        wanted = reached[going].astype(np.int64) * width + queries[going, level]
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        down = (keys[at] == wanted) & (queries[going, level] >= 0)
        going, at = going[down], at[down]
        if not len(going):
            break
        reached[going] = at + 1
        levels[going] -= 1
