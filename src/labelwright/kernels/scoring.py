"""From weights to scores and back: the linear map of features on states, pairs or triples, and its
adjoint.

A feature f owns the weights cell_ptr[f]:cell_ptr[f+1]; weight c belongs to column cell_column[c] of
a score row (a state, or an arc).  `key -> features` and `token -> features` incidences are sparse
rows (ptr, feature, value); an empty `value` means that every value is one.

Sums in this file may be reordered and fused: last digits depend on the processor.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.prefetching import prefetch

BLOCK = 1024  # short enough for the first-level cache, and for float32 sums
RUN = 512  # rows that are added up in one go: an item with a million owners loses no digits
AHEAD = 32  # how many rows before its turn a row is asked for
TOKENS_AHEAD = 3  # the same for all rows of a token
LINE = 16  # numbers of 4 bytes in a cache line: so many of a row lie together


class CellsView:
    """learn.rows.CellLists without values."""

    def __init__(self, lists):
        self.ptr = lists.ptr
        self.cell = lists.cell
        self.column = lists.column


class RowsView:
    """learn.rows.RowLists without values."""

    def __init__(self, lists):
        self.ptr = lists.ptr
        self.row = lists.row


# -- what one owner adds to a row ------------------------------------------------------------------


def _add_features(weights, cell_ptr, cell_column, ptr, feature, value, k, rows, at):
    """rows[at, :] += the weight rows of owner k's features."""
    for i in range(ptr[k], ptr[k + 1]):
        f = feature[i]
        if value.shape[0] > 0:
            x = value[i]
            for c in range(cell_ptr[f], cell_ptr[f + 1]):
                rows[at, cell_column[c]] += x * weights[c]
        else:
            for c in range(cell_ptr[f], cell_ptr[f + 1]):
                rows[at, cell_column[c]] += weights[c]


def _add_cells(weights, cells, value, k, rows, at):
    """rows[at, column] += the weights of owner k, cell by cell."""
    a = cells.ptr[k]
    b = cells.ptr[k + 1]
    if value.shape[0] > 0:
        for i in range(a, b):
            rows[at, cells.column[i]] += value[i] * weights[cells.cell[i]]
    else:
        for i in range(a, b):
            rows[at, cells.column[i]] += weights[cells.cell[i]]


def _add_rows(table, lists, value, k, rows, at):
    """rows[at, :] += the rows of the table that owner k has, four at a time."""
    width = table.shape[1]
    i = lists.ptr[k]
    end = lists.ptr[k + 1]
    if value.shape[0] > 0:
        while i < end:
            a = lists.row[i]
            x = value[i]
            for s in range(width):
                rows[at, s] += x * table[a, s]
            i += 1
    while i + 3 < end:
        a = lists.row[i]
        b = lists.row[i + 1]
        c = lists.row[i + 2]
        d = lists.row[i + 3]
        for s in range(width):
            rows[at, s] += (table[a, s] + table[b, s]) + (table[c, s] + table[d, s])
        i += 4
    while i < end:
        a = lists.row[i]
        for s in range(width):
            rows[at, s] += table[a, s]
        i += 1


def _add_keys(keys, table, t, rows, at):
    """rows[at, :] += the rows of token t's keys, four at a time."""
    width = table.shape[1]
    groups = keys.shape[1]
    g = 0
    while g + 3 < groups and keys[t, g + 3] >= 0:
        a = keys[t, g]
        b = keys[t, g + 1]
        c = keys[t, g + 2]
        d = keys[t, g + 3]
        for s in range(width):
            rows[at, s] += (table[a, s] + table[b, s]) + (table[c, s] + table[d, s])
        g += 4
    while g < groups and keys[t, g] >= 0:
        a = keys[t, g]
        for s in range(width):
            rows[at, s] += table[a, s]
        g += 1


def _fetch_row(table, i):
    """Ask for row i of a table, which will be read soon."""
    s = 0
    while s < table.shape[1]:
        prefetch(cython.address(table[i, s]))
        s += LINE


def _fetch_keys(keys, table, t):
    """Ask for the rows of token t's keys."""
    for g in range(keys.shape[1]):
        if keys[t, g] < 0:
            break
        _fetch_row(table, keys[t, g])


def _fetch_cells(weights, cells, k):
    """Ask for the weights of owner k."""
    for i in range(cells.ptr[k], cells.ptr[k + 1]):
        prefetch(cython.address(weights[cells.cell[i]]))


# -- scores ----------------------------------------------------------------------------------------


def score_keys(weights, cell_ptr, cell_column, ptr, feature, value, table, k0, k1):
    """table[k, :] = sum of the weight rows of key k's features, for k0 <= k < k1."""
    with cython.nogil:
        for k in range(k0, k1):
            for s in range(table.shape[1]):
                table[k, s] = 0
            _add_features(weights, cell_ptr, cell_column, ptr, feature, value, k, table, k)


def score_tokens(weights, cell_ptr, cell_column, keys, table, ptr, feature, value, t0, t1, node):
    """node[t - t0, :] += rows of token t's keys + weight rows of its own features, for t0 <= t <
    t1."""
    with cython.nogil:
        for t in range(t0, t1):
            _add_keys(keys, table, t, node, t - t0)
            _add_features(weights, cell_ptr, cell_column, ptr, feature, value, t, node, t - t0)


def score_key_rows(
    weights, cells, cell_value, dense, lists, row_value, table, k0, k1
):  # fmt: skip
    """table[k, :] = the sum of key k's weights and rows of dense features, for k0 <= k < k1."""
    of_cells = CellsView(cells)
    of_rows = RowsView(lists)
    with cython.nogil:
        for k in range(k0, k1):
            for s in range(table.shape[1]):
                table[k, s] = 0
            _add_rows(dense, of_rows, row_value, k, table, k)
            _add_cells(weights, of_cells, cell_value, k, table, k)


def score_rows(
    weights, keys, table, cells, cell_value, dense, lists, row_value, rows
):  # fmt: skip
    """rows[t, :] = the sum of token t's keys, weights and rows of dense features."""
    of_cells = CellsView(cells)
    of_rows = RowsView(lists)
    with cython.nogil:
        for t in range(rows.shape[0]):
            if t + TOKENS_AHEAD < rows.shape[0]:
                _fetch_keys(keys, table, t + TOKENS_AHEAD)
                _fetch_cells(weights, of_cells, t + TOKENS_AHEAD)
            for s in range(rows.shape[1]):
                rows[t, s] = 0
            _add_keys(keys, table, t, rows, t)
            _add_rows(dense, of_rows, row_value, t, rows, t)
            _add_cells(weights, of_cells, cell_value, t, rows, t)


def spread_cells(weights, cell_ptr, cell_column, feature, rows, i0, i1):
    """rows[i, :] = the weights of feature[i] in their columns, 0 elsewhere, for i0 <= i < i1."""
    with cython.nogil:
        for i in range(i0, i1):
            for s in range(rows.shape[1]):
                rows[i, s] = 0
            f = feature[i]
            for c in range(cell_ptr[f], cell_ptr[f + 1]):
                rows[i, cell_column[c]] = weights[c]


# -- gradients -------------------------------------------------------------------------------------


def gather_cells(rows, cell_ptr, cell_column, feature, gradient, i0, i1):
    """The adjoint of spread_cells: the gradient of each weight += its place in rows."""
    with cython.nogil:
        for i in range(i0, i1):
            f = feature[i]
            for c in range(cell_ptr[f], cell_ptr[f + 1]):
                gradient[c] += rows[i, cell_column[c]]


def pool_rows(item, ptr, owner, value, rows, table, i0, i1):
    """table[item[i], :] += sum of value * rows[owner, :] over the owners of that item, for i0 <= i
    < i1."""
    single = cython.sizeof(rows[0, 0]) == 4
    run = np.empty(rows.shape[1], np.float32 if single else np.float64)
    with cython.nogil:
        for i in range(i0, i1):
            k = item[i]
            a = ptr[i]
            while a < ptr[i + 1]:
                stop = min(a + RUN, ptr[i + 1])
                _sum_rows(owner, value, rows, a, stop, run)
                for s in range(rows.shape[1]):
                    table[k, s] += run[s]
                a = stop


def _sum_rows(owner, value, rows, begin, stop, run):
    """run = the sum of value * rows[owner, :] over the owners begin:stop, four at a time."""
    width = rows.shape[1]
    n = owner.shape[0]
    i = begin
    for s in range(width):
        run[s] = 0
    if value.shape[0] > 0:
        while i < stop:
            a = owner[i]
            x = value[i]
            for s in range(width):
                run[s] += x * rows[a, s]
            i += 1
    while i + 3 < stop:
        for j in range(i + AHEAD, min(i + AHEAD + 4, n)):
            _fetch_row(rows, owner[j])
        a = owner[i]
        b = owner[i + 1]
        c = owner[i + 2]
        d = owner[i + 3]
        for s in range(width):
            run[s] += (rows[a, s] + rows[b, s]) + (rows[c, s] + rows[d, s])
        i += 4
    while i < stop:
        if i + AHEAD < n:
            _fetch_row(rows, owner[i + AHEAD])
        a = owner[i]
        for s in range(width):
            run[s] += rows[a, s]
        i += 1


def collect(feature, ptr, owner, value, rows, cell_ptr, cell_column, gradient, i0, i1):
    """gradient[c] += sum over the owners (keys or tokens) of feature[i] of value * rows[owner,
    column of c]."""
    weighted = value.shape[0] > 0
    with cython.nogil:
        for i in range(i0, i1):
            a = ptr[i]
            b = ptr[i + 1]
            if i + AHEAD < i1:
                for j in range(ptr[i + AHEAD], ptr[i + AHEAD + 1]):
                    _fetch_row(rows, owner[j])
            f = feature[i]
            for c in range(cell_ptr[f], cell_ptr[f + 1]):
                s = cell_column[c]
                g = 0
                if weighted:
                    for j in range(a, b):
                        g += value[j] * rows[owner[j], s]
                else:
                    for j in range(a, b):
                        g += rows[owner[j], s]
                gradient[c] += g


def value_gradient(weights, cells, slot_of_cell, dense, lists, slot_of_row, t0, t1, rows, gradient):
    """gradient[slot] += the derivative by the value of a token's own feature, for t0 <= t < t1: its
    weights times the row rows[t - t0].

    Slots outside `gradient` hold values that never change."""
    of_cells = CellsView(cells)
    of_rows = RowsView(lists)
    n = gradient.shape[0]
    with cython.nogil:
        for t in range(t0, t1):
            at = t - t0
            for i in range(of_cells.ptr[t], of_cells.ptr[t + 1]):
                slot = slot_of_cell[i]
                if slot >= 0 and slot < n:
                    gradient[slot] += weights[of_cells.cell[i]] * rows[at, of_cells.column[i]]
            for i in range(of_rows.ptr[t], of_rows.ptr[t + 1]):
                slot = slot_of_row[i]
                if slot >= 0 and slot < n:
                    p = of_rows.row[i]
                    total = 0
                    for s in range(dense.shape[1]):
                        total += dense[p, s] * rows[at, s]
                    gradient[slot] += total


# -- passes over long vectors that an optimiser needs ----------------------------------------------


def dots(basis, rows, begin, end, out):
    """out[i, j] = basis[rows[i]] . basis[j] over begin..end, in one pass over memory."""
    three = rows.shape[0] == 3
    with cython.nogil:
        out[:, :] = 0
        a = begin
        while a < end:
            b = min(a + BLOCK, end)
            for j in range(basis.shape[0]):
                if three:
                    _add_three_dots(basis, rows, j, a, b, out)
                else:
                    for i in range(rows.shape[0]):
                        out[i, j] += _dot(basis, rows[i], j, a, b)
            a = b


def _dot(basis, i, j, a, b):
    """basis[i] . basis[j] over a..b."""
    total = 0
    for c in range(a, b):
        total += basis[i, c] * basis[j, c]
    return total


def _add_three_dots(basis, rows, j, a, b, out):
    """out[:, j] += basis[rows] . basis[j] over a..b for three rows, which an iteration has: row j
    is read once."""
    p = rows[0]
    q = rows[1]
    r = rows[2]
    x = y = z = 0
    for c in range(a, b):
        v = basis[j, c]
        x += basis[p, c] * v
        y += basis[q, c] * v
        z += basis[r, c] * v
    out[0, j] += x
    out[1, j] += y
    out[2, j] += z


def combine(basis, coefficients, begin, end, out):
    """out = sum_j coefficients[j] basis[j] over begin..end, in one pass over memory."""
    used = np.flatnonzero(coefficients)
    with cython.nogil:
        a = begin
        while a < end:
            b = min(a + BLOCK, end)
            for c in range(a, b):
                out[c] = 0
            _add_multiples(basis, coefficients, used, a, b, out)
            a = b


def _add_multiples(basis, coefficients, used, a, b, out):
    """out += the sum of coefficients[j] basis[j] over a..b, of the rows in use, four at a time."""
    i = 0
    while i + 3 < used.shape[0]:
        p = used[i]
        q = used[i + 1]
        r = used[i + 2]
        s = used[i + 3]
        w = coefficients[p]
        x = coefficients[q]
        y = coefficients[r]
        z = coefficients[s]
        for c in range(a, b):
            out[c] += (w * basis[p, c] + x * basis[q, c]) + (y * basis[r, c] + z * basis[s, c])
        i += 4
    while i < used.shape[0]:
        p = used[i]
        w = coefficients[p]
        for c in range(a, b):
            out[c] += w * basis[p, c]
        i += 1


def advance(x, direction, step, begin, end, out):
    """out = x + step * direction over begin..end."""
    s = step
    with cython.nogil:
        for c in range(begin, end):
            out[c] = x[c] + s * direction[c]


def add_ridge(x, l2, gradient, direction, begin, end, out):
    """gradient += l2 x; out = (l2 x . x, gradient . direction) over begin..end."""
    with cython.nogil:
        out[:] = 0
        a = begin
        while a < end:
            b = min(a + BLOCK, end)
            squares = 0
            gd = 0
            for c in range(a, b):
                ridge = l2[c] * x[c]
                g = gradient[c] + ridge
                gradient[c] = g
                squares += ridge * x[c]
                gd += g * direction[c]
            out[0] += squares
            out[1] += gd
            a = b


def differences(x, old_x, g, old_g, begin, end, s, y):
    """s = x - old_x and y = g - old_g over begin..end."""
    with cython.nogil:
        for c in range(begin, end):
            s[c] = x[c] - old_x[c]
            y[c] = g[c] - old_g[c]
