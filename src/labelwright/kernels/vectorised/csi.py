"""The best labellings of many sentences in NumPy: only the recurrence of kernels.csi goes token by token, for all
sentences that have so many tokens.  Compiled code answers a request of one sentence in half of the time."""

import numpy as np

from labelwright.kernels.csi import TIE, arcs_of, sizes_of, targets_of

ARCS = 1 << 19  # of the sentences that are searched together


def best_labellings(proposals, begin, stop, allowed, scratch, value, labels, scores):
    offsets, n_arcs = proposals.offsets, sizes_of(proposals)[1]
    lengths = np.diff(offsets)
    scores[begin:stop] = 0.0
    waiting = begin + np.flatnonzero(lengths[begin:stop] > 0)
    while len(waiting):
        n = max(1, int(np.searchsorted(np.cumsum(n_arcs[waiting]), ARCS, side="right")))
        these = waiting[:n][np.argsort(-lengths[waiting[:n]], kind="stable")]
        _label(proposals, allowed, these, labels, scores)
        waiting = waiting[n:]


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
