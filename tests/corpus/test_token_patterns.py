"""Token patterns that a model may remember: those that no text makes slow."""

import re

import pytest

from labelwright import CRF
from labelwright.corpus import Tokenizer
from labelwright.corpus.token_patterns import LONGEST_TOKEN, WINDOW, matches, why_slow
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
        r"(?u)\b\w\w+\b|(?:Mr|Mrs|Dr|Prof|St)\.|[A-Z]+(?![a-z])|\d{1,3}(?:,\d{3})*(?:\.\d{1,2})?%?|\S+",
        r"[\w.+-]{1,64}@\w+(?:\.\w+)+",
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
        (r"(?s).*.*.*\x00", "in a row"),
        (r"(?s).*.*\x00", "in a row"),
        ("a*b*a*c", "in a row"),
        ("a*[ab]a*c", "in a row"),
        ("a*b?(?:-|a+)c", "in a row"),
        ("(?s)" + ".?" * 10 + r".*\x00", "optional parts"),
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


@pytest.mark.parametrize("pattern", [r"\w+(?:-\w+)*|\S", r"(?<=\s)\w+(?=\s)", r"^\w+|\w+$", r"\w*"])
def test_a_long_text_is_split_as_it_would_be_at_once(pattern):
    text = " ".join(f"{'ab-' * (i % 7)}word{i}" for i in range(2000))
    expected = [m.span() for m in re.finditer(pattern, text) if m.group()]
    assert Tokenizer(pattern=pattern).tokens(text) == expected


def test_a_pattern_sees_a_limited_part_of_a_text():
    """So that time is proportional to the length of the text, not to its square."""
    lengths = [end - start for start, end in matches(re.compile("(?s).+"), "word " * 2000)]
    assert sum(lengths) == 10_000
    assert LONGEST_TOKEN <= min(lengths) <= max(lengths) <= WINDOW
    [(start, _)] = matches(re.compile(r"(?s).*\x00"), "word " * 1000 + "\x00")
    assert start >= 5001 - WINDOW


def test_training_refuses_what_loading_would_refuse():
    class Texts(list):
        tokenizer = Tokenizer(pattern="(a*)*")

    assert CRF()._tokenizer_of([["a"]]) is None
    with pytest.raises(OptionError, match="no model may hold"):
        CRF()._tokenizer_of(Texts())
