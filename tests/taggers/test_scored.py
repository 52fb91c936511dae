"""What models with scores but without probabilities answer: best paths by enumeration, and calibrated confidences."""

import itertools
import math

import numpy as np
import pytest
from problems import ARCS, EVERYTHING, STATES, Truth, words

import labelwright
from labelwright import LatentPerceptron, Perceptron
from labelwright.corpus import validate
from labelwright.errors import CorpusError, LabelwrightError, NotFittedError, OptionError
from labelwright.taggers.calibrating import COARSE
from labelwright.taggers.perceptron import Online

NEW = ["aa", "new", "b", "c"]
SHORT = [["aa", "b", "c"], ["b"], ["c", "new"]]
KINDS = [(STATES, 1, 1), (ARCS, 1, 2), (STATES, 2, 1), (EVERYTHING, 2, {"O": 1, "B-X": 2, "I-X": 1})]
NAMES = ["order 1", "order 1 latent", "order 2", "order 2 latent"]


def trained(template, order, sizes, **words_):
    """A model whose weights are shaken, so that no two paths have the same score."""
    settings = {"template": template, "order": order, "max_iter": 3, "n_jobs": 1, "random_state": 1, **words_}
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


@pytest.fixture(params=KINDS, ids=NAMES)
def model(request):
    return trained(*request.param)


@pytest.fixture(params=KINDS, ids=NAMES)
def calibrated(request):
    model = trained(*request.param)
    return model.calibrate(*held_out(model))


# --- by score ---------------------------------------------------------------------------------------------------------


def test_decode_gives_the_best_path_with_its_score_and_no_probability(model):
    for sentence, found in zip([NEW, *SHORT], model.decode([NEW, *SHORT]), strict=True):
        labels, score = next(iter(Truth(model, sentence).by_best_path().items()))
        assert found.labels == list(labels)
        assert found.score == pytest.approx(score, abs=1e-5)
        assert found.log_probability is None
        assert found.confidence is None
        assert found.exact
        assert found.gap == 0
    assert model.predict(SHORT) == [d.labels for d in model.decode(SHORT, "viterbi")]
    assert not model._probabilistic


def test_a_sentence_without_tokens_has_no_probability_either(model):
    (found,) = model.decode([[]])
    assert (found.labels, found.score, found.exact) == ([], 0.0, True)
    assert found.log_probability is None
    assert model.predict_nbest([[]]) == [[([], 0.0)]]


def check_nbest(model, sentence, n, **limits):
    """As many labellings as there are, in the order of their best paths."""
    if "constraints" in limits:
        truth = Truth(model, sentence, scheme="iob2").by_best_path()
    else:
        truth = Truth(model, sentence, limits.get("forced", [None])[0]).by_best_path()
    (found,) = model.predict_nbest([sentence], n=n, **limits)
    assert [tuple(labels) for labels, _ in found] == list(truth)[:n]
    assert [score for _, score in found] == pytest.approx(list(truth.values())[:n], abs=1e-5)
    return found


@pytest.mark.cases(4)
@pytest.mark.parametrize("n", [1, 4, 1000])
def test_the_best_labellings_come_in_the_order_of_their_best_paths(model, n):
    for sentence in [NEW, *SHORT]:
        found = check_nbest(model, sentence, n)
        assert len(found) == min(n, 3 ** len(sentence))
        assert found[0][0] == model.predict([sentence])[0]


def test_forced_labels_and_constraints_hold_for_all_answers(model):
    for forced in ([None, "B-X", None, None], ["O", None, ["O", "I-X"], None], ["O", "O", "O", "O"]):
        found = check_nbest(model, NEW, 12, forced=[forced])
        assert model.decode([NEW], forced=[forced])[0].labels == found[0][0]
    found = check_nbest(model, NEW, 200, constraints="scheme")
    assert not validate([labels for labels, _ in found], "iob2")
    (best,) = model.decode([NEW], constraints="scheme")
    assert (best.labels, best.score) == (found[0][0], pytest.approx(found[0][1], abs=1e-6))
    with pytest.raises(OptionError, match=r"^sentence 0: no labelling satisfies"):
        model.predict_nbest([["b"]], forced=[["I-X"]], constraints="scheme")
    with pytest.raises(OptionError, match=r"^sentence 0: no labelling satisfies"):
        model.decode([["b"]], forced=[["I-X"]], constraints="scheme")


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_model_trained_under_constraints_keeps_them(kind):
    constrained = trained(*kind, constraints="scheme")
    check_nbest(constrained, NEW, 200)
    assert not validate(constrained.predict(words(20, 3)[0]), "iob2")


def test_of_many_latent_paths_each_labelling_is_named_once():
    """Many paths have the same labels: the search goes on until there are enough labellings."""
    model = trained(STATES, 1, 4)
    (found,) = model.predict_nbest([NEW], n=30)
    assert len({tuple(labels) for labels, _ in found}) == 30
    check_nbest(model, NEW, 30)


def test_labellings_are_found_behind_any_number_of_paths_of_the_best_one(monkeypatch):
    """Copies of states that are nearly equal: the best labelling of twelve tokens alone has 16 million paths."""
    x, y = [[f"w{t % 7}" for t in range(12)]], [["A", "B", "C"] * 4]
    plain = Perceptron(averaging="none", n_jobs=1).fit(x, y)
    monkeypatch.setattr(Online, "noise", Online.noise._replace(split=1e-3))
    latent = LatentPerceptron(4, margin=0, n_jobs=1, random_state=0).fit(x, y, init=plain)
    assert latent.predict(x) == y
    (found,), (expected,) = latent.predict_nbest(x, n=3), plain.predict_nbest(x, n=3)
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=0.5)


def test_spans_are_those_of_the_best_labelling(model):
    x = words(12, 5)[0]
    spans = model.predict_spans(x)
    assert any(spans)
    for labels, found in zip(model.predict(x), spans, strict=True):
        starts = {span.start for span in found}
        assert {t for t, label in enumerate(labels) if label == "B-X"} <= starts
        assert all(span.probability is None and span.type == "X" for span in found)
    assert Perceptron(n_jobs=1).fit([["a", "b"]], [["D", "N"]]).predict_spans([["a"], []]) == [[], []]


@pytest.mark.cases(4)
@pytest.mark.parametrize("decoder", ["exact", "ldi", "marginal", "mbr"])
def test_other_decoders_are_refused_in_one_line(model, decoder):
    with pytest.raises(
        OptionError, match=rf"^decoder: got '{decoder}', but a LatentPerceptron has scores, not .*'viterbi'$"
    ):
        model.decode(SHORT, decoder)


@pytest.mark.parametrize(
    ("method", "arguments", "instead"),
    [
        ("predict_marginals", (SHORT,), "predict_confidences"),
        ("span_probabilities", (SHORT, [[], [], []]), "span_confidences"),
        ("sequence_log_probabilities", (SHORT, [["O"] * len(s) for s in SHORT]), "confidence"),
    ],
)
def test_probabilities_are_refused_with_what_to_use_instead(method, arguments, instead):
    fitted = Perceptron(template=STATES, n_jobs=1, max_iter=2).fit(*words(6, 5))
    with pytest.raises(
        OptionError, match=f"^{method}: a Perceptron has scores, not probabilities; .*{instead}"
    ) as error:
        getattr(fitted, method)(*arguments)
    assert "\n" not in str(error.value)


# --- confidence -------------------------------------------------------------------------------------------------------


def judged(log_probabilities):
    """log-likelihood of these sentences and of one more, of their geometric mean, that went wrong."""
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


def test_confidences_are_tempered_probabilities(calibrated):
    x = [NEW, *SHORT]
    decoded, rows = calibrated.decode(x), calibrated.predict_confidences(x)
    for sentence, found, row in zip(x, decoded, rows, strict=True):
        truth = Truth(calibrated, sentence).tempered(calibrated.temperature_)
        assert found.confidence == pytest.approx(math.exp(truth[tuple(found.labels)]), abs=1e-5)
        assert found.log_probability is None
        for t, confidences in enumerate(row):
            assert list(confidences) == calibrated.classes_
            assert sum(confidences.values()) == pytest.approx(1)
            for label, value in confidences.items():
                expected = sum(math.exp(p) for labels, p in truth.items() if labels[t] == label)
                assert value == pytest.approx(expected, abs=1e-5)
    assert all(d.confidence is None for d in calibrated.decode(x, probabilities=False))
    assert calibrated.predict_confidences([[]]) == [[]]
    assert calibrated.decode([[]])[0].confidence == 1.0


def test_confidences_know_of_forced_labels(calibrated):
    forced = [["B-X", None, None, "O"]]
    truth = Truth(calibrated, NEW, forced[0]).tempered(calibrated.temperature_)
    (found,) = calibrated.decode([NEW], forced=forced)
    assert found.confidence == pytest.approx(math.exp(truth[tuple(found.labels)]), abs=1e-5)
    (row,) = calibrated.predict_confidences([NEW], forced=forced)
    assert row[0]["B-X"] == pytest.approx(1)
    assert row[3]["O"] == pytest.approx(1)


def test_spans_have_confidences_once_there_is_a_temperature(calibrated):
    spans = calibrated.predict_spans([NEW])
    found = calibrated.span_confidences([NEW], spans)
    truth = Truth(calibrated, NEW).tempered(calibrated.temperature_)
    for span in found[0]:
        inside = range(span.start + 1, span.end)
        expected = sum(
            math.exp(p)
            for y, p in truth.items()
            if (y[span.start] == "B-X" or (y[span.start] == "I-X" and (span.start == 0 or y[span.start - 1] == "O")))
            and all(y[t] == "I-X" for t in inside)
            and (span.end == len(y) or y[span.end] != "I-X")
        )
        assert span.probability == pytest.approx(expected, abs=1e-5)
    assert [s[:3] for s in found[0]] == [s[:3] for s in spans[0]]


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
    for question in (lambda: model.predict_confidences(SHORT), lambda: model.span_confidences(SHORT, [[], [], []])):
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
    with pytest.raises(OptionError, match=r"^calibrate: expected a pair"):
        model.calibrate(5)
    with pytest.raises(CorpusError, match=r"^calibrate: y: 1 sentences, but X has 3"):
        model.calibrate(SHORT, [["O"]])
    with pytest.raises(OptionError, match=r"^calibrate: no held-out sentence has a labelling that is possible"):
        model.calibrate([["b"], []], [["unknown"], []])
    assert model.temperature_ is None
    X, y = held_out(model)
    alone = model.calibrate(X, y).temperature_
    assert model.calibrate([*X, ["b"], []], [*y, ["unknown"], []]).temperature_ == alone  # these say nothing


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
    assert np.exp(np.mean(np.log([d.confidence for d in fitted.decode(X)]))) == pytest.approx(60 / 61, abs=0.005)
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
    """Every sentence has a label that is new: there is nothing to calibrate on, but a model all the same."""
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


def test_other_options_are_refused(model):
    for n in (0, 1.5, None):
        with pytest.raises(LabelwrightError, match=r"^n: "):
            model.predict_nbest(SHORT, n=n)
    with pytest.raises(OptionError, match=r"^decoder viterbi: no option 'alpha'"):
        model.decode(SHORT, alpha=1)
    with pytest.raises(OptionError, match=r"^constraints: expected 'scheme' or one of"):
        model.decode(SHORT, constraints="nonsense")


def test_all_labellings_of_a_short_sentence_add_up_to_all_confidence(calibrated):
    labellings = [list(y) for y in itertools.product(calibrated.classes_, repeat=2)]
    forced = [[[label] for label in y] for y in labellings]
    scores = [d.score for d in calibrated.decode([NEW[:2]] * 9, forced=forced)]
    assert max(scores) == pytest.approx(calibrated.decode([NEW[:2]])[0].score, abs=1e-6)
    truth = Truth(calibrated, NEW[:2]).tempered(calibrated.temperature_)
    assert sum(math.exp(truth[tuple(y)]) for y in labellings) == pytest.approx(1)


def test_calibration_is_timed_and_can_be_left_out():
    X, y = [["the", "dog", "barks"], ["a", "bird", "sings"]] * 3, [["D", "N", "V"]] * 6
    model = Perceptron(max_iter=2, n_jobs=1).fit(X, y, dev=(X, y))
    assert model.training_["calibration"]["seconds"] >= 0
    assert any("s of calibration" in fact for fact in model._summary().run)
    without = Perceptron(max_iter=2, n_jobs=1, calibration=False).fit(X, y, dev=(X, y))
    assert without.temperature_ is None
    assert without.predict(X) == model.predict(X)
    assert without.calibrate(X, y).temperature_ == model.temperature_
