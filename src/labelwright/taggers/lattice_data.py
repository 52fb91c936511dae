"""Lattices as a LatticeCRF reads them: arcs, their weights and their graphs as arrays."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.lattice_paths import ScoredLattice, checked_path, graph_arcs
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.spans import Span, labels_of
from labelwright.errors import CorpusError
from labelwright.features.attributes import Collected
from labelwright.features.dicts import DictFeatures
from labelwright.features.incidence import Incidence
from labelwright.learn.arcs import ArcAssembly
from labelwright.scoring.arc_cells import arc_scores, weights_of_arcs
from labelwright.scoring.trained import Trained
from labelwright.structures.arc_graph import ArcGraphs, LatticeArcs, graphs_of
from labelwright.structures.feature_lattice import FeatureLattice

Array = NDArray[Any]


class EncodedLattices(NamedTuple):
    """Lattices as a model reads them."""

    lattices: list[FeatureLattice]
    arcs: LatticeArcs
    weights_of: Incidence  # the numbers of the weights of each arc
    graphs: ArcGraphs


def checked_lattices(X: Any) -> list[FeatureLattice]:
    if isinstance(X, FeatureLattice):
        raise CorpusError("X: expected a list of lattices, got one lattice; put it into a list")
    try:
        lattices = list(X)
    except TypeError:
        raise CorpusError(f"X: expected a list of lattices, got {type(X).__name__}") from None
    for n, lattice in enumerate(lattices):
        if not isinstance(lattice, FeatureLattice):
            raise CorpusError(f"X: lattice {n}: expected a FeatureLattice, got {type(lattice).__name__}")
    return lattices


def with_paths(X: Any, y: Any) -> list[tuple[int, FeatureLattice, Any]]:
    """The number of each lattice, the lattice and what is said of it."""
    lattices, paths = checked_lattices(X), list(y)
    if len(lattices) != len(paths):
        raise CorpusError(f"y: expected a path for each of {len(lattices)} lattices, got {len(paths)}")
    return [(n, lattice, path) for n, (lattice, path) in enumerate(zip(lattices, paths, strict=True))]


def learnt_features(
    lattices: list[FeatureLattice], numbers: list[int], min_count: int
) -> tuple[DictFeatures, Incidence]:
    """The features of all arcs; `numbers` are those of the lattices in errors."""
    collected = _read(lambda part: Collected.of(part), lattices, numbers)
    features, incidences, _ = DictFeatures.learn(collected, None, min_count)
    return features, incidences["state"]


def encoded_features(features: DictFeatures, lattices: list[FeatureLattice]) -> Incidence:
    incidences, _ = _read(features.encode, lattices, list(range(len(lattices))))
    incidence: Incidence = incidences["state"]
    return incidence


def _read(reader: Callable[[Any], Any], lattices: list[FeatureLattice], numbers: list[int]) -> Any:
    """What a reader of feature dicts makes of the arcs; its errors speak of sentences and tokens."""
    try:
        return reader([[arc.features for arc in lattice.arcs] for lattice in lattices])
    except CorpusError as error:
        place, _, what = str(error).removeprefix("X: sentence ").partition(", token ")
        if not place.isdigit():
            raise
        raise CorpusError(f"X: lattice {numbers[int(place)]}, arc {what}") from None


def arcs_of(lattices: list[FeatureLattice], labels: Sequence[str]) -> LatticeArcs:
    """The arcs of lattices as numbers."""
    index = {label: code for code, label in enumerate(labels)}
    every = [arc for lattice in lattices for arc in lattice.arcs]
    source, target = (np.array([arc[i] for arc in every], np.int64) for i in (0, 1))
    label = np.array([index.get(arc.label, len(index)) for arc in every], np.int64)
    sizes, n_nodes = [len(lattice) for lattice in lattices], [lattice.n_nodes for lattice in lattices]
    return LatticeArcs(source, target, label, offsets_from(sizes), np.array(n_nodes, np.int64))


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


def best_labels(scored: list[ScoredLattice]) -> list[list[str]]:
    """The best paths as labels of the steps from node to node."""
    return [each.lattice.labels(each.best()[0].arcs) for each in scored]


def labels_given(lattice: FeatureLattice, path: Any, n: int) -> list[str]:
    """A path that need not be in the lattice, as labels of the steps from node to node."""
    if all(isinstance(arc, tuple | list) and len(arc) >= 3 for arc in path):
        try:
            return labels_of([Span(*arc[:3]) for arc in path], lattice.n_nodes - 1)
        except (CorpusError, TypeError) as error:
            raise CorpusError(f"y: lattice {n}: {error}") from None
    return lattice.labels(checked_path(lattice, path, n))
