"""Distances of values: what two codes of a column differ by, and tables of a value's distances from
all codes.

The distance of two class distributions p and q, summed over classes, is

    MVDM       sum |p - q| / 2
    JEFFREY    sum (p - q) log2(p / q) / 2, and |p - q| / 2 where one of them is 0
    SHANNON    sum (p log2(p / mean) + q log2(q / mean)) / 2, where mean = (p + q) / 2

F columns, K codes of all columns together (those of column i are first[i]:first[i+1]), C classes.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.values import JEFFREY, MVDM, NUMERIC, OVERLAP
from cython.cimports.libc.math import INFINITY, fabs, log2

FARTHEST = 1e30  # the largest difference of numbers, as in memory.weights


class DistancesView:
    """memory.weights.Distances."""

    def __init__(self, distances):
        self.kind = distances.kind
        self.weight = distances.weight
        self.scaled = distances.scaled
        self.first = distances.first
        self.fixed = distances.fixed
        self.ptr = distances.ptr
        self.classes = distances.classes
        self.share = distances.share
        self.turned_ptr = distances.turned_ptr
        self.turned_code = distances.turned_code
        self.turned_share = distances.turned_share
        self.rare = distances.rare
        self.number = distances.number
        self.width = distances.width
        self.pairs = distances.pairs
        self.pair_base = distances.pair_base


class TablesView:
    """memory.search.Tables."""

    def __init__(self, tables):
        self.number = tables.number
        self.base = tables.base
        self.best = tables.best
        self.least = tables.least
        self.second = tables.second
        self.table = tables.table


# -- two values ------------------------------------------------------------------------------------


def _half(kind, p, q):
    """What a class adds to the half of p of the divergence of p and q, doubled."""
    if p == 0 or q == 0:
        return p
    return p * log2(p / q if kind == JEFFREY else p / ((p + q) / 2))


def value_distance(d, i, code, number, other):
    """The distance of a code of column i (negative: unknown), or of a number, from another code, in
    double."""
    first = d.first[i]
    if d.kind[i] == NUMERIC:
        apart = fabs(number - d.number[first + other])
        if d.width[i] > 0:
            return min(apart / d.width[i], FARTHEST)
        return 1 if apart > 0 else 0
    if code == other:
        return 0
    if d.kind[i] == OVERLAP or code < 0:
        return 1
    if d.pair_base[i] >= 0:
        return d.pairs[d.pair_base[i] + code * (d.first[i + 1] - first) + other]
    return _by_classes(d, i, code, other)


def _by_classes(d, i, code, other):
    """The difference of the class distributions of two codes of column i, summed in the order of
    classes (divergences: each half by itself)."""
    kind = d.kind[i]
    left = d.first[i] + code
    right = d.first[i] + other
    if d.rare[left] or d.rare[right]:
        return 1
    a = d.ptr[left]
    b = d.ptr[right]
    total = half = 0
    while a < d.ptr[left + 1] or b < d.ptr[right + 1]:
        in_left = b == d.ptr[right + 1] or (a < d.ptr[left + 1] and d.classes[a] <= d.classes[b])
        in_right = a == d.ptr[left + 1] or (b < d.ptr[right + 1] and d.classes[b] <= d.classes[a])
        p = d.share[a] if in_left else 0
        q = d.share[b] if in_right else 0
        a += in_left
        b += in_right
        if kind == MVDM:
            total += fabs(p - q)
        else:
            total += _half(kind, p, q)
            half += _half(kind, q, p)
    return (total + half) / 2


def fill_pairs(d, i, pairs):
    """Write the distances of all pairs of codes of column i [codes, codes]."""
    with cython.nogil:
        for v in range(pairs.shape[0]):
            pairs[v, v] = 0
            for u in range(v):
                pairs[v, u] = _by_classes(d, i, u, v)
                pairs[u, v] = pairs[v, u]


# -- one value and all codes of its column ---------------------------------------------------------


def fill(d, i, code, number, table, base, wide):
    """Write the weighted distances of a query's value from all codes of column i into
    table[base:base + codes]."""
    weight = d.scaled[i]
    first = d.first[i]
    n = d.first[i + 1] - first
    if d.kind[i] == NUMERIC or (code >= 0 and d.pair_base[i] >= 0):
        for v in range(n):
            table[base + v] = weight * value_distance(d, i, code, number, v)
        return
    if d.kind[i] == OVERLAP or code < 0 or d.rare[first + code]:
        for v in range(n):
            table[base + v] = weight
    else:
        for v in range(n):
            wide[v] = 1
        _fill_by_classes(d, i, code, wide)
        _weigh(wide, d.rare, first, weight, n, table, base)
    if code >= 0:
        table[base + code] = 0


def _fill_by_classes(d, i, code, wide):
    """Subtract from wide [codes], which is 1, what other codes have in common with this one: class
    by class, the codes that have it."""
    n_classes = (d.turned_ptr.shape[0] - 1) // d.kind.shape[0]
    for j in range(d.ptr[d.first[i] + code], d.ptr[d.first[i] + code + 1]):
        at = i * n_classes + d.classes[j]
        _subtract_shared(
            d.kind[i], d.share[j], d.turned_code, d.turned_share, d.turned_ptr[at],
            d.turned_ptr[at + 1], wide,
        )  # fmt: skip


def _subtract_shared(kind, p, codes, share, begin, end, wide):
    """Subtract what the codes begin:end, of these shares, have in common with the share p."""
    for h in range(begin, end):
        wide[codes[h]] -= _common_share(kind, p, share[h])


def _common_share(kind, p, q):
    """What a class that both distributions have subtracts from 1, the distance of disjoint
    distributions."""
    if kind == MVDM:
        return min(p, q)
    if kind == JEFFREY:
        return (p + q - (p - q) * log2(p / q)) / 2
    mean = (p + q) / 2
    return (p + q - p * log2(p / mean) - q * log2(q / mean)) / 2


def _weigh(wide, rare, first, weight, n, table, base):
    """The weighted distances of n codes, which are 1 from rare ones and nowhere below 0."""
    for v in range(n):
        apart = 1 if rare[first + v] else wide[v]
        table[base + v] = weight * (apart if apart > 0 else 0)


def extremes(table, base, n):
    """The code with the least distance, that distance, and the second least."""
    best = 0
    least = second = INFINITY
    for v in range(n):
        x = table[base + v]
        if x < least:
            best = v
            second = least
            least = x
        elif x < second:
            second = x
    return best, least, second


def store_tables(d, columns, codes, tables, begin, end):
    """Fill some tables: number j is that of codes[j] of column columns[j]."""
    widest = 0
    for i in range(d.kind.shape[0]):
        widest = max(widest, d.first[i + 1] - d.first[i])
    wide = np.empty(widest)
    with cython.nogil:
        for j in range(begin, end):
            i = columns[j]
            base = tables.base[j]
            fill(d, i, codes[j], 0, tables.table, base, wide)
            n = d.first[i + 1] - d.first[i]
            tables.best[j], tables.least[j], tables.second[j] = extremes(tables.table, base, n)
