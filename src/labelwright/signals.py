"""Signals that ask a program to end: Ctrl-C (SIGINT), SIGTERM and SIGHUP.

Training takes the first one as a request (`Requests`): it ends after the iteration, and what was
learnt so far is kept. A command of the command line (`ending_command`) ends by the exception
`Ended`, which is a KeyboardInterrupt: whatever stops for Ctrl-C stops for the other two.

A program that uses labelwright as a library keeps its own handlers.  Signals that it ignores stay
ignored, its own handlers of SIGTERM and SIGHUP are not touched, and nothing is done outside the
main thread, where there are none.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

# and what is said after each
NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
ENDING = {int(getattr(signal, name)): word for name, word in NAMES.items() if hasattr(signal, name)}
HANGUP = int(getattr(signal, "SIGHUP", 0))
USUAL = 128  # what shells add to the number of a signal for the exit status of a command


class Ended(KeyboardInterrupt):
    """A signal has ended the command."""


class _Received:
    """The last signal that this process was sent, and the files that were terminals when the
    command began."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.number = int(signal.SIGINT)
        self.terminals: list[int] = []

    def note(self, number: int) -> None:
        self.number = number
        for terminal in self.terminals if number == HANGUP else ():
            if not os.isatty(terminal):  # it is gone: a model must not be lost for a line about it
                _send_nowhere(terminal)


_received = _Received()


def exit_status() -> int:
    """The exit status of a command that a signal has ended: 130 after Ctrl-C, 143 after SIGTERM,
    129 after SIGHUP."""
    return USUAL + _received.number


def what_happened() -> str:
    """The signal in a word: interrupted, terminated, hung up."""
    return ENDING[_received.number]


class _Handler:
    """A handler of ours, which another one of ours may replace for a while."""

    def __init__(self, act: Callable[[int], None]):
        self.act = act

    def __call__(self, number: int, frame: Any) -> None:
        _received.note(number)
        self.act(number)


def _end(number: int) -> None:
    raise Ended


@contextmanager
def ending_command() -> Iterator[None]:
    """While a command runs, SIGTERM and SIGHUP end it as Ctrl-C does: no temporary file stays
    behind."""
    _received.forget()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _received.terminals = [number for number in (1, 2) if os.isatty(number)]
    handlers = {number: signal.getsignal(number) for number in ENDING if number != signal.SIGINT}
    taken = {number: old for number, old in handlers.items() if old not in (signal.SIG_IGN, None)}
    for number in taken:
        signal.signal(number, _Handler(_end))
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)


class Requests:
    """While it is entered, the first signal calls `asked`, and the second one ends the program.

    has_checkpoint : in a program without a handler for SIGTERM or SIGHUP, these end it after what
        was asked is done; without a checkpoint they end it at once, as ever"""

    def __init__(self, asked: Callable[[], None], has_checkpoint: bool):
        self.asked, self.has_checkpoint = asked, has_checkpoint
        self._before: dict[int, Any] = {}
        self._first: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                before = signal.getsignal(number)
                if self._takes(number, before):
                    self._before[number] = before
                    signal.signal(number, _Handler(self._act))
        return self

    def _takes(self, number: int, before: Any) -> bool:
        if before in (signal.SIG_IGN, None):
            return False
        if number == signal.SIGINT or isinstance(before, _Handler):
            return True
        return bool(self.has_checkpoint and before == signal.SIG_DFL)

    def _act(self, number: int) -> None:
        if self._first is not None:
            raise Ended
        self._first = number
        self.asked()

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self._first is not None and self._before[self._first] == signal.SIG_DFL:
            signal.raise_signal(self._first)  # the program ends as it would have ended


def _send_nowhere(number: int) -> None:
    """Send what is still written to this file descriptor nowhere."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def forget_output() -> None:
    """Send what is still buffered for standard output nowhere, so that Python does not complain at
    exit."""
    with suppress(OSError, ValueError):
        _send_nowhere(sys.stdout.fileno())


def forget_messages() -> None:
    """Send messages that standard error does not take nowhere: Python would exit with 120."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            _send_nowhere(sys.stderr.fileno())
