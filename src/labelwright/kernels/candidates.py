"""Models with many labels: every token has a few candidate labels.

A token t has the *slots* slot_ptr[t]:slot_ptr[t+1], one for each of its candidate labels, in the order of the labels.
Pairs of slots i of token t - 1 and j of token t are numbered pair_ptr[t] + i * J + j; `place` is the number of the
weight of a pair; behind the weights stand one of 0 (no weight) and one of minus infinity (not allowed).  The
zero-order model that chooses candidates scores every label of every token by itself.
"""

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, literal_kernel

FAR = 14.0  # labels whose score is so far below the best have a probability of 0 in the zero-order model's updates
NONE = 1e-14  # a probability that does not count
SMALL, LARGE = 1e-30, 1e200  # scales and messages beyond these: the sums are made again, as a graph's

# -- cells of slots ---------------------------------------------------------------------------------------------------


@kernel
def search(column, first, last, wanted):
    """The place of `wanted` among the rising numbers column[first:last]; -1 where it is not."""
    end = last
    while first < last:
        m = (first + last) // 2
        if column[m] < wanted:
            first = m + 1
        else:
            last = m
    return first if first < end and column[first] == wanted else -1


@inlined_kernel
def _hits_of(cell_ptr, cell_column, f, x, valued, slot_label, a, b, count, hit_ptr, hit_cell, hit_value):
    """The cells that feature f has with the labels of slots a:b; counted, or put behind those that are there."""
    first, last = cell_ptr[f], cell_ptr[f + 1]
    for s in range(a, b):
        c = search(cell_column, first, last, slot_label[s])
        if c >= 0:
            if not count:
                hit_cell[hit_ptr[s]] = c
                if valued:
                    hit_value[hit_ptr[s]] = x
            hit_ptr[s] += 1


@kernel
def slot_cells(features, cell_ptr, cell_column, slot_ptr, slot_label, t0, t1, count, hit_ptr, hit_cell, hit_value):
    """The cells of the slots of tokens t0:t1, feature by feature: `count` them in hit_ptr [slots], or fill hit_cell
    from the places in hit_ptr on, which then end where the slot's cells end."""
    valued = features.token_value.shape[0] > 0
    for t in range(t0, t1):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        for g in range(features.keys.shape[1]):
            k = features.keys[t, g]
            if k >= 0:
                for i in range(features.key_ptr[k], features.key_ptr[k + 1]):
                    f = features.key_feature[i]
                    _hits_of(
                        cell_ptr, cell_column, f, 1.0, valued, slot_label, a, b, count, hit_ptr, hit_cell, hit_value
                    )
        for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
            x = features.token_value[i] if valued else 1.0
            f = features.token_feature[i]
            _hits_of(cell_ptr, cell_column, f, x, valued, slot_label, a, b, count, hit_ptr, hit_cell, hit_value)


@literal_kernel
def slot_scores(hit_ptr, hit_cell, hit_value, weights, a, b, score):
    """score[s] = the sum of the weights of slot s, for a <= s < b, in order: cells of weight 0 change no bit."""
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


# -- sums for training ------------------------------------------------------------------------------------------------


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
def posteriors(slot_ptr, pair_ptr, node, place, E, offsets, n0, n1, alpha, beta, message, log_z, counts):
    """Forward-backward of the sentences n0:n1 in scaled probability space: alpha = P(slot), counts[place] += P(pair).

        alpha_t(q) = psi_t(q) sum_p alpha_t-1(p) E(p, q) / c_t        sum_q alpha_t(q) = 1        log Z = sum_t log c_t
        beta_t-1(p) = sum_q E(p, q) psi_t(q) beta_t(q) / c_t

    message [slots] is beta_t, and beta [slots] psi_t beta_t / c_t, so that P(q) = alpha message and P(p, q) = alpha E
    beta; pairs after slots that are less probable than NONE do not count.  log_z[n] is NaN where numbers are too small
    or too large: such a sentence counts nothing.  The sums of kernels.dag, with an exponential for each pair, take 1.1
    to 1.8 times as long (3 to 10 candidates)."""
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


# -- scores of labels -------------------------------------------------------------------------------------------------


@inlined_kernel
def _add_feature(weights, cell_ptr, cell_column, f, x, row):
    for c in range(cell_ptr[f], cell_ptr[f + 1]):
        row[cell_column[c]] += x * weights[c]


@kernel
def label_row(features, cell_ptr, cell_column, weights, bias, t, row):
    """row[y] = the score of label y at token t, for all labels: its bias and the weights of the token's features."""
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


# -- the zero-order model ---------------------------------------------------------------------------------------------


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
    features, cell_ptr, cell_column, gold, tokens, rate, least, smallest, weights, squares, bias, bias_squares, row
):
    """One pass of AdaGrad over tokens: P(y | t) = exp(row[y]) / sum.  Returns the loss.

    Tokens whose label has a probability above 1 - least teach nothing more, nor do other labels below `smallest`."""
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
                    _step(weights, squares, cell_ptr, cell_column, features.key_feature[i], 1.0, row, rate)
        for i in range(features.token_ptr[t], features.token_ptr[t + 1]):
            x = features.token_value[i] if valued else 1.0
            _step(weights, squares, cell_ptr, cell_column, features.token_feature[i], x, row, rate)
    return loss


@kernel
def gold_distances(features, cell_ptr, cell_column, weights, bias, gold, tokens, row, distance, rank, width, counts):
    """How far the gold label of each token is below its best one, how many labels are above it, and how many labels of
    all tokens are k * width to (k + 1) * width below the best (counts[k])."""
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
    """Fill `near` with the labels that are at most `cutoff` below the best one, `most` of them at most, rising; returns
    their number."""
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
    features, cell_ptr, cell_column, weights, bias, tokens, permitted, cutoff, most, row, sizes, labels, scores
):
    """labels[i, :sizes[i]] = the labels (rising) of tokens[i] that are at most `cutoff` below its best one, `most` of
    them at most; scores[i] = their scores.  Where `permitted` has rows, only labels of these."""
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
