"""Bytes in and out, at once or piece by piece: plain and compressed files, standard input, atomic
writing of files."""

import bz2
import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from labelwright.corpus.limits import DECOMPRESSED, PIECE, check_size, limit_of
from labelwright.errors import CorpusError, reason_of, unreadable
from labelwright.storage import replacing


class Codec(NamedTuple):
    """A compression format: its first bytes, and both directions for files that are read or written
    in pieces."""

    name: str
    begins: tuple[bytes, ...]
    reader: Callable[[BinaryIO], Any]  # a file of what a file holds
    writer: Callable[[BinaryIO], Any]  # a file whose content goes to a file compressed


CODECS = {
    ".gz": Codec(
        "gzip",
        (b"\x1f\x8b",),
        lambda file: gzip.GzipFile(fileobj=file),
        lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ),
    ".bz2": Codec(
        "bzip2",
        tuple(b"BZh%d1AY&SY" % level for level in range(1, 10)),
        bz2.BZ2File,
        lambda file: bz2.BZ2File(file, "wb"),
    ),
    ".xz": Codec("xz", (b"\xfd7zXZ\0",), lzma.LZMAFile, lambda file: lzma.LZMAFile(file, "wb")),  # noqa: SIM115
}
ZSTD = b"\x28\xb5\x2f\xfd"
# what a codec raises
DAMAGED = (OSError, EOFError, ValueError, MemoryError, zlib.error, lzma.LZMAError)

Source = str | os.PathLike[str] | BinaryIO


def name_of(source: Source) -> str:
    """The name of a file in messages."""
    if isinstance(source, str | os.PathLike):
        return "<stdin>" if source == "-" else str(os.fspath(source)).replace("\0", "\\0")
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<stream>"


def first_line_of(source: Source) -> int:
    """The number of the first line of a source: a piece of a file begins somewhere in it."""
    return int(getattr(source, "first_line", 1))


def codec_for(data: bytes, name: str, suffix: str = "") -> Codec | None:
    """The codec of data that begin like these, or of a file with this suffix."""
    if data.startswith(ZSTD):
        raise CorpusError(
            f"{name}: compressed by zstd, which is not read; decompress it first, as with unzstd"
        )
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise CorpusError(
            f"{name}: is UTF-16, expected UTF-8; convert it first, as with iconv -f UTF-16 -t UTF-8"
        )
    return CODECS.get(suffix) or next(
        (codec for codec in CODECS.values() if data.startswith(codec.begins)), None
    )


def decompressed(data: bytes, name: str, suffix: str = "") -> bytes:
    """Return decompressed data; the format follows from the suffix or the first bytes."""
    if codec_for(data, name, suffix) is not None:
        return ByteStream(io.BytesIO(data), name, suffix).read_all()
    check_size(len(data), name, held=False)
    return data


def read_bytes(source: Source) -> bytes:
    """Read a path, `-` (standard input) or a binary file object to its end, and decompress it."""
    if isinstance(source, str | os.PathLike):
        with ByteStream(source) as stream:
            return stream.read_all()
    name = name_of(source)
    if not hasattr(source, "read"):
        raise CorpusError(f"expected a path or a binary file, got {type(source).__name__}")
    try:
        data = source.read()
    except OSError as error:
        raise unreadable(CorpusError, name, error) from None
    if not isinstance(data, bytes):
        raise CorpusError(f"{name}: got text, expected a file opened in binary mode ('rb')")
    return decompressed(data, name)


def decoded(data: bytes, name: str, first_line: int = 1) -> str:
    """The text that bytes are in UTF-8; they begin at this line of a file."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line, at = (
            first_line + data.count(b"\n", 0, error.start),
            error.start - data.rfind(b"\n", 0, error.start),
        )
        wrong = (
            f"byte {at} of the line (0x{data[error.start]:02x}) is not UTF-8; convert the file "
            "first"
        )
        raise CorpusError(f"{name}:{line}: {wrong}") from None


def write_bytes(target: Source, data: bytes, more: bool = False) -> None:
    """Write to a path (compressed by its suffix), `-` (standard output) or a binary file object.

    A path gets its new content by a rename, so that a failure leaves the old file as it was; `more`
    is appended.
    """
    with written(target, more) as write:
        write(data)


@contextmanager
def written(target: Source, more: bool = False) -> Iterator[Callable[[bytes], None]]:
    """What writes to a target, piece after piece, as `write_bytes` does: a path has its new content
    at the end."""
    name = "<stdout>" if target == "-" else name_of(target)
    if target == "-":
        file: AbstractContextManager[Any] = nullcontext(sys.stdout.buffer)
    elif isinstance(target, str | os.PathLike):
        file = _opened_for_writing(Path(target), more)
    elif hasattr(target, "write"):
        file = nullcontext(target)
    else:
        raise CorpusError(f"expected a path or a binary file, got {type(target).__name__}")
    with _explained(name):
        opened = file.__enter__()

    def write(data: bytes) -> None:
        with _explained(name):
            opened.write(data)
            if target == "-":
                opened.flush()

    try:
        yield write
    except BaseException as error:  # whatever happens meanwhile is left as it is
        with _explained(name):
            file.__exit__(type(error), error, error.__traceback__)
        raise
    with _explained(name):
        file.__exit__(None, None, None)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Errors of opening, writing and closing a file, in a few words; a path may be none that a
    system can have."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise CorpusError(f"{name}: cannot write: {reason_of(error)}") from None


@contextmanager
def _opened_for_writing(path: Path, more: bool) -> Iterator[BinaryIO]:
    """A regular file that appears whole or not at all, compressed by its suffix; pipes and devices
    are written directly."""
    direct = more or (path.exists() and not path.is_dir() and not path.is_file())
    codec = CODECS.get(path.suffix)
    mode = "ab" if more else "wb"
    opened: Any
    if direct:
        opened = open(path, mode)  # noqa: SIM115
    else:
        opened = replacing(Path(os.path.realpath(path)))
    with opened as file, nullcontext(file) if codec is None else codec.writer(file) as target:
        yield target


# -- piece by piece --------------------------------------------------------------------------------


class ByteStream:
    """A path, `-` (standard input) or a binary file object that is read and decompressed a piece at
    a time."""

    def __init__(self, source: Source, name: str | None = None, suffix: str = ""):
        self.name = name or name_of(source)
        self._owned: BinaryIO | None = None
        self._mode = 0  # that of the file, as the system has it
        self._codec: Codec | None = None
        self._n_read = 0
        with self._explained():
            if source == "-":
                file: BinaryIO = sys.stdin.buffer
            elif isinstance(source, str | os.PathLike):
                file = self._owned = open(source, "rb")  # noqa: SIM115
            else:
                file = source
            with suppress(OSError, ValueError, TypeError, AttributeError):  # not all have one
                self._mode = os.fstat(file.fileno()).st_mode
            head = file.read(16)
        if not isinstance(head, bytes):
            raise CorpusError(
                f"{self.name}: got text, expected a file opened in binary mode ('rb')"
            )
        try:
            self._codec = codec_for(
                head, self.name, suffix if self._owned is None else Path(self.name).suffix
            )
        except CorpusError:
            self.close()
            raise
        rejoined: Any = io.BufferedReader(Rejoined(head, file))  # type: ignore[arg-type]
        self._file = rejoined if self._codec is None else self._codec.reader(rejoined)

    def read(self, size: int) -> bytes:
        """The next bytes: `size`, or fewer at the end."""
        parts = list[bytes]()
        with self._explained():
            while size > 0 and (part := self._file.read(size)):
                parts.append(part)
                size -= len(part)
                self._n_read += len(part)
        check_size(self._n_read, self.name, held=False)
        return b"".join(parts)

    def read_all(self) -> bytes:
        with self._explained():
            is_plain = self._codec is None and limit_of(held=False) is None
            if (
                self._owned is not None
                and stat.S_ISREG(self._mode)
                and is_plain
                and not self._n_read
            ):
                self._owned.seek(0)
                return self._owned.read()  # at once, without a copy
            # devices such as /dev/zero have no end
            held = self._codec is not None or stat.S_ISCHR(self._mode)
            parts = list[bytes]()
            while part := self._file.read(PIECE):  # more than the limit is never in memory
                parts.append(part)
                self._n_read += len(part)
                check_size(
                    self._n_read, self.name, held, DECOMPRESSED if self._codec else "more than"
                )
            return b"".join(parts)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except CorpusError:
            raise
        except DAMAGED as error:
            if self._codec is None or (isinstance(error, OSError) and error.errno):
                raise unreadable(CorpusError, self.name, error) from None
            reason = str(error).splitlines()[0].rstrip(".").lower() if str(error) else "unreadable"
            what = f"damaged or truncated {self._codec.name} data ({reason}); fetch the file again"
            raise CorpusError(f"{self.name}: {what}") from None

    def close(self) -> None:
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> "ByteStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Rejoined(io.RawIOBase):
    """Bytes that were read from a file already, then the rest of it."""

    def __init__(self, head: bytes, rest: BinaryIO):
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head[: len(buffer)] if self._head else self._rest.read(len(buffer)) or b""
        self._head = self._head[len(data) :] if self._head else b""
        buffer[: len(data)] = data
        return len(data)
