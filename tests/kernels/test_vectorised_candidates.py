"""Candidates in NumPy against the compiled kernels: on drawn features, labels and weights, and in a whole model."""

from itertools import pairwise

import numpy as np
import pytest

from labelwright import CRF
from labelwright.corpus.offsets import offsets_from
from labelwright.engine.choice import using
from labelwright.features.incidence import Incidence
from labelwright.kernels import candidate_chains, candidates, zero_order
from labelwright.scoring.sparse_parameters import node_scores
from labelwright.structures.candidates import LabelLists, SparseTransitions, chart, sparse_transitions

pytest.importorskip("numba")
SEEDS = range(8)
L, F = 7, 12


def both(kernel, *arguments):
    """What both forms of a kernel return, and what they make of copies of the same arguments."""
    made = []
    for run in (kernel.dispatcher, kernel._run_vectorised):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        made.append((run(*copies), *(a for a in copies if isinstance(a, np.ndarray))))
    return made


def assert_same(kernel, *arguments, digits=1e-9):
    """Both forms make the same, numbers to these digits; returns what they make."""
    compiled, vectorised = both(kernel, *arguments)
    for a, b in zip(compiled, vectorised, strict=True):
        if a is not None:
            np.testing.assert_allclose(b, a, rtol=digits, atol=digits)
    return compiled


def drawn_features(rng, n_tokens, valued):
    """Features of keys and of tokens; some tokens have a feature twice."""
    n_keys = 4
    keys = rng.integers(-1, n_keys, (n_tokens, 2)).astype(np.int32)
    sizes = rng.integers(0, 3, n_tokens)
    own = [8 + rng.choice(F - 8, n, replace=False) for n in sizes]
    key_feature = np.arange(2 * n_keys, dtype=np.int32)
    token_feature = np.concatenate([*own, []]).astype(np.int32)
    value = rng.normal(size=len(token_feature)).astype(np.float32) if valued else np.empty(0, np.float32)
    return Incidence(keys, np.arange(0, 2 * n_keys + 1, 2), key_feature, offsets_from(sizes), token_feature, value)


def drawn_rows(rng, n_rows, width):
    """Rising numbers below `width` in rows, as (ptr, column)."""
    kept = rng.random((n_rows, width)) < 0.6
    return offsets_from(kept.sum(axis=1)), np.nonzero(kept)[1].astype(np.int32)


class Drawn:
    """Sentences with features, cells and candidates."""

    def __init__(self, seed, order=1):
        rng = self.rng = np.random.default_rng(seed)
        self.offsets = offsets_from(rng.integers(1, 7, 6))
        self.T, self.order = int(self.offsets[-1]), order
        self.features = drawn_features(rng, self.T, seed % 2 == 1)
        self.cells = drawn_rows(rng, F, L)
        self.weights = rng.normal(size=len(self.cells[1])).astype(np.float32)
        self.bias = rng.normal(size=L).astype(np.float32)
        self.gold = rng.integers(0, L, self.T).astype(np.int32)
        kept = rng.random((self.T, L)) < 0.5
        kept[np.arange(self.T), self.gold] = True
        self.lists = LabelLists(offsets_from(kept.sum(axis=1)), np.nonzero(kept)[1].astype(np.int32))
        self.begins = np.zeros(self.T, np.bool_)
        self.begins[self.offsets[:-1]] = True

    @property
    def model(self):
        return self.features, *self.cells, self.weights, self.bias

    def transitions(self) -> SparseTransitions:
        pairs = np.flatnonzero(self.rng.random(L * L) < 0.7)
        triples = np.flatnonzero(self.rng.random(L**3) < 0.5)
        return sparse_transitions(L, pairs, triples[np.isin(triples // L, pairs)])

    def chart(self, scale=1.0):
        """A chart with the scores of its nodes and places; some pairs are not allowed."""
        allowed = self.rng.random((L, L)) < 0.9
        sparse = self.transitions()
        made = chart(self.lists, self.offsets, self.order, sparse, allowed)
        pairs = np.concatenate([scale * self.rng.normal(size=len(sparse.second)), [0.0, -np.inf]])
        triples = np.concatenate([scale * self.rng.normal(size=len(sparse.third)), [0.0, -np.inf]])
        slots = scale * self.rng.normal(size=len(self.lists.label))
        return made, node_scores(made, slots, pairs), pairs if self.order == 1 else triples, sparse


@pytest.mark.parametrize("seed", SEEDS)
def test_the_zero_order_model_is_the_same(seed):
    d = Drawn(seed)
    row, tokens = np.empty(L, np.float32), d.rng.permutation(d.T)
    assert_same(zero_order.label_row, *d.model, 1, row, digits=1e-5)
    assert_same(zero_order.label_rows, *d.model, 1, d.T, np.empty((d.T - 1, L)), digits=1e-6)
    weights, squares, bias = np.zeros_like(d.weights), np.ones_like(d.weights), np.zeros_like(d.bias)
    steps = d.gold, tokens, 0.5, 0.02, 1e-4, weights, squares, bias, np.ones_like(bias), row
    compiled, vectorised = both(zero_order.zero_order_pass, d.features, *d.cells, *steps)
    for a, b in zip(compiled[:-1], vectorised[:-1], strict=True):  # the last one is scratch
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
    distance, rank, counts = np.empty(d.T), np.empty(d.T, np.int64), np.zeros(20, np.int64)
    compiled, vectorised = both(zero_order.gold_distances, *d.model, d.gold, tokens, row, distance, rank, 0.25, counts)
    for k in (-3, -2, -1):
        np.testing.assert_allclose(vectorised[k], compiled[k], atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("free", [True, False])
def test_the_same_candidates_are_picked(seed, free):
    d = Drawn(seed)
    permitted = np.empty((0, 0), np.bool_) if free else d.rng.random((d.T, L)) < 0.7
    permitted[:, 3:4] = True
    tokens, most = d.rng.permutation(d.T), 3
    made = np.empty(L, np.float32), np.zeros(d.T, np.int64), *np.zeros((2, d.T, most), np.float32)
    compiled, vectorised = both(zero_order.pick_labels, *d.model, tokens, permitted, 1.5, most, *made)
    np.testing.assert_array_equal(vectorised[-3], compiled[-3])
    np.testing.assert_array_equal(vectorised[-2], compiled[-2])
    np.testing.assert_allclose(vectorised[-1], compiled[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_cells_and_scores_of_slots_are_the_same(seed):
    d = Drawn(seed)
    n = len(d.lists.label)
    where = d.features, *d.cells, *d.lists, 0, d.T
    valued = len(d.features.token_value) > 0
    none = np.empty(0, np.int32), np.empty(0, np.float32)
    counts = assert_same(candidates.slot_cells, *where, True, np.zeros(n, np.int64), *none)[5]
    ptr = offsets_from(counts)
    cell, value = np.empty(ptr[-1], np.int32), np.empty(ptr[-1] if valued else 0, np.float32)
    *_, cell, value = assert_same(candidates.slot_cells, *where, False, ptr[:-1].copy(), cell, value, digits=0)
    assert_same(candidates.slot_scores, ptr, cell, value, d.weights, 2, n, np.zeros(n), digits=0)
    count = d.rng.normal(size=n)
    owners = drawn_rows(d.rng, 20, n)
    some = d.rng.normal(size=len(owners[1])).astype(np.float32) if valued else none[1]
    assert_same(candidates.collect, *owners, some, count, 1, 20, np.zeros(20))
    assert_same(candidates.add_counts, d.rng.integers(0, 9, n), count, 2, n, np.zeros(9))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("at_once", [1 << 20, 9])
def test_places_of_transitions_are_the_same(seed, at_once, monkeypatch):
    monkeypatch.setattr("labelwright.kernels.vectorised.candidates._ARCS", at_once)
    d = Drawn(seed, 2)
    made, *_, sparse = d.chart()
    slots = *d.lists, d.begins, made.pair_ptr
    for allowed in (np.empty((0, 0), np.bool_), d.rng.random((L, L)) < 0.8):
        place = np.zeros(made.pair_ptr[-1], np.int32)
        assert_same(candidates.pair_places, sparse.pair_ptr, sparse.second, allowed, *slots, 0, d.T, place)
    rows, place = (sparse.triple_ptr, sparse.third), np.zeros(made.layout.arc_ptr[-1], np.int32)
    arcs = made.places.pair, made.layout.arc_ptr, 0, d.T
    assert_same(candidates.triple_places, *rows, *slots, *arcs, place, digits=0)
    assert_same(candidates.mark_pairs, *d.lists, d.begins, np.zeros((L, L), np.bool_))
    n, *_ = assert_same(candidates.list_triples, *d.lists, d.begins, L, 0, d.T, np.empty(0, np.int64))
    assert_same(candidates.list_triples, *d.lists, d.begins, L, 0, d.T, np.empty(n, np.int64))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 2.0**50, 2.0**63])
def test_probabilities_add_up_to_one_at_any_scale(seed, order, scale):
    d = Drawn(seed, order)
    made, node, scores, _ = d.chart()
    node, scores = np.round(node) * scale, np.round(scores) * scale  # many are equal
    for s, (a, b) in enumerate(pairwise(d.offsets.tolist())):
        where = made.layout, node, made.arc_place, scores, d.offsets, s
        log_z, *_, alpha, _, counts = assert_same(
            candidate_chains.log_sums, *where, *np.zeros((2, len(node))), np.zeros(len(scores))
        )
        possible = float(log_z > -np.inf)
        for first, last in pairwise(made.layout.node_ptr[a : b + 1].tolist()):
            assert alpha[first:last].sum() == pytest.approx(possible)
        assert counts.sum() == pytest.approx(possible * (b - a - 1))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_sums_and_best_paths_are_the_same(seed, order, scale):
    d = Drawn(seed, order)
    made, node, scores, _ = d.chart(scale)
    n, N = len(node), len(d.offsets) - 1
    arcs = made.arc_place, np.exp(scores), d.offsets, 1, N
    scratch = *np.zeros((3, n)), np.zeros(N)
    compiled, vectorised = both(candidate_chains.sums, made.layout, node, *arcs, *scratch)
    np.testing.assert_allclose(vectorised[-1], compiled[-1])  # NaN where the sums have to be made in log space
    summed = np.repeat(~np.isnan(compiled[-1]), np.diff(made.layout.node_ptr[d.offsets]))
    for a, b in zip(compiled[-4:-1], vectorised[-4:-1], strict=True):
        np.testing.assert_allclose(b[summed], a[summed], rtol=1e-9, atol=1e-9)
    candidate_chains.sums.dispatcher(made.layout, node, *arcs, *scratch)
    for counts in (np.zeros(len(scores)), np.empty(0)):
        assert_same(candidate_chains.posteriors, made.layout, *arcs, *scratch, counts)
        for s in range(N):
            where = made.layout, node, made.arc_place, scores, d.offsets, s
            assert_same(candidate_chains.log_sums, *where, *np.zeros((2, n)), counts)
    where = made.layout, node, made.arc_place, scores, d.offsets
    assert_same(candidate_chains.best_suffixes, *where, 2, np.zeros(n))
    assert_same(candidate_chains.best_prefixes, *where, 2, np.zeros(n), np.zeros(n, np.int64))
    assert_same(
        candidate_chains.best_paths,
        *where,
        0,
        N,
        np.zeros(n),
        np.zeros(n, np.int64),
        np.zeros(d.T, np.int64),
        np.zeros(N),
    )


# -- a whole model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
def test_bounds_and_answers_of_a_model_are_the_same(order):
    rng = np.random.default_rng(order)
    X = [[f"w{rng.integers(20)}" for _ in range(rng.integers(1, 8))] for _ in range(60)]
    y = [[f"l{(int(word[1:]) + rng.integers(4)) % 9}" for word in x] for x in X]
    settings = {"prune_labels": 0.4, "order": order, "max_iter": 8, "n_jobs": 1, "random_state": 0}
    models, answers = [], []
    for engine in ("compiled", "numpy"):
        with using(engine):
            models.append(CRF("U:%x[0,0]\nU:%x[-1,0]\nU:%x[1,0]\nB", **settings).fit(X, y))
            answers.append([models[0].decode(X), models[0].decode(X, "exact")])
    assert models[1].training_["loss"] == pytest.approx(models[0].training_["loss"], rel=1e-4)
    for compiled, vectorised in zip(*answers, strict=True):
        for a, b in zip(compiled, vectorised, strict=True):
            assert (a.labels, a.exact) == (b.labels, b.exact)
            assert b.gap == pytest.approx(a.gap, rel=1e-6, abs=1e-9)
            assert (b.mass or 0.0) == pytest.approx(a.mass or 0.0, rel=1e-6)
