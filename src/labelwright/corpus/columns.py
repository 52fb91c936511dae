"""Column files: one token per line, columns separated by spaces or tabs, a blank line after each
sentence.

CoNLL-U has ten columns separated by tabs.  Its comments, multiword ranges (1-2) and empty nodes
(8.1) are no tokens; they stay in the raw text and are written back.
"""

import io
import os
import re
import select
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from labelwright.corpus import scanner
from labelwright.corpus.attribute_lines import evidence_of, refuse_doubt
from labelwright.corpus.compressed import (
    ByteStream,
    Rejoined,
    Source,
    codec_for,
    decoded,
    first_line_of,
    name_of,
    read_bytes,
    write_bytes,
)
from labelwright.corpus.labels import check_column, check_rows, place_of
from labelwright.corpus.limits import (
    LONGEST_LINE,
    LONGEST_VALUE,
    MOST_COLUMNS,
    check_size,
    line_too_long,
    too_long,
)
from labelwright.corpus.table import (
    Column,
    Corpus,
    RawText,
    check_label,
    check_names,
    default_names,
)
from labelwright.errors import CorpusError, unreadable

NEWLINE = b"\n"
_BOM = b"\xef\xbb\xbf"
SENTENCE_END = re.compile(rb"\n(?:[ \t]*\r?\n)+")
_CONTENT = re.compile(rb"[^ \t\r\n]|\r(?!\n|\Z)")  # in a line that is not blank
_MARK = "-DOCSTART-"
_MARKED = tuple(f"{_MARK}{space}".encode() for space in " \t")

Labels = Sequence[Sequence[str]]  # [N][T]


class FileLayout(NamedTuple):
    """What the first token line of a file determines for all others."""

    names: tuple[str, ...]  # [C]
    label: str | None
    tabs: bool  # columns are separated by tabs only
    conllu: bool = False


def read_columns(
    path: Source,
    names: Sequence[str] | str | None = None,
    label: str | bool | None = None,
    scheme: str | None = None,
) -> Corpus:
    """Read a column file, plain or compressed; the label is the last column unless named, and False
    means none.

    path : a path, plain or compressed, or a binary file object
    names : names of the columns, a list or a text as in word,pos,chunk; by default word, pos, c2,
        ..., label
    label : the name of the label column
    scheme : rewrite the labels in this scheme, as in bioes

    >>> import io
    >>> corpus = read_columns(io.BytesIO(b"He PRP B-NP\\nran VBD B-VP\\n"), names="word,pos,chunk")
    >>> corpus.X, corpus.y
    ([[('He', 'PRP'), ('ran', 'VBD')]], [['B-NP', 'B-VP']])
    """
    source, text = name_of(path), read_bytes(path)
    if names is None and label is None:
        evidence = evidence_of(text)
        if evidence.is_attributes:
            raise CorpusError(
                f"{source}: looks like CRFsuite's data, a label and attributes in each line; read "
                "it with --format crfsuite (in Python: read_crfsuite), or name its columns"
            )
        refuse_doubt(evidence, source)
    corpus = columns_of(text, source, names, label)
    return corpus if scheme is None else corpus.with_scheme(scheme)


def columns_of(
    text: bytes,
    source: str,
    names: Sequence[str] | str | None = None,
    label: str | bool | None = None,
    first_line: int = 1,
    head: bytes | None = None,
) -> Corpus:
    """The corpus that the text of a column file holds; of a piece of a file, `head` is how the file
    begins."""
    layout = lay_out(text if head is None else head, source, names, label)
    if layout is None:
        raise CorpusError(
            f"{source}: no tokens, expected one token per line and a blank line after each sentence"
        )
    return parse(text, source, layout, first_line)


def stream_columns(
    stream: BinaryIO,
    names: Sequence[str] | str | None = None,
    label: str | bool | None = None,
    size: int = 1 << 20,
) -> Iterator[Corpus]:
    """Yield corpora of whole sentences while input arrives: when no more is waiting, or after
    `size` bytes.

    Blank lines after the last sentence may be dropped.

    stream : a binary file object, such as sys.stdin.buffer
    names, label : as for `read_columns`
    size : bytes that are read at most before sentences are given out

    >>> import io
    >>> [piece.X for piece in stream_columns(io.BytesIO(b"a\\nb\\n\\nc\\n"))]
    [[['a', 'b'], ['c']]]
    """
    source = name_of(stream)
    layout: FileLayout | None = None
    # blocks without tokens go with the next one that has some
    waiting, held = Waiting(SENTENCE_END), bytearray()
    first_line = 1
    while True:
        try:  # waits only while there is nothing
            fresh = bytes((getattr(stream, "read1", None) or stream.read)(size) or b"")
        except OSError as error:
            raise unreadable(CorpusError, source, error) from None
        waiting.add(fresh, source)
        if first_line == 1 and not held and codec_for(waiting.head, source):
            squeezed: Any = io.BufferedReader(Rejoined(waiting.take(all=True), stream))  # type: ignore[arg-type]
            stream, waiting = ByteStream(squeezed, source), Waiting(SENTENCE_END)  # type: ignore[assignment]
            continue
        if fresh and len(waiting) < size and _more_is_waiting(stream):
            continue
        block = waiting.take(all=not fresh)
        layout = layout or lay_out(block, source, names, label)
        has_tokens = first_token_line(block)[0] is not None
        # a token may look like a mark
        if layout is not None and not has_tokens and _MARK.encode() in block:
            has_tokens = len(parse(block, "", layout, 2)) > 0
        if layout is None or not has_tokens:
            held += block
            check_held(len(held), source)
        else:
            text = bytes(held) + block
            held.clear()
            yield parse(text, source, layout, first_line)
            first_line += text.count(b"\n")
        if not fresh:
            return


def check_held(n_bytes: int, source: str) -> None:
    """Refuse to hold more text without tokens, such as blank lines."""
    check_size(n_bytes, source, held=True, what="no token within")


class Waiting:
    """Text that waits for the end of its sentence; each byte of it is searched once.

    ends : what sentences end with, the end of a line among it
    token_lines : whether each line has one token, and so a limit
    """

    def __init__(self, ends: re.Pattern[bytes], token_lines: bool = True):
        self._ends, self._text, self._token_lines = ends, bytearray(), token_lines
        self._n_added = 0  # bytes
        self._cut = self._newline = 0  # behind the last sentence; the last end of a line
        self._first_line = 1

    def __len__(self) -> int:
        return len(self._text)

    @property
    def head(self) -> bytes:
        return bytes(self._text[:16])

    def add(self, text: bytes, source: str) -> None:
        newline = text.rfind(NEWLINE)
        if newline >= 0:  # no sentence ends where no line does
            begin, newline = max(self._cut, self._newline), newline + len(self._text)
            self._text += text
            self._cut, self._newline = (
                last_match(self._ends, self._text, begin) or self._cut,
                newline,
            )
        else:
            self._text += text
        self._n_added += len(text)
        check_size(self._n_added, source, held=False)
        if self._token_lines and len(self._text) - self._newline > LONGEST_LINE + 1:
            raise line_too_long(f"{source}:{self._first_line + self._text.count(NEWLINE)}")
        if not self._cut:
            check_size(len(self._text), source, held=True, what="no sentence ends within")

    def take(self, all: bool = False) -> bytes:
        """The whole sentences, or all that is there; nothing where no sentence ends."""
        cut = len(self._text) if all else self._cut
        with memoryview(self._text) as text:
            block = bytes(text[:cut])
        del self._text[:cut]
        self._cut, self._newline = 0, max(0, self._newline - cut)
        self._first_line += block.count(NEWLINE)
        return block


def last_match(
    pattern: re.Pattern[bytes], text: bytes | bytearray, begin: int = 0, near: int = 1 << 16
) -> int:
    """Where the last match of a pattern ends, 0 where there is none; most texts have one near their
    end."""
    for start in dict.fromkeys((max(begin, len(text) - near), begin)):
        end = max((match.end() for match in pattern.finditer(text, start)), default=0)
        if end:
            return end
    return 0


def write_columns(
    corpus: Corpus, target: Source, extra: Labels | Sequence[Labels] | None = None
) -> None:
    """Write a corpus, with further columns of labels if given; a corpus read from a file is written
    back byte for byte.

    corpus : the sentences
    target : a path, or a binary file object
    extra : labels for each sentence that become one more column, or several such lists

    >>> import io
    >>> out = io.BytesIO()
    >>> write_columns(Corpus.from_sequences([["He", "ran"]]), out, extra=[["B-NP", "B-VP"]])
    >>> out.getvalue()
    b'He B-NP\\nran B-VP\\n\\n'
    """
    columns = flat_columns(corpus, extra)
    if corpus.raw is not None:
        for column in columns:
            check_column(column, corpus.offsets, corpus.source, corpus.raw.separator.decode())
        write_bytes(
            target, corpus.raw.edited(columns, replacing=False) if columns else corpus.raw.text
        )
        return
    rows = [*map(corpus.tokens, corpus.names), *columns]
    separator = separator_for(rows)
    for number, column in enumerate(rows):
        check_column(
            column, corpus.offsets, corpus.source, separator, is_label=number >= len(corpus.names)
        )
    mark = separator.join([_MARK, *["O"] * (len(rows) - 1)])
    _write_rows(corpus, rows, separator, [mark, ""], target)


def _write_rows(
    corpus: Corpus, rows: list[list[str]], separator: str, mark: list[str], target: Source
) -> None:
    """Write columns [C][T], and a mark before the first sentence of each document."""
    check_rows(rows, corpus.offsets, corpus.source)
    lines = [*map(separator.join, zip(*rows, strict=True))]
    documents = set(corpus.documents.tolist())
    blocks = list[str]()
    for number, (a, b) in enumerate(pairwise(corpus.offsets.tolist())):
        blocks += [*(mark if number in documents else ()), *lines[a:b], ""]
    write_bytes(target, "".join(f"{line}\n" for line in blocks).encode())


def separator_for(columns: Sequence[Sequence[Any]]) -> str:
    """What separates columns [C][T] in a file: tabs where a value holds a space."""
    has_spaces = any(
        " " in value for column in columns for value in set(column) if isinstance(value, str)
    )
    return "\t" if has_spaces and len(columns) > 1 else " "


def lay_out(
    text: bytes, source: str, names: Sequence[str] | str | None, label: str | bool | None
) -> FileLayout | None:
    """Determine names, label and separator from the first token line; None when there is no
    token."""
    if label is True:
        raise CorpusError(
            f"{source}: label is True, expected the name of a column, or False for none"
        )
    first, number = first_token_line(text)
    if first is None:
        return None
    check_line_ends(first, f"{source}:{number}")
    if len(first) > LONGEST_LINE:  # before it is split
        raise line_too_long(f"{source}:{number}")
    tabs = b"\t" in first
    n_columns = sum(1 for field in first.split(b"\t" if tabs else b" ") if field)
    if n_columns > MOST_COLUMNS:
        raise CorpusError(
            f"{source}:{number}: {n_columns:,} columns, expected at most {MOST_COLUMNS:,}"
        )
    labelled = label is not False and (n_columns > 1 or label is not None)
    if names is None:
        names = default_names(n_columns, labelled)
    elif isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    check_names(names, n_columns, f"{source}:{number}")
    if label is None and labelled:
        label = names[-1]
    check_label(label or None, names, source)
    return FileLayout(tuple(names), label or None, tabs)


def first_token_line(text: bytes) -> tuple[bytes | None, int]:
    """The first line that is neither blank nor a document mark, and its number."""
    start = len(_BOM) if text.startswith(_BOM) else 0
    while (found := _CONTENT.search(text, start)) is not None:
        begin = max(start, text.rfind(b"\n", 0, found.start()) + 1)
        start = text.find(b"\n", begin) + 1 or len(text)
        line = text[begin:start].removesuffix(b"\n").removesuffix(b"\r").rstrip(b" \t")
        if line != _MARK.encode() and not line.startswith(_MARKED):
            return line, 1 + text.count(b"\n", 0, begin)
    return None, text.count(b"\n") + (not text.endswith(b"\n"))


def check_line_ends(line: bytes, place: str) -> None:
    """Refuse a file whose lines end in carriage returns alone: all of it is one line."""
    if b"\r" in line:
        raise CorpusError(
            f"{place}: a carriage return within the line; if all lines end so, convert the file "
            "first, as with "
            r"tr '\r' '\n'"
        )


def parse(text: bytes, source: str, layout: FileLayout, first_line: int = 1) -> Corpus:
    """Turn the bytes of a file into a corpus; `first_line` is the number of its first line, for
    messages."""
    array = np.frombuffer(text, dtype=np.uint8)
    begin = len(_BOM) if first_line == 1 and text.startswith(_BOM) else 0
    n_columns = len(layout.names)
    edited = layout.names.index(layout.label) if layout.conllu and layout.label else n_columns - 1
    scanned = scanner.scan(array, begin, n_columns, layout.tabs, layout.conllu, edited)
    if scanned.fail >= 0:
        line = first_line + text.count(b"\n", 0, scanned.fail)
        hint = (
            "; columns are separated by tabs, as in the first line"
            if layout.tabs and not layout.conllu
            else ""
        )
        if not layout.conllu and evidence_of(text).may_be:
            hint = (
                "; if these are CRFsuite's data, add --format crfsuite (in Python: read_crfsuite)"
            )
        raise CorpusError(f"{source}:{line}: expected {n_columns} columns, got {scanned.got}{hint}")
    sizes = scanned.entries[:, scanner.SIZE]
    if sizes.max(initial=0) > LONGEST_VALUE:
        entry = int(np.argmax(sizes > LONGEST_VALUE))
        line = first_line + text.count(b"\n", 0, int(scanned.entries[entry, scanner.START]))
        raise too_long(f"{source}:{line}", int(sizes[entry]))
    columns = []
    for number in range(n_columns):
        buffer = scanner.gather(array, scanned.entries, number).tobytes()
        try:
            values = buffer.decode().split("\n")[:-1]
        except UnicodeDecodeError:
            decoded(text, source, first_line)  # which says where
            raise
        columns.append(Column(values, scanned.codes[number]))
    return Corpus(
        names=layout.names,
        columns=tuple(columns),
        offsets=scanned.offsets,
        label=layout.label,
        source=source,
        documents=np.unique(scanned.documents[scanned.documents < len(scanned.offsets) - 1]),
        raw=RawText(
            text, scanned.starts, scanned.ends, scanned.marks, b"\t" if layout.tabs else b" "
        ),
    )


def flat_columns(corpus: Corpus, extra: Labels | Sequence[Labels] | None) -> list[list[str]]:
    """Flatten one column of labels per sentence, or several, into lists [T], checked against the
    corpus."""
    if extra is None:
        return []
    columns: list[list[str]] = []
    lengths = np.diff(corpus.offsets).tolist()
    none = not lengths and len(extra) > 0  # of no sentences, the lists that are given are columns
    several = next(
        (isinstance(item, list | tuple) for sentence in extra for item in sentence), none
    )
    for column in extra if several else [extra]:
        if len(column) != len(lengths):
            raise CorpusError(
                f"extra: {len(column)} sentences, but {corpus.source} has {len(lengths)}"
            )
        for number, (sentence, length) in enumerate(zip(column, lengths, strict=True)):
            if len(sentence) != length:
                got = f"sentence {number} has {len(sentence)} labels"
                raise CorpusError(f"extra: {got}, but {corpus.source} has {length} tokens there")
        columns.append(list(chain.from_iterable(column)))  # type: ignore[arg-type]
    return columns


def _more_is_waiting(stream: BinaryIO) -> bool:
    """Whether a read would not block; False where that is unknown."""
    try:
        return bool(select.select([stream.fileno()], [], [], 0)[0])
    except (OSError, ValueError, AttributeError):
        # not a file, or a system that selects sockets only
        return os.name != "nt" and hasattr(stream, "getbuffer")


# -- CoNLL-U ---------------------------------------------------------------------------------------

CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


def read_conllu(path: Source, label: str = "upos") -> Corpus:
    """Read a CoNLL-U file with one of its ten columns as the label; `# newdoc` comments start
    documents.

    path : a path, plain or compressed, or a binary file object
    label : the column that is the label: upos, xpos, deprel, ...

    >>> import io
    >>> text = b"# newdoc\\n1-2\\tdel" + b"\\t_" * 8 + b"\\n"
    >>> text += b"1\\tde\\tde\\tADP" + b"\\t_" * 6 + b"\\n"
    >>> corpus = read_conllu(io.BytesIO(text))
    >>> corpus.column("form"), corpus.y, corpus.documents.tolist()
    ([['de']], [['ADP']], [0])
    """
    source = name_of(path)
    check_label(label, CONLLU_NAMES, source)
    layout = FileLayout(CONLLU_NAMES, label, tabs=True, conllu=True)
    text = read_bytes(path)
    first = text[: text.find(b"\n") + 1 or len(text)].removesuffix(b"\n").removesuffix(b"\r")
    check_line_ends(first, f"{source}:{first_line_of(path)}")
    corpus = parse(text, source, layout, first_line_of(path))
    if not len(corpus):
        raise CorpusError(f"{source}: no tokens, expected lines of ten columns separated by tabs")
    return corpus


def write_conllu(
    corpus: Corpus, target: Source, extra: Labels | Sequence[Labels] | None = None
) -> None:
    """Write a corpus as CoNLL-U; `extra` replaces the label column.

    Without raw text, columns that the corpus lacks are `_` and tokens are numbered; `word` is
    written as form.

    corpus : the sentences
    target : a path, or a binary file object
    extra : labels for each sentence, or several such lists

    >>> import io
    >>> out = io.BytesIO()
    >>> write_conllu(Corpus.from_sequences([["Go"]], [["VERB"]], names=["form", "upos"]), out)
    >>> out.getvalue()
    b'1\\tGo\\t_\\tVERB\\t_\\t_\\t_\\t_\\t_\\t_\\n\\n'
    """
    columns = flat_columns(corpus, extra)
    if len(columns) > 1:
        raise CorpusError(f"extra: {len(columns)} columns, expected one, to replace {corpus.label}")
    if columns and corpus.label is None:
        raise CorpusError(
            f"{corpus.source}: has no label column that extra could replace; name it with label="
        )
    for column in columns:
        check_column(column, corpus.offsets, corpus.source, "\t")
    if corpus.raw is not None and tuple(corpus.names) == CONLLU_NAMES:
        write_bytes(
            target, corpus.raw.edited(columns, replacing=True) if columns else corpus.raw.text
        )
        return
    columns_by_name = {
        "form" if name == "word" else name: corpus.tokens(name) for name in corpus.names
    }
    unknown = [name for name in columns_by_name if name not in CONLLU_NAMES]
    if unknown:
        raise CorpusError(
            f"{corpus.source}: column {unknown[0]!r} is not one of CoNLL-U's: "
            f"{', '.join(CONLLU_NAMES)}"
        )
    for column in columns_by_name.values():
        check_column(column, corpus.offsets, corpus.source, "\t", is_label=False)
    if columns and corpus.label is not None:
        columns_by_name["form" if corpus.label == "word" else corpus.label] = columns[0]
    if "id" not in columns_by_name:
        columns_by_name["id"] = [
            str(k + 1) for length in np.diff(corpus.offsets).tolist() for k in range(length)
        ]
    for token, value in enumerate(columns_by_name["id"]):
        # a comment, a range of words, an empty node
        if value.startswith("#") or "-" in value or "." in value:
            place = f"{corpus.source}: {place_of(token, corpus.offsets)}"
            raise CorpusError(
                f"{place}: cannot write the id {value!r:.40}: tokens have whole numbers"
            )
    empty = ["_"] * corpus.n_tokens
    _write_rows(
        corpus,
        [columns_by_name.get(name, empty) for name in CONLLU_NAMES],
        "\t",
        ["# newdoc"],
        target,
    )
