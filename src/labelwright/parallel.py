"""Threads over independent pieces of work: results come back in order, whatever the number of
threads; and locks that a forked process finds free."""

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from labelwright.errors import OptionError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import numpy as np
    from numpy.typing import NDArray

R = TypeVar("R")
MOST_THREADS = 1024  # of one run: more would only take memory
_processes = [1]  # of ours at work on the cores, side by side
CGROUPS, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")  # of Linux


def n_threads(n_jobs: int | None) -> int:
    """How many threads `n_jobs` asks for: -1 means one for each available core; so does None, but
    one alone inside the workers of joblib, which has divided the cores already."""
    if n_jobs is None and is_joblib_worker():
        return 1
    if n_jobs is None or n_jobs == -1:
        return min(available_cores(), MOST_THREADS)
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or n_jobs < 1:
        raise OptionError(
            f"n_jobs: expected a number of threads, or -1 for one per core, got {n_jobs!r}"
        )
    return min(int(n_jobs), MOST_THREADS)


def is_joblib_worker() -> bool:
    """Does joblib (scikit-learn's `n_jobs`) run this code beside other jobs?  It is loaded where it
    does."""
    active = getattr(sys.modules.get("joblib.parallel"), "get_active_backend", None)
    return active is not None and (getattr(active()[0], "nesting_level", 0) or 0) > 0


# -- locks -----------------------------------------------------------------------------------------


def after_fork(renew: Callable[[], None]) -> None:
    """Call `renew` in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


def renewed_lock() -> Any:
    """A lock that is free in a forked process: a thread that held it stayed behind and would never
    release it."""
    lock: Any = Lock()
    after_fork(lock._at_fork_reinit)
    return lock


class computed_once(Generic[R]):  # noqa: N801  like a property
    """functools.cached_property without a lock: before Python 3.12 all instances share one, and
    threads wait for it. Where several threads compute a value, all get the first."""

    def __init__(self, compute: Callable[[Any], R]):
        self.compute, self.name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> R:
        value: R = instance.__dict__.setdefault(self.name, self.compute(instance))
        return value


# -- available cores -------------------------------------------------------------------------------


def available_cores() -> int:
    """The cores that this process may use: its affinity, and the CPU quota of its control groups
    rounded down; a part of them beside other processes of ours."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13 and later
        cores = os.process_cpu_count() or 1
    else:
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    quota = cpu_quota()
    return max(1, (cores if quota is None else min(cores, int(quota))) // _processes[0])


def share_machine(n: int) -> None:
    """Say that n processes, this one among them, share the cores and the memory of a GPU."""
    _processes[0] = n


def n_processes() -> int:
    """How many processes share them."""
    return _processes[0]


@cache
def cpu_quota(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> float | None:
    """How many CPUs the control groups of a process (version 1 or 2) let it use; None where they
    set no limit.

    All groups above that of the process may set a limit, too.  A container may see its own group as
    the root, under whatever path `membership` names."""
    folders, quotas = {cgroups, cgroups / "cpu", cgroups / "cpu,cpuacct"}, []
    # 4:cpu,cpuacct:/path of version 1, 0::/path of version 2
    for line in _read(membership).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        mounts = (
            [cgroups / "cpu", cgroups / controllers]
            if controllers
            else [cgroups, cgroups / "unified"]
        )
        parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..")]
        folders |= {mount.joinpath(*parts[:n]) for mount in mounts for n in range(len(parts) + 1)}
    for folder in folders:  # microseconds of CPU time in each period, and the length of the period
        version_2 = _read(folder / "cpu.max").split()
        version_1 = (
            _read(folder / "cpu.cfs_quota_us").split() + _read(folder / "cpu.cfs_period_us").split()
        )
        for numbers in (version_1, version_2):  # without a limit the quota is "max" or -1
            if len(numbers) == 2 and all(number.isdigit() and int(number) for number in numbers):
                quotas.append(int(numbers[0]) / int(numbers[1]))
    return min(quotas, default=None)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


# -- threads ---------------------------------------------------------------------------------------


@cache
def _controller() -> Any:
    """Of the thread pools of BLAS; looking for them costs milliseconds, so it is done once."""
    environment = dict(os.environ)
    from threadpoolctl import ThreadpoolController

    # it sets a variable of Intel's OpenMP, which is the user's affair
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    return ThreadpoolController().select(user_api="blas")


class _Blas:
    """Who wants BLAS on one thread now; the first of them limits it, the last restores it."""

    lock = renewed_lock()
    callers: list[int] = []  # noqa: RUF012  threads, of this process alone
    limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS on one thread: threads are ours, and the bits of a product must not depend on their
    number.

    May be nested and entered by several threads; afterwards BLAS has as many threads as before."""
    with _Blas.lock:
        if _Blas.limit is None:
            _Blas.limit = _controller().limit(limits=1)
        _Blas.callers.append(get_ident())
    try:
        yield
    finally:
        with _Blas.lock:
            _Blas.callers.remove(get_ident())
            if not _Blas.callers:
                _release()
                _Blas.limit.restore_original_limits()
                _release()
                _Blas.limit = None


def _release() -> None:
    """Let any thread set the number of threads: OpenBLAS may listen only to the one that did so
    first."""
    import threadpoolctl

    release = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


class _Pool:
    """The threads of this process, beside those that ask: as many as were ever wanted at once, made
    when needed."""

    lock = renewed_lock()
    executor: "ThreadPoolExecutor | None" = None
    size = 0

    @classmethod
    def submit(cls, work: Callable[[], None], times: int, size: int) -> "list[Future[None]]":
        """Let `work` be done so many times at once, by a pool of at least this size."""
        from concurrent.futures import ThreadPoolExecutor  # not needed for small input

        with cls.lock:
            if cls.executor is None or cls.size < size:
                if cls.executor is not None:
                    cls.executor.shutdown(wait=False)  # what was handed in is still done
                cls.executor, cls.size = ThreadPoolExecutor(size, "labelwright"), size
            return [cls.executor.submit(work) for _ in range(times)]


def _forget_threads() -> None:
    """In a process that was forked: all threads but this one stayed behind."""
    _Pool.executor, _Pool.size = None, 0
    _Blas.callers = [thread for thread in _Blas.callers if thread == get_ident()]


after_fork(_forget_threads)


class Workers:
    """Some of the threads of the process, which run kernels (these release the GIL) beside the
    thread that asks."""

    def __init__(self, n_jobs: int | None = None):
        self.n = n_threads(n_jobs)

    def run(self, function: Callable[..., R], tasks: Iterable[Sequence[Any]]) -> list[R]:
        """function(*task) for every task, in order; no further ones after one that fails.  May be
        called inside a task: whoever asks works, too."""
        tasks = list(tasks)
        helpers = min(self.n, len(tasks)) - 1
        if helpers < 1:
            return [function(*task) for task in tasks]
        results: list[Any] = [None] * len(tasks)
        errors: dict[int, BaseException] = {}
        numbers = itertools.count()  # of the next task; `next` is atomic

        def work() -> None:
            while not errors and (i := next(numbers)) < len(tasks):
                try:
                    results[i] = function(*tasks[i])
                except BaseException as error:
                    errors[i] = error

        helping = _Pool.submit(work, helpers, self.n - 1)
        try:
            work()
        except BaseException as error:  # between two tasks: Ctrl-C
            errors[len(tasks)] = error
            raise
        for future in helping:
            if not future.cancel():  # one that has not begun is not waited for
                future.result()
        if errors:
            raise errors[min(errors)]
        return results


def even_ranges(ptr: "NDArray[np.int64]", pieces: int) -> list[tuple[int, int]]:
    """Cut the rows of a sparse table into ranges of about equal work."""
    import numpy as np  # the command line counts cores without it

    n = len(ptr) - 1
    work = ptr - ptr[0] + np.arange(n + 1)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], pieces + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, [n]])).tolist()
    return list(itertools.pairwise(edges))


def sentence_ranges(offsets: "NDArray[np.int64]", tokens: int) -> list[tuple[int, int]]:
    """Cut sentences into runs of at most about `tokens` tokens; the cut depends on the data
    alone."""
    runs, begin, n = [], 0, len(offsets) - 1
    while begin < n:
        end = int(offsets.searchsorted(offsets[begin] + tokens, side="right")) - 1
        end = min(max(end, begin + 1), n)
        runs.append((begin, end))
        begin = end
    return runs
