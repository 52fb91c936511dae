"""Training by log-likelihood, shared by CRFs with and without latent states."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.learn.lbfgs import lbfgs
from labelwright.learn.monitor import Monitor, ProgressBar
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.owlqn import owlqn
from labelwright.learn.sgd import SGD, sgd
from labelwright.models.training import REAL, Data, TrainableModel
from labelwright.parallel import Workers

Array = NDArray[Any]
AVERAGING = ("none", "avg")
OPTIMIZERS = {"lbfgs": (1000, 10), "sgd": (50, 5)}  # name: default max_iter, iterations over which it must still gain


class LogLinearModel(TrainableModel):
    """A linear model whose weights maximise the penalised log-likelihood; subclasses add parameters and their space."""

    l1: float
    l2: float
    optimizer: str
    averaging: str
    tol: float

    _numbers: ClassVar[dict[str, tuple[Any, float]]] = {
        "l1": (REAL, 0),
        "l2": (REAL, 0),
        "tol": (REAL, 0),
        **TrainableModel._numbers,
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("optimizer", tuple(OPTIMIZERS))
        self._check_choice("averaging", AVERAGING)
        if self.averaging != "none" and self.optimizer != "sgd":
            raise OptionError(f"averaging: {self.averaging!r} is about the passes of SGD; use optimizer='sgd'")
        if self.l1 > 0 and self.optimizer == "sgd":
            raise OptionError("l1: SGD has no L1 penalty; use optimizer='lbfgs'")

    def _stopping(self) -> dict[str, Any]:
        batch = self.optimizer == "lbfgs"
        max_iter, period = OPTIMIZERS[self.optimizer]
        return {
            "max_iter": self.max_iter or max_iter,
            "tol": self.tol if batch else 100 * self.tol if self.averaging == "none" else -np.inf,
            "period": period,
            "first": 0 if batch else 1,
            "dev_every": 5 if batch else 1,
            "dev_from": self._average_from or 1,
        }

    def progress_bar(self) -> ProgressBar:
        return ProgressBar(self.max_iter, self.tol if self.optimizer == "lbfgs" else None)

    @property
    def _average_from(self) -> int | None:
        """The first pass whose weights count in the average; development data are asked from there on."""
        return (self.max_iter or OPTIMIZERS["sgd"][0]) * 2 // 3 + 1 if self.averaging == "avg" else None

    def _may_change(self) -> tuple[str, ...]:
        return ("max_iter",) if self.averaging == "none" else ()

    def _optimise(
        self, data: Data, weights: Array, monitor: Monitor, workers: Workers, state: dict[str, Array] | None
    ) -> Array:
        layers, offsets, gold = data
        if self.optimizer == "sgd":
            run = SGD(layers, offsets, gold, self.space_, self.parameters_, self.l2, self.random_state or 0)
            return sgd(run, weights, monitor, state, self._average_from)
        n_features = self.extractor_.n_features
        problem = LogLikelihood(layers, n_features, offsets, gold, self.space_, self.parameters_, workers)
        if self.l1 > 0:
            return owlqn(problem, weights, self.l1, self.l2, monitor, workers, state)
        return lbfgs(problem, weights, self.l2, monitor, workers, state)
