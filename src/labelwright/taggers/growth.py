"""A trained model made larger for one more batch: new words, labels and cells; what it knows stays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import check_lengths
from labelwright.corpus.schemes import allowed, detect_scheme, pairs_of_codes
from labelwright.errors import OptionError
from labelwright.features.extract import learn
from labelwright.features.sources import Given
from labelwright.scoring.parameters import Before, Trained, make_parameters
from labelwright.structures.states import state_space
from labelwright.taggers.forbidden import forbidden_codes
from labelwright.taggers.sample_weights import check_paths, supervision_of
from labelwright.taggers.training import Data, TrainableModel, cut, labelled

Array = NDArray[Any]


def grow(
    model: TrainableModel, X: Any, y: Sequence[Sequence[str]] | None = None, sample_weight: Any = None
) -> tuple[Data, Trained]:
    """A trained model with the features, labels and cells of a batch added: the batch as integers, and what is known of
    the grown model, with zero weights (`carry_over` brings the old ones to their new places)."""
    model._check_fitted()
    if model.order != model._space.graph.order:
        raise OptionError(f"order: the model was trained with {model._space.graph.order}, got {model.order}; fit again")
    corpus, labels, gold, sets = labelled(X, y, model._space.labels)
    numbers = getattr(model._extractor, "numbers", None)
    given = Given(model.dictionaries, model.clusters, model.vectors, numbers=numbers)  # nothing is held out of a batch
    learnt, _, offsets = learn(corpus, model.template, model.min_count, may_be_empty=True, given=given)
    if y is not None:
        check_lengths(y, np.diff(offsets).tolist())
    extractor = model._extractor.merged(learnt)
    incidences, _ = extractor.encode(corpus)
    said = supervision_of(sets, gold, offsets, labels, model.class_weight, sample_weight, part=True)
    of_labels, scheme = _scheme(model, labels, gold, offsets), None
    if model.constraints is not None:
        scheme = model._checked_scheme(of_labels, [] if said.partial else cut([labels[g] for g in gold], offsets))
    forbidden = forbidden_codes(model._transitions, labels, gold, offsets, more=True)
    space = state_space(labels, model._latent_states(labels, more=True), model.order, scheme, forbidden)
    offsets = np.unique(offsets)  # sentences without tokens teach nothing
    before = Before(model._parameters, model._space, model._extractor.numbers_in(extractor))
    check_paths(said, gold, offsets, space)
    inputs = incidences, extractor.n_features, gold, offsets, space, model.cells
    parameters = make_parameters(*inputs, before, said.sets, model._outside_code(labels))
    none = np.zeros(parameters.n_weights, np.float32)
    return Data(incidences, offsets, gold, said), Trained(extractor, space, parameters, none, of_labels)


def _scheme(model: TrainableModel, labels: list[str], gold: Array, offsets: Array) -> str | None:
    """The scheme of old and new labels: that of the model, unless it had none or new labels do not fit it."""
    old, new = model.scheme_, labels[model._space.n_labels :]
    unfit = next((label for label in new if old is not None and not writes(old, label)), None)
    if unfit is not None and model.constraints == "scheme":
        raise OptionError(
            f"constraints='scheme': the labels follow {old}, which has no {unfit!r}; convert the labels, or fit again"
        )
    if unfit is None and (old is not None or not new):
        return old
    return detect_scheme(labels, pairs=pairs_of_codes(labels, gold, offsets))


def writes(scheme: str, label: str) -> bool:
    """Whether a scheme has this label."""
    try:
        allowed([label], scheme)
    except OptionError:
        return False
    return True
