"""A training that a signal has ended while a part was trained, such as a model to start from: what was learnt."""

from collections.abc import Sequence
from typing import Any

from labelwright.learn.monitor import Monitor
from labelwright.scoring.parameters import Trained
from labelwright.taggers.estimator import is_interrupted


class UnfinishedError(KeyboardInterrupt):
    """A signal has ended the training of a part, such as a model to start from."""

    def __init__(self, learnt: Trained, history: Sequence[Any]):
        super().__init__()
        self.learnt, self.history = learnt, list(history)  # so far

    def monitor(self) -> Monitor:
        """The monitor of the run that ends with this part."""
        monitor = Monitor(len(self.history), 0.0)
        monitor.history, monitor.interrupted = self.history, True
        return monitor


def finished(model: Any, earlier: Any = None) -> Any:
    """A model to start from, after its training.  Where a signal has ended that, it ends the run; the model so far is
    this one, or the earlier one where this one has learnt nothing yet."""
    if not is_interrupted(model):
        return model
    so_far = model if earlier is None or model.training_["iterations"] else earlier
    raise UnfinishedError(so_far._learnt(), so_far.history_)
