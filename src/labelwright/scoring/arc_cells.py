"""The weights of features on the arcs of lattices: an arc has one label, so that a feature of it has one weight."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.features.incidence import NO_VALUES, Incidence, on_tokens
from labelwright.scoring.parameters import Cells

Array = NDArray[Any]


def cells_of_arcs(incidence: Incidence, n_features: int, label: Array, n_labels: int) -> Cells:
    """The pairs of a feature and a label that arcs have; `label` [A] is -1 for arcs that do not count."""
    codes = np.unique(_codes(incidence, label, n_labels))
    codes = codes[codes >= 0]
    return Cells(
        offsets_from(np.bincount(codes // n_labels, minlength=n_features)), (codes % n_labels).astype(np.int32)
    )


def weights_of_arcs(incidence: Incidence, label: Array, cells: Cells, n_labels: int) -> Incidence:
    """The arcs with numbers of weights in place of features; without features that have no weight for the label of
    their arc [A], which is n_labels where the model does not know it."""
    feature = np.repeat(np.arange(len(cells.ptr) - 1, dtype=np.int64), np.diff(cells.ptr))
    known = feature * n_labels + cells.column
    codes = _codes(incidence, np.where(label < n_labels, label, -1), n_labels)
    place = np.searchsorted(known, codes)
    kept = codes == np.append(known, -2)[place]
    value = incidence.token_value[kept] if len(incidence.token_value) else NO_VALUES
    return on_tokens(np.concatenate([[0], np.cumsum(kept)])[incidence.token_ptr], place[kept], value)


def arc_scores(weights_of: Incidence, weights: Array) -> Array:
    """The scores of arcs [A] in float64, without those of transitions."""
    ptr, numbers, value = weights_of.token_ptr, weights_of.token_feature, weights_of.token_value
    terms = weights.astype(np.float64)[numbers]
    if len(value):
        terms *= value
    arc = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    return np.bincount(arc, terms, len(ptr) - 1)


def _codes(incidence: Incidence, label: Array, n_labels: int) -> Array:
    """The code of feature and label for each feature of each arc; negative where the arc does not count."""
    of_arc = np.repeat(label.astype(np.int64), np.diff(incidence.token_ptr))
    return np.where(of_arc < 0, -1, incidence.token_feature * n_labels + of_arc)
