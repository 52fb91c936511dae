"""Exact search for nearest neighbours among rows of value codes: a trie of the rows, bounds that
stop early.

The distance of a query q from a row x is sum_i w_i d_i(q_i, x_i).  For each query and column a
table holds w_i d_i for every code, so the search sees only numbers.  Columns stand in the order of
their weights and rows in lexicographic order; a node of the trie is a run of rows with equal first
columns, cut into children while it is long.  A branch is pruned when

    distance so far + the least that the remaining columns can add > the k-th nearest distance so
    far

and where only the best code of a column could stay below that, its child is found by binary search.
 Tables are float32; the rows that pass (a few more than the nearest) are measured again in double,
column by column in one fixed order, so equal instances have equal distances whatever the search did
(`literal_kernel`).  Rows that share nothing with a query (no value of a column that has weight) are
all at the largest distance.  Where only classes are asked for, one row M stands for them: all
instances less those of the rows that share something.

Where all columns are compared by overlap, postings (the rows that have each code) find the rows
instead.  A row that has none of the query's values in some columns is at least as far away as the
sum of their weights.  So the rows that share a value are looked at, column by column, those first
that have few such rows for their weight; as soon as the weights of the columns so far sum to more
than the k-th nearest distance, no other row can be near enough.  (The prefix filter of set
similarity joins: Chaudhuri, Ganti & Kaushik, 2006.)

F columns, K codes of all columns together (those of column i are first[i]:first[i+1]), M rows, C
classes.
"""

from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, literal_kernel, unsigned
from labelwright.kernels.common import find
from labelwright.kernels.values import NUMERIC, OVERLAP, extremes, fill, value_distance

SIGNED = 4  # columns of a signature, the heaviest ones
SOME = 256  # rows whose signatures are compared before the rows themselves
EPSILON = np.finfo(np.float64).eps  # distances and votes that differ by less are equal


class Postings(NamedTuple):
    """Which rows have a code, and the codes of a row side by side; without any rows where values
    are not compared by overlap alone."""

    ptr: Any  # [K+1] int64  the rows of each code of all columns
    row: Any  # [F*M] int32  in order
    cell: Any  # [M, F] uint16 or int32
    # [M] uint32  the last bytes of the first codes of each row: all of them fit into a cache
    signature: Any


class Trie(NamedTuple):
    """Rows in lexicographic order, and the nodes above them level by level: the children of a node
    stand together."""

    columns: Any  # [F, M] int32  the codes of each column, row by row
    begin: Any  # [nodes] int32  its rows
    end: Any  # [nodes] int32
    code: Any  # [nodes] int32  what they have in the last column that they share
    # [nodes+1] int32  its children are child[n]:child[n+1]; none: its rows are looked at one by one
    child: Any


class Queries(NamedTuple):
    """Q queries for the k nearest distances."""

    codes: Any  # [Q, F] int32  of their values; -1: unknown
    numbers: Any  # [Q, F] float64  of numeric columns
    k: Any
    tiny: Any  # scaled distances that differ by less may be equal
    tables: Any
    postings: Any  # none: all rows are reached through the trie
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


class Groups(NamedTuple):
    """The classes of the instances that share a row."""

    ptr: Any  # [M+1] int64
    classes: Any  # [E] int32
    count: Any  # [E] float64
    frequency: Any  # [C] float64  of each class among all instances


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


# -- postings --------------------------------------------------------------------------------------


@inlined_kernel
def enter_distance(near, k, s, width):
    """Insert s into the k nearest distances, unless one of them is within `width` of it; True where
    they change."""
    if not s + width < near[k - 1]:
        return False
    at = 0
    while near[at] < s - width:
        at += 1
    if not near[at] > s + width:
        return False
    for h in range(k - 1, at, -1):
        near[h] = near[h - 1]
    near[at] = s
    return True


@kernel
def squeeze(rows, distance, n, limit):
    """Drop rows farther away than the limit; returns how many are left."""
    kept = 0
    for j in range(n):
        if distance[j] <= limit:
            rows[kept], distance[kept] = rows[j], distance[j]
            kept += 1
    return kept


@kernel
def _cheapest_first(postings, first, weight, query, order, cost):
    """Sort columns by the rows that share the query's value for each unit of weight."""
    for i in range(query.shape[0]):
        at = first[i] + query[i]
        rows = np.float64(postings.ptr[at + 1] - postings.ptr[at]) if query[i] >= 0 else 0.0
        c = rows / weight[i] if weight[i] > 0.0 else np.inf
        j = i
        while j > 0 and cost[j - 1] > c:
            order[j], cost[j] = order[j - 1], cost[j - 1]
            j -= 1
        order[j], cost[j] = i, c


@kernel
def signature_of(query):
    """The signature of a row of codes; of an unknown value -1, it is that of some code."""
    signature = np.uint32(0)
    for i in range(min(query.shape[0], SIGNED)):
        signature |= np.uint32((query[i] & 255) << (8 * i))
    return signature


@inlined_kernel
def _maybe_near(postings, begin, end, signature, w, rest, limit, some):
    """Write the rows of postings begin:end that may be within the limit: unequal signatures are
    unequal codes, with the weights w [4], and `rest` is what other columns add; returns how many
    there are."""
    nothing, n = np.float32(0.0), 0
    for j in range(unsigned(begin), unsigned(end)):
        r = unsigned(postings.row[j])
        apart = postings.signature[r] ^ signature
        least = (
            rest
            + (w[0] if apart & np.uint32(0xFF) else nothing)
            + (w[1] if apart & np.uint32(0xFF00) else nothing)
        )
        least += w[2] if apart & np.uint32(0xFF0000) else nothing
        least += w[3] if apart & np.uint32(0xFF000000) else nothing
        some[n] = r
        n += 1 if least <= limit else 0
    return n


@inlined_kernel
def _shares(cell, r, query, order, n):
    """Does a row have the query's value in one of the first n columns of the order?"""
    h = 0
    while h < n and cell[r, order[h]] != query[order[h]]:
        h += 1
    return h < n


@inlined_kernel
def _distance(cell, r, query, weight, order, n, so_far, limit):
    """The distance of a row, which is `so_far` in the first n columns of the order; more than the
    limit where it is."""
    for h in range(n, query.shape[0]):
        i = order[h]
        if cell[r, i] != query[i]:
            so_far += weight[i]
            if so_far > limit:
                break
    return so_far


@kernel
def search_postings(postings, first, weight, query, k, tiny, scratch):
    """Fill scratch.row with all rows whose distance is among the k nearest; returns how many there
    are, and whether rows that share nothing with the query may be among them: then scratch.row has
    all rows that do.

    Sums may be rounded: distances that are almost equal count as one, which can only let more rows
    through."""
    F, cell, near, order = query.shape[0], postings.cell, scratch.near, scratch.order
    slack = 1e-7 * (8 + F)  # as in kernels.neighbours
    near[:k] = np.inf
    limit, passed, n = np.inf, 0.0, 0
    signature, some = signature_of(query), np.empty(SOME, np.int32)
    w, rest = np.zeros(SIGNED, np.float32), np.float32(0.0)
    for i in range(min(F, SIGNED)):
        w[i] = (1.0 - slack) * weight[i]
    _cheapest_first(postings, first, weight, query, order, scratch.cost)
    for step in range(F):
        here = order[step]
        # what shares a value without weight shares nothing
        if passed > limit or weight[here] == 0.0:
            break
        at = first[here] + query[here]
        begin, end = (postings.ptr[at], postings.ptr[at + 1]) if query[here] >= 0 else (0, 0)
        while begin < end:
            stop = min(begin + SOME, end)
            n_some = _maybe_near(postings, begin, stop, signature, w, rest, np.float32(limit), some)
            begin = stop
            for j in range(n_some):
                r = some[j]
                if _shares(cell, r, query, order, step):  # then it was seen before
                    continue
                s = _distance(cell, r, query, weight, order, step + 1, passed, limit)
                if s > limit:
                    continue
                scratch.row[n], scratch.distance[n] = r, s
                n += 1
                if enter_distance(near, k, s, slack * s + tiny):
                    limit = (1.0 + 2.0 * slack) * near[k - 1] + 2.0 * tiny
        passed += weight[here]
        if here >= SIGNED:
            rest = np.float32((1.0 - slack) * weight[here] + rest)
    return squeeze(scratch.row, scratch.distance, n, limit), not passed > limit


# -- the trie --------------------------------------------------------------------------------------


@kernel
def _set_tables(d, query, numbers, tables, scratch):
    """Point every column at the table of the query's value, made here unless it is stored."""
    for i in range(query.shape[0]):
        code, first = query[i], d.first[i]
        kept = tables.number[first + code] if code >= 0 and d.kind[i] != NUMERIC else -1
        if kept >= 0:
            scratch.base[i], scratch.best[i] = tables.base[kept], tables.best[kept]
            scratch.least[i], scratch.second[i] = tables.least[kept], tables.second[kept]
            continue
        base = scratch.tables_begin + first
        scratch.base[i] = base
        # all of it is the weight but for one code, which `_clear_tables` sets back
        if d.kind[i] == OVERLAP:
            scratch.best[i], scratch.least[i], scratch.second[i] = code, d.scaled[i], d.scaled[i]
            if code >= 0:
                tables.table[base + code] = scratch.least[i] = 0.0
        else:
            fill(d, i, code, numbers[i], tables.table, base, scratch.wide)
            scratch.best[i], scratch.least[i], scratch.second[i] = extremes(
                tables.table, base, d.first[i + 1] - first
            )
    for i in range(query.shape[0] - 1, -1, -1):
        scratch.least[i] += scratch.least[i + 1]


@kernel
def _clear_tables(d, query, table, begin):
    """Undo what `_set_tables` wrote into the tables of overlap columns."""
    for i in range(query.shape[0]):
        if d.kind[i] == OVERLAP and query[i] >= 0:
            table[begin + d.first[i] + query[i]] = d.scaled[i]


@inlined_kernel
def _leaf_sums(trie, d, table, node, level, so_far, limit, scratch):
    """Sum the distances of the rows of a node without children, column by column, until few are
    near enough; returns the number of columns that were summed and how many rows are left."""
    columns, least, sums = trie.columns, scratch.least, scratch.sum
    begin = unsigned(trie.begin[node])
    size = unsigned(trie.end[node]) - begin
    for j in range(size):
        sums[j] = so_far
    alive = np.int64(size)
    while level < columns.shape[0] and 4 * alive > np.int64(size):
        column = unsigned(level)
        # without reading the table, so that several rows are compared at once
        if d.kind[level] == OVERLAP:
            weight, equal = np.float32(d.scaled[level]), np.int32(scratch.best[level])
            for j in range(size):
                sums[j] += np.float32(0.0) if columns[column, begin + j] == equal else weight
        else:
            base = unsigned(scratch.base[level])
            for j in range(size):
                sums[j] += table[base + unsigned(columns[column, begin + j])]
        level += 1
        most, alive = np.float32(limit - least[level]), 0
        for j in range(size):
            alive += 1 if sums[j] <= most else 0
    return level, alive


@kernel
def _search(trie, d, table, k, tiny, scratch):
    """Fill scratch.row with all rows whose distance is among the k nearest, by the tables; returns
    how many there are.

    Distances closer than the slack of float32 count as one, which can only let more rows
    through."""
    columns, codes, children = trie.columns, trie.code, trie.child
    base, best, least, second = scratch.base, scratch.best, scratch.least, scratch.second
    nodes, levels, so_fars, near = scratch.node, scratch.level, scratch.so_far, scratch.near
    F = columns.shape[0]
    slack = 1e-7 * (8 + F)  # what rounding to float32 can do to a sum
    near[:k] = np.inf
    limit = np.inf
    n, full = 0, 1024
    nodes[0], levels[0], so_fars[0] = 0, 0, 0.0
    top = 1
    while top > 0:
        top -= 1
        node, level, so_far = nodes[top], levels[top], so_fars[top]
        if so_far + least[level] > limit:
            continue
        first, last = children[node], children[node + 1]

        # Where only the best code can be near enough, go down to its child.
        while first < last and so_far + second[level] + least[level + 1] > limit:
            node = find(codes, first, last, best[level])
            if node < 0:
                break
            so_far += table[base[level] + best[level]]
            level += 1
            first, last = children[node], children[node + 1]
        if node < 0 or so_far + least[level] > limit:
            continue

        if first < last:  # all children that are near enough wait, the nearest on top
            begin, most, bottom = unsigned(base[level]), limit - least[level + 1], top
            for c in range(unsigned(first), unsigned(last)):
                s = so_far + table[begin + unsigned(codes[c])]
                if s <= most:
                    nodes[top], levels[top], so_fars[top] = c, level + 1, s
                    top += 1
            _nearest_last(nodes, so_fars, bottom, top)
            continue

        level, alive = _leaf_sums(trie, d, table, node, level, so_far, limit, scratch)
        if alive == 0:
            continue
        if n + alive > full:
            n = squeeze(scratch.row, scratch.distance, n, limit)
            if 2 * n > full:
                full = 2 * full
        begin = unsigned(trie.begin[node])
        for j in range(unsigned(trie.end[node]) - begin):  # the remaining columns, row by row
            s, i = np.float64(scratch.sum[j]), level
            while i < F and s + least[i] <= limit:
                s += table[base[i] + columns[i, begin + j]]
                i += 1
            if s + least[i] > limit:
                continue
            scratch.row[n], scratch.distance[n] = begin + j, s
            n += 1
            if enter_distance(near, k, s, slack * s + tiny):
                limit = (1.0 + 2.0 * slack) * near[k - 1] + 2.0 * tiny
    return squeeze(scratch.row, scratch.distance, n, limit)


@kernel
def _nearest_last(node, so_far, bottom, top):
    """Sort branches so that the nearest is last, and searched first; of many, only move the nearest
    there."""
    if top - bottom <= 64:
        for j in range(bottom + 1, top):
            this, d = node[j], so_far[j]
            at = j - 1
            while at >= bottom and so_far[at] < d:
                node[at + 1], so_far[at + 1] = node[at], so_far[at]
                at -= 1
            node[at + 1], so_far[at + 1] = this, d
        return
    best = bottom
    for j in range(bottom, top):
        if so_far[j] < so_far[best]:
            best = j
    last = top - 1
    node[best], node[last] = node[last], node[best]
    so_far[best], so_far[last] = so_far[last], so_far[best]


@literal_kernel
def _measure(d, trie, query, numbers, number, n, scratch):
    """Set scratch.distance of the n nearest rows to their exact distances, and sort them by
    distance, then by place; after them stands the row M at the largest distance."""
    scratch.row[:n].sort()
    for j in range(n):
        r = scratch.row[j]
        total = 0.0
        for i in d.fixed:
            code = trie.columns[i, r]
            if d.kind[i] == OVERLAP or (query[i] < 0 and d.kind[i] != NUMERIC):
                total += 0.0 if code == query[i] else d.weight[i]
                continue
            at = d.first[i] + code
            if scratch.stamp[at] != number:
                scratch.stamp[at] = number
                scratch.exact[at] = d.weight[i] * value_distance(d, i, query[i], numbers[i], code)
            total += scratch.exact[at]
        scratch.distance[j] = total
    distance = scratch.distance[:n]
    if (distance[1:] < distance[:-1]).any():
        order = np.argsort(distance, kind="mergesort")
        scratch.row[:n] = scratch.row[:n][order]
        distance[:] = distance[order]
    scratch.row[n], scratch.distance[n] = trie.columns.shape[1], 0.0
    for i in d.fixed:
        scratch.distance[n] += d.weight[i]


@literal_kernel
def _count(scratch, n, k):
    """How many of the n sorted rows are at the k nearest distances, how many distances there are,
    and the last one."""
    groups, j, begin = 0, 0, 0.0
    while j < n and groups < k:
        begin = scratch.distance[j]
        while j < n and scratch.distance[j] - begin < EPSILON:
            j += 1
        groups += 1
    return j, groups, begin


@literal_kernel
def vote_at(here, nearest, farthest, voting):
    """The vote of an instance at a distance.  Exponential decay is taken over the vote at the
    nearest distance, which leaves the shares as they are and never vanishes."""
    if voting.scheme == 1:
        return 1.0 / (here + EPSILON)
    if voting.scheme == 2 and farthest > nearest:
        return (farthest - here) / (farthest - nearest)
    if voting.scheme == 3:
        lost = here**voting.b - nearest**voting.b
        return (
            np.exp(-voting.a * lost)
            if here > nearest and lost < np.inf
            else np.float64(here == nearest)
        )
    return 1.0


@literal_kernel
def _vote(groups, scratch, n, farthest, voting, n_votes):
    """Let n sorted rows vote (the votes of n_votes classes are cleared first); returns how many
    classes have votes."""
    for j in range(n_votes):
        scratch.votes[scratch.voted[j]] = 0.0
    nearest, M, E = scratch.distance[0], groups.ptr.shape[0] - 1, groups.classes.shape[0]
    n_votes, j = 0, 0
    while j < n:
        here = scratch.distance[j]
        vote = vote_at(here, nearest, farthest, voting)
        n_present = 0
        while j < n and scratch.distance[j] - here < EPSILON:
            # row M: all instances less those of the rows before
            last = -1 if scratch.row[j] == M else j - 1
            for i in range(j, last, -1):
                r, sign = scratch.row[i], 1.0 if i == j else -1.0
                for e in range(
                    groups.ptr[r], groups.ptr[r + 1] if r < M else E + groups.frequency.shape[0]
                ):
                    c = groups.classes[e] if e < E else e - E
                    if scratch.count[c] == 0.0:
                        scratch.present[n_present] = c
                        n_present += 1
                    scratch.count[c] += sign * (groups.count[e] if e < E else groups.frequency[c])
            j += 1
        for h in range(n_present):  # counts first, then one product: equal counts have equal votes
            c = scratch.present[h]
            gain = vote * scratch.count[c]
            scratch.count[c] = 0.0
            if gain > 0.0:
                if scratch.votes[c] == 0.0:
                    scratch.voted[n_votes] = c
                    n_votes += 1
                scratch.votes[c] += gain
    return n_votes


@literal_kernel
def _winner(groups, scratch, n_votes):
    """The class with most votes; of several the more frequent one, then the first seen.  And how
    many there were."""
    best, most, ties = -1, -1.0, 0
    for j in range(n_votes):
        most = max(most, scratch.votes[scratch.voted[j]])
    for j in range(n_votes):
        c = scratch.voted[j]
        if most - scratch.votes[c] < EPSILON:
            ties += 1
            if best < 0 or groups.frequency[c] > groups.frequency[best] or (
                groups.frequency[c] == groups.frequency[best] and c < best
            ):  # fmt: skip
                best = c
    return best, ties


@kernel
def _look(trie, d, asked, q, k, scratch):
    """Find and sort the rows at the k nearest distances of a query whose tables are set; returns
    what `_count` does.

    Where at most asked.most rows share something with the query, the row M may stand for all
    others."""
    ptr, rows, distance = asked.near
    if ptr.shape[0] > 1:
        n = ptr[q + 1] - ptr[q]
        scratch.row[:n], scratch.distance[:n] = (
            rows[ptr[q] : ptr[q + 1]],
            distance[ptr[q] : ptr[q + 1]],
        )
        return _count(scratch, n, k)
    n, others = trie.columns.shape[1] if asked.known[q] > 0.0 else 0, True
    if asked.postings.row.shape[0] > 0:
        n, others = search_postings(
            asked.postings, d.first, d.scaled, asked.codes[q], k, asked.tiny, scratch
        )
    if others and n > asked.most:
        n, others = _search(trie, d, asked.tables.table, k, asked.tiny, scratch), False
    _measure(d, trie, asked.codes[q], asked.numbers[q], asked.before + q, n, scratch)
    return _count(scratch, n + others, k)


@kernel
def nearest(trie, d, asked, begin, end, scratch, ptr, rows, distance):
    """Write the rows at the k nearest distances of the queries begin:end and their distances, query
    by query (ptr [Q+1]); returns the first query for which the arrays are too short."""
    at = 0
    for q in range(begin, end):
        _set_tables(d, asked.codes[q], asked.numbers[q], asked.tables, scratch)
        n, _, _ = _look(trie, d, asked, q, asked.k, scratch)
        _clear_tables(d, asked.codes[q], asked.tables.table, scratch.tables_begin)
        if at + n > rows.shape[0]:
            return q
        rows[at : at + n] = scratch.row[:n]
        distance[at : at + n] = scratch.distance[:n]
        at += n
        ptr[q - begin + 1] = at
    return end


@kernel
def classify(
    trie, d, groups, asked, voting, begin, end, scratch, predicted, distance, ptr, classes, votes
):
    """Write the class of the queries begin:end, the nearest distance, and the votes of all classes
    that have some (as `nearest` writes rows); returns the first query for which the arrays are too
    short.

    Where classes tie, the next distance is searched as well; if that does not decide, the more
    frequent class wins."""
    n_votes, at, searched = 0, 0, asked.near[0].shape[0] == 1
    for q in range(begin, end):
        if searched:
            _set_tables(d, asked.codes[q], asked.numbers[q], asked.tables, scratch)
        n, n_groups, farthest = _look(trie, d, asked, q, asked.k, scratch)
        distance[q] = scratch.distance[0]
        n_votes = _vote(groups, scratch, n, farthest, voting, n_votes)
        winner, ties = _winner(groups, scratch, n_votes)
        if ties > 1 and n_groups == asked.k:
            more, further, beyond = _look(trie, d, asked, q, asked.k + 1, scratch)
            if further > asked.k:
                n_votes = _vote(groups, scratch, more, beyond, voting, n_votes)
                next_winner, ties = _winner(groups, scratch, n_votes)
                if ties == 1:
                    winner = next_winner
                else:
                    n_votes = _vote(groups, scratch, n, farthest, voting, n_votes)
        if searched:
            _clear_tables(d, asked.codes[q], asked.tables.table, scratch.tables_begin)
        if at + n_votes > classes.shape[0]:
            for j in range(n_votes):
                scratch.votes[scratch.voted[j]] = 0.0
            return q
        predicted[q] = winner
        for j in range(n_votes):
            classes[at + j] = scratch.voted[j]
            votes[at + j] = scratch.votes[scratch.voted[j]]
        at += n_votes
        ptr[q - begin + 1] = at
    for j in range(n_votes):
        scratch.votes[scratch.voted[j]] = 0.0
    return end


# -- IGTree ----------------------------------------------------------------------------------------


@kernel
def descend(code, child, queries, reached, levels):
    """Write the last node of an IGTree that each query [Q, F] reaches along its values, and how
    many columns remain below it."""
    F = queries.shape[1]
    for q in range(queries.shape[0]):
        node, level = 0, 0
        while level < F:
            down = find(code, child[node], child[node + 1], queries[q, level])
            if down < 0:
                break
            node, level = down, level + 1
        reached[q], levels[q] = node, F - level
