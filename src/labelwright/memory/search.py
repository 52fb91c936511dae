"""Questions to a memory: the classes of queries, or the instances nearest to them."""

import hashlib
from collections.abc import Callable, Mapping
from itertools import product
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.kernels import neighbours as kernels
from labelwright.kernels.values import DistancesView, TablesView, store_tables
from labelwright.memory.store import Answers, Memory
from labelwright.memory.weights import NUMERIC, OVERLAP, WEIGHTS, Distances, entries_of
from labelwright.parallel import Workers, computed_once, even_ranges, renewed_lock

Array = NDArray[Any]

TABLES = 1 << 26  # bytes of tables for values that several queries have
# Postings find neighbours where columns with rare values (at most one in so many pairs of rows have
# the same) have so large a share of the weights: words and tags, at four times the speed of the
# trie, but not letters.
RARE, SHARE = 1 / 32, 1 / 3
FEW = 64  # queries that are not worth several threads, where postings find their neighbours
KEPT_ROWS, KEPT_REQUESTS = 1 << 23, 64  # that may come again with another k or other votes
Rows = tuple[Array, Array, Array]  # near queries: ptr [Q+1], rows of the memory, their distances
NO_ROWS: Rows = (np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))
SIGNED = 4  # columns of a signature, the heaviest ones, as in kernels.neighbours
EPSILON = 2.0**-52  # distances that differ by less are equal, as in kernels.neighbours
VOTES = {"none": 0, "inverse-distance": 1, "inverse-linear": 2, "exponential-decay": 3}


# -- what kernels read -----------------------------------------------------------------------------


class Postings(NamedTuple):
    """Which rows have a code, and the codes of a row side by side; without any rows where values
    are not compared by overlap alone."""

    ptr: Any  # [K+1] int64  the rows of each code of all columns
    row: Any  # [F*M] int32  in order
    cell: Any  # [M, F] uint16 or int32
    # [M] uint32  the last bytes of the first codes of each row: all of them fit into a cache
    signature: Any


class Tables(NamedTuple):
    """Tables of the weighted distances from one value to all codes of its column, made once for
    several queries."""

    number: Any  # [K] int64  which table is that of a code; -1: it has none
    base: Any  # [tables] int64  where it begins
    best: Any  # [tables] int64  the code nearest to it,
    least: Any  # [tables] float64  its distance,
    second: Any  # [tables] float64  and that of the second nearest
    table: Any  # float32  all of them, then space for one table of each column and thread


class Queries(NamedTuple):
    """Q queries for the k nearest distances."""

    codes: Any  # [Q, F] int32  of their values; -1: unknown
    numbers: Any  # [Q, F] float64  of numeric columns
    k: Any
    tiny: Any  # scaled distances that differ by less may be equal
    tables: Any
    before: Any  # int64  how many queries the scratch has served before
    # [Q] float64  the weight of the columns whose values are known; 0: no row shares anything
    known: Any
    most: Any  # int64  how many rows may share something where the row M stands for all others
    # [Q+1] int64, int32, float64  what `nearest` wrote for them before; [1]: they are searched for
    near: Any


class Voting(NamedTuple):
    """The votes of neighbours."""

    # 0 each instance one vote; 1 inverse distance; 2 inverse linear; 3 exponential decay exp(-a
    # d^b)
    scheme: Any
    a: Any
    b: Any


class SearchScratch(NamedTuple):
    """What one thread works with."""

    tables_begin: Any  # int64  where the thread's tables begin in Tables.table
    base: Any  # [F] int64  where the table of each column begins
    best: Any  # [F] int64  the code nearest to the query's
    # [F+1] float64  its distance, then the least that this column and all later ones add
    least: Any
    second: Any  # [F] float64  the distance of the second nearest code
    wide: Any  # [largest column] float64
    near: Any  # [k+1] float64  the nearest distances
    order: Any  # [F] int64  columns in the order in which postings are looked at,
    cost: Any  # [F] float64  and how many of them there are for their weight
    node: Any  # [nodes + F] int32  branches still to be searched,
    level: Any  # [nodes + F] int32  their depth: the number of columns above them,
    so_far: Any  # [nodes + F] float64  and their distance
    sum: Any  # [longest node without children] float32  the distances so far of the rows of a node
    row: Any  # [M + 1024] int32  rows that are near enough
    distance: Any  # [M + 1024] float64
    stamp: Any  # [K] int64  the last query that needed the exact distance of a code,
    exact: Any  # [K] float64  and that distance
    votes: Any  # [C] float64
    voted: Any  # [C] int32  classes that have votes
    count: Any  # [C] float64  instances of each class at one distance
    present: Any  # [C] int32  classes that occur at that distance


# -- requests --------------------------------------------------------------------------------------


class Neighbourhood(NamedTuple):
    """The instances at the k nearest distances of Q queries, the nearest first."""

    ptr: Array  # [Q+1] int64
    instances: Array  # int32
    distance: Array  # float64


class _Workspace(NamedTuple):
    """What some threads search with: kept for the next request of the same kind."""

    k: int
    scratch: list[Any]  # of each thread (kernels.neighbours.ScratchView)
    table: Array  # the tables of all columns, for each thread
    served: Array  # [1]  queries so far


class _Request(NamedTuple):
    """What was asked of some queries."""

    asked: tuple[int, Voting]  # k and votes, at last
    within: int = 0  # `near` has the rows at so many nearest distances
    near: Rows = NO_ROWS
    too_many: int = 1 << 62  # from this k on there are too many to keep


class Searcher:
    """A memory, with what all requests need; made when the first one comes."""

    _lock = renewed_lock()

    def __init__(self, memory: Memory):
        self.memory = memory
        self._kept: list[_Workspace] = []
        self._requests: dict[bytes, _Request] = {}  # by hashes of queries

    def __reduce__(self) -> tuple[Any, ...]:
        return Searcher, (self.memory,)  # a pickle does without the rest

    # -- questions ---------------------------------------------------------------------------------

    def classify(
        self,
        codes: Array,
        numbers: Array,
        k: int,
        votes: str,
        decay: tuple[float, float],
        workers: Workers,
    ) -> Answers:
        """The classes of queries: codes [Q, F] of their values (-1: unknown), numbers [Q, F] of
        numeric columns."""
        voting = Voting(VOTES[votes], float(decay[0]), float(decay[1]))
        best, distance = np.empty(len(codes), np.int32), np.empty(len(codes))
        near = self._rows_near(codes, numbers, k, voting, workers)

        def part(asked: Any, begin: int, end: int, scratch: Any, *out: Array) -> int:
            return kernels.classify(  # type: ignore[no-any-return]
                self._view, asked, voting, begin, end, scratch, best, distance, *out
            )

        return Answers(best, distance, *self._run(part, codes, numbers, k, workers, near))

    def nearest(self, codes: Array, numbers: Array, k: int, workers: Workers) -> Neighbourhood:
        """The instances at the k nearest distances of queries (as in `classify`)."""
        ptr, rows, distance = self._run(self._nearest, codes, numbers, k, workers, each=True)
        ends, places = entries_of(self.memory.grouped.ptr, rows)
        return Neighbourhood(
            ends[ptr], self.memory.grouped.members[places], np.repeat(distance, np.diff(ends))
        )

    def _nearest(self, *arguments: Any) -> int:
        return kernels.nearest(self._view, *arguments)  # type: ignore[no-any-return]

    def _rows_near(
        self, codes: Array, numbers: Array, k: int, voting: Voting, workers: Workers
    ) -> Rows:
        """The rows near queries that came before with another k or other votes, as in a search for
        the best settings: they are found once for all of these.  No rows where queries are new, or
        have too many."""
        key, asked = hashlib.blake2b(codes.tobytes() + numbers.tobytes()).digest(), (k, voting)
        with self._lock:
            if key not in self._requests and len(self._requests) >= KEPT_REQUESTS:
                del self._requests[next(iter(self._requests))]  # the oldest
            before = self._requests.setdefault(key, _Request(asked))
        if asked == before.asked or k < before.within or k >= before.too_many or not len(codes):
            return before.near if k < before.within else NO_ROWS
        others = sum(
            len(each.near[1]) for other, each in list(self._requests.items()) if other != key
        )
        near = self._run(self._nearest, codes, numbers, k + 1, workers, most=KEPT_ROWS - others)
        whole = len(near[0]) > len(codes)
        now = (
            _Request(asked, k + 1, near, before.too_many) if whole else before._replace(too_many=k)
        )
        with self._lock:
            self._requests[key] = now
        return near if whole else NO_ROWS

    def _run(
        self,
        part: Callable[..., int],
        codes: Array,
        numbers: Array,
        k: int,
        workers: Workers,
        near: Rows = NO_ROWS,
        most: int | None = None,
        each: bool = False,
    ) -> Rows:
        """Answer all queries by `part`; what it writes, one after the other: ptr [Q+1], items,
        numbers; of fewer queries, where that is more than `most` items.

        near : the rows near the queries, where they are known
        each : every row by itself: no row stands for others"""
        order, d, n = self.memory.order, self.memory.distances, len(codes)
        k = min(k, self.memory.trie.columns.shape[1])  # there are no more distances than rows
        table, begins = self._code_table
        ordered = table.take(codes[:, order] + begins)
        space, tables = self._prepared(ordered, k, workers, searched=len(near[0]) == 1)
        given, known = (
            np.ascontiguousarray(numbers[:, order]),
            ((ordered >= 0) | (d.kind == NUMERIC)) @ d.weight,
        )
        served = int(space.served[0])
        fewest = -1 if each else self._most
        queries = Queries(ordered, given, k, self._tiny, tables, served, known, fewest, near)
        asked = kernels.QueriesView(queries)
        waiting: SimpleQueue[Any] = SimpleQueue()
        for scratch in space.scratch:
            waiting.put(scratch)

        def some(begin: int, end: int) -> list[tuple[Array, Array, Array]]:
            scratch = waiting.get()
            try:
                limit = None if most is None else most * (end - begin) // n
                return _pieces(
                    lambda at, *out: part(asked, at, end, scratch, *out), begin, end, limit
                )
            finally:
                waiting.put(scratch)

        ranges = [(0, n)]
        if not n or (workers.n > 1 and (n > FEW or not len(self.postings.row))):
            ranges = even_ranges(np.arange(n + 1), 8 * workers.n)
        written = [piece for pieces in workers.run(some, ranges) for piece in pieces]
        space.served[0] += n
        if len(space.table) == len(space.scratch) * int(d.first[-1]):
            with self._lock:
                self._kept[:] = [space]  # for the next request; one is enough
        if not written:
            return np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)
        sizes, items, values = (
            written[0] if len(written) == 1 else map(np.concatenate, zip(*written, strict=True))
        )
        return offsets_from(sizes), items, values

    # -- what all requests need --------------------------------------------------------------------

    @computed_once
    def _code_table(self) -> tuple[Array, Array]:
        """The codes of the values of all columns, in the order of the search, each after that of an
        unknown one; and where they begin [F]."""
        code_of = self.memory.code_of
        begin = offsets_from([len(codes) + 1 for codes in code_of])[:-1]
        parts = [part for codes in code_of for part in (np.array([-1]), codes)]
        return np.concatenate(parts).astype(np.int32), begin + 1

    @computed_once
    def postings(self) -> Postings:
        """The rows of each code, where all values are compared by overlap and enough of them are
        rare."""
        d, columns = self.memory.distances, self.memory.trie.columns
        counts = [
            np.bincount(column, minlength=n)
            for column, n in zip(columns, np.diff(d.first), strict=True)
        ]
        # the chance of two rows to be equal
        alike = np.array([((count / count.sum()) ** 2).sum() for count in counts])
        if (d.kind != OVERLAP).any() or d.weight[alike <= RARE].sum() < SHARE * d.weight.sum():
            nothing = np.empty(0, np.int32)
            return Postings(
                np.zeros(1, np.int64), nothing, nothing.reshape(0, 0), nothing.astype(np.uint32)
            )
        kind = np.uint16 if np.diff(d.first).max() <= 1 << 16 else np.int32
        cell = np.ascontiguousarray(columns.T, kind)
        rows = [np.argsort(column, kind="stable") for column in np.ascontiguousarray(cell.T)]
        signature = np.zeros(len(cell), np.uint32)
        for i, column in enumerate(columns[:SIGNED]):
            signature |= (column & 255).astype(np.uint32) << np.uint32(8 * i)
        ptr = offsets_from(np.concatenate(counts))
        return Postings(ptr, np.concatenate(rows).astype(np.int32), cell, signature)

    @computed_once
    def _view(self) -> Any:
        """The memory as kernels read it."""
        memory = self.memory
        return kernels.MemoryView(memory.trie, memory.distances, memory.groups, self.postings)

    @property
    def n_bytes(self) -> int:
        return int(self.memory.n_bytes + sum(array.nbytes for array in self.postings))

    @computed_once
    def _tiny(self) -> float:
        """Scaled distances that differ by less may be equal: by rounding, or because so small
        distances all are."""
        d = self.memory.distances
        heaviest = int(d.weight.argmax())
        scale = float(d.scaled[heaviest] / d.weight[heaviest]) if d.weight[heaviest] > 0 else 1.0
        return max(1e-12 * float(d.scaled.sum()), min(EPSILON * scale, 1e30))

    @computed_once
    def _most(self) -> int:
        """How many rows can be subtracted from all without rounding: if instances count whole
        numbers, all but one."""
        ptr, classes, count, frequency = self.memory.groups
        whole = (count % 1 == 0).all() and frequency.sum() < 1 << 53
        return (
            len(ptr) - 2
            if whole and (np.bincount(classes, count, len(frequency)) == frequency).all()
            else 0
        )

    @computed_once
    def _no_tables(self) -> tuple[Array, Array, Array] | None:
        """What `_shared` says where no value has a table; None where values are compared by their
        class distributions."""
        d, nothing = self.memory.distances, np.empty(0, np.int64)
        if np.isin(d.kind, (OVERLAP, NUMERIC), invert=True).any():
            return None
        return np.full(int(d.first[-1]), -1, np.int64), nothing, np.zeros(1, np.int64)

    # -- scratch -----------------------------------------------------------------------------------

    def _prepared(
        self, ordered: Array, k: int, workers: Workers, searched: bool
    ) -> tuple[_Workspace, Tables]:
        """Scratch for each thread, and, for a search, the tables of values that several queries
        have."""
        d = self.memory.distances
        number, columns, bases = self._no_tables or _shared(d, ordered if searched else ordered[:0])
        n, threads, shared = len(bases) - 1, min(workers.n, max(len(ordered), 1)), int(bases[-1])
        with self._lock:
            space = self._kept.pop() if self._kept and not shared else None
        if space is None or space.k != k or len(space.scratch) != threads:
            n_codes = int(d.first[-1])
            # what threads share comes first
            table = np.empty(shared + threads * n_codes, np.float32)
            table[shared:] = np.tile(np.repeat(d.scaled, np.diff(d.first)), threads)
            scratch = [
                kernels.ScratchView(self._scratch(k, shared + thread * n_codes))
                for thread in range(threads)
            ]
            space = _Workspace(k, scratch, table, np.zeros(1, np.int64))
        tables = Tables(number, bases, np.empty(n, np.int64), np.empty(n), np.empty(n), space.table)
        if n:
            codes = np.flatnonzero(number >= 0) - d.first[columns]
            ranges = even_ranges(np.arange(n + 1), 4 * workers.n)
            views = DistancesView(d), columns, codes, TablesView(tables)
            workers.run(store_tables, [(*views, a, b) for a, b in ranges])
        return space, tables

    def _scratch(self, k: int, tables_begin: int) -> SearchScratch:
        memory, trie = self.memory, self.memory.trie
        F, M = trie.columns.shape
        K, C, nodes = (
            int(memory.distances.first[-1]),
            len(memory.groups.frequency),
            len(trie.begin) + F,
        )
        return SearchScratch(
            tables_begin=tables_begin,
            base=np.zeros(F, np.int64),
            best=np.zeros(F, np.int64),
            least=np.zeros(F + 1),
            second=np.zeros(F),
            wide=np.empty(int(np.diff(memory.distances.first).max())),
            near=np.empty(k + 1),
            order=np.empty(F, np.int64),
            cost=np.empty(F),
            node=np.empty(nodes, np.int32),
            level=np.empty(nodes, np.int32),
            so_far=np.empty(nodes),
            # longest leaf
            sum=np.empty(int((trie.end - trie.begin)[np.diff(trie.child) == 0].max()), np.float32),
            row=np.empty(M + 1024, np.int32),
            distance=np.empty(M + 1024),
            stamp=np.full(K, -1, np.int64),
            exact=np.empty(K),
            votes=np.zeros(C),
            voted=np.empty(C, np.int32),
            count=np.zeros(C),
            present=np.empty(C, np.int32),
        )


def _pieces(
    part: Callable[..., int], begin: int, end: int, limit: int | None = None
) -> list[tuple[Array, Array, Array]]:
    """What `part` writes for the queries begin:end, in arrays that grow until they are long enough:
    how much for each query, items, numbers.  Nothing where there are more items than the limit."""
    pieces, size, total = [], 16 * (end - begin) + 4096, 0
    while begin < end:
        ptr, items, numbers = (
            np.zeros(end - begin + 1, np.int64),
            np.empty(size, np.int32),
            np.empty(size),
        )
        done = part(begin, ptr, items, numbers)
        used = int(ptr[done - begin])
        pieces.append((np.diff(ptr[: done - begin + 1]), items[:used], numbers[:used]))
        begin, size, total = done, 2 * size, total + used
        if limit is not None and total > limit:
            return []
    return pieces


def _shared(d: Distances, queries: Array) -> tuple[Array, Array, Array]:
    """Choose the values whose tables are made once, the most frequent ones of the queries: the
    table of each code [K], the column of each table, and where it begins."""
    number = np.full(int(d.first[-1]), -1, np.int64)
    count = np.zeros(len(number), np.int64)
    for i in np.flatnonzero((d.kind != OVERLAP) & (d.kind != NUMERIC)):
        codes = queries[:, i]
        count[d.first[i] : d.first[i + 1]] = np.bincount(
            codes[codes >= 0], minlength=d.first[i + 1] - d.first[i]
        )
    several = np.flatnonzero(count > 1)
    several = several[np.argsort(-count[several], kind="stable")]
    width = np.diff(d.first)[np.searchsorted(d.first, several, side="right") - 1]
    chosen = np.sort(several[np.cumsum(width) * 4 <= TABLES])
    number[chosen] = np.arange(len(chosen))
    columns = np.searchsorted(d.first, chosen, side="right") - 1
    return number, columns, offsets_from(np.diff(d.first)[columns])


# -- settings worth trying -------------------------------------------------------------------------

NEIGHBOURS = (1, 3, 5, 7, 9, 11, 13, 15, 19, 25, 35)
TRIED_METRICS: dict[str, tuple[dict[str, Any], ...]] = {
    "overlap": ({},),
    "mvdm": ({"mvdm_threshold": 1}, {"mvdm_threshold": 2}),
    "jeffrey": ({"mvdm_threshold": 1}, {"mvdm_threshold": 2}),
}
SEARCHED = ("k", "metric", "weights", "votes", "mvdm_threshold")

# The value of the grid that one outside it is most like: settings with that value are tried with
# it.
LIKE = {"k": 3, "weights": "none", "votes": "none", "mvdm_threshold": 2}


def memory_settings(prefix: str = "") -> list[dict[str, Any]]:
    """Settings of memory-based models for a search: k, metric, weights, votes and the threshold of
    value differences, without those that make no difference (votes with one neighbour; a threshold
    of overlap).

    prefix : `classifier__` for a MemoryBased within another model

    >>> len(memory_settings()), memory_settings()[0]
    (1025, {'k': 1, 'metric': 'overlap', 'weights': 'gain-ratio', 'votes': 'none'})
    """
    settings = []
    for k, (metric, thresholds), weights in product(NEIGHBOURS, TRIED_METRICS.items(), WEIGHTS):
        for votes, threshold in product(VOTES if k > 1 else ["none"], thresholds):
            settings.append(
                {"k": k, "metric": metric, "weights": weights, "votes": votes, **threshold}
            )
    return [{prefix + name: value for name, value in setting.items()} for setting in settings]


def settings_with(algorithm: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings to try with this algorithm that have the given values.

    >>> len(settings_with("ib1", {"k": 1})), len(settings_with("igtree", {}))
    (25, 5)
    """
    tried = (
        memory_settings() if algorithm == "ib1" else [{"weights": weights} for weights in WEIGHTS]
    )
    for name in SEARCHED:
        if name in given:
            wanted = given[name]
            same = [setting for setting in tried if setting.get(name) == wanted]
            like = LIKE.get(name)
            if name == "metric":
                compared = {"mvdm", "jeffrey", "jensen-shannon"} & {
                    *([wanted] if isinstance(wanted, str) else wanted)
                }
                like = "mvdm" if compared else "overlap"
            tried = same or [
                setting | {name: wanted} for setting in tried if setting.get(name) == like
            ]
    return tried
