"""Transitions between labels that a user forbids."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from labelwright.corpus.schemes import pairs_of_codes
from labelwright.errors import CorpusError, OptionError

Array = NDArray[Any]
Pairs = Sequence[tuple[Any, Any]]


def forbidden_codes(
    given: Pairs | None, labels: Sequence[Any], gold: Array, offsets: Array, more: bool = False
) -> list[tuple[int, int]]:
    """Pairs of labels as codes, after a check that the training labels [T] have none of them; with `more`, labels may
    come later."""
    pairs = [tuple(pair) for pair in given or ()]
    number = {label: code for code, label in enumerate(labels)}
    unknown = next((label for pair in pairs for label in pair if label not in number), None)
    if unknown is not None and not more:
        named = ", ".join(map(str, labels[:20]))
        raise OptionError(f"forbidden_transitions: no label {unknown!r} in the training data, which have {named}")
    seen = pairs_of_codes(labels, gold, offsets) if pairs else {}
    for before, after in pairs:
        if (before, after) in seen:
            raise CorpusError(
                f"training labels: {after} follows {before}, which forbidden_transitions exclude, in "
                f"{seen[before, after]:,} places; mend the labels, or permit it"
            )
    return [(number[a], number[b]) for a, b in pairs if a in number and b in number]
