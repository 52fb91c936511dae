"""Sums and best paths of one directed acyclic graph in NumPy, many arcs at a time.

Arcs stand in topological order.  A run is a piece of that order in which no arc leads out of a node that another arc of
the run leads into: its arcs are looked at together.  The graph of a sentence's segments has two runs for each token.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels.common import LARGE64

Array = NDArray[Any]
TINY = 1e-290  # as in kernels.dag


def _runs(source: Array, target: Array, n_nodes: int) -> list[slice]:
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


def best_scores(source: Array, target: Array, score: Array, sources: Array, phi: Array) -> None:
    """phi [Q]: the best score of any path to each node; minus infinity where there is none."""
    phi[:] = -np.inf
    phi[sources] = 0.0
    for run in _runs(source, target, len(phi)):
        np.maximum.at(phi, target[run], phi[source[run]] + score[run])


def viterbi(
    source: Array, target: Array, score: Array, sources: Array, sinks: Array, phi: Array, back: Array, path: Array
) -> tuple[int, float]:
    """Write the best path into the last places of path [Q]; returns its number of arcs and its score.

    phi and back [Q] are scratch; the first of equal arcs or sinks wins.  Without any path: no arcs, minus infinity."""
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


def posteriors(
    source: Array, target: Array, score: Array, sources: Array, sinks: Array, phi: Array, alpha: Array, beta: Array,
    arcs: Array,
) -> float:  # fmt: skip
    """Fill arcs [A] with P(arc) and return log Z; phi, alpha and beta [Q] are scratch."""
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


def posteriors_in_log_space(
    source: Array, target: Array, score: Array, sources: Array, sinks: Array, phi: Array, alpha: Array, beta: Array,
    arcs: Array,
) -> float:  # fmt: skip
    """As `posteriors`, where the number of paths is too large for a float: alpha and beta become logarithms."""
    best_scores(source, target, score, sources, phi)
    best = float(phi[sinks].max(initial=-np.inf))
    alpha[:], beta[:] = -np.inf, -np.inf
    if best == -np.inf:
        arcs[:] = 0.0
        return best
    alpha[sources], beta[sinks] = 0.0, phi[sinks] - best
    s = score + phi[source]
    possible = s > -np.inf
    arcs[:] = np.where(possible, s - np.where(possible, phi[target], 0.0), -np.inf)
    runs = _runs(source, target, len(alpha))
    for run in runs:
        np.logaddexp.at(alpha, target[run], alpha[source[run]] + arcs[run])
    log_z = float(np.logaddexp.reduce(alpha[sinks] + beta[sinks]))
    for run in reversed(runs):
        s = arcs[run] + beta[target[run]]
        arcs[run] = np.exp(np.minimum(0.0, alpha[source[run]] + s - log_z))
        np.logaddexp.at(beta, source[run], s)
    return best + log_z


def node_probabilities(source: Array, target: Array, arcs: Array, into: Array, out: Array) -> None:
    """into, out [Q]: the probability that a path comes into, and that it goes out of each node."""
    into[:] = np.bincount(target, arcs, len(into))
    out[:] = np.bincount(source, arcs, len(out))


def covariances(
    source: Array, target: Array, sinks: Array, arcs: Array, gain: Array, into: Array, out: Array, before: Array,
    after: Array, cov: Array,
) -> float:  # fmt: skip
    """Fill cov [A] with Cov(G, 1_e), where G is the sum of gain [A] over a path, and return E[G] (kernels.dag has the
    recurrences)."""
    node_probabilities(source, target, arcs, into, out)
    before[:], after[:], cov[:] = 0.0, 0.0, 0.0
    likely = np.flatnonzero(arcs > TINY)
    u, v, p, gain = source[likely], target[likely], arcs[likely], gain[likely]
    share_in, share_out = p / into[v], p / out[u]
    runs = _runs(u, v, len(into))
    for run in runs:
        np.add.at(before, v[run], share_in[run] * (before[u[run]] + gain[run]))
    total = float(into[sinks].sum())
    mean = float(into[sinks] @ before[sinks]) / total if total > 0 else 0.0
    after[sinks] = before[sinks] - mean
    surprise = before[u] + gain - before[v]
    for run in reversed(runs):
        surprise[run] += after[v[run]]
        np.add.at(after, u[run], share_out[run] * surprise[run])
    cov[likely] = p * surprise
    return mean


def entropy(source: Array, target: Array, sources: Array, arcs: Array, into: Array, out: Array) -> float:
    """The entropy of all paths in nats, from P(arc) [A]: that of the choice of a source, and of every choice of an arc.

    into and out [Q] are scratch."""
    node_probabilities(source, target, arcs, into, out)
    first = out[sources]
    first = first[first > 0]
    likely = arcs > TINY
    p = arcs[likely]
    total = -float((first * np.log(first)).sum()) - float((p * np.log(p / out[source[likely]])).sum())
    return max(total, 0.0)
