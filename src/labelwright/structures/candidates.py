"""Candidate labels of tokens, and the graph of a sentence over them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import ranges
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import OptionError
from labelwright.structures.dag import Dag
from labelwright.structures.states import MAX_ARCS, Blocks, Contexts, Graph, StateSpace

Array = NDArray[Any]
# of candidates of neighbouring tokens, of all of them together: their numbers are int32
MOST_PAIRS = 1 << 31
AT_ONCE = 1 << 20  # pairs that are listed at once
# pairs of labels for each pair of candidates, up to which a table of all of them is worth it
TABLE = 16
BEGIN = np.zeros(1, np.int32)


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
        n_tokens, n_labels = (
            len(self.ptr) - 1,
            int(max(self.label.max(initial=0), label.max(initial=0))) + 1,
        )
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
        return (
            np.where(known[place] == wanted, place, -1) if len(known) else np.full(len(labels), -1)
        )


class Chart(NamedTuple):
    """Candidates of sentences with all that is needed to sum over them."""

    offsets: Array  # [N+1]
    lists: LabelLists
    # [T+1]  pairs of slots of neighbours, the slots of t - 1 one after the other; at a first token
    pair_ptr: Array
    # the slots themselves
    place: Array  # [pairs] int32  the weight of a pair; P: it has none, P + 1: it is not allowed

    def of(self, begin: int, end: int) -> "Chart":
        """The chart of the tokens begin:end, which are one sentence."""
        ptr = self.pair_ptr[begin : end + 1]
        return Chart(
            np.array([0, end - begin]),
            self.lists.of(begin, end),
            ptr - ptr[0],
            self.place[ptr[0] : ptr[-1]],
        )

    def graphs(self, slots: Array, pairs: Array) -> "Graphs":
        """The graphs of all sentences, with scores of arcs by those of slots, and of pairs by
        place."""
        ptr, sizes = self.lists.ptr, np.diff(self.lists.ptr)
        later, n_sources = _sources(sizes, self.offsets)
        # of the slots of a sentence
        base = np.repeat(ptr[self.offsets[:-1]], np.diff(self.offsets)) - 1
        first = np.where(later, np.roll(ptr[:-1], 1) - base, 0)
        width, n_arcs = np.repeat(sizes, n_sources), n_sources * sizes
        slot = ranges(np.repeat(ptr[:-1], n_sources), width)
        scores: Array = slots[slot]
        scores += pairs[self.place]
        source = np.repeat(ranges(first, n_sources).astype(np.int32), width)
        target = (slot - np.repeat(base, n_arcs)).astype(np.int32)
        ends = self.pair_ptr[self.offsets], ptr[self.offsets], sizes[self.offsets[1:] - 1]
        return Graphs(source, target, scores, *ends)


class Graphs(NamedTuple):
    """The graphs of sentences over candidates, one behind the other: node 0 of each is its
    beginning, node 1 + s its slot s.  The arcs from the beginning come first, then the pairs of
    slots as they are numbered."""

    source: Array  # [A] int32
    target: Array  # [A] int32
    scores: Array  # [A]
    ptr: Array  # [N+1]  arcs of each
    slot_ptr: Array  # [N+1]  and slots
    n_sinks: Array  # [N]  so many last nodes are sinks

    def of(self, n: int) -> tuple[Dag, Array]:
        """The graph of sentence n, which is not empty, and the scores of its arcs."""
        here, Q = (
            slice(int(self.ptr[n]), int(self.ptr[n + 1])),
            int(self.slot_ptr[n + 1] - self.slot_ptr[n]) + 1,
        )
        sinks = np.arange(Q - self.n_sinks[n], Q, dtype=np.int32)
        return Dag(self.source[here], self.target[here], Q, BEGIN, sinks), self.scores[here]


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


def chart(
    lists: LabelLists,
    offsets: Array,
    transitions: SparseTransitions,
    permitted: Array | None = None,
) -> Chart:
    """The chart of candidates; `permitted` [L, L] are the transitions that are allowed, where not
    all are."""
    sizes, L = np.diff(lists.ptr), len(transitions.ptr) - 1
    later, n_sources = _sources(sizes, offsets)
    n_pairs = n_sources * sizes
    if n_pairs.sum(dtype=np.float64) > MOST_PAIRS:
        raise OptionError(
            f"prune_labels: {n_pairs.sum(dtype=np.float64):,.0f} transitions between candidates "
            "are too many; train on fewer sentences, or keep a smaller share of the gold labels"
        )
    pair_ptr = offsets_from(n_pairs)
    place, done, known = np.empty(int(pair_ptr[-1]), np.int32), 0, transitions.codes
    none, table = len(known), None
    allowed = None if permitted is None else np.append(permitted.reshape(-1), np.ones(L, np.bool_))
    if TABLE * (len(place) + 1) >= L * L:
        table = np.full(L * L + L, none, np.int32)
        table[known] = np.arange(none)
    for code in _pair_codes(lists, np.arange(len(sizes)), later, L):
        at: Array
        if table is not None:
            at = table.take(code)
        else:
            at = np.searchsorted(known, code)
            at[known.take(at, mode="clip") != code if none else slice(None)] = none
        if allowed is not None:
            at[~allowed[code]] = none + 1
        place[done : done + len(at)] = at
        done += len(at)
    return Chart(offsets, lists, pair_ptr, place)


def _sources(sizes: Array, offsets: Array) -> tuple[Array, Array]:
    """Which tokens are not the first of their sentence [T], and how many slots lead to each slot of
    a token [T]: those of the token before, or the beginning."""
    later = np.ones(len(sizes) + 1, np.bool_)
    later[offsets] = False
    return later[:-1], np.where(later[:-1], np.roll(sizes, 1), 1)


def _pair_codes(lists: LabelLists, tokens: Array, later: Array, n_labels: int) -> Iterator[Array]:
    """The pairs r * L + s of candidates before and at these tokens, not too many at once; L * L + s
    at first tokens."""
    ptr, sizes = lists.ptr, np.diff(lists.ptr)
    n_sources = np.where(later, np.roll(sizes, 1), 1)
    # the last: the beginning
    first = np.append(lists.label.astype(np.int64) * n_labels, n_labels * n_labels)
    part = np.cumsum(n_sources[tokens] * sizes[tokens]) // AT_ONCE
    for t in np.split(tokens, np.flatnonzero(np.diff(part)) + 1):
        n, width = n_sources[t], np.repeat(sizes[t], n_sources[t])
        before = first[ranges(np.where(later[t], ptr[t - 1], len(first) - 1), n)]
        code = np.repeat(before, width)
        code += lists.label[ranges(np.repeat(ptr[t], n), width)]
        yield code


def candidate_pairs(lists: LabelLists, offsets: Array, n_labels: int) -> Array:
    """All pairs r * L + s of candidates of neighbouring tokens, rising."""
    seen = np.zeros(n_labels * n_labels, np.bool_)
    later, _ = _sources(np.diff(lists.ptr), offsets)
    for code in _pair_codes(lists, np.flatnonzero(later), later, n_labels):
        seen[code] = True
    return np.flatnonzero(seen)


def pieces_between(offsets: Array, lost: Array) -> Array:
    """The offsets of the pieces of sentences that are left between lost tokens, each of which is a
    piece of its own."""
    at = np.flatnonzero(lost)
    return np.unique(np.concatenate([offsets, at, at + 1]))


def gold_lists(gold: Array) -> LabelLists:
    """The gold labels [T] as the only candidates."""
    return LabelLists(np.arange(len(gold) + 1, dtype=np.int64), gold.astype(np.int32))


def label_space(labels: Sequence[str], scheme: str | None = None) -> StateSpace:
    """The labels of a model whose graph is never built: one state each, all transitions but those
    that a label scheme forbids."""
    L = len(labels)
    if L**2 > MAX_ARCS:
        raise OptionError(
            f"{L:,} labels make {L**2:,} pairs of labels, more than {MAX_ARCS:,}; use fewer labels"
        )
    every, none = np.arange(L, dtype=np.int32), np.empty(0, np.int64)
    blocks = Blocks(none, none, none, none, none)
    contexts = Contexts(np.arange(L), none, none, none, none, none, none, none, none)
    graph = Graph(1, every, np.full(L, -1), every, none, every, blocks, contexts)
    yes = np.ones(L, np.bool_)
    first = np.arange(L + 1, dtype=np.int32)
    space = StateSpace(
        tuple(labels), first, every, yes, np.ones((L, L), np.bool_), yes.copy(), graph
    )
    return space if scheme is None else space.constrained(scheme)
