"""Sums, best paths, covariances and samples of small random graphs against enumeration of all their
paths."""

import itertools
from collections import Counter

import numpy as np
import oracles
import pytest
from cases import LATE64, cases, examples, many
from hypothesis import assume, given
from hypothesis import strategies as st

import labelwright
from labelwright.decode.record import MOST
from labelwright.errors import OptionError
from labelwright.kernels import dag as kernels
from labelwright.structures.dag import (
    best_path,
    best_paths,
    covariance,
    dag,
    entropy,
    from_chain,
    ordered,
    sample,
    sums,
)
from labelwright.structures.lattice import best_path as best_chain
from labelwright.structures.lattice import posterior, posterior_arcs


class Enumerated:
    """All paths of a graph (tuples of arcs), those that are not forbidden with their scores, the
    best first."""

    def __init__(self, graph, scores):
        leaving = {}
        for arc, node in enumerate(graph.source.tolist()):
            leaving.setdefault(node, []).append(arc)
        ways = [
            (arc,)
            for node in leaving
            for arc in leaving[node]
            if node not in set(graph.target.tolist())
        ]
        self.all = []
        while ways:
            way = ways.pop()
            more = leaving.get(int(graph.target[way[-1]]), [])
            ways += [(*way, arc) for arc in more]
            if not more:
                self.all.append(way)
        scored = [(sum(scores[arc] for arc in way), way) for way in self.all]
        scored = sorted((pair for pair in scored if pair[0] > -np.inf), key=lambda pair: -pair[0])
        self.scores, self.paths = np.array([s for s, _ in scored]), [way for _, way in scored]
        self.log_z = oracles.log_sum(self.scores)
        self.p = np.exp(self.scores - self.log_z) if len(scored) else np.empty(0)
        self.n_arcs = len(graph.source)

    def arcs(self):
        found = np.zeros(self.n_arcs)
        for way, p in zip(self.paths, self.p, strict=True):
            found[list(way)] += p
        return found

    def covariance(self, gains):
        total = np.array([gains[list(way)].sum() for way in self.paths])
        mean = float(self.p @ total)
        found = np.zeros(self.n_arcs)
        for way, p, gain in zip(self.paths, self.p, total, strict=True):
            found[list(way)] += p * (gain - mean)
        return mean, found


class Drawn:
    """A graph with scores; `size` decides how many digits are left."""

    def __init__(self, graph, scores):
        self.graph, self.scores = graph, scores
        self.size = 1 + graph.n_nodes * np.abs(scores[np.isfinite(scores)]).max(initial=0)

    def __iter__(self):
        return iter((self.graph, self.scores))

    def __repr__(self):
        return (
            f"Drawn({self.graph.source.tolist()}, {self.graph.target.tolist()}, "
            f"{self.scores.tolist()})"
        )


@st.composite
def drawn(draw, largest=1e3):
    """Graphs with parallel arcs, several sources and sinks, nodes without arcs, forbidden arcs,
    scores of any size."""
    n_nodes = draw(st.integers(2, 7))
    random = np.random.default_rng(draw(st.integers(0, 100_000)))
    names = random.permutation(n_nodes)  # topological order is not that of the numbers
    pairs = np.array(list(itertools.combinations(range(n_nodes), 2)))
    chosen = pairs[random.integers(0, len(pairs), draw(st.integers(1, 14)))]
    source, target = names[chosen].T
    order = ordered(source, target)
    scale = draw(st.sampled_from([s for s in (0.0, 0.3, 3.0, 30.0, 300.0, 1e3) if s <= largest]))
    scores = random.normal(size=len(source)) * scale
    if draw(st.booleans()):
        scores = np.round(scores / max(scale, 1)) * scale  # ties
    scores[random.random(len(source)) < draw(st.sampled_from([0.0, 0.0, 0.2, 0.5, 1.0]))] = -np.inf
    return Drawn(dag(source[order], target[order], n_nodes + draw(st.integers(0, 2))), scores)


NOTHING = Drawn(dag([], []), np.empty(0))
# a forbidden arc makes no sink of node 1
STUCK = Drawn(dag([0, 1, 0], [1, 2, 2]), np.array([0.0, -np.inf, -np.inf]))
# the second path is too small for a float
APART = Drawn(dag([0, 2], [1, 3]), np.array([0.0, -800.0]))


# --- sums -----------------------------------------------------------------------------------------


@many
@given(drawn())
@examples([NOTHING, STUCK, APART])
def test_sums_are_those_of_all_paths(case):
    truth = Enumerated(*case)
    found = sums(*case)
    assert found.log_z == pytest.approx(truth.log_z, abs=1e-13 * case.size)
    np.testing.assert_allclose(found.arcs, truth.arcs(), atol=1e-12 * case.size)


@many
@given(drawn())
@examples([STUCK, APART])
def test_log_space_gives_the_same_sums(case):
    graph, scores = case
    scratch, arcs = np.empty((3, graph.n_nodes)), np.empty(len(scores))
    ends = graph.sources, graph.sinks
    log_z = kernels.posteriors_in_log_space(
        graph.source, graph.target, scores, *ends, *scratch, arcs
    )
    assert log_z == pytest.approx(sums(*case).log_z, abs=1e-13 * case.size)
    np.testing.assert_allclose(arcs, sums(*case).arcs, atol=1e-12 * case.size)


def test_more_paths_than_a_float_can_count():
    n = 4000  # (1 + 1/3)^4000 times as many as the best path alone
    step = np.repeat(np.arange(n), 2)
    graph, scores = dag(step, step + 1), np.tile([0.0, np.log(3.0)], n)
    found = sums(graph, scores)
    assert n * np.log(4 / 3) > np.log(np.finfo(float).max)
    assert found.log_z == pytest.approx(n * np.log(4.0))
    np.testing.assert_allclose(found.arcs, np.tile([0.25, 0.75], n))
    mean, cov = covariance(graph, scores, np.tile([0.0, 1.0], n))
    assert mean == pytest.approx(0.75 * n)
    np.testing.assert_allclose(cov, np.tile([-0.1875, 0.1875], n), rtol=1e-8)
    assert entropy(graph, scores) == pytest.approx(-n * (0.25 * np.log(0.25) + 0.75 * np.log(0.75)))


@many
@given(drawn())
@examples([APART])
def test_entropy_is_that_of_all_paths(case):
    truth = Enumerated(*case)
    assume(len(truth.p))
    p = truth.p[truth.p > 0]
    assert entropy(*case) == pytest.approx(-np.sum(p * np.log(p)), abs=1e-12 * case.size)


def test_a_small_entropy_keeps_its_digits():
    p = np.exp(-40.0)
    expected = p * 40.0 + p  # p log 1/p + (1 - p) log 1/(1 - p), up to p^2
    assert entropy(dag([0, 0], [1, 1]), [1000.0, 960.0]) == pytest.approx(expected, rel=1e-9)


# --- best paths -----------------------------------------------------------------------------------


def is_path(graph, arcs):
    source, target = graph.source[arcs], graph.target[arcs]
    whole = source[0] in graph.sources and target[-1] in graph.sinks
    return whole and (source[1:] == target[:-1]).all()


@many
@given(drawn())
@examples([NOTHING, STUCK, APART])
def test_the_best_path_is_the_best_of_all(case):
    truth = Enumerated(*case)
    path, score = best_path(*case)
    if not truth.paths:
        assert (len(path), score) == (0, -np.inf)
        return
    assert is_path(case.graph, path)
    assert score == pytest.approx(truth.scores[0], abs=1e-13 * case.size)
    assert case.scores[path].sum() == pytest.approx(score, abs=1e-13 * case.size)


@many
@given(drawn(), st.integers(1, 40))
@examples([NOTHING, STUCK, APART], 3)
def test_the_best_paths_come_in_order(case, n):
    truth = Enumerated(*case)
    paths, scores = best_paths(*case, n)
    assert len(paths) == len(scores) == min(n, len(truth.paths))
    np.testing.assert_allclose(scores, truth.scores[:n], atol=1e-13 * case.size)
    assert len({tuple(path.tolist()) for path in paths}) == len(paths)
    for path, score in zip(paths, scores, strict=True):
        assert is_path(case.graph, path)
        assert case.scores[path].sum() == pytest.approx(score, abs=1e-13 * case.size)


# --- covariances ----------------------------------------------------------------------------------


@many
@given(drawn(), st.integers(0, 1000), st.sampled_from([0.0, 1.0, 1e4]))
def test_covariances_are_those_of_all_paths(case, seed, shift):
    truth = Enumerated(*case)
    assume(len(truth.paths))
    gains = np.random.default_rng(seed).normal(size=len(case.scores)) + shift
    mean, cov = covariance(*case, gains)
    expected_mean, expected = truth.covariance(gains)
    assert mean == pytest.approx(expected_mean, abs=1e-11 * case.size * (1 + shift))
    np.testing.assert_allclose(cov, expected, atol=1e-11 * case.size * (1 + shift))


def test_what_all_paths_gain_has_no_covariance():
    graph = dag([0, 0, 1, 1], [1, 1, 2, 2])
    mean, cov = covariance(graph, [0.0, 1.0, 2.0, 0.5], [1e8, 1e8, 3.0, 3.0])
    assert mean == pytest.approx(1e8 + 3.0, rel=1e-15)
    np.testing.assert_allclose(cov, 0.0, atol=1e-7)


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "scores"),
    [
        ([0, 0, 1, 1, 4, 2], [1, 1, 2, 3, 2, 5], [0.3, -1.0, 0.5, 0.2, 1.0, -0.4]),
        ([0, 0, 1, 1, 2], [1, 2, 3, 3, 3], [0.0, -np.inf, -2.0, 1.0, 5.0]),
        ([3, 0, 1], [1, 1, 2], [800.0, 801.0, -800.0]),
    ],
)
def test_samples_are_as_frequent_as_they_are_probable(source, target, scores):
    graph, n = dag(source, target), 40_000
    truth = Enumerated(graph, scores)
    drawn_paths = sample(graph, scores, n, random_state=7)
    assert len(drawn_paths) == n
    seen = Counter(tuple(path.tolist()) for path in drawn_paths)
    assert set(seen) <= set(truth.paths)
    for path, p in zip(truth.paths, truth.p, strict=True):
        assert abs(seen[path] / n - p) < 4 * np.sqrt(p * (1 - p) / n) + 1e-9, path


def test_the_seed_decides_the_sample():
    graph, scores = dag([0, 0, 1, 1], [1, 1, 2, 2]), [0.0, 0.1, 0.2, 0.3]
    first, again, other = (
        np.array(sample(graph, scores, 50, random_state=seed)) for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_paths_are_drawn_at_any_scale():
    n = 1300  # two equal arcs a step: more paths than a float counts, so logarithms are added
    graph = dag(np.arange(n).repeat(2), np.arange(1, n + 1).repeat(2))
    scores = np.random.default_rng(0).uniform(0, 1, n).repeat(2)
    for scale in (1.0, 1e19):
        assert [len(path) for path in sample(graph, scale * scores, 2, random_state=0)] == [n, n]


class Zeros:
    """A generator whose numbers are the smallest."""

    random = staticmethod(np.zeros)


def test_nothing_is_drawn_behind_an_arc_whose_continuations_underflow(monkeypatch):
    graph = dag([0, 0, 1, 2], [1, 2, 3, 3])
    monkeypatch.setattr(
        "labelwright.structures.dag._possible",
        lambda graph, scores: np.array([5e-324, 1.0, 0.0, 1.0]),
    )
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Zeros)
    with pytest.raises(OptionError, match="too far apart"):
        sample(graph, np.zeros(4), 1)


# --- chains ---------------------------------------------------------------------------------------


@many
@given(cases(max_paths=2000, max_tokens=5, most_latent=2))
@examples(LATE64)
def test_a_chain_is_a_graph(case):
    lattice = case.lattice
    chain = from_chain(lattice)
    truth, found = posterior(lattice), sums(chain.dag, chain.scores)
    assert found.log_z == pytest.approx(truth.log_z, abs=case.digits)
    T, Q = lattice.node.shape
    nodes, arcs = np.zeros((T + 1, Q)), np.zeros((T, case.graph.n_arcs))
    np.add.at(
        nodes,
        (chain.token[chain.node >= 0], chain.node[chain.node >= 0]),
        found.arcs[chain.node >= 0],
    )
    np.testing.assert_allclose(nodes[:T], truth.nodes, atol=case.digits)
    own = chain.arc >= 0
    np.add.at(arcs, (chain.token[own], chain.arc[own]), found.arcs[own])
    if T > 1 and truth.log_z > -np.inf:
        np.testing.assert_allclose(arcs, posterior_arcs(lattice, truth), atol=case.digits)
    path, score = best_path(chain.dag, chain.scores)
    best, best_score = best_chain(lattice)
    assert score == pytest.approx(best_score, abs=case.digits)
    if score > -np.inf:
        assert chain.token[path].tolist() == list(range(T + 1))
        codes = chain.node[path[:-1]]
        ties = len(best_paths(chain.dag, chain.scores, 2)[1])
        gap = np.ptp(best_paths(chain.dag, chain.scores, 2)[1]) if ties == 2 else np.inf
        assert gap < case.digits or (codes == best).all()


# --- order and errors -----------------------------------------------------------------------------


@many
@given(st.integers(0, 10_000), st.integers(0, 15))
def test_ordered_arcs_are_in_order(seed, n_arcs):
    random = np.random.default_rng(seed)
    names = random.permutation(6)
    pairs = [np.sort(random.choice(6, 2, replace=False)) for _ in range(n_arcs)]
    source, target = names[np.array(pairs, int).reshape(-1, 2)].T
    order = ordered(source, target)
    assert sorted(order.tolist()) == list(range(n_arcs))
    source, target = source[order], target[order]
    for arc in range(n_arcs):
        assert source[arc] not in target[arc:]
    assert ordered(source, target).tolist() == list(range(n_arcs))  # what is in order stays
    graph = dag(source, target)
    assert graph.sources.tolist() == sorted(set(source.tolist()) - set(target.tolist()))
    assert graph.sinks.tolist() == sorted(set(target.tolist()) - set(source.tolist()))


@given(st.integers(0, 10_000))
def test_a_cycle_is_named(seed):
    random = np.random.default_rng(seed)
    source, target = random.integers(0, 5, (2, 9))
    try:
        ordered(source, target)
    except OptionError as error:
        cycle = str(error).split("cycle, ")[1].split(";")[0].split(" -> ")
        assert cycle[0] == cycle[-1]
        steps = set(zip(map(str, source.tolist()), map(str, target.tolist()), strict=True))
        assert set(itertools.pairwise(cycle)) <= steps
        with pytest.raises(OptionError, match="there is a cycle"):
            dag(source, target)
    else:
        assert (source != target).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, -1], [1, 2]), r"^source: arc 1: expected a node of 0 to 2, got -1$"),
        (([0, 1], [1, 2], 2), r"^target: arc 1: expected a node of 0 to 1, got 2$"),
        (([0], [0, 1]), r"^arcs: 1 sources, but 2 targets$"),
        (([0.5], [1]), r"^source: expected a list of whole numbers, got float64 of shape \(1,\)$"),
        (
            ([[0]], [[1]]),
            r"^source: expected a list of whole numbers, got int64 of shape \(1, 1\)$",
        ),
        (([0], [1], 0), r"^source: arc 0: there are no nodes, got 0$"),
        (
            ([1, 0], [2, 1]),
            r"^arcs: arc 1 leads into node 1 but comes after arc 0, .*`ordered` sorts them\)$",
        ),
        (
            ([0, 3, 5], [3, 5, 3]),
            r"^arcs: there is a cycle, 3 -> 5 -> 3; expected a graph without cycles$",
        ),
        (([0, 1], [1, 1]), r"^arcs: there is a cycle, 1 -> 1; expected a graph without cycles$"),
        (([0], [1], "3"), r"^n_nodes: expected a whole number, 0 to 2,147,483,647, got '3'$"),
        (([0], [1], -1), r"^n_nodes: expected a whole number, 0 to 2,147,483,647, got -1$"),
        (([], [], -1), r"^n_nodes: expected a whole number, 0 to 2,147,483,647, got -1$"),
        (([0], [1], 2.5), r"^n_nodes: expected a whole number, 0 to 2,147,483,647, got 2.5$"),
        (
            ([0], [1], 2**31),
            r"^n_nodes: expected a whole number, 0 to 2,147,483,647, got 2147483648$",
        ),
        (
            ([0], [2**40]),
            r"^arcs: expected nodes below 2,147,483,647, got 1099511627776; number them from 0 on$",
        ),
        ((["a"], [1]), r"^source: expected a list of whole numbers, got <U1 of shape \(1,\)$"),
        (([0], [[1], [1, 2]]), r"^target: expected a list of numbers, got rows of unequal length$"),
    ],
)
def test_graphs_that_are_none(arguments, message):
    with pytest.raises(OptionError, match=message):
        dag(*arguments)


def test_questions_that_cannot_be_answered():
    graph = dag([0, 1], [1, 2])
    for scores, message in [
        ([0.0], r"^scores: expected 2 numbers, one for each arc, got shape \(1,\)$"),
        ([0.0, np.nan], r"^scores: arc 1 has nan; expected a finite number$"),
        ([np.inf, 0.0], r"^scores: arc 0 has inf; expected a finite number$"),
        (["a", "b"], r"^scores: expected numbers, one for each arc, got <U1 of shape \(2,\)$"),
        (["a"], r"^scores: expected numbers, one for each arc, got <U1 of shape \(1,\)$"),
        ([None, 0.0], r"^scores: expected numbers, one for each arc, got object of shape \(2,\)$"),
        ([[0.0], [0.0, 1.0]], r"^scores: expected a list of numbers, got rows of unequal length$"),
    ]:
        with pytest.raises(OptionError, match=message):
            sums(graph, scores)
    with pytest.raises(OptionError, match=r"^gains: arc 0 has -inf; expected a finite number$"):
        covariance(graph, [0.0, 0.0], [-np.inf, 0.0])
    assert labelwright.structures.dag.MOST == MOST
    for n in (0, 1.5, True, "3", MOST + 1, 10**12):
        for question in (best_paths, sample):
            with pytest.raises(
                OptionError, match=r"^n: expected a whole number, 1 to 100,000, got "
            ):
                question(graph, [0.0, 0.0], n)
    for question in (entropy, lambda *a: covariance(*a, [0.0, 0.0]), lambda *a: sample(*a, 3)):
        with pytest.raises(
            OptionError, match=r"^scores: every path is forbidden, expected at least one$"
        ):
            question(graph, [0.0, -np.inf])


@pytest.mark.parametrize(
    "scores", [[1e308, 1e308], [-1e308, -1e308], [1e308, 1e308, -1e308, -1e308], [-9e307] * 20]
)
@pytest.mark.parametrize("beside", [False, True])
def test_sums_that_no_float_holds_are_refused(scores, beside):
    step = list(range(len(scores)))
    source, target = step, [t + 1 for t in step]
    if beside:  # another way round
        source, target, scores = [*source, 0], [*target, len(step)], [*scores, 0.0]
    graph = dag(source, target)
    for question in (
        sums,
        best_path,
        lambda *a: best_paths(*a, 2),
        entropy,
        lambda *a: sample(*a, 2),
    ):
        with pytest.raises(
            OptionError, match=r"^scores: they add up to more than a float holds, got sizes up to "
        ):
            question(graph, scores)
    with pytest.raises(
        OptionError, match=r"^gains: they add up to more than a float holds, got sizes up to "
    ):
        covariance(graph, [0.0] * len(scores), scores)


def test_large_scores_that_never_meet_are_fine():
    graph = dag([0, 0, 1, 2], [1, 2, 3, 3])
    found = sums(graph, [1e308, -1.7e308, 0.0, 0.0])
    assert found.log_z == 1e308
    assert found.arcs.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert best_path(graph, [1e308, 1e308, 0.0, -np.inf])[0].tolist() == [0, 2]
