"""Sums over all paths of chains in scaled probability space, sentence by sentence, and the steps of
such sums in time order.

Batches of chains that share their arcs are summed in time order (structures.timeorder), 1.4 to 1.8
times as fast.  The head of that file has the recurrences of alpha, beta and c, with
psi = exp(node score - its maximum at t) and E = exp(arc score - its maximum).

States r, s are the nodes of a graph; its blocks say which of them an arc joins, and sums over r or
s run over the sources or targets of a block.  Of first order there is one block; its rows are
padded with zeros to a multiple of four or eight, so that every inner loop is a whole number of
vector instructions.

Sums in this file may be reordered and fused: last digits depend on the processor.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.common import largest_message, smallest_scale
from cython.cimports.labelwright.kernels.graph import BlocksView
from cython.cimports.libc.math import NAN, exp, floorf, isfinite, log

PIECE = 1024  # numbers that stay in the nearest cache


# -- exponentials ----------------------------------------------------------------------------------


def exponentiate32(x, top, width):
    """x[t, :width] = exp(x - its maximum), the rest of the row 0, top[t] = the maximum (float32).

    exp(v) = 2^k p(v - k log 2) with a polynomial p: good to 2e-7, and free of branches, so that it
    vectorises.  It runs over all rows as one, in pieces that stay in the nearest cache."""
    piece = np.empty(PIECE, np.int32)
    bits = piece
    scale = piece.view(np.float32)
    flat = np.asarray(x).reshape(-1)
    with cython.nogil:
        for t in range(x.shape[0]):
            top[t] = _largest_of_row(x, t, width)
            _subtract(x, t, top[t] if isfinite(top[t]) else 0)
        begin = 0
        while begin < flat.shape[0]:
            size = min(PIECE, flat.shape[0] - begin)
            _exponentials(flat, begin, size, bits, scale)
            begin += size
        for t in range(x.shape[0]):
            for s in range(width if isfinite(top[t]) else 0, x.shape[1]):
                x[t, s] = 0


def _largest_of_row(x, t, width):
    """The largest of x[t, :width], by four maxima at a time, which do not wait for each other."""
    p = q = u = v = x[t, 0]
    s = 0
    while s + 3 < width:
        p = x[t, s] if x[t, s] > p else p
        q = x[t, s + 1] if x[t, s + 1] > q else q
        u = x[t, s + 2] if x[t, s + 2] > u else u
        v = x[t, s + 3] if x[t, s + 3] > v else v
        s += 4
    while s < width:
        p = x[t, s] if x[t, s] > p else p
        s += 1
    p = p if p > q else q
    u = u if u > v else v
    return p if p > u else u


def _subtract(x, t, m):
    """x[t] -= m, but nothing below -87, whose exponential is the smallest number there is."""
    for s in range(x.shape[1]):
        v = x[t, s] - m
        x[t, s] = v if v > -87 else -87


def _exponentials(flat, begin, size, bits, scale):
    """flat[begin:begin+size] = their exponentials; bits and scale are one scratch array."""
    log2_e, log_2_high, log_2_low = 1.44269504, 0.693359375, -2.12194440e-4
    p0, p1, p2 = 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3
    p3, p4, p5 = 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
    half, exponent = 0.5, 8388608
    for s in range(size):
        v = flat[begin + s]
        k = floorf(v * log2_e + half)
        r = (v - k * log_2_high) - k * log_2_low
        p = p0
        p = p * r + p1
        p = p * r + p2
        p = p * r + p3
        p = p * r + p4
        p = p * r + p5
        flat[begin + s] = (p * r) * r + r + 1
        bits[s] = cython.cast(cython.int, k * exponent) + 1065353216
    for s in range(size):
        flat[begin + s] *= scale[s]


def exponentiate64(x, top, width):
    """As exponentiate32, in float64."""
    with cython.nogil:
        _exponentiate64(x, top, width)


def _exponentiate64(x, top, width):
    for t in range(x.shape[0]):
        m = x[t, 0]
        for s in range(width):
            m = x[t, s] if x[t, s] > m else m
        top[t] = m
        for s in range(width):
            x[t, s] = exp(x[t, s] - m) if isfinite(m) else 0
        for s in range(width, x.shape[1]):
            x[t, s] = 0


def exponentiate_arcs(arc, E, top):
    """E [T or 1, A] = exp(arc - top), top [T or 1] = the maximum of a row; with a row per token,
    the first is 0."""
    first = 0
    if arc.shape[0] > 1:
        first = 1
        top[0] = 0
        E[0, :] = 0
    E[first:, :] = arc[first:, :]
    _exponentiate64(E[first:, :], top[first:], arc.shape[1])


# -- messages, sentence by sentence ----------------------------------------------------------------


def _onwards(x, i, E, e, blocks, out, j):
    """out[j, s] = sum_r x[i, r] E[e, arc from r to s], four sources r of a block at a time.

    Products are added in the order of the sources, as BLAS does, so that a sentence mostly has the
    same bits alone and in a batch.  Rows are named by number, not passed as views: a view costs as
    much as eight multiplications."""
    for block in range(blocks.arc_ptr.shape[0] - 1):
        s0 = blocks.target[block]
        a = blocks.arc_ptr[block]
        width = blocks.target[block + 1] - s0
        for s in range(width):
            out[j, s0 + s] = 0
        k = blocks.source_ptr[block]
        last = blocks.source_ptr[block + 1]
        while k + 3 < last:
            p = x[i, blocks.source[k]]
            q = x[i, blocks.source[k + 1]]
            u = x[i, blocks.source[k + 2]]
            v = x[i, blocks.source[k + 3]]
            b = a + width
            c = b + width
            d = c + width
            for s in range(width):
                total = out[j, s0 + s] + p * E[e, a + s]
                total = total + q * E[e, b + s]
                total = total + u * E[e, c + s]
                out[j, s0 + s] = total + v * E[e, d + s]
            k += 4
            a = d + width
        while k < last:
            p = x[i, blocks.source[k]]
            for s in range(width):
                out[j, s0 + s] += p * E[e, a + s]
            k += 1
            a += width


def _count_arcs(alpha, into, T, blocks, arcs):
    """arcs [A] += sum_t alpha_{t-1}(r) into_t(s), four tokens at a time."""
    rows = blocks.rows
    t = 1
    while t < T:
        four = t + 3 < T
        for i in range(rows.shape[0]):
            r = rows[i, 0]
            s0 = rows[i, 1]
            a = rows[i, 3]
            width = rows[i, 2] - s0
            w = alpha[t - 1, r]
            if four:
                x = alpha[t, r]
                y = alpha[t + 1, r]
                z = alpha[t + 2, r]
                for s in range(width):
                    k = s0 + s
                    arcs[a + s] += (
                        w * into[t, k]
                        + x * into[t + 1, k]
                        + y * into[t + 2, k]
                        + z * into[t + 3, k]
                    )
            else:
                for s in range(width):
                    arcs[a + s] += w * into[t, s0 + s]
        t += 4 if four else 1


def sentence_messages(psi, E, blocks, steps, n, T, alpha, beta, into, scale, sums, count):
    """Messages of one sentence whose token t has the arcs E[row], row = steps[t] + n (or E[0],
    which serves them all): alpha, beta and into = psi beta / c [T, Q], scale = c [T]; sums [T] are
    those of beta_t.

    With `count`, E[row] becomes P(r, s at t-1, t)."""
    by_token = E.shape[0] > 1
    for t in range(T):
        i = steps[t] + n
        if t > 0:
            _onwards(alpha, steps[t - 1] + n, E, i if by_token else 0, blocks, alpha, i)
        else:
            alpha[i, :] = 1
        _scale_forward(alpha, psi, i, i + 1, scale, sums)  # sums are the inverse scales for a while
    beta[steps[T - 1] + n, :] = 1
    for t in range(T - 1, -1, -1):
        i = steps[t] + n
        _scale_backward(beta, psi, i, i + 1, sums, into, sums)
        if t > 0:
            e = i if by_token else 0
            _step_back(E, e, blocks, alpha, steps[t - 1] + n, into, i, beta, count)


def _step_back(E, e, blocks, alpha, j, into, i, beta, count):
    """beta[j, r] = sum_s E[e, arc from r to s] into[i, s]; with `count`, E[e] becomes
    probabilities."""
    rows = blocks.rows
    for k in range(rows.shape[0]):
        r = rows[k, 0]
        s0 = rows[k, 1]
        at = rows[k, 3]
        columns = rows[k, 2] - s0
        total = 0
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


def messages_by_sentence(psi, E, blocks, steps, lengths, alpha, beta, into, scale, sums, count):
    """Messages of all sentences of a batch in time order (structures.timeorder).

    Where tokens have arcs of their own, sentence by sentence, so that the arcs E [T, A] of a
    sentence are read a second time from the nearest cache: 1.6 times as fast as one compiled loop a
    step, 3 times as fast as batched products of NumPy (22 states, ARM)."""
    view = BlocksView(blocks)
    with cython.nogil:
        for n in range(lengths.shape[0]):
            if lengths[n] > 0:
                sentence_messages(
                    psi, E, view, steps, n, lengths[n], alpha, beta, into, scale, sums, count
                )


def posteriors(psi, top, E, arc_top, blocks, steps, alpha, beta, into, scale, sums, counts):
    """Replace psi [T, Q] of one sentence by P(s at t), and E [T, A] by P(r, s at t-1, t) or, where
    its one row serves every token, by their sum; returns log Z, or NaN where numbers are too small
    or too large to trust.

    The rest is scratch: steps [T] = 0, 1, ..., messages [T, Q], scale and sums [T], counts [A]."""
    T = psi.shape[0]
    by_token = E.shape[0] > 1
    sentence_messages(psi, E, blocks, steps, 0, T, alpha, beta, into, scale, sums, by_token)
    small = smallest_scale(8)
    large = largest_message(8)
    log_z = 0.0
    for t in range(T):
        if not (scale[t] > small and sums[t] / scale[t] < large):
            return NAN
        log_z += log(scale[t]) + top[t]
        if t > 0:
            log_z += arc_top[t if by_token else 0]
        for s in range(psi.shape[1]):
            psi[t, s] = alpha[t, s] * beta[t, s]
    if not by_token:
        for a in range(E.shape[1]):
            counts[a] = 0
        _count_arcs(alpha, into, T, blocks, counts)
        for a in range(E.shape[1]):
            E[0, a] *= counts[a]
    return log_z


# -- messages in time order ------------------------------------------------------------------------


def scale_forward(alpha, psi, a, b, scale, inverse):
    """Of the rows a:b: alpha = alpha psi / scale, where scale makes it sum to one."""
    with cython.nogil:
        _scale_forward(alpha, psi, a, b, scale, inverse)


def _scale_forward(alpha, psi, a, b, scale, inverse):
    for t in range(a, b):
        total = 0
        for s in range(alpha.shape[1]):
            alpha[t, s] *= psi[t, s]
            total += alpha[t, s]
        scale[t] = total
        one = 1 / total
        inverse[t] = one
        for s in range(alpha.shape[1]):
            alpha[t, s] *= one


def scale_backward(beta, psi, a, b, inverse, into, sums):
    """Of the rows a:b: into = psi beta / scale, and the sum of beta."""
    with cython.nogil:
        _scale_backward(beta, psi, a, b, inverse, into, sums)


def _scale_backward(beta, psi, a, b, inverse, into, sums):
    for t in range(a, b):
        total = 0
        one = inverse[t]
        for s in range(beta.shape[1]):
            total += beta[t, s]
            into[t, s] = psi[t, s] * beta[t, s] * one
        sums[t] = total


def _products(x, i, E, out, j, n):
    """out[j + k] = x[i + k] E for the rows k < n, with a square matrix E: four rows and four
    sources r at a time."""
    width = x.shape[1]
    for m in range(n):
        for s in range(width):
            out[j + m, s] = 0
    k = 0
    while k + 3 < n:
        a = i + k
        for r in range(0, width, 4):
            a0, a1, a2, a3 = x[a, r], x[a, r + 1], x[a, r + 2], x[a, r + 3]
            b0, b1, b2, b3 = x[a + 1, r], x[a + 1, r + 1], x[a + 1, r + 2], x[a + 1, r + 3]
            c0, c1, c2, c3 = x[a + 2, r], x[a + 2, r + 1], x[a + 2, r + 2], x[a + 2, r + 3]
            d0, d1, d2, d3 = x[a + 3, r], x[a + 3, r + 1], x[a + 3, r + 2], x[a + 3, r + 3]
            for s in range(width):
                p = E[r, s]
                q = E[r + 1, s]
                u = E[r + 2, s]
                v = E[r + 3, s]
                out[j + k, s] += a0 * p + a1 * q + a2 * u + a3 * v
                out[j + k + 1, s] += b0 * p + b1 * q + b2 * u + b3 * v
                out[j + k + 2, s] += c0 * p + c1 * q + c2 * u + c3 * v
                out[j + k + 3, s] += d0 * p + d1 * q + d2 * u + d3 * v
        k += 4
    while k < n:
        for r in range(0, width, 4):
            a0, a1, a2, a3 = x[i + k, r], x[i + k, r + 1], x[i + k, r + 2], x[i + k, r + 3]
            for s in range(width):
                out[j + k, s] += (
                    a0 * E[r, s] + a1 * E[r + 1, s] + a2 * E[r + 2, s] + a3 * E[r + 3, s]
                )
        k += 1


def messages_by_step(psi, onwards, backwards, steps, alpha, beta, into, scale, inverse, sums):
    """Messages of a batch of first order in time order, whose tokens share the arcs onwards [Q, Q]
    and, transposed, backwards (structures.timeorder); inverse [T] is scratch.

    Beside a product of BLAS for every step: 2.8 times as fast with 9 labels and 61 sentences a
    step, 1.6 times with 22; 0.8 and 0.6 times as fast with 1,200 sentences a step (ARM, one
    thread).  Nor does it hold the GIL between steps."""
    n = steps.shape[0] - 1
    with cython.nogil:
        for t in range(n):
            a = steps[t]
            b = steps[t + 1]
            if t == 0:
                alpha[a:b, :] = 1
            else:
                _products(alpha, steps[t - 1], onwards, alpha, a, b - a)
            _scale_forward(alpha, psi, a, b, scale, inverse)
        for t in range(n - 1, -1, -1):
            a = steps[t]
            b = steps[t + 1]
            end = steps[t + 2] if t + 2 < n else steps[n]
            _products(into, b, backwards, beta, a, end - b)
            beta[a + end - b : b, :] = 1
            _scale_backward(beta, psi, a, b, inverse, into, sums)


def onwards(x, E, blocks, out):
    """out[n, s] = sum_r x[n, r] E[n, arc from r to s]: one step of many sentences that have arcs of
    their own."""
    view = BlocksView(blocks)
    with cython.nogil:
        for n in range(x.shape[0]):
            _onwards(x, n, E, n, view, out, n)


def backwards(x, E, blocks, out):
    """out[n, r] = sum_s E[n, arc from r to s] x[n, s]."""
    view = BlocksView(blocks)
    with cython.nogil:
        for n in range(x.shape[0]):
            for k in range(view.rows.shape[0]):
                s0 = view.rows[k, 1]
                a = view.rows[k, 3]
                total = 0
                for s in range(view.rows[k, 2] - s0):
                    total += E[n, a + s] * x[n, s0 + s]
                out[n, view.rows[k, 0]] = total


def multiply_outer(x, y, E, blocks):
    """E[n, arc from r to s] *= x[n, r] y[n, s]."""
    view = BlocksView(blocks)
    with cython.nogil:
        for n in range(x.shape[0]):
            for k in range(view.rows.shape[0]):
                s0 = view.rows[k, 1]
                a = view.rows[k, 3]
                v = x[n, view.rows[k, 0]]
                for s in range(view.rows[k, 2] - s0):
                    E[n, a + s] *= v * y[n, s0 + s]


# -- scores of nodes and arcs from those of features -----------------------------------------------


def pair_nodes(state, edge, used, plain, node_state, node):
    """node [T, Q] of order 2 = the score of its state (row of `state`) + plain [Q] + the scores of
    pairs of states (rows of `edge`, of the nodes used [U]; -1: none)."""
    with cython.nogil:
        for t in range(node.shape[0]):
            for q in range(plain.shape[0]):
                node[t, q] = state[t, node_state[q]] + plain[q]
            for j in range(used.shape[0]):
                if used[j] >= 0:
                    node[t, used[j]] += edge[t, j]


def pair_counts(node, used, node_state, state, edge, plain):
    """The adjoint of pair_nodes: fills state [T, S] and edge [T, U], and adds to plain [Q]."""
    with cython.nogil:
        state[:, :] = 0
        for t in range(node.shape[0]):
            for q in range(plain.shape[0]):
                state[t, node_state[q]] += node[t, q]
                plain[q] += node[t, q]
            for j in range(used.shape[0]):
                edge[t, j] = node[t, used[j]] if used[j] >= 0 else 0
            for j in range(used.shape[0], edge.shape[1]):
                edge[t, j] = 0


def spread_arcs(rows, used, base, out):
    """out[t] = base, with rows[t, j] added at the place used[j] (-1: nowhere): arc scores [T, A]
    from those in use."""
    with cython.nogil:
        for t in range(out.shape[0]):
            for a in range(out.shape[1]):
                out[t, a] = base[a]
            for j in range(used.shape[0]):
                if used[j] >= 0:
                    out[t, used[j]] += rows[t, j]


def spread_exponentials(rows, used, base, out):
    """The same after exponentiation: out[t] = base * the exponential of 0 (behind the last column
    in use), and base * rows[t, j] at the place used[j]."""
    n = used.shape[0]
    with cython.nogil:
        for t in range(out.shape[0]):
            zero = rows[t, n]
            for a in range(out.shape[1]):
                out[t, a] = base[a] * zero
            for j in range(n):
                if used[j] >= 0:
                    out[t, used[j]] = base[used[j]] * rows[t, j]


def gather_arcs(arcs, used, rows):
    """rows[t, j] = arcs[t, used[j]], and 0 behind: the adjoint of spread_arcs."""
    n = used.shape[0]
    with cython.nogil:
        for t in range(rows.shape[0]):
            for j in range(n):
                rows[t, j] = arcs[t, used[j]] if used[j] >= 0 else 0
            for j in range(n, rows.shape[1]):
                rows[t, j] = 0
