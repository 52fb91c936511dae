"""The heap of `kernels.heap` on Python lists, which are faster than arrays where items come one by one."""


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
