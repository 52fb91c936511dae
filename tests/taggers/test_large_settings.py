"""Settings and arguments beyond all sense: they work, or are refused in one line."""

import contextlib
from fractions import Fraction

import numpy as np
import pytest

import labelwright
from labelwright.errors import LabelwrightError, OptionError
from labelwright.settings import Number, Whole, settings_of
from labelwright.taggers.declared import NumberOrName, StatesByLabel, Threads

X = [["Mary", "ran"], ["in", "London"], ["Mary", "left"]]
Y = [["B-PER", "O"], ["O", "B-LOC"], ["B-PER", "O"]]
TAGGERS = ("CRF", "LatentCRF", "Perceptron", "LatentPerceptron", "SemiCRF", "MemoryTagger")
NUMBERS = (Whole, Number, StatesByLabel, Threads, NumberOrName)
REPEATED = ("n_restarts", "max_iter")  # only the time of training depends on them
LARGE = (2**31, 2**32 + 1, 2**63, 10**30, 10**300)
SETTINGS = [
    (tagger, name)
    for tagger in TAGGERS
    for name, setting in settings_of(getattr(labelwright, tagger)).items()
    if isinstance(setting.kind, NUMBERS) and name not in REPEATED
]


def made(tagger, **settings):
    tagger = getattr(labelwright, tagger)
    short = {"max_iter": 3, "random_state": 0, "n_jobs": 1}
    return tagger(
        **{name: value for name, value in short.items() if name in settings_of(tagger)} | settings
    )


@pytest.mark.cases(24)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", LARGE, ids="{:.1e}".format)
@pytest.mark.parametrize(("tagger", "name"), SETTINGS)
def test_large_numbers_work_or_are_refused_in_one_line(tagger, name, value):
    with contextlib.suppress(LabelwrightError):  # whose text is one line
        model = made(tagger, **{name: value}).fit(X, Y)
        assert [len(labels) for labels in model.predict(X)] == [2, 2, 2]
        assert np.isfinite(getattr(model, "weights_", 0)).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "settings", [{"optimizer": "sgd"}, {"l1": 10**30}, {"prune_labels": 0.9}], ids=str
)
def test_a_whole_number_is_a_penalty_of_any_size(settings):
    assert np.isfinite(made("CRF", l2=10**300, **settings).fit(X, Y).weights_).all()


def answers(**settings):
    """Labels and marginals of a latent CRF."""
    model = labelwright.LatentCRF(random_state=0, n_jobs=1, **settings).fit(X, Y)
    marginals = [[list(p.values()) for p in row] for row in model.predict_marginals(X)]
    return model, model.predict(X), np.array(marginals)


@pytest.mark.parametrize("l2", [0.5, 1e-100])
@pytest.mark.parametrize(
    "l2_latent", [1e20, 1e38, 1e80, 1e100, 1e300, 10**300], ids="{:.0e}".format
)
def test_states_that_may_not_deviate_share_everything(l2, l2_latent):
    _, labels, marginals = answers(l2=l2, l2_latent=l2_latent)
    _, expected, near = answers(l2=l2, l2_latent=1e8)
    assert labels == expected == Y
    np.testing.assert_allclose(marginals, near, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("l2", [1e12, 1e38, 1e100, 10**300], ids="{:.0e}".format)
def test_weights_under_a_large_penalty_are_near_zero(order, share, l2):
    model, labels, marginals = answers(order=order, share=share, l2=l2)
    assert list(map(len, labels)) == [2, 2, 2]
    assert 0 < np.abs(model.weights_).max() < 1e-11
    np.testing.assert_allclose(marginals, 1 / 3, atol=1e-9)


@pytest.mark.parametrize("l1", [1e12, 1e20, 1e100, 10**300], ids="{:.0e}".format)
def test_weights_under_a_large_l1_penalty_are_zero(l1):
    model, labels, _ = answers(l1=l1)
    assert list(map(len, labels)) == [2, 2, 2]
    assert not model.weights_.any()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("averaging", ["none", "avg"])
def test_sgd_with_large_penalties(averaging):
    how = {"optimizer": "sgd", "averaging": averaging}
    model, labels, _ = answers(l2_latent=1e100, **how)
    assert labels == Y
    assert model.training_["loss"] < 3
    model, labels, marginals = answers(l2=1e100, **how)
    assert list(map(len, labels)) == [2, 2, 2]
    np.testing.assert_allclose(marginals, 1 / 3, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"n_latent": np.array([1, 2])},
            r"^n_latent: expected a whole number or a table of one for each label",
        ),
        ({"n_latent": {"O": None}}, r"^n_latent: expected 1 or more states per label, got None$"),
        (
            {"n_latent": {"O": 2**40}},
            r"^n_latent: expected at most 1,000,000 states per label, got 1099511627776$",
        ),
        ({"l2": Fraction(1, 2)}, r"^l2: expected a number of 0 or more, got Fraction"),
        ({"class_weight": {"O": Fraction(1, 2)}}, r"^class_weight: "),
        ({"vectors": {"O": 10**400}}, r"^vectors: expected a file, or"),
        (
            {"forbidden_transitions": [([], "O")]},
            r"^forbidden_transitions: expected pairs of labels",
        ),
    ],
    ids=str,
)
def test_odd_settings_are_refused(settings, message):
    with pytest.raises(OptionError, match=message):
        made("LatentCRF", **settings).fit(X, Y)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda m: m.fit(X, Y, sample_weight=[10**400, 1, 1]),
            r"^sample_weight: sentence 0: expected a number",
        ),
        (lambda m: m.predict_confident(X, 10**400), r"^least: expected a number from 0 to 1"),
        (
            lambda m: m.likely_spans(X, None),
            r"^least: expected a probability above 0 and up to 1, got None$",
        ),
        (
            lambda m: m.sample(X, 2, random_state=-1),
            r"^random_state: expected a whole number, 0 or more, got -1$",
        ),
        (
            lambda m: m.sample(X, 2, random_state="x"),
            r"^random_state: expected a whole number, 0 or more, got 'x'$",
        ),
        (
            lambda m: m.decode(X, forced=True),
            r"^forced: expected a list of labels for each sentence, got True$",
        ),
        (
            lambda m: m.decode(X, forced=[1, 2, 3]),
            r"^forced: expected a list of labels for each sentence, got \[1, 2",
        ),
        (lambda m: m.decode(X, decoder=[[]]), r"^decoder: expected one of viterbi"),
        (
            lambda m: m.sequence_log_probabilities(X, None),
            r"^y: expected one list for each of 3 sentences, got None$",
        ),
        (
            lambda m: m.fit(X, Y, checkpoint="c", checkpoint_every="x"),
            r"^checkpoint_every: expected seconds",
        ),
        (lambda m: m.compressed(0.0, 16.0), r"^bits: expected 32, 16 or 8, got 16\.0$"),
    ],
)
def test_odd_arguments_are_refused(ask, message):
    with pytest.raises(OptionError, match=message):
        ask(made("CRF").fit(X, Y))


@pytest.mark.parametrize(
    "y", [[1, 2, 3], [None, None, None], [["O", {}], ["O", "O"], ["O", "O"]], range(3)], ids=str
)
def test_what_is_no_labelling_is_refused(y):
    model = made("CRF").fit(X, Y)
    for ask in (
        model.fit,
        model.partial_fit,
        model.calibrate,
        model.score,
        model.sequence_log_probabilities,
    ):
        with pytest.raises(LabelwrightError, match="expected"):
            ask(X, y)


def test_numbers_of_numpy_are_settings_like_others(tmp_path):
    settings = {
        "l2": np.float32(0.5),
        "min_count": np.int64(1),
        "class_weight": {"O": np.float32(0.5)},
    }
    model = made("CRF", **settings, forbidden_transitions=[(np.str_("B-PER"), "B-LOC")]).fit(X, Y)
    model.compressed(np.float32(0.01), np.int64(16)).save(tmp_path / "m")
    assert labelwright.load(tmp_path / "m")._compression == {
        "prune": pytest.approx(0.01),
        "bits": 16,
    }


@pytest.mark.parametrize("tagger", ["LatentCRF", "LatentPerceptron"])
def test_more_latent_states_than_there_is_room_for(tagger):
    with pytest.raises(OptionError, match=r"^n_latent: expected .*1,?000,?000.*, got 4294967296$"):
        made(tagger, n_latent=2**32).fit(X, Y)
    with pytest.raises(OptionError, match=r"pairs of states, more than 134,217,728; use fewer"):
        made(tagger, n_latent=10**6).fit(X, Y)
