"""Sums and best paths over candidates in NumPy: the same step of all sentences at once.

The arcs of some tokens are listed by their source, as they lie in memory, or by their target: either way the arcs of
one node are one run, and `reduceat` sums them up or takes the largest."""

import numpy as np

from labelwright.kernels.candidate_chains import LARGE, NONE, SMALL
from labelwright.kernels.vectorised.logs import subtract_largest
from labelwright.kernels.vectorised.tables import _ranges


def _steps(offsets, n0, n1):
    """The first, second, ... tokens of the sentences n0:n1 that have so many, and which sentences these are."""
    sentences = n0 + np.argsort(-np.diff(offsets[n0 : n1 + 1]), kind="stable")
    sizes = (offsets[sentences + 1] - offsets[sentences]).tolist()
    left = len(sizes)
    for k in range(sizes[0] if sizes else 0):
        while sizes[left - 1] <= k:
            left -= 1
        yield offsets[sentences[:left]] + k, sentences[:left]


def _nodes(layout, t):
    """The nodes of tokens one token behind the other, and where those of each token begin among them."""
    first = layout.node_ptr[t]
    sizes = layout.node_ptr[t + 1] - first
    return _ranges(first, sizes), np.cumsum(sizes) - sizes


def _by_source(layout, t):
    """The sources of arcs into tokens, the arcs and their targets, and where the arcs of each source begin."""
    B, H, J = layout.blocks[t], layout.sources[t], layout.targets[t]
    rows = B * H
    token = np.repeat(np.arange(len(t)), rows)
    row = _ranges(np.zeros_like(rows), rows)
    block = row // H[token]
    source = layout.node_ptr[t - 1][token] + (row - block * H[token]) * B[token] + block
    n = J[token]
    arc = _ranges(layout.arc_ptr[t][token] + row * n, n)
    target = _ranges(layout.node_ptr[t][token] + block * n, n)
    return source, arc, target, np.cumsum(n) - n


def _by_target(layout, t):
    """The targets of arcs into tokens, the arcs and their sources, and where the arcs of each target begin."""
    B, H, J = layout.blocks[t], layout.sources[t], layout.targets[t]
    rows = B * J
    token = np.repeat(np.arange(len(t)), rows)
    row = _ranges(np.zeros_like(rows), rows)
    block = row // J[token]
    n = H[token]
    h = _ranges(np.zeros_like(n), n)
    first = layout.arc_ptr[t][token] + block * n * J[token] + row - block * J[token]
    arc = np.repeat(first, n) + h * np.repeat(J[token], n)
    source = np.repeat(layout.node_ptr[t - 1][token] + block, n) + h * np.repeat(B[token], n)
    return layout.node_ptr[t][token] + row, arc, source, np.cumsum(n) - n


def _sizes(starts, total):
    return np.diff(starts, append=total)


# -- sums -------------------------------------------------------------------------------------------------------------


def sums(layout, node, place, E, offsets, n0, n1, alpha, beta, message, log_z):
    """Forward-backward of the sentences n0:n1 in scaled probability space."""
    log_z[n0:n1] = 0.0
    arcs = []  # of every step but the first: their sources, targets and weights, and where those of each source begin
    for k, (t, sentence) in enumerate(_steps(offsets, n0, n1)):
        q, starts = _nodes(layout, t)
        sizes = _sizes(starts, len(q))
        top = np.maximum.reduceat(node[q], starts)
        psi = np.exp(node[q] - np.repeat(top, sizes))
        here = psi
        if k:
            source, arc, target, begin = _by_source(layout, t)
            weight = E[place[arc]]
            into = np.repeat(alpha[source], _sizes(begin, len(arc))) * weight
            local = target + np.repeat(starts - layout.node_ptr[t], layout.arc_ptr[t + 1] - layout.arc_ptr[t])
            here = psi * np.bincount(local, into, len(q))
            arcs.append((sentence, t, source, target, weight, begin))
        c = np.add.reduceat(here, starts)
        log_z[sentence[~((c > SMALL) & (c < LARGE))]] = np.nan
        scale = np.repeat(c, sizes)
        alpha[q], beta[q], message[q] = here / scale, psi / scale, 1.0
        log_z[sentence] += np.log(c) + top
    for sentence, t, source, target, weight, begin in reversed(arcs):
        x = np.add.reduceat(weight * beta[target], begin)
        message[source] = x
        beta[source] *= x
        if (x > LARGE).any():
            log_z[np.repeat(sentence, layout.blocks[t] * layout.sources[t])[x > LARGE]] = np.nan


def posteriors(layout, place, E, offsets, n0, n1, alpha, beta, message, log_z, counts):
    """alpha = P(node) of the sentences n0:n1 whose `sums` were made, and counts[place] += P(arc), where there is room
    for counts.  Arcs out of nodes that are less probable than NONE do not count."""
    steps = list(_steps(offsets, n0, n1))
    for k in range(len(steps) - 1, -1, -1):
        tokens, sentence = steps[k]
        t = tokens[~np.isnan(log_z[sentence])]
        if k and len(counts) and len(t):
            source, arc, target, begin = _by_source(layout, t)
            x = np.where(alpha[source] * message[source] > NONE, alpha[source], 0.0)
            where = place[arc]
            np.add.at(counts, where, np.repeat(x, _sizes(begin, len(arc))) * E[where] * beta[target])
        q, _ = _nodes(layout, t)
        alpha[q] *= message[q]


def _exponentials(scores, starts):
    """exp(score - largest of its run), the sum of these over each run, and log of the sum of exp(score)."""
    top = np.maximum.reduceat(scores, starts)
    finite = np.where(top > -np.inf, top, 0.0)
    weights = np.exp(scores - np.repeat(finite, _sizes(starts, len(scores))))
    total = np.add.reduceat(weights, starts)
    return weights, total, finite + np.log(total)


def _shares(scores, starts):
    """exp(score) over the sum of its run; 0 where all of them are minus infinity."""
    weights, total, _ = _exponentials(scores, starts)
    return weights / np.repeat(np.where(total > 0, total, 1.0), _sizes(starts, len(scores)))


def log_sums(layout, node, place, score, offsets, n, alpha, ahead, counts):
    """The same for sentence n in log space: alpha [nodes] becomes P(node), counts[place] += P(arc); returns log Z.

    ahead [nodes] is the log of what a node and all that may follow weigh, less a constant of the token."""
    a, b = int(offsets[n]), int(offsets[n + 1])
    whole = np.zeros(1, np.int64)
    rows = [slice(layout.node_ptr[t], layout.node_ptr[t + 1]) for t in range(a, b)]
    arcs = [_by_source(layout, np.array([t])) for t in range(a + 1, b)]
    ahead[rows[-1]] = 0.0
    log_z = 0.0
    for t in range(b - 1, a - 1, -1):
        row = rows[t - a]
        log_z += subtract_largest(ahead, row.start, row.stop)
        ahead[row] += node[row]
        log_z += subtract_largest(ahead, row.start, row.stop)
        if t > a:
            source, arc, target, begin = arcs[t - a - 1]
            ahead[source] = _exponentials(score[place[arc]] + ahead[target], begin)[2]
    log_z += float(_exponentials(ahead[rows[0]], whole)[2][0])
    alpha[rows[0]] = _shares(ahead[rows[0]], whole)
    for (source, arc, target, begin), row in zip(arcs, rows[1:], strict=True):
        p = _shares(score[place[arc]] + ahead[target], begin) * np.repeat(alpha[source], _sizes(begin, len(arc)))
        alpha[row] = np.bincount(target - row.start, p, row.stop - row.start)
        if len(counts):
            np.add.at(counts, place[arc], p)
    return log_z


# -- best paths -------------------------------------------------------------------------------------------------------


def _first_of_runs(wanted, starts):
    """The first place of each run where `wanted` is true; every run has one."""
    place = np.flatnonzero(wanted)
    return place[np.searchsorted(place, starts)]


def _prefixes(layout, node, place, score, offsets, n0, n1, delta, back):
    """best_prefixes of the sentences n0:n1."""
    for k, (t, _) in enumerate(_steps(offsets, n0, n1)):
        q, _ = _nodes(layout, t)
        if not k:
            delta[q] = node[q]
            continue
        target, arc, source, begin = _by_target(layout, t)
        s = delta[source] + score[place[arc]]
        best = np.maximum.reduceat(s, begin)
        came = source[_first_of_runs(s == np.repeat(best, _sizes(begin, len(s))), begin)]
        nowhere = best == -np.inf
        if nowhere.any():
            came[nowhere] = np.repeat(layout.node_ptr[t - 1], layout.blocks[t] * layout.targets[t])[nowhere]
        delta[target] = best + node[target]
        back[target] = came


def best_prefixes(layout, node, place, score, offsets, n, delta, back):
    """delta[q] = the score of the best path up to node q of sentence n, and where it came from (back)."""
    _prefixes(layout, node, place, score, offsets, n, n + 1, delta, back)


def best_suffixes(layout, node, place, score, offsets, n, ahead):
    """ahead[q] = the score of the best continuation after node q of sentence n."""
    a, b = offsets[n], offsets[n + 1]
    ahead[layout.node_ptr[b - 1] : layout.node_ptr[b]] = 0.0
    for t in range(b - 1, a, -1):
        source, arc, target, begin = _by_source(layout, np.array([t]))
        ahead[source] = np.maximum.reduceat(score[place[arc]] + node[target] + ahead[target], begin)


def best_paths(layout, node, place, score, offsets, n0, n1, delta, back, path, best):
    """path[t] = the place of the best path's node among those of its token, best[n] its score, sentence by sentence."""
    _prefixes(layout, node, place, score, offsets, n0, n1, delta, back)
    at = np.empty(n1, np.int64)  # the node of each sentence's path
    for t, sentence in reversed(list(_steps(offsets, n0, n1))):
        ends = t + 1 == offsets[sentence + 1]
        if ends.any():
            q, starts = _nodes(layout, t[ends])
            top = np.maximum.reduceat(delta[q], starts)
            best[sentence[ends]] = top
            at[sentence[ends]] = q[_first_of_runs(delta[q] == np.repeat(top, _sizes(starts, len(q))), starts)]
        path[t] = at[sentence] - layout.node_ptr[t]
        at[sentence] = back[at[sentence]]
