"""Integer tables in NumPy: rows are numbered by sorting, and looked up by probing for all of them
at once. With it one sentence takes a CRF 3.2 times as long as compiled."""

import numpy as np

from labelwright.kernels.common import ranges
from labelwright.kernels.tables import PRIME, sorted_order

MOST_READ = 1 << 22  # numbers that are looked up at once


def _hash(columns, base):
    """Hashes of rows of non-negative numbers, given by their columns: their low bits say where to
    begin."""
    h = np.int64(0)
    for column in columns:
        h = _hash_with(h, column.astype(np.int64), base)
    return h ^ (h >> 15)


def _hash_with(h, number, base):
    p = (h + number) * np.int64(base)
    return (p & PRIME) + (p >> 31)


def row_slot(slots, table, row, base):
    h, mask = 0, len(slots) - 1
    for number in row.tolist():
        p = (h + number) * base
        h = (p & PRIME) + (p >> 31)
    at = (h ^ (h >> 15)) & mask
    while slots[at] >= 0 and not np.array_equal(table[slots[at]], row):
        at = (at + 1) & mask
    return at


def index_tables(index):
    sizes = np.diff(index.first)
    hashes = [
        _hash(index.cells[a:b].reshape(n, width).T, index.base) if width else np.zeros(n, np.int64)
        for a, b, n, width in zip(
            index.cell_ptr, index.cell_ptr[1:], sizes, index.width, strict=False
        )
    ]
    begin = np.repeat(index.slot_ptr[:-1], sizes)
    mask = np.repeat(np.diff(index.slot_ptr) - 1, sizes)
    number = ranges(np.zeros(len(sizes), np.int64), sizes).astype(index.slots.dtype)
    at = np.concatenate([np.empty(0, np.int64), *hashes]) & mask
    while len(number):
        slot = begin + at
        free = index.slots[slot] < 0
        # where several want a slot, the last of them gets it
        index.slots[slot[free]] = number[free]
        waits = ~free
        waits[free] = index.slots[slot[free]] != number[free]
        begin, mask, number = begin[waits], mask[waits], number[waits]
        at = (at[waits] + 1) & mask


def find_rows(slots, table, rows, ids, base):
    ids[:] = -1
    asked = np.flatnonzero((rows >= 0).all(axis=1))
    at = np.zeros(len(asked), np.int64) + (_hash(rows[asked].T, base) & (len(slots) - 1))
    while len(asked):
        f = slots[at]
        there = f >= 0
        asked, at, f = asked[there], at[there], f[there]
        same = np.ones(len(asked), np.bool_)
        for known, wanted in zip(table.T, rows.T, strict=True):
            same &= known[f] == wanted[asked]
        ids[asked[same]] = f[same]
        asked, at = asked[~same], (at[~same] + 1) & (len(slots) - 1)


def find_features(entry, remembered, offsets, reach, lines, index, ptr, feature):
    lengths = np.diff(offsets)
    begin, end = np.repeat(offsets[:-1], lengths)[:, None], np.repeat(offsets[1:], lengths)[:, None]
    at = np.arange(len(begin))[:, None] + lines.row
    if lines.absolute.any():
        at = np.where(lines.absolute, lines.row + np.where(lines.row >= 0, begin, end), at)
    mark = np.where(at < begin, begin - at - 1, np.where(at >= end, reach + at - end, -1))
    of_value = remembered[entry[lines.column, np.clip(at, begin, end - 1)] + lines.place]
    read = np.where(mark < 0, of_value, np.where(lines.marked, mark, -1)).astype(np.int32)
    one = int(lines.ptr[0])
    t, c = np.nonzero(mark[:, :one] >= 0)
    if len(lines.outside):
        read[t, c] = lines.outside[read[t, c], c]
    else:
        read[t, c] = _features_alone(read[t, c], lines.alone[c], index)
    several = _row_numbers(read[:, one:], lines.table, lines.ptr - one, index)
    found = np.concatenate([read[:, :one], several], axis=1)
    known = found >= 0
    ptr[1:] = np.cumsum(known.sum(axis=1))
    feature[: int(ptr[-1])] = found[known]
    return int(ptr[-1])


def remember_features(index, table, place, remembered):
    behind = remembered.shape[1] - len(table)
    numbers = remembered[:, place]
    remembered[:, behind:] = _row_numbers(numbers, table, np.arange(len(table) + 1), index)


def _features_alone(number, table, index):
    """The features [n] of lines with one cell, by their tables and what they read; -1: none."""
    feature = np.full(len(number), -1, np.int64)
    asked = np.flatnonzero(number >= 0)
    begin, mask = index.slot_ptr[table], np.diff(index.slot_ptr)[table] - 1
    at = _hash([number], index.base)
    while len(asked):
        i = table[asked]
        f = index.slots[begin[asked] + (at[asked] & mask[asked])]
        there = f >= 0
        same = there & (index.cells.take(index.cell_ptr[i] + f, mode="clip") == number[asked])
        feature[asked[same]] = (index.first[i] + f)[same]
        asked = asked[there & ~same]
        at[asked] += 1
    return feature


def _row_numbers(read, tables, ptr, index):
    """The number [n, lines] of the row of each line's table that holds read[:, ptr[i]:ptr[i+1]], or
    -1."""
    width = index.width[tables]
    cell = np.arange(int(width.max(initial=0)))
    n_parts = len(read) * len(tables) * len(cell) // MOST_READ + 1
    if 1 < n_parts <= len(read):
        return np.concatenate(
            [_row_numbers(part, tables, ptr, index) for part in np.array_split(read, n_parts)]
        )
    has = cell < width[:, None]  # [lines, cells of the widest]
    row = np.where(has, read.take(np.where(has, ptr[:-1, None] + cell, 0), axis=1), 0)
    h = np.zeros(row.shape[:2], np.int64)
    for c in cell:
        h = np.where(has[:, c], _hash_with(h, row[:, :, c], index.base), h)
    found = np.full(row.shape[:2], -1, np.int64)
    asked = np.flatnonzero((row >= 0).all(axis=2))
    row, at = row.reshape(h.size, len(cell))[asked], (h ^ (h >> 15)).reshape(-1)[asked]
    line = asked % max(1, len(width))
    while len(asked):
        table = tables[line]
        begin = index.slot_ptr[table]
        at &= index.slot_ptr[table + 1] - begin - 1
        f = index.slots[begin + at]
        there = np.flatnonzero(f >= 0)
        asked, row, line, at, table, f = (
            asked[there],
            row[there],
            line[there],
            at[there],
            table[there],
            f[there],
        )
        first = index.cell_ptr[table] + f * width[line]
        known = index.cells.take(first[:, None] + cell, mode="clip")
        same = ((known == row) | ~has[line]).all(axis=1)
        found.reshape(-1)[asked[same]] = (index.first[table] + f)[same]
        left = np.flatnonzero(~same)
        asked, row, line, at = asked[left], row[left], line[left], at[left] + 1
    return found


def invert(ptr, items, starts, owners, places):
    n_items = len(starts) - 1
    np.cumsum(np.bincount(items, minlength=n_items), out=starts[1:])
    places[:] = sorted_order(items, n_items)
    owners[:] = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))[places]


def distinct_items(ptr, owners, item_ptr, items, n_codes, out_ptr, out):
    n = len(ptr) - 1
    owner_sizes = (item_ptr[1:] - item_ptr[:-1])[owners]
    code = items[ranges(item_ptr[owners], owner_sizes)]
    owner_of = np.repeat(np.arange(n), np.diff(ptr))
    keys = np.repeat(owner_of, owner_sizes)[code >= 0] * n_codes + code[code >= 0]
    keys.sort()
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = keys[1:] != keys[:-1]
    keys = keys[fresh]
    out_ptr[1:] = np.cumsum(np.bincount(keys // n_codes, minlength=n))
    out[: len(keys)] = keys % n_codes
    return len(keys)
