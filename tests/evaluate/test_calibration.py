"""Reliability, calibration error and coverage, against plain loops."""

import json

import numpy as np
import pytest

from labelwright import CRF, Cascade, MemoryTagger, Perceptron, Span
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.errors import OptionError
from labelwright.evaluate import calibration_report
from labelwright.evaluate.calibration import Judged, judged, reliability


def made_up(n, wrong=0.0, seed=0):
    """Predictions that are right as often as they say, less a share."""
    rng = np.random.default_rng(seed)
    said = rng.beta(4, 1, n)
    return Judged(said, rng.uniform(size=n) < said * (1 - wrong), "entity", 2 * n)


def test_errors_by_hand():
    seen = made_up(173)
    report = reliability(seen, bins=7)
    order = sorted(range(173), key=lambda i: seen.said[i])
    parts = [[order[i] for i in part] for part in np.array_split(np.arange(173), 7)]
    gaps = [len(p) * abs(np.mean(seen.said[p]) - np.mean(seen.right[p])) for p in parts]
    assert report.ece == pytest.approx(sum(gaps) / 173)
    assert report.brier == pytest.approx(
        np.mean([(p - r) ** 2 for p, r in zip(seen.said, seen.right, strict=True)])
    )
    assert [each.n for each in report.bins] == [len(p) for p in parts]
    assert all(a.high <= b.low for a, b in zip(report.bins, report.bins[1:], strict=False))


def test_honest_probabilities_have_no_error_and_others_have_theirs():
    assert reliability(made_up(20_000)).ece < 0.015
    # of 0.8 on average
    assert reliability(made_up(20_000, wrong=0.2)).ece == pytest.approx(0.16, abs=0.015)


def test_what_is_kept_at_a_precision():
    seen = made_up(300)
    for operation in reliability(seen).operations:
        best = (None, 0)
        for threshold in sorted(set(seen.said)):
            kept = seen.said >= threshold
            if seen.right[kept].mean() >= operation.precision and kept.sum() > best[1]:
                best = (threshold, kept.sum())
        assert operation.threshold == best[0]
        assert operation.kept == best[1] / 300
        kept = seen.said >= (2.0 if best[0] is None else best[0])
        assert operation.recall == seen.right[kept].sum() / seen.n_gold


def test_the_threshold_that_is_shown_keeps_no_less():
    said = np.array([0.99999, 0.71239, 0.65006, 0.3])
    report = reliability(Judged(said, np.array([True, True, True, False]), "entity", 4))
    for operation in report.operations:
        assert f"threshold {operation.shown_threshold})" in str(report)
        assert (
            (said >= float(operation.shown_threshold)).sum()
            == (said >= operation.threshold).sum()
            == 3
        )
    assert report.operations[0].shown_threshold == "0.6500"
    best = reliability(Judged(said[:1], np.array([True]), "entity", 1)).operations[0]
    assert best.shown_threshold == "0.9999"


def test_equal_probabilities_are_kept_together():
    seen = Judged(np.array([0.9, 0.9, 0.5]), np.array([True, False, True]), "entity", 3)
    report = reliability(seen)
    assert [o.threshold for o in report.operations] == [None, None, None]
    assert report.curve == ((2 / 3, 0.5), (1.0, 2 / 3))
    assert "keep none of the entities" in str(report)


def test_nothing_predicted():
    report = reliability(Judged(np.empty(0), np.empty(0, bool), "entity", 3))
    assert report.n == 0
    assert report.operations[0].kept == 0.0
    assert str(report) == "calibration: no entities predicted"
    assert json.loads(json.dumps(report.as_dict()))["bins"] == []


def test_entities_are_right_as_a_whole():
    gold = [["B-PER", "I-PER", "O"], ["O"]]
    seen = judged(
        [[Span(0, 2, "PER", 0.9), Span(2, 3, "LOC", 0.2)], [Span(0, 1, "PER", 0.5)]],
        gold,
        ["O", "B-PER"],
    )
    assert seen.right.tolist() == [True, False, False]
    assert seen.n_gold == 1
    with pytest.raises(OptionError, match=r"^y: 2 sentences, but X has 1$"):
        judged([[]], gold, ["O"])


def test_entities_that_touch_an_unknown_label_are_left_out():
    gold = [["B-PER", "I-PER", "O", None, "O", "B-LOC"], ["B-PER", None], [None, "I-LOC", "O", "O"]]
    entities = [
        [
            Span(0, 2, "PER", 0.9),
            Span(2, 3, "LOC", 0.8),
            Span(3, 5, "LOC", 0.7),
            Span(5, 6, "LOC", 0.6),
        ],
        [Span(0, 1, "PER", 0.5)],
        [Span(1, 2, "LOC", 0.4), Span(3, 4, "LOC", 0.3)],
    ]
    seen = judged(entities, gold, ["O", "B-PER"])
    assert seen.said.tolist() == [0.9, 0.6, 0.3]
    assert seen.right.tolist() == [True, True, False]
    assert seen.n_gold == 2
    tokens = judged([[Span(t, t + 1, "N", 0.5) for t in range(3)]], [["N", None, "V"]], ["N", "V"])
    assert tokens.right.tolist() == [True, False]
    assert tokens.n_gold == 2


def test_of_labels_that_are_known_in_part():
    made = builtin_corpus(60, random_state=1)
    X, y = made.column("word"), made.column("entity")
    model = CRF(n_jobs=1, max_iter=10).fit(X[:30], y[:30])
    whole = calibration_report(model, X[30:50], y[30:50])
    for unknown in (None, "_"):
        nothing = [[unknown] * len(x) for x in X[50:]]
        assert calibration_report(model, X[30:], [*y[30:50], *nothing]) == whole
    predicted = model.predict(X[30:])
    sets = [[{label, "B-other"} for label in labels] for labels in predicted]
    assert calibration_report(model, X[30:], sets).right == 1.0
    assert (
        calibration_report(model, X[30:], [[{"B-other", "I-other"}] * len(x) for x in X[30:]]).right
        == 0.0
    )
    with pytest.raises(
        OptionError, match=r"^y: sentence 1 has 1 labels, but X has \d+ tokens there$"
    ):
        calibration_report(model, X[30:], [y[30], ["O"], *y[32:]])


def test_of_a_model():
    made = builtin_corpus(60, random_state=1)
    X, y = made.column("word"), made.column("entity")
    model = CRF(n_jobs=1, max_iter=10).fit(X[:30], y[:30])
    report = calibration_report(model, X[30:], y[30:])
    spans = [span for spans in model.predict_spans(X[30:]) for span in spans]
    assert report.n == len(spans)
    assert report.said == pytest.approx(np.mean([span.probability for span in spans]))
    assert report == calibration_report(model, Corpus.from_sequences(X[30:], y[30:]))
    assert report.unit == "entity"
    assert "expected calibration error" in str(report)
    pos = made.column("pos")
    tokens = calibration_report(CRF(n_jobs=1, max_iter=5).fit(X[:30], pos[:30]), X[30:], pos[30:])
    assert tokens.unit == "token"
    assert tokens.n == tokens.n_gold == sum(map(len, X[30:]))
    with pytest.raises(OptionError, match="give the true labels"):
        calibration_report(model, X)


def test_numbers_that_are_no_probabilities_are_called_confidence():
    made = builtin_corpus(60, random_state=1)
    X, y = made.column("word"), made.column("entity")
    for tagger in (
        Perceptron(n_jobs=1, max_iter=3),
        MemoryTagger(n_jobs=1),
        CRF(n_jobs=1, max_iter=10),
    ):
        report = calibration_report(
            tagger.fit(X[:30], y[:30]).calibrate(X[30:], y[30:]), X[30:], y[30:]
        )
        measure = "probability" if isinstance(tagger, CRF) else "confidence"
        assert report.measure == report.as_dict()["measure"] == measure
        assert str(report).startswith(measure)


def test_of_a_layer_and_of_models_without_probabilities():
    made = builtin_corpus(20, random_state=1)
    X, y = made.column("word"), {name: made.column(name) for name in ("pos", "entity")}
    model = Cascade(
        [("pos", CRF(max_iter=3)), ("entity", CRF(max_iter=3))], passing="best", n_jobs=1
    ).fit(X, y)
    assert calibration_report(model, X, y["entity"], layer="entity").unit == "entity"
    with pytest.raises(OptionError, match=r"^layer: expected one of pos, entity, got 'chunk'$"):
        calibration_report(model, X, y["pos"], layer="chunk")
    for tagger in (Perceptron(n_jobs=1, max_iter=2), MemoryTagger(n_jobs=1)):
        with pytest.raises(OptionError, match="has scores, not probabilities; calibrate it first"):
            calibration_report(tagger.fit(X, y["entity"]), X, y["entity"])
