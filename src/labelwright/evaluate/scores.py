"""Precision, recall and F1 of counts, and tables of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Score(NamedTuple):
    """Precision, recall and F1 (0 to 1) and the counts they come from."""

    precision: float  #: correct / predicted, 0 where nothing was predicted
    recall: float  #: correct / gold, 0 where there is no gold
    f1: float  #: harmonic mean of both
    gold: int  #: number in the gold standard
    predicted: int  #: number in the prediction
    correct: int  #: number in both


def score_of(gold: int, predicted: int, correct: int) -> Score:
    """Return precision, recall and F1 of counts; what has no denominator is 0, as in conlleval."""
    return Score(
        precision=correct / predicted if predicted else 0.0,
        recall=correct / gold if gold else 0.0,
        f1=2 * correct / (gold + predicted) if gold + predicted else 0.0,
        gold=gold,
        predicted=predicted,
        correct=correct,
    )


def align(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns: the first to the left, the others to the right."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]
