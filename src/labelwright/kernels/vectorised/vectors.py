"""The passes over long vectors that an optimiser needs, in NumPy."""

import numpy as np

_BLOCK = 4096  # numbers whose products are summed in the type of the vectors
_AT_ONCE = 1 << 16  # numbers of a temporary vector


def dots(basis, rows, begin, end, out):
    """out[i, j] = basis[rows[i]] . basis[j] over begin..end."""
    out[:] = 0
    for a in range(begin, end, _BLOCK):
        part = basis[:, a : min(a + _BLOCK, end)]
        out += part[rows] @ part.T


def combine(basis, coefficients, begin, end, out):
    """out = sum_j coefficients[j] basis[j] over begin..end."""
    np.matmul(coefficients.astype(basis.dtype), basis[:, begin:end], out=out[begin:end])


def advance(x, direction, step, begin, end, out):
    """out = x + step * direction over begin..end."""
    here = slice(begin, end)
    np.multiply(direction[here], x.dtype.type(step), out=out[here])
    out[here] += x[here]


def add_ridge(x, l2, gradient, direction, begin, end, out):
    """gradient += l2 x; out = (x . x, gradient . direction) over begin..end."""
    out[:] = 0
    strength = x.dtype.type(l2)
    for a in range(begin, end, _AT_ONCE):
        here = slice(a, min(a + _AT_ONCE, end))
        g, product = gradient[here], strength * x[here]
        g += product
        for i, (left, right) in enumerate([(x[here], x[here]), (g, direction[here])]):
            np.multiply(left, right, out=product)
            out[i] += product.sum()  # pairwise: no digits are lost


def differences(x, old_x, g, old_g, begin, end, s, y):
    """s = x - old_x and y = g - old_g over begin..end."""
    here = slice(begin, end)
    np.subtract(x[here], old_x[here], out=s[here])
    np.subtract(g[here], old_g[here], out=y[here])
