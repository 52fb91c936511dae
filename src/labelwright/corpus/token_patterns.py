r"""Token patterns that a model may remember: regular expressions that no text makes slow.

Python's `re` tries every way to match.  A pattern from a file must not have many: `(\w+\s?)*$` takes 2^n steps on n
letters, and `.*.*.*x` n^3 at each of them.  The check is conservative: it walks the tree of Python's own parser and
refuses what it cannot show to be harmless.  What passes takes a number of steps at each character that is proportional
to what it can see of the text, and `matches` shows it no more than WINDOW characters: the time is proportional to the
length of the text.

>>> [why_slow(p) for p in (r"\w+(?:-\w+)*", r"[A-Z]\.(?:[A-Z]\.)+", r"\d+(?:[.,]\d+)*|\w+|\S")]
[None, None, None]
>>> why_slow(r"(\w+\s?)*$")
'a repeat within a repeat can match the same text in several ways'
>>> why_slow(r"(\w|\d\d)+")
'alternatives within a repeat can begin with the same character'

Python's parser may change: where it is missing, or has parts that are not known here, patterns are refused.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any

try:
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover
    parser = None

Characters = frozenset[int]
LONGEST = 1000  # characters of a pattern
MANY = 100  # times that a repeat may repeat before it counts as unbounded
LONGEST_TOKEN = 1000  # characters; a longer one may be cut
WINDOW = 2 * LONGEST_TOKEN  # characters that a pattern sees at once
MOST_STEPS = 100 * WINDOW  # at each character: a hundred ways to match optional parts, each with an unbounded repeat

PLAIN = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
LOCAL = re.IGNORECASE | re.DOTALL
NAMES = ("LITERAL", "NOT_LITERAL", "RANGE")
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
AROUND = ("ASSERT", "ASSERT_NOT")
NESTED = "a repeat within a repeat can match the same text in several ways"
ALTERNATIVES = "alternatives within a repeat can begin with the same character"
SHARED = "two repeats in a row can match the same characters"


def why_slow(pattern: str) -> str | None:
    r"""Why a pattern may be slow on some text; None where no text makes it so.

    pattern : a valid regular expression of Python's

    >>> why_slow(r"(a)\1"), why_slow("a*a*b")
    ('it has a backreference', 'two repeats in a row can match the same characters')
    """
    if len(pattern) > LONGEST:
        return f"it has {len(pattern):,} characters, expected at most {LONGEST:,}"
    if parser is None:  # pragma: no cover
        return "this version of Python cannot check it"
    try:
        tree = parser.parse(pattern)
        walk = _Walk(list(tree), tree.state.flags)
        walk.sequence(list(tree), repeated=False)
        if _steps(list(tree)) > MOST_STEPS:
            return "it has too many optional parts"
    except SlowError as error:
        return str(error)
    except (re.error, RecursionError, OverflowError) as error:
        return f"it is no regular expression: {error}"
    return None


def matches(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """The places of all matches in a text that are not empty; each attempt sees at most WINDOW characters."""
    at = 0
    while at < len(text):
        reached = at + LONGEST_TOKEN
        for match in pattern.finditer(text, at, at + WINDOW):
            if match.start() >= at + LONGEST_TOKEN:
                break
            reached = max(reached, match.end())
            if match.end() > match.start():
                yield match.span()
        at = reached


class SlowError(Exception):
    """Why a pattern may be slow."""


class _Walk:
    """A walk through the tree of a pattern, under its flags."""

    def __init__(self, items: list[Any], flags: int):
        groups = [item[1] for item in _all_items(items) if str(item[0]) == "SUBPATTERN"]
        local = {(group[1] & LOCAL, group[2] & LOCAL) for group in groups}  # flags that groups add and remove
        self.flags = {flags, *((flags | added) & ~removed for added, removed in local)}
        named = {code for item in _all_items(items) if str(item[0]) in PLAIN for code in _named(item)}
        cases = {ord(case) for code in named for case in (chr(code).lower(), chr(code).upper()) if len(case) == 1}
        self.sample = sample() | named | cases
        self._known: dict[str, Characters] = {}  # what items match; nested groups ask for the same ones

    def sequence(self, items: list[Any], repeated: bool) -> None:
        """Check items that follow each other; `repeated` where the sequence is within an unbounded repeat."""
        for item in items:
            self._item(item, repeated)
        self._check_row(items)

    def _item(self, item: Any, repeated: bool) -> None:
        name, argument = str(item[0]), item[1]
        if name == "GROUPREF":
            raise SlowError("it has a backreference")
        if name == "GROUPREF_EXISTS":
            raise SlowError("it has a condition on a group")
        if name in AROUND and any(_is_repeat(part) for part in _all_items(list(argument[1]))):
            raise SlowError("it has a repeat within a lookahead or lookbehind")
        if name == "BRANCH":
            self._branch([list(branch) for branch in argument[1]], repeated)
        elif name in REPEATS:
            self._repeat(item, repeated)
        elif name not in PLAIN:
            for body in _bodies(item):
                self.sequence(body, repeated)

    def _branch(self, branches: list[list[Any]], repeated: bool) -> None:
        for branch in branches:
            self.sequence(branch, repeated)
        if repeated:
            seen: set[int] = set()
            for branch in branches:
                first = self._first(branch)
                if self._may_be_empty(branch) or seen & first:
                    raise SlowError(ALTERNATIVES)
                seen |= first

    def _repeat(self, item: Any, repeated: bool) -> None:
        body = list(item[1][2])
        several = int(item[1][1]) > 1
        self.sequence(body, repeated or several)
        if not several:
            return
        if self._may_be_empty(body):
            raise SlowError(NESTED)
        optional = [part for part in _all_items(body) if str(part[0]) in REPEATS and part[1][0] != part[1][1]]
        if optional:
            within: set[int] = set()
            for part in optional:
                within |= self._all([part])
            first, last = self._edge(body, 0), self._edge(body, -1)
            if within & first and within & last:
                raise SlowError(NESTED)

    def _edge(self, body: list[Any], at: int) -> Characters:
        """The characters of the first (0) or last (-1) item of a body where it is one required character; else all."""
        edge = _flat(body)[at]
        return self._matching(edge) if str(edge[0]) in PLAIN else self.sample

    def _check_row(self, items: list[Any]) -> None:
        """Refuse unbounded repeats that divide the same text between them.

        A repeat has several ends only where what is matched next can begin with a character of the repeat."""
        before: list[tuple[Characters, bool, bool]] = []  # what an item can follow, and whether an end is open there
        for item in _flat(items):
            first, repeats = self._first([item]), _has_repeat(item)
            several = any(earlier or (is_repeat and bool(mine & first)) for mine, is_repeat, earlier in before)
            if repeats and several:
                raise SlowError(SHARED)
            if not self._may_be_empty([item]):
                before = []
            before.append((self._all([item]), repeats, several))

    # -- characters -----------------------------------------------------------------------------------------------

    def _may_be_empty(self, items: list[Any]) -> bool:
        return all(_least_width(item) == 0 for item in items)

    def _first(self, items: list[Any]) -> Characters:
        """The characters that a sequence can begin with."""
        first: set[int] = set()
        for item in items:
            name, argument = str(item[0]), item[1]
            if name == "BRANCH":
                first.update(*(self._first(list(branch)) for branch in argument[1]))
            elif name in PLAIN:
                first |= self._matching(item)
            else:
                first.update(*(self._first(body) for body in _bodies(item)))
            if _least_width(item):
                break
        return frozenset(first)

    def _all(self, items: list[Any]) -> Characters:
        """All characters that can occur in what a sequence matches."""
        every: set[int] = set()
        for item in _all_items(items):
            if str(item[0]) in PLAIN:
                every |= self._matching(item)
        return frozenset(every)

    def _matching(self, item: Any) -> Characters:
        """The characters of the sample, and those that the item names, which the item matches."""
        if str(item) not in self._known:
            self._known[str(item)] = self._match_sample(item)
        return self._known[str(item)]

    def _match_sample(self, item: Any) -> Characters:
        from re import _compiler as compiler  # type: ignore[attr-defined]

        matching: set[int] = set()
        for flags in self.flags:
            state = parser.State()
            state.flags = flags
            one = compiler.compile(parser.SubPattern(state, [item]), flags)
            matching.update(code for code in self.sample if one.fullmatch(chr(code)))
        return frozenset(matching)


def _is_repeat(item: Any) -> bool:
    """Is it a repeat without an upper bound, or with a high one?"""
    return str(item[0]) in REPEATS and int(item[1][1]) > MANY


def _has_repeat(item: Any) -> bool:
    """Is there an unbounded repeat in it?"""
    return any(map(_is_repeat, _all_items([item])))


def _steps(items: list[Any]) -> int:
    """How many steps a pattern takes at a character, at most: alternatives are tried one after the other."""
    only = items[0] if len(items) == 1 else None
    branches = _bodies(only) if only is not None and str(only[0]) in ("BRANCH", "SUBPATTERN") else []
    if branches:
        return sum(map(_steps, branches))
    return _ways(items) * (WINDOW if any(map(_has_repeat, items)) else 1)


def _ways(items: list[Any]) -> int:
    """How many ways to match optional parts and alternatives there are, repeats without a bound aside."""
    ways = 1
    for item in items:
        name, argument = str(item[0]), item[1]
        if name == "BRANCH":
            ways *= sum(_ways(list(branch)) for branch in argument[1])
        elif name in REPEATS:
            inner = _ways(list(argument[2])) if argument[1] == 1 else 1  # of others the body matches in one way
            ways *= inner if _is_repeat(item) else (argument[1] - argument[0] + 1) * inner
        else:
            ways *= max(map(_ways, _bodies(item)), default=1)
        if ways > MOST_STEPS:
            return ways
    return ways


def _named(item: Any) -> list[int]:
    """The characters that an item names, with the ends of ranges."""
    parts = item[1] if str(item[0]) == "IN" else [item]
    pairs = [argument if str(name) == "RANGE" else (argument,) for name, argument in parts if str(name) in NAMES]
    return [code for pair in pairs for code in pair]


def _least_width(item: Any) -> int:
    """How many characters an item matches at least."""
    state = parser.State()
    return int(parser.SubPattern(state, [item]).getwidth()[0])


def _bodies(item: Any) -> list[list[Any]]:
    """The sequences within an item."""
    name, argument = str(item[0]), item[1]
    if name == "BRANCH":
        return [list(branch) for branch in argument[1]]
    if name in REPEATS:
        return [list(argument[2])]
    if name == "SUBPATTERN":
        return [list(argument[3])]
    if name == "ATOMIC_GROUP":
        return [list(argument)]
    if name in AROUND:
        return [list(argument[1])]
    if name in (*PLAIN, "AT", "FAILURE", "GROUPREF", "GROUPREF_EXISTS"):
        return []
    raise SlowError(f"this version of Python has a part in it that is not known here ({name})")


def _all_items(items: list[Any]) -> list[Any]:
    """The items of a sequence, and all within them."""
    return [part for item in items for part in (item, *(p for body in _bodies(item) for p in _all_items(body)))]


def _flat(items: list[Any]) -> list[Any]:
    """The items of a sequence, with those of groups in their places."""
    flat: list[Any] = []
    for item in items:
        flat += _flat(list(item[1][3])) if str(item[0]) == "SUBPATTERN" else [item]
    return flat


@cache
def sample() -> Characters:
    """ASCII, and some characters of each general category of Unicode."""
    codes: dict[str, list[int]] = {}
    for code in range(128, 0x3100):
        some = codes.setdefault(unicodedata.category(chr(code)), [])
        if len(some) < 3:
            some.append(code)
    further = [0x3042, 0x4E00, 0xAC00, 0xD800, 0xE000, sys.maxunicode]
    return frozenset([*range(128), *further, *(code for some in codes.values() for code in some)])
