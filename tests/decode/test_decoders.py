"""Decoders of latent models of both orders against enumeration of every latent path: right optima, true bounds,
honest proofs."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import oracles
import pytest
from cases import VANISHING, Case, cases, examples, few, hard, many
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import Scores

from labelwright.answers.chains import _span_transitions
from labelwright.corpus import spans_of
from labelwright.corpus.schemes import boundaries
from labelwright.decode import DECODERS
from labelwright.decode.exact import labellings
from labelwright.decode.mbr import chunk_f1
from labelwright.decode.paths import SLICE, best_paths, candidates
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.kernels import chain, clamped
from labelwright.structures.lattice import (
    Lattice,
    best_path,
    label_marginals,
    labelling_weight,
    posterior,
    span_probability,
    state_marginals,
)
from labelwright.structures.states import state_space

exact, ldi, viterbi, marginal, mbr = (DECODERS[name] for name in ("exact", "ldi", "viterbi", "marginal", "mbr"))


def check(found, case, truth):
    """What every record must keep: a whole labelling, its true weight, no proof that is not one, no gap too small."""
    assert len(found.labels) == truth.T
    at = truth.at(case.codes(found.labels))
    digits = case.digits
    assert found.log_probability == pytest.approx(min(0.0, truth.weights[at] - truth.log_z), abs=digits)
    assert found.log_probability <= 0
    p, best = truth.p[at], truth.p.max()
    assert isinstance(found.exact, bool)
    assert not any(isinstance(value, np.generic) for value in found), "plain numbers"
    if found.exact:
        assert found.gap == 0
        assert p == pytest.approx(best, rel=digits, abs=10 * digits)
    if found.gap is not None:
        assert 0 <= found.gap <= 1
        assert best <= p + found.gap + 10 * digits
    return at


def same_optimum(found, case, truth):
    at = check(found, case, truth)
    assert found.exact
    assert found.score == pytest.approx(truth.ranked[0], abs=case.digits)
    assert truth.weights[at] == pytest.approx(truth.ranked[0], abs=case.digits)


# --- exact ------------------------------------------------------------------------------------------------------------


@many
@given(cases())
@examples(VANISHING)
def test_exact_finds_the_most_probable_labelling(case):
    truth = case.truth
    found = exact(*case)
    if not truth.possible:
        assert found.labels == []
        assert (found.score, found.log_probability, found.exact) == (-np.inf, -np.inf, False)
        return
    same_optimum(found, case, truth)
    assert found.label_paths == 1
    assert found.mass == pytest.approx(truth.p.max(), rel=case.digits)
    assert labellings(case.lattice).log_z == pytest.approx(truth.log_z, abs=case.digits)


def largest(order, by_token, tied, seed):
    """Four labels, three latent states each, six tokens."""
    random = np.random.default_rng(seed)
    rows = 6 if by_token else 1
    shapes = [(6, 12), (rows, 12, 12), (rows, 12, 12, 12)][: order + 1]
    drawn = (random.integers(-2, 3, size=shape) if tied else random.normal(size=shape) for shape in shapes)
    return Case(Scores(*(x.astype(float) for x in drawn)), state_space(["O", "B-X", "I-X", "B-Y"], 3, order))


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_the_largest_lattices_that_can_be_enumerated(order, by_token, tied):
    """All three million latent paths: the best labelling, the hundred best, and what the other decoders claim."""
    case = largest(order, by_token, tied, seed=order)
    truth = case.truth
    same_optimum(exact(*case), case, truth)
    same_optimum(ldi(*case, n=0), case, truth)
    for decode in (ldi, viterbi, marginal, mbr):
        check(decode(*case), case, truth)
    found = labellings(case.lattice, 100)
    assert found.proven == len({tuple(y) for y in found.labels}) == 100
    np.testing.assert_allclose(found.log_weights, truth.ranked[:100], atol=case.digits, rtol=0)
    sums = posterior(case.lattice)
    assert sums.log_z == pytest.approx(truth.log_z, abs=case.digits)
    np.testing.assert_allclose(state_marginals(sums.nodes, case.graph), truth.states(), atol=1e-10)
    scores = np.sort(np.partition(truth.path_scores, -200, axis=None)[-200:])[::-1]
    np.testing.assert_allclose(best_paths(case.lattice, 200)[1], scores, atol=case.digits, rtol=0)


@few
@given(cases(max_paths=50_000), st.sampled_from([1, 2, 5, 40, 10_000]))
@examples(VANISHING, 5)
def test_n_best_labellings(case, n):
    truth = case.truth
    assume(truth.possible)
    found = labellings(case.lattice, n)
    m = min(n, len(truth.ranked))
    assert len(found.labels) == found.proven == m
    assert len({tuple(y) for y in found.labels}) == m
    np.testing.assert_allclose(found.log_weights, truth.ranked[:m], atol=case.digits, rtol=0)
    own = [truth.weights[truth.at(y)] for y in found.labels]
    np.testing.assert_allclose(found.log_weights, own, atol=case.digits, rtol=0)
    assert (np.diff(found.log_weights) <= case.digits).all()


@few
@given(cases(max_paths=50_000))
@examples(VANISHING)
def test_a_search_cut_short_is_honest(case):
    """With every limit from none to enough: a whole labelling, and a bound that holds."""
    truth = case.truth
    assume(truth.possible)
    limits = itertools.chain(range(25), (2**k for k in range(5, 13)))
    for limit in limits:
        found = exact(*case, max_expansions=limit)
        check(found, case, truth)
        assert found.expansions <= limit
        if found.exact and found.expansions < limit:
            break
    same_optimum(found, case, truth)


@few
@given(cases(max_paths=50_000), st.integers(0, 30), st.integers(2, 12))
def test_n_best_cut_short(case, limit, n):
    """What is said to be proven is the true beginning of the list; what comes after it is a labelling of its own."""
    truth = case.truth
    assume(truth.possible)
    found = labellings(case.lattice, n, max_expansions=limit)
    assert 1 <= len(found.labels) <= n
    assert found.proven <= len(found.labels) <= found.proven + 1
    assert len({tuple(y) for y in found.labels}) == len(found.labels)
    np.testing.assert_allclose(
        found.log_weights[: found.proven], truth.ranked[: found.proven], atol=case.digits, rtol=0
    )
    for y, weight in zip(found.labels, found.log_weights, strict=True):
        assert weight == pytest.approx(truth.weights[truth.at(y)], abs=case.digits)
    seen = {truth.at(y) for y in found.labels[: found.proven]}
    unseen = [w for i, w in enumerate(truth.weights) if i not in seen]
    if len(found.labels) < n and found.proven < len(truth.ranked):
        assert max(unseen) <= found.log_open + case.digits


@pytest.mark.parametrize("order", [1, 2])
def test_limits_of_time_and_expansions_on_long_sentences(order):
    case = hard(60, order=order)
    at_once = exact(*case, time_limit=0)
    short = exact(*case, max_expansions=50)
    longer = exact(*case, max_expansions=20_000)
    best = max(found.log_probability for found in (at_once, short, longer))
    for found in (at_once, short, longer):
        assert len(found.labels) == 60
        weight = labelling_weight(case.lattice, np.array(case.codes(found.labels), np.int32))
        assert found.score == pytest.approx(weight)
        assert np.exp(found.log_probability) + found.gap >= np.exp(best) * (1 - 1e-9)
        assert found.exact == (found.gap == 0)
    assert not short.exact
    assert short.expansions == 50
    assert at_once.expansions < 20_000
    assert longer.gap <= at_once.gap <= short.gap
    same = exact(*case, time_limit=3600, max_expansions=20_000)
    assert same == longer


def test_equal_scores_on_two_graphs_are_not_mistaken():
    """Six states of order 1 and three of order 2 have 36 arcs each: the same scores mean something else there."""
    random = np.random.default_rng(0)
    arc = random.normal(size=(1, 36)) * 3
    one, two = state_space(["A", "B", "C"], 2), state_space(["A", "B", "C"], 1, 2)
    first = two.graph.previous < 0
    node = np.full((5, 12), -np.inf)  # [T, Q]
    node[0, first], node[1:, ~first] = 0.0, random.normal(size=(4, 9))
    lattices = [Lattice(random.normal(size=(5, 6)), arc, one.graph), Lattice(node, arc, two.graph)]
    for lattice, space in [*zip(lattices, (one, two), strict=True)] * 2:
        assert labellings(lattice).log_z == pytest.approx(posterior(lattice).log_z)
        found = exact(lattice, space)
        weight = labelling_weight(lattice, np.array([space.labels.index(label) for label in found.labels], np.int32))
        assert found.score == pytest.approx(weight)


def test_a_record_prints_what_is_known_in_plain_numbers():
    assert repr(Decoding(["O"], 1.5, -0.25, True, 0.0)) == (
        "Decoding(labels=['O'], score=1.5, log_probability=-0.25, exact=True, gap=0.0)"
    )
    assert repr(Decoding(["O"], 2.0, None, False, None, confidence=0.5)) == (
        "Decoding(labels=['O'], score=2.0, exact=False, confidence=0.5)"
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("exact", {"max_expansions": -1}, "max_expansions: expected a whole number, 0 or more"),
        ("exact", {"time_limit": -1.0}, "time_limit: expected 0 seconds or more"),
        ("exact", {"time_limit": float("nan")}, "time_limit: expected 0 seconds or more"),
        ("ldi", {"n": -1}, "n: expected a whole number, 0 or more"),
        ("ldi", {"alpha": 0}, "alpha: expected a number above 0"),
        ("ldi", {"alpha": 1.5}, "alpha: expected a number above 0"),
        ("ldi", {"alpha": float("nan")}, "alpha: expected a number above 0"),
        ("exact", {"max_expansions": 2.5}, "max_expansions: expected a whole number, 0 or more, got 2.5"),
        ("exact", {"time_limit": "1"}, "time_limit: expected 0 seconds or more, got '1'"),
        ("ldi", {"n": "3"}, "n: expected a whole number, 0 or more, got '3'"),
        ("mbr", {"n": 2001}, "n: expected a whole number, 1 to 2,000, got 2001"),
        ("ldi", {"time_limit": -1.0}, "time_limit: expected 0 seconds or more"),
        ("mbr", {"gain": "bleu"}, "gain: expected one of f1, accuracy"),
        ("mbr", {"candidates": "all"}, "candidates: expected 'nbest' or 'ldi'"),
        ("mbr", {"n": 0}, "n: expected a whole number, 1 to 2,000"),
        ("mbr", {"max_expansions": -1}, "max_expansions: expected a whole number, 0 or more"),
    ],
)
def test_options_out_of_range(name, options, message):
    with pytest.raises(OptionError, match=message):
        DECODERS[name](*hard(3), **options)


# --- ldi --------------------------------------------------------------------------------------------------------------


@many
@given(cases(max_paths=50_000))
@examples(VANISHING)
def test_ldi_without_limit_finds_the_most_probable_labelling(case):
    truth = case.truth
    found = ldi(*case, n=0)
    if not truth.possible:
        assert found.labels == []
        assert (found.score, found.log_probability, found.exact) == (-np.inf, -np.inf, False)
        return
    same_optimum(found, case, truth)
    assert exact(*case).log_probability == pytest.approx(found.log_probability, abs=case.digits)


@few
@given(cases(max_paths=50_000), st.sampled_from([1, 2, 5, 30]), st.sampled_from([1.0, 0.5]))
def test_ldi_with_limits(case, n, alpha):
    truth = case.truth
    assume(truth.possible)
    found = ldi(*case, n=n, alpha=alpha)
    met = candidates(case.lattice, n=n, alpha=alpha)
    check(found, case, truth)
    assert found.score == pytest.approx(found.log_probability + truth.log_z, abs=case.digits)
    # the counters
    places = [truth.at(y) for y in met.labels]
    assert 1 <= found.label_paths == len(places) == len(set(places)) <= found.latent_paths <= n
    np.testing.assert_allclose(np.exp(met.log_probabilities), truth.p[places], rtol=0, atol=10 * case.digits)
    assert found.mass == pytest.approx(truth.p[places].sum(), abs=10 * case.digits)
    assert found.log_probability == max(met.log_probabilities)
    # the labellings are those of the best latent paths
    paths, scores = best_paths(case.lattice, found.latent_paths)
    projected = dict.fromkeys(truth.at(y) for y in case.graph.label_of_node[paths])
    assert places == list(projected)
    every = np.sort(truth.path_scores, axis=None)[::-1]
    np.testing.assert_allclose(scores, every[: len(scores)], atol=case.digits, rtol=0)
    # it stops by its rule, and no later
    best, mass = 0.0, 0.0
    for p in truth.p[places[:-1]]:
        best, mass = max(best, p), mass + p
        assert best < alpha * (1 - mass) + 10 * case.digits
    if found.latent_paths < min(n, (every > -np.inf).sum()):
        assert max(best, truth.p[places[-1]]) >= alpha * (1 - found.mass) - 10 * case.digits


@few
@given(cases(max_paths=50_000))
def test_ldi_out_of_time_is_honest(case):
    truth = case.truth
    assume(truth.possible)
    found = ldi(*case, n=0, time_limit=0)
    check(found, case, truth)
    assert 1 <= found.latent_paths <= SLICE
    same_optimum(ldi(*case, n=0, time_limit=3600), case, truth)
    assert ldi(*case, n=7, time_limit=3600) == ldi(*case, n=7)


@pytest.mark.parametrize("order", [1, 2])
def test_ldi_on_a_long_sentence_ends_in_time(order, monkeypatch):
    """With a clock on which every look takes 0.1 seconds."""
    seconds = itertools.count(0.0, 0.1)
    monkeypatch.setattr(
        sys.modules["labelwright.decode.paths"], "time", SimpleNamespace(monotonic=lambda: next(seconds))
    )
    found = ldi(*hard(60, order=order), n=0, time_limit=0.25)
    assert next(seconds) == pytest.approx(0.4)  # the start and three looks
    assert found.latent_paths <= 3 * SLICE
    assert not found.exact
    assert 0 < found.gap <= 1
    assert len(found.labels) == 60


@pytest.mark.parametrize("order", [1, 2])
def test_ldi_claims_no_proof_by_its_looser_rule(order):
    """With alpha below 1 it may stop early; exactness is still judged by the true condition."""
    stopped = 0
    for seed in range(40):
        case = hard(3, seed, order=order)
        truth = case.truth
        found = ldi(*case, n=0, alpha=0.05)
        check(found, case, truth)
        p = np.exp(found.log_probability)
        assert found.exact == (p >= 1 - found.mass)
        if not found.exact:
            stopped += 1
            assert found.gap == pytest.approx(1 - found.mass - p)
    assert stopped > 5


# --- viterbi and marginal ---------------------------------------------------------------------------------------------


@few
@given(cases())
def test_viterbi_is_the_projected_best_path(case):
    truth = case.truth
    assume(truth.possible)
    found = viterbi(*case)
    at = check(found, case, truth)
    nodes, score = best_path(case.lattice)
    (path,) = oracles.states_of(nodes[None], case.graph)
    assert case.codes(found.labels) == case.space.label_of[path].tolist()
    assert found.score == score == pytest.approx(truth.path_scores.max(), abs=case.digits)
    assert truth.path_scores[tuple(path)] == pytest.approx(score, abs=case.digits)
    assert np.exp(found.log_probability) == pytest.approx(truth.p[at], abs=10 * case.digits)
    quick = viterbi(*case, probabilities=False)
    assert quick.labels == found.labels
    if case.space.latent:
        assert (quick.log_probability, quick.exact, quick.gap) == (None, False, None)


@few
@given(cases())
def test_marginal_takes_the_best_sum_at_each_token(case):
    truth = case.truth
    assume(truth.possible)
    found = marginal(*case)
    check(found, case, truth)
    sums = truth.labels()
    chosen = sums[np.arange(truth.T), case.codes(found.labels)]
    np.testing.assert_allclose(chosen, sums.max(axis=1), atol=20 * case.digits)
    assert found.score == pytest.approx(truth.weights[truth.at(case.codes(found.labels))], abs=2 * case.digits)


@few
@given(cases(max_paths=50_000))
@examples(VANISHING)
def test_marginals_of_labels_and_of_latent_states(case):
    truth = case.truth
    assume(truth.possible)
    sums = posterior(case.lattice)
    assert sums.log_z == pytest.approx(truth.log_z, abs=case.digits)
    for marginals, expected in ((state_marginals, truth.states()), (label_marginals, truth.labels())):
        np.testing.assert_allclose(marginals(sums.nodes, case.graph), expected, atol=1e-10 + 20 * case.digits)


@few
@given(cases(max_paths=20_000, max_tokens=4))
def test_spans_and_whole_labellings(case):
    truth = case.truth
    assume(truth.possible)
    for y in truth.labellings[:: max(1, len(truth.labellings) // 20)]:
        weight = truth.weights[truth.at(y)]
        assert labelling_weight(case.lattice, y.astype(np.int32)) == pytest.approx(weight, abs=case.digits)
    table = boundaries(case.space.labels)
    sums, spans = posterior(case.lattice), truth.spans(case.space.labels)
    for i, kind in enumerate(table.types):
        transitions = _span_transitions(table, i, case.space)
        for begin, end in itertools.combinations(range(truth.T + 1), 2):
            p = span_probability(case.lattice, sums, begin, end, transitions)
            assert p == pytest.approx(spans[begin, end, kind], abs=1e-10 + 50 * case.digits)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@few
@given(cases(max_paths=20_000), st.integers(0, 10_000))
@examples(VANISHING, 0)
def test_sums_over_the_latent_paths_of_one_labelling(dtype, case, choice):
    """The observed half of the gradient: posteriors of nodes and arcs when the labels are known, or NaN where the
    sentence must be done again in log space."""
    node, arc, graph = case.lattice
    truth = case.truth
    places = np.flatnonzero(truth.weights > -np.inf)
    assume(len(places))
    y = truth.labellings[places[choice % len(places)]].astype(np.int32)
    held = np.where(case.space.label_of == y[:, None], case.scores.node, -np.inf)  # [T, S]
    alone = oracles.Enumerated(case.scores._replace(node=held))
    T, contexts = truth.T, graph.contexts
    C, H = graph.most_in_context, graph.most_targets

    def compare(log_z, nodes, pairs, digits):
        assert log_z == pytest.approx(alone.log_z, abs=digits)
        p, q, context = alone.nodes(graph), alone.arcs(graph), -1
        for t in range(T):
            if t > 0:
                for i, source in enumerate(contexts.node[contexts.ptr[context] : contexts.ptr[context + 1]]):
                    first, end = contexts.cut[contexts.block[source], y[t] : y[t] + 2]
                    arcs = contexts.base[source] + np.arange(first, end)
                    np.testing.assert_allclose(pairs[t, i, : end - first], q[t, arcs], atol=1e-10 + 20 * digits)
            context = contexts.following[context, y[t]] if t > 0 else contexts.opening[y[0]]
            here = contexts.node[contexts.ptr[context] : contexts.ptr[context + 1]]
            np.testing.assert_allclose(nodes[t, : len(here)], p[t, here], atol=1e-10 + 20 * digits)

    nodes, pairs = np.full((T, C), np.nan), np.full((T, C, H), np.nan)
    compare(clamped.clamped_in_log_space(node, arc, contexts, y, nodes, pairs), nodes, pairs, case.digits)
    exponentiate = chain.exponentiate32 if dtype == np.float32 else chain.exponentiate64
    psi, top = node.astype(dtype), np.empty(T, dtype)  # [T, Q], [T]
    exponentiate(psi, top, graph.n_nodes)
    E, arc_top = arc.astype(dtype), np.empty(len(arc), dtype)  # [T|1, A], [T|1]
    exponentiate(E, arc_top, graph.n_arcs)
    log_z, nodes, pairs = np.empty(1), np.full((T, C), np.nan), np.full((T, C, H), np.nan)
    clamped.clamped_posteriors(psi, top, E, arc_top, np.arange(T), contexts, y, np.array([0, T]), log_z, nodes, pairs)
    if np.isnan(log_z[0]):
        assert case.size > 40  # ordinary scores need no second try
    else:
        compare(log_z[0], nodes, pairs, case.digits + np.finfo(dtype).eps * 10 * case.size)


# --- mbr --------------------------------------------------------------------------------------------------------------


def true_f1(a, b):
    a, b = set(spans_of(a)), set(spans_of(b))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0


def true_accuracy(a, b):
    return sum(x == y for x, y in zip(a, b, strict=True)) / len(a)


def lopsided(a, b):
    """A gain that is not symmetric: how often the chosen one says O where the true one does."""
    return sum(x == "O" == y for x, y in zip(a, b, strict=True)) - 0.3 * list(a).count("B-X")


GAINS = {"f1": true_f1, "accuracy": true_accuracy, lopsided: lopsided}


@few
@given(cases(max_paths=20_000), st.sampled_from(list(GAINS)), st.sampled_from(["nbest", "ldi"]), st.integers(1, 20))
def test_mbr_maximises_the_expected_gain_over_its_candidates(case, gain, source, n):
    truth = case.truth
    assume(truth.possible)
    found = mbr(*case, gain=gain, candidates=source, n=n)
    check(found, case, truth)
    met = labellings(case.lattice, n).labels if source == "nbest" else candidates(case.lattice, n).labels
    texts = [[case.space.labels[y] for y in codes] for codes in met]
    p = [truth.p[truth.at(codes)] for codes in met]
    expected = [sum(q * GAINS[gain](a, b) for q, b in zip(p, texts, strict=True)) for a in texts]
    assert found.labels in texts
    assert expected[texts.index(found.labels)] == pytest.approx(max(expected), abs=1e-9 + 100 * case.digits)
    assert found.label_paths == len(texts)
    assert found.mass == pytest.approx(sum(p), abs=10 * case.digits)


@pytest.mark.parametrize("order", [1, 2])
def test_mbr_with_one_candidate_is_exact_decoding(order):
    for seed in range(10):
        case = hard(5, seed, order=order)
        assert mbr(*case, n=1).labels == exact(*case).labels
        assert mbr(*case, n=1).exact


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
def test_mbr_claims_no_proof_that_its_candidates_lack(order):
    case = hard(60, order=order)
    assert not exact(*case, max_expansions=50).exact
    assert not mbr(*case, n=1, max_expansions=50).exact
    assert not mbr(*case, n=1, time_limit=0).exact
    hopeless = hard(200, scale=0.3, order=order)
    plain = exact(*hopeless)
    assert not plain.exact  # the default limit ends the search
    assert not mbr(*hopeless, n=1).exact


@pytest.mark.parametrize("order", [1, 2])
def test_mbr_where_every_probability_is_too_small_for_a_number(order):
    case = hard(1000, scale=0.01, order=order)
    found = mbr(*case, gain="accuracy", n=5, max_expansions=3000)
    assert found.log_probability < -800
    met = labellings(case.lattice, 5, max_expansions=3000)
    p = np.exp(np.array(met.log_weights) - max(met.log_weights))
    gains = [sum(q * np.mean(a == b) for q, b in zip(p, met.labels, strict=True)) for a in met.labels]
    assert case.codes(found.labels) == met.labels[int(np.argmax(gains))].tolist()


def test_gains_of_labellings_with_and_without_chunks() -> None:
    assert chunk_f1([["O", "O"], ["B-X", "O"], ["O", "O"]]).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
