"""What a scored sentence can be asked, whatever its structure.

Predicted labels as lists that NumPy takes for arrays of sentences.

Sentences differ in length.  NumPy would refuse lists of such lists, or take those of equal length for a table;
scikit-learn, which joins and sorts predictions as arrays, needs one element for each sentence.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.spans import Span
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.structures.dag import LabelledGraph
from labelwright.structures.segments import SpanArcs

Array = NDArray[Any]
DRAWN = 30  # labellings of a latent model, for the estimate of their entropy


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

    def __len__(self) -> int:
        """The number of tokens."""

    def decode(self, decoder: str, **options: Any) -> Decoding:
        """The labelling that a decoder finds."""

    def best(self, n: int, max_expansions: int | None = None) -> Ranked:
        """Up to n labellings in order; on a search that stops early, those that are proven (at least one)."""

    def log_z(self) -> float:
        """The logarithm of the summed weight of all labellings; minus infinity where there is none."""

    def log_z_of(self, permitted: Array) -> float:
        """The same of the labellings that have only permitted labels [T, L]."""

    def tempered(self, temperature: float) -> "Scored":
        """The same sentence with its scores divided by a temperature, as logarithms of probabilities."""

    def marginals(self) -> Array:
        """P(label at t) [T, L]."""

    def weight_of(self, codes: Array) -> float:
        """The weight of one labelling [T]."""

    def spans_in(self, labels: list[str]) -> list[Span]:
        """The spans of a labelling; none where the labels make no spans."""

    @property
    def span_types(self) -> tuple[str, ...]:
        """The types that a span may have."""

    def span(self, span: Span) -> float:
        """The probability that exactly this span is in the labelling."""

    def entropy(self) -> float:
        """The entropy of all labellings in nats."""

    def likely_spans(self, least: float) -> list[Span]:
        """All spans at least as probable as `least`, in order; none where the labels make no spans."""

    def sample(self, n: int, rng: "np.random.Generator") -> Array:
        """n labellings [n, T], drawn from their probabilities."""

    @property
    def fingerprint(self) -> Array:
        """Scores that tell this sentence from others: the seed of its samples."""

    # -- under rules --------------------------------------------------------------------------------------------------

    @property
    def of_labels(self) -> str | None:
        """The scheme of its labels."""

    @property
    def path_of_labelling(self) -> str:
        """What a labelling is worth: its "only" path, its "best" one, or the "sum" of several."""

    @property
    def standing(self) -> SpanArcs | None:
        """The arcs of its graph that stand for spans; None: a span is made by the labels of neighbouring tokens."""

    def labelled_graphs(self) -> Iterator[LabelledGraph]:
        """Its labellings as paths of a graph; then of larger ones, for rules that no labelling of the first keeps."""

    def decode_ruled(self, ruled: Any, decoder: str, **options: Any) -> Decoding:
        """The best labelling that keeps rules."""


class NoSumsError(OptionError):
    """The rules on a sentence leave too many possibilities for sums over all of them."""


def entropy_by_samples(sentence: Scored, of_paths: float, within: Callable[[Array], float]) -> float:
    """An unbiased estimate of the entropy of labellings that are sums of paths: the entropy of all paths, which is
    exact, less that of the paths of a labelling, as the mean over labellings that are drawn.

    H(Y) = H(path) - E[H(path | Y)]"""
    seed = zlib.crc32(np.ascontiguousarray(sentence.fingerprint).data)
    codes, counts = np.unique(sentence.sample(DRAWN, np.random.default_rng(seed)), axis=0, return_counts=True)
    return max(0.0, of_paths - float(counts @ [within(row) for row in codes]) / DRAWN)


def impossible(sentence: int) -> OptionError:
    """The error for a sentence without any labelling that is allowed."""
    return OptionError(f"sentence {sentence}: no labelling satisfies the forced labels and the constraints")


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
