"""What template lines of an upper layer read of the labels of lower layers: one feature for every candidate label, or
for every combination of candidates, and the slot that has its probability.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from labelwright.errors import TemplateError
from labelwright.features.incidence import Ints, Longs
from labelwright.features.template import BELOW, Cell, Pattern, Template
from labelwright.features.vocabulary import Columns, Vocabulary
from labelwright.kernels import layered as kernels
from labelwright.structures.passing import Passed
from labelwright.wording import did_you_mean


def reads_labels(cell: Cell) -> bool:
    """Does a cell read the label of a lower layer?"""
    return cell.reader.column == BELOW


def layers_read(template: Template, lower: Sequence[str], others: Sequence[str] = ()) -> tuple[str, ...]:
    """The lower layers, of these names, whose labels a template reads, the lowest first; `others` are this layer and
    higher ones."""
    names = set()
    for pattern in template.patterns:
        for cell in filter(reads_labels, pattern.cells):
            name = layer_of(cell, lower)
            if name not in lower:
                place = f"{template.name}:{pattern.line}: {pattern.text} reads the labels of {name!r}"
                known = ", ".join(lower)
                if name in others:
                    raise TemplateError(f"{place}, which is not below this layer; expected one of {known}")
                raise TemplateError(f"{place}, expected a lower layer, one of {known}{did_you_mean(name, lower)}")
            names.add(name)
    return tuple(name for name in lower if name in names)


def layer_of(cell: Cell, lower: Sequence[str]) -> str:
    """The layer whose label a cell reads: the one that it names, or the one directly below."""
    return lower[-1] if cell.reader.argument is None else str(cell.reader.argument)


def label_cells(pattern: Pattern, name: str) -> tuple[int, bool]:
    """The first row whose label a line reads, and whether it reads the next one too."""
    cells = list(filter(reads_labels, pattern.cells))
    rows = [cell.row for cell in cells]
    if len(rows) == 1 or (len(rows) == 2 and rows[1] == rows[0] + 1 and cells[0].reader == cells[1].reader):
        return rows[0], len(rows) == 2
    raise TemplateError(
        f"{name}:{pattern.line}: {pattern.text} reads the labels below at rows {', '.join(map(str, rows))}; expected "
        f"one label, or two neighbours in order, as in %y[-1]/%y[0]"
    )


class Alternatives(NamedTuple):
    """What one line reads: the candidates of every token, or combinations of candidates."""

    sizes: Longs  # [T]
    rows: Ints  # [n, cells]  value numbers
    place: Longs  # [n]  where the probability stands in what all layers pass; -1: it is 1


class LabelReading:
    """What the lower layers pass of some sentences, as the lines of a vocabulary read it."""

    def __init__(self, passed: Mapping[str, Passed], vocabulary: Vocabulary, columns: Columns):
        self.vocabulary, self.columns, self.lower = vocabulary, columns, tuple(passed)
        self.layers = layers_read(vocabulary.template, self.lower)
        self.passed = {name: passed[name] for name in self.layers}
        self.first, self.n_slots = dict[str, int](), 0  # where the slots of each layer begin
        for name, each in self.passed.items():
            self.first[name] = self.n_slots
            self.n_slots += each.candidates.n_slots
        self._numbers: dict[Cell, Ints] = {}

    def alternatives(self, pattern: Pattern) -> Alternatives:
        """What a line reads at every token, for every candidate."""
        row, pair = label_cells(pattern, self.vocabulary.template.name)
        label = next(filter(reads_labels, pattern.cells))
        name = layer_of(label, self.lower)
        slots, reach = self.passed[name].candidates, self.vocabulary.reach
        if pair and not slots.has_pairs:
            raise TemplateError(
                f"{self.vocabulary.template.name}:{pattern.line}: {pattern.text} reads two labels, but the layer below "
                f"passes only single ones (a SemiCRF has no pairs); use lines with one %y"
            )
        sizes = np.empty(int(slots.offsets[-1]), np.int64)
        kernels.count_alternatives(slots.offsets, slots.ptr, row, pair, reach, sizes)
        n = int(sizes.sum())
        first, second = np.empty((2, n), np.int32)
        slot, number = np.empty(n, np.int64), self._label_numbers(label)
        kernels.alternatives(slots.offsets, slots.ptr, slots.pair_ptr, number, row, pair, reach, first, second, slot)
        labels = iter((first, second))
        cells = [
            next(labels) if reads_labels(cell) else np.repeat(self.vocabulary.read(cell, self.columns), sizes)
            for cell in pattern.cells
        ]
        place = np.where(slot < 0, -1, slot + self.first[name])
        return Alternatives(sizes, np.stack(cells, axis=1).astype(np.int32), place)

    def _label_numbers(self, cell: Cell) -> Ints:
        """The value number of the label in each slot, -1 where it is unknown."""
        key = cell._replace(row=0)
        if key not in self._numbers:
            passed = self.passed[layer_of(cell, self.lower)]
            known, first = self.vocabulary.known(cell.reader), 2 * self.vocabulary.reach
            numbers: Ints = np.array([known.get(label, -1 - first) + first for label in passed.labels], np.int32)
            self._numbers[key] = numbers[passed.candidates.label]
        return self._numbers[key]
