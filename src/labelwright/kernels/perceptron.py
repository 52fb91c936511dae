"""Passes of the perceptrons (paper 003, figure 1): best path, best path under the gold labels, additive update.

With x the features of the gold path less those of the best one, d the number of wrong labels in the best path, and
short = margin * d^power - w x what the gold path lacks, the updates are

    perceptron           w += x
    passive-aggressive   w += min(limit, short / (|x|^2 + damping)) x       Crammer, Dekel, Keshet et al. 2006, figure 1
    AROW                 w += short / (x V x + damping) V x                 Crammer, Kulesza & Dredze 2009, figure 1
                         V  = (V^-1 + diag(x)^2 / damping)^-1

where V is the diagonal matrix of the variances of the weights.

Scores lie in tiles (scoring.tiles): the row of a token has a number for every state, then for every pair and, of
order 2, for every triple of states.  `n` is how many labels before the token count: 0 for states, 1 for pairs, 2 for
triples.
"""

from typing import NamedTuple

import numpy as np

from labelwright.kernels import kernel, unsigned

NEARLY = 1e-5  # passive-aggressive and AROW updates ignore a shortfall below this share of the margin
KEPT = 16  # the best score so far is subtracted from all after so many tokens


class Features(NamedTuple):
    """The features of each token, numbered by first appearance, and where the weights of each feature lie: a tile for
    each of its grams, one after the other.

    Where every label has one state, features of many grams have a weight for every gram (dense): there `weights_of`
    has -1 - the place where the weights begin."""

    ptr: np.ndarray  # [3, T+1]
    feature: np.ndarray  # features of token t on n labels before it: feature[ptr[n, t]:ptr[n, t+1]]
    value: np.ndarray  # their values; empty when all are one
    weights_of: np.ndarray  # [F, 4]  place of the first gram (a single gram itself), number of grams, first weight, 0
    gram: np.ndarray  # [E]  grams of each feature, sorted


class RowPart(NamedTuple):
    """The states (n = 0), pairs (1) or triples (2) of a row."""

    n: int
    begin: int
    width: int
    merged: bool  # every label has one state,
    shift: int  # and this is the place of a gram less its number


class Step(NamedTuple):
    """A tile of arcs (r, m, u), of which there are R * M * U (see Tiles)."""

    source: int
    target: int
    at: int
    R: int
    M: int
    U: int


class Nodes(NamedTuple):
    """The nodes of a step (see Tiles)."""

    state: np.ndarray  # [Q]
    before: np.ndarray  # [Q]
    middle: np.ndarray  # [Q]
    steps: np.ndarray  # [K, 6]


class TrainingData(NamedTuple):
    """The training data of a run."""

    offsets: np.ndarray  # [N+1]
    gold: np.ndarray  # [T]
    features: Features
    most_features: int  # of a token, on states, pairs or triples
    most_cells: int  # of a sentence


class UpdateRule(NamedTuple):
    """The update at a mistake."""

    margin: float  # by which the gold path must win: this times (number of wrong labels) ** power
    passive: bool  # passive-aggressive or AROW: only as far as needed, and no further than
    limit: float
    damping: float = 0.0  # added to the squared norm of the difference: PA-II and AROW
    power: float = 1.0
    augmented: bool = True  # the best path is the one with the margin on top
    variance: float = 0.0  # AROW: of every weight at first; 0: weights have none


class RunState(NamedTuple):
    """What a pass changes."""

    weights: np.ndarray  # [W] float32
    sums: np.ndarray  # [W] float64  each change times the number of sentences before it
    variances: np.ndarray  # [W] float32; [0]: none


class Difference(NamedTuple):
    """The features that one path has more than another, in a hash table that is emptied after use."""

    cell: np.ndarray  # [2 ** b]  -1: free
    value: np.ndarray  # [2 ** b]
    used: np.ndarray  # [2 ** b]  slots in use
    n: np.ndarray  # [1]


class Transitions(NamedTuple):
    """The scores of plain transitions, kept up to date; minus infinity where they are forbidden."""

    plain: np.ndarray  # [row] float32
    matrix: np.ndarray  # [S, S] float32  those between latent states; [0, 0]: not used


class PathScratch(NamedTuple):
    """What the search for best paths writes, sentence by sentence."""

    row: np.ndarray  # [row] float32  the scores of one token
    dense: np.ndarray  # [most features] int64
    first: np.ndarray  # [S] float32  the scores of the states of the first token
    repeated: np.ndarray  # [Q * repeat] float32
    deltas: np.ndarray  # [longest, Q] float32  best scores up to each node
    back: np.ndarray  # [longest, Q] int32  the nodes they come from


@kernel
def largest_norm(features, offsets, order):
    """The largest 2-norm that the features of a sentence can have under any labelling of one state per label: that of
    the same label at all tokens, plain transitions included."""
    ptr, feature, value = features.ptr, features.feature, features.value
    count = np.zeros(features.weights_of.shape[0])
    largest = 0.0
    for i in range(offsets.shape[0] - 1):
        total = 0.0
        for phase in range(2):  # count, then add up and clear
            for n in range(order + 1):
                for t in range(offsets[i] + n, offsets[i + 1]):
                    for j in range(ptr[n, t], ptr[n, t + 1]):
                        f = feature[j]
                        if phase == 0:
                            count[f] += value[j] if value.shape[0] > 0 else 1.0
                        else:
                            total += count[f] ** 2
                            count[f] = 0
        for n in range(1, order + 1):
            total += max(0, offsets[i + 1] - offsets[i] - n) ** 2
        largest = max(largest, total)
    return np.sqrt(largest)


@kernel
def flatten(x, first, ptr, feature, value):
    """The features of every token of an Incidence in one list that begins at `first`; returns where it ends."""
    n = first
    for t in range(x.keys.shape[0]):
        ptr[t] = n
        for g in range(x.keys.shape[1]):
            k = x.keys[t, g]
            for i in range(x.key_ptr[k], x.key_ptr[k + 1]):
                feature[n] = x.key_feature[i]
                if value.shape[0] > 0:
                    value[n] = 1
                n += 1
        for i in range(x.token_ptr[t], x.token_ptr[t + 1]):
            feature[n] = x.token_feature[i]
            if value.shape[0] > 0:
                value[n] = x.token_value[i] if x.token_value.shape[0] > 0 else 1
            n += 1
    ptr[x.keys.shape[0]] = n
    return n


@kernel
def renumber(feature, number, first):
    """Number the features from `first` on by first appearance, in place; number [F] must be -1 at first."""
    n = first
    for i in range(feature.shape[0]):
        f = feature[i]
        if number[f] < 0:
            number[f] = n
            n += 1
        feature[i] = number[f]
    for f in range(number.shape[0]):
        if number[f] < 0:
            number[f] = n
            n += 1


@kernel
def sort_by_size(ptr, feature, value, weights_of):
    """Sort the features of each token, those with most grams first: loops of similar length follow each other, which
    helps branch prediction."""
    for t in range(ptr.shape[0] - 1):
        for i in range(ptr[t] + 1, ptr[t + 1]):
            f, j = feature[i], i
            v = value[i] if value.shape[0] > 0 else np.float32(1)
            while j > ptr[t] and weights_of[feature[j - 1], 1] < weights_of[f, 1]:
                feature[j] = feature[j - 1]
                if value.shape[0] > 0:
                    value[j] = value[j - 1]
                j -= 1
            feature[j] = f
            if value.shape[0] > 0:
                value[j] = v


@kernel
def lay_out(ptr, item, begin, place, packed, laid, back):
    """Copy the entries of each feature f, packed[ptr[f]:ptr[f+1]], into `laid` from begin[f] on, or (`back`) from there
    to packed; where begin is negative, entry i is at -1 - begin + place[item[i]]."""
    for f in range(begin.shape[0]):
        a = begin[f]
        for c in range(ptr[f], ptr[f + 1]):
            at = -1 - a + place[item[c]] if a < 0 else a + c - ptr[f]
            if back:
                packed[c] = laid[at]
            else:
                laid[at] = packed[c]


@kernel
def _score(weights, features, place, size, part, t, dense, row):
    """Add the weights of the features of token t to their part of the row; `dense` is scratch.

    Dense features add to the whole part.  With one state per label, gram k is at k + shift."""
    ptr, feature, value, weights_of, gram = features
    n, merged, shift = part.n, part.merged, part.shift
    valued = value.shape[0] > 0
    v = np.float32(1)
    first, width = unsigned(part.begin), unsigned(part.width)
    n_dense = 0
    for i in range(ptr[n, t], ptr[n, t + 1]):
        f = unsigned(feature[i])
        if valued:
            v = value[i]
        e, many, a = unsigned(weights_of[f, 0]), unsigned(weights_of[f, 1]), np.int64(weights_of[f, 2])
        b = unsigned(a)
        if a < 0 and v == 1:
            dense[n_dense] = -1 - a
            n_dense += 1
        elif a < 0:
            b = unsigned(-1 - a)
            for j in range(width):
                row[first + j] += v * weights[b + j]
        elif merged and many == 1:
            row[unsigned(weights_of[f, 0] + shift)] += v * weights[b]
        elif merged:
            for j in range(many):
                row[unsigned(gram[e + j] + shift)] += v * weights[b + j]
        else:
            for j in range(many):
                k = unsigned(gram[e + j]) if many > 1 else e
                p, numbers = unsigned(place[k]), unsigned(size[k])
                if place[k] >= 0:
                    for u in range(numbers):
                        row[p + u] += v * weights[b + u]
                b += numbers
    for i in range(0, n_dense - n_dense % 4, 4):  # four at a time: the row is read and written less often
        a, b, c, d = unsigned(dense[i]), unsigned(dense[i + 1]), unsigned(dense[i + 2]), unsigned(dense[i + 3])
        for j in range(width):
            row[first + j] += (weights[a + j] + weights[b + j]) + (weights[c + j] + weights[d + j])
    for i in range(n_dense - n_dense % 4, n_dense):
        a = unsigned(dense[i])
        for j in range(width):
            row[first + j] += weights[a + j]


@kernel
def _find(features, tiles, n, f, k):
    """Where the weights of feature f and gram k begin; -1: it has none."""
    weights_of, gram = features.weights_of, features.gram
    begin, n_grams, a = np.int64(weights_of[f, 0]), np.int64(weights_of[f, 1]), np.int64(weights_of[f, 2])
    low, high = begin, begin + n_grams
    if n_grams == 1:
        if begin != k:
            return -1
    else:
        while low < high:
            middle = (low + high) // 2
            if gram[middle] < k:
                low = middle + 1
            else:
                high = middle
        if low == begin + n_grams or gram[low] != k:
            return -1
    if a < 0:
        return -1 - a + tiles.place[k] - tiles.row_begin[n]
    for e in range(begin, low):
        a += tiles.size[gram[e]]
    return a


@kernel
def _step(deltas, t, row, step):
    """delta_t(m, u) = max_r delta_{t-1}(r, m) + row(r, m, u) over one tile of arcs."""
    source, target, at, R, M, U = step
    a, b, width = unsigned(at), unsigned(target), unsigned(U)
    for r in range(R):
        b = unsigned(target)
        for m in range(M):
            d = deltas[t - 1, source + r * M + m]
            for u in range(width):
                v = d + row[a + u]
                deltas[t, b + u] = v if v > deltas[t, b + u] else deltas[t, b + u]
            a += width
            b += width


@kernel
def _step_and_back(deltas, t, row, step, back):
    """As `_step`, and the node each comes from: (r, 0), to which node (m, u) has to add its m."""
    source, target, at, R, M, U = step
    a, b, width = unsigned(at), unsigned(target), unsigned(U)
    for r in range(R):
        b, node = unsigned(target), np.int32(source + r * M)
        for m in range(M):
            d = deltas[t - 1, source + r * M + m]
            for u in range(width):
                v = d + row[a + u]
                better = v > deltas[t, b + u]
                deltas[t, b + u] = v if better else deltas[t, b + u]
                back[t, b + u] = node if better else back[t, b + u]
            a += width
            b += width


@kernel
def _wide_step_and_back(repeated, deltas, t, row, step, back):
    """As `_step_and_back`, in longer loops: repeated has each delta_{t-1} U times."""
    source, target, at, R, M, U = step
    a, e, b, width = unsigned(at), unsigned(source * U), unsigned(target), unsigned(M * U)
    for r in range(R):
        node = np.int32(source + r * M)
        for i in range(width):
            v = repeated[e + i] + row[a + i]
            better = v > deltas[t, b + i]
            deltas[t, b + i] = v if better else deltas[t, b + i]
            back[t, b + i] = node if better else back[t, b + i]
        a += width
        e += width


@kernel
def _came_from(deltas, t, row, steps, q):
    """The node from which the best path to node q comes, where the row is the same for all tokens."""
    best, node = np.float32(-np.inf), np.int64(0)
    for k in range(steps.shape[0]):
        R, M, U = steps[k, 3], steps[k, 4], steps[k, 5]
        place = q - steps[k, 1]
        if 0 <= place < M * U:
            source, at = steps[k, 0] + place // U, steps[k, 2] + place
            for r in range(R):
                v = deltas[t - 1, source + r * M] + row[at + r * M * U]
                if v > best:
                    best, node = v, source + r * M
    return node


@kernel
def _matrix_step(deltas, t, matrix):
    """delta_t(s) = max_r delta_{t-1}(r) + matrix(r, s).  One long loop for each r: tiles of a few latent states each
    take ten times as long (40 labels of four states)."""
    S = unsigned(matrix.shape[0])
    r, four = unsigned(0), S - S % unsigned(4)
    while r < four:  # four at a time: deltas are read and written less often
        i, j, k = r + unsigned(1), r + unsigned(2), r + unsigned(3)
        a, b, c, d = deltas[t - 1, r], deltas[t - 1, i], deltas[t - 1, j], deltas[t - 1, k]
        for s in range(S):
            v, w = a + matrix[r, s], b + matrix[i, s]
            x, y = c + matrix[j, s], d + matrix[k, s]
            v = v if v > w else w
            x = x if x > y else y
            v = v if v > x else x
            deltas[t, s] = v if v > deltas[t, s] else deltas[t, s]
        r += unsigned(4)
    while r < S:
        a = deltas[t - 1, r]
        for s in range(S):
            v = a + matrix[r, s]
            deltas[t, s] = v if v > deltas[t, s] else deltas[t, s]
        r += unsigned(1)


@kernel
def _trace_matrix(deltas, matrix, path):
    """As `_trace`, where a matrix has the scores of all transitions; of equal ones the first state wins."""
    T, S = path.shape[0], matrix.shape[0]
    s = np.int64(np.argmax(deltas[T - 1]))
    path[T - 1] = s
    for t in range(T - 1, 0, -1):
        best, state = np.float32(-np.inf), np.int64(0)
        for r in range(S):
            v = deltas[t - 1, r] + matrix[r, s]
            if v > best:
                best, state = v, r
        s = state
        path[t - 1] = s


@kernel
def _trace(deltas, arcs, back, nodes, order, by_token, path):
    """Fill path [T], T > 1, with the states of the best path, from the last token back."""
    state, before, middle, steps = nodes
    T = path.shape[0]
    q = np.int64(np.argmax(deltas[T - 1]))
    for t in range(T - 1, 0, -1):
        path[t] = state[q]
        path[t - 1] = before[q]
        if t >= order:
            q = np.int64(back[t, q] + middle[q]) if by_token else _came_from(deltas, t, arcs, steps, q)
    if order == 1:
        path[0] = q


@kernel
def _best_path(weights, transitions, tiles, features, begin, gold, margin, scratch, path):
    """Fill path [T] with the states of the best path; wrong labels get `margin` on top.

    Arrays are taken out of their tuples once: at every token that would cost as much as the work."""
    T, S, Q, order = gold.shape[0], tiles.label_of.shape[0], tiles.state.shape[0], tiles.order
    row, plain, dense, first, deltas = scratch.row, transitions.plain, scratch.dense, scratch.first, scratch.deltas
    repeated, back, label_of, state, before = scratch.repeated, scratch.back, tiles.label_of, tiles.state, tiles.before
    featured, row_begin, width, gram_begin = tiles.featured, tiles.row_begin, tiles.width, tiles.gram_begin
    steps = tiles.steps
    place, size, merged, repeat = tiles.place, tiles.size, tiles.merged, tiles.repeat
    by_token, pair = featured[order], row_begin[1]
    matrix, by_matrix = transitions.matrix, transitions.matrix.shape[0] > 0
    pairs = row if featured[1] else plain
    arcs = row if by_token else plain
    for t in range(T):
        for n in range(min(t, order) + 1):
            if featured[n]:
                for i in range(row_begin[n], row_begin[n + 1]):
                    row[i] = plain[i]
                part = RowPart(n, row_begin[n], width[n], merged, row_begin[n] - gram_begin[n])
                _score(weights, features, place, size, part, begin + t, dense, row)
        if margin > 0:
            for s in range(S):
                row[s] += margin if label_of[s] != gold[t] else np.float32(0)
        if t == T - 1:
            for s in range(S):
                row[s] += tiles.end[s]
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
                deltas[t, q] = -np.inf
            if by_token and repeat > 0:
                for q in range(Q):
                    for u in range(repeat):
                        repeated[q * repeat + u] = deltas[t - 1, q]
            if by_matrix:
                _matrix_step(deltas, t, matrix)
            for k in range(0 if by_matrix else steps.shape[0]):
                step = Step(steps[k, 0], steps[k, 1], steps[k, 2], steps[k, 3], steps[k, 4], steps[k, 5])
                if by_token and repeat > 0:
                    _wide_step_and_back(repeated, deltas, t, arcs, step, back)
                elif by_token:
                    _step_and_back(deltas, t, arcs, step, back)
                else:
                    _step(deltas, t, arcs, step)
            if order == 1:
                for q in range(Q):
                    deltas[t, q] += row[q]
            else:
                for q in range(Q):
                    deltas[t, q] += row[state[q]] + pairs[pair + q]
            if t % KEPT == 0:  # small numbers keep their digits
                top = deltas[t].max()
                for q in range(Q):
                    deltas[t, q] -= top
    if T == 1:
        path[0] = np.argmax(first)
    elif by_matrix:
        _trace_matrix(deltas, matrix, path)
    else:
        _trace(deltas, arcs, back, Nodes(state, before, tiles.middle, steps), order, by_token, path)


@kernel
def _gold_rows(weights, tiles, features, begin, t, gold, plain, rows, sizes):
    """Fill rows [3, most^3] with the scores of the states, pairs and triples of the gold labels at token t, and sizes
    [3] with the numbers of states of that label, the one before, and the one before that."""
    L = tiles.first.shape[0] - 1
    k, power = np.int64(0), 1
    for n in range(min(t, tiles.order) + 1):
        y = gold[t - n]
        sizes[n] = tiles.size[y]
        k += y * power
        power *= L
        gram = tiles.gram_begin[n] + k
        size = tiles.size[gram]
        for j in range(size):
            rows[n, j] = plain[tiles.place[gram] + j]
        if tiles.featured[n]:
            for i in range(features.ptr[n, begin + t], features.ptr[n, begin + t + 1]):
                v = features.value[i] if features.value.shape[0] > 0 else np.float32(1)
                c = _find(features, tiles, n, features.feature[i], gram)
                if c >= 0:
                    for j in range(size):
                        rows[n, j] += v * weights[c + j]
    for s in range(sizes[0]):
        if t == 0:
            rows[0, s] += tiles.start[tiles.first[gold[t]] + s]
        if t == gold.shape[0] - 1:
            rows[0, s] += tiles.end[tiles.first[gold[t]] + s]


@kernel
def _gold_path(weights, tiles, features, begin, gold, plain, back, path):
    """Fill path [T] with the states of the best path among those of the gold labels."""
    T, L, order, size_of = gold.shape[0], tiles.first.shape[0] - 1, tiles.order, tiles.size
    most = 0
    for y in range(L):
        most = max(most, size_of[y])
    rows = np.zeros((3, most**3), np.float32)
    deltas = np.full((T, most**2), -np.inf, np.float32)
    sizes = np.ones(3, np.int64)
    for t in range(T):
        _gold_rows(weights, tiles, features, begin, t, gold, plain, rows, sizes)
        H, before = sizes[0], sizes[1]
        if t == 0:
            for s in range(H):
                deltas[0, s] = rows[0, s]
        elif t < order:
            for q in range(before * H):
                deltas[t, q] = deltas[0, q // H] + rows[1, q] + rows[0, q % H]
        else:
            n_sources, shared = (before, 1) if order == 1 else (sizes[2], before)
            _step_and_back(deltas, t, rows[order], Step(0, 0, 0, n_sources, shared, H), back)
            top = np.float32(-np.inf)
            for q in range(shared * H):
                deltas[t, q] += rows[0, q % H] + (rows[1, q] if order == 2 else np.float32(0))
                top = max(top, deltas[t, q])
            if t % KEPT == 0:
                for q in range(shared * H):
                    deltas[t, q] -= top
    n_nodes = sizes[0] if order == 1 or T == 1 else sizes[0] * sizes[1]
    q = np.int64(np.argmax(deltas[T - 1, :n_nodes]))
    for t in range(T - 1, -1, -1):
        H = size_of[gold[t]]
        path[t] = tiles.first[gold[t]] + q % H
        shared = q // H if order == 2 else 0
        q = np.int64(back[t, q] + shared) if t >= order else q // H


@kernel
def _count(difference, cell, v):
    """difference[cell] += v"""
    mask = difference.cell.shape[0] - 1
    slot = ((cell * 0x9E3779B1) >> 7) & mask
    while difference.cell[slot] != cell:
        if difference.cell[slot] < 0:
            difference.cell[slot] = cell
            difference.value[slot] = 0
            difference.used[difference.n[0]] = slot
            difference.n[0] += 1
            break
        slot = (slot + 1) & mask
    difference.value[slot] += v


@kernel
def _count_path(difference, tiles, features, begin, path, other, sign):
    """difference += sign * f(path), except where both paths agree."""
    L = tiles.first.shape[0] - 1
    for t in range(path.shape[0]):
        same = True
        k, place, labels, width = np.int64(0), np.int64(0), 1, np.int64(1)
        for n in range(min(t, tiles.order) + 1):
            s = path[t - n]
            y = tiles.label_of[s]
            same = same and s == other[t - n]
            k += y * labels
            place += (s - tiles.first[y]) * width
            labels, width = labels * L, width * tiles.size[y]
            if same:
                continue
            gram = tiles.gram_begin[n] + k
            if n > 0 and tiles.plain_cell[tiles.place[gram] + place] >= 0:
                _count(difference, tiles.plain_cell[tiles.place[gram] + place], sign)
            if tiles.featured[n]:
                for i in range(features.ptr[n, begin + t], features.ptr[n, begin + t + 1]):
                    v = features.value[i] if features.value.shape[0] > 0 else np.float32(1)
                    c = _find(features, tiles, n, features.feature[i], gram)
                    if c >= 0:
                        _count(difference, c + place, sign * v)


@kernel
def _plain_scores(tiles, weights):
    """The scores of plain transitions [row]: minus infinity where they are forbidden."""
    plain = np.zeros(tiles.fence.shape[0], np.float32)
    for i in range(plain.shape[0]):
        plain[i] = tiles.fence[i]
        if tiles.plain_cell[i] >= 0:
            plain[i] += weights[tiles.plain_cell[i]]
    return plain


@kernel
def _matrix_of(tiles, plain):
    """The scores of plain transitions between latent states [S, S], minus infinity where they are forbidden; [0, 0]
    where labels have one state, where pairs have features, and of order 2: there tiles do as well or better."""
    S = tiles.label_of.shape[0]
    if tiles.merged or tiles.order > 1 or tiles.featured[1]:
        return np.empty((0, 0), np.float32)
    matrix = np.full((S, S), -np.inf, np.float32)
    for k in range(tiles.steps.shape[0]):
        source, target, at, R, U = (
            tiles.steps[k, 0], tiles.steps[k, 1], tiles.steps[k, 2], tiles.steps[k, 3], tiles.steps[k, 5],
        )  # fmt: skip
        for r in range(R):
            for u in range(U):
                matrix[source + r, target + u] = plain[at + r * U + u]
    return matrix


@kernel
def transitions_of(data, tiles, weights):
    """The scores of plain transitions by these weights, for `find_paths` and `apply_paths` on these data."""
    plain = _plain_scores(tiles, weights)
    return Transitions(plain, _matrix_of(tiles, plain))


@kernel
def _make_scratch(tiles, longest, most_features):
    """Scratch for sentences of up to `longest` tokens."""
    Q = tiles.state.shape[0]
    return PathScratch(
        np.zeros(tiles.fence.shape[0], np.float32), np.empty(most_features, np.int64),
        np.empty(tiles.label_of.shape[0], np.float32), np.empty(Q * tiles.repeat, np.float32),
        np.empty((longest, Q), np.float32), np.zeros((longest, Q), np.int32),
    )  # fmt: skip


@kernel
def _empty_difference(most_cells):
    size = 16
    while size < 4 * most_cells:
        size *= 2
    return Difference(
        np.full(size, -1, np.int64), np.empty(size, np.float32), np.empty(size, np.int64), np.zeros(1, np.int64)
    )


@kernel
def _rate(difference, state, rule, wrong):
    """The size of the update, and by how much the gold path falls short of the best one with the margin.

    0 where what is left is rounding; the formulas are at the head of this file."""
    weights, variances = state.weights, state.variances
    adaptive = variances.shape[0] > 0
    required = rule.margin * np.float64(wrong) ** rule.power
    short, norm = required, 0.0
    for j in range(difference.n[0]):
        slot = difference.used[j]
        cell, x = difference.cell[slot], np.float64(difference.value[slot])
        short -= weights[cell] * x
        norm += x**2 * (variances[cell] if adaptive else np.float32(1))
    if not rule.passive:
        return 1.0, short
    if not norm > 0 or short <= NEARLY * required:
        return 0.0, short
    return min(rule.limit, max(short, 0.0) / (norm + rule.damping)), short


@kernel
def _apply(difference, rate, damping, taken, state, transitions, plain_begin, row_of_plain):
    """weights += rate * difference (AROW: times the variances, which fall), sums likewise `taken` times; the difference
    is emptied.

    The weights of plain transitions, from plain_begin on, are in row_of_plain [plain transitions] of
    transitions.plain and, where it is used, in transitions.matrix as well."""
    weights, sums, variances = state.weights, state.sums, state.variances
    plain, matrix = transitions.plain, transitions.matrix
    adaptive = variances.shape[0] > 0 and rate > 0
    S = matrix.shape[0]
    for j in range(difference.n[0]):
        slot = difference.used[j]
        cell, change = difference.cell[slot], rate * difference.value[slot]
        difference.cell[slot] = -1
        if adaptive:
            v, x = np.float64(variances[cell]), np.float64(difference.value[slot])
            change *= v
            variances[cell] = v / (1 + v * x**2 / damping)
        weights[cell] += np.float32(change)
        sums[cell] += taken * change
        if cell >= plain_begin:
            plain[row_of_plain[cell - plain_begin]] = weights[cell]
            if S > 0:
                matrix[(cell - plain_begin) // S, (cell - plain_begin) % S] = weights[cell]
    difference.n[0] = 0


@kernel
def _paths(weights, transitions, tiles, features, begin, labels, margin, scratch, best, target):
    """Fill the best path and, where its labels are wrong, the best path of the gold labels; returns how many are
    wrong."""
    _best_path(weights, transitions, tiles, features, begin, labels, margin, scratch, best)
    wrong = 0
    for t in range(labels.shape[0]):
        wrong += tiles.label_of[best[t]] != labels[t]
    if wrong > 0 and tiles.merged:
        for t in range(labels.shape[0]):
            target[t] = labels[t]
    elif wrong > 0:
        _gold_path(weights, tiles, features, begin, labels, transitions.plain, scratch.back, target)
    return wrong


@kernel
def _update(difference, data, tiles, rule, state, transitions, taken, begin, best, target, wrong):
    """Change the state at a mistake; returns the size of the update and by how much the gold path falls short."""
    _count_path(difference, tiles, data.features, begin, target, best, np.float32(1))
    _count_path(difference, tiles, data.features, begin, best, target, np.float32(-1))
    rate, short = _rate(difference, state, rule, wrong)
    _apply(difference, rate, rule.damping, taken, state, transitions, tiles.plain_begin, tiles.row_of_plain)
    return rate, short


@kernel
def _longest(order, offsets):
    """The length of the longest of these sentences."""
    longest = 0
    for i in range(order.shape[0]):
        longest = max(longest, offsets[order[i] + 1] - offsets[order[i]])
    return longest


@kernel
def perceptron_pass(order, data, tiles, rule, state, taken):
    """One pass over the sentences in `order`; the state changes at mistakes only.

    After n sentences the mean of all weight vectors so far is weights - sums / n: sums collects each change times the
    number of sentences before it (`taken` before this pass).  Returns the number of sentences that led to an update,
    the sum of what their best paths score above the gold ones (with the margin), and the sum of the shares of wrong
    labels in the best paths."""
    offsets, gold, weights = data.offsets, data.gold, state.weights
    longest = _longest(order, offsets)
    transitions, scratch = transitions_of(data, tiles, weights), _make_scratch(tiles, longest, data.most_features)
    difference = _empty_difference(data.most_cells)
    best_path, gold_path = np.empty(longest, np.int64), np.empty(longest, np.int64)
    margin = np.float32(rule.margin if rule.augmented else 0.0)
    mistakes, loss, errors = 0, 0.0, 0.0
    for i in range(order.shape[0]):
        begin, T = offsets[order[i]], offsets[order[i] + 1] - offsets[order[i]]
        labels, target, best = gold[begin : begin + T], gold_path[:T], best_path[:T]
        wrong = _paths(weights, transitions, tiles, data.features, begin, labels, margin, scratch, best, target)
        if wrong > 0:
            rate, short = _update(
                difference, data, tiles, rule, state, transitions, taken + i, begin, best, target, wrong
            )  # fmt: skip
            mistakes, loss, errors = mistakes + (rate > 0), loss + short, errors + wrong / T
    return mistakes, loss, errors


@kernel
def find_paths(order, data, tiles, rule, weights, transitions, best, target, wrong):
    """For each sentence i of `order` its best path, that of its gold labels (both at the places of its tokens [T]), and
    the number of wrong labels wrong[i]; nothing is changed, so that threads can share the sentences of a mini-batch."""
    offsets = data.offsets
    scratch = _make_scratch(tiles, _longest(order, offsets), data.most_features)
    margin = np.float32(rule.margin if rule.augmented else 0.0)
    for i in range(order.shape[0]):
        a, b = offsets[order[i]], offsets[order[i] + 1]
        wrong[i] = _paths(
            weights, transitions, tiles, data.features, a, data.gold[a:b], margin, scratch, best[a:b], target[a:b]
        )  # fmt: skip


@kernel
def apply_paths(order, data, tiles, rule, state, transitions, taken, best, target, wrong):
    """The updates of a mini-batch, one sentence after the other; returns the same as `perceptron_pass`."""
    offsets = data.offsets
    difference = _empty_difference(data.most_cells)
    mistakes, loss, errors = 0, 0.0, 0.0
    for i in range(order.shape[0]):
        a, b = offsets[order[i]], offsets[order[i] + 1]
        if wrong[i] > 0:
            rate, short = _update(
                difference, data, tiles, rule, state, transitions, taken + i, a, best[a:b], target[a:b], wrong[i]
            )  # fmt: skip
            mistakes, loss, errors = mistakes + (rate > 0), loss + short, errors + wrong[i] / (b - a)
    return mistakes, loss, errors
