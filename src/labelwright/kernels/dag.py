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

import cython
from cython.cimports.labelwright.kernels.common import pop, push
from cython.cimports.libc.math import INFINITY, exp, log, log1p

# Above this, what underflows in psi or beta might count.
LARGEST_SUM = 1e280
# A probability below this counts as 0 where others are divided by it.
TINY = 1e-290
# Places in the counters of an ArcPool.
MADE = 0
SIZE = 1
TAKEN = 2
USED = 3


def best_scores(source, target, score, sources, phi):
    """phi [Q]: the best score of any path to each node; minus infinity where there is none."""
    with cython.nogil:
        _best_scores(source, target, score, sources, phi)


def _best_scores(source, target, score, sources, phi):
    for v in range(phi.shape[0]):
        phi[v] = -INFINITY
    for i in range(sources.shape[0]):
        phi[sources[i]] = 0
    for e in range(source.shape[0]):
        s = phi[source[e]] + score[e]
        if s > phi[target[e]]:
            phi[target[e]] = s


def viterbi(source, target, score, sources, sinks, phi, back, path):
    """Write the best path into the last places of path [Q]; returns its number of arcs and its
    score.

    phi and back [Q] are scratch; the first of equal arcs or sinks wins.  Without any path: no arcs,
    minus infinity."""
    with cython.nogil:
        for v in range(phi.shape[0]):
            phi[v] = -INFINITY
            back[v] = -1
        for i in range(sources.shape[0]):
            phi[sources[i]] = 0
        for e in range(source.shape[0]):
            s = phi[source[e]] + score[e]
            if s > phi[target[e]]:
                phi[target[e]] = s
                back[target[e]] = e
        best = -INFINITY
        at = -1
        for i in range(sinks.shape[0]):
            if phi[sinks[i]] > best:
                best = phi[sinks[i]]
                at = sinks[i]
        n = 0
        if at >= 0:
            arc = back[at]
            while arc >= 0:
                n += 1
                path[path.shape[0] - n] = arc
                arc = back[source[arc]]
        return n, best


def posteriors(source, target, score, sources, sinks, phi, alpha, beta, arcs):
    """Fill arcs [A] with P(arc) and return log Z; phi, alpha and beta [Q] are scratch."""
    with cython.nogil:
        return sum_paths(source, target, score, sources, sinks, phi, alpha, beta, arcs)


def sum_paths(source, target, score, sources, sinks, phi, alpha, beta, arcs):
    """As `posteriors`, for other kernels."""
    _best_scores(source, target, score, sources, phi)
    best = _best_of(phi, sinks)
    if best == -INFINITY:
        arcs[:] = 0
        return best
    alpha[:] = 0
    beta[:] = 0
    for i in range(sources.shape[0]):
        alpha[sources[i]] = 1
    largest = 0.0
    for e in range(source.shape[0]):
        u = source[e]
        v = target[e]
        s = score[e] + phi[u]
        arcs[e] = exp(s - phi[v]) if s > -INFINITY else 0
        alpha[v] += arcs[e] * alpha[u]
        if not alpha[v] <= largest:
            largest = alpha[v]
    if not largest < LARGEST_SUM:
        return _sum_in_log_space(source, target, score, sources, sinks, phi, alpha, beta, arcs)
    z = 0.0
    for i in range(sinks.shape[0]):
        v = sinks[i]
        beta[v] = exp(phi[v] - best)
        z += alpha[v] * beta[v]
    one = 1 / z
    for e in range(source.shape[0] - 1, -1, -1):
        u = source[e]
        p = arcs[e] * beta[target[e]]
        beta[u] += p
        arcs[e] = alpha[u] * p * one
    return best + log(z)


def _best_of(phi, sinks):
    """The best score of a whole path."""
    best = -INFINITY
    for i in range(sinks.shape[0]):
        if phi[sinks[i]] > best:
            best = phi[sinks[i]]
    return best


def _log_add(x, y):
    """log(exp(x) + exp(y))."""
    top = x if x > y else y
    low = y if x > y else x
    if top == -INFINITY:
        return top
    return top + log1p(exp(low - top))


def posteriors_in_log_space(source, target, score, sources, sinks, phi, alpha, beta, arcs):
    """As `posteriors`, where the number of paths is too large for a float: alpha and beta become
    logarithms."""
    with cython.nogil:
        return _sum_in_log_space(source, target, score, sources, sinks, phi, alpha, beta, arcs)


def _sum_in_log_space(source, target, score, sources, sinks, phi, alpha, beta, arcs):
    _best_scores(source, target, score, sources, phi)
    alpha[:] = -INFINITY
    beta[:] = -INFINITY
    for i in range(sources.shape[0]):
        alpha[sources[i]] = 0
    best = _best_of(phi, sinks)
    if best == -INFINITY:
        arcs[:] = 0
        return best
    for i in range(sinks.shape[0]):
        beta[sinks[i]] = phi[sinks[i]] - best
    for e in range(source.shape[0]):
        u = source[e]
        v = target[e]
        s = score[e] + phi[u]
        arcs[e] = s - phi[v] if s > -INFINITY else s
        alpha[v] = _log_add(alpha[v], alpha[u] + arcs[e])
    log_z = -INFINITY
    for i in range(sinks.shape[0]):
        log_z = _log_add(log_z, alpha[sinks[i]] + beta[sinks[i]])
    for e in range(source.shape[0] - 1, -1, -1):
        u = source[e]
        s = arcs[e] + beta[target[e]]
        p = alpha[u] + s - log_z
        arcs[e] = exp(p) if p < 0 else 1
        beta[u] = _log_add(beta[u], s)
    return best + log_z


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
    with cython.nogil:
        return fill_covariances(source, target, sinks, arcs, gain, into, out, before, after, cov)


def fill_covariances(source, target, sinks, arcs, gain, into, out, before, after, cov):
    """As `covariances`, for other kernels."""
    into[:] = 0
    out[:] = 0
    before[:] = 0
    after[:] = 0
    # The probability that a path comes into, and that it goes out of each node.
    for e in range(source.shape[0]):
        out[source[e]] += arcs[e]
        into[target[e]] += arcs[e]
    for e in range(source.shape[0]):
        if arcs[e] > TINY:
            before[target[e]] += arcs[e] / into[target[e]] * (before[source[e]] + gain[e])
    mean = 0.0
    total = 0.0
    for i in range(sinks.shape[0]):
        mean += into[sinks[i]] * before[sinks[i]]
        total += into[sinks[i]]
    mean = mean / total if total > 0 else 0
    for i in range(sinks.shape[0]):
        after[sinks[i]] = before[sinks[i]] - mean
    for e in range(source.shape[0] - 1, -1, -1):
        cov[e] = 0
        if arcs[e] > TINY:
            u = source[e]
            v = target[e]
            surprise = before[u] + gain[e] - before[v] + after[v]
            after[u] += arcs[e] / out[u] * surprise
            cov[e] = arcs[e] * surprise
    return mean


def draw(target, is_sink, arcs, ptr, leaving, uniform, paths, lengths):
    """Draw paths [n, longest] (arcs; lengths [n] has their number, 0 where none can be drawn) from
    P(arc) [A] with numbers uniform in 0..1.

    leaving[ptr[v]:ptr[v+1]] are the arcs out of node v; the last group has those out of all
    sources."""
    with cython.nogil:
        for i in range(paths.shape[0]):
            group = ptr.shape[0] - 2
            n = 0
            while True:
                arc = _draw_arc(arcs, leaving, ptr[group], ptr[group + 1], uniform[i, n])
                if arc < 0:  # all arcs onwards have underflowed
                    n = 0
                    break
                paths[i, n] = arc
                n += 1
                group = target[arc]
                if is_sink[group]:
                    break
            lengths[i] = n


def _draw_arc(arcs, leaving, first, last, uniform):
    """One of the arcs leaving[first:last], drawn by its probability; -1 where all have none."""
    total = 0.0
    for k in range(first, last):
        total += arcs[leaving[k]]
    left = uniform * total
    chosen = -1
    for k in range(first, last):
        p = arcs[leaving[k]]
        if p > 0:  # rounding may leave a little after the last arc, which is then taken
            chosen = leaving[k]
            left -= p
            if left < 0:
                break
    return chosen


class ArcPoolView:
    """structures.dag.ArcPool."""

    def __init__(self, pool):
        self.priority = pool.priority
        self.arc = pool.arc
        self.parent = pool.parent
        self.heap = pool.heap
        self.counts = pool.counts


def best_paths(source, score, is_source, phi, ptr, entering, pool, paths, scores, bounds):
    """The best paths in order, until scores [n] is full or there are no more; returns whether pool
    or paths must grow first.

    A* from the sinks backwards as in kernels.paths: phi [Q] completes every suffix exactly.  A
    suffix that leaves the queue puts in its next best sibling and its own best extension.
    entering[ptr[v]:ptr[v+1]] are the arcs into node v; the last group has those into all sinks.
    Path i is paths[bounds[i]:bounds[i+1]]."""
    view = ArcPoolView(pool)
    with cython.nogil:
        return _best_paths(
            source, score, is_source, phi, ptr, entering, view, paths, scores, bounds
        )


def _best_paths(source, score, is_source, phi, ptr, entering, pool, paths, scores, bounds):
    counts = pool.counts
    arcs = pool.arc
    parents = pool.parent
    begin = counts[MADE] == 0
    while counts[TAKEN] < scores.shape[0] and (begin or counts[SIZE] > 0):
        if counts[MADE] + 2 > pool.heap.shape[0] or counts[USED] + phi.shape[0] > paths.shape[0]:
            return True
        if begin:
            _put_best(source, score, phi, ptr, entering, pool, -1, INFINITY, -1, INFINITY)
            begin = False
            continue
        # Of equals, the one nearer to a source.
        i = pop(pool.priority, arcs, pool.heap, counts[SIZE])
        counts[SIZE] -= 1
        here = arcs[i]
        worse = phi[source[here]] + score[here]
        _put_best(
            source, score, phi, ptr, entering, pool, parents[i], worse, here, pool.priority[i]
        )
        if not is_source[source[here]]:
            _put_best(source, score, phi, ptr, entering, pool, i, INFINITY, -1, pool.priority[i])
            continue
        scores[counts[TAKEN]] = pool.priority[i]
        at = i
        while at >= 0:
            paths[counts[USED]] = arcs[at]
            counts[USED] += 1
            at = parents[at]
        counts[TAKEN] += 1
        bounds[counts[TAKEN]] = counts[USED]
    return False


def _put_best(source, score, phi, ptr, entering, pool, parent, worse, after, priority):
    """Put into the queue the best extension of the suffix `parent` (-1: the empty one) among those
    that are worse than the score `worse`, or as good and behind the arc `after`.

    Its priority is that of its parent or sibling, less the difference to its sibling."""
    group = source[pool.arc[parent]] if parent >= 0 else ptr.shape[0] - 2
    best = -INFINITY
    chosen = -1
    for k in range(ptr[group], ptr[group + 1]):
        e = entering[k]
        s = phi[source[e]] + score[e]
        if s > best and (s < worse or (s == worse and e > after)):
            best = s
            chosen = e
    if chosen < 0:
        return
    new = pool.counts[MADE]
    if priority == INFINITY:
        pool.priority[new] = best
    elif after >= 0:
        pool.priority[new] = priority - (worse - best)
    else:
        pool.priority[new] = priority
    pool.arc[new] = chosen
    pool.parent[new] = parent
    pool.counts[MADE] = new + 1
    push(pool.priority, pool.arc, pool.heap, pool.counts[SIZE], new)
    pool.counts[SIZE] += 1
