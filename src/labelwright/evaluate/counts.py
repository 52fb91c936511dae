"""The sufficient statistics of all scores and tests: counts of tokens and chunks, sentence by sentence.

labels -> Tokens (integer codes) -> Rules (how they are read) -> Counts [N, C] -> a score is a sum over sentences
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
    Boundaries,
    boundaries,
    check_scheme,
    convert,
    detect_scheme,
    join_label,
    split_label,
)
from labelwright.errors import CorpusError, OptionError

READINGS = ("conlleval", "strict", "token")
Labels = Iterable[Sequence[str]]  # one sequence of labels per sentence


class Tokens(NamedTuple):
    """The labels of several systems over the same sentences, as integers; row 0 is the gold standard."""

    labels: list[str]  # [L]     distinct labels of all systems
    codes: np.ndarray  # [systems, T]  index into labels
    offsets: np.ndarray  # [N+1]   sentence n is offsets[n]:offsets[n+1]
    gold: list[Sequence[str]]  # [N]     the gold labels as given


class Rules(NamedTuple):
    """How labels are read: as chunks by a table of boundaries, or each token by itself (table None)."""

    reading: str
    scheme: str | None
    table: Boundaries | None


class Counts(NamedTuple):
    """Sufficient statistics of a prediction; rows add up, so any sum or resampling of sentences has its score."""

    types: list[str]  #: [C]     chunk types, or labels where tokens are counted
    gold: np.ndarray  #: [N, C]  chunks (or tokens) of the type in the gold standard
    predicted: np.ndarray  #: [N, C]  ... in the prediction
    correct: np.ndarray  #: [N, C]  ... in both, with the same limits
    tokens: np.ndarray  #: [N]     tokens
    correct_tokens: np.ndarray  #: [N]     tokens with the right label
    reading: str  #: "conlleval", "strict" or "token"
    scheme: str | None  #: of the gold labels, where they have one


def count(gold: Labels, predicted: Labels, reading: str = "conlleval", scheme: str | None = None) -> Counts:
    """Count gold, predicted and correct chunks and correct tokens of every sentence.

    `reading="conlleval"` takes any mixture of B I O E S labels as the CoNLL script does; `"strict"` counts only chunks
    whose labels are exactly what the scheme writes; `"token"` counts labels, which is also done where none is a chunk
    label.

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
    """Convert labels to integers, after checking that every system labels the tokens of the gold standard."""
    named: dict[str, list[Sequence[str]]] = {"gold": list(gold)}
    named.update((name, list(sentences)) for name, sentences in systems.items())
    if not named["gold"]:
        raise CorpusError("gold: no sentences, expected at least one")
    lengths = _lengths("gold", named["gold"])
    check_known(named["gold"], "gold")
    for name, sentences in named.items():
        if len(sentences) != len(lengths):
            raise CorpusError(f"{name}: {len(sentences)} sentences, expected {len(lengths)} as in gold")
        unequal = np.flatnonzero(_lengths(name, sentences) != lengths)
        if len(unequal):
            first = unequal[0]
            raise CorpusError(
                f"{name}: sentence {first} has {len(sentences[first])} labels, expected {lengths[first]} as in gold"
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
        row[:] = np.fromiter(map(index.__getitem__, chain.from_iterable(sentences)), dtype=np.int64, count=len(row))
    return Tokens(text_of(labels), codes, offsets, named["gold"])


def rules_for(tokens: Tokens, reading: str, scheme: str | None) -> Rules:
    """Decide how labels are read: as requested, or as they look."""
    if reading not in READINGS:
        raise OptionError(f"reading: got {reading!r}, expected one of {', '.join(READINGS)}")
    scheme = check_scheme(scheme) if scheme is not None else None
    table = boundaries(tokens.labels)
    chunks = bool(table.types) or set(tokens.labels) <= {"O"}
    if reading == "token" or not chunks:
        if reading == "strict":
            raise OptionError(
                "reading: 'strict' needs chunk labels such as B-NP; use 'token' for labels of single tokens"
            )
        return Rules("token", None, None)
    if scheme is None:
        present = {tokens.labels[code] for code in np.unique(tokens.codes[0])}
        scheme = detect_scheme(present, tokens.gold)
    if reading == "strict" and scheme is None:
        raise OptionError(
            "reading: 'strict' needs a scheme, and the gold labels show none; set it, as in scheme='iob2'"
        )
    return Rules(reading, scheme, table)


def count_system(tokens: Tokens, rules: Rules, system: int) -> Counts:
    """Count one system (a row of `tokens.codes`) against row 0."""
    gold, predicted = tokens.codes[0], tokens.codes[system]
    lengths = np.diff(tokens.offsets)
    sentence = np.repeat(np.arange(len(lengths)), lengths)  # [T]
    same = gold == predicted
    if rules.table is None:
        types, gold_type, predicted_type = tokens.labels, gold, predicted
        in_gold = in_predicted = np.ones(len(gold), dtype=bool)
        correct = same
    else:
        types, gold_type, predicted_type = rules.table.types, rules.table.type_of[gold], rules.table.type_of[predicted]
        gold_last, predicted_last = chunk_ends(tokens, rules, 0), chunk_ends(tokens, rules, system)
        in_gold, in_predicted = gold_last >= 0, predicted_last >= 0
        correct = in_gold & (gold_last == predicted_last) & (gold_type == predicted_type)

    def per_sentence(chosen: np.ndarray, kind: np.ndarray) -> np.ndarray:
        cells = np.bincount(sentence[chosen] * len(types) + kind[chosen], minlength=len(lengths) * len(types))
        return cells.reshape(len(lengths), len(types))

    return Counts(
        types=list(types),
        gold=per_sentence(in_gold, gold_type),
        predicted=per_sentence(in_predicted, predicted_type),
        correct=per_sentence(correct, gold_type),
        tokens=lengths,
        correct_tokens=np.bincount(sentence[same], minlength=len(lengths)),
        reading=rules.reading,
        scheme=rules.scheme,
    )


def gold_chunks_found(tokens: Tokens, rules: Rules, system: int) -> np.ndarray:
    """Return for every gold chunk, in order, whether the prediction has it: same limits, same type."""
    if rules.table is None:
        raise OptionError("unit: 'chunk' needs chunk labels such as B-NP; use 'token' or 'sentence'")
    type_of = rules.table.type_of
    gold_last, last = chunk_ends(tokens, rules, 0), chunk_ends(tokens, rules, system)
    first = np.flatnonzero(gold_last >= 0)
    same_type = type_of[tokens.codes[0, first]] == type_of[tokens.codes[system, first]]
    return np.asarray((gold_last[first] == last[first]) & same_type)


def chunk_ends(tokens: Tokens, rules: Rules, system: int) -> np.ndarray:
    """Return [T] the last token of the chunk that starts at each token, -1 where none starts."""
    assert rules.table is not None
    codes = tokens.codes[system]
    before, after = _neighbours(codes, tokens)
    width = len(tokens.labels) + 1
    # Every start has its end: the tables open a chunk only where none runs on, and close it before the next.
    first = np.flatnonzero(rules.table.starts.ravel()[before * width + codes])
    last = np.flatnonzero(rules.table.ends.ravel()[codes * width + after])
    if rules.reading == "strict":
        misspelt = offsets_from(_misspelt(tokens, rules, system))
        intact = misspelt[last + 1] == misspelt[first]
        first, last = first[intact], last[intact]
    ends = np.full(len(codes), -1, dtype=np.int64)
    ends[first] = last
    return ends


def _misspelt(tokens: Tokens, rules: Rules, system: int) -> np.ndarray:
    """Return [T] whether each label differs from what the scheme writes there, computed once per window of three."""
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
        wrong[number] = _plain_spelling(written[number][left < width - 1]) != _plain_spelling(tokens.labels[label])
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
            raise CorpusError(f"{name}: sentence {number} is {wrong!r:.40}, expected a list of labels")
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
