"""What is made from the tables of settings, for every command: help, ranges, choices, and refusals
of combinations."""

import re

import pytest
from command import refused

from labelwright.cli import COMMANDS, command_named
from labelwright.cli.options import DATA, MAX_INPUT, OTHER, Command, argument, option
from labelwright.settings import Choice, NotWith, Number, OnlyWith, Positional, Switch, Whole
from labelwright.taggers import registry

TABLES = {name: command_named(name) for name in COMMANDS} | {
    f"train --model {name}": command_named("train", ["--model", name])
    for name in registry.command_line_names()
}


def needed(command: Command, *but: str) -> list[str]:
    """What a command cannot do without, but for some settings."""
    given = []
    for setting in command.settings.values():
        if setting.required and setting.name not in but:
            given += ["x"] if setting.has(Positional) else [setting.flag, "x"]
    return given


def value_of(setting) -> list[str]:
    """An option with a value that it takes."""
    if isinstance(setting.kind, Switch):
        return [setting.flag]
    if isinstance(setting.kind, Choice):
        return [setting.flag, str(setting.kind.choices[0])]
    if setting.metavar.startswith("NAME="):
        return [setting.flag, "x=1"]
    return [
        setting.flag,
        next(text for text in ("1", "2") if setting.kind.accepts(setting.kind.from_text(text))),
    ]


def told(run, name: str, *arguments: str) -> str:
    """Why a command refuses these options."""
    command = TABLES[name]
    given = needed(
        command, *(each.name for each in command.settings.values() if each.flag in arguments)
    )
    return refused(run(*name.split(), *given, *arguments))


@pytest.mark.parametrize("name", TABLES)
def test_values_that_an_option_does_not_take(run, name: str) -> None:
    for setting in TABLES[name].settings.values():
        bad = {Whole: ["1.5", "many"], Number: ["nan", "inf", "much"], Choice: ["nonsense"]}.get(
            type(setting.kind), []
        )
        for number in ("-1", "0", "2") if isinstance(setting.kind, Whole | Number) else ():
            bad += [] if setting.kind.accepts(setting.kind.from_text(number)) else [number]
        for text in bad:
            assert told(run, name, setting.flag, text).startswith(
                f"{setting.flag}: expected {setting.kind.expected}"
            )


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("train", "doubts")])
def test_options_that_need_or_exclude_another(
    run, name: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where training has no file x to read
    settings = TABLES[name].settings
    for setting in settings.values():
        only, excluded = setting.marker(OnlyWith), setting.marker(NotWith)
        default = None if only is None else settings[only.setting].default
        if only is not None and not (default in only.values if only.values else default):
            why = told(run, name, *value_of(setting))
            assert why.startswith(f"{setting.flag}: only with {settings[only.setting].flag}"), why
        for other in excluded.settings if excluded is not None else ():
            if other in settings and setting.flag != "--recipe":  # which is read before
                both = (
                    *value_of(setting),
                    *value_of(settings[other]),
                    *with_needs(settings, setting, other),
                )
                why = told(run, name, *both)
                assert why == (
                    f"{setting.flag}: not together with {settings[other].flag}; leave one of "
                    "them out"
                )


@pytest.mark.parametrize("name", registry.command_line_names())
def test_options_of_other_taggers(run, name: str) -> None:
    tables = {
        other: TABLES[f"train --model {other}"].settings for other in registry.command_line_names()
    }
    for flag in sorted(
        {each.flag for table in tables.values() for each in table.values() if each.flag != "TRAIN"}
    ):
        takers = [
            other
            for other, table in tables.items()
            if flag in {each.flag for each in table.values()}
        ]
        if name not in takers:
            why = told(run, f"train --model {name}", flag, "x")
            assert why.startswith(f"{flag}: ")
            assert " not for " not in why or why.startswith(
                f"{flag}: not for --model {name}, only for {takers[0]}"
            )


def with_needs(settings, *names) -> list[str]:
    """What settings need that are given for the sake of another check."""
    given = []
    for each in names:
        only = (settings[each] if isinstance(each, str) else each).marker(OnlyWith)
        given += [] if only is None else value_of(settings[only.setting])
    return given


@pytest.mark.parametrize("name", TABLES)
def test_the_help_shows_every_option_within_80_columns(
    run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(*name.split(), "--help")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"Usage: labelwright {name.split()[0]} [OPTIONS]")
    assert lines[-1].split() == ["-h,", "--help", "Show", "this", "message", "and", "exit."]
    assert not re.search(r"docs/\w+\.md", out)  # a wheel has no folder docs
    groups = list(
        dict.fromkeys(each.group or TABLES[name].group for each in TABLES[name].settings.values())
    )
    assert [line[:-1] for line in lines if re.fullmatch(r"[A-Z][\w -]+:", line)] == sorted(
        groups, key=OTHER.__eq__
    )
    shown = "".join(out.split())
    for setting in TABLES[name].settings.values() if name != "train" else ():
        assert (setting.metavar if setting.has(Positional) else setting.flag) in shown
        assert "".join(setting.help.split()) in shown, setting.name


def test_a_table_of_ones_own(run, capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    table = [
        argument("file", "FILE", "A file."),
        argument("more", "MORE", "Others.", None, several=True),
        option("-n --number N", "A number.", DATA, Whole(), 3, name="how_many"),
        option("--fast", "Be quick."),
        MAX_INPUT,
    ]
    command = Command("What it does.", table, seen.append)
    with command.make_context("own", ["a", "b", "c", "--fast"]) as context:
        command.invoke(context)
    o = seen.pop()
    assert (o.file, o.more, o.how_many, o.fast, o.max_input) == ("a", ["b", "c"], 3, True, None)
    assert set(o.given) == {"file", "more", "fast"}
    assert command.flags == {"how_many": "--number", "fast": "--fast", "max_input": "--max-input"}
    assert " ".join(command.get_help(context).split()) == (
        "Usage: own [OPTIONS] FILE [MORE]... What it does. "
        "Data: FILE A file. [required] MORE Others. -n, --number N A number. [default: 3] "
        "--max-input SIZE Refuse larger inputs. [default: 1G if compressed] "
        "Options: --fast Be quick. -h, --help Show this message and exit."
    )
