"""Learning from further data: `partial_fit` of log-linear models."""

import numpy as np
import pytest

from labelwright import (
    CRF,
    LatentCRF,
    MemoryBased,
    MemoryTagger,
    NgramTagger,
    Perceptron,
    SemiCRF,
    load,
)
from labelwright.corpus import builtin_corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.learn.lbfgs import AroundWeights

CORPUS = builtin_corpus(80, random_state=1, columns=["word", "pos", "chunk"])
X, Y = CORPUS.X, CORPUS.y
MODELS = {
    "crf": CRF(max_iter=40, n_jobs=1),
    "l1": CRF(max_iter=40, l1=0.05, n_jobs=1),
    "order 2": CRF(max_iter=20, order=2, n_jobs=1),
    "latent": LatentCRF(n_latent=2, max_iter=30, n_jobs=1, random_state=0),
    "segments": SemiCRF(max_iter=30, n_jobs=1),
}
every = pytest.mark.parametrize("name", MODELS)


def right(model, X, Y):
    return np.mean(
        [
            a == b
            for p, s in zip(model.predict(X), Y, strict=True)
            for a, b in zip(p, s, strict=True)
        ]
    )


@every
def test_it_learns_the_new_and_keeps_the_old(name):
    first = MODELS[name]._untrained().fit(X[:40], Y[:40])
    before = right(first, X[40:], Y[40:])
    old = right(first, X[:40], Y[:40])
    first.partial_fit(X[40:], Y[40:])
    assert right(first, X[40:], Y[40:]) > before + 0.5 * (1 - before)
    assert right(first, X[:40], Y[:40]) > old - 0.05
    assert first.training_["sentences"] == 80


def test_without_a_model_it_is_fit():
    weights = [
        model.weights_ for model in (CRF(n_jobs=1).fit(X, Y), CRF(n_jobs=1).partial_fit(X, Y))
    ]
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
    """At the optimum of the same data, the gradient is that of the penalty, which the new centre
    takes away."""
    model = CRF(n_jobs=1, l2=1.0).fit(X, Y)
    before = model.weights_.copy()
    model.partial_fit(X, Y)
    assert np.linalg.norm(model.weights_ - before) < np.linalg.norm(before)
    assert right(model, X, Y) > 0.97


# -- segments --------------------------------------------------------------------------------------

PLACES = ["Ada", "went", "to", "New", "York", "City"]
TO_PLACE = ["B-PER", "O", "O", "B-LOC", "I-LOC", "I-LOC"]


def segment_model(**settings):
    people = [["Ada", "met", "Bob"], ["Bob", "Smith", "met", "Ada"]] * 3
    labels = [["B-PER", "O", "B-PER"], ["B-PER", "I-PER", "O", "B-PER"]] * 3
    return SemiCRF(n_jobs=1, **settings).fit(people, labels), people, labels


def named_weights(model):
    """Every weight of a segment model by its feature and column, and the transitions by their
    types."""
    space, extractor, parameters = model.segments_, model._extractor, model._parameters
    columns, named = {"state": space.roles, "segment": space.types}, {}
    for kind, (ptr, column) in parameters.cells.items():
        feature = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)).tolist()
        weights = model.weights_[parameters.slices[kind]].tolist()
        for f, c, w in zip(feature, column.tolist(), weights, strict=True):
            named[kind, extractor.name(f), columns[kind][c]] = w
    types = [*space.types, None]
    of_pairs = model.weights_[parameters.slices["transitions"]].reshape(len(types), -1).tolist()
    return named | {
        (a, b): of_pairs[i][j] for i, a in enumerate(types) for j, b in enumerate(types)
    }


@pytest.mark.parametrize("cells", ["observed", "all"])
def test_a_segment_model_grows_by_types_lengths_texts_and_features(cells, tmp_path):
    model, people, labels = segment_model(cells=cells, dictionaries={"cities": ["New York"]})
    before = named_weights(model)
    _, grown = model._prepare([PLACES], [TO_PLACE], old=model._trained)
    larger = model._like()
    larger._trained = grown._replace(weights=model._structure.carry(model._trained, grown))
    after = named_weights(larger)
    assert set(before) < set(after)
    assert {name: after[name] for name in before} == before
    assert not any(weight for name, weight in after.items() if name not in before)
    assert ("segment", "text=New York City", "LOC") in after
    assert ("segment", "length=3", "PER") in after
    model.partial_fit([PLACES], [TO_PLACE])
    assert (model.segments_.types, model.segments_.max_length) == (("LOC", "PER", "O"), 3)
    assert model.predict([PLACES, *people]) == [TO_PLACE, *labels]
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.predict_marginals([PLACES]) == model.predict_marginals([PLACES])
    assert again.partial_fit(people, labels).training_["sentences"] == 13


def test_a_segment_model_grows_without_a_scheme_and_over_partial_labels():
    X, Y = [["a", "a", "b"]] * 4, [["A", "A", "B"]] * 4
    model = SemiCRF(n_jobs=1).fit(X, Y).partial_fit([["c", "b"]] * 4, [["C", "B"]] * 4)
    assert model.classes_ == ["A", "B", "C"]
    assert model.predict([["a", "a", "b"], ["c", "b"]]) == [["A", "A", "B"], ["C", "B"]]
    model, people, labels = segment_model(class_weight={"I-PER": 2.0})
    some = [[None if label == "O" else label for label in TO_PLACE]]
    model.partial_fit([PLACES], some, sample_weight=[2.0])
    assert model.predict(people) == labels
    assert model.predict([PLACES])[0][3:] == ["B-LOC", "I-LOC", "I-LOC"]


def test_labels_in_another_scheme_are_refused():
    model, *_ = segment_model()
    with pytest.raises(OptionError, match="follow iob2, which has no 'S-PER'; convert the labels"):
        model.partial_fit([["Ada"]], [["S-PER"]])


def test_an_objective_around_weights():
    def square(weights, gradient):
        gradient[:] = 2 * weights
        return float(weights @ weights)

    gradient = np.empty(2)
    assert AroundWeights(square, np.array([1.0, 2.0]))(np.array([1.0, 0.0]), gradient) == 8.0
    assert gradient.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("kind", [CRF, Perceptron, SemiCRF, MemoryTagger])
def test_labels_of_another_type_are_refused(kind):
    settings = {} if kind is MemoryTagger else {"max_iter": 2}
    model = kind(n_jobs=1, **settings).fit([["a", "b"]], [["A", "B"]])
    with pytest.raises(
        CorpusError, match="y: the labels of the model are of type str, as 'A', got 1 of type int"
    ):
        model.partial_fit([["a", "b"]], [[1, 2]])


def test_an_ngram_tagger_says_that_it_cannot():
    with pytest.raises(OptionError, match="partial_fit: an NgramTagger cannot learn further"):
        NgramTagger(MemoryBased()).partial_fit([["a"]], [["A"]])
