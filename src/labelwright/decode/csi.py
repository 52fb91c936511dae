"""Constraint satisfaction inference (Canisius, van den Bosch & Daelemans, 2006): the labelling that
satisfies most.

The paper leaves open how its weighted constraint problem is solved.  No constraint spans more than
n tokens, so that dynamic programming over the candidates of n - 1 neighbouring tokens gives the
optimum.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import Allowed
from labelwright.errors import OptionError
from labelwright.kernels import csi as kernels
from labelwright.parallel import Workers, sentence_ranges
from labelwright.structures import dag
from labelwright.structures.proposals import (
    Bounds,
    Proposals,
    bounds_of,
    part,
    proposed_by,
)

Array = NDArray[Any]
BLOCK_TOKENS = 4096  # sentences of one piece of work
OUTSIDE = -2  # the label before the first token: no prediction has it
TIE = 1e-12  # confidences closer than this are equal
MOST_STATES = 1 << 26  # of one sentence: half a gigabyte for one number on each
ANYTHING = Allowed(np.empty(0, np.bool_), np.empty((0, 0), np.bool_), np.empty(0, np.bool_))


# -- token by token --------------------------------------------------------------------------------


class Inferred(NamedTuple):
    """Labels of all tokens, and the weight of the constraints that they satisfy."""

    labels: Array  # [T] int32
    scores: Array  # [N]  minus infinity where a sentence has no labelling


def satisfied(proposals: Proposals, labels: Array) -> Array:
    """The weight of the constraints that labels [T] satisfy, for each sentence [N]."""
    offsets, labels = proposals.offsets, np.asarray(labels)
    inside, t = bounds_of(offsets), np.arange(len(proposals.grams))
    window = [
        np.where(t - k >= inside.begin, labels[np.maximum(t - k, 0)], OUTSIDE)
        for k in range(_memory(proposals) + 1)
    ]
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.bincount(sentence, _gains(proposals, inside, t, window), len(offsets) - 1)


def _memory(proposals: Proposals) -> int:
    """The number of tokens whose candidates make a state."""
    return max(proposals.order - 1, 1)


def _gains(proposals: Proposals, inside: Bounds, t: Array, window: list[Array]) -> Array:
    """The weight of all constraints that hold and end at t; window[k] has the labels of t - k, for
    each of t."""
    grams, weights, n = proposals.grams, proposals.weights, proposals.order
    total = np.zeros(len(t))
    for o in range(-(n // 2), n // 2 + 1):
        p, j = t + o, n // 2 - o
        holds = (inside.begin[t] <= p) & (p < inside.end[t])
        p = np.where(holds, p, t)
        for i in range(j, -1, -1):
            holds = holds & (grams[p, i] == window[j - i])
            total += np.where(holds, weights[p, i, j], 0.0)
    return total


def none(proposals: Proposals) -> Inferred:
    """The prediction of every token: the middle label of its class."""
    labels = proposals.grams[:, proposals.order // 2].copy()
    return Inferred(labels, satisfied(proposals, labels))


def vote(proposals: Proposals) -> Inferred:
    """The label that most of the overlapping predictions name (van den Bosch & Daelemans, 2005).

    A tie, also one of two at the ends, goes to the label that the most confident prediction names,
    then to the token's prediction, then to that of the nearest neighbour, the left one first."""
    _, grams, confidence, _, domains, sizes, offsets = proposals
    labels = np.empty(len(grams), np.int32)
    inside, t, h = bounds_of(offsets), np.arange(len(grams)), proposals.order // 2
    predicted = [proposed_by(grams, inside, t, o) for o in range(-h, h + 1)]
    sure_of = [confidence[np.clip(t + o, 0, max(len(t) - 1, 0))] for o in range(-h, h + 1)]
    most, surest = np.zeros(len(t), np.int64), np.zeros(len(t))
    for i in range(domains.shape[1]):
        count, sure = np.zeros(len(t), np.int64), np.zeros(len(t))
        for label, confident in zip(predicted, sure_of, strict=True):
            same = label == domains[:, i]
            count += same
            sure = np.where(same, np.maximum(sure, confident), sure)
        better = (i < sizes) & ((count > most) | ((count == most) & (sure > surest + TIE)))
        most, surest = np.where(better, count, most), np.where(better, sure, surest)
        labels[better] = domains[better, i]
    return Inferred(labels, satisfied(proposals, labels))


def oracle(proposals: Proposals, gold: Array) -> Inferred:
    """The true label gold [T] where it is among the candidates, else the token's prediction: an
    upper bound for inference."""
    proposed = ((proposals.domains == np.asarray(gold)[:, None]) & (proposals.domains >= 0)).any(
        axis=1
    )
    labels = np.where(proposed, gold, proposals.grams[:, proposals.order // 2]).astype(np.int32)
    return Inferred(labels, satisfied(proposals, labels))


# -- constraint satisfaction inference -------------------------------------------------------------


def csi(
    proposals: Proposals, allowed: Allowed = ANYTHING, workers: Workers | None = None
) -> Inferred:
    """The labelling of each sentence that satisfies constraints of the largest weight, among those
    that are allowed.

    Of labellings that tie (to twelve digits) it is the one that takes, token by token from the
    left, the earlier candidate: the token's prediction before those of its neighbours.  Where none
    is allowed, the score is minus infinity and the labels are the tokens' predictions."""
    n_states = _state_counts(proposals)
    labels = proposals.grams[:, proposals.order // 2].copy()
    scores = np.empty(proposals.n_sentences)

    def piece(begin: int, stop: int) -> None:
        value = np.empty(int(n_states[begin:stop].max(initial=0)) + 1)
        kernels.best_labellings(proposals, begin, stop, allowed, value, labels, scores)

    (workers or Workers(1)).run(piece, sentence_ranges(proposals.offsets, BLOCK_TOKENS))
    return Inferred(labels, scores)


def best_labellings(
    proposals: Proposals, sentence: int, n: int, allowed: Allowed = ANYTHING
) -> tuple[list[Array], list[float]]:
    """Up to n labellings of one sentence (labels of its tokens), the best first, and their scores;
    none where none is allowed.  The first is that of `csi`."""
    one = part(proposals, sentence, sentence + 1)
    best = csi(one, allowed)
    if best.scores[0] == -np.inf:
        return [], []
    if not len(one.sizes):
        return [best.labels], [0.0]
    graph, scores, label, _ = labelling_graph(one, allowed)
    paths, path_scores = dag.best_paths(graph, scores, n)
    rows, values = [best.labels], [float(best.scores[0])]
    for path, value in zip(paths, path_scores.tolist(), strict=True):
        if not np.array_equal(label[path], best.labels):
            rows.append(label[path])
            values.append(min(value, values[0]))  # a tie may end in other digits
    return rows[:n], values[:n]


def labelling_graph(one: Proposals, allowed: Allowed) -> tuple[dag.Dag, Array, Array, Array]:
    """All labellings of one sentence as paths: the graph; the gain (minus infinity where it is
    forbidden), the label and the token of each arc [A]."""
    _state_counts(one)
    domains, sizes, T, m = one.domains, one.sizes.astype(np.int64), len(one.sizes), _memory(one)
    inside, tokens = bounds_of(one.offsets), np.arange(T)
    # states before each token, and by what they are divided when their first token is dropped
    before, keep = (
        np.append(1, _states(sizes, inside.begin, tokens, k)[:-1])[:T].astype(np.int64)
        for k in (m, m - 1)
    )
    arc_begin, node_begin = offsets_from(before * sizes), 1 + offsets_from(keep * sizes)
    t = np.repeat(tokens, before * sizes)  # of each arc
    state, choice = np.divmod(np.arange(len(t)) - arc_begin[t], sizes[t])
    window, left = [domains[t, choice]], state.copy()
    for k in range(1, m + 1):
        there = t - k >= 0
        back = np.where(there, t - k, t)
        left, digit = np.divmod(left, np.where(there, sizes[back], 1))
        window.append(np.where(there, domains[back, digit], OUTSIDE))
    gain = _gains(one, inside, t, window)
    gain[~_permitted(allowed, inside, t, window)] = -np.inf
    source = np.append(0, node_begin)[t] + state
    target = node_begin[t] + (state % keep[t]) * sizes[t] + choice
    return dag.dag(source.astype(np.int32), target.astype(np.int32)), gain, window[0], t


def _permitted(allowed: Allowed, inside: Bounds, t: Array, window: list[Array]) -> Array:
    """Which of the last labels may stand at t, after the ones before them?  Empty tables permit
    everything."""
    start, arc, end = allowed
    if not len(start):
        return np.ones(len(t), np.bool_)
    label, at_start = window[0], t == inside.begin[t]
    follows = np.where(at_start, start[label], arc[np.where(at_start, 0, window[1]), label])
    return np.asarray(follows & ((t < inside.end[t] - 1) | end[label]))


def _states(sizes: Array, begin: Array, t: Array, m: int) -> Array:
    """The number of states of m tokens up to t, as floats, since they may exceed an integer."""
    count = np.ones(len(t))
    for k in range(m):
        count *= np.where(t - k >= begin, sizes[np.maximum(t - k, 0)], 1)
    return count


def _state_counts(proposals: Proposals) -> Array:
    """The number of states of each sentence [N]; an error where there are too many."""
    offsets, begin = proposals.offsets, bounds_of(proposals.offsets).begin
    count = _states(proposals.sizes, begin, np.arange(len(begin)), _memory(proposals))
    lengths = np.diff(offsets)
    states = np.bincount(np.repeat(np.arange(len(lengths)), lengths), count, len(lengths))
    if states.max(initial=0.0) > MOST_STATES:
        worst = int(states.argmax())
        raise OptionError(
            f"csi: the predictions for a sentence of {lengths[worst]} tokens disagree so much that "
            f"{states[worst]:.3g} tuples of candidates are left, more than {MOST_STATES:,}; use a "
            "lower ngram, or inference='vote'"
        )
    return states


INFERENCE: dict[str, Callable[..., Inferred]] = {
    "none": none,
    "vote": vote,
    "csi": csi,
    "oracle": oracle,
}


def inference_named(name: str) -> Callable[..., Inferred]:
    """The inference of this name, of those that need no true labels."""
    if name == "oracle":
        raise OptionError("inference 'oracle': it needs the true labels; use predict_oracle(X, y)")
    if name not in INFERENCE:
        raise OptionError(f"inference: expected one of none, vote, csi, got {name!r}")
    return INFERENCE[name]
