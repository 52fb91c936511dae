"""Candidate labels of tokens: the cells of their features, and the weights of the transitions between them.

A token t has the *slots* slot_ptr[t]:slot_ptr[t+1], one for each of its candidate labels, in the order of the labels.
Nodes and arcs over them are numbered as kernels/candidate_chains.py says.
"""

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, literal_kernel

# -- cells of slots ---------------------------------------------------------------------------------------------------


@kernel
def lower_bound(column, first, last, wanted):
    """The first of the places first:last whose number is not below `wanted`, where numbers rise; `last` for none."""
    while first < last:
        m = (first + last) // 2
        if column[m] < wanted:
            first = m + 1
        else:
            last = m
    return first


@kernel
def search(column, first, last, wanted):
    """The place of `wanted` among the rising numbers column[first:last]; -1 where it is not."""
    a = lower_bound(column, first, last, wanted)
    return a if a < last and column[a] == wanted else -1


@inlined_kernel
def _hits_of(cell_ptr, cell_column, f, x, valued, slot_label, a, b, count, hit_ptr, hit_cell, hit_value):
    """The cells that feature f has with the labels of slots a:b; counted, or put behind those that are there."""
    first, last = cell_ptr[f], cell_ptr[f + 1]
    for s in range(a, b):
        c = search(cell_column, first, last, slot_label[s])
        if c >= 0:
            if not count:
                hit_cell[hit_ptr[s]] = c
                if valued:
                    hit_value[hit_ptr[s]] = x
            hit_ptr[s] += 1


@kernel
def slot_cells(features, cell_ptr, cell_column, slot_ptr, slot_label, t0, t1, count, hit_ptr, hit_cell, hit_value):
    """The cells of the slots of tokens t0:t1, feature by feature: `count` them in hit_ptr [slots], or fill hit_cell
    from the places in hit_ptr on, which then end where the slot's cells end."""
    valued = features.token_value.shape[0] > 0
    for t in range(t0, t1):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        for g in range(features.keys.shape[1]):
            k = features.keys[t, g]
            if k >= 0:
                for i in range(features.key_ptr[k], features.key_ptr[k + 1]):
                    f = features.key_feature[i]
                    _hits_of(
                        cell_ptr, cell_column, f, 1.0, valued, slot_label, a, b, count, hit_ptr, hit_cell, hit_value
                    )
        for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
            x = features.token_value[i] if valued else 1.0
            f = features.token_feature[i]
            _hits_of(cell_ptr, cell_column, f, x, valued, slot_label, a, b, count, hit_ptr, hit_cell, hit_value)


@literal_kernel
def slot_scores(hit_ptr, hit_cell, hit_value, weights, a, b, score):
    """score[s] = the sum of the weights of slot s, for a <= s < b, in order: cells of weight 0 change no bit."""
    valued = hit_value.shape[0] > 0
    for s in range(a, b):
        total = 0.0
        for i in range(hit_ptr[s], hit_ptr[s + 1]):
            total += weights[hit_cell[i]] * (hit_value[i] if valued else 1.0)
        score[s] = total


@kernel
def add_counts(place, count, a, b, counts):
    """counts[place[i]] += count[i], for a <= i < b."""
    for i in range(a, b):
        counts[place[i]] += count[i]


@kernel
def collect(ptr, owner, value, count, c0, c1, gradient):
    """gradient[c] = the sum of the counts of the owners of cell c, for c0 <= c < c1."""
    valued = value.shape[0] > 0
    for c in range(c0, c1):
        total = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            total += count[owner[i]] * (value[i] if valued else 1.0)
        gradient[c] = total


# -- places of transitions --------------------------------------------------------------------------------------------


@kernel
def pair_places(ptr, column, allowed, slot_ptr, slot_label, begins, pair_ptr, t0, t1, place):
    """place[pair_ptr[t] + i * J + j] = the number of the weight of the labels of slot i of token t - 1 and slot j of
    token t, for t0 <= t < t1; n (no weight) and n + 1 (not allowed) where there is none."""
    n = column.shape[0]
    for t in range(t0, t1):
        if begins[t]:
            continue
        at = pair_ptr[t]
        for i in range(slot_ptr[t - 1], slot_ptr[t]):
            r = slot_label[i]
            c, end = ptr[r], ptr[r + 1]
            for j in range(slot_ptr[t], slot_ptr[t + 1]):
                c = lower_bound(column, c, end, slot_label[j])
                place[at] = c if c < end and column[c] == slot_label[j] else n
                if allowed.shape[0] > 0 and not allowed[r, slot_label[j]]:
                    place[at] = n + 1
                at += 1


@kernel
def triple_places(ptr, column, slot_ptr, slot_label, begins, pair_ptr, pair_place, arc_ptr, t0, t1, place):
    """place[arc_ptr[t] + (i * H + h) * J + j] = the number of the weight of the labels of slots h, i and j of three
    tokens; pairs without a weight are in no triple with one."""
    n, n_pairs = column.shape[0], ptr.shape[0] - 1
    for t in range(t0, t1):
        if begins[t]:
            continue
        at = arc_ptr[t]
        H = 1 if begins[t - 1] else slot_ptr[t - 1] - slot_ptr[t - 2]
        B = slot_ptr[t] - slot_ptr[t - 1]
        for b in range(B):
            for h in range(H):
                pair = n_pairs if begins[t - 1] else pair_place[pair_ptr[t - 1] + h * B + b]
                for j in range(slot_ptr[t], slot_ptr[t + 1]):
                    c = -1
                    if pair < n_pairs:
                        c = search(column, ptr[pair], ptr[pair + 1], slot_label[j])
                    place[at] = c if c >= 0 else n
                    at += 1


@kernel
def mark_pairs(slot_ptr, slot_label, begins, seen):
    """seen[r, s] = True for all candidates r and s of neighbouring tokens."""
    for t in range(begins.shape[0]):
        if not begins[t]:
            for i in range(slot_ptr[t - 1], slot_ptr[t]):
                for j in range(slot_ptr[t], slot_ptr[t + 1]):
                    seen[slot_label[i], slot_label[j]] = True


@kernel
def list_triples(slot_ptr, slot_label, begins, n_labels, t0, t1, codes):
    """Fill codes with (r * L + s) * L + u of all candidates of three tokens, of which the last is in t0:t1; returns
    their number.  Without room for codes, they are only counted."""
    n = 0
    for t in range(t0, t1):
        if begins[t] or begins[t - 1]:
            continue
        if codes.shape[0] == 0:
            pairs = (slot_ptr[t + 1] - slot_ptr[t]) * (slot_ptr[t] - slot_ptr[t - 1])
            n += pairs * (slot_ptr[t - 1] - slot_ptr[t - 2])
            continue
        for h in range(slot_ptr[t - 2], slot_ptr[t - 1]):
            for i in range(slot_ptr[t - 1], slot_ptr[t]):
                pair = (np.int64(slot_label[h]) * n_labels + slot_label[i]) * n_labels
                for j in range(slot_ptr[t], slot_ptr[t + 1]):
                    codes[n] = pair + slot_label[j]
                    n += 1
    return n
