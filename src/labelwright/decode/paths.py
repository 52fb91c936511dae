"""The best paths of a lattice in order (kernels/paths.py)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.options import MOST, check_whole
from labelwright.kernels import paths as kernels
from labelwright.structures.graph import Graph
from labelwright.structures.lattice import Lattice

Array = NDArray[Any]


class Pool(NamedTuple):
    """All suffixes made so far, and the queue of those still open."""

    priority: Array  # [M]  score of the best path with this suffix
    suffix: Array  # [M]  score of what lies behind its first state
    value: Array  # [M]  by which it was chosen among its siblings
    state: Array  # [M]
    parent: Array  # [M]
    depth: Array  # [M]  its first token
    heap: Array  # [M]
    counts: Array  # [4]
    last: Array  # [3]  score of the last path; mass and best probability (LDI)

    @classmethod
    def empty(cls, room: int) -> "Pool":
        priority, suffix, value = np.empty((3, room))
        state, parent, depth, heap = np.empty((4, room), np.int32)
        return cls(priority, suffix, value, state, parent, depth, heap, np.zeros(4, np.int64), np.zeros(3))

    def grown(self, room: int) -> "Pool":
        larger = Pool.empty(room)
        for old, new in zip(self[:7], larger[:7], strict=True):
            new[: len(old)] = old
        return larger._replace(counts=self.counts, last=self.last)


def moves_of(graph: Graph) -> kernels.Moves:
    """The graph as the search reads it."""
    return kernels.Moves(graph.blocks.source_ptr, graph.blocks.source, graph.origin, graph.contexts.base)


def best_paths(lattice: Lattice, n: int) -> tuple[Array, Array]:
    """Up to n best paths [n, T] of nodes in order, and their scores [n]."""
    check_whole("n", n, 1, MOST)
    node, arc, graph = lattice
    T = len(node)
    paths, scores, delta = np.empty((n, T), np.int32), np.empty(n), np.empty_like(node)
    moves = moves_of(graph)
    kernels.prefix_scores(node, arc, graph.blocks, delta)
    pool = Pool.empty(64 + 4 * T)
    while kernels.best_paths(node, arc, moves, delta, pool, paths, scores) == kernels.FULL:
        pool = pool.grown(2 * len(pool.heap))
    found = int(pool.counts[kernels.TAKEN])
    return paths[:found], scores[:found]
