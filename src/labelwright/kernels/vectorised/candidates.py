"""The zero-order model that chooses candidate labels, in NumPy: the scores of all labels of many tokens at once."""

from itertools import pairwise

import numpy as np

from labelwright.kernels.arrays import ranges

_NUMBERS = 1 << 20  # scores of labels that are made at once, and cells that are listed at once


def _token_features(features, tokens):
    """The features of tokens in order: where in `tokens` each one's token is, the feature, and its value."""
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
    token, cell, value = np.repeat(token, size), ranges(cell_ptr[feature], size), np.repeat(value, size)
    rows = np.tile(bias.astype(dtype), (len(tokens), 1))
    np.add.at(rows.reshape(-1), token * len(bias) + cell_column[cell], (value * weights[cell]).astype(dtype))
    return rows


def label_rows(features, cell_ptr, cell_column, weights, bias, t0, t1, rows):
    """The same for the tokens t0 <= t < t1."""
    tokens, model = np.arange(t0, t1), (cell_ptr, cell_column, weights, bias)
    for a, b in _blocks(features, cell_ptr, tokens, rows.shape[1]):
        rows[a:b] = _rows(features, *model, tokens[a:b], rows.dtype)


def pick_labels(
    features, cell_ptr, cell_column, weights, bias, tokens, permitted, cutoff, most, row, sizes, labels, scores
):
    """labels[i, :sizes[i]] = the labels (rising) of tokens[i] that are at most `cutoff` below its best one, `most` of
    them at most; scores[i] = their scores.  Where `permitted` has rows, only labels of these."""
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
