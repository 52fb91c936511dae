"""Perceptrons that stop and resume, and the copies of a trained one: checkpoints, files, pickles, clones."""

import json
import pickle

import pytest
from problems import ARCS, STATES, words
from sklearn.base import clone

import labelwright
from labelwright import LatentPerceptron, Perceptron


@pytest.mark.parametrize(
    "model",
    [
        Perceptron(template=ARCS, order=2, constraints="scheme", update="passive-aggressive", max_iter=3),
        Perceptron(template=ARCS, update="arow", variance=0.5, gamma=2.0, epsilon=0.01, max_iter=3),
        LatentPerceptron({"O": 1, "B-X": 3, "I-X": 2}, template=STATES, reset_every=2, max_iter=3),
    ],
)
def test_files_pickles_and_clones_are_the_same_model(tmp_path, model):
    model = clone(model).set_params(n_jobs=1, random_state=4)
    train, new = words(12, 3), [["aa", "c", "b"], ["b"], ["new", "aa"], []]
    model.fit(*train, dev=words(6, 4))
    model.save(tmp_path / "m")
    for other in (labelwright.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert type(other) is type(model)
        same = {"template": None, "n_jobs": None}
        assert other.get_params() | same == model.get_params() | same
        assert other.weights_.tobytes() == model.weights_.tobytes()
        assert other.decode(new) == model.decode(new)
        assert other.predict_confidences(new) == model.predict_confidences(new)
        assert other.training_ == model.training_
    copy = clone(model)
    assert not hasattr(copy, "weights_")
    assert copy.fit(*train, dev=words(6, 4)).weights_.tobytes() == model.weights_.tobytes()


def test_a_model_of_one_label_makes_no_mistakes(tmp_path):
    for make in (Perceptron, LatentPerceptron):
        model = make(n_jobs=1).fit([["a", "b"], ["c"]], [["O", "O"], ["O"]])
        assert model.training_["mistakes"] == 0
        assert model.predict([["a", "z"]]) == [["O", "O"]]
        assert model.training_["convergence"]["separable"] == 1.0
        assert model.training_["convergence"]["margin"] is None
        json.dumps([model.training_, model.history_], allow_nan=False)  # no Infinity, which is no JSON
        model.save(tmp_path / "m")
        loaded = labelwright.load(tmp_path / "m")
        assert loaded.predict([["z"]]) == [["O"]]
        assert loaded.training_ == model.training_
