"""Conditional random fields over lattices of a user's own: the most probable path of a graph whose
arcs have features.

Lattices as arrays; what all models of paths through lattices share (their likelihood, scores and
files); and LatticeCRF, which is asked about paths."""

import itertools
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.graphs import LatticePath, ScoredLattice, checked_path, graph_arcs
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.spans import Span, labels_of
from labelwright.decode.record import MOST, check_whole
from labelwright.errors import CorpusError
from labelwright.evaluate import Report, evaluate
from labelwright.features.attributes import Collected, DictFeatures
from labelwright.features.incidence import Incidence
from labelwright.inspection import facts
from labelwright.learn.arcs import ArcAssembly, ArcExpectations
from labelwright.learn.lbfgs import minimised
from labelwright.learn.monitor import Monitor, Record
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.variables import plain
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.parallel import Workers
from labelwright.scoring.parameters import (
    Parameters,
    Trained,
    arc_scores,
    cells_of_arcs,
    weights_of_arcs,
)
from labelwright.settings import Signed
from labelwright.structures.feature_lattice import (
    ArcGraphs,
    Ends,
    FeatureLattice,
    LatticeArcs,
    graphs_of,
)
from labelwright.structures.passing import Candidates
from labelwright.structures.states import state_space
from labelwright.taggers.base import NBEST, PROBABILITY
from labelwright.taggers.crf import Likelihood
from labelwright.taggers.declared import LOG_LINEAR, chosen, declared
from labelwright.taggers.estimator import Estimator, InputSchema, Summary
from labelwright.taggers.linear import Weighted, record_of
from labelwright.taggers.packing import (
    Packed,
    Shape,
    check_first_order,
    constructed,
    pack_linear,
    read_trained,
)
from labelwright.taggers.training_record import TrainingRecord, read_record
from labelwright.wording import counted, shown

Array = NDArray[Any]
MOST_STEPS = 64  # that scores count between two neighbouring nodes in use
NOTHING = object()  # where there is no lattice, or no path


class EncodedLattices(NamedTuple):
    """Lattices as a model reads them."""

    lattices: list[FeatureLattice]  # none in training, which does not need them
    arcs: LatticeArcs
    weights_of: Incidence  # the numbers of the weights of each arc
    graphs: ArcGraphs

    def local(self, n: int) -> Array:
        """Which arc of lattice n each arc of its graph is; -1: a transition."""
        a, b = self.graphs.ptr[n : n + 2].tolist()
        arc = self.graphs.arc[a:b]
        return np.where(arc < 0, -1, arc - self.arcs.offsets[n])


def checked_lattices(X: Any) -> Iterator[FeatureLattice]:
    """The lattices, one after the other."""
    if isinstance(X, FeatureLattice):
        raise CorpusError("X: expected a list of lattices, got one lattice; put it into a list")
    if not isinstance(X, Iterable):
        raise CorpusError(f"X: expected a list of lattices, got {type(X).__name__}")
    for n, lattice in enumerate(X):
        if not isinstance(lattice, FeatureLattice):
            raise CorpusError(
                f"X: lattice {n}: expected a FeatureLattice, got {type(lattice).__name__}"
            )
        yield lattice


def with_paths(X: Any, y: Any) -> Iterator[tuple[int, FeatureLattice, Any]]:
    """The number of each lattice, the lattice and what is said of it."""
    pairs: Iterator[tuple[Any, Any]] = itertools.zip_longest(
        checked_lattices(X), y, fillvalue=NOTHING
    )
    for n, (lattice, path) in enumerate(pairs):
        if lattice is NOTHING or path is NOTHING:
            more, fewer = ("lattices", "paths") if path is NOTHING else ("paths", "lattices")
            raise CorpusError(
                f"y: expected a path for each lattice, got more {more} than {fewer} ({n})"
            )
        yield n, lattice, path


class _ArcLists:
    """The arcs of lattices, collected one lattice at a time."""

    def __init__(self) -> None:
        self.source, self.target, self.label, self.sizes, self.n_nodes = (
            array("q") for _ in range(5)
        )

    def append(self, lattice: FeatureLattice, codes: list[int]) -> None:
        self.source.extend([arc.source for arc in lattice.arcs])
        self.target.extend([arc.target for arc in lattice.arcs])
        self.label.extend(codes)
        self.sizes.append(len(lattice))
        self.n_nodes.append(lattice.n_nodes)

    def joined(self) -> LatticeArcs:
        source, target, label, nodes = (
            np.array(part, np.int64)
            for part in (self.source, self.target, self.label, self.n_nodes)
        )
        return LatticeArcs(source, target, label, offsets_from(self.sizes), nodes)


def _read(reader: Callable[[Any], Any], features: list[Any], numbers: Sequence[int]) -> Any:
    """What a reader of feature dicts makes of the arcs of lattices with these numbers; its errors
    speak of sentences and tokens."""
    try:
        return reader(features)
    except CorpusError as error:
        place, _, what = str(error).removeprefix("X: sentence ").partition(", token ")
        if not place.isdigit():
            raise
        raise CorpusError(f"X: lattice {numbers[int(place)]}, arc {what}") from None


def prepared(
    model: Any, X: Any, y: Any, known: Sequence[str] = ()
) -> tuple[EncodedLattices, Array, Trained]:
    """Lattices as integers, the arcs of their true paths, and what is known before training.  Each
    lattice can be forgotten when it is read; those without arcs teach nothing.  Labels that are
    known come first."""
    collected, paths, lists = Collected(), list[list[int]](), _ArcLists()
    index = {label: code for code, label in enumerate(known)}
    for n, lattice, given in with_paths(X, y):
        if len(lattice):
            paths.append(checked_path(lattice, given, n))
            _read(
                collected.append, [arc.features for arc in lattice.arcs], [n] * (len(collected) + 1)
            )
            lists.append(lattice, [index.setdefault(arc.label, len(index)) for arc in lattice.arcs])
    if not paths:
        raise CorpusError("X: expected lattices with arcs, got none")
    arcs, labels = lists.joined(), tuple(index)
    features, incidences, _ = DictFeatures.learn(collected, None, model.min_count)
    label = arcs.label
    if model.cells == "observed":
        true = np.concatenate(
            [a + np.array(path) for a, path in zip(arcs.offsets[:-1], paths, strict=True)]
        )
        label = np.full(len(arcs.label), -1)
        label[true] = arcs.label[true]
    cells = cells_of_arcs(incidences["state"], features.n_features, label, len(labels))
    parameters = Parameters(
        {"state": cells}, len(labels) if model.transitions and len(labels) > 1 else 0
    )
    trained = Trained(
        features, state_space(labels), parameters, np.zeros(parameters.n_weights, np.float32)
    )
    data = _joined(trained, [], arcs, incidences["state"])
    return data, true_arcs(data, paths), trained


def encoded(trained: Trained, X: Any) -> EncodedLattices:
    """Lattices as a trained model reads them."""
    lattices, index = (
        list(checked_lattices(X)),
        {label: code for code, label in enumerate(trained.space.labels)},
    )
    lists = _ArcLists()
    for lattice in lattices:
        lists.append(lattice, [index.get(arc.label, len(index)) for arc in lattice.arcs])
    features = [[arc.features for arc in lattice.arcs] for lattice in lattices]
    incidences, _ = _read(trained.extractor.encode, features, range(len(lattices)))
    return _joined(trained, lattices, lists.joined(), incidences["state"])


def _joined(
    trained: Trained, lattices: list[FeatureLattice], arcs: LatticeArcs, incidence: Incidence
) -> EncodedLattices:
    L, parameters = trained.space.n_labels, trained.parameters
    weights_of = weights_of_arcs(incidence, arcs.label, parameters.cells["state"], L)
    return EncodedLattices(
        lattices, arcs, weights_of, graphs_of(arcs, L if parameters.n_states else None)
    )


def true_arcs(data: EncodedLattices, paths: list[list[int]]) -> Array:
    """Which arcs of the graphs [E] are on the true paths."""
    gold = np.zeros(len(data.graphs.arc), np.bool_)
    for n, path in enumerate(paths):
        gold[int(data.graphs.ptr[n]) + graph_arcs(data.graphs.dag(n), data.local(n), path)] = True
    return gold


def arc_slots(arcs: LatticeArcs) -> Candidates:
    """A slot for each arc, whose probability is passed to a layer above."""
    A = len(arcs.label)
    return Candidates(
        arcs.offsets, np.arange(A + 1), arcs.label, np.full(A + 1, A), has_pairs=False
    )


def objective(
    trained: Trained,
    data: EncodedLattices,
    gold: Array,
    workers: Workers,
    dtype: Any = np.float32,
    candidates: Candidates | None = None,
    weights: Array | None = None,
) -> LogLikelihood:
    """The likelihood of the true paths; `weights` [N] are those of lattices."""
    assembly, offsets = ArcAssembly(trained.parameters), data.arcs.offsets
    expectations = ArcExpectations(assembly, data.graphs, gold, offsets, candidates, weights)
    n = len(trained.parameters.cells["state"].column)
    of_chain = offsets, np.empty(0, np.int32), trained.space, trained.parameters
    return LogLikelihood(
        {"state": data.weights_of},
        n,
        *of_chain,
        workers,
        dtype,
        expectations=expectations,
        candidates=candidates,
    )


def scored_lattices(trained: Trained, data: EncodedLattices) -> list[ScoredLattice]:
    """All lattices with their scores."""
    graphs, parts = data.graphs, trained.parameters.slices
    scores = np.append(arc_scores(data.weights_of, trained.weights[parts["state"]]), 0.0)[
        graphs.arc
    ]
    is_pair = graphs.arc < 0
    scores[is_pair] = (
        ArcAssembly(trained.parameters).plain(trained.weights).arc[graphs.pair[is_pair]]
    )
    bounds = graphs.ptr.tolist()
    return [
        ScoredLattice(lattice, graphs.dag(n), scores[bounds[n] : bounds[n + 1]], data.local(n))
        for n, lattice in enumerate(data.lattices)
    ]


# -- paths as labels, for scores -------------------------------------------------------------------


class TruePath(NamedTuple):
    """A true path as labels of the steps from node to node."""

    labels: list[str]
    place: dict[int, int]  # of each node among the labels


def true_path(lattice: FeatureLattice, path: Any, n: int) -> TruePath:
    """A path that need not be in the lattice.  Steps from a node in use to the next count, but in
    large gaps only some."""
    if all(isinstance(arc, tuple | list) and len(arc) >= 3 for arc in path):
        spans, last = [Span(*arc[:3]) for arc in path], lattice.n_nodes - 1
        for start, end, *_ in spans:
            if not isinstance(start, int | np.integer) or not isinstance(end, int | np.integer):
                raise CorpusError(
                    f"y: lattice {n}: expected nodes, whole numbers, got {shown(start)} and "
                    f"{shown(end)}"
                )
            if not 0 <= start < end <= last:
                place = f"span {shown(start)}:{shown(end)}"
                raise CorpusError(
                    f"y: lattice {n}: {place}: expected a non-empty range within 0:{last}"
                )
    else:
        spans = [Span(*ends) for ends in lattice.ends(checked_path(lattice, path, n))]
    ends_in_use = (ends[:2] for ends in itertools.chain(lattice.arcs, spans))
    nodes = sorted({0, lattice.n_nodes - 1}.union(*ends_in_use))
    steps = (min(after - before, MOST_STEPS) for before, after in itertools.pairwise(nodes))
    places = dict(zip(nodes, itertools.accumulate(steps, initial=0), strict=True))
    try:
        return TruePath(_labels(spans, places), places)
    except (CorpusError, TypeError) as error:
        raise CorpusError(f"y: lattice {n}: {error}") from None


def best_labels(scored: list[ScoredLattice], true: list[TruePath]) -> list[list[str]]:
    """The best paths as labels of the same steps as the true ones."""
    return [
        _labels([Span(*ends) for ends in each.lattice.ends(each.best()[0].arcs)], beside.place)
        for each, beside in zip(scored, true, strict=True)
    ]


def _labels(spans: list[Span], place: dict[int, int]) -> list[str]:
    moved = [Span(place[span.start], place[span.end], span.type) for span in spans]
    return labels_of(moved, max(place.values()))


LATTICE = LOG_LINEAR | declared(
    transitions=(
        bool, True, (
            "Have a weight for each pair of labels of successive arcs (where there are two or "
            "more)."
        ), Signed()
    )
)  # fmt: skip


def described(model: Any, top: int) -> dict[str, Any]:
    """What a model of lattices has learnt, ready for JSON."""
    model._check_fitted()
    by_label: dict[str, list[tuple[str, float]]] = {label: [] for label in model._space.labels}
    for feature, label, weight in model.state_features_:
        if len(by_label[label]) < top:
            by_label[label].append((feature, weight))
    return facts.plain(model) | {"signature": model._signature(), "features": by_label}


def packed(model: Any, trained: Trained) -> Packed:
    """The tensors and the header of the file of a model of lattices."""
    tensors, header = pack_linear(model, trained)
    return tensors, header | {"pairs": bool(trained.parameters.n_states)}


def read_packed(tensors: TensorReader, header: HeaderReader) -> Trained:
    """What `packed` stored, after checking that everything fits together."""
    return read_trained(tensors, header, _shape)


def _shape(trained: Trained, header: HeaderReader) -> tuple[Shape, Trained]:
    """The sizes of the parts of the weight vector."""
    check_first_order(trained, header)
    if trained.space.latent or not isinstance(trained.extractor, DictFeatures):
        raise header.refuse("extractor", "features of arcs, and labels without latent states")
    L = trained.space.n_labels
    return Shape({"state": L}, L if header.one_of("pairs", (False, True)) else 0, 1), trained


class LatticeCRF(Weighted, Estimator):
    """Conditional random field on lattices: directed acyclic graphs whose arcs have a label and
    features.

    The score of a path is the sum of the weights of the features of its arcs, each together with
    the label of the arc, and of the pairs of labels of successive arcs; its probability is
    proportional to the exponential of its score.

    >>> words = [(0, 1, "word", ["a"]), (1, 2, "word", ["b"])]
    >>> words += [(0, 2, "word", ["ab"]), (2, 3, "word", ["c"])]
    >>> X = [FeatureLattice(words), FeatureLattice(words[:3])]
    >>> model = LatticeCRF(n_jobs=1).fit(X, [[(0, 2, "word"), (2, 3, "word")], [2]])
    >>> model.predict(X)
    [[(0, 2, 'word'), (2, 3, 'word')], [(0, 2, 'word')]]
    """

    can: ClassVar[frozenset[str]] = frozenset({PROBABILITY, NBEST})
    _learner: ClassVar[Any] = Likelihood

    _declared = chosen(
        "transitions cells min_count l1 l2 max_iter tol n_jobs verbose", LATTICE, cells="all"
    )

    # -- training ----------------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[FeatureLattice],
        y: Iterable[Iterable[Any]],
        *,
        dev: tuple[Iterable[FeatureLattice], Iterable[Iterable[Any]]] | None = None,
        progress: Callable[[Record, int], None] | None = None,
    ) -> Self:
        """Train on lattices and their true paths.

        X : lattices; an iterator over them, which makes each when it is asked for, takes less
            memory
        y : the true path of each: numbers of arcs, or (source, target, label) of each arc
        dev : (X, y) for development: the weights that do best on it are kept
        progress : called with the record of each iteration and the number of iterations at most
        """
        self._check_parameters()
        data, gold, trained = prepared(self, X, y)
        held_out = None if dev is None else self._development(trained, *dev)
        workers = Workers(self.n_jobs)
        problem, variables = (
            objective(trained, data, gold, workers),
            plain(len(trained.weights), self.l1, self.l2),
        )
        with self._shown(progress) as told:
            monitor = Monitor(**Likelihood(self).stopping(), dev=held_out, progress=told)
            best = monitor.run(
                lambda _: minimised(problem, trained.weights, variables, monitor, workers),
                trained.weights,
            )
        self._trained = trained._replace(weights=best)
        self.history_ = [dict(record) for record in monitor.history]
        sizes = {"sentences": len(data.arcs.n_nodes), "arcs": len(data.arcs.label)}
        self.training_ = record_of(self._trained, sizes, [monitor], monitor)
        return self

    def _development(self, trained: Trained, X: Any, y: Any) -> Callable[[Array], float]:
        """The score on development data of given weights."""
        data = encoded(trained, X)
        paths = [true_path(lattice, path, n) for n, lattice, path in with_paths(data.lattices, y)]
        true = [path.labels for path in paths]

        def score(weights: Array) -> float:
            predicted = best_labels(scored_lattices(trained._replace(weights=weights), data), paths)
            return evaluate(true, predicted, scheme="iob2").score

        return score

    # -- answers -----------------------------------------------------------------------------------

    def scored(self, X: Iterable[FeatureLattice]) -> list[ScoredLattice]:
        """Every lattice, scored once: it can be asked for paths, probabilities and samples.

        X : lattices
        """
        self._check_fitted()
        data = encoded(self._trained, X)
        return scored_lattices(self._trained, data)

    def decode(self, X: Iterable[FeatureLattice]) -> list[LatticePath]:
        """The best path of each lattice with its score and probability.

        X : lattices
        """
        return [each.best()[0] for each in self.scored(X)]

    def predict(self, X: Iterable[FeatureLattice]) -> list[list[Ends]]:
        """The best path of each lattice: (source, target, label) of its arcs.

        X : lattices
        """
        return [each.lattice.ends(each.best()[0].arcs) for each in self.scored(X)]

    def predict_nbest(
        self, X: Iterable[FeatureLattice], n: int = 5
    ) -> list[list[tuple[list[Ends], float]]]:
        """Up to n paths of each lattice, the best first, with their probabilities.

        X : lattices
        n : how many
        """
        check_whole("n", n, 1, MOST)
        return [
            [
                (each.lattice.ends(path.arcs), float(np.exp(path.log_probability)))
                for path in each.best(n)
            ]
            for each in self.scored(X)
        ]

    def predict_marginals(self, X: Iterable[FeatureLattice]) -> list[list[float]]:
        """The probability of every arc of each lattice, in the order of its arcs.

        X : lattices
        """
        return [each.marginals().tolist() for each in self.scored(X)]

    def sequence_log_probabilities(
        self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]
    ) -> list[float]:
        """log P(path | lattice) of given paths.

        X : lattices
        y : a path of each: numbers of arcs, or (source, target, label) of each arc
        """
        scored = self.scored(X)
        pairs = with_paths([each.lattice for each in scored], y)
        paths = [checked_path(lattice, path, n) for n, lattice, path in pairs]
        return [
            min(0.0, each.weight_of(path) - each.log_z())
            for each, path in zip(scored, paths, strict=True)
        ]

    def report(self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]) -> Report:
        """Precision, recall and F1 of arcs, by labels: an arc of the best path is right where the
        true path has one with the same ends and label.

        X : lattices
        y : their true paths; given as (source, target, label) of each arc, these need not be in the
            lattices
        """
        scored = self.scored(X)
        pairs = with_paths([each.lattice for each in scored], y)
        paths = [true_path(lattice, path, n) for n, lattice, path in pairs]
        return evaluate([path.labels for path in paths], best_labels(scored, paths), scheme="iob2")

    def score(self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]) -> float:  # type: ignore[override]
        """F1 of arcs; see `report`.

        X, y : lattices and their true paths
        """
        return self.report(X, y).score

    # -- what was learnt ---------------------------------------------------------------------------

    @property
    def classes_(self) -> list[str]:
        """The labels of arcs, in the order of first appearance in the training data."""
        return list(self._learnt().space.labels)

    def reads(self) -> InputSchema:
        return InputSchema("lattices")

    def describe(self, top: int = 5) -> dict[str, Any]:
        return described(self, top)

    def _summary(self) -> Summary:
        record = TrainingRecord.of(self.training_)
        sizes = [
            counted(len(self.weights_), "weight"),
            counted(self._learnt().extractor.n_features, "feature"),
            counted(len(self.classes_), "label"),
        ]
        run = record.counts(sentences="lattice", iterations="iteration")
        return Summary(sizes, [*run, *record.time()], record.stopped or "")

    def _features_read(self) -> tuple[str, None]:
        return "arcs", None

    def pack(self) -> Packed:
        """The tensors and the header of the model file."""
        return packed(self, self._learnt())

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        fields = HeaderReader.of(header)
        model: Self = constructed(cls, fields)
        model._trained = read_packed(TensorReader.of(tensors), fields)
        model.training_, model.history_ = read_record(
            fields, ("sentences", "iterations", "seconds", "stopped")
        )
        return model
