"""Sums of numbers given by their logarithms."""

import numpy as np

from labelwright.kernels import kernel


@kernel
def log_sum(x, n):
    """log of the sum of exp(x[0]) .. exp(x[n-1])."""
    m = -np.inf
    for i in range(n):
        m = max(m, x[i])
    if not np.isfinite(m):
        return m
    total = 0.0
    for i in range(n):
        total += np.exp(x[i] - m)
    return m + np.log(total)
