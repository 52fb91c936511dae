"""Compiled code or NumPy: which of the two runs the kernels of this process.

LABELWRIGHT_ENGINE is `auto` (the default), `numpy` or `compiled`.  With `auto`, training compiles
at once where Numba can be imported; requests to a trained tagger are answered by NumPy until enough
has come to be worth loading Numba and its machine code.  Both ways give the same labels; sums may
differ in their last digits.

No request waits for machine code: a thread in the background loads Numba, then what kernels were
called without.  Each kernel changes on its own, at its next call, so its NumPy form must leave
behind all that the kernel does.  The command line, where nobody waits, loads machine code in the
foreground.
"""

import gc
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock, Thread

from labelwright.errors import OptionError
from labelwright.parallel import after_fork, renewed_lock

ENGINES = ("auto", "numpy", "compiled")
# tokens of a CRF: `tag` takes 2.7 s by NumPy, 3.0 compiled for 95,000; 3.1 and 2.7 for 190,000
ENOUGH = 150_000
# tokens for which each request counts beside its own: of a short one, a millisecond is saved
REQUEST = 300
BYTES_OF_TOKEN = 200  # bytes of text that take as long to read as a token takes to label
PAUSE = 0.2  # seconds in which all kernels of a request are called


class _State:
    """What this process has decided."""

    compiled: bool | None = None  # None: not decided yet,
    waiting = False  # because Numba could be loaded, but is not worth it so far
    trying = False  # has a test, or `warmup`, chosen the engine?
    work = 0.0  # tokens so far
    # is nobody else's code in this process, which might need SciPy, or have somebody wait?
    own_process = False
    listeners: list[Callable[[], None]] = []  # noqa: RUF012  one list for the process
    serving = False  # do kernels take machine code where it is loaded, and NumPy elsewhere?
    loader: Thread | None = None  # loads it in the background
    starting, loading = renewed_lock(), renewed_lock()
    restore: Callable[[], None] | None = None  # ends `giving_way`
    importing = Lock()  # of Numba; a forked process finds it held, as Python's own locks are
    # why nothing is compiled or loaded any more: kernels without machine code run by NumPy
    stopped = ""


def chosen() -> str:
    """The engine that LABELWRIGHT_ENGINE names."""
    name = os.environ.get("LABELWRIGHT_ENGINE", "") or "auto"
    if name not in ENGINES:
        raise OptionError(f"LABELWRIGHT_ENGINE: expected one of {', '.join(ENGINES)}, got {name!r}")
    return name


def available() -> bool:
    """Is Numba installed, and not switched off?"""
    return not why_not_available()


def why_not_available() -> str:
    """Why nothing can be compiled, and what to do about it; nothing where it can."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "Numba is switched off by NUMBA_DISABLE_JIT; unset it"
    return (
        ""
        if importlib.util.find_spec("numba")
        else "Numba is not installed; pip install 'labelwright[fast]'"
    )


def compiled() -> bool:
    """Do kernels run as machine code from here on?"""
    if _State.compiled is None and not _State.waiting:
        name = chosen()
        if name == "auto" and available():
            _State.waiting = True
        else:
            _switch(name != "numpy" and _loaded(required=name == "compiled"))
    return bool(_State.compiled)


def takes_machine_code() -> bool:
    """Do kernels run as machine code from here on, at least where it is loaded?"""
    return compiled() or (_State.compiled is None and _State.serving)


def expect(tokens: float) -> None:
    """Say how much work is about to come, in tokens of a CRF: once it is enough, machine code is
    loaded."""
    if _State.compiled is None:
        _State.work += tokens + REQUEST
        if _State.work >= ENOUGH and not _State.serving:
            expect_much() if _State.own_process else start_loading()


def expect_much() -> None:
    """Say that work is about to come that is worth compiling, as training always is: so the result
    of training does not depend on what the process did before."""
    if _State.stopped:
        warn_of_numpy(_State.stopped)
    if not compiled() and _State.compiled is None:
        _switch(_loaded(required=False))


def require_compiled(what: str) -> None:
    """Refuse work that only compiled kernels do: training whose loops have no NumPy form.

    `using("numpy")` runs them as the plain Python that they are written in."""
    expect_much()
    if not compiled() and not _State.trying:
        numpy = "LABELWRIGHT_ENGINE=numpy; unset it" if chosen() == "numpy" else why_not_available()
        raise OptionError(f"{what} needs compiled code, but {numpy}")


def _loaded(required: bool) -> bool:
    """Load Numba; a warning, or an error where it is `required`, says why it cannot be."""
    if not available():
        if required:
            raise OptionError(f"LABELWRIGHT_ENGINE=compiled: {why_not_available()}")
        return False
    if _State.stopped:
        return _State.serving
    try:
        with _State.importing, _no_scipy() if _State.own_process else nullcontext():
            importlib.import_module("labelwright.engine.machine")
    except Exception as why:
        if required:
            raise OptionError(
                f"LABELWRIGHT_ENGINE=compiled: Numba cannot be imported ({why})"
            ) from None
        warnings.warn(
            f"labelwright: Numba cannot be imported ({why}); NumPy is used instead",
            RuntimeWarning,
            3,
        )
        return False
    return True


def may_compile() -> bool:
    """May a kernel that lacks machine code be compiled at once?"""
    return compiled() and not _State.stopped


def stop_compiling(why: object) -> None:
    """Go on with the machine code that is there, and with NumPy elsewhere."""
    if not _State.stopped:
        _State.stopped = str(why) or type(why).__name__
        warn_of_numpy(_State.stopped)


def warn_of_numpy(why: object) -> None:
    line = str(why).strip().partition("\n")[0]  # Numba's messages have many
    warnings.warn(
        f"labelwright: no machine code ({line}); NumPy goes on", RuntimeWarning, stacklevel=3
    )


# -- machine code for requests ---------------------------------------------------------------------


def start_loading() -> None:
    """Load Numba, and the machine code that kernels want, in the background."""
    # requests that ask at each call do not wait for one another
    if _State.loader is not None or _State.stopped:
        return
    with _State.starting:
        if _State.loader is None and not compiled() and _State.waiting:
            _State.loader = Thread(target=_load, name="labelwright-loader", daemon=True)
            try:
                _State.loader.start()
            except RuntimeError:  # there is no thread to be had: NumPy goes on
                _State.loader = None


def _load() -> None:
    try:
        while load_wanted(PAUSE):
            pass
    finally:
        _State.loader = None


def load_wanted(pause: float = 0.0) -> bool:
    """Load Numba, and the machine code that kernels want; False where they want no more, or get
    none."""
    time.sleep(pause)
    with _State.loading:
        if not compiled() and _State.waiting and not _State.serving:
            with giving_way():
                _State.serving = _loaded(required=False)
            if _State.serving:
                _tell_all()
            elif _State.compiled is None:  # training may have decided meanwhile
                _switch(False)
        serves = _State.serving and not _State.stopped
        return serves and bool(importlib.import_module("labelwright.engine.machine").load_wanted())


@contextmanager
def giving_way() -> Iterator[None]:
    """Use Numba while other threads answer requests: they wait less for the GIL, which is handed
    over sooner, and for the garbage collector, which looks at new objects only."""
    interval, freezes = sys.getswitchinterval(), gc.get_freeze_count() == 0

    def restore() -> None:
        sys.setswitchinterval(interval)
        if freezes:
            gc.unfreeze()
        _State.restore = None

    _State.restore = restore
    sys.setswitchinterval(interval / 20)
    if freezes:
        gc.freeze()
    try:
        yield
    finally:
        restore()


def _forget_loader() -> None:
    """In a process that was forked, other threads stayed behind, and with them imports and locks of
    Numba."""
    if _State.restore is not None:
        _State.restore()
    machine = sys.modules.get("labelwright.engine.machine")
    if _State.importing.locked() or (machine is not None and machine.is_compiling()):
        _State.stopped = "this process was forked while its parent loaded it"
    _State.loader = None


after_fork(_forget_loader)


def is_own_process() -> None:
    """Say that this process runs labelwright alone, as the command line does."""
    _State.own_process = True


@contextmanager
def _no_scipy() -> Iterator[None]:
    """Let Numba start without SciPy, which it imports where it can for matrix products that no
    kernel of ours has.

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
    _tell_all()


def _tell_all() -> None:
    for tell in _State.listeners:
        tell()


def on_switch(tell: Callable[[], None]) -> None:
    """Call `tell` when the engine changes."""
    _State.listeners.append(tell)


@contextmanager
def using(name: str) -> Iterator[None]:
    """Run kernels by this engine for a while: for tests and for `warmup`, not for several
    threads."""
    before = _State.compiled, _State.trying
    _State.trying = True
    _switch(_loaded(required=True) if name == "compiled" else False)
    try:
        yield
    finally:
        _State.trying = before[1]
        _switch(before[0])
