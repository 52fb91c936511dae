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
from labelwright.learn.expectations import Counts, Expectations
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.scoring.parameters import Cells, Parameters
from labelwright.structures.passing import Candidates
from labelwright.structures.states import StateSpace

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
    offsets: Array  # [N+1]  rows of each sentence: those of its tokens, or of its segments
    slots: Array | None  # where the value of each of the tokens' own features stands in Passing.below; -1: it is 1


class Passing(NamedTuple):
    """What a layer of a cascade has to do with its neighbours."""

    below: Array  # what the layer below passes, by slots (Candidates), then values that never change; the last is 1
    owed: Array | None = None  # [slots]  to be filled: the derivative of the loss by what the layer below passes
    pull: Array | None = None  # the derivative of the losses of higher layers by what this layer passes
    share: float = 1.0  # how much this layer's own loss counts


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class LogLikelihood:
    """loss(weights) = sum_n log Z(x_n) - log Z(x_n restricted to the states of y_n), and its gradient:
    expected counts of all paths minus those of the paths of y_n.

    As a layer of a cascade it has features whose values the layer below gives (`slots` says which), passes on what
    `candidates` name (`marginals`), and takes back what higher layers would rather have been passed (`Passing`)."""

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
        *,
        expectations: Any = None,
        row_offsets: dict[str, Array] | None = None,
        slots: dict[str, Array] | None = None,
        candidates: Candidates | None = None,
    ):
        self.offsets, self.parameters, self.workers, self.dtype = offsets, parameters, workers, dtype
        self.expectations = expectations or Expectations(space, parameters, gold, offsets, dtype, candidates)
        self.candidates = candidates
        assembly, size = self.expectations.assembly, np.dtype(dtype).itemsize
        features = Turner(n_features)
        # Slots travel as values; features that leave their keys on the way come with the value 1.
        places = assembly.layers({k: layers[k]._replace(token_value=v + 2.0) for k, v in (slots or {}).items()})
        self.layers = {}
        for name, incidence in assembly.layers(layers).items():
            keys = self._split(keys_of_features(incidence, features))
            pieces = even_ranges(incidence.key_ptr, PIECES)
            own = places[name].token_value.astype(np.int64) - 2 if name in places else None
            rows = (row_offsets or {}).get(name, offsets)
            cells, width = assembly.cells[name], assembly.row_width[name]
            self.layers[name] = _LayerData(incidence, cells, keys, pieces, width, rows, own)
        row = sum(layer.width for layer in self.layers.values()) * size
        chunk = ARC_BYTES // (assembly.token_size * size) if assembly.token_size else CHUNK_BYTES // row
        keys_of = {name: Turner(layer.incidence.n_keys) for name, layer in self.layers.items()}
        self.shards = []
        for begin, end in sentence_ranges(offsets, max(SHARD_TOKENS, SHARD_BYTES // row)):
            chunks = [(begin + a, begin + b) for a, b in sentence_ranges(offsets[begin : end + 1], max(1, chunk))]
            pooled, turned = {}, {}
            for name, layer in self.layers.items():
                t0, t1 = layer.offsets[begin].item(), layer.offsets[end].item()
                pooled[name] = self._split(tokens_of_keys(layer.incidence, keys_of[name], t0, t1))
                valued = layer.incidence
                if layer.slots is not None:
                    valued = valued._replace(token_value=layer.slots)
                turned[name] = self._split(tokens_of_features(valued, features, t0, t1), layer.slots is not None)
            self.shards.append(_Shard(begin, end, chunks, pooled, turned))
        longest = {
            name: max(int(layer.offsets[s.end] - layer.offsets[s.begin]) for s in self.shards)
            for name, layer in self.layers.items()
        }
        self._rows = {k: np.empty((longest[k], v.width), dtype) for k, v in self.layers.items()}
        self._tables = {k: np.empty((v.incidence.n_keys, v.width), dtype) for k, v in self.layers.items()}
        self._sums = {k: np.empty_like(v) for k, v in self._tables.items()}

    def __call__(self, weights: Array, gradient: Array, passing: Passing | None = None) -> float:
        """Fill `gradient` (and what `passing` asks for) and return the loss."""
        parts = self.parameters.slices
        moves = self._begin(weights)
        for name in self.layers:
            self._sums[name][:] = 0
        gradient[:] = 0
        loss, nodes, arcs = 0.0, np.zeros(len(moves.plain.node)), np.zeros(len(moves.plain.arc))
        for shard in self.shards:
            values = self._values(shard, passing)
            for first in range(0, len(shard.chunks), BATCH):
                tasks = [(shard, a, b, weights, moves, passing) for a, b in shard.chunks[first : first + BATCH]]
                for found in self.workers.run(self._chunk, tasks):
                    loss += found.loss
                    nodes += found.nodes
                    arcs += found.arcs
            adding: list[tuple[Any, ...]] = []
            for name, layer in self.layers.items():
                rows, sums, t = self._rows[name], self._sums[name], shard.pooled[name].turned
                for a, b in shard.pooled[name].pieces:
                    adding.append((scoring.pool_keys, t.item, t.ptr, t.owner, rows, sums, a, b))
                adding += self._collecting(layer, values[name], rows, gradient[parts[name]])
            self.workers.run(_call, adding)
        for name, layer in self.layers.items():
            self.workers.run(_call, self._collecting(layer, layer.keys, self._sums[name], gradient[parts[name]]))
        self.expectations.assembly.moved(nodes, arcs, gradient)
        return loss

    def marginals(self, weights: Array, below: Array | None = None) -> Array:
        """What this layer passes on: the probabilities of its candidates, by slots."""
        assert self.candidates is not None
        moves = self._begin(weights)
        passed = np.empty(self.candidates.n_slots)

        def chunk(begin: int, end: int) -> None:
            rows = {name: np.empty((b - a, w), self.dtype) for name, a, b, w in self._ranges(begin, end)}
            self._score(weights, begin, end, rows, below)
            offsets = self.offsets[begin : end + 1]
            self.expectations.marginals(rows, moves, offsets, self._again(weights, begin, below), passed)

        self.workers.run(chunk, [chunk for shard in self.shards for chunk in shard.chunks])
        return passed

    def _begin(self, weights: Array) -> Any:
        """Plain moves and the rows of all keys under these weights."""
        for name, layer in self.layers.items():
            self._score_keys(layer, weights[self.parameters.slices[name]], self._tables[name])
        return self.expectations.moves(weights)

    def _ranges(self, begin: int, end: int) -> list[tuple[str, int, int, int]]:
        """The rows of sentences begin:end in every layer, and their width."""
        return [
            (name, int(layer.offsets[begin]), int(layer.offsets[end]), layer.width)
            for name, layer in self.layers.items()
        ]

    def _values(self, shard: _Shard, passing: Passing | None) -> dict[str, _Split]:
        """The tokens of features, with the values that the layer below passes now."""
        found = dict(shard.own)
        for name, split in shard.own.items():
            if self.layers[name].slots is not None:
                assert passing is not None
                value = passing.below[split.turned.value].astype(self.dtype)
                found[name] = split._replace(turned=split.turned._replace(value=value))
        return found

    def _split(self, turned: Turned, slots: bool = False) -> _Split:
        value = turned.value if slots else turned.value.astype(self.dtype)
        return _Split(turned._replace(value=value), even_ranges(turned.ptr, PIECES))

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

    def _chunk(
        self, shard: _Shard, begin: int, end: int, weights: Array, moves: Any, passing: Passing | None
    ) -> Counts:
        """Scores and posteriors of sentences begin:end: leaves expected minus observed counts in the score rows."""
        rows = {}
        for name, a, b, _ in self._ranges(begin, end):
            base = int(self.layers[name].offsets[shard.begin])
            rows[name] = self._rows[name][a - base : b - base]
        below, owed, pull, share = passing or Passing(np.ones(1))
        self._score(weights, begin, end, rows, below)
        offsets = self.offsets[begin : end + 1]
        counts: Counts = self.expectations(rows, moves, offsets, self._again(weights, begin, below), share, pull)
        if owed is not None:
            for name, a, b, _ in self._ranges(begin, end):
                layer, i, c = self.layers[name], self.layers[name].incidence, self.layers[name].cells
                if layer.slots is not None:
                    own = i.token_ptr, i.token_feature, layer.slots
                    w = weights[self.parameters.slices[name]]
                    scoring.pull_values(w, c.ptr, c.column, *own, a, b, rows[name], owed)
        return counts

    def _again(self, weights: Array, begin: int, below: Array | None) -> Callable[[int], dict[str, Array]]:
        """A function that scores the n-th sentence from `begin` once more."""

        def again(n: int) -> dict[str, Array]:
            where = self._ranges(begin + n, begin + n + 1)
            found = {name: np.empty((b - a, width), self.dtype) for name, a, b, width in where}
            self._score(weights, begin + n, begin + n + 1, found, below)
            return found

        return again

    def _score(self, weights: Array, begin: int, end: int, rows: dict[str, Array], below: Array | None) -> None:
        """Fill the rows of sentences begin:end with scores."""
        for name, a, b, _ in self._ranges(begin, end):
            layer = self.layers[name]
            i, c = layer.incidence, layer.cells
            first, last = i.token_ptr[a], i.token_ptr[b]
            if layer.slots is None:
                value = i.token_value[first:last].astype(self.dtype, copy=False)
            else:
                assert below is not None
                value = below[layer.slots[first:last]].astype(self.dtype)
            rows[name][:] = 0
            w = weights[self.parameters.slices[name]]
            own = i.token_ptr[a : b + 1] - first, i.token_feature[first:last], value
            scoring.score_tokens(w, c.ptr, c.column, i.keys[a:b], self._tables[name], *own, 0, b - a, rows[name])
