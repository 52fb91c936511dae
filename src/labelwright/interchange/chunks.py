"""Files made of chunks: a name of four bytes, a size, and what is in it.  Every place is checked before it is read."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError
from labelwright.structures.states import MAX_ARCS

Array = NDArray[Any]


MOST_PAIRS = 1 << 22, 16  # of labels: so many, and so many for each byte of the file


def check_pairs(n_labels: int, source: str, n_bytes: int) -> None:
    """Refuse more labels than a CRF can have whose weights of pairs of labels come from a file of so many bytes: models
    with many labels are large."""
    most = min(MAX_ARCS, MOST_PAIRS[0] + MOST_PAIRS[1] * n_bytes)
    if n_labels**2 > most:
        raise ModelFileError(
            f"{source}: {n_labels:,} labels in a file of {n_bytes:,} bytes make more than {most:,} pairs of labels"
        )


class Chunk(NamedTuple):
    """The bytes of one chunk, its name and size among them."""

    data: bytes
    name: str  # for error messages
    source: str

    def damage(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.source}: {self.name}: {what}; the file is damaged, copy or train it again")

    def words(self, offset: int, n: int, what: str) -> Array:
        """n numbers of 32 bits at this offset."""
        return self.records(offset, n, np.dtype("<u4"), what)

    def records(self, offset: int, n: int, dtype: np.dtype[Any], what: str) -> Array:
        """n records of this type at this offset."""
        if not 0 <= offset <= len(self.data) or n > (len(self.data) - offset) // dtype.itemsize:
            raise self.damage(f"{what} ends behind the end")
        return np.frombuffer(self.data, dtype, n, offset)


class File(NamedTuple):
    """The bytes of a file."""

    data: bytes
    source: str

    def chunk(self, offset: int, magic: bytes, name: str) -> Chunk:
        """The chunk at this offset, which must begin with these bytes."""
        rest = Chunk(self.data, name, self.source)
        size = int(rest.words(offset, 2, "chunk")[1])
        if self.data[offset : offset + 4] != magic:
            raise rest.damage(f"begins with {self.data[offset : offset + 4]!r}, expected {magic!r}")
        if not 8 <= size <= len(self.data) - offset:
            raise rest.damage(f"{size:,} bytes, but the file has {len(self.data) - offset:,} there")
        return Chunk(self.data[offset : offset + size], name, self.source)
