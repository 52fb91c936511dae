"""From weights to scores and back: the linear map of features on states, pairs or triples, and its adjoint.

A feature f owns the weights cell_ptr[f]:cell_ptr[f+1]; weight c belongs to column cell_column[c] of a score row (a
state, or an arc).  `key -> features` and `token -> features` incidences are sparse rows (ptr, feature, value);
an empty `value` means that every value is one.
"""

import numpy as np

from labelwright.kernels import kernel


@kernel
def _add_features(weights, cell_ptr, cell_column, ptr, feature, value, k, rows, at):
    """rows[at, :] += the weight rows of owner k's features."""
    weighted = value.shape[0] > 0
    for i in range(ptr[k], ptr[k + 1]):
        f = feature[i]
        if weighted:
            for c in range(cell_ptr[f], cell_ptr[f + 1]):
                rows[at, cell_column[c]] += value[i] * weights[c]
        else:
            for c in range(cell_ptr[f], cell_ptr[f + 1]):
                rows[at, cell_column[c]] += weights[c]


@kernel
def score_keys(weights, cell_ptr, cell_column, ptr, feature, value, table, k0, k1):
    """table[k, :] = sum of the weight rows of key k's features, for k0 <= k < k1."""
    for k in range(k0, k1):
        for s in range(table.shape[1]):
            table[k, s] = 0
        _add_features(weights, cell_ptr, cell_column, ptr, feature, value, k, table, k)


@kernel
def _add_rows(table, ptr, row, k, rows, at):
    """rows[at, :] += the sum of table[row[i], :] over ptr[k]:ptr[k+1], four at a time."""
    width = table.shape[1]
    i, end = ptr[k], ptr[k + 1]
    while i + 3 < end:
        p, q, u, v = row[i], row[i + 1], row[i + 2], row[i + 3]
        for s in range(width):
            rows[at, s] += (table[p, s] + table[q, s]) + (table[u, s] + table[v, s])
        i += 4
    while i < end:
        p = row[i]
        for s in range(width):
            rows[at, s] += table[p, s]
        i += 1


@kernel
def add_rows(table, ptr, row, t0, t1, rows):
    """rows[t - t0, :] += the sum of table[row[i], :] over ptr[t]:ptr[t+1], for t0 <= t < t1."""
    for t in range(t0, t1):
        _add_rows(table, ptr, row, t, rows, t - t0)


@kernel
def score_keys_densely(weights, cell_ptr, cell_column, ptr, feature, value, dense, dense_ptr, dense_row, table, k0, k1):
    """As score_keys, with the rows of dense features (see spread_cells) besides."""
    for k in range(k0, k1):
        for s in range(table.shape[1]):
            table[k, s] = 0
        _add_rows(dense, dense_ptr, dense_row, k, table, k)
        _add_features(weights, cell_ptr, cell_column, ptr, feature, value, k, table, k)


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
def score_tokens(weights, cell_ptr, cell_column, keys, table, ptr, feature, value, t0, t1, node):
    """node[t - t0, :] += rows of token t's keys + weight rows of its own features, for t0 <= t < t1."""
    width = table.shape[1]
    groups = keys.shape[1]
    for t in range(t0, t1):
        at = t - t0
        g = 0
        while g + 3 < groups and keys[t, g + 3] >= 0:
            a, b, c, d = keys[t, g], keys[t, g + 1], keys[t, g + 2], keys[t, g + 3]
            for s in range(width):
                node[at, s] += (table[a, s] + table[b, s]) + (table[c, s] + table[d, s])
            g += 4
        while g < groups and keys[t, g] >= 0:
            a = keys[t, g]
            for s in range(width):
                node[at, s] += table[a, s]
            g += 1
        _add_features(weights, cell_ptr, cell_column, ptr, feature, value, t, node, at)


@kernel
def pool_keys(key, ptr, token, rows, table, i0, i1):
    """table[key[i], :] += sum of rows[t, :] over the tokens t of that key, for i0 <= i < i1.

    Rows are added up in runs of 512, so that a key with a million tokens loses no digits."""
    width = rows.shape[1]
    run = np.empty(width, rows.dtype)
    for i in range(i0, i1):
        k = key[i]
        a, end = ptr[i], ptr[i + 1]
        while a < end:
            stop = min(a + 512, end)
            for s in range(width):
                run[s] = 0
            while a + 3 < stop:
                p, q, u, v = token[a], token[a + 1], token[a + 2], token[a + 3]
                for s in range(width):
                    run[s] += (rows[p, s] + rows[q, s]) + (rows[u, s] + rows[v, s])
                a += 4
            while a < stop:
                p = token[a]
                for s in range(width):
                    run[s] += rows[p, s]
                a += 1
            for s in range(width):
                table[k, s] += run[s]


@kernel
def collect(feature, ptr, owner, value, rows, cell_ptr, cell_column, gradient, i0, i1):
    """gradient[c] += sum over the owners (keys or tokens) of feature[i] of value * rows[owner, column of c]."""
    width = rows.shape[1]
    weighted = value.shape[0] > 0
    total = np.empty(width, np.float64)
    for i in range(i0, i1):
        a, b = ptr[i], ptr[i + 1]
        c0, c1 = cell_ptr[feature[i]], cell_ptr[feature[i] + 1]
        if (c1 - c0) * 4 <= width or b - a == 1:
            for c in range(c0, c1):
                s = cell_column[c]
                g = 0.0
                if weighted:
                    for j in range(a, b):
                        g += value[j] * rows[owner[j], s]
                else:
                    for j in range(a, b):
                        g += rows[owner[j], s]
                gradient[c] += g
        else:
            total[:] = 0
            for j in range(a, b):
                o = owner[j]
                v = value[j] if weighted else 1.0
                for s in range(width):
                    total[s] += v * rows[o, s]
            for c in range(c0, c1):
                gradient[c] += total[cell_column[c]]


@kernel
def value_gradient(weights, cell_ptr, cell_column, ptr, feature, slot, t0, t1, rows, gradient):
    """gradient[slot] += the derivative by the value of a token's own feature, for t0 <= t < t1: its weights times the
    row rows[t - t0].

    Slots outside `gradient` hold values that never change."""
    for t in range(t0, t1):
        for i in range(ptr[t], ptr[t + 1]):
            if 0 <= slot[i] < gradient.shape[0]:
                f = feature[i]
                total = 0.0
                for c in range(cell_ptr[f], cell_ptr[f + 1]):
                    total += weights[c] * rows[t - t0, cell_column[c]]
                gradient[slot[i]] += total
