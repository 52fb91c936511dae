"""Nearest neighbours in NumPy: the answers of the compiled search, but for how powers and
logarithms are rounded."""

import numpy as np
import pytest

from labelwright.engine import choice
from labelwright.kernels import neighbours
from labelwright.kernels.values import chi_squared
from labelwright.memory import search
from labelwright.taggers.memory import MemoryBased

pytest.importorskip("numba")

SETTINGS = [
    {},
    {"k": 3, "votes": "inverse-linear", "weights": "none"},
    {"k": 4, "metric": "mvdm", "mvdm_threshold": 2, "votes": "inverse-distance"},
    {"k": 2, "metric": "jeffrey", "weights": "chi-squared", "votes": "exponential-decay"},
    {"k": 3, "metric": "jensen-shannon", "weights": "shared-variance"},
    {"k": 3, "metric": ("overlap", "numeric", "mvdm", "numeric", "overlap")},
    {"k": 50, "weights": [0.0, 1.0, 2.0, 0.5, 0.0]},
]
# NumPy rounds logarithms otherwise than compiled code on some machines
LOGARITHMIC = "jeffrey", "jensen-shannon"


def table(rng, n, width):
    """Rows of five columns, of which two hold numbers."""
    columns = [rng.integers(0, width, n) for width in (4, 9, width, 30, 3)]
    return np.stack(columns, axis=1).astype(str).tolist()


def answers(settings, rows, classes, queries):
    model = MemoryBased(n_jobs=1, **settings).fit(rows, classes)
    return model.answers(queries), model.neighbours(queries), model.feature_weights_


@pytest.mark.cases(5)
@pytest.mark.parametrize("settings", SETTINGS)
def test_both_engines_find_the_same_neighbours_and_votes(settings):
    rounding = 1e-15 if settings.get("metric") in LOGARITHMIC else 0.0
    rng = np.random.default_rng(3)
    rows, queries = table(rng, 900, 300), table(rng, 50, 400)
    classes = [f"c{(len(row[2]) + int(row[0])) % 5}" for row in rows]
    with choice.using("compiled"):
        expected, near, weights = answers(settings, rows, classes, queries)
    with choice.using("numpy"):
        made, made_near, made_weights = answers(settings, rows, classes, queries)
    assert made_weights.tolist() == weights.tolist()
    for name, a, b in zip(expected._fields, expected, made, strict=True):
        if name in ("votes", "distance"):
            np.testing.assert_allclose(b, a, rtol=1e-15 if name == "votes" else rounding)
        else:
            assert a.tolist() == b.tolist(), name
    for these, those in zip(near, made_near, strict=True):
        assert [each._replace(distance=0) for each in those] == [
            each._replace(distance=0) for each in these
        ]
        np.testing.assert_allclose(
            [each.distance for each in those], [each.distance for each in these], rtol=rounding
        )


@pytest.mark.cases(2)
@pytest.mark.parametrize("engine", ["compiled", "numpy"])
@pytest.mark.parametrize(
    "settings", [{}, {"k": 3, "weights": "none"}, {"k": 30, "weights": [0.0, 1.0, 2.0, 0.5, 0.0]}]
)
def test_postings_find_what_the_trie_finds(engine, settings, monkeypatch):
    monkeypatch.setattr(search, "SHARE", 0)
    rng = np.random.default_rng(4)
    rows, queries = table(rng, 900, 300), table(rng, 50, 400)
    queries[7] = ["none", "of", "these", "is", "known"]
    model = MemoryBased(n_jobs=1, **settings).fit(rows, rng.integers(0, 5, 900).tolist())
    with choice.using(engine):
        by_postings = model.answers(queries), model.neighbours(queries)
        searcher = model._search
        assert len(searcher.postings.row) == 5 * model.index_.trie.columns.shape[1]
        searcher.postings = searcher.postings._replace(row=np.empty(0, np.int32))
        by_trie = model.answers(queries), model.neighbours(queries)
    assert [part.tolist() for part in by_postings[0]] == [part.tolist() for part in by_trie[0]]
    assert by_postings[1] == by_trie[1]


def test_postings_are_made_where_values_are_rare():
    rng = np.random.default_rng(4)
    for width, made in ((200, True), (10, False)):
        rows = rng.integers(0, width, (500, 4)).astype(str).tolist()
        model = MemoryBased(weights="none").fit(rows, rng.integers(0, 5, 500).tolist())
        assert (len(model._search.postings.row) > 0) == made


def test_the_descent_of_a_tree_ends_where_values_are_unknown():
    code, child = np.array([-1, 0, 2, 1], np.int32), np.array([1, 3, 3, 4, 4], np.int32)
    queries = np.array([[0, 1], [2, 1], [2, 0], [-1, 1], [1, 1]], np.int32)
    made = []
    for run in (neighbours.descend.dispatcher, neighbours.descend.vectorised):
        reached, levels = np.empty(5, np.int32), np.empty(5, np.int64)
        run(code, child, queries, reached, levels)
        made.append((reached.tolist(), levels.tolist()))
    assert made[0] == made[1] == ([1, 3, 2, 0, 0], [1, 0, 1, 2, 2])


def test_chi_squared_is_summed_cell_by_cell():
    rng = np.random.default_rng(1)
    often = rng.poisson(0.7, (300, 7)).astype(np.float64)
    value, cls = np.nonzero(often)
    values, classes, n = often.sum(axis=1), often.sum(axis=0), often.sum()
    total = 0.0
    for v in range(300):
        for c in range(7):
            expected = classes[c] * values[v] / n
            apart = expected - often[v, c]
            total += apart * apart / expected if often[v, c] else expected
    assert chi_squared(value, cls, often[value, cls], values, classes, n) == total
