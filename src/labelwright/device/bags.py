"""Sums of rows by lists of their numbers: the linear map from weights to rows of scores of tokens,
and its adjoint.

A bag is a list of rows that are summed.  Long ones are cut into pieces, whose sums are summed in
turn: frequent features neither take longer than others nor are added up in an order that changes.

Scores:    weights -> table of features and, from these, of keys -> rows of tokens
Gradient:  rows of tokens -> sums per feature and key -> sums per feature -> gradient
"""

from typing import NamedTuple

import numpy as np

from labelwright.arrays import ranges
from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.device.place import Array, Place, Tensor, mapped, torch
from labelwright.features.incidence import NO_VALUES, Incidence, Transposer
from labelwright.learn.objective import SHARED
from labelwright.scoring.assembly import tables_for
from labelwright.scoring.parameters import Cells

PIECE = 64  # rows of a bag that are summed at a time


class Bags(NamedTuple):
    """out[i] = the sum of value * rows[index] over the entries of bag i; arrays, or tensors on a
    device."""

    levels: list[tuple[Tensor, Tensor]]  # index and ptr of pieces, then of their sums
    value: Tensor | None  # of the entries; None: all are one

    @staticmethod
    def of(ptr: Array, index: Array, value: Array = NO_VALUES) -> "Bags":
        """Bag i has the entries index[ptr[i]:ptr[i+1]]; an empty `value` means that all are one."""
        levels = []
        while np.diff(ptr).max(initial=0) > PIECE:
            n_pieces = -(-np.diff(ptr) // PIECE)
            bag, number = runs_of(np.zeros_like(n_pieces), n_pieces)
            levels.append(
                (
                    index.astype(np.int32),
                    np.append(ptr[bag] + PIECE * number, ptr[-1]).astype(np.int32),
                )
            )
            ptr = offsets_from(n_pieces)
            index = np.arange(ptr[-1])
        levels.append((index.astype(np.int32), ptr.astype(np.int32)))
        return Bags(levels, value if len(value) else None)

    def sums(self, rows: Tensor) -> Tensor:
        """The sums [bags, width] of rows [n, width]."""
        if not rows.shape[1]:  # no weights: embedding_bag refuses this on some processors
            return rows.new_zeros(len(self.levels[-1][1]) - 1, 0)
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
    def of(n_items: int, ptr: Array, index: Array, value: Array = NO_VALUES) -> "Adjoint":
        """The adjoint of bags."""
        item, starts, owner, values = Transposer(n_items).transpose(
            ptr, index.astype(np.int32), value
        )
        return Adjoint(item.astype(np.int64), Bags.of(starts, owner, values))

    def add(self, rows: Tensor, sums: Tensor) -> None:
        """sums[item] += the sum of its rows."""
        sums.index_add_(0, self.item, self.bags.sums(rows))  # every item once: in no order


class Features:
    """The features on states, pairs or triples."""

    def __init__(self, place: Place, incidence: Incidence, cells: Cells, n_codes: int):
        """Scores are those of `n_codes` states, pairs or triples; tables have the columns of those
        with weights."""
        has_weight, sizes = np.zeros(n_codes, np.bool_), np.diff(cells.ptr)
        has_weight[cells.column] = True
        used, column, self.width = (
            np.flatnonzero(has_weight),
            np.cumsum(has_weight) - 1,
            int(has_weight.sum()),
        )
        self.used = None if has_weight.all() else place.tensor(used)
        self.spread = place.tensor(np.where(has_weight, column, self.width))
        incidence = tables_for({"": incidence}, {"": self.width}, shared=SHARED)[""]
        self.n_features, self.n_keys = len(sizes), incidence.n_keys
        self.n_rows = self.n_features + self.n_keys  # of the table, where keys follow features
        lists = incidence.key_ptr, incidence.key_feature
        self.keys, self.keys_adjoint = mapped(
            (Bags.of(*lists), Adjoint.of(self.n_features, *lists)), place.tensor
        )
        self.at = place.tensor(
            np.repeat(np.arange(len(sizes)), sizes) * self.width + column[cells.column]
        )
        self.lists = self._lists(incidence)

    def _lists(self, incidence: Incidence) -> tuple[Array, Array, Array]:
        """The features of all tokens as rows of the table: ptr, row, value."""
        keys, _, _, token_ptr, feature, value = incidence
        n_keys, n_own = (keys >= 0).sum(axis=1), np.diff(token_ptr)
        ptr = offsets_from(n_keys + n_own)
        row, at_own = np.empty(ptr[-1], np.int32), ranges(ptr[:-1] + n_keys, n_own)
        row[ranges(ptr[:-1], n_keys)] = self.n_features + keys[keys >= 0]
        row[at_own] = feature
        if len(value):
            values = np.ones(len(row), value.dtype)
            values[at_own], value = value, values
        return ptr, row, value

    def of(self, token: Array) -> tuple[Bags, Adjoint]:
        """The features of these tokens, in this order."""
        lists = lists_of(token, *self.lists)
        return Bags.of(*lists), Adjoint.of(self.n_rows, *lists)

    def scores(self, weights: Tensor, tokens: Bags) -> Tensor:
        """The scores [T, codes] of tokens."""
        table = weights.new_zeros(self.n_rows, self.width)
        table.view(-1).index_copy_(0, self.at, weights)
        if self.n_keys:
            table[self.n_features :] = self.keys.sums(table[: self.n_features])
        rows = tokens.sums(table)
        return (
            rows
            if self.used is None
            else torch.nn.functional.pad(rows, (0, 1)).index_select(1, self.spread)
        )

    def collect(self, rows: Tensor, tokens: Adjoint, gradient: Tensor) -> None:
        """Add to the gradient what rows [T, codes] have of each weight."""
        sums = rows.new_zeros(self.n_rows, self.width)
        tokens.add(rows if self.used is None else rows.index_select(1, self.used), sums)
        if self.n_keys:
            self.keys_adjoint.add(sums[self.n_features :], sums[: self.n_features])
        gradient += sums.view(-1).index_select(0, self.at)


def lists_of(which: Array, ptr: Array, items: Array, value: Array) -> tuple[Array, Array, Array]:
    """Some of the lists items[ptr[k]:ptr[k+1]], with the values of their items; an empty `value`
    stays so."""
    sizes = np.diff(ptr)[which]
    entries = ranges(ptr[which], sizes)
    return offsets_from(sizes), items[entries], value[entries] if len(value) else value
