"""The only home of compiled code: arrays in, arrays out, no Python objects, the GIL released.

A kernel is a loop over arrays.  Numba (the extra `fast`) makes machine code of it.  Without Numba,
and for the first small requests, kernels run as NumPy: those that labelling needs often have a
second form, below them (`in_numpy`) or, where the forms of a file are long, in `vectorised/` under
the name of the file and of the kernel.  The others run as the plain Python they are written in, or,
for training, not at all (`engine.choice.require_compiled`).  Functions without a decorator are
NumPy alone, which is as fast for them.
"""

import functools
import importlib
import importlib.util
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from labelwright.engine import choice
from labelwright.engine.choice import compiled as compiled
from labelwright.parallel import computed_once

# Sums may be reordered and multiplications fused, which lets loops use vector instructions;
# infinities and NaN keep their meaning.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp"}


class _Thread(threading.local):
    # does a kernel run as NumPy here?  Those that it calls then do so, too, and want no machine
    # code
    in_numpy = False


_thread = _Thread()


class Kernel:
    """A function over arrays that runs compiled or as NumPy, as the engine has decided."""

    def __init__(self, function: Callable[..., Any], fast: set[str], options: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.function, self.fast, self.options = function, fast, options
        self.restart()
        choice.on_switch(self.restart)

    def __call__(self, *arguments: Any) -> Any:
        return self.vectorised(*arguments) if _thread.in_numpy else self._run(*arguments)

    def restart(self) -> None:
        """Find out at the next call which way to run."""
        self._run: Callable[..., Any] = self._run_first

    def _run_first(self, *arguments: Any) -> Any:
        by_machine = choice.takes_machine_code()
        self._run = run = self.dispatcher if by_machine else self._run_vectorised
        # another thread has switched the engine meanwhile
        if choice.takes_machine_code() != by_machine:
            self.restart()
        return run(*arguments)

    def _run_vectorised(self, *arguments: Any) -> Any:
        """Numbers overflow, and divide by zero, as silently as in machine code."""
        _thread.in_numpy = True
        try:
            with np.errstate(all="ignore"):
                return self.vectorised(*arguments)
        finally:
            _thread.in_numpy = False

    @computed_once
    def dispatcher(self) -> Any:
        """Numba's form of the function, which asks for the machine code that it lacks."""
        from labelwright.engine import machine

        machine.register(Kernel, Unsigned, Prefetch)
        made = machine.dispatcher(self.function, self.fast, self.options)
        compile_for = made._compile_for_args

        def form_for(*arguments: Any) -> Any:
            """What Numba shall call with arguments of new types."""
            try:
                if choice.may_compile():
                    return compile_for(*arguments)
                machine.want(self, arguments)
            except Exception as why:
                choice.stop_compiling(why)
            return self._run_vectorised

        made._compile_for_args = form_for
        return made

    def in_numpy(self, form: Callable[..., Any]) -> Callable[..., Any]:
        """A decorator: the NumPy form of the kernel, with the same parameters and results."""
        self.__dict__["vectorised"] = form
        return form

    @computed_once
    def vectorised(self) -> Callable[..., Any]:
        """The NumPy form of the function, or the function itself."""
        name = "labelwright.kernels.vectorised." + self.function.__module__.rpartition(".")[2]
        if importlib.util.find_spec(name) is None:
            return self.function
        twin: Callable[..., Any] = getattr(
            importlib.import_module(name), self.function.__name__, self.function
        )
        # that module may only call this kernel
        return self.function if isinstance(twin, Kernel) else twin


class Unsigned:
    """Numbers that run along a row: signed ones might count from the end, which keeps compiled
    loops from vector instructions.  In Python they are plain numbers."""

    compiled = np.uint64

    def __call__(self, number: Any) -> int:
        return int(number)


unsigned = Unsigned()


class Prefetch:
    """prefetch(array, i[, j]) asks the processor to fetch the cache line of array[i, j], which will
    be read soon.

    Rows at random places are read two to three times as fast.  In Python it does nothing."""

    def __call__(self, array: Any, *place: int) -> None:
        pass


prefetch = Prefetch()


def kernel(function: Callable[..., Any]) -> Kernel:
    """Compile `function` at its first call, or take its machine code from the cache."""
    return Kernel(function, FAST_MATH, {})


def inlined_kernel(function: Callable[..., Any]) -> Kernel:
    """A kernel that becomes part of each kernel that calls it: in the innermost loops a call would
    cost too much."""
    return Kernel(function, FAST_MATH, {"forceinline": True})


def max_kernel(function: Callable[..., Any]) -> Kernel:
    """A kernel that takes the larger of numbers none of which is NaN: one instruction instead of
    two."""
    return Kernel(function, FAST_MATH | {"nnan"}, {})


def literal_kernel(function: Callable[..., Any]) -> Kernel:
    """A kernel that adds and multiplies just as it is written: where the last digit matters, and
    where logarithms of any size are subtracted, (a + b) - max(a + b), which must be 0."""
    return Kernel(function, set(), {})
