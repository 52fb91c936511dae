"""The few passes over long vectors that an optimiser needs, in ranges that threads can share."""

from labelwright.kernels import kernel

BLOCK = 1024  # short enough for the first-level cache, and for float32 sums


@kernel
def dots(basis, rows, begin, end, out):
    """out[i, j] = basis[rows[i]] . basis[j] over begin..end, in one pass over memory."""
    out[:] = 0
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        for i in range(rows.shape[0]):
            r = rows[i]
            for j in range(basis.shape[0]):
                total = basis[0, 0] * 0
                for c in range(a, b):
                    total += basis[r, c] * basis[j, c]
                out[i, j] += total


@kernel
def combine(basis, coefficients, begin, end, out):
    """out = sum_j coefficients[j] basis[j] over begin..end, in one pass over memory."""
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        for c in range(a, b):
            out[c] = 0
        for j in range(basis.shape[0]):
            x = out[0] * 0 + coefficients[j]
            if x != 0:
                for c in range(a, b):
                    out[c] += x * basis[j, c]


@kernel
def advance(x, direction, step, begin, end, out):
    """out = x + step * direction over begin..end."""
    s = x[0] * 0 + step
    for c in range(begin, end):
        out[c] = x[c] + s * direction[c]


@kernel
def add_ridge(x, l2, gradient, direction, begin, end, out):
    """gradient += l2 x; out = (x . x, gradient . direction) over begin..end."""
    out[:] = 0
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        xx = x[0] * 0
        gd = xx
        strength = xx + l2
        for c in range(a, b):
            g = gradient[c] + strength * x[c]
            gradient[c] = g
            xx += x[c] * x[c]
            gd += g * direction[c]
        out[0] += xx
        out[1] += gd


@kernel
def differences(x, old_x, g, old_g, begin, end, s, y):
    """s = x - old_x and y = g - old_g over begin..end."""
    for c in range(begin, end):
        s[c] = x[c] - old_x[c]
        y[c] = g[c] - old_g[c]
