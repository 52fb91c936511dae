"""Decoders on long, flat, huge and impossible lattices of both orders: what they cost, and that
they stay honest."""

import tracemalloc

import numpy as np
import pytest
from cases import LABELS, Case
from oracles import Scores

from labelwright.decode import DECODERS
from labelwright.decode.exact import MAX_EXPANSIONS
from labelwright.decode.mbr import N_CANDIDATES
from labelwright.decode.paths import N_PATHS
from labelwright.structures.lattice import labelling_weight, posterior
from labelwright.structures.states import state_space

viterbi = DECODERS["viterbi"]
MEGABYTES = 150  # that a decoder may hold
COMPILED = set()  # decoders that have run on such lattices


def scored(node, arc, space, triple=0.0):
    """A case of the order that the space has; a number stands for equal scores of all triples."""
    S = space.n_states
    if space.graph.order == 1:
        return Case(Scores(node, arc), space)
    return Case(
        Scores(node, arc, np.full((1, S, S, S), triple) if np.isscalar(triple) else triple), space
    )


def check_cost(decode, *arguments, **options):
    """Decode, and check how far the search went and how many megabytes it held."""
    lattice = arguments[0]
    compiled = decode, lattice.graph.order, len(lattice.arc) > 1
    if compiled not in COMPILED:  # so that compiling is not counted
        decode(*arguments, **options)
        COMPILED.add(compiled)
    tracemalloc.start()
    found = decode(*arguments, **options)
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert most < MEGABYTES
    assert (found.expansions or 0) <= MAX_EXPANSIONS
    assert (found.latent_paths or 0) <= N_PATHS
    assert (found.label_paths or 0) <= max(N_PATHS, N_CANDIDATES)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", sorted(DECODERS))
@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-3, 0.1])
def test_a_flat_model_costs_little_and_is_honest(name, noise, order):
    """Five labels, three latent states each, thirty tokens: no labelling stands out among 5^30."""
    random = np.random.default_rng(0)
    node, arc, triple = (
        random.normal(size=shape) * noise for shape in [(30, 15), (1, 15, 15), (1, 15, 15, 15)]
    )
    case = scored(node, arc, state_space([f"l{i}" for i in range(5)], 3, order), triple)
    found = check_cost(DECODERS[name], *case)
    assert len(found.labels) == 30
    weight = labelling_weight(case.lattice, np.array(case.codes(found.labels), np.int32))
    assert found.log_probability == pytest.approx(weight - posterior(case.lattice).log_z)
    assert found.exact == (found.gap == 0)
    if noise == 0:
        assert found.log_probability == pytest.approx(-30 * np.log(5))
    if name in ("viterbi", "marginal", "ldi"):
        assert not found.exact
        assert found.gap > 0.99
    if name == "exact" and noise == 0:
        assert found.exact  # all labellings are equal, and the search sees it
        assert found.expansions < 1000


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0, 1e4])
def test_a_thousand_tokens(scale, by_token, order):
    random = np.random.default_rng(3)
    T, L, H = 1000, 4, 3
    S, rows = L * H, T if by_token else 1
    node, arc, triple = (
        random.normal(size=shape) * scale for shape in [(T, S), (rows, S, S), (rows, S, S, S)]
    )
    case = scored(node, arc, state_space(LABELS, H, order), triple)
    for name, options in [
        ("viterbi", {}),
        ("marginal", {}),
        ("exact", {}),
        ("ldi", {}),
        ("mbr", {"n": 3}),
    ]:
        found = check_cost(DECODERS[name], *case, **options)
        assert len(found.labels) == T
        weight = labelling_weight(case.lattice, np.array(case.codes(found.labels), np.int32))
        log_z = posterior(case.lattice).log_z
        assert found.log_probability == pytest.approx(
            min(0, weight - log_z), abs=1e-6 + 1e-12 * abs(log_z)
        )
        assert not np.isnan(found.score)
        assert found.exact == (found.gap == 0)
        if name == "exact" and scale in (0.0, 1e4):
            assert found.exact
        if name == "exact" and found.exact:
            assert viterbi(*case).log_probability <= found.log_probability + 1e-6 + 1e-12 * abs(
                log_z
            )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", sorted(DECODERS))
def test_one_token(name, order):
    node = np.array([[0.0, np.log(2), -np.inf, np.log(3), np.log(4)]])
    for score in (0.0, -np.inf):
        space = state_space(["A", "B", "C"], [2, 1, 2], order)
        found = DECODERS[name](*scored(node, np.full((1, 5, 5), score), space, score))
        assert found.labels == ["C"]
        assert np.exp(found.log_probability) == pytest.approx(0.7)
        assert found.exact


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", sorted(DECODERS))
@pytest.mark.parametrize("size", [800.0, 1e5, 1e30, 1e150])
def test_scores_that_overflow_exp(name, size, order):
    """Two latent states share a label and beat the single best path of another label by log 2."""
    T = 4
    node = np.full((T, 3), -size)
    node[0] = size, size, size + np.log(1.5)
    node[1:, 0] = size
    case = scored(node, np.zeros((1, 3, 3)), state_space(["A", "B"], [2, 1], order))
    found = DECODERS[name](*case)
    assert not np.isnan(found.score)
    assert np.isfinite(found.score)
    assert found.log_probability <= 0
    assert found.exact == (found.gap == 0)
    assert found.labels[1:] == ["A"] * (T - 1)
    if size < 1e12 and name != "viterbi":  # beyond, the small difference is below the last digit
        assert found.labels[0] == "A"
        assert np.exp(found.log_probability) == pytest.approx(2 / 3.5, rel=1e-4)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", sorted(DECODERS))
def test_a_lattice_without_any_path(name, order):
    arc = np.full((1, 4, 4), -np.inf)
    for case in (
        scored(np.zeros((3, 4)), arc, state_space(["A", "B"], 2, order)),
        scored(np.zeros((3, 4)), np.zeros((1, 4, 4)), state_space(["A", "B"], 2, 2), -np.inf),
    ):
        found = DECODERS[name](*case)
        assert found.score == found.log_probability == -np.inf
        assert not found.exact


@pytest.mark.parametrize("most", [5, None])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e15, 1e30])
def test_equal_labellings_cost_little_at_any_scale(scale, most):
    """Rounding makes bounds a little smaller with each token; 4^12 prefixes are not searched for
    that."""
    random = np.random.default_rng(0)
    node, arc = (
        random.uniform(0, scale, (12, 1)).repeat(8, axis=1),
        np.full((1, 8, 8), random.uniform(0, scale)),
    )
    case = scored(node, arc, state_space([f"l{i}" for i in range(4)], 2))
    found = check_cost(DECODERS["exact"], *case, max_expansions=most)
    assert len(found.labels) == 12
    assert found.expansions == (most or 11)
    weight = labelling_weight(case.lattice, np.array(case.codes(found.labels), np.int32))
    assert found.score == pytest.approx(weight, rel=1e-12)


@pytest.mark.parametrize("scale", [1e3, 1e19])
def test_logarithms_are_summed_at_any_scale(scale):
    """The largest term counts as 1, however it is rounded."""
    random = np.random.default_rng(0)
    node, arc = random.normal(size=(9, 6)) * scale, random.normal(size=(1, 6, 6)) * scale
    case = scored(node, arc, state_space(["l0", "l1", "l2"], 2))
    sums = posterior(case.lattice)
    assert np.isfinite(sums.log_z)
    assert sums.nodes.sum(axis=1) == pytest.approx(np.ones(9))
    best = np.array(case.codes(viterbi(*case).labels), np.int32)
    assert labelling_weight(case.lattice, best) == pytest.approx(sums.log_z, rel=1e-12)
