"""Many labels: a zero-order model that prunes them, and sums, best paths and bounds over the candidates that are left.

A token t has the *slots* slot_ptr[t]:slot_ptr[t+1], one for each of its candidate labels, in the order of the labels.
Nodes and arcs are blocks, as in structures.graph, but of every token's own size (structures.candidates.Layout):

    order 1   nodes are slots, arcs (i, j) pairs of slots of neighbours: one block, sources i, targets j
    order 2   nodes are pairs (i, j), arcs (h, i, j): a block for every i, sources (h, i), targets (i, j)

    source h * B + b     target b * J + j     arc (b * H + h) * J + j        of block b of B, with H sources, J targets

`place` is the number of an arc's weight; behind the weights stand one of 0 (no weight) and one of minus infinity.
"""

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, literal_kernel

FAR = 14.0  # labels whose score is so far below the best have a probability of 0 in the zero-order model's updates
NEGLIGIBLE = 1e-6  # share of a candidate in the mass up to its token whose transitions are bounded, not summed
NONE = 1e-14  # a probability that does not count
SMALL, LARGE = 1e-30, 1e200  # scales and messages beyond these: the sums are made again in log space


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


@kernel
def pick_labels(
    features, cell_ptr, cell_column, weights, bias, tokens, gold, permitted, cutoff, most, row, sizes, labels
):
    """labels[i, :sizes[i]] = the labels (rising) of tokens[i] that are at most `cutoff` below its best one, `most` of
    them at most, and its gold label where there is one.  Where `permitted` has rows, only labels of these."""
    L = row.shape[0]
    near = np.empty(L, np.int64)
    for i in range(tokens.shape[0]):
        t = tokens[i]
        label_row(features, cell_ptr, cell_column, weights, bias, t, row)
        top = -np.inf
        for y in range(L):
            if permitted.shape[0] > 0 and not permitted[t, y]:
                row[y] = -np.inf
            top = max(top, row[y])
        own = gold[t] if gold.shape[0] > 0 else -1
        n = 0
        for y in range(L):
            if row[y] >= top - cutoff and row[y] > -np.inf:
                near[n] = y
                n += 1
        if n > most:
            best = np.argsort(-row[near[:n]], kind="mergesort")[:most]
            chosen = np.sort(near[:n][best])
            n = most
            near[:n] = chosen
        present = False
        for k in range(n):
            present = present or near[k] == own
        if own >= 0 and not present:
            k = n
            while k > 0 and near[k - 1] > own:
                near[k] = near[k - 1]
                k -= 1
            near[k] = own
            n += 1
        sizes[i] = n
        for k in range(n):
            labels[i, k] = near[k]


# -- cells of slots ---------------------------------------------------------------------------------------------------


@kernel
def lower_bound(column, first, last, wanted):
    """The first of the places first:last whose number is not below `wanted`, where numbers rise; `last` for none."""
    while first < last:
        m = (first + last) // 2
        if column[m] < wanted:
            first = m + 1
        else:
            last = m
    return first


@kernel
def search(column, first, last, wanted):
    """The place of `wanted` among the rising numbers column[first:last]; -1 where it is not."""
    a = lower_bound(column, first, last, wanted)
    return a if a < last and column[a] == wanted else -1


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
def add_counts(place, count, a, b, counts):
    """counts[place[i]] += count[i], for a <= i < b."""
    for i in range(a, b):
        counts[place[i]] += count[i]


@kernel
def collect(ptr, owner, value, count, c0, c1, gradient):
    """gradient[c] = the sum of the counts of the owners of cell c, for c0 <= c < c1."""
    valued = value.shape[0] > 0
    for c in range(c0, c1):
        total = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            total += count[owner[i]] * (value[i] if valued else 1.0)
        gradient[c] = total


# -- places of transitions --------------------------------------------------------------------------------------------


@kernel
def pair_places(ptr, column, allowed, slot_ptr, slot_label, begins, pair_ptr, t0, t1, place):
    """place[pair_ptr[t] + i * J + j] = the number of the weight of the labels of slot i of token t - 1 and slot j of
    token t, for t0 <= t < t1; n (no weight) and n + 1 (not allowed) where there is none."""
    n = column.shape[0]
    for t in range(t0, t1):
        if begins[t]:
            continue
        at = pair_ptr[t]
        for i in range(slot_ptr[t - 1], slot_ptr[t]):
            r = slot_label[i]
            c, end = ptr[r], ptr[r + 1]
            for j in range(slot_ptr[t], slot_ptr[t + 1]):
                c = lower_bound(column, c, end, slot_label[j])
                place[at] = c if c < end and column[c] == slot_label[j] else n
                if allowed.shape[0] > 0 and not allowed[r, slot_label[j]]:
                    place[at] = n + 1
                at += 1


@kernel
def triple_places(ptr, column, slot_ptr, slot_label, begins, pair_ptr, pair_place, arc_ptr, t0, t1, place):
    """place[arc_ptr[t] + (i * H + h) * J + j] = the number of the weight of the labels of slots h, i and j of three
    tokens; pairs without a weight are in no triple with one."""
    n, n_pairs = column.shape[0], ptr.shape[0] - 1
    for t in range(t0, t1):
        if begins[t]:
            continue
        at = arc_ptr[t]
        H = 1 if begins[t - 1] else slot_ptr[t - 1] - slot_ptr[t - 2]
        B = slot_ptr[t] - slot_ptr[t - 1]
        for b in range(B):
            for h in range(H):
                pair = n_pairs if begins[t - 1] else pair_place[pair_ptr[t - 1] + h * B + b]
                for j in range(slot_ptr[t], slot_ptr[t + 1]):
                    c = -1
                    if pair < n_pairs:
                        c = search(column, ptr[pair], ptr[pair + 1], slot_label[j])
                    place[at] = c if c >= 0 else n
                    at += 1


@kernel
def mark_pairs(slot_ptr, slot_label, begins, seen):
    """seen[r, s] = True for all candidates r and s of neighbouring tokens."""
    for t in range(begins.shape[0]):
        if not begins[t]:
            for i in range(slot_ptr[t - 1], slot_ptr[t]):
                for j in range(slot_ptr[t], slot_ptr[t + 1]):
                    seen[slot_label[i], slot_label[j]] = True


@kernel
def list_triples(slot_ptr, slot_label, begins, n_labels, t0, t1, codes):
    """Fill codes with (r * L + s) * L + u of all candidates of three tokens, of which the last is in t0:t1; returns
    their number.  Without room for codes, they are only counted."""
    n = 0
    for t in range(t0, t1):
        if begins[t] or begins[t - 1]:
            continue
        if codes.shape[0] == 0:
            pairs = (slot_ptr[t + 1] - slot_ptr[t]) * (slot_ptr[t] - slot_ptr[t - 1])
            n += pairs * (slot_ptr[t - 1] - slot_ptr[t - 2])
            continue
        for h in range(slot_ptr[t - 2], slot_ptr[t - 1]):
            for i in range(slot_ptr[t - 1], slot_ptr[t]):
                pair = (np.int64(slot_label[h]) * n_labels + slot_label[i]) * n_labels
                for j in range(slot_ptr[t], slot_ptr[t + 1]):
                    codes[n] = pair + slot_label[j]
                    n += 1
    return n


# -- sums -------------------------------------------------------------------------------------------------------------


@kernel
def sums(layout, node, place, E, offsets, n0, n1, alpha, beta, message, log_z):
    """Forward-backward of the sentences n0:n1 in scaled probability space.

        alpha_t(q) = psi_t(q) sum_p alpha_t-1(p) E(p, q) / c_t        sum_q alpha_t(q) = 1        log Z = sum_t log c_t
        beta_t-1(p) = sum_q E(p, q) psi_t(q) beta_t(q) / c_t

    message [nodes] is beta_t, and beta [nodes] psi_t beta_t / c_t, so that P(node) = alpha message and P(arc) = alpha E
    beta: `posteriors` makes these.  log_z[n] is NaN where numbers are too small or too large."""
    B, H, J, node_ptr, arc_ptr = layout
    most = 1
    for n in range(n0, n1):
        most = max(most, offsets[n + 1] - offsets[n])
    scale = np.empty(most)
    for n in range(n0, n1):
        a, b = offsets[n], offsets[n + 1]
        total = 0.0
        for t in range(a, b):
            first, last = node_ptr[t], node_ptr[t + 1]
            top = -np.inf
            for q in range(first, last):
                top = max(top, node[q])
            for q in range(first, last):
                alpha[q] = 1.0 if t == a else 0.0
                beta[q] = np.exp(node[q] - top)
            if t > a:
                before, at = node_ptr[t - 1], arc_ptr[t]
                for block in range(B[t]):
                    into = first + block * J[t]
                    for h in range(H[t]):
                        x = alpha[before + h * B[t] + block]
                        for j in range(J[t]):
                            alpha[into + j] += x * E[place[at + j]]
                        at += J[t]
            c = 0.0
            for q in range(first, last):
                alpha[q] *= beta[q]
                c += alpha[q]
            if not SMALL < c < LARGE:
                total = np.nan
                break
            for q in range(first, last):
                alpha[q] /= c
            scale[t - a] = c
            total += np.log(c) + top
        log_z[n] = total
        if np.isnan(total):
            continue
        for t in range(b - 1, a - 1, -1):
            first, last = node_ptr[t], node_ptr[t + 1]
            if t == b - 1:
                for q in range(first, last):
                    message[q] = 1.0
                    beta[q] /= scale[t - a]
                continue
            at = arc_ptr[t + 1]
            for block in range(B[t + 1]):
                target = last + block * J[t + 1]
                for h in range(H[t + 1]):
                    x = 0.0
                    for j in range(J[t + 1]):
                        x += E[place[at + j]] * beta[target + j]
                    at += J[t + 1]
                    source = first + h * B[t + 1] + block
                    if x > LARGE:
                        log_z[n] = np.nan
                    message[source] = x
                    beta[source] *= x / scale[t - a]


@kernel
def posteriors(layout, place, E, offsets, n0, n1, alpha, beta, message, log_z, counts):
    """alpha = P(node) of the sentences n0:n1 whose `sums` were made, and counts[place] += P(arc), where there is room
    for counts.  Arcs out of nodes that are less probable than NONE do not count."""
    B, H, J, node_ptr, arc_ptr = layout
    for n in range(n0, n1):
        if np.isnan(log_z[n]):
            continue
        for t in range(offsets[n + 1] - 1, offsets[n] - 1, -1):
            first, last = node_ptr[t], node_ptr[t + 1]
            if t > offsets[n] and counts.shape[0] > 0:
                before, at = node_ptr[t - 1], arc_ptr[t]
                for block in range(B[t]):
                    for h in range(H[t]):
                        source = before + h * B[t] + block
                        x = alpha[source]
                        if x * message[source] > NONE:
                            for j in range(J[t]):
                                k = place[at + j]
                                counts[k] += x * E[k] * beta[first + block * J[t] + j]
                        at += J[t]
            for q in range(first, last):
                alpha[q] *= message[q]


@kernel
def log_sums(layout, node, place, score, offsets, n, alpha, beta, counts):
    """The same for sentence n in log space: alpha [nodes] becomes P(node), counts[place] += P(arc); returns log Z."""
    B, H, J, node_ptr, arc_ptr = layout
    a, b = offsets[n], offsets[n + 1]
    for t in range(a, b):
        first, last = node_ptr[t], node_ptr[t + 1]
        if t == a:
            for q in range(first, last):
                alpha[q] = node[q]
            continue
        before = node_ptr[t - 1]
        for block in range(B[t]):
            for j in range(J[t]):
                top = -np.inf
                for h in range(H[t]):
                    s = score[place[arc_ptr[t] + (block * H[t] + h) * J[t] + j]]
                    top = max(top, alpha[before + h * B[t] + block] + s)
                total = 0.0
                if top > -np.inf:
                    for h in range(H[t]):
                        s = score[place[arc_ptr[t] + (block * H[t] + h) * J[t] + j]]
                        total += np.exp(alpha[before + h * B[t] + block] + s - top)
                q = first + block * J[t] + j
                alpha[q] = node[q] + top + np.log(total) if total > 0 else -np.inf
    for t in range(b - 1, a - 1, -1):
        first, last = node_ptr[t], node_ptr[t + 1]
        if t == b - 1:
            for q in range(first, last):
                beta[q] = 0.0
            continue
        for block in range(B[t + 1]):
            for h in range(H[t + 1]):
                at = arc_ptr[t + 1] + (block * H[t + 1] + h) * J[t + 1]
                target = last + block * J[t + 1]
                top = -np.inf
                for j in range(J[t + 1]):
                    top = max(top, score[place[at + j]] + node[target + j] + beta[target + j])
                total = 0.0
                if top > -np.inf:
                    for j in range(J[t + 1]):
                        total += np.exp(score[place[at + j]] + node[target + j] + beta[target + j] - top)
                beta[first + h * B[t + 1] + block] = top + np.log(total) if total > 0 else -np.inf
    top = -np.inf
    for q in range(node_ptr[b - 1], node_ptr[b]):
        top = max(top, alpha[q])
    if top == -np.inf:
        return top
    total = 0.0
    for q in range(node_ptr[b - 1], node_ptr[b]):
        total += np.exp(alpha[q] - top)
    log_z = top + np.log(total)
    for t in range(b - 1, a - 1, -1):
        first, last = node_ptr[t], node_ptr[t + 1]
        if t > a and counts.shape[0] > 0:
            before, at = node_ptr[t - 1], arc_ptr[t]
            for block in range(B[t]):
                for h in range(H[t]):
                    x = alpha[before + h * B[t] + block]
                    for j in range(J[t]):
                        q = first + block * J[t] + j
                        s = x + score[place[at + j]] + node[q] + beta[q]
                        if s > -np.inf:
                            counts[place[at + j]] += np.exp(s - log_z)
                    at += J[t]
    for q in range(node_ptr[a], node_ptr[b]):
        s = alpha[q] + beta[q]
        alpha[q] = np.exp(s - log_z) if s > -np.inf else 0.0
    return log_z


# -- best paths -------------------------------------------------------------------------------------------------------


@kernel
def best_prefixes(layout, node, place, score, offsets, n, delta, back):
    """delta[q] = the score of the best path up to node q of sentence n, and where it came from (back)."""
    B, H, J, node_ptr, arc_ptr = layout
    a, b = offsets[n], offsets[n + 1]
    for q in range(node_ptr[a], node_ptr[a + 1]):
        delta[q] = node[q]
    for t in range(a + 1, b):
        first, before, at = node_ptr[t], node_ptr[t - 1], arc_ptr[t]
        for q in range(first, node_ptr[t + 1]):
            delta[q] = -np.inf
            back[q] = before
        for block in range(B[t]):
            into = first + block * J[t]
            for h in range(H[t]):
                source = before + h * B[t] + block
                x = delta[source]
                for j in range(J[t]):
                    s = x + score[place[at + j]]
                    if s > delta[into + j]:
                        delta[into + j] = s
                        back[into + j] = source
                at += J[t]
        for q in range(first, node_ptr[t + 1]):
            delta[q] += node[q]


@kernel
def best_suffixes(layout, node, place, score, offsets, n, ahead):
    """ahead[q] = the score of the best continuation after node q of sentence n."""
    B, H, J, node_ptr, arc_ptr = layout
    a, b = offsets[n], offsets[n + 1]
    for q in range(node_ptr[b - 1], node_ptr[b]):
        ahead[q] = 0.0
    for t in range(b - 1, a, -1):
        first, before, at = node_ptr[t], node_ptr[t - 1], arc_ptr[t]
        for block in range(B[t]):
            into = first + block * J[t]
            for h in range(H[t]):
                best = -np.inf
                for j in range(J[t]):
                    best = max(best, score[place[at + j]] + node[into + j] + ahead[into + j])
                ahead[before + h * B[t] + block] = best
                at += J[t]


@kernel
def best_paths(layout, node, place, score, offsets, n0, n1, delta, back, path, best):
    """path[t] = the place of the best path's node among those of its token, best[n] its score, sentence by sentence."""
    node_ptr = layout.node_ptr
    for n in range(n0, n1):
        best_prefixes(layout, node, place, score, offsets, n, delta, back)
        a, b = offsets[n], offsets[n + 1]
        q = node_ptr[b - 1]
        for k in range(node_ptr[b - 1], node_ptr[b]):
            if delta[k] > delta[q]:
                q = k
        best[n] = delta[q]
        for t in range(b - 1, a - 1, -1):
            path[t] = q - node_ptr[t]
            q = back[q]


# -- what pruning missed ----------------------------------------------------------------------------------------------


@kernel
def missed_bounds(rows, slot_ptr, slot_label, value, arc_place, pair_ptr, out, into, reach, upto, ahead, bound):
    """bound[t, y] = an upper bound on the score of every labelling of a sentence with the label y at t, for labels that
    are no candidates; minus infinity for candidates.  Returns the largest.

    rows [T, L] has the scores of all labels; `value` those of transitions by place, of which 0 stands for pairs
    without a weight; `out` and `into` are all transitions above 0, sorted by their first and by their second label
    (ptr, other label, score), `reach` [2, L] the largest out of and into each label.  upto [slots] and ahead [slots]
    are the scores of the best paths over candidates up to a slot, and after it.

        up(y) = row(y) + max( max_i upto(i) + w(i, y)+, missed(t-1) ),   missed(t) = max_y up(y) + reach(y)

    A path that left the candidates may come back: `missed` then replaces what came before.

    slot_ptr and pair_ptr [T+1] are those of the sentence's tokens among many."""
    out_ptr, out_label, out_score = out
    in_ptr, in_label, in_score = into
    T, L = rows.shape
    candidate = np.zeros(L, np.bool_)
    zero = slot_ptr[0]
    more = np.full(slot_ptr[T] - zero, -np.inf)  # best path up to a slot that has left the candidates before
    missed = missed_raw = -np.inf
    for t in range(T):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        for y in range(L):
            bound[t, y] = 0.0 if t == 0 else missed
        for s in range(a, b):
            candidate[slot_label[s]] = True
        if t > 0:
            before = slot_ptr[t - 1]
            best = -np.inf
            for i in range(before, a):
                best = max(best, max(upto[i], more[i - zero]))
            for y in range(L):
                bound[t, y] = max(bound[t, y], best)
            for i in range(before, a):
                x, r = max(upto[i], more[i - zero]), slot_label[i]
                if x + reach[0, r] > best:
                    for k in range(out_ptr[r], out_ptr[r + 1]):
                        bound[t, out_label[k]] = max(bound[t, out_label[k]], x + out_score[k])
            for s in range(a, b):
                y = slot_label[s]
                more[s - zero] = min(missed, missed_raw + reach[1, y])
                for i in range(before, a):
                    more[s - zero] = max(
                        more[s - zero], more[i - zero] + value[arc_place[pair_ptr[t] + (i - before) * (b - a) + s - a]]
                    )
                more[s - zero] += rows[t, y]
        missed = missed_raw = -np.inf
        for y in range(L):
            bound[t, y] += rows[t, y]
            if not candidate[y]:
                missed_raw = max(missed_raw, bound[t, y])
                missed = max(missed, bound[t, y] + reach[0, y])
        for s in range(a, b):
            candidate[slot_label[s]] = False
    after = np.empty(L)
    highest = missed = missed_raw = -np.inf
    more[:] = -np.inf
    for t in range(T - 1, -1, -1):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        for s in range(a, b):
            candidate[slot_label[s]] = True
        if t == T - 1:
            after[:] = 0.0
        else:
            end = slot_ptr[t + 2]
            best = -np.inf
            for j in range(b, end):
                best = max(best, rows[t + 1, slot_label[j]] + max(ahead[j], more[j - zero]))
            after[:] = max(best, missed)
            for j in range(b, end):
                u = slot_label[j]
                x = rows[t + 1, u] + max(ahead[j], more[j - zero])
                if x + reach[1, u] > best:
                    for k in range(in_ptr[u], in_ptr[u + 1]):
                        after[in_label[k]] = max(after[in_label[k]], x + in_score[k])
            for s in range(a, b):
                more[s - zero] = min(missed, missed_raw + reach[0, slot_label[s]])
                for j in range(b, end):
                    w = value[arc_place[pair_ptr[t + 1] + (s - a) * (end - b) + j - b]]
                    more[s - zero] = max(more[s - zero], w + rows[t + 1, slot_label[j]] + more[j - zero])
        missed = missed_raw = -np.inf
        for y in range(L):
            if candidate[y]:
                bound[t, y] = -np.inf
            else:
                bound[t, y] += after[y]
                missed_raw = max(missed_raw, rows[t, y] + after[y])
                missed = max(missed, rows[t, y] + after[y] + reach[1, y])
                highest = max(highest, bound[t, y])
        for s in range(a, b):
            candidate[slot_label[s]] = False
    return highest


@kernel
def mass_bound(rows, slot_ptr, slot_label, pairs, place, pair_ptr, all_ptr, all_label, reach):
    """log of an upper bound on the sum over all labellings of a sentence, of order 1.

    All labels that are no candidates are one more state of each token.  Transitions from candidates are exact (`pairs`
    by place, of which all_ptr [L+1] and all_label list those that have a weight); those out of other labels weigh as
    much as the largest out of each (reach [L]).

        other_t = sum_y exp(row_t(y) + reach(y)) (sum_i alpha_t-1(i) exp(w(i, y)) + other_t-1)"""
    T, L = rows.shape
    widest = 1
    for t in range(T):
        widest = max(widest, slot_ptr[t + 1] - slot_ptr[t])
    old, new, came = np.zeros(widest), np.zeros(widest), np.empty(L)
    other = 0.0
    log_z = 0.0
    for t in range(T):
        a, b = slot_ptr[t], slot_ptr[t + 1]
        top = rows[t].max()
        came[:] = 1.0 if t == 0 else other
        if t > 0:
            before = slot_ptr[t - 1]
            base = 0.0
            for i in range(before, a):
                base += old[i - before]
            for y in range(L):
                came[y] += base
            for i in range(before, a):
                x, r = old[i - before], slot_label[i]
                if x > NEGLIGIBLE * base:
                    for k in range(all_ptr[r], all_ptr[r + 1]):
                        came[all_label[k]] += x * (np.exp(pairs[k]) - 1.0)
                else:
                    more = x * (np.exp(reach[r]) - 1.0)
                    for y in range(L):
                        came[y] += more
            for j in range(b - a):
                new[j] = other
                for i in range(before, a):
                    new[j] += old[i - before] * np.exp(pairs[place[pair_ptr[t] + (i - before) * (b - a) + j]])
        else:
            for j in range(b - a):
                new[j] = 1.0
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
