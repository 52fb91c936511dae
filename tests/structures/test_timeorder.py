"""Sums and best paths of batches in time order, against enumeration and against the
sentence-by-sentence kernels."""

import numpy as np
import pytest
from cases import LATE32, LATE64, VANISHING, cases, examples, many, without
from hypothesis import assume, given
from hypothesis import strategies as st

from labelwright.structures import steps, timeorder
from labelwright.structures.lattice import Lattice, labelling_weight, posterior, posterior_arcs
from labelwright.structures.states import first_order, state_space

lengths = st.lists(st.integers(0, 7), max_size=12)


WAYS = {
    "by products": (0, 0),
    "by steps": (0, timeorder.STEP_ARCS),
    "by sentences": (steps.NARROW, 0),
}


@pytest.fixture(scope="module", autouse=True, params=WAYS.values(), ids=WAYS)
def way(request):
    """Small batches by matrix products, too, which are otherwise for many sentences."""
    before = steps.NARROW, timeorder.STEP_ARCS
    steps.NARROW, timeorder.STEP_ARCS = request.param
    yield
    steps.NARROW, timeorder.STEP_ARCS = before


def single(case):
    """The plan of one sentence."""
    return timeorder.plan(np.array([0, len(case.scores.node)]))


# --- plans ----------------------------------------------------------------------------------------


@given(lengths, st.integers(0, 5))
def test_a_plan_holds_every_token_once_and_step_by_step(sizes, first):
    offsets = first + np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    plan = timeorder.plan(offsets)
    assert sorted(plan.token.tolist()) == list(range(sum(sizes)))
    assert plan.lengths.tolist() == sorted(sizes, reverse=True)
    assert [sizes[n] for n in plan.order] == plan.lengths.tolist()
    rows = {}
    for t in range(len(plan.steps) - 1):
        for row in range(plan.steps[t], plan.steps[t + 1]):
            n = plan.order[plan.rank[row]]
            assert plan.token[row] == offsets[n] - first + t
            rows[n, t] = row
    for row, before in enumerate(plan.before.tolist(), plan.n_first):
        n = plan.order[plan.rank[row]]
        assert before == rows[n, int(plan.token[row] - offsets[n] + first) - 1]
    assert plan.last.tolist() == [rows[n, sizes[n] - 1] for n in plan.order if sizes[n]]
    assert plan.by_sentence(plan.token).tolist() == [
        sum(range(a, b)) for a, b in zip(offsets[:-1] - first, offsets[1:] - first, strict=True)
    ]


# --- one sentence against enumeration -------------------------------------------------------------


@many
@given(cases())
@examples([*LATE64, *VANISHING])
def test_posteriors_by_enumeration(case):
    truth = case.paths
    log_z, nodes, _ = timeorder.posteriors(*case.lattice, single(case))
    if truth.log_z == -np.inf:
        assert log_z[0] == -np.inf
        assert not nodes.any()
        return
    digits = 1e-13 * case.size
    assert log_z[0] == pytest.approx(truth.log_z, abs=digits + 1e-12)
    np.testing.assert_allclose(nodes, truth.nodes(case.graph), atol=1e-10 + 10 * digits)


def forward_backward(psi, E, graph, plan):
    """As training does it: log Z [N] less the maxima that psi and E lack (NaN: failed), the
    probabilities of nodes [T, Q], and the counts of arcs, by row or (where one row of E serves all)
    summed [1|T, A]."""
    products, arcs = timeorder.Products(graph), E.copy()
    sums = timeorder.messages(psi, arcs, products, plan, count=True)
    if len(E) == 1:
        arcs = arcs * timeorder.arc_counts(sums, products, plan)
    log_z = np.where(sums.failed, np.nan, plan.by_sentence(np.log(sums.scale, dtype=np.float64)))
    return log_z, sums.alpha * sums.beta, arcs


@pytest.mark.cases(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@many
@given(cases(), st.integers(0, 5))
@examples([*LATE64, *LATE32], 3)
def test_scaled_sums_are_right_or_say_so(dtype, case, padding):
    """The sums of training are those of enumeration, or NaN where the sentence must be done in log
    space."""
    truth, graph = case.paths, case.graph
    assume(truth.log_z > -np.inf)
    if graph.order == 1:
        graph = first_order(graph.label_of_node, case.space.n_labels, truth.S + padding)
    node, arc, _ = case.scores.lattice(graph)
    top, arc_top = node.max(axis=1), arc.max(axis=1)
    assume(np.isfinite(arc_top).all())
    psi, E = np.exp(node - top[:, None]).astype(dtype), np.exp(arc - arc_top[:, None]).astype(dtype)
    log_z, nodes, arcs = forward_backward(psi, E, graph, single(case))
    if np.isnan(log_z[0]):
        assert case.size > 40  # ordinary scores need no second try
        assert not nodes.any()
        assert not arcs.any()
        return
    digits = np.finfo(dtype).eps * 20 * case.size
    maxima = top.sum() + (arc_top[0] * (truth.T - 1) if len(arc) == 1 else arc_top[1:].sum())
    assert log_z[0] + maxima == pytest.approx(truth.log_z, abs=digits)
    np.testing.assert_allclose(nodes, truth.nodes(graph), atol=digits)
    np.testing.assert_allclose(
        arcs.sum(axis=0), truth.arcs(graph).sum(axis=0), atol=truth.T * digits
    )


# --- batches against one sentence after the other -------------------------------------------------


class Batch:
    """Random scores of several sentences on one state space."""

    def __init__(self, space, sizes, by_token, scale, forbidden, seed):
        random, graph = np.random.default_rng(seed), space.graph
        self.space, self.graph = space, graph
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.plan = timeorder.plan(self.offsets)
        T = int(self.offsets[-1])
        self.node = random.normal(size=(T, graph.n_nodes)) * scale
        self.arc = random.normal(size=(T if by_token else 1, graph.n_arcs)) * scale
        self.node[random.random(self.node.shape) < forbidden] = -np.inf
        self.arc[random.random(self.arc.shape) < forbidden / 2] = -np.inf
        if graph.order == 2:
            starts = np.zeros(T, np.bool_)
            starts[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
            self.node[np.ix_(starts, graph.previous >= 0)] = -np.inf
            self.node[np.ix_(~starts, graph.previous < 0)] = -np.inf
        self.by_token = by_token

    @property
    def in_time_order(self):
        arc = self.arc[self.plan.token] if self.by_token else self.arc
        return self.node[self.plan.token], arc

    def sentences(self):
        """(number, rows in time order, lattice) of every sentence that has tokens."""
        row = np.argsort(self.plan.token)
        for n, (a, b) in enumerate(zip(self.offsets[:-1], self.offsets[1:], strict=True)):
            if b > a:
                yield (
                    n,
                    row[a:b],
                    Lattice(
                        self.node[a:b], self.arc[a:b] if self.by_token else self.arc, self.graph
                    ),
                )


@st.composite
def batches(draw, most_latent=2):
    sizes = draw(st.lists(st.integers(1, most_latent), min_size=1, max_size=4))
    space = state_space([f"l{i}" for i in range(len(sizes))], sizes, draw(st.sampled_from([1, 2])))
    seed = draw(st.integers(0, 10_000))
    if space.graph.order == 2 and draw(st.booleans()):
        random, L = np.random.default_rng(seed), len(sizes)
        start, arc = random.random(L) < 0.7, random.random((L, L)) < 0.7
        start[0] = arc[0, 0] = True
        space = without(space, start, arc)
    scale, forbidden = (
        draw(st.sampled_from([1.0, 10.0, 300.0])),
        draw(st.sampled_from([0.0, 0.1, 0.4])),
    )
    return Batch(space, draw(lengths), draw(st.booleans()), scale, forbidden, seed)


@many
@given(batches())
def test_posteriors_of_a_batch(batch):
    node, arc = batch.in_time_order
    log_z, nodes, ahead = timeorder.posteriors(node, arc, batch.graph, batch.plan)
    assert (log_z[np.diff(batch.offsets) == 0] == 0).all()
    for n, rows, lattice in batch.sentences():
        truth = posterior(lattice)
        assert log_z[n] == pytest.approx(truth.log_z, abs=1e-12, rel=1e-12)
        np.testing.assert_allclose(nodes[rows], truth.nodes, atol=1e-10)
        if truth.log_z > -np.inf:
            reached = truth.nodes > 1e-9
            # `ahead` is known but for a constant of the token
            first = reached.argmax(axis=1)[:, None]
            found, true = (
                x - np.take_along_axis(x, first, axis=1) for x in (ahead[rows], truth.ahead)
            )
            np.testing.assert_allclose(found[reached], true[reached], rtol=1e-12, atol=1e-9)


@many
@given(batches(), st.integers(0, 100))
def test_clamped_sums_are_sums_with_forbidden_states(batch, seed):
    """With psi = 0 for the nodes of other labels, the sums are those over the paths of one
    labelling."""
    node, arc = batch.in_time_order
    assume(np.isfinite(arc).any(axis=1).all())
    labels = np.random.default_rng(seed).integers(0, batch.space.n_labels, len(node))
    held = np.where(batch.graph.label_of_node == labels[batch.plan.token][:, None], node, -np.inf)
    top, arc_top = node.max(axis=1, initial=-1e9), arc.max(axis=1)
    psi, E = np.exp(held - top[:, None]), np.exp(arc - arc_top[:, None])
    log_z, _, _ = forward_backward(psi, E, batch.graph, batch.plan)
    more = top.copy()
    more[batch.plan.n_first :] += arc_top[0] if len(arc_top) == 1 else arc_top[batch.plan.n_first :]
    log_y = log_z + batch.plan.by_sentence(more)
    for n, _, lattice in batch.sentences():
        codes = labels[batch.offsets[n] : batch.offsets[n + 1]].astype(np.int32)
        if not np.isnan(log_y[n]):
            assert log_y[n] == pytest.approx(labelling_weight(lattice, codes), rel=1e-12, abs=1e-10)


@many
@given(batches())
def test_expected_arcs_of_a_batch(batch):
    node, arc = batch.in_time_order
    assume(np.isfinite(arc).any(axis=1).all())
    assume(np.isfinite(node).any(axis=1).all())
    psi, E = (
        np.exp(node - node.max(axis=1, initial=-1e9)[:, None]),
        np.exp(arc - arc.max(axis=1)[:, None]),
    )
    log_z, nodes, arcs = forward_backward(psi, E, batch.graph, batch.plan)
    total = np.zeros(batch.graph.n_arcs)
    for n, rows, lattice in batch.sentences():
        if np.isnan(log_z[n]):
            assert not nodes[rows].any()
            continue
        expected = posterior_arcs(lattice, posterior(lattice))
        total += expected.sum(axis=0)
        if batch.by_token:
            np.testing.assert_allclose(arcs[rows], expected, atol=1e-10)
    np.testing.assert_allclose(arcs.sum(axis=0), total, atol=1e-9)


def test_an_empty_batch():
    space = state_space(["A", "B"])
    for offsets in ([0], [0, 0, 0]):
        plan = timeorder.plan(np.array(offsets))
        node, arc = np.empty((0, 2)), np.zeros((1, 4))
        assert timeorder.posteriors(node, arc, space.graph, plan).log_z.tolist() == [0.0] * (
            len(offsets) - 1
        )
