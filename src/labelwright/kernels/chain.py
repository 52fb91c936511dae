"""Sums over all paths of chains in scaled probability space, sentence by sentence; and what time
order compiles.

Batches of chains that share their arcs are summed in time order (structures.timeorder), 1.4 to 1.8
times as fast.

The head of that file has the recurrences of alpha, beta and c, with psi = exp(node score - its
maximum at t) and E = exp(arc score - its maximum).

States r, s are the nodes of a graph; `blocks` (graph.Blocks) says which of them an arc joins, and
sums over r or s run over the sources or targets of a block.  Of first order there is one block; its
rows are padded with zeros to a multiple of four or eight, so that every inner loop is a whole
number of vector instructions.
"""

import numpy as np

from labelwright.kernels import kernel, unsigned
from labelwright.kernels.common import trusted_range


@kernel
def _row_maxima(x, width, top):
    """top[t] = the largest of x[t, :width], by four maxima at a time, which do not wait for each
    other."""
    one, two, three, w = unsigned(1), unsigned(2), unsigned(3), unsigned(width)
    for t in range(x.shape[0]):
        p, q, u, v = x[t, 0], x[t, 0], x[t, 0], x[t, 0]
        s = unsigned(0)
        while s + three < w:
            a, b, c, d = x[t, s], x[t, s + one], x[t, s + two], x[t, s + three]
            p = a if a > p else p
            q = b if b > q else q
            u = c if c > u else u
            v = d if d > v else v
            s += unsigned(4)
        while s < w:
            a = x[t, s]
            p = a if a > p else p
            s += one
        p = p if p > q else q
        u = u if u > v else v
        top[t] = p if p > u else u


@kernel
def exponentiate32(x, top, width):
    """x[t, :width] = exp(x - its maximum), the rest of the row 0, top[t] = the maximum (float32).

    exp(v) = 2^k p(v - k log 2) with a polynomial p: good to 2e-7, and free of branches, so that it
    vectorises.  It runs over all rows as one, in pieces that stay in the nearest cache."""
    W, w = unsigned(x.shape[1]), unsigned(width)
    _row_maxima(x, width, top)
    for t in range(x.shape[0]):
        m = top[t] if np.isfinite(top[t]) else np.float32(0)
        for s in range(W):
            v = x[t, s] - m
            x[t, s] = v if v > np.float32(-87.0) else np.float32(-87.0)
    flat = x.reshape(x.size)
    n, piece, begin = unsigned(x.size), unsigned(1024), unsigned(0)
    bits = np.empty(1024, np.int32)
    scale = bits.view(np.float32)
    while begin < n:
        size = min(piece, n - begin)
        for s in range(size):
            v = flat[begin + s]
            k = np.floor(v * np.float32(1.44269504) + np.float32(0.5))
            r = (v - k * np.float32(0.693359375)) + k * np.float32(2.12194440e-4)
            p = np.float32(1.9875691500e-4)
            p = p * r + np.float32(1.3981999507e-3)
            p = p * r + np.float32(8.3334519073e-3)
            p = p * r + np.float32(4.1665795894e-2)
            p = p * r + np.float32(1.6666665459e-1)
            p = p * r + np.float32(5.0000001201e-1)
            flat[begin + s] = (p * r) * r + r + np.float32(1.0)
            bits[s] = np.int32(k * np.float32(8388608.0)) + np.int32(1065353216)
        for s in range(size):
            flat[begin + s] *= scale[s]
        begin += piece
    for t in range(x.shape[0]):
        for s in range(w if np.isfinite(top[t]) else unsigned(0), W):
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
def exponentiate_arcs(arc, E, top):
    """E [T or 1, A] = exp(arc - top), top [T or 1] = the maximum of a row; with a row per token,
    the first is 0."""
    begin = 1 if arc.shape[0] > 1 else 0
    E[:begin], E[begin:] = 0, arc[begin:]
    top[:begin] = 0
    exponentiate64(E[begin:], top[begin:], arc.shape[1])


@kernel
def _onwards(x, i, E, e, blocks, out, j):
    """out[j, s] = sum_r x[i, r] E[e, arc from r to s], four sources r of a block at a time.

    Rows are named by number, not passed as views: a view costs as much as eight multiplications."""
    source_ptr, source, target, arc_ptr = (
        blocks.source_ptr,
        blocks.source,
        blocks.target,
        blocks.arc_ptr,
    )
    for block in range(arc_ptr.shape[0] - 1):
        s0, a = unsigned(target[block]), unsigned(arc_ptr[block])
        width = unsigned(target[block + 1]) - s0
        for s in range(width):
            out[j, s0 + s] = 0
        k, last = source_ptr[block], source_ptr[block + 1]
        while k + 3 < last:
            p, q, u, v = (
                x[i, source[k]],
                x[i, source[k + 1]],
                x[i, source[k + 2]],
                x[i, source[k + 3]],
            )
            b = a + width
            c = b + width
            d = c + width
            for s in range(width):
                out[j, s0 + s] += (
                    p * E[e, a + s] + q * E[e, b + s] + u * E[e, c + s] + v * E[e, d + s]
                )
            k += 4
            a = d + width
        while k < last:
            p = x[i, source[k]]
            for s in range(width):
                out[j, s0 + s] += p * E[e, a + s]
            k += 1
            a += width


@kernel
def _count_arcs(alpha, into, T, blocks, arcs):
    """arcs [A] += sum_t alpha_{t-1}(r) into_t(s), four tokens at a time."""
    rows, t = blocks.rows, 1
    while t < T:
        four = t + 3 < T
        for i in range(rows.shape[0]):
            r, s0, a = rows[i, 0], unsigned(rows[i, 1]), unsigned(rows[i, 3])
            width = unsigned(rows[i, 2]) - s0
            if four:
                w, x, y, z = alpha[t - 1, r], alpha[t, r], alpha[t + 1, r], alpha[t + 2, r]
                for s in range(width):
                    k = s0 + s
                    arcs[a + s] += (
                        w * into[t, k]
                        + x * into[t + 1, k]
                        + y * into[t + 2, k]
                        + z * into[t + 3, k]
                    )
            else:
                w = alpha[t - 1, r]
                for s in range(width):
                    arcs[a + s] += w * into[t, s0 + s]
        t += 4 if four else 1


@kernel
def sentence_messages(psi, E, blocks, steps, n, T, alpha, beta, into, scale, sums, count):
    """Messages of one sentence whose token t has the arcs E[row], row = steps[t] + n (or E[0],
    which serves them all): alpha, beta and into = psi beta / c [T, Q], scale = c [T]; sums [T] are
    those of beta_t.

    With `count`, E[row] becomes P(r, s at t-1, t)."""
    width = psi.shape[1]
    by_token, rows = E.shape[0] > 1, blocks.rows
    for t in range(T):
        i = steps[t] + n
        if t > 0:
            _onwards(alpha, steps[t - 1] + n, E, i if by_token else 0, blocks, alpha, i)
        total = psi.dtype.type(0)
        for s in range(width):
            alpha[i, s] = alpha[i, s] * psi[i, s] if t > 0 else psi[i, s]
            total += alpha[i, s]
        scale[i] = total
        one = 1 / total if total > 0 else total
        for s in range(width):
            alpha[i, s] *= one
    for s in range(width):
        beta[steps[T - 1] + n, s] = 1
    for t in range(T - 1, -1, -1):
        i = steps[t] + n
        one = 1 / scale[i] if scale[i] > 0 else scale[i]
        total = psi.dtype.type(0)
        for s in range(width):
            total += beta[i, s]
            into[i, s] = psi[i, s] * beta[i, s] * one
        sums[i] = total
        if t == 0:
            break
        j = steps[t - 1] + n
        e = i if by_token else 0
        for k in range(rows.shape[0]):
            r, s0, at = rows[k, 0], unsigned(rows[k, 1]), unsigned(rows[k, 3])
            columns, total = unsigned(rows[k, 2]) - s0, psi.dtype.type(0)
            if count:
                w = alpha[j, r]
                for s in range(columns):
                    v = E[e, at + s] * into[i, s0 + s]
                    total += v
                    E[e, at + s] = w * v
            else:
                for s in range(columns):
                    total += E[e, at + s] * into[i, s0 + s]
            beta[j, r] = total


@kernel
def messages_by_sentence(psi, E, blocks, steps, lengths, alpha, beta, into, scale, sums, count):
    """Messages of all sentences of a batch in time order (structures.timeorder).

    Where tokens have arcs of their own, sentence by sentence, so that the arcs E [T, A] of a
    sentence are read a second time from the nearest cache: 1.6 times as fast as one compiled loop a
    step, 3 times as fast as batched products of NumPy (22 states, ARM)."""
    for n in range(lengths.shape[0]):
        if lengths[n] > 0:
            sentence_messages(
                psi, E, blocks, steps, n, lengths[n], alpha, beta, into, scale, sums, count
            )


@kernel
def posteriors(psi, top, E, arc_top, blocks):
    """Replace psi [T, Q] of one sentence by P(s at t), and E [T, A] by P(r, s at t-1, t) or, where
    its one row serves every token, by their sum; returns log Z, or NaN where numbers are too small
    or too large to trust."""
    T, Q = psi.shape
    by_token = E.shape[0] > 1
    alpha, beta, into = np.empty_like(psi), np.empty_like(psi), np.empty_like(psi)
    scale, sums = np.empty(T, psi.dtype), np.empty(T, psi.dtype)
    sentence_messages(psi, E, blocks, np.arange(T), 0, T, alpha, beta, into, scale, sums, by_token)
    small, large = trusted_range(psi.itemsize)
    log_z = 0.0
    for t in range(T):
        if not (scale[t] > small and sums[t] / scale[t] < large):
            return np.nan
        log_z += np.log(np.float64(scale[t])) + top[t]
        if t > 0:
            log_z += arc_top[t if by_token else 0]
        for s in range(Q):
            psi[t, s] = alpha[t, s] * beta[t, s]
    if not by_token:
        counts = np.zeros(E.shape[1], psi.dtype)
        _count_arcs(alpha, into, T, blocks, counts)
        for a in range(E.shape[1]):
            E[0, a] *= counts[a]
    return log_z


@kernel
def scale_forward(alpha, psi, a, b, scale, inverse):
    """Of the rows a:b: alpha = alpha psi / scale, where scale makes it sum to one."""
    width = unsigned(alpha.shape[1])
    for t in range(unsigned(a), unsigned(b)):
        total = psi[t, 0] * alpha[t, 0]
        alpha[t, 0] = total
        for s in range(unsigned(1), width):
            alpha[t, s] *= psi[t, s]
            total += alpha[t, s]
        scale[t] = total
        inverse[t] = 1 / total
        for s in range(width):
            alpha[t, s] *= inverse[t]


@scale_forward.in_numpy
def _(alpha, psi, a, b, scale, inverse):
    alpha[a:b] *= psi[a:b]
    alpha[a:b].sum(axis=1, out=scale[a:b])
    np.divide(1, scale[a:b], out=inverse[a:b])
    alpha[a:b] *= inverse[a:b, None]


@kernel
def scale_backward(beta, psi, a, b, inverse, into, sums):
    """Of the rows a:b: into = psi beta / scale, and the sum of beta."""
    width = unsigned(beta.shape[1])
    for t in range(unsigned(a), unsigned(b)):
        total = beta[t, 0]
        into[t, 0] = psi[t, 0] * total * inverse[t]
        for s in range(unsigned(1), width):
            total += beta[t, s]
            into[t, s] = psi[t, s] * beta[t, s] * inverse[t]
        sums[t] = total


@scale_backward.in_numpy
def _(beta, psi, a, b, inverse, into, sums):
    np.multiply(psi[a:b], beta[a:b], out=into[a:b])
    into[a:b] *= inverse[a:b, None]
    beta[a:b].sum(axis=1, out=sums[a:b])


@kernel
def _products(x, i, E, out, j, n):
    """out[j + k] = x[i + k] E for the rows k < n, with a square matrix E: four rows and four
    sources r at a time."""
    width, k = unsigned(x.shape[1]), 0
    for m in range(n):
        for s in range(width):
            out[j + m, s] = 0
    while k + 3 < n:
        a, b, c, d = i + k, i + k + 1, i + k + 2, i + k + 3
        for r in range(0, x.shape[1], 4):
            a0, a1, a2, a3 = x[a, r], x[a, r + 1], x[a, r + 2], x[a, r + 3]
            b0, b1, b2, b3 = x[b, r], x[b, r + 1], x[b, r + 2], x[b, r + 3]
            c0, c1, c2, c3 = x[c, r], x[c, r + 1], x[c, r + 2], x[c, r + 3]
            d0, d1, d2, d3 = x[d, r], x[d, r + 1], x[d, r + 2], x[d, r + 3]
            for s in range(width):
                p, q, u, v = E[r, s], E[r + 1, s], E[r + 2, s], E[r + 3, s]
                out[j + k, s] += a0 * p + a1 * q + a2 * u + a3 * v
                out[j + k + 1, s] += b0 * p + b1 * q + b2 * u + b3 * v
                out[j + k + 2, s] += c0 * p + c1 * q + c2 * u + c3 * v
                out[j + k + 3, s] += d0 * p + d1 * q + d2 * u + d3 * v
        k += 4
    while k < n:
        for r in range(0, x.shape[1], 4):
            a0, a1, a2, a3 = x[i + k, r], x[i + k, r + 1], x[i + k, r + 2], x[i + k, r + 3]
            for s in range(width):
                out[j + k, s] += (
                    a0 * E[r, s] + a1 * E[r + 1, s] + a2 * E[r + 2, s] + a3 * E[r + 3, s]
                )
        k += 1


@kernel
def messages_by_step(psi, E, steps, alpha, beta, into, scale, sums):
    """Messages of a batch of first order in time order, whose tokens share E [1, Q * Q]
    (structures.timeorder).

    Beside a product of BLAS for every step: 2.8 times as fast with 9 labels and 61 sentences a
    step, 1.6 times with 22; 0.8 and 0.6 times as fast with 1,200 sentences a step (ARM, one
    thread).  Nor does it hold the GIL between steps."""
    Q, n, inverse = psi.shape[1], steps.shape[0] - 1, np.empty_like(scale)
    onwards = E.reshape(Q, Q)
    backwards = onwards.T.copy()
    for t in range(n):
        a, b = steps[t], steps[t + 1]
        if t == 0:
            alpha[a:b] = 1
        else:
            _products(alpha, steps[t - 1], onwards, alpha, a, b - a)
        scale_forward(alpha, psi, a, b, scale, inverse)
    for t in range(n - 1, -1, -1):
        a, b, end = steps[t], steps[t + 1], steps[min(t + 2, n)]
        _products(into, b, backwards, beta, a, end - b)
        beta[a + end - b : b] = 1
        scale_backward(beta, psi, a, b, inverse, into, sums)


@kernel
def onwards(x, E, blocks, out):
    """out[n, s] = sum_r x[n, r] E[n, arc from r to s]: one step of many sentences that have arcs of
    their own."""
    for n in range(x.shape[0]):
        _onwards(x, n, E, n, blocks, out, n)


@kernel
def backwards(x, E, blocks, out):
    """out[n, r] = sum_s E[n, arc from r to s] x[n, s]."""
    rows = blocks.rows
    for n in range(x.shape[0]):
        for k in range(rows.shape[0]):
            s0, a, total = unsigned(rows[k, 1]), unsigned(rows[k, 3]), E.dtype.type(0)
            for s in range(unsigned(rows[k, 2]) - s0):
                total += E[n, a + s] * x[n, s0 + s]
            out[n, rows[k, 0]] = total


@kernel
def multiply_outer(x, y, E, blocks):
    """E[n, arc from r to s] *= x[n, r] y[n, s]."""
    rows = blocks.rows
    for n in range(x.shape[0]):
        for k in range(rows.shape[0]):
            s0, a, v = unsigned(rows[k, 1]), unsigned(rows[k, 3]), x[n, rows[k, 0]]
            for s in range(unsigned(rows[k, 2]) - s0):
                E[n, a + s] *= v * y[n, s0 + s]


@kernel
def pair_nodes(state, edge, used, plain, node_state, node):
    """node [T, Q] of order 2 = the score of its state (row of `state`) + plain [Q] + the scores of
    pairs of states (rows of `edge`, of the nodes used [U]; -1: none)."""
    for t in range(node.shape[0]):
        for q in range(plain.shape[0]):
            node[t, q] = state[t, node_state[q]] + plain[q]
        for j in range(used.shape[0]):
            if used[j] >= 0:
                node[t, used[j]] += edge[t, j]


@kernel
def pair_counts(node, used, node_state, state, edge, plain):
    """The adjoint of pair_nodes: fills state [T, S] and edge [T, U], and adds to plain [Q]."""
    state[:] = 0
    for t in range(node.shape[0]):
        for q in range(plain.shape[0]):
            state[t, node_state[q]] += node[t, q]
            plain[q] += node[t, q]
        for j in range(used.shape[0]):
            edge[t, j] = node[t, used[j]] if used[j] >= 0 else 0
        for j in range(used.shape[0], edge.shape[1]):
            edge[t, j] = 0


@kernel
def spread_arcs(rows, used, base, out):
    """out[t] = base, with rows[t, j] added at the place used[j] (-1: nowhere): arc scores [T, A]
    from those in use."""
    for t in range(out.shape[0]):
        for a in range(out.shape[1]):
            out[t, a] = base[a]
        for j in range(used.shape[0]):
            if used[j] >= 0:
                out[t, used[j]] += rows[t, j]


@kernel
def spread_exponentials(rows, used, base, out):
    """The same after exponentiation: out[t] = base * the exponential of 0 (behind the last column
    in use), and base * rows[t, j] at the place used[j]."""
    n = used.shape[0]
    for t in range(out.shape[0]):
        zero = rows[t, n]
        for a in range(out.shape[1]):
            out[t, a] = base[a] * zero
        for j in range(n):
            if used[j] >= 0:
                out[t, used[j]] = base[used[j]] * rows[t, j]


@kernel
def gather_arcs(arcs, used, rows):
    """rows[t, j] = arcs[t, used[j]], and 0 behind: the adjoint of spread_arcs."""
    n = used.shape[0]
    for t in range(rows.shape[0]):
        for j in range(n):
            rows[t, j] = arcs[t, used[j]] if used[j] >= 0 else 0
        for j in range(n, rows.shape[1]):
            rows[t, j] = 0
