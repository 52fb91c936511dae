"""The zero-order model that chooses candidate labels, and bounds on what it has cut off, in NumPy:
the scores of all labels at once."""

from itertools import pairwise

import numpy as np

from labelwright.kernels.candidates import NEGLIGIBLE
from labelwright.kernels.common import ranges

_NUMBERS = 1 << 20  # scores of labels that are made at once, and cells that are listed at once


def _token_features(features, tokens):
    """The features of tokens in order: where in `tokens` each one's token is, the feature, and its
    value."""
    keys = features.keys[tokens]  # [n, G]
    n, groups = keys.shape
    begin, end = np.empty((n, groups + 1), np.int64), np.empty((n, groups + 1), np.int64)
    begin[:, :groups], end[:, :groups] = features.key_ptr[keys], features.key_ptr[keys + 1]
    end[:, :groups][keys < 0] = begin[:, :groups][keys < 0]
    begin[:, groups], end[:, groups] = features.token_ptr[tokens], features.token_ptr[tokens + 1]
    size = (end - begin).reshape(-1)
    owner = np.repeat(np.arange(n * (groups + 1)), size)
    at = ranges(begin.reshape(-1), size)
    own = owner % (groups + 1) == groups  # of the token itself
    feature = np.empty(len(at), np.int64)
    feature[own], feature[~own] = features.token_feature[at[own]], features.key_feature[at[~own]]
    value = np.ones(len(at), np.float32)
    if len(features.token_value):
        value[own] = features.token_value[at[own]]
    return owner // (groups + 1), feature, value


def _blocks(features, cell_ptr, tokens, width):
    """Parts of `tokens` whose rows of scores and whose cells are not too many at once."""
    step = max(1, _NUMBERS // max(1, width))
    for a in range(0, len(tokens), step):
        part = tokens[a : a + step]
        token, feature, _ = _token_features(features, part)
        cost = np.cumsum(np.bincount(token, cell_ptr[feature + 1] - cell_ptr[feature], len(part)))
        cuts = np.unique(np.searchsorted(cost, np.arange(0, cost[-1] + 1, _NUMBERS)))
        edges = [0, *(int(c) for c in cuts if 0 < c < len(part)), len(part)]
        yield from ((a + i, a + j) for i, j in pairwise(edges))


def _rows(features, cell_ptr, cell_column, weights, bias, tokens, dtype):
    """The scores of all labels of tokens [n, L]."""
    token, feature, value = _token_features(features, tokens)
    size = cell_ptr[feature + 1] - cell_ptr[feature]
    token, cell, value = (
        np.repeat(token, size),
        ranges(cell_ptr[feature], size),
        np.repeat(value, size),
    )
    rows = np.tile(bias.astype(dtype), (len(tokens), 1))
    np.add.at(
        rows.reshape(-1),
        token * len(bias) + cell_column[cell],
        (value * weights[cell]).astype(dtype),
    )
    return rows


def label_rows(features, cell_ptr, cell_column, weights, bias, t0, t1, rows):
    tokens, model = np.arange(t0, t1), (cell_ptr, cell_column, weights, bias)
    for a, b in _blocks(features, cell_ptr, tokens, rows.shape[1]):
        rows[a:b] = _rows(features, *model, tokens[a:b], rows.dtype)


def pick_labels(
    features,
    cell_ptr,
    cell_column,
    weights,
    bias,
    tokens,
    permitted,
    cutoff,
    most,
    row,
    sizes,
    labels,
    scores,
):
    for a, b in _blocks(features, cell_ptr, tokens, len(row)):
        part = tokens[a:b]
        rows = _rows(features, cell_ptr, cell_column, weights, bias, part, row.dtype)
        if len(permitted):
            rows[~permitted[part]] = -np.inf
        near = (rows >= rows.max(axis=1, keepdims=True) - cutoff) & (rows > -np.inf)
        for i in np.flatnonzero(near.sum(axis=1) > most).tolist():
            best = np.flatnonzero(near[i])
            near[i, best[np.argsort(-rows[i, best], kind="stable")[most:]]] = False
        sizes[a:b] = near.sum(axis=1)
        token, label = np.nonzero(near)
        place = np.arange(len(token)) - np.repeat(np.cumsum(sizes[a:b]) - sizes[a:b], sizes[a:b])
        labels[a + token, place], scores[a + token, place] = label, rows[token, label]


# -- bounds on the labellings that pruning has cut off, from the scores of all labels --------------


def _spread(x, labels, largest, best, table, bound):
    """bound[y] = max(bound[y], x[i] + the transition between labels[i] and y), for the transitions
    of a `table`."""
    ptr, label, score = table
    some = x + largest > best
    r = labels[some]
    sizes = ptr[r + 1] - ptr[r]
    k = ranges(ptr[r], sizes)
    np.maximum.at(bound, label[k], np.repeat(x[some], sizes) + score[k])


def add_bounds(
    rows, slot_ptr, slot_label, value, arc_place, pair_ptr, table, reach, known, forward, bound
):
    T, L = rows.shape
    missed = missed_raw = -np.inf
    labels, known_before, more, came = np.empty(0, np.int64), np.empty(0), np.empty(0), np.zeros(L)
    for step, t in enumerate(range(T) if forward else range(T - 1, -1, -1)):
        here = slice(slot_ptr[t], slot_ptr[t + 1])
        before, labels = labels, slot_label[here]
        left = np.full(len(labels), -np.inf)
        if step > 0:
            x = np.maximum(known_before, more)
            best = x.max(initial=-np.inf)
            came[:] = max(best, missed)
            _spread(x, before, reach[0, before], best, table, came)
            at = t if forward else t + 1
            w = value[arc_place[pair_ptr[at] : pair_ptr[at + 1]]]
            w = (
                w.reshape(len(before), len(labels))
                if forward
                else w.reshape(len(labels), len(before)).T
            )
            left = np.minimum(missed, missed_raw + reach[1, labels])
            left = (
                np.maximum(left, (more[:, None] + w).max(axis=0, initial=-np.inf)) + rows[t, labels]
            )
        known_before, more = known[here], left
        bound[t] += came
        others = np.ones(L, np.bool_)
        others[labels] = False
        up = rows[t, others] + came[others]
        missed_raw, missed = up.max(initial=-np.inf), (up + reach[0, others]).max(initial=-np.inf)


def mass_bound(rows, slot_ptr, slot_label, pairs, place, pair_ptr, all_ptr, all_label, reach):
    T, L = rows.shape
    log_z = other = 0.0
    labels, old = np.empty(0, np.int64), np.empty(0)
    for t in range(T):
        before, labels = labels, slot_label[slot_ptr[t] : slot_ptr[t + 1]]
        start = 1.0 if t == 0 else other
        came, new = np.full(L, start), np.full(len(labels), start)
        if t > 0:
            came += _mass_into(old, before, pairs, all_ptr, all_label, reach, L)
            w = pairs[place[pair_ptr[t] : pair_ptr[t + 1]]].reshape(len(before), len(labels))
            new += old @ np.exp(w)
        top = rows[t].max()
        new *= np.exp(rows[t, labels] - top)
        came[labels] = 0.0
        out = reach if t < T - 1 else 0.0
        other = float((came * np.exp(rows[t] + out - top))[came > 0].sum())
        c = float(new.sum()) + other
        log_z += float(np.log(c) + top)
        other /= c
        old = new / c
    return log_z


def _mass_into(old, labels, pairs, all_ptr, all_label, reach, n_labels):
    """sum_i old(i) exp(w(i, y)) for all labels y, over candidates before them; small ones are
    bounded."""
    total = old.sum()
    large = old > NEGLIGIBLE * total
    r = labels[large]
    sizes = all_ptr[r + 1] - all_ptr[r]
    k = ranges(all_ptr[r], sizes)
    came = np.bincount(all_label[k], np.repeat(old[large], sizes) * np.expm1(pairs[k]), n_labels)
    return came + total + (old[~large] * np.expm1(reach[labels[~large]])).sum()
