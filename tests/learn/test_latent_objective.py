"""The objective of latent CRFs of both orders against enumeration of all latent paths."""

import itertools

import numpy as np
import pytest
from problems import ARCS, EVERYTHING, LABELS, NAMES, ORDERS, STATES, TRIPLES, Problem, dicts, differences, words

CASES = {  # data, template, states per label, cells, scheme, order
    "states": (words, STATES, 2, "observed", None, 1),
    "states, all cells": (words, STATES, [1, 3, 2], "all", None, 1),
    "arcs": (words, ARCS, [1, 3, 2], "observed", None, 1),
    "arcs, all cells": (words, ARCS, 2, "all", None, 1),
    "constrained": (words, STATES, [2, 1, 3], "observed", "iob2", 1),
    "constrained arcs": (words, ARCS, 2, "observed", "iob2", 1),
    "order 2": (words, STATES, 2, "observed", None, 2),
    "order 2, all cells": (words, STATES, [1, 3, 2], "all", None, 2),
    "order 2, arcs": (words, ARCS, [1, 3, 2], "observed", None, 2),
    "order 2, arcs, all cells": (words, ARCS, 2, "all", None, 2),
    "order 2, triples": (words, TRIPLES, 2, "observed", None, 2),
    "order 2, triples, all cells": (words, TRIPLES, [1, 2, 1], "all", None, 2),
    "order 2, everything": (words, EVERYTHING, [2, 1, 2], "observed", None, 2),
    "order 2, constrained": (words, STATES, [2, 1, 3], "observed", "iob2", 2),
    "order 2, constrained arcs, all cells": (words, ARCS, 2, "all", "iob2", 2),
    "order 2, constrained triples, all cells": (words, TRIPLES, [1, 2, 2], "all", "iob2", 2),
    "order 2, constrained everything": (words, EVERYTHING, 2, "observed", "iob2", 2),
    "order 2, dicts": (dicts, "default", 2, "observed", None, 2),
}
both = pytest.mark.parametrize(("template", "order"), ORDERS, ids=NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n_sentences", [1, 10])
def test_loss_and_gradient(case, n_sentences):
    make, template, sizes, cells, scheme, order = CASES[case]
    X, y = make(n_sentences, seed=3, longest=3)
    problem = Problem(X, y, template, cells, scheme, sizes=sizes, order=order)
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights), rel=1e-9)
    at = np.random.default_rng(1).permutation(len(weights))[:10]
    np.testing.assert_allclose(gradient[at], differences(problem.true_loss, weights, at), atol=1e-7)
    more = np.arange(0, len(weights), max(1, len(weights) // 300))
    np.testing.assert_allclose(gradient[more], differences(lambda w: problem(w)[0], weights, more), atol=1e-6)


@both
def test_observed_cells_are_those_of_the_labels_times_their_states(template, order):
    X, y = words(10, seed=5)
    problem = Problem(X, y, template, sizes=[1, 3, 2], order=order)
    without = Problem(X, y, template, order=order)
    of = {label: [s for s in problem.states if s[0] == label] for label in LABELS}
    expected = {
        (name[0], *states) for name in without.names() for states in itertools.product(*(of[i] for i in name[1:]))
    }
    assert set(problem.names()) == expected
    assert len(problem.names()) == len(expected)


@pytest.mark.slow
@both
def test_float32_agrees_with_float64(template, order):
    X, y = words(150, seed=2, longest=30)
    exact, quick = (Problem(X, y, template, dtype=dtype, sizes=3, order=order) for dtype in (np.float64, np.float32))
    weights = exact.random_weights().astype(np.float32)
    loss, gradient = exact(weights)
    loss32, gradient32 = quick(weights)
    assert loss32 == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(gradient32, gradient, atol=2e-5 * np.abs(gradient).max())


@pytest.mark.slow
@both
@pytest.mark.parametrize("scheme", [None, "iob2"])
@pytest.mark.parametrize("scale", [10.0, 100.0, 300.0, 1e3, 1e4])
def test_scores_of_any_size(template, order, scheme, scale):
    """Where scaled probabilities run out of range, log space takes over, in the clamped sums too."""
    X, y = words(8, seed=4, longest=3)
    problem = Problem(X, y, template, scheme=scheme, sizes=[2, 1, 3], order=order)
    weights = problem.random_weights(scale)
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights), rel=1e-9)
    at = np.arange(0, len(weights), len(weights) // 12)
    expected = differences(problem.true_loss, weights, at, step=1e-4)
    np.testing.assert_allclose(gradient[at], expected, atol=2e-5)
    quick = Problem(X, y, template, scheme=scheme, sizes=[2, 1, 3], dtype=np.float32, order=order)
    loss32, gradient32 = quick(weights.astype(np.float32))
    assert loss32 == pytest.approx(loss, rel=1e-5)
    exact32 = problem(weights.astype(np.float32))[1]  # float32 loses digits of the scores: 1e-7 of their size
    np.testing.assert_allclose(gradient32, exact32, atol=1e-5 * scale)


@pytest.mark.slow
@both
def test_threads_change_no_bit_of_the_gradient(template, order):
    X, y = words(800, seed=6, longest=12)
    results = []
    for n_jobs in (1, 2):
        problem = Problem(X, y, template, sizes=[3, 2, 1], dtype=np.float32, n_jobs=n_jobs, order=order)
        results.append(problem(problem.random_weights()))
    (loss, gradient), (other_loss, other) = results
    assert loss == other_loss
    assert gradient.tobytes() == other.tobytes()
