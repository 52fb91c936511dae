"""Models of Wapiti: what the program says of the same sentences, and files that nobody should read.

tests/data/wapiti holds a model that wapiti train wrote (1.5.0), and what wapiti label -s -n 3 says
with it, once by scores (viterbi.txt) and once with -p by the probabilities of labels
(posterior.txt), printing twelve digits."""

from pathlib import Path

import numpy as np
import pytest
from pattern_models import PatternModel, as_wapiti, damaged, trouble

import labelwright
from labelwright.errors import ModelFileError
from labelwright.features.template import Reader, apply
from labelwright.interchange import observations, wapiti

DATA = Path(__file__).parents[1] / "data" / "wapiti"
SMALL = as_wapiti(
    PatternModel(
        ["u:%x[0,0]", 'u1:%m[0,0,"a?b"]', "*:%x[-1,0]", "b"],
        ["N", "V"],
        {
            b"u:dog": [0.5, 0.25],
            b"u1:ab": [0, 0.75],
            b"*:_x-1": [1, 0.0, 2.0, 0, 0, 0],
            b"b": [0.5, 1.0, 0, -1.0],
        },
        "_x",
        5,
    )
)


def read_answers(name):
    """Sentences as columns, and their labellings: labels, the number of the whole, a number for
    each token."""
    sentences = []
    for block in (DATA / name).read_text(encoding="utf-8").strip().split("\n\n"):
        head, *lines = block.split("\n")
        _, number, score = head.split()
        rows = [line.split("\t") for line in lines]
        if number == "0":
            sentences.append(([tuple(row[0].split(" ")) for row in rows], []))
        labels, scores = (
            [row[1] for row in rows],
            [float(row[2].rpartition("/")[2]) for row in rows],
        )
        sentences[-1][1].append((labels, float(score), scores))
    return sentences


@pytest.fixture(scope="module")
def model():
    return wapiti.read((DATA / "model.txt").read_bytes(), "model.txt")


def test_the_best_labellings_and_their_scores_are_those_of_wapiti(model):
    answers = read_answers("viterbi.txt")
    X = [columns for columns, _ in answers]
    assert len(X) == 5
    assert model.predict(X) == [best[0][0] for _, best in answers]
    for ours, (columns, theirs) in zip(model.predict_nbest(X, 3), answers, strict=True):
        if len(columns) > 1:  # of one token, Wapiti repeats the best labelling
            assert [labels for labels, _ in ours] == [labels for labels, _, _ in theirs]
            odds = np.log([p for _, p in ours])
            scores = np.array([score for _, score, _ in theirs])
            assert np.allclose(odds - odds[0], scores - scores[0], rtol=0, atol=1e-9)


def test_the_probabilities_of_labels_are_those_of_wapiti(model):
    answers = read_answers("posterior.txt")
    marginals = model.predict_marginals([columns for columns, _ in answers])
    for rows, (_, labellings) in zip(marginals, answers, strict=True):
        for labels, _, theirs in labellings:
            ours = [row[label] for row, label in zip(rows, labels, strict=True)]
            assert np.allclose(ours, theirs, rtol=0, atol=1e-9)


def test_the_patterns_come_along(model):
    lines = [pattern.text for pattern in model._extractor.vocabulary.template.patterns]
    assert lines[:5] == ["*", "u", "b", "u:w-1=%x[-1,0]", "u:w=%x[0,0]"]
    assert 'u:pre=%byte_match[0,0,"^.?.?"]' in lines
    assert model.reads().columns == ("word", "pos")
    assert model.classes_ == ["O", "B-LOC", "B-PER", "I-PER", "I-LOC"]


def test_a_saved_model_answers_the_same(model, tmp_path):
    X = [columns for columns, _ in read_answers("viterbi.txt")]
    model.save(tmp_path / "crf.model")
    loaded = labelwright.load(tmp_path / "crf.model")
    assert loaded.weights_.dtype == np.float64
    assert loaded.predict_marginals(X) == model.predict_marginals(X)


def test_it_learns_on_with_new_words(model):
    sentence = [[("Oslo", "NNP"), ("fell", "VBD")]]
    grown = labelwright.CRF(template=model.template, n_jobs=1, max_iter=3).fit(
        sentence, [["B-LOC", "O"]], init=model
    )
    assert grown.predict(sentence) == [["B-LOC", "O"]]


def test_older_files_and_decimal_weights_are_read_too():
    old = SMALL.replace(b"#mdl#2#", b"#mdl#").replace(b"#rdr#4/0/0", b"#rdr#4/0")
    old = old.replace(b"=0x1.0000000000000p-1", b"=0.5").replace(
        b"=0x1.8000000000000p-1", b"=+7.5e-1"
    )
    assert b"=0x1.0" in old  # others stay
    assert b"=0.5\n" in old
    assert np.array_equal(wapiti.read(old, "m").weights_, wapiti.read(SMALL, "m").weights_)


def test_what_looks_like_a_model():
    assert wapiti.looks_like(SMALL)
    assert not wapiti.looks_like(b"version: 100\ncost-factor: 1\n")


def test_functions_on_bytes_know_ascii_alone():
    values = ["École", "ÉCOLE", "x1", "ß"]
    assert apply(Reader(0, "byte_match", "^.?.?.?"), values) == ["Éc", "ÉC", "x1", "ß"]
    assert apply(Reader(0, "byte_match", "^."), ["É"]) == ["\udcc3"]
    assert apply(Reader(0, "byte_lower_match", "^.?.?.?"), values) == ["Éc", "Éc", "x1", "ß"]
    assert apply(Reader(0, "byte_lower"), values) == ["École", "École", "x1", "ß"]
    assert apply(Reader(0, "byte_test", r"^\u"), values) == ["false", "false", "false", "false"]
    assert apply(Reader(0, "byte_test", r"\l\D"), values) == ["true", "false", "false", "false"]
    assert apply(Reader(0, "byte_test", "É?c"), values) == ["true", "false", "false", "false"]
    assert apply(Reader(0, "byte_lower"), ["\ud800A"]) == ["\ud800a"]
    assert apply(Reader(0, "byte_match", "."), ["\ud800A"]) == ["\udced"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"#mdl#2#", b"#mdl#1#", "is a MEMM of Wapiti"),
        (b"#mdl#2#", b"#mdl#3#", "got kind 3"),
        (b"#mdl#2#", b"#mdl#x#", ":1: expected #mdl#kind#number of weights"),
        (b"#rdr#4/0/0", b"#rdr#4/0/1", "takes every token for a sequence (--me)"),
        (b"#rdr#4/0/0", b"#rdr#0/0/0", "has no patterns"),
        (b"#rdr#4/0/0", b"#rdr#5/0/0", ":7: expected a pattern as length:text,"),
        (b"#rdr#4/0/0", b"#rdr#3/0/0", ":6: expected #qrk# and the number of labels, got '1:b,"),
        (b"9:u:%x[0,0],", b"9:u:%y[0,0],", "pattern 'u:%y[0,0]': expected %x[row,column]"),
        (b"9:u:%x[0,0],", b"9:t:%x[0,0],", "pattern 't:%x[0,0]': expected u, b or * first"),
        (b"9:u:%x[0,0],", b"10:u:%x[@0,0],", "pattern 'u:%x[@0,0]': no row @0"),
        (
            b"9:u:%x[0,0],",
            b"10:u:%x[00,0],",
            "pattern 'u:%x[00,0]': expected rows and columns as numbers",
        ),
        (b"9:u:%x[0,0],", b"10:u:%x[0,-1],", "pattern 'u:%x[0,-1]': the column cannot be negative"),
        (
            b"9:u:%x[0,0],",
            b"11:u: #%x[0,0],",
            "pattern 'u: #%x[0,0]': a template here cannot hold this text",
        ),
        (b"9:u:%x[0,0],", b"10:u:\n%x[0,0],", r"pattern 'u:\n%x[0,0]': a pattern begins with"),
        (b'"a?b"', b'"?ab"', "in the regular expression"),
        (b"9:u:%x[0,0],", b"9:u:%x[0,0],,", ":3: expected a pattern of 9 bytes and a comma"),
        (b"9:u:%x[0,0],", b"8:u:%x[0,0],", ":3: expected a pattern of 8 bytes and a comma"),
        (b"1:N,\n1:V,", b"1:N,\n1:N,", "labels: expected one or more, none twice"),
        (b"1:V,", b"1:\xe9,", "is not in UTF-8"),
        (b"1:V,", b"2:V\n,", r"labels: the label 'V\n' holds a newline, so no file can hold it"),
        (b"1:V,", b"0:,", "labels: the label '' is empty"),
        (b"5:u:dog,", b"5:v:dog,", "observations: expected u, b or * first"),
        (b"5:u:dog,", b"5:u1:ab,", "observations: expected one or more, none twice"),
        (b"5:u:dog,", b"5:u:\xe9\xe9\xe9,", "fits no pattern of the model, or is not in UTF-8"),
        (b"5:u1:ab,", b"6:u1:abc,", "'u1:abc' fits no pattern of the model"),
        (b"\n0=", b"\n99=", "weights: expected each number once and below 14"),
        (b"\n0=", b"\n1=", "weights: expected each number once and below 14"),
        (
            b"\n0=0x1",
            b"\n0=0y1",
            "weight '0=0y1.0000000000000p-1': expected a number and a finite value",
        ),
        (b"0x1.0000000000000p+1", b"0x1p+9999", "expected a number and a finite value"),
        (b"0x1.0000000000000p+1", b"nan", "expected a number and a finite value"),
        (b"#mdl#2#8", b"#mdl#2#9", "expected 9 weights, got 8"),
    ],
)
def test_what_does_not_fit_is_refused(old, new, message):
    assert old in SMALL
    with pytest.raises(ModelFileError) as error:
        wapiti.read(SMALL.replace(old, new), "model.txt")
    assert str(error.value).startswith("model.txt:")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_places_far_outside_take_no_room_of_their_own(monkeypatch):
    applied = []
    apply_all = observations.apply
    monkeypatch.setattr(
        observations,
        "apply",
        lambda reader, texts: applied.append(len(texts)) or apply_all(reader, texts),
    )
    patterns = [f"u{n}:%x[-{5000 + n},0]/%x[5000,0]" for n in range(20)]
    weights = {b"u3:_x-1/a": [0.5, 0.0], b"u3:_x-4/a": [0.25, 0.0], b"b": [0.5, 1.0, 0, -1.0]}
    model = wapiti.read(
        as_wapiti(PatternModel([*patterns, "b"], ["N", "V"], weights, "_x", 5)), "m"
    )
    assert model._extractor.n_features == 2
    assert sum(applied) <= 10  # the texts of all places that the model can read, once
    far = PatternModel(
        ["u:%x[-9,0]", "u:%x[-7,0]", "b"],
        ["N", "V"],
        {b"u:_x-#": [1.0, 0], b"u:_x-2": [1.0, 0]},
        "_x",
        5,
    )
    assert wapiti.read(as_wapiti(far), "m")._extractor.n_features == 6  # -9 to -5, and -2


def test_damage_is_one_error():
    errors = [error for data in damaged(SMALL) if (error := trouble(wapiti.read, data)) is not None]
    assert len(errors) > 100
    assert {type(error) for error in errors} == {ModelFileError}
    assert not any("\n" in str(error) for error in errors)
