"""What a segment model has learnt: the weights of tokens by their place, of segments by their type, and their use."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.inspection import linear
from labelwright.inspection.use import OUTSIDE, Counter, Use, label_use, label_views, pieces

Array = NDArray[Any]


def describe(model: Any, top: int) -> dict[str, Any]:
    """All that a model's file alone shows, ready for JSON."""
    return linear.describe(model, top) | {"segments": _weights(model, top)}


def _weights(model: Any, top: int) -> dict[str, Any]:
    """The weights of segments by type (or latent state): of every length, dictionary and transition, and of the
    strongest texts."""
    types, features = list(model.segments_.states), model._extractor
    cells, part = model._parameters.cells["segment"], model._parameters.slices["segment"]
    feature = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
    table = np.zeros((features.always.stop - features.tokens.n_features, len(types)))  # lengths, then dictionaries
    always = feature < features.always.stop
    table[feature[always] - features.tokens.n_features, cells.column[always]] = model.weights_[part][always]
    rows = [dict(zip(types, row, strict=True)) for row in table.tolist()]
    longest = features.max_length
    arcs = model.weights_[model._parameters.slices["transitions"]].reshape(len(types) + 1, len(types) + 1)
    return {
        "lengths": {str(length): row for length, row in enumerate(rows[:longest], 1)},
        "dictionaries": dict(zip(features.dictionaries, rows[longest:], strict=True)),
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
    for code, name in enumerate(model.segments_.states):
        mine = np.flatnonzero((cells.column == code) & (feature >= first) & (weights != 0))
        best = mine[np.argsort(-np.abs(weights[mine]), kind="stable")[:top]].tolist()
        texts[name] = [
            {"text": model._extractor.name(int(feature[k])).removeprefix("text="), "weight": float(weights[k])}
            for k in best
        ]
    return texts


def describe_use(model: Any, corpora: Sequence[Any], top: int) -> dict[str, Any]:
    """The labels (or the latent states of segments) by their use on data, ready for JSON."""
    if model.segments_.n_latent > 1:
        states = model.segments_.states
        return {"use": [view._asdict() for view in label_views(_state_use(model, corpora), states, top)]}
    labels = model._space.labels
    use = label_use(model, corpora, labels, probabilistic=True)
    return {"use": [view._asdict() for view in label_views(use, labels, top)]}


def _state_use(model: Any, corpora: Sequence[Any]) -> Use:
    """How often the latent states of segments are used: tokens in them, and transitions from segment to segment."""
    S = model.segments_.n_states
    counter = Counter(S)

    def used(sentence: Any) -> tuple[Array, Array]:
        if sentence is None:
            return np.zeros((0, S)), np.zeros((S + 1, S + 1))
        tokens, transitions = sentence.state_marginals(), sentence.expected[2].copy()
        transitions[:S, S] += tokens[-1]
        return tokens, transitions

    for piece in itertools.chain.from_iterable(map(pieces, corpora)):
        answers = model._ask(piece, lambda batch: [used(sentence) for sentence in batch])
        if answers:
            tokens, transitions = zip(*answers, strict=True)
            counter.add(piece, np.concatenate(tokens), np.sum(transitions, axis=0))
    return counter.use


def path_mass(model: Any, X: Any, n: int = 2000) -> Array:
    """The probability of the best 1, 2, ... n labellings together, mean over the sentences [n]."""
    linear.check_paths(n)

    def curves(piece: Any) -> list[Array]:
        return [linear.cumulated(np.array([p for _, p in best]), n) for best in model.predict_nbest(piece, n)]

    return linear.mean_mass(map(curves, pieces(X)), n)
