"""The best labelling from candidates that satisfies users' rules, proven by OR-Tools' CP-SAT."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from labelwright.errors import OptionError
from labelwright.rules import program as programs
from labelwright.rules.events import Sentence
from labelwright.rules.program import ADVICE, Clock, Program, contradiction, cp_sat, late, minimise
from labelwright.rules.rules import Bound, bind
from labelwright.structures.proposals import Problem


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
    """The labelling out of the candidates of each token that satisfies the rules and factors of the largest weight,
    less the price of soft rules.

    words, number : of the sentence, for rules that read them and for error messages
    labels : all labels that rules may name (None: those of the candidates)
    scheme : of the labels, for "scheme" among the rules
    best : the best labelling without rules, where it is known; if it satisfies all of them, there is no search
    wider : makes a problem with more candidates, which is solved in the remaining time where these candidates cannot
        satisfy the rules

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
    known = tuple(dict.fromkeys(label for domain in domains for label in domain)) if labels is None else tuple(labels)
    bound = bind(rules, Sentence(domains, known, words, number, scheme))
    for t, domain in enumerate(domains):
        if not domain:
            raise OptionError(f"sentence {number}: token {t} has no candidate label; expected at least one")
    if best is not None and bound.satisfied(best) and bound.cost(best) == 0:
        return Solution(list(best), _worth(problem, best), "optimal")

    def build(wanted: Bound) -> tuple[Program, list[tuple[Any, float]]]:
        model = cp.CpModel()
        x = {(t, label): model.new_bool_var("") for t, domain in enumerate(domains) for label in domain}
        for t, domain in enumerate(domains):
            model.add_exactly_one([x[t, label] for label in domain])
        program = Program(cp, model, x)
        return program, program.post(wanted)

    def impossible(wanted: Bound, seconds: float) -> bool:
        return programs.search(cp, build(wanted)[0].model, seconds).status == "infeasible"

    program, priced = build(bound)
    for (positions, names), weight in _gathered(problem, number).items():
        event = tuple((t, frozenset([name])) for t, name in zip(positions, names, strict=True))
        priced += [(literal, -weight) for literal in program.event(event)[0]]
    minimise(cp, program.model, priced)
    answer = programs.search(cp, program.model, clock.left)
    if answer.status == "infeasible" and wider is not None:
        return solve_candidates(
            wider(), rules, clock, words=words, number=number, labels=labels, scheme=scheme, best=best
        )
    if answer.status == "infeasible":
        raise contradiction(number, bound, impossible, ADVICE)
    if answer.status == "unknown":
        raise late(number, clock.seconds)
    chosen = [next(label for label in domain if answer.true(program.x[t, label])) for t, domain in enumerate(domains)]
    return Solution(chosen, _worth(problem, chosen), answer.status, bound.cost(chosen))


def _gathered(problem: Problem, number: int) -> dict[tuple[tuple[int, ...], tuple[str, ...]], float]:
    """The factors that can hold, equal ones merged."""
    weights: dict[tuple[tuple[int, ...], tuple[str, ...]], float] = {}
    T = len(problem.domains)
    for positions, names, weight in problem.factors:
        if len(positions) != len(names) or not all(0 <= t < T for t in positions) or not math.isfinite(weight):
            raise OptionError(
                f"sentence {number}: expected factors (positions in 0:{T}, as many labels, a finite weight), "
                f"got {(positions, names, weight)!r}"
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
