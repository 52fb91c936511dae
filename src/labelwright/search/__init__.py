"""Search for the settings of a tagger, and cross-validation."""

from labelwright.memory.search import memory_settings
from labelwright.search.folds import CrossValidation, Tested, cross_validate, learning_curve
from labelwright.search.progressive import ProgressiveSearch

__all__ = [
    "CrossValidation",
    "ProgressiveSearch",
    "Tested",
    "cross_validate",
    "learning_curve",
    "memory_settings",
]
