"""IGTree: instances compressed into a decision tree, one column a level, the most informative column first.

A query descends by its values as far as the tree has them; the classes of the last node that it reaches are the answer.
A node is kept only if its class differs from that of its parent, or if a node below it is kept: the tree holds the
exceptions to the classes of its upper nodes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.kernels import neighbours as kernels
from labelwright.memory.search import Answers
from labelwright.memory.trie import entries_of
from labelwright.memory.weights import counted_keys

Array = NDArray[Any]


class IGTree(NamedTuple):
    """Nodes level by level: the children of a node are contiguous, in the order of their values; model files name their
    tensors after these fields."""

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
        """What the tree holds in memory."""
        return sum(a.nbytes for a in self)


def igtree(codes: Array, classes: Array, n_classes: int, weights: Array, often: Array | None = None) -> IGTree:
    """The tree of instances: codes [M, F] of their values, their classes [M], and how many times each counts [M]."""
    order = np.argsort(-weights, kind="stable")
    frequency = np.bincount(classes, often, n_classes)
    nodes = np.zeros(len(codes), np.int64)  # [M]  the node of this level that has each instance
    kept = np.arange(len(codes))  # instances of nodes that are split
    code, sizes, tables = [np.array([-1])], [], []
    n_nodes = 1
    for column in [*order, None]:
        within = None if often is None else often[kept]
        table = _classes_of(nodes, classes[kept], n_nodes, n_classes, frequency, within)
        tables.append(table)
        if column is None:
            break
        mixed = np.diff(table.ptr) > 1
        inside = mixed[nodes]
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
    return _pruned(order, left, np.concatenate(code), np.concatenate(sizes), tables)


def _pruned(order: Array, left: Array, code: Array, sizes: Array, tables: list["_Level"]) -> IGTree:
    """The tree without the nodes whose class is that of their parent."""
    best = np.concatenate([table.best for table in tables])
    parent = np.repeat(np.arange(len(sizes)), sizes)  # of all nodes but the root
    stays = np.append(True, best[1:] != best[parent])
    ends = np.cumsum([len(table.best) for table in tables])
    for begin, end in zip(ends[:-1][::-1].tolist(), ends[1:][::-1].tolist(), strict=True):
        stays[parent[begin - 1 : end - 1][stays[begin:end]]] = True
    lengths = np.concatenate([np.diff(table.ptr) for table in tables])
    listed = np.repeat(stays, lengths)
    kept = np.bincount(parent[stays[1:]], minlength=len(sizes))[stays]
    return IGTree(
        order,
        left,
        code[stays].astype(np.int32),
        np.concatenate([[1], 1 + np.cumsum(kept)]).astype(np.int32),
        best[stays].astype(np.int32),
        offsets_from(lengths[stays]),
        np.concatenate([table.classes for table in tables])[listed].astype(np.int32),
        np.concatenate([table.often for table in tables])[listed].astype(np.float64),
    )


class _Level(NamedTuple):
    best: Array
    ptr: Array
    classes: Array
    often: Array


def _classes_of(
    nodes: Array, classes: Array, n_nodes: int, n_classes: int, frequency: Array, often: Array | None
) -> _Level:
    """The classes of the instances of each node; the most frequent one, of several the one that is more frequent in all
    instances, then the first seen."""
    keys, count = counted_keys(nodes * n_classes + classes, often)
    node, cls = keys // n_classes, keys % n_classes
    ranked = np.lexsort((cls, -frequency[cls], -count, node))
    first = np.flatnonzero(np.append(True, node[ranked][1:] != node[ranked][:-1])) if len(keys) else ranked
    return _Level(cls[ranked][first], np.searchsorted(node, np.arange(n_nodes + 1)), cls, count)


def ask(tree: IGTree, codes: Array) -> Answers:
    """The classes of queries: codes [Q, F] of their values (-1: unknown); the distance is the summed weight of the
    remaining columns."""
    n = len(codes)
    reached, levels = np.empty(n, np.int32), np.empty(n, np.int64)
    kernels.descend(tree.code, tree.child, np.ascontiguousarray(codes[:, tree.order]), reached, levels)
    ptr, places = entries_of(tree.ptr, reached)
    return Answers(
        tree.best[reached], tree.left[len(tree.order) - levels], ptr, tree.classes[places], tree.often[places]
    )
