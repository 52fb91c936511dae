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
    return linear.describe(model, top) | {"segments": _weights(model, top)}


def _weights(model: Any, top: int) -> dict[str, Any]:
    """The weights of segments by type: of every length, dictionary and transition, and of the strongest texts."""
    types, features = list(model.segments_.types), model._extractor
    cells, part = model._parameters.cells["segment"], model._parameters.slices["segment"]
    feature = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
    table = np.zeros((features.always.stop - features.tokens.n_features, len(types)))  # lengths, then dictionaries
    always = feature < features.always.stop
    table[feature[always] - features.tokens.n_features, cells.column[always]] = model.weights_[part][always]
    rows = [dict(zip(types, row, strict=True)) for row in table.tolist()]
    longest = features.texts.max_length
    arcs = model.weights_[model._parameters.slices["transitions"]].reshape(len(types) + 1, len(types) + 1)
    return {
        "lengths": {str(length): row for length, row in enumerate(rows[:longest], 1)},
        "dictionaries": dict(zip(features.texts.dictionaries, rows[longest:], strict=True)),
        "transitions": {
            name: dict(zip(types, row, strict=True))
            for name, row in zip([*types, OUTSIDE], arcs[:, :-1].tolist(), strict=True)
        },
        "texts": _texts(model, feature, top),
    }


def _texts(model: Any, feature: Array, top: int) -> dict[str, list[dict[str, Any]]]:
    """The texts of segments with the largest weights, whatever their sign, for each type."""
    first, cells = model._extractor.always.stop, model._parameters.cells["segment"]
    weights = model.weights_[model._parameters.slices["segment"]]
    texts = {}
    for code, name in enumerate(model.segments_.types):
        mine = np.flatnonzero((cells.column == code) & (feature >= first) & (weights != 0))
        best = mine[np.argsort(-np.abs(weights[mine]), kind="stable")[:top]].tolist()
        texts[name] = [
            {"text": model._extractor.name(int(feature[k])).removeprefix("text="), "weight": float(weights[k])}
            for k in best
        ]
    return texts


def describe_use(model: Any, corpora: Sequence[Any], top: int) -> dict[str, Any]:
    """The labels by their use on data, ready for JSON."""
    labels = model._space.labels
    use = label_use(model, corpora, labels, probabilistic=True)
    return {"use": [view._asdict() for view in label_views(use, labels, top)]}


def path_mass(model: Any, X: Any, n: int = 2000) -> Array:
    """The probability of the best 1, 2, ... n labellings together, mean over the sentences [n]."""
    linear.check_paths(n)

    def curves(piece: Any) -> list[Array]:
        return [linear.cumulated(np.array([p for _, p in best]), n) for best in model.predict_nbest(piece, n)]

    return linear.mean_mass(map(curves, pieces(X)), n)
