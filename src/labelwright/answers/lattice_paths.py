"""Scored lattices of a user's own: every answer is about paths, which are lists of numbers of arcs."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.protocol import Ranked, impossible
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.record import Decoding
from labelwright.errors import CorpusError, OptionError
from labelwright.parallel import computed_once
from labelwright.structures import dag
from labelwright.structures.feature_lattice import OUTSIDE, ArcLabels, ArcTokens, FeatureLattice

Array = NDArray[Any]
DECODERS = ("viterbi", "exact")  # two names for one thing: every path is a labelling


class LatticePath(NamedTuple):
    """A path through a lattice and what is known about it."""

    arcs: list[int]  #: the numbers of its arcs
    score: float  #: of the path, before normalisation
    log_probability: float  #: log P(path | lattice)


class ScoredLattice:
    """One lattice with its scores; made by `LatticeCRF.scored`.

    lattice : the lattice
    graph : its graph, with transitions between labels or without
    scores : [E]  of the arcs of the graph
    arc : [E]  which arc of the lattice each is; -1: a transition
    """

    def __init__(self, lattice: FeatureLattice, graph: dag.Dag, scores: Array, arc: Array):
        self.lattice, self.graph, self.scores, self.arc = lattice, graph, scores, arc

    def __len__(self) -> int:
        """The number of arcs of the lattice."""
        return len(self.lattice)

    @computed_once
    def _sums(self) -> dag.Sums:
        return dag.sums(self.graph, self.scores) if len(self.scores) else dag.Sums(0.0, np.empty(0))

    def log_z(self) -> float:
        """The logarithm of the summed weight exp(score) of all paths; minus infinity where there is none."""
        return self._sums.log_z

    def best(self, n: int = 1) -> list[LatticePath]:
        """Up to n paths, the best first.

        n : how many
        """
        if not len(self.scores):
            return [LatticePath([], 0.0, 0.0)]
        if n == 1:
            arcs, score = self.best_arcs()
            return [self._path(arcs, score)] if arcs else []
        paths, scores = dag.best_paths(self.graph, self.scores, n)
        return [self._path(self._on_lattice(path), score) for path, score in zip(paths, scores.tolist(), strict=True)]

    def best_arcs(self) -> tuple[list[int], float]:
        """The numbers of the arcs of the best path and its score; no arcs and minus infinity where there is none.  This
        needs no sums over paths."""
        path, score = dag.best_path(self.graph, self.scores)
        return self._on_lattice(path), score

    def _path(self, arcs: list[int], score: float) -> LatticePath:
        return LatticePath(arcs, score, min(0.0, score - self.log_z()))

    def _on_lattice(self, path: Array) -> list[int]:
        """The arcs of the lattice on a path of the graph."""
        arcs: list[int] = [arc for arc in self.arc[path].tolist() if arc >= 0]
        return arcs

    def marginals(self) -> Array:
        """P(arc) of the arcs of the lattice [A]."""
        marginals = np.zeros(len(self.lattice))
        is_arc = self.arc >= 0
        marginals[self.arc[is_arc]] = self._sums.arcs[is_arc]
        return marginals

    def weight_of(self, path: Iterable[Any]) -> float:
        """The score of a path.

        path : numbers of arcs, or (source, target, label) of each
        """
        given = self.lattice.path(path)
        return float(self.scores[graph_arcs(self.graph, self.arc, given)].sum())

    def entropy(self) -> float:
        """The entropy of all paths in nats."""
        return dag.entropy(self.graph, self.scores) if len(self.scores) else 0.0

    def sample(self, n: int, random_state: Any = None) -> list[list[int]]:
        """n paths, drawn from their probabilities.

        n : how many
        random_state : a seed, or a generator of NumPy
        """
        if not len(self.scores):
            return [[] for _ in range(n)]
        return [self._on_lattice(path) for path in dag.sample(self.graph, self.scores, n, random_state)]

    def restricted(self, allowed: Any) -> "ScoredLattice":
        """The same lattice with only the paths whose arcs are all allowed.

        allowed : a truth value for each arc of the lattice
        """
        permitted = np.asarray(allowed)
        if permitted.shape != (len(self.lattice),) or permitted.dtype != np.bool_:
            raise OptionError(f"allowed: expected {len(self.lattice)} truth values, one for each arc")
        kept = (self.arc < 0) | np.append(permitted, True)[self.arc]
        return ScoredLattice(self.lattice, self.graph, np.where(kept, self.scores, -np.inf), self.arc)


def graph_arcs(graph: dag.Dag, arc: Array, path: list[int]) -> Array:
    """The arcs of a graph on a path of its lattice, transitions among them; `arc` [E] as in ScoredLattice."""
    place = np.full(int(arc.max(initial=-1)) + 1, -1)
    place[arc[arc >= 0]] = np.flatnonzero(arc >= 0)
    arcs = place[np.array(path, np.int64)]
    if (arc >= 0).all():
        return arcs
    before, after = graph.target[arcs[:-1]], graph.source[arcs[1:]]  # what transitions lead from and to
    is_pair = np.flatnonzero(arc < 0)
    code = graph.source[is_pair].astype(np.int64) * graph.n_nodes + graph.target[is_pair]
    order = np.argsort(code)
    wanted = before.astype(np.int64) * graph.n_nodes + after
    return np.concatenate([arcs, is_pair[order[np.searchsorted(code, wanted, sorter=order)]]])


def checked_path(lattice: FeatureLattice, given: Any, number: int) -> list[int]:
    """The path that was given for a lattice, in an error with the number of the lattice."""
    try:
        return lattice.path(given)
    except CorpusError as error:
        raise CorpusError(f"y: lattice {number}: {error}") from None
    except TypeError:
        raise CorpusError(f"y: lattice {number}: expected a list of arcs, got {given!r:.60}") from None


# -- sentences: every path is a labelling of the tokens ---------------------------------------------------------------


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
