"""Corrected sentences, put back in the place from which they were taken."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from labelwright.corpus.columns import read_columns
from labelwright.corpus.table import Corpus, intern_labels
from labelwright.corpus.token_records import json_lines
from labelwright.errors import CorpusError

BESIDE = ("predicted", "probability", "doubt", "sentence")  # what column files have after the label
MOST_DIGITS = 15  # of the number of a sentence


class Correction(NamedTuple):
    """A sentence that an annotator has looked at."""

    sentence: int  # its number in the data
    words: list[str]
    labels: list[str]


def read_corrections(path: str, n_columns: int) -> list[Correction]:
    """The sentences of a file that `labelwright doubts -o` wrote, as columns or JSON lines.

    path : the file
    n_columns : how many columns the data have, the label included
    """
    if PurePath(path).suffix in (".jsonl", ".ndjson"):
        return _of_records(path)
    look = read_columns(path, label=False)
    if len(look.names) != n_columns + len(BESIDE):
        more = ", ".join(BESIDE)
        raise CorpusError(
            f"{path}: expected {n_columns + len(BESIDE)} columns, those of the data and {more}, got {len(look.names)}; "
            "give a file that labelwright doubts -o wrote"
        )
    columns = (look.column(look.names[number]) for number in (-1, 0, n_columns - 1))
    return [
        Correction(_number(marks, f"{path}: sentence {n}"), words, labels)
        for n, (marks, words, labels) in enumerate(zip(*columns, strict=True))
    ]


def _number(marks: Sequence[str], place: str) -> int:
    if len(set(marks)) != 1 or not marks[0].isdecimal() or len(marks[0]) > MOST_DIGITS:
        raise CorpusError(f"{place}: expected one number of a sentence in the last column, got {marks[0]!r:.40}")
    return int(marks[0])


def _of_records(path: str) -> list[Correction]:
    lines, corrections = json_lines(path), list[Correction]()
    for n, record in enumerate(lines.objects):
        number, words, labels = (record.get(key) for key in ("sentence", "tokens", "labels"))
        if not isinstance(number, int) or not isinstance(words, list) or not isinstance(labels, list):
            raise CorpusError(
                f"{lines.place(n)}: expected sentence, tokens and labels, as labelwright doubts -o writes them"
            )
        corrections.append(Correction(number, words, labels))
    return corrections


def corrected(corpus: Corpus, corrections: Sequence[Correction], column: str | None = None) -> Corpus:
    """The data with the labels of corrected sentences.

    corpus : the data
    corrections : sentences of it with their labels
    column : the label column [that of the corpus]

    >>> data = Corpus.from_sequences([["he"], ["she", "ran"]], [["N"], ["N", "N"]])
    >>> corrected(data, [Correction(1, ["she", "ran"], ["N", "V"])]).y
    [['N'], ['N', 'V']]
    """
    name = column or corpus.label or corpus.names[-1]
    first = next(each for each in corpus.names if each != name)
    words, labels = corpus.column(first), corpus.column(name)
    for each in corrections:
        known = words[each.sentence] if 0 <= each.sentence < len(words) else None
        if each.words != known:
            where = f"sentence {each.sentence} ({' '.join(each.words[:4])} ...)"
            raise CorpusError(f"{corpus.source}: {where} has other words here; give the file that was looked at")
        if len(each.labels) != len(known):
            raise CorpusError(f"sentence {each.sentence}: {len(each.labels)} labels, but {len(known)} tokens")
        labels[each.sentence] = list(each.labels)
    new = intern_labels([label for row in labels for label in row], labels, corpus.source)
    columns = [new if each == name else old for each, old in zip(corpus.names, corpus.columns, strict=True)]
    return replace(corpus, columns=tuple(columns), raw=None)
