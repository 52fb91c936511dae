"""Integer codes of what templates read: rows of them get dense numbers, columns of them are shifted
within sentences."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def intern_rows(rows: Array) -> tuple[Array, Array]:
    """Number the distinct rows [K, n] by first appearance: those of all rows [K], and where each
    was first."""
    keys, limit = _row_keys(rows)
    place = np.arange(len(rows))
    if limit <= 8 * len(rows):
        first_of = np.empty(limit, np.int64)
        first_of[keys[::-1]] = place[::-1]
        first = first_of[keys]
    else:
        order = _sorted_order(keys, limit)
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = keys[order[1:]] != keys[order[:-1]]
        first = np.empty(len(order), np.int64)
        first[order] = order[fresh][np.cumsum(fresh) - 1]
    is_first = first == place
    return (np.cumsum(is_first, dtype=np.int32) - np.int32(1))[first], np.flatnonzero(
        is_first
    ).astype(np.int32)


def shift_codes(
    codes: Array, offsets: Array, row: int, absolute: bool, n_values: int, reach: int, out: Array
) -> None:
    """out[t] = the code `row` tokens away in the same sentence, or a boundary code: n_values + d -
    1 for d tokens before the first, n_values + reach + d - 1 for d tokens after the last.  An
    absolute row counts from the first token (0, 1, ...) or, when negative, from the last (-1, -2,
    ...)."""
    lengths = np.diff(offsets)
    begin, end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
    if absolute:
        at = begin + row if row >= 0 else end + row
    else:
        at = np.arange(offsets[0], offsets[-1]) + row
    before, after = at < begin, at >= end
    read = codes[np.clip(at, begin, end - 1)]
    read[before] = n_values + (begin - at - 1)[before]
    read[after] = n_values + reach + (at - end)[after]
    out[offsets[0] : offsets[-1]] = read


def _row_keys(rows: Array) -> tuple[Array, int]:
    """A number for each row [K, n], equal for equal rows, and a limit of these numbers."""
    keys, limit = np.zeros(len(rows), np.int64), 1
    for column in rows.T:
        least = int(column.min(initial=0))
        size = int(column.max(initial=0)) - least + 1
        if limit * size > 1 << 40:  # leaves room for the places of the rows
            order = _sorted_order(keys, limit)
            fresh = np.empty(len(order), np.bool_)
            fresh[:1], fresh[1:] = False, keys[order[1:]] != keys[order[:-1]]
            keys[order] = np.cumsum(fresh)
            limit = len(rows)
        keys = keys * size + (column.astype(np.int64) - least)
        limit *= size
    return keys, limit


def _sorted_order(items: Array, limit: int) -> Array:
    """The places of items (from 0 to below `limit`) in rising order; equal ones stay in order.

    Sorting numbers is several times as fast as sorting their places: an item and its place make one
    number."""
    bits = max(1, len(items) - 1).bit_length()
    if int(limit).bit_length() + bits > 63:
        return np.argsort(items, kind="stable")
    packed = (items.astype(np.int64) << bits) | np.arange(len(items))
    packed.sort()
    return packed & ((1 << bits) - 1)
