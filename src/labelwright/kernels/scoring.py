"""From weights to scores and back: the linear map of features on states, pairs or triples, and its
adjoint.

A feature f owns the weights cell_ptr[f]:cell_ptr[f+1]; weight c belongs to column cell_column[c] of
a score row (a state, or an arc).  `key -> features` and `token -> features` incidences are sparse
rows (ptr, feature, value); an empty `value` means that every value is one.
"""

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, prefetch, unsigned

BLOCK = 1024  # short enough for the first-level cache, and for float32 sums
AHEAD = 32  # how many rows before its turn a row is asked for
TOKENS_AHEAD = 3  # the same for all rows of a token
LINE = 16  # numbers of 4 bytes in a cache line: so many of a row lie together


@inlined_kernel
def _fetch_row(table, i):
    """Ask for row i of a table, which will be read soon."""
    for s in range(unsigned(0), unsigned(table.shape[1]), unsigned(LINE)):
        prefetch(table, i, s)


@inlined_kernel
def _add_features(weights, cell_ptr, cell_column, ptr, feature, value, k, rows, at):
    """rows[at, :] += the weight rows of owner k's features."""
    weighted = value.shape[0] > 0
    for i in range(unsigned(ptr[k]), unsigned(ptr[k + 1])):
        f = unsigned(feature[i])
        a, b = unsigned(cell_ptr[f]), unsigned(cell_ptr[f + unsigned(1)])
        if weighted:
            for c in range(a, b):
                rows[at, unsigned(cell_column[c])] += value[i] * weights[c]
        else:
            for c in range(a, b):
                rows[at, unsigned(cell_column[c])] += weights[c]


@inlined_kernel
def _add_cells(weights, cells, k, rows, at):
    """rows[at, column] += the weights of owner k, cell by cell (learn.rows.CellLists)."""
    a, b = unsigned(cells.ptr[k]), unsigned(cells.ptr[k + 1])
    if cells.value.shape[0] > 0:
        for i in range(a, b):
            rows[at, unsigned(cells.column[i])] += cells.value[i] * weights[unsigned(cells.cell[i])]
    else:
        for i in range(a, b):
            rows[at, unsigned(cells.column[i])] += weights[unsigned(cells.cell[i])]


@inlined_kernel
def _add_rows(table, lists, k, rows, at):
    """rows[at, :] += the rows of the table that owner k has (learn.rows.RowLists), four at a
    time."""
    width = unsigned(table.shape[1])
    i, end = lists.ptr[k], lists.ptr[k + 1]
    if lists.value.shape[0] > 0:
        while i < end:
            p, v = unsigned(lists.row[i]), lists.value[i]
            for s in range(width):
                rows[at, s] += v * table[p, s]
            i += 1
    while i + 3 < end:
        p, q = unsigned(lists.row[i]), unsigned(lists.row[i + 1])
        u, v = unsigned(lists.row[i + 2]), unsigned(lists.row[i + 3])
        for s in range(width):
            rows[at, s] += (table[p, s] + table[q, s]) + (table[u, s] + table[v, s])
        i += 4
    while i < end:
        p = unsigned(lists.row[i])
        for s in range(width):
            rows[at, s] += table[p, s]
        i += 1


@inlined_kernel
def _add_keys(keys, table, t, rows, at):
    """rows[at, :] += the rows of token t's keys, four at a time."""
    width = unsigned(table.shape[1])
    groups = keys.shape[1]
    g = 0
    while g + 3 < groups and keys[t, g + 3] >= 0:
        a, b = unsigned(keys[t, g]), unsigned(keys[t, g + 1])
        c, d = unsigned(keys[t, g + 2]), unsigned(keys[t, g + 3])
        for s in range(width):
            rows[at, s] += (table[a, s] + table[b, s]) + (table[c, s] + table[d, s])
        g += 4
    while g < groups and keys[t, g] >= 0:
        a = unsigned(keys[t, g])
        for s in range(width):
            rows[at, s] += table[a, s]
        g += 1


@kernel
def score_keys(weights, cell_ptr, cell_column, ptr, feature, value, table, k0, k1):
    """table[k, :] = sum of the weight rows of key k's features, for k0 <= k < k1."""
    for k in range(k0, k1):
        for s in range(table.shape[1]):
            table[k, s] = 0
        _add_features(weights, cell_ptr, cell_column, ptr, feature, value, k, table, k)


@kernel
def score_tokens(weights, cell_ptr, cell_column, keys, table, ptr, feature, value, t0, t1, node):
    """node[t - t0, :] += rows of token t's keys + weight rows of its own features, for t0 <= t <
    t1."""
    for t in range(t0, t1):
        _add_keys(keys, table, t, node, t - t0)
        _add_features(weights, cell_ptr, cell_column, ptr, feature, value, t, node, t - t0)


@kernel
def score_key_rows(weights, cells, dense, lists, table, k0, k1):
    """table[k, :] = the sum of key k's weights and rows of dense features, for k0 <= k < k1."""
    width = unsigned(table.shape[1])
    for k in range(k0, k1):
        for s in range(width):
            table[k, s] = 0
        _add_rows(dense, lists, k, table, k)
        _add_cells(weights, cells, k, table, k)


@inlined_kernel
def _fetch_keys(keys, table, t):
    """Ask for the rows of token t's keys."""
    for g in range(keys.shape[1]):
        if keys[t, g] < 0:
            break
        _fetch_row(table, unsigned(keys[t, g]))


@inlined_kernel
def _fetch_cells(weights, cells, k):
    """Ask for the weights of owner k."""
    for i in range(unsigned(cells.ptr[k]), unsigned(cells.ptr[k + 1])):
        prefetch(weights, unsigned(cells.cell[i]))


@kernel
def score_rows(weights, keys, table, cells, dense, lists, rows):
    """rows[t, :] = the sum of token t's keys, weights and rows of dense features."""
    width = unsigned(table.shape[1])
    for t in range(rows.shape[0]):
        if t + TOKENS_AHEAD < rows.shape[0]:
            _fetch_keys(keys, table, t + TOKENS_AHEAD)
            _fetch_cells(weights, cells, t + TOKENS_AHEAD)
        for s in range(width):
            rows[t, s] = 0
        _add_keys(keys, table, t, rows, t)
        _add_rows(dense, lists, t, rows, t)
        _add_cells(weights, cells, t, rows, t)


@kernel
def spread_cells(weights, cell_ptr, cell_column, feature, rows, i0, i1):
    """rows[i, :] = the weights of feature[i] in their columns, 0 elsewhere, for i0 <= i < i1."""
    for i in range(i0, i1):
        for s in range(rows.shape[1]):
            rows[i, s] = 0
        for c in range(cell_ptr[feature[i]], cell_ptr[feature[i] + 1]):
            rows[i, cell_column[c]] = weights[c]


@kernel
def gather_cells(rows, cell_ptr, cell_column, feature, gradient, i0, i1):
    """The adjoint of spread_cells: the gradient of each weight += its place in rows."""
    for i in range(i0, i1):
        for c in range(cell_ptr[feature[i]], cell_ptr[feature[i] + 1]):
            gradient[c] += rows[i, cell_column[c]]


@kernel
def pool_rows(item, ptr, owner, value, rows, table, i0, i1):
    """table[item[i], :] += sum of value * rows[owner, :] over the owners of that item, for i0 <= i
    < i1.

    Rows are added up in runs of 512, so that an item with a million owners loses no digits."""
    width = unsigned(rows.shape[1])
    weighted = value.shape[0] > 0
    run = np.empty(rows.shape[1], rows.dtype)
    end_of_owners = owner.shape[0]
    for i in range(i0, i1):
        k = unsigned(item[i])
        a, end = ptr[i], ptr[i + 1]
        while a < end:
            stop = min(a + 512, end)
            for s in range(width):
                run[s] = 0
            if weighted:
                while a < stop:
                    p, x = unsigned(owner[a]), value[a]
                    for s in range(width):
                        run[s] += x * rows[p, s]
                    a += 1
            while a + 3 < stop:
                p, q = unsigned(owner[a]), unsigned(owner[a + 1])
                u, v = unsigned(owner[a + 2]), unsigned(owner[a + 3])
                for b in range(a + AHEAD, min(a + AHEAD + 4, end_of_owners)):
                    _fetch_row(rows, unsigned(owner[b]))
                for s in range(width):
                    run[s] += (rows[p, s] + rows[q, s]) + (rows[u, s] + rows[v, s])
                a += 4
            while a < stop:
                p = unsigned(owner[a])
                if a + AHEAD < end_of_owners:
                    _fetch_row(rows, unsigned(owner[a + AHEAD]))
                for s in range(width):
                    run[s] += rows[p, s]
                a += 1
            for s in range(width):
                table[k, s] += run[s]


@kernel
def collect(feature, ptr, owner, value, rows, cell_ptr, cell_column, gradient, i0, i1):
    """gradient[c] += sum over the owners (keys or tokens) of feature[i] of value * rows[owner,
    column of c]."""
    weighted = value.shape[0] > 0
    for i in range(i0, i1):
        a, b = unsigned(ptr[i]), unsigned(ptr[i + 1])
        if i + AHEAD < i1:
            for j in range(unsigned(ptr[i + AHEAD]), unsigned(ptr[i + AHEAD + 1])):
                _fetch_row(rows, unsigned(owner[j]))
        f = unsigned(feature[i])
        for c in range(unsigned(cell_ptr[f]), unsigned(cell_ptr[f + unsigned(1)])):
            s = unsigned(cell_column[c])
            g = 0.0
            if weighted:
                for j in range(a, b):
                    g += value[j] * rows[unsigned(owner[j]), s]
            else:
                for j in range(a, b):
                    g += rows[unsigned(owner[j]), s]
            gradient[c] += g


@kernel
def value_gradient(weights, cells, slot_of_cell, dense, lists, slot_of_row, t0, t1, rows, gradient):
    """gradient[slot] += the derivative by the value of a token's own feature, for t0 <= t < t1: its
    weights times the row rows[t - t0].

    Slots outside `gradient` hold values that never change."""
    width = unsigned(dense.shape[1])
    for t in range(t0, t1):
        at = t - t0
        for i in range(cells.ptr[t], cells.ptr[t + 1]):
            if 0 <= slot_of_cell[i] < gradient.shape[0]:
                gradient[slot_of_cell[i]] += weights[cells.cell[i]] * rows[at, cells.column[i]]
        for i in range(lists.ptr[t], lists.ptr[t + 1]):
            if 0 <= slot_of_row[i] < gradient.shape[0]:
                p = unsigned(lists.row[i])
                total = dense[p, 0] * rows[at, 0]
                for s in range(unsigned(1), width):
                    total += dense[p, s] * rows[at, s]
                gradient[slot_of_row[i]] += total


# -- passes over long vectors that an optimiser needs ----------------------------------------------


@kernel
def dots(basis, rows, begin, end, out):
    """out[i, j] = basis[rows[i]] . basis[j] over begin..end, in one pass over memory."""
    out[:] = 0
    three = rows.shape[0] == 3
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        for j in range(unsigned(basis.shape[0])):
            if three:
                _add_three_dots(basis, rows, j, a, b, out)
            else:
                for i in range(rows.shape[0]):
                    total = basis.dtype.type(0)
                    for c in range(unsigned(a), unsigned(b)):
                        total += basis[unsigned(rows[i]), c] * basis[j, c]
                    out[i, j] += total


@inlined_kernel
def _add_three_dots(basis, rows, j, a, b, out):
    """out[:, j] += basis[rows] . basis[j] over a..b for three rows, which an iteration has: row j
    is read once."""
    p, q, r = unsigned(rows[0]), unsigned(rows[1]), unsigned(rows[2])
    x = y = z = basis.dtype.type(0)
    for c in range(unsigned(a), unsigned(b)):
        v = basis[j, c]
        x += basis[p, c] * v
        y += basis[q, c] * v
        z += basis[r, c] * v
    out[0, j] += x
    out[1, j] += y
    out[2, j] += z


@kernel
def combine(basis, coefficients, begin, end, out):
    """out = sum_j coefficients[j] basis[j] over begin..end, in one pass over memory."""
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        for c in range(a, b):
            out[c] = 0
        for j in range(unsigned(basis.shape[0])):
            x = out.dtype.type(coefficients[j])
            if x != 0:
                for c in range(unsigned(a), unsigned(b)):
                    out[c] += x * basis[j, c]


@kernel
def advance(x, direction, step, begin, end, out):
    """out = x + step * direction over begin..end."""
    s = x.dtype.type(step)
    for c in range(unsigned(begin), unsigned(end)):
        out[c] = x[c] + s * direction[c]


@kernel
def add_ridge(x, l2, gradient, direction, begin, end, out):
    """gradient += l2 x; out = (l2 x . x, gradient . direction) over begin..end."""
    out[:] = 0
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        squares = x[0] * 0
        gd = squares
        for c in range(a, b):
            ridge = l2[c] * x[c]
            g = gradient[c] + ridge
            gradient[c] = g
            squares += ridge * x[c]
            gd += g * direction[c]
        out[0] += squares
        out[1] += gd


@kernel
def differences(x, old_x, g, old_g, begin, end, s, y):
    """s = x - old_x and y = g - old_g over begin..end."""
    for c in range(unsigned(begin), unsigned(end)):
        s[c] = x[c] - old_x[c]
        y[c] = g[c] - old_g[c]
