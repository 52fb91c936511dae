"""What the tests of the command line share."""

import io
import subprocess
import sys
from typing import Any

COMMAND = [sys.executable, "-m", "labelwright"]
SENTENCE = b"He PRP\nsaw VBD\nher PRP$\nbrother NN\n\n"


class Terminal(io.StringIO):
    """Standard error as a person sees it."""

    def isatty(self) -> bool:
        return True


def interrupted_at_once(monitor: Any) -> Any:
    """What enters a monitor whose run is interrupted before its first iteration."""
    monitor.interrupted = True
    return monitor


def process(*arguments: object, **options: object) -> "subprocess.Popen[bytes]":
    """Start a command as a process of its own."""
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    } | options
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **pipes)  # type: ignore[call-overload]


def one_line(error: str, *parts: str) -> None:
    """An error is exactly one line that begins with the program's name and holds all parts."""
    assert error.startswith("labelwright: "), error
    assert error.endswith("\n"), error
    assert error.count("\n") == 1, error
    assert "Traceback" not in error
    for part in parts:
        assert part in error, error


def refused(result: tuple[int, str, str], *parts: str) -> str:
    """A command has printed nothing but one line, which says why and holds all parts; this line
    without its begin."""
    code, out, error = result
    assert (code, out) == (2, ""), error
    one_line(error, *parts)
    return error.removeprefix("labelwright: ").rstrip("\n")
