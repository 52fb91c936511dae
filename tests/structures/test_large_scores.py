"""Probabilities from scores so large that float64 leaves few digits for what counts: they still add
up to 1, and what all paths have in common changes nothing."""

import numpy as np
import pytest
from cases import Case
from oracles import Scores
from uncompiled import uncompiled

from labelwright.answers.chains import _span_transitions
from labelwright.corpus.schemes import boundaries
from labelwright.decode import paths as paths_module
from labelwright.decode.paths import best_paths
from labelwright.errors import OptionError
from labelwright.kernels import clamped
from labelwright.structures import dag
from labelwright.structures.lattice import (
    arcs_from,
    posterior,
    posterior_arcs,
    sample,
    span_probabilities,
)
from labelwright.structures.states import state_space

T, LABELS, SIZES = 6, ("O", "B-X", "I-X"), (1, 2, 2)
S = sum(SIZES)
SCALES = [2.0**50, 2.0**63, 2.0**96]  # powers of 2: small multiples of them are exact


def lattice_of(node, arc, order):
    """A lattice with these scores of arcs; of order 2 they are those of the first and the last
    state of a triple."""
    space = state_space(LABELS, SIZES, order)
    scores = Scores(node, arc)
    if order == 2:
        scores = Scores(node, np.zeros_like(arc), np.repeat(arc[:, :, None], S, axis=2))
    return Case(scores, space).lattice, space


def flows(lattice):
    """P(node), and what goes out of each node before its token and into each node after it, from
    P(arc)."""
    sums = posterior(lattice)
    arcs = posterior_arcs(lattice, sums)
    source, target = lattice.graph.ends
    Q = sums.nodes.shape[1]
    out, into = (
        np.array([np.bincount(end, row, Q) for row in arcs[1:]]) for end in (source, target)
    )
    return sums.nodes, out, into


def scaled_log_z(lattice):
    """log Z without logarithms of sums; NaN where it takes them."""
    kernels = uncompiled("inference")
    blocks = uncompiled("graph").BlocksView(lattice.graph.blocks)
    outputs = np.empty((2, *lattice.node.shape))
    scratch = kernels.LatticeScratch(*lattice.node.shape, *lattice.arc.shape)
    with np.errstate(all="ignore"):
        return kernels._scaled_messages(*lattice[:2], blocks, *outputs, scratch)


def spans_of(lattice, space):
    """P(span X) for every begin and end."""
    sums, tables = posterior(lattice), _span_transitions(boundaries(space.labels), 0, space)
    transitions = tuple(table[None] for table in tables)
    found = np.zeros((T, T + 1))
    for begin in range(T):
        for end in range(begin + 1, T + 1):
            (found[begin, end],) = span_probabilities(
                lattice, sums, np.array([[begin, end, 0]]), transitions
            )
    return found


@pytest.mark.parametrize("drawn", ["ties", "alike", "numbers"])
@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", SCALES)
def test_probabilities_add_up_to_one(scale, order, by_token, drawn):
    random = np.random.default_rng(int(np.log2(scale)) + order)
    shapes = (T, S), (T if by_token else 1, S, S)
    draw = {
        "ties": lambda shape: random.integers(0, 2, shape).astype(float),
        "alike": np.ones,
        "numbers": lambda shape: random.normal(size=shape),
    }[drawn]
    lattice, space = lattice_of(*(draw(shape) * scale for shape in shapes), order)
    nodes, out, into = flows(lattice)
    np.testing.assert_allclose(nodes.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(out, nodes[:-1], atol=1e-9)
    np.testing.assert_allclose(into, nodes[1:], atol=1e-9)
    spans = spans_of(lattice, space)
    assert (spans.sum(axis=1) <= 1 + 1e-9).all()
    assert len(sample(lattice, 5, random)) == 5
    if drawn == "alike" and order == 1:
        np.testing.assert_allclose(nodes[:, :S], 1 / S, rtol=1e-9)


@pytest.mark.cases(32)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [0.0, *SCALES])
@pytest.mark.parametrize("larger", ["nodes", "arcs"])
def test_what_all_paths_have_in_common_changes_nothing(larger, scale, order, by_token, late):
    """The nodes of a token, or all arcs, get the same number; with `late`, a path that looks
    hopeless at first wins, which takes logarithms."""
    random = np.random.default_rng(order)
    node, arc = np.zeros((T, S)), np.zeros((T if by_token else 1, S, S))
    (node if larger == "arcs" else arc)[:] = random.normal(
        size=arc.shape if larger == "nodes" else node.shape
    )
    if late:
        if larger == "nodes":
            arc[:, :, 0] -= 2000.0
            arc[:, 0] -= 2000.0
            node[0, 1:] = -1000.0
        else:
            arc[:, 0] = -np.inf  # from state 0 it goes to state 0, which is bad later
            arc[:, 0, 0] = 0.0
            node[0, 1:] -= 1000.0
            node[2, 0] = -2000.0
    expected, space = lattice_of(node, arc, order)
    assert np.isnan(scaled_log_z(expected)) == late
    if larger == "nodes":
        node[1:] += scale
    else:
        arc += scale
    lattice, _ = lattice_of(node, arc, order)
    for found, wanted in zip(flows(lattice), flows(expected), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    np.testing.assert_allclose(spans_of(lattice, space), spans_of(expected, space), atol=1e-9)
    if order == 1:
        sums, wanted = posterior(lattice), posterior_arcs(expected, posterior(expected))
        token, state = (x.ravel() for x in np.meshgrid(np.arange(1, T), np.arange(S)))
        places = lattice.graph.contexts.base[state][:, None] + np.arange(S)
        np.testing.assert_allclose(
            arcs_from(lattice, sums, token, state), wanted[token[:, None], places], atol=1e-9
        )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", SCALES)
def test_latent_paths_of_a_labelling_add_up_to_one(scale, order):
    random = np.random.default_rng(1)
    node, arc, graph = lattice_of(
        *(random.integers(0, 2, shape) * scale for shape in ((T, S), (1, S, S))), order
    )[0]
    label = np.array([0, 1, 2, 2, 1, 2], np.int32)
    states = np.zeros((T, graph.most_in_context))
    pairs = np.zeros((T, graph.most_in_context, graph.most_targets))
    assert np.isfinite(
        clamped.clamped_in_log_space(node, arc, graph.contexts, label, states, pairs)
    )
    np.testing.assert_allclose(states.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(pairs[1:].sum(axis=(1, 2)), 1, rtol=1e-9)


@pytest.mark.cases(2)
@pytest.mark.parametrize("scale", [1.0, *SCALES])
def test_arcs_of_more_paths_than_a_float_can_count(scale):
    n = 4000
    step = np.repeat(np.arange(n), 2)
    graph = dag.dag(step, step + 1)
    np.testing.assert_allclose(dag.sums(graph, np.full(2 * n, scale)).arcs, 0.5, rtol=1e-9)


def test_sampling_says_that_there_is_no_path():
    lattice, _ = lattice_of(np.full((T, S), -np.inf), np.zeros((1, S, S)), 1)
    with pytest.raises(OptionError, match="no labelling that the model allows"):
        sample(lattice, 1, np.random.default_rng(0))


@pytest.mark.parametrize("scale", [1.0, 1e12, 1e19])
def test_nearly_equal_paths_are_not_searched_all_at_once(monkeypatch, scale):
    """Scores are rounded differently at each token; the queue holds two suffixes for each token of
    the paths taken."""
    random = np.random.default_rng(0)
    node, arc = (
        random.uniform(0, scale, (30, 1)).repeat(S, axis=1),
        np.full((1, S, S), random.uniform(0, scale)),
    )
    lattice, _ = lattice_of(node + random.normal(size=node.shape) * 1e-3, arc, 1)
    monkeypatch.setattr(paths_module, "doubled", lambda pool: pytest.fail("more than 184 suffixes"))
    paths, scores = best_paths(lattice, 2)
    assert len(np.unique(paths, axis=0)) == 2
    assert scores[0] >= scores[1]
    assert scores == pytest.approx([path_score(lattice, path) for path in paths], rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e12, 1e19])
def test_nearly_equal_paths_of_a_graph_are_not_searched_all_at_once(monkeypatch, scale):
    random, step = np.random.default_rng(0), np.arange(40).repeat(2)
    scores = random.uniform(0, scale, 40).repeat(2) + random.normal(size=80) * 1e-3
    monkeypatch.setattr(dag, "doubled", lambda pool: pytest.fail("more than 228 suffixes"))
    paths, found = dag.best_paths(dag.dag(step, step + 1), scores, 3)
    assert len({tuple(path) for path in paths}) == 3
    assert found == pytest.approx([scores[path].sum() for path in paths], rel=1e-12)


def path_score(lattice, path):
    arcs = lattice.graph.contexts.base[path[:-1]] + path[1:]
    return lattice.node[np.arange(len(path)), path].sum() + lattice.arc[0, arcs].sum()
