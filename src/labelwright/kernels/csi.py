"""Overlapping predictions of label n-grams: what they propose, votes over them, and the best labelling among them.

Token t predicts the labels grams[t] of the tokens t-h..t+h, where n = 2h + 1 and -1 means none (outside the sentence).
weights[t, i, j] is the weight of the constraint that the labels i..j of that prediction all hold.  With gain_t the
weight of all constraints that hold and end at t, the best labelling follows from

    best(t, s) = max_c gain_{t+1}(s, c) + best(t+1, s')                   0 at the last token

where a state s is the candidates of the last m = max(n - 1, 1) tokens, written as one number whose last digit is that
of t itself, and s' drops the first of them and takes c in: s' = s mod keep(t+1) * sizes[t+1] + c.
"""

from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels import kernel

TIE = 1e-12  # weights closer than this (times their size) are equal


class StateScratch(NamedTuple):
    """What a search writes for one sentence."""

    window: Any  # [m+1] int32  the labels of the last tokens, the present one last
    first: Any  # [longest + 2] int64  where the states of each token begin, the single one before the sentence at 0
    keep: Any  # [longest] int64  by what a state is divided when the first of its tokens is dropped


@kernel
def propose(table, best, ptr, classes, w, offsets, grams, confidence, weights, domains, sizes):
    """Predicted classes best [T] (rows of table [C, n]) and distributions over classes become, for every token:
    grams [T, n], the confidence [T] of the class, weights [T, n, n] (0 where nothing is predicted), and the candidates
    domains[t, :sizes[t]]: the token's own prediction, then those of its neighbours, the nearest and the left first."""
    n = table.shape[1]
    h = n // 2
    for sentence in range(offsets.shape[0] - 1):
        a, b = offsets[sentence], offsets[sentence + 1]
        for t in range(a, b):
            for k in range(n):
                at = t + k - h
                grams[t, k] = table[best[t], k] if a <= at and at < b else -1
                domains[t, k] = -1
                for j in range(n):
                    weights[t, k, j] = 0.0
            total = 0.0
            for e in range(ptr[t], ptr[t + 1]):
                total += w[e]
            confidence[t] = 0.0
            for e in range(ptr[t], ptr[t + 1]):
                share = w[e] / total if total > 0 else 0.0
                c = classes[e]
                if c == best[t]:
                    confidence[t] += share
                for i in range(n):
                    j = i
                    while j < n and grams[t, j] >= 0 and grams[t, j] == table[c, j]:
                        weights[t, i, j] += share
                        j += 1
        for t in range(a, b):
            size = 0
            for k in range(n):  # 0, -1, 1, -2, 2, ...
                p = t + ((k + 1) // 2) * (-1 if k % 2 == 1 else 1)
                if p < a or p >= b:
                    continue
                label = grams[p, t - p + h]
                known = label < 0
                for i in range(size):
                    known = known or domains[t, i] == label
                if not known:
                    domains[t, size] = label
                    size += 1
            sizes[t] = size


@kernel
def vote(proposals, labels):
    """labels [T]: the candidate that most of the overlapping predictions name; a tie goes to the one that the most
    confident of them names, then to the first."""
    _, grams, confidence, _, domains, sizes, offsets = proposals
    n = grams.shape[1]
    h = n // 2
    for sentence in range(offsets.shape[0] - 1):
        a, b = offsets[sentence], offsets[sentence + 1]
        for t in range(a, b):
            most, surest = 0, 0.0
            for i in range(sizes[t]):
                count, sure = 0, 0.0
                for p in range(max(a, t - h), min(b, t + h + 1)):
                    if grams[p, t - p + h] == domains[t, i]:
                        count += 1
                        sure = max(sure, confidence[p])
                if count > most or (count == most and sure > surest + TIE):
                    most, surest = count, sure
                    labels[t] = domains[t, i]


@kernel
def _gain(grams, weights, a, b, t, window):
    """The weight of all constraints that hold and end at t; window [m+1] has the labels t-m..t."""
    n = grams.shape[1]
    h = n // 2
    last = window.shape[0] - 1
    total = 0.0
    for p in range(max(a, t - h), min(b, t + h + 1)):
        j = t - p + h
        i = j
        while i >= 0 and grams[p, i] >= 0 and grams[p, i] == window[last - (j - i)]:
            total += weights[p, i, j]
            i -= 1
    return total


@kernel
def satisfied(proposals, labels, window, scores):
    """scores [N]: the weight of all constraints that hold under labels [T]; window [m+1] is scratch."""
    _, grams, _, weights, _, _, offsets = proposals
    last = window.shape[0] - 1
    for sentence in range(offsets.shape[0] - 1):
        a, b = offsets[sentence], offsets[sentence + 1]
        scores[sentence] = 0.0
        for t in range(a, b):
            for k in range(min(last, t - a) + 1):
                window[last - k] = labels[t - k]
            scores[sentence] += _gain(grams, weights, a, b, t, window)


@kernel
def sizes_of(proposals, m, states, arcs):
    """The numbers of states and arcs of each sentence [N]; as floats, since they may exceed an integer."""
    sizes, offsets = proposals.sizes, proposals.offsets
    for sentence in range(offsets.shape[0] - 1):
        a, b = offsets[sentence], offsets[sentence + 1]
        states[sentence] = arcs[sentence] = 0.0
        before = 1.0
        for t in range(a, b):
            count = 1.0
            for k in range(max(a, t - m + 1), t + 1):
                count *= sizes[k]
            states[sentence] += count
            arcs[sentence] += before * sizes[t]
            before = count


@kernel
def _lay_out(sizes, a, b, scratch):
    """Number the states of the tokens a:b."""
    window, first, keep = scratch
    m = window.shape[0] - 1
    first[0], first[1] = 0, 1
    for t in range(a, b):
        product = 1
        for k in range(max(a, t - m + 1), t):
            product *= sizes[k]
        keep[t - a] = product
        first[t - a + 2] = first[t - a + 1] + product * sizes[t]


@kernel
def _read_state(domains, sizes, a, t, s, window):
    """Write the labels of the state s of token t - 1 into window [m+1], whose last place is left for t."""
    last = window.shape[0] - 1
    for k in range(1, min(last, t - a) + 1):
        window[last - k] = domains[t - k, s % sizes[t - k]]
        s //= sizes[t - k]


@kernel
def _may(allowed, a, b, t, window):
    """May the last label of window stand at t, after the one before it?  Empty tables permit everything."""
    start, arc, end = allowed
    if start.shape[0] == 0:
        return True
    last = window.shape[0] - 1
    label = window[last]
    follows = start[label] if t == a else arc[window[last - 1], label]
    return follows and (t < b - 1 or end[label])


@kernel
def best_labellings(proposals, begin, stop, allowed, scratch, value, labels, scores):
    """labels [T] of the sentences begin:stop, and scores [N]; minus infinity where no labelling is allowed.

    Of labellings that tie it takes, token by token from the left, the first candidate that attains the best score.
    allowed (start [L], arc [L, L], end [L]) says what may follow what, empty: everything; value has a place for
    every state of a sentence."""
    _, grams, _, weights, domains, sizes, offsets = proposals
    window, first, keep = scratch
    m = window.shape[0] - 1
    for sentence in range(begin, stop):
        a, b = offsets[sentence], offsets[sentence + 1]
        scores[sentence] = 0.0
        if a == b:
            continue
        _lay_out(sizes, a, b, scratch)
        for i in range(first[b - a], first[b - a + 1]):
            value[i] = 0.0
        for t in range(b - 1, a - 1, -1):
            here, following = first[t - a], first[t - a + 1]
            for s in range(following - here):
                _read_state(domains, sizes, a, t, s, window)
                top = -np.inf
                for c in range(sizes[t]):
                    window[m] = domains[t, c]
                    after = value[following + (s % keep[t - a]) * sizes[t] + c]
                    if after > -np.inf and _may(allowed, a, b, t, window):
                        top = max(top, after + _gain(grams, weights, a, b, t, window))
                value[here + s] = top
        best = value[0]
        if best == -np.inf:
            scores[sentence] = best
            continue
        enough = best - TIE * max(1.0, abs(best))
        s, done = 0, 0.0
        for t in range(a, b):
            following = first[t - a + 1]
            _read_state(domains, sizes, a, t, s, window)
            chosen, top, gained = -1, -np.inf, 0.0
            for c in range(sizes[t]):
                window[m] = domains[t, c]
                after = value[following + (s % keep[t - a]) * sizes[t] + c]
                if after == -np.inf or not _may(allowed, a, b, t, window):
                    continue
                gain = _gain(grams, weights, a, b, t, window)
                if done + gain + after > top:
                    chosen, top, gained = c, done + gain + after, gain
                if top >= enough:
                    break
            done += gained
            labels[t] = domains[t, chosen]
            s = (s % keep[t - a]) * sizes[t] + chosen
        scores[sentence] = done


@kernel
def arcs(proposals, a, b, allowed, scratch, source, target, score, label):
    """The labellings of the tokens a:b as the paths of a graph: for every arc its two nodes, its gain (minus infinity
    where it is forbidden) and the label that it chooses [A each]."""
    _, grams, _, weights, domains, sizes, _ = proposals
    window, first, keep = scratch
    m = window.shape[0] - 1
    _lay_out(sizes, a, b, scratch)
    e = 0
    for t in range(a, b):
        here, following = first[t - a], first[t - a + 1]
        for s in range(following - here):
            _read_state(domains, sizes, a, t, s, window)
            for c in range(sizes[t]):
                window[m] = domains[t, c]
                source[e] = here + s
                target[e] = following + (s % keep[t - a]) * sizes[t] + c
                label[e] = domains[t, c]
                score[e] = -np.inf
                if _may(allowed, a, b, t, window):
                    score[e] = _gain(grams, weights, a, b, t, window)
                e += 1
