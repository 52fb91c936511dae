"""Files as partitions: where each begins and ends, and how one is read, wherever it is.

Plain files of lines (columns, CoNLL-U, JSON lines) are cut behind the sentence that ends after
every `size` bytes, so cuts depend on the files alone; compressed ones and Parquet are a partition
each.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

from labelwright.corpus.compressed import CODECS, ByteStream, decompressed
from labelwright.corpus.file_formats import (
    FORMATS,
    RECORDS,
    TEXTS,
    FileOptions,
    OpenFile,
    format_of,
    read_corpus,
)
from labelwright.corpus.limits import PIECE, check_size, max_input
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, OptionError, unreadable

HEAD = 1 << 16  # bytes that tell the format and the columns of a file
WINDOW = 1 << 16  # bytes in which the end of a sentence is looked for


class Partition(NamedTuple):
    """Sentences that stand one behind the other in a file, given by places in bytes."""

    path: str  #: or address, as fsspec has them
    begin: int  #: where it begins
    end: int | None  #: where it ends; None: the whole file, perhaps decompressed
    format: str  #: of the file


class Bad(NamedTuple):
    """A sentence that cannot be read."""

    reason: str  #: with file and line
    text: bytes  #: as it stands in the file


class Reading(NamedTuple):
    """How partitions are read."""

    columns: str | Sequence[str] | None = None
    label: str | bool | None = None
    scheme: str | None = None  # in which labels are rewritten
    options: FileOptions = FileOptions()
    skip_bad: bool = False
    most: int | None = None  # bytes of an input (corpus.limits.max_input)

    def corpus(self, partition: Partition) -> tuple[Corpus | None, list[Bad]]:
        """The sentences of a partition, None where there are none, and those that cannot be
        read."""
        with nullcontext() if self.most is None else max_input(self.most):
            text, head = self._text(partition)
        first = OpenFile(head, partition.path, partition.format) if partition.begin else None
        bad: list[Bad] = []
        try:
            corpus = self._parsed(text, partition, 1, first)
        except CorpusError:  # once more, with the numbers of lines
            path, end, ends = partition.path, partition.begin, FORMATS[partition.format].ends
            line = 1 + sum(
                _bytes(path, at, min(at + PIECE, end)).count(b"\n") for at in range(0, end, PIECE)
            )
            if not self.skip_bad or ends is None:
                self._parsed(text, partition, line, first)
                raise

            def read(part: bytes, line: int) -> None:
                self._parsed(part, partition, line, first)

            good = readable(text, line, ends, read, bad)
            corpus = self._parsed(b"".join(part for part, _ in good), partition, 1, first)
        return corpus, bad

    def _text(self, partition: Partition) -> tuple[bytes, bytes]:
        """The bytes of a partition, and how its file begins."""
        path, begin, end, _ = partition
        if end is not None:
            return _bytes(path, begin, end), _head(path) if begin else b""
        return decompressed(_bytes(path), path, PurePath(path).suffix), b""

    def _parsed(
        self, text: bytes, partition: Partition, line: int, head: OpenFile | None
    ) -> Corpus | None:
        if not FORMATS[partition.format].has_tokens(text):
            return None
        file = OpenFile(text, partition.path, partition.format, line, head)
        corpus, _ = read_corpus(file, self.columns, self.label, self.options)
        if partition.format == "conllu" and self.columns is None and corpus.label is not None:
            corpus = corpus.select(["form", corpus.label])
        if self.scheme is not None:
            corpus = corpus.with_scheme(self.scheme)
        return replace(corpus, raw=None)


def readable(
    text: bytes,
    line: int,
    ends: re.Pattern[bytes],
    read: Callable[[bytes, int], object],
    bad: list[Bad],
) -> list[tuple[bytes, int]]:
    """The parts of a text that `read` takes, with the numbers of their first lines; what it refuses
    is halved behind the end of a sentence until single sentences are left, which go to `bad`."""
    try:
        read(text, line)
        return [(text, line)]
    except CorpusError as error:
        cuts = itertools.chain(ends.finditer(text, len(text) // 2), ends.finditer(text))
        cut = next((found.end() for found in cuts if found.end() < len(text)), None)
        if cut is None:
            bad.append(Bad(str(error), text))
            return []
    left = readable(text[:cut], line, ends, read, bad)
    return left + readable(text[cut:], line + text.count(b"\n", 0, cut), ends, read, bad)


def parts_of(path: str, size: int, reading: Reading) -> Iterator[Partition]:
    """The partitions of a file, of about so many bytes."""
    head, given = _head(path), reading.options.format
    squeezed = next((codec for codec in CODECS.values() if head.startswith(codec.begins)), None)
    if squeezed is not None and given is None:
        fs, inside = _place(path)
        with fs.open(inside, "rb") as file:
            head = ByteStream(file, path, PurePath(path).suffix).read(HEAD)
    named = reading.columns is not None or reading.label is not None
    format = given or format_of(path, head, named)
    if (
        format in TEXTS
        or format == "crfsuite"
        or (format in RECORDS and format not in ("jsonl", "parquet"))
    ):
        raise CorpusError(
            f"{path}: {format} is read on one machine; give columns, conllu, jsonl or parquet"
        )
    ends, n_bytes = FORMATS[format].ends, size_of(path)
    if squeezed is not None or ends is None:
        yield Partition(path, 0, None, format)
        return
    check_size(n_bytes, path, held=False)
    begin = 0
    while begin < n_bytes:
        end = _behind_sentence(path, begin + size, n_bytes, ends)
        yield Partition(path, begin, end, format)
        begin = end


def found(pattern: str) -> list[str]:
    """The files that a glob, a path or an address stands for, in order."""
    fs, path = _place(pattern)
    if not any(c in path for c in "*?[") or fs.exists(path):
        return [os.path.abspath(path) if _is_local(fs) else pattern]
    paths = sorted(path for path in fs.glob(path) if fs.isfile(path))
    if not paths:
        raise CorpusError(f"{pattern}: no such files")
    return [path if _is_local(fs) else fs.unstrip_protocol(path) for path in paths]


def _place(path: str) -> tuple[Any, str]:
    """The file system of a path or address, and its path there."""
    from importlib.util import find_spec

    if find_spec("fsspec") is None:
        raise OptionError("files: fsspec is missing; pip install 'labelwright[scale]'")
    from fsspec.core import url_to_fs

    try:
        fs, inside = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise CorpusError(f"{path}: cannot read: {error}") from None
    return fs, path if _is_local(fs) and "://" not in path else inside


def _is_local(fs: Any) -> bool:
    return fs.protocol in ("file", "local") or "file" in fs.protocol


def _bytes(path: str, begin: int = 0, end: int | None = None) -> bytes:
    fs, inside = _place(path)
    try:
        return bytes(fs.cat_file(inside, start=begin, end=end))
    except OSError as error:
        raise unreadable(CorpusError, path, error) from None


def size_of(path: str) -> int:
    fs, inside = _place(path)
    try:
        return int(fs.size(inside))
    except OSError as error:
        raise unreadable(CorpusError, path, error) from None


def _head(path: str) -> bytes:
    """How a file begins, in whole lines where it has several."""
    text = _bytes(path, 0, HEAD)
    return text[: text.rfind(b"\n") + 1] if len(text) == HEAD and b"\n" in text else text


def _behind_sentence(path: str, begin: int, size: int, ends: Any) -> int:
    """The place behind the first sentence that ends at or after a place."""
    window, text = WINDOW, b""
    while begin < size:
        text = _bytes(path, begin, min(size, begin + window))
        if (match := ends.search(text)) is not None:
            return begin + int(match.end())
        if begin + window >= size:
            break
        window *= 2
    return size
