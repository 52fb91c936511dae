"""Bounds on the labellings that pruning has cut off (kernels/candidates.py), from the scores of all labels."""

import numpy as np

from labelwright.kernels import inlined_kernel, kernel

NEGLIGIBLE = 1e-6  # share of a candidate in the mass up to its token whose transitions are bounded, not summed


@inlined_kernel
def _mark(candidate, slot_label, a, b, value):
    for s in range(a, b):
        candidate[slot_label[s]] = value


@inlined_kernel
def _spread(x, r, largest, best, table, bound):
    """bound[y] = max(bound[y], x + the transition between r and y) for the transitions of label r above 0 in a `table`
    (ptr, other label, score), of which the largest can add `largest`: nothing to do where `best` is above that."""
    ptr, label, score = table
    if x + largest > best:
        for k in range(ptr[r], ptr[r + 1]):
            bound[label[k]] = max(bound[label[k]], x + score[k])


@kernel
def bounds_upto(rows, slot_ptr, slot_label, value, arc_place, pair_ptr, out, reach, upto, bound):
    """bound[t, y] = an upper bound on the score of every path up to label y at t (see `missed_bounds`)."""
    T, L = rows.shape
    candidate, zero = np.zeros(L, np.bool_), slot_ptr[0]
    more = np.full(slot_ptr[T] - zero, -np.inf)  # best path up to a slot that has left the candidates before
    missed = missed_raw = -np.inf
    for t in range(T):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        bound[t] = 0.0
        if t > 0:
            before, best = slot_ptr[t - 1], -np.inf
            for i in range(before, a):
                best = max(best, max(upto[i], more[i - zero]))
            bound[t] = max(best, missed)
            for i in range(before, a):
                r = slot_label[i]
                _spread(max(upto[i], more[i - zero]), r, reach[0, r], best, out, bound[t])
            for s in range(a, b):
                x = min(missed, missed_raw + reach[1, slot_label[s]])
                for i in range(before, a):
                    x = max(x, more[i - zero] + value[arc_place[pair_ptr[t] + (i - before) * (b - a) + s - a]])
                more[s - zero] = x + rows[t, slot_label[s]]
        missed = missed_raw = -np.inf
        _mark(candidate, slot_label, a, b, True)
        for y in range(L):
            bound[t, y] += rows[t, y]
            if not candidate[y]:
                missed_raw = max(missed_raw, bound[t, y])
                missed = max(missed, bound[t, y] + reach[0, y])
        _mark(candidate, slot_label, a, b, False)


@kernel
def add_bounds_after(rows, slot_ptr, slot_label, value, arc_place, pair_ptr, into, reach, ahead, bound):
    """bound[t, y] += an upper bound on what can follow label y at t; minus infinity for candidates.  Returns the
    largest."""
    T, L = rows.shape
    candidate, zero, after = np.zeros(L, np.bool_), slot_ptr[0], np.zeros(L)
    more = np.full(slot_ptr[T] - zero, -np.inf)  # best path after a slot that leaves the candidates
    highest = missed = missed_raw = -np.inf
    for t in range(T - 1, -1, -1):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        if t < T - 1:
            end, best = slot_ptr[t + 2], -np.inf
            for j in range(b, end):
                best = max(best, rows[t + 1, slot_label[j]] + max(ahead[j], more[j - zero]))
            after[:] = max(best, missed)
            for j in range(b, end):
                u = slot_label[j]
                _spread(rows[t + 1, u] + max(ahead[j], more[j - zero]), u, reach[1, u], best, into, after)
            for s in range(a, b):
                x = min(missed, missed_raw + reach[0, slot_label[s]])
                for j in range(b, end):
                    w = value[arc_place[pair_ptr[t + 1] + (s - a) * (end - b) + j - b]]
                    x = max(x, w + rows[t + 1, slot_label[j]] + more[j - zero])
                more[s - zero] = x
        missed = missed_raw = -np.inf
        _mark(candidate, slot_label, a, b, True)
        for y in range(L):
            if candidate[y]:
                bound[t, y] = -np.inf
            else:
                bound[t, y] += after[y]
                missed_raw = max(missed_raw, rows[t, y] + after[y])
                missed = max(missed, rows[t, y] + after[y] + reach[1, y])
                highest = max(highest, bound[t, y])
        _mark(candidate, slot_label, a, b, False)
    return highest


@kernel
def missed_bounds(rows, slot_ptr, slot_label, value, arc_place, pair_ptr, out, into, reach, upto, ahead, bound):
    """bound[t, y] = an upper bound on the score of every labelling of a sentence with the label y at t, for labels that
    are no candidates; minus infinity for candidates.  Returns the largest.

    rows [T, L] has the scores of all labels; `value` those of transitions by place, of which 0 stands for pairs
    without a weight; `out` and `into` are all transitions above 0, sorted by their first and by their second label
    (ptr, other label, score), `reach` [2, L] the largest out of and into each label.  upto [slots] and ahead [slots]
    are the scores of the best paths over candidates up to a slot, and after it.

        up(y) = row(y) + max( max_i upto(i) + w(i, y)+, missed(t-1) ),   missed(t) = max_y up(y) + reach(y)

    A path that left the candidates may come back: `missed` then replaces what came before.

    slot_ptr and pair_ptr [T+1] are those of the sentence's tokens among many."""
    bounds_upto(rows, slot_ptr, slot_label, value, arc_place, pair_ptr, out, reach, upto, bound)
    return add_bounds_after(rows, slot_ptr, slot_label, value, arc_place, pair_ptr, into, reach, ahead, bound)


@inlined_kernel
def _mass_into(old, total, slot_label, before, a, pairs, all_ptr, all_label, reach, came):
    """came[y] += sum_i old(i) exp(w(i, y)) over the candidates before:a of a token, of which old sums up to `total`."""
    L = came.shape[0]
    for y in range(L):
        came[y] += total
    for i in range(before, a):
        x, r = old[i - before], slot_label[i]
        if x > NEGLIGIBLE * total:
            for k in range(all_ptr[r], all_ptr[r + 1]):
                came[all_label[k]] += x * (np.exp(pairs[k]) - 1.0)
        else:
            more = x * (np.exp(reach[r]) - 1.0)
            for y in range(L):
                came[y] += more


@kernel
def mass_bound(rows, slot_ptr, slot_label, pairs, place, pair_ptr, all_ptr, all_label, reach):
    """log of an upper bound on the sum over all labellings of a sentence, of order 1.

    All labels that are no candidates are one more state of each token.  Transitions from candidates are exact (`pairs`
    by place, of which all_ptr [L+1] and all_label list those that have a weight); those out of other labels weigh as
    much as the largest out of each (reach [L]).

        other_t = sum_y exp(row_t(y) + reach(y)) (sum_i alpha_t-1(i) exp(w(i, y)) + other_t-1)"""
    T, L = rows.shape
    widest = 1
    for t in range(T):
        widest = max(widest, slot_ptr[t + 1] - slot_ptr[t])
    old, new, came = np.zeros(widest), np.zeros(widest), np.empty(L)
    other = log_z = 0.0
    for t in range(T):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        top = rows[t].max()
        came[:] = 1.0 if t == 0 else other
        new[: b - a] = came[0]
        if t > 0:
            before = slot_ptr[t - 1]
            _mass_into(old, old[: a - before].sum(), slot_label, before, a, pairs, all_ptr, all_label, reach, came)
            for j in range(b - a):
                for i in range(before, a):
                    new[j] += old[i - before] * np.exp(pairs[place[pair_ptr[t] + (i - before) * (b - a) + j]])
        c = 0.0
        for j in range(b - a):
            y = slot_label[a + j]
            new[j] *= np.exp(rows[t, y] - top)
            came[y] = 0.0
            c += new[j]
        other = 0.0
        for y in range(L):
            if came[y] > 0.0:
                other += came[y] * np.exp(rows[t, y] + (reach[y] if t < T - 1 else 0.0) - top)
        c += other
        log_z += np.log(c) + top
        other /= c
        for j in range(b - a):
            old[j] = new[j] / c
    return log_z
