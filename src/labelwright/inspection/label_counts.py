"""How often a labelling uses each state, pair and triple of states (or segment): what its weights are counted by.

Without latent states these are the numbers 0 and 1.  With latent states they are expectations over the paths q of the
labelling, and its score is theirs plus the entropy of the paths:

    log sum_q exp score(q)  =  E[score(q)] + H(q)
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.structures.lattice import Lattice, best_path, posterior, posterior_arcs
from labelwright.structures.segments import SegmentSpace, rows_of, segments_in

Array = NDArray[Any]


class Cells(NamedTuple):
    """Numbers other than 0, by the row (token or segment) and the column (state, pair, triple, type) they belong to."""

    row: Array
    column: Array
    amount: Array


class LabelCounts(NamedTuple):
    """The counts of one labelling, by kind of features; those of plain transitions are pairs (and triples)."""

    features: dict[str, Cells]
    transitions: dict[str, Cells]  # "transitions", and of order 2 "triples"
    entropy: float = 0.0  # of the latent paths


def path_counts(states: Array, n_states: int, order: int) -> LabelCounts:
    """The counts of one path of states [T]."""
    t = np.arange(len(states))
    codes = {"state": Cells(t, states, np.ones(len(t)))}
    pair = states[:-1].astype(np.int64) * n_states + states[1:]
    codes["edge"] = Cells(t[1:], pair, np.ones(len(pair)))
    if order == 2:
        triple = pair[:-1] * n_states + states[2:]
        codes["triple"] = Cells(t[2:], triple, np.ones(len(triple)))
    return LabelCounts(codes, _plain(codes))


def _plain(codes: dict[str, Cells]) -> dict[str, Cells]:
    names = {"edge": "transitions", "triple": "triples"}
    return {names[kind]: cells for kind, cells in codes.items() if kind in names}


def latent_counts(lattice: Lattice, labels: Array, by_paths: bool) -> LabelCounts:
    """The expected counts of the paths of a labelling [T]; with `by_paths` those of its best path."""
    node, arc, graph = lattice
    clamped = Lattice(np.where(graph.label_of_node == labels[:, None], node, -np.inf), arc, graph)
    if by_paths:
        return path_counts(graph.state[best_path(clamped)[0]], graph.n_states, graph.order)
    sums = posterior(clamped)
    arcs = posterior_arcs(clamped, sums)
    arcs[0] = 0.0
    source, target = graph.ends
    token, q = np.nonzero(sums.nodes)
    t, a = np.nonzero(arcs)
    nodes, through = sums.nodes[token, q], arcs[t, a]
    codes = {"state": Cells(token, graph.state[q], nodes)}
    S = graph.n_states
    if graph.order == 1:
        codes["edge"] = Cells(t, source[a].astype(np.int64) * S + target[a], through)
    else:
        inner = graph.previous[q] >= 0
        pair = graph.previous[q].astype(np.int64) * S + graph.state[q]
        codes["edge"] = Cells(token[inner], pair[inner], nodes[inner])
        whole = graph.previous[source[a]] >= 0
        triple = (graph.previous[source[a]].astype(np.int64) * S + graph.state[source[a]]) * S + graph.state[target[a]]
        codes["triple"] = Cells(t[whole], triple[whole], through[whole])
    first = sums.nodes[0][sums.nodes[0] > 0]
    before = sums.nodes[t - 1, source[a]]
    entropy = -float(first @ np.log(first)) - float(through @ np.log(through / before))
    return LabelCounts(codes, _plain(codes), entropy)


def segment_counts(space: SegmentSpace, labels: list[str]) -> LabelCounts:
    """The counts of the segmentation that labels write down: roles of tokens, types of segments, transitions."""
    T, n, L = len(labels), space.n_long, space.n_types
    bounds = np.array([0, T])
    segments = segments_in(space, labels, np.arange(T), bounds)
    lengths = segments.end - segments.start
    kind = np.repeat(segments.kind, lengths)
    place = np.full(T, 1)  # B I E S
    place[segments.start], place[segments.end - 1] = 0, 2
    place[segments.start[lengths == 1]] = 3
    rows = rows_of(segments, bounds, space.max_length)
    before = np.append(L, segments.kind[:-1]).astype(np.int64)
    ones = np.ones(len(rows))
    codes = {
        "state": Cells(np.arange(T), place * n + kind, np.ones(T)),
        "segment": Cells(rows, segments.kind, ones),
    }
    return LabelCounts(codes, {"transitions": Cells(segments.start, before * (L + 1) + segments.kind, ones)})
