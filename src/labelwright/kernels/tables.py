"""Integer tables: rows of small integers get dense numbers, sparse incidences are transposed."""

import secrets
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import inlined_kernel, kernel
from labelwright.kernels.common import ranges

Array = NDArray[Any]

# A hash is a polynomial in a random base, modulo a prime: whoever writes a file does not know which
# of its values collide.  Kernels get the base as an argument, since compiled code outlives a
# process.
PRIME = (1 << 31) - 1
BASE = (1 << 28) + secrets.randbelow(1 << 28)


class Index(NamedTuple):
    """Tables of rows, one behind the other, and the slots in which each row is found by its
    hash."""

    cells: np.ndarray  # rows of all tables: row f of table i begins at cell_ptr[i] + f * width[i]
    cell_ptr: np.ndarray  # [tables+1]
    width: np.ndarray  # [tables]
    first: np.ndarray  # [tables+1]  number of the first row of each table
    slots: np.ndarray  # number of a row within its table, or -1
    slot_ptr: np.ndarray  # [tables+1]  each table has a power of two of slots
    base: int  # of the hashes


class Lines(NamedTuple):
    """Lines of a template: what their cells read, and the table of each line.

    First come the cells of lines with one cell, whose features are remembered with the value, then
    those of others."""

    table: np.ndarray  # [lines]  of lines with several cells, or none
    ptr: np.ndarray  # [lines+1]  their cells
    alone: np.ndarray  # [alone]  the tables of lines with one cell,
    # [marks+1, alone]  and their features at boundary marks, then none; [0, alone]: look them up
    outside: np.ndarray
    # [cells]  tokens from this one, or as Python counts in the sentence where `absolute`
    row: np.ndarray
    absolute: np.ndarray  # [cells]
    column: np.ndarray  # [cells]
    # [cells]  of the number, or of the line's feature, in what is remembered of a value
    place: np.ndarray
    marked: np.ndarray  # [cells]  does it read boundary marks?  Further parts of a value have none


@inlined_kernel
def hash_with(h, number, base):
    """The hash of what h is the hash of, followed by a number from 0 to below 2^31; no product
    leaves 63 bits."""
    p = (h + np.int64(number)) * np.int64(base)
    return (p & np.int64(PRIME)) + (p >> np.int64(31))


@inlined_kernel
def first_slot(h, mask):
    """Where the search for what has this hash begins; high bits count, too, since the low ones of
    sums are regular."""
    return (h ^ (h >> np.int64(15))) & mask


@kernel
def row_slot(slots, table, row, base):
    """Slot of `slots` that holds `row` of `table`, or the empty slot where it belongs."""
    mask = np.int64(slots.shape[0] - 1)
    h = np.int64(0)
    for i in range(row.shape[0]):
        h = hash_with(h, row[i], base)
    at = first_slot(h, mask)
    while True:
        f = slots[at]
        if f < 0:
            return at
        same = True
        for i in range(row.shape[0]):
            if table[f, i] != row[i]:
                same = False
                break
        if same:
            return at
        at = (at + 1) & mask


@kernel
def index_tables(index):
    """Enter every row of every table into its slots (all -1)."""
    for i in range(index.width.shape[0]):
        slots, n = (
            index.slots[index.slot_ptr[i] : index.slot_ptr[i + 1]],
            index.first[i + 1] - index.first[i],
        )
        table = index.cells[index.cell_ptr[i] : index.cell_ptr[i + 1]].reshape((n, index.width[i]))
        for f in range(n):
            slots[row_slot(slots, table, table[f], index.base)] = f


@kernel
def find_rows(slots, table, rows, ids, base):
    """ids[k] = the number of rows[k] in `table`, or -1; a row with a negative entry is in no
    table."""
    for k in range(rows.shape[0]):
        known = True
        for i in range(rows.shape[1]):
            if rows[k, i] < 0:
                known = False
        ids[k] = slots[row_slot(slots, table, rows[k], base)] if known else -1


@kernel
def find_features(entry, remembered, offsets, reach, lines, index, ptr, feature):
    """The features of each token, those of lines with one cell first, without unknown ones: those
    of token t are feature[ptr[t]:ptr[t+1]].  Returns how many there are.

    entry [columns, T]: where in `remembered` that begins which is known of each value.  ptr[0] is
    0."""
    # Tuples in a loop would cost reference counts.
    table, cell_ptr, single, outside, row, absolute, column, place, marked = lines
    first, slots, cells = index.first, index.slots, index.cells
    slot_begin, cell_begin, base = index.slot_ptr, index.cell_ptr, index.base
    n, read = 0, np.empty(row.shape[0], np.int64)
    for k in range(offsets.shape[0] - 1):
        a, b = offsets[k], offsets[k + 1]
        for t in range(a, b):
            for c in range(row.shape[0]):
                at = t + row[c]
                if absolute[c]:
                    at = row[c] + (a if row[c] >= 0 else b)
                if a <= at < b:
                    read[c] = remembered[np.int64(entry[column[c], at]) + place[c]]
                elif marked[c]:
                    read[c] = a - at - 1 if at < a else reach + at - b
                    if c < cell_ptr[0] and read[c] < outside.shape[0]:
                        read[c] = outside[read[c], c]
                    elif c < cell_ptr[0]:
                        j = single[c]
                        f = _row_number(
                            slots,
                            slot_begin[j],
                            slot_begin[j + 1],
                            cells,
                            cell_begin[j],
                            read,
                            c,
                            c + 1,
                            base,
                        )
                        read[c] = first[j] + f if f >= 0 else f
                else:
                    read[c] = -1
            for c in range(cell_ptr[0]):
                if read[c] >= 0:
                    feature[n] = read[c]
                    n += 1
            for i in range(table.shape[0]):
                j = table[i]
                a_cell, b_cell, begin, end = (
                    cell_ptr[i],
                    cell_ptr[i + 1],
                    slot_begin[j],
                    slot_begin[j + 1],
                )
                f = _row_number(slots, begin, end, cells, cell_begin[j], read, a_cell, b_cell, base)
                if f >= 0:
                    feature[n] = first[j] + f
                    n += 1
            ptr[t + 1] = n
    return n


@inlined_kernel
def _row_number(slots, slot_begin, slot_end, cells, cell_begin, read, a, b, base):
    """The number of the row read[a:b] in its table, or -1; a row with a negative entry is in no
    table.  (Arrays of where tables begin, in place of numbers, took twice the time.)"""
    h = np.int64(0)
    for i in range(a, b):
        if read[i] < 0:
            return np.int64(-1)
        h = hash_with(h, read[i], base)
    mask = slot_end - slot_begin - 1
    at = first_slot(h, mask)
    while True:
        f = np.int64(slots[slot_begin + at])
        if f < 0:
            return f
        cell, i = cell_begin + f * (b - a), a
        while i < b and cells[cell + i - a] == read[i]:
            i += 1
        if i == b:
            return f
        at = (at + 1) & mask


@kernel
def remember_features(index, table, place, remembered):
    """Fill the last columns of what is remembered of values [K, places + lines] with the features
    of lines with one cell: line i reads the number at place[i]."""
    slots, cells, first = index.slots, index.cells, index.first
    slot_begin, cell_begin = index.slot_ptr, index.cell_ptr
    read = np.empty(1, np.int64)
    behind = remembered.shape[1] - table.shape[0]
    for e in range(remembered.shape[0]):
        for i in range(table.shape[0]):
            j = table[i]
            read[0] = remembered[e, place[i]]
            f = _row_number(
                slots,
                slot_begin[j],
                slot_begin[j + 1],
                cells,
                cell_begin[j],
                read,
                0,
                1,
                index.base,
            )
            remembered[e, behind + i] = first[j] + f if f >= 0 else -1


@kernel
def invert(ptr, items, starts, owners, places):
    """Transpose owner -> items: the owners of item i are owners[starts[i]:starts[i+1]], in order,
    and `places` says where each entry was.  starts must be zeros [n_items + 1]."""
    for i in range(items.shape[0]):
        starts[items[i] + 1] += 1
    for i in range(1, starts.shape[0]):
        starts[i] += starts[i - 1]
    fill = starts[:-1].copy()
    for k in range(ptr.shape[0] - 1):
        for i in range(ptr[k], ptr[k + 1]):
            at = fill[items[i]]
            owners[at] = k
            places[at] = i
            fill[items[i]] = at + 1


@kernel
def distinct_items(ptr, owners, item_ptr, items, n_codes, out_ptr, out):
    """For each k the sorted distinct items (negative ones aside) of all its owners:
    out[out_ptr[k]:out_ptr[k+1]]."""
    stamp = np.full(n_codes, -1, np.int32)
    n = 0
    for k in range(ptr.shape[0] - 1):
        begin = n
        for i in range(ptr[k], ptr[k + 1]):
            for j in range(item_ptr[owners[i]], item_ptr[owners[i] + 1]):
                c = items[j]
                if c >= 0 and stamp[c] != k:
                    stamp[c] = k
                    at = n
                    if n - begin < 32:  # insertion keeps short lists sorted
                        while at > begin and out[at - 1] > c:
                            out[at] = out[at - 1]
                            at -= 1
                    out[at] = c
                    n += 1
        if n - begin > 32:  # long ones are read from the stamps
            n = begin
            for c in range(n_codes):
                if stamp[c] == k:
                    out[n] = c
                    n += 1
        out_ptr[k + 1] = n
    return n


# -- in NumPy alone: they run once -----------------------------------------------------------------


def sorted_order(items: Array, limit: int) -> Array:
    """The places of items (from 0 to below `limit`) in rising order; equal ones stay in order.

    Sorting numbers is several times as fast as sorting their places: an item and its place make one
    number."""
    bits = max(1, len(items) - 1).bit_length()
    if int(limit).bit_length() + bits > 63:
        return np.argsort(items, kind="stable")
    packed = (items.astype(np.int64) << bits) | np.arange(len(items))
    packed.sort()
    return packed & ((1 << bits) - 1)


def _row_keys(rows: Array) -> tuple[Array, int]:
    """A number for each row [K, n], equal for equal rows, and a limit of these numbers."""
    keys, limit = np.zeros(len(rows), np.int64), 1
    for column in rows.T:
        least = int(column.min(initial=0))
        size = int(column.max(initial=0)) - least + 1
        if limit * size > 1 << 40:  # leaves room for the places of the rows
            order = sorted_order(keys, limit)
            fresh = np.empty(len(order), np.bool_)
            fresh[:1], fresh[1:] = False, keys[order[1:]] != keys[order[:-1]]
            keys[order] = np.cumsum(fresh)
            limit = len(rows)
        keys = keys * size + (column.astype(np.int64) - least)
        limit *= size
    return keys, limit


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
        order = sorted_order(keys, limit)
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


def move_features(
    keys: Array, number: Array, key_ptr: Array, key_feature: Array, token_ptr: Array,
    token_feature: Array, token_value: Array, new_keys: Array, ptr: Array, feature: Array,
    value: Array,
) -> None:  # fmt: skip
    """Move the features of keys k with number[k] < 0 to their tokens: feature[ptr[t]:ptr[t+1]] has
    those of the keys, then those of the token itself (whose values go to `value`, if any); other
    keys go to new_keys [T, G] by their number."""
    kept = number[keys] >= 0
    token, _ = np.nonzero(kept)
    new_keys[token, (np.cumsum(kept, axis=1) - 1)[kept]] = number[keys[kept]]
    sizes = np.where(kept, 0, np.diff(key_ptr)[keys])
    after = np.cumsum(sizes, axis=1)
    moved, begin = ~kept, ptr[:-1, None] + after - sizes
    feature[ranges(begin[moved], sizes[moved])] = key_feature[
        ranges(key_ptr[keys[moved]], sizes[moved])
    ]
    own = ranges(ptr[:-1] + sizes.sum(axis=1), np.diff(token_ptr))
    feature[own] = token_feature
    if len(value):
        value[own] = token_value


# -- template lines that read the labels of the layer below, in NumPy alone ------------------------
# One feature for every candidate, or pair of candidates; all tokens at once: cascades look their
# features up once.


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
