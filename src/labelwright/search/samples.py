"""Nested samples of data for a search, of sentences or rows, split into training and test parts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.memory.instances import Instances
from labelwright.taggers.training import labelled_pair, listed_weights, no_labels
from labelwright.wording import counted

Array = NDArray[Any]
PARTS = 5  # of a sample; one at a time is the test part


class SearchData(NamedTuple):
    """The data of a search: sentences, or rows of an array."""

    X: Any
    y: Any  # None: in the columns of the corpus X
    n: int
    sequences: bool
    weights: list[Any] | None = None  # of sentences or tokens, in training

    def train(self, rows: Array) -> tuple[Any, Any, list[Any] | None]:
        """X, y and the weights of these sentences or rows, to train on."""
        weights = None if self.weights is None else [self.weights[row] for row in rows.tolist()]
        return *self.take(rows), weights

    def take(self, rows: Array) -> tuple[Any, Any]:
        """X and y of these sentences or rows."""
        y = {name: _rows(of, rows) for name, of in self.y.items()} if isinstance(self.y, Mapping) else self.y
        return _rows(self.X, rows), y if y is None or isinstance(y, dict) else _rows(y, rows)


class Fold(NamedTuple):
    """A training sample and a test sample."""

    train: tuple[Any, Any, list[Any] | None]  # with weights
    test: tuple[Any, Any]
    n_train: int
    n_test: int
    held_out: Array | None = None  # which sentences of the data are tested on; None: others


def looked_at(X: Any, y: Any, least: int = PARTS, asker: str = "a search", sample_weight: Any = None) -> SearchData:
    """The data X and y, checked: sentences or rows, and at least so many, each with its weight."""
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
        n = len(X.codes) if isinstance(X, Instances) else X.shape[0] if hasattr(X, "shape") else len(X)
        sequences = isinstance(y, Mapping) or any(isinstance(labels, list | tuple | np.ndarray) for labels in y[:1])
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
        raise OptionError(f"sample_weight: {len(weights)} entries, but X has {n}; give one for each")
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


def parts_of(data: SearchData, sample: Array, folds: int, dev: SearchData | None = None) -> list[Fold]:
    """Split a sample into training and test parts; the part of a sentence or row is the same in each step.  With
    development data all of the sample is for training."""
    if dev is not None:
        return [Fold(data.train(np.sort(sample)), dev.take(np.arange(dev.n)), len(sample), dev.n)]
    part_of = PARTS - 1 - np.arange(len(sample)) % PARTS  # [n]  0 is the part that every step tests on
    parts = []
    for fold in range(folds):
        train, test = np.sort(sample[part_of != fold]), np.sort(sample[part_of == fold])
        parts.append(Fold(data.train(train), data.take(test), len(train), len(test), test))
    return parts


def held_out(dev: Any) -> SearchData:
    """Development data, checked."""
    X, y = labelled_pair(dev)
    return looked_at(X, y, least=1, asker="dev")


def fitted(model: Any, X: Any, y: Any, weights: list[Any] | None = None, dev: tuple[Any, Any] | None = None) -> Any:
    """A model after training; the labels of a corpus are in its columns.  Development data go to models that take
    them."""
    options: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
    if dev is not None and "dev" in getattr(model, "_training_options", ()):
        options["dev"] = dev[0] if dev[1] is None else dev
    return model.fit(X, **options) if y is None else model.fit(X, y, **options)


def with_gold(X: Any, y: Any) -> tuple[Any, Any]:
    """The test data with their labels, which a corpus has in a column."""
    return X, X.y if y is None and X.label is not None else y


def of_layer(part: Fold, name: str) -> Any:
    """The labels of one layer of a cascade to test on."""
    X, y = part.test
    return X.column(name) if y is None else y[name]
