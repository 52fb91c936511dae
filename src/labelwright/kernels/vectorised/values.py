"""Distances of values in NumPy: the table of one value."""

import numpy as np

from labelwright.kernels.values import FARTHEST, NUMERIC, OVERLAP, common_share


def _numeric(d, i, number, codes):
    """The distances of a number from codes of column i."""
    apart = np.abs(number - d.number[d.first[i] + codes])
    return np.minimum(apart / d.width[i], FARTHEST) if d.width[i] > 0.0 else (apart > 0.0).astype(np.float64)


def fill(d, i, code, number, table, base, wide):
    kind, weight, first = d.kind[i], d.scaled[i], int(d.first[i])
    n = int(d.first[i + 1]) - first
    out = table[base : base + n]
    out[:] = weight
    if kind == NUMERIC:
        out[:] = weight * _numeric(d, i, number, np.arange(n))
    elif code >= 0 and d.pair_base[i] >= 0:
        begin = d.pair_base[i] + code * n
        out[:] = weight * d.pairs[begin : begin + n]
    elif kind != OVERLAP and code >= 0 and not d.rare[first + code]:
        n_classes = (len(d.turned_ptr) - 1) // len(d.kind)
        apart = np.ones(n)
        for j in range(d.ptr[first + code], d.ptr[first + code + 1]):
            at = i * n_classes + d.classes[j]
            here = slice(d.turned_ptr[at], d.turned_ptr[at + 1])
            apart[d.turned_code[here]] -= common_share.function(kind, d.share[j], d.turned_share[here])
        out[:] = weight * np.where(d.rare[first : first + n], 1.0, np.maximum(0.0, apart))
    if kind != NUMERIC and code >= 0:
        out[code] = 0.0


def extremes(table, base, n):
    here = table[base : base + n]
    best = int(here.argmin())
    second = np.delete(here, best).min(initial=np.inf)
    return best, float(here[best]), float(second)
