"""Costs of wrong labels, and the labelling whose expected cost is lowest."""

import re
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
ANY = "*"
Costs = Mapping[tuple[str, str], float] | str


def cost_matrix(costs: Costs, labels: Sequence[str]) -> Array:
    """The cost [L, L] of predicting the second label where the first is right: 0 for the right one, 1 for another where
    nothing else is said.

    costs : {(right, predicted): cost}, or as a text B-PER>O=5,*>B-LOC=2; * is any label, and later entries go before
        earlier ones

    >>> cost_matrix("A>B=5", ["A", "B"]).tolist()
    [[0.0, 5.0], [1.0, 0.0]]
    """
    matrix = 1.0 - np.eye(len(labels))
    for (right, predicted), cost in _entries(costs).items():
        if not isinstance(cost, Real) or isinstance(cost, bool) or not 0 <= float(cost) < np.inf:
            raise OptionError(f"costs: {right}>{predicted}: expected a number of 0 or more, got {cost!r}")
        rows, columns = _places(right, labels), _places(predicted, labels)
        matrix[np.ix_(rows, columns)] = np.where(rows[:, None] == columns, 0.0, float(cost))
    return matrix


def _entries(costs: Costs) -> Mapping[tuple[str, str], float]:
    """Costs by pairs of labels."""
    if not isinstance(costs, str):
        if not isinstance(costs, Mapping) or not all(isinstance(key, tuple) and len(key) == 2 for key in costs):
            raise OptionError(f"costs: expected {{(right, predicted): cost}}, got {costs!r:.60}")
        return costs
    found = re.findall(r"([^>]+)>(.+?)=([\d.eE+-]+)(?:,|$)", costs)
    if not found or ",".join(f"{a}>{b}={c}" for a, b, c in found) != costs.rstrip(","):
        raise OptionError(f"costs: expected RIGHT>PREDICTED=X,... as in B-PER>O=5,*>B-LOC=2, got {costs!r}")
    try:
        return {(a, b): float(c) for a, b, c in found}
    except ValueError:
        raise OptionError(f"costs: expected a number after =, got {costs!r}") from None


def _places(label: str, labels: Sequence[str]) -> Array:
    if label == ANY:
        return np.arange(len(labels))
    if label not in labels:
        raise OptionError(f"costs: no label {label!r} in this model")
    return np.array([list(labels).index(label)])


def cheapest(marginals: Array, matrix: Array, space: StateSpace) -> Array:
    """The labels [T] with the lowest expected cost among the labellings that transitions allow, from the probabilities
    of labels [T, L]."""
    expected, label, L = marginals @ matrix, space.label_of, space.n_labels
    follows = np.zeros((L, L), np.bool_)
    np.logical_or.at(follows, (label[:, None], label[None, :]), space.arc)
    ends = np.zeros((2, L), np.bool_)
    for row, allowed in zip(ends, (space.start, space.end), strict=True):
        np.logical_or.at(row, label, allowed)
    barred = np.where(follows, 0.0, np.inf)
    total, back = expected[0] + np.where(ends[0], 0.0, np.inf), np.zeros(expected.shape, np.int64)
    for t in range(1, len(expected)):
        reached = total[:, None] + barred
        back[t] = reached.argmin(axis=0)
        total = reached.min(axis=0) + expected[t]
    codes = np.empty(len(expected), np.int32)
    codes[-1] = (total + np.where(ends[1], 0.0, np.inf)).argmin()
    for t in range(len(expected) - 1, 0, -1):
        codes[t - 1] = back[t, codes[t]]
    return codes
