"""Model files that nobody wrote: valid ones with a few things changed, and a right checksum.
Loading one and asking it everything must work, with finite answers, or end in one line of a
LabelwrightError; never in a crash, a hang, gigabytes of memory or another exception.

    python -m tests.fuzz.made_files [NAME ...] [--cases 1000] [--seed 0] [--memory 1.0] [--keep
    FOLDER]

Case i is made from the number i alone: `--seed 17 --cases 1` makes the file of case 17 again, and
with `--keep FOLDER` stores it.  The names (see zoo.py; checkpoints are among them) take turns.
With `make boundscheck` every index in compiled code is checked, too.  The exit code is 1 where a
case failed.
"""

import argparse
import collections
import contextlib
import dataclasses
import faulthandler
import functools
import io
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import click
import numpy as np
import zoo
from small_models import MODELS, WORDS, N, layers, words

import labelwright
from labelwright.errors import LabelwrightError
from labelwright.learn.monitor import remove_checkpoints

from . import file_changes

ROOT = Path(__file__).resolve().parents[2]
ASKED = 3  # sentences
CPU_SECONDS, SECONDS = 120, 1800  # of one case: an exact search may take half a minute
SLOW = ("explain", "predict_entities", "path_mass", "neighbours")
FINE = ("works", "refused", "not written")
LOSSES = ("loss", "norm", "merit")  # where training has failed they are not finite
# what is trained, and what the name of the changed file ends with (learn.checkpoint)
CHECKPOINTS = {
    "checkpoint:lbfgs": (lambda: labelwright.CRF(WORDS, n_jobs=1, max_iter=6), ""),
    "checkpoint:owlqn": (lambda: labelwright.CRF(WORDS, l1=0.5, n_jobs=1, max_iter=6), ""),
    "checkpoint:sgd": (
        lambda: labelwright.CRF(WORDS, optimizer="sgd", averaging="avg", n_jobs=1, max_iter=6),
        "",
    ),
    "checkpoint:perceptron": (lambda: labelwright.Perceptron(WORDS, n_jobs=1, max_iter=6), ""),
    "checkpoint:restart": (
        lambda: labelwright.LatentCRF(2, WORDS, n_restarts=2, n_jobs=1, max_iter=6),
        ".2",
    ),
    "checkpoint:joint": (MODELS["cascade"][0], ""),
    "checkpoint:layer": (MODELS["cascade"][0], ".layer1"),
}
NAMES = (*zoo.NAMES, *CHECKPOINTS)
COMMANDS = (
    ("inspect",),
    ("inspect", "--json"),
    ("tag", "-"),
    ("tag", "-", "--nbest", "2"),
    ("tag", "-", "--text"),
)
ROWS = (("Mary", "NNP", "3"), ("ran", "VBD", "3"), (), ("in", "IN", "2"), ())
TEXTS = ["Mary saw the house in London.\nShe left.", ""]


class FailedError(Exception):
    """A made file has done what none may do."""


# -- what a file is asked --------------------------------------------------------------------------


@functools.cache
def data_of(name):
    return zoo.data_of(name)(1, ASKED)


def ask_everything(path, name, turn=None):
    """Load a model and ask it all that its kind answers; a loaded model may refuse a question.

    turn : a number that says which of the slow questions are asked; None: all"""
    model = zoo.loaded(path)
    X, y = data_of(name)
    predicted = None
    with contextlib.suppress(LabelwrightError):
        predicted = checked("predict", model.predict(X))
    for number, (question, answer) in enumerate(questions(model, name, X, y).items()):
        if question in SLOW and turn is not None and (turn + number) % 3:
            continue
        with contextlib.suppress(LabelwrightError):
            checked(question, answer())
    again = io.BytesIO()
    model.save(again)
    try:
        again = zoo.loaded(again.getvalue())
    except LabelwrightError as error:
        raise FailedError(f"what it saves is refused: {error}") from error
    if predicted is not None and not equal(again.predict(X), predicted):
        raise FailedError("what it saves predicts other labels")
    for number, command in enumerate(COMMANDS):
        if turn is None or turn % len(COMMANDS) == number:
            run_command(path, model, *command)
    if hasattr(model, "partial_fit") and (turn is None or turn % 4 == 0):
        with contextlib.suppress(LabelwrightError):
            model.partial_fit(*zoo.data_of(name)(3, 2))


def questions(model, name, X, y):
    """All that a model can be asked, by name."""
    asked = {
        method: functools.partial(getattr(model, method), X)
        for method in (
            "predict_nbest",
            "predict_marginals",
            "predict_spans",
            "predict_proba",
            "neighbours",
            "decode",
            "sequence_entropies",
            "likely_spans",
            "answers",
        )
        if hasattr(model, method)
    }
    for decoder in getattr(model, "decoders", ()):
        asked[f"decode {decoder}"] = functools.partial(model.decode, X, decoder)
    if hasattr(model, "predict_nbest") and name != "lattice-crf":
        asked["decode under the scheme"] = lambda: model.decode(X, constraints="scheme")
        asked["explain"] = lambda: model.explain(
            X.take(slice(0, 1)) if hasattr(X, "take") else X[0]
        )
        asked["predict_entities"] = lambda: model.predict_entities(TEXTS)
    if hasattr(model, "_path_mass"):
        asked["path_mass"] = lambda: model._path_mass(X, 20)
    if hasattr(model, "sample"):
        asked["sample"] = lambda: model.sample(X, 2, random_state=0)
    if y is not None and hasattr(model, "sequence_log_probabilities"):
        asked["sequence_log_probabilities"] = lambda: log_probabilities(model, X, y)
    if hasattr(model, "uncalibrated"):
        asked["uncalibrated"] = lambda: model.uncalibrated().predict(X)
    plain = ("describe", "_sizes", "_summary", "reads", "signature", "__repr__", "__getstate__")
    for method in plain:
        if hasattr(model, method):
            asked[method] = getattr(model, method)
    asked["knows"] = lambda: model.knows(["the", "\x00"]) if hasattr(model, "knows") else None
    return asked


def log_probabilities(model, X, y):
    """Those of true labels, of all layers; none is minus infinity."""
    answers = model.sequence_log_probabilities(X, y)
    of_layers = answers.values() if isinstance(answers, dict) else [answers]
    return [max(p, -1e300) for layer in of_layers for p in layer]


def run_command(path, model, name, *options):
    """Run a command on a file and some lines; a mistake of ours is an exception."""
    from labelwright.cli import main

    n_columns = len(model.reads().columns) if hasattr(model, "reads") else 1
    lines = "\n".join("\t".join(row[: max(1, n_columns)]) for row in ROWS)
    out, before = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(lines.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main([name, str(path), *options])
    except (LabelwrightError, click.exceptions.Exit, click.ClickException):
        return
    finally:
        sys.stdin = before
    if "--json" in options:
        json.loads(out.buffer.getvalue())


def checked(question, answer):
    """The answer, all numbers of which must be finite."""
    # labels that may not follow each other
    allowed = (-math.inf,) if question == "decode marginal" else ()
    if question != "__getstate__":
        for number in numbers_in(answer):
            if not math.isfinite(number) and number not in allowed:
                raise FailedError(f"{question}: {number}")
    return answer


def numbers_in(value):
    """Those of an answer that may not be finite."""
    if isinstance(value, str | int) or value is None:  # bool, too
        return
    if isinstance(value, float):  # also np.float64
        yield value
    elif isinstance(value, np.ndarray):
        yield from [] if value.dtype.kind != "f" or np.isfinite(value).all() else [math.nan]
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from () if key in LOSSES else numbers_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers_in(item)
    elif dataclasses.is_dataclass(value):
        yield from numbers_in([getattr(value, field.name) for field in dataclasses.fields(value)])
    elif isinstance(value, np.floating):
        yield float(value)


def equal(one, other):
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


# -- checkpoints -----------------------------------------------------------------------------------


def checkpointed(name):
    """An untrained model and its data."""
    made, _ = CHECKPOINTS[name]
    model = made()
    return model, (layers if isinstance(model, labelwright.Cascade) else words)(0, N)


def go_on(path, name, turn):
    """Go on from a checkpoint."""
    model, data = checkpointed(name)
    of_part = Path(f"{path}{CHECKPOINTS[name][1]}")
    path.rename(of_part)
    try:
        model.fit(*data, checkpoint=path, checkpoint_every=1e9, resume=True)
    finally:
        remove_checkpoints(path)
    for each in model.layers_.values() if isinstance(model, labelwright.Cascade) else [model]:
        checked("weights", each.weights_)


# -- cases -----------------------------------------------------------------------------------------


class Sources:
    """The valid files that all others are made of, in a folder."""

    def __init__(self, folder):
        self.folder, self.ready = Path(folder), {}

    def of(self, name):
        """The bytes of a valid file, which has answered everything once (compiled code is loaded by
        then)."""
        if name not in self.ready:
            path = self.folder / f"{name.replace(':', '-')}.valid"
            if not path.exists():
                path.write_bytes(
                    self._checkpoint(name) if name in CHECKPOINTS else zoo.content(name)
                )
            trial = self.folder / "trial"
            trial.write_bytes(path.read_bytes())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.ask(trial, name)
            self.ready[name] = path.read_bytes()
        return self.ready[name]

    def _checkpoint(self, name):
        model, data = checkpointed(name)
        path = self.folder / "checkpoint"
        model.fit(*data, checkpoint=path, checkpoint_every=0.0)
        content = Path(f"{path}{CHECKPOINTS[name][1]}").read_bytes()
        remove_checkpoints(path)
        return content

    @staticmethod
    def ask(path, name, turn=None):
        (go_on if name in CHECKPOINTS else ask_everything)(path, name, turn)


def made_file(case, name, content):
    """The bytes of the file of a case; None where there is no such file."""
    rng = np.random.default_rng(case)
    if name in zoo.OTHER_PROGRAMS:
        return file_changes.changed_bytes(rng, content)
    return file_changes.written(*file_changes.changed(rng, *file_changes.opened(content)))


def outcome_of(path, name, turn):
    """What happens when the file at this path is loaded and asked."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Sources.ask(path, name, turn)
        outcome = "works"
    except LabelwrightError as error:
        outcome = _refusal(str(error))
    except BaseException as error:
        places = traceback.extract_tb(error.__traceback__)
        ours = [place for place in places if "labelwright" in place.filename] or places
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        outcome = f"raised {type(error).__name__}: {error!s:.300} @ {place}"
    seconds = time.process_time() - begun
    return outcome if seconds < CPU_SECONDS / 2 else f"slow ({seconds:.0f} s): {outcome}"


def _refusal(message):
    if "\n" in message:
        return f"several lines: {message}"
    if "MemoryError" in message or "allocate" in message:
        return f"memory: {message}"
    return f"net: {message}" if "does not fit together (" in message else "refused"


def work(names, cases, folder, memory, keep):
    """Make and ask the files of these cases; a line on stdout for each."""
    sources, path, stdout = Sources(folder), Path(folder, "made"), sys.stdout
    faulthandler.enable(open(Path(folder, "trace"), "w"))  # noqa: SIM115  as long as the process lives
    for case in cases:
        name = names[case % len(names)]
        content = made_file(case, name, sources.of(name))
        Path(folder, "case").write_text(f"{case} {name}")
        outcome = "not written"
        if content is not None:
            path.write_bytes(content)
            if keep:
                Path(keep).mkdir(parents=True, exist_ok=True)
                Path(keep, f"{case}-{name.replace(':', '-')}").write_bytes(content)
            with limited(memory):
                outcome = outcome_of(path, name, case // len(names))
        print(case, name, outcome.replace("\n", "\\n"), file=stdout, flush=True)


@contextlib.contextmanager
def limited(memory):
    """With so many GB beyond those in use, and with limited time: a signal then ends the
    process."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + int(memory * 2**30), before[1]))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)


# -- the process that looks on ---------------------------------------------------------------------


def outcomes(names, cases, memory=1.0, keep=None):
    """(case, name, outcome) of each; where the process that asks is killed, another goes on."""
    with tempfile.TemporaryDirectory() as folder:
        case, end = cases.start, cases.stop
        while case < end:
            command = [sys.executable, "-m", "tests.fuzz.made_files", *names, "--child", folder]
            command += ["--seed", str(case), "--cases", str(end - case), "--memory", str(memory)]
            command += ["--keep", str(Path(keep).resolve())] if keep else []
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT
            ) as child:
                for line in child.stdout:
                    number, name, outcome = line.rstrip("\n").split(" ", 2)
                    case = int(number) + 1
                    yield int(number), name, outcome
            if child.returncode == 0:
                return
            at = Path(folder, "case")
            number, name = at.read_text().split() if at.exists() else ("-1", "?")
            if int(number) != case:
                raise RuntimeError(
                    f"case {case}: the valid file does not work ({child.returncode})"
                )
            yield (
                case,
                name,
                f"killed by {_signal(child.returncode)}: {_last_frame(Path(folder, 'trace'))}",
            )
            case += 1


def environment():
    return {**os.environ, "LABELWRIGHT_DEBUG": "1"}


def _signal(code):
    meaning = {signal.SIGPROF: f"{CPU_SECONDS} s of work", signal.SIGALRM: f"{SECONDS} s"}
    return meaning.get(-code, signal.Signals(-code).name) if code < 0 else f"exit code {code}"


def _last_frame(trace):
    lines = [line.strip() for line in trace.read_text().splitlines() if line.startswith("  File")]
    return lines[0] if lines else "nothing known"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument(
        "--memory", type=float, default=1.0, help="GB that a file may ask for beyond those in use"
    )
    parser.add_argument("--keep", help="folder for all made files")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names, cases = options.names or NAMES, range(options.seed, options.seed + options.cases)
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; expected some of {', '.join(NAMES)}")
    if options.child:
        return work(names, cases, options.child, options.memory, options.keep)
    return report(outcomes(names, cases, options.memory, options.keep))


def report(results, option="--seed"):
    """Print what failed, with the option that makes it again, and in the end how many did; the
    number of failures."""
    begun, counts = time.monotonic(), collections.Counter()
    for case, name, outcome in results:
        kind = outcome if outcome in FINE else "net" if outcome.startswith("net: ") else "failed"
        counts[kind] += 1
        if kind in ("failed", "net"):
            print(f"{name} {option} {case}: {outcome}", flush=True)
    print(
        json.dumps({"seconds": round(time.monotonic() - begun), "cases": counts.total(), **counts}),
        flush=True,
    )
    return counts["failed"]


if __name__ == "__main__":
    sys.exit(bool(main()))
