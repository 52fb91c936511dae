"""Training by log-likelihood, shared by CRFs with and without latent states."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.token_records import listed
from labelwright.engine.choice import expect_much
from labelwright.errors import OptionError
from labelwright.features.incidence import Incidence
from labelwright.features.layered import encode_with_slots
from labelwright.learn.around import AroundWeights
from labelwright.learn.monitor import Monitor, ProgressBar
from labelwright.learn.objective import LogLikelihood, WithEntityRate
from labelwright.learn.owlqn import minimised
from labelwright.learn.sgd import SGD, sgd
from labelwright.parallel import Workers, one_blas_thread
from labelwright.scoring.carry import carry_over
from labelwright.scoring.parameters import Trained
from labelwright.structures.passing import Candidates, FeatureValues
from labelwright.taggers.base import JOINT
from labelwright.taggers.growth import grow
from labelwright.taggers.sample_weights import supervision_of
from labelwright.taggers.training import Data, TrainableModel, codes_among, lasting

Array = NDArray[Any]
OPTIMIZERS = {"lbfgs": (1000, 10), "sgd": (50, 5)}  # name: default max_iter, iterations over which it must still gain


class LogLinearModel(TrainableModel):
    """A linear model whose weights maximise the penalised log-likelihood; subclasses add parameters and their space."""

    can: ClassVar[frozenset[str]] = TrainableModel.can | {JOINT}
    l1: float
    l2: float
    optimizer: str
    averaging: str
    tol: float

    _remedy: ClassVar[str] = "use a larger l2, or optimizer='lbfgs'"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.averaging != "none" and self.optimizer != "sgd":
            raise OptionError(f"averaging: {self.averaging!r} is about the passes of SGD; use optimizer='sgd'")
        if self.l1 > 0 and self.optimizer == "sgd":
            raise OptionError("l1: SGD has no L1 penalty; use optimizer='lbfgs'")
        if self.entity_rate is not None and self.optimizer == "sgd":
            raise OptionError("entity_rate: SGD has no term for it; use optimizer='lbfgs'")

    def _stopping(self) -> dict[str, Any]:
        return self._stopping_of(self.optimizer)

    def _stopping_of(self, optimizer: str) -> dict[str, Any]:
        """When training by this optimizer stops: arguments of Monitor."""
        batch = optimizer == "lbfgs"
        max_iter, period = OPTIMIZERS[optimizer]
        return {
            "max_iter": self.max_iter or max_iter,
            "tol": self.tol if batch else 100 * self.tol if self.averaging == "none" else -np.inf,
            "period": period,
            "first": 0 if batch else 1,
            "dev_every": 5 if batch else 1,
            "dev_from": self._average_from or 1,
        }

    def _progress_bar(self, title: str = "training") -> ProgressBar:
        return ProgressBar(self.max_iter, self.tol if self.optimizer == "lbfgs" else None, title)

    @property
    def _average_from(self) -> int | None:
        """The first pass whose weights count in the average; development data are asked from there on."""
        return (self.max_iter or OPTIMIZERS["sgd"][0]) * 2 // 3 + 1 if self.averaging == "avg" else None

    def _may_change(self) -> tuple[str, ...]:
        return ("max_iter",) if self.averaging == "none" else ()

    def _optimise(
        self, start: Trained, data: Data, monitor: Monitor, workers: Workers, state: dict[str, Array] | None
    ) -> Array:
        if self.optimizer == "sgd":
            incidences, offsets, gold, said = data
            model = start.space, start.parameters, self.l2, self.random_state or 0
            run = SGD(incidences, offsets, gold, *model, said)
            return sgd(run, start.weights, monitor, state, self._average_from)
        problem = self._problem(start, data, workers)
        return minimised(problem, start.weights, self.l1, self.l2, monitor, workers, state)

    def _problem(self, trained: Trained, data: Data, workers: Workers) -> LogLikelihood | WithEntityRate:
        """What is minimised, but for penalties: the likelihood, with the term of an expected entity rate."""
        if self.entity_rate is None:
            return self._objective(trained, data, workers)
        T, often = int(data.offsets[-1]), data.said.of_sentences
        outside = np.full(T, self._outside_code(trained.space.labels))
        slots = Candidates(data.offsets, np.arange(T + 1), outside, np.full(T + 1, T), has_pairs=False)
        often = np.ones(T) if often is None else np.repeat(often, np.diff(data.offsets))
        return WithEntityRate(self._objective(trained, data, workers, candidates=slots), self.entity_rate, often)

    def _objective(
        self,
        trained: Trained,
        data: Data,
        workers: Workers,
        dtype: Any = np.float32,
        slots: dict[str, Array] | None = None,
        candidates: Candidates | None = None,
    ) -> LogLikelihood:
        """The likelihood of these data; `slots` and `candidates` are what a layer of a cascade is passed and passes."""
        features = data.incidences, trained.extractor.n_features, data.offsets, data.gold
        model = trained.space, trained.parameters, workers, dtype
        passing: dict[str, Any] = {"slots": slots, "candidates": candidates}
        passing["expectations"] = self._expectations(trained, data, candidates)
        return LogLikelihood(*features, *model, supervision=data.said, **passing)

    def _expectations(self, trained: Trained, data: Data, candidates: Candidates | None) -> Any:
        """What computes the expected features; None for those of chains."""
        return None

    # -- further data -----------------------------------------------------------------------------------------------

    def partial_fit(
        self, X: Any, y: Sequence[Sequence[Any]] | None = None, *, sample_weight: Sequence[Any] | None = None
    ) -> Self:
        """Learn from these sentences after all that came before: the penalty keeps weights near those that were learnt,
        instead of near 0.

        Features and labels that are new here become part of the model.  The sentences that it was trained on are not
        read again; where they are still there, `fit` on all of them is better.

        X, y : sentences and their labels, or a Corpus
        sample_weight : as in `fit`
        """
        if not self._is_fitted():
            return self.fit(X, y, sample_weight=sample_weight)
        self._check_parameters()
        self._check_can_grow()
        expect_much()
        data, start = self._grown(X, listed(y), sample_weight)
        monitor, workers = Monitor(**self._stopping_of("lbfgs")), Workers(self.n_jobs)
        problem = AroundWeights(self._problem(start, data, workers), start.weights)
        with monitor, one_blas_thread():
            change = minimised(problem, np.zeros_like(start.weights), self.l1, self.l2, monitor, workers)
        before = self.training_
        self._trained = start._replace(weights=start.weights + change)
        self.history_ = [dict(record) for record in monitor.history]
        self.training_ = lasting(before) | self._record(data, monitor, [monitor])
        for name in ("sentences", "tokens"):
            self.training_[name] += before.get(name, 0)
        return self

    def _check_can_grow(self) -> None:
        """Refuse `partial_fit` where features or labels cannot be added."""

    def _grown(self, X: Any, y: Sequence[Sequence[Any]] | None, sample_weight: Any) -> tuple[Data, Trained]:
        """Further sentences as integers, and this model with their features and labels added."""
        data, trained = grow(self, X, y, sample_weight)
        start = trained._replace(weights=self._start(trained, 0, split=True))
        return data, start._replace(weights=carry_over(self._trained, start))

    # -- as a layer of a cascade --------------------------------------------------------------------------------

    def _joint_objective(
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None,
        workers: Workers,
        candidates: Candidates | None = None,
        dtype: Any = np.float32,
        sample_weight: Any = None,
        class_weight: Mapping[Any, float] | None = None,
    ) -> tuple[LogLikelihood, FeatureValues]:
        """The likelihood of labels as a layer of a cascade that passes `candidates`, and what the values of its
        features are made of; without labels, it can only pass."""
        self._check_fitted()
        incidences, slots, offsets = encode_with_slots(self._extractor, X)
        weights = self.class_weight if class_weight is None else class_weight
        data = self._data(y, incidences, offsets, weights, sample_weight)
        return self._objective(self._trained, data, workers, dtype, slots.places, candidates), slots.values

    def _data(
        self,
        y: Sequence[Sequence[Any]] | None,
        incidences: dict[str, Incidence],
        offsets: Array,
        class_weight: Any,
        sample_weight: Any,
    ) -> Data:
        """Sentences with their labels as training takes them; with any labels where there are none."""
        kept = np.unique(offsets)  # sentences without tokens teach nothing
        if y is None:
            return Data(incidences, kept, np.zeros(int(offsets[-1]), np.int32))
        labels, gold, sets = codes_among(y, self._space.labels)
        said = supervision_of(sets, gold, offsets, labels, class_weight, sample_weight, part=True)
        return Data(incidences, kept, gold, said)
