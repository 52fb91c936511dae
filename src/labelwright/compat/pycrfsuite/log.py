"""The messages of a training run as CRFsuite words them, and what a program can read in them."""

import re
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.features.attributes import Collected
from labelwright.features.incidence import Encoded
from labelwright.interchange.chains import ChainModel
from labelwright.learn.monitor import Monitor
from labelwright.scoring.parameters import Trained
from labelwright.taggers.linear import encode

Array = NDArray[Any]
# sentences that every iteration is evaluated on, and their labels
HeldOut = tuple[Collected, list[list[str]]]
TITLES = {
    "lbfgs": "L-BFGS optimization",
    "l2sgd": "Stochastic Gradient Descent (SGD)",
    "averaged-perceptron": "Averaged perceptron",
    "passive-aggressive": "Passive Aggressive",
    "arow": "Adaptive Regularization of Weights (AROW)",
}
# other names in the messages of L-BFGS
SHOWN = {"period": "stop", "max_linesearch": "linesearch.max_iterations"}
LIMIT = "reached the limit"  # how the reason of such an end begins
FIGURES: dict[str, tuple[str, type]] = {  # of an iteration: how messages call them, and their type
    "loss": ("Loss", float),
    "feature_norm": ("Feature norm", float),
    "error_norm": ("Error norm", float),
    "active_features": ("Active features", int),
    "linesearch_trials": ("Line search trials", int),
    "linesearch_step": ("Line search step", float),
    "time": ("Seconds required for this iteration", float),
}
AVERAGES = ("avg_precision", "avg_recall", "avg_f1")
HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
MACRO = "Macro-average precision, recall, F1"
SCORE = re.compile(r"    (.+): \((\d+), (\d+), (\d+)\) \(([\d.*]+), ([\d.*]+), ([\d.*]+)\)")


class LabelScore(NamedTuple):
    """How well one label was found in the holdout data."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


class TrainLogParser:
    """The messages of a training run, its events (start, featgen_progress, featgen_end, prepared or
    prepare_error, iteration, optimization_end, end), and the figures of every iteration."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []  # name, first message, end

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        return self.iterations[-1] if self.iterations else None

    @property
    def last_log(self) -> str:
        """The messages of the last event."""
        _, begin, end = self.events[-1]
        return "".join(self.log[begin:end])

    def feed(self, line: str) -> str | None:
        """Take the next message; the event that it completes, if any."""
        self.log.append(line)
        event = self._event_of(line)
        if event is not None:
            # these end before the line that shows it
            end = len(self.log) - (event in ("prepared", "optimization_end"))
            self.events.append((event, self.events[-1][2] if self.events else 0, end))
        return event

    def _event_of(self, line: str) -> str | None:
        title, _, value = line.partition(": ")
        before, head, event = self.state, HEAD.match(line), None
        if before in (None, "STARTING"):
            self.state = "FEATGEN" if line.startswith("Feature generation") else "STARTING"
            event = "start" if before is None else None
        elif before == "FEATGEN" and line in (*"0123456789.", "10"):
            self.featgen_percent += 2
            event = "featgen_progress"
        elif before == "FEATGEN" and title == "Number of features":
            self.featgen_num_features = int(value)
        elif before == "FEATGEN" and title == "Seconds required":
            self.featgen_seconds, self.state, event = float(value), "AFTER_FEATGEN", "featgen_end"
        elif before == "ITERATION" and line == "\n":
            self.state, event = "AFTER_ITERATION", "iteration"
            self.iterations.append(self._figures)
        elif before == "ITERATION":
            self._figures |= self._figures_in(line)
        elif before in ("AFTER_FEATGEN", "AFTER_ITERATION") and head:
            self._figures: dict[str, Any] = {"num": int(head[1]), "scores": {}}
            self.state, event = "ITERATION", "prepared" if before == "AFTER_FEATGEN" else None
        elif before == "AFTER_FEATGEN" and "terminated with error" in line:
            self.state, event = "AFTER_ITERATION", "prepare_error"
        elif before == "AFTER_ITERATION" and title == "Total seconds required for training":
            self.training_seconds = float(value)
        elif before == "AFTER_ITERATION" and line.startswith("Storing the model"):
            self.state, event = "STORING", "optimization_end"
        elif before == "STORING" and title == "Seconds required":
            self.storing_seconds = float(value)
        elif before == "STORING" and line == "\n":
            event = "end"
        return event

    def _figures_in(self, line: str) -> dict[str, Any]:
        title, _, value = line.replace("L2-norm", "norm").partition(": ")
        if title == MACRO:
            return dict(zip(AVERAGES, map(float, value.strip("()\n").split(",")), strict=True))
        if title in ("Item accuracy", "Instance accuracy"):
            right, _, n, *_ = value.split()
            share, what = Fraction(int(right), max(1, int(n))), title.partition(" ")[0].lower()
            return {f"{what}_accuracy": share, f"{what}_accuracy_float": float(share)}
        score = SCORE.match(line)
        if score:
            shares = [None if "*" in x else float(x) for x in score.groups()[4:]]
            self._figures["scores"][score[1]] = LabelScore(
                int(score[2]), int(score[3]), int(score[4]), *shares
            )
        return {name: kind(value) for name, (shown, kind) in FIGURES.items() if shown == title}


class TrainingLog:
    """Sends the messages of one run, one by one, to `send`."""

    def __init__(
        self,
        send: Callable[[str], None],
        algorithm: str,
        settings: dict[str, Any],
        labels: list[str],
        held_out: HeldOut,
    ):
        self.send, self.algorithm, self.settings, self.labels = send, algorithm, settings, labels
        self.held_out = held_out
        self._encoded: Encoded | None = None
        self._begun = self._last = time.perf_counter()

    def start(self, holdout: int) -> None:
        """Training begins: the features are numbered."""
        group = [f"Holdout group: {holdout + 1}", ""] if holdout >= 0 else []
        self._lines(*group, "Feature generation", "type: CRF1d")
        self._settings([name for name in self.settings if name.startswith("feature.")])

    def prepared(self, n_weights: int) -> None:
        """The features are known."""
        for percent in range(0, 101, 2):
            self.send(str(percent // 10) if percent % 10 == 0 else ".")
        self._lines("", f"Number of features: {n_weights}", f"Seconds required: {self._lap():.3f}")
        self._lines("", TITLES[self.algorithm])
        self._settings([name for name in self.settings if not name.startswith("feature.")])
        self._lines("")
        self._begun = time.perf_counter()

    def iteration(self, tagger: Any, monitor: Monitor, trained: Trained, weights: Array) -> None:
        """An iteration is done."""
        record, is_sgd = monitor.history[-1], self.algorithm == "l2sgd"
        figures = {
            "loss": float(record["loss"]),
            "feature_norm": np.linalg.norm(weights.astype(np.float64)),
        }
        if self.algorithm == "lbfgs":
            figures["error_norm"] = float(record.get("norm", 0.0))
            figures["active_features"] = np.count_nonzero(weights)
            figures["linesearch_trials"] = record.get("evaluations", 1)
        figures["time"] = self._lap()
        self._lines(f"***** {'Epoch' if is_sgd else 'Iteration'} #{record['iteration']} *****")
        for name, figure in figures.items():
            title, kind = FIGURES[name]
            title = title.replace("norm", "L2-norm") if is_sgd else title
            self._lines(
                f"{title}: {figure:{'.3f' if name == 'time' else 'f' if kind is float else 'd'}}"
            )
        if len(self.held_out[0]):
            self._evaluate(tagger, trained._replace(weights=weights))
        self._lines("")

    def _evaluate(self, tagger: Any, trained: Trained) -> None:
        """How well the held-out sentences are labelled."""

        def labels_of(batch: Batch) -> list[list[str]]:
            return [record.labels for record in batch.decode("viterbi", probabilities=False)]

        if self._encoded is None:  # all iterations have the same features
            self._encoded = encode(trained.extractor, self.held_out[0])
        predicted, gold = tagger._ask_with(trained, self._encoded, labels_of), self.held_out[1]
        pairs = list(zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True))
        reference, model = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
        match = Counter(a for a, b in pairs if a == b)
        self._lines("Performance by label (#match, #model, #ref) (precision, recall, F1):")
        totals = np.zeros(3)
        for label in self.labels:
            m, n, r = counts = match[label], model[label], reference[label]
            p, q = m / n if n else 0.0, m / r if r else 0.0
            shares = p, q, 2 * p * q / (p + q) if p + q else 0.0
            totals += shares
            shown = ", ".join(f"{share:.4f}" if n or r else "******" for share in shares)
            self._lines(f"    {label}: {counts} ({shown})")
        averages = (totals / max(1, len(self.labels))).tolist()
        self._lines(f"{MACRO}: ({', '.join(f'{average:f}' for average in averages)})")
        whole = sum(a == b for a, b in zip(gold, predicted, strict=True))
        for what, right, n in (
            ("Item", sum(match.values()), len(pairs)),
            ("Instance", whole, len(gold)),
        ):
            self._lines(f"{what} accuracy: {right} / {n} ({right / max(1, n):.4f})")

    def trained(self, reason: str | None) -> None:
        """Training ended, for this reason; None where there was nothing to learn."""
        if self.algorithm in ("lbfgs", "l2sgd"):
            how = (
                "the maximum number of iterations"
                if str(reason).startswith(LIMIT)
                else "the stopping criteria"
            )
            name = "L-BFGS" if self.algorithm == "lbfgs" else "SGD"
            self._lines(f"{name} terminated with {'error: no data' if reason is None else how}")
        elif reason is not None and not reason.startswith(LIMIT):
            self._lines("Terminated with the stopping criterion", "")
        self._lines(
            f"Total seconds required for training: {time.perf_counter() - self._begun:.3f}", ""
        )
        self._lap()

    def stored(self, model: ChainModel, n_weights: int, n_attributes: int) -> None:
        """The model was written."""
        self._lines(
            "Storing the model",
            f"Number of active features: {len(model.weight) + len(model.transition)} ({n_weights})",
            f"Number of active attributes: {len(model.attributes)} ({n_attributes})",
            f"Number of active labels: {len(model.labels)} ({len(self.labels)})",
            "Writing labels",
            "Writing attributes",
            "Writing feature references for transitions",
            "Writing feature references for attributes",
            f"Seconds required: {self._lap():.3f}",
            "",
        )

    def _settings(self, names: list[str]) -> None:
        for name in names:
            value = self.settings[name]
            shown = SHOWN.get(name, name) if self.algorithm == "lbfgs" else name
            value = int(value) if isinstance(value, bool) else value
            self._lines(f"{shown}: {value:f}" if isinstance(value, float) else f"{shown}: {value}")

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.send(line + "\n")

    def _lap(self) -> float:
        """Seconds since the last call."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before
