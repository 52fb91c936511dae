"""Candidate labels of tokens in NumPy: their cells, and the weights of the transitions between them.

Searches in rows of rising numbers go through all rows at once, one halving after the other."""

import numpy as np

from labelwright.kernels.vectorised.tables import _ranges
from labelwright.kernels.vectorised.zero_order import _token_features

_ARCS = 1 << 20  # that are listed at once


# -- cells of slots ---------------------------------------------------------------------------------------------------


def _lower_bounds(column, first, last, wanted):
    """lower_bound of every row first[k]:last[k] of `column`."""
    first, last = first.copy(), last.copy()
    end = max(0, len(column) - 1)
    for _ in range(int((last - first).max(initial=0)).bit_length()):
        middle = (first + last) >> 1
        searching = first < last
        below = column[np.minimum(middle, end)] < wanted
        np.copyto(first, middle + 1, where=searching & below)
        np.copyto(last, middle, where=searching & ~below)
    return first


def _searched(column, first, last, wanted, missing):
    """The place of every wanted[k] in its row first[k]:last[k] of `column`; `missing` where it is not."""
    if not len(column):
        return np.full(len(wanted), missing)
    place = _lower_bounds(column, first, last, wanted)
    known = (place < last) & (column[np.minimum(place, len(column) - 1)] == wanted)
    return np.where(known, place, missing)


def slot_cells(features, cell_ptr, cell_column, slot_ptr, slot_label, t0, t1, count, hit_ptr, hit_cell, hit_value):
    """The cells of the slots of tokens t0:t1, feature by feature: `count` them in hit_ptr [slots], or fill hit_cell
    from the places in hit_ptr on, which then end where the slot's cells end."""
    token, feature, value = _token_features(features, np.arange(t0, t1))
    ends = np.searchsorted(token, np.arange(t1 - t0 + 1))
    sizes = np.diff(slot_ptr[t0 : t1 + 1])
    slot = np.arange(slot_ptr[t0], slot_ptr[t1])
    owner = np.repeat(np.arange(t1 - t0), sizes)  # the token of each slot
    n = np.diff(ends)[owner]
    at = _ranges(ends[:-1][owner], n)  # the features of each slot
    slot, f = np.repeat(slot, n), feature[at]
    cell = _searched(cell_column, cell_ptr[f], cell_ptr[f + 1], slot_label[slot], -1)
    hit = cell >= 0
    slot, counts = slot[hit], np.bincount(slot[hit] - slot_ptr[t0], minlength=len(owner))
    mine = hit_ptr[slot_ptr[t0] : slot_ptr[t1]]
    if not count:
        place = _ranges(mine, counts)
        hit_cell[place] = cell[hit]
        if len(features.token_value):
            hit_value[place] = value[at[hit]]
    mine += counts


def slot_scores(hit_ptr, hit_cell, hit_value, weights, a, b, score):
    """score[s] = the sum of the weights of slot s, for a <= s < b, in order: cells of weight 0 change no bit."""
    first, last = hit_ptr[a], hit_ptr[b]
    weight = weights[hit_cell[first:last]].astype(np.float64)
    if len(hit_value):
        weight = weight * hit_value[first:last]
    slot = np.repeat(np.arange(b - a), np.diff(hit_ptr[a : b + 1]))
    score[a:b] = np.bincount(slot, weight, b - a)


def add_counts(place, count, a, b, counts):
    """counts[place[i]] += count[i], for a <= i < b."""
    counts += np.bincount(place[a:b], count[a:b], len(counts))


def collect(ptr, owner, value, count, c0, c1, gradient):
    """gradient[c] = the sum of the counts of the owners of cell c, for c0 <= c < c1."""
    first, last = ptr[c0], ptr[c1]
    amount = count[owner[first:last]]
    if len(value):
        amount = amount * value[first:last]
    some = np.flatnonzero(np.diff(ptr[c0 : c1 + 1]))
    gradient[c0:c1] = 0.0
    if len(some):
        gradient[c0 + some] = np.add.reduceat(amount, ptr[c0 + some] - first)


# -- places of transitions --------------------------------------------------------------------------------------------


def _blocks_of_tokens(slot_ptr, begins, t0, t1, order):
    """Parts of the tokens t0:t1 that are not first ones (of order 2: nor second ones), with not too many arcs each."""
    sizes = np.diff(slot_ptr)
    t = t0 + np.flatnonzero(~begins[t0:t1])
    if order == 2:
        t = t[~begins[t - 1]]
    arcs = sizes[t] * sizes[t - 1] * (sizes[t - 2] if order == 2 else 1)
    part = np.cumsum(arcs) // _ARCS
    cuts = np.flatnonzero(np.diff(part)) + 1
    return [tokens for tokens in np.split(t, cuts) if len(tokens)]


def _slot_pairs(slot_ptr, t):
    """The pairs of slots of the tokens t - 1 and t, for all of some tokens, one token behind the other."""
    sizes, before = slot_ptr[t + 1] - slot_ptr[t], slot_ptr[t] - slot_ptr[t - 1]
    first = _ranges(slot_ptr[t - 1], before)
    n = np.repeat(sizes, before)
    return np.repeat(first, n), _ranges(np.repeat(slot_ptr[t], before), n)


def pair_places(ptr, column, allowed, slot_ptr, slot_label, begins, pair_ptr, t0, t1, place):
    """place[pair_ptr[t] + i * J + j] = the number of the weight of the labels of slot i of token t - 1 and slot j of
    token t, for t0 <= t < t1; n (no weight) and n + 1 (not allowed) where there is none."""
    n = len(column)
    for t in _blocks_of_tokens(slot_ptr, begins, t0, t1, 1):
        i, j = _slot_pairs(slot_ptr, t)
        r, s = slot_label[i], slot_label[j]
        into = _ranges(pair_ptr[t], pair_ptr[t + 1] - pair_ptr[t])
        place[into] = _searched(column, ptr[r], ptr[r + 1], s, n)
        if len(allowed):
            place[into[~allowed[r, s]]] = n + 1


def triple_places(ptr, column, slot_ptr, slot_label, begins, pair_ptr, pair_place, arc_ptr, t0, t1, place):
    """place[arc_ptr[t] + (i * H + h) * J + j] = the number of the weight of the labels of slots h, i and j of three
    tokens; pairs without a weight are in no triple with one."""
    n, n_pairs = len(column), len(ptr) - 1
    place[arc_ptr[t0] : arc_ptr[t1]] = n
    for t in _blocks_of_tokens(slot_ptr, begins, t0, t1, 2):
        sizes, blocks = slot_ptr[t + 1] - slot_ptr[t], slot_ptr[t] - slot_ptr[t - 1]
        sources = slot_ptr[t - 1] - slot_ptr[t - 2]
        rows = blocks * sources
        within = _ranges(np.zeros_like(rows), rows)  # i * H + h
        owner = np.repeat(np.arange(len(t)), rows)
        i, h = within // sources[owner], within % sources[owner]
        pair = pair_place[pair_ptr[t - 1][owner] + h * blocks[owner] + i]
        known = pair < n_pairs
        first, last = np.zeros((2, len(pair)), np.int64)
        first[known], last[known] = ptr[pair[known]], ptr[pair[known] + 1]
        n_arcs = sizes[owner]
        label = slot_label[_ranges(slot_ptr[t][owner], n_arcs)]
        into = _ranges(arc_ptr[t], arc_ptr[t + 1] - arc_ptr[t])
        place[into] = _searched(column, np.repeat(first, n_arcs), np.repeat(last, n_arcs), label, n)


def mark_pairs(slot_ptr, slot_label, begins, seen):
    """seen[r, s] = True for all candidates r and s of neighbouring tokens."""
    for t in _blocks_of_tokens(slot_ptr, begins, 0, len(begins), 1):
        i, j = _slot_pairs(slot_ptr, t)
        seen[slot_label[i], slot_label[j]] = True


def list_triples(slot_ptr, slot_label, begins, n_labels, t0, t1, codes):
    """Fill codes with (r * L + s) * L + u of all candidates of three tokens, of which the last is in t0:t1; returns
    their number.  Without room for codes, they are only counted."""
    done, sizes = 0, np.diff(slot_ptr)
    for t in _blocks_of_tokens(slot_ptr, begins, t0, t1, 2):
        n = int((sizes[t] * sizes[t - 1] * sizes[t - 2]).sum())
        if len(codes):
            first, second = _slot_pairs(slot_ptr, t - 1)
            pair = (slot_label[first].astype(np.int64) * n_labels + slot_label[second]) * n_labels
            later = np.repeat(t, sizes[t - 1] * sizes[t - 2])
            third = slot_label[_ranges(slot_ptr[later], sizes[later])]
            codes[done : done + n] = np.repeat(pair, sizes[later]) + third
        done += n
    return done
