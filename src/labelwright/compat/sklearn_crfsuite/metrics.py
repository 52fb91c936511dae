"""Scores of labellings: scikit-learn's metrics over all tokens, and the share of sentences without
a mistake; both as scorers for `cross_val_score`, `GridSearchCV` and their like."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

T = TypeVar("T")
Labels = Sequence[Sequence[Any]]


def flatten(y: Iterable[Iterable[T]]) -> list[T]:
    """The labels of all sentences in one list.

    >>> flatten([[1, 2], [3, 4]])
    [1, 2, 3, 4]
    """
    return list(chain.from_iterable(y))


def _over_tokens(name: str, doc: str) -> Callable[..., Any]:
    """scikit-learn's metric of this name, over the tokens of all sentences."""

    def metric(y_true: Labels, y_pred: Labels, *arguments: Any, **options: Any) -> Any:
        from sklearn import metrics

        return getattr(metrics, name)(flatten(y_true), flatten(y_pred), *arguments, **options)

    metric.__name__ = metric.__qualname__ = f"flat_{name}"
    metric.__doc__ = doc
    return metric


flat_accuracy_score = _over_tokens("accuracy_score", "The share of tokens with the right label.")
flat_precision_score = _over_tokens("precision_score", "Precision over tokens.")
flat_recall_score = _over_tokens("recall_score", "Recall over tokens.")
flat_f1_score = _over_tokens("f1_score", "F1 over tokens.")
flat_classification_report = _over_tokens(
    "classification_report",
    "scikit-learn's report of precision, recall and F1 by label, over tokens.",
)


def flat_fbeta_score(y_true: Labels, y_pred: Labels, beta: float, **options: Any) -> Any:
    """F-beta over tokens."""
    from sklearn import metrics

    return metrics.fbeta_score(flatten(y_true), flatten(y_pred), beta=beta, **options)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """The share of sentences whose labels are all right."""
    if not len(y_true):
        return 0
    return sum(list(a) == list(b) for a, b in zip(y_true, y_pred, strict=True)) / len(y_true)


def __getattr__(name: str) -> Any:
    """The scorers, made when the program asks for them: they need scikit-learn."""
    if name not in ("flat_accuracy", "sequence_accuracy"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.metrics import make_scorer

    return make_scorer(globals()[f"{name}_score"])
