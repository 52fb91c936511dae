"""Variables in place of weights: gradients, penalties, and the model that large penalties leave."""

import numpy as np
import pytest
from problems import ARCS, STATES, TRIPLES, Problem, words

from labelwright import CRF, Cascade, LatentCRF
from labelwright.learn.lbfgs import OfVariables
from labelwright.learn.variables import joined, of_model, plain

CASES = {
    "states": (STATES, 1, 3),
    "one state for some": (ARCS, 1, [1, 2, 3]),
    "pairs": (ARCS, 1, 2),
    "order 2": (TRIPLES, 2, 2),
}


def shared(case, l1=0.1, l2=0.5, l2_latent=2.0):
    template, order, sizes = CASES[case]
    problem = Problem(*words(6, seed=3), template, sizes=sizes, order=order)
    penalties, tokens = (l1, l2, l2_latent), (problem.incidences, len(problem.gold))
    return problem, of_model(problem.parameters, problem.space, *penalties, *tokens)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_slopes(case):
    problem, variables = shared(case)
    objective, rng = OfVariables(problem.objective, variables), np.random.default_rng(1)
    z, gradient, scratch = rng.normal(0, 0.5, len(variables.l2)), *np.empty((2, len(variables.l2)))
    objective(z, gradient)
    for direction in rng.normal(size=(5, len(z))):
        ends = [objective(z + step * direction, scratch) for step in (1e-5, -1e-5)]
        assert gradient @ direction == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_variables_of_weights_have_the_least_penalty(case):
    """l2_latent/2 sum w^2 - (l2_latent sum w)^2 / 2 (l2 + K l2_latent) for the K weights of a
    group."""
    problem, variables = shared(case)
    weights = np.zeros(problem.parameters.n_weights)
    S, L, label_of = problem.space.n_states, problem.space.n_labels, problem.space.label_of
    moves = np.random.default_rng(2).normal(size=(S, S))
    weights[problem.parameters.slices["transitions"]] = moves.reshape(-1)
    z = variables.of(weights)
    np.testing.assert_allclose(variables.weights(z), weights, atol=1e-6)
    penalty = 0.0
    for r in range(L):
        for s in range(L):
            group = moves[label_of == r][:, label_of == s]
            least = 2.0 * (group**2).sum() - (2.0 * group.sum()) ** 2 / (0.5 + 2.0 * group.size)
            penalty += least if group.size > 1 else 0.5 * float(group[0, 0]) ** 2
    assert float(variables.l2 @ z**2) == pytest.approx(penalty, rel=1e-5)


def test_training_ends_where_the_gradient_does():
    """The optimum: g + l2_latent (w - u) = 0 with the best u = l2_latent sum(w) / (l2 + K
    l2_latent)."""
    X, y = words(20, seed=8)
    model = LatentCRF(
        3, template=STATES, l2=0.5, l2_latent=2.0, tol=1e-10, n_jobs=1, random_state=0
    ).fit(X, y)
    problem = Problem(X, y, STATES, sizes=3, labels=model.classes_)
    weights = model.weights_.astype(np.float64)
    _, gradient = problem(weights)
    states = problem.parameters.slices["state"]
    w, g = weights[states].reshape(-1, 3), gradient[states].reshape(-1, 3)
    u = 2.0 * w.sum(axis=1, keepdims=True) / (0.5 + 3 * 2.0)
    np.testing.assert_allclose(g, -2.0 * (w - u), atol=1e-3)
    assert np.abs(w - u).max() > 0.05


def test_penalties_are_those_of_weights():
    _, variables = shared("states", l1=0.3, l2=0.5, l2_latent=0.5)
    np.testing.assert_allclose(variables.l1, 0.3 * variables.scale, rtol=1e-6)
    np.testing.assert_allclose(variables.l2, 0.5 * variables.scale**2, rtol=1e-6)


@pytest.mark.parametrize("penalties", [(1e100, 1e100, 1e100), (0.1, 1e-300, 1.0), (0.1, 0.0, 1e80)])
def test_large_penalties_have_scales_that_float32_holds(penalties):
    problem, variables = shared("states", *penalties)
    for vector in variables[:3]:
        assert np.isfinite(vector).all()
    assert variables.scale.min() > np.finfo(np.float32).tiny
    weights = np.random.default_rng(5).normal(size=problem.parameters.n_weights)
    z = variables.of(weights.astype(np.float32))
    np.testing.assert_allclose(variables.weights(z), weights, rtol=1e-3, atol=1e-5)


def test_variables_of_several_models_stand_in_a_row():
    parts = [shared("states")[1], plain(7, 0.0, 2.0), shared("one state for some")[1]]
    rng = np.random.default_rng(4)
    weights = [rng.normal(size=len(part.scale) - part.n_groups) for part in parts]
    every = joined(parts)
    z = every.of(np.concatenate(weights))
    np.testing.assert_allclose(every.weights(z), np.concatenate(weights), atol=1e-6)
    penalty = sum(float(part.l2 @ part.of(w) ** 2) for part, w in zip(parts, weights, strict=True))
    assert float(every.l2 @ z**2) == pytest.approx(penalty, rel=1e-6)

    def pulled_back(part, weights):
        gradient = np.concatenate([weights, np.empty(part.n_groups)])
        part.pull_back(gradient)
        return float(gradient.sum())

    total = sum(pulled_back(part, w) for part, w in zip(parts, weights, strict=True))
    assert pulled_back(every, np.concatenate(weights)) == pytest.approx(total)


@pytest.mark.parametrize(
    "settings", [{}, {"order": 2}, {"l1": 0.05}, {"optimizer": "sgd"}], ids=str
)
def test_large_penalties_of_deviations_leave_the_crf(settings):
    X, y = words(30, seed=5)
    settings |= {"n_jobs": 1, "tol": 1e-9, "random_state": 1}
    crf = CRF(l2=0.5, **settings).fit(X, y)
    latent = LatentCRF(n_latent=3, l2_latent=1e6, **settings).fit(X, y)
    assert latent.predict(X) == crf.predict(X)
    near = 1e-4 if settings.keys() == {"n_jobs", "tol", "random_state"} else 0.05
    for ours, theirs in zip(latent.predict_marginals(X), crf.predict_marginals(X), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a == pytest.approx(b, abs=near)


def test_layers_that_learn_together_share_weights():
    X, y = words(20, seed=6)
    layers = [
        ("one", LatentCRF(n_latent=2, l2_latent=1e6, n_jobs=1)),
        ("two", LatentCRF(n_latent=2, l2_latent=1e6)),
    ]
    plain_layers = [("one", CRF(l2=0.5, n_jobs=1)), ("two", CRF(l2=0.5))]
    labels = {"one": y, "two": y}
    shared_cascade, cascade = (
        Cascade(each, passing="joint", n_jobs=1, max_iter=30).fit(X, labels)
        for each in (layers, plain_layers)
    )
    assert shared_cascade.training_["joint"]["loss"] == pytest.approx(
        cascade.training_["joint"]["loss"], rel=1e-3
    )
