"""The features of one encoded sentence, one by one, and copies of the sentence that each lack one of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.features.incidence import NO_VALUES, Encoded, Incidence, on_tokens

Array = NDArray[Any]


class Occurrences(NamedTuple):
    """All features of one kind that a sentence has, row by row (rows are tokens or, of segments, candidates)."""

    ptr: Array  # [rows+1]
    row: Array  # [n]
    feature: Array  # [n]
    value: Array  # [n] float64
    valued: bool  # False: all values are one


def occurrences(data: Encoded) -> dict[str, Occurrences]:
    """The features of a sentence by kind: state, edge, triple, segment."""
    return {kind: _listed(incidence) for kind, incidence in data.incidences.items()}


def _listed(incidence: Incidence) -> Occurrences:
    """The features of keys and of the rows themselves, together."""
    keys, key_ptr, key_feature, ptr, feature, value = incidence
    valued = len(value) > 0
    features, values, sizes = [], [], []
    for row in range(len(keys)):
        parts = [key_feature[key_ptr[k] : key_ptr[k + 1]] for k in keys[row].tolist() if k >= 0]
        mine = slice(int(ptr[row]), int(ptr[row + 1]))
        size = sum(map(len, parts))
        features += [*parts, feature[mine]]
        values += [np.ones(size), value[mine] if valued else np.ones(mine.stop - mine.start)]
        sizes.append(size + mine.stop - mine.start)
    together = np.concatenate([np.empty(0, np.int32), *features])
    all_values = np.concatenate([np.empty(0), *values]).astype(np.float64)
    return Occurrences(offsets_from(sizes), np.repeat(np.arange(len(keys)), sizes), together, all_values, valued)


def copies(data: Encoded, n: int) -> Encoded:
    """One sentence n times."""
    return without(data, occurrences(data), [None] * n)


def without(data: Encoded, listed: dict[str, Occurrences], removed: Sequence[tuple[str, int] | None]) -> Encoded:
    """One sentence as often as there are entries in `removed`, each without this occurrence (its kind and place)."""
    n, length = len(removed), int(data.offsets[-1])
    incidences = {}
    for kind, found in listed.items():
        kept = np.ones((n, len(found.feature)), np.bool_)
        for k, which in enumerate(removed):
            if which is not None and which[0] == kind:
                kept[k, which[1]] = False
        sizes = np.tile(np.diff(found.ptr), (n, 1))
        copy, place = np.nonzero(~kept)
        np.subtract.at(sizes, (copy, found.row[place]), 1)
        flat = kept.reshape(-1)
        value = np.tile(found.value, n)[flat].astype(np.float32) if found.valued else NO_VALUES
        incidences[kind] = on_tokens(offsets_from(sizes.reshape(-1)), np.tile(found.feature, n)[flat], value)
    return Encoded(incidences, np.arange(n + 1, dtype=np.int64) * length, data.owner)
