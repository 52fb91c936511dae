"""The NumPy forms of the kernels of chains give what the compiled kernels give: on lattices of
every kind, and in training."""

import numpy as np
import pytest
from cases import LATE64, VANISHING, cases, drawn, examples, hard
from hypothesis import given
from problems import ARCS, NAMES, ORDERS, Problem, dicts, words

from labelwright.answers.chains import Chains, _span_transitions
from labelwright.corpus.schemes import boundaries
from labelwright.decode import DECODERS
from labelwright.decode.exact import labellings
from labelwright.decode.paths import best_paths
from labelwright.engine.choice import using
from labelwright.kernels.perceptron import UpdateRule
from labelwright.kernels.scoring import add_ridge, advance, combine, differences, dots
from labelwright.learn.perceptron import Averaged, Passes
from labelwright.learn.sgd import SGD
from labelwright.structures.lattice import (
    best_path,
    margins,
    posterior,
    posterior_arcs,
    span_probabilities,
)
from labelwright.structures.supervision import Supervision

pytest.importorskip("numba")

HARD = [*LATE64, *VANISHING, hard(9), hard(5, order=2)]


def by_both(question, *arguments):
    """The answers of both engines."""
    answers = []
    for engine in ("compiled", "numpy"):
        with using(engine):
            answers.append(question(*arguments))
    return answers


def assert_same(question, digits, *arguments):
    """Both engines answer alike: numbers to these digits, everything else just so."""
    compiled, vectorised = by_both(question, *arguments)
    assert len(compiled) == len(vectorised)
    for a, b in zip(compiled, vectorised, strict=True):
        if isinstance(a, float) or (isinstance(a, np.ndarray) and a.dtype.kind == "f"):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=digits)
        else:
            np.testing.assert_array_equal(b, a)


# --- lattices -------------------------------------------------------------------------------------


@drawn(60)
@given(cases())
@examples(HARD)
def test_best_paths_break_ties_alike(case):
    assert_same(best_path, 0, case.lattice)
    assert_same(best_paths, case.digits, case.lattice, 7)


@drawn(60)
@given(cases())
@examples(HARD)
def test_sums_are_the_same(case):
    def sums(lattice):
        made = posterior(lattice)
        if made.log_z == -np.inf:
            return [made.log_z, made.nodes]
        arcs = [posterior_arcs(lattice, made, by_token) for by_token in (True, False)]
        return [made.log_z, made.nodes, *arcs]

    assert_same(sums, case.digits, case.lattice)


@drawn(60)
@given(cases())
@examples(HARD)
def test_margins_and_spans_are_the_same(case):
    lattice, space = case
    gold = lattice.graph.label_of_node[best_path(lattice)[0]]
    assert_same(margins, 0, lattice, gold)
    table = boundaries(space.labels)
    if table.types and posterior(lattice).log_z > -np.inf:
        transitions = tuple(each[None] for each in _span_transitions(table, 0, space))
        spans = np.array([(a, b, 0) for b in range(1, len(gold) + 1) for a in range(b)])

        def probabilities():
            made = posterior(lattice)
            return span_probabilities(lattice, made, spans, transitions)

        assert_same(probabilities, case.digits)


def tied_labellings(case):
    best = labellings(case.lattice, 2).log_weights
    return len(best) == 2 and best[0] - best[1] <= case.digits


def tied_labels(case):
    """Whether two labels of a token are as probable as each other, and more than all others."""
    nodes, label_of_node = posterior(case.lattice).nodes, case.lattice.graph.label_of_node
    labels = np.zeros((len(nodes), 1 + label_of_node.max()))
    for node, label in enumerate(label_of_node):
        labels[:, label] += nodes[:, node]
    best = np.sort(labels)[:, -2:]
    return bool((best[:, -1] - best[:, 0] <= case.digits).any())


# where rounding decides which of two comes first
TIED = {"exact": tied_labellings, "marginal": tied_labels}


@drawn(60)
@given(cases())
@examples(HARD)
@pytest.mark.parametrize("decoder", sorted(DECODERS))
def test_decoders_answer_alike(decoder, case):
    compiled, vectorised = by_both(DECODERS[decoder], *case)
    if decoder not in TIED or not TIED[decoder](case):
        assert vectorised.labels == compiled.labels
        counters = "exact", "latent_paths", "label_paths"
        assert [getattr(vectorised, name) for name in counters] == [
            getattr(compiled, name) for name in counters
        ]
    for name in ("score", "log_probability", "gap", "mass"):
        a, b = (getattr(decoding, name) for decoding in (compiled, vectorised))
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=case.digits)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("limit", [0, 5, 40, None])
def test_a_search_that_stops_has_seen_the_same(order, limit):
    case = hard(8, seed=3, order=order, latent=2)
    compiled, vectorised = by_both(labellings, case.lattice, 5, limit)
    np.testing.assert_array_equal(vectorised.labels, compiled.labels)
    np.testing.assert_allclose(vectorised.log_weights, compiled.log_weights, rtol=1e-10)
    np.testing.assert_allclose(vectorised.log_open, compiled.log_open, rtol=1e-10)
    assert (vectorised.proven, vectorised.expansions) == (compiled.proven, compiled.expansions)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("by_token", [False, True])
def test_batches_have_the_best_paths_of_their_sentences(order, by_token):
    rng, lengths = np.random.default_rng(0), [3, 1, 0, 7, 5, 2, 9, 1, 4, 30]
    case = hard(2, labels=3, latent=2, order=order)
    graph, T = case.graph, sum(lengths)
    arc = rng.integers(-2, 3, (T if by_token else 1, graph.n_arcs)).astype(float)
    ends = np.cumsum(lengths).tolist()
    bounds = list(zip([0, *ends[:-1]], ends, strict=True))
    with using("numpy"):
        chains = Chains(
            rng.integers(-2, 3, (T, graph.n_nodes)).astype(float), arc, bounds, case.space
        )
        together = chains.paths
    for n, (a, b) in enumerate(bounds):
        if b > a:
            with using("compiled"):
                path, score = best_path(chains.lattice(n))
            np.testing.assert_array_equal(together.nodes[a:b], path)
            assert together.scores[n] == score


# --- training -------------------------------------------------------------------------------------


def problems(template, order, sizes, dtype):
    X, y = words(30, seed=1, longest=9)
    return Problem(X, y, template, sizes=sizes, order=order, dtype=dtype)


@pytest.mark.cases(18)
@pytest.mark.parametrize(("template", "order"), ORDERS, ids=NAMES)
@pytest.mark.parametrize("sizes", [1, 2, [1, 3, 2]], ids=["plain", "latent", "uneven"])
@pytest.mark.parametrize(
    ("dtype", "digits"), [(np.float64, 1e-11), (np.float32, 3e-5)], ids=["64", "32"]
)
@pytest.mark.parametrize("scale", [0.5, 40.0])
def test_losses_and_gradients_are_the_same(template, order, sizes, dtype, digits, scale):
    problem = problems(template, order, sizes, dtype)
    weights = problem.random_weights(scale)
    (loss, gradient), (same_loss, same_gradient) = by_both(problem, weights)
    np.testing.assert_allclose(same_loss, loss, rtol=digits, atol=digits * scale)
    np.testing.assert_allclose(same_gradient, gradient, rtol=digits, atol=10 * digits)


# Kernels without a NumPy form run as the plain Python that they are written in.


def test_stochastic_passes_run_as_plain_python():
    X, y = words(4, seed=1, longest=5)
    problem = Problem(X, y, ARCS, sizes=2, order=1, dtype=np.float64)
    random = np.random.default_rng(1)
    # 3: a set of all labels
    gold = np.where(random.random(len(problem.gold)) < 0.3, 3, problem.gold).astype(np.int32)
    said = Supervision(
        np.ones((1, 3), np.bool_), random.uniform(0, 2, 4), random.uniform(0.5, 2, len(gold))
    )

    def passed():
        run = SGD(
            problem.incidences,
            problem.offsets,
            gold,
            problem.space,
            problem.parameters,
            1.0,
            0,
            said,
        )
        weights = problem.random_weights()
        return [*run.one_pass(weights, 1.0, np.arange(4), 0.3, 4), weights]

    assert_same(passed, 1e-10)


@pytest.mark.parametrize(
    "rule", [UpdateRule(2.0, False, 1.0), UpdateRule(1.0, True, np.inf, 1.0, variance=1.0)]
)
def test_passes_of_perceptrons_run_as_plain_python(rule):
    same_passes(Problem(*words(5, seed=2, longest=5), ARCS, scheme="iob2", sizes=2), rule)
    same_passes(Problem(*dicts(4, seed=2)), rule)


def same_passes(problem, rule):
    def passed():
        data = problem.model
        passes = Passes(*data, rule, 0)
        run = Averaged.begin(
            passes.layout.laid_out(problem.random_weights(0.1).astype(np.float32)), rule
        )
        outcomes = [passes.one_pass(run, number) for number in (1, 2)]
        norm = passes.largest_norm() or 0.0
        return [*np.array(outcomes), norm, run.weights, run.sums, run.variances, *passes.features]

    assert_same(passed, 1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_passes_over_vectors_are_the_same(dtype):
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(5, 10_007)).astype(dtype)
    here = 101, 9_999

    def made():
        x, y, z, s = (row.copy() for row in basis[:4])
        products, three, sums = np.empty((2, 5)), np.empty((3, 5)), np.empty(2)
        dots(basis, np.array([1, 4]), *here, products)
        dots(basis, np.array([4, 0, 2]), *here, three)
        combine(basis, np.array([1.0, 0.0, -2.0, 0.5, 3.0]), *here, x)
        advance(x, basis[2], 0.3, *here, y)
        add_ridge(x, np.abs(basis[3]), z, y, *here, sums)
        differences(x, y, z, basis[3], *here, s, basis[0].copy())
        return [products, three, sums, x, y, z, s]

    assert_same(made, 1e-2 if dtype == np.float32 else 1e-9)
