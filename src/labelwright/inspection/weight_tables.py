"""The weights of a tagger as tables, in the spirit of sklearn-crfsuite's attributes of the same names."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.inspection.names import feature_names
from labelwright.inspection.use import OUTSIDE
from labelwright.scoring.parameters import REACH, Trained
from labelwright.structures.states import state_names

Array = NDArray[Any]
ARROW = " → "


class StateFeature(NamedTuple):
    """The weight of a feature on a label."""

    feature: str  #: its name, as pos[0]=NNS
    label: str  #: or a latent state, B-NP#2; of a SemiCRF the place in a segment, or the type of a segment
    weight: float  #: in the unit of scores


class TransitionFeature(NamedTuple):
    """The weight of a transition."""

    source: str  #: the label before; of a triple the two before, A → B
    target: str  #: the label after it
    weight: float  #: in the unit of scores
    feature: str | None = None  #: None: the plain transition


class WeightNames(NamedTuple):
    """What the columns of the weights stand for."""

    state: list[str]  # of features of tokens: states; of a SemiCRF the place of a token in its segment
    segment: list[str]  # of features of segments: types
    transition: list[str]  # what a transition goes from and to


def weight_names(trained: Trained) -> WeightNames:
    """The names of states, types and transitions."""
    if trained.segments is not None:
        types = list(trained.segments.types)
        return WeightNames(list(trained.segments.roles), types, [*types, OUTSIDE])
    states = state_names(trained.space)
    return WeightNames(states, [], states)


def state_features(trained: Trained) -> list[StateFeature]:
    """Features on states and segments, the largest weights first."""
    names, rows = weight_names(trained), list[StateFeature]()
    for kind, columns in (("state", names.state), ("segment", names.segment)):
        for feature, code, weight in _weights(trained, kind):
            rows.append(StateFeature(feature, str(columns[code]), weight))
    return sorted(rows, key=lambda row: -abs(row.weight))


def transition_features(trained: Trained) -> list[TransitionFeature]:
    """Plain transitions and triples, and features on them, the largest weights first."""
    names, rows = list(map(str, weight_names(trained).transition)), list[TransitionFeature]()
    parameters, weights = trained.parameters, trained.total_weights
    for part, reach in (("transitions", 1), ("triples", 2)):
        if part in parameters.slices:
            of_part = weights[parameters.slices[part]]
            used = np.flatnonzero(of_part)
            codes = parameters.codes_of(part, used)
            for code, weight in zip(codes.tolist(), of_part[used].tolist(), strict=True):
                rows.append(TransitionFeature(*_ends(code, names, reach), weight))
    for kind in ("edge", "triple"):
        for feature, code, weight in _weights(trained, kind):
            rows.append(TransitionFeature(*_ends(code, names, REACH[kind]), weight, feature))
    return sorted(rows, key=lambda row: -abs(row.weight))


def _ends(code: int, names: Sequence[str], reach: int) -> tuple[str, str]:
    """The states before a transition and the one after it."""
    *before, after = (int(state) for state in np.unravel_index(code, (len(names),) * (reach + 1)))
    return ARROW.join(names[state] for state in before), names[after]


def _weights(trained: Trained, kind: str) -> list[tuple[str, int, float]]:
    """The feature, the column and the weight of each cell of this kind whose weight is not 0."""
    cells = trained.parameters.cells.get(kind)
    if cells is None:
        return []
    weights = trained.total_weights[trained.parameters.slices[kind]]
    used = np.flatnonzero(weights)
    features = np.searchsorted(cells.ptr, used, side="right") - 1
    name = feature_names(trained.extractor)
    known: dict[int, str] = {f: name(f) for f in np.unique(features).tolist()}
    rows = zip(features.tolist(), cells.column[used].tolist(), weights[used].tolist(), strict=True)
    return [(known[f], column, weight) for f, column, weight in rows]
