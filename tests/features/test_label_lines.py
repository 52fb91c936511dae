"""Lines that read labels of lower layers, against enumeration of all combinations of candidates."""

import itertools

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright.errors import TemplateError
from labelwright.features.layered import LayeredFeatures
from labelwright.structures.passing import (
    FLOOR,
    FeatureValues,
    Layered,
    Passed,
    Products,
    joined,
    likely,
    mixed,
)

POS = mixed(("N", "V"), [[(["N", "V", "V"], 0.5), (["V", "V", "N"], 0.3), (["N", "N", "N"], 0.2)]])
MID = mixed(("p", "q"), [[(["p", "q", "p"], 0.6), (["q", "q", "q"], 0.4)]])
X = [["a", "b", "c"]]
PLAIN = {"pos": ("N", "V"), "mid": ("p", "q")}


def values_of(template, passed):
    """(token, feature) -> value, as a layer above reads them."""
    extractor, incidences, _ = LayeredFeatures.learn(Layered(X, passed), template, 1)
    layer = incidences["state"]
    return {
        (t, extractor.name(int(layer.token_feature[i]))): float(layer.token_value[i])
        for t in range(3)
        for i in range(layer.token_ptr[t], layer.token_ptr[t + 1])
    }


def probability(passed, rows, labels):
    """That these rows of a layer have these labels, by its slots: a label, or a pair of
    neighbours."""
    slots = passed.candidates
    codes = [passed.labels.index(label) for label in labels]
    at = [slots.label[slots.ptr[row] : slots.ptr[row + 1]].tolist() for row in rows]
    if any(code not in here for code, here in zip(codes, at, strict=True)):
        return None
    places = [here.index(code) for code, here in zip(codes, at, strict=True)]
    if len(rows) == 1:
        return float(passed.probability[slots.ptr[rows[0]] + places[0]])
    return float(passed.probability[slots.pair_ptr[rows[1]] + places[0] * len(at[1]) + places[1]])


def enumerated(cells, factors, below):
    """(token, feature) -> product of factors, for every combination of labels or boundary marks."""
    expected = {}
    for t in range(3):
        places = [t + row for row, _ in cells]
        domains = [
            [f"_B-{-at}"] if at < 0 else [f"_B+{at - 2}"] if at > 2 else PLAIN[name]
            for at, (_, name) in zip(places, cells, strict=True)
        ]
        for labels in itertools.product(*domains):
            value = 1.0
            for factor in factors:
                inside = [i for i in factor if 0 <= places[i] <= 2]
                if inside and value is not None:
                    name = cells[inside[0]][1]
                    p = probability(
                        below[name], [places[i] for i in inside], [labels[i] for i in inside]
                    )
                    value = None if p is None else value * p
            if value is not None:
                expected[t, "U:" + "/".join(labels)] = value
    return expected


CASES = [
    ("U:%y[-2]/%y[0]", [(-2, "mid"), (0, "mid")], [[0], [1]]),
    ("U:%y[-1,pos]/%y[0,pos]/%y[1,pos]", [(-1, "pos"), (0, "pos"), (1, "pos")], [[0, 1], [2]]),
    ("U:%y[0,pos]/%y[0]", [(0, "pos"), (0, "mid")], [[0], [1]]),
    ("U:%y[0]/%y[-1]", [(0, "mid"), (-1, "mid")], [[1, 0]]),
    ("U:%y[0,pos]/%y[1]/%y[1,pos]", [(0, "pos"), (1, "mid"), (1, "pos")], [[0, 2], [1]]),
]


@pytest.mark.parametrize(("line", "cells", "factors"), CASES)
def test_values_are_products_of_the_factors(line, cells, factors):
    below = {"pos": POS, "mid": MID}
    assert values_of(line, below) == pytest.approx(enumerated(cells, factors, below), abs=1e-6)


@pytest.mark.parametrize(("line", "cells", "factors"), CASES)
def test_logs_are_those_of_the_products(line, cells, factors):
    below = {"pos": POS, "mid": MID}
    logs = values_of(line.replace("%y", "%log_y"), below)
    products = enumerated(cells, factors, below)
    expected = {key: np.log(1 + p / FLOOR) / np.log(1 + 1 / FLOOR) for key, p in products.items()}
    assert logs == pytest.approx(expected, abs=1e-6)


def test_neighbours_of_a_layer_without_pairs_are_independent():
    singles = MID._replace(
        candidates=MID.candidates.without_pairs,
        probability=MID.probability[: len(MID.candidates.label)],
    )
    below = {"mid": singles}
    expected = enumerated([(-1, "mid"), (0, "mid")], [[0], [1]], below)
    assert values_of("U:%y[-1]/%y[0]", below) == pytest.approx(expected, abs=1e-6)


def test_a_certain_label_has_the_value_one_and_an_impossible_one_zero():
    values = values_of("U:%log_y[0]\nU2:%y[0]", {"mid": MID})
    assert values[1, "U:q"] == values[1, "U2:q"] == pytest.approx(1.0)
    assert 0 < values[0, "U2:q"] < values[0, "U:q"] < 1


def test_rare_combinations_are_counted_by_their_probability():
    below = {"pos": joined([POS] * 3), "mid": joined([MID] * 3)}
    extractor, _, _ = LayeredFeatures.learn(Layered(X * 3, below), "U:%y[0,pos]/%y[0]\nB", 2)
    often: dict[str, float] = {}
    for (_, name), p in enumerated(
        [(0, "pos"), (0, "mid")], [[0], [1]], {"pos": POS, "mid": MID}
    ).items():
        often[name] = often.get(name, 0.0) + 3 * p
    kept = {name for name, n in often.items() if n >= 2}
    assert {extractor.name(i) for i in range(extractor.n_features)} == kept
    assert 0 < len(kept) < len(often)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("U:%y[-1]/%y[0]/%y[1]/%y[2]", "reads 4 labels; expected at most 3 of them in a line"),
        ("U:%y[0]/%y[0]", "the same label twice"),
        ("U:%y[0]/%y[0,mid]", "the same label twice"),
        ("U:%y[0]/%log_y[1]", "write %log_y for all of them, or two lines"),
    ],
)
def test_lines_without_a_meaning_are_refused(line, message):
    with pytest.raises(TemplateError, match=message):
        values_of(line, {"pos": POS, "mid": MID})


@drawn(30)
@given(st.integers(0, 10**6))
def test_the_derivatives_of_values_are_those_of_finite_differences(seed):
    random = np.random.default_rng(seed)
    sizes, n = random.integers(1, 5, 2), int(random.integers(1, 8))
    factor = random.integers(-1, sizes.sum(), (n, int(random.integers(1, 4))))
    values = FeatureValues(("a", "b"), Products(factor, random.random(n) < 0.5), random.random(2))
    passed = [random.uniform(0.01, 1, size) for size in sizes]
    made, back = values.forward(passed)
    d_values = random.normal(size=len(made))
    for layer, d in enumerate(back(d_values)):
        for i in range(len(d)):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in passed]
                moved[layer][i] += step
                ends.append(float(values.forward(moved)[0] @ d_values))
            assert d[i] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-5, rel=1e-4)


def test_random_candidates_keep_the_order_of_cells():
    """A pair is written as its line writes it, whatever the order of the rows."""
    random = np.random.default_rng(0)
    slots = likely(np.array([0, 3]), random.dirichlet(np.ones(2), 3), 0.0)
    passed = {"mid": Passed(("p", "q"), slots, random.random(slots.n_slots))}
    forwards, backwards = values_of("U:%y[-1]/%y[0]", passed), values_of("U:%y[0]/%y[-1]", passed)
    turned = {
        (t, f"U:{name[2:].split('/')[1]}/{name[2:].split('/')[0]}"): p
        for (t, name), p in backwards.items()
    }
    assert turned == forwards
