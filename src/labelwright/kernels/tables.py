"""Integer tables: rows of small integers get dense numbers, sparse incidences are transposed.

A hash is a polynomial in a random base, modulo a prime: whoever writes a file does not know which
of its values collide.
"""

import secrets

import cython
import numpy as np
from cython.cimports.labelwright.kernels.hashing import first_slot, hash_with

PRIME = (1 << 31) - 1
BASE = (1 << 28) + secrets.randbelow(1 << 28)

SHORT = 32  # so many items are kept sorted as they come


class IndexView:
    """features.lookup.Index."""

    def __init__(self, index):
        self.cells = index.cells
        self.cell_ptr = index.cell_ptr
        self.width = index.width
        self.first = index.first
        self.slots = index.slots
        self.slot_ptr = index.slot_ptr
        self.base = index.base


class LinesView:
    """features.lookup.Lines."""

    def __init__(self, lines):
        self.table = lines.table
        self.ptr = lines.ptr
        self.alone = lines.alone
        self.outside = lines.outside
        self.row = lines.row
        self.absolute = lines.absolute
        self.column = lines.column
        self.place = lines.place
        self.marked = lines.marked


# -- rows of tables, found by their hashes ---------------------------------------------------------


def row_slot(slots, table, row, base):
    """Slot of `slots` that holds `row` of `table`, or the empty slot where it belongs."""
    mask = slots.shape[0] - 1
    h = 0
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


def _slot_of(index, j, numbers, a, b):
    """The slot that holds the row numbers[a:b] of table j, or the empty slot where it belongs."""
    base = index.base
    h = 0
    for i in range(a, b):
        h = hash_with(h, numbers[i], base)
    begin = index.slot_ptr[j]
    mask = index.slot_ptr[j + 1] - begin - 1
    first = index.cell_ptr[j]
    at = first_slot(h, mask)
    while True:
        f = index.slots[begin + at]
        if f < 0:
            return begin + at
        cell = first + f * (b - a)
        i = a
        while i < b and index.cells[cell + i - a] == numbers[i]:
            i += 1
        if i == b:
            return begin + at
        at = (at + 1) & mask


def _row_number(index, j, numbers, a, b):
    """The number of the row numbers[a:b] in table j, or -1; a row with a negative entry is in no
    table."""
    for i in range(a, b):
        if numbers[i] < 0:
            return -1
    return index.slots[_slot_of(index, j, numbers, a, b)]


def _feature_alone(index, j, numbers, i):
    """The feature of a line with one cell, which reads numbers[i]; its table is j; -1: none."""
    f = _row_number(index, j, numbers, i, i + 1)
    return index.first[j] + f if f >= 0 else -1


def index_tables(index):
    """Enter every row of every table into its slots (all -1)."""
    with cython.nogil:
        for j in range(index.width.shape[0]):
            width = index.width[j]
            cell = index.cell_ptr[j]
            n = index.first[j + 1] - index.first[j]
            for f in range(n):
                index.slots[_slot_of(index, j, index.cells, cell, cell + width)] = f
                cell += width


def find_rows(index, table, rows, ids):
    """ids[k] = the number of rows[k] in this table, or -1; a row with a negative entry is in no
    table."""
    width = rows.shape[1]
    numbers = np.asarray(rows).reshape(-1)
    with cython.nogil:
        for k in range(rows.shape[0]):
            ids[k] = _row_number(index, table, numbers, k * width, (k + 1) * width)


# -- the features of a few tokens ------------------------------------------------------------------


def find_features(entry, remembered, offsets, reach, lines, index, ptr, feature):
    """The features of each token, those of lines with one cell first, without unknown ones: those
    of token t are feature[ptr[t]:ptr[t+1]].  Returns how many there are.

    entry [columns, T]: where in `remembered` that begins which is known of each value.  ptr[0] is
    0."""
    read = np.empty(lines.row.shape[0], np.int32)
    n = 0
    with cython.nogil:
        for k in range(offsets.shape[0] - 1):
            for t in range(offsets[k], offsets[k + 1]):
                _read_cells(
                    entry, remembered, offsets[k], offsets[k + 1], t, reach, lines, index, read
                )
                n = _add_features(read, lines, index, feature, n)
                ptr[t + 1] = n
    return n


def _read_cells(entry, remembered, a, b, t, reach, lines, index, read):
    """read[c] = what cell c reads at token t of the sentence a:b: the feature of a line with one
    cell, or the number of a value or a boundary mark; -1: none."""
    one = lines.ptr[0]
    for c in range(lines.row.shape[0]):
        at = t + lines.row[c]
        if lines.absolute[c]:
            at = lines.row[c] + (a if lines.row[c] >= 0 else b)
        if a <= at and at < b:
            read[c] = remembered[entry[lines.column[c], at] + lines.place[c]]
        elif lines.marked[c]:
            mark = a - at - 1 if at < a else reach + at - b
            if c < one and mark < lines.outside.shape[0]:
                mark = lines.outside[mark, c]
            elif c < one:
                read[c] = mark
                mark = _feature_alone(index, lines.alone[c], read, c)
            read[c] = mark
        else:
            read[c] = -1


def _add_features(read, lines, index, feature, begin):
    """Write the features of a token whose cells read this behind the first `begin` ones; returns
    how many there are then."""
    n = begin
    one = lines.ptr[0]
    for c in range(one):
        if read[c] >= 0:
            feature[n] = read[c]
            n += 1
    for i in range(lines.table.shape[0]):
        j = lines.table[i]
        f = _row_number(index, j, read, lines.ptr[i], lines.ptr[i + 1])
        if f >= 0:
            feature[n] = index.first[j] + f
            n += 1
    return n


def remember_features(index, table, place, remembered):
    """Fill the last columns of what is remembered of values [K, places + lines] with the features
    of lines with one cell: line i reads the number at place[i]."""
    read = np.empty(1, np.int32)
    behind = remembered.shape[1] - table.shape[0]
    with cython.nogil:
        for e in range(remembered.shape[0]):
            for i in range(table.shape[0]):
                read[0] = remembered[e, place[i]]
                remembered[e, behind + i] = _feature_alone(index, table[i], read, 0)


# -- sparse incidences -----------------------------------------------------------------------------


def invert(ptr, items, starts, owners, places):
    """Transpose owner -> items: the owners of item i are owners[starts[i]:starts[i+1]], in order,
    and `places` says where each entry was.  starts must be zeros [n_items + 1]."""
    with cython.nogil:
        for i in range(items.shape[0]):
            starts[items[i] + 1] += 1
        for i in range(1, starts.shape[0]):
            starts[i] += starts[i - 1]
        # while entries are placed, starts[i] is where the next owner of item i goes
        for k in range(ptr.shape[0] - 1):
            for i in range(ptr[k], ptr[k + 1]):
                item = items[i]
                at = starts[item]
                owners[at] = k
                places[at] = i
                starts[item] = at + 1
        for i in range(starts.shape[0] - 2, 0, -1):
            starts[i] = starts[i - 1]
        starts[0] = 0


def distinct_items(ptr, owners, item_ptr, items, n_codes, out_ptr, out):
    """For each k the sorted distinct items (negative ones aside) of all its owners:
    out[out_ptr[k]:out_ptr[k+1]].  Returns how many there are."""
    stamp = np.full(n_codes, -1, np.int32)
    n = 0
    with cython.nogil:
        for k in range(ptr.shape[0] - 1):
            n = _distinct_of(ptr, owners, item_ptr, items, k, stamp, out, n)
            out_ptr[k + 1] = n
    return n


def _distinct_of(ptr, owners, item_ptr, items, k, stamp, out, begin):
    """Write those of one k behind the first `begin` items; returns how many there are then.

    stamp[c] is the last k that has item c."""
    n = begin
    mark = k
    for i in range(ptr[k], ptr[k + 1]):
        owner = owners[i]
        for j in range(item_ptr[owner], item_ptr[owner + 1]):
            c = items[j]
            if c < 0 or stamp[c] == mark:
                continue
            stamp[c] = mark
            at = n
            if n - begin < SHORT:  # insertion keeps short lists sorted
                while at > begin and out[at - 1] > c:
                    out[at] = out[at - 1]
                    at -= 1
            out[at] = c
            n += 1
    if n - begin > SHORT:  # long ones are read from the stamps
        n = begin
        for c in range(stamp.shape[0]):
            if stamp[c] == mark:
                out[n] = c
                n += 1
    return n
