"""Expected minus observed counts of the nodes and arcs of a batch: what training makes of its
scores."""

import math
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import chain, clamped
from labelwright.learn.batches import (
    Batch,
    Chains,
    LabelledChains,
    Path,
    Said,
    Shard,
    Sizes,
    pieces_of,
)
from labelwright.parallel import sentence_ranges
from labelwright.scoring.assembly import Assembly, Plain, padded
from labelwright.scoring.parameters import Parameters
from labelwright.structures import timeorder
from labelwright.structures.dag import chain_covariance
from labelwright.structures.lattice import Lattice, Posterior, posterior, posterior_arcs
from labelwright.structures.passing import Candidates
from labelwright.structures.states import StateSpace, first_order
from labelwright.structures.supervision import COMPLETE, PLAIN, UNLABELLED, Supervision
from labelwright.structures.timeorder import covariances

Array = NDArray[Any]
Rows = dict[str, Array]  # scores of some tokens on states, pairs, triples; later counts
Again = Callable[[Array], Rows]  # scores some rows of a batch once more


class Transitions(NamedTuple):
    """Plain transitions as one evaluation needs them."""

    plain: Plain
    highest: float  # score of an arc
    E: Array  # [1, A]  exp(arc - highest)


class Counts(NamedTuple):
    """What some sentences add to the loss and to the counts of plain transitions."""

    loss: float
    nodes: Array  # [Q]
    arcs: Array  # [A]

    def plus(self, other: "Counts") -> "Counts":
        return Counts(self.loss + other.loss, self.nodes + other.nodes, self.arcs + other.arcs)


class Sums(NamedTuple):
    """Forward-backward over some of the paths of a batch."""

    E: Array  # [1|T, A]
    sums: timeorder.Messages
    again: dict[int, tuple[Lattice, Posterior]]  # sentences (ranks) that are done in log space


class State(NamedTuple):
    """What forward-backward leaves of a batch."""

    psi: Array  # [T, Q]
    free: Sums
    loss: float
    # posteriors of the labels' own latent paths: nodes [T, C] and arcs [T, C, H]
    held: tuple[Array, Array]
    clamped: Sums | None  # paths that sets of labels allow, where there are such sets
    # psi and sums as in tagging, for layers above, where labels have costs
    without_costs: tuple[Array, Sums] | None

    @property
    def model(self) -> tuple[Array, Sums]:
        """psi and the sums over all paths as the model scores them, whatever wrong labels cost in
        training."""
        return (self.psi, self.free) if self.without_costs is None else self.without_costs


class Expectations:
    """Makes rows of counts from rows of scores of chains, in scaled probability space or, where
    need be, in log space."""

    def __init__(
        self,
        space: StateSpace,
        parameters: Parameters,
        gold: NDArray[np.int32],
        offsets: Array,
        dtype: Any,
        candidates: Candidates | None = None,
        supervision: Supervision = PLAIN,
    ):
        graph = space.graph
        if graph.order == 1:
            graph = first_order(space.label_of, space.n_labels, padded(space.n_states))
        self.assembly = Assembly(space, parameters, graph)
        self.graph, self.latent, self.dtype, self.offsets = graph, space.latent, dtype, offsets
        self.products = timeorder.Products(graph)
        self.n_nodes = graph.n_nodes  # the rest of a row is padding
        self._column = np.full(graph.n_arcs, -1, np.int32)  # of each arc, in rows of scores of arcs
        used = self.assembly.used.get(self.assembly.arc_kind, np.empty(0, np.int64))
        self._column[used[used >= 0]] = np.flatnonzero(used >= 0)
        self.chains = LabelledChains(space, graph, gold, offsets, supervision, candidates, dtype)
        self._gold_arcs = np.zeros(graph.n_arcs)  # how often the paths of the labels have each arc
        self._scratch: list[Array] = []  # memory for messages, one for each thread
        self._most_rows = 0  # of a batch

    def precise(self) -> "Expectations":
        """The same in float64; sentences stay as they are laid out."""
        made = copy(self)
        made.dtype, made._scratch = np.float64, []
        return made

    @property
    def kept_numbers(self) -> int:
        """How many numbers the states of all batches have."""
        per_token = 4 * self.graph.width + (self.graph.n_arcs if self.assembly.by_token else 0)
        return int(self.offsets[-1]) * per_token

    def lay_out(self, sizes: Sizes) -> list[Shard]:
        """All sentences in time order: within a shard, those of about the same length make a batch.

        Rows stay in the order of the tokens, in which they are scored and summed (neighbours have
        keys that lie together: in time order both take half as long again); a batch takes a copy of
        its rows and puts it back."""
        build, offsets = self.assembly, self.offsets
        tokens = min(sizes.batch_tokens, sizes.batch_numbers // self.graph.width)
        if build.by_token:
            tokens = min(tokens, sizes.arc_numbers // self.graph.n_arcs)
        tokens = max(1, tokens)
        of_shard = max(
            tokens,
            min(sizes.shard_batches * tokens, sizes.shard_numbers // sum(build.row_width.values())),
        )
        shards, number = list[Shard](), 0
        for begin, end in sentence_ranges(offsets, of_shard):
            batches = []
            for sentences in self.chains.cut(begin, end, tokens):
                token, made = self.chains.batch(sentences)
                self._most_rows = max(self._most_rows, len(token))
                self._gold_arcs += made.path_arcs(self.graph.n_arcs)
                places = (token - offsets[begin]).astype(np.int32)
                batches.append(Batch(number, dict.fromkeys(build.cells, places), made))
                number += 1
            starts = dict.fromkeys(build.cells, offsets)
            shards.append(Shard(len(shards), *pieces_of(starts, begin, end, offsets), batches))
        return shards

    def transitions(self, weights: Array) -> Transitions:
        """The plain transitions under these weights."""
        plain = self.assembly.plain(weights)
        highest = float(plain.arc.max())
        return Transitions(plain, highest, np.exp(plain.arc - highest).astype(self.dtype)[None])

    def nothing(self, transitions: Transitions) -> Counts:
        """Counts of no sentences."""
        return Counts(
            0.0, np.zeros(len(transitions.plain.node)), np.zeros(len(transitions.plain.arc))
        )

    def observed(self, total: Counts, transitions: Transitions, share: float) -> Counts:
        """The counts of all batches less what the plain arcs of the labels' paths count and
        score."""
        seen = np.flatnonzero(self._gold_arcs)
        score = float(self._gold_arcs[seen] @ transitions.plain.arc[seen])
        arcs = total.arcs if self.assembly.by_token else total.arcs - share * self._gold_arcs
        return Counts(total.loss - share * score, total.nodes, arcs)

    # -- one batch ---------------------------------------------------------------------------------

    def counts(
        self,
        rows: Rows,
        transitions: Transitions,
        batch: Batch,
        again: Again,
        share: float = 1.0,
        d_passed: Array | None = None,
        state: State | None = None,
    ) -> Counts:
        """Replace the scores of a batch by counts, `share` times; d_passed has derivatives of the
        losses of higher layers by what this one passes, and adds what the scores do to them.
        `state` is what `passed` made of these."""
        data, memory = batch.data, None
        if data.kind == UNLABELLED and d_passed is None:  # all paths agree with what is known
            for row in rows.values():
                row[:] = 0
            return self.nothing(transitions)
        if state is None:
            size = 3, len(data.plan.token), self.graph.width
            try:  # taking memory anew for every batch would cost a fifth of the time
                memory = self._scratch.pop()
            except IndexError:
                memory = np.empty(3 * self._most_rows * self.graph.width, self.dtype)
            scratch = memory[: math.prod(size)].reshape(size)
            state = self._forward(rows, transitions, data, again, scratch, count=d_passed is None)
        cov = None if d_passed is None else self._covariances(state, data, d_passed)
        into = rows["state"] if self.graph.order == 1 else state.psi
        node, arc = self._posteriors(into, data, state.free, counted=d_passed is None)
        self._subtract(node, arc, data, state)
        if share != 1:
            node *= share
            arc *= share
        if cov is not None:
            node += cov[0]
            arc += cov[1]
        if memory is not None:
            self._scratch.append(memory)
        build, nodes = self.assembly, np.zeros(len(transitions.plain.node))
        if build.by_token:
            chain.gather_arcs(arc, build.used[build.arc_kind], rows[build.arc_kind])
        if self.graph.order == 2:
            on_nodes = build.used.get("edge", np.empty(0, np.int64))
            edge = rows.get("edge", np.empty((len(node), 0), self.dtype))
            chain.pair_counts(node, on_nodes, self.graph.state, rows["state"], edge, nodes)
        return Counts(share * state.loss, nodes, _sum_rows(arc) if build.by_token else arc[0])

    def passed(
        self, rows: Rows, transitions: Transitions, batch: Batch, again: Again, passed: Array
    ) -> State:
        """Fill the slots of a batch with the probabilities of labels and pairs of labels; what
        `counts` needs of it."""
        data = batch.data
        state = self._forward(rows, transitions, data, again, None, count=False)
        E, free, redone = state.model[1]
        nodes = free.alpha * free.beta
        data.slots.fill(passed, nodes[:, : self.n_nodes], E, free, self.graph)
        for rank, (lattice, sums) in redone.items():
            where = data.plan.rows_of(rank)
            data.slots.fill_in_log_space(
                passed, where, sums.nodes, posterior_arcs(lattice, sums), self.graph
            )
        return state

    def _forward(
        self,
        rows: Rows,
        transitions: Transitions,
        data: Chains,
        again: Again,
        scratch: Array | None,
        count: bool,
    ) -> State:
        """Forward-backward; with `count`, arcs that every token has for itself become their
        probabilities."""
        build, plan = self.assembly, data.plan
        node = build.nodes_of(rows, transitions.plain)
        build.shut(node, np.arange(plan.n_first), plan.last)
        row = rows[build.arc_kind] if build.by_token else np.empty((len(node), 0), self.dtype)
        score = 0.0 if data.path is None else self._path_scores(node, row, data, data.path)
        permitted = _permitted(node, data.said) if data.kind != COMPLETE else None
        plain = node.copy() if data.slots is not None and data.said.cost is not None else None
        data.said.add_costs(node)
        top, E, arc_top = self._exponentials(node, row, transitions)
        arc_tops = arc_top if build.by_token else np.broadcast_to(arc_top[:1], top.shape)
        lattice = partial(self._lattice, transitions=transitions, again=again, data=data)
        clamped_sums, held, log_y = (
            None,
            (np.empty((0, 0)), np.empty((0, 0, 0))),
            np.zeros(len(plan.order)),
        )
        if permitted is not None:
            permitted_top = self._exponentiate(permitted, self.n_nodes)
            permitted *= data.said.right  # small numbers are no zeros
            own = E.copy() if build.by_token else E
            clamped_sums = self._messages(permitted, own, plan, partial(lattice, clamped=True))
            log_y = _log_sums(clamped_sums, permitted_top, arc_tops, plan)
        elif self.latent:
            log_y, held = self._latent_paths(node, top, E, arc_top, lattice, data)
        free = self._messages(node, E, plan, lattice, scratch, count)
        each = _log_sums(free, top, arc_tops, plan) - log_y
        if data.said.weight is not None:
            each *= data.said.weight[: plan.n_first]
        without_costs = None
        if plain is not None:  # what a layer passes on must not depend on its true labels
            self._exponentiate(plain, self.n_nodes)
            without_costs = (
                plain,
                self._messages(plain, E, plan, partial(lattice, costs=False), None, False),
            )
        return State(node, free, float(np.sum(each)) - score, held, clamped_sums, without_costs)

    def _messages(
        self,
        node: Array,
        E: Array,
        plan: timeorder.Plan,
        lattice: Callable[[int], Lattice],
        scratch: Array | None = None,
        count: bool = True,
    ) -> Sums:
        """The sums over all paths, of sentences with too small or too large numbers by their
        lattices."""
        sums, redone = timeorder.messages(node, E, self.products, plan, scratch, count), {}
        for n in np.flatnonzero(sums.failed).tolist():
            redone[n] = (scored := lattice(n)), posterior(scored)
        return Sums(E, sums, redone)

    def _latent_paths(
        self,
        node: Array,
        top: Array,
        E: Array,
        arc_top: Array,
        lattice: Callable[[int], Lattice],
        data: Chains,
    ) -> tuple[Array, tuple[Array, Array]]:
        """Logarithms of the sums over the latent paths of the labels [N], and posteriors of their
        nodes and arcs."""
        plan = data.plan
        offsets, log_y = np.concatenate([[0], np.cumsum(plan.lengths)]), np.zeros(len(plan.order))
        C, H = self.graph.most_in_context, self.graph.most_targets
        # first tokens have no arcs, but weights
        made = np.empty if data.said.weight is None else np.zeros
        held = made((len(node), C), self.dtype), made((len(node), C, H), self.dtype)
        inputs = self.graph.contexts, data.gold, offsets, log_y, *held
        tops = arc_top.astype(np.float64, copy=False)
        clamped.clamped_posteriors(node, top, E, tops, data.row, *inputs)
        for n in np.flatnonzero(np.isnan(log_y)).tolist():
            scored, mine = lattice(n), slice(int(offsets[n]), int(offsets[n + 1]))
            T = len(scored.node)
            precise = made((T, C)), made((T, C, H))
            where = self.graph.contexts, data.gold[mine], *precise
            log_y[n] = clamped.clamped_in_log_space(scored.node, scored.arc, *where)
            held[0][mine], held[1][mine] = precise
        if data.said.weight is not None:
            often = data.said.weight[data.row]
            held[0][:] *= often[:, None]
            held[1][:] *= often[:, None, None]
        return log_y, held

    def _posteriors(
        self, node: Array, data: Chains, of: Sums, counted: bool
    ) -> tuple[Array, Array]:
        """The probabilities of nodes [T, Q], in `node`, and arcs [T, A], or of arcs that all tokens
        share the expected counts [1, A], as often as each sentence counts; arcs that are `counted`
        have become their probabilities."""
        E, sums, again = of
        weight = data.said.weight
        np.multiply(sums.alpha, sums.beta, out=node)
        if self.assembly.by_token:
            arc = E
            if not counted or len(arc) == 1:
                timeorder.multiply_arcs(sums, arc, self.products, data.plan)
        else:
            weighted = sums if weight is None else sums._replace(into=sums.into * weight[:, None])
            arc = timeorder.arc_counts(weighted, self.products, data.plan, data.runs)[None] * E
        for rank, (lattice, redone) in again.items():
            rows = data.plan.rows_of(rank)
            node[rows] = redone.nodes
            if len(arc) > 1:
                arc[rows] = posterior_arcs(lattice, redone)
            else:
                often = 1.0 if weight is None else weight[rank]
                arc += often * posterior_arcs(lattice, redone, by_token=False)
        if weight is not None:
            node *= weight[:, None]
            if len(arc) > 1:
                arc *= weight[:, None]
        return node, arc

    def _path_scores(self, node: Array, row: Array, data: Chains, path: Path) -> float:
        """The scores of the labels' paths, less those of plain arcs, as often as each sentence
        counts."""
        weight = data.said.weight
        score = _sum_at(node, path.flat, weight)
        if self.assembly.by_token:
            column, first = self._column[path.arc], data.plan.n_first
            places, some = np.arange(first, len(row)) * row.shape[1] + column, column >= 0
            score += _sum_at(row, places[some], None if weight is None else weight[first:][some])
        return score

    def _exponentiate(self, scores: Array, width: int) -> Array:
        """Make the first `width` columns of scores their exponentials, in place; what lies above
        all of a row [T]."""
        top = np.empty(len(scores), self.dtype)
        (chain.exponentiate32 if self.dtype == np.float32 else chain.exponentiate64)(
            scores, top, width
        )
        return top

    def _exponentials(
        self, node: Array, row: Array, transitions: Transitions
    ) -> tuple[Array, Array, Array]:
        """Exponentiate the scores of nodes [T, Q] in place, and those of arcs: (top [T], E [T or 1,
        A], arc_top)."""
        top = self._exponentiate(node, self.n_nodes)
        if not self.assembly.by_token:
            return top, transitions.E, np.full(1, transitions.highest)
        used = self.assembly.used[self.assembly.arc_kind]
        arc, arc_top = (
            np.empty((len(row), self.graph.n_arcs), self.dtype),
            self._exponentiate(row, len(used) + 1),
        )
        arc_top += transitions.highest
        chain.spread_exponentials(row, used, transitions.E[0], arc)
        return top, arc, arc_top

    def _subtract(self, node: Array, arc: Array, data: Chains, state: State) -> None:
        """Take off the observed counts (those of plain arcs that all tokens share: see
        `observed`)."""
        if state.clamped is not None:
            observed = self._posteriors(np.empty_like(node), data, state.clamped, counted=True)
            node -= observed[0]
            arc -= observed[1]
            return
        if self.latent:
            offsets = np.concatenate([[0], np.cumsum(data.plan.lengths)])
            inputs = self.graph.contexts, data.gold, offsets, *state.held, data.row
            clamped.subtract_clamped(node, arc, *inputs)
            return
        assert data.path is not None
        weight, first = data.said.weight, data.plan.n_first
        node.reshape(-1)[data.path.flat] -= 1 if weight is None else weight
        if self.assembly.by_token:
            places = np.arange(first, len(arc)) * arc.shape[1] + data.path.arc
            arc.reshape(-1)[places] -= 1 if weight is None else weight[first:]

    def _covariances(self, state: State, data: Chains, d_passed: Array) -> tuple[Array, Array]:
        """What the scores of nodes [T, Q] and arcs [T or 1, A] do to the losses of higher
        layers."""
        assert data.slots is not None
        gains = data.slots.gains(d_passed, self.graph)
        psi, (E, sums, again) = state.model
        on_nodes, on_arcs = covariances(psi, E, sums, gains, self.products, data.plan)
        for rank, (lattice, _) in again.items():
            where = data.plan.rows_of(rank)
            by_arc = gains.arcs_of(where, self.graph.n_arcs)
            cov_nodes, cov_arcs = chain_covariance(
                lattice, gains.nodes[where].astype(np.float64), by_arc
            )
            on_nodes[where] = cov_nodes
            if len(on_arcs) > 1:
                on_arcs[where] = cov_arcs
            else:
                on_arcs += cov_arcs.sum(axis=0)
        return on_nodes, on_arcs

    def _lattice(
        self,
        rank: int,
        transitions: Transitions,
        again: Again,
        data: Chains,
        clamped: bool = False,
        costs: bool = True,
    ) -> Lattice:
        """The lattice of a sentence whose probabilities are too small or too large for scaling;
        `clamped`: with only what sets of labels allow; `costs`: with what wrong labels cost."""
        places = data.plan.rows_of(rank)
        rows = {name: row.astype(np.float64) for name, row in again(places).items()}
        node = self.assembly.nodes(rows, transitions.plain, np.array([0, len(places)]))
        node[:, self.n_nodes :] = -np.inf
        said = Said(*(None if x is None else x[places] for x in data.said))
        if clamped:
            node = _permitted(node, said)
        elif costs:
            said.add_costs(node)
        return Lattice(node, self.assembly.arcs(rows, transitions.plain), self.graph)


def _permitted(node: Array, said: Said) -> Array:
    """The scores of nodes that sets of labels allow, minus infinity for all others."""
    assert said.right is not None
    return np.where(said.right, node, np.array(-np.inf, node.dtype))


def _sum_at(x: Array, places: Array, weight: Array | None) -> float:
    """The sum of x at these places, each multiplied by its weight, in float64."""
    if weight is None:
        return float(x.reshape(-1).take(places).sum(dtype=np.float64))
    return float(x.reshape(-1)[places].astype(np.float64) @ weight)


def _sum_rows(rows: Array) -> Array:
    """The sum of rows [T, A] in float64, added up in runs of 64, so that no digits are lost."""
    whole = len(rows) // 64 * 64
    total: Array = (
        rows[:whole].reshape(-1, 64, rows.shape[1]).sum(axis=1).sum(axis=0, dtype=np.float64)
    )
    total += rows[whole:].sum(axis=0)
    return total


def _log_sums(of: Sums, top: Array, arc_top: Array, plan: timeorder.Plan) -> Array:
    """The logarithms of sums over paths [N], whose scores lie below top [T] and arc_top [T]."""
    log_c = np.log(of.sums.scale, dtype=np.float64) + top
    log_c[plan.n_first :] += arc_top[plan.n_first :]
    log_z = plan.by_sentence(log_c)  # ranks are numbers: the sentences were sorted
    for n, (_, redone) in of.again.items():
        log_z[n] = redone.log_z
    return log_z
