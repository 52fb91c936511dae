"""Models with many labels: every token has a few candidate labels.

A token t has the *slots* slot_ptr[t]:slot_ptr[t+1], one for each of its candidate labels, in the
order of the labels. Pairs of slots i of token t - 1 and j of token t are numbered pair_ptr[t] + i *
J + j; `place` is the number of the weight of a pair; behind the weights stand one of 0 (no weight)
and one of minus infinity (not allowed).  The zero-order model that chooses candidates scores every
label of every token by itself.
"""

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, literal_kernel
from labelwright.kernels.common import find

# labels whose score is so far below the best have a probability of 0 in the zero-order model's
# updates
FAR = 14.0
# share of a candidate in the mass up to its token whose transitions are bounded, not summed
NEGLIGIBLE = 1e-6
NONE = 1e-14  # a probability that does not count
# scales and messages beyond these: the sums are made again, as a graph's
SMALL, LARGE = 1e-30, 1e200

# -- cells of slots --------------------------------------------------------------------------------


@inlined_kernel
def _hits_of(
    cell_ptr, cell_column, f, x, valued, slot_label, a, b, count, hit_ptr, hit_cell, hit_value
):
    """The cells that feature f has with the labels of slots a:b; counted, or put behind those that
    are there."""
    first, last = cell_ptr[f], cell_ptr[f + 1]
    for s in range(a, b):
        c = find(cell_column, first, last, slot_label[s])
        if c >= 0:
            if not count:
                hit_cell[hit_ptr[s]] = c
                if valued:
                    hit_value[hit_ptr[s]] = x
            hit_ptr[s] += 1


@kernel
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
    valued = features.token_value.shape[0] > 0
    for t in range(t0, t1):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        for g in range(features.keys.shape[1]):
            k = features.keys[t, g]
            if k >= 0:
                for i in range(features.key_ptr[k], features.key_ptr[k + 1]):
                    f = features.key_feature[i]
                    _hits_of(
                        cell_ptr,
                        cell_column,
                        f,
                        1.0,
                        valued,
                        slot_label,
                        a,
                        b,
                        count,
                        hit_ptr,
                        hit_cell,
                        hit_value,
                    )
        for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
            x = features.token_value[i] if valued else 1.0
            f = features.token_feature[i]
            _hits_of(
                cell_ptr,
                cell_column,
                f,
                x,
                valued,
                slot_label,
                a,
                b,
                count,
                hit_ptr,
                hit_cell,
                hit_value,
            )


@literal_kernel
def slot_scores(hit_ptr, hit_cell, hit_value, weights, a, b, score):
    """score[s] = the sum of the weights of slot s, for a <= s < b, in order: cells of weight 0
    change no bit."""
    valued = hit_value.shape[0] > 0
    for s in range(a, b):
        total = 0.0
        for i in range(hit_ptr[s], hit_ptr[s + 1]):
            total += weights[hit_cell[i]] * (hit_value[i] if valued else 1.0)
        score[s] = total


@kernel
def collect(ptr, owner, value, count, c0, c1, gradient):
    """gradient[c] = the sum of the counts of the owners of cell c, for c0 <= c < c1."""
    valued = value.shape[0] > 0
    for c in range(c0, c1):
        total = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            total += count[owner[i]] * (value[i] if valued else 1.0)
        gradient[c] = total


# -- sums for training -----------------------------------------------------------------------------


@inlined_kernel
def _forward(slot_ptr, pair_ptr, node, place, E, a, b, alpha, beta, scale):
    """alpha of the tokens a:b of a sentence, their scales, psi in `beta`; returns log Z, or NaN."""
    total = 0.0
    for t in range(a, b):
        first, last = slot_ptr[t], slot_ptr[t + 1]
        top = -np.inf
        for q in range(first, last):
            top = max(top, node[q])
        for q in range(first, last):
            alpha[q] = 1.0 if t == a else 0.0
            beta[q] = np.exp(node[q] - top)
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
            return np.nan
        for q in range(first, last):
            alpha[q] /= c
        scale[t - a] = c
        total += np.log(c) + top
    return total


@inlined_kernel
def _backward(slot_ptr, pair_ptr, place, E, a, b, beta, message, scale):
    """message and beta of the tokens a:b of a sentence; returns whether a number was too large."""
    too_large = False
    for t in range(b - 1, a - 1, -1):
        first, last = slot_ptr[t], slot_ptr[t + 1]
        end = slot_ptr[t + 2] if t < b - 1 else last
        at = pair_ptr[t + 1]
        for p in range(first, last):
            x = 0.0 if t < b - 1 else 1.0
            for q in range(last, end):
                x += E[place[at + q - last]] * beta[q]
            at += end - last
            too_large = too_large or x > LARGE
            message[p] = x
            beta[p] *= x / scale[t - a]
    return too_large


@kernel
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
    for n in range(n0, n1):
        a, b = offsets[n], offsets[n + 1]
        log_z[n] = _forward(slot_ptr, pair_ptr, node, place, E, a, b, alpha, beta, scale)
        if np.isnan(log_z[n]):
            continue
        if _backward(slot_ptr, pair_ptr, place, E, a, b, beta, message, scale):
            log_z[n] = np.nan
            continue
        for t in range(b - 1, a - 1, -1):
            first, last = slot_ptr[t], slot_ptr[t + 1]
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


@inlined_kernel
def _add_feature(weights, cell_ptr, cell_column, f, x, row):
    for c in range(cell_ptr[f], cell_ptr[f + 1]):
        row[cell_column[c]] += x * weights[c]


@kernel
def label_row(features, cell_ptr, cell_column, weights, bias, t, row):
    """row[y] = the score of label y at token t, for all labels: its bias and the weights of the
    token's features."""
    row[:] = bias
    for g in range(features.keys.shape[1]):
        k = features.keys[t, g]
        if k >= 0:
            for i in range(features.key_ptr[k], features.key_ptr[k + 1]):
                _add_feature(weights, cell_ptr, cell_column, features.key_feature[i], 1.0, row)
    valued = features.token_value.shape[0] > 0
    for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
        x = features.token_value[i] if valued else 1.0
        _add_feature(weights, cell_ptr, cell_column, features.token_feature[i], x, row)


@kernel
def label_rows(features, cell_ptr, cell_column, weights, bias, t0, t1, rows):
    """The same for the tokens t0 <= t < t1."""
    for t in range(t0, t1):
        label_row(features, cell_ptr, cell_column, weights, bias, t, rows[t - t0])


# -- the zero-order model --------------------------------------------------------------------------


@inlined_kernel
def _step(weights, squares, cell_ptr, cell_column, f, x, gradient, rate):
    """AdaGrad (Duchi et al., 2011) for the weights of one feature."""
    for c in range(cell_ptr[f], cell_ptr[f + 1]):
        g = x * gradient[cell_column[c]]
        if g != 0.0:
            squares[c] += g * g
            weights[c] -= rate * g / np.sqrt(squares[c])


@kernel
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
    """One pass of AdaGrad over tokens: P(y | t) = exp(row[y]) / sum.  Returns the loss.

    Tokens whose label has a probability above 1 - least teach nothing more, nor do other labels
    below `smallest`."""
    loss = 0.0
    L = row.shape[0]
    valued = features.token_value.shape[0] > 0
    for at in range(tokens.shape[0]):
        t = tokens[at]
        label_row(features, cell_ptr, cell_column, weights, bias, t, row)
        top = row[0]
        for y in range(1, L):
            top = max(top, row[y])
        own = row[gold[t]]
        total = 0.0
        for y in range(L):
            if row[y] > top - FAR:
                row[y] = np.exp(row[y] - top)
                total += row[y]
            else:
                row[y] = 0.0
        loss += top + np.log(total) - own
        if np.exp(own - top) > (1.0 - least) * total:
            continue
        for y in range(L):
            row[y] = row[y] / total if row[y] > smallest * total else 0.0
        row[gold[t]] -= 1.0
        for y in range(L):
            if row[y] != 0.0:
                bias_squares[y] += row[y] * row[y]
                bias[y] -= rate * row[y] / np.sqrt(bias_squares[y])
        for g in range(features.keys.shape[1]):
            k = features.keys[t, g]
            if k >= 0:
                for i in range(features.key_ptr[k], features.key_ptr[k + 1]):
                    _step(
                        weights,
                        squares,
                        cell_ptr,
                        cell_column,
                        features.key_feature[i],
                        1.0,
                        row,
                        rate,
                    )
        for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
            x = features.token_value[i] if valued else 1.0
            _step(weights, squares, cell_ptr, cell_column, features.token_feature[i], x, row, rate)
    return loss


@kernel
def gold_distances(
    features, cell_ptr, cell_column, weights, bias, gold, tokens, row, distance, rank, width, counts
):
    """How far the gold label of each token is below its best one, how many labels are above it, and
    how many labels of all tokens are k * width to (k + 1) * width below the best (counts[k])."""
    for at in range(tokens.shape[0]):
        t = tokens[at]
        label_row(features, cell_ptr, cell_column, weights, bias, t, row)
        top = row.max()
        own = row[gold[t]]
        above = 0
        for y in range(row.shape[0]):
            if row[y] > own:
                above += 1
            k = int((top - row[y]) / width)
            if k < counts.shape[0]:
                counts[k] += 1
        distance[at] = top - own
        rank[at] = above


@inlined_kernel
def _nearest(row, cutoff, most, near):
    """Fill `near` with the labels that are at most `cutoff` below the best one, `most` of them at
    most, rising; returns their number."""
    top = row.max()
    n = 0
    for y in range(row.shape[0]):
        if row[y] >= top - cutoff and row[y] > -np.inf:
            near[n] = y
            n += 1
    if n > most:
        best = np.argsort(-row[near[:n]], kind="mergesort")[:most]
        near[:most] = np.sort(near[:n][best])
        n = most
    return n


@kernel
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
    L = row.shape[0]
    near = np.empty(L, np.int64)
    for i in range(tokens.shape[0]):
        t = tokens[i]
        label_row(features, cell_ptr, cell_column, weights, bias, t, row)
        if permitted.shape[0] > 0:
            for y in range(L):
                if not permitted[t, y]:
                    row[y] = -np.inf
        n = _nearest(row, cutoff, most, near)
        sizes[i] = n
        for k in range(n):
            labels[i, k] = near[k]
            scores[i, k] = row[near[k]]


# -- bounds on the labellings that pruning has cut off, from the scores of all labels --------------


@inlined_kernel
def _mark(candidate, slot_label, a, b, value):
    for s in range(a, b):
        candidate[slot_label[s]] = value


@inlined_kernel
def _spread(x, r, largest, best, table, bound):
    """bound[y] = max(bound[y], x + the transition between r and y) for the transitions of label r
    above 0 in a `table` (ptr, other label, score), of which the largest can add `largest`: nothing
    to do where `best` is above that."""
    ptr, label, score = table
    if x + largest > best:
        for k in range(ptr[r], ptr[r + 1]):
            bound[label[k]] = max(bound[label[k]], x + score[k])


@kernel
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
    T, L = rows.shape
    candidate, zero, came = np.zeros(L, np.bool_), slot_ptr[0], np.zeros(L)
    # best path up to a slot that has left the candidates before
    more = np.full(slot_ptr[T] - zero, -np.inf)
    missed = missed_raw = -np.inf
    for step in range(T):
        t = step if forward else T - 1 - step
        a, b = slot_ptr[t], slot_ptr[t + 1]
        if step > 0:
            before = t - 1 if forward else t + 1
            first, last, at, best = (
                slot_ptr[before],
                slot_ptr[before + 1],
                pair_ptr[max(t, before)],
                -np.inf,
            )
            for i in range(first, last):
                best = max(best, max(known[i], more[i - zero]))
            came[:] = max(best, missed)
            for i in range(first, last):
                r = slot_label[i]
                _spread(max(known[i], more[i - zero]), r, reach[0, r], best, table, came)
            for s in range(a, b):
                x = min(missed, missed_raw + reach[1, slot_label[s]])
                for i in range(first, last):
                    pair = (
                        (i - first) * (b - a) + s - a
                        if forward
                        else (s - a) * (last - first) + i - first
                    )
                    x = max(x, more[i - zero] + value[arc_place[at + pair]])
                more[s - zero] = x + rows[t, slot_label[s]]
        missed = missed_raw = -np.inf
        _mark(candidate, slot_label, a, b, True)
        for y in range(L):
            bound[t, y] += came[y]
            if not candidate[y]:
                missed_raw = max(missed_raw, rows[t, y] + came[y])
                missed = max(missed, rows[t, y] + came[y] + reach[0, y])
        _mark(candidate, slot_label, a, b, False)


@inlined_kernel
def _mass_into(old, total, slot_label, before, a, pairs, all_ptr, all_label, reach, came):
    """came[y] += sum_i old(i) exp(w(i, y)) over the candidates before:a of a token, of which old
    sums up to `total`."""
    L = came.shape[0]
    for y in range(L):
        came[y] += total
    for i in range(before, a):
        x, r = old[i - before], slot_label[i]
        if x > NEGLIGIBLE * total:
            for k in range(all_ptr[r], all_ptr[r + 1]):
                came[all_label[k]] += x * (np.exp(pairs[k]) - 1.0)
        else:
            more = x * (np.exp(reach[r]) - 1.0)
            for y in range(L):
                came[y] += more


@kernel
def mass_bound(rows, slot_ptr, slot_label, pairs, place, pair_ptr, all_ptr, all_label, reach):
    """log of an upper bound on the sum over all labellings of a sentence, of order 1.

    All labels that are no candidates are one more state of each token.  Transitions from candidates
    are exact (`pairs` by place, of which all_ptr [L+1] and all_label list those that have a
    weight); those out of other labels weigh as much as the largest out of each (reach [L]).

        other_t = sum_y exp(row_t(y) + reach(y)) (sum_i alpha_t-1(i) exp(w(i, y)) + other_t-1)"""
    T, L = rows.shape
    widest = 1
    for t in range(T):
        widest = max(widest, slot_ptr[t + 1] - slot_ptr[t])
    old, new, came = np.zeros(widest), np.zeros(widest), np.empty(L)
    other = log_z = 0.0
    for t in range(T):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        top = rows[t].max()
        came[:] = 1.0 if t == 0 else other
        new[: b - a] = came[0]
        if t > 0:
            before = slot_ptr[t - 1]
            _mass_into(
                old,
                old[: a - before].sum(),
                slot_label,
                before,
                a,
                pairs,
                all_ptr,
                all_label,
                reach,
                came,
            )
            for j in range(b - a):
                for i in range(before, a):
                    new[j] += old[i - before] * np.exp(
                        pairs[place[pair_ptr[t] + (i - before) * (b - a) + j]]
                    )
        c = 0.0
        for j in range(b - a):
            y = slot_label[a + j]
            new[j] *= np.exp(rows[t, y] - top)
            came[y] = 0.0
            c += new[j]
        other = 0.0
        for y in range(L):
            if came[y] > 0.0:
                other += came[y] * np.exp(rows[t, y] + (reach[y] if t < T - 1 else 0.0) - top)
        c += other
        log_z += np.log(c) + top
        other /= c
        for j in range(b - a):
            old[j] = new[j] / c
    return log_z
