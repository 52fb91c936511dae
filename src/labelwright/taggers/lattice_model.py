"""What all models of paths through lattices share: training, what was learnt, and their files."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.errors import NotFittedError
from labelwright.features.attributes import DictFeatures
from labelwright.inspection.facts import StateFeature, TransitionFeature, state_features, transition_features
from labelwright.learn.arcs import ArcAssembly, ArcExpectations
from labelwright.learn.monitor import Monitor, ProgressBar, Record
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.owlqn import minimised
from labelwright.parallel import Workers, one_blas_thread
from labelwright.scoring.carry import pruned
from labelwright.scoring.parameters import Parameters, Trained, cells_of_arcs
from labelwright.settings import Help, Signed
from labelwright.structures.passing import Candidates
from labelwright.structures.states import state_space
from labelwright.taggers.estimator import Estimator, Summary
from labelwright.taggers.lattice_data import EncodedLattices, joined, read_training, true_arcs
from labelwright.taggers.loglinear import OPTIMIZERS
from labelwright.taggers.packing import (
    Packed,
    Shape,
    check_first_order,
    constructed,
    pack_linear,
    read_record,
    read_trained,
)
from labelwright.taggers.signature import signature
from labelwright.validation import HeaderReader, TensorReader
from labelwright.wording import counted

Array = NDArray[Any]
Transitions = Annotated[
    bool, Signed(), Help("Have a weight for each pair of labels of successive arcs (where there are two or more).")
]


class LatticeModel(Estimator):
    """A model of the paths of lattices, trained by log-likelihood; subclasses say what it is asked."""

    transitions: bool
    cells: str
    min_count: int
    l1: float
    l2: float
    max_iter: int | None
    tol: float
    n_jobs: int | None
    verbose: int
    _trained: Trained
    history_: list[dict[str, Any]]  #: a record of each iteration

    # -- training -----------------------------------------------------------------------------------------------------

    def _progress_bar(self, title: str = "training") -> ProgressBar:
        """A bar for `fit(progress=...)`."""
        return ProgressBar(self.max_iter, self.tol, title)

    def _prepare(self, X: Any, y: Any, known: Sequence[str] = ()) -> tuple[EncodedLattices, Array, Trained]:
        """The training data as integers, their true paths, and what is known before training; labels of arcs that are
        known come first."""
        collected, arcs, labels, paths = read_training(X, y, known)
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
        weights: Array | None = None,
    ) -> LogLikelihood:
        """The likelihood of the true paths; `weights` [N] are those of lattices."""
        assembly, offsets = ArcAssembly(trained.parameters), data.arcs.offsets
        n = len(trained.parameters.cells["state"].column)
        expectations = ArcExpectations(assembly, data.graphs, gold, offsets, candidates, weights)
        of_chain = offsets, np.empty(0, np.int32), trained.space, trained.parameters
        return LogLikelihood(
            {"state": data.weights_of}, n, *of_chain, workers, dtype, expectations=expectations, candidates=candidates
        )

    def _train(
        self,
        data: EncodedLattices,
        gold: Array,
        trained: Trained,
        held_out: Callable[[Array], float] | None,
        progress: Callable[[Record, int], None] | None,
        weights: Array | None = None,
    ) -> None:
        """Find the weights and keep what was learnt; `held_out` scores weights on development data."""
        bar = self._progress_bar() if progress is None and self.verbose else None
        max_iter, period = OPTIMIZERS["lbfgs"]
        told = progress or bar
        monitor = Monitor(self.max_iter or max_iter, self.tol, period=period, dev=held_out, progress=told)
        workers = Workers(self.n_jobs)
        problem = self._objective(trained, data, gold, workers, weights=weights)
        try:
            with monitor, one_blas_thread():
                best = minimised(problem, trained.weights, self.l1, self.l2, monitor, workers)
        finally:
            if bar is not None:
                bar.close()
        self._trained = trained._replace(weights=best)
        self.history_ = [dict(record) for record in monitor.history]
        self.training_ = self._record(data, monitor)

    def _record(self, data: EncodedLattices, monitor: Monitor) -> dict[str, Any]:
        """What is worth knowing about the training run, in the model file too."""
        last = monitor.history[-1]
        record = {
            "sentences": len(data.arcs.n_nodes),
            "arcs": len(data.arcs.label),
            "features": self._trained.extractor.n_features,
            "weights": len(self._trained.weights),
            "iterations": last["iteration"],
            "loss": last["loss"],
            "seconds": round(last["seconds"], 3),
            "stopped": "interrupted" if monitor.interrupted else str(monitor.reason),
            "labelwright": __version__,
        }
        if monitor.best_iteration is not None:
            record |= {"best_iteration": monitor.best_iteration, "best_dev": monitor.merit}
        return record

    # -- what was learnt ----------------------------------------------------------------------------------------------

    def _is_fitted(self) -> bool:
        return "_trained" in self.__dict__

    def _check_fitted(self) -> None:
        if not self._is_fitted():
            raise NotFittedError(
                f"this {type(self).__name__} is not trained yet: call fit, or labelwright.load a model file"
            )

    def _learnt(self) -> Trained:
        self._check_fitted()
        return self._trained

    @property
    def weights_(self) -> Array:
        """The weights [W]: those of features, then those of pairs of labels."""
        return self._learnt().weights

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
        by_label: dict[str, list[tuple[str, float]]] = {label: [] for label in self._learnt().space.labels}
        for feature, label, weight in self.state_features_:
            if len(by_label[label]) < top:
                by_label[label].append((feature, weight))
        return description | {"features": by_label}

    def _summary(self) -> Summary:
        record = self.training_
        sizes = [
            counted(len(self.weights_), "weight"),
            counted(record["features"], "feature"),
            counted(len(self._learnt().space.labels), "label"),
        ]
        run = [counted(record["sentences"], "lattice"), counted(record["iterations"], "iteration")]
        return Summary(sizes, [*run, f"{record['seconds']:.1f} s"], str(record["stopped"]))

    def _features_read(self) -> tuple[str, None]:
        return "arcs", None

    def _compressed(self, prune: float, bits: int) -> Self:
        smaller = type(self)(**self.get_params(deep=False))
        smaller._trained, smaller.history_ = pruned(self._learnt(), prune, bits), self.history_
        smaller.training_ = self.training_ | {"features": smaller._trained.extractor.n_features}
        smaller.training_ |= {"weights": len(smaller.weights_)}
        return smaller

    def _sizes(self) -> dict[str, int]:
        """How many features and weights other than 0 it has."""
        learnt = self._learnt()
        return {"features": learnt.extractor.n_features, "weights": int((learnt.weights != 0).sum())}

    def _weight_names(self) -> frozenset[str]:
        return frozenset({"transitions", "state.weights"})

    # -- files --------------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors and the header of the model file."""
        tensors, header = pack_linear(self, self._learnt())
        return tensors, header | {"pairs": bool(self._trained.parameters.n_states)}

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        fields = HeaderReader.of(header)
        model: Self = constructed(cls, fields)
        model._trained = read_trained(TensorReader.of(tensors), fields, _shape)
        model.training_, model.history_ = read_record(fields, ("sentences", "iterations", "seconds", "stopped"))
        return model


def _shape(trained: Trained, header: HeaderReader) -> tuple[Shape, Trained]:
    """The sizes of the parts of the weight vector."""
    check_first_order(trained, header)
    if trained.space.latent or not isinstance(trained.extractor, DictFeatures):
        raise header.refuse("extractor", "features of arcs, and labels without latent states")
    L = trained.space.n_labels
    return Shape({"state": L}, L if header.one_of("pairs", (False, True)) else 0, 1), trained
