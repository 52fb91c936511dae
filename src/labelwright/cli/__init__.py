"""The command line: one module per command, and one plain line for everything that goes wrong.

Nothing heavy is imported here or at the top of a command's module, so that `--help` answers at once.
"""

import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer

from labelwright import __version__, signals
from labelwright.cli.options import READERS, ClickException, GroupedCommand, flags_of, in_options, with_limit
from labelwright.engine.choice import is_own_process
from labelwright.errors import LabelwrightError, reason_of
from labelwright.wording import printable

# Each command is the function `command` of the module of its name, imported only when it is asked for.
COMMANDS = {
    "train": "Train a model from a column file.",
    "tag": "Label a file or a stream with a model.",
    "eval": "Score predictions, or a model on a test file.",
    "errors": "See what goes wrong: confusions, phrases, examples.",
    "compare": "Is one prediction better than another, or is it chance?",
    "calibrate": "Make probabilities right as often as they say.",
    "inspect": "Look into a model.",
    "explain": "Why does a token have its label?",
    "rank": "What to label next: rank unlabelled sentences.",
    "doubts": "Which labels of the training data look wrong?",
    "templates": "List and print feature templates, and check your own.",
    "vectors": "Make word vectors and clusters from text.",
    "dictionary": "List the phrases that labels mark.",
    "convert": "Convert file formats and label schemes.",
    "lattice": "Train on graphs of your own, and find their best paths.",
    "export": "Write a smaller copy of a model.",
    "reproduce": "Run the experiments of the papers.",
    "warmup": "Compile all kernels once.",
    "demo": "See it all on built-in data.",
}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"labelwright {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Label sequences on a CPU: train a tagger from a column file, label text with it, and know how sure it is."""


def _nothing() -> None:
    """Stands for a command that was not asked for."""


def _application(wanted: str | None, given: Sequence[str]) -> Any:
    """All commands by name, the wanted one in full."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(epilog="New here? Try `labelwright demo`. Options of a command: `labelwright train --help`.")(_about)
    for name, line in COMMANDS.items():
        function, sort = _command(name, given) if name == wanted else (_nothing, GroupedCommand)
        app.command(name, short_help=line, cls=sort)(function)
    return typer.main.get_command(app)


def _command(name: str, given: Sequence[str]) -> tuple[Any, type[GroupedCommand]]:
    """The function of a command, and the class of its help; some commands are made for what they are given."""
    module = import_module(f"labelwright.cli.{name}")
    made, sort = module.command_for(given) if hasattr(module, "command_for") else (module.command, GroupedCommand)
    return with_limit(made) if name in READERS else made, sort


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for what a user can mend, 1 for our mistakes, 130 for Ctrl-C, 143 for
    SIGTERM, 129 for SIGHUP."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    is_own_process()
    try:
        with signals.ending_command():
            return _run(given)
    except KeyboardInterrupt:  # a signal at the very end
        return _fail(signals.what_happened(), signals.exit_status())


def _open_closed_streams() -> None:
    """Give streams that the caller has closed a file: to read or write data there is an error, messages are lost."""
    for name, mode, way in ("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY):
        if getattr(sys, name) is None:
            stream: Any = open(os.open(os.devnull, way), mode, errors="backslashreplace")  # noqa: SIM115
            stream.buffer.raw.name = f"<{name}>"
            setattr(sys, name, stream)


def _run(given: list[str]) -> int:
    """Run one command; whatever goes wrong is one line."""
    flags: dict[str, str] = {}  # name of a setting: its option in this command
    try:
        wanted = next((word for word in given if not word.startswith("-")), None)
        group = _application(wanted, given)
        if wanted in COMMANDS:
            flags = flags_of(group.commands[wanted])
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            with group.make_context("labelwright", given or ["--help"]) as context:
                group.invoke(context)
        sys.stdout.flush()
        return 0
    except typer.Exit as done:
        return done.exit_code
    except BrokenPipeError:  # whoever reads our output has seen enough
        signals.forget_output()
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return _fail(signals.what_happened(), signals.exit_status())
    except Exception as error:
        if os.environ.get("LABELWRIGHT_DEBUG"):
            raise
        return _fail(*_explained(error, flags))


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """A warning as one line."""
    sys.stderr.write(f"labelwright: {printable(str(message).removeprefix('labelwright: '))}\n")


def _explained(error: Exception, flags: Mapping[str, str]) -> tuple[str, int]:
    """What to say about an error, and the exit code; settings are named by these options."""
    if isinstance(error, LabelwrightError):
        return in_options(str(error), flags), 2
    if isinstance(error, ClickException):
        context = getattr(error, "ctx", None)
        see = f" (see {context.command_path} --help)" if context is not None else ""
        told = re.sub("Input should be a valid ([a-z]+), unable .*", r"expected a valid \1", error.format_message())
        return told.rstrip(".") + see, 2
    if isinstance(error, OSError):
        return f"{error.filename or '<stdout>: cannot write'}: {reason_of(error) or type(error).__name__}", 2
    if isinstance(error, MemoryError):
        fewer = "raise --min-count, or use fewer sentences, latent states or a smaller template"
        return f"not enough memory; {fewer if '--min-count' in flags.values() else 'give less input at a time'}", 2
    what = f"{type(error).__name__}: {error}"
    return f"unexpected error, a mistake of ours: {what} (LABELWRIGHT_DEBUG=1 shows where)", 1


def _fail(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        signals.forget_output()
    with suppress(OSError):  # whoever would read it is gone
        sys.stderr.write(f"labelwright: {printable(' '.join(message.split()))}\n")
    return code
