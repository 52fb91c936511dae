"""The likelihood over candidates: with all labels it is that of the plain CRF, and its gradient is
its derivative."""

import numpy as np
import pytest

from labelwright import CRF
from labelwright.learn.pruned import PrunedLikelihood, learn_pruning
from labelwright.parallel import Workers
from labelwright.scoring.candidate_scores import pruned_parameters
from labelwright.structures.candidates import LabelLists

TEMPLATE = "U:%x[0,0]\nU:%x[-1,0]\nU:%x[1,0]/%x[0,0]\nB"
L = 4


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = [[f"w{rng.integers(6)}" for _ in range(rng.integers(1, 6))] for _ in range(12)]
    return X, [["abcd"[rng.integers(L)] for _ in x] for x in X]


def prepared(problem, **settings):
    model = CRF(TEMPLATE, n_jobs=1, prune_labels="off", **settings)
    return model, *model._prepare(*problem)


def all_labels(n_tokens):
    return LabelLists(np.arange(n_tokens + 1) * L, np.tile(np.arange(L, dtype=np.int32), n_tokens))


def some_labels(data, rng):
    """A random choice of the labels of every token, with its gold label."""
    every = all_labels(len(data.gold))
    kept = rng.random(len(every.label)) < 0.6
    kept[every.places_of(data.gold)] = True
    sizes = np.add.reduceat(kept, every.ptr[:-1])
    return LabelLists(np.concatenate([[0], np.cumsum(sizes)]), every.label[kept])


def likelihood(data, trained, lists, workers=None, prior=None, lost=None):
    parameters = pruned_parameters(trained.parameters.cells, lists, data.gold, data.offsets, L)
    prior = np.zeros(len(lists.label)) if prior is None else prior
    lost = np.zeros(len(data.gold), np.bool_) if lost is None else lost
    known = (
        data.incidences["state"],
        data.offsets,
        data.gold,
        parameters,
        lists,
        workers or Workers(1),
    )
    return parameters, PrunedLikelihood(*known, trained.space, prior, lost)


@pytest.mark.parametrize("scale", [1.0, 300.0])  # the larger one is summed in log space
def test_with_all_labels_it_is_the_plain_likelihood(problem, scale):
    model, data, trained = prepared(problem)
    workers = Workers(1)
    lists = all_labels(len(data.gold))
    parameters, pruned = likelihood(data, trained, lists, workers)
    dense = model._structure.objective(trained, data, workers, np.float64)
    w = scale * np.random.default_rng(1).normal(size=trained.parameters.n_weights)
    expected, gradient = np.empty_like(w), np.empty(parameters.n_weights)
    loss = dense(w, expected)

    def same_weights(of):
        parts = trained.parameters.slices
        return np.concatenate(
            [of[parts["state"]], of[parts["transitions"]][parameters.sparse.codes]]
        )

    assert pruned(same_weights(w), gradient) == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(gradient, same_weights(expected), atol=1e-8)


def test_the_gradient_is_the_derivative(problem):
    rng = np.random.default_rng(1)
    _, data, trained = prepared(problem)
    workers = Workers(1)
    lists = some_labels(data, rng)
    parameters, pruned = likelihood(data, trained, lists, workers)
    w, gradient, nothing = (
        rng.normal(size=parameters.n_weights),
        *np.empty((2, parameters.n_weights)),
    )
    pruned(w, gradient)
    steps = 1e-5 * np.eye(len(w))
    slopes = [(pruned(w + step, nothing) - pruned(w - step, nothing)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, slopes, atol=1e-6)


def test_scores_of_the_zero_order_model_are_as_weights_that_are_given(problem):
    rng = np.random.default_rng(1)
    _, data, trained = prepared(problem)
    lists = some_labels(data, rng)
    parameters, plain = likelihood(data, trained, lists)
    w, given = rng.normal(size=(2, parameters.n_weights))
    given[parameters.slices["state"].stop :] = 0.0
    prior = plain._slot_scores(given[parameters.slices["state"]])
    _, with_prior = likelihood(data, trained, lists, prior=prior)
    gradient, expected = np.empty((2, len(w)))
    assert with_prior(w, gradient) == pytest.approx(plain(w + given, expected))
    np.testing.assert_allclose(gradient, expected, atol=1e-9)


def test_lost_tokens_teach_nothing(problem):
    rng = np.random.default_rng(8)
    _, data, trained = prepared(problem)
    lists = some_labels(data, rng)
    lost = rng.random(len(data.gold)) < 0.3
    token = np.repeat(np.arange(len(lost)), np.diff(lists.ptr))
    kept = ~lost[token] | (lists.label == data.gold[token])
    lists = LabelLists(
        np.concatenate([[0], np.cumsum(np.bincount(token[kept]))]), lists.label[kept]
    )
    parameters, objective = likelihood(data, trained, lists, lost=lost)
    w, gradient = rng.normal(size=(2, parameters.n_weights))
    loss, slots = objective(w, gradient), objective._slot_scores(w[parameters.slices["state"]])
    table = np.zeros((L, L))
    table.reshape(-1)[parameters.sparse.codes] = w[parameters.slices["transitions"]]
    expected = 0.0
    for a, b in zip(objective.offsets[:-1], objective.offsets[1:], strict=True):
        assert b - a == 1 or not lost[a:b].any()
        alpha = slots[lists.ptr[a] : lists.ptr[a + 1]]
        for t in range(a + 1, b):
            here, before = (lists.label[lists.ptr[k] : lists.ptr[k + 1]] for k in (t, t - 1))
            alpha = np.logaddexp.reduce(alpha[:, None] + table[np.ix_(before, here)], axis=0)
            alpha = alpha + slots[lists.ptr[t] : lists.ptr[t + 1]]
        gold = (
            slots[lists.places_of(data.gold)[a:b]].sum()
            + table[data.gold[a : b - 1], data.gold[a + 1 : b]].sum()
        )
        expected += np.logaddexp.reduce(alpha) - gold
    assert loss == pytest.approx(expected)


def test_features_may_have_values(problem):
    rng = np.random.default_rng(5)
    X = [[{"word": word, "size": float(rng.random())} for word in x] for x in problem[0]]
    model, data, trained = prepared((X, problem[1]))
    workers = Workers(1)
    lists = all_labels(len(data.gold))
    parameters, pruned = likelihood(data, trained, lists, workers)
    w = rng.normal(size=parameters.n_weights)  # all pairs are candidates
    gradient, expected = np.empty((2, len(w)))
    assert pruned(w, gradient) == pytest.approx(
        model._structure.objective(trained, data, workers, np.float64)(w, expected)
    )
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_threads_do_not_change_a_bit(problem, monkeypatch):
    monkeypatch.setattr("labelwright.learn.pruned.PIECE_TOKENS", 5)
    _, data, trained = prepared(problem)
    rng = np.random.default_rng(2)
    lists = some_labels(data, rng)
    answers = []
    for threads in (1, 3):
        workers = Workers(threads)
        parameters, pruned = likelihood(data, trained, lists, workers)
        w = np.random.default_rng(3).normal(size=parameters.n_weights)
        gradient = np.empty_like(w)
        answers.append((pruned(w, gradient), gradient.tobytes()))
    assert answers[0] == answers[1]


def test_the_cutoff_keeps_the_wanted_share(problem):
    X, y = problem
    _, data, trained = prepared((X * 5, y * 5))
    cells = trained.parameters.cells["state"]
    workers = Workers(1)
    for share in (0.7, 0.95, 1.0):
        pruned = learn_pruning(
            data.incidences["state"], cells, data.gold, data.offsets, L, share, 0, workers
        )
        assert pruned.pruning.share >= share
        # gold labels are always kept in training
        assert (pruned.lists.places_of(data.gold) >= 0).all()
        assert 1 <= pruned.lists.mean <= L
