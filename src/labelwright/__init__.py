"""labelwright: sequence labelling on a CPU, with proofs and probabilities.

Names are imported when first used, so that `import labelwright` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelwright.corpus.columns import read_columns as read_columns
    from labelwright.corpus.spans import Span as Span
    from labelwright.decode.record import Decoding as Decoding
    from labelwright.errors import LabelwrightError as LabelwrightError
    from labelwright.search.progressive import ProgressiveSearch as ProgressiveSearch
    from labelwright.taggers.cascade import Cascade as Cascade
    from labelwright.taggers.crf import CRF as CRF
    from labelwright.taggers.latent_crf import LatentCRF as LatentCRF
    from labelwright.taggers.memory import MemoryBased as MemoryBased
    from labelwright.taggers.memory import MemoryTagger as MemoryTagger
    from labelwright.taggers.ngram import NgramTagger as NgramTagger
    from labelwright.taggers.perceptron import LatentPerceptron as LatentPerceptron
    from labelwright.taggers.perceptron import Perceptron as Perceptron
    from labelwright.taggers.registry import load as load
    from labelwright.taggers.semi_crf import SemiCRF as SemiCRF

__version__ = "0.2.0"

_HOMES = {
    "CRF": "labelwright.taggers.crf",
    "Cascade": "labelwright.taggers.cascade",
    "Decoding": "labelwright.decode.record",
    "LabelwrightError": "labelwright.errors",
    "LatentCRF": "labelwright.taggers.latent_crf",
    "LatentPerceptron": "labelwright.taggers.perceptron",
    "MemoryBased": "labelwright.taggers.memory",
    "MemoryTagger": "labelwright.taggers.memory",
    "NgramTagger": "labelwright.taggers.ngram",
    "Perceptron": "labelwright.taggers.perceptron",
    "ProgressiveSearch": "labelwright.search.progressive",
    "SemiCRF": "labelwright.taggers.semi_crf",
    "Span": "labelwright.corpus.spans",
    "dag": "labelwright.structures",
    "load": "labelwright.taggers.registry",
    "read_columns": "labelwright.corpus.columns",
}

__all__ = [
    "CRF",
    "Cascade",
    "Decoding",
    "LabelwrightError",
    "LatentCRF",
    "LatentPerceptron",
    "MemoryBased",
    "MemoryTagger",
    "NgramTagger",
    "Perceptron",
    "ProgressiveSearch",
    "SemiCRF",
    "Span",
    "__version__",
    "load",
    "read_columns",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labelwright' has no attribute {name!r}")
    if name == "dag":  # a module
        return import_module("labelwright.structures.dag")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
