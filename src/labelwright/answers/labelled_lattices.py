"""Scored sentences whose structure is a lattice of the user's own: every path is a labelling of the tokens."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.lattice_paths import ScoredLattice
from labelwright.answers.protocol import Ranked, impossible
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.record import Decoding
from labelwright.structures.arc_labels import OUTSIDE, ArcLabels, ArcTokens

Array = NDArray[Any]
DECODERS = ("viterbi", "exact")  # two names for one thing: every path is a labelling


class LabelledLattice:
    """One sentence: the lattice of its labellings, with scores.

    scored : the lattice with its scores
    writing : how its arcs are written as labels
    tokens : the tokens of its arcs
    """

    def __init__(self, scored: ScoredLattice, writing: ArcLabels, tokens: ArcTokens):
        self.scored, self.writing, self.tokens = scored, writing, tokens
        self.labels = writing.labels

    def __len__(self) -> int:
        return self.scored.lattice.n_nodes - 1

    @property
    def decoders(self) -> tuple[str, ...]:
        return DECODERS

    @property
    def fingerprint(self) -> Array:
        return self.scored.scores

    # -- answers ------------------------------------------------------------------------------------------------------

    def decode(self, decoder: str, *, number: int = 0, probabilities: bool = True, **options: Any) -> Decoding:
        """The labels of the best path, which is proven to be the most probable labelling."""
        path, score = self.scored.best_arcs()
        if not path:
            raise impossible(number)
        labels = [self.labels[code] for code in self._codes(path)]
        return Decoding(labels, score, min(0.0, score - self.log_z()) if probabilities else None, True, 0.0)

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order (nothing is searched for, so that no limit applies)."""
        paths = self.scored.best(n)
        return Ranked([self._codes(path.arcs) for path in paths], [path.score for path in paths])

    def _codes(self, path: list[int]) -> Array:
        """The codes of the labels [T] of a path."""
        on_path = np.zeros(len(self.scored), np.bool_)
        on_path[path] = True
        here = on_path[self.tokens.arc]
        codes = np.empty(len(self), np.int32)
        codes[self.tokens.token[here]] = self.tokens.label[here]
        return codes

    def log_z(self) -> float:
        return self.scored.log_z()

    def log_z_of(self, permitted: Array) -> float:
        return self.restricted(permitted).log_z()

    def restricted(self, permitted: Array) -> "LabelledLattice":
        """The same sentence with only the labellings of permitted labels [T, L]."""
        allowed = np.ones(len(self.scored), np.bool_)
        allowed[self.tokens.arc[~permitted[self.tokens.token, self.tokens.label]]] = False
        return LabelledLattice(self.scored.restricted(allowed), self.writing, self.tokens)

    def tempered(self, temperature: float) -> "LabelledLattice":
        lattice, graph, scores, arc = self.scored.lattice, self.scored.graph, self.scored.scores, self.scored.arc
        return LabelledLattice(ScoredLattice(lattice, graph, scores / temperature, arc), self.writing, self.tokens)

    def marginals(self) -> Array:
        """P(label at t) [T, L]: the sum over all arcs that give the token this label."""
        T, L = len(self), len(self.labels)
        p = self.scored.marginals()[self.tokens.arc]
        sums = np.bincount(self.tokens.token * L + self.tokens.label, p, T * L)
        return np.minimum(1.0, sums).reshape(T, L)

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; minus infinity for one that is no path."""
        return self.log_z_of(np.asarray(codes)[:, None] == np.arange(len(self.labels)))

    def spans_in(self, labels: list[str]) -> list[Span]:
        return [] if self.writing.scheme is None else spans_of(labels)

    @property
    def span_types(self) -> tuple[str, ...]:
        return () if self.writing.scheme is None else tuple(kind for kind in self.writing.types if kind != OUTSIDE)

    def span(self, span: Span) -> float:
        """The probability of exactly this span; 0 where no arc stands for it."""
        arcs = self.scored.lattice.arcs
        same = np.array([arc[:3] == span[:3] for arc in arcs], np.bool_)
        return float(self.scored.marginals()[same].sum())

    def entropy(self) -> float:
        return max(0.0, self.scored.entropy())

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order."""
        arcs, types = zip(self.scored.lattice.arcs, self.scored.marginals().tolist(), strict=True), self.span_types
        return sorted(Span(*arc[:3], min(1.0, p)) for arc, p in arcs if p >= least and arc.label in types)

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        return np.stack([self._codes(path) for path in self.scored.sample(n, rng)])
