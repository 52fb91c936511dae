"""What several NumPy forms of kernels share: sums of numbers given by their logarithms, and the heap of kernels.common
on Python lists, which are faster than arrays where items come one by one."""

import numpy as np


def log_sum(x, n):
    """log of the sum of exp(x[0]) .. exp(x[n-1])."""
    top = x[:n].max(initial=-np.inf)
    return top + np.log(np.exp(x[:n] - top).sum()) if np.isfinite(top) else top


def subtract_largest(x, first, last):
    """Subtract the largest of x[first:last] from them and return it; 0 where all are minus infinity."""
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


def _push(priority, tie, heap, i):
    """Put item i into the heap."""
    heap.append(i)
    at, p, d = len(heap) - 1, priority[i], tie[i]
    while at > 0:
        up = (at - 1) // 2
        j = heap[up]
        if priority[j] > p or (priority[j] == p and tie[j] <= d):
            break
        heap[at] = j
        at = up
    heap[at] = i


def _pop(priority, tie, heap):
    """Take the first item out of the heap."""
    first, i = heap[0], heap.pop()
    size = len(heap)
    if not size:
        return first
    at, p, d = 0, priority[i], tie[i]
    while 2 * at + 1 < size:
        down = 2 * at + 1
        j = heap[down]
        if down + 1 < size:
            k = heap[down + 1]
            if priority[k] > priority[j] or (priority[k] == priority[j] and tie[k] < tie[j]):
                down, j = down + 1, k
        if p > priority[j] or (p == priority[j] and d <= tie[j]):
            break
        heap[at] = j
        at = down
    heap[at] = i
    return first
