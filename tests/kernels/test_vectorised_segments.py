"""Segments and graphs in NumPy: the sums, paths and counts of the compiled loops."""

import numpy as np
import pytest

from labelwright.features.phrases import make_phrases
from labelwright.kernels import dag, segments
from labelwright.structures.dag import dag as graph_of
from labelwright.structures.dag import ordered

pytest.importorskip("numba")


def both(kernel, *arguments):
    """What each engine returns and makes of its own copies of the arguments."""
    made = []
    for run in (kernel.dispatcher, kernel.vectorised):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        made.append((run(*copies), copies))
    return made


def assert_same(kernel, *arguments):
    (expected, first), (result, second) = both(kernel, *arguments)
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10)
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12, err_msg=f"argument {number}")
    return first


# types, long ones, longest, tokens
SHAPES = [(3, 2, 4, 7), (3, 3, 2, 5), (2, 1, 9, 6), (4, 3, 1, 3), (3, 2, 5, 1)]


def arcs_by_loops(L, n, longest, T):
    """Source, target, first token, tokens, type and type before of every arc, as kernels.segments
    numbers them."""
    arcs = []
    for p in range(T + 1):
        for d in range(1, min(p, longest) + 1):
            ends = [
                (1 + 2 * (p - d) * L + x, 1 + (2 * p - 1) * L + x, x)
                for x in range(L if d == 1 else n)
            ]
            arcs += [(u, v, p - d, d, x, -1) for u, v, x in ends]
        for y in range((L if p > 0 else 1) if p < T else 0):
            u, before = (1 + (2 * p - 1) * L + y, y) if p > 0 else (0, L)
            arcs += [(u, 1 + 2 * p * L + x, p, 0, x, before) for x in range(L)]
    return np.array(arcs, np.int32).T


@pytest.mark.parametrize(("L", "n", "longest", "T"), SHAPES)
def test_the_arcs_of_a_sentence_their_scores_and_their_counts(L, n, longest, T):
    rng = np.random.default_rng(L + T)
    A, R = (
        segments.before_transitions.function(L, n, longest, T),
        segments.n_rows.function(longest, T),
    )
    graph = np.zeros((6, A), np.int32)
    segments.write_graph(L, n, longest, T, *graph)
    np.testing.assert_array_equal(graph, arcs_by_loops(L, n, longest, T))
    state, segment = rng.normal(size=(T + 2, 3 * n + L + 1)), rng.normal(size=(R + 3, L + 1))
    transition, inner = rng.normal(size=(L + 1, L + 1)), np.zeros((T + 1, n))
    assert_same(
        segments.arc_scores, state, 2, segment, 3, transition, L, n, longest, T, inner, np.zeros(A)
    )
    arcs = rng.random(A)
    _, (_, made) = both(
        segments.arc_counts, arcs, L, n, longest, T, inner, state, 2, segment, 3, transition
    )
    (_, expected), _ = both(
        segments.arc_counts, arcs, L, n, longest, T, inner, state, 2, segment, 3, transition
    )
    for place in (6, 8, 10):
        np.testing.assert_allclose(made[place], expected[place], atol=1e-12)


def drawn(rng):
    """A random graph with parallel arcs and forbidden ones, and its scores."""
    n = int(rng.integers(2, 12))
    ends = np.sort(rng.integers(0, n, (40, 2)), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    made = graph_of(*ends[ordered(ends[:, 0], ends[:, 1], n)].T, n)
    scores = np.round(rng.normal(size=len(ends)), 1)
    scores[rng.random(len(ends)) < 0.1] = -np.inf
    return made, scores


@pytest.mark.parametrize("seed", range(12))
def test_paths_and_sums_of_any_graph(seed):
    rng = np.random.default_rng(seed)
    made, scores = drawn(rng)
    Q, A = made.n_nodes, len(scores)
    node = [np.zeros(Q) for _ in range(4)]
    assert_same(dag.best_scores, made.source, made.target, scores, made.sources, np.zeros(Q))
    back, path = np.zeros(Q, np.int32), np.zeros(Q, np.int32)
    ends = made.source, made.target, scores, made.sources, made.sinks
    assert_same(dag.viterbi, *ends, node[0], back, path)
    (expected, first), (result, second) = both(dag.posteriors, *ends, *node[:3], np.zeros(A))
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    np.testing.assert_allclose(second[-1], first[-1], atol=1e-12)
    assert_same(dag.posteriors_in_log_space, *ends, *node[:3], np.zeros(A))
    arcs, gains = first[-1], rng.normal(size=A)
    assert_same(
        dag.covariances, made.source, made.target, made.sinks, arcs, gains, *node, np.zeros(A)
    )


@pytest.mark.parametrize("longest", [1, 2, 4])
def test_phrases_of_sentences(longest):
    rng = np.random.default_rng(longest)
    phrases = {tuple(rng.integers(0, 3, rng.integers(1, 5)).tolist()): [n] for n in range(12)}
    index = make_phrases(
        {tuple(map(str, phrase)): numbers for phrase, numbers in phrases.items()}
    ).index
    sentences = [rng.integers(-1, 3, size).tolist() for size in (5, 0, 1, 7)]
    words = np.array(
        [index.number.get(str(word), -1) for words in sentences for word in words], np.int64
    )
    offsets = np.cumsum([0, *map(len, sentences)])
    rows = [
        tuple(words[end - d : end])
        for words in sentences
        for end in range(1, len(words) + 1)
        for d in range(1, min(end, longest) + 1)
    ]
    ends = np.zeros(len(rows), np.int32)
    segments.phrase_ends(words, offsets, longest, len(index.number), *index[1:], ends)
    assert (ends > 0).tolist() == [row in phrases for row in rows]
    assert len(set(ends[ends > 0].tolist())) == len({row for row in rows if row in phrases})
