"""What a tagger with weights has learnt, as one value."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.extract import Extractor
from labelwright.scoring.parameters import Parameters
from labelwright.structures.segments import SegmentSpace
from labelwright.structures.states import StateSpace

Array = NDArray[Any]


class Pruning(NamedTuple):
    """The zero-order model that chooses the candidates of a token."""

    weights: Array  # [W of states] float32  on the state cells of the model
    bias: Array  # [L] float32  of every label
    cutoff: float  # candidates are at most so far below the best label, in nats,
    most: int  # and no more than these
    share: float  # of gold labels that it kept on held-out tokens
    prior: float  # times its scores are part of the model's; 0 in files of before


class Trained(NamedTuple):
    """Weights and all that is needed to apply them to sentences."""

    extractor: Extractor
    space: StateSpace
    parameters: Parameters
    weights: Array  # [W] float32; float64 from another program's model
    scheme: str | None = None  # of the labels, where they follow one
    segments: SegmentSpace | None = None  # of a segment model
    pruning: Pruning | None = None  # of a model with many labels: what chooses the candidates of a token

    @property
    def total_weights(self) -> Array:
        """The weights together with those of the zero-order model, where it is part of the model [W] float64."""
        total: Array = self.weights.astype(np.float64)
        if self.pruning is not None:
            total[self.parameters.slices["state"]] += self.pruning.prior * self.pruning.weights
        return total
