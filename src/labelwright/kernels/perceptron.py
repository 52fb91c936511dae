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

from typing import NamedTuple

import numpy as np

from labelwright.kernels import inlined_kernel, kernel
from labelwright.kernels.common import longest_of
from labelwright.kernels.tile_paths import (
    Transitions,
    best_path,
    find_cell,
    gold_path,
    make_scratch,
    matrix_of,
    plain_scores,
    right_label,
)

# passive-aggressive and AROW updates ignore a shortfall below this share of the margin
NEARLY = 1e-5


class Features(NamedTuple):
    """The features of each token, numbered by first appearance, and where the weights of each
    feature lie: a tile for each of its grams, one after the other.

    Where every label has one state, features of many grams have a weight for every gram (dense):
    there `weights_of` has -1 - the place where the weights begin.  Dense features have the first
    numbers and come first at each token, and their weights lie in the order of their numbers: those
    of feature f begin at (f - first) * width + place."""

    ptr: np.ndarray  # [3, T+1]
    feature: np.ndarray  # features of token t on n labels before it: feature[ptr[n, t]:ptr[n, t+1]]
    value: np.ndarray  # their values; empty when all are one
    # [F, 4]  place of the first gram (a single gram itself), number of grams, first weight, 0
    weights_of: np.ndarray
    gram: np.ndarray  # [E]  grams of each feature, sorted
    # [3, 3]  of n labels before: the first feature, the first that is not dense, the first place
    dense: np.ndarray
    learns: np.ndarray  # [W]  False where a dense feature has no such gram: its weight stays 0


class TrainingData(NamedTuple):
    """The training data of a run."""

    offsets: np.ndarray  # [N+1]
    gold: np.ndarray  # [T]  labels, or L + k: one of the labels of set k
    features: Features
    most_cells: int  # of a sentence
    sets: np.ndarray  # [K, L]
    of_sentences: np.ndarray  # [N]  their updates are multiplied by this; [0]: by 1
    # [T]  and by the mean of this over the tokens with wrong labels; [0]: by 1
    of_tokens: np.ndarray


class UpdateRule(NamedTuple):
    """The update at a mistake."""

    margin: float  # by which the gold path must win: this times (number of wrong labels) ** power
    passive: bool  # passive-aggressive or AROW: only as far as needed, and no further than
    limit: float
    damping: float = 0.0  # added to the squared norm of the difference: PA-II and AROW
    power: float = 1.0
    augmented: bool = True  # the best path is the one with the margin on top
    variance: float = 0.0  # AROW: of every weight at first; 0: weights have none
    share: float = 0.0  # of a step, which all latent states of a label take; not with AROW


class RunState(NamedTuple):
    """What a pass changes."""

    weights: np.ndarray  # [W] float32
    sums: np.ndarray  # [W] float64  each change times the number of sentences before it
    variances: np.ndarray  # [W] float32; [0]: none


class Difference(NamedTuple):
    """The features that one path has more than another, in a hash table that is emptied after use.

    With W weights, the u of a tile of features is the cell W + its first weight, that of a tile of
    plain transitions 2 W + its place in a row."""

    cell: np.ndarray  # [2 ** b]  -1: free
    value: np.ndarray  # [2 ** b]
    used: np.ndarray  # [2 ** b]  slots in use
    size: np.ndarray  # [2 ** b]  of the tile of each slot in use; 0: it is a single weight
    n: np.ndarray  # [1]


@inlined_kernel
def _count(difference, n, mask, cell, v, size):
    """Add v to the difference at this cell; returns the number of slots in use, of which there were
    n."""
    cells, values = difference.cell, difference.value
    slot = ((cell * 0x9E3779B1) >> 7) & mask
    while cells[slot] != cell:
        if cells[slot] < 0:
            cells[slot], values[slot], difference.used[n], difference.size[n] = cell, 0, slot, size
            n += 1
            break
        slot = (slot + 1) & mask
    values[slot] += v
    return n


@kernel
def _slots(difference, features, begin, path, other, shared):
    """How many slots the difference of two paths needs, less one: few lie close together in the
    processor's caches."""
    ptr, most = features.ptr, np.int64(0)
    for t in range(path.shape[0]):
        for n in range(min(t + 1, ptr.shape[0])):
            if path[t - n] != other[t - n]:
                for m in range(ptr.shape[0]):
                    most += 2 * (1 + shared) * (ptr[m, begin + t + 1] - ptr[m, begin + t] + 1)
                break
    size = 16
    while size < 2 * most:
        size *= 2
    return min(size, difference.cell.shape[0]) - 1


@kernel
def _count_path(difference, mask, tiles, features, begin, path, other, sign, shared):
    """difference += sign * f(path), except where both paths agree; where states share, of u and
    v."""
    n_used, W = difference.n[0], features.learns.shape[0]
    ptr, feature, value, weights_of = (
        features.ptr,
        features.feature,
        features.value,
        features.weights_of,
    )
    entries, learns, size, first, label_of = (
        features.gram,
        features.learns,
        tiles.size,
        tiles.first,
        tiles.label_of,
    )
    place_of, plain_cell, row_begin = tiles.place, tiles.plain_cell, tiles.row_begin
    featured, gram_begin, order = tiles.featured, tiles.gram_begin, tiles.order
    L = first.shape[0] - 1
    for t in range(path.shape[0]):
        same = True
        k, place, labels, width = np.int64(0), np.int64(0), 1, np.int64(1)
        for n in range(min(t, order) + 1):
            s = path[t - n]
            y = label_of[s]
            same = same and s == other[t - n]
            k += y * labels
            place += (s - first[y]) * width
            labels, width = labels * L, width * size[y]
            if same:
                continue
            gram = gram_begin[n] + k
            at = place_of[gram]
            if n > 0 and plain_cell[at + place] >= 0:
                n_used = _count(difference, n_used, mask, plain_cell[at + place], sign, 0)
                if shared:
                    n_used = _count(difference, n_used, mask, 2 * W + at, sign, size[gram])
            if featured[n]:
                for i in range(ptr[n, begin + t], ptr[n, begin + t + 1]):
                    v = value[i] if value.shape[0] > 0 else np.float32(1)
                    c = find_cell(
                        weights_of, entries, learns, size, feature[i], gram, at - row_begin[n]
                    )
                    if c >= 0:
                        n_used = _count(difference, n_used, mask, c + place, sign * v, 0)
                        if shared:
                            n_used = _count(difference, n_used, mask, W + c, sign * v, size[gram])
    difference.n[0] = n_used


@kernel
def _empty_difference(most_cells, rule):
    size = 16
    while size < (8 if rule.share > 0 else 4) * most_cells:
        size *= 2
    return Difference(
        np.full(size, -1, np.int64),
        np.empty(size, np.float32),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.zeros(1, np.int64),
    )


@kernel
def _rate(difference, state, rule, wrong):
    """The size of the update, and by how much the gold path falls short of the best one with the
    margin.

    0 where what is left is rounding; the formulas are at the head of this file."""
    weights, variances = state.weights, state.variances
    cells, values, used = difference.cell, difference.value, difference.used
    adaptive = variances.shape[0] > 0
    required = rule.margin * np.float64(wrong) ** rule.power
    short, norm = required, 0.0
    for j in range(difference.n[0]):
        cell, x = cells[used[j]], np.float64(values[used[j]])
        if difference.size[j] > 0:
            norm += rule.share * x**2
        else:
            short -= weights[cell] * x
            norm += x**2 * (variances[cell] if adaptive else 1 - rule.share)
    if not rule.passive:
        return 1.0, short
    if not norm > 0 or short <= NEARLY * required:
        return 0.0, short
    return min(rule.limit, max(short, 0.0) / (norm + rule.damping)), short


@inlined_kernel
def _counts(data, tiles, n, best):
    """How much a mistake at sentence n counts: its weight times the mean weight of the tokens with
    wrong labels."""
    weight = np.float64(1)
    if data.of_sentences.shape[0] > 0:
        weight = np.float64(data.of_sentences[n])
    if data.of_tokens.shape[0] > 0:
        begin, total, wrong = data.offsets[n], 0.0, 0
        for t in range(best.shape[0]):
            if not right_label(data.sets, data.gold[begin + t], tiles.label_of[best[t]], tiles):
                total += data.of_tokens[begin + t]
                wrong += 1
        weight *= total / max(wrong, 1)
    return weight


@inlined_kernel
def _move(state, transitions, tiles, taken, cell, change):
    """Change a weight, and its sum `taken` times; those of plain transitions are in
    transitions.plain and, where it is used, in transitions.matrix as well."""
    state.weights[cell] += np.float32(change)
    state.sums[cell] += taken * change
    at = cell - tiles.plain_begin
    if at >= 0:
        transitions.plain[tiles.row_of_plain[at]] = state.weights[cell]
        if transitions.matrix.shape[0] > 0:
            transitions.matrix[divmod(at, tiles.label_of.shape[0])] = state.weights[cell]


@kernel
def _apply(difference, rate, rule, taken, state, transitions, tiles):
    """weights += rate * difference (AROW: times the variances, which fall); the difference is
    emptied."""
    weights, sums, variances, W = state.weights, state.sums, state.variances, state.weights.shape[0]
    cells, values, used = difference.cell, difference.value, difference.used
    for j in range(difference.n[0]):
        slot, size = used[j], difference.size[j]
        cell, change = (
            cells[slot],
            rate * values[slot] * (rule.share if size > 0 else 1 - rule.share),
        )
        cells[slot] = -1
        if variances.shape[0] > 0 and rate > 0:
            v, x = np.float64(variances[cell]), np.float64(values[slot])
            change *= v
            variances[cell] = v / (1 + v * x**2 / rule.damping)
        if size == 0:
            _move(state, transitions, tiles, taken, cell, change)
        elif change != 0 and cell < 2 * W:  # 0 where both paths have this label
            for c in range(cell - W, cell - W + size):  # the tile of a feature: no transitions
                weights[c] += np.float32(change)
                sums[c] += taken * change
        elif change != 0:
            for i in range(cell - 2 * W, cell - 2 * W + size):
                if tiles.plain_cell[i] >= 0:
                    _move(state, transitions, tiles, taken, tiles.plain_cell[i], change)
    difference.n[0] = 0


@inlined_kernel
def _paths(
    weights, transitions, tiles, features, begin, labels, sets, margin, scratch, best, target
):
    """Fill the best path and, where its labels are wrong, the best path of the gold labels; returns
    how many are wrong."""
    best_path(weights, transitions, tiles, features, begin, labels, sets, margin, scratch, best)
    wrong, partial, L = 0, False, tiles.first.shape[0] - 1
    for t in range(labels.shape[0]):
        wrong += not right_label(sets, labels[t], tiles.label_of[best[t]], tiles)
        partial = partial or labels[t] >= L
    if wrong > 0 and partial:
        best_path(
            weights,
            transitions,
            tiles,
            features,
            begin,
            labels,
            sets,
            np.float32(-np.inf),
            scratch,
            target,
        )
    elif wrong > 0 and tiles.merged:
        for t in range(labels.shape[0]):
            target[t] = labels[t]
    elif wrong > 0:
        gold_path(weights, tiles, features, begin, labels, transitions.plain, scratch.back, target)
    return wrong


@inlined_kernel
def _update(difference, data, tiles, rule, state, transitions, taken, n, best, target, wrong):
    """Change the state at a mistake of sentence n; returns the size of the update and by how much
    the gold path falls short."""
    begin, shared = data.offsets[n], rule.share > 0
    mask = _slots(difference, data.features, begin, best, target, shared)
    _count_path(difference, mask, tiles, data.features, begin, target, best, np.float32(1), shared)
    _count_path(difference, mask, tiles, data.features, begin, best, target, np.float32(-1), shared)
    rate, short = _rate(difference, state, rule, wrong)
    rate *= _counts(data, tiles, n, best)
    _apply(difference, rate, rule, taken, state, transitions, tiles)
    return rate, short


@kernel
def transitions_of(data, tiles, weights):
    """The scores of plain transitions by these weights, for `find_paths` and `apply_paths` on these
    data."""
    plain = plain_scores(tiles, weights)
    return Transitions(plain, matrix_of(tiles, plain))


@kernel
def perceptron_pass(order, data, tiles, rule, state, taken):
    """One pass over the sentences in `order`; the state changes at mistakes only.

    After n sentences the mean of all weight vectors so far is weights - sums / n: sums collects
    each change times the number of sentences before it (`taken` before this pass).  Returns the
    number of sentences that led to an update, the sum of what their best paths score above the gold
    ones (with the margin), and the sum of the shares of wrong labels in the best paths."""
    offsets, gold, weights = data.offsets, data.gold, state.weights
    longest = longest_of(order, offsets)
    transitions, scratch = transitions_of(data, tiles, weights), make_scratch(tiles, longest)
    difference = _empty_difference(data.most_cells, rule)
    found, sought = np.empty(longest, np.int64), np.empty(longest, np.int64)
    margin = np.float32(rule.margin if rule.augmented else 0.0)
    mistakes, loss, errors = 0, 0.0, 0.0
    for i in range(order.shape[0]):
        begin, T = offsets[order[i]], offsets[order[i] + 1] - offsets[order[i]]
        labels, target, best = gold[begin : begin + T], sought[:T], found[:T]
        wrong = _paths(
            weights, transitions, tiles, data.features, begin, labels, data.sets, margin, scratch,
            best, target,
        )  # fmt: skip
        if wrong > 0:
            rate, short = _update(
                difference, data, tiles, rule, state, transitions, taken + i, order[i],
                best, target, wrong,
            )  # fmt: skip
            mistakes, loss, errors = mistakes + (rate > 0), loss + short, errors + wrong / T
    return mistakes, loss, errors


@kernel
def find_paths(order, data, tiles, rule, weights, transitions, best, target, wrong):
    """For each sentence i of `order` its best path, that of its gold labels (both at the places of
    its tokens [T]), and the number of wrong labels wrong[i]; nothing is changed, so that threads
    can share the sentences of a mini-batch."""
    offsets = data.offsets
    scratch = make_scratch(tiles, longest_of(order, offsets))
    margin = np.float32(rule.margin if rule.augmented else 0.0)
    for i in range(order.shape[0]):
        a, b = offsets[order[i]], offsets[order[i] + 1]
        wrong[i] = _paths(
            weights, transitions, tiles, data.features, a, data.gold[a:b], data.sets, margin,
            scratch, best[a:b], target[a:b],
        )  # fmt: skip


@kernel
def apply_paths(order, data, tiles, rule, state, transitions, taken, best, target, wrong):
    """The updates of a mini-batch, one sentence after the other; returns the same as
    `perceptron_pass`."""
    offsets = data.offsets
    difference = _empty_difference(data.most_cells, rule)
    mistakes, loss, errors = 0, 0.0, 0.0
    for i in range(order.shape[0]):
        a, b = offsets[order[i]], offsets[order[i] + 1]
        if wrong[i] > 0:
            rate, short = _update(
                difference, data, tiles, rule, state, transitions, taken + i, order[i],
                best[a:b], target[a:b], wrong[i],
            )  # fmt: skip
            mistakes, loss, errors = (
                mistakes + (rate > 0),
                loss + short,
                errors + wrong[i] / (b - a),
            )
    return mistakes, loss, errors


# -- features in tiles (scoring.tiles): how they are numbered, and where their weights lie during
# training


@kernel
def largest_norm(features, offsets, order):
    """The largest 2-norm that the features of a sentence can have under any labelling of one state
    per label: that of the same label at all tokens, plain transitions included."""
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
    """The features of every token of an Incidence in one list that begins at `first`; returns where
    it ends."""
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
def renumber(feature, number, dense, first):
    """Number the features from `first` on, dense ones before others, by first appearance, in place;
    number [F] must be -1 at first."""
    # number of the next feature: not dense, dense
    following = np.array([first + dense.sum(), first])
    for i in range(feature.shape[0]):
        f = feature[i]
        if number[f] < 0:
            number[f] = following[np.int64(dense[f])]
            following[np.int64(dense[f])] += 1
        feature[i] = number[f]
    for f in range(number.shape[0]):
        if number[f] < 0:
            number[f] = following[np.int64(dense[f])]
            following[np.int64(dense[f])] += 1


@kernel
def sort_by_size(ptr, feature, value, weights_of):
    """Sort the features of each token, those with most grams first: loops of similar length follow
    each other, which helps branch prediction."""
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
    """Copy the entries of each feature f, packed[ptr[f]:ptr[f+1]], into `laid` from begin[f] on, or
    (`back`) from there to packed; where begin is negative, entry i is at -1 - begin +
    place[item[i]]."""
    for f in range(begin.shape[0]):
        a = begin[f]
        for c in range(ptr[f], ptr[f + 1]):
            at = -1 - a + place[item[c]] if a < 0 else a + c - ptr[f]
            if back:
                packed[c] = laid[at]
            else:
                laid[at] = packed[c]
