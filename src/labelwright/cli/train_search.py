"""labelwright train --search: the settings of a tagger that do best on growing samples of the training data."""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from labelwright.cli.common import aligned, say
from labelwright.cli.reading import has_attributes
from labelwright.cli.recipe import Request
from labelwright.wording import duration

FIRST = 500  # sentences of the first sample; the samples of a grid then double, or nearly
SHOWN = 10  # settings of a search that are written out


class Searched(NamedTuple):
    """The outcome of a search."""

    model: Any  # untrained, with the best setting
    record: dict[str, Any]  # what is worth knowing about the search
    rows: list[Any]
    sizes: list[int]


def searched(
    model: Any,
    settings: list[dict[str, Any]],
    data: Any,
    dev: Any,
    asked: Request,
    trials: Path,
    weights: list[Any] | None = None,
) -> Searched:
    """The best of many settings; `trials` is the file from which an interrupted search resumes."""
    from labelwright.search.progressive import ProgressiveSearch

    quiet, grid = asked.get("quiet", False), isinstance(asked.get("search"), dict) and bool(asked.get("search"))
    lines = not quiet and (grid or asked.get("verbose", False))
    n = len(data[0] if has_attributes(data) else data)
    search = ProgressiveSearch(
        model,
        settings,
        steps=1 + max(0, int(math.log2(max(n, 1) / FIRST))) if grid else 8,
        random_state=asked.get("random_state", 0),
        refit=False,
        verbose=0 if quiet or lines else 1,
    )
    if trials.exists() and not quiet:
        say(f"{trials}: left by an interrupted search; its trials are not repeated if data and settings are the same")
    search.fit(
        *(data if has_attributes(data) else [data]),
        dev=tuple(dev) if has_attributes(dev) else dev,
        progress=_Lines(search) if lines else None,
        checkpoint=trials,
        sample_weight=weights,
    )
    record = {
        "settings": search.n_settings_,
        "tried": search.n_tried_,
        "scoring": search.scoring_,
        "score": search.best_score_,
        "stopped": search.stopped_,
        "best": search.best_params_,
    }
    if not quiet:
        head, *rows = table(search.table_, search.best_params_) if not grid else search.table(SHOWN).splitlines()
        for line in (re.sub(r"__(\w+)", r".\1 ", head), *rows):  # as options name the settings of layers
            say(line)
    return Searched(search.best_model(), record, search.table_, search.sizes_)


def how_many(record: dict[str, Any]) -> str:
    """How many settings were tried, and why no more."""
    from labelwright.search.trials import tried

    return f"the best of {tried(record['tried'], record['settings'])}; {record['stopped']}"


class _Lines:
    """One line for each setting that was tried, with the time that is left."""

    def __init__(self, search: Any):
        self._search = search

    def __call__(self, row: Any, total: int) -> None:
        from labelwright.search.trials import seconds_left

        sizes, rows = self._search.sizes_, self._search.table_
        settings = ", ".join(f"{name.replace('__', '.')} {_short(value)}" for name, value in row["setting"].items())
        left = duration(seconds_left(rows, total, sizes))
        here = sum(each["step"] == row["step"] for each in rows)
        place = f"step {row['step']}/{len(sizes)} {here:>{len(str(total))}}/{total}"
        why = f"  ({row['error']})" if row["error"] else ""
        say(
            f"{place}  {sizes[row['step'] - 1]:7,}  {_score(row):>6}  {row['seconds']:7.2f} s  {settings}{why}"
            f"  (about {left} left)"
        )


def table(rows: Any, chosen: dict[str, Any]) -> list[str]:
    """The settings that came furthest, the chosen one first: each with its last sample and its score there."""
    last: dict[int, Any] = {id(row["setting"]): row for row in rows}
    ranked = sorted(last.values(), key=lambda row: (-row["step"], -(row["score"] or 0.0)))
    ranked.sort(key=lambda row: row["setting"] is not chosen)
    names = list(dict.fromkeys(name for row in ranked for name in row["setting"]))
    titles = [name.rpartition("_")[2] for name in names]
    lines = [[*titles, "sentences", "score"]]
    for row in ranked[:SHOWN]:
        values = [_short(row["setting"].get(name, "")) for name in names]
        lines.append([*values, f"{row['n_train'] + row['n_test']:,}", _score(row)])
    right = [i for i, title in enumerate(lines[0]) if title in ("k", "threshold", "sentences", "score")]
    return [*aligned(lines, right), *([f"... and {len(ranked) - SHOWN:,} more"] if len(ranked) > SHOWN else [])]


def _score(row: Any) -> str:
    return "failed" if row["score"] is None else f"{100 * row['score']:.2f}"


def _short(value: Any) -> str:
    return "by column" if isinstance(value, list) else str(value)
