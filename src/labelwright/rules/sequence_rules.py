"""Rules on the sequence of labels: at most one of each, patterns, required transitions, a dictionary of words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from labelwright.errors import OptionError
from labelwright.rules.events import Sentence, chunk_table, labels_named, occurrences
from labelwright.rules.formulas import All, Formula, Language, Not, Row
from labelwright.rules.patterns import Pattern, language_of
from labelwright.rules.rules import Rule


@dataclass(frozen=True, repr=False)
class Once(Rule):
    """Each of these labels and chunk types (None: all of them) occurs at most once; a run of equal labels is one."""

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
    """The words of a dictionary have one of the labels that it lists for them; other words may have any."""

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
            raise OptionError(f"{self.name}: no word in the token {token!r} ({error}); give word=function") from None
