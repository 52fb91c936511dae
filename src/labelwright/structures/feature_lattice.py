"""A graph of a user's own, before it is scored: arcs with a label and features.

Lattices as JSON lines: one object for each, with its arcs and, where it is known, the true path.

    {"arcs": [[0, 1, "word", {"text": "a"}], [0, 2, "word", ["ab", "known"]], [1, 2, "word", {}]],
     "path": [1]}

Further fields, as the text, are left alone; `n_nodes` is needed only where no arc leads to the last
node.

The arcs of a lattice over tokens as labels of the tokens: an arc is a chunk, and a path is a
labelling.

Node t of the lattice lies before token t.  An arc from a to b with the label X stands for a chunk
of type X of the tokens a to b - 1; one with the label O for a single token outside all chunks.  In
the schemes that can be written here a label depends on the arc alone and shows where chunks begin
and end, so that two paths never have the same labels. Labels that follow no scheme (NN, VB) are
those of arcs of one token.

The graphs of many lattices side by side, as arrays: what training and answers run over.

Without transitions the graph of a lattice is the lattice itself, its nodes numbered without gaps.
With them, every node v of the lattice becomes one node for each label that arcs into v have, and
one for each label that arcs out of v have; an arc between these, a *transition*, stands for a pair
of successive labels.  Arcs of the lattice stay as they are.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import ranges
from labelwright.corpus.compressed import Source, first_line_of, name_of, read_bytes
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.spans import Span, labels_of, spans_of
from labelwright.corpus.token_records import JsonLines, parse_json_lines
from labelwright.errors import CorpusError
from labelwright.parallel import computed_once
from labelwright.structures.dag import MOST_NODES, Dag
from labelwright.wording import shown

Array = NDArray[Any]
OUTSIDE = "O"
WRITABLE = ("iob2", "ioe2", "bioes", "bilou", "bmes")
FIRST, INNER, LAST, ONLY = range(4)  # places of a token in its arc
ARRIVING, LEAVING = 0, 1  # the two kinds of nodes with a label


class FeatureArc(NamedTuple):
    """An arc of a lattice."""

    source: int  #: the node that it leads from
    target: int  #: the node that it leads to, which has a larger number
    label: str  #: what it stands for, as "word" or a tag
    features: Any = ()  #: a dict of names and values, or a list of names


Ends = tuple[int, int, str]  # source, target and label of an arc


class FeatureLattice:
    """A graph whose paths, from node 0 to the last node, are the possible answers for one sentence.

    Nodes are numbered in topological order: every arc leads to a larger number, so that there is no
    cycle.  Arcs may stand in any order, and several may lead from one node to another.  Arcs that
    lie on no path do no harm.

    arcs : (source, target, label, features) of each arc; features are a dict of names and values,
        or a list of names
    n_nodes : the number of nodes; by default one more than the largest that an arc names

    >>> arcs = [(0, 1, "word", ["a"]), (1, 2, "word", ["b"]), (0, 2, "word", ["ab", "in list"])]
    >>> lattice = FeatureLattice(arcs)
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
            raise CorpusError(
                f"n_nodes: expected a whole number above {largest}, the largest node, got {got}"
            )
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
                f"arcs: no path leads from node 0 to the last node, {self.n_nodes - 1}; the "
                f"farthest that one comes is node {max(reached)}: add arcs from there on"
            )

    def __len__(self) -> int:
        """The number of arcs."""
        return len(self.arcs)

    def __repr__(self) -> str:
        return f"FeatureLattice({len(self.arcs)} arcs, {self.n_nodes} nodes)"

    # -- paths -------------------------------------------------------------------------------------

    def path(self, arcs: Iterable[Any]) -> list[int]:
        """The numbers of the arcs of a path, after a check that it is one.

        arcs : numbers of arcs, or (source, target, label) of each
        """
        path = [self._number(arc) for arc in arcs]
        node = 0
        for number in path:
            source, target = self.arcs[number][:2]
            if source != node:
                raise CorpusError(
                    f"arc {number}, {self._text(number)}, begins at node {source}, expected node "
                    f"{node}"
                )
            node = target
        if node != self.n_nodes - 1:
            raise CorpusError(
                f"the path ends at node {node}, expected the last node, {self.n_nodes - 1}"
            )
        return path

    def ends(self, path: Iterable[int]) -> list[Ends]:
        """Source, target and label of the arcs of a path.

        path : numbers of arcs
        """
        return [self.arcs[number][:3] for number in path]

    def labels(self, path: Iterable[int], scheme: str = "iob2") -> list[str]:
        """A path as labels of the steps from each node to the next, as `labelwright.evaluate` takes
        them: an arc from node a to node b is a chunk of the tokens a to b.

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
            raise CorpusError(
                f"expected the number of an arc, or (source, target, label), got {arc!r:.60}"
            ) from None
        if not numbers:
            raise CorpusError(
                f"no arc ({source!r}, {target!r}, {label!r}) in the lattice; add it, or leave the "
                "lattice out"
            )
        if len(numbers) > 1:
            raise CorpusError(
                f"arcs {numbers[0]} and {numbers[1]} are both {self._text(numbers[0])}; give a "
                "number"
            )
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
        raise CorpusError(
            f"arc {number}: expected (source, target, label, features), got {given!r:.60}"
        ) from None
    source, target, label, features = arc
    if not _is_whole(source) or not _is_whole(target) or min(source, target) < 0:
        got = f"{shown(source)} and {shown(target)}"
        raise CorpusError(f"arc {number}: expected two nodes, whole numbers from 0 on, got {got}")
    if max(source, target) >= MOST_NODES:
        raise CorpusError(
            f"arc {number}: expected nodes below {MOST_NODES:,}, got {shown(max(source, target))}; "
            "number the nodes of each lattice from 0 on"
        )
    if target <= source:
        raise CorpusError(
            f"arc {number} leads from node {source} to node {target}; number the nodes in "
            "topological order, so that every arc leads to a larger number and there is no cycle"
        )
    if not isinstance(label, str):
        raise CorpusError(f"arc {number}: expected a string as label, got {label!r:.60}")
    if isinstance(features, str):
        raise CorpusError(
            f"arc {number}: expected a dict or a list of features, got the string {features!r:.60}"
        )
    return arc


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


# -- lattices in files -----------------------------------------------------------------------------


class LatticeData(NamedTuple):
    """The lattices of a file, and their true paths: what `LatticeCRF.fit` takes."""

    X: list[FeatureLattice]  #: the lattices
    #: the true path of each: numbers of arcs, or [source, target, label] of each arc
    y: list[list[Any]]


def read_lattices(path: Source, paths: bool = True) -> LatticeData:
    """Read a file of JSON lines with `arcs` and `path`.

    path : a path, plain or compressed, or a binary file object
    paths : whether every lattice must have a path; without, those that are missing are empty

    >>> import io
    >>> X, y = read_lattices(io.BytesIO(b'{"arcs": [[0, 1, "word", ["a"]]], "path": [0]}'))
    >>> X, y
    ([FeatureLattice(1 arcs, 2 nodes)], [[0]])
    """
    return lattices_in(
        parse_json_lines(read_bytes(path), name_of(path), first_line_of(path)), paths
    )


def lattices_in(lines: JsonLines, paths: bool) -> LatticeData:
    """The lattices of JSON lines."""
    if not lines.objects:
        raise CorpusError(f"{lines.source}: no lattices, expected one JSON object per line")
    data = LatticeData([], [])
    for n, item in enumerate(lines.objects):
        try:
            data.X.append(_lattice(item))
            data.y.append(_path(item, paths))
        except CorpusError as error:
            raise CorpusError(f"{lines.place(n)}: {error}") from None
    return data


def _lattice(item: dict[str, Any]) -> FeatureLattice:
    arcs = item.get("arcs")
    if not isinstance(arcs, list):
        raise CorpusError('expected a list of arcs, as in "arcs": [[0, 1, "word", ["a"]]]')
    return FeatureLattice(arcs, item.get("n_nodes"))


def _path(item: dict[str, Any], required: bool) -> list[Any]:
    path = item.get("path", None if required else [])
    if not isinstance(path, list):
        raise CorpusError('expected the true path, numbers of arcs, as in "path": [0, 2]')
    return path


# -- arcs as labels of tokens ----------------------------------------------------------------------


class ArcTokens(NamedTuple):
    """Every token of every arc."""

    arc: Array  # [n]
    token: Array  # [n]
    label: Array  # [n]  code of the label that the arc gives the token


class ArcLabels(NamedTuple):
    """How arcs are written as labels of tokens."""

    scheme: str | None
    types: tuple[str, ...]  # [K]  labels of arcs
    labels: tuple[str, ...]  # [L]  labels of tokens
    code: Array  # [K, 4]  label of the first, inner, last and only token of an arc

    def tokens(self, source: Array, target: Array, kind: Array) -> ArcTokens:
        """The tokens of arcs with these ends and codes of labels [A]."""
        sizes = target - source
        arc, token = np.repeat(np.arange(len(sizes)), sizes), ranges(source, sizes)
        place = np.where(
            token == source[arc], FIRST, np.where(token == target[arc] - 1, LAST, INNER)
        )
        place = np.where(sizes[arc] == 1, ONLY, place)
        return ArcTokens(arc, token, self.code[kind[arc], place])


@lru_cache(maxsize=64)
def arc_labels(types: tuple[str, ...], scheme: str | None) -> ArcLabels:
    """How arcs with these labels are written in a scheme; None: as their own labels.

    >>> arc_labels(("word", "O"), "iob2").labels
    ('B-word', 'I-word', 'O')
    """
    index: dict[str, int] = {}
    code = np.zeros((len(types), 4), np.int32)
    for k, kind in enumerate(types):
        long, only = [kind] * 3, [kind]
        if scheme is not None and kind != OUTSIDE:
            long, only = (labels_of([Span(0, n, kind)], n, scheme) for n in (3, 1))
        code[k] = [index.setdefault(label, len(index)) for label in (*long, *only)]
    return ArcLabels(scheme, types, tuple(index), code)


def ends_of(labels: Sequence[str], scheme: str | None) -> list[Ends]:
    """The arcs of the path that a labelling stands for.

    >>> ends_of(["B-word", "I-word", "O"], "iob2")
    [(0, 2, 'word'), (2, 3, 'O')]
    """
    if scheme is None:
        return [(t, t + 1, label) for t, label in enumerate(labels)]
    arcs: list[Ends] = [span[:3] for span in spans_of(labels)]
    inside = {t for start, end, _ in arcs for t in range(start, end)}
    arcs += [(t, t + 1, OUTSIDE) for t in range(len(labels)) if t not in inside]
    return sorted(arcs)


# -- graphs of many lattices side by side ----------------------------------------------------------


class LatticeArcs(NamedTuple):
    """The arcs of lattices, those of each in the order of the user."""

    source: Array  # [A]  nodes, counted within each lattice
    target: Array  # [A]
    label: Array  # [A]  codes; L: a label that the model does not know
    offsets: Array  # [N+1]  arcs of lattice n: offsets[n]:offsets[n+1]
    n_nodes: Array  # [N]


class ArcGraphs(NamedTuple):
    """The graphs of lattices, arcs in topological order."""

    source: Array  # [E] int32  nodes, counted within each graph
    target: Array  # [E] int32
    arc: Array  # [E]  which arc of all lattices it is; -1: a transition
    # [E]  codes of the two labels of a transition, first * (L + 1) + second; -1: an arc of the
    # lattice
    pair: Array
    ptr: Array  # [N+1]  arcs of graph n: ptr[n]:ptr[n+1]
    n_nodes: Array  # [N]
    n_sources: Array  # [N]  so many first nodes are sources,
    n_sinks: Array  # [N]  and so many last ones are sinks

    def dag(self, n: int) -> Dag:
        """The graph of lattice n."""
        a, b = self.ptr[n : n + 2].tolist()
        Q = int(self.n_nodes[n])
        every = np.arange(Q, dtype=np.int32)
        ends = every[: self.n_sources[n]], every[Q - self.n_sinks[n] :]
        return Dag(self.source[a:b], self.target[a:b], Q, *ends)


def graphs_of(arcs: LatticeArcs, n_labels: int | None) -> ArcGraphs:
    """The graphs of lattices, with transitions between so many labels (and unknown ones); None:
    without transitions. Their nodes are those in use: numbers of the user may have gaps."""
    base = offsets_from(arcs.n_nodes)
    of_arc = np.repeat(base[:-1], np.diff(arcs.offsets))
    source, target = of_arc + arcs.source, of_arc + arcs.target  # nodes of all lattices
    if n_labels is None:
        return _plain(arcs, source, target, base)
    return _with_pairs(arcs, source, target, base, n_labels + 1)


def _plain(arcs: LatticeArcs, source: Array, target: Array, base: Array) -> ArcGraphs:
    A = len(source)
    # each lattice has its node 0, with arcs or without
    every = np.concatenate([source, target, base[:-1]])
    nodes, number = np.unique(every, return_inverse=True)
    first = np.searchsorted(nodes, base)
    shift, order = np.repeat(first[:-1], np.diff(arcs.offsets)), np.argsort(source, kind="stable")
    begin, end = (
        (x - shift)[order].astype(np.int32) for x in np.split(number.reshape(-1)[: 2 * A], 2)
    )
    one = np.ones_like(arcs.n_nodes)
    return ArcGraphs(
        begin, end, order, np.full(len(order), -1), arcs.offsets, np.diff(first), one, one
    )


def _with_pairs(arcs: LatticeArcs, source: Array, target: Array, base: Array, K: int) -> ArcGraphs:
    """The nodes of a graph are sorted by the node of the lattice, arriving before leaving, then by
    label."""
    leaving = (2 * source + LEAVING) * K + arcs.label
    arriving = (2 * target + ARRIVING) * K + arcs.label
    nodes, number = np.unique(np.concatenate([leaving, arriving]), return_inverse=True)
    begin, end = np.split(number.reshape(-1), 2)
    place = nodes // K  # twice the node of the lattice, and the kind
    arrivals = np.flatnonzero(place % 2 == ARRIVING)
    follow, beyond = (
        np.searchsorted(place, place[arrivals] + LEAVING, side) for side in ("left", "right")
    )
    sizes = beyond - follow  # labels that may follow
    before, after = np.repeat(arrivals, sizes), ranges(follow, sizes)
    pair = nodes[before] % K * K + nodes[after] % K
    # Transitions within a node of the lattice come before the arcs out of it.
    key = np.concatenate([2 * source + LEAVING, place[before]])
    order = np.argsort(key, kind="stable")
    ptr, first = np.searchsorted(key[order], 2 * base), np.searchsorted(place, 2 * base)
    shift = np.repeat(first[:-1], np.diff(ptr))
    ends = (begin, before), (end, after)
    from_node, to_node = ((np.concatenate(x)[order] - shift).astype(np.int32) for x in ends)
    no_pair, no_arc = np.full(len(source), -1), np.full(len(before), -1)
    arc, pair = (
        np.concatenate([np.arange(len(source)), no_arc])[order],
        np.concatenate([no_pair, pair])[order],
    )
    n_sources = np.searchsorted(place, 2 * base[:-1] + LEAVING, "right") - first[:-1]
    n_sinks = first[1:] - np.searchsorted(place, 2 * (base[1:] - 1), "left")
    return ArcGraphs(from_node, to_node, arc, pair, ptr, np.diff(first), n_sources, n_sinks)
