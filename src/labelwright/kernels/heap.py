"""A binary heap of item numbers: the highest priority first, of equal ones the smallest tie."""

from labelwright.kernels import kernel


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
