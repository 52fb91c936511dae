"""Nested samples of data for a search, of sentences or rows, split into training and test parts.

A dictionary made from all the data names the entities of the test part, and the score would be too
high.  So where a dictionary looks as if it was made from the entities of some types (by the rule of
features.sources), a phrase that is one of these in the test part alone is left out of it, as if it
had been made from the other parts.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import evaluate
from labelwright.evaluate.errors import words_of
from labelwright.evaluate.scorers import NAMED
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
from labelwright.memory.instances import Instances
from labelwright.taggers.arguments import labelled_pair, listed_weights, no_labels
from labelwright.wording import counted

Array = NDArray[Any]
PARTS = 5  # of a sample; one at a time is the test part
SETTING = "dictionaries"


class SearchData(NamedTuple):
    """The data of a search: sentences, or rows of an array."""

    X: Any
    y: Any  # None: in the columns of the corpus X
    n: int
    sequences: bool
    weights: list[Any] | None = None  # of sentences or tokens, in training

    @property
    def all(self) -> tuple[Any, Any]:
        return self.take(np.arange(self.n))

    def train(self, rows: Array) -> tuple[Any, Any, list[Any] | None]:
        """X, y and the weights of these sentences or rows, to train on."""
        weights = None if self.weights is None else [self.weights[row] for row in rows.tolist()]
        return *self.take(rows), weights

    def take(self, rows: Array) -> tuple[Any, Any]:
        """X and y of these sentences or rows."""
        y = (
            {name: _rows(of, rows) for name, of in self.y.items()}
            if isinstance(self.y, Mapping)
            else self.y
        )
        return _rows(self.X, rows), y if y is None or isinstance(y, dict) else _rows(y, rows)


class Fold(NamedTuple):
    """A training sample and a test sample."""

    train: tuple[Any, Any, list[Any] | None]  # with weights
    test: tuple[Any, Any]
    n_train: int
    n_test: int
    held_out: Array | None = None  # which sentences of the data are tested on; None: others


def looked_at(
    X: Any, y: Any, least: int = PARTS, asker: str = "a search", sample_weight: Any = None
) -> SearchData:
    """The data X and y, checked: `least` sentences or rows, each with its weight."""
    if y is None:
        if not isinstance(X, Corpus):
            raise OptionError("fit: give the labels y")
        if X.label is None and not len(X.names) > 1:
            raise no_labels(X)
        n, sequences = len(X), True
    else:
        if not hasattr(X, "__len__") and not hasattr(X, "shape"):
            X = list(X)
        y = y if hasattr(y, "__len__") else list(y)
        n = (
            len(X.codes)
            if isinstance(X, Instances)
            else X.shape[0]
            if hasattr(X, "shape")
            else len(X)
        )
        sequences = isinstance(y, Mapping) or any(
            isinstance(labels, list | tuple | np.ndarray) for labels in y[:1]
        )
        for name, labels in y.items() if isinstance(y, Mapping) else [("", y)]:
            if len(labels) != n:
                what = "sentences" if sequences else "instances"
                raise CorpusError(f"y{name and ' of '}{name}: {len(labels)} {what}, but X has {n}")
    if n < least:
        what = "sentences" if sequences else "instances"
        source = X.source if isinstance(X, Corpus) else "X"
        raise CorpusError(f"{source}: {asker} needs at least {counted(least, what[:-1])}, got {n}")
    weights = None if sample_weight is None else listed_weights(sample_weight)
    if weights is not None and len(weights) != n:
        raise OptionError(
            f"sample_weight: {len(weights)} entries, but X has {n}; give one for each"
        )
    return SearchData(X, y, n, sequences, weights)


def _rows(values: Any, rows: Array) -> Any:
    """Some sentences or rows of whatever holds them."""
    if isinstance(values, Corpus):
        return values.take(rows)
    if isinstance(values, Instances):
        return values._replace(codes=values.codes[rows])
    if hasattr(values, "iloc"):  # pandas
        return values.iloc[rows]
    return values[rows] if hasattr(values, "shape") else [values[row] for row in rows.tolist()]


def sizes(first: int, n: int, steps: int) -> list[int]:
    """Sizes of the samples, from the first one to all n, each the same factor larger."""
    if first >= n or steps == 1:
        return [n]
    return list(np.unique(np.round(np.geomspace(first, n, steps)).astype(int)).tolist())


def parts_of(
    data: SearchData, sample: Array, folds: int, dev: SearchData | None = None
) -> list[Fold]:
    """Split a sample into training and test parts; the part of a sentence or row is the same in
    each step.  With development data all of the sample is for training."""
    if dev is not None:
        return [Fold(data.train(np.sort(sample)), dev.all, len(sample), dev.n)]
    # [n]  0 is the part that every step tests on
    part_of = PARTS - 1 - np.arange(len(sample)) % PARTS
    parts = []
    for fold in range(folds):
        train, test = np.sort(sample[part_of != fold]), np.sort(sample[part_of == fold])
        parts.append(Fold(data.train(train), data.take(test), len(train), len(test), test))
    return parts


def held_out(dev: Any) -> SearchData:
    """Development data, checked."""
    return looked_at(*labelled_pair(dev), least=1, asker="dev")


def fitted(
    model: Any, X: Any, y: Any, weights: list[Any] | None = None, dev: tuple[Any, Any] | None = None
) -> Any:
    """A model after training; the labels of a corpus are in its columns.  Development data go to
    models that take them."""
    options: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
    if dev is not None and "dev" in getattr(model, "_training_options", ()):
        options["dev"] = dev[0] if dev[1] is None else dev
    return model.fit(X, **options) if y is None else model.fit(X, y, **options)


def without_calibration(model: Any) -> Any:
    """A model that is only to be scored by its labels: confidences would take time."""
    if "calibration" in model.get_params() and hasattr(model, "_training_options"):
        model.set_params(calibration=False)
    return model


def gold_of(X: Any, y: Any, layer: str = "") -> Any:
    """The labels, of one layer of a cascade: those of a corpus are in its columns."""
    if layer:
        return X.column(layer) if y is None else y[layer]
    return X.y if y is None and X.label is not None else y


def score_of(models: list[Any], parts: list[Fold], scoring: str = "f1") -> float:
    """The score of the test parts together, each labelled by its model; "f1" is accuracy where
    labels make no chunks. Of a cascade the mean of its layers."""
    answers = [model.predict(part.test[0]) for model, part in zip(models, parts, strict=True)]
    scores = []
    for layer in answers[0] if isinstance(answers[0], Mapping) else [""]:
        gold = [item for part in parts for item in gold_of(*part.test, layer)]
        predicted = [item for answer in answers for item in (answer[layer] if layer else answer)]
        if isinstance(gold[0], list | tuple | np.ndarray):
            measure = "score" if scoring == "f1" else NAMED[scoring].measure
            scores.append(getattr(evaluate(gold, predicted), measure))
        else:
            scores.append(np.mean([a == b for a, b in zip(predicted, gold, strict=True)]))
    return float(np.mean(scores))


# -- dictionaries ----------------------------------------------------------------------------------


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

    def trained(self, model: Any, part: Fold, dev: tuple[Any, Any] | None = None) -> Any:
        """An untrained model after training on a fold, without calibration, and without warnings of
        dictionaries."""
        model = self.model(without_calibration(model), part.held_out)
        with without_warnings():
            return fitted(model, *part.train, dev)

    def model(self, model: Any, test: Array | None) -> Any:
        """The model with dictionaries that do not name what only the sentences `test` know; None:
        it stays as it is."""
        if test is None:
            return model
        for name, given in model.get_params().items():
            layer, _, setting = name.rpartition("__")
            if setting == SETTING and given and layer not in self._known:
                self._known[layer] = _known(self._data, layer)
            known = self._known[layer] if setting == SETTING and given else None
            if known is not None:
                model.set_params(
                    **{name: self._without(given, known, np.isin(known.sentence, test))}
                )
        return model

    def _without(
        self, given: Mapping[str, Any], known: Known, tested: Array
    ) -> dict[str, list[Phrase]]:
        """Dictionaries without what only the entities that are `tested` [n] know."""
        exact, lower = checked_dictionaries(given), folded(given)
        left = {}
        for name, phrases in lower.items():
            share = share_of(set(phrases), known.seen, len(known.entities.types))
            if share.suspect.any() and name not in self._told:
                self._told.add(name)
                rule = (
                    "held-out sentences are tested without the phrases that are labelled in them "
                    "alone"
                )
                share.warn(name, known.entities.types, rule)
            of_types = share.suspect[known.entities.kind]
            only = _phrases(known.entities, of_types & tested) - _phrases(
                known.entities, of_types & ~tested
            )
            left[name] = [
                one for one, low in zip(exact[name], phrases, strict=True) if low not in only
            ]
        return left


def _known(data: SearchData, layer: str) -> Known | None:
    """The entities of all data; None where sentences have no words or no labels of this layer."""
    X, y = data.X, data.y
    if not data.sequences:
        return None
    if isinstance(y, Mapping):
        labels = y.get(layer)
    elif y is None:
        labels = X.column(layer) if layer in X.names else X.y if X.label is not None else None
    else:
        labels = y
    words = X.column(X.names[0]) if isinstance(X, Corpus) else words_of(X)
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
