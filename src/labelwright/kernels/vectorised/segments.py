"""Segments of sentences in NumPy: the arcs of one sentence at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels.segments import of_length, places_of

Array = NDArray[Any]


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


def arc_counts(
    arcs: Array, n_types: int, n_long: int, longest: int, T: int, inner: Array, state: Array, t0: int, segment: Array,
    r0: int, transitions: Array,
) -> None:  # fmt: skip
    """The adjoint of arc_scores: numbers on arcs [A] fill the rows of tokens and segments, and are added to
    transitions."""
    L, n = n_types, n_long
    places = places_of(L, n, longest, T)
    counts = np.zeros((T, 3, n))  # of B, I and E
    transitions[L, :L] += arcs[:L]
    for d in range(1, min(T, longest) + 1):
        at, width = of_length(places, d, L, n)
        p, rows = arcs[at], r0 + places.rows[d - 1 :] + d - 1
        segment[rows, :width], segment[rows, width:] = p, 0
        if d == 1:
            state[t0 : t0 + T, 3 * n : 3 * n + L] = p
        else:
            counts[: T - d + 1, 0] += p
            counts[d - 1 :, 2] += p
    counts[1:, 1] = counts[:-1, 0]  # I: segments that began before a token and go on
    counts[:, 1] -= counts[:, 2]
    np.cumsum(counts[:, 1], axis=0, out=counts[:, 1])
    state[t0 : t0 + T, : 3 * n] = counts.reshape(T, 3 * n)
    state[t0 : t0 + T, 3 * n + L :] = 0
    transitions[:L, :L] += arcs[places.transitions[:, None] + np.arange(L * L)].sum(axis=0).reshape(L, L)
