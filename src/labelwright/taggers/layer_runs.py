"""The layers of a cascade, trained one after the other."""

from collections.abc import Callable, Sequence
from typing import Any

from labelwright.taggers.training import TrainableModel


class LayerRun:
    """Trains fresh copies of layers and shows it; after Ctrl-C the rest is trained for one iteration only."""

    def __init__(
        self,
        fresh: Callable[[TrainableModel], TrainableModel],
        progress: Callable[[str, TrainableModel], Any] | None,
        sample_weight: list[Any] | None = None,
    ):
        self.fresh, self.progress, self.sample_weight = fresh, progress, sample_weight
        self.interrupted = False

    def train(
        self,
        name: str,
        model: TrainableModel,
        X: Any,
        gold: Sequence[Sequence[Any]],
        left_out: tuple[int, int] = (0, 0),
        dev: tuple[Any, Any] | None = None,
    ) -> TrainableModel:
        """A layer, trained on all sentences but begin:end of `left_out`; `dev` are what it reads of development data,
        and their labels."""
        layer, weights = self.fresh(model), self.sample_weight
        if weights is not None:
            weights = [*weights[: left_out[0]], *weights[left_out[1] :]]
        limit = layer.max_iter
        layer.max_iter = 1 if self.interrupted else limit
        shown = self.progress(name, layer) if self.progress is not None else None
        try:
            layer.fit(X, gold, dev=dev, progress=shown, sample_weight=weights)
        finally:
            layer.max_iter = limit
            getattr(shown, "close", lambda: None)()
        self.interrupted |= layer.training_["stopped"] == "interrupted"
        return layer
