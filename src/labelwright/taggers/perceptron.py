"""Perceptrons with and without latent states (Collins 2002; Sun, Matsuzaki, Okanohara & Tsujii 2009, figure 1), with
passive-aggressive updates and AROW."""

import copy
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.corpus.token_records import listed
from labelwright.engine.choice import expect_much
from labelwright.errors import OptionError
from labelwright.features.extract import Encoded
from labelwright.kernels.perceptron import UpdateRule
from labelwright.learn.checkpoint import Checkpoints
from labelwright.learn.convergence import convergence, latent_separability
from labelwright.learn.monitor import Monitor
from labelwright.learn.perceptron import EARLY, Averaged, Averaging, Passes, perceptron
from labelwright.parallel import Workers
from labelwright.scoring.carry import carry_over
from labelwright.scoring.parameters import Trained
from labelwright.structures.lattice import Margins, margins
from labelwright.taggers import declared
from labelwright.taggers.growth import grow
from labelwright.taggers.latent_crf import LatentCRF
from labelwright.taggers.score_based import ScoredModel
from labelwright.taggers.training import Data, Development, LatentStates, TrainableModel, lasting
from labelwright.taggers.unfinished import finished
from labelwright.wording import counted, percent

Array = NDArray[Any]
PASSES = 50
PATIENCE = 20  # passes without a better score on development data
PLAIN = 12  # passes of the perceptron whose states are split,
GOOD = 1 / 3  # and the share of the training sentences that it has to separate for that
LIKELY = 50  # iterations of the latent CRF whose states are taken over
NOISE = 1e-3  # standard deviation of the first weights of latent states,
SPLIT = 0.1  # and of what is added to those of states that are split
COSTS = {  # the power of the number of wrong labels that the margin is multiplied with; is it there in decoding?
    "augmented": (1.0, True),
    "labels": (1.0, False),
    "root": (0.5, False),
    "sentence": (0.0, False),
}


class Perceptron(ScoredModel):
    """Structured perceptron: decode each sentence; where labels are wrong, add the features of the gold path and take
    away those of the best one.

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> Perceptron(n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    [['D', 'N', 'V']]
    """

    _trains_in: ClassVar[str] = "pass"
    _of_iteration: ClassVar[tuple[str, ...]] = ("loss", "mistakes")
    _recorded: ClassVar[tuple[str, ...]] = ("mistakes", "separable")
    _remedy: ClassVar[str] = "use a smaller margin and aggressiveness"
    _can_start_from: ClassVar[tuple[str, ...]] = ("perceptron",)
    _online: tuple[Averaged, UpdateRule] | None = None  # of partial_fit: weights in the order of weights_, its margin
    _norm: float | None = None  # of the features of a sentence, at most, where the theorems on mistakes apply
    _start_norm: float = 0.0

    def __init__(
        self,
        template: declared.Template = "default",
        order: declared.Order = 1,
        cells: declared.Cells = "observed",
        min_count: declared.MinCount = 1,
        averaging: declared.Averaging = "avg",
        reset_every: declared.ResetEvery = 4,
        update: declared.Update = "perceptron",
        margin: declared.Margin = None,
        cost: declared.Cost = "augmented",
        aggressiveness: declared.Aggressiveness = 1.0,
        slack: declared.Slack = "linear",
        variance: declared.Variance = 1.0,
        gamma: declared.Gamma = 1.0,
        shuffle: declared.Shuffle = True,
        batch_size: declared.BatchSize = 1,
        max_iter: declared.MaxPasses = None,
        epsilon: declared.Epsilon = 0.0,
        constraints: declared.Constraints = None,
        warm_start: declared.WarmStart = False,
        n_jobs: declared.Jobs = None,
        random_state: declared.Seed = None,
        verbose: declared.Verbose = 0,
        dictionaries: declared.Dictionaries = None,
        clusters: declared.Clusters = None,
        vectors: declared.Vectors = None,
        calibration: declared.Calibration = True,
        class_weight: declared.ClassWeight = None,
        forbidden_transitions: declared.ForbiddenTransitions = None,
        required_transitions: declared.RequiredTransitions = None,
        all_passes: declared.AllPasses = False,
    ):
        self.template = template
        self.order = order
        self.cells = cells
        self.min_count = min_count
        self.averaging = averaging
        self.reset_every = reset_every
        self.update = update
        self.margin = margin
        self.cost = cost
        self.aggressiveness = aggressiveness
        self.slack = slack
        self.variance = variance
        self.gamma = gamma
        self.shuffle = shuffle
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.epsilon = epsilon
        self.constraints = constraints
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.dictionaries = dictionaries
        self.clusters = clusters
        self.vectors = vectors
        self.calibration = calibration
        self.class_weight = class_weight
        self.forbidden_transitions = forbidden_transitions
        self.required_transitions = required_transitions
        self.all_passes = all_passes

    def partial_fit(
        self, X: Any, y: Sequence[Sequence[str]] | None = None, *, sample_weight: Sequence[Any] | None = None
    ) -> Self:
        """Look once at each of these sentences, in their order, after all that came before.

        Features and labels that are new here become part of the model.  A loaded model goes on from its weights.  Calls
        are no passes: "mavg" is "avg" here, and a margin that is ours to choose is that of the first call.

        X, y : sentences and their labels, or a Corpus
        sample_weight : as in `fit`
        """
        begun = time.perf_counter()
        self._check_parameters()
        expect_much()
        y = listed(y)
        grown = copy.copy(self)  # whatever fails, this model stays as it is
        if not self._is_fitted():
            data, trained = self._prepare(X, y, more=True, sample_weight=sample_weight)
            rule = self._rule()
            run = Averaged.begin(self._start(trained, 0, False), rule)
            grown.history_, grown.training_ = [], {"sentences": 0, "tokens": 0}
        else:
            run, rule = self._online or (Averaged.begin(self.weights_, self._rule()), self._rule())
            data, trained = grow(self, X, y, sample_weight)
            run = self._carried(run, trained, rule)
        passes = Passes(*data, trained.space, trained.parameters, rule, None)
        run = run.moved(passes.layout.laid_out)
        mistakes, loss, _ = passes.one_pass(run, EARLY)
        run = run.moved(passes.layout.taken_back)
        grown._online = run, passes.rule
        grown._trained = trained._replace(weights=run.weights if self.averaging == "none" else run.mean())
        record = {
            "iteration": len(grown.history_) + 1,
            "loss": loss,
            "mistakes": mistakes,
            "separable": passes.share_without(mistakes),
            "seconds": time.perf_counter() - begun,
        }
        grown.history_ = [*grown.history_, record]
        grown.training_ = lasting(grown.training_) | {
            "sentences": grown.training_.get("sentences", 0) + passes.n,
            "tokens": grown.training_.get("tokens", 0) + len(data.gold),
            "features": grown._extractor.n_features,
            "weights": len(grown.weights_),
            "iterations": record["iteration"],
            "loss": loss,
        }
        self.__dict__.update(grown.__dict__)
        return self

    def _carried(self, run: Averaged, trained: Trained, rule: UpdateRule) -> Averaged:
        """A run of `partial_fit` whose model has grown: new weights have no past."""
        new = Averaged.begin(self._start(trained, 0, False), rule)

        def carried(old: Array, start: Array) -> Array:
            if not len(start):
                return start
            return carry_over(self._trained._replace(weights=old), trained._replace(weights=start))

        weights, sums = carried(run.weights, new.weights), carried(run.sums, new.sums)
        return Averaged(weights, sums, run.taken, carried(run.variances, new.variances))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.update != "perceptron" and self.margin == 0:
            raise OptionError(f"margin: {self.update} updates need one above 0")
        if self.all_passes and self.epsilon > 0:
            raise OptionError("epsilon: with all_passes, no loss ends the training; leave one of them out")

    def _stopping(self) -> dict[str, Any]:
        limit = self.max_iter or PASSES
        patience = limit + 1 if self.all_passes else PATIENCE
        return {"max_iter": limit, "tol": -np.inf, "first": 1, "dev_every": 1, "patience": patience}

    def _rule(self) -> UpdateRule:
        passive, adaptive = self.update != "perceptron", self.update == "arow"
        margin = float(passive if self.margin is None else np.nan if self.margin == "auto" else self.margin)
        if not passive:
            return UpdateRule(margin, False, np.inf)
        power, augmented = COSTS[self.cost]
        if adaptive:
            return UpdateRule(margin, True, np.inf, float(self.gamma), power, augmented, float(self.variance))
        limit = float(self.aggressiveness) if self.slack == "linear" else np.inf
        damping = 0.5 / float(self.aggressiveness) if self.slack == "quadratic" else 0.0
        return UpdateRule(margin, True, limit, damping, power, augmented)

    def _optimise(
        self, start: Trained, data: Data, monitor: Monitor, workers: Workers, state: dict[str, Array] | None
    ) -> Array:
        passes = self._passes(start, data, workers)
        self._norm = self._largest_norm(passes)
        averaging = Averaging(self.averaging, self.reset_every)
        epsilon = None if self.all_passes else self.epsilon
        return perceptron(passes, start.weights, monitor, averaging, epsilon, state)

    def _run(self, start: Trained, data: Data, monitor: Monitor) -> Array:
        self._online = None
        self.__dict__.pop("_norm", None)
        self._start_norm = float(np.linalg.norm(start.weights.astype(np.float64)))
        return super()._run(start, data, monitor)

    def _passes(self, trained: Trained, data: Data, workers: Workers) -> Passes:
        seed = (self.random_state or 0) if self.shuffle else None
        return Passes(*data, trained.space, trained.parameters, self._rule(), seed, self.batch_size, workers)

    def _largest_norm(self, passes: Passes) -> float | None:
        """The norm of the features of a sentence, at most, where the theorems on mistakes apply."""
        plain = not passes.rule.passive and passes.rule.margin == 0 and self.averaging != "mavg"
        return passes.largest_norm() if plain else None

    def _facts_of_run(self) -> list[str]:
        separable = percent(self.training_["convergence"]["separable"])
        facts = [counted(self.training_["mistakes"], "mistake"), f"{separable} separable"]
        calibrated = self.training_.get("calibration", {}).get("seconds")
        return facts if calibrated is None else [*facts, f"{calibrated:.1f} s of calibration"]

    def _after(self, data: Data, development: Development | None) -> None:
        super()._after(data, development)
        self.training_["mistakes"] = sum(record["mistakes"] for record in self.history_)
        if data.said.partial:  # which of several labellings is right is not known
            self.training_["convergence"] = {"separable": self.history_[-1]["separable"]}
            return
        if "_norm" not in vars(self):  # the run was finished before it was resumed
            self._norm = self._largest_norm(self._passes(self._trained, data, Workers(self.n_jobs)))
        gold, starts = data.gold, data.offsets

        def question(batch: Batch) -> list[Margins]:
            codes = (gold[starts[n] : starts[n + 1]] for n in range(batch.first, batch.first + len(batch)))
            return [margins(s.lattice, y) for s, y in zip(batch, codes, strict=True)]  # type: ignore[union-attr]

        encoded = Encoded(data.incidences, data.offsets, self._extractor.mark)
        norm = float(np.linalg.norm(self.weights_.astype(np.float64)))
        seen = convergence(self._ask(encoded, question), norm, self._norm, len(self.history_), self._start_norm)
        self.training_["convergence"] = seen._asdict()


class LatentPerceptron(LatentStates, Perceptron):
    """A perceptron over latent states: each label owns private states, and the score of a labelling is that of its best
    path.

    >>> X = [["her", "brother", "ran"], ["he", "saw", "her"]]
    >>> y = [["B", "I", "O"], ["B", "O", "B"]]
    >>> LatentPerceptron(n_latent=2, n_jobs=1, random_state=0).fit(X, y).predict([["her", "brother", "ran"]])
    [['B', 'I', 'O']]
    """

    _can_start_from: ClassVar[tuple[str, ...]] = ("perceptron", "latent-perceptron")
    _first_states: dict[str, Any] | None = None  # where the states of the last fit came from
    _separating: Trained | None = None  # the plain perceptron of this fit, where it separates the data,
    _plain_margin: float = 0.0  # and its margin

    def __init__(
        self,
        n_latent: declared.Latent = 4,
        template: declared.Template = "default",
        order: declared.Order = 1,
        cells: declared.Cells = "observed",
        min_count: declared.MinCount = 1,
        averaging: declared.Averaging = "mavg",
        reset_every: declared.ResetEvery = 4,
        update: declared.Update = "perceptron",
        margin: declared.AutoMargin = "auto",
        cost: declared.Cost = "augmented",
        aggressiveness: declared.Aggressiveness = 1.0,
        slack: declared.Slack = "linear",
        variance: declared.Variance = 1.0,
        gamma: declared.Gamma = 1.0,
        shuffle: declared.Shuffle = True,
        batch_size: declared.BatchSize = 1,
        max_iter: declared.MaxPasses = None,
        epsilon: declared.Epsilon = 0.0,
        start: declared.Start = "auto",
        n_restarts: declared.Restarts = 1,
        constraints: declared.Constraints = None,
        warm_start: declared.WarmStart = False,
        n_jobs: declared.Jobs = None,
        random_state: declared.Seed = None,
        verbose: declared.Verbose = 0,
        dictionaries: declared.Dictionaries = None,
        clusters: declared.Clusters = None,
        vectors: declared.Vectors = None,
        calibration: declared.Calibration = True,
        class_weight: declared.ClassWeight = None,
        forbidden_transitions: declared.ForbiddenTransitions = None,
        required_transitions: declared.RequiredTransitions = None,
        all_passes: declared.AllPasses = False,
    ):
        super().__init__(
            template, order, cells, min_count, averaging, reset_every, update, margin, cost, aggressiveness, slack,
            variance, gamma, shuffle, batch_size, max_iter, epsilon, constraints, warm_start, n_jobs, random_state,
            verbose, dictionaries, clusters, vectors, calibration, class_weight, forbidden_transitions,
            required_transitions, all_passes,
        )  # fmt: skip
        self.n_latent = n_latent
        self.start = start
        self.n_restarts = n_restarts

    def _before(
        self, init: Any, X: Any, y: Sequence[Sequence[str]] | None, places: Checkpoints | None
    ) -> Trained | None:
        self._first_states = self._separating = self._online = None
        return super()._before(init, X, y, places)

    def _first_model(
        self, X: Any, y: Sequence[Sequence[str]] | None, places: Checkpoints | None
    ) -> TrainableModel | None:
        """What the parameter `start` names."""
        if self.start == "random" or max(self._numbers_of_states()) == 1:
            return None
        plain = None
        self._first_states = {"of": self.start}
        if self.start != "likelihood":
            plain = finished(self._plain(X, y, places))
            separable = plain.training_["convergence"]["separable"]
            self._plain_margin = plain.training_["convergence"].get("margin") or 0.0
            self._separating = plain._trained if self._plain_margin > 0 else None
            enough = self.start == "split" or separable >= GOOD
            self._first_states = {"of": "split" if enough else "likelihood", "plain_separable": separable}
        return plain if self._first_states["of"] == "split" else finished(self._likely(X, y, places), plain)

    def _record(self, data: Data, best: Monitor, monitors: list[Monitor]) -> dict[str, Any]:
        record = super()._record(data, best, monitors)
        return record if self._first_states is None else record | {"start": self._first_states}

    def _after(self, data: Data, development: Development | None) -> None:
        super()._after(data, development)
        plain, self._separating = self._separating, None
        if plain is None or "margin" not in self.training_["convergence"]:
            return
        copied = carry_over(plain, self._trained._replace(weights=np.zeros_like(self.weights_)))
        norms = [float(np.linalg.norm(weights.astype(np.float64))) for weights in (copied, plain.weights)]
        seen = latent_separability(self._plain_margin, norms[0] / norms[1], self._norm, self._start_norm)
        self.training_["convergence"]["latent"] = seen._asdict()

    def _plain(self, X: Any, y: Sequence[Sequence[str]] | None, places: Checkpoints | None) -> Perceptron:
        """A perceptron with the same settings but one state for each label."""
        own = {"averaging": "avg", "max_iter": min(PLAIN, self.max_iter or PLAIN), "all_passes": False}
        own |= {"verbose": 0, "warm_start": False}
        settings = {name: value for name, value in self.get_params().items() if name in Perceptron._parameter_names()}
        place = None if places is None else places.part("first1")
        return Perceptron(**settings | own).fit(X, y, checkpoint=place)

    def _likely(self, X: Any, y: Sequence[Sequence[str]] | None, places: Checkpoints | None) -> LatentCRF:
        """A latent CRF with the same settings: sums over all paths tell states apart where single paths get stuck."""
        own = {"averaging": "none", "max_iter": LIKELY, "verbose": 0, "warm_start": False, "n_restarts": 1}
        own |= {"start": "random"}
        settings = {name: value for name, value in self.get_params().items() if name in LatentCRF._parameter_names()}
        place = None if places is None else places.part("first2")
        return LatentCRF(**settings | own).fit(X, y, checkpoint=place)

    def _start(self, trained: Trained, restart: int, split: bool) -> Array:
        """Small random weights: equal states would stay equal for ever."""
        if not trained.space.latent:
            return super()._start(trained, restart, split)
        rng = np.random.default_rng([self.random_state or 0, restart])
        return rng.normal(0, SPLIT if split else NOISE, trained.parameters.n_weights).astype(np.float32)
