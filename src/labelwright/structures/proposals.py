"""What overlapping predictions of label n-grams propose: candidate labels, and weighted constraints
on them.

Every contiguous part of a predicted n-gram that lies inside the sentence is one constraint.  Its
weight is the summed confidence of all classes in the token's distribution that have the same labels
at these tokens: for a whole n-gram, that of the predicted class alone.  Of the trigram of the first
token the end of the sentence leaves a bigram and its two unigrams, each of which counts once, by
the same rule.  (Canisius, van den Bosch & Daelemans, 2006, section 3.)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import OptionError

Array = NDArray[Any]
CERTAIN = 0.999  # confidences are cut here where their distance to one counts

# The weight of a constraint, from the confidence in it [..] and its number of labels [..].
Weighting = Callable[[Array, Array], Array]
WEIGHTINGS: dict[str, Weighting] = {
    "confidence": lambda p, length: p,  # the paper
    "count": lambda p, length: np.ones_like(p),  # the number of constraints that hold
    "squared": lambda p, length: p * p,
    "log": lambda p, length: -np.log1p(-np.minimum(p, CERTAIN)),  # evidence against its being wrong
    "length": lambda p, length: p * length,  # long ones count more
}
OUTSIDE = -1  # in place of a label before the first and after the last token
LONGEST = 15


# -- n-grams of labels (van den Bosch & Daelemans, 2005) -------------------------------------------


def check_order(n: Any) -> int:
    """Refuse an order of n-grams without a middle."""
    whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
    if not whole or not 1 <= n <= LONGEST or n % 2 == 0:
        raise OptionError(f"ngram: expected an odd number, 1 to {LONGEST}, got {n!r}")
    return int(n)


def gram_name(n: int) -> str:
    """What classes of so many labels are called.

    >>> gram_name(1), gram_name(3), gram_name(5)
    ('labels', 'trigrams', '5-grams')
    """
    return {1: "labels", 3: "trigrams"}.get(n, f"{n}-grams")


def windows(codes: Array, offsets: Array, n: int) -> Array:
    """The codes at t-h..t+h of every token [T, n], h = n // 2; -1 outside its sentence.

    >>> windows(np.array([3, 4, 5]), np.array([0, 2, 3]), 3).tolist()
    [[-1, 3, 4], [3, 4, -1], [-1, 5, -1]]
    """
    h = check_order(n) // 2
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    at = np.arange(len(codes))[:, None] + np.arange(-h, h + 1)
    inside = (at >= 0) & (at < len(codes))
    at = np.where(inside, at, 0)
    inside &= sentence[at] == sentence[:, None] if len(codes) else inside
    return np.where(inside, codes[at] if len(codes) else OUTSIDE, OUTSIDE).astype(np.int32)


def ngram_classes(codes: Array, offsets: Array, n: int) -> tuple[Array, Array]:
    """The distinct n-grams of label codes [T] in order of first appearance [C, n], and the one of
    every token [T].

    >>> table, classes = ngram_classes(np.array([0, 0, 0, 0]), np.array([0, 4]), 3)
    >>> table.tolist(), classes.tolist()
    ([[-1, 0, 0], [0, 0, 0], [0, 0, -1]], [0, 1, 1, 2])
    """
    grams = windows(codes, offsets, n)
    base = int(grams.max(initial=OUTSIDE)) + 2
    key = np.zeros(len(grams), np.int64)
    for column in grams.T:  # numbered anew after each column, so that no product is too large
        _, first, key = np.unique(key * base + column + 1, return_index=True, return_inverse=True)
    if not len(grams):
        return grams, key.astype(np.int32)
    order = np.argsort(first)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return grams[first[order]], number[key]


# -- answers of a classifier -----------------------------------------------------------------------


class Distributions(NamedTuple):
    """The predicted class of M instances, and the classes that have any weight for each."""

    best: Array  # [M] int32  the predicted class
    ptr: Array  # [M+1] int64
    classes: Array  # [nnz] int32  classes of instance i: classes[ptr[i]:ptr[i+1]]
    weights: Array  # [nnz] float64  w(c) > 0; the confidence of c is w(c) / sum


def from_probabilities(dense: Any, classes: Any = None) -> Distributions:
    """Distributions from rows of probabilities, or of other weights of 0 or more [M, C]; the first
    of the heaviest classes is the predicted one.  `classes` [C] is the class of each column (None:
    its number).

    >>> from_probabilities([[0.25, 0.75], [1.0, 0.0]]).best.tolist()
    [1, 0]
    """
    table = np.asarray(dense, np.float64)
    columns = np.arange(table.shape[-1]) if classes is None else np.asarray(classes)
    if table.ndim != 2 or columns.shape != table.shape[1:] or not table.shape[1]:
        raise OptionError(
            f"probabilities: expected rows of {len(columns)} numbers, got an array of {table.shape}"
        )
    wrong = ~(np.isfinite(table) & (table >= 0))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise OptionError(
            f"probabilities: row {row} has {table[row, column]}; expected finite numbers of 0 or "
            "more"
        )
    heavy = table > 0
    ptr = offsets_from(heavy.sum(axis=1))
    columns = columns.astype(np.int32)
    best = columns[table.argmax(axis=1)]
    return Distributions(best, ptr, columns[np.nonzero(heavy)[1]], table[heavy])


def certain(best: Any) -> Distributions:
    """Distributions of a classifier that only names a class [M]: it has all the weight.

    >>> certain([2, 0]).classes.tolist()
    [2, 0]
    """
    best = np.asarray(best, np.int32)
    return Distributions(best, np.arange(len(best) + 1, dtype=np.int64), best, np.ones(len(best)))


# -- shares of votes -------------------------------------------------------------------------------


def label_shares(answers: Distributions, grams: Array, offsets: Array, n_labels: int) -> Array:
    """The share of each label at each token [T, L], from the classes (rows of grams [C, n]) that
    tokens are given.

    A token has one vote, which it splits among its classes by their weights; every class is a vote
    for the labels of the n tokens that it covers.
    """
    T, half = int(offsets[-1]), grams.shape[1] // 2
    token = np.repeat(np.arange(T), np.diff(answers.ptr))
    vote = answers.weights / np.bincount(token, answers.weights, T)[token]
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    votes = np.zeros(T * n_labels)
    for place in range(grams.shape[1]):
        label, target = grams[answers.classes, place], token + (place - half)
        inside = (label >= 0) & (target >= 0) & (target < T)
        inside[inside] = sentence[target[inside]] == sentence[token[inside]]
        votes += np.bincount(target[inside] * n_labels + label[inside], vote[inside], len(votes))
    table = votes.reshape(T, n_labels)
    shares: Array = table / table.sum(axis=1, keepdims=True)
    return shares


# -- proposals -------------------------------------------------------------------------------------


class Proposals(NamedTuple):
    """The predictions of all tokens of N sentences, the candidates that they make, and the weights
    of constraints."""

    classes: Array  # [T] int32  predicted classes
    grams: Array  # [T, n] int32  their labels at t-h..t+h; -1 outside the sentence
    confidence: Array  # [T]  of the predicted class
    # [T, n, n]  of the constraint on the labels i..j of a gram; 0 where there is none
    weights: Array
    domains: (
        # [T, n] int32  candidates: the token's prediction, then those of the nearest tokens; -1
        # after the last
        Array
    )
    sizes: Array  # [T] int32  the number of candidates
    offsets: Array  # [N+1] int64

    @property
    def order(self) -> int:
        return int(self.grams.shape[1])

    @property
    def n_sentences(self) -> int:
        return len(self.offsets) - 1


class Problem(NamedTuple):
    """One sentence as a weighted constraint problem, with labels by name."""

    domains: list[list[str]]  # [T]  candidates of each token
    # positions, their labels, weight > 0
    factors: list[tuple[tuple[int, ...], tuple[str, ...], float]]


def check_weighting(weighting: Any) -> Weighting:
    """The function of this name in WEIGHTINGS, or the user's function."""
    if callable(weighting):
        return weighting  # type: ignore[no-any-return]
    if not isinstance(weighting, str) or weighting not in WEIGHTINGS:
        known = ", ".join(WEIGHTINGS)
        raise OptionError(
            f"weighting: expected one of {known}, or a function of confidences and lengths, got "
            f"{weighting!r}"
        )
    return WEIGHTINGS[weighting]


def check_lengths(lengths: Sequence[int] | None, n: int) -> list[int]:
    """Which lengths of constraints count: all of 1..n, or those that are named."""
    if lengths is not None and not hasattr(lengths, "__iter__"):
        raise OptionError(
            f"lengths: expected a list of whole numbers, as in [1, {n}], got {lengths!r}"
        )
    chosen = list(range(1, n + 1)) if lengths is None else list(lengths)
    for length in chosen:
        if (
            not isinstance(length, int | np.integer)
            or isinstance(length, bool)
            or not 1 <= length <= n
        ):
            raise OptionError(
                f"lengths: expected whole numbers, 1 to {n} (the ngram), got {length!r}"
            )
    if not chosen:
        raise OptionError("lengths: got none, expected at least one; None means all")
    return chosen


def propose(
    distributions: Distributions,
    table: Array,
    offsets: Array,
    weighting: str | Weighting = "confidence",
    lengths: Sequence[int] | None = None,
) -> Proposals:
    """The candidates that distributions over n-gram classes (rows of table [C, n]) make of
    sentences.

    weighting : a name of WEIGHTINGS, or a function of the confidences in constraints and of their
        lengths
    lengths : the lengths of the constraints that count (None: all of 1..n)

    >>> from labelwright.structures.proposals import certain
    >>> made = propose(certain([0, 1]), np.array([[-1, 5, 6], [7, 6, -1]]), np.array([0, 2]))
    >>> made.domains[:, :2].tolist(), made.weights.sum(axis=(1, 2)).tolist()
    ([[5, 7], [6, -1]], [3.0, 3.0])
    """
    T, n = len(distributions.best), check_order(table.shape[1])
    table = np.ascontiguousarray(table, np.int32)
    if (table[:, n // 2] < 0).any():
        raise OptionError(
            "classes: expected a label in the middle of every n-gram, got a boundary mark"
        )
    proposals = Proposals(
        classes=distributions.best,
        grams=np.empty((T, n), np.int32),
        confidence=np.empty(T),
        weights=np.empty((T, n, n)),
        domains=np.empty((T, n), np.int32),
        sizes=np.empty(T, np.int32),
        offsets=np.asarray(offsets, np.int64),
    )
    _fill(proposals, distributions, table)
    return proposals._replace(weights=_weighed(proposals, weighting, lengths))


class Bounds(NamedTuple):
    """Where the sentence of each token begins and ends [T]."""

    begin: Array
    end: Array


def bounds_of(offsets: Array) -> Bounds:
    lengths = np.diff(offsets)
    return Bounds(np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths))


def proposed_by(grams: Array, inside: Bounds, t: Array, o: int) -> Array:
    """The label that token t + o predicts for t; -1: none, or that token is not in the sentence."""
    p = t + o
    there = (inside.begin[t] <= p) & (p < inside.end[t])
    return np.where(there, grams[np.where(there, p, t), grams.shape[1] // 2 - o], -1)


def _fill(proposals: Proposals, distributions: Distributions, table: Array) -> None:
    """Write what predicted classes (rows of table [C, n]) and distributions over classes propose:
    all parts of the proposals but the first and the last."""
    best, ptr, classes, w = distributions
    _, grams, confidence, weights, domains, sizes, offsets = proposals
    T, n = grams.shape
    inside, t, h = bounds_of(offsets), np.arange(T), n // 2
    for k in range(n):
        at = t + k - h
        grams[:, k] = np.where((inside.begin <= at) & (at < inside.end), table[best, k], -1)
    token = np.repeat(t, np.diff(ptr))
    total = np.bincount(token, w, T)
    share = np.divide(w, total[token], out=np.zeros(len(w)), where=total[token] > 0)
    confidence[:] = np.bincount(token, share * (classes == best[token]), T)
    predicted = grams[token]
    agrees = (predicted >= 0) & (predicted == table[classes])  # [E, n]
    weights[:] = 0.0
    for i in range(n):
        held = share
        for j in range(i, n):
            held = held * agrees[:, j]
            weights[:, i, j] = np.bincount(token, held, T)
    domains[:], sizes[:] = -1, 0
    for k in range(n):  # 0, -1, 1, -2, 2, ...
        label = proposed_by(grams, inside, t, (k + 1) // 2 * (-1 if k % 2 == 1 else 1))
        new = np.flatnonzero((label >= 0) & ~(domains == label[:, None]).any(axis=1))
        domains[new, sizes[new]] = label[new]
        sizes[new] += 1


def _weighed(
    proposals: Proposals, weighting: str | Weighting, lengths: Sequence[int] | None
) -> Array:
    """The weights of constraints, from the confidences in them [T, n, n]."""
    n, p = proposals.order, proposals.weights
    function, chosen = check_weighting(weighting), check_lengths(lengths, n)
    length = np.arange(n)[None, :] - np.arange(n)[:, None] + 1  # [n, n]
    if function is WEIGHTINGS["confidence"] and len(set(chosen)) == n:
        return p
    counts = np.isin(length, chosen) & _inside(proposals.grams)
    try:
        weights = np.asarray(function(p, np.broadcast_to(length, p.shape)), np.float64)
    except TypeError as error:
        raise OptionError(
            f"weighting {weighting!r}: expected a function of the confidences and lengths of "
            f"constraints (two arrays), got {error}"
        ) from error
    if weights.shape != p.shape or not (np.isfinite(weights) & (weights >= 0))[counts].all():
        raise OptionError(
            f"weighting {weighting!r}: expected one finite number of 0 or more for each confidence"
        )
    return np.ascontiguousarray(np.where(counts, weights, 0.0))


def _inside(grams: Array) -> Array:
    """Where there is a constraint on the labels i..j [T, n, n]: all of them are known."""
    known = np.cumsum(np.pad(grams >= 0, ((0, 0), (1, 0))), axis=1)  # [T, n+1]
    i, j = np.arange(grams.shape[1])[:, None], np.arange(grams.shape[1])[None, :]
    inside: Array = (known[:, None, 1:] - known[:, :-1, None] == j - i + 1) & (i <= j)
    return inside


def n_sequences(proposals: Proposals) -> Array:
    """How many candidate sequences each sentence has [N]; infinity where a float cannot hold their
    number."""
    with np.errstate(over="ignore"):
        parts = np.split(proposals.sizes.astype(np.float64), proposals.offsets[1:-1])
        return np.array([part.prod() for part in parts[: proposals.n_sentences]])


def part(proposals: Proposals, begin: int, end: int) -> Proposals:
    """The sentences begin:end alone."""
    t0, t1 = proposals.offsets[[begin, end]].tolist()
    arrays = [array[t0:t1] for array in proposals[:6]]
    return Proposals._make([*arrays, proposals.offsets[begin : end + 1] - t0])


def widened(proposals: Proposals, sentence: int, n_labels: int) -> Proposals:
    """One sentence with every label a candidate of every token, those that were proposed before the
    others."""
    return with_labels(part(proposals, sentence, sentence + 1), range(n_labels), n_labels)


def with_labels(one: Proposals, more: Sequence[int], n_labels: int) -> Proposals:
    """One sentence with further labels as candidates of every token; where they are not all of
    them, the last candidate is the code `n_labels`, which stands for all others."""
    rows = [
        list(dict.fromkeys([*row[:size], *more]))
        for row, size in zip(one.domains.tolist(), one.sizes.tolist(), strict=True)
    ]
    rows = [[*row, n_labels] if len(row) < n_labels else row for row in rows]
    sizes = np.array([len(row) for row in rows], np.int32)
    domains = np.full((len(rows), int(sizes.max(initial=1))), -1, np.int32)
    domains[np.arange(domains.shape[1]) < sizes[:, None]] = [code for row in rows for code in row]
    return one._replace(domains=domains, sizes=sizes)


def arc_counts(one: Proposals) -> Array:
    """How many transitions lead to each token [T] of one sentence: one for each choice of its
    candidate and of those of the n - 1 tokens before."""
    m = max(one.order - 1, 1)
    sizes = np.concatenate([np.ones(m), one.sizes])
    counts: Array = np.lib.stride_tricks.sliding_window_view(sizes, m + 1).prod(axis=1)
    return counts


def problem(proposals: Proposals, sentence: int, labels: Sequence[str]) -> Problem:
    """One sentence as a constraint problem with its labels by name; equal constraints are one,
    their weights added."""
    a, b = proposals.offsets[sentence : sentence + 2].tolist()
    h = proposals.order // 2
    domains = [
        [labels[code] for code in row[:size]]
        for row, size in zip(
            proposals.domains[a:b].tolist(), proposals.sizes[a:b].tolist(), strict=True
        )
    ]
    grams = proposals.grams[a:b].tolist()
    factors: dict[tuple[tuple[int, ...], tuple[str, ...]], float] = {}
    for t, i, j in np.argwhere(proposals.weights[a:b] > 0).tolist():
        scope = (
            tuple(range(t + i - h, t + j - h + 1)),
            tuple(labels[code] for code in grams[t][i : j + 1]),
        )
        factors[scope] = factors.get(scope, 0.0) + float(proposals.weights[a + t, i, j])
    return Problem(domains, [(*scope, weight) for scope, weight in factors.items()])
