"""The probabilities of all spans of one type: one pass over the lengths, for all first tokens at once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.structures.graph import Graph
from labelwright.structures.lattice import Lattice, Posterior, posterior_arcs

Array = NDArray[Any]


class ArcSums(NamedTuple):
    """What spans of every type are made of."""

    nodes: Array  # [T, Q]  P(q at t)
    arcs: Array  # [T, A]  P(arc into t)
    onwards: Array  # [T, A]  P(arc into t | its source)
    source: Array  # [A]
    target: Array  # [A]
    state: Array  # [Q]


class SpanTable(NamedTuple):
    """Spans of one type with their probabilities."""

    begin: Array  # [n]
    end: Array  # [n]
    probability: Array  # [n]


def arc_sums(lattice: Lattice, sums: Posterior) -> ArcSums:
    """The probabilities of all arcs, and of each given its source."""
    graph: Graph = lattice.graph
    source, target = graph.ends
    arcs = posterior_arcs(lattice, sums)
    before = np.ones_like(arcs)
    before[1:] = sums.nodes[:-1][:, source]
    onwards = np.divide(arcs, before, out=np.zeros_like(arcs), where=before > 0)
    return ArcSums(sums.nodes, arcs, onwards, source, target, graph.state)


def spans_of_type(sums: ArcSums, transitions: tuple[Array, Array, Array], least: float) -> SpanTable:
    """All spans at least as probable as `least`; `transitions` between states open [S+1, S], continue [S, S] and close
    [S, S+1] a span, where the last index is the outside of the sentence.

    v_l(b, q) = P(a span begins at b and is still open at b + l, in q), for l = 0, 1, ..."""
    T = len(sums.nodes)
    opened, closed = _opened(sums, transitions[0]), _closed(sums, transitions[2])
    inner = np.flatnonzero(transitions[1][sums.state[sums.source], sums.state[sums.target]])
    begins = np.flatnonzero(opened.sum(axis=1) >= least)
    still_open, length = opened[begins], 1
    tables = []
    while len(begins):
        p = (still_open * closed[begins + length - 1]).sum(axis=1)
        likely = p >= least
        tables.append((begins[likely], begins[likely] + length, p[likely]))
        going = (begins + length < T) & (still_open.sum(axis=1) >= least)
        begins, still_open = begins[going], still_open[going]
        mass = still_open[:, sums.source[inner]] * sums.onwards[begins + length][:, inner]
        still_open = _by_node(mass, sums.target[inner], sums.nodes.shape[1])
        length += 1
    columns = zip(*tables, strict=True) if tables else [(np.zeros(0, np.int64),)] * 3
    begin, end, probability = (np.concatenate(parts) for parts in columns)
    return SpanTable(begin, end, np.minimum(1.0, probability))


def _opened(sums: ArcSums, opening: Array) -> Array:
    """P(a span begins at t, in q) [T, Q]."""
    arcs = np.flatnonzero(opening[:-1][sums.state[sums.source], sums.state[sums.target]])
    opened = _by_node(sums.arcs[:, arcs], sums.target[arcs], sums.nodes.shape[1])
    opened[0] = np.where(opening[-1][sums.state], sums.nodes[0], 0.0)
    return opened


def _closed(sums: ArcSums, closing: Array) -> Array:
    """P(the span ends with t | it is open at t, in q) [T, Q]."""
    arcs = np.flatnonzero(closing[:, :-1][sums.state[sums.source], sums.state[sums.target]])
    closed = np.empty_like(sums.nodes)
    closed[:-1] = _by_node(sums.onwards[1:, arcs], sums.source[arcs], sums.nodes.shape[1])
    closed[-1] = closing[:, -1][sums.state]
    return closed


def _by_node(mass: Array, node: Array, n_nodes: int) -> Array:
    """Sums of the columns of `mass` [n, A] that have each node [n, Q]."""
    rows = len(mass)
    place = (np.arange(rows)[:, None] * n_nodes + node).ravel()
    return np.bincount(place, mass.ravel(), rows * n_nodes).reshape(rows, n_nodes)
