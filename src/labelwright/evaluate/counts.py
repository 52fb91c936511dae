"""The sufficient statistics of all scores and tests: counts of tokens and chunks, sentence by
sentence.

labels -> Tokens (integer codes) -> Rules (how they are read) -> Counts [P, 3] -> a score is a sum
over sentences
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from labelwright.corpus.labels import plain_label, text_of, wrong_label
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.partial_labels import check_known
from labelwright.corpus.schemes import (
    ALIASES,
    LabelRoles,
    check_scheme,
    convert,
    detect_scheme,
    join_label,
    label_roles,
    split_label,
)
from labelwright.errors import CorpusError, OptionError

READINGS = ("conlleval", "strict", "token")
Labels = Iterable[Sequence[str]]  # one sequence of labels per sentence


class Tokens(NamedTuple):
    """The labels of several systems over the same sentences, as integers; row 0 is the gold
    standard."""

    labels: list[str]  # [L]     distinct labels of all systems
    codes: np.ndarray  # [systems, T]  index into labels
    offsets: np.ndarray  # [N+1]   sentence n is offsets[n]:offsets[n+1]
    gold: list[Sequence[str]]  # [N]     the gold labels as given


class Rules(NamedTuple):
    """How labels are read: as parts of chunks by their roles, or each token by itself (roles
    None)."""

    reading: str
    scheme: str | None
    roles: LabelRoles | None


class Counts(NamedTuple):
    """Sufficient statistics of a prediction; rows add up, so any sum or resampling of sentences has
    its score.

    Only the pairs of a sentence and a type that occurs in it are stored: their number is linear in
    the tokens.
    """

    types: list[str]  #: [C]     chunk types, or labels where tokens are counted
    sentence: np.ndarray  #: [P]     the sentence of each pair
    type: np.ndarray  #: [P]     its type, an index into types
    #: [P, 3]  its chunks (or tokens): gold, predicted, and in both with the same limits
    chunks: np.ndarray
    tokens: np.ndarray  #: [N]     tokens
    correct_tokens: np.ndarray  #: [N]     tokens with the right label
    reading: str  #: "conlleval", "strict" or "token"
    scheme: str | None  #: of the gold labels, where they have one

    @property
    def gold(self) -> np.ndarray:
        """Chunks (or tokens) of each type in the gold standard [N, C], as a full table."""
        return self._table(0)

    @property
    def predicted(self) -> np.ndarray:
        """The same in the prediction [N, C]."""
        return self._table(1)

    @property
    def correct(self) -> np.ndarray:
        """The same in both, with the same limits [N, C]."""
        return self._table(2)

    def by_sentence(self) -> np.ndarray:
        """Gold, predicted and correct chunks of each sentence [N, 3]."""
        return self._sums(self.sentence, len(self.tokens))

    def by_type(self) -> np.ndarray:
        """Gold, predicted and correct chunks of each type [C, 3]."""
        return self._sums(self.type, len(self.types))

    def _table(self, column: int) -> np.ndarray:
        table = np.zeros((len(self.tokens), len(self.types)), np.int64)
        table[self.sentence, self.type] = self.chunks[:, column]
        return table

    def _sums(self, group: np.ndarray, n: int) -> np.ndarray:
        # exact up to 2**53
        sums = [np.bincount(group, numbers, minlength=n) for numbers in self.chunks.T]
        return np.stack(sums, axis=1).astype(np.int64)


class Score(NamedTuple):
    """Precision, recall and F1 (0 to 1) and the counts they come from."""

    precision: float  #: correct / predicted, 0 where nothing was predicted
    recall: float  #: correct / gold, 0 where there is no gold
    f1: float  #: harmonic mean of both
    gold: int  #: number in the gold standard
    predicted: int  #: number in the prediction
    correct: int  #: number in both


def score_of(gold: int, predicted: int, correct: int) -> Score:
    """Return precision, recall and F1 of counts; what has no denominator is 0, as in conlleval."""
    return Score(
        precision=correct / predicted if predicted else 0.0,
        recall=correct / gold if gold else 0.0,
        f1=2 * correct / (gold + predicted) if gold + predicted else 0.0,
        gold=gold,
        predicted=predicted,
        correct=correct,
    )


def count(
    gold: Labels, predicted: Labels, reading: str = "conlleval", scheme: str | None = None
) -> Counts:
    """Count gold, predicted and correct chunks and correct tokens of every sentence.

    `reading="conlleval"` takes any mixture of B I O E S labels as the CoNLL script does; `"strict"`
    counts only chunks whose labels are exactly what the scheme writes; `"token"` counts labels,
    which is also done where none is a chunk label.

    gold : true labels, a list for each sentence
    predicted : predicted labels, of the same lengths
    reading : conlleval, strict or token
    scheme : the label scheme; None: as the gold labels tell

    >>> counts = count([["B-NP", "I-NP", "O", "B-PP"]], [["B-NP", "I-NP", "I-NP", "B-PP"]])
    >>> counts.types, counts.gold.tolist(), counts.correct.tolist(), counts.correct_tokens.tolist()
    (['NP', 'PP'], [[1, 1]], [[0, 1]], [3])
    """
    tokens = intern(gold, predicted=predicted)
    return count_system(tokens, rules_for(tokens, reading, scheme), 1)


def intern(gold: Labels, **systems: Labels) -> Tokens:
    """Convert labels to integers, after checking that every system labels the tokens of the gold
    standard."""
    named: dict[str, list[Sequence[str]]] = {"gold": list(gold)}
    named.update((name, list(sentences)) for name, sentences in systems.items())
    if not named["gold"]:
        raise CorpusError("gold: no sentences, expected at least one")
    lengths = _lengths("gold", named["gold"])
    check_known(named["gold"], "gold")
    for name, sentences in named.items():
        if len(sentences) != len(lengths):
            raise CorpusError(
                f"{name}: {len(sentences)} sentences, expected {len(lengths)} as in gold"
            )
        unequal = np.flatnonzero(_lengths(name, sentences) != lengths)
        if len(unequal):
            first = unequal[0]
            raise CorpusError(
                f"{name}: sentence {first} has {len(sentences[first])} labels, expected "
                f"{lengths[first]} as in gold"
            )
    try:
        labels = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(named.values()))))
    except TypeError as error:
        raise CorpusError(f"labels: expected strings, got something else ({error})") from error
    wrong = wrong_label(list(map(plain_label, labels)))
    if wrong is not None:
        raise CorpusError(f"labels: {wrong[1]} ({type(labels[wrong[0]]).__name__})")
    index = {label: code for code, label in enumerate(labels)}
    offsets = offsets_from(lengths)
    codes = np.empty((len(named), offsets[-1]), dtype=np.int64)
    for row, sentences in zip(codes, named.values(), strict=True):
        row[:] = np.fromiter(
            map(index.__getitem__, chain.from_iterable(sentences)), dtype=np.int64, count=len(row)
        )
    return Tokens(text_of(labels), codes, offsets, named["gold"])


def rules_for(tokens: Tokens, reading: str, scheme: str | None) -> Rules:
    """Decide how labels are read: as requested, or as they look."""
    if reading not in READINGS:
        raise OptionError(f"reading: got {reading!r}, expected one of {', '.join(READINGS)}")
    scheme = check_scheme(scheme) if scheme is not None else None
    roles = label_roles(tokens.labels)
    chunks = bool(roles.types) or set(tokens.labels) <= {"O"}
    if reading == "token" or not chunks:
        if reading == "strict":
            raise OptionError(
                "reading: 'strict' needs chunk labels such as B-NP; use 'token' for labels of "
                "single tokens"
            )
        return Rules("token", None, None)
    if scheme is None:
        present = {tokens.labels[code] for code in np.unique(tokens.codes[0])}
        scheme = detect_scheme(present, tokens.gold)
    if reading == "strict" and scheme is None:
        raise OptionError(
            "reading: 'strict' needs a scheme, and the gold labels show none; set it, as in "
            "scheme='iob2'"
        )
    return Rules(reading, scheme, roles)


class Units(NamedTuple):
    """What is counted of one system, in the order of the tokens: chunks, or all tokens."""

    first: np.ndarray  # [U]  its first token,
    end: np.ndarray  # [U]  and the one after its last
    type: np.ndarray  # [U]  index into types: chunk types, or labels


def units_of(tokens: Tokens, rules: Rules, system: int) -> Units:
    """The chunks of a system (a row of `tokens.codes`) as they are read, or all its tokens."""
    codes = tokens.codes[system]
    if rules.roles is None:
        every = np.arange(len(codes))
        return Units(every, every + 1, codes)
    before, after = _neighbours(codes, tokens)
    # Every start has its end: a chunk opens only where none runs on, and closes before the next.
    first, last = (
        np.flatnonzero(rules.roles.starts(before, codes)),
        np.flatnonzero(rules.roles.ends(codes, after)),
    )
    if rules.reading == "strict":
        misspelt = offsets_from(_misspelt(tokens, rules, system))
        intact = misspelt[last + 1] == misspelt[first]
        first, last = first[intact], last[intact]
    return Units(first, last + 1, rules.roles.type_of[codes[first]])


def matched(units: Units, others: Units) -> np.ndarray:
    """Which units [U] are among the others: same limits, same type."""
    if not len(others.first):
        return np.zeros(len(units.first), dtype=bool)
    place = np.minimum(np.searchsorted(others.first, units.first), len(others.first) - 1)
    same = [ours == theirs[place] for ours, theirs in zip(units, others, strict=True)]
    return np.asarray(same[0] & same[1] & same[2])


def count_system(tokens: Tokens, rules: Rules, system: int) -> Counts:
    """Count one system (a row of `tokens.codes`) against row 0."""
    gold, predicted = units_of(tokens, rules, 0), units_of(tokens, rules, system)
    types = list(tokens.labels if rules.roles is None else rules.roles.types)
    correct = matched(gold, predicted)
    lengths = np.diff(tokens.offsets)
    sentence = np.repeat(np.arange(len(lengths)), lengths)  # [T]
    counted = (
        (gold.first, gold.type),
        (predicted.first, predicted.type),
        (gold.first[correct], gold.type[correct]),
    )
    pairs = [sentence[first] * len(types) + kind for first, kind in counted]
    distinct = np.unique(np.concatenate(pairs))  # [P]
    places = (np.searchsorted(distinct, each) for each in pairs)
    same = tokens.codes[0] == tokens.codes[system]
    return Counts(
        types=types,
        sentence=distinct // max(len(types), 1),
        type=distinct % max(len(types), 1),
        chunks=np.stack([np.bincount(place, minlength=len(distinct)) for place in places], axis=1),
        tokens=lengths,
        correct_tokens=np.bincount(sentence[same], minlength=len(lengths)),
        reading=rules.reading,
        scheme=rules.scheme,
    )


def _misspelt(tokens: Tokens, rules: Rules, system: int) -> np.ndarray:
    """Return [T] whether each label differs from what the scheme writes there, computed once per
    window of three."""
    assert rules.scheme is not None
    before, after = _neighbours(tokens.codes[system], tokens)
    width = len(tokens.labels) + 1
    windows = (before * width + tokens.codes[system]) * width + after  # [T]
    distinct = np.unique(windows)
    places = [(code // width**2, code // width % width, code % width) for code in distinct.tolist()]
    present = [[tokens.labels[code] for code in place if code < width - 1] for place in places]
    written = convert(present, None, rules.scheme)
    wrong = np.zeros(len(distinct), dtype=bool)
    for number, (left, label, _) in enumerate(places):
        wrong[number] = _plain_spelling(written[number][left < width - 1]) != _plain_spelling(
            tokens.labels[label]
        )
    return np.asarray(wrong[np.searchsorted(distinct, windows)])


def _plain_spelling(label: str) -> str:
    """Write BILOU's and BMES's letters as those of BIOES."""
    letter, kind = split_label(label)
    return join_label(ALIASES.get(letter, letter), kind)


def _neighbours(codes: np.ndarray, tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Return [T] the label before and [T] the label after each token, L beyond the sentence."""
    outside = len(tokens.labels)
    filled = np.diff(tokens.offsets) > 0
    before, after = np.empty_like(codes), np.empty_like(codes)
    before[1:] = codes[:-1]
    after[:-1] = codes[1:]
    before[tokens.offsets[:-1][filled]] = outside
    after[tokens.offsets[1:][filled] - 1] = outside
    return before, after


def _lengths(name: str, sentences: list[Sequence[str]]) -> np.ndarray:
    """Return [N] the length of every sentence; an error where one is not a list of labels."""
    for kind in set(map(type, sentences)):
        if issubclass(kind, str) or not hasattr(kind, "__len__"):
            number, wrong = next(pair for pair in enumerate(sentences) if type(pair[1]) is kind)
            raise CorpusError(
                f"{name}: sentence {number} is {wrong!r:.40}, expected a list of labels"
            )
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
