"""The objective of a cascade whose layers learn together (Azuma & Matsumoto 2011, algorithm 1).

Upwards, each layer passes the probabilities of its labels, which are values of features of higher
layers; downwards, each takes the derivative of all losses by what it passed (the sum over all
layers that read it) and gives those by what it was passed.  A layer knows only its own part
(`forward` and the backward function that it returns), so that layers of any kind may be stacked.

A layer over lattices passes probabilities of labels of tokens, which are sums of those of arcs:

    passed = M P(arcs)
    d loss / d P(arcs) = M^T (d loss / d passed)
    M[slot, arc] = 1        the arc gives the token of the slot its label
"""

from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from labelwright.learn.objective import Back, Gradient, LogLikelihood
from labelwright.structures.feature_lattice import ArcTokens
from labelwright.structures.passing import Candidates, FeatureValues

Array = NDArray[Any]


class Layer(Protocol):
    """A differentiable layer."""

    def forward(self, weights: Array, below: Array) -> tuple[Array | None, Back]:
        """What it passes, by slots (None where no layer reads it), and its backward function:
        loss, d_weights, d_below = back(d_passed, share)."""

    def precise(self) -> "Layer | None":
        """The same in float64; None where it is in float64 already."""


class Stack(NamedTuple):
    """Layers over some sentences, the lowest first; perhaps not all of them."""

    layers: Sequence[Layer]
    reads: Sequence[Sequence[int]]  # the numbers of the lower layers that each reads
    values: Sequence[FeatureValues]  # what the features of each make of what those pass
    shares: Sequence[float]  # how much the loss of each layer counts
    # what is added to the weights of each layer before they are used here
    shifts: Sequence[Array | None]


class Joint:
    """loss(weights) = sum of the shares of all layers' losses; weights [of all layers in a row]."""

    def __init__(self, stacks: Sequence[Stack], sizes: Sequence[int]):
        self.stacks = stacks
        bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.parts = [slice(a, b) for a, b in pairwise(bounds)]

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill the gradient, return the loss."""
        gradient[:] = 0
        return sum(self._stack(stack, weights, gradient) for stack in self.stacks)

    def precise(self) -> "Joint | None":
        """The same in float64; None where a layer is in float64 already."""
        made, stacks = copy(self), list[Stack]()
        for stack in self.stacks:
            layers = [layer.precise() for layer in stack.layers]
            stacks.append(stack._replace(layers=[layer for layer in layers if layer is not None]))
        made.stacks = stacks
        return (
            made
            if all(len(a.layers) == len(b.layers) for a, b in zip(stacks, self.stacks, strict=True))
            else None
        )

    def _stack(self, stack: Stack, weights: Array, gradient: Array) -> float:
        used = [
            weights[part] if shift is None else weights[part] + shift
            for part, shift in zip(self.parts, stack.shifts, strict=False)
        ]
        passed, backs = list[Any](), []
        for layer, w, reads, values in zip(
            stack.layers, used, stack.reads, stack.values, strict=True
        ):
            below, values_back = values.forward([passed[i] for i in reads])
            probability, back = layer.forward(w, below)
            passed.append(probability)
            backs.append((back, values_back))
        loss = 0.0
        d_passed: list[Array | None] = [None] * len(backs)
        for k, (back, values_back) in reversed(list(enumerate(backs))):
            its_loss, d_weights, d_values = back(d_passed[k], stack.shares[k])
            gradient[self.parts[k]] += d_weights
            loss += its_loss
            for i, d in zip(stack.reads[k], values_back(d_values), strict=True):
                sum_before = d_passed[i]
                d_passed[i] = d if sum_before is None else sum_before + d
        return loss


class LabelsOfArcs:
    """The likelihood of paths as a layer that passes the candidate labels of tokens.

    paths : the likelihood, which passes the probability of every arc
    candidates : the labels that are passed
    tokens : the tokens of all arcs, numbered as those of the candidates
    n_labels : how many labels of tokens there are"""

    def __init__(
        self, paths: LogLikelihood, candidates: Candidates, tokens: ArcTokens, n_labels: int
    ):
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
            d_arcs = (
                None
                if d_passed is None
                else np.bincount(self.arc, d_passed[self.slot], len(of_arcs))
            )
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
