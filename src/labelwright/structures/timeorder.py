"""Sums over all paths of a whole batch of chains, in NumPy.

The sentences of a batch are sorted by length, the longest first, and their tokens stored step by
step: all first tokens, all second tokens, and so on.  A step of forward-backward is then one small
matrix product for all sentences that are still going, and the expected counts of the arcs are one
product of two tall matrices.

With psi_t(s) = exp(node score - its maximum at t) and E(r, s) = exp(arc score - its maximum):

    alpha_t(s) = psi_t(s) sum_r alpha_{t-1}(r) E(r, s) / c_t        c_t makes alpha_t sum to one
    beta_{t-1}(r) = sum_s E(r, s) psi_t(s) beta_t(s) / c_t          beta_T = 1
    log Z = sum_t (log c_t + maximum of node at t) + the maxima of the arcs
    P(s at t) = alpha_t(s) beta_t(s)
    P(r, s at t-1, t) = alpha_{t-1}(r) E(r, s) psi_t(s) beta_t(s) / c_t

States r, s are the nodes of a graph.  Its blocks (graph.Blocks) are dense matrices from sources to
targets: one of first order, one for every state in the middle of second order; neighbouring blocks
of the same size make one batched product.  Clamped sums are the same pass with psi = 0 for all
nodes that the labels do not allow.

The covariance of every node and arc with the gain of a path, in time order: the backward pass of a
cascade's layer (Azuma & Matsumoto 2011).

A layer passes probabilities of labels and of pairs of neighbouring labels.  Given the derivatives g
of a loss by these, the derivative by the score of a node or an arc is its covariance with the gain
G of a path, the sum of g over the labels and pairs on it.  With the messages of timeorder, and
gains gamma_t(s) on nodes, g_t(r, s) on arcs:

    alpha'_t(s) = psi_t(s) sum_r E(r, s) (alpha'_{t-1}(r) + g_t(r, s) alpha_{t-1}(r)) / c_t
                  + gamma_t(s) alpha_t(s)
    beta'_{t-1}(r) = sum_s E(r, s) psi_t(s) (beta'_t(s) + (gamma_t(s) + g_t(r, s)) beta_t(s)) / c_t
    Cov(G, s at t) = alpha'_t(s) beta_t(s) + alpha_t(s) beta'_t(s)

if the mean of G is zero.  It is made so token by token, by taking the mean of what token t adds off
its gamma_t, which keeps all numbers small.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import row_maxima
from labelwright.kernels import chain, common, inference
from labelwright.structures.states import Graph
from labelwright.structures.steps import Plan as Plan
from labelwright.structures.steps import plan as plan
from labelwright.structures.steps import runs_of

Array = NDArray[Any]
STEP_ARCS = 1 << 17  # calling BLAS for a step takes as long as it saves on so many arcs


class Products:
    """The products of rows over nodes with the arcs of a graph, block by block.

    Where every row has its own arcs, kernels take half the time of batched products in NumPy (15 to
    44 states, ARM)."""

    def __init__(self, graph: Graph):
        self.n_arcs, self.blocks, self.runs = graph.n_arcs, graph.blocks, runs_of(graph.blocks)
        self.dense = graph.width if graph.order == 1 else 0  # one block of all nodes
        self.source = graph.blocks.source
        self.place = np.argsort(self.source)  # from nodes in the order of sources back to nodes

    def by_step(self, plan: Plan) -> bool:
        """Do so few labels and sentences go on at a step that one compiled loop is faster than a
        product for each?"""
        is_dense = self.dense > 0 and self.dense % 4 == 0
        return is_dense and len(plan.token) * self.n_arcs < STEP_ARCS * (len(plan.steps) - 1)

    def by_source(self, x: Array) -> Array:
        """x [n, Q] in the order of sources."""
        return x.take(self.source, axis=1, mode="clip")

    def onwards(self, x: Array, E: Array, out: Array) -> None:
        """out[n, s] = sum_r x[n, r] E[n, arc from r to s], with E [1|n, A]."""
        if len(E) > 1:
            chain.onwards(x, E, self.blocks, out)
            return
        if self.dense:
            np.matmul(x, E.reshape(self.dense, self.dense), out=out)
            return
        x = self.by_source(x)
        for run in self.runs:
            left, right = run.at_sources(x), run.at_targets(out)
            np.matmul(left.transpose(1, 0, 2), run.matrices(E)[0], out=right.transpose(1, 0, 2))

    def backwards(self, x: Array, E: Array, out: Array) -> None:
        """out[n, r] = sum_s E[n, arc from r to s] x[n, s], with E [1|n, A]."""
        if len(E) > 1:
            chain.backwards(x, E, self.blocks, out)
            return
        if self.dense:
            np.matmul(x, E.reshape(self.dense, self.dense).T, out=out)
            return
        sums = np.empty_like(out)  # in the order of sources
        for run in self.runs:
            back = run.matrices(E)[0].transpose(0, 2, 1)
            left, right = run.at_sources(sums), run.at_targets(x)
            np.matmul(right.transpose(1, 0, 2), back, out=left.transpose(1, 0, 2))
        out[:] = sums.take(self.place, axis=1, mode="clip")

    def add_counts(self, x: Array, y: Array, counts: Array) -> None:
        """counts [A] += the sum over n of x[n, r] y[n, s] for the arc from r to s."""
        if self.dense:
            counts.reshape(self.dense, self.dense)[:] += x.T @ y
            return
        x = self.by_source(x)
        for run in self.runs:
            left, right = run.at_sources(x).transpose(1, 2, 0), run.at_targets(y).transpose(1, 0, 2)
            run.matrices(counts[None])[0] += np.matmul(left, right)

    def multiply_outer(self, x: Array, y: Array, E: Array) -> None:
        """E[n, arc from r to s] *= x[n, r] y[n, s], with E [n, A]."""
        chain.multiply_outer(x, y, E, self.blocks)


class Messages(NamedTuple):
    """Forward and backward messages of a batch in time order, and which sentences they do not
    serve."""

    alpha: Array  # [T, Q]
    beta: Array  # [T, Q]
    into: Array  # [T, Q]  psi beta / c
    scale: Array  # [T]     c
    failed: Array  # [N]     their numbers are too small or too large; their messages are 0


def at_step(E: Array, begin: int, end: int) -> Array:
    """The rows of one step, where a single row serves all."""
    return E if len(E) == 1 else E[begin:end]


def messages(
    psi: Array,
    E: Array,
    products: Products,
    plan: Plan,
    scratch: Array | None = None,
    count: bool = False,
) -> Messages:
    """Forward-backward in scaled probability space: psi [T, Q] in time order, E [1|T, A] (one row
    serves every token; that of a first token does not count).  `scratch` [3, T, Q] is where the
    messages are to lie.

    With `count`, rows of E that serve one token become the probabilities of its arcs (0 at first
    tokens)."""
    alpha, beta, into = np.empty((3, *psi.shape), psi.dtype) if scratch is None else scratch
    scale, sums, inverse = np.empty((3, len(psi)), psi.dtype)
    count = count and len(E) > 1
    if len(E) > 1 or plan.narrow:
        lay_out = products.blocks, plan.steps, plan.lengths
        chain.messages_by_sentence(psi, E, *lay_out, alpha, beta, into, scale, sums, count)
    elif products.by_step(plan):
        onwards = E.reshape(products.dense, products.dense)
        backwards = np.ascontiguousarray(onwards.T)
        outputs = alpha, beta, into, scale, inverse, sums
        chain.messages_by_step(psi, onwards, backwards, plan.steps, *outputs)
    else:
        with np.errstate(all="ignore"):
            _fill(psi, E, products, plan, (alpha, beta, into, scale, inverse, sums))
    small, large = common.smallest_scale(psi.itemsize), common.largest_message(psi.itemsize)
    with np.errstate(all="ignore"):
        bad = ~((scale > small) & (sums / scale < large))
    failed = np.zeros(len(plan.order), np.bool_)
    failed[plan.order[plan.rank[bad]]] = True
    if failed.any():
        rows = failed[plan.order[plan.rank]]
        alpha[rows] = beta[rows] = into[rows] = 0
        scale[rows] = 1
    if count:
        E[: plan.n_first] = 0
        if failed.any():
            E[rows] = 0
    return Messages(alpha, beta, into, scale, failed)


def _fill(psi: Array, E: Array, products: Products, plan: Plan, outputs: tuple[Array, ...]) -> None:
    """Fill alpha, beta, into [T, Q], the scales, their inverses and the sums of beta [T], where all
    tokens share their arcs.

    Every step is done with before the next: its rows stay in the processor's cache."""
    alpha, beta, into, scale, inverse, sums = outputs
    steps = plan.steps.tolist()
    # Chosen by type once: at every step that would take as long as the work.
    kind = "float" if psi.itemsize == 4 else "double"
    scale_forward = chain.scale_forward[kind]
    scale_backward = chain.scale_backward[kind]
    for t, (a, b) in enumerate(pairwise(steps)):
        if t == 0:
            alpha[a:b] = 1
        else:
            before = steps[t - 1]
            products.onwards(alpha[before : before + b - a], E, alpha[a:b])
        scale_forward(alpha, psi, a, b, scale, inverse)
    for t in range(len(steps) - 2, -1, -1):
        a, b, end = steps[t], steps[t + 1], steps[min(t + 2, len(steps) - 1)]
        going = end - b
        if going:
            products.backwards(into[b:end], E, beta[a : a + going])
        beta[a + going : b] = 1
        scale_backward(beta, psi, a, b, inverse, into, sums)


def multiply_arcs(sums: Messages, E: Array, products: Products, plan: Plan) -> None:
    """Make rows of arcs E [T, A] their probabilities, 0 at first tokens."""
    steps = plan.steps.tolist()
    E[: plan.n_first] = 0
    for t, (a, b) in enumerate(pairwise(steps[1:])):
        products.multiply_outer(sums.alpha[steps[t] : steps[t] + b - a], sums.into[a:b], E[a:b])


def arc_counts(sums: Messages, products: Products, plan: Plan, runs: Any = None) -> Array:
    """The sums [A] over all tokens of P(arc into t) / E, in float64; `runs` are those of the plan,
    where known."""
    counts = np.zeros(products.n_arcs)
    if plan.narrow:
        products.add_counts(sums.alpha[plan.before], sums.into[plan.n_first :], counts)
        return counts
    for before, here in runs or plan.runs:
        products.add_counts(sums.alpha[before], sums.into[here], counts)
    return counts


# -- for scores of any size ------------------------------------------------------------------------


class Posteriors(NamedTuple):
    """Sums over all paths of every sentence of a batch."""

    log_z: Array  # [N]     minus infinity: there is no path
    nodes: Array  # [T, Q]  P(q at t) in time order
    # [T, Q]  log of what q at t and all that may follow weigh, less a constant of the token
    ahead: Array


def posteriors(
    node: Array, arc: Array, graph: Graph, plan: Plan, products: Products | None = None
) -> Posteriors:
    """Probabilities of the nodes, backward messages and log Z from log scores node [T, Q] (in time
    order) and arc [1|T, A], in float64; minus infinity forbids.  Sentences whose sums under- or
    overflow are done in log space."""
    products = products or Products(graph)
    top, arc_top = row_maxima(node), row_maxima(arc)
    E, ahead = np.exp(arc - arc_top), node - top
    sums = messages(np.exp(ahead), E, products, plan)
    with np.errstate(all="ignore"):
        log_c = np.log(sums.scale) + top[:, 0]
        log_c[plan.n_first :] += arc_top[0] if len(arc_top) == 1 else arc_top[plan.n_first :, 0]
        nodes = sums.alpha * sums.beta
        nodes /= nodes.sum(axis=1, keepdims=True)
        ahead += np.log(sums.beta)
    log_z = plan.by_sentence(log_c)
    for rank in np.flatnonzero(sums.failed[plan.order]).tolist():
        rows = plan.rows_of(rank)
        scores = node[rows], arc if len(arc) == 1 else arc[rows]
        part = np.empty((2, len(rows), node.shape[1]))
        log_z[plan.order[rank]] = inference.messages(*scores, graph.blocks, *part)
        nodes[rows], ahead[rows] = part
    return Posteriors(log_z, nodes, ahead)


# -- covariances: the backward pass of a layer -----------------------------------------------------


class Gains(NamedTuple):
    """The gains of nodes, and those of the few arcs that have one (order 1), by rows in time
    order."""

    nodes: Array  # [T, Q]
    row: Array  # [m]  row that an arc leads into
    arc: Array  # [m]
    source: Array  # [m]  where its source at the row before is in an array [T, Q],
    target: Array  # [m]  and where its target is
    gain: Array  # [m]

    def arcs_of(self, rows: Array, n_arcs: int) -> Array:
        """The gains of all arcs [t, A] of one sentence."""
        place = np.full(len(self.nodes), -1)
        place[rows] = np.arange(len(rows))
        mine = place[self.row] >= 0
        gains = np.zeros((len(rows), n_arcs))
        gains[place[self.row[mine]], self.arc[mine]] = self.gain[mine]
        return gains


def covariances(
    psi: Array, E: Array, sums: Messages, gains: Gains, products: Products, plan: Plan
) -> tuple[Array, Array]:
    """The covariances of nodes [T, Q] and of arcs [T, A], or of arcs summed over all tokens [1, A]
    where these share E; 0 in sentences whose messages failed."""
    alpha, beta, into, scale, _ = sums
    T = len(psi)
    arc = gains.gain * (E[0].take(gains.arc) if len(E) == 1 else E[gains.row, gains.arc])  # [m]
    outgoing, incoming = (
        arc * alpha.reshape(-1).take(gains.source),
        arc * into.reshape(-1).take(gains.target),
    )
    probability = outgoing * into.reshape(-1).take(gains.target)  # gain times P(arc)
    mean = np.einsum("tq,tq,tq->t", gains.nodes, alpha, beta) + np.bincount(
        gains.row, probability, T
    )
    gamma = (gains.nodes - mean[:, None]).astype(psi.dtype)
    rate = psi / scale[:, None]
    ahead = _ahead(E, sums, gamma, rate, _sums(gains.target, outgoing, psi), products, plan)
    behind, onward = _behind(
        E, sums, gamma, rate, _sums(gains.source, incoming, psi), products, plan
    )
    nodes = ahead * beta
    nodes += alpha * behind
    if len(E) == 1:
        counts = np.zeros(products.n_arcs)
        for before, here in plan.runs:
            products.add_counts(ahead[before], into[here], counts)
            products.add_counts(alpha[before], onward[here], counts)
        return nodes, (counts * E[0] + np.bincount(gains.arc, probability, products.n_arcs))[None]
    arcs = np.zeros_like(E)
    for before, here in plan.runs:
        for x, y in ((ahead, into), (alpha, onward)):
            part = E[here].copy()
            products.multiply_outer(x[before], y[here], part)
            arcs[here] += part
    arcs[gains.row, gains.arc] += probability
    return nodes, arcs


def _sums(place: Array, values: Array, like: Array) -> Array | None:
    """Values at places of an array [T, Q], summed; None where there are none."""
    if not len(place):
        return None
    return np.bincount(place, values, like.size).reshape(like.shape).astype(like.dtype)


def _ahead(
    E: Array,
    sums: Messages,
    gamma: Array,
    rate: Array,
    more: Array | None,
    products: Products,
    plan: Plan,
) -> Array:
    """alpha' [T, Q]; `more` is what the gains of arcs add, rate = psi / c."""
    ahead = gamma * sums.alpha
    steps = plan.steps.tolist()
    for t, (a, b) in enumerate(pairwise(steps[1:])):
        arrived = np.empty_like(ahead[a:b])
        products.onwards(ahead[steps[t] : steps[t] + b - a], at_step(E, a, b), arrived)
        if more is not None:
            arrived += more[a:b]
        arrived *= rate[a:b]
        ahead[a:b] += arrived
    return ahead


def _behind(
    E: Array,
    sums: Messages,
    gamma: Array,
    rate: Array,
    more: Array | None,
    products: Products,
    plan: Plan,
) -> tuple[Array, Array]:
    """beta' [T, Q], and psi (beta' + gamma beta) / c."""
    behind, onward = np.zeros_like(gamma), gamma * sums.into
    steps = plan.steps.tolist()
    for t in range(len(steps) - 3, -1, -1):
        a, b, end = steps[t : t + 3]
        onward[b:end] += rate[b:end] * behind[b:end]
        products.backwards(onward[b:end], at_step(E, b, end), behind[a : a + end - b])
        if more is not None:
            behind[a : a + end - b] += more[a : a + end - b]
    onward[: plan.n_first] += rate[: plan.n_first] * behind[: plan.n_first]
    return behind, onward
