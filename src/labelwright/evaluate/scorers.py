"""Scorers for `scoring=` of `score`, scikit-learn's tools and ProgressiveSearch: scorer(tagger, X,
y) is a number.

tagger.score(X, y, scoring=macro_f1)
GridSearchCV(CRF(), {"l2": [0.1, 1.0]}, scoring=chunk_f1)
cross_val_score(cascade, X, y, scoring=token_accuracy.of_layer("pos"))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from labelwright.corpus.labels import labels_by_layer
from labelwright.corpus.partial_labels import check_known
from labelwright.errors import OptionError
from labelwright.evaluate.report import evaluate


@dataclass(frozen=True)
class Scorer:
    """One number of a Report; of a cascade that of its highest layer, unless another is named."""

    name: str  #: what messages call it
    measure: str  #: the field of Report, as in "f1" or "macro.f1"
    layer: str | None = None  #: of a cascade; None: the highest

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        gold, predicted = self._labels(estimator.predict(X), X, y)
        check_known(gold, self.name)
        score = attrgetter(self.measure)(evaluate(gold, predicted))
        if score is None:
            raise OptionError(
                f"{self.name}: the labels are no chunk labels such as B-NP; use token_accuracy"
            )
        return float(score)

    def of_layer(self, layer: str) -> "Scorer":
        """The same score of another layer of a cascade.

        layer : its name
        """
        return replace(self, layer=layer)

    def _labels(self, predicted: Any, X: Any, y: Any) -> tuple[Any, Any]:
        """The true and the predicted labels that are compared."""
        if not isinstance(predicted, Mapping):
            gold = getattr(X, "y", None) if y is None else y
            if gold is None:
                raise OptionError(f"{self.name}: give the true labels y")
            return gold, predicted
        layer = next(reversed(predicted)) if self.layer is None else self.layer
        if layer not in predicted:
            raise OptionError(
                f"{self.name}: no layer {layer!r}, expected one of {', '.join(predicted)}"
            )
        gold = X.column(layer) if y is None else labels_by_layer(y, list(predicted))[layer]
        return gold, predicted[layer]


chunk_f1 = Scorer("chunk_f1", "f1")  # micro average
macro_f1 = Scorer("macro_f1", "macro.f1")  # over types, or over labels where there are no chunks
token_accuracy = Scorer("token_accuracy", "token_accuracy")
sentence_accuracy = Scorer("sentence_accuracy", "sentence_accuracy")

Scoring = str | Callable[[Any, Any, Any], float] | None
NAMED = {"f1": chunk_f1, "accuracy": token_accuracy, "sentence": sentence_accuracy}


def scorer_of(scoring: Scoring) -> Callable[[Any, Any, Any], float]:
    """The scorer that a name stands for; a callable is one, and None is F1 where labels make
    chunks, else accuracy."""
    scorer = NAMED.get(scoring) if isinstance(scoring, str) else scoring or Scorer("score", "score")
    if not callable(scorer):
        raise OptionError(
            f"scoring: expected one of {', '.join(NAMED)}, or a callable, got {scoring!r}"
        )
    return scorer
