"""From the user's input (columns, feature dicts, arrays) to features as integers: one extractor for each kind."""

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

import numpy as np

from labelwright.corpus.attribute_lines import VALUE_RANGE
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus, listed_sentence
from labelwright.corpus.tabular import is_frame
from labelwright.corpus.token_records import is_dataset, listed
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.features.attributes import Collected
from labelwright.features.builtin import BUILTIN
from labelwright.features.builtin import template as find_template
from labelwright.features.dicts import DictFeatures as DictFeatures
from labelwright.features.encoded import Bools, new_mark, on_tokens, other_kind
from labelwright.features.encoded import Encoded as Encoded
from labelwright.features.encoded import Extractor as Extractor
from labelwright.features.encoded import Tensors as Tensors
from labelwright.features.incidence import Incidence, Longs
from labelwright.features.mistakes import mistakes, mistakes_in_use
from labelwright.features.numbers import NO_NUMBERS, Numbers
from labelwright.features.sources import NO_SOURCES, NOTHING, Given, Sources, with_usual_lines
from labelwright.features.template import BELOW, Template, parse_template
from labelwright.features.vocabulary import FEW, Columns, Vocabulary, patterns_of
from labelwright.structures.passing import Layered
from labelwright.validation import HeaderReader, TensorReader

MOST_COLUMNS = 1 << 31  # of arrays


def kind_of(X: Any) -> str:
    """columns, dicts or arrays, by the first token; or layered.  Sentences are read, so they must not be iterators."""
    if isinstance(X, Corpus):
        return "columns"
    if isinstance(X, Layered):
        return "layered"
    if isinstance(X, Collected):
        return "dicts"
    if hasattr(X, "toarray"):
        raise CorpusError("X: expected a list of sentences, got a sparse matrix; give an array for each sentence")
    if isinstance(X, str | bytes) or not (isinstance(X, Iterable) or is_frame(X)):
        raise CorpusError(f"X: expected a list of sentences, got {type(X).__name__}")
    for sentence in () if is_frame(X) else X:
        if is_frame(sentence):
            return "columns"
        if isinstance(sentence, np.ndarray) and sentence.dtype.kind in "fiub" and sentence.ndim == 2:
            return "arrays"
        if not isinstance(sentence, Iterable):
            raise CorpusError(f"X: a sentence is of type {type(sentence).__name__}, expected a list of tokens")
        for token in sentence:
            if isinstance(token, Mapping | AbstractSet):
                return "dicts"
            if isinstance(token, list):
                return _kind_of_lists(X)
            return "arrays" if isinstance(token, np.ndarray) and token.dtype.kind in "fiub" else "columns"
    return "columns"


def collected(X: Any) -> Any:
    """Sentences that can be read twice; an iterator over sentences of feature dicts is read once, sentence by
    sentence."""
    if hasattr(X, "__len__") or not hasattr(X, "__iter__") or is_dataset(X):
        return listed(X)
    sentences = map(listed_sentence, X)
    first = []  # up to the first with a token
    for sentence in sentences:
        first.append(sentence)
        if not hasattr(sentence, "__len__") or len(sentence):
            break
    every = itertools.chain(first, sentences)
    return Collected.of(every) if first and _has_dicts(first[-1]) else list(every)


def _has_dicts(sentence: Any) -> bool:
    """Whether there are dicts or sets among its tokens."""
    tokens = sentence if isinstance(sentence, Iterable) else ()
    return any(isinstance(token, Mapping | AbstractSet) for token in tokens)


def _kind_of_lists(X: Iterable[Any]) -> str:
    """Tokens that are lists: attributes where their lengths differ; columns and attributes look the same otherwise."""
    sizes = {len(token) for sentence in X for token in sentence if hasattr(token, "__len__")}
    if len(sizes) > 1:
        return "dicts"
    raise CorpusError(
        f"X: tokens that are lists of {next(iter(sizes))} could be columns or attributes; give tuples for columns, and "
        "sets or {attribute: value} dicts for attributes"
    )


# -- columns ----------------------------------------------------------------------------------------------------------


class ColumnFeatures:
    """Features that a template makes from columns (words, or tuples of words and tags)."""

    kind: ClassVar[str] = "columns"

    def __init__(
        self,
        vocabulary: Vocabulary,
        names: Sequence[str],
        sources: Sources = NO_SOURCES,
        numbers: Numbers = NO_NUMBERS,
    ):
        self.vocabulary, self.names, self.mark = vocabulary, tuple(names), new_mark()
        self.sources, self.numbers = sources, numbers

    @classmethod
    def learn(
        cls, X: Any, template: str | Template, min_count: int, may_be_empty: bool = False, given: Given = NOTHING
    ) -> tuple["ColumnFeatures", dict[str, Incidence], Longs]:
        corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X)
        names, columns = corpus.input_names, columns_of(corpus)
        parsed = with_usual_lines(find_template(template, len(names)), given, corpus.arrays is not None)
        sources = Sources.of(parsed, given)
        columns = sources.extended(columns, sources.held_out(columns, given))
        numbers = given.numbers or Numbers.learn(parsed, columns, corpus.arrays, given.vectors)
        alone = may_be_empty or numbers.n_features > 0
        vocabulary, incidences = Vocabulary.learn(parsed.resolved(len(names)), columns, min_count, alone)
        numbers.added(incidences, columns, corpus.arrays, vocabulary.n_features)
        if not may_be_empty:
            warn_of_mistakes(parsed, vocabulary, corpus.n_tokens)
        return cls(vocabulary, names, sources, numbers), incidences, corpus.offsets

    @property
    def n_features(self) -> int:
        return self.vocabulary.n_features + self.numbers.n_features

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        few = few_tokens(X, len(self.names))
        if few is not None and not self.numbers.lines:
            made = self.vocabulary.encode_few(self.sources.extended_few(*few), few[1])
            if made is not None:
                return made, few[1]
        if isinstance(X, Corpus):
            corpus = X
            names = corpus.input_names
        else:
            corpus = Corpus.from_sequences(X, reads=self.names)
            names = corpus.names
        if len(names) < len(self.names):
            raise CorpusError(
                f"{corpus.source}: the model reads {len(self.names)} columns ({','.join(self.names)}), got {len(names)}"
            )
        if len(names) > len(self.names):
            raise CorpusError(
                f"{corpus.source}: the model reads {len(self.names)} columns ({','.join(self.names)}), got {len(names)}"
                " besides the label"
            )
        columns = self.sources.extended(columns_of(corpus, names))
        incidences = self.vocabulary.encode(columns)
        self.numbers.added(incidences, columns, corpus.arrays, self.vocabulary.n_features)
        return incidences, corpus.offsets

    def merged(self, new: Extractor) -> "ColumnFeatures":
        """These features, then the further ones of the new extractor."""
        if not isinstance(new, ColumnFeatures):
            raise other_kind(self, new)
        if len(new.names) != len(self.names):
            raise CorpusError(
                f"X: the model reads {len(self.names)} columns ({','.join(self.names)}), got {len(new.names)}"
            )
        return ColumnFeatures(self.vocabulary.merged(new.vocabulary), self.names, self.sources, self.numbers)

    def numbers_in(self, merged: "ColumnFeatures") -> Longs:
        """The numbers [F] of these features in an extractor that was merged from this one."""
        further = merged.vocabulary.n_features + np.arange(self.numbers.n_features, dtype=np.int64)
        return np.concatenate([self.vocabulary.numbers_in(merged.vocabulary), further])

    def reduced(self, used: Bools) -> "tuple[ColumnFeatures, Bools]":
        """Without the features [F] that are not used, and which of them are left: those of numbers are."""
        n = self.vocabulary.n_features
        reduced = self.vocabulary.reduced(used[:n])
        left = np.concatenate([used[:n], np.ones(len(used) - n, np.bool_)])
        return ColumnFeatures(reduced, self.names, self.sources, self.numbers), left

    def name(self, feature: int) -> str:
        n = self.vocabulary.n_features
        return self.vocabulary.name(feature) if feature < n else self.numbers.name(feature - n)

    @property
    def cell_kinds(self) -> tuple[str, ...]:
        return tuple(patterns_of(self.vocabulary.template))

    def tensors(self) -> Tensors:
        return self.vocabulary.tensors() | self.sources.tensors() | self.numbers.tensors()

    def header(self) -> dict[str, Any]:
        template = self.vocabulary.template
        described = {"columns": list(self.names), "template": {"name": template.name, "text": template.text}}
        return described | self.vocabulary.header() | self.sources.header()

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "ColumnFeatures":
        names, template = header.names("columns"), read_template(header.part("template"))
        refuse_labels_below(template)
        sources, n_columns = Sources.restore(template, tensors, header), len(names) + len(template.sources)
        vocabulary = Vocabulary.restore(template.resolved(len(names)), tensors, header, n_columns)
        return cls(vocabulary, names, sources, Numbers.restore(template, tensors, header, len(names)))


def columns_within(extractor: Any) -> ColumnFeatures | None:
    """The features of columns, beside those of segments and of labels below; None where there are none."""
    for name in ("tokens", "base"):
        extractor = getattr(extractor, name, extractor)
    return extractor if isinstance(extractor, ColumnFeatures) else None


def warn_of_mistakes(template: Template, vocabulary: Vocabulary, n_tokens: int) -> None:
    """Warn of likely mistakes in a template, before a model is trained with it."""
    own = [] if template.name in BUILTIN else mistakes(template)
    for line in [*own, *mistakes_in_use(vocabulary, n_tokens)]:
        warnings.warn(line, stacklevel=3)


def read_template(header: HeaderReader) -> Template:
    """The template that a header holds as text."""
    return parse_template(header.text("text"), header.text("name"))


def refuse_labels_below(template: Template) -> None:
    """Only layers of a cascade read the labels below."""
    if any(cell.reader.column == BELOW for pattern in template.patterns for cell in pattern.cells):
        raise ModelFileError(f"template {template.name}: reads the labels below, which only layers of a cascade have")


def columns_of(corpus: Corpus, names: Sequence[str] | None = None) -> Columns:
    """These columns of a corpus, or all but its label."""
    names = corpus.input_names if names is None else names
    return Columns([corpus.values(n) for n in names], [corpus.codes(n) for n in names], corpus.offsets)


def few_tokens(X: Any, n_columns: int) -> tuple[list[Sequence[str]], Longs] | None:
    """The values [columns][T] of a few tokens and the offsets of their sentences, where these are plain lists of
    strings (one column) or of tuples of strings; None for all else."""
    if type(X) is not list or not all(type(sentence) is list for sentence in X):
        return None
    tokens: list[Any] = X[0] if len(X) == 1 else list(itertools.chain.from_iterable(X))
    if not 0 < len(tokens) <= FEW:
        return None
    columns: list[Sequence[str]] = [tokens]
    if n_columns > 1:
        if set(map(type, tokens)) != {tuple} or set(map(len, tokens)) != {n_columns}:
            return None
        columns = list(zip(*tokens, strict=True))
    if any(set(map(type, values)) != {str} for values in columns):
        return None
    ends = itertools.accumulate(map(len, X), initial=0)
    return columns, np.fromiter(ends, np.int64, len(X) + 1)


# -- arrays -----------------------------------------------------------------------------------------------------------


class ArrayFeatures:
    """Rows of numbers, one per token: column d is feature d."""

    kind: ClassVar[str] = "arrays"
    cell_kinds = ("state",)

    def __init__(self, n_columns: int):
        self.n_features, self.mark = n_columns, new_mark()

    @classmethod
    def learn(
        cls, X: Any, template: Any, min_count: int, may_be_empty: bool = False, given: Given = NOTHING
    ) -> tuple["ArrayFeatures", dict[str, Incidence], Longs]:
        first = next((np.asarray(x) for x in X if len(x)), None)
        if first is None:
            raise CorpusError("X: got no tokens, expected at least one row")
        extractor = cls(first.shape[1])
        incidences, offsets = extractor.encode(X)
        return extractor, incidences, offsets

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        rows = []
        for n, x in enumerate(listed(X)):
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
                raise CorpusError(f"X: sentence {n}, token {t}: feature {d} is {x[t][d]}; expected {VALUE_RANGE}")
            rows.append(row)
        offsets = offsets_from([len(r) for r in rows])
        values = np.concatenate(rows) if rows else np.empty((0, self.n_features), np.float32)
        ptr = np.arange(len(values) + 1, dtype=np.int64) * self.n_features
        feature = np.tile(np.arange(self.n_features, dtype=np.int32), len(values))
        return {"state": on_tokens(ptr, feature, values.reshape(-1))}, offsets

    def merged(self, new: Extractor) -> "ArrayFeatures":
        """The same columns: arrays have no vocabulary to learn."""
        if not isinstance(new, ArrayFeatures):
            raise other_kind(self, new)
        if new.n_features != self.n_features:
            raise CorpusError(f"X: the model reads rows of {self.n_features} numbers, got rows of {new.n_features}")
        return ArrayFeatures(self.n_features)

    def numbers_in(self, merged: "ArrayFeatures") -> Longs:
        """The numbers [F] of these features in an extractor that was merged from this one."""
        return np.arange(self.n_features, dtype=np.int64)

    def reduced(self, used: Bools) -> "tuple[ArrayFeatures, Bools]":
        """All columns: they are known by their places."""
        return ArrayFeatures(self.n_features), np.ones_like(used)

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
    X: Any, template: str | Template, min_count: int, may_be_empty: bool = False, given: Given = NOTHING
) -> tuple[Extractor, dict[str, Incidence], Longs]:
    """The extractor for this kind of input, its vocabulary learnt, and the training data encoded; an error where no
    feature is frequent enough, unless the vocabulary `may_be_empty`."""
    if min_count < 1:
        raise OptionError(f"min_count: expected 1 or more, got {min_count}")
    kind = kind_of(X)
    sentences = X.X if isinstance(X, Layered) else X
    if not isinstance(sentences, Corpus) and len(sentences) == 0:
        raise CorpusError("X: got no sentences, expected at least one")
    counted = isinstance(sentences, Corpus | Collected)
    if not (sentences.n_tokens if counted else any(len(sentence) for sentence in sentences)):
        raise CorpusError("X: got no tokens, expected at least one")
    if (given.names() or given.vectors is not None) and kind_of(sentences) != "columns":
        named = "dictionaries" if given.dictionaries else "clusters" if given.clusters else "vectors"
        raise OptionError(f"{named}: need words, but the sentences are {kind_of(sentences)}; leave them out")
    learnt: tuple[Extractor, dict[str, Incidence], Longs]
    learnt = EXTRACTORS[kind].learn(X, template, min_count, may_be_empty, given)
    return learnt
