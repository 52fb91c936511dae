"""Proposals of n-grams in NumPy: the labellings of the compiled loops."""

import numpy as np
import pytest

from labelwright.kernels import csi
from labelwright.structures.proposals import Distributions, propose

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


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ruled", [False, True])
def test_the_same_labellings(n, seed, ruled):
    rng = np.random.default_rng(seed)
    table, best, ptr, classes, weights, offsets = drawn(rng, n)
    proposals = propose(Distributions(best, ptr, classes, weights), table, offsets)
    m, N, T = max(n - 1, 1), 4, 11
    size = 3 if ruled else 0
    allowed = rng.random(size) < 0.8, rng.random((size, size)) < 0.8, rng.random(size) < 0.9
    results = []
    for run in (csi.best_labellings.dispatcher, csi.best_labellings.vectorised):
        scratch = csi.StateScratch(
            np.zeros(m + 1, np.int32), np.zeros(T + 3, np.int64), np.zeros(T + 1, np.int64)
        )
        labels, scores = np.zeros(T, np.int32), np.zeros(N)
        value = np.zeros(int(csi.sizes_of(proposals)[0].max()) + 2)
        run(proposals, 0, N, allowed, scratch, value, labels, scores)
        results.append((labels, scores))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
