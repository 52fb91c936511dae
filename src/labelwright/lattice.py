"""The lattice of one sequence: where every model ends and every decoder begins."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import clamped, inference
from labelwright.states import StateSpace

Array = NDArray[Any]


class Lattice(NamedTuple):
    """Scores of all paths of one sequence; minus infinity forbids."""

    node: Array  # [T, S]       score of state s at t
    arc: Array  # [T|1, S, S]  score of each move into t (a leading 1 serves every token)

    def restricted(self, space: StateSpace, permitted: Array | None = None) -> "Lattice":
        """The lattice without what the space forbids and, with `permitted` [T, S], what is ruled out by hand."""
        node, arc = self
        if not space.free:
            node = node.copy()
            node[0, ~space.start] = -np.inf
            node[-1, ~space.end] = -np.inf
            arc = np.where(space.arc, arc, -np.inf)
        if permitted is not None:
            node = np.where(permitted, node, -np.inf)
        return Lattice(node, arc)


class Posterior(NamedTuple):
    """Sums over all paths of a lattice (see kernels.inference.messages)."""

    states: Array  # [T, S]  P(s at t)
    log_beta: Array  # [T, S]  log of the sum over all ways to go on from s at t
    log_z: float


def posterior(lattice: Lattice) -> Posterior:
    """Probabilities of the states, backward messages and log Z."""
    states, log_beta = np.empty_like(lattice.node), np.empty_like(lattice.node)
    log_z = inference.messages(lattice.node, lattice.arc, states, log_beta)
    return Posterior(states, log_beta, float(log_z))


def best_path(lattice: Lattice) -> tuple[Array, float]:
    """The best states [T] and their score."""
    path = np.empty(len(lattice.node), np.int32)
    return path, float(inference.viterbi(lattice.node, lattice.arc, path))


def labelling_weight(lattice: Lattice, labels: Array, space: StateSpace) -> float:
    """log of the summed weight of all paths whose labels are these codes [T]."""
    return float(clamped.labelling_weight(lattice.node, lattice.arc, labels, space.first))


def label_marginals(states: Array, space: StateSpace) -> Array:
    """P(label at t) [T, L] from P(state at t) [T, S]."""
    summed: Array = np.add.reduceat(states, space.first[:-1], axis=1)
    return summed


def span_probability(
    lattice: Lattice, sums: Posterior, begin: int, end: int, moves: tuple[Array, Array, Array]
) -> float:
    """Probability of exactly this span; `moves` are the moves that open it, stay in it and close it."""
    p = inference.span_probability(lattice.node, lattice.arc, sums.states, sums.log_beta, begin, end, *moves)
    return min(1.0, float(p))
