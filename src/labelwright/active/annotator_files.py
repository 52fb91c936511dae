"""Sentences for annotators: column files, JSON lines, and what doccano and Label Studio import."""

import io
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from labelwright.corpus.annotations import with_predictions
from labelwright.corpus.columns import write_columns
from labelwright.corpus.partial_labels import known_labels
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import dumped
from labelwright.corpus.tokenizer import Entity, joined_text, labelled_spans
from labelwright.errors import OptionError
from labelwright.wording import did_you_mean

Place = tuple[int, int]


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
        spans = [(places[a][0], places[b - 1][1], kind) for a, b, kind, _ in labelled_spans(labels) if known[a]]
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
    corpus = Corpus.from_sequences([item.rows for item in items], names=names, source="the sentences")
    extra = [[item.labels for item in items], *map(list, zip(*(item.more for item in items), strict=True))]
    write_columns(corpus, out, extra=extra)
    return out.getvalue()


def _jsonl(items: Sequence[ToAnnotate], names: Sequence[str]) -> bytes:
    lines = []
    for item in items:
        columns = dict(zip(["tokens", *names[1:]], map(list, zip(*item.rows, strict=True)), strict=True))
        lines.append(dumped({**columns, "labels": item.labels, **item.facts}) + b"\n")
    return b"".join(lines)


def _doccano(items: Sequence[ToAnnotate], names: Sequence[str]) -> bytes:
    lines = []
    for item in items:
        text, entities = item.written()
        lines.append(dumped({"text": text, "label": [list(each[:3]) for each in entities], **item.facts}) + b"\n")
    return b"".join(lines)


def _label_studio(items: Sequence[ToAnnotate], names: Sequence[str]) -> bytes:
    written = [item.written() for item in items]
    tasks = [{"data": {"text": text, **item.facts}} for item, (text, _) in zip(items, written, strict=True)]
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
        raise OptionError(f"to: expected one of {', '.join(FORMATS)}, got {given!r}{did_you_mean(given, FORMATS)}")
    return given or ("jsonl" if PurePath(path).suffix in (".jsonl", ".ndjson") else "columns")
