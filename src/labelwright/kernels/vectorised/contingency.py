"""Sums over all cells of a contingency table in NumPy, one rounding after the other as in the loop."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CELLS = 1 << 20  # that are summed at once


def chi_squared(value: Array, cls: Array, often: Array, values: Array, classes: Array, n: float) -> float:
    """The sum of (O - E)^2 / E over all cells, zeros too, value by value: one rounding after the other as in TiMBL.

    The cells that are not zero are value, cls, often [E], in the order of values [V] and then of classes [C]."""
    total = 0.0
    step = max(1, CELLS // max(1, len(classes)))
    for first in range(0, len(values), step):
        cells = classes * values[first : first + step, None] / n
        a, b = np.searchsorted(value, [first, first + step])
        place = value[a:b] - first, cls[a:b]
        expected = cells[place]
        apart = expected - often[a:b]
        cells[place] = apart * apart / expected
        total = float(np.cumsum(np.append(total, cells))[-1])
    return total
