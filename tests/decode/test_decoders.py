"""Decoders of latent models of both orders against enumeration of every latent path: right optima,
true bounds, honest proofs."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import oracles
import pytest
from cases import VANISHING, cases, examples, few, hard, many
from hypothesis import assume, given
from hypothesis import strategies as st

from labelwright.corpus import spans_of
from labelwright.decode import DECODERS
from labelwright.decode.exact import labellings
from labelwright.decode.mbr import chunk_f1
from labelwright.decode.paths import SLICE, best_paths, candidates
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.structures.lattice import (
    Lattice,
    best_path,
    labelling_weight,
)
from labelwright.structures.states import state_space

exact, ldi, viterbi, marginal, mbr = (
    DECODERS[name] for name in ("exact", "ldi", "viterbi", "marginal", "mbr")
)


def check(found, case, truth):
    """What every record must keep: a whole labelling, its true weight, no proof that is not one, no
    gap too small."""
    assert len(found.labels) == truth.T
    at = truth.at(case.codes(found.labels))
    digits = case.digits
    assert found.log_probability == pytest.approx(
        min(0.0, truth.weights[at] - truth.log_z), abs=digits
    )
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


# --- exact ----------------------------------------------------------------------------------------


@many
@given(cases(max_paths=100_000))
@examples(VANISHING)
def test_exact_and_ldi_without_limit_find_the_most_probable_labelling(case):
    truth = case.truth
    for decode, options in ((exact, {}), (ldi, {"n": 0})):
        found = decode(*case, **options)
        if not truth.possible:
            assert found.labels == []
            assert (found.score, found.log_probability, found.exact) == (-np.inf, -np.inf, False)
            continue
        same_optimum(found, case, truth)
        assert decode is ldi or found.label_paths == 1
        assert decode is ldi or found.mass == pytest.approx(truth.p.max(), rel=case.digits)
        assert decode is ldi or exact(*case, probabilities=False)[:2] == (found.labels, found.score)


@pytest.mark.parametrize("order", [1, 2])
def test_a_labelling_is_proven_at_once_or_found_by_a_search(order):
    """The label with the best bound at each token is the best one, or a bar for a search."""
    expansions = set()
    for seed in range(40):
        case = hard(5, seed, order=order)
        found = exact(*case)
        same_optimum(found, case, case.truth)
        expansions.add(found.expansions)
    assert min(expansions) == 4
    assert max(expansions) > 4


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
    """What is said to be proven is the true beginning of the list; what comes after it is a
    labelling of its own."""
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
    """Six states of order 1 and three of order 2 have 36 arcs each: the same scores mean something
    else there."""
    random = np.random.default_rng(0)
    arc = random.normal(size=(1, 36)) * 3
    one, two = state_space(["A", "B", "C"], 2), state_space(["A", "B", "C"], 1, 2)
    first = two.graph.previous < 0
    node = np.full((5, 12), -np.inf)  # [T, Q]
    node[0, first], node[1:, ~first] = 0.0, random.normal(size=(4, 9))
    lattices = [Lattice(random.normal(size=(5, 6)), arc, one.graph), Lattice(node, arc, two.graph)]
    for lattice, space in [*zip(lattices, (one, two), strict=True)] * 2:
        found = exact(lattice, space)
        weight = labelling_weight(
            lattice, np.array([space.labels.index(label) for label in found.labels], np.int32)
        )
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
        (
            "exact",
            {"max_expansions": 2.5},
            "max_expansions: expected a whole number, 0 or more, got 2.5",
        ),
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


# --- ldi ------------------------------------------------------------------------------------------


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
    np.testing.assert_allclose(
        np.exp(met.log_probabilities), truth.p[places], rtol=0, atol=10 * case.digits
    )
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
        sys.modules["labelwright.decode.paths"],
        "time",
        SimpleNamespace(monotonic=lambda: next(seconds)),
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


# --- viterbi and marginal -------------------------------------------------------------------------


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
    assert found.score == pytest.approx(
        truth.weights[truth.at(case.codes(found.labels))], abs=2 * case.digits
    )


# --- mbr ------------------------------------------------------------------------------------------


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
@given(
    cases(max_paths=20_000),
    st.sampled_from(list(GAINS)),
    st.sampled_from(["nbest", "ldi"]),
    st.integers(1, 20),
)
def test_mbr_maximises_the_expected_gain_over_its_candidates(case, gain, source, n):
    truth = case.truth
    assume(truth.possible)
    found = mbr(*case, gain=gain, candidates=source, n=n)
    check(found, case, truth)
    met = (
        labellings(case.lattice, n).labels
        if source == "nbest"
        else candidates(case.lattice, n).labels
    )
    texts = [[case.space.labels[y] for y in codes] for codes in met]
    p = [truth.p[truth.at(codes)] for codes in met]
    expected = [sum(q * GAINS[gain](a, b) for q, b in zip(p, texts, strict=True)) for a in texts]
    assert found.labels in texts
    assert expected[texts.index(found.labels)] == pytest.approx(
        max(expected), abs=1e-9 + 100 * case.digits
    )
    assert found.label_paths == len(texts)
    assert found.mass == pytest.approx(sum(p), abs=10 * case.digits)


@pytest.mark.parametrize("order", [1, 2])
def test_mbr_with_one_candidate_is_exact_decoding(order):
    for seed in range(10):
        case = hard(5, seed, order=order)
        assert mbr(*case, n=1).labels == exact(*case).labels
        assert mbr(*case, n=1).exact


@pytest.mark.parametrize("order", [1, 2])
def test_mbr_where_every_probability_is_too_small_for_a_number(order):
    case = hard(1000, scale=0.01, order=order)
    found = mbr(*case, gain="accuracy", n=5, max_expansions=3000)
    assert found.log_probability < -800
    met = labellings(case.lattice, 5, max_expansions=3000)
    p = np.exp(np.array(met.log_weights) - max(met.log_weights))
    gains = [
        sum(q * np.mean(a == b) for q, b in zip(p, met.labels, strict=True)) for a in met.labels
    ]
    assert case.codes(found.labels) == met.labels[int(np.argmax(gains))].tolist()


def test_gains_of_labellings_with_and_without_chunks() -> None:
    assert chunk_f1([["O", "O"], ["B-X", "O"], ["O", "O"]]).tolist() == [
        [1, 0, 1],
        [0, 1, 0],
        [1, 0, 1],
    ]
