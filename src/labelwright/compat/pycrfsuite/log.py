"""What is known of a training run, event by event, and the messages of each as CRFsuite words them: programs read
figures out of them."""

import re
import time
from collections import Counter
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, Protocol

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
TITLES = {
    "lbfgs": "L-BFGS optimization",
    "l2sgd": "Stochastic Gradient Descent (SGD)",
    "averaged-perceptron": "Averaged perceptron",
    "passive-aggressive": "Passive Aggressive",
    "arow": "Adaptive Regularization of Weights (AROW)",
}
SHOWN = {"period": "stop", "max_linesearch": "linesearch.max_iterations"}  # other names in the messages of L-BFGS
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
    """The messages of a training run, its events (start, featgen_progress, featgen_end, prepared or prepare_error,
    iteration, optimization_end, end), and the figures of every iteration.

    A trainer says what has `happened`; `feed` finds it in the messages of another run."""

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

    def happened(self, event: str, later: int = 0, **facts: Any) -> str:
        """The messages since the last event, but for the `later` ones, complete an event with these facts."""
        for name, value in facts.items():
            setattr(self, name, value)
        if "last_iteration" in facts:
            self.iterations.append(facts["last_iteration"])
        self.events.append((event, self.events[-1][2] if self.events else 0, len(self.log) - later))
        return event

    @property
    def last_log(self) -> str:
        """The messages of the last event."""
        _, begin, end = self.events[-1]
        return "".join(self.log[begin:end])

    # -- messages of other runs -----------------------------------------------------------------------------------

    def feed(self, line: str) -> str | None:
        """Take the next message; the event that it completes, if any."""
        self.log.append(line)
        if self.state is None:
            self.state = "STARTING"
            self._starting(line)
            return self.happened("start")
        event: str | None = getattr(self, f"_{self.state.lower()}")(line)
        return event

    def _starting(self, line: str) -> None:
        if line.startswith("Feature generation"):
            self.state = "FEATGEN"

    def _featgen(self, line: str) -> str | None:
        if line in (*"0123456789.", "10"):
            return self.happened("featgen_progress", featgen_percent=self.featgen_percent + 2)
        title, _, value = line.partition(": ")
        if title == "Number of features":
            self.featgen_num_features = int(value)
        if title != "Seconds required":
            return None
        self.state = "AFTER_FEATGEN"
        return self.happened("featgen_end", featgen_seconds=float(value))

    def _after_featgen(self, line: str) -> str | None:
        if self._begins(line):
            return self.happened("prepared", later=1)
        if "terminated with error" in line:
            self.state = "AFTER_ITERATION"
            return self.happened("prepare_error")
        return None

    def _begins(self, line: str) -> bool:
        """Whether an iteration begins with this line."""
        head = HEAD.match(line)
        if head:
            self.state, self._iteration_read = "ITERATION", {"num": int(head[1]), "scores": {}}
        return head is not None

    def _iteration(self, line: str) -> str | None:
        if line == "\n":
            self.state = "AFTER_ITERATION"
            return self.happened("iteration", last_iteration=self._iteration_read)
        figures: dict[str, Any] = self._iteration_read
        title, _, value = line.partition(": ")
        figures |= {name: kind(value) for name, (shown, kind) in FIGURES.items() if shown == title}
        if title == MACRO:
            figures |= zip(AVERAGES, map(float, value.strip("()\n").split(",")), strict=True)
        if title in ("Item accuracy", "Instance accuracy"):
            right, _, n, *_ = value.split()
            figures |= _accuracy(title.partition(" ")[0].lower(), int(right), int(n))
        score = SCORE.match(line)
        if score:
            shares = [None if "*" in x else float(x) for x in score.groups()[4:]]
            figures["scores"][score[1]] = LabelScore(int(score[2]), int(score[3]), int(score[4]), *shares)
        return None

    def _after_iteration(self, line: str) -> str | None:
        title, _, value = line.partition(": ")
        if not self._begins(line) and title == "Total seconds required for training":
            self.training_seconds = float(value)
        if not line.startswith("Storing the model"):
            return None
        self.state = "STORING"
        return self.happened("optimization_end", later=1)

    def _storing(self, line: str) -> str | None:
        if line.startswith("Seconds required: "):
            self.storing_seconds = float(line.partition(": ")[2])
        return self.happened("end") if line == "\n" else None


def _accuracy(what: str, right: int, n: int) -> dict[str, Any]:
    share = Fraction(right, max(1, n))
    return {f"{what}_accuracy": share, f"{what}_accuracy_float": float(share)}


class Listener(Protocol):
    """A trainer: it receives the messages of training one by one, and is told what has happened."""

    def message(self, message: str) -> None: ...

    def happened(self, event: str, **facts: Any) -> None: ...


class HeldOut(NamedTuple):
    """Sentences that every iteration is evaluated on."""

    X: Collected
    y: list[list[str]]


class TrainingLog:
    """Tells a trainer about one run: facts, and their messages."""

    def __init__(
        self, trainer: Listener, algorithm: str, settings: dict[str, Any], labels: list[str], held_out: HeldOut
    ):
        self.trainer, self.algorithm, self.settings, self.labels = trainer, algorithm, settings, labels
        self.held_out = held_out
        self._encoded: Encoded | None = None
        self._begun = self._last = time.perf_counter()

    def start(self, holdout: int) -> None:
        """Training begins: the features are numbered."""
        lines = [*([f"Holdout group: {holdout + 1}", ""] if holdout >= 0 else []), "Feature generation", "type: CRF1d"]
        self._lines(lines[0])
        self.trainer.happened("start")
        self._lines(*lines[1:])
        self._settings([name for name in self.settings if name.startswith("feature.")])

    def prepared(self, n_weights: int) -> None:
        """The features are known."""
        for percent in range(0, 101, 2):
            self.trainer.message(str(percent // 10) if percent % 10 == 0 else ".")
            self.trainer.happened("featgen_progress", featgen_percent=percent)
        seconds = self._lap()
        self._lines("", f"Number of features: {n_weights}", f"Seconds required: {seconds:.3f}")
        self.trainer.happened("featgen_end", featgen_num_features=n_weights, featgen_seconds=seconds)
        self._lines("", TITLES[self.algorithm])
        self._settings([name for name in self.settings if not name.startswith("feature.")])
        self._lines("")
        if n_weights:
            self.trainer.happened("prepared")
        self._begun = time.perf_counter()

    def iteration(self, tagger: Any, monitor: Monitor, trained: Trained, weights: Array) -> None:
        """An iteration is done."""
        record, is_sgd = monitor.history[-1], self.algorithm == "l2sgd"
        figures: dict[str, Any] = {"num": record["iteration"], "loss": float(record["loss"])}
        figures["feature_norm"] = float(np.linalg.norm(weights.astype(np.float64)))
        if self.algorithm == "lbfgs":
            figures["error_norm"] = float(record.get("norm", 0.0))
            figures["active_features"] = int(np.count_nonzero(weights))
            figures["linesearch_trials"] = int(record.get("evaluations", 1))
        figures["time"] = self._lap()
        self._lines(f"***** {'Epoch' if is_sgd else 'Iteration'} #{figures['num']} *****")
        for name in [name for name in figures if name in FIGURES]:
            title, kind = FIGURES[name]
            title = title.replace("norm", "L2-norm") if is_sgd else title
            self._lines(f"{title}: {figures[name]:{'.3f' if name == 'time' else 'f' if kind is float else ''}}")
        figures["scores"] = {}
        if len(self.held_out.X):
            figures |= self._evaluated(tagger, trained._replace(weights=weights))
        self._lines("")
        self.trainer.happened("iteration", last_iteration=figures)

    def _evaluated(self, tagger: Any, trained: Trained) -> dict[str, Any]:
        """How well the held-out sentences are labelled."""

        def labels_of(batch: Batch) -> list[list[str]]:
            return [record.labels for record in batch.decode("viterbi", probabilities=False)]

        if self._encoded is None:  # all iterations have the same features
            self._encoded = encode(trained.extractor, self.held_out.X)
        predicted, gold = tagger._ask_with(trained, self._encoded, labels_of), self.held_out.y
        pairs = list(zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True))
        reference, model = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
        match = Counter(a for a, b in pairs if a == b)
        self._lines("Performance by label (#match, #model, #ref) (precision, recall, F1):")
        scores, totals = {}, np.zeros(3)
        for label in self.labels:
            m, n, r = counts = match[label], model[label], reference[label]
            p, q = m / n if n else 0.0, m / r if r else 0.0
            shares = p, q, 2 * p * q / (p + q) if p + q else 0.0
            totals += shares
            is_met = n or r
            scores[label] = LabelScore(*counts, *(shares if is_met else (None, None, None)))
            shown = ", ".join(f"{share:.4f}" if is_met else "******" for share in shares)
            self._lines(f"    {label}: {counts} ({shown})")
        averages = (totals / max(1, len(self.labels))).tolist()
        figures = {"scores": scores} | dict(zip(AVERAGES, averages, strict=True))
        self._lines(f"{MACRO}: ({', '.join(f'{average:f}' for average in averages)})")
        whole = sum(a == b for a, b in zip(gold, predicted, strict=True))
        for what, right, n in (("item", sum(match.values()), len(pairs)), ("instance", whole, len(gold))):
            figures |= _accuracy(what, right, n)
            self._lines(f"{what.capitalize()} accuracy: {right} / {n} ({figures[f'{what}_accuracy_float']:.4f})")
        return figures

    def trained(self, reason: str | None) -> None:
        """Training ended, for this reason; None where there was nothing to learn."""
        if self.algorithm in ("lbfgs", "l2sgd"):
            how = "the maximum number of iterations" if str(reason).startswith(LIMIT) else "the stopping criteria"
            name = "L-BFGS" if self.algorithm == "lbfgs" else "SGD"
            self._lines(f"{name} terminated with {'error: no data' if reason is None else how}")
        elif reason is not None and not reason.startswith(LIMIT):
            self._lines("Terminated with the stopping criterion", "")
        if reason is None:
            self.trainer.happened("prepare_error")
        seconds = time.perf_counter() - self._begun
        self._lines(f"Total seconds required for training: {seconds:.3f}", "")
        self.trainer.happened("optimization_end", training_seconds=seconds)
        self._lap()

    def stored(self, model: ChainModel, n_weights: int, n_attributes: int) -> None:
        """The model was written."""
        seconds = self._lap()
        self._lines(
            "Storing the model",
            f"Number of active features: {len(model.weight) + len(model.transition)} ({n_weights})",
            f"Number of active attributes: {len(model.attributes)} ({n_attributes})",
            f"Number of active labels: {len(model.labels)} ({len(self.labels)})",
            "Writing labels",
            "Writing attributes",
            "Writing feature references for transitions",
            "Writing feature references for attributes",
            f"Seconds required: {seconds:.3f}",
            "",
        )
        self.trainer.happened("end", storing_seconds=seconds)

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _settings(self, names: list[str]) -> None:
        for name in names:
            value = self.settings[name]
            shown = SHOWN.get(name, name) if self.algorithm == "lbfgs" else name
            value = int(value) if isinstance(value, bool) else value
            self._lines(f"{shown}: {value:f}" if isinstance(value, float) else f"{shown}: {value}")

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.trainer.message(line + "\n")

    def _lap(self) -> float:
        """Seconds since the last call."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before
