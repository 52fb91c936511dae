"""The training objective of CRFs, latent or not: minus log-likelihood and its gradient, over
threads.

One evaluation:  weights -> rows of scores (learn.rows) -> expected minus observed counts
(learn.expectations)
                 -> gradient (learn.rows).
Tokens are laid out once, as the expectations ask for.  Batches of sentences depend on the data
alone, and their sums are added in a fixed order: any number of threads gives the same bits.
"""

import math
from collections.abc import Callable
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import Incidence
from labelwright.learn.batches import Batch, Shard, Sizes
from labelwright.learn.expectations import Counts, Expectations
from labelwright.learn.rows import FeatureRows, call
from labelwright.parallel import Workers, one_blas_thread
from labelwright.scoring.assembly import tables_for
from labelwright.scoring.parameters import Parameters
from labelwright.structures.passing import Candidates
from labelwright.structures.states import StateSpace
from labelwright.structures.supervision import PLAIN, Supervision

BATCH_TOKENS = 1 << 15  # of one piece of work, unless
BATCH_BYTES = 1 << 23  # its nodes, or
# the arcs of its tokens, where these have some of their own, need more bytes than that
ARC_BYTES = 1 << 22
# rows of scores held at once: they should stay in the last-level cache until they are summed
SHARD_BYTES = 1 << 25
SHARD_BATCHES = 16  # at most
SHARED = 2  # tokens that a key needs for a row of its own
# messages of a layer of a cascade that are kept for its backward function; more are made again
KEPT_BYTES = 1 << 28
NEVER = 1e-9  # the smallest share of tokens in entities, or outside, whose logarithm is taken

Array = NDArray[Any]


class Gradient(NamedTuple):
    """What the backward function of a layer of a cascade returns."""

    loss: float  # its share of the loss
    weights: Array  # the derivative of all losses by the weights of the layer
    below: Array  # and by what it was passed


Back = Callable[[Array | None, float], Gradient]


class LogLikelihood:
    """loss(weights) = sum_n log Z(x_n) - log Z(x_n restricted to the states of y_n), and its
    gradient: expected counts of all paths minus those of the paths of y_n.

    `supervision` has sets of labels: y_n is then all labellings that they allow; weights v_n of
    sentences, by which their losses are multiplied; and weights w_t of tokens: log Z(x_n) counts a
    path w_t times for each token where its label is wrong (softmax-margin, Gimpel & Smith 2010).

    As a layer of a cascade it has features whose values the layer below gives (`slots` says which),
    and passes the probabilities that `candidates` name: see `forward`."""

    def __init__(
        self,
        incidences: dict[str, Incidence],
        n_features: int,
        offsets: NDArray[np.int64],
        gold: NDArray[np.int32],
        space: StateSpace,
        parameters: Parameters,
        workers: Workers,
        dtype: Any = np.float32,
        *,
        expectations: Any = None,
        slots: dict[str, Array] | None = None,
        candidates: Candidates | None = None,
        supervision: Supervision = PLAIN,
    ):
        self.parameters, self.workers, self.dtype = parameters, workers, dtype
        model = space, parameters, gold, offsets, dtype
        self.expectations = expectations or Expectations(*model, candidates, supervision)
        self.candidates = candidates
        assembly, size = self.expectations.assembly, np.dtype(dtype).itemsize
        sizes = Sizes(
            BATCH_TOKENS, BATCH_BYTES // size, ARC_BYTES // size, SHARD_BYTES // size, SHARD_BATCHES
        )
        self.shards: list[Shard] = self.expectations.lay_out(sizes)
        places = {
            name: incidences[name]._replace(token_value=slot)
            for name, slot in (slots or {}).items()
        }
        # features that leave their keys have no slot
        places = tables_for(places, assembly.row_width, -1, SHARED)
        self.parts: dict[str, FeatureRows] = {}
        for name, incidence in tables_for(incidences, assembly.row_width, shared=SHARED).items():
            ranges = [shard.rows[name] for shard in self.shards]
            made = (
                incidence,
                n_features,
                assembly.cells[name],
                assembly.row_width[name],
                ranges,
                dtype,
            )
            self.parts[name] = FeatureRows(
                *made, places[name].token_value if name in places else None
            )
        self._kept: dict[int, Any] | None = None  # what the last `forward` left
        self._rows = self._allocated()

    def _allocated(self) -> dict[str, Array]:
        """Memory for the rows of a shard."""
        longest = {
            name: max(b - a for a, b in (s.rows[name] for s in self.shards)) for name in self.parts
        }
        return {
            name: np.empty((longest[name], part.width), self.dtype)
            for name, part in self.parts.items()
        }

    def precise(self) -> "LogLikelihood | None":
        """The same in float64, with the same plan; None where this is in float64."""
        if self.dtype == np.float64:
            return None
        made = copy(self)
        made.dtype, made._kept = np.float64, None
        made.expectations = self.expectations.precise()
        made.parts = {name: part.precise() for name, part in self.parts.items()}
        made._rows = made._allocated()
        return made

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill `gradient` and return the loss."""
        return self._sweep(weights, gradient)

    def forward(self, weights: Array, below: Array | None = None) -> tuple[Array | None, Back]:
        """As a layer of a cascade: what it passes, by slots (None at the top), and its backward
        function, which takes the derivative of the losses above by what was passed and how much its
        own loss counts.

        `below` is what the layer below passes, by slots, and behind it values that never change."""
        kept: dict[int, Any] = {}
        passed = None
        if self.candidates is not None:
            passed = np.empty(self.candidates.n_slots)
            with one_blas_thread():
                kept = self._pass(weights, below, passed)

        def back(d_passed: Array | None, share: float) -> Gradient:
            gradient, d_below = np.empty_like(weights), np.zeros(0 if below is None else len(below))
            loss = self._sweep(weights, gradient, below, d_below, d_passed, share, kept)
            return Gradient(loss, gradient, d_below)

        return passed, back

    # -- one evaluation ----------------------------------------------------------------------------

    def _sweep(
        self,
        weights: Array,
        gradient: Array,
        below: Array | None = None,
        d_below: Array | None = None,
        d_passed: Array | None = None,
        share: float = 1.0,
        kept: dict[int, Any] | None = None,
    ) -> float:
        """Fill the gradient, add to d_below, and return the loss, shard by shard."""
        with one_blas_thread():
            transitions = self._begin(weights, kept)
            slices = self.parameters.slices
            for part in self.parts.values():
                part.clear()
            gradient[:] = 0
            total: Counts = self.expectations.nothing(transitions)

            for shard in self.shards:
                if not kept:
                    self._score(weights, shard, below)

                def count(batch: Batch, shard: Shard = shard) -> Counts:
                    rows = self._taken(batch)
                    state = kept.pop(batch.number) if kept else None
                    again = self._again(weights, shard, batch, below)
                    counts: Counts = self.expectations.counts(
                        rows, transitions, batch, again, share, d_passed, state
                    )
                    for name, at in batch.rows.items():
                        self._rows[name][at] = rows[name]
                    return counts

                for counts in self.workers.run(count, [(batch,) for batch in shard.batches]):
                    total = total.plus(counts)
                self.workers.run(call, self._adding(weights, shard, gradient, below, d_below))
            for name, part in self.parts.items():
                part.finish(gradient[slices[name]], self.workers)
            total = self.expectations.observed(total, transitions, share)
            self.expectations.assembly.store_transitions(total.nodes, total.arcs, gradient)
            return total.loss

    def _adding(
        self,
        weights: Array,
        shard: Shard,
        gradient: Array,
        below: Array | None,
        d_below: Array | None,
    ) -> list[Any]:
        """Pieces of work that add the rows of a shard to the gradient and to the derivative by what
        was passed."""
        tasks = list[Any]()
        for name, part in self.parts.items():
            part_of = self.parameters.slices[name]
            tasks += part.adding(shard.number, self._rows[name], gradient[part_of], below)
            if d_below is not None:
                first = shard.rows[name][0]
                for piece in shard.pieces:
                    a, b = piece[name]
                    rows = self._rows[name][a - first : b - first]
                    tasks.append((part.value_gradient, weights[part_of], a, b, rows, d_below))
        return tasks

    def _pass(self, weights: Array, below: Array | None, passed: Array) -> dict[int, Any]:
        """Fill what is passed; what the expectations made for it, by batches, unless that takes too
        much memory."""
        transitions = self._begin(weights)
        keep = self.expectations.kept_numbers * np.dtype(self.dtype).itemsize <= KEPT_BYTES
        kept: dict[int, Any] = {}
        for shard in self.shards:
            self._score(weights, shard, below)

            def ask(batch: Batch, shard: Shard = shard) -> None:
                rows = self._taken(batch)
                again = self._again(weights, shard, batch, below)
                state = self.expectations.passed(rows, transitions, batch, again, passed)
                if keep and state is not None:
                    kept[batch.number] = state

            self.workers.run(ask, [(batch,) for batch in shard.batches])
        self._kept = kept
        return kept

    def _begin(self, weights: Array, kept: dict[int, Any] | None = None) -> Any:
        """Plain transitions and the rows of all keys under these weights; those of keys are still
        there where nothing came after `forward`."""
        if kept is None or self._kept is not kept:
            for name, part in self.parts.items():
                part.begin(weights[self.parameters.slices[name]], self.workers)
        self._kept = None
        return self.expectations.transitions(weights)

    def _taken(self, batch: Batch) -> dict[str, Array]:
        """The rows of a batch."""
        taken = {}
        for name, at in batch.rows.items():
            rows = self._rows[name]
            if isinstance(at, slice):
                taken[name] = rows[at]
            else:
                taken[name] = np.empty((len(at), rows.shape[1]), rows.dtype)
                rows.take(at, axis=0, out=taken[name], mode="clip")
        return taken

    def _score(self, weights: Array, shard: Shard, below: Array | None) -> None:
        """Fill the rows of a shard with scores."""

        def score(name: str, a: int, b: int) -> None:
            first = shard.rows[name][0]
            w = weights[self.parameters.slices[name]]
            self.parts[name].score(w, a, b, self._rows[name][a - first : b - first], below)

        self.workers.run(
            score, [(name, *piece[name]) for name in self.parts for piece in shard.pieces]
        )

    def _again(
        self, weights: Array, shard: Shard, batch: Batch, below: Array | None
    ) -> Callable[[Array], dict[str, Array]]:
        """A function that scores some rows of a batch once more."""

        def again(places: Array) -> dict[str, Array]:
            scored = {}
            for name, at in batch.rows.items():
                part, w = self.parts[name], weights[self.parameters.slices[name]]
                scored[name], row = (
                    np.empty((len(places), part.width), self.dtype),
                    shard.rows[name][0] + at[places],
                )
                ends = [0, *(1 + np.flatnonzero(np.diff(row) != 1)).tolist(), len(row)]
                # rows one behind the other, of a sentence all as a rule
                for a, b in pairwise(ends):
                    part.score(w, int(row[a]), int(row[b - 1]) + 1, scored[name][a:b], below)
            return scored

        return again


class WithEntityRate:
    """A likelihood that passes P(O at t), and a term that keeps the expected share q of tokens in
    entities near r (Mann & McCallum 2007, label regularization; Effland & Collins 2021, expected
    entity ratio):

        loss(weights) + T (r log r/q + (1 - r) log (1 - r)/(1 - q))
        q = sum_t v_t (1 - P(O at t)) / T

    with v_t how often the sentence of t counts, T their sum.  Derivatives by P(O at t) come as from
    a layer above."""

    def __init__(self, likelihood: LogLikelihood, rate: float, often: Array):
        self.likelihood, self.rate, self.often = likelihood, rate, often  # often [T]

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill `gradient` and return the loss with the term."""
        outside, back = self.likelihood.forward(weights)
        assert outside is not None
        r, T = self.rate, float(self.often.sum()) or 1.0
        # by BLAS, threads change bits
        q = min(max(1 - float(np.sum(self.often * outside)) / T, NEVER), 1 - NEVER)
        loss, gradient[:], _ = back((r / q - (1 - r) / (1 - q)) * self.often, 1.0)
        return loss + T * (r * math.log(r / q) + (1 - r) * math.log((1 - r) / (1 - q)))

    def precise(self) -> "WithEntityRate | None":
        """The same in float64; None where this is in float64."""
        precise = self.likelihood.precise()
        return None if precise is None else WithEntityRate(precise, self.rate, self.often)
