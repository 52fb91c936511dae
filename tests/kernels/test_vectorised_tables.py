"""Tables in NumPy against the compiled kernels, on drawn numbers."""

from itertools import pairwise

import numpy as np
import pytest

from labelwright.features.incidence import Transposer
from labelwright.kernels import scoring, tables

pytest.importorskip("numba")
SEEDS = range(12)


def both(kernel, *arguments):
    """What both forms of a kernel return, and what they make of copies of the same arguments."""
    made = []
    for run in (kernel.dispatcher, kernel.vectorised):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        made.append((run(*copies), copies))
    (one, first), (other, second) = made
    assert one == other or (one is None and other is None)
    return [(a, b) for a, b in zip(first, second, strict=True) if isinstance(a, np.ndarray)]


def same(pairs):
    for a, b in pairs:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def sparse(rng, n_rows, n_items, most=5):
    sizes = rng.integers(0, most, n_rows)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), rng.integers(
        0, n_items, sizes.sum()
    ).astype(np.int32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("largest", [2, 50, 2**31 - 1])
def test_distinct_rows_are_numbered_by_first_appearance(seed, largest):
    rng = np.random.default_rng(seed)
    n, width = rng.integers(0, 60), rng.integers(0, 5)
    rows = rng.integers(0, largest, (n, width)).astype(np.int32)
    rows = rows[rng.integers(0, max(1, n // 2), n)] if n else rows
    ids, firsts = tables.intern_rows(rows)
    distinct = list(dict.fromkeys(map(tuple, rows.tolist())))
    assert ids.tolist() == [distinct.index(tuple(row)) for row in rows.tolist()]
    assert list(map(tuple, rows[firsts].tolist())) == distinct


def random_index(rng, largest):
    """An index of some tables whose rows are distinct."""
    parts = []
    for _ in range(rng.integers(1, 5)):
        rows = rng.integers(0, largest, (rng.integers(0, 40), rng.integers(0, 4))).astype(np.int32)
        parts.append(rows[tables.intern_rows(rows)[1]])
    sizes = [len(p) for p in parts]
    width = np.array([p.shape[1] for p in parts], np.int64)
    slots = [max(8, 1 << (2 * n).bit_length()) for n in sizes]

    def ends(sizes):
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    return tables.Index(
        np.concatenate([p.reshape(-1) for p in parts]),
        ends(sizes * width),
        width,
        ends(sizes),
        np.full(sum(slots), -1, np.int32),
        ends(slots),
        tables.BASE,
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("largest", [3, 9])
def test_rows_and_features_are_found_in_either_index(seed, largest):
    rng = np.random.default_rng(seed)
    index = random_index(rng, largest)
    other = index._replace(slots=index.slots.copy())
    tables.index_tables.dispatcher(index)
    tables.index_tables.vectorised(other)
    for i, width in enumerate(index.width.tolist()):
        table = (
            index.cells[index.cell_ptr[i] : index.cell_ptr[i + 1]].reshape(-1, width)
            if width
            else None
        )
        if table is not None:
            asked = rng.integers(-1, largest + 1, (30, width)).astype(np.int32)
            answers = []
            for run, made in (
                (tables.find_rows.dispatcher, index),
                (tables.find_rows.vectorised, other),
            ):
                ids = np.empty(30, np.int32)
                run(
                    made.slots[index.slot_ptr[i] : index.slot_ptr[i + 1]],
                    table,
                    asked,
                    ids,
                    made.base,
                )
                answers.append(ids)
            np.testing.assert_array_equal(*answers)
    n_rows, places, T, reach = 30, 3, 15, 4
    single = np.flatnonzero(index.width == 1)
    width = places + len(single)
    lines = random_lines(rng, index.width, 2, width, 2 * reach if seed % 2 else -1)
    entry = width * rng.integers(0, n_rows, (2, T)).astype(np.int32)
    numbers = rng.integers(-1, largest, (n_rows, width)).astype(np.int32)
    offsets = np.array([0, 4, 4, 5, T])
    answers = []
    for name, made in (("dispatcher", index), ("vectorised", other)):
        remembered = numbers.copy()
        getattr(tables.remember_features, name)(
            made, single, np.arange(len(single)) % places, remembered
        )
        ptr, found = np.zeros(T + 1, np.int64), np.empty(T * 10, np.int32)
        n = getattr(tables.find_features, name)(
            entry, remembered.reshape(-1), offsets, reach, lines, made, ptr, found
        )
        answers.append((remembered, ptr, found[:n]))
    same(zip(*answers, strict=True))


def random_lines(rng, width, n_columns, n_places, n_marks):
    """Three lines with one cell (none where no table has one), and seven others."""
    single = np.flatnonzero(width == 1)
    alone = rng.choice(single, 3) if len(single) else single
    table = rng.integers(0, len(width), 7)
    ptr = len(alone) + np.concatenate([[0], np.cumsum(width[table])]).astype(np.int64)
    n = int(ptr[-1])
    row, absolute = rng.integers(-3, 4, n), rng.integers(0, 4, n) == 0
    column, place, marked = (
        rng.integers(0, n_columns, n),
        rng.integers(0, n_places, n),
        rng.integers(0, 4, n) > 0,
    )
    outside = rng.integers(-1, 9, (n_marks + 1, len(alone))).astype(np.int32)
    outside[n_marks:] = -1
    return tables.Lines(table, ptr, alone, outside, row, absolute, column, place, marked)


@pytest.mark.parametrize("seed", SEEDS)
def test_codes_are_shifted_within_sentences(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, 8)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    codes = rng.integers(0, 9, offsets[-1]).astype(np.int32)
    for row in range(-3, 4):
        for absolute in (False, True):
            out = np.empty_like(codes)
            tables.shift_codes(codes, offsets, row, absolute, 9, 4, out)
            for a, b in pairwise(offsets.tolist()):
                for t in range(a, b):
                    at = t + row if not absolute else a + row if row >= 0 else b + row
                    before, after = 9 + a - at - 1, 9 + 4 + at - b
                    assert out[t] == (before if at < a else after if at >= b else codes[at])


@pytest.mark.parametrize("seed", SEEDS)
def test_incidences_are_transposed(seed):
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(1, 30))
    ptr, items = sparse(rng, 20, n_items)
    owners, places = np.empty((2, len(items)), np.int32)
    same(both(tables.invert, ptr, items, np.zeros(n_items + 1, np.int64), owners, places))
    made = Transposer(n_items).transpose(ptr, items, np.arange(len(items), dtype=np.float32))
    np.testing.assert_array_equal(made.item, np.unique(items))
    for item, a, b in zip(made.item, made.ptr[:-1], made.ptr[1:], strict=True):
        entries = np.flatnonzero(items == item)
        np.testing.assert_array_equal(
            made.owner[a:b], np.searchsorted(ptr, entries, side="right") - 1
        )
        np.testing.assert_array_equal(made.value[a:b], entries)
    item_ptr, codes = sparse(rng, n_items, 50, most=30)
    codes -= 3
    out = np.zeros(int(np.diff(item_ptr)[items].sum()), np.int32)
    pairs = both(
        tables.distinct_items, ptr, items, item_ptr, codes, 47, np.zeros(len(ptr), np.int64), out
    )
    n = int(pairs[-2][0][-1])
    same(pairs[:-1])
    same([(pairs[-1][0][:n], pairs[-1][1][:n])])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_features_of_rare_keys_move_to_their_tokens(seed, weighted):
    rng = np.random.default_rng(seed)
    T, K = 12, 9
    keys = rng.integers(0, K, (T, rng.integers(0, 4))).astype(np.int32)
    key_ptr, key_feature = sparse(rng, K, 40)
    token_ptr, token_feature = sparse(rng, T, 40)
    kept = rng.integers(0, 2, K) > 0
    number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    sizes = np.where(kept, 0, np.diff(key_ptr))[keys].sum(axis=1) + np.diff(token_ptr)
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    value = (
        rng.random(len(token_feature)).astype(np.float32) if weighted else np.empty(0, np.float32)
    )
    new_value = np.ones(ptr[-1] if weighted else 0, np.float32)
    arrays = number, key_ptr, key_feature, token_ptr, token_feature, value
    new_keys, feature = np.full_like(keys, -1), np.empty(ptr[-1], np.int32)
    tables.move_features(keys, *arrays, new_keys, ptr, feature, new_value)
    for t in range(T):
        moved = [
            f for k in keys[t] if not kept[k] for f in key_feature[key_ptr[k] : key_ptr[k + 1]]
        ]
        own = slice(token_ptr[t], token_ptr[t + 1])
        np.testing.assert_array_equal(feature[ptr[t] : ptr[t + 1]], [*moved, *token_feature[own]])
        np.testing.assert_array_equal(
            new_keys[t][new_keys[t] >= 0], [number[k] for k in keys[t] if kept[k]]
        )
        if weighted:
            np.testing.assert_array_equal(
                new_value[ptr[t] : ptr[t + 1]], [*[1.0] * len(moved), *value[own]]
            )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_scores(seed, dtype):
    rng = np.random.default_rng(seed)
    F, K, T, width = 30, 11, 14, 8
    cell_ptr, column = sparse(rng, F, width)
    weights = rng.normal(size=len(column)).astype(dtype)
    key_ptr, key_feature = sparse(rng, K, F)
    none = np.empty(0)
    pairs = both(
        scoring.score_keys,
        weights,
        cell_ptr,
        column,
        key_ptr,
        key_feature,
        none,
        np.ones((K, width)),
        2,
        9,
    )
    np.testing.assert_allclose(*pairs[-1], rtol=1e-12, atol=1e-12)
    keys = np.sort(rng.integers(0, K, (T, 3)))[:, ::-1].astype(np.int32)
    keys[rng.integers(0, 3, T) == 0, 1:] = -1
    ptr, feature = sparse(rng, T, F)
    for value in (none, rng.normal(size=len(feature))):
        arrays = keys, pairs[-1][0], ptr, feature, value
        node = both(
            scoring.score_tokens,
            weights,
            cell_ptr,
            column,
            *arrays,
            3,
            12,
            rng.normal(size=(9, width)),
        )[-1]
        np.testing.assert_allclose(*node, rtol=1e-12, atol=1e-12)
