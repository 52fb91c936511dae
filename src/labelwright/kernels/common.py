"""What several kernels share: sums of numbers given by their logarithms, when scaled sums must give
way to them, binary search, and a binary heap."""

from cython.cimports.libc.math import INFINITY, exp, isfinite, log

# Forward-backward in scaled probability space: a scale c_t below the first number has lost digits.
# What underflows in alpha_t, psi_t or E counts at most beta_t / c_t times its size: above the
# second number it might count, as in a path that looks hopeless at first and wins later.  Such
# sentences are summed in log space.


def smallest_scale(itemsize):
    """The smallest scale that may be trusted, by the bytes of a number."""
    return 1e-18 if itemsize == 4 else 1e-200


def largest_message(itemsize):
    """The largest message that may be trusted, by the bytes of a number."""
    return 1e28 if itemsize == 4 else 1e280


def largest(x, first, last):
    """The largest of x[first:last], none of which is NaN; minus infinity where there is none."""
    m = -INFINITY
    for i in range(first, last):
        if x[i] > m:
            m = x[i]
    return m


def first_largest(x, n):
    """The place of the largest of x[0] .. x[n-1], the first of equal ones."""
    best = 0
    for i in range(1, n):
        if x[i] > x[best]:
            best = i
    return best


def log_sum(x, n):
    """log of the sum of exp(x[0]) .. exp(x[n-1])."""
    m = largest(x, 0, n)
    if not isfinite(m):
        return m
    total = 0.0
    for i in range(n):
        total += exp(x[i] - m)
    return m + log(total)


def softmax(x, n):
    """x[0] .. x[n-1] become exp(x) over their sum, so that equal ones get equal shares at any
    scale; returns log of the sum.  Where all are minus infinity, they become 0."""
    m = largest(x, 0, n)
    if m == -INFINITY:
        for i in range(n):
            x[i] = 0
        return m
    total = 0.0
    for i in range(n):
        x[i] = exp(x[i] - m)
        total += x[i]
    one = 1 / total
    for i in range(n):
        x[i] *= one
    return m + log(total)


def subtract_largest(x, first, last):
    """Subtract the largest of x[first:last] from them and return it; 0 where all are minus
    infinity."""
    m = largest(x, first, last)
    if m == -INFINITY:
        return 0
    for i in range(first, last):
        x[i] -= m
    return m


def find(numbers, first, last, wanted):
    """The place of `wanted` among the rising numbers[first:last], by halving; -1 where it is
    not."""
    low = first
    high = last
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    if low < last and numbers[low] == wanted:
        return low
    return -1


def longest_of(order, offsets):
    """The length of the longest of these sentences."""
    longest = 0
    for i in range(order.shape[0]):
        length = offsets[order[i] + 1] - offsets[order[i]]
        if length > longest:
            longest = length
    return longest


# -- a binary heap of item numbers: the highest priority first, of equal ones the smallest tie -----


def push(priority, tie, heap, size, i):
    """Put item i into a heap of this size."""
    at = size
    p = priority[i]
    d = tie[i]
    while at > 0:
        up = (at - 1) // 2
        j = heap[up]
        if priority[j] > p or (priority[j] == p and tie[j] <= d):
            break
        heap[at] = j
        at = up
    heap[at] = i


def pop(priority, tie, heap, size):
    """Take the first item out of a heap of this size."""
    first = heap[0]
    i = heap[size - 1]
    p = priority[i]
    d = tie[i]
    at = 0
    while 2 * at + 1 < size - 1:
        down = 2 * at + 1
        j = heap[down]
        if down + 1 < size - 1:
            k = heap[down + 1]
            if priority[k] > priority[j] or (priority[k] == priority[j] and tie[k] < tie[j]):
                down = down + 1
                j = k
        if p > priority[j] or (p == priority[j] and d <= tie[j]):
            break
        heap[at] = j
        at = down
    heap[at] = i
    return first
