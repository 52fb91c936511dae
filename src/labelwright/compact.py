"""Arrays in as few bytes as they need, and back; of a model file of format 2.

    whole numbers   in the smallest type that holds them; those that never fall by their steps, where that is smaller
    weights         q * scale, where that is exact: q of one byte, or a float of two

Nothing is lost here: `rounded` is what makes weights fit into fewer bits.  A part (the weights of one tensor) has one
scale.  Of one byte it is the largest weight by 127, of 16 significant bits, so that each product q * scale is exact; of
two bytes it is a power of two.
"""

import math
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError
from labelwright.validation import is_number

Array = NDArray[Any]

BITS = (32, 16, 8)
WHOLE = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)  # the smallest first
RESTORED = ("int32", "int64", "float32", "float64")  # what arrays are outside of files
METHODS = ("whole", "steps", "scaled")
LARGEST_BYTE, LARGEST_HALF = 127, 32752.0  # of q


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


# -- into a file ------------------------------------------------------------------------------------------------------


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


# -- out of a file ----------------------------------------------------------------------------------------------------


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
