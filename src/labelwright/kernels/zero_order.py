"""The zero-order model that prunes labels: scores of all labels, its training, and the candidates that it picks."""

import numpy as np

from labelwright.kernels import inlined_kernel, kernel

FAR = 14.0  # labels whose score is so far below the best have a probability of 0 in the zero-order model's updates


# -- scores of labels -------------------------------------------------------------------------------------------------


@inlined_kernel
def _add_feature(weights, cell_ptr, cell_column, f, x, row):
    for c in range(cell_ptr[f], cell_ptr[f + 1]):
        row[cell_column[c]] += x * weights[c]


@kernel
def label_row(features, cell_ptr, cell_column, weights, bias, t, row):
    """row[y] = the score of label y at token t, for all labels: its bias and the weights of the token's features."""
    row[:] = bias
    for g in range(features.keys.shape[1]):
        k = features.keys[t, g]
        if k >= 0:
            for i in range(features.key_ptr[k], features.key_ptr[k + 1]):
                _add_feature(weights, cell_ptr, cell_column, features.key_feature[i], 1.0, row)
    valued = features.token_value.shape[0] > 0
    for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
        x = features.token_value[i] if valued else 1.0
        _add_feature(weights, cell_ptr, cell_column, features.token_feature[i], x, row)


@kernel
def label_rows(features, cell_ptr, cell_column, weights, bias, t0, t1, rows):
    """The same for the tokens t0 <= t < t1."""
    for t in range(t0, t1):
        label_row(features, cell_ptr, cell_column, weights, bias, t, rows[t - t0])


# -- the zero-order model ---------------------------------------------------------------------------------------------


@inlined_kernel
def _step(weights, squares, cell_ptr, cell_column, f, x, gradient, rate):
    """AdaGrad (Duchi et al., 2011) for the weights of one feature."""
    for c in range(cell_ptr[f], cell_ptr[f + 1]):
        g = x * gradient[cell_column[c]]
        if g != 0.0:
            squares[c] += g * g
            weights[c] -= rate * g / np.sqrt(squares[c])


@kernel
def zero_order_pass(
    features, cell_ptr, cell_column, gold, tokens, rate, least, smallest, weights, squares, bias, bias_squares, row
):
    """One pass of AdaGrad over tokens: P(y | t) = exp(row[y]) / sum.  Returns the loss.

    Tokens whose label has a probability above 1 - least teach nothing more, nor do other labels below `smallest`."""
    loss = 0.0
    L = row.shape[0]
    valued = features.token_value.shape[0] > 0
    for at in range(tokens.shape[0]):
        t = tokens[at]
        label_row(features, cell_ptr, cell_column, weights, bias, t, row)
        top = row[0]
        for y in range(1, L):
            top = max(top, row[y])
        own = row[gold[t]]
        total = 0.0
        for y in range(L):
            if row[y] > top - FAR:
                row[y] = np.exp(row[y] - top)
                total += row[y]
            else:
                row[y] = 0.0
        loss += top + np.log(total) - own
        if np.exp(own - top) > (1.0 - least) * total:
            continue
        for y in range(L):
            row[y] = row[y] / total if row[y] > smallest * total else 0.0
        row[gold[t]] -= 1.0
        for y in range(L):
            if row[y] != 0.0:
                bias_squares[y] += row[y] * row[y]
                bias[y] -= rate * row[y] / np.sqrt(bias_squares[y])
        for g in range(features.keys.shape[1]):
            k = features.keys[t, g]
            if k >= 0:
                for i in range(features.key_ptr[k], features.key_ptr[k + 1]):
                    _step(weights, squares, cell_ptr, cell_column, features.key_feature[i], 1.0, row, rate)
        for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
            x = features.token_value[i] if valued else 1.0
            _step(weights, squares, cell_ptr, cell_column, features.token_feature[i], x, row, rate)
    return loss


@kernel
def gold_distances(features, cell_ptr, cell_column, weights, bias, gold, tokens, row, distance, rank, width, counts):
    """How far the gold label of each token is below its best one, how many labels are above it, and how many labels of
    all tokens are k * width to (k + 1) * width below the best (counts[k])."""
    for at in range(tokens.shape[0]):
        t = tokens[at]
        label_row(features, cell_ptr, cell_column, weights, bias, t, row)
        top = row.max()
        own = row[gold[t]]
        above = 0
        for y in range(row.shape[0]):
            if row[y] > own:
                above += 1
            k = int((top - row[y]) / width)
            if k < counts.shape[0]:
                counts[k] += 1
        distance[at] = top - own
        rank[at] = above


@inlined_kernel
def _nearest(row, cutoff, most, near):
    """Fill `near` with the labels that are at most `cutoff` below the best one, `most` of them at most, rising; returns
    their number."""
    top = row.max()
    n = 0
    for y in range(row.shape[0]):
        if row[y] >= top - cutoff and row[y] > -np.inf:
            near[n] = y
            n += 1
    if n > most:
        best = np.argsort(-row[near[:n]], kind="mergesort")[:most]
        near[:most] = np.sort(near[:n][best])
        n = most
    return n


@kernel
def pick_labels(
    features, cell_ptr, cell_column, weights, bias, tokens, permitted, cutoff, most, row, sizes, labels, scores
):
    """labels[i, :sizes[i]] = the labels (rising) of tokens[i] that are at most `cutoff` below its best one, `most` of
    them at most; scores[i] = their scores.  Where `permitted` has rows, only labels of these."""
    L = row.shape[0]
    near = np.empty(L, np.int64)
    for i in range(tokens.shape[0]):
        t = tokens[i]
        label_row(features, cell_ptr, cell_column, weights, bias, t, row)
        if permitted.shape[0] > 0:
            for y in range(L):
                if not permitted[t, y]:
                    row[y] = -np.inf
        n = _nearest(row, cutoff, most, near)
        sizes[i] = n
        for k in range(n):
            labels[i, k] = near[k]
            scores[i, k] = row[near[k]]
