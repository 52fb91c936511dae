"""What models with scores but without probabilities answer: best paths by enumeration, and
calibrated confidences."""

import math

import numpy as np
import pytest
from oracles import spans_by_hand
from problems import ARCS, EVERYTHING, STATES, Truth, words

import labelwright
from labelwright import LatentPerceptron, Perceptron
from labelwright.corpus import validate
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.taggers.calibrating import COARSE
from labelwright.taggers.perceptron import Online

NEW = ["aa", "new", "b", "c"]
SHORT = [["aa", "b", "c"], ["b"], ["c", "new"]]
KINDS = [
    (STATES, 1, 1),
    (ARCS, 1, 2),
    (STATES, 2, 1),
    (EVERYTHING, 2, {"O": 1, "B-X": 2, "I-X": 1}),
]
NAMES = ["order 1", "order 1 latent", "order 2", "order 2 latent"]


def trained(template, order, sizes, **words_):
    """A model whose weights are shaken, so that no two paths have the same score."""
    settings = {
        "template": template,
        "order": order,
        "max_iter": 3,
        "n_jobs": 1,
        "random_state": 1,
        **words_,
    }
    model = LatentPerceptron(sizes, **settings).fit(*words(12, 5))
    noise = np.random.default_rng(0).normal(0, 0.4, len(model.weights_))
    model.weights_ = (model.weights_ + noise).astype(np.float32)
    return model


def held_out(model):
    """Sentences that the model labels right for the most part."""
    X, y = words(8, 11, 3)[0], []
    for n, labels in enumerate(model.predict(X)):
        y.append([*labels[:-1], "B-X" if labels[-1] == "O" else "O"] if n % 3 == 0 else labels)
    return X, y


@pytest.fixture(scope="module", params=KINDS, ids=NAMES)
def model(request):
    return trained(*request.param)


@pytest.fixture(scope="module", params=KINDS, ids=NAMES)
def calibrated(request):
    model = trained(*request.param)
    return model.calibrate(*held_out(model))


# --- by score -------------------------------------------------------------------------------------

RESTRICTIONS = [
    {},
    {"constraints": "scheme"},
    {"forced": [[None, "B-X", None, None]]},
    {"forced": [["O", None, ["O", "I-X"], None]]},
    {"forced": [["O", "O", "O", "O"]]},
]


def restricted(model, sentence, **restriction):
    scheme = "iob2" if "constraints" in restriction else None
    return Truth(model, sentence, restriction.get("forced", [None])[0], scheme)


def check_scores(model, sentence, **restriction):
    """All labellings in the order of their best paths, with scores and without probabilities."""
    truth = restricted(model, sentence, **restriction).by_best_path()
    for n in (1, 4, 1000):
        (found,) = model.predict_nbest([sentence], n=n, **restriction)
        assert [tuple(labels) for labels, _ in found] == list(truth)[:n]
        assert [score for _, score in found] == pytest.approx(list(truth.values())[:n], abs=1e-5)
    (best,), (spans,) = (
        model.decode([sentence], **restriction),
        model.predict_spans([sentence], **restriction),
    )
    assert (best.labels, best.score) == (found[0][0], pytest.approx(found[0][1], abs=1e-5))
    assert (best.log_probability, best.confidence, best.exact, best.gap) == (None, None, True, 0)
    assert {span[:3] for span in spans} == spans_by_hand(best.labels)
    assert all(span.probability is None for span in spans)


@pytest.mark.parametrize("restriction", RESTRICTIONS, ids=str)
def test_every_answer_is_in_the_order_of_best_paths(model, restriction):
    check_scores(model, NEW, **restriction)
    for sentence in SHORT if not restriction else ():
        check_scores(model, sentence)


@pytest.mark.parametrize("kind", [*KINDS, (STATES, 1, 4)], ids=[*NAMES, "many states"])
def test_a_model_trained_under_constraints_keeps_them(kind):
    constrained = trained(*kind, constraints="scheme")
    check_scores(constrained, NEW)
    assert not validate(constrained.predict(words(20, 3)[0]), "iob2")
    for ask in (constrained.predict_nbest, constrained.decode):
        with pytest.raises(OptionError, match=r"^sentence 0: no labelling satisfies"):
            ask([["b"]], forced=[["I-X"]])


def test_labellings_are_found_behind_any_number_of_paths_of_the_best_one(monkeypatch):
    """Copies of states that are nearly equal: the best labelling of twelve tokens alone has 16
    million paths."""
    x, y = [[f"w{t % 7}" for t in range(12)]], [["A", "B", "C"] * 4]
    plain = Perceptron(averaging="none", n_jobs=1).fit(x, y)
    monkeypatch.setattr(Online, "noise", Online.noise._replace(split=1e-3))
    latent = LatentPerceptron(4, margin=0, n_jobs=1, random_state=0).fit(x, y, init=plain)
    assert latent.predict(x) == y
    (found,), (expected,) = latent.predict_nbest(x, n=3), plain.predict_nbest(x, n=3)
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=0.5)


@pytest.mark.cases(4)
@pytest.mark.parametrize("decoder", ["exact", "ldi", "marginal", "mbr"])
def test_other_decoders_are_refused_in_one_line(model, decoder):
    with pytest.raises(
        OptionError,
        match=rf"^decoder: got '{decoder}', but a LatentPerceptron has scores, not .*'viterbi'$",
    ):
        model.decode(SHORT, decoder)


# --- confidence -----------------------------------------------------------------------------------


def judged(log_probabilities):
    """log-likelihood of these sentences and of one more, of their geometric mean, that went
    wrong."""
    total = sum(log_probabilities)
    return total + math.log(1 - math.exp(total / len(log_probabilities)))


@pytest.mark.slow
def test_calibration_finds_the_temperature_of_greatest_likelihood(calibrated):
    """Of the held-out sentences and one that went wrong."""
    X, y = held_out(calibrated)
    truths = [(Truth(calibrated, s), tuple(labels)) for s, labels in zip(X, y, strict=True)]
    grid = np.geomspace(0.01, 1000, 400)
    found = [judged([truth.tempered(t)[labels] for truth, labels in truths]) for t in grid]
    n_tokens, best = sum(map(len, y)), int(np.argmax(found))
    assert 0 < best < len(grid) - 1
    assert calibrated.temperature_ == pytest.approx(grid[best], rel=0.05)
    record = calibrated.training_["calibration"]
    assert record["temperature"] == calibrated.temperature_
    assert record["sentences"] == 8
    assert record["log_likelihood_per_token"] == pytest.approx(found[best] / n_tokens, abs=1e-4)
    there = judged([truth.tempered(calibrated.temperature_)[labels] for truth, labels in truths])
    assert record["log_likelihood_per_token"] == pytest.approx(there / n_tokens, abs=1e-5)


@pytest.mark.parametrize("restriction", RESTRICTIONS, ids=str)
def test_confidences_are_tempered_probabilities(calibrated, restriction):
    truth = restricted(calibrated, NEW, **restriction).tempered(calibrated.temperature_)
    truth = {labels: math.exp(p) for labels, p in truth.items()}
    (found,), (rows,) = (
        ask([NEW], **restriction) for ask in (calibrated.decode, calibrated.predict_confidences)
    )
    assert found.confidence == pytest.approx(truth[tuple(found.labels)], abs=1e-5)
    assert found.log_probability is None
    for t, row in enumerate(rows):
        assert list(row) == calibrated.classes_
        expected = {label: sum(p for y, p in truth.items() if y[t] == label) for label in row}
        assert row == pytest.approx(expected, abs=1e-5)
    (spans,) = calibrated.span_confidences(
        [NEW], calibrated.predict_spans([NEW], **restriction), **restriction
    )
    for span in spans:
        expected = sum(p for y, p in truth.items() if span[:3] in spans_by_hand(y))
        assert span.probability == pytest.approx(expected, abs=1e-5)
    assert calibrated.decode([NEW], probabilities=False)[0].confidence is None
    assert calibrated.predict_confidences([[]]) == [[]]
    assert calibrated.decode([[]])[0].confidence == 1.0


def test_fit_calibrates_on_its_development_data():
    train, dev = words(12, 5), words(10, 6)
    settings = {"template": STATES, "n_jobs": 1, "max_iter": 4}
    by_fit = Perceptron(**settings).fit(*train, dev=dev)
    by_hand = Perceptron(**settings).fit(*train, dev=dev)
    del by_hand.training_["calibration"]
    assert by_hand.temperature_ is None
    assert by_hand.calibrate(dev).temperature_ == by_fit.temperature_
    assert Perceptron(**settings).fit(*train).temperature_ is None


def test_before_calibration_confidences_are_refused(model, tmp_path):
    model = model.uncalibrated()
    for question in (
        lambda: model.predict_confidences(SHORT),
        lambda: model.span_confidences(SHORT, [[], [], []]),
    ):
        with pytest.raises(
            OptionError, match=r"^a LatentPerceptron has scores, not probabilities; calibrate it"
        ) as error:
            question()
        assert "\n" not in str(error.value)
    with pytest.raises(NotFittedError):
        Perceptron().predict_confidences(SHORT)
    with pytest.raises(NotFittedError):
        Perceptron().calibrate(*words(3, 1))
    for unfitted in (Perceptron(), LatentPerceptron()):
        with pytest.raises(NotFittedError):
            unfitted.temperature_  # noqa: B018
    model.calibrate(*held_out(model)).save(tmp_path / "m")
    assert labelwright.load(tmp_path / "m").temperature_ == model.temperature_


def test_held_out_data_are_checked(model):
    model = model.uncalibrated()
    with pytest.raises(OptionError, match=r"^calibrate: expected a pair"):
        model.calibrate(5)
    with pytest.raises(CorpusError, match=r"^calibrate: y: 1 sentences, but X has 3"):
        model.calibrate(SHORT, [["O"]])
    with pytest.raises(
        OptionError, match=r"^calibrate: no held-out sentence has a labelling that is possible"
    ):
        model.calibrate([["b"], []], [["unknown"], []])
    assert model.temperature_ is None
    X, y = held_out(model)
    alone = model.calibrate(X, y).temperature_
    # these say nothing
    assert model.calibrate([*X, ["b"], []], [*y, ["unknown"], []]).temperature_ == alone


@pytest.mark.parametrize("template", [STATES, ARCS])
def test_held_out_data_that_are_all_right_make_no_model_certain(template, tmp_path):
    """n right sentences and one gone wrong: the usual confidence is n / (n + 1)."""
    X, y = [["aa", "b"], ["c"], ["b", "aa", "c"]], [["O", "B-X"], ["I-X"], ["B-X", "O", "I-X"]]
    fitted = Perceptron(template=template, averaging="none", n_jobs=1).fit(X, y, dev=(X, y))
    assert fitted.predict(X) == y
    assert 0 < fitted.temperature_ < np.inf
    assert np.isfinite(fitted.training_["calibration"]["log_likelihood_per_token"])
    found = [d.confidence for d in fitted.decode(X)]
    assert all(0.5 < confidence < 1.0 for confidence in found)
    assert np.exp(np.mean(np.log(found))) == pytest.approx(3 / 4, abs=0.005)
    scale = sum(d.score for d in fitted.decode(X)) / 6
    assert COARSE[1] < fitted.temperature_ / scale < COARSE[-2]
    fitted.calibrate(X * 20, y * 20)
    assert np.exp(np.mean(np.log([d.confidence for d in fitted.decode(X)]))) == pytest.approx(
        60 / 61, abs=0.005
    )
    rows = fitted.predict_confidences([NEW])[0]
    assert all(sum(row.values()) == pytest.approx(1) for row in rows)
    fitted.save(tmp_path / "m")
    assert labelwright.load(tmp_path / "m").decode(X) == fitted.decode(X)


def test_a_model_without_weights_to_speak_of_can_be_calibrated():
    fitted = Perceptron(n_jobs=1).fit([["a", "b"]], [["O", "O"]])
    assert not fitted.weights_.any()
    fitted.calibrate([["a"]], [["O"]])
    assert 0 < fitted.temperature_ < np.inf
    assert fitted.decode([["a", "c"]])[0].confidence == pytest.approx(1.0)


def test_held_out_labels_that_the_constraints_forbid_say_nothing_about_the_temperature():
    """They have no probability at any temperature."""
    fitted = trained(STATES, 1, 1, constraints="scheme")
    X, y = held_out(fitted)
    alone = fitted.calibrate(X, y).temperature_
    assert fitted.calibrate([*X, ["aa", "b"]], [*y, ["O", "I-X"]]).temperature_ == alone
    assert np.isfinite(fitted.training_["calibration"]["log_likelihood_per_token"])


def test_development_data_without_a_known_labelling_do_not_end_the_training():
    """Every sentence has a label that is new: there is nothing to calibrate on, but a model all the
    same."""
    fitted = Perceptron(template=STATES, n_jobs=1, max_iter=3)
    fitted.fit(*words(8, 5), dev=([["aa", "b"]], [["O", "B-Y"]]))
    assert fitted.temperature_ is None
    assert "convergence" in fitted.training_


def test_a_model_that_learnt_more_is_to_be_calibrated_again():
    """The old temperature says nothing about other weights."""
    fitted = trained(STATES, 1, 1)
    fitted.calibrate(*held_out(fitted)).partial_fit(*words(5, 3))
    assert fitted.temperature_ is None
    fitted.calibrate(*held_out(fitted)).fit(*words(5, 3))
    assert fitted.temperature_ is None


def test_calibration_is_timed_and_can_be_left_out():
    X, y = [["the", "dog", "barks"], ["a", "bird", "sings"]] * 3, [["D", "N", "V"]] * 6
    model = Perceptron(max_iter=2, n_jobs=1).fit(X, y, dev=(X, y))
    assert model.training_["calibration"]["seconds"] >= 0
    assert any("s of calibration" in fact for fact in model._summary().run)
    without = Perceptron(max_iter=2, n_jobs=1, calibration=False).fit(X, y, dev=(X, y))
    assert without.temperature_ is None
    assert without.predict(X) == model.predict(X)
    assert without.calibrate(X, y).temperature_ == model.temperature_
