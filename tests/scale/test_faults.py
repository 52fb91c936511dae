"""Killed workers change nothing; a scheduler that is gone leaves a checkpoint."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import dask
import pytest

from labelwright import CRF
from labelwright.cli import tag
from labelwright.errors import ClusterError
from labelwright.scale import Partitions, cluster, connected
from labelwright.scale.cluster import Cluster, Shared

pytestmark = pytest.mark.slow
NAMES = "word,pos,chunk"


@pytest.fixture(scope="module")
def processes():
    """Two worker processes, which are started again when they die."""
    with connected("local:2") as client:
        yield client


def kill_one(client):
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def test_a_worker_killed_in_training_changes_no_weight(processes, files):
    def train(killing=()):
        def progress(record, most):
            if record["iteration"] in killing:
                kill_one(processes)

        data = Partitions(f"{files}/all.txt", NAMES, size=3000)
        return CRF(max_iter=5, n_jobs=1).fit(data, client=processes, progress=progress)

    assert train(killing=(1, 3)).weights_.tobytes() == train().weights_.tobytes()


def test_all_workers_killed_at_once_are_waited_for(processes, files):
    def progress(record, most):
        if record["iteration"] == 1:
            for pid in processes.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)

    data = Partitions(f"{files}/all.txt", NAMES, size=3000)
    model = CRF(max_iter=3, n_jobs=1).fit(data, client=processes, progress=progress)
    assert (
        model.weights_.tobytes()
        == CRF(max_iter=3, n_jobs=1).fit(data, client=processes).weights_.tobytes()
    )


def _number(number, shared):
    return [number + len(shared)]


def test_a_worker_lost_while_a_value_is_sent_is_done_without(monkeypatch):
    monkeypatch.setattr(cluster, "BROADCAST", 8.0)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        connected("local:3") as client,
    ):
        spread, (*_, lost) = Cluster(client), client.run(os.getpid).values()
        os.kill(lost, signal.SIGSTOP)
        killing = threading.Timer(2, os.kill, (lost, signal.SIGKILL))
        killing.start()
        assert spread.reduced(_number, list.__add__, 4, Shared([0])) == [1, 2, 3, 4]
        killing.join()


def test_a_worker_killed_in_tagging_changes_no_file(processes, files, run, tmp_path, monkeypatch):
    @contextmanager
    def cluster_of(address, quiet):
        yield processes

    killed = []

    class Killing:
        def __init__(self, *_):
            pass

        def __call__(self, what, done, n, left):
            if not killed:
                killed.append(what)
                kill_one(processes)

    model, out = tmp_path / "model", tmp_path / "out"
    assert (
        run("train", files / "all.txt", "-o", model, "--columns", NAMES, "--iterations", 1, "-q")[0]
        == 0
    )
    text = (files / "all.txt").read_bytes()
    (tmp_path / "in").mkdir()
    for n in range(6):
        (tmp_path / "in" / f"{n}.txt").write_bytes(text * (n + 20))
    names = ["tag", model, f"{tmp_path}/in/*.txt", "-o"]
    assert run(*names, tmp_path / "here")[0] == 0
    monkeypatch.setattr(tag, "cluster_of", cluster_of)
    monkeypatch.setattr(tag, "Progress", Killing)
    code, _, told = run(*names, out, "--dask", "local:2")
    assert code == 0, told
    assert killed
    assert sorted(os.listdir(out)) == [f"{n}.txt" for n in range(6)]  # and nothing half-written
    for path in out.iterdir():
        assert path.read_bytes() == (tmp_path / "here" / path.name).read_bytes()


@contextmanager
def started(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, arguments)], stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_lost_scheduler_leaves_a_checkpoint(files, tmp_path, client):
    place, found = tmp_path / "model.checkpoint", tmp_path / "scheduler.json"
    data = Partitions(f"{files}/all.txt", NAMES, size=3000)
    settings = {"max_iter": 8, "n_jobs": 1}
    whole = CRF(**settings).fit(data, client=client)
    where = "--host", "127.0.0.1"
    with started(
        "scheduler", *where, "--port", 0, "--no-dashboard", "--scheduler-file", found
    ) as scheduler:
        while not found.exists():
            assert scheduler.poll() is None
            time.sleep(0.1)
        with started(
            "worker", *where, "--nthreads", 1, "--scheduler-file", found, "--no-dashboard"
        ):
            from distributed import Client

            def progress(record, most):
                if record["iteration"] == 4:
                    scheduler.kill()

            with (
                dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
                Client(scheduler_file=str(found)) as there,
                pytest.raises(ClusterError, match=r"scheduler .* is gone"),
            ):
                CRF(**settings).fit(data, client=there, checkpoint=place, progress=progress)
    resumed = CRF(**settings).fit(data, client=client, checkpoint=place, resume=True)
    assert resumed.weights_.tobytes() == whole.weights_.tobytes()
    assert resumed.history_[-1]["loss"] == whole.history_[-1]["loss"]


def test_an_address_without_a_scheduler_is_one_line(run, files, tmp_path):
    code, _, told = run(
        "train", files / "all.txt", "-o", tmp_path / "m", "--dask", "tcp://127.0.0.1:9", "-q"
    )
    assert code != 0
    assert "no scheduler at tcp://127.0.0.1:9" in told
