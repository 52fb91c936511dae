"""What a layer of a cascade passes to the layers above: candidate labels, pairs of them, and
probabilities.

A token has one candidate (the best label) or several (those with some probability); each has a
*slot*, and so has each pair of candidates of neighbouring tokens.  Features of the layers above are
weighted by the probabilities in the slots.

Where the values of the features of an upper layer come from: what lower layers pass, and smooth
functions of that.

values = (what the lower layers pass, one layer behind the other; products; what never changes, the
last of it 1)
"""

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from

Array = NDArray[Any]
FLOOR = 0.001  # is added to a probability before its log is taken
LOG_RANGE = log(1 + 1 / FLOOR)


class Candidates(NamedTuple):
    """The slots of a corpus: those of the labels, token by token, then those of the pairs."""

    offsets: Array  # [N+1]
    ptr: Array  # [T+1]  slots of the labels of token t: ptr[t]:ptr[t+1]
    label: Array  # [n]    their codes
    # [T+1]  slots of the pairs at t-1, t, the first label by the first label; none at a first token
    pair_ptr: Array
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
        return Passed(
            labels, self.candidates._replace(label=code[self.candidates.label]), self.probability
        )


class Layered(NamedTuple):
    """The input of an upper layer: sentences, and what each lower layer passes, by name, the lowest
    first."""

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
    """All labels at least as probable as `cut`, by marginals [T, L]; the best one of each token in
    any case."""
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


def mixed(
    labels: tuple[str, ...], readings: Sequence[Sequence[tuple[Sequence[str], float]]]
) -> Passed:
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
    slots = candidates(
        offsets[begin : end + 1] - a, ptr[a : b + 1] - ptr[a], label[ptr[a] : ptr[b]]
    )
    if not has_pairs:
        slots = slots.without_pairs
    p = passed.probability
    return Passed(
        passed.labels, slots, np.concatenate([p[ptr[a] : ptr[b]], p[pair_ptr[a] : pair_ptr[b]]])
    )


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


# -- values of the features of an upper layer ------------------------------------------------------


class Products(NamedTuple):
    """Values that are products p of probabilities, or log(1 + p / FLOOR) / LOG_RANGE: 0 for p = 0,
    1 for p = 1."""

    factor: Array  # [n, K]  places in what is passed; -1: the factor is 1
    log: Array  # [n]  bool

    def forward(self, passed: Array) -> tuple[Array, Callable[[Array], Array]]:
        """The values [n], and the backward function: the derivative by what is passed, from that by
        the values."""
        factors = np.append(passed, 1.0)[self.factor]
        product = factors.prod(axis=1)

        def back(d_values: Array) -> Array:
            d_product = np.where(self.log, d_values / (LOG_RANGE * (FLOOR + product)), d_values)
            n = len(passed) + 1  # the last is that of factors of 1
            d_passed = np.zeros(n)
            for k in range(self.factor.shape[1]):
                others = np.delete(factors, k, axis=1).prod(axis=1)
                d_passed += np.bincount(self.factor[:, k] % n, d_product * others, n)
            return d_passed[:-1]

        return np.where(self.log, np.log1p(product / FLOOR) / LOG_RANGE, product), back


NO_PRODUCTS = Products(np.empty((0, 1), np.int64), np.empty(0, np.bool_))


class FeatureValues(NamedTuple):
    """The values that features of an upper layer may have."""

    layers: tuple[str, ...]  # the lower layers that are read
    products: Products
    constants: Array  # values that do not come from below, the last of them 1

    def forward(self, passed: Sequence[Array]) -> tuple[Array, Callable[[Array], list[Array]]]:
        """All values, from the probabilities that each of the layers passes, and the backward
        function: the derivatives by these, from those by all values."""
        if not passed:
            return self.constants, lambda _: []
        bounds = np.cumsum([len(each) for each in passed])
        n, n_products = int(bounds[-1]), len(self.products.log)
        products, products_back = np.empty(0), None
        if n_products:
            products, products_back = self.products.forward(np.concatenate(passed))

        def back(d_values: Array) -> list[Array]:
            d_passed = d_values[:n]
            if products_back is not None:
                d_passed = d_passed + products_back(d_values[n : n + n_products])
            return np.split(d_passed, bounds[:-1])

        return np.concatenate([*passed, products, self.constants]), back


NOTHING_BELOW = FeatureValues((), NO_PRODUCTS, np.ones(1))
