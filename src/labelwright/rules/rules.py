"""Users' rules on labellings: counts, agreement, label schemes, any linear constraint; hard or soft.

    rule + sentence -> formula -> evaluated on a whole labelling (formulas.py), or posted into a solver (solver.py)

labelwright.constraints has the functions that make rules.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import isfinite, lcm
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from labelwright.corpus.schemes import Boundaries, allowed, boundaries, check_scheme, detect_scheme
from labelwright.errors import LabelwrightError, OptionError
from labelwright.rules.formulas import All, Event, Formula, Not, Row, Some, holds

LARGEST = 1 << 50  # the sum of the whole numbers of one row

# -- sentences ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a rule may read: the words, the candidate labels of each token, and the number of the sentence."""

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
        """The tokens as they were given to the tagger: words, tuples of columns, dicts or rows of numbers."""
        if self.tokens is None:
            raise OptionError(
                "constraints: a rule reads the words; give the sentences themselves, not encoded data (and to "
                "`satisfied` a Sentence with its tokens)"
            )
        return self.tokens


@lru_cache(maxsize=256)
def _table(labels: tuple[str, ...]) -> Boundaries:
    return boundaries(labels)


def _chosen(labels: Sequence[str], mask: "np.ndarray[Any, Any]") -> frozenset[str]:
    return frozenset(label for label, chosen in zip(labels, mask.tolist(), strict=True) if chosen)


def _of_type(kind: str, sentence: Sentence) -> frozenset[str] | None:
    """The labels of chunks of a type; None where there is no such type."""
    table = _table(sentence.labels)
    if kind not in table.types:
        return None
    return _chosen(sentence.labels, table.type_of[:-1] == table.types.index(kind))


def _unknown(what: str, sentence: Sentence, rule: str) -> OptionError:
    table = _table(sentence.labels)
    types = f"; chunk types {', '.join(table.types)}" if table.types else ""
    return OptionError(
        f"{rule}: no label or chunk type {what!r}, expected labels {', '.join(map(str, sentence.labels))}{types}"
    )


def _labels(names: Iterable[str], sentence: Sentence, rule: str) -> frozenset[str]:
    """All labels with these names, or of chunk types with these names."""
    labels: frozenset[str] = frozenset()
    for name in names:
        matching = frozenset([name]) if name in sentence.labels else _of_type(name, sentence)
        if matching is None and sentence.strict:
            raise _unknown(name, sentence, rule)
        labels |= matching or frozenset()
    return labels


def _occurrences(what: str, place: int, sentence: Sentence, rule: str) -> list[Event]:
    """That a token has a label, or that a chunk of a type begins there: events of which at most one happens."""
    if what in sentence.labels:
        return [((place, frozenset([what])),)]
    of_type = _of_type(what, sentence)
    if of_type is None:
        if sentence.strict:
            raise _unknown(what, sentence, rule)
        return []
    if place == 0:
        return [((0, of_type),)]
    groups: dict[frozenset[str], set[str]] = {}  # labels before which the others begin a chunk
    starts = _table(sentence.labels).starts
    for j, label in enumerate(sentence.labels):
        if label in of_type:
            before = frozenset(name for i, name in enumerate(sentence.labels) if starts[i, j])
            groups.setdefault(before, set()).add(label)
    every = frozenset(sentence.labels)
    return [
        ((place, frozenset(here)),) if before == every else ((place - 1, before), (place, frozenset(here)))
        for before, here in groups.items()
        if before
    ]


At: TypeAlias = int | Sequence[int] | slice | Callable[[Any], Any] | None


def _positions(at: At, sentence: Sentence, rule: str) -> list[int]:
    """The tokens at the positions `at`: all, those with these numbers (from the end where negative), or those of which
    a function of the word is true."""
    T = len(sentence)
    if at is None:
        return list(range(T))
    if isinstance(at, slice):
        return list(range(T))[at]
    if callable(at):
        return [t for t, word in enumerate(sentence.words) if at(word)]
    positions = [at] if isinstance(at, int) else list(at)
    for t in positions:
        if not -T <= t < T:
            raise OptionError(
                f"{rule}: position {t} is outside sentence {sentence.number} of {T} tokens; where sentences differ, "
                "give a function of the sentence that returns its rules"
            )
    return list(dict.fromkeys(t % T for t in positions))


# -- rules -------------------------------------------------------------------------------------------------------------


class Rule:
    """A condition on labellings.  `a & b` (both), `a | b` (at least one) and `~a` (not) are rules too."""

    name: str

    def formula(self, sentence: Sentence) -> Formula:
        """The rule for one sentence."""
        raise NotImplementedError

    def satisfied(self, labels: Sequence[str], sentence: Sentence | None = None) -> bool:
        """Whether a labelling satisfies the rule.

        labels : one for each token
        sentence : what is known about the sentence; None: the labels alone

        >>> from labelwright.constraints import at_least
        >>> at_least(1, "VP").satisfied(["B-NP", "B-VP"]), at_least(2, "NP").satisfied(["B-NP", "I-NP"])
        (True, False)
        """
        if sentence is None:
            sentence = Sentence([[label] for label in labels], tuple(dict.fromkeys(labels)), strict=False)
        return holds(self.formula(sentence), labels)

    def __repr__(self) -> str:
        return self.name

    def __and__(self, other: Any) -> "Rule":
        return Joined(f"({self} & {other})", All, parts_of(self, other))

    def __or__(self, other: Any) -> "Rule":
        return Joined(f"({self} | {other})", Some, parts_of(self, other))

    def __invert__(self) -> "Rule":
        return Negated(f"~{self}", *parts_of(self))


@dataclass(frozen=True, repr=False)
class Joined(Rule):
    """All or some of several rules."""

    name: str
    join: type[All] | type[Some]
    parts: tuple[Rule, ...]

    def formula(self, sentence: Sentence) -> Formula:
        return self.join(tuple(part.formula(sentence) for part in self.parts))


@dataclass(frozen=True, repr=False)
class Negated(Rule):
    """The opposite of a rule."""

    name: str
    part: Rule

    def formula(self, sentence: Sentence) -> Formula:
        return Not(self.part.formula(sentence))


@dataclass(frozen=True, repr=False)
class Count(Rule):
    """How often labels occur, or chunks begin."""

    name: str
    what: tuple[str, ...]
    low: int | None
    high: int | None
    at: At

    def formula(self, sentence: Sentence) -> Formula:
        places = _positions(self.at, sentence, self.name)
        events = [event for t in places for what in self.what for event in _occurrences(what, t, sentence, self.name)]
        if not places and sentence.strict:
            _labels(self.what, sentence, self.name)
        return Row(tuple((1, event) for event in events), self.low, self.high)


@dataclass(frozen=True, repr=False)
class Compared(Rule):
    """Groups of tokens that all have the same label, or all have different ones."""

    name: str
    groups: tuple[tuple[int, ...], ...]
    same: bool
    types: bool

    def formula(self, sentence: Sentence) -> Formula:
        rows: list[Formula] = []
        for group in self.groups:
            for a, b in combinations(_positions(group, sentence, self.name), 2):
                for names in self._kinds(sentence):
                    first, second = ((a, names),), ((b, names),)
                    rows.append(
                        Row(((1, first), (-1, second)), 0, 0) if self.same else Row(((1, first), (1, second)), None, 1)
                    )
        return All(tuple(rows))

    def _kinds(self, sentence: Sentence) -> list[frozenset[str]]:
        """The labels, in sets of those that count as the same."""
        if not self.types:
            return [frozenset([label]) for label in sentence.labels]
        of = _table(sentence.labels).type_of[:-1]
        return [_chosen(sentence.labels, of == kind) for kind in np.unique(of)]


@dataclass(frozen=True, repr=False)
class Scheme(Rule):
    """The labels are valid in a scheme."""

    name: str
    scheme: str | None

    def formula(self, sentence: Sentence) -> Formula:
        scheme = self.scheme or sentence.scheme or detect_scheme(sentence.labels)
        if scheme is None and set(sentence.labels) <= {"O"}:  # which is valid in all of them
            return All(())
        if scheme is None:
            raise OptionError(f"{self.name}: the labels follow no chunk scheme (B-X, I-X, O, ...)")
        labels, T = sentence.labels, len(sentence)
        permitted = allowed(labels, scheme)
        groups: dict[frozenset[str], set[str]] = {}  # what may not follow: after which labels
        for i, label in enumerate(labels):
            groups.setdefault(_chosen(labels, ~permitted.arc[i]), set()).add(label)
        rows = [
            Row(((1, ((0, _chosen(labels, ~permitted.start)),)),), None, 0),
            Row(((1, ((T - 1, _chosen(labels, ~permitted.end)),)),), None, 0),
        ]
        for wrong, after in groups.items():
            if wrong:
                names = frozenset(after)
                rows += [Row(((1, ((t - 1, names),)), (1, ((t, wrong),))), None, 1) for t in range(1, T)]
        return All(tuple(rows))


def valid_scheme(scheme: str | None = None) -> Rule:
    """The labels are valid in their scheme: the one named, else that of the tagger.

    scheme : such as iob2; None: that of the tagger's labels
    """
    return Scheme(called("valid_scheme", *([] if scheme is None else [scheme])), scheme and check_scheme(scheme))


@dataclass(frozen=True, repr=False)
class Forbidden(Rule):
    """Labels, or chunks of a type, that do not occur (after others)."""

    name: str
    what: tuple[str, ...]
    after: tuple[str, ...] | None
    at: At

    def formula(self, sentence: Sentence) -> Formula:
        _labels(self.what, sentence, self.name)
        before = None if self.after is None else _labels(self.after, sentence, self.name)
        rows: list[Formula] = []
        for t in _positions(self.at, sentence, self.name):
            for event in [e for what in self.what for e in _occurrences(what, t, sentence, self.name)]:
                if before is None:
                    rows.append(Row(((1, event),), None, 0))
                elif t > 0:
                    here, left = event[-1], before & event[0][1] if len(event) > 1 else before
                    rows.append(Row(((1, ((t - 1, left),)), (1, (here,))), None, 1))
        return All(tuple(rows))


@dataclass(frozen=True, repr=False)
class Restricted(Rule):
    """Tokens that must have one of some labels."""

    name: str
    at: At
    labels: tuple[str, ...]

    def formula(self, sentence: Sentence) -> Formula:
        names = _labels(self.labels, sentence, self.name)
        return All(tuple(Row(((1, ((t, names),)),), 1, None) for t in _positions(self.at, sentence, self.name)))


Term: TypeAlias = tuple[float, At, str | Sequence[str]]  # coefficient, positions, labels or chunk types


@dataclass(frozen=True, repr=False)
class Linear(Rule):
    """A weighted sum of occurrences against a bound."""

    name: str
    terms: tuple[Term, ...] | Callable[[Sentence], Iterable[Term]]
    comparison: str
    bound: float

    def formula(self, sentence: Sentence) -> Formula:
        terms = self.terms(sentence) if callable(self.terms) else self.terms
        occurrences: list[tuple[Fraction, Event]] = []
        for coefficient, at, what in checked_terms(terms, self.name):
            for t in _positions(at, sentence, self.name):
                for name in names_of(what, self.name):
                    occurrences += [(coefficient, event) for event in _occurrences(name, t, sentence, self.name)]
        bound = fraction(self.bound, self.name)
        scale = lcm(bound.denominator, *(c.denominator for c, _ in occurrences))
        whole = tuple((int(c * scale), event) for c, event in occurrences)
        b = int(bound * scale)
        if abs(b) + sum(abs(c) for c, _ in whole) > LARGEST:
            raise OptionError(f"{self.name}: the coefficients differ by too much; write them with fewer digits")
        low, high = {
            ">=": (b, None), ">": (b + 1, None), "<=": (None, b), "<": (None, b - 1), "==": (b, b), "!=": (b, b),
        }[self.comparison]  # fmt: skip
        row = Row(whole, low, high)
        return Not(row) if self.comparison == "!=" else row


@dataclass(frozen=True, repr=False)
class PerSentence(Rule):
    """The rules that a function makes for each sentence."""

    name: str
    function: Callable[[Sentence], Any]

    def rules(self, sentence: Sentence) -> list[Rule]:
        """The rules of this sentence."""
        rules = self.function(sentence)
        return [] if rules is None else rules_in(rules)

    def formula(self, sentence: Sentence) -> Formula:
        rules = self.rules(sentence)
        parts_of(*rules)
        return All(tuple(rule.formula(sentence) for rule in rules))


@dataclass(frozen=True, repr=False)
class Soft(Rule):
    """A rule that may be violated at a price."""

    name: str
    rule: Rule
    weight: float

    def formula(self, sentence: Sentence) -> Formula:
        return self.rule.formula(sentence)


# -- arguments of rules ------------------------------------------------------------------------------------------------


def places_of(at: Any, rule: str) -> Any:
    """Positions as rules store them: None, a number, a tuple of numbers, a slice or a function."""
    if at is None or isinstance(at, slice) or callable(at):
        return at
    try:
        if not isinstance(at, Iterable):
            return operator.index(at)
        if not isinstance(at, str):
            return tuple(operator.index(t) for t in at)
    except TypeError:
        pass
    raise OptionError(f"{rule}: expected positions (numbers from 0, a slice, or a function of the word), got {at!r}")


def names_of(what: Any, rule: str) -> tuple[str, ...]:
    names = (what,) if isinstance(what, str) else tuple(what) if isinstance(what, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{rule}: expected a label, a chunk type, or a list of them, got {what!r}")
    return names


def fraction(number: Any, rule: str) -> Fraction:
    """A number as it is written."""
    try:
        if isinstance(number, Fraction | int) or isfinite(number):
            return Fraction(number) if isinstance(number, Fraction) else Fraction(str(number))
    except (TypeError, ValueError):
        pass
    raise OptionError(f"{rule}: expected a number, got {number!r}")


def checked_terms(terms: Iterable[Any], rule: str) -> list[tuple[Fraction, At, Any]]:
    checked = []
    for term in terms:
        if not isinstance(term, Sequence) or isinstance(term, str) or len(term) != 3:
            raise OptionError(f"{rule}: expected terms (coefficient, positions, labels), got {term!r}")
        checked.append((fraction(term[0], rule), places_of(term[1], rule), term[2]))
    return checked


def called(name: str, *arguments: Any, **named: Any) -> str:
    """A rule as the user wrote it."""

    def shown(value: Any) -> str:
        plain = callable(value) and not isinstance(value, Rule)
        return str(getattr(value, "__name__", "function")) if plain else repr(value)

    parts = [*map(shown, arguments), *(f"{key}={shown(v)}" for key, v in named.items() if v is not None)]
    return f"{name}({', '.join(parts)})"


def parts_of(*constraints: Any) -> tuple[Rule, ...]:
    """Rules that become parts of another one."""
    parts = []
    for one in constraints:
        rules = rules_in(one)
        if len(rules) != 1:
            raise OptionError(f"constraints: expected one rule, got {one!r}; join several with &")
        if isinstance(rules[0], Soft):
            raise OptionError(f"{rules[0]}: a soft rule cannot be part of another; make the whole rule soft")
        parts.append(rules[0])
    return tuple(parts)


# -- the constraints of taggers ----------------------------------------------------------------------------------------


def rules_in(constraints: Any) -> list[Rule]:
    """A rule, a function of the sentence, the name of a label scheme (or "scheme"), or any list of these, as rules."""
    if isinstance(constraints, Rule):
        return [constraints]
    if isinstance(constraints, str):
        return [valid_scheme(None if constraints == "scheme" else constraints)]
    if callable(constraints):
        return [PerSentence(str(getattr(constraints, "__name__", "function")), constraints)]
    if isinstance(constraints, Iterable):
        return [rule for one in constraints for rule in rules_in(one)]
    raise OptionError(f"constraints: expected rules, functions of the sentence, or 'scheme', got {constraints!r}")


def split_constraints(constraints: Any) -> tuple[str | None, list[Rule]]:
    """The label scheme among the constraints, and the rules: a lattice handles schemes by itself."""
    if constraints is None or isinstance(constraints, str):
        return constraints, []
    listed = list(constraints) if isinstance(constraints, Iterable) else [constraints]
    schemes = list(dict.fromkeys(one for one in listed if isinstance(one, str)))
    if len(schemes) > 1:
        raise OptionError(f"constraints: expected one label scheme, got {' and '.join(map(repr, schemes))}")
    return schemes[0] if schemes else None, rules_in([one for one in listed if not isinstance(one, str)])


class Bound(NamedTuple):
    """The rules of one sentence: (name, formula), and with the price where they are soft."""

    hard: list[tuple[str, Formula]]
    soft: list[tuple[str, Formula, float]]

    def satisfied(self, labels: Sequence[str]) -> bool:
        """Whether a labelling satisfies all hard rules."""
        return all(holds(formula, labels) for _, formula in self.hard)

    def cost(self, labels: Sequence[str]) -> float:
        """The price of the soft rules that a labelling violates."""
        return sum((weight for _, formula, weight in self.soft if not holds(formula, labels)), 0.0)


def bind(constraints: Any, sentence: Sentence) -> Bound:
    """The rules for this sentence."""
    bound = Bound([], [])

    def add(rule: Rule, weight: float | None) -> None:
        if isinstance(rule, PerSentence):
            for one in rule.rules(sentence):
                if weight is not None and isinstance(one, Soft):
                    raise OptionError(
                        f"{rule}: made soft as a whole, but returns soft rules as well; use one or the other"
                    )
                add(one, weight)
        elif isinstance(rule, Soft):
            add(rule.rule, rule.weight)
        elif weight is None:
            bound.hard.append((rule.name, rule.formula(sentence)))
        else:
            bound.soft.append((rule.name, rule.formula(sentence), weight))

    for rule in rules_in(constraints):
        try:
            add(rule, None)
        except LabelwrightError:
            raise
        except (IndexError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise OptionError(f"sentence {sentence.number}: {rule}: {type(error).__name__}: {error}") from error
    return bound
