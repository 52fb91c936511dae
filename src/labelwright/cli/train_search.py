"""labelwright train --search: the settings of a tagger that do best on growing samples of the training data."""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from labelwright.cli.common import aligned, say
from labelwright.cli.reading import has_attributes
from labelwright.cli.recipe import Request
from labelwright.errors import OptionError
from labelwright.settings import Place, Setting, Switch, settings_of
from labelwright.wording import did_you_mean

SWITCH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
FIRST = 500  # sentences of the first sample; the samples of a grid then double, or nearly
SHOWN = 10  # settings of a search that are written out


def joined_grid(arguments: list[str]) -> list[str]:
    """The arguments with all that belongs to --search as one of them.

    >>> joined_grid(["--search", "l1=0,1", "l2=1", "a.txt"]), joined_grid(["a.txt", "--search"])
    (['--search', 'l1=0,1 l2=1', 'a.txt'], ['a.txt', '--search', ''])
    """
    joined: list[str] = []
    grid: int | None = None  # its place
    for argument in arguments:
        if grid is not None and re.match(r"[A-Za-z]\w*([-.]\w+)*=", argument):
            joined[grid] = f"{joined[grid]} {argument}".strip()
            continue
        grid = None
        joined.append(argument)
        if argument == "--search":
            joined.append("")
            grid = len(joined) - 1
    return joined


def settings_to_try(model: Any, asked: Request) -> list[dict[str, Any]]:
    """The settings to try: the grid that was given, or else those of the tagger with the values that were given."""
    grid = asked.get("search")
    if isinstance(grid, dict) and grid:
        return [_typed(model, grid, asked)]
    given = {name: asked.values[name] for name in asked.kind.searched if name in asked.values}
    tried: list[dict[str, Any]] = model.searchable_settings(given)
    if not asked.kind.searched:
        raise OptionError(f"{asked.place('search')}: name settings and the values to try: NAME=X,Y ...")
    if len(tried) < 2:
        raise OptionError("--search: all settings are given, nothing is left to search; leave it out")
    return tried


def _typed(model: Any, grid: dict[str, Any], asked: Request) -> dict[str, list[Any]]:
    """The grid with the names of settings, and with values in place of texts."""
    place, typed = asked.place("search"), {}
    for given, texts in grid.items():
        name, setting = _setting(model, given, place)
        values = texts if isinstance(texts, list) else [texts]
        try:
            typed[name] = [_value(setting, value, place) for value in values]
        except OptionError as error:
            raise OptionError(f"{place}: {given}: {str(error).partition(': ')[2]}") from None
        if name in asked.values:
            raise OptionError(f"{place}: {given} is given, too; leave {setting.flag} out")
    return typed


def _setting(model: Any, given: str, place: str) -> tuple[str, Setting]:
    """The setting that a name, or the name of its option, means: l2, iterations, min-count; of a layer pos.l2."""
    part, _, rest = given.replace("__", ".").rpartition(".")
    from labelwright.taggers.estimator import models_in

    owner = models_in(model.get_params(deep=False)).get(part) if part else model
    if owner is None:
        raise OptionError(f"{place}: {given}: no layer {part!r} in this model")
    settings = settings_of(type(owner))
    names = {flag.lstrip("-"): name for name, each in settings.items() for flag in each.flags} | {
        n: n for n in settings
    }
    if rest not in names:
        raise OptionError(f"{place}: no setting {rest!r}{did_you_mean(rest, names)}")
    return f"{part}__{names[rest]}" if part else names[rest], settings[names[rest]]


def _value(setting: Setting, value: Any, place: str) -> Any:
    """A value of a setting, from the text of an option or from a recipe."""
    if not isinstance(value, str):
        return setting.from_recipe(value, Place(place))
    if isinstance(setting.kind, Switch):
        if value not in SWITCH:
            raise OptionError(f"{setting.name}: expected yes or no, got {value!r}")
        return SWITCH[value]
    return setting.parsed(value)


class Searched(NamedTuple):
    """The outcome of a search."""

    model: Any  # untrained, with the best setting
    record: dict[str, Any]  # what is worth knowing about the search
    rows: list[Any]
    sizes: list[int]


def searched(model: Any, settings: list[dict[str, Any]], data: Any, dev: Any, asked: Request, trials: Path) -> Searched:
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
        shown = table(search.table_, search.best_params_) if not grid else search.table(SHOWN).splitlines()
        for line in shown:
            say(line)
    return Searched(search.best_model(), record, search.table_, search.sizes_)


def how_many(record: dict[str, Any]) -> str:
    """How many settings were tried, and why no more."""
    from labelwright.search.shown import tried

    return f"the best of {tried(record['tried'], record['settings'])}; {record['stopped']}"


class _Lines:
    """One line for each setting that was tried, with the time that is left."""

    def __init__(self, search: Any):
        self._search = search

    def __call__(self, row: Any, total: int) -> None:
        from labelwright.search.shown import seconds_left

        sizes, rows = self._search.sizes_, self._search.table_
        settings = ", ".join(f"{name} {_short(value)}" for name, value in row["setting"].items())
        left = duration(seconds_left(rows, total, sizes))
        here = sum(each["step"] == row["step"] for each in rows)
        place = f"step {row['step']}/{len(sizes)} {here:>{len(str(total))}}/{total}"
        why = f"  ({row['error']})" if row["error"] else ""
        say(
            f"{place}  {sizes[row['step'] - 1]:7,}  {_score(row):>6}  {row['seconds']:7.2f} s  {settings}{why}"
            f"  (about {left} left)"
        )


def duration(seconds: float) -> str:
    """A time to read.

    >>> duration(3.2), duration(200), duration(8000)
    ('3 s', '3 min', '2.2 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


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
