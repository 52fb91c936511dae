"""Taggers with scores but without probabilities, and how confident they are once calibrated."""

from contextlib import suppress
from typing import ClassVar

from labelwright.answers.chains import PATH_DECODERS
from labelwright.errors import OptionError
from labelwright.taggers.base import CONFIDENCE, PROBABILITY
from labelwright.taggers.training import Data, Development, TrainableModel


class ScoredModel(TrainableModel):
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
