"""The layers of a cascade, trained one after the other."""

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labelwright.errors import OptionError
from labelwright.learn.checkpoint import Checkpoints
from labelwright.structures.passing import Passed, over
from labelwright.taggers.training import TrainableModel


def grown_layers(
    layers: Mapping[str, TrainableModel],
    passed: Callable[[TrainableModel, Any], Passed],
    source: Any,
    gold: Mapping[str, Sequence[Sequence[Any]]],
    sample_weight: Any,
) -> dict[str, TrainableModel]:
    """Copies of trained layers that have learnt from further sentences, each over what those below say of them."""
    grown, read, below = dict[str, TrainableModel](), source, ""
    for name, model in layers.items():
        if grown:
            read = over(read, below, passed(grown[below], read))
        below = name
        learn = getattr(model, "partial_fit", None)
        if learn is None:
            raise OptionError(f"partial_fit: the layer {name} is a {type(model).__name__}, which cannot; fit again")
        grown[name] = copy.copy(model).partial_fit(read, gold[name], sample_weight=sample_weight)  # type: ignore[attr-defined]
    return grown


class LayerRun:
    """Trains fresh copies of layers and shows it; after Ctrl-C the rest is trained for one iteration only."""

    def __init__(
        self,
        fresh: Callable[[TrainableModel], TrainableModel],
        progress: Callable[[str, TrainableModel], Any] | None,
        sample_weight: list[Any] | None = None,
        places: Checkpoints | None = None,
    ):
        self.fresh, self.progress, self.sample_weight, self.places = fresh, progress, sample_weight, places
        self.interrupted = False
        self._trained: Counter[str] = Counter()  # how often each layer was trained: once, then for the jackknife

    def _place(self, name: str) -> Checkpoints | None:
        """The checkpoints of the next training of a layer; none where it stands on layers that were interrupted."""
        number = self._trained[name]
        self._trained[name] += 1
        if self.places is None or self.interrupted:
            return None
        of_layer = self.places.part(f"layer{len(self._trained)}")
        return of_layer if number == 0 else of_layer.part(f"part{number}")

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
        if "progress" not in layer._training_options:  # it learns at once
            layer.fit(X, gold, sample_weight=weights)
            return layer
        limit = layer.max_iter
        layer.max_iter = 1 if self.interrupted else limit
        shown = self.progress(name, layer) if self.progress is not None else None
        place = self._place(name)
        saved: dict[str, Any] = {"checkpoint": place} if "checkpoint" in layer._training_options else {}
        try:
            layer.fit(X, gold, dev=dev, progress=shown, sample_weight=weights, **saved)
        finally:
            layer.max_iter = limit
            getattr(shown, "close", lambda: None)()
        self.interrupted |= layer.training_["stopped"] == "interrupted"
        return layer
