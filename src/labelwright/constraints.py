"""Hard and soft rules on labellings, written by the user: `tagger.decode(X, constraints=[at_least(1, "VP")])`.

They are solved exactly (rules.solver, rules.lattices); this needs the extra labelwright[constraints].
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from labelwright.decode.checks import check_whole
from labelwright.errors import OptionError
from labelwright.rules.formulas import Some
from labelwright.rules.rules import (
    At,
    Compared,
    Count,
    Forbidden,
    Joined,
    Linear,
    Restricted,
    Rule,
    Sentence,
    Soft,
    Term,
    called,
    checked_terms,
    fraction,
    names_of,
    parts_of,
    places_of,
    valid_scheme,
)

__all__ = [
    "Rule",
    "Sentence",
    "agree",
    "at_least",
    "at_most",
    "differ",
    "exactly",
    "forbid",
    "implies",
    "linear",
    "only",
    "soft",
    "valid_scheme",
]
OPERATORS = (">=", "<=", "==", "!=", ">", "<")


def at_least(n: int, what: str | Sequence[str], at: At = None) -> Rule:
    """At least n chunks of a type (`"VP"`), or n tokens with a label (`"B-VP"`), beginning at the tokens `at`.

    n : how many
    what : a chunk type or a label, or a list of them
    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers, or a function of the
        token; None: all

    >>> at_least(1, "VP"), at_least(2, ["B-PER", "B-ORG"], at=slice(0, 5))
    (at_least(1, 'VP'), at_least(2, ['B-PER', 'B-ORG'], at=slice(0, 5, None)))
    """
    return _count("at_least", n, what, at, (True, False))


def at_most(n: int, what: str | Sequence[str], at: At = None) -> Rule:
    """At most n chunks of a type, or n tokens with a label.

    n : how many
    what : a chunk type or a label, or a list of them
    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers, or a function of the
        token; None: all
    """
    return _count("at_most", n, what, at, (False, True))


def exactly(n: int, what: str | Sequence[str], at: At = None) -> Rule:
    """Exactly n chunks of a type, or n tokens with a label.

    n : how many
    what : a chunk type or a label, or a list of them
    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers, or a function of the
        token; None: all
    """
    return _count("exactly", n, what, at, (True, True))


def agree(*positions: Any, types: bool = False) -> Rule:
    """The tokens at these positions have the same label (with `types`, labels of the same chunk type, or none): two or
    more positions, or one list of such groups.

    *positions : numbers of tokens, or one list of groups of them
    types : compare chunk types instead of labels

    >>> agree(3, 7), agree([(3, 7), (4, 8)], types=True)
    (agree(3, 7), agree([(3, 7), (4, 8)], types=True))
    """
    return _compared("agree", positions, True, types)


def differ(*positions: Any, types: bool = False) -> Rule:
    """No two of the tokens at these positions have the same label (with `types`: the same chunk type).

    *positions : numbers of tokens, or one list of groups of them
    types : compare chunk types instead of labels
    """
    return _compared("differ", positions, False, types)


def forbid(what: str | Sequence[str], after: str | Sequence[str] | None = None, at: At = None) -> Rule:
    """No token has the label, and no chunk of the type begins; with `after`, none directly after a token with such a
    label.

    what : a chunk type or a label, or a list of them
    after : labels (or types) of the token before; None: anywhere
    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers, or a function of the
        token; None: all

    >>> forbid("I-NP", after="O").satisfied(["O", "I-NP"]), forbid("NP", after="NP").satisfied(["B-NP", "I-NP"])
    (False, True)
    """
    name = called("forbid", what, after=after, at=at)
    return Forbidden(name, names_of(what, name), None if after is None else names_of(after, name), places_of(at, name))


def only(at: At, labels: str | Sequence[str]) -> Rule:
    """The tokens `at` have one of these labels, or a label of one of these chunk types.

    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers, or a function of the
        token; None: all
    labels : labels or chunk types that they may have

    >>> only(lambda word: word.isdigit(), "O"), only(-1, ["O"])
    (only(<lambda>, 'O'), only(-1, ['O']))
    """
    name = called("only", at, labels)
    return Restricted(name, places_of(at, name), names_of(labels, name))


def implies(condition: Any, consequence: Any) -> Rule:
    """If the first rule holds, the second must hold too.

    condition, consequence : rules
    """
    first, second = parts_of(condition, consequence)
    return Joined(called("implies", first, second), Some, (~first, second))


def linear(terms: Iterable[Term] | Callable[[Sentence], Iterable[Term]], comparison: str, bound: float) -> Rule:
    """A sum of coefficients against a bound: each term (coefficient, at, what) counts wherever a token of `at` has the
    label, or begins a chunk of the type.  A function makes the terms from the Sentence, its words and candidates.
    Numbers are taken as written in decimals: 0.1 is exactly a tenth.

    terms : (coefficient, at, what) each, or a function that makes them
    comparison : one of >= <= == != > <
    bound : a number

    >>> linear([(1, None, "B-NP"), (-2, None, "B-VP")], ">=", 0).satisfied(["B-NP", "O", "B-NP", "B-VP"])
    True
    """
    if comparison not in OPERATORS:
        raise OptionError(f"linear: expected one of {' '.join(OPERATORS)}, got {comparison!r}")
    kept: Any = terms if callable(terms) else tuple(terms)
    name = called("linear", terms if callable(terms) else list(kept), comparison, bound)
    fraction(bound, name)
    if not callable(kept):
        checked_terms(kept, name)
    return Linear(name, kept, comparison, bound)


def soft(rule: Any, weight: float) -> Rule:
    """A rule that costs `weight`, in the unit of the tagger's scores, if it is violated; of the rules that a function
    returns for a sentence, each one by itself.

    rule : any rule, or a function of the sentence that returns rules
    weight : above 0
    """
    (kept,) = parts_of(rule)
    name = called("soft", kept, weight)
    number = isinstance(weight, int | float | np.integer | np.floating) and not isinstance(weight, bool)
    if not number or not 0 < weight < float("inf"):
        raise OptionError(f"{name}: expected a weight above 0, got {weight!r}")
    return Soft(name, kept, float(weight))


def _count(word: str, n: int, what: str | Sequence[str], at: At, sides: tuple[bool, bool]) -> Rule:
    name = called(word, n, what, at=at)
    check_whole(name, n, 0)
    low, high = (int(n) if side else None for side in sides)
    return Count(name, names_of(what, name), low, high, places_of(at, name))


def _compared(word: str, positions: tuple[Any, ...], same: bool, types: bool) -> Rule:
    name = called(word, *positions, **({"types": True} if types else {}))
    groups = list(positions[0]) if len(positions) == 1 and not isinstance(positions[0], int) else [positions]
    checked = []
    for group in groups:
        places = places_of(tuple(group) if isinstance(group, Iterable) else group, name)
        if not isinstance(places, tuple) or len(places) < 2:
            raise OptionError(f"{name}: expected two positions or more, {word}(3, 7), or pairs, {word}([(3, 7), ...])")
        checked.append(places)
    return Compared(name, tuple(checked), same, bool(types))
