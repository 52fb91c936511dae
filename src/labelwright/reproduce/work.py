"""What an experiment consists of, and its runner: the result of each step is a file, so that an
interrupted run resumes where it stopped."""

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby
from multiprocessing import active_children, get_context
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import labelwright
from labelwright import Corpus
from labelwright.errors import OptionError
from labelwright.evaluate import compare
from labelwright.features.builtin import BUILTIN
from labelwright.parallel import share_machine
from labelwright.storage import replace_file
from labelwright.wording import counted, duration

T = TypeVar("T")
AS_PUBLISHED, OURS = "as published", "ours"
VARIANTS = (AS_PUBLISHED, OURS)
QUICK = (300, 100, 100)  # sentences to train on, for development and to test on, in a quick run
# a file on which the results of every experiment depend, as they do on that of its steps
SHARED = "measured.py"
# where that part of such a file begins which tells results
TOLD = re.compile(rb"\n# -- (?:rows|findings) ")
# no settings
WORDED = re.compile(
    "texts|notes|table|figure|published|published_curve|claims|orders|relation|minutes"
)
ARM_CORES = {
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd4f"): "Neoverse V2",
}

# what no test of a difference decides
HOLDS = {True: "holds", False: "does not hold", None: "not measured"}

Result = dict[str, Any]  # of a step: whatever JSON holds; "shown" is what progress shows of it


class Step(NamedTuple):
    """One resumable unit of work: a run of training, of decoding, or both."""

    name: str  # unique in its experiment, as progress and files show it
    minutes: float  # that a full run of it takes on two cores: an estimate, for the time left
    run: Callable[["Work"], Result]
    round: int = 0  # it reads results of steps of lower rounds alone


class Row(NamedTuple):
    """A figure of a paper beside ours."""

    table: str
    system: str
    metric: str
    paper: float | None  # None where the paper has no such figure
    ours: float  # the mean over seeds
    spread: float | None = None  # largest minus smallest over seeds
    seconds: float | None = None  # that the run behind it took, the mean over seeds
    variant: str = AS_PUBLISHED
    settings: str = ""
    seeds: Sequence[int] = (0,)  # of the runs that it is the mean of
    comparable: bool = True  # False where the data are not the paper's


class Claim(NamedTuple):
    """Something a paper says about its systems, and whether it is so here."""

    text: str
    kept: str  # a verdict: of HOLDS, or where a test decides of measured.py
    evidence: str


class Panel(NamedTuple):
    """One system of axes."""

    x_label: str
    y_label: str
    # by name: x, and y of each seed
    curves: Mapping[str, tuple[Sequence[float], Sequence[Sequence[float]]]]
    log_x: bool = False
    points: bool = False  # a cloud of points instead of lines
    # points of the paper, by the names of curves
    paper: Mapping[str, Sequence[tuple[float, float]]] = {}


class Figure(NamedTuple):
    """A figure of a paper, drawn from our results."""

    name: str  # of its file, without the suffix
    caption: str
    panels: Sequence[Panel]


class Findings(NamedTuple):
    """What a report shows."""

    rows: Sequence[Row]
    claims: Sequence[Claim] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()  # how the systems were set and measured


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper."""

    name: str
    title: str
    paper: str  # who and when
    corpora: Sequence[str]  # the folders that it reads
    steps: Callable[["Work"], Sequence[Step]]
    findings: Callable[["Work"], Findings]  # from the results of all steps
    source: str  # the file of the steps: results depend on it
    task: Any = None  # its tables and settings, as papers.toml describes them
    readings: Sequence[str] = ()  # how "as published" was read where the paper leaves room
    # what was checked where a figure of a full run misses that of the paper
    remarks: Sequence[str] = ()


class Parts(NamedTuple):
    """What an experiment trains on, makes its choices on, and tests on once."""

    train: Corpus
    dev: Corpus  # the training part where there is no other
    test: Corpus
    whole: Corpus  # what the final models are trained on


class Work:
    """The folder of an experiment: results of steps, models and labels, and where the corpora
    are."""

    def __init__(
        self,
        experiment: Experiment,
        corpora: Path | None,
        folder: Path,
        quick: bool,
        say: Callable[[str], None],
        fresh: bool = False,
        device: str = "cpu",
        jobs: int = 1,
    ):
        """A folder for one experiment; `fresh` forgets what an earlier run left behind."""
        self.experiment, self.corpora, self.quick, self.say, self.fresh = (
            experiment,
            corpora,
            quick,
            say,
            fresh,
        )
        self.device, self.jobs = device, jobs  # on which batch training runs; steps at once
        self.task = experiment.task
        self.folder = folder / f"{experiment.name}{'.quick' if quick else ''}"
        self.results: dict[str, Result] = {}  # by the names of steps, in their order
        self._rounds: dict[str, int] = {}  # of the steps
        self.machines: set[str] = set()  # that ran the steps
        self._data: dict[Any, Parts] = {}
        for name in experiment.corpora:
            if corpora is None or not (corpora / name).is_dir():
                place = "give --corpora DIR, or set LABELWRIGHT_CORPORA"
                if corpora is not None:
                    place = (
                        f"there is no folder {name} in {corpora}; docs/papers says where corpora "
                        "come from"
                    )
                raise OptionError(f"{experiment.name}: needs the corpus {name}; {place}")

    def run(self) -> Findings:
        """Run all steps but those whose results are already there; what follows from all
        results."""
        steps, name = self.experiment.steps(self), self.experiment.name
        by_round = sorted(steps, key=attrgetter("round"))
        if self.fresh:
            shutil.rmtree(self.folder / "steps", ignore_errors=True)
        for part in ("steps", "labels"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self._rounds = {step.name: step.round for step in steps}
        for step in by_round:
            self._take_over(step)
        todo = [step for step in by_round if step.name not in self.results]
        if self.results:
            self.say(f"{name}: {len(self.results)} of {len(steps)} steps are done; resuming")
        left = sum(step.minutes for step in todo)
        if todo:
            time_needed = "" if self.quick else f", about {duration(60 * left)} on two cores"
            first = f"; first: {todo[0].name}" if self.jobs == 1 else f", {self.jobs} at once"
            self.say(f"{name}: {counted(len(todo), 'step')} to run{time_needed}{first}")
        begun, spent = time.perf_counter(), 0.0
        for step, result in self._ran(todo):
            self._keep(step, result)
            spent, left = spent + step.minutes, left - step.minutes
            shown = f": {result['shown']}" if "shown" in result else ""
            left_over = left * (time.perf_counter() - begun) / spent
            time_left = (
                f", about {duration(left_over)} left" if len(self.results) < len(steps) else ""
            )
            done = f"[{len(self.results):>{len(str(len(steps)))}}/{len(steps)}]"
            self.say(f"{done} {step.name}{shown} ({duration(result['step_seconds'])}{time_left})")
        self.results = {step.name: self.results[step.name] for step in steps}
        return self.experiment.findings(self)

    def _ran(self, todo: Sequence[Step]) -> Iterator[tuple[Step, Result]]:
        """The results of steps as they come: one after the other, or those of a round side by
        side."""
        if self.jobs == 1:
            for step in todo:
                yield step, _timed(self, step)
            return
        pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), _beside, (self.jobs,))
        try:
            for number, steps in groupby(todo, key=attrgetter("round")):
                alone = copy(self)
                # each step reads the corpora anew
                alone._data, alone.results = {}, self._below(number)
                longest_first = sorted(steps, key=lambda step: -step.minutes)
                futures = {pool.submit(_timed, alone, step): step for step in longest_first}
                for future in as_completed(futures):
                    yield futures[future], future.result()
        except BaseException as error:  # Ctrl-C among them
            for process in active_children():
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                why = (
                    "a process died, perhaps for lack of memory; the same command with fewer "
                    "resumes"
                )
                raise OptionError(f"--jobs: {why}") from None
            raise
        pool.shutdown()

    def _take_over(self, step: Step) -> None:
        """Take the result of a step that is there, made by this version of the experiment from the
        same results."""
        try:
            kept = json.loads(self._place("steps", step.name, ".json").read_bytes())
        except (OSError, ValueError):
            return
        if kept.get("fingerprint") == self._fingerprint(step):
            self.results[step.name] = kept["result"]
            self.machines.add(kept["machine"])

    def _keep(self, step: Step, result: Result) -> None:
        by = machine() + ("" if self.device == "cpu" else f", {self.device}")
        by += "" if self.jobs == 1 else f", {self.jobs} steps at once"
        facts: Result = {
            "fingerprint": self._fingerprint(step),
            "step": step.name,
            "machine": by,
            "result": result,
        }
        content = json.dumps(facts, default=float)
        self.results[step.name] = json.loads(content)["result"]
        self.machines.add(facts["machine"])
        replace_file(self._place("steps", step.name, ".json"), content.encode())

    def _fingerprint(self, step: Step) -> str:
        """A hash of what the result of a step depends on: this version, its experiments and
        templates, the corpora, and the results of all lower rounds."""
        return _hash([self._sources, json.dumps(self._below(step.round), sort_keys=True).encode()])

    def _below(self, number: int) -> dict[str, Result]:
        """The results of all rounds below one."""
        return {
            name: result for name, result in self.results.items() if self._rounds[name] < number
        }

    @cached_property
    def _sources(self) -> bytes:
        code = (Path(self.experiment.source), Path(__file__).with_name(SHARED))
        parts = [TOLD.split(path.read_bytes())[0] for path in code]
        for name in self.experiment.corpora:
            files = sorted(
                path for path in Path(self.corpora or "", name).iterdir() if path.is_file()
            )
            parts += [path.read_bytes() for path in files]
        templates = {name: made(2) for name, made in BUILTIN.items()}
        task = vars(self.task) if self.task else {}
        settings = {name: value for name, value in task.items() if not WORDED.fullmatch(name)}
        facts = f"{labelwright.__version__} {self.quick} {settings} {templates}"
        return _hash([facts.encode(), *parts]).encode()

    def _place(self, part: str, name: str, suffix: str) -> Path:
        return self.folder / part / (re.sub(r"[^\w.=-]+", "-", name) + suffix)

    def read(self, reader: Callable[..., Parts], *args: Any) -> Parts:
        """What a reader makes of the corpora, read once in a run; of a quick run the first
        sentences of each part."""
        key = (reader, *args)
        if key not in self._data:
            parts = reader(self.corpora, *args)
            if self.quick:
                train, dev, test = (
                    part.take(slice(0, n)) for part, n in zip(parts, QUICK, strict=False)
                )
                parts = Parts(train, dev, test, train)
            self._data[key] = parts
        return self._data[key]

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds of runs whose result depends on chance."""
        return self.some((0, 1, 2))

    def some(self, choices: Sequence[T], n: int = 1) -> Sequence[T]:
        """All of these, or the first n of them in a quick run."""
        return choices[:n] if self.quick else choices

    def claim(self, name: str, holds: bool | None, **figures: Any) -> Claim:
        """A claim of the paper that no test decides, its text and evidence with these figures."""
        text, evidence = (form.format(**figures) for form in self.task.texts[name])
        return Claim(text, HOLDS[holds], evidence)

    # -- what steps leave for later steps ----------------------------------------------------------

    def keep_labels(self, name: str, labels: list[list[str]]) -> None:
        """Save the labels that a system gave, a sentence on each line."""
        text = "".join(" ".join(sentence) + "\n" for sentence in labels)
        replace_file(self._place("labels", name, ".txt"), text.encode())

    def labels(self, name: str) -> list[list[str]]:
        """Labels that an earlier step has saved."""
        return [
            line.split() for line in self._place("labels", name, ".txt").read_text().splitlines()
        ]

    def differences(
        self, gold: Sequence[Sequence[str]], names: Mapping[str, str]
    ) -> dict[str, Result]:
        """How all pairs of systems differ whose labels were kept under these names: F1 of both, how
        many tokens only one labels correctly, and the p-values of the paired bootstrap on F1 and of
        McNemar's test on tokens."""
        labels, pairs = {system: self.labels(name) for system, name in names.items()}, {}
        for a, b in combinations(labels, 2):
            pair = compare(gold, labels[a], labels[b])
            pairs[f"{a} / {b}"] = {
                "F1": [100 * (report.f1 or 0.0) for report in (pair.a, pair.b)],
                "p, F1": pair.bootstrap.p_value,
                "p, tokens": pair.mcnemar.p_value,
                "only first correct": pair.mcnemar.only_a,
                "only second correct": pair.mcnemar.only_b,
            }
        return pairs


def _beside(jobs: int) -> None:
    """Begin a process that runs steps beside others; Ctrl-C is for the first one, which ends
    them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    share_machine(jobs)


def _timed(work: Work, step: Step) -> Result:
    """The result of a step, and its seconds."""
    begun = time.perf_counter()
    return step.run(work) | {"step_seconds": round(time.perf_counter() - begun, 2)}


def _hash(parts: Iterable[bytes]) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(hashlib.sha256(part).digest())
    return made.hexdigest()[:16]


def machine() -> str:
    """The machine in words: processor (where Linux tells its name or its number), cores, system,
    Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    made = (facts.get("CPU implementer", ""), facts.get("CPU part", ""))
    kind = facts.get("model name") or ARM_CORES.get(made, platform.processor())
    shown = ", ".join(filter(None, [kind, platform.machine()]))
    return (
        f"{shown}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    )
