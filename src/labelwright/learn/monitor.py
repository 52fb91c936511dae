"""One monitor per training run: history, progress, stopping, checkpoints and Ctrl-C."""

import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from labelwright import modelfile
from labelwright.errors import ModelFileError
from labelwright.validation import HeaderReader, TensorReader, check_array, check_numbers

Array = NDArray[Any]
PERIOD = 10  # iterations over which the loss must still fall
SECONDS_PER_LINE = 2.0  # of progress where there is no terminal
MOST = 1 << 40  # passes, or sentences seen in them
LARGEST = 1e30  # weights, and whatever else the state of an optimiser holds: sums of them stay finite


class Record(TypedDict, total=False):
    """One iteration of training."""

    iteration: int
    loss: float
    norm: float
    evaluations: int
    mistakes: int  # sentences that a perceptron got wrong,
    separable: float  # and the share of the others
    seconds: float
    dev: float


class Checkpoint:
    """The state of a run in one file, written periodically, so that a killed run can be resumed."""

    def __init__(self, path: str | Path, fingerprint: str, every: float = 10.0):
        self.path, self.fingerprint, self.every = Path(path), fingerprint, every
        self._written = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self._written >= self.every

    def write(self, state: dict[str, Array], header: dict[str, Any]) -> None:
        modelfile.write(self.path, state, {"kind": "checkpoint", "fingerprint": self.fingerprint, **header})
        self._written = time.monotonic()

    def read(self) -> tuple[dict[str, Array], dict[str, Any]] | None:
        """What was saved, or None when there is nothing to resume."""
        if not self.path.exists():
            return None
        state, header = modelfile.read(self.path)
        if header.get("kind") != "checkpoint":
            raise ModelFileError(f"{self.path}: not a checkpoint of a training run")
        if header.get("fingerprint") != self.fingerprint:
            raise ModelFileError(
                f"{self.path}: made with other data or other settings; use the same ones, or delete it to start again"
            )
        return state, header


class Monitor:
    """Records every iteration, decides when to stop, keeps the best weights on development data, saves checkpoints."""

    def __init__(
        self,
        max_iter: int,
        tol: float,
        *,
        dev: Callable[[Array], float] | None = None,
        dev_every: int = 5,
        dev_from: int = 1,
        patience: int = 6,
        period: int = PERIOD,
        first: int = 0,
        progress: Callable[[Record, int], None] | None = None,
        checkpoint: Checkpoint | None = None,
    ):
        self.max_iter, self.tol, self.period, self.first = max_iter, tol, period, first
        self.dev, self.dev_every, self.dev_from, self.patience = dev, dev_every, dev_from, patience
        self.progress, self.checkpoint = progress, checkpoint
        self.history: list[Record] = []
        self.reason: str | None = None
        self._finished: str | None = None  # a reason that is not a limit of this run
        self.interrupted = False
        self._best: Array | None = None
        self._best_score, self._worse = -np.inf, 0
        self._seconds_before, self._begun = 0.0, time.monotonic()
        self._old_handler: Any = None

    @property
    def stop(self) -> bool:
        return self.reason is not None

    @property
    def merit(self) -> float:
        """The number by which runs are compared: the best development score, else minus the loss."""
        return self._best_score if self._best is not None else -self.history[-1]["loss"]

    @property
    def best_iteration(self) -> int | None:
        """The iteration with the best score on the development data, if there are any."""
        if self._best is None:
            return None
        return next(r["iteration"] for r in self.history if r.get("dev") == self._best_score)

    def finish(self, reason: str) -> None:
        self.reason = self._finished = reason

    def report(
        self,
        *,
        loss: float,
        norm: float | None = None,
        evaluations: int = 1,
        mistakes: int | None = None,
        separable: float | None = None,
        weights: Array | Callable[[], Array],
        state: Callable[[], dict[str, Array]] | None = None,
    ) -> None:
        """Record an iteration, and decide whether it was the last."""
        i = self.first + len(self.history)  # 0, where there is one, is the starting point
        seconds = self._seconds_before + time.monotonic() - self._begun
        record: Record = {"iteration": i, "loss": float(loss), "evaluations": evaluations, "seconds": seconds}
        if norm is not None:
            record["norm"] = float(norm)
        if mistakes is not None and separable is not None:
            record |= {"mistakes": mistakes, "separable": separable}
        self.history.append(record)
        due = i >= self.dev_from and (i % self.dev_every == 0 or i >= self.max_iter)
        if self.dev is not None and due:
            self._look_at_dev(record, weights() if callable(weights) else weights)
        if self.progress is not None:
            self.progress(record, self.max_iter)
        if self.reason is None:
            self.reason = self._verdict(i)
        if self.checkpoint is not None and state is not None and (self.checkpoint.due() or self.interrupted):
            saved = dict(state())
            if self._best is not None:
                saved["best"] = self._best
            best = self._best_score if self._best is not None else None
            try:
                header = {"history": self.history, "best_score": best, "worse": self._worse, "finished": self._finished}
                self.checkpoint.write(saved, header)
            except ModelFileError as error:  # a full disk must not end the training
                warnings.warn(f"no more checkpoints: {error}", RuntimeWarning, stacklevel=2)
                self.checkpoint = None

    def _look_at_dev(self, record: Record, weights: Array) -> None:
        assert self.dev is not None
        record["dev"] = score = self.dev(weights)
        if score > self._best_score:
            self._best, self._best_score, self._worse = weights.copy(), score, 0
        else:
            self._worse += 1

    def _verdict(self, i: int) -> str | None:
        loss = self.history[-1]["loss"]
        if not np.isfinite(loss):
            return "the loss is no longer a number"
        if self.interrupted:
            return "interrupted"
        if self._worse >= self.patience:
            return f"no better on the development data for {self.patience * self.dev_every} iterations"
        if self.history[-1].get("norm") == 0:
            return "the gradient is zero"
        if len(self.history) > self.period:
            before = self.history[-1 - self.period]["loss"]
            if before - loss < self.tol * max(abs(loss), 1e-300):
                return f"converged: the loss fell by less than {100 * self.tol:g} % in {self.period} iterations"
        return "reached the limit of iterations" if i >= self.max_iter else None

    def best(self, weights: Array) -> Array:
        """The weights to keep: the best on development data if there are any, else the last."""
        return weights if self._best is None else self._best

    def resume(self) -> dict[str, Array] | None:
        """The state that the checkpoint holds, with the history up to it; None to start from scratch."""
        saved = self.checkpoint.read() if self.checkpoint is not None else None
        if saved is None:
            return None
        state, fields = saved
        with self._reading():
            header = HeaderReader(fields)
            self.history = [_read_record(record) for record in header.parts("history")]
            if not self.history:
                raise header.refuse("history", "one iteration or more")
            self._seconds_before = self.history[-1]["seconds"]
            self._best, self._worse = state.pop("best", None), header.whole("worse")
            self._best_score = -np.inf if header["best_score"] is None else header.number("best_score")
            if self._best is not None and self._best_score not in [record.get("dev") for record in self.history]:
                raise header.refuse("best_score", "the score of an iteration")
            self._finished = None if header.get("finished") is None else header.text("finished")
        self.reason = self._finished or self._verdict(self.history[-1]["iteration"])
        return state

    def check_state(
        self, state: dict[str, Array], expected: Mapping[str, Array], weights: Array, recorded: Sequence[str] = ()
    ) -> None:
        """Refuse a state of `resume` unless its arrays are finite and like the expected ones in dtype and shape, its
        counts no less than 0, the best weights so far like `weights`, and all iterations have what is `recorded`."""
        arrays = TensorReader(state)
        with self._reading():
            for name in recorded:
                if not all(name in record for record in self.history):
                    raise ModelFileError(f"header: history: {name!r} is missing from an iteration")
            for name, like in expected.items():
                limits = {"least": 0, "most": MOST} if like.dtype.kind == "i" else {"least": -LARGEST, "most": LARGEST}
                arrays.numbers(name, like.dtype, *like.shape, **limits)
            if self._best is not None:
                check_numbers("best", check_array("best", self._best, weights.dtype, *weights.shape), -LARGEST, LARGEST)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Whatever is wrong with a checkpoint is one line that names the file."""
        assert self.checkpoint is not None
        try:
            yield
        except ModelFileError as error:
            raise ModelFileError(f"{self.checkpoint.path}: {error}; delete it to start again") from error

    def __enter__(self) -> "Monitor":
        """From here on the first Ctrl-C ends training after this iteration, the second one ends the program."""
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._old_handler is not None:
            signal.signal(signal.SIGINT, self._old_handler)

    def _on_interrupt(self, number: int, frame: Any) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True


def _read_record(record: HeaderReader) -> Record:
    """The record of one iteration from a checkpoint; a loss may be infinite."""
    record.whole("iteration")
    record.number("seconds", 0)
    for name in ("loss", "norm", "dev", "separable", "evaluations", "mistakes"):
        if (name in record or name == "loss") and type(record[name]) is not float:
            record.whole(name, -MOST, MOST)
    return cast(Record, dict(record))


class ProgressBar:
    """Iteration, loss (of perceptrons: mistakes) and development score on one line of the terminal.  Elsewhere, as in
    notebooks and logs: nothing, or with `lines` a line every few seconds and one at the end.

    total : the limit of iterations that was set; None where training runs until it converges
    tol : training stops when the relative improvement over PERIOD iterations is below this
    """

    lines = False

    def __init__(self, total: int | None = None, tol: float | None = None, what: str = "training") -> None:
        self.live = sys.stderr.isatty()
        self._bar: Any = None
        self._total, self._tol, self._what = total, tol, what
        self._losses: list[float] = []
        self._dev = ""
        self._waiting, self._last_written = "", -np.inf  # the line to be written at the end, and when the last one was

    def __call__(self, record: Record, max_iter: int) -> None:
        if not self.live and not self.lines:
            return
        if record["iteration"] < len(self._losses):  # another start
            self._losses, self._dev = [], ""
        self._losses.append(record["loss"])
        if "dev" in record:
            self._dev = f"  dev {100 * record['dev']:.2f}"
        if "mistakes" in record:
            note = f"mistakes {record['mistakes']:,} ({100 * record['separable']:.1f} % separable){self._dev}"
        else:
            note = f"loss {record['loss']:,.1f}{self._gain()}{self._dev}"
        if self.live:
            if self._bar is None:
                self._start()
            self._bar.update(self._task, completed=record["iteration"], note=note)
        else:
            self._say(record, note)

    def _say(self, record: Record, note: str) -> None:
        """Write a line, unless the last one was just before."""
        of_total = f"/{self._total}" if self._total else ""
        self._waiting = f"{self._what}  {record['iteration']}{of_total}  {note}  {record['seconds']:.1f} s\n"
        if time.monotonic() - self._last_written >= SECONDS_PER_LINE:
            self._write()

    def _write(self) -> None:
        sys.stderr.write(self._waiting)
        sys.stderr.flush()
        self._waiting, self._last_written = "", time.monotonic()

    def _gain(self) -> str:
        """The recent relative improvement of the loss, and the one below which training stops."""
        if len(self._losses) <= PERIOD or not self._losses[-1 - PERIOD]:
            return ""
        gain = (self._losses[-1 - PERIOD] - self._losses[-1]) / abs(self._losses[-1 - PERIOD])
        stop = f", stops below {100 * self._tol:g} %" if self._tol else ""
        return f" ({-100 * gain:+.2g} % in {PERIOD}{stop})"

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            *([BarColumn(bar_width=24), MofNCompleteColumn()] if self._total else [TextColumn("{task.completed}")]),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(self._what, total=self._total, note="")
        self._bar.start()

    def close(self) -> None:
        """Leave the last line on the terminal, or write it."""
        if self._waiting:
            self._write()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
