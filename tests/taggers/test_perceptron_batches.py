"""Perceptrons trained batch by batch, by `partial_fit`."""

import pickle

import pytest
from problems import ARCS, NOISY, dicts, names_of, words
from sklearn.base import clone

import labelwright
from labelwright import LatentPerceptron, Perceptron
from labelwright.errors import LabelwrightError
from labelwright.kernels import perceptron as kernels
from labelwright.structures.states import state_names


def by_name(model):
    """The weights by what they belong to."""
    states = state_names(model._space)
    return dict(
        zip(
            names_of(model._parameters, model._extractor, states),
            model.weights_.tolist(),
            strict=True,
        )
    )


@pytest.mark.slow
def test_an_equal_batch_again_and_again_is_another_pass():
    for make, words_ in (
        (Perceptron, {"averaging": "none"}),
        (Perceptron, {"averaging": "avg", "update": "passive-aggressive"}),
        (Perceptron, {"averaging": "avg", "margin": 2.5, "order": 2}),
        (Perceptron, {"averaging": "none", "update": "arow", "variance": 0.5}),
        (
            LatentPerceptron,
            {"n_latent": 2, "averaging": "avg", "margin": 0, "start": "random", "random_state": 3},
        ),
        (
            LatentPerceptron,
            {"n_latent": 2, "averaging": "none", "margin": 3, "start": "random", "random_state": 3},
        ),
    ):
        settings = {"template": ARCS, "n_jobs": 1, "shuffle": False, **words_}
        online = make(**settings)
        for k in range(1, 6):
            online.partial_fit(*NOISY)
            whole = make(max_iter=k, **settings).fit(*NOISY)
            assert [r["mistakes"] for r in online.history_] == [
                r["mistakes"] for r in whole.history_
            ]
            found, expected = by_name(online), by_name(whole)
            assert found.keys() == expected.keys()
            assert list(found.values()) == pytest.approx(
                [expected[name] for name in found], abs=1e-5
            )
        assert online.predict(NOISY[0]) == whole.predict(NOISY[0])
        assert online.training_["sentences"] == 5 * len(NOISY[0])
        assert all(r["seconds"] >= 0 for r in online.history_)


def test_calls_are_no_passes_for_restarts():
    """Sentence by sentence mavg would begin anew from its mean all the time."""
    models = [
        Perceptron(averaging=name, reset_every=2, template=ARCS, n_jobs=1)
        for name in ("avg", "mavg")
    ]
    for sentence, labels in zip(*NOISY, strict=True):
        avg, mavg = (model.partial_fit([sentence], [labels]) for model in models)
        assert mavg.weights_.tobytes() == avg.weights_.tobytes()
    assert avg.weights_.any()


@pytest.mark.parametrize("make", [Perceptron, LatentPerceptron])
def test_calls_ask_for_the_usual_margin_of_the_first_one(make):
    """One feature and the transition to a token in the first batch; those of the others have four
    times as many."""
    first, more = ([[{"w": "a"}, {"w": "b"}]] * 2, [["A", "B"]] * 2), dicts(6, 3)
    more = [[token | {"four": 2.0} for token in sentence] for sentence in more[0]], more[1]
    weights = []
    for margin in ("auto", 1 + 1):
        model = make(margin=margin, random_state=0, n_jobs=1).partial_fit(*first)
        weights.append(model.partial_fit(*more).partial_fit(*first).weights_.tobytes())
    assert weights[0] == weights[1]


@pytest.mark.parametrize("make", [Perceptron, LatentPerceptron])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_batch_leaves_the_model_as_it_was(monkeypatch, make, error):
    model = make(template=ARCS, random_state=0, n_jobs=1)
    batch = [["so", "new"], ["aa", "so", "b"]] * 3, [["B-X", "B-Y"], ["O", "B-Y", "O"]] * 3
    kernel, calls = kernels.perceptron_pass, []

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise error
        return kernel(*arguments)

    def interrupt():
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr("labelwright.learn.perceptron.PIECE", 1)
            patch.setattr("labelwright.kernels.perceptron.perceptron_pass", stopped)
            with pytest.raises(error):
                model.partial_fit(*batch)
        assert len(calls) == 3

    interrupt()
    assert not hasattr(model, "weights_")
    assert set(vars(model)) == set(vars(clone(model)))
    model.partial_fit(*words(8, 1))
    twin = pickle.loads(pickle.dumps(model))
    interrupt()
    assert model.weights_.tobytes() == twin.weights_.tobytes()
    assert (model.classes_, model.history_, model.training_) == (
        twin.classes_,
        twin.history_,
        twin.training_,
    )
    assert model.decode(batch[0]) == twin.decode(batch[0])
    for data in (words(8, 2), batch):
        assert (
            model.partial_fit(*data).weights_.tobytes()
            == twin.partial_fit(*data).weights_.tobytes()
        )


@pytest.mark.parametrize("averaging", ["none", "avg"])
@pytest.mark.parametrize("update", ["perceptron", "arow"])
def test_batches_in_turn_are_one_pass_over_all_of_them(averaging, update):
    """Where the labels are known from the first batch on, and words that are new later start from
    nothing anyway."""
    X, y = words(30, 9)
    settings = {
        "template": ARCS,
        "cells": "all",
        "averaging": averaging,
        "shuffle": False,
        "n_jobs": 1,
    }
    settings |= {"update": update, "variance": 0.5}
    online = Perceptron(**settings)
    for begin, end in ((0, 12), (12, 13), (13, 30)):
        online.partial_fit(X[begin:end], y[begin:end])
    whole = Perceptron(max_iter=1, **settings).fit(X, y)
    assert sum(r["mistakes"] for r in online.history_) == whole.training_["mistakes"]
    found, expected = by_name(online), by_name(whole)
    assert found.keys() == expected.keys()
    assert list(found.values()) == pytest.approx([expected[name] for name in found], abs=1e-5)


@pytest.mark.parametrize("make", [Perceptron, LatentPerceptron])
def test_later_batches_bring_new_words_and_labels(make):
    model = make(averaging="none", n_jobs=1, random_state=0, template="U:%x[0,0]\nB")
    model.partial_fit([["the", "dog"]] * 3, [["D", "N"]] * 3)
    assert model.classes_ == ["D", "N"]
    weights = len(model.weights_)
    for _ in range(6):
        model.partial_fit(
            [["the", "dog", "barks"], ["birds", "sing"]], [["D", "N", "V"], ["N", "V"]]
        )
    assert model.classes_ == ["D", "N", "V"]
    assert len(model.weights_) > weights
    assert model.history_[-1]["mistakes"] == 0
    assert model.predict([["the", "dog", "barks"], ["birds", "sing"]]) == [
        ["D", "N", "V"],
        ["N", "V"],
    ]


def test_a_batch_that_is_refused_leaves_the_model_as_it_was():
    model = Perceptron(n_jobs=1, template=ARCS, constraints="scheme").partial_fit(*words(8, 1))
    twin, (x, y) = pickle.loads(pickle.dumps(model)), words(8, 2)
    for bad in (([[]], [[]]), (x, y[:3]), ([["a", "b"]], [["O", "I-X"]])):
        with pytest.raises(LabelwrightError):
            model.partial_fit(*bad)
    assert model.weights_.tobytes() == twin.weights_.tobytes()
    assert model.partial_fit(x, y).weights_.tobytes() == twin.partial_fit(x, y).weights_.tobytes()


def test_a_loaded_model_goes_on_from_its_weights(tmp_path):
    X, y = words(20, 9)
    for model in (
        Perceptron(n_jobs=1, template=ARCS),
        LatentPerceptron(2, margin=0, n_jobs=1, template=ARCS),
    ):
        model.partial_fit(X[:10], y[:10]).save(tmp_path / "m")
        loaded, before = labelwright.load(tmp_path / "m"), model.predict(X)
        assert loaded.predict(X) == before
        # what it says anyway changes nothing
        loaded.partial_fit([X[0]], [loaded.predict([X[0]])[0]])
        assert loaded.history_[-1]["mistakes"] == 0
        assert loaded.predict(X) == before
        assert {name: w for name, w in by_name(loaded).items() if w}.items() >= {
            name: w for name, w in by_name(model).items() if w
        }.items()
        for _ in range(8):
            loaded.partial_fit([["so", "new"]], [["B-X", "B-Y"]])
        assert loaded.predict([["so", "new"]]) == [["B-X", "B-Y"]]


def test_a_pickle_in_the_middle_keeps_the_mean():
    X, y = words(20, 9)
    model = Perceptron(n_jobs=1, template=ARCS).partial_fit(X[:10], y[:10])
    copied = pickle.loads(pickle.dumps(model)).partial_fit(X[10:], y[10:])
    assert copied.weights_.tobytes() == model.partial_fit(X[10:], y[10:]).weights_.tobytes()


def test_fit_forgets_the_batches_before_it():
    model = Perceptron(n_jobs=1, template=ARCS, max_iter=3).partial_fit(*words(5, 1))
    assert model.fit(*NOISY).weights_.tobytes() == clone(model).fit(*NOISY).weights_.tobytes()
