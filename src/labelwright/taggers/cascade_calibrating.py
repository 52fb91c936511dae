"""The calibration of the layers of a cascade on held-out sentences."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from labelwright.decode.checks import check_whole
from labelwright.errors import OptionError
from labelwright.structures.passing import over
from labelwright.taggers.calibrating import HeldOut, fitted, held_out, sentences_and_labels
from labelwright.taggers.cascade_answers import LayeredAnswers
from labelwright.taggers.estimator import uninterrupted, untrained
from labelwright.taggers.layer_labels import labelled_layers
from labelwright.taggers.stacks import some
from labelwright.taggers.training import TrainableModel


class CalibratedLayers(LayeredAnswers):
    """Layers whose probabilities can be calibrated."""

    def calibrate(self, X: Any, y: Any = None, *, method: str = "temperature", folds: int | None = None) -> Self:
        """Fit on held-out sentences, with the labels of every layer, how sure each layer may be, as `CRF.calibrate`
        does; what layers pass upwards stays as it is.

        X, y : sentences and the labels of every layer, as for `fit`
        method, folds : as for `CRF.calibrate`
        """
        self._check_fitted()
        names = list(self.layers_)
        X, gold = labelled_layers(*sentences_and_labels(X, y), names, "calibrate: " if y is not None else "", True)
        parts: dict[str, list[HeldOut]] = {name: [] for name in names}
        for cascade, rows in self._held_out(len(gold[names[0]]), X, gold, folds):
            for name, layer, data in cascade._layer_data(some(X, [rows])):
                parts[name].append(held_out(layer, data, gold[name][slice(*rows)]))
        calibrated = {name: copy.copy(layer) for name, layer in self.layers_.items()}
        for name, layer in calibrated.items():
            try:
                layer._set_calibration(fitted(parts[name], method))
            except OptionError as error:
                raise OptionError(f"layer {name}: {error}") from None
        self._set_layers(calibrated)
        return self

    def _held_out(
        self, n: int, X: Any, gold: Mapping[str, Sequence[Sequence[str]]], folds: int | None
    ) -> "Iterator[tuple[CalibratedLayers, tuple[int, int]]]":
        """Cascades and the range of sentences that each was not trained on."""
        if folds is None:
            yield self, (0, n)
            return
        check_whole("folds", folds, 2, n)
        for a, b in pairwise(np.linspace(0, n, folds + 1).astype(int).tolist()):
            y = {name: [*labels[:a], *labels[b:]] for name, labels in gold.items()}
            yield uninterrupted(untrained(self, part=True).fit(some(X, [(0, a), (b, n)]), y)), (a, b)

    def _layer_data(self, X: Any) -> Iterator[tuple[str, TrainableModel, Any]]:
        """Every layer with what it reads of sentences, the lowest first."""
        read = self._input(X)
        for name, layer in self.layers_.items():
            data = self._encoded(layer, read)
            yield name, layer, data
            read = over(read, name, self._passed(layer, data))

    def uncalibrated(self) -> Self:
        """This cascade without the calibration of its layers."""
        self._check_fitted()
        raw = copy.copy(self)
        raw._set_layers({name: layer.uncalibrated() for name, layer in self.layers_.items()})
        return raw

    def _set_layers(self, layers: dict[str, TrainableModel]) -> None:
        self.layers_ = layers
        records = {name: layer.training_ for name, layer in layers.items()}
        self.training_ = {**self.training_, "layers": records}
