"""Machine code by Numba: the one module that imports it, when the first kernel is to be
compiled."""

import functools
import importlib
import os
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import numba
from llvmlite import ir
from llvmlite.binding import Linkage
from numba._dispatcher import compute_fingerprint
from numba.core import caching, cgutils, config, types
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic, typeof_impl

from labelwright.engine import cache
from labelwright.engine.choice import giving_way, start_loading, warn_of_numpy

# The cache rests on a few names of Numba that are not public.  These versions were tested; with
# others the kernels are kept by Numba's own cache.
TESTED = ((0, 60), (0, 68))
SECONDS = 600  # for which another process may compile


@functools.cache
def register(kernel: type, unsigned: type, prefetch: type) -> None:
    """Tell Numba what these are inside a kernel: machine code of their own, a type of numbers, and
    one instruction."""
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


class _Compiler(Compiler):  # type: ignore[misc]
    """Gives each kernel copies of its own of the kernels that it calls.

    Numba shares them between all machine code that is loaded, by their names: the first copy
    serves.  But copies were optimised in different surroundings, and so add in different orders:
    the last bits of a sum would depend on which kernel this process happened to load first."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any):
        library = library or target.codegen().create_library("kernel")
        library.enable_object_caching()
        optimise = library._optimize_final_module

        def optimise_alone() -> None:
            for function in library._final_module.functions:
                if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                    function.linkage = Linkage.internal
            optimise()

        library._optimize_final_module = optimise_alone
        super().__init__(typing, target, library, *rest)


def dispatcher(function: Callable[..., Any], fast: set[str], options: dict[str, Any]) -> Any:
    """`function` as Numba compiles it, with its cache."""
    options = {
        "nogil": True,
        "fastmath": fast or False,
        "error_model": "numpy",
        "pipeline_class": _Compiler,
        **options,
    }
    if not OWN_CACHE:
        return numba.njit(cache=True, **options)(function)
    made = numba.njit(**options)(function)
    made._cache = _KernelCache(function)
    return made


# -- machine code for requests ---------------------------------------------------------------------


class _Wanted:
    """Kernels that were called with arguments for whose types they have no machine code."""

    signatures: dict[Any, tuple[Any, Any]] = {}  # noqa: RUF012  by what tells types apart quickly
    n_loaded, failed = 0, False  # so many of the first of them are; one of the others cannot be


def want(kernel: Any, arguments: tuple[Any, ...]) -> None:
    """Have machine code of a kernel for arguments of these types loaded in the background."""
    if not _Wanted.failed:
        key = kernel, compute_fingerprint(arguments)
        if key not in _Wanted.signatures:
            _Wanted.signatures[key] = kernel, tuple(map(numba.typeof, arguments))
        start_loading()


def load_wanted() -> bool:
    """Load what is wanted; what no cache has is compiled before.  False where there is none, or it
    failed: a warning says why, and NumPy goes on."""
    wanted = list(_Wanted.signatures.values())[_Wanted.n_loaded :]
    try:
        if missing := _missing(wanted):
            _compile_elsewhere(missing)
            if _missing(missing):
                folder = cache.writable_folder(fingerprint())
                none = (
                    "no folder can keep it that its owner alone can write; name one with "
                    "LABELWRIGHT_CACHE"
                )
                raise OSError(
                    f"{folder} has none for this processor after compiling" if folder else none
                )
    except Exception as why:
        _Wanted.failed = True
        warn_of_numpy(why)
        return False
    _Wanted.n_loaded += len(wanted)
    return bool(wanted)


def is_compiling() -> bool:
    """Does another thread compile or load machine code, or did so when this process was forked?"""
    lock = global_compiler_lock._lock
    if free := lock.acquire(blocking=False):
        lock.release()
    return not free


def _missing(wanted: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Load what the caches have; the rest is returned."""
    missing = []
    with giving_way(), global_compiler_lock:
        for kernel, signature in wanted:
            made = kernel.dispatcher
            stored = made.overloads.get(signature) or made._cache.load_overload(
                signature, made.targetctx
            )
            if stored is None:
                missing.append((kernel, signature))
            elif signature not in made.overloads:
                made.targetctx.insert_user_function(
                    stored.entry_point, stored.fndesc, [stored.library]
                )
                made.add_overload(stored)
    return missing


def _compile_elsewhere(wanted: list[tuple[Any, Any]]) -> None:
    """Compile kernels into a cache, by another process: compiling holds the GIL for longer than a
    request may wait."""
    if "python" not in Path(sys.executable or "").name.lower():
        raise OSError(
            f"{sys.executable} is no Python that could compile it; labelwright warmup can"
        )
    command = [
        sys.executable,
        "-P",
        "-c",
        "from labelwright.engine import machine; machine.compile_given()",
    ]
    given = pickle.dumps(
        [(kernel.__module__, kernel.__name__, signature) for kernel, signature in wanted]
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(  # noqa: S603
        command, input=given, capture_output=True, env=environment, timeout=SECONDS
    )
    if done.returncode:
        raise OSError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    cache.folders.cache_clear()


def compile_given() -> None:
    """Compile the kernels that the standard input lists, as long as the process lives that has
    asked."""
    Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(19)  # requests come first
    for module, name, signature in pickle.load(sys.stdin.buffer):
        getattr(importlib.import_module(module), name).dispatcher.compile(signature)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


# -- the cache -------------------------------------------------------------------------------------


def _is_tested() -> bool:
    """May the cache of our own be used with this version of Numba?"""
    version = tuple(int(part) for part in numba.__version__.split(".")[:2] if part.isdigit())
    return hasattr(caching, "NullCache") and TESTED[0] <= version <= TESTED[1]


OWN_CACHE = _is_tested()
if not OWN_CACHE:
    tested = " to ".join(".".join(map(str, version)) for version in TESTED)
    warnings.warn(
        f"labelwright: Numba {numba.__version__} is not among the tested versions ({tested}); "
        "kernels are kept by Numba's own cache, and LABELWRIGHT_CACHE is not used",
        RuntimeWarning,
        stacklevel=2,
    )


def fingerprint() -> str:
    """What machine code depends on besides its source and the processor."""
    return f"{numba.__version__} {getattr(config, 'BOUNDSCHECK', None)}"


@functools.cache
def _tell_once() -> None:
    """Say in a terminal or at a prompt that kernels are being compiled, which takes half a minute
    in all."""
    # there is no standard error, or it is closed
    with suppress(AttributeError, OSError, ValueError):
        if hasattr(sys, "ps1") or sys.stderr.isatty():
            sys.stderr.write(
                "labelwright: compiling kernels, once for this version on this machine ...\n"
            )


if OWN_CACHE:
    from numba.core.compiler import CompileResult
    from numba.core.serialize import dumps

    class _KernelCache(caching.NullCache):
        """Numba's cache protocol, one file per function and signature: no index that two processes
        could race for."""

        def __init__(self, function: Callable[..., Any]):
            self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            target_context.refresh()
            triple, *processor = target_context.codegen().magic_tuple()
            for target in ((triple, *processor), (triple, *cache.GENERIC)):
                for folder in cache.folders(fingerprint()):
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
            if folder is not None:
                cache.write(
                    folder / self._file(sig, data.codegen.magic_tuple()), dumps(data._reduce())
                )

        def _file(self, signature: Any, target: tuple[Any, ...]) -> str:
            return cache.file_name(self._name, f"{signature} {target}")
