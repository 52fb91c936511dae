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
    from labelwright.models.cascade import Cascade as Cascade
    from labelwright.models.crf import CRF as CRF
    from labelwright.models.files import load as load
    from labelwright.models.latent import LatentCRF as LatentCRF
    from labelwright.models.memory import MemoryBased as MemoryBased
    from labelwright.models.memory import MemoryTagger as MemoryTagger
    from labelwright.models.ngram import NgramTagger as NgramTagger
    from labelwright.models.perceptron import LatentPerceptron as LatentPerceptron
    from labelwright.models.perceptron import Perceptron as Perceptron
    from labelwright.models.progressive import ProgressiveSearch as ProgressiveSearch
    from labelwright.models.segment import SemiCRF as SemiCRF

__version__ = "0.1.0"

_HOMES = {
    "CRF": "labelwright.models.crf",
    "Cascade": "labelwright.models.cascade",
    "Decoding": "labelwright.decode.record",
    "LabelwrightError": "labelwright.errors",
    "LatentCRF": "labelwright.models.latent",
    "LatentPerceptron": "labelwright.models.perceptron",
    "MemoryBased": "labelwright.models.memory",
    "MemoryTagger": "labelwright.models.memory",
    "NgramTagger": "labelwright.models.ngram",
    "Perceptron": "labelwright.models.perceptron",
    "ProgressiveSearch": "labelwright.models.progressive",
    "SemiCRF": "labelwright.models.segment",
    "Span": "labelwright.corpus.spans",
    "load": "labelwright.models.files",
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
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
