"""Instances with their classes, stored so that queries are answered fast.

A Memory is sorted, with a trie over its rows (kernels.neighbours).  An IGTree is a decision tree,
one column a level, the most informative column first: a query descends by its values as far as the
tree has them, and the classes of the last node that it reaches are the answer.  A node is kept only
if its class differs from that of its parent, or if a node below it is kept: the tree holds the
exceptions to the classes of its upper nodes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.kernels import neighbours as kernels
from labelwright.memory.instances import Instances
from labelwright.memory.weights import (
    NUMERIC,
    WEIGHTS,
    ColumnCodes,
    Contingency,
    Distances,
    binned,
    column_codes,
    counted_keys,
    counts,
    distances,
    entries_of,
    gain_ratio,
)

Array = NDArray[Any]


class Grouped(NamedTuple):
    """Equal instances as groups."""

    ptr: Array  # [M+1] int64  the instances of each row ...
    members: Array  # [instances] int32  ... in their order in the data


class Groups(NamedTuple):
    """The classes of the instances that share a row."""

    ptr: Any  # [M+1] int64
    classes: Any  # [E] int32
    count: Any  # [E] float64
    frequency: Any  # [C] float64  of each class among all instances


class Trie(NamedTuple):
    """Rows in lexicographic order, and the nodes above them level by level: the children of a node
    stand together."""

    columns: Any  # [F, M] int32  the codes of each column, row by row
    begin: Any  # [nodes] int32  its rows
    end: Any  # [nodes] int32
    code: Any  # [nodes] int32  what they have in the last column that they share
    # [nodes+1] int32  its children are child[n]:child[n+1]; none: its rows are looked at one by one
    child: Any


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
    """Learn weights and distances of values from instances and their classes [M]; `names` of
    columns are for error messages, and `often` [M] is how many times each instance counts."""
    tables, columns = [], []
    for i, (metric, values) in enumerate(zip(metrics, data.values, strict=True)):
        codes, place = data.codes[:, i], f"column {i if names is None else names[i]}"
        table = counts(codes, len(values), classes, n_classes, often)
        columns.append(column_codes(metric, values, table, threshold, place))
        if metric == "numeric":
            bins = binned(columns[-1].number)
            table = counts(
                bins[codes].astype(np.int32), int(bins.max()) + 1, classes, n_classes, often
            )
        tables.append(table)
    if isinstance(weights, str):
        return Learnt(columns, tables, np.array([WEIGHTS[weights](table) for table in tables]))
    return Learnt(columns, tables, weights)


def memory(
    learnt: Learnt, data: Instances, classes: Array, n_classes: int, often: Array | None = None
) -> Memory:
    """Sort instances with their classes [M] into a memory."""
    columns, tables, weight = learnt
    order = np.lexsort((np.array([c.n_codes for c in columns]), -weight))
    informative = [
        gain_ratio(table) / len(values) for table, values in zip(tables, data.values, strict=True)
    ]
    fixed = np.argsort(-np.array(informative), kind="stable")
    rows, members = grouped(np.stack([columns[i].code_of[data.codes[:, i]] for i in order], axis=1))
    in_order = [columns[i] for i in order]
    return Memory(
        order,
        [column.code_of for column in in_order],
        distances(in_order, weight[order], np.argsort(order)[fixed], n_classes, len(rows)),
        members,
        class_groups(members, classes, n_classes, often),
        trie(rows),
    )


# -- sorted rows and their trie --------------------------------------------------------------------

SMALL = 128  # nodes of so many rows are not split further


def grouped(codes: Array) -> tuple[Array, Grouped]:
    """The distinct rows [M, F] of codes [instances, F] in lexicographic order, and the instances of
    each."""
    order = np.lexsort(codes.T[::-1])
    rows = codes[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    ptr = np.append(starts, len(rows)).astype(np.int64)
    return rows[starts], Grouped(ptr, order.astype(np.int32))


def class_groups(
    grouped: Grouped, classes: Array, n_classes: int, often: Array | None = None
) -> Groups:
    """The classes of the instances of each row, and the frequency of each class; `often` is how
    many times each instance counts."""
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


# -- IGTree ----------------------------------------------------------------------------------------


class IGTree(NamedTuple):
    """Nodes level by level: the children of a node are contiguous, in the order of their values;
    model files name their tensors after these fields."""

    order: Array  # [F]  columns, the most informative first
    left: Array  # [F+1] float64  the summed weights of the remaining columns, after so many
    code: Array  # [nodes] int32  the value that leads to a node
    child: Array  # [nodes+1] int32  its children are child[n]:child[n+1]
    best: Array  # [nodes] int32  the most frequent class of its instances
    ptr: Array  # [nodes+1] int64  all classes of its instances ...
    classes: Array  # int32
    often: Array  # float64  ... and how often each occurs

    @property
    def n_bytes(self) -> int:
        return sum(a.nbytes for a in self)


def igtree(
    codes: Array, classes: Array, n_classes: int, weights: Array, often: Array | None = None
) -> IGTree:
    """The tree of instances: codes [M, F] of their values, their classes [M], and how many times
    each counts [M]."""
    order = np.argsort(-weights, kind="stable")
    frequency = np.bincount(classes, often, n_classes)
    nodes = np.zeros(len(codes), np.int64)  # [M]  the node of this level that has each instance
    kept = np.arange(len(codes))  # instances of nodes that are split
    code, sizes, levels = [np.array([-1])], [], list[_Level]()
    n_nodes = 1
    for column in [*order, None]:
        within = None if often is None else often[kept]
        level = _classes_of(nodes, classes[kept], n_nodes, n_classes, frequency, within)
        levels.append(level)
        if column is None:
            break
        inside = (level.sizes > 1)[nodes]
        kept, nodes = kept[inside], nodes[inside]
        width = int(codes[:, column].max()) + 1
        keys, nodes = np.unique(nodes * width + codes[kept, column], return_inverse=True)
        sizes.append(np.bincount(keys // width, minlength=n_nodes))
        n_nodes = len(keys)
        if n_nodes == 0:
            break
        code.append(keys % width)
    sizes.append(np.zeros(n_nodes if len(sizes) == len(order) else 0, np.int64))
    left = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    return _pruned(order, left, np.concatenate(code), np.concatenate(sizes), levels)


class _Level(NamedTuple):
    """The nodes of a level: the class of each, how many classes it has, which, and how often they
    occur."""

    best: Array
    sizes: Array
    classes: Array
    often: Array


def _classes_of(
    nodes: Array,
    classes: Array,
    n_nodes: int,
    n_classes: int,
    frequency: Array,
    often: Array | None,
) -> _Level:
    """The classes of the instances of each node; the most frequent one, of several the one that is
    more frequent in all instances, then the first seen."""
    keys, count = counted_keys(nodes * n_classes + classes, often)
    node, cls = keys // n_classes, keys % n_classes
    ranked = np.lexsort((cls, -frequency[cls], -count, node))
    first = (
        np.flatnonzero(np.append(True, node[ranked][1:] != node[ranked][:-1]))
        if len(keys)
        else ranked
    )
    return _Level(cls[ranked][first], np.bincount(node, minlength=n_nodes), cls, count)


def _pruned(order: Array, left: Array, code: Array, sizes: Array, levels: list[_Level]) -> IGTree:
    """The tree without the nodes whose class is that of their parent."""
    best, lengths, classes, often = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    parent = np.repeat(np.arange(len(sizes)), sizes)  # of all nodes but the root
    stays = np.append(True, best[1:] != best[parent])
    ends = np.cumsum([len(level.best) for level in levels])
    for begin, end in zip(ends[:-1][::-1].tolist(), ends[1:][::-1].tolist(), strict=True):
        stays[parent[begin - 1 : end - 1][stays[begin:end]]] = True
    listed = np.repeat(stays, lengths)
    kept = np.bincount(parent[stays[1:]], minlength=len(sizes))[stays]
    return IGTree(
        order,
        left,
        code[stays].astype(np.int32),
        np.concatenate([[1], 1 + np.cumsum(kept)]).astype(np.int32),
        best[stays].astype(np.int32),
        offsets_from(lengths[stays]),
        classes[listed].astype(np.int32),
        often[listed].astype(np.float64),
    )


class Answers(NamedTuple):
    """The answers to Q queries."""

    best: Array  # [Q] int32  class
    distance: Array  # [Q] float64  of the nearest instance
    ptr: Array  # [Q+1] int64
    classes: Array  # int32  the classes of the neighbourhood of each query
    votes: Array  # float64  and the votes for each


def ask(tree: IGTree, codes: Array) -> Answers:
    """The classes of queries: codes [Q, F] of their values (-1: unknown); the distance is the
    summed weight of the remaining columns."""
    n = len(codes)
    reached, levels = np.empty(n, np.int32), np.empty(n, np.int64)
    kernels.descend(
        tree.code, tree.child, np.ascontiguousarray(codes[:, tree.order]), reached, levels
    )
    ptr, places = entries_of(tree.ptr, reached)
    return Answers(
        tree.best[reached],
        tree.left[len(tree.order) - levels],
        ptr,
        tree.classes[places],
        tree.often[places],
    )
