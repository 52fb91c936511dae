"""How features are numbered and where their weights lie during training, in NumPy."""

import numpy as np

from labelwright.kernels.vectorised.tables import _ranges


def largest_norm(features, offsets, order):
    """The largest 2-norm that the features of a sentence can have under any labelling of one state per label: that of
    the same label at all tokens, plain transitions included."""
    ptr, feature, value = features.ptr, features.feature, features.value
    n_sentences, n_features = len(offsets) - 1, len(features.weights_of)
    if not n_sentences:
        return 0.0
    lengths = np.diff(offsets)
    keys, counts = [], []
    total = np.zeros(n_sentences)
    for n in range(order + 1):
        begins = np.minimum(offsets[:-1] + n, offsets[1:])
        entry = _ranges(ptr[n, begins], ptr[n, offsets[1:]] - ptr[n, begins])
        sentence = np.repeat(np.arange(n_sentences), ptr[n, offsets[1:]] - ptr[n, begins])
        keys.append(sentence * n_features + feature[entry])
        counts.append(value[entry].astype(np.float64) if len(value) else np.ones(len(entry)))
        if n:
            total += np.maximum(0, lengths - n).astype(np.float64) ** 2
    distinct, where = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.bincount(where.reshape(-1), np.concatenate(counts), len(distinct))
    total += np.bincount(distinct // max(1, n_features), sums**2, n_sentences)
    return np.sqrt(total.max())


def flatten(x, first, ptr, feature, value):
    """The features of every token of an Incidence in one list that begins at `first`; returns where it ends."""
    of_keys, of_tokens = x.key_ptr[x.keys], x.token_ptr[:-1, None]
    sizes = np.concatenate([x.key_ptr[x.keys + 1] - of_keys, np.diff(x.token_ptr)[:, None]], axis=1)
    entry = _ranges(np.concatenate([of_keys, len(x.key_feature) + of_tokens], axis=1).reshape(-1), sizes.reshape(-1))
    end = first + len(entry)
    ptr[:] = first
    ptr[1:] += np.cumsum(sizes.sum(axis=1))
    feature[first:end] = np.concatenate([x.key_feature, x.token_feature])[entry]
    if len(value):
        of_token = x.token_value if len(x.token_value) else np.ones(len(x.token_feature))
        value[first:end] = np.concatenate([np.ones(len(x.key_feature)), of_token])[entry]
    return end


def renumber(feature, number, dense, first):
    """Number the features from `first` on, dense ones before others, by first appearance, in place; number [F] must be
    -1 at first."""
    distinct, where = np.unique(feature, return_index=True)
    appeared = np.full(len(number), len(feature))
    appeared[distinct] = where
    number[np.lexsort((appeared, ~dense))] = first + np.arange(len(number))
    feature[:] = number[feature]


def sort_by_size(ptr, feature, value, weights_of):
    """Sort the features of each token, those with most grams first."""
    here = slice(int(ptr[0]), int(ptr[-1]))
    token = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    order = np.lexsort((-weights_of[feature[here], 1], token))
    feature[here] = feature[here][order]
    if len(value):
        value[here] = value[here][order]


def lay_out(ptr, item, begin, place, packed, laid, back):
    """Copy the entries of each feature f, packed[ptr[f]:ptr[f+1]], into `laid` from begin[f] on, or (`back`) from there
    to packed; where begin is negative, entry i is at -1 - begin + place[item[i]]."""
    sizes = np.diff(ptr)
    entry = np.arange(int(ptr[0]), int(ptr[-1]))
    first = np.repeat(begin, sizes)
    at = first + entry - np.repeat(ptr[:-1], sizes)
    dense = np.flatnonzero(first < 0)
    at[dense] = -1 - first[dense] + place[item[entry[dense]]]
    if back:
        packed[entry] = laid[at]
    else:
        laid[at] = packed[entry]
