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

from labelwright.corpus.schemes import Allowed
from labelwright.errors import OptionError
from labelwright.kernels import csi as kernels
from labelwright.parallel import Workers, sentence_ranges
from labelwright.structures import dag
from labelwright.structures.proposals import Proposals, arc_counts, part

Array = NDArray[Any]
BLOCK_TOKENS = 4096  # sentences of one piece of work
MOST_STATES = 1 << 26  # of one sentence: half a gigabyte for one number on each
ANYTHING = Allowed(np.empty(0, np.bool_), np.empty((0, 0), np.bool_), np.empty(0, np.bool_))


# -- token by token --------------------------------------------------------------------------------


class Inferred(NamedTuple):
    """Labels of all tokens, and the weight of the constraints that they satisfy."""

    labels: Array  # [T] int32
    scores: Array  # [N]  minus infinity where a sentence has no labelling


def satisfied(proposals: Proposals, labels: Array) -> Array:
    """The weight of the constraints that labels [T] satisfy, for each sentence [N]."""
    return kernels.satisfied(proposals, np.asarray(labels))


def none(proposals: Proposals) -> Inferred:
    """The prediction of every token: the middle label of its class."""
    labels = proposals.grams[:, proposals.order // 2].copy()
    return Inferred(labels, satisfied(proposals, labels))


def vote(proposals: Proposals) -> Inferred:
    """The label that most of the overlapping predictions name (van den Bosch & Daelemans, 2005).

    A tie, also one of two at the ends, goes to the label that the most confident prediction names,
    then to the token's prediction, then to that of the nearest neighbour, the left one first."""
    labels = kernels.vote(proposals)
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
    m = max(proposals.order - 1, 1)
    n_states, _ = _sizes(proposals)
    labels = proposals.grams[:, proposals.order // 2].copy()
    scores = np.empty(proposals.n_sentences)

    def piece(begin: int, stop: int) -> None:
        longest = int(np.diff(proposals.offsets[begin : stop + 1]).max(initial=0))
        value = np.empty(int(n_states[begin:stop].max(initial=0)) + 1)
        kernels.best_labellings(
            proposals, begin, stop, allowed, _scratch(m, longest), value, labels, scores
        )

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
    """All labellings of one sentence as paths: the graph; the gain, the label and the token of each
    arc [A]."""
    _sizes(one)
    source, target, score, label = kernels.arcs(one, allowed)
    return (
        dag.dag(source, target),
        score,
        label,
        np.repeat(np.arange(len(one.sizes)), arc_counts(one).astype(np.int64)),
    )


def _scratch(m: int, longest: int) -> kernels.StateScratch:
    return kernels.StateScratch(
        np.empty(m + 1, np.int32), np.empty(longest + 2, np.int64), np.empty(longest, np.int64)
    )


def _sizes(proposals: Proposals) -> tuple[Array, Array]:
    """The numbers of states and arcs of each sentence [N each]; an error where there are too
    many."""
    states, arcs = kernels.sizes_of(proposals)
    if states.max(initial=0.0) > MOST_STATES:
        worst = int(states.argmax())
        length = int(np.diff(proposals.offsets)[worst])
        raise OptionError(
            f"csi: the predictions for a sentence of {length} tokens disagree so much that "
            f"{states[worst]:.3g} tuples of candidates are left, more than {MOST_STATES:,}; use a "
            "lower ngram, or inference='vote'"
        )
    return states, arcs


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
