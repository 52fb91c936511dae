"""The best paths of a lattice in order (kernels/paths.py)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.checks import MOST, check_whole
from labelwright.kernels import paths as kernels
from labelwright.structures.lattice import Lattice

Array = NDArray[Any]


class SuffixPool(NamedTuple):
    """All suffixes made so far, and the queue of those still open."""

    priority: Array  # [P]  score of the best path with this suffix
    value: Array  # [P]  the score by which it was chosen among its siblings
    state: Array  # [P]
    parent: Array  # [P]
    depth: Array  # [P]  its first token
    heap: Array  # [P]
    counts: Array  # [4]
    last: Array  # [3]  score of the last path; mass and best probability (LDI)

    @classmethod
    def empty(cls, size: int) -> "SuffixPool":
        priority, value = np.empty((2, size))
        state, parent, depth, heap = np.empty((4, size), np.int32)
        return cls(priority, value, state, parent, depth, heap, np.zeros(4, np.int64), np.zeros(3))

    def grown(self, size: int) -> "SuffixPool":
        larger = SuffixPool.empty(size)
        for old, new in zip(self[:6], larger[:6], strict=True):
            new[: len(old)] = old
        return larger._replace(counts=self.counts, last=self.last)


def ranked(lattice: Lattice) -> kernels.Ranked:
    """A lattice as the search reads it."""
    node, arc, graph = lattice
    delta = np.empty_like(node)
    kernels.prefix_scores(node, arc, graph.blocks, delta)
    blocks = graph.blocks
    return kernels.Ranked(node, arc, delta, blocks.source_ptr, blocks.source, graph.origin, graph.contexts.base)


def best_paths(lattice: Lattice, n: int) -> tuple[Array, Array]:
    """Up to n best paths [n, T] of nodes in order, and their scores [n]."""
    check_whole("n", n, 1, MOST)
    T = len(lattice.node)
    paths, scores = np.empty((n, T), np.int32), np.empty(n)
    searched, pool = ranked(lattice), SuffixPool.empty(64 + 4 * T)
    while kernels.best_paths(searched, pool, paths, scores) == kernels.FULL:
        pool = pool.grown(2 * len(pool.heap))
    taken = int(pool.counts[kernels.TAKEN])
    return paths[:taken], scores[:taken]
