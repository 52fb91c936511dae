"""Latent conditional random fields (DPLVM: Morency et al. 2007; Sun & Tsujii 2009, equations 1 to 4)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelwright.features.template import Template
from labelwright.taggers.loglinear import LogLinearModel
from labelwright.taggers.training import LatentStates

NOISE = 0.1  # standard deviation of the first weights,
SPLIT = 0.03  # and of what is added to those of a trained model


class LatentCRF(LatentStates, LogLinearModel):
    """A CRF over latent states: each label owns private states, and P(y|x) sums over all their paths.

    Parameters
    ----------
    n_latent : latent states per label: one number for all, or {label: number}
    n_restarts : train from so many random starts and keep the best on development data (or by objective)
    random_state : seed of the random starts, and of the shuffling of SGD
    All other parameters are those of CRF.

    >>> X = [["her", "brother", "ran"], ["he", "saw", "her"]]
    >>> y = [["B", "I", "O"], ["B", "O", "B"]]
    >>> model = LatentCRF(n_latent=2, n_jobs=1, random_state=0).fit(X, y)
    >>> model.predict([["her", "brother", "ran"]])
    [['B', 'I', 'O']]
    >>> model.decode([["her", "brother", "ran"]])[0].exact
    True
    """

    default_decoder: ClassVar[str] = "exact"

    def __init__(
        self,
        n_latent: int | Mapping[str, int] = 4,
        template: str | Template = "default",
        order: int = 1,
        cells: str = "observed",
        min_count: int = 1,
        l1: float = 0.0,
        l2: float = 1.0,
        optimizer: str = "lbfgs",
        averaging: str = "none",
        max_iter: int | None = None,
        tol: float = 1e-5,
        n_restarts: int = 1,
        constraints: str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
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

    def _start(self, restart: int, split: bool) -> NDArray[Any]:
        """Small random weights: equal states would stay equal for ever."""
        rng = np.random.default_rng([self.random_state or 0, restart])
        if self.space_.n_states == self.space_.n_labels:
            return super()._start(restart, split)
        return rng.normal(0, SPLIT if split else NOISE, self.parameters_.n_weights).astype(np.float32)
