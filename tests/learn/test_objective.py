"""The training objective against its definition: latent states, both orders, sets of labels,
weights, entity rates."""

import itertools

import numpy as np
import oracles
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

from labelwright.corpus.schemes import validate
from labelwright.learn import objective
from labelwright.learn.objective import NEVER, LogLikelihood, WithEntityRate
from labelwright.learn.sgd import SGD
from labelwright.scoring import assembly
from labelwright.structures.passing import Candidates
from labelwright.structures.supervision import (
    COMPLETE,
    PARTIAL,
    PLAIN,
    UNLABELLED,
    Supervision,
    kinds_of,
)

CASES = {  # data, template, states per label, cells, scheme, order
    "states": (words, STATES, 1, "observed", None, 1),
    "states, all cells": (words, STATES, [1, 3, 2], "all", None, 1),
    "arcs": (words, ARCS, [1, 3, 2], "observed", None, 1),
    "arcs, all cells": (words, ARCS, 1, "all", None, 1),
    "constrained": (words, STATES, [2, 1, 3], "observed", "iob2", 1),
    "constrained arcs": (words, ARCS, 2, "observed", "iob2", 1),
    "constrained arcs, all cells": (words, ARCS, 1, "all", "iob2", 1),
    "dicts": (dicts, "default", 1, "observed", None, 1),
    "dicts, all cells": (dicts, "default", 2, "all", "iob2", 1),
    "ends constrained": (bioes, ARCS, 1, "observed", "bioes", 1),
    "order 2": (words, STATES, 1, "observed", None, 2),
    "order 2, all cells": (words, STATES, [1, 3, 2], "all", None, 2),
    "order 2, arcs": (words, ARCS, [1, 3, 2], "observed", None, 2),
    "order 2, arcs, all cells": (words, ARCS, 1, "all", None, 2),
    "order 2, triples": (words, TRIPLES, 2, "observed", None, 2),
    "order 2, triples, all cells": (words, TRIPLES, [1, 2, 1], "all", None, 2),
    "order 2, everything": (words, EVERYTHING, 1, "observed", "iob2", 2),
    "order 2, constrained": (words, STATES, [2, 1, 3], "observed", "iob2", 2),
    "order 2, constrained arcs, all cells": (words, ARCS, 2, "all", "iob2", 2),
    "order 2, constrained triples, all cells": (words, TRIPLES, 1, "all", "iob2", 2),
    "order 2, ends constrained, triples": (bioes, TRIPLES, 1, "observed", "bioes", 2),
    "order 2, dicts": (dicts, "default", 2, "observed", None, 2),
}
GIVEN = {
    "complete": {"sets": False},
    "sets": {},
    "sentence weights": {"sets": False, "sentences": True},
    "token weights": {"sets": False, "tokens": True},
    "all": {"sentences": True, "tokens": True},
}
every_case = pytest.mark.parametrize("case", CASES)
every_given = pytest.mark.parametrize("given", GIVEN)
both = pytest.mark.parametrize(("template", "order"), ORDERS, ids=NAMES)
states = pytest.mark.parametrize("sizes", [1, [2, 1, 3]], ids=["plain", "latent"])


def sets_of(n_labels):
    """All labels but the last, all of them, all but the first."""
    sets = np.ones((3, n_labels), np.bool_)
    sets[0, -1] = sets[2, 0] = False
    return sets


def partially(y, labels, seed):
    """The labels with sets in the place of some: codes as Problem takes them."""
    random, sets, codes = np.random.default_rng(seed), sets_of(len(labels)), []
    for sentence in y:
        own = [labels.index(label) for label in sentence]
        fitting = [[code, *(len(labels) + np.flatnonzero(sets[:, code])).tolist()] for code in own]
        codes.append([int(random.choice(some)) for some in fitting])
    return codes


def said(y, n_labels, sets=True, sentences=False, tokens=False):
    random = np.random.default_rng(7)
    n = sum(map(len, y))
    return Supervision(
        sets_of(n_labels) if sets else PLAIN.sets,
        random.uniform(0, 3, len(y)) if sentences else None,
        random.uniform(0.1, 4, n) if tokens else None,
    )


def problem_of(case, given="complete", n=6, dtype=np.float64):
    make, template, sizes, cells, scheme, order = CASES[case]
    X, y = make(n, seed=3, longest=3)
    labels = sorted({label for s in y for label in s}) if make is bioes else LABELS
    supervision = PLAIN if given == "complete" else said(y, len(labels), **GIVEN[given])
    y = partially(y, labels, 5) if supervision.partial else y
    settings = {
        "sizes": sizes,
        "order": order,
        "supervision": supervision,
        "dtype": dtype,
        "labels": labels,
    }
    return Problem(X, y, template, cells, scheme, **settings)


def check(problem, weights, step=1e-5, atol=1e-7):
    """The loss is that of enumeration, and so is its gradient, at some weights; at more of them it
    is the slope."""
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights), rel=1e-9)
    at = np.random.default_rng(1).permutation(len(weights))[:10]
    np.testing.assert_allclose(
        gradient[at], differences(problem.true_loss, weights, at, step), atol=atol
    )
    more = np.arange(0, len(weights), max(1, len(weights) // 40))
    np.testing.assert_allclose(
        gradient[more], differences(lambda w: problem(w)[0], weights, more, step), atol=10 * atol
    )
    return loss


@pytest.mark.cases(28)
@every_case
@every_given
def test_loss_and_gradient(case, given):
    problem = problem_of(case, given)
    check(problem, problem.random_weights())


@pytest.mark.cases(9)
@every_given
@every_case
@pytest.mark.parametrize("scale", [10.0, 300.0, 1e4])
def test_scores_of_any_size(case, given, scale):
    """Where scaled probabilities run out of range, log space takes over, in the clamped sums
    too."""
    problem, quick = (problem_of(case, given, dtype=dtype) for dtype in (np.float64, np.float32))
    weights = problem.random_weights(scale)
    loss = check(problem, weights, 1e-4, 2e-5)
    loss32, gradient32 = quick(weights.astype(np.float32))
    assert loss32 == pytest.approx(loss, rel=1e-4, abs=1e-2)
    # float32 loses digits of the scores: 1e-7 of their size
    exact32 = problem(weights.astype(np.float32))[1]
    np.testing.assert_allclose(gradient32, exact32, atol=1e-5 * scale)


@states
@pytest.mark.parametrize("cells", ["observed", "all"])
@both
def test_weights_exist_for_what_was_seen_or_for_everything(template, order, cells, sizes):
    X, y = words(10, seed=5)
    problem = Problem(X, y, template, cells, sizes=sizes, order=order)
    of = {label: [s for s in problem.states if label in (s, s[0])] for label in LABELS}
    expected = set()
    for reach, kind in enumerate(("state", "edge", "triple")[: order + 1]):
        grams = list(itertools.product(LABELS, repeat=reach + 1))
        for sentence, labels in zip(problem.tokens, y, strict=True):
            for t, token in enumerate(sentence):
                seen = (
                    grams
                    if cells == "all"
                    else [tuple(labels[t - reach : t + 1])]
                    if t >= reach
                    else []
                )
                expected |= {(name, *gram) for name in token[kind] for gram in seen}
        expected |= {(None, *gram) for gram in grams if reach}
    expected = {
        (name, *of_states)
        for name, *gram in expected
        for of_states in itertools.product(*map(of.get, gram))
    }
    assert set(problem.names()) == expected
    assert len(problem.names()) == len(expected)


@pytest.mark.slow
@states
@both
def test_float32_agrees_with_float64(template, order, sizes):
    X, y = words(150, seed=2, longest=30)
    exact, quick = (
        Problem(X, y, template, dtype=d, sizes=sizes, order=order) for d in (np.float64, np.float32)
    )
    weights = exact.random_weights().astype(np.float32)
    loss, gradient = exact(weights)
    loss32, gradient32 = quick(weights)
    assert loss32 == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(gradient32, gradient, atol=2e-5 * np.abs(gradient).max())


@pytest.mark.slow
@states
@both
def test_threads_change_no_bit(template, order, sizes, monkeypatch):
    X, y = words(1500, seed=6, longest=12)
    whole = Problem(X, y, template, dtype=np.float32, sizes=sizes, order=order)
    weights = whole.random_weights()
    for name, size in {
        "BATCH_BYTES": 1 << 12,
        "ARC_BYTES": 1 << 13,
        "SHARD_BYTES": 1 << 15,
    }.items():
        monkeypatch.setattr(objective, name, size)  # so that there are many pieces of work
    results = []
    for n_jobs in (1, 2, 3):
        problem = Problem(X, y, template, dtype=np.float32, n_jobs=n_jobs, sizes=sizes, order=order)
        assert len(problem.objective.shards) > 3
        assert max(len(shard.batches) for shard in problem.objective.shards) > 1
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
    """Where rows are wide, tables hold frequent keys only, and each token scores its other features
    by itself."""
    X, y = words(60, seed=9)
    first = Problem(X, y, template, scheme="iob2", order=order)
    monkeypatch.setattr(assembly, "WIDE", 0)
    monkeypatch.setattr(assembly, "FREQUENT", frequent)
    second = Problem(X, y, template, scheme="iob2", order=order)
    n_keys = [sum(part.n_keys for part in p.objective.parts.values()) for p in (first, second)]
    assert n_keys[0] > n_keys[1]
    assert (n_keys[1] == 0) == (frequent == 10**9)
    same(first, second, first.random_weights())


def same(one, other, weights, other_weights=None):
    """Two problems have the same loss, and the same gradient at the weights that both have."""
    (loss, gradient), (as_well, too) = (
        one(weights),
        other(weights if other_weights is None else other_weights),
    )
    assert as_well == pytest.approx(loss, rel=1e-10)
    np.testing.assert_allclose(too[: len(gradient)], gradient, atol=1e-9)


@states
@pytest.mark.parametrize("template", [STATES, ARCS])
@pytest.mark.parametrize("scheme", [None, "iob2"])
def test_without_weights_of_triples_the_second_order_is_the_first(template, sizes, scheme):
    X, y = words(40, seed=10, longest=9)
    one, two = (
        Problem(X, y, template, scheme=scheme, sizes=sizes, order=order) for order in (1, 2)
    )
    n = one.parameters.n_weights
    weights = np.zeros(two.parameters.n_weights)
    weights[:n] = one.random_weights()
    assert two.names()[:n] == one.names()
    same(one, two, weights[:n], weights)


@states
@both
def test_the_precise_objective_is_the_one_made_in_float64(template, order, sizes):
    X, y = words(30, seed=3)
    rough, fine = (
        Problem(X, y, template, order=order, sizes=sizes, dtype=d) for d in (np.float32, np.float64)
    )
    weights = fine.random_weights()
    gradients = np.empty((2, len(weights)))
    losses = [
        rough.objective.precise()(weights, gradients[0]),
        fine.objective(weights, gradients[1]),
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-13)
    np.testing.assert_allclose(*gradients, atol=1e-12)
    assert fine.objective.precise() is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("template", "order"), [(STATES, 1), (STATES, 2), (TRIPLES, 2)])
def test_a_sentence_of_ten_thousand_tokens(dtype, template, order):
    """At zero weights the loss is T log L; at random ones the gradient still meets finite
    differences."""
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
    np.testing.assert_allclose(
        gradient[at], differences(lambda w: problem(w)[0], weights, at), atol=1e-5
    )


# --- SGD ------------------------------------------------------------------------------------------


def sgd(problem, l2=0.0):
    data = problem.incidences, problem.offsets, problem.gold, problem.space, problem.parameters
    return SGD(*data, l2, 0, problem.supervision)


@pytest.mark.cases(44)
@every_case
@every_given
@pytest.mark.parametrize("scale", [1.0, 300.0, 1e4])
def test_a_step_of_sgd_follows_the_gradient(case, given, scale):
    """A pass at a rate near zero moves the weights by the rate times minus the gradient, and meets
    the loss."""
    problem = problem_of(case, given)
    weights = problem.random_weights(scale)
    loss, gradient = problem(weights)
    moved, eta = weights.copy(), 1e-7 if scale < 1e4 else 1e-9
    met, shrink = sgd(problem).one_pass(moved, 1.0, np.arange(len(problem.X)), eta, 0)
    assert shrink == 1
    assert met == pytest.approx(loss, rel=1e-4)
    if scale < 1e4:
        np.testing.assert_allclose((weights - moved) / eta, gradient, atol=1e-4 * scale)


@pytest.mark.cases(12)
@both
@pytest.mark.parametrize("scheme", [None, "iob2", "bioes"])
@pytest.mark.parametrize("latent", [False, True], ids=["plain", "latent"])
def test_a_pass_of_sgd_is_one_step_for_each_sentence(template, order, scheme, latent):
    """Step i shrinks all weights by 1 + rate l2 / N and then follows the gradient of its
    sentence."""
    X, y = (bioes if scheme == "bioes" else words)(12, seed=8)
    sizes = ([2, 1, 3, 1, 1] if scheme == "bioes" else [2, 1, 3]) if latent else 1
    problem = Problem(X, y, template, "all", scheme, sizes=sizes, order=order)
    n, l2, eta, taken = len(X), 0.6, 0.3, 5
    each = []
    for i, (a, b) in enumerate(itertools.pairwise(problem.offsets.tolist())):
        incidences, offsets = problem.extractor.encode([X[i]])
        data = incidences, problem.extractor.n_features, offsets, problem.gold[a:b]
        each.append(
            LogLikelihood(*data, problem.space, problem.parameters, problem.workers, np.float64)
        )
    weights = problem.random_weights(0.3)
    found, sentences = weights.copy(), np.random.default_rng(0).permutation(n)
    met, shrink = sgd(problem, l2).one_pass(found, 1.0, sentences, eta, taken)
    loss, gradient = 0.0, np.empty(len(weights))
    for i, sentence in enumerate(sentences.tolist()):
        rate = eta / (1 + eta * l2 / n * (taken + i))
        weights /= 1 + rate * l2 / n
        loss += each[sentence](weights, gradient)
        weights -= rate * gradient
    np.testing.assert_allclose(found * shrink, weights, atol=1e-10)
    assert met == pytest.approx(loss + 0.5 * l2 * weights @ weights, rel=1e-7)


# --- sets and weights -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", ["arcs, all cells", "arcs", "order 2", "order 2, triples, all cells"]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_sentences_of_every_kind(case, weighted):
    """Complete labels, sets and no labels in the same data: each kind is learnt from in its own
    way."""
    make, template, sizes, cells, scheme, order = CASES[case]
    X, y = make(9, seed=6, longest=3)
    codes = partially(y, LABELS, 2)
    codes = [[LABELS.index(label) for label in y[n]] if n % 3 == 0 else codes[n] for n in range(9)]
    codes = [[4] * len(sentence) if n % 3 == 1 else sentence for n, sentence in enumerate(codes)]
    supervision = said(y, 3, sentences=weighted, tokens=weighted)
    problem = Problem(
        X, codes, template, cells, scheme, sizes=sizes, order=order, supervision=supervision
    )
    assert set(kinds_of(problem.gold, problem.offsets, supervision, len(LABELS))) == {
        COMPLETE,
        PARTIAL,
        UNLABELLED,
    }
    check(problem, problem.random_weights())


@states
@both
def test_weights_of_one_change_nothing_and_one_of_two_is_the_sentence_twice(template, order, sizes):
    X, y = words(6, seed=2, longest=8)
    settings = {"sizes": sizes, "order": order}
    plain = Problem(X, y, template, **settings)
    ones = Supervision(of_sentences=np.ones(6), of_tokens=np.ones(sum(map(len, y))))
    same(plain, Problem(X, y, template, supervision=ones, **settings), plain.random_weights())
    twice = Problem([*X, *X[:3]], [*y, *y[:3]], template, **settings)
    weighted = Supervision(of_sentences=np.array([2.0, 2, 2, 1, 1, 1]))
    same(twice, Problem(X, y, template, supervision=weighted, **settings), twice.random_weights())


def test_unlabelled_sentences_add_nothing():
    X, y = words(5, seed=2)
    some = [[4] * len(labels) if n > 2 else labels for n, labels in enumerate(y)]
    problem, alone = (
        Problem(X, some, STATES, supervision=Supervision(sets_of(3))),
        Problem(X[:3], y[:3], STATES),
    )
    at = [problem.names().index(name) for name in alone.names()]
    weights = problem.random_weights()
    assert problem(weights)[0] == pytest.approx(alone(weights[at])[0], rel=1e-9)


def tokens_in_entities(problem, weights):
    """The expected number of tokens of each sentence whose label is not O, by enumeration."""
    named, expected = dict(zip(problem.names(), weights.tolist(), strict=True)), []
    label_of = dict(
        zip(problem.states, (problem.labels[i] for i in problem.space.label_of), strict=True)
    )
    for tokens in problem.tokens:
        scores, entities = [], []
        for path in itertools.product(problem.states, repeat=len(tokens)):
            labels = [label_of[state] for state in path]
            if problem.scheme is None or not validate([labels], problem.scheme):
                scores.append(oracles.labelling_score(tokens, path, named))
                entities.append(len(labels) - labels.count(problem.labels[0]))
        expected.append(float(np.exp(np.array(scores) - oracles.log_sum(scores)) @ entities))
    return expected


@pytest.mark.cases(12)
@every_case
@every_given
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_an_expected_entity_rate(case, given, scale):
    """The term holds the share of tokens in entities, whatever wrong labels cost, also where log
    space takes over."""
    problem, r = problem_of(case, given), 0.3
    n, lengths, places = (
        len(problem.gold),
        np.diff(problem.offsets),
        np.arange(len(problem.gold) + 1),
    )
    slots = Candidates(
        problem.offsets, places, np.zeros(n, np.int64), np.full(n + 1, n), has_pairs=False
    )
    data = problem.incidences, problem.extractor.n_features, problem.offsets, problem.gold
    model = problem.space, problem.parameters, problem.workers, np.float64
    likelihood = LogLikelihood(*data, *model, candidates=slots, supervision=problem.supervision)
    of_sentences = (
        np.ones(6) if problem.supervision.of_sentences is None else problem.supervision.of_sentences
    )
    rated = WithEntityRate(likelihood, r, np.repeat(of_sentences, lengths))
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
