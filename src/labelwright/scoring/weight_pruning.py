"""A smaller model: fewer weights, of fewer bits, and only the features and strings that these need."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.compact import rounded
from labelwright.corpus.offsets import offsets_from
from labelwright.scoring.parameters import Cells
from labelwright.scoring.trained import Trained

Array = NDArray[Any]


def pruned(trained: Trained, threshold: float, bits: int) -> Trained:
    """The same model with weights of so many bits, without those of features whose absolute value is `threshold` or
    less, without features that have no weight left, and without strings that no feature reads.

    Labels, states and plain transitions stay."""
    parts = trained.parameters.slices
    weights = {name: rounded(trained.weights[part], bits) for name, part in parts.items()}
    cells, kept = trained.parameters.cells, {}
    used = np.zeros(trained.extractor.n_features, np.bool_)
    for name, (ptr, _) in cells.items():
        kept[name] = (np.abs(trained.weights[parts[name]]) > threshold) & (weights[name] != 0)
        used |= _counts(kept[name], ptr) > 0
    extractor, left = trained.extractor.reduced(used)
    smaller = {}
    for name, (ptr, column) in cells.items():
        smaller[name] = Cells(offsets_from(_counts(kept[name], ptr)[left]), column[kept[name]])
        weights[name] = weights[name][kept[name]]
    parameters = trained.parameters._replace(cells=smaller)
    return trained._replace(extractor=extractor, parameters=parameters, weights=np.concatenate(list(weights.values())))


def _counts(kept: Array, ptr: Array) -> Array:
    """How many cells [F] of each feature are kept."""
    return np.diff(np.concatenate([[0], np.cumsum(kept)])[ptr])
