"""Candidate labels of tokens, and the graph of a sentence over them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import allowed
from labelwright.errors import OptionError
from labelwright.kernels.arrays import ranges
from labelwright.structures.dag import Dag
from labelwright.structures.states import MAX_ARCS, Blocks, Contexts, Graph, StateSpace

Array = NDArray[Any]
MOST_PAIRS = 1 << 31  # of candidates of neighbouring tokens, of all of them together: their numbers are int32
AT_ONCE = 1 << 20  # pairs that are listed at once


class LabelLists(NamedTuple):
    """The candidate labels of tokens, in rising order."""

    ptr: Array  # [T+1] int64
    label: Array  # [slots] int32  of token t: label[ptr[t]:ptr[t+1]]

    @property
    def mean(self) -> float:
        """How many labels a token has on average."""
        return len(self.label) / max(1, len(self.ptr) - 1)

    def of(self, begin: int, end: int) -> "LabelLists":
        """Those of the tokens begin:end."""
        ptr = self.ptr[begin : end + 1]
        return LabelLists(ptr - ptr[0], self.label[ptr[0] : ptr[-1]])

    def with_more(self, token: Array, label: Array) -> "LabelLists":
        """The same with further labels of some tokens."""
        n_tokens, n_labels = len(self.ptr) - 1, int(max(self.label.max(initial=0), label.max(initial=0))) + 1
        known = np.repeat(np.arange(n_tokens), np.diff(self.ptr)) * n_labels + self.label
        every = np.union1d(known, np.asarray(token, np.int64) * n_labels + label)
        ptr = np.searchsorted(every, np.arange(n_tokens + 1) * n_labels)
        return LabelLists(ptr.astype(np.int64), (every % n_labels).astype(np.int32))

    def places_of(self, labels: Array) -> Array:
        """The slot of one label of every token [T]; -1 where it is no candidate."""
        n_labels = int(max(self.label.max(initial=0), labels.max(initial=0))) + 1
        token = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))
        known, wanted = token * n_labels + self.label, np.arange(len(labels)) * n_labels + labels
        place = np.minimum(np.searchsorted(known, wanted), max(0, len(known) - 1))
        return np.where(known[place] == wanted, place, -1) if len(known) else np.full(len(labels), -1)


class Chart(NamedTuple):
    """Candidates of sentences with all that is needed to sum over them."""

    offsets: Array  # [N+1]
    lists: LabelLists
    pair_ptr: Array  # [T+1]  pairs of slots of neighbours, the slots of t - 1 one after the other
    place: Array  # [pairs] int32  the weight of a pair; P: it has none, P + 1: it is not allowed

    def graph(self, n: int, slots: Array, pairs: Array) -> tuple[Dag, Array]:
        """The graph of sentence n, which is not empty, and the scores of its arcs by those of slots, and of pairs by
        place.  Node 0 is the beginning, node 1 + s its slot s; the arcs from the beginning come first, then the pairs
        as they are numbered."""
        a, b = self.offsets[n : n + 2].tolist()
        ptr = self.lists.ptr[a : b + 1] - self.lists.ptr[a]
        first = np.arange(1, ptr[1] + 1)
        before, after = _slot_pairs(ptr, np.arange(1, b - a))
        source = np.concatenate([np.zeros_like(first), 1 + before]).astype(np.int32)
        target = np.concatenate([first, 1 + after]).astype(np.int32)
        sinks = np.arange(1 + ptr[-2], 1 + ptr[-1], dtype=np.int32)
        scores: Array = slots[self.lists.ptr[a] : self.lists.ptr[b]][target - 1]
        scores[len(first) :] += pairs[self.place[self.pair_ptr[a] : self.pair_ptr[b]]]
        return Dag(source, target, int(ptr[-1]) + 1, np.zeros(1, np.int32), sinks), scores


class SparseTransitions(NamedTuple):
    """The pairs of labels that have a weight, by their first label."""

    ptr: Array  # [L+1] int64
    second: Array  # [P] int32  the pairs of label r: second[ptr[r]:ptr[r+1]], rising

    @property
    def first(self) -> Array:
        """The first label of each pair [P]."""
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    @property
    def codes(self) -> Array:
        """The pairs as r * L + s, rising."""
        pairs: Array = self.first * (len(self.ptr) - 1) + self.second
        return pairs

    def places(self, codes: Array) -> Array:
        """The number of each of these pairs; -1 where it has none."""
        known = self.codes
        if not len(known):
            return np.full(len(codes), -1)
        place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(known[place] == codes, place, -1)


def sparse_transitions(n_labels: int, pairs: Array) -> SparseTransitions:
    """Transitions from rising codes r * L + s."""
    ptr = np.searchsorted(pairs, np.arange(n_labels + 1, dtype=np.int64) * n_labels)
    return SparseTransitions(ptr.astype(np.int64), (pairs % n_labels).astype(np.int32))


def chart(lists: LabelLists, offsets: Array, transitions: SparseTransitions, permitted: Array | None = None) -> Chart:
    """The chart of candidates; `permitted` [L, L] are the transitions that are allowed, where not all are."""
    sizes, L = np.diff(lists.ptr), len(transitions.ptr) - 1
    later = _later(offsets, len(sizes))
    n_pairs = np.zeros(len(sizes), np.int64)
    n_pairs[later] = sizes[later - 1] * sizes[later]
    if n_pairs.sum(dtype=np.float64) > MOST_PAIRS:
        raise OptionError(
            f"prune_labels: {n_pairs.sum(dtype=np.float64):,.0f} transitions between candidates are too many; train on "
            "fewer sentences, or keep a smaller share of the gold labels"
        )
    pair_ptr = offsets_from(n_pairs)
    place = np.empty(int(pair_ptr[-1]), np.int32)
    known, done = transitions.codes, 0
    none = len(known)
    for first, second in _label_pairs(lists, later):
        code = first.astype(np.int64) * L + second
        at = np.searchsorted(known, code)
        at[known.take(at, mode="clip") != code if none else slice(None)] = none
        if permitted is not None:
            at[~permitted[first, second]] = none + 1
        place[done : done + len(at)] = at
        done += len(at)
    return Chart(offsets, lists, pair_ptr, place)


def _slot_pairs(ptr: Array, t: Array) -> tuple[Array, Array]:
    """The pairs of slots of the tokens t - 1 and t, one token behind the other."""
    sizes, before = ptr[t + 1] - ptr[t], ptr[t] - ptr[t - 1]
    first = ranges(ptr[t - 1], before)
    n = np.repeat(sizes, before)
    return np.repeat(first, n), ranges(np.repeat(ptr[t], before), n)


def _label_pairs(lists: LabelLists, later: Array) -> Iterator[tuple[Array, Array]]:
    """The labels of all pairs of slots before and at these tokens, not too many at once."""
    sizes = np.diff(lists.ptr)
    part = np.cumsum(sizes[later - 1] * sizes[later]) // AT_ONCE
    for t in np.split(later, np.flatnonzero(np.diff(part)) + 1):
        first, second = _slot_pairs(lists.ptr, t)
        yield lists.label[first], lists.label[second]


def _later(offsets: Array, n_tokens: int) -> Array:
    """The tokens that are not the first of their sentence."""
    later = np.ones(n_tokens + 1, np.bool_)
    later[offsets] = False
    return np.flatnonzero(later[:-1])


def candidate_pairs(lists: LabelLists, offsets: Array, n_labels: int) -> Array:
    """All pairs r * L + s of candidates of neighbouring tokens, rising."""
    seen = np.zeros((n_labels, n_labels), np.bool_)
    for pair in _label_pairs(lists, _later(offsets, len(lists.ptr) - 1)):
        seen[pair] = True
    return np.flatnonzero(seen)


def pieces_between(offsets: Array, lost: Array) -> Array:
    """The offsets of the pieces of sentences that are left between lost tokens, each of which is a piece of its own."""
    at = np.flatnonzero(lost)
    return np.unique(np.concatenate([offsets, at, at + 1]))


def gold_lists(gold: Array) -> LabelLists:
    """The gold labels [T] as the only candidates."""
    return LabelLists(np.arange(len(gold) + 1, dtype=np.int64), gold.astype(np.int32))


def label_space(labels: Sequence[str], scheme: str | None = None) -> StateSpace:
    """The labels of a model whose graph is never built: one state each, all transitions but those that a label scheme
    forbids."""
    L = len(labels)
    if L**2 > MAX_ARCS:
        raise OptionError(f"{L:,} labels make {L**2:,} pairs of labels, more than {MAX_ARCS:,}; use fewer labels")
    every, none = np.arange(L, dtype=np.int32), np.empty(0, np.int64)
    blocks = Blocks(none, none, none, none)
    contexts = Contexts(np.arange(L), none, none, none, none, none, none, none, none)
    graph = Graph(1, every, np.full(L, -1), every, none, every, blocks, contexts)
    yes = np.ones(L, np.bool_)
    first = np.arange(L + 1, dtype=np.int32)
    space = StateSpace(tuple(labels), first, every, yes, np.ones((L, L), np.bool_), yes.copy(), graph)
    if scheme is None:
        return space
    permitted = allowed(labels, scheme)
    return space._replace(start=permitted.start, arc=permitted.arc, end=permitted.end)
