"""The formats of files: how each is told from others, read at once, and read piece by piece.

Files are read piece by piece so that memory does not grow with them:

    bytes -> head, which tells the format -> blocks that end after a blank line, or a line of JSON
    -> pieces with tokens

A piece holds whole sentences.  Where the pieces are cut depends on the file alone.
"""

import io
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from labelwright.corpus import annotations, binary_records, token_records
from labelwright.corpus.attribute_lines import evidence_of, parse_attribute_lines, refuse_doubt
from labelwright.corpus.columns import (
    NEWLINE,
    SENTENCE_END,
    Waiting,
    check_held,
    columns_of,
    first_token_line,
    read_conllu,
)
from labelwright.corpus.compressed import CODECS, ByteStream, decoded, name_of, read_bytes
from labelwright.corpus.limits import LONGEST_LINE, PIECE, check_size, limit_of, line_too_long
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Column, Corpus
from labelwright.corpus.token_records import BOM, first_object, parse_json_lines, parsed
from labelwright.corpus.tokenizer import Tokenizer
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import did_you_mean

LONG = 1000  # tokens that are rarely one sentence
PREDICTED = "predicted"  # the field that `labelwright tag` adds
SIZE = 1 << 21  # bytes of a piece: about 150,000 tokens of columns
LINE_END = re.compile(rb"\n")
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*+[{\[]")
_TWO_LINES = re.compile(rb"\s*+[^\n]++\n\s*+[^\n]++\n")  # that are not blank
# neither a range nor an empty node
_CONLLU_TOKEN = re.compile(rb"^[^#\s.-][^\t\n.-]*(?:\t|$)", re.MULTILINE)


class FileOptions(NamedTuple):
    """What is said of a file beside its columns."""

    format: str | None = None  # by default as the file looks
    label_names: str | None = None  # of labels that are numbers
    skip_bad_spans: bool = False  # of annotated texts
    tokenizer: Tokenizer = Tokenizer()  # of texts


NOTHING_SAID = FileOptions()


class OpenFile(io.BytesIO):
    """The contents of a file whose format is known, or a piece of them; they can be read again and
    again.

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


Columns = str | Sequence[str] | None
Label = str | bool | None


class Format(NamedTuple):
    """How files of a format are read: they have a line for each token, records with named fields,
    or texts."""

    # by columns and label, as users name them
    lines: Callable[[OpenFile, Columns, Label], Corpus] | None = None
    records: Callable[[OpenFile], token_records.TokenRecords] | None = None
    # or those that were predicted
    texts: Callable[[OpenFile, bool], list[annotations.AnnotatedText]] | None = None
    ends: re.Pattern[bytes] | None = None  # behind what a file may be cut; None: it has no pieces
    has_tokens: Callable[[bytes], bool] = lambda text: bool(text.removeprefix(BOM).strip())


def _columns(file: OpenFile, columns: Columns, label: Label) -> Corpus:
    head = None if file.head is None else file.head.getvalue()
    return columns_of(file.getvalue(), file.name, columns, label, file.first_line, head)


def _json_records(file: OpenFile) -> token_records.TokenRecords:
    """JSON lines; the first line of the file may only name labels."""
    records = token_records.records_of(token_records.json_lines(file))
    if file.head is None:
        return records
    lines = (line for line in io.BytesIO(file.head.getvalue()) if line.strip())
    first = token_records.without_header(
        parse_json_lines(b"".join(itertools.islice(lines, 2)), file.name)
    )
    return records._replace(class_names={**records.class_names, **first[1]})


def _doccano(file: OpenFile, predicted: bool) -> list[annotations.AnnotatedText]:
    fields = (PREDICTED, *annotations.FIELDS) if predicted else annotations.FIELDS
    return annotations.doccano_texts(token_records.json_lines(file), fields)


FORMATS = {
    "columns": Format(
        _columns, ends=SENTENCE_END, has_tokens=lambda text: first_token_line(text)[0] is not None
    ),
    "conllu": Format(
        lambda file, _, label: read_conllu(file, label if isinstance(label, str) else "upos"),
        ends=SENTENCE_END,
        has_tokens=lambda text: _CONLLU_TOKEN.search(text) is not None,
    ),
    "crfsuite": Format(  # the label column alone
        lambda file, *_: parse_attribute_lines(file.getvalue(), file.name, file.first_line).labels,
        ends=SENTENCE_END,
    ),
    "jsonl": Format(records=_json_records, ends=LINE_END),
    "parquet": Format(
        records=lambda file: binary_records.parquet_records(
            binary_records.read_table(file), file.name
        ),
        has_tokens=bool,
    ),
    "spacy": Format(
        records=lambda file: binary_records.docbin_records(file.getvalue(), file.name),
        has_tokens=bool,
    ),
    "text": Format(
        texts=lambda file, _: [annotations.AnnotatedText(file.name, plain_text(file), None)],
        ends=SENTENCE_END,
    ),
    "doccano": Format(texts=_doccano, ends=LINE_END),
    "label-studio": Format(
        texts=lambda file, predicted: annotations.label_studio_texts(
            annotations.tasks_of(file), file.name, predicted
        ),
        has_tokens=bool,
    ),
    "brat": Format(texts=lambda file, _: annotations.brat_texts(file.name), has_tokens=bool),
}
TEXTS = tuple(name for name, format in FORMATS.items() if format.texts)  # not yet split into tokens
# with fields that have names
RECORDS = tuple(name for name, format in FORMATS.items() if not format.lines)
SUFFIXES = {
    ".conllu": "conllu",
    ".conll-u": "conllu",
    ".parquet": "parquet",
    ".crfsuite": "crfsuite",
    ".spacy": "spacy",
    ".ann": "brat",  # read with the text beside it
}


def opened(path: str | OpenFile, format: str | None = None, named: bool = False) -> OpenFile:
    """Read a file, `-` for standard input, and find out its format; with `named` columns it has
    columns."""
    if isinstance(path, OpenFile):
        return path
    folder = _folder(path, format)
    if folder is not None:
        return folder
    data, name = read_bytes(path), name_of(path)
    return OpenFile(data, name, format or format_of(name, data, named))


def _folder(path: str, format: str | None) -> OpenFile | None:
    """A folder, which holds texts and annotations of BRAT; None for a file.  Refuses the name of an
    unknown format."""
    if format is not None and format not in FORMATS:
        near = did_you_mean(format, FORMATS)
        raise OptionError(f"format: expected one of {', '.join(FORMATS)}, got {format!r}{near}")
    if not os.path.isdir(path):
        return None
    if format not in (None, "brat"):
        raise CorpusError(
            f"{path}: is a folder, expected a file with {format}; only BRAT's stand-off is in "
            "folders"
        )
    return OpenFile(b"", path, "brat")


def format_of(name: str, data: bytes, named: bool = False) -> str:
    """The format of a file by its name and its contents; `columns` where nothing else is certain,
    but an error for two columns that are likely a label and an attribute.

    >>> format_of("a.conllu", b""), format_of("a", b'{"tokens": ["He"]}')
    ('conllu', 'jsonl')
    >>> format_of("a.txt", b"He PRP")
    'columns'
    """
    suffixes = [
        suffix.lower() for suffix in PurePath(name).suffixes if suffix.lower() not in CODECS
    ]
    suffix = suffixes[-1] if suffixes else ""
    if data.startswith(binary_records.MAGIC) and suffix not in (".conllu", ".conll-u"):
        return "parquet"
    if suffix in SUFFIXES and not (suffix == ".ann" and named):
        return SUFFIXES[suffix]
    if (format := _json_format(suffix, data)) or named:
        return format or "columns"
    evidence = evidence_of(data)
    refuse_doubt(evidence, name)
    return "crfsuite" if evidence.is_attributes else "columns"


def _json_format(suffix: str, data: bytes) -> str | None:
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
    columns: Columns = None,
    label: Label = None,
    options: FileOptions = NOTHING_SAID,
    predicted: bool = False,
) -> tuple[Corpus, list[str]]:
    """The corpus in a file, and what is to be said about it; `predicted` labels are preferred to
    given ones.

    Of CRFsuite's data this is the label column alone."""
    format = FORMATS[file.format]
    if format.lines is not None:
        corpus = format.lines(file, columns, label)
        unbroken = file.format == "columns" and len(corpus) == 1 and corpus.n_tokens >= LONG
        note = (
            f"{file.name}: all {corpus.n_tokens:,} tokens are one sentence; an empty line must end "
            "each sentence"
        )
        return corpus, [note] if unbroken and file.head is None and not file.more else []
    if format.records is not None:
        records = format.records(file)
        if predicted and PREDICTED in records.names:
            label = PREDICTED
        return token_records.corpus_of(records, columns, label, options.label_names), []
    for name, given in (("columns", columns), ("label", label or None)):
        if given is not None:
            raise OptionError(
                f"{name}: {file.name}: annotated texts have the columns word and label, and no "
                "others"
            )
    texts = texts_of(file, predicted)
    if label is False:
        texts = [text._replace(annotations=None) for text in texts]
    elif file.format in ("label-studio", "brat"):
        texts = [text for text in texts if text.annotations is not None] or texts
    read = annotations.corpus_of(texts, file.name, options.skip_bad_spans, options.tokenizer)
    return read.corpus, read.notes


def records_of(file: OpenFile) -> token_records.TokenRecords:
    """The fields of the records in a file that has such."""
    records = FORMATS[file.format].records
    assert records is not None
    return records(file)


def texts_of(file: OpenFile, predicted: bool = False) -> list[annotations.AnnotatedText]:
    """The texts of a file or folder, with their annotations; plain text is one text, or a piece of
    one."""
    texts = FORMATS[file.format].texts
    assert texts is not None
    return texts(file, predicted)


def plain_text(file: OpenFile) -> str:
    """The characters of a file of plain text, or of a piece of it."""
    data = file.getvalue().removeprefix(BOM) if file.first_line == 1 else file.getvalue()
    if file.first_line == 1 and (first_object(data) is not None or _has_tasks(data)):
        format = _json_format(".jsonl", data)
        raise CorpusError(
            f"{file.name}: holds JSON, not plain text; use --format {format} in place of --text"
        )
    return decoded(data, file.name, file.first_line)


# -- piece by piece --------------------------------------------------------------------------------


def pieces_of(
    path: str, format: str | None = None, named: bool = False, size: int = SIZE
) -> Iterator[OpenFile]:
    """The pieces of a file, `-` for standard input, in order; with `named` columns it has
    columns."""
    folder = _folder(path, format)
    if folder is not None:
        yield folder
        return
    with ByteStream(path) as stream:
        head = _head(stream, size, format, named)
        is_array = (
            head.startswith(binary_records.MAGIC) or head.removeprefix(BOM).lstrip()[:1] == b"["
        )
        if is_array if format is None else FORMATS[format].ends is None:
            head += stream.read_all()
        format = format or format_of(stream.name, head, named)
        first: OpenFile | None = None
        line = 1
        blocks = _blocks(head, stream, format, size)
        del head
        for text, more in _with_tokens(blocks, FORMATS[format].has_tokens, stream.name):
            piece = OpenFile(text, stream.name, format, line, first, more)
            first = first or piece
            line += text.count(b"\n")
            yield piece


def _head(stream: ByteStream, size: int, format: str | None, named: bool) -> bytes:
    """How a file begins: with two whole lines at least, since the first may only say what labels
    are called."""
    text = bytearray(stream.read(size))
    is_growing = bool(text)
    while is_growing and _TWO_LINES.match(text) is None:
        if len(text) - text.rfind(NEWLINE) - 1 > LONGEST_LINE:
            # of a long text
            is_json = format is None and _JSON.match(text) is not None
            if (
                not is_json
                and FORMATS[format or format_of(stream.name, bytes(text), named)].lines is not None
            ):
                raise line_too_long(f"{stream.name}:{text.count(NEWLINE) + 1}")
        is_growing = _doubled(text, stream)
    return bytes(text)


def _doubled(text: bytearray, stream: ByteStream) -> bool:
    """Append as much again, but hardly more than may be held, piece by piece; whether there was
    more."""
    before, most = len(text), limit_of(held=True)
    assert most is not None
    wanted = min(2 * before, most + 1)
    while len(text) < wanted and (fresh := stream.read(min(PIECE, wanted - len(text)))):
        text += fresh
    check_size(len(text), stream.name, held=True, what="fewer than two whole lines of text within")
    return len(text) > before


def _blocks(head: bytes, stream: ByteStream, format: str, size: int) -> Iterator[bytes]:
    """The head and the rest of the stream, cut where a sentence ends; one block is about as long as
    `size`."""
    ends = FORMATS[format].ends
    if ends is None:
        yield head + stream.read_all()
        return
    waiting = Waiting(ends, token_lines=FORMATS[format].lines is not None)
    if head:
        waiting.add(head, stream.name)
        del head  # which may be large
    while True:
        if block := waiting.take():
            yield block
        fresh = stream.read(size)
        if not fresh:
            break
        waiting.add(fresh, stream.name)
    yield waiting.take(all=True)


def _with_tokens(
    blocks: Iterator[bytes], has_tokens: Callable[[bytes], bool], name: str
) -> Iterator[tuple[bytes, bool]]:
    """Blocks that hold tokens, and whether another one follows; others are joined to their
    neighbours."""
    held, tokens = list[bytes](), False  # whether one of those held has tokens
    n_bytes = 0  # after the last block with tokens
    for block in blocks:
        fresh = has_tokens(block)
        if tokens and fresh:
            yield b"".join(held), True
            held = []
        held.append(block)
        tokens = tokens or fresh
        n_bytes = 0 if fresh else n_bytes + len(block)
        check_held(n_bytes, name)
    yield b"".join(held), False


# -- the words of many files: what word vectors are counted on -------------------------------------

# names of the column with words; where none is there, it is the first
WORD_COLUMNS = ("word", "form", "token")
LINES_LOOKED_AT = 1000
_LINE = re.compile(rb"\S[^\r\n]*")  # from its first letter on


def read_words(
    paths: Iterable[str], format: str | None = None, columns: str | None = None
) -> Corpus:
    """The words of files, plain or compressed, as a corpus with one column; `-` is standard input.

    The format is told as that of training data is, but a file whose lines differ in their number of
    columns is text. Files are read piece by piece: in memory is a number for each token.
    """
    number: dict[str, int] = {}  # of each word
    names: list[str] = []
    codes, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for path in paths:
        for piece in pieces_of(path, format, named=columns is not None):
            if piece.name not in names:
                names.append(piece.name)
            corpus = _words_of(piece, format, columns)
            column = corpus.columns[0]
            own = [number.setdefault(word, len(number)) for word in column.values]
            codes.append(np.array(own, np.int32)[column.codes])
            lengths.append(np.diff(corpus.offsets))
    column = Column(list(number), np.concatenate(codes))
    source = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)
    return Corpus(("word",), (column,), offsets_from(np.concatenate(lengths)), source=source)


def _words_of(piece: OpenFile, format: str | None, columns: str | None) -> Corpus:
    if piece.format == "crfsuite":
        raise CorpusError(
            f"{piece.name}: holds attributes (CRFsuite's data), expected words; give text or "
            "columns"
        )
    named = format is not None or columns is not None
    if (
        piece.format == "columns"
        and not named
        and is_running_text((piece.head or piece).getvalue())
    ):
        piece.format = "text"
    if not piece.getvalue().removeprefix(BOM).strip() and not piece.more:
        return Corpus(("word",), (Column([], np.empty(0, np.int32)),), np.zeros(1, np.int64))
    corpus, _ = read_corpus(piece, columns, label=False)
    name = next((name for name in WORD_COLUMNS if name in corpus.names), corpus.names[0])
    return corpus.select([name])


def is_running_text(data: bytes) -> bool:
    """Whether lines are text, and not tokens with columns: they differ in their number of words, or
    there is only one.

    >>> is_running_text(b"He PRP\\nran VBD\\n"), is_running_text(b"He ran.\\nShe stood still.\\n")
    (False, True)
    """
    lines = [
        match[0] for match, _ in zip(_LINE.finditer(data), range(LINES_LOOKED_AT), strict=False)
    ]
    widths = {len(line.split(b"\t") if b"\t" in line else line.split()) for line in lines}
    return len(widths) > 1 or (len(lines) == 1 and widths != {1})
