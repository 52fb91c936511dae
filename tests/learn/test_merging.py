"""What merging two latent states loses, by the definition: all paths, one token at a time."""

import itertools

import numpy as np
import pytest
from cases import Case
from oracles import Scores, log_sum

from labelwright.learn.merging import clamped, expected_states, merge_losses, node_pairs, siblings_of, to_merge
from labelwright.structures.lattice import posterior
from labelwright.structures.states import resized, state_space

SIZES = [2, 4]  # two labels after a split: one sibling pair, and two


def case(order, copies=False, seed=0, T=4):
    """A random sentence; with `copies`, siblings have the same scores."""
    random, S = np.random.default_rng(seed), sum(SIZES)
    like = np.array([0, 0, 2, 3, 2, 3]) if copies else np.arange(S)
    node, arc = random.normal(size=(T, S))[:, like], random.normal(size=(T, S, S))[:, like][:, :, like]
    triple = random.normal(size=(T, S, S, S))[:, like][:, :, like][:, :, :, like] if order == 2 else None
    return Case(Scores(node, arc, triple), state_space(["x", "y"], SIZES, order))


def allowed(labels):
    return np.eye(2, dtype=bool)[labels]


def by_definition(case, labels, siblings, share):
    """log Z'_y/Z_y - log Z'/Z summed over the tokens, with alpha and beta of every state from all paths."""
    paths, scores = case.paths.paths, case.paths.scores
    right = (case.space.label_of[paths] == labels).all(axis=1)
    losses = np.zeros(len(siblings.first))
    for k, (s, u) in enumerate(zip(*siblings, strict=True)):
        for t, part in itertools.product(range(len(labels)), (np.ones(len(paths), bool), right)):
            mine, weight = paths[part], np.exp(scores[part] - scores.max())
            changed = weight[~np.isin(mine[:, t], [s, u])].sum()
            # of order 2 the state before is part of what leads to a token, and of what follows it
            contexts = np.zeros(len(mine), int) if case.scores.order == 1 or t == 0 else mine[:, t - 1]
            for context in np.unique(contexts):
                sums = [weight[(mine[:, t] == state) & (contexts == context)].sum() for state in (s, u)]
                beta = [np.exp(log_beta(case, part, t, state, context)) for state in (s, u)]
                alpha = [total / b if b else 0.0 for total, b in zip(sums, beta, strict=True)]
                changed += sum(alpha) * (share[s] * beta[0] + share[u] * beta[1])
            losses[k] += np.log(changed / weight.sum()) * (1 if part.all() else -1)
    return losses


def log_beta(case, part, t, state, context):
    """log of the sum over all continuations from a state, less a constant of the token."""
    found = posterior(case.lattice if part.all() else clamped(case.lattice, case.right))
    graph = case.space.graph
    here = graph.state == state
    if graph.order == 2:
        here &= graph.previous == (context if t else -1)
    q = np.flatnonzero(here)[0]
    return found.ahead[t, q] - case.lattice.node[t, q]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("labels", [[0, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]])
def test_the_loss_is_that_of_merging_each_token_alone(order, labels):
    c = case(order)
    c.right = allowed(labels)
    siblings, share = siblings_of(c.space.first), np.array([0.3, 0.7, 0.5, 0.9, 0.5, 0.1])
    found = merge_losses(c.lattice, c.right, node_pairs(c.space.graph, siblings), share)
    np.testing.assert_allclose(found, by_definition(c, np.array(labels), siblings, share), atol=1e-9)
    assert (np.abs(found) > 1e-3).any()


@pytest.mark.parametrize("order", [1, 2])
def test_copies_lose_nothing(order):
    c = case(order, copies=True)
    nodes = node_pairs(c.space.graph, siblings_of(c.space.first))
    found = merge_losses(c.lattice, allowed([0, 1, 1, 0]), nodes, np.full(6, 0.5))
    np.testing.assert_allclose(found, 0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_expected_states_are_those_of_the_paths_of_the_labels(order):
    c, labels = case(order), np.array([1, 0, 1, 1])
    paths, scores = c.paths.paths, c.paths.scores
    right = (c.space.label_of[paths] == labels).all(axis=1)
    p = np.exp(scores[right] - log_sum(scores[right]))
    expected = [p @ (paths[right] == state).sum(axis=1) for state in range(6)]
    np.testing.assert_allclose(expected_states(c.lattice, allowed(labels)), expected, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_nodes_of_siblings_have_the_same_state_before_them(order):
    space = state_space(["O", "B-X", "I-X"], [2, 2, 4], order, "iob2")
    siblings, graph = siblings_of(space.first), space.graph
    first, second, pair = node_pairs(graph, siblings)
    assert (graph.state[first] == siblings.first[pair]).all()
    assert (graph.state[second] == siblings.second[pair]).all()
    assert (graph.previous[first] == graph.previous[second]).all()
    assert len(first) == np.isin(graph.state, siblings.first).sum()


def test_merges_are_those_that_lose_least_and_keep_the_limits():
    losses, label = np.array([0.5, -1.0, 2.0, 0.1]), np.array([0, 0, 1, 1])
    none = np.array([9, 9])
    assert to_merge(losses, label, none, 0.0).tolist() == [False, True, False, False]  # gains nothing
    assert to_merge(losses, label, none, 0.5).tolist() == [False, True, False, True]
    assert to_merge(losses, label, none, 1.0).all()
    assert to_merge(losses, label, np.array([2, 9]), 0.0).tolist() == [True, True, False, False]
    assert to_merge(np.array([3.0, 2.0, 1.0]), np.array([0, 0, 1]), none, 0.5).tolist() == [False, False, True]


def test_a_space_with_other_numbers_of_states_allows_the_same_labels():
    space = state_space(["O", "B-X", "I-X"], [2, 1, 3], 2, "iob2", [(0, 1)])
    other = resized(space, [1, 4, 2])
    expected = state_space(["O", "B-X", "I-X"], [1, 4, 2], 2, "iob2", [(0, 1)])
    for name in ("first", "label_of", "start", "arc", "end"):
        np.testing.assert_array_equal(getattr(other, name), getattr(expected, name))
    assert other.graph.n_nodes == expected.graph.n_nodes
