"""The graphs of many lattices side by side, as arrays: what training and answers run over.

Without transitions the graph of a lattice is the lattice itself, its nodes numbered without gaps.  With them, every
node v of the lattice becomes one node for each label that arcs into v have, and one for each label that arcs out of v
have; an arc between these, a *transition*, stands for a pair of successive labels.  Arcs of the lattice stay as they
are.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.structures.dag import Dag

Array = NDArray[Any]
ARRIVING, LEAVING = 0, 1  # the two kinds of nodes with a label


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
    pair: Array  # [E]  codes of the two labels of a transition, first * (L + 1) + second; -1: an arc of the lattice
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
    """The graphs of lattices, with transitions between so many labels (and unknown ones); None: without transitions.
    Their nodes are those in use: numbers of the user may have gaps."""
    base = offsets_from(arcs.n_nodes)
    of_arc = np.repeat(base[:-1], np.diff(arcs.offsets))
    source, target = of_arc + arcs.source, of_arc + arcs.target  # nodes of all lattices
    if n_labels is None:
        return _plain(arcs, source, target, base)
    return _with_pairs(arcs, source, target, base, n_labels + 1)


def _plain(arcs: LatticeArcs, source: Array, target: Array, base: Array) -> ArcGraphs:
    A = len(source)
    every = np.concatenate([source, target, base[:-1]])  # each lattice has its node 0, with arcs or without
    nodes, number = np.unique(every, return_inverse=True)
    first = np.searchsorted(nodes, base)
    shift, order = np.repeat(first[:-1], np.diff(arcs.offsets)), np.argsort(source, kind="stable")
    begin, end = ((x - shift)[order].astype(np.int32) for x in np.split(number.reshape(-1)[: 2 * A], 2))
    one = np.ones_like(arcs.n_nodes)
    return ArcGraphs(begin, end, order, np.full(len(order), -1), arcs.offsets, np.diff(first), one, one)


def _with_pairs(arcs: LatticeArcs, source: Array, target: Array, base: Array, K: int) -> ArcGraphs:
    """The nodes of a graph are sorted by the node of the lattice, arriving before leaving, then by label."""
    leaving = (2 * source + LEAVING) * K + arcs.label
    arriving = (2 * target + ARRIVING) * K + arcs.label
    nodes, number = np.unique(np.concatenate([leaving, arriving]), return_inverse=True)
    begin, end = np.split(number.reshape(-1), 2)
    place = nodes // K  # twice the node of the lattice, and the kind
    arrivals = np.flatnonzero(place % 2 == ARRIVING)
    follow, beyond = (np.searchsorted(place, place[arrivals] + LEAVING, side) for side in ("left", "right"))
    sizes = beyond - follow  # labels that may follow
    before = np.repeat(arrivals, sizes)
    after = np.repeat(follow - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    pair = nodes[before] % K * K + nodes[after] % K
    # Transitions within a node of the lattice come before the arcs out of it.
    key = np.concatenate([2 * source + LEAVING, place[before]])
    order = np.argsort(key, kind="stable")
    ptr, first = np.searchsorted(key[order], 2 * base), np.searchsorted(place, 2 * base)
    shift = np.repeat(first[:-1], np.diff(ptr))
    ends = (begin, before), (end, after)
    from_node, to_node = ((np.concatenate(x)[order] - shift).astype(np.int32) for x in ends)
    no_pair, no_arc = np.full(len(source), -1), np.full(len(before), -1)
    arc, pair = np.concatenate([np.arange(len(source)), no_arc])[order], np.concatenate([no_pair, pair])[order]
    n_sources = np.searchsorted(place, 2 * base[:-1] + LEAVING, "right") - first[:-1]
    n_sinks = first[1:] - np.searchsorted(place, 2 * (base[1:] - 1), "left")
    return ArcGraphs(from_node, to_node, arc, pair, ptr, np.diff(first), n_sources, n_sinks)
