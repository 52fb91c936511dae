"""Limits on what is read, so that no input takes all memory or all time, and a size as users write
it."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from labelwright.errors import CorpusError, OptionError

# characters (in files: bytes) of a word, a label or another value of a column
LONGEST_VALUE = 1 << 16
MOST_COLUMNS = 1 << 12  # of a column file
LONGEST_LINE = 1 << 24  # bytes of a line, where each has one token
# bytes: compressed data that are read at once, text in which no sentence ends or no token stands
MOST_HELD = 1 << 30
PIECE = 1 << 20  # bytes that are read or decompressed at a time
# what stands before the limit where it is one after decompression
DECOMPRESSED = "decompressed, more than"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGT]?)B?", re.IGNORECASE)

_asked: ContextVar[int | None] = ContextVar("max_input", default=None)


@contextmanager
def max_input(size: int | str) -> Iterator[None]:
    """While it lasts, every input may have at most so many bytes, after decompression; a folder is
    one input.  Without it there is a limit of 1G on what is held in memory: compressed data that
    are read at once (Parquet and DocBin files among them) and, where a file is read piece by piece,
    text in which no sentence ends or no token stands.

    size : a number of bytes, or a text such as 500M or 8G

    >>> import io
    >>> from labelwright.corpus import read_columns
    >>> with max_input("1K"):
    ...     len(read_columns(io.BytesIO(b"He PRP\\nran VBD\\n")))
    1
    """
    token = _asked.set(size_of(size))
    try:
        yield
    finally:
        _asked.reset(token)


def size_of(size: int | str) -> int:
    """A number of bytes as users write it.

    >>> size_of("500M") == 500 * 1024 ** 2, size_of(7)
    (True, 7)
    """
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    number = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if number == 0:
        raise OptionError(
            f"max_input: expected a number of bytes as in 500M or 8G, got {size!r:.40}"
        )
    return number


def shown_size(size: int) -> str:
    """A number of bytes as users write it.

    >>> shown_size(1 << 30), shown_size(1536), shown_size(1000)
    ('1G', '1.5K', '1000')
    """
    unit = next((unit for unit in "TGMK" if size >= _UNITS[unit]), "")
    return f"{size / _UNITS[unit]:.3g}{unit}" if unit else str(size)


def limit_of(held: bool) -> int | None:
    """How many bytes an input may have: what was asked for, or the limit of what is held in memory;
    None: any."""
    asked = _asked.get()
    return asked if asked is not None else MOST_HELD if held else None


def check_size(n_bytes: int, name: str, held: bool, what: str = "more than") -> None:
    """Refuse an input of more bytes than it may have; `what` stands before the limit in the
    message."""
    limit = limit_of(held)
    if limit is not None and n_bytes > limit:
        raise CorpusError(
            f"{name}: {what} {shown_size(limit)}; if that is right, raise the limit with "
            f"--max-input {shown_size(2 * limit)} (in Python: labelwright.corpus.max_input)"
        )


def read_at_most(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a file; OSError where there are more than `most`, as in a device that has no
    end."""
    content = bytearray()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            content += piece
            if len(content) > most:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return bytes(content)


def line_too_long(place: str) -> CorpusError:
    """The error about a line that is too long to be that of a token."""
    what = f"a line of more than {shown_size(LONGEST_LINE)}, expected one token in each line"
    return CorpusError(f"{place}: {what}; plain text needs --text")


def too_long(place: str, length: int) -> CorpusError:
    what = f"a value of {length:,} characters, expected at most {LONGEST_VALUE:,}"
    return CorpusError(f"{place}: {what}; shorten or remove it")
