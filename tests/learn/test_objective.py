"""The training objective of both orders against its definition: enumerated loss, finite differences, any scale."""

import itertools

import numpy as np
import pytest
from problems import (
    ARCS,
    EVERYTHING,
    LABELS,
    NAMES,
    ORDERS,
    STATES,
    TRIPLES,
    Problem,
    bioes,
    dicts,
    differences,
    words,
)

from labelwright.learn import objective
from labelwright.learn.sgd import SGD
from labelwright.scoring import assembly

CASES = {  # data, template, cells, scheme, order
    "states": (words, STATES, "observed", None, 1),
    "states, all cells": (words, STATES, "all", None, 1),
    "arcs": (words, ARCS, "observed", None, 1),
    "arcs, all cells": (words, ARCS, "all", None, 1),
    "constrained": (words, STATES, "observed", "iob2", 1),
    "constrained arcs": (words, ARCS, "observed", "iob2", 1),
    "constrained arcs, all cells": (words, ARCS, "all", "iob2", 1),
    "dicts": (dicts, "default", "observed", None, 1),
    "dicts, all cells": (dicts, "default", "all", "iob2", 1),
    "ends constrained": (bioes, ARCS, "observed", "bioes", 1),
    "order 2": (words, STATES, "observed", None, 2),
    "order 2, all cells": (words, STATES, "all", None, 2),
    "order 2, arcs": (words, ARCS, "observed", None, 2),
    "order 2, arcs, all cells": (words, ARCS, "all", None, 2),
    "order 2, triples": (words, TRIPLES, "observed", None, 2),
    "order 2, triples, all cells": (words, TRIPLES, "all", None, 2),
    "order 2, everything": (words, EVERYTHING, "observed", None, 2),
    "order 2, constrained": (words, STATES, "observed", "iob2", 2),
    "order 2, constrained arcs, all cells": (words, ARCS, "all", "iob2", 2),
    "order 2, constrained triples": (words, TRIPLES, "observed", "iob2", 2),
    "order 2, constrained triples, all cells": (words, TRIPLES, "all", "iob2", 2),
    "order 2, constrained everything": (words, EVERYTHING, "observed", "iob2", 2),
    "order 2, ends constrained": (bioes, STATES, "observed", "bioes", 2),
    "order 2, ends constrained, triples": (bioes, TRIPLES, "observed", "bioes", 2),
    "order 2, dicts": (dicts, "default", "observed", None, 2),
    "order 2, dicts, all cells": (dicts, "default", "all", "iob2", 2),
}
both = pytest.mark.parametrize(("template", "order"), ORDERS, ids=NAMES)


@pytest.mark.cases(10)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n_sentences", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_loss_and_gradient(case, n_sentences):
    make, template, cells, scheme, order = CASES[case]
    X, y = make(n_sentences, seed=3, longest=3 if make is bioes else 4)
    problem = Problem(X, y, template, cells, scheme, order=order)
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights), rel=1e-9)
    everywhere = np.arange(len(weights))
    at = np.random.default_rng(1).permutation(everywhere)[:12]
    np.testing.assert_allclose(gradient[at], differences(problem.true_loss, weights, at), atol=1e-7)
    whole = differences(lambda w: problem(w)[0], weights, everywhere)
    np.testing.assert_allclose(gradient, whole, atol=1e-6)


def test_observed_cells_are_those_of_the_training_data():
    X, y = words(10, seed=5)
    problem = Problem(X, y, EVERYTHING, order=2)
    grams = {(None, r, s) for r in LABELS for s in LABELS}
    grams |= {(*gram, u) for gram in grams for u in LABELS}
    seen = set()
    for sentence, labels in zip(problem.tokens, y, strict=True):
        for t, token in enumerate(sentence):
            for reach, kind in enumerate(("state", "edge", "triple")):
                if t >= reach:
                    seen |= {(name, *labels[t - reach : t + 1]) for name in token[kind]}
    assert set(problem.names()) == grams | seen
    assert len(problem.names()) == len(grams | seen)
    first = Problem(X, y, ARCS).names()
    assert set(first) == {name for name in grams | seen if len(name) < 4}
    assert len(first) == len(set(first))


def test_all_cells():
    X, y = words(10, seed=5)
    problem = Problem(X, y, EVERYTHING, "all", order=2)
    expected = set()
    for reach, kind in enumerate(("state", "edge", "triple")):
        grams = [()]
        for _ in range(reach + 1):
            grams = [(*gram, label) for gram in grams for label in LABELS]
        features = {name for sentence in problem.tokens for token in sentence for name in token[kind]}
        expected |= {(f, *gram) for f in features for gram in grams}
        if reach:
            expected |= {(None, *gram) for gram in grams}
    assert set(problem.names()) == expected
    assert len(problem.names()) == len(expected)


@pytest.mark.slow
@both
def test_float32_agrees_with_float64(template, order):
    X, y = words(200, seed=2, longest=30)
    exact, quick = (Problem(X, y, template, dtype=dtype, order=order) for dtype in (np.float64, np.float32))
    weights = exact.random_weights().astype(np.float32)
    loss, gradient = exact(weights)
    loss32, gradient32 = quick(weights)
    assert loss32 == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(gradient32, gradient, atol=2e-5 * np.abs(gradient).max())


@pytest.mark.cases(4)
@both
@pytest.mark.parametrize("scheme", [None, "iob2"])
@pytest.mark.parametrize("scale", [300.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (10, 30, 100, 1e3, 1e4))])
def test_scores_of_any_size(template, order, scheme, scale):
    """Where scaled probabilities run out of range, log space takes over; loss and gradient stay right."""
    X, y = words(15, seed=4)
    problem = Problem(X, y, template, scheme=scheme, order=order)
    weights = problem.random_weights(scale)
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights), rel=1e-9)
    at = np.arange(0, len(weights), 5)
    expected = differences(problem.true_loss, weights, at, step=1e-4)
    np.testing.assert_allclose(gradient[at], expected, atol=2e-5)
    quick = Problem(X, y, template, scheme=scheme, dtype=np.float32, order=order)
    loss32, gradient32 = quick(weights.astype(np.float32))
    assert loss32 == pytest.approx(loss, rel=1e-5)
    assert np.isfinite(gradient32).all()
    exact32 = problem(weights.astype(np.float32))[1]  # float32 loses digits of the scores: 1e-7 of their size
    np.testing.assert_allclose(gradient32, exact32, atol=1e-5 * scale)


@pytest.mark.slow
@both
def test_threads_change_no_bit(template, order, monkeypatch):
    X, y = words(1500, seed=6, longest=12)
    whole = Problem(X, y, template, dtype=np.float32, order=order)
    weights = whole.random_weights()
    for name, size in {"BATCH_BYTES": 1 << 12, "ARC_BYTES": 1 << 13, "SHARD_BYTES": 1 << 15}.items():
        monkeypatch.setattr(objective, name, size)  # so that there are many pieces of work
    results = []
    for n_jobs in (1, 2, 3):
        problem = Problem(X, y, template, dtype=np.float32, n_jobs=n_jobs, order=order)
        assert len(problem.objective.shards) > 3
        assert all(len(shard.batches) > 3 for shard in problem.objective.shards[:-1])
        results.append(problem(weights))
    for loss, gradient in results[1:]:
        assert loss == results[0][0]
        assert gradient.tobytes() == results[0][1].tobytes()
    loss, gradient = whole(weights)
    assert results[0][0] == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(results[0][1], gradient, atol=2e-5 * np.abs(gradient).max())


@pytest.mark.cases(6)
@both
@pytest.mark.parametrize("frequent", [5, 10, 10**9])
def test_features_without_shared_keys_count_the_same(template, order, frequent, monkeypatch):
    """Where rows are wide, tables hold frequent keys only, and each token scores its other features by itself."""
    X, y = words(60, seed=9)
    first = Problem(X, y, template, scheme="iob2", order=order)
    monkeypatch.setattr(assembly, "WIDE", 0)
    monkeypatch.setattr(assembly, "FREQUENT", frequent)
    second = Problem(X, y, template, scheme="iob2", order=order)
    n_keys = [sum(part.n_keys for part in p.objective.parts.values()) for p in (first, second)]
    assert n_keys[0] > n_keys[1]
    assert (n_keys[1] == 0) == (frequent == 10**9)
    weights = first.random_weights()
    (loss, gradient), (other_loss, other) = first(weights), second(weights)
    assert other_loss == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(other, gradient, atol=1e-10)


@pytest.mark.parametrize("template", [STATES, ARCS])
@pytest.mark.parametrize("sizes", [1, [2, 1, 3]])
@pytest.mark.parametrize("scheme", [None, "iob2"])
def test_without_weights_of_triples_the_second_order_is_the_first(template, sizes, scheme):
    X, y = words(40, seed=10, longest=9)
    one, two = (Problem(X, y, template, scheme=scheme, sizes=sizes, order=order) for order in (1, 2))
    n = one.parameters.n_weights
    weights = np.zeros(two.parameters.n_weights)
    weights[:n] = one.random_weights()
    assert two.names()[:n] == one.names()
    (loss, gradient), (other_loss, other) = one(weights[:n]), two(weights)
    assert other_loss == pytest.approx(loss, rel=1e-10)
    np.testing.assert_allclose(other[:n], gradient, atol=1e-9)


@pytest.mark.cases(24)
@both
@pytest.mark.parametrize("scheme", [None, "iob2"])
@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("cells", ["observed", "all"])
@pytest.mark.parametrize("sizes", [1, [2, 1, 3]], ids=["plain", "latent"])
def test_a_step_of_sgd_follows_the_gradient(template, order, scheme, scale, cells, sizes):
    """A pass at a rate near zero moves the weights by the rate times minus the gradient, and meets the loss."""
    X, y = words(12, seed=8)
    problem = Problem(X, y, template, cells, scheme, sizes=sizes, order=order)
    weights = problem.random_weights(scale)
    loss, gradient = problem(weights)
    run = SGD(problem.incidences, problem.offsets, problem.gold, problem.space, problem.parameters, 0.0, 0)
    moved, eta = weights.copy(), 1e-7
    met, shrink = run.one_pass(moved, 1.0, np.arange(len(X)), eta, 0)
    assert shrink == 1
    assert met == pytest.approx(loss, rel=1e-4)
    np.testing.assert_allclose((weights - moved) / eta, gradient, atol=1e-4 * scale)


@pytest.mark.cases(12)
@both
@pytest.mark.parametrize("scheme", [None, "iob2", "bioes"])
@pytest.mark.parametrize("latent", [False, True], ids=["plain", "latent"])
def test_a_pass_of_sgd_is_one_step_for_each_sentence(template, order, scheme, latent):
    """Step i shrinks all weights by 1 + rate l2 / N and then follows the gradient of its sentence."""
    X, y = (bioes if scheme == "bioes" else words)(12, seed=8)
    sizes = ([2, 1, 3, 1, 1] if scheme == "bioes" else [2, 1, 3]) if latent else 1
    problem = Problem(X, y, template, "all", scheme, sizes=sizes, order=order)
    n, l2, eta, taken = len(X), 0.6, 0.3, 5
    each = []
    for i, (a, b) in enumerate(itertools.pairwise(problem.offsets.tolist())):
        incidences, offsets = problem.extractor.encode([X[i]])
        data = incidences, problem.extractor.n_features, offsets, problem.gold[a:b]
        each.append(objective.LogLikelihood(*data, problem.space, problem.parameters, problem.workers, np.float64))
    weights = problem.random_weights(0.3)
    run = SGD(problem.incidences, problem.offsets, problem.gold, problem.space, problem.parameters, l2, 0)
    found, sentences = weights.copy(), np.random.default_rng(0).permutation(n)
    met, shrink = run.one_pass(found, 1.0, sentences, eta, taken)
    loss, gradient = 0.0, np.empty(len(weights))
    for i, sentence in enumerate(sentences.tolist()):
        rate = eta / (1 + eta * l2 / n * (taken + i))
        weights /= 1 + rate * l2 / n
        loss += each[sentence](weights, gradient)
        weights -= rate * gradient
    np.testing.assert_allclose(found * shrink, weights, atol=1e-10)
    assert met == pytest.approx(loss + 0.5 * l2 * weights @ weights, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("template", "order"), [(STATES, 1), (STATES, 2), (TRIPLES, 2)])
def test_a_sentence_of_ten_thousand_tokens(dtype, template, order):
    """At zero weights the loss is T log L; at random ones the gradient still meets finite differences."""
    X, y = words(4000, seed=7)
    X, y = [[w for s in X for w in s][:10_000]], [[label for s in y for label in s][:10_000]]
    assert len(X[0]) > 9_000
    problem = Problem(X, y, template, dtype=dtype, order=order)
    loss, _ = problem(np.zeros(problem.parameters.n_weights))
    assert loss == pytest.approx(len(X[0]) * np.log(3), rel=1e-6)
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    at = np.argsort(-np.abs(gradient))[:3]
    exact = Problem(X, y, template, order=order)
    expected = differences(lambda w: exact(w)[0], weights, at, step=1e-4)
    np.testing.assert_allclose(gradient[at], expected, rtol=1e-3 if dtype == np.float32 else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "order"), [(200, 1), (40, 2)])
def test_many_labels(n, order):
    labels = [f"l{i}" for i in range(n)]
    random = np.random.default_rng(0)
    y = [[labels[i] for i in random.integers(0, n, 8)] for _ in range(60)]
    X = [[f"w{random.integers(0, 30)}" for _ in s] for s in y]
    problem = Problem(X, y, "U:%x[0,0]\nB", labels=labels, order=order)
    weights = problem.random_weights()
    _, gradient = problem(weights)
    at = random.permutation(len(weights))[:5].tolist() + np.argsort(-np.abs(gradient))[:3].tolist()
    np.testing.assert_allclose(gradient[at], differences(lambda w: problem(w)[0], weights, at), atol=1e-5)


@pytest.mark.parametrize(("template", "order"), ORDERS, ids=NAMES)
def test_the_precise_objective_is_the_one_made_in_float64(template, order):
    X, y = words(30, seed=3)
    rough, fine = (Problem(X, y, template, order=order, dtype=dtype) for dtype in (np.float32, np.float64))
    weights = fine.random_weights()
    gradients = np.empty((2, len(weights)))
    losses = [rough.objective.precise()(weights, gradients[0]), fine.objective(weights, gradients[1])]
    assert losses[0] == pytest.approx(losses[1], rel=1e-13)
    np.testing.assert_allclose(*gradients, atol=1e-12)
    assert fine.objective.precise() is None
