"""The objective of a cascade whose layers learn together (Azuma & Matsumoto 2011, algorithm 1).

Upwards, each layer passes the probabilities of its labels, which are values of features of the next; downwards, each
hands back the derivative of all losses by what it was passed.  A layer knows only its own part: how to pass
(`marginals`) and how to take back (`Passing`), so that layers of any kind may stand on each other.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from labelwright.learn.objective import Passing
from labelwright.structures.passing import Candidates

Array = NDArray[Any]


class Layer(Protocol):
    """A differentiable layer."""

    candidates: Candidates | None  # what it passes; None at the top

    def marginals(self, weights: Array, below: Array) -> Array:
        """What it passes, by slots."""
        ...

    def __call__(self, weights: Array, gradient: Array, passing: Passing) -> float:
        """Fill the gradient and what is owed to the layer below; return its share of the loss."""
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

    def _stack(self, stack: Stack, weights: Array, gradient: Array) -> float:
        used = [
            weights[part] if shift is None else weights[part] + shift
            for part, shift in zip(self.parts, stack.shifts, strict=False)
        ]
        belows = [stack.constants[0]]
        for k, layer in enumerate(stack.layers[:-1]):
            belows.append(np.concatenate([layer.marginals(used[k], belows[k]), stack.constants[k + 1]]))
        loss, pull = 0.0, None
        for k in reversed(range(len(stack.layers))):
            below = stack.layers[k - 1].candidates if k else None
            owed = np.zeros(below.n_slots) if below is not None else None
            own = np.empty_like(used[k])
            loss += stack.layers[k](used[k], own, Passing(belows[k], owed, pull, stack.shares[k]))
            gradient[self.parts[k]] += own
            pull = owed
        return loss
