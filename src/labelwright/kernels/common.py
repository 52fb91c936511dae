"""What several kernels share: sums of numbers given by their logarithms, when scaled sums must give way to them, and a
binary heap."""

import numpy as np

from labelwright.kernels import kernel, literal_kernel, max_kernel, unsigned

# Forward-backward in scaled probability space: a scale c_t below the first number has lost digits.  What underflows in
# alpha_t, psi_t or E counts at most beta_t / c_t times its size: above the second number it might count, as in a path
# that looks hopeless at first and wins later.  Such sentences are summed in log space.
SMALL32, LARGE32 = 1e-18, 1e28
SMALL64, LARGE64 = 1e-200, 1e280


@kernel
def trusted_range(itemsize):
    """The smallest scale and the largest message that may be trusted, by the bytes of a number."""
    return (SMALL32, LARGE32) if itemsize == 4 else (SMALL64, LARGE64)


@max_kernel
def largest(x, first, last):
    """The largest of x[first:last], none of which is NaN; minus infinity where there is none."""
    m = -np.inf
    for i in range(unsigned(first), unsigned(last)):
        m = max(m, x[i])
    return m


@literal_kernel
def log_sum(x, n):
    """log of the sum of exp(x[0]) .. exp(x[n-1])."""
    m = largest(x, 0, n)
    if not np.isfinite(m):
        return m
    total = 0.0
    for i in range(n):
        total += np.exp(x[i] - m)
    return m + np.log(total)


@literal_kernel
def softmax(x, n):
    """x[0] .. x[n-1] become exp(x) over their sum, so that equal ones get equal shares at any scale; returns log of
    the sum.  Where all are minus infinity, they become 0."""
    m = largest(x, 0, n)
    if m == -np.inf:
        for i in range(n):
            x[i] = 0.0
        return m
    total = 0.0
    for i in range(unsigned(n)):
        x[i] = np.exp(x[i] - m)
        total += x[i]
    one = 1 / total
    for i in range(unsigned(n)):
        x[i] *= one
    return m + np.log(total)


@literal_kernel
def subtract_largest(x, first, last):
    """Subtract the largest of x[first:last] from them and return it; 0 where all are minus infinity."""
    m = largest(x, first, last)
    if m == -np.inf:
        return 0.0
    for i in range(first, last):
        x[i] -= m
    return m


# -- a binary heap of item numbers: the highest priority first, of equal ones the smallest tie -------------------------


@kernel
def push(priority, tie, heap, size, i):
    """Put item i into a heap of this size."""
    at = size
    p, d = priority[i], tie[i]
    while at > 0:
        up = (at - 1) // 2
        j = heap[up]
        if priority[j] > p or (priority[j] == p and tie[j] <= d):
            break
        heap[at] = j
        at = up
    heap[at] = i


@kernel
def pop(priority, tie, heap, size):
    """Take the first item out of a heap of this size."""
    first = heap[0]
    i = heap[size - 1]
    p, d = priority[i], tie[i]
    at = 0
    while 2 * at + 1 < size - 1:
        down = 2 * at + 1
        j = heap[down]
        if down + 1 < size - 1:
            k = heap[down + 1]
            if priority[k] > priority[j] or (priority[k] == priority[j] and tie[k] < tie[j]):
                down, j = down + 1, k
        if p > priority[j] or (p == priority[j] and d <= tie[j]):
            break
        heap[at] = j
        at = down
    heap[at] = i
    return first
