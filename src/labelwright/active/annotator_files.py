"""Sentences for annotators: column files, JSON lines, and what doccano and Label Studio import; and
sentences that were corrected, put back in the place from which they were taken."""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

from labelwright.corpus.annotations import with_predictions
from labelwright.corpus.columns import read_columns, write_columns
from labelwright.corpus.partial_labels import known_labels
from labelwright.corpus.table import Corpus, intern_labels
from labelwright.corpus.token_records import dumped, json_lines
from labelwright.corpus.tokenizer import Entity, joined_text, labelled_spans
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import did_you_mean

Place = tuple[int, int]
BESIDE = ("predicted", "probability", "doubt", "sentence")  # what column files have after the label
MOST_DIGITS = 15  # of the number of a sentence


# -- files -----------------------------------------------------------------------------------------


class ToAnnotate(NamedTuple):
    """One sentence for an annotator."""

    rows: list[tuple[str, ...]]  # [T]  the columns of each token, the word first
    labels: list[str]  # [T]  to begin with
    facts: dict[str, Any]  # what else a record says of it
    more: Sequence[list[str]] = ()  # [n][T]  further columns of a column file, after the label
    text: str | None = None  # as it was written, where that is known,
    places: Sequence[Place] = ()  # with the place of each token

    @property
    def words(self) -> list[str]:
        return [row[0] for row in self.rows]

    def written(self) -> tuple[str, list[Entity]]:
        """The text, and what the labels mark in it."""
        text, places = (self.text, self.places) if self.text is not None else placed(self.words)
        known = [label is not None for label in known_labels(self.labels)]
        labels = [label if sure else "O" for label, sure in zip(self.labels, known, strict=True)]
        spans = [
            (places[a][0], places[b - 1][1], kind)
            for a, b, kind, _ in labelled_spans(labels)
            if known[a]
        ]
        return text, [Entity(a, b, kind, text[a:b]) for a, b, kind in spans]


def placed(words: Sequence[str]) -> tuple[str, list[Place]]:
    """Words as running text, and where each of them stands in it.

    >>> placed(["New", "York", "."])
    ('New York .', [(0, 3), (4, 8), (9, 10)])
    """
    text, places, end = joined_text(words), list[Place](), 0
    for word in words:
        begin = text.index(word, end)
        end = begin + len(word)
        places.append((begin, end))
    return text, places


def _columns(items: Sequence[ToAnnotate], names: Sequence[str]) -> bytes:
    items = [item for item in items if item.rows]  # without tokens there is nothing to annotate
    if not items:
        return b""
    out = io.BytesIO()
    corpus = Corpus.from_sequences(
        [item.rows for item in items], names=names, source="the sentences"
    )
    extra = [
        [item.labels for item in items],
        *map(list, zip(*(item.more for item in items), strict=True)),
    ]
    write_columns(corpus, out, extra=extra)
    return out.getvalue()


def _jsonl(items: Sequence[ToAnnotate], names: Sequence[str]) -> bytes:
    lines = []
    for item in items:
        columns = dict(
            zip(["tokens", *names[1:]], map(list, zip(*item.rows, strict=True)), strict=True)
        )
        lines.append(dumped({**columns, "labels": item.labels, **item.facts}) + b"\n")
    return b"".join(lines)


def _doccano(items: Sequence[ToAnnotate], names: Sequence[str]) -> bytes:
    written = [(*item.written(), item.facts) for item in items]
    records = [
        {"text": text, "label": [list(e[:3]) for e in entities], **facts}
        for text, entities, facts in written
    ]
    return b"".join(dumped(record) + b"\n" for record in records)


def _label_studio(items: Sequence[ToAnnotate], names: Sequence[str]) -> bytes:
    written = [item.written() for item in items]
    tasks = [
        {"data": {"text": text, **item.facts}}
        for item, (text, _) in zip(items, written, strict=True)
    ]
    return with_predictions(tasks, written)


FORMATS: dict[str, Callable[[Sequence[ToAnnotate], Sequence[str]], bytes]] = {
    "columns": _columns,
    "jsonl": _jsonl,
    "doccano": _doccano,
    "label-studio": _label_studio,
}


def annotator_file(items: Sequence[ToAnnotate], names: Sequence[str], format: str) -> bytes:
    """Sentences, whose columns have these names, as a file in one of FORMATS."""
    return FORMATS[format](items, names)


def format_for(path: str, given: str | None) -> str:
    """The format that is asked for, or that the name of a file says."""
    if given is not None and given not in FORMATS:
        raise OptionError(
            f"to: expected one of {', '.join(FORMATS)}, got {given!r}{did_you_mean(given, FORMATS)}"
        )
    return given or ("jsonl" if PurePath(path).suffix in (".jsonl", ".ndjson") else "columns")


# -- corrections -----------------------------------------------------------------------------------


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
            f"{path}: expected {n_columns + len(BESIDE)} columns, those of the data and {more}, "
            f"got {len(look.names)}; give a file that labelwright doubts -o wrote"
        )
    columns = (look.column(look.names[number]) for number in (-1, 0, n_columns - 1))
    corrections = []
    for n, (marks, words, labels) in enumerate(zip(*columns, strict=True)):
        if len(set(marks)) != 1 or not marks[0].isdecimal() or len(marks[0]) > MOST_DIGITS:
            place = f"{path}: sentence {n}"
            raise CorpusError(
                f"{place}: expected one number of a sentence in the last column, got "
                f"{marks[0]!r:.40}"
            )
        corrections.append(Correction(int(marks[0]), words, labels))
    return corrections


def _of_records(path: str) -> list[Correction]:
    lines, corrections = json_lines(path), list[Correction]()
    for n, record in enumerate(lines.objects):
        number, words, labels = (record.get(key) for key in ("sentence", "tokens", "labels"))
        if (
            not isinstance(number, int)
            or not isinstance(words, list)
            or not isinstance(labels, list)
        ):
            raise CorpusError(
                f"{lines.place(n)}: expected sentence, tokens and labels, as labelwright doubts -o "
                "writes them"
            )
        corrections.append(Correction(number, words, labels))
    return corrections


def corrected(
    corpus: Corpus, corrections: Sequence[Correction], column: str | None = None
) -> Corpus:
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
            raise CorpusError(
                f"{corpus.source}: {where} has other words here; give the file that was looked at"
            )
        if len(each.labels) != len(known):
            raise CorpusError(
                f"sentence {each.sentence}: {len(each.labels)} labels, but {len(known)} tokens"
            )
        labels[each.sentence] = list(each.labels)
    new = intern_labels([label for row in labels for label in row], labels, corpus.source)
    columns = [
        new if each == name else old for each, old in zip(corpus.names, corpus.columns, strict=True)
    ]
    return replace(corpus, columns=tuple(columns), raw=None)
