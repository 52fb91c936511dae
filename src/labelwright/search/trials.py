"""The trials of a search: what each setting scored in each step, kept in a file so that a search
can be resumed; and as people see them: a table, a progress bar, and the time that a search will
still take."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from labelwright.corpus.table import Corpus
from labelwright.errors import ModelFileError
from labelwright.learn.monitor import ProgressBar
from labelwright.storage import replace_file
from labelwright.wording import align, counted, shortened

Setting = dict[str, Any]
Scoring = str | Callable[..., float]
WIDEST = 24  # letters of a value in the table
STAYING = 0.5  # the share of settings that stay for the next step, as a rule


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
    """The trials so far in a file, written after each of them; those of the same search are not run
    again.

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
            numbers = [
                row[name] for row in rows.values() for name in ("n_train", "n_test", "seconds")
            ]
            is_whole = all(isinstance(number, int | float) for number in numbers)
            is_whole &= all(isinstance(row["score"], float | None) for row in rows.values())
            is_whole &= all(isinstance(row["error"], str | None) for row in rows.values())
            if not is_whole:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ModelFileError(
                f"{path}: does not hold the trials of a search; delete it to start anew"
            ) from None
        return dict(rows)

    def known(self, step: int, setting: Setting) -> Trial | None:
        """The trial of a setting in a step, if the file has it."""
        row = self._rows.get(_key(step, setting))
        if row is None:
            return None
        kept = None if row["error"] is None else False
        return {**row, "step": step, "setting": setting, "kept": kept}  # type: ignore[return-value]

    def add(self, trial: Trial) -> None:
        """Write one more trial."""
        if self.path is None:
            return
        names = ("n_train", "n_test", "score", "seconds", "error")
        self._rows[_key(trial["step"], trial["setting"])] = {name: trial[name] for name in names}  # type: ignore[literal-required]
        text = json.dumps({"fingerprint": self.fingerprint, "trials": self._rows}, indent=1)
        replace_file(self.path, text.encode())


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
    files = {}
    for value in settings:
        if (
            isinstance(value, str | os.PathLike)
            and "\0" not in os.fspath(value)
            and os.path.isfile(value)
        ):
            with open(value, "rb") as file:
                files[os.fspath(value)] = hashlib.file_digest(file, "sha256").hexdigest()
    return dict(sorted(files.items()))


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
    elif isinstance(value, list | tuple) and any(
        isinstance(part, Corpus | np.ndarray | Mapping) for part in value[:2]
    ):
        for part in value:  # its repr would leave something out
            _update(digest, part)
    else:
        digest.update(repr(value).encode("utf-8", "backslashreplace") + b"\0")


# -- as people see them ----------------------------------------------------------------------------


def table_lines(
    trials: Sequence[Trial],
    sizes: Sequence[int],
    best: Setting | None,
    scoring: Scoring,
    limit: int | None = None,
) -> list[str]:
    """Settings with their scores in each step, the best first; `limit` of them at most."""
    names = list(dict.fromkeys(chain.from_iterable(row["setting"] for row in trials)))
    reached: dict[int, list[Trial]] = {}
    for row in trials:
        reached.setdefault(id(row["setting"]), []).append(row)
    chosen = next((rows for rows in reached.values() if rows[0]["setting"] is best), None)
    ranked = sorted(
        reached.values(), key=lambda rows: (-rows[-1]["step"], -score_or_lowest(rows[-1]))
    )
    ranked.sort(key=lambda rows: rows is not chosen)
    titles = [f"n={size}" for size in sizes[: max(row["step"] for row in trials)]]
    lines = [[*names, *titles]]
    for rows in ranked[:limit]:
        shown = {
            row["step"]: "failed" if row["score"] is None else written(row["score"], scoring)
            for row in rows
        }
        values = [
            shortened(" ".join(str(rows[0]["setting"][name]).split()), WIDEST)
            if name in rows[0]["setting"]
            else ""
            for name in names
        ]
        lines.append([*values, *(shown.get(step, "") for step in range(1, len(titles) + 1))])
    more = (
        [f"... and {len(ranked) - limit} more"] if limit is not None and len(ranked) > limit else []
    )
    return align(lines, left=range(len(names))) + more


def seconds_left(
    trials: Sequence[Trial], total: int, sizes: Sequence[int], refit: bool = True
) -> float:
    """About how many seconds a search will still take, with `total` settings in the step of the
    last trial.

    A fit takes time in proportion to its sample, and about half of the settings stay for the next
    step.

    >>> trials = [{"step": 1, "seconds": 1.0}]
    >>> seconds_left(trials, 4, [10, 20])  # 3 more, 2 of twice the size, the last fit
    9.0
    """
    step = trials[-1]["step"]
    here = [row["seconds"] for row in trials if row["step"] == step]
    mean = sum(here) / len(here)
    left, staying = (total - len(here)) * mean, float(total)
    for size in sizes[step:]:
        staying = max(1.0, np.ceil(staying * STAYING))
        left += staying * mean * size / sizes[step - 1]
    return float(left + (mean * sizes[-1] / sizes[step - 1] if refit else 0.0))


def written(score: float, scoring: Scoring) -> str:
    """A score as text: shares in percent."""
    return f"{100 * score:.2f}" if isinstance(scoring, str) else f"{score:.4f}"


def tried(n: int, settings: int) -> str:
    """How many settings were tried, of how many.

    >>> tried(1, 1), tried(4, 4), tried(6, 1025)
    ('1 setting', '4 settings', '6 of 1,025 settings')
    """
    return (
        counted(settings, "setting")
        if n == settings
        else f"{n:,} of {counted(settings, 'setting')}"
    )


class SearchBar(ProgressBar):
    """The step, the settings tried in it and its best score on one line of the terminal."""

    def __init__(self, steps: int, scoring: Scoring) -> None:
        super().__init__(total=1, what="searching")
        self._steps, self._scores, self._step, self._tried = steps, [-np.inf], 0, 0
        self._scoring = scoring

    def show(self, row: Trial, total: int) -> None:
        """Show one more of the `total` settings of this step."""
        if not self.live:
            return
        if self._bar is None:
            self._start()
        if row["step"] != self._step:
            self._step, self._scores, self._tried = row["step"], [-np.inf], 0
        self._tried += 1
        self._scores.append(score_or_lowest(row))
        what = (
            f"step {self._step} of {self._steps}, {row['n_train'] + row['n_test']:,} in the sample"
        )
        note = f"best {written(max(self._scores), self._scoring)}"
        self._bar.update(
            self._task, description=what, completed=self._tried, total=total, note=note
        )
