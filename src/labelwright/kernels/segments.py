"""Segments of sentences as paths of graphs (kernels.dag): the arcs, their scores, their counts.

A segment is a run of d tokens of one type x; L types, of which the first n_long may have more than
one token, and none more than `longest`.  The graph of T tokens has the nodes

    0: the beginning
    begin(t, x) = 1 + 2tL + x: a segment of x may begin at t
    end(p, x) = begin(p-1, x) + L: a segment of x has ended before p

and the arcs, in this order: from the beginning to begin(0, x); then for p = 1 .. T all segments
that end before p, the shortest first, and (but for the last p) all transitions from end(p, y) to
begin(p, x).  So the arcs of a short sentence are the first arcs of a long one.  Rows of scores of
segments are in the same order: one for every p and d, with a column for each type.  Rows of scores
of tokens have the columns B (n_long), I (n_long), E (n_long), S (L).
"""

import cython
import numpy as np
from cython.cimports.labelwright.kernels.dag import fill_covariances, sum_paths


def before_transitions(n_types, n_long, longest, p):
    """The number of arcs before the first transition at p (1 or more)."""
    full = p - longest if p > longest else 0  # ends that have segments of all lengths
    short = p - full
    n_segments = full * (longest - 1) + short * (short - 1) // 2  # of two tokens or more
    return n_types + p * n_types + n_segments * n_long + (p - 1) * n_types * n_types


def n_rows(longest, T):
    """The number of segments of T tokens, of any one type."""
    short = longest if longest < T else T
    return short * (short + 1) // 2 + (T - short) * longest


def arc_scores(state, t0, segment, r0, transition, n_types, n_long, longest, T, inner, score):
    """Fill the scores [A] of the arcs of T tokens, whose rows begin at t0 and r0; returns how many
    arcs there are.

    transition [L+1, L+1] has scores, in the last row those from the beginning; inner [T+1, n_long]
    is scratch."""
    with cython.nogil:
        return _arc_scores(
            state, t0, segment, r0, transition, n_types, n_long, longest, T, inner, score
        )


def _arc_scores(state, t0, segment, r0, transition, n_types, n_long, longest, T, inner, score):
    # The first columns of the roles E and S; B has 0, I has n_long.
    E = 2 * n_long
    S = 3 * n_long
    for x in range(n_long):
        inner[0, x] = 0
    for t in range(T):
        for x in range(n_long):
            inner[t + 1, x] = inner[t, x] + state[t0 + t, n_long + x]
    e = 0
    row = r0
    for x in range(n_types):
        score[e + x] = transition[n_types, x]
    e += n_types
    for p in range(1, T + 1):
        last = t0 + p - 1
        for x in range(n_types):
            score[e + x] = state[last, S + x] + segment[row, x]
        e += n_types
        row += 1
        for d in range(2, (p if p < longest else longest) + 1):
            i = p - d
            for x in range(n_long):
                ends = state[t0 + i, x] + state[last, E + x]
                score[e + x] = ends + (inner[p - 1, x] - inner[i + 1, x]) + segment[row, x]
            e += n_long
            row += 1
        if p < T:
            for y in range(n_types):
                for x in range(n_types):
                    score[e + x] = transition[y, x]
                e += n_types
    return e


def arc_counts(arcs, n_types, n_long, longest, T, inner, state, t0, segment, r0, transitions):
    """The adjoint of arc_scores: numbers on arcs [A] fill the rows of tokens and segments, and are
    added to transitions."""
    with cython.nogil:
        _arc_counts(arcs, n_types, n_long, longest, T, inner, state, t0, segment, r0, transitions)


def _arc_counts(arcs, n_types, n_long, longest, T, inner, state, t0, segment, r0, transitions):
    E = 2 * n_long
    S = 3 * n_long
    for t in range(T + 1):
        for x in range(n_long):
            inner[t, x] = 0  # how the count of I changes from t - 1 to t
    for t in range(t0, t0 + T):
        for x in range(state.shape[1]):
            state[t, x] = 0
    e = 0
    row = r0
    for x in range(n_types):
        transitions[n_types, x] += arcs[e + x]
    e += n_types
    for p in range(1, T + 1):
        last = t0 + p - 1
        for d in range(1, (p if p < longest else longest) + 1):
            i = p - d
            width = n_types if d == 1 else n_long
            if d == 1:
                for x in range(n_types):
                    state[last, S + x] += arcs[e + x]
            else:
                for x in range(n_long):
                    state[t0 + i, x] += arcs[e + x]
                    state[last, E + x] += arcs[e + x]
                    inner[i + 1, x] += arcs[e + x]
                    inner[p - 1, x] -= arcs[e + x]
            for x in range(width):
                segment[row, x] = arcs[e + x]
            for x in range(width, segment.shape[1]):
                segment[row, x] = 0
            e += width
            row += 1
        if p < T:
            for y in range(n_types):
                for x in range(n_types):
                    transitions[y, x] += arcs[e + x]
                e += n_types
    for x in range(n_long):
        total = 0.0
        for t in range(T):
            total += inner[t, x]
            state[t0 + t, n_long + x] = total


def _subtract_gold(gold, r0, n_types, n_long, longest, T, score, arcs):
    """Subtract 1 from the arcs [A] of the gold segments, and return their score.

    gold has the type of every row of segments that is one, -1 elsewhere."""
    total = 0.0
    e = n_types
    row = r0
    before = n_types
    for p in range(1, T + 1):
        into = -1
        begin = 0
        for d in range(1, (p if p < longest else longest) + 1):
            x = gold[row]
            if x >= 0:
                total += score[e + x]
                arcs[e + x] -= 1
                into = x
                begin = p - d
            e += n_types if d == 1 else n_long
            row += 1
        if into >= 0:
            # The transition into this segment: arcs of transitions end where the segments of the
            # next token begin.
            at = into
            if begin > 0:
                at += before_transitions(n_types, n_long, longest, begin) + before * n_types
            total += score[at]
            arcs[at] -= 1
            before = into
        if p < T:
            e += n_types * n_types
    return total


def expectations(
    state,
    segment,
    transition,
    n_long,
    longest,
    offsets,
    gold,
    source,
    target,
    share,
    gains,
    transitions,
):
    """Replace the scores in the rows of tokens and segments of some sentences by expected minus
    observed counts, add those of transitions to transitions [L+1, L+1], and return the loss: the
    sum of log Z - score of the gold segments.

    Loss and counts are taken `share` times; gains [T, R] (or none) of the roles of tokens add their
    covariances with every arc.  source and target [A] are the arcs of the longest of these
    sentences, or of a longer one."""
    L = transition.shape[0] - 1
    most_tokens = 0
    for n in range(offsets.shape[0] - 1):
        most_tokens = max(most_tokens, offsets[n + 1] - offsets[n])
    most_nodes = 1 + 2 * most_tokens * L
    most_arcs = before_transitions(L, n_long, longest, most_tokens)
    has_gains = gains.shape[0] > 0
    phi, alpha, beta, after = np.empty((4, most_nodes))
    score, arcs, gain, cov = np.empty((4, most_arcs))
    nothing = np.zeros((n_rows(longest, most_tokens) if has_gains else 0, L))
    no_transition = np.zeros((L + 1, L + 1))
    inner = np.empty((most_tokens + 1, n_long))
    sources = np.zeros(1, np.int32)
    sinks = np.empty(L, np.int32)
    loss = 0.0
    row = 0
    with cython.nogil:
        for n in range(offsets.shape[0] - 1):
            t0 = offsets[n] - offsets[0]
            T = offsets[n + 1] - offsets[n]
            if T == 0:
                continue
            A = _arc_scores(
                state, t0, segment, row, transition, L, n_long, longest, T, inner, score
            )
            Q = 1 + 2 * T * L
            for x in range(L):
                sinks[x] = Q - L + x
            loss += sum_paths(
                source[:A],
                target[:A],
                score[:A],
                sources,
                sinks,
                phi[:Q],
                alpha[:Q],
                beta[:Q],
                arcs[:A],
            )
            if has_gains:
                _arc_scores(
                    gains, t0, nothing, 0, no_transition, L, n_long, longest, T, inner, gain
                )
                fill_covariances(
                    source[:A],
                    target[:A],
                    sinks,
                    arcs[:A],
                    gain[:A],
                    phi[:Q],
                    alpha[:Q],
                    beta[:Q],
                    after[:Q],
                    cov[:A],
                )
            loss -= _subtract_gold(gold, row, L, n_long, longest, T, score, arcs)
            if share != 1 or has_gains:
                for e in range(A):
                    arcs[e] = share * arcs[e] + (cov[e] if has_gains else 0)
            _arc_counts(arcs, L, n_long, longest, T, inner, state, t0, segment, row, transitions)
            row += n_rows(longest, T)
        return share * loss
