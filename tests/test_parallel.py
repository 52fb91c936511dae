"""Threads: BLAS stays on one while we work, and is as before afterwards."""

import os
import subprocess
import sys
import time
from threading import Event, Lock, Thread, active_count

import pytest
from threadpoolctl import threadpool_info

from labelwright import parallel
from labelwright.parallel import Workers, cpu_quota, n_threads, one_blas_thread


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_as_many_as_before_outside():
    before = blas_threads()
    assert before
    with one_blas_thread():
        assert set(blas_threads()) <= {1}
        with one_blas_thread():
            assert set(blas_threads()) <= {1}
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before
    with pytest.raises(ValueError, match="no"), one_blas_thread():
        raise ValueError("no")
    assert blas_threads() == before


def test_threads_that_overlap_leave_it_as_it_was():
    before, seen = blas_threads(), []
    first_in, second_in, first_out = Event(), Event(), Event()

    def first():
        with one_blas_thread():
            first_in.set()
            second_in.wait(10)
        first_out.set()

    def second():
        first_in.wait(10)
        with one_blas_thread():
            second_in.set()
            first_out.wait(10)
            seen.extend(blas_threads())  # the first one has left, the second is still at work

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert set(seen) == {1}
    assert blas_threads() == before


# -- available cores -------------------------------------------------------------------------------


def quota(folder, membership, **files):
    """The CPU quota where the control groups hold these files."""
    for path, text in files.items():
        file = folder / "cgroup" / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_name(file.name.replace("_max", ".max").replace("_cfs", ".cfs")).write_text(text)
    (folder / "membership").write_text(membership)
    return cpu_quota(folder / "cgroup", folder / "membership")


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/\n", {"cpu_max": "max 100000\n"}, None),
        ("0::/\n", {"cpu_max": "250000 100000\n"}, 2.5),
        (
            "0::/a/b\n",
            {
                "a__b__cpu_max": "max 100000",
                "a__cpu_max": "150000 100000",
                "c__cpu_max": "1 100000",
            },
            1.5,
        ),
        ("0::/a/b\n", {"a__b__cpu_max": "100000 100000", "a__cpu_max": "300000 100000"}, 1.0),
        ("0::/../../other\n", {"cpu_max": "400000 100000"}, 4.0),
        (
            "2:cpu,cpuacct:/d\n",
            {"cpu__d__cpu_cfs_quota_us": "50000", "cpu__d__cpu_cfs_period_us": "100000"},
            0.5,
        ),
        (
            "2:cpu,cpuacct:/d\n",
            {"cpu__d__cpu_cfs_quota_us": "-1", "cpu__d__cpu_cfs_period_us": "100000"},
            None,
        ),
        (
            "3:cpu:/seen/outside\n",
            {"cpu__cpu_cfs_quota_us": "300000", "cpu__cpu_cfs_period_us": "100000"},
            3.0,
        ),
        (
            "3:memory:/m\n",
            {"memory__m__cpu_cfs_quota_us": "1", "memory__m__cpu_cfs_period_us": "100000"},
            None,
        ),
        ("nonsense", {"cpu_max": "nonsense"}, None),
        ("", {}, None),
    ],
)
def test_cpu_quotas_of_control_groups(tmp_path, membership, files, expected):
    assert quota(tmp_path, membership, **files) == expected


def test_systems_without_control_groups_have_no_quota(tmp_path):
    assert cpu_quota(tmp_path / "none", tmp_path / "none") is None


@pytest.mark.parametrize(
    ("cores", "limit", "expected"), [(8, None, 8), (8, 2.5, 2), (2, 6.0, 2), (4, 0.25, 1)]
)
def test_threads_keep_within_cores_and_quota(monkeypatch, cores, limit, expected):
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda _: range(cores), raising=False)
    monkeypatch.setattr(parallel.os, "process_cpu_count", lambda: cores, raising=False)
    monkeypatch.setattr(parallel, "cpu_quota", lambda: limit)
    assert n_threads(-1) == n_threads(None) == expected
    assert n_threads(16) == 16
    assert n_threads(10**30) == 1024


# -- threads of the process ------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_tasks_and_few_need_no_thread():
    before = active_count()
    assert Workers(8).run(lambda a: a + 1, [(1,)]) == [2]
    assert Workers(1).run(lambda a: a + 1, [(1,), (2,)]) == [2, 3]
    assert active_count() == before
    assert Workers(3).run(lambda a, b: a * b, [(a, 2) for a in range(50)]) == [
        2 * a for a in range(50)
    ]


def test_no_more_threads_work_at_once_than_were_asked_for():
    Workers(6).run(lambda a: a, [(a,) for a in range(6)])  # the pool has five
    at_once, most, lock = 0, 0, Lock()

    def task(a):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.002)
        with lock:
            at_once -= 1

    Workers(2).run(task, [(a,) for a in range(20)])
    assert most == 2


def test_tasks_may_have_tasks_of_their_own():
    def outer(a):
        return sum(Workers(2).run(lambda b: a * b, [(b,) for b in range(10)]))

    assert Workers(2).run(outer, [(a,) for a in range(10)]) == [45 * a for a in range(10)]


def test_the_first_error_is_raised_and_the_rest_is_left():
    seen = []

    def task(a):
        seen.append(a)
        if a >= 3:
            raise ValueError(f"task {a}")

    with pytest.raises(ValueError, match="task 3"):
        Workers(2).run(task, [(a,) for a in range(1000)])
    assert len(seen) < 1000
    assert Workers(2).run(lambda a: a, [(1,), (2,)]) == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_makes_threads_of_its_own():
    program = (
        "import os, sys\n"
        "from labelwright.parallel import Workers\n"
        "tasks = [(a,) for a in range(20)]\n"
        "Workers(2).run(lambda a: a, tasks)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if Workers(2).run(lambda a: a, tasks) == list(range(20)) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


FORKED = """
import contextlib, os, signal, sys, threading
from labelwright import CRF, MemoryTagger
from labelwright.features import lookup
from labelwright.memory.search import Searcher
from labelwright.parallel import Workers, _Blas, _Pool, one_blas_thread
X, y = [["the", "dog", "barks"], ["a", "bird"]], [["B", "I", "O"], ["B", "I"]]
models = [CRF(max_iter=2, n_jobs=2).fit(X, y), MemoryTagger(n_jobs=2).fit(X, y)]
held, done = threading.Event(), threading.Event()
def hold():
    with one_blas_thread(), contextlib.ExitStack() as locks:
        for lock in (lookup._adding, Searcher._lock, _Blas.lock, _Pool.lock):
            locks.enter_context(lock)
        held.set()
        done.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends a child that waits for ever
    for model in models:
        model.predict([["an", "old", "dog", "sings"]] * 20)
    assert Workers(2).run(lambda a: a, [(a,) for a in range(20)]) == list(range(20))
    with one_blas_thread():
        assert len(_Blas.callers) == 1
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
sys.exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_forked_while_a_thread_holds_all_locks_answers():
    done = subprocess.run([sys.executable, "-c", FORKED], timeout=120, check=False)
    assert done.returncode == 0
