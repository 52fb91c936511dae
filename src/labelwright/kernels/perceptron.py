"""Passes of the perceptrons (paper 003, figure 1): best path, best path under the gold labels,
additive update.

With x the features of the gold path less those of the best one, d the number of wrong labels in the
best path, and short = margin * d^power - w x what the gold path lacks, the updates are

    perceptron           w += x
    passive-aggressive   w += min(limit, short / (|x|^2 + damping)) x
    AROW                 w += short / (x V x + damping) V x
                         V  = (V^-1 + diag(x)^2 / damping)^-1

where V is the diagonal matrix of the variances of the weights (Crammer, Dekel, Keshet et al. 2006,
figure 1; Crammer, Kulesza & Dredze 2009, figure 1).

Where latent states share, the weights are w = u + v with a u for every feature and gram
(scoring.tiles), and a v for each state, pair or triple of its tile; u moves by `share` times the
step, v by the rest.  So one state moves by the whole step, the others of its label by `share` of
it, and all of them by nothing where the best path has other states of the gold label: there v alone
moves.  |x|^2 is share |x_u|^2 + (1 - share) |x_v|^2.
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.common import longest_of
from cython.cimports.labelwright.kernels.tile_paths import (
    FeaturesView,
    best_path,
    find_cell,
    gold_path,
    make_scratch,
    right_label,
    transitions_of,
)
from cython.cimports.libc.math import INFINITY, sqrt

# passive-aggressive and AROW updates ignore a shortfall below this share of the margin
NEARLY = 1e-5
# spreads neighbouring cells over the slots of a hash table
SPREAD = 0x9E3779B1


# -- what is read and written ----------------------------------------------------------------------


class DataView:
    """learn.perceptron.TrainingData."""

    def __init__(self, data):
        self.offsets = data.offsets
        self.gold = data.gold
        self.features = FeaturesView(data.features)
        self.most_cells = data.most_cells
        self.sets = data.sets
        self.of_sentences = data.of_sentences
        self.of_tokens = data.of_tokens


class RuleView:
    """learn.perceptron.UpdateRule; wrong labels get `on_top` when the best path is sought."""

    def __init__(self, rule):
        self.margin = rule.margin
        self.passive = rule.passive
        self.limit = rule.limit
        self.damping = rule.damping
        self.power = rule.power
        self.share = rule.share
        self.shared = rule.share > 0
        self.on_top = rule.margin if rule.augmented else 0


class StateView:
    """The weights, sums and variances of a learn.perceptron.Averaged, which passes change."""

    def __init__(self, state):
        self.weights = state.weights
        self.sums = state.sums
        self.variances = state.variances


class Difference:
    """The features that one path has more than another, in a hash table that is emptied after use.

    cell [2 ** b]   -1: free
    value [2 ** b]
    used [2 ** b]   the slots in use, of which there are n
    size [2 ** b]   of the tile of each slot in use; 0: it is a single weight

    With W weights, the u of a tile of features is the cell W + its first weight, that of a tile of
    plain transitions 2 W + its place in a row."""


class Tally:
    """What a pass has seen so far: see `perceptron_pass`."""


# -- the difference of two paths -------------------------------------------------------------------


def _empty_difference(most_cells, shared):
    size = 16
    while size < (8 if shared else 4) * most_cells:
        size *= 2
    difference = Difference()
    difference.cell = np.full(size, -1, np.int64)
    difference.value = np.empty(size, np.float32)
    difference.used = np.empty(size, np.int64)
    difference.size = np.empty(size, np.int64)
    difference.n = 0
    return difference


def _count(difference, mask, cell, v, size):
    """Add v to the difference at this cell."""
    slot = (((cell & 0x7FFFFFFF) * SPREAD) >> 7) & mask
    while difference.cell[slot] != cell:
        if difference.cell[slot] < 0:
            n = difference.n
            difference.cell[slot] = cell
            difference.value[slot] = 0
            difference.used[n] = slot
            difference.size[n] = size
            difference.n = n + 1
            break
        slot = (slot + 1) & mask
    difference.value[slot] += v


def _slots(difference, features, begin, path, other, shared):
    """How many slots the difference of two paths needs, less one: few lie close together in the
    processor's caches."""
    most = 0
    for t in range(path.shape[0]):
        for n in range(min(t + 1, features.ptr.shape[0])):
            if path[t - n] != other[t - n]:
                for m in range(features.ptr.shape[0]):
                    most += features.ptr[m, begin + t + 1] - features.ptr[m, begin + t] + 1
                break
    most *= 4 if shared else 2
    size = 16
    while size < 2 * most:
        size *= 2
    return min(size, difference.cell.shape[0]) - 1


def _count_path(difference, mask, tiles, features, begin, path, other, sign, shared):
    """difference += sign * f(path), except where both paths agree; where states share, of u and
    v."""
    W = features.learns.shape[0]
    for t in range(path.shape[0]):
        same = True
        k = 0
        place = 0
        labels = 1
        width = 1
        for n in range(min(t, tiles.order) + 1):
            s = path[t - n]
            y = tiles.label_of[s]
            same = same and s == other[t - n]
            k += y * labels
            place += (s - tiles.first[y]) * width
            labels *= tiles.n_labels
            width *= tiles.size[y]
            if same:
                continue
            gram = tiles.gram_begin[n] + k
            at = tiles.place[gram]
            if n > 0 and tiles.plain_cell[at + place] >= 0:
                _count(difference, mask, tiles.plain_cell[at + place], sign, 0)
                if shared:
                    _count(difference, mask, 2 * W + at, sign, tiles.size[gram])
            if tiles.featured[n]:
                column = at - tiles.row_begin[n]
                for i in range(features.ptr[n, begin + t], features.ptr[n, begin + t + 1]):
                    v = sign * features.value[i] if features.value.shape[0] > 0 else sign
                    cell = find_cell(features, tiles, features.feature[i], gram, column)
                    if cell >= 0:
                        _count(difference, mask, cell + place, v, 0)
                        if shared:
                            _count(difference, mask, W + cell, v, tiles.size[gram])


# -- the update ------------------------------------------------------------------------------------


def _rate(difference, state, rule, wrong):
    """The size of the update, and by how much the gold path falls short of the best one with the
    margin.

    0 where what is left is rounding; the formulas are at the head of this file."""
    adaptive = state.variances.shape[0] > 0
    required = rule.margin * wrong**rule.power
    short = required
    norm = 0.0
    for j in range(difference.n):
        slot = difference.used[j]
        cell = difference.cell[slot]
        x = difference.value[slot]
        if difference.size[j] > 0:
            norm += rule.share * (x * x)
        else:
            short -= state.weights[cell] * x
            norm += (x * x) * (state.variances[cell] if adaptive else 1 - rule.share)
    if not rule.passive:
        return 1.0, short
    if not norm > 0 or short <= NEARLY * required:
        return 0.0, short
    rate = (short if short > 0 else 0.0) / (norm + rule.damping)
    return rate if rate < rule.limit else rule.limit, short


def _counts(data, tiles, n, best):
    """How much a mistake at sentence n counts: its weight times the mean weight of the tokens with
    wrong labels."""
    weight = 1.0
    if data.of_sentences.shape[0] > 0:
        weight = data.of_sentences[n]
    if data.of_tokens.shape[0] > 0:
        begin = data.offsets[n]
        total = 0.0
        wrong = 0
        for t in range(best.shape[0]):
            label = tiles.label_of[best[t]]
            if not right_label(data.sets, data.gold[begin + t], label, tiles.n_labels):
                total += data.of_tokens[begin + t]
                wrong += 1
        weight *= total / max(wrong, 1)
    return weight


def _move(state, transitions, tiles, taken, cell, change):
    """Change a weight, and its sum `taken` times; those of plain transitions are in
    transitions.plain and, where it is used, in transitions.matrix as well."""
    step = change
    state.weights[cell] += step
    state.sums[cell] += taken * change
    at = cell - tiles.plain_begin
    if at >= 0:
        transitions.plain[tiles.row_of_plain[at]] = state.weights[cell]
        if tiles.by_matrix:
            transitions.matrix[at // tiles.n_states, at % tiles.n_states] = state.weights[cell]


def _apply(difference, rate, rule, taken, state, transitions, tiles):
    """weights += rate * difference (AROW: times the variances, which fall); the difference is
    emptied."""
    W = state.weights.shape[0]
    for j in range(difference.n):
        slot = difference.used[j]
        size = difference.size[j]
        cell = difference.cell[slot]
        x = difference.value[slot]
        change = rate * x * (rule.share if size > 0 else 1 - rule.share)
        difference.cell[slot] = -1
        if state.variances.shape[0] > 0 and rate > 0:
            v = state.variances[cell]
            change *= v
            state.variances[cell] = v / (1 + v * (x * x) / rule.damping)
        if size == 0:
            _move(state, transitions, tiles, taken, cell, change)
        elif change == 0:  # both paths have this label
            continue
        elif cell < 2 * W:  # the tile of a feature: no transitions
            step = change
            first = cell - W
            for c in range(first, first + size):
                state.weights[c] += step
                state.sums[c] += taken * change
        else:
            first = cell - 2 * W
            for i in range(first, first + size):
                if tiles.plain_cell[i] >= 0:
                    _move(state, transitions, tiles, taken, tiles.plain_cell[i], change)
    difference.n = 0


def _paths(weights, transitions, tiles, data, begin, labels, margin, scratch, best, target):
    """Fill the best path and, where its labels are wrong, the best path of the gold labels; returns
    how many are wrong."""
    best_path(
        weights, transitions, tiles, data.features, begin, labels, data.sets, margin, scratch, best
    )
    wrong = 0
    partial = False
    for t in range(labels.shape[0]):
        label = tiles.label_of[best[t]]
        wrong += not right_label(data.sets, labels[t], label, tiles.n_labels)
        partial = partial or labels[t] >= tiles.n_labels
    if wrong > 0 and partial:
        best_path(
            weights, transitions, tiles, data.features, begin, labels, data.sets, -INFINITY,
            scratch, target,
        )  # fmt: skip
    elif wrong > 0 and tiles.merged:
        for t in range(labels.shape[0]):
            target[t] = labels[t]
    elif wrong > 0:
        gold_path(weights, transitions.plain, tiles, data.features, begin, labels, scratch, target)
    return wrong


def _update(
    difference, data, tiles, rule, state, transitions, taken, n, best, target, wrong, tally
):
    """Change the state at a mistake of sentence n."""
    begin = data.offsets[n]
    shared = rule.shared
    mask = _slots(difference, data.features, begin, best, target, shared)
    _count_path(difference, mask, tiles, data.features, begin, target, best, 1, shared)
    _count_path(difference, mask, tiles, data.features, begin, best, target, -1, shared)
    rate, short = _rate(difference, state, rule, wrong)
    rate *= _counts(data, tiles, n, best)
    _apply(difference, rate, rule, taken, state, transitions, tiles)
    tally.mistakes += rate > 0
    tally.loss += short
    tally.errors += cython.cast(cython.double, wrong) / best.shape[0]


# -- passes ----------------------------------------------------------------------------------------


def perceptron_pass(order, data, tiles, rule, state, taken):
    """One pass over the sentences in `order`; the state changes at mistakes only.

    After n sentences the mean of all weight vectors so far is weights - sums / n: sums collects
    each change times the number of sentences before it (`taken` before this pass).  Returns the
    number of sentences that led to an update, the sum of what their best paths score above the gold
    ones (with the margin), and the sum of the shares of wrong labels in the best paths."""
    how, view = RuleView(rule), StateView(state)
    longest = longest_of(order, data.offsets)
    transitions = transitions_of(tiles, view.weights)
    scratch = make_scratch(tiles, longest)
    difference = _empty_difference(data.most_cells, how.shared)
    found = np.empty(longest, np.int64)
    sought = np.empty(longest, np.int64)
    tally = Tally()
    with cython.nogil:
        for i in range(order.shape[0]):
            n = order[i]
            begin = data.offsets[n]
            T = data.offsets[n + 1] - begin
            best = found[:T]
            target = sought[:T]
            wrong = _paths(
                view.weights, transitions, tiles, data, begin,
                data.gold[begin : begin + T], how.on_top, scratch, best, target,
            )  # fmt: skip
            if wrong > 0:
                _update(
                    difference, data, tiles, how, view, transitions, taken + i, n, best,
                    target, wrong, tally,
                )  # fmt: skip
    return tally.mistakes, tally.loss, tally.errors


def find_paths(order, data, tiles, rule, weights, transitions, best, target, wrong):
    """For each sentence i of `order` its best path, that of its gold labels (both at the places of
    its tokens [T]), and the number of wrong labels wrong[i]; nothing is changed, so that threads
    can share the sentences of a mini-batch."""
    how = RuleView(rule)
    scratch = make_scratch(tiles, longest_of(order, data.offsets))
    with cython.nogil:
        for i in range(order.shape[0]):
            a = data.offsets[order[i]]
            b = data.offsets[order[i] + 1]
            wrong[i] = _paths(
                weights, transitions, tiles, data, a, data.gold[a:b], how.on_top,
                scratch, best[a:b], target[a:b],
            )  # fmt: skip


def apply_paths(order, data, tiles, rule, state, transitions, taken, best, target, wrong):
    """The updates of a mini-batch, one sentence after the other; returns the same as
    `perceptron_pass`."""
    how, view = RuleView(rule), StateView(state)
    difference = _empty_difference(data.most_cells, how.shared)
    tally = Tally()
    with cython.nogil:
        for i in range(order.shape[0]):
            if wrong[i] > 0:
                a = data.offsets[order[i]]
                b = data.offsets[order[i] + 1]
                _update(
                    difference, data, tiles, how, view, transitions, taken + i, order[i],
                    best[a:b], target[a:b], wrong[i], tally,
                )  # fmt: skip
    return tally.mistakes, tally.loss, tally.errors


# -- features in tiles (scoring.tiles): how they are numbered, and where their weights lie during
# training


def largest_norm(features, offsets, order):
    """The largest 2-norm that the features of a sentence can have under any labelling of one state
    per label: that of the same label at all tokens, plain transitions included."""
    view = FeaturesView(features)
    count = np.zeros(view.weights_of.shape[0])
    largest = 0.0
    with cython.nogil:
        for i in range(offsets.shape[0] - 1):
            for n in range(order + 1):
                for t in range(offsets[i] + n, offsets[i + 1]):
                    for j in range(view.ptr[n, t], view.ptr[n, t + 1]):
                        f = view.feature[j]
                        count[f] += view.value[j] if view.value.shape[0] > 0 else 1.0
            total = 0.0
            for n in range(order + 1):
                for t in range(offsets[i] + n, offsets[i + 1]):
                    for j in range(view.ptr[n, t], view.ptr[n, t + 1]):
                        f = view.feature[j]
                        total += count[f] * count[f]
                        count[f] = 0
            for n in range(1, order + 1):
                length = max(0, offsets[i + 1] - offsets[i] - n)
                total += length * length
            largest = total if total > largest else largest
    return sqrt(largest)


def flatten(
    keys, key_ptr, key_feature, token_ptr, token_feature, token_value, first, ptr, feature, value
):
    """The features of every token of an Incidence in one list that begins at `first`; returns where
    it ends."""
    n = first
    with cython.nogil:
        for t in range(keys.shape[0]):
            ptr[t] = n
            for g in range(keys.shape[1]):
                k = keys[t, g]
                if k < 0:  # it has fewer keys
                    continue
                for i in range(key_ptr[k], key_ptr[k + 1]):
                    feature[n] = key_feature[i]
                    if value.shape[0] > 0:
                        value[n] = 1
                    n += 1
            for i in range(token_ptr[t], token_ptr[t + 1]):
                feature[n] = token_feature[i]
                if value.shape[0] > 0:
                    value[n] = token_value[i] if token_value.shape[0] > 0 else 1
                n += 1
        ptr[keys.shape[0]] = n
    return n


def renumber(feature, number, dense, first):
    """Number the features from `first` on, dense ones before others, by first appearance, in place;
    number [F] must be -1 at first."""
    with cython.nogil:
        full = first  # the number of the next dense feature, and of the next other
        sparse = first
        for f in range(dense.shape[0]):
            sparse += dense[f]
        for i in range(feature.shape[0]):
            f = feature[i]
            if number[f] < 0:
                number[f] = full if dense[f] else sparse
                full += dense[f]
                sparse += 1 - dense[f]
            feature[i] = number[f]
        for f in range(number.shape[0]):
            if number[f] < 0:
                number[f] = full if dense[f] else sparse
                full += dense[f]
                sparse += 1 - dense[f]


def sort_by_size(ptr, feature, value, weights_of):
    """Sort the features of each token, those with most grams first: loops of similar length follow
    each other, which helps branch prediction."""
    with cython.nogil:
        for t in range(ptr.shape[0] - 1):
            for i in range(ptr[t] + 1, ptr[t + 1]):
                f = feature[i]
                v = value[i] if value.shape[0] > 0 else 1
                j = i
                while j > ptr[t] and weights_of[feature[j - 1], 1] < weights_of[f, 1]:
                    feature[j] = feature[j - 1]
                    if value.shape[0] > 0:
                        value[j] = value[j - 1]
                    j -= 1
                feature[j] = f
                if value.shape[0] > 0:
                    value[j] = v


def _place(ptr, item, begin, place, f, c):
    """Where entry c, one of feature f, lies during training."""
    return -1 - begin + place[item[c]] if begin < 0 else begin + c - ptr[f]


def lay_out(ptr, item, begin, place, packed, laid):
    """Copy the entries of each feature f, packed[ptr[f]:ptr[f+1]], into `laid` from begin[f] on;
    where begin is negative, entry i goes to -1 - begin + place[item[i]]."""
    with cython.nogil:
        for f in range(begin.shape[0]):
            for c in range(ptr[f], ptr[f + 1]):
                laid[_place(ptr, item, begin[f], place, f, c)] = packed[c]


def take_back(ptr, item, begin, place, packed, laid):
    """The inverse of `lay_out`: from `laid` to packed."""
    with cython.nogil:
        for f in range(begin.shape[0]):
            for c in range(ptr[f], ptr[f + 1]):
                packed[c] = laid[_place(ptr, item, begin[f], place, f, c)]
