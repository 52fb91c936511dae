"""Where machine code is kept: folders that only their owner can write, one file per kernel and
signature.

A folder is named after a hash of *all* kernel sources (a kernel inlines the kernels it calls, so an
edit in one file must also forget the others) and of the versions of Numba and Python.  Files appear
by an atomic rename, so any number of processes may start at once.  Each begins with a checksum:
damaged machine code would kill the process.

LABELWRIGHT_CACHE names a folder that is looked at first.  It may be read-only and belong to root,
as in an image of a container.  What it does not hold is compiled and kept in the user's cache
folder.  Machine code is code: a folder or file that anybody but its owner can write, or whose owner
is neither root nor the user, is not read.
"""

import functools
import hashlib
import os
import stat
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

from labelwright.storage import replace_file

GENERIC = ("generic", "")  # processor and features of code that runs on every processor of its kind
SHARED_FOLDER, SHARED_FILE = 0o755, 0o644


def file_name(kernel: str, key: str) -> str:
    return f"{kernel}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.kernel"


@functools.cache
def folder_name(fingerprint: str) -> str:
    """The name of the folder for these kernels; `fingerprint` is what Numba adds."""
    sources = hashlib.sha256()
    here = Path(__file__).parent
    for file in (here / "machine.py", *sorted(here.parent.glob("kernels/*.py"))):
        sources.update(file.read_bytes())
    sources.update(f"{fingerprint} {sys.version}".encode())
    return "kernels-" + sources.hexdigest()[:16]


@functools.cache
def folders(fingerprint: str) -> list[Path]:
    """The folders to read, the first first: those that exist and that nobody else can write."""
    places = [place / folder_name(fingerprint) for place in _places()]
    return [folder for folder in places if os.path.isdir(folder) and _is_trusted(folder)]


@functools.cache
def writable_folder(fingerprint: str) -> Path | None:
    """The folder for new machine code, created where it is missing; None where there is no place
    for one."""
    for place in _places():
        folder = place / folder_name(fingerprint)
        try:
            make_folder(folder, SHARED_FOLDER if place == _named() else 0o700)
        except OSError as error:
            if place == _named():
                why = (error.strerror or "unknown").lower()
                warnings.warn(
                    f"labelwright: LABELWRIGHT_CACHE={place} has no machine code for these "
                    f"versions of labelwright, Numba and Python, and cannot keep any ({why})",
                    RuntimeWarning,
                    stacklevel=2,
                )
            continue
        if _is_trusted(folder) and os.access(folder, os.W_OK):
            folders.cache_clear()
            return folder
    return None


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder, and those above it that are missing, with this mode whatever the umask."""
    missing = [part for part in (folder, *folder.parents) if not os.path.exists(part)]
    for part in reversed(missing):
        part.mkdir(exist_ok=True)
        part.chmod(mode)


def _named() -> Path | None:
    """The folder that LABELWRIGHT_CACHE names."""
    name = os.environ.get("LABELWRIGHT_CACHE")
    return Path(name) if name else None


def _places() -> list[Path]:
    """LABELWRIGHT_CACHE, the user's cache folder, a folder of the user's among temporary files."""
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or (
            str(Path(os.environ["HOME"], ".cache")) if "HOME" in os.environ else None
        )
    own = f"labelwright-{getattr(os, 'getuid', lambda: 0)()}"
    named = _named()
    if named is not None and os.path.exists(named) and not _is_trusted(named):
        named = None
    places = [named, home and Path(home, "labelwright"), Path(tempfile.gettempdir(), own)]
    return [place for place in places if place]


@functools.cache
def _is_trusted(folder: Path) -> bool:
    """May machine code in this folder be run?  A warning says why not."""
    why = why_unsafe(folder)
    if why is not None:
        warnings.warn(
            f"labelwright: machine code in {folder} is not used: {why}",
            RuntimeWarning,
            stacklevel=2,
        )
    return why is None


def why_unsafe(path: Path) -> str | None:
    """Why machine code at this path must not be run: somebody else could have written it.  None
    where it may be."""
    if not hasattr(os, "getuid"):
        return None
    path = path.resolve()
    for part in (path, *path.parents):
        try:
            status = part.stat()
        except OSError as error:
            return f"{part} cannot be looked at ({(error.strerror or 'unknown').lower()})"
        ours = part == path or part == path.parent
        if ours and status.st_uid not in (0, os.getuid()):
            return f"{part} belongs to another user (uid {status.st_uid})"
        writers = stat.S_IWOTH | (stat.S_IWGRP if ours else 0)
        # nobody can put another folder in its place
        sticky = part != path and status.st_mode & stat.S_ISVTX
        if status.st_mode & writers and not sticky:
            return f"others can write {part}; run: chmod go-w {part}"
    return None


def read(file: Path) -> bytes | None:
    """The machine code in a file; None where there is none that may be run, or it is damaged."""
    try:
        with open(file, "rb") as opened:
            status = os.fstat(opened.fileno())
            if hasattr(os, "getuid") and (
                status.st_uid not in (0, os.getuid()) or status.st_mode & 0o022
            ):
                return None
            checksum, code = opened.read(hashlib.sha256().digest_size), opened.read()
    except OSError:
        return None
    return code if checksum == hashlib.sha256(code).digest() else None


def write(file: Path, code: bytes) -> None:
    """Store machine code; a full disk only costs compiling again."""
    with suppress(OSError):
        replace_file(file, hashlib.sha256(code).digest() + code)
        file.chmod(SHARED_FILE)
