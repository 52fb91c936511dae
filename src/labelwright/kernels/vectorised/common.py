"""What several NumPy forms of kernels share: sums of numbers given by their logarithms."""

import numpy as np


def log_sum(x, n):
    top = x[:n].max(initial=-np.inf)
    return top + np.log(np.exp(x[:n] - top).sum()) if np.isfinite(top) else top


def subtract_largest(x, first, last):
    top = _largest(x[first:last])[0]
    x[first:last] -= top
    return top


def _largest(x):
    """The largest number of each row [T, 1]; 0 where all are minus infinity."""
    top = x.max(axis=-1, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


def _log_sums(x):
    """log of the sums of exp along the last axis."""
    top = _largest(x)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0]


def _softmax(x):
    """exp(x) over their sum along the last axis; 0 where all are minus infinity."""
    e = np.exp(x - _largest(x))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1.0)
