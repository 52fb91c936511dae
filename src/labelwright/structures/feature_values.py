"""Where the values of the features of an upper layer come from: what lower layers pass, and functions of that.

values = (what the lower layers pass, one layer behind the other; what never changes, the last of it 1)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Back = Callable[[Array], list[Array]]


class FeatureValues(NamedTuple):
    """The values that features of an upper layer may have."""

    layers: tuple[str, ...]  # the lower layers that are read
    constants: Array  # values that do not come from below, the last of them 1

    def forward(self, passed: Sequence[Array]) -> tuple[Array, Back]:
        """All values, from the probabilities that each of the layers passes, and the backward function: the derivatives
        by these, from those by all values."""
        bounds = np.cumsum([len(each) for each in passed])

        def back(d_values: Array) -> list[Array]:
            return np.split(d_values[: bounds[-1]], bounds[:-1]) if passed else []

        return np.concatenate([*passed, self.constants]), back


NOTHING_BELOW = FeatureValues((), np.ones(1))
