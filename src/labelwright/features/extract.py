"""From the user's input (columns, feature dicts, arrays) to features as integers: one extractor for each kind."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.features.builtin import template as find_template
from labelwright.features.incidence import NO_VALUES, Floats, Incidence, Ints, Longs
from labelwright.features.template import Template, parse_template
from labelwright.features.vocabulary import Columns, Vocabulary, patterns_of
from labelwright.modelfile import pack_strings, read_strings
from labelwright.structures.passing import Layered
from labelwright.validation import HeaderReader, TensorReader, check_distinct

Tensors = dict[str, np.ndarray]
LARGEST = float(np.finfo(np.float32).max)
MOST_COLUMNS = 1 << 31  # of arrays


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A corpus as features of one model: encoded once, used often.  Its length is the number of sentences."""

    incidences: dict[str, Incidence]
    offsets: Longs  # [N+1]
    owner: str  # the mark of the vocabulary that made it

    def __len__(self) -> int:
        return len(self.offsets) - 1


def _new_mark() -> str:
    """A name for one vocabulary, which copies and pickles of it keep."""
    return os.urandom(8).hex()


class Extractor(Protocol):
    """Learns its vocabulary from training data, then converts any data of that kind to features."""

    kind: ClassVar[str]
    mark: str

    @property
    def n_features(self) -> int: ...

    @property
    def cell_kinds(self) -> tuple[str, ...]: ...  # what features are attached to: states, pairs, triples, segments

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]: ...

    def name(self, feature: int) -> str: ...

    def tensors(self) -> Tensors: ...

    def header(self) -> dict[str, Any]: ...

    def merged(self, new: "Extractor") -> "Extractor": ...

    def numbers_in(self, merged: Any) -> Longs: ...


def _other_kind(old: Extractor, new: Extractor) -> OptionError:
    return OptionError(f"X: the model was trained on {old.kind}, got {new.kind}; give the same kind, or fit again")


def kind_of(X: Any) -> str:
    """columns, dicts or arrays, by the first token; or layered."""
    if isinstance(X, Corpus):
        return "columns"
    if isinstance(X, Layered):
        return "layered"
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise CorpusError(f"X: expected a list of sentences, got {type(X).__name__}")
    for sentence in X:
        if isinstance(sentence, np.ndarray) and sentence.dtype.kind in "fiub" and sentence.ndim == 2:
            return "arrays"
        for token in sentence:
            if isinstance(token, dict):
                return "dicts"
            return "arrays" if isinstance(token, np.ndarray) and token.dtype.kind in "fiub" else "columns"
    return "columns"


# -- columns ----------------------------------------------------------------------------------------------------------


class ColumnFeatures:
    """Features that a template makes from columns (words, or tuples of words and tags)."""

    kind: ClassVar[str] = "columns"

    def __init__(self, vocabulary: Vocabulary, names: Sequence[str]):
        self.vocabulary, self.names, self.mark = vocabulary, tuple(names), _new_mark()

    @classmethod
    def learn(
        cls, X: Any, template: str | Template, min_count: int, may_be_empty: bool = False
    ) -> tuple["ColumnFeatures", dict[str, Incidence], Longs]:
        corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X)
        names = corpus.input_names
        parsed = find_template(template, len(names))
        vocabulary, incidences = Vocabulary.learn(parsed, columns_of(corpus, names), min_count, may_be_empty)
        return cls(vocabulary, names), incidences, corpus.offsets

    @property
    def n_features(self) -> int:
        return self.vocabulary.n_features

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        if isinstance(X, Corpus):
            corpus = X
            names = corpus.input_names
        else:
            corpus = Corpus.from_sequences(X)
            names = corpus.names
        if len(names) < self.vocabulary.template.n_columns or len(names) < len(self.names):
            raise CorpusError(
                f"{corpus.source}: the model reads {len(self.names)} columns ({','.join(self.names)}), got {len(names)}"
            )
        if len(names) > len(self.names):
            raise CorpusError(
                f"{corpus.source}: the model reads {len(self.names)} columns ({','.join(self.names)}), got {len(names)}"
                " besides the label"
            )
        return self.vocabulary.encode(columns_of(corpus, names)), corpus.offsets

    def merged(self, new: Extractor) -> "ColumnFeatures":
        """These features, then the further ones of the new extractor."""
        if not isinstance(new, ColumnFeatures):
            raise _other_kind(self, new)
        if len(new.names) != len(self.names):
            raise CorpusError(
                f"X: the model reads {len(self.names)} columns ({','.join(self.names)}), got {len(new.names)}"
            )
        return ColumnFeatures(self.vocabulary.merged(new.vocabulary), self.names)

    def numbers_in(self, merged: "ColumnFeatures") -> Longs:
        """The numbers [F] of these features in an extractor that was merged from this one."""
        return self.vocabulary.numbers_in(merged.vocabulary)

    def name(self, feature: int) -> str:
        return self.vocabulary.name(feature)

    @property
    def cell_kinds(self) -> tuple[str, ...]:
        return tuple(patterns_of(self.vocabulary.template))

    def tensors(self) -> Tensors:
        return self.vocabulary.tensors()

    def header(self) -> dict[str, Any]:
        template = self.vocabulary.template
        described = {"columns": list(self.names), "template": {"name": template.name, "text": template.text}}
        return described | self.vocabulary.header()

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "ColumnFeatures":
        names, template = header.names("columns"), read_template(header.part("template"))
        refuse_labels_below(template)
        return cls(Vocabulary.restore(template, tensors, header, len(names)), names)


def read_template(header: HeaderReader) -> Template:
    """The template that a header holds as text."""
    return parse_template(header.text("text"), header.text("name"))


def refuse_labels_below(template: Template) -> None:
    """Only layers of a cascade read the labels below."""
    if any(cell.reader.column < 0 for pattern in template.patterns for cell in pattern.cells):
        raise ModelFileError(f"template {template.name}: reads the labels below, which only layers of a cascade have")


def columns_of(corpus: Corpus, names: Sequence[str] | None = None) -> Columns:
    """These columns of a corpus, or all but its label."""
    names = corpus.input_names if names is None else names
    return Columns([corpus.values(n) for n in names], [corpus.codes(n) for n in names], corpus.offsets)


# -- feature dicts ----------------------------------------------------------------------------------------------------


class DictFeatures:
    """Features as sklearn-crfsuite takes them: {name: value}; a string makes the feature `name=value`, a number is the
    value."""

    kind: ClassVar[str] = "dicts"
    cell_kinds = ("state",)

    def __init__(self, names: list[str]):
        self.names, self.mark = names, _new_mark()
        self._index = {name: i for i, name in enumerate(names)}

    @classmethod
    def learn(
        cls, X: Any, template: Any, min_count: int, may_be_empty: bool = False
    ) -> tuple["DictFeatures", dict[str, Incidence], Longs]:
        names: dict[str, int] = {}
        incidence, offsets = _read_dicts(X, names, grow=True)
        if min_count > 1:
            seen = np.bincount(incidence.token_feature, minlength=len(names))
            extractor = cls([name for name, n in zip(names, seen, strict=True) if n >= min_count])
            if not extractor.names and not may_be_empty:
                raise CorpusError(f"no feature occurs {min_count} times in the training data; lower min_count")
            incidences, offsets = extractor.encode(X)
            return extractor, incidences, offsets
        return cls(list(names)), {"state": incidence}, offsets

    @property
    def n_features(self) -> int:
        return len(self.names)

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        incidence, offsets = _read_dicts(X, self._index, grow=False)
        return {"state": incidence}, offsets

    def merged(self, new: Extractor) -> "DictFeatures":
        """These features, then the further ones of the new extractor."""
        if not isinstance(new, DictFeatures):
            raise _other_kind(self, new)
        return DictFeatures(list(dict.fromkeys([*self.names, *new.names])))

    def numbers_in(self, merged: "DictFeatures") -> Longs:
        """The numbers [F] of these features in an extractor that was merged from this one."""
        return np.arange(self.n_features, dtype=np.int64)

    def name(self, feature: int) -> str:
        return self.names[feature]

    def tensors(self) -> Tensors:
        text, offsets = pack_strings(self.names)
        return {"names.text": text, "names.offsets": offsets}

    def header(self) -> dict[str, Any]:
        return {}

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "DictFeatures":
        names = read_strings(tensors, "names")
        check_distinct(f"{tensors.prefix}names", names)
        return cls(names)


def _read_dicts(X: Any, index: dict[str, int], grow: bool) -> tuple[Incidence, Longs]:
    feature: list[int] = []
    value: list[float] = []
    token_ptr = [0]
    offsets = [0]
    for n, sentence in enumerate(X):
        for t, token in enumerate(sentence):
            if not isinstance(token, dict):
                raise CorpusError(
                    f"X: sentence {n}, token {t}: expected a dict of features, got {type(token).__name__}"
                )
            for name, v in token.items():
                if isinstance(v, str):
                    name, number = f"{name}={v}", 1.0
                elif isinstance(v, bool | np.bool_):
                    if not v:
                        continue
                    number = 1.0
                else:
                    try:
                        number = float(v)
                    except (TypeError, ValueError):
                        raise CorpusError(
                            f"X: sentence {n}, token {t}: feature {name!r}: expected a string, number or boolean, "
                            f"got {type(v).__name__}"
                        ) from None
                    if not abs(number) <= LARGEST:
                        raise CorpusError(
                            f"X: sentence {n}, token {t}: feature {name!r} is {number}; expected a finite number"
                        )
                i = index.setdefault(name, len(index)) if grow else index.get(name, -1)
                if i >= 0:
                    feature.append(i)
                    value.append(number)
            token_ptr.append(len(feature))
        offsets.append(len(token_ptr) - 1)
    values = np.array(value, np.float32)
    return _on_tokens(token_ptr, feature, NO_VALUES if (values == 1).all() else values), np.array(offsets, np.int64)


def _on_tokens(token_ptr: Any, feature: Any, value: Floats) -> Incidence:
    """An incidence without keys: all features are those of the tokens themselves."""
    ptr = np.asarray(token_ptr, np.int64)
    nothing: Ints = np.empty(0, np.int32)
    keys: Ints = np.empty((len(ptr) - 1, 0), np.int32)
    return Incidence(keys, np.zeros(1, np.int64), nothing, ptr, np.asarray(feature, np.int32), value)


# -- arrays -----------------------------------------------------------------------------------------------------------


class ArrayFeatures:
    """Rows of numbers, one per token: column d is feature d."""

    kind: ClassVar[str] = "arrays"
    cell_kinds = ("state",)

    def __init__(self, n_columns: int):
        self.n_features, self.mark = n_columns, _new_mark()

    @classmethod
    def learn(
        cls, X: Any, template: Any, min_count: int, may_be_empty: bool = False
    ) -> tuple["ArrayFeatures", dict[str, Incidence], Longs]:
        first = next((np.asarray(x) for x in X if len(x)), None)
        if first is None:
            raise CorpusError("X: got no tokens, expected at least one row")
        extractor = cls(first.shape[1])
        incidences, offsets = extractor.encode(X)
        return extractor, incidences, offsets

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        rows = []
        for n, x in enumerate(X):
            try:
                with np.errstate(over="ignore"):  # too large for float32 is infinite, and refused below
                    row = np.asarray(x, np.float32) if len(x) else np.empty((0, self.n_features), np.float32)
            except ValueError:
                raise CorpusError(f"X: sentence {n}: expected rows of {self.n_features} numbers each") from None
            if row.ndim != 2 or row.shape[1] != self.n_features:
                got = f"rows of {row.shape[1]}" if row.ndim == 2 else f"an array of shape {row.shape}"
                raise CorpusError(f"X: sentence {n}: expected rows of {self.n_features} numbers, got {got}")
            if not np.isfinite(row).all():
                t, d = np.argwhere(~np.isfinite(row))[0]
                raise CorpusError(f"X: sentence {n}, token {t}: feature {d} is {row[t, d]}; expected finite numbers")
            rows.append(row)
        offsets = offsets_from([len(r) for r in rows])
        values = np.concatenate(rows) if rows else np.empty((0, self.n_features), np.float32)
        ptr = np.arange(len(values) + 1, dtype=np.int64) * self.n_features
        feature = np.tile(np.arange(self.n_features, dtype=np.int32), len(values))
        return {"state": _on_tokens(ptr, feature, values.reshape(-1))}, offsets

    def merged(self, new: Extractor) -> "ArrayFeatures":
        """The same columns: arrays have no vocabulary to learn."""
        if not isinstance(new, ArrayFeatures):
            raise _other_kind(self, new)
        if new.n_features != self.n_features:
            raise CorpusError(f"X: the model reads rows of {self.n_features} numbers, got rows of {new.n_features}")
        return ArrayFeatures(self.n_features)

    def numbers_in(self, merged: "ArrayFeatures") -> Longs:
        """The numbers [F] of these features in an extractor that was merged from this one."""
        return np.arange(self.n_features, dtype=np.int64)

    def name(self, feature: int) -> str:
        return f"x[{feature}]"

    def tensors(self) -> Tensors:
        return {}

    def header(self) -> dict[str, Any]:
        return {"n_columns": self.n_features}

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "ArrayFeatures":
        return cls(header.whole("n_columns", 1, MOST_COLUMNS))


EXTRACTORS: dict[str, Any] = {c.kind: c for c in (ColumnFeatures, DictFeatures, ArrayFeatures)}


def learn(
    X: Any, template: str | Template, min_count: int, may_be_empty: bool = False
) -> tuple[Extractor, dict[str, Incidence], Longs]:
    """The extractor for this kind of input, its vocabulary learnt, and the training data encoded; an error where no
    feature is frequent enough, unless the vocabulary `may_be_empty`."""
    if min_count < 1:
        raise OptionError(f"min_count: expected 1 or more, got {min_count}")
    kind = kind_of(X)
    sentences = X.X if isinstance(X, Layered) else X
    if not isinstance(sentences, Corpus) and len(sentences) == 0:
        raise CorpusError("X: got no sentences, expected at least one")
    if not (sentences.n_tokens if isinstance(sentences, Corpus) else any(len(sentence) for sentence in sentences)):
        raise CorpusError("X: got no tokens, expected at least one")
    learnt: tuple[Extractor, dict[str, Incidence], Longs] = EXTRACTORS[kind].learn(X, template, min_count, may_be_empty)
    return learnt
