"""Threads: BLAS stays on one while we work, and is as before afterwards."""

from threading import Event, Thread

import pytest
from threadpoolctl import threadpool_info

from labelwright.parallel import Workers, one_blas_thread


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_as_many_as_before_outside():
    before = blas_threads()
    assert before
    with Workers(2), one_blas_thread():
        assert set(blas_threads()) <= {1}
        with Workers(1):
            assert set(blas_threads()) <= {1}
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before
    with pytest.raises(ValueError, match="no"), Workers(2):
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
