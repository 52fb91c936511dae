"""Corpora: column files, CoNLL-U, files of other programs, label schemes, spans, and generated
text.

Names are imported when first used: a tagger that answers needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelwright.corpus.annotations import read_brat as read_brat
    from labelwright.corpus.annotations import read_doccano as read_doccano
    from labelwright.corpus.annotations import read_label_studio as read_label_studio
    from labelwright.corpus.binary_records import read_docbin as read_docbin
    from labelwright.corpus.binary_records import read_parquet as read_parquet
    from labelwright.corpus.columns import CONLLU_NAMES as CONLLU_NAMES
    from labelwright.corpus.columns import read_columns as read_columns
    from labelwright.corpus.columns import read_conllu as read_conllu
    from labelwright.corpus.columns import stream_columns as stream_columns
    from labelwright.corpus.columns import write_columns as write_columns
    from labelwright.corpus.columns import write_conllu as write_conllu
    from labelwright.corpus.generated import builtin_corpus as builtin_corpus
    from labelwright.corpus.generated import synthetic_hmm as synthetic_hmm
    from labelwright.corpus.limits import max_input as max_input
    from labelwright.corpus.open_labels import read_allowed_labels as read_allowed_labels
    from labelwright.corpus.open_labels import unmarked_unknown as unmarked_unknown
    from labelwright.corpus.open_labels import weighted as weighted
    from labelwright.corpus.open_labels import with_allowed_labels as with_allowed_labels
    from labelwright.corpus.schemes import SCHEMES as SCHEMES
    from labelwright.corpus.schemes import Allowed as Allowed
    from labelwright.corpus.schemes import Boundaries as Boundaries
    from labelwright.corpus.schemes import Problem as Problem
    from labelwright.corpus.schemes import allowed as allowed
    from labelwright.corpus.schemes import boundaries as boundaries
    from labelwright.corpus.schemes import convert as convert
    from labelwright.corpus.schemes import detect_scheme as detect_scheme
    from labelwright.corpus.schemes import repair as repair
    from labelwright.corpus.schemes import split_label as split_label
    from labelwright.corpus.schemes import validate as validate
    from labelwright.corpus.spans import Span as Span
    from labelwright.corpus.spans import labels_of as labels_of
    from labelwright.corpus.spans import spans_of as spans_of
    from labelwright.corpus.table import Column as Column
    from labelwright.corpus.table import Corpus as Corpus
    from labelwright.corpus.table import RawText as RawText
    from labelwright.corpus.token_records import read_frame as read_frame
    from labelwright.corpus.token_records import read_jsonl as read_jsonl
    from labelwright.corpus.tokenizer import Tokenizer as Tokenizer

_NAMES = {  # of each file
    "annotations": "read_brat read_doccano read_label_studio",
    "binary_records": "read_docbin read_parquet",
    "columns": "CONLLU_NAMES read_columns read_conllu stream_columns write_columns write_conllu",
    "generated": "builtin_corpus synthetic_hmm",
    "limits": "max_input",
    "open_labels": "read_allowed_labels unmarked_unknown weighted with_allowed_labels",
    "schemes": "SCHEMES Allowed Boundaries Problem"
    " allowed boundaries convert detect_scheme repair split_label validate",
    "spans": "Span labels_of spans_of",
    "table": "Column Corpus RawText",
    "token_records": "read_frame read_jsonl",
    "tokenizer": "Tokenizer",
}
_HOMES = {name: file for file, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labelwright.corpus' has no attribute {name!r}")
    return getattr(import_module(f"labelwright.corpus.{_HOMES[name]}"), name)
