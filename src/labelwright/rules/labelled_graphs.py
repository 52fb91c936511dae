"""Scored sentences of any structure as one graph: every path is a labelling, and every arc reads at most one token.

    chain lattice     begin -> (0, q) -> (1, q) -> ...          the arc into (t, q) reads token t with the label of q
    segment graph     a segment of d tokens is d arcs through nodes of its own; the last one has its score
    proposals         as decode.csi lays them out: a node is what the tokens before have chosen
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import dag as kernels
from labelwright.structures.lattice import Lattice
from labelwright.structures.segments import PLACES, TOUCHY, Arcs, SegmentSpace, label_table

Array = NDArray[Any]


class LabelledGraph(NamedTuple):
    """Arcs in topological order, those of a token together: first those that read nothing, then those that read it.

    All arcs have finite scores."""

    source: Array  # [A]
    target: Array  # [A]
    score: Array  # [A]
    label: Array  # [A]  code of the label of the token that it reads; -1: none
    token: Array  # [A]  of an arc that reads none: the next one
    origin: Array  # [A]  the arc of the structure that has its score; -1: none
    n_nodes: int
    sinks: Array  # nodes where paths end; they begin at node 0

    @property
    def n_tokens(self) -> int:
        return int(self.token[-1]) + 1 if len(self.token) else 0

    def with_arcs(self, kept: Array | slice) -> "LabelledGraph":
        """The graph of these arcs alone (in order)."""
        return LabelledGraph(*(array[kept] for array in self[:6]), self.n_nodes, self.sinks)

    def losses(self) -> tuple[Array, float]:
        """How much worse the best path through each arc is than the best of all [A], and the score of that."""
        ends = self.source.astype(np.int32), self.target.astype(np.int32)
        ahead, behind = np.empty((2, self.n_nodes))
        kernels.best_scores(*ends, self.score, np.zeros(1, np.int32), ahead)
        turned = (np.ascontiguousarray(array[::-1]) for array in (ends[1], ends[0], self.score))
        kernels.best_scores(*turned, self.sinks.astype(np.int32), behind)
        best = float(ahead[self.sinks].max(initial=-np.inf))
        if best == -np.inf:
            return np.full(len(self.score), np.inf), best
        return best - (ahead[self.source] + self.score + behind[self.target]), best


def _ordered(columns: list[tuple[Array, ...]], n_nodes: int, sinks: Array) -> LabelledGraph:
    """The graph of arcs (source, target, score, label, token, origin) in any order, without those that are forbidden."""
    source, target, score, label, token, origin = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.argsort(2 * token + (label >= 0), kind="stable")
    order = order[np.isfinite(score[order])]
    arrays = (array[order] for array in (source, target, score, label, token, origin))
    return LabelledGraph(*arrays, n_nodes, sinks)


def graph_of_lattice(lattice: Lattice) -> LabelledGraph:
    """Paths of a chain lattice; `origin` is the number t * Q + q of the node (t, q) that an arc leads to, and node
    1 + t * Q + q of the graph is (t, q)."""
    node, arc, graph = lattice
    T, Q = len(node), graph.n_nodes
    of = graph.label_of_node
    source, target = graph.ends
    inside = np.flatnonzero((source < Q) & (target < Q))  # rows of arcs may be padded
    r, s = source[inside], target[inside]
    every = np.arange(Q)
    columns = [(every * 0, 1 + every, node[0, :Q], of, every * 0, every)]
    for t in range(1, T):
        score = arc[t if len(arc) > 1 else 0][inside] + node[t, s]
        kept = np.flatnonzero(np.isfinite(score))
        to = t * Q + s[kept]
        columns.append((1 + (t - 1) * Q + r[kept], 1 + to, score[kept], of[s[kept]], np.full(len(kept), t), to))
    return _ordered(columns, 1 + T * Q, 1 + (T - 1) * Q + every)


def graph_of_segments(arcs: Arcs, scores: Array, space: SegmentSpace) -> LabelledGraph:
    """Segmentations; `origin` is the arc of the segment graph."""
    first, d, kind = (array.astype(np.int64) for array in (arcs.first, arcs.length, arcs.kind))
    L, n, D = space.n_types, space.n_long, space.max_length
    T = int(arcs.dag.n_nodes // (2 * L))
    begin, single, inner, last = (label_table(space)[0, :, PLACES.index(place)] for place in "BSIE")
    number = np.arange(len(first))
    columns = []

    def inside(start: Array, x: Array, k: Array) -> Array:
        """The node of a segment of x from `start` on, of which k tokens are read."""
        return arcs.dag.n_nodes + ((start * n + x) * D + k - 1)

    none = d == 0
    columns.append((arcs.dag.source[none], arcs.dag.target[none], scores[none], kind[none] * 0 - 1, first[none], number[none]))
    one = d == 1
    ends = arcs.dag.source[one], arcs.dag.target[one]
    columns.append((*ends, scores[one], single[kind[one]], first[one], number[one]))
    long = d > 1
    closing = inside(first[long], kind[long], d[long] - 1), arcs.dag.target[long]
    columns.append((*closing, scores[long], last[kind[long]], first[long] + d[long] - 1, number[long]))
    if D > 1 and n:
        start, x = (array.reshape(-1) for array in np.indices((T, n)))
        opening = 1 + 2 * start * L + x, inside(start, x, start * 0 + 1)
        columns.append((*opening, start * 0.0, begin[x], start, start * 0 - 1))
        start, x, k = (array.reshape(-1) for array in np.indices((T, n, D)))
        going = (k >= 1) & (k < D - 1) & (start + k < T)
        start, x, k = start[going], x[going], k[going]
        columns.append((inside(start, x, k), inside(start, x, k + 1), k * 0.0, inner[x], start + k, k * 0 - 1))
    return _ordered(columns, arcs.dag.n_nodes + T * n * D, arcs.dag.sinks)


def can_label(space: SegmentSpace) -> bool:
    """Do the labels of a segment depend on nothing but its type and length?"""
    return (space.scheme or "") not in TOUCHY


def graph_of_proposals(source: Array, target: Array, score: Array, label: Array, T: int) -> LabelledGraph:
    """Labellings of candidates, whose arcs are in the order of tokens, from one node on."""
    token = np.empty(len(source), np.int64)
    done, nodes = 0, 1
    for t in range(T):
        end = int(np.searchsorted(source, nodes))
        token[done:end] = t
        done, sinks = end, np.arange(nodes, int(target[end - 1]) + 1)
        nodes = int(target[:end].max()) + 1
    columns = [(source.astype(np.int64), target.astype(np.int64), score, label.astype(np.int64), token, np.arange(len(source)))]
    return _ordered(columns, nodes, np.unique(target[token == T - 1]))
