"""Expected minus observed counts of the arcs of graphs: what training a LatticeCRF makes of their
scores, and what it shares with a SemiCRF."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import dag as kernels
from labelwright.learn.batches import Batch, Shard, Sizes, pieces_of
from labelwright.learn.expectations import Counts, Rows
from labelwright.parallel import sentence_ranges
from labelwright.scoring.assembly import Plain
from labelwright.scoring.parameters import Cells, Parameters
from labelwright.structures import dag
from labelwright.structures.feature_lattice import ArcGraphs
from labelwright.structures.passing import Candidates

Array = NDArray[Any]
# of the row of an arc, which has one score: above learn.rows.DENSE, so that no weight gets a row
ROW_WIDTH = 8


class GraphExpectations:
    """What all models share whose sentences are graphs: rows as they come, and plain transitions.

    starts : where the rows of each sentence begin [N+1], for each kind of rows; "state" comes
        first"""

    kept_numbers = 0  # `passed` keeps nothing for the backward function

    def __init__(
        self, assembly: Any, starts: dict[str, Array], candidates: Candidates | None = None
    ):
        self.assembly, self.starts, self.candidates = assembly, starts, candidates
        self.offsets = starts["state"]

    def precise(self) -> Any:
        return self

    def lay_out(self, sizes: Sizes) -> list[Shard]:
        """The sentences as they come; a batch has all rows of its sentences."""
        tokens = max(1, sizes.arc_numbers // self.assembly.token_size)
        of_shard = max(tokens, sizes.shard_numbers // sum(self.assembly.row_width.values()))
        shards, number = list[Shard](), 0
        for begin, end in sentence_ranges(self.offsets, of_shard):
            batches = []
            for a, b in sentence_ranges(self.offsets[begin : end + 1], tokens):
                rows = {
                    name: slice(*(x[[begin + a, begin + b]] - x[begin]).tolist())
                    for name, x in self.starts.items()
                }
                batches.append(Batch(number, rows, self.offsets[begin + a : begin + b + 1]))
                number += 1
            shards.append(
                Shard(len(shards), *pieces_of(self.starts, begin, end, self.offsets), batches)
            )
        return shards

    def transitions(self, weights: Array) -> Plain:
        plain: Plain = self.assembly.plain(weights)
        return plain

    def nothing(self, transitions: Plain) -> Counts:
        return Counts(0.0, np.empty(0), np.zeros(len(transitions.arc)))

    def observed(self, total: Counts, transitions: Plain, share: float) -> Counts:
        """The counts of all batches, which lack nothing."""
        return total


class ArcAssembly:
    """Where the scores of arcs and of pairs of labels come from: an arc has a row with one
    score."""

    def __init__(self, parameters: Parameters):
        n, self.n_labels = len(parameters.cells["state"].column), parameters.n_states
        self.parts = parameters.slices
        self.cells = {"state": Cells(np.arange(n + 1, dtype=np.int64), np.zeros(n, np.int32))}
        self.row_width = {"state": ROW_WIDTH}
        self.token_size = ROW_WIDTH

    def plain(self, weights: Array) -> Plain:
        """Scores of all pairs of labels [(L+1)^2] in float64; those with an unknown label are 0."""
        L = self.n_labels
        arc = np.zeros((L + 1, L + 1))
        arc[:L, :L] = weights[self.parts["transitions"]].reshape(L, L)
        return Plain(np.empty(0), arc.reshape(-1))

    def store_transitions(self, node: Array, arc: Array, weights: Array) -> None:
        """The adjoint of `plain`."""
        L = self.n_labels
        weights[self.parts["transitions"]] = arc.reshape(L + 1, L + 1)[:L, :L].reshape(-1)


class ArcExpectations(GraphExpectations):
    """Makes counts from the scores of the arcs of lattices.

    gold : which arcs of the graphs [E] are on the true paths
    offsets : [N+1]  arcs of each lattice
    candidates : a slot for each arc of a lattice, where their probabilities are passed to a layer
        above
    weights : [N]  of lattices, by which their losses are multiplied; 1 where there are none"""

    def __init__(
        self,
        assembly: ArcAssembly,
        graphs: ArcGraphs,
        gold: Array,
        offsets: Array,
        candidates: Candidates | None = None,
        weights: Array | None = None,
    ):
        super().__init__(assembly, {"state": offsets}, candidates)
        self.graphs, self.gold = graphs, gold
        self.dags = [graphs.dag(n) for n in range(len(graphs.n_nodes))]
        self.weights = np.ones(len(self.dags)) if weights is None else weights

    def counts(
        self,
        rows: Rows,
        transitions: Plain,
        batch: Batch,
        again: Any,
        share: float = 1.0,
        d_passed: Array | None = None,
        state: None = None,
    ) -> Counts:
        """Replace the scores of a batch by counts, `share` times; d_passed has derivatives of the
        losses of higher layers by the probabilities of arcs, and adds what the scores do to
        them."""
        loss, counts, first, begin = (
            0.0,
            list[Array](),
            int(np.searchsorted(self.offsets, batch.data[0])),
            0,
        )
        part, scores = self._scores(rows, transitions, batch)
        arc, gold = self.graphs.arc[part], self.gold[part]
        gains = None if d_passed is None else np.append(d_passed, 0.0)[arc]
        for graph, weight in zip(
            self.dags[first:], self.weights[first : first + len(batch.data) - 1], strict=False
        ):
            here = slice(begin, begin := begin + len(graph.source))
            sums = dag.sums_of(graph, scores[here])
            loss += share * weight * (sums.log_z - float(scores[here][gold[here]].sum()))
            counts.append(share * weight * (sums.arcs - gold[here]))
            if gains is not None:
                covariances, scratch = np.empty(len(sums.arcs)), np.empty((4, graph.n_nodes))
                through = graph.source, graph.target, graph.sinks, sums.arcs, gains[here]
                kernels.covariances(*through, *scratch, covariances)
                counts[-1] += covariances
        every, is_pair = np.concatenate(counts), arc < 0
        rows["state"][:] = 0.0
        rows["state"][arc[~is_pair] - batch.data[0], 0] = every[~is_pair]
        of_pairs = np.bincount(
            self.graphs.pair[part][is_pair], every[is_pair], len(transitions.arc)
        )
        return Counts(loss, np.empty(0), of_pairs)

    def passed(
        self, rows: Rows, transitions: Plain, batch: Batch, again: Any, passed: Array
    ) -> None:
        """Fill the slots of a batch with the probabilities of its arcs."""
        first, begin = int(np.searchsorted(self.offsets, batch.data[0])), 0
        part, scores = self._scores(rows, transitions, batch)
        for graph in self.dags[first : first + len(batch.data) - 1]:
            arc = self.graphs.arc[part.start + begin : part.start + begin + len(graph.source)]
            sums = dag.sums_of(graph, scores[begin : (begin := begin + len(arc))])
            passed[arc[arc >= 0]] = sums.arcs[arc >= 0]

    def _scores(self, rows: Rows, transitions: Plain, batch: Batch) -> tuple[slice, Array]:
        """Which arcs of all graphs are those of a batch, and their scores in float64."""
        first = int(np.searchsorted(self.offsets, batch.data[0]))
        part = slice(*self.graphs.ptr[[first, first + len(batch.data) - 1]].tolist())
        arc, pair = self.graphs.arc[part], self.graphs.pair[part]
        of_arcs = rows["state"][:, 0].astype(np.float64)
        return part, np.where(
            arc < 0, transitions.arc[pair], of_arcs[np.where(arc < 0, 0, arc - batch.data[0])]
        )
