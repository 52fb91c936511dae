"""Proposals of n-grams in NumPy: the candidates, votes and labellings of the compiled loops."""

import numpy as np
import pytest

from labelwright.kernels import csi
from labelwright.structures.proposals import Proposals

pytest.importorskip("numba")


def drawn(rng, n, L=3, classes=6):
    """Distributions over n-grams of some sentences, as the arguments of `propose`."""
    offsets = np.array([0, 3, 3, 4, 11])
    table = rng.integers(0, L, (classes, n)).astype(np.int32)
    counts = rng.integers(1, 4, 11)
    ptr = np.append(0, np.cumsum(counts))
    picked = np.concatenate([rng.permutation(classes)[:count] for count in counts]).astype(np.int32)
    w = rng.integers(1, 4, len(picked)) / 2
    return table, picked[ptr[:-1]].copy(), ptr, picked, w, offsets


def proposed(run, arguments, n):
    T = 11
    made = (
        np.zeros((T, n), np.int32),
        np.zeros(T),
        np.zeros((T, n, n)),
        np.zeros((T, n), np.int32),
        np.zeros(T, np.int32),
    )
    run(*arguments, *made)
    return Proposals(arguments[1], *made, arguments[5])


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ruled", [False, True])
def test_candidates_votes_and_labellings(n, seed, ruled, monkeypatch):
    rng = np.random.default_rng(seed)
    arguments = drawn(rng, n)
    proposals = proposed(csi.propose.dispatcher, arguments, n)
    for a, b in zip(proposals, proposed(csi.propose.vectorised, arguments, n), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
    m, N, T = max(n - 1, 1), 4, 11
    size = 3 if ruled else 0
    start, arc, end = rng.random(size) < 0.8, rng.random((size, size)) < 0.8, rng.random(size) < 0.9
    scratch = csi.StateScratch(np.zeros(m + 1, np.int32), np.zeros(T + 3, np.int64), np.zeros(T + 1, np.int64))
    results = []
    for engine in ("dispatcher", "vectorised"):
        states, arcs = np.zeros(N), np.zeros(N)
        getattr(csi.sizes_of, engine)(proposals, m, states, arcs)
        voted, labels, scores, sums = np.zeros(T, np.int32), np.zeros(T, np.int32), np.zeros(N), np.zeros(N)
        getattr(csi.vote, engine)(proposals, voted)
        value = np.zeros(int(states.max()) + 2)
        getattr(csi.best_labellings, engine)(proposals, 0, N, (start, arc, end), scratch, value, labels, scores)
        getattr(csi.satisfied, engine)(proposals, voted, scratch.window, sums)
        A = int(arcs[3])
        graph = np.zeros(A, np.int32), np.zeros(A, np.int32), np.zeros(A), np.zeros(A, np.int32)
        getattr(csi.arcs, engine)(proposals, 4, 11, (start, arc, end), scratch, *graph)
        results.append([states, arcs, voted, labels, scores, sums, *graph])
    for number, (a, b) in enumerate(zip(*results, strict=True)):
        np.testing.assert_allclose(b, a, rtol=1e-12, err_msg=str(number))
