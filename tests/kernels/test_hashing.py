"""Hashes of values and rows: nobody who writes a file can choose what collides."""

import subprocess
import sys

import numpy as np
import pytest

from labelwright.features.codes import intern_rows
from labelwright.features.lookup import Index
from labelwright.kernels import tables
from labelwright.kernels.tables import BASE, PRIME

N = 20_000
BITS = np.arange(N)
FAMILIES = {  # rows that a fixed hash, or one that only adds, puts into few slots
    "one column, equal low bits": (BITS << 16)[:, None] % PRIME,
    "one column, equal high bits": BITS[:, None],
    "pairs with one sum": np.stack([BITS, N - BITS], axis=1),
    "pairs with equal low bits": np.stack([BITS % 128 << 16, BITS // 128 << 16], axis=1),
    "the first number alone": np.stack(
        [BITS, np.zeros(N, np.int64), np.zeros(N, np.int64)], axis=1
    ),
}


def hashes(columns, base):
    """The hashes of rows, given by their columns, as kernels compute them (kernels/hashing.pxd)."""
    h = np.int64(0)
    for column in columns:
        p = (h + column.astype(np.int64)) * np.int64(base)
        h = (p & PRIME) + (p >> 31)
    return h ^ (h >> 15)


def old_hash(rows):
    """The fixed hash of earlier versions."""
    h = np.int64(0)
    for i, column in enumerate(rows.T):
        p = (h ^ column) * np.int64(1540483477) + i
        h = (p ^ (p >> 31)) & 0x7FFFFFFF
    return h


def steps(hashed, n_slots):
    """The mean number of slots that linear probing passes over, of rows with these hashes."""
    first = np.sort(hashed & (n_slots - 1))
    places = np.arange(len(first))
    return float((np.maximum.accumulate(first - places) + places - first).mean())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_of_rows_crowds_the_slots(family, seed):
    base = int(np.random.default_rng(seed).integers(1 << 28, 1 << 29))
    assert steps(hashes(FAMILIES[family].T, base), 1 << 16) < 4


@pytest.mark.slow
def test_rows_that_share_a_slot_of_a_fixed_hash_are_spread():
    n, wanted = 1 << 13, 4000
    rng = np.random.default_rng(0)
    found = []
    while sum(map(len, found)) < wanted:
        rows = rng.integers(0, 1 << 20, (1 << 22, 2))
        found.append(rows[old_hash(rows) & (n - 1) == 0])
    rows = np.concatenate(found)[:wanted]
    assert steps(old_hash(rows), n) == (wanted - 1) / 2
    assert steps(hashes(rows.T, BASE), n) < 4
    ids, firsts = intern_rows(rows.astype(np.int32))
    np.testing.assert_array_equal(rows[firsts][ids], rows)


def test_no_hash_leaves_its_range():
    rows = np.full((1, 50), PRIME, np.int64)
    exact = 0
    for number in rows[0].tolist():
        exact = (exact + number) * ((1 << 29) - 1)
        exact = (exact & PRIME) + (exact >> 31)
        assert exact < 1 << 33
    assert hashes(rows.T, (1 << 29) - 1) == exact ^ (exact >> 15)


def test_every_process_has_a_base_of_its_own():
    command = [sys.executable, "-c", "from labelwright.kernels.tables import BASE; print(BASE)"]
    drawn = {int(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(2)}
    assert len(drawn | {BASE}) == 3
    assert all(1 << 28 <= base < 1 << 29 for base in drawn)


def test_tables_are_hashed_so():
    rng = np.random.default_rng(0)
    n_slots = 1 << 12
    for row in rng.integers(0, PRIME, (50, 3)).astype(np.int32):
        slots, ends = np.full(n_slots, -1, np.int32), [np.array([0, n]) for n in (3, 1, n_slots)]
        index = Index(row, ends[0], np.array([3]), ends[1], slots, ends[2], BASE)
        tables.index_tables(tables.IndexView(index))
        assert np.flatnonzero(slots >= 0) == hashes(row[:, None], BASE) & (n_slots - 1)
