"""Threads over independent pieces of work; results come back in order, whatever the number of threads."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError

R = TypeVar("R")


def n_threads(n_jobs: int | None) -> int:
    """How many threads `n_jobs` asks for: None or -1 means one per available core."""
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or n_jobs < 1:
        raise OptionError(f"n_jobs: expected a number of threads, or -1 for one per core, got {n_jobs!r}")
    return int(n_jobs)


@cache
def _controller() -> Any:
    """Of the thread pools of BLAS; looking for them costs milliseconds, so it is done once."""
    environment = dict(os.environ)
    from threadpoolctl import ThreadpoolController

    for name in set(os.environ) - set(environment):  # it sets a variable of Intel's OpenMP, which is the user's affair
        del os.environ[name]
    return ThreadpoolController().select(user_api="blas")


class _Blas:
    """How many callers want BLAS on one thread now; the first of them limits it, the last restores it."""

    lock = Lock()
    wanted = 0
    limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS on one thread: threads are ours, and the bits of a product must not depend on their number.

    May be nested and entered by several threads; afterwards BLAS has as many threads as before."""
    with _Blas.lock:
        _Blas.wanted += 1
        if _Blas.wanted == 1:
            _Blas.limit = _controller().limit(limits=1)
    try:
        yield
    finally:
        with _Blas.lock:
            _Blas.wanted -= 1
            if _Blas.wanted == 0:
                _release()
                _Blas.limit.restore_original_limits()
                _release()


def _release() -> None:
    """Let any thread set the number of threads: OpenBLAS may listen only to the one that did so first."""
    import threadpoolctl

    release = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


class computed_once(Generic[R]):  # noqa: N801  like a property
    """functools.cached_property without a lock: before Python 3.12 all instances share one, and threads wait for it."""

    def __init__(self, compute: Callable[[Any], R]):
        self.compute, self.name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> R:
        value = instance.__dict__[self.name] = self.compute(instance)
        return value


class Workers:
    """A pool of threads that run kernels (which release the GIL); as a context, it keeps BLAS on one thread."""

    def __init__(self, n_jobs: int | None = None):
        self.n = n_threads(n_jobs)
        self._pool = ThreadPoolExecutor(self.n) if self.n > 1 else None
        self._closed = False

    def run(self, function: Callable[..., R], tasks: Iterable[Sequence[Any]]) -> list[R]:
        """function(*task) for every task, in order."""
        if self._pool is None:
            return [function(*task) for task in tasks]
        return list(self._pool.map(lambda task: function(*task), tasks))

    @property
    def open(self) -> bool:
        """May work still be handed in?"""
        return not self._closed

    def close(self) -> None:
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown()

    def __enter__(self) -> "Workers":
        self._blas = one_blas_thread()
        self._blas.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._blas.__exit__(None, None, None)
        self.close()


def even_ranges(ptr: NDArray[np.int64], pieces: int) -> list[tuple[int, int]]:
    """Cut the rows of a sparse table into ranges of about equal work."""
    n = len(ptr) - 1
    work = ptr - ptr[0] + np.arange(n + 1)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], pieces + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, [n]])).tolist()
    return list(itertools.pairwise(edges))


def sentence_ranges(offsets: NDArray[np.int64], tokens: int) -> list[tuple[int, int]]:
    """Cut sentences into runs of at most about `tokens` tokens; the cut depends on the data alone."""
    n = len(offsets) - 1
    runs = []
    begin = 0
    while begin < n:
        end = int(np.searchsorted(offsets, offsets[begin] + tokens, side="right")) - 1
        end = min(max(end, begin + 1), n)
        runs.append((begin, end))
        begin = end
    return runs
