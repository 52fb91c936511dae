"""One file per model or checkpoint: safetensors for the arrays, one JSON header beside them, nothing executable.

    [8 bytes: length] [JSON: names, dtypes, shapes; metadata {"labelwright": header}] [the arrays]

The header holds what the caller gave, the format version, and a SHA-256 checksum over the header and the arrays.
In files of format 2 arrays take as few bytes as they need, and the header says how:

    whole numbers   in the smallest type that holds them; those that never fall by their steps, where that is smaller
    weights         q * scale, where that is exact: q of one byte, or a float of two

Nothing is lost there: `rounded` is what makes weights fit into fewer bits.  A part (the weights of one tensor) has one
scale.  Of one byte it is the largest weight by 127, of 16 significant bits, so that each product q * scale is exact; of
two bytes it is a power of two.
"""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError, unreadable
from labelwright.storage import replace_file
from labelwright.validation import TensorReader, check_array, check_pointers, is_number

Array = NDArray[Any]
FORMAT, COMPACT = 1, 2  # raised when an older labelwright could misread a file
KEY = "labelwright"  # the one metadata key: several are stored in random order, and equal models should be equal files
RESERVED = ("format", "checksum", "stored")

BITS = (32, 16, 8)
WHOLE = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)  # the smallest first
RESTORED = ("int32", "int64", "float32", "float64")  # what arrays are outside of files
METHODS = ("whole", "steps", "scaled")
LARGEST_BYTE, LARGEST_HALF = 127, 32752.0  # of q

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
        arrays, stored = packed(arrays, weights)
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
            arrays = unpacked(arrays, fields.get("stored"))
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


# -- arrays in few bytes ---------------------------------------------------------------------------------------------


def rounded(weights: Array, bits: int) -> Array:
    """The weights as so many bits hold them, in the same type."""
    return weights if bits == 32 else _scaled_back(*_scaled(weights, bits), weights.dtype)


def _scaled(weights: Array, bits: int) -> tuple[Array, float]:
    """q [W] of these bits, and the scale."""
    largest = float(np.abs(weights).max(initial=0.0))
    if bits == 8:
        scale = _short(largest / LARGEST_BYTE) if largest else 1.0
        return np.clip(np.rint(weights / scale), -LARGEST_BYTE, LARGEST_BYTE).astype(np.int8), scale
    scale = 2.0 ** (math.frexp(largest)[1] - 15) if largest else 1.0
    return np.clip(weights / scale, -LARGEST_HALF, LARGEST_HALF).astype(np.float16), scale


def _short(number: float) -> float:
    """The next number that 16 significant bits hold.

    >>> _short(0.5), _short(1.00001)
    (0.5, 1.000030517578125)
    """
    part, power = math.frexp(number)
    return math.ldexp(math.ceil(math.ldexp(part, 16)), power - 16)


def _scaled_back(q: Array, scale: float, dtype: Any) -> Array:
    back: Array = (q.astype(np.float64) * scale).astype(dtype)
    return back


def packed(tensors: Mapping[str, Array], weights: Container[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays, smaller where that loses nothing, and how each of those is stored: [type, method, scale].  `weights`
    are the names of tensors that may be scaled."""
    arrays, stored = {}, {}
    for name, array in tensors.items():
        arrays[name], how = _packed(array, name in weights)
        if how is not None:
            stored[name] = [array.dtype.name, *how]
    return arrays, stored


def _packed(array: Array, is_weights: bool) -> tuple[Array, tuple[str, float] | None]:
    if array.size == 0 or array.dtype.name not in RESTORED:
        return array, None
    if array.dtype.kind == "i":
        return _packed_whole(array)
    for bits in (8, 16) if is_weights else ():
        q, scale = _scaled(array, bits)
        if q.itemsize < array.itemsize and (_scaled_back(q, scale, array.dtype) == array).all():
            return q, ("scaled", scale)
    return array, None


def _packed_whole(array: Array) -> tuple[Array, tuple[str, float] | None]:
    candidates = {"whole": _smallest(array)}
    if array.ndim == 1 and (array[1:] >= array[:-1]).all() and array[0] >= 0:
        candidates["steps"] = _smallest(np.diff(array, prepend=array.dtype.type(0)))
    method = min(candidates, key=lambda name: candidates[name].itemsize)
    small = candidates[method]
    return (small, (method, 1.0)) if small.itemsize < array.itemsize else (array, None)


def _smallest(array: Array) -> Array:
    """The same numbers in the smallest type that holds them."""
    least, most = int(array.min()), int(array.max())
    for kind in WHOLE:
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return array.astype(kind)
    return array


def unpacked(arrays: Mapping[str, Array], stored: Any) -> dict[str, Array]:
    """What `packed` was given; nothing in `stored` is trusted."""
    if not isinstance(stored, dict):
        raise ModelFileError(f"header: stored: expected an object, got {stored!r:.40}")
    tensors = dict(arrays)
    for name, how in stored.items():
        if name not in tensors:
            raise ModelFileError(f"header: stored: no tensor {name!r:.40}")
        is_known = isinstance(how, list) and len(how) == 3 and how[0] in RESTORED and how[1] in METHODS
        if not is_known or not is_number(how[2]) or not how[2] > 0:
            raise ModelFileError(f"header: stored: {name}: expected a type, a method and a scale, got {how!r:.60}")
        tensors[name] = _unpacked(tensors[name], name, *how)
    return tensors


def _unpacked(array: Array, name: str, dtype: str, method: str, scale: float) -> Array:
    if method == "scaled":
        if array.dtype not in (np.int8, np.float16) or not dtype.startswith("float"):
            raise ModelFileError(f"tensor {name}: expected int8 or float16, got {array.dtype.name}")
        with np.errstate(over="ignore", invalid="ignore"):  # who reads weights refuses those that are not finite
            return _scaled_back(array, scale, dtype)
    if array.dtype not in WHOLE or not dtype.startswith("int") or (method == "steps" and array.ndim != 1):
        raise ModelFileError(f"tensor {name}: expected whole numbers in fewer bytes, got {array.dtype.name}")
    whole = array.astype(np.int64)
    if method == "steps":
        if (whole < 0).any():
            raise ModelFileError(f"tensor {name}: expected steps that never fall")
        whole = np.cumsum(whole)
    if whole.size and not np.iinfo(dtype).min <= whole.min() <= whole.max() <= np.iinfo(dtype).max:
        raise ModelFileError(f"tensor {name}: expected numbers that fit into {dtype}")
    return whole.astype(dtype)
