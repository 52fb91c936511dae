"""labelwright train --search: what is tried, checked before the first is trained, and the settings
that do best on growing samples of the training data.

--search l1=0,0.5 l2=0.1,1,10 template=default,ner        of a layer of a cascade: chunk.l2=1,10
search = {l1 = [0.0, 0.5], "chunk.l2" = [1.0, 10.0]}      in a recipe
"""

import math
import os
import re
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

from labelwright.cli.recipe import IN_OPTIONS, IN_RECIPES, Request
from labelwright.cli.show import say
from labelwright.errors import LabelwrightError, OptionError
from labelwright.settings import OfTheRun, Place, Setting, Switch, refusal, settings_of, without_use
from labelwright.taggers import registry
from labelwright.wording import did_you_mean, duration, either

FIRST = 500  # sentences of the first sample; the samples of a grid then double, or nearly
SHOWN = 10  # settings of a search that are written out
SWITCH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
NONE = "none"  # the value of a setting that may be left out
ASSIGNED = r"[A-Za-z]\w*([-.]\w+)*="


def joined_grid(arguments: list[str], settings: Container[str] = ()) -> list[str]:
    """The arguments with all that belongs to --search as one of them; a known setting without
    values does, too.

    >>> joined_grid(["--search", "l1=0,1", "l2=1", "a.txt"]), joined_grid(["a.txt", "--search"])
    (['--search', 'l1=0,1 l2=1', 'a.txt'], ['a.txt', '--search', ''])
    >>> joined_grid(["--search=l1=0,1", "l2", "a.txt"], ["l2"])
    ['--search', 'l1=0,1 l2', 'a.txt']
    """
    joined: list[str] = []
    grid: int | None = None  # its place
    for argument in arguments:
        is_setting = argument in settings and not os.path.exists(argument)
        if grid is not None and (is_setting or re.match(ASSIGNED, argument)):
            joined[grid] = f"{joined[grid]} {argument}".strip()
        elif argument.partition("=")[0] == "--search":
            joined += ["--search", argument.partition("=")[2]]
            grid = len(joined) - 1
        else:
            grid = None
            joined.append(argument)
    return joined


def settings_by_name(kind: type[Any]) -> dict[str, Setting]:
    """The settings of a tagger, by their names and by those of their options: max_iter, iterations,
    min-count."""
    settings = {
        name: each for name, each in settings_of(kind).items() if each.in_options or each.in_recipes
    }
    return {flag.lstrip("-"): each for each in settings.values() for flag in each.flags} | settings


def settings_to_try(model: Any, asked: Request) -> list[dict[str, Any]]:
    """The settings to try: the grid that was given, or else those of the tagger with the values
    that were given; none without a search."""
    grid = asked.get("search")
    if grid in (None, False):
        return []
    if isinstance(grid, dict) and grid:
        return [_typed(model, grid, asked)]
    given = {name: asked.values[name] for name in asked.kind._searched if name in asked.values}
    tried: list[dict[str, Any]] = model._searchable_settings(given)
    if not asked.kind._searched:
        raise OptionError(
            f"{asked.place('search')}: name settings and the values to try, as in {_example(asked)}"
        )
    if len(tried) < 2:
        raise OptionError(
            "--search: all settings are given, nothing is left to search; leave it out"
        )
    return tried


def _example(asked: Request) -> str:
    return IN_OPTIONS if "search" in asked.options or asked.recipe is None else IN_RECIPES


# -- names and values ------------------------------------------------------------------------------


def _typed(model: Any, grid: dict[str, Any], asked: Request) -> dict[str, list[Any]]:
    """The grid with the names of settings, and with values in place of texts; of a recipe also
    chunk.l2 = [...] as TOML reads it, {"chunk": {"l2": ...}}."""
    place, layers, typed, flat = (
        asked.place("search"),
        _layers(model),
        dict[str, list[Any]](),
        dict[str, Any](),
    )
    for name, values in grid.items():
        nested = name in layers and isinstance(values, Mapping)
        flat |= (
            {f"{name}.{rest}": each for rest, each in values.items()} if nested else {name: values}
        )
    for given, texts in flat.items():
        part, _, rest = given.replace("__", ".").rpartition(".")
        if part and part not in layers:
            among = f", expected one of {', '.join(layers)}" if layers else ", which has none"
            raise OptionError(f"{place}: {given}: no layer {part!r} in this {asked.name}{among}")
        owner = layers[part] if part else model
        setting = _setting(owner, rest, layers if owner is model else {}, place)
        name = f"{part}__{setting.name}" if part else setting.name
        if name in typed:
            raise OptionError(f"{place}: {given} is there twice; give all its values together")
        if name in asked.values:
            raise OptionError(f"{place}: {given} is given, too; leave {asked.place(name)} out")
        typed[name] = _values(setting, texts, f"{place}: {given}", asked)
    _check_use(model, typed, place)
    return typed


def _layers(model: Any) -> dict[str, Any]:
    from labelwright.taggers.estimator import models_in

    return models_in(model.get_params(deep=False))


def _setting(owner: Any, name: str, layers: Mapping[str, Any], place: str) -> Setting:
    """The setting of a model that a name means; of another name it is said who has it, or which
    there are."""
    known, kind = settings_by_name(type(owner)), registry.name_of(type(owner))
    setting = known.get(name)
    if setting is not None and setting.has(OfTheRun):
        raise OptionError(f"{place}: {name} changes no score; leave it out of the search")
    if setting is not None:
        return setting
    inside = [
        f"{part}.{name}" for part, each in layers.items() if name in settings_by_name(type(each))
    ]
    takers = [
        other
        for other in registry.command_line_names()
        if name in settings_by_name(registry.model_class(other))
    ]
    if inside:
        told = f"no setting {name!r} of the {kind}; its layers have it: {either(inside)}"
    elif takers:
        told = f"{name}: not for {kind}, only for {either(takers)}"
    else:
        names = dict.fromkeys(
            each.flag.lstrip("-") for each in known.values() if not each.has(OfTheRun)
        )
        told = (
            f"no setting {name!r} of {kind}, which has "
            f"{', '.join(names)}{did_you_mean(name, known)}"
        )
    raise OptionError(f"{place}: {told}")


def _values(setting: Setting, texts: Any, place: str, asked: Request) -> list[Any]:
    """The values of a setting to try, from the texts of an option or from a recipe."""
    values, made = texts if isinstance(texts, list) else [texts], list[Any]()
    if not values:
        raise OptionError(f"{place}: no values to try; give them as in {_example(asked)}")
    if setting.kind.repeated and any(isinstance(value, str) for value in values):
        told = f"tables of files stand in a recipe: search = {{{setting.name} = [{{NAME = FILE}}]}}"
        raise OptionError(f"{place}: {told}")
    try:
        for value in values:
            if setting.optional and value == NONE:
                made.append(None)
            elif not isinstance(value, str):
                made.append(
                    setting.from_recipe(value, Place(place, Path(asked.recipe or "").parent))
                )
            elif not isinstance(setting.kind, Switch):
                made.append(setting.parsed(value))
            elif value in SWITCH:
                made.append(SWITCH[value])
            else:
                raise OptionError(f"expected yes or no, got {value!r}")
    except OptionError as error:
        told = str(error)
        for known in (place, setting.flag, setting.name):
            told = told.removeprefix(f"{known}: ")
        raise OptionError(f"{place}: {told}") from None
    return made


def _check_use(model: Any, grid: Mapping[str, list[Any]], place: str) -> None:
    """Refuse settings that mean nothing beside any value of another one."""
    layers = _layers(model)
    for name in grid:
        part, _, rest = name.rpartition("__")
        owner = layers[part] if part else model
        settings, prefix = settings_of(type(owner)), f"{part}__" if part else ""
        tried = {key: grid.get(f"{prefix}{key}", [getattr(owner, key)]) for key in settings}
        beside = {key: list(map(str, values)) for key, values in tried.items()}
        for _, only in without_use(beside, settings, [rest]):
            told = refusal(only, settings, None).rpartition(",")[0]
            got = either(map(repr, tried[only.setting]))
            raise OptionError(f"{place}: {name.replace('__', '.')}: {told}, got {got}")


def check_choices(model: Any, tried: list[dict[str, Any]], data: Any, asked: Request) -> None:
    """Refuse templates, label schemes and files that cannot be used with these data, before
    anything is trained."""
    layers = _layers(model)
    for name, values in ((name, values) for grid in tried for name, values in grid.items()):
        part, _, rest = name.rpartition("__")
        kind = type(settings_of(type(layers[part] if part else model))[rest].kind).__name__
        for value in values if isinstance(values, list) else ():
            try:
                if value is not None:
                    _check_choice(kind, value, None if layers else data)
            except LabelwrightError as error:
                told = str(error).removeprefix(f"{rest}: ")
                raise OptionError(
                    f"{asked.place('search')}: {name.replace('__', '.')}: {told}"
                ) from None


def _check_choice(kind: str, value: Any, data: Any) -> None:
    """Check a value of this kind with the data; of a layer, which may read others, only that it is
    there (None)."""
    from labelwright.corpus.schemes import detect_scheme
    from labelwright.features.builtin import template
    from labelwright.taggers.arguments import scheme_named

    if kind == "TemplateName":
        template(value, 1 if data is None else len(data.input_names), check=data is not None)
    elif kind == "SchemeName":
        scheme_named(value, "iob2" if data is None else detect_scheme(data.values(data.label)))
    elif kind == "VectorFile" and isinstance(value, str | Path) and not os.path.isfile(value):
        raise OptionError(f"{value}: cannot read: no such file")


# -- the search ------------------------------------------------------------------------------------


def searched(
    model: Any,
    settings: list[dict[str, Any]],
    data: Any,
    dev: Any,
    asked: Request,
    trials: Path,
    weights: Any,
    client: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """A search for the best of many settings, and what is worth knowing about it; `trials` is the
    file from which it resumes where it was interrupted, `client` that of a cluster on which
    settings are tried side by side."""
    from labelwright.search.progressive import ProgressiveSearch

    quiet, grid = (
        asked.get("quiet", False),
        isinstance(asked.get("search"), dict) and bool(asked.get("search")),
    )
    lines = not quiet and (grid or asked.get("verbose", False))
    steps = 1 + max(0, int(math.log2(max(len(data), 1) / FIRST))) if grid else 8
    how: Any = {
        "random_state": asked.get("random_state", 0),
        "refit": False,
        "verbose": 0 if quiet or lines else 1,
    }
    search = ProgressiveSearch(model, settings, steps=steps, **how)
    if trials.exists() and not quiet:
        say(
            f"{trials}: left by an interrupted search; its trials are not repeated if data and "
            "settings are the same"
        )
    progress = _say_trial(search) if lines else None
    search.fit(
        data, dev=dev, progress=progress, checkpoint=trials, sample_weight=weights, client=client
    )
    if not quiet:
        head, *rows = search.table(SHOWN).splitlines()
        # as options name the settings of layers
        for line in (re.sub(r"__(\w+)", r".\1 ", head), *rows):
            say(line)
    record = {"settings": search.n_settings_, "tried": search.n_tried_, "scoring": search.scoring_}
    return search, record | {
        "score": search.best_score_,
        "stopped": search.stopped_,
        "best": search.best_params_,
    }


def _say_trial(search: Any) -> Callable[[Any, int], None]:
    """What says one line for each setting that was tried, with the time that is left."""
    from labelwright.search.trials import seconds_left

    def say_it(row: Any, total: int) -> None:
        sizes, rows = search.sizes_, search.table_
        here = sum(each["step"] == row["step"] for each in rows)
        place = f"step {row['step']}/{len(sizes)} {here:>{len(str(total))}}/{total}"
        score = "failed" if row["score"] is None else f"{100 * row['score']:.2f}"
        values = {
            name: "by column" if isinstance(value, list) else value
            for name, value in row["setting"].items()
        }
        settings = ", ".join(f"{name.replace('__', '.')} {value}" for name, value in values.items())
        why = f"  ({row['error']})" if row["error"] else ""
        left = duration(seconds_left(rows, total, sizes))
        say(
            f"{place}  {sizes[row['step'] - 1]:7,}  {score:>6}  {row['seconds']:7.2f} s"
            f"  {settings}{why}  (about {left} left)"
        )

    return say_it
