"""What a memory-based model remembers, what its columns weigh, and the neighbours of a token."""

from typing import Any

from labelwright.inspection.remembered import Remembered

SOURCES = 3  # sentences that are shown for neighbours with the same values


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


def read_of_token(model: Any, instances: Any, t: int, remembered: Remembered | None = None) -> dict[str, Any]:
    """What is read of one of some instances, and its neighbours (with the sentences that they come from)."""
    names = list(model.windows_.names)
    one = instances._replace(codes=instances.codes[t : t + 1])
    values = [known[code] for known, code in zip(one.values, one.codes[0].tolist(), strict=True)]
    neighbours = _neighbours(model, one, values) if model.algorithm == "ib1" else None
    if neighbours is not None and remembered is not None:
        for row in neighbours:
            row["places"] = [remembered.place(instance) for instance in row["instances"][:SOURCES]]
    return {"values": dict(zip(names, values, strict=True)), "neighbours": neighbours}


def _neighbours(model: Any, one: Any, values: list[Any]) -> list[dict[str, Any]]:
    """The nearest neighbours of one instance, with what is different in them, the heaviest columns first."""
    names, weights = list(model.windows_.names), model.learner_.feature_weights_.tolist()
    heaviest = sorted(range(len(names)), key=lambda i: -weights[i])
    rows: dict[Any, dict[str, Any]] = {}
    for near in model.learner_.neighbours(one)[0]:
        row = rows.setdefault(
            (near.distance, near.label, near.values),
            {
                "distance": near.distance,
                "labels": _gram(model, near.label),
                "instances": [],
                "values": dict(zip(names, near.values, strict=True)),
                "differs": {names[i]: near.values[i] for i in heaviest if near.values[i] != values[i]},
            },
        )
        row["instances"].append(near.instance)
    return list(rows.values())


def _gram(model: Any, code: int) -> list[str | None]:
    """The labels of a class; None outside the sentence."""
    return [model.labels_[label] if label >= 0 else None for label in model.grams_[code].tolist()]
