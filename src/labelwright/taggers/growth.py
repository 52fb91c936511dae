"""A trained model made larger for one more batch: new words, labels and cells; what it knows stays."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import allowed, detect_scheme, pairs_of_codes
from labelwright.errors import OptionError
from labelwright.features.extract import learn
from labelwright.scoring.parameters import Before, make_parameters
from labelwright.structures.states import state_space
from labelwright.taggers.linear import check_lengths
from labelwright.taggers.training import Data, TrainableModel, cut, labelled

Array = NDArray[Any]


def grow(model: TrainableModel, X: Any, y: Sequence[Sequence[str]] | None = None) -> Data:
    """Add the features, labels and cells of a batch to a trained model; the batch as integers.

    The weights are still the old ones: `carry_over` brings them to their new places.  Where anything fails, the model
    stays as it was."""
    model._check_fitted()
    if model.order != model.space_.graph.order:
        raise OptionError(f"order: the model was trained with {model.space_.graph.order}, got {model.order}; fit again")
    corpus, batch_labels, codes = labelled(X, y)
    learnt, _, offsets = learn(corpus, model.template, model.min_count, may_be_empty=True)
    if y is not None:
        check_lengths(y, offsets)
    extractor = model.extractor_.merged(learnt)
    layers, _ = extractor.encode(corpus)
    labels = list(dict.fromkeys([*model.space_.labels, *batch_labels]))
    number = {label: i for i, label in enumerate(labels)}
    gold = np.array([number[label] for label in batch_labels], np.int32)[codes]  # [T]
    grown = copy.copy(model)  # takes the new scheme, which its checks ask for
    grown.scheme_ = _scheme(model, labels, gold, offsets)
    scheme = None
    if model.constraints is not None:
        scheme = grown._checked_scheme(cut([labels[g] for g in gold], offsets))
    space = state_space(labels, model._latent_states(labels, more=True), model.order, scheme)
    offsets = np.unique(offsets)  # sentences without tokens teach nothing
    before = Before(model.parameters_, model.space_, model.extractor_.numbers_in(extractor))
    parameters = make_parameters(layers, extractor.n_features, gold, offsets, space, model.cells, before)
    model.extractor_, model.space_, model.parameters_ = extractor, space, parameters
    model.scheme_ = grown.scheme_
    return Data(layers, offsets, gold)


def _scheme(model: TrainableModel, labels: list[str], gold: Array, offsets: Array) -> str | None:
    """The scheme of old and new labels: that of the model, unless it had none or new labels do not fit it."""
    old, new = model.scheme_, labels[model.space_.n_labels :]
    unfit = next((label for label in new if old is not None and not _writes(old, label)), None)
    if unfit is not None and model.constraints == "scheme":
        raise OptionError(
            f"constraints='scheme': the labels follow {old}, which has no {unfit!r}; convert the labels, or fit again"
        )
    if unfit is None and (old is not None or not new):
        return old
    return detect_scheme(labels, pairs=pairs_of_codes(labels, gold, offsets))


def _writes(scheme: str, label: str) -> bool:
    try:
        allowed([label], scheme)
    except OptionError:
        return False
    return True
