"""That a labelling has exactly one given span, as a formula."""

from labelwright.corpus.spans import Span
from labelwright.rules.events import Sentence, labels_named, occurrences
from labelwright.rules.formulas import All, Formula, Row, Some


def span_formula(span: Span, sentence: Sentence, runs: bool) -> Formula:
    """The span begins at its first token, goes on to its last, and ends there.

    runs : the type is a label, and spans are runs of it"""
    inside = labels_named([span.type], sentence, "span")

    def begins(t: int, low: int | None, high: int | None) -> Row:
        events = occurrences(span.type, t, sentence, "span", runs)
        return Row(tuple((1, event) for event in events), low, high)

    parts: list[Formula] = [begins(span.start, 1, None)]
    for t in range(span.start + 1, span.end):
        parts += [Row(((1, ((t, inside),)),), 1, None), begins(t, None, 0)]
    if span.end < len(sentence):
        parts.append(Some((Row(((1, ((span.end, inside),)),), None, 0), begins(span.end, 1, None))))
    return All(tuple(parts))
