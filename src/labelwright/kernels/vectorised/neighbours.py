"""Exact search for nearest neighbours in NumPy, for one query after the other: postings, or all
rows.

As in the compiled search, sums have some slack, and the rows that pass are measured again in
double, term by term in the same order, so that both give the same distances bit for bit.  All else
(tables, the winner) is the plain Python of kernels.neighbours.  Compiled code is 8 to 10 times as
fast for one sentence, 23 to 25 times for many."""

import numpy as np

from labelwright.kernels.common import ranges
from labelwright.kernels.neighbours import EPSILON, vote_at
from labelwright.kernels.values import NUMERIC, OVERLAP, numeric_distances, value_distance

# rows of postings to look at first, for each neighbour: they bound the k-th nearest distance
SOME = 64


def search_postings(postings, first, weight, query, k, tiny, scratch):
    at = first[:-1] + query
    begin, size = (
        postings.ptr[at],
        np.where((query >= 0) & (weight > 0.0), postings.ptr[at + 1] - postings.ptr[at], 0),
    )
    order = np.argsort(
        np.divide(size, weight, out=np.full(len(size), np.inf), where=weight > 0.0), kind="stable"
    )
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


def _distances(cell, rows, query, weight):
    return np.asarray((cell.take(rows, axis=0) != query) @ weight)


def _limit(distance, k, slack, tiny):
    """A bound of the k-th nearest distance; infinity where there are fewer."""
    nearest = np.sort(distance)
    if k > 1 and len(nearest):
        new = np.append(True, np.diff(nearest) > slack * nearest[1:] + tiny)
        nearest = nearest[new]
    return float((1.0 + 2.0 * slack) * nearest[k - 1] + 2.0 * tiny) if len(nearest) >= k else np.inf


def _search(trie, d, table, k, tiny, scratch):
    columns, slack = trie.columns, 1e-7 * (8 + len(trie.columns))
    begin, end = np.searchsorted(columns[0], [scratch.best[0], scratch.best[0] + 1]).tolist()
    row, so_far = _near_rows(columns, table, scratch, slice(begin, end), np.inf)
    limit = _limit(so_far, k, slack, tiny)
    row, so_far = _near_rows(columns, table, scratch, slice(0, columns.shape[1]), limit)
    row = row[so_far <= _limit(so_far, k, slack, tiny)]
    scratch.row[: len(row)] = row
    return len(row)


def _near_rows(columns, table, scratch, rows, limit):
    """The numbers of the rows within the limit, and their distances."""
    row, so_far = np.arange(rows.start, rows.stop), np.zeros(rows.stop - rows.start)
    for i, codes in enumerate(columns):
        here = codes[rows] if len(row) == rows.stop - rows.start else codes[row]
        so_far += table[scratch.base[i] :].take(here)
        near = so_far + scratch.least[i + 1] <= limit
        if 2 * np.count_nonzero(near) < len(near) or i + 1 == len(columns):
            row, so_far = row[near], so_far[near]
    return row, so_far


def _measure(d, trie, query, numbers, number, n, scratch):
    rows, total = np.sort(scratch.row[:n]), np.zeros(n)
    for i in d.fixed.tolist():
        codes, weight = trie.columns[i].take(rows), d.weight[i]
        if d.kind[i] == NUMERIC:
            total += weight * numeric_distances(d, i, numbers[i], codes)
        elif d.kind[i] == OVERLAP or query[i] < 0:
            total += np.where(codes == query[i], 0.0, weight)
        else:
            distinct, place = np.unique(codes, return_inverse=True)
            apart = [
                weight * value_distance(d, i, query[i], 0.0, code) for code in distinct.tolist()
            ]
            total += np.array(apart)[place]
    order = np.argsort(total, kind="stable")
    scratch.row[:n], scratch.distance[:n] = rows[order], total[order]
    scratch.row[n], scratch.distance[n] = trie.columns.shape[1], np.cumsum(d.weight[d.fixed])[-1]


def _vote(groups, scratch, n, farthest, voting, n_votes):
    scratch.votes[scratch.voted[:n_votes]] = 0.0
    rows, distance, C = scratch.row[:n], scratch.distance[:n], len(groups.frequency)
    nearest, M, n_votes, begin = distance[0], len(groups.ptr) - 1, 0, 0

    def counted(rows):
        """The classes of the instances of these rows, in order, and how many instances each class
        has [C]."""
        entries = ranges(groups.ptr[rows], groups.ptr[rows + 1] - groups.ptr[rows])
        return groups.classes[entries], np.bincount(
            groups.classes[entries], groups.count[entries], C
        )

    while begin < n:
        here = distance[begin]
        end = begin + int(np.searchsorted(distance[begin:] - here, EPSILON))
        vote = vote_at(here, nearest, farthest, voting)
        same = rows[begin:end]
        present, count = counted(same[same < M])
        if same[-1] == M:  # all instances less those of the rows before
            present, count = (
                np.append(present, np.arange(C)),
                count + groups.frequency - counted(rows[: end - 1])[1],
            )
        gain = vote * count
        for c in dict.fromkeys(present.tolist()):
            if gain[c] > 0.0:
                if scratch.votes[c] == 0.0:
                    scratch.voted[n_votes] = c
                    n_votes += 1
                scratch.votes[c] += gain[c]
        begin = end
    return n_votes


# -- IGTree ----------------------------------------------------------------------------------------


def descend(code, child, queries, reached, levels):
    """Write the last node that each query [Q, F] reaches, and how many columns remain below it,
    level by level."""
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
