"""Overlapping predictions of label n-grams: what they propose, votes over them, and the best
labelling among them.

Token t predicts the labels grams[t] of the tokens t-h..t+h, where n = 2h + 1 and -1 means none
(outside the sentence). weights[t, i, j] is the weight of the constraint that the labels i..j of
that prediction all hold.  With gain_t the weight of all constraints that hold and end at t, the
best labelling follows from

    best(t, s) = max_c gain_{t+1}(s, c) + best(t+1, s')                   0 at the last token

where a state s is the candidates of the last m = max(n - 1, 1) tokens, written as one number whose
last digit is that of t itself, and s' drops the first of them and takes c in: s' = s mod keep(t+1)
* sizes[t+1] + c.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import kernel

Array = NDArray[Any]
OUTSIDE = -2  # the label before the first token: no prediction has it
ARCS = 1 << 19  # of the sentences that NumPy searches together
TIE = 1e-12  # weights closer than this (times their size) are equal


class StateScratch(NamedTuple):
    """What a search writes for one sentence."""

    window: Any  # [m+1] int32  the labels of the last tokens, the present one last
    # [longest + 2] int64  where the states of each token begin, the single one before the sentence
    # at 0
    first: Any
    keep: Any  # [longest] int64  by what a state is divided when the first of its tokens is dropped


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
    """Write the labels of the state s of token t - 1 into window [m+1], whose last place is left
    for t."""
    last = window.shape[0] - 1
    for k in range(1, min(last, t - a) + 1):
        window[last - k] = domains[t - k, s % sizes[t - k]]
        s //= sizes[t - k]


@kernel
def _may(allowed, a, b, t, window):
    """May the last label of window stand at t, after the one before it?  Empty tables permit
    everything."""
    start, arc, end = allowed
    if start.shape[0] == 0:
        return True
    last = window.shape[0] - 1
    label = window[last]
    follows = start[label] if t == a else arc[window[last - 1], label]
    return follows and (t < b - 1 or end[label])


@kernel
def best_labellings(proposals, begin, stop, allowed, scratch, value, labels, scores):
    """labels [T] of the sentences begin:stop, and scores [N]; minus infinity where no labelling is
    allowed.

    Of labellings that tie it takes, token by token from the left, the first candidate that attains
    the best score. allowed (start [L], arc [L, L], end [L]) says what may follow what, empty:
    everything; value has a place for every state of a sentence."""
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


@best_labellings.in_numpy
def _(proposals, begin, stop, allowed, scratch, value, labels, scores):
    offsets, n_arcs = proposals.offsets, sizes_of(proposals)[1]
    lengths = np.diff(offsets)
    scores[begin:stop] = 0.0
    waiting = begin + np.flatnonzero(lengths[begin:stop] > 0)
    while len(waiting):
        n = max(1, int(np.searchsorted(np.cumsum(n_arcs[waiting]), ARCS, side="right")))
        these = waiting[:n][np.argsort(-lengths[waiting[:n]], kind="stable")]
        _label(proposals, allowed, these, labels, scores)
        waiting = waiting[n:]


# -- in NumPy alone: all tokens at once ------------------------------------------------------------


class _Sentence(NamedTuple):
    """Where the sentence of each token begins and ends [T]."""

    begin: Array
    end: Array


def _sentences(offsets: Array) -> _Sentence:
    lengths = np.diff(offsets)
    return _Sentence(np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths))


def _proposed(grams: Array, inside: _Sentence, t: Array, o: int) -> Array:
    """The label that token t + o predicts for t; -1: none, or that token is not in the sentence."""
    p = t + o
    there = (inside.begin[t] <= p) & (p < inside.end[t])
    return np.where(there, grams[np.where(there, p, t), grams.shape[1] // 2 - o], -1)


def propose(
    table: Array,
    best: Array,
    ptr: Array,
    classes: Array,
    w: Array,
    offsets: Array,
    grams: Array,
    confidence: Array,
    weights: Array,
    domains: Array,
    sizes: Array,
) -> None:
    """Predicted classes best [T] (rows of table [C, n]) and distributions over classes become, for
    every token: grams [T, n], the confidence [T] of the class, weights [T, n, n] (0 where nothing
    is predicted), and the candidates domains[t, :sizes[t]]: the token's own prediction, then those
    of its neighbours, the nearest and the left first."""
    T, n = grams.shape
    inside, t, h = _sentences(offsets), np.arange(T), n // 2
    for k in range(n):
        at = t + k - h
        grams[:, k] = np.where((inside.begin <= at) & (at < inside.end), table[best, k], -1)
    token = np.repeat(t, np.diff(ptr))
    total = np.bincount(token, w, T)
    share = np.divide(w, total[token], out=np.zeros(len(w)), where=total[token] > 0)
    confidence[:] = np.bincount(token, share * (classes == best[token]), T)
    predicted = grams[token]
    agrees = (predicted >= 0) & (predicted == table[classes])  # [E, n]
    weights[:] = 0.0
    for i in range(n):
        held = share
        for j in range(i, n):
            held = held * agrees[:, j]
            weights[:, i, j] = np.bincount(token, held, T)
    domains[:], sizes[:] = -1, 0
    for k in range(n):  # 0, -1, 1, -2, 2, ...
        label = _proposed(grams, inside, t, (k + 1) // 2 * (-1 if k % 2 == 1 else 1))
        new = np.flatnonzero((label >= 0) & ~(domains == label[:, None]).any(axis=1))
        domains[new, sizes[new]] = label[new]
        sizes[new] += 1


def vote(proposals: Any) -> Array:
    """The candidate of each token [T] that most of the overlapping predictions name; a tie goes to
    the one that the most confident of them names, then to the first."""
    _, grams, confidence, _, domains, sizes, offsets = proposals
    n, labels = grams.shape[1], np.empty(len(grams), np.int32)
    inside, t = _sentences(offsets), np.arange(len(grams))
    predicted = [_proposed(grams, inside, t, o) for o in range(-(n // 2), n // 2 + 1)]
    sure_of = [
        confidence[np.clip(t + o, 0, max(len(t) - 1, 0))] for o in range(-(n // 2), n // 2 + 1)
    ]
    most, surest = np.zeros(len(t), np.int64), np.zeros(len(t))
    for i in range(domains.shape[1]):
        count, sure = np.zeros(len(t), np.int64), np.zeros(len(t))
        for label, confident in zip(predicted, sure_of, strict=True):
            same = label == domains[:, i]
            count += same
            sure = np.where(same, np.maximum(sure, confident), sure)
        better = (i < sizes) & ((count > most) | ((count == most) & (sure > surest + TIE)))
        most, surest = np.where(better, count, most), np.where(better, sure, surest)
        labels[better] = domains[better, i]
    return labels


def _gains(grams: Array, weights: Array, inside: _Sentence, t: Array, window: list[Array]) -> Array:
    """The weight of all constraints that hold and end at t; window[k] has the labels of t - k, for
    each of t."""
    n = grams.shape[1]
    total = np.zeros(len(t))
    for o in range(-(n // 2), n // 2 + 1):
        p, j = t + o, n // 2 - o
        holds = (inside.begin[t] <= p) & (p < inside.end[t])
        p = np.where(holds, p, t)
        for i in range(j, -1, -1):
            holds = holds & (grams[p, i] == window[j - i])
            total += np.where(holds, weights[p, i, j], 0.0)
    return total


def satisfied(proposals: Any, labels: Array) -> Array:
    """The weight of all constraints that hold under labels [T], for each sentence [N]."""
    _, grams, _, weights, _, _, offsets = proposals
    inside, t = _sentences(offsets), np.arange(len(grams))
    m = max(grams.shape[1] - 1, 1)
    labelled = [
        np.where(t - k >= inside.begin, labels[np.maximum(t - k, 0)], OUTSIDE) for k in range(m + 1)
    ]
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.bincount(sentence, _gains(grams, weights, inside, t, labelled), len(offsets) - 1)


def _states(sizes: Array, begin: Array, t: Array, m: int) -> Array:
    """The number of states of m tokens up to t, as floats."""
    count = np.ones(len(t))
    for k in range(m):
        count *= np.where(t - k >= begin, sizes[np.maximum(t - k, 0)], 1)
    return count


def sizes_of(proposals: Any) -> tuple[Array, Array]:
    """The numbers of states and arcs of each sentence [N each]; as floats, since they may exceed an
    integer."""
    sizes, offsets = proposals.sizes, proposals.offsets
    t, begin, m = (
        np.arange(len(sizes)),
        _sentences(offsets).begin,
        max(proposals.grams.shape[1] - 1, 1),
    )
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    count = _states(sizes, begin, t, m)
    before = np.where(t > begin, np.append(1.0, count[:-1])[: len(t)], 1.0)
    return np.bincount(sentence, count, len(offsets) - 1), np.bincount(
        sentence, before * sizes, len(offsets) - 1
    )


class Arcs(NamedTuple):
    """The arcs of some sentences: all of their first tokens, all of their second tokens, ...; those
    out of one state together."""

    token: Array  # [T]  in this order,
    begin: Array  # [T]  the first arc of each,
    source: Array  # [T]  the first of the nodes that its arcs leave,
    target: Array  # [T]  the first of those that they lead to,
    keep: Array  # [T]  and by what a state is divided when the first of its tokens is dropped
    steps: Array  # [longest + 1]  the tokens of each step
    arc_steps: Array  # [longest + 1]  and their arcs
    of: Array  # [A]  the token of each arc, as a place in `token`,
    state: Array  # [A]  the state before it,
    choice: Array  # [A]  its candidate,
    label: Array  # [A]  that candidate's label,
    gain: Array  # [A]  and the weight of what it satisfies; minus infinity where it is forbidden
    n_nodes: int  # the first ones are the beginnings of the sentences


def arcs_of(proposals: Any, allowed: Any, begins: Array, ends: Array) -> Arcs:
    """The arcs of the sentences begins:ends, none of which is empty, the longest first."""
    _, grams, _, weights, domains, sizes, _ = proposals
    N, lengths, m = len(begins), ends - begins, max(grams.shape[1] - 1, 1)
    going = np.searchsorted(-lengths, -np.arange(int(lengths[0])), side="left")
    steps = np.append(0, np.cumsum(going))
    rank = np.arange(steps[-1]) - np.repeat(steps[:-1], going)
    token = begins[rank] + np.repeat(np.arange(len(going)), going)
    inside = _Sentence(np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64))
    inside.begin[token], inside.end[token] = begins[rank], ends[rank]
    size = sizes[token].astype(np.int64)
    at_start = token == begins[rank]
    keep = np.where(
        at_start, 1, _states(sizes, begins[rank], np.maximum(token - 1, 0), m - 1)
    ).astype(np.int64)
    before = np.where(
        at_start, 1, _states(sizes, begins[rank], np.maximum(token - 1, 0), m)
    ).astype(np.int64)
    n_arcs, n_states = before * size, keep * size
    begin = np.cumsum(n_arcs) - n_arcs
    target = N + np.cumsum(n_states) - n_states
    source = rank.copy()
    previous = np.repeat(steps[:-2], going[1:]) + rank[N:]  # the place of the token before
    source[N:] = target[previous]
    of = np.repeat(np.arange(len(token)), n_arcs)
    state, choice = np.divmod(np.arange(len(of)) - begin[of], size[of])
    t = token[of]
    window, left = [domains[t, choice]], state.copy()
    for k in range(1, m + 1):
        there = t - k >= inside.begin[t]
        back = np.where(there, t - k, t)
        base = np.where(there, sizes[back], 1)
        left, digit = np.divmod(left, base)
        window.append(np.where(there, domains[back, digit], OUTSIDE))
    gain = _gains(grams, weights, inside, t, window)
    gain[~_permitted(allowed, inside, t, window)] = -np.inf
    arc_steps = np.append(begin, len(of))[steps]
    return Arcs(
        token, begin, source, target, keep, steps, arc_steps, of, state, choice, window[0], gain,
        N + int(n_states.sum()),
    )  # fmt: skip


def _permitted(allowed: Any, inside: _Sentence, t: Array, window: list[Array]) -> Array:
    """Which of the last labels may stand at t, after the ones before them?  Empty tables permit
    everything."""
    start, arc, end = allowed
    if not len(start):
        return np.ones(len(t), np.bool_)
    label, at_start = window[0], t == inside.begin[t]
    follows = np.where(at_start, start[label], arc[np.where(at_start, 0, window[1]), label])
    return np.asarray(follows & ((t < inside.end[t] - 1) | end[label]))


def targets_of(made: Arcs, sizes: Array) -> Array:
    """The node that each arc leads to."""
    of = made.of
    return np.asarray(
        made.target[of] + (made.state % made.keep[of]) * sizes[made.token[of]] + made.choice
    )


def arcs(proposals: Any, allowed: Any) -> tuple[Array, Array, Array, Array]:
    """The labellings of one sentence as the paths of a graph: the two nodes of every arc, its gain
    (minus infinity where it is forbidden) and the label that it chooses [A each]."""
    T = len(proposals.grams)
    if not T:
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0), np.empty(0, np.int32)
    made = arcs_of(proposals, allowed, np.zeros(1, np.int64), np.full(1, T))
    source, target = made.source[made.of] + made.state, targets_of(made, proposals.sizes)
    return source.astype(np.int32), target.astype(np.int32), made.gain, made.label


def _label(proposals, allowed, sentences, labels, scores):
    """The best labellings of some sentences, the longest first."""
    sizes, offsets = proposals.sizes, proposals.offsets
    made = arcs_of(proposals, allowed, offsets[sentences], offsets[sentences + 1])
    target = targets_of(made, sizes)
    value = np.zeros(made.n_nodes)
    T = len(made.steps) - 1
    for step in range(T - 1, -1, -1):
        arcs = slice(int(made.arc_steps[step]), int(made.arc_steps[step + 1]))
        firsts = np.flatnonzero(made.choice[arcs] == 0)
        best = np.maximum.reduceat(value[target[arcs]] + made.gain[arcs], firsts)
        of = made.of[arcs][firsts]
        value[made.source[of] + made.state[arcs][firsts]] = best
    best = value[: len(sentences)].copy()
    enough = best - TIE * np.maximum(1.0, np.abs(np.where(np.isfinite(best), best, 0.0)))
    node, done = np.arange(len(sentences)), np.zeros(len(sentences))
    possible = best > -np.inf
    for step in range(T):
        going = int(made.steps[step + 1] - made.steps[step])
        rank = np.flatnonzero(possible[:going])
        of = made.steps[step] + rank
        t = made.token[of]
        width = sizes[t]
        choices = np.arange(int(width.max(initial=1)))
        arc = (made.begin[of] + (node[rank] - made.source[of]) * width)[:, None] + np.minimum(
            choices, width[:, None] - 1
        )
        total = done[rank][:, None] + made.gain[arc] + value[target[arc]]
        total[choices >= width[:, None]] = -np.inf
        attains = total >= enough[rank][:, None]
        chosen = np.where(attains.any(axis=1), attains.argmax(axis=1), total.argmax(axis=1))
        taken = arc[np.arange(len(rank)), chosen]
        done[rank] += made.gain[taken]
        labels[t], node[rank] = made.label[taken], target[taken]
    scores[sentences] = np.where(possible, done, -np.inf)
