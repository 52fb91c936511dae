"""The memory: instances with their classes, weighted and sorted so that the nearest are found fast."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import neighbours as kernels
from labelwright.kernels.neighbours import NUMERIC, OVERLAP, Distances, Groups, Room, Trie
from labelwright.memory.distances import Column, column, distances
from labelwright.memory.instances import Instances
from labelwright.memory.trie import Grouped, class_groups, entries_of, grouped, trie
from labelwright.memory.weights import WEIGHTS, Counts, binned, counts, gain_ratio
from labelwright.parallel import Workers, even_ranges

Array = NDArray[Any]
TABLES = 1 << 26  # bytes of tables of values that several queries have
VOTES = {"none": 0, "inverse-distance": 1, "inverse-linear": 2, "exponential-decay": 3}


class Answers(NamedTuple):
    """What the memory says of Q queries."""

    best: Array  # [Q] int32  class
    distance: Array  # [Q] float64  of the nearest instance
    ptr: Array  # [Q+1] int64
    classes: Array  # int32  the classes of the neighbourhood of each query
    votes: Array  # float64  and how much speaks for each


class Neighbourhood(NamedTuple):
    """The instances at the k nearest distances of Q queries, the nearest first."""

    ptr: Array  # [Q+1] int64
    instances: Array  # int32
    distance: Array  # float64


class Memory(NamedTuple):
    """All that is known after training."""

    values: tuple[list[Any], ...]  # [F]  of each column
    metrics: tuple[str, ...]  # [F]
    weights: Array  # [F]  of each column, in the order of the data
    order: Array  # [F]  columns in the order of the search
    columns: list[Column]  # [F]  in the order of the search
    distances: Distances
    grouped: Grouped
    groups: Groups
    trie: Trie

    @property
    def n_bytes(self) -> int:
        """What the search holds in memory."""
        arrays = [*self.distances, *self.grouped, *self.groups, *self.trie, *(c.code_of for c in self.columns)]
        return sum(a.nbytes for a in {id(a): a for a in arrays}.values())


class Learnt(NamedTuple):
    """What the columns [F] tell about the classes."""

    columns: list[Column]
    tables: list[Counts]
    weights: Array  # [F]


def columns_of(
    data: Instances,
    classes: Array,
    n_classes: int,
    metrics: tuple[str, ...],
    threshold: int,
    weights: str | Array,
    names: Sequence[str] | None = None,
) -> Learnt:
    """Learn weights and distances of values from instances and their classes [N]; `names` of columns are for
    complaints."""
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


def memory(learnt: Learnt, data: Instances, classes: Array, n_classes: int, metrics: tuple[str, ...]) -> Memory:
    """Sort instances, of whose columns all is learnt, with their classes [N]."""
    columns, tables, weight = learnt
    order = np.lexsort((np.array([c.n_codes for c in columns]), -weight))
    telling = [gain_ratio(table) / len(values) for table, values in zip(tables, data.values, strict=True)]
    fixed = np.argsort(-np.array(telling), kind="stable")
    place_of = np.empty(len(order), np.int64)
    place_of[order] = np.arange(len(order))
    rows, found = grouped(np.stack([columns[i].code_of[data.codes[:, i]] for i in order], axis=1))
    sorted_columns = [columns[i] for i in order]
    return Memory(
        data.values,
        metrics,
        weight,
        order,
        sorted_columns,
        distances(sorted_columns, weight[order], place_of[fixed], n_classes),
        found,
        class_groups(found, classes, n_classes),
        trie(rows),
    )


def feature_weights(tables: list[Counts], weights: str | Array) -> Array:
    """The weight of each column [F], by name or as given."""
    if isinstance(weights, str):
        return np.array([WEIGHTS[weights](table) for table in tables])
    return np.asarray(weights, np.float64)


# -- questions --------------------------------------------------------------------------------------------------------


def classify(
    memory: Memory, codes: Array, numbers: Array, k: int, votes: str, decay: tuple[float, float], workers: Workers
) -> Answers:
    """The classes of queries: codes [Q, F] of their values (-1: unknown), numbers [Q, F] of numeric columns."""
    k = min(k, memory.trie.columns.shape[1])  # there are no more distances than rows
    search = _Search(memory, codes, numbers, k, workers)
    n = len(codes)
    best, distance = np.empty(n, np.int32), np.empty(n)
    how = VOTES[votes], float(decay[0]), float(decay[1])

    def part(room: Room, scratch: int, begin: int, end: int, into: tuple[Array, ...]) -> int:
        return kernels.classify(  # type: ignore[no-any-return]
            memory.trie, memory.distances, memory.groups, search.codes, search.numbers, begin, end, k, *how,
            search.tiny, *search.shared, scratch, room, best, distance, *into,
        )  # fmt: skip

    return Answers(best, distance, *search.run(part, workers))


def nearest(memory: Memory, codes: Array, numbers: Array, k: int, workers: Workers) -> Neighbourhood:
    """The instances at the k nearest distances of queries (as in `classify`)."""
    k = min(k, memory.trie.columns.shape[1])
    search = _Search(memory, codes, numbers, k, workers)

    def part(room: Room, scratch: int, begin: int, end: int, into: tuple[Array, ...]) -> int:
        return kernels.nearest(  # type: ignore[no-any-return]
            memory.trie, memory.distances, search.codes, search.numbers, begin, end, k, search.tiny, *search.shared,
            scratch, room, *into,
        )  # fmt: skip

    ptr, rows, distance = search.run(part, workers)
    ends, places = entries_of(memory.grouped.ptr, rows)
    return Neighbourhood(ends[ptr], memory.grouped.members[places], np.repeat(distance, np.diff(ends)))


class _Search:
    """Queries in the order of the search, the tables that several of them share, and room for each thread."""

    def __init__(self, memory: Memory, codes: Array, numbers: Array, k: int, workers: Workers):
        d = memory.distances
        self.codes = np.empty(codes.shape, np.int32)
        for place, i in enumerate(memory.order):
            self.codes[:, place] = np.append(memory.columns[place].code_of, np.int32(-1))[codes[:, i]]
        self.numbers = np.ascontiguousarray(numbers[:, memory.order])
        self.tiny = 1e-12 * float(d.scaled.sum())
        stored, columns, bases = self._choose(d)
        n = len(bases) - 1
        n_codes, n_slots = int(d.first[-1]), min(workers.n, len(codes))
        table = np.empty(int(bases[-1]) + n_slots * n_codes, np.float32)
        best, least, second = np.empty(n, np.int64), np.empty(n), np.empty(n)
        own = d, columns, np.flatnonzero(stored >= 0) - d.first[columns], bases, table, best, least, second
        workers.run(kernels.store_tables, [(*own, a, b) for a, b in even_ranges(np.arange(n + 1), 4 * workers.n)])
        self.shared = stored, bases, best, least, second, table
        self.slots: SimpleQueue[tuple[int, Room]] = SimpleQueue()
        for slot in range(n_slots):
            scratch = int(bases[-1]) + slot * n_codes
            table[scratch : scratch + n_codes] = np.repeat(d.scaled, np.diff(d.first))
            self.slots.put((scratch, _room(memory, k)))

    def _choose(self, d: Distances) -> tuple[Array, Array, Array]:
        """Number the tables that are made once: of values that several queries have, the most frequent ones."""
        stored = np.full(int(d.first[-1]), -1, np.int64)
        often = np.zeros(len(stored), np.int64)
        for i in np.flatnonzero((d.kind != OVERLAP) & (d.kind != NUMERIC)):
            here = self.codes[:, i]
            often[d.first[i] : d.first[i + 1]] = np.bincount(here[here >= 0], minlength=d.first[i + 1] - d.first[i])
        widths = np.repeat(np.diff(d.first), np.diff(d.first))  # [K]
        chosen = np.argsort(-often, kind="stable")[: np.count_nonzero(often > 1)]
        chosen = np.sort(chosen[np.cumsum(widths[chosen]) * 4 <= TABLES])
        stored[chosen] = np.arange(len(chosen))
        columns = np.searchsorted(d.first, chosen, side="right") - 1
        return stored, columns, np.concatenate([[0], np.cumsum(widths[chosen])]).astype(np.int64)

    def run(self, part: Callable[..., int], workers: Workers) -> tuple[Array, Array, Array]:
        """Ask `part` for all queries; what it wrote, one after the other: ptr [Q+1], items, numbers."""

        def some(begin: int, end: int) -> list[tuple[Array, Array, Array]]:
            scratch, room = self.slots.get()
            pieces = []
            size = 16 * (end - begin) + 256
            try:
                while begin < end:
                    into = np.zeros(end - begin + 1, np.int64), np.empty(size, np.int32), np.empty(size)
                    done = part(room, scratch, begin, end, into)
                    used = int(into[0][done - begin])
                    pieces.append((np.diff(into[0][: done - begin + 1]), into[1][:used], into[2][:used]))
                    begin, size = done, 2 * size
            finally:
                self.slots.put((scratch, room))
            return pieces

        ranges = even_ranges(np.arange(len(self.codes) + 1), 8 * workers.n)
        found = [piece for pieces in workers.run(some, ranges) for piece in pieces]
        if not found:
            return np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)
        sizes, items, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), items, numbers


def _room(memory: Memory, k: int) -> Room:
    F, M = memory.trie.columns.shape
    leaf = int((memory.trie.end - memory.trie.begin)[np.diff(memory.trie.child) == 0].max())
    K, C, nodes = int(memory.distances.first[-1]), len(memory.groups.frequency), len(memory.trie.begin) + F
    return Room(
        np.zeros(F, np.int64), np.zeros(F, np.int64), np.zeros(F + 1), np.zeros(F),
        np.empty(int(np.diff(memory.distances.first).max())), np.empty(k + 1),
        np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.empty(nodes),
        np.empty(leaf, np.float32), np.empty(M + 1024, np.int32), np.empty(M + 1024),
        np.full(K, -1, np.int64), np.empty(K), np.zeros(C), np.empty(C, np.int32),
        np.zeros(C), np.empty(C, np.int32),
    )  # fmt: skip
