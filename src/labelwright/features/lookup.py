"""The features of a few tokens: what the readers see of a value is remembered, and one kernel finds
all features.

For long input it is faster to look each key up once (features.vocabulary); a few tokens share too
little for that.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from labelwright.errors import CorpusError
from labelwright.features.incidence import NO_VALUES, Incidence, Ints, Longs, on_tokens
from labelwright.features.template import Cell, Pattern, Reader, apply
from labelwright.kernels import tables
from labelwright.parallel import renewed_lock

REMEMBERED = 1 << 14  # values, of all columns together,
MOST_NUMBERS = 1 << 22  # and what readers see of them
NEAR = 16  # rows up to which the features of boundary marks are remembered
MOST_PARTS = 64  # of a value that is read in parts
MOST_READ = 1 << 27  # numbers that are read of values with several parts

_adding = renewed_lock()


def seen_parts(reader: Reader, values: list[str]) -> list[list[str | None]]:
    """What a reader sees of each value: one string, or one for each part of it; None where there
    are fewer."""
    strings = apply(reader, values)
    if reader.function != "each":
        return [list(strings)]
    split = [[part for part in string.split("|") if part] for string in strings]
    n_parts = max(map(len, split), default=1)
    check_parts(n_parts, 2 * len(split))  # a string has twice the size of a number
    return [[p[i] if i < len(p) else None for p in split] for i in range(max(1, n_parts))]


def check_parts(n_parts: int, n_numbers: int) -> None:
    """Refuse values that have so many parts that as many numbers for each part would take
    gigabytes."""
    if n_parts > 1 and n_parts * n_numbers > MOST_READ:
        raise CorpusError(
            f"%each: a value has {n_parts:,} parts a|b|c, which for all values of the data makes "
            f"{n_parts * n_numbers:,} numbers, more than {MOST_READ:,}; give it fewer parts, or "
            "leave %each out"
        )


def part_numbers(parts: list[list[str | None]], known: Mapping[str, int], first: int) -> Ints:
    """The numbers [parts, values] of what is seen, counted from `first`; -1: unknown, or none."""
    missing = -1 - first
    rows = [[known.get(s, missing) for s in strings] for strings in parts]  # type: ignore[arg-type]  # None is unknown
    return np.array(rows, np.int32).reshape(len(parts), -1) + np.int32(first)


class Index(NamedTuple):
    """Tables of rows, one behind the other, and the slots in which each row is found by its
    hash."""

    cells: np.ndarray  # rows of all tables: row f of table i begins at cell_ptr[i] + f * width[i]
    cell_ptr: np.ndarray  # [tables+1]
    width: np.ndarray  # [tables]
    first: np.ndarray  # [tables+1]  number of the first row of each table
    slots: np.ndarray  # number of a row within its table, or -1
    slot_ptr: np.ndarray  # [tables+1]  each table has a power of two of slots
    base: int  # of the hashes


class Lines(NamedTuple):
    """Lines of a template: what their cells read, and the table of each line.

    First come the cells of lines with one cell, whose features are remembered with the value, then
    those of others."""

    table: np.ndarray  # [lines]  of lines with several cells, or none
    ptr: np.ndarray  # [lines+1]  their cells
    alone: np.ndarray  # [alone]  the tables of lines with one cell,
    # [marks+1, alone]  and their features at boundary marks, then none; [0, alone]: look them up
    outside: np.ndarray
    # [cells]  tokens from this one, or as Python counts in the sentence where `absolute`
    row: np.ndarray
    absolute: np.ndarray  # [cells]
    column: np.ndarray  # [cells]
    # [cells]  of the number, or of the line's feature, in what is remembered of a value
    place: np.ndarray
    marked: np.ndarray  # [cells]  does it read boundary marks?  Further parts of a value have none


class TooManyPartsError(Exception):
    """A value has more parts than the lookup has places for."""

    def __init__(self, n: int):
        super().__init__(n)
        self.n = n


class _Cell(NamedTuple):
    row: int
    absolute: bool
    column: int  # among those that are read
    place: int  # in what is remembered of a value
    marked: bool  # reads boundary marks, too


class _Kind(NamedTuple):
    """The lines for features of one kind, as kernels read them."""

    lines: tables.LinesView
    n_lines: int

    @classmethod
    def of(cls, lines: Lines) -> "_Kind":
        return cls(tables.LinesView(lines), len(lines.alone) + len(lines.table))


class _Column:
    """One column: what its readers see, and the lines with one cell on it.

    Of a value is remembered, in a row: the number that each reader sees, then the feature of each
    of these lines."""

    def __init__(self, number: int, readers: Mapping[Reader, Mapping[str, int]], parts: int):
        self.number, self.known = number, readers
        self.begin_of: dict[str, int] = {}  # where that begins which is remembered of each value
        self.size = {reader: parts if reader.function == "each" else 1 for reader in readers}
        ends = itertools.accumulate(self.size.values(), initial=0)
        self.place = dict(zip(readers, ends, strict=False))
        self.n_places = sum(self.size.values())
        # table and place of what it reads -> place, of lines with one cell
        self.alone: dict[tuple[int, int], int] = {}

    @property
    def width(self) -> int:
        """How many numbers are remembered of a value."""
        return self.n_places + len(self.alone)

    def fill(self, values: list[str], first: int, numbers: Ints) -> None:
        """Fill the rows of numbers of these values, which count from `first`."""
        numbers[:] = -1
        for reader, known in self.known.items():
            seen = part_numbers(seen_parts(reader, values), known, first)
            if len(seen) > self.size[reader]:
                raise TooManyPartsError(len(seen))
            numbers[:, self.place[reader] : self.place[reader] + len(seen)] = seen.T


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
        index: Index,
        known: Mapping[Reader, Mapping[str, int]],
        reach: int,
        parts: int = 1,
    ):
        self.index, self.reach, self.parts = tables.IndexView(index), reach, parts
        readers: dict[int, dict[Reader, Mapping[str, int]]] = {}
        for reader, numbers in known.items():
            readers.setdefault(reader.column, {})[reader] = numbers
        self.columns = [_Column(number, readers[number], parts) for number in sorted(readers)]
        self._column_of = {column.number: i for i, column in enumerate(self.columns)}
        made = {patterns: _Kind.of(self._lines(patterns, table)) for patterns in lines.values()}
        self.kinds = {name: made[patterns] for name, patterns in lines.items()}
        self._remembered = np.empty(0, np.int32)
        self._n = self._n_values = 0

    def _lines(self, patterns: Sequence[Pattern], table: Mapping[Pattern, int]) -> Lines:
        """The lines as arrays; one that reads a value in parts is one line for each part."""
        alone: list[_Cell] = []
        others: list[_Cell] = []
        number_alone, number, ends = [], [], [0]
        for pattern in patterns:
            split = any(cell.reader.function == "each" for cell in pattern.cells)
            for part in range(self.parts if split else 1):
                cells = [self._cell(cell, part) for cell in pattern.cells]
                if len(cells) == 1:  # it has the place of the line's feature
                    column = self.columns[cells[0].column]
                    of_line = column.alone.setdefault(
                        (table[pattern], cells[0].place), column.width
                    )
                    alone.append(cells[0]._replace(place=of_line))
                    number_alone.append(table[pattern])
                else:
                    others += cells
                    number.append(table[pattern])
                    ends.append(len(others))
        row, absolute, columns, place, marked = (
            np.array([*alone, *others], np.int64).reshape(-1, 5).T.copy()
        )
        ptr = len(alone) + np.array(ends, np.int64)
        several, single = np.array(number, np.int64), np.array(number_alone, np.int64)
        outside = self._outside(single)
        return Lines(several, ptr, single, outside, row, absolute > 0, columns, place, marked > 0)

    def _outside(self, table: Longs) -> Ints:
        """The features of lines with one cell at boundary marks [marks + 1, lines], the last row of
        none; no rows where lines reach far, and have too many marks for that."""
        n_marks = 2 * self.reach if self.reach <= NEAR else -1
        rows = np.full((n_marks + 1, 1 + len(table)), -1, np.int32)
        rows[:-1, 0] = np.arange(max(0, n_marks))
        tables.remember_features(self.index, table, np.zeros(len(table), np.int64), rows)
        return rows[:, 1:].copy()

    def _cell(self, cell: Cell, part: int) -> "_Cell":
        i = self._column_of[cell.reader.column]
        part = part if cell.reader.function == "each" else 0
        return _Cell(
            cell.row, cell.absolute, i, self.columns[i].place[cell.reader] + part, part == 0
        )

    @property
    def is_full(self) -> bool:
        """Is it time to forget what was remembered, with a new lookup?"""
        return self._n_values > REMEMBERED or self._n > MOST_NUMBERS

    def begins(self, column: _Column, values: Sequence[str]) -> list[int]:
        """Where that begins which is remembered of each of these values of a column."""
        begin_of = column.begin_of
        try:
            return [begin_of[value] for value in values]
        except KeyError:
            with _adding:
                self._add(
                    column, [value for value in dict.fromkeys(values) if value not in begin_of]
                )
            return [begin_of[value] for value in values]

    def _add(self, column: _Column, values: list[str]) -> None:
        """Remember values; other threads see them when all is in place."""
        begin, end = self._n, self._n + len(values) * column.width
        if end > len(self._remembered):
            self._remembered = np.concatenate([self._remembered, np.empty(end, np.int32)])
        self._n = end
        rows = self._remembered[begin:end].reshape(len(values), column.width)
        column.fill(values, 2 * self.reach, rows[:, : column.n_places])
        table, place = np.array(list(column.alone), np.int64).reshape(-1, 2).T.copy()
        tables.remember_features(self.index, table, place, rows)
        column.begin_of.update(zip(values, range(begin, end, column.width), strict=True))
        self._n_values += len(values)

    def encode(self, columns: Sequence[Sequence[str]], offsets: Longs) -> dict[str, Incidence]:
        """The features of tokens, given by the values of all columns [columns][T]."""
        entry = np.array(
            [self.begins(column, columns[column.number]) for column in self.columns], np.int32
        )
        entry = entry.reshape(len(self.columns), int(offsets[-1]))
        return {name: self._find(kind, entry, offsets) for name, kind in self.kinds.items()}

    def _find(self, kind: "_Kind", entry: Ints, offsets: Longs) -> Incidence:
        n_tokens = entry.shape[1]
        ptr = np.zeros(n_tokens + 1, np.int64)
        feature = np.empty(n_tokens * kind.n_lines, np.int32)
        n = tables.find_features(
            entry, self._remembered, offsets, self.reach, kind.lines, self.index, ptr, feature
        )
        return on_tokens(ptr, feature[:n], NO_VALUES)
