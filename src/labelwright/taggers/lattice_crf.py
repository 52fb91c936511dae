"""Conditional random fields over lattices of a user's own: the most probable path of a graph whose arcs have
features."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.lattice_paths import LatticePath, ScoredLattice, checked_path
from labelwright.decode.record import MOST, check_whole
from labelwright.engine.choice import expect, expect_much
from labelwright.errors import CorpusError
from labelwright.evaluate import Report, evaluate
from labelwright.learn.monitor import Record
from labelwright.learn.objective import LogLikelihood
from labelwright.parallel import Workers
from labelwright.scoring.parameters import Trained
from labelwright.structures.feature_lattice import Ends, FeatureLattice
from labelwright.taggers import declared
from labelwright.taggers.base import NBEST, PROBABILITY
from labelwright.taggers.estimator import InputSchema
from labelwright.taggers.lattice_data import (
    arc_slots,
    best_labels,
    encoded,
    scored_lattices,
    true_arcs,
    true_path,
    with_paths,
)
from labelwright.taggers.lattice_model import LatticeModel, Transitions

Array = NDArray[Any]


class LatticeCRF(LatticeModel):
    """Conditional random field on lattices: directed acyclic graphs whose arcs have a label and features.

    The score of a path is the sum of the weights of the features of its arcs, each together with the label of the arc,
    and of the pairs of labels of successive arcs; its probability is proportional to the exponential of its score.

    >>> words = [(0, 1, "word", ["a"]), (1, 2, "word", ["b"]), (0, 2, "word", ["ab"]), (2, 3, "word", ["c"])]
    >>> X = [FeatureLattice(words), FeatureLattice(words[:3])]
    >>> model = LatticeCRF(n_jobs=1).fit(X, [[(0, 2, "word"), (2, 3, "word")], [2]])
    >>> model.predict(X)
    [[(0, 2, 'word'), (2, 3, 'word')], [(0, 2, 'word')]]
    """

    can: ClassVar[frozenset[str]] = frozenset({PROBABILITY, NBEST})

    def __init__(
        self,
        transitions: Transitions = True,
        cells: declared.Cells = "all",
        min_count: declared.MinCount = 1,
        l1: declared.L1 = 0.0,
        l2: declared.L2 = 1.0,
        max_iter: declared.MaxIter = None,
        tol: declared.Tol = 1e-5,
        n_jobs: declared.Jobs = None,
        verbose: declared.Verbose = 0,
    ):
        self.transitions = transitions
        self.cells = cells
        self.min_count = min_count
        self.l1 = l1
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- training -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[FeatureLattice],
        y: Iterable[Iterable[Any]],
        *,
        dev: tuple[Iterable[FeatureLattice], Iterable[Iterable[Any]]] | None = None,
        progress: Callable[[Record, int], None] | None = None,
    ) -> Self:
        """Train on lattices and their true paths.

        X : lattices; an iterator over them, which makes each when it is asked for, takes less memory
        y : the true path of each: numbers of arcs, or (source, target, label) of each arc
        dev : (X, y) for development: the weights that do best on it are kept
        progress : called with the record of each iteration and the number of iterations at most
        """
        self._check_parameters()
        expect_much()
        data, gold, trained = self._prepare(X, y)
        held_out = None if dev is None else self._development(trained, *dev)
        self._train(data, gold, trained, held_out, progress)
        return self

    def _joint_objective(
        self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]], workers: Workers, dtype: Any = np.float32
    ) -> LogLikelihood:
        """The likelihood of paths as a layer that passes the probability of every arc: `forward(weights)` gives these,
        lattice by lattice, and the backward function (learn.objective).

        X, y : lattices with arcs, and their true paths
        workers : threads
        dtype : of the scores
        """
        self._check_fitted()
        data = encoded(self._trained, X)
        if (np.diff(data.arcs.offsets) == 0).any():
            raise CorpusError("X: a lattice has no arcs; leave it out")
        paths = [checked_path(lattice, path, n) for n, lattice, path in with_paths(data.lattices, y)]
        return self._objective(self._trained, data, true_arcs(data, paths), workers, dtype, arc_slots(data.arcs))

    def _development(self, trained: Trained, X: Any, y: Any) -> Callable[[Array], float]:
        """The score on development data of given weights."""
        data = encoded(trained, X)
        paths = [true_path(lattice, path, n) for n, lattice, path in with_paths(data.lattices, y)]
        true = [path.labels for path in paths]

        def score(weights: Array) -> float:
            predicted = best_labels(scored_lattices(trained._replace(weights=weights), data), paths)
            return evaluate(true, predicted, scheme="iob2").score

        return score

    # -- answers ------------------------------------------------------------------------------------------------------

    def scored(self, X: Iterable[FeatureLattice]) -> list[ScoredLattice]:
        """Every lattice, scored once: it can be asked for paths, probabilities and samples.

        X : lattices
        """
        self._check_fitted()
        data = encoded(self._trained, X)
        expect(len(data.arcs.label))
        return scored_lattices(self._trained, data)

    def decode(self, X: Iterable[FeatureLattice]) -> list[LatticePath]:
        """The best path of each lattice with its score and probability.

        X : lattices
        """
        return [each.best()[0] for each in self.scored(X)]

    def predict(self, X: Iterable[FeatureLattice]) -> list[list[Ends]]:
        """The best path of each lattice: (source, target, label) of its arcs.

        X : lattices
        """
        return [each.lattice.ends(each.best()[0].arcs) for each in self.scored(X)]

    def predict_nbest(self, X: Iterable[FeatureLattice], n: int = 5) -> list[list[tuple[list[Ends], float]]]:
        """Up to n paths of each lattice, the best first, with their probabilities.

        X : lattices
        n : how many
        """
        check_whole("n", n, 1, MOST)
        return [
            [(each.lattice.ends(path.arcs), float(np.exp(path.log_probability))) for path in each.best(n)]
            for each in self.scored(X)
        ]

    def predict_marginals(self, X: Iterable[FeatureLattice]) -> list[list[float]]:
        """The probability of every arc of each lattice, in the order of its arcs.

        X : lattices
        """
        return [each.marginals().tolist() for each in self.scored(X)]

    def sequence_log_probabilities(self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]) -> list[float]:
        """log P(path | lattice) of given paths.

        X : lattices
        y : a path of each: numbers of arcs, or (source, target, label) of each arc
        """
        scored = self.scored(X)
        pairs = with_paths([each.lattice for each in scored], y)
        paths = [checked_path(lattice, path, n) for n, lattice, path in pairs]
        return [min(0.0, each.weight_of(path) - each.log_z()) for each, path in zip(scored, paths, strict=True)]

    def report(self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]) -> Report:
        """Precision, recall and F1 of arcs, by labels: an arc of the best path is right where the true path has one
        with the same ends and label.

        X : lattices
        y : their true paths; given as (source, target, label) of each arc, these need not be in the lattices
        """
        scored = self.scored(X)
        pairs = with_paths([each.lattice for each in scored], y)
        paths = [true_path(lattice, path, n) for n, lattice, path in pairs]
        return evaluate([path.labels for path in paths], best_labels(scored, paths), scheme="iob2")

    def score(self, X: Iterable[FeatureLattice], y: Iterable[Iterable[Any]]) -> float:  # type: ignore[override]
        """F1 of arcs; see `report`.

        X, y : lattices and their true paths
        """
        return self.report(X, y).score

    # -- what was learnt ----------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> list[str]:
        """The labels of arcs, in the order of first appearance in the training data."""
        return list(self._learnt().space.labels)

    def reads(self) -> InputSchema:
        return InputSchema("lattices")
