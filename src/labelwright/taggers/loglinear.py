"""Training by log-likelihood, shared by CRFs with and without latent states."""

import zlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.options import MOST, check_whole
from labelwright.errors import OptionError
from labelwright.features.incidence import Incidence
from labelwright.features.layered import encode_with_slots
from labelwright.learn.lbfgs import lbfgs
from labelwright.learn.monitor import Monitor, ProgressBar
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.owlqn import owlqn
from labelwright.learn.sgd import SGD, sgd
from labelwright.parallel import Workers
from labelwright.structures.lattice import Lattice, label_marginals, posterior, posterior_arcs, sample
from labelwright.structures.passing import Candidates, Layered, Passed, likely
from labelwright.taggers.linear import Forced
from labelwright.taggers.training import REAL, Data, TrainableModel

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
        if self.optimizer == "sgd":
            run = SGD(*data, self.space_, self.parameters_, self.l2, self.random_state or 0)
            return sgd(run, weights, monitor, state, self._average_from)
        problem = self._objective(data, workers)
        if self.l1 > 0:
            return owlqn(problem, weights, self.l1, self.l2, monitor, workers, state)
        return lbfgs(problem, weights, self.l2, monitor, workers, state)

    def _objective(
        self,
        data: Data,
        workers: Workers,
        dtype: Any = np.float32,
        slots: dict[str, Array] | None = None,
        candidates: Candidates | None = None,
    ) -> LogLikelihood:
        """The likelihood of these data; `slots` and `candidates` are what a layer of a cascade is passed and passes."""
        layers, offsets, gold = data
        own = self.space_, self.parameters_, workers, dtype
        n_features = self.extractor_.n_features
        return LogLikelihood(layers, n_features, offsets, gold, *own, slots=slots, candidates=candidates)

    # -- as a layer of a cascade --------------------------------------------------------------------------------

    def objective(
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None,
        workers: Workers,
        candidates: Candidates | None = None,
        dtype: Any = np.float32,
    ) -> tuple[LogLikelihood, Array]:
        """The likelihood of labels as a layer of a cascade that passes `candidates`, and the values that stand behind
        what it is passed; without labels, it can only pass."""
        self._check_fitted()
        layers, slots, offsets = encode_with_slots(self.extractor_, X)
        offsets = np.unique(offsets)  # sentences without tokens teach nothing
        data = Data(layers, offsets, self._gold(y, layers, offsets))
        return self._objective(data, workers, dtype, slots.places, candidates), slots.constants

    def _gold(self, y: Sequence[Sequence[str]] | None, layers: dict[str, Incidence], offsets: Array) -> Array:
        """Labels as training takes them; anything where there are none."""
        if y is None:
            return np.zeros(int(offsets[-1]), np.int32)
        index = {label: code for code, label in enumerate(self.space_.labels)}
        return np.array([index[label] for sentence in y for label in sentence], np.int32)

    def passed(self, X: Any, cut: float = 0.001, *, forced: Forced | None = None) -> Passed:
        """What this model passes to a layer above: every label at least as probable as `cut`, and pairs of them."""
        self._check_fitted()
        none = np.empty((0, self.space_.n_labels))

        def question(_: int, lattice: Lattice) -> Array:
            found: Array = label_marginals(posterior(lattice).nodes, lattice.graph)
            return found

        rows = self._each(X, question, none, forced)
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        slots = likely(offsets, np.concatenate([none, *rows]), cut)
        if offsets[-1] == 0:
            return Passed(self.space_.labels, slots, np.empty(0))
        if forced is not None:
            return Passed(self.space_.labels, slots, self._slot_probabilities(X, slots, forced))
        with Workers(self.n_jobs) as workers:
            layer, constants = self.objective(X, None, workers, slots, np.float64)
            below = np.concatenate([X.passed.probability, constants]) if isinstance(X, Layered) else constants
            return Passed(self.space_.labels, slots, layer.marginals(self.weights_, below))

    def _slot_probabilities(self, X: Any, slots: Candidates, forced: Forced) -> Array:
        """The probabilities of candidates and their pairs under forced labels, sentence by sentence."""
        found = np.empty(slots.n_slots)
        L = self.space_.n_labels

        def question(n: int, lattice: Lattice) -> None:
            graph, sums = lattice.graph, posterior(lattice)
            label, before, _, _ = graph.names
            source, target = (label[end] for end in graph.ends)
            arcs = posterior_arcs(lattice, sums)
            singles = label_marginals(sums.nodes, graph)
            for t in range(len(lattice.node)):
                g = slots.offsets[n] + t
                here = slice(slots.ptr[g], slots.ptr[g + 1])
                found[here] = singles[t, slots.label[here]]
                if t == 0:
                    continue
                there = slots.label[slots.ptr[g - 1] : slots.ptr[g]]
                if graph.order == 1:
                    pairs = np.bincount(source * L + target, arcs[t], L * L)
                else:
                    inner = before >= 0
                    pairs = np.bincount(before[inner] * L + label[inner], sums.nodes[t, inner], L * L)
                wanted = there[:, None].astype(np.int64) * L + slots.label[here]
                found[slots.pair_ptr[g] : slots.pair_ptr[g + 1]] = pairs[wanted.reshape(-1)]

        self._each(X, question, None, forced)
        return found

    def sample(
        self, X: Any, n: int, random_state: int | None = 0, *, forced: Forced | None = None
    ) -> list[list[tuple[list[str], float]]]:
        """n labellings of each sentence, drawn from their probabilities; equal ones once, with their share.

        What is drawn depends on the sentence and its scores, not on its place among others."""
        check_whole("n", n, 1, MOST)
        self._check_fitted()
        labels = np.array(self.space_.labels, dtype=object)

        def question(_: int, lattice: Lattice) -> list[tuple[list[str], float]]:
            rng = np.random.default_rng([random_state or 0, zlib.crc32(np.ascontiguousarray(lattice.node).data)])
            codes = lattice.graph.label_of_node[sample(lattice, n, rng)]
            rows, counts = np.unique(codes, axis=0, return_counts=True)
            return [(labels[row].tolist(), count / n) for row, count in zip(rows, counts.tolist(), strict=True)]

        return self._each(X, question, [([], 1.0)], forced)
