"""Walking down an IGTree: from the root along the values of a query, as far as they are known."""

from labelwright.kernels import kernel


@kernel
def descend(code, child, queries, reached, levels):
    """Write the last node that each query [Q, F] reaches, and how many columns were left there."""
    F = queries.shape[1]
    for q in range(queries.shape[0]):
        node, level = 0, 0
        while level < F:
            low, high = child[node], child[node + 1]
            end, wanted = high, queries[q, level]
            while low < high:
                middle = (low + high) >> 1
                if code[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            if low == end or code[low] != wanted:
                break
            node = low
            level += 1
        reached[q], levels[q] = node, F - level
