"""A Dask cluster: its workers, pieces of work whose results are combined in a fixed order, and what becomes of losses.

The pieces 0..n-1 are the leaves of a binary tree that depends on n alone, and results are combined along it: the same
bits for any number of workers, whoever does a piece.  A *block* is a subtree whose pieces one task does; blocks have
their places on workers, where the pieces find what they left there.

    pieces   0   1   2   3   4        a task each for the blocks 0..1, 2..3 and 4, which stand on workers,
             └─+─┘   └─+─┘   │        then the two sums of blocks, on the worker that has one of the two already
               └───+───┘     │
                   └────+────┘
"""

import logging
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import chain, repeat
from typing import Any, TypeVar

from labelwright import __version__
from labelwright.errors import ClusterError, CorpusError, LabelwrightError, OptionError, reason_of

R = TypeVar("R")
Told = Callable[[str, int, int, float], None]  # what is done, how many pieces of how many, seconds left

LOCAL = "local:"  # with a number of workers in place of the address of a scheduler
BLOCKS = 2  # for each thread of the cluster, at least, so that the work of a lost worker can be shared
ATTEMPTS = 5  # of work for which all copies of something were lost
PATIENCE = 60.0  # seconds without any worker
LOSSES = OSError, CancelledError  # what Dask raises where a connection to a worker or to the scheduler has ended


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address, or of a cluster on this machine, which ends with it.

    address : tcp://HOST:PORT, or local:N for N worker processes
    """
    if find_spec("distributed") is None:
        raise OptionError("--dask: Dask is missing; pip install 'labelwright[scale]'")
    from distributed import Client, LocalCluster

    if not address.startswith(LOCAL):
        try:
            client = Client(address, timeout=10)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            why = f"no scheduler at {address} ({_line(error)}); start one, or use local:N"
            raise ClusterError(f"--dask: {why}") from None
        with client:
            yield client
        return
    number = address.removeprefix(LOCAL)
    if not number.isdigit() or not int(number):
        raise OptionError(f"--dask: expected tcp://HOST:PORT, or local:N with a number of processes, got {address!r}")
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=int(number),
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        client.register_plugin(_without_signals())
        yield client


def _without_signals() -> Any:
    """A plugin of workers on this machine: Ctrl-C and errors are for the command alone, which still needs them."""
    from distributed import WorkerPlugin

    class WithoutSignals(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)
            for name in ("SIGINT", "SIGHUP"):
                if hasattr(signal, name):
                    signal.signal(getattr(signal, name), signal.SIG_IGN)

    return WithoutSignals()


class Shared:
    """A value that every worker has a copy of."""

    def __init__(self, value: Any):
        self.value, self.future = value, None  # type: Any, Any

    def on(self, client: Any) -> Any:
        """The copies, made where there are none."""
        if self.future is None or self.future.cancelled():
            (self.future,) = client.scatter([self.value], broadcast=True, hash=False)
        return self.future


class Cluster:
    """The workers of a client, on which pieces of work have their places."""

    def __init__(self, client: Any, told: Told | None = None):
        self.client, self.told = client, told
        self._places: dict[tuple[int, int], str] = {}  # of blocks: pieces in all, number
        self._checked: set[str] = set()  # workers
        self.n_threads = sum(self.workers().values())

    def workers(self) -> dict[str, int]:
        """The threads of every worker that is there; waits a while for the first."""
        with explained(self.client):
            if not (found := self.client.nthreads()):
                try:
                    self.client.wait_for_workers(1, timeout=PATIENCE)
                except TimeoutError:
                    raise ClusterError(f"dask: no worker is left at {address_of(self.client)}; start some") from None
                found = self.client.nthreads()
            self._check_versions([worker for worker in found if worker not in self._checked])
            return dict(sorted(found.items()))

    def _check_versions(self, new: list[str]) -> None:
        """Refuse workers with another labelwright, or none: they would make other models."""
        versions = self.client.run(_version, workers=new, on_error="return") if new else {}
        for worker, version in versions.items():
            if version == __version__:
                self._checked.add(worker)
            elif not isinstance(version, OSError):  # else it is gone already
                got = f"none ({_line(version)})" if isinstance(version, BaseException) else version
                raise ClusterError(f"dask: worker {worker}: expected labelwright {__version__}, got {got}; install it")

    def reduced(
        self,
        work: Callable[..., R],
        combine: Callable[[R, R], R],
        n: int,
        *shared: Shared,
        what: str = "",
    ) -> Any:
        """combine(...) of work(number, *shared) for the n pieces, along the tree; `what` is told while it goes on."""
        return self._in_spite_of_losses(shared, lambda: self._reduced(work, combine, n, shared, what))

    def _reduced(self, work: Any, combine: Any, n: int, shared: Sequence[Shared], what: str) -> Any:
        given = [value.on(self.client) for value in shared]
        size = self.block_size(n)
        places, report = self._placed(-(-n // size), n), _Report(self.told, what, -(-n // size))
        parts = []
        for number, place in enumerate(places):
            parts.append(
                self.client.submit(
                    _block, work, combine, number * size, size, n, *given,
                    workers=[place], allow_other_workers=True, pure=False,
                )
            )  # fmt: skip
            parts[-1].add_done_callback(report)
        while len(parts) > 1:
            odd = parts[len(parts) - len(parts) % 2 :]
            pairs = zip(parts[::2], parts[1::2], places[::2], strict=False)
            here: dict[str, Any] = {"allow_other_workers": True, "pure": False}
            parts = [self.client.submit(combine, a, b, workers=[place], **here) for a, b, place in pairs] + odd
            places = places[::2]
        return parts[0].result()

    def block_size(self, n: int) -> int:
        """The pieces of a block: as many as leave BLOCKS of them for each thread, a power of two."""
        size = 1
        while -(-n // (2 * size)) >= BLOCKS * self.n_threads:
            size *= 2
        return size

    def _placed(self, n_blocks: int, n: int) -> list[str]:
        """The worker of every block: neighbours stand together, and stay while their worker is there."""
        workers = [worker for worker, threads in self.workers().items() for _ in range(threads)]
        for number in range(n_blocks):
            if self._places.get((n, number)) not in workers:
                self._places[n, number] = workers[number * len(workers) // n_blocks]
        return [self._places[n, number] for number in range(n_blocks)]

    def keep_copies(self, keep: bool) -> None:
        """Let Dask leave alone what every worker has a copy of, or again do as it is configured to."""
        import dask

        with suppress(*LOSSES):
            if keep:
                self.client.amm.stop()
            elif dask.config.get("distributed.scheduler.active-memory-manager.start"):
                self.client.amm.start()

    def clients(self) -> list[str]:
        """The names of all clients that the scheduler has."""
        with explained(self.client):
            return list(self.client.run_on_scheduler(_clients))

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on every worker that is there; what cannot be reached has nothing to do."""
        with suppress(*LOSSES):
            if self.client.status == "running":
                self.client.run(function, *arguments, on_error="ignore")

    def each(self, function: Callable[..., R], items: Sequence[Any], *shared: Shared, what: str = "") -> Iterator[R]:
        """function(item, *shared) for every item, in order; what was lost with a worker is done again."""
        report = _Report(self.told, what, len(items))

        def submitted(item: Any) -> Any:
            given = [value.on(self.client) for value in shared]
            return self.client.submit(_done, function, item, *given, pure=False)

        futures = [submitted(item) for item in items]
        for future in futures:
            future.add_done_callback(report)
        for item, future in zip(items, futures, strict=True):
            attempts = chain([future], map(submitted, repeat(item)))
            yield self._in_spite_of_losses(shared, lambda given=attempts: next(given).result())

    def _in_spite_of_losses(self, shared: Sequence[Shared], attempt: Callable[[], R]) -> R:
        """What an attempt returns; after a loss, wait for workers, share values anew, and try again."""
        lost: BaseException | None = None
        for _ in range(ATTEMPTS):
            with explained(self.client):
                try:
                    return attempt()
                except LOSSES as error:  # all copies of something were on workers that are gone
                    if isinstance(error, LabelwrightError):
                        raise
                    lost = error
                    self.workers()
                    for value in shared:
                        value.future = None
        raise ClusterError(f"dask: workers were lost {ATTEMPTS} times in a row ({_line(lost)}); see their logs")


@contextmanager
def explained(client: Any) -> Iterator[None]:
    """Errors of Dask in one line."""
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except KilledWorker as error:
        why = f"{error.allowed_failures + 1} workers died of the same piece of work, perhaps for lack of memory"
        raise ClusterError(f"dask: {why}; give them more, or make partitions smaller") from None
    except LOSSES as error:
        if isinstance(error, LabelwrightError):
            raise
        if client.status == "running" and not isinstance(error, CommClosedError | CancelledError):
            raise  # of the command itself
        raise ClusterError(f"dask: the scheduler at {address_of(client)} is gone ({_line(error)})") from None


def address_of(client: Any) -> str:
    """The address of its scheduler."""
    return str(client.scheduler.address)


class _Report:
    """Counts the futures that are done, and tells how long the others will take."""

    def __init__(self, told: Told | None, what: str, n: int):
        self.told, self.what, self.n, self.done = told if what else None, what, n, 0
        self.begun = time.monotonic()

    def __call__(self, future: Any) -> None:
        self.done += 1
        if self.told is not None:
            left = (time.monotonic() - self.begun) / self.done * (self.n - self.done)
            self.told(self.what, self.done, self.n, left)


def _version() -> str:
    return __version__


def _clients(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.clients)


def _done(work: Callable[..., R], *arguments: Any) -> R:
    """A piece of work, whose own errors are no losses."""
    try:
        return work(*arguments)
    except OSError as error:
        if isinstance(error, LabelwrightError):
            raise
        raise CorpusError(f"{error.filename or 'dask'}: {reason_of(error)}") from None


def _line(error: object) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


def _block(work: Any, combine: Any, begin: int, size: int, n: int, *shared: Any) -> Any:
    """The results of the pieces begin..begin+size, as far as there are such, combined along the tree."""
    if size == 1:
        return _done(work, begin, *shared)
    half = size // 2
    left = _block(work, combine, begin, half, n, *shared)
    if begin + half >= n:
        return left
    return combine(left, _block(work, combine, begin + half, half, n, *shared))
