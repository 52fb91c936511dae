"""Locks that a forked process finds free, and values that are computed once without a lock."""

import os
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

R = TypeVar("R")


def after_fork(renew: Callable[[], None]) -> None:
    """Call `renew` in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


def renewed_lock() -> Any:
    """A lock that is free in a forked process: a thread that held it stayed behind and would never release it."""
    lock: Any = Lock()
    after_fork(lock._at_fork_reinit)
    return lock


class computed_once(Generic[R]):  # noqa: N801  like a property
    """functools.cached_property without a lock: before Python 3.12 all instances share one, and threads wait for it.
    Where several threads compute a value, all get the first."""

    def __init__(self, compute: Callable[[Any], R]):
        self.compute, self.name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> R:
        value: R = instance.__dict__.setdefault(self.name, self.compute(instance))
        return value
