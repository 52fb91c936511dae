"""Features of an upper layer of a cascade: those of its input, and those of the labels of lower layers.

A template line with `%y[row]` reads the label of the layer directly below, one with `%y[row,NAME]` that of any lower
layer.  Where that layer passes several candidates, the line gives one feature for each, whose value is the candidate's
probability; with several cells, `%y[-1]/%y[0]`, one for each combination.  `%log_y` has the log of the probability.  A
certain label has the value one, so a layer that is certain gives only the features of its labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, OptionError, TemplateError
from labelwright.features.builtin import template as find_template
from labelwright.features.encoded import Extractor, Tensors, new_mark, other_kind
from labelwright.features.extract import EXTRACTORS, columns_of, kind_of, learn
from labelwright.features.incidence import NO_VALUES, Incidence, Ints, Longs
from labelwright.features.label_lines import (
    Alternatives,
    LabelReading,
    check_labels,
    layer_of,
    layers_read,
    reads_labels,
)
from labelwright.features.sources import NOTHING, Given
from labelwright.features.template import Pattern, Reader, Template, apply, parse_template
from labelwright.features.vocabulary import Columns, Table, Vocabulary, intern_rows, patterns_of, table_of
from labelwright.kernels import layered as kernels
from labelwright.structures.passing import NOTHING_BELOW, FeatureValues, Layered, Passed
from labelwright.validation import HeaderReader, TensorReader

LINES = [f"Uy[{row}]:%y[{row}]" for row in range(-2, 3)]
PAIRS = ["Uy[-1..0]:%y[-1]/%y[0]", "Uy[0..1]:%y[0]/%y[1]"]
WORDS = ["Uyw:%y[0]/%x[0,0]"]  # where there are words


class Slots(NamedTuple):
    """Where the values of token features come from."""

    places: dict[str, Longs]  # state, edge, triple -> a place among the values for each; -1: it is 1
    values: FeatureValues


class LayeredFeatures:
    """Features of the input, then those of the labels below."""

    kind: ClassVar[str] = "layered"

    def __init__(self, base: Extractor, above: Vocabulary):
        self.base, self.above, self.mark = base, above, new_mark()

    @classmethod
    def learn(
        cls, X: Layered, template: str | Template, min_count: int, may_be_empty: bool = False, given: Given = NOTHING
    ) -> tuple["LayeredFeatures", dict[str, Incidence], Longs]:
        pairs = list(X.passed.values())[-1].candidates.has_pairs
        plain, lines = _split(template, X.X, LINES + PAIRS if pairs else LINES)
        base, on_input, offsets = learn(X.X, plain, min_count, may_be_empty=True, given=given)
        above = _learn(lines, _columns_of(X.X), X.passed, min_count)
        extractor = cls(base, above)
        incidences, _, _ = extractor._with_labels_below(X, on_input, offsets)
        if extractor.n_features == 0 and not may_be_empty:
            raise CorpusError(f"no feature occurs {min_count} times in the training data; lower min_count")
        return extractor, incidences, offsets

    @property
    def n_features(self) -> int:
        return self.base.n_features + self.above.n_features

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        incidences, _, offsets = self.encode_with_slots(X)
        return incidences, offsets

    def encode_with_slots(self, X: Layered) -> tuple[dict[str, Incidence], Slots, Longs]:
        """The features of every token, and where their values come from."""
        if not isinstance(X, Layered):
            raise OptionError(
                "X: this model is an upper layer of a cascade and reads the labels below; use the cascade"
            )
        return self._with_labels_below(X, *self.base.encode(X.X))

    def _with_labels_below(
        self, X: Layered, base: dict[str, Incidence], offsets: Longs
    ) -> tuple[dict[str, Incidence], Slots, Longs]:
        """The features of the input, and those of the labels below."""
        _check_sentences(X.passed, offsets)
        incidences, places = {}, {}
        lines, constants = patterns_of(self.above.template), list[np.ndarray]()
        columns = _columns_of(X.X if any(map(_reads_input, self.above.template.patterns)) else [])
        reading = LabelReading(X.passed, self.above, columns)
        of_kind = {name: lines.get(name, ()) for name in [*base, *lines]}
        made = {patterns: self._rows_below(patterns, reading, offsets) for patterns in set(of_kind.values())}
        first = reading.n_values
        for name, patterns in of_kind.items():
            incidence = base.get(name) or _nothing(int(offsets[-1]))
            n_valued = len(incidence.token_value)
            incidences[name], places[name] = _merged(
                incidence, *made[patterns], self.base.n_features, first if n_valued else -1
            )
            constants.append(incidence.token_value)
            first += n_valued
        values = FeatureValues(reading.layers, reading.products, np.concatenate([*constants, np.ones(1)]))
        all_values = values.forward(reading.probabilities)[0].astype(np.float32)
        incidences = {
            name: incidence._replace(token_value=all_values[places[name]]) for name, incidence in incidences.items()
        }
        return incidences, Slots(places, values), offsets

    def _rows_below(self, lines: Sequence[Pattern], reading: LabelReading, offsets: Longs) -> tuple[Longs, Ints, Longs]:
        """Sparse rows: the features that these lines give each token, line by line, and the places of their values."""
        n_tokens = int(offsets[-1])
        sizes, token = np.zeros(n_tokens, np.int64), [np.empty(0, np.int64)]
        feature, place = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for line in lines:
            part = reading.alternatives(line)
            sizes += part.sizes
            token.append(np.repeat(np.arange(n_tokens), part.sizes))
            feature.append(self.above.find(table_of(line), reading.rows(line, part)))
            place.append(reading.places(line, part))
        order = np.argsort(np.concatenate(token), kind="stable")
        ptr = offsets_from(sizes)
        return ptr, np.concatenate(feature)[order], np.concatenate(place)[order]

    def merged(self, new: Extractor) -> "LayeredFeatures":
        """These features, then the further ones of the new extractor, of the input and of the labels below."""
        if not isinstance(new, LayeredFeatures):
            raise other_kind(self, new)
        return LayeredFeatures(self.base.merged(new.base), self.above.merged(new.above))

    def numbers_in(self, merged: "LayeredFeatures") -> Longs:
        """The numbers [F] of these features in another extractor of the same input; those of the base and of the
        labels below are matched by what they read."""
        return np.concatenate(
            [self.base.numbers_in(merged.base), merged.base.n_features + self.above.numbers_in(merged.above)]
        )

    def reduced(self, used: NDArray[np.bool_]) -> "tuple[LayeredFeatures, NDArray[np.bool_]]":
        """Without the features [F] that are not used, and which of them are left."""
        n = self.base.n_features
        base, left = self.base.reduced(used[:n])
        return LayeredFeatures(base, self.above.reduced(used[n:])), np.concatenate([left, used[n:]])

    def name(self, feature: int) -> str:
        n = self.base.n_features
        return self.base.name(feature) if feature < n else self.above.name(feature - n)

    @property
    def cell_kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.base.cell_kinds, *patterns_of(self.above.template)]))

    def tensors(self) -> Tensors:
        return {f"base.{name}": tensor for name, tensor in self.base.tensors().items()} | self.above.tensors()

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


def encode_with_slots(extractor: Extractor, X: Any) -> tuple[dict[str, Incidence], Slots, Longs]:
    """The features of every token, and where their values come from: no slots if no layer below is read."""
    method = getattr(extractor, "encode_with_slots", None)
    if method is not None:
        encoded: tuple[dict[str, Incidence], Slots, Longs] = method(X)
        return encoded
    incidences, offsets = extractor.encode(X)
    return incidences, Slots({}, NOTHING_BELOW), offsets


def check_layers_read(template: str | Template, lower: Sequence[str], others: Sequence[str]) -> None:
    """Refuse a template of a layer over these lower ones that reads others: itself, higher ones, unknown ones."""
    layers_read(find_template(template, 1, check=False), lower, others)


def refuse_labels(template: str | Template, reader: str) -> None:
    """Refuse a template with %y of a tagger that reads labels below otherwise."""
    parsed = find_template(template, 1, check=False)
    for pattern in parsed.patterns:
        if any(map(reads_labels, pattern.cells)):
            raise TemplateError(
                f"{parsed.name}:{pattern.line}: {pattern.text}: a {reader} reads the labels of lower layers as further "
                f"columns, behind those of the input; write %x[row,COLUMN]"
            )


def lower_layers_read(extractor: Extractor, lower: Sequence[str]) -> tuple[str, ...]:
    """The layers among these lower ones that features read, the lowest first."""
    tokens = getattr(extractor, "tokens", extractor)  # beside features of segments
    return layers_read(tokens.above.template, lower) if isinstance(tokens, LayeredFeatures) else ()


def _split(template: str | Template, X: Any, usual: list[str]) -> tuple[Template | str, Template]:
    """The lines that read only the input, and those that read the labels below; where a template has none of these,
    the usual ones."""
    if kind_of(X) != "columns":
        parsed = parse_template("B") if template == "default" else find_template(template, 0, below=True)
        below = [p.text for p in parsed.patterns if p.cells]  # they can only read the labels below
        return "default", parse_template("\n".join(below or usual), parsed.name)
    n_columns = len(X.input_names) if isinstance(X, Corpus) else len(Corpus.from_sequences(X).input_names)
    parsed = find_template(template, n_columns, below=True)
    plain = [p for p in parsed.patterns if not any(map(reads_labels, p.cells))]
    lines = "\n".join(p.text for p in parsed.patterns if p not in plain) or "\n".join(usual + WORDS)
    text = "\n".join(p.text for p in plain) or "B"
    above = parse_template(lines, parsed.name)
    for pattern in above.patterns:
        check_labels(pattern, parsed.name)
    return parse_template(text, parsed.name), above


def _reads_input(pattern: Pattern) -> bool:
    """Does a line read more than the labels below?"""
    return not all(map(reads_labels, pattern.cells))


def _check_sentences(passed: Mapping[str, Passed], offsets: Longs) -> None:
    for each in passed.values():
        if not np.array_equal(offsets, each.candidates.offsets):
            raise CorpusError("X: the labels below belong to other sentences")


def _columns_of(X: Any) -> Columns:
    if kind_of(X) != "columns" or not len(X):
        return Columns([], [], np.zeros(1, np.int64))
    return columns_of(X if isinstance(X, Corpus) else Corpus.from_sequences(X))


def _learn(template: Template, columns: Columns, passed: Mapping[str, Passed], min_count: int) -> Vocabulary:
    """The features that lines on the labels below make; a feature counts as often as its probabilities add up to."""
    values: dict[Reader, list[str]] = {}
    for cell in (cell for pattern in template.patterns for cell in pattern.cells):
        if reads_labels(cell):
            values[cell.reader] = list(passed[layer_of(cell, tuple(passed))].labels)
        elif cell.reader not in values:
            values[cell.reader] = list(dict.fromkeys(apply(cell.reader, columns.values[cell.reader.column])))
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


def _nothing(n_tokens: int) -> Incidence:
    none: Ints = np.empty(0, np.int32)
    keys: Ints = np.empty((n_tokens, 0), np.int32)
    return Incidence(keys, np.zeros(1, np.int64), none, np.zeros(n_tokens + 1, np.int64), none, NO_VALUES)


def _merged(
    base: Incidence, ptr: Longs, feature: Ints, slot: Longs, first: int, constant: int
) -> tuple[Incidence, Longs]:
    """An incidence with further token features, numbered from `first` on, and the slot of each token feature."""
    n = len(base.token_feature) + int((feature >= 0).sum())
    out_ptr = np.zeros(len(base.token_ptr), np.int64)
    out_feature, out_slot = np.empty(n, np.int32), np.empty(n, np.int64)
    moved = np.where(feature >= 0, feature + first, -1).astype(np.int32)
    rows = base.token_ptr, base.token_feature, ptr, moved, slot, constant
    kernels.merge_features(*rows, out_ptr, out_feature, out_slot)
    return base._replace(token_ptr=out_ptr, token_feature=out_feature), out_slot
