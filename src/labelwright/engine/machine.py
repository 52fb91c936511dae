"""Machine code by Numba: the one module that imports it, when the first kernel is to be compiled."""

import functools
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import caching, cgutils, config, types
from numba.extending import intrinsic, typeof_impl

from labelwright.engine import cache

# The cache rests on a few names of Numba that are not public.  These versions were tested; with others the kernels are
# kept by Numba's own cache.
TESTED = ((0, 60), (0, 68))


@functools.cache
def register(kernel: type, unsigned: type, prefetch: type) -> None:
    """Tell Numba what these are inside a kernel: machine code of their own, a type of numbers, and one instruction."""
    typeof_impl.register(kernel)(lambda value, _: numba.typeof(value.dispatcher))
    typeof_impl.register(unsigned)(lambda value, _: numba.typeof(value.compiled))
    typeof_impl.register(prefetch)(lambda value, _: numba.typeof(_fetch_ahead))


@intrinsic
def _instruction(_: Any, array: Any, place: Any) -> Any:
    """The processor's instruction to prefetch array[place] for reading, into all caches."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        filled = context.make_array(kind)(context, builder, arguments[0])
        at = cgutils.unpack_tuple(builder, arguments[1])
        address = cgutils.get_item_pointer(context, builder, kind, filled, at, wraparound=False)
        number, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        form = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        instruction = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0i8")
        builder.call(instruction, [builder.bitcast(address, byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, place), generate


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _fetch_ahead(array, *place):  # type: ignore[no-untyped-def]
    _instruction(array, place)


def dispatcher(function: Callable[..., Any], fast: set[str], options: dict[str, Any]) -> Any:
    """`function` as Numba compiles it, with its cache."""
    options = {"nogil": True, "fastmath": fast or False, "error_model": "numpy", **options}
    if not OWN_CACHE:
        return numba.njit(cache=True, **options)(function)
    made = numba.njit(**options)(function)
    made._cache = _KernelCache(function)
    return made


def _is_tested() -> bool:
    """May the cache of our own be used with this version of Numba?"""
    version = tuple(int(part) for part in numba.__version__.split(".")[:2] if part.isdigit())
    names = hasattr(caching, "_Cache") and hasattr(caching, "CompileResultCacheImpl")
    return names and TESTED[0] <= version <= TESTED[1]


OWN_CACHE = _is_tested()
if not OWN_CACHE:
    tested = " to ".join(".".join(map(str, version)) for version in TESTED)
    warnings.warn(
        f"labelwright: Numba {numba.__version__} is not among the tested versions ({tested}); kernels are kept by "
        "Numba's own cache, and LABELWRIGHT_CACHE is not used",
        RuntimeWarning,
        stacklevel=2,
    )


def fingerprint() -> str:
    """What machine code depends on besides its source and the processor."""
    return f"{numba.__version__} {getattr(config, 'BOUNDSCHECK', None)}"


@functools.cache
def _tell_once() -> None:
    """Say in a terminal or at a prompt that kernels are being compiled, which takes half a minute in all."""
    if hasattr(sys, "ps1") or (sys.stderr is not None and sys.stderr.isatty()):
        sys.stderr.write("labelwright: compiling kernels, once for this version on this machine ...\n")


if OWN_CACHE:
    from numba.core.compiler import CompileResult
    from numba.core.serialize import dumps

    class _KernelCache(caching._Cache):
        """Numba's cache protocol, one file per function and signature: no index that two processes could race for."""

        def __init__(self, function: Callable[..., Any]):
            self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
            self._impl = caching.CompileResultCacheImpl
            self._enabled = True

        @property
        def cache_path(self) -> str:
            return str(cache.writable_folder(fingerprint()))

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            target_context.refresh()
            triple, *processor = target_context.codegen().magic_tuple()
            for target in ((triple, *processor), (triple, *cache.GENERIC)):
                for folder in cache.folders(fingerprint()) if self._enabled else ():
                    stored = cache.read(folder / self._file(sig, target))
                    try:
                        if stored is not None:
                            return CompileResult._rebuild(target_context, *pickle.loads(stored))
                    except Exception:  # damaged: compile again
                        continue
            _tell_once()
            return None

        def save_overload(self, sig: Any, data: Any) -> None:
            folder = cache.writable_folder(fingerprint())
            if self._enabled and folder is not None:
                cache.write(folder / self._file(sig, data.codegen.magic_tuple()), dumps(data._reduce()))

        def _file(self, signature: Any, target: tuple[Any, ...]) -> str:
            return cache.file_name(self._name, f"{signature} {target}")

        def enable(self) -> None:
            self._enabled = True

        def disable(self) -> None:
            self._enabled = False

        def flush(self) -> None:
            for file in Path(self.cache_path).glob(f"{self._name}-*.kernel"):
                file.unlink(missing_ok=True)
