"""CRFs with many labels: a zero-order model leaves each token some candidates, and the likelihood
sums over these.

The zero-order model is a maximum-entropy classifier of single tokens.  It has the state cells of
the CRF and learns by a few passes of AdaGrad.  Every training token gets its candidates from a
model that has not seen its sentence, so that they are like those of new text; the cut-off is the
smallest that keeps the wanted share of the gold labels.

One evaluation of the likelihood:  weights -> scores of slots -> forward-backward over candidates ->
expected minus observed counts of slots and transitions -> gradient, cell by cell.  Sentences are
cut into pieces that depend on the data alone, and every sum is made by one thread in a fixed order:
any number of threads gives the same bits."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.features.incidence import Incidence, invert
from labelwright.kernels import candidates as kernels
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.scoring.candidate_scores import hits_of, picked, with_ends
from labelwright.scoring.parameters import Cells, Parameters, Pruning
from labelwright.structures import dag
from labelwright.structures.candidates import LabelLists, chart, pieces_between
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
FOLDS = 3
PASSES = 3
RATE = 1.0  # of AdaGrad; divided by the number of the pass
DAMPING = 5.0  # added to the sums of squares: small steps for rare features, against overfitting
LEAST = 0.02  # tokens whose label is more probable than 1 - LEAST teach nothing more,
SMALLEST = 1e-4  # nor do other labels that are less probable than that
# of the histogram of distances between labels and the best of their token, in nats
WIDTH, BINS = 0.05, 800
PRIOR = 1.0  # times the scores of the zero-order model are part of those of the CRF
MOST_CANDIDATES = 64  # of one token
# of all tokens: a smaller share of gold labels is kept where it would need more
MEAN_CANDIDATES = 16.0
PIECE_TOKENS = 4096
PIECES = 16  # of the gradient
GROUPS = 8  # of sentences, each with counts of its own


class Pruned(NamedTuple):
    """What pruning made of the training data."""

    pruning: Pruning
    lists: LabelLists  # the candidates of the training tokens, gold labels among them
    scores: Array  # [slots] float32  of these, by models that have not seen their sentence
    lost: Array  # [T] bool  tokens whose gold label was pruned: it is their only candidate


class _Run(NamedTuple):
    """The training data of the zero-order model."""

    features: Incidence
    cells: Cells
    gold: Array
    offsets: Array
    n_labels: int
    seed: int

    def tokens(self, sentences: Array) -> Array:
        """The tokens of these sentences, one sentence behind the other."""
        return runs_of(self.offsets[sentences], np.diff(self.offsets)[sentences])[1]

    def trained(self, sentences: Array) -> tuple[Array, Array]:
        """The weights and the biases of labels after some passes over shuffled sentences."""
        weights = np.zeros(len(self.cells.column), np.float32)
        frequency = np.bincount(self.gold[self.tokens(sentences)], minlength=self.n_labels)
        bias = np.log(frequency + 0.1).astype(np.float32)
        squares = np.full_like(weights, DAMPING)
        bias_squares = np.full_like(bias, DAMPING)
        row = np.empty((1, self.n_labels), np.float32)
        data = self.features, self.cells.ptr, self.cells.column, self.gold
        for done in range(PASSES):
            order = np.random.default_rng([self.seed, done]).permutation(len(sentences))
            steps = self.tokens(sentences[order]), RATE / (1 + done), LEAST, SMALLEST
            kernels.zero_order_pass(*data, *steps, weights, squares, bias, bias_squares, row)
        return weights, bias

    def distances(self, model: tuple[Array, Array], tokens: Array) -> tuple[Array, Array, Array]:
        """How far the gold labels of tokens are below the best, how many labels are above them, and
        the histogram of the distances of all labels."""
        row, distance = np.empty((1, self.n_labels), np.float32), np.empty(len(tokens))
        rank, counts = np.empty(len(tokens), np.int64), np.zeros(BINS, np.int64)
        data = self.features, self.cells.ptr, self.cells.column, *model, self.gold, tokens
        kernels.gold_distances(*data, row, distance, rank, WIDTH, counts)
        return distance, rank, counts


def learn_pruning(
    features: Incidence,
    cells: Cells,
    gold: Array,
    offsets: Array,
    n_labels: int,
    share: float,
    seed: int,
    workers: Workers,
) -> Pruned:
    """Train the zero-order model, learn its cut-off for this share of gold labels, and prune the
    training data."""
    run = _Run(features, cells, gold, offsets, n_labels, seed)
    N = len(offsets) - 1
    every = np.arange(N)
    fold = (
        np.random.default_rng([seed, FOLDS]).integers(0, FOLDS, N)
        if N >= 2 * FOLDS
        else np.full(N, -1)
    )
    used = np.unique(fold[fold >= 0])
    *held_out, final = workers.run(run.trained, [*((every[fold != k],) for k in used), (every,)])
    tests = [run.tokens(every[fold == k]) for k in used]
    if not held_out:  # too few sentences to hold any out
        held_out, tests = [final], [run.tokens(every)]
    cutoff, kept = _cutoff(
        workers.run(run.distances, list(zip(held_out, tests, strict=True))), share
    )
    pruning = Pruning(*final, cutoff, min(MOST_CANDIDATES, n_labels), kept, PRIOR)
    parts = [
        picked(features, cells, pruning._replace(weights=w, bias=bias), t, workers)
        for (w, bias), t in zip(held_out, tests, strict=True)
    ]
    return Pruned(pruning, *_with_gold(*_in_order(parts, tests), gold))


def _cutoff(measured: list[tuple[Array, Array, Array]], share: float) -> tuple[float, float]:
    """The smallest cut-off that keeps this share of the gold labels, and the share that is kept
    with it."""
    distance, rank = (
        np.concatenate([m[0] for m in measured]),
        np.concatenate([m[1] for m in measured]),
    )
    mean = np.cumsum(sum(m[2] for m in measured)) / len(distance)  # labels per token up to each bin
    enough = np.sort(distance)[min(len(distance) - 1, int(np.ceil(share * len(distance))) - 1)]
    affordable = WIDTH * max(1, int(np.searchsorted(mean, MEAN_CANDIDATES, side="right")))
    cutoff = float(min(enough + 1e-3, affordable))
    return cutoff, float(((distance <= cutoff) & (rank < MOST_CANDIDATES)).mean())


def _in_order(
    parts: list[tuple[LabelLists, Array]], tokens: list[Array]
) -> tuple[LabelLists, Array]:
    """The candidates of parts of the tokens and their scores, put into the order of the tokens."""
    token = np.concatenate(tokens)
    sizes = np.concatenate([np.diff(lists.ptr) for lists, _ in parts])
    label, scores = (
        np.concatenate([lists.label for lists, _ in parts]),
        np.concatenate([scores for _, scores in parts]),
    )
    order = np.argsort(np.repeat(token, sizes), kind="stable")
    return LabelLists(offsets_from(sizes[np.argsort(token)]), label[order]), scores[order]


def _with_gold(lists: LabelLists, scores: Array, gold: Array) -> tuple[LabelLists, Array, Array]:
    """The same with the gold label as the only candidate of tokens that have lost it; and which
    tokens these are."""
    lost = lists.places_of(gold) < 0
    sizes = np.diff(lists.ptr)
    kept = ~np.repeat(lost, sizes)
    sizes = np.where(lost, 1, sizes)
    alone = np.repeat(lost, sizes)
    label, score = np.empty(len(alone), np.int32), np.zeros(len(alone), np.float32)
    label[alone], label[~alone], score[~alone] = gold[lost], lists.label[kept], scores[kept]
    return LabelLists(offsets_from(sizes), label), score, lost


class PrunedLikelihood:
    """loss(weights) = sum_n log Z(x_n) - score(x_n, y_n), where Z sums over the candidates, and its
    gradient.

    prior : [slots]  what the zero-order model adds to the scores of slots
    lost : [T]  tokens whose only candidate is their gold label: they cut their sentence into
        pieces, and teach nothing
    """

    def __init__(
        self,
        features: Incidence,
        offsets: Array,
        gold: Array,
        parameters: Parameters,
        lists: LabelLists,
        workers: Workers,
        space: StateSpace,
        prior: Array,
        lost: Array,
    ):
        self.parameters, self.workers, self.prior = parameters, workers, prior
        token, T = np.repeat(np.arange(len(gold)), np.diff(lists.ptr)), len(gold)
        begins, ends = np.zeros((2, T), np.bool_)
        begins[offsets[:-1]] = ends[offsets[1:] - 1] = True
        shut = (begins[token] & ~space.start[lists.label]) | (ends[token] & ~space.end[lists.label])
        self.shut = np.flatnonzero(shut)  # slots of labels that may not begin or end a sentence
        self.offsets = offsets = pieces_between(offsets, lost)
        self.chart = chart(
            lists, offsets, parameters.sparse, None if space.arc.all() else space.arc
        )
        self.hits = hits_of(features, parameters.cells["state"], lists, workers)
        n = len(parameters.cells["state"].column)
        self._cell_ptr, self._cell_slot, entries = invert(self.hits.ptr, self.hits.cell, n)
        self._cell_value = self.hits.value[entries] if len(self.hits.value) else self.hits.value
        self._cell_pieces = even_ranges(self._cell_ptr, PIECES)
        pieces = sentence_ranges(offsets, PIECE_TOKENS)
        cuts = np.linspace(0, len(pieces), GROUPS + 1).astype(int).tolist()
        # one thread sums the counts of each
        self.groups = [pieces[a:b] for a, b in itertools.pairwise(cuts) if a < b]
        self.gold_slot = lists.places_of(gold)
        within, later = self.gold_slot - lists.ptr[:-1], np.ones(T, np.bool_)
        later[offsets[:-1]] = False
        t = np.flatnonzero(later)
        pair = self.chart.pair_ptr[t] + within[t - 1] * np.diff(lists.ptr)[t] + within[t]
        self.gold_pairs = np.bincount(
            self.chart.place[pair], minlength=len(parameters.sparse.second) + 2
        )

    def __call__(self, weights: Array, gradient: Array) -> float:
        parts = self.parameters.slices
        slots = self._slot_scores(weights[parts["state"]]) + self.prior
        pairs = with_ends(weights[parts["transitions"]])
        score = float(slots[self.gold_slot].sum()) + float(self.gold_pairs[:-1] @ pairs[:-1])
        slots[self.shut] = -np.inf
        by_label, counts, loss = self._sums(slots, pairs)
        gradient[parts["transitions"]] = (counts - self.gold_pairs)[:-2]
        by_label[self.gold_slot] -= 1.0
        cells = self._cell_ptr, self._cell_slot, self._cell_value, by_label
        into = gradient[parts["state"]]
        self.workers.run(kernels.collect, [(*cells, a, b, into) for a, b in self._cell_pieces])
        return loss - score

    def precise(self) -> None:
        """The sums are in float64 already."""

    def _slot_scores(self, state: Array) -> Array:
        """The sums of the weights of every slot."""
        ptr = self.chart.lists.ptr
        slots = np.empty(len(self.chart.lists.label))
        pieces = [
            (int(ptr[self.offsets[a]]), int(ptr[self.offsets[b]]))
            for group in self.groups
            for a, b in group
        ]
        self.workers.run(kernels.slot_scores, [(*self.hits, state, a, b, slots) for a, b in pieces])
        return slots

    def _sums(self, slots: Array, pairs: Array) -> tuple[Array, Array, float]:
        """P(slot), the expected number of every transition, and the sum of log Z."""
        made, offsets = self.chart, self.offsets
        alpha, beta, message = np.empty((3, len(slots)))
        log_z = np.empty(len(offsets) - 1)
        with np.errstate(over="ignore"):  # such sentences are summed as graphs
            E = np.exp(pairs)

        def sums(*pieces: tuple[int, int]) -> Array:
            counts = np.zeros(len(pairs))
            for begin, end in pieces:
                where = made.lists.ptr, made.pair_ptr, slots, made.place, E, offsets, begin, end
                kernels.posteriors(*where, alpha, beta, message, log_z, counts)
                for n in (begin + np.flatnonzero(np.isnan(log_z[begin:end]))).tolist():
                    log_z[n] = self._graph_sums(n, slots, pairs, alpha, counts)
            return counts

        total = np.zeros(len(pairs))
        for counts in self.workers.run(sums, self.groups):
            total += counts
        return alpha, total, float(log_z.sum())

    def _graph_sums(self, n: int, slots: Array, pairs: Array, nodes: Array, counts: Array) -> float:
        """The same of one sentence, whatever the size of its scores; returns log Z."""
        made = self.chart
        a, b = self.offsets[n : n + 2].tolist()
        mine = slice(made.lists.ptr[a], made.lists.ptr[b])
        graph, scores = made.of(a, b).graphs(slots[mine], pairs).of(0)
        sums = dag.sums(graph, scores)
        nodes[mine] = np.bincount(graph.target - 1, sums.arcs, graph.n_nodes - 1)
        counts += np.bincount(
            made.place[made.pair_ptr[a] : made.pair_ptr[b]], sums.arcs, len(counts)
        )
        return sums.log_z
