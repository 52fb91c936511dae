"""Latent states by splitting and merging: what a split keeps, what a merge loses, and the rounds."""

import numpy as np
import pytest
from problems import ARCS, EVERYTHING, SIMPLE, STATES, Truth, words

import labelwright
from labelwright import CRF, LatentCRF
from labelwright.corpus import synthetic_hmm
from labelwright.scoring.carry import carry_over
from labelwright.taggers.crf import Rounds
from labelwright.taggers.linear import Run
from labelwright.taggers.true_model import bayes_ceiling

NO_RUN = Run(None, None, None)
SETTINGS = {"n_jobs": 1, "random_state": 0}


def rounds_of(model, data):
    model._check_parameters()
    return Rounds(model, data, NO_RUN, [9] * 9)


def fitted(sizes, template=ARCS, order=1, seed=0, data=None):
    """A latent CRF with random weights, its rounds, and its data."""
    X, y = data or words(6, 4, 3)
    model = LatentCRF(sizes, template=template, order=order, max_iter=1, **SETTINGS)
    prepared, trained = model._prepare(X, y)
    weights = np.random.default_rng(seed).normal(0, 0.7, trained.parameters.n_weights).astype(np.float32)
    model._trained = trained._replace(weights=weights)
    model.training_, model.history_ = {}, []
    return model, rounds_of(model, prepared), (X, y)


def likelihood(model, trained, data):
    model._trained = trained
    return np.array(model.sequence_log_probabilities(*data))


@pytest.mark.parametrize(("template", "order"), [(STATES, 1), (ARCS, 1), (EVERYTHING, 2)])
@pytest.mark.parametrize("sizes", [1, {"O": 1, "B-X": 3, "I-X": 2}])
def test_a_split_without_noise_keeps_all_probabilities(template, order, sizes):
    model, rounds, data = fitted(sizes, template, order)
    before = model._trained
    grown = rounds.with_sizes(before, 2 * np.diff(before.space.first))
    grown = grown._replace(weights=carry_over(before, grown))
    assert grown.space.n_states == 2 * before.space.n_states
    expected = likelihood(model, before, data)
    np.testing.assert_allclose(likelihood(model, grown, data), expected, atol=2e-5)
    noisy = likelihood(model, rounds.split(before, 1), data)
    assert 1e-6 < np.abs(noisy - expected).max() < 1


@pytest.mark.parametrize(("template", "order"), [(ARCS, 1), (EVERYTHING, 2)])
def test_merging_copies_loses_nothing(template, order):
    """All of them: every probability stays.  Some: only first tokens, which no transition leads to, change."""
    model, rounds, (X, y) = fitted({"O": 1, "B-X": 2, "I-X": 1}, template, order)
    before = model._trained
    grown = rounds.with_sizes(before, 2 * np.diff(before.space.first))
    grown = grown._replace(weights=carry_over(before, grown))
    merge = rounds.merge(grown)
    np.testing.assert_allclose(merge.losses, 0, atol=1e-5)
    rounds.model.merge_share = 1.0
    whole = rounds.merge(grown)
    assert whole.sizes.tolist() == np.diff(before.space.first).tolist()
    np.testing.assert_allclose(whole.share, 0.5, atol=1e-6)
    merged = rounds.merged(grown, whole)
    expected = likelihood(model, before, (X, y))
    np.testing.assert_allclose(likelihood(model, merged, (X, y)), expected, atol=2e-5)


def test_merging_some_copies_changes_first_tokens_alone():
    model, rounds, (X, _) = fitted(1, ARCS)
    before = model._trained
    grown = rounds.with_sizes(before, [2] * before.space.n_labels)
    grown = grown._replace(weights=carry_over(before, grown))
    merge = rounds.merge(grown)
    kept = merge._replace(sizes=np.array([2, *[1] * (before.space.n_labels - 1)]))
    target, share = np.repeat(np.arange(1, before.space.n_labels + 1), 2), np.full(2 * before.space.n_labels, 0.5)
    target[:2], share[:2] = [0, 1], 1.0
    model._trained = rounds.merged(grown, kept._replace(target=target, share=share))
    first = before.space.labels[0]
    for sentence in X[:3]:
        found = Truth(model, sentence).labellings
        model_before = LatentCRF(1, template=ARCS, **SETTINGS)
        model_before._trained = before
        expected = {
            labels: p * (2 if labels[0] == first else 1)
            for labels, p in Truth(model_before, sentence).labellings.items()
        }
        total = sum(expected.values())
        for labels, p in expected.items():
            assert found[labels] == pytest.approx(p / total, rel=1e-4)


def test_a_state_that_is_not_used_is_merged_without_loss():
    """The copy of a state that no path takes: the merged model is that without it."""
    model, rounds, data = fitted(1, SIMPLE)
    before = model._trained
    L = before.space.n_labels
    grown = rounds.with_sizes(before, [2] * L)
    weights = carry_over(before, grown)
    weights[grown.parameters.slices["transitions"]].reshape(2 * L, 2 * L)[:, 1::2] = -40.0
    cells = grown.parameters.cells["state"].column
    weights[grown.parameters.slices["state"]][cells % 2 == 1] = -40.0
    grown = grown._replace(weights=weights)
    rounds.model.merge_share = 1.0
    merge = rounds.merge(grown)
    np.testing.assert_allclose(merge.losses, 0, atol=1e-4)
    np.testing.assert_allclose(merge.share, np.tile([1.0, 0.0], L), atol=1e-6)
    merged = likelihood(model, rounds.merged(grown, merge), data)
    np.testing.assert_allclose(merged, likelihood(model, before, data), atol=1e-4)


# --- rounds -----------------------------------------------------------------------------------------------------------

CYCLES = {"length": 6, "self_transitions": False}


@pytest.fixture(scope="module")
def cycles():
    return synthetic_hmm(300, seed=1, **CYCLES), synthetic_hmm(300, seed=2, **CYCLES)


@pytest.mark.slow
def test_states_are_found_whatever_the_seed(cycles):
    train, test = cycles
    ceiling, losses = bayes_ceiling(test, 0.9, 0.1, self_transitions=False), []
    for seed in range(2):
        model = LatentCRF(3, template=SIMPLE, cells="all", start="split-merge", n_jobs=1, random_state=seed).fit(train)
        assert model.score(test) > ceiling - 0.01
        losses.append(model.training_["loss"])
        sizes = np.diff(model._space.first)
        assert 2 <= sizes.max() <= 3
        rounds = model.training_["rounds"]
        assert rounds[0]["states"] == {"y1": 1, "y2": 1}
        assert dict(zip(model.classes_, sizes.tolist(), strict=True)) in [record["states"] for record in rounds]
        assert all(record["merged"] >= record["split"] // 2 for record in rounds[1:])
        assert model.n_latent == 3
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert CRF(template=SIMPLE, cells="all", n_jobs=1).fit(train).score(test) < ceiling - 0.1


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "more", [{}, {"order": 2}, {"optimizer": "sgd", "averaging": "avg"}, {"constraints": "scheme"}]
)
def test_it_trains_with_all_settings_and_survives_a_file(tmp_path, more):
    X, y = words(20, 3)
    settings = {"template": STATES, "start": "split-merge", "split_rounds": 2, "max_iter": 6, **SETTINGS, **more}
    model = LatentCRF({"O": 1, "B-X": 4, "I-X": 2}, **settings).fit(X, y, dev=(X, y))
    sizes = dict(zip(model._space.labels, np.diff(model._space.first).tolist(), strict=True))
    assert sizes["O"] == 1
    assert sizes["I-X"] <= 2
    assert "dev" in model.training_["rounds"][0]
    model.save(tmp_path / "m")
    again = labelwright.load(tmp_path / "m")
    assert again.predict(X) == model.predict(X)
    assert again.training_["rounds"] == model.training_["rounds"]
    begun = LatentCRF(4, **settings).fit(X, y, init=CRF(template=STATES, n_jobs=1).fit(X, y))
    assert set(begun.training_["rounds"][0]["states"].values()) == {1}
    assert "loss" not in begun.training_["rounds"][0]
    if "optimizer" not in more:
        model.partial_fit(X[:3], y[:3])
        assert dict(zip(model._space.labels, np.diff(model._space.first).tolist(), strict=True)) == sizes
