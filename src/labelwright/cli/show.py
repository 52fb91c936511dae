"""The renderer: facts as JSON, or as lines of text that a command makes of them; lines for people
on stderr."""

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from labelwright import signals
from labelwright.wording import printable

BLOCKS = "▁▂▃▄▅▆▇█"
BAR = 24  # letters of the longest bar
HALF = 10  # of the longest to one side of an axis
WIDEST = 120  # letters of a line, also where the terminal is wider
Row = tuple[str, str]  # a name and its value


class Heading(str):
    """A line that is bold on a terminal."""


# -- what is printed -------------------------------------------------------------------------------


def say(text: str) -> None:
    with suppress(OSError):  # whoever would read it is gone
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()


def warn(line: str | None) -> None:
    """One line of warning on stderr, if there is one."""
    if line is not None:
        say(f"labelwright: {line}")


def ended_by_signal(rest: str) -> click.exceptions.Exit:
    """Say which signal has ended the command, and the rest of the line; what is to be raised
    then."""
    say(f"labelwright: {signals.what_happened()}{rest}")
    return click.exceptions.Exit(signals.exit_status())


def show(*lines: str) -> None:
    """Lines for people on stdout, never wrapped; control characters in them are escaped."""
    for line in lines:
        text = printable(line)
        if isinstance(line, Heading):
            text = click.style(text, bold=True) if sys.stdout.isatty() else text
        sys.stdout.write(f"{text}\n")


def report(facts: Any, as_json: bool, text: Callable[[Any], Iterable[str]]) -> None:
    """Print facts as one JSON object, or as the lines that `text` makes of them."""
    if as_json:
        sys.stdout.write(f"{json.dumps(facts, ensure_ascii=False, indent=2, default=_as_json)}\n")
    else:
        show(*text(facts))


def _as_json(value: Any) -> float | str:
    """A number of NumPy, or in words what JSON cannot hold, such as the word vectors of a model."""
    try:
        return float(value)
    except TypeError:
        return repr(value)


def report_outputs(
    facts: Mapping[str, Any], as_json: bool, text: Callable[[Any], Iterable[str]]
) -> None:
    """Print the facts of each output of a model: those of a cascade by layer, with a heading for
    each."""
    if as_json:
        report(facts.get("", {"layers": facts}), True, text)
        return
    for number, (name, each) in enumerate(facts.items()):
        show(*([""] if number else []), *([Heading(name)] if name else []), *text(each))


# -- lines -----------------------------------------------------------------------------------------


def section(title: str, lines: Iterable[str]) -> list[str]:
    """Lines, if there are any, under a heading, after an empty one."""
    lines = list(lines)
    return ["", Heading(title), *lines] if lines else []


def indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def named_rows(rows: Sequence[Row]) -> Iterator[str]:
    """Names and values, wrapped to the width of the terminal; where one is wrapped, none keeps its
    alignment."""
    indent = max(len(name) for name, _ in rows) + 4
    width = min(shutil.get_terminal_size().columns, WIDEST)
    if any(indent + len(value) > width for _, value in rows):
        rows = [(name, " ".join(value.split())) for name, value in rows]
    whole: Any = {"break_long_words": False, "break_on_hyphens": False}
    for name, value in rows:
        first = f"  {name}".ljust(indent)
        lines = textwrap.wrap(
            value, width, initial_indent=first, subsequent_indent=" " * indent, **whole
        )
        yield from lines or [first.rstrip()]


def curves(history: Sequence[dict[str, Any]], with_loss: bool) -> list[Row]:
    """The loss (on a logarithmic scale) and the development score as small curves; a loss may be
    infinite.

    >>> curves([{"loss": 4.0}, {"loss": math.inf}, {"loss": 1.0}], with_loss=True)
    [('loss', '4.0 █▁ 1.0')]
    """
    losses = [record["loss"] for record in history if 0 < record["loss"] < math.inf and with_loss]
    scores = [100 * record["dev"] for record in history if "dev" in record]
    rows = []
    if len(losses) > 1:
        curve = sparkline([math.log(loss) for loss in losses])
        rows.append(("loss", f"{losses[0]:,.1f} {curve} {losses[-1]:,.1f}"))
    if len(scores) > 1:
        rows.append(("dev", f"{scores[0]:.2f} {sparkline(scores)} {scores[-1]:.2f}"))
    return rows


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """A curve in one line of text.

    >>> sparkline([0.0, 1.0, 2.0, 3.0])
    '▁▃▆█'
    """
    if len(values) > width:
        values = [values[round(k * (len(values) - 1) / (width - 1))] for k in range(width)]
    low, high = min(values), max(values)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] for value in values)


def bar(value: float, highest: float) -> str:
    """A bar as long as the value is large.

    >>> bar(1.0, 2.0), bar(0.0, 0.0)
    ('████████████', '')
    """
    return "█" * round(BAR * value / highest) if highest > 0 else ""


def signed_bar(value: float, largest: float) -> str:
    """A bar from an axis to the right or, of what is negative, to the left, as long as the value is
    large.

    >>> signed_bar(1.0, 2.0), signed_bar(-2.0, 2.0)
    ('          │█████     ', '██████████│          ')
    """
    blocks = "█" * round(HALF * abs(value) / largest)
    left, right = ("", blocks) if value > 0 else (blocks, "")
    return f"{left:>{HALF}}│{right:<{HALF}}"
