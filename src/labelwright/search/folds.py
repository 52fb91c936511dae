"""Cross-validation, and learning curves: the score of a model by the number of sentences that it is
trained on."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.record import check_whole
from labelwright.search.samples import Fold, LeftOut, held_out, looked_at, score_of
from labelwright.taggers.estimator import uninterrupted, untrained

Array = NDArray[Any]
SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)  # of the sentences, for a learning curve
HELD_OUT = 5  # without development data, one part in five is tested on


class Tested(NamedTuple):
    """A model that was trained on some sentences and tested on others."""

    n_train: int  #: sentences that were trained on
    n_test: int  #: sentences that were scored
    score: float  #: F1 of chunks, or accuracy of tokens; of a cascade the mean of its layers
    seconds: float  #: of training


class CrossValidation(NamedTuple):
    """The scores of a model on each part of the data, trained on the others."""

    folds: list[Tested]  #: each with its score
    mean: float  #: of the scores
    deviation: float  #: standard deviation over the folds, with n - 1

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain lists and numbers."""
        return {
            "scores": [fold.score for fold in self.folds],
            "mean": self.mean,
            "deviation": self.deviation,
        }


Progress = Callable[[Tested], None] | None


def cross_validate(
    model: Any,
    X: Any,
    y: Any = None,
    folds: int = 5,
    random_state: int | None = 0,
    progress: Progress = None,
    sample_weight: Any = None,
) -> CrossValidation:
    """Train on all parts of the data but one and test on that one, for each of `folds` parts; the
    model stays as it is.

    A dictionary that looks as if it was made from the data is used without the phrases that only
    the tested part has.

    model : a tagger, trained or not
    X, y : sentences and their labels, or a Corpus
    folds : number of parts
    random_state : seed by which sentences are dealt to the parts
    progress : called with the result of each fold
    sample_weight : weights of the sentences in training, as `fit` takes them; scores have none

    >>> from labelwright import Perceptron
    >>> X, y = [["the", "dog", "barks"], ["a", "bird", "sings"]] * 5, [["D", "N", "V"]] * 10
    >>> cross_validate(Perceptron(n_jobs=1, max_iter=2), X, y, folds=5).mean
    1.0
    """
    check_whole("folds", folds, 2)
    data = looked_at(
        X, y, least=folds, asker=f"{folds}-fold cross-validation", sample_weight=sample_weight
    )
    tested, left_out = [], LeftOut(data)
    for train, test in parts(data.n, folds, random_state):
        part = Fold(data.train(train), data.take(test), len(train), len(test), test)
        tested.append(_tested(left_out, model, part))
        if progress is not None:
            progress(tested[-1])
    scores = np.array([fold.score for fold in tested])
    return CrossValidation(tested, float(scores.mean()), float(scores.std(ddof=1)))


def parts(n: int, folds: int, random_state: int | None) -> Iterator[tuple[Array, Array]]:
    """The numbers of the items to train on and to test on, for each fold: every one of n is tested
    on once."""
    order = np.random.default_rng(random_state or 0).permutation(n)
    for k in range(folds):
        yield np.sort(np.delete(order, slice(k, None, folds))), np.sort(order[k::folds])


def learning_curve(
    model: Any,
    X: Any,
    y: Any = None,
    dev: Any = None,
    random_state: int | None = 0,
    progress: Progress = None,
    sample_weight: Any = None,
) -> list[Tested]:
    """The score on development data (or on a held-out fifth) after training on an eighth, a
    quarter, half and all of the sentences, each sample inside the next.

    model : a tagger, trained or not
    X, y : sentences and their labels, or a Corpus
    dev : (X, y) or a Corpus to score on
    random_state : seed of the samples
    progress : called with the result of each sample
    sample_weight : weights of the sentences in training, as `fit` takes them; scores have none
    """
    data = looked_at(X, y, least=HELD_OUT, asker="a learning curve", sample_weight=sample_weight)
    order = np.random.default_rng(random_state or 0).permutation(data.n)
    rows = np.sort(order[::HELD_OUT]) if dev is None else None
    left_out = LeftOut(data)
    test, n_test = (
        (data.take(rows), len(rows))
        if rows is not None
        else ((known := held_out(dev)).all, known.n)
    )
    train = order if dev is not None else np.delete(order, slice(0, None, HELD_OUT))
    curve = []
    for size in dict.fromkeys(max(1, round(share * len(train))) for share in SHARES):
        part = Fold(data.train(np.sort(train[:size])), test, size, n_test, rows)
        curve.append(_tested(left_out, model, part, None if dev is None else part.test))
        if progress is not None:
            progress(curve[-1])
    return curve


def _tested(left_out: LeftOut, model: Any, part: Fold, dev: Any = None) -> Tested:
    begun = time.monotonic()
    trained = uninterrupted(left_out.trained(untrained(model, part=True), part, dev))
    return Tested(part.n_train, part.n_test, score_of([trained], [part]), time.monotonic() - begun)
