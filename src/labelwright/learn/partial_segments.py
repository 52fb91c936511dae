"""Training a SemiCRF on labels that are known in part, or count more or less than others.

A segmentation agrees with the data where the labels it is written as are all allowed.  One sentence at a time: the
graph of its segments is summed over twice, with all arcs and with those that agree.  These are a small graph of their
own where labels are known."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import CorpusError
from labelwright.kernels import segments as kernels
from labelwright.learn.expectations import Rows
from labelwright.learn.segments import SegmentAssembly, SegmentExpectations
from labelwright.scoring.assembly import Plain
from labelwright.structures import dag
from labelwright.structures.passing import Candidates
from labelwright.structures.segments import Arcs, SegmentSpace, arcs_for, permitted_arcs, wrong_labels
from labelwright.structures.supervision import Supervision

Array = NDArray[Any]


class Said(NamedTuple):
    """What is said of the segments of one sentence."""

    right: Array  # the arcs that agree with the labels, in order
    cost: Array | None  # [A]  added to the scores of all arcs
    weight: float  # how often the sentence counts


class PartialSegmentExpectations(SegmentExpectations):
    """As SegmentExpectations, where labels [T] may be sets and have weights."""

    def __init__(
        self,
        assembly: SegmentAssembly,
        codes: Array,
        supervision: Supervision,
        offsets: Array,
        candidates: Candidates | None = None,
    ):
        super().__init__(assembly, np.empty(0, np.int32), offsets, candidates)
        space = assembly.space
        self._arcs = arcs_for(space, int(np.diff(offsets).max()))
        allowed = supervision.allowed(len(space.labels))
        self._said = list[Said]()
        for n, (a, b) in enumerate(pairwise(offsets.tolist())):
            arcs = self._arcs.of(b - a, space)
            said = _said(space, arcs, allowed[codes[a:b]], supervision, n, slice(a, b))
            if _agreeing(arcs, np.zeros(len(arcs.first)), said).log_z == -np.inf:
                raise CorpusError(
                    f"training labels: sentence {n}: no segments of up to {space.max_length} tokens have labels within "
                    "its sets of labels; use a larger max_length, or mend the labels"
                )
            self._said.append(said)

    def _count(
        self, rows: Rows, transitions: Plain, offsets: Array, gold: Array, share: float, gains: Array
    ) -> tuple[float, Array]:
        space, first = self.assembly.space, int(np.searchsorted(self.offsets, offsets[0]))
        shape = space.shape
        scores = transitions.arc.reshape(space.n_types + 1, space.n_types + 1)
        counts, loss, row = np.zeros_like(scores), 0.0, 0
        inner = np.empty((int(np.diff(offsets).max()) + 1, space.n_long))
        nothing, no_transition = np.zeros_like(rows["segment"]), np.zeros_like(scores)
        observing = len(gold) == 0  # else only probabilities are asked for
        for n, (a, b) in enumerate(pairwise((offsets - offsets[0]).tolist()), first):
            arcs = self._arcs.of(b - a, space)
            score, gain = np.empty((2, len(arcs.first)))
            kernels.arc_scores(rows["state"], a, rows["segment"], row, scores, *shape, b - a, inner, score)
            said = self._said[n] if observing else None
            lost, p = _difference(arcs, score, said)
            weight = share * (1.0 if said is None else said.weight)
            loss += weight * lost
            p *= weight
            if len(gains):
                kernels.arc_scores(gains, a, nothing, row, no_transition, *shape, b - a, inner, gain)
                p += dag.covariance(arcs.dag, score, gain)[1]  # what is passed has no costs
            kernels.arc_counts(p, *shape, b - a, inner, rows["state"], a, rows["segment"], row, counts)
            row += kernels.n_rows(space.max_length, b - a)
        return loss, counts


def _said(space: SegmentSpace, arcs: Arcs, allowed: Array, supervision: Supervision, n: int, at: slice) -> Said:
    """What is said of sentence n, whose tokens have the allowed labels [T, labels]."""
    of_sentences, of_tokens = supervision.of_sentences, supervision.of_tokens
    cost = None
    if of_tokens is not None:
        with np.errstate(divide="ignore"):
            cost = wrong_labels(space, arcs, allowed, np.maximum(np.log(of_tokens[at]), -1e30))
    right = np.flatnonzero(permitted_arcs(space, arcs, allowed)).astype(np.int32)
    return Said(right, cost, 1.0 if of_sentences is None else float(of_sentences[n]))


def _free(score: Array, said: Said | None) -> Array:
    """The scores of all arcs, with the costs of wrong labels."""
    return score if said is None or said.cost is None else score + said.cost


def _difference(arcs: Arcs, score: Array, said: Said | None) -> tuple[float, Array]:
    """log Z of all segmentations less that of those which agree, and the difference of the probabilities of arcs."""
    every = dag.sums(arcs.dag, _free(score, said))
    if said is None:
        return every.log_z, every.arcs
    agreeing = _agreeing(arcs, score, said)
    every.arcs[said.right] -= agreeing.arcs
    return every.log_z - agreeing.log_z, every.arcs


def _agreeing(arcs: Arcs, score: Array, said: Said) -> dag.Sums:
    """The sums over the segmentations that agree, on the graph of their arcs alone."""
    graph, right = arcs.dag, said.right
    part = dag.Dag(graph.source[right], graph.target[right], graph.n_nodes, graph.sources, graph.sinks)
    return dag.sums(part, score[right])
