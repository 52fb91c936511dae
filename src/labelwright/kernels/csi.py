"""The best labelling among those that overlapping predictions of label n-grams propose.

Token t predicts the labels grams[t] of the tokens t-h..t+h, where n = 2h + 1 and -1 means none
(outside the sentence). weights[t, i, j] is the weight of the constraint that the labels i..j of
that prediction all hold.  With gain_t the weight of all constraints that hold and end at t, the
best labelling follows from

    best(t, s) = max_c gain_{t+1}(s, c) + best(t+1, s')                   0 at the last token

where a state s is the candidates of the last m = max(n - 1, 1) tokens, written as one number whose
last digit is that of t itself, and s' drops the first of them and takes c in: s' = s mod keep(t+1)
* sizes[t+1] + c.

One sentence is the tokens a:b.  Its states are numbered token by token: those before token t begin
at first[t - a] (before the sentence there is one), and keep[t - a] is by what a state is divided
when the first of its tokens is dropped.  window [m+1] has the labels of the tokens t-m..t.
"""

import cython
import numpy as np
from cython.cimports.libc.math import INFINITY, fabs

TIE = 1e-12  # weights closer than this (times their size) are equal


class ProposalsView:
    """structures.proposals.Proposals."""

    def __init__(self, proposals):
        self.grams = proposals.grams
        self.weights = proposals.weights
        self.domains = proposals.domains
        self.sizes = proposals.sizes
        self.offsets = proposals.offsets


class AllowedView:
    """corpus.schemes.Allowed."""

    def __init__(self, allowed):
        self.start, self.arc, self.end = allowed


def best_labellings(proposals, begin, stop, allowed, value, labels, scores):
    """labels [T] of the sentences begin:stop, and scores [N]; minus infinity where no labelling is
    allowed.

    Of labellings that tie it takes, token by token from the left, the first candidate that attains
    the best score. allowed (start [L], arc [L, L], end [L]) says what may follow what, empty:
    everything; value has a place for every state of a sentence."""
    view = ProposalsView(proposals)
    rules = AllowedView(allowed)
    m = max(view.grams.shape[1] - 1, 1)
    longest = 0
    for i in range(begin, stop):
        longest = max(longest, view.offsets[i + 1] - view.offsets[i])
    window = np.empty(m + 1, np.int32)
    first = np.empty(longest + 2, np.int64)
    keep = np.empty(longest, np.int64)
    with cython.nogil:
        for i in range(begin, stop):
            a = view.offsets[i]
            b = view.offsets[i + 1]
            scores[i] = 0
            if a < b:
                _lay_out(view.sizes, a, b, m, first, keep)
                _values(view, rules, a, b, window, first, keep, value)
                scores[i] = _trace(view, rules, a, b, window, first, keep, value, labels)


def _lay_out(sizes, a, b, m, first, keep):
    """Number the states of the tokens a:b."""
    first[0] = 0
    first[1] = 1
    for t in range(a, b):
        product = 1
        for k in range(max(a, t - m + 1), t):
            product *= sizes[k]
        keep[t - a] = product
        first[t - a + 2] = first[t - a + 1] + product * sizes[t]


def _values(proposals, allowed, a, b, window, first, keep, value):
    """The best score of what follows each state."""
    m = window.shape[0] - 1
    for i in range(first[b - a], first[b - a + 1]):
        value[i] = 0
    for t in range(b - 1, a - 1, -1):
        here = first[t - a]
        following = first[t - a + 1]
        size = proposals.sizes[t]
        for s in range(following - here):
            _read_state(proposals.domains, proposals.sizes, a, t, s, window)
            top = -INFINITY
            for c in range(size):
                window[m] = proposals.domains[t, c]
                after = value[following + (s % keep[t - a]) * size + c]
                if after > -INFINITY and _may(allowed, a, b, t, window):
                    score = after + _gain(proposals.grams, proposals.weights, a, b, t, window)
                    if score > top:
                        top = score
            value[here + s] = top


def _trace(proposals, allowed, a, b, window, first, keep, value, labels):
    """Write the best labels of the tokens a:b, and return their score."""
    m = window.shape[0] - 1
    best = value[0]
    if best == -INFINITY:
        return best
    enough = best - TIE * max(1.0, fabs(best))
    s = 0
    done = 0
    for t in range(a, b):
        following = first[t - a + 1]
        size = proposals.sizes[t]
        _read_state(proposals.domains, proposals.sizes, a, t, s, window)
        chosen = -1
        top = -INFINITY
        gained = 0
        for c in range(size):
            window[m] = proposals.domains[t, c]
            after = value[following + (s % keep[t - a]) * size + c]
            if after == -INFINITY or not _may(allowed, a, b, t, window):
                continue
            gain = _gain(proposals.grams, proposals.weights, a, b, t, window)
            if done + gain + after > top:
                chosen = c
                top = done + gain + after
                gained = gain
            if top >= enough:
                break
        done += gained
        labels[t] = proposals.domains[t, chosen]
        s = (s % keep[t - a]) * size + chosen
    return done


def _gain(grams, weights, a, b, t, window):
    """The weight of all constraints that hold and end at t."""
    n = grams.shape[1]
    h = n // 2
    last = window.shape[0] - 1
    total = 0
    for p in range(max(a, t - h), min(b, t + h + 1)):
        j = t - p + h
        i = j
        while i >= 0 and grams[p, i] >= 0 and grams[p, i] == window[last - (j - i)]:
            total += weights[p, i, j]
            i -= 1
    return total


def _read_state(domains, sizes, a, t, s, window):
    """Write the labels of the state s of token t - 1 into window, whose last place is left for
    t."""
    last = window.shape[0] - 1
    for k in range(1, min(last, t - a) + 1):
        window[last - k] = domains[t - k, s % sizes[t - k]]
        s //= sizes[t - k]


def _may(allowed, a, b, t, window):
    """May the last label of window stand at t, after the one before it?  Empty tables permit
    everything."""
    if allowed.start.shape[0] == 0:
        return True
    last = window.shape[0] - 1
    label = window[last]
    follows = allowed.start[label] if t == a else allowed.arc[window[last - 1], label]
    return follows and (t < b - 1 or allowed.end[label])
