"""Margins of labellings by enumeration, and the mistakes that theorems 2 and 3 of paper 003 allow."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import Case, cases, many
from labelwright import LatentPerceptron, Perceptron
from labelwright.kernels.perceptron import Rule
from labelwright.lattice import Margins, margins
from labelwright.learn.convergence import convergence, mistake_bound
from labelwright.learn.perceptron import Passes
from labelwright.states import state_space
from oracles import Scores
from problems import ARCS, EVERYTHING, STATES, Problem, Truth, dicts, words

SIMPLE = "U:%x[0,0]\nB"
NOISY = words(14, seed=5)


# --- margins ----------------------------------------------------------------------------------------------------------


def by_enumeration(case, gold):
    truth = case.paths
    same = (case.space.label_of[truth.paths] == gold).all(axis=1)
    mine, others = truth.scores[same], truth.scores[~same]
    return mine.max(initial=-np.inf), mine.min(initial=np.inf), others.max(initial=-np.inf)


def check_margins(case, gold):
    found, digits = margins(case.lattice, np.array(gold, np.int32)), 1e-13 * case.size
    best, worst, other = by_enumeration(case, np.array(gold))
    assert found.other == pytest.approx(other, abs=digits)
    assert found.best == pytest.approx(best, abs=digits)
    if best > -np.inf:  # else there is no such path
        assert found.worst == pytest.approx(worst, abs=digits)


@settings(many, max_examples=150)
@given(cases(max_paths=20_000, max_tokens=5), st.integers(0, 1000))
def test_margins_are_those_of_all_paths(case, seed):
    """Of any labelling, possible or not, and of one that a possible path has."""
    T = len(case.scores.node)
    check_margins(case, np.random.default_rng(seed).integers(0, case.space.n_labels, T))
    paths = case.paths.paths
    if len(paths):
        check_margins(case, case.space.label_of[paths[seed % len(paths)]])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("sizes", [[1, 1], [3, 2]])
def test_margins_of_a_single_token_compare_its_states(order, sizes):
    S = sum(sizes)
    node = np.arange(S, dtype=np.float64)[None]
    scores = Scores(node, np.zeros((1, S, S)), np.zeros((1, S, S, S)) if order == 2 else None)
    case = Case(scores, state_space(["x", "y"], sizes, order))
    assert margins(case.lattice, np.array([0], np.int32)) == Margins(sizes[0] - 1.0, 0.0, S - 1.0)
    assert margins(case.lattice, np.array([1], np.int32)) == Margins(S - 1.0, float(sizes[0]), sizes[0] - 1.0)


@pytest.mark.parametrize("order", [1, 2])
def test_where_there_is_one_label_there_are_no_others(order):
    random = np.random.default_rng(0)
    shapes = [(3, 2), (1, 2, 2), (1, 2, 2, 2)][: order + 1]
    case = Case(Scores(*(random.normal(size=s) for s in shapes)), state_space(["x"], 2, order))
    found = margins(case.lattice, np.zeros(3, np.int32))
    assert found.other == -np.inf
    assert found.best > found.worst > -np.inf
    check_margins(case, [0, 0, 0])


# --- the bound --------------------------------------------------------------------------------------------------------


def bound_at(d, gaps, norm, passes):
    """(sqrt(2) M + D)^2 / d^2 with D^2 = passes * sum max(0, d - g)^2, as theorem 3 has it."""
    lost = sum(passes * np.maximum(0.0, d - g) ** 2 for g in gaps)
    return (np.sqrt(2) * norm + np.sqrt(lost)) ** 2 / d**2


@settings(max_examples=100)
@given(
    st.lists(st.integers(-5000, 5000).map(lambda n: n / 1000) | st.just(np.inf), min_size=1, max_size=8),
    st.floats(0.5, 20),
    st.integers(1, 50),
)
def test_the_bound_is_the_least_of_theorem_3(gaps, norm, passes):
    found, theorem = mistake_bound(np.array(gaps), norm, passes)
    tried = np.concatenate([np.geomspace(1e-6, 1e4, 20_000), [g for g in gaps if 0 < g < np.inf]])
    least = bound_at(tried, gaps, norm, passes).min()
    # No better than the theorem allows, and not much worse than its best.
    assert least * (1 - 0.001) <= found <= least * (1 + 0.05) + 0.01
    finite = [g for g in gaps if g < np.inf]
    if finite and min(finite) > 0:
        by_theorem_2 = 2 * norm**2 / min(finite) ** 2
        assert found == pytest.approx(by_theorem_2) if theorem == 2 else found < by_theorem_2
    else:
        assert theorem == (3 if finite else 2)


def test_the_bound_of_separable_data_does_not_grow_with_the_passes_for_ever():
    gaps = np.array([0.5, 2.0, 1.0, np.inf])
    found = [mistake_bound(gaps, 3.0, passes) for passes in (1, 10, 1000, 10**9)]
    assert found == sorted(found)
    assert found[0][1] == 3  # one pass cannot make more mistakes than it has sentences, nearly
    assert found[0][0] < 10
    assert found[-1] == (pytest.approx(2 * 3.0**2 / 0.5**2), 2)
    bound, theorem = mistake_bound(np.array([-0.5, 2.0]), 3.0, 10**6)
    assert bound > 10**5
    assert theorem == 3


def test_a_summary_counts_sequences_and_scales_margins_by_the_norm():
    found = [Margins(4.0, 3.0, 1.0), Margins(4.0, 1.0, 2.0), Margins(2.0, 2.0, 2.0), Margins(1.0, 1.0, -np.inf)]
    seen = convergence(found, 2.0, None, 3)
    assert seen == (0.75, 0.5, -0.5, None, None)
    seen = convergence(found, 2.0, 1.5, 3)
    assert seen[3:] == mistake_bound(np.array([1.0, -0.5, 0.0, np.inf]), 1.5, 3)
    assert seen.theorem == 3
    strict = convergence(found[:1], 2.0, 1.5, 10**6)
    assert strict[2:] == (1.0, pytest.approx(2 * 1.5**2), 2)
    assert convergence(found, 0.0, 1.5, 3)[2:] == (0.0, None, None)  # weights of nothing prove nothing


# --- models -----------------------------------------------------------------------------------------------------------

SEPARABLE = [
    ([["a", "b", "c"], ["b", "a"], ["c"]], [["A", "B", "C"], ["B", "A"], ["C"]]),
    ([["x", "y"], ["y", "x"], ["y", "y", "x", "x"]], [["A", "A"], ["B", "A"], ["B", "B", "A", "A"]]),
    ([["a"], ["b"]], [["A"], ["B"]]),
]


@pytest.mark.parametrize("averaging", ["none", "avg"])
@pytest.mark.parametrize(
    ("template", "order"),
    [(SIMPLE, 1), (ARCS, 1), (SIMPLE, 2), (EVERYTHING, 2)],
    ids=["simple 1", "arcs 1", "simple 2", "everything 2"],
)
@pytest.mark.parametrize("data", [NOISY, words(10, 2), words(3, 7), *SEPARABLE])
def test_no_perceptron_makes_more_mistakes_than_its_bound(averaging, template, order, data):
    for passes in (1, 2, 8):
        settings = {"template": template, "order": order, "averaging": averaging, "n_jobs": 1, "max_iter": passes}
        record = Perceptron(**settings).fit(*data).training_
        seen = record["convergence"]
        assert 0 < record["mistakes"] <= seen["mistake_bound"]
        assert seen["theorem"] == 3 or seen["margin"] > 0


@pytest.mark.parametrize("cells", ["observed", "all"])
def test_the_bound_holds_on_average_weights_of_latent_states_too(cells):
    for averaging, order in itertools.product(("none", "avg"), (1, 2)):
        model = LatentPerceptron(
            2, margin=0, template=SIMPLE, order=order, averaging=averaging, cells=cells, n_jobs=1, max_iter=5
        )
        record = model.fit(*NOISY).training_
        assert record["mistakes"] <= record["convergence"]["mistake_bound"]


@pytest.mark.parametrize("data", SEPARABLE[:2])
def test_theorem_2_holds_where_the_weights_separate_the_data(data):
    model = Perceptron(template=SIMPLE, averaging="none", cells="all", n_jobs=1, max_iter=100).fit(*data)
    seen = model.training_["convergence"]
    assert model.history_[-1]["mistakes"] == 0
    problem = Problem(*data, SIMPLE, "all", labels=model.classes_)
    largest = max(np.linalg.norm(choices.counts, axis=1).max() for choices in problem.choices())
    assert seen["separable"] == seen["strictly_separable"] == 1.0
    assert model.training_["mistakes"] <= seen["mistake_bound"] <= 2 * largest**2 / seen["margin"] ** 2 * (1 + 1e-6)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("sizes", [1, 2])
def test_shares_and_margin_are_those_of_all_paths(order, sizes):
    model = LatentPerceptron(sizes, template=ARCS, order=order, n_jobs=1, max_iter=2, random_state=0)
    X, y = words(8, 4, 3)
    seen = model.fit(X, y).training_["convergence"]
    separable, strict, gaps = [], [], []
    for sentence, gold in zip(X, y, strict=True):
        truth = Truth(model, sentence)
        same = np.array([labels == tuple(gold) for labels in truth.projected])
        mine, others = truth.scores[same], truth.scores[~same]
        separable.append(mine.max() > others.max())
        strict.append(mine.min() > others.max())
        gaps.append((mine.min() - others.max()) / np.linalg.norm(model.weights_.astype(np.float64)))
    assert seen["separable"] == np.mean(separable)
    assert seen["strictly_separable"] == np.mean(strict)
    assert seen["margin"] == pytest.approx(min(gaps), abs=1e-6)


@pytest.mark.parametrize(
    ("template", "order"),
    [(SIMPLE, 1), (ARCS, 1), (SIMPLE, 2), (EVERYTHING, 2)],
    ids=["simple 1", "arcs 1", "simple 2", "everything 2"],
)
@pytest.mark.parametrize("sizes", [1, 2])
def test_the_largest_norm_is_that_of_the_largest_path(template, order, sizes):
    problem = Problem(*words(6, 3, 3), template, "all", sizes=sizes, order=order)
    passes = Passes(
        problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, Rule(0.0, False, 1.0), 0
    )
    largest = max(np.linalg.norm(choices.counts, axis=1).max() for choices in problem.choices())
    assert passes.largest_norm() == pytest.approx(largest)


def test_without_a_theorem_there_is_no_bound():
    """Theorems 2 and 3 are about plain updates from nothing, and about counts of features."""
    for words_ in ({"averaging": "mavg"}, {"margin": 1.0}, {"update": "passive-aggressive"}):
        seen = Perceptron(template=STATES, max_iter=3, n_jobs=1, **words_).fit(*NOISY).training_["convergence"]
        assert seen["mistake_bound"] is None
        assert seen["theorem"] is None
    seen = Perceptron(max_iter=3, n_jobs=1).fit(*dicts(5, 3)).training_["convergence"]
    assert seen["mistake_bound"] is None
    positive = [[{f: abs(v) if f == "x" else v for f, v in t.items()} for t in s] for s in dicts(5, 3)[0]]
    record = Perceptron(max_iter=3, n_jobs=1).fit(positive, dicts(5, 3)[1]).training_
    assert record["mistakes"] <= record["convergence"]["mistake_bound"]


def test_a_run_from_other_weights_than_nothing_claims_no_bound_that_it_breaks():
    """Weights that say the opposite cost as many mistakes as they are large."""
    X, y = [["a"], ["b"]] * 3, [["A"], ["B"]] * 3
    settings = {"template": "U:%x[0,0]", "averaging": "none", "cells": "all", "n_jobs": 1}
    wrong = Perceptron(**settings).fit(X, y)
    named = {("U:a", "A"): -50.5, ("U:a", "B"): 50.0, ("U:b", "A"): 50.0, ("U:b", "B"): -50.5}
    cells = wrong.parameters_.cells["state"]
    for f, (a, b) in enumerate(itertools.pairwise(cells.ptr.tolist())):
        for i in range(a, b):
            wrong.weights_[i] = named[wrong.extractor_.name(f), wrong.classes_[cells.column[i]]]
    record = Perceptron(**settings).fit(X, y, init=wrong).training_
    assert record["mistakes"] > 90
    bound = record["convergence"]["mistake_bound"]
    assert bound is None or record["mistakes"] <= bound
