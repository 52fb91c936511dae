"""Hard and soft rules on labellings, written by the user: `tagger.decode(X,
constraints=[at_least(1, "VP")])`.

They are solved exactly: by automata (rules.product), or, where these are too large, by the solver
of the extra labelwright[constraints] (rules.lattices, rules.solver).
"""

import ast
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np

from labelwright.corpus.limits import read_at_most
from labelwright.corpus.open_labels import read_allowed_labels
from labelwright.decode.record import check_whole
from labelwright.errors import LabelwrightError, OptionError, unreadable
from labelwright.rules.formulas import At, Sentence, Some
from labelwright.rules.patterns import DEEPEST, LONGEST, read_pattern
from labelwright.rules.rules import (
    Compared,
    Count,
    Forbidden,
    Lexicon,
    Linear,
    Matched,
    Once,
    Required,
    Restricted,
    Rule,
    Soft,
    Term,
    called,
    checked_terms,
    fraction,
    joined,
    names_of,
    parts_of,
    places_of,
    valid_scheme,
)
from labelwright.wording import did_you_mean, shortened, shown

MOST_BYTES = 1 << 24  # of a file with rules

__all__ = [
    "Rule",
    "Sentence",
    "agree",
    "at_least",
    "at_most",
    "differ",
    "exactly",
    "forbid",
    "forbid_pattern",
    "implies",
    "lexicon",
    "linear",
    "once",
    "only",
    "read_rule",
    "read_rules",
    "require",
    "require_pattern",
    "soft",
    "valid_scheme",
]
OPERATORS = (">=", "<=", "==", "!=", ">", "<")
# what rules in files may call
WRITTEN = [name for name in __all__ if name.islower() and not name.startswith("read_")]


def once(*labels: str) -> Rule:
    """Each of these chunk types and labels at most once in a sentence; without any, every one of
    them (but O).

    A chunk is one occurrence, and so is a run of equal labels that follow no scheme.

    *labels : chunk types or labels

    >>> person = once("PER")
    >>> person.satisfied(["B-PER", "I-PER", "O", "B-LOC"]), person.satisfied(["B-PER", "B-PER"])
    (True, False)
    >>> every = once()
    >>> every.satisfied(["Street", "Street", "City"]), every.satisfied(["Street", "City", "Street"])
    (True, False)
    """
    name = called("once", *labels)
    return Once(name, names_of(labels, name) if labels else None)


def at_least(n: int, what: str | Sequence[str], at: At = None, runs: bool = False) -> Rule:
    """At least n chunks of a type (`"VP"`), or n tokens with a label (`"B-VP"`), beginning at the
    tokens `at`.

    n : how many
    what : a chunk type or a label, or a list of them
    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers,
        or a function of the token; None: all
    runs : neighbouring tokens with the same label count once, as a chunk does

    >>> at_least(1, "VP"), at_least(2, ["B-PER", "B-ORG"], at=slice(0, 5))
    (at_least(1, 'VP'), at_least(2, ['B-PER', 'B-ORG'], at=slice(0, 5, None)))
    """
    return _count("at_least", n, what, at, runs, (True, False))


def at_most(n: int, what: str | Sequence[str], at: At = None, runs: bool = False) -> Rule:
    """At most n chunks of a type, or n tokens (with `runs`, runs of tokens) with a label.

    n : how many
    what : a chunk type or a label, or a list of them
    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers,
        or a function of the token; None: all
    runs : neighbouring tokens with the same label count once, as a chunk does
    """
    return _count("at_most", n, what, at, runs, (False, True))


def exactly(n: int, what: str | Sequence[str], at: At = None, runs: bool = False) -> Rule:
    """Exactly n chunks of a type, or n tokens (with `runs`, runs of tokens) with a label.

    n : how many
    what : a chunk type or a label, or a list of them
    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers,
        or a function of the token; None: all
    runs : neighbouring tokens with the same label count once, as a chunk does
    """
    return _count("exactly", n, what, at, runs, (True, True))


def agree(*positions: Any, types: bool = False) -> Rule:
    """The tokens at these positions have the same label (with `types`, labels of the same chunk
    type, or none): two or more positions, or one list of such groups.

    *positions : numbers of tokens, or one list of groups of them
    types : compare chunk types instead of labels

    >>> agree(3, 7), agree([(3, 7), (4, 8)], types=True)
    (agree(3, 7), agree([(3, 7), (4, 8)], types=True))
    """
    return _compared("agree", positions, True, types)


def differ(*positions: Any, types: bool = False) -> Rule:
    """No two of the tokens at these positions have the same label (with `types`: the same chunk
    type).

    *positions : numbers of tokens, or one list of groups of them
    types : compare chunk types instead of labels
    """
    return _compared("differ", positions, False, types)


def forbid(
    what: str | Sequence[str], after: str | Sequence[str] | None = None, at: At = None
) -> Rule:
    """No token has the label, and no chunk of the type begins; with `after`, none directly after a
    token with such a label.

    what : a chunk type or a label, or a list of them
    after : labels (or types) of the token before; None: anywhere
    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers,
        or a function of the token; None: all

    >>> forbid("I-NP", after="O").satisfied(["O", "I-NP"])
    False
    >>> forbid("NP", after="NP").satisfied(["B-NP", "I-NP"])
    True
    """
    name = called("forbid", what, after=after, at=at)
    return Forbidden(
        name,
        names_of(what, name),
        None if after is None else names_of(after, name),
        places_of(at, name),
    )


def require(
    what: str | Sequence[str],
    after: str | Sequence[str] | None = None,
    before: str | Sequence[str] | None = None,
) -> Rule:
    """Directly after (or before) every token with one of the labels `after` (`before`) there is one
    of the labels `what`, if there is a token at all.

    what : labels or chunk types that must be there
    after : labels (or types) of the token before
    before : labels (or types) of the token that follows

    >>> inside = require("I-X", after="B-X")
    >>> inside.satisfied(["B-X", "O"]), inside.satisfied(["O", "B-X"])
    (False, True)
    """
    name = called("require", what, after=after, before=before)
    if after is None and before is None:
        raise OptionError(
            f"{name}: expected after= or before=; for a number of labels use at_least"
        )
    sides = (None if names is None else names_of(names, name) for names in (after, before))
    return Required(name, names_of(what, name), *sides)


def forbid_pattern(pattern: str) -> Rule:
    """No part of the labelling matches the pattern: labels and chunk types separated by spaces,
    with `.` for any label, `...` for any number of labels, `!X` for any but X, `( | )`, `? * +`,
    and `^` and `$` for begin and end.

    pattern : as in "Zip ... City"

    >>> city_after_zip = forbid_pattern("Zip ... City")
    >>> city_after_zip.satisfied(["City", "Zip"])
    True
    >>> city_after_zip.satisfied(["Zip", "State", "City"])
    False
    """
    name = called("forbid_pattern", pattern)
    return Matched(name, read_pattern(pattern, name), False)


def require_pattern(pattern: str) -> Rule:
    """Some part of the labelling matches the pattern (with ^ and $ all of it); see forbid_pattern.

    pattern : as in "^ Number Street+ ... $"

    >>> require_pattern("^ Number Street+ ... $").satisfied(["Number", "Street", "Street", "City"])
    True
    """
    name = called("require_pattern", pattern)
    return Matched(name, read_pattern(pattern, name), True)


def lexicon(
    allowed: Mapping[str, str | Iterable[str]] | str | os.PathLike[str],
    column: int | str = 0,
    word: Callable[[Any], Any] | None = None,
) -> Rule:
    """Words of a dictionary have one of the labels (or chunk types) that it lists for them; others
    may have any.

    allowed : {word: labels}, or a file of these, as `read_allowed_labels` takes it
    column : of the word, where tokens have several columns
    word : a function of the token that returns the word to look up, as in word=str.lower

    >>> known = lexicon({"Avenue": "StreetType", "St": ["StreetType", "City"]})
    >>> known
    lexicon(2 words)
    """
    given = read_allowed_labels(allowed) if isinstance(allowed, str | os.PathLike) else allowed
    if not isinstance(given, Mapping):
        raise OptionError(
            'lexicon: expected a file, or a dictionary of words and their labels, {"St": '
            '["Type", "City"]}, '
            f"got {shown(allowed)}"
        )
    listed = {key: names_of(labels, f"lexicon, {key!r}") for key, labels in given.items()}
    return Lexicon(f"lexicon({len(listed)} words)", listed, word or _Column(column))


def only(at: At, labels: str | Sequence[str]) -> Rule:
    """The tokens `at` have one of these labels, or a label of one of these chunk types.

    at : the tokens that count: a number (negative ones from the end), a list or slice of numbers,
        or a function of the token; None: all
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
    return joined(called("implies", first, second), Some, (~first, second))


def linear(
    terms: Iterable[Term] | Callable[[Sentence], Iterable[Term]], comparison: str, bound: float
) -> Rule:
    """A sum of coefficients against a bound: each term (coefficient, at, what) counts wherever a
    token of `at` has the label, or begins a chunk of the type.  A function makes the terms from the
    Sentence, its words and candidates. Numbers are taken as written in decimals: 0.1 is exactly a
    tenth.

    terms : (coefficient, at, what) each, or a function that makes them
    comparison : one of >= <= == != > <
    bound : a number

    >>> two_to_one = linear([(1, None, "B-NP"), (-2, None, "B-VP")], ">=", 0)
    >>> two_to_one.satisfied(["B-NP", "O", "B-NP", "B-VP"])
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
    """A rule that costs `weight`, in the unit of the tagger's scores, if it is violated; of the
    rules that a function returns for a sentence, each one by itself.

    rule : any rule, or a function of the sentence that returns rules
    weight : above 0
    """
    (kept,) = parts_of(rule)
    name = called("soft", kept, weight)
    number = isinstance(weight, int | float | np.integer | np.floating) and not isinstance(
        weight, bool
    )
    if not number or not 0 < weight < float("inf"):
        raise OptionError(f"{name}: expected a weight above 0, got {weight!r}")
    return Soft(name, kept, float(weight))


def _count(
    word: str, n: int, what: str | Sequence[str], at: At, runs: bool, sides: tuple[bool, bool]
) -> Rule:
    name = called(word, n, what, at=at, runs=runs or None)
    check_whole(name, n, 0)
    low, high = (int(n) if side else None for side in sides)
    return Count(name, names_of(what, name), low, high, places_of(at, name), bool(runs))


def _compared(word: str, positions: tuple[Any, ...], same: bool, types: bool) -> Rule:
    name = called(word, *positions, **({"types": True} if types else {}))
    groups = (
        list(positions[0])
        if len(positions) == 1 and not isinstance(positions[0], int)
        else [positions]
    )
    checked = []
    for group in groups:
        places = places_of(tuple(group) if isinstance(group, Iterable) else group, name)
        if not isinstance(places, tuple) or len(places) < 2:
            raise OptionError(
                f"{name}: expected two positions or more, {word}(3, 7), or pairs, {word}([(3, 7), "
                "...])"
            )
        checked.append(places)
    return Compared(name, tuple(checked), same, bool(types))


# -- rules in files and on the command line --------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    """The word of a token: the token itself, or one of its columns."""

    column: int | str

    def __call__(self, token: Any) -> Any:
        return token if isinstance(token, str) else token[self.column]


def _lines(path: str | os.PathLike[str]) -> list[tuple[int, str]]:
    """The lines of a file that are not empty and no comments (#), with their numbers."""
    try:
        lines = read_at_most(path, MOST_BYTES).decode().splitlines()
    except (OSError, ValueError) as error:
        raise unreadable(OptionError, os.fspath(path), error) from None
    stripped = ((number, line.strip()) for number, line in enumerate(lines, 1))
    return [(number, line) for number, line in stripped if line and not line.startswith("#")]


def read_rules(path: str | os.PathLike[str]) -> list[Rule]:
    """The rules of a file, one on each line as in Python; `#` begins a comment line.

    path : of the file
    """
    rules = []
    for number, line in _lines(path):
        try:
            rules.append(read_rule(line))
        except OptionError as error:
            raise OptionError(f"{os.fspath(path)}:{number}: {error}") from None
    return rules


def read_rule(text: str) -> Rule:
    """A rule written as in Python; a name alone is a call without arguments.

    text : the rule, as in "once" or 'at_most(2, "PER")'

    >>> read_rule("once"), read_rule('at_most(2, "PER") | ~forbid("LOC", after="O")')
    (once(), (at_most(2, 'PER') | ~forbid('LOC', after='O')))
    """
    if not isinstance(text, str):
        raise OptionError(f"rule: expected a text, got {shown(text)}")
    place = f"rule {shortened(text.strip(), 60)!r}"
    if len(text) > LONGEST:
        raise OptionError(
            f"{place}: {len(text):,} characters, expected at most {LONGEST:,}; write several rules"
        )
    expected = (
        f'{place}: expected a rule as in Python with labels in quotes, once() or at_most(2, "PER")'
    )
    try:
        rule = _evaluated(ast.parse(text.strip(), mode="eval").body, 1)
    except LabelwrightError:
        raise
    except (RecursionError, MemoryError):  # ours, or that of Python's parser
        raise OptionError(
            f"{place}: more than {DEEPEST} operators within each other; simplify the rule"
        ) from None
    except (SyntaxError, ValueError, TypeError):
        raise OptionError(expected) from None
    if not isinstance(rule, Rule):
        raise OptionError(expected)
    return rule


def _evaluated(node: ast.expr, depth: int) -> Any:
    """The value of an expression of rules and literals, so many levels deep."""
    if depth > DEEPEST + 1:  # the innermost rule has no operator
        raise RecursionError
    if isinstance(node, ast.Name) and node.id not in ("True", "False", "None"):
        return _called(node.id, [], {})
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        named = {
            keyword.arg or "**": _evaluated(keyword.value, depth + 1) for keyword in node.keywords
        }
        return _called(
            node.func.id, [_evaluated(argument, depth + 1) for argument in node.args], named
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        join = and_ if isinstance(node.op, ast.BitAnd) else or_
        return reduce(join, [_operand(each, depth + 1) for each in _operands(node, type(node.op))])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return ~_operand(node.operand, depth + 1)
    return ast.literal_eval(node)


def _operands(node: ast.expr, operator: type[ast.operator]) -> list[ast.expr]:
    """The operands of a chain of one operator, however long: a, b and c of a & b & c."""
    operands = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        operands.append(node.right)
        node = node.left
    return [node, *reversed(operands)]


def _operand(node: ast.expr, depth: int) -> Rule:
    value = _evaluated(node, depth)
    if not isinstance(value, Rule | str):  # a string is the name of a label scheme
        raise OptionError(
            'rule: expected rules beside &, | and ~, as in once & ~forbid("LOC"), got '
            f"{shown(value)}"
        )
    return parts_of(value)[0]


def _called(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    functions: dict[str, Callable[..., Any]] = {each: globals()[each] for each in WRITTEN} | {
        "slice": slice
    }
    if name not in functions:
        near = did_you_mean(name, WRITTEN) or (
            "" if arguments or named else f'; put labels in quotes: "{name}"'
        )
        raise OptionError(f"no rule {name!r}, expected one of {', '.join(WRITTEN)}{near}")
    try:
        return functions[name](*arguments, **named)
    except LabelwrightError:
        raise
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise OptionError(f"{name}: {error}") from None
