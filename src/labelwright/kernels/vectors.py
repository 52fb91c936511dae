"""The few passes over long vectors that an optimiser needs, in ranges that threads can share."""

from labelwright.kernels import inlined_kernel, kernel, unsigned

BLOCK = 1024  # short enough for the first-level cache, and for float32 sums


@kernel
def dots(basis, rows, begin, end, out):
    """out[i, j] = basis[rows[i]] . basis[j] over begin..end, in one pass over memory."""
    out[:] = 0
    three = rows.shape[0] == 3
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        for j in range(unsigned(basis.shape[0])):
            if three:
                _add_three_dots(basis, rows, j, a, b, out)
            else:
                for i in range(rows.shape[0]):
                    total = basis.dtype.type(0)
                    for c in range(unsigned(a), unsigned(b)):
                        total += basis[unsigned(rows[i]), c] * basis[j, c]
                    out[i, j] += total


@inlined_kernel
def _add_three_dots(basis, rows, j, a, b, out):
    """out[:, j] += basis[rows] . basis[j] over a..b for three rows, which an iteration has: row j is read once."""
    p, q, r = unsigned(rows[0]), unsigned(rows[1]), unsigned(rows[2])
    x = y = z = basis.dtype.type(0)
    for c in range(unsigned(a), unsigned(b)):
        v = basis[j, c]
        x += basis[p, c] * v
        y += basis[q, c] * v
        z += basis[r, c] * v
    out[0, j] += x
    out[1, j] += y
    out[2, j] += z


@kernel
def combine(basis, coefficients, begin, end, out):
    """out = sum_j coefficients[j] basis[j] over begin..end, in one pass over memory."""
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        for c in range(a, b):
            out[c] = 0
        for j in range(unsigned(basis.shape[0])):
            x = out.dtype.type(coefficients[j])
            if x != 0:
                for c in range(unsigned(a), unsigned(b)):
                    out[c] += x * basis[j, c]


@kernel
def advance(x, direction, step, begin, end, out):
    """out = x + step * direction over begin..end."""
    s = x.dtype.type(step)
    for c in range(unsigned(begin), unsigned(end)):
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
    for c in range(unsigned(begin), unsigned(end)):
        s[c] = x[c] - old_x[c]
        y[c] = g[c] - old_g[c]
