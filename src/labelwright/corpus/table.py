"""The Corpus: columns of interned values, cut into sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labelwright.corpus.labels import check_labels, place_of, plain_label, wrong_label
from labelwright.corpus.limits import LONGEST_VALUE, too_long
from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.corpus.partial_labels import check_known, is_set, sets_among
from labelwright.corpus.schemes import convert_codes
from labelwright.corpus.tabular import frame_names, is_frame, table_rows
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import shown

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Tokenizer


class Column(NamedTuple):
    """One column of a corpus."""

    #: [V]        distinct values in order of first appearance: strings; labels may be numbers
    values: list[Any]
    codes: np.ndarray  #: [T] int32  index into values


class RawText(NamedTuple):
    """The text a corpus was read from, and where new values go when it is written again."""

    text: bytes  #: the whole file
    #: [T] int64  where the last column of each token (in CoNLL-U: the label) starts
    starts: np.ndarray
    ends: np.ndarray  #: [T] int64  and where it ends
    marks: np.ndarray  #: [D] int64  ends of the lines that mark documents
    separator: bytes  #: between the columns of this file

    def edited(self, columns: Sequence[Sequence[str]], replacing: bool) -> bytes:
        """Return the text with one value per column and token, added after starts:ends or replacing
        it."""
        inserted = [b""] * len(self.ends)
        for number, column in enumerate(columns):
            sign = b"" if replacing and not number else self.separator
            inserted = [
                before + sign + value.encode()
                for before, value in zip(inserted, column, strict=True)
            ]
        cuts = (self.starts if replacing else self.ends).tolist()
        resume = self.ends.tolist()
        if not replacing and len(self.marks):
            inserted += [(self.separator + b"O") * len(columns)] * len(self.marks)
            cuts += self.marks.tolist()
            order = sorted(range(len(cuts)), key=cuts.__getitem__)
            inserted, cuts = [inserted[k] for k in order], [cuts[k] for k in order]
            resume = cuts
        out = [b""] * (2 * len(cuts))
        out[::2] = [self.text[a:b] for a, b in zip([0, *resume], cuts, strict=False)]
        out[1::2] = inserted
        return b"".join(out) + (self.text[resume[-1] :] if resume else self.text)

    def respelled(self, values: Sequence[str]) -> "RawText":
        """Return the raw text with the values [T] in place of starts:ends."""
        sizes = np.array([len(value.encode()) for value in values], dtype=np.int64)  # [T]
        gained = sizes - (self.ends - self.starts)  # [T]
        shift = np.cumsum(gained)  # [T] by how much the text after each token is shifted
        marks = self.marks + np.concatenate([[0], shift])[np.searchsorted(self.ends, self.marks)]
        return self._replace(
            text=self.edited([values], replacing=True),
            starts=self.starts + shift - gained,
            ends=self.ends + shift,
            marks=marks,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Sentences as columns of interned values; it holds no Python object per token.

    >>> corpus = Corpus.from_sequences([["the", "dog"], ["dogs"]], [["D", "N"], ["N"]])
    >>> len(corpus), corpus.n_tokens, corpus.names, corpus.values("label")
    (2, 3, ('word', 'label'), ['D', 'N'])
    """

    names: tuple[str, ...]  #: [C] of the columns
    columns: tuple[Column, ...]  #: [C] their values
    offsets: np.ndarray  #: [N+1] int64  sentence n is tokens offsets[n]:offsets[n+1]
    label: str | None = None  #: the name of the label column, None without one
    source: str = "corpus"  #: where the data come from, for messages: the path of a file
    #: [D] first sentence of each document
    documents: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    raw: RawText | None = None  #: the text of the file it was read from, to be written again
    arrays: np.ndarray | None = None  #: [T, D] float32  numbers beside the columns
    #: of a corpus made of texts; models trained on it remember it
    tokenizer: "Tokenizer | None" = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return (
            f"<Corpus {self.source}: {len(self)} sentences, {self.n_tokens} tokens, columns "
            f"{','.join(self.names)}>"
        )

    @property
    def n_tokens(self) -> int:
        """The number of tokens in all sentences."""
        return int(self.offsets[-1])

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of all columns but the label."""
        return tuple(name for name in self.names if name != self.label)

    def _column(self, name: str) -> Column:
        if name not in self.names:
            raise CorpusError(
                f"{self.source}: no column {name!r}, expected one of {', '.join(self.names)}"
            )
        return self.columns[self.names.index(name)]

    def codes(self, name: str) -> np.ndarray:
        """Return the codes [T] of a column.

        name : of the column
        """
        return self._column(name).codes

    def values(self, name: str) -> list[str]:
        """Return the distinct values [V] of a column.

        name : of the column
        """
        return self._column(name).values

    def tokens(self, name: str) -> list[str]:
        """Return the values [T] of a column, sentence after sentence.

        name : of the column
        """
        column = self._column(name)
        flat: list[str] = np.array([*column.values, None], dtype=object)[column.codes].tolist()
        return flat

    def column(self, name: str) -> list[list[str]]:
        """Return a column as one list of strings per sentence.

        name : of the column
        """
        return self._cut(self.tokens(name))

    def _cut(self, flat: list[Any]) -> list[list[Any]]:
        bounds = self.offsets.tolist()
        return [flat[a:b] for a, b in pairwise(bounds)]

    @property
    def X(self) -> list[list[Any]]:  # noqa: N802
        """Sentences as lists of strings or, where there are several input columns, of tuples."""
        names = self.input_names
        if len(names) == 1:
            return self.column(names[0])
        return self._cut(list(zip(*map(self.tokens, names), strict=True)))

    @property
    def y(self) -> list[list[str]]:
        """The labels of each sentence."""
        if self.label is None:
            raise CorpusError(
                f"{self.source}: has no label column; name one of {', '.join(self.names)} with "
                "label="
            )
        return self.column(self.label)

    iloc = property(
        lambda self: self,
        doc="The corpus itself, as scikit-learn's tools expect it of what has `take`.",
    )

    def take(self, indices: slice | Sequence[int] | np.ndarray, axis: int = 0) -> "Corpus":
        """Return some sentences as a corpus, with only the values that occur in them.

        indices : numbers of sentences, or a slice
        axis : always 0, which scikit-learn gives for tables

        >>> Corpus.from_sequences([["a"], ["b", "c"]]).take([1, 0]).X
        [['b', 'c'], ['a']]
        """
        chosen = np.arange(len(self))[
            indices if isinstance(indices, slice) else np.asarray(indices, dtype=np.int64)
        ]
        lengths = np.diff(self.offsets)[chosen]
        offsets = offsets_from(lengths)
        rows = runs_of(self.offsets[chosen], lengths)[1]
        documents = self.documents
        if len(documents):  # a document starts where the chosen sentences pass into another one
            number = np.searchsorted(documents, chosen, side="right")
            documents = np.flatnonzero((np.diff(number, prepend=0) != 0) & (number > 0))
        columns = tuple(compacted(column.values, column.codes[rows]) for column in self.columns)
        arrays = None if self.arrays is None else self.arrays[rows]
        return replace(
            self, columns=columns, offsets=offsets, documents=documents, raw=None, arrays=arrays
        )

    def with_arrays(self, arrays: Sequence[Any]) -> "Corpus":
        """Return the corpus with rows of numbers beside its columns: an array [tokens, D] for each
        sentence.

        arrays : one for each sentence, all with as many numbers for each token

        >>> Corpus.from_sequences([["a", "b"]]).with_arrays([[[0.5, 1.0], [0.0, 2.0]]]).arrays.shape
        (2, 2)
        """
        try:
            given = [np.asarray(rows, np.float32) for rows in arrays]
        except (TypeError, ValueError, OverflowError):
            raise CorpusError(
                f"arrays: expected rows of numbers for each sentence, got {arrays!r:.40}"
            ) from None
        if len(given) != len(self):
            raise CorpusError(
                f"arrays: {len(given)} sentences, but {self.source} has {len(self)}; give one for "
                "each"
            )
        stacked = [rows for rows in given if rows.shape[:1] != (0,)]
        width = stacked[0].shape[1:] if stacked else (0,)
        for (n, rows), length in zip(enumerate(given), np.diff(self.offsets).tolist(), strict=True):
            if rows.shape[:1] != (length,) or (
                length and (rows.ndim != 2 or rows.shape[1:] != width)
            ):
                wanted = f"{length} rows of {width[0] if width else 'as many'} numbers"
                raise CorpusError(
                    f"arrays: sentence {n}: expected {wanted}, got an array of shape {rows.shape}"
                )
        flat = np.concatenate(stacked) if stacked else np.empty((0, 0), np.float32)
        finite = np.isfinite(flat).all(axis=1)
        if not finite.all():
            raise CorpusError(
                f"arrays: row {int(finite.argmin())}: expected finite numbers, got infinity or NaN"
            )
        return replace(self, arrays=flat)

    def split(self, fraction: float, random_state: int | None = 0) -> tuple["Corpus", "Corpus"]:
        """Split the corpus in two, the first with this fraction of sentences drawn at random (None:
        the first ones).

        fraction : between 0 and 1
        random_state : seed of the draw

        >>> left, right = Corpus.from_sequences([["a"], ["b"], ["c"], ["d"]]).split(0.75)
        >>> len(left), len(right)
        (3, 1)
        """
        size = round(fraction * len(self))
        if not 0 < size < len(self):
            raise OptionError(
                f"split: fraction {fraction} of {len(self)} sentences leaves a part empty"
            )
        order = np.arange(len(self))
        if random_state is not None:
            np.random.default_rng(random_state).shuffle(order)
        return self.take(np.sort(order[:size])), self.take(np.sort(order[size:]))

    def select(self, names: Sequence[str], label: str | None = None) -> "Corpus":
        """Return the corpus with these columns only, in this order; the label stays the label
        unless another is named.

        names : of the columns to keep
        label : the label column, if it is to be another one

        >>> Corpus.from_sequences([[("dogs", "NNS")]], [["B-NP"]]).select(["word", "label"]).X
        [['dogs']]
        """
        columns = tuple(map(self._column, names))
        label = label or self.label
        if label not in names:
            label = None
        return replace(self, names=tuple(names), columns=columns, label=label, raw=None)

    def renamed(self, names: Sequence[str], label: str | None) -> "Corpus":
        """Return the corpus under other column names; `label` names the label column, None for
        none.

        names : one for each column
        label : the new name of the label column

        >>> Corpus.from_sequences([[("dogs", "NNS")]]).renamed(["form", "tag"], label="tag").y
        [['NNS']]
        """
        check_names(names, len(self.names), self.source)
        check_label(label, names, self.source)
        return replace(self, names=tuple(names), label=label)

    def split_by(self, tokenizer: "Tokenizer | None") -> "Corpus":
        """Return the corpus with the tokenizer that a model trained on it shall use for text.

        tokenizer : how the texts of the corpus were split
        """
        return replace(self, tokenizer=tokenizer)

    def with_scheme(self, scheme: str, source: str | None = None) -> "Corpus":
        """Return the corpus with its labels rewritten in a scheme; raw text follows where the label
        is the last column.

        scheme : the scheme to write, as in bioes
        source : the scheme that the labels have; None: any mixture, read as conlleval does

        >>> Corpus.from_sequences([["a", "b"]], [["I-NP", "I-NP"]]).with_scheme("iob2").y
        [['B-NP', 'I-NP']]
        """
        if self.label is None:
            raise CorpusError(
                f"{self.source}: has no label column to write as {scheme}; name it with label="
            )
        number = self.names.index(self.label)
        old = self.columns[number]
        if any(found is not None for found in sets_among(old.values)):
            check_known(
                self.y, f"{self.source}: column {self.label}: cannot be written as {scheme}"
            )
        try:
            column = compacted(*convert_codes(old.values, old.codes, self.offsets, source, scheme))
        except OptionError as error:
            raise CorpusError(f"{self.source}: column {self.label}: {error}") from None
        corpus = replace(
            self, columns=(*self.columns[:number], column, *self.columns[number + 1 :])
        )
        if self.raw is None or corpus.tokens(self.label) == self.tokens(self.label):
            return corpus
        is_last = number == len(self.names) - 1
        return replace(
            corpus, raw=self.raw.respelled(corpus.tokens(self.label)) if is_last else None
        )

    @classmethod
    def from_sequences(
        cls,
        X: Iterable[Sequence[Any]],
        y: Iterable[Sequence[str]] | None = None,
        names: Sequence[str] | None = None,
        source: str = "X",
        reads: Sequence[str] = (),
    ) -> "Corpus":
        """Make a corpus from lists of strings, or of tuples of strings, and optionally of labels.

        A sentence may also be a table with a row for each token: an array of strings or a data
        frame, whose columns keep their names; `reads` are those to take of it.

        X : sentences, each a list of tokens or a table
        y : the labels of each sentence
        names : of all columns, the label last; by default word, pos, c2, ..., label
        source : what messages call the data
        reads : columns to take of data frames

        >>> Corpus.from_sequences([[("He", "PRP"), ("ran", "VBD")]]).names
        ('word', 'pos')
        """
        sentences, of_frames = _rows(checked_sentences(X, source), reads, source)
        flat = list(chain.from_iterable(sentences))
        kinds = set(map(type, flat))
        if all(issubclass(kind, str) for kind in kinds):
            columns = [intern_values(flat, sentences, source)]
        elif all(issubclass(kind, tuple | list) for kind in kinds):
            n_columns = len(flat[0])
            if set(map(len, flat)) != {n_columns} or not n_columns:
                position = next(
                    k for k, item in enumerate(flat) if len(item) != n_columns or not item
                )
                expected = f"expected {n_columns or 'some'} columns, got {len(flat[position])}"
                raise CorpusError(f"{source}: {_place(position, sentences)}: {expected}")
            columns = [
                intern_values(list(map(itemgetter(c), flat)), sentences, source)
                for c in range(n_columns)
            ]
        else:
            wrong = next(kind for kind in kinds if not issubclass(kind, str))
            place = _place(next(k for k, item in enumerate(flat) if type(item) is wrong), sentences)
            expected = "a string, or a tuple of strings at every token"
            raise CorpusError(f"{source}: {place}: expected {expected}, got {wrong.__name__}")
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        if y is not None:
            labels = checked_sentences(y, "y")
            if len(labels) != len(sentences):
                raise CorpusError(
                    f"y: {len(labels)} sentences, but {source} has {len(sentences)}; give one list "
                    "of labels for each"
                )
            for number, (got, wanted) in enumerate(
                zip(map(len, labels), lengths.tolist(), strict=True)
            ):
                if got != wanted:
                    raise CorpusError(
                        f"y: sentence {number} has {got} labels, but {source} has {wanted} tokens "
                        "there"
                    )
            columns.append(intern_labels(list(chain.from_iterable(labels)), labels, "y"))
        if names is None:
            names = default_names(len(columns), labelled=y is not None)
            names = [*of_frames, *names[len(of_frames) :]] if of_frames else names
        check_names(names, len(columns), source)
        label = None if y is None else names[-1]
        return cls(tuple(names), tuple(columns), offsets_from(lengths), label, source)


def intern_values(flat: list[Any], sentences: Sequence[Sequence[Any]], source: str) -> Column:
    """Number the distinct strings of a flat list [T] in order of appearance."""
    try:
        values = list(dict.fromkeys(flat))
    except TypeError:
        values = [None]
    if not all(isinstance(value, str) for value in values):
        position, wrong = next(
            (k, item) for k, item in enumerate(flat) if not isinstance(item, str)
        )
        raise CorpusError(
            f"{source}: {_place(position, sentences)}: expected a string, got {shown(wrong)}"
        )
    if max(map(len, values), default=0) > LONGEST_VALUE:
        position = next(k for k, item in enumerate(flat) if len(item) > LONGEST_VALUE)
        raise too_long(f"{source}: {_place(position, sentences)}", len(flat[position]))
    return _interned(flat, list(map(str, values)), values)


def intern_labels(flat: list[Any], sentences: Sequence[Sequence[Any]], source: str) -> Column:
    """Number the distinct labels of a flat list [T]: strings, or numbers of one type, which stay
    what they are; None where a label is unknown, a set where it is one of several."""
    if all(issubclass(kind, str) for kind in set(map(type, flat))):
        column = intern_values(flat, sentences, source)
    else:
        flat = [frozenset(map(plain_label, x)) if is_set(x) else plain_label(x) for x in flat]
        places = [
            (t, label)
            for t, x in enumerate(flat)
            if x is not None
            for label in (x if is_set(x) else [x])
        ]
        wrong = wrong_label([label for _, label in places])
        if wrong is not None:
            raise CorpusError(f"{source}: {_place(places[wrong[0]][0], sentences)}: {wrong[1]}")
        if frozenset() in flat:
            place = _place(flat.index(frozenset()), sentences)
            raise CorpusError(
                f"{source}: {place}: an empty set of labels; use None for an unknown label"
            )
        values = list(dict.fromkeys(flat))
        column = _interned(flat, values, values)
    check_labels(
        column.values, column.codes, offsets_from([len(sentence) for sentence in sentences]), source
    )
    return column


def _interned(flat: list[Any], values: list[Any], keys: list[Any]) -> Column:
    """A column of values, known in `flat` [T] by their keys."""
    index = {key: number for number, key in enumerate(keys)}
    return Column(
        values, np.fromiter(map(index.__getitem__, flat), dtype=np.int32, count=len(flat))
    )


def _place(position: int, sentences: Sequence[Sequence[Any]]) -> str:
    return place_of(position, offsets_from([len(sentence) for sentence in sentences]))


def compacted(values: list[str], codes: np.ndarray) -> Column:
    """Number values anew in order of appearance, without those that no code [T] names."""
    first = np.full(len(values), len(codes), dtype=np.int64)  # [V] where each value first appears
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
    renumbered = np.empty(len(values), dtype=np.int32)
    renumbered[order] = np.arange(len(order))
    return Column([values[number] for number in order.tolist()], renumbered[codes])


def default_names(n_columns: int, labelled: bool) -> tuple[str, ...]:
    """Name columns that have no names: word, pos, c2, ..., and label for the last one where there
    is a label.

    >>> default_names(2, True), default_names(4, True)
    (('word', 'label'), ('word', 'pos', 'c2', 'label'))
    """
    n_inputs = n_columns - labelled
    inputs = ["word", "pos", *(f"c{number}" for number in range(2, n_inputs))][:n_inputs]
    return (*inputs, "label") if labelled else tuple(inputs)


def check_names(names: Sequence[str], n_columns: int, source: str) -> None:
    """Refuse column names that are too few, too many, empty or equal."""
    if len(names) != n_columns:
        raise CorpusError(
            f"{source}: expected {len(names)} columns ({','.join(names)}), got {n_columns}"
        )
    if len(set(names)) != len(names) or not all(names):
        raise CorpusError(
            f"{source}: column names {','.join(names)}: expected each name once and none empty"
        )


def check_label(label: str | None, names: Sequence[str], source: str) -> None:
    """Refuse a label column that is missing."""
    if label is not None and label not in names:
        raise CorpusError(
            f"{source}: no column {label!r} to be the label, expected one of {', '.join(names)}"
        )


def taken(X: Any, which: Any) -> Any:
    """The sentences of these numbers, or what is said of each."""
    return X.take(which) if isinstance(X, Corpus) else [X[n] for n in which]


def in_lists(X: Any) -> Any:
    """Sentences that can be read twice: an iterator over them becomes a list, as does a sentence
    that is an iterator.

    >>> in_lists(iter([iter("ab"), ["c"]]))
    [['a', 'b'], ['c']]
    """
    if isinstance(X, np.ndarray) and not X.ndim:
        raise CorpusError("expected a list of sentences, got an array of no dimension")
    if not hasattr(X, "__len__") and hasattr(X, "__iter__"):
        return [listed_sentence(sentence) for sentence in X]
    if not isinstance(X, list | np.ndarray) and type(X) is not tuple:
        return X
    if any(isinstance(sentence, np.ndarray) and not sentence.ndim for sentence in X):
        raise CorpusError(
            "expected a list of sentences, each a list of tokens, got an array of no dimension "
            "among them"
        )
    return (
        X if all(hasattr(sentence, "__len__") for sentence in X) else list(map(listed_sentence, X))
    )


def listed_sentence(sentence: Any) -> Any:
    """A sentence that can be read twice."""
    return (
        sentence
        if hasattr(sentence, "__len__") or not hasattr(sentence, "__iter__")
        else list(sentence)
    )


def checked_sentences(X: Iterable[Sequence[Any]], source: str) -> list[Sequence[Any]]:
    """The sentences as a list, when they are sequences and not strings."""
    if isinstance(X, str | bytes):
        raise CorpusError(
            f"{source}: got one string, expected a list of sentences, each a list of tokens"
        )
    if is_frame(X):
        raise CorpusError(
            f"{source}: got one data frame, expected a list of them, one for each sentence; use "
            "labelwright.read_frame where a column says to which sentence a row belongs"
        )
    try:
        sentences: list[Sequence[Any]] = in_lists(list(X))
    except TypeError:
        raise CorpusError(
            f"{source}: got {type(X).__name__}, expected a list of sentences"
        ) from None
    if not sentences:
        raise CorpusError(f"{source}: got no sentences, expected at least one")
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str | bytes):
            raise CorpusError(
                f"{source}: sentence {number} is one string, expected a list of tokens; split it "
                "first"
            )
        if not hasattr(sentence, "__len__") or isinstance(sentence, dict):
            kind = type(sentence).__name__
            raise CorpusError(
                f"{source}: sentence {number} is of type {kind}, expected a list of tokens"
            )
    return sentences


def _rows(
    sentences: list[Sequence[Any]], reads: Sequence[str], source: str
) -> tuple[list[Sequence[Any]], Sequence[str] | None]:
    """Sentences that are tables as lists of tuples, and the names of the columns of frames."""
    if not any(
        issubclass(kind, np.ndarray) or hasattr(kind, "columns")
        for kind in set(map(type, sentences))
    ):
        return sentences, None
    frames = [sentence for sentence in sentences if is_frame(sentence)]
    names = frame_names(frames[0]) if frames else None
    if names is not None and reads:
        missing = [name for name in reads if name not in names]
        if not missing:
            names = list(reads)
        elif tuple(reads) != default_names(len(reads), labelled=False):
            # which stand for any columns, as many
            raise CorpusError(
                f"{source}: the model reads the column {missing[0]!r}, the frames have "
                f"{','.join(names)}"
            )
    return [
        table_rows(sentence, names, f"{source}: sentence {n}")
        for n, sentence in enumerate(sentences)
    ], names
