"""LatticeCRF: against enumeration, finite differences, a CRF on chains and a SemiCRF on
segments."""

import itertools

import lattices
import numpy as np
import pytest
import segmentations
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from lattices import Enumerated, random_lattices
from problems import as_tokens, differences

from labelwright import CRF, FeatureLattice, LatticeCRF, SemiCRF
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.parallel import Workers
from labelwright.taggers.lattice_crf import arc_slots, objective, prepared, true_path

X, Y = random_lattices(12, seed=3)


def with_random_weights(model, X, seed=0):
    """The model, prepared for these lattices, with weights that are far from any optimum."""
    model._check_parameters()
    paths = [lattices.all_paths(lattice)[0] for lattice in X]
    model._trained = prepared(model, X, paths)[2]
    weights = np.random.default_rng(seed).normal(size=len(model.weights_))
    model._trained = model._trained._replace(weights=weights)
    return model


# -- answers ---------------------------------------------------------------------------------------


@drawn(60)
@given(drawn=st.lists(lattices.lattices(), min_size=1, max_size=3), transitions=st.booleans())
def test_every_answer_is_that_of_enumeration(drawn, transitions):
    model = with_random_weights(LatticeCRF(transitions=transitions, n_jobs=1), drawn)
    nbest, marginals = model.predict_nbest(drawn, 10_000), model.predict_marginals(drawn)
    best = model.decode(drawn)
    for n, (lattice, scored) in enumerate(zip(drawn, model.scored(drawn), strict=True)):
        truth = Enumerated(model, lattice)
        assert scored.log_z() == pytest.approx(truth.log_z, abs=1e-10)
        assert scored.entropy() == pytest.approx(truth.entropy(), abs=1e-9)
        np.testing.assert_allclose(marginals[n], truth.arcs, atol=1e-10)
        np.testing.assert_allclose([p for _, p in nbest[n]], truth.p, atol=1e-10)
        np.testing.assert_allclose(
            [scored.weight_of(path) for path in truth.paths], truth.scores, atol=1e-10
        )
        assert best[n].score == pytest.approx(truth.scores[0], abs=1e-10)
        assert best[n].log_probability == pytest.approx(np.log(truth.p[0]), abs=1e-10)
        ranked = scored.best(len(truth.paths))
        assert sorted(tuple(path.arcs) for path in ranked) == sorted(truth.paths)


def test_probabilities_of_paths_samples_and_restrictions():
    model = with_random_weights(LatticeCRF(n_jobs=1), X)
    for lattice, path, log_p in zip(X, Y, model.sequence_log_probabilities(X, Y), strict=True):
        truth = Enumerated(model, lattice)
        assert log_p == pytest.approx(truth.scores[truth.paths.index(tuple(path))] - truth.log_z)
    scored = max(model.scored(X), key=lambda each: len(each.best(100)))
    truth = Enumerated(model, scored.lattice)
    drawn = scored.sample(4000, random_state=0)
    assert drawn == scored.sample(4000, random_state=0)
    for path, p in zip(truth.paths, truth.p, strict=True):
        assert drawn.count(list(path)) / 4000 == pytest.approx(p, abs=0.04)
    allowed = np.ones(len(scored), np.bool_)
    allowed[truth.paths[0][0]] = False
    left = [
        s for s, path in zip(truth.scores, truth.paths, strict=True) if path[0] != truth.paths[0][0]
    ]
    fewer = scored.restricted(allowed)
    assert fewer.log_z() == pytest.approx(np.logaddexp.reduce(left, initial=-np.inf))
    with pytest.raises(OptionError, match="allowed: expected"):
        scored.restricted([True])


def test_unknown_labels_and_features_add_nothing():
    model = LatticeCRF(n_jobs=1).fit(
        [FeatureLattice([(0, 1, "A", ["a"]), (0, 1, "B", ["b"])])], [[0]]
    )
    new = FeatureLattice(
        [(0, 1, "A", ["a"]), (0, 1, "Z", ["a"]), (0, 1, "B", ["z"]), (1, 2, "Z", [])]
    )
    p = model.predict_marginals([new])[0]
    assert p[1] == p[2] < p[0]
    assert p[3] == 1


def test_lattices_without_arcs():
    empty = FeatureLattice([])
    model = LatticeCRF(n_jobs=1).fit([empty, *X], [[], *Y])
    assert model.predict([empty]) == [[]]
    assert model.predict([X[0], empty, X[1]]) == [
        model.predict([X[0]])[0],
        [],
        model.predict([X[1]])[0],
    ]
    assert model.predict_marginals([empty]) == [[]]
    assert model.sequence_log_probabilities([empty], [[]]) == [0.0]
    assert model.scored([empty])[0].sample(2) == [[], []]
    assert model.scored([empty])[0].entropy() == 0
    assert model.predict([]) == []


# -- training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("transitions", [False, True])
@pytest.mark.parametrize("cells", ["observed", "all"])
def test_the_loss_is_that_of_enumeration_and_its_gradient_that_of_differences(transitions, cells):
    model = LatticeCRF(transitions, cells, n_jobs=1)
    data, gold, model._trained = prepared(model, X, Y)
    problem = objective(model._trained, data, gold, Workers(1), np.float64)
    n = len(model.weights_)
    weights, gradient = np.random.default_rng(1).normal(size=n), np.empty(n)
    loss = problem(weights, gradient)
    np.testing.assert_allclose(
        gradient, differences(lambda w: problem(w, np.empty(n)), weights, range(n)), atol=1e-6
    )
    model._trained = model._trained._replace(weights=weights)
    assert loss == pytest.approx(-sum(model.sequence_log_probabilities(X, Y)), abs=1e-9)
    observed = {
        (name, X[k].arcs[i].label)
        for k, path in enumerate(Y)
        for i in path
        for name in X[k].arcs[i].features
    }
    assert cells == "all" or {row[:2] for row in model.state_features_} == observed


def test_what_is_passed_to_a_layer_above_and_its_gradient():
    """The sum of any smooth function of the probabilities of arcs, and of the model's own loss."""
    model = with_random_weights(LatticeCRF(n_jobs=1), X)
    data, gold, _ = prepared(model, X, Y)
    problem = objective(model._trained, data, gold, Workers(1), np.float64, arc_slots(data.arcs))
    weights = model.weights_
    passed, back = problem.forward(weights)
    np.testing.assert_allclose(passed, np.concatenate(model.predict_marginals(X)), atol=1e-12)
    factor = np.random.default_rng(2).normal(size=len(passed))

    def total(w):
        p, own = problem.forward(w)
        return float(factor @ p**2) + own(None, 0.3).loss

    gradient = back(2 * factor * passed, 0.3).weights
    np.testing.assert_allclose(
        gradient, differences(total, weights, range(len(weights))), atol=1e-6
    )


def chain(tokens, labels):
    """The lattice of a sentence whose tokens may all have every label."""
    return FeatureLattice(
        [(t, t + 1, label, token) for t, token in enumerate(tokens) for label in labels]
    )


def test_a_chain_is_a_crf():
    rng, labels = np.random.default_rng(4), ["A", "B", "C"]
    sentences = [
        [{"w": str(rng.integers(4)), "x": float(rng.normal())} for _ in range(rng.integers(1, 6))]
        for _ in range(20)
    ]
    y = [[labels[rng.integers(3)] for _ in sentence] for sentence in sentences]
    settings = {"cells": "all", "l2": 0.5, "tol": 1e-9, "n_jobs": 1}
    crf = CRF(**settings).fit(sentences, y)
    paths = [[(t, t + 1, label) for t, label in enumerate(own)] for own in y]
    chains = [chain(sentence, labels) for sentence in sentences]
    model = LatticeCRF(**settings).fit(chains, paths)
    assert model.training_["loss"] == pytest.approx(crf.training_["loss"], rel=1e-6)
    expected = [
        [p[label] for p in sentence for label in labels]
        for sentence in crf.predict_marginals(sentences)
    ]
    np.testing.assert_allclose(
        np.concatenate(model.predict_marginals(chains)), np.concatenate(expected), atol=1e-4
    )
    assert model.sequence_log_probabilities(chains, paths) == pytest.approx(
        crf.sequence_log_probabilities(sentences, y), abs=1e-3
    )
    assert [[label for _, _, label in path] for path in model.predict(chains)] == crf.predict(
        sentences
    )


def segment_lattice(sentence, types, longest, texts):
    """The lattice of all segmentations with the features of a SemiCRF, which knows these texts."""
    tokens, T, arcs = as_tokens([sentence], segmentations.TEMPLATE)[0], len(sentence), []
    for start, kind in itertools.product(range(T), types):
        for end in range(start + 1, min(T, start + (longest if kind != "O" else 1)) + 1):
            places = "S" if end - start == 1 else "B" + "I" * (end - start - 2) + "E"
            text = f"text={' '.join(sentence[start:end])}"
            features = {
                f"length={end - start}": 1.0,
                text: float(text in texts),
                "begin": float(start == 0),
            }
            for t, place in zip(range(start, end), places, strict=True):
                for name, count in tokens[t]["state"].items():
                    features[f"{place}:{name}"] = features.get(f"{place}:{name}", 0.0) + count
            arcs.append((start, end, kind, features))
    return FeatureLattice(arcs)


def test_a_graph_of_segments_is_a_semi_crf():
    sentences, y = segmentations.X, segmentations.labelled("iob2")
    settings = {"cells": "all", "l2": 0.5, "tol": 1e-9, "n_jobs": 1}
    semi = SemiCRF(segmentations.TEMPLATE, **settings).fit(sentences, y)
    space, texts = semi.segments_, {row.feature for row in semi.state_features_}
    X = [segment_lattice(sentence, space.types, space.max_length, texts) for sentence in sentences]
    paths = []
    for sentence, own in zip(sentences, segmentations.SPANS, strict=True):
        inside = {t for span in own for t in range(span.start, span.end)}
        outside = [(t, t + 1, "O") for t in range(len(sentence)) if t not in inside]
        paths.append(sorted([span[:3] for span in own] + outside))
    model = LatticeCRF(**settings).fit(X, paths)
    assert model.training_["loss"] == pytest.approx(semi.training_["loss"], rel=1e-5)
    assert model.sequence_log_probabilities(X, paths) == pytest.approx(
        semi.sequence_log_probabilities(sentences, y), abs=2e-3
    )


def test_a_run_is_recorded_and_threads_change_nothing():
    one, two = (LatticeCRF(n_jobs=n, max_iter=20).fit(X, Y) for n in (1, 2))
    assert one.weights_.tolist() == two.weights_.tolist()
    assert one.training_["sentences"] == 12
    assert one.history_[-1]["loss"] < one.history_[0]["loss"]
    assert "12 lattices" in one._summary().run
    assert one.score(X, Y) > LatticeCRF(max_iter=1, n_jobs=1, l2=1000.0).fit(X, Y).score(X, Y)
    sparse = LatticeCRF(l1=1.0, l2=0.0, n_jobs=1).fit(X, Y)
    assert 0 < (sparse.weights_ != 0).sum() < (one.weights_ != 0).sum()


def test_lattices_that_are_made_one_by_one():
    model = LatticeCRF(n_jobs=1, max_iter=5).fit(iter(X), iter(Y))
    assert model.weights_.tolist() == LatticeCRF(n_jobs=1, max_iter=5).fit(X, Y).weights_.tolist()
    assert model.predict(iter(X)) == model.predict(X)
    assert model.score(iter(X), iter(Y)) == model.score(X, Y)
    with pytest.raises(CorpusError, match="got more paths than lattices"):
        LatticeCRF(n_jobs=1).fit(iter(X[:3]), Y)


def test_development_data_and_progress():
    seen = []
    model = LatticeCRF(n_jobs=1, max_iter=12).fit(
        X[:8], Y[:8], dev=(X[8:], Y[8:]), progress=lambda r, n: seen.append(n)
    )
    assert set(seen) == {12}
    assert model.training_["best_dev"] == pytest.approx(model.score(X[8:], Y[8:]))


def test_scores_count_arcs_that_are_not_in_the_lattice():
    lattice = FeatureLattice([(0, 1, "w", []), (1, 2, "w", []), (2, 3, "w", [])])
    model = LatticeCRF(n_jobs=1).fit([lattice], [[0, 1, 2]])
    report = model.report([lattice], [[(0, 2, "w"), (2, 3, "w")]])
    assert (report.precision, report.recall) == (pytest.approx(1 / 3), 0.5)
    with pytest.raises(CorpusError, match="y: lattice 0: span 0:9"):
        model.score([lattice], [[(0, 9, "w")]])
    with pytest.raises(
        CorpusError, match="y: lattice 0: expected nodes, whole numbers, got 'a' and 2"
    ):
        model.score([lattice], [[("a", 2, "w")]])
    with pytest.raises(CorpusError, match="y: lattice 0: span 0:2: overlaps another span"):
        model.score([lattice], [[(0, 2, "w"), (0, 2, "w")]])


@pytest.mark.parametrize("transitions", [False, True])
def test_gaps_between_the_numbers_of_nodes_cost_nothing(transitions):
    far = 10**8
    close = [
        FeatureLattice(
            [(0, 1, "w", ["a"]), (1, 2, "w", ["b"]), (0, 2, "w", ["ab"]), (2, 4, "v", ["c"])]
        )
    ] * 2
    apart = [
        FeatureLattice([(a * far, b * far, *rest) for a, b, *rest in lattice.arcs])
        for lattice in close
    ]
    paths = [[0, 1, 3], [2, 3]]
    one, other = (
        LatticeCRF(n_jobs=1, transitions=transitions).fit(X, paths, dev=(X, paths))
        for X in (close, apart)
    )
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.predict_marginals(close) == other.predict_marginals(apart)
    # the first with a node that no arc has
    given = [[(0, 3, "w"), (3, 4, "v")], [(0, 2, "w"), (2, 4, "v")]]
    moved = [[(a * far, b * far, label) for a, b, label in path] for path in given]
    reports = one.report(close, given), other.report(apart, moved)
    assert reports[0].precision == reports[1].precision > 0
    assert reports[0].recall == reports[1].recall == 0.5
    true = true_path(apart[0], moved[0], 0)
    assert true.place == {0: 0, far: 64, 2 * far: 128, 3 * far: 192, 4 * far: 256}
    assert len(true.labels) == 256
    assert len(true_path(close[0], given[0], 0).labels) == 4


# -- an estimator, and its file --------------------------------------------------------------------


def test_a_file_that_does_not_fit_together(tmp_path):
    tensors, header = LatticeCRF(n_jobs=1, max_iter=2).fit(X, Y).pack()
    for wrong in (
        header | {"pairs": False},
        header | {"extractor": "columns"},
        header | {"pairs": 3},
    ):
        with pytest.raises(ModelFileError):
            LatticeCRF.unpack(tensors, wrong)


@pytest.mark.parametrize(
    ("X", "y", "error"),
    [
        (X[0], [], "X: expected a list of lattices, got one lattice; put it into a list"),
        (5, [], "X: expected a list of lattices, got int"),
        ([["a", "b"]], [[0]], "X: lattice 0: expected a FeatureLattice, got list"),
        (X, Y[:3], r"y: expected a path for each lattice, got more lattices than paths \(3\)"),
        ([FeatureLattice([])], [[]], "X: expected lattices with arcs, got none"),
        (X[:2], [Y[0], [99]], "y: lattice 1: no arc 99, expected a number of 0 to"),
        (X[:1], [7], "y: lattice 0: expected a list of arcs, got 7"),
        (
            [X[0], FeatureLattice([(0, 1, "A", [3])])],
            [Y[0], [0]],
            "X: lattice 1, arc 0: expected the name of an attr",
        ),
        (
            [FeatureLattice([(0, 1, "A", {"a": float("nan")})])],
            [[0]],
            "X: lattice 0, arc 0: feature 'a' is nan",
        ),
    ],
)
def test_what_is_refused_in_one_line(X, y, error):
    with pytest.raises(CorpusError, match=error):
        LatticeCRF(n_jobs=1).fit(X, y)
