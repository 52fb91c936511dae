"""Class n-grams (van den Bosch & Daelemans, 2005): the class of a token is its label with those around it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError

Array = NDArray[Any]
OUTSIDE = -1  # in place of a label before the first and after the last token
LONGEST = 15


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
    """The distinct n-grams of label codes [T] in order of first appearance [C, n], and the one of every token [T].

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
