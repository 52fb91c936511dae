"""Labels that are known in part: in Python None or a set of labels, in files `_` or labels
separated by `|`."""

import re
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.labels import check_labels, check_types
from labelwright.errors import CorpusError, OptionError

Array = NDArray[Any]
# what a set of labels may be in Python; a tuple is labels of several columns
SET_TYPES = frozenset, set, list
UNKNOWN = "_"
BAR = "|"
FEATURE = re.compile("[^=|]+=[^=|]+")  # of morphology, as in Case=Nom
CHUNK = re.compile("[BIESLU]-.+|O")


class LabelCodes(NamedTuple):
    """Labels, the code of each token, and the sets of labels that codes from len(labels) on stand
    for."""

    labels: list[Any]
    codes: Array  # [T]
    sets: Array  # [K, L]


def one_of(value: Any) -> frozenset[Any] | None:
    """The labels of which a value says that one is right; None where it is a label, an empty set
    where it is unknown.

    A text with `=` is one label: morphological features are written Case=Nom|Number=Sing.

    >>> one_of("_"), sorted(one_of("B-PER|I-PER"))
    (frozenset(), ['B-PER', 'I-PER'])
    >>> one_of("Case=Nom|Number=Sing"), sorted(one_of({"N", "V"}))
    (None, ['N', 'V'])
    """
    if is_set(value):
        return frozenset(value)
    if value is None or value == UNKNOWN:
        return frozenset()
    if isinstance(value, str) and BAR in value and "=" not in value:
        parts = value.split(BAR)
        return frozenset(parts) if all(parts) else None
    return None


def is_set(value: Any) -> bool:
    """Is it a set of labels in Python?"""
    return isinstance(value, SET_TYPES)


def is_partial(value: Any) -> bool:
    """Does it leave the label open in Python: None, or a set of labels?"""
    return value is None or is_set(value)


def meanings(labels: Iterable[Any]) -> dict[Any, frozenset[Any] | None]:
    """What `sets_among` says of each of these labels; sets in Python are left out."""
    distinct = list(dict.fromkeys(label for label in labels if not is_set(label)))
    return dict(zip(distinct, sets_among(distinct), strict=True))


def sets_among(values: Sequence[Any], known: Collection[Any] = ()) -> list[frozenset[Any] | None]:
    """What `one_of` says of each of the distinct values of a column.

    A text with bars is a set where each of its parts is a chunk label (B-PER|I-PER) or a label of
    the column, too: NN|ly is a label. Beside Case=Nom, `_` is a label: no features.

    known : further labels, as those of a model

    >>> sets_among(["_", "N"]), sets_among(["_", "Case=Nom"])
    ([frozenset(), None], [None, None])
    >>> sets_among(["NN|ly", "NN"]), sets_among(["N|V", "N", "V"])[1:]
    ([None, None], [None, None])
    >>> sets_among(["_", "N|V"], known=["_", "N|V", "N", "V"])
    [None, None]
    """
    members = {value: None if value in known else one_of(value) for value in values}
    alone = {value for value, found in members.items() if found is None}.union(known)
    has_features = any(isinstance(value, str) and FEATURE.match(value) for value in alone)
    for value, found in members.items():
        if isinstance(value, str) and found is not None:
            is_label = (
                has_features
                if value == UNKNOWN
                else not all(x in alone or CHUNK.fullmatch(x) for x in found)
            )
            members[value] = None if is_label else found
    return [members[value] for value in values]


def broken_sets(values: Sequence[Any], known: Collection[Any] = ()) -> list[str]:
    """Texts that are neither labels nor sets of labels: a part between bars is missing or unknown.

    values : the distinct values of a column
    known : further labels, as those of a model

    >>> broken_sets(["N", "V", "N||V", "|", "N|_", "x||", "N|V"])
    ['N||V', '|', 'N|_']
    """
    labels = {value for value in values if isinstance(value, str) and BAR not in value}.union(known)

    def broken(value: str) -> bool:
        parts = value.split(BAR)
        named = [part for part in parts if part not in ("", UNKNOWN)]
        return len(named) < len(parts) and all(
            part in labels or CHUNK.fullmatch(part) for part in named
        )

    return [
        v
        for v in values
        if isinstance(v, str) and BAR in v and "=" not in v and v not in known and broken(v)
    ]


NO_SET = "is neither a label nor a set of labels; write a set as A|B, an unknown label as _"


def check_known(sentences: Iterable[Sequence[Any]], source: str) -> None:
    """Refuse labels of which some are unknown or one of several; what is no list of labels is
    refused elsewhere.

    sentences : labels of each sentence
    source : what the error begins with
    """
    sentences = list(sentences)
    if any(isinstance(sentence, str) or not hasattr(sentence, "__len__") for sentence in sentences):
        return
    flat = [label for sentence in sentences for label in sentence if isinstance(label, Hashable)]
    left_open = {value for value, found in meanings(flat).items() if found is not None}
    if not left_open and not any(map(is_set, flat)) and len(flat) == sum(map(len, sentences)):
        return
    for n, sentence in enumerate(sentences):
        for t, label in enumerate(sentence):
            if is_set(label) or (isinstance(label, Hashable) and label in left_open):
                what = f"one of {written(label)}" if one_of(label) else f"unknown ({label})"
                raise CorpusError(
                    f"{source}: sentence {n}, token {t}: the label is {what}; label it, or leave "
                    "the sentence out"
                )


def known_labels(labels: Sequence[Any]) -> list[Any]:
    """The labels of tokens [T], None where several are possible.

    >>> known_labels(["N", "_", {"N", "V"}])
    ['N', None, None]
    """
    members = meanings(labels)
    return [None if is_set(label) or members[label] is not None else label for label in labels]


def left_open(sentences: Sequence[Sequence[Any]], labels: Sequence[Any] = ()) -> list[list[Any]]:
    """The labels of sentences; None where one is unknown, and a set where one of several is right.

    sentences : labels of each sentence, as Python or files have them
    labels : further labels, as those of a model

    >>> left_open([["N", "_"], ["V", "N|V"]]) == [["N", None], ["V", {"N", "V"}]]
    True
    >>> left_open([["_", "N|V"]], ["_", "N", "V"]) == [["_", {"N", "V"}]]
    True
    """
    try:
        members = meanings([*chain.from_iterable(sentences), *labels]) | dict.fromkeys(labels)
    except TypeError:  # no list, or what cannot be a label
        raise CorpusError(
            "y: expected a list of labels for each sentence, each a string, None or a set"
        ) from None

    def meant(label: Any) -> Any:
        several = frozenset(label) if is_set(label) else members[label]
        single = _single(label, several)
        return single[0] if single else several or None

    return [[meant(label) for label in sentence] for sentence in sentences]


class Known(NamedTuple):
    """How many tokens have a label, how many a set of labels, and of how many it is unknown."""

    labels: int
    sets: int
    unknown: int


def how_many_known(values: Sequence[Any], codes: Array) -> Known:
    """How much is known of the labels of tokens, codes [T] into values [V].

    >>> how_many_known(["N", "_", "V|X", "V", "X"], np.array([0, 0, 1, 2]))
    Known(labels=2, sets=1, unknown=1)
    """
    members = sets_among(values)
    every = {
        label
        for value, found in zip(values, members, strict=True)
        for label in found or _single(value, found)
    }
    kinds = [
        0 if _single(v, found) else 1 if found and found != every else 2
        for v, found in zip(values, members, strict=True)
    ]
    return Known(*np.bincount(np.array(kinds, np.int64)[codes], minlength=3).tolist())


def written(value: Any) -> Any:
    """A label, or a set of labels as files have it."""
    members = one_of(value)
    return value if members is None else BAR.join(sorted(map(str, members))) or UNKNOWN


def check_complete(kind: str, labels: Sequence[Any], sets: Array) -> None:
    """Refuse labels that are known in part, sets [K, L], for a tagger that cannot learn from
    them."""
    if not len(sets):
        return
    if sets[0].all():
        raise OptionError(
            f"y: a {kind} learns from complete labels, got an unknown one (`_` or None); use a CRF"
        )
    members = written(
        {label for label, is_member in zip(labels, sets[0], strict=True) if is_member}
    )
    raise OptionError(
        f"y: a {kind} learns from complete labels, got {members}, one of several labels; use a CRF "
        "or, where that is a label, write it without |"
    )


def _single(value: Any, members: frozenset[Any] | None) -> list[Any]:
    """The label that a value stands for; nothing where it leaves several open."""
    if members is None:
        return [value]
    return list(members) if len(members) == 1 else []


def label_codes(
    values: Sequence[Any], codes: Array, source: str = "y", known: Sequence[Any] = ()
) -> LabelCodes:
    """The labels among distinct values, and codes [T] of these values as codes of labels and of
    sets of labels.

    known : the labels of a model, which come first; an unknown label may be any of them, too"""
    check_labels(values, codes, None, source)
    for value in broken_sets(values, known):
        raise CorpusError(f"{source}: {value!r} {NO_SET}")
    members = sets_among(values, frozenset(known))
    if not known and all(found is None for found in members):
        return LabelCodes(list(values), codes, np.empty((0, len(values)), np.bool_))
    alone = [_single(value, found) for value, found in zip(values, members, strict=True)]
    check_types(known, [label for single in alone for label in single], source)
    labels = list(dict.fromkeys([*known, *(label for single in alone for label in single)]))
    labels += sorted(
        {label for found in members if found for label in found} - set(labels), key=str
    )
    if not labels:
        raise CorpusError(f"{source}: no token has a label; label some of them")
    number = {label: code for code, label in enumerate(labels)}
    sets: dict[frozenset[Any], int] = {}
    new = np.empty(len(values), np.int32)
    for old, (single, found) in enumerate(zip(alone, members, strict=True)):
        several = found or frozenset(labels)
        new[old] = (
            number[single[0]] if single else len(labels) + sets.setdefault(several, len(sets))
        )
    table = np.zeros((len(sets), len(labels)), np.bool_)
    for several, row in sets.items():
        table[row, [number[label] for label in several]] = True
    return LabelCodes(labels, new[codes], table)
