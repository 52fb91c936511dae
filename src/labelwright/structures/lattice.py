"""The lattice of one sequence: where every model ends and every decoder begins."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import row_maxima, softmax_of
from labelwright.errors import OptionError
from labelwright.kernels import clamped, inference
from labelwright.structures.states import Graph

Array = NDArray[Any]


class Lattice(NamedTuple):
    """Scores of all paths of one sequence; minus infinity forbids."""

    node: Array  # [T, Q]    score of node q at t
    arc: Array  # [T|1, A]  score of each arc into t (a leading 1 serves every token)
    graph: Graph


class Posterior(NamedTuple):
    """Sums over all paths of a lattice (see kernels.inference.messages)."""

    nodes: Array  # [T, Q]  P(q at t)
    # [T, Q]  log of what q at t and all that may follow weigh, less a constant of the token
    ahead: Array
    log_z: float


def posterior(lattice: Lattice) -> Posterior:
    """Probabilities of the nodes, backward messages and log Z."""
    nodes, ahead = np.empty_like(lattice.node), np.empty_like(lattice.node)
    log_z = inference.messages(lattice.node, lattice.arc, lattice.graph.blocks, nodes, ahead)
    return Posterior(nodes, ahead, log_z)


def posterior_arcs(lattice: Lattice, sums: Posterior, by_token: bool = True) -> Array:
    """P(arc into t) [T, A], or their sum over all tokens [1, A]."""
    arcs = np.empty((len(lattice.node) if by_token else 1, lattice.arc.shape[1]))
    inference.posterior_arcs(lattice.arc, lattice.graph.blocks, sums.nodes, sums.ahead, arcs)
    return arcs


def arcs_from(lattice: Lattice, sums: Posterior, token: Array, state: Array) -> Array:
    """P(this state at token - 1, each state at token) [P, S], of order 1."""
    arc, graph = lattice.arc, lattice.graph
    row = token if len(arc) > 1 else np.zeros_like(token)
    places = graph.contexts.base[state][:, None] + np.arange(graph.n_states)
    scores = arc[row[:, None], places]
    scores = scores - row_maxima(scores) + sums.ahead[token, : graph.n_states]
    return np.asarray(softmax_of(scores) * sums.nodes[token - 1, state][:, None])


def entropy(lattice: Lattice, sums: Posterior) -> float:
    """The entropy of all paths in nats: that of the pairs of neighbouring nodes less that of the
    nodes in two pairs.

    H = sum_t H(q_{t-1}, q_t) - sum_{0 < t < T-1} H(q_t)"""
    if len(sums.nodes) == 1:
        return entropy_of(sums.nodes)
    return max(0.0, entropy_of(posterior_arcs(lattice, sums)) - entropy_of(sums.nodes[1:-1]))


def entropy_of(probabilities: Array) -> float:
    """The sum of -p log p."""
    positive = probabilities[probabilities > 0]
    return float(-(positive @ np.log(positive)))


def best_path(lattice: Lattice) -> tuple[Array, float]:
    """The best nodes [T] and their score."""
    path = np.empty(len(lattice.node), np.int32)
    return path, inference.viterbi(lattice.node, lattice.arc, lattice.graph.blocks, path)


class Best(NamedTuple):
    """The best path of every sentence of a batch."""

    nodes: Array  # [T]
    scores: Array  # [N]


def best_paths_of(node: Array, arc: Array, graph: Graph, offsets: Array) -> Best:
    """The best path of each of the sentences offsets[n]:offsets[n+1]."""
    best = Best(np.empty(len(node), np.int32), np.empty(len(offsets) - 1))
    inference.best_paths(node, arc, graph.blocks, offsets, *best)
    return best


class Margins(NamedTuple):
    """How far a labelling is from all others, by the scores of paths."""

    best: float  # the best path of these labels,
    worst: float  # and the worst
    other: float  # the best path of any other labels; minus infinity where there are none


def margins(lattice: Lattice, labels: Array) -> Margins:
    """Scores of paths with these labels (codes [T]) and with others."""
    node, arc, graph = lattice
    gold = np.asarray(labels, np.int32)
    return Margins(*inference.margins(node, arc, graph.blocks, graph.label_of_node, gold))


def labelling_score(lattice: Lattice, labels: Array) -> float:
    """The score of the best path with these labels (codes [T])."""
    node, _, graph = lattice
    return best_path(
        lattice._replace(node=np.where(graph.label_of_node == labels[:, None], node, -np.inf))
    )[1]


def labelling_weight(lattice: Lattice, labels: Array) -> float:
    """log of the summed weight of all paths whose labels are these codes [T]."""
    node, arc, graph = lattice
    weight: float = clamped.labelling_weight(
        node, arc, graph.contexts, np.asarray(labels, np.int32)
    )
    return weight


def state_marginals(nodes: Array, graph: Graph) -> Array:
    """P(state at t) [T, S] from P(node at t) [T, Q]."""
    if graph.order == 1:
        return nodes
    by_state = graph.blocks.source
    return _sums(nodes[:, by_state], graph.state[by_state], graph.n_states)


def label_marginals(nodes: Array, graph: Graph) -> Array:
    """P(label at t) [T, L] from P(node at t) [T, Q]."""
    if graph.order == 1:  # a context is a label
        summed: Array = np.add.reduceat(nodes, graph.contexts.ptr[:-1], axis=1)
        return summed
    return _sums(state_marginals(nodes, graph), graph.label_of_state, len(graph.contexts.opening))


def _sums(values: Array, code: Array, n_codes: int) -> Array:
    """Sums of the columns of `values` that have each (rising) code."""
    first = np.searchsorted(code, np.arange(n_codes + 1))
    present = np.flatnonzero(np.diff(first))  # a state that no transition leads to has no node
    sums = np.zeros((len(values), n_codes))
    sums[:, present] = np.add.reduceat(values, first[present], axis=1)
    return sums


def span_probabilities(
    lattice: Lattice, sums: Posterior, spans: Array, transitions: tuple[Array, Array, Array]
) -> list[float]:
    """The probability of exactly each span [K, 3]: begin, end, and the number of its type;
    `transitions` between states are those that open, continue and close one of each type."""
    graph, probability = lattice.graph, np.empty(len(spans))
    through = lattice.node, lattice.arc, graph.blocks, graph.state, sums.nodes, sums.ahead
    inference.span_probabilities(*through, spans, *transitions, probability)
    listed: list[float] = probability.tolist()
    return listed


def sample(lattice: Lattice, n: int, rng: "np.random.Generator") -> Array:
    """n paths of nodes [n, T], drawn from their probabilities."""
    sums = posterior(lattice)
    arcs = posterior_arcs(lattice, sums)
    source, target = lattice.graph.ends
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(sums.nodes.shape[1] + 1))
    paths = np.empty((n, len(sums.nodes)), np.int64)
    begin = _shares(sums.nodes[0])
    paths[:, 0] = rng.choice(len(begin), n, p=begin)
    for t in range(1, len(sums.nodes)):
        for node in np.unique(paths[:, t - 1]):
            mine = order[first[node] : first[node + 1]]
            here = np.flatnonzero(paths[:, t - 1] == node)
            paths[here, t] = target[rng.choice(mine, len(here), p=_shares(arcs[t, mine]))]
    return paths


def _shares(weights: Array) -> Array:
    """Weights as probabilities; an error where none is above 0."""
    total = weights.sum()
    if not 0 < total < np.inf:
        raise OptionError("sample: a sentence has no labelling that the model allows")
    return np.asarray(weights / total)


# -- all spans of one type -------------------------------------------------------------------------


class ArcSums(NamedTuple):
    """What spans of every type are made of."""

    nodes: Array  # [T, Q]  P(q at t)
    arcs: Array  # [T, A]  P(arc into t)
    onwards: Array  # [T, A]  P(arc into t | its source)
    source: Array  # [A]
    target: Array  # [A]
    state: Array  # [Q]


def arc_sums(lattice: Lattice, sums: Posterior) -> ArcSums:
    """The probabilities of all arcs, and of each given its source."""
    source, target = lattice.graph.ends
    arcs = posterior_arcs(lattice, sums)
    before = np.ones_like(arcs)
    before[1:] = sums.nodes[:-1][:, source]
    onwards = np.divide(arcs, before, out=np.zeros_like(arcs), where=before > 0)
    return ArcSums(sums.nodes, arcs, onwards, source, target, lattice.graph.state)


def spans_of_type(
    sums: ArcSums, transitions: tuple[Array, Array, Array], least: float
) -> list[tuple[int, int, float]]:
    """Begin, end and probability of all spans at least as probable as `least`; `transitions`
    between states open [S+1, S], continue [S, S] and close [S, S+1] a span, where the last index is
    the outside of the sentence.

    v_l(b, q) = P(a span begins at b and is still open at b + l, in q), for l = 0, 1, ..."""
    (T, Q), opening, closing = sums.nodes.shape, transitions[0], transitions[2]
    ends = sums.state[sums.source], sums.state[sums.target]
    inner, opens, closes = (
        np.flatnonzero(x[ends]) for x in (transitions[1], opening[:-1], closing[:, :-1])
    )
    opened = _by_node(sums.arcs[:, opens], sums.target[opens], Q)  # P(a span begins at t, in q)
    opened[0] = np.where(opening[-1][sums.state], sums.nodes[0], 0.0)
    closed = np.empty_like(sums.nodes)  # P(the span ends with t | it is open at t, in q)
    closed[:-1] = _by_node(sums.onwards[1:, closes], sums.source[closes], Q)
    closed[-1] = closing[:, -1][sums.state]
    begins = np.flatnonzero(opened.sum(axis=1) >= least)
    still_open, length, spans = opened[begins], 1, list[tuple[int, int, float]]()
    while len(begins):
        p = np.minimum(1.0, (still_open * closed[begins + length - 1]).sum(axis=1))
        spans += [
            (b, b + length, share)
            for b, share in zip(begins.tolist(), p.tolist(), strict=True)
            if share >= least
        ]
        going = (begins + length < T) & (still_open.sum(axis=1) >= least)
        begins, still_open = begins[going], still_open[going]
        mass = still_open[:, sums.source[inner]] * sums.onwards[begins + length][:, inner]
        still_open = _by_node(mass, sums.target[inner], Q)
        length += 1
    return spans


def _by_node(mass: Array, node: Array, n_nodes: int) -> Array:
    """Sums of the columns of `mass` [n, A] that have each node [n, Q]."""
    rows = len(mass)
    place = (np.arange(rows)[:, None] * n_nodes + node).ravel()
    return np.bincount(place, mass.ravel(), rows * n_nodes).reshape(rows, n_nodes)
