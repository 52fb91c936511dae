"""Expected minus observed counts of the nodes and arcs of some sentences: what training makes of their scores."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import chain, clamped, covariances
from labelwright.scoring.assembly import Assembly, Plain
from labelwright.scoring.parameters import Parameters
from labelwright.structures.graph import first_order
from labelwright.structures.lattice import Lattice, covariance, posterior, posterior_arcs
from labelwright.structures.passing import Candidates
from labelwright.structures.states import StateSpace

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

    def __init__(
        self,
        space: StateSpace,
        parameters: Parameters,
        gold: NDArray[np.int32],
        offsets: Array,
        dtype: Any,
        candidates: Candidates | None = None,
    ):
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
        self.candidates, self.names = candidates, covariances.Names(*graph.names)
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

    def __call__(
        self,
        rows: Rows,
        moves: Moves,
        offsets: Array,
        again: Callable[[int], Rows],
        share: float = 1.0,
        pull: Array | None = None,
    ) -> Counts:
        """Replace the scores of the tokens of these sentences by counts; again(n) scores the n-th sentence once more.

        The loss and its counts count `share` times; `pull` holds derivatives of the losses of higher layers by what
        this one passes, and adds to the counts what the scores do to them."""
        build, blocks = self.assembly, self.graph.blocks
        node = build.nodes(rows, moves.plain, offsets)
        row = rows[build.arc_layer] if build.by_token else np.empty((len(node), 0), self.dtype)
        log_y, log_z = np.empty((2, len(offsets) - 1))
        gold = self.gold[offsets[0] : offsets[-1]]
        if not self.latent:
            base = self.graph.contexts.base
            clamped.path_scores(node, moves.plain.arc, row, self._column, base, gold, offsets, log_y)
        top, arc, arc_top = self._exponentials(node, row, moves)
        before = (node.copy(), arc.copy() if build.by_token else arc) if pull is not None else None
        if self.latent:
            held, pairs = self._room(len(node))
            clamped.clamped_posteriors(node, top, arc, arc_top, self.graph.contexts, gold, offsets, log_y, held, pairs)
        if build.by_token:
            chain.posteriors_by_arc(node, top, arc, arc_top, blocks, offsets, log_z)
        else:
            ratios = np.zeros((1, self.graph.n_arcs), self.dtype)
            chain.posteriors(node, top, moves.E, moves.ET, moves.highest, blocks, offsets, log_z, ratios[0])
            arc = ratios.astype(np.float64) * moves.E
        failed = np.isnan(log_z)
        for n in np.flatnonzero(failed | np.isnan(log_y)).tolist():
            a, b = (offsets[n : n + 2] - offsets[0]).tolist()
            lattice = self._again(n, offsets[n : n + 2], moves, again)
            if np.isnan(log_y[n]):
                where = self.graph.contexts, gold[a:b], held[a:b], pairs[a:b]
                log_y[n] = clamped.clamped_in_log_space(lattice.node, lattice.arc, *where)
            if failed[n]:
                log_z[n] = _posteriors(lattice, node[a:b], arc[a:b] if build.by_token else arc)
        if self.latent:
            clamped.subtract_clamped(node, arc, self.graph.contexts, gold, offsets, held, pairs)
        else:
            clamped.subtract_path(node, arc, self.graph.contexts.base, gold, offsets)
        if share != 1:
            node *= share
            arc *= share
        if before is not None and pull is not None:
            self._pull(before, moves, offsets, again, pull, failed, node, arc)
        if build.by_token:
            chain.gather_arcs(arc, build.used[build.arc_layer], row)
        nodes = np.zeros(len(moves.plain.node))
        if self.graph.order == 2:
            on_nodes = build.used.get("edge", np.empty(0, np.int64))
            edge = rows.get("edge", np.empty((len(node), 0), self.dtype))
            chain.pair_counts(node, on_nodes, self.graph.state, rows["state"], edge, nodes)
        arcs = arc[0]
        if build.by_token:
            arcs = np.zeros(self.graph.n_arcs)
            chain.sum_rows(arc, arcs)
        return Counts(share * float(np.sum(log_z - log_y)), nodes, arcs)

    def _pull(
        self,
        before: tuple[Array, Array],
        moves: Moves,
        offsets: Array,
        again: Callable[[int], Rows],
        pull: Array,
        failed: Array,
        node: Array,
        arc: Array,
    ) -> None:
        """Add to the counts what higher layers would rather have been passed."""
        by_token = self.assembly.by_token
        ratios = arc if by_token else np.zeros((1, self.graph.n_arcs), self.dtype)
        where = self.graph.blocks, self.names, offsets, offsets[0], *self._slots
        covariances.covariances(*before, *where, pull, failed, node, ratios)
        if not by_token:
            arc += ratios.astype(np.float64) * moves.E
        for n in np.flatnonzero(failed).tolist():
            a, b = (offsets[n : n + 2] - offsets[0]).tolist()
            lattice = self._again(n, offsets[n : n + 2], moves, again)
            self._covariances(lattice, offsets[n], pull, node[a:b], arc[a:b] if by_token else arc)

    def marginals(self, rows: Rows, moves: Moves, offsets: Array, again: Callable[[int], Rows], passed: Array) -> None:
        """Fill the slots of these sentences with the probabilities of labels and pairs of labels."""
        build = self.assembly
        node = build.nodes(rows, moves.plain, offsets)
        row = rows[build.arc_layer] if build.by_token else np.empty((len(node), 0), self.dtype)
        _, arc, _ = self._exponentials(node, row, moves)
        failed = np.zeros(len(offsets) - 1, np.bool_)
        where = self.graph.blocks, self.names, offsets, offsets[0], *self._slots
        covariances.marginals(node, arc, *where, failed, passed)
        for n in np.flatnonzero(failed).tolist():
            lattice = self._again(n, offsets[n : n + 2], moves, again)
            sums = posterior(lattice)
            by_slot = self._members(lattice, offsets[n])
            arcs = posterior_arcs(lattice, sums)
            for slot, (t, nodes, through) in by_slot.items():
                passed[slot] = sums.nodes[t, nodes].sum() + arcs[t, through].sum()

    def _exponentials(self, node: Array, row: Array, moves: Moves) -> tuple[Array, Array, Array]:
        """Exponentiate the scores of nodes [T, Q] in place, and those of arcs: (top [T], arc [T or 1, A], arc_top)."""
        top = np.empty(len(node), self.dtype)
        self._exponentiate(node, top, self.n_nodes)
        if not self.assembly.by_token:
            return top, moves.E, np.full(1, moves.highest, self.dtype)
        used = self.assembly.used[self.assembly.arc_layer]
        arc, arc_top = np.empty((len(row), self.graph.n_arcs), self.dtype), np.empty(len(row), self.dtype)
        self._exponentiate(row, arc_top, len(used) + 1)
        arc_top += moves.highest
        chain.spread_exponentials(row, used, moves.E[0], arc)
        return top, arc, arc_top

    @property
    def _slots(self) -> tuple[Array, Array, Array]:
        assert self.candidates is not None
        return self.candidates.ptr, self.candidates.label, self.candidates.pair_ptr

    def _covariances(self, lattice: Lattice, first: int, pull: Array, node: Array, arc: Array) -> None:
        """Add the covariances of one sentence in log space."""
        T, Q, A = len(lattice.node), lattice.node.shape[1], lattice.arc.shape[1]
        on_nodes, on_arcs = np.zeros((T, Q)), np.zeros((T, A))
        for slot, (t, nodes, through) in self._members(lattice, first).items():
            on_nodes[t, nodes] += pull[slot]
            on_arcs[t, through] += pull[slot]
        found_nodes, found_arcs = covariance(lattice, on_nodes, on_arcs)
        node += found_nodes
        arc += found_arcs if len(arc) > 1 else found_arcs.sum(axis=0)

    def _members(self, lattice: Lattice, first: int) -> dict[int, tuple[int, Array, Array]]:
        """Slot -> (token, nodes that stand for its label or pair, arcs that do), of the sentence that begins there."""
        ptr, label, pair_ptr = self._slots
        names, graph, nothing = self.names, self.graph, np.empty(0, np.int64)
        found = {}
        for t in range(len(lattice.node)):
            g = first + t
            for i in range(ptr[g], ptr[g + 1]):
                found[i] = (t, np.flatnonzero(names.label == label[i]), nothing)
            k = pair_ptr[g]
            for i in range(ptr[g - 1], ptr[g]) if t else ():
                for j in range(ptr[g], ptr[g + 1]):
                    if graph.order == 2:
                        nodes = np.flatnonzero((names.before == label[i]) & (names.label == label[j]))
                        found[k] = (t, nodes, nothing)
                    else:
                        r = np.arange(names.first[label[i]], names.first[label[i] + 1])
                        s = np.arange(names.first[label[j]], names.first[label[j] + 1])
                        found[k] = (t, nothing, (names.base[r][:, None] + s).reshape(-1))
                    k += 1
        return found

    def _room(self, n_tokens: int) -> tuple[Array, Array]:
        """Memory for the posteriors of the gold labellings: nodes [T, C] and arcs [T, C, H]."""
        C, H = self.graph.most_in_context, self.graph.most_targets
        return np.empty((n_tokens, C)), np.empty((n_tokens, C, H))

    def _again(self, n: int, sentence: Array, moves: Moves, again: Callable[[int], Rows]) -> Lattice:
        """The lattice of the n-th sentence, whose probabilities are too small or too large for scaling."""
        rows = {name: row.astype(np.float64) for name, row in again(n).items()}
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
