"""Weights of instances: one that counts twice is as good as two, one that counts 0 times is not
there."""

import numpy as np
import pytest

import labelwright
from labelwright import MemoryBased, MemoryTagger, NgramTagger
from labelwright.corpus import builtin_corpus
from labelwright.errors import OptionError
from labelwright.memory import search

SETTINGS = [
    {},
    {"k": 3, "metric": "mvdm", "mvdm_threshold": 2, "votes": "inverse-distance"},
    {"weights": "chi-squared", "metric": "jeffrey", "k": 2},
    {"weights": "information-gain", "algorithm": "igtree"},
]
RANDOM = np.random.default_rng(0)
ROWS = [["abcd"[i] for i in row] for row in RANDOM.integers(0, 4, (60, 3))]
CLASSES = ["xyz"[i] for i in RANDOM.integers(0, 3, 60)]
QUERIES = [["abcde"[i] for i in row] for row in RANDOM.integers(0, 5, (40, 3))]
CORPUS = builtin_corpus(60, random_state=3, columns=["word", "pos", "chunk"])


def same(a: MemoryBased, b: MemoryBased) -> None:
    assert a.feature_weights_.tolist() == b.feature_weights_.tolist()
    assert a.predict_proba(QUERIES).tolist() == b.predict_proba(QUERIES).tolist()
    assert a.predict(QUERIES).tolist() == b.predict(QUERIES).tolist()


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_row_that_counts_twice_is_as_good_as_two(settings: dict, tmp_path) -> None:
    often = RANDOM.integers(0, 4, len(ROWS))
    often[0] = 1  # classes are numbered by their first row
    rows = [row for row, n in zip(ROWS, often, strict=True) for _ in range(n)]
    classes = [label for label, n in zip(CLASSES, often, strict=True) for _ in range(n)]
    repeated = MemoryBased(**settings, n_jobs=1).fit(rows, classes)
    weighted = MemoryBased(**settings, n_jobs=1).fit(ROWS, CLASSES, sample_weight=often)
    same(weighted, repeated)
    weighted.save(tmp_path / "m")
    same(labelwright.load(tmp_path / "m"), repeated)


def test_further_rows_have_weights_of_their_own() -> None:
    often = RANDOM.uniform(0.5, 2, len(ROWS))
    whole = MemoryBased(n_jobs=1).fit(ROWS, CLASSES, sample_weight=[1.0] * 30 + often[30:].tolist())
    grown = MemoryBased(n_jobs=1).fit(ROWS[:30], CLASSES[:30])
    same(grown.partial_fit(ROWS[30:], CLASSES[30:], sample_weight=often[30:]), whole)


@pytest.mark.parametrize("k", [1, 2, 9])
@pytest.mark.parametrize("share", [0, 2])  # with postings and without
def test_weights_need_not_be_whole_numbers(k: int, share: int, monkeypatch) -> None:
    monkeypatch.setattr(search, "SHARE", share)
    often = np.random.default_rng(1).integers(1, 4, len(ROWS))
    queries = [*QUERIES, ["e", "e", "e"], ["a", "e", "e"]]
    whole, parts = (
        MemoryBased(k=k, weights=[3.0, 2.0, 1.0], n_jobs=1).fit(
            ROWS, CLASSES, sample_weight=often * factor
        )
        for factor in (1.0, 0.25)
    )
    assert (whole._search._most, parts._search._most) == (len(whole.index_.grouped.ptr) - 2, 0)
    np.testing.assert_allclose(
        parts.predict_proba(queries), whole.predict_proba(queries), rtol=1e-12
    )


@pytest.mark.parametrize("given", [[1.0], [-1.0] * 60, [0.0] * 60, "heavy", [[1.0]] * 60])
def test_wrong_weights_are_named(given: object) -> None:
    with pytest.raises(OptionError, match=r"^sample_weight: "):
        MemoryBased().fit(ROWS, CLASSES, sample_weight=given)


def test_a_sentence_that_counts_twice_is_as_good_as_two(tmp_path) -> None:
    few = CORPUS.take(slice(0, 20))
    twice = MemoryTagger(n_jobs=1).fit(CORPUS.take([*range(20), *range(5)]))
    weighted = MemoryTagger(n_jobs=1).fit(few, sample_weight=[2] * 5 + [1] * 15)
    by_token = MemoryTagger(n_jobs=1).fit(
        few, sample_weight=[[2 - (n >= 5)] * len(x) for n, x in enumerate(few.X)]
    )
    weighted.save(tmp_path / "m")
    rest = CORPUS.take(slice(20, 60)).select(["word", "pos"])
    assert weighted.feature_weights_ == twice.feature_weights_
    for model in (weighted, by_token, labelwright.load(tmp_path / "m")):
        assert model.decode(rest) == twice.decode(rest)


def test_weights_of_labels_move_predictions_towards_them(tmp_path) -> None:
    few, rest = CORPUS.take(slice(0, 15)), CORPUS.take(slice(15, 60))
    outside = []
    for weight in (0.01, 1.0, 100.0):
        model = MemoryTagger(k=9, ngram=1, n_jobs=1, class_weight={"O": weight}).fit(few)
        model.save(tmp_path / "m")
        assert labelwright.load(tmp_path / "m").class_weight == {"O": weight}
        outside.append(
            sum(labels.count("O") for labels in model.predict(rest.select(["word", "pos"])))
        )
    assert outside[0] < outside[1] < outside[2]


@pytest.mark.parametrize(
    "settings", [{}, {"ngram": 1}, {"metric": "mvdm", "k": 3}, {"algorithm": "igtree"}]
)
def test_further_sentences_are_remembered_as_if_there_from_the_start(settings: dict) -> None:
    whole = MemoryTagger(n_jobs=1, **settings).fit(CORPUS.take(slice(0, 40)))
    grown = MemoryTagger(n_jobs=1, **settings).partial_fit(CORPUS.take(slice(0, 3)))
    grown.partial_fit(CORPUS.take(slice(3, 40)))
    rest = CORPUS.take(slice(40, 60)).select(["word", "pos"])
    assert (grown.classes_, grown.scheme_) == (whole.classes_, whole.scheme_)
    assert grown.grams_.tolist() == whole.grams_.tolist()
    assert grown.feature_weights_ == whole.feature_weights_
    assert grown.decode(rest) == whole.decode(rest)
    assert grown.training_["sentences"] == 40


def test_what_cannot_grow_says_so() -> None:
    model = MemoryTagger(n_jobs=1, class_weight="balanced").fit(CORPUS)
    with pytest.raises(OptionError, match="class_weight: 'balanced' depends on all sentences"):
        model.partial_fit(CORPUS)
    with pytest.raises(OptionError, match="ngram: the model was trained with 3"):
        model.set_params(class_weight=None, ngram=5).partial_fit(CORPUS)


@pytest.mark.slow
def test_classifiers_of_others_take_weights_or_say_that_they_do_not() -> None:
    trees, neighbours = (
        pytest.importorskip("sklearn.tree"),
        pytest.importorskip("sklearn.neighbors"),
    )
    X, y = [["a"], ["a"], ["b"]], [["N"], ["V"], ["N"]]
    for weights, label in (([1, 3, 1], "V"), ([3, 1, 1], "N")):
        model = NgramTagger(trees.DecisionTreeClassifier(random_state=0), ngram=1).fit(
            X, y, sample_weight=weights
        )
        assert model.predict([["a"]]) == [[label]]
        assert NgramTagger(MemoryBased(), ngram=1).fit(X, y, sample_weight=weights).predict(
            [["a"]]
        ) == [[label]]
    balanced = NgramTagger(
        trees.DecisionTreeClassifier(random_state=0), ngram=1, class_weight={"V": 9.0}
    ).fit(X, y)
    assert balanced.predict([["a"]]) == [["V"]]
    with pytest.raises(
        OptionError, match=r"sample_weight: KNeighborsClassifier.fit takes no weights"
    ):
        NgramTagger(neighbours.KNeighborsClassifier(1)).fit(X, y, sample_weight=[1, 2, 3])


@pytest.mark.parametrize("metric", ["mvdm", "jeffrey", "jensen-shannon"])
def test_distances_are_finite_however_little_a_row_counts(metric: str, tmp_path) -> None:
    rows, classes, often = (
        [["a"], ["a"], ["b"], ["b"]],
        ["x", "y", "x", "y"],
        [1.0, 5e-324, 5e-324, 1.0],
    )
    model = MemoryBased(k=2, metric=metric, n_jobs=1).fit(rows, classes, sample_weight=often)
    model.save(tmp_path / "m")
    for each in (model, labelwright.load(tmp_path / "m")):
        distances = [neighbour.distance for neighbour in each.neighbours([["a"]])[0]]
        assert np.isfinite(distances).all()
        assert len(distances) == 4
