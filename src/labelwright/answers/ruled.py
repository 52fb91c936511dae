"""A scored sentence under users' rules: its labellings are those that satisfy the rules, whatever its structure.

Everything is read off the product of its graph with the automaton of the rules (rules.product).  Marginals, spans,
samples and probabilities are those among the labellings that satisfy the rules; a soft rule that is broken makes a
labelling less probable by the factor exp(-weight).  Where the product is too large even without what is improbable
(rules.ruled_paths), there are no sums, and whatever needs them is refused."""

import zlib
from collections.abc import Iterator
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.chains import DRAWN
from labelwright.answers.protocol import GraphSentence, NoSumsError, Ranked, Scored, spans_within
from labelwright.corpus.spans import Span
from labelwright.decode import RULED_DECODERS
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.parallel import computed_once
from labelwright.rules.formulas import Sentence, labels_named, span_formula
from labelwright.rules.product import Path, Product, RuledPaths, TooLargeError, contradiction_in
from labelwright.rules.rules import Bound, bind
from labelwright.structures import dag
from labelwright.structures.dag import LabelledArcs, LabelledGraph

Array = NDArray[Any]
LISTED = 1000  # labellings that are examined where a labelling has many paths
MOST_PATHS = 1 << 14


class Structured(Scored, Protocol):
    """A scored sentence that rules can be put on."""

    @property
    def of_labels(self) -> str | None:
        """The scheme of its labels."""
        ...

    @property
    def path_of_labelling(self) -> str:
        """What a labelling is worth: its "only" path, its "best" one, or the "sum" of several."""
        ...

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        """Its labellings as paths of a graph; then of larger ones, for rules that no labelling of the first keeps."""
        ...


def under_rules(sentence: Structured, rules: Any, words: Any, number: int) -> "RuledSentence":
    """The sentence under rules.

    words : all sentences, for rules that read them; this is the one with this number"""
    return RuledSentence(sentence, rules, words, number)


class RuledSentence(GraphSentence):
    """One sentence, the labellings of which satisfy rules."""

    def __init__(self, base: Structured, rules: Any, words: Any, number: int):
        self.base, self.labels, self.number = base, base.labels, number
        self.rules, self.words = rules, words

    def __len__(self) -> int:
        return len(self.base)

    @property
    def decoders(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(name for name in self.base.decoders if name in RULED_DECODERS)

    @property
    def fingerprint(self) -> Array:
        return self.base.fingerprint

    @computed_once
    def _bound_paths(self) -> tuple[Bound, RuledPaths]:
        """The rules of this sentence and its paths: of several graphs that it may have, those of the first with a
        labelling that satisfies the rules."""
        graphs = self.base.labelled_graphs()
        bound, paths = self._on(next(graphs))
        for graph in graphs:
            if not _contradictory(paths):
                break
            bound, paths = self._on(graph)
        return bound, paths

    def _on(self, graph: LabelledGraph) -> tuple[Bound, RuledPaths]:
        tokens = None if self.words is None else self.words[self.number]
        candidates = graph.candidates(self.labels, len(self))
        bound = bind(self.rules, Sentence(candidates, self.labels, tokens, self.number, self.base.of_labels))
        return bound, RuledPaths.of(graph, bound, self.labels, len(self))

    @property
    def bound(self) -> Bound:
        """The rules of this sentence."""
        return self._bound_paths[0]

    @property
    def paths(self) -> RuledPaths:
        """The labellings that satisfy them."""
        return self._bound_paths[1]

    # -- the best labellings ------------------------------------------------------------------------------------------

    def decode(self, decoder: str, **options: Any) -> Decoding:
        """The best labelling, by the way that its structure has for rules; its probability is that without the
        rules."""
        return self.base.decode(decoder, **{**options, "number": self.number}, rules=self.rules, words=self.words)

    def best_by_automata(self, probabilities: bool) -> Decoding:
        """The best labelling, proven; its probability is that without the rules."""
        paths = self.paths.best()
        if not paths:
            raise contradiction_in(self.paths.graph, self.bound, self.labels, len(self), self.number)
        score = float(self.paths.graph.arcs.score[paths[0].arcs].sum())
        log_p = min(0.0, score - self.base.log_z()) if probabilities else None
        labels = [self.labels[code] for code in paths[0].codes.tolist()]
        return Decoding(labels, score, log_p, True, 0.0, status="optimal", method="automaton")

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order; the weights do not include the prices of soft rules."""
        try:
            ranked = self._listed(n) if self.base.path_of_labelling == "sum" else self._ranked(n)
        except TooLargeError:
            ranked = self._listed(n)
        if not ranked.codes and _contradictory(self.paths):
            raise contradiction_in(self.paths.graph, self.bound, self.labels, len(self), self.number)
        if not ranked.codes:
            raise OptionError(
                f"sentence {self.number}: none of the {LISTED:,} best labellings satisfies the rules; use decode"
            )
        return ranked

    def _ranked(self, n: int) -> Ranked:
        """By the best paths; of those with the same labels the first counts."""
        n_paths = n
        while True:
            paths = self.paths.best(n_paths)
            first = dict[bytes, Path]()
            for path in paths:
                first.setdefault(path.codes.tobytes(), path)
            distinct = list(first.values())
            if len(distinct) >= n or len(paths) < n_paths or n_paths >= MOST_PATHS:
                chosen = distinct[:n]
                score = self.paths.graph.arcs.score
                return Ranked([path.codes for path in chosen], [float(score[path.arcs].sum()) for path in chosen])
            n_paths *= 4

    def _listed(self, n: int) -> Ranked:
        """Those of the best labellings without rules that satisfy them."""
        every = self.base.best(max(n, LISTED))
        rows = []
        for codes, weight in zip(every.codes, every.weights, strict=True):
            labels = [self.labels[code] for code in codes.tolist()]
            if self.bound.satisfied(labels):
                rows.append((weight - self.bound.cost(labels), weight, codes))
        rows.sort(key=lambda row: -row[0])
        return Ranked([codes for *_, codes in rows[:n]], [weight for _, weight, _ in rows[:n]])

    # -- sums ---------------------------------------------------------------------------------------------------------

    @computed_once
    def _product(self) -> Product:
        return self._whole(self.paths)

    def _whole(self, paths: RuledPaths) -> Product:
        try:
            return paths.whole()
        except TooLargeError:
            raise NoSumsError(
                f"sentence {self.number}: the rules leave too many possibilities in {len(self)} tokens for "
                "probabilities; give fewer rules, name fewer labels in them, or ask for labels without probabilities"
            ) from None

    @computed_once
    def _labellings(self) -> LabelledGraph:
        """The graph of the labellings that satisfy the rules."""
        made, arcs = self._product, self.paths.graph.arcs.taken(self._product.arc)
        source, target = made.dag.source.astype(np.int64), made.dag.target.astype(np.int64)
        ruled = LabelledArcs(source, target, made.score, arcs.label, arcs.token)
        return LabelledGraph(ruled, made.dag.n_nodes, made.dag.sinks)

    @property
    def graph(self) -> dag.Dag:  # type: ignore[override]
        return self._product.dag

    @property
    def scores(self) -> Array:  # type: ignore[override]
        return self._product.score

    def codes_of(self, path: Array) -> Array:
        labels: Array = self._labellings.arcs.label[path]
        return labels[labels >= 0]

    def permitted_arcs(self, permitted: Array) -> Array:
        arcs = self._labellings.arcs
        reads, allowed = np.flatnonzero(arcs.label >= 0), np.ones(len(arcs.label), np.bool_)
        allowed[reads] = permitted[arcs.token[reads], arcs.label[reads]]
        return allowed

    def tempered(self, temperature: float) -> "RuledSentence":  # type: ignore[override]
        """The scores are divided by the temperature; the prices of soft rules are not."""
        tempered = cast(Structured, self.base.tempered(temperature))
        return RuledSentence(tempered, self.rules, self.words, self.number)

    def marginals(self) -> Array:
        """P(label at t) [T, L]."""
        rows, arcs = np.zeros((len(self), len(self.labels))), self._labellings.arcs
        reads = np.flatnonzero(arcs.label >= 0)
        np.add.at(rows, (arcs.token[reads], arcs.label[reads]), self._sums.arcs[reads])
        return np.clip(rows, 0.0, 1.0)

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; minus infinity where it breaks a hard rule."""
        labels = [self.labels[code] for code in np.asarray(codes).tolist()]
        return self.base.weight_of(codes) - self.bound.cost(labels) if self.bound.satisfied(labels) else -np.inf

    def spans_in(self, labels: list[str]) -> list[Span]:
        return self.base.spans_in(labels)

    @property
    def span_types(self) -> tuple[str, ...]:
        return self.base.span_types

    def span(self, span: Span) -> float:
        """The probability of exactly this span: the share of the labellings that have it."""
        sentence = Sentence([[]] * len(self), self.labels, scheme=self.base.of_labels)
        wanted = "span", span_formula(span, sentence, runs=self.base.of_labels is None)
        paths = RuledPaths.of(self._labellings, Bound([wanted], []), self.labels, len(self))
        product = self._whole(paths)
        return float(np.exp(min(0.0, dag.sums(product.dag, product.score).log_z - self.log_z())))

    def entropy(self) -> float:
        """Exact where a labelling is one path; otherwise less the entropy of the paths of a labelling, as the mean over
        labellings that are drawn."""
        of_paths = super().entropy()
        if self.base.path_of_labelling == "only":
            return of_paths
        seed = zlib.crc32(np.ascontiguousarray(self.fingerprint).data)
        codes, counts = np.unique(self.sample(DRAWN, np.random.default_rng(seed)), axis=0, return_counts=True)
        every = np.arange(len(self.labels))
        rows = (np.where(self.permitted_arcs(row[:, None] == every), self.scores, -np.inf) for row in codes)
        within = [dag.entropy(self.graph, scores) for scores in rows]
        return max(0.0, of_paths - float(counts @ within) / DRAWN)

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order: their tokens have labels of the type at least as
        often."""
        if self.base.of_labels is None:
            return []
        sentence, rows, shares = Sentence([[]] * len(self), self.labels), self.marginals(), {}
        for kind in self.span_types:
            inside = labels_named([kind], sentence, "span")
            shares[kind] = rows[:, [label in inside for label in self.labels]].sum(axis=1)
        return spans_within(shares, least, self.span)


def _contradictory(paths: RuledPaths) -> bool:
    """Is it known that no labelling satisfies the rules?"""
    try:
        return not paths.best()
    except TooLargeError:
        return False
