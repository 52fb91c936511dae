"""A graph of a user's own, before it is scored: arcs with a label and features."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelwright.corpus.spans import Span, labels_of
from labelwright.errors import CorpusError
from labelwright.locks import computed_once
from labelwright.structures.dag import MOST_NODES
from labelwright.wording import shown


class FeatureArc(NamedTuple):
    """An arc of a lattice."""

    source: int  #: the node that it leads from
    target: int  #: the node that it leads to, which has a larger number
    label: str  #: what it stands for, as "word" or a tag
    features: Any = ()  #: a dict of names and values, or a list of names


Ends = tuple[int, int, str]  # source, target and label of an arc


class FeatureLattice:
    """A graph whose paths, from node 0 to the last node, are the possible answers for one sentence.

    Nodes are numbered in topological order: every arc leads to a larger number, so that there is no cycle.  Arcs may
    stand in any order, and several may lead from one node to another.  Arcs that lie on no path do no harm.

    arcs : (source, target, label, features) of each arc; features are a dict of names and values, or a list of names
    n_nodes : the number of nodes; by default one more than the largest that an arc names

    >>> lattice = FeatureLattice([(0, 1, "word", ["a"]), (1, 2, "word", ["b"]), (0, 2, "word", ["ab", "in list"])])
    >>> lattice.path([(0, 1, "word"), (1, 2, "word")])
    [0, 1]
    >>> lattice.labels([2]), lattice.labels([0, 1])
    (['B-word', 'I-word'], ['B-word', 'B-word'])
    """

    def __init__(self, arcs: Iterable[Sequence[Any]], n_nodes: int | None = None):
        self.arcs = [_read_arc(number, arc) for number, arc in enumerate(arcs)]
        largest = max((arc.target for arc in self.arcs), default=0)
        if n_nodes is not None and (not _is_whole(n_nodes) or not largest < n_nodes <= MOST_NODES):
            got = shown(n_nodes)
            raise CorpusError(f"n_nodes: expected a whole number above {largest}, the largest node, got {got}")
        self.n_nodes = largest + 1 if n_nodes is None else int(n_nodes)
        self._check_reachable()

    def _check_reachable(self) -> None:
        """Refuse a lattice without any path."""
        reached = {0}
        for source, target in sorted([arc[:2] for arc in self.arcs]):
            if source in reached:
                reached.add(target)
        if self.n_nodes - 1 not in reached:
            raise CorpusError(
                f"arcs: no path leads from node 0 to the last node, {self.n_nodes - 1}; the farthest that one comes is "
                f"node {max(reached)}: add arcs from there on"
            )

    def __len__(self) -> int:
        """The number of arcs."""
        return len(self.arcs)

    def __repr__(self) -> str:
        return f"FeatureLattice({len(self.arcs)} arcs, {self.n_nodes} nodes)"

    # -- paths ------------------------------------------------------------------------------------------------------

    def path(self, arcs: Iterable[Any]) -> list[int]:
        """The numbers of the arcs of a path, after a check that it is one.

        arcs : numbers of arcs, or (source, target, label) of each
        """
        path = [self._number(arc) for arc in arcs]
        node = 0
        for number in path:
            source, target = self.arcs[number][:2]
            if source != node:
                raise CorpusError(f"arc {number}, {self._text(number)}, begins at node {source}, expected node {node}")
            node = target
        if node != self.n_nodes - 1:
            raise CorpusError(f"the path ends at node {node}, expected the last node, {self.n_nodes - 1}")
        return path

    def ends(self, path: Iterable[int]) -> list[Ends]:
        """Source, target and label of the arcs of a path.

        path : numbers of arcs
        """
        return [self.arcs[number][:3] for number in path]

    def labels(self, path: Iterable[int], scheme: str = "iob2") -> list[str]:
        """A path as labels of the steps from each node to the next, as `labelwright.evaluate` takes them: an arc from
        node a to node b is a chunk of the tokens a to b.

        path : numbers of arcs
        scheme : the label scheme to write
        """
        return labels_of([Span(*ends) for ends in self.ends(path)], self.n_nodes - 1, scheme)

    def _number(self, arc: Any) -> int:
        """The number of an arc that is named by it, or by its ends and label."""
        if _is_whole(arc):
            if not 0 <= arc < len(self.arcs):
                raise CorpusError(f"no arc {arc}, expected a number of 0 to {len(self.arcs) - 1}")
            return int(arc)
        try:
            source, target, label = arc[:3]
            numbers = self._numbers.get((source, target, label), [])
        except (TypeError, ValueError):
            raise CorpusError(f"expected the number of an arc, or (source, target, label), got {arc!r:.60}") from None
        if not numbers:
            raise CorpusError(
                f"no arc ({source!r}, {target!r}, {label!r}) in the lattice; add it, or leave the lattice out"
            )
        if len(numbers) > 1:
            raise CorpusError(f"arcs {numbers[0]} and {numbers[1]} are both {self._text(numbers[0])}; give a number")
        return numbers[0]

    @computed_once
    def _numbers(self) -> dict[Ends, list[int]]:
        """The arcs with the same ends and label."""
        numbers: dict[Ends, list[int]] = {}
        for number, arc in enumerate(self.arcs):
            numbers.setdefault(arc[:3], []).append(number)
        return numbers

    def _text(self, number: int) -> str:
        source, target, label, _ = self.arcs[number]
        return f"({source}, {target}, {label!r})"


def _read_arc(number: int, given: Any) -> FeatureArc:
    """An arc as it was given; its features are read when lattices are encoded."""
    try:
        arc = FeatureArc(*given)
    except TypeError:
        raise CorpusError(f"arc {number}: expected (source, target, label, features), got {given!r:.60}") from None
    source, target, label, features = arc
    if not _is_whole(source) or not _is_whole(target) or min(source, target) < 0:
        got = f"{shown(source)} and {shown(target)}"
        raise CorpusError(f"arc {number}: expected two nodes, whole numbers from 0 on, got {got}")
    if max(source, target) >= MOST_NODES:
        raise CorpusError(
            f"arc {number}: expected nodes below {MOST_NODES:,}, got {shown(max(source, target))}; number the nodes of "
            "each lattice from 0 on"
        )
    if target <= source:
        raise CorpusError(
            f"arc {number} leads from node {source} to node {target}; number the nodes in topological order, so that "
            "every arc leads to a larger number and there is no cycle"
        )
    if not isinstance(label, str):
        raise CorpusError(f"arc {number}: expected a string as label, got {label!r:.60}")
    if isinstance(features, str):
        raise CorpusError(f"arc {number}: expected a dict or a list of features, got the string {features!r:.60}")
    return arc


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
