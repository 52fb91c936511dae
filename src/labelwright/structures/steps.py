"""The order in which the tokens of a batch are summed, step by step, and the blocks of a graph as
matrices."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# sentences a step: one sentence of 10,000 tokens takes a hundred times as long step by step in
# NumPy
NARROW = 8


class Plan(NamedTuple):
    """Where the tokens of a batch of N sentences lie in time order."""

    order: Array  # [N]      sentences, the longest first
    lengths: Array  # [N]      their lengths, in this order
    # [longest + 1]  rows of step t: steps[t]:steps[t+1], one for each of the longest sentences
    steps: Array
    token: Array  # [T]      token of each row, counted from the first of the batch
    rank: Array  # [T]      sentence of each row, as a place in `order`

    @property
    def n_first(self) -> int:
        """How many rows are first tokens."""
        return int(self.steps[1]) if len(self.steps) > 1 else 0

    @property
    def narrow(self) -> bool:
        """Are so few sentences going at a step that a compiled loop over each is faster than a
        product for all?"""
        return len(self.token) < NARROW * (len(self.steps) - 1)

    @property
    def before(self) -> Array:
        """The row of the token before, of every row that is not a first token [T - n_first]."""
        first = np.repeat(self.steps[:-2], np.diff(self.steps)[1:])
        return first + self.rank[self.n_first :]

    @property
    def last(self) -> Array:
        """The row of the last token of every sentence that has one, in `order`."""
        lengths = self.lengths[self.lengths > 0]
        rows: Array = self.steps[lengths - 1] + np.arange(len(lengths))
        return rows

    @property
    def runs(self) -> list[tuple[slice, slice]]:
        """All rows but those of first tokens, and the rows before them, in runs of steps with as
        many sentences."""
        steps, runs, begin = self.steps.tolist(), [], 1
        for t in range(1, len(steps) - 1):
            going = steps[t + 1] - steps[t]
            if (
                t + 2 == len(steps)
                or steps[t + 2] - steps[t + 1] != going
                or steps[t] - steps[t - 1] != going
            ):
                before = slice(steps[begin - 1], steps[begin - 1] + steps[t + 1] - steps[begin])
                runs.append((before, slice(steps[begin], steps[t + 1])))
                begin = t + 1
        return runs

    def rows_of(self, rank: int) -> Array:
        """The rows of one sentence, which is a place in `order`."""
        rows: Array = self.steps[: self.lengths[rank]] + rank
        return rows

    def by_sentence(self, values: Array) -> Array:
        """Sums [N] of a number for each row [T], for the sentences as they came."""
        sums = np.empty(len(self.order))
        sums[self.order] = np.bincount(self.rank, values, len(self.order))
        return sums


def plan(offsets: Array) -> Plan:
    """The time order of the sentences offsets[n]:offsets[n+1].

    >>> made = plan(np.array([0, 1, 4, 6]))
    >>> made.order.tolist(), made.steps.tolist(), made.token.tolist()
    ([1, 2, 0], [0, 3, 5, 6], [1, 4, 0, 2, 5, 3])
    """
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    longest = int(lengths[0]) if len(lengths) else 0
    # [longest]  sentences longer than t
    going = np.searchsorted(-lengths, -np.arange(longest), side="left")
    steps = np.concatenate([[0], np.cumsum(going)]).astype(np.int64)
    rank = np.arange(steps[-1]) - np.repeat(steps[:-1], going)
    token = (offsets[:-1] - offsets[0])[order][rank] + np.repeat(np.arange(longest), going)
    return Plan(order, lengths, steps, token, rank)


class Run(NamedTuple):
    """Neighbouring blocks of a graph that have the same size: matrices from their sources to their
    targets."""

    nodes: Any  # [blocks * sources]  the sources of all, or a slice
    source: slice  # the same among nodes in the order of blocks.source
    target: slice
    arcs: slice
    shape: tuple[int, int, int]  # blocks, sources, targets

    def matrices(self, E: Array) -> Array:
        """The numbers of the arcs E [1|T, A] as matrices [1|T, blocks, sources, targets]: a
        view."""
        return E[:, self.arcs].reshape(len(E), *self.shape)

    def at_sources(self, x: Array) -> Array:
        """x [n, Q], in the order of sources, at those of all blocks [n, blocks, sources]: a
        view."""
        return x[:, self.source].reshape(len(x), *self.shape[:2])

    def at_targets(self, x: Array) -> Array:
        """x [n, Q] at the targets of all blocks [n, blocks, targets]: a view."""
        return x[:, self.target].reshape(len(x), self.shape[0], self.shape[2])


def runs_of(blocks: Any) -> list[Run]:
    """The blocks of a graph (states.Blocks), those of the same size together."""
    source_ptr, source, target, arc_ptr = blocks[:4]
    if len(arc_ptr) == 2:
        every, into = slice(0, len(source)), slice(0, int(target[1]))
        return [Run(every, every, into, slice(0, int(arc_ptr[1])), (1, len(source), into.stop))]
    ends = list(zip(source_ptr.tolist(), target.tolist(), arc_ptr.tolist(), strict=True))
    shapes = [(s1 - s, t1 - t) for (s, t, _), (s1, t1, _) in pairwise(ends)]
    runs, b = [], 0
    while b < len(shapes):
        end = b + 1
        while end < len(shapes) and shapes[end] == shapes[b]:
            end += 1
        sources, targets, arcs = (
            slice(first, last) for first, last in zip(ends[b], ends[end], strict=True)
        )
        runs.append(Run(source[sources], sources, targets, arcs, (end - b, *shapes[b])))
        b = end
    return runs
