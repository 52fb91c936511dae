"""The command line: one module per command or two, and one plain line for everything that goes
wrong.

Nothing heavy is imported here or at the top of a command's module, so that `--help` answers at
once.
"""

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from labelwright import __version__, signals
from labelwright.cli.options import CONTEXT, Command, in_options
from labelwright.errors import LabelwrightError, lacks_memory, reason_of
from labelwright.wording import did_you_mean, printable

# Each command is `NAME_command` of its module, which is imported when the command is asked for: a
# Command, or a function that makes one for the arguments that it is given.
COMMANDS = {
    "train": ("train", "Train a model from a column file."),
    "tag": ("tag", "Label a file or a stream with a model."),
    "eval": ("eval", "Score predictions, or a model on a test file."),
    "errors": ("eval", "See what goes wrong: confusions, phrases, examples."),
    "report": ("eval", "A page about a model: scores, errors, calibration, weights."),
    "compare": ("eval", "Is one prediction better than another, or is it chance?"),
    "calibrate": ("copies", "Make probabilities right as often as they say."),
    "inspect": ("inspect", "Look into a model."),
    "explain": ("explain", "Why does a token have its label?"),
    "rank": ("annotators", "What to label next: rank unlabelled sentences."),
    "doubts": ("annotators", "Which labels of the training data look wrong?"),
    "templates": ("resources", "List and print feature templates, and check your own."),
    "vectors": ("resources", "Make word vectors and clusters from text."),
    "dictionary": ("resources", "List the phrases that labels mark."),
    "annotate": ("annotate", "Label sentences in the browser while a model learns."),
    "convert": ("convert", "Convert file formats and label schemes."),
    "lattice": ("lattice", "Train on graphs of your own, and find their best paths."),
    "serve": ("serve", "Answer requests over HTTP, with a page to try models."),
    "export": ("copies", "Write a smaller copy of a model."),
    "reproduce": ("demo", "Run the experiments of the papers."),
    "warmup": ("warmup", "Do nothing: kernels are compiled already."),
    "demo": ("demo", "See it all on built-in data."),
}


def command_named(name: str, given: Sequence[str] = ()) -> Command:
    """A command; some are made for what they are given."""
    made = getattr(import_module(f"labelwright.cli.{COMMANDS[name][0]}"), f"{name}_command")
    command: Command = made if isinstance(made, Command) else made(given)
    command.name = name
    return command


class Labelwright(click.Group):
    """All commands by name; only the one that is asked for is imported."""

    wanted: Command | None = None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        name, *rest = args
        if name not in COMMANDS:
            raise click.UsageError(
                f"No such command {name!r}{did_you_mean(name, COMMANDS, 0.6)}", ctx
            )
        self.wanted = command_named(name, rest)
        return name, self.wanted, rest

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _application() -> Labelwright:
    about = (
        "Label sequences on a CPU: train a tagger from a column file, label text with it, and know "
        "how sure it is."
    )
    epilog = "New here? Try `labelwright demo`. Options of a command: `labelwright train --help`."
    group = Labelwright("labelwright", help=about, epilog=epilog, context_settings=CONTEXT)
    return click.version_option(__version__, message="labelwright %(version)s")(group)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for what a user can mend, 1 for our mistakes, 130
    for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Streams that the caller has closed get a file: to read or write data there is an error,
    # messages are lost.
    for name, mode, way in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            stream: Any = open(os.open(os.devnull, way), mode, errors="backslashreplace")  # noqa: SIM115
            stream.buffer.raw.name = f"<{name}>"
            setattr(sys, name, stream)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with signals.ending_command():
            return _run(given)
    except KeyboardInterrupt:  # a signal at the very end
        return _fail(signals.what_happened(), signals.exit_status())
    finally:
        signals.forget_messages()


def _run(given: list[str]) -> int:
    """Run one command; whatever goes wrong is one line."""
    group = _application()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            with group.make_context("labelwright", given or ["--help"]) as context:
                group.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except BrokenPipeError:  # whoever reads our output has seen enough
        signals.forget_output()
        return 0
    except (KeyboardInterrupt, click.Abort):
        return _fail(signals.what_happened(), signals.exit_status())
    except Exception as error:
        if os.environ.get("LABELWRIGHT_DEBUG"):
            raise
        return _fail(*_explained(error, {} if group.wanted is None else group.wanted.flags))


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    with suppress(OSError):  # a warning that nobody can read ends nothing
        sys.stderr.write(f"labelwright: {printable(str(message).removeprefix('labelwright: '))}\n")


def _explained(error: Exception, flags: Mapping[str, str]) -> tuple[str, int]:
    """What to say about an error, and the exit code; settings are named by these options."""
    if isinstance(error, LabelwrightError):
        return in_options(str(error), flags), 2
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        see = f" (see {context.command_path} --help)" if context is not None else ""
        return error.format_message().rstrip(".") + see, 2
    if lacks_memory(error):
        fewer = "raise --min-count, or use fewer sentences, latent states or a smaller template"
        return (
            "not enough memory; "
            f"{fewer if '--min-count' in flags.values() else 'give less input at a time'}",
            2,
        )
    if isinstance(error, OSError):
        return (
            f"{error.filename or '<stdout>: cannot write'}: "
            f"{reason_of(error) or type(error).__name__}",
            2,
        )
    if str(error) == "can't start new thread":
        return "cannot start a thread; allow more memory or processes (ulimit -v, ulimit -u)", 2
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
