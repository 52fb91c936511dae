"""Scored lattices of a user's own: every answer is about paths, which are lists of numbers of arcs."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import CorpusError, OptionError
from labelwright.parallel import computed_once
from labelwright.structures import dag
from labelwright.structures.feature_lattice import FeatureLattice

Array = NDArray[Any]


class LatticePath(NamedTuple):
    """A path through a lattice and what is known about it."""

    arcs: list[int]  #: the numbers of its arcs
    score: float  #: of the path, before normalisation
    log_probability: float  #: log P(path | lattice)


class ScoredLattice:
    """One lattice with its scores; made by `LatticeCRF.scored`.

    lattice : the lattice
    graph : its graph, with transitions between labels or without
    scores : [E]  of the arcs of the graph
    arc : [E]  which arc of the lattice each is; -1: a transition
    """

    def __init__(self, lattice: FeatureLattice, graph: dag.Dag, scores: Array, arc: Array):
        self.lattice, self.graph, self.scores, self.arc = lattice, graph, scores, arc

    def __len__(self) -> int:
        """The number of arcs of the lattice."""
        return len(self.lattice)

    @computed_once
    def _sums(self) -> dag.Sums:
        return dag.sums(self.graph, self.scores) if len(self.scores) else dag.Sums(0.0, np.empty(0))

    def log_z(self) -> float:
        """The logarithm of the summed weight exp(score) of all paths; minus infinity where there is none."""
        return self._sums.log_z

    def best(self, n: int = 1) -> list[LatticePath]:
        """Up to n paths, the best first.

        n : how many
        """
        if not len(self.scores):
            return [LatticePath([], 0.0, 0.0)]
        if n == 1:
            arcs, score = self.best_arcs()
            return [self._path(arcs, score)] if arcs else []
        paths, scores = dag.best_paths(self.graph, self.scores, n)
        return [self._path(self._on_lattice(path), score) for path, score in zip(paths, scores.tolist(), strict=True)]

    def best_arcs(self) -> tuple[list[int], float]:
        """The numbers of the arcs of the best path and its score; no arcs and minus infinity where there is none.  This
        needs no sums over paths."""
        path, score = dag.best_path(self.graph, self.scores)
        return self._on_lattice(path), score

    def _path(self, arcs: list[int], score: float) -> LatticePath:
        return LatticePath(arcs, score, min(0.0, score - self.log_z()))

    def _on_lattice(self, path: Array) -> list[int]:
        """The arcs of the lattice on a path of the graph."""
        arcs: list[int] = [arc for arc in self.arc[path].tolist() if arc >= 0]
        return arcs

    def marginals(self) -> Array:
        """P(arc) of the arcs of the lattice [A]."""
        marginals = np.zeros(len(self.lattice))
        is_arc = self.arc >= 0
        marginals[self.arc[is_arc]] = self._sums.arcs[is_arc]
        return marginals

    def weight_of(self, path: Iterable[Any]) -> float:
        """The score of a path.

        path : numbers of arcs, or (source, target, label) of each
        """
        given = self.lattice.path(path)
        return float(self.scores[graph_arcs(self.graph, self.arc, given)].sum())

    def entropy(self) -> float:
        """The entropy of all paths in nats."""
        return dag.entropy(self.graph, self.scores) if len(self.scores) else 0.0

    def sample(self, n: int, random_state: Any = None) -> list[list[int]]:
        """n paths, drawn from their probabilities.

        n : how many
        random_state : a seed, or a generator of NumPy
        """
        if not len(self.scores):
            return [[] for _ in range(n)]
        return [self._on_lattice(path) for path in dag.sample(self.graph, self.scores, n, random_state)]

    def restricted(self, allowed: Any) -> "ScoredLattice":
        """The same lattice with only the paths whose arcs are all allowed.

        allowed : a truth value for each arc of the lattice
        """
        permitted = np.asarray(allowed)
        if permitted.shape != (len(self.lattice),) or permitted.dtype != np.bool_:
            raise OptionError(f"allowed: expected {len(self.lattice)} truth values, one for each arc")
        kept = (self.arc < 0) | np.append(permitted, True)[self.arc]
        return ScoredLattice(self.lattice, self.graph, np.where(kept, self.scores, -np.inf), self.arc)


def graph_arcs(graph: dag.Dag, arc: Array, path: list[int]) -> Array:
    """The arcs of a graph on a path of its lattice, transitions among them; `arc` [E] as in ScoredLattice."""
    place = np.full(int(arc.max(initial=-1)) + 1, -1)
    place[arc[arc >= 0]] = np.flatnonzero(arc >= 0)
    arcs = place[np.array(path, np.int64)]
    if (arc >= 0).all():
        return arcs
    before, after = graph.target[arcs[:-1]], graph.source[arcs[1:]]  # what transitions lead from and to
    is_pair = np.flatnonzero(arc < 0)
    code = graph.source[is_pair].astype(np.int64) * graph.n_nodes + graph.target[is_pair]
    order = np.argsort(code)
    wanted = before.astype(np.int64) * graph.n_nodes + after
    return np.concatenate([arcs, is_pair[order[np.searchsorted(code, wanted, sorter=order)]]])


def checked_path(lattice: FeatureLattice, given: Any, number: int) -> list[int]:
    """The path that was given for a lattice, in an error with the number of the lattice."""
    try:
        return lattice.path(given)
    except CorpusError as error:
        raise CorpusError(f"y: lattice {number}: {error}") from None
    except TypeError:
        raise CorpusError(f"y: lattice {number}: expected a list of arcs, got {given!r:.60}") from None
