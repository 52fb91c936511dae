"""Which format a file has, and one way to read those that hold sentences as columns."""

import io
import itertools
import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from labelwright.corpus import annotations, brat, docbin, parquet, token_records
from labelwright.corpus.attribute_lines import evidence_of, parse_attribute_lines, refuse_doubt
from labelwright.corpus.columns import columns_of
from labelwright.corpus.compressed import CODECS, name_of, read_bytes
from labelwright.corpus.conllu import read_conllu
from labelwright.corpus.json_records import BOM, first_object, parse_json_lines, parsed
from labelwright.corpus.table import Corpus
from labelwright.corpus.tokenizer import Tokenizer
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import did_you_mean

TEXTS = ("text", "doccano", "label-studio", "brat")  # not yet split into tokens; plain, or annotated
RECORDS = ("jsonl", "parquet", "spacy", *TEXTS)  # with fields that have names
FORMATS = ("columns", "conllu", "crfsuite", *RECORDS)
LONG = 1000  # tokens that are rarely one sentence
PREDICTED = "predicted"  # the field that `labelwright tag` adds


class FileOptions(NamedTuple):
    """What is said of a file beside its columns."""

    format: str | None = None  # by default as the file looks
    label_names: str | None = None  # of labels that are numbers
    skip_bad_spans: bool = False  # of annotated texts
    tokenizer: Tokenizer = Tokenizer()  # of texts


NOTHING_SAID = FileOptions()


class OpenFile(io.BytesIO):
    """The contents of a file whose format is known, or a piece of them; they can be read again and again.

    first_line : where the piece begins
    head : the first piece of the file, which tells its layout; None where this is it
    more : whether further pieces follow
    """

    def __init__(
        self,
        data: bytes,
        name: str,
        format: str,
        first_line: int = 1,
        head: "OpenFile | None" = None,
        more: bool = False,
    ):
        super().__init__(data)
        self.name, self.format = name, format
        self.first_line, self.head, self.more = first_line, head, more

    def read(self, size: int | None = -1, /) -> bytes:
        self.seek(0)
        return super().read(size)


def opened(path: str | OpenFile, format: str | None = None, named: bool = False) -> OpenFile:
    """Read a file, `-` for standard input, and find out its format; with `named` columns it has columns."""
    if isinstance(path, OpenFile):
        return path
    check_format(format)
    if os.path.isdir(path):
        return opened_folder(path, format)
    data, name = read_bytes(path), name_of(path)
    return OpenFile(data, name, format or format_of(name, data, named))


def opened_folder(path: str, format: str | None) -> OpenFile:
    """A folder, which holds texts and annotations of BRAT."""
    if format not in (None, "brat"):
        raise CorpusError(f"{path}: is a folder, expected a file with {format}; only BRAT's stand-off is in folders")
    return OpenFile(b"", path, "brat")


def check_format(format: str | None) -> None:
    """Refuse the name of an unknown format."""
    if format is not None and format not in FORMATS:
        near = did_you_mean(format, FORMATS)
        raise OptionError(f"format: expected one of {', '.join(FORMATS)}, got {format!r}{near}")


def format_of(name: str, data: bytes, named: bool = False) -> str:
    """The format of a file by its name and its contents; `columns` where nothing else is certain, but an error for two
    columns that are likely a label and an attribute.

    >>> format_of("a.conllu", b""), format_of("a", b'{"tokens": ["He"]}'), format_of("a.txt", b"He PRP")
    ('conllu', 'jsonl', 'columns')
    """
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes if suffix.lower() not in CODECS][-1:]
    suffix = suffixes[0] if suffixes else ""
    if suffix in (".conllu", ".conll-u"):
        return "conllu"
    if suffix == ".parquet" or data.startswith(parquet.MAGIC):
        return "parquet"
    if suffix in (".crfsuite", ".spacy"):
        return suffix[1:]
    if suffix == ".ann" and not named:  # read with the text beside it
        return "brat"
    return _json_format(suffix, data) or ("columns" if named else _format_of_lines(name, data))


def _format_of_lines(name: str, data: bytes) -> str:
    """The format of a file with a line for each token."""
    evidence = evidence_of(data)
    refuse_doubt(evidence, name)
    return "crfsuite" if evidence.is_attributes else "columns"


def _json_format(suffix: str, data: bytes) -> str | None:
    """The format of a file of JSON."""
    of_json = suffix in (".jsonl", ".ndjson", ".json")
    first = first_object(data)
    if first is not None:
        if any(name in first for name in token_records.WORDS):
            return "jsonl"
        if "text" in first and (of_json or any(name in first for name in annotations.FIELDS)):
            return "doccano"
    elif (of_json or data.removeprefix(BOM)[:1] == b"[") and _has_tasks(data):
        return "label-studio"
    return "jsonl" if of_json else None


def _has_tasks(data: bytes) -> bool:
    """Whether these are the tasks of Label Studio."""
    try:
        tasks = parsed(data.removeprefix(BOM), "")
    except CorpusError:
        return False
    first = tasks[0] if isinstance(tasks, list) and tasks else None
    return isinstance(first, dict) and ("data" in first or "text" in first)


def read_corpus(
    file: OpenFile,
    columns: str | Sequence[str] | None = None,
    label: str | bool | None = None,
    options: FileOptions = NOTHING_SAID,
    predicted: bool = False,
) -> tuple[Corpus, list[str]]:
    """The corpus in a file, and what is to be said about it; `predicted` labels are preferred to given ones.

    Of CRFsuite's data this is the label column alone."""
    if file.format == "crfsuite":
        return parse_attribute_lines(file.getvalue(), file.name, file.first_line).labels, []
    if file.format == "columns":
        head = None if file.head is None else file.head.getvalue()
        corpus = columns_of(file.getvalue(), file.name, columns, label, file.first_line, head)
        unbroken = len(corpus) == 1 and corpus.n_tokens >= LONG and head is None and not file.more
        note = f"{file.name}: all {corpus.n_tokens:,} tokens are one sentence; an empty line must end each sentence"
        return corpus, [note] if unbroken else []
    if file.format == "conllu":
        return read_conllu(file, label if isinstance(label, str) else "upos"), []
    if file.format in TEXTS:
        return _read_texts(file, columns, label, options, predicted)
    records = records_of(file)
    if predicted and PREDICTED in records.fields:
        label = PREDICTED
    return token_records.corpus_of(records, columns, label, options.label_names), []


def records_of(file: OpenFile) -> token_records.TokenRecords:
    """The fields of JSON lines or of a Parquet file."""
    if file.format == "parquet":
        return parquet.records_of(parquet.read_table(file), file.name)
    if file.format == "spacy":
        return docbin.records_of(file.getvalue(), file.name)
    records = token_records.records_of(token_records.json_lines(file))
    if file.head is None:
        return records
    first = token_records.without_header(parse_json_lines(_first_lines(file.head), file.name))  # may name labels
    return records._replace(class_names={**records.class_names, **first[1]})


def _first_lines(head: OpenFile, n: int = 2) -> bytes:
    """The first lines of a file that are not blank."""
    lines = (line for line in iter(head.readline, b"") if line.strip())
    head.seek(0)
    return b"".join(itertools.islice(lines, n))


def _read_texts(
    file: OpenFile, columns: str | Sequence[str] | None, label: str | bool | None, options: FileOptions, predicted: bool
) -> tuple[Corpus, list[str]]:
    """A corpus of annotated texts."""
    for name, given in (("columns", columns), ("label", label or None)):
        if given is not None:
            raise OptionError(f"{name}: {file.name}: annotated texts have the columns word and label, and no others")
    texts = texts_of(file, predicted)
    if label is False:
        texts = [text._replace(annotations=None) for text in texts]
    elif file.format in ("label-studio", "brat"):
        texts = [text for text in texts if text.annotations is not None] or texts
    read = annotations.corpus_of(texts, file.name, options.skip_bad_spans, options.tokenizer)
    return read.corpus, read.notes


def texts_of(file: OpenFile, predicted: bool = False) -> list[annotations.AnnotatedText]:
    """The texts of a file or folder, with their annotations; plain text is one text, or a piece of one."""
    if file.format == "text":
        return [annotations.AnnotatedText(file.name, plain_text(file), None)]
    if file.format == "brat":
        return brat.brat_texts(file.name)
    if file.format == "doccano":
        fields = (PREDICTED, *annotations.FIELDS) if predicted else annotations.FIELDS
        return annotations.doccano_texts(token_records.json_lines(file), fields)
    return annotations.label_studio_texts(annotations.tasks_of(file), file.name, predicted)


def plain_text(file: OpenFile) -> str:
    """The characters of a file of plain text, or of a piece of it."""
    data = file.getvalue().removeprefix(BOM) if file.first_line == 1 else file.getvalue()
    if file.first_line == 1 and (first_object(data) is not None or _has_tasks(data)):
        format = _json_format(".jsonl", data)
        raise CorpusError(f"{file.name}: holds JSON, not plain text; use --format {format} in place of --text")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = file.first_line + data.count(b"\n", 0, error.start)
        raise CorpusError(
            f"{file.name}:{line}: byte 0x{data[error.start]:02x} is not UTF-8; convert the file first"
        ) from None
