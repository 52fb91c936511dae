"""Labels: strings, or numbers that come back as numbers, and those of several layers; what column
files can hold."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from labelwright.corpus.limits import LONGEST_VALUE
from labelwright.corpus.tabular import frame_columns, is_frame, is_missing
from labelwright.errors import CorpusError
from labelwright.wording import shown

# What labels may be: name of the type, as model files store it -> how a label is read from its
# text.
READ_LABEL: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": "True".__eq__,
}


def plain_label(label: Any) -> Any:
    """A label as Python's own type, where it is one of NumPy's."""
    return label.item() if isinstance(label, np.generic) else label


def label_type(labels: Iterable[Any]) -> str:
    """The name of the type of labels, all of which have one type."""
    return next(
        ("str" if isinstance(label, str) else type(label).__name__ for label in labels), "str"
    )


def wrong_label(labels: Sequence[Any]) -> tuple[int, str] | None:
    """The first label that is none, or is of another type than those before it: its place, and what
    to say."""
    kinds = [str if isinstance(label, str) else type(label) for label in labels]
    expected = kinds[0].__name__ if kinds and kinds[0].__name__ in READ_LABEL else "str"
    for i, (label, kind) in enumerate(zip(labels, kinds, strict=True)):
        if issubclass(kind, tuple | np.ndarray):
            return (
                i,
                (
                    f"expected a label, got {shown(label)}; give a set where one of several labels "
                    "is right"
                ),
            )
        if is_missing(label):
            return i, f"no label, but {shown(label)}; give None where it is unknown"
        if kind.__name__ != expected:
            wanted = {"str": "a string"}.get(
                expected, f"a label of type {expected}, as those before it"
            )
            return i, f"expected {wanted}, got {shown(label)}"
    return None


def check_types(known: Sequence[Any], labels: Sequence[Any], source: str) -> None:
    """Refuse labels of another type than those of a model."""
    if not known or not labels or label_type(known) == label_type(labels):
        return
    ours = f"the labels of the model are of type {label_type(known)}, as {shown(known[0])}"
    raise CorpusError(
        f"{source}: {ours}, got {shown(labels[0])} of type {label_type(labels)}; give labels of "
        "one type"
    )


def text_of(labels: Iterable[Any]) -> list[str]:
    """Labels as model files and reports write them."""
    return list(map(str, labels))


def labels_by_layer(y: Any, names: Sequence[str], place: str = "y: ") -> dict[str, Any]:
    """The labels of every layer {name: sentences}, of sentences that have them together: lists with
    a tuple for each token, in the order of the layers, or frames with a column for each layer.

    >>> labels_by_layer([[("D", "B-NP"), ("N", "I-NP")]], ["pos", "chunk"])
    {'pos': [['D', 'N']], 'chunk': [['B-NP', 'I-NP']]}
    """
    if isinstance(y, Mapping):
        return dict(y)
    expected = f"expected the labels of every layer, for each token a tuple ({', '.join(names)})"
    together: list[Any] = []
    for n, sentence in enumerate(y):
        where = f"{place}sentence {n}"
        if is_frame(sentence):
            sentence = list(zip(*frame_columns(sentence, names, where), strict=True))
        elif isinstance(sentence, str) or not isinstance(sentence, Sequence | np.ndarray):
            raise CorpusError(f"{where}: {expected}, got {shown(sentence)}")
        for t, row in enumerate(sentence):
            if not isinstance(row, list | tuple | np.ndarray) or len(row) != len(names):
                raise CorpusError(f"{where}, token {t}: {expected}, got {shown(row)}")
        together.append(sentence)
    return {name: [[row[k] for row in rows] for rows in together] for k, name in enumerate(names)}


# -- what column files can hold --------------------------------------------------------------------

_SIGNS = {"\t": "a tab", "\n": "a newline", "\r": "a carriage return"}
_MARK = "-DOCSTART-"
_BOM = "\ufeff"


def why_unwritable(value: Any, separator: str = "\t", is_label: bool = True) -> str | None:
    """Why no column file with this separator can hold a label, or another value; None where one
    can.

    >>> why_unwritable("B-NP"), why_unwritable("a\\tb"), why_unwritable("")
    (None, 'holds a tab', 'is empty')
    """
    if not isinstance(value, str):
        return f"is of type {type(value).__name__}, not a string"
    if not value:
        return "is empty"
    for sign, name in _SIGNS.items():
        if sign in value:
            return f"holds {name}"
    if not is_text(value):
        return "holds half of a surrogate pair"
    if 4 * len(value) > LONGEST_VALUE and len(value.encode()) > LONGEST_VALUE:
        return f"has more than {LONGEST_VALUE:,} bytes"
    if is_label and value != value.strip(" "):
        return "begins or ends with a space"
    is_cut = separator == " " and " " in value
    return (
        "holds a space, but spaces separate the columns of the file; use tabs" if is_cut else None
    )


def unwritable_label(labels: Iterable[str]) -> str | None:
    """What is wrong with the first label of a model that no column file can hold; None where all
    can be held.

    >>> unwritable_label(["O", "B-NP\\n"])
    "the label 'B-NP\\\\n' holds a newline, so no file can hold it"
    """
    return next(
        (
            f"{_named(x)} {why}, so no file can hold it"
            for x in labels
            if (why := why_unwritable(x))
        ),
        None,
    )


def _named(label: Any) -> str:
    return f"the label {label!r:.40}" if isinstance(label, str) else "the label"


def is_text(value: str) -> bool:
    """Whether a string can be encoded: there are no halves of surrogate pairs in it."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def place_of(token: int, offsets: np.ndarray) -> str:
    """Where a token stands, for messages; offsets [N+1] of sentences."""
    sentence = int(np.searchsorted(offsets, token, side="right")) - 1
    return f"sentence {sentence}, token {token - int(offsets[sentence])}"


def check_labels(
    values: Sequence[Any], codes: np.ndarray, offsets: np.ndarray | None, source: str
) -> None:
    """Refuse labels, distinct values of which codes [T] tell the tokens, that no column file can
    hold.  Sets of labels are looked into, numbers and None pass."""
    for code, value in enumerate(values):
        for label in value if isinstance(value, frozenset) else (value,):
            reason = why_unwritable(label) if isinstance(label, str) else None
            if isinstance(label, int) and not -(1 << 63) <= label < 1 << 63:
                reason = "is a whole number of more than 64 bits"
            if reason is not None:
                token = int(np.argmax(codes == code))
                place = f"token {token}" if offsets is None else place_of(token, offsets)
                raise CorpusError(
                    f"{source}: {place}: {_named(label)} {reason}, so no file can hold it; rename "
                    "it"
                )


def check_column(
    flat: Sequence[Any], offsets: np.ndarray, source: str, separator: str, is_label: bool = True
) -> None:
    """Refuse values [T] that would be read back differently from a file with this separator."""
    for value in dict.fromkeys(flat) if all(isinstance(value, str) for value in flat) else flat:
        reason = why_unwritable(value, separator, is_label)
        if reason is not None:
            place = place_of(list(flat).index(value), offsets)
            raise CorpusError(f"{source}: {place}: cannot write {value!r:.40}: it {reason}")


def check_written(labels: Iterable[Any], source: str, separator: str = "\t") -> None:
    """Refuse labels that a file with this separator cannot hold, where they stand in no column of
    sentences."""
    for label in dict.fromkeys(labels):
        reason = why_unwritable(label, separator)
        if reason is not None:
            raise CorpusError(f"{source}: cannot write the label {label!r:.40}: it {reason}")


def check_rows(columns: Sequence[Sequence[str]], offsets: np.ndarray, source: str) -> None:
    """Refuse rows that would be read back as something else: a mark of a document, a byte order
    mark, blanks that are no part of a value, no row at all for a sentence."""
    for sentence in np.flatnonzero(np.diff(offsets) == 0).tolist():
        raise CorpusError(
            f"{source}: sentence {sentence} has no tokens, and would not be read back; leave it out"
        )

    def refuse(token: int, value: str, reason: str) -> None:
        raise CorpusError(
            f"{source}: {place_of(token, offsets)}: cannot write {value!r:.40}: {reason}"
        )

    first, last = columns[0], columns[-1]
    if first and first[0].startswith(_BOM):
        refuse(0, first[0], "it begins with a byte order mark")
    if any(value.endswith(" ") for value in set(last)):
        token = next(token for token, value in enumerate(last) if value.endswith(" "))
        refuse(token, last[token], "it ends with a space, as does the line")
    if any(value == _MARK or value.startswith(f"{_MARK} ") for value in set(first)):
        for token in offsets[:-1][np.diff(offsets) == 1].tolist():
            if first[token] == _MARK or first[token].startswith(f"{_MARK} "):
                refuse(token, first[token], "a sentence of it alone marks a document")
