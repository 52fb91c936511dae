"""Files that appear whole or not at all, and files that can be read without waiting."""

import errno
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

# bytes of a name that its temporary siblings have, too: most disks allow 255 for all of it
LONGEST = 100
# of folders that cannot be synced
NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}
# what a path can name beside regular files and folders
SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | os.PathLike[str], mode: Literal["rb", "r+b"] = "rb") -> io.FileIO:
    """Open a regular file, unbuffered.  Everything else is refused at once: opening a pipe can wait
    for ever, and a device may have no end."""
    _check_regular(os.stat(path))  # opening a device can already have an effect
    file = io.FileIO(path, mode, opener=_open_without_waiting)
    try:
        _check_regular(os.fstat(file.fileno()))  # the path may name something else by now
    except OSError:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_regular(state: os.stat_result) -> None:
    if stat.S_ISREG(state.st_mode):
        return
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kind = SPECIAL.get(stat.S_IFMT(state.st_mode), "a special file")
    raise OSError(None, f"is {kind}, expected a file")


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path`, whole or not at all."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file whose content is at `path` once all is written: it is a temporary sibling until then,
    so that no reader and no crash ever meets half a file.  After an error nothing has changed.

    The order matters: the content is on the disk before the rename, and the rename before this
    returns."""
    if path.is_dir():
        raise IsADirectoryError(None, "it is a folder, name a file in it")
    if path.exists():
        _check_regular(path.stat())  # a rename would put a file where a device was
    if not path.parent.is_dir():
        raise FileNotFoundError(None, f"the folder {path.parent} does not exist")
    remove_abandoned(path)
    # as long as it is open, so that other processes see that it is in use
    fresh, file = _locked_sibling(path)
    try:
        yield file
        file.flush()
        os.fsync(file.fileno())
        if fcntl is None:
            file.close()  # a file that is open cannot be renamed there
        if path.exists():
            shutil.copymode(path, fresh)
        os.replace(fresh, path)
    except BaseException:
        with suppress(OSError):  # the reason of a failure is more important
            fresh.unlink(missing_ok=True)
        with suppress(OSError):  # what is still buffered may not fit on the disk
            file.close()
        raise
    file.close()
    _sync_folder(path.parent)


def _locked_sibling(path: Path) -> tuple[Path, BinaryIO]:
    """A new file with a name of its own.  A process that looks for abandoned files may remove it
    before it is locked; then another one is made."""
    while True:
        fresh = path.with_name(f".{_beginning(path.name)}.{secrets.token_hex(6)}.part")
        file = open(fresh, "xb")  # noqa: SIM115
        if fcntl is None:
            return fresh, file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # it is being removed
            file.close()
            continue
        except OSError:  # files are not locked there: nobody removes it
            return fresh, file
        if os.fstat(file.fileno()).st_nlink:
            return fresh, file
        file.close()


def _beginning(name: str) -> str:
    """The beginning of a name in LONGEST bytes, cut between characters."""
    return os.fsencode(name)[:LONGEST].decode("utf-8", "ignore")


def remove_abandoned(path: Path, more: str = "") -> None:
    """Remove temporary siblings that killed processes have left.  A process that still writes holds
    a lock.

    more : a regular expression of what may follow the name"""
    if fcntl is None:
        return
    pattern = re.compile(rf"\.{re.escape(_beginning(path.name))}{more}\.[0-9a-f]{{12}}\.part")
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if pattern.fullmatch(name):
                _remove_unlocked(path.with_name(name))


def _remove_unlocked(file: Path) -> None:
    with suppress(OSError):  # it is locked, gone, or not ours
        descriptor = os.open(file, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(file)
        finally:
            os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where folders can be synchronised."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        os.close(descriptor)
