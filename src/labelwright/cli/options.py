"""Commands made from tables of settings: arguments, options, help under headings, checks, and
refusals.

option("-o --output FILE", "Where to write.", default="-")
    a setting of a command, as its help shows it
@command(argument(...), option(...), ...)
    makes a command of a function of its options
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from inspect import getdoc
from types import SimpleNamespace
from typing import Any

import click
from click.core import ParameterSource

from labelwright.errors import OptionError
from labelwright.settings import (
    REQUIRED,
    AtLeast,
    Bounds,
    Default,
    Flag,
    Group,
    Help,
    Kind,
    NotWith,
    OnlyWith,
    OptionOnly,
    Positional,
    Setting,
    Switch,
    Text,
    Texts,
    Whole,
    check_together,
)
from labelwright.wording import did_you_mean

DATA, DECODING, SCORING, OUTPUT = "Data", "Decoding", "Scoring", "Output"  # headings of options
OTHER = "Options"  # the heading of options without one, which is the last
HELP_ROW = ("-h, --help", "Show this message and exit.")
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
NOT_NEGATIVE, POSITIVE = Whole(Bounds(AtLeast(0))), Whole(Bounds(AtLeast(1)))

# -- tables ----------------------------------------------------------------------------------------


def option(
    flags: str,
    text: str,
    group: str = OTHER,
    kind: Kind | None = None,
    default: Any = None,
    *,
    name: str = "",
    shown: str | None = None,
    only_with: str = "",
    not_with: str = "",
) -> Setting:
    """A setting of a command: `-o --output FILE`; a switch where no FILE follows.

    name : of the setting, where it is not that of the option
    shown : the default in words
    only_with, not_with : another setting, without or together with which this one is refused"""
    *names, last = flags.split()
    metavar = "" if last.startswith("-") else last
    names += [] if metavar else [last]
    if not metavar:
        kind, default, shown = Switch(), False, ""
    markers: list[Any] = [Flag(*names, metavar=metavar), Group(group), Help(text), OptionOnly()]
    markers += [] if shown is None else [Default(shown)]
    markers += [OnlyWith(only_with)] if only_with else []
    markers += [NotWith(not_with)] if not_with else []
    name = name or names[-1].lstrip("-").replace("-", "_")
    return Setting(name, kind or Text(), default, default is None, tuple(markers))


def argument(
    name: str, metavar: str, text: str, default: Any = REQUIRED, several: bool = False
) -> Setting:
    """An argument of a command; with `several`, all that are left."""
    described = (
        Flag(metavar, metavar=metavar),
        Group(DATA),
        Help(text),
        OptionOnly(),
        Positional(several),
    )
    return Setting(
        name, Texts() if several else Text(), default, default is None, (*described, Default(""))
    )


def changed(
    setting: Setting, *markers: Any, without: type[Any] | tuple[type[Any], ...] = ()
) -> Setting:
    """A setting with other markers in the place of those of their kinds, and without some."""
    gone = (*map(type, markers), *(without if isinstance(without, tuple) else (without,)))
    return replace(
        setting,
        markers=(*(each for each in setting.markers if not isinstance(each, gone)), *markers),
    )


SCHEME_NAMES = "iob1, iob2, ioe1, ioe2, bioes, bilou, bmes or io"
FORMATS = "columns, conllu, crfsuite, jsonl, parquet, spacy, text, doccano, label-studio, brat."

# Options that mean the same in several commands.
COLUMNS = option("--columns NAMES", "Names of the columns, as in word,pos,chunk.", DATA)
ALL_COLUMNS = option(
    "--columns NAMES", "Names of all input columns.", DATA, shown="as in training, by their number"
)
LABEL = option("--label NAME", "The label column.", DATA, shown="the last")
FORMAT = option("--format NAME", FORMATS, DATA, shown="as it looks")
LABEL_NAMES = option(
    "--label-names NAMES", "Names of labels that are numbers in JSON or Parquet.", DATA
)
SKIP_BAD_SPANS = option(
    "--skip-bad-spans",
    "Leave out annotations of texts that cut a token, overlap or lie outside.",
    DATA,
)
LABELLED = [COLUMNS, LABEL, FORMAT, LABEL_NAMES, SKIP_BAD_SPANS]  # how a labelled file is read
SPLITTING = [  # how texts are split
    option("--tokenizer NAME", "Text: words, or ptb (do n't).", DATA, shown="as in training"),
    option("--characters", "Text: every character is a token, as for Chinese.", DATA),
    option("--token-pattern REGEX", "Text: a regular expression that matches the tokens.", DATA),
    option(
        "--sentences NAME",
        "Text: split (by punctuation), lines or none.",
        DATA,
        shown="as in training",
    ),
]
ARRAYS = option(
    "--arrays FILE",
    "A .npy or .npz file: numbers, a row for each token; templates read %a[row].",
    DATA,
)
MAX_INPUT = option("--max-input SIZE", "Refuse larger inputs.", DATA, shown="1G if compressed")
STRICT = [
    option(
        "--strict",
        "Count only chunks that are written as the scheme requires. [default: as conlleval counts]",
        SCORING,
    ),
    option("--scheme NAME", "The scheme of strict reading.", SCORING, shown="as the labels look"),
]
JSON = option("--json", "Print JSON instead of text.", OUTPUT)
UNCALIBRATED = option(
    "--uncalibrated", "Probabilities of the model without its calibration.", OUTPUT
)
THREADS = option(
    "--threads N", "Threads; results stay the same.", kind=Whole(), name="n_jobs", shown="all cores"
)
SILENT = option("-q --quiet", "Print nothing.")

# -- commands --------------------------------------------------------------------------------------


class Command(click.Command):
    """A command with an option for each of its settings.

    group : the heading of settings that have none
    moved : what to say of options that are found elsewhere"""

    def __init__(
        self,
        text: str,
        settings: Iterable[Setting],
        run: Callable[[Any], None],
        group: str = OTHER,
        moved: Mapping[str, str] | None = None,
    ):
        self.settings = {setting.name: setting for setting in settings if setting.in_options}
        self.run, self.group, self.moved = run, group, moved or {}
        params = [_parameter(setting) for setting in self.settings.values()]
        super().__init__(None, help=text, params=params, context_settings=CONTEXT)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command with checked values; what makes no sense together is refused before."""
        from labelwright.corpus import limits

        given = {}
        for name, value in ctx.params.items():
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                value = list(value) if isinstance(value, tuple) else value
                given[name] = (
                    value if isinstance(value, bool) else self.settings[name].parsed(value)
                )
        values = {name: setting.default for name, setting in self.settings.items()} | given
        self.check(values, given)
        limit = values.get("max_input")
        with nullcontext() if limit is None else limits.max_input(limit):
            self.run(SimpleNamespace(**values, given=given))  # `given`: those that were asked for

    def check(self, values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        check_together(values, self.settings, given)

    @property
    def flags(self) -> dict[str, str]:
        return {name: each.flag for name, each in self.settings.items() if not each.has(Positional)}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(self.unknown(error.option_name), ctx) from None

    def unknown(self, option: str) -> str:
        """What to say of an option that the command does not have."""
        if option in self.moved:
            raise OptionError(self.moved[option])
        known = [
            name
            for parameter in self.params
            for name in (*parameter.opts, *parameter.secondary_opts)
        ]
        return f"no such option {option}{did_you_mean(option, known).replace(chr(39), '')}"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options under headings, those without one last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for setting in self.settings.values():
            required = "  [required]" if setting.required else ""
            groups.setdefault(setting.group or self.group, []).append(
                (_left(setting), setting.help + required)
            )
        if OTHER in groups or not groups:
            groups[OTHER] = groups.pop(OTHER, [])
        groups[next(reversed(groups))].append(HELP_ROW)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=26)


def command(
    *settings: Setting, moved: Mapping[str, str] | None = None
) -> Callable[[Callable[[Any], None]], Command]:
    """A command with these settings that calls a function, whose docstring is the help."""
    return lambda run: Command(getdoc(run) or "", settings, run, moved=moved)


def _parameter(setting: Setting) -> click.Parameter:
    """What click reads: a text, several, or whether a switch is on."""
    place = setting.marker(Positional)
    if place is not None:
        metavar = f"{setting.metavar}{'...' if place.several else ''}"
        metavar = (
            metavar if setting.required else f"[{setting.metavar}]{'...' if place.several else ''}"
        )
        nargs = -1 if place.several else 1
        return click.Argument(
            [setting.name], metavar=metavar, nargs=nargs, required=setting.required
        )
    if isinstance(setting.kind, Switch):
        *flags, last = setting.flags
        names = [
            *flags,
            last if setting.has(OptionOnly) else f"{last}/{_negated(last)}",
            setting.name,
        ]
        return click.Option(names, is_flag=True)
    names = [*setting.flags, setting.name]
    return click.Option(
        names,
        metavar=setting.metavar,
        multiple=setting.kind.repeated,
        required=setting.required,
        type=str,
    )


def _negated(flag: str) -> str:
    return f"--no-{flag[2:]}"


def _left(setting: Setting) -> str:
    """An option as the help shows it."""
    if not isinstance(setting.kind, Switch):
        flags = [] if setting.has(Positional) else [", ".join(setting.flags)]
        return " ".join([*flags, setting.metavar])
    return ", ".join(setting.flags) + (
        "" if setting.has(OptionOnly) else f" / {_negated(setting.flags[-1])}"
    )


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
