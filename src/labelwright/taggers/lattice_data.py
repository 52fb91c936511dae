"""Lattices as a LatticeCRF reads them: arcs, their weights and their graphs as arrays."""

import itertools
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.lattice_paths import ScoredLattice, checked_path, graph_arcs
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.spans import Span, labels_of
from labelwright.errors import CorpusError
from labelwright.features.attributes import Collected, DictFeatures
from labelwright.features.incidence import Incidence
from labelwright.learn.arcs import ArcAssembly
from labelwright.scoring.parameters import Trained, arc_scores, weights_of_arcs
from labelwright.structures.feature_lattice import ArcGraphs, FeatureLattice, LatticeArcs, graphs_of
from labelwright.structures.passing import Candidates
from labelwright.wording import shown

Array = NDArray[Any]
MOST_STEPS = 64  # that scores count between two neighbouring nodes in use
NOTHING = object()  # where there is no lattice, or no path


class EncodedLattices(NamedTuple):
    """Lattices as a model reads them."""

    lattices: list[FeatureLattice]  # none in training, which does not need them
    arcs: LatticeArcs
    weights_of: Incidence  # the numbers of the weights of each arc
    graphs: ArcGraphs


class TrainingLattices(NamedTuple):
    """Lattices and their true paths, before it is known which weights exist."""

    collected: Collected  # the features of arcs
    arcs: LatticeArcs
    labels: tuple[str, ...]
    paths: list[list[int]]


def checked_lattices(X: Any) -> Iterator[FeatureLattice]:
    """The lattices, one after the other."""
    if isinstance(X, FeatureLattice):
        raise CorpusError("X: expected a list of lattices, got one lattice; put it into a list")
    if not isinstance(X, Iterable):
        raise CorpusError(f"X: expected a list of lattices, got {type(X).__name__}")
    for n, lattice in enumerate(X):
        if not isinstance(lattice, FeatureLattice):
            raise CorpusError(f"X: lattice {n}: expected a FeatureLattice, got {type(lattice).__name__}")
        yield lattice


def with_paths(X: Any, y: Any) -> Iterator[tuple[int, FeatureLattice, Any]]:
    """The number of each lattice, the lattice and what is said of it."""
    pairs: Iterator[tuple[Any, Any]] = itertools.zip_longest(checked_lattices(X), y, fillvalue=NOTHING)
    for n, (lattice, path) in enumerate(pairs):
        if lattice is NOTHING or path is NOTHING:
            more, fewer = ("lattices", "paths") if path is NOTHING else ("paths", "lattices")
            raise CorpusError(f"y: expected a path for each lattice, got more {more} than {fewer} ({n})")
        yield n, lattice, path


def read_training(X: Any, y: Any, known: Sequence[str] = ()) -> TrainingLattices:
    """Lattices with their true paths; each can be forgotten when it is read.  Those without arcs teach nothing.  Labels
    that are known come first."""
    collected, paths = Collected(), list[list[int]]()
    index = {label: code for code, label in enumerate(known)}
    arcs = _ArcLists()
    for n, lattice, given in with_paths(X, y):
        if len(lattice):
            paths.append(checked_path(lattice, given, n))
            _read(collected.append, [arc.features for arc in lattice.arcs], [n] * (len(collected) + 1))
            arcs.append(lattice, [index.setdefault(arc.label, len(index)) for arc in lattice.arcs])
    if not paths:
        raise CorpusError("X: expected lattices with arcs, got none")
    return TrainingLattices(collected, arcs.joined(), tuple(index), paths)


def encoded(trained: Trained, X: Any) -> EncodedLattices:
    """Lattices as a trained model reads them."""
    assert isinstance(trained.extractor, DictFeatures)
    lattices, index = list(checked_lattices(X)), {label: code for code, label in enumerate(trained.space.labels)}
    arcs = _ArcLists()
    for lattice in lattices:
        arcs.append(lattice, [index.get(arc.label, len(index)) for arc in lattice.arcs])
    features = [[arc.features for arc in lattice.arcs] for lattice in lattices]
    incidences, _ = _read(trained.extractor.encode, features, range(len(lattices)))
    return joined(trained, lattices, arcs.joined(), incidences["state"])


class _ArcLists:
    """The arcs of lattices, collected one lattice at a time."""

    def __init__(self) -> None:
        self.source, self.target, self.label, self.sizes, self.n_nodes = (array("q") for _ in range(5))

    def append(self, lattice: FeatureLattice, codes: list[int]) -> None:
        self.source.extend([arc.source for arc in lattice.arcs])
        self.target.extend([arc.target for arc in lattice.arcs])
        self.label.extend(codes)
        self.sizes.append(len(lattice))
        self.n_nodes.append(lattice.n_nodes)

    def joined(self) -> LatticeArcs:
        arrays = (np.array(part, np.int64) for part in (self.source, self.target, self.label))
        source, target, label = arrays
        return LatticeArcs(source, target, label, offsets_from(self.sizes), np.array(self.n_nodes, np.int64))


def _read(reader: Callable[[Any], Any], features: list[Any], numbers: Sequence[int]) -> Any:
    """What a reader of feature dicts makes of the arcs of lattices with these numbers; its errors speak of sentences
    and tokens."""
    try:
        return reader(features)
    except CorpusError as error:
        place, _, what = str(error).removeprefix("X: sentence ").partition(", token ")
        if not place.isdigit():
            raise
        raise CorpusError(f"X: lattice {numbers[int(place)]}, arc {what}") from None


def joined(
    trained: Trained, lattices: list[FeatureLattice], arcs: LatticeArcs, incidence: Incidence
) -> EncodedLattices:
    L, parameters = trained.space.n_labels, trained.parameters
    weights_of = weights_of_arcs(incidence, arcs.label, parameters.cells["state"], L)
    return EncodedLattices(lattices, arcs, weights_of, graphs_of(arcs, L if parameters.n_states else None))


def true_arcs(data: EncodedLattices, paths: list[list[int]]) -> Array:
    """Which arcs of the graphs [E] are on the true paths."""
    gold = np.zeros(len(data.graphs.arc), np.bool_)
    for n, path in enumerate(paths):
        a = int(data.graphs.ptr[n])
        gold[a + graph_arcs(data.graphs.dag(n), _local(data, n), path)] = True
    return gold


def arc_slots(arcs: LatticeArcs) -> Candidates:
    """A slot for each arc, whose probability is passed to a layer above."""
    A = len(arcs.label)
    return Candidates(arcs.offsets, np.arange(A + 1), arcs.label, np.full(A + 1, A), has_pairs=False)


def _local(data: EncodedLattices, n: int) -> Array:
    """Which arc of lattice n each arc of its graph is; -1: a transition."""
    a, b = data.graphs.ptr[n : n + 2].tolist()
    arc = data.graphs.arc[a:b]
    return np.where(arc < 0, -1, arc - data.arcs.offsets[n])


def scored_lattices(trained: Trained, data: EncodedLattices) -> list[ScoredLattice]:
    """All lattices with their scores."""
    graphs, parts = data.graphs, trained.parameters.slices
    of_arcs = np.append(arc_scores(data.weights_of, trained.weights[parts["state"]]), 0.0)
    scores = of_arcs[graphs.arc]
    is_pair = graphs.arc < 0
    scores[is_pair] = ArcAssembly(trained.parameters).plain(trained.weights).arc[graphs.pair[is_pair]]
    bounds = graphs.ptr.tolist()
    return [
        ScoredLattice(lattice, graphs.dag(n), scores[bounds[n] : bounds[n + 1]], _local(data, n))
        for n, lattice in enumerate(data.lattices)
    ]


# -- paths as labels, for scores ---------------------------------------------------------------------------------------


class TruePath(NamedTuple):
    """A true path as labels of the steps from node to node."""

    labels: list[str]
    place: dict[int, int]  # of each node among the labels


def true_path(lattice: FeatureLattice, path: Any, n: int) -> TruePath:
    """A path that need not be in the lattice."""
    if all(isinstance(arc, tuple | list) and len(arc) >= 3 for arc in path):
        spans = [Span(*arc[:3]) for arc in path]
        _check_within(spans, lattice.n_nodes - 1, n)
    else:
        spans = [Span(*ends) for ends in lattice.ends(checked_path(lattice, path, n))]
    place = _places(lattice, spans)
    try:
        return TruePath(_labels(spans, place), place)
    except (CorpusError, TypeError) as error:
        raise CorpusError(f"y: lattice {n}: {error}") from None


def best_labels(scored: list[ScoredLattice], true: list[TruePath]) -> list[list[str]]:
    """The best paths as labels of the same steps as the true ones."""
    return [
        _labels([Span(*ends) for ends in each.lattice.ends(each.best()[0].arcs)], beside.place)
        for each, beside in zip(scored, true, strict=True)
    ]


def _check_within(spans: list[Span], last: int, n: int) -> None:
    for start, end, *_ in spans:
        if not isinstance(start, int | np.integer) or not isinstance(end, int | np.integer):
            raise CorpusError(f"y: lattice {n}: expected nodes, whole numbers, got {shown(start)} and {shown(end)}")
        if not 0 <= start < end <= last:
            place = f"span {shown(start)}:{shown(end)}"
            raise CorpusError(f"y: lattice {n}: {place}: expected a non-empty range within 0:{last}")


def _places(lattice: FeatureLattice, spans: list[Span]) -> dict[int, int]:
    """Where nodes in use stand among the labels: steps from one to the next count, but in large gaps only some."""
    nodes = {0, lattice.n_nodes - 1}
    for ends in itertools.chain(lattice.arcs, spans):
        nodes.update(ends[:2])
    ordered = sorted(nodes)
    steps = (min(after - before, MOST_STEPS) for before, after in itertools.pairwise(ordered))
    return dict(zip(ordered, itertools.accumulate(steps, initial=0), strict=True))


def _labels(spans: list[Span], place: dict[int, int]) -> list[str]:
    moved = [Span(place[span.start], place[span.end], span.type) for span in spans]
    return labels_of(moved, max(place.values()))
