"""What template lines of an upper layer read of the labels of lower layers: one feature for every candidate label, or
for every combination of candidates.

The probability of a combination is a product of *factors*: two neighbours of one layer have the exact probability of
the pair, all other labels are taken for independent.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import TemplateError
from labelwright.features.incidence import Ints, Longs
from labelwright.features.template import BELOW, Cell, Pattern, Reader, Template
from labelwright.features.vocabulary import Columns, Vocabulary
from labelwright.kernels import layered as kernels
from labelwright.structures.passing import NO_PRODUCTS, Passed, Products
from labelwright.wording import did_you_mean

Array = NDArray[Any]
MOST_LABELS = 3  # that a line reads


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


def check_labels(pattern: Pattern, name: str, lower: Sequence[str] = ("",)) -> None:
    """Refuse a line that reads too many labels, one of them twice, or some as probabilities and others as logs."""
    cells = [cell for cell in pattern.cells if reads_labels(cell)]
    place = f"{name}:{pattern.line}: {pattern.text} reads"
    if len(cells) > MOST_LABELS:
        raise TemplateError(f"{place} {len(cells)} labels; expected at most {MOST_LABELS} of them in a line")
    if len({cell.reader.function for cell in cells}) > 1:
        raise TemplateError(f"{place} some labels by %y, others by %log_y; write %log_y for all of them, or two lines")
    if len({(layer_of(cell, lower), cell.row) for cell in cells}) < len(cells):
        raise TemplateError(f"{place} the same label twice; leave one of them out")


class Factor(NamedTuple):
    """A factor of the probability of the labels that a line reads: of one label, or of two neighbours of a layer."""

    layer: str
    row: int
    cells: tuple[int, ...]  # numbers of the cells that read it, one or two


def factors_of(pattern: Pattern, passed: Mapping[str, Passed]) -> list[Factor]:
    """Two neighbours have the probability of the pair, where their layer passes pairs; labels are independent else."""
    lower = tuple(passed)
    labels = [(lower.index(layer_of(c, lower)), c.row, i) for i, c in enumerate(pattern.cells) if reads_labels(c)]
    factors = list[Factor]()
    for number, row, i in sorted(labels):
        name, before = lower[number], factors[-1] if factors else Factor("", 0, (0,))
        follows = before.layer == name and before.row == row - 1 and len(before.cells) == 1
        if follows and passed[name].candidates.has_pairs:
            factors[-1] = Factor(name, before.row, (*before.cells, i))
        else:
            factors.append(Factor(name, row, (i,)))
    return factors


class Alternatives(NamedTuple):
    """What a line, or a factor of it, reads: the candidates of every token, or combinations of candidates."""

    sizes: Longs  # [T]
    labels: dict[int, Ints]  # number of a cell -> value numbers [n]
    slots: Longs  # [n, factors]  where probabilities stand in what all layers pass; -1: it is 1


class LabelReading:
    """What the lower layers pass of some sentences, as the lines of a vocabulary read it."""

    def __init__(self, passed: Mapping[str, Passed], vocabulary: Vocabulary, columns: Columns):
        self.vocabulary, self.columns, self.all_passed = vocabulary, columns, passed
        template = vocabulary.template
        self.layers = layers_read(template, tuple(passed))
        for pattern in template.patterns:
            check_labels(pattern, template.name, tuple(passed))
        self.first, self.n_values = dict[str, int](), 0  # where the slots of each layer begin, and how many values
        for name in self.layers:
            self.first[name] = self.n_values
            self.n_values += passed[name].candidates.n_slots
        self._products = list[tuple[Longs, bool]]()
        self._places: dict[Pattern, Longs] = {}
        self._numbers: dict[tuple[Reader, str], Ints] = {}

    @property
    def probabilities(self) -> list[Array]:
        """What each layer that is read passes."""
        return [self.all_passed[name].probability for name in self.layers]

    @property
    def products(self) -> Products:
        """The products that lines have asked for so far."""
        if not self._products:
            return NO_PRODUCTS
        width = max(slots.shape[1] for slots, _ in self._products)
        padded = [np.pad(s, ((0, 0), (0, width - s.shape[1])), constant_values=-1) for s, _ in self._products]
        return Products(np.concatenate(padded), np.concatenate([np.full(len(s), log) for s, log in self._products]))

    def alternatives(self, pattern: Pattern) -> Alternatives:
        """The labels that a line reads at every token, for every combination of candidates."""
        made = [self._of_factor(factor, pattern) for factor in factors_of(pattern, self.all_passed)]
        return reduce(_crossed, made)

    def rows(self, pattern: Pattern, alternatives: Alternatives) -> Ints:
        """The value numbers [n, cells] of all cells of a line."""
        sizes, labels = alternatives.sizes, alternatives.labels
        cells = [
            labels[i] if i in labels else np.repeat(self.vocabulary.read(cell, self.columns), sizes)
            for i, cell in enumerate(pattern.cells)
        ]
        return np.stack(cells, axis=1).astype(np.int32)

    def places(self, pattern: Pattern, alternatives: Alternatives) -> Longs:
        """Where the values [n] of the features of a line stand among all values; -1: it is 1."""
        if pattern not in self._places:
            self._places[pattern] = self._new_places(pattern, alternatives.slots)
        return self._places[pattern]

    def _new_places(self, pattern: Pattern, slots: Longs) -> Longs:
        log = any(cell.reader.function == "log_below" for cell in pattern.cells)
        if slots.shape[1] == 1 and not log:
            return slots[:, 0]
        first = self.n_values
        self._products.append((slots, log))
        self.n_values += len(slots)
        return np.arange(first, self.n_values)

    def _of_factor(self, factor: Factor, pattern: Pattern) -> Alternatives:
        """The candidates, or pairs of candidates, of one layer."""
        slots, reach = self.all_passed[factor.layer].candidates, self.vocabulary.reach
        row, pair = factor.row, len(factor.cells) == 2
        sizes = np.empty(int(slots.offsets[-1]), np.int64)
        kernels.count_alternatives(slots.offsets, slots.ptr, row, pair, reach, sizes)
        n = int(sizes.sum())
        labels = np.empty((2, n), np.int32)
        slot, number = np.empty(n, np.int64), self._label_numbers(pattern.cells[factor.cells[0]], factor.layer)
        where = slots.offsets, slots.ptr, slots.pair_ptr, number, row, pair, reach
        kernels.alternatives(*where, labels[0], labels[1], slot)
        first = self.first[factor.layer]
        place = np.where(slot < 0, -1, slot + first) if first else slot
        return Alternatives(sizes, dict(zip(factor.cells, labels, strict=False)), place[:, None])

    def _label_numbers(self, cell: Cell, layer: str) -> Ints:
        """The value number of the label in each slot, -1 where it is unknown."""
        key = cell.reader, layer
        if key not in self._numbers:
            passed = self.all_passed[layer]
            known, first = self.vocabulary.known(cell.reader), 2 * self.vocabulary.reach
            numbers: Ints = np.array([known.get(label, -1 - first) + first for label in passed.labels], np.int32)
            self._numbers[key] = numbers[passed.candidates.label]
        return self._numbers[key]


def _crossed(one: Alternatives, other: Alternatives) -> Alternatives:
    """All combinations at each token of what two factors read there."""
    sizes = one.sizes * other.sizes
    token = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(token)) - offsets_from(sizes)[token]
    i = offsets_from(one.sizes)[token] + within // other.sizes[token]
    j = offsets_from(other.sizes)[token] + within % other.sizes[token]
    labels = {cell: numbers[i] for cell, numbers in one.labels.items()}
    labels |= {cell: numbers[j] for cell, numbers in other.labels.items()}
    return Alternatives(sizes, labels, np.concatenate([one.slots[i], other.slots[j]], axis=1))
