"""Labels that are known in part: in Python None or a set of labels, in files `_` or labels separated by `|`."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import CorpusError

Array = NDArray[Any]
UNKNOWN = "_"
BAR = "|"


class LabelCodes(NamedTuple):
    """Labels, the code of each token, and the sets of labels that codes from len(labels) on stand for."""

    labels: list[Any]
    codes: Array  # [T]
    sets: Array  # [K, L]


def one_of(value: Any) -> frozenset[Any] | None:
    """The labels of which a value says that one is right; None where it is a label, an empty set where it is unknown.

    A text with `=` is one label: morphological features are written Case=Nom|Number=Sing.

    >>> one_of("_"), sorted(one_of("B-PER|I-PER")), one_of("Case=Nom|Number=Sing"), sorted(one_of({"N", "V"}))
    (frozenset(), ['B-PER', 'I-PER'], None, ['N', 'V'])
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
    return isinstance(value, frozenset | set | list)


def is_partial(values: Iterable[Any]) -> bool:
    """Do some of these leave several labels open?"""
    return any(one_of(value) is not None for value in values)


def written(value: Any) -> Any:
    """A label, or a set of labels as files have it."""
    members = one_of(value)
    if members is None:
        return value
    return BAR.join(sorted(map(str, members))) or UNKNOWN


def _single(value: Any, members: frozenset[Any] | None) -> list[Any]:
    """The label that a value stands for; nothing where it leaves several open."""
    if members is None:
        return [value]
    return list(members) if len(members) == 1 else []


def label_codes(values: Sequence[Any], codes: Array, source: str = "y") -> LabelCodes:
    """The labels among distinct values, and codes [T] of these values as codes of labels and of sets of labels."""
    members = [one_of(value) for value in values]
    if all(found is None for found in members):
        return LabelCodes(list(values), codes, np.empty((0, len(values)), np.bool_))
    alone = [_single(value, found) for value, found in zip(values, members, strict=True)]
    labels = list(dict.fromkeys(label for single in alone for label in single))
    labels += sorted({label for found in members if found for label in found} - set(labels), key=str)
    if not labels:
        raise CorpusError(f"{source}: no token has a label; label some of them")
    number = {label: code for code, label in enumerate(labels)}
    sets: dict[frozenset[Any], int] = {}
    new = np.empty(len(values), np.int32)
    for old, (single, found) in enumerate(zip(alone, members, strict=True)):
        several = found or frozenset(labels)
        new[old] = number[single[0]] if single else len(labels) + sets.setdefault(several, len(sets))
    table = np.zeros((len(sets), len(labels)), np.bool_)
    for several, row in sets.items():
        table[row, [number[label] for label in several]] = True
    return LabelCodes(labels, new[codes], table)
