"""What a cluster loses is one plain line, or it is done again."""

import logging
import os
import signal
import socket
import threading
import time

import psutil
import pytest
from distributed import Client

from labelwright import CRF
from labelwright.errors import ClusterError
from labelwright.scale import Partitions, cluster, connected
from labelwright.scale.cluster import Cluster, Shared

NAMES = "word,pos,chunk"


def _number(number, *shared):
    return number


class Lost(Shared):
    """A value that reaches no worker the first time."""

    fails = True

    def on(self, client):
        if self.fails:
            self.fails = False
            raise OSError("in <TCP (closed) ConnectionPool.scatter>: Stream is closed")
        return super().on(client)


def test_a_closed_client_is_told_in_one_line(client, files):
    """Dask closes a client some seconds after its scheduler; then parts of it are missing."""
    address = client.scheduler.address
    with Client(address, set_as_default=False) as own:

        def progress(record, most):
            own.close()

        data = Partitions(f"{files}/all.txt", NAMES)
        with pytest.raises(ClusterError, match=f"dask: the scheduler at {address} is gone"):
            CRF(max_iter=3, n_jobs=1).fit(data, client=own, progress=progress)


def test_nothing_is_cleaned_up_behind_a_closed_client(client):
    with Client(client.scheduler.address, set_as_default=False) as own:
        spread = Cluster(own)
        own.close()
        spread.keep_copies(True)
        spread.keep_copies(False)
        spread.everywhere(_number, 1)
        with pytest.raises(ClusterError, match="is gone"):
            spread.workers()


def test_a_value_that_is_lost_with_a_worker_is_sent_again(client):
    assert list(Cluster(client).each(_number, [3, 1, 2], Lost(0))) == [3, 1, 2]


@pytest.mark.parametrize("work", ["each", "reduced"])
def test_a_worker_of_another_version_that_joins_later_is_refused(client, monkeypatch, work):
    spread = Cluster(client)
    started = spread.each(_number, [1, 2, 3]) if work == "each" else None
    if started is not None:
        assert next(started) == 1
    spread._checked.clear()  # as if all had joined meanwhile
    monkeypatch.setattr(cluster, "_version", lambda: "0.0.2")
    with pytest.raises(ClusterError, match=r"worker .*: expected labelwright .*, got 0\.0\.2"):
        list(started) if started is not None else spread.reduced(_number, int.__add__, 2)


def test_a_worker_of_another_version_does_no_work():
    with pytest.raises(ClusterError, match=r"expected workers with labelwright 0\.0\.1, got"):
        cluster._done("0.0.1", _number, 1)


def test_a_program_that_is_no_scheduler_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECTING", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(ClusterError, match=f"no scheduler at {address} \\(what listens there"),
            connected(address),
        ):
            pass


def kill_the_first_worker_process():
    before = time.monotonic()
    while time.monotonic() - before < 60:
        for child in psutil.Process().children():
            if any("spawn_main" in argument for argument in child.cmdline()):
                os.kill(child.pid, signal.SIGKILL)
                return
        time.sleep(0.01)


@pytest.mark.slow
def test_a_worker_killed_while_it_starts_is_told_in_one_line():
    killing = threading.Thread(target=kill_the_first_worker_process)
    killing.start()
    with (
        pytest.raises(ClusterError, match=r"^--dask: .* local:1 did not start"),
        connected("local:1"),
    ):
        pass
    killing.join()


@pytest.mark.slow
def test_workers_on_this_machine_outlive_ctrl_c():
    with connected("local:1") as client:
        (pid,) = client.run(os.getpid).values()
        os.kill(pid, signal.SIGINT)
        assert list(client.run(os.getpid).values()) == [pid]
        assert logging.getLogger("asyncio").level == logging.CRITICAL
