"""Sums, best paths and samples of one directed acyclic graph, arc by arc.

Arcs source[e] -> target[e] stand in topological order: all arcs into a node before all arcs out of
it, so that one loop over the arcs, forwards or backwards, is one pass over the graph.  A path runs
from one of the nodes `sources` to one of `sinks`; its score is the sum of those of its arcs, and
minus infinity forbids.  With the best score of any path to v,

    phi(v) = max_{e=(u,v)} phi(u) + score_e      0 at a source
    psi_e = exp(score_e + phi(u) - phi(v)) <= 1
    alpha(v) = sum_{e=(u,v)} psi_e alpha(u)      1 at a source; never below 1 where there is a path
    beta(u) = sum_{e=(u,v)} psi_e beta(v)        exp(phi(v) - best) at a sink
    log Z = best + log sum_{sinks} alpha(v) beta(v);   P(e) = alpha(u) psi_e beta(v) / Z

so that one exponential per arc is enough, and only the number of paths can be too large: then
everything is computed in log space.  A graph without any path has log Z = -inf and P(e) = 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import kernel, literal_kernel
from labelwright.kernels.common import LARGE64, pop, push

Array = NDArray[Any]
TINY = 1e-290  # a probability below this counts as 0 where others are divided by it
DONE, FULL = 0, 1  # how a search ends
MADE, SIZE, TAKEN, USED = 0, 1, 2, 3  # places in its counters


def _runs(source, target, n_nodes):
    """The arcs cut into runs: pieces of their order in which no arc leads out of a node that
    another arc of the run leads into, so that NumPy looks at them together.  The graph of a
    sentence's segments has two for each token."""
    A = len(source)
    last_in = np.full(n_nodes, -1, np.int64)
    last_in[target] = np.arange(A)  # the last one stays
    # the last arc that must be done before arcs up to this one
    ready = np.maximum.accumulate(last_in[source])
    cuts, begin = [], 0
    while begin < A:
        end = int(ready.searchsorted(begin))
        cuts.append(slice(begin, end))
        begin = end
    return cuts


@kernel
def best_scores(source, target, score, sources, phi):
    """phi [Q]: the best score of any path to each node; minus infinity where there is none."""
    for v in range(phi.shape[0]):
        phi[v] = -np.inf
    for i in range(sources.shape[0]):
        phi[sources[i]] = 0.0
    for e in range(source.shape[0]):
        phi[target[e]] = max(phi[target[e]], phi[source[e]] + score[e])


@best_scores.in_numpy
def _(source, target, score, sources, phi):
    phi[:] = -np.inf
    phi[sources] = 0.0
    for run in _runs(source, target, len(phi)):
        np.maximum.at(phi, target[run], phi[source[run]] + score[run])


@kernel
def viterbi(source, target, score, sources, sinks, phi, back, path):
    """Write the best path into the last places of path [Q]; returns its number of arcs and its
    score.

    phi and back [Q] are scratch; the first of equal arcs or sinks wins.  Without any path: no arcs,
    minus infinity."""
    for v in range(phi.shape[0]):
        phi[v] = -np.inf
        back[v] = -1
    for i in range(sources.shape[0]):
        phi[sources[i]] = 0.0
    for e in range(source.shape[0]):
        s = phi[source[e]] + score[e]
        if s > phi[target[e]]:
            phi[target[e]] = s
            back[target[e]] = e
    best, at = -np.inf, -1
    for i in range(sinks.shape[0]):
        if phi[sinks[i]] > best:
            best, at = phi[sinks[i]], sinks[i]
    n = 0
    if at >= 0:
        e = back[at]
        while e >= 0:
            n += 1
            path[path.shape[0] - n] = e
            e = back[source[e]]
    return n, best


@viterbi.in_numpy
def _(source, target, score, sources, sinks, phi, back, path):
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


@literal_kernel
def posteriors(source, target, score, sources, sinks, phi, alpha, beta, arcs):
    """Fill arcs [A] with P(arc) and return log Z; phi, alpha and beta [Q] are scratch."""
    best_scores(source, target, score, sources, phi)
    best = -np.inf
    for i in range(sinks.shape[0]):
        best = max(best, phi[sinks[i]])
    if best == -np.inf:
        arcs[:] = 0.0
        return best
    for v in range(phi.shape[0]):
        alpha[v] = beta[v] = 0.0
    for i in range(sources.shape[0]):
        alpha[sources[i]] = 1.0
    largest = 0.0
    for e in range(source.shape[0]):
        u, v = source[e], target[e]
        s = score[e] + phi[u]
        arcs[e] = np.exp(s - phi[v]) if s > -np.inf else 0.0
        alpha[v] += arcs[e] * alpha[u]
        largest = max(largest, alpha[v])
    if not largest < LARGE64:  # what underflows in psi or beta adds at most alpha times its size
        return posteriors_in_log_space(
            source, target, score, sources, sinks, phi, alpha, beta, arcs
        )
    z = 0.0
    for i in range(sinks.shape[0]):
        v = sinks[i]
        beta[v] = np.exp(phi[v] - best)
        z += alpha[v] * beta[v]
    one = 1 / z
    for e in range(source.shape[0] - 1, -1, -1):
        u = source[e]
        p = arcs[e] * beta[target[e]]
        beta[u] += p
        arcs[e] = alpha[u] * p * one
    return best + np.log(z)


@posteriors.in_numpy
def _(source, target, score, sources, sinks, phi, alpha, beta, arcs):
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
        return posteriors_in_log_space(
            source, target, score, sources, sinks, phi, alpha, beta, arcs
        )
    beta[sinks] = np.exp(phi[sinks] - best)
    z = float(alpha[sinks] @ beta[sinks])
    for run in reversed(runs):
        arcs[run] *= beta[target[run]]
        np.add.at(beta, source[run], arcs[run])
    arcs *= alpha[source] / z
    return best + float(np.log(z))


@literal_kernel
def _log_add(x, y):
    """log(exp(x) + exp(y))."""
    top = max(x, y)
    return top + np.log1p(np.exp(min(x, y) - top)) if top > -np.inf else top


@literal_kernel
def posteriors_in_log_space(source, target, score, sources, sinks, phi, alpha, beta, arcs):
    """As `posteriors`, where the number of paths is too large for a float: alpha and beta become
    logarithms."""
    best_scores(source, target, score, sources, phi)
    best = -np.inf
    for v in range(alpha.shape[0]):
        alpha[v] = beta[v] = -np.inf
    for i in range(sources.shape[0]):
        alpha[sources[i]] = 0.0
    for i in range(sinks.shape[0]):
        best = max(best, phi[sinks[i]])
    if best == -np.inf:
        arcs[:] = 0.0
        return best
    for i in range(sinks.shape[0]):
        beta[sinks[i]] = phi[sinks[i]] - best
    for e in range(source.shape[0]):
        u, v = source[e], target[e]
        s = score[e] + phi[u]
        arcs[e] = s - phi[v] if s > -np.inf else s
        alpha[v] = _log_add(alpha[v], alpha[u] + arcs[e])
    log_z = -np.inf
    for i in range(sinks.shape[0]):
        log_z = _log_add(log_z, alpha[sinks[i]] + beta[sinks[i]])
    for e in range(source.shape[0] - 1, -1, -1):
        u, s = source[e], arcs[e] + beta[target[e]]
        arcs[e] = np.exp(min(0.0, alpha[u] + s - log_z))
        beta[u] = _log_add(beta[u], s)
    return best + log_z


@kernel
def covariances(source, target, sinks, arcs, gain, into, out, before, after, cov):
    """Fill cov [A] with Cov(G, 1_e), where G is the sum of gain [A] over a path, and return E[G].

    arcs [A] is P(arc) from `posteriors`; into, out, before and after [Q] are scratch.  The
    derivative of forward-backward, with alpha'/alpha and beta'/beta in place of alpha' and beta',
    which have no bounds:

        before(v) = E[gain up to v | v] = sum_{e=(u,v)} P(e | v) (before(u) + gain_e)
        surprise_e = before(u) + gain_e - before(v)
        after(u) = sum_{e=(u,v)} P(e | u) (surprise_e + after(v))    before(v) - E[G] at a sink
        Cov(G, 1_e) = P(e) (E[G | e] - E[G]) = P(e) (surprise_e + after(v))

    What all paths have in common cancels in the surprise: large sums of gains are subtracted once,
    at v."""
    for v in range(before.shape[0]):
        into[v] = out[v] = before[v] = after[v] = 0.0
    # the probability that a path comes into, and that it goes out of each node
    for e in range(source.shape[0]):
        out[source[e]] += arcs[e]
        into[target[e]] += arcs[e]
    for e in range(source.shape[0]):
        if arcs[e] > TINY:
            before[target[e]] += arcs[e] / into[target[e]] * (before[source[e]] + gain[e])
    mean, total = 0.0, 0.0
    for i in range(sinks.shape[0]):
        mean += into[sinks[i]] * before[sinks[i]]
        total += into[sinks[i]]
    mean = mean / total if total > 0 else 0.0
    for i in range(sinks.shape[0]):
        after[sinks[i]] = before[sinks[i]] - mean
    for e in range(source.shape[0] - 1, -1, -1):
        cov[e] = 0.0
        if arcs[e] > TINY:
            u, v = source[e], target[e]
            surprise = before[u] + gain[e] - before[v] + after[v]
            after[u] += arcs[e] / out[u] * surprise
            cov[e] = arcs[e] * surprise
    return mean


@kernel
def draw(target, is_sink, arcs, ptr, leaving, uniform, paths, lengths):
    """Draw paths [n, longest] (arcs; lengths [n] has their number, 0 where none can be drawn) from
    P(arc) [A] with numbers uniform in 0..1.

    leaving[ptr[v]:ptr[v+1]] are the arcs out of node v; the last group has those out of all
    sources."""
    for i in range(paths.shape[0]):
        group = ptr.shape[0] - 2
        n = 0
        while True:
            total = 0.0
            for k in range(ptr[group], ptr[group + 1]):
                total += arcs[leaving[k]]
            left = uniform[i, n] * total
            chosen = -1
            for k in range(ptr[group], ptr[group + 1]):
                p = arcs[leaving[k]]
                if p > 0:  # rounding may leave a little after the last arc, which is then taken
                    chosen = leaving[k]
                    left -= p
                    if left < 0:
                        break
            if chosen < 0:  # all arcs onwards have underflowed
                n = 0
                break
            paths[i, n] = chosen
            n += 1
            group = target[chosen]
            if is_sink[group]:
                break
        lengths[i] = n


@literal_kernel
def best_paths(source, score, is_source, phi, ptr, entering, pool, paths, scores, bounds):
    """The best paths in order, until scores [n] is full or there are no more (DONE); FULL: pool or
    paths must grow.

    A* from the sinks backwards as in kernels.paths: phi [Q] completes every suffix exactly.  A
    suffix that leaves the queue puts in its next best sibling and its own best extension.
    entering[ptr[v]:ptr[v+1]] are the arcs into node v; the last group has those into all sinks.
    Path i is paths[bounds[i]:bounds[i+1]]."""
    priority, arcs, parents, heap, counts = pool
    begin = counts[MADE] == 0
    while counts[TAKEN] < scores.shape[0] and (begin or counts[SIZE] > 0):
        if counts[MADE] + 2 > heap.shape[0] or counts[USED] + phi.shape[0] > paths.shape[0]:
            return FULL
        i = -1
        if not begin:
            i = pop(priority, arcs, heap, counts[SIZE])  # of equals the one nearer to a source
            counts[SIZE] -= 1
        for extending in range(2):
            if not extending:  # the next best sibling of i
                parent = parents[i] if i >= 0 else -1
                after = arcs[i] if i >= 0 else -1
                worse = phi[source[after]] + score[after] if i >= 0 else np.inf
            else:  # the best extension of i
                if i < 0 or is_source[source[arcs[i]]]:
                    continue
                parent, worse, after = i, np.inf, -1
            group = source[arcs[parent]] if parent >= 0 else ptr.shape[0] - 2
            best, chosen = -np.inf, -1
            for k in range(ptr[group], ptr[group + 1]):
                e = entering[k]
                s = phi[source[e]] + score[e]
                if s > best and (s < worse or (s == worse and e > after)):
                    best, chosen = s, e
            if chosen < 0:
                continue
            new = counts[MADE]
            if i < 0:
                priority[new] = best
            else:
                priority[new] = priority[i] if extending else priority[i] - (worse - best)
            arcs[new], parents[new] = chosen, parent
            counts[MADE] = new + 1
            push(priority, arcs, heap, counts[SIZE], new)
            counts[SIZE] += 1
        begin = False
        if i >= 0 and is_source[source[arcs[i]]]:
            scores[counts[TAKEN]] = priority[i]
            at = i
            while at >= 0:
                paths[counts[USED]] = arcs[at]
                counts[USED] += 1
                at = parents[at]
            counts[TAKEN] += 1
            bounds[counts[TAKEN]] = counts[USED]
    return DONE


# -- in NumPy alone --------------------------------------------------------------------------------


def entropy(source: Array, sources: Array, arcs: Array) -> float:
    """The entropy of all paths in nats, from P(arc) [A]: that of the choice of a source, and of
    every choice of an arc."""
    out = np.bincount(source, arcs)
    first, likely = out[sources[sources < len(out)]], arcs > TINY
    first, p = first[first > 0], arcs[likely]
    return max(
        0.0,
        -float((first * np.log(first)).sum()) - float((p * np.log(p / out[source[likely]])).sum()),
    )
