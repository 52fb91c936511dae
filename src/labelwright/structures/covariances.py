"""The covariance of every node and arc with the gain of a path, in time order: the backward pass of a cascade's layer
(Azuma & Matsumoto 2011).

A layer passes probabilities of labels and of pairs of neighbouring labels.  Given the derivatives g of a loss by these,
the derivative by the score of a node or an arc is its covariance with the gain G of a path, the sum of g over the
labels and pairs on it.  With the messages of timeorder, and gains gamma_t(s) on nodes, g_t(r, s) on arcs:

    alpha'_t(s) = psi_t(s) sum_r E(r, s) (alpha'_{t-1}(r) + g_t(r, s) alpha_{t-1}(r)) / c_t + gamma_t(s) alpha_t(s)
    beta'_{t-1}(r) = sum_s E(r, s) psi_t(s) (beta'_t(s) + (gamma_t(s) + g_t(r, s)) beta_t(s)) / c_t
    Cov(G, s at t) = alpha'_t(s) beta_t(s) + alpha_t(s) beta'_t(s)

if the mean of G is zero.  It is made so token by token, by taking the mean of what token t adds off its gamma_t, which
keeps all numbers small.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.structures.timeorder import Messages, Plan, Products, at_step

Array = NDArray[Any]


class Gains(NamedTuple):
    """The gains of nodes, and those of the few arcs that have one (order 1), by rows in time order."""

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
    """The covariances of nodes [T, Q] and of arcs [T, A], or of arcs summed over all tokens [1, A] where these share E;
    0 in sentences whose messages failed."""
    alpha, beta, into, scale, _ = sums
    T = len(psi)
    arc = gains.gain * (E[0].take(gains.arc) if len(E) == 1 else E[gains.row, gains.arc])  # [m]
    outgoing, incoming = arc * alpha.reshape(-1).take(gains.source), arc * into.reshape(-1).take(gains.target)
    probability = outgoing * into.reshape(-1).take(gains.target)  # gain times P(arc)
    mean = np.einsum("tq,tq,tq->t", gains.nodes, alpha, beta) + np.bincount(gains.row, probability, T)
    gamma = (gains.nodes - mean[:, None]).astype(psi.dtype)
    rate = psi / scale[:, None]
    ahead = _ahead(E, sums, gamma, rate, _sums(gains.target, outgoing, psi), products, plan)
    behind, onward = _behind(E, sums, gamma, rate, _sums(gains.source, incoming, psi), products, plan)
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
    E: Array, sums: Messages, gamma: Array, rate: Array, more: Array | None, products: Products, plan: Plan
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
    E: Array, sums: Messages, gamma: Array, rate: Array, more: Array | None, products: Products, plan: Plan
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
