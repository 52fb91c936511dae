"""Patterns of labels against Python's regular expressions, over all short labellings."""

import itertools
import re

import pytest

from labelwright.constraints import forbid_pattern, require_pattern
from labelwright.errors import OptionError
from labelwright.rules.formulas import Sentence, holds
from labelwright.rules.patterns import LONGEST, read_pattern

LABELS = ("O", "B-X", "I-X", "B-Y")
LETTER = dict(zip(LABELS, "obiy", strict=True))

# A pattern, and the same as a regular expression over the letters above.
SAME = [
    ("B-X", "b"),
    ("B-X I-X", "bi"),
    ("B-X ... B-Y", "b.*y"),
    ("X B-Y", "[bi]y"),
    ("!X B-Y", "[oy]y"),
    ("^ O+ B-X? .", "^o+b?."),
    ("(B-X I-X* | O)+ $", "(bi*|o)+$"),
    ("^ (O | X)* $", "^[obi]*$"),
    ("B-Y !O* B-Y", "y[^o]*y"),
    ("'B-X'", "b"),
    ("^ . . $", "^..$"),
    ("(B-X | ) O", "b?o"),
    ("((O B-X)? B-Y)+ I-X", "((ob)?y)+i"),
    ("^ $", "^$"),
    ("^ O B-X+? $", "^ob*$"),
    ("^ O B-X?+ $", "^ob*$"),
    ("^ O B-X++ B-Y?? $", "^ob+y?$"),
    ("^ O ...+ B-Y $", "^o.*y$"),
]


@pytest.mark.parametrize(("pattern", "expression"), SAME)
def test_a_pattern_means_what_a_regular_expression_means(pattern, expression):
    required, forbidden = require_pattern(pattern), forbid_pattern(pattern)
    for T in range(5):
        sentence = Sentence([list(LABELS)] * T, LABELS)
        formulas = required.formula(sentence), forbidden.formula(sentence)
        for y in itertools.product(LABELS, repeat=T):
            there = re.search(expression, "".join(LETTER[label] for label in y)) is not None
            assert (holds(formulas[0], y), holds(formulas[1], y)) == (there, not there), y


def test_automata_are_as_small_as_can_be():
    four = Sentence([list(LABELS)] * 4, LABELS)
    assert len(require_pattern("B-X ... B-Y").formula(four).table) == 3
    assert len(require_pattern("(B-X | B-X B-Y | B-X B-Y ...)").formula(four).table) == 2


def test_labels_with_signs_of_patterns_stand_in_quotes():
    rule = forbid_pattern("""'.' "''" $""")
    assert not rule.satisfied(["N", ".", "''"])
    assert rule.satisfied([".", "N", "''"])


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "expected a pattern of labels, as in 'A ... B', got ''"),
        (7, "expected a pattern of labels"),
        ("A (B", "expected a closing parenthesis in the pattern, got the end"),
        ("A ) B", r"expected a label or the end .*got '\)'"),
        ("* A", r"expected a label in the pattern, got '\*'"),
        ("A !", "expected a label in the pattern, got the end"),
        ("A $ B", "expected a label or the end"),
        ("A ' B", 'cannot read the pattern from "\' B" on; quote such names'),
    ],
)
def test_mistakes_in_patterns_are_named(pattern, message):
    with pytest.raises(OptionError, match=f"^forbid_pattern.*{message}"):
        forbid_pattern(pattern)


def test_a_label_that_the_tagger_lacks_and_a_pattern_that_is_too_long(monkeypatch):
    four = Sentence([list(LABELS)] * 4, LABELS)
    with pytest.raises(
        OptionError, match=r"require_pattern\('B-Z'\): no label or chunk type 'B-Z'"
    ):
        require_pattern("B-Z").formula(four)
    with pytest.raises(OptionError, match="more than 1,000 states; shorten it"):
        require_pattern("O" + " ." * 12).formula(four)


def test_long_patterns_are_read_in_linear_time_and_refused_beyond_a_limit():
    class Text(str):
        copies = 0

        def __getitem__(self, place):
            Text.copies += 1
            return super().__getitem__(place)

    text = Text("  " + "O " * (LONGEST // 2 - 1))
    assert len(read_pattern(text, "rule").node.parts) == LONGEST // 2 - 1
    assert Text.copies == 0
    message = (
        r"^forbid_pattern\('O O .*\.\.\.: a pattern of 10,001 characters, expected at most 10,000; "
        r"shorten it"
    )
    with pytest.raises(OptionError, match=message) as error:
        forbid_pattern("O " * 5000 + "O")
    assert len(str(error.value)) < 200


def test_repeated_signs_are_one_and_parentheses_have_a_limit():
    assert read_pattern("O" + "?" * 5000, "rule") == read_pattern("O?", "rule")
    assert not forbid_pattern("O" + "?*+" * 3000).satisfied(["O"])
    assert not forbid_pattern("(" * 100 + "O" + ")?" * 100).satisfied(["O"])
    assert forbid_pattern(" ".join(["(O)"] * 150)).satisfied(["O"])
    message = (
        r"^forbid_pattern\('\(.*\.\.\.: more than 100 parentheses within each other; simplify the "
        r"pattern$"
    )
    for depth in (101, 2000):
        with pytest.raises(OptionError, match=message):
            forbid_pattern("(" * depth + "O" + ")" * depth)
