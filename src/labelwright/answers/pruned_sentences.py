"""Scored sentences of a model with many labels: every token has a few candidate labels, which are
the nodes of a graph.

All probabilities are those among labellings of candidates; a decoding says whether its labelling is
proven to be the best of *all* labellings.  Decoders other than the best path run on a small lattice
that has only the labels of the sentence's candidates."""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.chains import CHAIN_DECODERS, Chain, Chains
from labelwright.answers.graphs import GraphSentence
from labelwright.decode.mbr import costs_among
from labelwright.decode.record import Decoding, impossible
from labelwright.parallel import computed_once
from labelwright.scoring.candidate_scores import (
    MOST_NUMBERS,
    WIDEST,
    CandidateScores,
    Missed,
    ScoredChart,
)
from labelwright.structures import dag
from labelwright.structures.candidates import Graphs, LabelLists
from labelwright.structures.dag import Reading
from labelwright.structures.states import assembled

Array = NDArray[Any]
ROUNDS = 12  # in which candidates are enlarged until the best labelling is proven
MORE = 32  # candidates that a token gets in one round, at most
SLACK = 1e-9  # a bound that is so close to the best score counts as equal


class PrunedChains:
    """The candidates of some sentences, scored together."""

    def __init__(self, scores: CandidateScores, lists: LabelLists, first: int, offsets: Array):
        """`first` is the first token of the sentences, whose tokens are then counted from 0 by
        offsets [N+1]."""
        self.scores, self.first, self.offsets = scores, first, offsets
        self.scored: ScoredChart = scores.scored(lists, first, offsets)
        self._tempered: tuple[float, PrunedChains] | None = None

    @staticmethod
    def of(scores: CandidateScores, begin: int, end: int) -> "PrunedChains":
        """The sentences begin:end of the data."""
        offsets = scores.offsets[begin : end + 1]
        first = int(offsets[0])
        lists = scores.lists(first, int(offsets[-1]))
        without = np.flatnonzero(np.diff(lists.ptr) == 0)  # tokens whose forced labels leave none
        if len(without):
            raise impossible(
                begin + int(np.searchsorted(offsets - first, without[0], side="right")) - 1
            )
        return PrunedChains(scores, lists, first, offsets - first)

    def tempered(self, temperature: float) -> "PrunedChains":
        """The same candidates with scores divided by a temperature; the last ones are kept."""
        if self._tempered is None or self._tempered[0] != temperature:
            lists, scores = self.scored.chart.lists, self.scores.tempered(temperature)
            self._tempered = temperature, PrunedChains(scores, lists, self.first, self.offsets)
        return self._tempered[1]

    @property
    def sentences(self) -> "list[PrunedSentence | None]":
        """The sentences, with as many candidates as they need for a labelling that is allowed; None
        where there are no tokens."""
        sizes, space = np.diff(self.offsets).tolist(), self.scores.space
        free = self.scores.permitted is None and all(
            may.all() for may in (space.start, space.arc, space.end)
        )
        made = [PrunedSentence(self, n) if size else None for n, size in enumerate(sizes)]
        return (
            made
            if free
            else [None if sentence is None else sentence.possible() for sentence in made]
        )

    @computed_once
    def graphs(self) -> Graphs:
        made, slots = self.scored
        return made.graphs(slots, self.scores.pairs)


class Proof(NamedTuple):
    """What is known of the labellings that pruning cut off."""

    missed: Missed | None  # None: the sentence is too long
    mass: float | None  # the share of candidates in the probability of all labellings, at least


class PrunedSentence(GraphSentence):
    """One sentence of a batch of candidates."""

    decoders = CHAIN_DECODERS
    standing = None

    def __init__(self, chains: PrunedChains, n: int):
        self.chains, self.n = chains, n
        # counted from the first token of the chains
        self.begin, self.end = chains.offsets[n : n + 2].tolist()
        self.labels, self.of_labels, self._stand = (
            chains.scores.space.labels,
            chains.scores.scheme,
            None,
        )
        self.T = self.end - self.begin

    @computed_once
    def _made(self) -> tuple[dag.Dag, Array]:
        return self.chains.graphs.of(self.n)

    @computed_once
    def reading(self) -> Reading:
        slot = self.graph.target - 1
        token = np.repeat(np.arange(len(self)), np.diff(self.lists.ptr))[slot]
        return Reading(np.arange(len(slot)), token, token + 1, self.lists.label[slot])

    def _codes_of(self, path: Array) -> Array:
        codes: Array = self.lists.label[self.graph.target[path] - 1]
        return codes

    @property
    def span_types(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.chains.scores.span_types

    def tempered(self, temperature: float) -> "PrunedSentence":  # type: ignore[override]
        return PrunedSentence(self.chains.tempered(temperature), self.n)

    # -- candidates --------------------------------------------------------------------------------

    @computed_once
    def lists(self) -> LabelLists:
        return self.chains.scored.chart.lists.of(self.begin, self.end)

    def _with_lists(self, lists: LabelLists) -> "PrunedSentence":
        chains = PrunedChains(
            self.chains.scores, lists, self.chains.first + self.begin, np.array([0, len(self)])
        )
        return PrunedSentence(chains, 0)

    def possible(self) -> "PrunedSentence":
        """The sentence with as many candidates as it needs for a labelling that is allowed."""
        sentence, wider, scores, first = self, 2, self.chains.scores, self.chains.first
        while sentence._path[1] == -np.inf and scores.pruning.most * wider <= 2 * WIDEST:
            sentence = self._with_lists(scores.lists(first + self.begin, first + self.end, wider))
            wider *= 2
        return sentence

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; one with other labels weighs so much that its probability is
        that among its labels and the candidates."""
        others = np.flatnonzero(self.lists.places_of(np.asarray(codes)) < 0)
        if not len(others):
            return super().weight_of(codes)
        larger = self._with_lists(self.lists.with_more(others, np.asarray(codes)[others]))
        return larger.weight_of(codes) - larger.log_z() + self.log_z()

    state_marginals = GraphSentence.marginals

    @computed_once
    def local(self) -> Chain:
        """The lattice over the labels of its candidates alone."""
        scores, (ptr, label) = self.chains.scores, self.lists
        codes, local = np.unique(label, return_inverse=True)
        T, U = len(self), len(codes)
        here = self.chains.scored.chart.lists.ptr[[self.begin, self.end]]
        state = np.full((T, U), -np.inf)
        state[np.repeat(np.arange(T), np.diff(ptr)), local] = self.chains.scored.slots[
            slice(*here.tolist())
        ]
        first, second = np.repeat(codes, U), np.tile(codes, U)
        place = scores.parameters.sparse.places(
            first.astype(np.int64) * scores.space.n_labels + second
        )
        pairs = np.where(place < 0, 0.0, scores.pairs[place])
        pairs[~scores.space.arc[first, second]] = -np.inf
        labels = tuple(self.labels[y] for y in codes.tolist())
        start, yes = np.arange(U + 1, dtype=np.int32), np.ones(U, np.bool_)
        space = assembled(labels, start, yes, pairs.reshape(U, U) > -np.inf, yes, 1)
        return Chain(Chains(state, pairs.reshape(1, -1), [(0, T)], space, scores.scheme), 0)

    # -- the best labelling ------------------------------------------------------------------------

    def decode(
        self, decoder: str, *, number: int = 0, probabilities: bool = True, **options: Any
    ) -> Decoding:
        """The labelling that a decoder finds among candidates; "exact" adds candidates until it is
        proven."""
        if self._path[1] == -np.inf:
            raise impossible(number)
        if decoder == "exact":
            return self._exact(**options)
        if decoder == "viterbi":
            record = super().decode(decoder, probabilities=probabilities, **options)
            return self._judged(record) if probabilities else record._replace(exact=False, gap=None)
        if options.get("costs") is not None:
            options["costs"] = costs_among(options["costs"], self.labels, self.local.labels)
        return self._judged(
            self.local.decode(decoder, number=number, probabilities=probabilities, **options)
        )

    def decode_ruled(self, ruled: Any, decoder: str, **options: Any) -> Decoding:  # type: ignore[override]
        return self._judged(self.local.decode_ruled(ruled, decoder, **options))

    def _judged(self, record: Decoding) -> Decoding:
        """What a decoder says of candidates, made true of all labels."""
        proof = self._proof
        if not record.exact or proof.missed is None:
            return record._replace(exact=False, gap=None)
        if proof.missed.highest <= record.score + SLACK:
            return record._replace(gap=0.0, mass=proof.mass)
        log_z = self.log_z()
        high, low = proof.missed.highest - log_z, record.score - log_z
        gap = min(1.0, float(np.exp(min(high, 1.0)) - np.exp(min(low, 0.0))))
        return record._replace(exact=False, gap=max(gap, 5e-324), mass=proof.mass)

    def _exact(
        self, max_expansions: int | None = None, time_limit: float | None = None
    ) -> Decoding:
        """The best labelling, after adding candidates where the bound fails: at most
        `max_expansions` of them."""
        sentence, begun, added = self, time.monotonic(), 0
        limit = np.inf if max_expansions is None else max_expansions
        for _ in range(ROUNDS):
            missed, best = sentence._proof.missed, sentence._path[1]
            late = time_limit is not None and time.monotonic() - begun >= time_limit
            if missed is None or missed.highest <= best + SLACK or late or added >= limit:
                break
            lists = _enlarged(sentence.lists, missed.scores, best, WIDEST)
            if lists is None:
                break
            added += len(lists.label) - len(sentence.lists.label)
            sentence = sentence._with_lists(lists)
        return sentence.decode("viterbi")._replace(expansions=added)

    @computed_once
    def _proof(self) -> Proof:
        scores, chains = self.chains.scores, self.chains
        if len(self) * scores.space.n_labels > MOST_NUMBERS:
            return Proof(None, None)
        rows = scores.rows(chains.first + self.begin, chains.first + self.end)
        mass = float(
            np.exp(min(0.0, self.log_z() - scores.mass_bound(chains.scored, self.n, rows)))
        )
        return Proof(scores.missed(chains.scored, self.n, self._made, rows), mass)


def _enlarged(lists: LabelLists, bounds: Array, best: float, widest: int) -> LabelLists | None:
    """Candidates with those labels added that may be better; None where tokens have too many
    already."""
    token, label = np.nonzero(bounds > best + SLACK)
    order = np.lexsort((-bounds[token, label], token))
    token, label = token[order], label[order]
    first = np.searchsorted(token, np.arange(len(bounds)))
    rank = np.arange(len(token)) - first[token]
    chosen = rank < np.minimum(MORE, widest - np.diff(lists.ptr))[token]
    return lists.with_more(token[chosen], label[chosen]) if chosen.any() else None
