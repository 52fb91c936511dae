"""From sentences to instances: each line of a template is a column of values around a token.

    Uw[-1]:%x[-1,0]             the word before
    Utags:%x[-1,1]/%x[0,1]      two tags as one value

Only U and * lines count: transitions do not describe a single token.  Places outside the sentence
have one value, "_".  Feature dicts have a column for each key, arrays one for each number.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Column, Corpus, checked_sentences, compacted
from labelwright.errors import CorpusError, OptionError, TemplateError
from labelwright.features.builtin import BUILTIN
from labelwright.features.builtin import template as find_template
from labelwright.features.codes import intern_rows, shift_codes
from labelwright.features.extract import (
    columns_of,
    corpus_with,
    few_tokens,
    kind_of,
    read_template,
    rows_of_numbers,
)
from labelwright.features.sources import NO_SOURCES, NOTHING, Given, Sources, with_usual_lines
from labelwright.features.template import Cell, Pattern, Template, apply
from labelwright.features.vocabulary import Columns
from labelwright.memory.instances import Instances, instances
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.structures.passing import Layered, Passed

Array = NDArray[Any]

OUTSIDE = "_"
# what lines of a template may read that is not compared
VECTORS = {"vector": "word vectors", "array": "arrays"}
NO_VECTORS = (
    "memory-based models compare symbols, and single numbers by the metric numeric; use a CRF, or "
    "an NgramTagger with another classifier"
)
MISSING = ""  # the value of a key that a feature dict lacks


class Windows(NamedTuple):
    """How the tokens of one kind of data become instances."""

    kind: str  # columns, dicts or arrays
    names: tuple[str, ...]  # [F]  of the columns of instances
    inputs: tuple[str, ...] = ()  # columns: those of the corpus
    template: Template | None = None
    sources: Sources = NO_SOURCES  # the dictionaries and clusters that the template reads

    def instances(self, X: Any, given: Given = NOTHING) -> tuple[Instances, Array]:
        """The instances of all tokens, and where sentences begin [N+1]; what dictionaries say of
        training data depends on the labels that are given."""
        return READ[self.kind](self, with_label_columns(X), given)

    def few(self, X: Any) -> tuple[list[list[str]], Array] | None:
        """The columns of instances [F][T] of a few tokens, and where sentences begin [N+1]; None
        for all else."""
        tokens = few_tokens(X, len(self.inputs)) if self.template is not None else None
        if tokens is None or self.template is None:
            return None
        columns, offsets = self.sources.extended_few(*tokens), tokens[1]
        seen: dict[Cell, list[str]] = {}  # what a cell reads at each token
        bounds, read = list(pairwise(offsets.tolist())), []
        for line in lines_of(self.template):
            for cell in line.cells:
                if cell not in seen:
                    texts = apply(cell.reader, list(columns[cell.reader.column]))
                    seen[cell] = [
                        text
                        for a, b in bounds
                        for text in _shifted(texts[a:b], cell.row, cell.absolute)
                    ]
            cells = [seen[cell] for cell in line.cells]
            read.append(
                cells[0] if len(cells) == 1 else list(map("/".join, zip(*cells, strict=True)))
            )
        return read, offsets

    def header(self) -> dict[str, Any]:
        template = (
            None
            if self.template is None
            else {"text": self.template.text, "name": self.template.name}
        )
        described = {
            "kind": self.kind,
            "names": list(self.names),
            "inputs": list(self.inputs),
            "template": template,
        }
        return described | self.sources.header()

    def tensors(self) -> dict[str, Array]:
        return {f"sources.{name}": array for name, array in self.sources.tensors().items()}


def windows(X: Any, template: str | Template, given: Given = NOTHING) -> tuple[Windows, Instances]:
    """The windows for data like X, and the instances of X as training data."""
    X = with_label_columns(X)
    kind = kind_of(X)
    if kind == "columns":
        corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X)
        parsed = with_usual_lines(find_template(template, len(corpus.input_names)), given)
        lines = _comparable(parsed)
        if corpus.arrays is not None:
            raise OptionError(f"arrays: {NO_VECTORS}")
        inputs, custom = corpus.input_names, parsed.name not in BUILTIN
        names = tuple(
            line.name.removeprefix(line.kind) if custom else _name(line, inputs) for line in lines
        )
        made = Windows(kind, names, inputs, parsed.resolved(len(inputs)), Sources.of(parsed, given))
    elif given.names():
        raise OptionError(
            f"dictionaries, clusters: need words, but the sentences are {kind}; leave them out"
        )
    elif kind == "dicts":
        keys = dict.fromkeys(key for sentence in X for token in sentence for key in token)
        if not keys:
            raise CorpusError("X: no token has a feature; expected non-empty dicts")
        for key in keys:
            if not isinstance(key, str):
                raise CorpusError(
                    f"X: expected the name of a feature, a string, got {type(key).__name__}"
                )
        made = Windows(kind, tuple(keys))
    else:
        first = next(np.asarray(sentence) for sentence in X if len(sentence))
        made = Windows(kind, tuple(f"x[{d}]" for d in range(first.shape[1])))
    return made, made.instances(X, given)[0]


def _comparable(template: Template) -> list[Pattern]:
    """The lines of a template that are columns, of which there must be one, and none that reads
    vectors."""
    lines = lines_of(template)
    if not lines:
        raise TemplateError(
            f"{template.name}: no U line that reads a column; write one such as U01:%x[0,0]"
        )
    for line in lines:
        what = VECTORS.get(line.cells[0].reader.function)
        if what is not None:
            raise TemplateError(
                f"{template.name}:{line.line}: {line.text} reads {what}: {NO_VECTORS}"
            )
    return lines


def _name(line: Pattern, inputs: Sequence[str]) -> str:
    """What a line of a built-in template is called: by its place, as in word[-1], where it reads
    one value."""
    cell = line.cells[0]
    plain = cell.reader.function == "value" and cell.reader.column >= 0 and not cell.absolute
    if len(line.cells) == 1 and plain:
        return f"{inputs[cell.reader.column]}[{cell.row}]"
    return line.name.removeprefix(line.kind)


def restored(tensors: TensorReader, header: HeaderReader) -> Windows:
    kind, names, inputs = (
        header.one_of("kind", tuple(READ)),
        header.names("names"),
        header.names("inputs"),
    )
    if kind != "columns":
        return Windows(kind, tuple(names), tuple(inputs))
    template = read_template(header.part("template"))
    lines = _comparable(template)
    if len(lines) != len(names) or template.n_columns > len(inputs):
        raise header.refuse("names", f"one for each of the {len(lines)} lines of the template")
    sources = Sources.restore(template, tensors.part("sources."), header)
    return Windows(kind, tuple(names), tuple(inputs), template.resolved(len(inputs)), sources)


def lines_of(template: Template) -> list[Pattern]:
    """The lines of a template that are columns."""
    return [pattern for pattern in template.patterns if pattern.kind in "U*" and pattern.cells]


def _from_columns(windows: Windows, X: Any, given: Given) -> tuple[Instances, Array]:
    corpus = corpus_with(X, windows.inputs)
    assert windows.template is not None
    columns = columns_of(corpus)
    columns = windows.sources.extended(columns, windows.sources.held_out(columns, given))
    read: dict[Cell, tuple[list[str], Array]] = {}
    read_lines = [_column(line, columns, read) for line in lines_of(windows.template)]
    codes = np.stack([numbers for _, numbers in read_lines], axis=1).astype(np.int32)
    return Instances(tuple(values for values, _ in read_lines), codes), corpus.offsets


def _column(
    line: Pattern, columns: Columns, read: dict[Cell, tuple[list[str], Array]]
) -> tuple[list[str], Array]:
    """What a line reads at each token: its values, and their numbers [T]."""
    cells = []
    for cell in line.cells:
        if cell not in read:
            read[cell] = _cell(cell, columns)
        cells.append(read[cell])
    if len(cells) == 1:
        return cells[0]
    rows = np.stack([numbers for _, numbers in cells], axis=1).astype(np.int32)
    numbers, firsts = intern_rows(rows)
    texts = [
        "/".join(values[i] for (values, _), i in zip(cells, row, strict=True))
        for row in rows[firsts].tolist()
    ]  # texts may be equal where values contain slashes: that is one value
    index = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return list(index), np.array([index[text] for text in texts], np.int32)[numbers]


def _cell(cell: Cell, columns: Columns) -> tuple[list[str], Array]:
    """What a cell reads at each token: the values that occur, and their numbers [T]."""
    column = cell.reader.column
    values, reach = columns.values[column], abs(cell.row) + 1
    codes = np.empty(int(columns.offsets[-1]), np.int32)
    shift_codes(
        columns.codes[column], columns.offsets, cell.row, cell.absolute, len(values), reach, codes
    )
    texts = apply(cell.reader, values)
    index = {text: i for i, text in enumerate(dict.fromkeys([*texts, OUTSIDE]))}
    numbers = np.array([index[text] for text in [*texts, *[OUTSIDE] * (2 * reach)]], np.int32)
    column_read = compacted(list(index), numbers[codes])
    return column_read.values, column_read.codes


def _shifted(texts: list[str], row: int, absolute: bool) -> list[str]:
    """What stands so many tokens further in a sentence, or at one place of it."""
    T = len(texts)
    if absolute:
        return [texts[row] if -T <= row < T else OUTSIDE] * T
    inside = texts[max(row, 0) : max(T + min(row, 0), 0)]
    missing = [OUTSIDE] * (T - len(inside))
    return missing + inside if row < 0 else inside + missing


def _from_dicts(windows: Windows, X: Any, given: Given) -> tuple[Instances, Array]:
    if kind_of(X) != "dicts":
        raise CorpusError(f"X: the model was trained on feature dicts, got {kind_of(X)}")
    tokens = [token for sentence in X for token in sentence]
    return instances(
        [[token.get(name, MISSING) for name in windows.names] for token in tokens]
    ), offsets_of(X)


def _from_arrays(windows: Windows, X: Any, given: Given) -> tuple[Instances, Array]:
    if kind_of(X) != "arrays" and any(len(sentence) for sentence in X):
        raise CorpusError(f"X: the model was trained on arrays of numbers, got {kind_of(X)}")
    return instances(
        np.concatenate(rows_of_numbers(X, len(windows.names), np.float64))
    ), offsets_of(X)


def offsets_of(X: Sequence[Any]) -> Array:
    """Where sentences begin and end [N+1]."""
    try:
        return offsets_from([len(sentence) for sentence in X])
    except TypeError:
        # which says what is wrong
        return offsets_from([len(sentence) for sentence in checked_sentences(X, "X")])


READ = {"columns": _from_columns, "dicts": _from_dicts, "arrays": _from_arrays}


# -- labels of lower layers ------------------------------------------------------------------------


def with_label_columns(X: Any) -> Any:
    """What an upper layer reads as plain input: behind the columns, one for each lower layer (or a
    key of feature dicts), with the most probable label of each token."""
    if not isinstance(X, Layered):
        return X
    kind = kind_of(X.X)
    if kind == "arrays":
        raise OptionError(
            "X: a memory cannot compare arrays of numbers with labels below; use a CRF as this "
            "layer"
        )
    best = {name: _best(passed) for name, passed in X.passed.items()}
    if kind == "dicts":
        labels = {
            name: [column.values[code] for code in column.codes] for name, column in best.items()
        }
        return [
            [
                token | {name: row[t] for name, row in labels.items()}
                for t, token in enumerate(sentence, start)
            ]
            for start, sentence in zip(offsets_of(X.X)[:-1].tolist(), X.X, strict=True)
        ]
    corpus = X.X if isinstance(X.X, Corpus) else Corpus.from_sequences(X.X)
    return replace(
        corpus, names=(*corpus.names, *best), columns=(*corpus.columns, *best.values()), raw=None
    )


def _best(passed: Passed) -> Column:
    """The most probable label of every token."""
    slots = passed.candidates
    token = np.repeat(np.arange(len(slots.ptr) - 1), np.diff(slots.ptr))
    # of each token, the most probable first
    first = np.lexsort((-passed.probability[: len(slots.label)], token))
    codes: NDArray[np.int32] = slots.label[first[slots.ptr[:-1]]]
    return compacted([str(label) for label in passed.labels], codes)
