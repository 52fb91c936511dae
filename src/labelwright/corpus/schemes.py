"""Label schemes: how letters such as B, I, E, S and O write chunks down, and how conlleval reads
any mixture of them.

Whether a chunk ends or starts between two neighbouring tokens depends on their two labels alone, so
everything here is a table over pairs of labels (or over windows of three), filled once per distinct
pair.  Where there may be many labels, only the pairs that occur are looked up.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from labelwright.errors import OptionError

# The same roles under other names: BILOU's last and unit, BMES's middle.
ALIASES = {"L": "E", "U": "S", "M": "I"}
_OPENING = frozenset("BS[]")  # a chunk always starts at these letters
_CLOSING = frozenset("ES[]")  # a chunk always ends after these letters
_INSIDE = _OPENING | _CLOSING | {"I"}
OUTSIDE = "O", ""  # the role and type of what is in no chunk


class Scheme(NamedTuple):
    """How a scheme writes chunks."""

    roles: str  # that it has letters for
    # may role j follow role i?  True: both are inside chunks of one type
    fits: Callable[[str, str, bool], bool]
    # the role of a token that is the first of its chunk, or the last,
    write: Callable[[bool, bool, bool, bool], str]
    #                                                 and where another chunk of its type touches
    #                                                 that end
    spelling: Mapping[str, str] = {}  # the letters of roles that are spelled in another way


# The edge of a sentence counts as O.  In the last three every chunk is written with its first and
# its last token.
_BIOES = Scheme(
    "BIESO",
    lambda i, j, same: (i in "BI") == (j in "IE") and (same or i not in "BI"),
    lambda first, last, before, after: ("S" if last else "B") if first else ("E" if last else "I"),
)
_SCHEMES = {
    "iob1": Scheme(
        "BIO",
        lambda i, j, same: j != "B" or same,
        lambda first, _, before, __: "B" if before else "I",
    ),
    "iob2": Scheme(
        "BIO", lambda i, j, same: j != "I" or same, lambda first, *_: "B" if first else "I"
    ),
    "ioe1": Scheme(
        "IEO", lambda i, j, same: i != "E" or same, lambda *ends: "E" if ends[3] else "I"
    ),
    "ioe2": Scheme(
        "IEO", lambda i, j, same: i != "I" or same, lambda *ends: "E" if ends[1] else "I"
    ),
    "bioes": _BIOES,
    "bilou": _BIOES._replace(spelling={"E": "L", "S": "U"}),
    "bmes": _BIOES._replace(spelling={"I": "M"}),
    "io": Scheme("IO", lambda i, j, same: True, lambda *_: "I"),
}
SCHEMES = tuple(_SCHEMES)
# other names
SAME_AS = {"iobes": "bioes", "bmeso": "bmes", "bilu": "bilou", "bio": "iob2", "iob": "iob1"}


class LabelRoles(NamedTuple):
    """How labels are read as parts of chunks; index L stands for the outside of the sentence."""

    types: list[str]  #: [C]        chunk types, sorted
    type_of: np.ndarray  #: [L+1] int64  index into types, -1 outside chunks
    opening: np.ndarray  #: [L+1] bool   a chunk always starts at the label
    closing: np.ndarray  #: [L+1] bool   a chunk always ends after the label

    def starts(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Whether a chunk starts at each label of `after` that follows the one of `before`."""
        return np.asarray((self.type_of[after] >= 0) & self._broken(before, after))

    def ends(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Whether a chunk ends at each label of `before` that the one of `after` follows."""
        return np.asarray((self.type_of[before] >= 0) & self._broken(before, after))

    def _broken(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Whether no chunk continues from one label to the next, as `is_broken` says of one
        pair."""
        return np.asarray(
            self.closing[before]
            | self.opening[after]
            | (self.type_of[before] != self.type_of[after])
        )


class Boundaries(NamedTuple):
    """Where chunks start and end between labels i and j; index L stands for the outside of the
    sentence."""

    starts: np.ndarray  #: [L+1, L+1] bool   a chunk starts at a token labelled j that follows i
    ends: np.ndarray  #: [L+1, L+1] bool   a chunk ends at a token labelled i that j follows
    types: list[str]  #: [C]          chunk types, sorted
    type_of: np.ndarray  #: [L+1] int64       index into types, -1 outside chunks


class Allowed(NamedTuple):
    """What a scheme permits."""

    start: np.ndarray  #: [L] bool     a sentence may start with the label
    arc: np.ndarray  #: [L, L] bool  label j may follow label i
    end: np.ndarray  #: [L] bool     a sentence may end with the label


class Problem(NamedTuple):
    """One place where labels break their scheme; sentence and token count from 0."""

    sentence: int  #: its number, from 0
    token: int  #: its number in the sentence, from 0
    message: str  #: what is wrong with the label there


def split_label(label: str) -> tuple[str, str]:
    """Split a label into its letter and its type.

    label : such as B-NP

    >>> split_label("B-NP"), split_label("I-NP-SBJ"), split_label("O")
    (('B', 'NP'), ('I', 'NP-SBJ'), ('O', ''))
    """
    letter, _, kind = label.partition("-")
    return letter, kind


def join_label(letter: str, kind: str) -> str:
    """Write a letter and a type as one label; a chunk without a type is its bare letter."""
    return f"{letter}-{kind}" if kind and letter != "O" else letter


@functools.lru_cache(maxsize=1 << 16)
def _parts(label: str | None) -> tuple[str, str]:
    """The role (B, I, E, S, a bracket or O) and type of a label; None, the edge, is O, and so is no
    chunk label."""
    if not isinstance(label, str):  # or a number
        return "O", ""
    letter, kind = split_label(label)
    letter = ALIASES.get(letter, letter)
    return (letter, kind) if letter in _INSIDE else ("O", "")


def is_broken(before: tuple[str, str], after: tuple[str, str]) -> bool:
    """Whether no chunk continues from one token to the next: conlleval's rule, for all letters at
    once."""
    (i, type_i), (j, type_j) = before, after
    return i == "O" or j == "O" or i in _CLOSING or j in _OPENING or type_i != type_j


def is_chunk_label(label: str) -> bool:
    """Whether a label can be read as part of a chunk scheme: O, or one of B I E S L U M [ ] with or
    without a type."""
    return label == "O" or _parts(label)[0] != "O"


def chunk_parts(labels: Sequence[str]) -> list[tuple[str, str]]:
    """The role and type of each of the labels.

    Bare letters count as outside when other labels are no chunk labels at all: then `B` is a
    phoneme or a tag.
    """
    chunky = all(map(is_chunk_label, labels))
    return [
        _parts(label if chunky or (isinstance(label, str) and "-" in label) else None)
        for label in labels
    ]


def label_roles(labels: Sequence[str]) -> LabelRoles:
    """Read any mixture of B I O E S [ ] labels as conlleval does, in memory linear in the number of
    labels.

    A chunk runs on from i to j when both are inside chunks of one type, i does not close it (E S)
    and j does not open another (B S).

    labels : the distinct labels [L]

    >>> roles = label_roles(["O", "B-NP", "I-NP"])
    >>> roles.starts(np.array([0, 1]), np.array([2, 2])).tolist()
    [True, False]
    >>> roles.ends(np.array([2]), np.array([3])).tolist()
    [True]
    """
    parts = [*chunk_parts(labels), OUTSIDE]
    types = sorted({kind for letter, kind in parts if letter != "O"})
    index = {kind: number for number, kind in enumerate(types)}
    type_of = np.array(
        [-1 if letter == "O" else index[kind] for letter, kind in parts], dtype=np.int64
    )
    return LabelRoles(
        types,
        type_of,
        opening=np.array([letter in _OPENING for letter, _ in parts], dtype=bool),
        closing=np.array([letter in _CLOSING for letter, _ in parts], dtype=bool),
    )


def boundaries(labels: Sequence[str]) -> Boundaries:
    """What `label_roles` says of every pair of labels, as tables.

    labels : the distinct labels [L]

    >>> table = boundaries(["O", "B-NP", "I-NP"])
    >>> bool(table.starts[0, 2]), bool(table.starts[1, 2]), bool(table.ends[2, 3]), table.types
    (True, False, True, ['NP'])
    """
    roles = label_roles(labels)
    before, after = np.ogrid[: len(labels) + 1, : len(labels) + 1]
    return Boundaries(
        roles.starts(before, after), roles.ends(before, after), roles.types, roles.type_of
    )


def check_scheme(scheme: str) -> str:
    """Return the scheme's name in lower case, or list the names.

    >>> check_scheme("BILOU"), check_scheme("BIO")
    ('bilou', 'iob2')
    """
    name = SAME_AS.get(scheme.lower(), scheme.lower())
    if name not in SCHEMES:
        raise OptionError(f"scheme: got {scheme!r}, expected one of {', '.join(SCHEMES)}")
    return name


def same_rules(scheme: str, other: str) -> bool:
    """Whether two schemes differ in their letters alone, as BIOES, BILOU and BMES do."""
    return scheme == other or {scheme, other} <= {
        name for name, each in _SCHEMES.items() if each.fits is _BIOES.fits
    }


def letters_of(scheme: str) -> list[str]:
    """The letters that a scheme writes.

    >>> letters_of("bilou"), letters_of("ioe2")
    (['B', 'I', 'L', 'U', 'O'], ['I', 'E', 'O'])
    """
    return [_SCHEMES[scheme].spelling.get(role, role) for role in _SCHEMES[scheme].roles]


def _checked_parts(label: str, scheme: str) -> tuple[str, str]:
    """The role and type of a label that the scheme must have; BIOES is also read in the letters of
    BILOU and BMES."""
    role, kind = _parts(label)
    spelling = _SCHEMES[scheme].spelling
    # a label may also be a number
    written = is_chunk_label(label) and role in _SCHEMES[scheme].roles
    if not written or (spelling and label.partition("-")[0] != spelling.get(role, role)):
        raise OptionError(
            f"scheme {scheme}: label {label!r} is not one it writes (letters "
            f"{' '.join(letters_of(scheme))}); name the scheme the labels are in"
        )
    return role, kind


def _as_spelt(labels: Iterable[str]) -> str:
    """Which of BIOES, BILOU and BMES labels with these roles are in: by their letters, BIOES where
    these are mixed."""
    letters = {split_label(label)[0] for label in labels}
    for name, scheme in _SCHEMES.items():
        if letters & set(scheme.spelling.values()) and letters <= set(letters_of(name)):
            return name
    return "bioes"


def _fits(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    """Whether the scheme lets one label follow another."""
    same = "O" not in (before[0], after[0]) and before[1] == after[1]
    return _SCHEMES[scheme].fits(before[0], after[0], same)


def allowed(labels: Sequence[str], scheme: str) -> Allowed:
    """Which labels may start a sentence, follow each other, and end a sentence under a scheme.

    labels : the distinct labels [L]
    scheme : the scheme that they follow

    >>> rules = allowed(["O", "B-NP", "I-NP"], "iob2")
    >>> rules.start.tolist(), rules.arc[0].tolist()
    ([True, True, False], [True, True, False])
    """
    scheme = check_scheme(scheme)
    edge = _parts(None)
    parts = [_checked_parts(label, scheme) for label in labels]
    return Allowed(
        start=np.array([_fits(edge, part, scheme) for part in parts], dtype=bool),
        arc=np.array([[_fits(i, j, scheme) for j in parts] for i in parts], dtype=bool).reshape(
            len(parts), len(parts)
        ),
        end=np.array([_fits(part, edge, scheme) for part in parts], dtype=bool),
    )


class _Pairs(dict[tuple[str | None, str | None], bool]):
    """Whether a scheme permits a pair of labels (None is the edge of a sentence), worked out once
    per pair."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme

    def __missing__(self, pair: tuple[str | None, str | None]) -> bool:
        before, after = (
            _parts(None) if label is None else _checked_parts(label, self.scheme) for label in pair
        )
        self[pair] = _fits(before, after, self.scheme)
        return self[pair]


def validate(sentences: Iterable[Sequence[str]], scheme: str) -> list[Problem]:
    """List every place where labels break the scheme.

    sentences : labels of each sentence
    scheme : the scheme that they should follow

    >>> validate([["O", "I-NP"]], "iob2")
    [Problem(sentence=0, token=1, message='I-NP cannot follow O in iob2')]
    """
    permitted = _Pairs(check_scheme(scheme))
    problems: list[Problem] = []
    for number, sentence in enumerate(sentences):
        for token, pair in enumerate(zip([None, *sentence], [*sentence, None], strict=True)):
            if not permitted[pair]:
                before, after = pair
                what = (
                    f"{after} cannot start a sentence"
                    if before is None
                    else f"{after} cannot follow {before}"
                )
                what = f"{before} cannot end a sentence" if after is None else what
                problems.append(
                    Problem(number, min(token, len(sentence) - 1), f"{what} in {permitted.scheme}")
                )
    return problems


Pair = tuple[str | None, str | None]


def detect_scheme(
    labels: Iterable[str],
    sentences: Iterable[Sequence[str]] | None = None,
    pairs: Mapping[Pair, int] | None = None,
) -> str | None:
    """Name the chunk scheme that distinct labels come from, or None when they are no chunk labels.

    The letters alone cannot tell IOB1 from IOB2 (nor IOE1 from IOE2); given the sentences (or how
    often each pair of labels occurs), the scheme with fewer broken pairs wins, and the second of
    each where they tie.

    labels : the distinct labels
    sentences : labels of each sentence
    pairs : {(label, next label): how often}, None for the start and the end of a sentence

    >>> detect_scheme({"O", "B-NP", "I-NP"}), detect_scheme({"NN", "VB"})
    ('iob2', None)
    >>> detect_scheme({"O", "B-NP", "I-NP"}, [["I-NP", "O", "I-NP", "B-NP"]])
    'iob1'
    """
    labels = set(labels)
    if not all(map(is_chunk_label, labels)):
        return None
    letters = {_parts(label)[0] for label in labels} - {"O"}
    if not letters or letters & set("[]"):
        return None
    if letters == {"I"}:
        return "io"
    if "S" in letters or letters >= {"B", "E"}:
        return _as_spelt(labels)
    strict, loose = ("iob2", "iob1") if "B" in letters else ("ioe2", "ioe1")
    if pairs is None and sentences is None:
        return strict
    counts: Counter[Pair] = Counter(pairs or {})
    for sentence in sentences or () if pairs is None else ():
        counts.update(zip([None, *sentence], [*sentence, None], strict=True))
    return min((strict, loose), key=lambda scheme: broken_pairs(counts, scheme))


def broken_pairs(pairs: Mapping[Pair, int], scheme: str) -> int:
    """How many of these pairs of neighbouring labels, with their numbers, a scheme that writes the
    labels forbids.

    >>> broken_pairs({(None, "I-X"): 2, ("I-X", "I-X"): 5}, "iob2")
    2
    """
    permitted = _Pairs(scheme)
    return sum(count for pair, count in pairs.items() if not permitted[pair])


def pairs_of_codes(
    labels: Sequence[str], codes: np.ndarray, offsets: np.ndarray
) -> dict[Pair, int]:
    """How often each label follows each other in label codes [T] cut at offsets; None is the edge
    of a sentence. Codes beyond the labels are unknown and do not count.

    >>> pairs_of_codes(["O", "B"], np.array([0, 1]), np.array([0, 2]))
    {('O', 'B'): 1, ('B', None): 1, (None, 'O'): 1}
    """
    outside = len(labels)
    cut, codes = np.unique(offsets)[1:-1], np.where(codes < outside, codes, -1)
    row = np.concatenate([[outside], np.insert(codes, cut, outside), [outside]]).astype(np.int64)
    known = (row[:-1] >= 0) & (row[1:] >= 0)
    pairs, counts = np.unique((row[:-1] * (outside + 1) + row[1:])[known], return_counts=True)
    names = [*labels, None]
    return {
        (names[c // (outside + 1)], names[c % (outside + 1)]): int(n)
        for c, n in zip(pairs, counts, strict=True)
    }


class _Windows(dict[tuple[str | None, str, str | None], str]):
    """The label that the target scheme writes for the middle of three labels, worked out once per
    window."""

    def __init__(self, source: str | None, target: str) -> None:
        self.source, self.target = source, target

    def __missing__(self, window: tuple[str | None, str, str | None]) -> str:
        left, label, right = window
        if self.source is not None:
            _checked_parts(label, self.source)
        elif not is_chunk_label(label):
            raise OptionError(
                f"scheme: label {label!r} is no chunk label, expected O or a letter of B I E S L U "
                "M with a type"
            )
        before, here, after = _parts(left), _parts(label), _parts(right)
        first, last = is_broken(before, here), is_broken(here, after)
        touched = [
            end and other[0] != "O" and other[1] == here[1]
            for end, other in ((first, before), (last, after))
        ]
        target = _SCHEMES[self.target]
        role = "O" if here[0] == "O" else target.write(first, last, *touched)
        self[window] = join_label(target.spelling.get(role, role), here[1])
        return self[window]


def convert(sentences: Iterable[Sequence[str]], source: str | None, target: str) -> list[list[str]]:
    """Rewrite labels from one scheme into another; with source None they may be any mixture, read
    as conlleval does.

    sentences : labels of each sentence
    source : the scheme of the labels, or None
    target : the scheme to write: iob1, iob2, ioe1, ioe2, bioes, bilou, bmes or io

    >>> convert([["I-NP", "B-NP", "O"]], "iob1", "bioes")
    [['S-NP', 'S-NP', 'O']]
    """
    written: Mapping[tuple[str | None, str, str | None], str]
    written = _Windows(check_scheme(source) if source is not None else None, check_scheme(target))
    return [
        [
            written[window]
            for window in zip([None, *sentence[:-1]], sentence, [*sentence[1:], None], strict=True)
        ]
        if sentence
        else []
        for sentence in sentences
    ]


def repair(sentences: Iterable[Sequence[str]], scheme: str) -> list[list[str]]:
    """Make labels valid in a scheme while keeping the chunks that conlleval reads in them.

    sentences : labels of each sentence
    scheme : the scheme to write

    >>> repair([["O", "I-NP", "I-PP"]], "iob2")
    [['O', 'B-NP', 'B-PP']]
    """
    return convert(sentences, None, scheme)


def convert_codes(
    values: Sequence[str], codes: np.ndarray, offsets: np.ndarray, source: str | None, target: str
) -> tuple[list[str], np.ndarray]:
    """Do what `convert` does to interned labels: codes [T] into values [V], sentences cut at
    offsets [N+1]."""
    written = _Windows(check_scheme(source) if source is not None else None, check_scheme(target))
    edge = len(values)
    starts = offsets[:-1][np.diff(offsets) > 0]
    left, right = np.full(len(codes), edge, np.int64), np.full(len(codes), edge, np.int64)
    left[1:], right[:-1] = codes[:-1], codes[1:]
    left[starts] = edge
    right[np.append(starts[1:], len(codes))[: len(starts)] - 1] = edge
    size = edge + 1
    windows, which = np.unique((left * size + codes) * size + right, return_inverse=True)
    names = [*values, None]
    labels = [
        written[names[window // size // size], values[window // size % size], names[window % size]]
        for window in windows.tolist()
    ]
    numbers: dict[str, int] = {}
    renumbered = np.array(
        [numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int32
    )
    return list(numbers), renumbered[which.reshape(-1)] if len(codes) else codes
