"""Transfer of weights to a model in which some latent states are one: the inverse of a split (scoring.carry)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.scoring.carry import mapped_columns, old_cells
from labelwright.scoring.parameters import REACH, Cells
from labelwright.scoring.trained import Trained

Array = NDArray[Any]


def merged_weights(before: Trained, now: Trained, target: Array, share: Array) -> Array:
    """The weights of a model whose states are those of `before` put together: state s becomes target[s], where it has
    the share share[s] (those of a target add up to 1).

    Weights are means by shares.  A state that stands for two has the paths of both: log(e^a + e^b) is at least
    p a + q b + H(p, q), and equal where p and q are the shares of e^a and e^b.  So the entropy H of the shares is added
    to the transitions into it; the first token of a sentence, which none leads to, goes without.  Features and cells
    are those of the same data."""
    S, new_S = before.space.n_states, now.space.n_states
    weights = np.zeros(now.parameters.n_weights)
    old, new = before.parameters, now.parameters
    every_feature = np.arange(before.extractor.n_features)

    def put(name: str, column: Array, reach: int, number: Array) -> None:
        part = before.weights[old.slices[name]].astype(np.float64) * _shares(column, reach, share)
        weights[new.slices[name]] = np.bincount(number, part, new.slices[name].stop - new.slices[name].start)

    for name, cells in old.cells.items():
        column = mapped_columns(cells.column, REACH[name], target, S, new_S)
        put(name, cells.column, REACH[name], old_cells(new.cells[name], Cells(cells.ptr, column), every_feature))
    for name, reach in (("transitions", 1), ("triples", 2)):
        if name in old.slices:
            every = old.codes_of(name, np.arange(S ** (reach + 1)))
            put(name, every, reach, new.places(name, mapped_columns(every, reach, target, S, new_S)))
    entropy = np.bincount(target, -share * np.log(np.maximum(share, 1e-300)), new_S)
    weights[new.slices["transitions"]] += np.tile(entropy, new_S)
    return weights.astype(before.weights.dtype)


def _shares(column: Array, reach: int, share: Array) -> Array:
    """The product of the shares of the states of each state, pair or triple (reach 0, 1, 2)."""
    product, rest = np.ones(len(column)), column
    for _ in range(reach + 1):
        product *= share[rest % len(share)]
        rest = rest // len(share)
    return product
