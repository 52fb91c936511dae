"""Best paths over scores in tiles (scoring.tiles), and best paths under the gold labels.

The row of a token has a number for every state, then for every pair and, of order 2, for every
triple of states.  `n` is how many labels before the token count: 0 for states, 1 for pairs, 2 for
triples.
"""

from typing import NamedTuple

import numpy as np

from labelwright.kernels import inlined_kernel, kernel, max_kernel, unsigned
from labelwright.kernels.common import find

KEPT = 16  # the best score so far is subtracted from all after so many tokens
# rows and columns of a matrix of transitions are multiples of this: loops over them need no rest
PAD = 8


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


class Transitions(NamedTuple):
    """The scores of plain transitions, kept up to date; minus infinity where they are forbidden."""

    plain: np.ndarray  # [row] float32
    # [S, S] float32  as a matrix, filled up to a multiple of PAD; [0, 0]: not used
    matrix: np.ndarray


class PathScratch(NamedTuple):
    """What the search for best paths writes, sentence by sentence."""

    # [1, row] float32  the scores of one token; with a matrix those of all [longest, states]
    rows: np.ndarray
    rest: np.ndarray  # [longest]  the first feature of each token that is not dense
    first: np.ndarray  # [S] float32  the scores of the states of the first token
    repeated: np.ndarray  # [Q * repeat] float32
    # [longest, Q] float32  best scores up to each node; with a matrix, as wide as that
    deltas: np.ndarray
    back: np.ndarray  # [longest, Q] int32  the nodes they come from


@kernel
def padded(n):
    """The multiple of PAD that is not below n."""
    return (n + PAD - 1) // PAD * PAD


@kernel
def plain_scores(tiles, weights):
    """The scores of plain transitions [row]: minus infinity where they are forbidden."""
    plain = np.zeros(tiles.fence.shape[0], np.float32)
    for i in range(plain.shape[0]):
        plain[i] = tiles.fence[i]
        if tiles.plain_cell[i] >= 0:
            plain[i] += weights[tiles.plain_cell[i]]
    return plain


@kernel
def matrix_of(tiles, plain):
    """The scores of plain transitions between states [S, S], minus infinity where they are
    forbidden, rows and columns filled up with it to a multiple of PAD; [0, 0] where pairs have
    features, and of order 2."""
    if tiles.order > 1 or tiles.featured[1]:
        return np.empty((0, 0), np.float32)
    S = padded(tiles.label_of.shape[0])
    matrix = np.full((S, S), -np.inf, np.float32)
    for k in range(tiles.steps.shape[0]):
        source, target, at, R, U = (
            tiles.steps[k, 0],
            tiles.steps[k, 1],
            tiles.steps[k, 2],
            tiles.steps[k, 3],
            tiles.steps[k, 5],
        )
        for r in range(R):
            for u in range(U):
                matrix[source + r, target + u] = plain[at + r * U + u]
    return matrix


@kernel
def make_scratch(tiles, longest):
    """Scratch for sentences of up to `longest` tokens."""
    S, Q = tiles.label_of.shape[0], tiles.state.shape[0]
    by_matrix = tiles.order == 1 and not tiles.featured[1]
    width = max(padded(S), tiles.width[0]) if by_matrix else Q
    shape = (longest, width) if by_matrix else (1, tiles.fence.shape[0])
    return PathScratch(
        np.zeros(shape, np.float32), np.empty(longest, np.int64), np.empty(S, np.float32),
        np.empty(Q * tiles.repeat, np.float32), np.full((longest, width), -np.inf, np.float32),
        np.zeros((longest, Q), np.int32),
    )  # fmt: skip


@inlined_kernel
def _add_dense(weights, feature, i, end, sparse, place, step, rows, t, begin):
    """Add the weights of dense features, all of value 1, to rows[t, begin:begin+step]: those of
    feature[i:end] that are below `sparse`.  Returns the place of the first other.

    Eight at a time: the row is read and written less often."""
    width, begin = unsigned(step), unsigned(begin)
    while i + 8 <= end and feature[i + 7] < sparse:
        a, b = unsigned(place + feature[i] * step), unsigned(place + feature[i + 1] * step)
        c, d = unsigned(place + feature[i + 2] * step), unsigned(place + feature[i + 3] * step)
        e, f = unsigned(place + feature[i + 4] * step), unsigned(place + feature[i + 5] * step)
        g, h = unsigned(place + feature[i + 6] * step), unsigned(place + feature[i + 7] * step)
        for j in range(width):
            low = (weights[a + j] + weights[b + j]) + (weights[c + j] + weights[d + j])
            high = (weights[e + j] + weights[f + j]) + (weights[g + j] + weights[h + j])
            rows[t, begin + j] += low + high
        i += 8
    while i < end and feature[i] < sparse:
        a = unsigned(place + feature[i] * step)
        for j in range(width):
            rows[t, begin + j] += weights[a + j]
        i += 1
    return i


@inlined_kernel
def _add_sparse(weights, feature, i, end, weights_of, gram, rows, t, shift):
    """Add the weights of feature[i:end], none of them dense and all of value 1, to rows[t]; gram k
    is at k + shift."""
    while i < end:
        f = unsigned(feature[i])
        e, many, a = weights_of[f, 0], weights_of[f, 1], unsigned(weights_of[f, 2])
        if many == 1:
            rows[t, unsigned(e + shift)] += weights[a]
        else:
            for j in range(unsigned(many)):
                rows[t, unsigned(gram[unsigned(e) + j] + shift)] += weights[a + j]
        i += 1
    return i


@kernel
def _score_merged(weights, features, part, begin, rows, rest):
    """As `_score`, where every label has one state and all values are 1; rest [T] is scratch.

    Short loops that do one thing each: the processor waits for several weights at a time."""
    ptr, feature, weights_of, gram = (
        features.ptr[part.n],
        features.feature,
        features.weights_of,
        features.gram,
    )
    shift, first, width = part.shift, part.begin, part.width
    sparse, place = (
        features.dense[part.n, 1],
        features.dense[part.n, 2] - features.dense[part.n, 0] * part.width,
    )
    T = unsigned(rows.shape[0])
    for t in range(T):
        i, end = ptr[begin + t], ptr[begin + t + 1]
        rest[t] = _add_dense(weights, feature, i, end, sparse, place, width, rows, t, first)
    for t in range(T):
        _add_sparse(weights, feature, rest[t], ptr[begin + t + 1], weights_of, gram, rows, t, shift)


@kernel
def _score(weights, features, place, size, part, begin, rows, rest):
    """Add the weights of the features of the tokens from `begin` on to their part of each row.

    Dense features add to the whole part.  With one state per label, gram k is at k + shift.  All
    rows of a sentence are filled by one call: at every token, taking arrays out of tuples would
    cost as much as the work."""
    if part.merged and features.value.shape[0] == 0:
        _score_merged(weights, features, part, begin, rows, rest)
        return
    ptr, feature, value = features.ptr[part.n], features.feature, features.value
    weights_of, gram = features.weights_of, features.gram
    shift, first, width = part.shift, part.begin, part.width
    v = np.float32(1)
    for t in range(unsigned(rows.shape[0])):
        for i in range(ptr[begin + t], ptr[begin + t + 1]):
            f = unsigned(feature[i])
            if value.shape[0] > 0:
                v = value[i]
            e, many, a = weights_of[f, 0], unsigned(weights_of[f, 1]), np.int64(weights_of[f, 2])
            b = unsigned(a)
            if a < 0:
                b = unsigned(-1 - a)
                for j in range(unsigned(width)):
                    rows[t, unsigned(first) + j] += v * weights[b + j]
            elif part.merged:
                for j in range(many):
                    single = gram[unsigned(e) + j] if many > 1 else e
                    rows[t, unsigned(single + shift)] += v * weights[b + j]
            else:
                for j in range(many):
                    k = unsigned(gram[unsigned(e) + j]) if many > 1 else unsigned(e)
                    p, numbers = unsigned(place[k]), unsigned(size[k])
                    if place[k] >= 0:
                        for u in range(numbers):
                            rows[t, p + u] += v * weights[b + u]
                    b += numbers


@inlined_kernel
def find_cell(weights_of, gram, learns, size, f, k, column):
    """Where the weights of feature f and gram k, whose tile has this column in its part of a row,
    begin; -1: it has none."""
    begin, n_grams, a = (
        np.int64(weights_of[f, 0]),
        np.int64(weights_of[f, 1]),
        np.int64(weights_of[f, 2]),
    )
    if a < 0:
        return column - 1 - a if learns[column - 1 - a] else np.int64(-1)
    if n_grams == 1:
        return a if begin == k else np.int64(-1)
    at = find(gram, begin, begin + n_grams, k)
    if at < 0:
        return np.int64(-1)
    for e in range(begin, at):
        a += size[gram[e]]
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
    """The node from which the best path to node q comes, where the row is the same for all
    tokens."""
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


@inlined_kernel
def _lower(deltas):
    """Subtract the largest number from all, unless that is minus infinity: small numbers keep their
    digits."""
    top = deltas.max()
    if top > -np.inf:
        for q in range(deltas.shape[0]):
            deltas[q] -= top


@max_kernel
def _matrix_steps(deltas, matrix, rows):
    """delta_t(s) = row_t(s) + max_r delta_{t-1}(r) + matrix(r, s) for all tokens after the first.

    One long loop for eight states r each: tiles of a few latent states take ten times as long (40
    labels of four)."""
    S, one = unsigned(matrix.shape[0]), unsigned(1)
    for t in range(one, unsigned(rows.shape[0])):
        for s in range(S):
            deltas[t, s] = -np.inf
        i = unsigned(0)
        while i < S:
            j, k, m = i + one, i + unsigned(2), i + unsigned(3)
            n, o, p, q = i + unsigned(4), i + unsigned(5), i + unsigned(6), i + unsigned(7)
            a, b, c, d = (
                deltas[t - one, i],
                deltas[t - one, j],
                deltas[t - one, k],
                deltas[t - one, m],
            )
            e, f, g, h = (
                deltas[t - one, n],
                deltas[t - one, o],
                deltas[t - one, p],
                deltas[t - one, q],
            )
            for s in range(S):
                low = max(
                    max(a + matrix[i, s], b + matrix[j, s]), max(c + matrix[k, s], d + matrix[m, s])
                )
                high = max(
                    max(e + matrix[n, s], f + matrix[o, s]), max(g + matrix[p, s], h + matrix[q, s])
                )
                deltas[t, s] = max(deltas[t, s], max(low, high))
            i += unsigned(PAD)
        for s in range(S):
            deltas[t, s] += rows[t, s]
        if t % unsigned(KEPT) == 0:
            _lower(deltas[t])


@kernel
def _trace_matrix(deltas, matrix, path):
    """As `_trace`, where a matrix has the scores of all transitions; of equal ones the first state
    wins."""
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
            q = (
                np.int64(back[t, q] + middle[q])
                if by_token
                else _came_from(deltas, t, arcs, steps, q)
            )
    if order == 1:
        path[0] = q


@inlined_kernel
def right_label(allowed, y, label, tiles):
    """Is the label y, or one of the set y where it is a set (structures.supervision)?"""
    L = tiles.first.shape[0] - 1
    return label == y if y < L else allowed[y - L, label]


@inlined_kernel
def _limit(tiles, gold, allowed, margin, rows, begin):
    """Add the margin of wrong labels (minus infinity: they are forbidden) to the rows of the tokens
    from `begin` on, and at the last token what forbids states there."""
    label_of, end = tiles.label_of, tiles.end
    if margin != 0:
        for t in range(rows.shape[0]):
            y = gold[begin + t]
            for s in range(label_of.shape[0]):
                rows[t, s] += (
                    np.float32(0) if right_label(allowed, y, label_of[s], tiles) else margin
                )
    if begin + rows.shape[0] == gold.shape[0]:
        for s in range(label_of.shape[0]):
            rows[-1, s] += end[s]


@inlined_kernel
def _matrix_path(weights, matrix, tiles, features, begin, gold, allowed, margin, scratch, path):
    """As `best_path`, where a matrix has the scores of all transitions."""
    rows, deltas, start = scratch.rows[: gold.shape[0]], scratch.deltas, tiles.start
    for t in range(rows.shape[0]):
        for s in range(rows.shape[1]):
            rows[t, s] = 0
    if tiles.featured[0]:
        part = RowPart(0, 0, tiles.width[0], tiles.merged, 0)
        _score(weights, features, tiles.place, tiles.size, part, begin, rows, scratch.rest)
    _limit(tiles, gold, allowed, margin, rows, 0)
    for s in range(start.shape[0]):
        deltas[0, s] = rows[0, s] + start[s]
    _matrix_steps(deltas, matrix, rows)
    _trace_matrix(deltas, matrix, path)


@kernel
def _tile_path(weights, plain, tiles, features, begin, gold, allowed, margin, scratch, path):
    """As `best_path`, where pairs have features or the order is 2.

    Arrays are taken out of their tuples once: at every token that would cost as much as the
    work."""
    T, S, Q, order = gold.shape[0], tiles.label_of.shape[0], tiles.state.shape[0], tiles.order
    row, first, deltas = scratch.rows[0], scratch.first, scratch.deltas
    repeated, back, state, before = scratch.repeated, scratch.back, tiles.state, tiles.before
    featured, row_begin, width, gram_begin = (
        tiles.featured,
        tiles.row_begin,
        tiles.width,
        tiles.gram_begin,
    )
    steps = tiles.steps
    place, size, merged, repeat = tiles.place, tiles.size, tiles.merged, tiles.repeat
    by_token, pair = featured[order], row_begin[1]
    pairs = row if featured[1] else plain
    arcs = row if by_token else plain
    for t in range(T):
        for n in range(min(t, order) + 1):
            if featured[n]:
                for i in range(row_begin[n], row_begin[n + 1]):
                    row[i] = plain[i]
                part = RowPart(n, row_begin[n], width[n], merged, row_begin[n] - gram_begin[n])
                _score(
                    weights, features, place, size, part, begin + t, scratch.rows[:1], scratch.rest
                )
        _limit(tiles, gold, allowed, margin, scratch.rows[:1], t)
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
            for k in range(steps.shape[0]):
                step = Step(
                    steps[k, 0], steps[k, 1], steps[k, 2], steps[k, 3], steps[k, 4], steps[k, 5]
                )
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
            if t % KEPT == 0:
                _lower(deltas[t])
    if T == 1:
        path[0] = np.argmax(first)
    else:
        _trace(deltas, arcs, back, Nodes(state, before, tiles.middle, steps), order, by_token, path)


@inlined_kernel
def best_path(weights, transitions, tiles, features, begin, gold, allowed, margin, scratch, path):
    """Fill path [T] with the states of the best path; wrong labels get `margin` on top."""
    if transitions.matrix.shape[0] > 0:
        _matrix_path(
            weights,
            transitions.matrix,
            tiles,
            features,
            begin,
            gold,
            allowed,
            margin,
            scratch,
            path,
        )
    else:
        _tile_path(
            weights, transitions.plain, tiles, features, begin, gold, allowed, margin, scratch, path
        )


@kernel
def _gold_rows(weights, tiles, features, begin, t, gold, plain, rows, sizes):
    """Fill rows [3, most^3] with the scores of the states, pairs and triples of the gold labels at
    token t, and sizes [3] with the numbers of states of that label, the one before, and the one
    before that."""
    L, size_of = tiles.first.shape[0] - 1, tiles.size
    weights_of, entries, learns = features.weights_of, features.gram, features.learns
    k, power = np.int64(0), 1
    for n in range(min(t, tiles.order) + 1):
        y = gold[t - n]
        sizes[n] = tiles.size[y]
        k += y * power
        power *= L
        gram = tiles.gram_begin[n] + k
        size, column = size_of[gram], tiles.place[gram] - tiles.row_begin[n]
        for j in range(size):
            rows[n, j] = plain[tiles.place[gram] + j]
        if tiles.featured[n]:
            for i in range(features.ptr[n, begin + t], features.ptr[n, begin + t + 1]):
                v = features.value[i] if features.value.shape[0] > 0 else np.float32(1)
                c = find_cell(
                    weights_of, entries, learns, size_of, features.feature[i], gram, column
                )
                if c >= 0:
                    for j in range(size):
                        rows[n, j] += v * weights[c + j]
    for s in range(sizes[0]):
        if t == 0:
            rows[0, s] += tiles.start[tiles.first[gold[t]] + s]
        if t == gold.shape[0] - 1:
            rows[0, s] += tiles.end[tiles.first[gold[t]] + s]


@kernel
def gold_path(weights, tiles, features, begin, gold, plain, back, path):
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
