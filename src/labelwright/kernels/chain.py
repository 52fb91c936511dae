"""Sums over all labellings of a chain in scaled probability space.

With psi_t(s) = exp(node score - its maximum at t) and E(r, s) = exp(arc score - its maximum):

    alpha_t(s) = psi_t(s) sum_r alpha_{t-1}(r) E(r, s) / c_t        c_t makes alpha_t sum to one
    beta_{t-1}(r) = sum_s E(r, s) psi_t(s) beta_t(s) / c_t          beta_T = 1
    log Z = sum_t (log c_t + maximum of node at t) + (T - 1) maximum of arc
    P(s at t) = alpha_t(s) beta_t(s);   P(r, s at t-1, t) = alpha_{t-1}(r) E(r, s) psi_t(s) beta_t(s) / c_t

Rows are padded with zeros to a multiple of eight, so that every inner loop is a whole number of vector instructions.
"""

import numpy as np

from labelwright.kernels import kernel

TINY = 1e-18  # a scale below this has lost digits in float32: the sentence is done again in log space
# What underflows in alpha_t, psi_t or E counts at most beta_t / c_t times its own size (below 1e-37 in float32): above
# this it might count, as in a path that looks hopeless at first and wins later.
LARGE = 1e28


@kernel
def exponentiate32(x, top, width):
    """x[t, :width] = exp(x - its maximum), the rest of the row 0, top[t] = the maximum (float32).

    exp(v) = 2^k p(v - k log 2) with a polynomial p: good to 2e-7, and free of branches, so that it vectorises."""
    width8 = x.shape[1]
    bits = np.empty(width8, np.int32)
    scale = bits.view(np.float32)
    for t in range(x.shape[0]):
        m = x[t, 0]
        for s in range(width):
            m = max(m, x[t, s])
        top[t] = m
        if not np.isfinite(m):
            x[t, :] = 0
            continue
        for s in range(width8):
            v = max(x[t, s] - m, np.float32(-87.0))
            k = np.floor(v * np.float32(1.44269504) + np.float32(0.5))
            r = (v - k * np.float32(0.693359375)) + k * np.float32(2.12194440e-4)
            p = np.float32(1.9875691500e-4)
            p = p * r + np.float32(1.3981999507e-3)
            p = p * r + np.float32(8.3334519073e-3)
            p = p * r + np.float32(4.1665795894e-2)
            p = p * r + np.float32(1.6666665459e-1)
            p = p * r + np.float32(5.0000001201e-1)
            x[t, s] = (p * r) * r + r + np.float32(1.0)
            bits[s] = np.int32(k * np.float32(8388608.0)) + np.int32(1065353216)
        for s in range(width8):
            x[t, s] *= scale[s]
        for s in range(width, width8):
            x[t, s] = 0


@kernel
def exponentiate64(x, top, width):
    """As exponentiate32, in float64."""
    for t in range(x.shape[0]):
        m = x[t, 0]
        for s in range(width):
            m = max(m, x[t, s])
        top[t] = m
        for s in range(width):
            x[t, s] = np.exp(x[t, s] - m) if np.isfinite(m) else 0.0
        for s in range(width, x.shape[1]):
            x[t, s] = 0


@kernel
def _times(x, i, matrix, out, j):
    """out[j] = x[i] @ matrix, four rows of the (padded) matrix at a time.

    Rows are named by number, not passed as views: a view costs as much as eight multiplications."""
    width = matrix.shape[1]
    a, b, c, d = x[i, 0], x[i, 1], x[i, 2], x[i, 3]
    for s in range(width):
        out[j, s] = a * matrix[0, s] + b * matrix[1, s] + c * matrix[2, s] + d * matrix[3, s]
    for r in range(4, width, 4):
        a, b, c, d = x[i, r], x[i, r + 1], x[i, r + 2], x[i, r + 3]
        for s in range(width):
            out[j, s] += a * matrix[r, s] + b * matrix[r + 1, s] + c * matrix[r + 2, s] + d * matrix[r + 3, s]


@kernel
def _forward(psi, E, alpha, scale):
    """Fill alpha [T, S] and scale [T]; False where the numbers are too small to trust."""
    T, width = psi.shape
    total = psi[0, 0] * 0
    for s in range(width):
        alpha[0, s] = psi[0, s]
        total += psi[0, s]
    for t in range(T):
        if t > 0:
            _times(alpha, t - 1, E, alpha, t)
            total = psi[0, 0] * 0
            for s in range(width):
                alpha[t, s] *= psi[t, s]
                total += alpha[t, s]
        scale[t] = total
        if not (total > TINY and np.isfinite(total)):
            return False
        one = 1 / total
        for s in range(width):
            alpha[t, s] *= one
    return True


@kernel
def _log_z(scale, top, arc_top):
    z = arc_top * (scale.shape[0] - 1)
    for t in range(scale.shape[0]):
        z += np.log(np.float64(scale[t])) + top[t]
    return z


@kernel
def posteriors(psi, top, E, ET, arc_top, offsets, log_z, arcs):
    """Replace psi by P(s at t) in every sentence, fill log_z [N], add sum_t P(r, s at t-1, t) / E(r, s) to arcs [S, S].

    A sentence whose numbers are too small or too large gets log_z = NaN, and nothing else of it is to be used."""
    width = psi.shape[1]
    first = offsets[0]
    longest = 0
    for n in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    alpha = np.empty((longest, width), psi.dtype)
    into = np.zeros((longest + 4, width), psi.dtype)  # psi_t beta_t / c_t
    scale = np.empty(longest, psi.dtype)
    beta = np.empty((1, width), psi.dtype)
    for n in range(offsets.shape[0] - 1):
        a, b = offsets[n] - first, offsets[n + 1] - first
        T = b - a
        if T == 0:
            log_z[n] = 0
            continue
        p = psi[a:b]
        if not _forward(p, E, alpha[:T], scale[:T]):
            log_z[n] = np.nan
            continue
        log_z[n] = _log_z(scale[:T], top[a:b], arc_top)
        beta[:] = 1
        largest = psi[0, 0] * 0
        for t in range(T - 1, -1, -1):
            one = 1 / scale[t]
            total = psi[0, 0] * 0
            for s in range(width):
                total += beta[0, s]
                into[t, s] = p[t, s] * beta[0, s] * one
                p[t, s] = alpha[t, s] * beta[0, s]
            largest = max(largest, total * one)
            if not largest < LARGE:
                break
            if t > 0:
                _times(into, t, ET, beta, 0)
        if not largest < LARGE:
            log_z[n] = np.nan
            continue
        t = 1
        while t + 3 < T:
            for r in range(width):
                w, x, y, z = alpha[t - 1, r], alpha[t, r], alpha[t + 1, r], alpha[t + 2, r]
                for s in range(width):
                    arcs[r, s] += w * into[t, s] + x * into[t + 1, s] + y * into[t + 2, s] + z * into[t + 3, s]
            t += 4
        while t < T:
            for r in range(width):
                w = alpha[t - 1, r]
                for s in range(width):
                    arcs[r, s] += w * into[t, s]
            t += 1


@kernel
def posteriors_by_arc(psi, top, E, arc_top, offsets, log_z):
    """As `posteriors`, with arc scores of their own at every token: E [T, S, S] (its first row in a sentence is not
    used) is replaced by P(r, s at t-1, t)."""
    width = psi.shape[1]
    first = offsets[0]
    longest = 0
    for n in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    alpha = np.empty((longest, width), psi.dtype)
    scale = np.empty(longest, psi.dtype)
    beta = np.empty(width, psi.dtype)
    into = np.empty(width, psi.dtype)
    for n in range(offsets.shape[0] - 1):
        a, b = offsets[n] - first, offsets[n + 1] - first
        T = b - a
        if T == 0:
            log_z[n] = 0
            continue
        E[a] = 0
        arc_top[a] = 0
        sound = True
        for t in range(T):
            if t == 0:
                for s in range(width):
                    alpha[0, s] = psi[a, s]
            else:
                _times(alpha, t - 1, E[a + t], alpha, t)
                for s in range(width):
                    alpha[t, s] *= psi[a + t, s]
            total = psi[0, 0] * 0
            for s in range(width):
                total += alpha[t, s]
            scale[t] = total
            if not (total > TINY and np.isfinite(total)):
                sound = False
                break
            one = 1 / total
            for s in range(width):
                alpha[t, s] *= one
        if not sound:
            log_z[n] = np.nan
            continue
        z = 0.0
        for t in range(T):
            z += np.log(np.float64(scale[t])) + top[a + t] + arc_top[a + t]
        log_z[n] = z
        beta[:] = 1
        largest = psi[0, 0] * 0
        for t in range(T - 1, -1, -1):
            one = 1 / scale[t]
            total = psi[0, 0] * 0
            for s in range(width):
                total += beta[s]
                into[s] = psi[a + t, s] * beta[s] * one
                psi[a + t, s] = alpha[t, s] * beta[s]
            largest = max(largest, total * one)
            if t == 0 or not largest < LARGE:
                break
            for r in range(width):
                total = psi[0, 0] * 0
                w = alpha[t - 1, r]
                row = E[a + t, r]
                for s in range(width):
                    v = row[s] * into[s]
                    total += v
                    row[s] = w * v
                beta[r] = total
        if not largest < LARGE:
            log_z[n] = np.nan


@kernel
def spread_arcs(rows, used, base, out):
    """out[t] = base, with rows[t, j] added at the place used[j]: arc scores [T, A] from those of the arcs in use."""
    for t in range(out.shape[0]):
        for a in range(out.shape[1]):
            out[t, a] = base[a]
        for j in range(used.shape[0]):
            out[t, used[j]] += rows[t, j]


@kernel
def spread_exponentials(rows, used, base, out):
    """The same after exponentiation: out[t] = base * the exponential of 0 (behind the last column in use), and
    base * rows[t, j] at the place used[j]."""
    n = used.shape[0]
    for t in range(out.shape[0]):
        zero = rows[t, n]
        for a in range(out.shape[1]):
            out[t, a] = base[a] * zero
        for j in range(n):
            out[t, used[j]] = base[used[j]] * rows[t, j]


@kernel
def gather_arcs(arcs, used, rows):
    """rows[t, j] = arcs[t, used[j]], and 0 behind: the adjoint of spread_arcs."""
    n = used.shape[0]
    for t in range(rows.shape[0]):
        for j in range(n):
            rows[t, j] = arcs[t, used[j]]
        for j in range(n, rows.shape[1]):
            rows[t, j] = 0
