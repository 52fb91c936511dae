"""Feature weights of memory-based learning: how informative each column is about the class.

information gain  H(C) - sum_v P(v) H(C | v)          gain ratio       information gain / H(v)
chi-squared       sum (O - E)^2 / E over values and classes     shared variance  chi-squared / (N (min(C, V) - 1))
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import values as kernels

Array = NDArray[Any]
CELLS = 1 << 26  # of a table that are summed one by one
BINS = 20  # of equally many distinct numbers each, for counting numbers


class Contingency(NamedTuple):
    """The contingency table of a column and the classes, without zeros."""

    value: Array  # [E]  in increasing order
    cls: Array  # [E]  in increasing order for each value
    often: Array  # [E]  how often they occur together
    values: Array  # [V]  how often each value occurs
    classes: Array  # [C]  and each class


def counts(codes: Array, n_values: int, classes: Array, n_classes: int, often: Array | None = None) -> Contingency:
    """The contingency table of a column [M] and the classes [M], without its zeros; `often` is how many times each
    instance counts."""
    keys, count = counted_keys(codes.astype(np.int64) * n_classes + classes, often)
    values, frequency = np.bincount(codes, often, n_values), np.bincount(classes, often, n_classes)
    return Contingency(keys // n_classes, keys % n_classes, count, values, frequency)


def counted_keys(keys: Array, often: Array | None) -> tuple[Array, Array]:
    """The distinct keys, and how often each occurs where each of them [M] counts so many times."""
    if often is None:
        return np.unique(keys, return_counts=True)
    distinct, number = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(number, often, len(distinct))


def binned(numbers: Array) -> Array:
    """The bin of each distinct value, by its number; the first bins hold one more where values are left over.

    Values that are spelt differently are different, "1" and "1.0", as in TiMBL."""
    size, larger = divmod(len(numbers), BINS)
    bins = np.empty(len(numbers), np.int64)
    bins[np.argsort(numbers, kind="stable")] = np.repeat(np.arange(BINS), size + (np.arange(BINS) < larger))
    return bins


def _running(terms: Array) -> float:
    """A sum from the first term to the last, as in TiMBL: one rounding is enough to make equal distances differ."""
    return float(np.cumsum(terms)[-1])


def _entropy(frequency: Array) -> float:
    p = frequency[frequency > 0] / frequency.sum()
    return -_running(p * np.log2(p))


def information_gain(c: Contingency) -> float:
    """The information, in bits, that a value gives about the class."""
    p = c.often / c.values[c.value]
    bits = np.bincount(c.value, -p * np.log2(p), len(c.values))  # of the classes of each value
    return max(0.0, _entropy(c.classes) - _running(bits * c.values / c.values.sum()))


def gain_ratio(c: Contingency) -> float:
    """Information gain divided by the entropy of the values; 0 for a constant column."""
    bits = _entropy(c.values)
    return information_gain(c) / bits if bits > 0 else 0.0


def chi_squared(c: Contingency) -> float:
    """The chi-squared statistic of the table against independence."""
    values, classes, often = (np.asarray(counted, np.float64) for counted in (c.values, c.classes, c.often))
    if len(values) * len(classes) > CELLS:  # sum O^2 / E - N skips the zeros; only the last digits differ
        expected = values[c.value] * classes[c.cls] / values.sum()
        return max(0.0, _running(often**2 / expected) - float(values.sum()))
    return float(kernels.chi_squared(c.value, c.cls, often, values, classes, values.sum()))


def shared_variance(c: Contingency) -> float:
    """Chi-squared without its dependence on the numbers of instances, values and classes."""
    freedom = min(np.count_nonzero(c.values), np.count_nonzero(c.classes)) - 1
    return chi_squared(c) / (float(c.values.sum()) * freedom) if freedom > 0 else 0.0


WEIGHTS: dict[str, Callable[[Contingency], float]] = {
    "gain-ratio": gain_ratio,
    "information-gain": information_gain,
    "chi-squared": chi_squared,
    "shared-variance": shared_variance,
    "none": lambda c: 1.0,
}
