"""Inference over overlapping predictions of label n-grams: from what a classifier says to labels."""

from collections.abc import Callable

from labelwright.errors import OptionError
from labelwright.inference.candidates import WEIGHTINGS, Candidates, Problem, n_sequences, problem, propose
from labelwright.inference.csi import best_labellings, csi
from labelwright.inference.distributions import Distributions, certain, from_probabilities
from labelwright.inference.ngrams import ngram_classes
from labelwright.inference.vote import Inferred, none, oracle, satisfied, vote

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


__all__ = [
    "INFERENCE",
    "WEIGHTINGS",
    "Candidates",
    "Distributions",
    "Inferred",
    "Problem",
    "best_labellings",
    "certain",
    "csi",
    "from_probabilities",
    "inference_named",
    "n_sequences",
    "ngram_classes",
    "none",
    "oracle",
    "problem",
    "propose",
    "satisfied",
    "vote",
]
