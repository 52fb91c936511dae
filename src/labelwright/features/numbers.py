"""Numbers beside symbols: number columns, word vectors and arrays, standardised on the training data.

    %n[row,col]    the number in a column      %v[row]    the vector of the word      %a[row]    the row of an array

Each makes one feature for each number, whose value is (x - mean) / standard deviation; mean and deviation are those of
the tokens of the training data.  What is missing (no number, a word without a vector, a place outside the sentence) is
0, the mean; a word without a vector has a feature of its own, whose value is 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.compressed import read_bytes
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.features.incidence import Incidence, Longs
from labelwright.features.template import NUMBERS, Template
from labelwright.features.vocabulary import Columns
from labelwright.modelfile import pack_strings, read_strings
from labelwright.parallel import computed_once
from labelwright.validation import HeaderReader, TensorReader, check_distinct

Array = NDArray[Any]
MISSING = {"", "_", "-", "?", "*", "NA", "nan", "NaN", "None"}  # values of a number column that are no number
LARGEST = 1e30


class Vectors:
    """Words with their vectors; a word that is missing is looked up in lower case."""

    def __init__(self, words: Sequence[str], rows: Array, source: str = "vectors"):
        self.words, self.rows, self.source = list(words), rows, source  # [W], [W, D]

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    @computed_once
    def _number(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all but what is quickly made again."""
        return {name: value for name, value in self.__dict__.items() if name != "_number"}

    def places(self, words: Sequence[str]) -> Array:
        """The row of each word, -1 where it has none."""
        number = self._number
        return np.array([number.get(word, number.get(word.lower(), -1)) for word in words], np.int64)

    def of(self, places: Array) -> Array:
        """The vectors at these rows, then 1 where there is none."""
        known = places >= 0
        values = np.zeros((len(places), self.width + 1), np.float32)
        values[known, :-1] = self.rows[places[known]]
        values[:, -1] = ~known
        return values

    def standardised(self, places: Array) -> "Vectors":
        """The vectors, standardised on the tokens with these rows; of 16 bits, as files have them."""
        if not (places >= 0).any():
            raise OptionError(f"vectors: {self.source} has none of the words of the training data; check the language")
        mean, deviation = scale_of(self.rows[places[places >= 0]])
        rows = np.clip((self.rows - mean) / deviation, -1e4, 1e4)
        return Vectors(self.words, rows.astype(np.float16), self.source)


def read_vectors(path: Any) -> Vectors:
    """Word vectors in the text format of word2vec and GloVe: a word and its numbers on each line; a first line with the
    numbers of words and dimensions may come before.  Of two lines for one word, the first counts."""
    words: dict[str, None] = {}
    rows: list[Array] = []
    width = 0
    for number, line in enumerate(read_bytes(path).decode("utf-8", "replace").split("\n"), start=1):
        fields = line.rstrip().split(" ") if "\t" not in line else line.rstrip().split("\t")
        if len(fields) < 2 or (number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields)):
            continue
        width = width or len(fields) - 1
        word = " ".join(fields[:-width])
        try:
            row = np.array(fields[-width:], np.float32)
        except ValueError:
            row = np.empty(0, np.float32)
        if len(fields) <= width or not len(row) or not np.isfinite(row).all():
            raise CorpusError(f"{path}:{number}: expected a word and {width} numbers, got {line!r:.40}")
        if word not in words:
            words[word] = None
            rows.append(row)
    if not rows:
        raise CorpusError(f"{path}: no vectors; expected a word and its numbers on each line")
    return Vectors(list(words), np.stack(rows), str(path))


def vectors_of(given: Any) -> Vectors:
    """Vectors as a user gives them: a file, or {word: numbers}."""
    if isinstance(given, Vectors):
        return given
    if not isinstance(given, Mapping):
        return read_vectors(given)
    try:
        rows = np.array([np.asarray(row, np.float32) for row in given.values()], np.float32)
    except (ValueError, TypeError):
        rows = np.empty(0, np.float32)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all() or not all(isinstance(w, str) for w in given):
        raise OptionError("vectors: expected a file, or {word: numbers} with as many numbers for each word")
    return Vectors(list(given), rows)


def scale_of(rows: Array) -> tuple[Array, Array]:
    """Mean and standard deviation [D] of rows [n, D], leaving out what is no number; 1 where all are equal."""
    wide = np.asarray(rows, np.float64)
    with np.errstate(invalid="ignore"):
        known = np.isfinite(wide)
    n = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, wide, 0).sum(axis=0) / n
    deviation = np.sqrt((np.where(known, wide - mean, 0) ** 2).sum(axis=0) / n)
    return mean, np.where(deviation > 1e-12, deviation, 1.0)


class Line(NamedTuple):
    """A line of a template that reads numbers."""

    name: str
    row: int
    kind: str  # number, vector or array
    column: int


def lines_of(template: Template) -> list[Line]:
    """The lines of a template that read numbers."""
    cells = [(p.name, p.cells[0]) for p in template.patterns if p.cells and p.cells[0].reader.function in NUMBERS]
    return [Line(name, cell.row, cell.reader.function, cell.reader.column) for name, cell in cells]


class Numbers:
    """The features of lines that read numbers: for each line as many as what it reads has numbers."""

    def __init__(self, lines: Sequence[Line], scales: Mapping[str, tuple[Array, Array]], vectors: Vectors | None):
        self.lines, self.scales, self.vectors = list(lines), dict(scales), vectors
        self.first = offsets_from([self._width(line) for line in self.lines])  # [lines+1]

    @classmethod
    def learn(cls, template: Template, columns: Columns, arrays: Array | None, vectors: Any) -> "Numbers":
        """The numbers that a template reads, standardised on training data."""
        lines, scales = lines_of(template), {}
        kinds = {line.kind for line in lines}
        if "vector" in kinds and vectors is None:
            raise OptionError(f"{template.name}: %v reads word vectors; give them by vectors=FILE")
        words = vectors_of(vectors) if "vector" in kinds else None
        if words is not None:
            words = words.standardised(words.places(columns.values[0])[columns.codes[0]])
        for column in {line.column for line in lines if line.kind == "number"}:
            scales[str(column)] = scale_of(numbers_in(columns.values[column], column)[columns.codes[column], None])
        if "array" in kinds:
            scales["array"] = scale_of(_given(arrays))
        return cls(lines, scales, words)

    def _width(self, line: Line) -> int:
        if line.kind == "vector":
            return self.vectors.width + 1 if self.vectors is not None else 0
        return len(self.scales["array" if line.kind == "array" else str(line.column)][0])

    @property
    def n_features(self) -> int:
        return int(self.first[-1])

    def added(self, incidences: dict[str, Incidence], columns: Columns, arrays: Array | None, first: int) -> None:
        """Add the features of these tokens, which count from `first`, to those on states."""
        if self.lines:
            incidences["state"] = with_values(incidences["state"], self.values(columns, arrays), first)

    def values(self, columns: Columns, arrays: Array | None) -> Array:
        """The value of every feature at every token [T, F]."""
        T = int(columns.offsets[-1])
        values = np.zeros((T, self.n_features), np.float32)
        read: dict[tuple[str, int], Array] = {}
        for line, begin, end in zip(self.lines, self.first[:-1].tolist(), self.first[1:].tolist(), strict=True):
            key = line.kind, line.column
            if key not in read:
                read[key] = self._read(line, columns, arrays)
            here, there = _shifted(columns.offsets, line.row)
            values[here, begin:end] = read[key][there]
        return values

    def _read(self, line: Line, columns: Columns, arrays: Array | None) -> Array:
        """What a line reads at every token [T, D], before it is shifted."""
        if line.kind == "vector":
            assert self.vectors is not None
            return self.vectors.of(self.vectors.places(columns.values[0])[columns.codes[0]])
        if line.kind == "array":
            mean, deviation = self.scales["array"]
            rows = _given(arrays)
            if rows.shape[1] != len(mean):
                raise CorpusError(f"arrays: the model reads rows of {len(mean)} numbers, got rows of {rows.shape[1]}")
            return np.asarray((rows - mean) / deviation)
        mean, deviation = self.scales[str(line.column)]
        raw = numbers_in(columns.values[line.column], line.column)[:, None]
        known = np.nan_to_num((raw - mean) / deviation, nan=0.0)
        return np.asarray(known[columns.codes[line.column]])

    def name(self, feature: int) -> str:
        """The name of a feature: that of its line, and which of its numbers it is."""
        i = int(np.searchsorted(self.first, feature, side="right")) - 1
        line, number = self.lines[i], feature - int(self.first[i])
        if line.kind == "number":
            return line.name
        unknown = line.kind == "vector" and number == self._width(line) - 1
        return f"{line.name}:unknown" if unknown else f"{line.name}:{number}"

    def same_as(self, other: "Numbers") -> bool:
        """Are the features the same?"""
        return self.lines == other.lines and self.first.tolist() == other.first.tolist()

    # -- files ------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Array]:
        """numbers.*: mean and deviation of what is read; vectors: their words and rows [W, D] of 16 bits."""
        stored: dict[str, Array] = {}
        for name, (mean, deviation) in self.scales.items():
            stored |= {f"numbers.{name}.mean": mean, f"numbers.{name}.deviation": deviation}
        if self.vectors is not None:
            stored["vectors.rows"] = self.vectors.rows
            stored["vectors.words.text"], stored["vectors.words.offsets"] = pack_strings(self.vectors.words)
        return stored

    @classmethod
    def restore(cls, template: Template, tensors: TensorReader, header: HeaderReader) -> "Numbers":
        """The numbers of a model file, as its template reads them."""
        lines, scales, vectors = lines_of(template), {}, None
        if not lines:
            return NO_NUMBERS
        for name in {"array" if line.kind == "array" else str(line.column) for line in lines if line.kind != "vector"}:
            mean = tensors.numbers(f"numbers.{name}.mean", np.float64, None, least=-LARGEST, most=LARGEST)
            least = 1e-12
            deviation = tensors.numbers(f"numbers.{name}.deviation", np.float64, len(mean), least=least, most=LARGEST)
            if name != "array" and len(mean) != 1:
                raise ModelFileError(f"tensor {tensors.prefix}numbers.{name}.mean: expected one number")
            scales[name] = mean, deviation
        if any(line.kind == "vector" for line in lines):
            words = read_strings(tensors, "vectors.words")
            check_distinct(f"{tensors.prefix}vectors.words", words)
            rows = tensors.array("vectors.rows", np.float16, len(words), None)
            if not np.isfinite(rows).all():
                raise ModelFileError(f"tensor {tensors.prefix}vectors.rows: expected finite numbers")
            vectors = Vectors(words, rows)
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
                f"%n reads column {column} as numbers, got {value!r:.40}; use %x for symbols, or _ for a missing number"
            ) from None
        if np.isinf(numbers[i]) or abs(numbers[i]) > LARGEST:
            raise CorpusError(f"%n reads column {column} as numbers, got {value!r:.40}; expected finite numbers")
    return numbers


def _given(arrays: Array | None) -> Array:
    if arrays is None:
        raise CorpusError("arrays: the model reads a row of numbers for each token; give arrays=")
    return arrays


def _shifted(offsets: Longs, row: int) -> tuple[Array, Array]:
    """The tokens that have one so many rows further in their sentence, and that one."""
    here = np.arange(int(offsets[-1]))
    begin, end = np.repeat(offsets[:-1], np.diff(offsets)), np.repeat(offsets[1:], np.diff(offsets))
    inside = (here + row >= begin) & (here + row < end)
    return here[inside], here[inside] + row


def with_values(incidence: Incidence, values: Array, first: int) -> Incidence:
    """An incidence with further features of tokens, whose values [T, F] are not 0; their numbers begin at `first`."""
    filled = values != 0
    old, new = np.diff(incidence.token_ptr), filled.sum(axis=1)
    ptr = offsets_from(old + new)
    feature, value = np.empty(int(ptr[-1]), np.int32), np.ones(int(ptr[-1]), np.float32)
    of_old = np.repeat(ptr[:-1] - incidence.token_ptr[:-1], old) + np.arange(len(incidence.token_feature))
    feature[of_old] = incidence.token_feature
    if len(incidence.token_value):
        value[of_old] = incidence.token_value
    token, number = np.nonzero(filled)
    within = np.arange(len(token)) - np.repeat(np.cumsum(new) - new, new)
    place = (ptr[:-1] + old)[token] + within
    feature[place], value[place] = number + first, values[token, number]
    return incidence._replace(token_ptr=ptr, token_feature=feature, token_value=value)
