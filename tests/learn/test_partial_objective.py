"""Sets of labels, weights and an entity rate in the objective of CRFs, latent or not: against enumeration and finite
differences."""

import itertools

import numpy as np
import oracles
import pytest
from problems import ARCS, EVERYTHING, LABELS, NAMES, ORDERS, STATES, TRIPLES, Problem, dicts, differences, words

from labelwright.corpus.schemes import validate
from labelwright.learn.objective import NEVER, LogLikelihood, WithEntityRate
from labelwright.learn.sgd import SGD
from labelwright.structures.passing import Candidates
from labelwright.structures.supervision import COMPLETE, PARTIAL, PLAIN, UNLABELLED, Supervision, kinds_of

CASES = {  # data, template, states per label, cells, scheme, order
    "states": (words, STATES, 1, "observed", None, 1),
    "arcs, all cells": (words, ARCS, 1, "all", None, 1),
    "constrained": (words, STATES, 1, "observed", "iob2", 1),
    "latent": (words, STATES, [1, 3, 2], "observed", None, 1),
    "latent arcs": (words, ARCS, 2, "observed", "iob2", 1),
    "order 2": (words, STATES, 1, "observed", None, 2),
    "order 2, everything": (words, EVERYTHING, 1, "observed", "iob2", 2),
    "order 2, latent triples": (words, TRIPLES, [1, 2, 1], "all", None, 2),
    "dicts": (dicts, "default", 1, "observed", None, 1),
}
SETS = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], np.bool_)  # of O, B-X, I-X


def partially(y, seed):
    """The labels with sets in the place of some: codes as Problem takes them."""
    random, codes = np.random.default_rng(seed), []
    for labels in y:
        sentence = []
        for label in labels:
            code = LABELS.index(label)
            fitting = [len(LABELS) + k for k in np.flatnonzero(SETS[:, code]).tolist()]
            sentence.append(int(random.choice([code, *fitting])))
        codes.append(sentence)
    return codes


def said(y, seed, sets=True, sentences=False, tokens=False):
    random = np.random.default_rng(seed)
    n = sum(map(len, y))
    return Supervision(
        SETS if sets else PLAIN.sets,
        random.uniform(0, 3, len(y)) if sentences else None,
        random.uniform(0.1, 4, n) if tokens else None,
    )


GIVEN = {
    "sets": {},
    "sentence weights": {"sets": False, "sentences": True},
    "token weights": {"sets": False, "tokens": True},
    "all": {"sentences": True, "tokens": True},
}


@pytest.mark.cases(9)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("given", GIVEN)
def test_loss_and_gradient(case, given):
    make, template, sizes, cells, scheme, order = CASES[case]
    X, y = make(6, seed=3, longest=3)
    supervision = said(y, 7, **GIVEN[given])
    y = partially(y, 5) if supervision.partial else y
    problem = Problem(X, y, template, cells, scheme, sizes=sizes, order=order, supervision=supervision)
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights), rel=1e-9)
    at = np.random.default_rng(1).permutation(len(weights))[:10]
    np.testing.assert_allclose(gradient[at], differences(problem.true_loss, weights, at), atol=1e-7)
    more = np.arange(0, len(weights), max(1, len(weights) // 100))
    np.testing.assert_allclose(gradient[more], differences(lambda w: problem(w)[0], weights, more), atol=1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("given", GIVEN)
def test_a_step_of_sgd_follows_the_gradient(case, given):
    make, template, sizes, cells, scheme, order = CASES[case]
    X, y = make(8, seed=3, longest=4)
    supervision = said(y, 7, **GIVEN[given])
    y = partially(y, 5) if supervision.partial else y
    problem = Problem(X, y, template, cells, scheme, sizes=sizes, order=order, supervision=supervision)
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    data = problem.incidences, problem.offsets, problem.gold, problem.space, problem.parameters
    moved, eta = weights.copy(), 1e-7
    met, _ = SGD(*data, 0.0, 0, supervision).one_pass(moved, 1.0, np.arange(len(X)), eta, 0)
    assert met == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose((weights - moved) / eta, gradient, atol=1e-4)


@pytest.mark.parametrize("scale", [300.0, 1e4])
def test_sgd_with_scores_of_any_size(scale):
    X, y = words(8, seed=4, longest=3)
    supervision = said(y, 1, sentences=True, tokens=True)
    problem = Problem(X, partially(y, 2), ARCS, sizes=2, supervision=supervision)
    weights = problem.random_weights(scale)
    data = problem.incidences, problem.offsets, problem.gold, problem.space, problem.parameters
    met, _ = SGD(*data, 0.0, 0, supervision).one_pass(weights.copy(), 1.0, np.arange(len(X)), 1e-9, 0)
    assert met == pytest.approx(problem.true_loss(weights), rel=1e-6)


@pytest.mark.parametrize("case", ["arcs, all cells", "latent", "order 2", "order 2, latent triples"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sentences_of_every_kind(case, weighted):
    """Complete labels, sets and no labels in the same data: each kind is learnt from in its own way."""
    make, template, sizes, cells, scheme, order = CASES[case]
    X, y = make(9, seed=6, longest=3)
    codes = partially(y, 2)
    codes = [[LABELS.index(label) for label in y[n]] if n % 3 == 0 else codes[n] for n in range(9)]
    codes = [[4] * len(sentence) if n % 3 == 1 else sentence for n, sentence in enumerate(codes)]
    supervision = said(y, 3, sentences=weighted, tokens=weighted)
    problem = Problem(X, codes, template, cells, scheme, sizes=sizes, order=order, supervision=supervision)
    assert set(kinds_of(problem.gold, problem.offsets, supervision, len(LABELS))) == {COMPLETE, PARTIAL, UNLABELLED}
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights), rel=1e-9)
    at = np.random.default_rng(1).permutation(len(weights))[:10]
    np.testing.assert_allclose(gradient[at], differences(problem.true_loss, weights, at), atol=1e-7)


@pytest.mark.parametrize(("template", "order"), ORDERS, ids=NAMES)
@pytest.mark.parametrize("sizes", [1, 2])
def test_weights_of_one_change_nothing(template, order, sizes):
    X, y = words(20, seed=2, longest=8)
    n = sum(map(len, y))
    plain = Problem(X, y, template, sizes=sizes, order=order)
    ones = Supervision(of_sentences=np.ones(20), of_tokens=np.ones(n))
    weighted = Problem(X, y, template, sizes=sizes, order=order, supervision=ones)
    weights = plain.random_weights()
    (loss, gradient), (same, as_well) = plain(weights), weighted(weights)
    assert same == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(as_well, gradient, atol=1e-10)


def test_a_weight_of_two_is_the_sentence_twice():
    X, y = words(6, seed=2)
    twice = Problem([*X, *X[:3]], [*y, *y[:3]], ARCS)
    weighted = Problem(X, y, ARCS, supervision=Supervision(of_sentences=np.array([2.0, 2, 2, 1, 1, 1])))
    assert weighted.names() == twice.names()
    weights = twice.random_weights()
    (loss, gradient), (same, as_well) = twice(weights), weighted(weights)
    assert same == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(as_well, gradient, atol=1e-10)


@pytest.mark.parametrize("scale", [10.0, 300.0, 1e4])
@pytest.mark.parametrize(("template", "sizes"), [(STATES, 1), (ARCS, 1), (ARCS, 2)])
def test_scores_of_any_size(template, sizes, scale):
    """Where scaled probabilities run out of range, log space takes over, in the clamped sums too."""
    X, y = words(8, seed=4, longest=3)
    supervision = said(y, 1, sentences=True, tokens=True)
    problem = Problem(X, partially(y, 2), template, sizes=sizes, supervision=supervision)
    weights = problem.random_weights(scale)
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights), rel=1e-9)
    assert np.isfinite(gradient).all()
    quick = Problem(X, partially(y, 2), template, sizes=sizes, supervision=supervision, dtype=np.float32)
    assert quick(weights)[0] == pytest.approx(loss, rel=1e-4, abs=1e-2)


def test_unlabelled_sentences_add_nothing():
    X, y = words(5, seed=2)
    some = [[4] * len(labels) if n > 2 else labels for n, labels in enumerate(y)]
    problem, alone = Problem(X, some, STATES, supervision=Supervision(SETS)), Problem(X[:3], y[:3], STATES)
    at = [problem.names().index(name) for name in alone.names()]
    weights = problem.random_weights()
    assert problem(weights)[0] == pytest.approx(alone(weights[at])[0], rel=1e-9)


def tokens_in_entities(problem, weights):
    """The expected number of tokens of each sentence whose label is not O, by enumeration."""
    named, expected = dict(zip(problem.names(), weights.tolist(), strict=True)), []
    label_of = dict(zip(problem.states, (problem.labels[i] for i in problem.space.label_of), strict=True))
    for tokens in problem.tokens:
        scores, entities = [], []
        for path in itertools.product(problem.states, repeat=len(tokens)):
            labels = [label_of[state] for state in path]
            if problem.scheme is None or not validate([labels], problem.scheme):
                scores.append(oracles.labelling_score(tokens, path, named))
                entities.append(len(labels) - labels.count("O"))
        expected.append(float(np.exp(np.array(scores) - oracles.log_sum(scores)) @ entities))
    return expected


@pytest.mark.cases(9)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_an_expected_entity_rate(case, given, scale):
    """The term holds the share of tokens in entities, whatever wrong labels cost, also where log space takes over."""
    make, template, sizes, cells, scheme, order = CASES[case]
    X, y = make(6, seed=3, longest=3)
    supervision = said(y, 7, **GIVEN[given])
    y = partially(y, 5) if supervision.partial else y
    problem = Problem(X, y, template, cells, scheme, sizes=sizes, order=order, supervision=supervision)
    n, lengths, places = len(problem.gold), np.diff(problem.offsets), np.arange(len(problem.gold) + 1)
    slots = Candidates(problem.offsets, places, np.zeros(n, np.int64), np.full(n + 1, n), has_pairs=False)
    data = problem.incidences, problem.extractor.n_features, problem.offsets, problem.gold
    model = problem.space, problem.parameters, problem.workers, np.float64
    likelihood = LogLikelihood(*data, *model, candidates=slots, supervision=supervision)
    of_sentences = np.ones(6) if supervision.of_sentences is None else supervision.of_sentences
    rated, r = WithEntityRate(likelihood, 0.3, np.repeat(of_sentences, lengths)), 0.3
    weights = problem.random_weights(scale)
    gradient = np.empty_like(weights)
    loss, total = rated(weights, gradient), of_sentences @ lengths
    q = np.clip(of_sentences @ tokens_in_entities(problem, weights) / total, NEVER, 1 - NEVER)
    term = total * (r * np.log(r / q) + (1 - r) * np.log((1 - r) / (1 - q)))
    assert loss == pytest.approx(problem.true_loss(weights) + term, rel=1e-9)
    if scale == 1:
        at = np.arange(0, len(weights), max(1, len(weights) // 40))
        by_differences = differences(lambda w: rated(w, np.empty_like(w)), weights, at)
        np.testing.assert_allclose(gradient[at], by_differences, atol=1e-5)
