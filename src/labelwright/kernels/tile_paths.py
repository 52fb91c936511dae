"""Best paths over scores in tiles (scoring.tiles), and best paths under the gold labels.

The row of a token has a number for every state, then for every pair and, of order 2, for every
triple of states.  `n` is how many labels before the token count: 0 for states, 1 for pairs, 2 for
triples.
"""

import numpy as np
from cython.cimports.labelwright.kernels.common import find
from cython.cimports.libc.math import INFINITY

KEPT = 16  # the best score so far is subtracted from all after so many tokens
# rows and columns of a matrix of transitions are multiples of this: loops over them need no rest
PAD = 8


# -- what is read and written ----------------------------------------------------------------------


class FeaturesView:
    """scoring.tiles.Features."""

    def __init__(self, features):
        self.ptr = features.ptr
        self.feature = features.feature
        self.value = features.value
        self.weights_of = features.weights_of
        self.gram = features.gram
        self.dense = features.dense
        self.learns = features.learns


class TilesView:
    """scoring.tiles.Tiles; by_matrix: a matrix has the scores of all transitions; most: the largest
    number of states that a label has."""

    def __init__(self, tiles):
        self.order = tiles.order
        self.merged = tiles.merged
        self.first = tiles.first
        self.label_of = tiles.label_of
        self.gram_begin = tiles.gram_begin
        self.place = tiles.place
        self.size = tiles.size
        self.row_begin = tiles.row_begin
        self.width = tiles.width
        self.featured = tiles.featured
        self.fence = tiles.fence
        self.plain_cell = tiles.plain_cell
        self.plain_begin = tiles.plain_begin
        self.row_of_plain = tiles.row_of_plain
        self.start = tiles.start
        self.end = tiles.end
        self.steps = tiles.steps
        self.state = tiles.state
        self.before = tiles.before
        self.middle = tiles.middle
        self.repeat = tiles.repeat
        self.n_labels = self.first.shape[0] - 1
        self.n_states = self.label_of.shape[0]
        self.n_nodes = self.state.shape[0]
        self.most = np.diff(self.first).max(initial=1)
        self.by_matrix = self.order == 1 and not self.featured[1]


class Transitions:
    """The scores of plain transitions, kept up to date.

    plain [row]    minus infinity where they are forbidden
    matrix [S, S]  the same where they are all that pairs have, and of order 1, filled up with minus
                   infinity to a multiple of PAD; else [0, 0]"""


def transitions_of(tiles, weights):
    """The scores of plain transitions by these weights."""
    plain = np.array(tiles.fence)
    cell = np.asarray(tiles.plain_cell)
    weighed = cell >= 0
    plain[weighed] += np.asarray(weights)[cell[weighed]]
    size = _padded(tiles.n_states) if tiles.by_matrix else 0
    transitions = Transitions()
    transitions.plain = plain
    transitions.matrix = np.full((size, size), -np.inf, np.float32)
    if tiles.by_matrix:
        _fill_matrix(tiles, transitions.plain, transitions.matrix)
    return transitions


def _padded(n):
    """The multiple of PAD that is not below n."""
    return (n + PAD - 1) // PAD * PAD


def _fill_matrix(tiles, plain, matrix):
    """matrix(r, s) = the score of the plain transition from r to s."""
    for k in range(tiles.steps.shape[0]):
        source = tiles.steps[k, 0]
        target = tiles.steps[k, 1]
        at = tiles.steps[k, 2]
        width = tiles.steps[k, 5]
        for r in range(tiles.steps[k, 3]):
            for u in range(width):
                matrix[source + r, target + u] = plain[at + r * width + u]


class PathScratch:
    """What the search for best paths writes, sentence by sentence, for sentences of up to T tokens.

    rows [1, row]         the scores of one token, which is `row`; with a matrix those of all [T]
    rest [T]              the first feature of each token that is not dense
    deltas [T, Q]         best scores up to each node; with a matrix, as wide as that

    without a matrix

    first [S]             the scores of the states of the first token
    repeated [Q * repeat]
    back [T, Q]           the nodes they come from

    and for paths under the gold labels, where labels have up to m states

    cube                  m^3
    gold_rows [3 * m^3]   the scores of states, of pairs, and of triples
    gold_deltas [T, m^2]
    gold_back [T, m^2]
    gold_step [1, 6]      a step as in Tiles
    sizes [3]             how many states the label has, the one before, and the one before that"""


def make_scratch(tiles, longest):
    """Scratch for sentences of up to `longest` tokens."""
    Q = tiles.n_nodes
    most = tiles.most
    scratch = PathScratch()
    scratch.rest = np.empty(longest, np.int64)
    if tiles.by_matrix:
        width = max(_padded(tiles.n_states), tiles.width[0])
        scratch.rows = np.empty((longest, width), np.float32)
        scratch.deltas = np.full((longest, width), -np.inf, np.float32)
    else:
        rows = np.zeros((1, tiles.fence.shape[0]), np.float32)
        scratch.rows = rows
        scratch.row = rows.reshape(-1)
        scratch.first = np.empty(tiles.n_states, np.float32)
        scratch.repeated = np.empty(Q * tiles.repeat, np.float32)
        scratch.deltas = np.empty((longest, Q), np.float32)
        scratch.back = np.zeros((longest, Q), np.int32)
    if not tiles.merged:
        scratch.cube = most**3
        scratch.gold_rows = np.zeros(3 * most**3, np.float32)
        scratch.gold_deltas = np.empty((longest, most**2), np.float32)
        scratch.gold_back = np.empty((longest, most**2), np.int32)
        scratch.gold_step = np.zeros((1, 6), np.int64)
        scratch.sizes = np.ones(3, np.int64)
    return scratch


# -- the scores of tokens --------------------------------------------------------------------------


def _score(weights, features, tiles, n, begin, T, rows, rest):
    """Add the weights of the features of T tokens from `begin` on to their part of rows [T].

    Dense features add to the whole part.  With one state per label, gram k is at k + shift.  All
    rows of a sentence are filled by one call: a call costs as much as the features of a token.
    Where all values are 1, short loops that do one thing each: the processor waits for several
    weights at a time; rest [T] is scratch."""
    if tiles.merged and features.value.shape[0] == 0:
        first = tiles.row_begin[n]
        width = tiles.width[n]
        sparse = features.dense[n, 1]
        place = features.dense[n, 2] - features.dense[n, 0] * width
        _add_dense(
            weights, features.ptr, features.feature, n, begin, T, sparse, place, width, rows, first,
            rest,
        )  # fmt: skip
        _add_sparse(weights, features, n, begin, T, first - tiles.gram_begin[n], rows, rest)
    else:
        _add_any(weights, features, tiles, n, begin, T, rows)


def _add_dense(
    weights, ptr, feature, n, begin, T, sparse, place, width, rows, first, rest
):  # fmt: skip
    """Add the weights of dense features, those below `sparse`, to rows[t, first : first + width];
    rest[t] becomes the place of the first other feature.

    Eight at a time: the row is read and written less often."""
    for t in range(T):
        i = ptr[n, begin + t]
        end = ptr[n, begin + t + 1]
        while i + 8 <= end and feature[i + 7] < sparse:
            a = place + feature[i] * width
            b = place + feature[i + 1] * width
            c = place + feature[i + 2] * width
            d = place + feature[i + 3] * width
            e = place + feature[i + 4] * width
            f = place + feature[i + 5] * width
            g = place + feature[i + 6] * width
            h = place + feature[i + 7] * width
            for j in range(width):
                low = (weights[a + j] + weights[b + j]) + (weights[c + j] + weights[d + j])
                high = (weights[e + j] + weights[f + j]) + (weights[g + j] + weights[h + j])
                rows[t, first + j] += low + high
            i += 8
        while i < end and feature[i] < sparse:
            a = place + feature[i] * width
            for j in range(width):
                rows[t, first + j] += weights[a + j]
            i += 1
        rest[t] = i


def _add_sparse(weights, features, n, begin, T, shift, rows, rest):
    """Add the weights of the features from rest[t] on, none of them dense, to rows[t]; gram k is at
    k + shift."""
    for t in range(T):
        for i in range(rest[t], features.ptr[n, begin + t + 1]):
            f = features.feature[i]
            e = features.weights_of[f, 0]
            many = features.weights_of[f, 1]
            a = features.weights_of[f, 2]
            if many == 1:
                rows[t, e + shift] += weights[a]
            else:
                for j in range(many):
                    rows[t, features.gram[e + j] + shift] += weights[a + j]


def _add_any(weights, features, tiles, n, begin, T, rows):
    """As `_score`, where features have values or labels have several states."""
    first = tiles.row_begin[n]
    shift = first - tiles.gram_begin[n]
    v = 1
    for t in range(T):
        for i in range(features.ptr[n, begin + t], features.ptr[n, begin + t + 1]):
            f = features.feature[i]
            if features.value.shape[0] > 0:
                v = features.value[i]
            e = features.weights_of[f, 0]
            many = features.weights_of[f, 1]
            b = features.weights_of[f, 2]
            if b < 0:
                b = -1 - b
                for j in range(tiles.width[n]):
                    rows[t, first + j] += v * weights[b + j]
            elif tiles.merged:
                for j in range(many):
                    gram = features.gram[e + j] if many > 1 else e
                    rows[t, gram + shift] += v * weights[b + j]
            else:
                for j in range(many):
                    gram = features.gram[e + j] if many > 1 else e
                    p = tiles.place[gram]
                    numbers = tiles.size[gram]
                    if p >= 0:
                        for u in range(numbers):
                            rows[t, p + u] += v * weights[b + u]
                    b += numbers


def find_cell(features, tiles, f, gram, column):
    """Where the weights of feature f and this gram, whose tile has this column in its part of a
    row, begin; -1: it has none."""
    begin = features.weights_of[f, 0]
    n_grams = features.weights_of[f, 1]
    a = features.weights_of[f, 2]
    if a < 0:
        cell = column - 1 - a
        return cell if features.learns[cell] else -1
    if n_grams == 1:
        return a if begin == gram else -1
    at = find(features.gram, begin, begin + n_grams, gram)
    if at < 0:
        return -1
    if tiles.merged:
        return a + at - begin
    for e in range(begin, at):
        a += tiles.size[features.gram[e]]
    return a


def right_label(sets, y, label, n_labels):
    """Is the label y, or one of the set y where it is a set (structures.supervision)?"""
    if y < n_labels:
        return label == y
    return sets[y - n_labels, label]


def _limit(tiles, gold, sets, margin, rows, n_rows, begin):
    """Add the margin of wrong labels (minus infinity: they are forbidden) to the rows of the tokens
    from `begin` on, and at the last token what forbids states there."""
    no = 0
    if margin != 0:
        for t in range(n_rows):
            y = gold[begin + t]
            if y < tiles.n_labels:
                for s in range(tiles.n_states):
                    rows[t, s] += no if tiles.label_of[s] == y else margin
            else:
                y -= tiles.n_labels
                for s in range(tiles.n_states):
                    rows[t, s] += no if sets[y, tiles.label_of[s]] else margin
    if begin + n_rows == gold.shape[0]:
        for s in range(tiles.n_states):
            rows[n_rows - 1, s] += tiles.end[s]


# -- steps from token to token ---------------------------------------------------------------------


def _step(deltas, t, row, steps):
    """delta_t(m, u) = max_r delta_{t-1}(r, m) + row(r, m, u) over all tiles of arcs."""
    for k in range(steps.shape[0]):
        target = steps[k, 1]
        a = steps[k, 2]
        width = steps[k, 5]
        for r in range(steps[k, 3]):
            b = target
            source = steps[k, 0] + r * steps[k, 4]
            for m in range(steps[k, 4]):
                d = deltas[t - 1, source + m]
                for u in range(width):
                    v = d + row[a + u]
                    deltas[t, b + u] = v if v > deltas[t, b + u] else deltas[t, b + u]
                a += width
                b += width


def _step_and_back(deltas, t, row, steps, back):
    """As `_step`, and the node each comes from: (r, 0), to which node (m, u) has to add its m."""
    for k in range(steps.shape[0]):
        target = steps[k, 1]
        a = steps[k, 2]
        width = steps[k, 5]
        for r in range(steps[k, 3]):
            b = target
            node = steps[k, 0] + r * steps[k, 4]
            for m in range(steps[k, 4]):
                d = deltas[t - 1, node + m]
                for u in range(width):
                    v = d + row[a + u]
                    best = deltas[t, b + u]
                    deltas[t, b + u] = v if v > best else best
                    back[t, b + u] = node if v > best else back[t, b + u]
                a += width
                b += width


def _wide_step_and_back(repeated, deltas, t, row, steps, back):
    """As `_step_and_back`, in longer loops: repeated has each delta_{t-1} U times."""
    for k in range(steps.shape[0]):
        a = steps[k, 2]
        e = steps[k, 0] * steps[k, 5]
        b = steps[k, 1]
        width = steps[k, 4] * steps[k, 5]
        for r in range(steps[k, 3]):
            node = steps[k, 0] + r * steps[k, 4]
            for i in range(width):
                v = repeated[e + i] + row[a + i]
                best = deltas[t, b + i]
                deltas[t, b + i] = v if v > best else best
                back[t, b + i] = node if v > best else back[t, b + i]
            a += width
            e += width


def _came_from(deltas, t, row, steps, q):
    """The node from which the best path to node q comes, where the row is the same for all
    tokens."""
    best = -INFINITY
    node = 0
    for k in range(steps.shape[0]):
        R = steps[k, 3]
        M = steps[k, 4]
        U = steps[k, 5]
        place = q - steps[k, 1]
        if 0 <= place < M * U:
            source = steps[k, 0] + place // U
            at = steps[k, 2] + place
            for r in range(R):
                v = deltas[t - 1, source + r * M] + row[at + r * M * U]
                if v > best:
                    best = v
                    node = source + r * M
    return node


def _first_largest(x, t, n):
    """The place of the largest of x[t, :n], the first of equal ones."""
    best = 0
    for i in range(1, n):
        if x[t, i] > x[t, best]:
            best = i
    return best


def _lower(deltas, t, n):
    """Subtract the largest number of deltas[t, :n] from all, unless that is minus infinity: small
    numbers keep their digits."""
    top = -INFINITY
    for q in range(n):
        top = deltas[t, q] if deltas[t, q] > top else top
    if top > -INFINITY:
        for q in range(n):
            deltas[t, q] -= top


def _larger(x, y):
    return x if x > y else y


def _matrix_steps(deltas, matrix, rows, T):
    """delta_t(s) = row_t(s) + max_r delta_{t-1}(r) + matrix(r, s) for all tokens after the first.

    One long loop for eight states r each: tiles of a few latent states take ten times as long (40
    labels of four)."""
    S = matrix.shape[0]
    for t in range(1, T):
        for s in range(S):
            deltas[t, s] = -INFINITY
        i = 0
        while i < S:
            a = deltas[t - 1, i]
            b = deltas[t - 1, i + 1]
            c = deltas[t - 1, i + 2]
            d = deltas[t - 1, i + 3]
            e = deltas[t - 1, i + 4]
            f = deltas[t - 1, i + 5]
            g = deltas[t - 1, i + 6]
            h = deltas[t - 1, i + 7]
            for s in range(S):
                low = _larger(
                    _larger(a + matrix[i, s], b + matrix[i + 1, s]),
                    _larger(c + matrix[i + 2, s], d + matrix[i + 3, s]),
                )
                high = _larger(
                    _larger(e + matrix[i + 4, s], f + matrix[i + 5, s]),
                    _larger(g + matrix[i + 6, s], h + matrix[i + 7, s]),
                )
                deltas[t, s] = _larger(deltas[t, s], _larger(low, high))
            i += PAD
        for s in range(S):
            deltas[t, s] += rows[t, s]
        if t % KEPT == 0:
            _lower(deltas, t, S)


def _trace_matrix(deltas, matrix, path):
    """As `_trace`, where a matrix has the scores of all transitions; of equal ones the first state
    wins."""
    T = path.shape[0]
    S = matrix.shape[0]
    s = _first_largest(deltas, T - 1, S)
    path[T - 1] = s
    for t in range(T - 1, 0, -1):
        best = -INFINITY
        state = 0
        for r in range(S):
            v = deltas[t - 1, r] + matrix[r, s]
            if v > best:
                best = v
                state = r
        s = state
        path[t - 1] = s


def _trace(deltas, arcs, back, tiles, by_token, path):
    """Fill path [T], T > 1, with the states of the best path, from the last token back."""
    T = path.shape[0]
    q = _first_largest(deltas, T - 1, tiles.n_nodes)
    for t in range(T - 1, 0, -1):
        path[t] = tiles.state[q]
        path[t - 1] = tiles.before[q]
        if t >= tiles.order:
            if by_token:
                q = back[t, q] + tiles.middle[q]
            else:
                q = _came_from(deltas, t, arcs, tiles.steps, q)
    if tiles.order == 1:
        path[0] = q


# -- best paths ------------------------------------------------------------------------------------


def best_path(weights, transitions, tiles, features, begin, gold, sets, margin, scratch, path):
    """Fill path [T] with the states of the best path; wrong labels get `margin` on top."""
    if tiles.by_matrix:
        _matrix_path(
            weights, transitions.matrix, tiles, features, begin, gold, sets, margin, scratch, path
        )
    else:
        _tile_path(
            weights, transitions.plain, tiles, features, begin, gold, sets, margin, scratch, path
        )


def _matrix_path(weights, matrix, tiles, features, begin, gold, sets, margin, scratch, path):
    """As `best_path`, where a matrix has the scores of all transitions."""
    rows = scratch.rows
    deltas = scratch.deltas
    T = gold.shape[0]
    for t in range(T):
        for s in range(rows.shape[1]):
            rows[t, s] = 0
    if tiles.featured[0]:
        _score(weights, features, tiles, 0, begin, T, rows, scratch.rest)
    _limit(tiles, gold, sets, margin, rows, T, 0)
    for s in range(tiles.n_states):
        deltas[0, s] = rows[0, s] + tiles.start[s]
    _matrix_steps(deltas, matrix, rows, T)
    _trace_matrix(deltas, matrix, path)


def _tile_path(weights, plain, tiles, features, begin, gold, sets, margin, scratch, path):
    """As `best_path`, where pairs have features or the order is 2."""
    rows = scratch.rows
    row = scratch.row
    first = scratch.first
    deltas = scratch.deltas
    back = scratch.back
    repeated = scratch.repeated
    steps = tiles.steps
    state = tiles.state
    before = tiles.before
    T = gold.shape[0]
    S = tiles.n_states
    Q = tiles.n_nodes
    order = tiles.order
    repeat = tiles.repeat
    by_token = tiles.featured[order]
    pair = tiles.row_begin[1]
    pairs = row if tiles.featured[1] else plain
    arcs = row if by_token else plain
    for t in range(T):
        for n in range(min(t, order) + 1):
            if tiles.featured[n]:
                for i in range(tiles.row_begin[n], tiles.row_begin[n + 1]):
                    row[i] = plain[i]
                _score(weights, features, tiles, n, begin + t, 1, rows, scratch.rest)
        _limit(tiles, gold, sets, margin, rows, 1, t)
        if t == 0:
            for s in range(S):
                first[s] = row[s] + tiles.start[s]
                if order == 1:
                    deltas[0, s] = first[s]
        elif t < order:
            for q in range(Q):
                deltas[t, q] = first[before[q]] + pairs[pair + q] + row[state[q]]
        else:
            for q in range(Q):
                deltas[t, q] = -INFINITY
            if by_token and repeat > 0:
                for q in range(Q):
                    for u in range(repeat):
                        repeated[q * repeat + u] = deltas[t - 1, q]
                _wide_step_and_back(repeated, deltas, t, arcs, steps, back)
            elif by_token:
                _step_and_back(deltas, t, arcs, steps, back)
            else:
                _step(deltas, t, arcs, steps)
            if order == 1:
                for q in range(Q):
                    deltas[t, q] += row[q]
            else:
                for q in range(Q):
                    deltas[t, q] += row[state[q]] + pairs[pair + q]
            if t % KEPT == 0:
                _lower(deltas, t, Q)
    if T == 1:
        best = 0
        for s in range(1, S):
            if first[s] > first[best]:
                best = s
        path[0] = best
    else:
        _trace(deltas, arcs, back, tiles, by_token, path)


# -- best paths under the gold labels --------------------------------------------------------------


def gold_path(weights, plain, tiles, features, begin, gold, scratch, path):
    """Fill path [T] with the states of the best path among those of the gold labels."""
    rows = scratch.gold_rows
    deltas = scratch.gold_deltas
    back = scratch.gold_back
    sizes = scratch.sizes
    T = gold.shape[0]
    order = tiles.order
    pair = scratch.cube
    no = 0
    sizes[1] = 1
    for t in range(T):
        _score_gold(weights, plain, tiles, features, begin, t, gold, scratch)
        H = sizes[0]
        before = sizes[1]
        if t == 0:
            for s in range(H):
                deltas[0, s] = rows[s]
        elif t < order:
            for q in range(before * H):
                deltas[t, q] = deltas[0, q // H] + rows[pair + q] + rows[q % H]
        else:
            shared = 1 if order == 1 else before
            scratch.gold_step[0, 2] = order * scratch.cube
            scratch.gold_step[0, 3] = before if order == 1 else sizes[2]
            scratch.gold_step[0, 4] = shared
            scratch.gold_step[0, 5] = H
            for q in range(shared * H):
                deltas[t, q] = -INFINITY
                back[t, q] = 0
            _step_and_back(deltas, t, rows, scratch.gold_step, back)
            top = -INFINITY
            for q in range(shared * H):
                deltas[t, q] += rows[q % H] + (rows[pair + q] if order == 2 else no)
                top = deltas[t, q] if deltas[t, q] > top else top
            if t % KEPT == 0:
                for q in range(shared * H):
                    deltas[t, q] -= top
    n_nodes = sizes[0] if order == 1 or T == 1 else sizes[0] * sizes[1]
    q = _first_largest(deltas, T - 1, n_nodes)
    for t in range(T - 1, -1, -1):
        H = tiles.size[gold[t]]
        path[t] = tiles.first[gold[t]] + q % H
        if t >= order:
            q = back[t, q] + (q // H if order == 2 else 0)
        else:
            q //= H


def _score_gold(weights, plain, tiles, features, begin, t, gold, scratch):
    """Fill gold_rows with the scores of the states, pairs and triples of the gold labels at token
    t, and sizes with the numbers of their states."""
    rows = scratch.gold_rows
    sizes = scratch.sizes
    k = 0
    power = 1
    for n in range(min(t, tiles.order) + 1):
        y = gold[t - n]
        sizes[n] = tiles.size[y]
        k += y * power
        power *= tiles.n_labels
        gram = tiles.gram_begin[n] + k
        size = tiles.size[gram]
        column = tiles.place[gram] - tiles.row_begin[n]
        at = n * scratch.cube
        for j in range(size):
            rows[at + j] = plain[tiles.place[gram] + j]
        if tiles.featured[n]:
            for i in range(features.ptr[n, begin + t], features.ptr[n, begin + t + 1]):
                v = features.value[i] if features.value.shape[0] > 0 else 1
                cell = find_cell(features, tiles, features.feature[i], gram, column)
                if cell >= 0:
                    for j in range(size):
                        rows[at + j] += v * weights[cell + j]
    y = gold[t]
    if t == 0:
        for s in range(sizes[0]):
            rows[s] += tiles.start[tiles.first[y] + s]
    if t == gold.shape[0] - 1:
        for s in range(sizes[0]):
            rows[s] += tiles.end[tiles.first[y] + s]
