"""Inference token by token: the own prediction, a vote over those that overlap, and the best choice there is."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import csi as kernels
from labelwright.structures.proposals import Candidates

Array = NDArray[Any]


class Inferred(NamedTuple):
    """Labels of all tokens, and what the constraints are worth that they satisfy."""

    labels: Array  # [T] int32
    scores: Array  # [N]  minus infinity where a sentence has no labelling


def satisfied(candidates: Candidates, labels: Array) -> Array:
    """The weight of the constraints that labels [T] satisfy, for each sentence [N]."""
    scores, window = np.empty(candidates.n_sentences), np.empty(max(candidates.order, 2), np.int32)
    labels = np.ascontiguousarray(labels, np.int32)
    kernels.satisfied(candidates, labels, window, scores)
    return scores


def none(candidates: Candidates) -> Inferred:
    """Every token's own prediction: the middle label of its class."""
    labels = candidates.grams[:, candidates.order // 2].copy()
    return Inferred(labels, satisfied(candidates, labels))


def vote(candidates: Candidates) -> Inferred:
    """The label that most of the overlapping predictions name (van den Bosch & Daelemans, 2005).

    A tie, also one of two at the ends, goes to the label that the most confident prediction names, then to the token's
    own prediction, then to that of the nearest neighbour, the left one first."""
    labels = np.empty(len(candidates.grams), np.int32)
    kernels.vote(candidates, labels)
    return Inferred(labels, satisfied(candidates, labels))


def oracle(candidates: Candidates, gold: Array) -> Inferred:
    """The true label gold [T] where it is among the candidates, else the own prediction: what no inference exceeds."""
    there = ((candidates.domains == np.asarray(gold)[:, None]) & (candidates.domains >= 0)).any(axis=1)
    labels = np.where(there, gold, candidates.grams[:, candidates.order // 2]).astype(np.int32)
    return Inferred(labels, satisfied(candidates, labels))
