"""What training data say about labels: sets of labels where the label is not known, and weights.

The label of a token is a code.  Codes below L are labels; L + k is the set sets[k] of labels, one
of which is right.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
NO_SETS = np.empty((0, 0), np.bool_)


class Supervision(NamedTuple):
    """What is said beside labels; nothing by default: every label is known and counts once."""

    sets: Array = NO_SETS  # [K, L]  labels in each set
    of_sentences: Array | None = None  # [N]  how often each sentence counts
    of_tokens: Array | None = None  # [T]  how much a wrong label counts there

    @property
    def partial(self) -> bool:
        """Are there tokens with several possible labels?"""
        return len(self.sets) > 0

    @property
    def weighted(self) -> bool:
        """Do sentences or tokens count more or less than others?"""
        return self.of_sentences is not None or self.of_tokens is not None

    @property
    def plain(self) -> bool:
        """Is every label known, and does every one count once?"""
        return not (self.partial or self.weighted)

    def allowed(self, n_labels: int) -> Array:
        """The labels that each code allows [L + K, L]."""
        alone = np.eye(n_labels, dtype=np.bool_)
        return np.concatenate([alone, self.sets]) if self.partial else alone


PLAIN = Supervision()
# kinds of sentences: all labels are known, some are, none is
COMPLETE, PARTIAL, UNLABELLED = range(3)


def kinds_of(gold: Array, offsets: Array, supervision: Supervision, n_labels: int) -> Array:
    """The kind of every sentence [N]; one with narrower sets than that of all labels is partial."""
    if not supervision.partial:
        return np.full(len(offsets) - 1, COMPLETE)
    whole = np.concatenate([np.zeros(n_labels, np.bool_), supervision.sets.all(axis=1)])
    known, open_ = (
        np.concatenate([[0], np.cumsum(tokens)])[offsets]
        for tokens in (gold < n_labels, whole[gold])
    )
    lengths = np.diff(offsets)
    kinds = np.where(np.diff(open_) == lengths, UNLABELLED, PARTIAL)
    return np.where(np.diff(known) == lengths, COMPLETE, kinds)


def variants(gold: Array, sets: Array, n_labels: int, most: int, likely: int = -1) -> list[Array]:
    """Arrays of labels [T] in which every member of every small set occurs: the r-th has member
    number r of each set of up to `most` labels, but not all, and -1 where it has fewer; tokens with
    one label have it in all of them.  Larger sets count as their member `likely`."""
    if not len(sets):
        return [gold]
    sizes = sets.sum(axis=1)
    small = (sizes <= most) & (sizes < n_labels)
    members = np.full((len(sets), most), -1, gold.dtype)
    members[~small & sets[:, likely], 0] = likely
    for k in np.flatnonzero(small).tolist():
        members[k, : sizes[k]] = np.flatnonzero(sets[k])
    table = np.concatenate(
        [np.repeat(np.arange(n_labels, dtype=gold.dtype)[:, None], most, axis=1), members]
    )
    used = max(1, int(np.where(small, sizes, 0).max(initial=0)))
    return [table[gold, r] for r in range(used)]
