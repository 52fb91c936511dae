"""Paths in order of their score in NumPy: the predecessors of a node are sorted once, then taken one after the other.

The pool is kept in lists while a search runs, as in vectorised.search."""

from math import exp, inf

import numpy as np

from labelwright.kernels.clamped import labelling_weight
from labelwright.kernels.paths import DONE, FULL, LABELLINGS, LIMIT, MADE, SIZE, TAKEN
from labelwright.kernels.vectorised.common import _pop, _push
from labelwright.kernels.vectorised.inference import _prefix_scores

_LISTS = "priority", "value", "state", "parent", "depth"


def prefix_scores(node, arc, blocks, delta):
    """delta [T, Q]: the best score of a path up to each node."""
    delta[:] = _prefix_scores(node, arc, blocks, list(range(len(node) + 1)))


class _Search:
    """Suffixes in lists (see SuffixPool), and the queue."""

    def __init__(self, lattice, pool):
        self.lattice, self.pool = lattice, pool
        self.made, size, self.taken, _ = pool.counts.tolist()
        self.priority, self.value, self.state, self.parent, self.depth = (
            getattr(pool, name)[: self.made].tolist() for name in _LISTS
        )
        self.heap = pool.heap[:size].tolist()
        self.last = float(pool.last[0])
        self.ranked: dict[int, tuple[list[int], list[float]]] = {}  # predecessors of (t, node)
        self.rank: list[int] = []
        for i in range(self.made):
            self.rank.append(self.before(self.parent[i])[0].index(self.state[i]))

    def store(self):
        """Put what was made into the pool."""
        pool, n = self.pool, len(self.priority)
        for name in _LISTS:
            getattr(pool, name)[self.made : n] = getattr(self, name)[self.made :]
        pool.heap[: len(self.heap)] = self.heap
        pool.counts[[MADE, SIZE, TAKEN]] = n, len(self.heap), self.taken
        pool.last[0] = self.last

    def before(self, parent):
        """The nodes that may precede a suffix (-1: the last nodes), the best first: their numbers, and the scores by
        which they are ordered."""
        lattice = self.lattice
        T, Q = lattice.node.shape
        t, s = (self.depth[parent] - 1, self.state[parent]) if parent >= 0 else (T - 1, 0)
        known = self.ranked.get(t * Q + s if parent >= 0 else -1)
        if known is not None:
            return known
        scores = lattice.delta[t]
        sources = None
        if parent >= 0:
            b = lattice.origin[s]
            sources = lattice.source[lattice.source_ptr[b] : lattice.source_ptr[b + 1]]
            arcs = lattice.arc[t + 1 if len(lattice.arc) > 1 else 0, lattice.base[sources] + s]
            scores = scores[sources] + arcs
        order = np.argsort(-scores, kind="stable")
        order = order[: np.searchsorted(-scores[order], inf)]  # those of minus infinity lead nowhere
        nodes = order if sources is None else sources[order]
        made = nodes.tolist(), scores[order].tolist()
        self.ranked[t * Q + s if parent >= 0 else -1] = made
        return made

    def add(self, parent, rank, i):
        """Push the suffix that puts its predecessor of this rank before `parent`, the next sibling of i or its best
        extension; nothing where there is none."""
        nodes, values = self.before(parent)
        if rank >= len(nodes):
            return
        new, priority = len(self.priority), values[rank]
        if i >= 0:
            priority = self.priority[i] if parent == i else self.priority[i] - (self.value[i] - values[rank])
        self.value.append(values[rank])
        self.state.append(nodes[rank])
        self.parent.append(parent)
        self.depth.append(self.depth[parent] - 1 if parent >= 0 else len(self.lattice.node) - 1)
        self.rank.append(rank)
        self.priority.append(priority)
        _push(self.priority, self.depth, self.heap, new)

    def next_path(self, path):
        """Write the next best path into `path` [T] and return 1; 0: there are no more; -1: the pool must grow first."""
        begin, limit = not self.priority, len(self.pool.heap)
        while begin or self.heap:
            if len(self.priority) + 2 > limit:
                return -1
            if begin:
                self.add(-1, 0, -1)
                begin = False
                continue
            i = _pop(self.priority, self.depth, self.heap)
            self.add(self.parent[i], self.rank[i] + 1, i)
            if self.depth[i] > 0:
                self.add(i, 0, i)
                continue
            self.taken += 1
            self.last = self.priority[i]
            at, nodes = i, []
            while at >= 0:
                nodes.append(self.state[at])
                at = self.parent[at]
            path[:] = nodes
            return 1
        return 0


def best_paths(lattice, pool, paths, scores):
    """Fill paths [n, T] and scores [n] until there are n paths or no more (DONE), or the pool is FULL."""
    run, status = _Search(lattice, pool), 1
    while run.taken < len(paths):
        n = run.taken
        status = run.next_path(paths[n])
        if status < 1:
            break
        scores[n] = run.last
    run.store()
    return FULL if status < 0 else DONE


def latent_dynamic_inference(lattice, contexts, pool, label_of, log_z, n, alpha, labels, log_p, slots, base):
    """Paper 000, figure 3: latent paths in order; each new labelling gets its exact probability; stop when
    p(best) >= alpha (1 - mass) or there are no more (DONE), after n latent paths (0: no LIMIT), or when pool or
    labels [n, T] are FULL.

    counts[LABELLINGS] labellings are in labels and log_p; pool.last[1] is their mass, pool.last[2] the best p."""
    run = _Search(lattice, pool)
    new = int(pool.counts[LABELLINGS])
    seen = {labels[i].tobytes() for i in range(new)}
    path = np.empty(len(lattice.node), np.int32)
    mass, best, status = float(pool.last[1]), float(pool.last[2]), LIMIT
    while n == 0 or run.taken < n:
        found = -1 if new == len(labels) else run.next_path(path)
        if found < 1:
            status = FULL if found < 0 else DONE
            break
        labels[new] = label_of[path]
        name = labels[new].tobytes()
        if name in seen:
            continue
        seen.add(name)
        log_p[new] = min(0.0, float(labelling_weight(lattice.node, lattice.arc, contexts, labels[new])) - log_z)
        p = exp(log_p[new])
        new += 1
        mass += p
        best = max(best, p)
        if best >= alpha * (1 - mass):
            status = DONE
            break
    run.store()
    pool.counts[LABELLINGS] = new
    pool.last[1:] = mass, best
    return status
