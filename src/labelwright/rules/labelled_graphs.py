"""Scored sentences of any structure as one graph: every path is a labelling, and every arc reads at most one token.

chain lattice     begin -> (0, q) -> (1, q) -> ...          the arc into (t, q) reads token t with the label of q
segment graph     a segment of d tokens is d arcs through nodes of its own; the last one has its score
proposals         as decode.csi lays them out: a node is what the tokens before have chosen
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.kernels import dag as kernels
from labelwright.structures.dag import Dag
from labelwright.structures.lattice import Lattice
from labelwright.structures.segments import PLACES, TOUCHY, Arcs, SegmentSpace, label_table

Array = NDArray[Any]


class LabelledArcs(NamedTuple):
    """Arcs in topological order, those of a token together: first those that read nothing, then those that read it.

    All have finite scores."""

    source: Array  # [A]
    target: Array  # [A]
    score: Array  # [A]
    label: Array  # [A]  code of the label of the token that it reads; -1: none
    token: Array  # [A]  of an arc that reads none: the next one

    def taken(self, which: Array | slice) -> "LabelledArcs":
        """Some of the arcs, in order."""
        return LabelledArcs(*(array[which] for array in self))


class GraphSums(NamedTuple):
    """Sums over all paths of a graph."""

    log_z: float
    behind: Array  # [Q]  log of the summed weight of the paths from each node to the end
    arcs: Array  # [A]  P(arc)


class LabelledGraph(NamedTuple):
    """Arcs whose paths, from node 0 to one of the sinks, are labellings."""

    arcs: LabelledArcs
    n_nodes: int
    sinks: Array

    def losses(self) -> tuple[Array, float]:
        """How much worse the best path through each arc is than the best of all [A], and the score of that."""
        source, target, score = self.arcs[:3]
        ends = source.astype(np.int32), target.astype(np.int32)
        ahead, behind = np.empty((2, self.n_nodes))
        kernels.best_scores(*ends, score, np.zeros(1, np.int32), ahead)
        backwards = (np.ascontiguousarray(array[::-1]) for array in (ends[1], ends[0], score))
        kernels.best_scores(*backwards, self.sinks.astype(np.int32), behind)
        best = float(ahead[self.sinks].max(initial=-np.inf))
        if best == -np.inf:
            return np.full(len(score), np.inf), best
        return best - (ahead[source] + score + behind[target]), best

    def sums(self) -> GraphSums:
        """The sums over all paths."""
        source, target, score = self.arcs[:3]
        ends = np.zeros(1, np.int32), self.sinks.astype(np.int32)
        (best, alpha, beta), arcs = np.empty((3, self.n_nodes)), np.empty(len(score))
        log_z = kernels.posteriors_in_log_space(
            source.astype(np.int32), target.astype(np.int32), score, *ends, best, alpha, beta, arcs
        )
        reached = np.isfinite(best)
        behind = np.where(reached, beta + best[self.sinks].max(initial=-np.inf) - np.where(reached, best, 0.0), -np.inf)
        return GraphSums(float(log_z), behind, arcs)

    def candidates(self, labels: Sequence[str], T: int) -> list[list[str]]:
        """The labels that each token may have."""
        rows: list[list[str]] = [[] for _ in range(T)]
        for token, label in np.unique(np.stack([self.arcs.token, self.arcs.label]), axis=1).T.tolist():
            if label >= 0:
                rows[token].append(labels[label])
        return rows


def _graph(parts: Sequence[LabelledArcs], n_nodes: int, sinks: Array) -> LabelledGraph:
    """The graph of arcs in any order, without those that are forbidden."""
    arcs = LabelledArcs(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    order = np.argsort(2 * arcs.token + (arcs.label >= 0), kind="stable")
    return LabelledGraph(arcs.taken(order[np.isfinite(arcs.score[order])]), n_nodes, sinks)


def graph_of_lattice(lattice: Lattice) -> LabelledGraph:
    """The paths of a chain lattice; node 1 + t * Q + q of the graph is (t, q)."""
    node, arc, graph = lattice
    T, Q = len(node), graph.n_nodes
    label_of = graph.label_of_node.astype(np.int64)
    source, target = graph.ends
    inside = np.flatnonzero((source < Q) & (target < Q))  # rows of arcs may be padded
    r, s = source[inside], target[inside]
    every = np.arange(Q)
    parts = [LabelledArcs(every * 0, 1 + every, node[0, :Q], label_of, every * 0)]
    for t in range(1, T):
        score = arc[t if len(arc) > 1 else 0][inside] + node[t, s]
        kept = np.flatnonzero(np.isfinite(score))
        first = 1 + (t - 1) * Q
        to = s[kept]
        parts.append(LabelledArcs(first + r[kept], first + Q + to, score[kept], label_of[to], np.full(len(kept), t)))
    return _graph(parts, 1 + T * Q, 1 + (T - 1) * Q + every)


def graph_of_segments(arcs: Arcs, scores: Array, space: SegmentSpace) -> LabelledGraph:
    """Segmentations: transitions read nothing; a segment of several tokens goes through nodes of its own, which it
    shares with longer ones from the same token on."""
    if space.scheme in TOUCHY:
        raise OptionError(
            f"constraints: in {space.scheme} the labels of a segment depend on its neighbours, so a SemiCRF takes no "
            "rules on them; use iob2 labels (labelwright convert)"
        )
    first, length, kind = (array.astype(np.int64) for array in (arcs.first, arcs.length, arcs.kind))
    source, target, n_nodes = arcs.dag.source.astype(np.int64), arcs.dag.target.astype(np.int64), arcs.dag.n_nodes
    inner = _InnerNodes(space, n_nodes, n_nodes // (2 * space.n_types))
    label = {place: label_table(space)[0, :, PLACES.index(place)] for place in PLACES}
    none, one, long = length == 0, length == 1, length > 1
    parts = [
        LabelledArcs(source[none], target[none], scores[none], kind[none] * 0 - 1, first[none]),
        LabelledArcs(source[one], target[one], scores[one], label["S"][kind[one]], first[one]),
        LabelledArcs(
            inner.node(first[long], kind[long], length[long] - 1),
            target[long],
            scores[long],
            label["E"][kind[long]],
            first[long] + length[long] - 1,
        ),
        *inner.arcs(label["B"], label["I"]),
    ]
    return _graph(parts, inner.end, arcs.dag.sinks.astype(np.int64))


class _InnerNodes:
    """Nodes inside segments: of each type that may be long, from each token on, after each number of tokens."""

    def __init__(self, space: SegmentSpace, first: int, T: int):
        (self.S, self.n_long, self.longest), self.T, self.first = space.shape, T, first

    @property
    def end(self) -> int:
        return self.first + self.T * self.n_long * self.longest

    def node(self, start: Array, kind: Array, n_read: Array) -> Array:
        """The node of a segment from `start` on of which so many tokens are read, 1 or more."""
        return np.asarray(self.first + (start * self.n_long + kind) * self.longest + n_read - 1)

    def arcs(self, opening: Array, going: Array) -> list[LabelledArcs]:
        """The arcs into these nodes: they read the first label of a segment, or an inner one, and cost nothing."""
        start, kind, n_read = (array.reshape(-1) for array in np.indices((self.T, self.n_long, self.longest)))
        parts = []
        for labels, chosen in (
            (opening, (n_read == 0) & (start + 1 < self.T) & (self.longest > 1)),
            (going, (n_read > 0) & (n_read + 1 < self.longest) & (start + n_read + 1 < self.T)),
        ):
            i, x, k = start[chosen], kind[chosen], n_read[chosen]
            begin = 1 + 2 * i * self.S + x  # as kernels.segments numbers them
            source = np.where(k == 0, begin, self.node(i, x, k))
            parts.append(LabelledArcs(source, self.node(i, x, k + 1), np.zeros(len(i)), labels[x], i + k))
        return parts


def graph_of_proposals(graph: Dag, score: Array, label: Array, T: int) -> LabelledGraph:
    """Labellings of candidates, whose arcs are in the order of tokens, from node 0 on."""
    source, target = graph.source.astype(np.int64), graph.target.astype(np.int64)
    token, begin, n_nodes = np.empty(len(source), np.int64), 0, 1
    for t in range(T):
        end = int(np.searchsorted(source, n_nodes))
        token[begin:end], n_nodes = t, int(target[begin:end].max()) + 1
        begin = end
    arcs = LabelledArcs(source, target, score, label.astype(np.int64), token)
    return _graph([arcs], n_nodes, graph.sinks.astype(np.int64))
