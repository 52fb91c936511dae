"""The labels of the layers of a cascade, as users give them: checked, and apart from the input."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from labelwright.answers.batch import check_lengths
from labelwright.corpus.labels import labels_by_layer
from labelwright.corpus.partial_labels import check_known
from labelwright.corpus.table import Corpus
from labelwright.corpus.tabular import is_missing
from labelwright.corpus.token_records import listed
from labelwright.errors import CorpusError, OptionError
from labelwright.features.extract import kind_of


def labelled_layers(
    X: Any, y: Any, names: list[str], place: str = "", partial: bool = False
) -> tuple[Any, dict[str, Sequence[Sequence[str]]]]:
    """The input without labels, and the labels of every layer; `place` is what errors begin with, and `partial` labels
    may be unknown, or sets."""
    X = listed(X)
    if y is None and isinstance(X, Corpus):
        missing = [name for name in names if name not in X.names]
        if missing:
            raise CorpusError(
                f"{X.source}: no column for the layer {missing[0]!r}, expected it among {', '.join(X.names)}"
            )
        y = {name: X.column(name) for name in names}
        place = f"{X.source}: column "
    elif not place:
        place = "y: "
    if y is None or isinstance(y, str) or not isinstance(y, Iterable):
        raise OptionError(f"{place}expected the labels of every layer, {{{names[0]!r}: [...], ...}}")
    kind, labels = kind_of(X), labels_by_layer(y, names, place)
    _check_names(labels, names, place)
    if isinstance(X, Corpus):
        X = X.select([n for n in X.names if n not in names and n != X.label])
        if not X.names:
            raise CorpusError(f"{X.source}: no column is left to read beside those of the layers")
    elif kind == "columns":
        X = Corpus.from_sequences(X)
    lengths = np.diff(X.offsets).tolist() if isinstance(X, Corpus) else [len(sentence) for sentence in X]
    for name in names:
        _check_labels(labels[name], lengths, f"{place}{name}", partial)
    return X, labels


def _check_names(labels: Mapping[str, Any], names: Sequence[str], place: str) -> None:
    """Refuse labels of other layers than these."""
    for name in names:
        if name not in labels:
            raise OptionError(f"{place}no labels for the layer {name!r}, got those of {', '.join(labels) or 'none'}")
    for name in labels:
        if name not in names:
            raise OptionError(f"{place}no layer {name!r}, expected {', '.join(names)}")


def _check_labels(labellings: Any, lengths: Sequence[int], place: str, partial: bool) -> None:
    """Refuse labels of a layer that do not fit its sentences, or are missing."""
    if not isinstance(labellings, Sequence) or isinstance(labellings, str):
        raise OptionError(f"{place}: expected a list of labels for each sentence, got {labellings!r:.40}")
    check_lengths(labellings, lengths, place=place)
    for n, labels in enumerate(labellings):
        if any(label == "" or (label is not None and is_missing(label)) for label in labels):
            raise CorpusError(f"{place}: sentence {n} has a token without a label; label it, or leave the sentence out")
    if not partial:
        check_known(labellings, place)
