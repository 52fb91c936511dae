"""Regular expressions of templates: the same matches as Python's, in bounded time."""

import random
import re

import pytest

from labelwright.errors import CorpusError, TemplateError
from labelwright.features import expressions, template
from labelwright.features.expressions import BoundedSearch, translate
from labelwright.features.template import Reader, apply, parse_template

LATIN = "".join(map(chr, range(256)))


def test_the_bounded_search_finds_what_pythons_search_finds():
    rng = random.Random(0)
    for _ in range(500):
        items = [
            rng.choice(["a", "b", ".", r"\u", r"\L", r"\d", "x"]) + rng.choice(["", "", "?", "*"])
            for _ in range(5)
        ]
        regex = (
            rng.choice(["", "^"]) + "".join(items[: rng.randint(1, 5)]) + rng.choice(["", "", "$"])
        )
        expression = translate(regex, LATIN)
        search = BoundedSearch(expression)
        text = "".join(rng.choice("aabbABx1\n") for _ in range(rng.randint(0, 10)))
        match = re.search(expression.pattern, text, re.DOTALL)
        assert search._search(text) == (match.group() if match else None), (regex, text)


@pytest.mark.parametrize(
    "regex",
    [
        "a*a*a*a*a*b",
        "a?" * 30 + "a" * 30 + "b",
        "^" + "a?" * 200 + "b$",
        ".*.*.*.*x$",
        "a*" * 50 + "b",
    ],
)
def test_expressions_that_go_back_often_take_few_steps(regex, monkeypatch):
    steps = []
    choices = expressions._choices
    monkeypatch.setattr(expressions, "_choices", lambda *given: steps.append(1) or choices(*given))
    assert apply(Reader(0, "test", regex), ["a" * n for n in (10, 30, 100)]) == ["false"] * 3
    assert apply(Reader(0, "byte_match", regex), ["a" * 100]) == [""]
    assert len(steps) < 3 * len(regex) * 103


@pytest.mark.slow
def test_letters_of_all_scripts_are_compiled_for_a_few_times():
    words = ["A", *(chr((block << 8) + 1) for block in range(1, 60)), "\U0001d400"]
    assert next(apply(Reader(0, "test", r"^\u$"), [word])[0] for word in words) == "true"
    assert apply(Reader(0, "test", r"^\u$"), ["\U0001d400", "\u0391", "a"]) == [
        "true",
        "true",
        "false",
    ]


def test_classes_of_all_letters_are_made_once_for_all_expressions(monkeypatch):
    made, compiled = [], []
    compile_one = re.compile
    monkeypatch.setitem(expressions.CLASSES, "a", lambda letter: made.append(1) or letter.isalpha())
    monkeypatch.setattr(
        expressions.re, "compile", lambda text, *flags: compiled.append(text) or compile_one(text)
    )
    monkeypatch.setattr(template, "MOST_BLOCKS", 2)
    monkeypatch.setattr(template, "ALL_BLOCKS", frozenset(range(8)))
    expressions._class.cache_clear()
    words = [chr((block << 8) + 65) for block in range(4)]
    for n in range(5):
        apply(Reader(0, "test", rf"\a\d?{'made once' * n}"), words)
    assert len(made) == 8 * 256
    compiled.clear()
    search = BoundedSearch(translate(r"\a*" * 20, LATIN))
    assert compiled == []  # such an expression is never left to Python's search
    assert search("ab") == ""


def test_classes_of_a_template_are_limited():
    lines = [f'U{n}:%t[0,0,"{chr(92)}a{"x" * n}{chr(92)}d*"]' for n in range(251)]
    parse_template("\n".join([*lines[:250], *lines[:250]]))
    with pytest.raises(
        TemplateError, match=r"^template: the regular expressions have 502 classes .* at most 500$"
    ):
        parse_template("\n".join(lines))


def test_values_beyond_what_a_search_can_remember_are_refused(monkeypatch):
    monkeypatch.setattr(expressions, "MOST_PLACES", 1000)
    search = BoundedSearch(translate("a*a*a*a*b", "ab"))
    assert search("a" * 199) is None
    with pytest.raises(
        CorpusError, match=r"^a value of 200 characters .* of 5 items; expected at most 199$"
    ):
        search("a" * 200)


def test_compiled_expressions_are_not_kept_for_ever():
    assert all(
        kept.cache_info().maxsize
        for kept in (template._searcher, template._byte_searcher, template._affix)
    )


def test_long_expressions_and_lines_are_refused():
    with pytest.raises(
        TemplateError,
        match=r"template:1:10: a regular expression of 600 characters, expected at most 500",
    ):
        parse_template(f'U:%m[0,0,"{"a" * 600}"]')
    with pytest.raises(
        TemplateError, match=r"template:2:1: a line of 20,000 characters, expected at most 10,000"
    ):
        parse_template("B\n" + "U" * 20_000)
