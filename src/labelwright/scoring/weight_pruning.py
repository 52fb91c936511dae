"""A smaller model: fewer weights, of fewer bits, and only the features and strings that these need."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.modelfile import rounded
from labelwright.scoring.parameters import Cells
from labelwright.scoring.trained import Trained

Array = NDArray[Any]


def pruned(trained: Trained, threshold: float, bits: int) -> Trained:
    """The same model with weights of so many bits, without those of features whose absolute value is `threshold` or
    less, without features that have no weight left, and without strings that no feature reads.

    Labels, states and plain transitions stay; so do features that the zero-order model of pruned labels reads."""
    parts = trained.parameters.slices
    weights = {name: rounded(trained.weights[part], bits) for name, part in parts.items()}
    cells, kept = trained.parameters.cells, {}
    used = np.zeros(trained.extractor.n_features, np.bool_)
    pruning = trained.pruning
    for name, (ptr, _) in cells.items():
        kept[name] = (np.abs(trained.weights[parts[name]]) > threshold) & (weights[name] != 0)
        if name == "state" and pruning is not None:
            kept[name] |= np.abs(pruning.weights) > threshold
        used |= _counts(kept[name], ptr) > 0
    extractor, left = trained.extractor.reduced(used)
    smaller = {}
    for name, (ptr, column) in cells.items():
        smaller[name] = Cells(offsets_from(_counts(kept[name], ptr)[left]), column[kept[name]])
        weights[name] = weights[name][kept[name]]
    if pruning is not None:
        pruning = pruning._replace(weights=pruning.weights[kept["state"]])
    parameters, left_over = trained.parameters._replace(cells=smaller), np.concatenate(list(weights.values()))
    return trained._replace(extractor=extractor, parameters=parameters, weights=left_over, pruning=pruning)


def _counts(kept: Array, ptr: Array) -> Array:
    """How many cells [F] of each feature are kept."""
    return np.diff(np.concatenate([[0], np.cumsum(kept)])[ptr])
