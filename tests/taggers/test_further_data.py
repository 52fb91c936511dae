"""Learning from further data: `partial_fit` of log-linear models."""

import numpy as np
import pytest

from labelwright import CRF, LatentCRF, SemiCRF, load
from labelwright.corpus import builtin_corpus
from labelwright.errors import OptionError
from labelwright.learn.around import AroundWeights

CORPUS = builtin_corpus(80, random_state=1, columns=["word", "pos", "chunk"])
X, Y = CORPUS.X, CORPUS.y
MODELS = {
    "crf": CRF(max_iter=40, n_jobs=1),
    "l1": CRF(max_iter=40, l1=0.05, n_jobs=1),
    "order 2": CRF(max_iter=20, order=2, n_jobs=1),
    "latent": LatentCRF(n_latent=2, max_iter=30, n_jobs=1, random_state=0),
}
every = pytest.mark.parametrize("name", MODELS)


def right(model, X, Y):
    return np.mean([a == b for p, s in zip(model.predict(X), Y, strict=True) for a, b in zip(p, s, strict=True)])


@every
def test_it_learns_the_new_and_keeps_the_old(name):
    first = MODELS[name].untrained().fit(X[:40], Y[:40])
    before = right(first, X[40:], Y[40:])
    old = right(first, X[:40], Y[:40])
    first.partial_fit(X[40:], Y[40:])
    assert right(first, X[40:], Y[40:]) > before + 0.5 * (1 - before)
    assert right(first, X[:40], Y[:40]) > old - 0.05
    assert first.training_["sentences"] == 80


def test_without_a_model_it_is_fit():
    weights = [model.weights_ for model in (CRF(n_jobs=1).fit(X, Y), CRF(n_jobs=1).partial_fit(X, Y))]
    np.testing.assert_array_equal(*weights)


def test_new_labels_and_words(tmp_path):
    model = CRF(n_jobs=1).fit([["a", "b"]] * 5, [["A", "B"]] * 5)
    model.save(tmp_path / "model.crf")
    model = load(tmp_path / "model.crf").partial_fit([["c", "b"]] * 5, [["C", "B"]] * 5)
    assert model.classes_ == ["A", "B", "C"]
    assert model.predict([["a", "b"], ["c", "b"]]) == [["A", "B"], ["C", "B"]]


def test_partial_labels_and_weights():
    model = CRF(n_jobs=1).fit(X[:40], Y[:40])
    part = [[None if t % 3 == 1 else label for t, label in enumerate(s)] for s in Y[40:]]
    model.partial_fit(X[40:], part, sample_weight=[2.0] * 40)
    assert right(model, X, Y) > 0.95


def test_nothing_new_changes_little():
    """At the optimum of the same data, the gradient is that of the penalty, which the new centre takes away."""
    model = CRF(n_jobs=1, l2=1.0).fit(X, Y)
    before = model.weights_.copy()
    model.partial_fit(X, Y)
    assert np.linalg.norm(model.weights_ - before) < np.linalg.norm(before)
    assert right(model, X, Y) > 0.97


def test_what_cannot_grow_says_so():
    with pytest.raises(OptionError, match="partial_fit: the segments of a SemiCRF"):
        SemiCRF(max_iter=5, n_jobs=1).fit(X[:20], Y[:20]).partial_fit(X[20:], Y[20:])


def test_an_objective_around_weights():
    def square(weights, gradient):
        gradient[:] = 2 * weights
        return float(weights @ weights)

    gradient = np.empty(2)
    assert AroundWeights(square, np.array([1.0, 2.0]))(np.array([1.0, 0.0]), gradient) == 8.0
    assert gradient.tolist() == [4.0, 4.0]
