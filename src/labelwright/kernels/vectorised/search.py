"""The inner loops of exact decoding in NumPy: an expansion makes the prefixes of all labels at
once; the search itself is the plain Python of kernels.search.  Compiled code is 17 times as fast
(44 states, 16 words)."""

from math import inf

import numpy as np

from labelwright.kernels.common import ranges
from labelwright.kernels.search import LEAST, SAFE_RANGE


def _matrices(E, blocks):
    """The numbers of the arcs E [T or 1, A] of each block [T or 1, sources, targets]: views."""
    source_ptr, _, target, arc_ptr = blocks[:4]
    for b in range(len(arc_ptr) - 1):
        shape = len(E), int(source_ptr[b + 1] - source_ptr[b]), int(target[b + 1] - target[b])
        yield E[:, arc_ptr[b] : arc_ptr[b + 1]].reshape(shape)


def prepare_arcs(scores, blocks, arcs):
    E, ET, top = arcs[:3]
    used = slice(0 if len(scores) == 1 else 1, None)
    high, low = scores.max(axis=1), np.where(scores > -inf, scores, inf).min(axis=1)
    top[:], E[:] = 0.0, 0.0
    top[used] = high[used]
    E[used] = np.where(high[used, None] > -inf, np.exp(scores[used] - high[used, None]), 0.0)
    for b, M in enumerate(_matrices(E, blocks)):
        ET[:, blocks.arc_ptr[b] : blocks.arc_ptr[b + 1]] = M.transpose(0, 2, 1).reshape(
            len(scores), -1
        )
        targets = slice(*blocks.target[b : b + 2])
        arcs.least[:, targets], arcs.most[:, targets] = (
            M.min(axis=1, initial=1.0),
            M.max(axis=1, initial=0.0),
        )
    return float(np.maximum(high - low, 0)[used].max(initial=0.0))


def prepare(node, arcs, widest, blocks, cut, psi, top, beta, log_beta):
    high, low = node.max(axis=1), np.where(node > -inf, node, inf).min(axis=1)
    if not (np.isfinite(high).all() and (high - low + 2 * widest < SAFE_RANGE).all()):
        return False
    top[:] = high
    np.exp(node - high[:, None], out=psi)
    return bounds(psi, top, arcs, blocks, cut, beta, log_beta)


def bounds(psi, top, arcs, blocks, cut, beta, log_beta):
    (T, Q), ET, arc_top = psi.shape, arcs.ET, arcs.top
    by_token = len(ET) > 1
    # of each block: sources, targets, where labels begin among these, matrices [T or 1, targets,
    # sources]
    parts = []
    for b, _ in enumerate(_matrices(ET, blocks)):
        sources = blocks.source[blocks.source_ptr[b] : blocks.source_ptr[b + 1]]
        targets = slice(int(blocks.target[b]), int(blocks.target[b + 1]))
        M = ET[:, blocks.arc_ptr[b] : blocks.arc_ptr[b + 1]].reshape(
            len(ET), -1, max(1, len(sources))
        )
        if M.size:
            opens = cut[b][:-1][np.diff(cut[b]) > 0] - targets.start
            parts.append(
                (slice(None) if len(sources) == Q and len(cut) == 1 else sources, targets, opens, M)
            )
    most = np.ones(T)
    beta[:] = 0.0
    beta[T - 1] = 1.0
    for t in range(T - 1, 0, -1):
        e, here, into = t if by_token else 0, beta[t - 1], psi[t] * beta[t]
        for sources, targets, opens, M in parts:
            here[sources] = np.add.reduceat(into[targets, None] * M[e], opens, axis=0).max(axis=0)
        most[t] = here.max()
        here /= most[t]
    if not (most > 0).all() or ((beta > 0) & (beta < LEAST)).any():
        return False
    scale = top[1:] + (arc_top[1:] if by_token else arc_top[0])
    log_beta[T - 1] = 0.0
    log_beta[: T - 1] = np.cumsum((np.log(most[1:]) + scale)[::-1])[::-1]
    return True


def _extend(lattice, contexts, before, vector, i, t, into, bound):
    if before >= 0:
        arcs, into[:] = lattice.E[t if len(lattice.E) > 1 else 0], 0.0
        for j, q in enumerate(contexts.node[slice(*contexts.ptr[before : before + 2])].tolist()):
            cut, base = contexts.cut[contexts.block[q]], contexts.base[q]
            into[cut[0] : cut[-1]] += vector[i, j] * arcs[base + cut[0] : base + cut[-1]]
        into *= lattice.psi[t]
    else:
        into[:] = lattice.psi[t]
    following = contexts.following[before] if before >= 0 else contexts.opening
    labels = np.flatnonzero(following >= 0)
    bound[:] = 0.0
    if not len(labels):
        return True
    sizes = np.diff(contexts.ptr)[following[labels]]
    nodes = contexts.node[ranges(contexts.ptr[following[labels]], sizes)]
    first = np.cumsum(sizes) - sizes
    most = np.maximum.reduceat(into[nodes], first)
    least = np.minimum.reduceat(np.where(into[nodes] > 0, into[nodes], inf), first)
    bound[labels] = np.add.reduceat(into[nodes] * lattice.beta[t, nodes], first)
    return not (least < LEAST * most).any()
