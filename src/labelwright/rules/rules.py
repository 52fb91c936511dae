"""Users' rules on labellings: counts, agreement, label schemes, any linear constraint; hard or
soft.

    rule + sentence -> formula -> evaluated on a whole labelling (formulas.py),
                                  followed token by token by an automaton (automaton.py),
                                  or posted into a solver (solver.py)

labelwright.constraints has the functions that make rules.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import isfinite, lcm
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from labelwright.corpus.schemes import allowed, check_scheme, detect_scheme
from labelwright.errors import LabelwrightError, OptionError
from labelwright.rules.formulas import (
    All,
    At,
    Event,
    Formula,
    Language,
    Not,
    Row,
    Sentence,
    Some,
    chosen,
    chunk_table,
    holds,
    labels_named,
    occurrences,
    positions,
)
from labelwright.rules.patterns import DEEPEST, Pattern, language_of
from labelwright.wording import shortened

LARGEST = 1 << 50  # the sum of the whole numbers of one row


# -- rules -----------------------------------------------------------------------------------------


class Rule:
    """A condition on labellings.  `a & b` (both), `a | b` (at least one) and `~a` (not) are rules
    too."""

    name: str
    depth: int = 1  # rules within each other

    def formula(self, sentence: Sentence) -> Formula:
        """The rule for one sentence."""
        raise NotImplementedError

    def satisfied(self, labels: Sequence[str], sentence: Sentence | None = None) -> bool:
        """Whether a labelling satisfies the rule.

        labels : one for each token
        sentence : what is known about the sentence; None: the labels alone

        >>> from labelwright.constraints import at_least
        >>> at_least(1, "VP").satisfied(["B-NP", "B-VP"])
        True
        >>> at_least(2, "NP").satisfied(["B-NP", "I-NP"])
        False
        """
        if sentence is None:
            sentence = Sentence(
                [[label] for label in labels], tuple(dict.fromkeys(labels)), strict=False
            )
        return holds(self.formula(sentence), labels)

    def __repr__(self) -> str:
        return self.name

    def __and__(self, other: Any) -> "Rule":
        return joined(f"({self} & {other})", All, parts_of(self, other))

    def __or__(self, other: Any) -> "Rule":
        return joined(f"({self} | {other})", Some, parts_of(self, other))

    def __invert__(self) -> "Rule":
        return Negated(f"~{self}", parts_of(self)[0], _deeper(f"~{self}", self.depth))


@dataclass(frozen=True, repr=False)
class Joined(Rule):
    """All or some of several rules."""

    name: str
    join: type[All] | type[Some]
    parts: tuple[Rule, ...]
    depth: int

    def formula(self, sentence: Sentence) -> Formula:
        return self.join(tuple(part.formula(sentence) for part in self.parts))


def joined(name: str, join: type[All] | type[Some], rules: Sequence[Rule]) -> Joined:
    """All or some of these rules, with the parts of those that are joined alike: a & b & c has
    three parts, not two levels."""
    flat = [rule if isinstance(rule, Joined) and rule.join is join else None for rule in rules]
    parts = (alike.parts if alike else (rule,) for rule, alike in zip(rules, flat, strict=True))
    depth = max(rule.depth - (alike is not None) for rule, alike in zip(rules, flat, strict=True))
    return Joined(
        name, join, tuple(part for several in parts for part in several), _deeper(name, depth)
    )


def _deeper(name: str, depth: int) -> int:
    """The depth of a rule around one of this depth."""
    if depth > DEEPEST:
        raise OptionError(
            f"rule {shortened(name, 60)!r}: more than {DEEPEST} operators within each other; "
            "simplify it"
        )
    return depth + 1


@dataclass(frozen=True, repr=False)
class Negated(Rule):
    """The opposite of a rule."""

    name: str
    part: Rule
    depth: int

    def formula(self, sentence: Sentence) -> Formula:
        return Not(self.part.formula(sentence))


@dataclass(frozen=True, repr=False)
class Count(Rule):
    """How often labels occur (each token, or with `runs` each run of equal labels), or chunks
    begin."""

    name: str
    what: tuple[str, ...]
    low: int | None
    high: int | None
    at: At
    runs: bool = False

    def formula(self, sentence: Sentence) -> Formula:
        places = positions(self.at, sentence, self.name)
        events = [
            event
            for t in places
            for what in self.what
            for event in occurrences(what, t, sentence, self.name, self.runs)
        ]
        if not places and sentence.strict:
            labels_named(self.what, sentence, self.name)
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
            for a, b in combinations(positions(group, sentence, self.name), 2):
                for names in self._kinds(sentence):
                    first, second = ((a, names),), ((b, names),)
                    rows.append(
                        Row(((1, first), (-1, second)), 0, 0)
                        if self.same
                        else Row(((1, first), (1, second)), None, 1)
                    )
        return All(tuple(rows))

    def _kinds(self, sentence: Sentence) -> list[frozenset[str]]:
        """The labels, in sets of those that count as the same."""
        if not self.types:
            return [frozenset([label]) for label in sentence.labels]
        of = chunk_table(sentence.labels).type_of[:-1]
        return [chosen(sentence.labels, of == kind) for kind in np.unique(of)]


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
            groups.setdefault(chosen(labels, ~permitted.arc[i]), set()).add(label)
        rows = [
            Row(((1, ((0, chosen(labels, ~permitted.start)),)),), None, 0),
            Row(((1, ((T - 1, chosen(labels, ~permitted.end)),)),), None, 0),
        ]
        for wrong, after in groups.items():
            if wrong:
                names = frozenset(after)
                rows += [
                    Row(((1, ((t - 1, names),)), (1, ((t, wrong),))), None, 1) for t in range(1, T)
                ]
        return All(tuple(rows))


def valid_scheme(scheme: str | None = None) -> Rule:
    """The labels are valid in their scheme: the one named, else that of the tagger.

    scheme : such as iob2; None: that of the tagger's labels
    """
    return Scheme(
        called("valid_scheme", *([] if scheme is None else [scheme])),
        scheme and check_scheme(scheme),
    )


@dataclass(frozen=True, repr=False)
class Forbidden(Rule):
    """Labels, or chunks of a type, that do not occur (after others)."""

    name: str
    what: tuple[str, ...]
    after: tuple[str, ...] | None
    at: At

    def formula(self, sentence: Sentence) -> Formula:
        labels_named(self.what, sentence, self.name)
        before = None if self.after is None else labels_named(self.after, sentence, self.name)
        rows: list[Formula] = []
        for t in positions(self.at, sentence, self.name):
            for event in [
                e for what in self.what for e in occurrences(what, t, sentence, self.name)
            ]:
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
        names = labels_named(self.labels, sentence, self.name)
        return All(
            tuple(
                Row(((1, ((t, names),)),), 1, None) for t in positions(self.at, sentence, self.name)
            )
        )


# coefficient, positions, labels or chunk types
Term: TypeAlias = tuple[float, At, str | Sequence[str]]


@dataclass(frozen=True, repr=False)
class Linear(Rule):
    """A weighted sum of occurrences against a bound."""

    name: str
    terms: tuple[Term, ...] | Callable[[Sentence], Iterable[Term]]
    comparison: str
    bound: float

    def formula(self, sentence: Sentence) -> Formula:
        terms = self.terms(sentence) if callable(self.terms) else self.terms
        counted: list[tuple[Fraction, Event]] = []
        for coefficient, at, what in checked_terms(terms, self.name):
            for t in positions(at, sentence, self.name):
                for name in names_of(what, self.name):
                    counted += [
                        (coefficient, event) for event in occurrences(name, t, sentence, self.name)
                    ]
        bound = fraction(self.bound, self.name)
        scale = lcm(bound.denominator, *(c.denominator for c, _ in counted))
        whole = tuple((int(c * scale), event) for c, event in counted)
        b = int(bound * scale)
        if abs(b) + sum(abs(c) for c, _ in whole) > LARGEST:
            raise OptionError(
                f"{self.name}: the coefficients differ by too much; write them with fewer digits"
            )
        low, high = {
            ">=": (b, None),
            ">": (b + 1, None),
            "<=": (None, b),
            "<": (None, b - 1),
            "==": (b, b),
            "!=": (b, b),
        }[self.comparison]
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


# -- arguments of rules ----------------------------------------------------------------------------


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
    raise OptionError(
        f"{rule}: expected positions (numbers from 0, a slice, or a function of the word), got "
        f"{at!r}"
    )


def names_of(what: Any, rule: str) -> tuple[str, ...]:
    names = (what,) if isinstance(what, str) else tuple(what) if isinstance(what, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(
            f"{rule}: expected a label, a chunk type, or a list of them, got {what!r}"
        )
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
            raise OptionError(
                f"{rule}: expected terms (coefficient, positions, labels), got {term!r}"
            )
        checked.append((fraction(term[0], rule), places_of(term[1], rule), term[2]))
    return checked


def called(name: str, *arguments: Any, **named: Any) -> str:
    """A rule as the user wrote it."""

    def shown(value: Any) -> str:
        plain = callable(value) and not isinstance(value, Rule)
        return str(getattr(value, "__name__", "function")) if plain else repr(value)

    parts = [
        *map(shown, arguments),
        *(f"{key}={shown(v)}" for key, v in named.items() if v is not None),
    ]
    return f"{name}({', '.join(parts)})"


def parts_of(*constraints: Any) -> tuple[Rule, ...]:
    """Rules that become parts of another one."""
    parts = []
    for one in constraints:
        rules = rules_in(one)
        if len(rules) != 1:
            raise OptionError(f"constraints: expected one rule, got {one!r}; join several with &")
        if isinstance(rules[0], Soft):
            raise OptionError(
                f"{rules[0]}: a soft rule cannot be part of another; make the whole rule soft"
            )
        parts.append(rules[0])
    return tuple(parts)


# -- the constraints of taggers --------------------------------------------------------------------


def rules_in(constraints: Any) -> list[Rule]:
    """A rule, a function of the sentence, the name of a label scheme (or "scheme"), or any list of
    these, as rules."""
    if isinstance(constraints, Rule):
        return [constraints]
    if isinstance(constraints, str):
        return [valid_scheme(None if constraints == "scheme" else constraints)]
    if callable(constraints):
        return [PerSentence(str(getattr(constraints, "__name__", "function")), constraints)]
    if isinstance(constraints, Iterable):
        return [rule for one in constraints for rule in rules_in(one)]
    raise OptionError(
        f"constraints: expected rules, functions of the sentence, or 'scheme', got {constraints!r}"
    )


def split_constraints(constraints: Any) -> tuple[str | None, list[Rule]]:
    """The label scheme among the constraints, and the rules: a lattice handles schemes by
    itself."""
    if constraints is None or isinstance(constraints, str):
        return constraints, []
    listed = list(constraints) if isinstance(constraints, Iterable) else [constraints]
    schemes = list(dict.fromkeys(one for one in listed if isinstance(one, str)))
    if len(schemes) > 1:
        raise OptionError(
            f"constraints: expected one label scheme, got {' and '.join(map(repr, schemes))}"
        )
    return schemes[0] if schemes else None, rules_in(
        [one for one in listed if not isinstance(one, str)]
    )


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
                        f"{rule}: made soft as a whole, but returns soft rules as well; use one or "
                        "the other"
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
            raise OptionError(
                f"sentence {sentence.number}: {rule}: {type(error).__name__}: {error}"
            ) from error
    return bound


# -- rules on the sequence of labels ---------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Once(Rule):
    """Each of these labels and chunk types (None: all of them) occurs at most once; a run of equal
    labels is one."""

    name: str
    what: tuple[str, ...] | None

    def formula(self, sentence: Sentence) -> Formula:
        where = len(sentence), sentence.labels, sentence.strict
        return All(tuple(_at_most_one(what, *where, self.name) for what in self._names(sentence)))

    def _names(self, sentence: Sentence) -> Sequence[str]:
        """The chunk types; of labels that make no chunks, the candidates."""
        if self.what is not None:
            return self.what
        candidates = dict.fromkeys(label for row in sentence.candidates for label in row)
        return chunk_table(sentence.labels).types or [label for label in candidates if label != "O"]


@lru_cache(maxsize=1 << 14)
def _at_most_one(what: str, T: int, labels: tuple[str, ...], strict: bool, rule: str) -> Row:
    """At most one of the tokens begins a run of a label, or a chunk of a type."""
    sentence = Sentence([[]] * T, labels, strict=strict)
    events = [event for t in range(T) for event in occurrences(what, t, sentence, rule, runs=True)]
    return Row(tuple((1, event) for event in events), None, 1)


@dataclass(frozen=True, repr=False)
class Required(Rule):
    """The token directly after (or before) one of some labels has one of others."""

    name: str
    what: tuple[str, ...]
    after: tuple[str, ...] | None
    before: tuple[str, ...] | None

    def formula(self, sentence: Sentence) -> Formula:
        others = frozenset(sentence.labels) - labels_named(self.what, sentence, self.name)
        rows = []
        for names, shift in ((self.after, 0), (self.before, 1)):
            if names is None:
                continue
            beside = labels_named(names, sentence, self.name)
            sides = (others, beside) if shift else (beside, others)
            for t in range(1, len(sentence)):
                rows.append(Row(((1, ((t - 1, sides[0]),)), (1, ((t, sides[1]),))), None, 1))
        return All(tuple(rows))


@dataclass(frozen=True, repr=False)
class Matched(Rule):
    """The labels contain a pattern, or do not."""

    name: str
    pattern: Pattern
    wanted: bool

    def formula(self, sentence: Sentence) -> Formula:
        language = _language(self.pattern, self.name, sentence.labels, sentence.strict)
        return language if self.wanted else Not(language)


@lru_cache(maxsize=256)
def _language(pattern: Pattern, rule: str, labels: tuple[str, ...], strict: bool) -> Language:
    sentence = Sentence([], labels, strict=strict)
    return language_of(pattern, labels, lambda name: labels_named([name], sentence, rule), rule)


@dataclass(frozen=True, repr=False)
class Lexicon(Rule):
    """The words of a dictionary have one of the labels that it lists for them; other words may have
    any."""

    name: str
    allowed: Mapping[str, tuple[str, ...]]
    word: Callable[[Any], Any]

    def formula(self, sentence: Sentence) -> Formula:
        rows = []
        for t, token in enumerate(sentence.words):
            names = self.allowed.get(self._word(token))
            if names is not None:
                rows.append(Row(((1, ((t, labels_named(names, sentence, self.name)),)),), 1, None))
        return All(tuple(rows))

    def _word(self, token: Any) -> Any:
        try:
            return self.word(token)
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise OptionError(
                f"{self.name}: no word in the token {token!r} ({error}); give word=function"
            ) from None
