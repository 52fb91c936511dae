"""What a tagger with weights has learnt, as one value."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.extract import Extractor
from labelwright.scoring.parameters import Parameters
from labelwright.scoring.sparse_parameters import Pruning
from labelwright.structures.segments import SegmentSpace
from labelwright.structures.states import StateSpace

Array = NDArray[Any]


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
