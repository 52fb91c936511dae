"""The zero-order model that prunes labels: a maximum-entropy classifier of single tokens, and its cut-off.

It has the state cells of the CRF and learns by a few passes of AdaGrad.  Every training token gets its candidates from
a model that has not seen its sentence, so that they are like those of new text; the cut-off is the smallest that keeps
the wanted share of the gold labels of these tokens."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.engine.choice import require_compiled
from labelwright.features.incidence import Incidence
from labelwright.kernels import candidates as kernels
from labelwright.parallel import Workers
from labelwright.scoring.candidate_scores import picked
from labelwright.scoring.parameters import Cells, Pruning
from labelwright.structures.candidates import LabelLists

Array = NDArray[Any]
FOLDS = 3
PASSES = 3
RATE = 1.0  # of AdaGrad; divided by the number of the pass
DAMPING = 5.0  # added to the sums of squares: small steps for rare features, against overfitting
LEAST = 0.02  # tokens whose label is more probable than 1 - LEAST teach nothing more,
SMALLEST = 1e-4  # nor do other labels that are less probable than that
WIDTH, BINS = 0.05, 800  # of the histogram of distances between labels and the best of their token, in nats
PRIOR = 1.0  # times the scores of the zero-order model are part of those of the CRF
MOST_CANDIDATES = 64  # of one token
MEAN_CANDIDATES = 16.0  # of all tokens: a smaller share of gold labels is kept where it would need more


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
        sizes = np.diff(self.offsets)[sentences]
        ends = np.cumsum(sizes)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        tokens: Array = np.repeat(self.offsets[sentences], sizes) + within
        return tokens

    def trained(self, sentences: Array) -> tuple[Array, Array]:
        """The weights and the biases of labels after some passes over shuffled sentences."""
        weights = np.zeros(len(self.cells.column), np.float32)
        frequency = np.bincount(self.gold[self.tokens(sentences)], minlength=self.n_labels)
        bias = np.log(frequency + 0.1).astype(np.float32)
        squares, row = (np.full_like(weights, DAMPING), np.full_like(bias, DAMPING)), np.empty_like(bias)
        data = self.features, self.cells.ptr, self.cells.column, self.gold
        for done in range(PASSES):
            order = np.random.default_rng([self.seed, done]).permutation(len(sentences))
            steps = self.tokens(sentences[order]), RATE / (1 + done), LEAST, SMALLEST
            kernels.zero_order_pass(*data, *steps, weights, squares[0], bias, squares[1], row)
        return weights, bias


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
    """Train the zero-order model, learn its cut-off for this share of gold labels, and prune the training data."""
    require_compiled("training with pruned labels (prune_labels)")
    run = _Run(features, cells, gold, offsets, n_labels, seed)
    N = len(offsets) - 1
    every = np.arange(N)
    fold = np.random.default_rng([seed, FOLDS]).integers(0, FOLDS, N) if N >= 2 * FOLDS else np.full(N, -1)
    parts = [(every[fold != k],) for k in range(FOLDS) if (fold == k).any()]
    *held_out, final = workers.run(run.trained, [*parts, (every,)])
    tests = [run.tokens(every[fold == k]) for k in range(FOLDS) if (fold == k).any()]
    if not held_out:  # too few sentences to hold any out
        held_out, tests = [final], [run.tokens(every)]
    measured = workers.run(lambda model, t: _distances(run, model, t), list(zip(held_out, tests, strict=True)))
    cutoff, kept = _cutoff(measured, share)
    pruning = Pruning(*final, cutoff, min(MOST_CANDIDATES, n_labels), kept, PRIOR)
    parts_of = [
        picked(features, cells, pruning._replace(weights=w, bias=bias), t, workers)
        for (w, bias), t in zip(held_out, tests, strict=True)
    ]
    return Pruned(pruning, *_with_gold(*_in_order(parts_of, tests), gold))


def _distances(run: _Run, model: tuple[Array, Array], tokens: Array) -> tuple[Array, Array, Array]:
    """How far the gold labels of tokens are below the best, how many labels are above them, and the histogram of the
    distances of all labels."""
    row, distance = np.empty(run.n_labels, np.float32), np.empty(len(tokens))
    rank, counts = np.empty(len(tokens), np.int64), np.zeros(BINS, np.int64)
    kernels.gold_distances(
        run.features, run.cells.ptr, run.cells.column, *model, run.gold, tokens, row, distance, rank, WIDTH, counts
    )
    return distance, rank, counts


def _cutoff(measured: list[tuple[Array, Array, Array]], share: float) -> tuple[float, float]:
    """The smallest cut-off that keeps this share of the gold labels, and the share that is kept with it."""
    distance, rank = np.concatenate([m[0] for m in measured]), np.concatenate([m[1] for m in measured])
    mean = np.cumsum(sum(m[2] for m in measured)) / len(distance)  # labels per token up to each bin
    most = MOST_CANDIDATES
    enough = np.sort(distance)[min(len(distance) - 1, int(np.ceil(share * len(distance))) - 1)]
    affordable = WIDTH * max(1, int(np.searchsorted(mean, MEAN_CANDIDATES, side="right")))
    cutoff = float(min(enough + 1e-3, affordable))
    return cutoff, float(((distance <= cutoff) & (rank < most)).mean())


def _with_gold(lists: LabelLists, scores: Array, gold: Array) -> tuple[LabelLists, Array, Array]:
    """The same with the gold label as the only candidate of tokens that have lost it; and which tokens these are."""
    lost = lists.places_of(gold) < 0
    sizes = np.diff(lists.ptr)
    kept = ~np.repeat(lost, sizes)
    sizes = np.where(lost, 1, sizes)
    alone = np.repeat(lost, sizes)
    label, score = np.empty(len(alone), np.int32), np.zeros(len(alone), np.float32)
    label[alone], label[~alone], score[~alone] = gold[lost], lists.label[kept], scores[kept]
    return LabelLists(offsets_from(sizes), label), score, lost


def _in_order(parts: list[tuple[LabelLists, Array]], tokens: list[Array]) -> tuple[LabelLists, Array]:
    """The candidates of parts of the tokens and their scores, put into the order of the tokens."""
    token = np.concatenate(tokens)
    sizes = np.concatenate([np.diff(lists.ptr) for lists, _ in parts])
    label, scores = np.concatenate([lists.label for lists, _ in parts]), np.concatenate([scores for _, scores in parts])
    owner = np.repeat(token, sizes)
    ptr = np.zeros(len(token) + 1, np.int64)
    np.cumsum(np.bincount(token, sizes, len(token)), out=ptr[1:])
    order = np.argsort(owner, kind="stable")
    return LabelLists(ptr, label[order]), scores[order]
