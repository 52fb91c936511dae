"""Sums, best paths and spans of random lattices against enumeration of all their paths."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import oracles
from labelwright.corpus.schemes import boundaries
from labelwright.decode import DECODERS
from labelwright.decode.paths import best_paths
from labelwright.kernels import chain, inference
from labelwright.lattice import Lattice, best_path, label_marginals, posterior, span_probability
from labelwright.models.linear import _span_moves
from labelwright.states import state_space

SCALES = [1.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4, 1e5]


@st.composite
def lattices(draw, max_states=4, max_tokens=6):
    """Scores of every kind: flat, tied, small, huge, with forbidden entries, with arcs for each token or for all."""
    S, T = draw(st.integers(1, max_states)), draw(st.integers(1, max_tokens))
    A = T if draw(st.booleans()) else 1
    scale = draw(st.sampled_from(SCALES))
    kind = draw(st.sampled_from(["real", "tied", "flat"]))
    forbidden = draw(st.sampled_from([0.0, 0.0, 0.2, 0.5]))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    shapes = [(T, S), (A, S, S)]
    if kind == "real":
        node, arc = (random.normal(size=shape) * scale for shape in shapes)
    elif kind == "tied":
        node, arc = (random.integers(-1, 2, size=shape) * scale for shape in shapes)
    else:
        node, arc = (np.zeros(shape) for shape in shapes)
    for x in (node, arc):
        x[random.random(x.shape) < forbidden] = -np.inf
    return Lattice(node.astype(float), arc.astype(float))


def size_of(lattice):
    """The largest sum of finite scores, which decides how many digits are left."""
    finite = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in lattice]
    return 1 + len(lattice.node) * sum(finite)


many = settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])

# A path that looks hopeless at first and wins later: what is too small for scaling at one token must not be lost.
LATE = Lattice(np.array([[0.0, -800.0], [-500.0, 0.0], [-500.0, 0.0]]), np.array([[[0.0, -np.inf], [-np.inf, 0.0]]]))
LATE32 = Lattice(np.array([[0.0, -100.0], [-40.0, 0.0], [-40.0, 0.0], [-40.0, 0.0]]), LATE.arc)
LATE32_BY_TOKEN = Lattice(LATE32.node, np.repeat(LATE32.arc, 4, axis=0))


@many
@given(lattices())
@example(LATE)
def test_log_z_and_marginals(lattice):
    truth = oracles.Enumerated(*lattice)
    sums = posterior(lattice)
    if truth.log_z == -np.inf:
        assert sums.log_z == -np.inf
        return
    digits = 1e-13 * size_of(lattice)
    assert sums.log_z == pytest.approx(truth.log_z, abs=digits + 1e-12)
    np.testing.assert_allclose(sums.states, truth.states(), atol=1e-10 + 10 * digits)


@many
@given(lattices())
@example(LATE)
def test_arcs(lattice):
    truth = oracles.Enumerated(*lattice)
    assume(truth.log_z > -np.inf)
    sums = posterior(lattice)
    arcs = np.zeros((truth.T, truth.S, truth.S))
    inference.posterior_arcs(*lattice, sums.states, sums.log_beta, arcs)
    np.testing.assert_allclose(arcs, truth.arcs(), atol=1e-10 + 1e-12 * size_of(lattice))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@many
@given(lattice=lattices())
@example(lattice=LATE)
@example(lattice=LATE32)
@example(lattice=LATE32_BY_TOKEN)
def test_training_kernels_are_right_or_say_so(dtype, lattice):
    """The scaled kernels of training give the posterior, or NaN where the sentence must be done again in log space."""
    truth = oracles.Enumerated(*lattice)
    assume(truth.log_z > -np.inf)
    T, S = lattice.node.shape
    width = S + (-S) % 4
    exponentiate = chain.exponentiate32 if dtype == np.float32 else chain.exponentiate64
    psi, top = np.zeros((T, width), dtype), np.zeros(T, dtype)
    psi[:, :S] = lattice.node
    exponentiate(psi, top, S)
    log_z, offsets = np.zeros(1), np.array([0, T])
    arcs = np.zeros((width, width), dtype)
    if len(lattice.arc) == 1:
        highest = lattice.arc.max()
        assume(np.isfinite(highest))
        E = np.zeros((width, width), dtype)
        E[:S, :S] = np.exp(lattice.arc[0] - highest)
        chain.posteriors(psi, top, E, np.ascontiguousarray(E.T), highest, offsets, log_z, arcs)
        arcs = (arcs * E.astype(np.float64))[:S, :S]
    else:
        E = np.full((T, width, width), -np.inf, dtype)
        E[:, :S, :S] = lattice.arc
        arc_top = np.zeros(T, dtype)
        exponentiate(E.reshape(T, -1), arc_top, width**2)
        chain.posteriors_by_arc(psi, top, E, arc_top, offsets, log_z)
        arcs = E[1:, :S, :S].sum(axis=0, dtype=np.float64)
    if np.isnan(log_z[0]):
        assert size_of(lattice) > 40  # ordinary scores need no second try
        return
    digits = np.finfo(dtype).eps * 20 * size_of(lattice)
    assert log_z[0] == pytest.approx(truth.log_z, abs=digits)
    np.testing.assert_allclose(psi[:, :S], truth.states(), atol=digits)
    np.testing.assert_allclose(arcs, truth.arcs().sum(axis=0), atol=T * digits)


@many
@given(lattices())
def test_viterbi(lattice):
    truth = oracles.Enumerated(*lattice)
    path, score = best_path(lattice)
    if truth.log_z == -np.inf:
        assert score == -np.inf
        return
    digits = 1e-13 * size_of(lattice)
    assert score == pytest.approx(truth.scores[0], abs=digits)
    assert oracles.path_scores(*lattice, path[None])[0] == pytest.approx(truth.scores[0], abs=digits)


@many
@given(lattices(), st.integers(1, 50))
def test_n_best(lattice, n):
    truth = oracles.Enumerated(*lattice)
    paths, scores = best_paths(lattice, n)
    digits = 1e-13 * size_of(lattice)
    assert len(paths) == len(scores) == min(n, len(truth.paths))
    assert len({tuple(p) for p in paths}) == len(paths)
    assert (np.diff(scores) <= 0).all()
    np.testing.assert_allclose(scores, truth.scores[: len(scores)], atol=digits, rtol=0)
    if len(paths):
        np.testing.assert_allclose(oracles.path_scores(*lattice, paths), scores, atol=digits, rtol=0)
        p = np.exp(scores - posterior(lattice).log_z)
        np.testing.assert_allclose(p, truth.p[: len(p)], atol=1e-10 + 10 * digits)


def test_n_best_of_a_long_flat_lattice_is_quick():
    paths, scores = best_paths(Lattice(np.zeros((2000, 20)), np.zeros((1, 20, 20))), 30)
    assert len({tuple(p) for p in paths}) == 30
    assert (scores == 0).all()


TYPES = ["X", "Y"]
LETTERS = {"iob1": "BI", "iob2": "BI", "bioes": "BIES", "mixed": "BIES[]LU"}


@st.composite
def label_sets(draw):
    letters = LETTERS[draw(st.sampled_from(sorted(LETTERS)))]
    inside = [f"{letter}-{kind}" for letter in letters for kind in TYPES]
    return draw(st.lists(st.sampled_from(["O", *inside]), min_size=1, max_size=4, unique=True))


@settings(max_examples=150)
@given(label_sets(), lattices(max_states=1, max_tokens=4), st.integers(0, 1000))
@example(["O", "B-X"], LATE, 0)
def test_span_probabilities(labels, shape, seed):
    """P(span) is the total probability of the labellings that have it, for every span that exists."""
    T, A, S = len(shape.node), len(shape.arc), len(labels)
    random = np.random.default_rng(seed)
    scale = SCALES[seed % len(SCALES)]
    lattice = Lattice(random.normal(size=(T, S)) * scale, random.normal(size=(A, S, S)) * scale)
    if S == shape.node.shape[1] == 2:
        lattice = shape
    space = state_space(labels)
    table = boundaries(labels)
    truth = oracles.Enumerated(*lattice).spans(labels)
    sums = posterior(lattice)
    for kind in table.types:
        moves = _span_moves(table, table.types.index(kind), space)
        for begin in range(T):
            for end in range(begin + 1, T + 1):
                p = span_probability(lattice, sums, begin, end, moves)
                assert p == pytest.approx(truth[begin, end, kind], abs=1e-10 + 1e-12 * size_of(lattice))


@settings(max_examples=100)
@given(lattices(), st.sampled_from(sorted(DECODERS)))
def test_decoders(lattice, name):
    truth = oracles.Enumerated(*lattice)
    assume(truth.log_z > -np.inf)
    labels = [f"l{s}" for s in range(truth.S)]
    found = DECODERS[name](lattice, state_space(labels))
    path = np.array([[labels.index(label) for label in found.labels]])
    digits = 1e-12 * size_of(lattice)
    score = oracles.path_scores(*lattice, path)[0]
    assert found.score == pytest.approx(score, abs=digits)
    assert found.log_probability == pytest.approx(min(0, score - truth.log_z), abs=digits)
    assert found.log_probability <= 0
    if name == "viterbi":
        assert found.exact
        assert found.gap == 0
    if name == "marginal":
        best = truth.states().max(axis=1)
        chosen = truth.states()[np.arange(truth.T), path[0]]
        np.testing.assert_allclose(chosen, best, atol=1e-10 + 10 * digits)
    if found.exact:
        assert score == pytest.approx(truth.scores[0], abs=digits)


@given(lattices(max_states=4, max_tokens=4), st.integers(0, 3))
def test_latent_states_add_up(lattice, cut):
    """Marginals of labels are sums over the states that they own."""
    truth = oracles.Enumerated(*lattice)
    assume(truth.log_z > -np.inf)
    first = max(1, min(cut, truth.S - 1))
    sizes = [first, truth.S - first] if truth.S > 1 else [1]
    space = state_space([f"l{i}" for i in range(len(sizes))], sizes)
    found = label_marginals(posterior(lattice).states, space)
    p = truth.states()
    expected = np.stack([p[:, space.label_of == i].sum(axis=1) for i in range(len(sizes))], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-10 + 1e-12 * size_of(lattice))


def test_restricted_lattices_hold_exactly_the_permitted_paths():
    random = np.random.default_rng(0)
    space = state_space(["O", "B-X", "I-X"]).constrained("iob2")
    lattice = Lattice(random.normal(size=(5, 3)), random.normal(size=(1, 3, 3)))
    permitted = random.random((5, 3)) < 0.8
    left = oracles.Enumerated(*lattice.restricted(space, permitted))
    everything = oracles.Enumerated(*lattice)

    def allowed(path):
        return (
            space.start[path[0]]
            and space.end[path[-1]]
            and all(space.arc[r, s] for r, s in itertools.pairwise(path))
            and all(permitted[t, s] for t, s in enumerate(path))
        )

    assert {tuple(p) for p in left.paths} == {tuple(p) for p in everything.paths if allowed(p)}
    assert len(left.paths) > 1
