"""Kernels as plain Python: the same files, run without being compiled."""

import importlib
import importlib.util
import re
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import cython
import numpy as np

import labelwright.kernels

FOLDER = Path(labelwright.kernels.__file__).parent
PREFIX = "cython.cimports.labelwright.kernels."


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(_constants(Path(self.path).with_suffix(".pxd")))
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """Finds the sources of kernels where a kernel asks for another one."""

    def find_spec(self, name, path, target=None):
        if not name.startswith(PREFIX):
            return None
        file = str(FOLDER / f"{name.removeprefix(PREFIX)}.py")
        return importlib.util.spec_from_loader(name, _Loader(name, file))


def uncompiled(name: str) -> ModuleType:
    """The kernels of a file, uncompiled."""
    if PREFIX + name not in sys.modules:
        _prepare()
    return importlib.import_module(PREFIX + name)


def _prepare() -> None:
    assert not cython.compiled
    sys.modules["cython.cimports"].__dict__["__spec__"] = None
    stand_ins = {"libc.math": _math(), "libc.string": _module(strlen=len)}
    stand_ins |= {"labelwright": _module(), "labelwright.kernels": _module()}
    stand_ins["labelwright.kernels.prefetching"] = _module(prefetch=lambda _: None)
    stand_ins["labelwright.kernels.hashing"] = _module(hash_with=_hash_with, first_slot=_first_slot)
    for name, module in stand_ins.items():
        sys.modules[f"cython.cimports.{name}"] = module
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _module(**names: object) -> ModuleType:
    module = ModuleType("stand_in")
    module.__path__ = []
    module.__dict__.update(names)
    return module


def _math() -> ModuleType:
    """What C's math.h has: numbers overflow and divide by zero in silence."""
    names = "exp", "log", "log1p", "log2", "sqrt", "floor", "isfinite", "isnan", "fabs"
    module = _module(INFINITY=np.inf, NAN=np.nan, pow=np.power)
    for name in names:
        setattr(module, name, getattr(np, name))
    for name in ("exp", "sqrt", "floor"):
        setattr(module, f"{name}f", lambda x, name=name: getattr(np, name)(np.float32(x)))
    return module


def _hash_with(h: int, number: int, base: int) -> int:
    p = (int(h) + int(number)) * int(base)
    return (p & 0x7FFFFFFF) + (p >> 31)


def _first_slot(h: int, mask: int) -> int:
    return (h ^ (h >> 15)) & mask


def _constants(file: Path) -> dict[str, int]:
    """The names of the `cdef enum`s of a .pxd file."""
    constants = {}
    for block in re.findall(r"cdef enum:.*?\n((?:    .*\n)+)", file.read_text(encoding="utf-8")):
        for number, line in enumerate(block.splitlines()):
            key, _, value = line.partition("=")
            constants[key.strip()] = int(value) if value else number
    return constants
