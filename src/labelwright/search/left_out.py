"""Dictionaries in a test on held-out sentences: without the phrases that only these sentences could have told.

A dictionary made from all the data names the entities of the test part, and the score would be too high.  So where a
dictionary looks as if it was made from the entities of some types (by the rule of features.sources), a phrase that
is one of these in the test part alone is left out of it, as if it had been made from the other parts.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.features.phrases import checked_dictionaries
from labelwright.features.sources import (
    DictionaryWarning,
    Entities,
    Phrase,
    Seen,
    entities_of,
    folded,
    seen_in,
    share_of,
)
from labelwright.search.samples import SearchData

Array = NDArray[Any]
SETTING = "dictionaries"


class Known(NamedTuple):
    """The entities of the data, for one output of a model."""

    entities: Entities
    seen: Seen
    sentence: Array  # [n]  the sentence of each entity


class LeftOut:
    """Models for tests on some of the data, whose dictionaries do not know these."""

    def __init__(self, data: SearchData):
        self._data = data
        self._known: dict[str, Known | None] = {}  # by layer
        self._told: set[str] = set()  # dictionaries that were warned of

    def model(self, model: Any, test: Array | None) -> Any:
        """The model with dictionaries that do not name what only the sentences `test` know; None: it stays as it is."""
        if test is None:
            return model
        for name, given in model.get_params().items():
            layer, _, setting = name.rpartition("__")
            known = self._entities(layer) if setting == SETTING and given else None
            if known is not None:
                model.set_params(**{name: self._without(given, known, np.isin(known.sentence, test))})
        return model

    def _without(self, given: Mapping[str, Any], known: Known, tested: Array) -> dict[str, list[Phrase]]:
        """Dictionaries without what only the entities that are `tested` [n] know."""
        exact, lower = checked_dictionaries(given), folded(given)
        left = {}
        for name, phrases in lower.items():
            share = share_of(set(phrases), known.seen, len(known.entities.types))
            if share.suspect.any() and name not in self._told:
                self._told.add(name)
                rule = "held-out sentences are tested without the phrases that are labelled in them alone"
                share.warn(name, known.entities.types, rule)
            of_types = share.suspect[known.entities.kind]
            only = _phrases(known.entities, of_types & tested) - _phrases(known.entities, of_types & ~tested)
            left[name] = [one for one, low in zip(exact[name], phrases, strict=True) if low not in only]
        return left

    def _entities(self, layer: str) -> Known | None:
        """The entities of all data, once for each layer; None where sentences have no words."""
        if layer not in self._known:
            self._known[layer] = _known(self._data, layer)
        return self._known[layer]


def _known(data: SearchData, layer: str) -> Known | None:
    words, labels = _words(data.X), _labels(data, layer)
    if words is None or labels is None:
        return None
    offsets = offsets_from([len(sentence) for sentence in labels])
    flat = [label for sentence in labels for label in sentence]
    names = sorted(set(flat))
    number = {name: i for i, name in enumerate(names)}
    codes = np.array([number[label] for label in flat], np.int64)
    entities = entities_of([word for sentence in words for word in sentence], names, codes, offsets)
    sentence = np.searchsorted(offsets, entities.start, side="right") - 1
    return Known(entities, seen_in(entities, fold=True), sentence)


def _words(X: Any) -> list[list[str]] | None:
    """The words of sentences: their first column."""
    if isinstance(X, Corpus):
        return X.column(X.names[0])
    sentences = [[token if isinstance(token, str) else _first(token) for token in sentence] for sentence in X]
    return sentences if all(isinstance(word, str) for sentence in sentences for word in sentence) else None


def _first(token: Any) -> Any:
    return token[0] if isinstance(token, list | tuple) and len(token) else None


def _labels(data: SearchData, layer: str) -> Any:
    if not data.sequences:
        return None
    if isinstance(data.y, Mapping):
        return data.y.get(layer)
    if data.y is not None:
        return data.y
    return data.X.column(layer) if layer in data.X.names else data.X.y if data.X.label is not None else None


def _phrases(entities: Entities, chosen: Array) -> set[Phrase]:
    """The phrases of the chosen entities [n], in lower case."""
    spans = zip(entities.start[chosen].tolist(), entities.end[chosen].tolist(), strict=True)
    return {tuple(word.casefold() for word in entities.words[start:end]) for start, end in spans}


@contextmanager
def without_warnings() -> Iterator[None]:
    """Models that are only tested do not warn of dictionaries, each of its own part of the data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DictionaryWarning)
        yield
