"""What a layer of a cascade passes to the layer above, read off its scored sentences."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.structures.passing import Candidates, Passed, likely

Array = NDArray[Any]


def passed_by(batch: Batch, labels: tuple[str, ...], cut: float, pairs: bool = True) -> Passed:
    """Every label at least as probable as `cut` and, with `pairs`, the pairs of neighbouring ones."""
    batch.check_possible()
    rows = [np.empty((0, len(labels))) if s is None else s.marginals() for s in batch]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    dense = np.concatenate([np.empty((0, len(labels))), *rows])  # [T, L]
    slots = likely(offsets, dense, cut)
    token = np.repeat(np.arange(len(dense)), np.diff(slots.ptr))
    singles = dense[token, slots.label]
    if not pairs:
        return Passed(labels, slots.without_pairs, singles)
    return Passed(labels, slots, np.concatenate([singles, _pairs(batch, slots)]))


def _pairs(batch: Batch, slots: Candidates) -> Array:
    """The probability of every pair of candidates of neighbouring tokens."""
    ptr, sizes = slots.ptr, np.diff(slots.ptr)
    token = np.repeat(np.arange(len(sizes)), np.diff(slots.pair_ptr))
    within = np.arange(len(token)) - (slots.pair_ptr[token] - len(slots.label))
    first = slots.label[ptr[token - 1] + within // sizes[token]]
    second = slots.label[ptr[token] + within % sizes[token]]
    bounds = np.searchsorted(token, slots.offsets)
    probability = np.empty(len(token))
    for n, sentence in enumerate(batch):
        if sentence is not None:
            here = slice(bounds[n], bounds[n + 1])
            arguments = token[here] - slots.offsets[n], first[here], second[here]
            probability[here] = sentence.pair_marginals(*arguments)  # type: ignore[attr-defined]
    return probability
