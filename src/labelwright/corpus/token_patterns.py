r"""Token patterns: regular expressions of Python's, searched in time proportional to the length of
the text.

Python's `re` tries one way to match after the other: `(\w+\s?)*$` takes 2^n steps on n letters.  A
pattern may come from a file, so all ways are followed at once here (Thompson 1968): a state is the
list of places that a match may have reached in the pattern, best first, and what follows it after a
character is worked out once.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from labelwright.errors import OptionError

LONGEST = 1000  # characters of a pattern, and of a token: a longer one is cut
MOST_NODES = 1000  # of a pattern: repeats with a bound are written out
MOST_STEPS = 20_000  # from a state by a character, which are remembered
UNBOUNDED = 1 << 20  # times or more: as often as one likes

ONE = ("LITERAL", "NOT_LITERAL", "ANY", "IN")  # what matches one character
REFUSED = {
    "GROUPREF": "has a backreference, which is not supported",
    "GROUPREF_EXISTS": "has a condition on a group, which is not supported",
    "ATOMIC_GROUP": "has an atomic group, which is not supported",
    "POSSESSIVE_REPEAT": "has a possessive repeat, which is not supported",
    **dict.fromkeys(
        ("ASSERT", "ASSERT_NOT"), "has a repeat or several choices within a lookahead or lookbehind"
    ),
}


class Node(NamedTuple):
    """A part of a pattern."""

    test: int  # the bit of the test that must be passed; 0: none
    advances: bool  # whether a character is taken
    following: tuple[int, ...]  # nodes that may come next, best first


class Check(NamedTuple):
    """An expression of Python's for one character, or (`look`) for a place in the text."""

    bit: int
    expression: re.Pattern[str]
    look: bool


class TokenPattern:
    r"""A pattern whose matches are tokens, the same that Python finds; those without a character do
    not count.

    >>> list(TokenPattern(r"\w+(?:-\w+)*|\S").places("to-do, now"))
    [(0, 5), (5, 6), (7, 10)]
    """

    def __init__(self, pattern: str):
        self._named = f"token_pattern: {pattern!r:.60}"
        self._nodes = [Node(0, False, ())]  # the first is the end of a match
        self._tests: dict[str, Check] = {}
        self._kinds: dict[str, int] = {}  # the tests that a character passes, as bits
        if len(pattern) > LONGEST:
            raise self._refusal(f"has {len(pattern):,} characters, expected at most {LONGEST:,}")
        try:
            from re import _parser as parser  # type: ignore[attr-defined]

            tree = parser.parse(pattern)
            start = self._sequence(tree, 0, tree.state.flags)
        except (re.error, RecursionError, OverflowError) as error:
            raise self._refusal(f"is no regular expression: {error}") from None
        self._states: list[tuple[int, ...]] = [(-1, start)]  # nodes; -1: no character is taken yet
        self._numbers = {self._states[0]: 0}
        # of each state, by the tests that are passed
        self._steps: list[dict[int, tuple[int, bool]]] = [{}]
        self._n_steps = 0

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Where tokens begin and end in a text."""
        for character in set(text) - self._kinds.keys():
            passed = (
                test
                for test in self._tests.values()
                if not test.look and test.expression.fullmatch(character)
            )
            self._kinds[character] = sum(test.bit for test in passed)
        # [n+1] which tests are passed at each place
        fits = [*map(self._kinds.__getitem__, text), 0]
        for test in self._tests.values():
            for match in test.expression.finditer(text) if test.look else ():
                fits[match.start()] |= test.bit
        steps, begin = self._steps, 0
        while begin < len(text):
            state, end = 0, begin
            for at in range(begin, min(len(text), begin + LONGEST) + 1):
                state, ends = steps[state].get(fits[at]) or self._step(state, fits[at])
                if ends:
                    end = at
                if state < 0:
                    break
            if end > begin:
                yield begin, end
            begin = max(end, begin + 1)

    def _step(self, state: int, fits: int) -> tuple[int, bool]:
        """The state after a character that passes these tests, -1 for none, and whether a match
        ends before it."""
        self._n_steps += 1
        if self._n_steps > MOST_STEPS:
            raise self._refusal("has too many ways to match this text; make it simpler")
        nodes = self._states[state]
        seen, waiting, reached, ends = {-1}, list(nodes[::-1]), dict[int, None](), False
        while waiting and not ends:  # what is worse than the end does not count
            number = waiting.pop()
            test, advances, following = self._nodes[number]
            if number in seen or fits & test != test:
                continue
            seen.add(number)
            if advances:
                reached[following[0]] = None
            else:
                waiting += following[::-1]
                ends = number == 0 and nodes[0] >= 0
        after = self._numbers.setdefault(tuple(reached), len(self._states)) if reached else -1
        if after == len(self._states):
            self._states.append(tuple(reached))
            self._steps.append({})
        step = self._steps[state][fits] = after, ends
        return step

    # -- from Python's parse to nodes --------------------------------------------------------------

    def _sequence(self, items: Any, then: int, flags: int) -> int:
        """The node where these items begin, after which comes node `then`."""
        for item in reversed(list(items)):
            then = self._item(item, then, flags)
        return then

    def _item(self, item: Any, then: int, flags: int) -> int:
        name, argument = str(item[0]), item[1]
        if name in ONE:
            return self._node(self._test(item, flags, look=False), True, then)
        if name == "AT" or (name in ("ASSERT", "ASSERT_NOT") and _is_fixed(argument[1])):
            return self._node(self._test(item, flags, look=True), False, then)
        if name == "SUBPATTERN":
            _, added, removed, body = argument
            return self._sequence(body, then, (flags | added) & ~removed)
        if name == "BRANCH":
            return self._node(
                0, False, *[self._sequence(branch, then, flags) for branch in argument[1]]
            )
        if name not in ("MAX_REPEAT", "MIN_REPEAT"):
            raise self._refusal(REFUSED.get(name, f"has a part of an unknown kind ({name})"))
        least, most, body = argument
        if most > 1 and not body.getwidth()[0]:
            raise self._refusal(
                "repeats what may be empty; write it so that each repeat has a character"
            )
        # another one, or what comes then, is better
        first, order = then, 1 if name == "MAX_REPEAT" else -1
        if most > UNBOUNDED:
            first = self._node(0, False)
            self._nodes[first] = Node(0, False, (self._sequence(body, first, flags), then)[::order])
            most = least
        for _ in range(most - least):
            first = self._node(0, False, *(self._sequence(body, first, flags), then)[::order])
        for _ in range(least):
            first = self._node(0, False, self._sequence(body, first, flags))
        return first

    def _node(self, test: int, advances: bool, *following: int) -> int:
        if len(self._nodes) == MOST_NODES:
            raise self._refusal(
                f"has more than {MOST_NODES:,} parts, repeats written out; make it simpler"
            )
        self._nodes.append(Node(test, advances, following))
        return len(self._nodes) - 1

    def _test(self, item: Any, flags: int, look: bool) -> int:
        """The bit of the test that an item is."""
        from re import _compiler as compiler  # type: ignore[attr-defined]
        from re import _parser as parser  # type: ignore[attr-defined]

        key = f"{flags} {item}"
        if key not in self._tests:
            state = parser.State()
            state.flags = flags
            expression = compiler.compile(parser.SubPattern(state, [item]), flags)
            self._tests[key] = Check(1 << len(self._tests), expression, look)
        return self._tests[key].bit

    def _refusal(self, reason: str) -> OptionError:
        return OptionError(f"{self._named} {reason}")


def _is_fixed(items: Any) -> bool:
    """Whether items in a lookahead or lookbehind are tried in few steps: characters, with one
    choice among them."""
    names = list(_names(items))
    return (
        all(name in (*ONE, "AT", "SUBPATTERN", "BRANCH") for name in names)
        and names.count("BRANCH") <= 1
    )


def _names(items: Any) -> Iterator[str]:
    """What kinds of items there are, those in groups and alternatives among them."""
    for name, argument in items:
        yield str(name)
        bodies = (
            {"SUBPATTERN": [argument[-1]], "BRANCH": argument[-1]}
            if isinstance(argument, tuple)
            else {}
        )
        for body in bodies.get(str(name), ()):
            yield from _names(body)
