"""Sums of numbers given by their logarithms, and when scaled sums must give way to them."""

import numpy as np

from labelwright.kernels import kernel, literal_kernel

# Forward-backward in scaled probability space: a scale c_t below the first number has lost digits.  What underflows in
# alpha_t, psi_t or E counts at most beta_t / c_t times its size: above the second number it might count, as in a path
# that looks hopeless at first and wins later.  Such sentences are summed in log space.
SMALL32, LARGE32 = 1e-18, 1e28
SMALL64, LARGE64 = 1e-200, 1e280


@kernel
def trusted_range(itemsize):
    """The smallest scale and the largest message that may be trusted, by the bytes of a number."""
    return (SMALL32, LARGE32) if itemsize == 4 else (SMALL64, LARGE64)


@literal_kernel
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
