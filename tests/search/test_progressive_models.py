"""Progressive search among settings of taggers and classifiers, and the conventions of
scikit-learn."""

import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.metrics import f1_score, make_scorer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from told import course, rows, told

import labelwright
from labelwright import CRF, Cascade, MemoryBased, MemoryTagger, NgramTagger, Perceptron, SemiCRF
from labelwright.corpus import builtin_corpus
from labelwright.errors import NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.search.progressive import ProgressiveSearch, memory_settings

CHUNKS = builtin_corpus(120, random_state=2, columns=["word", "pos", "chunk"])
GRID = {
    "template": ["U:%x[0,0]", "U:%x[0,0]\nU:%x[0,1]\nB"],
    "averaging": ["avg", "none"],
    "max_iter": [1, 4],
}


# -- models and data -------------------------------------------------------------------------------


def test_taggers_on_a_corpus_and_on_lists_alike():
    options = {"first": 40, "steps": 3}
    search = ProgressiveSearch(Perceptron(n_jobs=1, random_state=0), GRID, **options).fit(CHUNKS)
    assert search.scoring_ == "f1"
    assert search.best_params_["template"] == GRID["template"][1]
    again = ProgressiveSearch(Perceptron(n_jobs=2, random_state=0), GRID, **options).fit(
        CHUNKS.X, CHUNKS.y
    )
    assert course(again) == course(search)
    assert again.predict(CHUNKS.X) == search.predict(CHUNKS)
    best = Perceptron(n_jobs=1, random_state=0, **search.best_params_).fit(CHUNKS)
    assert search.predict(CHUNKS) == best.predict(CHUNKS)
    assert search.score(CHUNKS) == best.score(CHUNKS) == search.score(CHUNKS.X, CHUNKS.y)
    assert [d.score for d in search.decode(CHUNKS)] == [d.score for d in best.decode(CHUNKS)]
    last = [row for row in search.table_ if row["step"] == 3]
    order = np.random.default_rng(0).permutation(120)
    test = np.sort(order[4::5])
    train = np.setdiff1d(order, test)
    model = Perceptron(n_jobs=1, random_state=0, **search.best_params_).fit(CHUNKS.take(train))
    wanted = evaluate(CHUNKS.take(test).y, model.predict(CHUNKS.take(test)))
    assert search.best_score_ == wanted.f1 == max(row["score"] for row in last)
    scores = {}
    for scoring in ("accuracy", "sentence"):
        scores[scoring] = ProgressiveSearch(
            Perceptron(n_jobs=1, random_state=0, **search.best_params_),
            [{}],
            first=200,
            scoring=scoring,
        ).fit(CHUNKS)
    assert scores["accuracy"].best_score_ == wanted.token_accuracy
    assert scores["sentence"].best_score_ == wanted.sentence_accuracy


def test_labels_without_chunks_are_scored_by_accuracy():
    tags = CHUNKS.select(["word", "pos"], label="pos")
    search = ProgressiveSearch(
        CRF(n_jobs=1, max_iter=3, template="U:%x[0,0]"), {"l2": [0.1, 100.0]}, first=60, steps=2
    )
    search.fit(tags)
    assert search.scoring_ == "accuracy"
    assert search.best_params_ == {"l2": 0.1}
    assert search.predict_marginals(tags)[0][0].keys() == set(tags.values("pos"))


def test_a_segment_model_and_a_cascade():
    segments = ProgressiveSearch(
        SemiCRF(n_jobs=1, template="words"), {"max_iter": [1, 8]}, first=60, steps=2
    ).fit(CHUNKS)
    assert segments.best_params_ == {"max_iter": 8}
    layers = [
        ("pos", CRF(template="U:%x[0,0]", max_iter=5)),
        ("chunk", CRF(template="U:%x[0,0]\nU:%y[0]", max_iter=5)),
    ]
    cascade = Cascade(layers, passing="best", n_jobs=1)
    search = ProgressiveSearch(cascade, {"pos__l2": [500.0, 0.1], "chunk__l2": [1.0]}, first=200)
    y = {"pos": CHUNKS.column("pos"), "chunk": CHUNKS.y}
    search.fit(CHUNKS.column("word"), y)
    assert search.best_params_ == {"pos__l2": 0.1, "chunk__l2": 1.0}
    assert [model.l2 for model in search.best_estimator_.layers_.values()] == [0.1, 1.0]
    assert layers[0][1].l2 == 1.0  # the estimator itself stays as it is
    assert course(clone(search).fit(CHUNKS)) == course(search)
    order = np.random.default_rng(0).permutation(120)
    test = CHUNKS.take(np.sort(order[4::5]))
    model = Cascade(
        [("pos", CRF(template="U:%x[0,0]", max_iter=5, l2=0.1)), layers[1]],
        passing="best",
        n_jobs=1,
    ).fit(CHUNKS.take(np.setdiff1d(order, order[4::5])))
    said = model.predict(test)
    reports = [evaluate(test.column(name), said[name]) for name in ("pos", "chunk")]
    assert search.best_score_ == pytest.approx((reports[0].token_accuracy + reports[1].f1) / 2)


def test_classifiers_over_rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=400) > 0, "yes", "no")
    grid = {"n_neighbors": [1, 5, 15], "weights": ["uniform", "distance"]}
    search = ProgressiveSearch(KNeighborsClassifier(), grid, first=60, steps=4).fit(X, y)
    assert search.best_params_["n_neighbors"] > 1
    assert search.predict_proba(X).shape == (400, 2)
    assert search.classes_.tolist() == ["no", "yes"]
    assert search.score(X, y) == search.best_estimator_.score(X, y)
    assert is_classifier(search)
    lists = ProgressiveSearch(KNeighborsClassifier(), grid, first=60, steps=4).fit(
        X.tolist(), y.tolist()
    )
    assert course(lists) == course(search)
    scorer = make_scorer(f1_score, pos_label="yes")
    tree = ProgressiveSearch(
        DecisionTreeClassifier(random_state=0), {"max_depth": [1, 9]}, scoring=scorer, folds=5
    )
    tree.fit(X, y)
    assert tree.best_params_ == {"max_depth": 1}
    assert 0.8 < tree.best_score_ < 1
    assert re.search(r"^1 +0\.\d{4}$", tree.table(), re.M)


def test_models_within_models():
    X, y = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    pipe = make_pipeline(StandardScaler(), KNeighborsClassifier())
    grid = {"kneighborsclassifier__n_neighbors": [1, 5], "standardscaler__with_mean": [True, False]}
    search = ProgressiveSearch(pipe, grid, first=40, steps=2).fit(X, y)
    best = search.best_estimator_.get_params()
    assert {name: best[name] for name in grid} == search.best_params_
    trees = {
        "kneighborsclassifier": [DecisionTreeClassifier(random_state=0)],
        "kneighborsclassifier__max_depth": [1, 2],
    }
    search = ProgressiveSearch(pipe, trees, first=40, steps=2).fit(X, y)
    assert (
        search.best_estimator_[-1].max_depth
        == search.best_params_["kneighborsclassifier__max_depth"]
    )
    assert trees["kneighborsclassifier"][0].max_depth is None
    with pytest.raises(
        OptionError, match="settings: ValueError: Invalid parameter 'knn' for estimator Pipeline"
    ):
        ProgressiveSearch(pipe, {"knn__k": [1]}).fit(X, y)


def test_threads_reach_the_model_and_change_nothing():
    found = [told({"right": [0.5, 0.9]}, n_jobs=n) for n in (None, 1, 2)]
    assert [search.best_estimator_.n_jobs for search in found] == [None, 1, 2]
    assert course(found[0]) == course(found[1]) == course(found[2])


@pytest.mark.parametrize("folds", [1, 3])
def test_settings_that_training_does_not_read_share_a_model(monkeypatch, folds):
    grid = {"k": [1, 3], "votes": ["none", "inverse-linear"], "weights": ["none", [1.0] * 2]}
    rest = [
        {"inference": ["vote", "csi"]},
        {"k": [9], "votes": ["inverse-distance"]},
        {"k": [0, -1]},
    ]  # leave settings out
    estimator = MemoryTagger(template="U:%x[0,0]\nU:%x[-1,0]", n_jobs=1)
    fits, remember = [], MemoryTagger._fit_classifier

    def counted(*given):
        fits[-1] += 1
        return remember(*given)

    def searched():
        fits.append(0)
        return ProgressiveSearch(estimator, [grid, *rest], 60, 2, folds).fit(CHUNKS)

    monkeypatch.setattr(MemoryTagger, "_fit_classifier", counted)
    together = searched()
    # the first one's
    with pytest.raises(OptionError, match="k: expected a whole number of 1 or more, got 0"):
        ProgressiveSearch(estimator, rest[2:], 60, 2, folds).fit(CHUNKS)
    monkeypatch.setattr(MemoryTagger, "_answer_settings", frozenset())
    alone = searched()
    assert course(together) == course(alone)
    assert [row["setting"] for row in together.table_[:13]] == list(together._settings())
    assert [row["error"] for row in together.table_] == [row["error"] for row in alone.table_]
    assert fits[0] <= 6 * folds + 1  # three sets of weights in two steps, and the best
    assert fits[1] > 2 * fits[0]


def test_a_model_among_the_settings_stays_as_it_is():
    memory = MemoryBased()
    grid = {"classifier": [memory], "classifier__k": [5], "inference": ["csi", "vote"]}
    ProgressiveSearch(NgramTagger(memory, template="U:%x[0,0]", n_jobs=1), grid, 60, 2).fit(CHUNKS)
    assert memory.k == 1


# -- conventions -----------------------------------------------------------------------------------


def test_scikit_learns_conventions():
    search = ProgressiveSearch(CRF(l2=2.0), {"order": [1, 2]}, first=50)
    assert search.get_params(deep=False).keys() == {
        *(
            "estimator",
            "settings",
            "first",
            "steps",
            "folds",
            "gaps",
            "scoring",
            "refit",
            "random_state",
            "n_jobs",
            "verbose",
        )
    }
    assert search.get_params()["estimator__l2"] == 2.0
    twin = clone(search)
    assert twin.estimator is not search.estimator
    assert twin.set_params(estimator__l2=3.0, first=60) is twin
    assert (twin.estimator.l2, twin.first, search.estimator.l2, search.first) == (3.0, 60, 2.0, 50)
    with pytest.raises(OptionError, match="CRF: no parameter 'k'"):
        twin.set_params(estimator__k=3)
    with pytest.raises(OptionError, match="ProgressiveSearch: no parameter 'k'"):
        twin.set_params(k=3)
    assert repr(search) == "ProgressiveSearch(CRF(l2=2.0), {'order': [1, 2]}, first=50)"
    for question in (
        lambda: search.predict([["a"]]),
        lambda: search.table(),
        lambda: search.best_params_,
    ):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            question()
    assert not hasattr(search, "predict_nbest")
    with pytest.raises(AttributeError, match="_private"):
        search._private  # noqa: B018


def test_a_search_without_refit_and_one_that_is_pickled():
    search = told({"right": [0.5, 0.9]}, refit=False)
    assert search.best_params_ == {"right": 0.9}
    with pytest.raises(NotFittedError, match="use refit=True"):
        search.predict([[1]])
    whole = told({"right": [0.5, 0.9]})
    again = pickle.loads(pickle.dumps(whole))
    assert again.table() == whole.table()
    assert again.predict([[1], [2]]) == whole.predict([[1], [2]])
    assert again.fit(*rows(400)).best_params_ == {"right": 0.9}


def test_the_best_model_is_saved(tmp_path):
    search = ProgressiveSearch(Perceptron(n_jobs=1), {"max_iter": [1, 2]}, first=100, steps=1).fit(
        CHUNKS
    )
    search.save(tmp_path / "model")
    assert labelwright.load(tmp_path / "model").predict(CHUNKS) == search.predict(CHUNKS)


def test_the_table_to_read():
    search = told(
        [
            {"right": [0.1, 0.9, 0.91]},
            {"refuse_from": 1, "name": "a\nlong name, longer than columns are"},
        ]
    )
    assert search.table().splitlines() == [
        "right  refuse_from  name                        n=50  n=100  n=200  n=400",
        "0.91                                          100.00  95.00  92.50  91.25",
        "0.9                                            90.00  90.00  90.00  90.00",
        "0.1                                            10.00  10.00",
        "       1            a long name, longer t...  failed",
        "4 settings; all data have been used",
    ]
    assert search.table(2).splitlines() == [
        "right  refuse_from  name    n=50  n=100  n=200  n=400",
        "0.91                      100.00  95.00  92.50  91.25",
        "0.9                        90.00  90.00  90.00  90.00",
        "... and 2 more",
        "4 settings; all data have been used",
    ]


def test_settings_of_memory_based_models():
    found = memory_settings()
    assert (
        len(found)
        == len({frozenset(setting.items()) for setting in found})
        == 5 * 5 + 10 * 5 * 5 * 4
    )
    assert {setting["k"] for setting in found} == {1, 3, 5, 7, 9, 11, 13, 15, 19, 25, 35}
    assert all(setting["votes"] == "none" for setting in found if setting["k"] == 1)
    assert all(
        ("mvdm_threshold" in setting) == (setting["metric"] != "overlap") for setting in found
    )
    assert memory_settings("classifier__")[0].keys() == {f"classifier__{name}" for name in found[0]}
