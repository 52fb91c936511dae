"""Models with many labels: every token has a few candidate labels.

A token t has the *slots* slot_ptr[t]:slot_ptr[t+1], one for each of its candidate labels, in the
order of the labels. Pairs of slots i of token t - 1 and j of token t are numbered pair_ptr[t] + i *
J + j; `place` is the number of the weight of a pair; behind the weights stand one of 0 (no weight)
and one of minus infinity (not allowed).  The zero-order model that chooses candidates scores every
label of every token by itself.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.common import find
from cython.cimports.labelwright.kernels.incidence import IncidenceView
from cython.cimports.libc.math import INFINITY, NAN, exp, expf, isnan, log, sqrtf

# Labels whose score is so far below the best have a probability of 0 in the zero-order model's
# updates.
FAR = 14.0
# A candidate with a smaller share of the mass up to its token has its transitions bounded, not
# summed.
NEGLIGIBLE = 1e-6
NONE = 1e-14  # a probability that does not count
# Scales and messages beyond these: the sums are made again, as a graph's.
SMALL = 1e-30
LARGE = 1e200

# -- cells of slots --------------------------------------------------------------------------------


def slot_cells(
    features,
    cell_ptr,
    cell_column,
    slot_ptr,
    slot_label,
    t0,
    t1,
    count,
    hit_ptr,
    hit_cell,
    hit_value,
):
    """The cells of the slots of tokens t0:t1, feature by feature: `count` them in hit_ptr [slots],
    or fill hit_cell from the places in hit_ptr on, which then end where the slot's cells end."""
    view = IncidenceView(features)
    with cython.nogil:
        for t in range(t0, t1):
            a = slot_ptr[t]
            b = slot_ptr[t + 1]
            for g in range(view.keys.shape[1]):
                k = view.keys[t, g]
                if k >= 0:
                    for i in range(view.key_ptr[k], view.key_ptr[k + 1]):
                        f = view.key_feature[i]
                        _add_hits(
                            cell_ptr,
                            cell_column,
                            f,
                            1,
                            slot_label,
                            a,
                            b,
                            count,
                            hit_ptr,
                            hit_cell,
                            hit_value,
                        )
            for i in range(view.token_ptr[t], view.token_ptr[t + 1]):
                x = view.token_value[i] if view.token_value.shape[0] > 0 else 1
                f = view.token_feature[i]
                _add_hits(
                    cell_ptr,
                    cell_column,
                    f,
                    x,
                    slot_label,
                    a,
                    b,
                    count,
                    hit_ptr,
                    hit_cell,
                    hit_value,
                )


def _add_hits(cell_ptr, cell_column, f, x, slot_label, a, b, count, hit_ptr, hit_cell, hit_value):
    """The cells that feature f of value x has with the labels of slots a:b; counted, or put behind
    those that are there."""
    for s in range(a, b):
        c = find(cell_column, cell_ptr[f], cell_ptr[f + 1], slot_label[s])
        if c >= 0:
            if not count:
                hit_cell[hit_ptr[s]] = c
                if hit_value.shape[0] > 0:
                    hit_value[hit_ptr[s]] = x
            hit_ptr[s] += 1


def slot_scores(hit_ptr, hit_cell, hit_value, weights, a, b, score):
    """score[s] = the sum of the weights of slot s, for a <= s < b, in order: cells of weight 0
    change no bit."""
    with cython.nogil:
        for s in range(a, b):
            total = 0.0
            for i in range(hit_ptr[s], hit_ptr[s + 1]):
                x = hit_value[i] if hit_value.shape[0] > 0 else 1
                total += weights[hit_cell[i]] * x
            score[s] = total


def collect(ptr, owner, value, count, c0, c1, gradient):
    """gradient[c] = the sum of the counts of the owners of cell c, for c0 <= c < c1."""
    with cython.nogil:
        for c in range(c0, c1):
            total = 0.0
            for i in range(ptr[c], ptr[c + 1]):
                x = value[i] if value.shape[0] > 0 else 1
                total += count[owner[i]] * x
            gradient[c] = total


# -- sums for training -----------------------------------------------------------------------------


def posteriors(
    slot_ptr, pair_ptr, node, place, E, offsets, n0, n1, alpha, beta, message, log_z, counts
):
    """Forward-backward of the sentences n0:n1 in scaled probability space: alpha = P(slot),
    counts[place] += P(pair).

        alpha_t(q) = psi_t(q) sum_p alpha_t-1(p) E(p, q) / c_t        sum_q alpha_t(q) = 1
        beta_t-1(p) = sum_q E(p, q) psi_t(q) beta_t(q) / c_t          log Z = sum_t log c_t

    message [slots] is beta_t, and beta [slots] psi_t beta_t / c_t, so that P(q) = alpha message and
    P(p, q) = alpha E beta; pairs after slots that are less probable than NONE do not count.
    log_z[n] is NaN where numbers are too small or too large: such a sentence counts nothing.  The
    sums of kernels.dag, with an exponential for each pair, take 1.1 to 1.8 times as long (3 to 10
    candidates)."""
    longest = 1
    for n in range(n0, n1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    scale = np.empty(longest)
    with cython.nogil:
        for n in range(n0, n1):
            a = offsets[n]
            b = offsets[n + 1]
            log_z[n] = _forward(slot_ptr, pair_ptr, node, place, E, a, b, alpha, beta, scale)
            if isnan(log_z[n]):
                continue
            if _backward(slot_ptr, pair_ptr, place, E, a, b, beta, message, scale):
                log_z[n] = NAN
                continue
            _count_pairs(slot_ptr, pair_ptr, place, E, a, b, alpha, beta, message, counts)


def _forward(slot_ptr, pair_ptr, node, place, E, a, b, alpha, beta, scale):
    """alpha of the tokens a:b of a sentence, their scales, psi in `beta`; returns log Z, or NaN."""
    total = 0.0
    for t in range(a, b):
        first = slot_ptr[t]
        last = slot_ptr[t + 1]
        top = -INFINITY
        for q in range(first, last):
            if node[q] > top:
                top = node[q]
        for q in range(first, last):
            alpha[q] = 1 if t == a else 0
            beta[q] = exp(node[q] - top)
        if t > a:
            at = pair_ptr[t]
            for p in range(slot_ptr[t - 1], first):
                x = alpha[p]
                for q in range(first, last):
                    alpha[q] += x * E[place[at + q - first]]
                at += last - first
        c = 0.0
        for q in range(first, last):
            alpha[q] *= beta[q]
            c += alpha[q]
        if not SMALL < c < LARGE:
            return NAN
        for q in range(first, last):
            alpha[q] /= c
        scale[t - a] = c
        total += log(c) + top
    return total


def _backward(slot_ptr, pair_ptr, place, E, a, b, beta, message, scale):
    """message and beta of the tokens a:b of a sentence; returns whether a number was too large."""
    too_large = False
    for t in range(b - 1, a - 1, -1):
        first = slot_ptr[t]
        last = slot_ptr[t + 1]
        end = slot_ptr[t + 2] if t < b - 1 else last
        at = pair_ptr[t + 1]
        for p in range(first, last):
            x = 0.0 if t < b - 1 else 1.0
            for q in range(last, end):
                x += E[place[at + q - last]] * beta[q]
            at += end - last
            if x > LARGE:
                too_large = True
            message[p] = x
            beta[p] *= x / scale[t - a]
    return too_large


def _count_pairs(slot_ptr, pair_ptr, place, E, a, b, alpha, beta, message, counts):
    """Add the probabilities of the pairs of the tokens a:b to `counts`, and make alpha those of
    slots."""
    for t in range(b - 1, a - 1, -1):
        first = slot_ptr[t]
        last = slot_ptr[t + 1]
        at = pair_ptr[t]
        for p in range(slot_ptr[t - 1] if t > a else first, first):
            if alpha[p] * message[p] > NONE:
                for q in range(first, last):
                    k = place[at + q - first]
                    counts[k] += alpha[p] * E[k] * beta[q]
            at += last - first
        for q in range(first, last):
            alpha[q] *= message[q]


# -- scores of labels ------------------------------------------------------------------------------


def _score_labels(features, cell_ptr, cell_column, weights, bias, t, rows, at):
    """rows[at, y] = the score of label y at token t, for all labels: its bias and the weights of
    the token's features."""
    for y in range(rows.shape[1]):
        rows[at, y] = bias[y]
    for g in range(features.keys.shape[1]):
        k = features.keys[t, g]
        if k >= 0:
            for i in range(features.key_ptr[k], features.key_ptr[k + 1]):
                f = features.key_feature[i]
                for c in range(cell_ptr[f], cell_ptr[f + 1]):
                    rows[at, cell_column[c]] += weights[c]
    for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
        x = features.token_value[i] if features.token_value.shape[0] > 0 else 1
        f = features.token_feature[i]
        for c in range(cell_ptr[f], cell_ptr[f + 1]):
            rows[at, cell_column[c]] += x * weights[c]


def label_rows(features, cell_ptr, cell_column, weights, bias, t0, t1, rows):
    """rows[t - t0, y] = the score of label y at token t, for t0 <= t < t1."""
    view = IncidenceView(features)
    with cython.nogil:
        for t in range(t0, t1):
            _score_labels(view, cell_ptr, cell_column, weights, bias, t, rows, t - t0)


def _largest(rows):
    """The largest number of the first row."""
    top = rows[0, 0]
    for y in range(rows.shape[1]):
        if rows[0, y] > top:
            top = rows[0, y]
    return top


# -- the zero-order model --------------------------------------------------------------------------


def zero_order_pass(
    features,
    cell_ptr,
    cell_column,
    gold,
    tokens,
    rate,
    least,
    smallest,
    weights,
    squares,
    bias,
    bias_squares,
    row,
):
    """One pass of AdaGrad over tokens: P(y | t) = exp(row[0, y]) / sum.  Returns the loss.

    Tokens whose label has a probability above 1 - least teach nothing more, nor do other labels
    below `smallest`."""
    view = IncidenceView(features)
    loss = 0.0
    with cython.nogil:
        for at in range(tokens.shape[0]):
            t = tokens[at]
            y = gold[t]
            _score_labels(view, cell_ptr, cell_column, weights, bias, t, row, 0)
            top = _largest(row)
            own = row[0, y]
            total = _exponentiate(row, top)
            loss += top + log(total) - own
            if expf(own - top) > (1 - least) * total:
                continue
            _make_gradient(row, total, smallest, y)
            _step_bias(row, bias, bias_squares, rate)
            for g in range(view.keys.shape[1]):
                k = view.keys[t, g]
                if k >= 0:
                    for i in range(view.key_ptr[k], view.key_ptr[k + 1]):
                        f = view.key_feature[i]
                        _step(weights, squares, cell_ptr, cell_column, f, 1, row, rate)
            for i in range(view.token_ptr[t], view.token_ptr[t + 1]):
                x = view.token_value[i] if view.token_value.shape[0] > 0 else 1
                f = view.token_feature[i]
                _step(weights, squares, cell_ptr, cell_column, f, x, row, rate)
        return loss


def _exponentiate(row, top):
    """Make scores their exponentials, which is 0 for those far below the top; returns the sum."""
    total = 0.0
    for y in range(row.shape[1]):
        if row[0, y] > top - FAR:
            row[0, y] = expf(row[0, y] - top)
            total += row[0, y]
        else:
            row[0, y] = 0
    return total


def _make_gradient(row, total, smallest, gold):
    """Make exponentials the gradient of the loss by the scores of labels."""
    for y in range(row.shape[1]):
        row[0, y] = row[0, y] / total if row[0, y] > smallest * total else 0
    row[0, gold] -= 1


def _step_bias(row, bias, squares, rate):
    """AdaGrad for the weights of labels alone."""
    for y in range(row.shape[1]):
        if row[0, y] != 0:
            squares[y] += row[0, y] * row[0, y]
            bias[y] -= rate * row[0, y] / sqrtf(squares[y])


def _step(weights, squares, cell_ptr, cell_column, f, x, gradient, rate):
    """AdaGrad (Duchi et al., 2011) for the weights of one feature."""
    for c in range(cell_ptr[f], cell_ptr[f + 1]):
        g = x * gradient[0, cell_column[c]]
        if g != 0:
            squares[c] += g * g
            weights[c] -= rate * g / sqrtf(squares[c])


def gold_distances(
    features, cell_ptr, cell_column, weights, bias, gold, tokens, row, distance, rank, width, counts
):
    """How far the gold label of each token is below its best one, how many labels are above it, and
    how many labels of all tokens are k * width to (k + 1) * width below the best (counts[k])."""
    view = IncidenceView(features)
    with cython.nogil:
        for at in range(tokens.shape[0]):
            t = tokens[at]
            _score_labels(view, cell_ptr, cell_column, weights, bias, t, row, 0)
            top = _largest(row)
            own = row[0, gold[t]]
            above = 0
            for y in range(row.shape[1]):
                if row[0, y] > own:
                    above += 1
                bin = (top - row[0, y]) / width
                if bin < counts.shape[0]:
                    counts[cython.cast(cython.Py_ssize_t, bin)] += 1
            distance[at] = top - own
            rank[at] = above


def pick_labels(
    features,
    cell_ptr,
    cell_column,
    weights,
    bias,
    tokens,
    permitted,
    cutoff,
    most,
    row,
    sizes,
    labels,
    scores,
):
    """labels[i, :sizes[i]] = the labels (rising) of tokens[i] that are at most `cutoff` below its
    best one, `most` of them at most; scores[i] = their scores.  Where `permitted` has rows, only
    labels of these."""
    view = IncidenceView(features)
    with cython.nogil:
        for i in range(tokens.shape[0]):
            t = tokens[i]
            _score_labels(view, cell_ptr, cell_column, weights, bias, t, row, 0)
            if permitted.shape[0] > 0:
                for y in range(row.shape[1]):
                    if not permitted[t, y]:
                        row[0, y] = -INFINITY
            sizes[i] = _pick_nearest(row, cutoff, most, labels, i)
            for k in range(sizes[i]):
                scores[i, k] = row[0, labels[i, k]]


def _pick_nearest(row, cutoff, most, labels, i):
    """Fill labels[i] with the labels that are at most `cutoff` below the best one, `most` of them
    at most, rising; returns their number.  Of equally good ones, the first stay."""
    least = _largest(row) - cutoff
    n = 0
    for y in range(row.shape[1]):
        if row[0, y] >= least and row[0, y] > -INFINITY:
            if n < most:
                labels[i, n] = y
            n += 1
    if n <= most:
        return n
    n = 0
    for y in range(row.shape[1]):  # the best ones first
        if row[0, y] >= least and row[0, y] > -INFINITY:
            if n == most and not row[0, y] > row[0, labels[i, n - 1]]:
                continue
            at = n if n < most else n - 1
            while at > 0 and row[0, y] > row[0, labels[i, at - 1]]:
                labels[i, at] = labels[i, at - 1]
                at -= 1
            labels[i, at] = y
            n = n + 1 if n < most else n
    for k in range(1, n):  # rising
        y = labels[i, k]
        at = k
        while at > 0 and labels[i, at - 1] > y:
            labels[i, at] = labels[i, at - 1]
            at -= 1
        labels[i, at] = y
    return n


# -- bounds on the labellings that pruning has cut off, from the scores of all labels --------------


class TransitionsView:
    """All transitions above 0: scoring.candidate_scores.Transitions."""

    def __init__(self, table):
        self.ptr, self.label, self.score = table


def _spread(x, r, largest, best, table, bound):
    """bound[y] = max(bound[y], x + the transition between r and y) for the transitions of label r
    above 0 in a `table`, of which the largest can add `largest`: nothing to do where `best` is
    above that."""
    if x + largest > best:
        for k in range(table.ptr[r], table.ptr[r + 1]):
            y = table.label[k]
            if x + table.score[k] > bound[y]:
                bound[y] = x + table.score[k]


def add_bounds(
    rows, slot_ptr, slot_label, value, arc_place, pair_ptr, table, reach, known, forward, bound
):
    """bound[t, y] += an upper bound on the score of every path before label y at t (`forward`), or
    after it.

    rows [T, L] has the scores of all labels; `value` those of transitions by place, of which 0
    stands for pairs without a weight; `table` all transitions above 0, sorted by the label that is
    passed first (ptr, other label, score); `reach` [2, L] the largest out of each label in this
    direction, and into it.  known [slots] are the scores of the best paths over candidates up to a
    slot, its own among them.

        up(y) = row(y) + max( max_i known(i) + w(i, y)+, missed(t-1) ),
        missed(t) = max_y up(y) + reach(y)

    A path that left the candidates may come back: `missed` then replaces what came before.

    slot_ptr and pair_ptr [T+1] are those of the sentence's tokens among many."""
    T, L = rows.shape[0], rows.shape[1]
    zero = slot_ptr[0]
    transitions = TransitionsView(table)
    candidate = np.zeros(L, np.uint8)
    came = np.zeros(L)
    # The best path up to a slot that has left the candidates before.
    more = np.full(slot_ptr[T] - zero, -np.inf)
    missed = missed_raw = -INFINITY
    with cython.nogil:
        for step in range(T):
            t = step if forward else T - 1 - step
            a = slot_ptr[t]
            b = slot_ptr[t + 1]
            if step > 0:
                before = t - 1 if forward else t + 1
                first = slot_ptr[before]
                last = slot_ptr[before + 1]
                at = pair_ptr[t] if forward else pair_ptr[before]
                best = -INFINITY
                for i in range(first, last):
                    best = _larger(best, _larger(known[i], more[i - zero]))
                came[:] = _larger(best, missed)
                for i in range(first, last):
                    r = slot_label[i]
                    x = _larger(known[i], more[i - zero])
                    _spread(x, r, reach[0, r], best, transitions, came)
                for s in range(a, b):
                    x = missed_raw + reach[1, slot_label[s]]
                    x = missed if missed < x else x
                    for i in range(first, last):
                        if forward:
                            pair = (i - first) * (b - a) + s - a
                        else:
                            pair = (s - a) * (last - first) + i - first
                        x = _larger(x, more[i - zero] + value[arc_place[at + pair]])
                    more[s - zero] = x + rows[t, slot_label[s]]
            missed = missed_raw = -INFINITY
            for s in range(a, b):
                candidate[slot_label[s]] = True
            for y in range(L):
                bound[t, y] += came[y]
                if not candidate[y]:
                    missed_raw = _larger(missed_raw, rows[t, y] + came[y])
                    missed = _larger(missed, rows[t, y] + came[y] + reach[0, y])
            for s in range(a, b):
                candidate[slot_label[s]] = False


def _larger(x, y):
    return y if y > x else x


def mass_bound(rows, slot_ptr, slot_label, pairs, place, pair_ptr, all_ptr, all_label, reach):
    """log of an upper bound on the sum over all labellings of a sentence, of order 1.

    All labels that are no candidates are one more state of each token.  Transitions from candidates
    are exact (`pairs` by place, of which all_ptr [L+1] and all_label list those that have a
    weight); those out of other labels weigh as much as the largest out of each (reach [L]).

        other_t = sum_y exp(row_t(y) + reach(y)) (sum_i alpha_t-1(i) exp(w(i, y)) + other_t-1)"""
    T, L = rows.shape[0], rows.shape[1]
    widest = 1
    for t in range(T):
        widest = max(widest, slot_ptr[t + 1] - slot_ptr[t])
    old, new = np.zeros((2, widest))
    came = np.empty(L)
    other = log_z = 0.0
    with cython.nogil:
        for t in range(T):
            a = slot_ptr[t]
            b = slot_ptr[t + 1]
            top = rows[t, 0]
            for y in range(L):
                top = _larger(top, rows[t, y])
            start = 1.0 if t == 0 else other
            came[:] = start
            new[: b - a] = start
            if t > 0:
                before = slot_ptr[t - 1]
                _add_mass(old, slot_label, before, a, pairs, all_ptr, all_label, reach, came)
                for j in range(b - a):
                    for i in range(before, a):
                        at = place[pair_ptr[t] + (i - before) * (b - a) + j]
                        new[j] += old[i - before] * exp(pairs[at])
            c = 0.0
            for j in range(b - a):
                label = slot_label[a + j]
                new[j] *= exp(rows[t, label] - top)
                came[label] = 0
                c += new[j]
            other = 0.0
            for y in range(L):
                if came[y] > 0:
                    ahead = reach[y] if t < T - 1 else 0
                    other += came[y] * exp(rows[t, y] + ahead - top)
            c += other
            log_z += log(c) + top
            other /= c
            for j in range(b - a):
                old[j] = new[j] / c
        return log_z


def _add_mass(old, slot_label, before, a, pairs, all_ptr, all_label, reach, came):
    """came[y] += sum_i old(i) exp(w(i, y)) over the candidates before:a of a token."""
    total = 0.0
    for i in range(a - before):
        total += old[i]
    for y in range(came.shape[0]):
        came[y] += total
    for i in range(before, a):
        x = old[i - before]
        r = slot_label[i]
        if x > NEGLIGIBLE * total:
            for k in range(all_ptr[r], all_ptr[r + 1]):
                came[all_label[k]] += x * (exp(pairs[k]) - 1)
        else:
            more = x * (exp(reach[r]) - 1)
            for y in range(came.shape[0]):
                came[y] += more
