"""Reads the messages of a training run as they come: events, and the figures of every iteration."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple


class LabelScore(NamedTuple):
    """How well one label was found in the holdout data."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


NUMBER = r"(-?\d+\.\d+)"
FIGURES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "loss": (rf"Loss: {NUMBER}", float),
    "feature_norm": (rf"Feature norm: {NUMBER}", float),
    "error_norm": (rf"Error norm: {NUMBER}", float),
    "active_features": (r"Active features: (\d+)", int),
    "linesearch_trials": (r"Line search trials: (\d+)", int),
    "linesearch_step": (rf"Line search step: {NUMBER}", float),
    "time": (rf"Seconds required for this iteration: {NUMBER}", float),
}
HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
SECONDS = re.compile(rf"Seconds required: {NUMBER}")
FEATURES = re.compile(r"Number of features: (\d+)")
TOTAL = re.compile(rf"Total seconds required for training: {NUMBER}")
AVERAGES = re.compile(rf"Macro-average precision, recall, F1: \({NUMBER}, {NUMBER}, {NUMBER}\)")
ACCURACY = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")
SCORE = re.compile(r"\s{4}(.+): \((\d+), (\d+), (\d+)\) \(([\d.*]+), ([\d.*]+), ([\d.*]+)\)")


class TrainLogParser:
    """Feed it the messages one by one; it tells which event each one completes, if any.

    The events are start, featgen_progress, featgen_end, prepared or prepare_error, iteration, optimization_end, end."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []  # name, first message, end

    def feed(self, line: str) -> str | None:
        self.log.append(line)
        if self.state is None:
            self.state = "STARTING"
            self._starting(line)
            self.events.append(("start", 0, 1))
            return "start"
        event: str | None = getattr(self, f"_{self.state.lower()}")(line)
        if event is not None:
            end = len(self.log) - (event in ("prepared", "optimization_end"))  # the last line begins what follows
            self.events.append((event, self.events[-1][2], end))
        return event

    @property
    def last_log(self) -> str:
        """The messages of the last event."""
        _, begin, end = self.events[-1]
        return "".join(self.log[begin:end])

    # -- what each state makes of a line --------------------------------------------------------------------------

    def _starting(self, line: str) -> None:
        if line.startswith("Feature generation"):
            self.state = "FEATGEN"

    def _featgen(self, line: str) -> str | None:
        if line in (*"0123456789.", "10"):
            self.featgen_percent += 2
            return "featgen_progress"
        features, seconds = FEATURES.match(line), SECONDS.match(line)
        if features:
            self.featgen_num_features = int(features[1])
        if not seconds:
            return None
        self.featgen_seconds = float(seconds[1])
        self.state = "AFTER_FEATGEN"
        return "featgen_end"

    def _after_featgen(self, line: str) -> str | None:
        if HEAD.match(line):
            self.state = "ITERATION"
            self._iteration(line)
            return "prepared"
        if "terminated with error" in line:
            self.state = "AFTER_ITERATION"
            return "prepare_error"
        return None

    def _iteration(self, line: str) -> str | None:
        head = HEAD.match(line)
        if head:
            self.last_iteration = {"num": int(head[1]), "scores": {}}
            self.iterations.append(self.last_iteration)
        elif line == "\n":
            self.state = "AFTER_ITERATION"
            return "iteration"
        elif self.last_iteration is not None:
            self._figures(line, self.last_iteration)
        return None

    @staticmethod
    def _figures(line: str, iteration: dict[str, Any]) -> None:
        for name, (pattern, kind) in FIGURES.items():
            figure = re.match(pattern, line)
            if figure:
                iteration[name] = kind(figure[1])
        averages, accuracy, score = AVERAGES.match(line), ACCURACY.match(line), SCORE.match(line)
        if averages:
            names = "avg_precision", "avg_recall", "avg_f1"
            iteration.update(zip(names, map(float, averages.groups()), strict=True))
        if accuracy:
            share = Fraction(int(accuracy[2]), int(accuracy[3]))
            name = f"{accuracy[1].lower()}_accuracy"
            iteration.update({name: share, f"{name}_float": float(share)})
        if score:
            shares = [None if "*" in x else float(x) for x in score.groups()[4:]]
            iteration["scores"][score[1]] = LabelScore(int(score[2]), int(score[3]), int(score[4]), *shares)

    def _after_iteration(self, line: str) -> str | None:
        if HEAD.match(line):
            self.state = "ITERATION"
            return self._iteration(line)
        total = TOTAL.match(line)
        if total:
            self.training_seconds = float(total[1])
        if line.startswith("Storing the model"):
            self.state = "STORING"
            return "optimization_end"
        return None

    def _storing(self, line: str) -> str | None:
        if line == "\n":
            return "end"
        seconds = SECONDS.match(line)
        if seconds:
            self.storing_seconds = float(seconds[1])
        return None
