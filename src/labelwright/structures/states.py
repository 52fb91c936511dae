"""The state space: labels, the latent states of each label, and the allowed transitions between
states.

Latent variables are defined only here: kernels see plain states.

The nodes and arcs on which the lattices of a state space are built, of first or second order.

First order: a node for every state, an arc for every pair.  Second order: a node for every pair of
states that may follow each other, and for every state that may begin a sentence; arcs join (r, s)
to (s, u).  Both are *blocks* in which every source has an arc to every target: one block of all
states, or one for every state s in the middle.  So one set of kernels serves both.  With the labels
x and y of one state each, at order 2:

    nodes     0: x x   1: x y   2: y x   3: y y   4: - x   5: - y (4, 5: at the first token)
    block x   from 0, 2, 4 (they end in x) to 0, 1 (they begin with x): arcs 0 to 5, by source
    block y   from 1, 3, 5                 to 2, 3                    : arcs 6 to 11

Sums and best paths (kernels chain, inference) need no more than that.  The last label or two of a
*labelling* are its *context*; kernels that follow labellings (clamped, search) go from context to
context.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import ranges
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import allowed
from labelwright.errors import OptionError

MAX_ARCS = 1 << 27  # a gigabyte for one number on each
Array = NDArray[Any]
NamedArrays = TypeVar("NamedArrays", "Blocks", "Contexts")


# -- graphs ----------------------------------------------------------------------------------------


class Blocks(NamedTuple):
    """Arcs of block b: from each of its sources to each of its targets, which are neighbours."""

    source_ptr: Array  # [B+1]
    # [Q]    sources of block b: source[source_ptr[b]:source_ptr[b+1]]; each node is a source once
    source: Array
    target: Array  # [B+1]  targets of block b: nodes target[b]:target[b+1]
    arc_ptr: Array  # [B+1]  its arcs: arc_ptr[b]:arc_ptr[b+1], source by source
    # [Q, 4]  source by source: the node, the first and the end of its targets, its first arc
    rows: Array


class Contexts(NamedTuple):
    """What a prefix of a labelling has to remember: its last label (order 1) or last two, each with
    its nodes.

    The targets of node q with label y are the nodes cut[block[q], y]:cut[block[q], y+1], neighbours
    in their context; the arc from q to its target k is number base[q] + k."""

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
    def label_before(self) -> Array:
        """The label before that of each node [Q]: -1 where there is none; of first order -2."""
        if self.order == 1:
            return np.full(self.n_nodes, -2)
        return np.where(self.previous < 0, -1, self.label_of_state[self.previous]).astype(np.int64)

    @property
    def ends(self) -> tuple[Array, Array]:
        """The source and the target of every arc [A]."""
        source, first, end, _ = self.blocks.rows.T
        return np.repeat(source, end - first), ranges(first, end - first)

    @property
    def node_of_pair(self) -> Array:
        """The node (order 2) of each pair r * S + s; -1 where there is none [S * S]."""
        node_of = np.full(self.n_states**2, -1)
        inner = np.flatnonzero(self.previous >= 0)
        node_of[self.previous[inner] * self.n_states + self.state[inner]] = inner
        return node_of

    @property
    def arc_of_triple(self) -> Array:
        """The arc (order 2) of each triple (r * S + s) * S + u; -1 where there is none [S * S *
        S]."""
        S = self.n_states
        node = self.node_of_pair.reshape(S, S)
        before, after = node[:, :, None], node[None, :, :]
        arcs: Array = np.where((before < 0) | (after < 0), -1, self.contexts.base[before] + after)
        return arcs.reshape(-1)


def _blocks(source_ptr: Array, source: Array, target: Array, arc_ptr: Array) -> Blocks:
    """Blocks with their rows of arcs."""
    block = np.repeat(np.arange(len(arc_ptr) - 1), np.diff(source_ptr))  # [Q]  of each source
    # arcs of the block before its own
    before = (np.arange(len(source)) - source_ptr[block]) * np.diff(target)[block]
    rows = np.stack([source, target[block], target[block + 1], arc_ptr[block] + before], axis=1)
    return Blocks(source_ptr, source, target, arc_ptr, rows)


def first_order(label_of: Array, n_labels: int, width: int | None = None) -> Graph:
    """All states and all pairs; with `width`, rows and columns of arcs are padded to it by nodes
    without a label."""
    S = len(label_of)
    width = width or S
    every = np.arange(width)
    first = np.searchsorted(label_of, np.arange(n_labels + 1))
    labels = np.arange(n_labels)
    blocks = _blocks(
        np.array([0, width]), every, np.array([0, width]), np.array([0, width * width])
    )
    slot = np.zeros(width, np.int64)
    slot[:S] = every[:S] - first[label_of]
    contexts = Contexts(
        labels,
        np.tile(labels, (n_labels, 1)),
        labels,
        first,
        every[:S],
        slot,
        every * 0,
        every * width,
        first[None, :],
    )
    return Graph(
        1,
        every[:S],
        np.full(S, -1),
        label_of,
        every * 0,
        label_of,
        _longs(blocks),
        _longs(contexts),
    )


def second_order(label_of: Array, n_labels: int, start: Array, arc: Array) -> Graph:
    """Pairs of states that may follow each other, as arc [S, S] and start [S] say, alike for the
    states of a label."""
    S = len(label_of)
    r, s = np.nonzero(arc)  # pairs in order of the first state: targets of one block are neighbours
    opens = np.flatnonzero(start)
    previous = np.concatenate([r, np.full(len(opens), -1)])
    state = np.concatenate([s, opens])
    Q = len(state)
    # Block b holds what goes through state b; the last one has only targets, the nodes of the first
    # token.
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
        cut[b] = target[b] + np.searchsorted(
            label[target[b] : target[b + 1]], np.arange(n_labels + 1)
        )
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
        number[:n_labels],
        number[n_labels:].reshape(n_labels, n_labels)[last],
        last,
        ptr,
        node,
        slot,
        state,
        base,
        cut,
    )
    blocks = _blocks(source_ptr, source, target, arc_ptr)
    return Graph(2, state, previous, label, origin, label_of, _longs(blocks), _longs(contexts))


def _longs(arrays: NamedArrays) -> NamedArrays:
    """One type for all arrays: kernels are compiled once."""
    return type(arrays)(*(np.ascontiguousarray(array, np.int64) for array in arrays))


# -- the state space -------------------------------------------------------------------------------


class StateSpace(NamedTuple):
    """Label l has the states first[l]:first[l+1]; `arc` says which may follow which; lattices have
    this `graph`."""

    labels: tuple[str, ...]  # [L]
    first: NDArray[np.int32]  # [L+1]
    label_of: NDArray[np.int32]  # [S]
    start: NDArray[np.bool_]  # [S]     may a sentence begin here?
    arc: NDArray[np.bool_]  # [S, S]  may the second follow the first?
    end: NDArray[np.bool_]  # [S]     may a sentence end here?
    graph: Graph

    @property
    def n_labels(self) -> int:
        return len(self.labels)

    @property
    def n_states(self) -> int:
        return len(self.label_of)

    @property
    def latent(self) -> bool:
        """Whether any label has more than one state."""
        return self.n_states > self.n_labels

    def constrained(self, scheme: str) -> "StateSpace":
        """The same states and graph with only the transitions that a label scheme permits."""
        permitted = allowed(self.labels, scheme)
        label = self.label_of
        return self._replace(
            start=self.start & permitted.start[label],
            arc=self.arc & permitted.arc[np.ix_(label, label)],
            end=self.end & permitted.end[label],
        )

    def without(self, pairs: Sequence[tuple[int, int]]) -> "StateSpace":
        """The same without the transitions from the first label of each pair to the second."""
        permitted = np.ones((self.n_labels, self.n_labels), np.bool_)
        for before, after in pairs:
            permitted[before, after] = False
        return self._replace(arc=self.arc & permitted[np.ix_(self.label_of, self.label_of)])


def state_space(
    labels: Sequence[str],
    n_latent: int | Sequence[int] = 1,
    order: int = 1,
    scheme: str | None = None,
    forbidden: Sequence[tuple[int, int]] = (),
) -> StateSpace:
    """Labels with their latent states (one number for all labels, or one per label), all
    transitions allowed except those that a label scheme forbids, or pairs of labels: for these,
    order 2 builds no pairs.

    >>> state_space(["O", "B"], 2).label_of.tolist()
    [0, 0, 1, 1]
    >>> space = state_space(["O", "B-X", "I-X"], order=2, scheme="iob2")
    >>> space.graph.n_nodes  # 8 pairs of 9, 2 of 3 first labels
    10
    """
    first = _first_states(
        [n_latent] * len(labels) if isinstance(n_latent, int) else n_latent, order
    )
    yes = np.ones(int(first[-1]), np.bool_)
    free = assembled(tuple(labels), first, yes, np.ones((len(yes), len(yes)), np.bool_), yes, 1)
    if scheme is not None:
        free = free.constrained(scheme)
    if forbidden:
        free = free.without(forbidden)
    return (
        free if order == 1 else assembled(free.labels, first, free.start, free.arc, free.end, order)
    )


def _first_states(sizes: Iterable[int], order: int) -> NDArray[np.int32]:
    """The first state of each label [L+1]; more states than arcs have room for are refused."""
    first = list(accumulate(map(int, sizes), initial=0))  # of any size, as they are not checked yet
    S = first[-1]
    if S**2 > MAX_ARCS or (order == 2 and S**3 > MAX_ARCS):
        what = "pairs" if order == 1 else "triples"
        raise OptionError(
            f"{S:,} states make {S ** (order + 1):,} {what} of states, more than {MAX_ARCS:,}; use "
            f"fewer labels, fewer latent states{', or order 1' if order == 2 else ''}"
        )
    return np.array(first, np.int32)


def assembled(
    labels: tuple[str, ...],
    first: NDArray[np.int32],
    start: NDArray[np.bool_],
    arc: NDArray[np.bool_],
    end: NDArray[np.bool_],
    order: int,
) -> StateSpace:
    """A state space from its parts."""
    label_of = np.repeat(np.arange(len(labels), dtype=np.int32), np.diff(first))
    graph = (
        first_order(label_of, len(labels))
        if order == 1
        else second_order(label_of, len(labels), start, arc)
    )
    return StateSpace(labels, first, label_of, start, arc, end, graph)


def state_names(space: StateSpace) -> list[str]:
    """A name for each state: its label, and a number where the label has several.

    >>> state_names(state_space(["O", "B"], [1, 2]))
    ['O', 'B#1', 'B#2']
    """
    sizes = np.diff(space.first)
    return [
        space.labels[label]
        if sizes[label] == 1
        else f"{space.labels[label]}#{state - space.first[label] + 1}"
        for state, label in enumerate(space.label_of)
    ]
