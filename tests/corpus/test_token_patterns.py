"""Token patterns: the matches that Python finds, in time that no text makes long."""

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelwright import CRF
from labelwright.corpus import Tokenizer
from labelwright.corpus.token_patterns import LONGEST, TokenPattern
from labelwright.corpus.tokenizer import tokenizer_of
from labelwright.errors import OptionError

TEXT = " ".join(
    f"{'ab-' * (i % 7)}word{i} Mr. O'Hara 1,234.5% me@x.org A.B. isn't\n" for i in range(200)
)

ATOMS = [
    "a",
    "b",
    "[ab]",
    ".",
    "[^a]",
    r"\w",
    r"\b",
    "^",
    "$",
    "(?=a)",
    "(?!ab)",
    "(?<=a)",
    "(?<!b)",
    "(?i:A)",
]
SIGNS = ["", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?"]
PATTERNS = st.recursive(
    st.sampled_from(ATOMS),
    lambda parts: (
        st.tuples(parts, parts).map("".join)
        | st.tuples(parts, parts).map(lambda pair: f"(?:{pair[0]}|{pair[1]})")
        | st.tuples(parts, st.sampled_from(SIGNS)).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    ),
    max_leaves=8,
)


def found_by_python(pattern, text):
    return [match.span() for match in re.finditer(pattern, text) if match.group()]


def is_refused(pattern):
    try:
        TokenPattern(pattern)
    except OptionError as error:
        return "repeats what may be empty" in str(error)
    return False


@given(PATTERNS, st.text("aab \n", max_size=9))
def test_tokens_are_those_that_python_finds(pattern, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sets that look nested
        expected = found_by_python(pattern, text)
    if is_refused(pattern):
        return
    assert list(TokenPattern(pattern).places(text)) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+|\S",
        r"\w+(?:-\w+)*",
        r"[A-Z]\.(?:[A-Z]\.)+",
        r"\$?\d+(?:\.\d+)?%?|\w+(?:['\u2019]\w+)?|[^\w\s]",
        r"https?://\S+|\w+(?:['-]\w+)*|[^\w\s]+",
        r"\w+(?:-\w+)*(?:\.\w+(?:-\w+)*)*",
        r"(?:\d{1,3}\.){3}\d{1,3}|(?<=\d)[.,](?=\d)|(?i:mr|dr)\.|\S",
        r"(?u)\b\w\w+\b|(?:Mr|Mrs|Dr|Prof|St)\.|[A-Z]+(?![a-z])|\d{1,3}(?:,\d{3})*(?:\.\d{1,2})?%?|\S+",
        r"[\w.+-]{1,64}@\w+(?:\.\w+)+",
        r"\w+?(?=n't|'s)|n't|\w+|\S",
        r"(?<=\s)\w+(?=\s)",
        r"^\w+|\w+$",
        r"\w*",
    ],
)
def test_patterns_that_people_use(pattern):
    assert tokenizer_of({"pattern": pattern}).tokens(TEXT) == found_by_python(pattern, TEXT)


@pytest.mark.parametrize(
    "pattern", [r"(\w+\s?)*$", "(?:x+x)+y", "(a|aa)+b", "a*a*a*a*b", "a?" * 100 + "a" * 100]
)
def test_no_text_makes_a_pattern_slow(pattern):
    """Python would try more ways than there are atoms."""
    Tokenizer(pattern=pattern).tokens("a" * 2000 + "x" * 2000)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "has a backreference, which is not supported"),
        (r"(a)?(?(1)b|c)", "has a condition on a group"),
        ("(?>a|b)", "has an atomic group"),
        ("a++", "has a possessive repeat"),
        ("(?=a+)b", "has a repeat or several choices within a lookahead or lookbehind"),
        ("(?!(?:ab|b)(?:ab|b))c", "has a repeat or several choices"),
        ("(a*)*", "repeats what may be empty"),
        ("a" * 1001, "has 1,001 characters, expected at most 1,000"),
        ("(?:a{90}){90}", "has more than 1,000 parts"),
        ("(", "is no regular expression: missing )"),
    ],
)
def test_what_is_refused(pattern, reason):
    for make in (lambda: tokenizer_of({"pattern": pattern}), Tokenizer(pattern=pattern).check):
        with pytest.raises(OptionError, match=f"^token_pattern: .* {re.escape(reason)}"):
            make()


def test_a_pattern_with_too_many_states_is_refused_when_they_occur():
    digits = "".join(f"{i:b}" for i in range(10_000))
    with pytest.raises(OptionError, match="has too many ways to match this text; make it simpler"):
        Tokenizer(pattern="[01]*1[01]{60}x").tokens(digits)


def test_long_tokens_are_cut():
    assert [end - begin for begin, end in TokenPattern("(?s).+").places("word " * 450)] == [
        LONGEST,
        LONGEST,
        250,
    ]


def test_training_refuses_what_loading_would_refuse():
    class Texts(list):
        tokenizer = Tokenizer(pattern="(a*)*")

    assert CRF()._tokenizer_of([["a"]]) is None
    with pytest.raises(OptionError, match="repeats what may be empty"):
        CRF()._tokenizer_of(Texts())
