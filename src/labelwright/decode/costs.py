"""Costs of wrong labels, and the labelling whose expected cost is lowest."""

import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.structures.lattice import Lattice, best_path
from labelwright.wording import like_label, some_of

Array = NDArray[Any]
ANY = "*"
Costs = Mapping[tuple[str, str], float] | str


def refuse_with_costs(given: Iterable[str]) -> None:
    """Refuse options that choose among candidates."""
    for name in given:
        raise OptionError(f"{name}: costs choose among all labellings, without candidates; leave {name} out")


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


def costs_among(costs: Costs, labels: Sequence[str], some: Sequence[str]) -> dict[tuple[str, str], float]:
    """The costs between some of the labels of a model.

    >>> costs_among("*>B=5,C>A=2", ["A", "B", "C"], ["A", "B"])
    {('A', 'A'): 0.0, ('A', 'B'): 5.0, ('B', 'A'): 1.0, ('B', 'B'): 0.0}
    """
    matrix, code = cost_matrix(costs, labels), {label: code for code, label in enumerate(labels)}
    return {(right, predicted): float(matrix[code[right], code[predicted]]) for right in some for predicted in some}


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
        has = f"which has {some_of(labels)}"
        raise OptionError(f"costs: no label {label!r} in this model, {has}{like_label(label, labels)}")
    return np.array([list(labels).index(label)])


def cheapest(marginals: Array, matrix: Array, lattice: Lattice) -> Array:
    """The labels [T] with the lowest expected cost among the labellings that the lattice allows (by forced labels, the
    label scheme, forbidden transitions), from the probabilities of labels [T, L]: the best path by costs."""
    label = lattice.graph.label_of_node
    costs = (marginals @ matrix)[:, label]
    node = np.where(lattice.node > -np.inf, -costs, -np.inf)
    arc = np.where(lattice.arc > -np.inf, 0.0, -np.inf)
    codes: Array = label[best_path(Lattice(node, arc, lattice.graph))[0]]
    return codes
