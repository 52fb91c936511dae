"""The settings of a training run: options of the run beside those of its tagger, recipes, and what
both ask for."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from labelwright.cli import options as usual
from labelwright.cli.options import (
    DATA,
    NOT_NEGATIVE,
    OUTPUT,
    SCHEME_NAMES,
    argument,
    changed,
    option,
)
from labelwright.cli.workers import DASK, SKIP_BAD
from labelwright.errors import LabelwrightError, OptionError, unreadable
from labelwright.settings import NOT_NEGATIVE as SECONDS
from labelwright.settings import (
    REQUIRED,
    AtLeast,
    Bounds,
    Choice,
    Default,
    Group,
    Help,
    Kind,
    Needs,
    NotInherited,
    NotWith,
    OnlyWith,
    OptionOnly,
    Place,
    Setting,
    Text,
    Whole,
    read_table,
    refusal,
    settings_of,
    without_use,
)
from labelwright.taggers import registry
from labelwright.taggers.declared import FEATURES, LOG_LINEAR, TRAINING, chosen, constructor
from labelwright.wording import did_you_mean, either, shortened, shown

IN_OPTIONS, IN_RECIPES = "--search l2=0.1,1,10", "search = {l2 = [0.1, 1.0, 10.0]}"  # examples

# -- options of a run ------------------------------------------------------------------------------


class Grid(Kind):
    """Settings and the values to try: l1=0,0.5 l2=0.1,1,10; in a recipe a table of lists, or
    true."""

    expected = f"settings with values to try, as in {IN_OPTIONS}"
    metavar = "NAME=X,Y"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, dict | bool)

    def from_text(self, text: str) -> dict[str, list[str]]:
        grid: dict[str, list[str]] = {}
        for name, _, values in (part.partition("=") for part in text.split()):
            if not name or not values:
                raise OptionError(
                    f"search: {name or text}: no values to try; give them as in {IN_OPTIONS}"
                )
            if name in grid:
                both = ",".join([*grid[name], values])
                raise OptionError(f"search: {name} is there twice; write --search {name}={both}")
            grid[name] = values.split(",")
        return grid

    def from_recipe(self, value: Any, place: Place) -> Any:
        if not self.accepts(value):
            raise OptionError(
                f"{place.name}: expected true, or settings with values to try, as in {IN_RECIPES}; "
                f"got {shown(value, 60)}"
            )
        return value


class FileName(Text):
    def files(self, value: Any, place: Place) -> list[str]:
        return [value] if isinstance(value, str) else []


class ColumnNames(Text):
    """Names separated by commas; in a recipe also a list of them."""

    def from_recipe(self, value: Any, place: Place) -> Any:
        return ",".join(map(str, value)) if isinstance(value, list) else value


def recipe_key(setting: Setting, kind: Kind | None = None) -> Setting:
    return replace(changed(setting, without=OptionOnly), kind=kind or setting.kind)


def _of_run(
    flags: str,
    text: str,
    group: str,
    kind: Kind | None = None,
    needs: str = "",
    key: bool = True,
    **more: Any,
) -> Setting:
    """An option, perhaps a key of recipes, too; `needs` is what taggers that take it have in
    `_training_options`."""
    setting = option(flags, text, group, kind, **more)
    setting = recipe_key(setting) if key else setting
    return changed(setting, Needs(needs)) if needs else setting


QUIET = option("-q --quiet", "No progress, no summary.", OUTPUT)
TRAIN = argument(
    "train",
    "TRAIN",
    "Column file (.gz .bz2 .xz), .conllu, or -; with --dask also patterns, addresses.",
)
OF_RUN = [  # what a run is asked beside the settings of its tagger, in the order of the help
    _of_run("--model NAME", "The tagger to train.", DATA, default="crf"),
    recipe_key(usual.COLUMNS, ColumnNames()),
    *map(recipe_key, (usual.LABEL, usual.FORMAT)),
    recipe_key(usual.LABEL_NAMES, ColumnNames()),
    recipe_key(usual.SKIP_BAD_SPANS),
    recipe_key(changed(usual.SPLITTING[0], Default("as in TRAIN"))),
    *map(recipe_key, usual.SPLITTING[1:3]),
    recipe_key(changed(usual.SPLITTING[3], Default("split"))),
    _of_run("--scheme NAME", f"Rewrite labels as {SCHEME_NAMES}.", DATA),
    _of_run("--dev FILE", "Development data: keep the best weights, stop early.", DATA, FileName()),
    recipe_key(usual.ARRAYS, FileName()),
    _of_run("--dev-arrays FILE", "The same for the development data.", DATA, FileName()),
    option("--recipe FILE.toml", "Settings from a file; options override them.", DATA),
    _of_run(
        "--unmarked outside|unknown",
        (
            "What O says: outside of any span, or unknown, since only some spans are marked (crf: "
            "add --entity-rate)."
        ),
        DATA,
        Choice(["outside", "unknown"]),
        "partial_labels",
        shown="outside",
    ),
    _of_run(
        "--allowed-labels FILE",
        (
            "Words, each with the labels that it may have, on lines of a file: for tokens whose "
            "label is unknown (_)."
        ),
        DATA,
        FileName(),
        "partial_labels",
    ),
    _of_run(
        "--sentence-weight COLUMN", "How many times a sentence counts.", DATA, needs="sample_weight"
    ),
    _of_run(
        "--token-weight COLUMN",
        "How much a wrong label counts at a token.",
        DATA,
        needs="sample_weight",
    ),
    usual.MAX_INPUT,
    _of_run(
        "--seed N",
        "Seed of the samples of a search.",
        TRAINING,
        NOT_NEGATIVE,
        "search",
        name="random_state",
    ),
    _of_run(
        "--search NAME=X,Y", "Try settings on growing samples, train the best.", TRAINING, Grid()
    ),
    _of_run(
        "--folds K",
        "Cross-validate first: mean and deviation.",
        TRAINING,
        Whole(Bounds(AtLeast(2))),
    ),
    option(
        "--learning-curve",
        "First train on an eighth, a quarter, half: is more data worth it?",
        TRAINING,
    ),
    _of_run(
        "--start-from MODEL",
        "Begin with the settings and weights of a trained model.",
        TRAINING,
        needs="init",
    ),
    _of_run(
        "--continue MODEL",
        "Continue training a model with the sentences of TRAIN.",
        TRAINING,
        needs="partial_fit",
        key=False,
        name="continue_from",
    ),
    _of_run(
        "--resume",
        "Resume from MODEL.checkpoint, with an identical result.",
        TRAINING,
        None,
        "checkpoint",
        False,
    ),
    _of_run(
        "--checkpoint-every SECONDS",
        "How often MODEL.checkpoint is written.",
        TRAINING,
        SECONDS,
        "checkpoint",
        default=10.0,
    ),
    _of_run(
        "--memory-map DIR",
        (
            "Keep encoded data in temporary files in this folder, not in memory; the model is the "
            "same."
        ),
        TRAINING,
        needs="memory_map",
        key=False,
    ),
    changed(DASK, Needs("client"), Group(TRAINING), NotWith("continue_from")),
    changed(SKIP_BAD, Needs("client"), OnlyWith("dask")),
    _of_run(
        "--calibrate METHOD",
        "Calibrate the model on --dev, or by cross-fitting: temperature or isotonic.",
        TRAINING,
        Choice(["temperature", "isotonic"]),
    ),
    option("-o --output MODEL", "Model file to write.", OUTPUT, default=REQUIRED),
    option("--plot FILE.png", "Draw the training, the search, the learning curve.", OUTPUT),
    QUIET,
    option("-v --verbose", "One line per iteration.", OUTPUT),
]
NEW_MODEL = (  # options that a model which is continued has no use for
    "recipe", "tokenizer", "characters", "token_pattern", "sentences", "arrays", "dev_arrays",
    "random_state", "search", "folds", "learning_curve", "start_from", "resume",
    "checkpoint_every", "memory_map", "calibrate", "plot", "verbose",
)  # fmt: skip
RUN = {
    each.name: changed(each, NotWith("continue_from")) if each.name in NEW_MODEL else each
    for each in OF_RUN
}


# The settings that most taggers have, for the help of all of them.
OF_MOST = chosen(
    "template dictionaries clusters vectors order cells min_count constraints max_iter n_jobs "
    "random_state l1 l2",
    LOG_LINEAR,
)
RARE = (  # for some formats of files, or seldom asked for
    "label_names", "skip_bad_spans", "tokenizer", "characters", "token_pattern", "sentences",
    "arrays", "dev_arrays", "learning_curve", "calibrate", "unmarked", "allowed_labels",
    "sentence_weight", "token_weight", "skip_bad",
)  # fmt: skip
MOST = ("start_from", "continue_from", "resume")  # options that not all taggers have, but most
PLACES = {DATA: 0, FEATURES: 1, TRAINING: 2, OUTPUT: 4}  # of headings; the tagger's own is 3

# Options that mean something else to taggers without an ability of `_training_options`: the
# ability, and their help.
WITHOUT = {
    "dev": ("dev", "Development data: the trained model is scored on them."),
    "verbose": ("progress", "One line for each setting that --search tries."),
}


def for_tagger(kind: type[Any], setting: Setting) -> Setting:
    """A setting of the run, with the help that is true for this tagger."""
    ability, text = WITHOUT.get(setting.name, ("", ""))
    return (
        changed(setting, Help(text))
        if ability and ability not in kind._training_options
        else setting
    )


def settings_for_all() -> list[Setting]:
    """The options that most taggers have; no tagger is imported for them."""
    run = [
        each
        for key, each in RUN.items()
        if (not each.has(Needs) or key in MOST) and key not in RARE
    ]
    common = settings_of(constructor(OF_MOST)).values()
    # constructors differ
    merged = {s.name: s if s.name in ("l1", "l2") else replace(s, default=None) for s in common}
    return in_order([each for each in run if each.name not in merged] + list(merged.values()))


def in_order(settings: Iterable[Setting], places: Mapping[str, float] = PLACES) -> list[Setting]:
    return sorted(settings, key=lambda setting: places.get(setting.group or "", 3))


# -- what is asked of a run ------------------------------------------------------------------------


class Request(NamedTuple):
    """What is asked of a training run: settings of the run and of the tagger, from options and from
    a recipe."""

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
        return {name: value for name, value in self.values.items() if name in self.settings}

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def can(self, ability: str) -> bool:
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
        files = [self.recipe] if self.recipe else []
        for name, setting in {**self.run, **self.settings}.items():
            given = self.table.get(name) if name not in self.options else self.values[name]
            if name in self.values:
                files += setting.kind.files(
                    given, Place(self.place(name), Path(self.recipe or "").parent)
                )
        return files


def request(
    name: str, run: Mapping[str, Setting], options: Mapping[str, Any], complete: bool = True
) -> Request:
    """The settings of a run with this tagger: those of the recipe, and over them those of the
    options.  With `complete`, those that every tagger of its kind needs must be there."""
    kind, recipe = registry.model_class(name), options.get("recipe")
    of_tagger = {
        key: each for key, each in settings_of(kind).items() if each.in_options or each.in_recipes
    }
    of_run = {key: setting for key, setting in run.items() if offered(kind, setting)}
    settings = {**of_run, **of_tagger}
    table = read_recipe(recipe) if recipe else {}
    values = read_table(
        table, settings, recipe or "", lambda key: unknown_key(key, name, settings, run)
    )
    values |= options
    asked = Request(name, kind, of_run, of_tagger, values, frozenset(options), recipe, table)
    for setting in of_tagger.values():
        if complete and setting.required and setting.name not in values:
            in_recipe = (
                f"--model {name}: its {setting.name} stand in a recipe; add --recipe FILE.toml"
            )
            raise OptionError(
                f"{f'{recipe}: no {setting.name}' if recipe else in_recipe}; {setting.kind.hint}"
            )
    return asked


def tagger(asked: Request, kept: Mapping[str, Any]) -> Any:
    """A new tagger with the settings that were given, and the kept ones where nothing was given."""
    model = asked.kind(**{**kept, **asked.parameters})
    values, grid = model.get_params(deep=False), asked.get("search")
    searched = (
        () if grid is None else (*asked.kind._searched, *(grid if isinstance(grid, dict) else ()))
    )
    for setting, only in without_use(values, asked.settings, asked.parameters):
        if only.setting not in searched or only.setting in asked.values:
            why = refusal(only, asked.settings, values[only.setting])
            raise OptionError(f"{asked.place(setting.name)}: {why}")
    with asked.named():
        model._check_parameters()
    return model


def start_model(asked: Request) -> tuple[Any, dict[str, Any]]:
    """The trained model to start from, if there is one and this tagger can start from it; and its
    settings that this tagger takes over, but for those at their defaults."""
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


# -- names -----------------------------------------------------------------------------------------


def offered(kind: type[Any], setting: Setting) -> bool:
    """Whether a setting of the run is one for this tagger."""
    needs = setting.marker(Needs)
    return (needs is None or needs.ability in kind._training_options) and kind._refusal(
        setting.name
    ) is None


def _only_for(key: str, name: str, run: Mapping[str, Setting], place: str) -> str | None:
    """What to say of a setting that this tagger does not have, if others do."""
    why_not = registry.model_class(name)._refusal(key)
    if why_not is not None:
        return f"{place}: {why_not}"
    kinds = {each: registry.model_class(each) for each in registry.command_line_names()}
    takers = [
        each
        for each, kind in kinds.items()
        if key in settings_of(kind) or (key in run and offered(kind, run[key]))
    ]
    return (
        f"{place}: not for --model {name}, only for {either(takers)}"
        if takers and name not in takers
        else None
    )


def _of_all(run: Mapping[str, Setting]) -> list[Setting]:
    """The settings of runs, and those of all taggers."""
    kinds = map(registry.model_class, registry.command_line_names())
    return [*run.values(), *(each for kind in kinds for each in settings_of(kind).values())]


def unknown_key(
    key: str, name: str, settings: Mapping[str, Setting], run: Mapping[str, Setting]
) -> str:
    """What to say of a key of a recipe that this tagger does not have; `run` are all settings of
    runs."""
    known, others = (
        [each.name for each in some if each.in_recipes]
        for some in (settings.values(), _of_all(run))
    )
    near = did_you_mean(key, known) or did_you_mean(key, others)
    return _only_for(key, name, run, key) or f"unknown key {shortened(key, 40)!r}{near}"


def unknown_option(option: str, name: str, run: Mapping[str, Setting]) -> str | None:
    """What to say of an option that this tagger does not have, if others have it or one much like
    it."""
    listed = [
        (each, (*each.flags, f"--no-{each.flags[-1][2:]}"))
        for each in _of_all(run)
        if each.in_options
    ]
    others = {flag: each for each, flags in listed for flag in flags}
    if option in others:
        return _only_for(others[option].name, name, run, others[option].flag)
    near = did_you_mean(option, others)
    return f"no such option {option}{near.replace(chr(39), '')}" if near else None


# -- files -----------------------------------------------------------------------------------------

LARGEST = 1 << 20  # bytes of a recipe
MOST_PARTS = 20  # of a key
STRINGS = (  # of TOML; the first two may have several lines
    r'"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*"{3,5}',
    r"'{3}[\s\S]*?'{3,5}",
    r'"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"',
    r"'(?!'')[^'\n]*'",
)
_PART, _DOT = rf"(?:{'|'.join(STRINGS)}|[A-Za-z0-9_-]+)", r"[ \t]*\.[ \t]*"
_KEYS = re.compile(
    rf"{_PART}(?:{_DOT}{_PART}){{0,{MOST_PARTS - 1}}}(?P<more>{_DOT}{_PART})?"
    r"""|#.*|(?P<open>["'])"""
)


def read_recipe(path: str) -> dict[str, Any]:
    import tomllib

    from labelwright.modelfile import DEEPEST, is_deep

    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise unreadable(OptionError, path, error) from None
    if len(content) > LARGEST:
        raise OptionError(
            f"{path}: a recipe of more than {LARGEST >> 20} MB; move tables to files of their own"
        )
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
            raise OptionError(
                f"{path}: {shortened(key, 40)}: more than {DEEPEST} levels of tables and lists"
            )
    return table


def _check_keys(text: str, path: str) -> None:
    """Refuse keys of very many parts, a.b.c..., on which Python's parser takes quadratic time and
    memory."""
    for match in _KEYS.finditer(text):
        if match["open"]:  # a string without an end, which the parser refuses
            return
        if match["more"]:
            line = text.count("\n", 0, match.start()) + 1
            raise OptionError(
                f"{path}: line {line}: a key of more than {MOST_PARTS} parts; shorten it"
            )
