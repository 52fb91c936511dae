"""Cross-validation and learning curves."""

import numpy as np
import pytest

from labelwright import CRF, Cascade, MemoryTagger, Perceptron
from labelwright.corpus.generated import builtin_corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import evaluate
from labelwright.search.folds import cross_validate, learning_curve

CORPUS = builtin_corpus(41, random_state=4, columns=["word", "pos", "chunk"])


class Remembers:
    """A model that remembers what it was trained and tested on."""

    seen: list[set[str]]
    training_: dict[str, str]

    def __init__(self, log=None):
        self.log, self.training_ = log, {}

    def get_params(self, deep=True):
        return {"log": self.log}

    def fit(self, X, y):
        self.trained_on = {x[0] for x in X}
        return self

    def predict(self, X):
        LOG.append((self.trained_on, {x[0] for x in X}))
        return [["A"] * len(x) for x in X]


LOG: list[tuple[set[str], set[str]]] = []


def test_each_sentence_is_tested_on_once_and_never_trained_on_then():
    X = [[f"w{n}"] for n in range(11)]
    LOG.clear()
    result = cross_validate(Remembers(), X, [["A"]] * 10 + [["B"]], folds=3)
    everything = {x[0] for x in X}
    assert set.union(*(test for _, test in LOG)) == everything
    assert sum(len(test) for _, test in LOG) == 11
    assert all(train == everything - test for train, test in LOG)
    scores = [fold.score for fold in result.folds]
    assert result.mean == pytest.approx(np.mean(scores))
    assert result.deviation == pytest.approx(np.std(scores, ddof=1))


def test_the_model_stays_as_it_is_and_all_kinds_are_tested():
    short = {"n_jobs": 1, "max_iter": 2}
    layers = Cascade([("pos", CRF("words", **short)), ("chunk", CRF("words", **short))], passing="best", n_jobs=1)
    for model in (CRF(**short), Perceptron(**short), MemoryTagger(n_jobs=1), layers):
        before = repr(model)
        result = cross_validate(model, CORPUS, folds=2)
        assert [fold.n_train + fold.n_test for fold in result.folds] == [41, 41]
        assert 0 < result.mean < 1
        assert repr(model) == before


def test_a_learning_curve_ends_with_all_sentences():
    train, dev = CORPUS.take(slice(0, 32)), CORPUS.take(slice(32, 41))
    model = CRF(max_iter=3, n_jobs=1)
    curve = learning_curve(model, train, dev=dev)
    assert [part.n_train for part in curve] == [4, 8, 16, 32]
    assert curve[-1].score == evaluate(dev.y, model.fit(train, dev=dev).predict(dev)).score
    without = learning_curve(model, train)
    assert [(part.n_train, part.n_test) for part in without] == [(3, 7), (6, 7), (12, 7), (25, 7)]


def test_what_cannot_be_divided():
    with pytest.raises(OptionError, match="folds: expected a whole number, 2 or more, got 1"):
        cross_validate(CRF(), CORPUS, folds=1)
    with pytest.raises(CorpusError, match="50-fold cross-validation needs at least 50 sentences, got 41"):
        cross_validate(CRF(), CORPUS, folds=50)
