"""Candidate labels of tokens, and the nodes and arcs over them: kernels/candidate_chains.py numbers these."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import allowed
from labelwright.errors import OptionError
from labelwright.kernels import candidates as kernels
from labelwright.structures.graph import Blocks, Contexts, Graph
from labelwright.structures.states import MAX_ARCS, StateSpace

Array = NDArray[Any]
MOST_LATTICE_ARCS = 1 << 31  # of the candidates of all tokens together: numbers of arcs are int32


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


class Layout(NamedTuple):
    """Blocks of nodes and arcs of every token: B blocks with H sources and J targets each."""

    blocks: Array  # [T]
    sources: Array  # [T]
    targets: Array  # [T]
    node_ptr: Array  # [T+1]
    arc_ptr: Array  # [T+1]


class Places(NamedTuple):
    """Where the weights of the transitions between candidates are: see kernels.candidate_chains."""

    pair: Array  # [pairs] int32
    triple: Array  # [triples] int32  of order 2


class Chart(NamedTuple):
    """Candidates of sentences with all that is needed to sum over them."""

    order: int
    offsets: Array  # [N+1]
    lists: LabelLists
    layout: Layout
    pair_ptr: Array  # [T+1]  pairs of slots of neighbours
    places: Places

    @property
    def arc_place(self) -> Array:
        """The places of the weights of arcs."""
        return self.places.pair if self.order == 1 else self.places.triple


class SparseTransitions(NamedTuple):
    """The transitions that have a weight: pairs of labels by their first label, triples by their pair."""

    pair_ptr: Array  # [L+1] int64
    second: Array  # [P] int32  the pairs of label r: second[pair_ptr[r]:pair_ptr[r+1]], rising
    triple_ptr: Array  # [P+1] int64
    third: Array  # [P3] int32  the triples of pair p: third[triple_ptr[p]:triple_ptr[p+1]], rising

    @property
    def first(self) -> Array:
        """The first label of each pair [P]."""
        return np.repeat(np.arange(len(self.pair_ptr) - 1), np.diff(self.pair_ptr))

    def codes(self, part: str) -> Array:
        """Pairs as r * L + s, or triples as (r * L + s) * L + u, rising."""
        L = len(self.pair_ptr) - 1
        pairs: Array = self.first * L + self.second
        if part == "transitions":
            return pairs
        triples: Array = np.repeat(pairs, np.diff(self.triple_ptr)) * L + self.third
        return triples


def sparse_transitions(n_labels: int, pairs: Array, triples: Array) -> SparseTransitions:
    """Transitions from rising codes r * L + s and (r * L + s) * L + u; the pair of every triple is among the pairs."""
    ptr = np.searchsorted(pairs, np.arange(n_labels + 1, dtype=np.int64) * n_labels)
    pair_of = np.searchsorted(pairs, triples // n_labels)
    triple_ptr = np.searchsorted(pair_of, np.arange(len(pairs) + 1))
    second, third = (pairs % n_labels).astype(np.int32), (triples % n_labels).astype(np.int32)
    return SparseTransitions(ptr.astype(np.int64), second, triple_ptr.astype(np.int64), third)


def layout_of(sizes: Array, offsets: Array, order: int) -> tuple[Layout, Array]:
    """The blocks of tokens with so many candidates each [T], and where the pairs of each token begin [T+1]."""
    sizes = np.asarray(sizes, np.int64)
    begins = _begins(offsets, len(sizes))
    before = np.where(begins, 1, np.concatenate([[1], sizes[:-1]]))  # candidates of the token before
    pair_ptr = offsets_from(np.where(begins, 0, before * sizes))
    if order == 1:
        blocks, sources, nodes = np.ones_like(sizes), before, sizes
    else:
        blocks, sources, nodes = before, np.concatenate([[1], before[:-1]]), before * sizes
    arcs = np.where(begins, 0, blocks * sources * sizes)
    if arcs.sum(dtype=np.float64) > MOST_LATTICE_ARCS:
        raise OptionError(
            f"prune_labels: {arcs.sum(dtype=np.float64):,.0f} transitions between candidates are too many; train on "
            f"fewer sentences, or keep a smaller share of the gold labels{', or use order 1' if order == 2 else ''}"
        )
    ptr = offsets_from(nodes), offsets_from(arcs)
    return Layout(blocks, sources, sizes, *ptr), pair_ptr


def chart(
    lists: LabelLists,
    offsets: Array,
    order: int,
    transitions: SparseTransitions,
    permitted: Array | None = None,
) -> Chart:
    """The chart of candidates; `permitted` [L, L] are the transitions that are allowed, where not all are."""
    layout, pair_ptr = layout_of(np.diff(lists.ptr), offsets, order)
    T = len(lists.ptr) - 1
    begins = _begins(offsets, T)
    rules = np.empty((0, 0), np.bool_) if permitted is None else permitted
    pair = np.empty(int(pair_ptr[-1]), np.int32)
    slots = lists.ptr, lists.label, begins, pair_ptr
    kernels.pair_places(transitions.pair_ptr, transitions.second, rules, *slots, 0, T, pair)
    triple = np.empty(int(layout.arc_ptr[-1]) if order == 2 else 0, np.int32)
    if order == 2:
        rows = transitions.triple_ptr, transitions.third
        kernels.triple_places(*rows, *slots, pair, layout.arc_ptr, 0, T, triple)
    return Chart(order, offsets, lists, layout, pair_ptr, Places(pair, triple))


def candidate_pairs(lists: LabelLists, offsets: Array, n_labels: int) -> Array:
    """All pairs r * L + s of candidates of neighbouring tokens, rising."""
    seen = np.zeros((n_labels, n_labels), np.bool_)
    kernels.mark_pairs(*lists, _begins(offsets, len(lists.ptr) - 1), seen)
    return np.flatnonzero(seen)


def candidate_triples(lists: LabelLists, offsets: Array, n_labels: int, most: int) -> Array | None:
    """All triples (r * L + s) * L + u of candidates, rising; None where tokens have more than `most` together."""
    begins = _begins(offsets, len(lists.ptr) - 1)
    where = *lists, begins, n_labels, 0, len(begins)
    size = kernels.list_triples(*where, np.empty(0, np.int64))
    if size > most:
        return None
    codes = np.empty(size, np.int64)
    if size:
        kernels.list_triples(*where, codes)
    return np.unique(codes)


def pieces_between(offsets: Array, lost: Array) -> Array:
    """The offsets of the pieces of sentences that are left between lost tokens, each of which is a piece of its own."""
    at = np.flatnonzero(lost)
    return np.unique(np.concatenate([offsets, at, at + 1]))


def gold_lists(gold: Array) -> LabelLists:
    """The gold labels [T] as the only candidates."""
    return LabelLists(np.arange(len(gold) + 1, dtype=np.int64), gold.astype(np.int32))


def _begins(offsets: Array, n_tokens: int) -> Array:
    """Whether each token is the first of its sentence [T]."""
    begins = np.zeros(n_tokens + 1, np.bool_)
    begins[offsets] = True
    return begins[:-1]


def label_space(labels: Sequence[str], order: int, scheme: str | None = None) -> StateSpace:
    """The labels of a model whose graph is never built: one state each, all transitions but those that a label scheme
    forbids."""
    L = len(labels)
    if L**2 > MAX_ARCS:
        raise OptionError(f"{L:,} labels make {L**2:,} pairs of labels, more than {MAX_ARCS:,}; use fewer labels")
    every, none = np.arange(L, dtype=np.int32), np.empty(0, np.int64)
    blocks = Blocks(none, none, none, none)
    contexts = Contexts(np.arange(L), none, none, none, none, none, none, none, none)
    graph = Graph(order, every, np.full(L, -1), every, none, every, blocks, contexts)
    yes = np.ones(L, np.bool_)
    first = np.arange(L + 1, dtype=np.int32)
    space = StateSpace(tuple(labels), first, every, yes, np.ones((L, L), np.bool_), yes.copy(), graph)
    if scheme is None:
        return space
    permitted = allowed(labels, scheme)
    return space._replace(start=permitted.start, arc=permitted.arc, end=permitted.end)
