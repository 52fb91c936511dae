"""Bounds on the labellings that pruning has cut off, from the scores of all labels of a token at once (NumPy).

rows [T, L] has the scores of all labels of a sentence, labels[t] the candidates of token t, pairs[t] the scores of the
transitions between those of t - 1 and t.  `out` and `into` are all transitions above 0, sorted by their first and by
their second label (ptr, other label, score), `reach` [2, L] the largest out of and into each label; 0 at least.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels.arrays import ranges

Array = NDArray[Any]
Table = tuple[Array, Array, Array]

NEGLIGIBLE = 1e-6  # share of a candidate in the mass up to its token whose transitions are bounded, not summed


def _entries(ptr: Array, of: Array) -> tuple[Array, Array]:
    """The entries ptr[k]:ptr[k+1] of all k in `of`, and how many each has."""
    sizes: Array = ptr[of + 1] - ptr[of]
    return ranges(ptr[of], sizes), sizes


def _spread(x: Array, labels: Array, largest: Array, best: float, table: Table, bound: Array) -> None:
    """bound[y] = max(bound[y], x[i] + the transition between labels[i] and y), for the transitions of a `table`, the
    largest of which must raise x above `best`."""
    some = x + largest > best
    k, sizes = _entries(table[0], labels[some])
    np.maximum.at(bound, table[1][k], np.repeat(x[some], sizes) + table[2][k])


def missed_bounds(
    rows: Array, labels: list[Array], pairs: list[Array], out: Table, into: Table, reach: Array, upto: list[Array],
    ahead: list[Array],
) -> Array:  # fmt: skip
    """bound[t, y] = an upper bound on the score of every labelling with the label y at t, for labels that are no
    candidates; minus infinity for candidates [T, L].

    upto[t] and ahead[t] are the scores of the best paths over candidates up to each of t, and after it.

        up(y) = row(y) + max( max_i upto(i) + w(i, y)+, missed(t-1) ),   missed(t) = max_y up(y) + reach(y)

    A path that left the candidates may come back: `missed` then replaces what came before."""
    T, L = rows.shape
    others = np.ones((T, L), np.bool_)
    for t, candidates in enumerate(labels):
        others[t, candidates] = False
    bound = rows.copy()
    missed = missed_raw = -np.inf
    more = np.full(len(labels[0]), -np.inf)  # the best path up to a candidate that has left the candidates before
    for t in range(T):
        if t > 0:
            x, before = np.maximum(upto[t - 1], more), labels[t - 1]
            best = x.max(initial=-np.inf)
            arrived = np.full(L, max(best, missed))
            _spread(x, before, reach[0, before], best, out, arrived)
            bound[t] += arrived
            left = np.minimum(missed, missed_raw + reach[1, labels[t]])
            more = np.maximum(left, (more[:, None] + pairs[t]).max(axis=0, initial=-np.inf)) + rows[t, labels[t]]
        missed_raw = bound[t, others[t]].max(initial=-np.inf)
        missed = (bound[t] + reach[0])[others[t]].max(initial=-np.inf)
    after, missed, missed_raw = np.zeros(L), -np.inf, -np.inf
    more = np.full(len(labels[-1]), -np.inf)  # the best path after a candidate that leaves the candidates
    for t in range(T - 1, -1, -1):
        if t < T - 1:
            later = labels[t + 1]
            x = rows[t + 1, later] + np.maximum(ahead[t + 1], more)
            best = x.max(initial=-np.inf)
            after[:] = max(best, missed)
            _spread(x, later, reach[1, later], best, into, after)
            left = np.minimum(missed, missed_raw + reach[0, labels[t]])
            more = np.maximum(left, (pairs[t + 1] + (rows[t + 1, later] + more)).max(axis=1, initial=-np.inf))
        bound[t] += after
        here = (rows[t] + after)[others[t]]
        missed_raw = here.max(initial=-np.inf)
        missed = (here + reach[1, others[t]]).max(initial=-np.inf)
    bound[~others] = -np.inf
    return bound


def mass_bound(
    rows: Array, labels: list[Array], pairs: list[Array], all_ptr: Array, all_label: Array, all_score: Array,
    reach: Array,
) -> float:  # fmt: skip
    """log of an upper bound on the sum over all labellings of a sentence.

    All labels that are no candidates are one more state of each token.  Transitions from candidates are exact, where
    these count (all_ptr [L+1], all_label and all_score list the pairs that have a weight); those out of other labels
    weigh as much as the largest out of each (reach [L]).

        other_t = sum_y exp(row_t(y) + reach(y)) (sum_i alpha_t-1(i) exp(w(i, y)) + other_t-1)"""
    T, L = rows.shape
    log_z, other, old = 0.0, 1.0, np.empty(0)
    for t, here in enumerate(labels):
        came, new = np.full(L, other), np.full(len(here), other)
        if t > 0:
            before, total = labels[t - 1], old.sum()
            large = old > NEGLIGIBLE * total
            k, sizes = _entries(all_ptr, before[large])
            came += np.bincount(all_label[k], np.repeat(old[large], sizes) * np.expm1(all_score[k]), L) + total
            came += (old[~large] * np.expm1(reach[before[~large]])).sum()
            new += old @ np.exp(pairs[t])
        top = rows[t].max()
        new *= np.exp(rows[t, here] - top)
        came[here] = 0.0
        some = came > 0
        other = float((came * np.exp(rows[t] + (reach if t < T - 1 else 0.0) - top))[some].sum())
        c = float(new.sum()) + other
        log_z += float(np.log(c) + top)
        other, old = other / c, new / c
    return log_z
