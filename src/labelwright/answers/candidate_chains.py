"""Scored sentences of a model with many labels: every token has a few candidate labels.

Best paths, log Z, marginals and weights are those of the graph of its candidates.  All other questions go to a small
lattice that has only the labels of the sentence's candidates (`local`).  All probabilities are those
among labellings of candidates; a decoding says whether its labelling is proven to be the best of *all* labellings."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.chains import CHAIN_DECODERS, Chain, Chains
from labelwright.answers.protocol import Ranked, impossible
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.mbr import costs_among
from labelwright.decode.record import Decoding
from labelwright.parallel import computed_once
from labelwright.scoring.candidate_scores import MOST_NUMBERS, WIDEST, CandidateScores, Missed, ScoredChart
from labelwright.structures import dag
from labelwright.structures.candidates import Graphs, LabelLists
from labelwright.structures.dag import LabelledGraph, graph_of_lattice
from labelwright.structures.lattice import Lattice, Posterior
from labelwright.structures.states import assembled

Array = NDArray[Any]
ROUNDS = 12  # in which candidates are enlarged until the best labelling is proven
MORE = 32  # candidates that a token gets in one round, at most
SLACK = 1e-9  # a bound that is so close to the best score counts as equal


class PrunedChains:
    """The candidates of some sentences, scored together."""

    def __init__(self, scores: CandidateScores, lists: LabelLists, first: int, offsets: Array):
        """`first` is the first token of the sentences, whose tokens are then counted from 0 by offsets [N+1]."""
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
            raise impossible(begin + int(np.searchsorted(offsets - first, without[0], side="right")) - 1)
        return PrunedChains(scores, lists, first, offsets - first)

    def tempered(self, temperature: float) -> "PrunedChains":
        """The same candidates with scores divided by a temperature; the last ones are kept."""
        if self._tempered is None or self._tempered[0] != temperature:
            lists, scores = self.scored.chart.lists, self.scores.tempered(temperature)
            self._tempered = temperature, PrunedChains(scores, lists, self.first, self.offsets)
        return self._tempered[1]

    @property
    def sentences(self) -> "list[PrunedChain | None]":
        """The sentences; None where there are no tokens."""
        sizes = np.diff(self.offsets).tolist()
        return [PrunedChain(self, n) if size else None for n, size in enumerate(sizes)]

    @computed_once
    def graphs(self) -> Graphs:
        """The graphs of all sentences."""
        made, slots = self.scored
        return made.graphs(slots, self.scores.pairs)


class Proof(NamedTuple):
    """What is known of the labellings that pruning cut off."""

    missed: Missed | None  # None: the sentence is too long
    mass: float | None  # the share of candidates in the probability of all labellings, at least


class PrunedChain:
    """One sentence of a batch of candidates."""

    def __init__(self, chains: PrunedChains, n: int):
        self.chains, self.n = chains, n
        self.labels = chains.scores.space.labels

    def __len__(self) -> int:
        return int(self.chains.offsets[self.n + 1] - self.chains.offsets[self.n])

    @property
    def decoders(self) -> tuple[str, ...]:
        return CHAIN_DECODERS

    @property
    def _tokens(self) -> tuple[int, int]:
        """The first token and the end, counted from the first token of the chains."""
        return int(self.chains.offsets[self.n]), int(self.chains.offsets[self.n + 1])

    @computed_once
    def _path(self) -> tuple[Array, float]:
        """The labels of the best path [T], and its score; minus infinity where there is none."""
        graph, scores = self.chains.graphs.of(self.n)
        path, score = dag.best_path_of(graph, scores)
        return self.lists.label[graph.target[path] - 1], score

    @computed_once
    def _sums(self) -> tuple[Array, float]:
        """P(label) of every candidate, and log Z."""
        graph, scores = self.chains.graphs.of(self.n)
        sums = dag.sums_of(graph, scores)
        return np.bincount(graph.target - 1, sums.arcs, graph.n_nodes - 1), sums.log_z

    @property
    def lists(self) -> LabelLists:
        """The candidates."""
        return self.chains.scored.chart.lists.of(*self._tokens)

    @property
    def fingerprint(self) -> Array:
        ptr = self.chains.scored.chart.lists.ptr
        a, b = self._tokens
        scores: Array = self.chains.scored.slots[ptr[a] : ptr[b]]
        return scores

    def _with_lists(self, lists: LabelLists) -> "PrunedChain":
        """The same sentence with other candidates."""
        a, b = self._tokens
        return PrunedChain(PrunedChains(self.chains.scores, lists, self.chains.first + a, np.array([0, b - a])), 0)

    @computed_once
    def _alone(self) -> "PrunedChain":
        """The sentence as the only one of its chains."""
        return self if len(self.chains.offsets) == 2 else self._with_lists(self.lists)

    @computed_once
    def possible(self) -> "PrunedChain":
        """The sentence with as many candidates as it needs for a labelling that is allowed."""
        chain, wider = self, 2
        a, b = self._tokens
        scores, first = self.chains.scores, self.chains.first
        while chain._path[1] == -np.inf and scores.pruning.most * wider <= 2 * WIDEST:
            chain = self._with_lists(scores.lists(first + a, first + b, wider))
            wider *= 2
        return chain

    @property
    def of_labels(self) -> str | None:
        return self.chains.scores.scheme

    path_of_labelling = "only"

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        local = self.possible.local
        graph = graph_of_lattice(local.chain.lattice)
        yield graph._replace(arcs=graph.arcs._replace(label=local.codes[graph.arcs.label].astype(np.int64)))

    # -- answers ------------------------------------------------------------------------------------------------------

    def decode(
        self, decoder: str, *, number: int = 0, rules: Any = None, words: Any = None, **options: Any
    ) -> Decoding:
        """The labelling that a decoder finds among candidates; "exact" adds candidates until it is proven."""
        chain = self.possible
        if rules:
            record = chain.local.decode(decoder, number=number, rules=rules, words=words, names=self.labels, **options)
            return chain._judged(record)
        if chain._path[1] == -np.inf:
            raise impossible(number)
        if decoder == "exact":
            return chain._exact(**options)
        if decoder == "viterbi":
            return chain._viterbi(**options)
        if options.get("costs") is not None:
            options["costs"] = costs_among(options["costs"], self.labels, chain.local.chain.labels)
        return chain._judged(chain.local.chain.decode(decoder, number=number, **options))

    def _viterbi(self, probabilities: bool = True) -> Decoding:
        codes, score = self._path
        record = Decoding([self.labels[y] for y in codes.tolist()], score, None, False, None)
        if not probabilities:
            return record
        return self._judged(record._replace(log_probability=min(0.0, score - self.log_z()), exact=True))

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
        self, probabilities: bool = True, max_expansions: int | None = None, time_limit: float | None = None
    ) -> Decoding:
        """The best labelling, after adding candidates where the bound fails: at most `max_expansions` of them."""
        chain, begun, added = self, time.monotonic(), 0
        limit = np.inf if max_expansions is None else max_expansions
        for _ in range(ROUNDS):
            missed, best = chain._proof.missed, chain._path[1]
            late = time_limit is not None and time.monotonic() - begun >= time_limit
            if missed is None or missed.highest <= best + SLACK or late or added >= limit:
                break
            lists = _enlarged(chain.lists, missed.scores, best, WIDEST)
            if lists is None:
                break
            added += len(lists.label) - len(chain.lists.label)
            chain = chain._with_lists(lists)
        record = chain._viterbi(probabilities=True)
        return record._replace(expansions=added)

    @computed_once
    def _proof(self) -> Proof:
        scores = self.chains.scores
        a, b = self._tokens
        if (b - a) * scores.space.n_labels > MOST_NUMBERS:
            return Proof(None, None)
        rows = scores.rows(self.chains.first + a, self.chains.first + b)
        mass = float(np.exp(min(0.0, self.log_z() - scores.mass_bound(self.chains.scored, self.n, rows))))
        return Proof(scores.missed(self.chains.scored, self.n, self.chains.graphs.of(self.n), rows), mass)

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings of candidates in order."""
        local = self.possible.local
        ranked = local.chain.best(n, max_expansions)
        return Ranked([local.codes[codes] for codes in ranked.codes], ranked.weights)

    def log_z(self) -> float:
        """Over candidates."""
        return self.possible._sums[1]

    def log_z_of(self, permitted: Array) -> float:
        """Over candidates."""
        local = self.possible.local
        return local.chain.log_z_of(permitted[:, local.codes])

    def tempered(self, temperature: float) -> "PrunedChain":
        return PrunedChain(self.chains.tempered(temperature), self.n)

    def marginals(self) -> Array:
        """P(label at t) [T, L]; 0 for labels that are no candidates."""
        token, label, share = self.candidate_marginals()
        rows = np.zeros((len(self), len(self.labels)))
        rows[token, label] = share
        return rows

    def candidate_marginals(self) -> tuple[Array, Array, Array]:
        """The token, the label and P(label at token) of every candidate."""
        chain = self.possible
        lists = chain.lists
        return np.repeat(np.arange(len(self)), np.diff(lists.ptr)), lists.label, chain._sums[0]

    state_marginals = marginals

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; one with other labels weighs so much that its probability is that among its labels
        and the candidates."""
        chain = self.possible
        slot = chain.lists.places_of(np.asarray(codes))
        others = np.flatnonzero(slot < 0)
        if not len(others):
            return chain._alone._weight(slot)
        larger = chain._with_lists(chain.lists.with_more(others, np.asarray(codes)[others]))
        weight = larger._weight(larger.lists.places_of(np.asarray(codes)))
        return weight - larger.log_z() + chain.log_z() if weight > -np.inf else weight

    def _weight(self, slot: Array) -> float:
        """The score of a path through these slots [T]."""
        made, slots = self.chains.scored
        sizes, within = np.diff(made.lists.ptr), slot - made.lists.ptr[:-1]
        t = np.arange(1, len(slot))
        pair = made.pair_ptr[t] + within[t - 1] * sizes[t] + within[t]
        return float(slots[slot].sum()) + float(self.chains.scores.pairs[made.place[pair]].sum())

    def spans_in(self, labels: list[str]) -> list[Span]:
        return spans_of(labels) if self.chains.scores.scheme is not None else []

    @property
    def span_types(self) -> tuple[str, ...]:
        return self.chains.scores.span_types

    def span(self, span: Span) -> float:
        local = self.possible.local.chain
        return local.span(span) if span.type in local.span_types else 0.0

    def entropy(self) -> float:
        """Of the labellings of candidates."""
        return self.possible.local.chain.entropy()

    def likely_spans(self, least: float) -> list[Span]:
        """All spans of candidates at least as probable as `least`, in order."""
        chain = self.possible.local.chain
        return chain.likely_spans(least) if self.chains.scores.scheme is not None else []

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        local = self.possible.local
        codes: Array = local.codes[local.chain.sample(n, rng)]
        return codes

    def pair_marginals(self, token: Array, first: Array, second: Array) -> Array:
        """P(label `first` at token - 1 and label `second` at token) [P]."""
        local = self.possible.local
        place = np.full(len(self.labels), -1)
        place[local.codes] = np.arange(len(local.codes))
        known = (place[first] >= 0) & (place[second] >= 0)
        pairs = np.zeros(len(token))
        pairs[known] = local.chain.pair_marginals(token[known], place[first[known]], place[second[known]])
        return pairs

    # -- the lattice of its own labels --------------------------------------------------------------------------------

    @computed_once
    def local(self) -> "Local":
        """The sentence over the labels of its candidates alone."""
        return local_chain(self._alone.chains)

    @property
    def lattice(self) -> Lattice:
        return self.local.chain.lattice

    def posterior(self) -> Posterior:
        return self.local.chain.posterior()


def _enlarged(lists: LabelLists, bounds: Array, best: float, widest: int) -> LabelLists | None:
    """Candidates with those labels added that may be better; None where tokens have too many already."""
    token, label = np.nonzero(bounds > best + SLACK)
    order = np.lexsort((-bounds[token, label], token))
    token, label = token[order], label[order]
    first = np.searchsorted(token, np.arange(len(bounds)))
    rank = np.arange(len(token)) - first[token]
    chosen = rank < np.minimum(MORE, widest - np.diff(lists.ptr))[token]
    return lists.with_more(token[chosen], label[chosen]) if chosen.any() else None


class Local(NamedTuple):
    """A sentence over some of the labels."""

    chain: Chain
    codes: Array  # [U]  which labels these are

    def decode(self, decoder: str, **options: Any) -> Decoding:
        return self.chain.decode(decoder, **options)


def local_chain(chains: PrunedChains) -> Local:
    """The lattice of the only sentence of some chains, over the labels of its candidates."""
    scores, (made, slots) = chains.scores, chains.scored
    ptr, label = made.lists
    codes, local = np.unique(label, return_inverse=True)
    T, U = len(ptr) - 1, len(codes)
    state = np.full((T, U), -np.inf)
    state[np.repeat(np.arange(T), np.diff(ptr)), local] = slots
    first, second = np.repeat(codes, U), np.tile(codes, U)
    place = scores.parameters.sparse.places(first.astype(np.int64) * scores.space.n_labels + second)
    pairs = np.where(place < 0, 0.0, scores.pairs[place])
    pairs[~scores.space.arc[first, second]] = -np.inf
    labels = tuple(scores.space.labels[y] for y in codes.tolist())
    start, yes = np.arange(U + 1, dtype=np.int32), np.ones(U, np.bool_)
    space = assembled(labels, start, yes, pairs.reshape(U, U) > -np.inf, yes, 1)
    return Local(Chain(Chains(state, pairs.reshape(1, -1), [(0, T)], space, scores.scheme), 0), codes)
