"""The best labelling that keeps users' rules, proven: n-best labellings first, then OR-Tools' CP-SAT.

Labellings of a lattice come in the order of their weight, so that the first one that keeps all hard rules is the best.
Where it does not come soon, a flow of 0/1 variables through the nodes and arcs of the lattice is posted into CP-SAT
together with the rules.  Only arcs on some path within `reach` of the best path are posted: a labelling found within
that reach beats all that use other arcs, so that nothing is lost.

CP-SAT computes in whole numbers.  Scores are multiplied by a power of two, so that the largest has DIGITS bits, and
rounded; labellings whose scores differ by less than that (one part in 10^11 of the largest, for each token) may change
places.  The scores that are reported are sums of the true ones.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.exact import labellings
from labelwright.decode.options import check_seconds
from labelwright.decode.paths import best_paths
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.inference.candidates import Problem
from labelwright.inference.rules import All, Bound, Event, Formula, Not, Row, Sentence, bind
from labelwright.lattice import Lattice, labelling_weight, margins, posterior
from labelwright.states import StateSpace

Array = NDArray[Any]
N_BEST = (1, 50, 1000)  # paths that are tried before CP-SAT,
N_BEST_SUMS = (1, 50, 1000)  # and labellings where each has many paths: nothing else has a proof for these
DIGITS = 40  # bits of the largest score
TOTAL = 52  # and of the sum of all scores
GROWTH = 1.5  # of the reach, where nothing is found within it
DIAGNOSIS = 2.0  # seconds for finding out which rules contradict each other


class Solution(NamedTuple):
    """The best labelling that keeps the rules."""

    labels: list[str]
    score: float  # weight of the factors that hold
    status: str  # "optimal", or "time limit"
    cost: float = 0.0  # price of the soft rules that are broken


def cp_sat() -> Any:
    """OR-Tools' CP-SAT."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise OptionError(
            "constraints: rules need OR-Tools; install it with: pip install 'labelwright[constraints]'"
        ) from None
    return cp_model


# -- programs ----------------------------------------------------------------------------------------------------------


class Program:
    """A CP-SAT model over literals x[t, label], exactly one of which is true for every token."""

    def __init__(self, cp: Any, model: Any, x: dict[tuple[int, str], Any]):
        self.cp, self.model, self.x = cp, model, x
        self.domains: dict[int, set[str]] = {}
        for t, label in x:
            self.domains.setdefault(t, set()).add(label)
        self._known: dict[Event, Any] = {}

    def _choice(self, t: int, names: frozenset[str]) -> tuple[list[Any], int]:
        """That a token has one of these labels: literals of which one may be true, and a constant."""
        there = self.domains[t]
        if there <= names:
            return [], 1
        return [self.x[t, name] for name in sorted(names & there)], 0

    def event(self, event: Event) -> tuple[list[Any], int]:
        """An event: literals of which one may be true, and a constant."""
        choices = [choice for choice in (self._choice(t, names) for t, names in event) if choice != ([], 1)]
        if any(choice == ([], 0) for choice in choices):
            return [], 0
        if not choices:
            return [], 1
        if len(choices) == 1:
            return choices[0]
        if event not in self._known:
            both = self.model.new_bool_var("")
            for literals, _ in choices:
                self.model.add_bool_or([*literals, both.negated()])
            whole = self.cp.LinearExpr.sum([literal for literals, _ in choices for literal in literals])
            self.model.add(whole <= len(choices) - 1 + both)
            self._known[event] = both
        return [self._known[event]], 0

    def _sum(self, row: Row) -> tuple[list[Any], list[int], int]:
        variables, coefficients, constant = [], [], 0
        for coefficient, event in row.terms:
            literals, always = self.event(event)
            variables += literals
            coefficients += [coefficient] * len(literals)
            constant += coefficient * always
        return variables, coefficients, constant

    def _within(self, row: Row) -> tuple[Any, int, int, int, int]:
        """The sum of a row, its bounds, and what it can be at least and at most."""
        variables, coefficients, constant = self._sum(row)
        least = constant + sum(c for c in coefficients if c < 0)
        most = constant + sum(c for c in coefficients if c > 0)
        total: Any = constant
        if variables:
            total = self.cp.LinearExpr.weighted_sum(variables, coefficients) + constant
        return (total, least if row.low is None else row.low, most if row.high is None else row.high, least, most)

    def enforce(self, formula: Formula) -> None:
        """Post a formula that must hold."""
        if isinstance(formula, All):
            for part in formula.parts:
                self.enforce(part)
        elif isinstance(formula, Row):
            total, low, high, least, most = self._within(formula)
            if least < low:
                self._add(total >= low)
            if most > high:
                self._add(total <= high)
        else:
            self.model.add_bool_or([self.literal(formula)])

    def _add(self, comparison: Any) -> None:
        if isinstance(comparison, bool | np.bool_):  # no variable in it
            if not comparison:
                self.model.add_bool_or([])
        else:
            self.model.add(comparison)

    def literal(self, formula: Formula) -> Any:
        """A literal that is true just where a formula holds."""
        if isinstance(formula, Not):
            return self.literal(formula.part).negated()
        if isinstance(formula, Row):
            total, low, high, least, most = self._within(formula)
            if low <= least and most <= high:
                return self.model.new_constant(1)
            if most < low or high < least:
                return self.model.new_constant(0)
            here, below, above = (self.model.new_bool_var("") for _ in range(3))
            self.model.add_exactly_one([here, below, above])
            self.model.add(total >= low).only_enforce_if(here)
            self.model.add(total <= high).only_enforce_if(here)
            self.model.add(total <= low - 1).only_enforce_if(below)
            self.model.add(total >= high + 1).only_enforce_if(above)
            return here
        parts = [self.literal(part) for part in formula.parts]
        whole = self.model.new_bool_var("")
        every = isinstance(formula, All)
        sides = parts if every else [part.negated() for part in parts]
        whole_side = whole if every else whole.negated()
        for side in sides:
            self.model.add_implication(whole_side, side)
        self.model.add_bool_or([*(side.negated() for side in sides), whole_side])
        return whole

    def post(self, bound: Bound) -> list[tuple[Any, float]]:
        """Post the rules; answers literals, and the price of each that is true."""
        for _, formula in bound.hard:
            self.enforce(formula)
        return [(self.literal(formula).negated(), weight) for _, formula, weight in bound.soft]


class Answer(NamedTuple):
    """What CP-SAT says: "optimal", "time limit" (a solution, not proven), "infeasible" or "unknown"."""

    status: str
    true: Callable[[Any], bool]  # of a literal


def search(cp: Any, model: Any, time_limit: float | None) -> Answer:
    """Run CP-SAT in one thread with a fixed seed, so that its answer is always the same."""
    solver = cp.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2  # a flow is nearly a linear program:
    solver.parameters.cp_model_probing_level = 0  # its relaxation tells more than trying values out
    if time_limit is not None:
        solver.parameters.max_time_in_seconds = max(time_limit, 0.0)
    names = {cp.OPTIMAL: "optimal", cp.FEASIBLE: "time limit", cp.INFEASIBLE: "infeasible", cp.UNKNOWN: "unknown"}
    return Answer(names[solver.solve(model)], lambda literal: bool(solver.boolean_value(literal)))


def _scale(largest: float, total: float) -> float:
    """The power of two that scores are multiplied with before they are rounded."""
    if total <= 0:
        return 1.0
    bits = min(DIGITS - math.ceil(math.log2(largest)), TOTAL - math.ceil(math.log2(total)))
    return math.ldexp(1.0, min(bits, 1000))


def _minimise(cp: Any, model: Any, priced: Sequence[tuple[Any, float]]) -> None:
    """Make the sum of prices of true literals the objective."""
    priced = [(literal, price) for literal, price in priced if price != 0]
    sizes = [abs(price) for _, price in priced]
    scale = _scale(max(sizes, default=0.0), sum(sizes))
    if priced:
        whole = [round(price * scale) for _, price in priced]
        model.minimize(cp.LinearExpr.weighted_sum([literal for literal, _ in priced], whole))


class _Clock:
    """What is left of a time limit."""

    def __init__(self, seconds: float | None):
        check_seconds(seconds)
        self.seconds, self.begun = seconds, time.monotonic()

    @property
    def left(self) -> float | None:
        return None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self.begun))


def _late(number: int, seconds: float | None) -> OptionError:
    return OptionError(
        f"sentence {number}: no labelling that keeps the rules was found in time_limit={seconds} seconds; give it more"
    )


def _contradiction(number: int, bound: Bound, build: Callable[[Bound], tuple[Any, Any]], advice: str) -> OptionError:
    """What to say where no labelling keeps the hard rules: the rules that contradict each other, none too many, by
    leaving out one after the other."""
    rules, begun = list(bound.hard), time.monotonic()
    for rule in bound.hard:
        fewer = [other for other in rules if other is not rule]
        left = DIAGNOSIS - (time.monotonic() - begun)
        if left <= 0:
            break
        cp, model = build(Bound(fewer, []))
        if search(cp, model, left).status == "infeasible":
            rules = fewer
    names = " and ".join(name for name, _ in rules)
    where = f"sentence {number}: no labelling satisfies"
    if not rules:
        return OptionError(f"{where} the forced labels and the constraints")
    together = "" if len(rules) == 1 else " together"
    one = "it" if len(rules) == 1 else "one of them"
    return OptionError(f"{where} {names}{together}; make {one} soft(rule, weight){advice}")


# -- candidates --------------------------------------------------------------------------------------------------------


def solve_candidates(
    problem: Problem,
    rules: Any,
    time_limit: float | None = None,
    *,
    words: Sequence[Any] | None = None,
    number: int = 0,
    labels: Sequence[str] | None = None,
    scheme: str | None = None,
    best: Sequence[str] | None = None,
) -> Solution:
    """The labelling out of the candidates of each token that keeps the rules and satisfies factors of the largest
    weight, less the price of soft rules.

    words, number : of the sentence, for rules that look at it and for what errors say
    labels : all labels that rules may name (None: those of the candidates)
    scheme : of the labels, for "scheme" among the rules
    best : the best labelling without rules, where it is known; if it keeps all of them, nothing is to be searched

    >>> factors = [((0,), ("A",), 1.0), ((0, 1), ("A", "A"), 0.5), ((1,), ("B",), 0.7)]
    >>> problem = Problem([["A", "B"], ["A", "B"]], factors)
    >>> solve_candidates(problem, [])
    Solution(labels=['A', 'B'], score=1.7, status='optimal', cost=0.0)
    >>> from labelwright.inference.rules import agree
    >>> solve_candidates(problem, agree(0, 1)).labels
    ['A', 'A']
    """
    clock = _Clock(time_limit)
    cp = cp_sat()
    domains = [list(dict.fromkeys(domain)) for domain in problem.domains]
    known = tuple(dict.fromkeys(label for domain in domains for label in domain)) if labels is None else tuple(labels)
    bound = bind(rules, Sentence(domains, known, words, number, scheme))
    if not domains:
        return Solution([], 0.0, "optimal")
    for t, domain in enumerate(domains):
        if not domain:
            raise OptionError(f"sentence {number}: token {t} has no candidate label; expected one at least")
    if best is not None and bound.satisfied(best) and bound.cost(best) == 0:
        return Solution(list(best), _worth(problem, best), "optimal")

    def build(wanted: Bound) -> tuple[Program, list[tuple[Any, float]]]:
        model = cp.CpModel()
        x = {(t, label): model.new_bool_var("") for t, domain in enumerate(domains) for label in domain}
        for t, domain in enumerate(domains):
            model.add_exactly_one([x[t, label] for label in domain])
        program = Program(cp, model, x)
        return program, program.post(wanted)

    program, priced = build(bound)
    for (positions, names), weight in _gathered(problem, number).items():
        event = tuple((t, frozenset([name])) for t, name in zip(positions, names, strict=True))
        priced += [(literal, -weight) for literal in program.event(event)[0]]
    _minimise(cp, program.model, priced)
    found = search(cp, program.model, clock.left)
    if found.status == "infeasible":
        advice = ", leave it out, or give the tokens more candidates"
        raise _contradiction(number, bound, lambda wanted: (cp, build(wanted)[0].model), advice)
    if found.status == "unknown":
        raise _late(number, time_limit)
    chosen = [next(label for label in domain if found.true(program.x[t, label])) for t, domain in enumerate(domains)]
    return Solution(chosen, _worth(problem, chosen), found.status, bound.cost(chosen))


def _gathered(problem: Problem, number: int) -> dict[tuple[tuple[int, ...], tuple[str, ...]], float]:
    """The factors that can hold, equal ones as one."""
    found: dict[tuple[tuple[int, ...], tuple[str, ...]], float] = {}
    T = len(problem.domains)
    for positions, names, weight in problem.factors:
        if len(positions) != len(names) or not all(0 <= t < T for t in positions) or not math.isfinite(weight):
            raise OptionError(
                f"sentence {number}: expected factors (positions in 0:{T}, as many labels, a finite weight), "
                f"got {(positions, names, weight)!r}"
            )
        if all(name in problem.domains[t] for t, name in zip(positions, names, strict=True)):
            key = tuple(positions), tuple(names)
            found[key] = found.get(key, 0.0) + float(weight)
    return found


def _worth(problem: Problem, labels: Sequence[str]) -> float:
    return math.fsum(
        weight
        for positions, names, weight in problem.factors
        if all(labels[t] == name for t, name in zip(positions, names, strict=True))
    )


# -- lattices ----------------------------------------------------------------------------------------------------------


class _Best(NamedTuple):
    """The best labelling so far."""

    value: float  # log weight less the price of soft rules
    codes: Array  # [T]


class _Listed(NamedTuple):
    """What n-best labellings say."""

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
    """The best labelling of a lattice that keeps the rules.

    A labelling is worth the sum over its latent paths (`sums`, the default on latent models) or its best path, less the
    price of soft rules; the score and the probability that are reported know nothing of prices.  `status` is "optimal";
    "time limit"; or "limit" where sums over latent paths leave no proof.
    """
    clock = _Clock(time_limit)
    cp = cp_sat()
    if sentence is None:
        sentence = Sentence(candidates_of(lattice, space), space.labels)
    bound = bind(rules, sentence)
    sums = space.latent if sums is None else sums and space.latent
    pruned = _pruned(lattice, space, bound)
    listed = _listed(pruned, space, bound, sums, max_expansions, clock)
    found, status = listed.best, "optimal" if listed.proven else "time limit" if clock.left == 0 else "limit"
    if listed.proven and found is None:
        raise _no_labelling(cp, lattice, space, bound, sentence)
    if not listed.proven and (found is None or not sums):
        found, status = _flow(cp, pruned, space, bound, listed, clock)
        if found is None and status == "infeasible":
            raise _no_labelling(cp, lattice, space, bound, sentence)
        if found is None:
            raise _late(sentence.number, time_limit)
        if sums and status == "optimal":
            status = "limit"  # the best path, but not of the best labelling
    assert found is not None
    return _record(lattice, space, bound, found.codes, status, sums, probabilities, listed.bound)


def _no_labelling(cp: Any, lattice: Lattice, space: StateSpace, bound: Bound, sentence: Sentence) -> OptionError:
    def build(wanted: Bound) -> tuple[Any, Any]:
        flow = _Flow(cp, lattice, _Range(lattice), np.inf)
        flow.program(space).post(wanted)
        return cp, flow.model

    possible = np.isfinite(_Range(lattice).best)
    return _contradiction(sentence.number, bound if possible else Bound([], []), build, ", or leave it out")


def _record(
    lattice: Lattice,
    space: StateSpace,
    bound: Bound,
    codes: Array,
    status: str,
    sums: bool,
    probabilities: bool,
    most: float,
) -> Decoding:
    codes = codes.astype(np.int32)
    labels = [space.labels[y] for y in codes.tolist()]
    exact = status == "optimal" and (sums or not space.latent)
    weight = labelling_weight(lattice, codes)
    score = weight
    if space.latent and not sums:
        score = margins(lattice, codes).best
    if not probabilities and not sums:
        return Decoding(labels, score, None, exact, 0.0 if exact else None, status=status)
    log_z = posterior(lattice).log_z
    log_p = min(0.0, weight - log_z)
    p, gap = math.exp(log_p), 0.0
    if not exact:
        exact = p >= 0.5 and not bound.soft  # no other labelling can have more
        above = math.exp(min(0.0, most - log_z)) if sums else 1.0 - p
        gap = 0.0 if exact else max(5e-324, above - p)
    return Decoding(labels, score, log_p, exact, None if bound.soft and not exact else gap, status=status)


def candidates_of(lattice: Lattice, space: StateSpace) -> list[list[str]]:
    """The labels that each token may have."""
    of, possible = lattice.graph.label_of_node, np.isfinite(lattice.node)[:, : lattice.graph.n_nodes]
    return [[space.labels[y] for y in np.unique(of[row]).tolist()] for row in possible]


# What rules say of one token, or of two neighbours, the lattice can know by itself.


def _rows(formulas: Sequence[Formula]) -> Iterator[Row]:
    for formula in formulas:
        if isinstance(formula, Row):
            yield formula
        elif isinstance(formula, All):
            yield from _rows(formula.parts)


def _pruned(lattice: Lattice, space: StateSpace, bound: Bound) -> Lattice:
    """The lattice without the labels, and pairs of neighbouring labels, that hard rules forbid by themselves."""
    L, T = space.n_labels, len(lattice.node)
    single: dict[int, Array] = {}  # token: which labels it may have [L]
    double: dict[int, Array] = {}  # second token: which pairs of labels [L, L]
    masks: dict[frozenset[str], Array] = {}

    def mask(names: frozenset[str]) -> Array:
        if names not in masks:
            masks[names] = np.array([label in names for label in space.labels])
        return masks[names]

    for row in _rows([formula for _, formula in bound.hard]):
        places = sorted({t for _, event in row.terms for t, _ in event})
        if not places or places[-1] - places[0] > 1:
            continue
        last = places[-1]
        total = np.zeros((L, L) if len(places) == 2 else (1, L), np.int64)
        for coefficient, event in row.terms:
            part = np.ones_like(total, np.bool_)
            for t, names in event:
                part &= mask(names) if t == last else mask(names)[:, None]
            total += coefficient * part
        right = np.ones_like(total, np.bool_)
        if row.low is not None:
            right &= total >= row.low
        if row.high is not None:
            right &= total <= row.high
        if len(places) == 1:
            single[last] = single.get(last, True) & right[0]
        elif not right.all():
            double[last] = double.get(last, True) & right
    if not single and not double:
        return lattice
    node, arc, graph = lattice.node.copy(), lattice.arc, lattice.graph
    of = graph.label_of_node
    for t, right in single.items():
        node[t, : graph.n_nodes][~right[of]] = -np.inf
    if double and graph.order == 2:
        inner = np.flatnonzero(graph.previous >= 0)
        pairs = graph.label_of_state[graph.previous[inner]], of[inner]
        for t, right in double.items():
            node[t, inner[~right[pairs]]] = -np.inf
    elif double:
        source, target = graph.ends
        arc = np.array(np.broadcast_to(arc, (T, arc.shape[1])))
        inside = np.flatnonzero((source < graph.n_nodes) & (target < graph.n_nodes))
        pairs = of[source[inside]], of[target[inside]]
        for t, right in double.items():
            arc[t, inside[~right[pairs]]] = -np.inf
    return Lattice(node, arc, graph)


# The cheap road: labellings in the order of their weight.


def _listed(
    lattice: Lattice, space: StateSpace, bound: Bound, sums: bool, max_expansions: int | None, clock: _Clock
) -> _Listed:
    """Look through more and more of the best labellings until one is proven to be the best that keeps the rules."""
    judged: dict[bytes, float | None] = {}  # the price of a labelling; None where it breaks a hard rule

    def price(codes: Array) -> float | None:
        key = codes.astype(np.int32).tobytes()
        if key not in judged:
            labels = [space.labels[y] for y in codes.tolist()]
            judged[key] = bound.cost(labels) if bound.satisfied(labels) else None
        return judged[key]

    listed = _Listed(None, False, np.inf, -np.inf)
    for n in N_BEST_SUMS if sums else N_BEST:
        if sums:
            found = labellings(lattice, n, max_expansions, clock.left)
            rows, weights, ordered = found.labels, found.log_weights, found.proven
            rest = found.log_open if ordered < n else weights[-1]
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
        if best is not None and not proven:  # those behind it in the list cannot be better either
            proven = any(best.value >= weight for weight in weights[:ordered])
        listed = _Listed(best, proven, rest, weights[0] if weights else -np.inf)
        if proven or (clock.left is not None and clock.left <= 0) or (sums and ordered < n):
            break
    return listed


# The sure road: a flow through the lattice.


class _Range:
    """The best path through every node and arc of a lattice."""

    def __init__(self, lattice: Lattice):
        node, arc, graph = lattice
        T, width = node.shape
        self.source, self.target = graph.ends
        self.ahead = np.zeros((T, width))  # best way to go on from a node
        self.node, self.arc = np.empty((T, width)), np.full((T, arc.shape[1]), -np.inf)
        so_far = np.full((T, width), -np.inf)
        so_far[0] = node[0]
        rows = np.broadcast_to(arc, (T, arc.shape[1]))
        for t in range(1, T):
            np.maximum.at(so_far[t], self.target, so_far[t - 1][self.source] + rows[t])
            so_far[t] += node[t]
        for t in range(T - 1, 0, -1):
            onwards = rows[t] + (node[t] + self.ahead[t])[self.target]
            self.ahead[t - 1] = -np.inf
            np.maximum.at(self.ahead[t - 1], self.source, onwards)
            self.arc[t] = so_far[t - 1][self.source] + onwards
        self.node = so_far + self.ahead
        self.best = float(self.node[-1].max())


class _Flow:
    """0/1 variables for the nodes and arcs on paths within `reach` of the best, with the loss of taking each."""

    def __init__(self, cp: Any, lattice: Lattice, ways: _Range, reach: float):
        self.cp, self.lattice, self.model = cp, lattice, cp.CpModel()
        node, arc, _ = lattice
        T = len(node)
        slack = 1e-9 * (1 + abs(ways.best))  # rounding must not shut out the path that is looked for
        least = ways.best - reach - slack if np.isfinite(reach) else -np.inf
        inside = (ways.node >= least) & np.isfinite(ways.node)
        self.nodes = [{q: self.model.new_bool_var("") for q in np.flatnonzero(row).tolist()} for row in inside]
        self.whole = bool((inside == np.isfinite(ways.node)).all())
        for row in self.nodes:
            self.model.add_exactly_one(list(row.values()))
        begin = ways.best - (node[0] + ways.ahead[0])
        self.priced = [(literal, max(0.0, float(begin[q]))) for q, literal in self.nodes[0].items()]
        for t in range(1, T):
            scores = arc[t if len(arc) > 1 else 0]
            possible = np.isfinite(ways.arc[t])
            kept = np.flatnonzero((ways.arc[t] >= least) & possible)
            self.whole &= len(kept) == possible.sum()
            out: dict[int, list[Any]] = {q: [] for q in self.nodes[t - 1]}
            into: dict[int, list[Any]] = {q: [] for q in self.nodes[t]}
            source, target = ways.source[kept], ways.target[kept]
            loss = ways.ahead[t - 1][source] - (scores[kept] + node[t][target] + ways.ahead[t][target])
            for i, j, lost in zip(source.tolist(), target.tolist(), loss.tolist(), strict=True):
                literal = self.model.new_bool_var("")
                out[i].append(literal)
                into[j].append(literal)
                self.priced.append((literal, max(0.0, lost)))
            for nodes, arcs in ((self.nodes[t - 1], out), (self.nodes[t], into)):
                for q, literals in arcs.items():
                    self.model.add_exactly_one([*literals, nodes[q].negated()])

    def program(self, space: StateSpace) -> Program:
        """Literals of labels for the rules."""
        of, x = self.lattice.graph.label_of_node, {}
        for t, row in enumerate(self.nodes):
            groups: dict[int, list[Any]] = {}
            for q, literal in row.items():
                groups.setdefault(int(of[q]), []).append(literal)
            for y, literals in groups.items():
                x[t, space.labels[y]] = literals[0]
                if len(literals) > 1:
                    x[t, space.labels[y]] = self.model.new_bool_var("")
                    self.model.add_exactly_one([*literals, x[t, space.labels[y]].negated()])
        return Program(self.cp, self.model, x)

    def path(self, answer: Answer) -> Array:
        """The nodes [T] of the answer."""
        return np.array([next(q for q, literal in row.items() if answer.true(literal)) for row in self.nodes])


def _flow(
    cp: Any, lattice: Lattice, space: StateSpace, bound: Bound, listed: _Listed, clock: _Clock
) -> tuple[_Best | None, str]:
    """The best path that keeps the rules, and "optimal", "time limit", "infeasible" or "unknown".

    Only what lies within `reach` of the best path is posted.  An optimum there that lies within reach itself is the
    optimum; else the reach grows, at once to what the found path shows to be enough."""
    ways = _Range(lattice)
    if not np.isfinite(ways.best):
        return None, "infeasible"
    best = listed.best
    if best is not None:
        reach = ways.best - best.value
    else:
        reach = GROWTH * max(listed.top - listed.bound, 1e-3 * (1 + abs(ways.best)))
    while True:
        flow = _Flow(cp, lattice, ways, reach)
        prices = flow.program(space).post(bound)
        _minimise(cp, flow.model, flow.priced + prices)
        answer = search(cp, flow.model, clock.left)
        if answer.status in ("optimal", "time limit"):
            path = flow.path(answer)
            codes = lattice.graph.label_of_node[path]
            value = _score(lattice, path) - bound.cost([space.labels[y] for y in codes.tolist()])
            if best is None or value > best.value:
                best = _Best(value, codes)
        if answer.status in ("unknown", "time limit"):
            return best, "unknown" if best is None else "time limit"
        if flow.whole:
            return best, "infeasible" if best is None else "optimal"
        if best is not None and ways.best - best.value <= reach:
            return best, "optimal"
        reach = GROWTH * reach if best is None else ways.best - best.value


def _score(lattice: Lattice, path: Array) -> float:
    """The score of a path of nodes [T]."""
    node, arc, graph = lattice
    score = float(node[np.arange(len(path)), path].sum())
    base = graph.contexts.base
    return score + sum(float(arc[t if len(arc) > 1 else 0, base[path[t - 1]] + path[t]]) for t in range(1, len(path)))
