"""One line that says how a model was made, for tables of results and for model files."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelwright import __version__
from labelwright.features.builtin import BUILTIN


def signature(model: Any) -> str:
    """The kind of model, its template and its settings, as in crf|template:default|order:1|...|labelwright:0.1.0; or
    the program that it was imported from."""
    shown = [f"template:{_template_name(*model._features_read())}"]
    program = getattr(model, "training_", {}).get("imported_from")
    for name, value in ({"imported_from": program} if program else model._signed_settings()).items():
        if isinstance(value, Mapping):
            shown.append(f"{name}:{','.join(f'{key}={number:g}' for key, number in value.items())}")
        elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
            shown.append(f"{name}:{','.join(map(str, value))}")
        elif value not in (None, 0.0, "none"):
            shown.append(f"{name}:{value}")
    shown += [
        f"{name}:{value:g}" for name, value in model._compression.items() if (name, value) != ("bits", 32) and value
    ]
    return "|".join([type(model).__name__.lower(), *shown, f"labelwright:{__version__}"])


def _template_name(kind: str, template: Mapping[str, str] | None) -> str:
    """The name of a built-in template; a file's name with a hash of its text; or the kind of features."""
    if template is None:
        return kind
    if template["name"] in BUILTIN:
        return template["name"]
    digest = hashlib.sha256(template["text"].encode()).hexdigest()[:8]
    return f"{Path(template['name']).stem}@{digest}"
