"""Margins of labellings by enumeration, and the mistakes that theorems 2 and 3 of paper 003
allow."""

import itertools

import numpy as np
import pytest
from cases import cases, many
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from problems import ARCS, EVERYTHING, STATES, Problem, Truth, dicts, words

from labelwright import LatentPerceptron, Perceptron
from labelwright.learn.perceptron import (
    Passes,
    UpdateRule,
    convergence,
    latent_separability,
    mistake_bound,
)
from labelwright.parallel import Workers
from labelwright.scoring.carry import carry_over
from labelwright.structures.lattice import Margins, margins
from labelwright.taggers.perceptron import PLAIN, Online

SIMPLE = "U:%x[0,0]\nB"
NOISY = words(14, seed=5)


# --- margins --------------------------------------------------------------------------------------


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


@drawn(150, many)
@given(cases(max_paths=20_000, max_tokens=5), st.integers(0, 1000))
def test_margins_are_those_of_all_paths(case, seed):
    """Of any labelling, possible or not, and of one that a possible path has."""
    T = len(case.scores.node)
    check_margins(case, np.random.default_rng(seed).integers(0, case.space.n_labels, T))
    paths = case.paths.paths
    if len(paths):
        check_margins(case, case.space.label_of[paths[seed % len(paths)]])


# --- the bound ------------------------------------------------------------------------------------


def bound_at(d, gaps, norm, passes):
    """(sqrt(2) M + D)^2 / d^2 with D^2 = passes * sum max(0, d - g)^2, as theorem 3 has it."""
    lost = sum(passes * np.maximum(0.0, d - g) ** 2 for g in gaps)
    return (np.sqrt(2) * norm + np.sqrt(lost)) ** 2 / d**2


@drawn(100)
@given(
    st.lists(
        st.integers(-5000, 5000).map(lambda n: n / 1000) | st.just(np.inf), min_size=1, max_size=8
    ),
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
    found = [
        Margins(4.0, 3.0, 1.0),
        Margins(4.0, 1.0, 2.0),
        Margins(2.0, 2.0, 2.0),
        Margins(1.0, 1.0, -np.inf),
    ]
    seen = convergence(found, 2.0, None, 3, 0.0)
    assert seen == (0.75, 0.5, -0.5, None, None)
    seen = convergence(found, 2.0, 1.5, 3, 0.5)
    assert seen[3:] == mistake_bound(np.array([1.0, -0.5, 0.0, np.inf]), 1.5, 3, 0.5)
    assert seen.theorem == 3
    strict = convergence(found[:1], 2.0, 1.5, 10**6, 0.0)
    assert strict[2:] == (1.0, pytest.approx(2 * 1.5**2), 2)
    # weights of nothing prove nothing
    assert convergence(found, 0.0, 1.5, 3, 0.0)[2:] == (None, None, None)
    for norm in (0.0, 2.0):
        # no other labelling
        assert convergence(found[3:] * 2, norm, None, 3, 0.0) == (1.0, 1.0, None, None, None)


@drawn(50)
@given(st.floats(0.1, 5), st.floats(0.5, 20), st.floats(0, 100))
def test_a_start_of_some_norm_costs_twice_that_over_the_margin(gap, norm, start):
    found, theorem = mistake_bound(np.array([gap, 2 * gap]), norm, 10**12, start)
    assert found == pytest.approx(2 * norm**2 / gap**2 + 2 * start / gap)
    assert theorem == 2
    short = mistake_bound(np.array([-gap, gap]), norm, 3, start)
    assert short[0] >= mistake_bound(np.array([-gap, gap]), norm, 3)[0]
    assert short[1] == 3


# --- models ---------------------------------------------------------------------------------------

PUBLISHED = {"margin": 0, "share": False}
SEPARABLE = [
    ([["a", "b", "c"], ["b", "a"], ["c"]], [["A", "B", "C"], ["B", "A"], ["C"]]),
    (
        [["x", "y"], ["y", "x"], ["y", "y", "x", "x"]],
        [["A", "A"], ["B", "A"], ["B", "B", "A", "A"]],
    ),
    ([["a"], ["b"]], [["A"], ["B"]]),
]


@pytest.mark.cases(12)
@pytest.mark.parametrize("averaging", ["none", "avg"])
@pytest.mark.parametrize(
    ("template", "order"),
    [(SIMPLE, 1), (ARCS, 1), (SIMPLE, 2), (EVERYTHING, 2)],
    ids=["simple 1", "arcs 1", "simple 2", "everything 2"],
)
@pytest.mark.parametrize("data", [NOISY, words(10, 2), words(3, 7), *SEPARABLE])
def test_no_perceptron_makes_more_mistakes_than_its_bound(averaging, template, order, data):
    for passes in (1, 2, 8):
        settings = {
            "template": template,
            "order": order,
            "averaging": averaging,
            "n_jobs": 1,
            "max_iter": passes,
        }
        record = Perceptron(**settings).fit(*data).training_
        seen = record["convergence"]
        assert 0 < record["mistakes"] <= seen["mistake_bound"]
        assert seen["theorem"] == 3 or seen["margin"] > 0


@pytest.mark.parametrize("cells", ["observed", "all"])
def test_the_bound_holds_on_average_weights_of_latent_states_too(cells):
    for averaging, order in itertools.product(("none", "avg"), (1, 2)):
        model = LatentPerceptron(
            2,
            template=SIMPLE,
            order=order,
            averaging=averaging,
            cells=cells,
            n_jobs=1,
            max_iter=5,
            **PUBLISHED,
        )
        record = model.fit(*NOISY).training_
        assert record["mistakes"] <= record["convergence"]["mistake_bound"]


@pytest.mark.parametrize("data", SEPARABLE[:2])
def test_theorem_2_holds_where_the_weights_separate_the_data(data):
    model = Perceptron(template=SIMPLE, averaging="none", cells="all", n_jobs=1, max_iter=100).fit(
        *data
    )
    seen = model.training_["convergence"]
    assert model.history_[-1]["mistakes"] == 0
    problem = Problem(*data, SIMPLE, "all", labels=model.classes_)
    largest = max(np.linalg.norm(choices.counts, axis=1).max() for choices in problem.choices())
    assert seen["separable"] == seen["strictly_separable"] == 1.0
    assert (
        model.training_["mistakes"]
        <= seen["mistake_bound"]
        <= 2 * largest**2 / seen["margin"] ** 2 * (1 + 1e-6)
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("sizes", [1, 2])
def test_shares_and_margin_are_those_of_all_paths(order, sizes):
    model = LatentPerceptron(
        sizes, template=ARCS, order=order, n_jobs=1, max_iter=2, random_state=0
    )
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
        *problem.model,
        UpdateRule(0.0, False, 1.0),
        0,
    )
    largest = max(np.linalg.norm(choices.counts, axis=1).max() for choices in problem.choices())
    assert passes.largest_norm() == pytest.approx(largest)


def test_without_a_theorem_there_is_no_bound():
    """Theorems 2 and 3 are about plain updates, and about counts of features."""
    for words_ in (
        {"averaging": "mavg"},
        {"margin": 1.0},
        {"update": "passive-aggressive"},
        {"update": "arow"},
    ):
        seen = (
            Perceptron(template=STATES, max_iter=3, n_jobs=1, **words_)
            .fit(*NOISY)
            .training_["convergence"]
        )
        assert seen["mistake_bound"] is None
        assert seen["theorem"] is None
    seen = Perceptron(max_iter=3, n_jobs=1).fit(*dicts(5, 3)).training_["convergence"]
    assert seen["mistake_bound"] is None
    positive = [
        [{f: abs(v) if f == "x" else v for f, v in t.items()} for t in s] for s in dicts(5, 3)[0]
    ]
    record = Perceptron(max_iter=3, n_jobs=1).fit(positive, dicts(5, 3)[1]).training_
    assert record["mistakes"] <= record["convergence"]["mistake_bound"]


def adversary(norm, gap, start):
    """A course of updates z of this norm, with z[0] = gap, from (-start, 0, 0): each z the longest
    way round that is still a mistake (w z <= 0).  Returns the updates and the last weights."""
    weights, updates, aside = np.array([-start, 0.0, 0.0]), [], np.sqrt(norm**2 - gap**2)
    while True:
        length = np.linalg.norm(weights[1:])
        along = weights[1:] / length if length > 0 else np.array([1.0, 0.0])
        # of a z at right angles to the weights
        share = -gap * weights[0] / (aside * length) if length > 0 else 1.0
        if share < -1:
            return np.array(updates), weights
        share = min(share, 1.0)
        turned = share * along + np.sqrt(1 - share**2) * np.array([-along[1], along[0]])
        updates.append(np.array([gap, *(aside * turned)]))
        assert weights @ updates[-1] < 1e-6
        weights = weights + updates[-1]


@pytest.mark.parametrize(
    ("norm", "start"), [(10.0, 1000.0), (10.0, 100.0), (3.0, 50.0), (10.0, 0.0)]
)
def test_the_bound_holds_against_an_adversary_too(norm, start):
    """For the direction in which all updates have the same gap, and for that of the last
    weights."""
    updates, weights = adversary(norm, 1.0, start)
    for direction in (np.array([1.0, 0.0, 0.0]), weights / np.linalg.norm(weights)):
        for passes in (1, 10):
            bound, _ = mistake_bound(updates @ direction, norm / np.sqrt(2), passes, start)
            assert len(updates) <= bound * (1 + 1e-9)


def test_a_run_from_other_weights_than_nothing_claims_no_bound_that_it_breaks():
    """Weights that say the opposite cost as many mistakes as they are large."""
    X, y = [["a"], ["b"]] * 3, [["A"], ["B"]] * 3
    settings = {"template": "U:%x[0,0]", "averaging": "none", "cells": "all", "n_jobs": 1}
    wrong = Perceptron(**settings).fit(X, y)
    named = {("U:a", "A"): -50.5, ("U:a", "B"): 50.0, ("U:b", "A"): 50.0, ("U:b", "B"): -50.5}
    cells = wrong._parameters.cells["state"]
    for f, (a, b) in enumerate(itertools.pairwise(cells.ptr.tolist())):
        for i in range(a, b):
            wrong.weights_[i] = named[wrong._extractor.name(f), wrong.classes_[cells.column[i]]]
    record = Perceptron(**settings).fit(X, y, init=wrong).training_
    assert record["mistakes"] > 90
    assert record["mistakes"] <= record["convergence"]["mistake_bound"] < np.inf


@pytest.mark.parametrize("data", SEPARABLE[:2])
@pytest.mark.parametrize("sizes", [2, 3])
def test_theorem_1_bounds_the_margin_of_latent_states(sizes, data):
    """The weights of a plain perceptron that separates the data, copied to all states: by
    enumeration of all paths."""
    X, y = data
    settings = {
        "template": SIMPLE,
        "averaging": "none",
        "cells": "all",
        "n_jobs": 1,
        "random_state": 0,
    }
    plain = Perceptron(**settings | {"averaging": "avg", "max_iter": PLAIN, "margin": 0}).fit(X, y)
    latent = LatentPerceptron(sizes, margin=0, start="split", share=False, **settings).fit(X, y)
    seen = latent.training_["convergence"]["latent"]
    assert seen["plain_margin"] == plain.training_["convergence"]["margin"] > 0
    U = plain.weights_ / np.linalg.norm(plain.weights_)
    reach = np.repeat(
        [1, 2],
        [plain._parameters.slices["state"].stop, len(U) - plain._parameters.slices["state"].stop],
    )
    # a state or a pair of states
    assert seen["expansion"] == pytest.approx(np.sqrt((sizes**reach * U**2).sum()))
    assert seen["margin_bound"] == pytest.approx(seen["plain_margin"] / seen["expansion"])
    assert latent.training_["mistakes"] <= seen["mistake_bound"]
    copied = carry_over(
        plain._trained, latent._trained._replace(weights=np.zeros_like(latent.weights_))
    )
    latent._trained = latent._trained._replace(weights=copied / np.linalg.norm(copied))
    gaps = []
    for sentence, gold in zip(X, y, strict=True):
        truth = Truth(latent, sentence)
        same = np.array([labels == tuple(gold) for labels in truth.projected])
        gaps.append(truth.scores[same].min() - truth.scores[~same].max())
    assert min(gaps) == pytest.approx(seen["margin_bound"], rel=1e-5)


@pytest.mark.parametrize("averaging", ["none", "avg"])
@pytest.mark.parametrize("data", SEPARABLE[:2])
def test_theorem_2_holds_from_a_random_start(averaging, data):
    """As published: no margin, and as many passes as it takes."""
    settings = {"template": SIMPLE, "cells": "all", "n_jobs": 1, "max_iter": 200}
    plain = Perceptron(averaging="none", **settings).fit(*data)
    learner = Online(plain)
    learner._measure(learner._passes(plain._trained, plain._prepare(*data)[0], Workers(1)))
    norm = learner.norm
    for seed in range(3):
        own = {
            "averaging": averaging,
            "random_state": seed,
            "start": "random",
            "margin": 0,
            "share": False,
        }
        latent = LatentPerceptron(2, **own, **settings).fit(*data)
        copied = carry_over(
            plain._trained, latent._trained._replace(weights=np.zeros_like(latent.weights_))
        )
        expansion = np.linalg.norm(copied) / np.linalg.norm(plain.weights_)
        margin = plain.training_["convergence"]["margin"]
        start = float(np.linalg.norm(latent._begun(latent._trained, 0, False).weights))
        bound = latent_separability(margin, expansion, norm, start).mistake_bound
        assert bound >= 2 * expansion**2 * norm**2 / margin**2
        assert 0 < latent.training_["mistakes"] <= bound
        assert latent.history_[-1]["mistakes"] == 0
        assert "latent" not in latent.training_["convergence"]  # no plain perceptron was trained
