"""Encoded data in temporary files that are mapped into memory: the system may take their pages back when memory is
short, and read them again.

The files have no name, or lose it when they are closed: nothing is left of them when the last array is gone.
"""

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError

Array = NDArray[Any]
Arrays = TypeVar("Arrays")  # a NamedTuple of arrays

LEAST = 1 << 16  # bytes of an array that is worth a file


class Folder:
    """A folder for temporary files."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if not self.path.is_dir():
            raise OptionError(f"memory_map: {path}: no such folder; name one on a disk with enough space")

    def mapped(self, arrays: Arrays) -> Arrays:
        """The same arrays, the large ones in files."""
        return type(arrays)(*map(self._mapped, arrays))  # type: ignore[call-overload]

    def _mapped(self, array: Array) -> Array:
        if array.nbytes < LEAST or folder_of(array) is not None:
            return array
        try:
            with tempfile.TemporaryFile(prefix="labelwright-", dir=self.path) as file:
                array.tofile(file)
                file.flush()
                mapping = _Mapping(file.fileno(), array.nbytes)
        except OSError as error:
            raise OptionError(f"memory_map: {self.path}: {(error.strerror or str(error)).lower()}") from None
        mapping.folder = self
        return np.frombuffer(mapping, array.dtype).reshape(array.shape)


class _Mapping(mmap.mmap):
    """A file in memory."""

    folder: Folder


def folder_of(array: Any) -> Folder | None:
    """Where the file is that an array lies in; None for arrays in memory."""
    while array is not None and not isinstance(array, _Mapping):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return None if array is None else array.folder
