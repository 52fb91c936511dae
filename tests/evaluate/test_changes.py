"""What changed labels of a lower layer did to the labels above it."""

import random
from itertools import chain

import pytest

from labelwright.errors import CorpusError
from labelwright.evaluate.changes import NEAR, LabelChange, Versions, label_changes

RIGHT = [["A", "A", "A", "A"]]


def upper(before: str, after: str) -> Versions:
    return Versions(RIGHT, [list(before)], [list(after)])


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("AAAA", "AAAA", (0, 0, 1)),
        ("AXAA", "AAAA", (1, 0, 0)),  # at the token itself
        ("AAXA", "AAAA", (1, 0, 0)),  # beside it
        ("AAAX", "AAAA", (0, 0, 1)),  # too far away
        ("AAAA", "XAAA", (0, 1, 0)),
        ("XAAA", "AXAA", (0, 0, 1)),  # one became right, one wrong
        ("XXAA", "AAXA", (1, 0, 0)),  # two became right, one wrong
        ("AXAA", "AYAA", (0, 0, 1)),  # wrong in another way
    ],
)
def test_what_happens_near_a_change(before: str, after: str, counts: tuple[int, int, int]) -> None:
    lower = Versions([["D", "N", "V", "."]], [["D", "V", "V", "."]], [["D", "N", "V", "."]])
    assert label_changes(lower, upper(before, after)) == [
        LabelChange("V", "N", *counts, corrected=1, broken=0)
    ]


def test_the_most_frequent_change_is_first_and_equal_ones_are_in_order() -> None:
    lower = Versions([list("ABCD")] * 2, [list("AXXD"), list("AXCD")], [list("BBCD"), list("ABXD")])
    above = Versions([list("AAAA")] * 2, [list("AAAA")] * 2, [list("AAAA"), list("AAXA")])
    assert label_changes(lower, above) == [
        LabelChange("X", "B", right=0, wrong=1, same=1, corrected=2, broken=0),
        LabelChange("A", "B", right=0, wrong=0, same=1, corrected=0, broken=1),
        LabelChange("C", "X", right=0, wrong=1, same=0, corrected=0, broken=1),
        LabelChange("X", "C", right=0, wrong=0, same=1, corrected=1, broken=0),
    ]


def test_no_change_is_no_move() -> None:
    same = Versions(RIGHT, RIGHT, RIGHT)
    assert label_changes(same, same) == []
    assert label_changes(Versions([[]], [[]], [[]]), Versions([[]], [[]], [[]])) == []


def test_counts_agree_with_a_slow_count() -> None:
    dice = random.Random(5)
    lengths = [dice.randrange(6) for _ in range(40)]

    def labels() -> list[list[str]]:
        return [[dice.choice("ABC") for _ in range(length)] for length in lengths]

    lower, above = Versions(labels(), labels(), labels()), Versions(labels(), labels(), labels())
    expected: dict[tuple[str, str], list[int]] = {}
    for n, length in enumerate(lengths):
        for t in range(length):
            pair = lower.before[n][t], lower.after[n][t]
            if pair[0] != pair[1]:
                near = [s for s in range(length) if abs(s - t) <= NEAR]
                was, is_now = (
                    sum(v[n][s] == above.gold[n][s] for s in near)
                    for v in (above.before, above.after)
                )
                counts = expected.setdefault(pair, [0, 0, 0])
                counts[0 if is_now > was else 1 if is_now < was else 2] += 1
    changes = label_changes(lower, above)
    assert {(m.before, m.after): [m.right, m.wrong, m.same] for m in changes} == expected
    assert [m.n for m in changes] == sorted((m.n for m in changes), reverse=True)
    pairs = list(zip(*(chain.from_iterable(version) for version in lower), strict=True))
    assert sum(m.corrected for m in changes) == sum(b != a == g for g, b, a in pairs)
    assert sum(m.broken for m in changes) == sum(a != b == g for g, b, a in pairs)


def test_other_sentences_are_refused() -> None:
    same = Versions(RIGHT, RIGHT, RIGHT)
    with pytest.raises(CorpusError, match=r"^upper, after: expected as many labels"):
        label_changes(same, Versions(RIGHT, RIGHT, [["A"]]))
    with pytest.raises(CorpusError, match=r"^lower, before: expected as many labels"):
        label_changes(Versions(RIGHT, RIGHT * 2, RIGHT), same)
