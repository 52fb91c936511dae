"""What a memory-based model remembers, and what its columns weigh."""

from typing import Any


def describe(model: Any) -> dict[str, Any]:
    """All that a memory-based tagger's file shows, ready for JSON."""
    header = model.windows_.header()
    weights = model.feature_weights_
    return {
        "view": "memory",
        "kind": type(model).__name__,
        "labels_sentences": True,
        "parameters": model.get_params(deep=False),
        "scheme": model.scheme_,
        "labels": list(model.labels_),
        "classes": len(model.grams_),
        "columns": header.get("inputs", []),
        "template": header.get("template"),
        "paths": None,
        "memory": model.memory_,
        "feature_weights": [{"column": name, "weight": weight} for name, weight in weights.items()],
        "training": model.training_,
    }


def describe_classifier(model: Any) -> dict[str, Any]:
    """All that the file of a memory-based classifier shows, ready for JSON."""
    weights = model.feature_weights_.tolist()
    return {
        "view": "memory",
        "kind": type(model).__name__,
        "labels_sentences": False,
        "parameters": model.get_params(deep=False),
        "scheme": None,
        "labels": [str(label) for label in model.classes_.tolist()],
        "classes": len(model.classes_),
        "columns": [],
        "template": None,
        "paths": None,
        "memory": model.memory_,
        "feature_weights": [{"column": f"column {i}", "weight": weight} for i, weight in enumerate(weights)],
        "training": getattr(model, "training_", {}),
    }
