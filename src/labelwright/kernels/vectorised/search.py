"""The inner loops of exact decoding in NumPy: an expansion makes the prefixes of all labels at once; the search itself
is the plain Python of kernels.search.  Compiled code is 17 times as fast (44 states, 16 words)."""

from math import inf, nan

import numpy as np

from labelwright.kernels import search as kernels
from labelwright.kernels.common import push, ranges
from labelwright.kernels.search import DIGITS, LEAST, MADE, SAFE_RANGE, SIZE, SMALL, TIE, WHOLE


def _matrices(E, blocks):
    """The numbers of the arcs E [T or 1, A] of each block [T or 1, sources, targets]: views."""
    source_ptr, _, target, arc_ptr = blocks[:4]
    for b in range(len(arc_ptr) - 1):
        shape = len(E), int(source_ptr[b + 1] - source_ptr[b]), int(target[b + 1] - target[b])
        yield E[:, arc_ptr[b] : arc_ptr[b + 1]].reshape(shape)


def exponentiate_arcs(arc, blocks, E, ET, top):
    used = slice(0 if len(arc) == 1 else 1, None)
    high, low = arc.max(axis=1), np.where(arc > -inf, arc, inf).min(axis=1)
    top[:], E[:] = 0.0, 0.0
    top[used] = high[used]
    E[used] = np.where(high[used, None] > -inf, np.exp(arc[used] - high[used, None]), 0.0)
    for b, M in enumerate(_matrices(E, blocks)):
        ET[:, blocks.arc_ptr[b] : blocks.arc_ptr[b + 1]] = M.transpose(0, 2, 1).reshape(len(arc), -1)
    return float(np.maximum(high - low, 0)[used].max(initial=0.0))


def prepare(node, ET, arc_top, arc_range, blocks, cut, psi, top, beta, log_beta):
    high, low = node.max(axis=1), np.where(node > -inf, node, inf).min(axis=1)
    if not (np.isfinite(high).all() and (high - low + 2 * arc_range < SAFE_RANGE).all()):
        return nan
    top[:] = high
    np.exp(node - high[:, None], out=psi)
    return bounds(psi, top, ET, arc_top, blocks, cut, beta, log_beta)


def bounds(psi, top, ET, arc_top, blocks, cut, beta, log_beta):
    T, Q = psi.shape
    by_token = len(ET) > 1
    parts = []  # of each block: sources, targets, where labels begin among these, matrices [T or 1, targets, sources]
    for b, _ in enumerate(_matrices(ET, blocks)):
        sources = blocks.source[blocks.source_ptr[b] : blocks.source_ptr[b + 1]]
        targets = slice(int(blocks.target[b]), int(blocks.target[b + 1]))
        M = ET[:, blocks.arc_ptr[b] : blocks.arc_ptr[b + 1]].reshape(len(ET), -1, max(1, len(sources)))
        if M.size:
            opens = cut[b][:-1][np.diff(cut[b]) > 0] - targets.start
            parts.append((slice(None) if len(sources) == Q and len(cut) == 1 else sources, targets, opens, M))
    sums, most, total = np.zeros((T, Q)), np.ones(T), np.ones(T)
    beta[:] = 0.0
    beta[T - 1] = sums[T - 1] = 1.0
    for t in range(T - 1, 0, -1):
        e, here, behind = t if by_token else 0, beta[t - 1], sums[t - 1]
        into, into_sum = psi[t] * beta[t], psi[t] * sums[t]
        for sources, targets, opens, M in parts:
            by_label = np.add.reduceat(into[targets, None] * M[e], opens, axis=0)
            here[sources] = by_label.max(axis=0)
            behind[sources] = into_sum[targets] @ M[e]
        most[t], total[t] = here.max(), behind.max()
        here /= most[t]
        behind /= total[t]
    if not ((most > 0).all() and (total > 0).all()):
        return nan
    if ((beta > 0) & (beta < LEAST)).any() or ((sums > 0) & (sums < LEAST)).any():
        return nan
    scale = top[1:] + (arc_top[1:] if by_token else arc_top[0])
    log_beta[T - 1] = 0.0
    log_beta[: T - 1] = np.cumsum((np.log(most[1:]) + scale)[::-1])[::-1]
    first = float(psi[0] @ sums[0])
    return float(np.log(first) + top[0] + (np.log(total[1:]) + scale).sum()) if first > 0 else nan


def _consider(lattice, contexts, pool, parent, n, bar):
    if lattice.logs:
        return kernels._consider.function(lattice, contexts, pool, parent, n, bar)
    t, scale, vector = 0, 0.0, lattice.psi[0]
    following = contexts.opening
    if parent >= 0:
        before, t, scale = pool.context[parent], int(pool.depth[parent]) + 1, float(pool.scale[parent])
        following, vector = contexts.following[before], np.zeros(lattice.psi.shape[1])
        arcs = lattice.E[t if len(lattice.E) > 1 else 0]
        for i, q in enumerate(contexts.node[contexts.ptr[before] : contexts.ptr[before + 1]].tolist()):
            cut, base = contexts.cut[contexts.block[q]], contexts.base[q]
            vector[cut[0] : cut[-1]] += pool.vector[parent, i] * arcs[base + cut[0] : base + cut[-1]]
        vector *= lattice.psi[t]
        scale += lattice.arc_top[t if len(lattice.E) > 1 else 0]
    children = following[following >= 0]
    if not len(children):
        return True
    sizes = contexts.ptr[children + 1] - contexts.ptr[children]
    nodes = contexts.node[ranges(contexts.ptr[children], sizes)]
    first = np.cumsum(sizes) - sizes
    vector = vector[nodes]
    most = np.maximum.reduceat(vector, first)
    least = np.minimum.reduceat(np.where(vector > 0, vector, inf), first)
    if (least < LEAST * most).any():
        return False
    scale += float(lattice.top[t])
    priority = np.log(np.add.reduceat(vector * lattice.beta[t, nodes], first)) + (scale + lattice.log_beta[t])
    kept = np.flatnonzero((priority > -inf) & (priority >= bar[n - 1] - TIE))
    if t == len(lattice.psi) - 1:  # whole: each may raise the bar
        for j, i in enumerate(kept.tolist()):
            if priority[i] < bar[n - 1] - TIE:
                kept[j] = -1
            else:
                bar[:n] = np.sort(np.append(bar[:n], priority[i]))[:0:-1]
        kept = kept[kept >= 0]
    made = int(pool.counts[MADE])
    new, w, rare = slice(made, made + len(kept)), priority[kept], (most < SMALL) | (most > 1 / SMALL)
    divisor = np.where(rare, most, 1.0)[kept]
    pool.scale[new], pool.priority[new], pool.key[new] = (
        scale + np.log(divisor),
        w,
        w + np.maximum(TIE, DIGITS * np.abs(w)) * t,
    )
    pool.parent[new], pool.depth[new], pool.context[new] = parent, t, children[kept]
    owner = np.repeat(np.arange(len(kept)), sizes[kept])
    place = ranges(np.zeros(len(kept), np.int64), sizes[kept])
    pool.vector[made + owner, place] = vector[ranges(first[kept], sizes[kept])] / divisor[owner]
    whole = made + int(w.argmax()) if t == len(lattice.psi) - 1 and len(kept) else -1
    if whole >= 0 and (pool.counts[WHOLE] < 0 or pool.priority[whole] > pool.priority[pool.counts[WHOLE]]):
        pool.counts[WHOLE] = whole
    for i in range(len(kept)):
        push.function(pool.key, pool.depth, pool.heap, int(pool.counts[SIZE]) + i, made + i)
    pool.counts[MADE] += len(kept)
    pool.counts[SIZE] += len(kept)
    return True
