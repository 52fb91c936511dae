"""Conditions on labellings, evaluated on a whole labelling, token by token (automaton.py) or in a solver (program.py).

An *event* is that some tokens have labels out of some sets.  A *row* keeps a weighted sum of events between bounds, a
*language* is a deterministic automaton that must accept the labels, and formulas join these by "all of", "some of" and
"not".
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Event: TypeAlias = tuple[tuple[int, frozenset[str]], ...]  # ((token, labels), ...): each token has one of its labels


class Row(NamedTuple):
    """low <= sum of coefficient * [event] <= high, in whole numbers; None: no bound."""

    terms: tuple[tuple[int, Event], ...]
    low: int | None
    high: int | None


class Language(NamedTuple):
    """The labels of all tokens, one after the other, lead from state 0 into a state that is final."""

    column: dict[str, int]  # of each label in the table
    table: tuple[tuple[int, ...], ...]  # [states][columns]  the next state
    final: tuple[bool, ...]  # [states]


class All(NamedTuple):
    """Every part holds."""

    parts: "tuple[Formula, ...]"


class Some(NamedTuple):
    """At least one part holds."""

    parts: "tuple[Formula, ...]"


class Not(NamedTuple):
    """The part does not hold."""

    part: "Formula"


Formula: TypeAlias = Row | Language | All | Some | Not


def holds(formula: Formula, labels: Sequence[str]) -> bool:
    """Whether a labelling satisfies a formula."""
    if isinstance(formula, Row):
        total = 0
        for coefficient, event in formula.terms:
            for t, names in reversed(event):  # what is rarest stands last
                if labels[t] not in names:
                    break
            else:
                total += coefficient
        return (formula.low is None or total >= formula.low) and (formula.high is None or total <= formula.high)
    if isinstance(formula, Language):
        state = 0
        for label in labels:
            state = formula.table[state][formula.column[label]]
        return formula.final[state]
    if isinstance(formula, Not):
        return not holds(formula.part, labels)
    return (all if isinstance(formula, All) else any)(holds(part, labels) for part in formula.parts)
