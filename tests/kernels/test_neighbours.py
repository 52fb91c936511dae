"""Nearest neighbours: postings find what the trie finds, and sums are those of plain arithmetic."""

import numpy as np
import pytest

from labelwright.kernels import neighbours
from labelwright.memory import search
from labelwright.memory.weights import cell_by_cell
from labelwright.taggers.memory import MemoryBased


def table(rng, n, width):
    """Rows of five columns, of which two hold numbers."""
    columns = [rng.integers(0, width, n) for width in (4, 9, width, 30, 3)]
    return np.stack(columns, axis=1).astype(str).tolist()


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", [np.uint16, np.int32])
@pytest.mark.parametrize(
    "settings", [{}, {"k": 3, "weights": "none"}, {"k": 30, "weights": [0.0, 1.0, 2.0, 0.5, 0.0]}]
)
def test_postings_find_what_the_trie_finds(kind, settings, monkeypatch):
    monkeypatch.setattr(search, "SHARE", 0)
    rng = np.random.default_rng(4)
    rows, queries = table(rng, 900, 300), table(rng, 50, 400)
    queries[7] = ["none", "of", "these", "is", "known"]
    model = MemoryBased(n_jobs=1, **settings).fit(rows, rng.integers(0, 5, 900).tolist())
    searcher = model._search
    assert len(searcher.postings.row) == 5 * model.index_.trie.columns.shape[1]
    searcher.postings = searcher.postings._replace(cell=searcher.postings.cell.astype(kind))
    by_postings = model.answers(queries), model.neighbours(queries)
    model._search = search.Searcher(model.index_)
    model._search.postings = searcher.postings._replace(row=np.empty(0, np.int32))
    by_trie = model.answers(queries), model.neighbours(queries)
    assert [part.tolist() for part in by_postings[0]] == [part.tolist() for part in by_trie[0]]
    assert by_postings[1] == by_trie[1]


def test_many_equally_near_rows_stand_in_order():
    """More rows than a few are sorted, by distance and then by place."""
    rng = np.random.default_rng(5)
    codes = rng.permutation([(a, b, c) for a in range(9) for b in range(9) for c in range(9)])
    model = MemoryBased(n_jobs=1, k=2, weights=[3.0, 2.0, 1.0])
    model.fit(codes.astype(str).tolist(), [str(a) for a, _, _ in codes.tolist()])
    (near,) = model.neighbours([["1", "none", "none"]], k=2)
    assert [each.distance for each in near] == [3.0] * 81 + [6.0] * 648
    first_seen = [list(dict.fromkeys(column)) for column in codes.T.tolist()]
    rows = [
        [seen.index(code) for seen, code in zip(first_seen, codes[each.instance], strict=True)]
        for each in near
    ]
    assert rows == sorted(rows, key=lambda row: (first_seen[0][row[0]] != 1, row))


def test_postings_are_made_where_values_are_rare():
    rng = np.random.default_rng(4)
    for width, made in ((200, True), (10, False)):
        rows = rng.integers(0, width, (500, 4)).astype(str).tolist()
        model = MemoryBased(weights="none").fit(rows, rng.integers(0, 5, 500).tolist())
        assert (len(model._search.postings.row) > 0) == made


def test_the_descent_of_a_tree_ends_where_values_are_unknown():
    code, child = np.array([-1, 0, 2, 1], np.int32), np.array([1, 3, 3, 4, 4], np.int32)
    queries = np.array([[0, 1], [2, 1], [2, 0], [-1, 1], [1, 1]], np.int32)
    reached, levels = np.empty(5, np.int32), np.empty(5, np.int64)
    neighbours.descend(code, child, queries, reached, levels)
    assert (reached.tolist(), levels.tolist()) == ([1, 3, 2, 0, 0], [1, 0, 1, 2, 2])


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
    assert cell_by_cell(value, cls, often[value, cls], values, classes, n) == total
