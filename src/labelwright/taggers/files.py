"""Models to files and back: one safetensors file each, read without executing anything."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelwright import __version__, modelfile
from labelwright.errors import ModelFileError
from labelwright.features.builtin import BUILTIN
from labelwright.features.extract import EXTRACTORS
from labelwright.features.lexicon import Lexicon
from labelwright.features.segments import SegmentFeatures
from labelwright.features.template import parse_template
from labelwright.scoring.parameters import Cells, Parameters
from labelwright.structures.segments import SegmentSpace
from labelwright.structures.states import StateSpace, assembled
from labelwright.taggers import memory_files
from labelwright.taggers.cascade import Cascade
from labelwright.taggers.crf import CRF
from labelwright.taggers.latent_crf import LatentCRF
from labelwright.taggers.linear import LinearModel
from labelwright.taggers.memory import MemoryBased, MemoryTagger
from labelwright.taggers.perceptron import LatentPerceptron, Perceptron
from labelwright.taggers.semi_crf import SemiCRF

KINDS = CRF, LatentCRF, Perceptron, LatentPerceptron, SemiCRF, Cascade, MemoryBased, MemoryTagger
MODELS: dict[str, type[Any]] = {kind.__name__: kind for kind in KINDS}
SIGNED = (  # parameters that a signature shows
    "order", "n_latent", "cells", "min_count", "l1", "l2", "optimizer", "averaging", "reset_every", "update", "margin",
    "constraints", "max_length", "k", "metric", "mvdm_threshold", "weights", "votes", "algorithm", "ngram", "inference",
    "weighting",
)  # fmt: skip


def save(model: Any, path: str | Path) -> None:
    """Write a trained model; weights of features that are exactly zero are left out."""
    if isinstance(model, MemoryBased | MemoryTagger):
        modelfile.write(path, *_memory(model))
    else:
        modelfile.write(path, *(_cascade(model) if isinstance(model, Cascade) else _packed(model)))


def _packed(model: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors and the header of a model."""
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
    parameters = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
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
    if isinstance(model, SemiCRF):
        header["segments"] = model.segments_._asdict()
    return tensors, header


def _cascade(model: Cascade) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors and the header of all layers of a cascade."""
    tensors: dict[str, np.ndarray] = {}
    layers: list[dict[str, Any]] = []
    for i, (name, layer) in enumerate(model.layers_.items()):
        own, header = _packed(layer)
        tensors |= {f"layer{i}.{key}": tensor for key, tensor in own.items()}
        layers.append({"name": name, "model": header})
    if model.lexicon_ is not None:
        words = model.lexicon_.words
        tensors["lexicon.text"], tensors["lexicon.offsets"] = modelfile.pack_strings(list(words))
        tensors["lexicon.had"], tensors["lexicon.had.offsets"] = modelfile.pack_strings(list(words.values()))
    parameters = {k: _plain(v) for k, v in model.get_params(deep=False).items() if k not in ("layers", "shares")}
    signatures = [f"{layer['name']}:{layer['model']['signature']}" for layer in layers]
    header = {
        "kind": "Cascade",
        "labelwright": __version__,
        "signature": "|".join(["cascade", f"passing:{model.passing}", *signatures]),
        "parameters": parameters | {"shares": dict(model.shares) if model.shares else None},
        "inputs": list(model.inputs_),
        "layers": layers,
        "training": model.training_,
        "history": model.history_,
    }
    return tensors, header


def _memory(model: MemoryBased | MemoryTagger) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors and the header of a memory-based model."""
    tensors, header = memory_files.packed(model)
    if callable(getattr(model, "weighting", None)):
        raise ModelFileError("weighting: a function cannot be stored in a model file; name a weighting, or pickle it")
    listed = {"metric", "weights", "decay", "lengths"}  # which may be sequences
    words = model.get_params(deep=False)
    parameters = {
        k: np.asarray(v).tolist() if k in listed and not isinstance(v, str | None) else _plain(v)
        for k, v in words.items()
    }
    return tensors, header | {
        "kind": type(model).__name__,
        "labelwright": __version__,
        "signature": signature(model),
        "parameters": parameters,
        "training": getattr(model, "training_", {}),
        "history": [],
    }


def _restore_memory(kind: type[Any], tensors: dict[str, np.ndarray], header: dict[str, Any]) -> Any:
    words = {k: v for k, v in header["parameters"].items() if k in kind._parameter_names()}
    words["decay"] = tuple(words["decay"])
    template = header.get("windows", {}).get("template")
    if template is not None:
        own = template["name"] not in BUILTIN  # its file may be gone or changed
        words["template"] = parse_template(template["text"], template["name"]) if own else template["name"]
    model = kind(**words)
    memory_files.restore(model, tensors, header)
    model.training_ = header["training"]
    return model


def _plain(value: Any) -> Any:
    """A constructor word as JSON; a template is kept as text with the features."""
    if isinstance(value, Mapping):  # of dictionaries, the phrases are kept with the features
        return {str(k): int(v) for k, v in value.items() if isinstance(v, int | np.integer)} or None
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, bool | int | float | str | None) else None


def signature(model: Any) -> str:
    """One line that says how a model was made."""
    words = model.get_params(deep=False)
    shown = [f"template:{_template_name(model)}"]
    for name in SIGNED:
        value = words.get(name)
        if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
            shown.append(f"{name}:{','.join(map(str, value))}")
        elif value not in (None, 0.0, "none"):
            shown.append(f"{name}:{value}")
    return "|".join([type(model).__name__.lower(), *shown, f"labelwright:{__version__}"])


def _template_name(model: Any) -> str:
    """The name of a built-in template; a file's name with a hash of its text; or the kind of features."""
    if isinstance(model, MemoryBased):
        return "columns"
    if isinstance(model, MemoryTagger):
        described, kind = model.windows_.header(), model.windows_.kind
    else:
        described, kind = model.extractor_.header(), model.extractor_.kind
    template = described.get("template")
    if template is None:
        return str(kind)
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
        if kind in ("MemoryBased", "MemoryTagger"):
            return _restore_memory(MODELS[kind], tensors, header)
        return _restore_cascade(tensors, header) if kind == "Cascade" else _restore(MODELS[kind], tensors, header)
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
    extractors = EXTRACTORS | {SegmentFeatures.kind: SegmentFeatures}
    model.extractor_ = extractors[header["extractor"]].restore(features, header["features"])
    cells = {name: Cells(tensors[f"{name}.ptr"], tensors[f"{name}.column"]) for name in header["layers"]}
    model.parameters_ = Parameters(cells, int(first[-1]), order)
    moves = [tensors[name] for name in ("transitions", "triples")[:order]]
    model.weights_ = np.concatenate([*(tensors[f"{name}.weights"] for name in header["layers"]), *moves])
    model.scheme_, model.training_, model.history_ = header["scheme"], header["training"], header["history"]
    if isinstance(model, SemiCRF):
        words = header["segments"]
        model.segments_ = SegmentSpace(
            tuple(words["labels"]), words["scheme"], tuple(words["types"]), words["max_length"]
        )
        model.parameters_ = model.parameters_._replace(n_states=len(words["types"]) + 1)
        assert isinstance(model.extractor_, SegmentFeatures)
        model.dictionaries = model.extractor_.dictionary_phrases() or None
    return model


def _restore_cascade(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> Cascade:
    layers: dict[str, Any] = {}
    for i, layer in enumerate(header["layers"]):
        own = {k.removeprefix(f"layer{i}."): v for k, v in tensors.items() if k.startswith(f"layer{i}.")}
        layers[layer["name"]] = _restore(MODELS[layer["model"]["kind"]], own, layer["model"])
    untrained = [(name, type(model)(**model.get_params(deep=False))) for name, model in layers.items()]
    cascade = Cascade(untrained, **header["parameters"])
    cascade.layers_, cascade.inputs_, cascade.lexicon_ = layers, tuple(header["inputs"]), None
    if "lexicon.text" in tensors:
        words = modelfile.unpack_strings(tensors["lexicon.text"], tensors["lexicon.offsets"])
        had = modelfile.unpack_strings(tensors["lexicon.had"], tensors["lexicon.had.offsets"])
        cascade.lexicon_ = Lexicon(dict(zip(words, had, strict=True)))
    cascade.training_, cascade.history_ = header["training"], header["history"]
    return cascade
