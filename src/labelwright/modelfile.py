"""One file per model or checkpoint: safetensors for the arrays, one JSON header beside them, nothing executable.

    [8 bytes: length] [JSON: names, dtypes, shapes; metadata {"labelwright": header}] [the arrays]

The header holds what the caller gave, the format version, and a SHA-256 checksum over the header and the arrays.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelwright.errors import ModelFileError
from labelwright.storage import replace_file
from labelwright.validation import TensorReader, check_array, check_pointers

FORMAT = 1  # raised when an older labelwright could misread a file
KEY = "labelwright"  # the one metadata key: several are stored in random order, and equal models should be equal files
RESERVED = ("format", "checksum")

# First bytes of what people hand over by mistake.
FOREIGN = {
    b"PK\x03\x04": "a zip archive",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"lCRF": "a CRFsuite model",
}


def write(path: str | Path, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Write arrays and header to `path` whole or not at all: a failure leaves the file that was there."""
    from safetensors import SafetensorError
    from safetensors.numpy import save

    for name in RESERVED:
        if name in header:
            raise ModelFileError(f"{path}: the header field {name!r} is kept for the file format, choose another name")
    try:
        fields = json.loads(json.dumps(dict(header)))  # as it will be read: keys are strings, tuples are lists
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: the header must be plain JSON: {error}") from error
    arrays = {name: _plain(array) for name, array in tensors.items()}
    fields = {"format": FORMAT, "checksum": _checksum(arrays, fields), **fields}
    try:
        if "__metadata__" in arrays:
            raise SafetensorError("no array may be called __metadata__")
        content = save(arrays, metadata={KEY: json.dumps(fields)})
    except SafetensorError as error:
        raise ModelFileError(f"{path}: the arrays cannot be stored: {error}") from error
    try:
        replace_file(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be written: {error.strerror or error}") from error


def read(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header that `write` was given, after checking that they are still the same."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = Path(path).read_bytes()
    except IsADirectoryError as error:
        raise ModelFileError(f"{path}: is a folder, expected a model file") from error
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    fields = _header(path, content)
    if fields.get("format") != FORMAT:
        raise ModelFileError(_format_trouble(path, fields.get("format")))
    try:
        arrays = load(content)
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: the file is damaged or was cut short ({error}); copy or train it again"
        ) from error
    for name, array in arrays.items():
        if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:  # NumPy relies on 0 and 1
            raise ModelFileError(f"{path}: tensor {name}: expected booleans, 0 or 1; copy or train it again")
    header = {name: value for name, value in fields.items() if name not in RESERVED}
    if fields.get("checksum") != _checksum(arrays, header):
        raise ModelFileError(f"{path}: the checksum does not fit, the file was changed; copy or train it again")
    return arrays, header


def pack_strings(strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the strings as UTF-8 bytes [B] uint8 and offsets [V+1] int64: string i is bytes[offsets[i]:offsets[i+1]].

    >>> unpack_strings(*pack_strings(["B-NP", "", "é"]))
    ['B-NP', '', 'é']
    """
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_strings(data: np.ndarray, offsets: np.ndarray, name: str = "strings") -> list[str]:
    """Return the strings that `pack_strings` packed; errors call them `name`."""
    check_array(f"{name}.text", data, np.uint8, None)
    check_pointers(f"{name}.offsets", check_array(f"{name}.offsets", offsets, np.int64, None), len(data))
    try:
        text = data.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"tensor {name}.text: not UTF-8 ({error.reason})") from error
    # Decoding everything once is much faster than decoding each string: characters are counted by their first bytes.
    characters = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum((data & 0xC0) != 0x80, out=characters[1:])
    bounds = characters[offsets].tolist()
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


def read_strings(tensors: TensorReader, name: str) -> list[str]:
    """The strings that were stored as `name`.text and `name`.offsets."""
    return unpack_strings(tensors[f"{name}.text"], tensors[f"{name}.offsets"], tensors.prefix + name)


def _plain(array: np.ndarray) -> np.ndarray:
    """Return the array contiguous and little-endian, which is how it is stored."""
    array = np.asarray(array, order="C")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _checksum(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the header and of every array's name, dtype, shape and bytes, in the order of names."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = _plain(arrays[name])
        digest.update(json.dumps([name, array.dtype.name, list(array.shape)]).encode())
        if array.size and not array.dtype.hasobject:
            digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _header(path: str | Path, content: bytes) -> dict[str, Any]:
    """Return our JSON header from the bytes of a file, or say what the file is instead."""
    if not content:
        raise ModelFileError(f"{path}: the file is empty, expected a labelwright model")
    if content[8:9] != b"{":  # asked first: the length before it may begin like anything
        names = [f"this is {name}" for magic, name in FOREIGN.items() if content.startswith(magic)]
        what = names[0] if names else f"begins with {content[:9]!r}"
        raise ModelFileError(f"{path}: {what}, expected a labelwright model")
    length = int.from_bytes(content[:8], "little")
    if 8 + length > len(content):
        raise ModelFileError(f"{path}: the file was cut short after {len(content)} bytes; copy or train it again")
    try:
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
        fields = json.loads(metadata[KEY]) if KEY in metadata else None
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: the header is damaged; copy or train it again") from error
    if not isinstance(fields, dict):
        raise ModelFileError(f"{path}: a safetensors file, but not from labelwright")
    return fields


def _format_trouble(path: str | Path, version: object) -> str:
    """Say why a file of this format version is not read."""
    if isinstance(version, int) and version > FORMAT:
        return (
            f"{path}: written by a newer labelwright (format {version}, this one reads {FORMAT}); upgrade labelwright"
        )
    return f"{path}: unknown format {version!r}, this labelwright reads {FORMAT}; train the model again"
