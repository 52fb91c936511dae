"""Files that appear whole or not at all."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path`, whole or not at all."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file whose content is at `path` once all is written: it is a temporary sibling until then, so that no reader
    and no crash ever meets half a file.  After an error nothing has changed."""
    if path.is_dir():
        raise IsADirectoryError(None, "it is a folder, name a file in it")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise OSError(None, "it is not a regular file")  # a rename would put a file where a device was
    if not path.parent.is_dir():
        raise FileNotFoundError(None, f"the folder {path.parent} does not exist")
    fresh = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with open(fresh, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, fresh)
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)  # nothing is left of it after the rename
    with suppress(OSError):  # where folders can be synchronised, the rename itself survives a power cut
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
