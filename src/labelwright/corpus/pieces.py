"""Files piece by piece, so that memory does not grow with them: every piece holds whole sentences.

    bytes -> head, which tells the format -> blocks that end after a blank line, or a line of JSON -> pieces with tokens

A piece is an OpenFile that knows its first line and the head of its file.  Where the pieces are cut depends on the file
alone.  Parquet, DocBin and Label Studio's JSON are no sequences of lines and come as one piece, as do folders.
"""

import os
import re
from collections.abc import Callable, Iterator

from labelwright.corpus.columns import NEWLINE, SENTENCE_END, Waiting, check_held, first_token_line
from labelwright.corpus.compressed import ByteStream
from labelwright.corpus.file_formats import OpenFile, check_format, format_of, opened_folder
from labelwright.corpus.json_records import BOM
from labelwright.corpus.limits import LONGEST_LINE, check_size, line_too_long
from labelwright.corpus.parquet import MAGIC

SIZE = 1 << 21  # bytes of a piece: about 150,000 tokens of columns
WHOLE = ("parquet", "spacy", "label-studio", "brat")  # formats that have no pieces
TOKEN_LINES = ("columns", "conllu", "crfsuite")  # formats with a line for each token
LINE_END = re.compile(rb"\n")
_CONTENT = re.compile(rb"\S")
_CONLLU_TOKEN = re.compile(rb"^[^#\s.-][^\t\n.-]*(?:\t|$)", re.MULTILINE)  # neither a range nor an empty node


def pieces_of(path: str, format: str | None = None, named: bool = False, size: int = SIZE) -> Iterator[OpenFile]:
    """The pieces of a file, `-` for standard input, in order; with `named` columns it has columns."""
    check_format(format)
    if os.path.isdir(path):
        yield opened_folder(path, format)
        return
    with ByteStream(path) as stream:
        head = _head(stream, size, format, named)
        if format in WHOLE or (format is None and _is_whole(head)):
            head += stream.read_all()
        format = format or format_of(stream.name, head, named)
        ends, has_tokens = _rules(format)
        first: OpenFile | None = None
        line = 1
        blocks = _blocks(head, stream, ends, size, format in TOKEN_LINES)
        for text, more in _with_tokens(blocks, has_tokens, stream.name):
            piece = OpenFile(text, stream.name, format, line, first, more)
            first = first or piece
            line += text.count(b"\n")
            yield piece


def _head(stream: ByteStream, size: int, format: str | None, named: bool) -> bytes:
    """How a file begins: with two whole lines at least, since the first may only say what labels are called."""
    text = fresh = stream.read(size)
    while fresh and not _has_two_lines(text):
        check_size(len(text), stream.name, held=True, what="fewer than two whole lines of text within")
        unended = len(text) - text.rfind(NEWLINE) - 1
        if unended > LONGEST_LINE and _has_token_lines(stream.name, text, format, named):
            raise line_too_long(f"{stream.name}:{text.count(NEWLINE) + 1}")
        fresh = stream.read(len(text))
        text += fresh
    return text


def _has_token_lines(name: str, text: bytes, format: str | None, named: bool) -> bool:
    """Whether a file that begins like this has a line for each token."""
    if format is None and text.removeprefix(BOM).lstrip()[:1] in (b"{", b"["):
        return False  # JSON, in which one line may hold a long text
    return (format or format_of(name, text, named)) in TOKEN_LINES


def _has_two_lines(text: bytes) -> bool:
    """Whether two lines that are not blank are whole."""
    end = 0
    for _ in range(2):
        content = _CONTENT.search(text, end)
        end = text.find(b"\n", content.start()) + 1 if content else 0
        if not end:
            return False
    return True


def _is_whole(head: bytes) -> bool:
    """Whether a file holds Parquet, or one array of JSON."""
    return head.startswith(MAGIC) or head.removeprefix(BOM).lstrip()[:1] == b"["


def _rules(format: str) -> tuple[re.Pattern[bytes] | None, Callable[[bytes], bool]]:
    """Behind what a file of this format may be cut, and whether a text holds any token."""
    if format in WHOLE:
        return None, bool
    if format == "columns":
        return SENTENCE_END, lambda text: first_token_line(text)[0] is not None
    if format == "conllu":
        return SENTENCE_END, lambda text: _CONLLU_TOKEN.search(text) is not None
    return SENTENCE_END if format in ("crfsuite", "text") else LINE_END, lambda text: bool(
        text.removeprefix(BOM).strip()
    )


def _blocks(
    head: bytes, stream: ByteStream, ends: re.Pattern[bytes] | None, size: int, token_lines: bool
) -> Iterator[bytes]:
    """The head and the rest of the stream, cut where a sentence ends; one block is about as long as `size`."""
    if ends is None:
        yield head + stream.read_all()
        return
    waiting, fresh = Waiting(ends, token_lines), head
    while fresh:
        waiting.add(fresh, stream.name)
        if block := waiting.take():
            yield block
        fresh = stream.read(max(size, len(waiting)))
    yield waiting.take(all=True)


def _with_tokens(
    blocks: Iterator[bytes], has_tokens: Callable[[bytes], bool], name: str
) -> Iterator[tuple[bytes, bool]]:
    """Blocks that hold tokens, and whether another one follows; others are joined to their neighbours."""
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
