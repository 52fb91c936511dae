"""What column files can hold: values that come back as they were written."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from labelwright.corpus.limits import LONGEST_VALUE
from labelwright.errors import CorpusError

_SIGNS = {"\t": "a tab", "\n": "a newline", "\r": "a carriage return"}
_MARK = "-DOCSTART-"
_BOM = "\ufeff"


def why_unwritable(value: Any) -> str | None:
    """Why no column file can hold a label; None where one can.  Spaces inside are held where tabs separate columns.

    >>> why_unwritable("B-NP"), why_unwritable("a\\tb"), why_unwritable("")
    (None, 'holds a tab', 'is empty')
    """
    reason = _why_not(value)
    return "begins or ends with a space" if reason is None and value != value.strip(" ") else reason


def unwritable_label(labels: Iterable[str]) -> str | None:
    """What is wrong with the first label of a model that no column file can hold; None where all can be held.

    >>> unwritable_label(["O", "B-NP\\n"])
    "the label 'B-NP\\\\n' holds a newline, so no file can hold it"
    """
    for label in labels:
        reason = why_unwritable(label)
        if reason is not None:
            return _refusal(label, reason)
    return None


def _refusal(label: Any, reason: str) -> str:
    shown = f" {label!r:.40}" if isinstance(label, str) else ""
    return f"the label{shown} {reason}, so no file can hold it"


def _why_not(value: Any) -> str | None:
    """The same for other values, which may begin and end with spaces."""
    if not isinstance(value, str):
        return f"is of type {type(value).__name__}, not a string"
    if not value:
        return "is empty"
    for sign, name in _SIGNS.items():
        if sign in value:
            return f"holds {name}"
    if not is_text(value):
        return "holds half of a surrogate pair"
    return f"has more than {LONGEST_VALUE:,} bytes" if _is_long(value) else None


def _is_long(value: str) -> bool:
    """Whether a value is too long to be read again; the limit is in bytes."""
    size = len(value)
    return size > LONGEST_VALUE or (4 * size > LONGEST_VALUE and len(value.encode()) > LONGEST_VALUE)


def is_text(value: str) -> bool:
    """Whether a string can be encoded: there are no halves of surrogate pairs in it."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def place_of(token: int, offsets: np.ndarray) -> str:
    """Where a token stands, for messages; offsets [N+1] of sentences."""
    sentence = int(np.searchsorted(offsets, token, side="right")) - 1
    return f"sentence {sentence}, token {token - int(offsets[sentence])}"


def check_labels(values: Sequence[Any], codes: np.ndarray, offsets: np.ndarray | None, source: str) -> None:
    """Refuse labels, distinct values of which codes [T] tell the tokens, that no column file can hold.  Sets of labels
    are looked into, numbers and None pass."""
    for code, value in enumerate(values):
        for label in value if isinstance(value, frozenset) else (value,):
            reason = why_unwritable(label) if isinstance(label, str) else _why_too_large(label)
            if reason is not None:
                token = int(np.argmax(codes == code))
                place = f"token {token}" if offsets is None else place_of(token, offsets)
                raise CorpusError(f"{source}: {place}: {_refusal(label, reason)}; rename it")


def _why_too_large(label: Any) -> str | None:
    is_large = isinstance(label, int) and not -(1 << 63) <= label < 1 << 63
    return "is a whole number of more than 64 bits" if is_large else None


def check_column(flat: Sequence[Any], offsets: np.ndarray, source: str, separator: str, is_label: bool = True) -> None:
    """Refuse values [T] that would be read back differently from a file with this separator."""
    for value in dict.fromkeys(flat) if all(isinstance(value, str) for value in flat) else flat:
        reason = (why_unwritable(value) if is_label else _why_not(value)) or _why_separated(value, separator)
        if reason is not None:
            place = place_of(list(flat).index(value), offsets)
            raise CorpusError(f"{source}: {place}: cannot write {value!r:.40}: it {reason}")


def check_written(labels: Iterable[Any], source: str, separator: str = "\t") -> None:
    """Refuse labels that a file with this separator cannot hold, where they stand in no column of sentences."""
    for label in dict.fromkeys(labels):
        reason = why_unwritable(label) or _why_separated(label, separator)
        if reason is not None:
            raise CorpusError(f"{source}: cannot write the label {label!r:.40}: it {reason}")


def _why_separated(value: str, separator: str) -> str | None:
    is_cut = separator == " " and " " in value
    return "holds a space, but spaces separate the columns of the file; use tabs" if is_cut else None


def check_rows(columns: Sequence[Sequence[str]], offsets: np.ndarray, source: str) -> None:
    """Refuse rows that would be read back as something else: a mark of a document, a byte order mark, blanks that are
    no part of a value, no row at all for a sentence."""
    for sentence in np.flatnonzero(np.diff(offsets) == 0).tolist():
        raise CorpusError(f"{source}: sentence {sentence} has no tokens, and would not be read back; leave it out")
    first, last = columns[0], columns[-1]
    if first and first[0].startswith(_BOM):
        raise _unwritable(0, offsets, source, first[0], "it begins with a byte order mark")
    for token in _tokens_with(last, lambda value: value.endswith(" ")):
        raise _unwritable(token, offsets, source, last[token], "it ends with a space, as does the line")
    for token in _tokens_with(first, lambda value: value == _MARK or value.startswith(f"{_MARK} ")):
        sentence = int(np.searchsorted(offsets, token, side="right")) - 1
        if offsets[sentence + 1] - offsets[sentence] == 1:
            raise _unwritable(token, offsets, source, first[token], "a sentence of it alone marks a document")


def _tokens_with(column: Sequence[str], wrong: Any) -> list[int]:
    """The tokens whose values are wrong."""
    values = {value for value in set(column) if wrong(value)}
    return [t for t, value in enumerate(column) if value in values] if values else []


def _unwritable(token: int, offsets: np.ndarray, source: str, value: str, reason: str) -> CorpusError:
    return CorpusError(f"{source}: {place_of(token, offsets)}: cannot write {value!r:.40}: {reason}")
