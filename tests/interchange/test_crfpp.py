"""Text models of CRF++: what crf_test says of the same sentences, and files that nobody should
read.

tests/data/crfpp holds a model that crf_learn -t wrote, and what crf_test -v2 -n 3 says with it
(CRF++ 0.59, printing twelve digits)."""

from pathlib import Path

import numpy as np
import pytest
from pattern_models import PatternModel, as_crfpp, damaged, trouble

import labelwright
from labelwright.errors import ModelFileError
from labelwright.interchange import crfpp, observations

DATA = Path(__file__).parents[1] / "data" / "crfpp"
SMALL = as_crfpp(
    PatternModel(
        ["U1:%x[0,0]", "U2:%x[-1,0]/%x[0,0]", "B"],
        ["N", "V"],
        {b"U1:dog": [0.5, 0.25], b"U2:_B-1/dog": [1.0, 0.0], b"B": [0.5, 1.0, 0.0, -1.0]},
        "_B",
        99,
    )
)


def read_answers(text):
    """Sentences as columns, their best labellings with probabilities, and the probability of every
    label."""
    sentences = []
    for block in text.strip().split("\n\n"):
        head, *lines = block.split("\n")
        _, number, probability = head.split()
        rows = [line.split("\t") for line in lines]
        if number == "0":
            marginals = [
                {label: float(p) for label, _, p in (x.rpartition("/") for x in row[3:])}
                for row in rows
            ]
            sentences.append(([tuple(row[:2]) for row in rows], [], marginals))
        sentences[-1][1].append(([row[2].rpartition("/")[0] for row in rows], float(probability)))
    return sentences


@pytest.fixture(scope="module")
def model():
    return crfpp.read((DATA / "model.txt").read_bytes(), "model.txt")


@pytest.fixture(scope="module")
def answers():
    return read_answers((DATA / "nbest.txt").read_text(encoding="utf-8"))


def test_labels_and_probabilities_are_those_of_crf_test(model, answers):
    X = [columns for columns, _, _ in answers]
    assert len(X) == 5
    assert model.predict(X) == [best[0][0] for _, best, _ in answers]
    for ours, (_, theirs, _) in zip(model.predict_nbest(X, 3), answers, strict=True):
        assert [labels for labels, _ in ours] == [labels for labels, _ in theirs]
        assert np.allclose([p for _, p in ours], [p for _, p in theirs], rtol=0, atol=1e-6)
    for rows, (_, _, theirs) in zip(model.predict_marginals(X), answers, strict=True):
        for ours, wanted in zip(rows, theirs, strict=True):
            assert ours == pytest.approx(wanted, rel=0, abs=1e-6)


def test_the_template_comes_along(model):
    template = model._extractor.vocabulary.template
    assert [p.text for p in template.patterns][:2] == ["U00:%x[-2,0]", "U01:%x[-1,0]"]
    assert model.reads().columns == ("word", "pos")
    names = {model._extractor.name(f) for f in range(model._extractor.n_features)}
    assert {"U01:_B-1", "U04:Ada/Lind", "U12:_B+1", "Uw:_B-1", "Uw:_B+1", "B01:NN", "U"} <= names
    assert model.scheme_ == "iob2"
    assert model.training_["imported_from"] == "CRF++"


def test_a_saved_model_answers_the_same(model, answers, tmp_path):
    X = [columns for columns, _, _ in answers]
    model.save(tmp_path / "crf.model")
    assert labelwright.load(tmp_path / "crf.model").predict_marginals(X) == model.predict_marginals(
        X
    )


@pytest.mark.filterwarnings("ignore:.* has the name of line ")  # as the model has it
def test_it_learns_on_with_new_words(model):
    grown = labelwright.CRF(template=model.template, n_jobs=1, max_iter=3).fit(
        [[("Oslo", "NNP"), ("fell", "VBD")]], [["B-LOC", "O"]], init=model
    )
    assert grown.predict([[("Oslo", "NNP"), ("fell", "VBD")]]) == [["B-LOC", "O"]]


def test_the_cost_factor_scales_all_weights():
    twice = crfpp.read(SMALL.replace(b"cost-factor: 1", b"cost-factor: 2"), "m")
    assert np.array_equal(twice.weights_, 2 * crfpp.read(SMALL, "m").weights_)


def test_weights_times_the_cost_factor_stay_finite():
    small = SMALL.replace(b"cost-factor: 1", b"cost-factor: 1e30")
    with pytest.raises(ModelFileError, match=r"weights: expected finite numbers up to 1$"):
        crfpp.read(small.replace(b"0.2500000000000000", b"2.5"), "model.txt")


def test_a_value_with_the_separator_is_read_both_ways():
    data = SMALL.replace(b"U2:_B-1/dog", b"U2:a/b/c")
    names = crfpp.read(data, "m")._extractor.vocabulary
    assert sorted(names.values[next(iter(names.values))]) == ["a", "a/b", "b/c", "c", "dog"]


def test_what_looks_like_a_model():
    assert crfpp.looks_like(SMALL)
    assert not crfpp.looks_like(b"version: 100\n")
    assert not crfpp.looks_like(b"#mdl#2#0\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"version: 100", b"version: 200", "version: expected 100, got 200"),
        (b"cost-factor: 1", b"cost-factor: 0", "cost-factor: expected a number above 0, got '0'"),
        (b"maxid: 8", b"maxid: 9", "maxid: expected 8 weights of all features, got 9"),
        (b"maxid: 8", b"maxid: many", "maxid: expected a whole number, got 'many'"),
        (b"xsize: 1", b"xsize: 0", "xsize: expected from 1 to 10000 columns, got 0"),
        (
            b"N\nV",
            b"N\nV ",
            "labels: the label 'V ' begins or ends with a space, so no file can hold it",
        ),
        (b"N\nV", b"N\nV\r", r"labels: the label 'V\r' holds a carriage return"),
        (b"xsize", b"ysize", "expected version, cost-factor, maxid, xsize"),
        (b"N\nV", b"N\nN", "labels: expected none twice"),
        (
            b"U1:%x[0,0]",
            b"U1:%x[0,1]",
            "template 'U1:%x[0,1]': expected rows from -8 to 8 and columns below 1",
        ),
        (b"U1:%x[0,0]", b"U1:%x[9,0]", "template 'U1:%x[9,0]': expected rows"),
        (
            b"U1:%x[0,0]",
            b"U1:%y[0,0]",
            "template 'U1:%y[0,0]': expected %x[row,column], got another %",
        ),
        (b"U1:%x[0,0]", b"T1:%x[0,0]", "template 'T1:%x[0,0]': expected U or B first"),
        (
            b"U1:%x[0,0]",
            b"U1: #%x[0,0]",
            "pattern 'U1: #%x[0,0]': a template here cannot hold this text",
        ),
        (b"U1:%x[0,0]", b"U1:%x[0,0]\nU1:%x[0,0] ", "differ in spaces at the end alone"),
        (b"0 U1:dog", b"1 U1:dog", "feature 'U1:dog': expected the number 0, got 1"),
        (b"0 U1:dog", b"U1:dog", "feature 'U1:dog': expected a number and a feature of U or B"),
        (b"U1:dog", b"U9:dog", "'U9:dog' fits no pattern of the model"),
        (b"U1:dog", b"U1:\xe9", "fits no pattern of the model, or is not in UTF-8"),
        (b"N\nV", b"N\n\xe9", "is not in UTF-8"),
        (b"0.25", b"nan#", "weights: could not convert"),
        (b"0.2500000000000000", b"inf", "weights: expected finite numbers"),
        (b"0.2500000000000000\n", b"", "expected 8 weights, got 7"),
    ],
)
def test_what_does_not_fit_is_refused(old, new, message):
    assert old in SMALL
    with pytest.raises(ModelFileError) as error:
        crfpp.read(SMALL.replace(old, new), "model.txt")
    assert str(error.value).startswith("model.txt: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_texts_of_too_many_readings_are_refused(monkeypatch):
    monkeypatch.setattr(observations, "MOST_WORK", (20_000, 0))
    data = SMALL.replace(b"U2:%x[-1,0]/%x[0,0]", b"U2:" + b"%x[0,0]" * 8)
    with pytest.raises(
        ModelFileError, match=r"model.txt: 'U2:a+' and others can be read in too many ways"
    ):
        crfpp.read(data.replace(b"U2:_B-1/dog", b"U2:" + b"a" * 60), "model.txt")


def test_damage_is_one_error():
    errors = [error for data in damaged(SMALL) if (error := trouble(crfpp.read, data)) is not None]
    assert len(errors) > 100
    assert {type(error) for error in errors} == {ModelFileError}
    assert not any("\n" in str(error) for error in errors)
