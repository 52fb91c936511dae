"""Descent of an IGTree: from the root along the values of a query, as far as they are known."""

from labelwright.kernels import kernel
from labelwright.kernels.neighbours import find_child


@kernel
def descend(code, child, queries, reached, levels):
    """Write the last node that each query [Q, F] reaches, and how many columns remain below it."""
    F = queries.shape[1]
    for q in range(queries.shape[0]):
        node, level = 0, 0
        while level < F:
            down = find_child(code, child[node], child[node + 1], queries[q, level])
            if down < 0:
                break
            node, level = down, level + 1
        reached[q], levels[q] = node, F - level
