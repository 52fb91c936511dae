"""Sums, best paths and spans of random lattices of both orders against enumeration of all their
paths."""

import itertools

import numpy as np
import oracles
import pytest
from cases import LATE64, VANISHING, Case, cases, drawn, examples, many, without
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import Scores

from labelwright.answers.chains import _span_transitions
from labelwright.corpus.schemes import boundaries
from labelwright.decode.paths import best_paths
from labelwright.errors import OptionError
from labelwright.structures import states
from labelwright.structures.dag import chain_covariance
from labelwright.structures.lattice import (
    Lattice,
    label_marginals,
    labelling_weight,
    posterior,
    posterior_arcs,
    span_probabilities,
    state_marginals,
)
from labelwright.structures.states import state_space

# --- graphs ---------------------------------------------------------------------------------------


@st.composite
def spaces(draw):
    """Spaces of both orders, of order 2 with and without pairs that are not there."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    space = state_space(
        [f"l{i}" for i in range(len(sizes))], sizes, draw(st.sampled_from([1, 2, 2]))
    )
    if space.graph.order == 2 and draw(st.booleans()):
        random, L = np.random.default_rng(draw(st.integers(0, 1000))), len(sizes)
        start, arc = random.random(L) < 0.6, random.random((L, L)) < 0.6
        start[0] = arc[0, 0] = True
        space = without(space, start, arc)
    return space


def followers(graph, q):
    """The nodes to which an arc leads from node q."""
    return (
        list(range(graph.n_nodes))
        if graph.order == 1
        else np.flatnonzero(graph.previous == graph.state[q]).tolist()
    )


@given(spaces())
def test_nodes_and_arcs_are_those_of_the_space(space):
    graph = space.graph
    nodes = list(zip(graph.previous.tolist(), graph.state.tolist(), strict=True))
    if graph.order == 1:
        assert nodes == [(-1, s) for s in range(space.n_states)]
    else:
        pairs = [tuple(pair) for pair in np.argwhere(space.arc).tolist()]
        assert sorted(nodes) == sorted(
            [(-1, s) for s in np.flatnonzero(space.start).tolist()] + pairs
        )
    np.testing.assert_array_equal(graph.label_of_node, space.label_of[graph.state])
    # Every arc has one number, both in the blocks and from its source.
    blocks, found = graph.blocks, {}
    for b in range(len(blocks.target) - 1):
        sources = blocks.source[blocks.source_ptr[b] : blocks.source_ptr[b + 1]].tolist()
        targets = range(blocks.target[b], blocks.target[b + 1])
        assert all(graph.origin[k] == b for k in targets)
        for number, (q, k) in enumerate(itertools.product(sources, targets), blocks.arc_ptr[b]):
            assert graph.contexts.base[q] + k == number
            found[q, k] = number
    assert sorted(found) == [(q, k) for q in range(graph.n_nodes) for k in followers(graph, q)]
    assert sorted(found.values()) == list(range(graph.n_arcs))


@given(spaces())
def test_contexts_are_what_a_labelling_leaves_open(space):
    graph, contexts, L = space.graph, space.graph.contexts, space.n_labels
    label_before = np.where(graph.previous < 0, -1, space.label_of[graph.previous])
    members = {}
    for c in range(len(contexts.label)):
        nodes = contexts.node[contexts.ptr[c] : contexts.ptr[c + 1]]
        assert contexts.slot[nodes].tolist() == list(range(len(nodes)))
        assert (graph.label_of_node[nodes] == contexts.label[c]).all()
        assert len(set(label_before[nodes].tolist())) == 1
        members[c] = set(nodes.tolist())
    assert graph.most_in_context == max(map(len, members.values()))
    assert sorted(q for nodes in members.values() for q in nodes) == list(range(graph.n_nodes))
    most = 0
    for y in range(L):
        opening = {
            q for q in range(graph.n_nodes) if graph.label_of_node[q] == y and graph.previous[q] < 0
        }
        assert members.get(int(contexts.opening[y]), set()) == opening
        for c, nodes in members.items():
            reached = {k for q in nodes for k in followers(graph, q) if graph.label_of_node[k] == y}
            assert members.get(int(contexts.following[c, y]), set()) == reached
            for q in nodes:
                mine = range(
                    contexts.cut[contexts.block[q], y], contexts.cut[contexts.block[q], y + 1]
                )
                assert list(mine) == [k for k in followers(graph, q) if graph.label_of_node[k] == y]
                slots = contexts.slot[list(mine)]
                assert (np.diff(slots) == 1).all()
                most = max(most, len(mine))
    assert graph.most_targets == most


def test_arcs_are_counted_and_too_many_triples_are_refused(monkeypatch):
    labels = ["O", "B-X", "I-X"]
    assert [state_space(labels, order=order).graph.n_arcs for order in (1, 2)] == [9, 36]
    # O and B-X may be first or after all three, I-X after two: (3 + 1) * 2 + (3 + 1) * 3 + 2 * 3
    # arcs.
    assert state_space(labels, order=2, scheme="iob2").graph.n_arcs == 26
    monkeypatch.setattr(states, "MAX_ARCS", 26)
    with pytest.raises(
        OptionError, match=r"^3 states make 27 triples of states, more than 26; .* or order 1$"
    ):
        state_space(labels, order=2)
    assert state_space(labels).n_states == 3


# --- sums -----------------------------------------------------------------------------------------


@many
@given(cases(max_paths=50_000))
@examples([*LATE64, *VANISHING])
def test_log_z_and_probabilities_of_nodes_arcs_states_and_labels(case):
    truth, sums, digits = case.paths, posterior(case.lattice), 1e-13 * case.size
    if truth.log_z == -np.inf:
        assert sums.log_z == -np.inf
        return
    assert sums.log_z == pytest.approx(truth.log_z, abs=digits + 1e-12)
    states, of = truth.states(), case.space.label_of
    labels = np.stack([states[:, of == i].sum(axis=1) for i in range(case.space.n_labels)], axis=1)
    for found, expected in (
        (sums.nodes, truth.nodes(case.graph)),
        (state_marginals(sums.nodes, case.graph), states),
        (label_marginals(sums.nodes, case.graph), labels),
        (posterior_arcs(case.lattice, sums), truth.arcs(case.graph)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-10 + 10 * digits)


# --- paths ----------------------------------------------------------------------------------------


@many
@given(cases(max_paths=50_000), st.integers(1, 50))
def test_n_best(case, n):
    truth = case.paths
    nodes, scores = best_paths(case.lattice, n)
    digits = 1e-13 * case.size
    assert len(nodes) == len(scores) == min(n, len(truth.paths))
    assert len({tuple(p) for p in nodes}) == len(nodes)
    assert (np.diff(scores) <= digits).all()  # equal sums may differ in their last digit
    np.testing.assert_allclose(scores, truth.scores[: len(scores)], atol=digits, rtol=0)
    if len(nodes):
        paths = oracles.states_of(nodes, case.graph)
        np.testing.assert_allclose(
            oracles.path_scores(case.scores, paths), scores, atol=digits, rtol=0
        )
        p = np.exp(scores - posterior(case.lattice).log_z)
        np.testing.assert_allclose(p, truth.p[: len(p)], atol=1e-10 + 10 * digits)


@pytest.mark.parametrize("order", [1, 2])
def test_n_best_of_a_long_flat_lattice_is_quick(order):
    S = 20
    scores = Scores(
        np.zeros((2000, S)), np.zeros((1, S, S)), np.zeros((1, S, S, S)) if order == 2 else None
    )
    case = Case(scores, state_space([f"l{i}" for i in range(S)], 1, order))
    nodes, found = best_paths(case.lattice, 30)
    assert len({tuple(p) for p in oracles.states_of(nodes, case.graph)}) == 30
    assert (found == 0).all()


TYPES = ["X", "Y"]
LETTERS = {"iob1": "BI", "iob2": "BI", "bioes": "BIES", "mixed": "BIES[]LU"}


@st.composite
def label_sets(draw):
    letters = LETTERS[draw(st.sampled_from(sorted(LETTERS)))]
    inside = [f"{letter}-{kind}" for letter in letters for kind in TYPES]
    return draw(st.lists(st.sampled_from(["O", *inside]), min_size=1, max_size=4, unique=True))


@drawn(250, many)
@given(cases(labels=label_sets(), most_latent=2, max_tokens=4, max_paths=5000))
@examples(LATE64)
def test_span_probabilities(case):
    """P(span) is the total probability of the labellings that have it, for every span that
    exists."""
    truth = case.truth
    assume(truth.possible)
    for y in truth.labellings[:: max(1, len(truth.labellings) // 20)]:
        weight = truth.weights[truth.at(y)]
        assert labelling_weight(case.lattice, y.astype(np.int32)) == pytest.approx(
            weight, abs=case.digits
        )
    labels = case.space.labels
    table, spans = boundaries(labels), truth.spans(labels)
    sums = posterior(case.lattice)
    for i, kind in enumerate(table.types):
        transitions = tuple(each[None] for each in _span_transitions(table, i, case.space))
        for begin, end in itertools.combinations(range(truth.T + 1), 2):
            (p,) = span_probabilities(case.lattice, sums, np.array([[begin, end, 0]]), transitions)
            assert p == pytest.approx(spans[begin, end, kind], abs=1e-10 + 1e-12 * case.size)


# --- one order and the other ----------------------------------------------------------------------


def same_answers(one, other, digits, n=20):
    """Two lattices that mean the same: log Z, marginals of states and labels, the best paths and
    their scores."""
    a, b = posterior(one.lattice), posterior(other.lattice)
    if a.log_z == -np.inf:
        assert b.log_z == -np.inf
        return
    assert a.log_z == pytest.approx(b.log_z, abs=digits)
    for marginals in (state_marginals, label_marginals):
        np.testing.assert_allclose(
            marginals(a.nodes, one.graph), marginals(b.nodes, other.graph), atol=20 * digits
        )
    np.testing.assert_allclose(
        best_paths(one.lattice, n)[1], best_paths(other.lattice, n)[1], atol=digits, rtol=0
    )


@many
@given(cases(orders=(1,)))
def test_without_triples_the_second_order_is_the_first(case):
    S = case.space.n_states
    space = state_space(case.space.labels, np.diff(case.space.first).tolist(), 2)
    same_answers(
        case, Case(case.scores._replace(triple=np.zeros((1, S, S, S))), space), case.digits
    )


@many
@given(cases(orders=(2,)))
def test_pairs_that_are_not_built_are_pairs_that_are_forbidden(case):
    """On the graph of all pairs the same scores have the same meaning."""
    whole = Case(case.scores, state_space(case.space.labels, np.diff(case.space.first).tolist(), 2))
    assert whole.graph.n_nodes >= case.graph.n_nodes
    same_answers(case, whole, case.digits)


SCHEMES = {
    "iob1": ["O", "I-X", "B-X", "I-Y", "B-Y"],
    "iob2": ["B-X", "I-X", "O", "B-Y"],
    "bioes": ["O", "B-X", "E-X"],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_leaves_out_what_it_forbids(scheme):
    """A space with a scheme has no nodes for forbidden pairs; one constrained later keeps its
    graph."""
    whole, built = state_space(SCHEMES[scheme], 2, 2), state_space(SCHEMES[scheme], 2, 2, scheme)
    later = whole.constrained(scheme)
    for name in ("start", "arc", "end"):
        np.testing.assert_array_equal(getattr(built, name), getattr(later, name))
    assert later.graph is whole.graph
    assert built.graph.n_nodes == built.start.sum() + built.arc.sum() < whole.graph.n_nodes


# --- covariances ----------------------------------------------------------------------------------


def test_covariances_where_probabilities_are_almost_zero():
    """A probability below the least normal number has no finite inverse."""
    graph = state_space(["A", "B"]).graph
    node = np.array([[0.0, -720.0], [0.0, -1.0], [-740.0, 0.0]])
    nodes, arcs = chain_covariance(
        Lattice(node, np.zeros((1, graph.n_arcs)), graph), node, np.zeros((3, graph.n_arcs))
    )
    p = np.exp(-1) / (1 + np.exp(-1))
    np.testing.assert_allclose(nodes, [[0, 0], [p * (1 - p), -p * (1 - p)], [0, 0]], atol=1e-12)
    assert np.isfinite(arcs).all()
