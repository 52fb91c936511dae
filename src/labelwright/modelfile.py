"""One file per model or checkpoint: safetensors for the arrays, one JSON header beside them, nothing executable.

    [8 bytes: length] [JSON: names, dtypes, shapes; metadata {"labelwright": header}] [the arrays]

The header holds what the caller gave, the format version, and a SHA-256 checksum over the header and the arrays.
In files of format 2 arrays take as few bytes as they need (labelwright.compact); the header says how.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelwright import compact
from labelwright.errors import ModelFileError, unreadable
from labelwright.storage import replace_file
from labelwright.validation import TensorReader, check_array, check_pointers

FORMAT, COMPACT = 1, 2  # raised when an older labelwright could misread a file
KEY = "labelwright"  # the one metadata key: several are stored in random order, and equal models should be equal files
RESERVED = ("format", "checksum", "stored")

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


def write(
    target: Any, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any], weights: Container[str] | None = None
) -> None:
    """Write arrays and header to a path, whole or not at all (a failure leaves the file that was there), or to a binary
    file object.

    weights : the names of arrays that are weights; then all arrays take as few bytes as they need (format 2)"""
    from safetensors import SafetensorError
    from safetensors.numpy import save

    name = name_of(target)
    for field in RESERVED:
        if field in header:
            raise ModelFileError(f"{name}: the header field {field!r} is kept for the file format, choose another name")
    try:
        fields = json.loads(json.dumps(dict(header)))  # as it will be read: keys are strings, tuples are lists
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{name}: the header must be plain JSON: {error}") from error
    arrays = {name: _plain(array) for name, array in tensors.items()}
    format = FORMAT
    if weights is not None:
        arrays, stored = compact.packed(arrays, weights)
        format, fields = COMPACT, {**fields, "stored": stored}
    fields = {"format": format, "checksum": _checksum(arrays, fields), **fields}
    try:
        if "__metadata__" in arrays:
            raise SafetensorError("no array may be called __metadata__")
        content = save(arrays, metadata={KEY: json.dumps(fields)})
    except SafetensorError as error:
        raise ModelFileError(f"{name}: the arrays cannot be stored: {error}") from error
    store(target, content)


def read(source: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header that `write` was given, after checking that they are still the same.

    source : a path, bytes, or a binary file object"""
    return parse(content_of(source), name_of(source))


def parse(content: bytes, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The same from the bytes of a file; errors call it `name`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    fields = _header(name, content)
    if fields.get("format") not in (FORMAT, COMPACT) or isinstance(fields.get("format"), bool):
        raise ModelFileError(_format_trouble(name, fields.get("format")))
    try:
        arrays = load(content)
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{name}: the file is damaged or was cut short ({error}); copy or train it again"
        ) from error
    for tensor, array in arrays.items():
        if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:  # NumPy relies on 0 and 1
            raise ModelFileError(f"{name}: tensor {tensor}: expected booleans, 0 or 1; copy or train it again")
    checked = {field: value for field, value in fields.items() if field not in ("format", "checksum")}
    try:
        checksum = _checksum(arrays, checked)
    except RecursionError as error:
        raise ModelFileError(f"{name}: the header is nested too deep; copy or train it again") from error
    if fields.get("checksum") != checksum:
        raise ModelFileError(f"{name}: the checksum does not fit, the file was changed; copy or train it again")
    if fields["format"] == COMPACT:
        try:
            arrays = compact.unpacked(arrays, fields.get("stored"))
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}; copy or train it again") from None
    return arrays, {field: value for field, value in checked.items() if field not in RESERVED}


# -- paths, bytes and file objects ------------------------------------------------------------------------------------


def name_of(file: Any) -> str:
    """How errors call a path, bytes or a file object.

    >>> name_of("model.crf"), name_of(b"...")
    ('model.crf', '<bytes>')
    """
    if isinstance(file, str | os.PathLike):
        return str(os.fspath(file))
    if isinstance(file, bytes | bytearray | memoryview):
        return "<bytes>"
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else "<file>"


def content_of(source: Any) -> bytes:
    """The bytes of a file, by its path, from a binary file object, or as they are."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    name = name_of(source)
    try:
        content = source.read() if hasattr(source, "read") else _file_at(_path_of(source, name)).read_bytes()
    except UnicodeDecodeError:
        content = ""
    except OSError as error:
        raise unreadable(ModelFileError, name, error) from error
    if not isinstance(content, bytes):
        raise ModelFileError(f"{name}: opened as text, expected a binary file; open it with mode 'rb'")
    return content


def store(target: Any, content: bytes) -> None:
    """Write bytes to a path, whole or not at all, or to a binary file object."""
    name = name_of(target)
    try:
        if hasattr(target, "write"):
            target.write(content)
        else:
            replace_file(Path(os.path.realpath(_path_of(target, name))), content)
    except TypeError as error:
        raise ModelFileError(f"{name}: opened as text, expected a binary file; open it with mode 'wb'") from error
    except OSError as error:
        raise ModelFileError(f"{name}: cannot be written: {error.strerror or error}") from error


def _path_of(file: Any, name: str) -> Path:
    if not isinstance(file, str | os.PathLike):
        raise ModelFileError(f"expected a path or a binary file, got {type(file).__name__}")
    if "\0" in name or any("\ud800" <= character <= "\udbff" for character in name):
        raise ModelFileError(f"{name!r:.80}: no path can hold this character; name another file")
    return Path(name)


def _file_at(path: Path) -> Path:
    """The same path; a device such as /dev/zero, which has no end, is refused."""
    if path.is_char_device():
        raise ModelFileError(f"{path}: is a device, expected a model file")
    return path


# -- strings ----------------------------------------------------------------------------------------------------------


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


# -- steps -----------------------------------------------------------------------------------------------------------


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
    reads = f"{FORMAT} and {COMPACT}"
    if isinstance(version, int) and version > COMPACT:
        return f"{path}: written by a newer labelwright (format {version}, this one reads {reads}); upgrade labelwright"
    return f"{path}: unknown format {version!r}, this labelwright reads {reads}; train the model again"
