"""labelwright: sequence labelling on a CPU, with proofs and probabilities.

Names are imported when first used, so that `import labelwright` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelwright.corpus.annotations import read_brat as read_brat
    from labelwright.corpus.annotations import read_doccano as read_doccano
    from labelwright.corpus.annotations import read_label_studio as read_label_studio
    from labelwright.corpus.binary_records import read_docbin as read_docbin
    from labelwright.corpus.binary_records import read_parquet as read_parquet
    from labelwright.corpus.columns import read_columns as read_columns
    from labelwright.corpus.columns import read_conllu as read_conllu
    from labelwright.corpus.spans import Span as Span
    from labelwright.corpus.table import Corpus as Corpus
    from labelwright.corpus.token_records import read_frame as read_frame
    from labelwright.corpus.token_records import read_jsonl as read_jsonl
    from labelwright.corpus.tokenizer import Tokenizer as Tokenizer
    from labelwright.decode.record import Decoding as Decoding
    from labelwright.errors import LabelwrightError as LabelwrightError
    from labelwright.features.attributes import read_crfsuite as read_crfsuite
    from labelwright.hub import push as push
    from labelwright.search.progressive import ProgressiveSearch as ProgressiveSearch
    from labelwright.structures.feature_lattice import FeatureLattice as FeatureLattice
    from labelwright.structures.feature_lattice import read_lattices as read_lattices
    from labelwright.taggers.arguments import show as show
    from labelwright.taggers.cascade import Cascade as Cascade
    from labelwright.taggers.crf import CRF as CRF
    from labelwright.taggers.crf import LatentCRF as LatentCRF
    from labelwright.taggers.lattice_crf import LatticeCRF as LatticeCRF
    from labelwright.taggers.lattice_tagger import LatticeTagger as LatticeTagger
    from labelwright.taggers.memory import MemoryBased as MemoryBased
    from labelwright.taggers.memory import MemoryTagger as MemoryTagger
    from labelwright.taggers.ngram import NgramTagger as NgramTagger
    from labelwright.taggers.perceptron import LatentPerceptron as LatentPerceptron
    from labelwright.taggers.perceptron import Perceptron as Perceptron
    from labelwright.taggers.registry import load as load
    from labelwright.taggers.semi_crf import SemiCRF as SemiCRF

__version__ = "0.2.0"

_NAMES = {  # by the module that has them
    "corpus.annotations": "read_brat read_doccano read_label_studio",
    "corpus.binary_records": "read_docbin read_parquet",
    "corpus.columns": "read_columns read_conllu",
    "corpus.spans": "Span",
    "corpus.table": "Corpus",
    "corpus.token_records": "read_frame read_jsonl",
    "corpus.tokenizer": "Tokenizer",
    "decode.record": "Decoding",
    "errors": "LabelwrightError",
    "features.attributes": "read_crfsuite",
    "hub": "push",
    "search.progressive": "ProgressiveSearch",
    "structures.feature_lattice": "FeatureLattice read_lattices",
    "taggers.arguments": "show",
    "taggers.cascade": "Cascade",
    "taggers.crf": "CRF LatentCRF",
    "taggers.lattice_crf": "LatticeCRF",
    "taggers.lattice_tagger": "LatticeTagger",
    "taggers.memory": "MemoryBased MemoryTagger",
    "taggers.ngram": "NgramTagger",
    "taggers.perceptron": "LatentPerceptron Perceptron",
    "taggers.registry": "load",
    "taggers.semi_crf": "SemiCRF",
}
_HOMES = {
    name: f"labelwright.{module}" for module, names in _NAMES.items() for name in names.split()
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name == "dag":  # a module
        return import_module("labelwright.structures.dag")
    if name not in _HOMES:
        raise AttributeError(f"module 'labelwright' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
