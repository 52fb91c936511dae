"""Running the steps of an experiment: each result is a file, so that an interrupted run resumes where it stopped."""

import hashlib
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import labelwright
from labelwright.errors import OptionError
from labelwright.features.builtin import BUILTIN
from labelwright.reproduce.experiment import Experiment, Result, Step
from labelwright.storage import replace_file
from labelwright.wording import counted, duration

T = TypeVar("T")
SHARED = ("measured.py", "data.py")  # files on which the results of every experiment depend
ARM_CORES = {("0x41", "0xd0c"): "Neoverse N1", ("0x41", "0xd40"): "Neoverse V1", ("0x41", "0xd4f"): "Neoverse V2"}
Say = Callable[[str], None]


class Work:
    """The folder of an experiment: results of steps, models and labels, and where the corpora are."""

    def __init__(
        self, experiment: Experiment, corpora: Path | None, folder: Path, quick: bool, say: Say, fresh: bool = False
    ):
        """A folder for one experiment; `fresh` forgets what an earlier run left behind."""
        self.experiment, self.corpora, self.quick, self.say, self.fresh = experiment, corpora, quick, say, fresh
        self.folder = folder / f"{experiment.name}{'.quick' if quick else ''}"
        self.results: dict[str, Result] = {}
        self.machines: set[str] = set()  # that ran the steps
        self._models: dict[str, Any] = {}
        self._data: dict[Any, Any] = {}
        for name in experiment.corpora:
            if corpora is None or not (corpora / name).is_dir():
                place = "give --corpora DIR, or set LABELWRIGHT_CORPORA"
                if corpora is not None:
                    place = f"there is no folder {name} in {corpora}; docs/papers says where corpora come from"
                raise OptionError(f"{experiment.name}: needs the corpus {name}; {place}")

    def run(self) -> Mapping[str, Result]:
        """The results of all steps; those that are already there are taken over."""
        steps = self.experiment.steps(self.quick)
        if self.fresh:
            shutil.rmtree(self.folder / "steps", ignore_errors=True)
        for part in ("steps", "models", "labels"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        for step in steps:
            if not self._taken_over(step):
                break
        todo = steps[len(self.results) :]
        if self.results:
            self.say(f"{self.experiment.name}: {len(self.results)} of {len(steps)} steps are done; resuming")
        if todo:
            minutes = sum(step.minutes for step in todo)
            time_needed = "" if self.quick else f", about {duration(60 * minutes)} on two cores"
            self.say(f"{self.experiment.name}: {counted(len(todo), 'step')} to run{time_needed}; first: {todo[0].name}")
        begun, spent = time.perf_counter(), 0.0
        for step in todo:
            started = time.perf_counter()
            result = step.run(self)
            seconds = time.perf_counter() - started
            self._keep(step, result | {"step_seconds": round(seconds, 2)})
            spent += step.minutes
            left = sum(step.minutes for step in todo) - spent
            rate = (time.perf_counter() - begun) / max(spent, 1e-9)
            self.say(_progress(len(self.results), len(steps), step, result, seconds, left * rate))
        return {step.name: self.results[step.name] for step in steps}

    def _taken_over(self, step: Step) -> bool:
        """Whether the result of a step is there, made by this version of the experiment from the results before it."""
        path = self._place("steps", step.name, ".json")
        try:
            kept = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return False
        if kept.get("fingerprint") != self._fingerprint():
            return False
        self.results[step.name] = kept["result"]
        self.machines.add(kept["machine"])
        return True

    def _fingerprint(self) -> str:
        """What the next result depends on: this version, its experiments and templates, the corpora, and all results
        before it."""
        return _hash([self._sources, json.dumps(self.results, sort_keys=True).encode()])

    @cached_property
    def _sources(self) -> bytes:
        """A hash of the code and of the corpora."""
        code = [Path(self.experiment.source), *(Path(__file__).with_name(name) for name in SHARED)]
        data = [
            path
            for name in self.experiment.corpora
            for path in sorted((self.corpora / name).iterdir())  # type: ignore[operator]
            if path.is_file()
        ]
        templates = {name: made(2) for name, made in BUILTIN.items()}
        facts = f"{labelwright.__version__} {self.quick} {templates}"
        return _hash([facts.encode(), *(path.read_bytes() for path in [*code, *data])]).encode()

    def _keep(self, step: Step, result: Result) -> None:
        here = machine()
        facts = {"fingerprint": self._fingerprint(), "step": step.name, "machine": here, "result": result}
        content = json.dumps(facts, default=float)
        self.results[step.name] = json.loads(content)["result"]
        self.machines.add(here)
        replace_file(self._place("steps", step.name, ".json"), content.encode())

    def _place(self, part: str, name: str, suffix: str) -> Path:
        return self.folder / part / (re.sub(r"[^\w.=-]+", "-", name) + suffix)

    def read(self, reader: Callable[[Path], T]) -> T:
        """What a reader makes of the corpora, read once in a run."""
        if reader not in self._data:
            assert self.corpora is not None
            self._data[reader] = reader(self.corpora)
        parts: T = self._data[reader]
        return parts

    # -- what steps leave for later steps ---------------------------------------------------------------------------

    def keep_model(self, name: str, model: Any) -> None:
        """Save a model for later steps."""
        self._models[name] = model
        model.save(self._place("models", name, ".lw"))

    def model(self, name: str) -> Any:
        """A model that an earlier step, of this run or of an interrupted one, has saved."""
        if name not in self._models:
            self._models[name] = labelwright.load(self._place("models", name, ".lw"))
        return self._models[name]

    def keep_labels(self, name: str, labels: list[list[str]]) -> None:
        """Save the labels that a system gave, a sentence on each line."""
        text = "".join(" ".join(sentence) + "\n" for sentence in labels)
        replace_file(self._place("labels", name, ".txt"), text.encode())

    def labels(self, name: str) -> list[list[str]]:
        """Labels that an earlier step has saved."""
        return [line.split() for line in self._place("labels", name, ".txt").read_text().splitlines()]


def _progress(done: int, n: int, step: Step, result: Result, seconds: float, left: float) -> str:
    shown = result.get("shown", "")
    time_left = f", about {duration(left)} left" if done < n else ""
    return f"[{done:>{len(str(n))}}/{n}] {step.name}{': ' if shown else ''}{shown} ({duration(seconds)}{time_left})"


def _hash(parts: Iterable[bytes]) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(hashlib.sha256(part).digest())
    return made.hexdigest()[:16]


def machine() -> str:
    """The machine in words: processor, cores, system, Python."""
    kind = ", ".join(filter(None, [_processor(), platform.machine()]))
    return f"{kind}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _processor() -> str:
    """The name of the processor, where Linux tells it or has its number."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    made = (facts.get("CPU implementer", ""), facts.get("CPU part", ""))
    return facts.get("model name") or ARM_CORES.get(made, platform.processor())
