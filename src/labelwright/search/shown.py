"""A search as people see it: its table, a progress bar, and the time that it will still take."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from labelwright.learn.monitor import ProgressBar
from labelwright.search.trials import Setting, Trial, score_or_lowest
from labelwright.wording import shortened

Scoring = str | Callable[..., float]
WIDEST = 24  # letters of a value in the table
STAYING = 0.5  # the share of settings that stay for the next step, as a rule


def table_lines(
    trials: Sequence[Trial], sizes: Sequence[int], best: Setting | None, scoring: Scoring, limit: int | None = None
) -> list[str]:
    """Settings with their scores in each step, the best first; `limit` of them at most."""
    names = list(dict.fromkeys(chain.from_iterable(row["setting"] for row in trials)))
    reached: dict[int, list[Trial]] = {}
    for row in trials:
        reached.setdefault(id(row["setting"]), []).append(row)
    chosen = next((rows for rows in reached.values() if rows[0]["setting"] is best), None)
    ranked = sorted(reached.values(), key=lambda rows: (-rows[-1]["step"], -score_or_lowest(rows[-1])))
    ranked.sort(key=lambda rows: rows is not chosen)
    titles = [f"n={size}" for size in sizes[: max(row["step"] for row in trials)]]
    lines = [[*names, *titles]]
    for rows in ranked[:limit]:
        shown = {row["step"]: shown_score(row, scoring) for row in rows}
        values = [_short(rows[0]["setting"][name]) if name in rows[0]["setting"] else "" for name in names]
        lines.append([*values, *(shown.get(step, "") for step in range(1, len(titles) + 1))])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ["  ".join(map(_aligned, line, widths, [n < len(names) for n in range(len(line))])) for line in lines]
    if len(ranked) > len(lines) - 1:
        aligned.append(f"... and {len(ranked) - len(lines) + 1} more")
    return [line.rstrip() for line in aligned]


def shown_score(row: Trial, scoring: Scoring) -> str:
    """The score of a trial as text."""
    return "failed" if row["score"] is None else written(row["score"], scoring)


def seconds_left(trials: Sequence[Trial], total: int, sizes: Sequence[int], refit: bool = True) -> float:
    """About how many seconds a search will still take, with `total` settings in the step of the last trial.

    A fit takes time in proportion to its sample, and about half of the settings stay for the next step.

    >>> seconds_left([{"step": 1, "seconds": 1.0}], 4, [10, 20])  # 3 more, 2 of twice the size, the last fit
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
    known = f"{settings:,} setting{'s' if settings != 1 else ''}"
    return known if n == settings else f"{n:,} of {known}"


class SearchBar(ProgressBar):
    """The step, the settings tried in it and its best score on one line of the terminal."""

    def __init__(self, steps: int, scoring: Scoring) -> None:
        super().__init__(total=1, what="searching")
        self._steps, self._scores, self._step, self._tried = steps, [-np.inf], 0, 0
        self._scoring = scoring

    def show(self, row: Trial, total: int) -> None:
        """Show one setting out of so many in this step."""
        if not self.live:
            return
        if self._bar is None:
            self._start()
        if row["step"] != self._step:
            self._step, self._scores, self._tried = row["step"], [-np.inf], 0
        self._tried += 1
        self._scores.append(score_or_lowest(row))
        what = f"step {self._step} of {self._steps}, {row['n_train'] + row['n_test']:,} in the sample"
        note = f"best {written(max(self._scores), self._scoring)}"
        self._bar.update(self._task, description=what, completed=self._tried, total=total, note=note)


def _short(value: Any) -> str:
    return shortened(" ".join(str(value).split()), WIDEST)


def _aligned(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)
