"""Sums over all cells of a contingency table of values and classes, in one order."""

from labelwright.kernels import literal_kernel


@literal_kernel
def chi_squared(value, cls, often, values, classes, n):
    """The sum of (O - E)^2 / E over all cells, zeros too, value by value: one rounding after the other as in TiMBL.

    The cells that are not zero are value, cls, often [E], in the order of values [V] and then of classes [C]."""
    total, e = 0.0, 0
    for v in range(values.shape[0]):
        for c in range(classes.shape[0]):
            expected = classes[c] * values[v] / n
            if e < value.shape[0] and value[e] == v and cls[e] == c:
                apart = expected - often[e]
                total += apart * apart / expected
                e += 1
            else:
                total += expected
    return total
