"""A few thousand odd inputs: each is read, or refused in one line."""

import pytest

from . import inputs

CASES = 300


@pytest.mark.parametrize("reader", inputs.KINDS)
def test_odd_inputs_are_read_or_refused_in_one_line(reader):
    tally = inputs.run(reader, 0, 0, CASES)
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.read > CASES // 50, "most inputs are refused: the samples are not valid"
    assert tally.refused > CASES // 50, "hardly any input is odd"


def test_the_same_seed_makes_the_same_input():
    assert inputs.case("columns", 3, 17) == inputs.case("columns", 3, 17)
    assert inputs.case("columns", 3, 17) != inputs.case("columns", 4, 17)
