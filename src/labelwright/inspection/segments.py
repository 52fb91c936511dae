"""What a segment model has learnt: the weights of tokens by their place, of segments by their type, and their use."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.inspection import linear
from labelwright.inspection.use import OUTSIDE, label_use, label_views, pieces

Array = NDArray[Any]


def describe(model: Any, top: int) -> dict[str, Any]:
    """All that a model's file alone shows, ready for JSON."""
    types = list(model.segments_.types)
    return linear.describe(model, top, linear.Names(list(model.segments_.roles), types, [*types, OUTSIDE]))


def describe_use(model: Any, corpora: Sequence[Any], top: int) -> dict[str, Any]:
    """The labels by their use on data, ready for JSON."""
    labels = model.space_.labels
    use = label_use(model, corpora, labels, probabilistic=True)
    return {"use": [view._asdict() for view in label_views(use, labels, top)]}


def path_mass(model: Any, X: Any, n: int = 2000) -> Array:
    """The probability of the best 1, 2, ... n labellings together, mean over the sentences [n]."""
    linear.check_paths(n)

    def curves(piece: Any) -> list[Array]:
        return [linear.cumulated(np.array([p for _, p in best]), n) for best in model.predict_nbest(piece, n)]

    return linear.mean_mass(map(curves, pieces(X)), n)
