"""Sums of numbers given by their logarithms, in NumPy."""

import numpy as np


def log_sum(x, n):
    """log of the sum of exp(x[0]) .. exp(x[n-1])."""
    top = x[:n].max(initial=-np.inf)
    return top + np.log(np.exp(x[:n] - top).sum()) if np.isfinite(top) else top
