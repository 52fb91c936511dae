"""Regular expressions of templates: the same matches as Python's, in bounded time."""

import random

import pytest

from labelwright.errors import TemplateError
from labelwright.features import bounded_search
from labelwright.features.bounded_search import BoundedSearch
from labelwright.features.expressions import translate
from labelwright.features.template import Reader, apply, parse_template

LATIN = [chr(code) for code in range(256)]


def test_the_bounded_search_finds_what_pythons_search_finds():
    rng = random.Random(0)
    for _ in range(500):
        items = [
            rng.choice(["a", "b", ".", r"\u", r"\L", r"\d", "x"]) + rng.choice(["", "", "?", "*"]) for _ in range(5)
        ]
        regex = rng.choice(["", "^"]) + "".join(items[: rng.randint(1, 5)]) + rng.choice(["", "", "$"])
        search = BoundedSearch(translate(regex, LATIN))
        text = "".join(rng.choice("aabbABx1\n") for _ in range(rng.randint(0, 10)))
        match = search.compiled.search(text)
        assert search._search(text) == (match.group() if match else None), (regex, text)


@pytest.mark.parametrize(
    "regex", ["a*a*a*a*a*b", "a?" * 30 + "a" * 30 + "b", "^" + "a?" * 200 + "b$", ".*.*.*.*x$", "a*" * 50 + "b"]
)
def test_expressions_that_go_back_often_take_few_steps(regex, monkeypatch):
    steps = []
    choices = bounded_search._choices
    monkeypatch.setattr(bounded_search, "_choices", lambda *given: steps.append(1) or choices(*given))
    assert apply(Reader(0, "test", regex), ["a" * n for n in (10, 30, 100)]) == ["false"] * 3
    assert apply(Reader(0, "byte_match", regex), ["a" * 100]) == [""]
    assert len(steps) < 3 * len(regex) * 103


@pytest.mark.slow
def test_letters_of_all_scripts_are_compiled_for_a_few_times():
    words = ["A", *(chr((block << 8) + 1) for block in range(1, 60)), "\U0001d400"]
    assert next(apply(Reader(0, "test", r"^\u$"), [word])[0] for word in words) == "true"
    assert apply(Reader(0, "test", r"^\u$"), ["\U0001d400", "\u0391", "a"]) == ["true", "true", "false"]


def test_long_expressions_and_lines_are_refused():
    with pytest.raises(
        TemplateError, match=r"template:1:10: a regular expression of 600 characters, expected at most 500"
    ):
        parse_template(f'U:%m[0,0,"{"a" * 600}"]')
    with pytest.raises(TemplateError, match=r"template:2:1: a line of 20,000 characters, expected at most 10,000"):
        parse_template("B\n" + "U" * 20_000)
