"""Weights of sentences, tokens and labels, as users give them, made ready for training."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import CorpusError, OptionError
from labelwright.settings import NOT_NEGATIVE
from labelwright.structures.states import StateSpace
from labelwright.structures.supervision import Supervision
from labelwright.wording import like_label, some_of

Array = NDArray[Any]
BALANCED = "balanced"


def supervision_of(
    sets: Array,
    gold: Array,
    offsets: Array,
    labels: Sequence[Any],
    class_weight: Any,
    sample_weight: Any,
    part: bool = False,
    rate: float | None = None,
) -> Supervision:
    """What is said beside labels [T]: sets of labels, and weights of all sentences that have tokens.

    A part of the data may lack labels that have class weights, and its weights may all be 0.  Where nothing says what O
    is, neither a token nor the expected rate of entities, this is worth a warning."""
    of_sentences, of_tokens = sample_weights(sample_weight, offsets)
    if len(sets) and not part and rate is None and "O" in labels and not (gold == list(labels).index("O")).any():
        warnings.warn(
            "no token is surely O, so nothing says what lies outside of entities, and far too many will be found; give "
            "a CRF the expected share of tokens in entities (entity_rate; --entity-rate X, or --dev FILE, from which "
            "L-BFGS estimates it), or add sentences that are labelled completely",
            RuntimeWarning,
            stacklevel=4,
        )
    given = of_tokens if of_sentences is None else of_sentences
    if not part and given is not None and len(given) and not given.any():
        raise OptionError("sample_weight: all are zero; nothing is left to learn from")
    by_label = class_weights(class_weight, labels, gold, part)
    if by_label is not None:
        allowed = Supervision(sets).allowed(len(labels))
        by_code = allowed @ by_label / allowed.sum(axis=1)
        of_tokens = by_code[gold] if of_tokens is None else of_tokens * by_code[gold]
    if of_sentences is not None:
        of_sentences = of_sentences[np.diff(offsets) > 0]
    return Supervision(sets, of_sentences, of_tokens)


def token_weights(
    gold: Array, offsets: Array, labels: Sequence[Any], class_weight: Any, sample_weight: Any, part: bool = False
) -> Array | None:
    """How many times each token counts [T], for learners whose instances are tokens with known labels [T]."""
    of_sentences, of_tokens = sample_weights(sample_weight, offsets)
    if of_sentences is not None:
        of_tokens = np.repeat(of_sentences, np.diff(offsets))
    by_label = class_weights(class_weight, labels, gold, part)
    if by_label is not None:
        of_tokens = by_label[gold] if of_tokens is None else of_tokens * by_label[gold]
    return instance_weights(of_tokens, len(gold))


def instance_weights(given: Any, n: int) -> Array | None:
    """The weights of so many instances [n], after a check."""
    if given is None:
        return None
    try:
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = np.full(1, np.nan)
    if weights.shape != (n,) or not ((weights >= 0) & (weights < np.inf)).all():
        raise OptionError(f"sample_weight: expected a number of 0 or more for each of {n} instances, got {given!r:.40}")
    if not weights.any():
        raise OptionError("sample_weight: all are zero; nothing is left to learn from")
    return weights


def listed_weights(given: Any) -> list[Any]:
    """The weights of all sentences as a list; they may be anything that NumPy takes for an array."""
    if hasattr(given, "__array__") and not hasattr(given, "__len__"):
        given = np.atleast_1d(np.asarray(given))
    if not hasattr(given, "__len__") or isinstance(given, str | Mapping):
        raise OptionError(f"sample_weight: expected a number for each sentence, got {given!r:.40}")
    return list(given)


def sample_weights(given: Any, offsets: Array) -> tuple[Array | None, Array | None]:
    """The weights of sentences [N], or of tokens [T] where each sentence has a list of them."""
    if given is None:
        return None, None
    n, given = len(offsets) - 1, listed_weights(given)
    if len(given) != n:
        raise OptionError(f"sample_weight: {len(given)} entries, but X has {n} sentences; give one for each")
    if not any(hasattr(entry, "__len__") and not isinstance(entry, str) for entry in given):
        return _numbers(given, "sentence"), None
    for number, (entry, length) in enumerate(zip(given, np.diff(offsets).tolist(), strict=True)):
        if not hasattr(entry, "__len__") or isinstance(entry, str) or len(entry) != length:
            got = f"{len(entry)} weights" if hasattr(entry, "__len__") and not isinstance(entry, str) else repr(entry)
            raise OptionError(f"sample_weight: sentence {number} has {length} tokens, got {got}")
    return None, _numbers([weight for entry in given for weight in entry], "token")


def _numbers(given: Sequence[Any], of: str) -> Array:
    """Weights as an array, after a check."""
    for place, weight in enumerate(given):
        if not NOT_NEGATIVE.accepts(weight):
            raise OptionError(f"sample_weight: {of} {place}: expected a number of 0 or more, got {weight!r:.40}")
    return np.array(given, np.float64)


def class_weights(given: Any, labels: Sequence[Any], gold: Array, part: bool = False) -> Array | None:
    """The weight of each label [L]; "balanced" makes all labels count alike, however frequent they are; one that occurs
    in sets alone has the weight 1.  A part of the data may lack labels that have weights."""
    if given is None:
        return None
    if isinstance(given, str):
        counts = np.bincount(gold[gold < len(labels)], minlength=len(labels))
        seen = counts > 0
        return np.where(seen, counts.sum() / (max(1, seen.sum()) * np.maximum(counts, 1)), 1.0)
    unknown = [label for label in given if label not in labels]
    if unknown and not part:
        have = f"which have {some_of(labels)}{like_label(unknown[0], labels)}"
        raise OptionError(f"class_weight: no label {unknown[0]!r} in the training data, {have}")
    return np.array([float(given.get(label, 1.0)) for label in labels])


def check_paths(supervision: Supervision, gold: Array, offsets: Array, space: StateSpace) -> None:
    """An error where the sets of labels of a sentence leave no labelling that the label scheme allows."""
    if not supervision.partial or space.arc.all():
        return
    right = supervision.allowed(space.n_labels)[:, space.label_of]
    for n in range(len(offsets) - 1):
        codes = gold[offsets[n] : offsets[n + 1]]
        reached = space.start & right[codes[0]]
        for code in codes[1:]:
            reached = space.arc[reached].any(axis=0) & right[code]
        if not (reached & space.end).any():
            raise CorpusError(
                f"training labels: sentence {n}: no labelling within its sets of labels keeps the label scheme "
                f"and the forbidden transitions; mend them or train without constraints"
            )
