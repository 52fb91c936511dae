"""A layer of a cascade over lattices: it passes probabilities of labels of tokens, which are sums of those of arcs.

passed = M P(arcs),   d loss / d P(arcs) = M^T (d loss / d passed),   M[slot, arc] = 1: the arc gives the token of
                                                                      the slot its label
"""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.learn.objective import Back, Gradient, LogLikelihood
from labelwright.structures.feature_lattice import ArcTokens
from labelwright.structures.passing import Candidates

Array = NDArray[Any]


class LabelsOfArcs:
    """The likelihood of paths as a layer that passes the candidate labels of tokens.

    paths : the likelihood, which passes the probability of every arc
    candidates : the labels that are passed
    tokens : the tokens of all arcs, numbered as those of the candidates
    n_labels : how many labels of tokens there are"""

    def __init__(self, paths: LogLikelihood, candidates: Candidates, tokens: ArcTokens, n_labels: int):
        self.paths, self.n_slots = paths, candidates.n_slots
        wanted = tokens.token * n_labels + tokens.label
        sizes = np.diff(candidates.ptr)
        known = np.repeat(np.arange(len(sizes)), sizes) * n_labels + candidates.label
        order = np.argsort(known)
        slot = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(order) - 1)]
        is_passed = known[slot] == wanted
        self.arc, self.slot = tokens.arc[is_passed], slot[is_passed]  # where M is 1

    def forward(self, weights: Array, below: Array) -> tuple[Array, Back]:
        """What is passed by slots, and the backward function (learn.joint.Layer)."""
        of_arcs, arcs_back = self.paths.forward(weights)
        assert of_arcs is not None
        passed = np.bincount(self.slot, of_arcs[self.arc], self.n_slots)

        def back(d_passed: Array | None, share: float) -> Gradient:
            d_arcs = None if d_passed is None else np.bincount(self.arc, d_passed[self.slot], len(of_arcs))
            return arcs_back(d_arcs, share)._replace(below=np.zeros(len(below)))

        return passed, back

    def precise(self) -> "LabelsOfArcs | None":
        """The same in float64; None where it is in float64 already."""
        paths = self.paths.precise()
        if paths is None:
            return None
        made = copy(self)
        made.paths = paths
        return made
