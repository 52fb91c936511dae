"""Scored sentences of a model with many labels: every token has a few candidate labels.

Best paths, log Z, marginals and weights are computed over the candidates by kernels of their own.  All other questions
go to a small lattice that has only the labels of the sentence's candidates (`local`).  All probabilities are those
among labellings of candidates; a decoding says whether its labelling is proven to be the best of *all* labellings."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.chains import CHAIN_DECODERS, Chain, Chains
from labelwright.answers.protocol import Ranked, impossible
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.costs import costs_among
from labelwright.decode.record import Decoding
from labelwright.kernels import candidate_chains as kernels
from labelwright.locks import computed_once
from labelwright.scoring.candidate_scores import MOST_NUMBERS, WIDEST, CandidateScores, Missed, ScoredChart
from labelwright.scoring.sparse_parameters import by_slot
from labelwright.structures.candidates import LabelLists, chart
from labelwright.structures.lattice import Lattice, Posterior
from labelwright.structures.states import StateSpace, assembled

if TYPE_CHECKING:
    from labelwright.rules.labelled_graphs import LabelledGraph

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
    def paths(self) -> tuple[Array, Array]:
        """The labels of the best paths [T] over candidates, and their scores [N]."""
        made, node, scores = self.scored.chart, self.scored.nodes, self.scores
        delta, back = np.empty(len(node)), np.zeros(len(node), np.int64)
        path, best = np.empty(int(self.offsets[-1]), np.int64), np.zeros(len(self.offsets) - 1)
        for a, b in _with_tokens(self.offsets):
            where = made.layout, node, made.arc_place, scores.arcs, self.offsets
            kernels.best_paths(*where, a, b, delta, back, path, best)
        slot = made.lists.ptr[:-1] + path % np.diff(made.lists.ptr)  # of order 2, a node is a pair
        return made.lists.label[slot], best

    @computed_once
    def around(self) -> tuple[Array, Array]:
        """The scores of the best paths over candidates up to every slot, and after it."""
        return self.scores.around(self.scored)

    @computed_once
    def sums(self) -> tuple[Array, Array]:
        """P(label) of every slot, and log Z of every sentence [N], over candidates."""
        made, node, scores = self.scored.chart, self.scored.nodes, self.scores
        alpha, beta, message = np.empty((3, len(node)))
        log_z, none = np.zeros(len(self.offsets) - 1), np.empty(0)
        with np.errstate(over="ignore"):
            E = np.exp(scores.arcs)
        for a, b in _with_tokens(self.offsets):
            kernels.sums(made.layout, node, made.arc_place, E, self.offsets, a, b, alpha, beta, message, log_z)
            rest = alpha, beta, message, log_z, none
            kernels.posteriors(made.layout, made.arc_place, E, self.offsets, a, b, *rest)
        for n in np.flatnonzero(np.isnan(log_z)).tolist():
            where = made.layout, node, made.arc_place, scores.arcs, self.offsets, n
            log_z[n] = kernels.log_sums(*where, alpha, beta, none)
        return by_slot(made, alpha), log_z


def _with_tokens(offsets: Array) -> list[tuple[int, int]]:
    """Runs of sentences that have tokens."""
    some = np.diff(offsets) > 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], some, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


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
        while chain.chains.paths[1][chain.n] == -np.inf and scores.pruning.most * wider <= 2 * WIDEST[scores.order]:
            chain = self._with_lists(scores.lists(first + a, first + b, wider))
            wider *= 2
        return chain

    @property
    def of_labels(self) -> str | None:
        return self.chains.scores.scheme

    path_of_labelling = "only"

    def labelled_graphs(self) -> "Iterator[LabelledGraph]":
        from labelwright.rules.labelled_graphs import graph_of_lattice

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
        if chain.chains.paths[1][chain.n] == -np.inf:
            raise impossible(number)
        if decoder == "exact":
            return chain._exact(**options)
        if decoder == "viterbi":
            return chain._viterbi(**options)
        if options.get("costs") is not None:
            options["costs"] = costs_among(options["costs"], self.labels, chain.local.chain.labels)
        return chain._judged(chain.local.chain.decode(decoder, number=number, **options))

    def _viterbi(self, probabilities: bool = True) -> Decoding:
        a, b = self._tokens
        codes, best = self.chains.paths
        score = float(best[self.n])
        record = Decoding([self.labels[y] for y in codes[a:b].tolist()], score, None, False, None)
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
            missed, best = chain._proof.missed, float(chain.chains.paths[1][chain.n])
            late = time_limit is not None and time.monotonic() - begun >= time_limit
            if missed is None or missed.highest <= best + SLACK or late or added >= limit:
                break
            lists = _enlarged(chain.lists, missed.scores, best, WIDEST[self.chains.scores.order])
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
        mass = None
        if scores.order == 1:
            mass = float(np.exp(min(0.0, self.log_z() - scores.mass_bound(self.chains.scored, a, b, rows))))
        return Proof(scores.missed(self.chains.scored, self.chains.around, a, b, rows), mass)

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings of candidates in order."""
        local = self.possible.local
        ranked = local.chain.best(n, max_expansions)
        return Ranked([local.codes[codes] for codes in ranked.codes], ranked.weights)

    def log_z(self) -> float:
        """Over candidates."""
        possible = self.possible
        return float(possible.chains.sums[1][possible.n])

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
        lists, ptr = chain.lists, chain.chains.scored.chart.lists.ptr
        a, b = chain._tokens
        token = np.repeat(np.arange(b - a), np.diff(lists.ptr))
        return token, lists.label, chain.chains.sums[0][ptr[a] : ptr[b]]

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
        (made, slots, _), scores = self.chains.scored, self.chains.scores
        sizes, within = np.diff(made.lists.ptr), slot - made.lists.ptr[:-1]
        t = np.arange(1, len(slot))
        pair = made.pair_ptr[t] + within[t - 1] * sizes[t] + within[t]
        weight = float(slots[slot].sum()) + float(scores.pairs[made.places.pair[pair]].sum())
        if made.order == 2:
            t = t[1:]
            arc = made.layout.arc_ptr[t] + (within[t - 1] * sizes[t - 2] + within[t - 2]) * sizes[t] + within[t]
            weight += float(scores.arcs[made.places.triple[arc]].sum())
        return weight

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
    scores, (made, slots, _) = chains.scores, chains.scored
    ptr, label = made.lists
    codes, local = np.unique(label, return_inverse=True)
    T, U = len(ptr) - 1, len(codes)
    token = np.repeat(np.arange(T), np.diff(ptr))
    state = np.full((T, U), -np.inf)
    state[token, local] = slots
    pairs = scores.pairs[_places(scores, codes)].reshape(U, U)
    labels = tuple(scores.space.labels[y] for y in codes.tolist())
    first, yes = np.arange(U + 1, dtype=np.int32), np.ones(U, np.bool_)
    if scores.order == 1:
        space = assembled(labels, first, yes, pairs > -np.inf, yes, 1)
        return Local(Chain(Chains(state, pairs.reshape(1, -1), [(0, T)], space, scores.scheme), 0), codes)
    possible = state > -np.inf
    meet = (possible[:-1].T.astype(np.float32) @ possible[1:].astype(np.float32) > 0) & (pairs > -np.inf)
    if T == 1:
        meet = np.eye(U, dtype=np.bool_)  # kernels expect an arc at least
    space = assembled(labels, first, possible[0], meet, yes, 2)
    node, arc = _second_order(scores, space, state, pairs, codes)
    return Local(Chain(Chains(node, arc, [(0, T)], space, scores.scheme), 0), codes)


def _places(scores: CandidateScores, codes: Array) -> Array:
    """The places of the transitions between all these labels [U * U]."""
    U = len(codes)
    twice = LabelLists(np.array([0, U, 2 * U]), np.tile(codes, 2).astype(np.int32))
    rules = None if scores.space.arc.all() else scores.space.arc
    return chart(twice, np.array([0, 2]), 1, scores.parameters.sparse, rules).places.pair


def _second_order(
    scores: CandidateScores, space: StateSpace, state: Array, pairs: Array, codes: Array
) -> tuple[Array, Array]:
    """Scores of the nodes [T, Q] and arcs [1, A] of a lattice of order 2."""
    graph, L = space.graph, scores.space.n_labels
    inner = graph.previous >= 0
    node = np.full((len(state), graph.n_nodes), -np.inf)
    node[0, ~inner] = state[0, graph.state[~inner]]
    r, s = graph.previous[inner], graph.state[inner]
    with np.errstate(invalid="ignore"):
        later = state[1:, s] + pairs[r, s]
    later[state[:-1, r] == -np.inf] = -np.inf
    node[1:, inner] = later
    source, target = graph.ends
    arc = np.zeros(graph.n_arcs)
    triple = np.flatnonzero(graph.previous[source] >= 0)
    one, two, three = graph.previous[source[triple]], graph.state[source[triple]], graph.state[target[triple]]
    code = (codes[one].astype(np.int64) * L + codes[two]) * L + codes[three]
    arc[triple] = scores.triples(code)
    return node, arc[None]
