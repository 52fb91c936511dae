"""Segments of sentences in NumPy: the arcs of one sentence at once."""

import numpy as np

from labelwright.kernels.segments import of_length, places_of


def arc_scores(state, t0, segment, r0, transition, n_types, n_long, longest, T, inner, score):
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
