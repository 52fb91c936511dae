"""Distances of values: overlap, or how differently values go with the classes, or the difference of numbers.

Values that go with the classes alike are one code for the metrics that compare distributions: their distance is 0.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import CorpusError
from labelwright.kernels.neighbours import JEFFREY, MVDM, NUMERIC, OVERLAP, SHANNON, Distances, fill_pairs
from labelwright.memory.trie import entries_of
from labelwright.memory.weights import Counts

Array = NDArray[Any]
METRICS = {"overlap": OVERLAP, "mvdm": MVDM, "jeffrey": JEFFREY, "jensen-shannon": SHANNON, "numeric": NUMERIC}
COMPARED = MVDM, JEFFREY, SHANNON  # by their classes
NARROW = 256  # codes of a column all pairs of which are measured once, where these are few beside the rows:
PAIRS = 4  # so many a row at most


class Column(NamedTuple):
    """What the search knows of one column."""

    kind: int
    code_of: Array  # [V] int32  the code of each value
    n_codes: int
    ptr: Array  # [codes+1] int64  P(class | code), in the order of classes
    classes: Array  # int32
    share: Array  # float64
    rare: Array  # [codes] bool
    number: Array  # [codes] float64
    width: float


def column(metric: str, values: list[Any], counts: Counts, threshold: int, place: str) -> Column:
    """The codes of a column's values, and what their distances are made of."""
    kind, n = METRICS[metric], len(values)
    code_of, none = np.arange(n, dtype=np.int32), np.zeros(n)
    ptr, classes, share = np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0)
    if metric == "numeric":
        number = numbers_of(values, place)
        width = float(number.max() / 2 - number.min() / 2) * 2  # of any two numbers
        if not np.isfinite(width):
            raise CorpusError(
                f"{place}: expected numbers that lie nearer to each other, got {values[0]!r:.40} and others"
            )
        return Column(kind, code_of, n, ptr, classes, share, np.zeros(n, np.bool_), number, width)
    if metric == "overlap":
        return Column(kind, code_of, n, ptr, classes, share, np.zeros(n, np.bool_), none, 0.0)
    rare = counts.values < threshold
    bounds = np.searchsorted(counts.value, np.arange(n + 1))
    shares = counts.often / counts.values[counts.value]
    found: dict[tuple[int, bytes, bytes], int] = {}
    keep: list[int] = []
    for v, (a, b) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        own = v if rare[v] else -1
        key = (own, counts.cls[a:b].tobytes(), shares[a:b].tobytes())
        code = found.setdefault(key, len(found))
        if code == len(keep):
            keep.append(v)
        code_of[v] = code
    kept = np.array(keep, np.int64)
    ptr, places = entries_of(bounds, kept)
    classes, share = counts.cls[places].astype(np.int32), shares[places]
    return Column(kind, code_of, len(kept), ptr, classes, share, rare[kept], np.zeros(len(kept)), 0.0)


def numbers_of(values: list[Any], place: str) -> Array:
    """Values as numbers."""
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            numbers[i] = float(value)
        except (TypeError, ValueError):
            raise CorpusError(f"{place}: expected numbers, got {value!r:.40}; use another metric for it") from None
        if not np.isfinite(numbers[i]):
            raise CorpusError(f"{place}: expected finite numbers, got {value!r:.40}")
    return numbers


def distances(columns: list[Column], weights: Array, fixed: Array, n_classes: int, n_rows: int) -> Distances:
    """Put columns, in the order of the search, together for the kernels; `fixed` is the order of their sums."""
    F, largest = len(columns), float(np.max(weights))
    widest = min(NARROW, int((PAIRS * n_rows) ** 0.5))
    first = np.concatenate([[0], np.cumsum([c.n_codes for c in columns])]).astype(np.int64)
    sizes = np.concatenate([np.diff(c.ptr) for c in columns])
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    classes = np.concatenate([c.classes for c in columns]).astype(np.int32)
    share = np.concatenate([c.share for c in columns]).astype(np.float64)
    owner = np.repeat(np.arange(F), [len(c.classes) for c in columns])
    code = np.repeat(np.concatenate([np.arange(c.n_codes) for c in columns]), sizes)
    cell = owner * n_classes + classes
    order = np.argsort(cell, kind="stable")
    turned_ptr = np.searchsorted(cell[order], np.arange(F * n_classes + 1)).astype(np.int64)
    narrow = [c.kind in COMPARED and c.n_codes <= widest for c in columns]
    sizes = np.array([c.n_codes**2 if small else 0 for c, small in zip(columns, narrow, strict=True)])
    bases = np.concatenate([[0], np.cumsum(sizes)])
    pairs = np.empty(int(bases[-1]))
    found = Distances(
        kind=np.array([c.kind for c in columns], np.int64),
        weight=np.asarray(weights, np.float64),
        scaled=weights * 2.0 ** -np.floor(np.log2(largest)) if largest > 0 else np.zeros(F),
        first=first,
        fixed=np.asarray(fixed, np.int64),
        ptr=ptr,
        classes=classes,
        share=share,
        turned_ptr=turned_ptr,
        turned_code=code[order].astype(np.int32),
        turned_share=share[order],
        rare=np.concatenate([c.rare for c in columns]),
        number=np.concatenate([c.number for c in columns]),
        width=np.array([c.width for c in columns]),
        pairs=pairs,
        pair_base=np.where(narrow, bases[:-1], -1),
    )
    for i in np.flatnonzero(narrow):
        n = columns[i].n_codes
        fill_pairs(found, i, pairs[bases[i] : bases[i + 1]].reshape(n, n))
    return found
