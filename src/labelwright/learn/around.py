"""An objective by the change of weights: its penalty then keeps weights near those of an earlier model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.learn.lbfgs import Objective

Array = NDArray[Any]


class AroundWeights:
    """objective(origin + change), as a function of the change."""

    def __init__(self, objective: Objective, origin: Array):
        self.objective, self.origin = objective, origin

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill `gradient` and return the loss; `weights` are the change."""
        return self.objective(self.origin.astype(weights.dtype) + weights, gradient)

    def precise(self) -> "AroundWeights | None":
        """The same in float64; None where this is in float64."""
        made = self.objective.precise()
        return None if made is None else AroundWeights(made, self.origin.astype(np.float64))
