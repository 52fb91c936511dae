"""From weights to rows of scores and back in NumPy: the sums over features that training needs.

Sums over the entries of each owner are `np.add.reduceat` over gathered rows, a part at a time that
stays in the cache. Rows are read as complex numbers: half as many additions, which cost the same
each (2.5 times as fast on ARM)."""

from itertools import pairwise

import numpy as np

from labelwright.kernels.common import ranges

_BLOCK = 4096  # numbers whose products are summed in the type of the vectors
_AT_ONCE = 1 << 16  # numbers of a temporary vector
_NUMBERS = 1 << 17  # gathered at once
_RUN = 512  # rows that are added up in one go: an item with a million owners loses no digits


def _parts(ptr, at_once):
    """Ranges of owners that have about so many entries together."""
    total = int(ptr[-1] - ptr[0])
    cuts = np.searchsorted(ptr, ptr[0] + np.arange(at_once, total, at_once)).tolist()
    cuts = sorted({0, *cuts, len(ptr) - 1})
    return pairwise(cuts)


def score_keys(weights, cell_ptr, cell_column, ptr, feature, value, table, k0, k1):
    table[k0:k1] = 0
    _add_features(weights, cell_ptr, cell_column, ptr, feature, value, k0, k1, table[k0:k1])


def score_tokens(weights, cell_ptr, cell_column, keys, table, ptr, feature, value, t0, t1, node):
    for group in keys[t0:t1].T:
        present = group >= 0
        if present.all():
            node += table[group]
        else:
            node[present] += table[group[present]]
    _add_features(weights, cell_ptr, cell_column, ptr, feature, value, t0, t1, node)


def _add_features(weights, cell_ptr, cell_column, ptr, feature, value, begin, end, rows):
    """rows[k - begin, :] += the weight rows of owner k's features, for begin <= k < end, a part of
    them at a time."""
    first, last = int(ptr[begin]), int(ptr[end])
    if first == last:
        return
    own, width = feature[first:last], rows.shape[1]
    cell = cell_ptr[own]
    sizes = cell_ptr[own + 1] - cell
    row = np.repeat(np.arange(end - begin) * width, np.diff(ptr[begin : end + 1]))
    for a, b in _parts(np.concatenate([[0], np.cumsum(sizes)]), _NUMBERS):
        cells = ranges(cell[a:b], sizes[a:b])
        amount = weights[cells]
        if len(value):
            amount = amount * np.repeat(value[first + a : first + b], sizes[a:b])
        low, high = int(row[a]), int(row[b - 1]) + width
        place = cell_column[cells] + np.repeat(row[a:b] - low, sizes[a:b])
        rows.reshape(-1)[low:high] += np.bincount(place, amount, high - low).astype(
            rows.dtype, copy=False
        )


def _sums(rows, owner, ptr, value):
    """The sums [n, W] of value * rows[owner[i]] over ptr[k] <= i < ptr[k+1]; none of the n ranges
    may be empty."""
    n, width = len(ptr) - 1, rows.shape[1]
    out = np.empty((n, width), rows.dtype)
    for a, b in _parts(ptr, max(1, _NUMBERS // width)):
        first, last = int(ptr[a]), int(ptr[b])
        gathered = rows.take(owner[first:last], axis=0)
        if len(value):
            gathered *= value[first:last, None]
        out[a:b] = _run_sums(gathered, ptr[a : b + 1] - first)
    return out


def _run_sums(rows, ptr):
    """The sums of neighbouring rows ptr[k]:ptr[k+1]."""
    sizes = np.diff(ptr)
    runs = -(-sizes // _RUN)
    if runs.max(initial=1) > 1:
        starts = np.repeat(ptr[:-1], runs) + _RUN * ranges(np.zeros_like(runs), runs)
        rows = _reduced(rows, starts)
        ptr = np.concatenate([[0], np.cumsum(runs)])
    return _reduced(rows, ptr[:-1])


def _reduced(rows, starts):
    """np.add.reduceat over whole rows."""
    if rows.shape[1] % 2:
        return np.add.reduceat(rows, starts, axis=0)
    pairs = rows.view(np.complex64 if rows.itemsize == 4 else np.complex128)
    return np.add.reduceat(pairs, starts, axis=0).view(rows.dtype)


def _add_rows(table, lists, a, b, rows):
    """rows[k - a] += the rows of the table that owner k has (learn.rows.RowLists), for a <= k <
    b."""
    ptr = lists.ptr[a : b + 1]
    some = np.flatnonzero(ptr[1:] > ptr[:-1])
    if len(some):
        sums = _sums(table, lists.row, np.append(ptr[some], ptr[-1]), lists.value)
        if len(some) == b - a:
            rows += sums
        else:
            rows[some] += sums


def _add_cells(weights, cells, a, b, rows):
    """rows[k - a, column] += the weights of owner k, cell by cell (learn.rows.CellLists), for a <=
    k < b."""
    ptr = cells.ptr[a : b + 1]
    here = slice(int(ptr[0]), int(ptr[-1]))
    if here.start == here.stop:
        return
    place = np.repeat(np.arange(b - a) * rows.shape[1], np.diff(ptr)) + cells.column[here]
    amount = weights.take(cells.cell[here])
    if len(cells.value):
        amount *= cells.value[here]
    flat = rows.reshape(-1)
    flat += np.bincount(place, amount, len(flat)).astype(rows.dtype, copy=False)


def score_key_rows(weights, cells, dense, lists, table, k0, k1):
    rows = table[k0:k1]
    rows[:] = 0
    _add_rows(dense, lists, k0, k1, rows)
    _add_cells(weights, cells, k0, k1, rows)


def score_rows(weights, keys, table, cells, dense, lists, rows):
    n = max(1, _NUMBERS // rows.shape[1])
    for a in range(0, len(rows), n):
        b = min(a + n, len(rows))
        part = rows[a:b]
        part[:] = 0
        for key in keys[a:b].T:
            missing = key < 0
            if missing.all():
                break
            more = table.take(key, axis=0, mode="clip")
            if missing.any():
                more[missing] = 0
            part += more
        _add_rows(dense, lists, a, b, part)
        _add_cells(weights, cells, a, b, part)


def _cells_of(cell_ptr, feature):
    """The weights of some features, one feature after the other, and how many each has."""
    first = cell_ptr[feature]
    sizes = cell_ptr[feature + 1] - first
    return ranges(first, sizes), sizes


def spread_cells(weights, cell_ptr, cell_column, feature, rows, i0, i1):
    cell, sizes = _cells_of(cell_ptr, feature[i0:i1])
    part = rows[i0:i1]
    part[:] = 0
    place = np.repeat(np.arange(i1 - i0) * rows.shape[1], sizes) + cell_column[cell]
    part.reshape(-1)[place] = weights[cell]


def gather_cells(rows, cell_ptr, cell_column, feature, gradient, i0, i1):
    cell, sizes = _cells_of(cell_ptr, feature[i0:i1])
    place = np.repeat(np.arange(i1 - i0) * rows.shape[1], sizes) + cell_column[cell]
    gradient[cell] += rows[i0:i1].reshape(-1).take(place)


def pool_rows(item, ptr, owner, value, rows, table, i0, i1):
    if i1 > i0:
        table[item[i0:i1]] += _sums(rows, owner, ptr[i0 : i1 + 1], value)


def collect(feature, ptr, owner, value, rows, cell_ptr, cell_column, gradient, i0, i1):
    if i0 == i1:
        return
    flat, width = rows.reshape(-1), rows.shape[1]
    n_cells = cell_ptr[feature[i0:i1] + 1] - cell_ptr[feature[i0:i1]]
    n_owners = np.diff(ptr[i0 : i1 + 1])
    for a, b in _parts(np.concatenate([[0], np.cumsum(n_cells * n_owners)]), _NUMBERS):
        cell, sizes = _cells_of(cell_ptr, feature[i0 + a : i0 + b])
        if not len(cell):
            continue
        counts = np.repeat(n_owners[a:b], sizes)
        entry = ranges(np.repeat(ptr[i0 + a : i0 + b], sizes), counts)
        numbers = flat.take(owner[entry] * np.int64(width) + np.repeat(cell_column[cell], counts))
        if len(value):
            numbers *= value[entry]
        gradient[cell] += np.add.reduceat(numbers, np.cumsum(counts) - counts)


def value_gradient(weights, cells, slot_of_cell, dense, lists, slot_of_row, t0, t1, rows, gradient):
    for ptr, slots in ((cells.ptr, slot_of_cell), (lists.ptr, slot_of_row)):
        begin, end = int(ptr[t0]), int(ptr[t1])
        slot = slots[begin:end]
        known = np.flatnonzero((slot >= 0) & (slot < len(gradient)))
        token = np.repeat(np.arange(t1 - t0), np.diff(ptr[t0 : t1 + 1]))[known]
        at = begin + known
        if slots is slot_of_cell:
            amount = weights[cells.cell[at]] * rows[token, cells.column[at]]
        else:
            amount = np.einsum("is,is->i", dense[lists.row[at]], rows[token, : dense.shape[1]])
        gradient += np.bincount(slot[known], amount, len(gradient))


# -- passes over long vectors that an optimiser needs ----------------------------------------------


def dots(basis, rows, begin, end, out):
    out[:] = 0
    for a in range(begin, end, _BLOCK):
        part = basis[:, a : min(a + _BLOCK, end)]
        out += part[rows] @ part.T


def combine(basis, coefficients, begin, end, out):
    np.matmul(coefficients.astype(basis.dtype), basis[:, begin:end], out=out[begin:end])


def advance(x, direction, step, begin, end, out):
    here = slice(begin, end)
    np.multiply(direction[here], x.dtype.type(step), out=out[here])
    out[here] += x[here]


def add_ridge(x, l2, gradient, direction, begin, end, out):
    out[:] = 0
    for a in range(begin, end, _AT_ONCE):
        here = slice(a, min(a + _AT_ONCE, end))
        g, product = gradient[here], l2[here] * x[here]
        g += product
        product *= x[here]
        out += product.sum(), 0.0  # pairwise: no digits are lost
        np.multiply(g, direction[here], out=product)
        out += 0.0, product.sum()


def differences(x, old_x, g, old_g, begin, end, s, y):
    here = slice(begin, end)
    np.subtract(x[here], old_x[here], out=s[here])
    np.subtract(g[here], old_g[here], out=y[here])
