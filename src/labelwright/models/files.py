"""Models to files and back: one safetensors file each, read without executing anything."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labelwright import __version__, modelfile
from labelwright.errors import ModelFileError
from labelwright.features.builtin import BUILTIN
from labelwright.features.extract import EXTRACTORS
from labelwright.features.template import parse_template
from labelwright.models.crf import CRF
from labelwright.models.latent import LatentCRF
from labelwright.models.linear import LinearModel
from labelwright.models.perceptron import LatentPerceptron, Perceptron
from labelwright.parameters import Cells, Parameters
from labelwright.states import StateSpace, assembled

MODELS: dict[str, type[Any]] = {kind.__name__: kind for kind in (CRF, LatentCRF, Perceptron, LatentPerceptron)}
SIGNED = (  # parameters that a signature shows
    "order", "n_latent", "cells", "min_count", "l1", "l2", "optimizer", "averaging", "reset_every", "update", "margin",
    "constraints",
)  # fmt: skip


def save(model: Any, path: str | Path) -> None:
    """Write a trained model; weights of features that are exactly zero are left out."""
    space: StateSpace = model.space_
    parts = model.parameters_.slices
    tensors = {
        "labels.first": space.first,
        "space.start": space.start,
        "space.arc": space.arc,
        "space.end": space.end,
    }
    tensors |= {name: model.weights_[parts[name]] for name in ("transitions", "triples") if name in parts}
    tensors["labels.text"], tensors["labels.offsets"] = modelfile.pack_strings(space.labels)
    for name, cells in model.parameters_.cells.items():
        weights = model.weights_[parts[name]]
        used = weights != 0
        kept = np.concatenate([[0], np.cumsum(used)])
        tensors[f"{name}.ptr"] = kept[cells.ptr]
        tensors[f"{name}.column"] = cells.column[used]
        tensors[f"{name}.weights"] = weights[used]
    tensors |= {f"features.{name}": tensor for name, tensor in model.extractor_.tensors().items()}
    parameters = {name: _plain(value) for name, value in model.get_params().items()}
    header = {
        "kind": type(model).__name__,
        "labelwright": __version__,
        "signature": signature(model),
        "parameters": parameters,
        "scheme": model.scheme_,
        "training": model.training_,
        "history": model.history_,
        "extractor": model.extractor_.kind,
        "features": model.extractor_.header(),
        "layers": list(model.parameters_.cells),
        "order": space.graph.order,
    }
    modelfile.write(path, tensors, header)


def _plain(value: Any) -> Any:
    """A constructor word as JSON; a template is kept as text with the features."""
    if isinstance(value, Mapping):
        return {str(k): int(v) for k, v in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, bool | int | float | str | None) else None


def signature(model: Any) -> str:
    """One line that says how a model was made."""
    words = model.get_params()
    shown = [f"template:{_template_name(model)}"]
    for name in SIGNED:
        if words.get(name) not in (None, 0.0, "none"):
            shown.append(f"{name}:{words[name]}")
    return "|".join([type(model).__name__.lower(), *shown, f"labelwright:{__version__}"])


def _template_name(model: Any) -> str:
    """The name of a built-in template; a file's name with a hash of its text; or the kind of features."""
    template = model.extractor_.header().get("template")
    if template is None:
        return str(model.extractor_.kind)
    if template["name"] in BUILTIN:
        return str(template["name"])
    digest = hashlib.sha256(template["text"].encode()).hexdigest()[:8]
    return f"{Path(template['name']).stem}@{digest}"


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote."""
    tensors, header = modelfile.read(path)
    kind = header.get("kind")
    if kind not in MODELS:
        what = "a checkpoint; train again with --resume to go on from it" if kind == "checkpoint" else f"a {kind!r}"
        raise ModelFileError(f"{path}: expected a model, got {what}")
    try:
        return _restore(MODELS[kind], tensors, header)
    except (KeyError, IndexError, TypeError) as error:
        raise ModelFileError(f"{path}: the model file lacks a part: {error}") from error


def _restore(kind: type[LinearModel], tensors: dict[str, np.ndarray], header: dict[str, Any]) -> LinearModel:
    known = kind._parameter_names()
    model = kind(**{k: v for k, v in header["parameters"].items() if k in known})
    template = header["features"].get("template")
    if template is not None and template["name"] not in BUILTIN:  # its file may be gone or changed
        model.set_params(template=parse_template(template["text"], template["name"]))
    labels = tuple(modelfile.unpack_strings(tensors["labels.text"], tensors["labels.offsets"]))
    first = tensors["labels.first"]
    order = int(header.get("order", 1))
    start, arc, end = (tensors[f"space.{name}"] for name in ("start", "arc", "end"))
    model.space_ = assembled(labels, first, start, arc, end, order)
    features = {k.removeprefix("features."): v for k, v in tensors.items() if k.startswith("features.")}
    model.extractor_ = EXTRACTORS[header["extractor"]].restore(features, header["features"])
    cells = {name: Cells(tensors[f"{name}.ptr"], tensors[f"{name}.column"]) for name in header["layers"]}
    model.parameters_ = Parameters(cells, int(first[-1]), order)
    moves = [tensors[name] for name in ("transitions", "triples")[:order]]
    model.weights_ = np.concatenate([*(tensors[f"{name}.weights"] for name in header["layers"]), *moves])
    model.scheme_, model.training_, model.history_ = header["scheme"], header["training"], header["history"]
    return model
