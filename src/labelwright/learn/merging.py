"""How much log-likelihood is lost where two latent states that were split become one again (after Petrov, Barrett,
Thibaux & Klein 2006, for chains and P(y|x)).

Let alpha and beta be the forward and backward sums of the two states s and u at a token, p and q = 1 - p their shares
of all their tokens (expected, given the labels).  As one state they would be entered as either was, alpha_s + alpha_u,
and left as their mean, p beta_s + q beta_u.  A sum over paths Z becomes, merged at this token alone,

    Z'/Z = 1 + q P(s) (r - 1) + p P(u) (1/r - 1)        with r = beta_u / beta_s,

and log P(y|x) = log Z_y - log Z changes by log Z'_y/Z_y - log Z'/Z.  The loss is minus the sum of that over all tokens.
It is 0 for exact copies.  Approximate are: tokens one by one while all others keep both states, no training after the
merge, no penalty; and the scale at which weights lie on transitions into a state or out of it, on which r depends and P
does not, is that of the trained weights (a penalty keeps it balanced).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.structures.lattice import Lattice, Posterior, posterior
from labelwright.structures.states import Graph

Array = NDArray[Any]
FARTHEST = 50.0  # |log r|


class Siblings(NamedTuple):
    """Pairs of states that were one before a split."""

    first: Array  # [P]
    second: Array  # [P]


class NodePairs(NamedTuple):
    """The nodes of siblings: of order 1 the states, of order 2 the pairs of states that differ in the second only."""

    first: Array  # [K]
    second: Array  # [K]
    pair: Array  # [K]  the siblings that they belong to


def siblings_of(first: Array) -> Siblings:
    """The siblings where each state has been split: label l has the states first[l]:first[l+1], in the first half of
    them the originals and in the second half, in the same order, their copies.

    >>> siblings_of(np.array([0, 2, 6]))
    Siblings(first=array([0, 2, 3]), second=array([1, 4, 5]))
    """
    half = np.diff(first) // 2
    originals = np.concatenate([np.arange(a, a + n) for a, n in zip(first[:-1], half, strict=True)])
    return Siblings(originals, originals + np.repeat(half, half))


def node_pairs(graph: Graph, siblings: Siblings) -> NodePairs:
    """The nodes of these states that have the same state before them."""
    S = graph.n_states
    copy_of, pair_of = np.full(S, -1), np.full(S, -1)
    copy_of[siblings.first], pair_of[siblings.first] = siblings.second, np.arange(len(siblings.first))
    first = np.flatnonzero(copy_of[graph.state] >= 0)
    codes = (graph.previous.astype(np.int64) + 1) * S + graph.state
    if graph.order == 1:
        codes = graph.state.astype(np.int64)
    wanted = codes[first] - graph.state[first] + copy_of[graph.state[first]]
    order = np.argsort(codes, kind="stable")
    second = order[np.searchsorted(codes, wanted, sorter=order)]
    return NodePairs(first, second, pair_of[graph.state[first]])


def clamped(lattice: Lattice, allowed: Array) -> Lattice:
    """The lattice of the labellings whose labels are allowed [T, L]."""
    permitted = allowed[:, lattice.graph.label_of_node]
    return lattice._replace(node=np.where(permitted, lattice.node, -np.inf))


def expected_states(lattice: Lattice, allowed: Array) -> Array:
    """How often each state occurs on the paths of the allowed labels [S]."""
    expected = posterior(clamped(lattice, allowed)).nodes.sum(axis=0)
    return np.bincount(lattice.graph.state, expected, lattice.graph.n_states)


def merge_losses(lattice: Lattice, allowed: Array, nodes: NodePairs, share: Array) -> Array:
    """What one sentence loses by each merge [P]; `share` [S] is that of a state among two siblings."""
    shares = share[lattice.graph.state[nodes.first]], share[lattice.graph.state[nodes.second]]
    n_pairs = int(nodes.pair.max(initial=-1)) + 1

    def log_change(sums: Posterior) -> Array:
        """log Z'/Z at each token [T, P]."""
        with np.errstate(invalid="ignore"):
            log_beta = sums.ahead - lattice.node  # less a constant of the token
            ratio = log_beta[:, nodes.second] - log_beta[:, nodes.first]
        ratio = np.clip(np.nan_to_num(ratio, posinf=FARTHEST, neginf=-FARTHEST), -FARTHEST, FARTHEST)
        by_node = shares[1] * sums.nodes[:, nodes.first] * np.expm1(ratio)
        by_node += shares[0] * sums.nodes[:, nodes.second] * np.expm1(-ratio)
        change = np.zeros((len(ratio), n_pairs))
        np.add.at(change.T, nodes.pair, by_node.T)
        return np.log1p(np.maximum(change, -1 + 1e-12))

    every, right = posterior(lattice), posterior(clamped(lattice, allowed))
    return np.asarray((log_change(every) - log_change(right)).sum(axis=0))


def to_merge(losses: Array, label: Array, most: Array, share: float) -> Array:
    """Which of the siblings to merge [P]: this share of all of them, and those that lose nothing; then, of labels [P]
    with more than `most` states [L], as many as it takes; each time those that lose least.

    >>> to_merge(np.array([3.0, 1.0, 2.0, 5.0]), np.array([0, 0, 1, 1]), np.array([4, 4]), 0.5).tolist()
    [False, True, True, False]
    >>> to_merge(np.array([3.0, 1.0, 2.0, 5.0]), np.array([0, 0, 1, 1]), np.array([2, 4]), 0.25).tolist()
    [True, True, False, False]
    """
    order = np.argsort(losses, kind="stable")
    merge = losses <= 0
    merge[order[: int(share * len(losses))]] = True
    for number, limit in enumerate(most.tolist()):
        mine = order[label[order] == number]
        surplus = 2 * len(mine) - int(merge[mine].sum()) - limit
        merge[mine[~merge[mine]][: max(0, surplus)]] = True
    return merge
