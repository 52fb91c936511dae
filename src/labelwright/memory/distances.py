"""Distances of values: overlap, the difference of their class distributions, or the difference of numbers.

Values with equal class distributions share a code for the metrics that compare distributions: their distance is 0.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import CorpusError
from labelwright.kernels.values import JEFFREY, MVDM, NUMERIC, OVERLAP, SHANNON, Distances, fill_pairs
from labelwright.memory.trie import entries_of
from labelwright.memory.weights import Contingency

Array = NDArray[Any]
METRICS = {"overlap": OVERLAP, "mvdm": MVDM, "jeffrey": JEFFREY, "jensen-shannon": SHANNON, "numeric": NUMERIC}
COMPARED = MVDM, JEFFREY, SHANNON  # these compare class distributions
LEAST_SHARE = 1e-300  # of a class that a value has: quotients of two shares are finite
NARROW = 256  # columns of up to so many codes have a table of all pairs,
PAIRS = 4  # if it has at most so many pairs per row


class ColumnCodes(NamedTuple):
    """One column as the search reads it."""

    kind: int
    code_of: Array  # [V] int32  the code of each value
    n_codes: int
    ptr: Array  # [codes+1] int64  P(class | code), in the order of classes
    classes: Array  # int32
    share: Array  # float64
    rare: Array  # [codes] bool
    number: Array  # [codes] float64
    width: float


def column(metric: str, values: list[Any], counts: Contingency, threshold: int, place: str) -> ColumnCodes:
    """The codes of a column's values, and what their distances are computed from."""
    kind, n = METRICS[metric], len(values)
    code_of, none = np.arange(n, dtype=np.int32), np.zeros(n)
    ptr, classes, share = np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0)
    if metric == "numeric":
        number = numbers_of(values, place)
        width = float(number.max() / 2 - number.min() / 2) * 2  # of any two numbers
        if not np.isfinite(width):
            raise CorpusError(f"{place}: expected a finite range of numbers, got {values[0]!r:.40} and others")
        return ColumnCodes(kind, code_of, n, ptr, classes, share, np.zeros(n, np.bool_), number, width)
    if metric == "overlap":
        return ColumnCodes(kind, code_of, n, ptr, classes, share, np.zeros(n, np.bool_), none, 0.0)
    rare = counts.values < threshold
    bounds = np.searchsorted(counts.value, np.arange(n + 1))
    shares = np.maximum(counts.often / counts.values[counts.value], LEAST_SHARE)
    code_of_key: dict[tuple[int, bytes, bytes], int] = {}
    keep: list[int] = []
    for v, (a, b) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        alone = v if rare[v] else -1
        key = (alone, counts.cls[a:b].tobytes(), shares[a:b].tobytes())
        code = code_of_key.setdefault(key, len(code_of_key))
        if code == len(keep):
            keep.append(v)
        code_of[v] = code
    kept = np.array(keep, np.int64)
    ptr, places = entries_of(bounds, kept)
    classes, share = counts.cls[places].astype(np.int32), shares[places]
    return ColumnCodes(kind, code_of, len(kept), ptr, classes, share, rare[kept], np.zeros(len(kept)), 0.0)


def numbers_of(values: list[Any], place: str) -> Array:
    """Values as numbers."""
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            numbers[i] = float(value)
        except (TypeError, ValueError):
            raise CorpusError(f"{place}: expected numbers, got {value!r:.40}; use another metric for it") from None
        if not np.isfinite(numbers[i]):
            got = "NaN" if np.isnan(numbers[i]) else repr(value)
            raise CorpusError(f"{place}: expected finite numbers, got {got:.40}")
    return numbers


def distances(columns: list[ColumnCodes], weights: Array, fixed: Array, n_classes: int, n_rows: int) -> Distances:
    """The distances of all columns, in the order of the search, for the kernels; `fixed` is the order of sums."""
    F, largest = len(columns), float(np.max(weights))
    widest = min(NARROW, int((PAIRS * n_rows) ** 0.5))
    first = offsets_from([c.n_codes for c in columns])
    sizes = np.concatenate([np.diff(c.ptr) for c in columns])
    ptr = offsets_from(sizes)
    classes = np.concatenate([c.classes for c in columns]).astype(np.int32)
    share = np.concatenate([c.share for c in columns]).astype(np.float64)
    owner = np.repeat(np.arange(F), [len(c.classes) for c in columns])
    code = np.repeat(np.concatenate([np.arange(c.n_codes) for c in columns]), sizes)
    cell = owner * n_classes + classes
    order = np.argsort(cell, kind="stable")
    turned_ptr = np.searchsorted(cell[order], np.arange(F * n_classes + 1)).astype(np.int64)
    narrow = [c.kind in COMPARED and c.n_codes <= widest for c in columns]
    sizes = np.array([c.n_codes**2 if small else 0 for c, small in zip(columns, narrow, strict=True)])
    bases = offsets_from(sizes)
    pairs = np.empty(int(bases[-1]))
    made = Distances(
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
        fill_pairs(made, i, pairs[bases[i] : bases[i + 1]].reshape(n, n))
    return made
