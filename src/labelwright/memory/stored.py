"""Instances and what the search needs of them as tensors, and back, every index checked.

    codes [N, F]  targets [N]  weights [F]  values{i}  seen     the instances, their classes, the weights of columns
    order [F]  column{i}.code_of  distances.*  grouped.*  groups.*  trie.*     a Memory (kernels.neighbours), or
    tree.*                                                                     an IGTree

Values and classes are stored as JSON, which keeps strings and numbers apart.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError
from labelwright.kernels.neighbours import Groups, Trie
from labelwright.kernels.values import FARTHEST, NUMERIC, Distances
from labelwright.memory.instances import Instances
from labelwright.memory.store import Grouped, IGTree, Memory
from labelwright.memory.weights import LEAST_SHARE
from labelwright.modelfile import pack_strings, read_strings
from labelwright.validation import (
    TensorReader,
    check_array,
    check_children,
    check_distinct,
    check_indices,
    check_pointers,
    check_rising_within,
)

Array = NDArray[Any]
Tensors = dict[str, Array]
PLAIN = str | int | float | bool
PARTS = ("distances", "grouped", "groups", "trie")  # of a Memory
HEAVIEST = 1e100  # weight of a column: distances stay finite


# -- to tensors ---------------------------------------------------------------------------------------------------


def packed_values(name: str, values: Sequence[Any]) -> Tensors:
    """Strings and numbers as tensors."""
    text, offsets = pack_strings([_text(value) for value in values])
    return {f"{name}.text": text, f"{name}.offsets": offsets}


def packed_index(index: Memory | IGTree) -> Tensors:
    """What answers queries, as tensors."""
    if isinstance(index, IGTree):
        return {f"tree.{name}": array for name, array in index._asdict().items()}
    tensors = {f"{part}.{name}": array for part in PARTS for name, array in getattr(index, part)._asdict().items()}
    return tensors | {"order": index.order} | {f"column{i}.code_of": codes for i, codes in enumerate(index.code_of)}


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, PLAIN):
        raise ModelFileError(
            f"the model holds a value of type {type(value).__name__}, and a file only strings and numbers; pickle it"
        )
    return json.dumps(value)


# -- from tensors -------------------------------------------------------------------------------------------------


def read_classes(tensors: TensorReader) -> list[Any]:
    """The classes, in order of first appearance."""
    seen = _read_values(tensors, "seen", {})
    if not seen or any(value != value for value in seen):
        raise ModelFileError(f"tensor {tensors.prefix}seen: expected one class or more, none of them NaN")
    check_distinct(f"{tensors.prefix}seen", seen)
    return seen


def read_instances(tensors: TensorReader, n_columns: int, n_classes: int) -> tuple[Instances, Array]:
    """The instances, and their classes [N]."""
    codes = tensors.array("codes", np.int32, None, n_columns)
    targets = tensors.indices("targets", np.int32, n_classes, len(codes))
    if not len(codes) or not n_columns:
        raise ModelFileError(f"tensor {tensors.prefix}codes: expected one instance and one column or more")
    read: dict[str, Any] = {}  # a value that several columns have is one object
    values = tuple(_read_values(tensors, f"values{i}", read) for i in range(n_columns))
    for i, known in enumerate(values):
        check_distinct(f"{tensors.prefix}values{i}", known)
        check_indices(f"{tensors.prefix}codes", codes[:, i], len(known))
    return Instances(values, codes), targets


def _read_values(tensors: TensorReader, name: str, read: dict[str, Any]) -> list[Any]:
    values = []
    for text in read_strings(tensors, name):
        if text not in read:
            read[text] = _value(text, tensors.prefix + name)
        values.append(read[text])
    return values


def _value(text: str, name: str) -> Any:
    """The string or number that JSON holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, PLAIN):
        raise ModelFileError(f"tensor {name}: expected strings and numbers in JSON, got {text!r:.40}")
    return value


def read_often(tensors: TensorReader, n: int) -> Array | None:
    """How many times each of the instances counts; None where all count once."""
    if "often" not in tensors:
        return None
    return tensors.numbers("often", np.float64, n, least=math.ulp(0.0), most=HEAVIEST)


def read_index(tensors: TensorReader, data: Instances, n_classes: int, often: Array | None) -> Memory | IGTree:
    """What answers queries; `often` is how many times each instance counts."""
    votes = (1.0, float(len(data.codes))) if often is None else (float(often.min()), float(often.sum()) * (1 + 1e-9))
    if "tree.code" in tensors:
        return _read_tree(tensors.part("tree."), len(data.values), n_classes, votes)
    N, F = data.codes.shape
    order = tensors.permutation("order", np.int64, F)
    d = tensors.part("distances.")
    first = d.array("first", np.int64, F + 1)
    check_pointers("distances.first", first, len(d.array("rare", np.bool_, None)), least=1)
    sizes = np.diff(first)  # [F]  codes of each column, in the order of the search
    code_of = [tensors.indices(f"column{i}.code_of", np.int32, sizes[i], len(data.values[order[i]])) for i in range(F)]
    trie = _read_trie(tensors.part("trie."), sizes)
    M = trie.columns.shape[1]
    g = tensors.part("grouped.")
    grouped = Grouped(g.pointers("ptr", M, N, least=1), g.permutation("members", np.int32, N))
    distances = _read_distances(d, first, n_classes)
    groups = _read_groups(tensors.part("groups."), M, votes, n_classes)
    return Memory(order, code_of, distances, grouped, groups, trie)


def _read_tree(tensors: TensorReader, F: int, n_classes: int, votes: tuple[float, float]) -> IGTree:
    child = check_children("tree.child", tensors.array("child", np.int32, None))
    n = len(child) - 1
    code = tensors.array("code", np.int32, n)
    check_rising_within("tree.code", code, child)
    classes = tensors.indices("classes", np.int32, n_classes, None)
    return IGTree(
        tensors.permutation("order", np.int64, F),
        tensors.numbers("left", np.float64, F + 1, least=0),
        code,
        child,
        tensors.indices("best", np.int32, n_classes, n),
        tensors.pointers("ptr", n, len(classes), least=1),
        classes,
        tensors.numbers("often", np.float64, len(classes), least=votes[0], most=votes[1]),
    )


def _read_trie(tensors: TensorReader, sizes: Array) -> Trie:
    """The trie of rows whose columns have so many codes [F]: children share out the rows of their parent."""
    F = len(sizes)
    columns = tensors.indices("columns", np.int32, sizes[:, None], F, None)
    M = columns.shape[1]
    child = check_children("trie.child", tensors.array("child", np.int32, None))
    n = len(child) - 1
    begin, end = (tensors.array(name, np.int32, n) for name in ("begin", "end"))
    code = tensors.array("code", np.int32, n)
    has = child[1:] > child[:-1]
    first, last = child[:-1][has], child[1:][has] - 1  # children of the nodes that have some
    within = np.ones(n, np.bool_)
    within[0] = False
    within[first] = False  # nodes that begin where the one before them ends
    sound = (
        begin[0] == 0
        and end[0] == M
        and (begin < end).all()
        and (begin[first] == begin[has]).all()
        and (end[last] == end[has]).all()
        and (begin[within] == end[np.flatnonzero(within) - 1]).all()
    )
    if not sound:
        raise ModelFileError("tensor trie.begin: expected children that share out the rows of their parent")
    _check_levels(child, code, begin, columns)
    return Trie(columns, begin, end, code, child)


def _check_levels(child: Array, code: Array, begin: Array, columns: Array) -> None:
    """A node at level i + 1 has the code of column i of its first row, and no node lies below the last column."""
    low, high = 0, 1
    for column in columns:
        low, high = int(child[low]), int(child[high])
        if low == high:
            return
        if (code[low:high] != column[begin[low:high]]).any():
            raise ModelFileError("tensor trie.code: not the codes of the rows")
    if child[low] != child[high]:
        raise ModelFileError(f"tensor trie.child: more levels than the {len(columns)} columns")


def _read_groups(tensors: TensorReader, M: int, votes: tuple[float, float], n_classes: int) -> Groups:
    """The classes of each row; all counts lie between the least and the sum of the votes of instances."""
    classes = tensors.indices("classes", np.int32, n_classes, None)
    count = tensors.numbers("count", np.float64, len(classes), least=votes[0], most=votes[1])
    frequency = tensors.numbers("frequency", np.float64, n_classes, least=0, most=votes[1])
    if not np.allclose(frequency, np.bincount(classes, count, n_classes), rtol=1e-9, atol=0.0):
        raise ModelFileError("tensor groups.frequency: expected the sums of groups.count")
    return Groups(tensors.pointers("ptr", M, len(classes), least=1), classes, count, frequency)


def _read_distances(tensors: TensorReader, first: Array, n_classes: int) -> Distances:
    """What distances of values are made of; those of column i have the codes first[i]:first[i+1]."""
    F, K, sizes = len(first) - 1, int(first[-1]), np.diff(first)
    classes = tensors.indices("classes", np.int32, n_classes, None)
    E = len(classes)
    ptr = tensors.pointers("ptr", K, E)
    check_rising_within("distances.classes", classes, ptr)
    turned_ptr = tensors.pointers("turned_ptr", F * n_classes, E)
    n_entries = np.diff(turned_ptr[::n_classes])  # [F]  of each column
    if (np.diff(ptr[first]) != n_entries).any():
        raise ModelFileError("tensor distances.turned_ptr: not the entries of distances.ptr")
    kind = tensors.indices("kind", np.int64, NUMERIC + 1, F)
    pairs = tensors.numbers("pairs", np.float64, None, least=0, most=FARTHEST)
    return Distances(
        kind=kind,
        weight=tensors.numbers("weight", np.float64, F, least=0, most=HEAVIEST),
        scaled=tensors.numbers("scaled", np.float64, F, least=0, most=2),
        first=first,
        fixed=tensors.permutation("fixed", np.int64, F),
        ptr=ptr,
        classes=classes,
        share=_read_shares(tensors, "share", E),
        turned_ptr=turned_ptr,
        turned_code=tensors.indices("turned_code", np.int32, np.repeat(sizes, n_entries), E),
        turned_share=_read_shares(tensors, "turned_share", E),
        rare=check_array("distances.rare", tensors["rare"], np.bool_, K),
        number=tensors.numbers("number", np.float64, K),
        width=tensors.numbers("width", np.float64, F, least=0),
        pairs=pairs,
        pair_base=_read_pair_base(tensors, sizes, len(pairs)),
    )


def _read_shares(tensors: TensorReader, name: str, n: int) -> Array:
    return tensors.numbers(name, np.float64, n, least=LEAST_SHARE, most=1)


def _read_pair_base(tensors: TensorReader, sizes: Array, n_pairs: int) -> Array:
    """Where the distances of all pairs of codes of each column begin, one column behind the other; -1 for none."""
    bases = tensors.array("pair_base", np.int64, len(sizes))
    expected, at = [], 0
    for size, base in zip(sizes.tolist(), bases.tolist(), strict=True):
        expected.append(at if base >= 0 else -1)
        at += size * size if base >= 0 else 0
    if at != n_pairs or bases.tolist() != expected:
        raise ModelFileError("tensor distances.pair_base: expected the columns of distances.pairs, one after the other")
    return bases
