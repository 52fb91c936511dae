"""Labels: strings, or numbers that come back as numbers; and those of several layers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from labelwright.corpus.tabular import frame_columns, is_frame, is_missing
from labelwright.errors import CorpusError
from labelwright.wording import shown

# What labels may be: name of the type, as model files store it -> how a label is read from its text.
READ_LABEL: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float, "bool": "True".__eq__}


def plain_label(label: Any) -> Any:
    """A label as Python's own type, where it is one of NumPy's."""
    return label.item() if isinstance(label, np.generic) else label


def label_type(labels: Iterable[Any]) -> str:
    """The name of the type of labels, all of which have one type."""
    return next(("str" if isinstance(label, str) else type(label).__name__ for label in labels), "str")


def wrong_label(labels: Sequence[Any]) -> tuple[int, str] | None:
    """The first label that is none, or is of another type than those before it: its place, and what to say."""
    kinds = [str if isinstance(label, str) else type(label) for label in labels]
    expected = kinds[0].__name__ if kinds and kinds[0].__name__ in READ_LABEL else "str"
    for i, (label, kind) in enumerate(zip(labels, kinds, strict=True)):
        if issubclass(kind, tuple | np.ndarray):
            return i, f"expected a label, got {shown(label)}; give a set where one of several labels is right"
        if is_missing(label):
            return i, f"no label, but {shown(label)}; give None where it is unknown"
        if kind.__name__ != expected:
            wanted = {"str": "a string"}.get(expected, f"a label of type {expected}, as those before it")
            return i, f"expected {wanted}, got {shown(label)}"
    return None


def check_types(known: Sequence[Any], labels: Sequence[Any], source: str) -> None:
    """Refuse labels of another type than those of a model."""
    if not known or not labels or label_type(known) == label_type(labels):
        return
    ours = f"the labels of the model are of type {label_type(known)}, as {shown(known[0])}"
    raise CorpusError(f"{source}: {ours}, got {shown(labels[0])} of type {label_type(labels)}; give labels of one type")


def text_of(labels: Iterable[Any]) -> list[str]:
    """Labels as model files and reports write them."""
    return list(map(str, labels))


def labels_by_layer(y: Any, names: Sequence[str], place: str = "y: ") -> dict[str, Any]:
    """The labels of every layer {name: sentences}, of sentences that have them together: lists with a tuple for each
    token, in the order of the layers, or frames with a column for each layer.

    >>> labels_by_layer([[("D", "B-NP"), ("N", "I-NP")]], ["pos", "chunk"])
    {'pos': [['D', 'N']], 'chunk': [['B-NP', 'I-NP']]}
    """
    if isinstance(y, Mapping):
        return dict(y)
    together = [_rows_of(sentence, names, f"{place}sentence {n}") for n, sentence in enumerate(y)]
    return {name: [[row[k] for row in rows] for rows in together] for k, name in enumerate(names)}


def _rows_of(sentence: Any, names: Sequence[str], place: str) -> Sequence[Any]:
    """The labels of each token of a sentence, after checking that they are those of all layers."""
    expected = f"expected the labels of every layer, for each token a tuple ({', '.join(names)})"
    if is_frame(sentence):
        return list(zip(*frame_columns(sentence, names, place), strict=True))
    if isinstance(sentence, str) or not isinstance(sentence, Sequence | np.ndarray):
        raise CorpusError(f"{place}: {expected}, got {shown(sentence)}")
    for t, row in enumerate(sentence):
        if not isinstance(row, list | tuple | np.ndarray) or len(row) != len(names):
            raise CorpusError(f"{place}, token {t}: {expected}, got {shown(row)}")
    return sentence  # type: ignore[return-value]
