"""What a column tells of the classes: how informative it is (its weight), and how far apart its
values are.

    information gain    H(C) - sum_v P(v) H(C | v)
    gain ratio          information gain / H(v)
    chi-squared         sum (O - E)^2 / E over values and classes
    shared variance     chi-squared / (N (min(C, V) - 1))

Values with equal class distributions share a code for the metrics that compare distributions: their
distance is 0.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.errors import CorpusError
from labelwright.kernels import values as kernels

Array = NDArray[Any]

CELLS = 1 << 26  # of a table that are summed one by one,
STEP = 1 << 20  # and so many at once
BINS = 20  # of equally many distinct numbers each, for counting numbers


class Contingency(NamedTuple):
    """The contingency table of a column and the classes, without zeros."""

    value: Array  # [E]  in increasing order
    cls: Array  # [E]  in increasing order for each value
    often: Array  # [E]  how often they occur together
    values: Array  # [V]  how often each value occurs
    classes: Array  # [C]  and each class


def counts(
    codes: Array, n_values: int, classes: Array, n_classes: int, often: Array | None = None
) -> Contingency:
    """The contingency table of a column [M] and the classes [M], without its zeros; `often` is how
    many times each instance counts."""
    keys, count = counted_keys(codes.astype(np.int64) * n_classes + classes, often)
    values, frequency = np.bincount(codes, often, n_values), np.bincount(classes, often, n_classes)
    return Contingency(keys // n_classes, keys % n_classes, count, values, frequency)


def counted_keys(keys: Array, often: Array | None) -> tuple[Array, Array]:
    """The distinct keys, and how often each occurs where each of them [M] counts so many times."""
    if often is None:
        return np.unique(keys, return_counts=True)
    distinct, number = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(number, often, len(distinct))


def entries_of(ptr: Array, rows: Array) -> tuple[Array, Array]:
    """The entries of some rows of a sparse table, row after row: ptr [rows+1], and their places."""
    sizes = np.diff(ptr)[rows]
    return offsets_from(sizes), runs_of(ptr[rows], sizes)[1]


def binned(numbers: Array) -> Array:
    """The bin of each distinct value, by its number; the first bins hold one more where values are
    left over.

    Values that are spelt differently are different, "1" and "1.0", as in TiMBL."""
    size, larger = divmod(len(numbers), BINS)
    bins = np.empty(len(numbers), np.int64)
    bins[np.argsort(numbers, kind="stable")] = np.repeat(
        np.arange(BINS), size + (np.arange(BINS) < larger)
    )
    return bins


def _running(terms: Array) -> float:
    """A sum from the first term to the last, as in TiMBL: one rounding is enough to make equal
    distances differ."""
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
    values, classes, often = (
        np.asarray(counted, np.float64) for counted in (c.values, c.classes, c.often)
    )
    # sum O^2 / E - N skips the zeros; only the last digits differ
    if len(values) * len(classes) > CELLS:
        expected = values[c.value] * classes[c.cls] / values.sum()
        return max(0.0, _running(often**2 / expected) - float(values.sum()))
    return cell_by_cell(c.value, c.cls, often, values, classes, values.sum())


def cell_by_cell(
    value: Array, cls: Array, often: Array, values: Array, classes: Array, n: float
) -> float:
    """The sum of (O - E)^2 / E over all cells, zeros too, value by value: one rounding after the
    other as in TiMBL.

    The cells that are not zero are value, cls, often [E], in the order of values [V] and then of
    classes [C]."""
    total = 0.0
    step = max(1, STEP // max(1, len(classes)))
    for first in range(0, len(values), step):
        cells = classes * values[first : first + step, None] / n
        a, b = np.searchsorted(value, [first, first + step])
        place = value[a:b] - first, cls[a:b]
        expected = cells[place]
        apart = expected - often[a:b]
        cells[place] = apart * apart / expected
        total = float(np.cumsum(np.append(total, cells))[-1])
    return total


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


# -- distances of values ---------------------------------------------------------------------------

OVERLAP, MVDM, JEFFREY, SHANNON, NUMERIC = range(5)  # as in kernels.values
METRICS = {
    "overlap": OVERLAP,
    "mvdm": MVDM,
    "jeffrey": JEFFREY,
    "jensen-shannon": SHANNON,
    "numeric": NUMERIC,
}
COMPARED = MVDM, JEFFREY, SHANNON  # these compare class distributions
FARTHEST = 1e30  # the largest difference of numbers, in ranges: float32 holds it
LEAST_SHARE = 1e-300  # of a class that a value has: quotients of two shares are finite
NARROW = 256  # columns of up to so many codes have a table of all pairs,
PAIRS = 4  # if it has at most so many pairs per row


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


class ColumnCodes(NamedTuple):
    """One column as the search reads it."""

    kind: int
    code_of: Array  # [V] int32  the code of each value
    n_codes: int
    ptr: Array  # [codes+1] int64  P(class | code), in the order of classes
    classes: Array  # int32
    share: Array  # float64
    rare: Array  # [codes] bool
    number: Array  # [codes] float64
    width: float


def column_codes(
    metric: str, values: list[Any], counts: Contingency, threshold: int, place: str
) -> ColumnCodes:
    """The codes of a column's values, and what their distances are computed from."""
    kind, n = METRICS[metric], len(values)
    code_of, number, width = np.arange(n, dtype=np.int32), np.zeros(n), 0.0
    if kind not in COMPARED:
        if kind == NUMERIC:
            number = numbers_of(values, place)
            width = float(number.max() / 2 - number.min() / 2) * 2  # of any two numbers
        if not np.isfinite(width):
            raise CorpusError(
                f"{place}: expected a finite range of numbers, got {values[0]!r:.40} and others"
            )
        nothing = (
            np.zeros(n + 1, np.int64),
            np.empty(0, np.int32),
            np.empty(0),
            np.zeros(n, np.bool_),
        )
        return ColumnCodes(kind, code_of, n, *nothing, number, width)
    rare = counts.values < threshold
    bounds = np.searchsorted(counts.value, np.arange(n + 1))
    shares = np.maximum(counts.often / counts.values[counts.value], LEAST_SHARE)
    first: dict[tuple[int, bytes, bytes], int] = {}  # the first value of each code
    for v, (a, b) in enumerate(pairwise(bounds.tolist())):
        key = v if rare[v] else -1, counts.cls[a:b].tobytes(), shares[a:b].tobytes()
        code_of[v] = code_of[first[key]] if key in first else len(first)
        first.setdefault(key, v)
    kept = np.array([*first.values()], np.int64)
    ptr, places = entries_of(bounds, kept)
    classes, share = counts.cls[places].astype(np.int32), shares[places]
    return ColumnCodes(
        kind, code_of, len(kept), ptr, classes, share, rare[kept], np.zeros(len(kept)), width
    )


def numbers_of(values: list[Any], place: str) -> Array:
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            numbers[i] = float(value)
        except (TypeError, ValueError):
            raise CorpusError(
                f"{place}: expected numbers, got {value!r:.40}; use another metric for it"
            ) from None
        if not np.isfinite(numbers[i]):
            got = "NaN" if np.isnan(numbers[i]) else repr(value)
            raise CorpusError(f"{place}: expected finite numbers, got {got:.40}")
    return numbers


def distances(
    columns: list[ColumnCodes], weights: Array, fixed: Array, n_classes: int, n_rows: int
) -> Distances:
    """The distances of all columns, in the order of the search, for the kernels; `fixed` is the
    order of sums."""
    F, largest = len(columns), float(np.max(weights))
    widest = min(NARROW, int((PAIRS * n_rows) ** 0.5))
    first = offsets_from([c.n_codes for c in columns])
    sizes = np.concatenate([np.diff(c.ptr) for c in columns])
    ptr = offsets_from(sizes)
    classes = np.concatenate([c.classes for c in columns]).astype(np.int32)
    share = np.concatenate([c.share for c in columns]).astype(np.float64)
    owner = np.repeat(np.arange(F), [len(c.classes) for c in columns])
    code = np.repeat(np.concatenate([np.arange(c.n_codes) for c in columns]), sizes)
    cell = owner * n_classes + classes
    order = np.argsort(cell, kind="stable")
    turned_ptr = np.searchsorted(cell[order], np.arange(F * n_classes + 1)).astype(np.int64)
    narrow = [c.kind in COMPARED and c.n_codes <= widest for c in columns]
    sizes = np.array(
        [c.n_codes**2 if small else 0 for c, small in zip(columns, narrow, strict=True)]
    )
    bases = offsets_from(sizes)
    pairs = np.empty(int(bases[-1]))
    made = Distances(
        kind=np.array([c.kind for c in columns], np.int64),
        weight=np.asarray(weights, np.float64),
        scaled=weights * 2.0 ** -np.floor(np.log2(largest)) if largest > 0 else np.zeros(F),
        first=first,
        fixed=np.asarray(fixed, np.int64),
        ptr=ptr,
        classes=classes,
        share=share,
        turned_ptr=turned_ptr,
        turned_code=code[order].astype(np.int32),
        turned_share=share[order],
        rare=np.concatenate([c.rare for c in columns]),
        number=np.concatenate([c.number for c in columns]),
        width=np.array([c.width for c in columns]),
        pairs=pairs,
        pair_base=np.where(narrow, bases[:-1], -1),
    )
    view = kernels.DistancesView(made)
    for i in np.flatnonzero(narrow):
        n = columns[i].n_codes
        kernels.fill_pairs(view, i, pairs[bases[i] : bases[i + 1]].reshape(n, n))
    return made
