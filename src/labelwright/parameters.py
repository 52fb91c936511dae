"""Which weights exist: a cell per (feature, state) and (feature, arc) in use, and one weight per plain transition.

All weights of a model are one vector: state cells, edge cells, then the transitions [S, S].
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import Incidence, observed_cells
from labelwright.states import StateSpace


class Cells(NamedTuple):
    """The weights of one layer: one per feature f and column[ptr[f]:ptr[f+1]] (a state, or an arc r * S + s)."""

    ptr: NDArray[np.int64]  # [F+1]
    column: NDArray[np.int32]  # [W of this layer]


class Parameters(NamedTuple):
    """The layers of a model and where each lies in the weight vector."""

    cells: dict[str, Cells]
    n_states: int

    @property
    def n_weights(self) -> int:
        return sum(len(c.column) for c in self.cells.values()) + self.n_states**2

    @property
    def slices(self) -> dict[str, slice]:
        """Part of the weight vector that belongs to each layer, and to "transitions"."""
        found, begin = {}, 0
        for name, cells in self.cells.items():
            found[name] = slice(begin, begin + len(cells.column))
            begin += len(cells.column)
        found["transitions"] = slice(begin, begin + self.n_states**2)
        return found


def _all_cells(n_features: int, n_codes: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    ptr = np.arange(n_features + 1, dtype=np.int64) * n_codes
    return ptr, np.tile(np.arange(n_codes, dtype=np.int32), n_features)


def _expand(ptr: NDArray[np.int64], codes: NDArray[np.int32], states_of: list[NDArray[np.int32]]) -> Cells:
    """Label codes -> the columns of their states; the states of one label stay together."""
    sizes = np.array([len(s) for s in states_of], np.int64)
    if (sizes == 1).all():
        return Cells(ptr, np.array([s[0] for s in states_of], np.int32)[codes])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    length = sizes[codes]
    ends = np.cumsum(length)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - length, length)
    column = np.concatenate(states_of)[np.repeat(starts[codes], length) + within]
    return Cells(np.concatenate([[0], ends])[ptr], column.astype(np.int32))


def make_parameters(
    layers: dict[str, Incidence],
    n_features: int,
    gold: NDArray[np.int32],
    offsets: NDArray[np.int64],
    space: StateSpace,
    cells: str,
) -> Parameters:
    """Decide which cells exist: those seen in training (`observed`) or every one (`all`)."""
    L, S = space.n_labels, space.n_states
    states = [np.arange(a, b, dtype=np.int32) for a, b in zip(space.first[:-1], space.first[1:], strict=True)]
    made = {}
    for name, incidence in layers.items():
        if name == "state":
            codes, n_codes, states_of = gold, L, states
        else:
            codes, n_codes = np.full(len(gold), -1, np.int32), L * L
            codes[1:] = gold[:-1] * L + gold[1:]
            codes[offsets[:-1][offsets[:-1] < len(gold)]] = -1
            states_of = [(r[:, None] * S + s[None, :]).reshape(-1) for r in states for s in states]
        if cells == "all":
            ptr, column = _all_cells(n_features, n_codes)
            present = np.zeros(n_features, np.bool_)
            present[incidence.key_feature] = True
            present[incidence.token_feature] = True
            if not present.all():  # a feature of another layer has no cells here
                ptr = np.concatenate([[0], np.cumsum(np.where(present, n_codes, 0))]).astype(np.int64)
                column = np.tile(np.arange(n_codes, dtype=np.int32), int(present.sum()))
        else:
            ptr, column = observed_cells(incidence, n_features, codes, n_codes)
        made[name] = _expand(ptr, column, states_of)
    return Parameters(made, S)
