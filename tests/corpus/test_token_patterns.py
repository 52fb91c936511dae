"""Token patterns that a model may remember: those that no text makes slow."""

import re

import pytest

from labelwright import CRF
from labelwright.corpus import Tokenizer
from labelwright.corpus.token_patterns import why_slow
from labelwright.corpus.tokenizer import tokenizer_of
from labelwright.errors import OptionError


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+|\S",
        r"\w+(?:-\w+)*",
        r"[A-Z]\.(?:[A-Z]\.)+",
        r"\d+(?:[.,]\d+)*|\w+|\S",
        r"\$?\d+(?:\.\d+)?%?|\w+(?:['\u2019]\w+)?|[^\w\s]",
        r"https?://\S+|\w+(?:['-]\w+)*|[^\w\s]+",
        r"\w+(?:-\w+)*(?:\.\w+(?:-\w+)*)*",
        r"(?:\d{1,3}\.){3}\d{1,3}|(?<=\d)[.,](?=\d)|(?i:mr|dr)\.|\S",
        r"(\w|\d)+",  # which Python's parser makes one set of
    ],
)
def test_patterns_that_people_use_pass(pattern):
    assert why_slow(pattern) is None
    assert tokenizer_of({"pattern": pattern}).pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(\w+\s?)*$", "within a repeat"),
        ("(a*)*", "within a repeat"),
        ("(?:a{0,50}){0,50}", "within a repeat"),
        ("(?:x+x)+y", "within a repeat"),
        ("(a|aa)+", "alternatives"),
        (r"(\w|\d\d)+", "alternatives"),
        ("(?:[\u00e1-\u00f3]|[\u00e9-\u00fc]x)+", "alternatives"),
        ("(?i:(?:\u00c9|\u00e9a)+)", "alternatives"),
        (r"(a)\1", "backreference"),
        (r"(a)?(?(1)b|c)", "condition"),
        ("(?=a+)b", "lookahead"),
        ("a*a*a*a*b", "in a row"),
        ("(?:a*)?" * 5 + "b", "in a row"),
        ("a*b*" * 5 + "c", "in a row"),
        (r"(?:\w+(-\w+))*x", "within a repeat"),
        ("a?" * 100 + "a" * 100, "optional parts"),
        ("(?:a|aa)" * 50 + "b", "optional parts"),
        ("a" * 1001, "1,001 characters"),
    ],
)
def test_patterns_that_some_text_makes_slow_are_refused(pattern, reason):
    re.compile(pattern)
    assert reason in (why_slow(pattern) or "")
    with pytest.raises(OptionError, match=r"^token_pattern: no model may hold .*, which can be slow on some text: "):
        tokenizer_of({"pattern": pattern})
    assert Tokenizer(pattern=pattern).check().pattern == pattern  # users may do as they like


def test_training_refuses_what_loading_would_refuse():
    class Texts(list):
        tokenizer = Tokenizer(pattern="(a*)*")

    assert CRF()._tokenizer_of([["a"]]) is None
    with pytest.raises(OptionError, match="no model may hold"):
        CRF()._tokenizer_of(Texts())
