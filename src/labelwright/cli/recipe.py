"""From options and recipes to the settings of a training run."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from labelwright.errors import LabelwrightError, OptionError, unreadable
from labelwright.settings import (
    Needs,
    NotInherited,
    Place,
    Setting,
    read_table,
    refusal,
    settings_of,
    without_use,
)
from labelwright.taggers import registry
from labelwright.wording import did_you_mean, either, shortened


class Request(NamedTuple):
    """What is asked of a training run: settings of the run and of the tagger, from options and from a recipe."""

    name: str  # of the tagger
    kind: type[Any]
    run: Mapping[str, Setting]  # settings of the run,
    settings: Mapping[str, Setting]  # and of the tagger
    values: dict[str, Any]  # what was given for them
    options: frozenset[str]  # those that options give; the others are from the recipe
    recipe: str | None
    table: Mapping[str, Any]  # the recipe as it stands in its file

    @property
    def parameters(self) -> dict[str, Any]:
        """What was given for the constructor of the tagger."""
        return {name: value for name, value in self.values.items() if name in self.settings}

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a setting, if it was given."""
        return self.values.get(name, default)

    def can(self, ability: str) -> bool:
        """Whether training this tagger can do this."""
        return ability in self.kind._training_options

    def place(self, name: str) -> str:
        """Where a setting was given: its option, or the file and the key."""
        if name in self.options or self.recipe is None:
            return (self.settings.get(name) or self.run[name]).flag
        return f"{self.recipe}: {name}"

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors about settings of the recipe name it."""
        try:
            yield
        except LabelwrightError as error:
            name, _, rest = str(error).partition(": ")
            if name not in self.values or name in self.options:
                raise
            raise type(error)(f"{self.place(name)}: {rest}") from None

    def files(self) -> list[str]:
        """The files that the settings name."""
        files = [self.recipe] if self.recipe else []
        for name, setting in {**self.run, **self.settings}.items():
            given = self.table.get(name) if name not in self.options else self.values[name]
            if name in self.values:
                files += setting.kind.files(given, Place(self.place(name), Path(self.recipe or "").parent))
        return files


def request(name: str, run: Mapping[str, Setting], options: Mapping[str, Any], complete: bool = True) -> Request:
    """The settings of a run with this tagger: those of the recipe, and over them those of the options.  With
    `complete`, those that every tagger of its kind needs must be there."""
    kind, recipe = registry.model_class(name), options.get("recipe")
    of_tagger = {key: each for key, each in settings_of(kind).items() if each.in_options or each.in_recipes}
    of_run = {key: setting for key, setting in run.items() if offered(kind, setting)}
    settings = {**of_run, **of_tagger}
    table = read_recipe(recipe) if recipe else {}
    values = read_table(table, settings, recipe or "", lambda key: unknown_key(key, name, settings, run))
    values |= options
    asked = Request(name, kind, of_run, of_tagger, values, frozenset(options), recipe, table)
    for setting in of_tagger.values():
        if complete and setting.required and setting.name not in values:
            in_recipe = f"--model {name}: its {setting.name} stand in a recipe; add --recipe FILE.toml"
            raise OptionError(f"{f'{recipe}: no {setting.name}' if recipe else in_recipe}; {setting.kind.hint}")
    return asked


def tagger(asked: Request, kept: Mapping[str, Any]) -> Any:
    """A new tagger with the settings that were given, and the kept ones where nothing was given."""
    model = asked.kind(**{**kept, **asked.parameters})
    values, grid = model.get_params(deep=False), asked.get("search")
    searched = () if grid is None else (*asked.kind._searched, *(grid if isinstance(grid, dict) else ()))
    for setting, only in without_use(values, asked.settings, asked.parameters):
        if only.setting not in searched or only.setting in asked.values:
            why = refusal(only, asked.settings, values[only.setting])
            raise OptionError(f"{asked.place(setting.name)}: {why}")
    with asked.named():
        model._check_parameters()
    return model


def start_model(asked: Request) -> tuple[Any, dict[str, Any]]:
    """The trained model to start from, if there is one and this tagger can start from it; and its settings that this
    tagger takes over, but for those at their defaults."""
    path = asked.get("start_from")
    if path is None:
        return None, {}
    old = registry.load(path)
    why_not = asked.kind._why_not_from(old)
    if why_not is not None:
        raise OptionError(f"{asked.place('start_from')}: {path} is {why_not}")
    theirs, ours = settings_of(type(old)), settings_of(asked.kind)
    return old, {
        name: value
        for name, value in old.get_params(deep=False).items()
        if name in ours and not theirs[name].has(NotInherited) and value != theirs[name].default
    }


# -- names ------------------------------------------------------------------------------------------------------------


def offered(kind: type[Any], setting: Setting) -> bool:
    """Whether a setting of the run is one for this tagger."""
    needs = setting.marker(Needs)
    return (needs is None or needs.ability in kind._training_options) and kind._refusal(setting.name) is None


def takers(setting: str, run: Mapping[str, Setting]) -> list[str]:
    """The taggers that have this setting, of their own or for the run."""
    kinds = {name: registry.model_class(name) for name in registry.command_line_names()}
    return [
        name
        for name, kind in kinds.items()
        if setting in settings_of(kind) or (setting in run and offered(kind, run[setting]))
    ]


def only_for(setting: Setting | str, name: str, run: Mapping[str, Setting], place: str) -> str | None:
    """What to say of a setting that this tagger does not have, if others do."""
    key = setting if isinstance(setting, str) else setting.name
    why_not = registry.model_class(name)._refusal(key)
    if why_not is not None:
        return f"{place}: {why_not}"
    others = takers(key, run)
    return f"{place}: not for --model {name}, only for {either(others)}" if others and name not in others else None


def unknown_key(key: str, name: str, settings: Mapping[str, Setting], run: Mapping[str, Setting]) -> str:
    """What to say of a key of a recipe that this tagger does not have; `run` are all settings of runs."""
    known = [each.name for each in settings.values() if each.in_recipes]
    others = {each.name: each for each in _all_settings(run) if each.in_recipes}
    near = did_you_mean(key, known) or did_you_mean(key, others)
    return only_for(key, name, run, key) or f"unknown key {shortened(key, 40)!r}{near}"


def unknown_option(option: str, name: str, run: Mapping[str, Setting]) -> str | None:
    """What to say of an option that this tagger does not have, if others have it or one much like it."""
    others = {flag: each for each in _all_settings(run) if each.in_options for flag in _flags(each)}
    if option in others:
        return only_for(others[option], name, run, others[option].flag)
    near = did_you_mean(option, others)
    return f"no such option {option}{near.replace(chr(39), '')}" if near else None


def _all_settings(run: Mapping[str, Setting]) -> Iterator[Setting]:
    """The settings of runs, and those of all taggers."""
    yield from run.values()
    for name in registry.command_line_names():
        yield from settings_of(registry.model_class(name)).values()


def _flags(setting: Setting) -> tuple[str, ...]:
    """Whatever turns the option of a setting on or off."""
    return (*setting.flags, f"--no-{setting.flags[-1][2:]}")


# -- files ------------------------------------------------------------------------------------------------------------

LARGEST = 1 << 20  # bytes of a recipe
MOST_PARTS = 20  # of a key
STRINGS = (  # of TOML; the first two may have several lines
    r'"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*"{3,5}',
    r"'{3}[\s\S]*?'{3,5}",
    r'"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"',
    r"'(?!'')[^'\n]*'",
)
_PART, _DOT = rf"(?:{'|'.join(STRINGS)}|[A-Za-z0-9_-]+)", r"[ \t]*\.[ \t]*"
_KEYS = re.compile(rf"""{_PART}(?:{_DOT}{_PART}){{0,{MOST_PARTS - 1}}}(?P<more>{_DOT}{_PART})?|#.*|(?P<open>["'])""")


def read_recipe(path: str) -> dict[str, Any]:
    """A recipe as it stands in its file."""
    import tomllib

    from labelwright.validation import DEEPEST, is_deep

    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise unreadable(OptionError, path, error) from None
    if len(content) > LARGEST:
        raise OptionError(f"{path}: a recipe of more than {LARGEST >> 20} MB; move tables to files of their own")
    try:
        text = content.decode("utf-8")
        _check_keys(text, path)
        table = tomllib.loads(text)
    except LabelwrightError:
        raise
    except (ValueError, RecursionError) as error:  # also a number of too many digits
        raise OptionError(f"{path}: not TOML: {error}") from None
    for key, value in table.items():
        if is_deep(value):
            raise OptionError(f"{path}: {shortened(key, 40)}: more than {DEEPEST} levels of tables and lists")
    return table


def _check_keys(text: str, path: str) -> None:
    """Refuse keys of very many parts, a.b.c..., on which Python's parser takes quadratic time and memory."""
    for match in _KEYS.finditer(text):
        if match["open"]:  # a string without an end, which the parser refuses
            return
        if match["more"]:
            line = text.count("\n", 0, match.start()) + 1
            raise OptionError(f"{path}: line {line}: a key of more than {MOST_PARTS} parts; shorten it")
