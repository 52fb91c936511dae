"""Sums of rows by lists of their numbers: the linear map from weights to rows of scores of tokens, and its adjoint.

A bag is a list of rows that are summed.  Long ones are cut into pieces, whose sums are summed in turn: frequent
features neither take longer than others nor are added up in an order that changes.

Scores:    weights -> table of features and, from these, of keys -> rows of tokens
Gradient:  rows of tokens -> sums per feature and key -> sums per feature -> gradient
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.device.place import Place, Tensor, torch
from labelwright.features.incidence import Incidence, Transposer
from labelwright.kernels.common import ranges
from labelwright.scoring.parameters import Cells

Array = NDArray[Any]
PIECE = 64  # rows of a bag that are summed at a time
TABLE_NUMBERS = 1 << 29  # of a table; where it would have more, its columns are done in parts


class Bags(NamedTuple):
    """out[i] = the sum of value * rows[index] over the entries of bag i."""

    levels: list[tuple[Tensor, Tensor]]  # index and ptr of pieces, then of their sums
    value: Tensor | None  # of the entries; None: all are one

    @staticmethod
    def of(place: Place, ptr: Array, index: Array, value: Array) -> "Bags":
        """Bag i has the entries index[ptr[i]:ptr[i+1]]; an empty `value` means that all are one."""
        levels = []
        while np.diff(ptr).max(initial=0) > PIECE:
            n_pieces = -(-np.diff(ptr) // PIECE)
            bag, number = runs_of(np.zeros_like(n_pieces), n_pieces)
            levels.append((index, np.append(ptr[bag] + PIECE * number, ptr[-1])))
            ptr = offsets_from(n_pieces)
            index = np.arange(ptr[-1])
        levels.append((index, ptr))
        tensors = [(place.tensor(i.astype(np.int32)), place.tensor(p.astype(np.int32))) for i, p in levels]
        return Bags(tensors, place.tensor(value) if len(value) else None)

    def sums(self, rows: Tensor) -> Tensor:
        """The sums [bags, width] of rows [n, width]."""
        value = None if self.value is None else self.value.to(rows.dtype)
        for index, ptr in self.levels:
            rows = torch.embedding_bag(rows, index, ptr, False, 0, False, value, True)[0]
            value = None
        return rows


class Adjoint(NamedTuple):
    """The sums of rows that an item has, for each item that has some."""

    item: Tensor  # [n]
    bags: Bags

    @staticmethod
    def of(place: Place, n_items: int, ptr: Array, index: Array, value: Array) -> "Adjoint":
        """The adjoint of bags."""
        item, starts, owner, values = Transposer(n_items).transpose(ptr, index.astype(np.int32), value)
        return Adjoint(place.tensor(item.astype(np.int64)), Bags.of(place, starts, owner, values))

    def add(self, rows: Tensor, sums: Tensor) -> None:
        """sums[item] += the sum of its rows."""
        sums.index_add_(0, self.item, self.bags.sums(rows))  # every item once: in no order


class Columns(NamedTuple):
    """Some columns of a table, and the weights that stand there."""

    begin: int
    end: int
    weight: Tensor | None  # [n]  which weights these are; None: all
    place: Tensor  # [n]  where they stand in the table of these columns


class ShardRows(NamedTuple):
    """The features of the rows of a shard."""

    tokens: Bags
    adjoint: Adjoint


class Features:
    """The features on states, pairs or triples."""

    def __init__(self, place: Place, incidence: Incidence, cells: Cells, width: int):
        """Rows have `width` columns; those without a cell are 0."""
        self.place, self.width = place, width
        sizes = np.diff(cells.ptr)
        number = np.where(sizes > 0, np.cumsum(sizes > 0) - 1, -1)  # [F]  features with weights
        self.n_features, self.n_keys = int((sizes > 0).sum()), incidence.n_keys
        none = np.empty(0, np.float32)
        ptr, feature, _ = _kept(incidence.key_ptr, number[incidence.key_feature], none)
        self.keys = Bags.of(place, ptr, feature, none)
        self.keys_adjoint = Adjoint.of(place, self.n_features, ptr, feature, none)
        self.lists = self._lists(incidence, number)
        row = np.repeat(number, sizes)
        n_rows = max(1, self.n_features + self.n_keys)
        n_parts = min(width, -(-n_rows * width // TABLE_NUMBERS))
        cuts = np.linspace(0, width, n_parts + 1).astype(int).tolist()
        self.parts = []
        for a, b in pairwise(cuts):
            chosen = np.flatnonzero((cells.column >= a) & (cells.column < b))
            at = row[chosen] * np.int64(b - a) + cells.column[chosen] - a
            weight = None if n_parts == 1 else place.tensor(chosen)
            self.parts.append(Columns(a, b, weight, place.tensor(at)))
        self.n_rows = n_rows

    def _lists(self, incidence: Incidence, number: Array) -> tuple[Array, Array, Array]:
        """The features of all tokens as rows of the table, where keys follow features: ptr, row, value."""
        keys, _, _, token_ptr, token_feature, token_value = incidence
        token_ptr, feature, value = _kept(token_ptr, number[token_feature], token_value)
        has_key = keys >= 0
        n_keys, n_own = has_key.sum(axis=1), np.diff(token_ptr)
        ptr = offsets_from(n_keys + n_own)
        row = np.empty(ptr[-1], np.int32)
        row[ranges(ptr[:-1], n_keys)] = self.n_features + keys[has_key]
        at_own = ranges(ptr[:-1] + n_keys, n_own)
        row[at_own] = feature
        if not len(token_value):
            return ptr, row, token_value
        values = np.ones(len(row), value.dtype)
        values[at_own] = value
        return ptr, row, values

    def shard(self, token: Array) -> ShardRows:
        """The features of these tokens, in this order."""
        ptr, row, value = self.lists
        sizes = np.diff(ptr)[token]
        entries = ranges(ptr[token], sizes)
        lists = offsets_from(sizes), row[entries], value[entries] if len(value) else value
        return ShardRows(Bags.of(self.place, *lists), Adjoint.of(self.place, self.n_rows, *lists))

    def score(self, weights: Tensor, shard: ShardRows, rows: Tensor) -> None:
        """Fill rows [T, width] with scores."""
        F = self.n_features
        for begin, end, weight, at in self.parts:
            table = weights.new_zeros(self.n_rows, end - begin)
            table.view(-1).index_copy_(0, at, weights if weight is None else weights.index_select(0, weight))
            if self.n_keys:
                table[F:] = self.keys.sums(table[:F])
            rows[:, begin:end] = shard.tokens.sums(table)

    def collect(self, rows: Tensor, shard: ShardRows, gradient: Tensor) -> None:
        """Add to the gradient what rows [T, width] have of each weight."""
        F = self.n_features
        for begin, end, weight, at in self.parts:
            sums = rows.new_zeros(self.n_rows, end - begin)
            shard.adjoint.add(rows[:, begin:end].contiguous(), sums)
            if self.n_keys:
                self.keys_adjoint.add(sums[F:], sums[:F])
            of_weights = sums.view(-1).index_select(0, at)
            if weight is None:
                gradient += of_weights
            else:
                gradient.index_add_(0, weight, of_weights)


def _kept(ptr: Array, items: Array, value: Array) -> tuple[Array, Array, Array]:
    """Lists without the items below 0."""
    kept = items >= 0
    if kept.all():
        return ptr, items, value
    return np.concatenate([[0], np.cumsum(kept)])[ptr], items[kept], value[kept] if len(value) else value
