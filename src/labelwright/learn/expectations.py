"""Expected minus observed counts of the nodes and arcs of some sentences: what training makes of their scores."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.assembly import Assembly, Plain
from labelwright.graph import first_order
from labelwright.kernels import chain, clamped
from labelwright.lattice import Lattice, posterior, posterior_arcs
from labelwright.parameters import Parameters
from labelwright.states import StateSpace

Array = NDArray[Any]
Rows = dict[str, Array]  # layer -> scores of some tokens, later counts


def padded(n: int) -> int:
    """Row length for n states: whole vector registers."""
    return -(-n // 4) * 4 if n <= 12 else -(-n // 8) * 8


class Moves(NamedTuple):
    """Plain moves as one evaluation needs them."""

    plain: Plain
    highest: float  # score of an arc
    E: Array  # [1, A]  exp(arc - highest)
    ET: Array  # [A]     each block transposed


class Counts(NamedTuple):
    """What some sentences add to the loss and to the counts of plain moves."""

    loss: float
    nodes: Array  # [Q]
    arcs: Array  # [A]


class Expectations:
    """Turns rows of scores into rows of counts, in scaled probability space or, where need be, in log space."""

    def __init__(self, space: StateSpace, parameters: Parameters, gold: NDArray[np.int32], offsets: Array, dtype: Any):
        graph = space.graph
        if graph.order == 1:
            graph = first_order(space.label_of, space.n_labels, padded(space.n_states))
        self.assembly = Assembly(space, parameters, graph)
        self.graph, self.latent, self.dtype = graph, space.latent, dtype
        self.n_nodes = graph.n_nodes  # the rest of a row is padding
        self._exponentiate = chain.exponentiate32 if dtype == np.float32 else chain.exponentiate64
        self._column = np.full(graph.n_arcs, -1, np.int32)  # of each arc, in rows of scores of arcs
        used = self.assembly.used.get(self.assembly.arc_layer, np.empty(0, np.int64))
        self._column[used[used >= 0]] = np.flatnonzero(used >= 0)
        self.gold = gold  # labels or, where each has one state, the nodes of their paths
        if not self.latent and graph.order == 2:
            self.gold = np.empty_like(gold)
            clamped.paths_of(gold, graph.contexts, offsets, self.gold)

    def moves(self, weights: Array) -> Moves:
        """The plain moves under these weights."""
        plain = self.assembly.plain(weights)
        highest = float(plain.arc.max())
        E = np.exp(plain.arc - highest).astype(self.dtype)
        ET = np.empty_like(E)
        chain.transpose_blocks(E, self.graph.blocks, ET)
        return Moves(plain, highest, E[None], ET)

    def __call__(self, rows: Rows, moves: Moves, offsets: Array, again: Callable[[int, int], Rows]) -> Counts:
        """Replace the scores of the tokens of these sentences by counts; again(a, b) scores tokens a:b once more."""
        build, blocks = self.assembly, self.graph.blocks
        node = build.nodes(rows, moves.plain, offsets)
        row = rows[build.arc_layer] if build.by_token else np.empty((len(node), 0), self.dtype)
        log_y, log_z = np.empty((2, len(offsets) - 1))
        gold = self.gold[offsets[0] : offsets[-1]]
        if not self.latent:
            base = self.graph.contexts.base
            clamped.path_scores(node, moves.plain.arc, row, self._column, base, gold, offsets, log_y)
        top = np.empty(len(node), self.dtype)
        self._exponentiate(node, top, self.n_nodes)
        if build.by_token:
            used = build.used[build.arc_layer]
            arc, arc_top = np.empty((len(row), self.graph.n_arcs), self.dtype), np.empty(len(row), self.dtype)
            self._exponentiate(row, arc_top, len(used) + 1)
            arc_top += moves.highest
            chain.spread_exponentials(row, used, moves.E[0], arc)
        else:
            arc, arc_top = moves.E, np.full(1, moves.highest, self.dtype)
        if self.latent:
            held, pairs = self._room(len(node))
            clamped.clamped_posteriors(node, top, arc, arc_top, self.graph.contexts, gold, offsets, log_y, held, pairs)
        if build.by_token:
            chain.posteriors_by_arc(node, top, arc, arc_top, blocks, offsets, log_z)
        else:
            ratios = np.zeros(self.graph.n_arcs, self.dtype)
            chain.posteriors(node, top, moves.E, moves.ET, moves.highest, blocks, offsets, log_z, ratios)
            arc = (ratios.astype(np.float64) * moves.E[0])[None]
        for n in np.flatnonzero(np.isnan(log_z + log_y)):
            a, b = (offsets[n : n + 2] - offsets[0]).tolist()
            lattice = self._again(offsets[n : n + 2], moves, again)
            if np.isnan(log_y[n]):
                where = self.graph.contexts, gold[a:b], held[a:b], pairs[a:b]
                log_y[n] = clamped.clamped_in_log_space(lattice.node, lattice.arc, *where)
            if np.isnan(log_z[n]):
                log_z[n] = _posteriors(lattice, node[a:b], arc[a:b] if build.by_token else arc)
        if self.latent:
            clamped.subtract_clamped(node, arc, self.graph.contexts, gold, offsets, held, pairs)
        else:
            clamped.subtract_path(node, arc, self.graph.contexts.base, gold, offsets)
        if build.by_token:
            chain.gather_arcs(arc, used, row)
        nodes = np.zeros(len(moves.plain.node))
        if self.graph.order == 2:
            on_nodes = build.used.get("edge", np.empty(0, np.int64))
            edge = rows.get("edge", np.empty((len(node), 0), self.dtype))
            chain.pair_counts(node, on_nodes, self.graph.state, rows["state"], edge, nodes)
        arcs = arc[0]
        if build.by_token:
            arcs = np.zeros(self.graph.n_arcs)
            chain.sum_rows(arc, arcs)
        return Counts(float(np.sum(log_z - log_y)), nodes, arcs)

    def _room(self, n_tokens: int) -> tuple[Array, Array]:
        """Memory for the posteriors of the gold labellings: nodes [T, C] and arcs [T, C, H]."""
        C, H = self.graph.most_in_context, self.graph.most_targets
        return np.empty((n_tokens, C)), np.empty((n_tokens, C, H))

    def _again(self, sentence: Array, moves: Moves, again: Callable[[int, int], Rows]) -> Lattice:
        """The lattice of a sentence whose probabilities are too small or too large for scaling."""
        rows = {name: row.astype(np.float64) for name, row in again(*sentence.tolist()).items()}
        node = self.assembly.nodes(rows, moves.plain, sentence)
        node[:, self.n_nodes :] = -np.inf
        return Lattice(node, self.assembly.arcs(rows, moves.plain), self.graph)


def _posteriors(lattice: Lattice, node: Array, arc: Array) -> float:
    """Posteriors in log space: those of nodes go into node [T, Q], those of arcs into arc [T, A], or are added to its
    one row; returns log Z."""
    sums = posterior(lattice)
    node[:] = sums.nodes
    if len(arc) > 1:
        arc[:] = posterior_arcs(lattice, sums)
    else:
        arc += posterior_arcs(lattice, sums, by_token=False)
    return sums.log_z
