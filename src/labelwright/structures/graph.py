"""The nodes and arcs on which the lattices of a state space are built, of first or second order.

First order: a node for every state, an arc for every pair.  Second order: a node for every pair of states that may
follow each other, and for every state that may begin a sentence; arcs join (r, s) to (s, u).  Both are *blocks* in
which every source has an arc to every target: one block of all states, or one for every state s in the middle.  So one
set of kernels serves both.  With the labels x and y of one state each, at order 2:

    nodes     0: x x    1: x y    2: y x    3: y y    4: - x    5: - y        (the last two at the first token)
    block x   from 0, 2, 4 (they end in x) to 0, 1 (they begin with x)        arcs 0 to 5, source by source
    block y   from 1, 3, 5                 to 2, 3                            arcs 6 to 11

Sums and best paths (kernels chain, inference) need no more than that.  The last label or two of a *labelling* are its
*context*; kernels that follow labellings (clamped, search) go from context to context.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from

Array = NDArray[Any]
NamedArrays = TypeVar("NamedArrays", "Blocks", "Contexts")


class Blocks(NamedTuple):
    """Arcs of block b: from each of its sources to each of its targets, which are neighbours."""

    source_ptr: Array  # [B+1]
    source: Array  # [Q]    sources of block b: source[source_ptr[b]:source_ptr[b+1]]; each node is a source once
    target: Array  # [B+1]  targets of block b: nodes target[b]:target[b+1]
    arc_ptr: Array  # [B+1]  its arcs: arc_ptr[b]:arc_ptr[b+1], source by source


class Contexts(NamedTuple):
    """What a prefix of a labelling has to remember: its last label (order 1) or last two, each with its nodes.

    The targets of node q with label y are the nodes cut[block[q], y]:cut[block[q], y+1], neighbours in their context;
    the arc from q to its target k is number base[q] + k."""

    opening: Array  # [L]       context of a first label; -1: none
    following: Array  # [C, L]    context after one more label; -1: none
    label: Array  # [C]       the last label
    ptr: Array  # [C+1]
    node: Array  # [Q]       nodes of context c: node[ptr[c]:ptr[c+1]]
    slot: Array  # [Q]       place of a node in its context
    block: Array  # [Q]       block in which it is a source
    base: Array  # [Q]
    cut: Array  # [B, L+1]


class Graph(NamedTuple):
    """Nodes, arcs and contexts of a state space."""

    order: int
    state: Array  # [Q]  the state of a node: of order 2, the second of its pair
    previous: Array  # [Q]  the first of its pair; -1 where there is none
    label_of_node: Array  # [Q]
    origin: Array  # [width]  block in which it is a target
    label_of_state: Array  # [S]
    blocks: Blocks
    contexts: Contexts

    @property
    def n_states(self) -> int:
        return len(self.label_of_state)

    @property
    def n_nodes(self) -> int:
        return len(self.state)

    @property
    def width(self) -> int:
        """The number of nodes and, where rows are padded, of the places after them."""
        return len(self.origin)

    @property
    def n_arcs(self) -> int:
        return int(self.blocks.arc_ptr[-1])

    @property
    def most_in_context(self) -> int:
        """The number of nodes of the largest context."""
        return int(np.diff(self.contexts.ptr).max())

    @property
    def most_targets(self) -> int:
        """The largest number of targets with one label that a node has."""
        of_blocks = np.diff(self.contexts.cut, axis=1).max(axis=1)
        has_sources = np.diff(self.blocks.source_ptr) > 0
        return int(of_blocks[has_sources].max(initial=0))

    @property
    def names(self) -> tuple[Array, Array, Array, Array]:
        """The label of each node [Q], the label before it [Q] (-1: none; of first order -2), the first node of each
        label [L+1] (order 1), and where the arcs from each node are numbered from [Q]."""
        n_labels = len(self.contexts.opening)
        before = np.full(self.n_nodes, -2)
        if self.order == 2:
            before = np.where(self.previous < 0, -1, self.label_of_state[self.previous])
        first = np.searchsorted(self.label_of_state, np.arange(n_labels + 1))
        arrays = self.label_of_node, before, first, self.contexts.base
        label, before, first, base = (np.ascontiguousarray(x, np.int64) for x in arrays)
        return label, before, first, base

    @property
    def ends(self) -> tuple[Array, Array]:
        """The source and the target of every arc [A]."""
        blocks = self.blocks
        sources, targets = [], []
        for b in range(len(blocks.arc_ptr) - 1):
            sources_of_block = blocks.source[blocks.source_ptr[b] : blocks.source_ptr[b + 1]]
            into = np.arange(blocks.target[b], blocks.target[b + 1])
            sources.append(np.repeat(sources_of_block, len(into)))
            targets.append(np.tile(into, len(sources_of_block)))
        return np.concatenate(sources), np.concatenate(targets)

    @property
    def node_of_pair(self) -> Array:
        """The node (order 2) of each pair r * S + s; -1 where there is none [S * S]."""
        node_of = np.full(self.n_states**2, -1)
        inner = np.flatnonzero(self.previous >= 0)
        node_of[self.previous[inner] * self.n_states + self.state[inner]] = inner
        return node_of

    @property
    def arc_of_triple(self) -> Array:
        """The arc (order 2) of each triple (r * S + s) * S + u; -1 where there is none [S * S * S]."""
        S = self.n_states
        node = self.node_of_pair.reshape(S, S)
        before, after = node[:, :, None], node[None, :, :]
        arcs: Array = np.where((before < 0) | (after < 0), -1, self.contexts.base[before] + after)
        return arcs.reshape(-1)


def first_order(label_of: Array, n_labels: int, width: int | None = None) -> Graph:
    """All states and all pairs; with `width`, rows and columns of arcs are padded to it by nodes without a label."""
    S = len(label_of)
    width = width or S
    every = np.arange(width)
    first = np.searchsorted(label_of, np.arange(n_labels + 1))
    labels = np.arange(n_labels)
    blocks = Blocks(np.array([0, width]), every, np.array([0, width]), np.array([0, width * width]))
    slot = np.zeros(width, np.int64)
    slot[:S] = every[:S] - first[label_of]
    contexts = Contexts(
        labels, np.tile(labels, (n_labels, 1)), labels, first, every[:S], slot, every * 0, every * width, first[None, :]
    )
    return Graph(1, every[:S], np.full(S, -1), label_of, every * 0, label_of, _longs(blocks), _longs(contexts))


def second_order(label_of: Array, n_labels: int, start: Array, arc: Array) -> Graph:
    """Pairs of states that may follow each other, as arc [S, S] and start [S] say, alike for the states of a label."""
    S = len(label_of)
    r, s = np.nonzero(arc)  # pairs in order of the first state: targets of one block are neighbours
    opens = np.flatnonzero(start)
    previous = np.concatenate([r, np.full(len(opens), -1)])
    state = np.concatenate([s, opens])
    Q = len(state)
    # Block b holds what goes through state b; the last one has only targets, the nodes of the first token.
    target = np.append(np.searchsorted(r, np.arange(S + 1)), Q)
    origin = np.where(previous < 0, S, previous)
    source = np.argsort(state, kind="stable")
    source_ptr = np.append(np.searchsorted(state[source], np.arange(S + 1)), Q)
    n_sources, n_targets = np.diff(source_ptr), np.diff(target)
    arc_ptr = offsets_from(n_sources * n_targets)
    base = np.empty(Q, np.int64)
    row = np.arange(Q) - source_ptr[state[source]]
    base[source] = arc_ptr[state[source]] + row * n_targets[state[source]] - target[state[source]]
    label = label_of[state]
    cut = np.empty((S + 1, n_labels + 1), np.int64)
    for b in range(S + 1):
        cut[b] = target[b] + np.searchsorted(label[target[b] : target[b + 1]], np.arange(n_labels + 1))
    # Contexts: first labels, then pairs of labels.
    before = np.where(previous < 0, -1, label_of[previous])
    key = np.where(before < 0, label, (before + 1) * n_labels + label)
    kept, context_of = np.unique(key, return_inverse=True)
    node = np.argsort(context_of, kind="stable")
    ptr = np.searchsorted(context_of[node], np.arange(len(kept) + 1))
    slot = np.empty(Q, np.int64)
    slot[node] = np.arange(Q) - ptr[context_of[node]]
    number = np.full(n_labels * (n_labels + 1), -1)
    number[kept] = np.arange(len(kept))
    last = kept % n_labels
    contexts = Contexts(
        number[:n_labels], number[n_labels:].reshape(n_labels, n_labels)[last], last, ptr, node, slot, state, base, cut
    )
    blocks = Blocks(source_ptr, source, target, arc_ptr)
    return Graph(2, state, previous, label, origin, label_of, _longs(blocks), _longs(contexts))


def _longs(arrays: NamedArrays) -> NamedArrays:
    """One type for all arrays: kernels are compiled once."""
    return type(arrays)(*(np.ascontiguousarray(array, np.int64) for array in arrays))
