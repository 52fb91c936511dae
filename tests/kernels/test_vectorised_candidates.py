"""Candidates in NumPy against the compiled kernels: on drawn features, labels and weights, and in a
whole model."""

import numpy as np
import pytest

from labelwright import CRF
from labelwright.corpus.offsets import offsets_from
from labelwright.engine.choice import using
from labelwright.features.incidence import Incidence
from labelwright.kernels import candidates

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
    value = (
        rng.normal(size=len(token_feature)).astype(np.float32)
        if valued
        else np.empty(0, np.float32)
    )
    return Incidence(
        keys,
        np.arange(0, 2 * n_keys + 1, 2),
        key_feature,
        offsets_from(sizes),
        token_feature,
        value,
    )


def drawn_rows(rng, n_rows, width):
    """Rising numbers below `width` in rows, as (ptr, column)."""
    kept = rng.random((n_rows, width)) < 0.6
    return offsets_from(kept.sum(axis=1)), np.nonzero(kept)[1].astype(np.int32)


class Drawn:
    """Sentences with features, cells and candidates."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        self.offsets = offsets_from(rng.integers(1, 7, 6))
        self.T = int(self.offsets[-1])
        self.features = drawn_features(rng, self.T, seed % 2 == 1)
        self.cells = drawn_rows(rng, F, L)
        self.weights = rng.normal(size=len(self.cells[1])).astype(np.float32)
        self.bias = rng.normal(size=L).astype(np.float32)

    @property
    def model(self):
        return self.features, *self.cells, self.weights, self.bias


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_of_all_labels_are_the_same(seed):
    d = Drawn(seed)
    assert_same(candidates.label_rows, *d.model, 1, d.T, np.empty((d.T - 1, L)), digits=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("free", [True, False])
def test_the_same_candidates_are_picked(seed, free):
    d = Drawn(seed)
    permitted = np.empty((0, 0), np.bool_) if free else d.rng.random((d.T, L)) < 0.7
    permitted[:, 3:4] = True
    tokens, most = d.rng.permutation(d.T), 3
    made = np.empty(L, np.float32), np.zeros(d.T, np.int64), *np.zeros((2, d.T, most), np.float32)
    compiled, vectorised = both(
        candidates.pick_labels, *d.model, tokens, permitted, 1.5, most, *made
    )
    np.testing.assert_array_equal(vectorised[-3], compiled[-3])
    np.testing.assert_array_equal(vectorised[-2], compiled[-2])
    np.testing.assert_allclose(vectorised[-1], compiled[-1], rtol=1e-4, atol=1e-5)


# -- a whole model ---------------------------------------------------------------------------------


def test_bounds_and_answers_of_a_model_are_the_same():
    rng = np.random.default_rng(1)
    X = [[f"w{rng.integers(20)}" for _ in range(rng.integers(1, 8))] for _ in range(60)]
    y = [[f"l{(int(word[1:]) + rng.integers(4)) % 9}" for word in x] for x in X]
    settings = {"prune_labels": 0.4, "max_iter": 8, "n_jobs": 1, "random_state": 0}
    model, answers = CRF("U:%x[0,0]\nU:%x[-1,0]\nU:%x[1,0]\nB", **settings).fit(X, y), []
    for engine in ("compiled", "numpy"):
        with using(engine):
            answers.append([model.decode(X), model.decode(X, "exact")])
    for compiled, vectorised in zip(*answers, strict=True):
        for a, b in zip(compiled, vectorised, strict=True):
            assert (a.labels, a.exact) == (b.labels, b.exact)
            assert b.gap == pytest.approx(a.gap, rel=1e-6, abs=1e-9)
            assert (b.mass or 0.0) == pytest.approx(a.mass or 0.0, rel=1e-6)
