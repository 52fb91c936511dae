"""What a cascade has learnt: its layers, what they pass, and how training went for each alone and for all together."""

from collections.abc import Mapping
from typing import Any

from labelwright.inspection.linear import sizes


def describe(model: Any, signatures: Mapping[str, str]) -> dict[str, Any]:
    """All that a cascade's file alone shows, ready for JSON; `signatures` are those of its layers."""
    parts = [f"{name}:{line}" for name, line in signatures.items()]
    return {
        "signature": "|".join([type(model).__name__.lower(), f"passing:{model.passing}", *parts]),
        "view": "cascade",
        "kind": type(model).__name__,
        "passing": model.passing,
        "parameters": {name: value for name, value in model.get_params(deep=False).items() if name != "layers"},
        "columns": list(model.inputs_),
        "lexicon": None if model.lexicon_ is None else {"layer": model.lexicon, "words": len(model.lexicon_.words)},
        "layers": {name: {"signature": signatures[name], **_layer(layer)} for name, layer in model.layers_.items()},
        "training": model.training_,
        "history": model.history_,
    }


def _layer(layer: Any) -> dict[str, Any]:
    """What is shown of a layer beside the others; its own `describe` shows all."""
    return {
        "kind": type(layer).__name__,
        "labels": list(layer.classes_),
        "scheme": layer.scheme_,
        **(sizes(layer) if layer._sizes() else {"size": layer._summary().sizes}),
        "probabilistic": layer._probabilistic,
        "training": layer.training_,
    }
