"""Chunks as spans of tokens, read from labels and written back."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from labelwright.corpus.schemes import (
    OUTSIDE,
    check_scheme,
    chunk_parts,
    convert,
    is_broken,
    join_label,
)
from labelwright.errors import CorpusError
from labelwright.pages import mark


class Span(NamedTuple):
    """A chunk: tokens start to end (exclusive) and its type; taggers add how probable it is."""

    start: int  #: the first token, counted from 0
    end: int  #: the token after the last
    type: str  #: PER of B-PER; empty where labels name no type
    #: that exactly this span is a chunk of this type; None where it is not known
    probability: float | None = None

    def _repr_html_(self) -> str:
        return mark(f"tokens {self.start} to {self.end - 1}", self.type, self.probability)


def spans_of(labels: Sequence[str], scheme: str | None = None) -> list[Span]:
    """Read the chunks of one sentence as conlleval does; with a scheme, only those written exactly
    as it writes them.

    labels : one for each token
    scheme : such as iob2; None: any mixture

    >>> [(span.start, span.end, span.type) for span in spans_of(["B-NP", "I-NP", "O", "I-PP"])]
    [(0, 2, 'NP'), (3, 4, 'PP')]
    >>> spans_of(["B-NP", "I-NP", "O", "I-PP"], scheme="iob2")
    [Span(start=0, end=2, type='NP', probability=None)]
    """
    spans = []
    start, before = 0, OUTSIDE
    for position, part in enumerate([*chunk_parts(labels), OUTSIDE]):
        if is_broken(before, part):
            if before != OUTSIDE:
                spans.append(Span(start, position, before[1]))
            start = position
        before = part
    if scheme is None:
        return spans
    # Chunks next to each other are written together, since IOB1 and IOE1 look at the neighbour.
    written = labels_of(spans, len(labels), scheme)
    return [
        span
        for span in spans
        if list(labels[span.start : span.end]) == written[span.start : span.end]
    ]


def labels_of(spans: Iterable[Span], length: int, scheme: str = "iob2") -> list[str]:
    """Write spans as the labels of a sentence of `length` tokens.

    spans : which do not overlap
    length : number of tokens
    scheme : the label scheme to write

    >>> labels_of([Span(0, 2, "NP"), Span(2, 3, "NP")], 4, "iob1")
    ['I-NP', 'I-NP', 'B-NP', 'O']
    """
    scheme = check_scheme(scheme)
    labels = ["O"] * length
    for span in spans:
        if not 0 <= span.start < span.end <= length:
            raise CorpusError(
                f"span {span.start}:{span.end}: expected a non-empty range within 0:{length}"
            )
        if any(label != "O" for label in labels[span.start : span.end]):
            raise CorpusError(
                f"span {span.start}:{span.end}: overlaps another span, expected spans side by side"
            )
        size = span.end - span.start
        letters = "S" if size == 1 else "B" + "I" * (size - 2) + "E"
        labels[span.start : span.end] = [join_label(letter, span.type) for letter in letters]
    return convert([labels], "bioes", scheme)[0]
