"""sklearn-crfsuite's interface."""

import pickle

import numpy as np
import pytest

from labelwright.compat.sklearn_crfsuite import CRF, metrics, utils
from labelwright.errors import NotFittedError

X = [[{"w": "a", "n": 1.5}, {"w": "b"}], [{"w": "b"}, {"w": "a"}, {"w": "c"}]]
Y = [["x", "y"], ["y", "x", "y"]]


def test_answers_and_attributes():
    crf = CRF(c2=0.01)
    assert crf.tagger_ is crf.classes_ is crf.attributes_ is crf.size_ is None
    with pytest.raises(NotFittedError):
        crf.predict(X)
    crf.fit(X, Y)
    assert [list(labels) for labels in crf.predict(X)] == Y
    assert crf.predict_single(X[1]) == Y[1]
    assert crf.score(X, Y) == 1.0
    assert set(crf.predict_marginals(X)[0][0]) == {"x", "y"}
    assert sum(crf.predict_marginals_single(X[0])[1].values()) == pytest.approx(1.0)
    assert crf.classes_ == ["x", "y"]
    assert crf.attributes_ == ["w:a", "n", "w:b", "w:c"]
    assert crf.state_features_["w:a", "x"] > 0 > crf.state_features_.get(("w:c", "x"), -1)
    assert set(crf.transition_features_) == {("x", "y"), ("y", "x")}
    assert crf.training_log_.iterations
    assert crf.size_ > 100


def test_files_pickles_and_clones(tmp_path):
    path = str(tmp_path / "model.crfsuite")
    crf = CRF(model_filename=path).fit(X, Y)
    assert CRF(model_filename=path).score(X, Y) == 1.0
    assert pickle.loads(pickle.dumps(crf)).score(X, Y) == 1.0
    assert pickle.loads(pickle.dumps(CRF().fit(X, Y))).predict_single(X[0]) == Y[0]
    assert CRF(c1=0.5).get_params()["c1"] == 0.5
    assert crf.set_params(c2=3.0).c2 == 3.0


@pytest.mark.slow
def test_scikit_learn_knows_whether_it_is_fitted():
    validation = pytest.importorskip("sklearn.utils.validation")
    exceptions = pytest.importorskip("sklearn.exceptions")
    with pytest.raises(exceptions.NotFittedError):
        validation.check_is_fitted(CRF())
    for fitted in (CRF().fit(X, Y), CRF(model_filename="a file")):
        validation.check_is_fitted(fitted)


def test_holdout_data_come_in_pairs():
    with pytest.raises(ValueError, match="both X_dev and y_dev"):
        CRF().fit(X, Y, X)
    crf = CRF(max_iterations=3).fit(X, Y, X, Y)
    assert crf.training_log_.last_iteration["instance_accuracy_float"] == 1.0


def test_metrics():
    assert utils.flatten(Y) == ["x", "y", "y", "x", "y"]
    assert metrics.sequence_accuracy_score(Y, [["x", "y"], ["y", "y", "y"]]) == 0.5
    pytest.importorskip("sklearn")
    assert metrics.flat_accuracy_score(Y, [["x", "y"], ["y", "y", "y"]]) == 0.8
    assert metrics.flat_f1_score(Y, Y, average="macro") == 1.0
    assert metrics.flat_fbeta_score(Y, Y, beta=2, average="micro") == 1.0
    assert "precision" in metrics.flat_classification_report(Y, Y)


def test_cross_validation_of_scikit_learn():
    selection = pytest.importorskip("sklearn.model_selection")
    from labelwright.compat.sklearn_crfsuite import scorers

    scores = selection.cross_val_score(CRF(), X * 4, Y * 4, cv=2, scoring=scorers.flat_accuracy)
    assert np.mean(scores) == 1.0
    search = selection.GridSearchCV(CRF(), {"c2": [0.1, 1.0]}, cv=2).fit(X * 4, Y * 4)
    assert search.best_score_ == 1.0


def test_model_file_is_made_when_its_name_is_asked_for():
    from labelwright.compat import pycrfsuite

    crf = CRF().fit(X, Y)
    tagger = pycrfsuite.Tagger()
    tagger.open(crf.modelfile.name)
    assert tagger.tag(X[0]) == Y[0]


def test_a_trainer_with_a_train_of_its_own_is_called():
    from labelwright.compat.pycrfsuite import Trainer

    called = []

    class Mine(Trainer):
        def train(self, model, holdout=-1):
            called.append(holdout)
            super().train(model, holdout)

    assert (
        CRF(trainer_cls=Mine).fit(X, Y, np.array([X[0], X[1]], dtype=object), Y).score(X, Y) == 1.0
    )
    assert called == [1]


def test_state_of_the_original_is_taken_over():
    from labelwright.compat.sklearn_crfsuite import DATA, FileResource

    data = CRF().fit(X, Y)._model
    file = FileResource.__new__(FileResource)
    file.__setstate__({"auto": True, "name": None, "keep_tempfiles": False, DATA: data})
    crf = CRF.__new__(CRF)
    crf.__setstate__(
        {**CRF(c1=0.1).__dict__, "modelfile": file, "_tagger": None, "_info_cached": None}
    )
    assert (crf.predict_single(X[0]), crf.c1) == (Y[0], 0.1)
