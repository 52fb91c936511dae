"""Passes of the perceptrons in NumPy: the weights that some sentences use are looked up together, each sentence is then
scored, searched and, at a mistake, updated by a few operations on vectors.

Scores are sums in float64 of weights in float32; the compiled kernels add up in float32.  Where scores of two paths
differ by rounding alone, the two may choose different paths."""

import copy
from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels.perceptron import NEARLY
from labelwright.kernels.vectorised.inference import _first_order_path
from labelwright.kernels.vectorised.tables import _ranges

_TOKENS = 512  # whose weights are looked up together


class _Columns(NamedTuple):
    """The columns of a row in which the weights of each feature count: those of feature f are its weights
    first[f], first[f] + 1, ..., in the columns column[ptr[f]:ptr[f+1]]; -1: nowhere."""

    first: Any  # [F]
    ptr: Any  # [F+1]
    column: Any
    learns: Any  # False where a dense feature has no such gram: its weight stays 0


def _columns_of(features, tiles):
    """The columns of all features.  Dense features have every column of their part of a row."""
    weights_of = features.weights_of.astype(np.int64)
    n_grams, begin = weights_of[:, 1], weights_of[:, 2]
    gram = np.concatenate([features.gram.astype(np.int64), weights_of[:, 0]])  # a single gram is named by itself
    first = np.where(n_grams == 1, len(features.gram) + np.arange(len(weights_of)), weights_of[:, 0])
    dense = begin < 0
    grams = gram[_ranges(first[~dense], n_grams[~dense])]
    sizes = tiles.size[grams]
    place = np.where(tiles.place[grams] < 0, -1 - int(tiles.row_begin[-1]), tiles.place[grams])
    of_gram = np.maximum(_ranges(place, sizes), -1)
    n_sparse = np.zeros(len(weights_of), np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    n_sparse[~dense] = np.diff(ends[np.concatenate([[0], np.cumsum(n_grams[~dense])])])
    any_gram = gram[np.where(n_grams > 0, first, 0)] if len(gram) else np.zeros(len(first), np.int64)
    part = np.searchsorted(tiles.gram_begin, any_gram, side="right") - 1  # states, pairs or triples
    n_cells = np.where(dense, tiles.width[part], n_sparse)
    ptr = np.concatenate([[0], np.cumsum(n_cells)])
    column = np.empty(int(ptr[-1]), np.int64)
    column[_ranges(ptr[:-1][~dense], n_sparse[~dense])] = of_gram
    column[_ranges(ptr[:-1][dense], n_cells[dense])] = _ranges(tiles.row_begin[part[dense]], n_cells[dense])
    learns = np.ones(len(column), np.bool_)
    learns[_ranges(ptr[:-1][dense], n_cells[dense])] = False
    of_dense = tiles.place[gram[_ranges(first[dense], n_grams[dense])]]
    learns[of_dense + np.repeat(ptr[:-1][dense] - tiles.row_begin[part[dense]], n_grams[dense])] = True
    return _Columns(np.where(dense, -1 - begin, begin), ptr, column, learns)


class _Used(NamedTuple):
    """The weights that some sentences use on states, pairs or triples."""

    cell: Any
    place: Any  # where they count in the rows of their sentence [T * width]
    value: Any  # of their features; None where all are one
    learns: Any  # see _Columns
    ptr: Any  # [n+1]  of sentence i: ptr[i]:ptr[i+1]

    def of(self, i):
        here = slice(self.ptr[i], self.ptr[i + 1])
        return self.cell[here], self.place[here], None if self.value is None else self.value[here], self.learns[here]


class _Pass:
    """What a pass needs of the tiles: rows of scores as arcs between nodes, and the columns of a path."""

    def __init__(self, tiles, features, weights):
        self.tiles, self.features, self.columns = tiles, features, _columns_of(features, tiles)
        self.order, self.S, self.Q = tiles.order, len(tiles.label_of), len(tiles.state)
        self.begin, self.width = tiles.row_begin.tolist(), np.diff(tiles.row_begin).tolist()
        self.featured = tiles.featured[: self.order + 1].tolist()
        known = tiles.plain_cell >= 0
        self.plain = tiles.fence.astype(np.float64)
        self.plain[known] += weights[tiles.plain_cell[known]]
        self.used: list[_Used | None] = [None] * 3
        self.steps = tiles.steps.tolist()
        if self.order == 1:  # the column of each pair of states; one behind the last where there is none
            self.pairs = np.full((self.S, self.S), self.begin[2])
            for source, target, at, R, _, U in self.steps:
                self.pairs[source : source + R, target : target + U] = at + np.arange(R * U).reshape(R, U)

    def look_up(self, begins, ends):
        """Find the weights of the sentences begins[i]:ends[i]."""
        for n, has_features in enumerate(self.featured):
            if has_features:
                self.used[n] = self._used(n, np.minimum(begins + n, ends), ends)

    def _used(self, n, begins, ends):
        ptr, feature, value = self.features.ptr[n], self.features.feature, self.features.value
        lengths = ends - begins
        token = _ranges(begins, lengths)
        sizes = ptr[token + 1] - ptr[token]
        entry = _ranges(ptr[token], sizes)
        f = feature[entry]
        n_cells = self.columns.ptr[f + 1] - self.columns.ptr[f]
        cell = _ranges(self.columns.first[f], n_cells)
        number = _ranges(self.columns.ptr[f], n_cells)
        column, learns = self.columns.column[number], self.columns.learns[number]
        row = _ranges(np.full(len(lengths), n), lengths)
        place = np.repeat(np.repeat(row, sizes) * self.width[n], n_cells) + column - self.begin[n]
        values = np.repeat(value[entry].astype(np.float64), n_cells) if len(value) else None
        of_features = np.concatenate([[0], np.cumsum(n_cells)])
        of_tokens = np.concatenate([[0], np.cumsum(sizes)])
        starts = of_features[of_tokens[np.concatenate([[0], np.cumsum(lengths)])]]
        if (column < 0).any():  # forbidden grams
            kept = column >= 0
            starts = np.concatenate([[0], np.cumsum(kept)])[starts]
            cell, place, learns = cell[kept], place[kept], learns[kept]
            values = None if values is None else values[kept]
        return _Used(cell, place, values, learns, starts)

    def rows(self, i, T, weights):
        """The scores of sentence i on states, pairs and triples [T or 1, width]."""
        rows = []
        for n in range(self.order + 1):
            plain = self.plain[self.begin[n] : self.begin[n + 1]]
            used = self.used[n]
            if used is None:
                rows.append(plain[None])
                continue
            cell, place, value, _ = used.of(i)
            amount = weights[cell] if value is None else weights[cell] * value
            rows.append(np.bincount(place, amount, T * self.width[n]).reshape(T, -1) + plain)
        return rows

    def best_path(self, rows, state):
        """The states of the best path, given rows of scores and the scores of all states [T, S]."""
        if len(state) == 1:
            return state[0].argmax()[None]
        return self._first_order(rows[1], state) if self.order == 1 else self._second_order(rows, state)

    def _first_order(self, row, state):
        scores = np.concatenate([row, np.full((len(row), 1), -np.inf)], axis=1)
        path = np.empty(len(state), np.int64)
        _first_order_path(state, scores.take(self.pairs - self.begin[1], axis=1), path)
        return path

    def _second_order(self, rows, state):
        tiles, T = self.tiles, len(state)
        pairs, triples = (list(row) * T if len(row) == 1 else row for row in rows[1:])
        of_node, before = tiles.state, tiles.before
        delta = state[0][before] + pairs[1][: self.Q] + state[1][of_node]
        back = np.zeros((T, self.Q), np.int64)
        for t in range(2, T):
            reached = np.full(self.Q, -np.inf)
            for source, target, at, R, M, U in self.steps:
                at -= self.begin[2]
                v = delta[source : source + R * M].reshape(R, M, 1) + triples[t][at : at + R * M * U].reshape(R, M, U)
                chosen = v.argmax(axis=0)
                best = np.take_along_axis(v, chosen[None], axis=0).reshape(-1)
                here = slice(target, target + M * U)
                better = best > reached[here]
                reached[here] = np.where(better, best, reached[here])
                nodes = (source + chosen * M + np.arange(M)[:, None]).reshape(-1)
                back[t, here] = np.where(better, nodes, back[t, here])
            delta = reached + state[t][of_node] + pairs[t][: self.Q]
        path = np.empty(T, np.int64)
        q = int(delta.argmax())
        for t in range(T - 1, 0, -1):
            path[t], path[t - 1] = of_node[q], before[q]
            q = int(back[t, q])
        return path

    def columns_of(self, path):
        """The columns of a path: of its states [T], pairs [T - 1] and triples [T - 2]."""
        tiles, L = self.tiles, len(self.tiles.first) - 1
        label = tiles.label_of[path]
        slot, size = path - tiles.first[label], tiles.size[label]
        columns = []
        k, place, labels, width = 0, 0, 1, 1
        for n in range(min(self.order, len(path) - 1) + 1):
            here = slice(0, len(path) - n)
            later = slice(1, None) if n else slice(None)
            k = (k[later] if n else 0) + label[here] * labels
            place = (place[later] if n else 0) + slot[here] * (width[later] if n else 1)
            width = (width[later] if n else 1) * size[here]
            labels *= L
            columns.append(tiles.place[tiles.gram_begin[n] + k] + place)
        return columns

    def difference(self, i, T, gold, best):
        """The weights of the features that the gold path has more than the best one, and how much more."""
        cells, amounts = [], []
        for n, (right, wrong) in enumerate(zip(self.columns_of(gold), self.columns_of(best), strict=True)):
            t = np.flatnonzero(right != wrong)
            used = self.used[n]
            if used is not None:
                d = np.zeros((T, self.width[n]))
                d[t + n, right[t] - self.begin[n]] = 1
                d[t + n, wrong[t] - self.begin[n]] = -1
                cell, place, value, learns = used.of(i)
                amount = d.reshape(-1)[place]
                some = np.flatnonzero(amount * learns)
                cells.append(cell[some])
                amounts.append(amount[some] if value is None else amount[some] * value[some])
            if n > 0:
                for columns, sign in ((right[t], 1.0), (wrong[t], -1.0)):
                    cell = self.tiles.plain_cell[columns]
                    cells.append(cell[cell >= 0])
                    amounts.append(np.full(len(cells[-1]), sign))
        distinct, where = np.unique(np.concatenate(cells), return_inverse=True)
        return distinct, np.bincount(where.reshape(-1), np.concatenate(amounts), len(distinct))

    def paths(self, i, labels, sets, weights, margin):
        """The best path of sentence i, the best path of its gold labels (the former, where no label is wrong), and how
        many labels of the former are wrong."""
        tiles, T = self.tiles, len(labels)
        rows = self.rows(i, T, weights)
        scores = np.broadcast_to(rows[0][:, : self.S], (T, self.S)).copy()
        scores[0] += tiles.start
        scores[-1] += tiles.end
        right = _right(tiles, labels, sets)
        best = self.best_path(rows, np.where(right, scores, scores + margin) if margin > 0 else scores)
        wrong = int((~right[np.arange(T), best]).sum())
        if wrong == 0:
            return best, best, 0
        single = tiles.merged and labels.max() < len(tiles.first) - 1
        gold = labels if single else self.best_path(rows, np.where(right, scores, -np.inf))
        return best, gold, wrong

    def update(self, i, T, gold, best, wrong, rule, state, taken, counts):
        """Change the state at a mistake, which counts so much; returns the size of the update and by how much the gold
        path falls short."""
        cell, x = self.difference(i, T, gold, best)
        rate, short = _rate(cell, x, state, rule, wrong)
        rate *= counts
        _apply(cell, x, rate, rule.damping, taken, state)
        plain = cell[np.searchsorted(cell, self.tiles.plain_begin) :]
        self.plain[self.tiles.row_of_plain[plain - self.tiles.plain_begin]] = state.weights[plain]
        return rate, short

    def looked_up(self, order, offsets):
        """The sentences in `order` one by one, by their place in it, their number among those whose weights are looked
        up together, and their tokens a:b."""
        lengths, begin = np.diff(offsets)[order], 0
        while begin < len(order):
            end = begin + max(1, int(np.searchsorted(np.cumsum(lengths[begin : begin + _TOKENS]), _TOKENS)))
            some = order[begin:end]
            self.look_up(offsets[some], offsets[some + 1])
            for i, n in enumerate(some.tolist()):
                yield begin + i, i, int(offsets[n]), int(offsets[n + 1])
            begin = end

    def of_thread(self):
        """The same pass for one of several threads, which looks up sentences of its own."""
        mine = copy.copy(self)
        mine.used = [None] * 3
        return mine


def _right(tiles, labels, sets):
    """The states of the right labels [T, S]: a label, or one of the set labels[t] - L."""
    L = len(tiles.first) - 1
    right = tiles.label_of == labels[:, None]
    some = np.flatnonzero(labels >= L)
    if len(some):
        right[some] = sets[labels[some] - L][:, tiles.label_of]
    return right


def _counts(data, tiles, n, best):
    """How much a mistake at sentence n counts: its weight times the mean weight of the tokens with wrong labels."""
    a, b = data.offsets[n], data.offsets[n + 1]
    weight = float(data.of_sentences[n]) if len(data.of_sentences) else 1.0
    if len(data.of_tokens):
        wrong = ~_right(tiles, data.gold[a:b], data.sets)[np.arange(b - a), best]
        weight *= float(data.of_tokens[a:b][wrong].mean())
    return weight


def _rate(cell, x, state, rule, wrong):
    """The size of the update, and by how much the gold path falls short of the best one with the margin."""
    required = rule.margin * float(wrong) ** rule.power
    short = required - float(state.weights[cell].astype(np.float64) @ x)
    if not rule.passive:
        return 1.0, short
    norm = float((x**2 * state.variances[cell] if len(state.variances) else x**2).sum())
    if not norm > 0 or short <= NEARLY * required:
        return 0.0, short
    return min(rule.limit, max(short, 0.0) / (norm + rule.damping)), short


def _apply(cell, x, rate, damping, taken, state):
    """weights += rate * x (AROW: times the variances, which fall), sums likewise `taken` times."""
    change = rate * x
    if len(state.variances) and rate > 0:
        v = state.variances[cell].astype(np.float64)
        change *= v
        state.variances[cell] = v / (1 + v * x**2 / damping)
    state.weights[cell] += change.astype(np.float32)
    state.sums[cell] += taken * change


def _margin(rule):
    return np.float32(rule.margin if rule.augmented else 0.0)


def perceptron_pass(order, data, tiles, rule, state, taken):
    """One pass over the sentences in `order`; the state changes at mistakes only.

    Returns the number of sentences that led to an update, the sum of what their best paths score above the gold ones
    (with the margin), and the sum of the shares of wrong labels in the best paths."""
    run = _Pass(tiles, data.features, state.weights)
    mistakes, loss, errors = 0, 0.0, 0.0
    for at, i, a, b in run.looked_up(order, data.offsets):
        best, gold, wrong = run.paths(i, data.gold[a:b], data.sets, state.weights, _margin(rule))
        if wrong:
            counts = _counts(data, tiles, order[at], best)
            rate, short = run.update(i, b - a, gold, best, wrong, rule, state, taken + at, counts)
            mistakes, loss, errors = mistakes + (rate > 0), loss + short, errors + wrong / (b - a)
    return mistakes, loss, errors


def transitions_of(data, tiles, weights):
    """The scores of plain transitions by these weights, for `find_paths` and `apply_paths` on these data."""
    return _Pass(tiles, data.features, weights)


def find_paths(order, data, tiles, rule, weights, transitions, best, target, wrong):
    """For each sentence i of `order` its best path, that of its gold labels (both at the places of its tokens [T]), and
    the number of wrong labels wrong[i]."""
    run = transitions.of_thread()
    for at, i, a, b in run.looked_up(order, data.offsets):
        best[a:b], target[a:b], wrong[at] = run.paths(i, data.gold[a:b], data.sets, weights, _margin(rule))


def apply_paths(order, data, tiles, rule, state, transitions, taken, best, target, wrong):
    """The updates of a mini-batch, one sentence after the other; returns the same as `perceptron_pass`."""
    mistakes, loss, errors = 0, 0.0, 0.0
    for at, i, a, b in transitions.looked_up(order, data.offsets):
        if wrong[at]:
            counts, paths = _counts(data, tiles, order[at], best[a:b]), (target[a:b], best[a:b])
            rate, short = transitions.update(i, b - a, *paths, wrong[at], rule, state, taken + at, counts)
            mistakes, loss, errors = mistakes + (rate > 0), loss + short, errors + wrong[at] / (b - a)
    return mistakes, loss, errors
