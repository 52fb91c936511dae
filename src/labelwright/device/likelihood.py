"""The training objective of CRFs, latent or not, on a device: what learn.objective is on the CPU.

One evaluation, shard by shard:  weights -> rows of scores (bags) -> scores of nodes and arcs -> expected minus observed
counts (messages) -> rows -> gradient (bags).
Sentences whose numbers are too small for scaling are done on the CPU, in log space.  A shard is two stages of work
of fixed shape, which a GPU records once and replays; between them is the one place that may need the CPU.
"""

import math
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.device.bags import Features, ShardRows
from labelwright.device.layout import Layout, lay_out
from labelwright.device.messages import MOST_NODES, Counts, First, Second, add_posteriors, sums
from labelwright.device.place import Place, Tensor, torch
from labelwright.device.vectors import DeviceVectors
from labelwright.errors import OptionError
from labelwright.features.incidence import Incidence
from labelwright.parallel import sentence_ranges
from labelwright.scoring.assembly import tables_for
from labelwright.scoring.parameters import REACH, Parameters, Trained
from labelwright.structures.lattice import Lattice, posterior, posterior_arcs
from labelwright.structures.states import StateSpace
from labelwright.structures.supervision import COMPLETE, UNLABELLED, Supervision, kinds_of

Array = NDArray[Any]
SMALL = {4: 1e-30, 8: 1e-280}  # bytes of a number: the least mass of a token that can be trusted
FEW_TOKENS = 1 << 10  # of a shard: no device is so small
SHARED = 2  # tokens that a key needs for a row of its own


class Shard(NamedTuple):
    """Sentences whose numbers are on the device together, by rows in time order."""

    layout: Layout  # with tensors
    features: dict[str, ShardRows]
    fence: Tensor | None  # [T]  1 at first tokens, 2 at last ones, 3 at both
    code: Tensor | None  # [T]  label or set of labels, where several paths agree with it or wrong ones have costs
    cost: Tensor | None  # [T]  added to the scores of wrong labels
    weight: Tensor  # [T]  how often the sentence counts,
    of_last: Tensor  # [N]  by sentences,
    later: Tensor  # [T]  and by rows, but 0 at first tokens
    path: "Path | None"  # that of the labels, where there is one and all are known


class Path(NamedTuple):
    """The one path of the labels of each sentence."""

    nodes: Tensor  # [T]  where its nodes are in [T, Q],
    arcs: Tensor  # [T - N]  and its arcs in [*arcs], or in [T, *arcs] where each token has its own
    later: Tensor  # [T - N]  how often these count
    observed: Tensor  # [*arcs]  how often all paths have each


class Model:
    """Scores of nodes and arcs from weights and rows, as tensors, and which of them there are."""

    def __init__(self, place: Place, space: StateSpace, parameters: Parameters, said: Supervision):
        self.place, self.space, self.slices, S = place, space, parameters.slices, space.n_states
        self.order = space.graph.order
        self.shape: First | Second = (First if self.order == 1 else Second)(S)
        self.arc_kind = {1: "edge", 2: "triple"}[self.order]
        self.by_token = self.arc_kind in parameters.cells
        self.columns: dict[str, Array] = {}  # of the cells of each kind
        self.spread: dict[str, Tensor] = {}  # [S*S or S*S*S]  column of each pair or triple; the last one is 0
        self.used: dict[str, Tensor] = {}  # pair or triple of each column
        self.widths: dict[str, int] = {}
        for name, cells in parameters.cells.items():
            n_codes = S ** (REACH[name] + 1)
            has_weight = np.zeros(n_codes, np.bool_)
            has_weight[cells.column] = True
            if name == "state" or has_weight.all():
                self.columns[name], self.widths[name] = cells.column, n_codes
                continue
            used = np.flatnonzero(has_weight)
            column = np.where(has_weight, np.cumsum(has_weight) - 1, len(used))
            self.columns[name], self.widths[name] = column[cells.column], len(used) + 1
            self.spread[name], self.used[name] = place.tensor(column), place.tensor(np.append(used, used[:1]))
        free = np.ones(S * S, np.bool_) if parameters.has_weight is None else parameters.has_weight
        self.has_weight = None if free.all() else place.tensor(free)
        self.no_arc = None if self.order == 2 or space.arc.all() else place.tensor(~space.arc)
        shut = self._fences()
        self.shut = place.tensor(shut) if shut.any() else None  # [4, Q]
        allowed = said.allowed(space.n_labels)[:, space.label_of]  # [codes, S]
        self.places = self._places()
        self.wrong = place.tensor(~(allowed if self.order == 1 else np.tile(allowed, S + 1)))  # [codes, Q]

    def _places(self) -> tuple[Array, Array]:
        """The places of the nodes and arcs of the graph of the CPU."""
        graph, S = self.space.graph, self.space.n_states
        if self.order == 1:
            return np.arange(S), np.arange(S * S)
        source, target = graph.ends
        before = np.where(graph.previous < 0, S, graph.previous)
        arcs = (graph.state[source] * (S + 1) + before[source]) * S + graph.state[target]
        return before * S + graph.state, arcs

    def _fences(self) -> Array:
        """The nodes [4, Q] that are impossible inside a sentence, at its first token, at its last, and at both."""
        space, S, n = self.space, self.space.n_states, self.shape.n_nodes
        shut = np.zeros((4, n // S, S), np.bool_)
        if self.order == 2:
            shut[[0, 2], S] = True
            shut[[1, 3], :S] = True
            shut[:, :S] |= ~space.arc
        shut[[1, 3]] |= ~space.start
        shut[[2, 3]] |= ~space.end
        return shut.reshape(4, n)

    # -- scores -----------------------------------------------------------------------------------------------

    def transitions(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of plain pairs [S, S], and of arcs [*arcs]."""
        S = self.space.n_states
        pairs = weights[self.slices["transitions"]].view(S, S)
        if self.has_weight is not None:
            pairs = pairs * self.has_weight.view(S, S)
        if self.no_arc is not None:
            pairs = pairs.masked_fill(self.no_arc, -math.inf)
        if self.order == 1:
            return pairs, pairs
        triples = weights[self.slices["triples"]].view(S, S, S).transpose(0, 1)  # [s, r, u]
        return pairs, torch.cat([triples, triples.new_zeros(S, 1, S)], 1)

    def _spread(self, name: str, rows: Tensor) -> Tensor:
        """Rows of scores as those of all pairs or triples."""
        return rows if name not in self.spread else rows.index_select(1, self.spread[name])

    def nodes(self, rows: dict[str, Tensor], pairs: Tensor, fence: Tensor | None) -> Tensor:
        """The scores of nodes [T, Q]; of order 1, the rows of states themselves where nothing is impossible."""
        node = rows["state"]
        if self.order == 2:
            T, S = len(node), self.space.n_states
            state = node[:, None]
            inner = state + pairs
            if "edge" in rows:
                inner += self._spread("edge", rows["edge"]).view(T, S, S)
            node = torch.cat([inner, state], 1).view(T, -1)
        return node if fence is None else node.masked_fill(self.shut.index_select(0, fence), -math.inf)

    def arcs(self, rows: dict[str, Tensor], plain: Tensor) -> Tensor:
        """The scores of arcs [*arcs], or [T, *arcs] where every token has its own."""
        if not self.by_token:
            return plain
        S = self.space.n_states
        own = self._spread(self.arc_kind, rows[self.arc_kind])
        if self.order == 1:
            return own.view(-1, S, S) + plain
        arc = plain.expand(len(own), *plain.shape).clone()
        arc[:, :, :S] += own.view(-1, S, S, S).transpose(1, 2)
        return arc

    # -- and back ---------------------------------------------------------------------------------------------

    def rows_of(self, counts: Counts) -> dict[str, Tensor]:
        """The counts of the columns of all rows."""
        T, S, used = len(counts.nodes), self.space.n_states, self.used
        rows = {"state": counts.nodes}
        if self.order == 2:
            grid = counts.nodes.view(T, S + 1, S)
            rows = {"state": grid.sum(1), "edge": grid[:, :S].reshape(T, S * S)}
        if self.by_token:
            arcs = counts.arcs if self.order == 1 else counts.arcs[:, :, :S].transpose(1, 2)
            rows[self.arc_kind] = arcs.reshape(T, -1)
        return {name: rows[name].index_select(1, used[name]) if name in used else rows[name] for name in self.widths}

    def collect_transitions(self, counts: Counts, gradient: Tensor) -> None:
        """Add what the counts have of plain transitions."""
        S, wide, slices = self.space.n_states, self.place.wide, self.slices
        arcs = counts.arcs.sum(0, dtype=wide) if self.by_token else counts.arcs
        if self.order == 2:
            pairs = counts.nodes[:, : S * S].sum(0, dtype=wide)
            gradient[slices["triples"]] += arcs[:, :S].transpose(0, 1).reshape(-1).to(gradient.dtype)
        else:
            pairs = arcs.reshape(-1)
        if self.has_weight is not None:
            pairs = pairs * self.has_weight
        gradient[slices["transitions"]] += pairs.to(gradient.dtype)


def on_device(name: str, trained: Trained, data: Any) -> "TorchLikelihood":
    """The likelihood of training data (taggers.arguments.Data), with the vectors that it takes."""
    incidences, offsets, gold, said, _ = data
    return TorchLikelihood(Place(name), incidences, offsets, gold, said, trained.space, trained.parameters)


class TorchLikelihood:
    """minus log-likelihood and its gradient, as LogLikelihood, of vectors on a device."""

    def __init__(
        self,
        place: Place,
        incidences: dict[str, Incidence],
        offsets: Array,
        gold: Array,
        said: Supervision,
        space: StateSpace,
        parameters: Parameters,
        dtype: Any = None,
    ):
        self.place, self.dtype, self.n_weights = place, dtype or torch.float32, parameters.n_weights
        self.offsets, self.gold, self.said, self.vectors = offsets, gold, said, DeviceVectors(place)
        self.model = Model(place, space, parameters, said)
        self.kinds = kinds_of(gold, offsets, said, space.n_labels)
        self.clamped = space.latent or bool((self.kinds != COMPLETE).any())
        self.features = {}
        for name, incidence in tables_for(incidences, self.model.widths, shared=SHARED).items():
            cells = parameters.cells[name]._replace(column=self.model.columns[name])
            self.features[name] = Features(place, incidence, cells, self.model.widths[name])
        arcs = math.prod(self.model.shape.arcs) if self.model.by_token else 0
        numbers = (
            2 * sum(self.model.widths.values()) + (16 if self.clamped else 10) * self.model.shape.n_nodes + 5 * arcs
        )
        self.tokens = max(FEW_TOKENS, place.shard_bytes // (numbers * self.dtype.itemsize))  # of a shard
        self.shards: list[Shard] = []
        self._prepare()

    def precise(self) -> "TorchLikelihood | None":
        """The same in float64; None where this is in float64, or the device has none."""
        if self.dtype == torch.float64 or self.place.wide != torch.float64:
            return None
        made = copy(self)
        made.dtype = torch.float64
        made.shards = [_on(self.place, shard, torch.float64) for shard in self.shards]
        made._prepare()
        return made

    # -- layout -----------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Lay out the data, take memory, and record what one evaluation does; in smaller shards where memory is
        short."""
        while True:
            try:
                self._take_memory()
                return
            except torch.cuda.OutOfMemoryError:
                del self.shards[:]
                self.stages = self.rows = self.counts = None
            torch.cuda.empty_cache()
            if self.tokens <= FEW_TOKENS:
                raise OptionError(self._too_large())
            self.tokens //= 2

    def _too_large(self) -> str:
        free, total = torch.cuda.mem_get_info(self.place.device)
        table = max(f.n_rows * f.width for f in self.features.values()) * self.dtype.itemsize
        return (
            f"device={self.place.name!r}: out of memory: {self.n_weights:,} weights need tables of {table / 1e9:.1f} "
            f"GB; {free / 1e9:.1f} of {total / 1e9:.1f} GB are free; use a larger min_count, or device='cpu'"
        )

    def _take_memory(self) -> None:
        place, model, dtype, shape = self.place, self.model, self.dtype, self.model.shape
        if not self.shards:
            taught = np.flatnonzero(self.kinds != UNLABELLED)  # all paths agree with what is known of the others
            ends = offsets_from(np.diff(self.offsets)[taught])
            self.shards = [self._shard(taught[a:b]) for a, b in sentence_ranges(ends, self.tokens)]
        T = max((len(shard.weight) for shard in self.shards), default=0)
        N = max((len(shard.of_last) for shard in self.shards), default=0)
        self.weights, self.gradient = (place.zeros(self.n_weights, dtype=dtype) for _ in range(2))
        self.loss, self.failed = place.zeros(1, dtype=place.wide), place.zeros(N, dtype=dtype)
        self.rows = {name: place.zeros(T, width, dtype=dtype) for name, width in model.widths.items()}
        arcs = ((T, *shape.arcs), dtype) if model.by_token else (shape.arcs, place.wide)
        self.counts = Counts(place.zeros(T, shape.n_nodes, dtype=dtype), place.zeros(*arcs[0], dtype=arcs[1]))
        stages = [partial(stage, shard) for shard in self.shards for stage in (self._expect, self._collect)]
        self.stages = place.recorded(stages)

    def _shard(self, sentences: Array) -> Shard:
        """The tensors of some sentences."""
        place, model, offsets, said = self.place, self.model, self.offsets, self.said
        lengths = np.diff(offsets)[sentences]
        ends = offsets_from(lengths)
        made = lay_out(ends, model.shape.n_nodes <= MOST_NODES)
        token = (np.repeat(offsets[sentences] - ends[:-1], lengths) + np.arange(ends[-1]))[made.token]
        weight = np.ones(len(sentences)) if said.of_sentences is None else said.of_sentences[sentences]
        by_row, fence = weight[made.sentence], np.zeros(len(token), np.int64)
        fence[made.first] += 1
        fence[made.last] += 2
        cost = None
        if said.of_tokens is not None:
            with np.errstate(divide="ignore"):
                cost = place.tensor(np.log(said.of_tokens[token]), self.dtype)
        code = place.tensor(self.gold[token].astype(np.int64)) if self.clamped or cost is not None else None
        numbers = by_row, weight, np.where(made.before < len(token), by_row, 0)
        return Shard(
            _on(place, made),
            {name: features.shard(token) for name, features in self.features.items()},
            place.tensor(fence) if model.shut is not None else None,
            code,
            cost,
            *(place.tensor(x, self.dtype) for x in numbers),
            None if self.clamped else self._path(made, self.gold[token], by_row),
        )

    def _path(self, made: Layout, gold: Array, weight: Array) -> Path:
        """The paths of labels [T], which are states."""
        T, S, shape, place = len(gold), self.model.space.n_states, self.model.shape, self.place
        state = np.append(gold, S).astype(np.int64)
        one = np.append(state[made.before], S)  # the state before, and the one before that
        two, later = one[made.before], np.flatnonzero(made.before < T)
        if self.model.order == 1:
            node, arc = state[:T], one[:T] * S + state[:T]
        else:
            node, arc = one[:T] * S + state[:T], (one[:T] * (S + 1) + two) * S + state[:T]
        arc, n_arcs = arc[later], math.prod(shape.arcs)
        observed = np.bincount(arc, weight[later], n_arcs).reshape(shape.arcs)
        at_arcs = arc + later * n_arcs if self.model.by_token else arc
        places = place.tensor(np.arange(T) * shape.n_nodes + node), place.tensor(at_arcs)
        return Path(*places, place.tensor(weight[later], self.dtype), place.tensor(observed))

    # -- one evaluation ---------------------------------------------------------------------------------------

    def __call__(self, weights: Tensor, gradient: Tensor) -> float:
        """Fill `gradient` and return the loss."""
        self.weights.copy_(weights)
        self.gradient.zero_()
        self.loss.zero_()
        for shard, expect, collect in zip(self.shards, self.stages[::2], self.stages[1::2], strict=True):
            expect()
            failed = self.failed[: len(shard.of_last)]
            if failed.any():
                self._mend(shard, failed.nonzero()[:, 0].tolist())
            collect()
        gradient.copy_(self.gradient)
        return float(self.loss)

    def _held(self, shard: Shard) -> tuple[dict[str, Tensor], Counts]:
        """The memory for rows and counts of a shard."""
        T, (nodes, arcs) = len(shard.weight), self.counts
        return {name: rows[:T] for name, rows in self.rows.items()}, Counts(
            nodes[:T], arcs[:T] if self.model.by_token else arcs
        )

    def _expect(self, shard: Shard) -> None:
        """The first stage: fill rows with scores, and counts with expected minus observed ones; add to the loss."""
        place, model, (rows, counts) = self.place, self.model, self._held(shard)
        shape, layout, S, wide = model.shape, shard.layout, model.space.n_states, self.place.wide
        for name, features in self.features.items():
            features.score(self.weights[model.slices[name]], shard.features[name], rows[name])
        pairs, plain = model.transitions(self.weights)
        node, arc = model.nodes(rows, pairs, shard.fence), model.arcs(rows, plain)
        counts.nodes.zero_()
        counts.arcs.zero_()
        if shard.path is not None:
            self._take_off(shard.path, shard.weight, node, arc, counts)
        arc_top = arc.amax(tuple(range(-len(shape.arcs), 0)), keepdim=True)
        E = (arc - arc_top).exp_().div_(S)
        del arc
        wrong = None if shard.code is None else model.wrong.index_select(0, shard.code)
        free, top = _exponentials(node, wrong, shard.cost)
        logs, passes = top * shard.weight, [free]
        if self.clamped:
            permitted, top = _exponentials(node.masked_fill(wrong, -math.inf))
            logs, passes = logs - top * shard.weight, [free, permitted]
        else:
            logs = logs + (arc_top.view(-1) + math.log(S)) * shard.later
        every = sums(place, shape, passes, E, layout)
        bad = ~(torch.stack([made.least for made in every]).amin(0) > SMALL[free.itemsize])  # so is what is no number
        failed = self.failed[: len(shard.of_last)]
        failed.zero_().index_add_(0, layout.sentence, bad.to(failed.dtype))  # whole numbers: in any order
        lost = failed.index_select(0, layout.sentence) > 0
        self.loss += logs.to(wide).masked_fill_(lost, 0).sum()
        for sign, psi, made in zip((1, -1), passes, every, strict=False):
            add_posteriors(shape, psi, E, made, shard.weight, lost[:, None], layout, sign, counts)
            steps, ends = made.scale, made.mass.index_select(0, layout.last)
            for scale, weight, gone in ((steps, shard.weight, lost), (ends, shard.of_last, failed > 0)):
                self.loss += sign * (scale.to(wide).log() * weight).masked_fill_(gone, 0).sum()

    def _take_off(self, path: Path, weight: Tensor, node: Tensor, arc: Tensor, counts: Counts) -> None:
        """Take the paths of labels off counts and loss."""
        wide = self.place.wide
        self.loss -= (node.reshape(-1).index_select(0, path.nodes).to(wide) * weight).sum()
        self.loss -= (arc.reshape(-1).index_select(0, path.arcs).to(wide) * path.later).sum()
        counts.nodes.view(-1).index_add_(0, path.nodes, weight, alpha=-1)  # each place once: in no order
        if self.model.by_token:
            counts.arcs.view(-1).index_add_(0, path.arcs, path.later, alpha=-1)
        else:
            counts.arcs.sub_(path.observed)

    def _collect(self, shard: Shard) -> None:
        """The second stage: add the counts to the gradient."""
        model, (_, counts) = self.model, self._held(shard)
        for name, rows in model.rows_of(counts).items():
            self.features[name].collect(rows, shard.features[name], self.gradient[model.slices[name]])
        model.collect_transitions(counts, self.gradient)

    def _mend(self, shard: Shard, sentences: list[int]) -> None:
        """Add the counts and the loss of sentences whose sums could not be trusted: on the CPU, in log space."""
        model, (rows, counts), graph = self.model, self._held(shard), self.model.space.graph
        pairs, plain = model.transitions(self.weights)
        of_row, token = shard.layout.sentence.cpu().numpy(), shard.layout.token.cpu().numpy()
        at_nodes, at_arcs = model.places
        for n in sentences:
            mine = np.flatnonzero(of_row == n)
            at = self.place.tensor(mine[np.argsort(token[mine])])
            own = {name: each.index_select(0, at) for name, each in rows.items()}
            fence, cost, code = (
                None if x is None else x.index_select(0, at) for x in (shard.fence, shard.cost, shard.code)
            )
            node, arc = (
                model.nodes(own, pairs, fence),
                _numpy(model.arcs(own, plain)).reshape(-1, math.prod(model.shape.arcs)),
            )
            wrong = None if code is None else model.wrong.index_select(0, code)
            passes = [node if cost is None else torch.where(wrong, node + cost[:, None], node)]
            if self.clamped:
                passes.append(node.masked_fill(wrong, -math.inf))
            often = float(shard.of_last[n])
            for each, times in zip(passes, (often, -often), strict=False):
                lattice = Lattice(_numpy(each)[:, at_nodes], arc[:, at_arcs], graph)
                found = posterior(lattice)
                nodes, arcs = np.zeros(node.shape), np.zeros((len(at) if model.by_token else 1, arc.shape[1]))
                nodes[:, at_nodes] = times * found.nodes
                arcs[:, at_arcs] = times * posterior_arcs(lattice, found, model.by_token)
                counts.nodes.index_add_(0, at, self.place.tensor(nodes, self.dtype))
                made = self.place.tensor(arcs.reshape(-1, *model.shape.arcs), counts.arcs.dtype)
                if model.by_token:
                    counts.arcs.index_add_(0, at, made)
                else:
                    counts.arcs.add_(made[0])
                self.loss += times * found.log_z


def _numpy(tensor: Tensor) -> Array:
    """The numbers of a tensor in float64."""
    return np.asarray(tensor.cpu().double().numpy())


def _exponentials(node: Tensor, wrong: Tensor | None = None, cost: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """exp(node - top) and top [T], the largest score of each row; wrong ones have costs."""
    if cost is not None:
        node = torch.where(wrong, node + cost[:, None], node)
    top = node.amax(1)
    return (node - top[:, None]).exp_(), top


def _on(place: Place, made: Any, dtype: Any = None) -> Any:
    """The same record with tensors in the place of arrays; with `dtype`, those of floating point have that one."""
    if isinstance(made, np.ndarray):
        return place.tensor(made)
    if isinstance(made, list):
        return [_on(place, each, dtype) for each in made]
    if isinstance(made, tuple):
        return type(made)(*(_on(place, each, dtype) for each in made)) if hasattr(made, "_fields") else made
    if dtype is not None and torch.is_tensor(made) and made.is_floating_point():
        return made.to(dtype)
    return made
