"""Options made from settings, their help in groups, and messages that speak of options instead of Python."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from labelwright.settings import OptionOnly, Setting, Switch
from labelwright.wording import did_you_mean

ClickException: Any = typer.BadParameter.__mro__[2]  # of click, or of the click inside Typer
NoSuchOption: Any = sys.modules[ClickException.__module__].NoSuchOption  # type: ignore[attr-defined]
SETTINGS = {"--threads": "n_jobs"}  # options that every command has, and what Python calls them
DATA, DECODING, SCORING, OUTPUT = "Data", "Decoding", "Scoring", "Output"  # headings of options
OTHER = "Options"  # the heading of options without one


def option(text: str, metavar: str | None = None, heading: str = OTHER, *flags: str, show_default: bool = True) -> Any:
    """An option of a command under a heading of its help; a switch where it has no metavar."""
    return typer.Option(*flags, metavar=metavar, rich_help_panel=heading, help=text, show_default=show_default)


def argument(text: str, metavar: str) -> Any:
    """An argument of a command, which are all data."""
    return typer.Argument(metavar=metavar, rich_help_panel=DATA, help=text)


READERS = frozenset(  # commands that read data
    "train tag eval errors compare calibrate explain rank doubts vectors dictionary convert lattice".split()  # noqa: SIM905
)
MaxInput = Annotated[str | None, option("Refuse larger inputs. [default: 1G if compressed]", "SIZE", DATA)]


class GroupedCommand(TyperCommand):
    """A command whose help shows its options under headings, and which corrects a misspelt option."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                record = (parameter.metavar or parameter.name.upper(), record[1])
            heading = getattr(parameter, "rich_help_panel", None) or OTHER
            if "--help" in parameter.opts:  # the last, with options without a heading
                groups |= {OTHER: groups.pop(OTHER)} if OTHER in groups else {}
                heading = next(reversed(groups), OTHER)
            groups.setdefault(heading, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records, col_max=26)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except ClickException as error:
            if isinstance(error, NoSuchOption):
                error.message, error.possibilities = self.unknown(error.option_name), None
            raise

    def unknown(self, option: str) -> str:
        """What to say of an option that the command does not have."""
        known = [name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)]
        return f"no such option {option}{did_you_mean(option, known).replace(chr(39), '')}"


def parameter_of(setting: Setting, group: str) -> inspect.Parameter:
    """The parameter of a command that gives this setting; a text, or whether a switch is on."""
    flags = list(setting.flags)
    switch = isinstance(setting.kind, Switch)
    if switch and not setting.has(OptionOnly):
        flags[-1] = f"{flags[-1]}/--no-{flags[-1][2:]}"
    option = typer.Option(
        *flags,
        help=setting.help,
        metavar=None if switch else setting.metavar,
        show_default=False,
        rich_help_panel=setting.group or group,
    )
    sort: Any = bool if switch else list[str] if setting.kind.repeated else str
    annotation = Annotated[sort, option] if setting.required else Annotated[sort | None, option]
    default = inspect.Parameter.empty if setting.required else None
    return inspect.Parameter(setting.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def command_of(
    run: Callable[..., None], arguments: Iterable[inspect.Parameter], settings: Iterable[Setting], group: str, text: str
) -> Callable[..., None]:
    """A function for Typer with these arguments and an option for each of these settings; `text` is its help, and
    `group` the heading of the settings that have none of their own."""
    parameters = [*arguments, *(parameter_of(setting, group) for setting in settings if setting.in_options)]
    return with_parameters(run, parameters, text)


def with_parameters(
    run: Callable[..., None], parameters: Sequence[inspect.Parameter], text: str | None
) -> Callable[..., None]:
    """A function for Typer with these parameters, which calls `run`; `text` is its help."""

    def command(**values: Any) -> None:
        run(**values)

    command.__doc__ = text
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def with_limit(command: Callable[..., None]) -> Callable[..., None]:
    """The function of a command with one more option, which limits the size of its inputs."""

    def run(max_input: str | None, **values: Any) -> None:
        from labelwright.corpus import limits

        with nullcontext() if max_input is None else limits.max_input(max_input):
            command(**values)

    added = inspect.Parameter("max_input", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=MaxInput)
    return with_parameters(run, [*inspect.signature(command).parameters.values(), added], command.__doc__)


def flags_of(command: Any) -> dict[str, str]:
    """The options of a command by the names of their settings."""
    flags = {each.name: each.opts[-1] for each in command.params if each.param_type_name == "option"}
    return flags | {SETTINGS[flag]: flag for flag in flags.values() if flag in SETTINGS}


def in_options(message: str, flags: Mapping[str, str]) -> str:
    """A message about settings as one about options.

    >>> flags = {"max_iter": "--iterations", "optimizer": "--optimizer"}
    >>> in_options("max_iter: expected a whole number of 1 or more, got 0", flags)
    '--iterations: expected a whole number of 1 or more, got 0'
    >>> in_options("averaging: only with optimizer='sgd'", flags)
    'averaging: only with --optimizer sgd'
    >>> in_options("search: no values to try; give them as in --search optimizer=lbfgs,sgd", flags)
    'search: no values to try; give them as in --search optimizer=lbfgs,sgd'
    """
    name, colon, rest = message.partition(": ")
    message = f"{flags.get(name, name)}{colon}{rest}"

    def option(match: re.Match[str]) -> str:
        return f"{flags[match[1]]} {match[2].strip(chr(39))}" if match[1] in flags else match[0]

    return re.sub(r"(?<!--search )\b([a-z_][a-z_0-9]*)=('[^']*'|[\w.+-]*\w)", option, message)
