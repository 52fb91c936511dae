"""Memory-based and n-gram taggers as layers of a cascade."""

import itertools
import json

import numpy as np
import pytest
from cascades import passed_up

import labelwright
from labelwright import CRF, Cascade, MemoryTagger
from labelwright.errors import ModelFileError, OptionError, TemplateError
from labelwright.structures.proposals import from_probabilities, label_shares

X = [
    ["the", "dog", "barks"],
    ["a", "bird", "sings"],
    ["dogs", "bark"],
    ["the", "bird", "barks"],
    ["a", "dog"],
] * 3
POS = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"], ["D", "N", "V"], ["D", "N"]] * 3
CHUNK = [[{"D": "B-NP", "N": "I-NP", "V": "B-VP"}[label] for label in row] for row in POS]
CHUNK = [["B-NP" if t == 0 else label for t, label in enumerate(row)] for row in CHUNK]
Y = {"pos": POS, "chunk": CHUNK}
NEW = [["the", "zzz", "barks"], [], ["dogs", "sings"]]


def cascade(lower=None, upper=None, passing="best", **settings):
    layers = [("pos", lower or MemoryTagger()), ("chunk", upper or CRF(max_iter=20))]
    return Cascade(layers, passing=passing, n_jobs=1, random_state=0, **settings)


@pytest.mark.parametrize("ngram", [1, 3, 5])
def test_shares_are_those_of_all_votes_that_cover_a_token(ngram):
    random = np.random.default_rng(ngram)
    offsets, half, n_labels = np.array([0, 3, 3, 4, 9]), ngram // 2, 3
    grams = random.integers(0, n_labels, (6, ngram)).astype(np.int32)
    dense = random.random((9, 6)) * (random.random((9, 6)) < 0.6) + np.eye(9, 6) * 0.1 + 0.01
    expected = np.zeros((9, n_labels))
    for begin, end in itertools.pairwise(offsets):
        for t in range(begin, end):
            for c, weight in enumerate(dense[t] / dense[t].sum()):
                for place in range(ngram):
                    if begin <= t + place - half < end:
                        expected[t + place - half, grams[c, place]] += weight
    expected /= expected.sum(axis=1, keepdims=True)
    assert label_shares(from_probabilities(dense), grams, offsets, n_labels) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("passing", ["best", "marginal"])
@pytest.mark.parametrize("place", ["lower", "upper", "both"])
def test_a_memory_is_a_layer_at_any_height(passing, place):
    lower = CRF(max_iter=20) if place == "upper" else None
    upper = None if place == "lower" else MemoryTagger()
    model = cascade(lower, upper, passing).fit(X, Y)
    assert model.predict(X) == Y
    assert [len(row) for row in model.predict(NEW)["chunk"]] == [3, 0, 2]
    assert model.decode(NEW)["chunk"][0].labels == model.predict(NEW)["chunk"][0]


@pytest.mark.parametrize("passing", ["best", "marginal"])
def test_files_keep_the_answers(tmp_path, passing):
    model = cascade(upper=MemoryTagger(), passing=passing).fit(X, Y)
    model.save(tmp_path / "memory.model")
    again = labelwright.load(tmp_path / "memory.model")
    assert again.predict(NEW) == model.predict(NEW)
    assert again.describe()["layers"]["pos"]["size"][0] == "39 instances"
    tensors, header = model.pack()
    header = json.loads(json.dumps(header))
    header["layers"][0]["name"] = "other"
    with pytest.raises(ModelFileError, match="layer 2: expected the columns other of labels below"):
        Cascade.unpack(tensors, header)


def test_what_is_passed_in_tagging_are_shares_of_votes():
    model = cascade(MemoryTagger(k=3), passing="marginal").fit(X, Y)
    lower, sentences = model.layers_["pos"], [["the", "zzz", "barks"], [], ["dogs", "zzz"]]
    passed = passed_up(lower, sentences, 0.0)
    assert not passed.candidates.has_pairs
    ptr = passed.candidates.ptr
    sums = [passed.probability[a:b].sum() for a, b in itertools.pairwise(ptr)]
    assert sums == pytest.approx(np.ones(5))
    with pytest.raises(OptionError, match="expected the sentences themselves"):
        passed_up(lower, lower.encode(sentences))


def test_upper_layers_learn_from_sentences_that_a_memory_does_not_know():
    """Every word occurs once, so a memory is right about sentences that it knows and at a loss
    about all others."""
    words = [[f"w{i}"] for i in range(20)]
    y = {
        "pos": [["A" if i % 2 else "B"] for i in range(20)],
        "top": [["a" if i % 2 else "b"] for i in range(20)],
    }
    template = "U:%y[0]\nB"
    layers = [("pos", MemoryTagger(template="U:%x[0,0]", ngram=1)), ("top", CRF(template=template))]
    model = Cascade(layers, passing="best", n_jobs=1).fit(words, y)
    assert model.predict(words)["pos"] == y["pos"]
    assert np.abs(model.layers_["top"].weights_).max() < 1.0  # what it was passed said little


@pytest.mark.parametrize("passing", ["joint", "sample", "nbest"])
def test_other_ways_of_passing_are_refused(passing):
    use = (
        "use passing='marginal'"
        if passing == "joint"
        else "use passing='best' or passing='marginal'"
    )
    with pytest.raises(OptionError, match=f"layers: pos: a MemoryTagger has no .*{use}"):
        cascade(passing=passing).fit(X, Y)


def test_a_memory_reads_labels_as_columns():
    model = cascade(CRF(max_iter=20), MemoryTagger(template="U0:%x[0,1]\nU1:%x[-1,1]")).fit(X, Y)
    assert model.predict(X) == Y
    assert model.layers_["chunk"].reads().columns == ("word", "pos")
    with pytest.raises(
        TemplateError, match=r"layers: chunk: .*:1: U:%y\[0\]: a MemoryTagger reads .* write %x"
    ):
        cascade(CRF(), MemoryTagger(template="U:%y[0]")).fit(X, Y)


def test_feature_dicts_get_a_key_for_each_lower_layer():
    dicts = [[{"w": word} for word in sentence] for sentence in X]
    model = cascade(CRF(max_iter=20), MemoryTagger()).fit(dicts, Y)
    assert model.predict(dicts) == Y
    assert model.layers_["chunk"].windows_.names == ("w", "pos")
    arrays = [np.ones((len(sentence), 2)) for sentence in X]
    with pytest.raises(
        OptionError, match="a memory cannot compare arrays of numbers with labels below"
    ):
        cascade(CRF(max_iter=2), MemoryTagger()).fit(arrays, Y)


def test_classifiers_of_scikit_learn_read_labels_below_as_features():
    trees = pytest.importorskip("sklearn.tree")
    tagger = labelwright.NgramTagger(
        trees.DecisionTreeClassifier(random_state=0), template="U:%x[0,0]\nU:%y[0]"
    )
    model = cascade(CRF(max_iter=20), tagger, "marginal").fit(X, Y)
    assert model.predict(X) == Y
    lower = labelwright.NgramTagger(trees.DecisionTreeClassifier(random_state=0))
    assert cascade(lower, passing="marginal").fit(X, Y).predict(X)["pos"] == POS
    with pytest.raises(OptionError, match="only pickle can store"):
        model.pack()


def test_explanations_calibration_and_compression():
    model = cascade(passing="marginal").fit(X, Y)
    explained = model.explain(X[0])
    assert [each.label for each in explained["pos"]] == POS[0]
    for each in explained["chunk"]:
        assert sum(c.value for c in each.contributions) == pytest.approx(each.log_odds, abs=1e-4)
    assert any(c.below for each in explained["chunk"] for c in each.contributions)
    assert model.compressed(bits=16).predict(X) == Y
    assert model.calibrate(X, Y).predict(X) == Y
    more = {name: rows[:2] for name, rows in Y.items()}
    assert model.partial_fit(X[:2], more).layers_["pos"].training_["sentences"] == 17
    assert "39 instances" not in str(model._summary().sizes)
