"""A disk on which the n-th system call of writing a file fails, or at which the process dies."""

import errno
import io
import os
import shutil
from contextlib import contextmanager

import pytest

from labelwright import storage

CALLS = ((os, "open"), (os, "fsync"), (os, "replace"), (shutil, "copymode"))


class FailingDisk:
    """Counts the calls, in order, by name; `at` is the one that fails (none where it is 0)."""

    def __init__(self, at, how):
        self.at, self.how, self.calls = at, how, []

    def call(self, name):
        self.calls.append(name)
        if len(self.calls) == self.at:
            self.how(name)

    def counted(self, name, function):
        def wrapped(*arguments, **options):
            self.call(name)
            return function(*arguments, **options)

        return wrapped

    def opened(self, path, mode):
        self.call("create")
        return io.BufferedWriter(Raw(self, path, mode))


class Raw(io.FileIO):
    """A file on it; of a write that fails, half of the bytes are there."""

    def __init__(self, disk, path, mode):
        super().__init__(path, mode)
        self.disk = disk

    def write(self, data):
        half = (len(data) + 1) // 2
        super().write(memoryview(data)[:half])
        self.disk.call("write")
        return half


def no_space(name):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken(name):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def killed(name):
    os._exit(9)


@contextmanager
def installed(disk):
    """While it lasts, files are written to this disk."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in CALLS:
            patch.setattr(module, name, disk.counted(name, getattr(module, name)))
        patch.setattr(storage, "open", disk.opened, raising=False)
        yield disk


def failing_disk(at=0, how=no_space):
    """While it lasts, files are written to a disk whose call number `at` fails in this way."""
    return installed(FailingDisk(at, how))
