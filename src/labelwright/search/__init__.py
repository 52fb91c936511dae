"""Search for the settings of a tagger, and cross-validation.

Names are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelwright.memory.search import memory_settings as memory_settings
    from labelwright.search.folds import CrossValidation as CrossValidation
    from labelwright.search.folds import Tested as Tested
    from labelwright.search.folds import cross_validate as cross_validate
    from labelwright.search.folds import learning_curve as learning_curve
    from labelwright.search.progressive import ProgressiveSearch as ProgressiveSearch

_HOMES = {
    "CrossValidation": "labelwright.search.folds",
    "ProgressiveSearch": "labelwright.search.progressive",
    "Tested": "labelwright.search.folds",
    "cross_validate": "labelwright.search.folds",
    "learning_curve": "labelwright.search.folds",
    "memory_settings": "labelwright.memory.search",
}

__all__ = ["CrossValidation", "ProgressiveSearch", "Tested", "cross_validate", "learning_curve", "memory_settings"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labelwright.search' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
