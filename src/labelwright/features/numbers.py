"""Numbers beside symbols: number columns, word vectors and arrays, standardised on the training
data.

    %n[row,col]    the number in a column
    %v[row]        the vector of the word
    %a[row]        the row of an array

Each makes one feature for each number, whose value is (x - mean) / standard deviation, cut at
+-10,000; mean and deviation are those of the tokens of the training data.  What is missing (no
number, a word without a vector, a place outside the sentence) is 0, the mean; a word without a
vector has a feature of its own, whose value is 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.compressed import Source, read_bytes, written
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.features.incidence import Incidence, Longs, Part, distinct_strings, packed_strings
from labelwright.features.template import NUMBERS, Template
from labelwright.features.vocabulary import Columns, check_column
from labelwright.modelfile import LARGEST_WEIGHT, HeaderReader, TensorReader
from labelwright.parallel import computed_once

Array = NDArray[Any]
# values of a number column that are no number
MISSING = {"", "_", "-", "?", "*", "NA", "nan", "NaN", "None"}
FARTHEST = 1e4  # deviations from the mean: float16 holds them, and scores stay finite
ROWS_AT_ONCE = 2048  # tokens whose numbers are computed in one step: what that needs stays small


class Vectors:
    """Words with their vectors; a word that is missing is looked up in lower case."""

    def __init__(self, words: Sequence[str], rows: Array, source: str = "vectors"):
        self.words, self.rows, self.source = list(words), rows, source  # [W], [W, D]

    def __repr__(self) -> str:
        return f"<Vectors {self.source}: {len(self.words)} words, {self.width} dimensions>"

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    @computed_once
    def _number(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def __reduce__(self) -> tuple[Any, ...]:
        """What a pickle holds: all but what is quickly made again."""
        return Vectors, (self.words, self.rows, self.source)

    def places(self, words: Sequence[str]) -> Array:
        """The row of each word, -1 where it has none."""
        number = self._number
        return np.array(
            [number.get(word, number.get(word.lower(), -1)) for word in words], np.int64
        )

    def of(self, places: Array) -> Array:
        """The vectors at these rows, then 1 where there is none."""
        known = places >= 0
        values = np.zeros((len(places), self.width + 1), np.float32)
        values[known, :-1] = self.rows[places[known]]
        values[:, -1] = ~known
        return values

    def standardised(self, places: Array) -> "Vectors":
        """The vectors, standardised on the tokens with these rows; of 16 bits, as files have
        them."""
        if not (places >= 0).any():
            raise OptionError(
                f"vectors: {self.source} has none of the words of the training data; check the "
                "language"
            )
        mean, deviation = scale_of(
            self.rows, np.bincount(places[places >= 0], minlength=len(self.words))
        )
        with np.errstate(over="ignore"):  # they are cut
            rows = self.rows - mean.astype(np.float32)
            rows /= deviation.astype(np.float32)
        return Vectors(
            self.words, np.clip(rows, -FARTHEST, FARTHEST, out=rows).astype(np.float16), self.source
        )


def read_vectors(path: Any) -> Vectors:
    """Word vectors in the text format of word2vec and GloVe: a word and its numbers on each line; a
    first line with the numbers of words and dimensions may come before.  Of two lines for one word,
    the first counts."""
    words: dict[str, None] = {}
    rows: list[Array] = []
    width = 0
    for number, line in enumerate(read_bytes(path).decode("utf-8", "replace").split("\n"), start=1):
        fields = line.rstrip().split(" ") if "\t" not in line else line.rstrip().split("\t")
        if len(fields) < 2 or (
            number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields)
        ):
            continue
        width = width or len(fields) - 1
        word = " ".join(fields[:-width])
        try:
            row = np.array(fields[-width:], np.float32)
        except ValueError:
            row = np.empty(0, np.float32)
        if len(fields) <= width or not len(row) or not np.isfinite(row).all():
            raise CorpusError(
                f"{path}:{number}: expected a word and {width} numbers, got {line!r:.40}"
            )
        if word not in words:
            words[word] = None
            rows.append(row)
    if not rows:
        raise CorpusError(f"{path}: no vectors; expected a word and its numbers on each line")
    return Vectors(list(words), np.stack(rows), str(path))


def write_vectors(vectors: Vectors, path: Source) -> None:
    """Write word vectors in the text format of word2vec, to a path (compressed by its suffix) or
    `-`."""
    with written(path) as write:
        write(f"{len(vectors.words)} {vectors.width}\n".encode())
        for word, row in zip(vectors.words, vectors.rows.tolist(), strict=True):
            write(f"{word} {' '.join(f'{number:.5g}' for number in row)}\n".encode())


def vectors_of(given: Any) -> Vectors:
    """Vectors as a user gives them: a file, or {word: numbers}."""
    if isinstance(given, Vectors):
        return given
    if not isinstance(given, Mapping):
        return read_vectors(given)
    try:
        rows = np.array([np.asarray(row, np.float32) for row in given.values()], np.float32)
    except (ValueError, TypeError, OverflowError):
        rows = np.empty(0, np.float32)
    if (
        rows.ndim != 2
        or not rows.size
        or not np.isfinite(rows).all()
        or not all(isinstance(w, str) for w in given)
    ):
        raise OptionError(
            "vectors: expected a file, or {word: numbers} with as many numbers for each word"
        )
    return Vectors(list(given), rows)


def scale_of(rows: Array, count: Array | None = None) -> tuple[Array, Array]:
    """Mean and standard deviation [D] of rows [n, D], each as often as it counts, without what is
    no number; 1 where all are equal."""

    def mean_of(power: int, centre: Array) -> Array:
        """The mean of this power of the distances from the centre."""
        n, total = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
        for a in range(0, len(rows), ROWS_AT_ONCE):
            part = np.asarray(rows[a : a + ROWS_AT_ONCE], np.float64) - centre
            known = np.isfinite(part)
            weight = np.ones(len(part)) if count is None else count[a : a + ROWS_AT_ONCE]
            n += weight @ known
            total += weight @ np.where(known, part, 0) ** power
        return np.asarray(total / np.maximum(n, 1))

    mean = mean_of(1, np.zeros(rows.shape[1]))
    deviation = np.sqrt(mean_of(2, mean))
    return mean, np.where(deviation > 1e-12, deviation, 1.0)


class Line(NamedTuple):
    """A line of a template that reads numbers."""

    name: str
    row: int
    kind: str  # number, vector or array
    column: int

    @property
    def scale(self) -> str:
        """What its mean and deviation are stored by."""
        return "array" if self.kind == "array" else str(self.column)


def lines_of(template: Template) -> list[Line]:
    """The lines of a template that read numbers."""
    cells = [
        (p.name, p.cells[0])
        for p in template.patterns
        if p.cells and p.cells[0].reader.function in NUMBERS
    ]
    return [Line(name, cell.row, cell.reader.function, cell.reader.column) for name, cell in cells]


class Table(NamedTuple):
    """What a line reads at tokens: rows that they share."""

    rows: Array  # [n+1, D]  the last is all zeros
    row_of: Longs  # [T]      -1 is the last


class Numbers(Part):
    """The features of lines that read numbers: for each line as many as what it reads has
    numbers."""

    def __init__(
        self,
        lines: Sequence[Line],
        scales: Mapping[str, tuple[Array, Array]],
        vectors: Vectors | None,
    ):
        self.lines, self.scales, self.vectors = list(lines), dict(scales), vectors
        self.first = offsets_from([self._width(line) for line in self.lines])  # [lines+1]
        self.n_features = int(self.first[-1])

    @classmethod
    def learn(
        cls, template: Template, columns: Columns, arrays: Array | None, vectors: Any
    ) -> "Numbers":
        """The numbers that a template reads, standardised on training data."""
        lines, scales = lines_of(template), {}
        kinds = {line.kind for line in lines}
        if "vector" in kinds and vectors is None:
            raise OptionError(f"{template.name}: %v reads word vectors; give them by vectors=FILE")
        words = vectors_of(vectors) if "vector" in kinds else None
        if words is not None:
            words = words.standardised(words.places(columns.values[0])[columns.codes[0]])
        for column in {line.column for line in lines if line.kind == "number"}:
            numbers = numbers_in(columns.values[column], column)[:, None]
            scales[str(column)] = scale_of(
                numbers, np.bincount(columns.codes[column], minlength=len(numbers))
            )
        if "array" in kinds:
            scales["array"] = scale_of(_given(arrays))
        return cls(lines, scales, words)

    def _width(self, line: Line) -> int:
        if line.kind == "vector":
            return self.vectors.width + 1 if self.vectors is not None else 0
        return len(self.scales[line.scale][0])

    def added(
        self, incidences: dict[str, Incidence], columns: Columns, arrays: Array | None, first: int
    ) -> None:
        """Add the features of these tokens, where their values are not 0, to those on states; they
        count from `first`."""
        if not self.lines:
            return
        tables, read = list[Table](), dict[tuple[str, int], Table]()
        for line in self.lines:
            key = line.kind, line.column
            if key not in read:
                read[key] = self._read(line, columns, arrays)
            tables.append(
                read[key]._replace(row_of=_shifted(read[key].row_of, columns.offsets, line.row))
            )
        old_ptr, old_feature, old_value = incidences["state"][3:]
        n_new = sum(np.count_nonzero(rows, axis=1)[row_of] for rows, row_of in tables)
        ptr = offsets_from(np.diff(old_ptr) + n_new)
        feature, value = np.empty(int(ptr[-1]), np.int32), np.empty(int(ptr[-1]), np.float32)
        for a in range(0, len(ptr) - 1, ROWS_AT_ONCE):
            b = min(a + ROWS_AT_ONCE, len(ptr) - 1)
            here, there = slice(int(ptr[a]), int(ptr[b])), slice(int(old_ptr[a]), int(old_ptr[b]))
            sizes = np.diff(ptr[a : b + 1])
            within = np.arange(here.stop - here.start) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            is_old = within < np.repeat(np.diff(old_ptr[a : b + 1]), sizes)
            values = np.concatenate([rows[row_of[a:b]] for rows, row_of in tables], axis=1)
            filled = values != 0
            feature[here][is_old], feature[here][~is_old] = (
                old_feature[there],
                first + np.nonzero(filled)[1],
            )
            value[here][is_old], value[here][~is_old] = (
                old_value[there] if len(old_value) else 1,
                values[filled],
            )
        incidences["state"] = incidences["state"]._replace(
            token_ptr=ptr, token_feature=feature, token_value=value
        )

    def _read(self, line: Line, columns: Columns, arrays: Array | None) -> Table:
        """What a line reads at every token, before it is shifted."""
        if line.kind == "vector":
            assert self.vectors is not None
            return _table(self.vectors.of(self.vectors.places(columns.values[0])), columns.codes[0])
        mean, deviation = self.scales[line.scale]
        if line.kind == "array":
            rows = _given(arrays)
            if rows.shape[1] != len(mean):
                raise CorpusError(
                    f"arrays: the model reads rows of {len(mean)} numbers, got rows of "
                    f"{rows.shape[1]}"
                )
            return _table(rows, np.arange(len(rows)), mean, deviation)
        raw = numbers_in(columns.values[line.column], line.column)[:, None]
        return _table(raw, columns.codes[line.column], mean, deviation)

    def name(self, feature: int) -> str:
        """The name of a feature: that of its line, and which of its numbers it is."""
        i = int(np.searchsorted(self.first, feature, side="right")) - 1
        line, number = self.lines[i], feature - int(self.first[i])
        if line.kind == "number":
            return line.name
        unknown = line.kind == "vector" and number == self._width(line) - 1
        return f"{line.name}:unknown" if unknown else f"{line.name}:{number}"

    def same_as(self, other: "Numbers") -> bool:
        return self.lines == other.lines and self.first.tolist() == other.first.tolist()

    def tensors(self) -> dict[str, Array]:
        """numbers.*: mean and deviation of what is read; vectors: their words and rows [W, D] of 16
        bits."""
        stored: dict[str, Array] = {}
        for name, (mean, deviation) in self.scales.items():
            stored |= {f"numbers.{name}.mean": mean, f"numbers.{name}.deviation": deviation}
        if self.vectors is not None:
            stored |= {"vectors.rows": self.vectors.rows} | packed_strings(
                "vectors.words", self.vectors.words
            )
        return stored

    @classmethod
    def restore(
        cls, template: Template, tensors: TensorReader, header: HeaderReader, n_columns: int
    ) -> "Numbers":
        lines, scales, vectors = lines_of(template), {}, None
        if not lines:
            return NO_NUMBERS
        for line in lines:
            if line.kind != "array":
                check_column(header, line.column, n_columns)
        for name in {line.scale for line in lines if line.kind != "vector"}:
            mean = tensors.weights(f"numbers.{name}.mean", np.float64, None)
            limits = {"least": 1e-12, "most": LARGEST_WEIGHT}
            deviation = tensors.numbers(
                f"numbers.{name}.deviation", np.float64, len(mean), **limits
            )
            if name != "array" and len(mean) != 1:
                raise ModelFileError(
                    f"tensor {tensors.prefix}numbers.{name}.mean: expected one number"
                )
            scales[name] = mean, deviation
        if any(line.kind == "vector" for line in lines):
            words = distinct_strings(tensors, "vectors.words")
            vectors = Vectors(words, tensors.numbers("vectors.rows", np.float16, len(words), None))
        return cls(lines, scales, vectors)


NO_NUMBERS = Numbers((), {}, None)


def numbers_in(values: Sequence[str], column: int) -> Array:
    """The number that each value of a column means; nan where it is missing."""
    numbers = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        try:
            numbers[i] = float(value) if value not in MISSING else np.nan
        except ValueError:
            raise CorpusError(
                f"%n reads column {column} as numbers, got {value!r:.40}; use %x for symbols, or _ "
                "for a missing number"
            ) from None
        if np.isinf(numbers[i]) or abs(numbers[i]) > LARGEST_WEIGHT:
            raise CorpusError(
                f"%n reads column {column} as numbers, got {value!r:.40}; expected finite numbers"
            )
    return numbers


def _given(arrays: Array | None) -> Array:
    if arrays is None:
        raise CorpusError("arrays: the model reads a row of numbers for each token; give arrays=")
    return arrays


def _table(rows: Array, row_of: Array, mean: Any = 0, deviation: Any = 1) -> Table:
    """A table of rows, standardised and cut; what is no number is 0."""
    table = np.zeros((len(rows) + 1, rows.shape[1]), np.float32)
    for a in range(0, len(rows), ROWS_AT_ONCE):
        with np.errstate(over="ignore"):  # they are cut
            part = (rows[a : a + ROWS_AT_ONCE] - mean) / deviation
        table[a : a + len(part)] = np.clip(np.nan_to_num(part, nan=0.0), -FARTHEST, FARTHEST)
    return Table(table, row_of)


def _shifted(row_of: Array, offsets: Longs, row: int) -> Longs:
    """The row that is read so many tokens further on in the sentence; -1 outside it."""
    there = np.arange(len(row_of)) + row
    lengths = np.diff(offsets)
    inside = (there >= np.repeat(offsets[:-1], lengths)) & (there < np.repeat(offsets[1:], lengths))
    return np.where(inside, row_of[np.where(inside, there, 0)], -1)
