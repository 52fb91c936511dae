"""Cross-validation and learning curves."""

import numpy as np
import pytest

from labelwright import CRF, Cascade, MemoryTagger, Perceptron, ProgressiveSearch
from labelwright.corpus import Corpus, spans_of
from labelwright.corpus.generated import builtin_corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.sources import DictionaryWarning
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


def test_weights_are_those_of_the_sentences_that_are_trained_on():
    class Weighted(Remembers):
        def fit(self, X, y, sample_weight):
            assert [f"w{weight}" for weight in sample_weight] == [x[0] for x in X]
            return super().fit(X, y)

    X, y, weights = [[f"w{n}"] for n in range(11)], [["A"]] * 11, list(range(11))
    assert cross_validate(Weighted(), X, y, folds=3, sample_weight=weights).mean == 1.0
    assert learning_curve(Weighted(), X, y, sample_weight=np.array(weights))[-1].score == 1.0
    with pytest.raises(
        OptionError, match=r"^sample_weight: 2 entries, but X has 11; give one for each$"
    ):
        cross_validate(Weighted(), X, y, sample_weight=[1, 2])


def test_a_search_leaves_out_what_has_no_weight():
    X, y = CORPUS.column("word"), CORPUS.column("pos")
    wrong = [["X"] * len(labels) for labels in y]
    search = ProgressiveSearch(MemoryTagger(n_jobs=1), {"k": [1, 3]}, first=20, steps=2)
    search.fit(X + X, y + wrong, dev=(X, y), sample_weight=[1] * len(X) + [0] * len(X))
    assert search.best_score_ > 0.9
    assert search.score(X, y) > 0.9


def test_the_model_stays_as_it_is_and_all_kinds_are_tested():
    short = {"n_jobs": 1, "max_iter": 2}
    layers = Cascade(
        [("pos", CRF("words", **short)), ("chunk", CRF("words", **short))], passing="best", n_jobs=1
    )
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
    with pytest.raises(
        CorpusError, match="50-fold cross-validation needs at least 50 sentences, got 41"
    ):
        cross_validate(CRF(), CORPUS, folds=50)


# -- dictionaries made from the data ---------------------------------------------------------------

NAMES = [f"Name{n}" for n in range(60)]


def sentences_with_names():
    """Sentences whose names differ only in a number; two of them stand in every third sentence."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for n, name in enumerate(NAMES):
        other = ["old", "Smith"] if n % 3 == 0 else [f"word{rng.integers(5)}"]
        X.append(["saw", name, "and", *other])
        y.append(["O", "B-PER", "O", *(["B-LOC", "I-LOC"] if n % 3 == 0 else ["O"])])
    return X, y


def phrases_of(X, y):
    spans = [
        (x[s.start : s.end], s.type)
        for x, labels in zip(X, y, strict=True)
        for s in spans_of(labels)
    ]
    return {
        kind: sorted({tuple(words) for words, k in spans if k == kind}) for kind in ("PER", "LOC")
    }


class Spelling(Perceptron):
    """A tagger that keeps the dictionaries it is trained with."""

    def fit(self, X, y=None, **options):
        USED.append(self.dictionaries)
        return super().fit(X, y, **options)


USED: list[dict[str, list[tuple[str, ...]]]] = []


def test_a_dictionary_made_from_the_data_is_made_again_for_each_fold():
    X, y = sentences_with_names()
    lists = phrases_of(X, y)
    lists["elsewhere"] = [("Name3",), ("Mars",)]
    USED.clear()
    with pytest.warns(DictionaryWarning) as told:
        cross_validate(Spelling(n_jobs=1, max_iter=1, dictionaries=lists), X, y, folds=3)
    # once, not in each fold
    assert [str(each.message).partition(":")[0] for each in told] == ["dictionary 'PER'"]
    assert (
        "held-out sentences are tested without the phrases that are labelled in them alone"
        in str(told[0].message)
    )
    order = np.random.default_rng(0).permutation(len(X))
    for k, used in enumerate(USED):
        train = np.delete(order, slice(k, None, 3))
        made = phrases_of([X[n] for n in train], [y[n] for n in train])
        assert sorted(used["PER"]) == made["PER"]
        assert used["LOC"] == [("old", "Smith")]  # in all folds
        assert used["elsewhere"] == [("Name3",), ("Mars",)]


def test_what_is_held_out_in_searches_and_learning_curves():
    X, y = sentences_with_names()
    model, lists = (
        Spelling(n_jobs=1, max_iter=1, dictionaries=phrases_of(X, y)),
        phrases_of(X, y)["PER"],
    )
    USED.clear()
    with pytest.warns(DictionaryWarning):
        learning_curve(model, X, y)
    assert {len(used["PER"]) for used in USED} == {48}
    USED.clear()
    with pytest.warns(DictionaryWarning) as told:
        search = ProgressiveSearch(model, {"max_iter": [1, 2]}, first=30, steps=2).fit(X, y)
    # the last one is trained on all data
    assert [len(used["PER"]) for used in USED] == [54] * 2 + [48] * 2 + [60]
    assert len(told) == 2  # of the trials, and of the last one
    assert search.best_estimator_.dictionaries["PER"] == lists
    USED.clear()
    with pytest.warns(DictionaryWarning, match="in training a phrase counts only if"):
        ProgressiveSearch(model, {"max_iter": [1, 2]}, first=60, steps=1).fit(X, y, dev=(X, y))
    assert {len(used["PER"]) for used in USED} == {60}


def test_dictionaries_of_layers_and_of_a_corpus():
    X, y = sentences_with_names()
    rows = [
        list(zip(x, ["X"] * len(x), labels, strict=True)) for x, labels in zip(X, y, strict=True)
    ]
    corpus = Corpus.from_sequences(rows, names=["word", "pos", "chunk"])
    layers = [("pos", Perceptron()), ("chunk", Spelling(dictionaries=phrases_of(X, y)))]
    USED.clear()
    with pytest.warns(DictionaryWarning):
        cross_validate(Cascade(layers, passing="best", n_jobs=1), corpus, folds=2)
    assert {len(used["PER"]) for used in USED} == {30}
