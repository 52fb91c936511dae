"""Distances of values: what two codes of a column differ by, and tables of a value's distances from
all codes.

F columns, K codes of all columns together (those of column i are first[i]:first[i+1]), C classes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import kernel, literal_kernel

Array = NDArray[Any]

OVERLAP, MVDM, JEFFREY, SHANNON, NUMERIC = range(5)
CELLS = 1 << 20  # of a contingency table that are summed at once
NONE = np.iinfo(np.int32).max  # greater than all classes
FARTHEST = 1e30  # the largest difference of numbers, in ranges: float32 holds it


class Distances(NamedTuple):
    """What the distances of values are computed from; model files name their tensors after these
    fields."""

    kind: Any  # [F] int64  OVERLAP, ...
    weight: Any  # [F] float64
    # [F] float64  the same by a power of two, so that the largest is between 1 and 2: float32 holds
    # them
    scaled: Any
    first: Any  # [F+1] int64
    fixed: Any  # [F] int64  the order in which columns are summed
    ptr: Any  # [K+1] int64  P(class | code): the classes of a code ...
    classes: Any  # [E] int32
    share: Any  # [E] float64
    # [F*C+1] int64  ... and transposed: the codes of column i that have class c, at i*C + c
    turned_ptr: Any
    turned_code: Any  # [E] int32
    turned_share: Any  # [E] float64
    rare: Any  # [K] bool  too rare for a distribution: differs by 1 from everything else
    number: Any  # [K] float64  of numeric columns
    width: Any  # [F] float64  their ranges
    pairs: Any  # float64  the distances of all pairs of codes of narrow columns,
    pair_base: Any  # [F] int64  and where those of column i begin; -1 for wide ones


class Tables(NamedTuple):
    """Tables of the weighted distances from one value to all codes of its column, made once for
    several queries."""

    number: Any  # [K] int64  which table is that of a code; -1: it has none
    base: Any  # [tables] int64  where it begins
    best: Any  # [tables] int64  the code nearest to it,
    least: Any  # [tables] float64  its distance,
    second: Any  # [tables] float64  and that of the second nearest
    table: Any  # float32  all of them, then space for one table of each column and thread


@kernel
def common_share(kind, p, q):
    """What a class that both distributions have subtracts from 1, the distance of disjoint
    distributions."""
    if kind == MVDM:  # sum |p - q| / 2
        return np.minimum(p, q)
    if kind == JEFFREY:  # sum (p - q) log2(p / q) / 2, and |p - q| / 2 where one of them is 0
        return (p + q - (p - q) * np.log2(p / q)) / 2
    mean = (p + q) / 2  # sum (p log2(p / mean) + q log2(q / mean)) / 2
    return (p + q - p * np.log2(p / mean) - q * np.log2(q / mean)) / 2


@literal_kernel
def _half(kind, p, q):
    """What a class adds to the half of p of the divergence of p and q, doubled."""
    if p == 0.0 or q == 0.0:
        return p
    return p * np.log2(p / q if kind == JEFFREY else p / ((p + q) / 2))


@literal_kernel
def value_distance(d, i, code, number, other):
    """The distance of a code of column i (negative: unknown), or of a number, from another code, in
    double."""
    kind, first = d.kind[i], d.first[i]
    if kind == NUMERIC:
        apart = abs(number - d.number[first + other])
        if d.width[i] > 0.0:
            return min(apart / d.width[i], FARTHEST)
        return 1.0 if apart > 0.0 else 0.0
    if code == other:
        return 0.0
    if kind == OVERLAP or code < 0:
        return 1.0
    if d.pair_base[i] >= 0:
        return d.pairs[d.pair_base[i] + code * (d.first[i + 1] - first) + other]
    return _by_classes(d, i, code, other)


@literal_kernel
def _by_classes(d, i, code, other):
    """The difference of the class distributions of two codes of column i, summed in the order of
    classes (divergences: each half by itself)."""
    kind, first = d.kind[i], d.first[i]
    if d.rare[first + code] or d.rare[first + other]:
        return 1.0
    a, b = d.ptr[first + code], d.ptr[first + other]
    a_end, b_end = d.ptr[first + code + 1], d.ptr[first + other + 1]
    total = half = 0.0
    while a < a_end or b < b_end:
        left = d.classes[a] if a < a_end else NONE
        right = d.classes[b] if b < b_end else NONE
        p = d.share[a] if left <= right else 0.0
        q = d.share[b] if right <= left else 0.0
        a += left <= right
        b += right <= left
        if kind == MVDM:
            total += abs(p - q)
        else:
            total += _half(kind, p, q)
            half += _half(kind, q, p)
    return (total + half) / 2


@literal_kernel
def fill_pairs(d, i, pairs):
    """Write the distances of all pairs of codes of column i [codes, codes]."""
    for v in range(pairs.shape[0]):
        pairs[v, v] = 0.0
        for u in range(v):
            pairs[u, v] = pairs[v, u] = _by_classes(d, i, u, v)


def numeric_distances(d, i, number, codes):
    """The distances of a number from codes of column i."""
    apart = np.abs(number - d.number[d.first[i] + codes])
    return (
        np.minimum(apart / d.width[i], FARTHEST)
        if d.width[i] > 0.0
        else (apart > 0.0).astype(np.float64)
    )


@kernel
def fill(d, i, code, number, table, base, wide):
    """Write the weighted distances of a query's value from all codes of column i: table[base:base +
    codes]."""
    kind, weight, first = d.kind[i], d.scaled[i], d.first[i]
    n = d.first[i + 1] - first
    if kind == NUMERIC or (code >= 0 and d.pair_base[i] >= 0):
        for v in range(n):
            table[base + v] = weight * value_distance(d, i, code, number, v)
        return
    if kind == OVERLAP or code < 0 or d.rare[first + code]:
        for v in range(n):
            table[base + v] = weight
    else:
        n_classes = (d.turned_ptr.shape[0] - 1) // d.kind.shape[0]
        for v in range(n):
            wide[v] = 1.0
        for j in range(d.ptr[first + code], d.ptr[first + code + 1]):
            p = d.share[j]
            at = i * n_classes + d.classes[j]
            for h in range(d.turned_ptr[at], d.turned_ptr[at + 1]):
                wide[d.turned_code[h]] -= common_share(kind, p, d.turned_share[h])
        for v in range(n):
            table[base + v] = weight * max(0.0, 1.0 if d.rare[first + v] else wide[v])
    if code >= 0:
        table[base + code] = 0.0


@fill.in_numpy
def _(d, i, code, number, table, base, wide):
    kind, weight, first = d.kind[i], d.scaled[i], int(d.first[i])
    n = int(d.first[i + 1]) - first
    out = table[base : base + n]
    out[:] = weight
    if kind == NUMERIC:
        out[:] = weight * numeric_distances(d, i, number, np.arange(n))
    elif code >= 0 and d.pair_base[i] >= 0:
        begin = d.pair_base[i] + code * n
        out[:] = weight * d.pairs[begin : begin + n]
    elif kind != OVERLAP and code >= 0 and not d.rare[first + code]:
        n_classes = (len(d.turned_ptr) - 1) // len(d.kind)
        apart = np.ones(n)
        for j in range(d.ptr[first + code], d.ptr[first + code + 1]):
            at = i * n_classes + d.classes[j]
            here = slice(d.turned_ptr[at], d.turned_ptr[at + 1])
            apart[d.turned_code[here]] -= common_share.function(
                kind, d.share[j], d.turned_share[here]
            )
        out[:] = weight * np.where(d.rare[first : first + n], 1.0, np.maximum(0.0, apart))
    if kind != NUMERIC and code >= 0:
        out[code] = 0.0


@kernel
def extremes(table, base, n):
    """The code with the least distance, that distance, and the second least."""
    best, least, second = 0, np.inf, np.inf
    for v in range(n):
        x = table[base + v]
        if x < least:
            best, least, second = v, x, least
        elif x < second:
            second = x
    return best, least, second


@extremes.in_numpy
def _(table, base, n):
    here = table[base : base + n]
    best = int(here.argmin())
    second = np.delete(here, best).min(initial=np.inf)
    return best, float(here[best]), float(second)


@kernel
def store_tables(d, columns, codes, tables, begin, end):
    """Fill some tables: number j is that of codes[j] of column columns[j]."""
    wide = np.empty((d.first[1:] - d.first[:-1]).max())
    for j in range(begin, end):
        i = columns[j]
        fill(d, i, codes[j], 0.0, tables.table, tables.base[j], wide)
        tables.best[j], tables.least[j], tables.second[j] = extremes(
            tables.table, tables.base[j], d.first[i + 1] - d.first[i]
        )


# -- weights of columns ----------------------------------------------------------------------------


def chi_squared(
    value: Array, cls: Array, often: Array, values: Array, classes: Array, n: float
) -> float:
    """The sum of (O - E)^2 / E over all cells, zeros too, value by value: one rounding after the
    other as in TiMBL.

    The cells that are not zero are value, cls, often [E], in the order of values [V] and then of
    classes [C]."""
    total = 0.0
    step = max(1, CELLS // max(1, len(classes)))
    for first in range(0, len(values), step):
        cells = classes * values[first : first + step, None] / n
        a, b = np.searchsorted(value, [first, first + step])
        place = value[a:b] - first, cls[a:b]
        expected = cells[place]
        apart = expected - often[a:b]
        cells[place] = apart * apart / expected
        total = float(np.cumsum(np.append(total, cells))[-1])
    return total
