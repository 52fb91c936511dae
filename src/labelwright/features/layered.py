"""Features of an upper layer of a cascade: those of its input, and those of the labels of lower
layers.

A template line with `%y[row]` reads the label of the layer directly below, one with `%y[row,NAME]`
that of any lower layer.  Where that layer passes several candidates, the line gives one feature for
each, whose value is the candidate's probability; with several cells, `%y[-1]/%y[0]`, one for each
combination.  `%log_y` has the log of the probability.  A certain label has the value one, so a
layer that is certain gives only the features of its labels.

The probability of a combination is a product of *factors*: two neighbours of one layer have the
exact probability of the pair, all other labels are taken for independent.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, OptionError, TemplateError
from labelwright.features import label_lines
from labelwright.features.builtin import template as find_template
from labelwright.features.codes import intern_rows
from labelwright.features.extract import EXTRACTORS, columns_of, kind_of, learn
from labelwright.features.incidence import (
    NO_VALUES,
    Composed,
    Extractor,
    Incidence,
    Ints,
    Longs,
    Slots,
    new_mark,
    on_tokens,
)
from labelwright.features.sources import NOTHING, Given
from labelwright.features.template import (
    BELOW,
    Cell,
    Pattern,
    Reader,
    Template,
    apply,
    parse_template,
)
from labelwright.features.vocabulary import Columns, Table, Vocabulary, patterns_of, table_of
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.structures.passing import NO_PRODUCTS, FeatureValues, Layered, Passed, Products
from labelwright.wording import did_you_mean

Array = NDArray[Any]
MOST_LABELS = 3  # that a line reads


def reads_labels(cell: Cell) -> bool:
    """Does a cell read the label of a lower layer?"""
    return cell.reader.column == BELOW


def layers_read(
    template: Template, lower: Sequence[str], others: Sequence[str] = ()
) -> tuple[str, ...]:
    """The lower layers, of these names, whose labels a template reads, the lowest first; `others`
    are this layer and higher ones."""
    names = set()
    for pattern in template.patterns:
        for cell in filter(reads_labels, pattern.cells):
            name = layer_of(cell, lower)
            if name not in lower:
                place = (
                    f"{template.name}:{pattern.line}: {pattern.text} reads the labels of {name!r}"
                )
                known = ", ".join(lower)
                if name in others:
                    raise TemplateError(
                        f"{place}, which is not below this layer; expected one of {known}"
                    )
                raise TemplateError(
                    f"{place}, expected a lower layer, one of {known}{did_you_mean(name, lower)}"
                )
            names.add(name)
    return tuple(name for name in lower if name in names)


def layer_of(cell: Cell, lower: Sequence[str]) -> str:
    """The layer whose label a cell reads: the one that it names, or the one directly below."""
    return lower[-1] if cell.reader.argument is None else str(cell.reader.argument)


def check_labels(pattern: Pattern, name: str, lower: Sequence[str] = ("",)) -> None:
    """Refuse a line that reads too many labels, one of them twice, or some as probabilities and
    others as logs."""
    cells = [cell for cell in pattern.cells if reads_labels(cell)]
    place = f"{name}:{pattern.line}: {pattern.text} reads"
    if len(cells) > MOST_LABELS:
        raise TemplateError(
            f"{place} {len(cells)} labels; expected at most {MOST_LABELS} of them in a line"
        )
    if len({cell.reader.function for cell in cells}) > 1:
        raise TemplateError(
            f"{place} some labels by %y, others by %log_y; write %log_y for all of them, or two "
            "lines"
        )
    if len({(layer_of(cell, lower), cell.row) for cell in cells}) < len(cells):
        raise TemplateError(f"{place} the same label twice; leave one of them out")


class Alternatives(NamedTuple):
    """What a line, or a factor of it, reads: the candidates of every token, or combinations of
    candidates."""

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
        # where the slots of each layer begin, and how many values
        self.first, self.n_values = dict[str, int](), 0
        for name in self.layers:
            self.first[name] = self.n_values
            self.n_values += passed[name].candidates.n_slots
        self._products = list[tuple[Longs, bool]]()
        self._places: dict[Pattern, Longs] = {}

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
        padded = [
            np.pad(s, ((0, 0), (0, width - s.shape[1])), constant_values=-1)
            for s, _ in self._products
        ]
        return Products(
            np.concatenate(padded),
            np.concatenate([np.full(len(s), log) for s, log in self._products]),
        )

    def alternatives(self, pattern: Pattern) -> Alternatives:
        """The labels that a line reads at every token, for every combination of candidates: factors
        of one label each, or of two neighbours of a layer that passes pairs."""
        lower = tuple(self.all_passed)
        read = [
            (lower.index(layer_of(c, lower)), c.row, i)
            for i, c in enumerate(pattern.cells)
            if reads_labels(c)
        ]
        factors = list[tuple[str, int, tuple[int, ...]]]()  # layer, row, and the cells that read it
        for number, row, i in sorted(read):
            layer, (name, before, cells) = lower[number], factors[-1] if factors else ("", 0, ())
            if (name, before, len(cells)) == (layer, row - 1, 1) and self.all_passed[
                layer
            ].candidates.has_pairs:
                factors[-1] = layer, before, (*cells, i)
            else:
                factors.append((layer, row, (i,)))
        return reduce(_crossed, [self._of_factor(pattern, *factor) for factor in factors])

    def rows(self, pattern: Pattern, alternatives: Alternatives) -> Ints:
        """The value numbers [n, cells] of all cells of a line."""
        sizes, labels = alternatives.sizes, alternatives.labels
        cells = [
            labels[i] if i in labels else np.repeat(self.vocabulary.read(cell, self.columns), sizes)
            for i, cell in enumerate(pattern.cells)
        ]
        return np.stack(cells, axis=1).astype(np.int32)

    def places(self, pattern: Pattern, slots: Longs) -> Longs:
        """Where the values [n] of the features of a line stand among all values, by its slots [n,
        factors]; -1: it is 1."""
        log = any(cell.reader.function == "log_below" for cell in pattern.cells)
        if slots.shape[1] == 1 and not log:
            return slots[:, 0]
        if pattern not in self._places:
            first = self.n_values
            self._products.append((slots, log))
            self.n_values += len(slots)
            self._places[pattern] = np.arange(first, self.n_values)
        return self._places[pattern]

    def _of_factor(
        self, pattern: Pattern, layer: str, row: int, cells: tuple[int, ...]
    ) -> Alternatives:
        """The candidates, or pairs of candidates, of one layer."""
        passed, reach, pair = self.all_passed[layer], self.vocabulary.reach, len(cells) == 2
        slots, known = passed.candidates, self.vocabulary.known(pattern.cells[cells[0]].reader)
        numbers: Ints = np.array(
            [known.get(label, -1 - 2 * reach) + 2 * reach for label in passed.labels], np.int32
        )
        sizes = np.empty(int(slots.offsets[-1]), np.int64)
        label_lines.count_alternatives(slots.offsets, slots.ptr, row, pair, reach, sizes)
        n = int(sizes.sum())
        labels, slot = np.empty((2, n), np.int32), np.empty(n, np.int64)
        where = slots.offsets, slots.ptr, slots.pair_ptr, numbers[slots.label], row, pair, reach
        label_lines.alternatives(*where, labels[0], labels[1], slot)
        first = self.first[layer]
        place = np.where(slot < 0, -1, slot + first) if first else slot
        return Alternatives(sizes, dict(zip(cells, labels, strict=False)), place[:, None])


def _crossed(one: Alternatives, other: Alternatives) -> Alternatives:
    """All combinations at each token of what two factors read there."""
    sizes = one.sizes * other.sizes
    token, within = runs_of(np.zeros_like(sizes), sizes)
    i = offsets_from(one.sizes)[token] + within // other.sizes[token]
    j = offsets_from(other.sizes)[token] + within % other.sizes[token]
    labels = {cell: numbers[i] for cell, numbers in one.labels.items()}
    labels |= {cell: numbers[j] for cell, numbers in other.labels.items()}
    return Alternatives(sizes, labels, np.concatenate([one.slots[i], other.slots[j]], axis=1))


# -- the features of a layer -----------------------------------------------------------------------

LINES = [f"Uy[{row}]:%y[{row}]" for row in range(-2, 3)]
PAIRS = ["Uy[-1..0]:%y[-1]/%y[0]", "Uy[0..1]:%y[0]/%y[1]"]
WORDS = ["Uyw:%y[0]/%x[0,0]"]  # where there are words


class LayeredFeatures(Composed):
    """Features of the input, then those of the labels below."""

    kind: ClassVar[str] = "layered"
    stored: ClassVar[dict[str, str]] = {"base": "base.", "above": ""}

    def __init__(self, base: Extractor, above: Vocabulary):
        self.base, self.above, self.mark = base, above, new_mark()

    @classmethod
    def learn(
        cls,
        X: Layered,
        template: str | Template,
        min_count: int,
        may_be_empty: bool = False,
        given: Given = NOTHING,
    ) -> tuple["LayeredFeatures", dict[str, Incidence], Longs]:
        pairs = list(X.passed.values())[-1].candidates.has_pairs
        plain, lines = _split(template, X.X, LINES + PAIRS if pairs else LINES)
        base, on_input, offsets = learn(X.X, plain, min_count, may_be_empty=True, given=given)
        above = _learn(lines, _columns_of(X.X), X.passed, min_count)
        extractor = cls(base, above)
        incidences, _, _ = extractor._with_labels_below(X, on_input, offsets)
        if extractor.n_features == 0 and not may_be_empty:
            raise CorpusError(
                f"no feature occurs {min_count} times in the training data; lower min_count"
            )
        return extractor, incidences, offsets

    def encode_with_slots(self, X: Layered) -> tuple[dict[str, Incidence], Slots, Longs]:
        if not isinstance(X, Layered):
            raise OptionError(
                "X: this model is an upper layer of a cascade and reads the labels below; use the "
                "cascade"
            )
        return self._with_labels_below(X, *self.base.encode(X.X))

    def _with_labels_below(
        self, X: Layered, base: dict[str, Incidence], offsets: Longs
    ) -> tuple[dict[str, Incidence], Slots, Longs]:
        """The features of the input, and those of the labels below."""
        if not all(np.array_equal(offsets, each.candidates.offsets) for each in X.passed.values()):
            raise CorpusError("X: the labels below belong to other sentences")
        incidences, places = {}, {}
        lines, constants = patterns_of(self.above.template), list[np.ndarray]()
        reads_input = not all(
            reads_labels(cell) for line in self.above.template.patterns for cell in line.cells
        )
        columns = _columns_of(X.X if reads_input else [])
        reading = LabelReading(X.passed, self.above, columns)
        of_kind = {name: lines.get(name, ()) for name in [*base, *lines]}
        made = {
            patterns: self._rows_below(patterns, reading, offsets)
            for patterns in set(of_kind.values())
        }
        first = reading.n_values
        for name, patterns in of_kind.items():
            incidence = base.get(name) or on_tokens(np.zeros(int(offsets[-1]) + 1), [], NO_VALUES)
            n_valued, (row_ptr, feature, place) = len(incidence.token_value), made[patterns]
            n = len(incidence.token_feature) + int((feature >= 0).sum())
            moved = np.where(feature >= 0, feature + self.base.n_features, -1).astype(np.int32)
            ptr, merged = np.zeros_like(incidence.token_ptr), np.empty(n, np.int32)
            places[name] = np.empty(n, np.int64)
            rows = (
                incidence.token_ptr,
                incidence.token_feature,
                row_ptr,
                moved,
                place,
                first if n_valued else -1,
            )
            label_lines.merge_features(*rows, ptr, merged, places[name])
            incidences[name] = incidence._replace(token_ptr=ptr, token_feature=merged)
            constants.append(incidence.token_value)
            first += n_valued
        values = FeatureValues(
            reading.layers, reading.products, np.concatenate([*constants, np.ones(1)])
        )
        all_values = values.forward(reading.probabilities)[0].astype(np.float32)
        incidences = {
            name: incidence._replace(token_value=all_values[places[name]])
            for name, incidence in incidences.items()
        }
        return incidences, Slots(places, values), offsets

    def _rows_below(
        self, lines: Sequence[Pattern], reading: LabelReading, offsets: Longs
    ) -> tuple[Longs, Ints, Longs]:
        """Sparse rows: the features that these lines give each token, line by line, and the places
        of their values."""
        n_tokens = int(offsets[-1])
        sizes, token = np.zeros(n_tokens, np.int64), [np.empty(0, np.int64)]
        feature, place = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for line in lines:
            part = reading.alternatives(line)
            sizes += part.sizes
            token.append(np.repeat(np.arange(n_tokens), part.sizes))
            feature.append(self.above.find(table_of(line), reading.rows(line, part)))
            place.append(reading.places(line, part.slots))
        order = np.argsort(np.concatenate(token), kind="stable")
        ptr = offsets_from(sizes)
        return ptr, np.concatenate(feature)[order], np.concatenate(place)[order]

    def header(self) -> dict[str, Any]:
        above, base = self.above.template, self.base.header()
        text = "\n".join(filter(None, [base.get("template", {}).get("text"), above.text]))
        return {
            "template": {"name": base.get("template", {}).get("name", "layered"), "text": text},
            "base": {"kind": self.base.kind, "features": base},
            "above": above.text,
            **self.above.header(),
        }

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "LayeredFeatures":
        inner = header.part("base")
        kind = inner.one_of("kind", BASES)
        base: Extractor = EXTRACTORS[kind].restore(tensors.part("base."), inner.part("features"))
        template = parse_template(header.text("above"))
        for pattern in template.patterns:
            check_labels(pattern, template.name)
        n_columns = len(inner.part("features").names("columns")) if kind == "columns" else 0
        return cls(base, Vocabulary.restore(template, tensors, header, n_columns))


BASES = tuple(EXTRACTORS)  # what a layer may read besides the labels below
EXTRACTORS[LayeredFeatures.kind] = LayeredFeatures


def check_layers_read(
    template: str | Template, lower: Sequence[str], others: Sequence[str]
) -> None:
    """Refuse a template of a layer over these lower ones that reads others: itself, higher ones,
    unknown ones."""
    layers_read(find_template(template, 1, check=False), lower, others)


def refuse_labels(template: str | Template, reader: str) -> None:
    """Refuse a template with %y of a tagger that reads labels below otherwise."""
    parsed = find_template(template, 1, check=False)
    for pattern in parsed.patterns:
        if any(map(reads_labels, pattern.cells)):
            raise TemplateError(
                f"{parsed.name}:{pattern.line}: {pattern.text}: a {reader} reads the labels of "
                "lower layers as further columns, behind those of the input; write %x[row,COLUMN]"
            )


def lower_layers_read(extractor: Extractor, lower: Sequence[str]) -> tuple[str, ...]:
    """The layers among these lower ones that features read, the lowest first."""
    tokens = getattr(extractor, "tokens", extractor)  # beside features of segments
    return layers_read(tokens.above.template, lower) if isinstance(tokens, LayeredFeatures) else ()


def _split(template: str | Template, X: Any, usual: list[str]) -> tuple[Template | str, Template]:
    """The lines that read only the input, and those that read the labels below; where a template
    has none of these, the usual ones."""
    if kind_of(X) != "columns":
        parsed = (
            parse_template("B") if template == "default" else find_template(template, 0, below=True)
        )
        below = [p.text for p in parsed.patterns if p.cells]  # they can only read the labels below
        return "default", parse_template("\n".join(below or usual), parsed.name)
    n_columns = (
        len(X.input_names) if isinstance(X, Corpus) else len(Corpus.from_sequences(X).input_names)
    )
    parsed = find_template(template, n_columns, below=True)
    plain = [p.text for p in parsed.patterns if not any(map(reads_labels, p.cells))]
    lines = [p.text for p in parsed.patterns if any(map(reads_labels, p.cells))] or usual + WORDS
    above = parse_template("\n".join(lines), parsed.name)
    for pattern in above.patterns:
        check_labels(pattern, parsed.name)
    return parse_template("\n".join(plain) or "B", parsed.name), above


def _columns_of(X: Any) -> Columns:
    if kind_of(X) != "columns" or not len(X):
        return Columns([], [], np.zeros(1, np.int64))
    return columns_of(X if isinstance(X, Corpus) else Corpus.from_sequences(X))


def _learn(
    template: Template, columns: Columns, passed: Mapping[str, Passed], min_count: int
) -> Vocabulary:
    """The features that lines on the labels below make; a feature counts as often as its
    probabilities add up to."""
    values: dict[Reader, list[str]] = {}
    for cell in (cell for pattern in template.patterns for cell in pattern.cells):
        if reads_labels(cell):
            values[cell.reader] = list(passed[layer_of(cell, tuple(passed))].labels)
        elif cell.reader not in values:
            values[cell.reader] = list(
                dict.fromkeys(apply(cell.reader, columns.values[cell.reader.column]))
            )
    reading = LabelReading(passed, Vocabulary(template, values, {}), columns)
    asked: dict[Table, list[tuple[Pattern, Alternatives]]] = {}
    for pattern in template.patterns:
        asked.setdefault(table_of(pattern), []).append((pattern, reading.alternatives(pattern)))
    chances = np.concatenate([*reading.probabilities, np.ones(1)])
    rows = {}
    for table, parts in asked.items():
        stacked = np.concatenate([reading.rows(*part) for part in parts])
        ids, firsts = intern_rows(stacked)
        if min_count > 1:
            weight = np.concatenate([chances[part.slots].prod(axis=1) for _, part in parts])
            firsts = firsts[np.bincount(ids, weights=weight, minlength=len(firsts)) >= min_count]
        rows[table] = stacked[firsts]
    return Vocabulary(template, values, rows)
