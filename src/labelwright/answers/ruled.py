"""A scored sentence under users' rules: its labellings are those that satisfy the rules, whatever
its structure.

Everything is read off the product of its graph with the automaton of the rules (rules.product).
Marginals, spans, samples and probabilities are those among the labellings that satisfy the rules; a
soft rule that is broken makes a labelling less probable by the factor exp(-weight).  Where the
product is too large even without what is improbable (rules.product), there are no sums, and
whatever needs them is refused."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.chains import Chain, entropy_by_samples
from labelwright.answers.graphs import GraphSentence
from labelwright.corpus.spans import Span
from labelwright.decode import RULED_DECODERS
from labelwright.decode.record import Decoding, NoSumsError, Ranked
from labelwright.errors import OptionError
from labelwright.parallel import computed_once
from labelwright.rules.formulas import Sentence
from labelwright.rules.product import Path, Product, RuledPaths, TooLargeError, contradiction_in
from labelwright.rules.rules import Bound, bind
from labelwright.structures import dag
from labelwright.structures.dag import LabelledArcs, LabelledGraph, Reading
from labelwright.structures.segments import SpanArcs

Array = NDArray[Any]
LISTED = 1000  # labellings that are examined where a labelling has many paths
MOST_PATHS = 1 << 14


class RuledSentence(GraphSentence):
    """One sentence, the labellings of which satisfy rules.

    words : all sentences, for rules that read them; this is the one with this number"""

    def __init__(self, base: Chain | GraphSentence, rules: Any, words: Any, number: int):
        self.base, self.labels, self.number, self.T = base, base.labels, number, len(base)
        self.rules, self.words, self.of_labels = rules, words, base.of_labels

    @property
    def decoders(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(name for name in self.base.decoders if name in RULED_DECODERS)

    @property
    def fingerprint(self) -> Array:
        return self.base.fingerprint

    @computed_once
    def _bound_paths(self) -> tuple[Bound, RuledPaths]:
        """The rules of this sentence and its paths: of several graphs that it may have, those of
        the first with a labelling that satisfies the rules."""
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
        bound = bind(
            self.rules, Sentence(candidates, self.labels, tokens, self.number, self.base.of_labels)
        )
        return bound, RuledPaths.of(graph, bound, self.labels, len(self))

    @property
    def bound(self) -> Bound:
        """The rules of this sentence."""
        return self._bound_paths[0]

    @property
    def paths(self) -> RuledPaths:
        """The labellings that satisfy them."""
        return self._bound_paths[1]

    # -- the best labellings -----------------------------------------------------------------------

    def decode(self, decoder: str, **options: Any) -> Decoding:
        """The best labelling, by the way that its structure has for rules; its probability is that
        without the rules."""
        return self.base.decode_ruled(self, decoder, **{**options, "number": self.number})

    def best_by_automata(self, probabilities: bool) -> Decoding:
        """The best labelling, proven; its probability is that without the rules."""
        paths = self.paths.best()
        if not paths:
            raise contradiction_in(
                self.paths.graph, self.bound, self.labels, len(self), self.number
            )
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
            raise contradiction_in(
                self.paths.graph, self.bound, self.labels, len(self), self.number
            )
        if not ranked.codes:
            raise OptionError(
                f"sentence {self.number}: none of the {LISTED:,} best labellings satisfies the "
                "rules; use decode"
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
                return Ranked(
                    [path.codes for path in chosen],
                    [float(score[path.arcs].sum()) for path in chosen],
                )
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

    # -- sums --------------------------------------------------------------------------------------

    @computed_once
    def _product(self) -> Product:
        try:
            return self.paths.whole()
        except TooLargeError:
            raise NoSumsError(
                f"sentence {self.number}: the rules leave too many possibilities in {len(self)} "
                "tokens for probabilities; give fewer rules, name fewer labels in them, or ask for "
                "labels without probabilities"
            ) from None

    @computed_once
    def _arcs(self) -> LabelledArcs:
        """The arcs of the sentence's own graph that are those of the product."""
        return self.paths.graph.arcs.taken(self._product.arc)

    @computed_once
    def _made(self) -> tuple[dag.Dag, Array]:
        return self._product.dag, self._product.score

    @computed_once
    def reading(self) -> Reading:
        return self._arcs.reading

    @computed_once
    def standing(self) -> SpanArcs | None:
        base = self.base.standing
        if base is None:
            return None
        number = np.full(int(self._arcs.whole.max(initial=-1)) + 2, -1)  # the last: of no arc
        number[base.arc[base.arc < len(number) - 1]] = np.flatnonzero(base.arc < len(number) - 1)
        of = number[self._arcs.whole]
        arc = np.flatnonzero(of >= 0)
        return SpanArcs(arc, *(values[of[arc]] for values in base[1:]))

    def tempered(self, temperature: float) -> "RuledSentence":  # type: ignore[override]
        """The scores are divided by the temperature; the prices of soft rules are not."""
        return RuledSentence(self.base.tempered(temperature), self.rules, self.words, self.number)

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; minus infinity where it breaks a hard rule."""
        labels = [self.labels[code] for code in np.asarray(codes).tolist()]
        return (
            self.base.weight_of(codes) - self.bound.cost(labels)
            if self.bound.satisfied(labels)
            else -np.inf
        )

    def spans_in(self, labels: list[str]) -> list[Span]:
        return self.base.spans_in(labels)

    @property
    def span_types(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.base.span_types

    def entropy(self) -> float:
        """Exact where a labelling is one path; otherwise an estimate."""
        if self.base.path_of_labelling == "only":
            return super().entropy()

        def within(codes: Array) -> float:
            permitted = self._permitted(codes[:, None] == np.arange(len(self.labels)))
            return dag.entropy(self.graph, np.where(permitted, self.scores, -np.inf))

        return entropy_by_samples(self, super().entropy(), within)


def _contradictory(paths: RuledPaths) -> bool:
    """Is it known that no labelling satisfies the rules?"""
    try:
        return not paths.best()
    except TooLargeError:
        return False
