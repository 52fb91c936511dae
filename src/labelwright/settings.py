"""Settings of taggers, each declared once, with its range and its sentence: in the constructor, or
in a table of which that is made (labelwright.taggers.declared).

    def __init__(self, l2: Annotated[float, Help("penalty l2/2 |w|^2"), AtLeast(0)] = 1.0): ...

`settings_of` reads the declarations.  Checks, keys of recipes, options of the command line, their
help and the signature of a model derive from them.  Nothing heavy is imported here.
"""

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Rational, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from labelwright.errors import OptionError
from labelwright.wording import did_you_mean, either, shown

M = TypeVar("M")
REQUIRED = inspect.Parameter.empty  # the default of a setting that must be given

# -- markers: what stands in Annotated[...] --------------------------------------------------------


class Limit(NamedTuple):
    """An end of the range of a number."""

    text: str
    holds: Callable[[float], bool]


def _limit(text: str, holds: Callable[[float, float], bool]) -> Callable[[float], Limit]:
    return lambda number: Limit(text.format(number), lambda value: holds(value, number))


AtLeast, AtMost = _limit(" of {} or more", operator.ge), _limit(" of {} or less", operator.le)
Above, Below = _limit(" above {}", operator.gt), _limit(" below {}", operator.lt)


class OneOf:
    """The value is one of these."""

    def __init__(self, *choices: Any):
        self.choices = choices


@dataclass(frozen=True)
class Help:
    """What the setting means, in one sentence."""

    text: str


@dataclass(frozen=True)
class Default:
    """What happens where the setting is left out, if the default value itself does not say it."""

    text: str


class Flag:
    """The option of the command line, where its name is not that of the setting, and what its value
    is called."""

    def __init__(self, *names: str, metavar: str = ""):
        self.names, self.metavar = names, metavar


@dataclass(frozen=True)
class Group:
    """The heading under which the option is shown; without one, it is shown with its tagger."""

    name: str


class OnlyWith:
    """The setting means something only where another one has one of these values, or any."""

    def __init__(self, setting: str, *values: str):
        self.setting, self.values = setting, values


class NotWith:
    """The setting cannot be given together with these."""

    def __init__(self, *settings: str):
        self.settings = settings


@dataclass(frozen=True)
class Positional:
    """An argument of a command, told by its place; `several` take all that is left."""

    several: bool = False


@dataclass(frozen=True)
class Needs:
    """An option of the run that only taggers take which declare this in `_training_options`."""

    ability: str


class Signed:
    """Shown in the signature of a model."""


class RecipeOnly:
    """A key of recipes, not an option."""


class OptionOnly:
    """An option, not a key of recipes."""


class PythonOnly:
    """Neither an option nor a key of recipes."""


class OfTheRun:
    """Belongs to the run, not to the model: a model file has the default."""


class NotInherited:
    """Not taken over from the model that training starts from."""


# -- kinds of values -------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a value was given: the option, or the key of a recipe."""

    name: str  # "--l2", or "recipe.toml: l2"
    folder: Path = Path()  # files of a recipe are named from its folder on


class Kind:
    """What values a setting takes; subclasses say how they are checked, written in options and in
    recipes."""

    expected = "a value"
    metavar = "VALUE"
    hint = ""  # how to give a value that is required
    repeated = False  # may its option be given several times?
    example = ""  # lines of a recipe

    def accepts(self, value: Any) -> bool:
        """Whether the value is one of these."""
        return True

    def complaint(self, value: Any) -> str | None:
        """What is wrong with a value, if anything."""
        return None if self.accepts(value) else f"expected {self.expected}, got {shown(value, 60)}"

    def from_text(self, text: str) -> Any:
        """The value that an option's text means; ValueError where it means none."""
        return text

    def from_texts(self, texts: list[str], flag: str) -> Any:
        """The value that the texts of an option mean which may be repeated."""
        raise NotImplementedError

    def from_recipe(self, value: Any, place: Place) -> Any:
        """The value that a TOML value means."""
        return value

    def files(self, value: Any, place: Place) -> list[str]:
        """The files that are read for a TOML value."""
        return []

    def is_stored(self, value: Any) -> bool:
        """Whether a model file may hold this value among its settings: none that `fit` would take
        for a path."""
        return True


class Bounds:
    """A range of finite numbers."""

    def __init__(self, *limits: Limit):
        self.limits = limits

    def holds(self, value: Any) -> bool:
        """Whether a number is in the range."""
        try:
            return math.isfinite(value) and all(limit.holds(value) for limit in self.limits)
        except OverflowError:  # a whole number beyond all others
            return False

    def __str__(self) -> str:
        return " and".join(limit.text for limit in self.limits)


ANY = Bounds()


class Number(Kind):
    """A number."""

    expected = "a number"
    metavar = "X"

    def __init__(self, bounds: Bounds = ANY):
        self.bounds, self.expected = bounds, f"{self.expected}{bounds}"

    def accepts(self, value: Any) -> bool:
        # no file holds a fraction
        plain = isinstance(value, Integral) or not isinstance(value, Rational)
        return (
            isinstance(value, Real)
            and plain
            and not isinstance(value, bool)
            and self.bounds.holds(value)
        )

    def from_text(self, text: str) -> float:
        return float(text)


class Whole(Number):
    """A whole number."""

    expected = "a whole number"
    metavar = "N"

    def accepts(self, value: Any) -> bool:
        return (
            isinstance(value, Integral)
            and not isinstance(value, bool)
            and self.bounds.holds(int(value))
        )

    def from_text(self, text: str) -> int:
        return int(text)


NOT_NEGATIVE = Number(Bounds(AtLeast(0)))


class Switch(Kind):
    """Yes or no."""

    expected = "true or false"

    def accepts(self, value: Any) -> bool:
        return type(value).__name__ in ("bool", "bool_")  # NumPy's, too


class Text(Kind):
    """A string."""

    expected = "a string"
    metavar = "NAME"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str)


class Texts(Text):
    """Strings, each by an option of its own."""

    repeated = True

    def from_texts(self, texts: list[str], flag: str) -> list[str]:
        return texts

    def complaint(self, value: Any) -> str | None:
        return None


class Choice(Kind):
    """One of several values, all strings or all whole numbers."""

    metavar = ""  # the choices themselves, where they are short

    def __init__(self, choices: Iterable[Any]):
        self.choices = tuple(choices)
        names = [str(choice) for choice in self.choices]
        short = len(names) < 3 or sum(map(len, names)) < 15
        self.metavar = self.metavar or ("|".join(names) if short else "NAME")
        self.expected = f"one of {', '.join(names)}" if len(names) > 1 else names[0]
        if self.metavar[:1].isdigit():
            self.expected = " or ".join(names)

    def accepts(self, value: Any) -> bool:
        sort = Integral if isinstance(self.choices[0], int) else str
        return isinstance(value, sort) and not isinstance(value, bool) and value in self.choices

    def complaint(self, value: Any) -> str | None:
        wrong = super().complaint(value)
        texts = isinstance(value, str) and isinstance(self.choices[0], str)
        return wrong + did_you_mean(value, self.choices) if wrong and texts else wrong

    def from_text(self, text: str) -> Any:
        return int(text) if isinstance(self.choices[0], int) else text


class Anything(Kind):
    """A value that only Python can give."""


KINDS: dict[Any, Callable[[Bounds], Kind]] = {
    bool: lambda _: Switch(),
    int: Whole,
    float: Number,
    str: lambda _: Text(),
}


# -- settings --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Setting:
    """One setting as its constructor declares it."""

    name: str
    kind: Kind
    default: Any = REQUIRED
    optional: bool = False  # may it be None?
    markers: tuple[Any, ...] = ()

    def marker(self, sort: type[M]) -> M | None:
        """The marker of this sort, if there is one."""
        return next((marker for marker in self.markers if isinstance(marker, sort)), None)

    def has(self, *sorts: type[Any]) -> bool:
        """Whether it has a marker of one of these sorts."""
        return any(isinstance(marker, sorts) for marker in self.markers)

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def in_recipes(self) -> bool:
        return not self.has(PythonOnly, OptionOnly) and not isinstance(self.kind, Anything)

    @property
    def in_options(self) -> bool:
        return not self.has(PythonOnly, RecipeOnly) and not isinstance(self.kind, Anything)

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of its option, the long one last."""
        return (self.marker(Flag) or Flag()).names or (f"--{self.name.replace('_', '-')}",)

    @property
    def flag(self) -> str:
        """What users call it: its option, or its key where it has none."""
        return self.flags[-1] if self.in_options else self.name

    @property
    def metavar(self) -> str:
        return (self.marker(Flag) or Flag()).metavar or self.kind.metavar

    @property
    def group(self) -> str | None:
        group = self.marker(Group)
        return None if group is None else group.name

    @property
    def help(self) -> str:
        """Its sentence, with its default."""
        shown = (self.marker(Default) or Default(_written(self.default))).text
        text = (self.marker(Help) or Help("")).text
        return f"{text} [default: {shown}]".strip() if shown else text

    def complaint(self, value: Any) -> str | None:
        """What is wrong with a value, if anything."""
        return None if value is None and self.optional else self.kind.complaint(value)

    def check(self, value: Any, place: str | None = None) -> None:
        """Refuse a value that the setting does not take."""
        wrong = self.complaint(value)
        if wrong is not None:
            raise OptionError(f"{place or self.name}: {wrong}")

    def parsed(self, text: str | list[str]) -> Any:
        """The value that the text of an option means, checked; several texts where the option may
        be repeated."""
        try:
            value = (
                self.kind.from_text(text)
                if isinstance(text, str)
                else self.kind.from_texts(text, self.flag)
            )
        except OptionError:  # which says more
            raise
        except ValueError:
            raise OptionError(f"{self.flag}: expected {self.kind.expected}, got {text!r}") from None
        self.check(value, self.flag)
        return value

    def from_recipe(self, value: Any, place: Place) -> Any:
        """The value that a TOML value means, checked."""
        meant = self.kind.from_recipe(value, place)
        self.check(meant, place.name)
        return meant


def _written(value: Any) -> str:
    """A default as an option writes it."""
    if value is REQUIRED or value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ",".join(map(_written, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_of(owner: Callable[..., Any]) -> Mapping[str, Setting]:
    """The settings that a constructor, or a function, declares, by name."""
    return _read(owner)  # for type checkers, what is cached takes no classes


@cache
def _read(owner: Any) -> Mapping[str, Setting]:
    function: Any = getattr(owner, "__init__") if inspect.isclass(owner) else owner  # noqa: B009
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:  # a name that only type checkers import
        signature = inspect.signature(function)
    named = (
        p
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    )
    return {p.name: _declared(p) for p in named if p.name != "self"}


def plain_signature(owner: type[Any]) -> inspect.Signature:
    """The signature of a constructor with plain types, as `help` shows it: without `Annotated`.

    >>> class Tagger:
    ...     def __init__(self, l2: Annotated[float, AtLeast(0), Help("penalty")] = 1.0): ...
    >>> plain_signature(Tagger)
    <Signature (l2: float = 1.0)>
    """
    parameters = inspect.signature(getattr(owner, "__init__")).parameters.values()  # noqa: B009
    return inspect.Signature(
        [p.replace(annotation=_parts(p)[0]) for p in parameters if p.name != "self"]
    )


def _parts(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...]]:
    """The type of a parameter, and the markers beside it."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter.annotation, ()
    plain, *markers = get_args(parameter.annotation)
    return plain, tuple(markers)


def _declared(parameter: inspect.Parameter) -> Setting:
    """The setting that a parameter declares; its kind is a marker, or follows from the type and the
    markers."""
    annotation, markers = _parts(parameter)
    types = (
        list(get_args(annotation)) if get_origin(annotation) in (Union, UnionType) else [annotation]
    )
    optional = NoneType in types or parameter.default is None
    types = [each for each in types if each is not NoneType]
    kind = next((marker for marker in markers if isinstance(marker, Kind)), None)
    one_of = next((marker for marker in markers if isinstance(marker, OneOf)), None)
    make = KINDS.get(types[0]) if len(types) == 1 else None
    if kind is None and one_of is not None:
        kind = Choice(one_of.choices)
    elif kind is None:
        bounds = Bounds(*(marker for marker in markers if isinstance(marker, Limit)))
        kind = Anything() if make is None else make(bounds)
    return Setting(parameter.name, kind, parameter.default, optional, markers)


def without_use(
    values: Mapping[str, Any], settings: Mapping[str, Setting], given: Iterable[str]
) -> Iterator[tuple[Setting, OnlyWith]]:
    """The given settings that mean nothing beside the values of the others, with what each belongs
    to."""
    for name in given:
        only = settings[name].marker(OnlyWith)
        if only is not None:
            value = values[only.setting]
            if not (
                set([value] if isinstance(value, str) else value) & set(only.values)
                if only.values
                else value
            ):
                yield settings[name], only


def refusal(only: OnlyWith, settings: Mapping[str, Setting], value: Any) -> str:
    """What to say of an option that means nothing beside this value of the one that it belongs
    to."""
    other = settings[only.setting]
    if only.values:
        return f"only with {other.flag} {either(only.values)}, got {value!r}"
    return (
        f"only with {other.flag}{'' if isinstance(other.kind, Switch) else f' {other.metavar}'}; "
        "add it"
    )


def check_together(
    values: Mapping[str, Any], settings: Mapping[str, Setting], given: Iterable[str]
) -> None:
    """Refuse options that mean nothing beside the others, and those that exclude each other."""
    given = list(given)
    for setting, only in without_use(values, settings, given):
        raise OptionError(f"{setting.flag}: {refusal(only, settings, values[only.setting])}")
    for name in given:
        excluded = settings[name].marker(NotWith)
        for other in excluded.settings if excluded else ():
            if other in given:
                both = f"not together with {settings[other].flag}"
                raise OptionError(f"{settings[name].flag}: {both}; leave one of them out")


def read_table(
    table: Mapping[str, Any],
    settings: Mapping[str, Setting],
    file: str,
    unknown: Callable[[str], str],
    part: str = "",
) -> dict[str, Any]:
    """The values of the keys of a TOML table, checked; `unknown` says what to say of a key that is
    no setting, and `part` where in the file the table stands."""
    values = {}
    for key, value in table.items():
        setting = settings.get(key)
        if setting is None or not setting.in_recipes:
            raise OptionError(f"{file}: {part}{unknown(key)}")
        values[key] = setting.from_recipe(value, Place(f"{file}: {part}{key}", Path(file).parent))
    return values
