"""Latent conditional random fields (DPLVM: Morency et al. 2007; Sun & Tsujii 2009, equations 1 to 4)."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.learn.monitor import Monitor
from labelwright.scoring.parameters import Trained
from labelwright.taggers import declared
from labelwright.taggers.loglinear import LogLinearModel
from labelwright.taggers.split_merge import Plan, Rounds
from labelwright.taggers.training import Data, LatentStates, Run

NOISE = 0.01  # standard deviation of the first weights: noise of rare features stays, and is worse than none,
SPLIT = 0.03  # and of what is added to those of a trained model
SPLIT_MERGE = "split-merge"
STAGE = {"lbfgs": 50, "sgd": 12}  # iterations or passes of a stage of splitting and merging


class LatentCRF(LatentStates, LogLinearModel):
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
    _can_start_from: ClassVar[tuple[str, ...]] = ("crf", "latent-crf")
    _rounds: Rounds | None = None  # of splitting and merging in this fit

    def __init__(
        self,
        n_latent: declared.Latent = 4,
        template: declared.Template = "default",
        order: declared.Order = 1,
        cells: declared.Cells = "observed",
        min_count: declared.MinCount = 1,
        l1: declared.L1 = 0.0,
        l2: declared.L2 = 1.0,
        optimizer: declared.Optimizer = "lbfgs",
        averaging: declared.SgdAveraging = "none",
        max_iter: declared.MaxIter = None,
        tol: declared.Tol = 1e-5,
        n_restarts: declared.Restarts = 1,
        constraints: declared.Constraints = None,
        warm_start: declared.WarmStart = False,
        n_jobs: declared.Jobs = None,
        random_state: declared.Seed = None,
        verbose: declared.Verbose = 0,
        dictionaries: declared.Dictionaries = None,
        clusters: declared.Clusters = None,
        vectors: declared.Vectors = None,
        class_weight: declared.ClassWeight = None,
        forbidden_transitions: declared.ForbiddenTransitions = None,
        required_transitions: declared.RequiredTransitions = None,
        start: declared.LatentStart = "random",
        split_rounds: declared.SplitRounds = 3,
        merge_share: declared.MergeShare = 0.5,
        entity_rate: declared.EntityRate = None,
    ):
        self.n_latent = n_latent
        self.template = template
        self.order = order
        self.cells = cells
        self.min_count = min_count
        self.l1 = l1
        self.l2 = l2
        self.optimizer = optimizer
        self.averaging = averaging
        self.max_iter = max_iter
        self.tol = tol
        self.n_restarts = n_restarts
        self.constraints = constraints
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.dictionaries = dictionaries
        self.clusters = clusters
        self.vectors = vectors
        self.class_weight = class_weight
        self.forbidden_transitions = forbidden_transitions
        self.required_transitions = required_transitions
        self.start = start
        self.split_rounds = split_rounds
        self.merge_share = merge_share
        self.entity_rate = entity_rate

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.merge_share > 1:
            raise OptionError(f"merge_share: expected a share of 0 to 1, got {self.merge_share!r}")

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
        self, data: Data, trained: Trained, before: Trained | None, run: Run
    ) -> tuple[Trained, Trained | None]:
        self._rounds = None
        if self.start != SPLIT_MERGE:
            return trained, before
        limit = STAGE[self.optimizer]
        stage = self._untrained().set_params(max_iter=min(self.max_iter or limit, limit))
        most = super()._latent_states(trained.space.labels)
        rounds = Rounds(self, data, run, Plan(self.split_rounds, self.merge_share, most, self.optimizer, stage))
        learnt = rounds.result(trained, before)
        self._rounds = rounds
        return learnt._replace(weights=np.zeros_like(learnt.weights)), learnt

    def _record(self, data: Data, best: Monitor, monitors: list[Monitor]) -> dict[str, Any]:
        record = super()._record(data, best, monitors)
        rounds, self._rounds = self._rounds, None
        if rounds is None:
            return record
        return record | {"rounds": rounds.record, "seconds": round(record["seconds"] + rounds.seconds, 3)}

    def _start(self, trained: Trained, restart: int, split: bool) -> NDArray[Any]:
        """Small random weights: equal states would stay equal for ever."""
        rng = np.random.default_rng([self.random_state or 0, restart])
        if not trained.space.latent:
            return super()._start(trained, restart, split)
        return rng.normal(0, SPLIT if split else NOISE, trained.parameters.n_weights).astype(np.float32)
