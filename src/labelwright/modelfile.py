"""One file per model or checkpoint: safetensors for the arrays, one JSON header beside them,
nothing executable.

    [8 bytes: length] [JSON: names, dtypes, shapes; metadata {"labelwright": header}] [the arrays]

The header holds what the caller gave, the format version, and a SHA-256 checksum over the header
and the arrays. In files of format 2 arrays take as few bytes as they need, and the header says how:

    whole numbers   in the smallest type that holds them; those that never fall by their steps,
                    where that is smaller
    weights         q * scale, where that is exact: q of one byte, or a float of two

Nothing is lost there: `rounded` is what makes weights fit into fewer bits.  A part (the weights of
one tensor) has one scale.  Of one byte it is the largest weight by 127, of 16 significant bits, so
that each product q * scale is exact; of two bytes it is a power of two.
"""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError, unreadable
from labelwright.hub import PREFIX, downloaded
from labelwright.storage import open_regular, replace_file

Array = NDArray[Any]
FORMAT, COMPACT = 1, 2  # raised when an older labelwright could misread a file
# the one metadata key: several are stored in random order, and equal models should be equal files
KEY = "labelwright"
RESERVED = ("format", "checksum", "stored")

BITS = (32, 16, 8)
WHOLE = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)  # the smallest first
RESTORED = ("int32", "int64", "float32", "float64")  # what arrays are outside of files
METHODS = ("whole", "steps", "scaled")
LARGEST_BYTE, LARGEST_HALF = 127, 32752.0  # of q

LARGEST_COUNT = 1 << 53  # whole numbers beyond this are no counts
LARGEST_WEIGHT = 1e30  # of weights, numbers and whatever else is added up: sums of them stay finite
DEEPEST = 20  # levels of a field of the header, or of a key of a recipe

# First bytes of what people hand over by mistake.
FOREIGN = {
    b"PK\x03\x04": "a zip archive",
    **{bytes([0x80, protocol]): "a pickle" for protocol in (2, 3, 4, 5)},
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"lCRF": "a CRFsuite model",
}


def write(
    target: Any,
    tensors: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    weights: Container[str] | None = None,
) -> None:
    """Write arrays and header to a path, whole or not at all (a failure leaves the file that was
    there), or to a binary file object.

    weights : the names of arrays that are weights; then all arrays take as few bytes as they need
        (format 2)"""
    from safetensors import SafetensorError
    from safetensors.numpy import save

    name = name_of(target)
    for field in RESERVED:
        if field in header:
            raise ModelFileError(
                f"{name}: the header field {field!r} is kept for the file format, choose another "
                "name"
            )
    try:
        # as it will be read: keys are strings, tuples are lists
        fields = json.loads(json.dumps(dict(header)))
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
    """Return the arrays and the header that `write` was given, after checking that they are still
    the same.

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
        # NumPy relies on 0 and 1
        if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise ModelFileError(
                f"{name}: tensor {tensor}: expected booleans, 0 or 1; copy or train it again"
            )
    checked = {
        field: value for field, value in fields.items() if field not in ("format", "checksum")
    }
    try:
        checksum = _checksum(arrays, checked)
    except RecursionError as error:
        raise ModelFileError(
            f"{name}: the header is nested too deep; copy or train it again"
        ) from error
    if fields.get("checksum") != checksum:
        raise ModelFileError(
            f"{name}: the checksum does not fit, the file was changed; copy or train it again"
        )
    if fields["format"] == COMPACT:
        try:
            arrays = unpacked(arrays, fields.get("stored"))
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}; copy or train it again") from None
    return arrays, {field: value for field, value in checked.items() if field not in RESERVED}


def _plain(array: np.ndarray) -> np.ndarray:
    """Return the array contiguous and little-endian, which is how it is stored."""
    array = np.asarray(array, order="C")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _checksum(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the header and of every array's name, dtype, shape and bytes, in the
    order of names."""
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
        raise ModelFileError(
            f"{path}: the file was cut short after {len(content)} bytes; copy or train it again"
        )
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
        return (
            f"{path}: written by a newer labelwright (format {version}, this one reads {reads}); "
            "upgrade labelwright"
        )
    return (
        f"{path}: unknown format {version!r}, this labelwright reads {reads}; train the model again"
    )


# -- paths, bytes and file objects -----------------------------------------------------------------


def name_of(file: Any) -> str:
    """How errors call a path, bytes or a file object.

    >>> name_of("model.crf"), name_of(b"...")
    ('model.crf', '<bytes>')
    """
    if isinstance(file, str | os.PathLike):
        return str(os.fspath(file))
    name = (
        "<bytes>"
        if isinstance(file, bytes | bytearray | memoryview)
        else getattr(file, "name", None)
    )
    return name if isinstance(name, str) else "<file>"


def content_of(source: Any) -> bytes:
    """The bytes of a file, by its path or its address on the Hub, from a binary file object, or as
    they are."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    name = name_of(source)
    if isinstance(source, str) and source.startswith(PREFIX):
        source = name = downloaded(source)
    try:
        if hasattr(source, "read"):
            content = source.read()
        else:
            with open_regular(_path_of(source, name)) as file:
                content = file.read()
    except UnicodeDecodeError:
        content = ""
    except (OSError, MemoryError) as error:
        raise unreadable(ModelFileError, name, error) from error
    if not isinstance(content, bytes):
        raise ModelFileError(
            f"{name}: opened as text, expected a binary file; open it with mode 'rb'"
        )
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
        raise ModelFileError(
            f"{name}: opened as text, expected a binary file; open it with mode 'wb'"
        ) from error
    except OSError as error:
        raise ModelFileError(f"{name}: cannot be written: {error.strerror or error}") from error


def _path_of(file: Any, name: str) -> Path:
    """A path that a file can have."""
    if not isinstance(file, str | os.PathLike):
        raise ModelFileError(f"expected a path or a binary file, got {type(file).__name__}")
    if "\0" in name or any("\ud800" <= character <= "\udbff" for character in name):
        raise ModelFileError(f"{name!r:.80}: no path can hold this character; name another file")
    return Path(name)


# -- strings ---------------------------------------------------------------------------------------


def pack_strings(strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The strings as UTF-8 bytes [B] uint8 and offsets [V+1] int64: string i is
    bytes[offsets[i]:offsets[i+1]].

    >>> unpack_strings(*pack_strings(["B-NP", "", "é"]))
    ['B-NP', '', 'é']
    """
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_strings(data: np.ndarray, offsets: np.ndarray, name: str = "strings") -> list[str]:
    """The strings that `pack_strings` packed; errors call them `name`."""
    tensors = TensorReader({f"{name}.text": data, f"{name}.offsets": offsets})
    tensors.array(f"{name}.text", np.uint8, None)
    tensors.pointers(f"{name}.offsets", None, len(data))
    try:
        text = data.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"tensor {name}.text: not UTF-8 ({error.reason})") from error
    # Decoding everything once is much faster than decoding each string: characters are counted by
    # their first bytes.
    characters = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum((data & 0xC0) != 0x80, out=characters[1:])
    return [text[start:end] for start, end in itertools.pairwise(characters[offsets].tolist())]


def read_strings(tensors: "TensorReader", name: str) -> list[str]:
    """The strings that were stored as `name`.text and `name`.offsets."""
    return unpack_strings(
        tensors[f"{name}.text"], tensors[f"{name}.offsets"], tensors.prefix + name
    )


# -- arrays in few bytes ---------------------------------------------------------------------------


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


def packed(
    tensors: Mapping[str, Array], weights: Container[str]
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays, smaller where that loses nothing, and how each of those is stored: [type, method,
    scale].  `weights` are the names of tensors that may be scaled."""
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
        candidates = {"whole": _smallest(array)}
        if array.ndim == 1 and (array[1:] >= array[:-1]).all() and array[0] >= 0:
            candidates["steps"] = _smallest(np.diff(array, prepend=array.dtype.type(0)))
        method = min(candidates, key=lambda name: candidates[name].itemsize)
        small = candidates[method]
        return (small, (method, 1.0)) if small.itemsize < array.itemsize else (array, None)
    for bits in (8, 16) if is_weights else ():
        q, scale = _scaled(array, bits)
        if q.itemsize < array.itemsize and (_scaled_back(q, scale, array.dtype) == array).all():
            return q, ("scaled", scale)
    return array, None


def _smallest(array: Array) -> Array:
    """The same numbers in the smallest type that holds them."""
    least, most = int(array.min()), int(array.max())
    fitting = (kind for kind in WHOLE if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return array.astype(next(fitting, array.dtype))


def unpacked(arrays: Mapping[str, Array], stored: Any) -> dict[str, Array]:
    """What `packed` was given; nothing in `stored` is trusted."""
    if not isinstance(stored, dict):
        raise ModelFileError(f"header: stored: expected an object, got {stored!r:.40}")
    tensors = dict(arrays)
    for name, how in stored.items():
        if name not in tensors:
            raise ModelFileError(f"header: stored: no tensor {name!r:.40}")
        is_known = (
            isinstance(how, list) and len(how) == 3 and how[0] in RESTORED and how[1] in METHODS
        )
        if not is_known or not is_number(how[2]) or not how[2] > 0:
            raise ModelFileError(
                f"header: stored: {name}: expected a type, a method and a scale, got {how!r:.60}"
            )
        tensors[name] = _unpacked(tensors[name], name, *how)
    return tensors


def _unpacked(array: Array, name: str, dtype: str, method: str, scale: float) -> Array:
    if method == "scaled":
        if array.dtype not in (np.int8, np.float16) or not dtype.startswith("float"):
            raise ModelFileError(f"tensor {name}: expected int8 or float16, got {array.dtype.name}")
        # who reads weights refuses those that are not finite
        with np.errstate(over="ignore", invalid="ignore"):
            return _scaled_back(array, scale, dtype)
    if (
        array.dtype not in WHOLE
        or not dtype.startswith("int")
        or (method == "steps" and array.ndim != 1)
    ):
        raise ModelFileError(
            f"tensor {name}: expected whole numbers in fewer bytes, got {array.dtype.name}"
        )
    whole = array.astype(np.int64)
    if method == "steps":
        if (whole < 0).any():
            raise ModelFileError(f"tensor {name}: expected steps that never fall")
        whole = np.cumsum(whole)
    if whole.size and not np.iinfo(dtype).min <= whole.min() <= whole.max() <= np.iinfo(dtype).max:
        raise ModelFileError(f"tensor {name}: expected numbers that fit into {dtype}")
    return whole.astype(dtype)


# -- checks of what was read: kernels check no bounds, and a file may hold anything ----------------


class TensorReader(dict[str, Array]):
    """The tensors of a file, or those whose names begin with a prefix.  Every way to read one
    checks its dtype, its shape (None: any length) and its bounds in linear time; the error is one
    line that names the tensor."""

    def __init__(self, tensors: Mapping[str, Array], prefix: str = ""):
        super().__init__(tensors)
        self.prefix = prefix

    @classmethod
    def of(cls, tensors: Mapping[str, Array]) -> "TensorReader":
        """Tensors that may be a reader already."""
        return tensors if isinstance(tensors, TensorReader) else cls(tensors)

    def __missing__(self, name: str) -> Array:
        raise ModelFileError(f"tensor {self.prefix}{name}: missing")

    def part(self, prefix: str) -> "TensorReader":
        """The tensors whose names begin with one more prefix."""
        inside = {
            name.removeprefix(prefix): array
            for name, array in self.items()
            if name.startswith(prefix)
        }
        return TensorReader(inside, self.prefix + prefix)

    def refuse(self, name: str, expected: str) -> ModelFileError:
        return ModelFileError(f"tensor {self.prefix}{name}: expected {expected}")

    def array(self, name: str, dtype: Any, *shape: int | None) -> Array:
        array, dtype = self[name], np.dtype(dtype)
        sound = array.ndim == len(shape) and all(
            n in (None, m) for n, m in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not sound:
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            raise self.refuse(
                name, f"{dtype.name} [{wanted}], got {array.dtype.name} {list(array.shape)}"
            )
        return array

    def pointers(
        self, name: str, n: int | None, end: int | None, least: int = 0, dtype: Any = np.int64
    ) -> Array:
        """Pointers [n+1] from 0 to `end` that never fall; each part that they mark off has `least`
        (0 or 1) items or more."""
        array = self.array(name, dtype, None if n is None else n + 1)
        # differences could overflow
        wrong = array[1:] <= array[:-1] if least else array[1:] < array[:-1]
        if (
            len(array) == 0
            or array[0] != 0
            or (end is not None and array[-1] != end)
            or wrong.any()
        ):
            last = "" if end is None else f" and end with {end}"
            raise self.refuse(
                name, f"pointers that begin with 0, {'rise' if least else 'never fall'}{last}"
            )
        return array

    def indices(
        self, name: str, dtype: Any, below: Any, *shape: int | None, least: int = 0
    ) -> Array:
        """Whole numbers from `least` to below `below`, which is a number or an array of the same
        shape."""
        array = self.array(name, dtype, *shape)
        check_indices(self.prefix + name, array, below, least)
        return array

    def permutation(self, name: str, dtype: Any, n: int) -> Array:
        """Each of 0..n-1 once."""
        array = self.indices(name, dtype, n, n)
        if n and np.bincount(array).max() > 1:
            raise self.refuse(name, "a permutation, but a number occurs twice")
        return array

    def numbers(
        self,
        name: str,
        dtype: Any,
        *shape: int | None,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> Array:
        """Finite numbers from `least` to `most`."""
        array = self.array(name, dtype, *shape)
        if not (np.isfinite(array) & (array >= least) & (array <= most)).all():
            limits = (
                f" from {least:g} to {most:g}"
                if math.isfinite(least) or math.isfinite(most)
                else ""
            )
            raise self.refuse(name, f"finite numbers{limits}")
        return array

    def weights(self, name: str, dtype: Any, *shape: int | None) -> Array:
        return self.numbers(name, dtype, *shape, least=-LARGEST_WEIGHT, most=LARGEST_WEIGHT)

    def children(self, name: str) -> Array:
        """The children of node n are the nodes child[n]:child[n+1]: each node but the first has one
        parent, before it."""
        child = self.array(name, np.int32, None)
        n = len(child) - 1
        behind = np.arange(1, n + 1)
        if (
            n < 1
            or child[0] != 1
            or child[-1] != n
            or (child[1:] < child[:-1]).any()
            or (child[:-1] < behind).any()
        ):
            raise self.refuse(name, "a tree in which children stand behind their parents")
        return child

    def rising(self, name: str, begins: Array) -> None:
        """Refuse numbers that do not rise within each run; runs begin at these places."""
        array = self[name]
        falls = np.zeros(len(array), np.bool_)
        falls[1:] = array[1:] <= array[:-1]
        falls[begins[begins < len(array)]] = False
        if falls.any():
            raise self.refuse(name, "numbers that rise within each group")


def check_indices(name: str, array: Array, below: Any, least: int = 0) -> None:
    """Refuse whole numbers that are not from `least` to below `below`."""
    if ((array < least) | (array >= below)).any():
        limit = below if np.ndim(below) == 0 else "the size of what it points into"
        raise ModelFileError(f"tensor {name}: expected indices from {least} to below {limit}")


def check_distinct(name: str, strings: Sequence[Any]) -> None:
    """No value twice."""
    if len(set(strings)) != len(strings):
        raise ModelFileError(f"tensor {name}: expected distinct values, but one occurs twice")


class HeaderReader(dict[str, Any]):
    """An object of the JSON header; what is missing or of another type is an error that names its
    place."""

    def __init__(self, fields: Any, place: str = "header"):
        if not isinstance(fields, Mapping):
            raise ModelFileError(f"{place}: expected an object, got {fields!r:.40}")
        super().__init__(fields)
        self.place = place

    @classmethod
    def of(cls, fields: Any) -> "HeaderReader":
        """A header that may be a reader already."""
        return fields if isinstance(fields, HeaderReader) else cls(fields)

    def __missing__(self, name: str) -> Any:
        raise ModelFileError(f"{self.place}: {name!r} is missing")

    def refuse(self, name: str, expected: str) -> ModelFileError:
        return ModelFileError(f"{self.place}: {name}: expected {expected}, got {self[name]!r:.60}")

    def part(self, name: str) -> "HeaderReader":
        return HeaderReader(self[name], f"{self.place}: {name}")

    def parts(self, name: str) -> "list[HeaderReader]":
        return [
            HeaderReader(x, f"{self.place}: {name}[{i}]") for i, x in enumerate(self.listed(name))
        ]

    def listed(self, name: str) -> list[Any]:
        if not isinstance(self[name], list):
            raise self.refuse(name, "a list")
        return list(self[name])

    def text(self, name: str) -> str:
        if not isinstance(self[name], str):
            raise self.refuse(name, "a string")
        return str(self[name])

    def one_of(self, name: str, choices: Sequence[Any]) -> Any:
        if not any(type(self[name]) is type(choice) and self[name] == choice for choice in choices):
            raise self.refuse(name, f"one of {', '.join(map(str, choices))}")
        return self[name]

    def names(self, name: str) -> list[str]:
        if not all(isinstance(x, str) for x in self.listed(name)):
            raise self.refuse(name, "a list of strings")
        return self.listed(name)

    def whole(self, name: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
        if type(self[name]) is not int or not least <= self[name] <= most:
            raise self.refuse(name, f"a whole number from {least} to {most}")
        return int(self[name])

    def number(self, name: str, least: float = -math.inf, most: float = math.inf) -> float:
        if not is_number(self[name]) or not least <= self[name] <= most:
            raise self.refuse(
                name,
                "a finite number" if least == -math.inf else f"a number from {least:g} to {most:g}",
            )
        return float(self[name])

    def check_plain(self, name: str, but: Sequence[str] = ()) -> None:
        """Refuse numbers that are not finite, however deep in a field, but in those of these names;
        and depths beyond DEEPEST, which no record has and no recursive function likes."""
        for depth, members in enumerate(_levels(self[name], but)):
            wrong = [
                value
                for _, value in members
                if type(value) in (int, float) and not is_number(value)
            ]
            if wrong:
                raise ModelFileError(
                    f"{self.place}: {name}: expected finite numbers, got {wrong[0]!r:.40}"
                )
            if members and depth + 1 == DEEPEST:
                raise ModelFileError(f"{self.place}: {name}: expected {DEEPEST} levels at most")


def is_deep(value: Any) -> bool:
    """Whether lists and objects within each other have more levels than DEEPEST.

    >>> is_deep([{"a": [1]}])
    False
    """
    return len(list(itertools.islice(_levels(value), DEEPEST))) == DEEPEST


def _levels(value: Any, but: Sequence[str] = ()) -> Iterator[list[tuple[Any, Any]]]:
    """What lists and objects within each other hold, level by level: (key, item), without a key in
    lists; not the numbers under keys of these names."""
    level = [value]
    while level:
        lists = [(None, item) for held in level if isinstance(held, list) for item in held]
        members = lists + [
            pair for held in level if isinstance(held, Mapping) for pair in held.items()
        ]
        members = [(key, item) for key, item in members if not (key in but and type(item) is float)]
        level = [item for _, item in members]
        if members:
            yield members


def is_number(value: Any) -> bool:
    """Is it a finite number of JSON?"""
    return type(value) in (int, float) and abs(value) <= 1.7e308
