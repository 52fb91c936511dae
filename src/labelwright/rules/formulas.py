"""Conditions on labellings, evaluated on a whole labelling or posted into a solver (program.py).

An *event* is that some tokens have labels out of some sets.  A *row* keeps a weighted sum of events between bounds, and
formulas join rows by "all of", "some of" and "not".
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Event: TypeAlias = tuple[tuple[int, frozenset[str]], ...]  # ((token, labels), ...): each token has one of its labels


class Row(NamedTuple):
    """low <= sum of coefficient * [event] <= high, in whole numbers; None: no bound."""

    terms: tuple[tuple[int, Event], ...]
    low: int | None
    high: int | None


class All(NamedTuple):
    """Every part holds."""

    parts: "tuple[Formula, ...]"


class Some(NamedTuple):
    """At least one part holds."""

    parts: "tuple[Formula, ...]"


class Not(NamedTuple):
    """The part does not hold."""

    part: "Formula"


Formula: TypeAlias = Row | All | Some | Not


def holds(formula: Formula, labels: Sequence[str]) -> bool:
    """Whether a labelling satisfies a formula."""
    if isinstance(formula, Row):
        total = sum(c for c, event in formula.terms if all(labels[t] in names for t, names in event))
        return (formula.low is None or total >= formula.low) and (formula.high is None or total <= formula.high)
    if isinstance(formula, Not):
        return not holds(formula.part, labels)
    return (all if isinstance(formula, All) else any)(holds(part, labels) for part in formula.parts)
