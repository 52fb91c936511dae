"""From weights to rows of scores and back: the features on states, on pairs, on triples or on
segments.

Scores:    weights -> rows of dense features -> rows of keys -> rows of tokens
Gradient:  rows of tokens -> sums per key -> sums per dense feature -> gradient
Features with few weights are added weight by weight, those with many (dense) as whole rows.  Pieces
of work own what they write and depend on the data alone: any number of threads gives the same bits.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.features.incidence import Incidence, Transposed, Transposer, tokens_of_keys
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


class CellLists(NamedTuple):
    """The weights of each owner (a key or a token), one by one: numbers ptr[k]:ptr[k+1] are those
    of owner k."""

    ptr: Array
    cell: Array  # weight
    column: Array  # and where it counts in a row
    value: Array  # of its feature; empty where all are one


class RowLists(NamedTuple):
    """The dense features of each owner, whose weights are rows of a table."""

    ptr: Array
    row: Array
    value: Array  # empty where all are one


class _Features(NamedTuple):
    """The features of some owners: those of owner k are feature[ptr[k]:ptr[k+1]]."""

    ptr: Array
    feature: Array
    value: Array  # or slots; empty where all are one

    def split(self, chosen: Array) -> "tuple[_Features, _Features]":
        """The features that are chosen [n], and the others."""
        taken = np.concatenate([[0], np.cumsum(chosen)])[self.ptr].astype(np.int64)
        has_values = len(self.value) > 0
        yes = _Features(
            taken, self.feature[chosen], self.value[chosen] if has_values else self.value
        )
        no = _Features(
            self.ptr - taken,
            self.feature[~chosen],
            self.value[~chosen] if has_values else self.value,
        )
        return yes, no

    def cells(self, cells: Cells) -> CellLists:
        """The weights of these features."""
        sizes = np.diff(cells.ptr)[self.feature]
        owner, cell = runs_of(cells.ptr[self.feature], sizes)
        value = self.value[owner] if len(self.value) else self.value
        return CellLists(
            offsets_from(sizes)[self.ptr], cell.astype(np.int32), cells.column[cell], value
        )


Lists = TypeVar("Lists", CellLists, RowLists, _Features)


def _part(lists: Lists, a: int, b: int) -> Lists:
    """The lists of the owners a:b, counted from a."""
    ptr = lists.ptr[a : b + 1]
    items = {name: x[ptr[0] : ptr[-1]] for name, x in lists._asdict().items() if name != "ptr"}
    return lists._replace(ptr=ptr - ptr[0], **items)


class _Split(NamedTuple):
    """An incidence seen from its items, and the ranges of items that make equal pieces of work."""

    items: Transposed
    pieces: list[tuple[int, int]]


def _precise(lists: Any) -> Any:
    """The same lists with values in float64; slots, which are whole numbers, stay."""
    if isinstance(lists, _Split):
        return lists._replace(items=_precise(lists.items))
    return (
        lists
        if lists.value.dtype.kind == "i"
        else lists._replace(value=lists.value.astype(np.float64))
    )


class _Shard(NamedTuple):
    """The rows of a shard, seen from keys, dense features and other features."""

    keys: _Split
    dense: _Split
    sparse: _Split


class FeatureRows:
    """The linear map from the weights of some features to the rows of all tokens (or segments), and
    its adjoint."""

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
        """`slots` says where the value of each of the tokens' own features stands in what is passed
        from below (-1: it is 1); shards are the ranges of rows that are in memory together."""
        self.cells, self.width, self.dtype, self.has_slots = cells, width, dtype, slots is not None
        self.n_keys, self.keys = incidence.n_keys, incidence.keys
        many = np.diff(cells.ptr) * DENSE > width
        present = np.zeros(n_features, np.bool_)
        present[incidence.key_feature] = present[incidence.token_feature] = True
        self.dense = np.flatnonzero(many & present)  # [D]  features that have a row of their own
        number = np.full(n_features, -1, np.int32)
        number[self.dense] = np.arange(len(self.dense))
        of_tokens = _Features(
            incidence.token_ptr, incidence.token_feature, incidence.token_value.astype(dtype)
        )
        if slots is not None:
            of_tokens = of_tokens._replace(value=slots)
        elif len(of_tokens.value):  # CRFsuite gives False the value 0: often the rest is all ones
            of_tokens, _ = of_tokens.split(of_tokens.value != 0)
            if (of_tokens.value == 1).all():
                of_tokens = of_tokens._replace(value=np.empty(0, dtype))
        whole = number[of_tokens.feature] >= 0
        if whole.sum() < RARE * len(self.keys):
            whole[:] = False
        token_dense, token_sparse = of_tokens.split(whole)
        on_keys = _Features(incidence.key_ptr, incidence.key_feature, np.empty(0, dtype))
        key_dense, key_sparse = on_keys.split(number[incidence.key_feature] >= 0)
        token_dense, key_dense = (
            x._replace(feature=number[x.feature]) for x in (token_dense, key_dense)
        )
        self.token_rows, self.key_rows = RowLists(*token_dense), RowLists(*key_dense)
        self.token_cells, self.key_cells = token_sparse.cells(cells), key_sparse.cells(cells)
        self.pieces = even_ranges(incidence.key_ptr, PIECES)
        by_dense, by_feature, by_key = (
            Transposer(len(self.dense)),
            Transposer(n_features),
            Transposer(self.n_keys),
        )
        self.keys_of_dense = self._transposed(by_dense.transpose(*key_dense))
        self.keys_of_sparse = self._transposed(by_feature.transpose(*key_sparse))
        self.shards = []
        for a, b in shards:
            tokens = tokens_of_keys(incidence, by_key, a, b)
            keys = self._transposed(tokens._replace(value=np.empty(0, dtype)))
            of_dense = self._transposed(by_dense.transpose(*_part(token_dense, a, b)))
            of_sparse = self._transposed(by_feature.transpose(*_part(token_sparse, a, b)))
            self.shards.append(_Shard(keys, of_dense, of_sparse))
        self._allocate()

    @staticmethod
    def _transposed(items: Transposed) -> _Split:
        return _Split(items, even_ranges(items.ptr, PIECES))

    def _allocate(self) -> None:
        self.table = np.empty((self.n_keys, self.width), self.dtype)
        self.sums = np.empty_like(self.table)
        self.rows_of_dense = np.empty((len(self.dense), self.width), self.dtype)
        self.sums_of_dense = np.empty_like(self.rows_of_dense)

    def precise(self) -> "FeatureRows":
        """The same map in float64."""
        made = copy(self)
        made.dtype = np.float64
        made.token_rows, made.key_rows = _precise(self.token_rows), _precise(self.key_rows)
        made.token_cells, made.key_cells = _precise(self.token_cells), _precise(self.key_cells)
        made.keys_of_dense, made.keys_of_sparse = (
            _precise(self.keys_of_dense),
            _precise(self.keys_of_sparse),
        )
        made.shards = [_Shard(*map(_precise, shard)) for shard in self.shards]
        made._allocate()
        return made

    # -- scores ------------------------------------------------------------------------------------

    def begin(self, weights: Array, workers: Workers) -> None:
        """The rows of dense features and of keys under these weights."""
        ptr, column = self.cells
        ends = even_ranges(np.concatenate([[0], np.cumsum(np.diff(ptr)[self.dense])]), PIECES)
        spread = weights, ptr, column, self.dense, self.rows_of_dense
        workers.run(scoring.spread_cells, [(*spread, a, b) for a, b in ends])
        cells, dense = self.key_cells, self.key_rows
        lists = cells, cells.value, self.rows_of_dense, dense, dense.value
        workers.run(
            scoring.score_key_rows, [(weights, *lists, self.table, a, b) for a, b in self.pieces]
        )

    def score(self, weights: Array, a: int, b: int, rows: Array, below: Array | None) -> None:
        """Fill rows [b - a, width] with the scores of the tokens a:b."""
        cells, dense = _part(self.token_cells, a, b), _part(self.token_rows, a, b)
        of_cells, of_dense = self._values(cells.value, below), self._values(dense.value, below)
        lists = cells, of_cells, self.rows_of_dense, dense, of_dense
        scoring.score_rows(weights, self.keys[a:b], self.table, *lists, rows)

    def _values(self, value: Array, below: Array | None) -> Array:
        """Values of features, where need be from what the layer below passes."""
        if not self.has_slots:
            return value
        assert below is not None
        return below[value].astype(self.dtype)

    # -- gradient ----------------------------------------------------------------------------------

    def clear(self) -> None:
        """Begin a new gradient."""
        self.sums[:] = 0
        self.sums_of_dense[:] = 0

    def adding(self, shard: int, rows: Array, gradient: Array, below: Array | None) -> list[Task]:
        """Pieces of work that add the rows of a shard to the sums of keys and dense features, and
        to the gradient."""
        keys, dense, sparse = self.shards[shard]
        if self.has_slots:
            dense, sparse = (
                x._replace(items=x.items._replace(value=self._values(x.items.value, below)))
                for x in (dense, sparse)
            )
        return [
            *self._pooling(keys, rows, self.sums),
            *self._pooling(dense, rows, self.sums_of_dense),
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
        return [(scoring.pool_rows, *t, rows, sums, a, b) for a, b in transposed.pieces]

    def _collecting(self, transposed: _Split, rows: Array, gradient: Array) -> list[Task]:
        t = transposed.items
        arguments = t.item, t.ptr, t.owner, t.value, rows, *self.cells, gradient
        return [(scoring.collect, *arguments, a, b) for a, b in transposed.pieces]

    def value_gradient(self, weights: Array, a: int, b: int, rows: Array, gradient: Array) -> None:
        """Add the derivatives by the values that were passed from below, given those by the rows of
        tokens a:b."""
        if self.has_slots:
            cells, dense = self.token_cells, self.token_rows
            lists = cells, cells.value, self.rows_of_dense, dense, dense.value
            scoring.value_gradient(weights, *lists, a, b, rows, gradient)
