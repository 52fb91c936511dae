"""Compiled code or NumPy: which of the two runs the kernels of this process.

LABELWRIGHT_ENGINE is `auto` (the default), `numpy` or `compiled`.  With `auto`, training compiles at once where Numba
can be imported; requests to a trained tagger are answered by NumPy until enough has come to be worth loading Numba and
its machine code, which takes about as long as NumPy takes for ENOUGH tokens.  Both ways give the same labels; sums may
differ in their last digits.
"""

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from labelwright.errors import OptionError

ENGINES = ("auto", "numpy", "compiled")
ENOUGH = 20_000  # tokens of a CRF: about a second in NumPy
BYTES_OF_TOKEN = 200  # bytes of text that take as long to read as a token takes to label


class _State:
    """What this process has decided."""

    compiled: bool | None = None  # None: not decided yet,
    waiting = False  # because Numba could be loaded, but is not worth it so far
    work = 0.0  # tokens so far
    own_process = False  # is nobody else's code in this process, which might need SciPy?
    listeners: list[Callable[[], None]] = []  # noqa: RUF012  one list for the process


def chosen() -> str:
    """The engine that LABELWRIGHT_ENGINE names."""
    name = os.environ.get("LABELWRIGHT_ENGINE", "") or "auto"
    if name not in ENGINES:
        raise OptionError(f"LABELWRIGHT_ENGINE: expected one of {', '.join(ENGINES)}, got {name!r}")
    return name


def available() -> bool:
    """Is Numba installed, and not switched off (NUMBA_DISABLE_JIT=1)?"""
    if _is_switched_off():
        return False
    if "numba" in sys.modules:
        return sys.modules["numba"] is not None
    return importlib.util.find_spec("numba") is not None


def _is_switched_off() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def why_not_available() -> str:
    """Why nothing can be compiled, and what to do about it."""
    if _is_switched_off():
        return "Numba is switched off by NUMBA_DISABLE_JIT; unset it"
    return "Numba is not installed; pip install 'labelwright[fast]'"


def compiled() -> bool:
    """Do kernels run as machine code from here on?"""
    if _State.compiled is None and not _State.waiting:
        name = chosen()
        if name == "auto" and available():
            _State.waiting = True
        else:
            _switch(name != "numpy" and _loaded(required=name == "compiled"))
    return bool(_State.compiled)


def expect(tokens: float) -> None:
    """Say how much work is about to come, in tokens of a CRF: once it is enough, kernels are compiled."""
    if _State.compiled is None:
        _State.work += tokens
        if _State.work >= ENOUGH and not compiled() and _State.waiting:
            _switch(_loaded(required=False))


def expect_much() -> None:
    """Say that work is about to come that is worth compiling, as training always is: so the result of training does
    not depend on what the process did before."""
    expect(ENOUGH)


def _loaded(required: bool) -> bool:
    """Load Numba; a warning, or an error where it is `required`, says why it cannot be."""
    if not available():
        if required:
            raise OptionError(f"LABELWRIGHT_ENGINE=compiled: {why_not_available()}")
        return False
    try:
        with _no_scipy() if _State.own_process else nullcontext():
            importlib.import_module("labelwright.engine.machine")
    except ImportError as why:
        if required:
            raise OptionError(f"LABELWRIGHT_ENGINE=compiled: Numba cannot be imported ({why})") from None
        warnings.warn(f"labelwright: Numba cannot be imported ({why}); NumPy is used instead", RuntimeWarning, 3)
        return False
    return True


def is_own_process() -> None:
    """Say that this process runs labelwright alone, as the command line does."""
    _State.own_process = True


@contextmanager
def _no_scipy() -> Iterator[None]:
    """Let Numba start without SciPy, which it imports where it can for matrix products that no kernel of ours has.

    That import is a sixth of the time that labelling one sentence takes."""
    if "scipy" in sys.modules:
        yield
        return
    sys.modules["scipy"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("numba.np.arraymath")
        yield
    finally:
        del sys.modules["scipy"]


def _switch(compiled: bool | None) -> None:
    _State.compiled = compiled
    for tell in _State.listeners:
        tell()


def on_switch(tell: Callable[[], None]) -> None:
    """Call `tell` when the engine changes."""
    _State.listeners.append(tell)


@contextmanager
def using(name: str) -> Iterator[None]:
    """Run kernels by this engine for a while: for tests and for `warmup`, not for several threads."""
    before = _State.compiled
    _switch(_loaded(required=True) if name == "compiled" else False)
    try:
        yield
    finally:
        _switch(before)
