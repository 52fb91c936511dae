"""The training sentences, as far as a memory still holds them: where an instance comes from."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.memory.windows import OUTSIDE, lines_of

Array = NDArray[Any]


class Place(NamedTuple):
    """Where an instance was in the training data."""

    sentence: int | None  # from 0; None where the memory does not show where sentences begin
    token: int | None
    words: list[str] | None  # of the sentence


class Remembered:
    """The sentences of a memory-based tagger's training data."""

    def __init__(self, model: Any):
        self._model = model
        starts = _starts(model)
        self._begin = None if starts is None else np.flatnonzero(starts)
        self._words = _column(model, 0)

    def place(self, instance: int) -> dict[str, Any]:
        """The sentence of an instance, its place there, and its words."""
        if self._begin is None:
            return Place(None, None, None)._asdict()
        number = int(np.searchsorted(self._begin, instance, side="right")) - 1
        begin = int(self._begin[number])
        end = int(self._begin[number + 1]) if number + 1 < len(self._begin) else len(self._model.learner_.targets_)
        words = None
        if self._words is not None:
            data = self._model.learner_.data_
            words = [str(data.values[self._words][code]) for code in data.codes[begin:end, self._words].tolist()]
        return Place(number, instance - begin, words)._asdict()


def _starts(model: Any) -> Array | None:
    """Which instances are the first of a sentence [M]: those whose label n-gram, or window, begins outside."""
    half = model.grams_.shape[1] // 2
    learner = model.learner_
    if half:
        before: Array = model.grams_[np.array(learner.seen_)[learner.targets_], half - 1]
        return before < 0
    column = _column(model, -1)
    if column is None:
        return None
    values = learner.data_.values[column]
    outside = values.index(OUTSIDE) if OUTSIDE in values else -1
    first: Array = learner.data_.codes[:, column] == outside
    return first if first[0] else None


def _column(model: Any, row: int) -> int | None:
    """The column of instances that holds the word at this row; None where there is none."""
    template = model.windows_.template
    if template is None:
        return None
    for number, line in enumerate(lines_of(template)):
        if len(line.cells) == 1:
            cell = line.cells[0]
            if (cell.row, cell.absolute, cell.reader.column, cell.reader.function) == (row, False, 0, "value"):
                return number
    return None
