"""Patterns of labels, a small regular language, as deterministic automata.

    B-NP I-NP        these labels, one after the other
    NP               a label of this chunk type
    .                any label                          ...        any number of labels, or none
    !NP              any other label                    (A | B C)  one or the other
    A? A* A+         at most one, any number, one or more
    ^ A ... B $      from the beginning, to the end of the sentence

Names with other characters stand in quotes: '.' "a b".  A pattern becomes an automaton with several
states at a time (Thompson, 1968), then a deterministic one by sets of states, then the smallest one
by splitting (Moore, 1956).
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from labelwright.errors import OptionError
from labelwright.rules.formulas import Language
from labelwright.wording import shortened

LONGEST = 10_000  # characters of a pattern, or of a rule as text
DEEPEST = 100  # parentheses within each other, in a pattern or a rule as text
MOST_STATES = 1000  # of the automaton of one pattern
_TOKEN = re.compile(r"""\s*(?:(\.\.\.)|'([^']+)'|"([^"]+)"|([^\s()|*+?!.^$'"]+)|([()|*+?!.^$]))""")
_FOLLOWED = {"?": "at most one", "*": "any number", "+": "one or more"}


class Name(NamedTuple):
    """A label, or a label of a chunk type; with `other`, any other one."""

    name: str
    other: bool = False


class AnyLabel(NamedTuple):
    """Any label."""


class Sequenced(NamedTuple):
    """Parts, one after the other."""

    parts: "tuple[Node, ...]"


class Either(NamedTuple):
    """One of the parts."""

    parts: "tuple[Node, ...]"


class Repeated(NamedTuple):
    """A part, at least `least` times, and at most once unless `again`."""

    part: "Node"
    least: int
    again: bool


Node: TypeAlias = Name | AnyLabel | Sequenced | Either | Repeated


class Pattern(NamedTuple):
    """A pattern, and whether it is held to the beginning and the end of the sentence."""

    node: Node
    begins: bool
    ends: bool


# -- reading ---------------------------------------------------------------------------------------


def read_pattern(text: str, rule: str) -> Pattern:
    """A pattern as it is written; errors begin with the rule.

    >>> read_pattern("^ A ... B?", "rule").begins
    True
    """
    if not isinstance(text, str) or not text.strip():
        raise OptionError(f"{rule}: expected a pattern of labels, as in 'A ... B', got {text!r}")
    if len(text) > LONGEST:
        raise OptionError(
            f"{shortened(rule, 60)}: a pattern of {len(text):,} characters, expected at most "
            f"{LONGEST:,}; shorten it, or write several patterns"
        )
    return _Reader(text.strip(), rule).pattern()


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str, rule: str):
        self.rule, self.at, self.depth = rule, 0, 0
        self.items: list[tuple[bool, str]] = []  # (a name?, text)
        place = 0
        while place < len(text):  # which does not end with a blank
            match = _TOKEN.match(text, place)
            if match is None:
                rest = shortened(text[place:].strip(), 60)
                raise OptionError(
                    f"{rule}: cannot read the pattern from {rest!r} on; quote such names"
                )
            dots, single, double, name, sign = match.groups()
            plain = single or double or name
            self.items.append((plain is not None, plain or dots or sign))
            place = match.end()

    def _next(self) -> str | None:
        """The sign that comes next; None where a name does, or nothing."""
        is_name, text = self.items[self.at] if self.at < len(self.items) else (True, "")
        return None if is_name else text

    def _take(self, sign: str) -> bool:
        taken = self._next() == sign
        self.at += taken
        return taken

    def _refuse(self, expected: str) -> OptionError:
        got = repr(self.items[self.at][1]) if self.at < len(self.items) else "the end"
        return OptionError(f"{self.rule}: expected {expected} in the pattern, got {got}")

    def pattern(self) -> Pattern:
        begins = self._take("^")
        node = self._either()
        ends = self._take("$")
        if self.at < len(self.items):
            raise self._refuse("a label or the end (^ comes first, $ last)")
        return Pattern(node, begins, ends)

    def _either(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _sequence(self) -> Node:
        parts = list[Node]()
        while self.at < len(self.items) and self._next() not in (")", "|", "$"):
            parts.append(self._repeated())
        return Sequenced(tuple(parts))

    def _repeated(self) -> Node:
        node = self._single()
        while (sign := self._next()) is not None and sign in _FOLLOWED:
            self.at += 1
            least, again = int(sign == "+"), sign != "?"
            if isinstance(node, Repeated):  # several signs are one: A+? is A*
                least, again, node = min(least, node.least), again or node.again, node.part
            node = Repeated(node, least, again)
        return node

    def _single(self) -> Node:
        if self._take("..."):
            return Repeated(AnyLabel(), 0, True)
        if self._take("."):
            return AnyLabel()
        if self._take("("):
            return self._in_parentheses()
        other = self._take("!")
        if self._next() is not None or self.at == len(self.items):
            raise self._refuse("a label")
        self.at += 1
        return Name(self.items[self.at - 1][1], other)

    def _in_parentheses(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise OptionError(
                f"{shortened(self.rule, 60)}: more than {DEEPEST} parentheses within each other; "
                "simplify the pattern"
            )
        node = self._either()
        if not self._take(")"):
            raise self._refuse("a closing parenthesis")
        self.depth -= 1
        return node


# -- automata --------------------------------------------------------------------------------------


class _Thompson:
    """An automaton with several states at a time: where each state leads without a label, and by
    which labels."""

    def __init__(self, labels_of: Callable[[str], frozenset[str]], every: frozenset[str]):
        self.labels_of, self.every = labels_of, every
        self.free: list[set[int]] = []
        self.by: list[tuple[frozenset[str], int] | None] = []

    def state(self) -> int:
        self.free.append(set())
        self.by.append(None)
        return len(self.free) - 1

    def add(self, node: Node, begin: int) -> int:
        """Add the node after the state `begin`; returns the state behind it."""
        end = self.state()
        if isinstance(node, Sequenced):
            for part in node.parts:
                begin = self.add(part, begin)
            self.free[begin].add(end)
        elif isinstance(node, Either):
            for part in node.parts:
                first = self.state()
                self.free[begin].add(first)
                self.free[self.add(part, first)].add(end)
        elif isinstance(node, Repeated):
            first = self.state()
            self.free[begin].add(first)
            last = self.add(node.part, first)
            self.free[last].add(end)
            if node.again:
                self.free[last].add(first)
            if node.least == 0:
                self.free[first].add(end)
        else:
            labels = self.every if isinstance(node, AnyLabel) else self.labels_of(node.name)
            first = self.state()
            self.free[begin].add(first)
            self.by[first] = (
                self.every - labels if isinstance(node, Name) and node.other else labels,
                end,
            )
        return end

    def closed(self, states: set[int]) -> frozenset[int]:
        """All states that these lead to without a label."""
        reached, open_states = set(states), list(states)
        while open_states:
            new = self.free[open_states.pop()] - reached
            reached |= new
            open_states += new
        return frozenset(reached)


def language_of(
    pattern: Pattern, labels: Sequence[str], labels_of: Callable[[str], frozenset[str]], rule: str
) -> Language:
    """The labellings that contain the pattern, as the smallest deterministic automaton."""
    anything = Repeated(AnyLabel(), 0, True)
    parts = [
        *([] if pattern.begins else [anything]),
        pattern.node,
        *([] if pattern.ends else [anything]),
    ]
    several = _Thompson(labels_of, frozenset(labels))
    begin = several.state()
    end = several.add(Sequenced(tuple(parts)), begin)
    states, table = [several.closed({begin})], list[list[int]]()
    number = {states[0]: 0}
    columns, column = _columns([step[0] for step in several.by if step is not None], labels)
    while len(table) < len(states):
        here = states[len(table)]
        table.append([])
        for label in columns:
            onwards = {
                step[1]
                for step in (several.by[s] for s in here)
                if step is not None and label in step[0]
            }
            there = several.closed(onwards)
            if number.setdefault(there, len(states)) == len(states):
                states.append(there)
            table[-1].append(number[there])
        if len(states) > MOST_STATES:
            raise OptionError(
                f"{rule}: the automaton of the pattern has more than {MOST_STATES:,} states; "
                "shorten it"
            )
    return _smallest(
        Language(column, tuple(map(tuple, table)), tuple(end in state for state in states))
    )


def _columns(sets: list[frozenset[str]], labels: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Labels that are in the same sets share a column of the table: one label of each, and the
    column of all."""
    seen: dict[tuple[bool, ...], int] = {}
    first, column = list[str](), dict[str, int]()
    for label in labels:
        key = tuple(label in one for one in sets)
        if key not in seen:
            seen[key] = len(first)
            first.append(label)
        column[label] = seen[key]
    return first, column


def _smallest(language: Language) -> Language:
    """The same language with as few states as possible."""
    group = [int(final) for final in language.final]
    while True:
        keys = [
            (group[s], *(group[next_state] for next_state in row))
            for s, row in enumerate(language.table)
        ]
        numbers = {key: n for n, key in enumerate(dict.fromkeys(keys))}  # that of state 0 is 0
        finer = [numbers[key] for key in keys]
        if len(numbers) == len(set(group)):
            break
        group = finer
    first = {n: s for s, n in reversed(list(enumerate(finer)))}
    table = tuple(
        tuple(finer[there] for there in language.table[first[n]]) for n in range(len(first))
    )
    return Language(
        language.column, table, tuple(language.final[first[n]] for n in range(len(first)))
    )
