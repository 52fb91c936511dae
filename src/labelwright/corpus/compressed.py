"""Bytes in and out: plain and compressed files, standard input, and atomic writing of files."""

import bz2
import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from labelwright.errors import CorpusError
from labelwright.storage import replace_file


class Codec(NamedTuple):
    """A compression format: its first bytes, and both directions."""

    name: str
    begins: tuple[bytes, ...]
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


CODECS = {
    ".gz": Codec("gzip", (b"\x1f\x8b",), lambda data: gzip.compress(data, mtime=0), gzip.decompress),
    ".bz2": Codec("bzip2", tuple(b"BZh%d1AY&SY" % level for level in range(1, 10)), bz2.compress, bz2.decompress),
    ".xz": Codec("xz", (b"\xfd7zXZ\0",), lzma.compress, lzma.decompress),
}

Source = str | os.PathLike[str] | BinaryIO


def name_of(source: Source) -> str:
    """The name of a file in messages."""
    if isinstance(source, str | os.PathLike):
        return "<stdin>" if source == "-" else os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<stream>"


def explain(error: OSError) -> str:
    """An operating system's error in a few words."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder, expected a file"
    return (error.strerror or str(error)).lower()


def codec_of(data: bytes) -> Codec | None:
    """The codec whose data begin like these."""
    return next((codec for codec in CODECS.values() if data.startswith(codec.begins)), None)


def decompressed(data: bytes, name: str, suffix: str = "") -> bytes:
    """Return decompressed data; the format follows from the suffix or the first bytes."""
    codec = CODECS.get(suffix) or codec_of(data)
    if codec is None:
        return data
    try:
        return codec.decompress(data)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        reason = str(error).splitlines()[0].rstrip(".").lower() if str(error) else "unreadable"
        raise CorpusError(f"{name}: damaged or truncated {codec.name} data ({reason}); fetch the file again") from None


def read_bytes(source: Source) -> bytes:
    """Read a path, `-` (standard input) or a binary file object to its end, and decompress it."""
    name = name_of(source)
    try:
        if isinstance(source, str | os.PathLike):
            data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        else:
            data = source.read()
    except OSError as error:
        raise CorpusError(f"{name}: cannot read: {explain(error)}") from None
    if not isinstance(data, bytes):
        raise CorpusError(f"{name}: got text, expected a file opened in binary mode ('rb')")
    return decompressed(data, name, Path(name).suffix if isinstance(source, str | os.PathLike) else "")


def write_bytes(target: Source, data: bytes) -> None:
    """Write to a path (compressed by its suffix), `-` (standard output) or a binary file object.

    A path gets its new content by a rename, so that a failure leaves the old file as it was.
    """
    name = "<stdout>" if target == "-" else name_of(target)
    try:
        if not isinstance(target, str | os.PathLike):
            target.write(data)
        elif target == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            codec = CODECS.get(Path(target).suffix)
            _write_path(Path(os.path.realpath(target)), codec.compress(data) if codec else data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CorpusError(f"{name}: cannot write: {explain(error)}") from None


def _write_path(path: Path, data: bytes) -> None:
    """Write a regular file whole or not at all; pipes and devices directly."""
    if path.exists() and not path.is_dir() and not path.is_file():
        path.write_bytes(data)
    else:
        replace_file(path, data)
