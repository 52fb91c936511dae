"""Scored sentences whose structure is a chain lattice, of order 1 or 2, with or without latent
states."""

import inspect
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import runs_of
from labelwright.corpus.schemes import Boundaries, boundaries
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode import DECODERS, Decoding
from labelwright.decode.exact import Labellings, labellings, solved
from labelwright.decode.paths import best_paths
from labelwright.decode.record import Known, Ranked, impossible
from labelwright.parallel import computed_once, one_blas_thread
from labelwright.structures.dag import LabelledGraph, graph_of_lattice
from labelwright.structures.lattice import (
    Best,
    Lattice,
    Posterior,
    arc_sums,
    arcs_from,
    best_path,
    best_paths_of,
    entropy,
    label_marginals,
    labelling_score,
    labelling_weight,
    posterior,
    sample,
    span_probabilities,
    spans_of_type,
    state_marginals,
)
from labelwright.structures.states import StateSpace
from labelwright.structures.timeorder import plan, posteriors

Array = NDArray[Any]
# what the largest score becomes where sums of exponentials are to be their largest terms
COLD = 1e6
# Sums of a whole batch in time order against one call of a kernel a sentence: 0.8 times the speed
# with 22 nodes, 1.2 with 44, 1.8 with 100, 1.2 with 500 (order 2); best paths 0.2 to 0.5 times (two
# ARM cores, sentences of 25 words).  So sums of many nodes go in time order, and best paths by one
# call for the batch.
WIDE = 32  # nodes
SEVERAL = 8  # sentences
CHAIN_DECODERS = tuple(DECODERS)
PATH_DECODERS = ("viterbi",)  # where a labelling is worth its best path
DRAWN = 30  # labellings of a latent model, for the estimate of their entropy
ARCS = 1 << 18  # probabilities of arcs that are computed at once


class Chains:
    """The lattices of some sentences, scored together.

    by_paths : a labelling is worth its best path (perceptrons), not the sum over its paths"""

    def __init__(
        self,
        node: Array,  # [T, Q]
        arc: Array,  # [T or 1, A]
        bounds: Sequence[tuple[int, int]],  # [N]  first token and end of each sentence
        space: StateSpace,
        scheme: str | None = None,
        by_paths: bool = False,
    ):
        self.node, self.arc, self.bounds = node, arc, list(bounds)
        self.space, self.scheme, self.by_paths = space, scheme, by_paths
        self._tempered: tuple[float, Chains] | None = None
        # of the types of spans that were asked for, in these tables
        self._numbers: dict[str, int] = {}
        self._span_transitions: tuple[Array, ...] = ()

    @property
    def sentences(self) -> "list[Chain | None]":
        """The sentences; None where there are no tokens."""
        return [Chain(self, n) if b > a else None for n, (a, b) in enumerate(self.bounds)]

    def lattice(self, n: int) -> Lattice:
        a, b = self.bounds[n]
        arc = self.arc[a:b] if len(self.arc) > 1 else self.arc
        return Lattice(self.node[a:b], arc, self.space.graph)

    def restrict(self, permitted: Array) -> None:
        """Forbid all states [T, S] that are not permitted."""
        self.node[~permitted[:, self.space.graph.state]] = -np.inf

    def tempered(self, temperature: float) -> "Chains":
        """The same scores, divided by a temperature, as log-probabilities; the last ones are
        kept."""
        if self._tempered is None or self._tempered[0] != temperature:
            node, arc = self.node / temperature, self.arc / temperature
            self._tempered = temperature, Chains(node, arc, self.bounds, self.space, self.scheme)
        return self._tempered[1]

    @computed_once
    def _several(self) -> bool:
        return len(self.bounds) >= SEVERAL and sum(b > a for a, b in self.bounds) >= SEVERAL

    @property
    def _offsets(self) -> Array:
        return np.array([0, *(b for _, b in self.bounds)])

    @computed_once
    def sums(self) -> list[Posterior | None] | None:
        """The sums of all sentences, computed together; None where one by one is faster."""
        if not self._several or self.node.shape[1] < WIDE:
            return None
        order = plan(self._offsets)
        arc = self.arc[order.token] if len(self.arc) > 1 else self.arc
        with one_blas_thread():
            together = posteriors(self.node[order.token], arc, self.space.graph, order)
        nodes, ahead = np.empty_like(self.node), np.empty_like(self.node)
        nodes[order.token], ahead[order.token] = together.nodes, together.ahead
        return [
            Posterior(nodes[a:b], ahead[a:b], float(together.log_z[n])) if b > a else None
            for n, (a, b) in enumerate(self.bounds)
        ]

    @computed_once
    def paths(self) -> Best | None:
        """The best paths of all sentences, computed together; None where there are few."""
        if not self._several:
            return None
        return best_paths_of(self.node, self.arc, self.space.graph, self._offsets)

    @computed_once
    def solved(self) -> list[Labellings | None]:
        """The most probable labellings of all sentences, computed together."""
        return solved(self.node, self.arc, self.space.graph, self._offsets)

    @computed_once
    def node_of_pair(self) -> Array:
        return self.space.graph.node_of_pair

    @computed_once
    def span_table(self) -> Boundaries:
        return boundaries(self.space.labels)

    def span_transitions(self, kinds: Iterable[str]) -> tuple[dict[str, int], Any]:
        """Which transitions between states open, continue and close a span of each type, and the
        numbers of types."""
        new = [kind for kind in dict.fromkeys(kinds) if kind not in self._numbers]
        if new:
            tables = [
                _span_transitions(self.span_table, self.span_table.types.index(kind), self.space)
                for kind in new
            ]
            made = [np.stack(each) for each in zip(*tables, strict=True)]
            known = zip(self._span_transitions, made, strict=True)
            self._span_transitions = tuple(map(np.concatenate, known) if self._numbers else made)
            self._numbers |= {kind: len(self._numbers) + k for k, kind in enumerate(new)}
        return self._numbers, self._span_transitions


class Chain(Known):
    """One sentence of a batch of lattices."""

    def __init__(self, chains: Chains, n: int):
        super().__init__(chains.lattice(n))
        self.chains, self.n = chains, n
        self.labels = chains.space.labels

    def __len__(self) -> int:
        return len(self.lattice.node)

    @property
    def decoders(self) -> tuple[str, ...]:
        return PATH_DECODERS if self.chains.by_paths else CHAIN_DECODERS

    @computed_once
    def sums(self) -> Posterior:
        known = None if self.chains.sums is None else self.chains.sums[self.n]
        return posterior(self.lattice) if known is None else known

    @computed_once
    def path(self) -> tuple[Array, float]:
        together = self.chains.paths
        if together is None:
            return best_path(self.lattice)
        a, b = self.chains.bounds[self.n]
        return together.nodes[a:b], float(together.scores[self.n])

    @computed_once
    def solved(self) -> Labellings | None:
        """Its most probable labelling, where that takes no long search."""
        return (
            self.chains.solved[self.n]
            if self.chains._several
            else solved(*self.lattice, np.array([0, len(self)]))[0]
        )

    @property
    def fingerprint(self) -> Array:
        return self.lattice.node

    @property
    def of_labels(self) -> str | None:
        return self.chains.scheme

    @property
    def path_of_labelling(self) -> str:
        return "only" if not self.chains.space.latent else "best" if self.chains.by_paths else "sum"

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        yield graph_of_lattice(self.lattice)

    # -- answers -----------------------------------------------------------------------------------

    standing = None  # no arc stands for a span

    def decode(self, decoder: str, *, number: int = 0, **options: Any) -> Decoding:
        record = DECODERS[decoder](self.lattice, self.chains.space, self, **options)
        if record.score == -np.inf and self.sums.log_z == -np.inf:
            raise impossible(number)
        return self._by_paths(record) if self.chains.by_paths else record

    def decode_ruled(self, ruled: Any, decoder: str, number: int = 0, **options: Any) -> Decoding:
        """The best labelling that keeps rules, which may name all labels of a sentence with pruned
        ones."""
        from labelwright.rules.formulas import Sentence
        from labelwright.rules.lattices import candidates_of, solve_lattice

        space, tokens = self.chains.space, None if ruled.words is None else ruled.words[number]
        sentence = Sentence(
            candidates_of(self.lattice, space), ruled.labels, tokens, number, self.chains.scheme
        )
        if self.chains.by_paths:
            options["probabilities"] = False
        sums = decoder == "exact"
        record = solve_lattice(
            self.lattice, space, ruled.rules, sentence=sentence, sums=sums, **options
        )
        return self._by_paths(record) if self.chains.by_paths else record

    def _by_paths(self, record: Decoding) -> Decoding:
        """What is known where the score of a labelling is that of its best path."""
        proven = record.status in (None, "optimal")
        return record._replace(log_probability=None, exact=proven, gap=0.0 if proven else None)

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order; of latent models by exact search."""
        graph, latent = self.lattice.graph, self.chains.space.latent
        if not latent:
            paths, scores = best_paths(self.lattice, n)
            return Ranked(list(graph.label_of_node[paths]), scores.tolist())
        if not self.chains.by_paths:
            search = labellings(self.lattice, n, max_expansions)
            proven = max(1, search.proven)
            return Ranked(search.labels[:proven], search.log_weights[:proven])
        rows = _by_best_path(self.lattice, n, max_expansions)
        values = [labelling_score(self.lattice, row) for row in rows]
        order = sorted(range(len(rows)), key=lambda i: -values[i])
        return Ranked([rows[i] for i in order], [values[i] for i in order])

    def log_z(self) -> float:
        return self.sums.log_z

    def log_z_of(self, permitted: Array) -> float:
        node, arc, graph = self.lattice
        return posterior(
            Lattice(np.where(permitted[:, graph.label_of_node], node, -np.inf), arc, graph)
        ).log_z

    def tempered(self, temperature: float) -> "Chain":
        return Chain(self.chains.tempered(temperature), self.n)

    def marginals(self) -> Array:
        return label_marginals(self.sums.nodes, self.lattice.graph)

    def state_marginals(self) -> Array:
        """P(latent state at t) [T, S]."""
        return state_marginals(self.sums.nodes, self.lattice.graph)

    def weight_of(self, codes: Array) -> float:
        return labelling_weight(self.lattice, codes)

    def spans_in(self, labels: list[str]) -> list[Span]:
        return spans_of(labels) if self.chains.scheme is not None else []

    @property
    def span_types(self) -> tuple[str, ...]:
        return tuple(self.chains.span_table.types)

    def span_probabilities(self, spans: Sequence[Span]) -> list[float]:
        if not spans:
            return []
        numbers, transitions = self.chains.span_transitions(span.type for span in spans)
        rows = np.array([(span.start, span.end, numbers[span.type]) for span in spans])
        return span_probabilities(self.lattice, self.sums, rows, transitions)

    def entropy(self) -> float:
        """Exact without latent states; with them an estimate."""
        node, arc, graph = self.lattice

        def within(codes: Array) -> float:
            clamped = Lattice(
                np.where(graph.label_of_node == codes[:, None], node, -np.inf), arc, graph
            )
            return entropy(clamped, posterior(clamped))

        of_paths = entropy(self.lattice, self.sums)
        return entropy_by_samples(self, of_paths, within) if self.chains.space.latent else of_paths

    def likely_spans(self, least: float) -> list[Span]:
        sums, spans = arc_sums(self.lattice, self.sums), list[Span]()
        for kind in self.span_types if self.chains.scheme is not None else ():
            numbers, tables = self.chains.span_transitions([kind])
            found = spans_of_type(sums, tuple(table[numbers[kind]] for table in tables), least)
            spans += [Span(begin, end, kind, p) for begin, end, p in found]
        return sorted(spans)

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        codes: Array = self.lattice.graph.label_of_node[sample(self.lattice, n, rng)]
        return codes

    def pair_marginals(self, token: Array, first: Array, second: Array) -> Array:
        """P(label `first` at token - 1 and label `second` at token) [P]."""
        graph, sums = self.lattice.graph, self.sums
        # states of each label
        begin = np.searchsorted(graph.label_of_state, np.arange(len(self.labels) + 1))
        n_first, n_second = np.diff(begin)[first], np.diff(begin)[second]
        pair, within = runs_of(np.zeros_like(n_first), n_first * n_second)
        r = begin[first][pair] + within // n_second[pair]
        s = begin[second][pair] + within % n_second[pair]
        t = token[pair]
        if graph.order == 2:  # a node is a pair of states
            q = self.chains.node_of_pair[r * graph.n_states + s]
            return np.bincount(pair, np.where(q < 0, 0.0, sums.nodes[t, q]), len(token))
        source, row = np.unique(t * graph.n_states + r, return_inverse=True)
        p, n = np.empty(len(pair)), max(1, ARCS // graph.n_states)
        for a in range(0, len(source), n):
            arcs = arcs_from(self.lattice, sums, *divmod(source[a : a + n], graph.n_states))
            here = np.flatnonzero((a <= row) & (row < a + n))
            p[here] = arcs[row[here] - a, s[here]]
        return np.bincount(pair, p, len(token))


def entropy_by_samples(sentence: Any, of_paths: float, within: Callable[[Array], float]) -> float:
    """An unbiased estimate of the entropy of labellings that are sums of paths: the entropy of all
    paths, which is exact, less that of the paths of a labelling, as the mean over labellings that
    are drawn.

    H(Y) = H(path) - E[H(path | Y)]"""
    seed = zlib.crc32(np.ascontiguousarray(sentence.fingerprint).data)
    codes, counts = np.unique(
        sentence.sample(DRAWN, np.random.default_rng(seed)), axis=0, return_counts=True
    )
    return max(0.0, of_paths - float(counts @ [within(row) for row in codes]) / DRAWN)


@cache
def decoder_options(decoder: str) -> list[str]:
    """The options of a decoder that a caller may set."""
    return list(inspect.signature(DECODERS[decoder]).parameters)[3:]


def _by_best_path(lattice: Lattice, n: int, max_expansions: int | None) -> Array:
    """The n labellings [n, T] with the best paths: at a low temperature the sum over the paths of a
    labelling, which the exact search orders by, is its largest term."""
    node, arc, graph = lattice
    largest = (
        max(float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0)) for scores in (node, arc))
        or 1.0
    )
    search = labellings(
        Lattice(node * (COLD / largest), arc * (COLD / largest), graph), n, max_expansions
    )
    rows: Array = np.asarray(search.labels)
    return rows[: max(1, search.proven)]


def _span_transitions(
    table: Boundaries, kind: int, space: StateSpace
) -> tuple[Array, Array, Array]:
    """Which transitions between states open, continue and close a span of this type (last index:
    outside)."""
    inside = table.type_of == kind  # [L+1]
    state = np.append(space.label_of, space.n_labels)  # the outside is one more state
    opening = (table.starts & inside[None, :])[np.ix_(state, state[:-1])]
    staying = inside[:, None] & inside[None, :] & ~table.starts & ~table.ends
    closing = (table.ends & inside[:, None])[np.ix_(state[:-1], state)]
    return opening, staying[np.ix_(state[:-1], state[:-1])], closing
