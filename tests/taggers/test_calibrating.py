"""Calibrated probabilities of every tagger that has any: by enumeration, on disk, in cascades, by
cross-fitting."""

import json
import math
import signal

import numpy as np
import pytest
from oracles import spans_by_hand
from problems import STATES, Truth, words
from small_models import MODELS, trained

import labelwright
from labelwright import CRF, Cascade, MemoryTagger, NgramTagger, Perceptron, SemiCRF, Span
from labelwright.answers.calibrated import Calibration, MonotoneMap
from labelwright.corpus import Corpus
from labelwright.corpus.generated import builtin_corpus
from labelwright.corpus.spans import spans_of
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.taggers import calibrating

NEW = ["aa", "new", "b", "c"]
SINGLE = [
    name
    for name, (make, _) in MODELS.items()
    if "probability" in make().can and "cascade" not in name
]


def with_temperature(model, temperature, **maps):
    model._set_calibration({"temperature": temperature, **maps})
    return model


@pytest.fixture(scope="module")
def entities():
    made = builtin_corpus(160, random_state=1)
    X, y = made.column("word"), made.column("entity")
    return X[:40], y[:40], X[40:], y[40:]


@pytest.fixture(scope="module")
def fitted(entities):
    return CRF(n_jobs=1, max_iter=20, l2=0.01).fit(*entities[:2])


# --- by enumeration -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SINGLE)
def test_questions_of_every_tagger_agree_with_its_n_best(name):
    """Three labels of two tokens have few labellings: the list of all of them answers every
    question."""
    model, X = trained(name), MODELS[name][1](1, 40)[0]
    short = [x[:2] for x in X if len(x) > 1][:3]
    with_temperature(model, 1.7)
    kinds = sorted({label.partition("-")[2] for label in model.classes_ if label != "O"})
    everything = model.predict_nbest(short, len(model.classes_) ** 2)
    some = model.occurrence_probabilities(short, kinds[:2])
    one = model.span_probabilities(short, [[Span(0, 2, "|".join(kinds[:2]))]] * 3)
    sets = model.sequence_log_probabilities(short, [[None, {"O", f"B-{kinds[0]}"}]] * 3)
    for n, labellings in enumerate(everything):
        assert sum(p for _, p in labellings) == pytest.approx(1.0, abs=1e-6)
        found = [
            ({s[2] for s in spans_by_hand(y)}, {s[:2] for s in spans_by_hand(y)}, y, p)
            for y, p in labellings
        ]
        assert some[n] == pytest.approx(
            sum(p for k, _, _, p in found if k & set(kinds[:2])), abs=1e-6
        )
        assert one[n][0].probability == pytest.approx(
            sum(p for k, places, _, p in found if (0, 2) in places and k & set(kinds[:2])), abs=1e-6
        )
        assert math.exp(sets[n]) == pytest.approx(
            sum(p for *_, y, p in found if y[1] in ("O", f"B-{kinds[0]}")), abs=1e-6
        )


def test_labels_without_chunks_occur_at_tokens():
    X, y = [["the", "dog"], ["a", "dog", "ran"]], [["D", "N"], ["D", "N", "V"]]
    model = CRF(n_jobs=1).fit(X, y)
    everything = model.predict_nbest(X[:1], 9)[0]
    wanted = sum(p for labels, p in everything if "V" in labels)
    assert model.occurrence_probabilities(X[:1], "V")[0] == pytest.approx(wanted, abs=1e-9)


def test_many_labels_are_calibrated_among_their_candidates():
    X, y = (
        [["a", "b", "c"], ["b", "c"], ["c", "a"]] * 4,
        [["x", "y", "z"], ["y", "z"], ["z", "w"]] * 4,
    )
    model = CRF(prune_labels=0.9, n_jobs=1, max_iter=10).fit(X, y)
    assert model._trained.pruning is not None
    weights = {tuple(labels): p for labels, p in model.predict_nbest(X[:1], 64)[0]}
    total = sum(p ** (1 / 3) for p in weights.values())
    with_temperature(model, 3.0)
    for labels, p in model.predict_nbest(X[:1], 64)[0]:
        assert p == pytest.approx(weights[tuple(labels)] ** (1 / 3) / total, abs=1e-6)
    marginals = model.predict_marginals(X[:1])[0]
    held = sum(p ** (1 / 3) / total for labels, p in weights.items() if labels[1] == "y")
    assert marginals[1]["y"] == pytest.approx(held, abs=1e-6)


# --- fitting --------------------------------------------------------------------------------------


def test_the_temperature_makes_held_out_labels_most_likely(fitted, entities):
    X, y = entities[2:]
    raw = fitted.uncalibrated()
    # those with a label that is new say nothing
    known = np.isfinite(raw.sequence_log_probabilities(X, y))

    def likelihood(temperature):
        return np.array(with_temperature(raw, temperature).sequence_log_probabilities(X, y))[
            known
        ].sum()

    likelihoods = {t: likelihood(t) for t in np.geomspace(0.3, 6, 40)}
    best = max(likelihoods, key=likelihoods.get)
    model = fitted.uncalibrated().calibrate(X, y)
    assert model.temperature_ == pytest.approx(best, rel=0.1)
    record = model.training_["calibration"]
    assert record["method"] == "temperature"
    assert record["sentences"] == known.sum()
    assert record["log_likelihood_per_token"] >= record["uncalibrated_log_likelihood_per_token"]


def test_calibration_changes_no_label_and_can_be_left_out(fitted, entities):
    X, y = entities[2:]
    raw = fitted.uncalibrated()
    model = fitted.uncalibrated().calibrate(X, y, method="isotonic")
    for decoder in ("viterbi", "marginal", "mbr"):
        before, after = raw.decode(X[:9], decoder), model.decode(X[:9], decoder)
        assert [d.labels for d in after] == [d.labels for d in before]
        assert [d.score for d in after] == [d.score for d in before]
    assert model.predict_spans(X) != raw.predict_spans(X)
    assert model.uncalibrated().predict_spans(X) == raw.predict_spans(X)
    assert model.scored(X).raw.marginals() == raw.predict_marginals(X)
    assert model._calibration is not None
    assert raw._calibration is None


def test_isotonic_maps_keep_the_order_and_are_distributions(fitted, entities):
    X, y = entities[2:]
    by_temperature = fitted.uncalibrated().calibrate(X, y)
    model = fitted.uncalibrated().calibrate(X, y, method="isotonic")
    assert model.temperature_ == by_temperature.temperature_
    pairs = [
        (a.probability, b.probability)
        for before, after in zip(
            by_temperature.predict_spans(X), model.predict_spans(X), strict=True
        )
        for a, b in zip(before, after, strict=True)
    ]
    said, mapped = np.array(sorted(pairs)).T
    assert (np.diff(mapped)[np.diff(said) > 1e-9] > 0).all()
    for row in (row for rows in model.predict_marginals(X[:5]) for row in rows):
        assert sum(row.values()) == pytest.approx(1.0)
    assert model.predict_marginals(X[:1], forced=[["O"] * len(X[0])])[0][0]["O"] == 1.0
    assert (
        model.span_probabilities([["Ada"]], [[Span(0, 1, "PER")]], forced=[["B-PER"]])[0][
            0
        ].probability
        == 1.0
    )


def test_a_map_says_how_often_it_is_right():
    rng = np.random.default_rng(0)
    said = rng.uniform(0.3, 1.0, 5000)
    fit = MonotoneMap.fit(said, rng.uniform(size=5000) < said**2)
    places = np.linspace(0.35, 0.95, 13)
    assert np.abs(fit(places) - places**2).max() < 0.06
    assert len(fit.said) == 50
    assert MonotoneMap.fit(np.full(60, 0.7), np.arange(60) < 45)(np.array(0.7)) == pytest.approx(
        0.75, abs=0.01
    )


@pytest.mark.slow
def test_cross_fitting_uses_the_training_data_alone(entities):
    X, y = entities[:2]
    model = CRF(n_jobs=1, max_iter=20, l2=0.01).fit(X, y)
    weights = model.weights_.copy()
    crossed = model.calibrate(X, y, folds=4).temperature_
    assert (model.weights_ == weights).all()

    def likelihood(temperature):
        total = 0.0
        for a in range(0, 40, 10):
            other = CRF(n_jobs=1, max_iter=20, l2=0.01).fit(
                [*X[:a], *X[a + 10 :]], [*y[:a], *y[a + 10 :]]
            )
            p = with_temperature(other, temperature).sequence_log_probabilities(
                X[a : a + 10], y[a : a + 10]
            )
            total += sum(filter(math.isfinite, p))
        return total

    assert likelihood(crossed) > max(likelihood(0.8 * crossed), likelihood(1.25 * crossed))
    corpus = Corpus.from_sequences(X, y)
    assert model.calibrate(corpus, folds=4).temperature_ == crossed
    for folds in (1, 41):
        with pytest.raises(OptionError, match=r"^folds: "):
            model.calibrate(X, y, folds=folds)


def test_what_cannot_be_fitted_is_refused(fitted, entities):
    X, y = entities[2:]
    model = fitted.uncalibrated()
    with pytest.raises(
        OptionError, match=r"^method: expected one of temperature, isotonic, got 'platt'$"
    ):
        model.calibrate(X, y, method="platt")
    with pytest.raises(
        OptionError,
        match=r"^calibrate: isotonic regression needs 50 entities of held-out sentences, got",
    ):
        model.calibrate(X[:2], y[:2], method="isotonic")
    with pytest.raises(CorpusError, match=r"^calibrate: y: sentence 0 has 1 labels"):
        model.calibrate(X, [["O"], *y[1:]])
    assert model.temperature_ is None


def test_what_is_unknown_says_nothing(fitted, entities):
    """Sentences without labels change nothing, in files (_) as in Python; of them alone, nothing is
    fitted."""
    X, y = entities[2:]
    model = fitted.uncalibrated()
    known = model.calibrate(X, y).training_["calibration"]
    for unknown in (None, "_"):
        more = model.calibrate([*X, *X[:5]], [*y, *([unknown] * len(x) for x in X[:5])]).training_[
            "calibration"
        ]
        assert more["left_out"] == known["left_out"] | {"unknown": 5}
        assert {**more, "left_out": 0, "seconds": 0} == {**known, "left_out": 0, "seconds": 0}
        with pytest.raises(
            OptionError, match=r"^calibrate: no held-out token has a label; label some of them$"
        ):
            model.uncalibrated().calibrate(X, [[unknown] * len(x) for x in X])
    n_impossible = int((~np.isfinite(model.sequence_log_probabilities(X, y))).sum())
    assert n_impossible > 0
    assert known["left_out"] == {"unknown": 0, "impossible": n_impossible}
    assert known["sentences"] + n_impossible == len(X)


def test_maps_are_fitted_on_what_is_known(fitted, entities):
    """Open labels are no wrong ones: entities without an open label in or beside them shape the
    map."""
    X, y = entities[2:]
    model = fitted.uncalibrated()
    extra = ["and", "."]
    some = [
        [*labels, "O", label]
        for labels, label in zip(y, [None, {"O", "B-PER"}] * len(y), strict=False)
    ]
    open_ended = model.calibrate([x + extra for x in X], some, method="isotonic")._calibration
    whole = model.calibrate(
        [x + extra for x in X], [[*labels, "O", "O"] for labels in y], method="isotonic"
    )
    at = np.linspace(0.3, 1, 8)
    np.testing.assert_allclose(open_ended.span(at), whole._calibration.span(at), atol=0.02)


@pytest.mark.parametrize("name", ["crf", "perceptron", "semi-crf", "memory"])
def test_without_sentences_nothing_is_fitted(name):
    model = trained(name)
    with pytest.raises(OptionError, match=r"^calibrate: no held-out sentences$"):
        model.calibrate([], [])


def test_saturated_probabilities_are_as_often_right_as_others_say():
    """Two of five predictions are within 1e-9 of 1, and not always right."""
    rng = np.random.default_rng(3)
    digits = np.where(rng.random(4000) < 0.4, rng.uniform(9, 15, 4000), rng.uniform(0.2, 5, 4000))
    said, right = 1 - 10**-digits, rng.random(4000) < np.minimum(0.97, 0.6 + 0.08 * digits)
    fit, saturated = MonotoneMap.fit(said, right), digits > 9
    assert fit(said[saturated]).mean() == pytest.approx(right[saturated].mean(), abs=0.005)
    assert fit(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    rows = np.array(
        [[1.0, 1e-18, 2e-18], [1 - 1e-12, 1e-12, 0.0], [0.0, 1.0, 0.0], [0.34, 0.33, 0.33]]
    )
    mapped = Calibration(1.0, token=fit).token_probabilities(rows)
    assert mapped.sum(axis=1).tolist() == pytest.approx([1.0] * 4)
    assert mapped[:2, 0].tolist() == pytest.approx([right[saturated].mean()] * 2, abs=0.005)
    assert mapped[2].tolist() == [0.0, 1.0, 0.0]  # a label that is known
    assert mapped[3].argmax() == 0
    assert mapped[0, 2] == pytest.approx(2 * mapped[0, 1])


@pytest.mark.cases(1)
@pytest.mark.parametrize("inference", ["csi", "vote", "none"])
@pytest.mark.parametrize("name", ["memory", "ngram"])
def test_taggers_over_ngrams_have_confidences(name, inference, monkeypatch, tmp_path):
    monkeypatch.setattr(calibrating, "LEAST", 10)
    X, y = words(60, 5)
    model = MemoryTagger(inference=inference, n_jobs=1)
    if name == "ngram":
        naive_bayes = pytest.importorskip("sklearn.naive_bayes")
        model = NgramTagger(naive_bayes.MultinomialNB(), inference=inference, n_jobs=1)
    labels = model.fit(X, y).predict(X)
    with pytest.raises(
        OptionError, match="r has scores, not probabilities; calibrate it on held-out data first"
    ):
        model.predict_confidences(X)
    new, gold = words(60, 6)
    assert not model._is_sure
    assert model.calibrate(new, gold, method="isotonic")._is_sure
    assert not model._probabilistic
    assert model.predict(X) == labels
    rows = [list(row.values()) for sentence in model.predict_confidences(new) for row in sentence]
    np.testing.assert_allclose(np.sum(rows, axis=1), 1.0)
    spans = model.span_confidences(new, model.predict_spans(new))
    said = np.array([span.probability for row in spans for span in row])
    true = [{span[:3] for span in spans_of(labels)} for labels in gold]
    right = [span[:3] in known for row, known in zip(spans, true, strict=True) for span in row]
    assert said.mean() == pytest.approx(np.mean(right), abs=0.05)
    assert all(
        record.log_probability is None and 0 < record.confidence < 1 for record in model.decode(new)
    )
    assert all(0 <= p <= 1 for p in model.occurrence_confidences(new, "X"))
    with pytest.raises(
        OptionError, match=r"^span_probabilities: .* calibrate it and use span_confidences"
    ):
        model.span_probabilities(new, spans)
    assert sum(map(len, model.predict_confident(new, 0.0))) == sum(map(len, new))
    if name == "memory":
        model.save(tmp_path / "m")
        loaded = labelwright.load(tmp_path / "m")
        assert loaded._calibration == model._calibration
        assert loaded.predict_confidences(new) == model.predict_confidences(new)
        assert model.partial_fit(new, gold).temperature_ is None
    assert model.calibrate(X, y, folds=2).temperature_ > 0
    assert model.fit(X, y).temperature_ is None


@pytest.mark.parametrize("name", ["crf", "latent-crf", "perceptron"])
def test_a_model_that_learns_more_forgets_what_was_found_of_its_weights(name):
    make, data = MODELS[name]
    dev = data(3, 20)
    model = (
        make().set_params(max_iter=5).fit(*data(0, 20), dev=dev).calibrate(*dev).compressed(bits=16)
    )
    model.training_["columns"] = ["word", "label"]
    assert {"calibration", "best_dev", "best_iteration", "compressed"} <= set(model.training_)
    model.partial_fit(*data(1, 5))
    assert model.temperature_ is None
    assert not {"calibration", "best_dev", "best_iteration", "compressed"} & set(model.training_)
    assert model.training_["columns"] == ["word", "label"]
    assert model.training_["sentences"] == 25


# --- cascades and files ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def layered():
    made = builtin_corpus(50, random_state=2)
    y = {name: made.column(name) for name in ("pos", "entity")}
    X, n = made.column("word"), 20
    return X[:n], {k: v[:n] for k, v in y.items()}, X[n:], {k: v[n:] for k, v in y.items()}


@pytest.mark.cases(1)
@pytest.mark.parametrize("passing", ["marginal", "nbest", "sample"])
def test_a_cascade_is_calibrated_layer_by_layer(layered, passing, tmp_path):
    X, y, new, gold = layered
    layers = [("pos", CRF(max_iter=5)), ("entity", SemiCRF(max_iter=5))]
    model = Cascade(layers, passing=passing, n_jobs=1).fit(X, y)
    raw = model.predict(new), model.predict_marginals(new)
    assert model.calibrate(new, gold) is model
    temperatures = {name: layer.temperature_ for name, layer in model.layers_.items()}
    assert None not in temperatures.values()
    assert model.predict(new) == raw[0]  # and what is passed upwards stays the same
    model.save(tmp_path / "m")
    loaded = labelwright.load(tmp_path / "m")
    assert {name: layer.temperature_ for name, layer in loaded.layers_.items()} == temperatures
    assert loaded.training_["layers"]["pos"]["calibration"]["temperature"] == temperatures["pos"]
    assert loaded.predict_marginals(new) == model.predict_marginals(new) != raw[1]
    assert model.uncalibrated().predict_marginals(new) == raw[1]


def test_cross_fitting_of_a_cascade(layered):
    X, y, *_ = layered
    model = Cascade(
        [("pos", CRF(max_iter=3)), ("entity", CRF(max_iter=3))], passing="best", n_jobs=1
    ).fit(X, y)
    assert all(layer.temperature_ > 0 for layer in model.calibrate(X, y, folds=2).layers_.values())
    with pytest.raises(OptionError, match=r"^layer pos: method: expected one of"):
        model.calibrate(X, y, method="platt")


def test_a_cascade_with_labels_that_are_known_in_part(layered):
    X, y, new, gold = layered
    model = Cascade(
        [("pos", CRF(max_iter=5)), ("entity", CRF(max_iter=5))], passing="best", n_jobs=1
    ).fit(X, y)
    some = gold | {
        "entity": [
            labels if n % 2 else ["_"] * len(labels) for n, labels in enumerate(gold["entity"])
        ]
    }
    records = model.calibrate(new, some).training_["layers"]
    assert records["entity"]["calibration"]["left_out"]["unknown"] == 15
    assert records["pos"]["calibration"]["left_out"]["unknown"] == 0
    with pytest.raises(
        OptionError, match=r"^layer entity: calibrate: no held-out token has a label"
    ):
        model.calibrate(new, gold | {"entity": [["_"] * len(labels) for labels in gold["entity"]]})


@pytest.mark.parametrize("kind", ["crf", "cascade"])
def test_ctrl_c_in_a_fold_ends_cross_fitting(layered, kind, monkeypatch):
    """A copy whose training was cut short says nothing about the model."""
    X, y, *_ = layered
    layers = [("pos", CRF(max_iter=5)), ("entity", CRF(max_iter=5))]
    model = (
        CRF(max_iter=5, n_jobs=1) if kind == "crf" else Cascade(layers, passing="best", n_jobs=1)
    )
    gold = y["entity"] if kind == "crf" else y
    model.fit(X, gold)
    fit = CRF.fit

    def disturbed(self, *given, **options):
        options["progress"] = lambda record, limit: signal.raise_signal(signal.SIGINT)
        return fit(self, *given, **options)

    monkeypatch.setattr(CRF, "fit", disturbed)
    with pytest.raises(KeyboardInterrupt):
        model.calibrate(X, gold, folds=2)
    assert all(tagger.temperature_ is None for tagger in model._outputs.values())


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"temperature": 0}, "temperature: expected a number above 0"),
        (
            {"temperature": 1.0, "span": {"said": [0.5, 0.2], "right": [0.1, 0.2]}},
            "said: expected numbers that never fall",
        ),
        (
            {"temperature": 1.0, "span": {"said": [0.5], "right": [1.5]}},
            "right: expected as many numbers between 0 and 1",
        ),
        (
            {"temperature": 1.0, "token": {"said": [0.5], "right": []}},
            "right: expected as many numbers between 0 and 1",
        ),
    ],
)
def test_calibrations_of_files_are_checked(fitted, record, problem):
    tensors, header = fitted.uncalibrated().pack()
    header = json.loads(json.dumps(header))
    header["training"]["calibration"] = {"sentences": 10, "log_likelihood_per_token": -0.5} | record
    with pytest.raises(ModelFileError, match=problem):
        CRF.unpack(tensors, header)


def test_a_perceptron_has_confidences_that_something_occurs():
    X, y = words(20, 3)
    model = Perceptron(STATES, n_jobs=1, max_iter=3).fit(X, y)
    with pytest.raises(OptionError, match="calibrate it and use occurrence_confidences"):
        model.occurrence_probabilities(X, "X")
    with pytest.raises(OptionError, match="calibrate it on held-out data"):
        model.occurrence_confidences(X, "X")
    model.calibrate(*words(20, 4))
    truth = Truth(model, NEW).tempered(model.temperature_)
    wanted = sum(math.exp(q) for labels, q in truth.items() if spans_by_hand(labels))
    assert model.occurrence_confidences([NEW], "X")[0] == pytest.approx(wanted, abs=1e-6)


# --- what is probable enough ----------------------------------------------------------------------


def test_labels_without_doubtful_entities(fitted, entities):
    X = entities[2]
    model = fitted.uncalibrated()
    spans, labels = model.predict_spans(X), model.predict(X)
    assert model.predict_confident(X, 0.0) == labels
    least = float(np.median([span.probability for row in spans for span in row]))
    for before, after, row in zip(labels, model.predict_confident(X, least), spans, strict=True):
        kept = {t for span in row if span.probability >= least for t in range(span.start, span.end)}
        assert after == [label if t in kept else "O" for t, label in enumerate(before)]


@pytest.mark.parametrize("make", [Perceptron, MemoryTagger])
def test_without_probabilities_nothing_is_probable_enough(make):
    X, y = words(6, 1)
    with pytest.raises(
        OptionError, match=r"^predict_confident: a \w+ has scores, not probabilities; "
    ):
        make(n_jobs=1).fit(X, y).predict_confident(X, 0.5)
