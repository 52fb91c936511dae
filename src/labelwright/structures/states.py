"""The state space: labels, the latent states of each label, and the allowed transitions between states.

Latent variables are defined only here: kernels see plain states.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import allowed
from labelwright.errors import OptionError
from labelwright.structures.graph import Graph, first_order, second_order

MAX_ARCS = 1 << 27  # a gigabyte for one number on each


class StateSpace(NamedTuple):
    """Label l has the states first[l]:first[l+1]; `arc` says which may follow which; lattices have this `graph`."""

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
    """Labels with their latent states (one number for all labels, or one per label), all transitions allowed except
    those that a label scheme forbids, or pairs of labels: for these, order 2 builds no pairs.

    >>> state_space(["O", "B"], 2).label_of.tolist()
    [0, 0, 1, 1]
    >>> state_space(["O", "B-X", "I-X"], order=2, scheme="iob2").graph.n_nodes  # 8 pairs of 9, 2 of 3 first labels
    10
    """
    first = _first_states([n_latent] * len(labels) if isinstance(n_latent, int) else n_latent, order)
    yes = np.ones(int(first[-1]), np.bool_)
    free = assembled(tuple(labels), first, yes, np.ones((len(yes), len(yes)), np.bool_), yes, 1)
    if scheme is not None:
        free = free.constrained(scheme)
    if forbidden:
        free = free.without(forbidden)
    return free if order == 1 else assembled(free.labels, first, free.start, free.arc, free.end, order)


def _first_states(sizes: Iterable[int], order: int) -> NDArray[np.int32]:
    """The first state of each label [L+1]; more states than arcs have room for are refused."""
    first = list(accumulate(map(int, sizes), initial=0))  # of any size, as they are not checked yet
    S = first[-1]
    if S**2 > MAX_ARCS or (order == 2 and S**3 > MAX_ARCS):
        what = "pairs" if order == 1 else "triples"
        raise OptionError(
            f"{S:,} states make {S ** (order + 1):,} {what} of states, more than {MAX_ARCS:,}; use fewer labels, fewer "
            f"latent states{', or order 1' if order == 2 else ''}"
        )
    return np.array(first, np.int32)


def resized(space: StateSpace, sizes: Sequence[int] | NDArray[np.int64]) -> StateSpace:
    """The same labels with other numbers of states [L]; what the first state of a label is allowed, all of them are.

    >>> resized(state_space(["O", "B"], 2), [1, 3]).label_of.tolist()
    [0, 1, 1, 1]
    """
    first = _first_states(sizes, space.graph.order)
    like = np.repeat(space.first[:-1], np.diff(first))  # [S]  a state of the same label
    return assembled(
        space.labels, first, space.start[like], space.arc[np.ix_(like, like)], space.end[like], space.graph.order
    )


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
    graph = first_order(label_of, len(labels)) if order == 1 else second_order(label_of, len(labels), start, arc)
    return StateSpace(labels, first, label_of, start, arc, end, graph)


def state_names(space: StateSpace) -> list[str]:
    """A name for each state: its label, and a number where the label has several.

    >>> state_names(state_space(["O", "B"], [1, 2]))
    ['O', 'B#1', 'B#2']
    """
    sizes = np.diff(space.first)
    return [
        space.labels[label] if sizes[label] == 1 else f"{space.labels[label]}#{state - space.first[label] + 1}"
        for state, label in enumerate(space.label_of)
    ]
