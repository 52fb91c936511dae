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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from threading import Thread
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
CONNECTING = 10.0  # seconds to find a scheduler
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
    with _silent(), ExitStack() as opened:
        if address.startswith(LOCAL):
            yield _client_of_processes(address.removeprefix(LOCAL), opened)
        else:
            yield opened.enter_context(_client_of_scheduler(address))


def _client_of_scheduler(address: str) -> Any:
    """A client, made by a thread: Dask waits for ever where another program listens."""
    from distributed import Client

    made = Future[Any]()

    def make() -> None:
        try:
            made.set_result(Client(address, timeout=CONNECTING))  # type: ignore[no-untyped-call]
        except Exception as error:
            made.set_exception(error)

    Thread(target=make, daemon=True).start()
    try:
        return made.result(timeout=2 * CONNECTING)
    except TimeoutError as error:
        why = _line(error) if made.done() else "what listens there does not answer as Dask does"
    except (OSError, ValueError, TypeError) as error:
        why = _line(error)
    raise ClusterError(f"--dask: no scheduler at {address} ({why}); start one, or use local:N")


def _client_of_processes(number: str, opened: ExitStack) -> Any:
    """The client of so many new worker processes on this machine."""
    from distributed import Client, LocalCluster

    if not number.isdigit() or not int(number):
        raise OptionError(
            "--dask: expected tcp://HOST:PORT, or local:N with a number of processes, got "
            f"{LOCAL + number!r}"
        )
    try:
        cluster = LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=int(number),
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            preload=[__name__],
            silence_logs=logging.CRITICAL,
        )
        opened.enter_context(cluster)
        client = opened.enter_context(Client(cluster))  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError) as error:
        raise ClusterError(
            f"--dask: the processes of local:{number} did not start ({_line(error)}); try again, "
            "or ask for fewer"
        ) from None
    return client


def dask_setup(worker: Any) -> None:
    """What Dask calls in each worker process on this machine: Ctrl-C and errors are for the command
    alone, which still needs the workers."""
    logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


@contextmanager
def _silent() -> Iterator[None]:
    """Dask and asyncio log nothing meanwhile: what goes wrong is one line of the command."""
    from distributed.utils import silence_logging_cmgr

    of_asyncio = logging.getLogger("asyncio")
    level = of_asyncio.level
    of_asyncio.setLevel(logging.CRITICAL)
    try:
        with silence_logging_cmgr(logging.CRITICAL):
            yield
    finally:
        of_asyncio.setLevel(level)


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
        self.address = address_of(client)
        # of shares, by the number of pieces and of shares
        self._places: dict[tuple[int, int], list[str]] = {}
        self._checked: set[str] = set()  # workers
        self.n_threads = sum(self.workers().values())

    def workers(self) -> dict[str, int]:
        """The threads of every worker that is there; waits a while for the first."""
        with explained(self.client, self.address):
            if not (found := self.client.nthreads()):
                try:
                    self.client.wait_for_workers(1, timeout=PATIENCE)
                except TimeoutError:
                    raise ClusterError(
                        f"dask: no worker is left at {self.address}; start some"
                    ) from None
                found = self.client.nthreads()
            self._check_versions(found)
            return dict(sorted(found.items()))

    def _check_versions(self, workers: Iterable[str]) -> None:
        """Refuse workers with another labelwright, or none: they would make other models."""
        new = [worker for worker in workers if worker not in self._checked]
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
        share_of, places = self._dealt(n)  # before values go to workers that may be refused
        given, blocks = [value.on(self.client) for value in shared], list[Any]()

        def submit(begin: int, function: Any, *arguments: Any) -> Any:
            place = [places[share_of[begin]]]
            return self.client.submit(
                function, *arguments, workers=place, allow_other_workers=True, pure=False
            )

        def block(begin: int, size: int) -> Any:
            if share_of[begin] != share_of[min(begin + size, n) - 1]:
                return None
            piece = __version__, work, combine, begin, size, n
            blocks.append(submit(begin, _block, *piece, *given))
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

        with self._cleaning_up() as there:
            if there and keep:
                self.client.amm.stop()
            elif there and dask.config.get("distributed.scheduler.active-memory-manager.start"):
                self.client.amm.start()

    def clients(self) -> list[str]:
        """The names of all clients that the scheduler has."""
        with explained(self.client, self.address):
            return list(
                self.client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.clients])
            )

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on every worker that is there; what cannot be reached has nothing to
        do."""
        with self._cleaning_up() as there:
            if there:
                self.client.run(function, *arguments, on_error="ignore")

    @contextmanager
    def _cleaning_up(self) -> Iterator[bool]:
        """Whether the scheduler is there; what is gone has nothing to clean up."""
        try:
            yield is_open(self.client)
        except LOSSES:
            pass
        except Exception:
            if is_open(self.client):
                raise

    def each(
        self, function: Callable[..., R], items: Sequence[Any], *shared: Shared, what: str = ""
    ) -> Iterator[R]:
        """function(item, *shared) for every item, in order; what was lost with a worker is done
        again."""
        report = _Report(self.told, what, len(items))

        def submitted(item: Any) -> Any:
            given = [value.on(self.client) for value in shared]
            return self.client.submit(_done, __version__, function, item, *given, pure=False)

        futures = self._in_spite_of_losses(shared, lambda: [*map(submitted, items)])
        for future in futures:
            future.add_done_callback(report)

        def result(number: int) -> R:
            if futures[number].cancelled():  # with others
                left = zip(items[number:], futures[number:], strict=True)
                futures[number:] = [
                    submitted(item) if each.cancelled() else each for item, each in left
                ]
            done: R = futures[number].result()
            self._check_versions(self.client.nthreads())  # of workers that joined meanwhile
            return done

        for number in range(len(items)):
            yield self._in_spite_of_losses(shared, partial(result, number))

    def _in_spite_of_losses(self, shared: Sequence[Shared], attempt: Callable[[], R]) -> R:
        """What an attempt returns; after a loss, wait for workers, share values anew, and try
        again."""
        lost: BaseException | None = None
        for _ in range(ATTEMPTS):
            with explained(self.client, self.address):
                try:
                    return attempt()
                except Exception as error:
                    if isinstance(error, LabelwrightError) or not isinstance(error, LOSSES):
                        # perhaps of a worker with another labelwright, which joined meanwhile
                        self._check_versions(self.client.nthreads())
                        raise
                    lost = error  # all copies of something were on workers that are gone
                    self.workers()
                    for value in shared:
                        value.future = None
        raise ClusterError(
            f"dask: workers were lost {ATTEMPTS} times in a row ({_line(lost)}); see their logs"
        )


@contextmanager
def explained(client: Any, address: str = "") -> Iterator[None]:
    """Errors of Dask in one line.

    address : that of the scheduler; by default the one that the client has now
    """
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    address = address or address_of(client)
    try:
        yield
    except KilledWorker as error:
        why = (
            f"{error.allowed_failures + 1} workers died of the same piece of work, perhaps for "
            "lack of memory"
        )
        raise ClusterError(f"dask: {why}; give them more, or make partitions smaller") from None
    except LabelwrightError:
        raise
    except Exception as error:
        # a client that has been closed raises whatever its missing parts raise
        if is_open(client) and not isinstance(error, CommClosedError | CancelledError):
            raise  # of the command itself
        raise ClusterError(
            f"dask: the scheduler at {address} is gone ({_line(error)}); start it again"
        ) from None


def is_open(client: Any) -> bool:
    """Whether a client is connected to its scheduler."""
    return bool(client.status == "running")


def address_of(client: Any) -> str:
    """The address of its scheduler, which a client forgets when it is closed."""
    return "an unknown address" if client.scheduler is None else str(client.scheduler.address)


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


def _done(version: str, work: Callable[..., R], *arguments: Any) -> R:
    """A piece of work, whose own errors are no losses, for a command of this version."""
    if version != __version__:
        raise ClusterError(f"dask: expected workers with labelwright {version}, got {__version__}")
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


def _block(
    version: str, work: Any, combine: Any, begin: int, size: int, n: int, *shared: Any
) -> Any:
    """The results of a block, combined along the tree."""

    def piece(number: int, size: int) -> Any:
        return _done(version, work, number, *shared) if size == 1 else None

    return _along_tree(begin, size, n, piece, lambda _, *two: combine(*two))
