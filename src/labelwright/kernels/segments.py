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

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import dag, kernel, unsigned

Array = NDArray[Any]


@kernel
def arc_scores(state, t0, segment, r0, transition, n_types, n_long, longest, T, inner, score):
    """Fill the scores [A] of the arcs of T tokens, whose rows begin at t0 and r0; returns how many
    arcs there are.

    transition [L+1, L+1] has scores, in the last row those from the beginning; inner [T+1, n_long]
    is scratch."""
    L, n = unsigned(n_types), unsigned(n_long)
    E, S = n + n, n + n + n  # the first columns of roles; B has 0, I has n
    for x in range(n):
        inner[0, x] = 0.0
    for t in range(T):
        for x in range(n):
            inner[t + 1, x] = inner[t, x] + state[t0 + t, n + x]
    e, row = unsigned(0), r0
    for x in range(L):
        score[e + x] = transition[n_types, x]
    e += L
    for p in range(1, T + 1):
        last = t0 + p - 1
        for x in range(L):
            score[e + x] = state[last, S + x] + segment[row, x]
        e += L
        row += 1
        for d in range(2, min(p, longest) + 1):
            i = p - d
            for x in range(n):
                ends = state[t0 + i, x] + state[last, E + x]
                score[e + x] = ends + (inner[p - 1, x] - inner[i + 1, x]) + segment[row, x]
            e += n
            row += 1
        if p < T:
            for y in range(n_types):
                for x in range(L):
                    score[e + x] = transition[y, x]
                e += L
    return np.int64(e)


@arc_scores.in_numpy
def _(state, t0, segment, r0, transition, n_types, n_long, longest, T, inner, score):
    L, n = n_types, n_long
    state = state[t0 : t0 + T]
    B, E, S = (state[:, k * n : k * n + m].astype(np.float64) for k, m in ((0, n), (2, n), (3, L)))
    inner[0] = 0.0
    np.cumsum(state[:, n : 2 * n], axis=0, dtype=np.float64, out=inner[1 : T + 1])
    score[:L] = transition[L, :L]
    places = places_of(L, n, longest, T)
    for d in range(1, min(T, longest) + 1):
        at, width = of_length(places, d, L, n)
        of_segment = segment[r0 + places.rows[d - 1 :] + d - 1, :width]
        if d == 1:
            score[at] = S + of_segment
        else:
            between = inner[d - 1 : T] - inner[1 : T - d + 2]
            score[at] = B[: T - d + 1] + E[d - 1 :] + between + of_segment
    score[places.transitions[:, None] + np.arange(L * L)] = transition[:L, :L].reshape(-1)
    return places.n_arcs


@kernel
def arc_counts(arcs, n_types, n_long, longest, T, inner, state, t0, segment, r0, transitions):
    """The adjoint of arc_scores: numbers on arcs [A] fill the rows of tokens and segments, and are
    added to transitions."""
    L, n = unsigned(n_types), unsigned(n_long)
    E, S = n + n, n + n + n
    for t in range(T + 1):
        for x in range(n):
            inner[t, x] = 0.0  # how the count of I changes from t - 1 to t
    for t in range(t0, t0 + T):
        for x in range(state.shape[1]):
            state[t, x] = 0
    e, row = unsigned(0), r0
    for x in range(L):
        transitions[n_types, x] += arcs[e + x]
    e += L
    for p in range(1, T + 1):
        last = t0 + p - 1
        for d in range(1, min(p, longest) + 1):
            i = p - d
            width = L if d == 1 else n
            if d == 1:
                for x in range(L):
                    state[last, S + x] += arcs[e + x]
            else:
                for x in range(n):
                    state[t0 + i, x] += arcs[e + x]
                    state[last, E + x] += arcs[e + x]
                    inner[i + 1, x] += arcs[e + x]
                    inner[p - 1, x] -= arcs[e + x]
            for x in range(width):
                segment[row, x] = arcs[e + x]
            for x in range(width, unsigned(segment.shape[1])):
                segment[row, x] = 0
            e += width
            row += 1
        if p < T:
            for y in range(n_types):
                for x in range(L):
                    transitions[y, x] += arcs[e + x]
                e += L
    for x in range(n):
        total = 0.0
        for t in range(T):
            total += inner[t, x]
            state[t0 + t, n + x] = total


@kernel
def subtract_gold(gold, r0, n_types, n_long, longest, T, score, arcs):
    """Subtract 1 from the arcs [A] of the gold segments, and return their score.

    gold has the type of every row of segments that is one, -1 elsewhere."""
    total = 0.0
    e, row, before = n_types, r0, n_types
    for p in range(1, T + 1):
        into = -1
        for d in range(1, min(p, longest) + 1):
            x = gold[row]
            if x >= 0:
                total += score[e + x]
                arcs[e + x] -= 1
                into, begin = x, p - d
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


@kernel
def before_transitions(n_types, n_long, longest, p):
    """The number of arcs before the first transition at p (1 or more)."""
    full = max(p - longest, 0)  # ends that have segments of all lengths
    short = p - full
    n_segments = full * (longest - 1) + short * (short - 1) // 2  # of two tokens or more
    return n_types + p * n_types + n_segments * n_long + (p - 1) * n_types * n_types


@kernel
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
    T = 0
    for n in range(offsets.shape[0] - 1):
        T = max(T, offsets[n + 1] - offsets[n])
    Q, A = 1 + 2 * T * L, before_transitions(L, n_long, longest, T)
    phi, alpha, beta = np.empty(Q), np.empty(Q), np.empty(Q)
    score, arcs = np.empty(A), np.empty(A)
    has_gains = gains.shape[0] > 0
    gain, cov = np.empty(A if has_gains else 0), np.empty(A if has_gains else 0)
    after = np.empty(Q if has_gains else 0)
    nothing, no_transition = (
        np.zeros((n_rows(longest, T) if has_gains else 0, L)),
        np.zeros((L + 1, L + 1)),
    )
    inner = np.empty((T + 1, n_long))
    sources, sinks = np.zeros(1, np.int32), np.empty(L, np.int32)
    loss = 0.0
    row = 0
    for n in range(offsets.shape[0] - 1):
        t0, T = offsets[n] - offsets[0], offsets[n + 1] - offsets[n]
        if T == 0:
            continue
        A, Q = (
            arc_scores(state, t0, segment, row, transition, L, n_long, longest, T, inner, score),
            1 + 2 * T * L,
        )
        for x in range(L):
            sinks[x] = Q - L + x
        arguments = (
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
        loss += dag.posteriors(*arguments)
        if has_gains:
            arc_scores(gains, t0, nothing, 0, no_transition, L, n_long, longest, T, inner, gain)
            scratch = phi[:Q], alpha[:Q], beta[:Q], after[:Q]
            dag.covariances(source[:A], target[:A], sinks, arcs[:A], gain[:A], *scratch, cov[:A])
        loss -= subtract_gold(gold, row, L, n_long, longest, T, score, arcs)
        if share != 1 or has_gains:
            for e in range(A):
                arcs[e] = share * arcs[e] + (cov[e] if has_gains else 0.0)
        arc_counts(arcs, L, n_long, longest, T, inner, state, t0, segment, row, transitions)
        row += n_rows(longest, T)
    return share * loss


@kernel
def n_rows(longest, T):
    """The number of segments of T tokens, of any one type."""
    short = min(longest, T)
    return short * (short + 1) // 2 + (T - short) * longest


# -- in NumPy alone --------------------------------------------------------------------------------


class Places(NamedTuple):
    """Where the arcs and rows of T tokens are."""

    segments: Array  # [T]  the first arc of the segments that end with each token,
    rows: Array  # [T]  the first row of them,
    transitions: Array  # [T-1]  and the first arc of the transitions after it
    n_arcs: int


def places_of(L: int, n: int, longest: int, T: int) -> Places:
    sizes = np.minimum(np.arange(1, T + 1), longest)  # of segments that end with each token
    arcs = L + (sizes - 1) * n
    ends = L + np.cumsum(arcs + L * L)  # after the transitions
    return Places(
        ends - arcs - L * L, np.cumsum(sizes) - sizes, ends[:-1] - L * L, int(ends[-1]) - L * L
    )


def of_length(places: Places, d: int, L: int, n: int) -> tuple[Array, int]:
    """The arcs of all segments of d tokens [T - d + 1, types], and how many types there are."""
    width = L if d == 1 else n
    skipped = 0 if d == 1 else L + (d - 2) * n
    return (places.segments[d - 1 :] + skipped)[:, None] + np.arange(width), width


def write_graph(
    n_types: int, n_long: int, longest: int, T: int, source: Array, target: Array, first: Array,
    length: Array, kind: Array, before: Array,
) -> None:  # fmt: skip
    """Fill the arcs [A] of T tokens: their nodes, first token, number of tokens (0: a transition),
    type and, of a transition, the type before it (L: the beginning; of a segment -1)."""
    L, x = n_types, np.arange(n_types)
    source[:L], target[:L], first[:L], length[:L], kind[:L], before[:L] = 0, 1 + x, 0, 0, x, L
    if T == 0:
        return
    places = places_of(L, n_long, longest, T)
    for d in range(1, min(T, longest) + 1):
        at, width = of_length(places, d, L, n_long)
        i, types = np.arange(T - d + 1)[:, None], x[:width]
        source[at], target[at] = 1 + 2 * i * L + types, 1 + (2 * (i + d) - 1) * L + types
        first[at], length[at], kind[at], before[at] = i, d, types, -1
    at = places.transitions[:, None, None] + (x * L)[:, None] + x
    p = np.arange(1, T)[:, None, None]
    source[at], target[at] = 1 + (2 * p - 1) * L + x[:, None], 1 + 2 * p * L + x
    first[at], length[at], kind[at], before[at] = p, 0, x, x[:, None]


def phrase_ends(
    word: Array, offsets: Array, longest: int, n_words: int, edge: Array, node_of_edge: Array,
    marked: Array, ends: Array,
) -> None:  # fmt: skip
    """Fill for every row of segments the node of a tree of phrases that its words lead to; 0 where
    that is not marked.

    The phrases that begin at all tokens are followed at once, one word longer in each step."""
    lengths = np.diff(offsets)
    place = np.arange(len(word)) - np.repeat(offsets[:-1], lengths)  # of each token in its sentence
    sizes = np.minimum(place + 1, longest)
    row = np.cumsum(sizes) - sizes  # of each token alone
    left = np.repeat(offsets[1:], lengths)
    start, node = np.flatnonzero(word >= 0), np.int64(0)
    for length in range(1, longest + 1):
        token = start + length - 1
        asked = node * n_words + word[token]
        at = np.searchsorted(edge, asked)
        alive = (
            (word[token] >= 0) & (edge.take(at, mode="clip") == asked)
            if len(edge)
            else np.zeros(len(at), np.bool_)
        )
        start, node = start[alive], node_of_edge[at[alive]].astype(np.int64)
        if not len(start):
            return
        here = marked[node]
        ends[row[start[here] + length - 1] + length - 1] = node[here]
        alive = start + length < left[start]
        start, node = start[alive], node[alive]
