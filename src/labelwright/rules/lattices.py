"""The best labelling of a lattice that satisfies users' rules, proven: by automata, or by OR-Tools'
CP-SAT.

Rules become automata (product.py).  Where these are too large, and where a labelling is worth the
sum of latent paths, labellings are listed in the order of their weight: the first one that
satisfies all hard rules is the best.  Where it does not come soon, a flow of 0/1 variables through
the arcs of the lattice's graph is posted into CP-SAT together with the rules.  Only arcs on some
path within `reach` of the best path are posted: a labelling within that reach beats all that use
other arcs, so the optimum is not lost.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.exact import labellings
from labelwright.decode.paths import best_paths
from labelwright.decode.record import Decoding
from labelwright.rules import solver as programs
from labelwright.rules.automaton import Unit, is_local, local_rules, masked, units_of
from labelwright.rules.formulas import Sentence
from labelwright.rules.product import SLACK, RuledPaths, TooLargeError, contradiction_in
from labelwright.rules.rules import Bound, bind
from labelwright.rules.solver import (
    ADVICE,
    Answer,
    Clock,
    Program,
    contradiction,
    cp_sat,
    late,
    minimise,
)
from labelwright.structures.dag import LabelledGraph, graph_of_lattice
from labelwright.structures.lattice import (
    Lattice,
    best_path,
    labelling_score,
    labelling_weight,
    posterior,
)
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
# paths that are tried before automata: often one of the next best satisfies the rules,
FIRST_BEST = (1, 8)
N_BEST = (50, 1000)  # paths that are tried before CP-SAT,
N_BEST_SUMS = (1, 50, 1000)  # and labellings where each has many paths: only this proves these
GROWTH = 1.5  # of the reach, where it contains no labelling


class _Best(NamedTuple):
    """The best labelling so far."""

    value: float  # log weight less the price of soft rules
    codes: Array  # [T]


class _Solved(NamedTuple):
    """The answer, and how it was proven."""

    best: _Best
    status: str
    method: str
    bound: float  # what another labelling can weigh at most, where that is not proven


class _Listed(NamedTuple):
    """The result of n-best labellings."""

    best: _Best | None
    proven: bool  # no other labelling is better
    bound: float  # what a labelling that is not in the list can weigh at most
    top: float  # weight of the first


def solve_lattice(
    lattice: Lattice,
    space: StateSpace,
    rules: Any,
    time_limit: float | None = None,
    *,
    sentence: Sentence | None = None,
    sums: bool | None = None,
    probabilities: bool = True,
    max_expansions: int | None = None,
) -> Decoding:
    """The best labelling of a lattice that satisfies the rules.

    A labelling is worth the sum over its latent paths (`sums`, the default on latent models) or its
    best path, less the price of soft rules; the reported score and probability do not include
    prices.  `status` is "optimal"; "time limit"; or "limit" where sums over latent paths leave no
    proof.
    """
    clock = Clock(time_limit)
    if sentence is None:
        sentence = Sentence(candidates_of(lattice, space), space.labels)
    bound = bind(rules, sentence)
    units = units_of(bound)
    pruned = masked(lattice, local_rules(units, space.labels))
    task = _Task(lattice, pruned, space, bound, units, clock, sentence.number)
    sums = space.latent if sums is None else sums and space.latent
    solved = _best_sum(task, max_expansions) if sums else _best_path(task)
    return _record(task, solved, sums, probabilities)


class _Task(NamedTuple):
    """What is to be solved."""

    lattice: Lattice
    pruned: Lattice  # by the rules on tokens and neighbours
    space: StateSpace
    bound: Bound
    units: list[Unit]  # parts of the rules
    clock: Clock
    number: int  # of the sentence


def _best_path(task: _Task) -> "_Solved":
    """The labelling with the best path: one of the first, or by automata, or by the solver."""
    listed = _listed(task, FIRST_BEST)
    if listed.proven and listed.best is not None:
        return _Solved(listed.best, "optimal", "search", listed.bound)
    try:
        best = _by_automata(task)
    except TooLargeError:
        listed = _listed(task, N_BEST)
        if listed.proven and listed.best is not None:
            return _Solved(listed.best, "optimal", "search", listed.bound)
        return _by_solver(task, listed)
    if best is None:
        graph = graph_of_lattice(task.lattice)
        raise contradiction_in(
            graph, task.bound, task.space.labels, len(task.lattice.node), task.number
        )
    return _Solved(best, "optimal", "automaton", best.value)


def _by_automata(task: _Task) -> "_Best | None":
    """The labelling with the best path, by automata; None where there is none."""
    path, score = best_path(task.pruned)
    if score == -np.inf:
        return None
    codes = task.pruned.graph.label_of_node[path]
    others = [unit for unit in task.units if not is_local(unit)]
    paths = RuledPaths(graph_of_lattice(task.pruned), others, task.space.labels, len(codes)).best(
        known=codes
    )
    return _Best(paths[0].value, paths[0].codes) if paths else None


def _best_sum(task: _Task, max_expansions: int | None) -> "_Solved":
    """The labelling whose paths have the largest sum, of those that were listed; otherwise the one
    of the best path."""
    listed = _listed(task, N_BEST_SUMS, True, max_expansions)
    status = "optimal" if listed.proven else "time limit" if task.clock.left == 0 else "limit"
    if listed.best is not None:
        return _Solved(listed.best, status, "search", listed.bound)
    solved = _best_path(task)
    return solved._replace(
        status="limit" if solved.status == "optimal" else solved.status, bound=listed.bound
    )


def _by_solver(task: _Task, listed: "_Listed") -> "_Solved":
    """The labelling with the best path, by CP-SAT."""
    cp = cp_sat()
    best, status = _flow(cp, task, listed)
    if best is None and status == "infeasible":
        graph, labels = graph_of_lattice(task.lattice), task.space.labels

        def impossible(wanted: Bound, seconds: float) -> bool:
            flow = _Flow(cp, graph, labels, np.inf)
            flow.program.post(wanted)
            return programs.search(cp, flow.program.model, seconds).status == "infeasible"

        possible = np.isfinite(graph.losses()[2])
        raise contradiction(
            task.number, task.bound if possible else Bound([], []), impossible, ADVICE
        )
    if best is None:
        raise late(task.number, task.clock.seconds)
    return _Solved(best, status, "solver", listed.bound)


def _record(task: _Task, solved: "_Solved", sums: bool, probabilities: bool) -> Decoding:
    lattice, space, bound = task.lattice, task.space, task.bound
    (_, codes), status, method, most = solved
    codes = codes.astype(np.int32)
    labels = [space.labels[y] for y in codes.tolist()]
    exact = status == "optimal" and (sums or not space.latent)
    weight = labelling_weight(lattice, codes)
    score = weight
    if space.latent and not sums:
        score = labelling_score(lattice, codes)
    if not probabilities and not sums:
        return Decoding(
            labels, score, None, exact, 0.0 if exact else None, status=status, method=method
        )
    log_z = posterior(lattice).log_z
    log_p = min(0.0, weight - log_z)
    p, gap = math.exp(log_p), 0.0
    if not exact:
        exact = p >= 0.5 and not bound.soft  # no other labelling can have more
        above = math.exp(min(0.0, most - log_z)) if sums else 1.0 - p
        gap = 0.0 if exact else max(5e-324, above - p)
    gap_shown = None if bound.soft and not exact else gap
    return Decoding(labels, score, log_p, exact, gap_shown, status=status, method=method)


def candidates_of(lattice: Lattice, space: StateSpace) -> list[list[str]]:
    """The labels that each token may have."""
    of, possible = (
        lattice.graph.label_of_node,
        np.isfinite(lattice.node)[:, : lattice.graph.n_nodes],
    )
    return [[space.labels[y] for y in np.unique(of[row]).tolist()] for row in possible]


# First try: labellings in the order of their weight.


def _listed(
    task: _Task, sizes: Sequence[int], sums: bool = False, max_expansions: int | None = None
) -> _Listed:
    """Try more and more of the best paths (with `sums`: labellings), as many as `sizes` says, until
    one is proven to be the best that satisfies the rules."""
    lattice, space, bound, clock = task.pruned, task.space, task.bound, task.clock
    # the price of a labelling; None where it breaks a hard rule
    judged: dict[bytes, float | None] = {}

    def price(codes: Array) -> float | None:
        key = codes.astype(np.int32).tobytes()
        if key not in judged:
            labels = [space.labels[y] for y in codes.tolist()]
            judged[key] = bound.cost(labels) if bound.satisfied(labels) else None
        return judged[key]

    listed = _Listed(None, False, np.inf, -np.inf)
    for n in sizes:
        if sums:
            searched = labellings(lattice, n, max_expansions, clock.left)
            rows, weights, ordered = searched.labels, searched.log_weights, searched.proven
            rest = searched.log_open if ordered < n else weights[-1]
        else:
            paths, scores = best_paths(lattice, n)
            rows, weights = list(lattice.graph.label_of_node[paths]), scores.tolist()
            ordered = len(rows)
            rest = -np.inf if ordered < n else weights[-1]
        best = None
        for codes, weight in zip(rows, weights, strict=True):
            cost = price(codes)
            if cost is not None and (best is None or weight - cost > best.value):
                best = _Best(weight - cost, codes)
        proven = rest == -np.inf or (best is not None and best.value >= rest)
        if best is not None and not proven:  # those after it in the list cannot be better either
            proven = any(best.value >= weight for weight in weights[:ordered])
        listed = _Listed(best, proven, rest, weights[0] if weights else -np.inf)
        if proven or (clock.left is not None and clock.left <= 0) or (sums and ordered < n):
            break
    return listed


# Then: a flow through the graph of the lattice, solved by CP-SAT.


class _Flow:
    """0/1 variables for the arcs of a graph on paths within `reach` of the best, with the loss of
    taking each."""

    def __init__(self, cp: Any, graph: LabelledGraph, labels: Sequence[str], reach: float):
        model, (loss, price, best) = cp.CpModel(), graph.losses()
        within = loss <= reach + SLACK * (1 + abs(best))  # rounding must not exclude the optimum
        self.kept = np.flatnonzero(within & np.isfinite(loss))
        self.whole = len(self.kept) == np.isfinite(loss).sum()
        self.literals = [model.new_bool_var("") for _ in self.kept]
        self.priced = list(
            zip(self.literals, np.maximum(0.0, price[self.kept]).tolist(), strict=True)
        )
        into, out, reading = (defaultdict[Any, list[Any]](list) for _ in range(3))
        source, target, _, label, token, _ = (
            values.tolist() for values in graph.arcs.taken(self.kept)
        )
        for literal, u, v, y, t in zip(self.literals, source, target, label, token, strict=True):
            out[u].append(literal)
            into[v].append(literal)
            if y >= 0:
                reading[t, labels[y]].append(literal)
        model.add_exactly_one(out[0])
        ends, sinks = [], set(graph.sinks.tolist())
        for node in sorted(into):
            here = model.new_bool_var("")
            model.add_exactly_one([*into[node], here.negated()])
            if node in sinks:
                ends.append(here)
            else:
                model.add_exactly_one([*out[node], here.negated()])
        model.add_exactly_one(ends)
        x = {place: model.new_bool_var("") for place in reading}
        for place, literals in reading.items():
            model.add_exactly_one([*literals, x[place].negated()])
        self.program = Program(cp, model, x)  # with literals of labels for the rules

    def path(self, answer: Answer) -> Array:
        """The arcs of the answer."""
        return self.kept[[answer.true(literal) for literal in self.literals]]


def _flow(cp: Any, task: _Task, listed: _Listed) -> tuple[_Best | None, str]:
    """The best path that satisfies the rules, and "optimal", "time limit", "infeasible" or
    "unknown".

    Only what lies within `reach` of the best path is posted.  An optimum there that lies within
    reach itself is the optimum; else the reach grows, at once to the loss of that path."""
    labels, bound, clock = task.space.labels, task.bound, task.clock
    graph = graph_of_lattice(task.pruned)
    top = graph.losses()[2]
    if not np.isfinite(top):
        return None, "infeasible"
    best = listed.best
    reach = (
        GROWTH * max(listed.top - listed.bound, 1e-3 * (1 + abs(top)))
        if best is None
        else top - best.value
    )
    while True:
        flow = _Flow(cp, graph, labels, reach)
        prices = flow.program.post(bound)
        minimise(cp, flow.program.model, flow.priced + prices)
        answer = programs.search(cp, flow.program.model, clock.left)
        if answer.status in ("optimal", "time limit"):
            arcs = graph.arcs.taken(flow.path(answer))
            codes = arcs.label[arcs.label >= 0]
            value = float(arcs.score.sum()) - bound.cost([labels[y] for y in codes.tolist()])
            if best is None or value > best.value:
                best = _Best(value, codes)
        if answer.status in ("unknown", "time limit"):
            return best, "unknown" if best is None else "time limit"
        if flow.whole:
            return best, "infeasible" if best is None else "optimal"
        if best is not None and top - best.value <= reach:
            return best, "optimal"
        reach = GROWTH * reach if best is None else top - best.value
