"""The features of a few tokens: what the readers see of a value is remembered, and one kernel finds all features.

For long input it is faster to look each key up once (features.vocabulary); a few tokens share too little for that.
"""

from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np

from labelwright.features.encoded import on_tokens
from labelwright.features.incidence import NO_VALUES, Incidence, Ints, Longs
from labelwright.features.template import Pattern, Reader, apply
from labelwright.kernels import tables

REMEMBERED = 1 << 14  # values, of all columns together
MOST_PARTS = 64  # of a value that is read in parts

_adding = Lock()


def seen_parts(reader: Reader, values: list[str]) -> list[list[str | None]]:
    """What a reader sees of each value: one string, or one for each part of it; None where there are fewer."""
    strings = apply(reader, values)
    if reader.function != "each":
        return [list(strings)]
    split = [[part for part in string.split("|") if part] for string in strings]
    return [[p[i] if i < len(p) else None for p in split] for i in range(max(1, *map(len, split)) if split else 1)]


def part_numbers(parts: list[list[str | None]], known: Mapping[str, int], first: int) -> Ints:
    """The numbers [parts, values] of what is seen, counted from `first`; -1: unknown, or none."""
    missing = -1 - first
    rows = [[missing if s is None else known.get(s, missing) for s in strings] for strings in parts]
    return np.array(rows, np.int32).reshape(len(parts), -1) + np.int32(first)


class TooManyPartsError(Exception):
    """A value has more parts than the lookup has places for."""

    def __init__(self, n: int):
        super().__init__(n)
        self.n = n


class Lookup:
    """Finds the features of a few tokens.

    known : the numbers of the strings that each reader of the template may see
    table : the number of the table of each line in the index
    parts : how many parts of a value are read by `%each`
    """

    def __init__(
        self,
        lines: Mapping[str, tuple[Pattern, ...]],
        table: Mapping[Pattern, int],
        index: tables.Index,
        known: Mapping[Reader, Mapping[str, int]],
        reach: int,
        parts: int = 1,
    ):
        self.index, self.reach, self.parts = index, reach, parts
        self.columns = sorted({reader.column for reader in known})
        self._known: dict[int, dict[Reader, Mapping[str, int]]] = {column: {} for column in self.columns}
        self._place: dict[Reader, int] = {}
        n_places = dict.fromkeys(self.columns, 0)
        for reader, numbers in known.items():
            self._known[reader.column][reader] = numbers
            self._place[reader] = n_places[reader.column]
            n_places[reader.column] += parts if reader.function == "each" else 1
        self.lines = {patterns: self._lines(patterns, table) for patterns in lines.values()}
        self.kinds = dict(lines)
        self._row_of: dict[int, dict[str, int]] = {column: {} for column in self.columns}
        self._numbers: Ints = np.empty((64, max(n_places.values(), default=0)), np.int32)
        self._n = 0

    def _lines(self, patterns: Sequence[Pattern], table: Mapping[Pattern, int]) -> tables.Lines:
        """The lines as arrays; one that reads a value in parts is one line for each part."""
        ptr, table_of_line, cells = [0], [], []
        for pattern in patterns:
            split = any(cell.reader.function == "each" for cell in pattern.cells)
            for part in range(self.parts if split else 1):
                for cell_row, from_ends, reader in pattern.cells:
                    own = part if reader.function == "each" else 0
                    column = self.columns.index(reader.column)
                    cells.append((cell_row, from_ends, column, self._place[reader] + own, own == 0))
                ptr.append(len(cells))
                table_of_line.append(table[pattern])
        fields = np.array(cells, np.int64).reshape(-1, 5).T.copy()
        rows, columns, places = fields[[0, 2, 3]]
        absolute, marks = fields[[1, 4]].astype(np.bool_)
        lines = np.array(table_of_line, np.int64), np.array(ptr, np.int64)
        return tables.Lines(*lines, rows, absolute, columns, places, marks)

    @property
    def is_full(self) -> bool:
        """Is it time to forget what was remembered, with a new lookup?"""
        return self._n > REMEMBERED

    def rows(self, column: int, values: Sequence[str]) -> list[int]:
        """Where the numbers of each of these values of a column stand."""
        row_of = self._row_of[column]
        try:
            return [row_of[value] for value in values]
        except KeyError:
            with _adding:
                self._add(column, [value for value in dict.fromkeys(values) if value not in row_of])
            return [row_of[value] for value in values]

    def _add(self, column: int, values: list[str]) -> None:
        """Remember values; other threads see them when their numbers are in place."""
        begin, end = self._n, self._n + len(values)
        if end > len(self._numbers):
            self._numbers = np.concatenate([self._numbers, np.empty((2 * end, self._numbers.shape[1]), np.int32)])
        rows = self._numbers[begin:end]
        for reader, known in self._known[column].items():
            numbers = part_numbers(seen_parts(reader, values), known, 2 * self.reach)
            place, size = self._place[reader], self.parts if reader.function == "each" else 1
            if len(numbers) > size:
                raise TooManyPartsError(len(numbers))
            rows[:, place : place + size] = -1
            rows[:, place : place + len(numbers)] = numbers.T
        self._n = end
        self._row_of[column].update(zip(values, range(begin, end), strict=True))

    def encode(self, entry: Ints, offsets: Longs) -> dict[str, Incidence]:
        """The features of tokens whose values have these rows [columns, T]."""
        made = {patterns: self._find(lines, entry, offsets) for patterns, lines in self.lines.items()}
        return {name: made[patterns] for name, patterns in self.kinds.items()}

    def _find(self, lines: tables.Lines, entry: Ints, offsets: Longs) -> Incidence:
        n_tokens = entry.shape[1]
        ptr, feature = np.zeros(n_tokens + 1, np.int64), np.empty(n_tokens * len(lines.table), np.int32)
        n = tables.find_features(entry, self._numbers, offsets, self.reach, lines, self.index, ptr, feature)
        return on_tokens(ptr, feature[:n], NO_VALUES)
