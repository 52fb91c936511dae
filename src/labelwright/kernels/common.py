"""What several kernels share: sums of numbers given by their logarithms, when scaled sums must give
way to them, binary search, a binary heap; in NumPy, ranges of numbers, and the time order of a
batch of chains."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import inlined_kernel, kernel, literal_kernel, max_kernel, unsigned

Array = NDArray[Any]

# Forward-backward in scaled probability space: a scale c_t below the first number has lost digits.
# What underflows in alpha_t, psi_t or E counts at most beta_t / c_t times its size: above the
# second number it might count, as in a path that looks hopeless at first and wins later.  Such
# sentences are summed in log space.
SMALL32, LARGE32 = 1e-18, 1e28
SMALL64, LARGE64 = 1e-200, 1e280


@kernel
def trusted_range(itemsize):
    """The smallest scale and the largest message that may be trusted, by the bytes of a number."""
    return (SMALL32, LARGE32) if itemsize == 4 else (SMALL64, LARGE64)


@max_kernel
def largest(x, first, last):
    """The largest of x[first:last], none of which is NaN; minus infinity where there is none."""
    m = -np.inf
    for i in range(unsigned(first), unsigned(last)):
        m = max(m, x[i])
    return m


@literal_kernel
def log_sum(x, n):
    """log of the sum of exp(x[0]) .. exp(x[n-1])."""
    m = largest(x, 0, n)
    if not np.isfinite(m):
        return m
    total = 0.0
    for i in range(n):
        total += np.exp(x[i] - m)
    return m + np.log(total)


@log_sum.in_numpy
def _(x, n):
    top = x[:n].max(initial=-np.inf)
    return top + np.log(np.exp(x[:n] - top).sum()) if np.isfinite(top) else top


@literal_kernel
def softmax(x, n):
    """x[0] .. x[n-1] become exp(x) over their sum, so that equal ones get equal shares at any
    scale; returns log of the sum.  Where all are minus infinity, they become 0."""
    m = largest(x, 0, n)
    if m == -np.inf:
        for i in range(n):
            x[i] = 0.0
        return m
    total = 0.0
    for i in range(unsigned(n)):
        x[i] = np.exp(x[i] - m)
        total += x[i]
    one = 1 / total
    for i in range(unsigned(n)):
        x[i] *= one
    return m + np.log(total)


@literal_kernel
def subtract_largest(x, first, last):
    """Subtract the largest of x[first:last] from them and return it; 0 where all are minus
    infinity."""
    m = largest(x, first, last)
    if m == -np.inf:
        return 0.0
    for i in range(first, last):
        x[i] -= m
    return m


@subtract_largest.in_numpy
def _(x, first, last):
    top = row_maxima(x[first:last])[0]
    x[first:last] -= top
    return top


def row_maxima(x: Array) -> Array:
    """The largest number of each row [T, 1]; 0 where all are minus infinity."""
    top = x.max(axis=-1, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0.0)


def log_sums(x: Array) -> Array:
    """log of the sums of exp along the last axis."""
    top = row_maxima(x)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0])


def softmax_of(x: Array) -> Array:
    """exp(x) over their sum along the last axis; 0 where all are minus infinity."""
    e = np.exp(x - row_maxima(x))
    total = e.sum(axis=-1, keepdims=True)
    return np.asarray(e / np.where(total > 0, total, 1.0))


@inlined_kernel
def find(numbers, first, last, wanted):
    """The place of `wanted` among the rising numbers[first:last], by halving; -1 where it is
    not."""
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < last and numbers[low] == wanted else -1


@kernel
def longest_of(order, offsets):
    """The length of the longest of these sentences."""
    longest = 0
    for i in range(order.shape[0]):
        longest = max(longest, offsets[order[i] + 1] - offsets[order[i]])
    return longest


# -- a binary heap of item numbers: the highest priority first, of equal ones the smallest tie -----


@kernel
def push(priority, tie, heap, size, i):
    """Put item i into a heap of this size."""
    at = size
    p, d = priority[i], tie[i]
    while at > 0:
        up = (at - 1) // 2
        j = heap[up]
        if priority[j] > p or (priority[j] == p and tie[j] <= d):
            break
        heap[at] = j
        at = up
    heap[at] = i


@kernel
def pop(priority, tie, heap, size):
    """Take the first item out of a heap of this size."""
    first = heap[0]
    i = heap[size - 1]
    p, d = priority[i], tie[i]
    at = 0
    while 2 * at + 1 < size - 1:
        down = 2 * at + 1
        j = heap[down]
        if down + 1 < size - 1:
            k = heap[down + 1]
            if priority[k] > priority[j] or (priority[k] == priority[j] and tie[k] < tie[j]):
                down, j = down + 1, k
        if p > priority[j] or (p == priority[j] and d <= tie[j]):
            break
        heap[at] = j
        at = down
    heap[at] = i
    return first


# -- in NumPy alone --------------------------------------------------------------------------------


def ranges(begin: Any, sizes: Array) -> Array:
    """begin[0], begin[0] + 1, ... (sizes[0] numbers), begin[1], ...; as one array.

    >>> ranges(np.array([3, 10]), np.array([2, 3])).tolist()
    [3, 4, 10, 11, 12]
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(begin - (ends - sizes), sizes))


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
