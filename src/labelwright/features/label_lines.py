"""Template lines that read the labels of the layer below: one feature for every candidate, or pair
of candidates.

In NumPy, all tokens at once: cascades look their features up once.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import ranges

Array = NDArray[Any]


class _Cells(NamedTuple):
    """What a cell reads at each token [T]."""

    mark: Array  # number of the boundary mark, or -1
    first: Array  # first slot
    size: Array  # number of slots


def _cells(offsets: Array, ptr: Array, row: int, reach: int) -> _Cells:
    lengths = np.diff(offsets)
    begin, end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
    at = np.arange(offsets[0], offsets[-1]) + row
    mark = np.where(at < begin, begin - at - 1, np.where(at >= end, reach + at - end, -1))
    inside = mark < 0
    at = np.where(inside, at, 0)
    return _Cells(mark, np.where(inside, ptr[at], 0), np.where(inside, ptr[at + 1] - ptr[at], 1))


def count_alternatives(
    offsets: Array, ptr: Array, row: int, pair: bool, reach: int, sizes: Array
) -> None:
    """sizes[t] = how many features a line has at token t that reads the labels at `row` (and, if
    `pair`, the next)."""
    size = _cells(offsets, ptr, row, reach).size
    sizes[:] = size * _cells(offsets, ptr, row + 1, reach).size if pair else size


def alternatives(
    offsets: Array, ptr: Array, pair_ptr: Array, number: Array, row: int, pair: bool, reach: int,
    first: Array, second: Array, slot: Array,
) -> None:  # fmt: skip
    """Token by token: the numbers of the labels read (marks first, then labels) and the slot that
    weights the feature; -1 where both cells lie outside the sentence.  number [n] is that of the
    label in each slot, -1: unknown."""
    here = _cells(offsets, ptr, row, reach)
    after = _cells(offsets, ptr, row + 1, reach) if pair else here
    sizes = here.size * after.size if pair else here.size
    turn = ranges(np.zeros(len(sizes), np.int64), sizes)
    j, k = np.divmod(turn, np.repeat(after.size, sizes)) if pair else (turn, turn)
    labels = np.append(number, -1)  # so that there is one to read outside

    def read(cells: _Cells, place: Array, out: Array) -> Array:
        """Fill the numbers read; the slots, or -1 outside."""
        mark = np.repeat(cells.mark, sizes)
        at = np.where(mark < 0, np.repeat(cells.first, sizes) + place, -1)
        out[:] = np.where(mark < 0, labels[at], mark)
        return at

    slot[:] = read(here, j, first)
    if pair:
        next_slot = read(after, k, second)
        both = np.flatnonzero((slot >= 0) & (next_slot >= 0))
        of_pairs = np.repeat(
            pair_ptr[np.clip(np.arange(offsets[0], offsets[-1]) + row + 1, 0, len(pair_ptr) - 1)],
            sizes,
        )
        slot[:] = np.where(slot < 0, next_slot, slot)
        slot[both] = of_pairs[both] + turn[both]


def merge_features(
    base_ptr: Array, base_feature: Array, ptr: Array, feature: Array, slot: Array, constant: int,
    out_ptr: Array, out_feature: Array, out_slot: Array,
) -> None:  # fmt: skip
    """The features of each token itself, then those that the layer below gives it; the former have
    the slots `constant`, `constant` + 1, ..., or -1 where that is negative."""
    known = feature >= 0
    n_known = np.diff(np.concatenate([[0], np.cumsum(known)])[ptr])
    n_base = np.diff(base_ptr)
    np.cumsum(n_base + n_known, out=out_ptr[1:])
    base, above = ranges(out_ptr[:-1], n_base), ranges(out_ptr[:-1] + n_base, n_known)
    out_feature[base], out_feature[above] = base_feature, feature[known]
    out_slot[base], out_slot[above] = (
        constant + np.arange(len(base)) if constant >= 0 else -1,
        slot[known],
    )
