"""Models over patterns as CRF++ and Wapiti store them: from observations back to what the cells of a pattern read.

An *observation* is the text that a pattern makes at a token (`U02:_B-1/the`), and it is all that these programs know of
it: patterns that make the same text share its weights.  Here a feature is a line of the template and what its cells
read.  So every reading of an observation becomes a feature with its weights: `u:a/b/c` under `u:%x[-1,0]/%x[0,0]` is
a and b/c, or a/b and c.  A token makes one of them at most, and the sums of weights are those of the program.

Only a column that holds the very text of a boundary, such as _B-1, is told apart from the boundary.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.labels import unwritable_label
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import detect_scheme
from labelwright.corpus.table import default_names
from labelwright.errors import ModelFileError, TemplateError
from labelwright.features.extract import ColumnFeatures
from labelwright.features.incidence import Ints, Longs
from labelwright.features.template import ASCII_LOWER, Cell, Pattern, Reader, Template, apply, parse_template
from labelwright.features.vocabulary import Table, Vocabulary, table_of
from labelwright.interchange.chains import check_pairs
from labelwright.scoring.parameters import Cells, Parameters, Trained
from labelwright.structures.states import state_space
from labelwright.taggers.crf import CRF

Array = NDArray[Any]
Read = str | int  # what a cell reads: a string, or a place outside the sentence (-1: before the first token, 1: behind)

BLANK = re.compile(rb"[ \t\n]")  # separates columns
WHOLE = "value", "byte_lower"  # readers that show a boundary as it is
MOST_STEPS = 500_000, 40  # to read all observations: so many, and so many for each byte of patterns and observations;
MOST_KEPT = 1 << 25, 50  # and bytes of what cells may have read: so many, and so many for each of these bytes;
MOST_CELLS = 1_000_000, 20  # and weights of features: so many, and so many for each weight of the file
BYTES_OF_READING = 64  # beside those of what its cells have read
BYTES_OF_STEP = 64  # of text: longer pieces take several steps,
BYTES_OF_SHAPE = 128  # a pattern that is tried takes as long as reading so many,
SLOWER = 16  # and regular expressions that many more, times their length
MOST_REMEMBERED = 1 << 16, 0.1  # pieces of text whose meaning is remembered: so many, and so many for each byte
LONGEST_REMEMBERED = 64, 16  # bytes of such a piece, and meanings of it


class Line(NamedTuple):
    """A pattern of another program: as it is written there, as a line of a template, and the text around its cells."""

    source: str
    line: str
    literals: tuple[str, ...]


class Observations(NamedTuple):
    """The observations of a model and their weights: those of the labels, then those of the pairs of labels r * L + s.

    Weights that are zero may be left out."""

    texts: list[bytes]  # [O]
    first: Longs  # [O]  number of the first weight
    number: Longs  # [W]  rising
    weight: Array  # [W]


class Features(NamedTuple):
    """What the observations of a model become."""

    vocabulary: Vocabulary
    owner: Longs  # [F]  the observation of each feature
    plain: Longs  # [O]  how many patterns make it at every token, on pairs of labels


def checked_labels(labels: list[str], source: str, n_bytes: int) -> list[str]:
    """Labels that a column file can hold, none twice, and no more than a CRF can hold that comes from a file of so many
    bytes."""
    reason = unwritable_label(labels)
    if reason is not None:
        raise ModelFileError(f"{source}: labels: {reason}; copy or train the model again")
    if len(set(labels)) < len(labels):
        raise ModelFileError(f"{source}: labels: expected none twice; copy or train the model again")
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
    template = _template(source, lines)
    features = _features(source, template, lines, observations.texts, boundary)
    names = default_names(max(1, template.n_columns if n_columns is None else n_columns), labelled=False)
    extractor = ColumnFeatures(features.vocabulary, names)
    try:
        parameters, weights = _parameters(extractor.cell_kinds, features, len(labels), observations)
    except ModelFileError as error:
        raise ModelFileError(f"{source}: {error}") from error
    scheme = _scheme(labels, weights[parameters.slices["transitions"]])
    model = CRF(template=template)
    model._trained = Trained(extractor, state_space(labels), parameters, weights, scheme)
    n_weights = int(np.count_nonzero(observations.weight))
    model.training_ = {"imported_from": program, "features": extractor.n_features, "weights": n_weights}
    model.history_ = []
    return model


def _scheme(labels: Sequence[str], transitions: Array) -> str | None:
    """The scheme of the labels; where two are possible, transitions with a positive weight show which."""
    likely = np.argwhere(transitions.reshape(len(labels), -1) > 0).tolist()
    return detect_scheme(labels, pairs={(labels[r], labels[s]): 1 for r, s in likely})


# -- patterns ---------------------------------------------------------------------------------------------------------


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
            raise ModelFileError(f"{source}: pattern {line.source!r}: a template here cannot hold this text")
    try:
        return parse_template("\n".join(line.line for line in lines), f"patterns of {Path(source).name}")
    except TemplateError as error:  # more classes of letters than a template may have
        raise ModelFileError(f"{source}: {error}") from error


class _Outside:
    """The places outside a sentence by the text that stands for them: many may share one."""

    def __init__(self, template: Template, boundary: Callable[[int], str]):
        places = [_places_outside(cell) for pattern in template.patterns for cell in pattern.cells]
        first, behind = min((p.start for p in places), default=0), max((p.stop for p in places), default=0)
        self._places: dict[str, list[int]] = {}
        for place in (*range(first, 0), *range(1, behind)):
            self._places.setdefault(boundary(place), []).append(place)
        self._texts: dict[tuple[str, object], dict[bytes, list[str]]] = {}  # reader -> what it shows -> texts

    def shown_as(self, piece: bytes, reader: Reader, first: int, behind: int) -> list[Read]:
        """The places first:behind of which a reader shows this piece of text."""
        texts = self._texts.setdefault((reader.function, reader.argument), {})
        if not texts:
            for text, shown in zip(self._places, apply(reader, list(self._places)), strict=True):
                texts.setdefault(shown.encode(), []).append(text)
        return [place for text in texts.get(piece, ()) for place in self._places[text] if first <= place < behind]


class _TooMuchError(Exception):
    """An observation takes more than is left of the budget."""


class _Budget:
    """The steps that reading all observations of a model may take, and the bytes of what their cells have read."""

    def __init__(self, n_bytes: int):
        self._steps = MOST_STEPS[0] + MOST_STEPS[1] * n_bytes
        self._kept = MOST_KEPT[0] + MOST_KEPT[1] * n_bytes
        self._remembered = MOST_REMEMBERED[0] + MOST_REMEMBERED[1] * n_bytes

    def step(self, n_bytes: int = 0) -> None:
        """Count a step in which so many bytes of text are read."""
        self._steps -= 1 + n_bytes // BYTES_OF_STEP
        if self._steps < 0:
            raise _TooMuchError("and others take too long to be read; use rarer separators between cells")

    def keep(self, n: int, n_bytes: int) -> None:
        """Count n readings of so many bytes each."""
        self._kept -= n * (n_bytes + BYTES_OF_READING)
        if self._kept < 0:
            raise _TooMuchError("and others can be read in too many ways; use rarer separators between cells")

    def remembers(self) -> bool:
        """May one more piece of text be remembered?"""
        self._remembered -= 1
        return self._remembered >= 0


class _Shape:
    """Patterns that make the same texts: what is fixed in them, and what their cells may read."""

    def __init__(self, line: Line, pattern: Pattern, outside: _Outside, budget: _Budget):
        self.line, self.table, self._outside, self._budget = line, table_of(pattern), outside, budget
        self.literals = tuple(literal.encode() for literal in line.literals)
        self.n_patterns = 0
        self._n_fixed = sum(map(len, self.literals))
        self._reach = [(0, 0) for _ in pattern.cells]  # the places outside the sentence that each reads, 0 aside
        self._known: list[dict[bytes, list[Read]]] = [{} for _ in pattern.cells]

    def add(self, pattern: Pattern) -> None:
        """Add a pattern, which may read boundaries that the others do not."""
        self.n_patterns += 1
        for i, cell in enumerate(pattern.cells):
            first, behind = self._reach[i]
            places = _places_outside(cell)
            self._reach[i] = min(first, places.start), max(behind, places.stop)

    def readings(self, text: bytes) -> list[tuple[Read, ...]]:
        """What the cells may have read where they made this text, which begins and ends as the shape does."""
        self._budget.step(BYTES_OF_SHAPE)
        if not self.table.readers:
            return [()] if text == self.literals[0] else []
        if len(self.table.readers) == 1:
            return [(value,) for value in self._only_cell(text)]
        return list(self._combined(text))

    def _only_cell(self, text: bytes) -> list[Read]:
        """What the only cell may have read: no two texts show the same piece there, so none is remembered."""
        piece = text[len(self.literals[0]) : len(text) - len(self.literals[1])]
        choices = self._choices_of(0, piece)
        self._budget.keep(len(choices), len(piece))
        return choices

    def _combined(self, text: bytes) -> Iterator[tuple[Read, ...]]:
        for choices in self._cuts(text, len(self.literals[0]), 0):
            self._budget.keep(prod(map(len, choices)), len(text) - self._n_fixed)
            yield from product(*choices)

    def _cuts(self, text: bytes, begin: int, cell: int) -> Iterator[tuple[list[Read], ...]]:
        """Every way to cut the rest of a text between the cells from this one on."""
        self._budget.step(len(text) - begin)
        literal = self.literals[cell + 1]
        if cell == len(self._known) - 1:
            end = len(text) - len(literal)
            if end >= begin and text.endswith(literal) and (choices := self._choices(cell, text[begin:end])):
                yield (choices,)
            return
        end = text.find(literal, begin)
        while end >= 0:
            self._budget.step(end - begin)
            if choices := self._choices(cell, text[begin:end]):
                for rest in self._cuts(text, end + len(literal), cell + 1):
                    yield (choices, *rest)
            end = text.find(literal, end + 1) if end < len(text) else -1

    def _choices(self, cell: int, piece: bytes) -> list[Read]:
        """What a cell may have read where it shows this piece of text."""
        known = self._known[cell]
        choices = known.get(piece)
        if choices is None:
            choices = self._choices_of(cell, piece)
            is_short = len(piece) <= LONGEST_REMEMBERED[0] and len(choices) <= LONGEST_REMEMBERED[1]
            if is_short and self._budget.remembers():
                known[piece] = choices
        return choices

    def _choices_of(self, cell: int, piece: bytes) -> list[Read]:
        reader = self.table.readers[cell]
        searches = reader.function == "byte_match"
        self._budget.step(len(piece) * SLOWER * len(str(reader.argument)) if searches else len(piece))
        choices = self._outside.shown_as(piece, reader, *self._reach[cell])
        value = _value(reader, piece)
        if value is not None and not (choices and reader.function in WHOLE):
            choices.append(value)
        return choices


def _places_outside(cell: Cell) -> range:
    """The places outside a sentence that a cell can read."""
    if cell.absolute:  # every sentence has one token at least
        return range(cell.row + 1, 0) if cell.row < 0 else range(1, cell.row + 1)
    return range(cell.row, 0) if cell.row < 0 else range(1, cell.row + 1)


def _value(reader: Reader, piece: bytes) -> str | None:
    """The value that a reader shows as this piece of text, or None where it never shows that."""
    if reader.function == "byte_test":
        return piece.decode() if piece in (b"true", b"false") else None
    if BLANK.search(piece):
        return None
    value = piece.decode("utf-8", "surrogateescape")
    if reader.function in ("byte_lower", "byte_lower_match") and value != value.translate(ASCII_LOWER):
        return None
    if reader.function == "byte_match":  # what a regular expression matches, it matches again
        return value if not piece or apply(reader, [value]) == [value] else None
    if reader.function == "byte_lower_match":
        return value
    return value if piece and _is_utf8(piece) else None


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- features ---------------------------------------------------------------------------------------------------------


def _features(
    source: str, template: Template, lines: Sequence[Line], texts: list[bytes], boundary: Callable[[int], str]
) -> Features:
    """Every reading of every observation as a feature."""
    budget = _Budget(sum(map(len, texts)) + sum(len(line.line) for line in lines))
    shapes = _shapes(source, template, lines, _Outside(template, boundary), budget)
    by_ends = _ByEnds(shapes.values(), budget)
    read: dict[Table, list[tuple[Read, ...]]] = {table: [] for table in shapes}
    owner: dict[Table, list[int]] = {table: [] for table in shapes}
    plain = np.zeros(len(texts), np.int64)
    for number, text in enumerate(texts):
        n_readings = 0
        for shape, readings in _readings(source, by_ends, text):
            read[shape.table] += readings
            owner[shape.table] += [number] * len(readings)
            n_readings += len(readings)
            if readings and not shape.table.readers and text[:1] not in b"uU":
                plain[number] = shape.n_patterns
        if n_readings == 0:
            raise ModelFileError(f"{source}: {shown(text)} fits no pattern of the model, or is not in UTF-8")
    vocabulary = Vocabulary.of(template, read)
    owners = [np.array(owner[table], np.int64) for table in vocabulary.rows]
    return Features(vocabulary, np.concatenate([np.empty(0, np.int64), *owners]), plain)


def _shapes(
    source: str, template: Template, lines: Sequence[Line], outside: _Outside, budget: _Budget
) -> dict[Table, _Shape]:
    shapes: dict[Table, _Shape] = {}
    for line, pattern in zip(lines, template.patterns, strict=True):
        shape = shapes.setdefault(table_of(pattern), _Shape(line, pattern, outside, budget))
        if shape.line.literals != line.literals:
            raise ModelFileError(
                f"{source}: patterns {shape.line.source!r} and {line.source!r} differ in spaces at the end alone; a "
                f"template here does not tell them apart"
            )
        shape.add(pattern)
    return shapes


class _ByEnds:
    """Shapes by the fixed text that they begin and end with."""

    def __init__(self, shapes: Iterable[_Shape], budget: _Budget):
        self._budget = budget
        self._tails: dict[bytes, dict[int, dict[bytes, list[_Shape]]]] = {}  # by head, then by tail and its length
        for shape in shapes:
            tail = shape.literals[-1] if shape.table.readers else b""
            tails = self._tails.setdefault(shape.literals[0], {})
            tails.setdefault(len(tail), {}).setdefault(tail, []).append(shape)
        self._lengths = sorted({len(head) for head in self._tails})

    def that_fit(self, text: bytes) -> list[_Shape]:
        """The shapes that begin and end as this text does."""
        fit: list[_Shape] = []
        for n_head in self._lengths:
            if n_head > len(text):
                break
            self._budget.step(n_head)
            for n_tail, shapes in self._tails.get(text[:n_head], {}).items():
                if n_head + n_tail <= len(text):
                    self._budget.step(n_tail)
                    fit += shapes.get(text[len(text) - n_tail :], ())
        return fit


def _readings(source: str, by_ends: _ByEnds, text: bytes) -> list[tuple[_Shape, list[tuple[Read, ...]]]]:
    """The shapes that can have made a text, and how."""
    try:
        return [(shape, shape.readings(text)) for shape in by_ends.that_fit(text)]
    except _TooMuchError as error:
        raise ModelFileError(f"{source}: {shown(text)} {error}") from error


def shown(text: bytes) -> str:
    """An observation, for messages."""
    return ascii(text.decode("utf-8", "replace")[:60])


# -- weights ----------------------------------------------------------------------------------------------------------


def _parameters(
    cell_kinds: Sequence[str], features: Features, L: int, observations: Observations
) -> tuple[Parameters, Array]:
    """The cells of all features, and the weight vector."""
    letter = np.array([text[:1].lower() for text in observations.texts], "S1")
    on_labels, on_pairs = np.where(letter == b"b", 0, L), np.where(letter == b"u", 0, L**2)
    first_pair = observations.first + on_labels
    parts = {"state": (observations.first, on_labels), "edge": (first_pair, on_pairs)}
    cells, weights = {}, []
    for kind in cell_kinds:
        cells[kind], values = _cells(features.owner, *parts[kind], observations)
        weights.append(values)
    weights.append(_transitions(features.plain, first_pair, L, observations))
    return Parameters(cells, L), np.concatenate(weights)


def _cells(owner: Longs, first: Longs, size: Longs, observations: Observations) -> tuple[Cells, Array]:
    """The cells of features, each with the weights first:first+size of its observation; and these weights."""
    begin = np.searchsorted(observations.number, first)
    count = (np.searchsorted(observations.number, first + size) - begin)[owner]
    ptr = offsets_from(count)
    if ptr[-1] > MOST_CELLS[0] + MOST_CELLS[1] * len(observations.weight):
        raise ModelFileError(f"observations with many weights can be read in too many ways ({int(ptr[-1]):,} weights)")
    at = np.repeat(begin[owner] - ptr[:-1], count) + np.arange(ptr[-1])
    column: Ints = (observations.number[at] - np.repeat(first[owner], count)).astype(np.int32)
    return Cells(ptr, column), observations.weight[at]


def _transitions(plain: Longs, first: Longs, L: int, observations: Observations) -> Array:
    """The weights of plain transitions [L * L]: those of observations that stand at every token."""
    transitions = np.zeros(L**2, observations.weight.dtype)
    for number in np.flatnonzero(plain):
        begin, end = np.searchsorted(observations.number, [first[number], first[number] + L**2])
        pair = observations.number[begin:end] - first[number]
        transitions[pair] += plain[number] * observations.weight[begin:end]
    return transitions
