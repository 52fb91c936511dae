"""Sentences as lattices, by a function of the user, and labels of tokens as paths."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import detect_scheme
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.errors import CorpusError, OptionError
from labelwright.features.extract import kind_of
from labelwright.memory.windows import with_label_columns
from labelwright.scoring.parameters import Trained
from labelwright.structures.feature_lattice import OUTSIDE, WRITABLE, ArcLabels, ArcTokens, FeatureLattice, ends_of
from labelwright.structures.passing import Layered
from labelwright.taggers.estimator import InputSchema
from labelwright.taggers.lattice_data import EncodedLattices, encoded

Array = NDArray[Any]
LatticeMaker = Callable[[Any], FeatureLattice]
EMPTY = FeatureLattice([])  # of a sentence without tokens


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSentences:
    """Sentences as the lattices that one model reads; its length is the number of sentences."""

    lattices: EncodedLattices
    offsets: Array  # [N+1]  of tokens
    tokens: ArcTokens  # of all arcs, numbered through all sentences
    owner: str  # the mark of the features that made it

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def tokens_of(self, n: int) -> ArcTokens:
        """The tokens of the arcs of sentence n, both counted within it."""
        a, b = self.lattices.arcs.offsets[n : n + 2].tolist()
        arc, token, label = self.tokens
        here = slice(*np.searchsorted(arc, [a, b]).tolist())
        return ArcTokens(arc[here] - a, token[here] - self.offsets[n], label[here])


class Sentences(NamedTuple):
    """Sentences as the user's function gets them."""

    sentences: Sequence[Any]
    reads: InputSchema


def sentences_of(X: Any, reads: InputSchema | None = None) -> Sentences:
    """The sentences that a function makes lattices of: lists of strings or, of several columns, of tuples; in an upper
    layer of a cascade the best label of each lower layer is a further column (or a key of feature dicts).

    reads : what the model was trained on"""
    if isinstance(X, Layered):
        if kind_of(X.X) == "arrays":
            raise OptionError("X: a LatticeTagger above other layers reads columns or feature dicts, got arrays")
        X = with_label_columns(X)
    X = listed(X)
    kind = kind_of(X)
    if kind != "columns":
        return Sentences(X if isinstance(X, list) else list(X), InputSchema(kind))
    known = () if reads is None else reads.columns
    if isinstance(X, list | tuple) and not any(map(len, X)):  # a corpus needs tokens
        return Sentences(X, InputSchema(kind, known))
    corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X, reads=known)
    names = known if known and set(known) <= set(corpus.names) else corpus.input_names
    if known and len(names) != len(known):
        raise CorpusError(f"{corpus.source}: the model reads the columns {','.join(known)}, got {','.join(names)}")
    return Sentences(corpus.select(names).X, InputSchema(kind, tuple(names)))


def lattices_of(make: LatticeMaker | None, sentences: Sequence[Any], scheme: str | None) -> Iterator[FeatureLattice]:
    """The lattice of each sentence, whose paths can be written as labels in a scheme."""
    if make is None:
        raise OptionError(
            "lattices: the function that makes a lattice of a sentence is missing (it is code, which no model file "
            "holds); set it: model.lattices = f, for a layer of a cascade cascade.set_params(LAYER__lattices=f)"
        )
    for n, sentence in enumerate(sentences):
        try:
            yield _checked(make(sentence), len(sentence), scheme) if len(sentence) else EMPTY
        except CorpusError as error:
            raise CorpusError(f"lattices: sentence {n}: {error}") from None


def _checked(lattice: Any, n_tokens: int, scheme: str | None) -> FeatureLattice:
    """A lattice whose paths are labellings of so many tokens, no two of them the same."""
    if not isinstance(lattice, FeatureLattice):
        raise CorpusError(f"expected a FeatureLattice, got {type(lattice).__name__}")
    if lattice.n_nodes != n_tokens + 1:
        raise CorpusError(
            f"expected {n_tokens + 1} nodes, one before each of its {n_tokens} tokens and one behind the last, got "
            f"{lattice.n_nodes}"
        )
    seen: dict[Any, int] = {}
    for number, arc in enumerate(lattice.arcs):
        source, target, label = ends = arc[:3]
        if target - source > 1 and (scheme is None or label == OUTSIDE):
            why = "an arc labelled O is one token" if scheme else "labels without B- and I- are those of single tokens"
            raise CorpusError(f"arc {number}, {ends}: {why}; make an arc for each token")
        if seen.setdefault(ends, number) != number:
            raise CorpusError(f"arcs {seen[ends]} and {number} are both {ends}; make one arc of them")
    return lattice


def encoded_sentences(
    trained: Trained, writing: ArcLabels, make: LatticeMaker | None, sentences: Sequence[Any]
) -> EncodedSentences:
    """Sentences as a trained model reads them.  Arcs whose label did not occur in training are left out."""
    known = set(writing.types)
    lattices = [_known(lattice, known, n) for n, lattice in enumerate(lattices_of(make, sentences, writing.scheme))]
    data = encoded(trained, lattices)
    offsets, arcs = offsets_from([len(sentence) for sentence in sentences]), data.arcs
    first = np.repeat(offsets[:-1], np.diff(arcs.offsets))
    tokens = writing.tokens(first + arcs.source, first + arcs.target, arcs.label)
    return EncodedSentences(data, offsets, tokens, trained.extractor.mark)


def _known(lattice: FeatureLattice, labels: set[str], n: int) -> FeatureLattice:
    """A lattice without the arcs that have other labels."""
    unknown = {arc.label for arc in lattice.arcs} - labels
    if not unknown:
        return lattice
    try:
        return FeatureLattice([arc for arc in lattice.arcs if arc.label in labels], lattice.n_nodes)
    except CorpusError as error:
        raise CorpusError(
            f"lattices: sentence {n}: without arcs labelled {min(unknown)!r}, which the training data lack, {error}"
        ) from None


class Gold(NamedTuple):
    """The true paths of sentences."""

    paths: list[list[int]]  # numbers of arcs; none where the labels are no path
    reachable: Array  # [N]  whether they are one
    missing: str  # the first arc that a sentence lacks, as an error names it


def gold_paths(lattices: Sequence[FeatureLattice], y: Sequence[Sequence[str]], scheme: str | None) -> Gold:
    """The paths that labellings stand for, where lattices have them."""
    paths, missing = list[list[int]](), dict[int, Any]()
    for n, (lattice, labels) in enumerate(zip(lattices, y, strict=True)):
        number = {arc[:3]: i for i, arc in enumerate(lattice.arcs)}
        path = ends_of(labels, scheme)
        lacking = next((ends for ends in path if ends not in number), None)
        if lacking is not None:
            missing[n], path = lacking, []
        paths.append([number[ends] for ends in path])
    reachable = ~np.isin(np.arange(len(paths)), list(missing))
    return Gold(paths, reachable, "".join(f"sentence {n}: its lattice has no arc {missing[n]}" for n in [*missing][:1]))


def writable_scheme(labels: Sequence[Any], pairs: Any) -> str | None:
    """The scheme of the labels of training data, after a check that paths can be written in it."""
    if not all(isinstance(label, str) for label in labels):
        raise OptionError("y: a LatticeTagger has labels of arcs, which are strings, got numbers")
    if set(labels) <= {OUTSIDE}:
        return WRITABLE[0]
    scheme = detect_scheme(labels, pairs=pairs)
    if scheme is not None and scheme not in WRITABLE:
        raise OptionError(
            f"y: labels in {scheme} do not say by themselves where a chunk begins and ends, as arcs do; convert them, "
            "as to iob2 (labelwright convert)"
        )
    return scheme
