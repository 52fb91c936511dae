"""Nearest rows by postings in NumPy: the rows of several columns at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SOME = 64  # rows to look at first, for each neighbour: they bound the k-th nearest distance


def search_postings(
    postings: Any, first: Array, weight: Array, query: Array, k: int, tiny: float, scratch: Any
) -> tuple[int, bool]:  # fmt: skip
    """Fill scratch.row with all rows whose distance is among the k nearest; returns how many there are, and whether
    rows that share nothing with the query may be among them: then scratch.row has all rows that do."""
    at = first[:-1] + query
    begin, size = postings.ptr[at], np.where((query >= 0) & (weight > 0.0), postings.ptr[at + 1] - postings.ptr[at], 0)
    order = np.argsort(np.divide(size, weight, out=np.full(len(size), np.inf), where=weight > 0.0), kind="stable")
    passed, total = np.cumsum(weight[order]), np.cumsum(size[order])
    slack = 1e-7 * (8 + len(query))
    done, enough = 0, min(int(np.searchsorted(total, SOME * k)) + 1, len(query))
    row, distance, limit = np.empty(0, np.int32), np.empty(0), np.inf
    while done < enough:
        rows = [postings.row[begin[i] : begin[i] + size[i]] for i in order[done:enough].tolist()]
        more = np.concatenate(rows)
        apart = _distances(postings.cell, more, query, weight)
        near = apart <= limit
        row, distance = np.concatenate([row, more[near]]), np.concatenate([distance, apart[near]])
        limit = _limit(distance, k, slack, tiny)
        done = enough
        enough = min(int(np.searchsorted(passed, limit, side="right")) + 1, len(query))
    row = np.unique(row[distance <= limit])
    scratch.row[: len(row)] = row
    return len(row), not passed[-1] > limit


def _distances(cell: Array, rows: Array, query: Array, weight: Array) -> Array:
    return np.asarray((cell.take(rows, axis=0) != query) @ weight)


def _limit(distance: Array, k: int, slack: float, tiny: float) -> float:
    """A bound of the k-th nearest distance; infinity where there are fewer."""
    nearest = np.sort(distance)
    if k > 1 and len(nearest):
        new = np.append(True, np.diff(nearest) > slack * nearest[1:] + tiny)
        nearest = nearest[new]
    return float((1.0 + 2.0 * slack) * nearest[k - 1] + 2.0 * tiny) if len(nearest) >= k else np.inf
