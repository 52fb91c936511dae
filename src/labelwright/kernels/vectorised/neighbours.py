"""Exact search for nearest neighbours in NumPy: many queries go down the trie together, level by level.

At each level a frontier holds pairs of a query and a node of the trie, and pairs of a query and a single row.  A first
descent keeps only the best few pairs of each query: what it finds bounds the k-th nearest distance.  A second one keeps
everything within that bound.  As in the compiled search, sums are float32 with some slack, and the rows that pass are
measured again in double, term by term in the same order, so that both give the same distances bit for bit.  Where all
columns are compared by overlap, postings find the rows of each query instead.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels.neighbours import EPSILON
from labelwright.kernels.values import NUMERIC, OVERLAP
from labelwright.kernels.vectorised.values import _by_classes, _class_tables, _numeric, _second, _spread
from labelwright.parallel import computed_once

Array = NDArray[Any]
BLOCK = 128  # queries that are searched together
TABLE_NUMBERS = 1 << 24  # of the tables of one block
PAIRS = 1 << 21  # of a frontier: above it the queries of a block are halved
DENSE = 8  # a query that is compared with more than one in so many of all rows is compared with all of them
FAR = 1e38  # farther than all values, and float32 holds it
BEAM = 8  # nodes that the first descent keeps of each query, and one more for every neighbour: 4 to 16 are as fast
WIDER = 16  # times as many where they have too few distances
SOME = 64  # rows of postings to look at first, for each neighbour: they bound the k-th nearest distance


def search_postings(
    postings: Any, first: Array, weight: Array, query: Array, k: int, tiny: float, scratch: Any
) -> tuple[int, bool]:  # fmt: skip
    """Fill scratch.row with all rows whose distance is among the k nearest; returns how many there are, and whether
    rows that share nothing with the query may be among them: then scratch.row has all rows that do."""
    at = first[:-1] + query
    begin, size = postings.ptr[at], np.where((query >= 0) & (weight > 0.0), postings.ptr[at + 1] - postings.ptr[at], 0)
    order = np.argsort(np.divide(size, weight, out=np.full(len(size), np.inf), where=weight > 0.0), kind="stable")
    passed, total = np.cumsum(weight[order]), np.cumsum(size[order])
    slack = 1e-7 * (8 + len(query))
    done, enough = 0, min(int(np.searchsorted(total, SOME * k)) + 1, len(query))
    row, distance, limit = np.empty(0, np.int32), np.empty(0), np.inf
    while done < enough:
        rows = [postings.row[begin[i] : begin[i] + size[i]] for i in order[done:enough].tolist()]
        more = np.concatenate(rows)
        apart = _distances(postings.cell, more, query, weight)
        near = apart <= limit
        row, distance = np.concatenate([row, more[near]]), np.concatenate([distance, apart[near]])
        limit = _limit(distance, k, slack, tiny)
        done = enough
        enough = min(int(np.searchsorted(passed, limit, side="right")) + 1, len(query))
    row = np.unique(row[distance <= limit])
    scratch.row[: len(row)] = row
    return len(row), not passed[-1] > limit


def _distances(cell: Array, rows: Array, query: Array, weight: Array) -> Array:
    return np.asarray((cell.take(rows, axis=0) != query) @ weight)


def _limit(distance: Array, k: int, slack: float, tiny: float) -> float:
    """A bound of the k-th nearest distance; infinity where there are fewer."""
    nearest = np.sort(distance)
    if k > 1 and len(nearest):
        new = np.append(True, np.diff(nearest) > slack * nearest[1:] + tiny)
        nearest = nearest[new]
    return float((1.0 + 2.0 * slack) * nearest[k - 1] + 2.0 * tiny) if len(nearest) >= k else np.inf


class Pairs(NamedTuple):
    """Queries of a block, each with a node or a row, and the distance so far."""

    query: Array  # [n] int32
    at: Array  # [n] int32
    so_far: Array  # [n] float32

    def where(self, kept: Array) -> "Pairs":
        return Pairs(*(part[kept] for part in self))

    def joined(self, other: "Pairs") -> "Pairs":
        return Pairs(*map(np.concatenate, zip(self, other, strict=True))) if len(other.at) else self


class Found(NamedTuple):
    """The rows at the k nearest distances of some queries: sorted by query, distance and row."""

    query: Array  # [n]
    row: Array  # [n] int32  M: all that share nothing with the query
    distance: Array  # [n] float64
    group: Array  # [n]  0 for rows at the nearest distance, 1 for those at the next, ...


# -- queries -----------------------------------------------------------------------------------------------------------


class _Numbers(NamedTuple):
    """The numbers of one column in order."""

    sorted: Array
    code: Array

    def nearest(self, numbers: Array) -> tuple[Array, Array]:
        """The codes of the two nearest numbers [n], the nearest first (twice the same where there is only one)."""
        at = np.searchsorted(self.sorted, numbers)
        n = len(self.sorted)
        around = np.clip(at - 2, 0, max(n - 4, 0))[:, None] + np.arange(min(4, n))  # different places
        with np.errstate(over="ignore"):
            order = np.argsort(np.abs(self.sorted[around] - numbers[:, None]), axis=1, kind="stable")
        near = np.take_along_axis(around, order, axis=1)
        return self.code[near[:, 0]], self.code[near[:, min(1, near.shape[1] - 1)]]


class _Searcher:
    """A trie, with what all blocks of queries need."""

    def __init__(self, trie: Any, d: Any, asked: Any, scratch: Any):
        self.trie, self.d, self.asked, self.scratch = trie, d, asked, scratch
        self.F, self.M = trie.columns.shape
        self.slack = 1e-7 * (8 + self.F)  # what rounding to float32 can do to a sum
        self.numbers: dict[int, _Numbers] = {}
        for i in np.flatnonzero(d.kind == NUMERIC).tolist():
            number = d.number[d.first[i] : d.first[i + 1]]
            order = np.argsort(number, kind="stable")
            self.numbers[i] = _Numbers(number[order], order)

    @computed_once
    def n_children(self) -> Array:
        return np.diff(self.trie.child)

    @computed_once
    def width(self) -> int:
        return int(np.diff(self.d.first).max()) + 1

    @computed_once
    def child_keys(self) -> Array:
        """A number for each parent and code, in order: children stand by parent, then by code."""
        parent = np.repeat(np.arange(len(self.trie.code)), self.n_children)
        return np.asarray(parent * self.width + self.trie.code[1:])

    @property
    def block(self) -> int:
        """How many queries to search together."""
        return max(8, min(BLOCK, TABLE_NUMBERS // max(1, int(self.d.first[-1]))))

    def child_with(self, nodes: Array, codes: Array) -> Array:
        """The child of each node with this code; 0: it has none."""
        keys = nodes.astype(np.int64) * self.width + codes
        at = np.minimum(np.searchsorted(self.child_keys, keys), len(self.child_keys) - 1)
        return np.where((self.child_keys[at] == keys) & (codes >= 0), at + 1, 0).astype(np.int32)


class _Block:
    """Some queries, with the weighted distances of their values from all others."""

    def __init__(self, searcher: _Searcher, queries: Array):
        self.searcher, self.queries, self.n = searcher, queries, len(queries)
        asked, d = searcher.asked, searcher.d
        self.codes, self.values = asked.codes[queries], asked.numbers[queries]
        self.best = np.empty((searcher.F, self.n), np.int64)  # the code nearest to the query's,
        self.least = np.zeros((searcher.F + 1, self.n))  # the least that this column and all later ones add,
        self.second = np.empty((searcher.F, self.n))  # and the distance of the second nearest code
        self.tables: list[tuple[Array, Array] | None] = []  # of each column: tables [U, codes], and that of each query
        for i in range(searcher.F):
            self.tables.append(self._set_column(i, int(d.kind[i])))
        self.least = np.cumsum(self.least[::-1], axis=0)[::-1]

    def _set_column(self, i: int, kind: int) -> tuple[Array, Array] | None:
        d, codes = self.searcher.d, self.codes[:, i]
        weight = d.scaled[i]
        if kind == NUMERIC:
            best, second = self.searcher.numbers[i].nearest(self.values[:, i])
            self.best[i] = best
            self.least[i] = weight * _numeric(d, i, self.values[:, i], best)
            self.second[i] = weight * _numeric(d, i, self.values[:, i], second)
            return None
        self.best[i], self.least[i] = codes, np.where(codes >= 0, 0.0, weight)
        if kind == OVERLAP:
            self.second[i] = weight
            return None
        distinct, table = np.unique(codes, return_inverse=True)
        made = self._tables_of(i, distinct)
        self.second[i] = np.minimum(_second(made, distinct), FAR)[table]  # of one code alone: infinity
        return made, table.astype(np.int32)

    def _tables_of(self, i: int, codes: Array) -> Array:
        """The tables of these codes of column i, made here unless they are stored."""
        d, stored = self.searcher.d, self.searcher.asked.tables
        first, n = d.first[i], int(d.first[i + 1] - d.first[i])
        number = np.where(codes >= 0, stored.number[first + codes], -1)
        tables = np.empty((len(codes), n), np.float32)
        new = np.flatnonzero(number < 0)
        tables[new] = _class_tables(d, i, codes[new])
        for j in np.flatnonzero(number >= 0).tolist():
            base = stored.base[number[j]]
            tables[j] = stored.table[base : base + n]
        return tables

    def add(self, i: int, query: Array, codes: Array, so_far: Array) -> Array:
        """The distances so far and those of column i; one query may have all of them."""
        d, table = self.searcher.d, self.tables[i]
        if table is not None:
            tables, number = table
            if len(query) == 1 and len(codes) > 1:
                return np.asarray(so_far + tables[number[query[0]]].take(codes))
            flat = number.take(query).astype(np.int64)
            flat *= tables.shape[1]
            flat += codes
            return so_far + tables.reshape(-1).take(flat)
        if d.kind[i] == OVERLAP:
            return np.asarray(so_far + np.float32(d.scaled[i]) * (codes != self.codes[:, i].take(query)))
        return np.asarray(
            so_far + (d.scaled[i] * _numeric(d, i, self.values[:, i].take(query), codes)).astype(np.float32)
        )

    # -- descents -----------------------------------------------------------------------------------------------------

    def start(self, queries: Array) -> tuple[Pairs, Pairs]:
        """The frontier of nodes and that of rows before the first level."""
        n = len(queries)
        empty = Pairs(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))
        return Pairs(queries.astype(np.int32), np.zeros(n, np.int32), np.zeros(n, np.float32)), empty

    def descend(self, level: int, nodes: Pairs, rows: Pairs, limit: Array, beam: int) -> list[Pairs]:
        """All rows within the limit [n] of their query; with a beam, only those below the best nodes of each level."""
        searcher, done = self.searcher, list[Pairs]()
        trie = searcher.trie
        for i in range(level, searcher.F):
            if len(nodes.at) + len(rows.at) > PAIRS and not beam:
                halves = self._halves(nodes, rows)
                if halves:
                    return done + [part for half in halves for part in self.descend(i, *half, limit, 0)]
            leaf = searcher.n_children.take(nodes.at) == 0
            if leaf.any():
                leaves, nodes = nodes.where(leaf), nodes.where(~leaf)
                rows = rows.joined(self._expanded(leaves, trie.begin, trie.end))
            if len(nodes.at) and not beam:
                wide = self._wide(i, nodes, rows, limit)
                if wide.any():
                    done += [self._all_rows(q, limit) for q in np.flatnonzero(wide).tolist()]
                    nodes, rows = nodes.where(~wide[nodes.query]), rows.where(~wide[rows.query])
            nodes = self._children(i, nodes, limit)
            most = (limit - self.least[i + 1]).astype(np.float32)
            nodes = self._added(i, nodes, trie.code, most)
            rows = self._added(i, rows, trie.columns[i], most)
            if beam:
                nodes, rows = self._best(nodes, beam), self._best(rows, 4 * beam)
        return [*done, rows.joined(self._expanded(nodes, trie.begin, trie.end))]

    def _wide(self, i: int, nodes: Pairs, rows: Pairs, limit: Array) -> Array:
        """Which queries [n] are about to have so many pairs that looking at all rows is faster."""
        n_children = np.where(self._alone(i, nodes, limit), 1, self.searcher.n_children.take(nodes.at))
        pending = np.bincount(nodes.query, n_children, self.n) + np.bincount(rows.query, minlength=self.n)
        return np.asarray(DENSE * pending > self.searcher.M)

    def _all_rows(self, q: int, limit: Array) -> Pairs:
        """The rows within the limit of one query: columns are summed for all rows, then for those that are left."""
        columns, query = self.searcher.trie.columns, np.array([q], np.int32)
        row, so_far = None, np.zeros(self.searcher.M, np.float32)
        for i in range(len(columns)):
            so_far = self.add(i, query, columns[i] if row is None else columns[i].take(row), so_far)
            near = so_far <= np.float32(limit[q] - self.least[i + 1, q])
            if DENSE * np.count_nonzero(near) <= self.searcher.M or i + 1 == len(columns):
                kept = np.flatnonzero(near)
                row, so_far = kept if row is None else row.take(kept), so_far.take(kept)
        assert row is not None
        return Pairs(np.full(len(row), q, np.int32), row.astype(np.int32), so_far)

    def _halves(self, nodes: Pairs, rows: Pairs) -> list[tuple[Pairs, Pairs]]:
        """The frontiers of two halves of the queries; nothing if there is one query alone."""
        present = np.union1d(nodes.query, rows.query)
        if len(present) < 2:
            return []
        middle = present[len(present) // 2]
        return [
            (nodes.where(nodes.query < middle), rows.where(rows.query < middle)),
            (nodes.where(nodes.query >= middle), rows.where(rows.query >= middle)),
        ]

    def _expanded(self, nodes: Pairs, begin: Array, end: Array) -> Pairs:
        """Pairs with all of begin:end of each node."""
        first = begin.take(nodes.at)
        at, owner = _spread(first, end.take(nodes.at) - first)
        return Pairs(nodes.query[owner], at.astype(np.int32), nodes.so_far[owner])

    def _children(self, i: int, nodes: Pairs, limit: Array) -> Pairs:
        """All children of nodes; where only the best code of column i can be near enough, that child."""
        child, alone = self.searcher.trie.child, self._alone(i, nodes, limit)
        if not alone.any():
            return self._expanded(nodes, child[:-1], child[1:])
        single = nodes.where(alone)
        below = self.searcher.child_with(single.at, self.best[i].take(single.query))
        single = single._replace(at=below).where(below > 0)
        return self._expanded(nodes.where(~alone), child[:-1], child[1:]).joined(single)

    def _alone(self, i: int, nodes: Pairs, limit: Array) -> Array:
        """For which nodes only the best code of column i can be near enough."""
        only = (limit - self.second[i] - self.least[i + 1]).astype(np.float32)
        return np.asarray(nodes.so_far > only.take(nodes.query))

    def _added(self, i: int, pairs: Pairs, codes: Array, most: Array) -> Pairs:
        """The pairs that column i leaves within the limit."""
        if not len(pairs.at):
            return pairs
        so_far = self.add(i, pairs.query, codes.take(pairs.at), pairs.so_far)
        kept = np.flatnonzero(so_far <= most.take(pairs.query))
        return Pairs(pairs.query.take(kept), pairs.at.take(kept), so_far.take(kept))

    def _best(self, pairs: Pairs, n: int) -> Pairs:
        """The n best pairs of each query."""
        if len(pairs.at) <= n:
            return pairs
        order = np.lexsort((pairs.so_far, pairs.query))
        counts = np.bincount(pairs.query, minlength=self.n)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        return pairs.where(order[rank < n])

    def limits(self, rows: Pairs, k: int) -> Array:
        """A bound [n] of the k-th nearest distance of each query: infinity where these rows have fewer distances."""
        limit, tiny = np.full(self.n, np.inf), self.searcher.asked.tiny
        order = np.lexsort((rows.so_far, rows.query))
        query, s = rows.query[order], rows.so_far[order].astype(np.float64)
        new = np.ones(len(s), np.bool_)
        new[1:] = (query[1:] != query[:-1]) | (s[1:] - s[:-1] > self.searcher.slack * s[1:] + tiny)
        query, s = query[new], s[new]
        counts = np.bincount(query, minlength=self.n)
        has = counts >= k
        s = s[(np.cumsum(counts) - counts + k - 1)[has]]
        limit[has] = (1.0 + 2.0 * self.searcher.slack) * s + 2.0 * tiny
        return limit

    def within(self, k: int, queries: Array, most: int) -> Pairs:
        """All rows whose distance may be among the k nearest of their query; where at most `most` rows share something
        with it, the row M may stand for all others."""
        asked, d, scratch, M = self.searcher.asked, self.searcher.d, self.searcher.scratch, self.searcher.M
        rows, in_trie = list[Pairs](), list[int]()
        for q in queries.tolist():
            n, others = M if asked.known[self.queries[q]] > 0.0 else 0, True
            if len(asked.postings.row):
                n, others = search_postings(asked.postings, d.first, d.scaled, self.codes[q], k, asked.tiny, scratch)
            if others and n > most:
                in_trie.append(q)
            else:
                row = np.append(scratch.row[:n], np.full(int(others), M, np.int32))
                rows.append(Pairs(np.full(len(row), q, np.int32), row, np.zeros(len(row), np.float32)))
        rows += [self.in_trie(k, np.array(in_trie))] if in_trie else []
        return Pairs(*map(np.concatenate, zip(*rows, strict=True)))

    def in_trie(self, k: int, queries: Array) -> Pairs:
        """As `within`, through the trie, every row by itself."""
        limit, open_queries = np.full(self.n, np.inf), queries
        beam = BEAM + k
        for width in (beam, WIDER * beam):
            rows = self.descend(0, *self.start(open_queries), np.full(self.n, np.inf), width)[0]
            limit[open_queries] = self.limits(rows, k)[open_queries]
            open_queries = open_queries[np.isinf(limit[open_queries])]
            if not len(open_queries):
                break
        parts = self.descend(0, *self.start(queries), limit, 0)
        rows = Pairs(*map(np.concatenate, zip(*parts, strict=True)))
        limit = self.limits(rows, k)
        return rows.where(rows.so_far <= limit.astype(np.float32)[rows.query])

    def measured(self, rows: Pairs) -> Array:
        """The exact distances of rows from their queries, summed in the fixed order of columns."""
        d, query = self.searcher.d, rows.query
        total = np.zeros(len(query))
        for i in d.fixed.tolist():
            codes, wanted = self.searcher.trie.columns[i].take(rows.at, mode="clip"), self.codes[:, i].take(query)
            if d.kind[i] == NUMERIC:
                total += d.weight[i] * _numeric(d, i, self.values[:, i].take(query), codes)
            elif d.kind[i] == OVERLAP:
                total += np.where(codes == wanted, 0.0, d.weight[i])
            else:
                total += d.weight[i] * self._exact(i, wanted, codes)
        total[rows.at == self.searcher.M] = np.cumsum(d.weight[d.fixed])[-1]
        return total

    def _exact(self, i: int, wanted: Array, codes: Array) -> Array:
        """The exact distances of codes (-1: unknown) from others, where class distributions are compared."""
        d = self.searcher.d
        n = int(d.first[i + 1] - d.first[i])
        distance = np.where(wanted == codes, 0.0, 1.0)
        unlike = np.flatnonzero((wanted != codes) & (wanted >= 0))
        keys = wanted[unlike].astype(np.int64) * n + codes[unlike]
        if d.pair_base[i] >= 0:
            distance[unlike] = d.pairs[d.pair_base[i] + keys]
        else:
            keys, place = np.unique(keys, return_inverse=True)
            distance[unlike] = _by_classes(d, i, keys // n, keys % n)[place]
        return distance

    def found(self, k: int, queries: Array, most: int) -> Found:
        """The rows at the k nearest distances of some queries of the block, as in `within`."""
        rows = self.within(k, queries, most)
        distance = self.measured(rows)
        order = np.lexsort((rows.at, distance, rows.query))
        query, row, distance = rows.query[order], rows.at[order], distance[order]
        group = _groups(query, distance)
        near = group < k
        return Found(query[near], row[near], distance[near], group[near])


def _groups(query: Array, distance: Array) -> Array:
    """The place of each distance among those of its query: 0 for the nearest; all that differ by less than EPSILON from
    the first of a group are one."""
    same = query[1:] == query[:-1]
    apart = np.diff(distance)
    new = np.append(True, ~same | (apart >= EPSILON))[: len(query)]
    first = np.append(True, ~same)[: len(query)]
    for q in np.unique(query[1:][same & (apart > 0.0) & (apart < EPSILON)]).tolist():
        begin, end = np.searchsorted(query, [q, q + 1]).tolist()
        start = distance[begin]
        for j in range(begin + 1, end):
            new[j] = distance[j] - start >= EPSILON
            start = distance[j] if new[j] else start
    number = np.cumsum(new)
    return np.asarray(number - np.repeat(number[first], np.diff(np.append(np.flatnonzero(first), len(query)))))


def _blocks(searcher: _Searcher, begin: int, end: int) -> list[Array]:
    size = searcher.block
    return [np.arange(a, min(a + size, end)) for a in range(begin, end, size)]


def _fitting(sizes: Array, room: int) -> int:
    """How many of the first sizes fit."""
    return int(np.searchsorted(np.cumsum(sizes), room, side="right"))


def nearest(
    trie: Any, d: Any, asked: Any, begin: int, end: int, scratch: Any, ptr: Array, rows: Array, distance: Array
) -> int:
    """Write the rows at the k nearest distances of the queries begin:end and their distances, query by query (ptr
    [Q+1]); returns the first query for which the arrays are too short."""
    searcher, at = _Searcher(trie, d, asked, scratch), 0
    for queries in _blocks(searcher, begin, end):
        found = _Block(searcher, queries).found(int(asked.k), np.arange(len(queries)), -1)
        sizes = np.bincount(found.query, minlength=len(queries))
        done = _fitting(sizes, len(rows) - at)
        n = int(sizes[:done].sum())
        rows[at : at + n], distance[at : at + n] = found.row[:n], found.distance[:n]
        first = int(queries[0]) - begin
        ptr[first + 1 : first + done + 1] = at + np.cumsum(sizes[:done])
        at += n
        if done < len(queries):
            return int(queries[0]) + done
    return end


# -- votes -------------------------------------------------------------------------------------------------------------


class _Votes(NamedTuple):
    """The classes that have votes, sorted by query, in the order in which they came up."""

    query: Array
    cls: Array
    votes: Array


def _vote_of(found: Found, n: int, voting: Any) -> Array:
    """The vote [rows] of an instance of each row."""
    nearest, farthest = np.zeros(n), np.zeros(n)
    starts = np.append(True, (np.diff(found.query) != 0) | (np.diff(found.group) != 0))
    place = np.cumsum(starts) - 1
    query, here = found.query[starts], found.distance[starts]
    farthest[query] = here  # the last one stays
    nearest[query[::-1]] = here[::-1]
    near, far = nearest[query], farthest[query]
    vote = np.ones(len(query))
    if voting.scheme == 1:
        vote = 1.0 / (here + EPSILON)
    elif voting.scheme == 2:
        range_ = far - near
        vote = np.divide(far - here, range_, out=vote, where=far > near)
    elif voting.scheme == 3:
        with np.errstate(over="ignore", invalid="ignore"):
            lost = here**voting.b - near**voting.b
        decays = (here > near) & (lost < np.inf)
        vote = np.where(decays, np.exp(-voting.a * np.where(decays, lost, 0.0)), here == near)
    return np.asarray(vote[place])


def _votes(groups: Any, found: Found, n: int, voting: Any) -> _Votes:
    """The votes of the rows: the instances of a class at one distance are counted first, so that equal counts have
    equal votes; then one distance is added after the other."""
    C = len(groups.frequency)
    M, E, N, last = len(groups.ptr) - 1, len(groups.classes), len(found.row), np.full(n, -1)
    last[found.query[found.row == M]] = np.flatnonzero(found.row == M)  # all instances,
    nearer = np.flatnonzero((last[found.query] >= 0) & (found.row < M))  # less those of these rows
    row, place = np.append(found.row, found.row[nearer]), np.append(np.arange(N), last[found.query[nearer]])
    begins = groups.ptr[row]
    entry, owner = _spread(begins, np.where(row < M, groups.ptr.take(row + 1, mode="clip") - begins, C))
    cls = np.where(entry < E, groups.classes.take(entry, mode="clip"), entry - E)
    count = np.where(entry < E, groups.count.take(entry, mode="clip"), groups.frequency[cls])
    count, owner = np.where(owner < N, count, -count), place[owner]
    query = found.query[owner].astype(np.int64)
    n_groups = int(found.group.max(initial=0)) + 1
    keys = (query * n_groups + found.group[owner]) * C + cls
    keys, first, place = np.unique(keys, return_index=True, return_inverse=True)
    gain = np.bincount(place, count, len(keys)) * _vote_of(found, n, voting)[owner[first]]
    order = np.argsort(first, kind="stable")
    order = order[gain[order] > 0.0]
    keys = (keys[order] // (n_groups * C)) * C + keys[order] % C
    keys, first, place = np.unique(keys, return_index=True, return_inverse=True)
    votes = np.bincount(place, gain[order], len(keys))
    seen = np.argsort(first, kind="stable")
    return _Votes(keys[seen] // C, keys[seen] % C, votes[seen])


def _winners(groups: Any, votes: _Votes, n: int) -> tuple[Array, Array]:
    """The class with most votes [n]; of several the more frequent one, then the first seen.  And how many there were.

    Queries without votes have -1 and 0."""
    most = np.full(n, -1.0)
    np.maximum.at(most, votes.query, votes.votes)
    top = most[votes.query] - votes.votes < EPSILON
    query, cls = votes.query[top], votes.cls[top]
    winner, ties = np.full(n, -1), np.bincount(query, minlength=n)
    order = np.lexsort((cls, -groups.frequency[cls], query))[::-1]
    winner[query[order]] = cls[order]  # the last one stays: the most frequent
    return winner, ties


def classify(
    trie: Any, d: Any, groups: Any, asked: Any, voting: Any, begin: int, end: int, scratch: Any,
    predicted: Array, distance: Array, ptr: Array, classes: Array, votes: Array,
) -> int:  # fmt: skip
    """Write the class of the queries begin:end, the nearest distance, and the votes of all classes that have some (as
    `nearest` writes rows); returns the first query for which the arrays are too short.

    Where classes tie, the next distance is searched as well; if that does not decide, the more frequent class wins."""
    searcher, at = _Searcher(trie, d, asked, scratch), 0
    for queries in _blocks(searcher, begin, end):
        winner, nearest, cast = _answers(_Block(searcher, queries), groups, int(asked.k), voting)
        sizes = np.bincount(cast.query, minlength=len(queries))
        done = _fitting(sizes, len(classes) - at)
        n = int(sizes[:done].sum())
        predicted[queries[:done]], distance[queries[:done]] = winner[:done], nearest[:done]
        classes[at : at + n], votes[at : at + n] = cast.cls[:n], cast.votes[:n]
        first = int(queries[0]) - begin
        ptr[first + 1 : first + done + 1] = at + np.cumsum(sizes[:done])
        at += n
        if done < len(queries):
            return int(queries[0]) + done
    return end


def _answers(block: _Block, groups: Any, k: int, voting: Any) -> tuple[Array, Array, _Votes]:
    """The class of each query of a block, its nearest distance, and the votes."""
    n, most = block.n, int(block.searcher.asked.most)
    found = block.found(k, np.arange(n), most)
    nearest, n_groups = np.empty(n), np.zeros(n, np.int64)
    nearest[found.query[::-1]] = found.distance[::-1]
    n_groups[found.query] = found.group + 1
    cast = _votes(groups, found, n, voting)
    winner, ties = _winners(groups, cast, n)
    tied = np.flatnonzero((ties > 1) & (n_groups == k))
    if not len(tied):
        return winner, nearest, cast
    further = block.found(k + 1, tied, most)
    further_cast = _votes(groups, further, n, voting)
    n_groups[further.query] = further.group + 1
    next_winner, ties = _winners(groups, further_cast, n)
    decided = (ties == 1) & (n_groups > k)
    winner = np.where(decided, next_winner, winner)
    before, after = ~decided[cast.query], decided[further_cast.query]
    joined = [np.concatenate([a[before], b[after]]) for a, b in zip(cast, further_cast, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return winner, nearest, _Votes(*(part[order] for part in joined))


# -- IGTree ------------------------------------------------------------------------------------------------------------


def descend(code: Array, child: Array, queries: Array, reached: Array, levels: Array) -> None:
    """Write the last node that each query [Q, F] reaches, and how many columns remain below it, level by level."""
    Q, F = queries.shape
    width = int(max(code.max(initial=0), queries.max(initial=0))) + 1
    parent = np.repeat(np.arange(len(code)), np.diff(child))
    keys = parent * width + code[1:]  # sorted: children stand by parent, then by code
    reached[:], levels[:] = 0, F
    going = np.arange(Q if len(keys) else 0)
    for level in range(F):
        wanted = reached[going].astype(np.int64) * width + queries[going, level]
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        down = (keys[at] == wanted) & (queries[going, level] >= 0)
        going, at = going[down], at[down]
        if not len(going):
            break
        reached[going] = at + 1
        levels[going] -= 1
