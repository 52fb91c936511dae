"""Stochastic gradient descent, one sentence a step (Bottou's schedule), for quick models on large
data."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import Incidence
from labelwright.kernels import sgd as kernels
from labelwright.learn.monitor import Monitor
from labelwright.learn.variables import bounded, of_model
from labelwright.scoring.assembly import Assembly
from labelwright.scoring.parameters import Cells, Parameters
from labelwright.structures.states import StateSpace
from labelwright.structures.supervision import PLAIN, Supervision

Array = NDArray[Any]
TRIAL_SENTENCES = 1000  # sample for choosing the first learning rate
TRIAL_RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)


class Topology(NamedTuple):
    """Nodes and arcs, and which of them are forbidden."""

    blocks: Any
    contexts: Any
    state: Array  # [Q]     state of each node
    # [3, Q]  0, or minus infinity: at the first token, at the others, and also at the last one
    fence: Array
    node: Array  # [Q]     at every token
    arc: Array  # [A]
    has_node: Array  # [Q]     1 where a plain transition has a weight, else 0
    has_arc: Array  # [A]
    n_states: int
    most_in_context: int  # nodes of the largest context,
    most_targets: int  # and the most targets of one label that a node has
    states_share: Any  # Sharing
    nodes_share: Any
    arcs_share: Any


class Said(NamedTuple):
    """What is said of labels: codes from n_labels on are sets of labels; weights where there are
    any."""

    n_labels: int
    right: Array  # [C, Q]  nodes that a label or set of labels allows
    of_sentences: Array  # [N|0]  how often each sentence counts
    cost: Array  # [T|0]  added to the scores of wrong nodes


class Sharing(NamedTuple):
    """Columns of states, nodes or arcs whose weights share u, w = u + c v: a step of u and v is one
    of w along (the sum of the gradient over the group) + c^2 (the gradient)."""

    group: Array  # [C]  empty where nothing is shared
    deviation: Array  # [C]  c^2; 0 in a group of one
    n_groups: int


class FeaturePart(NamedTuple):
    """The features of states, of nodes (order 2: pairs of states) or of arcs; without weights the
    part is unused."""

    weights: Array  # [W]
    incidence: Any  # Incidence: the features of each token
    cells: Any  # Cells: the columns of each feature


class Schedule(NamedTuple):
    """Step t has the learning rate eta / (1 + eta decay t)."""

    eta: float
    decay: float
    taken: int  # steps before this pass


class SGD:
    """The data and weights of a run; a pass is one kernel call."""

    def __init__(
        self,
        incidences: dict[str, Incidence],
        offsets: NDArray[np.int64],
        gold: NDArray[np.int32],
        space: StateSpace,
        parameters: Parameters,
        l2: float,
        random_state: int,
        supervision: Supervision = PLAIN,
        l2_latent: float | None = None,
    ):
        self.offsets, self.gold, self.parameters = offsets, gold, parameters
        self.n = len(offsets) - 1
        self.decay, self.seed = bounded(l2) / self.n, random_state
        self.variables = of_model(parameters, space, 0.0, l2, l2_latent)
        self.build, self.graph = Assembly(space, parameters), space.graph
        forbidden = self.build.plain(np.zeros(parameters.n_weights))  # 0, or minus infinity
        fence = np.zeros((3, len(forbidden.node)))
        self.build.fence(fence, np.array([0, 3]))
        fence[2] = 0
        fence[2, self.build.no_end] = -np.inf
        has = self.build.transition_weights(np.ones(parameters.n_weights))
        graph, sizes = (
            self.graph,
            (space.n_states, self.graph.most_in_context, self.graph.most_targets),
        )
        shared = _sharing(space, len(forbidden.node), l2, l2_latent)
        of_graph = graph.blocks, graph.contexts, graph.state, fence
        self.topology = Topology(*of_graph, *forbidden, *has, *sizes, *shared)
        self.said = _said(supervision, space)
        # State features, features on nodes (pairs, of order 2) and on arcs (pairs or triples); one
        # column more than there are nodes or arcs takes what the space forbids.
        no_cells = Cells(np.zeros(1, np.int64), np.empty(0, np.int32))
        self.names = ["state", "edge" if self.graph.order == 2 else "", self.build.arc_kind]
        self.features: list[tuple[Incidence, Cells]] = []
        for name, dead in zip(
            self.names, (0, len(forbidden.node), len(forbidden.arc)), strict=True
        ):
            incidence = incidences.get(name, incidences["state"])
            incidence = incidence._replace(token_value=incidence.token_value.astype(np.float32))
            cells = self.build.cells.get(name, no_cells)
            if name in self.build.used:
                place = np.where(self.build.used[name] < 0, dead, self.build.used[name])
                cells = cells._replace(column=place[cells.column].astype(np.int32))
            self.features.append((incidence, cells))

    def one_pass(
        self, weights: Array, shrink: float, order: Array, eta: float, taken: int
    ) -> tuple[float, float]:
        """Update `weights` (float64, in place); returns the penalised loss before each update and
        the new shrink."""
        slices, plain = self.build.parts, self.build.transition_weights(weights)
        parts = [
            FeaturePart(weights[slices[name]] if name in slices else weights[:0], *features)
            for name, features in zip(self.names, self.features, strict=True)
        ]
        schedule = Schedule(eta, self.decay, taken)
        loss, shrink = kernels.sgd_pass(
            order, self.offsets, self.gold, self.said, self.topology, *parts,
            plain, schedule, shrink,
        )  # fmt: skip
        self.build.store_transitions(*plain, weights)
        return loss + 0.5 * shrink**2 * float(
            self.variables.l2 @ self.variables.of(weights) ** 2
        ), shrink

    def first_rate(self, weights: Array) -> float:
        """The learning rate with the lowest loss after one pass over a sample."""
        sample = np.random.default_rng([self.seed, 0]).permutation(self.n)[:TRIAL_SENTENCES]
        reached = {}
        for eta in TRIAL_RATES:
            copy = weights.copy()
            _, shrink = self.one_pass(copy, 1.0, sample, eta, 0)
            reached[eta] = self.one_pass(copy, shrink, sample, 1e-12, 0)[0]
        return min(
            (eta for eta in reached if np.isfinite(reached[eta])),
            key=lambda eta: reached[eta],
            default=0.001,
        )


def _said(supervision: Supervision, space: StateSpace) -> Said:
    """What the data say beside labels, as kernels take it."""
    _, of_sentences, of_tokens = supervision
    right = supervision.allowed(space.n_labels)[:, space.graph.label_of_node]
    with np.errstate(divide="ignore"):
        cost = np.empty(0) if of_tokens is None else np.log(of_tokens)
    often = np.empty(0) if of_sentences is None else of_sentences
    return Said(space.n_labels, np.ascontiguousarray(right), often, cost)


def _sharing(space: StateSpace, width: int, l2: float, l2_latent: float | None) -> list[Sharing]:
    """What latent states, nodes (pairs, of order 2) and arcs share with others of the same
    labels."""
    graph, (source, target) = space.graph, space.graph.ends
    last, before = (
        space.label_of[graph.state],
        np.where(graph.previous < 0, -1, space.label_of[graph.previous]),
    )
    of_arcs = np.stack([before[source], last[source], last[target]])
    shared = []
    for labels, n in (
        (space.label_of[None], space.n_states),
        (np.stack([before, last]), width),
        (of_arcs, None),
    ):
        group = np.unique(labels, axis=1, return_inverse=True)[1].reshape(-1)
        group = np.concatenate([group, np.arange(len(group), n or 0)])  # a row may be padded
        several = np.bincount(group)[group] > 1
        if l2_latent is None or not several.any():
            group, several = group[:0], several[:0]
        ratio = 1.0 if not l2_latent else bounded(l2) / bounded(l2_latent)
        shared.append(Sharing(group, np.where(several, ratio, 0.0), int(group.max(initial=-1)) + 1))
    return shared


def sgd(
    run: SGD,
    weights: Array,
    monitor: Monitor,
    state: dict[str, Array] | None = None,
    average_from: int | None = None,
) -> Array:
    """Passes over shuffled sentences until the monitor says stop; returns the weights or, with
    `average_from`, the mean of the weights after that pass and each later one."""
    if state is None:
        w, shrink, done = weights.astype(np.float64), 1.0, 0
        total = np.zeros_like(w if average_from is not None else w[:0])
        eta = run.first_rate(w)
    else:
        like = {
            "w": weights.astype(np.float64),
            "shrink": np.array(1.0),
            "done": np.array(1),
            "eta": np.array(1.0),
        }
        like["total"] = like["w"] if average_from is not None else like["w"][:0]
        monitor.check_state(state, like, weights)
        w, shrink, done, eta = (
            state["w"],
            float(state["shrink"]),
            int(state["done"]),
            float(state["eta"]),
        )
        total = state["total"]

    def result() -> Array:
        """The weights so far, or the mean of those after the last passes."""
        if average_from is None or done < average_from:
            return (w * shrink).astype(np.float32)
        return (total / (done - average_from + 1)).astype(np.float32)

    while not monitor.stop:
        order = np.random.default_rng([run.seed, done + 1]).permutation(run.n)
        loss, shrink = run.one_pass(w, shrink, order, eta, done * run.n)
        if shrink < 1e-9:
            w *= shrink
            shrink = 1.0
        done += 1
        if average_from is not None and done >= average_from:
            total += w * shrink
        saved = {
            "w": w,
            "shrink": np.array(shrink),
            "done": np.array(done),
            "eta": np.array(eta),
            "total": total,
        }
        monitor.report(loss=loss, weights=result(), state=lambda saved=saved: saved)  # type: ignore[misc]
    return monitor.best(result())
