"""The only home of compiled code: arrays in, arrays out, no Python objects, the GIL released.

`kernel` is the one decorator.  It keeps machine code in a cache of its own, in a folder named after a hash of
*all* kernel sources (a kernel inlines the kernels it calls, so an edit in one file must also forget the others), of the
versions of Numba and Python, and of Numba's bounds checking (NUMBA_BOUNDSCHECK=1), one file per function and signature.
Files appear by an atomic rename, so any number of processes may start at once.  Nothing is set for the rest of the
user's process.  Without Numba, kernels run as plain Python, slowly.
"""

import functools
import hashlib
import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

try:
    import numba
    from numba.core import caching, config
    from numba.core.compiler import CompileResult
    from numba.core.serialize import dumps

    COMPILED = not getattr(config, "DISABLE_JIT", False)
except ImportError:  # a Python that Numba does not support yet
    COMPILED = False
    warnings.warn("labelwright: Numba cannot be imported; everything works, but slowly", RuntimeWarning, stacklevel=2)

# Numbers that run along a row: signed ones might count from the end, which keeps loops from vector instructions.
unsigned: Any = np.uint64 if COMPILED else int

# Sums may be reordered and multiplications fused, which lets loops use vector instructions;
# infinities and NaN keep their meaning.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp"}


@functools.cache
def cache_folder() -> Path | None:
    """Where machine code is kept: LABELWRIGHT_CACHE, else the user's cache folder, else a temporary one."""
    sources = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(file.read_bytes())
    sources.update(f"{numba.__version__} {sys.version} {getattr(config, 'BOUNDSCHECK', None)}".encode())
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or (
            str(Path(os.environ["HOME"], ".cache")) if "HOME" in os.environ else None
        )
    places = [os.environ.get("LABELWRIGHT_CACHE"), home and str(Path(home, "labelwright")), tempfile.gettempdir()]
    for place in filter(None, places):
        user = "" if place != tempfile.gettempdir() else f"labelwright-{getattr(os, 'getuid', lambda: 0)()}-"
        folder = Path(place, user + "kernels-" + sources.hexdigest()[:16])
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            owner_is_me = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
            if owner_is_me and os.access(folder, os.W_OK):
                return folder
        except OSError:
            continue
    return None


if COMPILED:

    class _KernelCache(caching._Cache):
        """Numba's cache protocol, one file per function and signature: no index that two processes could race for."""

        def __init__(self, function: Callable[..., Any]):
            self._function = function
            self._impl = caching.CompileResultCacheImpl
            self._enabled = True

        @property
        def cache_path(self) -> str:
            return str(cache_folder())

        def _file(self, signature: Any, codegen: Any) -> Path | None:
            folder = cache_folder()
            if folder is None or not self._enabled:
                return None
            key = hashlib.sha256(f"{signature} {codegen.magic_tuple()}".encode()).hexdigest()[:16]
            return folder / f"{self._function.__module__.rpartition('.')[2]}.{self._function.__name__}-{key}.kernel"

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            target_context.refresh()
            file = self._file(sig, target_context.codegen())
            try:
                return file and CompileResult._rebuild(target_context, *pickle.loads(file.read_bytes()))
            except Exception:  # missing or damaged: compile again
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            file = self._file(sig, data.codegen)
            if file is None:
                return
            fresh = file.with_suffix(f".{os.getpid()}-{id(data)}")
            try:
                fresh.write_bytes(dumps(data._reduce()))
                os.replace(fresh, file)
            except OSError:  # a full disk only costs compiling again
                fresh.unlink(missing_ok=True)

        def enable(self) -> None:
            self._enabled = True

        def disable(self) -> None:
            self._enabled = False

        def flush(self) -> None:
            for file in Path(self.cache_path).glob(f"*.{self._function.__name__}-*.kernel"):
                file.unlink(missing_ok=True)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` at its first call, or take its machine code from the cache."""
    return _compiled(function, FAST_MATH)


def inlined_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that becomes part of each kernel that calls it: in the innermost loops a call would cost too much."""
    return _compiled(function, FAST_MATH, forceinline=True)


def literal_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that adds and multiplies just as it is written, where the last digit matters."""
    return _compiled(function, set())


def _compiled(function: Callable[..., Any], fast: set[str], **options: Any) -> Callable[..., Any]:
    if not COMPILED:
        return function
    compiled: Any = numba.njit(nogil=True, fastmath=fast or False, error_model="numpy", **options)(function)
    compiled._cache = _KernelCache(function)
    return compiled  # type: ignore[no-any-return]
