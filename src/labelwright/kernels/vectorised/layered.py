"""Template lines that read the labels of the layer below, in NumPy: all tokens at once."""

from typing import NamedTuple

import numpy as np

from labelwright.kernels.vectorised.tables import _ranges


class _Cells(NamedTuple):
    """What a cell reads at each token [T]."""

    mark: np.ndarray  # number of the boundary mark, or -1
    first: np.ndarray  # first slot
    size: np.ndarray  # number of slots


def _cells(offsets, ptr, row, reach):
    lengths = np.diff(offsets)
    begin, end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
    at = np.arange(offsets[0], offsets[-1]) + row
    mark = np.where(at < begin, begin - at - 1, np.where(at >= end, reach + at - end, -1))
    inside = mark < 0
    at = np.where(inside, at, 0)
    return _Cells(mark, np.where(inside, ptr[at], 0), np.where(inside, ptr[at + 1] - ptr[at], 1))


def count_alternatives(offsets, ptr, row, pair, reach, sizes):
    """sizes[t] = how many features a line has at token t that reads the labels at `row` (and, if `pair`, the next)."""
    size = _cells(offsets, ptr, row, reach).size
    sizes[:] = size * _cells(offsets, ptr, row + 1, reach).size if pair else size


def alternatives(offsets, ptr, pair_ptr, number, row, pair, reach, first, second, slot):
    """Token by token: the numbers of the labels read (marks first, then labels) and the slot that weights the feature;
    -1 where both cells lie outside the sentence."""
    here = _cells(offsets, ptr, row, reach)
    after = (
        _cells(offsets, ptr, row + 1, reach) if pair else _Cells(*np.array([[-1], [0], [1]]).repeat(len(here[0]), 1))
    )
    sizes = here.size * after.size
    token = np.repeat(np.arange(len(sizes)), sizes)
    turn = _ranges(np.zeros(len(sizes), np.int64), sizes)
    j, k = turn // after.size[token], turn % after.size[token]
    labels = np.append(number, -1)  # so that there is one to read outside

    def read(cells, place):
        mark = cells.mark[token]
        return np.where(mark >= 0, mark, labels[np.where(mark >= 0, -1, cells.first[token] + place)])

    first[:] = read(here, j)
    inside, next_inside = here.mark[token] < 0, np.full(len(token), pair) & (after.mark[token] < 0)
    slot[:] = np.where(inside, here.first[token] + j, np.where(next_inside, after.first[token] + k, -1))
    if pair:
        second[:] = read(after, k)
        both = inside & next_inside
        slot[both] = pair_ptr[offsets[0] + token[both] + row + 1] + turn[both]


def merge_features(base_ptr, base_feature, ptr, feature, slot, constant, out_ptr, out_feature, out_slot):
    """The features of each token itself, then those that the layer below gives it; the former have the slots
    `constant`, `constant` + 1, ..., or -1 where that is negative."""
    known = feature >= 0
    n_known = np.diff(np.concatenate([[0], np.cumsum(known)])[ptr])
    n_base = np.diff(base_ptr)
    np.cumsum(n_base + n_known, out=out_ptr[1:])
    base, above = _ranges(out_ptr[:-1], n_base), _ranges(out_ptr[:-1] + n_base, n_known)
    out_feature[base], out_feature[above] = base_feature, feature[known]
    out_slot[base], out_slot[above] = constant + np.arange(len(base)) if constant >= 0 else -1, slot[known]
