"""Learning by log-likelihood, and the conditional random fields that do: linear-chain (Lafferty,
McCallum & Pereira 2001) and latent (DPLVM: Morency et al. 2007; Sun & Tsujii 2009, equations 1 to
4)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.learn.lbfgs import AroundWeights, minimised
from labelwright.learn.monitor import Monitor
from labelwright.learn.objective import WithEntityRate
from labelwright.learn.sgd import SGD, sgd
from labelwright.learn.variables import FIRM, Variables, of_model, stiffness
from labelwright.parallel import Workers, one_blas_thread
from labelwright.scoring.parameters import Trained
from labelwright.structures.passing import Candidates
from labelwright.taggers.arguments import Data
from labelwright.taggers.chain_structure import outside_code
from labelwright.taggers.declared import LOG_LINEAR, chosen
from labelwright.taggers.linear import LinearTagger, Noise, State, lasting

LATENT = 3.0  # times l2: the penalty of deviations of latent states
SHARED = 150  # iterations of L-BFGS where they share weights: stopping early is better on new data
# name: default max_iter, iterations over which it must still gain
OPTIMIZERS = {"lbfgs": (1000, 10), "sgd": (50, 5)}

Array = NDArray[Any]


class Likelihood:
    """Weights that maximise the penalised log-likelihood: by L-BFGS, OWL-QN (where l1 is above 0)
    or SGD."""

    remedy = "use a larger l2, or optimizer='lbfgs'"  # against a loss that is no number
    of_iteration: tuple[str, ...] = ("loss",)  # what the record of each iteration has
    recorded: tuple[str, ...] = ()  # and what it has beside that in checkpoints

    def __init__(self, model: Any):
        self.model = model  # whose settings it follows
        self.facts: dict[str, Any] = {}  # for the record of training

    def check(self) -> None:
        """Refuse settings that do not fit together."""
        model = self.model
        if model.averaging != "none" and model.optimizer != "sgd":
            raise OptionError(
                f"averaging: {model.averaging!r} is about the passes of SGD; use optimizer='sgd'"
            )
        if model.l1 > 0 and model.optimizer == "sgd":
            raise OptionError("l1: SGD has no L1 penalty; use optimizer='lbfgs'")
        if model.entity_rate is not None and model.optimizer == "sgd":
            raise OptionError("entity_rate: SGD has no term for it; use optimizer='lbfgs'")
        if model.device != "cpu" and (model.optimizer == "sgd" or model.entity_rate is not None):
            unknown = "optimizer='sgd'" if model.optimizer == "sgd" else "entity_rate"
            raise OptionError(
                f"device={model.device!r}: {unknown} is trained on the CPU alone; use device='cpu'"
            )

    def stopping(self, optimizer: str | None = None) -> dict[str, Any]:
        """When training stops: arguments of Monitor."""
        model, optimizer = self.model, optimizer or self.model.optimizer
        batch = optimizer == "lbfgs"
        max_iter, period = OPTIMIZERS[optimizer]
        if batch and model._l2_of_states is not None:
            max_iter = SHARED
        return {
            "max_iter": model.max_iter or max_iter,
            "tol": model.tol
            if batch
            else 100 * model.tol
            if model.averaging == "none"
            else -np.inf,
            "period": period,
            "first": 0 if batch else 1,
            "dev_every": 5 if batch else 1,
            "dev_from": self._average_from or 1,
        }

    @property
    def tolerance(self) -> float | None:
        """The relative improvement below which training stops, for those who watch."""
        return self.model.tol if self.model.optimizer == "lbfgs" else None

    @property
    def may_change(self) -> tuple[str, ...]:
        """Settings that a run which is resumed may have otherwise."""
        return ("max_iter",) if self.model.averaging == "none" else ()

    @property
    def _average_from(self) -> int | None:
        """The first pass whose weights count in the average; development data are asked from there
        on."""
        model = self.model
        return (
            (model.max_iter or OPTIMIZERS["sgd"][0]) * 2 // 3 + 1
            if model.averaging == "avg"
            else None
        )

    @property
    def noise(self) -> Noise:
        """Of states that share nothing, noise of rare features stays, and is worse than none."""
        model = self.model
        first = 0.01
        if model._l2_of_states is not None:
            first = 0.1 * stiffness(model.l2, model._l2_of_states)
        return Noise(first * stiffness(FIRM, model.l2), 0.03)

    def begin(self, start: Trained) -> None:
        """Before a run from a starting point."""

    def optimise(
        self, start: Trained, data: Data, monitor: Monitor, workers: Workers, state: State | None
    ) -> Array:
        """The best weights from a starting point; `state` is that of a run to resume."""
        model = self.model
        if model.optimizer == "sgd":
            incidences, offsets, gold, said, _ = data
            seed = model.random_state or 0
            run = SGD(
                incidences,
                offsets,
                gold,
                start.space,
                start.parameters,
                model.l2,
                seed,
                said,
                model._l2_of_states,
            )
            return sgd(run, start.weights, monitor, state, self._average_from)
        problem = self.problem(start, data, workers)
        variables, vectors = self.variables(start, data), getattr(problem, "vectors", None)
        return minimised(problem, start.weights, variables, monitor, workers, state, vectors)

    def variables(self, trained: Trained, data: Data) -> Variables:
        """What the optimiser varies."""
        model = self.model
        penalties = model.l1, model.l2, model._l2_of_states
        return of_model(
            trained.parameters, trained.space, *penalties, data.incidences, data.sizes["tokens"]
        )

    def problem(self, trained: Trained, data: Data, workers: Workers) -> Any:
        """What is minimised, but for penalties: the likelihood, with the term of an expected entity
        rate; on another device it has `vectors` of its own."""
        structure, rate = self.model._structure, self.model.entity_rate
        if not isinstance(data, Data):  # on the workers of a cluster
            return data.likelihood(trained)
        if self.model.device != "cpu":
            from labelwright.device.likelihood import TorchLikelihood
            from labelwright.device.place import Place

            return TorchLikelihood(Place(self.model.device), trained, data)
        if rate is None:
            return structure.objective(trained, data, workers)
        T, often = int(data.offsets[-1]), data.said.of_sentences
        outside = np.full(T, outside_code(rate, trained.space.labels))
        slots = Candidates(
            data.offsets, np.arange(T + 1), outside, np.full(T + 1, T), has_pairs=False
        )
        often = np.ones(T) if often is None else np.repeat(often, np.diff(data.offsets))
        return WithEntityRate(
            structure.objective(trained, data, workers, candidates=slots), rate, often
        )

    def finish(self, data: Data, development: Any) -> None:
        """What is left to do once the weights are found."""

    def learn_further(self, X: Any, y: Any, sample_weight: Any) -> None:
        """The penalty keeps weights near those that were learnt, instead of near 0."""
        model = self.model
        if not model._is_fitted():
            model.fit(X, y, sample_weight=sample_weight)
            return
        old = model._trained
        data, trained = model._prepare(X, y, sample_weight, old=old)
        start = model._begun(trained, 0, split=True)
        start = start._replace(weights=model._structure.carry(old, start))
        monitor, workers = Monitor(**self.stopping("lbfgs")), Workers(model.n_jobs)
        problem, variables = self.problem(start, data, workers), self.variables(start, data)
        vectors = getattr(problem, "vectors", None)
        problem = AroundWeights(
            problem, start.weights if vectors is None else vectors.of(start.weights)
        )
        none = np.zeros_like(start.weights)
        with monitor, one_blas_thread():
            change = minimised(problem, none, variables, monitor, workers, vectors=vectors)
        before = model.training_
        model._keep(start._replace(weights=start.weights + change), data, self, [monitor])
        model.training_ = lasting(before) | model.training_
        for name in ("sentences", "tokens"):
            model.training_[name] += before.get(name, 0)


class CRF(LinearTagger):
    """Conditional random field over sequences of strings, column tuples, feature dicts or rows of
    numbers.

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> CRF(n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    [['D', 'N', 'V']]
    """

    _learner: ClassVar[Any] = Likelihood
    _can_start_from: ClassVar[tuple[str, ...]] = ("crf", "latent-crf")

    _declared = chosen(
        "template order cells min_count l1 l2 optimizer averaging max_iter tol constraints "
        "prune_labels warm_start n_jobs device random_state verbose dictionaries clusters vectors "
        "class_weight forbidden_transitions required_transitions entity_rate",
        LOG_LINEAR,
    )


class LatentCRF(LinearTagger):
    """A CRF over latent states: each label owns private states, and P(y|x) sums over all their
    paths.

    >>> X = [["her", "brother", "ran"], ["he", "saw", "her"]]
    >>> y = [["B", "I", "O"], ["B", "O", "B"]]
    >>> model = LatentCRF(n_latent=2, n_jobs=1, random_state=0).fit(X, y)
    >>> model.predict([["her", "brother", "ran"]])
    [['B', 'I', 'O']]
    >>> model.decode([["her", "brother", "ran"]])[0].exact
    True
    """

    _default_decoder: ClassVar[str] = "exact"
    _learner: ClassVar[Any] = Likelihood
    _can_start_from: ClassVar[tuple[str, ...]] = ("crf", "latent-crf")

    _declared = chosen(
        "n_latent template order cells min_count l1 l2 share l2_latent optimizer averaging "
        "max_iter tol n_restarts constraints warm_start n_jobs device random_state verbose "
        "dictionaries clusters vectors class_weight forbidden_transitions required_transitions "
        "entity_rate",
        LOG_LINEAR,
        n_latent=2,
        l2=0.5,
    )

    n_latent: int | Mapping[str, int]
    share: bool
    l2_latent: float | None

    @property
    def _l2_of_states(self) -> float | None:  # type: ignore[override]
        if not self.share:
            return None
        return LATENT * self.l2 if self.l2_latent is None else self.l2_latent
