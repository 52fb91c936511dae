"""Distances of values in NumPy: many pairs of codes, and tables of many codes, at once."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels.values import FARTHEST, JEFFREY, MVDM

Array = NDArray[Any]
ENTRIES = 1 << 21  # of class distributions that are compared at once


def _spread(begin: Array, size: Array) -> tuple[Array, Array]:
    """The numbers begin[j] .. begin[j] + size[j] - 1 of all j, one after the other, and the j of each."""
    owner = np.repeat(np.arange(len(size)), size)
    ends = np.cumsum(size)
    return np.arange(len(owner)) + np.repeat(begin - ends + size, size), owner


def _n_classes(d: Any) -> int:
    return (len(d.turned_ptr) - 1) // len(d.kind)


def _chunks(sizes: Array, most: int) -> list[slice]:
    """Neighbours together, as long as their sizes sum to no more than `most`."""
    ends = np.cumsum(sizes)
    cuts, begin = [0], 0
    while begin < len(sizes):
        begin = max(begin + 1, int(np.searchsorted(ends, (ends[begin - 1] if begin else 0) + most, side="right")))
        cuts.append(begin)
    return [slice(a, b) for a, b in pairwise(cuts)]


def _half(kind: int, p: Array, q: Array) -> Array:
    """As kernels.values._half."""
    both = (p > 0) & (q > 0)
    other = np.where(both, q if kind == JEFFREY else (p + q) / 2, 1.0)
    return np.where(both, p * np.log2(np.where(both, p / other, 1.0)), p)


def _by_classes(d: Any, i: int, codes: Array, others: Array) -> Array:
    """The differences of the class distributions of pairs of codes of column i, each summed in the order of classes."""
    differences = np.ones(len(codes))
    a, b = d.first[i] + codes, d.first[i] + others
    compared = np.flatnonzero(~(d.rare[a] | d.rare[b]))
    sizes = d.ptr[a + 1] - d.ptr[a] + d.ptr[b + 1] - d.ptr[b]
    for chunk in _chunks(sizes[compared], ENTRIES):
        these = compared[chunk]
        differences[these] = _differences(d, int(d.kind[i]), a[these], b[these])
    return differences


def _differences(d: Any, kind: int, a: Array, b: Array) -> Array:
    """As `_by_classes`, of codes of all columns."""
    C, n = _n_classes(d), len(a)
    left, of_left = _spread(d.ptr[a], d.ptr[a + 1] - d.ptr[a])
    right, of_right = _spread(d.ptr[b], d.ptr[b + 1] - d.ptr[b])
    keys = np.concatenate([of_left * C + d.classes[left], of_right * C + d.classes[right]])
    keys, place = np.unique(keys, return_inverse=True)
    p, q = np.zeros(len(keys)), np.zeros(len(keys))
    p[place[: len(left)]], q[place[len(left) :]] = d.share[left], d.share[right]
    pair = keys // C
    if kind == MVDM:
        return np.bincount(pair, np.abs(p - q), n) / 2  # which adds one term after the other
    return (np.bincount(pair, _half(kind, p, q), n) + np.bincount(pair, _half(kind, q, p), n)) / 2


def fill_pairs(d: Any, i: int, pairs: Array) -> None:
    """Write the distances of all pairs of codes of column i [codes, codes]."""
    v, u = np.tril_indices(len(pairs), -1)
    np.fill_diagonal(pairs, 0.0)
    pairs[u, v] = pairs[v, u] = _by_classes(d, i, u, v)


def _common(kind: int, p: Array, q: Array) -> Array:
    """As kernels.values._common."""
    if kind == MVDM:
        return np.minimum(p, q)
    if kind == JEFFREY:
        return np.asarray((p + q - (p - q) * np.log2(p / q)) / 2)
    mean = (p + q) / 2
    return np.asarray((p + q - p * np.log2(p / mean) - q * np.log2(q / mean)) / 2)


def _class_tables(d: Any, i: int, codes: Array) -> Array:
    """The weighted distances of some codes (-1: unknown) from all codes of column i [len(codes), codes], where class
    distributions are compared."""
    first, n, weight = d.first[i], int(d.first[i + 1] - d.first[i]), d.scaled[i]
    tables = np.full((len(codes), n), weight, np.float32)
    known = np.flatnonzero(codes >= 0)
    if d.pair_base[i] >= 0:
        begin = d.pair_base[i]
        tables[known] = weight * d.pairs[begin : begin + n * n].reshape(n, n)[codes[known]]
    elif len(known):
        compared = known[~d.rare[first + codes[known]]]
        cell = i * _n_classes(d) + d.classes
        begins, ends = d.ptr[first + codes[compared]], d.ptr[first + codes[compared] + 1]
        sizes = d.turned_ptr[cell + 1] - d.turned_ptr[cell]
        before = np.append(0, np.cumsum(sizes))
        for chunk in _chunks(before[ends] - before[begins] + n, ENTRIES):
            tables[compared[chunk]] = weight * _spread_distances(d, i, n, begins[chunk], ends[chunk])
    tables[known, codes[known]] = 0.0
    return tables


def _spread_distances(d: Any, i: int, n: int, begins: Array, ends: Array) -> Array:
    """The distances of codes, whose classes are begins[j]:ends[j], from all n codes of column i."""
    entry, owner = _spread(begins, ends - begins)
    cell = i * _n_classes(d) + d.classes[entry]
    other, of_entry = _spread(d.turned_ptr[cell], d.turned_ptr[cell + 1] - d.turned_ptr[cell])
    common = _common(int(d.kind[i]), d.share[entry][of_entry], d.turned_share[other])
    place = owner[of_entry] * n + d.turned_code[other]
    distances = np.maximum(0.0, 1.0 - np.bincount(place, common, len(begins) * n).reshape(-1, n))
    distances[:, d.rare[d.first[i] : d.first[i] + n]] = 1.0
    return np.asarray(distances)


def _second(tables: Array, codes: Array) -> Array:
    """The least distance in each table from any code but its own."""
    own = np.flatnonzero(codes >= 0)
    kept = tables[own, codes[own]]
    tables[own, codes[own]] = np.inf
    second = tables.min(axis=1)
    tables[own, codes[own]] = kept
    return np.asarray(second)


def store_tables(d: Any, columns: Array, codes: Array, tables: Any, begin: int, end: int) -> None:
    """Fill some tables: number j is that of codes[j] of column columns[j]."""
    cuts = np.append(np.flatnonzero(np.diff(columns[begin:end], prepend=-1)) + begin, end)
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        i = int(columns[a])
        n = int(d.first[i + 1] - d.first[i])
        for chunk in _chunks(np.full(b - a, n), ENTRIES):
            j = slice(a + chunk.start, a + chunk.stop)
            made = _class_tables(d, i, codes[j])
            tables.table[tables.base[j.start] : tables.base[j.start] + made.size] = made.reshape(-1)
            tables.best[j], tables.least[j], tables.second[j] = codes[j], 0.0, _second(made, codes[j])


def _numeric(d: Any, i: int, numbers: Array, codes: Array) -> Array:
    """The distances of numbers from codes of column i."""
    with np.errstate(over="ignore"):
        apart = np.abs(numbers - d.number[d.first[i] + codes])
        if d.width[i] > 0.0:
            return np.asarray(np.minimum(apart / d.width[i], FARTHEST))
    return np.asarray((apart > 0.0).astype(np.float64))
