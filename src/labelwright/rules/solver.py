"""The best labelling from candidates that satisfies users' rules, proven by OR-Tools' CP-SAT.

Programs of whole numbers for OR-Tools' CP-SAT: literals x[t, label], users' rules over them,
prices.

CP-SAT computes in whole numbers.  Scores are multiplied by a power of two, so that the largest has
DIGITS bits, and rounded; labellings whose scores differ by less than that (one part in 10^11 of the
largest, for each token) may be swapped.  The reported scores are sums of the true ones.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelwright.decode.record import check_seconds
from labelwright.errors import OptionError
from labelwright.rules.formulas import All, Event, Formula, Language, Not, Row, Sentence
from labelwright.rules.rules import Bound, bind
from labelwright.structures.proposals import Problem

DIGITS = 40  # bits of the largest score
TOTAL = 52  # and of the sum of all scores
ADVICE = ", or leave it out"  # where rules contradict each other
DIAGNOSIS = 2.0  # seconds to determine which rules contradict each other


# -- programs of whole numbers ---------------------------------------------------------------------


def cp_sat() -> Any:
    """OR-Tools' CP-SAT."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise OptionError(
            "constraints: these rules need OR-Tools; install it with: pip install "
            "'labelwright[constraints]'"
        ) from None
    return cp_model


class Program:
    """A CP-SAT model over literals x[t, label], exactly one of which is true for every token."""

    def __init__(self, cp: Any, model: Any, x: dict[tuple[int, str], Any]):
        self.cp, self.model, self.x = cp, model, x
        self.domains: dict[int, set[str]] = {}
        for t, label in x:
            self.domains.setdefault(t, set()).add(label)
        self._known: dict[Event, Any] = {}

    def _choice(self, t: int, names: frozenset[str]) -> tuple[list[Any], int]:
        """That a token has one of these labels: literals of which one may be true, and a
        constant."""
        possible = self.domains[t]
        if possible <= names:
            return [], 1
        return [self.x[t, name] for name in sorted(names & possible)], 0

    def event(self, event: Event) -> tuple[list[Any], int]:
        """An event: literals of which one may be true, and a constant."""
        choices = [
            choice for choice in (self._choice(t, names) for t, names in event) if choice != ([], 1)
        ]
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
            whole = self.cp.LinearExpr.sum(
                [literal for literals, _ in choices for literal in literals]
            )
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
        return (
            total,
            least if row.low is None else row.low,
            most if row.high is None else row.high,
            least,
            most,
        )

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
        if isinstance(formula, Language):
            return self._accepted(formula)
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

    def _accepted(self, language: Language) -> Any:
        """A literal that is true just where an automaton accepts the labels: it is in one state
        after each token."""
        here = {0: self.model.new_constant(1)}
        for t in sorted(self.domains):
            steps = [
                (literal, self.x[t, label], language.table[state][language.column[label]])
                for state, literal in here.items()
                for label in sorted(self.domains[t])
            ]
            here = {
                state: self.model.new_bool_var("")
                for state in dict.fromkeys(state for *_, state in steps)
            }
            self.model.add_exactly_one(list(here.values()))
            for before, label, after in steps:
                self.model.add_bool_or([before.negated(), label.negated(), here[after]])
        accepted = self.model.new_bool_var("")
        self.model.add_exactly_one(
            [accepted.negated(), *(x for state, x in here.items() if language.final[state])]
        )
        return accepted

    def post(self, bound: Bound) -> list[tuple[Any, float]]:
        """Post the rules; returns literals, and the price of each that is true."""
        for _, formula in bound.hard:
            self.enforce(formula)
        return [(self.literal(formula).negated(), weight) for _, formula, weight in bound.soft]


class Answer(NamedTuple):
    """The answer of CP-SAT: "optimal", "time limit" (a solution, not proven), "infeasible" or
    "unknown"."""

    status: str
    true: Callable[[Any], bool]  # of a literal


def search(cp: Any, model: Any, time_limit: float | None) -> Answer:
    """Run CP-SAT in one thread with a fixed seed, so that its answer is always the same."""
    solver = cp.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2  # a flow is nearly a linear program:
    solver.parameters.cp_model_probing_level = 0  # its relaxation gives more than probing
    if time_limit is not None:
        solver.parameters.max_time_in_seconds = max(time_limit, 0.0)
    names = {
        cp.OPTIMAL: "optimal",
        cp.FEASIBLE: "time limit",
        cp.INFEASIBLE: "infeasible",
        cp.UNKNOWN: "unknown",
    }
    return Answer(names[solver.solve(model)], lambda literal: bool(solver.boolean_value(literal)))


def _scale(largest: float, total: float) -> float:
    """The power of two that scores are multiplied with before they are rounded."""
    if total <= 0:
        return 1.0
    bits = min(DIGITS - math.ceil(math.log2(largest)), TOTAL - math.ceil(math.log2(total)))
    return math.ldexp(1.0, min(bits, 1000))


def minimise(cp: Any, model: Any, priced: Sequence[tuple[Any, float]]) -> None:
    """Make the sum of prices of true literals the objective."""
    priced = [(literal, price) for literal, price in priced if price != 0]
    sizes = [abs(price) for _, price in priced]
    scale = _scale(max(sizes, default=0.0), sum(sizes))
    if priced:
        whole = [round(price * scale) for _, price in priced]
        model.minimize(cp.LinearExpr.weighted_sum([literal for literal, _ in priced], whole))


class Clock:
    """The remainder of a time limit."""

    def __init__(self, seconds: float | None):
        check_seconds(seconds)
        self.seconds, self.begun = seconds, time.monotonic()

    @property
    def left(self) -> float | None:
        return (
            None
            if self.seconds is None
            else max(0.0, self.seconds - (time.monotonic() - self.begun))
        )


def late(number: int, seconds: float | None) -> OptionError:
    return OptionError(
        f"sentence {number}: no labelling that satisfies the rules in time_limit={seconds} "
        "seconds; raise time_limit"
    )


class InfeasibleError(OptionError):
    """No labelling satisfies the rules."""


def contradiction(
    number: int, bound: Bound, impossible: Callable[[Bound, float], bool], advice: str
) -> InfeasibleError:
    """The error where no labelling satisfies the hard rules: it names a minimal set of rules that
    contradict each other, by leaving out one after the other.  impossible(rules, seconds) says that
    some of the rules do."""
    rules, begun = list(bound.hard), time.monotonic()
    for rule in bound.hard:
        fewer = [other for other in rules if other is not rule]
        left = DIAGNOSIS - (time.monotonic() - begun)
        if left <= 0:
            break
        if impossible(Bound(fewer, []), left):
            rules = fewer
    names = " and ".join(name for name, _ in rules)
    where = f"sentence {number}: no labelling satisfies"
    if not rules:
        return InfeasibleError(f"{where} the forced labels and the constraints")
    together = "" if len(rules) == 1 else " together"
    one = "it" if len(rules) == 1 else "one of them"
    return InfeasibleError(f"{where} {names}{together}; make {one} soft(rule, weight){advice}")


# -- labellings of candidates ----------------------------------------------------------------------


class Solution(NamedTuple):
    """The best labelling that satisfies the rules."""

    labels: list[str]
    score: float  # weight of the factors that hold
    status: str  # "optimal", or "time limit"
    cost: float = 0.0  # price of the soft rules that are violated


def solve_candidates(
    problem: Problem,
    rules: Any,
    time_limit: float | Clock | None = None,
    *,
    words: Sequence[Any] | None = None,
    number: int = 0,
    labels: Sequence[str] | None = None,
    scheme: str | None = None,
    best: Sequence[str] | None = None,
    wider: Callable[[], Problem] | None = None,
) -> Solution:
    """The labelling out of the candidates of each token that satisfies the rules and factors of the
    largest weight, less the price of soft rules.

    words, number : of the sentence, for rules that read them and for error messages
    labels : all labels that rules may name (None: those of the candidates)
    scheme : of the labels, for "scheme" among the rules
    best : the best labelling without rules, where it is known; if it satisfies all of them, there
        is no search
    wider : makes a problem with more candidates, which is solved in the remaining time where these
        candidates cannot satisfy the rules

    >>> factors = [((0,), ("A",), 1.0), ((0, 1), ("A", "A"), 0.5), ((1,), ("B",), 0.7)]
    >>> problem = Problem([["A", "B"], ["A", "B"]], factors)
    >>> solve_candidates(problem, [])
    Solution(labels=['A', 'B'], score=1.7, status='optimal', cost=0.0)
    >>> from labelwright.constraints import agree
    >>> solve_candidates(problem, agree(0, 1)).labels
    ['A', 'A']
    """
    clock = time_limit if isinstance(time_limit, Clock) else Clock(time_limit)
    if not problem.domains:
        return Solution([], 0.0, "optimal")
    cp = cp_sat()
    domains = [list(dict.fromkeys(domain)) for domain in problem.domains]
    known = (
        tuple(dict.fromkeys(label for domain in domains for label in domain))
        if labels is None
        else tuple(labels)
    )
    bound = bind(rules, Sentence(domains, known, words, number, scheme))
    for t, domain in enumerate(domains):
        if not domain:
            raise OptionError(
                f"sentence {number}: token {t} has no candidate label; expected at least one"
            )
    if best is not None and bound.satisfied(best) and bound.cost(best) == 0:
        return Solution(list(best), _worth(problem, best), "optimal")

    def build(wanted: Bound) -> tuple[Program, list[tuple[Any, float]]]:
        model = cp.CpModel()
        x = {
            (t, label): model.new_bool_var("")
            for t, domain in enumerate(domains)
            for label in domain
        }
        for t, domain in enumerate(domains):
            model.add_exactly_one([x[t, label] for label in domain])
        program = Program(cp, model, x)
        return program, program.post(wanted)

    def impossible(wanted: Bound, seconds: float) -> bool:
        return search(cp, build(wanted)[0].model, seconds).status == "infeasible"

    program, priced = build(bound)
    for (positions, names), weight in _gathered(problem, number).items():
        event = tuple((t, frozenset([name])) for t, name in zip(positions, names, strict=True))
        priced += [(literal, -weight) for literal in program.event(event)[0]]
    minimise(cp, program.model, priced)
    answer = search(cp, program.model, clock.left)
    if answer.status == "infeasible" and wider is not None:
        return solve_candidates(
            wider(),
            rules,
            clock,
            words=words,
            number=number,
            labels=labels,
            scheme=scheme,
            best=best,
        )
    if answer.status == "infeasible":
        raise contradiction(number, bound, impossible, ADVICE)
    if answer.status == "unknown":
        raise late(number, clock.seconds)
    chosen = [
        next(label for label in domain if answer.true(program.x[t, label]))
        for t, domain in enumerate(domains)
    ]
    return Solution(chosen, _worth(problem, chosen), answer.status, bound.cost(chosen))


def _gathered(
    problem: Problem, number: int
) -> dict[tuple[tuple[int, ...], tuple[str, ...]], float]:
    """The factors that can hold, equal ones merged."""
    weights: dict[tuple[tuple[int, ...], tuple[str, ...]], float] = {}
    T = len(problem.domains)
    for positions, names, weight in problem.factors:
        if (
            len(positions) != len(names)
            or not all(0 <= t < T for t in positions)
            or not math.isfinite(weight)
        ):
            raise OptionError(
                f"sentence {number}: expected factors (positions in 0:{T}, as many labels, a "
                f"finite weight), got {(positions, names, weight)!r}"
            )
        if all(name in problem.domains[t] for t, name in zip(positions, names, strict=True)):
            key = tuple(positions), tuple(names)
            weights[key] = weights.get(key, 0.0) + float(weight)
    return weights


def _worth(problem: Problem, labels: Sequence[str]) -> float:
    return math.fsum(
        weight
        for positions, names, weight in problem.factors
        if all(labels[t] == name for t, name in zip(positions, names, strict=True))
    )
