"""What a layer of a cascade passes to the layers above: candidate labels, pairs of them, and probabilities.

A token has one candidate (the best label) or several (those with some probability); each has a *slot*, and so has each
pair of candidates of neighbouring tokens.  Features of the layers above are weighted by the probabilities in the slots.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from

Array = NDArray[Any]


class Candidates(NamedTuple):
    """The slots of a corpus: those of the labels, token by token, then those of the pairs."""

    offsets: Array  # [N+1]
    ptr: Array  # [T+1]  slots of the labels of token t: ptr[t]:ptr[t+1]
    label: Array  # [n]    their codes
    pair_ptr: Array  # [T+1]  slots of the pairs at t-1, t, the first label by the first label; none at a first token
    has_pairs: bool = True  # False: pairs have no slots

    @property
    def n_slots(self) -> int:
        return int(self.pair_ptr[-1])

    @property
    def without_pairs(self) -> "Candidates":
        return self._replace(pair_ptr=np.full_like(self.pair_ptr, len(self.label)), has_pairs=False)


class Passed(NamedTuple):
    """What is passed: how probable each slot is."""

    labels: tuple[str, ...]
    candidates: Candidates
    probability: Array  # [slots]

    def relabelled(self, labels: tuple[str, ...]) -> "Passed":
        """The same under other codes of the labels; all are among these."""
        if labels == self.labels:
            return self
        index = {label: code for code, label in enumerate(labels)}
        code = np.array([index[label] for label in self.labels], np.int32)
        return Passed(labels, self.candidates._replace(label=code[self.candidates.label]), self.probability)


class Layered(NamedTuple):
    """The input of an upper layer: sentences, and what each lower layer passes, by name, the lowest first."""

    X: Any
    passed: Mapping[str, Passed]


def over(X: Any, name: str, passed: Passed) -> Layered:
    """What the layer above reads, from what a layer of this name reads and passes."""
    if isinstance(X, Layered):
        return Layered(X.X, {**X.passed, name: passed})
    return Layered(X, {name: passed})


def candidates(offsets: Array, ptr: Array, label: Array) -> Candidates:
    """The slots of these labels and of all pairs of neighbours."""
    sizes = np.diff(ptr)
    pairs = np.zeros(len(sizes), np.int64)
    pairs[1:] = sizes[:-1] * sizes[1:]
    begins = offsets[:-1][np.diff(offsets) > 0]
    pairs[begins] = 0
    pair_ptr = len(label) + offsets_from(pairs)
    offsets, ptr, pair_ptr = (np.ascontiguousarray(x, np.int64) for x in (offsets, ptr, pair_ptr))
    return Candidates(offsets, ptr, np.ascontiguousarray(label, np.int32), pair_ptr)


def likely(offsets: Array, marginals: Array, cut: float) -> Candidates:
    """All labels at least as probable as `cut`, by marginals [T, L]; the best one of each token in any case."""
    chosen = marginals >= cut
    chosen[np.arange(len(marginals)), marginals.argmax(axis=1)] = True
    ptr = offsets_from(chosen.sum(axis=1))
    return candidates(offsets, ptr, np.nonzero(chosen)[1])


def certain(labels: tuple[str, ...], sequences: Sequence[Sequence[str]]) -> Passed:
    """One labelling of every sentence, with probability 1."""
    index = {label: code for code, label in enumerate(labels)}
    codes = np.array([index[label] for sequence in sequences for label in sequence], np.int32)
    offsets = offsets_from([len(sequence) for sequence in sequences])
    slots = candidates(offsets, np.arange(len(codes) + 1), codes)
    return Passed(labels, slots, np.ones(slots.n_slots))


def mixed(labels: tuple[str, ...], readings: Sequence[Sequence[tuple[Sequence[str], float]]]) -> Passed:
    """Several labellings of every sentence, each with its share (of samples, or of the n best)."""
    index = {label: code for code, label in enumerate(labels)}
    ptr, label_codes, chances, offsets = [0], [], [], [0]
    pair_chances: list[float] = []
    for sentence in readings:
        rows = [([index[label] for label in sequence], share) for sequence, share in sentence]
        before: list[int] = []
        for t in range(len(rows[0][0])):
            here = sorted({codes[t] for codes, _ in rows})
            label_codes += here
            chances += [sum(share for codes, share in rows if codes[t] == code) for code in here]
            pair_chances += [
                sum(share for codes, share in rows if (codes[t - 1], codes[t]) == (first, second))
                for first in before
                for second in here
            ]
            before = here
            ptr.append(len(label_codes))
        offsets.append(len(ptr) - 1)
    slots = candidates(np.array(offsets), np.array(ptr), np.array(label_codes, np.int32))
    return Passed(labels, slots, np.array(chances + pair_chances))


def part(passed: Passed, begin: int, end: int) -> Passed:
    """What is passed of the sentences begin:end."""
    offsets, ptr, label, pair_ptr, has_pairs = passed.candidates
    a, b = int(offsets[begin]), int(offsets[end])
    slots = candidates(offsets[begin : end + 1] - a, ptr[a : b + 1] - ptr[a], label[ptr[a] : ptr[b]])
    if not has_pairs:
        slots = slots.without_pairs
    p = passed.probability
    return Passed(passed.labels, slots, np.concatenate([p[ptr[a] : ptr[b]], p[pair_ptr[a] : pair_ptr[b]]]))


def joined(parts: Sequence[Passed]) -> Passed:
    """What is passed of several runs of sentences, concatenated."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.concatenate([np.diff(each.candidates.offsets) for each in parts])
    numbers = np.concatenate([np.diff(each.candidates.ptr) for each in parts])
    offsets, ptr = (offsets_from(x) for x in (sizes, numbers))
    label = np.concatenate([each.candidates.label for each in parts])
    slots = candidates(offsets, ptr, label)
    if not all(each.candidates.has_pairs for each in parts):
        slots = slots.without_pairs
    cuts = [len(each.candidates.label) for each in parts]
    singles = [each.probability[:n] for each, n in zip(parts, cuts, strict=True)]
    pairs = [each.probability[n:] for each, n in zip(parts, cuts, strict=True)]
    return Passed(parts[0].labels, slots, np.concatenate([*singles, *pairs]))
