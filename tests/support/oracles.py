"""Slow twins of the fast algorithms: they enumerate every path, and build every feature as a
string."""

import itertools
import math
import re
from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.spans import spans_of
from labelwright.structures.lattice import Lattice

# --- lattices -------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """Scores of states and of transitions: what a lattice means, however its nodes and arcs are
    numbered."""

    node: NDArray  # [T, S]
    arc: NDArray  # [T|1, S, S]     into every token but the first
    # [T|1, S, S, S]  into every token but the first two; None: first order
    triple: NDArray | None = None

    @property
    def order(self):
        return 1 if self.triple is None else 2

    @property
    def largest(self):
        """The sum of the largest finite scores of each kind, which decides how many digits are
        left."""
        return sum(np.abs(x[np.isfinite(x)]).max(initial=0) for x in self if x is not None)

    def lattice(self, graph):
        """The lattice on a graph (whose rows may be padded): a pair that the graph lacks must be
        forbidden."""
        T, S = self.node.shape
        node = np.full((T, len(graph.origin)), -np.inf)  # [T, Q]
        base = graph.contexts.base
        if self.order == 1:
            node[:, :S] = self.node
            arc = np.full((len(self.arc), graph.n_arcs), -np.inf)  # [T|1, A]
            arc[:, base[:S, None] + np.arange(S)] = self.arc
            return Lattice(node, arc, graph)
        pair, triple = graph.node_of_pair.reshape(S, S), graph.arc_of_triple.reshape(S, S, S)
        assert (self.arc[:, pair < 0] == -np.inf).all()
        assert (np.delete(self.node[0], graph.state[graph.previous < 0]) == -np.inf).all()
        for q in np.flatnonzero(graph.previous < 0):
            node[0, q] = self.node[0, graph.state[q]]
        for t in range(1, T):
            node[t, pair[pair >= 0]] = (self.node[t] + _at(self.arc, t))[pair >= 0]
        arc = np.full((len(self.triple), graph.n_arcs), np.nan)
        arc[:, triple[triple >= 0]] = self.triple[:, triple >= 0]
        for q in np.flatnonzero(graph.previous < 0):
            arc[:, base[q] + np.flatnonzero(graph.previous == graph.state[q])] = 0.0
        assert not np.isnan(arc).any()  # every arc is a triple, or leads from a first node
        return Lattice(node, arc, graph)


def _at(scores, t):
    """The scores into token t, where one row may serve all tokens."""
    return scores[t if len(scores) > 1 else 0]


def all_paths(T, S):
    """Every sequence of T states, [S^T, T]."""
    return np.array(list(itertools.product(range(S), repeat=T)))


def path_scores(scores, paths):
    """Score of each path of states [N, T]."""
    found = np.zeros(len(paths))
    for t in range(len(scores.node)):
        found += scores.node[t, paths[:, t]]
        if t > 0:
            found += _at(scores.arc, t)[paths[:, t - 1], paths[:, t]]
        if t > 1 and scores.order == 2:
            found += _at(scores.triple, t)[paths[:, t - 2], paths[:, t - 1], paths[:, t]]
    return found


def nodes_of(paths, graph):
    """The nodes [N, T] through which paths of states [N, T] lead."""
    if graph.order == 1:
        return paths
    first = {int(graph.state[q]): q for q in np.flatnonzero(graph.previous < 0)}
    nodes = np.empty_like(paths)
    nodes[:, 0] = [first[s] for s in paths[:, 0].tolist()]
    nodes[:, 1:] = graph.node_of_pair[paths[:, :-1] * graph.n_states + paths[:, 1:]]
    assert (nodes >= 0).all()
    return nodes


def states_of(nodes, graph):
    """The states [N, T] of paths of nodes [N, T], after a check that these paths hang together."""
    states = graph.state[nodes]
    if graph.order == 2:
        assert (graph.previous[nodes[:, 0]] == -1).all()
        assert (graph.previous[nodes[:, 1:]] == states[:, :-1]).all()
    return states


def log_sum(scores):
    """log sum exp; minus infinity for nothing."""
    top = max(scores, default=-np.inf)
    if top == -np.inf:
        return -np.inf
    return top + math.log(math.fsum(np.exp(np.asarray(scores) - top)))


class Enumerated:
    """All paths of states with their scores and probabilities, the best first."""

    def __init__(self, scores):
        self.T, self.S = scores.node.shape
        paths = all_paths(self.T, self.S)
        found = path_scores(scores, paths)
        order = np.argsort(-found, kind="stable")
        order = order[found[order] > -np.inf]
        self.paths, self.scores = paths[order], found[order]
        self.log_z = log_sum(self.scores)
        self.p = np.exp(self.scores - self.log_z)

    def states(self):
        """P(s at t), [T, S]."""
        found = np.zeros((self.T, self.S))
        for t in range(self.T):
            np.add.at(found[t], self.paths[:, t], self.p)
        return found

    def nodes(self, graph):
        """P(node at t), [T, Q]."""
        found, nodes = np.zeros((self.T, len(graph.origin))), nodes_of(self.paths, graph)
        for t in range(self.T):
            np.add.at(found[t], nodes[:, t], self.p)
        return found

    def arcs(self, graph):
        """P(arc into t), [T, A]; nothing at the first token."""
        found, nodes = np.zeros((self.T, graph.n_arcs)), nodes_of(self.paths, graph)
        for t in range(1, self.T):
            np.add.at(found[t], graph.contexts.base[nodes[:, t - 1]] + nodes[:, t], self.p)
        return found


class Labellings:
    """All labellings of a latent lattice: log weights summed over every one of their latent paths,
    and probabilities.

    Label l owns the states first[l]:first[l+1]."""

    def __init__(self, scores, first):
        self.T, self.S = scores.node.shape
        self.L = len(first) - 1
        paths = scores.node[0]  # [S, S, ...]: one axis for each token
        for t in range(1, self.T):
            paths = paths[..., None] + (_at(scores.arc, t) + scores.node[t])
            if t > 1 and scores.order == 2:
                paths += _at(scores.triple, t)
        self.path_scores = paths
        weights = paths
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
        return np.stack(
            [p.sum(axis=tuple(u for u in range(self.T) if u != t)) for t in range(self.T)]
        )

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


# --- features as strings --------------------------------------------------------------------------

_CELL = re.compile(r"%(\w+)\[(@?)([+-]?\d+),(\d+)(?:,(\d+))?\]")
_READ = {
    "x": lambda value, n: value,
    "X": lambda value, n: value.lower(),
    "lower": lambda value, n: value.lower(),
    "prefix": lambda value, n: value[: int(n)],
    "suffix": lambda value, n: value[-int(n) :],
}


def expand(line, sentence, t):
    """The string that a template line makes at token t of a sentence of column tuples, as CRF++
    does."""

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
    """{"state": [[feature, ...] per token], "edge": ..., "triple": ...} of every sentence, all
    tokens in one list."""
    feeds = {"state": "U*", "edge": "B*", "triple": "T"}
    return {
        kind: [
            [expand(line, sentence, t) for line in lines if line[0] in letters and "%" in line]
            for sentence in X
            for t in range(len(sentence))
        ]
        for kind, letters in feeds.items()
    }


# --- the CRF by its definition --------------------------------------------------------------------


def labelling_score(sentence, labelling, weights):
    """The score of one labelling, or of one path of states (see crf_loss)."""
    score = 0.0
    for t, token in enumerate(sentence):
        for feature, value in token["state"].items():
            score += value * weights.get((feature, labelling[t]), 0.0)
        for reach, kind in ((1, "edge"), (2, "triple")):
            if t >= reach:
                gram = labelling[t - reach : t + 1]
                score += weights.get((None, *gram), 0.0)
                for feature, value in token[kind].items():
                    score += value * weights.get((feature, *gram), 0.0)
    return score


def crf_loss(X, sets, states, weights, of_sentences=None, of_tokens=None, allowed=None):
    """sum_n v_n (log sum_p exp(score(p) + sum over wrong labels of log w_t) - log sum of
    exp(score(p)) over the paths p whose labels are all in the sets of their tokens), by
    enumeration.

    X: sentences of tokens, each {"state": {feature: value}, "edge": {feature: value}, "triple":
    {feature: value}}; states: labels, or (label, number) of every latent state; weights: {(feature,
    state): w, (feature, state, state): w, (feature, state, state, state): w}, with None in place of
    the feature where a plain pair or triple has a weight; allowed(labels) says which labellings
    exist."""
    loss, at = 0.0, 0
    for n, (sentence, right) in enumerate(zip(X, sets, strict=True)):
        cost = (
            [0.0] * len(sentence)
            if of_tokens is None
            else np.log(of_tokens[at : at + len(sentence)]).tolist()
        )
        at += len(sentence)
        every, agreeing = [], []
        for path in itertools.product(states, repeat=len(sentence)):
            labelling = tuple(state[0] if isinstance(state, tuple) else state for state in path)
            if allowed is None or allowed(labelling):
                score = labelling_score(sentence, path, weights)
                wrong = [
                    label not in labels for label, labels in zip(labelling, right, strict=True)
                ]
                every.append(score + sum(c for c, w in zip(cost, wrong, strict=True) if w))
                if not any(wrong):
                    agreeing.append(score)
        loss += (1.0 if of_sentences is None else of_sentences[n]) * (
            log_sum(every) - log_sum(agreeing)
        )
    return loss


# --- perceptrons by their definition --------------------------------------------------------------


def path_features(sentence, path):
    """How often a path of states (or labels) has each feature; keys and sentences as in
    crf_loss."""
    found = Counter()
    for t, token in enumerate(sentence):
        for reach, kind in enumerate(("state", "edge", "triple")):
            if t >= reach:
                gram = tuple(path[t - reach : t + 1])
                if reach > 0:
                    found[None, *gram] += 1
                for feature, value in token[kind].items():
                    found[feature, *gram] += value
    return found


class Choices:
    """All paths of one sentence as rows: what they count of each weight, and how many of their
    labels are wrong.

    names: what each weight belongs to, as keys of path_features; a feature without a weight does
    not count."""

    def __init__(self, sentence, gold, states, label_of, names, allowed=None):
        column = {name: i for i, name in enumerate(names)}
        rows, wrong = [], []
        for path in itertools.product(states, repeat=len(sentence)):
            labels = [label_of[s] for s in path]
            if allowed is None or allowed(labels):
                row = np.zeros(len(names))
                for name, value in path_features(sentence, path).items():
                    if name in column:
                        row[column[name]] = value
                rows.append(row)
                wrong.append(sum(a != b for a, b in zip(labels, gold, strict=True)))
        self.counts, self.wrong = np.array(rows), np.array(wrong)  # [N, W], [N]

    def update(self, weights, variances, rule):
        """Weights and variances after this sentence, and whether its best path was wrong (paper
        003, figure 1); with a limit the step is only as long as the margin needs."""
        scores = self.counts @ weights
        best = int(np.argmax(scores + rule.decoded * self.wrong))
        if self.wrong[best] == 0:
            return weights, variances, False
        gold = int(np.argmax(np.where(self.wrong == 0, scores, -np.inf)))
        x = self.counts[gold] - self.counts[best]
        missing = max(0.0, rule.margin * self.wrong[best] ** rule.power - x @ weights)
        # AROW with a diagonal inverse of the covariance matrix (figure 1)
        if rule.variance is not None:
            beta = 1 / (x @ (variances * x) + rule.damping)
            weights = weights + missing * beta * variances * x
            return weights, 1 / (1 / variances + x**2 / rule.damping), True
        moved = x
        if rule.groups is not None:  # w = u + v
            moved = rule.share * np.bincount(rule.groups, x)[rule.groups] + (1 - rule.share) * x
        step = 1.0 if rule.limit is None else min(rule.limit, missing / (x @ moved + rule.damping))
        return weights + step * moved, variances, True

    def clear(self, weights, rule):
        """Do all paths as good as the best, but for rounding, lead to the same update?"""
        scores = self.counts @ weights
        judged = scores + rule.decoded * self.wrong
        best = np.flatnonzero(judged > judged.max() - 1e-5)
        passive = rule.limit is not None and rule.augmented and rule.variance is None
        if passive and (self.wrong[best] == 0).any():
            return True  # a step of nothing
        return (self.counts[best] == self.counts[best[0]]).all() and len(
            set((self.wrong[best] == 0).tolist())
        ) == 1


class Rule(NamedTuple):
    """The update at a mistake."""

    margin: float = 0.0  # for a labelling with d wrong labels: this times d ** power
    limit: float | None = None  # of the step; None: a step of one
    damping: float = 0.0  # 1 / 2C of PA-II, r of AROW
    power: float = 1.0
    augmented: bool = True  # the margin counts in the search for the best path
    variance: float | None = None  # at first, of AROW
    share: float = 0.0  # of a step, which all weights of a group take
    groups: NDArray | None = None  # [W]

    @property
    def decoded(self):
        """What each wrong label adds in the search for the best path."""
        return self.margin if self.augmented else 0.0


class Pass(NamedTuple):
    """Where a perceptron is after a pass."""

    weights: NDArray  # [W]
    mean: NDArray  # [W]  of the weights after every sentence so far
    mistakes: int
    clear: bool  # nothing so far hung on rounding


def perceptron(choices, orders, start, averaging="none", reset_every=1, rule=Rule(), margins=None):  # noqa: B008
    """Each pass as figure 1 of paper 003 has it, nothing clever done; with `mavg`, pass q begins
    from the mean of all weights before it when q % reset_every is 0.  Each pass may have a margin
    of its own."""
    weights, every, passes, clear = start.astype(np.float64), [], [], True
    variances = np.full(len(weights), rule.variance or 1.0)
    for q, order in enumerate(orders, 1):
        now = rule if margins is None else rule._replace(margin=margins[q - 1])
        if averaging == "mavg" and q % reset_every == 0 and every:
            weights = np.mean(every, axis=0)
        mistakes = 0
        for n in order:
            clear = clear and choices[n].clear(weights, now)
            weights, variances, wrong = choices[n].update(weights, variances, now)
            every.append(weights)
            mistakes += wrong
        passes.append(Pass(weights, np.mean(every, axis=0), mistakes, clear))
    return passes


# --- spans ----------------------------------------------------------------------------------------


def spans_by_hand(labels):
    """The spans (start, end, type) of B I O labels, as conlleval reads them."""
    spans, start = set(), None
    for t, label in enumerate([*labels, "O"]):
        letter, _, kind = label.partition("-")
        before = labels[t - 1].partition("-") if t else ("O", "", "")
        if start is not None and (letter in "OB" or kind != before[2]):
            spans.add((start, t, before[2]))
            start = None
        if letter != "O" and start is None:
            start = t
    return spans
