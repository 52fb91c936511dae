"""The data of the search (kernels.neighbours): sorted rows, their trie, and the classes of their instances."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.kernels.neighbours import Groups, Trie
from labelwright.memory.weights import counted_keys

Array = NDArray[Any]
SMALL = 128  # nodes of so many rows are not split further


class Grouped(NamedTuple):
    """Equal instances as groups."""

    ptr: Array  # [M+1] int64  the instances of each row ...
    members: Array  # [instances] int32  ... in their order in the data


def grouped(codes: Array) -> tuple[Array, Grouped]:
    """The distinct rows [M, F] of codes [instances, F] in lexicographic order, and the instances of each."""
    order = np.lexsort(codes.T[::-1])
    rows = codes[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    ptr = np.append(starts, len(rows)).astype(np.int64)
    return rows[starts], Grouped(ptr, order.astype(np.int32))


def entries_of(ptr: Array, rows: Array) -> tuple[Array, Array]:
    """The entries of some rows of a sparse table, row after row: ptr [rows+1], and their places."""
    sizes = np.diff(ptr)[rows]
    row_ptr = offsets_from(sizes)
    return row_ptr, np.arange(row_ptr[-1]) + np.repeat(ptr[rows] - row_ptr[:-1], sizes)


def class_groups(grouped: Grouped, classes: Array, n_classes: int, often: Array | None = None) -> Groups:
    """The classes of the instances of each row, and the frequency of each class; `often` is how many times each
    instance counts."""
    n_rows = len(grouped.ptr) - 1
    row = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(grouped.ptr))
    within = None if often is None else often[grouped.members]
    keys, count = counted_keys(row * n_classes + classes[grouped.members], within)
    ptr = np.searchsorted(keys, np.arange(n_rows + 1, dtype=np.int64) * n_classes)
    frequency = np.bincount(classes, often, n_classes).astype(np.float64)
    return Groups(ptr, (keys % n_classes).astype(np.int32), count.astype(np.float64), frequency)


def trie(rows: Array, small: int = SMALL) -> Trie:
    """The trie of sorted distinct rows [M, F]; nodes of at most `small` rows have no children."""
    M, F = rows.shape
    low, high = np.array([0]), np.array([M])
    begins, ends, codes, sizes = [low], [high], [np.array([-1])], []
    for column in range(F):
        split = high - low > small
        inside = np.zeros(M + 1, np.int64)
        inside[low[split]] += 1
        inside[high[split]] -= 1
        begins_here = np.append(True, rows[1:, column] != rows[:-1, column])
        begins_here[low] = True
        starts = np.flatnonzero(begins_here & (np.cumsum(inside[:M]) > 0))
        parent = np.searchsorted(low, starts, side="right") - 1
        sizes.append(np.bincount(parent, minlength=len(low)))
        low, high = starts, np.minimum(np.append(starts[1:], M), high[parent])
        if len(low) == 0:
            break
        begins.append(low)
        ends.append(high)
        codes.append(rows[low, column])
    sizes.append(np.zeros(len(low), np.int64))
    child = np.concatenate([[1], 1 + np.cumsum(np.concatenate(sizes))])
    begin, end, code = (np.concatenate(parts).astype(np.int32) for parts in (begins, ends, codes))
    return Trie(np.ascontiguousarray(rows.T), begin, end, code, child.astype(np.int32))
