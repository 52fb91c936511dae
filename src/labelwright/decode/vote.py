"""Inference token by token: the token's prediction, a vote over overlapping predictions, and the oracle."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import csi as kernels
from labelwright.structures.proposals import Proposals

Array = NDArray[Any]


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

    A tie, also one of two at the ends, goes to the label that the most confident prediction names, then to the
    token's prediction, then to that of the nearest neighbour, the left one first."""
    labels = kernels.vote(proposals)
    return Inferred(labels, satisfied(proposals, labels))


def oracle(proposals: Proposals, gold: Array) -> Inferred:
    """The true label gold [T] where it is among the candidates, else the token's prediction: an upper bound for
    inference."""
    proposed = ((proposals.domains == np.asarray(gold)[:, None]) & (proposals.domains >= 0)).any(axis=1)
    labels = np.where(proposed, gold, proposals.grams[:, proposals.order // 2]).astype(np.int32)
    return Inferred(labels, satisfied(proposals, labels))
