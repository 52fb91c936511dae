"""What a tagger with weights has learnt, as one value."""

from typing import Any, NamedTuple

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
