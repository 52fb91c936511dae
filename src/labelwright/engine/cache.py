"""Where machine code is kept: folders that only their owner can write, one file per kernel and signature.

A folder is named after a hash of *all* kernel sources (a kernel inlines the kernels it calls, so an edit in one file
must also forget the others) and of the versions of Numba and Python.  Files appear by an atomic rename, so any number
of processes may start at once.

LABELWRIGHT_CACHE names a folder that is looked at first.  It may be read-only and belong to root, as in an image of a
container.  What it does not hold is compiled and kept in the user's cache folder.  Machine code is code: a folder or
file that anybody but its owner can write, or whose owner is neither root nor the user, is not read.
"""

import functools
import hashlib
import os
import stat
import sys
import tempfile
import warnings
from pathlib import Path

GENERIC = ("generic", "")  # processor and features of code that runs on every processor of its kind
SHARED_FOLDER, SHARED_FILE = 0o755, 0o644


def file_name(kernel: str, key: str) -> str:
    return f"{kernel}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.kernel"


@functools.cache
def folder_name(fingerprint: str) -> str:
    """The name of the folder for these kernels; `fingerprint` is what Numba adds."""
    sources = hashlib.sha256()
    here = Path(__file__).parent
    for file in (here / "kernel.py", here / "machine.py", *sorted(here.parent.glob("kernels/*.py"))):
        sources.update(file.read_bytes())
    sources.update(f"{fingerprint} {sys.version}".encode())
    return "kernels-" + sources.hexdigest()[:16]


@functools.cache
def folders(fingerprint: str) -> list[Path]:
    """The folders to read, the first first: those that exist and that nobody else can write."""
    places = [place / folder_name(fingerprint) for place in _places()]
    return [folder for folder in places if folder.is_dir() and why_unsafe(folder) is None]


@functools.cache
def writable_folder(fingerprint: str) -> Path | None:
    """The folder for new machine code, created where it is missing; None where there is no place for one."""
    for place in _places():
        folder = place / folder_name(fingerprint)
        shared = str(place) == os.environ.get("LABELWRIGHT_CACHE")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=SHARED_FOLDER if shared else 0o700)
        except OSError:
            continue
        if why_unsafe(folder) is None and os.access(folder, os.W_OK):
            folders.cache_clear()
            return folder
    return None


def _places() -> list[Path]:
    """LABELWRIGHT_CACHE, the user's cache folder, a folder of the user's among temporary files."""
    named = os.environ.get("LABELWRIGHT_CACHE")
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or (
            str(Path(os.environ["HOME"], ".cache")) if "HOME" in os.environ else None
        )
    own = f"labelwright-{getattr(os, 'getuid', lambda: 0)()}"
    places = [named and Path(named), home and Path(home, "labelwright"), Path(tempfile.gettempdir(), own)]
    return [place for place in places if place and (place != (named and Path(named)) or _is_trusted(place))]


@functools.cache
def _is_trusted(place: Path) -> bool:
    """May the folder that LABELWRIGHT_CACHE names be used?  A warning says why not."""
    why = why_unsafe(place) if place.exists() else None
    if why is not None:
        warnings.warn(f"labelwright: LABELWRIGHT_CACHE={place} is not used: {why}", RuntimeWarning, stacklevel=2)
    return why is None


def why_unsafe(path: Path) -> str | None:
    """Why machine code at this path must not be run: somebody else could have written it.  None where it may be."""
    if not hasattr(os, "getuid"):
        return None
    for part in (path, *path.resolve().parents):
        try:
            found = part.stat()
        except OSError as error:
            return f"{part} cannot be looked at ({error.strerror})"
        ours = part == path or part == path.parent
        if ours and found.st_uid not in (0, os.getuid()):
            return f"{part} belongs to another user (uid {found.st_uid})"
        writers = stat.S_IWOTH | (stat.S_IWGRP if ours else 0)
        if found.st_mode & writers and not found.st_mode & stat.S_ISVTX:
            return f"others can write {part}; run: chmod go-w {part}"
    return None


def read(file: Path) -> bytes | None:
    """The machine code in a file; None where there is none that may be run."""
    try:
        with open(file, "rb") as opened:
            found = os.fstat(opened.fileno())
            if hasattr(os, "getuid") and (found.st_uid not in (0, os.getuid()) or found.st_mode & 0o022):
                return None
            return opened.read()
    except OSError:
        return None


def write(file: Path, code: bytes) -> None:
    """Store machine code; a full disk only costs compiling again."""
    fresh = file.with_suffix(f".{os.getpid()}-{id(code)}")
    try:
        fresh.write_bytes(code)
        fresh.chmod(SHARED_FILE)
        os.replace(fresh, file)
    except OSError:
        fresh.unlink(missing_ok=True)
