"""The zero-order model that prunes labels in NumPy: tokens in blocks, but for its training, which is one token at a
time as in the loop."""

import math
from itertools import pairwise

import numpy as np

from labelwright.kernels.vectorised.tables import _ranges
from labelwright.kernels.zero_order import FAR

_NUMBERS = 1 << 20  # scores of labels that are made at once, and cells that are listed at once
_FARTHEST = math.exp(-FAR)


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
    at = _ranges(begin.reshape(-1), size)
    own = owner % (groups + 1) == groups  # of the token itself
    feature = np.empty(len(at), np.int64)
    feature[own], feature[~own] = features.token_feature[at[own]], features.key_feature[at[~own]]
    value = np.ones(len(at), np.float32)
    if len(features.token_value):
        value[own] = features.token_value[at[own]]
    return owner // (groups + 1), feature, value


def _token_cells(features, cell_ptr, tokens):
    """The cells of all features of tokens: where in `tokens` each one's token is, the cell, its feature's value, and
    how often its token had the feature before."""
    token, feature, value = _token_features(features, tokens)
    size = cell_ptr[feature + 1] - cell_ptr[feature]
    again = np.repeat(_again(token, feature), size)
    return np.repeat(token, size), _ranges(cell_ptr[feature], size), np.repeat(value, size), again


def _again(token, feature):
    """How often the same token had the same feature before, for each feature of tokens."""
    order = np.lexsort((feature, token))
    same = (np.diff(token[order]) == 0) & (np.diff(feature[order]) == 0)
    again = np.zeros(len(token), np.int64)
    for k in np.flatnonzero(same).tolist():
        again[order[k + 1]] = again[order[k]] + 1
    return again


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
    token, cell, value, _ = _token_cells(features, cell_ptr, tokens)
    rows = np.tile(bias.astype(dtype), (len(tokens), 1))
    np.add.at(rows.reshape(-1), token * len(bias) + cell_column[cell], (value * weights[cell]).astype(dtype))
    return rows


def label_row(features, cell_ptr, cell_column, weights, bias, t, row):
    """row[y] = the score of label y at token t, for all labels: its bias and the weights of the token's features."""
    row[:] = _rows(features, cell_ptr, cell_column, weights, bias, np.array([t]), row.dtype)[0]


def label_rows(features, cell_ptr, cell_column, weights, bias, t0, t1, rows):
    """The same for the tokens t0 <= t < t1."""
    tokens, model = np.arange(t0, t1), (cell_ptr, cell_column, weights, bias)
    for a, b in _blocks(features, cell_ptr, tokens, rows.shape[1]):
        rows[a:b] = _rows(features, *model, tokens[a:b], rows.dtype)


def zero_order_pass(
    features,
    cell_ptr,
    cell_column,
    gold,
    tokens,
    rate,
    least,
    smallest,
    weights,
    squares,
    bias,
    bias_squares,
    row,
):
    """One pass of AdaGrad over tokens: P(y | t) = exp(row[y]) / sum.  Returns the loss."""
    loss, valued, n_labels = 0.0, len(features.token_value) > 0, len(row)
    for begin, end in _blocks(features, cell_ptr, tokens, n_labels):
        part = tokens[begin:end]
        token, cell, value, again = _token_cells(features, cell_ptr, part)
        times = range(int(again.max(initial=0)) + 1)
        column, ends = cell_column[cell].astype(np.int64), np.searchsorted(token, np.arange(len(part) + 1)).tolist()
        for k, y in enumerate(gold[part].tolist()):
            a, b = ends[k], ends[k + 1]
            cells, columns = cell[a:b], column[a:b]
            weight = weights.take(cells)
            np.add(bias, np.bincount(columns, value[a:b] * weight if valued else weight, n_labels), out=row)
            own, top = float(row[y]), row.max()
            row -= top
            np.exp(row, out=row)
            row *= row > _FARTHEST
            total = float(row.sum(dtype=np.float64))
            loss += float(top) + math.log(total) - own
            if math.exp(own - float(top)) > (1.0 - least) * total:
                continue
            row *= row > smallest * total
            row /= total
            row[y] -= 1.0
            labels = row.nonzero()[0]
            _steps(bias, bias_squares, labels, row.take(labels), rate)
            gradient = row.take(columns)
            if valued:
                gradient *= value[a:b]
            for time in times:
                some = (gradient if len(times) == 1 else gradient * (again[a:b] == time)).nonzero()[0]
                _steps(weights, squares, cells.take(some), gradient.take(some), rate)
    return loss


def _steps(weights, squares, cells, gradient, rate):
    """AdaGrad for some weights, each of them once."""
    sums = squares.take(cells)
    sums += gradient * gradient
    squares[cells] = sums
    gradient *= rate
    gradient /= np.sqrt(sums, out=sums)
    weights[cells] -= gradient


def gold_distances(
    features,
    cell_ptr,
    cell_column,
    weights,
    bias,
    gold,
    tokens,
    row,
    distance,
    rank,
    width,
    counts,
):
    """How far the gold label of each token is below its best one, how many labels are above it, and how many labels of
    all tokens are k * width to (k + 1) * width below the best (counts[k])."""
    for a, b in _blocks(features, cell_ptr, tokens, len(row)):
        rows = _rows(features, cell_ptr, cell_column, weights, bias, tokens[a:b], row.dtype)
        top, own = rows.max(axis=1), rows[np.arange(b - a), gold[tokens[a:b]]]
        rank[a:b] = (rows > own[:, None]).sum(axis=1)
        distance[a:b] = top - own
        below = ((top[:, None] - rows).reshape(-1) / width).astype(np.int64)
        counts += np.bincount(below[below < len(counts)], minlength=len(counts))


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
