"""The objective of joint training, built from the layers of a cascade and what they were trained on."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelwright.corpus.table import Corpus
from labelwright.features.layered import lower_layers_read
from labelwright.learn.joint import Stack
from labelwright.parallel import Workers
from labelwright.structures.passing import Layered, joined, part
from labelwright.taggers.signature import signature
from labelwright.taggers.training import TrainableModel, fingerprint


class Version(NamedTuple):
    """A model, and the sentences begin:end of which it says what is passed."""

    begin: int
    end: int
    model: TrainableModel


def joint_fingerprint(
    settings: Mapping[str, Any],
    models: Mapping[str, TrainableModel],
    versions: Sequence[Sequence[Version]],
    development: Sequence[Mapping[str, Sequence[Sequence[Any]]]],
) -> str:
    """A hash of all that decides the course of joint training: the settings of the cascade, its layers, and of
    development data their labels and those that the layers predict.  The weights of the layers stand for the sentences
    and labels that they were trained on."""
    idle = "layers", "n_jobs", "verbose", "max_iter"
    kept = {name: value for name, value in settings.items() if name not in idle}
    facts: list[Any] = [kept, [signature(model) for model in models.values()]]
    all_models = [*models.values(), *(version.model for of_layer in versions for version in of_layer)]
    for by_layer in development:
        facts.append({name: [list(labels) for labels in labellings] for name, labellings in by_layer.items()})
    return fingerprint(facts, [model.weights_ for model in all_models])


def some(X: Any, ranges: Sequence[tuple[int, int]]) -> Any:
    """The sentences in these ranges."""
    if isinstance(X, Layered):
        parts = {name: joined([part(passed, a, b) for a, b in ranges if a < b]) for name, passed in X.passed.items()}
        return Layered(some(X.X, ranges), parts)
    if isinstance(X, Corpus):
        return X.take(np.concatenate([np.arange(a, b) for a, b in ranges]))
    return [sentence for a, b in ranges for sentence in X[a:b]]


def stacks(
    models: Mapping[str, TrainableModel],
    inputs: Sequence[Any],
    gold: Mapping[str, Sequence[Sequence[str]]],
    versions: Sequence[Sequence[Version]],
    shares: Mapping[str, float],
    workers: Workers,
    dtype: Any = np.float32,
    sample_weight: list[Any] | None = None,
) -> list[Stack]:
    """All layers over all sentences, with their shares of the loss.

    With a jackknife (several versions of each lower layer), a stack for every layer and every part of the sentences:
    the loss of the layer itself, on what the layers below say of that part without having seen it."""
    weights = {name: model._label_weights(gold[name]) for name, model in models.items()}
    counted = [float(shares.get(name, 1.0)) for name in models]
    parts = [(version.begin, version.end) for version in versions[0]]
    top = len(models) - 1
    if len(parts) == 1:
        return [
            _stack(models, inputs, gold, None, top, workers, dtype, sample_weight, weights)._replace(shares=counted)
        ]
    made = [_stack(models, inputs, gold, None, 0, workers, dtype, sample_weight, weights)._replace(shares=counted[:1])]
    for k in range(1, top + 1):
        for i in range(len(parts)):
            below = [of_layer[i] for of_layer in versions[:k]]
            stack = _stack(models, inputs, gold, below, k, workers, dtype, sample_weight, weights)
            made.append(stack._replace(shares=[0.0] * k + counted[k : k + 1]))
    return made


def _stack(
    models: Mapping[str, TrainableModel],
    inputs: Sequence[Any],
    gold: Mapping[str, Sequence[Sequence[str]]],
    below: Sequence[Version] | None,
    top: int,
    workers: Workers,
    dtype: Any,
    sample_weight: list[Any] | None,
    class_weight: Mapping[str, Mapping[Any, float] | None],
) -> Stack:
    """The layers up to `top`, over all sentences or over those of these versions of the layers below."""
    a, b = (0, len(inputs[0])) if below is None else (below[0].begin, below[0].end)
    weights = None if sample_weight is None else sample_weight[a:b]
    names = list(models)[: top + 1]
    read = {lower for name in names for lower in lower_layers_read(models[name]._extractor, names[: names.index(name)])}
    X = inputs[top] if below is None else some(inputs[top], [(a, b)])
    layers, reads, values, shifts = [], list[list[int]](), [], []
    for k, name in enumerate(names):
        model = models[name]
        above = X.passed[name].candidates if name in read else None
        given = workers, above, dtype, weights, class_weight[name]
        layer, made = model._joint_objective(_up_to(X, names[:k]), gold[name][a:b], *given)
        layers.append(layer)
        values.append(made)
        reads.append([names.index(lower) for lower in made.layers])
        other = model if below is None or k == top else below[k].model
        shifts.append(None if other is model else model._weights_of(other) - model.weights_)
    return Stack(layers, reads, values, [1.0] * (top + 1), shifts)


def _up_to(X: Any, lower: Sequence[str]) -> Any:
    """What a layer over these lower layers reads, from what a higher layer reads."""
    if not isinstance(X, Layered):
        return X
    return Layered(X.X, {name: X.passed[name] for name in lower}) if lower else X.X
