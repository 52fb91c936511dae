"""Instances and what the search needs of them as tensors, and back, every index checked.

    codes [M, F]  targets [M]  weights [F]  values{i}  seen
        the instances, their classes, the weights of columns
    order [F]  column{i}.code_of  distances.*  grouped.*  groups.*  trie.*
        a Memory (kernels.neighbours), or
    tree.*
        an IGTree

Values and classes are stored as JSON, which keeps strings and numbers apart.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError
from labelwright.memory.instances import Instances
from labelwright.memory.store import Grouped, Groups, IGTree, Memory, Trie
from labelwright.memory.weights import FARTHEST, LEAST_SHARE, NUMERIC, Distances
from labelwright.modelfile import (
    TensorReader,
    check_distinct,
    check_indices,
    pack_strings,
    read_strings,
)

Array = NDArray[Any]
PLAIN = str | int | float | bool
PARTS = ("distances", "grouped", "groups", "trie")  # of a Memory
HEAVIEST = 1e100  # weight of a column: distances stay finite


class Remembered(NamedTuple):
    """All that a memory-based model has learnt."""

    data: Instances
    targets: Array  # [M] int32  classes of the instances, in order of first appearance
    seen: list[Any]  # [C]  and what they are
    often: Array | None  # [M]  how many times each instance counts; None: once
    weights: Array  # [F]  of columns
    searched: Memory | IGTree

    def tensors(self) -> dict[str, Array]:
        tensors = {"targets": self.targets, "codes": self.data.codes, "weights": self.weights}
        tensors |= {} if self.often is None else {"often": self.often}
        for name, values in [
            ("seen", self.seen),
            *((f"values{i}", v) for i, v in enumerate(self.data.values)),
        ]:
            tensors[f"{name}.text"], tensors[f"{name}.offsets"] = pack_strings(
                [_text(value) for value in values]
            )
        index = self.searched
        if isinstance(index, IGTree):
            return tensors | {f"tree.{name}": array for name, array in index._asdict().items()}
        for part in PARTS:
            tensors |= {
                f"{part}.{name}": array for name, array in getattr(index, part)._asdict().items()
            }
        return (
            tensors
            | {"order": index.order}
            | {f"column{i}.code_of": code for i, code in enumerate(index.code_of)}
        )


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, PLAIN):
        raise ModelFileError(
            f"the model holds a value of type {type(value).__name__}, and a file only strings and "
            "numbers; pickle it"
        )
    return json.dumps(value)


def read_remembered(tensors: TensorReader, F: int) -> Remembered:
    """What `Remembered.tensors` stored of instances with so many columns."""
    known: dict[str, Any] = {}  # a value that several columns have is one object
    seen = _read_values(tensors, "seen", {})
    if not seen or any(value != value for value in seen):
        raise tensors.refuse("seen", "one class or more, none of them NaN")
    codes = tensors.array("codes", np.int32, None, F)
    M, C = len(codes), len(seen)
    targets = tensors.indices("targets", np.int32, C, M)
    if not M or not F:
        raise tensors.refuse("codes", "one instance and one column or more")
    values = tuple(_read_values(tensors, f"values{i}", known) for i in range(F))
    for i, of_column in enumerate(values):
        check_indices(f"{tensors.prefix}codes", codes[:, i], len(of_column))
    often, votes = None, (1.0, float(M))  # the least and the sum of the votes of instances
    if "often" in tensors:
        often = tensors.numbers("often", np.float64, M, least=math.ulp(0.0), most=HEAVIEST)
        votes = float(often.min()), float(often.sum()) * (1 + 1e-9)
    index = (_read_tree if "tree.code" in tensors else _read_memory)(tensors, values, M, C, votes)
    weights = tensors.numbers("weights", np.float64, F, least=0, most=HEAVIEST)
    return Remembered(Instances(values, codes), targets, seen, often, weights, index)


def _read_values(tensors: TensorReader, name: str, known: dict[str, Any]) -> list[Any]:
    """Distinct strings and numbers, which JSON holds."""
    values = []
    for text in read_strings(tensors, name):
        if text not in known:
            try:
                known[text] = json.loads(text)
            except (ValueError, RecursionError):
                known[text] = None
            if not isinstance(known[text], PLAIN):
                raise tensors.refuse(name, f"strings and numbers in JSON, got {text!r:.40}")
        values.append(known[text])
    check_distinct(f"{tensors.prefix}{name}", values)
    return values


Votes = tuple[float, float]
Values = Sequence[Sequence[Any]]  # [F]


def _read_tree(tensors: TensorReader, values: Values, M: int, C: int, votes: Votes) -> IGTree:
    tree, F = tensors.part("tree."), len(values)
    child = tree.children("child")
    n = len(child) - 1
    code = tree.array("code", np.int32, n)
    tree.rising("code", child)
    classes = tree.indices("classes", np.int32, C, None)
    return IGTree(
        order=tree.permutation("order", np.int64, F),
        left=tree.numbers("left", np.float64, F + 1, least=0),
        code=code,
        child=child,
        best=tree.indices("best", np.int32, C, n),
        ptr=tree.pointers("ptr", n, len(classes), least=1),
        classes=classes,
        often=tree.numbers("often", np.float64, len(classes), least=votes[0], most=votes[1]),
    )


def _read_memory(tensors: TensorReader, values: Values, N: int, C: int, votes: Votes) -> Memory:
    order = tensors.permutation("order", np.int64, len(values))
    distances = _read_distances(tensors.part("distances."), len(values), C)
    sizes = np.diff(distances.first)  # [F]  codes of each column, in the order of the search
    code_of = [
        tensors.indices(f"column{i}.code_of", np.int32, sizes[i], len(values[c]))
        for i, c in enumerate(order)
    ]
    trie = _read_trie(tensors.part("trie."), sizes)
    M = trie.columns.shape[1]
    g = tensors.part("grouped.")
    grouped = Grouped(g.pointers("ptr", M, N, least=1), g.permutation("members", np.int32, N))
    g = tensors.part("groups.")
    classes = g.indices("classes", np.int32, C, None)
    groups = Groups(
        ptr=g.pointers("ptr", M, len(classes), least=1),
        classes=classes,
        count=g.numbers("count", np.float64, len(classes), least=votes[0], most=votes[1]),
        frequency=g.numbers("frequency", np.float64, C, least=0, most=votes[1]),
    )
    if not np.allclose(
        groups.frequency, np.bincount(classes, groups.count, C), rtol=1e-9, atol=0.0
    ):
        raise g.refuse("frequency", "the sums of groups.count")
    return Memory(order, code_of, distances, grouped, groups, trie)


def _read_trie(tensors: TensorReader, sizes: Array) -> Trie:
    """The trie of rows whose columns have so many codes [F]: children share out the rows of their
    parent, a node at level i + 1 has the code of column i of its first row, and no node lies below
    the last column."""
    columns = tensors.indices("columns", np.int32, sizes[:, None], len(sizes), None)
    child = tensors.children("child")
    n = len(child) - 1
    begin, end, code = (tensors.array(name, np.int32, n) for name in ("begin", "end", "code"))
    has = child[1:] > child[:-1]
    first, last = child[:-1][has], child[1:][has] - 1  # children of the nodes that have some
    within = np.ones(n, np.bool_)
    within[0] = False
    within[first] = False  # nodes that begin where the one before them ends
    sound = (
        begin[0] == 0
        and end[0] == columns.shape[1]
        and (begin < end).all()
        and (begin[first] == begin[has]).all()
        and (end[last] == end[has]).all()
        and (begin[within] == end[np.flatnonzero(within) - 1]).all()
    )
    if not sound:
        raise tensors.refuse("begin", "children that share out the rows of their parent")
    low, high = 0, 1
    for column in columns:
        low, high = int(child[low]), int(child[high])
        if (code[low:high] != column[begin[low:high]]).any():
            raise tensors.refuse("code", "the codes of the rows")
        if low == high:
            break
    if child[low] != child[high]:
        raise tensors.refuse("child", f"no more levels than the {len(columns)} columns")
    return Trie(columns, begin, end, code, child)


def _read_distances(tensors: TensorReader, F: int, C: int) -> Distances:
    """What distances of values are made of; those of column i have the codes
    first[i]:first[i+1]."""
    K = len(tensors.array("rare", np.bool_, None))
    first = tensors.pointers("first", F, K, least=1)
    sizes = np.diff(first)
    classes = tensors.indices("classes", np.int32, C, None)
    E = len(classes)
    ptr, turned_ptr = tensors.pointers("ptr", K, E), tensors.pointers("turned_ptr", F * C, E)
    tensors.rising("classes", ptr)
    n_entries = np.diff(turned_ptr[::C])  # [F]  of each column
    if (np.diff(ptr[first]) != n_entries).any():
        raise tensors.refuse("turned_ptr", "the entries of distances.ptr")
    pair_base = tensors.array("pair_base", np.int64, F)
    # of columns that have a distance for each pair of codes
    squares = np.where(pair_base >= 0, sizes * sizes, 0)
    if (pair_base != np.where(pair_base >= 0, np.cumsum(squares) - squares, -1)).any():
        raise tensors.refuse("pair_base", "the columns of distances.pairs, one after the other")
    return Distances(
        kind=tensors.indices("kind", np.int64, NUMERIC + 1, F),
        weight=tensors.numbers("weight", np.float64, F, least=0, most=HEAVIEST),
        scaled=tensors.numbers("scaled", np.float64, F, least=0, most=2),
        first=first,
        fixed=tensors.permutation("fixed", np.int64, F),
        ptr=ptr,
        classes=classes,
        share=tensors.numbers("share", np.float64, E, least=LEAST_SHARE, most=1),
        turned_ptr=turned_ptr,
        turned_code=tensors.indices("turned_code", np.int32, np.repeat(sizes, n_entries), E),
        turned_share=tensors.numbers("turned_share", np.float64, E, least=LEAST_SHARE, most=1),
        rare=tensors["rare"],
        number=tensors.numbers("number", np.float64, K),
        width=tensors.numbers("width", np.float64, F, least=0),
        pairs=tensors.numbers("pairs", np.float64, int(squares.sum()), least=0, most=FARTHEST),
        pair_base=pair_base,
    )
