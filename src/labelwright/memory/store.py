"""The memory: instances with their classes, weighted and sorted so that the nearest are found fast."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels.neighbours import Groups, Trie
from labelwright.kernels.values import NUMERIC, Distances
from labelwright.memory.distances import ColumnCodes, column, distances
from labelwright.memory.instances import Instances
from labelwright.memory.trie import Grouped, class_groups, grouped, trie
from labelwright.memory.weights import WEIGHTS, Contingency, binned, counts, gain_ratio

Array = NDArray[Any]


class Memory(NamedTuple):
    """A trained memory; model files name their tensors after its parts and their fields."""

    order: Array  # [F]  columns in the order of the search
    code_of: list[Array]  # [F]  the codes of the values of each, in the order of the search
    distances: Distances
    grouped: Grouped
    groups: Groups
    trie: Trie

    @property
    def n_bytes(self) -> int:
        """What the search holds in memory."""
        arrays = [*self.distances, *self.grouped, *self.groups, *self.trie, *self.code_of]
        return sum(a.nbytes for a in {id(a): a for a in arrays}.values())

    @property
    def numeric(self) -> list[int]:
        """The columns that hold numbers."""
        return sorted(self.order[self.distances.kind == NUMERIC].tolist())


class Learnt(NamedTuple):
    """What is learnt from the columns [F] about the classes."""

    columns: list[ColumnCodes]
    tables: list[Contingency]
    weights: Array  # [F]


def learn(
    data: Instances,
    classes: Array,
    n_classes: int,
    metrics: tuple[str, ...],
    threshold: int,
    weights: str | Array,
    names: Sequence[str] | None = None,
    often: Array | None = None,
) -> Learnt:
    """Learn weights and distances of values from instances and their classes [M]; `names` of columns are for error
    messages, and `often` [M] is how many times each instance counts."""
    tables, columns = [], []
    for i, (metric, values) in enumerate(zip(metrics, data.values, strict=True)):
        codes, place = data.codes[:, i], f"column {i if names is None else names[i]}"
        table = counts(codes, len(values), classes, n_classes, often)
        columns.append(column(metric, values, table, threshold, place))
        if metric == "numeric":
            bins = binned(columns[-1].number)
            table = counts(bins[codes].astype(np.int32), int(bins.max()) + 1, classes, n_classes, often)
        tables.append(table)
    return Learnt(columns, tables, feature_weights(tables, weights))


def memory(learnt: Learnt, data: Instances, classes: Array, n_classes: int, often: Array | None = None) -> Memory:
    """Sort instances with their classes [M] into a memory."""
    columns, tables, weight = learnt
    order = np.lexsort((np.array([c.n_codes for c in columns]), -weight))
    informative = [gain_ratio(table) / len(values) for table, values in zip(tables, data.values, strict=True)]
    fixed = np.argsort(-np.array(informative), kind="stable")
    place_of = np.empty(len(order), np.int64)
    place_of[order] = np.arange(len(order))
    rows, members = grouped(np.stack([columns[i].code_of[data.codes[:, i]] for i in order], axis=1))
    sorted_columns = [columns[i] for i in order]
    return Memory(
        order,
        [column.code_of for column in sorted_columns],
        distances(sorted_columns, weight[order], place_of[fixed], n_classes, len(rows)),
        members,
        class_groups(members, classes, n_classes, often),
        trie(rows),
    )


def feature_weights(tables: list[Contingency], weights: str | Array) -> Array:
    """The weight of each column [F], by name or as given."""
    if isinstance(weights, str):
        return np.array([WEIGHTS[weights](table) for table in tables])
    return np.asarray(weights, np.float64)
