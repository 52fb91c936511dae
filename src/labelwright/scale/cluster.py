"""A Dask cluster: its workers, pieces of work whose results are combined in a fixed order, and what
becomes of losses.

The pieces 0..n-1 are the leaves of a binary tree that depends on n alone, and results are combined
along it: the same bits for any number of workers, whoever does a piece.  The pieces are cut into
equal shares, which keep their workers: there the pieces find what they left behind.  A *block* is a
subtree whose pieces are in one share; one task does it.

    pieces   0   1   2   3   4      two shares, 0..2 and 3..4: a task each for the blocks 0..1,
             └─┬─┘   └─┬─┘   │      2, 3 and 4, then the sum of 2 and 3, and so on, each on the
               └───┬───┘     │      worker that has the left one
                   └────┬────┘
"""

import logging
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np

from labelwright import __version__
from labelwright.errors import ClusterError, CorpusError, LabelwrightError, OptionError, reason_of

R = TypeVar("R")
# what is done, how many pieces of how many, seconds left
Told = Callable[[str, int, int, float], None]

LOCAL = "local:"  # with a number of workers in place of the address of a scheduler
# of the pieces for each thread of the cluster, so that those of a lost worker can go to two others
SHARES = 2
ATTEMPTS = 5  # of work for which all copies of something were lost
PATIENCE = 60.0  # seconds without any worker
BROADCAST = 300.0  # seconds for a value to reach all workers
# what Dask raises where a connection to a worker or to the scheduler has ended
LOSSES = OSError, CancelledError


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
        raise OptionError(
            "--dask: expected tcp://HOST:PORT, or local:N with a number of processes, got "
            f"{address!r}"
        )
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
    """A plugin of workers on this machine: Ctrl-C and errors are for the command alone, which still
    needs them."""
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
        from distributed import Future

        if self.future is None:
            key = f"labelwright-{secrets.token_hex(8)}"
            send = partial(
                client.scatter, {key: self.value}, broadcast=True, hash=False, asynchronous=True
            )
            try:
                self.future = client.sync(send, callback_timeout=BROADCAST)[key]
            except TimeoutError:
                # Dask tries a worker that died meanwhile again and again, unless the value is gone
                Future(key, client).cancel()  # type: ignore[no-untyped-call]
                raise TimeoutError(f"a value did not reach all within {BROADCAST:g} s") from None
        return self.future


class Cluster:
    """The workers of a client, on which pieces of work have their places."""

    def __init__(self, client: Any, told: Told | None = None):
        self.client, self.told = client, told
        # of shares, by the number of pieces and of shares
        self._places: dict[tuple[int, int], list[str]] = {}
        self._checked: set[str] = set()  # workers
        self.n_threads = sum(self.workers().values())

    def workers(self) -> dict[str, int]:
        """The threads of every worker that is there; waits a while for the first."""
        with explained(self.client):
            if not (found := self.client.nthreads()):
                try:
                    self.client.wait_for_workers(1, timeout=PATIENCE)
                except TimeoutError:
                    raise ClusterError(
                        f"dask: no worker is left at {address_of(self.client)}; start some"
                    ) from None
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
                raise ClusterError(
                    f"dask: worker {worker}: expected labelwright {__version__}, got {got}; "
                    "install it"
                )

    def reduced(
        self, work: Any, combine: Callable[[R, R], R], n: int, *shared: Shared, what: str = ""
    ) -> Any:
        """combine(...) of work(number, *shared) for the n pieces, along the tree; `what` is told
        while it goes on."""
        return self._in_spite_of_losses(
            shared, lambda: self._reduced(work, combine, n, shared, what)
        )

    def _reduced(self, work: Any, combine: Any, n: int, shared: Sequence[Shared], what: str) -> Any:
        given, blocks = [value.on(self.client) for value in shared], list[Any]()
        share_of, places = self._dealt(n)

        def submit(begin: int, function: Any, *arguments: Any) -> Any:
            place = [places[share_of[begin]]]
            return self.client.submit(
                function, *arguments, workers=place, allow_other_workers=True, pure=False
            )

        def block(begin: int, size: int) -> Any:
            if share_of[begin] != share_of[min(begin + size, n) - 1]:
                return None
            blocks.append(submit(begin, _block, work, combine, begin, size, n, *given))
            return blocks[-1]

        root = _along_tree(
            0, 1 << (n - 1).bit_length(), n, block, lambda at, *two: submit(at, combine, *two)
        )
        report = _Report(self.told, what, len(blocks))
        while blocks:  # whose results go once they are added
            blocks.pop().add_done_callback(report)
        return root.result()

    def _dealt(self, n: int) -> tuple[list[int], list[str]]:
        """The share of every piece, and the worker of every share, which keeps it unless workers
        come or go."""
        workers = self.workers()
        threads = [worker for worker, count in workers.items() for _ in range(count)]
        self.n_threads = max(self.n_threads, len(threads))
        n_shares = SHARES * self.n_threads
        dealt = [threads[number * len(threads) // n_shares] for number in range(n_shares)]
        places = self._places.setdefault((n, n_shares), dealt)
        while True:
            load = Counter(places)
            left = {
                worker: (load[worker] - 1) / workers[worker] if worker in workers else np.inf
                for worker in load
            }
            more = {worker: (load[worker] + 1) / count for worker, count in workers.items()}
            fullest, emptiest = max(left, key=left.__getitem__), min(more, key=more.__getitem__)
            if left[fullest] < more[emptiest]:
                return [number * n_shares // n for number in range(n)], places
            places[places.index(fullest)] = emptiest

    def keep_copies(self, keep: bool) -> None:
        """Let Dask leave alone what every worker has a copy of, or again do as it is configured
        to."""
        import dask

        with suppress(*LOSSES):
            if keep:
                self.client.amm.stop()
            elif dask.config.get("distributed.scheduler.active-memory-manager.start"):
                self.client.amm.start()

    def clients(self) -> list[str]:
        """The names of all clients that the scheduler has."""
        with explained(self.client):
            return list(
                self.client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.clients])
            )

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on every worker that is there; what cannot be reached has nothing to
        do."""
        with suppress(*LOSSES):
            if self.client.status == "running":
                self.client.run(function, *arguments, on_error="ignore")

    def each(
        self, function: Callable[..., R], items: Sequence[Any], *shared: Shared, what: str = ""
    ) -> Iterator[R]:
        """function(item, *shared) for every item, in order; what was lost with a worker is done
        again."""
        report = _Report(self.told, what, len(items))

        def submitted(item: Any) -> Any:
            given = [value.on(self.client) for value in shared]
            return self.client.submit(_done, function, item, *given, pure=False)

        futures = [submitted(item) for item in items]
        for future in futures:
            future.add_done_callback(report)

        def result(number: int) -> R:
            if futures[number].cancelled():  # with others
                left = zip(items[number:], futures[number:], strict=True)
                futures[number:] = [
                    submitted(item) if each.cancelled() else each for item, each in left
                ]
            return futures[number].result()  # type: ignore[no-any-return]

        for number in range(len(items)):
            yield self._in_spite_of_losses(shared, partial(result, number))

    def _in_spite_of_losses(self, shared: Sequence[Shared], attempt: Callable[[], R]) -> R:
        """What an attempt returns; after a loss, wait for workers, share values anew, and try
        again."""
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
        raise ClusterError(
            f"dask: workers were lost {ATTEMPTS} times in a row ({_line(lost)}); see their logs"
        )


@contextmanager
def explained(client: Any) -> Iterator[None]:
    """Errors of Dask in one line."""
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except KilledWorker as error:
        why = (
            f"{error.allowed_failures + 1} workers died of the same piece of work, perhaps for "
            "lack of memory"
        )
        raise ClusterError(f"dask: {why}; give them more, or make partitions smaller") from None
    except LOSSES as error:
        if isinstance(error, LabelwrightError):
            raise
        if client.status == "running" and not isinstance(error, CommClosedError | CancelledError):
            raise  # of the command itself
        raise ClusterError(
            f"dask: the scheduler at {address_of(client)} is gone ({_line(error)})"
        ) from None


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


def _along_tree(begin: int, size: int, n: int, leaf: Any, combine: Any) -> Any:
    """What becomes of the pieces begin..begin+size, as far as there are such: of leaves, combined
    along the tree."""
    if (result := leaf(begin, size)) is not None:
        return result
    half = size // 2
    left = _along_tree(begin, half, n, leaf, combine)
    if begin + half >= n:
        return left
    return combine(begin, left, _along_tree(begin + half, half, n, leaf, combine))


def _block(work: Any, combine: Any, begin: int, size: int, n: int, *shared: Any) -> Any:
    """The results of a block, combined along the tree."""

    def piece(number: int, size: int) -> Any:
        return _done(work, number, *shared) if size == 1 else None

    return _along_tree(begin, size, n, piece, lambda _, *two: combine(*two))
