"""Dictionaries (gazetteers) that templates read as columns: where their phrases stand in sentences.

A dictionary marks its longest matches, from left to right: B, I and E are the first, inner and last word of a phrase, S
is a phrase of one word, O is no match.  Words are compared without case.

A dictionary made from the training data is right about every entity there, and about few of a new text: a model would
learn to trust it too much.  So where nearly all rare phrases of a type are in a dictionary, it is held out: in training
a phrase counts only if it is also an entity in another part of the training data.  Where data are divided to test a
model on one part, phrases that are entities in that part alone do not count at all.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import detect_scheme, pairs_of_codes
from labelwright.features.phrases import (
    PhraseIndex,
    Phrases,
    checked_dictionaries,
    features_by_phrase,
    index_of,
    make_phrases,
    read_phrases,
    rows_of,
)
from labelwright.locks import computed_once
from labelwright.structures.segments import read_segments
from labelwright.validation import TensorReader

Array = NDArray[Any]
Phrase = tuple[str, ...]

OUTSIDE, FIRST, INNER, LAST, SINGLE = range(5)
TAGS = ["O", "B", "I", "E", "S"]
PARTS = 5  # of the training data
SHARE = 0.8  # of the rare phrases of a type that a dictionary must have to be held out,
LEAST = 20  # and how many such phrases there must be
SEVERAL = -1  # parts of the training data
BLOCK_ROWS = 1 << 22  # segments that are looked up at once


# -- the entities of training data ------------------------------------------------------------------------------------


class Entities(NamedTuple):
    """The labelled phrases of training data: chunks, or single tokens where labels follow no scheme."""

    words: Sequence[str]  # [T]
    offsets: Array  # [N+1]
    types: Sequence[Any]  # names of types
    start: Array  # [n]
    end: Array  # [n]
    kind: Array  # [n]

    @property
    def part_of_token(self) -> Array:
        """The part of the training data in which each token stands [T]; sentences are whole."""
        middle = self.offsets[:-1] * PARTS // max(int(self.offsets[-1]), 1)
        return np.repeat(middle, np.diff(self.offsets))


def entities_of(words: Sequence[str], labels: Sequence[Any], codes: Array, offsets: Array) -> Entities:
    """The labelled phrases of sentences, given by label codes [T]."""
    scheme = detect_scheme(labels, pairs=pairs_of_codes(labels, codes, offsets))
    if scheme is None:
        tokens = np.arange(len(codes))
        return Entities(words, offsets, labels, tokens, tokens + 1, np.asarray(codes))
    types, segments = read_segments(labels, codes, offsets, scheme)
    inside = segments.kind < len(types) - 1
    return Entities(words, offsets, types, segments.start[inside], segments.end[inside], segments.kind[inside])


class Seen(NamedTuple):
    """The phrases of training entities."""

    part: dict[Phrase, int]  # the part of the data in which a phrase is an entity, or SEVERAL
    kinds: dict[Phrase, set[int]]  # its types


def seen_in(entities: Entities, fold: bool) -> Seen:
    """The phrases of entities, in lower case where words are compared without case."""
    words = [word.casefold() for word in entities.words] if fold else list(entities.words)
    part: dict[Phrase, int] = {}
    kinds: dict[Phrase, set[int]] = {}
    parts = entities.part_of_token[entities.start].tolist()
    for a, b, kind, here in zip(
        entities.start.tolist(), entities.end.tolist(), entities.kind.tolist(), parts, strict=True
    ):
        phrase = tuple(words[a:b])
        if part.setdefault(phrase, here) != here:
            part[phrase] = SEVERAL
        kinds.setdefault(phrase, set()).add(kind)
    return Seen(part, kinds)


class DictionaryWarning(UserWarning):
    """A dictionary looks as if it was made from the data."""


class Share(NamedTuple):
    """How many of the rare phrases of each type, which are entities in one part of the data, a dictionary has."""

    rare: Array  # [types]
    known: Array  # [types]

    @property
    def suspect(self) -> Array:
        """The types whose rare phrases are nearly all in the dictionary [types]."""
        among: Array = (self.rare >= LEAST) & (self.known >= SHARE * self.rare)
        return among

    def warn(self, name: str, types: Sequence[Any], so: str) -> None:
        """Warn that a dictionary looks as if it was made from the data, and say what follows."""
        k = int(np.argmax(np.where(self.suspect, self.known, -1)))
        warnings.warn(
            f"dictionary {name!r}: has {self.known[k] / self.rare[k]:.0%} of the {self.rare[k]:,} rare phrases that "
            f"are labelled {types[k]} in the training data, as if it was made from them; {so}",
            DictionaryWarning,
            stacklevel=3,
        )


def share_of(listed: Collection[Phrase], seen: Seen, n_types: int) -> Share:
    """How many of the rare phrases of each type are in a dictionary."""
    rare, known = np.zeros((2, n_types), np.int64)
    for phrase, part in seen.part.items():
        if part != SEVERAL:
            for kind in seen.kinds[phrase]:
                rare[kind] += 1
                known[kind] += phrase in listed
    return Share(rare, known)


def held_out(name: str, phrases: Collection[Phrase], seen: Seen, types: Sequence[Any]) -> dict[Phrase, int]:
    """The phrases of a dictionary that do not count in one part of the training data, and that part.

    These are phrases that are entities nowhere else, of types whose rare phrases are nearly all in the dictionary."""
    listed = set(phrases)
    share = share_of(listed, seen, len(types))
    if not share.suspect.any():
        return {}
    rule = "in training a phrase counts only if it is labelled in another part of the data, too"
    share.warn(name, types, rule)
    return {
        phrase: seen.part[phrase]
        for phrase in listed & seen.part.keys()
        if seen.part[phrase] != SEVERAL and any(share.suspect[kind] for kind in seen.kinds[phrase])
    }


class HeldOut(NamedTuple):
    """Which phrases of a tree do not count in which part of the training data."""

    part: Array  # [dictionaries, nodes]  or SEVERAL
    part_of_token: Array  # [T]

    def counts(self, number: int | Array, node: Array, token: Array) -> Array:
        """Whether phrases (by their nodes) of dictionaries count where they begin or end with these tokens."""
        counted: Array = self.part[number, node] != self.part_of_token[token]
        return counted


def hold_out(
    lists: Mapping[str, Collection[Phrase]], index: PhraseIndex, entities: Entities, fold: bool
) -> HeldOut | None:
    """What of these dictionaries does not count in training; None where all does."""
    if not lists:
        return None
    seen, part = seen_in(entities, fold), np.full((len(lists), len(index.marked)), SEVERAL, np.int64)
    for number, (name, phrases) in enumerate(lists.items()):
        for phrase, only in held_out(name, phrases, seen, entities.types).items():
            part[number, index.node_of(phrase)] = only
    return HeldOut(part, entities.part_of_token) if (part != SEVERAL).any() else None


# -- dictionaries -----------------------------------------------------------------------------------------------------


class Dictionaries:
    """Lists of phrases by name, and where their matches are in sentences."""

    def __init__(self, names: Sequence[str], phrases: Phrases):
        self.names, self.phrases, self.longest = list(names), phrases, phrases.depth()

    @classmethod
    def of(cls, given: Any) -> "Dictionaries":
        """Dictionaries as a user gives them, {name: phrases}."""
        lists = folded(given)
        return cls(list(lists), make_phrases(features_by_phrase(lists)))

    def lists(self) -> dict[str, list[Phrase]]:
        """The phrases of each dictionary, in lower case."""
        return dict(zip(self.names, self.phrases.by_owner(len(self.names)), strict=True))

    def held_out(self, entities: Entities) -> HeldOut | None:
        """What does not count in training."""
        return hold_out(self.lists(), self._index, entities, fold=True)

    def tags(self, words: Sequence[str], codes: Array, offsets: Array, held: HeldOut | None = None) -> list[Array]:
        """The tag [T] of each token for each dictionary, as numbers of TAGS; codes [T] are those of words."""
        number = self._index.number
        known = np.array([number.get(word.casefold(), -1) for word in words], np.int64)
        tags = [np.zeros(int(offsets[-1]), np.int32) for _ in self.names]
        if not self.longest:
            return tags
        numbers = known[codes]
        for begin, end in pairwise(self._blocks(offsets)):
            part = offsets[begin : end + 1]
            self._tag(numbers, part, tags, held)
        return tags

    def _blocks(self, offsets: Array) -> list[int]:
        """Sentences that begin a block of limited size, and the end."""
        size = max(1, BLOCK_ROWS // self.longest)
        starts = np.searchsorted(offsets, np.arange(0, int(offsets[-1]), size))
        return [*np.unique(starts).tolist(), len(offsets) - 1] if len(starts) else []

    def _tag(self, numbers: Array, offsets: Array, tags: list[Array], held: HeldOut | None) -> None:
        """Mark the matches in some sentences."""
        first = int(offsets[0])
        local = offsets - first
        rows = rows_of(local, self.longest)
        nodes = self._index.find(numbers[first : int(offsets[-1])], local, self.longest, int(rows[-1]))
        row = np.flatnonzero(nodes)
        last = np.searchsorted(rows, row, side="right") - 1
        start = last - (row - rows[last]) + first
        for number, marked in enumerate(self._marks):
            chosen = marked[nodes[row]]
            if held is not None:
                chosen &= held.counts(number, nodes[row], start)
            _mark(start[chosen], last[chosen] + first, tags[number])

    @computed_once
    def _index(self) -> PhraseIndex:
        return index_of(self.phrases)

    @computed_once
    def _marks(self) -> list[Array]:
        """Which nodes are phrases of each dictionary."""
        nodes = np.repeat(np.arange(len(self.phrases.ptr) - 1), np.diff(self.phrases.ptr))
        marks = np.zeros((len(self.names), len(self.phrases.ptr) - 1), np.bool_)
        marks[self.phrases.feature, nodes] = True
        return list(marks)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all but what is quickly made again."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_index", "_marks")}

    @classmethod
    def restore(cls, tensors: TensorReader, names: list[str]) -> "Dictionaries":
        """The dictionaries of a model file."""
        return cls(names, read_phrases(tensors, len(names), 0))


def folded(given: Any) -> dict[str, list[Phrase]]:
    """Dictionaries as a user gives them, in lower case."""
    lists = checked_dictionaries(given)
    return {name: [tuple(word.casefold() for word in phrase) for phrase in lists[name]] for name in lists}


def _mark(start: Array, last: Array, tags: Array) -> None:
    """Tag the longest of these matches that do not overlap, from left to right."""
    order = np.lexsort((-last, start))
    free = 0
    for a, b in zip(start[order].tolist(), last[order].tolist(), strict=True):
        if a < free:
            continue
        if a == b:
            tags[a] = SINGLE
        else:
            tags[a], tags[a + 1 : b], tags[b] = FIRST, INNER, LAST
        free = b + 1
