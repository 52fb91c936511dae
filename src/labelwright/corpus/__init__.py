"""Corpora: column files, CoNLL-U, files of other programs, label schemes, spans, and generated text."""

from labelwright.corpus.annotations import read_doccano, read_label_studio
from labelwright.corpus.columns import read_columns, stream_columns, write_columns
from labelwright.corpus.conllu import CONLLU_NAMES, read_conllu, write_conllu
from labelwright.corpus.frames import read_frame
from labelwright.corpus.generated import builtin_corpus
from labelwright.corpus.parquet import read_parquet
from labelwright.corpus.schemes import (
    SCHEMES,
    Allowed,
    Boundaries,
    Problem,
    allowed,
    boundaries,
    convert,
    detect_scheme,
    repair,
    split_label,
    validate,
)
from labelwright.corpus.spans import Span, labels_of, spans_of
from labelwright.corpus.synthetic import synthetic_hmm
from labelwright.corpus.table import Column, Corpus, RawText
from labelwright.corpus.token_records import read_jsonl

__all__ = [
    "CONLLU_NAMES",
    "SCHEMES",
    "Allowed",
    "Boundaries",
    "Column",
    "Corpus",
    "Problem",
    "RawText",
    "Span",
    "allowed",
    "boundaries",
    "builtin_corpus",
    "convert",
    "detect_scheme",
    "labels_of",
    "read_columns",
    "read_conllu",
    "read_doccano",
    "read_frame",
    "read_jsonl",
    "read_label_studio",
    "read_parquet",
    "repair",
    "spans_of",
    "split_label",
    "stream_columns",
    "synthetic_hmm",
    "validate",
    "write_columns",
    "write_conllu",
]
