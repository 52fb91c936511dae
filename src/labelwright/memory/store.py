"""The memory: instances with their classes, weighted and sorted so that the nearest are found fast."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.kernels import compiled
from labelwright.kernels import neighbours as kernels
from labelwright.kernels.neighbours import (
    NUMERIC,
    OVERLAP,
    Distances,
    Groups,
    Queries,
    SearchScratch,
    Tables,
    Trie,
    Voting,
)
from labelwright.memory.distances import ColumnCodes, column, distances
from labelwright.memory.instances import Instances
from labelwright.memory.trie import Grouped, class_groups, entries_of, grouped, trie
from labelwright.memory.weights import WEIGHTS, Contingency, binned, counts, gain_ratio
from labelwright.parallel import Workers, even_ranges

Array = NDArray[Any]
TABLES = 1 << 26  # bytes of tables for values that several queries have
VOTES = {"none": 0, "inverse-distance": 1, "inverse-linear": 2, "exponential-decay": 3}


class Answers(NamedTuple):
    """The answers to Q queries."""

    best: Array  # [Q] int32  class
    distance: Array  # [Q] float64  of the nearest instance
    ptr: Array  # [Q+1] int64
    classes: Array  # int32  the classes of the neighbourhood of each query
    votes: Array  # float64  and the votes for each


class Neighbourhood(NamedTuple):
    """The instances at the k nearest distances of Q queries, the nearest first."""

    ptr: Array  # [Q+1] int64
    instances: Array  # int32
    distance: Array  # float64


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
) -> Learnt:
    """Learn weights and distances of values from instances and their classes [M]; `names` of columns are for error
    messages."""
    tables, columns = [], []
    for i, (metric, values) in enumerate(zip(metrics, data.values, strict=True)):
        codes, place = data.codes[:, i], f"column {i if names is None else names[i]}"
        table = counts(codes, len(values), classes, n_classes)
        columns.append(column(metric, values, table, threshold, place))
        if metric == "numeric":
            bins = binned(columns[-1].number)
            table = counts(bins[codes].astype(np.int32), int(bins.max()) + 1, classes, n_classes)
        tables.append(table)
    return Learnt(columns, tables, feature_weights(tables, weights))


def memory(learnt: Learnt, data: Instances, classes: Array, n_classes: int) -> Memory:
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
        class_groups(members, classes, n_classes),
        trie(rows),
    )


def feature_weights(tables: list[Contingency], weights: str | Array) -> Array:
    """The weight of each column [F], by name or as given."""
    if isinstance(weights, str):
        return np.array([WEIGHTS[weights](table) for table in tables])
    return np.asarray(weights, np.float64)


# -- questions --------------------------------------------------------------------------------------------------------


def classify(
    memory: Memory, codes: Array, numbers: Array, k: int, votes: str, decay: tuple[float, float], workers: Workers
) -> Answers:
    """The classes of queries: codes [Q, F] of their values (-1: unknown), numbers [Q, F] of numeric columns."""
    search = _Search(memory, codes, numbers, k, workers)
    best, distance = np.empty(len(codes), np.int32), np.empty(len(codes))
    voting = Voting(VOTES[votes], float(decay[0]), float(decay[1]))

    def part(begin: int, end: int, scratch: SearchScratch, *out: Array) -> int:
        return kernels.classify(  # type: ignore[no-any-return]
            memory.trie, memory.distances, memory.groups, search.asked, voting, begin, end, scratch,
            best, distance, *out,
        )  # fmt: skip

    return Answers(best, distance, *search.run(part, workers))


def nearest(memory: Memory, codes: Array, numbers: Array, k: int, workers: Workers) -> Neighbourhood:
    """The instances at the k nearest distances of queries (as in `classify`)."""
    search = _Search(memory, codes, numbers, k, workers)

    def part(*arguments: Any) -> int:
        return kernels.nearest(memory.trie, memory.distances, search.asked, *arguments)  # type: ignore[no-any-return]

    ptr, rows, distance = search.run(part, workers)
    ends, places = entries_of(memory.grouped.ptr, rows)
    return Neighbourhood(ends[ptr], memory.grouped.members[places], np.repeat(distance, np.diff(ends)))


class _Search:
    """Queries in the order of the search, the tables that several of them share, and scratch for each thread."""

    def __init__(self, memory: Memory, codes: Array, numbers: Array, k: int, workers: Workers):
        d = memory.distances
        k = min(k, memory.trie.columns.shape[1])  # there are no more distances than rows
        ordered = np.empty(codes.shape, np.int32)
        for place, i in enumerate(memory.order):
            ordered[:, place] = np.append(memory.code_of[place], np.int32(-1))[codes[:, i]]
        number, columns, bases = _shared(d, ordered)
        n = len(bases) - 1
        n_codes = int(d.first[-1])
        table = np.empty(int(bases[-1]) + min(workers.n, len(codes)) * n_codes, np.float32)
        tables = Tables(number, bases, np.empty(n, np.int64), np.empty(n), np.empty(n), table)
        codes_of_tables = np.flatnonzero(number >= 0) - d.first[columns]
        ranges = even_ranges(np.arange(n + 1), 4 * workers.n)
        workers.run(kernels.store_tables, [(d, columns, codes_of_tables, tables, a, b) for a, b in ranges])
        self.asked = Queries(ordered, np.ascontiguousarray(numbers[:, memory.order]), k, _tiny(d), tables)
        self.scratch: SimpleQueue[SearchScratch] = SimpleQueue()
        for thread in range(min(workers.n, len(codes))):
            begin = int(bases[-1]) + thread * n_codes
            table[begin : begin + n_codes] = np.repeat(d.scaled, np.diff(d.first))
            self.scratch.put(_scratch(memory, k, begin))

    def run(self, part: Callable[..., int], workers: Workers) -> tuple[Array, Array, Array]:
        """Answer all queries by `part`; what it writes, one after the other: ptr [Q+1], items, numbers."""

        def some(begin: int, end: int) -> list[tuple[Array, Array, Array]]:
            scratch = self.scratch.get()
            pieces = []
            size = 16 * (end - begin) + 256
            try:
                while begin < end:
                    ptr, items, numbers = np.zeros(end - begin + 1, np.int64), np.empty(size, np.int32), np.empty(size)
                    done = part(begin, end, scratch, ptr, items, numbers)
                    used = int(ptr[done - begin])
                    pieces.append((np.diff(ptr[: done - begin + 1]), items[:used], numbers[:used]))
                    begin, size = done, 2 * size
            finally:
                self.scratch.put(scratch)
            return pieces

        pieces = 8 * workers.n if compiled() else workers.n  # NumPy searches many queries together
        ranges = even_ranges(np.arange(len(self.asked.codes) + 1), pieces)
        written = [piece for pieces in workers.run(some, ranges) for piece in pieces]
        if not written:
            return np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)
        sizes, items, numbers = (np.concatenate(parts) for parts in zip(*written, strict=True))
        return offsets_from(sizes), items, numbers


def _shared(d: Distances, queries: Array) -> tuple[Array, Array, Array]:
    """Choose the values whose tables are made once, the most frequent ones of the queries: the table of each code [K],
    the column of each table, and where it begins."""
    number = np.full(int(d.first[-1]), -1, np.int64)
    count = np.zeros(len(number), np.int64)
    for i in np.flatnonzero((d.kind != OVERLAP) & (d.kind != NUMERIC)):
        codes = queries[:, i]
        count[d.first[i] : d.first[i + 1]] = np.bincount(codes[codes >= 0], minlength=d.first[i + 1] - d.first[i])
    widths = np.repeat(np.diff(d.first), np.diff(d.first))  # [K]
    chosen = np.argsort(-count, kind="stable")[: np.count_nonzero(count > 1)]
    chosen = np.sort(chosen[np.cumsum(widths[chosen]) * 4 <= TABLES])
    number[chosen] = np.arange(len(chosen))
    columns = np.searchsorted(d.first, chosen, side="right") - 1
    return number, columns, offsets_from(widths[chosen])


def _tiny(d: Distances) -> float:
    """Scaled distances that differ by less may be equal: by rounding, or because so small distances all are."""
    heaviest = int(d.weight.argmax())
    scale = float(d.scaled[heaviest] / d.weight[heaviest]) if d.weight[heaviest] > 0 else 1.0
    return max(1e-12 * float(d.scaled.sum()), min(kernels.EPSILON * scale, 1e30))


def _scratch(memory: Memory, k: int, tables_begin: int) -> SearchScratch:
    F, M = memory.trie.columns.shape
    leaf = int((memory.trie.end - memory.trie.begin)[np.diff(memory.trie.child) == 0].max())
    K, C, nodes = int(memory.distances.first[-1]), len(memory.groups.frequency), len(memory.trie.begin) + F
    return SearchScratch(
        tables_begin=tables_begin,
        base=np.zeros(F, np.int64),
        best=np.zeros(F, np.int64),
        least=np.zeros(F + 1),
        second=np.zeros(F),
        wide=np.empty(int(np.diff(memory.distances.first).max())),
        near=np.empty(k + 1),
        node=np.empty(nodes, np.int32),
        level=np.empty(nodes, np.int32),
        so_far=np.empty(nodes),
        sum=np.empty(leaf, np.float32),
        row=np.empty(M + 1024, np.int32),
        distance=np.empty(M + 1024),
        stamp=np.full(K, -1, np.int64),
        exact=np.empty(K),
        votes=np.zeros(C),
        voted=np.empty(C, np.int32),
        count=np.zeros(C),
        present=np.empty(C, np.int32),
    )
