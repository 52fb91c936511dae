"""The product of a labelled graph and an automaton: the paths whose labels satisfy the rules.

A node of the product is a node of the graph with a state of the automaton.  Only those that a path reaches, and that
lead to the end, are made.  Its paths are those of the graph that satisfy the rules, each once, since the automaton is
deterministic: so best paths, sums and samples of the product are those under the rules.

A beam leaves out the least probable nodes of a product that would be too large.  Their paths weigh at most what they
would weigh without rules from there on: the sum over what reached a node, times the sum over all its continuations in
the graph.  So the error of all sums is known.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.rules.automaton import Automaton, States, Steps
from labelwright.rules.labelled_graphs import LabelledArcs
from labelwright.structures.dag import Dag

Array = NDArray[Any]
MOST_ARCS = 1 << 20  # of a product: some hundred bytes each; and numbers in a step: half a second
TINY = 1e-300  # what weighs less counts as much
MOST_NUMBERS = 1 << 24


class TooLargeError(Exception):
    """The product has more arcs or states than the limit."""


class Product(NamedTuple):
    """Paths that satisfy the rules."""

    dag: Dag
    score: Array  # [A]  less the price of soft rules
    arc: Array  # [A]  the arc of the labelled graph
    error: float = 0.0  # what is left out, at most, as a share of what is kept


class Size(NamedTuple):
    """The size of a product at most."""

    arcs: int
    numbers: int  # of the values of atoms, in one step of the automaton


class Beam(NamedTuple):
    """How much may be left out, and what tells how much it is."""

    share: float  # of the weight of all paths of the graph
    lost: float  # the share of arcs that are left out already
    log_z: float  # the logarithm of that weight
    behind: Array  # [Q]  and of the summed weight of the paths from each node of the graph to the end


class _Nodes(NamedTuple):
    """Nodes of the product that were made and not passed yet."""

    node: Array  # of the graph, in order
    state: Array  # of the automaton
    number: Array
    log_sum: Array  # over the paths that lead there


class _Part(NamedTuple):
    """Arcs of the product that read the same token, or none."""

    source: Array
    target: Array
    score: Array
    arc: Array


def product(
    graph: LabelledArcs, sinks: Array, automaton: Automaton, beam: Beam | None = None, size: Size | None = None
) -> Product:
    """The paths along these arcs whose labels the automaton accepts; all of them, or those within the beam.

    size : how large it may be; TooLargeError beyond that"""
    most = size or Size(MOST_ARCS, MOST_NUMBERS)
    if not len(graph.token) or graph.token[0] > 0:  # no path begins
        none = np.zeros(0, np.int32)
        return Product(Dag(none, none, 0, none, none), np.zeros(0), none, np.inf if beam and beam.lost else 0.0)
    states, parts, n_nodes, n_arcs = automaton.begin(), list[_Part](), 1, 0
    lost = 0.0 if beam is None else beam.lost
    zero = np.zeros(1, np.int64)
    made = _Nodes(zero, zero, zero, np.zeros(1))
    runs = _runs(2 * graph.token + (graph.label >= 0))
    for n, (begin, end) in enumerate(runs, 1):
        arcs = graph.taken(slice(begin, end))
        steps = None
        if arcs.label[0] >= 0:
            labels = np.unique(arcs.label)
            n_steps = len(labels) * len(states.values)
            if n_steps > most.arcs or n_steps * len(automaton.atoms) > most.numbers:
                raise TooLargeError
            steps = automaton.read(int(arcs.token[0]), states, labels)
            states = steps.states
        part, reached = _joined(arcs, made, steps, n_nodes, len(states.values), most.arcs)
        if beam is not None:
            part, reached, lost = _within(beam, n / len(runs), lost, part, reached)
        n_nodes, n_arcs = n_nodes + len(reached.node), n_arcs + len(part.arc)
        if n_arcs > most.arcs:
            raise TooLargeError
        parts.append(part._replace(arc=begin + part.arc))
        if steps is None:
            made = _merged(made, reached)
        else:
            used, number = np.unique(reached.state, return_inverse=True)
            made, states = reached._replace(state=number), States(*(array[used] for array in states))
    trimmed = _trimmed(parts, made, sinks, n_nodes)
    return trimmed if beam is None else trimmed._replace(error=_error(beam, lost, made, sinks))


def _within(beam: Beam, so_far: float, lost: float, part: _Part, reached: _Nodes) -> tuple[_Part, _Nodes, float]:
    """The nodes that are kept where a part `so_far` of the sentence may have lost as large a part of the share, the
    arcs to them, and the share that is lost now."""
    log_weight = reached.log_sum + beam.behind[reached.node] - beam.log_z
    weight = np.exp(np.clip(log_weight, np.log(TINY), 0.0))
    order = np.argsort(weight, kind="stable")
    losses = lost + np.cumsum(weight[order])
    n_lost = int(np.searchsorted(losses, beam.lost + beam.share * so_far, side="right"))
    if not n_lost:
        return part, reached, lost
    first, kept = int(reached.number[0]), np.sort(order[n_lost:])
    number = np.full(len(weight), -1)
    number[kept] = first + np.arange(len(kept))
    target = number[part.target - first]
    leads = np.flatnonzero(target >= 0)
    part = _Part(*(array[leads] for array in part._replace(target=target)))
    return part, _Nodes(*(array[kept] for array in reached._replace(number=number))), float(losses[n_lost - 1])


def _error(beam: Beam, lost: float, made: _Nodes, sinks: Array) -> float:
    """The share that is lost against that of the paths to the end."""
    if lost == 0:
        return 0.0
    if not len(made.node):
        return np.inf
    log_kept = np.logaddexp.reduce(made.log_sum[np.isin(made.node, sinks)], initial=-np.inf) - beam.log_z
    return float(np.exp(np.log(lost) - log_kept)) if np.log(lost) - log_kept < 700 else np.inf


def _runs(key: Array) -> list[tuple[int, int]]:
    """Where the runs of equal numbers begin and end."""
    cuts = np.flatnonzero(np.diff(key)) + 1
    return list(zip([0, *cuts.tolist()], [*cuts.tolist(), len(key)], strict=True)) if len(key) else []


def _joined(
    arcs: LabelledArcs, made: _Nodes, steps: Steps | None, n_nodes: int, n_states: int, most: int
) -> tuple[_Part, _Nodes]:
    """Each of these arcs from every node of the product that it leaves; arcs and new nodes are numbered."""
    first = np.searchsorted(made.node, arcs.source, side="left")
    count = np.searchsorted(made.node, arcs.source, side="right") - first
    if int(count.sum()) > most:
        raise TooLargeError
    which = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + first[which]
    state, score = made.state[place], arcs.score[which]
    if steps is not None:
        column = np.unique(arcs.label, return_inverse=True)[1][which]
        score = score - steps.cost[state, column]
        state = steps.following[state, column]
        kept = np.flatnonzero(state >= 0)
        which, place, state, score = which[kept], place[kept], state[kept], score[kept]
    distinct, target = np.unique(arcs.target[which] * n_states + state, return_inverse=True)
    log_sum = _log_sums(made.log_sum[place] + score, target, len(distinct))
    reached = _Nodes(distinct // n_states, distinct % n_states, n_nodes + np.arange(len(distinct)), log_sum)
    return _Part(made.number[place], n_nodes + target, score, which), reached


def _log_sums(weights: Array, group: Array, n: int) -> Array:
    """log of the summed exp(weight) of each of n groups."""
    top = np.full(n, -np.inf)
    np.maximum.at(top, group, weights)
    return np.asarray(top + np.log(np.bincount(group, np.exp(weights - top[group]), n)))


def _merged(made: _Nodes, reached: _Nodes) -> _Nodes:
    """All these nodes, in the order of the graph's."""
    node = np.concatenate([made.node, reached.node])
    order = np.argsort(node, kind="stable")
    return _Nodes(*(np.concatenate(pair)[order] for pair in zip(made, reached, strict=True)))


def _trimmed(parts: list[_Part], made: _Nodes, sinks: Array, n_nodes: int) -> Product:
    """The product without what does not lead to the end."""
    ends = made.number[np.isin(made.node, sinks)]
    useful = np.zeros(n_nodes, np.bool_)
    useful[ends] = True
    kept = list[_Part]()
    for part in reversed(parts):
        leads = np.flatnonzero(useful[part.target])
        kept.append(_Part(*(array[leads] for array in part)))
        useful[kept[-1].source] = True
    number = np.cumsum(useful) - 1
    source, target, score, arc = (np.concatenate(arrays) for arrays in zip(*reversed(kept), strict=True))
    sources = np.zeros(1 if len(arc) else 0, np.int32)
    ends = number[ends].astype(np.int32)
    graph = Dag(number[source].astype(np.int32), number[target].astype(np.int32), int(useful.sum()), sources, ends)
    return Product(graph, score, arc)
