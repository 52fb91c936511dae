"""Taggers with scores but without probabilities, and how confident they are once calibrated."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np

from labelwright.answers.batch import Batch
from labelwright.answers.chains import PATH_DECODERS, Chains
from labelwright.corpus.spans import Span
from labelwright.errors import OptionError
from labelwright.taggers.base import CONFIDENCE, PROBABILITY, Constraints, Forced
from labelwright.taggers.training import Data, Development, TrainableModel

GOLDEN = (np.sqrt(5) - 1) / 2
COARSE = np.geomspace(1e-4, 1e4, 17)  # temperatures, in mean scores of a token, among which the search begins,
FINE = 12  # and how often it is refined


class ScoredModel(TrainableModel):
    """A tagger whose scores only order labellings.  `calibrate` finds the temperature at which exp(score / temperature)
    says best how often it is right on held-out data: its answers are *confidences*, kept apart from probabilities."""

    can: ClassVar[frozenset[str]] = (TrainableModel.can - {PROBABILITY}) | {CONFIDENCE}
    decoders: ClassVar[tuple[str, ...]] = PATH_DECODERS
    _by_paths: ClassVar[bool] = True
    calibration: bool = True  # calibrate on development data after training?

    def why_one_decoder(self) -> str | None:
        return self.lacks(PROBABILITY)

    # -- confidence ---------------------------------------------------------------------------------------------------

    @property
    def temperature_(self) -> float | None:
        """What scores are divided by to make confidences; None before `calibrate`."""
        self._check_fitted()
        calibration = self.__dict__.get("training_", {}).get("calibration")
        return None if calibration is None else float(calibration["temperature"])

    def _batch(self, sentences: Sequence[Any], first: int, chains: Chains | None) -> Batch:
        temperature = self.temperature_ if self._is_fitted() else None
        if temperature is None:
            return Batch(sentences, first, probabilistic=False)

        def calibrated() -> Batch:
            return Batch(sentences if chains is None else chains.tempered(temperature).sentences, first)

        return Batch(sentences, first, probabilistic=False, calibrated=calibrated)

    @property
    def is_sure(self) -> bool:
        return self.temperature_ is not None

    def calibrate(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> Self:
        """Fit the temperature on held-out data (`fit` does so with its development data): the one under which their
        labels are most likely."""
        begun = time.perf_counter()
        held_out = self._development(self._learnt(), X if y is None else (X, y), "calibrate")
        possible = self._log_probabilities(held_out, 1.0)
        rows = [n for n, p in enumerate(possible) if held_out.y[n] and p > -np.inf]
        if not rows:
            raise OptionError("calibrate: no held-out sentence has a labelling that is possible under this model")
        n_tokens = sum(len(held_out.y[n]) for n in rows)
        best = [abs(d.score) for d in self.decode(held_out.X, probabilities=False)]
        scale = sum(best[n] for n in rows) / n_tokens or 1.0

        def likelihood(temperature: float) -> float:
            log_p = self._log_probabilities(held_out, temperature)
            total = float(sum(log_p[n] for n in rows))
            wrong = -float(np.expm1(total / len(rows)))  # one sentence more, of the usual confidence, gone wrong:
            return (total + float(np.log(max(wrong, 1e-300)))) / n_tokens  # nothing is certain

        temperature, reached = _maximum(likelihood, scale)
        self.training_["calibration"] = {
            "temperature": temperature,
            "sentences": len(rows),
            "log_likelihood_per_token": reached,
            "seconds": round(time.perf_counter() - begun, 3),
        }
        return self

    def _log_probabilities(self, held_out: Development, temperature: float) -> list[float]:
        """log P of the true labels if scores, divided by the temperature, were log-probabilities."""

        def question(batch: Batch) -> list[float]:
            gold = held_out.y[batch.first : batch.first + len(batch)]
            return tempered(batch, temperature).log_probabilities(gold)

        return self._ask(held_out.X, question)

    def predict_confidences(
        self, X: Any, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[list[dict[str, float]]]:
        """The confidence in every label at every token, from a calibrated model."""
        self._check_calibrated()
        return self._ask_under(X, lambda batch: batch.sure.marginals(), forced, constraints)

    def span_confidences(
        self,
        X: Any,
        spans: Sequence[Sequence[Span]],
        *,
        forced: Forced | None = None,
        constraints: Constraints = None,
    ) -> list[list[Span]]:
        """These spans of each sentence with the confidence in each in place of a probability."""
        self._check_calibrated()
        return self._ask_about(
            X, spans, "spans", lambda batch, part: batch.sure.span_probabilities(part), forced, constraints
        )

    def _check_calibrated(self) -> None:
        if self.temperature_ is None:
            lacks = self.lacks(PROBABILITY)
            raise OptionError(f"{lacks}; calibrate it on held-out data (or fit it with dev=) first")

    def _after(self, data: Data, development: Development | None) -> None:
        if development is not None and self.calibration:
            with suppress(OptionError):  # none of its labellings is possible
                self.calibrate(development.X, development.y)


def tempered(batch: Batch, temperature: float) -> Batch:
    """The same sentences with scores, divided by a temperature, as log-probabilities."""
    chains = next((s.chains for s in batch if s is not None), None)  # type: ignore[attr-defined]
    return batch if chains is None else Batch(chains.tempered(temperature).sentences, batch.first)


def _maximum(function: Callable[[float], float], scale: float) -> tuple[float, float]:
    """Where a function of a positive number is largest: best of a coarse grid, then golden sections around it."""
    tried = {float(t): function(float(t)) for t in scale * COARSE}
    best = max(tried, key=lambda t: tried[t])
    places = sorted(tried)
    i = places.index(best)
    low, high = np.log(places[max(0, i - 1)]), np.log(places[min(len(places) - 1, i + 1)])
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f_a, f_b = function(float(np.exp(a))), function(float(np.exp(b)))
    for _ in range(FINE):
        if f_a >= f_b:
            high, b, f_b = b, a, f_a
            a = high - GOLDEN * (high - low)
            f_a = function(float(np.exp(a)))
        else:
            low, a, f_a = a, b, f_b
            b = low + GOLDEN * (high - low)
            f_b = function(float(np.exp(b)))
    return (float(np.exp(a)), f_a) if f_a >= f_b else (float(np.exp(b)), f_b)
