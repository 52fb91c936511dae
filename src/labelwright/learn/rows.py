"""From weights to rows of scores and back: the features on states, on pairs, on triples or on segments.

Scores:    weights -> rows of dense features -> rows of keys -> rows of tokens
Gradient:  rows of tokens -> sums per key -> sums per dense feature -> gradient
Features with few weights are added weight by weight, those with many (dense) as whole rows.  Pieces of work own what
they write and depend on the data alone: any number of threads gives the same bits.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import NO_VALUES, Incidence, Transposed, Transposer, tokens_of_keys
from labelwright.kernels import scoring
from labelwright.parallel import Workers, even_ranges
from labelwright.scoring.parameters import Cells

Array = NDArray[Any]
Task = tuple[Any, ...]  # a function and its arguments

PIECES = 8  # ranges of keys or features per step
RARE = 0.1  # dense features that fewer tokens have themselves are not worth a pass of their own
DENSE = 6  # a feature with weights in more than one of so many columns is dense


def call(function: Any, *arguments: Any) -> Any:
    """One piece of work."""
    return function(*arguments)


class _Lists(NamedTuple):
    """Sparse rows: the items of owner k are item[ptr[k]:ptr[k+1]]."""

    ptr: Array
    item: Array


def _parted(ptr: Array, item: Array, chosen: Array) -> tuple[_Lists, _Lists]:
    """Sparse rows of the items that are chosen [n], and of the others."""
    taken = np.concatenate([[0], np.cumsum(chosen)])[ptr].astype(np.int64)
    return _Lists(taken, item[chosen]), _Lists(ptr - taken, item[~chosen])


class _Split(NamedTuple):
    """An incidence seen from its items, and the ranges of items that make equal pieces of work."""

    items: Transposed
    pieces: list[tuple[int, int]]


class _Shard(NamedTuple):
    """The rows of a shard, seen from keys, dense features and other features."""

    keys: _Split
    dense: _Split
    sparse: _Split


class FeatureRows:
    """The linear map from the weights of some features to the rows of all tokens (or segments), and its adjoint."""

    def __init__(
        self,
        incidence: Incidence,
        n_features: int,
        cells: Cells,
        width: int,
        shards: Sequence[tuple[int, int]],
        dtype: Any,
        slots: Array | None = None,
    ):
        """`slots` says where the value of each of the tokens' own features stands in what is passed from below (-1: it
        is 1); shards are the ranges of rows that are in memory together."""
        self.cells, self.width, self.dtype, self.slots = cells, width, dtype, slots
        self.n_keys, self.keys, self.token_ptr = incidence.n_keys, incidence.keys, incidence.token_ptr
        self.token_feature = incidence.token_feature
        valued = slots is not None or len(incidence.token_value) > 0
        sizes = np.diff(cells.ptr)
        dense = sizes * DENSE > width
        present = np.zeros(n_features, np.bool_)
        present[incidence.key_feature] = True
        if not valued:
            present[incidence.token_feature] = True
        self.dense = np.flatnonzero(dense & present)  # [D]  features that have a row of their own
        number = np.full(n_features, -1, np.int32)
        number[self.dense] = np.arange(len(self.dense))
        of_keys = _parted(incidence.key_ptr, incidence.key_feature, number[incidence.key_feature] >= 0)
        whole = number[self.token_feature] >= 0
        if valued or whole.sum() < RARE * len(self.keys):
            whole[:] = False
        self.token_dense, self.token_sparse = _parted(self.token_ptr, self.token_feature, whole)
        self.key_dense, self.key_sparse = of_keys
        self.key_dense, self.token_dense = (x._replace(item=number[x.item]) for x in (self.key_dense, self.token_dense))
        self.value = incidence.token_value.astype(dtype)
        self.pieces = even_ranges(incidence.key_ptr, PIECES)
        by_dense, by_feature, by_key = Transposer(len(self.dense)), Transposer(n_features), Transposer(self.n_keys)
        self.keys_of_dense = self._transposed(by_dense.transpose(*self.key_dense))
        self.keys_of_sparse = self._transposed(by_feature.transpose(*self.key_sparse))
        self.shards = []
        for a, b in shards:
            keys = self._transposed(tokens_of_keys(incidence, by_key, a, b))
            of_dense = self._transposed(by_dense.transpose(*_cut(self.token_dense, a, b)))
            value = self.value if slots is None else slots
            first, last = self.token_sparse.ptr[a], self.token_sparse.ptr[b]
            of_sparse = by_feature.transpose(
                *_cut(self.token_sparse, a, b), value[first:last] if len(value) else NO_VALUES
            )
            self.shards.append(_Shard(keys, of_dense, self._transposed(of_sparse)))
        self.table = np.empty((self.n_keys, width), dtype)
        self.sums = np.empty_like(self.table)
        self.rows_of_dense = np.empty((len(self.dense), width), dtype)
        self.sums_of_dense = np.empty_like(self.rows_of_dense)

    @staticmethod
    def _transposed(items: Transposed) -> _Split:
        return _Split(items, even_ranges(items.ptr, PIECES))

    # -- scores -----------------------------------------------------------------------------------------------

    def begin(self, weights: Array, workers: Workers) -> None:
        """The rows of dense features and of keys under these weights."""
        ptr, column = self.cells
        ends = even_ranges(np.concatenate([[0], np.cumsum(np.diff(ptr)[self.dense])]), PIECES)
        spread = weights, ptr, column, self.dense, self.rows_of_dense
        workers.run(scoring.spread_cells, [(*spread, a, b) for a, b in ends])
        sparse = weights, ptr, column, *self.key_sparse, np.empty(0, self.dtype)
        dense = self.rows_of_dense, *self.key_dense, self.table
        workers.run(scoring.score_keys_densely, [(*sparse, *dense, a, b) for a, b in self.pieces])

    def score(self, weights: Array, a: int, b: int, rows: Array, below: Array | None) -> None:
        """Fill rows [b - a, width] with the scores of the tokens a:b."""
        ptr, column = self.cells
        first, last = self.token_sparse.ptr[a], self.token_sparse.ptr[b]
        if self.slots is not None:
            assert below is not None
            value = below[self.slots[first:last]].astype(self.dtype)
        else:
            value = self.value[first:last]
        rows[:] = 0
        features = self.token_sparse.ptr[a : b + 1] - first, self.token_sparse.item[first:last], value
        scoring.score_tokens(weights, ptr, column, self.keys[a:b], self.table, *features, 0, b - a, rows)
        if len(self.token_dense.item):
            scoring.add_rows(self.rows_of_dense, *self.token_dense, a, b, rows)

    # -- gradient ---------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Begin a new gradient."""
        self.sums[:] = 0
        self.sums_of_dense[:] = 0

    def adding(self, shard: int, rows: Array, gradient: Array, below: Array | None) -> list[Task]:
        """Pieces of work that add the rows of a shard to the sums of keys and dense features, and to the gradient."""
        mine = self.shards[shard]
        sparse = mine.sparse
        if self.slots is not None:
            assert below is not None
            value = below[sparse.items.value].astype(self.dtype)
            sparse = sparse._replace(items=sparse.items._replace(value=value))
        return [
            *self._pooling(mine.keys, rows, self.sums),
            *self._pooling(mine.dense, rows, self.sums_of_dense),
            *self._collecting(sparse, rows, gradient),
        ]

    def finish(self, gradient: Array, workers: Workers) -> None:
        """From the sums of keys and dense features to the gradient."""
        pooling = self._pooling(self.keys_of_dense, self.sums, self.sums_of_dense)
        workers.run(call, pooling + self._collecting(self.keys_of_sparse, self.sums, gradient))
        ptr, column = self.cells
        ends = even_ranges(np.concatenate([[0], np.cumsum(np.diff(ptr)[self.dense])]), PIECES)
        gather = self.sums_of_dense, ptr, column, self.dense, gradient
        workers.run(scoring.gather_cells, [(*gather, a, b) for a, b in ends])

    @staticmethod
    def _pooling(transposed: _Split, rows: Array, sums: Array) -> list[Task]:
        t = transposed.items
        return [(scoring.pool_keys, t.item, t.ptr, t.owner, rows, sums, a, b) for a, b in transposed.pieces]

    def _collecting(self, transposed: _Split, rows: Array, gradient: Array) -> list[Task]:
        t = transposed.items
        arguments = t.item, t.ptr, t.owner, t.value, rows, *self.cells, gradient
        return [(scoring.collect, *arguments, a, b) for a, b in transposed.pieces]

    def value_gradient(self, weights: Array, a: int, b: int, rows: Array, gradient: Array) -> None:
        """Add the derivatives by the values that were passed from below, given those by the rows of tokens a:b."""
        if self.slots is not None:
            features = self.token_ptr, self.token_feature, self.slots
            scoring.value_gradient(weights, *self.cells, *features, a, b, rows, gradient)


def _cut(lists: _Lists, a: int, b: int) -> _Lists:
    """The lists of the owners a:b, counted from a."""
    ptr = lists.ptr[a : b + 1]
    return _Lists(ptr - ptr[0], lists.item[ptr[0] : ptr[-1]])
