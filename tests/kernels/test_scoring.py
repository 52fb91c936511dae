"""Rows of scores, their gradients, and passes over vectors against NumPy, on drawn numbers."""

import numpy as np
import pytest

from labelwright.kernels import scoring
from labelwright.learn.rows import CellLists, RowLists

SEEDS = range(8)
DTYPES = [np.float32, np.float64]
DIGITS = {np.float32: 1e-4, np.float64: 1e-12}


def sparse(rng, n_rows, n_items, most=5):
    sizes = rng.integers(0, most, n_rows)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), rng.integers(
        0, n_items, sizes.sum()
    ).astype(np.int32)


def matrix(ptr, feature, value, n_features):
    """Sparse rows as a matrix [owners, features]."""
    made = np.zeros((len(ptr) - 1, n_features))
    owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    np.add.at(made, (owner, feature), value if len(value) else 1.0)
    return made


def weight_rows(weights, cell_ptr, column, width):
    """The weights of features as a matrix [features, width]."""
    made = np.zeros((len(cell_ptr) - 1, width))
    np.add.at(made, (np.repeat(np.arange(len(made)), np.diff(cell_ptr)), column), weights)
    return made


def near(made, wanted, dtype):
    np.testing.assert_allclose(made, wanted, rtol=DIGITS[dtype], atol=DIGITS[dtype])


def drawn_keys(rng, n_keys, T, groups):
    keys = rng.integers(0, n_keys, (T, groups)).astype(np.int32)
    first_missing = rng.integers(0, groups + 1, T)
    keys[np.arange(groups) >= first_missing[:, None]] = -1
    return keys


def rows_of_keys(keys, table):
    return np.where((keys >= 0)[:, :, None], table[keys], 0).sum(axis=1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_keys_and_tokens(seed, dtype):
    rng = np.random.default_rng(seed)
    F, K, T, width = 30, 11, 14, 8
    cell_ptr, column = sparse(rng, F, width)
    weights = rng.normal(size=len(column)).astype(dtype)
    of_features = weight_rows(weights, cell_ptr, column, width)
    key_ptr, key_feature = sparse(rng, K, F)
    none, table = np.empty(0), np.ones((K, width))
    scoring.score_keys(weights, cell_ptr, column, key_ptr, key_feature, none, table, 2, 9)
    wanted = matrix(key_ptr, key_feature, none, F) @ of_features
    near(table[2:9], wanted[2:9], np.float64)
    assert (table[:2] == 1).all()
    assert (table[9:] == 1).all()
    keys = drawn_keys(rng, K, T, 6)
    ptr, feature = sparse(rng, T, F)
    for value in (none, rng.normal(size=len(feature))):
        node = rng.normal(size=(9, width))
        wanted = (
            node + (rows_of_keys(keys, table) + matrix(ptr, feature, value, F) @ of_features)[3:12]
        )
        own = ptr, feature, value
        scoring.score_tokens(weights, cell_ptr, column, keys, table, *own, 3, 12, node)
        near(node, wanted, np.float64)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_cells_and_dense_rows(seed, dtype, weighted):
    rng = np.random.default_rng(seed)
    W, D, K, T, width = 40, 9, 7, 60, 5
    weights, dense = rng.normal(size=W).astype(dtype), rng.normal(size=(D, width)).astype(dtype)

    def values(n):
        return rng.normal(size=n if weighted else 0).astype(dtype)

    def lists(n):
        ptr, cell = sparse(rng, n, W)
        column = rng.integers(0, width, len(cell)).astype(np.int32)
        row_ptr, row = sparse(rng, n, D, most=9)
        cells = CellLists(ptr, cell, column, values(len(cell)))
        rows = RowLists(row_ptr, row, values(len(row)))
        return cells, rows

    def sums(cells, rows):
        made = matrix(rows.ptr, rows.row, rows.value, D) @ dense
        owner = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
        amount = weights[cells.cell] * (cells.value if weighted else 1)
        np.add.at(made, (owner, cells.column), amount)
        return made

    cells, rows = lists(K)
    table = np.ones((K, width), dtype)
    scoring.score_key_rows(weights, cells, cells.value, dense, rows, rows.value, table, 1, K)
    near(table[1:], sums(cells, rows)[1:], dtype)
    assert (table[0] == 1).all()
    cells, rows = lists(T)
    keys, made = drawn_keys(rng, K, T, 6), np.ones((T, width), dtype)
    scoring.score_rows(weights, keys, table, cells, cells.value, dense, rows, rows.value, made)
    near(made, rows_of_keys(keys, table) + sums(cells, rows), dtype)
    # the derivatives by the values
    slots = [rng.integers(-1, 12, len(x)) for x in (cells.cell, rows.row)]
    gradient, wanted = np.zeros(10), np.zeros(14)
    for lists_of, slot in ((cells, slots[0]), (rows, slots[1])):
        token = np.repeat(np.arange(T), np.diff(lists_of.ptr))
        if lists_of is cells:
            amount = weights[cells.cell] * made[token, cells.column]
        else:
            amount = (dense[rows.row] * made[token]).sum(axis=1)
        inside = (token >= 4) & (token < 50)
        np.add.at(wanted, slot[inside], amount[inside])
    scoring.value_gradient(
        weights, cells, slots[0], dense, rows, slots[1], 4, 50, made[4:50], gradient
    )
    near(gradient, wanted[:10], dtype)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_rows_and_of_single_numbers(seed, dtype, weighted):
    rng = np.random.default_rng(seed)
    F, T, width = 12, 70, 5
    cell_ptr, column = sparse(rng, 20, width)
    item = rng.choice(20, F, replace=False).astype(np.int32)
    ptr, owner = sparse(rng, F, T, most=1300)
    value = rng.normal(size=len(owner) if weighted else 0).astype(dtype)
    rows = rng.normal(size=(T, width)).astype(dtype)
    of_items = matrix(ptr, owner, value, T) @ rows
    table = np.zeros((20, width), dtype)
    scoring.pool_rows(item, ptr, owner, value, rows, table, 2, F)
    wanted = np.zeros((20, width))
    wanted[item[2:]] = of_items[2:]
    np.testing.assert_allclose(table, wanted, rtol=1e-3, atol=50 * DIGITS[dtype])
    gradient = np.zeros(len(column), dtype)
    scoring.collect(item, ptr, owner, value, rows, cell_ptr, column, gradient, 2, F)
    feature = np.repeat(np.arange(20), np.diff(cell_ptr))
    np.testing.assert_allclose(
        gradient, wanted[feature, column], rtol=1e-3, atol=50 * DIGITS[dtype]
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_spread_and_gathered(dtype):
    rng = np.random.default_rng(0)
    columns = [rng.choice(6, n, replace=False) for n in rng.integers(0, 6, 20)]
    column = np.concatenate(columns).astype(np.int32)
    cell_ptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
    weights, feature = rng.normal(size=len(column)).astype(dtype), np.array([3, 5, 18, 7])
    rows = np.ones((4, 6), dtype)
    scoring.spread_cells(weights, cell_ptr, column, feature, rows, 1, 4)
    wanted = weight_rows(weights, cell_ptr, column, 6)[feature]
    np.testing.assert_array_equal(rows[1:], wanted[1:].astype(dtype))
    gradient = np.zeros_like(weights)
    scoring.gather_cells(rows, cell_ptr, column, feature, gradient, 1, 4)
    of_weight = np.repeat(np.arange(20), np.diff(cell_ptr))
    np.testing.assert_array_equal(gradient, np.where(np.isin(of_weight, feature[1:]), weights, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chosen", [[4], [0, 4], [1, 3, 4]])
def test_vectors(dtype, chosen):
    rng = np.random.default_rng(len(chosen))
    n, a, b = 5000, 100, 4321
    basis = rng.normal(size=(5, n)).astype(dtype)
    precise, digits = basis[:, a:b].astype(np.float64), 100 * DIGITS[dtype]
    out = np.ones((len(chosen), 5))
    scoring.dots(basis, np.array(chosen), a, b, out)
    np.testing.assert_allclose(out, precise[chosen] @ precise.T, atol=digits)
    coefficients, vector = rng.normal(size=5), np.zeros(n, dtype)
    scoring.combine(basis, coefficients, a, b, vector)
    np.testing.assert_allclose(vector[a:b], coefficients @ precise, rtol=0, atol=digits)
    scoring.advance(basis[0], basis[1], 0.3, a, b, vector)
    np.testing.assert_allclose(vector[a:b], precise[0] + 0.3 * precise[1], atol=digits)
    assert not vector[:a].any()
    assert not vector[b:].any()
    gradient, sums = basis[2].copy(), np.ones(2)
    scoring.add_ridge(basis[0], basis[1], gradient, basis[3], a, b, sums)
    wanted = precise[2] + precise[0] * precise[1]
    np.testing.assert_allclose(gradient[a:b], wanted, atol=digits)
    ridge = (precise[0] ** 2 * precise[1]).sum()
    np.testing.assert_allclose(sums, [ridge, wanted @ precise[3]], atol=digits)
    s, y = np.zeros((2, n), dtype)
    scoring.differences(basis[0], basis[1], basis[2], basis[3], a, b, s, y)
    np.testing.assert_array_equal(s[a:b], (basis[0] - basis[1])[a:b])
    np.testing.assert_array_equal(y[a:b], (basis[2] - basis[3])[a:b])
