"""Likely mistakes in templates are told, before training."""

import warnings

import pytest

from labelwright import CRF
from labelwright.features import extract as module
from labelwright.features.extract import features_by_line, learn, mistakes, mistakes_in_use
from labelwright.features.template import parse_template

X = [["a", "b", "c", "dog", "sees"] * 10] * 5


@pytest.mark.parametrize(
    ("regex", "said"),
    [
        ("[A-Z]", "[A-Z] is not a set of characters here"),
        ("x[ab]", "[ab] is not a set of characters here"),
        ("a|e", "a|e is not an alternative here"),
        (r"\d+", r"\d+ is not a repetition here"),
        ("a{2}", "a{2} is not a repetition here"),
        ("(ab)", "(ab) is not a group here"),
        (r"\bx", r"\b is not a word boundary here"),
    ],
)
def test_regular_expressions_of_another_kind(regex, said):
    (line,) = mistakes(parse_template(f'B\nU01:%t[0,0,"{regex}"]', "my.tpl"))
    assert line.startswith(f'my.tpl:2: U01:%t[0,0,"{regex}"]: {said}, but these characters; ')


@pytest.mark.parametrize("regex", [r"\[\]", r"\+", "+", "^\\u*$", "|", "||", "(", "a?.*$"])
def test_what_may_be_meant_is_not_complained_of(regex):
    assert mistakes(parse_template(f'U01:%t[0,0,"{regex}"]')) == []


def test_two_lines_of_one_name():
    said = mistakes(
        parse_template("U1:%x[0,0]\nU1:%x[1,0]\nU1:%lower[0,0]\nU:%x[0,0]\nU:%x[1,0]", "t")
    )
    assert [line.split(": ")[0] for line in said] == ["t:2", "t:3"]
    assert "equal values of both are one feature" in said[0]
    assert "nobody can tell their features apart" in said[1]


def test_lines_that_never_match():
    extractor, *_ = learn(X[:1], 'U1:%t[0,0,"\\d"]\nU2:%m[0,0,"^q"]\nU3:%t[0,0,"o"]', 1)
    assert mistakes_in_use(extractor.vocabulary, 50) == []  # too few tokens to say so
    said = mistakes_in_use(extractor.vocabulary, 250)
    assert [line.split(": ")[0] for line in said] == ["template:1", "template:2"]
    assert said[0].endswith(r"\d never matches in the training data")
    extractor, *_ = learn(X[:1], "U1:%x[0,0]\nU2:%x[@1,0]/%x[@-1,0]/%x[0,0]", 11, may_be_empty=True)
    assert (
        "makes no feature that occurs often enough" in mistakes_in_use(extractor.vocabulary, 250)[0]
    )


def test_too_many_features(monkeypatch):
    monkeypatch.setattr(module, "MANY_FEATURES", 10)
    monkeypatch.setattr(module, "MANY_PER_TOKEN", 0.1)
    extractor, *_ = learn(X[:1], "U1:%x[0,0]\nU2:%x[0,0]/%x[1,0]\nB", 1, may_be_empty=True)
    assert {pattern.name: n for pattern, n in features_by_line(extractor.vocabulary).items()} == {
        "U1": 5,
        "U2": 6,
    }
    (line,) = mistakes_in_use(extractor.vocabulary, 50)
    assert line == (
        "template: makes 11 features of 50 tokens, 6 by U2, 5 by U1; leave lines out, or use "
        "min_count=2"
    )


def test_training_warns():
    with pytest.warns(UserWarning, match=r"^template:1: U1:.* never matches in the training data$"):
        CRF('U1:%t[0,0,"\\d"]\nU2:%x[0,0]', max_iter=1, n_jobs=1).fit(X, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CRF("chunking", max_iter=1, n_jobs=1).fit([[(w, w) for w in x] for x in X], X)  # built in
