"""The arcs of a lattice over tokens as labels of the tokens: an arc is a chunk, and a path is a labelling.

Node t of the lattice lies before token t.  An arc from a to b with the label X stands for a chunk of type X of the
tokens a to b - 1; one with the label O for a single token outside all chunks.  In the schemes that can be written here
a label depends on the arc alone and shows where chunks begin and end, so that two paths never have the same labels.
Labels that follow no scheme (NN, VB) are those of arcs of one token.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.spans import Span, labels_of, spans_of
from labelwright.structures.feature_lattice import Ends

Array = NDArray[Any]
OUTSIDE = "O"
WRITABLE = ("iob2", "ioe2", "bioes", "bilou", "bmes")
FIRST, INNER, LAST, ONLY = range(4)  # places of a token in its arc


class ArcTokens(NamedTuple):
    """Every token of every arc."""

    arc: Array  # [n]
    token: Array  # [n]
    label: Array  # [n]  code of the label that the arc gives the token


class ArcLabels(NamedTuple):
    """How arcs are written as labels of tokens."""

    scheme: str | None
    types: tuple[str, ...]  # [K]  labels of arcs
    labels: tuple[str, ...]  # [L]  labels of tokens
    code: Array  # [K, 4]  label of the first, inner, last and only token of an arc

    def tokens(self, source: Array, target: Array, kind: Array) -> ArcTokens:
        """The tokens of arcs with these ends and codes of labels [A]."""
        sizes = target - source
        arc = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(arc)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        size = sizes[arc]
        place = np.where(within == 0, FIRST, np.where(within == size - 1, LAST, INNER))
        place = np.where(size == 1, ONLY, place)
        return ArcTokens(arc, source[arc] + within, self.code[kind[arc], place])


@lru_cache(maxsize=64)
def arc_labels(types: tuple[str, ...], scheme: str | None) -> ArcLabels:
    """How arcs with these labels are written in a scheme; None: as their own labels.

    >>> arc_labels(("word", "O"), "iob2").labels
    ('B-word', 'I-word', 'O')
    """
    index: dict[str, int] = {}
    code = np.zeros((len(types), 4), np.int32)
    for k, kind in enumerate(types):
        long, only = [kind] * 3, [kind]
        if scheme is not None and kind != OUTSIDE:
            long, only = (labels_of([Span(0, n, kind)], n, scheme) for n in (3, 1))
        code[k] = [index.setdefault(label, len(index)) for label in (*long, *only)]
    return ArcLabels(scheme, types, tuple(index), code)


def ends_of(labels: Sequence[str], scheme: str | None) -> list[Ends]:
    """The arcs of the path that a labelling stands for.

    >>> ends_of(["B-word", "I-word", "O"], "iob2")
    [(0, 2, 'word'), (2, 3, 'O')]
    """
    if scheme is None:
        return [(t, t + 1, label) for t, label in enumerate(labels)]
    arcs: list[Ends] = [span[:3] for span in spans_of(labels)]
    inside = {t for start, end, _ in arcs for t in range(start, end)}
    arcs += [(t, t + 1, OUTSIDE) for t in range(len(labels)) if t not in inside]
    return sorted(arcs)
