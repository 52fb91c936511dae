"""The product of a labelled graph and an automaton: the paths whose labels satisfy the rules.

A node of the product is a node of the graph with a state of the automaton.  Only those that a path reaches, and that
lead to the end, are made.  Its paths are those of the graph that satisfy the rules, each once, since the automaton is
deterministic: so best paths, sums and samples of the product are those under the rules.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.rules.automaton import Automaton, States, Steps
from labelwright.rules.labelled_graphs import LabelledArcs
from labelwright.structures.dag import Dag

Array = NDArray[Any]
MOST_ARCS = 1 << 20  # of a product: some hundred bytes each
MOST_NUMBERS = 1 << 24  # of the values of atoms, in one step of the automaton


class TooLargeError(Exception):
    """The product has more arcs or states than the limit."""


class Product(NamedTuple):
    """Paths that satisfy the rules."""

    dag: Dag
    score: Array  # [A]  less the price of soft rules
    arc: Array  # [A]  the arc of the labelled graph


class _Nodes(NamedTuple):
    """Nodes of the product that were made and not passed yet."""

    node: Array  # of the graph, in order
    state: Array  # of the automaton
    number: Array


class _Part(NamedTuple):
    """Arcs of the product that read the same token, or none."""

    source: Array
    target: Array
    score: Array
    arc: Array


def product(graph: LabelledArcs, sinks: Array, automaton: Automaton) -> Product:
    """The paths along these arcs whose labels the automaton accepts."""
    if not len(graph.token) or graph.token[0] > 0:  # no path begins
        none = np.zeros(0, np.int32)
        return Product(Dag(none, none, 0, none, none), np.zeros(0), none)
    states, parts, n_nodes, n_arcs = automaton.begin(), list[_Part](), 1, 0
    zero = np.zeros(1, np.int64)
    made = _Nodes(zero, zero, zero)
    for begin, end in _runs(2 * graph.token + (graph.label >= 0)):
        arcs = graph.taken(slice(begin, end))
        steps = None
        if arcs.label[0] >= 0:
            labels = np.unique(arcs.label)
            if len(labels) * states.values.size > MOST_NUMBERS:
                raise TooLargeError
            steps = automaton.read(int(arcs.token[0]), states, labels)
            states = steps.states
        part, reached = _joined(arcs, made, steps, n_nodes, len(states.values))
        n_nodes, n_arcs = n_nodes + len(reached.node), n_arcs + len(part.arc)
        if n_arcs > MOST_ARCS:
            raise TooLargeError
        parts.append(part._replace(arc=begin + part.arc))
        if steps is None:
            made = _merged(made, reached)
        else:
            used, number = np.unique(reached.state, return_inverse=True)
            made, states = reached._replace(state=number), States(*(array[used] for array in states))
    return _trimmed(parts, made, sinks, n_nodes)


def _runs(key: Array) -> list[tuple[int, int]]:
    """Where the runs of equal numbers begin and end."""
    cuts = np.flatnonzero(np.diff(key)) + 1
    return list(zip([0, *cuts.tolist()], [*cuts.tolist(), len(key)], strict=True)) if len(key) else []


def _joined(arcs: LabelledArcs, made: _Nodes, steps: Steps | None, n_nodes: int, n_states: int) -> tuple[_Part, _Nodes]:
    """Each of these arcs from every node of the product that it leaves; arcs and new nodes are numbered."""
    first = np.searchsorted(made.node, arcs.source, side="left")
    count = np.searchsorted(made.node, arcs.source, side="right") - first
    if int(count.sum()) > MOST_ARCS:
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
    reached = _Nodes(distinct // n_states, distinct % n_states, n_nodes + np.arange(len(distinct)))
    return _Part(made.number[place], n_nodes + target, score, which), reached


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
