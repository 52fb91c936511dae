"""Conditions on labellings, evaluated on a whole labelling, token by token (automaton.py) or in a
solver (solver.py).

An *event* is that some tokens have labels out of some sets.  A *row* keeps a weighted sum of events
between bounds, a *language* is a deterministic automaton that must accept the labels, and formulas
join these by "all of", "some of" and "not".
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from labelwright.corpus.schemes import Boundaries, boundaries
from labelwright.errors import OptionError

# ((token, labels), ...): each token has one of its labels
Event: TypeAlias = tuple[tuple[int, frozenset[str]], ...]


class Row(NamedTuple):
    """low <= sum of coefficient * [event] <= high, in whole numbers; None: no bound."""

    terms: tuple[tuple[int, Event], ...]
    low: int | None
    high: int | None


class Language(NamedTuple):
    """The labels of all tokens, one after the other, lead from state 0 into a state that is
    final."""

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
        return (formula.low is None or total >= formula.low) and (
            formula.high is None or total <= formula.high
        )
    if isinstance(formula, Language):
        state = 0
        for label in labels:
            state = formula.table[state][formula.column[label]]
        return formula.final[state]
    if isinstance(formula, Not):
        return not holds(formula.part, labels)
    return (all if isinstance(formula, All) else any)(holds(part, labels) for part in formula.parts)


# -- what rules read of a sentence -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a rule may read: the words, the candidate labels of each token, and the number of the
    sentence."""

    candidates: Sequence[Sequence[str]]  #: [T]  labels that each token may have
    labels: tuple[str, ...]  #: [L]  all labels
    tokens: Sequence[Any] | None = None  #: [T]  as in the user's input; None where they are unknown
    number: int = 0  #: of the sentence in the data, from 0
    scheme: str | None = None  #: of the labels
    strict: bool = True  #: whether a label outside `labels` is an error

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def words(self) -> Sequence[Any]:
        """The tokens as they were given to the tagger: words, tuples of columns, dicts or rows of
        numbers."""
        if self.tokens is None:
            raise OptionError(
                "constraints: a rule reads the words; give the sentences themselves, not encoded "
                "data (and to `satisfied` a Sentence with its tokens)"
            )
        return self.tokens


@lru_cache(maxsize=256)
def chunk_table(labels: tuple[str, ...]) -> Boundaries:
    return boundaries(labels)


def chosen(labels: Sequence[str], mask: "np.ndarray[Any, Any]") -> frozenset[str]:
    return frozenset(label for label, kept in zip(labels, mask.tolist(), strict=True) if kept)


def labels_of_type(kind: str, sentence: Sentence) -> frozenset[str] | None:
    """The labels of chunks of a type; None where there is no such type."""
    table = chunk_table(sentence.labels)
    if kind not in table.types:
        return None
    return chosen(sentence.labels, table.type_of[:-1] == table.types.index(kind))


def _unknown(what: str, sentence: Sentence, rule: str) -> OptionError:
    table = chunk_table(sentence.labels)
    types = f"; chunk types {', '.join(table.types)}" if table.types else ""
    return OptionError(
        f"{rule}: no label or chunk type {what!r}, expected labels "
        f"{', '.join(map(str, sentence.labels))}{types}"
    )


@lru_cache(maxsize=1024)
def _other(label: str, labels: tuple[str, ...]) -> frozenset[str]:
    """All labels but this one."""
    return frozenset(labels) - {label}


def labels_named(names: Iterable[str], sentence: Sentence, rule: str) -> frozenset[str]:
    """All labels with these names, or of chunk types with these names."""
    labels: frozenset[str] = frozenset()
    for name in names:
        matching = frozenset([name]) if name in sentence.labels else labels_of_type(name, sentence)
        if matching is None and sentence.strict:
            raise _unknown(name, sentence, rule)
        labels |= matching or frozenset()
    return labels


def occurrences(
    what: str, place: int, sentence: Sentence, rule: str, runs: bool = False
) -> list[Event]:
    """That a token has a label (with `runs`: and the one before it has another), or that a chunk of
    a type begins there: events of which at most one happens."""
    if what in sentence.labels:
        here = place, frozenset([what])
        return (
            [((place - 1, _other(what, sentence.labels)), here)]
            if runs and place > 0
            else [(here,)]
        )
    of_type = labels_of_type(what, sentence)
    if of_type is None:
        if sentence.strict:
            raise _unknown(what, sentence, rule)
        return []
    if place == 0:
        return [((0, of_type),)]
    groups: dict[frozenset[str], set[str]] = {}  # labels before which the others begin a chunk
    starts = chunk_table(sentence.labels).starts
    for j, label in enumerate(sentence.labels):
        if label in of_type:
            before = frozenset(name for i, name in enumerate(sentence.labels) if starts[i, j])
            groups.setdefault(before, set()).add(label)
    every = frozenset(sentence.labels)
    return [
        ((place, frozenset(here)),)
        if before == every
        else ((place - 1, before), (place, frozenset(here)))
        for before, here in groups.items()
        if before
    ]


At: TypeAlias = int | Sequence[int] | slice | Callable[[Any], Any] | None


def positions(at: At, sentence: Sentence, rule: str) -> list[int]:
    """The tokens at the positions `at`: all, those with these numbers (from the end where
    negative), or those of which a function of the word is true."""
    T = len(sentence)
    if at is None:
        return list(range(T))
    if isinstance(at, slice):
        return list(range(T))[at]
    if callable(at):
        return [t for t, word in enumerate(sentence.words) if at(word)]
    numbers = [at] if isinstance(at, int) else list(at)
    for t in numbers:
        if not -T <= t < T:
            raise OptionError(
                f"{rule}: position {t} is outside sentence {sentence.number} of {T} tokens; where "
                "sentences differ, give a function of the sentence that returns its rules"
            )
    return list(dict.fromkeys(t % T for t in numbers))
