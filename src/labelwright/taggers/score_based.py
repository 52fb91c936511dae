"""Taggers with scores but without probabilities, and how confident they are once calibrated."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from labelwright.answers.chains import PATH_DECODERS
from labelwright.corpus.spans import Span
from labelwright.errors import OptionError
from labelwright.taggers.arguments import Constraints, Forced
from labelwright.taggers.base import CONFIDENCE, PROBABILITY
from labelwright.taggers.calibrating import Calibratable
from labelwright.taggers.training import Data, Development, TrainableModel


class ConfidentTagger(Calibratable):
    """A tagger whose scores only order labellings.  `calibrate` finds the temperature at which exp(score / temperature)
    says best how often it is right on held-out data: its answers are *confidences*, kept apart from probabilities."""

    @property
    def _is_sure(self) -> bool:
        return self.temperature_ is not None

    def predict_confidences(
        self, X: Any, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[list[dict[str, float]]]:
        """The confidence in every label at every token, from a calibrated model.

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`
        """
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
        """These spans of each sentence with the confidence in each in place of a probability.

        X : sentences, a Corpus, or what `encode` returned
        spans : those of each sentence
        forced, constraints : as for `decode`
        """
        self._check_calibrated()
        return self._ask_about(
            X, spans, "spans", lambda batch, part: batch.sure.span_probabilities(part), forced, constraints
        )

    def occurrence_confidences(
        self, X: Any, types: str | Iterable[str], *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[float]:
        """The confidence that each sentence has at least one span of these types.

        X : sentences, a Corpus, or what `encode` returned
        types : one type, or several
        forced, constraints : as for `decode`
        """
        self._check_calibrated()
        wanted = [types] if isinstance(types, str) else list(types)
        return self._ask_under(X, lambda batch: batch.sure.occurrences(wanted), forced, constraints)

    def _check_calibrated(self) -> None:
        if self.temperature_ is None:
            lacks = self._lacks(PROBABILITY)
            raise OptionError(f"{lacks}; calibrate it on held-out data first")


class ScoredModel(ConfidentTagger, TrainableModel):
    """A tagger with weights, trained by its mistakes; development data calibrate it at once."""

    can: ClassVar[frozenset[str]] = (TrainableModel.can - {PROBABILITY}) | {CONFIDENCE}
    decoders: ClassVar[tuple[str, ...]] = PATH_DECODERS
    _by_paths: ClassVar[bool] = True
    calibration: bool = True  # calibrate on development data after training?

    def _why_one_decoder(self) -> str | None:
        return self._lacks(PROBABILITY)

    def _after(self, data: Data, development: Development | None) -> None:
        if development is not None and self.calibration:
            with suppress(OptionError):  # none of its labellings is possible
                self.calibrate(development.X, development.y)
