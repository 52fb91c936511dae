"""Learning by log-likelihood, and the conditional random fields that do: linear-chain (Lafferty, McCallum & Pereira
2001) and latent (DPLVM: Morency et al. 2007; Sun & Tsujii 2009, equations 1 to 4), whose states may be learnt by
splitting and merging."""

from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.answers.chains import Chain
from labelwright.errors import OptionError
from labelwright.features.extract import Encoded
from labelwright.learn.lbfgs import AroundWeights, minimised
from labelwright.learn.merging import expected_states, merge_losses, node_pairs, siblings_of, to_merge
from labelwright.learn.monitor import Monitor
from labelwright.learn.objective import WithEntityRate
from labelwright.learn.sgd import SGD, sgd
from labelwright.learn.variables import Variables, of_model, stiffness
from labelwright.parallel import Workers, one_blas_thread
from labelwright.scoring.carry import carry_over, merged_weights
from labelwright.scoring.parameters import Trained, make_parameters
from labelwright.structures.passing import Candidates
from labelwright.structures.states import resized
from labelwright.taggers.arguments import Data
from labelwright.taggers.chain_structure import outside_code
from labelwright.taggers.declared import LOG_LINEAR, chosen
from labelwright.taggers.linear import LinearTagger, Noise, Run, State, UnfinishedError, lasting

SPLIT_MERGE = "split-merge"
LATENT = 3.0  # times l2: the penalty of deviations of latent states
OPTIMIZERS = {"lbfgs": (1000, 10), "sgd": (50, 5)}  # name: default max_iter, iterations over which it must still gain
STAGE = {"lbfgs": 50, "sgd": 12}  # iterations or passes of a stage of splitting and merging

Array = NDArray[Any]


class Likelihood:
    """Weights that maximise the penalised log-likelihood: by L-BFGS, OWL-QN (where l1 is above 0) or SGD."""

    remedy = "use a larger l2, or optimizer='lbfgs'"  # against a loss that is no number
    of_iteration: tuple[str, ...] = ("loss",)  # what the record of each iteration has
    recorded: tuple[str, ...] = ()  # and what it has beside that in checkpoints

    def __init__(self, model: Any):
        self.model = model  # whose settings it follows
        self.facts: dict[str, Any] = {}  # for the record of training
        self.seconds = 0.0  # of what is trained on the way

    def check(self) -> None:
        """Refuse settings that do not fit together."""
        model = self.model
        if model.averaging != "none" and model.optimizer != "sgd":
            raise OptionError(f"averaging: {model.averaging!r} is about the passes of SGD; use optimizer='sgd'")
        if model.l1 > 0 and model.optimizer == "sgd":
            raise OptionError("l1: SGD has no L1 penalty; use optimizer='lbfgs'")
        if model.entity_rate is not None and model.optimizer == "sgd":
            raise OptionError("entity_rate: SGD has no term for it; use optimizer='lbfgs'")
        if model.device != "cpu":
            if model.optimizer == "sgd" or model.entity_rate is not None:
                unknown = "optimizer='sgd'" if model.optimizer == "sgd" else "entity_rate"
                raise OptionError(f"device={model.device!r}: {unknown} is trained on the CPU alone; use device='cpu'")
            from labelwright.device.place import Place

            Place(model.device)  # it must be there

    def stopping(self, optimizer: str | None = None) -> dict[str, Any]:
        """When training stops: arguments of Monitor."""
        model, optimizer = self.model, optimizer or self.model.optimizer
        batch = optimizer == "lbfgs"
        max_iter, period = OPTIMIZERS[optimizer]
        return {
            "max_iter": model.max_iter or max_iter,
            "tol": model.tol if batch else 100 * model.tol if model.averaging == "none" else -np.inf,
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
        """The first pass whose weights count in the average; development data are asked from there on."""
        model = self.model
        return (model.max_iter or OPTIMIZERS["sgd"][0]) * 2 // 3 + 1 if model.averaging == "avg" else None

    @property
    def noise(self) -> Noise:
        """Of states that share nothing, noise of rare features stays, and is worse than none."""
        model = self.model
        return Noise(0.01 if model._l2_of_states is None else 0.1 * stiffness(model.l2, model._l2_of_states), 0.03)

    def begin(self, start: Trained) -> None:
        """Before a run from a starting point."""

    def optimise(self, start: Trained, data: Data, monitor: Monitor, workers: Workers, state: State | None) -> Array:
        """The best weights from a starting point; `state` is that of a run to resume."""
        model = self.model
        if model.optimizer == "sgd":
            incidences, offsets, gold, said, _ = data
            seed = model.random_state or 0
            run = SGD(
                incidences, offsets, gold, start.space, start.parameters, model.l2, seed, said, model._l2_of_states
            )
            return sgd(run, start.weights, monitor, state, self._average_from)
        problem = self.problem(start, data, workers)
        variables, vectors = self.variables(start, data), getattr(problem, "vectors", None)
        return minimised(problem, start.weights, variables, monitor, workers, state, vectors)

    def variables(self, trained: Trained, data: Data) -> Variables:
        """What the optimiser varies."""
        model = self.model
        penalties = model.l1, model.l2, model._l2_of_states
        return of_model(trained.parameters, trained.space, *penalties, data.incidences, int(data.offsets[-1]))

    def problem(self, trained: Trained, data: Data, workers: Workers) -> Any:
        """What is minimised, but for penalties: the likelihood, with the term of an expected entity rate; on another
        device it has `vectors` of its own."""
        structure, rate = self.model._structure, self.model.entity_rate
        if self.model.device != "cpu":
            from labelwright.device.likelihood import Place, TorchLikelihood

            return TorchLikelihood(Place(self.model.device), trained, data)
        if rate is None:
            return structure.objective(trained, data, workers)
        T, often = int(data.offsets[-1]), data.said.of_sentences
        outside = np.full(T, outside_code(rate, trained.space.labels))
        slots = Candidates(data.offsets, np.arange(T + 1), outside, np.full(T + 1, T), has_pairs=False)
        often = np.ones(T) if often is None else np.repeat(often, np.diff(data.offsets))
        return WithEntityRate(structure.objective(trained, data, workers, candidates=slots), rate, often)

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
        problem = AroundWeights(problem, start.weights if vectors is None else vectors.of(start.weights))
        none = np.zeros_like(start.weights)
        with monitor, one_blas_thread():
            change = minimised(problem, none, variables, monitor, workers, vectors=vectors)
        before = model.training_
        model._keep(start._replace(weights=start.weights + change), data, self, [monitor])
        model.training_ = lasting(before) | model.training_
        for name in ("sentences", "tokens"):
            model.training_[name] += before.get(name, 0)


class Merge(NamedTuple):
    """Which states a merge puts together."""

    losses: Array  # [P]  estimated log-likelihood that each pair of siblings would lose
    merge: Array  # [P]  whether it is merged
    sizes: Array  # [L]  states of each label afterwards
    target: Array  # [S]  the new state of each,
    share: Array  # [S]  and its share of it


class Rounds:
    """The rounds of splitting and merging of one fit.  What was learnt goes from stage to stage as a value.

    most : [L]  states that a label may get"""

    def __init__(self, model: "LatentCRF", data: Data, run: Run, most: list[int]):
        self.model, self.data, self.run, self.most = model, data, run, most
        self.record: list[dict[str, Any]] = []
        self.seconds = 0.0
        self._loss = np.inf  # after the last stage
        self._number = count(1)  # of stages
        self._last: UnfinishedError | None = None  # what is left where a signal comes before the next one has begun

    def result(self, trained: Trained, before: Trained | None) -> Trained:
        """What is known after the last round that made the model better; `trained` has no weights yet.  The first model
        to be split is the one `before`, or one with a state for each label."""
        try:
            if before is None:
                current = self.trained(trained)
            else:
                have = dict(zip(before.space.labels, np.diff(before.space.first).tolist(), strict=True))
                current = self.with_sizes(trained, np.array([have.get(label, 1) for label in trained.space.labels]))
                current = current._replace(weights=carry_over(before, current))
            best, best_merit, kept = current, self._note(current), 0
            for number in range(1, self.model.split_rounds + 1):
                sizes = np.diff(current.space.first)
                grown = self.trained(self.split(current, number))
                merge = self.merge(grown)
                if (merge.sizes == sizes).all():  # nothing is worth while
                    break
                current = self.trained(self.merged(grown, merge))
                merit = self._note(current, {"split": len(merge.merge), "merged": int(merge.merge.sum())})
                if merit <= best_merit:
                    break
                best, best_merit, kept = current, merit, number
        except KeyboardInterrupt as ended:
            if isinstance(ended, UnfinishedError) or self._last is None:
                raise
            raise self._last from None  # a signal between two stages
        self.record[kept]["kept"] = True
        return best

    def with_sizes(self, trained: Trained, sizes: Array) -> Trained:
        """The same model with other numbers of states [L] and without weights."""
        incidences, offsets, gold, said, _ = self.data
        space = resized(trained.space, sizes)
        inputs = incidences, trained.extractor.n_features, gold, offsets, space, self.model.cells
        parameters = make_parameters(*inputs, sets=said.sets)
        return trained._replace(space=space, parameters=parameters, weights=np.zeros(parameters.n_weights, np.float32))

    def split(self, trained: Trained, number: int) -> Trained:
        """Two states for each, with small noise to break the symmetry."""
        grown = self.model._begun(self.with_sizes(trained, 2 * np.diff(trained.space.first)), number, True)
        return grown._replace(weights=carry_over(trained, grown))

    def trained(self, start: Trained) -> Trained:
        """The model after some iterations from these weights."""
        limit, places, checkpoint = STAGE[self.model.optimizer], self.run.places, None
        stage = self.model._untrained().set_params(max_iter=min(self.model.max_iter or limit, limit))
        if places is not None:
            fingerprint = stage._fingerprint(start, self.data, None)
            checkpoint = places.part(f"stage{next(self._number)}").of(fingerprint)
        learner = stage._learner(stage)
        monitor = Monitor(**learner.stopping(), progress=self.run.progress, checkpoint=checkpoint)
        weights = stage._run(learner, start, self.data, monitor)
        so_far = UnfinishedError(start._replace(weights=weights), monitor.history)
        if monitor.interrupted:
            raise so_far if self._last is None or monitor.history[-1]["iteration"] else self._last
        self._last, self._loss = so_far, monitor.history[-1]["loss"]
        self.seconds += monitor.history[-1]["seconds"]
        return so_far.learnt

    def merge(self, trained: Trained) -> Merge:
        """What to merge of a model in which each state has just been split; the states of a label keep their order."""
        space, said = trained.space, self.data.said
        allowed, offsets = said.allowed(space.n_labels)[self.data.gold], self.data.offsets  # [T, L]
        siblings = siblings_of(space.first)
        how_often = np.ones(len(offsets) - 1) if said.of_sentences is None else said.of_sentences
        nodes = node_pairs(space.graph, siblings)
        data = Encoded(self.data.incidences, offsets, trained.extractor.mark)

        def total(answer: Any) -> Array:
            """The sum over all sentences of what is asked of their lattices, in their order."""

            def question(batch: Batch) -> list[Array]:
                answers = []
                for n, scored in enumerate(batch, batch.first):
                    right = allowed[offsets[n] : offsets[n + 1]]
                    answers.append(answer(cast(Chain, scored).lattice, right) * how_often[n])
                return answers

            return np.asarray(np.sum(self.model._ask_with(trained, data, question), axis=0))

        expected = total(expected_states)
        share = np.ones(space.n_states)
        both = np.maximum(expected[siblings.first] + expected[siblings.second], 1e-300)
        share[siblings.first] = expected[siblings.first] / both
        share[siblings.second] = 1 - share[siblings.first]
        losses = total(lambda lattice, right: merge_losses(lattice, right, nodes, share))
        merge = to_merge(losses, space.label_of[siblings.first], np.array(self.most), self.model.merge_share)
        first, second = siblings.first[merge], siblings.second[merge]
        kept, alone = np.ones(space.n_states, np.bool_), np.ones(space.n_states, np.bool_)
        kept[second] = alone[first] = alone[second] = False
        target = np.cumsum(kept) - 1
        target[second] = target[first]
        sizes = np.add.reduceat(kept.astype(np.int64), space.first[:-1])
        return Merge(losses, merge, sizes, target, np.where(alone, 1.0, share))

    def merged(self, trained: Trained, merge: Merge) -> Trained:
        """The model with fewer states."""
        now = self.with_sizes(trained, merge.sizes)
        return now._replace(weights=merged_weights(trained, now, merge.target, merge.share))

    def _note(self, trained: Trained, merged: Mapping[str, int] = MappingProxyType({})) -> float:
        """Record a round, and by what it must be better than the last: the score on the development data, or the loss;
        that of SGD, which begins each stage with large steps, cannot be compared."""
        sizes = np.diff(trained.space.first).tolist()
        record: dict[str, Any] = {"states": dict(zip(trained.space.labels, sizes, strict=True)), **merged}
        merit = float(len(self.record)) if self.model.optimizer == "sgd" else -self._loss
        if np.isfinite(self._loss):
            record["loss"] = self._loss
        if self.run.development is not None:
            merit = record["dev"] = self.model._dev_score(trained, self.run.development)(trained.weights)
        self.record.append(record)
        return merit


class CRF(LinearTagger):
    """Conditional random field over sequences of strings, column tuples, feature dicts or rows of numbers.

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> CRF(n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    [['D', 'N', 'V']]
    """

    _learner: ClassVar[Any] = Likelihood
    _can_start_from: ClassVar[tuple[str, ...]] = ("crf", "latent-crf")

    _declared = chosen(
        "template order cells min_count l1 l2 optimizer averaging max_iter tol constraints prune_labels warm_start "
        "n_jobs device random_state verbose dictionaries clusters vectors class_weight forbidden_transitions "
        "required_transitions entity_rate",
        LOG_LINEAR,
    )


class LatentCRF(LinearTagger):
    """A CRF over latent states: each label owns private states, and P(y|x) sums over all their paths.

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
        "n_latent template order cells min_count l1 l2 share l2_latent optimizer averaging max_iter tol n_restarts "
        "constraints warm_start n_jobs device random_state verbose dictionaries clusters vectors class_weight "
        "forbidden_transitions required_transitions start split_rounds merge_share entity_rate",
        LOG_LINEAR,
    )

    n_latent: int | Mapping[str, int]
    share: bool
    l2_latent: float | None
    start: str
    split_rounds: int
    merge_share: float

    @property
    def _l2_of_states(self) -> float | None:  # type: ignore[override]
        if not self.share:
            return None
        return LATENT * self.l2 if self.l2_latent is None else self.l2_latent

    def _latent_states(self, labels: Sequence[str], more: bool = False) -> list[int]:
        """All states; or, before they are learnt, one for each label."""
        most = super()._latent_states(labels, more)
        if self.start != SPLIT_MERGE:
            return most
        have: dict[str, int] = {}
        if more and self._is_fitted():
            have = dict(zip(self._space.labels, np.diff(self._space.first).tolist(), strict=True))
        return [have.get(label, 1) for label in labels]

    def _learn_states(
        self, data: Data, trained: Trained, before: Trained | None, run: Run, learner: Any
    ) -> tuple[Trained, Trained | None]:
        if self.start != SPLIT_MERGE:
            return trained, before
        rounds = Rounds(self, data, run, super()._latent_states(trained.space.labels))
        learnt = rounds.result(trained, before)
        learner.facts["rounds"], learner.seconds = rounds.record, rounds.seconds
        return learnt._replace(weights=np.zeros_like(learnt.weights)), learnt
