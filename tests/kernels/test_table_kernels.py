"""Integer tables against plain Python, on drawn numbers."""

from itertools import pairwise

import numpy as np
import pytest

from labelwright.features.codes import intern_rows, shift_codes
from labelwright.features.incidence import Transposer, _move_features
from labelwright.features.lookup import Index, Lines
from labelwright.kernels import tables

SEEDS = range(12)


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
    ids, firsts = intern_rows(rows)
    distinct = list(dict.fromkeys(map(tuple, rows.tolist())))
    assert ids.tolist() == [distinct.index(tuple(row)) for row in rows.tolist()]
    assert list(map(tuple, rows[firsts].tolist())) == distinct


def random_tables(rng, largest):
    """Some tables of distinct rows, and an index of them."""
    parts = []
    for _ in range(rng.integers(1, 5)):
        rows = rng.integers(0, largest, (rng.integers(0, 40), rng.integers(0, 4))).astype(np.int32)
        parts.append(rows[intern_rows(rows)[1]])
    sizes = [len(p) for p in parts]
    width = np.array([p.shape[1] for p in parts], np.int64)
    slots = [max(8, 1 << (2 * n).bit_length()) for n in sizes]

    def ends(sizes):
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    index = Index(
        np.concatenate([p.reshape(-1) for p in parts]),
        ends([p.size for p in parts]),
        width,
        ends(sizes),
        np.full(sum(slots), -1, np.int32),
        ends(slots),
        tables.BASE,
    )
    known = [{tuple(row): f for f, row in enumerate(p.tolist())} for p in parts]
    return index, known


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
    return Lines(table, ptr, alone, outside, row, absolute, column, place, marked)


def number_of(index, known, table, row):
    """The feature that a row of a table is, in plain Python; -1: none."""
    f = known[table].get(tuple(row), -1)
    return int(index.first[table]) + f if f >= 0 else -1


def cells_read(lines, index, known, entry, remembered, offsets, reach):
    """What the cells of lines read at each token, in plain Python."""
    one = int(lines.ptr[0])
    for a, b in pairwise(offsets.tolist()):
        for t in range(a, b):
            read = []
            for c, row in enumerate(lines.row.tolist()):
                at = t + row if not lines.absolute[c] else a + row if row >= 0 else b + row
                mark = a - at - 1 if at < a else reach + at - b
                if a <= at < b:
                    number = int(remembered[entry[lines.column[c], at] + lines.place[c]])
                elif not lines.marked[c]:
                    number = -1
                elif c >= one:
                    number = mark
                elif mark < len(lines.outside):
                    number = int(lines.outside[mark, c])
                else:
                    number = number_of(index, known, lines.alone[c], [mark])
                read.append(number)
            yield read


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("largest", [3, 9])
def test_rows_and_features_are_found(seed, largest):
    rng = np.random.default_rng(seed)
    index, known = random_tables(rng, largest)
    view = tables.IndexView(index)
    tables.index_tables(view)
    for i, width in enumerate(index.width.tolist()):
        asked = rng.integers(-1, largest + 1, (30, width)).astype(np.int32)
        ids = np.empty(30, np.int32)
        tables.find_rows(view, i, asked, ids)
        assert ids.tolist() == [known[i].get(tuple(row), -1) for row in asked.tolist()]
    n_rows, places, T, reach = 30, 3, 15, 4
    single = np.flatnonzero(index.width == 1)
    width = places + len(single)
    lines = random_lines(rng, index.width, 2, width, 2 * reach if seed % 2 else -1)
    entry = width * rng.integers(0, n_rows, (2, T)).astype(np.int32)
    remembered = rng.integers(-1, largest, (n_rows, width)).astype(np.int32)
    place = np.arange(len(single)) % places
    tables.remember_features(view, single, place, remembered)
    for row in remembered.tolist():
        assert row[places:] == [
            number_of(index, known, table, [row[p]])
            for table, p in zip(single.tolist(), place.tolist(), strict=True)
        ]
    offsets = np.array([0, 4, 4, 5, T])
    ptr, found = np.zeros(T + 1, np.int64), np.empty(T * 10, np.int32)
    flat = remembered.reshape(-1)
    n = tables.find_features(entry, flat, offsets, reach, tables.LinesView(lines), view, ptr, found)
    assert n == ptr[-1]
    reading = cells_read(lines, index, known, entry, flat, offsets, reach)
    for t, read in enumerate(reading):
        several = [
            number_of(index, known, table, read[a:b])
            for table, (a, b) in zip(lines.table.tolist(), pairwise(lines.ptr), strict=True)
        ]
        features = [f for f in read[: lines.ptr[0]] + several if f >= 0]
        assert found[ptr[t] : ptr[t + 1]].tolist() == features


@pytest.mark.parametrize("seed", SEEDS)
def test_codes_are_shifted_within_sentences(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, 8)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    codes = rng.integers(0, 9, offsets[-1]).astype(np.int32)
    for row in range(-3, 4):
        for absolute in (False, True):
            out = np.empty_like(codes)
            shift_codes(codes, offsets, row, absolute, 9, 4, out)
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
    made = Transposer(n_items).transpose(ptr, items, np.arange(len(items), dtype=np.float32))
    np.testing.assert_array_equal(made.item, np.unique(items))
    for item, a, b in zip(made.item, made.ptr[:-1], made.ptr[1:], strict=True):
        entries = np.flatnonzero(items == item)
        np.testing.assert_array_equal(
            made.owner[a:b], np.searchsorted(ptr, entries, side="right") - 1
        )
        np.testing.assert_array_equal(made.value[a:b], entries)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [4, 30])
def test_distinct_items_of_all_owners(seed, most):
    rng = np.random.default_rng(seed)
    ptr, owners = sparse(rng, 20, 25)
    item_ptr, items = sparse(rng, 25, 50, most)
    items -= 3
    out_ptr = np.zeros(len(ptr), np.int64)
    out = np.zeros(int(np.diff(item_ptr)[owners].sum()), np.int32)
    n = tables.distinct_items(ptr, owners, item_ptr, items, 47, out_ptr, out)
    assert n == out_ptr[-1]
    for k in range(20):
        own = [items[item_ptr[i] : item_ptr[i + 1]].tolist() for i in owners[ptr[k] : ptr[k + 1]]]
        wanted = sorted({c for some in own for c in some if c >= 0})
        assert out[out_ptr[k] : out_ptr[k + 1]].tolist() == wanted


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
    _move_features(keys, *arrays, new_keys, ptr, feature, new_value)
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
