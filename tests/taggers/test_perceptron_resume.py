"""Perceptrons that stop and resume, and the copies of a trained one: checkpoints, files, pickles, clones."""

import json
import pickle

import pytest
from problems import ARCS, NOISY, STATES, words
from sklearn.base import clone
from tiny import X, Y

import labelwright
from labelwright import LatentPerceptron, Perceptron
from labelwright.errors import LabelwrightError
from labelwright.learn.monitor import Monitor


class StopError(Exception):
    pass


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"averaging": "none"},
        {"averaging": "avg"},
        {"update": "passive-aggressive"},
        {"update": "arow"},
        {"n_restarts": 2},
        {"order": 2},
    ],
    ids=["mavg", "none", "avg", "passive-aggressive", "arow", "restarts", "order 2"],
)
@pytest.mark.parametrize("stop", [3, 11])
def test_a_run_that_goes_on_from_its_checkpoint_is_the_undisturbed_run(tmp_path, settings, stop):
    settings = {"template": ARCS, "reset_every": 3, "max_iter": 8, "n_jobs": 1, "random_state": 1} | settings
    dev = words(10, 6)
    calm = LatentPerceptron(2, **settings).fit(*NOISY, dev=dev)
    seen = []

    def interrupt(record, limit):
        seen.append(record)
        if len(seen) == stop:
            raise StopError

    place = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    try:
        LatentPerceptron(2, **settings).fit(*NOISY, dev=dev, progress=interrupt, **place)
    except StopError:
        assert len(seen) == stop
    resumed = LatentPerceptron(2, **settings).fit(*NOISY, dev=dev, resume=True, **place)
    assert resumed.weights_.tobytes() == calm.weights_.tobytes()
    kept = ("loss", "mistakes", "separable", "dev", "iteration")
    assert [[r[k] for k in kept] for r in resumed.history_] == [[r[k] for k in kept] for r in calm.history_]
    assert resumed.training_["convergence"] == calm.training_["convergence"]


class Interrupted(Monitor):
    """Ctrl-C after some iterations of all models together."""

    left = 0

    def report(self, **values):
        type(self).left -= 1
        self.interrupted = type(self).left == 0
        super().report(**values)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("start", "after", "iterations"),
    [("split", 2, 2), ("auto", 2, 2), ("likelihood", 3, 2), ("likelihood", 1, 0)],
)
def test_a_signal_leaves_what_the_model_to_start_from_has_learnt(tmp_path, monkeypatch, start, after, iterations):
    settings = {"template": ARCS, "start": start, "max_iter": 3, "n_jobs": 1, "random_state": 1}
    whole = LatentPerceptron(2, **settings).fit(*NOISY)
    place = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    with monkeypatch.context() as patch:
        patch.setattr("labelwright.taggers.linear.Monitor", Interrupted)
        Interrupted.left = after
        model = LatentPerceptron(2, **settings).fit(*NOISY, **place)
    model.save(tmp_path / "m")
    left = labelwright.load(tmp_path / "m")
    assert (left.training_["stopped"], left.training_["iterations"]) == ("interrupted", iterations)
    assert left.predict(NOISY[0]) == model.predict(NOISY[0])
    assert left._space.n_states == whole._space.n_states
    resumed = LatentPerceptron(2, **settings).fit(*NOISY, resume=True, **place)
    assert resumed.weights_.tobytes() == whole.weights_.tobytes()


def without_seconds(training):
    """The record of training without the seconds of calibration, which is done again."""
    return training | {"calibration": training.get("calibration", {}) | {"seconds": None}}


@pytest.mark.parametrize("dev", [None, words(10, 6)], ids=["alone", "dev"])
@pytest.mark.parametrize("averaging", ["none", "avg", "mavg"])
def test_a_run_that_converged_resumes_to_the_very_same_model(tmp_path, averaging, dev):
    settings = {"template": STATES, "averaging": averaging, "n_jobs": 1, "random_state": 1}
    place = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    whole = Perceptron(**settings).fit(X, Y, dev=dev, **place)
    assert whole.training_["stopped"] == "converged: a pass without mistakes"
    seen = []
    again = Perceptron(**settings).fit(X, Y, dev=dev, resume=True, progress=lambda *told: seen.append(told), **place)
    assert seen == []
    assert again.weights_.tobytes() == whole.weights_.tobytes()
    assert again.history_ == whole.history_
    assert without_seconds(again.training_) == without_seconds(whole.training_)


def test_a_checkpoint_goes_on_for_more_passes_but_not_under_other_rules(tmp_path):
    settings = {"template": STATES, "n_jobs": 1}
    place = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    Perceptron(max_iter=3, **settings).fit(*NOISY, **place)
    longer = Perceptron(max_iter=6, **settings).fit(*NOISY, resume=True, **place)
    assert longer.weights_.tobytes() == Perceptron(max_iter=6, **settings).fit(*NOISY).weights_.tobytes()
    others = [{"averaging": "mavg"}, {"margin": 1.0}, {"random_state": 1}, {"shuffle": False}, {"order": 2}]
    for other in others:
        with pytest.raises(LabelwrightError, match="other data or other settings"):
            Perceptron(max_iter=6, **settings | other).fit(*NOISY, resume=True, **place)


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
