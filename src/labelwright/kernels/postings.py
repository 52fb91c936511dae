"""Nearest rows by postings: the rows that have each code, for memories whose values are equal or not (overlap).

A row that has none of the query's values in some columns is at least as far away as the sum of their weights.  So the
rows that share a value are looked at, column by column, those first that have few such rows for their weight; as soon
as the weights of the columns so far sum to more than the k-th nearest distance, no other row can be near enough.  (The
prefix filter of set similarity joins: Chaudhuri, Ganti & Kaushik, 2006.)
"""

from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, unsigned


class Postings(NamedTuple):
    """Which rows have a code, and the codes of a row side by side; without any rows where values are not compared by
    overlap alone."""

    ptr: Any  # [K+1] int64  the rows of each code of all columns
    row: Any  # [F*M] int32  in order
    cell: Any  # [M, F] uint16 or int32
    signature: Any  # [M] uint32  the last bytes of the first codes of each row: all of them fit into a cache


SIGNED = 4  # columns of a signature, the heaviest ones
SOME = 256  # rows whose signatures are compared before the rows themselves


@inlined_kernel
def enter_distance(near, k, s, width):
    """Insert s into the k nearest distances, unless one of them is within `width` of it; True where they change."""
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
    """Write the rows of postings begin:end that may be within the limit: unequal signatures are unequal codes, with the
    weights w [4], and `rest` is what other columns add; returns how many there are."""
    nothing, n = np.float32(0.0), 0
    for j in range(unsigned(begin), unsigned(end)):
        r = unsigned(postings.row[j])
        apart = postings.signature[r] ^ signature
        least = rest + (w[0] if apart & np.uint32(0xFF) else nothing) + (w[1] if apart & np.uint32(0xFF00) else nothing)
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
    """The distance of a row, which is `so_far` in the first n columns of the order; more than the limit where it is."""
    for h in range(n, query.shape[0]):
        i = order[h]
        if cell[r, i] != query[i]:
            so_far += weight[i]
            if so_far > limit:
                break
    return so_far


@kernel
def search_postings(postings, first, weight, query, k, tiny, scratch):
    """Fill scratch.row with all rows whose distance is among the k nearest; returns how many there are, and whether
    rows that share nothing with the query may be among them: then scratch.row has all rows that do.

    Sums may be rounded: distances that are almost equal count as one, which can only let more rows through."""
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
        if passed > limit or weight[here] == 0.0:  # what shares a value without weight shares nothing
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
