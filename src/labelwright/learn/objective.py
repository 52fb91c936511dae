"""The training objective of CRFs, latent or not: minus log-likelihood and its gradient, over threads.

One evaluation:  weights -> rows of the keys -> scores of the tokens -> posteriors -> minus observed counts
                 -> sums per key -> sums per feature -> gradient.
Every step owns what it writes, and pieces of work depend on the data alone: any number of threads gives the same bits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import (
    Incidence,
    Turned,
    Turner,
    keys_of_features,
    tokens_of_features,
    tokens_of_keys,
)
from labelwright.kernels import scoring
from labelwright.learn.expectations import Counts, Expectations, Moves
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.parameters import Cells, Parameters
from labelwright.states import StateSpace

CHUNK_BYTES = 1 << 19  # score rows of one piece of work: they should stay in the second-level cache
SHARD_BYTES = 1 << 22  # score rows held at once: they should stay in the last-level cache until pooled
ARC_BYTES = 1 << 22  # the same, where every token has all its nodes or arcs in memory
SHARD_TOKENS = 1000  # at least, however wide their rows are
PIECES = 8  # ranges of keys or features per step
BATCH = 16  # pieces of work whose counts of all arcs are in memory together

Array = NDArray[Any]


class _Split(NamedTuple):
    """A turned incidence and the ranges of its items that make equal pieces of work."""

    turned: Turned
    pieces: list[tuple[int, int]]


class _Shard(NamedTuple):
    """A run of sentences whose score rows are in memory together."""

    begin: int  # sentences begin:end
    end: int
    chunks: list[tuple[int, int]]  # sentences of each piece of work
    pooled: dict[str, _Split]  # layer -> tokens of keys
    own: dict[str, _Split]  # layer -> tokens of features


class _LayerData(NamedTuple):
    incidence: Incidence
    cells: Cells  # columns in padded rows
    keys: _Split  # keys of features
    pieces: list[tuple[int, int]]  # ranges of keys
    width: int


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class LogLikelihood:
    """loss(weights) = sum_n log Z(x_n) - log Z(x_n restricted to the states of y_n), and its gradient:
    expected counts of all paths minus those of the paths of y_n."""

    def __init__(
        self,
        layers: dict[str, Incidence],
        n_features: int,
        offsets: NDArray[np.int64],
        gold: NDArray[np.int32],
        space: StateSpace,
        parameters: Parameters,
        workers: Workers,
        dtype: Any = np.float32,
    ):
        self.offsets, self.parameters, self.workers, self.dtype = offsets, parameters, workers, dtype
        self.expectations = Expectations(space, parameters, gold, offsets, dtype)
        assembly, size = self.expectations.assembly, np.dtype(dtype).itemsize
        features = Turner(n_features)
        self.layers = {}
        for name, incidence in assembly.layers(layers).items():
            keys = self._split(keys_of_features(incidence, features))
            pieces = even_ranges(incidence.key_ptr, PIECES)
            self.layers[name] = _LayerData(incidence, assembly.cells[name], keys, pieces, assembly.row_width[name])
        row = sum(layer.width for layer in self.layers.values()) * size
        chunk = ARC_BYTES // (assembly.token_size * size) if assembly.token_size else CHUNK_BYTES // row
        keys_of = {name: Turner(layer.incidence.n_keys) for name, layer in self.layers.items()}
        self.shards = []
        for begin, end in sentence_ranges(offsets, max(SHARD_TOKENS, SHARD_BYTES // row)):
            chunks = [(begin + a, begin + b) for a, b in sentence_ranges(offsets[begin : end + 1], max(1, chunk))]
            t0, t1 = int(offsets[begin]), int(offsets[end])
            pooled = {k: self._split(tokens_of_keys(v.incidence, keys_of[k], t0, t1)) for k, v in self.layers.items()}
            own = {k: self._split(tokens_of_features(v.incidence, features, t0, t1)) for k, v in self.layers.items()}
            self.shards.append(_Shard(begin, end, chunks, pooled, own))
        longest = max(int(offsets[s.end] - offsets[s.begin]) for s in self.shards)
        self._rows = {k: np.empty((longest, v.width), dtype) for k, v in self.layers.items()}
        self._tables = {k: np.empty((v.incidence.n_keys, v.width), dtype) for k, v in self.layers.items()}
        self._sums = {k: np.empty_like(v) for k, v in self._tables.items()}

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill `gradient` and return the loss."""
        parts = self.parameters.slices
        moves = self.expectations.moves(weights)
        for name, layer in self.layers.items():
            self._score_keys(layer, weights[parts[name]], self._tables[name])
            self._sums[name][:] = 0
        gradient[:] = 0
        loss, nodes, arcs = 0.0, np.zeros(len(moves.plain.node)), np.zeros(len(moves.plain.arc))
        for shard in self.shards:
            for first in range(0, len(shard.chunks), BATCH):
                tasks = [(shard, a, b, weights, moves) for a, b in shard.chunks[first : first + BATCH]]
                for found in self.workers.run(self._chunk, tasks):
                    loss += found.loss
                    nodes += found.nodes
                    arcs += found.arcs
            adding: list[tuple[Any, ...]] = []
            for name, layer in self.layers.items():
                rows, sums, t = self._rows[name], self._sums[name], shard.pooled[name].turned
                for a, b in shard.pooled[name].pieces:
                    adding.append((scoring.pool_keys, t.item, t.ptr, t.owner, rows, sums, a, b))
                adding += self._collecting(layer, shard.own[name], rows, gradient[parts[name]])
            self.workers.run(_call, adding)
        for name, layer in self.layers.items():
            self.workers.run(_call, self._collecting(layer, layer.keys, self._sums[name], gradient[parts[name]]))
        self.expectations.assembly.moved(nodes, arcs, gradient)
        return loss

    def _split(self, turned: Turned) -> _Split:
        return _Split(turned._replace(value=turned.value.astype(self.dtype)), even_ranges(turned.ptr, PIECES))

    def _score_keys(self, layer: _LayerData, weights: Array, table: Array) -> None:
        i, c = layer.incidence, layer.cells
        no_values = np.empty(0, self.dtype)
        tasks = [(weights, c.ptr, c.column, i.key_ptr, i.key_feature, no_values, table, a, b) for a, b in layer.pieces]
        self.workers.run(scoring.score_keys, tasks)

    def _collecting(self, layer: _LayerData, split: _Split, rows: Array, gradient: Array) -> list[tuple[Any, ...]]:
        """Pieces of work that add what features owe to `rows` to their part of the gradient."""
        t, c = split.turned, layer.cells
        return [
            (scoring.collect, t.item, t.ptr, t.owner, t.value, rows, c.ptr, c.column, gradient, a, b)
            for a, b in split.pieces
        ]

    def _chunk(self, shard: _Shard, begin: int, end: int, weights: Array, moves: Moves) -> Counts:
        """Scores and posteriors of sentences begin:end: leaves expected minus observed counts in the score rows."""
        offsets = self.offsets[begin : end + 1]
        t0, t1 = int(offsets[0]), int(offsets[-1])
        base = int(self.offsets[shard.begin])
        rows = {name: table[t0 - base : t1 - base] for name, table in self._rows.items()}
        for name, into in rows.items():
            self._score_tokens(name, weights, t0, t1, into)

        def again(a: int, b: int) -> dict[str, Array]:
            """Scores of tokens a:b once more."""
            found = {name: np.empty((b - a, layer.width), self.dtype) for name, layer in self.layers.items()}
            for name, into in found.items():
                self._score_tokens(name, weights, a, b, into)
            return found

        return self.expectations(rows, moves, offsets, again)

    def _score_tokens(self, name: str, weights: Array, t0: int, t1: int, rows: Array) -> None:
        layer = self.layers[name]
        i, c = layer.incidence, layer.cells
        rows[:] = 0
        value = i.token_value.astype(self.dtype, copy=False)
        w = weights[self.parameters.slices[name]]
        scoring.score_tokens(
            w, c.ptr, c.column, i.keys, self._tables[name], i.token_ptr, i.token_feature, value, t0, t1, rows
        )
