"""Templates over interned columns: strings are read once per distinct value, tokens are integers.

A template line becomes rows of value numbers, and a table numbers the distinct rows: that number is
the feature. Lines that read a subset of the cells of another line are looked up once per distinct
*key* of the larger line.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.features.codes import intern_rows, shift_codes
from labelwright.features.incidence import (
    NO_VALUES,
    Bools,
    Incidence,
    Ints,
    Longs,
    Part,
    Tensors,
    distinct_strings,
    packed_strings,
)
from labelwright.features.lookup import (
    MOST_PARTS,
    Index,
    Lookup,
    TooManyPartsError,
    check_parts,
    part_numbers,
    seen_parts,
)
from labelwright.features.template import NUMBERS, Cell, Pattern, Reader, Template
from labelwright.kernels import tables
from labelwright.modelfile import HeaderReader, TensorReader, check_indices
from labelwright.parallel import computed_once

# the lines of a template for state, pair and triple features
LINES = {"state": "U*", "edge": "B*", "triple": "T"}
SHARED_ENOUGH = 3  # a key is worth sharing when it stands for this many tokens on average
MOST_ROWS = 2  # for each key of groups that read the same window
FEW = 256  # tokens that are looked up one by one


Place = tuple[int, bool, int]  # row, absolute, column


class Table(NamedTuple):
    """The features of one shape of line: what is fixed in the text, and the readers of its
    cells."""

    literals: tuple[str, ...]
    readers: tuple[Reader, ...]


class Columns(NamedTuple):
    """The input columns of a corpus, interned, and where its sentences begin."""

    values: Sequence[list[str]]  # [columns]  distinct values
    codes: Sequence[Ints]  # [columns]  [T] index into values
    offsets: Longs  # [N+1]


class _Group(NamedTuple):
    places: tuple[Place, ...]
    keys: Ints  # [T]
    codes: Ints  # [K, places]  what each key reads
    patterns: tuple[Pattern, ...]
    shared: bool


def patterns_of(template: Template) -> dict[str, tuple[Pattern, ...]]:
    """The lines for state, pair and triple features, but those that read numbers, which have
    features of their own (features.numbers); plain transitions (`B` or `T` alone) need no line."""
    strings = [
        p for p in template.patterns if not any(cell.reader.function in NUMBERS for cell in p.cells)
    ]
    lines = {
        name: tuple(p for p in strings if p.kind in kinds and (p.cells or name == "state"))
        for name, kinds in LINES.items()
    }
    return {name: patterns for name, patterns in lines.items() if patterns or name == "state"}


def table_of(pattern: Pattern) -> Table:
    return Table(pattern.literals, tuple(cell.reader for cell in pattern.cells))


def _place(cell: Cell) -> Place:
    return (cell.row, cell.absolute, cell.reader.column)


def _n_slots(n: int) -> int:
    """The size of a hash table of n rows."""
    return max(8, 1 << (2 * n).bit_length())


class _Reading:
    """One corpus as templates read it: keys of its tokens and values at its cells."""

    def __init__(self, columns: Columns, reach: int):
        self.columns = columns
        self.reach = reach
        self.n_tokens = int(columns.offsets[-1])
        self._shifted: dict[Place, Ints] = {}
        self._groups: dict[tuple[Pattern, ...], list[_Group]] = {}

    def shifted(self, place: Place) -> Ints:
        """The codes that the cell at `place` reads, token by token."""
        if place not in self._shifted:
            row, absolute, column = place
            out = np.empty(self.n_tokens, np.int32)
            codes = self.columns.codes[column]
            n_values = len(self.columns.values[column])
            shift_codes(codes, self.columns.offsets, row, absolute, n_values, self.reach, out)
            self._shifted[place] = out
        return self._shifted[place]

    def _keys(self, places: tuple[Place, ...]) -> tuple[Ints, Ints]:
        """Key of each token [T] for what these places read, and what each key reads [K, places]."""
        if not places:
            return np.zeros(self.n_tokens, np.int32), np.empty((1, 0), np.int32)
        if len(places) == 1:
            codes = self.shifted(places[0])
            n = len(self.columns.values[places[0][2]]) + 2 * self.reach
            used = np.zeros(n, np.bool_)
            used[codes] = True
            renumber = np.cumsum(used, dtype=np.int32) - 1
            return renumber[codes].astype(np.int32), np.flatnonzero(used).astype(np.int32)[:, None]
        rows = np.stack([self.shifted(p) for p in places], axis=1)
        ids, firsts = intern_rows(rows)
        return ids, rows[firsts]

    def groups(self, patterns: tuple[Pattern, ...]) -> list[_Group]:
        """Lines grouped by what they read, the widest first; where keys are shared, with the lines
        that read a part of it."""
        if patterns in self._groups:
            return self._groups[patterns]
        reads = [tuple(sorted({_place(c) for c in p.cells})) for p in patterns]
        order = sorted(range(len(patterns)), key=lambda i: -len(reads[i]))
        # lines, in their order, by the places that they read
        waiting: dict[tuple[Place, ...], list[int]] = {}
        for turn, i in enumerate(order):
            waiting.setdefault(reads[i], []).append(turn)
        # what is part of a set begins with one of it
        by_first: dict[tuple[Place, ...], list[tuple[Place, ...]]] = {}
        for places in waiting:
            by_first.setdefault(places[:1], []).append(places)
        groups = self._groups[patterns] = list[_Group]()
        for places in list(waiting):
            if places in waiting:
                keys, codes = self._keys(places)
                shared = len(codes) * SHARED_ENOUGH <= self.n_tokens
                parts = [places]
                if shared:
                    near = [
                        part
                        for first in ((), *((p,) for p in places))
                        for part in by_first.get(first, ())
                    ]
                    parts = [part for part in near if set(places).issuperset(part)]
                turns = sorted(turn for part in parts for turn in waiting.pop(part, ()))
                groups.append(
                    _Group(
                        places, keys, codes, tuple(patterns[order[turn]] for turn in turns), shared
                    )
                )
        return groups


def check_column(header: HeaderReader, column: int, n_columns: int) -> None:
    """Refuse a model file whose template reads a column that its header does not name."""
    if column >= n_columns:
        raise ModelFileError(
            f"{header.place}: template: reads column {column}, but the model has {n_columns} (from "
            "0)"
        )


class Vocabulary(Part):
    """The result of training on templates: the values of each reader, and a table of features for
    each shape of line."""

    def __init__(self, template: Template, values: Any, rows: Any):  # dicts, or pairs
        self.template = template
        # strings of each reader, in order of their numbers
        self.values: dict[Reader, list[str]] = dict(values)
        self.rows: dict[Table, Ints] = dict(rows)  # [F_table, cells] value numbers of each feature
        self.reach = max([abs(c.row) + 1 for p in template.patterns for c in p.cells], default=1)
        self.first: dict[Table, int] = {}
        n = 0
        for table, features in self.rows.items():
            self.first[table] = n
            n += len(features)
        self.n_features, self.cell_kinds = n, tuple(patterns_of(template))
        self._lookup: Lookup | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """What a pickle holds: all but what is quickly made again, as pairs, since skops has no
        tuples as keys."""
        return Vocabulary, (self.template, list(self.values.items()), list(self.rows.items()))

    @computed_once
    def _known(self) -> dict[Reader, dict[str, int]]:
        """The number of each string that a reader may see."""
        return {
            reader: {s: i for i, s in enumerate(strings)} for reader, strings in self.values.items()
        }

    @computed_once
    def _tables(self) -> dict[Table, int]:
        return {table: i for i, table in enumerate(self.rows)}

    @computed_once
    def _index(self) -> Index:
        """The features of all tables, to be found by their cells."""
        parts = list(self.rows.values())
        sizes, width = np.array([(len(p), p.shape[1]) for p in parts], np.int64).reshape(-1, 2).T
        slots = [_n_slots(n) for n in sizes.tolist()]
        cells = np.concatenate([np.empty(0, np.int32), *(p.reshape(-1) for p in parts)])
        first, slot_ptr = offsets_from(sizes), offsets_from(np.array(slots, np.int64))
        index = Index(
            cells,
            offsets_from(sizes * width),
            width.copy(),
            first,
            np.full(int(slot_ptr[-1]), -1, np.int32),
            slot_ptr,
            tables.BASE,
        )
        tables.index_tables(tables.IndexView(index))
        stored = zip(self.rows, parts, index.cell_ptr.tolist(), strict=False)
        # once in memory
        self.rows = {table: cells[a : a + p.size].reshape(p.shape) for table, p, a in stored}
        return index

    @classmethod
    def learn(
        cls, template: Template, columns: Columns, min_count: int = 1, may_be_empty: bool = False
    ) -> tuple["Vocabulary", dict[str, Incidence]]:
        """The vocabulary of a training corpus (features seen `min_count` times), and the corpus
        encoded with it."""
        empty = cls(template, {}, {})
        reading = _Reading(columns, empty.reach)
        lines = patterns_of(template)
        values: dict[Reader, list[str]] = {}
        numbers: dict[Reader, Ints] = {}
        for reader in dict.fromkeys(c.reader for ps in lines.values() for p in ps for c in p.cells):
            parts = seen_parts(reader, columns.values[reader.column])
            values[reader] = list(
                dict.fromkeys(s for strings in parts for s in strings if s is not None)
            )
            numbers[reader] = empty._numbered(parts, {s: i for i, s in enumerate(values[reader])})

        # Every line's rows, looked up once per key; lines of one shape share a table.
        asked: dict[Table, list[tuple[_Group, Ints]]] = {}
        group_of = {p: g for ps in lines.values() for g in reading.groups(ps) for p in g.patterns}
        _check_lines(group_of, numbers)
        for pattern, group in group_of.items():
            for part in _read(pattern, group, numbers):
                asked.setdefault(table_of(pattern), []).append((group, part))
        rows: dict[Table, Ints] = {}
        for table, uses in asked.items():
            stacked = np.concatenate([r for _, r in uses])
            complete = (stacked >= 0).all(axis=1)  # a value has fewer parts than another
            stacked = stacked if complete.all() else stacked[complete]
            ids, firsts = intern_rows(stacked)
            if min_count > 1:
                weight = np.concatenate(
                    [np.bincount(g.keys, minlength=len(g.codes)) for g, _ in uses]
                )[complete]
                seen = np.bincount(ids, weights=weight, minlength=len(firsts))
                firsts = firsts[seen >= min_count]
            rows[table] = stacked[firsts]
        vocabulary = cls(template, values, rows)
        if vocabulary.n_features == 0 and not may_be_empty:
            raise CorpusError(
                f"no feature occurs {min_count} times in the training data; lower min_count"
            )
        return vocabulary, vocabulary._encode(reading, numbers)

    @classmethod
    def of(
        cls, template: Template, features: Mapping[Table, Sequence[tuple[str | int, ...]]]
    ) -> "Vocabulary":
        """The vocabulary of features that another program learnt, given by what their cells read: a
        string, or a place outside the sentence (-1 is one token before the first, 1 is one behind
        the last)."""
        reach = cls(template, {}, {}).reach

        def number(read: str | int, known: dict[str, int]) -> int:
            """The number of a string, entered among those that are known, or of a place outside the
            sentence."""
            if isinstance(read, str):
                return 2 * reach + known.setdefault(read, len(known))
            return -read - 1 if read < 0 else reach + read - 1

        tables_of_lines = dict.fromkeys(
            table_of(p) for ps in patterns_of(template).values() for p in ps
        )
        index: dict[Reader, dict[str, int]] = {
            reader: {} for table in tables_of_lines for reader in table.readers
        }
        rows = {}
        for table in tables_of_lines:
            given = features.get(table, ())
            rows[table] = np.empty((len(given), len(table.readers)), np.int32)
            for i, reader in enumerate(table.readers):
                rows[table][:, i] = [number(read[i], index[reader]) for read in given]
        return cls(template, {reader: list(strings) for reader, strings in index.items()}, rows)

    def merged(self, other: "Vocabulary") -> "Vocabulary":
        """The values and features of this vocabulary, then, table by table, the further ones of the
        other."""
        if self.template.text != other.template.text:
            raise OptionError(
                f"template: differs from that of the model ({self.template.name}); use the same "
                "lines, or fit again"
            )
        values, translation = {}, {}
        for reader, known in self.values.items():
            index = {s: i for i, s in enumerate(known)}
            numbers = np.array(
                [index.setdefault(s, len(index)) for s in other.values[reader]], np.int32
            )
            marks = np.arange(2 * self.reach, dtype=np.int32)
            values[reader] = list(index)
            translation[reader] = np.concatenate([marks, numbers + np.int32(2 * self.reach)])
        rows = {}
        for table, known_rows in self.rows.items():
            cells = [
                translation[reader][other.rows[table][:, i]]
                for i, reader in enumerate(table.readers)
            ]
            asked = np.stack(cells, axis=1) if cells else other.rows[table]
            rows[table] = np.concatenate([known_rows, asked[self.find(table, asked) < 0]])
        return Vocabulary(self.template, values, rows)

    def numbers_in(self, merged: "Vocabulary") -> Longs:
        parts = [
            merged.first[table] + np.arange(len(rows), dtype=np.int64)
            for table, rows in self.rows.items()
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def reduced(self, used: Bools) -> "tuple[Vocabulary, Bools]":
        """The vocabulary of the features [F] that are used, with the values that these read; and
        these features."""
        marks = 2 * self.reach
        rows = {t: r[used[self.first[t] : self.first[t] + len(r)]] for t, r in self.rows.items()}
        values, number = {}, {}
        for reader, strings in self.values.items():
            read = np.zeros(marks + len(strings), np.bool_)
            for table, features in rows.items():
                for i, other in enumerate(table.readers):
                    if other == reader:
                        read[features[:, i]] = True
            read[:marks] = True  # places outside the sentence keep their numbers
            number[reader] = np.cumsum(read, dtype=np.int32) - np.int32(1)
            values[reader] = [
                string for string, keep in zip(strings, read[marks:].tolist(), strict=True) if keep
            ]
        for table, features in rows.items():
            for i, reader in enumerate(table.readers):
                features[:, i] = number[reader][features[:, i]]
        return Vocabulary(self.template, values, rows), used

    def encode(self, columns: Columns) -> dict[str, Incidence]:
        """The features of every token on states, pairs and triples; unknown ones are left out."""
        if columns.offsets[-1] <= FEW:
            coded = zip(columns.values, columns.codes, strict=True)
            values = [[strings[code] for code in codes.tolist()] for strings, codes in coded]
            made = self.encode_few(values, columns.offsets)
            if made is not None:
                return made
        numbers = {
            reader: self._numbered(seen_parts(reader, columns.values[reader.column]), known)
            for reader, known in self._known.items()
        }
        return self._encode(_Reading(columns, self.reach), numbers)

    def encode_few(
        self, values: Sequence[Sequence[str]], offsets: Longs
    ) -> dict[str, Incidence] | None:
        """The features of a few tokens, given by their values [columns][T]; None where these have
        too many parts."""
        lookup = self._lookup
        if lookup is None or lookup.is_full:
            lookup = self._lookup = self._new_lookup()
        try:
            return lookup.encode(values, offsets)
        except TooManyPartsError as many:
            if many.n > MOST_PARTS:
                return None
            self._lookup = self._new_lookup(many.n)
            return self.encode_few(values, offsets)

    def _new_lookup(self, parts: int = 1) -> Lookup:
        lines = patterns_of(self.template)
        table = {p: self._tables[table_of(p)] for patterns in lines.values() for p in patterns}
        return Lookup(lines, table, self._index, self._known, self.reach, parts)

    def known(self, reader: Reader) -> Mapping[str, int]:
        """The number of each string that a reader may see, without those of boundary marks."""
        return self._known[reader]

    def read(self, cell: Cell, columns: Columns) -> Ints:
        """The value numbers [T] that a cell reads, -1 where unknown."""
        parts = seen_parts(cell.reader, columns.values[cell.reader.column])
        numbers = self._numbered(parts, self._known[cell.reader])
        values: Ints = numbers[0, _Reading(columns, self.reach).shifted(_place(cell))]
        return values

    def _numbered(self, parts: list[list[str | None]], known: Mapping[str, int]) -> Ints:
        """Value numbers [parts, values + marks]: boundary marks count first, then the strings; -1:
        unknown, or none."""
        check_parts(len(parts), len(parts[0]) + 2 * self.reach)
        marks = np.full((len(parts), 2 * self.reach), -1, np.int32)
        marks[0] = np.arange(2 * self.reach)
        return np.concatenate([part_numbers(parts, known, 2 * self.reach), marks], axis=1)

    def find(self, table: Table, rows: Ints) -> Ints:
        """Feature numbers [K] of rows of value numbers, -1 where unknown."""
        ids = np.empty(len(rows), np.int32)
        tables.find_rows(tables.IndexView(self._index), self._tables[table], rows, ids)
        return np.where(ids < 0, -1, ids + self.first[table]).astype(np.int32)

    def _encode(self, reading: _Reading, numbers: dict[Reader, Ints]) -> dict[str, Incidence]:
        lines = patterns_of(self.template)
        made = {
            patterns: self._incidence(reading, patterns, numbers)
            for patterns in dict.fromkeys(lines.values())
        }
        return {name: made[patterns] for name, patterns in lines.items()}

    def _incidence(
        self, reading: _Reading, patterns: tuple[Pattern, ...], numbers: dict[Reader, Ints]
    ) -> Incidence:
        groups = reading.groups(patterns)
        _check_lines({p: g for g in groups for p in g.patterns}, numbers)
        features = {}
        for group in groups:
            parts = [
                (table_of(p), part) for p in group.patterns for part in _read(p, group, numbers)
            ]
            features[group.places] = np.stack(
                [self.find(table, part) for table, part in parts], axis=1
            )
        on_tokens = [features[g.places][g.keys] for g in groups if not g.shared]
        token_ptr, token_feature = _sparse(
            np.concatenate([np.empty((reading.n_tokens, 0), np.int32), *on_tokens], axis=1)
        )
        shared = [g for g in groups if g.shared]
        numbered, n_keys = _number_keys(shared)
        rows = [
            (key, *_sparse(features[group.places]))
            for group, key in zip(shared, numbered, strict=True)
        ]
        lengths = np.zeros(n_keys, np.int64)
        for key, ptr, _ in rows:
            lengths[key] = np.diff(ptr)
        key_ptr = offsets_from(lengths)
        key_feature = np.empty(key_ptr[-1], np.int32)
        for key, ptr, feature in rows:
            key_feature[runs_of(key_ptr[key], np.diff(ptr))[1]] = feature
        keys = np.empty((reading.n_tokens, len(shared)), np.int32)
        for g, (group, key) in enumerate(zip(shared, numbered, strict=True)):
            keys[:, g] = key[group.keys]
        return Incidence(keys, key_ptr, key_feature, token_ptr, token_feature, NO_VALUES)

    def name(self, feature: int) -> str:
        """The feature as its template line would print it (for display; never on a hot path)."""
        table, texts = self.parts(feature)
        return table.literals[0] + "".join(
            f"{a}{b}" for a, b in zip(texts, table.literals[1:], strict=True)
        )

    def parts(self, feature: int) -> tuple[Table, list[str]]:
        """The table of a feature and the text that each of its cells has read."""
        firsts, names = self._firsts
        table = names[bisect_right(firsts, feature) - 1]
        texts = []
        for reader, number in zip(
            table.readers, self.rows[table][feature - self.first[table]].tolist(), strict=True
        ):
            if number >= 2 * self.reach:
                texts.append(self.values[reader][number - 2 * self.reach])
            else:
                texts.append(
                    f"_B-{number + 1}" if number < self.reach else f"_B+{number - self.reach + 1}"
                )
        return table, texts

    @computed_once
    def _firsts(self) -> tuple[list[int], list[Table]]:
        """The number of the first feature of each table, and the tables."""
        return list(self.first.values()), list(self.first)

    def tensors(self) -> Tensors:
        """reader{i}: the strings of each reader; table{i} [F_table, cells]: the features of each
        table."""
        stored: Tensors = {}
        for i, strings in enumerate(self.values.values()):
            stored |= packed_strings(f"reader{i}", strings)
        return stored | {f"table{i}": rows for i, rows in enumerate(self.rows.values())}

    def header(self) -> dict[str, Any]:
        """What the readers and the tables are, in the order of their tensors."""
        return {
            "readers": [list(reader) for reader in self.values],
            "tables": [_as_json(t) for t in self.rows],
        }

    @classmethod
    def restore(
        cls, template: Template, tensors: TensorReader, header: HeaderReader, n_columns: int
    ) -> "Vocabulary":
        """The vocabulary that `tensors` and `header` describe: just the readers and tables that its
        template needs."""
        patterns = [p for ps in patterns_of(template).values() for p in ps]
        readers = {repr(list(c.reader)): c.reader for p in patterns for c in p.cells}
        shapes = {repr(_as_json(table_of(p))): table_of(p) for p in patterns}
        for reader in readers.values():
            check_column(header, reader.column, n_columns)
        values: dict[Reader, list[str]] = {}
        for i, key in enumerate(_same_keys(header, "readers", readers)):
            values[readers[key]] = distinct_strings(tensors, f"reader{i}")
        marks, rows = 2 * cls(template, {}, {}).reach, {}
        for i, key in enumerate(_same_keys(header, "tables", shapes)):
            table, name = shapes[key], f"table{i}"
            rows[table] = tensors.array(name, np.int32, None, len(table.readers))
            if not table.readers and len(rows[table]) > 1:
                raise ModelFileError(
                    f"tensor {tensors.prefix}{name}: a line without cells has one feature at most"
                )
            for k, reader in enumerate(table.readers):
                check_indices(tensors.prefix + name, rows[table][:, k], marks + len(values[reader]))
        return cls(template, values, rows)


def _as_json(table: Table) -> list[Any]:
    return [list(table.literals), [list(reader) for reader in table.readers]]


def _same_keys(header: HeaderReader, name: str, wanted: dict[str, Any]) -> list[str]:
    """The keys in the order of the header, which must name each of those that are wanted once."""
    keys = [repr(entry) for entry in header.listed(name)]
    if sorted(keys) != sorted(wanted):
        raise ModelFileError(f"{header.place}: {name}: not those of the template")
    return keys


def _check_lines(group_of: Mapping[Pattern, _Group], numbers: dict[Reader, Ints]) -> None:
    """Refuse lines that read values of very many parts, before they do."""
    n_parts = {p: max((len(numbers[c.reader]) for c in p.cells), default=1) for p in group_of}
    n_numbers = sum(len(g.codes) * len(p.cells) for p, g in group_of.items() if n_parts[p] > 1)
    check_parts(max(n_parts.values(), default=1), n_numbers)


def _read(pattern: Pattern, group: _Group, numbers: dict[Reader, Ints]) -> list[Ints]:
    """Value numbers [K, cells] that a line reads at each key of its group; several where a value
    has several parts."""
    if not pattern.cells:
        return [np.empty((len(group.codes), 0), np.int32)]
    where = [group.places.index(_place(c)) for c in pattern.cells]
    read = [
        numbers[c.reader][:, group.codes[:, i]] for c, i in zip(pattern.cells, where, strict=True)
    ]
    return [
        np.stack([r[min(part, len(r) - 1)] for r in read], axis=1)
        for part in range(max(map(len, read)))
    ]


def _sparse(features: Ints) -> tuple[Longs, Ints]:
    """Rows of feature numbers with -1 for none -> sparse rows."""
    known = features >= 0
    return offsets_from(known.sum(axis=1)), features[known]


def _number_keys(groups: Sequence[_Group]) -> tuple[list[Ints], int]:
    """A row number for each key of each group, and the number of rows, of which few are unused.

    Groups that read the same window at different shifts (the word before, the word itself, ...)
    interleave their rows: what one word contributes to its neighbours is contiguous, and
    neighbouring tokens find it in the cache."""
    windows: dict[tuple[Place, ...], list[int]] = {}
    for i, group in enumerate(groups):
        shift = min((row for row, absolute, _ in group.places if not absolute), default=0)
        window = tuple(
            (row if absolute else row - shift, absolute, column)
            for row, absolute, column in group.places
        )
        windows.setdefault(window, []).append(i)
    numbered: list[Ints] = [np.empty(0, np.int32)] * len(groups)
    n_rows = 0
    for members in windows.values():
        codes = [groups[i].codes for i in members]
        # keys that read the same stand together
        ids, firsts = intern_rows(np.concatenate(codes))
        sizes = [len(part) for part in codes]
        numbers = ids.astype(np.int64) * len(codes) + np.repeat(np.arange(len(codes)), sizes)
        n = len(firsts) * len(codes)
        if n > MOST_ROWS * len(numbers):
            n = len(numbers)
            numbers[np.argsort(numbers)] = np.arange(n)
        for i, own in zip(members, np.split(n_rows + numbers, np.cumsum(sizes)[:-1]), strict=True):
            numbered[i] = own.astype(np.int32)
        n_rows += n
    return numbered, n_rows
