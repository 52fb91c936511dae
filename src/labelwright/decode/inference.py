"""Inference over overlapping predictions of label n-grams: from the answers of a classifier to labels."""

from collections.abc import Callable

from labelwright.decode.csi import csi
from labelwright.decode.vote import Inferred, none, oracle, vote
from labelwright.errors import OptionError

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
