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
column by column in one fixed order, so equal instances have equal distances whatever the search
did.  Rows that share nothing with a query (no value of a column that has weight) are all at the
largest distance.  Where only classes are asked for, one row M stands for them: all instances less
those of the rows that share something.

Where all columns are compared by overlap, postings (the rows that have each code) find the rows
instead.  A row that has none of the query's values in some columns is at least as far away as the
sum of their weights.  So the rows that share a value are looked at, column by column, those first
that have few such rows for their weight; as soon as the weights of the columns so far sum to more
than the k-th nearest distance, no other row can be near enough.  (The prefix filter of set
similarity joins: Chaudhuri, Ganti & Kaushik, 2006.)

F columns, K codes of all columns together (those of column i are first[i]:first[i+1]), M rows, C
classes.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.common import find
from cython.cimports.labelwright.kernels.values import (
    NUMERIC,
    OVERLAP,
    DistancesView,
    TablesView,
    extremes,
    fill,
    value_distance,
)
from cython.cimports.libc.math import INFINITY, exp, pow

SIGNED = 4  # columns of a signature, the heaviest ones, as in memory.search
SOME = 256  # rows whose signatures are compared before the rows themselves
EPSILON = 2.0**-52  # distances and votes that differ by less are equal


class PostingsView:
    """memory.search.Postings; codes are in one of two arrays, by their size, and the other is
    empty."""

    def __init__(self, postings):
        self.ptr = postings.ptr
        self.row = postings.row
        small = postings.cell.dtype == np.uint16
        self.narrow = postings.cell if small else np.empty((0, 0), np.uint16)
        self.wide = np.empty((0, 0), np.int32) if small else postings.cell
        self.signature = postings.signature


class TrieView:
    """memory.store.Trie."""

    def __init__(self, trie):
        self.columns = trie.columns
        self.begin = trie.begin
        self.end = trie.end
        self.code = trie.code
        self.child = trie.child


class GroupsView:
    """memory.store.Groups."""

    def __init__(self, groups):
        self.ptr = groups.ptr
        self.classes = groups.classes
        self.count = groups.count
        self.frequency = groups.frequency


class MemoryView:
    """What is searched, made once for all requests."""

    def __init__(self, trie, distances, groups, postings):
        self.trie = TrieView(trie)
        self.distances = DistancesView(distances)
        self.groups = GroupsView(groups)
        self.postings = PostingsView(postings)


class QueriesView:
    """memory.search.Queries, made once for each request."""

    def __init__(self, queries):
        self.codes = queries.codes
        self.numbers = queries.numbers
        self.k = queries.k
        self.tiny = queries.tiny
        self.tables = TablesView(queries.tables)
        self.before = queries.before
        self.known = queries.known
        self.most = queries.most
        self.near_ptr, self.near_rows, self.near_distance = queries.near


class VotingView:
    """memory.search.Voting."""

    def __init__(self, voting):
        self.scheme = voting.scheme
        self.a = voting.a
        self.b = voting.b


class ScratchView:
    """memory.search.SearchScratch, made once for each thread."""

    def __init__(self, scratch):
        self.tables_begin = scratch.tables_begin
        self.base = scratch.base
        self.best = scratch.best
        self.least = scratch.least
        self.second = scratch.second
        self.wide = scratch.wide
        self.near = scratch.near
        self.order = scratch.order
        self.cost = scratch.cost
        self.node = scratch.node
        self.level = scratch.level
        self.so_far = scratch.so_far
        self.sum = scratch.sum
        self.row = scratch.row
        self.distance = scratch.distance
        self.stamp = scratch.stamp
        self.exact = scratch.exact
        self.votes = scratch.votes
        self.voted = scratch.voted
        self.count = scratch.count
        self.present = scratch.present
        self.some = np.empty(SOME, np.int32)


# -- postings --------------------------------------------------------------------------------------


def _enter_distance(near, k, s, width):
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


def _squeeze(rows, distance, n, limit):
    """Drop rows farther away than the limit; returns how many are left."""
    kept = 0
    for j in range(n):
        if distance[j] <= limit:
            rows[kept] = rows[j]
            distance[kept] = distance[j]
            kept += 1
    return kept


def _cheapest_first(ptr, first, weight, query, order, cost):
    """Sort columns by the rows that share the query's value for each unit of weight."""
    for i in range(query.shape[0]):
        at = first[i] + query[i]
        rows = ptr[at + 1] - ptr[at] if query[i] >= 0 else 0
        c = rows / weight[i] if weight[i] > 0 else INFINITY
        j = i
        while j > 0 and cost[j - 1] > c:
            order[j] = order[j - 1]
            cost[j] = cost[j - 1]
            j -= 1
        order[j] = i
        cost[j] = c


def _signature_of(query):
    """The signature of a row of codes; of an unknown value -1, it is that of some code."""
    signature = 0
    for i in range(min(query.shape[0], SIGNED)):
        byte = query[i] & 255
        signature |= byte << (8 * i)
    return signature


def _maybe_near(rows, begin, end, signatures, signature, w0, w1, w2, w3, rest, limit, some):
    """Write the rows of postings begin:end that may be within the limit: unequal signatures are
    unequal codes, with the weights w0 .. w3, and `rest` is what other columns add; returns how many
    there are."""
    n = 0
    zero = 0
    for j in range(begin, end):
        r = rows[j]
        apart = signatures[r] ^ signature
        least = rest + (w0 if apart & 0xFF else zero) + (w1 if apart & 0xFF00 else zero)
        least += (w2 if apart & 0xFF0000 else zero) + (w3 if apart >> 24 else zero)
        some[n] = r
        n += least <= limit
    return n


def _shares(cell, r, query, order, n):
    """Does a row have the query's value in one of the first n columns of the order?"""
    h = 0
    while h < n and cell[r, order[h]] != query[order[h]]:
        h += 1
    return h < n


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


def _search_postings(cell, postings, first, weight, query, k, tiny, scratch):
    """Fill scratch.row with all rows whose distance is among the k nearest; returns how many there
    are, and whether rows that share nothing with the query may be among them: then scratch.row has
    all rows that do.

    Sums may be rounded: distances that are almost equal count as one, which can only let more rows
    through."""
    F = query.shape[0]
    slack = 1e-7 * (8 + F)  # as in `_search`
    for h in range(k):
        scratch.near[h] = INFINITY
    limit = INFINITY
    passed = rest = n = 0
    signature = _signature_of(query)
    w0 = (1 - slack) * weight[0]
    w1 = (1 - slack) * weight[1] if F > 1 else 0
    w2 = (1 - slack) * weight[2] if F > 2 else 0
    w3 = (1 - slack) * weight[3] if F > 3 else 0
    _cheapest_first(postings.ptr, first, weight, query, scratch.order, scratch.cost)
    for step in range(F):
        here = scratch.order[step]
        # what shares a value without weight shares nothing
        if passed > limit or weight[here] == 0:
            break
        begin = postings.ptr[first[here] + query[here]] if query[here] >= 0 else 0
        end = postings.ptr[first[here] + query[here] + 1] if query[here] >= 0 else 0
        while begin < end:
            stop = min(begin + SOME, end)
            n_some = _maybe_near(
                postings.row, begin, stop, postings.signature, signature, w0, w1, w2, w3, rest,
                limit, scratch.some,
            )  # fmt: skip
            begin = stop
            for j in range(n_some):
                r = scratch.some[j]
                if _shares(cell, r, query, scratch.order, step):  # then it was seen before
                    continue
                s = _distance(cell, r, query, weight, scratch.order, step + 1, passed, limit)
                if s > limit:
                    continue
                scratch.row[n] = r
                scratch.distance[n] = s
                n += 1
                if _enter_distance(scratch.near, k, s, slack * s + tiny):
                    limit = (1 + 2 * slack) * scratch.near[k - 1] + 2 * tiny
        passed += weight[here]
        if here >= SIGNED:
            rest = (1 - slack) * weight[here] + rest
    return _squeeze(scratch.row, scratch.distance, n, limit), not passed > limit


# -- the trie --------------------------------------------------------------------------------------


def _set_tables(d, query, numbers, tables, scratch):
    """Point every column at the table of the query's value, made here unless it is stored."""
    for i in range(query.shape[0]):
        code = query[i]
        first = d.first[i]
        kept = tables.number[first + code] if code >= 0 and d.kind[i] != NUMERIC else -1
        if kept >= 0:
            scratch.base[i] = tables.base[kept]
            scratch.best[i] = tables.best[kept]
            scratch.least[i] = tables.least[kept]
            scratch.second[i] = tables.second[kept]
            continue
        base = scratch.tables_begin + first
        scratch.base[i] = base
        # all of it is the weight but for one code, which `_clear_tables` sets back
        if d.kind[i] == OVERLAP:
            scratch.best[i] = code
            scratch.least[i] = d.scaled[i] if code < 0 else 0
            scratch.second[i] = d.scaled[i]
            if code >= 0:
                tables.table[base + code] = 0
        else:
            fill(d, i, code, numbers[i], tables.table, base, scratch.wide)
            scratch.best[i], scratch.least[i], scratch.second[i] = extremes(
                tables.table, base, d.first[i + 1] - first
            )
    for i in range(query.shape[0] - 1, -1, -1):
        scratch.least[i] += scratch.least[i + 1]


def _clear_tables(d, query, table, begin):
    """Undo what `_set_tables` wrote into the tables of overlap columns."""
    for i in range(query.shape[0]):
        if d.kind[i] == OVERLAP and query[i] >= 0:
            table[begin + d.first[i] + query[i]] = d.scaled[i]


def _start(sums, size, so_far):
    for j in range(size):
        sums[j] = so_far


def _add_unequal(columns, column, begin, size, equal, weight, most, sums):
    """Add the weight to the sums of the rows that do not have this code in a column; returns how
    many sums are small enough."""
    alive = 0
    zero = 0
    for j in range(size):
        s = sums[j] + (zero if columns[column, begin + j] == equal else weight)
        sums[j] = s
        alive += s <= most
    return alive


def _add_distances(columns, column, begin, size, table, base, most, sums):
    """Add what a table says of the codes of a column; returns how many sums are small enough."""
    alive = 0
    for j in range(size):
        s = sums[j] + table[base + columns[column, begin + j]]
        sums[j] = s
        alive += s <= most
    return alive


def _leaf_sums(trie, d, table, node, level, so_far, limit, scratch):
    """Sum the distances of the rows of a node without children, column by column, until few are
    near enough; returns the number of columns that were summed and how many rows are left."""
    begin = trie.begin[node]
    size = trie.end[node] - begin
    _start(scratch.sum, size, so_far)
    alive = size
    while level < trie.columns.shape[0] and 4 * alive > size:
        most = limit - scratch.least[level + 1]
        # without reading the table, so that several rows are compared at once
        if d.kind[level] == OVERLAP:
            alive = _add_unequal(
                trie.columns, level, begin, size, scratch.best[level], d.scaled[level], most,
                scratch.sum,
            )  # fmt: skip
        else:
            alive = _add_distances(
                trie.columns, level, begin, size, table, scratch.base[level], most, scratch.sum
            )
        level += 1
    return level, alive


def _all_columns(columns, r, table, base, least, level, s, limit):
    """The distance of a row, which is s up to a level; more than the limit where it is."""
    while level < columns.shape[0] and s + least[level] <= limit:
        s += table[base[level] + columns[level, r]]
        level += 1
    return s + least[level]


def _search(trie, d, table, k, tiny, scratch):
    """Fill scratch.row with all rows whose distance is among the k nearest, by the tables; returns
    how many there are.

    Distances closer than the slack of float32 count as one, which can only let more rows
    through."""
    slack = 1e-7 * (8 + trie.columns.shape[0])  # what rounding to float32 can do to a sum
    for h in range(k):
        scratch.near[h] = INFINITY
    limit = INFINITY
    n = 0
    full = 1024
    scratch.node[0] = 0
    scratch.level[0] = 0
    scratch.so_far[0] = 0
    top = 1
    while top > 0:
        top -= 1
        node = scratch.node[top]
        level = scratch.level[top]
        so_far = scratch.so_far[top]
        if so_far + scratch.least[level] > limit:
            continue
        first = trie.child[node]
        last = trie.child[node + 1]

        # Where only the best code can be near enough, go down to its child.
        while first < last and so_far + scratch.second[level] + scratch.least[level + 1] > limit:
            node = find(trie.code, first, last, scratch.best[level])
            if node < 0:
                break
            so_far += table[scratch.base[level] + scratch.best[level]]
            level += 1
            first = trie.child[node]
            last = trie.child[node + 1]
        if node < 0 or so_far + scratch.least[level] > limit:
            continue

        if first < last:  # all children that are near enough wait, the nearest on top
            bottom = top
            top = _push_children(
                trie.code, first, last, table, scratch.base[level], so_far,
                limit - scratch.least[level + 1], scratch.node, scratch.so_far, top,
            )  # fmt: skip
            for j in range(bottom, top):
                scratch.level[j] = level + 1
            _nearest_last(scratch.node, scratch.so_far, bottom, top)
            continue

        level, alive = _leaf_sums(trie, d, table, node, level, so_far, limit, scratch)
        if alive == 0:
            continue
        if n + alive > full:
            n = _squeeze(scratch.row, scratch.distance, n, limit)
            if 2 * n > full:
                full = 2 * full
        begin = trie.begin[node]
        for j in range(trie.end[node] - begin):  # the remaining columns, row by row
            s = scratch.sum[j]
            if s + scratch.least[level] > limit:
                continue
            s = _all_columns(
                trie.columns, begin + j, table, scratch.base, scratch.least, level, s, limit
            )
            if s > limit:
                continue
            scratch.row[n] = begin + j
            scratch.distance[n] = s
            n += 1
            if _enter_distance(scratch.near, k, s, slack * s + tiny):
                limit = (1 + 2 * slack) * scratch.near[k - 1] + 2 * tiny
    return _squeeze(scratch.row, scratch.distance, n, limit)


def _push_children(codes, first, last, table, base, so_far, most, nodes, so_fars, top):
    """Put the children first:last that are near enough on top of the branches still to be searched;
    returns how many branches there are."""
    for c in range(first, last):
        s = so_far + table[base + codes[c]]
        if s <= most:
            nodes[top] = c
            so_fars[top] = s
            top += 1
    return top


def _nearest_last(node, so_far, bottom, top):
    """Sort branches so that the nearest is last, and searched first; of many, only move the nearest
    there."""
    if top - bottom <= 64:
        for j in range(bottom + 1, top):
            this = node[j]
            distance = so_far[j]
            at = j - 1
            while at >= bottom and so_far[at] < distance:
                node[at + 1] = node[at]
                so_far[at + 1] = so_far[at]
                at -= 1
            node[at + 1] = this
            so_far[at + 1] = distance
        return
    best = bottom
    for j in range(bottom, top):
        if so_far[j] < so_far[best]:
            best = j
    last = top - 1
    this = node[best]
    node[best] = node[last]
    node[last] = this
    distance = so_far[best]
    so_far[best] = so_far[last]
    so_far[last] = distance


# -- distances and votes ---------------------------------------------------------------------------


def _measure(d, trie, query, numbers, number, n, scratch):
    """Set scratch.distance of the n nearest rows to their exact distances, and sort them by
    distance, then by place; after them stands the row M at the largest distance."""
    for j in range(n):
        r = scratch.row[j]
        total = 0
        for h in range(d.fixed.shape[0]):
            i = d.fixed[h]
            code = trie.columns[i, r]
            if d.kind[i] == OVERLAP or (query[i] < 0 and d.kind[i] != NUMERIC):
                total += 0 if code == query[i] else d.weight[i]
                continue
            at = d.first[i] + code
            if scratch.stamp[at] != number:
                scratch.stamp[at] = number
                scratch.exact[at] = d.weight[i] * value_distance(d, i, query[i], numbers[i], code)
            total += scratch.exact[at]
        scratch.distance[j] = total
    _sort(scratch.row, scratch.distance, n)
    total = 0
    for h in range(d.fixed.shape[0]):
        total += d.weight[d.fixed[h]]
    scratch.row[n] = trie.columns.shape[1]
    scratch.distance[n] = total


def _sort(row, distance, n):
    """Sort n rows by distance, then by place (Shell's sort)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for j in range(gap, n):
            r = row[j]
            d = distance[j]
            at = j - gap
            while at >= 0 and (distance[at] > d or (distance[at] == d and row[at] > r)):
                row[at + gap] = row[at]
                distance[at + gap] = distance[at]
                at -= gap
            row[at + gap] = r
            distance[at + gap] = d
        gap //= 3


def _count(distance, n, k):
    """How many of the n sorted rows are at the k nearest distances, how many distances there are,
    and the last one."""
    groups = j = 0
    begin = 0
    while j < n and groups < k:
        begin = distance[j]
        while j < n and distance[j] - begin < EPSILON:
            j += 1
        groups += 1
    return j, groups, begin


def _vote_at(here, nearest, farthest, voting):
    """The vote of an instance at a distance.  Exponential decay is taken over the vote at the
    nearest distance, which leaves the shares as they are and never vanishes."""
    if voting.scheme == 1:
        return 1 / (here + EPSILON)
    if voting.scheme == 2 and farthest > nearest:
        return (farthest - here) / (farthest - nearest)
    if voting.scheme == 3:
        lost = pow(here, voting.b) - pow(nearest, voting.b)
        if here > nearest and lost < INFINITY:
            return exp(-voting.a * lost)
        return 1 if here == nearest else 0
    return 1


def _vote(groups, scratch, n, farthest, voting, n_votes):
    """Let n sorted rows vote (the votes of n_votes classes are cleared first); returns how many
    classes have votes."""
    _clear_votes(scratch, n_votes)
    nearest = scratch.distance[0]
    M = groups.ptr.shape[0] - 1
    n_votes = j = 0
    while j < n:
        here = scratch.distance[j]
        vote = _vote_at(here, nearest, farthest, voting)
        n_present = 0
        while j < n and scratch.distance[j] - here < EPSILON:
            n_present = _count_classes(groups, scratch.row[j], 1, scratch, n_present)
            if scratch.row[j] == M:  # all instances less those of the rows before
                for i in range(j - 1, -1, -1):
                    n_present = _count_classes(groups, scratch.row[i], -1, scratch, n_present)
            j += 1
        for h in range(n_present):  # counts first, then one product: equal counts have equal votes
            c = scratch.present[h]
            gain = vote * scratch.count[c]
            scratch.count[c] = 0
            if gain > 0:
                if scratch.votes[c] == 0:
                    scratch.voted[n_votes] = c
                    n_votes += 1
                scratch.votes[c] += gain
    return n_votes


def _clear_votes(scratch, n_votes):
    for j in range(n_votes):
        scratch.votes[scratch.voted[j]] = 0


def _count_classes(groups, r, sign, scratch, n_present):
    """Count the classes of the instances of a row, or, with sign -1, count them back; returns how
    many classes are present."""
    if r < groups.ptr.shape[0] - 1:
        for e in range(groups.ptr[r], groups.ptr[r + 1]):
            c = groups.classes[e]
            n_present = _add(c, sign * groups.count[e], scratch, n_present)
    else:
        for c in range(groups.frequency.shape[0]):
            n_present = _add(c, sign * groups.frequency[c], scratch, n_present)
    return n_present


def _add(c, count, scratch, n_present):
    if scratch.count[c] == 0:
        scratch.present[n_present] = c
        n_present += 1
    scratch.count[c] += count
    return n_present


def _winner(groups, scratch, n_votes):
    """The class with most votes; of several the more frequent one, then the first seen.  And how
    many there were."""
    best = -1
    most = -1
    ties = 0
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


# -- requests --------------------------------------------------------------------------------------


def _look(memory, asked, q, query, numbers, k, scratch):
    """Find and sort the rows at the k nearest distances of a query whose tables are set; returns
    what `_count` does.

    Where at most asked.most rows share something with the query, the row M may stand for all
    others."""
    if asked.near_ptr.shape[0] > 1:
        begin = asked.near_ptr[q]
        n = asked.near_ptr[q + 1] - begin
        for j in range(n):
            scratch.row[j] = asked.near_rows[begin + j]
            scratch.distance[j] = asked.near_distance[begin + j]
        return _count(scratch.distance, n, k)
    n = memory.trie.columns.shape[1] if asked.known[q] > 0 else 0
    others = True
    if memory.postings.row.shape[0] > 0 and memory.postings.narrow.shape[0] > 0:
        n, others = _search_postings(
            memory.postings.narrow,
            memory.postings,
            memory.distances.first,
            memory.distances.scaled,
            query,
            k,
            asked.tiny,
            scratch,
        )
    elif memory.postings.row.shape[0] > 0:
        n, others = _search_postings(
            memory.postings.wide,
            memory.postings,
            memory.distances.first,
            memory.distances.scaled,
            query,
            k,
            asked.tiny,
            scratch,
        )
    if others and n > asked.most:
        n = _search(memory.trie, memory.distances, asked.tables.table, k, asked.tiny, scratch)
        others = False
    _measure(memory.distances, memory.trie, query, numbers, asked.before + q, n, scratch)
    return _count(scratch.distance, n + others, k)


def nearest(memory, asked, begin, end, scratch, ptr, rows, distance):
    """Write the rows at the k nearest distances of the queries begin:end and their distances, query
    by query (ptr [Q+1]); returns the first query for which the arrays are too short."""
    at = 0
    done = begin
    with cython.nogil:
        while done < end:
            query = asked.codes[done]
            given = asked.numbers[done]
            _set_tables(memory.distances, query, given, asked.tables, scratch)
            n = _look(memory, asked, done, query, given, asked.k, scratch)[0]
            _clear_tables(memory.distances, query, asked.tables.table, scratch.tables_begin)
            if at + n > rows.shape[0]:
                break
            for j in range(n):
                rows[at + j] = scratch.row[j]
                distance[at + j] = scratch.distance[j]
            at += n
            done += 1
            ptr[done - begin] = at
    return done


def classify(memory, asked, voting, begin, end, scratch, predicted, distance, ptr, classes, votes):
    """Write the class of the queries begin:end, the nearest distance, and the votes of all classes
    that have some (as `nearest` writes rows); returns the first query for which the arrays are too
    short."""
    view = VotingView(voting)
    searched = asked.near_ptr.shape[0] == 1
    n_votes = at = 0
    done = begin
    with cython.nogil:
        while done < end:
            query = asked.codes[done]
            given = asked.numbers[done]
            if searched:
                _set_tables(memory.distances, query, given, asked.tables, scratch)
            winner, n_votes = _elect(
                memory, asked, view, done, query, given, scratch, n_votes, distance
            )
            if searched:
                _clear_tables(memory.distances, query, asked.tables.table, scratch.tables_begin)
            if at + n_votes > classes.shape[0]:
                break
            predicted[done] = winner
            for j in range(n_votes):
                classes[at + j] = scratch.voted[j]
                votes[at + j] = scratch.votes[scratch.voted[j]]
            at += n_votes
            done += 1
            ptr[done - begin] = at
        _clear_votes(scratch, n_votes)
    return done


def _elect(memory, asked, voting, q, query, numbers, scratch, n_votes, distance):
    """The class of a query, and how many classes have votes; distance[q] is that of the nearest
    rows.

    Where classes tie, the next distance is searched as well; if that does not decide, the more
    frequent class wins."""
    n, n_groups, farthest = _look(memory, asked, q, query, numbers, asked.k, scratch)
    distance[q] = scratch.distance[0]
    n_votes = _vote(memory.groups, scratch, n, farthest, voting, n_votes)
    winner, ties = _winner(memory.groups, scratch, n_votes)
    if ties > 1 and n_groups == asked.k:
        more, further, beyond = _look(memory, asked, q, query, numbers, asked.k + 1, scratch)
        if further > asked.k:
            n_votes = _vote(memory.groups, scratch, more, beyond, voting, n_votes)
            again, ties = _winner(memory.groups, scratch, n_votes)
            if ties == 1:
                winner = again
            else:
                n_votes = _vote(memory.groups, scratch, n, farthest, voting, n_votes)
    return winner, n_votes


# -- IGTree ----------------------------------------------------------------------------------------


def descend(code, child, queries, reached, levels):
    """Write the last node of an IGTree that each query [Q, F] reaches along its values, and how
    many columns remain below it."""
    F = queries.shape[1]
    with cython.nogil:
        for q in range(queries.shape[0]):
            node = level = 0
            while level < F:
                down = find(code, child[node], child[node + 1], queries[q, level])
                if down < 0:
                    break
                node = down
                level += 1
            reached[q] = node
            levels[q] = F - level
