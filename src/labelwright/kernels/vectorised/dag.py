"""Sums and best paths of one directed acyclic graph in NumPy, many arcs at a time.

Arcs stand in topological order.  A run is a piece of that order in which no arc leads out of a node that another arc of
the run leads into: its arcs are looked at together.  The graph of a sentence's segments has two runs for each token.
"""

import numpy as np

from labelwright.kernels.common import LARGE64
from labelwright.kernels.dag import posteriors_in_log_space


def _runs(source, target, n_nodes):
    """The arcs cut into runs."""
    A = len(source)
    last_in = np.full(n_nodes, -1, np.int64)
    last_in[target] = np.arange(A)  # the last one stays
    ready = np.maximum.accumulate(last_in[source])  # the last arc that must be done before arcs up to this one
    cuts, begin = [], 0
    while begin < A:
        end = int(ready.searchsorted(begin))
        cuts.append(slice(begin, end))
        begin = end
    return cuts


def best_scores(source, target, score, sources, phi):
    phi[:] = -np.inf
    phi[sources] = 0.0
    for run in _runs(source, target, len(phi)):
        np.maximum.at(phi, target[run], phi[source[run]] + score[run])


def viterbi(source, target, score, sources, sinks, phi, back, path):
    phi[:], back[:] = -np.inf, -1
    phi[sources] = 0.0
    for run in _runs(source, target, len(phi)):
        to = target[run]
        s = phi[source[run]] + score[run]
        before = phi[to]
        np.maximum.at(phi, to, s)
        better = np.flatnonzero((s == phi[to]) & (s > before))[::-1]
        back[to[better]] = better + run.start  # the last one stays: the first arc
    if not len(sinks) or phi[sinks].max() == -np.inf:
        return 0, -np.inf
    at = int(sinks[phi[sinks].argmax()])
    n, e = 0, int(back[at])
    while e >= 0:
        n += 1
        path[len(path) - n] = e
        e = int(back[source[e]])
    return n, float(phi[at])


def posteriors(source, target, score, sources, sinks, phi, alpha, beta, arcs):
    best_scores(source, target, score, sources, phi)
    best = float(phi[sinks].max(initial=-np.inf))
    if best == -np.inf:
        arcs[:] = 0.0
        return best
    s = score + phi[source]
    possible = s > -np.inf
    arcs[:] = np.exp(np.where(possible, s - np.where(possible, phi[target], 0.0), -np.inf))
    alpha[:], beta[:] = 0.0, 0.0
    alpha[sources] = 1.0
    runs = _runs(source, target, len(phi))
    with np.errstate(over="ignore", invalid="ignore"):
        for run in runs:
            np.add.at(alpha, target[run], arcs[run] * alpha[source[run]])
    if not alpha.max() < LARGE64:
        return posteriors_in_log_space(source, target, score, sources, sinks, phi, alpha, beta, arcs)
    beta[sinks] = np.exp(phi[sinks] - best)
    z = float(alpha[sinks] @ beta[sinks])
    for run in reversed(runs):
        arcs[run] *= beta[target[run]]
        np.add.at(beta, source[run], arcs[run])
    arcs *= alpha[source] / z
    return best + float(np.log(z))
