"""Exact decoding of latent models in NumPy: an expansion makes the prefixes of all labels at once.

The pool is kept in lists while a search runs, which Python reads and writes ten times as fast as single numbers of
arrays.  The queue is the same binary heap as in kernels.heap, so that ties are broken alike."""

import weakref
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np

from labelwright.kernels.search import (
    DIGITS,
    DONE,
    EXPANDED,
    FULL,
    LABELLINGS,
    LEAST,
    LIMIT,
    LOST,
    MADE,
    SAFE_RANGE,
    SIZE,
    SMALL,
    TIE,
    WHOLE,
    Weights,
)
from labelwright.kernels.vectorised.common import _pop, _push

# -- what the graph says, once -----------------------------------------------------------------------------------------


class _Children(NamedTuple):
    """The nodes that may follow those of a context, label by label."""

    arc: Any  # [C, N]  the arcs that lead there; the number of all arcs where there is none
    node: Any  # [N]
    first: Any  # [Y]     first place of each label among them
    slices: list[slice]  # [Y]
    context: list[int]  # [Y]


class _Arcs(NamedTuple):
    """The arcs in the order of their numbers: source by source, and for each source label by label."""

    target: Any  # [A]
    same_label: Any  # first arc of each source and label
    source: Any  # sources that have arcs,
    of_source: Any  # their first among the pairs of source and label,
    first: Any  # and their first arc
    turned: Any  # [A]  where each arc stands when its block is transposed


class _Layout:
    """Contexts and blocks of a graph, as the search reads them."""

    def __init__(self, contexts):
        self.contexts = contexts
        self._children: dict[int, _Children] = {}
        self._arcs: _Arcs | None = None
        sizes = np.diff(contexts.ptr)
        self.single = len(contexts.cut) == 1  # order 1
        self.labels = len(sizes)
        self.per_label = int(sizes[0]) if self.single and (sizes == sizes[0]).all() else 0

    def children(self, c, n_arcs):
        """What may follow context c (-1: what may open a sentence)."""
        known = self._children.get(c)
        if known is None:
            known = self._children[c] = self._make_children(c, n_arcs)
        return known

    def _make_children(self, c, n_arcs):
        x = self.contexts
        after = (x.opening if c < 0 else x.following[c]).tolist()
        context = [k for k in after if k >= 0]
        label = [y for y, k in enumerate(after) if k >= 0]
        sizes = [int(x.ptr[k + 1] - x.ptr[k]) for k in context]
        ends = np.cumsum([0, *sizes])
        node = np.concatenate([x.node[x.ptr[k] : x.ptr[k + 1]] for k in context] or [x.node[:0]])
        before = x.node[:0] if c < 0 else x.node[x.ptr[c] : x.ptr[c + 1]]
        arc = np.full((len(before), len(node)), n_arcs)
        for i, q in enumerate(before.tolist()):
            for j, y in enumerate(label):
                k = np.arange(x.cut[x.block[q], y], x.cut[x.block[q], y + 1])
                arc[i, ends[j] + x.slot[k]] = x.base[q] + k
        slices = [slice(a, b) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        return _Children(arc, node, ends[:-1], slices, context)

    def arcs(self, blocks):
        if self._arcs is None:
            self._arcs = _make_arcs(blocks, self.contexts.cut)
        return self._arcs


def _make_arcs(blocks, cut):
    target, same_label, source, of_source, first, turned = [], [], [], [], [], []
    pairs = 0
    for b in range(len(blocks.arc_ptr) - 1):
        sources = blocks.source[blocks.source_ptr[b] : blocks.source_ptr[b + 1]]
        s0, s1, a = int(blocks.target[b]), int(blocks.target[b + 1]), int(blocks.arc_ptr[b])
        if s0 == s1 or not len(sources):
            continue
        opens = np.unique(cut[b][:-1][np.diff(cut[b]) > 0]) - s0
        rows = a + np.arange(len(sources)) * (s1 - s0)
        target.append(np.tile(np.arange(s0, s1), len(sources)))
        same_label.append((rows[:, None] + opens).reshape(-1))
        source.append(sources)
        of_source.append(pairs + np.arange(len(sources)) * len(opens))
        pairs += len(sources) * len(opens)
        first.append(rows)
        turned.append(a + np.arange(len(sources))[:, None] + np.arange(s1 - s0) * len(sources))
    parts = target, same_label, source, of_source, first, [x.reshape(-1) for x in turned]
    return _Arcs(*(np.concatenate(part) if part else np.empty(0, np.int64) for part in parts))


_known: dict[int, tuple[Any, _Layout]] = {}


def _layout(contexts):
    """The layout of these contexts, made at the first call."""
    place = id(contexts.node)
    kept = _known.get(place)
    if kept is None or kept[0]() is not contexts.node:
        for key in [key for key, (node, _) in list(_known.items()) if node() is None]:
            _known.pop(key, None)
        kept = _known[place] = weakref.ref(contexts.node), _Layout(contexts)
    return kept[1]


# -- bounds ------------------------------------------------------------------------------------------------------------


def exponentiate_arcs(arc, blocks, E, ET, top):
    """E = exp(arc - top) of every token's arcs [T or 1, A], ET the same with each block transposed, top [T or 1] the
    maximum; returns the widest difference between finite scores of one token.  With a row per token, the first is not
    used."""
    used = slice(0 if len(arc) == 1 else 1, None)
    high = arc.max(axis=1)
    low = np.where(arc > -inf, arc, inf).min(axis=1)
    top[:] = 0.0
    top[used] = high[used]
    E[:] = 0.0
    with np.errstate(invalid="ignore"):
        E[used] = np.where(high[used, None] > -inf, np.exp(arc[used] - high[used, None]), 0.0)
        widest = float(np.maximum(high - low, 0)[used].max(initial=0.0))
    source_ptr, _, target, arc_ptr = blocks
    for b in range(len(arc_ptr) - 1):
        here = slice(int(arc_ptr[b]), int(arc_ptr[b + 1]))
        shape = len(arc), int(source_ptr[b + 1] - source_ptr[b]), int(target[b + 1] - target[b])
        ET[:, here] = E[:, here].reshape(shape).transpose(0, 2, 1).reshape(len(arc), -1)
    return widest


def prepare(node, ET, arc_top, arc_range, blocks, cut, psi, top, beta, log_beta):
    """psi, top and the bound of a lattice with arcs ET; returns log Z, or NaN where scores differ too much."""
    high = node.max(axis=1)
    low = np.where(node > -inf, node, inf).min(axis=1)
    if not (np.isfinite(high).all() and (high - low + 2 * arc_range < SAFE_RANGE).all()):
        return nan
    top[:] = high
    np.exp(node - high[:, None], out=psi)
    return bounds(psi, top, ET, arc_top, blocks, cut, beta, log_beta)


def bounds(psi, top, ET, arc_top, blocks, cut, beta, log_beta):
    """Fill beta [T, Q] (scaled) and log_beta [T] (log of the scale); returns log Z, or NaN where a number underflowed.

    psi [T, Q] = exp(node - top), ET [T or 1, A] = exp(arc - arc_top), each block transposed.  The sum over all paths is
    computed along with it."""
    T, Q = psi.shape
    by_token = len(ET) > 1
    step = _step_of(ET, blocks, cut, Q)
    sums, most, total = np.ones((T, Q)), np.ones(T), np.ones(T)
    beta[T - 1] = 1.0
    with np.errstate(all="ignore"):
        for t in range(T - 1, 0, -1):
            here, behind = beta[t - 1], sums[t - 1]
            step(t if by_token else 0, psi[t] * beta[t], psi[t] * sums[t], here, behind)
            most[t], total[t] = here.max(), behind.max()
            here /= most[t]
            behind /= total[t]
        if not (most > 0).all() or not (total > 0).all():
            return nan
        if ((beta > 0) & (beta < LEAST)).any() or ((sums > 0) & (sums < LEAST)).any():
            return nan
        scale = top[1:] + (arc_top[1:] if by_token else arc_top[0])
        log_beta[T - 1] = 0.0
        log_beta[: T - 1] = np.cumsum((np.log(most[1:]) + scale)[::-1])[::-1]
        first = float(psi[0] @ sums[0])
        return float(np.log(first) + top[0] + (np.log(total[1:]) + scale).sum()) if first > 0 else nan


def _step_of(ET, blocks, cut, Q):
    """A function that takes the bound and the sum over all paths one token back: f(row of ET, into, into_sum, out,
    out_sum)."""
    if len(cut) == 1:
        opens = np.flatnonzero(np.diff(cut[0]))
        first, sizes = cut[0][opens], np.diff(cut[0])[opens]
        M = ET.reshape(len(ET), Q, Q)
        if len(sizes) and (sizes == sizes[0]).all() and sizes.sum() == Q:
            by_label = ET.reshape(len(ET), len(sizes), int(sizes[0]), Q)

            def step(e, into, into_sum, out, out_sum):
                np.matmul(into.reshape(len(sizes), 1, -1), by_label[e]).max(axis=(0, 1), out=out)
                np.matmul(into_sum, M[e], out=out_sum)

        else:

            def step(e, into, into_sum, out, out_sum):
                np.add.reduceat(into[:, None] * M[e], first, axis=0).max(axis=0, out=out)
                np.matmul(into_sum, M[e], out=out_sum)

        return step
    arcs = _make_arcs(blocks, cut)
    E = ET[:, arcs.turned]

    def general(e, into, into_sum, out, out_sum):
        out[:] = out_sum[:] = 0
        by_label = np.add.reduceat(into[arcs.target] * E[e], arcs.same_label)
        out[arcs.source] = np.maximum.reduceat(by_label, arcs.of_source)
        out_sum[arcs.source] = np.add.reduceat(into_sum[arcs.target] * E[e], arcs.first)

    return general


def log_bounds(node, arc, blocks, cut, beta):
    """The bound in logarithms: beta [T, Q]; returns log Z."""
    T, Q = node.shape
    arcs = _make_arcs(blocks, cut)
    sums = np.zeros(Q)
    beta[T - 1] = 0.0
    for t in range(T - 1, 0, -1):
        scores = arc[t if len(arc) > 1 else 0]
        by_label = _log_sums(scores + (node[t] + beta[t])[arcs.target], arcs.same_label)
        behind = np.full(Q, -inf)
        beta[t - 1] = -inf
        beta[t - 1, arcs.source] = np.maximum.reduceat(by_label, arcs.of_source)
        behind[arcs.source] = _log_sums(scores + (node[t] + sums)[arcs.target], arcs.first)
        sums = behind
    return float(_log_sums(node[0] + sums, np.zeros(1, np.int64))[0])


def _log_sums(x, first):
    """log of the sums of exp(x) over the ranges that begin at first."""
    top = np.maximum.reduceat(x, first)
    top = np.where(np.isfinite(top), top, 0.0)
    sizes = np.diff(np.append(first, len(x)))
    with np.errstate(divide="ignore"):
        return np.log(np.add.reduceat(np.exp(x - np.repeat(top, sizes)), first)) + top


# -- the search --------------------------------------------------------------------------------------------------------


class _Search:
    """Prefixes in lists (see PrefixPool), and the queue."""

    def __init__(self, lattice, contexts):
        self.lattice, self.layout, self.n_arcs = lattice, _layout(contexts), lattice.E.shape[1]
        self.priority: list[float] = []
        self.key: list[float] = []
        self.scale: list[float] = []
        self.vector: list[Any] = []
        self.parent: list[int] = []
        self.depth: list[int] = []
        self.context: list[int] = []
        self.heap: list[int] = []
        self.whole = -1
        fill = -inf if lattice.logs else 0.0
        self.E = lattice.E
        if not self.layout.single:
            self.E = np.concatenate([self.E, np.full((len(self.E), 1), fill)], axis=1)
        self.by_token = len(self.E) > 1
        self.matrices: dict[int, Any] = {}  # of arcs that all tokens share
        T = len(lattice.psi)
        top, arc_top = lattice.top, lattice.arc_top
        self.tops = [0.0] * T
        if not lattice.logs:
            tops = top.copy()
            tops[1:] += arc_top[1:] if self.by_token else arc_top[0]
            self.tops = tops.tolist()
        self.log_beta = lattice.log_beta.tolist()

    def arcs_from(self, c, children, t):
        """The arcs [C, N] from context c into token t."""
        layout = self.layout
        if layout.single:
            a, b = layout.contexts.ptr[c], layout.contexts.ptr[c + 1]
            Q = self.lattice.psi.shape[1]
            if self.by_token:
                return self.E[t].reshape(Q, Q)[a:b]
        if self.by_token:
            return self.E[t][children.arc]
        known = self.matrices.get(c)
        if known is None:
            known = self.matrices[c] = self.E[0].reshape(Q, Q)[a:b] if layout.single else self.E[0][children.arc]
        return known

    def consider(self, parent, n, bar):
        """Push every label after `parent` (-1: every first label) that can still be among the n best.  False where the
        weights of one prefix differ too much for scaled numbers."""
        lattice = self.lattice
        c, t, scale = (
            (self.context[parent], self.depth[parent] + 1, self.scale[parent]) if parent >= 0 else (-1, 0, 0.0)
        )
        children = self.layout.children(c, self.n_arcs)
        if not children.context:
            return True
        ordered = self.layout.single
        psi, beta = lattice.psi[t], lattice.beta[t]
        if not ordered:
            psi, beta = psi[children.node], beta[children.node]
        if lattice.logs:
            vector, priority = self.extend_logs(parent, t, c, children, psi, beta)
            scales = [scale] * len(priority)
        else:
            vector = psi.copy()
            if parent >= 0:
                vector *= self.vector[parent] @ self.arcs_from(c, children, t)
            first = children.first
            bound = np.add.reduceat(vector * beta, first)
            most = np.maximum.reduceat(vector, first)
            if not vector.all():
                least = np.minimum.reduceat(np.where(vector > 0, vector, inf), first)
            else:
                least = np.minimum.reduceat(vector, first)
            if (least < LEAST * most).any():
                return False
            scale += self.tops[t]
            with np.errstate(divide="ignore"):
                priority = (np.log(bound) + (scale + self.log_beta[t])).tolist()
            scales = [scale] * len(priority)
            largest = most.tolist()
            if min(largest) < SMALL or max(largest) > 1 / SMALL:
                for i, m in enumerate(largest):
                    if m > 0 and (m < SMALL or m > 1 / SMALL):
                        vector[children.slices[i]] /= m
                        scales[i] = scale + float(np.log(m))
        worst = bar[n - 1] - TIE
        last = t == len(lattice.psi) - 1
        for i, w in enumerate(priority):
            if not w > -inf or w < worst:
                continue
            new = len(self.priority)
            self.priority.append(w)
            self.key.append(w + max(TIE, DIGITS * abs(w)) * t)
            self.scale.append(scales[i])
            self.vector.append(vector[children.slices[i]])
            self.parent.append(parent)
            self.depth.append(t)
            self.context.append(children.context[i])
            if last:  # whole: it may raise the bar
                if w > bar[n - 1]:
                    _insert(bar, n, w)
                    worst = bar[n - 1] - TIE
                if self.whole < 0 or w > self.priority[self.whole]:
                    self.whole = new
            _push(self.key, self.depth, self.heap, new)
        return True

    def extend_logs(self, parent, t, c, children, psi, beta):
        """Vectors [N] and priorities [Y] of the children, in logarithms."""
        vector = psi.copy()
        if parent >= 0:
            terms = self.vector[parent][:, None] + self.arcs_from(c, children, t)
            top = terms.max(axis=0)
            top = np.where(np.isfinite(top), top, 0.0)
            with np.errstate(divide="ignore"):
                vector += np.log(np.exp(terms - top).sum(axis=0)) + top
        return vector, _log_sums(vector + beta, children.first).tolist()

    def run(self, places, n, budget, greedy, bar, size, expanded):
        """As `search`; returns how it ended and how many prefixes were expanded."""
        T, L = len(self.lattice.psi), len(self.layout.contexts.opening)
        if not self.priority and not self.consider(-1, n, bar):
            return LOST, expanded
        while self.heap:
            i = self.heap[0]
            whole = self.depth[i] == T - 1
            if not whole:
                if expanded >= budget:
                    return LIMIT, expanded
                if len(self.priority) + L > size:
                    return FULL, expanded
                expanded += 1
            _pop(self.key, self.depth, self.heap)
            if greedy:
                self.heap.clear()
            if not whole:
                if not self.consider(i, n, bar):
                    return LOST, expanded
                continue
            places.append(i)
            if len(places) == n:
                break
        return DONE, expanded


def _insert(bar, n, w):
    """Put w into bar, the n best weights so far."""
    i = n - 1
    while i > 0 and bar[i - 1] < w:
        bar[i] = bar[i - 1]
        i -= 1
    bar[i] = w


def search(lattice, contexts, pool, places, n, budget, greedy, bar):
    """Search until the n best labellings have left the queue (DONE), `budget` prefixes were expanded (LIMIT), the pool
    is FULL and must grow, or weights are LOST without logarithms.  places [n] gets the prefixes that are whole
    labellings, in order."""
    counts = pool.counts
    made, size, expanded, taken = (int(counts[k]) for k in (MADE, SIZE, EXPANDED, LABELLINGS))
    run = _Search(lattice, contexts)
    lists = "priority", "key", "scale", "parent", "depth", "context"
    for name in lists:
        setattr(run, name, getattr(pool, name)[:made].tolist())
    sizes = np.diff(contexts.ptr)[pool.context[:made]].tolist()
    run.vector = [pool.vector[i, :width] for i, width in enumerate(sizes)]
    run.heap, run.whole = pool.heap[:size].tolist(), int(counts[WHOLE])
    found, limits = places[:taken].tolist(), bar.tolist()
    status, expanded = run.run(found, n, budget, greedy, limits, len(pool.heap), expanded)
    for name in lists:
        getattr(pool, name)[made : len(run.priority)] = getattr(run, name)[made:]
    for i in range(made, len(run.vector)):
        pool.vector[i, : len(run.vector[i])] = run.vector[i]
    pool.heap[: len(run.heap)] = run.heap
    places[: len(found)] = found
    bar[:] = limits
    counts[:] = len(run.priority), len(run.heap), expanded, len(found), run.whole
    return status


def solve(node, E, ET, arc_top, arc_range, blocks, contexts, labels, out):
    """Bound, search and trace in one call: labels [T] and out = (log weight, log Z, expansions) of the most probable
    labelling.

    False where the scores need logarithms, or the search is longer than usual."""
    T = len(node)
    (psi, beta), (top, log_beta) = np.empty((2, *node.shape)), np.empty((2, T))
    log_z = prepare(node, ET, arc_top, arc_range, blocks, contexts.cut, psi, top, beta, log_beta)
    if not np.isfinite(log_z):
        return False
    run = _Search(Weights(psi, top, E, arc_top, beta, log_beta, False), contexts)
    size, places = max(512, 4 * (T + 8) * len(contexts.opening)), []
    status, expanded = run.run(places, 1, size, False, [-inf], size, 0)
    if status != DONE or not places:
        return False
    at = places[0]
    out[:] = run.priority[at], log_z, expanded
    for t in range(T - 1, -1, -1):
        labels[t] = contexts.label[run.context[at]]
        at = run.parent[at]
    return True
