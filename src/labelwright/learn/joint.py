"""The objective of a cascade whose layers learn together (Azuma & Matsumoto 2011, algorithm 1).

Upwards, each layer passes the probabilities of its labels, which are values of features of the next; downwards, each
takes the derivative of all losses by what it passed and gives that by what it was passed.  A layer knows only its own
part (`forward` and the backward function that it returns), so that layers of any kind may be stacked.
"""

from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from labelwright.learn.objective import Back

Array = NDArray[Any]


class Layer(Protocol):
    """A differentiable layer."""

    def forward(self, weights: Array, below: Array) -> tuple[Array | None, Back]:
        """What it passes, by slots (None at the top), and its backward function: loss, d_weights, d_below =
        back(d_passed, share)."""
        ...

    def precise(self) -> "Layer | None":
        """The same in float64; None where it is in float64 already."""
        ...


class Stack(NamedTuple):
    """Layers over some sentences, the lowest first; perhaps not all of them."""

    layers: Sequence[Layer]
    constants: Sequence[Array]  # values that stand behind what each layer is passed, the last of them 1
    shares: Sequence[float]  # how much the loss of each layer counts
    shifts: Sequence[Array | None]  # what is added to the weights of each layer before they are used here


class Joint:
    """loss(weights) = sum of the shares of all layers' losses, and the penalties; weights [of all layers in a row]."""

    def __init__(self, stacks: Sequence[Stack], sizes: Sequence[int], l2: Sequence[float]):
        self.stacks, self.l2 = stacks, l2
        bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.parts = [slice(a, b) for a, b in pairwise(bounds)]

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill the gradient, return the penalised loss."""
        loss = 0.0
        for part, l2 in zip(self.parts, self.l2, strict=True):
            gradient[part] = l2 * weights[part]
            loss += 0.5 * l2 * float(np.dot(weights[part].astype(np.float64), weights[part]))
        for stack in self.stacks:
            loss += self._stack(stack, weights, gradient)
        return loss

    def precise(self) -> "Joint | None":
        """The same in float64; None where a layer is in float64 already."""
        made, stacks = copy(self), list[Stack]()
        for stack in self.stacks:
            layers = [layer.precise() for layer in stack.layers]
            stacks.append(stack._replace(layers=[layer for layer in layers if layer is not None]))
        made.stacks = stacks
        return made if all(len(a.layers) == len(b.layers) for a, b in zip(stacks, self.stacks, strict=True)) else None

    def _stack(self, stack: Stack, weights: Array, gradient: Array) -> float:
        used = [
            weights[part] if shift is None else weights[part] + shift
            for part, shift in zip(self.parts, stack.shifts, strict=False)
        ]
        passed: Array | None = np.empty(0)
        backs, sizes = [], []
        for layer, w, constants in zip(stack.layers, used, stack.constants, strict=True):
            assert passed is not None
            sizes.append(len(passed))
            passed, back = layer.forward(w, np.concatenate([passed, constants]))
            backs.append(back)
        loss, d_passed = 0.0, None
        for k in reversed(range(len(backs))):
            its_loss, d_weights, d_below = backs[k](d_passed, stack.shares[k])
            gradient[self.parts[k]] += d_weights
            loss, d_passed = loss + its_loss, d_below[: sizes[k]]
        return loss
