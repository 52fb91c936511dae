"""Shares of votes: how much of the weight of overlapping predictions of label n-grams each label of a token has."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.structures.distributions import Distributions

Array = NDArray[Any]


def label_shares(answers: Distributions, grams: Array, offsets: Array, n_labels: int) -> Array:
    """The share of each label at each token [T, L], from the classes (rows of grams [C, n]) that tokens are given.

    A token has one vote, which it splits among its classes by their weights; every class is a vote for the labels of
    the n tokens that it covers.
    """
    T, half = int(offsets[-1]), grams.shape[1] // 2
    token = np.repeat(np.arange(T), np.diff(answers.ptr))
    vote = answers.weights / np.bincount(token, answers.weights, T)[token]
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    votes = np.zeros(T * n_labels)
    for place in range(grams.shape[1]):
        label, target = grams[answers.classes, place], token + (place - half)
        inside = (label >= 0) & (target >= 0) & (target < T)
        inside[inside] = sentence[target[inside]] == sentence[token[inside]]
        votes += np.bincount(target[inside] * n_labels + label[inside], vote[inside], len(votes))
    table = votes.reshape(T, n_labels)
    shares: Array = table / table.sum(axis=1, keepdims=True)
    return shares
