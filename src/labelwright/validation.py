"""Checks of what was read from a file, before any of it is used: kernels check no bounds, and a file may hold anything.

Every check takes linear time and raises one ModelFileError that names the tensor or the header field.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError

Array = NDArray[Any]
LARGEST_COUNT = 1 << 53  # whole numbers beyond this are no counts
LARGEST_WEIGHT = 1e30  # of weights, numbers and whatever else is added up: sums of them stay finite
DEEPEST = 20  # levels of a field of the header, or of a key of a recipe


# -- arrays -----------------------------------------------------------------------------------------------------------


def check_array(name: str, array: Array, dtype: Any, *shape: int | None) -> Array:
    """An array of exactly this dtype and shape (None: any length)."""
    sound = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype != np.dtype(dtype) or not sound:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ModelFileError(
            f"tensor {name}: expected {np.dtype(dtype).name} [{wanted}], got {array.dtype.name} {list(array.shape)}"
        )
    return array


def check_pointers(name: str, array: Array, end: int, least: int = 0) -> Array:
    """Pointers from 0 to `end` that never fall; each part that they mark off has `least` (0 or 1) items or more."""
    wrong = array[1:] <= array[:-1] if least else array[1:] < array[:-1]  # differences could overflow
    if len(array) == 0 or array[0] != 0 or array[-1] != end or wrong.any():
        rising = "rise" if least else "never fall"
        raise ModelFileError(f"tensor {name}: expected pointers that begin with 0, {rising} and end with {end}")
    return array


def check_indices(name: str, array: Array, below: Any, least: int = 0) -> Array:
    """Whole numbers from `least` to below `below`, which is a number or an array of the same shape."""
    if ((array < least) | (array >= below)).any():
        limit = below if np.ndim(below) == 0 else "the size of what it points into"
        raise ModelFileError(f"tensor {name}: expected indices from {least} to below {limit}")
    return array


def check_permutation(name: str, array: Array) -> Array:
    """Each of 0..n-1 once."""
    check_indices(name, array, len(array))
    if len(array) and np.bincount(array).max() > 1:
        raise ModelFileError(f"tensor {name}: expected a permutation, but a number occurs twice")
    return array


def check_numbers(name: str, array: Array, least: float = -math.inf, most: float = math.inf) -> Array:
    """Finite numbers from `least` to `most`."""
    if not (np.isfinite(array) & (array >= least) & (array <= most)).all():
        limits = f" from {least:g} to {most:g}" if math.isfinite(least) or math.isfinite(most) else ""
        raise ModelFileError(f"tensor {name}: expected finite numbers{limits}")
    return array


def check_weights(name: str, array: Array) -> Array:
    """Finite numbers that are no larger than a weight may be."""
    return check_numbers(name, array, -LARGEST_WEIGHT, LARGEST_WEIGHT)


def check_children(name: str, child: Array) -> Array:
    """The children of node n are the nodes child[n]:child[n+1]: each node but the first has one parent, before it."""
    n = len(child) - 1
    behind = np.arange(1, n + 1)
    if n < 1 or child[0] != 1 or child[-1] != n or (child[1:] < child[:-1]).any() or (child[:-1] < behind).any():
        raise ModelFileError(f"tensor {name}: expected a tree in which children stand behind their parents")
    return child


def check_rising_within(name: str, array: Array, begins: Array) -> Array:
    """Numbers that rise within each run; runs begin at these places."""
    falls = np.zeros(len(array), np.bool_)
    falls[1:] = array[1:] <= array[:-1]
    falls[begins[begins < len(array)]] = False
    if falls.any():
        raise ModelFileError(f"tensor {name}: expected numbers that rise within each group")
    return array


def check_distinct(name: str, strings: Sequence[Any]) -> None:
    """No value twice."""
    if len(set(strings)) != len(strings):
        raise ModelFileError(f"tensor {name}: expected distinct values, but one occurs twice")


class TensorReader(Mapping[str, Array]):
    """The tensors of a file, or those whose names begin with a prefix; a missing one is an error."""

    def __init__(self, tensors: Mapping[str, Array], prefix: str = ""):
        self._tensors, self.prefix = tensors, prefix

    @classmethod
    def of(cls, tensors: Mapping[str, Array]) -> "TensorReader":
        """Tensors that may be a reader already."""
        return tensors if isinstance(tensors, TensorReader) else cls(tensors)

    def __getitem__(self, name: str) -> Array:
        full = self.prefix + name
        if full not in self._tensors:
            raise ModelFileError(f"tensor {full}: missing")
        return self._tensors[full]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.prefix + name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self.prefix) for name in self._tensors if name.startswith(self.prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def part(self, prefix: str) -> "TensorReader":
        """The tensors whose names begin with one more prefix."""
        return TensorReader(self._tensors, self.prefix + prefix)

    def array(self, name: str, dtype: Any, *shape: int | None) -> Array:
        return check_array(self.prefix + name, self[name], dtype, *shape)

    def pointers(self, name: str, n: int | None, end: int, least: int = 0) -> Array:
        """int64 pointers [n+1] into something of length `end`."""
        array = self.array(name, np.int64, None if n is None else n + 1)
        return check_pointers(self.prefix + name, array, end, least)

    def indices(self, name: str, dtype: Any, below: Any, *shape: int | None, least: int = 0) -> Array:
        return check_indices(self.prefix + name, self.array(name, dtype, *shape), below, least)

    def permutation(self, name: str, dtype: Any, n: int) -> Array:
        return check_permutation(self.prefix + name, self.array(name, dtype, n))

    def numbers(
        self, name: str, dtype: Any, *shape: int | None, least: float = -math.inf, most: float = math.inf
    ) -> Array:
        return check_numbers(self.prefix + name, self.array(name, dtype, *shape), least, most)

    def weights(self, name: str, dtype: Any, *shape: int | None) -> Array:
        return check_weights(self.prefix + name, self.array(name, dtype, *shape))


# -- headers ----------------------------------------------------------------------------------------------------------


class HeaderReader(Mapping[str, Any]):
    """An object of the JSON header; what is missing or of another type is an error that names its place."""

    def __init__(self, fields: Any, place: str = "header"):
        if not isinstance(fields, Mapping):
            raise ModelFileError(f"{place}: expected an object, got {fields!r:.40}")
        self._fields, self.place = fields, place

    @classmethod
    def of(cls, fields: Any) -> "HeaderReader":
        """A header that may be a reader already."""
        return fields if isinstance(fields, HeaderReader) else cls(fields)

    def __getitem__(self, name: str) -> Any:
        if name not in self._fields:
            raise ModelFileError(f"{self.place}: {name!r} is missing")
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def get(self, name: str, default: Any = None) -> Any:
        return self._fields.get(name, default)

    def refuse(self, name: str, expected: str) -> ModelFileError:
        return ModelFileError(f"{self.place}: {name}: expected {expected}, got {self[name]!r:.60}")

    def part(self, name: str) -> "HeaderReader":
        return HeaderReader(self[name], f"{self.place}: {name}")

    def parts(self, name: str) -> "list[HeaderReader]":
        return [HeaderReader(x, f"{self.place}: {name}[{i}]") for i, x in enumerate(self.listed(name))]

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
        """A whole number from `least` to `most`."""
        if type(self[name]) is not int or not least <= self[name] <= most:
            raise self.refuse(name, f"a whole number from {least} to {most}")
        return int(self[name])

    def number(self, name: str, least: float = -math.inf, most: float = math.inf) -> float:
        """A finite number from `least` to `most`."""
        if not is_number(self[name]) or not least <= self[name] <= most:
            raise self.refuse(name, "a finite number" if least == -math.inf else f"a number from {least:g} to {most:g}")
        return float(self[name])


def check_plain(fields: HeaderReader, name: str, but: Sequence[str] = ()) -> None:
    """Refuse numbers that are not finite, however deep in a field, but in those of these names; and depths beyond
    DEEPEST, which no record has and no recursive function likes."""
    level: list[Any] = [fields[name]]
    for _ in range(DEEPEST):
        level = [item for key, item in _members(level) if not (key in but and type(item) is float)]
        for value in level:
            if type(value) in (int, float) and not is_number(value):
                raise ModelFileError(f"{fields.place}: {name}: expected finite numbers, got {value!r:.40}")
        if not level:
            return
    raise ModelFileError(f"{fields.place}: {name}: expected {DEEPEST} levels at most")


def is_deep(value: Any) -> bool:
    """Whether lists and objects within each other have more levels than DEEPEST.

    >>> is_deep([{"a": [1]}])
    False
    """
    level = [value]
    for _ in range(DEEPEST):
        level = [item for _, item in _members(level)]
    return bool(level)


def _members(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """What the lists and objects among these hold: (key, item), without a key in lists."""
    lists = [(None, item) for value in values if isinstance(value, list) for item in value]
    return lists + [pair for value in values if isinstance(value, Mapping) for pair in value.items()]


def is_number(value: Any) -> bool:
    """Is it a finite number of JSON?"""
    return type(value) in (int, float) and abs(value) <= 1.7e308
