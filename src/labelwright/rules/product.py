"""The product of a labelled graph and an automaton: the paths whose labels satisfy the rules.

A node of the product is a node of the graph with a state of the automaton.  Only those that a path
reaches, and that lead to the end, are made.  Its paths are those of the graph that satisfy the
rules, each once, since the automaton is deterministic: so best paths, sums and samples of the
product are those under the rules.

A beam leaves out the least probable nodes of a product that would be too large.  Their paths weigh
at most what they would weigh without rules from there on: the sum over what reached a node, times
the sum over all its continuations in the graph.  So the error of all sums is known.

The best labellings under rules by automata, proven, without a solver.

The product of the graph with the automaton of *all* rules may be large: "every label at most once"
has a state for every set of labels.  Two relaxations keep it small, and neither loses the optimum:

- rules are added when they are broken: the best labellings under some of the rules that satisfy all
  of them are the best under all;
- only arcs on paths within `reach` of the best path are kept: labellings within that reach beat all
  that use others.

Sums need all rules at once, and all arcs.  Where that is too large, what is improbable without the
rules is left out, as much as changes no sum by more than `PRECISION` of it (see product.Beam).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.parallel import computed_once
from labelwright.rules.automaton import (
    NOTHING,
    Automaton,
    Local,
    States,
    Steps,
    TooFarApartError,
    Unit,
    is_local,
    local_rules,
    units_of,
)
from labelwright.rules.formulas import holds
from labelwright.rules.rules import Bound
from labelwright.rules.solver import ADVICE, InfeasibleError, contradiction
from labelwright.structures import dag
from labelwright.structures.dag import Dag, GraphSums, LabelledArcs, LabelledGraph

Array = NDArray[Any]
MOST_ARCS = 1 << 20  # of a product: some hundred bytes each; and numbers in a step: half a second
TINY = 1e-300  # what weighs less counts as much
MOST_NUMBERS = 1 << 24
FIRST_ARCS = 8  # for each token, within the first reach,
GROWTH = 4  # and how many times as many in the next
PRECISION = 1e-7  # of sums, where a product has not all arcs: relative,
ROUNDS = 5  # after so many tries at most
SLACK = 1e-9  # rounding must not exclude the optimum


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
    # [Q]  and of the summed weight of the paths from each node of the graph to the end
    behind: Array


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
    graph: LabelledArcs,
    sinks: Array,
    automaton: Automaton,
    beam: Beam | None = None,
    size: Size | None = None,
) -> Product:
    """The paths along these arcs whose labels the automaton accepts; all of them, or those within
    the beam.

    size : how large it may be; TooLargeError beyond that"""
    most = size or Size(MOST_ARCS, MOST_NUMBERS)
    if not len(graph.token) or graph.token[0] > 0:  # no path begins
        none = np.zeros(0, np.int32)
        return Product(
            Dag(none, none, 0, none, none), np.zeros(0), none, np.inf if beam and beam.lost else 0.0
        )
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
            made, states = (
                reached._replace(state=number),
                States(*(array[used] for array in states)),
            )
    trimmed = _trimmed(parts, made, sinks, n_nodes)
    return trimmed if beam is None else trimmed._replace(error=_error(beam, lost, made, sinks))


def _within(
    beam: Beam, so_far: float, lost: float, part: _Part, reached: _Nodes
) -> tuple[_Part, _Nodes, float]:
    """The nodes that are kept where a part `so_far` of the sentence may have lost as large a part
    of the share, the arcs to them, and the share that is lost now."""
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
    return (
        part,
        _Nodes(*(array[kept] for array in reached._replace(number=number))),
        float(losses[n_lost - 1]),
    )


def _error(beam: Beam, lost: float, made: _Nodes, sinks: Array) -> float:
    """The share that is lost against that of the paths to the end."""
    if lost == 0:
        return 0.0
    if not len(made.node):
        return np.inf
    log_kept = (
        np.logaddexp.reduce(made.log_sum[np.isin(made.node, sinks)], initial=-np.inf) - beam.log_z
    )
    return float(np.exp(np.log(lost) - log_kept)) if np.log(lost) - log_kept < 700 else np.inf


def _runs(key: Array) -> list[tuple[int, int]]:
    """Where the runs of equal numbers begin and end."""
    cuts = np.flatnonzero(np.diff(key)) + 1
    return (
        list(zip([0, *cuts.tolist()], [*cuts.tolist(), len(key)], strict=True)) if len(key) else []
    )


def _joined(
    arcs: LabelledArcs, made: _Nodes, steps: Steps | None, n_nodes: int, n_states: int, most: int
) -> tuple[_Part, _Nodes]:
    """Each of these arcs from every node of the product that it leaves; arcs and new nodes are
    numbered."""
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
    reached = _Nodes(
        distinct // n_states, distinct % n_states, n_nodes + np.arange(len(distinct)), log_sum
    )
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
    source, target, score, arc = (
        np.concatenate(arrays) for arrays in zip(*reversed(kept), strict=True)
    )
    sources = np.zeros(1 if len(arc) else 0, np.int32)
    ends = number[ends].astype(np.int32)
    graph = Dag(
        number[source].astype(np.int32),
        number[target].astype(np.int32),
        int(useful.sum()),
        sources,
        ends,
    )
    return Product(graph, score, arc)


# -- the best labellings under rules ---------------------------------------------------------------


WHOLE = Size(1 << 20, 1 << 22)  # of a product for sums


class Path(NamedTuple):
    """A path of a labelled graph."""

    value: float  # its score less the price of soft rules
    arcs: Array  # of the graph
    codes: Array  # [T]  its labels


class RuledPaths:
    """The labellings of one sentence under rules.

    units : the rules that automata follow
    local : those on tokens and neighbours that the graph does not know yet"""

    def __init__(
        self,
        graph: LabelledGraph,
        units: Sequence[Unit],
        labels: Sequence[str],
        T: int,
        local: Local = NOTHING,
    ):
        self.graph, self.units, self.labels, self.T, self.local = (
            graph,
            list(units),
            tuple(labels),
            T,
            local,
        )

    @staticmethod
    def of(graph: LabelledGraph, bound: Bound, labels: Sequence[str], T: int) -> "RuledPaths":
        """The labellings of a graph under the rules of its sentence."""
        units = units_of(bound)
        others = [unit for unit in units if not is_local(unit)]
        return RuledPaths(graph, others, labels, T, local_rules(units, labels))

    @computed_once
    def _sums(self) -> GraphSums:
        return self.graph.sums()

    def _automaton(self, units: Sequence[Unit], possible: Array | None = None) -> Automaton:
        try:
            return Automaton(
                [(unit.formula, unit.price) for unit in units],
                self.labels,
                self.T,
                self.local,
                possible,
            )
        except TooFarApartError:
            raise TooLargeError from None

    def broken(self, codes: Array) -> list[int]:
        """The numbers of the units that a labelling breaks."""
        labels = [self.labels[code] for code in codes.tolist()]
        return [number for number, unit in enumerate(self.units) if not holds(unit.formula, labels)]

    def best(self, n: int = 1, known: Array | None = None) -> list[Path]:
        """Up to n best paths whose labels satisfy the rules; none where there is none.  With latent
        states, several may have the same labels.

        known : the labels [T] of the best path without rules"""
        loss, _, top = self.graph.losses()
        if top == -np.inf:
            return []
        slack = SLACK * (1 + abs(top))
        order = np.sort(loss)
        n_arcs, reach = FIRST_ARCS * self.T, None
        active = set(self.broken(known)) if known is not None else set[int]()
        while True:
            limit = (order[min(n_arcs, len(order)) - 1] if reach is None else reach) + slack
            whole = limit >= order[-1]
            paths = self._paths(np.flatnonzero(loss <= limit), sorted(active), n)
            fresh = {u for path in paths for u in self.broken(path.codes)} - active
            if fresh:
                active |= fresh
            elif whole or (len(paths) == n and top - paths[-1].value <= limit):
                return paths
            elif len(paths) == n:
                reach = top - paths[-1].value
            else:
                n_arcs, reach = n_arcs * GROWTH, None

    def _paths(self, kept: Array, active: Sequence[int], n: int) -> list[Path]:
        """The n best paths along some arcs under some rules."""
        made = product(
            self.graph.arcs.taken(kept),
            self.graph.sinks,
            self._automaton([self.units[u] for u in active]),
        )
        if not len(made.arc):
            return []
        if n == 1:
            path, score = dag.best_path(made.dag, made.score)
            return [self._path(kept[made.arc[path]], score)] if len(path) else []
        paths, scores = dag.best_paths(made.dag, made.score, n)
        return [
            self._path(kept[made.arc[path]], score)
            for path, score in zip(paths, scores.tolist(), strict=True)
        ]

    def _path(self, arcs: Array, value: float) -> Path:
        labels = self.graph.arcs.label[arcs]
        return Path(float(value), arcs, labels[labels >= 0])

    def whole(self) -> Product:
        """The product with all rules: its sums are those of all labellings that satisfy them,
        within PRECISION."""
        try:
            return product(
                self.graph.arcs, self.graph.sinks, self._automaton(self.units), None, WHOLE
            )
        except TooLargeError:
            pass
        share = PRECISION / 2
        for _ in range(ROUNDS):
            made = self._likely(share)
            if made.error <= PRECISION:
                return made
            share *= PRECISION / made.error / 2
        raise TooLargeError

    def _likely(self, share: float) -> Product:
        """The product without paths that have at most this share of the weight of all paths without
        rules."""
        arcs, sums = self.graph.arcs, self._sums
        order = np.argsort(sums.arcs, kind="stable")
        losses = np.cumsum(np.maximum(sums.arcs[order], TINY))
        n_lost = int(np.searchsorted(losses, share / 2, side="right"))
        kept = np.sort(order[n_lost:])
        possible = np.zeros((self.T, len(self.labels)), np.bool_)
        reads = kept[arcs.label[kept] >= 0]
        possible[arcs.token[reads], arcs.label[reads]] = True
        beam = Beam(
            share / 2, float(losses[n_lost - 1]) if n_lost else 0.0, sums.log_z, sums.behind
        )
        made = product(
            arcs.taken(kept), self.graph.sinks, self._automaton(self.units, possible), beam, WHOLE
        )
        return made._replace(arc=kept[made.arc])


def contradiction_in(
    graph: LabelledGraph, bound: Bound, labels: Sequence[str], T: int, number: int
) -> InfeasibleError:
    """The error where no labelling of a graph satisfies the hard rules."""

    def impossible(wanted: Bound, seconds: float) -> bool:
        try:
            return not RuledPaths.of(graph, wanted, labels, T).best()
        except TooLargeError:
            return False

    return contradiction(number, bound, impossible, ADVICE)
