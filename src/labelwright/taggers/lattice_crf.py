"""Conditional random fields over lattices of a user's own: the most probable path of a graph whose arcs have
features."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.answers.lattice_paths import LatticePath, ScoredLattice, checked_path
from labelwright.decode.checks import MOST, check_whole
from labelwright.engine.choice import expect, expect_much
from labelwright.errors import CorpusError, NotFittedError
from labelwright.evaluate import Report, evaluate
from labelwright.features.dicts import DictFeatures
from labelwright.inspection.weight_tables import StateFeature, TransitionFeature, state_features, transition_features
from labelwright.learn.arcs import ArcAssembly, ArcExpectations
from labelwright.learn.monitor import Monitor, ProgressBar, Record
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.owlqn import minimised
from labelwright.parallel import Workers, one_blas_thread
from labelwright.scoring.arc_cells import cells_of_arcs
from labelwright.scoring.parameters import Parameters
from labelwright.scoring.trained import Trained
from labelwright.scoring.weight_pruning import pruned
from labelwright.settings import Help, Signed
from labelwright.structures.feature_lattice import Ends, FeatureLattice
from labelwright.structures.passing import Candidates
from labelwright.structures.states import state_space
from labelwright.taggers import declared
from labelwright.taggers.base import NBEST, PROBABILITY
from labelwright.taggers.estimator import Estimator, InputSchema, Summary
from labelwright.taggers.lattice_data import (
    EncodedLattices,
    best_labels,
    encoded,
    joined,
    labels_given,
    read_training,
    scored_lattices,
    true_arcs,
    with_paths,
)
from labelwright.taggers.loglinear import OPTIMIZERS
from labelwright.taggers.packing import Packed, Shape, constructed, pack_linear, read_record, read_trained
from labelwright.taggers.signature import signature
from labelwright.validation import HeaderReader, TensorReader
from labelwright.wording import counted

Array = NDArray[Any]
Transitions = Annotated[
    bool, Signed(), Help("Have a weight for each pair of labels of successive arcs (where there are two or more).")
]


class LatticeCRF(Estimator):
    """Conditional random field on lattices: directed acyclic graphs whose arcs have a label and features.

    The score of a path is the sum of the weights of the features of its arcs, each together with the label of the arc,
    and of the pairs of labels of successive arcs; its probability is proportional to the exponential of its score.

    >>> words = [(0, 1, "word", ["a"]), (1, 2, "word", ["b"]), (0, 2, "word", ["ab"]), (2, 3, "word", ["c"])]
    >>> X = [FeatureLattice(words), FeatureLattice(words[:3])]
    >>> model = LatticeCRF(n_jobs=1).fit(X, [[(0, 2, "word"), (2, 3, "word")], [2]])
    >>> model.predict(X)
    [[(0, 2, 'word'), (2, 3, 'word')], [(0, 2, 'word')]]
    """

    can: ClassVar[frozenset[str]] = frozenset({PROBABILITY, NBEST})
    trained_: Trained
    history_: list[dict[str, Any]]  #: a record of each iteration

    def __init__(
        self,
        transitions: Transitions = True,
        cells: declared.Cells = "all",
        min_count: declared.MinCount = 1,
        l1: declared.L1 = 0.0,
        l2: declared.L2 = 1.0,
        max_iter: declared.MaxIter = None,
        tol: declared.Tol = 1e-5,
        n_jobs: declared.Jobs = None,
        verbose: declared.Verbose = 0,
    ):
        self.transitions = transitions
        self.cells = cells
        self.min_count = min_count
        self.l1 = l1
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- training -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[FeatureLattice],
        y: Iterable[Iterable[Any]],
        *,
        dev: tuple[Iterable[FeatureLattice], Iterable[Iterable[Any]]] | None = None,
        progress: Callable[[Record, int], None] | None = None,
    ) -> Self:
        """Train on lattices and their true paths.

        X : lattices; an iterator over them, which makes each when it is asked for, takes less memory
        y : the true path of each: numbers of arcs, or (source, target, label) of each arc
        dev : (X, y) for development: the weights that do best on it are kept
        progress : called with the record of each iteration and the number of iterations at most
        """
        self._check_parameters()
        expect_much()
        data, gold, trained = self._prepare(X, y)
        held_out = None if dev is None else self._development(trained, *dev)
        bar = self.progress_bar() if progress is None and self.verbose else None
        max_iter, period = OPTIMIZERS["lbfgs"]
        told = progress or bar
        monitor = Monitor(self.max_iter or max_iter, self.tol, period=period, dev=held_out, progress=told)
        workers = Workers(self.n_jobs)
        problem = self._objective(trained, data, gold, workers)
        try:
            with monitor, one_blas_thread():
                weights = minimised(problem, trained.weights, self.l1, self.l2, monitor, workers)
        finally:
            if bar is not None:
                bar.close()
        self.trained_ = trained._replace(weights=weights)
        self.history_ = [dict(record) for record in monitor.history]
        self.training_ = self._record(data, monitor)
        return self

    def progress_bar(self, title: str = "training") -> ProgressBar:
        """A bar for `fit(progress=...)`.

        title : what it says
        """
        return ProgressBar(self.max_iter, self.tol, title)

    def _prepare(self, X: Any, y: Any) -> tuple[EncodedLattices, Array, Trained]:
        """The training data as integers, their true paths, and what is known before training."""
        collected, arcs, labels, paths = read_training(X, y)
        features, incidences, _ = DictFeatures.learn(collected, None, self.min_count)
        label = arcs.label
        if self.cells == "observed":
            true = np.concatenate([a + np.array(path) for a, path in zip(arcs.offsets[:-1], paths, strict=True)])
            label = np.full(len(arcs.label), -1)
            label[true] = arcs.label[true]
        n_pairs = len(labels) if self.transitions and len(labels) > 1 else 0
        cells = cells_of_arcs(incidences["state"], features.n_features, label, len(labels))
        parameters = Parameters({"state": cells}, n_pairs)
        trained = Trained(features, state_space(labels), parameters, np.zeros(parameters.n_weights, np.float32))
        data = joined(trained, [], arcs, incidences["state"])
        return data, true_arcs(data, paths), trained

    def _objective(
        self,
        trained: Trained,
        data: EncodedLattices,
        gold: Array,
        workers: Workers,
        dtype: Any = np.float32,
        candidates: Candidates | None = None,
    ) -> LogLikelihood:
        """The likelihood of the true paths."""
        assembly, offsets = ArcAssembly(trained.parameters), data.arcs.offsets
        n = len(trained.parameters.cells["state"].column)
        expectations = ArcExpectations(assembly, data.graphs, gold, offsets, candidates)
        of_chain = offsets, np.empty(0, np.int32), trained.space, trained.parameters
        return LogLikelihood(
            {"state": data.weights_of}, n, *of_chain, workers, dtype, expectations=expectations, candidates=candidates
        )

    def objective(
        self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]], workers: Workers, dtype: Any = np.float32
    ) -> LogLikelihood:
        """The likelihood of paths as a layer that passes the probability of every arc: `forward(weights)` gives these,
        lattice by lattice, and the backward function (learn.objective).

        X, y : lattices with arcs, and their true paths
        workers : threads
        dtype : of the scores
        """
        self._check_fitted()
        data = encoded(self.trained_, X)
        if (np.diff(data.arcs.offsets) == 0).any():
            raise CorpusError("X: a lattice has no arcs; leave it out")
        paths = [checked_path(lattice, path, n) for n, lattice, path in with_paths(data.lattices, y)]
        A = len(data.arcs.label)
        slots = Candidates(data.arcs.offsets, np.arange(A + 1), data.arcs.label, np.full(A + 1, A), has_pairs=False)
        return self._objective(self.trained_, data, true_arcs(data, paths), workers, dtype, slots)

    def _development(self, trained: Trained, X: Any, y: Any) -> Callable[[Array], float]:
        """The score on development data of given weights."""
        data = encoded(trained, X)
        true = [labels_given(lattice, path, n) for n, lattice, path in with_paths(data.lattices, y)]

        def score(weights: Array) -> float:
            predicted = best_labels(scored_lattices(trained._replace(weights=weights), data))
            return evaluate(true, predicted, scheme="iob2").score

        return score

    def _record(self, data: EncodedLattices, monitor: Monitor) -> dict[str, Any]:
        """What is worth knowing about the training run, in the model file too."""
        last = monitor.history[-1]
        record = {
            "sentences": len(data.arcs.n_nodes),
            "arcs": len(data.arcs.label),
            "features": self.trained_.extractor.n_features,
            "weights": len(self.trained_.weights),
            "iterations": last["iteration"],
            "loss": last["loss"],
            "seconds": round(last["seconds"], 3),
            "stopped": "interrupted" if monitor.interrupted else str(monitor.reason),
            "labelwright": __version__,
        }
        if monitor.best_iteration is not None:
            record |= {"best_iteration": monitor.best_iteration, "best_dev": monitor.merit}
        return record

    # -- answers ------------------------------------------------------------------------------------------------------

    def scored(self, X: Iterable[FeatureLattice]) -> list[ScoredLattice]:
        """Every lattice, scored once: it can be asked for paths, probabilities and samples.

        X : lattices
        """
        self._check_fitted()
        data = encoded(self.trained_, X)
        expect(len(data.arcs.label))
        return scored_lattices(self.trained_, data)

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

    def predict_nbest(self, X: Iterable[FeatureLattice], n: int = 5) -> list[list[tuple[list[Ends], float]]]:
        """Up to n paths of each lattice, the best first, with their probabilities.

        X : lattices
        n : how many
        """
        check_whole("n", n, 1, MOST)
        return [
            [(each.lattice.ends(path.arcs), float(np.exp(path.log_probability))) for path in each.best(n)]
            for each in self.scored(X)
        ]

    def predict_marginals(self, X: Iterable[FeatureLattice]) -> list[list[float]]:
        """The probability of every arc of each lattice, in the order of its arcs.

        X : lattices
        """
        return [each.marginals().tolist() for each in self.scored(X)]

    def sequence_log_probabilities(self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]) -> list[float]:
        """log P(path | lattice) of given paths.

        X : lattices
        y : a path of each: numbers of arcs, or (source, target, label) of each arc
        """
        scored = self.scored(X)
        pairs = with_paths([each.lattice for each in scored], y)
        paths = [checked_path(lattice, path, n) for n, lattice, path in pairs]
        return [min(0.0, each.weight_of(path) - each.log_z()) for each, path in zip(scored, paths, strict=True)]

    def report(self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]) -> Report:
        """Precision, recall and F1 of arcs, by labels: an arc of the best path is right where the true path has one
        with the same ends and label.

        X : lattices
        y : their true paths; given as (source, target, label) of each arc, these need not be in the lattices
        """
        scored = self.scored(X)
        pairs = with_paths([each.lattice for each in scored], y)
        true = [labels_given(lattice, path, n) for n, lattice, path in pairs]
        return evaluate(true, best_labels(scored), scheme="iob2")

    def score(self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]) -> float:
        """F1 of arcs; see `report`.

        X, y : lattices and their true paths
        """
        return self.report(X, y).score

    # -- what was learnt ----------------------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        if "trained_" not in self.__dict__:
            raise NotFittedError(
                f"this {type(self).__name__} is not trained yet: call fit, or labelwright.load a model file"
            )

    def _learnt(self) -> Trained:
        self._check_fitted()
        return self.trained_

    @property
    def weights_(self) -> Array:
        """The weights [W]: those of features, then those of pairs of labels."""
        return self._learnt().weights

    @property
    def classes_(self) -> list[str]:
        """The labels of arcs, in the order of first appearance in the training data."""
        return list(self._learnt().space.labels)

    @property
    def state_features_(self) -> list[StateFeature]:
        """The weights of features that are not 0, the largest first: rows of feature, label and weight."""
        return state_features(self._learnt())

    @property
    def transition_features_(self) -> list[TransitionFeature]:
        """The weights of pairs of labels that are not 0, the largest first: rows of source, target and weight."""
        return transition_features(self._learnt()) if self._learnt().parameters.n_states else []

    def describe(self, top: int = 5) -> dict[str, Any]:
        """What the model has learnt, ready for JSON.

        top : features to show for each label
        """
        description = super().describe(top) | {"signature": signature(self)}
        by_label: dict[str, list[tuple[str, float]]] = {label: [] for label in self.classes_}
        for feature, label, weight in self.state_features_:
            if len(by_label[label]) < top:
                by_label[label].append((feature, weight))
        return description | {"features": by_label}

    def reads(self) -> InputSchema:
        return InputSchema("lattices")

    def summary(self) -> Summary:
        record = self.training_
        sizes = [
            counted(len(self.weights_), "weight"),
            counted(record["features"], "feature"),
            counted(len(self.classes_), "label"),
        ]
        run = [counted(record["sentences"], "lattice"), counted(record["iterations"], "iteration")]
        return Summary(sizes, [*run, f"{record['seconds']:.1f} s"], str(record["stopped"]))

    def _features_read(self) -> tuple[str, None]:
        return "arcs", None

    def _compressed(self, prune: float, bits: int) -> Self:
        smaller = type(self)(**self.get_params(deep=False))
        smaller.trained_, smaller.history_ = pruned(self._learnt(), prune, bits), self.history_
        smaller.training_ = self.training_ | {"features": smaller.trained_.extractor.n_features}
        smaller.training_ |= {"weights": len(smaller.weights_)}
        return smaller

    def sizes(self) -> dict[str, int]:
        """How many features and weights other than 0 it has."""
        learnt = self._learnt()
        return {"features": learnt.extractor.n_features, "weights": int((learnt.weights != 0).sum())}

    def _weight_names(self) -> frozenset[str]:
        return frozenset({"transitions", "state.weights"})

    # -- files --------------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors and the header of the model file."""
        tensors, header = pack_linear(self, self._learnt())
        return tensors, header | {"pairs": bool(self.trained_.parameters.n_states)}

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        fields = HeaderReader.of(header)
        model: Self = constructed(cls, fields)
        model.trained_ = read_trained(TensorReader.of(tensors), fields, _shape)
        model.training_, model.history_ = read_record(fields, ("sentences", "iterations", "seconds", "stopped"))
        return model


def _shape(trained: Trained, header: HeaderReader) -> tuple[Shape, Trained]:
    """The sizes of the parts of the weight vector."""
    if trained.space.latent or not isinstance(trained.extractor, DictFeatures):
        raise header.refuse("extractor", "features of arcs, and labels without latent states")
    L = trained.space.n_labels
    return Shape({"state": L}, L if header.one_of("pairs", (False, True)) else 0, 1), trained
