"""Latent conditional random fields (DPLVM: Morency et al. 2007; Sun & Tsujii 2009, equations 1 to 4)."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelwright.scoring.trained import Trained
from labelwright.taggers import declared
from labelwright.taggers.loglinear import LogLinearModel
from labelwright.taggers.training import LatentStates

NOISE = 0.1  # standard deviation of the first weights,
SPLIT = 0.03  # and of what is added to those of a trained model


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

    default_decoder: ClassVar[str] = "exact"
    can_start_from: ClassVar[tuple[str, ...]] = ("crf", "latent-crf")

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

    def _start(self, trained: Trained, restart: int, split: bool) -> NDArray[Any]:
        """Small random weights: equal states would stay equal for ever."""
        rng = np.random.default_rng([self.random_state or 0, restart])
        if not trained.space.latent:
            return super()._start(trained, restart, split)
        return rng.normal(0, SPLIT if split else NOISE, trained.parameters.n_weights).astype(np.float32)
