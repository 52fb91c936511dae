"""A scored sentence under users' rules: its labellings are those that satisfy the rules, whatever its structure.

Everything is read off the product of its graph with the automaton of the rules (rules.product).  Marginals, spans,
samples and probabilities are those among the labellings that satisfy the rules; a soft rule that is broken makes a
labelling less probable by the factor exp(-weight)."""

import zlib
from collections.abc import Iterator
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.chains import DRAWN
from labelwright.answers.protocol import Ranked, Scored
from labelwright.corpus.spans import Span
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.parallel import computed_once
from labelwright.rules.events import Sentence, labels_named
from labelwright.rules.labelled_graphs import LabelledGraph
from labelwright.rules.product import Product, TooLargeError
from labelwright.rules.ruled_paths import Path, RuledPaths, contradiction_in
from labelwright.rules.rules import Bound, bind
from labelwright.rules.span_formulas import span_formula
from labelwright.structures import dag

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
    """The sentence under rules; of several graphs that it may have, the first with a labelling that satisfies them."""
    graphs = sentence.labelled_graphs()
    ruled = RuledSentence(sentence, next(graphs), rules, words, number)
    for graph in graphs:
        if not ruled.contradictory:
            break
        ruled = RuledSentence(sentence, graph, rules, words, number)
    return ruled


class RuledSentence:
    """One sentence, the labellings of which satisfy rules."""

    decoders = ("viterbi", "exact")

    def __init__(self, base: Structured, graph: LabelledGraph, rules: Any, words: Any, number: int):
        self.base, self.labels, self.number = base, base.labels, number
        self.rules, self.words = rules, words
        tokens = None if words is None else words[number]
        candidates = graph.candidates(self.labels, len(base))
        self.bound = bind(rules, Sentence(candidates, self.labels, tokens, number, base.of_labels))
        self.paths = RuledPaths.of(graph, self.bound, self.labels, len(base))

    def __len__(self) -> int:
        return len(self.base)

    @property
    def fingerprint(self) -> Array:
        return self.base.fingerprint

    # -- the best labellings ------------------------------------------------------------------------------------------

    def decode(self, decoder: str, *, probabilities: bool = True, **_: Any) -> Decoding:
        """The best labelling, proven; its probability is that of the model without the rules."""
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
        if not ranked.codes and self.contradictory:
            raise contradiction_in(self.paths.graph, self.bound, self.labels, len(self), self.number)
        if not ranked.codes:
            raise OptionError(
                f"sentence {self.number}: none of the {LISTED:,} best labellings satisfies the rules; use decode"
            )
        return ranked

    @property
    def contradictory(self) -> bool:
        """Is it known that no labelling satisfies the rules?"""
        try:
            return not self.paths.best()
        except TooLargeError:
            return False

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
            raise OptionError(
                f"sentence {self.number}: the automaton of the rules is too large for probabilities; give fewer rules, "
                "or ask decode or predict_nbest, which need only a part of it"
            ) from None

    @computed_once
    def _sums(self) -> dag.Sums:
        return dag.sums(self._product.dag, self._product.score)

    def log_z(self) -> float:
        """Over the labellings that satisfy the rules."""
        return self._sums.log_z

    def log_z_of(self, permitted: Array) -> float:
        return dag.sums(self._product.dag, self._permitted(permitted)).log_z

    def _permitted(self, permitted: Array) -> Array:
        """The scores of the product, minus infinity on arcs that read a label that is not permitted [T, L]."""
        arcs = self.paths.graph.arcs.taken(self._product.arc)
        reads = np.flatnonzero(arcs.label >= 0)
        scores = self._product.score.copy()
        scores[reads[~permitted[arcs.token[reads], arcs.label[reads]]]] = -np.inf
        return scores

    def tempered(self, temperature: float) -> "RuledSentence":
        """The scores are divided by the temperature; the prices of soft rules are not."""
        tempered = cast(Structured, self.base.tempered(temperature))
        return under_rules(tempered, self.rules, self.words, self.number)

    def marginals(self) -> Array:
        """P(label at t) [T, L]."""
        rows, arcs = np.zeros((len(self), len(self.labels))), self.paths.graph.arcs.taken(self._product.arc)
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
        bound = Bound([*self.bound.hard, wanted], self.bound.soft)
        product = self._whole(RuledPaths.of(self.paths.graph, bound, self.labels, len(self)))
        return min(1.0, float(np.exp(dag.sums(product.dag, product.score).log_z - self.log_z())))

    def entropy(self) -> float:
        """Exact where a labelling is one path; otherwise less the entropy of the paths of a labelling, as the mean over
        labellings that are drawn."""
        of_paths = max(0.0, dag.entropy(self._product.dag, self._product.score))
        if self.base.path_of_labelling == "only":
            return of_paths
        seed = zlib.crc32(np.ascontiguousarray(self.fingerprint).data)
        codes, counts = np.unique(self.sample(DRAWN, np.random.default_rng(seed)), axis=0, return_counts=True)
        every = np.arange(len(self.labels))
        within = [dag.entropy(self._product.dag, self._permitted(row[:, None] == every)) for row in codes]
        return max(0.0, of_paths - float(counts @ within) / DRAWN)

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order: their tokens have labels of the type at least as
        often."""
        if self.base.of_labels is None:
            return []
        sentence, rows, spans = Sentence([[]] * len(self), self.labels), self.marginals(), list[Span]()
        for kind in self.span_types:
            inside = labels_named([kind], sentence, "span")
            share = rows[:, [label in inside for label in self.labels]].sum(axis=1)
            for start in range(len(self)):
                end = start
                while end < len(self) and share[end] >= least - 1e-9:
                    end += 1
                    probability = self.span(Span(start, end, kind))
                    if probability >= least:
                        spans.append(Span(start, end, kind, probability))
        return sorted(spans)

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        label = self.paths.graph.arcs.label[self._product.arc]
        labels = [label[path] for path in dag.sample(self._product.dag, self._product.score, n, rng)]
        return np.stack([row[row >= 0] for row in labels])
