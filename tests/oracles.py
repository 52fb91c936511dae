"""Slow twins of the fast algorithms: they enumerate every path, and build every feature as a string."""

import itertools
import math
import re
from collections import Counter

import numpy as np

from labelwright.corpus.spans import spans_of

# --- lattices ---------------------------------------------------------------------------------------------------------


def all_paths(T, S):
    """Every sequence of T states, [S^T, T]."""
    return np.array(list(itertools.product(range(S), repeat=T)))


def path_scores(node, arc, paths):
    """Score of each path: node scores [T, S] plus arc scores [T or 1, S, S] into every token but the first."""
    scores = np.zeros(len(paths))
    for t in range(len(node)):
        scores += node[t, paths[:, t]]
        if t > 0:
            scores += arc[t if len(arc) > 1 else 0][paths[:, t - 1], paths[:, t]]
    return scores


def log_sum(scores):
    """log sum exp; minus infinity for nothing."""
    top = max(scores, default=-np.inf)
    if top == -np.inf:
        return -np.inf
    return top + math.log(math.fsum(np.exp(np.asarray(scores) - top)))


class Enumerated:
    """All paths of one lattice with their scores and probabilities, the best first."""

    def __init__(self, node, arc):
        self.T, self.S = node.shape
        paths = all_paths(self.T, self.S)
        scores = path_scores(node, arc, paths)
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] > -np.inf]
        self.paths, self.scores = paths[order], scores[order]
        self.log_z = log_sum(self.scores)
        self.p = np.exp(self.scores - self.log_z)

    def states(self):
        """P(s at t), [T, S]."""
        found = np.zeros((self.T, self.S))
        for t in range(self.T):
            np.add.at(found[t], self.paths[:, t], self.p)
        return found

    def arcs(self):
        """P(r, s at t-1, t), [T, S, S]; nothing at the first token."""
        found = np.zeros((self.T, self.S, self.S))
        for t in range(1, self.T):
            np.add.at(found[t], (self.paths[:, t - 1], self.paths[:, t]), self.p)
        return found

    def spans(self, labels):
        """{(start, end, type): probability} of every span that any labelling has."""
        found = Counter()
        for path, p in zip(self.paths, self.p, strict=True):
            for span in spans_of([labels[s] for s in path]):
                found[span[:3]] += p
        return found


class Labellings:
    """All labellings of a latent lattice: log weights summed over every one of their latent paths, and probabilities.

    Label l owns the states first[l]:first[l+1]."""

    def __init__(self, node, arc, first):
        self.T, self.S = node.shape
        self.L = len(first) - 1
        scores = node[0]  # [S, S, ...]: one axis for each token
        for t in range(1, self.T):
            scores = scores[..., None] + (arc[t if len(arc) > 1 else 0] + node[t])
        self.path_scores = scores
        weights = scores
        for t in range(self.T):
            weights = np.logaddexp.reduceat(weights, first[:-1], axis=t)
        self.labellings = all_paths(self.T, self.L)  # [L^T, T]
        self.weights = weights.reshape(-1)  # [L^T]
        self.log_z = log_sum(self.weights)
        self.possible = self.log_z > -np.inf
        self.p = np.exp(self.weights - self.log_z) if self.possible else np.zeros(len(self.weights))
        self.ranked = np.sort(self.weights[self.weights > -np.inf])[::-1]

    def at(self, codes):
        """Where this labelling is among all of them."""
        return int(np.ravel_multi_index(tuple(codes), (self.L,) * self.T))

    def states(self):
        """P(s at t), [T, S]."""
        p = np.exp(self.path_scores - self.log_z)
        return np.stack([p.sum(axis=tuple(u for u in range(self.T) if u != t)) for t in range(self.T)])

    def labels(self):
        """P(label at t), [T, L]."""
        return np.stack([np.bincount(self.labellings[:, t], self.p, self.L) for t in range(self.T)])

    def spans(self, labels):
        """{(start, end, type): probability} of every span that any labelling has."""
        found = Counter()
        for labelling, p in zip(self.labellings, self.p, strict=True):
            for span in spans_of([labels[y] for y in labelling]):
                found[span[:3]] += p
        return found


# --- features as strings ----------------------------------------------------------------------------------------------

_CELL = re.compile(r"%(\w+)\[(@?)([+-]?\d+),(\d+)(?:,(\d+))?\]")
_READ = {
    "x": lambda value, n: value,
    "X": lambda value, n: value.lower(),
    "lower": lambda value, n: value.lower(),
    "prefix": lambda value, n: value[: int(n)],
    "suffix": lambda value, n: value[-int(n) :],
}


def expand(line, sentence, t):
    """The string that a template line makes at token t of a sentence of column tuples, as CRF++ does."""

    def cell(found):
        function, absolute, row, column, argument = found.groups()
        row = int(row)
        at = t + row
        if absolute:
            at = row - 1 if row > 0 else len(sentence) + row
        if at < 0:
            return f"_B{at}"
        if at >= len(sentence):
            return f"_B+{at - len(sentence) + 1}"
        return _READ[function](sentence[at][int(column)], argument)

    return _CELL.sub(cell, line)


def template_features(lines, X):
    """{"state": [[feature, ...] per token], "edge": ...} of every sentence, all tokens in one list."""
    feeds = {"state": "U*", "edge": "B*"}
    return {
        layer: [
            [expand(line, sentence, t) for line in lines if line[0] in kinds and "%" in line]
            for sentence in X
            for t in range(len(sentence))
        ]
        for layer, kinds in feeds.items()
    }


# --- the CRF by its definition ----------------------------------------------------------------------------------------


def crf_loss(X, y, labels, weights, allowed=None):
    """sum_n log Z(x_n) - score(y_n, x_n), by enumeration.

    X: sentences of tokens, each {"state": {feature: value}, "edge": {feature: value}};
    weights: {(feature, label): w, (feature, label, label): w, (label, label): w under the key (None, label, label)};
    allowed(labels) says which labellings exist."""
    loss = 0.0
    for sentence, gold in zip(X, y, strict=True):
        scores = {}
        for labelling in itertools.product(labels, repeat=len(sentence)):
            if allowed is None or allowed(labelling):
                scores[labelling] = _labelling_score(sentence, labelling, weights)
        loss += log_sum(list(scores.values())) - scores[tuple(gold)]
    return loss


def _labelling_score(sentence, labelling, weights):
    score = 0.0
    for t, token in enumerate(sentence):
        for feature, value in token["state"].items():
            score += value * weights.get((feature, labelling[t]), 0.0)
        if t > 0:
            pair = labelling[t - 1 : t + 1]
            score += weights.get((None, *pair), 0.0)
            for feature, value in token["edge"].items():
                score += value * weights.get((feature, *pair), 0.0)
    return score


def latent_loss(X, y, states, weights, allowed=None):
    """sum_n log Z(x_n) - log Z(x_n restricted to the states of y_n), by enumeration of the latent paths.

    states: (label, number) of every state, which take the place of labels in the keys of `weights` (see crf_loss)."""
    loss = 0.0
    for sentence, gold in zip(X, y, strict=True):
        every, of_gold = [], []
        for path in itertools.product(states, repeat=len(sentence)):
            labelling = tuple(label for label, _ in path)
            if allowed is None or allowed(labelling):
                every.append(_labelling_score(sentence, path, weights))
                if labelling == tuple(gold):
                    of_gold.append(every[-1])
        loss += log_sum(every) - log_sum(of_gold)
    return loss
