"""From the user's input (columns, feature dicts, arrays) to features as integers: one extractor for
each kind."""

import itertools
import re
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
from labelwright.features.attributes import DictFeatures as DictFeatures
from labelwright.features.builtin import BUILTIN
from labelwright.features.builtin import template as find_template
from labelwright.features.incidence import (
    Composed,
    Incidence,
    Longs,
    new_mark,
    on_tokens,
    other_kind,
)
from labelwright.features.incidence import Encoded as Encoded
from labelwright.features.incidence import Extractor as Extractor
from labelwright.features.incidence import Tensors as Tensors
from labelwright.features.numbers import NO_NUMBERS, Numbers
from labelwright.features.sources import NO_SOURCES, NOTHING, Given, Sources, with_usual_lines
from labelwright.features.template import BELOW, Pattern, Template, parse_template
from labelwright.features.vocabulary import FEW, Columns, Vocabulary, patterns_of, table_of
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.structures.passing import Layered

MOST_COLUMNS = 1 << 31  # of arrays


def kind_of(X: Any) -> str:
    """columns, dicts or arrays, by the first token; or layered.  Sentences are read, so they must
    not be iterators."""
    if isinstance(X, Corpus):
        return "columns"
    if isinstance(X, Layered):
        return "layered"
    if isinstance(X, Collected):
        return "dicts"
    if hasattr(X, "toarray"):
        raise CorpusError(
            "X: expected a list of sentences, got a sparse matrix; give an array for each sentence"
        )
    if isinstance(X, str | bytes) or not (isinstance(X, Iterable) or is_frame(X)):
        raise CorpusError(f"X: expected a list of sentences, got {type(X).__name__}")
    for sentence in () if is_frame(X) else X:
        if is_frame(sentence):
            return "columns"
        if (
            isinstance(sentence, np.ndarray)
            and sentence.dtype.kind in "fiub"
            and sentence.ndim == 2
        ):
            return "arrays"
        if not isinstance(sentence, Iterable):
            raise CorpusError(
                f"X: a sentence is of type {type(sentence).__name__}, expected a list of tokens"
            )
        for token in sentence:
            if isinstance(token, Mapping | AbstractSet):
                return "dicts"
            # attributes where lengths differ; else they look the same as columns
            if isinstance(token, list):
                sizes = {
                    len(token) for sentence in X for token in sentence if hasattr(token, "__len__")
                }
                if len(sizes) > 1:
                    return "dicts"
                raise CorpusError(
                    f"X: tokens that are lists of {sizes.pop()} could be columns or attributes; "
                    "give tuples for columns, and sets or {attribute: value} dicts for attributes"
                )
            return (
                "arrays"
                if isinstance(token, np.ndarray) and token.dtype.kind in "fiub"
                else "columns"
            )
    return "columns"


def collected(X: Any) -> Any:
    """Sentences that can be read twice; an iterator over sentences of feature dicts is read once,
    sentence by sentence."""
    if hasattr(X, "__len__") or not hasattr(X, "__iter__") or is_dataset(X):
        return listed(X)
    sentences = map(listed_sentence, X)
    first = []  # up to the first with a token
    for sentence in sentences:
        first.append(sentence)
        if not hasattr(sentence, "__len__") or len(sentence):
            break
    every = itertools.chain(first, sentences)
    tokens = first[-1] if first and isinstance(first[-1], Iterable) else ()
    has_dicts = any(isinstance(token, Mapping | AbstractSet) for token in tokens)
    return Collected.of(every) if has_dicts else list(every)


# -- columns ---------------------------------------------------------------------------------------


class ColumnFeatures(Composed):
    """Features that a template makes from columns (words, or tuples of words and tags)."""

    kind: ClassVar[str] = "columns"
    stored: ClassVar[dict[str, str]] = {"vocabulary": "", "sources": "", "numbers": ""}

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
        cls,
        X: Any,
        template: str | Template,
        min_count: int,
        may_be_empty: bool = False,
        given: Given = NOTHING,
    ) -> tuple["ColumnFeatures", dict[str, Incidence], Longs]:
        corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X)
        names, columns = corpus.input_names, columns_of(corpus)
        parsed = with_usual_lines(
            find_template(template, len(names)), given, corpus.arrays is not None
        )
        sources = Sources.of(parsed, given)
        columns = sources.extended(columns, sources.held_out(columns, given))
        numbers = given.numbers or Numbers.learn(parsed, columns, corpus.arrays, given.vectors)
        alone = may_be_empty or numbers.n_features > 0
        vocabulary, incidences = Vocabulary.learn(
            parsed.resolved(len(names)), columns, min_count, alone
        )
        numbers.added(incidences, columns, corpus.arrays, vocabulary.n_features)
        own = () if may_be_empty or parsed.name in BUILTIN else mistakes(parsed)
        for line in [*own, *(() if may_be_empty else mistakes_in_use(vocabulary, corpus.n_tokens))]:
            warnings.warn(line, stacklevel=2)
        return cls(vocabulary, names, sources, numbers), incidences, corpus.offsets

    def _of(self, parts: Sequence[Any]) -> "ColumnFeatures":
        vocabulary, sources, numbers = parts
        return ColumnFeatures(vocabulary, self.names, sources, numbers)

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        few = few_tokens(X, len(self.names))
        if few is not None and not self.numbers.lines:
            made = self.vocabulary.encode_few(self.sources.extended_few(*few), few[1])
            if made is not None:
                return made, few[1]
        corpus = corpus_with(X, self.names)
        columns = self.sources.extended(columns_of(corpus))
        incidences = self.vocabulary.encode(columns)
        self.numbers.added(incidences, columns, corpus.arrays, self.vocabulary.n_features)
        return incidences, corpus.offsets

    def merged(self, new: Extractor) -> "ColumnFeatures":
        if isinstance(new, ColumnFeatures) and len(new.names) != len(self.names):
            names = ",".join(self.names)
            raise CorpusError(
                f"X: the model reads {len(self.names)} columns ({names}), got {len(new.names)}"
            )
        merged: ColumnFeatures = super().merged(new)
        return merged

    def header(self) -> dict[str, Any]:
        template = self.vocabulary.template
        described = {
            "columns": list(self.names),
            "template": {"name": template.name, "text": template.text},
        }
        return described | super().header()

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "ColumnFeatures":
        names, template = header.names("columns"), read_template(header.part("template"))
        sources, n_columns = (
            Sources.restore(template, tensors, header),
            len(names) + len(template.sources),
        )
        vocabulary = Vocabulary.restore(template.resolved(len(names)), tensors, header, n_columns)
        return cls(
            vocabulary, names, sources, Numbers.restore(template, tensors, header, len(names))
        )


def columns_within(extractor: Any) -> ColumnFeatures | None:
    """The features of columns, beside those of segments and of labels below; None where there are
    none."""
    for name in ("tokens", "base"):
        extractor = getattr(extractor, name, extractor)
    return extractor if isinstance(extractor, ColumnFeatures) else None


def read_template(header: HeaderReader) -> Template:
    """The template that a header holds as text; none of a layer of a cascade, which reads the
    labels below."""
    template = parse_template(header.text("text"), header.text("name"))
    if BELOW in template.columns:
        raise ModelFileError(
            f"template {template.name}: reads the labels below, which only layers of a cascade have"
        )
    return template


def corpus_with(X: Any, names: Sequence[str]) -> Corpus:
    """Sentences as a corpus of as many columns as a model reads."""
    corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X, reads=names)
    given = len(corpus.input_names)
    if given != len(names):
        beside = " besides the label" if given > len(names) else ""
        raise CorpusError(
            f"{corpus.source}: the model reads {len(names)} columns ({','.join(names)}), got "
            f"{given}{beside}"
        )
    return corpus


def columns_of(corpus: Corpus) -> Columns:
    """All columns of a corpus but its label."""
    names = corpus.input_names
    return Columns(
        [corpus.values(n) for n in names], [corpus.codes(n) for n in names], corpus.offsets
    )


def few_tokens(X: Any, n_columns: int) -> tuple[list[Sequence[str]], Longs] | None:
    """The values [columns][T] of a few tokens and the offsets of their sentences, where these are
    plain lists of strings (one column) or of tuples of strings; None for all else."""
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


# -- arrays ----------------------------------------------------------------------------------------


def rows_of_numbers(X: Any, width: int, dtype: Any) -> list[np.ndarray]:
    """The rows of numbers [T, width] of each sentence."""
    rows = []
    for n, x in enumerate(X):
        try:
            with np.errstate(over="ignore"):  # what is too large is infinite
                row = np.asarray(x, dtype) if len(x) else np.empty((0, width), dtype)
        except ValueError:
            raise CorpusError(f"X: sentence {n}: expected rows of {width} numbers each") from None
        if row.ndim != 2 or row.shape[1] != width:
            got = f"rows of {row.shape[1]}" if row.ndim == 2 else f"an array of shape {row.shape}"
            raise CorpusError(f"X: sentence {n}: expected rows of {width} numbers, got {got}")
        rows.append(row)
    return rows


class ArrayFeatures(Extractor):
    """Rows of numbers, one per token: column d is feature d."""

    kind: ClassVar[str] = "arrays"

    def __init__(self, n_columns: int):
        self.n_features, self.mark = n_columns, new_mark()

    @classmethod
    def learn(
        cls,
        X: Any,
        template: Any,
        min_count: int,
        may_be_empty: bool = False,
        given: Given = NOTHING,
    ) -> tuple["ArrayFeatures", dict[str, Incidence], Longs]:
        first = next((np.asarray(x) for x in X if len(x)), None)
        if first is None:
            raise CorpusError("X: got no tokens, expected at least one row")
        extractor = cls(first.shape[1])
        incidences, offsets = extractor.encode(X)
        return extractor, incidences, offsets

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        given = listed(X)
        rows = rows_of_numbers(given, self.n_features, np.float32)
        for n, row in enumerate(rows):
            if not np.isfinite(row).all():
                t, d = np.argwhere(~np.isfinite(row))[0]
                got = f"feature {d} is {given[n][t][d]}; expected {VALUE_RANGE}"
                raise CorpusError(f"X: sentence {n}, token {t}: {got}")
        offsets = offsets_from([len(r) for r in rows])
        values = np.concatenate([np.empty((0, self.n_features), np.float32), *rows])
        ptr = np.arange(len(values) + 1, dtype=np.int64) * self.n_features
        feature = np.tile(np.arange(self.n_features, dtype=np.int32), len(values))
        return {"state": on_tokens(ptr, feature, values.reshape(-1))}, offsets

    def merged(self, new: Extractor) -> "ArrayFeatures":
        """The same columns: arrays have no vocabulary to learn."""
        if not isinstance(new, ArrayFeatures):
            raise other_kind(self, new)
        if new.n_features != self.n_features:
            raise CorpusError(
                f"X: the model reads rows of {self.n_features} numbers, got rows of "
                f"{new.n_features}"
            )
        return ArrayFeatures(self.n_features)

    def name(self, feature: int) -> str:
        return f"x[{feature}]"

    def header(self) -> dict[str, Any]:
        return {"n_columns": self.n_features}

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "ArrayFeatures":
        return cls(header.whole("n_columns", 1, MOST_COLUMNS))


EXTRACTORS: dict[str, Any] = {c.kind: c for c in (ColumnFeatures, DictFeatures, ArrayFeatures)}


def learn(
    X: Any,
    template: str | Template,
    min_count: int,
    may_be_empty: bool = False,
    given: Given = NOTHING,
) -> tuple[Extractor, dict[str, Incidence], Longs]:
    """The extractor for this kind of input, its vocabulary learnt, and the training data encoded;
    an error where no feature is frequent enough, unless the vocabulary `may_be_empty`."""
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
        named = (
            "dictionaries" if given.dictionaries else "clusters" if given.clusters else "vectors"
        )
        raise OptionError(
            f"{named}: need words, but the sentences are {kind_of(sentences)}; leave them out"
        )
    learnt: tuple[Extractor, dict[str, Incidence], Longs]
    learnt = EXTRACTORS[kind].learn(X, template, min_count, may_be_empty, given)
    return learnt


# -- mistakes in templates that are no errors ------------------------------------------------------

# Regular expressions here are Wapiti's, where `[A-Z]`, `a|b` and `\d+` are plain characters: they
# match nothing that their writer had in mind.  Two lines of one name make one feature of equal
# values.  A line that never matches, or a template that makes more features than data can teach, is
# seen once the vocabulary is learnt.

ENOUGH_TOKENS = 200  # of training data, to say that something never matches
MANY_FEATURES = 1_000_000
MANY_PER_TOKEN = 30
SHOWN = 3  # lines with the most features
NEVER = {
    "test": "false",
    "byte_test": "false",
    "match": "",
    "lower_match": "",
    "byte_match": "",
    "byte_lower_match": "",
}

# What looks like another kind of regular expression, what it would mean there, and what to write
# here.
FOREIGN = {
    r"\[[^\]]+\]": (
        "a set of characters",
        r"use a class such as \u, \l, \d, or one %t for each character",
    ),
    r"\([^)]*\)": ("a group", "write one line for each alternative"),
    r"[^|]\|[^|]": ("an alternative", "write one line for each alternative"),
    r"(?:\.\.|.)\+": ("a repetition", r"write the character twice, as in \d\d*"),
    r".\{\d+(,\d*)?\}": ("a repetition", "write the character as often as it must occur"),
    r"\\b": ("a word boundary", "use ^ and $"),
}


def _place(template: Template, pattern: Pattern) -> str:
    return f"{template.name}:{pattern.line}: {pattern.text}"


def mistakes(template: Template) -> list[str]:
    """What is likely to be a mistake in a template, whatever the data."""
    foreign, twice = list[str](), list[str]()
    first: dict[str, Pattern] = {}
    for pattern in template.patterns:
        place = _place(template, pattern)
        for regex in dict.fromkeys(
            cell.reader.argument for cell in pattern.cells if cell.reader.function in NEVER
        ):
            # a backslash says that the character itself is meant
            plain = re.sub(r"\\[^b]", "..", str(regex))
            match, (meaning, remedy) = next(
                (
                    (match, said)
                    for form, said in FOREIGN.items()
                    if (match := re.search(form, plain))
                ),
                (None, ("", "")),
            )
            if match is not None:
                written = str(regex)[match.start() : match.end()]
                foreign.append(
                    f"{place}: {written} is not {meaning} here, but these characters; {remedy}"
                )
        if not pattern.cells or ":" not in pattern.literals[0] or len(pattern.name) < 2:
            continue  # a bare U: shares its features on purpose
        before = first.setdefault(pattern.name, pattern)
        if before is not pattern:
            shared = table_of(before) == table_of(pattern)
            effect = (
                "equal values of both are one feature"
                if shared
                else "nobody can tell their features apart"
            )
            name = f"has the name of line {before.line}"
            twice.append(f"{place}: {name}, so {effect}; give each line a name of its own")
    return foreign + twice


def mistakes_in_use(vocabulary: Vocabulary, n_tokens: int) -> list[str]:
    """What is likely to be a mistake in a template, by the features that it makes of so many
    tokens; built-in templates may have lines that never match."""
    template, n = vocabulary.template, vocabulary.n_features
    lines = []
    for pattern in (
        template.patterns if n_tokens >= ENOUGH_TOKENS and template.name not in BUILTIN else ()
    ):
        readers = [cell.reader for cell in pattern.cells]
        never = [
            r
            for r in readers
            if r.function in NEVER and set(vocabulary.values.get(r, ())) == {NEVER[r.function]}
        ]
        if never:
            lines.append(
                f"{_place(template, pattern)}: {never[0].argument} never matches in the training "
                "data"
            )
        elif readers and not len(vocabulary.rows.get(table_of(pattern), "?")):
            lines.append(
                f"{_place(template, pattern)}: makes no feature that occurs often enough; lower "
                "min_count"
            )
    if n >= MANY_FEATURES and n >= MANY_PER_TOKEN * n_tokens:
        counts = features_by_line(vocabulary)
        most = sorted(counts, key=lambda pattern: -counts[pattern])[:SHOWN]
        shown = ", ".join(f"{counts[pattern]:,} by {pattern.name}" for pattern in most)
        made = f"makes {n:,} features of {n_tokens:,} tokens, {shown}"
        lines.append(f"{template.name}: {made}; leave lines out, or use min_count=2")
    return lines


def features_by_line(vocabulary: Vocabulary) -> dict[Pattern, int]:
    """How many features each line makes; the first of several lines of one shape has them all."""
    counts: dict[Pattern, int] = {}
    tables = set()
    for pattern in dict.fromkeys(
        p for patterns in patterns_of(vocabulary.template).values() for p in patterns
    ):
        table = table_of(pattern)
        counts[pattern] = 0 if table in tables else len(vocabulary.rows[table])
        tables.add(table)
    return counts
