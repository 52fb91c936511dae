"""What is shown of a tagger without a view of its own: its settings, its labels, its training, its answers."""

from collections.abc import Sequence
from typing import Any

from labelwright.inspection.use import label_use, label_views


def describe(model: Any) -> dict[str, Any]:
    """All that is known of a tagger of any kind, ready for JSON."""
    return {
        "signature": repr(model),
        "view": "plain",
        "kind": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "scheme": model.scheme_,
        "labels": list(map(str, model.classes_)),
        "paths": None,
        "training": getattr(model, "training_", {}),
    }


def describe_use(model: Any, corpora: Sequence[Any], top: int) -> dict[str, Any]:
    """The labels by their use on data, ready for JSON."""
    labels = list(map(str, model.classes_))
    use = label_use(model, corpora, labels, probabilistic=False)
    return {"use": [view._asdict() for view in label_views(use, labels, top)]}
