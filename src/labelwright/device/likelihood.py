"""The training objective of CRFs, latent or not, on a device: what learn.objective is on the CPU.

One evaluation, shard by shard:  weights -> rows of scores (bags) -> scores of nodes and arcs ->
expected minus observed counts (messages) -> rows -> gradient (bags).  This is work of fixed shape,
which a GPU records once and replays. Sentences whose numbers are too small for scaled probabilities
count nothing there, and are added by the CPU.
"""

import math
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from labelwright.arrays import ranges
from labelwright.corpus.offsets import offsets_from
from labelwright.device.bags import Adjoint, Bags, Features, lists_of
from labelwright.device.layout import Layout, lay_out
from labelwright.device.messages import MOST_NODES, Counts, Shape, Sums, add_posteriors, sums
from labelwright.device.place import Array, Place, Tensor, torch
from labelwright.device.vectors import DeviceVectors
from labelwright.features.incidence import Incidence
from labelwright.learn.objective import LogLikelihood
from labelwright.parallel import Workers, sentence_ranges
from labelwright.scoring.parameters import REACH, Trained
from labelwright.structures.states import StateSpace
from labelwright.structures.supervision import COMPLETE, UNLABELLED, Supervision, kinds_of

SMALL = {4: 1e-30, 8: 1e-280}  # bytes of a number: the least that can be trusted
FEW_TOKENS = 1 << 10  # of a shard: no device is so small


class Shard(NamedTuple):
    """Sentences whose numbers are on the device together, by rows in time order."""

    sentences: tuple[int, int]  # among those that teach something
    layout: Layout
    features: dict[str, tuple[Bags, Adjoint]]
    end: Tensor  # [T]  1 at first tokens, 2 at last ones, 3 at both
    weight: Tensor  # [T]  how often the sentence counts
    code: Tensor  # [T]  label or set of labels
    cost: Tensor | None  # [T]  added to the scores of wrong labels
    # [T, 1]  nodes and arcs of the labels, where all are known and have one path
    path: tuple[Tensor, Tensor] | None


class Model:
    """Scores of nodes and arcs from weights and features, and which nodes are impossible."""

    def __init__(
        self, place: Place, trained: Trained, incidences: dict[str, Incidence], said: Supervision
    ):
        space, parameters = trained.space, trained.parameters
        self.space, self.slices, S, order = (
            space,
            parameters.slices,
            space.n_states,
            space.graph.order,
        )
        self.on_arcs, self.plain = {1: ("edge", "transitions"), 2: ("triple", "triples")}[order]
        self.shape = Shape(order, S, own=self.on_arcs in parameters.cells)
        self.features = {
            name: Features(place, incidences[name], cells, S ** (REACH[name] + 1))
            for name, cells in parameters.cells.items()
        }
        self.no_arc = place.tensor(~space.arc) if order == 1 and not space.arc.all() else None
        shut = _impossible(space, self.shape)
        self.shut = place.tensor(shut) if shut.any() else None  # [4, Q]  by `end`
        allowed = said.allowed(space.n_labels)[:, space.label_of]  # [codes, S]
        self.wrong = place.tensor(~np.tile(allowed, self.shape.n_nodes // S))  # [codes, Q]

    def scores(self, weights: Tensor, shard: Shard) -> tuple[Tensor, Tensor]:
        """The scores of nodes [T, Q], and of arcs [*arcs] or, where every token has its own, [T,
        *arcs]."""
        parts = {
            name: part.scores(weights[self.slices[name]], shard.features[name][0])
            for name, part in self.features.items()
        }
        node, arc = parts["state"], self.shape.arcs_of(weights[self.slices[self.plain]])
        if self.shape.order == 2:
            pairs = weights[self.slices["transitions"]] + parts.get("edge", 0)
            inner = node[:, None] + pairs.unflatten(-1, (-1, node.shape[1]))
            node = torch.cat([inner, node[:, None]], 1).flatten(1)
        if self.shape.own:
            arc = arc + self.shape.arcs_of(parts[self.on_arcs])
        if self.no_arc is not None:
            arc = arc.masked_fill(self.no_arc, -math.inf)
        if self.shut is not None:
            node = node.masked_fill(self.shut.index_select(0, shard.end), -math.inf)
        return node, arc

    def collect(self, counts: Counts, shard: Shard, gradient: Tensor, wide: Any) -> None:
        """The adjoint: add counts to the gradient."""
        arcs = self.shape.codes_of(counts.arcs)
        rows, plain = {"state": counts.nodes, self.on_arcs: arcs}, {self.plain: arcs}
        if self.shape.order == 2:
            grid = counts.nodes.unflatten(1, self.shape.grid)
            rows["state"], rows["edge"] = grid.sum(1), grid[:, :-1].flatten(1)
            plain["transitions"] = rows["edge"]
        for name, part in self.features.items():
            part.collect(rows[name], shard.features[name][1], gradient[self.slices[name]])
        for name, each in plain.items():
            gradient[self.slices[name]] += (
                each.sum(0, dtype=wide) if each.dim() == 2 else each
            ).to(gradient.dtype)


def _impossible(space: StateSpace, shape: Shape) -> Array:
    """The nodes [4, Q] that are impossible inside a sentence, at its first token, at its last, and
    at both."""
    shut = np.zeros((4, shape.n_nodes // space.n_states, space.n_states), np.bool_)
    if shape.order == 2:
        shut[[0, 2], -1] = shut[[1, 3], :-1] = True
        shut[:, :-1] |= ~space.arc
    shut[[1, 3]] |= ~space.start
    shut[[2, 3]] |= ~space.end
    return shut.reshape(4, -1)


class TorchLikelihood:
    """minus log-likelihood and its gradient, as LogLikelihood, of vectors on a device; `data` are
    those of a tagger."""

    def __init__(self, place: Place, trained: Trained, data: Any, dtype: Any = None):
        self.place, self.vectors, self.dtype, self.trained = (
            place,
            DeviceVectors(place),
            dtype or torch.float32,
            trained,
        )
        self.incidences, self.offsets, self.gold, self.said = data[:4]
        kinds = kinds_of(self.gold, self.offsets, self.said, trained.space.n_labels)
        self.clamped = trained.space.latent or bool((kinds != COMPLETE).any())
        # all paths agree with what is known of the others
        self.taught = np.flatnonzero(kinds != UNLABELLED)
        self.model = model = Model(place, trained, self.incidences, self.said)
        numbers = 2 * sum(part.width for part in model.features.values()) + (
            4 * model.shape.n_arcs if model.shape.own else 0
        )
        numbers += (16 if self.clamped else 10) * model.shape.n_nodes
        self.tokens = max(FEW_TOKENS, place.shard_bytes // (4 * numbers))  # of a shard
        self.shards: list[Any] = []
        self._prepare()

    def precise(self) -> "TorchLikelihood | None":
        """The same in float64; None where this is in float64, or the device has none."""
        if self.dtype == torch.float64 or self.place.wide != torch.float64:
            return None
        made = copy(self)
        made.dtype = torch.float64
        made._prepare()
        return made

    # -- layout ------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Lay out the data, take memory, and record an evaluation; in smaller shards where memory
        is short."""
        place, ends = self.place, offsets_from(np.diff(self.offsets)[self.taught])
        while True:
            try:
                self.shards = self.shards or place.laid(
                    [self._shard(*cut) for cut in sentence_ranges(ends, self.tokens)]
                )
                self.weights, self.gradient = place.zeros(
                    2, self.trained.parameters.n_weights, dtype=self.dtype
                )
                self.loss = place.zeros(1, dtype=place.wide)
                self.failed = place.zeros(len(self.taught), dtype=self.dtype)
                self.stages = place.recorded(
                    [partial(self._evaluate, shard) for shard, _ in self.shards]
                )
                return
            except torch.cuda.OutOfMemoryError:
                self.shards, self.stages = [], []
            if self.tokens <= FEW_TOKENS:
                table = max(part.n_rows * part.width for part in self.model.features.values())
                raise place.too_small("features", table * self.dtype.itemsize)
            torch.cuda.empty_cache()
            self.tokens //= 2

    def _shard(self, begin: int, end: int) -> Shard:
        """Some of the sentences that teach something, with arrays."""
        model, said, n = self.model, self.said, self.taught[begin:end]
        lengths = np.diff(self.offsets)[n]
        made = lay_out(offsets_from(lengths), model.shape.n_nodes <= MOST_NODES)
        token = ranges(self.offsets[n], lengths)[made.token]
        weight, ends, cost = np.ones(len(n)), np.where(made.before == len(token), 1, 0), None
        ends[made.last] += 2
        if said.of_sentences is not None:
            weight = said.of_sentences[n]
        if said.of_tokens is not None:
            with np.errstate(divide="ignore"):
                cost = np.log(said.of_tokens[token])
        features = {name: part.of(token) for name, part in model.features.items()}
        code = self.gold[token].astype(np.int64)
        path = None if self.clamped else self._path(made.before, code)
        return Shard((begin, end), made, features, ends, weight[made.sentence], code, cost, path)

    def _path(self, before: Array, state: Array) -> tuple[Array, Array]:
        """The nodes and arcs [T, 1] of the path of labels, which are states; arcs into first tokens
        do not count."""
        T, S = len(state), self.trained.space.n_states
        one = np.append(np.append(state, S)[before], S)  # the state before; S: none
        if self.model.shape.order == 1:
            node, arc = state, one[:T] * S + state
        else:
            node, arc = one[:T] * S + state, (one[:T] * (S + 1) + one[before]) * S + state
        return node[:, None], np.where(before < T, arc, 0)[:, None]

    # -- one evaluation ----------------------------------------------------------------------------

    def __call__(self, weights: Tensor, gradient: Tensor) -> float:
        """Fill `gradient` and return the loss."""
        self.weights.copy_(weights)
        for total in (self.gradient, self.loss, self.failed):
            total.zero_()
        for (_, bring), evaluate in zip(self.shards, self.stages, strict=True):
            if bring is not None:
                bring()
            evaluate()
        gradient.copy_(self.gradient)
        loss, failed = torch.stack([self.loss[0], self.failed.sum(dtype=self.place.wide)]).tolist()
        return float(loss + self._rest(gradient) if failed else loss)

    def _evaluate(self, shard: Shard) -> None:
        """Add the gradient and the loss of a shard, and note which of its sentences cannot be
        trusted."""
        model, shape, wide = self.model, self.model.shape, self.place.wide
        layout, weight, path, S = shard.layout, shard.weight, shard.path, model.space.n_states
        node, arc = model.scores(self.weights, shard)
        logs, first = torch.zeros_like(weight), shard.end % 2 == 1
        if path is not None:
            into = (
                arc.flatten(1).gather(1, path[1])[:, 0]
                if shape.own
                else arc.flatten().index_select(0, path[1][:, 0])
            )
            logs -= weight * (node.gather(1, path[0])[:, 0].to(wide) + into.masked_fill(first, 0))
        arc_top = arc.amax(tuple(range(-len(shape.arcs), 0)), keepdim=True)
        E = (arc - arc_top).exp_().div_(S)
        del arc
        wrong = (
            model.wrong.index_select(0, shard.code)
            if self.clamped or shard.cost is not None
            else None
        )
        free, top = _exponentials(node, wrong, shard.cost)
        passes, logs = [free], logs + top * weight
        if path is None:
            permitted, top = _exponentials(node.masked_fill(wrong, -math.inf))
            passes, logs = [free, permitted], logs - top * weight
        else:
            logs += weight * (arc_top.view(-1).to(wide) + math.log(S)).masked_fill(first, 0)
        every = sums(self.place, shape, passes, E, layout)
        least = [torch.minimum(made.right_scale, made.scale * made.mass) for made in every]
        bad = ~(torch.stack(least).amin(0) > SMALL[free.itemsize])  # so is what is no number
        failed = self.failed[slice(*shard.sentences)]
        failed.index_add_(0, layout.sentence, bad.to(failed.dtype))  # whole numbers: in any order
        lost = failed.index_select(0, layout.sentence) > 0
        arcs = [E, E]
        if path is not None:  # its probability is one
            one = E.new_ones(())
            passes.append(torch.zeros_like(node).scatter_(1, path[0], 1))
            every.append(Sums(one, one, one, one, one))
            arcs = [E, one]
        counts = Counts(
            torch.zeros_like(node), torch.zeros_like(E, dtype=None if shape.own else wide)
        )
        for sign, psi, e, made in zip((1, -1), passes, arcs, every, strict=True):
            add_posteriors(shape, psi, e, made, sign * weight, lost[:, None], layout.before, counts)
            logs += (
                sign
                * weight
                * (made.scale * made.mass.masked_fill(shard.end < 2, 1)).to(wide).log()
            )
        self.loss += logs.masked_fill_(lost, 0).sum()
        model.collect(counts, shard, self.gradient, wide)

    def _rest(self, gradient: Tensor) -> float:
        """Add the gradient of the sentences that failed, and return their loss: by the CPU, which
        has log space."""
        n, said, (extractor, space, parameters) = (
            self.taught[self.failed.cpu().numpy() > 0],
            self.said,
            self.trained[:3],
        )
        lengths = np.diff(self.offsets)[n]
        token, incidences = ranges(self.offsets[n], lengths), {}
        for name, (keys, key_ptr, key_feature, *lists) in self.incidences.items():
            incidences[name] = Incidence(
                keys[token], key_ptr, key_feature, *lists_of(token, *lists)
            )
        weights = (
            None if x is None else x[at]
            for x, at in ((said.of_sentences, n), (said.of_tokens, token))
        )
        said, model = Supervision(said.sets, *weights), (space, parameters, Workers(None))
        data = incidences, extractor.n_features, offsets_from(lengths), self.gold[token]
        problem = LogLikelihood(*data, *model, np.float64, supervision=said)
        more = np.empty(parameters.n_weights)
        loss = problem(self.vectors.numpy(self.weights).astype(np.float64), more)
        gradient += self.place.tensor(more, gradient.dtype)
        return loss


def _exponentials(
    node: Tensor, wrong: Tensor | None = None, cost: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """exp(node - top) and top [T], the largest score of each row; wrong ones have costs."""
    if cost is not None:
        node = torch.where(wrong, node + cost[:, None].to(node.dtype), node)
    top = node.amax(1)
    return (node - top[:, None]).exp_(), top
