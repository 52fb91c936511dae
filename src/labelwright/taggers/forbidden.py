"""Transitions between labels that a user forbids or requires."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from labelwright.corpus.schemes import pairs_of_codes
from labelwright.errors import CorpusError, OptionError

Array = NDArray[Any]
Pairs = Sequence[tuple[Any, Any]]


class Transitions(NamedTuple):
    """What a user says of pairs of labels, the second directly after the first."""

    forbidden: Pairs | None
    required: Pairs | None  # after the first label nothing but the second ones of all its pairs


def forbidden_codes(
    transitions: Transitions, labels: Sequence[Any], gold: Array, offsets: Array, more: bool = False
) -> list[tuple[int, int]]:
    """The pairs of labels that are impossible, as codes, after a check that the training labels [T] have none of them;
    with `more`, labels may come later."""
    forbidden, required = ([tuple(pair) for pair in given or ()] for given in transitions)
    if not forbidden and not required:
        return []
    number = {label: code for code, label in enumerate(labels)}
    for setting, pairs in (("forbidden_transitions", forbidden), ("required_transitions", required)):
        unknown = next((label for pair in pairs for label in pair if label not in number), None)
        if unknown is not None and not more:
            named = ", ".join(map(str, labels[:20]))
            raise OptionError(f"{setting}: no label {unknown!r} in the training data, which have {named}")
    firsts = dict.fromkeys(before for before, _ in required)
    others = [(a, b) for a in firsts for b in labels if (a, b) not in required]
    seen = pairs_of_codes(labels, gold, offsets)
    for setting, pairs in (("forbidden_transitions", forbidden), ("required_transitions", others)):
        for before, after in pairs:
            if (before, after) in seen:
                raise CorpusError(
                    f"training labels: {after} follows {before}, which {setting} exclude, in "
                    f"{seen[before, after]:,} places; mend the labels, or permit it"
                )
    impossible = dict.fromkeys([*forbidden, *others])
    return [(number[a], number[b]) for a, b in impossible if a in number and b in number]
