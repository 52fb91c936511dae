"""What a scored sentence can be asked, whatever its structure.

Predicted labels as lists that NumPy takes for arrays of sentences.

Sentences differ in length.  NumPy would refuse lists of such lists, or take those of equal length for a table;
scikit-learn, which joins and sorts predictions as arrays, needs one element for each sentence.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.spans import Span
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.parallel import computed_once
from labelwright.structures import dag

Array = NDArray[Any]
DECODERS = ("viterbi", "exact")  # of graphs: two names for one thing, since the best path is proven


class Ranked(NamedTuple):
    """Labellings, the best first, with their weights: logarithms up to log Z, or plain scores."""

    codes: list[Array]  # each [T]
    weights: list[float]


class Scored(Protocol):
    """One sentence with its scores.  What a structure cannot answer, its tagger's `can` does not declare."""

    labels: tuple[str, ...]

    @property
    def decoders(self) -> tuple[str, ...]:
        """The names that `decode` takes."""
        ...

    def __len__(self) -> int:
        """The number of tokens."""
        ...

    def decode(self, decoder: str, **options: Any) -> Decoding:
        """The labelling that a decoder finds."""
        ...

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order; on a search that stops early, those that are proven (at least one)."""
        ...

    def log_z(self) -> float:
        """The logarithm of the summed weight of all labellings; minus infinity where there is none."""
        ...

    def log_z_of(self, permitted: Array) -> float:
        """The same of the labellings that have only permitted labels [T, L]."""
        ...

    def tempered(self, temperature: float) -> "Scored":
        """The same sentence with its scores divided by a temperature, as logarithms of probabilities."""
        ...

    def marginals(self) -> Array:
        """P(label at t) [T, L]."""
        ...

    def weight_of(self, codes: Array) -> float:
        """The weight of one labelling [T]."""
        ...

    def spans_in(self, labels: list[str]) -> list[Span]:
        """The spans of a labelling; none where the labels make no spans."""
        ...

    @property
    def span_types(self) -> tuple[str, ...]:
        """The types that a span may have."""
        ...

    def span(self, span: Span) -> float:
        """The probability that exactly this span is in the labelling."""
        ...

    def entropy(self) -> float:
        """The entropy of all labellings in nats."""
        ...

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order; none where the labels make no spans."""
        ...

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        """n labellings [n, T], drawn from their probabilities."""
        ...

    @property
    def fingerprint(self) -> Array:
        """Scores that tell this sentence from others: the seed of its samples."""
        ...


class NoSumsError(OptionError):
    """The rules on a sentence leave too many possibilities for sums over all of them."""


def impossible(sentence: int) -> OptionError:
    """The error for a sentence without any labelling that is allowed."""
    return OptionError(f"sentence {sentence}: no labelling satisfies the forced labels and the constraints")


def spans_within(shares: Mapping[str, Array], least: float, probability: Callable[[Span], float]) -> list[Span]:
    """All spans at least as probable as `least`, in order, from the share of each type at each token [T]: a span is no
    more probable than any of its tokens."""
    spans = []
    for kind, share in shares.items():
        for start in range(len(share)):
            end = start
            while end < len(share) and share[end] >= least - 1e-9:
                end += 1
                of_span = probability(Span(start, end, kind))
                if of_span >= least:
                    spans.append(Span(start, end, kind, of_span))
    return sorted(spans)


# -- graphs -----------------------------------------------------------------------------------------------------------


class GraphSentence:
    """One sentence: a graph with scores on its arcs [A], every path of which is a labelling.

    What is the same for all graphs is written here; they differ in what an arc says about labels."""

    decoders: tuple[str, ...] = DECODERS
    path_of_labelling = "only"
    labels: tuple[str, ...]
    graph: dag.Dag
    scores: Array

    # -- what an arc says about labels --------------------------------------------------------------------------------

    def codes_of(self, path: Array) -> Array:
        """The labels [T] of a path of arcs."""
        raise NotImplementedError

    def permitted_arcs(self, permitted: Array) -> Array:
        """Which arcs [A] leave every token one of its permitted labels [T, L]."""
        raise NotImplementedError

    def with_scores(self, scores: Array) -> Self:
        """The same sentence with other scores."""
        raise NotImplementedError

    # -- answers ------------------------------------------------------------------------------------------------------

    @computed_once
    def _sums(self) -> dag.Sums:
        return dag.sums(self.graph, self.scores)

    @property
    def fingerprint(self) -> Array:
        return self.scores

    def decode(self, decoder: str, *, number: int = 0, probabilities: bool = True, **options: Any) -> Decoding:
        """The labels of the best path, which is proven to be the most probable labelling."""
        path, score = dag.best_path(self.graph, self.scores)
        if not len(path):
            raise impossible(number)
        log_p = min(0.0, score - self.log_z()) if probabilities else None
        return Decoding([self.labels[code] for code in self.codes_of(path).tolist()], score, log_p, True, 0.0)

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order; nothing is searched for, so no limit applies."""
        paths, scores = dag.best_paths(self.graph, self.scores, n)
        return Ranked([self.codes_of(path) for path in paths], scores.tolist())

    def log_z(self) -> float:
        return self._sums.log_z

    def log_z_of(self, permitted: Array) -> float:
        return dag.sums(self.graph, np.where(self.permitted_arcs(permitted), self.scores, -np.inf)).log_z

    def tempered(self, temperature: float) -> Self:
        return self.with_scores(self.scores / temperature)

    def weight_of(self, codes: Array) -> float:
        """The weight of a labelling; minus infinity for one that is no path."""
        return self.log_z_of(np.asarray(codes)[:, None] == np.arange(len(self.labels)))

    def entropy(self) -> float:
        return max(0.0, dag.entropy(self.graph, self.scores))

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        return np.stack([self.codes_of(path) for path in dag.sample(self.graph, self.scores, n, rng)])


# -- predicted labels as lists ----------------------------------------------------------------------------------------


class Labellings(list[list[Any]]):
    """The labels of each sentence: a list of lists, and for NumPy an array [N] of lists.

    >>> predicted = Labellings([["D", "N"], ["V"]])
    >>> predicted == [["D", "N"], ["V"]], np.asarray(predicted).shape
    (True, (2,))
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return array_of(self)


class LayeredLabellings(dict[str, Labellings]):
    """The labels of each sentence by layer; for NumPy an array [N] of sentences, lists with a tuple for each token.

    >>> layers = {"pos": Labellings([["D", "N"]]), "chunk": Labellings([["B", "I"]])}
    >>> np.asarray(LayeredLabellings(layers)).tolist()
    [[('D', 'B'), ('N', 'I')]]
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return array_of(list(zip(*layers, strict=True)) for layers in zip(*self.values(), strict=True))


def array_of(sentences: Iterable[Any]) -> Array:
    """One element for each sentence [N], whatever their lengths."""
    items = list(sentences)
    return np.fromiter(items, object, count=len(items))
