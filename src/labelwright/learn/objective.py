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
from labelwright.kernels import chain, clamped, inference, scoring
from labelwright.lattice import Lattice, posterior
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.parameters import Cells, Parameters
from labelwright.states import StateSpace

CHUNK_BYTES = 1 << 19  # score rows of one piece of work: they should stay in the second-level cache
SHARD_BYTES = 1 << 22  # score rows held at once: they should stay in the last-level cache until pooled
ARC_BYTES = 1 << 22  # the same, where every token has all its arcs in memory
PIECES = 8  # ranges of keys or features per step

Array = NDArray[Any]


def padded(n: int) -> int:
    """Row length for n states: whole vector registers."""
    return -(-n // 4) * 4 if n <= 12 else -(-n // 8) * 8


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
        self.offsets, self.gold, self.space, self.parameters = offsets, gold, space, parameters
        self.workers, self.dtype = workers, dtype
        self.S, self.width = space.n_states, padded(space.n_states)
        self._exponentiate = chain.exponentiate32 if dtype == np.float32 else chain.exponentiate64
        features = Turner(n_features)
        self.layers = {}
        for name, incidence in layers.items():
            cells = parameters.cells[name]
            width = self.width
            if name == "edge":  # rows hold only arcs that have a weight, and one more column that stays 0
                used, column = np.unique(cells.column, return_inverse=True)
                self._used = (used // self.S * self.width + used % self.S).astype(np.int32)
                cells = cells._replace(column=column.astype(np.int32))
                width = padded(len(used) + 1)
            keys = self._split(keys_of_features(incidence, features))
            self.layers[name] = _LayerData(incidence, cells, keys, even_ranges(incidence.key_ptr, PIECES), width)
        size = np.dtype(dtype).itemsize
        row = sum(layer.width for layer in self.layers.values()) * size
        chunk = CHUNK_BYTES // row if "edge" not in layers else ARC_BYTES // (self.width**2 * size)
        keys_of = {name: Turner(layer.incidence.n_keys) for name, layer in self.layers.items()}
        self.shards = []
        for begin, end in sentence_ranges(offsets, max(1, SHARD_BYTES // row)):
            chunks = [(begin + a, begin + b) for a, b in sentence_ranges(offsets[begin : end + 1], max(1, chunk))]
            t0, t1 = int(offsets[begin]), int(offsets[end])
            pooled = {k: self._split(tokens_of_keys(v.incidence, keys_of[k], t0, t1)) for k, v in self.layers.items()}
            own = {k: self._split(tokens_of_features(v.incidence, features, t0, t1)) for k, v in self.layers.items()}
            self.shards.append(_Shard(begin, end, chunks, pooled, own))
        longest = max(int(offsets[s.end] - offsets[s.begin]) for s in self.shards)
        self._rows = {k: np.empty((longest, v.width), dtype) for k, v in self.layers.items()}
        self._tables = {k: np.empty((v.incidence.n_keys, v.width), dtype) for k, v in self.layers.items()}
        self._sums = {k: np.empty_like(v) for k, v in self._tables.items()}
        self._top = np.empty(longest, dtype)
        self._arc_top = np.empty(longest, dtype)

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill `gradient` and return the loss."""
        parts = self.parameters.slices
        transitions = weights[parts["transitions"]].reshape(self.S, self.S)
        arc = np.where(self.space.arc, transitions.astype(np.float64), -np.inf)
        for name, layer in self.layers.items():
            self._score_keys(layer, weights[parts[name]], self._tables[name])
            self._sums[name][:] = 0
        gradient[:] = 0
        loss, arcs = 0.0, np.zeros((self.S, self.S))
        for shard in self.shards:
            done = self.workers.run(self._chunk, [(shard, a, b, weights, arc) for a, b in shard.chunks])
            loss += sum(part for part, _ in done)
            for _, part in done:
                arcs += part
            tasks = []
            for name, layer in self.layers.items():
                rows, sums, t = self._rows[name], self._sums[name], shard.pooled[name].turned
                for a, b in shard.pooled[name].pieces:
                    tasks.append((scoring.pool_keys, t.item, t.ptr, t.owner, rows, sums, a, b))
                tasks += self._collecting(layer, shard.own[name], rows, gradient[parts[name]])
            self.workers.run(_call, tasks)
        for name, layer in self.layers.items():
            self.workers.run(_call, self._collecting(layer, layer.keys, self._sums[name], gradient[parts[name]]))
        gradient[parts["transitions"]] = arcs.reshape(-1)
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

    def _chunk(self, shard: _Shard, begin: int, end: int, weights: Array, arc: Array) -> tuple[float, Array]:
        """Scores and posteriors of sentences begin:end: leaves expected minus observed counts in the score rows."""
        offsets = self.offsets[begin : end + 1]
        t0, t1 = int(offsets[0]), int(offsets[-1])
        base = int(self.offsets[shard.begin])
        here = slice(t0 - base, t1 - base)
        gold = self.gold[t0:t1]
        node = self._rows["state"][here]
        self._score_tokens("state", weights, t0, t1, node)
        self._fence(node, offsets)
        log_y, log_z = np.empty(end - begin), np.empty(end - begin)
        top, arc_top = self._top[here], self._arc_top[here]
        if "edge" in self.layers:
            rows = self._rows["edge"][here]
            self._score_tokens("edge", weights, t0, t1, rows)
            flat = np.empty((t1 - t0, self.width**2), self.dtype)
            full = flat.reshape(-1, self.width, self.width)
            chain.spread_arcs(rows, self._used, self._padded(arc, -np.inf), flat)
            subtract = self._observe(node, full, gold, offsets, log_y)
            self._exponentiate(node, top, self.S)
            self._exponentiate(rows, arc_top, len(self._used) + 1)
            highest = arc.max()
            arc_top += highest
            chain.spread_exponentials(rows, self._used, self._padded(np.exp(arc - highest), 0.0), flat)
            chain.posteriors_by_arc(node, top, full, arc_top, offsets, log_z)
            self._in_log_space(np.flatnonzero(np.isnan(log_z)), begin, base, weights, arc, log_z, full)
            subtract(node, full)
            chain.gather_arcs(flat, self._used, rows)
            arcs = full.sum(axis=0, dtype=np.float64)[: self.S, : self.S]
        else:
            subtract = self._observe(node, arc[None], gold, offsets, log_y)
            highest = arc.max()
            E = np.zeros((self.width, self.width), self.dtype)
            E[: self.S, : self.S] = np.exp(arc - highest)
            counts = np.zeros((self.width, self.width), self.dtype)
            self._exponentiate(node, top, self.S)
            chain.posteriors(node, top, E, np.ascontiguousarray(E.T), highest, offsets, log_z, counts)
            arcs = (counts.astype(np.float64) * E)[: self.S, : self.S]
            arcs += self._in_log_space(np.flatnonzero(np.isnan(log_z)), begin, base, weights, arc, log_z, None)
            subtract(node, arcs[None])
        return float(np.sum(log_z - log_y)), arcs

    def _observe(
        self, node: Array, arc: Array, gold: Array, offsets: Array, log_y: Array
    ) -> Callable[[Array, Array], None]:
        """Fill log_y with the weights of the gold labellings; returns what takes their counts from expected ones."""
        if not self.space.latent:
            clamped.path_scores(node, arc, gold, offsets, log_y)
            return lambda states, arcs: clamped.subtract_path(states, arcs, gold, offsets)
        first, most = self.space.first, int(np.diff(self.space.first).max())
        states, pairs = np.empty((len(gold), most)), np.empty((len(gold), most, most))
        clamped.clamped_posteriors(node, arc, gold, first, offsets, log_y, states, pairs)
        return lambda free, arcs: clamped.subtract_clamped(free, arcs, gold, first, offsets, states, pairs)

    def _score_tokens(self, name: str, weights: Array, t0: int, t1: int, rows: Array) -> None:
        layer = self.layers[name]
        i, c = layer.incidence, layer.cells
        rows[:] = 0
        value = i.token_value.astype(self.dtype, copy=False)
        w = weights[self.parameters.slices[name]]
        scoring.score_tokens(
            w, c.ptr, c.column, i.keys, self._tables[name], i.token_ptr, i.token_feature, value, t0, t1, rows
        )

    def _fence(self, node: Array, offsets: NDArray[np.int64]) -> None:
        """States where no sentence may begin or end are ruled out there."""
        if not (self.space.start.all() and self.space.end.all()):
            first = offsets[0]
            node[np.ix_(offsets[:-1] - first, np.flatnonzero(~self.space.start))] = -np.inf
            node[np.ix_(offsets[1:] - first - 1, np.flatnonzero(~self.space.end))] = -np.inf

    def _padded(self, arc: Array, outside: float) -> Array:
        """Numbers of arcs [S, S] as one padded row."""
        row = np.full((self.width, self.width), outside, self.dtype)
        row[: self.S, : self.S] = arc
        return row.reshape(-1)

    def _in_log_space(
        self, sentences: Array, begin: int, base: int, weights: Array, arc: Array, log_z: Array, full: Array | None
    ) -> Array:
        """Do again, in log space, the sentences whose probabilities are too small for scaling: posteriors go into the
        rows of their tokens and, where arcs have scores of their own, into `full`; returns the sum over all arcs."""
        counts = np.zeros((self.S, self.S))
        first = int(self.offsets[begin])
        for n in sentences:
            a, b = int(self.offsets[begin + n]), int(self.offsets[begin + n + 1])
            rows = np.empty((b - a, self.width), self.dtype)
            self._score_tokens("state", weights, a, b, rows)
            node = rows[:, : self.S].astype(np.float64)
            self._fence(node, np.array([0, b - a]))
            scores = arc[None]
            if full is not None:
                more = np.empty((b - a, self.layers["edge"].width), self.dtype)
                self._score_tokens("edge", weights, a, b, more)
                flat = np.empty((b - a, self.width**2))
                chain.spread_arcs(
                    more.astype(np.float64), self._used, self._padded(arc, -np.inf).astype(np.float64), flat
                )
                scores = np.ascontiguousarray(flat.reshape(-1, self.width, self.width)[:, : self.S, : self.S])
            sums = posterior(Lattice(node, scores))
            log_z[n] = sums.log_z
            arcs = np.empty((b - a, self.S, self.S))
            inference.posterior_arcs(node, scores, sums.states, sums.log_beta, arcs)
            self._rows["state"][a - base : b - base] = 0
            self._rows["state"][a - base : b - base, : self.S] = sums.states
            if full is not None:
                full[a - first : b - first] = 0
                full[a - first : b - first, : self.S, : self.S] = arcs
            counts += arcs.sum(axis=0)
        return counts
