"""Models over patterns as CRF++ and Wapiti store them: from observations back to what the cells of
a pattern read.

An *observation* is the text that a pattern makes at a token (`U02:_B-1/the`), and it is all that
these programs know of it: patterns that make the same text share its weights.  Here a feature is a
line of the template and what its cells read.  So every reading of an observation becomes a feature
with its weights: `u:a/b/c` under `u:%x[-1,0]/%x[0,0]` is a and b/c, or a/b and c.  A token makes
one of them at most, and the sums of weights are those of the program.

Only a column that holds the very text of a boundary, such as _B-1, is told apart from the boundary.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.labels import unwritable_label
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import default_names
from labelwright.errors import ModelFileError, TemplateError
from labelwright.features.extract import ColumnFeatures
from labelwright.features.incidence import Longs
from labelwright.features.template import ASCII_LOWER, Reader, Template, apply, parse_template
from labelwright.features.vocabulary import Table, Vocabulary, table_of
from labelwright.interchange.chains import check_pairs, imported_crf
from labelwright.scoring.parameters import Cells
from labelwright.taggers.crf import CRF

Array = NDArray[Any]
# what a cell reads: a string, or a place outside the sentence (-1: before the first token, 1:
# behind)
Read = str | int

BLANK = re.compile(rb"[ \t\n]")  # separates columns
WHOLE = "value", "byte_lower"  # readers that show a boundary as it is
# largest work: a constant, and a factor for each byte of patterns and observations;
MOST_WORK = 1 << 25, 100
WORK_OF_STEP, WORK_OF_READING, WORK_OF_REGEX = 16, 64, 4  # beside that of the bytes of text
MOST_CELLS = (
    1_000_000,
    20,
)  # largest number of weights of features: a constant, and a factor for each weight of the file
SHORT = 64  # bytes of a piece of text whose meaning is remembered


class Line(NamedTuple):
    """A pattern of another program: as it is written there, as a line of a template, and the text
    around its cells."""

    source: str
    line: str
    literals: tuple[str, ...]


class Observations(NamedTuple):
    """The observations of a model and their weights: those of the labels, then those of the pairs
    of labels r * L + s.

    Weights that are zero may be left out."""

    texts: list[bytes]  # [O]
    first: Longs  # [O]  number of the first weight
    number: Longs  # [W]  rising
    weight: Array  # [W]


def checked_labels(labels: list[str], source: str, n_bytes: int) -> list[str]:
    """Labels that a column file can hold, none twice, and not more than a file of this size can
    have weights for."""
    reason = unwritable_label(labels) or (
        "expected none twice" if len(set(labels)) < len(labels) else None
    )
    if reason is not None:
        raise ModelFileError(f"{source}: labels: {reason}; copy or train the model again")
    check_pairs(len(labels), source, n_bytes)
    return labels


def trained_crf(
    program: str,
    source: str,
    labels: Sequence[str],
    lines: Sequence[Line],
    observations: Observations,
    boundary: Callable[[int], str],
    n_columns: int | None = None,
) -> CRF:
    """A trained CRF that reads columns by these patterns.

    program : which wrote the model, for its record
    source : the file that errors speak of
    boundary : gives the text that stands for a place outside the sentence"""
    texts, first, _, weight = observations
    template = _template(source, lines)
    patterns = _Patterns(
        source, template, lines, boundary, sum(map(len, texts)) + sum(len(x.line) for x in lines)
    )
    vocabulary, owner, plain = _features(patterns, template, texts)
    names = default_names(
        max(1, template.n_columns if n_columns is None else n_columns), labelled=False
    )
    extractor = ColumnFeatures(vocabulary, names)
    L, letter = len(labels), np.array([text[:1].lower() for text in texts], "S1")
    on_labels, on_pairs = np.where(letter == b"b", 0, L), np.where(letter == b"u", 0, L**2)
    parts = {"state": (first, on_labels), "edge": (first + on_labels, on_pairs)}
    cells, weights = {}, []
    for kind in extractor.cell_kinds:
        cells[kind], at = _cells(source, owner, *parts[kind], observations)
        weights.append(weight[at])
    transitions = np.zeros(L**2, weight.dtype)  # weights of observations that stand at every token
    always = np.flatnonzero(plain)
    pairs, at = _cells(source, always, *parts["edge"], observations)
    np.add.at(transitions, pairs.column, np.repeat(plain[always], np.diff(pairs.ptr)) * weight[at])
    n_weights = int(np.count_nonzero(weight))
    return imported_crf(
        program, labels, extractor, cells, [*weights, transitions], n_weights, template=template
    )


def _cells(
    source: str, owner: Longs, first: Longs, size: Longs, observations: Observations
) -> tuple[Cells, Longs]:
    """The cells of features, each with the weights first:first+size of its observation; and the
    places of these."""
    begin = np.searchsorted(observations.number, first)
    count = (np.searchsorted(observations.number, first + size) - begin)[owner]
    ptr = offsets_from(count)
    if ptr[-1] > MOST_CELLS[0] + MOST_CELLS[1] * len(observations.weight):
        raise ModelFileError(
            f"{source}: observations with many weights can be read in too many ways "
            f"({int(ptr[-1]):,} weights)"
        )
    at = np.repeat(begin[owner] - ptr[:-1], count) + np.arange(ptr[-1])
    return Cells(
        ptr, (observations.number[at] - np.repeat(first[owner], count)).astype(np.int32)
    ), at


def _template(source: str, lines: Sequence[Line]) -> Template:
    """The template of these lines, each checked to mean what it means in the other program."""
    for line in lines:
        try:
            (pattern,) = parse_template(line.line).patterns
        except TemplateError as error:
            what = str(error).removeprefix("template:1:").partition(": ")[2]
            raise ModelFileError(f"{source}: pattern {line.source!r}: {what}") from error
        except ValueError:  # more than one line
            raise ModelFileError(f"{source}: pattern {line.source!r}: expected one line") from None
        if pattern.literals != (*line.literals[:-1], line.literals[-1].rstrip()):
            raise ModelFileError(
                f"{source}: pattern {line.source!r}: a template here cannot hold this text"
            )
    try:
        return parse_template(
            "\n".join(line.line for line in lines), f"patterns of {Path(source).name}"
        )
    except TemplateError as error:  # more classes of letters than a template may have
        raise ModelFileError(f"{source}: {error}") from error


def _features(
    patterns: "_Patterns", template: Template, texts: list[bytes]
) -> tuple[Vocabulary, Longs, Longs]:
    """Every reading of every observation as a feature; the observation of each feature [F]; and how
    many patterns make each observation [O] at every token, on pairs of labels."""
    rows: dict[Table, list[tuple[Read, ...]]] = {table: [] for table in patterns.shapes}
    owner: dict[Table, list[int]] = {table: [] for table in patterns.shapes}
    plain = np.zeros(len(texts), np.int64)
    for number, text in enumerate(texts):
        fits = False
        for shape in patterns.with_ends_of(text):
            readings = list(patterns.readings(shape, text))
            rows[shape.table] += readings
            owner[shape.table] += [number] * len(readings)
            fits |= bool(readings)
            if readings and not shape.table.readers and text[:1] not in b"uU":
                plain[number] = shape.n_patterns
        if not fits:
            raise ModelFileError(
                f"{patterns.source}: {shown(text)} fits no pattern of the model, or is not in UTF-8"
            )
    vocabulary = Vocabulary.of(template, rows)
    owners = [np.array(owner[table], np.int64) for table in vocabulary.rows]
    return vocabulary, np.concatenate([np.empty(0, np.int64), *owners]), plain


@dataclass
class _Shape:
    """Patterns that make the same texts: what is fixed in them, and the places outside a sentence
    that cells read."""

    table: Table
    line: Line
    literals: list[bytes]
    reach: list[tuple[int, int]]  # from the first to the last place
    n_patterns: int = 0


class _Patterns:
    """The patterns of a model, and what their cells may have read where they made a text."""

    def __init__(
        self,
        source: str,
        template: Template,
        lines: Sequence[Line],
        boundary: Callable[[int], str],
        n_bytes: int,
    ):
        self.source, self.shapes, self._work = (
            source,
            dict[Table, _Shape](),
            MOST_WORK[0] + MOST_WORK[1] * n_bytes,
        )
        for line, pattern in zip(lines, template.patterns, strict=True):
            # counted from an end, the last row is -1 and every sentence has it
            reach = [(min(cell.row + cell.absolute, 0), max(cell.row, 0)) for cell in pattern.cells]
            table = table_of(pattern)
            fixed = [literal.encode() for literal in line.literals]
            shape = self.shapes.setdefault(table, _Shape(table, line, fixed, reach))
            if shape.line.literals != line.literals:
                raise ModelFileError(
                    f"{source}: patterns {shape.line.source!r} and {line.source!r} differ in "
                    "spaces at the end alone; a template here does not tell them apart"
                )
            shape.n_patterns += 1
            shape.reach = [
                (min(a, c), max(b, d)) for (a, b), (c, d) in zip(shape.reach, reach, strict=True)
            ]
        self._by_head: dict[bytes, list[_Shape]] = {}
        for shape in self.shapes.values():
            self._by_head.setdefault(shape.literals[0], []).append(shape)
        self._lengths = sorted({len(head) for head in self._by_head})
        reach = [(0, 0), *(places for shape in self.shapes.values() for places in shape.reach)]
        # outside the sentence, by the text that stands for them
        self._places: dict[str, list[int]] = {}
        for place in range(min(a for a, _ in reach), max(b for _, b in reach) + 1):
            if place:
                self._places.setdefault(boundary(place), []).append(place)
        # the places by what a reader shows
        self._outside: dict[tuple[str, object], dict[bytes, list[int]]] = {}
        self._remembered = lru_cache(1 << 16)(self._choices)

    def _spend(self, text: bytes, work: int) -> None:
        self._work -= work
        if self._work < 0:
            raise ModelFileError(
                f"{self.source}: {shown(text)} and others can be read in too many ways; use rarer "
                "separators between cells"
            )

    def with_ends_of(self, text: bytes) -> Iterator[_Shape]:
        """The shapes that begin and end as this text does."""
        for n in self._lengths:
            self._spend(text, n // 4)
            for shape in self._by_head.get(text[:n], ()):
                self._spend(text, WORK_OF_STEP)
                if n <= len(text) and text.endswith(shape.literals[-1]):
                    yield shape

    def readings(self, shape: _Shape, text: bytes) -> Iterator[tuple[Read, ...]]:
        """What the cells of a shape may have read where they made this text, which begins and ends
        as it does."""
        if not shape.table.readers:
            if text == shape.literals[0]:
                yield ()
            return
        n_read = len(text) - sum(map(len, shape.literals))
        for choices in self._cuts(shape, text, len(shape.literals[0]), 0):
            self._spend(text, prod(map(len, choices)) * (n_read + WORK_OF_READING))
            yield from product(*choices)

    def _cuts(
        self, shape: _Shape, text: bytes, begin: int, cell: int
    ) -> Iterator[tuple[list[Read], ...]]:
        """Every way to cut the rest of a text between the cells from this one on."""
        literal, reader = shape.literals[cell + 1], shape.table.readers[cell]
        is_last = cell == len(shape.table.readers) - 1
        end = len(text) - len(literal) if is_last else text.find(literal, begin)
        self._spend(text, WORK_OF_STEP + (len(text) - begin) // 4)
        while begin <= end:
            piece = text[begin:end]
            slow = (
                WORK_OF_REGEX * len(str(reader.argument)) if reader.function == "byte_match" else 1
            )
            choices = (self._remembered if len(piece) <= SHORT else self._choices)(
                reader, shape.reach[cell], piece
            )
            self._spend(text, WORK_OF_STEP + len(piece) * slow // 4 + len(choices))
            if choices:
                rests = [()] if is_last else self._cuts(shape, text, end + len(literal), cell + 1)
                for rest in rests:
                    yield (choices, *rest)
            end = -1 if is_last or end == len(text) else text.find(literal, end + 1)

    def _choices(self, reader: Reader, reach: tuple[int, int], piece: bytes) -> list[Read]:
        """What a cell may have read where it shows this piece of text."""
        outside = self._outside.setdefault((reader.function, reader.argument), {})
        if not outside:
            for places, text in zip(
                self._places.values(), apply(reader, list(self._places)), strict=True
            ):
                outside.setdefault(text.encode(), []).extend(places)
        choices: list[Read] = [
            place for place in outside.get(piece, ()) if reach[0] <= place <= reach[1]
        ]
        value = _value(reader, piece)
        if value is not None and not (choices and reader.function in WHOLE):
            choices.append(value)
        return choices


def _value(reader: Reader, piece: bytes) -> str | None:
    """The value that a reader shows as this piece of text, or None where it never shows that."""
    if BLANK.search(piece) or (reader.function == "byte_test" and piece not in (b"true", b"false")):
        return None
    value = piece.decode("utf-8", "surrogateescape")
    if reader.function in ("byte_lower", "byte_lower_match") and value != value.translate(
        ASCII_LOWER
    ):
        return None
    if reader.function == "byte_match":  # what a regular expression matches, it matches again
        return value if not piece or apply(reader, [value]) == [value] else None
    if reader.function == "byte_lower_match":
        return value
    return value if piece and piece.decode("utf-8", "ignore") == value else None


def shown(text: bytes) -> str:
    """An observation, for messages."""
    return ascii(text.decode("utf-8", "replace")[:60])
