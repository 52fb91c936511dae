"""Features in tiles (scoring.tiles): how they are numbered, and where their weights lie during training."""

from typing import NamedTuple

import numpy as np

from labelwright.kernels import kernel


class Features(NamedTuple):
    """The features of each token, numbered by first appearance, and where the weights of each feature lie: a tile for
    each of its grams, one after the other.

    Where every label has one state, features of many grams have a weight for every gram (dense): there `weights_of`
    has -1 - the place where the weights begin.  Dense features have the first numbers and come first at each token, and
    their weights lie in the order of their numbers: those of feature f begin at (f - first) * width + place."""

    ptr: np.ndarray  # [3, T+1]
    feature: np.ndarray  # features of token t on n labels before it: feature[ptr[n, t]:ptr[n, t+1]]
    value: np.ndarray  # their values; empty when all are one
    weights_of: np.ndarray  # [F, 4]  place of the first gram (a single gram itself), number of grams, first weight, 0
    gram: np.ndarray  # [E]  grams of each feature, sorted
    dense: np.ndarray  # [3, 3]  of n labels before: the first feature, the first that is not dense, the first place
    learns: np.ndarray  # [W]  False where a dense feature has no such gram: its weight stays 0


@kernel
def largest_norm(features, offsets, order):
    """The largest 2-norm that the features of a sentence can have under any labelling of one state per label: that of
    the same label at all tokens, plain transitions included."""
    ptr, feature, value = features.ptr, features.feature, features.value
    count = np.zeros(features.weights_of.shape[0])
    largest = 0.0
    for i in range(offsets.shape[0] - 1):
        total = 0.0
        for phase in range(2):  # count, then add up and clear
            for n in range(order + 1):
                for t in range(offsets[i] + n, offsets[i + 1]):
                    for j in range(ptr[n, t], ptr[n, t + 1]):
                        f = feature[j]
                        if phase == 0:
                            count[f] += value[j] if value.shape[0] > 0 else 1.0
                        else:
                            total += count[f] ** 2
                            count[f] = 0
        for n in range(1, order + 1):
            total += max(0, offsets[i + 1] - offsets[i] - n) ** 2
        largest = max(largest, total)
    return np.sqrt(largest)


@kernel
def flatten(x, first, ptr, feature, value):
    """The features of every token of an Incidence in one list that begins at `first`; returns where it ends."""
    n = first
    for t in range(x.keys.shape[0]):
        ptr[t] = n
        for g in range(x.keys.shape[1]):
            k = x.keys[t, g]
            for i in range(x.key_ptr[k], x.key_ptr[k + 1]):
                feature[n] = x.key_feature[i]
                if value.shape[0] > 0:
                    value[n] = 1
                n += 1
        for i in range(x.token_ptr[t], x.token_ptr[t + 1]):
            feature[n] = x.token_feature[i]
            if value.shape[0] > 0:
                value[n] = x.token_value[i] if x.token_value.shape[0] > 0 else 1
            n += 1
    ptr[x.keys.shape[0]] = n
    return n


@kernel
def renumber(feature, number, dense, first):
    """Number the features from `first` on, dense ones before others, by first appearance, in place; number [F] must be
    -1 at first."""
    following = np.array([first + dense.sum(), first])  # number of the next feature: not dense, dense
    for i in range(feature.shape[0]):
        f = feature[i]
        if number[f] < 0:
            number[f] = following[np.int64(dense[f])]
            following[np.int64(dense[f])] += 1
        feature[i] = number[f]
    for f in range(number.shape[0]):
        if number[f] < 0:
            number[f] = following[np.int64(dense[f])]
            following[np.int64(dense[f])] += 1


@kernel
def sort_by_size(ptr, feature, value, weights_of):
    """Sort the features of each token, those with most grams first: loops of similar length follow each other, which
    helps branch prediction."""
    for t in range(ptr.shape[0] - 1):
        for i in range(ptr[t] + 1, ptr[t + 1]):
            f, j = feature[i], i
            v = value[i] if value.shape[0] > 0 else np.float32(1)
            while j > ptr[t] and weights_of[feature[j - 1], 1] < weights_of[f, 1]:
                feature[j] = feature[j - 1]
                if value.shape[0] > 0:
                    value[j] = value[j - 1]
                j -= 1
            feature[j] = f
            if value.shape[0] > 0:
                value[j] = v


@kernel
def lay_out(ptr, item, begin, place, packed, laid, back):
    """Copy the entries of each feature f, packed[ptr[f]:ptr[f+1]], into `laid` from begin[f] on, or (`back`) from there
    to packed; where begin is negative, entry i is at -1 - begin + place[item[i]]."""
    for f in range(begin.shape[0]):
        a = begin[f]
        for c in range(ptr[f], ptr[f + 1]):
            at = -1 - a + place[item[c]] if a < 0 else a + c - ptr[f]
            if back:
                packed[c] = laid[at]
            else:
                laid[at] = packed[c]
