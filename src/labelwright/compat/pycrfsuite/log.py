"""The messages of a training run, as CRFsuite words them: programs read figures out of them."""

import time
from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.features.attributes import Collected
from labelwright.features.encoded import Encoded
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


class HeldOut(NamedTuple):
    """Sentences that every iteration is evaluated on."""

    X: Collected
    y: list[list[str]]


class TrainingLog:
    """Sends the messages of one run to `send`."""

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
        if holdout >= 0:
            self._lines(f"Holdout group: {holdout + 1}", "")
        self._lines("Feature generation", "type: CRF1d")
        self._settings([name for name in self.settings if name.startswith("feature.")])

    def prepared(self, n_weights: int) -> None:
        """The features are known."""
        for percent in range(0, 101, 2):
            self.send(str(percent // 10) if percent % 10 == 0 else ".")
        self._lines("", f"Number of features: {n_weights}", f"Seconds required: {self._lap():.3f}", "")
        self._lines(TITLES[self.algorithm])
        self._settings([name for name in self.settings if not name.startswith("feature.")])
        self._lines("")
        self._begun = time.perf_counter()

    def iteration(self, tagger: Any, monitor: Monitor, trained: Trained, weights: Array) -> None:
        """An iteration is done."""
        record = monitor.history[-1]
        word = "Epoch" if self.algorithm == "l2sgd" else "Iteration"
        self._lines(f"***** {word} #{record['iteration']} *****", f"Loss: {record['loss']:f}")
        norm = float(np.linalg.norm(weights.astype(np.float64)))
        self._lines(f"Feature {'L2-' if self.algorithm == 'l2sgd' else ''}norm: {norm:f}")
        if self.algorithm == "lbfgs":
            self._lines(
                f"Error norm: {record.get('norm', 0.0):f}",
                f"Active features: {int(np.count_nonzero(weights))}",
                f"Line search trials: {record.get('evaluations', 1)}",
            )
        self._lines(f"Seconds required for this iteration: {self._lap():.3f}")
        if len(self.held_out.X):
            self._evaluated(tagger, trained._replace(weights=weights))
        self._lines("")

    def _evaluated(self, tagger: Any, trained: Trained) -> None:
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
        totals = np.zeros(3)
        for label in self.labels:
            m, n, r = match[label], model[label], reference[label]
            if not n and not r:
                self._lines(f"    {label}: (0, 0, 0) (******, ******, ******)")
                continue
            p, q = m / n if n else 0.0, m / r if r else 0.0
            f = 2 * p * q / (p + q) if p + q else 0.0
            totals += p, q, f
            self._lines(f"    {label}: ({m}, {n}, {r}) ({p:.4f}, {q:.4f}, {f:.4f})")
        averages = ", ".join(f"{x:f}" for x in totals / max(1, len(self.labels)))
        right, whole = sum(match.values()), sum(a == b for a, b in zip(gold, predicted, strict=True))
        self._lines(
            f"Macro-average precision, recall, F1: ({averages})",
            f"Item accuracy: {right} / {len(pairs)} ({right / max(1, len(pairs)):.4f})",
            f"Instance accuracy: {whole} / {len(gold)} ({whole / max(1, len(gold)):.4f})",
        )

    def trained(self, reason: str | None) -> None:
        """Training ended, for this reason; None where there was nothing to learn."""
        if self.algorithm in ("lbfgs", "l2sgd"):
            name = {"lbfgs": "L-BFGS", "l2sgd": "SGD"}[self.algorithm]
            how = "error: no data" if reason is None else "the stopping criteria"
            if reason is not None and reason.startswith(LIMIT):
                how = "the maximum number of iterations"
            self._lines(f"{name} terminated with {how}")
        elif reason is not None and not reason.startswith(LIMIT):
            self._lines("Terminated with the stopping criterion", "")
        self._lines(f"Total seconds required for training: {time.perf_counter() - self._begun:.3f}", "")
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

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _settings(self, names: list[str]) -> None:
        for name in names:
            value = self.settings[name]
            shown = SHOWN.get(name, name) if self.algorithm == "lbfgs" else name
            self._lines(f"{shown}: {value:f}" if isinstance(value, float) else f"{shown}: {_plain(value)}")

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.send(line + "\n")

    def _lap(self) -> float:
        """Seconds since the last call."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
