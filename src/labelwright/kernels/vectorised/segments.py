"""Segments of sentences in NumPy: the arcs of one sentence at once, and the counts of a batch step by step.

In `expectations` the sentences of a batch are sorted by length, the longest first, so that the segments that end before
p of all sentences that are still going are one array [sentences, lengths, types].  With a(v) the logarithm of the sum
over all paths to v,

    a(v) = log sum_{e=(u,v)} exp(a(u) + score_e)            w_e = exp(a(u) + score_e - a(v)) = P(e | v)
    P(e) = P(v) w_e;   P(u) = sum_{e=(u,v)} P(e)            exp(a(v) - log Z) at a sink

so that one exponential per arc is enough, and no number of paths is too large.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TINY = 1e-290  # as in kernels.dag


# -- the arcs of one sentence -----------------------------------------------------------------------------------------


class _Places(NamedTuple):
    """Where the arcs and rows of T tokens are."""

    segments: Array  # [T]  the first arc of the segments that end with each token,
    rows: Array  # [T]  the first row of them,
    transitions: Array  # [T-1]  and the first arc of the transitions after it
    n_arcs: int


def _places(L: int, n: int, longest: int, T: int) -> _Places:
    sizes = np.minimum(np.arange(1, T + 1), longest)  # of segments that end with each token
    arcs = L + (sizes - 1) * n
    ends = L + np.cumsum(arcs + L * L)  # after the transitions
    return _Places(ends - arcs - L * L, np.cumsum(sizes) - sizes, ends[:-1] - L * L, int(ends[-1]) - L * L)


def write_graph(
    n_types: int, n_long: int, longest: int, T: int, source: Array, target: Array, first: Array, length: Array,
    kind: Array, before: Array,
) -> None:  # fmt: skip
    """Fill the arcs [A] of T tokens: their nodes, first token, number of tokens (0: a transition), type and, of a
    transition, the type before it (L: the beginning; of a segment -1)."""
    L, x = n_types, np.arange(n_types)
    source[:L], target[:L], first[:L], length[:L], kind[:L], before[:L] = 0, 1 + x, 0, 0, x, L
    if T == 0:
        return
    places = _places(L, n_long, longest, T)
    for d in range(1, min(T, longest) + 1):
        at, width = _of_length(places, d, L, n_long)
        i, types = np.arange(T - d + 1)[:, None], x[:width]
        source[at], target[at] = 1 + 2 * i * L + types, 1 + (2 * (i + d) - 1) * L + types
        first[at], length[at], kind[at], before[at] = i, d, types, -1
    at = places.transitions[:, None, None] + (x * L)[:, None] + x
    p = np.arange(1, T)[:, None, None]
    source[at], target[at] = 1 + (2 * p - 1) * L + x[:, None], 1 + 2 * p * L + x
    first[at], length[at], kind[at], before[at] = p, 0, x, x[:, None]


def _of_length(places: _Places, d: int, L: int, n: int) -> tuple[Array, int]:
    """The arcs of all segments of d tokens [T - d + 1, types], and how many types there are."""
    width = L if d == 1 else n
    skipped = 0 if d == 1 else L + (d - 2) * n
    return (places.segments[d - 1 :] + skipped)[:, None] + np.arange(width), width


def arc_scores(
    state: Array, t0: int, segment: Array, r0: int, transition: Array, n_types: int, n_long: int, longest: int, T: int,
    inner: Array, score: Array,
) -> int:  # fmt: skip
    """Fill the scores [A] of the arcs of T tokens, whose rows begin at t0 and r0; returns how many arcs there are.

    transition [L+1, L+1] has scores, in the last row those from the beginning; inner [T+1, n_long] is scratch."""
    L, n = n_types, n_long
    state = state[t0 : t0 + T]
    B, E, S = (state[:, k * n : k * n + m].astype(np.float64) for k, m in ((0, n), (2, n), (3, L)))
    inner[0] = 0.0
    np.cumsum(state[:, n : 2 * n], axis=0, dtype=np.float64, out=inner[1 : T + 1])
    score[:L] = transition[L, :L]
    places = _places(L, n, longest, T)
    for d in range(1, min(T, longest) + 1):
        at, width = _of_length(places, d, L, n)
        of_segment = segment[r0 + places.rows[d - 1 :] + d - 1, :width]
        if d == 1:
            score[at] = S + of_segment
        else:
            between = inner[d - 1 : T] - inner[1 : T - d + 2]
            score[at] = B[: T - d + 1] + E[d - 1 :] + between + of_segment
    score[places.transitions[:, None] + np.arange(L * L)] = transition[:L, :L].reshape(-1)
    return places.n_arcs


def arc_counts(
    arcs: Array, n_types: int, n_long: int, longest: int, T: int, inner: Array, state: Array, t0: int, segment: Array,
    r0: int, transitions: Array,
) -> None:  # fmt: skip
    """The adjoint of arc_scores: numbers on arcs [A] fill the rows of tokens and segments, and are added to
    transitions."""
    L, n = n_types, n_long
    places = _places(L, n, longest, T)
    counts = np.zeros((T, 3, n))  # of B, I and E
    transitions[L, :L] += arcs[:L]
    for d in range(1, min(T, longest) + 1):
        at, width = _of_length(places, d, L, n)
        p, rows = arcs[at], r0 + places.rows[d - 1 :] + d - 1
        segment[rows, :width], segment[rows, width:] = p, 0
        if d == 1:
            state[t0 : t0 + T, 3 * n : 3 * n + L] = p
        else:
            counts[: T - d + 1, 0] += p
            counts[d - 1 :, 2] += p
    _count_inner(counts)
    state[t0 : t0 + T, : 3 * n] = counts.reshape(T, 3 * n)
    state[t0 : t0 + T, 3 * n + L :] = 0
    transitions[:L, :L] += arcs[places.transitions[:, None] + np.arange(L * L)].sum(axis=0).reshape(L, L)


def _count_inner(counts: Array) -> None:
    """Fill the counts of I from those of B and E [.., T, 3, n]: segments that began before a token and go on."""
    counts[..., 1:, 1, :] = counts[..., :-1, 0, :]
    counts[..., 1, :] -= counts[..., 2, :]
    np.cumsum(counts[..., 1, :], axis=-2, out=counts[..., 1, :])


# -- batches ----------------------------------------------------------------------------------------------------------


class _Batch:
    """Sentences in the order of their lengths, the longest first."""

    def __init__(self, offsets: Array, L: int, n: int, longest: int):
        lengths = np.diff(offsets)
        order = np.argsort(-lengths, kind="stable")
        self.L, self.n, self.longest = L, n, longest
        self.lengths = lengths[order][lengths[order] > 0]
        self.N, self.T = len(self.lengths), int(self.lengths.max(initial=0))
        self.first = (offsets[:-1] - offsets[0])[order][: self.N]  # the first token of each
        self.sizes = np.minimum(np.arange(1, self.T + 1), longest)  # the segments that end with each token
        self.rows = np.append(0, np.cumsum(self.sizes))  # the rows before them
        starts = np.cumsum(np.append(0, self.rows[lengths]))[:-1]
        self.first_row = starts[order][: self.N]
        self.going = np.searchsorted(-self.lengths, -np.arange(self.T + 1), side="left")  # longer than p tokens
        self.inside = np.arange(self.T) < self.lengths[:, None]  # [N, T]
        self.token = np.where(self.inside, self.first[:, None] + np.arange(self.T), 0)

    def rows_at(self, p: int) -> Array:
        """The rows of the segments that end before p, of all sentences that have them [going, lengths]."""
        rows: Array = (self.first_row[: self.going[p - 1], None] + self.rows[p - 1]) + np.arange(self.sizes[p - 1])
        return rows

    def roles(self, state: Array) -> "_Roles":
        """The scores of the tokens by sentence, so that scores of segments are sums of three of them."""
        L, n = self.L, self.n
        rows = state[self.token].astype(np.float64)  # [N, T, R]
        inner = np.cumsum(rows[:, :, n : 2 * n], axis=1)
        begin = rows[:, :, :n] - inner
        end = rows[:, :, 2 * n : 3 * n]
        end[:, 1:] += inner[:, :-1]
        return _Roles(begin, end, rows[:, :, 3 * n : 3 * n + L])

    def segment_scores(self, roles: "_Roles", segment: Array | None, p: int, missing: float) -> Array:
        """The scores of the segments that end before p [going, lengths, L]; `missing` for those that cannot be."""
        g, D, n = int(self.going[p - 1]), int(self.sizes[p - 1]), self.n
        scores = np.zeros((g, D, self.L))
        if segment is not None:
            scores[:] = segment[self.rows_at(p), : self.L]
        scores[:, 0] += roles.single[:g, p - 1]
        if D > 1:
            scores[:, 1:, :n] += roles.begin[:g, p - D : p - 1][:, ::-1] + roles.end[:g, p - 1, None]
            scores[:, 1:, n:] = missing
        return scores


class _Roles(NamedTuple):
    """Scores of tokens [N, T, types]."""

    begin: Array  # as the first token of a segment, less all inner ones up to it
    end: Array  # as the last token, and all inner ones before it
    single: Array


class _Sums(NamedTuple):
    """Sums over all paths: conditional, then plain probabilities of arcs."""

    segments: list[Array]  # [T] of [going, lengths, L]  that end with each token
    transitions: list[Array]  # [T-1] of [going, L, L]  after it
    ends: Array  # [N, T, L]  P(a segment ends with this token)
    begins: Array  # [N, T, L]  P(a segment begins with it)
    log_z: Array  # [N]


def _normalised(scores: Array) -> tuple[Array, Array]:
    """exp(scores) made to sum to one along axis 1, in place, and the logarithms of the sums."""
    top = scores.max(axis=1)
    top[top == -np.inf] = 0.0
    scores -= top[:, None]
    np.exp(scores, out=scores)
    total = scores.sum(axis=1)
    with np.errstate(divide="ignore"):
        logs = top + np.log(total)
    total[total == 0.0] = 1.0
    scores /= total[:, None]
    return scores, logs


def _forward(batch: _Batch, roles: _Roles, segment: Array, transition: Array) -> _Sums:
    """The conditional probabilities of all arcs given the node that they lead to."""
    L, N, T = batch.L, batch.N, batch.T
    begin, end = np.empty((N, T, L)), np.empty((N, L))
    begin[:, 0] = transition[L, :L]
    segments, transitions = [], []
    ends, log_z = np.zeros((N, T, L)), np.empty(N)
    for p in range(1, T + 1):
        scores = batch.segment_scores(roles, segment, p, -np.inf)
        g, D = scores.shape[:2]
        scores += begin[:g, p - D : p][:, ::-1]
        weights, end = _normalised(scores)
        segments.append(weights)
        on = int(batch.going[p])
        if on < g:
            last, sums = _normalised(end[on:].copy())
            ends[on:g, p - 1], log_z[on:g] = last, sums
        if on:
            weights, begin[:on, p] = _normalised(end[:on, :, None] + transition[:L, :L])
            transitions.append(weights)
    return _Sums(segments, transitions, ends, np.zeros((N, T, L)), log_z)


def _backward(batch: _Batch, sums: _Sums) -> None:
    """Make the conditional probabilities those of arcs, and fill those of nodes."""
    for p in range(batch.T, 0, -1):
        on = int(batch.going[p])
        if on:
            arcs = sums.transitions[p - 1]
            arcs *= sums.begins[:on, p, None]
            sums.ends[:on, p - 1] = arcs.sum(axis=2)
        arcs = sums.segments[p - 1]
        g, D = arcs.shape[:2]
        arcs *= sums.ends[:g, p - 1, None]
        sums.begins[:g, p - D : p] += arcs[:, ::-1]


def _counts_of(batch: _Batch, segments: list[Array], state: Array, segment: Array) -> None:
    """Write numbers on arcs of segments into the rows of tokens and segments."""
    L, n = batch.L, batch.n
    counts, single = np.zeros((batch.N, batch.T, 3, n)), np.zeros((batch.N, batch.T, L))
    for p, arcs in enumerate(segments, 1):
        g, D = arcs.shape[:2]
        segment[batch.rows_at(p), :L] = arcs
        single[:g, p - 1] = arcs[:, 0]
        if D > 1:
            long = arcs[:, 1:, :n]
            counts[:g, p - D : p - 1, 0] += long[:, ::-1]
            counts[:g, p - 1, 2] = long.sum(axis=1)
    segment[:, L:] = 0
    _count_inner(counts)
    rows = np.concatenate([counts.reshape(batch.N, batch.T, 3 * n), single], axis=2)
    state[batch.token[batch.inside], : 3 * n + L] = rows[batch.inside]
    state[:, 3 * n + L :] = 0


class _Gold(NamedTuple):
    """The gold segments of a batch."""

    row: Array
    kind: Array
    before: Array  # the type before it; L at the beginning
    first: Array  # its first token
    last: Array


def _gold_of(gold: Array, offsets: Array, L: int, longest: int) -> _Gold:
    lengths = np.diff(offsets)
    begins = np.repeat(offsets[:-1] - offsets[0], lengths)
    sizes = np.minimum(np.arange(len(begins)) - begins + 1, longest)
    starts = np.cumsum(sizes) - sizes
    row = np.flatnonzero(gold >= 0)
    last = np.searchsorted(starts, row, side="right") - 1
    kind = gold[row].astype(np.int64)
    first = last - (row - starts[last])
    before = np.append(L, kind[:-1])[: len(kind)]
    return _Gold(row, kind, np.where(first == begins[last], L, before), first, last)


def _gold_score(gold: _Gold, state: Array, segment: Array, transition: Array, n: int) -> float:
    """The score of the gold segments and of the transitions before them."""
    row, kind, before, first, last = gold
    total = segment[row, kind].astype(np.float64) + transition[before, kind]
    one = first == last
    total[one] += state[last[one], 3 * n + kind[one]]
    long = ~one
    i, j, x = first[long], last[long], kind[long]
    inner = np.concatenate([np.zeros((1, n)), np.cumsum(state[:, n : 2 * n], axis=0, dtype=np.float64)])
    between: Array = inner[j, x] - inner[i + 1, x]
    total[long] += state[i, x].astype(np.float64) + state[j, 2 * n + x] + between
    return float(total.sum())


def _subtract_gold(gold: _Gold, sums: "_Rows", share: float, n: int) -> None:
    """Subtract the gold segments, `share` times, from the rows and transitions."""
    row, kind, before, first, last = gold
    state, segment, transitions = sums
    segment[row, kind] -= share
    np.subtract.at(transitions, (before, kind), share)
    one, long = first == last, first < last
    state[last[one], 3 * n + kind[one]] -= share
    state[first[long], kind[long]] -= share
    state[last[long], 2 * n + kind[long]] -= share
    sizes = np.maximum(last - first - 1, 0)
    ends = np.cumsum(sizes)
    token = np.arange(sizes.sum()) + np.repeat(first + 1 - ends + sizes, sizes)
    state[token, n + np.repeat(kind, sizes)] -= share


class _Rows(NamedTuple):
    state: Array
    segment: Array
    transitions: Array


def expectations(
    state: Array, segment: Array, transition: Array, n_long: int, longest: int, offsets: Array, gold: Array,
    source: Array, target: Array, share: float, gains: Array, transitions: Array,
) -> float:  # fmt: skip
    """Replace the scores in the rows of tokens and segments of some sentences by expected minus observed counts, add
    those of transitions to transitions [L+1, L+1], and return the loss: the sum of log Z - score of the gold segments.

    Loss and counts are taken `share` times; gains [T, R] (or none) of the roles of tokens add their covariances with
    every arc.  source and target [A] are not needed here."""
    L, n = transition.shape[0] - 1, n_long
    batch = _Batch(offsets, L, n, longest)
    if not batch.N:
        return 0.0
    wanted = _gold_of(gold, offsets, L, longest)
    loss = -_gold_score(wanted, state, segment, transition, n)
    sums = _forward(batch, batch.roles(state), segment, transition)
    conditional = sums
    if len(gains):
        segments, follows = ([arcs.copy() for arcs in part] for part in (sums.segments, sums.transitions))
        conditional = sums._replace(segments=segments, transitions=follows)
    _backward(batch, sums)
    first = sums.begins[:, 0]
    if len(gains):
        first = _add_covariances(batch, sums, conditional, batch.roles(gains), share)
    elif share != 1:
        for arcs in (*sums.segments, *sums.transitions):
            arcs *= share
        first = share * first
    _counts_of(batch, sums.segments, state, segment)
    transitions[L, :L] += first.sum(axis=0)
    for arcs in sums.transitions:
        transitions[:L, :L] += arcs.sum(axis=0)
    _subtract_gold(wanted, _Rows(state, segment, transitions), share, n)
    return share * (loss + float(sums.log_z.sum()))


def _add_covariances(batch: _Batch, sums: _Sums, conditional: _Sums, gains: _Roles, share: float) -> Array:
    """Make of P(e), for all arcs, share * P(e) + Cov(G, 1_e), where G is the sum of the gains over a path: the
    recurrences of kernels.dag.covariances.  Returns that of the arcs from the beginning [N, L].

    conditional has the probabilities of arcs that `_forward` makes."""
    N, T, L = batch.N, batch.T, batch.L
    begin, end, gained = np.zeros((N, T, L)), np.zeros((N, T, L)), []
    for p in range(1, T + 1):
        gain = batch.segment_scores(gains, None, p, 0.0)
        g, D = gain.shape[:2]
        gain += begin[:g, p - D : p][:, ::-1]  # the gain up to here
        gained.append(gain)
        end[:g, p - 1] = (conditional.segments[p - 1] * gain).sum(axis=1)
        on = int(batch.going[p])
        if on:
            begin[:on, p] = (conditional.transitions[p - 1] * end[:on, p - 1, :, None]).sum(axis=1)
    last = np.arange(N), batch.lengths - 1
    mean = (sums.ends[last] * end[last]).sum(axis=1)
    after_end, after_begin = np.zeros((N, T, L)), np.zeros((N, T, L))
    after_end[last] = end[last] - mean[:, None]
    for p in range(T, 0, -1):
        on = int(batch.going[p])
        if on:
            arcs, here = sums.transitions[p - 1], sums.ends[:on, p - 1]
            surprise = end[:on, p - 1, :, None] - (begin[:on, p] - after_begin[:on, p])[:, None]
            surprise *= arcs
            after_end[:on, p - 1] = np.divide(surprise.sum(axis=2), here, out=np.zeros_like(here), where=here > TINY)
            arcs *= share
            arcs += surprise
        arcs, surprise = sums.segments[p - 1], gained[p - 1]
        g, D = arcs.shape[:2]
        surprise += (after_end[:g, p - 1] - end[:g, p - 1])[:, None]
        surprise *= arcs
        here = sums.begins[:g, p - D : p]
        after_begin[:g, p - D : p] += np.divide(surprise[:, ::-1], here, out=np.zeros_like(here), where=here > TINY)
        arcs *= share
        arcs += surprise
    first: Array = sums.begins[:, 0] * (share + after_begin[:, 0])
    return first


# -- phrases ----------------------------------------------------------------------------------------------------------


def phrase_ends(
    word: Array, offsets: Array, longest: int, n_words: int, edge: Array, node_of_edge: Array, marked: Array,
    ends: Array,
) -> None:  # fmt: skip
    """Fill for every row of segments the node of a tree of phrases that its words lead to; 0 where that is not marked.

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
        alive = (word[token] >= 0) & (edge.take(at, mode="clip") == asked) if len(edge) else np.zeros(len(at), np.bool_)
        start, node = start[alive], node_of_edge[at[alive]].astype(np.int64)
        if not len(start):
            return
        here = marked[node]
        ends[row[start[here] + length - 1] + length - 1] = node[here]
        alive = start + length < left[start]
        start, node = start[alive], node[alive]
