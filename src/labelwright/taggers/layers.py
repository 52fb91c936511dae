"""The layers of a cascade: as a recipe writes them, their labels, their training one after the
other and together."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelwright.answers.batch import check_lengths
from labelwright.corpus.labels import labels_by_layer
from labelwright.corpus.partial_labels import check_known
from labelwright.corpus.table import Corpus
from labelwright.corpus.tabular import is_missing
from labelwright.corpus.token_records import listed
from labelwright.errors import CorpusError, OptionError
from labelwright.features.extract import kind_of
from labelwright.features.layered import lower_layers_read
from labelwright.learn.joint import Stack
from labelwright.learn.monitor import Checkpoints
from labelwright.parallel import Workers
from labelwright.settings import (
    Kind,
    OfTheRun,
    Place,
    Setting,
    read_table,
    settings_of,
    without_use,
)
from labelwright.structures.passing import Layered, joined, part
from labelwright.taggers import registry
from labelwright.taggers.arguments import fingerprint
from labelwright.taggers.base import LAYER
from labelwright.wording import did_you_mean, either, shown

OF_A_LAYER = ("name", "model", "scheme")  # keys of a table beside the settings of its tagger

# -- tables [[layers]] of a recipe, each with a name, a tagger and its settings --------------------


class LayerTables(Kind):
    """Pairs of a name and a tagger."""

    expected = "tables, [[layers]]"
    hint = 'add a table [[layers]] with name = "COLUMN" for each layer'
    example = (
        'passing = "joint"\n[[layers]]\nname = "pos"\n[[layers]]\nname = "chunk"\n'
        'model = "latent-crf"\nn_latent = 2'
    )

    def complaint(self, value: Any) -> str | None:
        listed = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
        if not listed or not all(
            isinstance(layer, Sequence) and len(layer) == 2 for layer in value
        ):
            return "expected a list of pairs, [('pos', CRF()), ('chunk', CRF())]"
        names = [name for name, _ in value]
        for name, model in value:
            if not isinstance(name, str) or not name:
                return f"the name of a layer must be a string, got {name!r}"
            if names.count(name) > 1:
                return f"two layers are named {name!r}; give each a name of its own"
            if LAYER not in getattr(model, "can", ()) or isinstance(model, type):
                return (
                    f"{name}: expected a tagger (CRF, LatentCRF, SemiCRF, a perceptron, "
                    f"MemoryTagger, NgramTagger, LatticeTagger), got {type(model).__name__}; the "
                    "labels of others can be a column"
                )
        return None

    def from_recipe(self, value: Any, place: Place) -> Any:
        file = place.name.partition(": ")[0]
        if not isinstance(value, list):
            raise OptionError(f"{place.name}: expected {self.expected}, got {shown(value, 60)}")
        if not value:
            raise OptionError(f"{file}: no layers; {self.hint}")
        return [_layer(file, number, table) for number, table in enumerate(value, 1)]

    def files(self, value: Any, place: Place) -> list[str]:
        files, names = list[str](), layer_names()
        for table in value if isinstance(value, list) else ():
            model = table.get("model", "crf") if isinstance(table, dict) else None
            for key, setting in layer_settings(model).items() if model in names else ():
                files += setting.kind.files(table[key], place) if key in table else []
        return files

    def is_stored(self, value: Any) -> bool:
        return False  # each layer is stored whole


def _layer(file: str, number: int, table: Any) -> tuple[str, Any]:
    """One layer, checked by itself."""
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str) or not name:
        got = shown(name, 60)
        raise OptionError(
            f'{file}: layer {number}: expected name = "COLUMN", a column of the file, got {got}'
        )
    part = f"layer {name}: "
    model, names = table.get("model", "crf"), layer_names()
    if model not in names:
        raise OptionError(
            f"{file}: {part}model: expected one of {', '.join(names)}, got {shown(model, 60)}"
        )
    if not isinstance(table.get("scheme", ""), str):
        raise OptionError(
            f"{file}: {part}scheme: expected a string, got {shown(table['scheme'], 60)}"
        )
    settings = layer_settings(model)
    given = {key: value for key, value in table.items() if key not in OF_A_LAYER}

    def unknown(key: str) -> str:
        takers = [other for other in names if key in layer_settings(other)]
        if takers:
            return f"{key}: not for a {model}, only for {either(takers)}"
        return f"unknown key {key!r}{did_you_mean(key, [*settings, *OF_A_LAYER])}"

    tagger = registry.model_class(model)(**read_table(given, settings, file, unknown, part))
    for setting, wanted in without_use(tagger.get_params(deep=False), settings, given):
        value, choices = getattr(tagger, wanted.setting), " or ".join(map(repr, wanted.values))
        raise OptionError(
            f"{file}: {part}{setting.name}: only with {wanted.setting} = {choices}, got {value!r}"
        )
    try:
        tagger._check_parameters()
    except OptionError as error:
        raise OptionError(f"{file}: {part}{error}") from None
    return name, tagger


def layer_names() -> list[str]:
    """The taggers that can be a layer in a recipe."""
    return [
        name for name in registry.command_line_names() if LAYER in registry.model_class(name).can
    ]


def layer_settings(model: str) -> dict[str, Setting]:
    """The settings that a table of this tagger may have: all but those of the run, which the
    cascade has."""
    settings = settings_of(registry.model_class(model))
    return {name: s for name, s in settings.items() if s.in_recipes and not s.has(OfTheRun)}


# -- the labels of the layers, checked and apart from the input ------------------------------------


def labelled_layers(
    X: Any, y: Any, names: list[str], place: str = "", partial: bool = False
) -> tuple[Any, dict[str, Sequence[Sequence[str]]]]:
    """The input without labels, and the labels of every layer; `place` is what errors begin with,
    and `partial` labels may be unknown, or sets."""
    X = listed(X)
    if y is None and isinstance(X, Corpus):
        missing = [name for name in names if name not in X.names]
        if missing:
            raise CorpusError(
                f"{X.source}: no column for the layer {missing[0]!r}, expected it among "
                f"{', '.join(X.names)}"
            )
        y = {name: X.column(name) for name in names}
        place = f"{X.source}: column "
    elif not place:
        place = "y: "
    if y is None or isinstance(y, str) or not isinstance(y, Iterable):
        raise OptionError(
            f"{place}expected the labels of every layer, {{{names[0]!r}: [...], ...}}"
        )
    kind, labels = kind_of(X), labels_by_layer(y, names, place)
    for name in names:
        if name not in labels:
            raise OptionError(
                f"{place}no labels for the layer {name!r}, got those of "
                f"{', '.join(labels) or 'none'}"
            )
    for name in labels:
        if name not in names:
            raise OptionError(f"{place}no layer {name!r}, expected {', '.join(names)}")
    if isinstance(X, Corpus):
        X = X.select([n for n in X.names if n not in names and n != X.label])
        if not X.names:
            raise CorpusError(f"{X.source}: no column is left to read beside those of the layers")
    elif kind == "columns":
        X = Corpus.from_sequences(X)
    lengths = (
        np.diff(X.offsets).tolist() if isinstance(X, Corpus) else [len(sentence) for sentence in X]
    )
    for name in names:
        _check_labels(labels[name], lengths, f"{place}{name}", partial)
    return X, labels


def _check_labels(labellings: Any, lengths: Sequence[int], place: str, partial: bool) -> None:
    """Refuse labels of a layer that do not fit its sentences, or are missing."""
    if not isinstance(labellings, Sequence) or isinstance(labellings, str):
        raise OptionError(
            f"{place}: expected a list of labels for each sentence, got {labellings!r:.40}"
        )
    check_lengths(labellings, lengths, place=place)
    for n, labels in enumerate(labellings):
        if any(label == "" or (label is not None and is_missing(label)) for label in labels):
            raise CorpusError(
                f"{place}: sentence {n} has a token without a label; label it, or leave the "
                "sentence out"
            )
    if not partial:
        check_known(labellings, place)


# -- layers trained one after the other ------------------------------------------------------------


class LayerRun:
    """Trains fresh copies of layers and shows it; after Ctrl-C the rest is trained for one
    iteration only."""

    def __init__(
        self,
        fresh: Callable[[Any], Any],
        progress: Callable[[str, Any], Any] | None,
        sample_weight: list[Any] | None = None,
        places: Checkpoints | None = None,
    ):
        self.fresh, self.progress, self.sample_weight, self.places = (
            fresh,
            progress,
            sample_weight,
            places,
        )
        self.interrupted = False
        # how often each layer was trained: once, then for the jackknife
        self._trained: Counter[str] = Counter()

    def train(
        self,
        name: str,
        model: Any,
        X: Any,
        gold: Sequence[Sequence[Any]] | None,
        left_out: tuple[int, int] = (0, 0),
        dev: tuple[Any, Any] | None = None,
    ) -> Any:
        """A layer, trained on all sentences but begin:end of `left_out`; `dev` are what it reads of
        development data, and their labels."""
        layer, weights = self.fresh(model), self.sample_weight
        if weights is not None:
            weights = [*weights[: left_out[0]], *weights[left_out[1] :]]
        if "progress" not in layer._training_options:  # it learns at once
            return layer.fit(X, gold, sample_weight=weights)
        number = self._trained[name]
        self._trained[name] += 1
        options: dict[str, Any] = {}
        if (
            "checkpoint" in layer._training_options
            and self.places is not None
            and not self.interrupted
        ):
            place = self.places.part(f"layer{len(self._trained)}")
            options["checkpoint"] = place if number == 0 else place.part(f"part{number}")
        limit = layer.max_iter
        layer.max_iter = 1 if self.interrupted else limit
        shown = self.progress(name, layer) if self.progress is not None else None
        try:
            layer.fit(X, gold, dev=dev, progress=shown, sample_weight=weights, **options)
        finally:
            layer.max_iter = limit
            getattr(shown, "close", lambda: None)()
        self.interrupted |= layer.training_["stopped"] == "interrupted"
        return layer


class Version(NamedTuple):
    """A model, and the sentences begin:end of which it says what is passed."""

    begin: int
    end: int
    model: Any


def some(X: Any, ranges: Sequence[tuple[int, int]]) -> Any:
    """The sentences in these ranges."""
    if isinstance(X, Layered):
        parts = {
            name: joined([part(passed, a, b) for a, b in ranges if a < b])
            for name, passed in X.passed.items()
        }
        return Layered(some(X.X, ranges), parts)
    if isinstance(X, Corpus):
        return X.take(np.concatenate([np.arange(a, b) for a, b in ranges]))
    return [sentence for a, b in ranges for sentence in X[a:b]]


# -- layers trained together -----------------------------------------------------------------------


def joint_fingerprint(
    settings: Mapping[str, Any],
    models: Mapping[str, Any],
    versions: Sequence[Sequence[Version]],
    development: Sequence[Mapping[str, Sequence[Sequence[Any]]]],
) -> str:
    """A hash of all that decides the course of joint training: the settings of the cascade, its
    layers, and of development data their labels and those that the layers predict.  The weights of
    the layers stand for the sentences and labels that they were trained on."""
    idle = "layers", "n_jobs", "verbose", "max_iter"
    kept = {name: value for name, value in settings.items() if name not in idle}
    facts: list[Any] = [kept, [model._signature() for model in models.values()]]
    all_models = [
        *models.values(),
        *(version.model for of_layer in versions for version in of_layer),
    ]
    for by_layer in development:
        facts.append(
            {name: [list(labels) for labels in labellings] for name, labellings in by_layer.items()}
        )
    return fingerprint(facts, [model.weights_ for model in all_models])


def stacks(
    models: Mapping[str, Any],
    inputs: Sequence[Any],
    gold: Mapping[str, Sequence[Sequence[str]]],
    versions: Sequence[Sequence[Version]],
    shares: Mapping[str, float],
    workers: Workers,
    dtype: Any = np.float32,
    sample_weight: list[Any] | None = None,
) -> list[Stack]:
    """All layers over all sentences, with their shares of the loss.

    With a jackknife (several versions of each lower layer), a stack for every layer and every part
    of the sentences: the loss of the layer itself, on what the layers below say of that part
    without having seen it."""
    class_weight = {name: model._label_weights(gold[name]) for name, model in models.items()}
    by_layer = [float(shares.get(name, 1.0)) for name in models]

    def stack(shares: list[float], below: Sequence[Version] | None = None) -> Stack:
        """As many layers as shares, over all sentences or over those of these versions of the
        layers below."""
        top, names = len(shares) - 1, list(models)[: len(shares)]
        a, b = (0, len(inputs[0])) if below is None else (below[0].begin, below[0].end)
        X = inputs[top] if below is None else some(inputs[top], [(a, b)])
        input_of_all, weights = (
            X.X if top else X,
            None if sample_weight is None else sample_weight[a:b],
        )
        extractors = [models[name]._extractor for name in names]
        read = {
            under
            for k, each in enumerate(extractors)
            for under in lower_layers_read(each, names[:k])
        }
        layers, reads, values, shifts = [], list[list[int]](), [], []
        for k, name in enumerate(names):
            model = models[name]
            above = X.passed[name].candidates if name in read else None
            its_input = (
                Layered(input_of_all, {under: X.passed[under] for under in names[:k]})
                if k
                else input_of_all
            )
            given = workers, above, dtype, weights, class_weight[name]
            layer, made = model._joint_objective(its_input, gold[name][a:b], *given)
            layers.append(layer)
            values.append(made)
            reads.append([names.index(under) for under in made.layers])
            other = model if below is None or k == top else below[k].model
            shifts.append(None if other is model else model._weights_of(other) - model.weights_)
        return Stack(layers, reads, values, shares, shifts)

    n_parts = len(versions[0])
    if n_parts == 1:
        return [stack(by_layer)]
    return [stack(by_layer[:1])] + [
        stack([0.0] * k + [by_layer[k]], [of_layer[i] for of_layer in versions[:k]])
        for k in range(1, len(models))
        for i in range(n_parts)
    ]
