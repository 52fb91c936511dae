"""One monitor per training run: history, progress, stopping, checkpoints and Ctrl-C.

A run that is killed can be resumed from its checkpoint, one file.  What is trained on the way to it
has files that are named after that one: `.2` for the second random start, `.first1` for a model
that is trained only to start from, `.layer1` for a layer of a cascade, `.layer1.part2` for its
second part of the jackknife.  Of parts that are finished only the weights are kept; a run that is
resumed takes them as they are.
"""

import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from labelwright import modelfile
from labelwright.errors import ModelFileError, OptionError, unforeseen
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.parallel import one_blas_thread
from labelwright.settings import NOT_NEGATIVE
from labelwright.signals import Requests
from labelwright.storage import remove_abandoned

Array = NDArray[Any]
FIRST = 1.0  # seconds of training before the first save
EVERY = 10.0
PARTS = r"(\.(first|layer|part)?[0-9]+)*"  # what follows the name of the run in those of its parts
KEPT = "kept"  # the weights of a run that is finished


class Checkpoints:
    """The file of a run, and those of its parts.

    A run that starts anew removes those of an earlier one when it saves its first state, and warns
    of failures once."""

    def __init__(
        self,
        path: str | Path,
        every: float = EVERY,
        resume: bool = False,
        whole: "Checkpoints | None" = None,
        is_part: bool = False,
    ):
        self.path, self.every, self.resume = Path(path), every, resume
        self.whole = whole or self  # that of the whole run
        # other training follows, so that only its weights are kept once it is finished
        self.is_part = is_part
        self._begun, self._warned = resume, False
        self.fingerprint = ""  # of all that decides the course of the run
        self.is_written = False  # by this process
        self._wait, self._last = min(FIRST, every), time.monotonic()

    @classmethod
    def given(cls, checkpoint: Any, every: float, resume: bool) -> "Checkpoints | None":
        """What the arguments of `fit` ask for; `checkpoint` is a path, or that of a part."""
        if checkpoint is None or isinstance(checkpoint, Checkpoints):
            if resume:
                raise OptionError("resume: name the checkpoint to resume from")
            return checkpoint
        if not isinstance(checkpoint, str | os.PathLike):
            raise OptionError(f"checkpoint: expected a path, got {checkpoint!r:.40}")
        if not NOT_NEGATIVE.accepts(every):
            raise OptionError(f"checkpoint_every: expected seconds, 0 or more, got {every!r:.40}")
        return cls(Path(checkpoint), every, resume)

    def part(self, name: str) -> "Checkpoints":
        """Those of a part."""
        return Checkpoints(f"{self.path}.{name}", self.every, self.resume, self.whole, is_part=True)

    def start(self, number: int, fingerprint: str = "") -> "Checkpoints":
        """Those of a random start: the first one is the run itself."""
        path = self.path if number == 1 else f"{self.path}.{number}"
        made = Checkpoints(path, self.every, self.resume, self.whole, self.is_part)
        made.fingerprint = fingerprint
        return made

    def of(self, fingerprint: str) -> "Checkpoints":
        """The file of the run itself, written after its first second and then periodically."""
        return self.start(1, fingerprint)

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._wait

    def write(self, state: dict[str, Array], header: dict[str, Any]) -> None:
        """Save; a full disk must not end the training, and is tried again."""
        self._last, self._wait, whole = time.monotonic(), self.every, self.whole
        try:
            known = {"kind": "checkpoint", "digits": DIGITS, "fingerprint": self.fingerprint}
            modelfile.write(self.path, state, known | header)
            self.is_written = True
            if not whole._begun:
                whole._begun = True
                remove_checkpoints(whole.path, but=self.path)
        except ModelFileError as error:
            if not whole._warned:
                whole._warned = True
                told = f"{error}; training continues without a new checkpoint"
                warnings.warn(told, RuntimeWarning, stacklevel=3)

    def read(self) -> tuple[dict[str, Array], dict[str, Any]] | None:
        """What was saved, or None when there is nothing to resume."""
        if not self.path.exists():
            return None
        state, header = modelfile.read(self.path)
        if header.get("kind") != "checkpoint":
            raise ModelFileError(f"{self.path}: not a checkpoint of a training run")
        if header.get("digits") != DIGITS:
            raise ModelFileError(
                f"{self.path}: written by another version, whose sums have other last digits; "
                "finish the run with that version, or delete it to start again"
            )
        if header.get("fingerprint") != self.fingerprint:
            raise ModelFileError(
                f"{self.path}: made with other data or other settings; use the same ones, or "
                "delete it to start again"
            )
        return state, header


def checkpoint_files(path: Path) -> list[Path]:
    """The checkpoints of a run and of its parts that are there."""
    if not path.parent.is_dir():
        return []
    pattern = re.compile(re.escape(path.name) + PARTS)
    return sorted(file for file in path.parent.iterdir() if pattern.fullmatch(file.name))


def remove_checkpoints(path: Path, but: Path | None = None) -> None:
    """Remove the checkpoints of a run and of its parts, and what killed processes left of them."""
    remove_abandoned(path, PARTS)
    for file in checkpoint_files(path):
        if file != but and file.is_file():
            file.unlink(missing_ok=True)


PERIOD = 10  # iterations over which the loss must still fall
SECONDS_PER_LINE = 2.0  # of progress where there is no terminal
MOST = 1 << 40  # passes, or sentences seen in them
# the one reason to stop that may change when a run is resumed
# Raised when kernels sum in another order: a resumed run would not end in the same model.
DIGITS = 2
LIMIT = "reached the limit of iterations"
State = dict[str, Array]


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


class Monitor:
    """Records every iteration, decides when to stop, keeps the best weights on development data,
    saves checkpoints."""

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
        checkpoint: Checkpoints | None = None,
        recorded: Sequence[str] = (),
    ):
        self.recorded = recorded  # what each iteration of a checkpoint must have beside its loss
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
        self._requests = Requests(self._interrupt, checkpoint is not None)
        self._state: Callable[[], State] | None = None  # after the last iteration,
        self._saved = 0  # and how many iterations were saved last

    @property
    def stop(self) -> bool:
        return self.reason is not None

    @property
    def merit(self) -> float:
        """The number by which runs are compared: the best development score, else minus the
        loss."""
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
        record: Record = {
            "iteration": i,
            "loss": float(loss),
            "evaluations": evaluations,
            "seconds": seconds,
        }
        if norm is not None:
            record["norm"] = float(norm)
        if mistakes is not None and separable is not None:
            record |= {"mistakes": mistakes, "separable": separable}
        self.history.append(record)
        due = i >= self.dev_from and (i % self.dev_every == 0 or i >= self.max_iter)
        if self.dev is not None and due:
            weights = weights() if callable(weights) else weights
            record["dev"] = score = self.dev(weights)
            if score > self._best_score:
                self._best, self._best_score, self._worse = weights.copy(), score, 0
            else:
                self._worse += 1
        if self.progress is not None:
            self.progress(record, self.max_iter)
        if self.reason is None:
            self.reason = self._verdict(i)
        self._state = state
        if self.checkpoint is not None and (self.checkpoint.due() or self.interrupted):
            self._save()

    def _save(self, kept: Array | None = None) -> None:
        """Write the checkpoint: the state of the run, or the weights that are kept of a finished
        one."""
        if (
            self.checkpoint is None
            or self._state is None
            or not np.isfinite(self.history[-1]["loss"])
        ):
            return  # what is no number cannot be resumed
        saved = dict(self._state()) if kept is None else {KEPT: kept}
        if self._best is not None and kept is None:
            saved["best"] = self._best
        best = self._best_score if self._best is not None else None
        finished = self._finished if kept is None else self.reason
        header = {
            "history": self.history,
            "best_score": best,
            "worse": self._worse,
            "finished": finished,
        }
        self.checkpoint.write(saved, header)
        self._saved = len(self.history)

    def run(self, optimise: Callable[[State | None], Array], start: Array) -> Array:
        """The weights that `optimise` makes of the state of a checkpoint, or of None; those of a
        run that was finished are taken as they are.  Signals ask it to end; `start` are the weights
        before the first iteration."""
        state = self.resume() if self.checkpoint is not None and self.checkpoint.resume else None
        if state is not None and KEPT in state:
            with self._reading():
                return TensorReader(state).weights(KEPT, start.dtype, *start.shape)
        with self, one_blas_thread():
            try:
                weights, place = optimise(state), self.checkpoint
            except ConnectionError:  # a cluster is gone: the run can be resumed on another one
                self._save()
                raise
            if place is None or self.interrupted or not (place.is_written or place.due()):
                return weights
            if self.reason != LIMIT or place.is_part:
                self._save(weights)
            elif self._saved < len(self.history):  # it may be resumed with a higher limit
                self._save()
        return weights

    def _verdict(self, i: int) -> str | None:
        loss = self.history[-1]["loss"]
        if not np.isfinite(loss):
            return "the loss is no longer a number"
        if self.interrupted:
            return "interrupted"
        if self._worse >= self.patience:
            return (
                f"no better on the development data for {self.patience * self.dev_every} iterations"
            )
        if self.history[-1].get("norm") == 0:
            return "the gradient is zero"
        if len(self.history) > self.period:
            before = self.history[-1 - self.period]["loss"]
            if before - loss < self.tol * max(abs(loss), 1e-300):
                return (
                    f"converged: the loss fell by less than {100 * self.tol:g} % in {self.period} "
                    "iterations"
                )
        return LIMIT if i >= self.max_iter else None

    def best(self, weights: Array) -> Array:
        """The weights to keep: the best on development data if there are any, else the last."""
        return weights if self._best is None else self._best

    def resume(self) -> dict[str, Array] | None:
        """The state that the checkpoint holds, with the history up to it; None to start from
        scratch."""
        saved = self.checkpoint.read() if self.checkpoint is not None else None
        if saved is None:
            return None
        state, fields = saved
        with self._reading():
            header = HeaderReader(fields)
            history = [_read_record(record) for record in header.parts("history")]
            if not history:
                raise header.refuse("history", "one iteration or more")
            for name in self.recorded:
                if not all(name in record for record in history):
                    raise ModelFileError(f"header: history: {name!r} is missing from an iteration")
            finished = None if header.get("finished") is None else header.text("finished")
            if KEPT in state and finished is None:
                raise header.refuse("finished", "why the run ended")
            # a part, of which no state was kept
            if finished == LIMIT and history[-1]["iteration"] < self.max_iter:
                return None
            self.history, self._finished, self._seconds_before = (
                history,
                finished,
                history[-1]["seconds"],
            )
            self._best, self._worse = state.pop("best", None), header.whole("worse")
            self._best_score = (
                -np.inf if header["best_score"] is None else header.number("best_score")
            )
            if header["best_score"] is not None:
                self._best = state.get(KEPT, self._best)
            if self._best is not None and self._best_score not in [
                record.get("dev") for record in self.history
            ]:
                raise header.refuse("best_score", "the score of an iteration")
        self._saved = len(self.history)
        self.reason = self._finished or self._verdict(self.history[-1]["iteration"])
        return state

    def check_state(
        self, state: dict[str, Array], expected: Mapping[str, Array], weights: Array
    ) -> None:
        """Refuse a state of `resume` unless its arrays are finite and like the expected ones in
        dtype and shape, its counts no less than 0, and the best weights so far like `weights`."""
        arrays = TensorReader(state)
        with self._reading():
            for name, like in expected.items():
                if like.dtype.kind == "i":
                    arrays.numbers(name, like.dtype, *like.shape, least=0, most=MOST)
                else:
                    arrays.weights(name, like.dtype, *like.shape)
            if self._best is not None:
                TensorReader({"best": self._best}).weights("best", weights.dtype, *weights.shape)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Whatever is wrong with a checkpoint is one line that names the file."""
        assert self.checkpoint is not None
        try:
            yield
        except ModelFileError as error:
            raise ModelFileError(
                f"{self.checkpoint.path}: {error}; delete it to start again"
            ) from error
        except Exception as error:  # whatever a made file can cause that no check has foreseen
            raise unforeseen(self.checkpoint.path, error, "delete it to start again") from error

    def __enter__(self) -> "Monitor":
        """From here on the first signal ends training after this iteration, the second one ends the
        program."""
        self._requests.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._requests.__exit__(*failure)

    def _interrupt(self) -> None:
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
    """Iteration, loss (of perceptrons: mistakes) and development score on one line of the terminal.
     Elsewhere, as in notebooks and logs: nothing, or with `lines` a line every few seconds and one
    at the end.

    total : the limit of iterations that was set; None where training runs until it converges
    tol : training stops when the relative improvement over PERIOD iterations is below this
    """

    lines = False

    def __init__(
        self, total: int | None = None, tol: float | None = None, what: str = "training"
    ) -> None:
        self.live = sys.stderr.isatty()
        self._bar: Any = None
        self._total, self._tol, self._what = total, tol, what
        self._losses: list[float] = []
        self._dev = ""
        # the line to be written at the end, and when the last one was
        self._waiting, self._last_written = "", -np.inf

    def __call__(self, record: Record, max_iter: int) -> None:
        if not self.live and not self.lines:
            return
        if record["iteration"] < len(self._losses):  # another start
            self._losses, self._dev = [], ""
        self._losses.append(record["loss"])
        if "dev" in record:
            self._dev = f"  dev {100 * record['dev']:.2f}"
        if "mistakes" in record:
            note = (
                f"mistakes {record['mistakes']:,} ({100 * record['separable']:.1f} % "
                f"separable){self._dev}"
            )
        else:
            note = f"loss {record['loss']:,.1f}{self._gain()}{self._dev}"
        if self.live:
            if self._bar is None:
                self._start()
            with suppress(OSError):
                self._bar.update(self._task, completed=record["iteration"], note=note)
            return
        of_total = f"/{self._total}" if self._total else ""
        self._waiting = (
            f"{self._what}  {record['iteration']}{of_total}  {note}  {record['seconds']:.1f} s\n"
        )
        if time.monotonic() - self._last_written >= SECONDS_PER_LINE:
            self._write()

    def _write(self) -> None:
        with suppress(OSError):  # a terminal that is gone must not end the training
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
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed
        from rich.progress import TimeRemainingColumn as Remaining

        done = (
            [BarColumn(bar_width=24), MofNCompleteColumn()]
            if self._total
            else [TextColumn("{task.completed}")]
        )
        left = [TextColumn("and at most"), Remaining(), TextColumn("more")] if self._total else []
        columns = (
            TextColumn("{task.description}"),
            *done,
            TextColumn("{task.fields[note]}"),
            Elapsed(),
            *left,
        )
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(self._what, total=self._total, note="")
        self._bar.start()

    def close(self) -> None:
        """Leave the last line on the terminal, or write it."""
        if self._waiting:
            self._write()
        if self._bar is not None:
            with suppress(OSError):
                self._bar.stop()
            self._bar = None
