"""The passes of perceptrons against enumeration of every path, and their averages."""

import itertools
from collections import Counter

import numpy as np
import oracles
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from problems import (
    ARCS,
    EVERYTHING,
    NOISY,
    SIMPLE,
    STATES,
    TRIPLES,
    Problem,
    bioes,
    dicts,
    names_of,
    words,
)

from labelwright.learn.perceptron import Averaged, Passes, UpdateRule
from labelwright.learn.variables import _groups
from labelwright.parallel import Workers

PASSES = 4
RULES = [
    UpdateRule(0.0, False, 1.0),
    UpdateRule(0.7, False, 1.0),
    UpdateRule(0.5, True, 1.0),
    UpdateRule(0.5, True, 0.1),
    UpdateRule(0.5, True, np.inf, 0.8),  # PA-II
    UpdateRule(1.0, True, np.inf, 0.0, 0.5, False),  # PA, as CRFsuite has it
    UpdateRule(1.0, True, 0.2, 0.0, 0.0, False),
    UpdateRule(1.0, True, np.inf, 1.0, 1.0, False, 1.0),  # AROW, as CRFsuite has it
    UpdateRule(0.5, True, np.inf, 0.3, 1.0, True, 2.0),
    UpdateRule(0.7, False, 1.0, share=0.6),  # latent states of a label move together
    UpdateRule(0.5, True, np.inf, 0.8, share=0.75),
]
ORDERS = [(STATES, 1), (ARCS, 1), (STATES, 2), (TRIPLES, 2), (EVERYTHING, 2)]


def known(rule, problem):
    """The rule as the oracle knows it."""
    limit, variance = rule.limit if rule.passive else None, rule.variance or None
    groups = None
    if rule.share > 0 and problem.space.latent:
        groups, n_groups = _groups(problem.parameters, problem.space)
        groups = np.where(groups < n_groups, groups, n_groups + np.arange(len(groups)))  # alone
    return oracles.Rule(
        rule.margin, limit, rule.damping, rule.power, rule.augmented, variance, rule.share, groups
    )


def compare(problem, rule, averaging="none", reset_every=1, seed=0):
    """The passes of the kernel and those of the oracle from the same random weights."""
    passes = Passes(*problem.model, rule, seed)
    start = problem.random_weights(0.3, seed).astype(np.float32)
    run = Averaged.begin(passes.layout.laid_out(start), rule)
    np.testing.assert_array_equal(passes.layout.taken_back(run.weights), start)
    orders = [passes.order(q) for q in range(1, PASSES + 1)]
    expected = oracles.perceptron(
        problem.choices(), orders, start, averaging, reset_every, known(rule, problem)
    )
    assert expected[0].clear or rule.passive  # whose steps end in ties
    for q, truth in enumerate(expected, 1):
        if not truth.clear:
            break
        if averaging == "mavg" and q % reset_every == 0:
            run.restart()
        mistakes = passes.one_pass(run, q).mistakes
        np.testing.assert_allclose(passes.layout.taken_back(run.weights), truth.weights, atol=1e-4)
        np.testing.assert_allclose(passes.layout.taken_back(run.mean()), truth.mean, atol=1e-4)
        assert rule.passive or mistakes == truth.mistakes  # a step of nothing may be made or not
        assert run.taken == q * passes.n


@st.composite
def problems(draw, templates=ORDERS):
    """Small training data under every kind of template, states and constraints."""
    template, order = draw(st.sampled_from(templates))
    cells, seed = draw(st.sampled_from(["observed", "all"])), draw(st.integers(0, 1000))
    sizes = draw(st.sampled_from([1, 1, 2, [2, 1, 1], [1, 2, 3], [3, 1, 1]]))
    kind = draw(st.sampled_from(["free", "free", "iob2", "bioes"]))
    if kind == "bioes":
        X, y, sizes, scheme = *bioes(5, seed, 3), 1, "bioes"
    else:
        longest = 4 if sizes == 1 else 3
        X, y, scheme = *words(5, seed, longest), None if kind == "free" else "iob2"
    return Problem(X, y, template, cells, scheme, sizes=sizes, order=order)


rules = st.sampled_from(RULES)
averages = st.sampled_from([("none", 1), ("avg", 1), ("mavg", 1), ("mavg", 2), ("mavg", 3)])


@pytest.mark.slow
@drawn(150)
@given(problems(), rules, averages, st.integers(0, 100))
def test_weights_means_and_mistakes_are_those_of_enumeration(problem, rule, averaging, seed):
    compare(problem, rule, *averaging, seed)


@pytest.mark.cases(9)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("sizes", [1, [2, 1, 2]])
def test_features_with_real_values_of_any_sign_count_as_much_as_they_say(rule, order, sizes):
    problem = Problem(
        *dicts(5, 3, longest=4 if order * len(str(sizes)) < 9 else 3), sizes=sizes, order=order
    )
    assert any(token["state"]["x"] < 0 for sentence in problem.tokens for token in sentence)
    compare(problem, rule, "mavg", 2)


@pytest.mark.parametrize(
    ("template", "order"),
    [(ARCS, 1), (ARCS, 2), (EVERYTHING, 2)],
    ids=["arcs 1", "arcs 2", "everything 2"],
)
def test_cells_of_forbidden_pairs_leave_latent_weights_in_their_places(template, order):
    """With cells="all" pairs of labels that the scheme forbids have weights: nothing may slip
    because of them."""
    compare(
        Problem(*words(5, 1, 3), template, "all", "iob2", sizes=2, order=order), RULES[0], "avg"
    )


@pytest.mark.cases(5)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("template", "order"),
    [(ARCS, 1), (STATES, 2), (EVERYTHING, 2)],
    ids=["arcs 1", "states 2", "everything 2"],
)
def test_longer_sentences_keep_their_latent_paths(template, order, rule):
    X, y = words(12, 4, longest=5)
    long = [n for n, sentence in enumerate(X) if len(sentence) == 5][:2]
    compare(
        Problem([X[n] for n in long], [y[n] for n in long], template, sizes=[1, 2, 1], order=order),
        rule,
        "avg",
    )


@pytest.mark.parametrize("order", [1, 2])
def test_latent_states_under_bioes_end_where_they_may(order):
    compare(
        Problem(*bioes(4, 2, 3), SIMPLE, scheme="bioes", sizes=[1, 2, 1, 1, 2], order=order),
        RULES[1],
        "avg",
    )


@pytest.mark.parametrize("sizes", [1, [1, 3, 2]])
def test_the_lazy_mean_is_the_mean_of_the_weights_after_each_sentence(sizes):
    """Sentence by sentence, by a pass over each of them alone."""
    problem = Problem(*NOISY, ARCS, sizes=sizes)
    start = problem.random_weights(0.3).astype(np.float32)
    whole = Passes(*problem.model, RULES[0], 1)
    single = Passes(*problem.model, RULES[0], 1)
    run, step, every = (
        Averaged(whole.layout.laid_out(start)),
        Averaged(single.layout.laid_out(start)),
        [],
    )
    orders = [whole.order(q) for q in range(1, PASSES + 1)]
    for q, order in enumerate(orders, 1):
        whole.one_pass(run, q)
        for n in order:
            single.order = lambda number, n=n: np.array([n])
            single.n = 1
            single.one_pass(step, q)
            every.append(step.weights.astype(np.float64))
    np.testing.assert_array_equal(run.weights, step.weights)
    np.testing.assert_allclose(run.mean(), np.mean(every, axis=0), atol=1e-5)
    assert np.abs(run.mean() - run.weights).max() > 0.1


def test_pieces_of_a_pass_change_nothing(monkeypatch):
    problem = Problem(*NOISY, ARCS)
    parts = *problem.model, RULES[0], 4
    start = problem.random_weights(0.3).astype(np.float32)
    runs = []
    for piece in (10**9, 1):
        monkeypatch.setattr("labelwright.learn.perceptron.PIECE", piece)
        passes = Passes(*parts)
        run = Averaged(passes.layout.laid_out(start))
        counts = [passes.one_pass(run, q) for q in (1, 2)]
        runs.append((run.weights.tobytes(), run.sums.tobytes(), run.taken, counts))
    assert runs[0] == runs[1]


def best_in_float64(node, arc):
    """The best path [T] of scores node [T, S] and arc [S, S]."""
    delta, back = node[0], []
    for scores in node[1:]:
        every = delta[:, None] + arc
        back.append(every.argmax(axis=0))
        delta = every.max(axis=0) + scores
    path = [int(delta.argmax())]
    for row in reversed(back):
        path.append(int(row[path[-1]]))
    return path[::-1]


@pytest.mark.slow
def test_paths_of_a_long_sentence_are_those_of_eight_byte_numbers():
    """Scores of 20,000 tokens add up to numbers of which four bytes keep few digits."""
    random, T = np.random.default_rng(3), 20_000
    X, y = [list(random.choice(["a", "b", "c", "d", "e"], T))], [list(random.choice(["A", "B"], T))]
    problem = Problem(X, y, SIMPLE, "all", labels=["A", "B"], sizes=3)
    passes = Passes(*problem.model, RULES[0], None)
    start = (5 + problem.random_weights(2.0)).astype(np.float32)
    run = Averaged(passes.layout.laid_out(start))
    assert passes.one_pass(run, 1)[0] == 1
    names = names_of(problem.parameters, problem.extractor, range(6))
    weight = dict(zip(names, start.astype(np.float64), strict=True))
    node = np.array([[weight[f"U:{word}", s] for s in range(6)] for word in X[0]])
    arc = np.array([[weight[None, r, s] for s in range(6)] for r in range(6)])
    wrong = problem.space.label_of[None, :] != problem.gold[:, None]
    expected = Counter()
    for scores, sign in ((np.where(wrong, -np.inf, node), 1), (node, -1)):
        path = best_in_float64(scores, arc)
        for feature, n in Counter(zip(X[0], path, strict=True)).items():
            expected[f"U:{feature[0]}", feature[1]] += sign * n
        for pair, n in Counter(itertools.pairwise(path)).items():
            expected[None, *pair] += sign * n
    change = passes.layout.taken_back(run.weights) - start
    np.testing.assert_allclose(change, [expected[name] for name in names], atol=0.01)
    assert np.abs(change).max() > 100


@drawn(25)
@given(problems())
def test_weights_come_back_from_the_layout_as_they_went_in(problem):
    passes = Passes(*problem.model, RULES[0], 0)
    weights = problem.random_weights()
    np.testing.assert_array_equal(
        passes.layout.taken_back(passes.layout.laid_out(weights)), weights
    )


@pytest.mark.parametrize("sizes", [1, [1, 3, 2]])
@pytest.mark.parametrize(("template", "order"), [(STATES, 1), (ARCS, 1), (STATES, 2)])
def test_a_mini_batch_adds_up_the_updates_of_its_sentences(template, order, sizes):
    """Each sentence alone, from the weights at the beginning of the batch."""
    problem = Problem(*NOISY, template, sizes=sizes, order=order)
    data = *problem.model, RULES[1], 1
    start = problem.random_weights(0.3).astype(np.float32)
    single = Passes(*data)
    runs = {}
    for threads in (1, 2):
        passes = Passes(*data, batch_size=3, workers=Workers(threads))
        run = Averaged(passes.layout.laid_out(start))
        outcomes = [passes.one_pass(run, q) for q in (1, 2)]
        runs[threads] = run.weights.tobytes(), run.sums.tobytes(), run.taken, outcomes
    assert runs[1] == runs[2]
    orders = [passes.order(q) for q in (1, 2)]
    weights, single.n, mistakes = passes.layout.laid_out(start), 1, 0
    for q, order_ in enumerate(orders, 1):
        for begin in range(0, len(order_), 3):
            changes = []
            for n in order_[begin : begin + 3]:
                single.order = lambda number, n=n: np.array([n])
                alone = Averaged(weights.copy())
                mistakes += single.one_pass(alone, q).mistakes
                changes.append(alone.weights - weights)
            weights = weights + np.sum(changes, axis=0)
    np.testing.assert_allclose(run.weights, weights, atol=1e-5)
    assert mistakes == sum(outcome.mistakes for outcome in outcomes) > 0
