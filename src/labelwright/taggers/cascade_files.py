"""The model file of a cascade: that of each layer, and what is the cascade's own."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from labelwright import __version__
from labelwright.errors import ModelFileError, TemplateError
from labelwright.features.layered import lower_layers_read
from labelwright.modelfile import pack_strings
from labelwright.taggers import registry
from labelwright.taggers.base import LAYER
from labelwright.taggers.packing import Packed, as_json, stored_settings
from labelwright.validation import HeaderReader, TensorReader

Array = NDArray[Any]


def pack_layers(cascade: Any) -> Packed:
    """The tensors and the header of the model file: layer{i}.* are those of each layer."""
    tensors: dict[str, Array] = {}
    layers: list[dict[str, Any]] = []
    for i, (name, layer) in enumerate(cascade.layers_.items()):
        stored, header = layer.pack()
        tensors |= {f"layer{i}.{key}": tensor for key, tensor in stored.items()}
        layers.append({"name": name, "model": header})
    if cascade.lexicon_ is not None:
        words = cascade.lexicon_.words
        tensors["lexicon.text"], tensors["lexicon.offsets"] = pack_strings(list(words))
        tensors["lexicon.had"], tensors["lexicon.had.offsets"] = pack_strings(list(words.values()))
    settings = {k: as_json(v) for k, v in stored_settings(cascade).items() if k not in ("layers", "shares")}
    records = {name: layer.training_ for name, layer in cascade.layers_.items()}
    return tensors, {
        "kind": type(cascade).__name__,
        "labelwright": __version__,
        "signature": cascade._signature(),
        "parameters": settings | {"shares": dict(cascade.shares) if cascade.shares else None},
        "inputs": list(cascade.inputs_),
        "layers": layers,
        "training": cascade.training_ | {"layers": records},
        "history": cascade.history_,
    }


def read_layers(tensors: TensorReader, header: HeaderReader) -> dict[str, Any]:
    """The layers that `pack_layers` stored; each is read by its own model."""
    layers: dict[str, Any] = {}
    for i, layer in enumerate(header.parts("layers")):
        model = layer.part("model")
        kind = registry.class_named(model.text("kind"))
        if LAYER not in getattr(kind, "can", ()) or not hasattr(kind, "unpack"):
            raise model.refuse("kind", "a tagger that can be a layer")
        tagger = layers[layer.text("name")] = kind.unpack(tensors.part(f"layer{i}."), model)
        if not tagger.training_ or "imported_from" in tagger.training_:
            raise model.refuse("training", "the record of a layer that was trained")
    if len(layers) != len(header.listed("layers")):
        raise header.refuse("layers", "a name of its own for each layer")
    for i, each in enumerate(layers.values()):
        _check_layer(i, each, list(layers)[:i])
    return layers


def check_inputs(header: HeaderReader, lowest: Any, with_lexicon: bool) -> None:
    """The inputs of a cascade are those of its lowest layer, which may also read the column of the lexicon."""
    reads = lowest.reads()
    n = len(reads.columns) - with_lexicon if reads.kind == "columns" else 0
    if len(header.names("inputs")) != n:
        raise header.refuse("inputs", f"{n} columns, as the lowest layer reads them")


def check_layer_scores(header: HeaderReader, layers: Sequence[str]) -> None:
    """The record of a cascade tells the scores of its own layers, and of joint training all iterations."""
    training = header.part("training")
    scores = training.part("dev") if "dev" in training else {}
    for when in ("before", "after"):
        if not set(scores.get(when, {})) <= set(layers):
            raise training.part("dev").refuse(when, f"scores of {', '.join(layers)}")
    if "joint" in training and not header.listed("history"):
        raise header.refuse("history", "the iterations of joint training")


def _check_layer(i: int, layer: Any, lower: Sequence[str]) -> None:
    """Refuse a layer that reads the labels of others than these."""
    if getattr(layer, "_labels_as_columns", False):
        columns = layer.reads().columns
        if layer.reads().kind == "columns" and lower and tuple(columns[-i:]) != tuple(lower):
            raise ModelFileError(f"layer {i + 1}: expected the columns {', '.join(lower)} of labels below")
        return
    reads_labels = "above" in layer._extractor.header()
    if reads_labels != (i > 0):
        raise ModelFileError(f"layer {i + 1}: expected features that {'' if i else 'do not '}read labels below")
    try:
        lower_layers_read(layer._extractor, lower)
    except TemplateError as error:
        raise ModelFileError(f"layer {i + 1}: {error}") from None
