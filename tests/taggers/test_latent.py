"""How latent CRFs learn: seeds, restarts, checkpoints, threads, constraints, and what they can that
a CRF cannot."""

import numpy as np
import pytest
from tiny import ARCS, LABELS, NEW, STATES, TRIPLES, X, Y

from labelwright import CRF, LatentCRF
from labelwright.errors import OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import learn
from labelwright.learn.objective import LogLikelihood
from labelwright.parallel import Workers

ORDERS = [(STATES, 1), (ARCS, 1), (STATES, 2), (ARCS, 2), (TRIPLES, 2)]


@pytest.mark.cases(6)
@pytest.mark.parametrize(
    "settings", [{}, {"l1": 0.3}, {"optimizer": "sgd"}, {"constraints": "scheme", "cells": "all"}]
)
@pytest.mark.parametrize("one", [1, dict.fromkeys(LABELS, 1)])
@pytest.mark.parametrize(("template", "order"), [(ARCS, 1), (ARCS, 2), (TRIPLES, 2)])
def test_with_one_state_per_label_it_is_the_crf(settings, one, template, order):
    words = {
        "template": template,
        "order": order,
        "l2": 1.0,
        "max_iter": 40,
        "n_jobs": 1,
        "random_state": 3,
    } | settings
    crf, latent = CRF(**words).fit(X, Y), LatentCRF(one, **words).fit(X, Y)
    assert latent.weights_.tobytes() == crf.weights_.tobytes()
    assert [r["loss"] for r in latent.history_] == [r["loss"] for r in crf.history_]
    assert latent.predict_marginals([NEW]) == crf.predict_marginals([NEW])
    assert latent.sequence_log_probabilities(X, Y) == crf.sequence_log_probabilities(X, Y)
    assert [y for y, _ in latent.predict_nbest([NEW], n=20)[0]] == [
        y for y, _ in crf.predict_nbest([NEW], n=20)[0]
    ]
    p, q = ([p for _, p in m.predict_nbest([NEW], n=20)[0]] for m in (latent, crf))
    assert p == pytest.approx(q)
    assert latent.predict(X) == crf.predict(X)
    (found,) = latent.decode([NEW])
    (best,) = crf.decode([NEW])
    assert found.exact
    assert found.log_probability == pytest.approx(best.log_probability)


def test_latent_states_learn_what_a_crf_cannot():
    """Every third label is B, and no word tells: a CRF sees only its neighbour, two states of A can
    count."""
    x, y = [["x"] * 9] * 5, [["A", "A", "B"] * 3] * 5
    settings = {"template": "U:%x[0,0]\nB", "l2": 0.01, "n_jobs": 1}
    latent = LatentCRF(2, random_state=1, **settings).fit(x, y)
    crf = CRF(**settings).fit(x, y)
    assert latent.predict(x[:1]) == y[:1]
    assert np.exp(latent.sequence_log_probabilities(x[:1], y[:1])[0]) > 0.9
    assert np.exp(crf.sequence_log_probabilities(x[:1], y[:1])[0]) < 0.2
    (row,) = latent.predict_marginals(x[:1], latent=True)
    of_a = [max(("A#1", "A#2"), key=row[t].get) for t in range(9) if y[0][t] == "A"]
    assert of_a == of_a[:2] * 3
    assert of_a[0] != of_a[1]


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.5), (0.2, 0.05)])
@pytest.mark.parametrize(("template", "order"), [(ARCS, 1), (STATES, 2), (TRIPLES, 2)])
def test_training_ends_where_the_gradient_does(l1, l2, template, order):
    """The optimum: g + l2 w = -l1 sign(w), or |g| <= l1 where w is 0."""
    words = {"template": template, "order": order, "tol": 1e-9, "n_jobs": 1, "random_state": 0}
    model = LatentCRF(2, l1=l1, l2=l2, share=False, **words).fit(X, Y)
    _, incidences, offsets = learn(X, template, 1)
    index = {label: i for i, label in enumerate(model.classes_)}
    gold = np.array([index[label] for s in Y for label in s], np.int32)
    weights, gradient = model.weights_.astype(np.float64), np.empty(len(model.weights_))
    workers = Workers(1)
    n = model._extractor.n_features
    data = incidences, n, offsets, gold
    objective = LogLikelihood(*data, model._space, model._parameters, workers, dtype=np.float64)
    loss = objective(weights, gradient)
    penalty = l1 * np.abs(weights).sum() + 0.5 * l2 * weights @ weights
    assert loss + penalty == pytest.approx(model.training_["loss"], rel=1e-5)
    assert model.training_["loss"] < model.history_[0]["loss"] / 2
    used = weights != 0
    np.testing.assert_allclose(
        gradient[used], -(l2 * weights + l1 * np.sign(weights))[used], atol=5e-3
    )
    assert np.abs(gradient[~used]).max(initial=0) <= l1 + 5e-3
    # of all weights but those of plain triples
    share = used[: model._parameters.slices["transitions"].stop].mean()
    assert used.all() if l1 == 0 else 0.05 < share < 0.9


@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd"])
def test_seeds(optimizer):
    def trained(seed):
        return LatentCRF(
            2, template=STATES, optimizer=optimizer, max_iter=10, n_jobs=1, random_state=seed
        ).fit(X, Y)

    assert trained(1).weights_.tobytes() == trained(1).weights_.tobytes()
    assert trained(1).weights_.tobytes() != trained(2).weights_.tobytes()
    assert trained(None).weights_.tobytes() == trained(None).weights_.tobytes()


def test_restarts_keep_the_best_objective():
    words = {"template": STATES, "n_jobs": 1, "random_state": 7, "max_iter": 12, "l2": 0.05}
    one = LatentCRF(3, **words).fit(X, Y)
    assert "restarts" not in one.training_
    four = LatentCRF(3, n_restarts=4, **words).fit(X, Y)
    spread = four.training_["restarts"]
    assert len(spread) == 4
    losses = [run["loss"] for run in spread]
    assert [run["merit"] for run in spread] == [-loss for loss in losses]
    assert losses[0] == one.training_["loss"]
    assert len(set(losses)) > 1
    assert four.training_["loss"] == min(losses) == four.history_[-1]["loss"]
    again = LatentCRF(3, n_restarts=4, **words).fit(X, Y)
    assert again.weights_.tobytes() == four.weights_.tobytes()


def test_restarts_keep_the_best_on_development_data(chunks):
    train, dev = chunks.take(slice(0, 25)), chunks.take(slice(25, 80))
    model = LatentCRF(
        2, template="words", n_restarts=3, max_iter=15, l2=0.1, n_jobs=1, random_state=2
    )
    model.fit(train, dev=dev)
    merits = [run["merit"] for run in model.training_["restarts"]]
    assert len(merits) == 3
    assert len(set(merits)) > 1
    assert all(0 < merit < 1 for merit in merits)
    assert evaluate(dev.y, model.predict(dev)).score == pytest.approx(max(merits))
    assert max(record.get("dev", 0) for record in model.history_) == max(merits)


def test_restarts_from_a_trained_model_are_not_all_the_same():
    """The first start has the old weights, the others a little noise besides."""
    words = {"template": STATES, "n_jobs": 1, "random_state": 7, "max_iter": 5, "l2": 0.05}
    old = LatentCRF(2, **words).fit(X, Y)
    new = LatentCRF(2, n_restarts=3, **words).fit(X, Y, init=old)
    one = LatentCRF(2, **words).fit(X, Y, init=old)
    assert one.history_[0]["loss"] == pytest.approx(old.training_["loss"], rel=1e-5)
    losses = [run["loss"] for run in new.training_["restarts"]]
    assert len(set(losses)) == 3
    assert losses[0] == one.training_["loss"]


@pytest.mark.parametrize(("template", "order"), ORDERS)
def test_warm_start(template, order):
    words = {"template": template, "order": order, "tol": 1e-7, "random_state": 0}
    model = LatentCRF(2, n_jobs=1, warm_start=True, **words).fit(X, Y)
    first = model.training_
    model.fit(X, Y)
    assert model.history_[0]["loss"] == pytest.approx(first["loss"], rel=1e-6)


UNEVEN = {"B-NP": 2, "I-NP": 1, "O": 3}


def zeroed(labels, n_latent):
    """A model that knows nothing: all its weights are 0."""
    model = LatentCRF(n_latent, template="U:%x[0,0]\nB", n_jobs=1, max_iter=1).fit(
        [["a"] * len(labels)], [labels]
    )
    model.weights_ = np.zeros_like(model.weights_)
    return model


def test_an_untrained_model():
    model = zeroed(["O", "B-X", "I-X", "B-Y", "I-Y"], 3)
    sentence = ["a"] * 30
    for decoder in ("exact", "ldi", "mbr", "viterbi", "marginal"):
        (found,) = model.decode([sentence], decoder)
        assert len(found.labels) == 30
        assert found.log_probability == pytest.approx(-30 * np.log(5))
        assert not found.exact or decoder in ("exact", "mbr")
    assert model.decode([sentence])[0].exact
    (nbest,) = model.predict_nbest([sentence], n=20)
    assert [p for _, p in nbest] == pytest.approx([5.0**-30] * 20)
    assert len({tuple(y) for y, _ in nbest}) == 20
    (marginals,) = model.predict_marginals([sentence])
    assert all(p == pytest.approx(0.2) for row in marginals for p in row.values())
    (latent,) = model.predict_marginals([sentence], latent=True)
    assert all(p == pytest.approx(1 / 15) for row in latent for p in row.values())


def test_numbers_per_label():
    model = LatentCRF(UNEVEN, template=STATES, n_jobs=1, random_state=0).fit(X, Y)
    assert np.diff(model._space.first).tolist() == [UNEVEN[label] for label in model.classes_]
    names = list(model.predict_marginals([["dog"]], latent=True)[0][0])
    assert names == ["B-NP#1", "B-NP#2", "I-NP", "O#1", "O#2", "O#3"]
    with pytest.raises(
        OptionError,
        match=r"n_latent: no label 'never seen' in the training data, which have B-NP, I-NP, O$",
    ):
        LatentCRF(UNEVEN | {"never seen": 7}, template=STATES, n_jobs=1).fit(X, Y)
    numpy_number = LatentCRF(np.int64(2), template=STATES, n_jobs=1, random_state=0).fit(X, Y)
    assert numpy_number._space.n_states == 6
