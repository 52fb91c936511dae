"""The trials of a search: what each setting scored in each step, kept in a file so that a search can be resumed."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from labelwright.corpus.table import Corpus
from labelwright.errors import ModelFileError

Setting = dict[str, Any]


class Trial(TypedDict):
    """One setting in one step."""

    step: int  # from 1 on
    n_train: int  # sentences or instances trained on,
    n_test: int  # and those tested on
    setting: Setting
    score: float | None  # None where it failed
    seconds: float
    kept: bool | None  # for the next step; None where the search was interrupted
    error: str | None


def score_or_lowest(trial: Trial) -> float:
    """The score of a trial; minus infinity where it failed."""
    return -np.inf if trial["score"] is None else trial["score"]


class TrialFile:
    """The trials so far in a file, written after each of them; those of the same search are not run again.

    path : None keeps nothing
    fingerprint : of all that decides the trials; a file with another one is replaced
    """

    def __init__(self, path: str | os.PathLike[str] | None, fingerprint: str):
        self.path, self.fingerprint = None if path is None else Path(path), fingerprint
        self._rows: dict[str, dict[str, Any]] = {}
        if self.path is not None and self.path.exists():
            self._rows = self._read(self.path)
        self.n_known = len(self._rows)

    def _read(self, path: Path) -> dict[str, dict[str, Any]]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            rows = content["trials"] if content["fingerprint"] == self.fingerprint else {}
            numbers = [row[name] for row in rows.values() for name in ("n_train", "n_test", "seconds")]
            is_whole = all(isinstance(number, int | float) for number in numbers)
            is_whole &= all(isinstance(row["score"], float | None) for row in rows.values())
            is_whole &= all(isinstance(row["error"], str | None) for row in rows.values())
            if not is_whole:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ModelFileError(f"{path}: does not hold the trials of a search; delete it to start anew") from None
        return dict(rows)

    def known(self, step: int, setting: Setting) -> Trial | None:
        """The trial of a setting in a step, if the file has it."""
        row = self._rows.get(_key(step, setting))
        if row is None:
            return None
        return {
            "step": step,
            "n_train": row["n_train"],
            "n_test": row["n_test"],
            "setting": setting,
            "score": row["score"],
            "seconds": row["seconds"],
            "kept": None if row["error"] is None else False,
            "error": row["error"],
        }

    def add(self, trial: Trial) -> None:
        """Write one more trial."""
        if self.path is None:
            return
        names = ("n_train", "n_test", "score", "seconds", "error")
        self._rows[_key(trial["step"], trial["setting"])] = {name: trial[name] for name in names}  # type: ignore[literal-required]
        text = json.dumps({"fingerprint": self.fingerprint, "trials": self._rows}, indent=1)
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path)


def _key(step: int, setting: Setting) -> str:
    return f"{step} {setting!r}"


def fingerprint(*values: Any) -> str:
    """A hash of data and settings."""
    digest = hashlib.sha256()
    for value in values:
        _update(digest, value)
    return digest.hexdigest()


def contents(settings: Iterable[Any]) -> dict[str, str]:
    """Hashes of the files that settings name: a template, word vectors."""
    files = sorted({os.fspath(value) for value in settings if isinstance(value, str | os.PathLike) and _is_file(value)})
    return {path: _hash_of_file(path) for path in files}


def _is_file(value: Any) -> bool:
    try:
        return os.path.isfile(value)
    except ValueError:  # a text with a null character
        return False


def _hash_of_file(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _update(digest: Any, value: Any) -> None:
    if isinstance(value, Corpus):
        _update(digest, [value.names, value.label, value.offsets])
        if value.arrays is not None:
            _update(digest, value.arrays)
        for name in value.names:
            _update(digest, [value.values(name), value.codes(name)])
    elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            _update(digest, [name, part])
    elif isinstance(value, Sequence) and not isinstance(value, str) and any(_is_large(part) for part in value[:2]):
        for part in value:
            _update(digest, part)
    else:
        digest.update(repr(value).encode("utf-8", "backslashreplace") + b"\0")


def _is_large(value: Any) -> bool:
    """Whether its repr would leave something out."""
    return isinstance(value, Corpus | np.ndarray | Mapping)
