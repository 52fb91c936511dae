"""Decoders of latent models against enumeration of every latent path: right optima, true bounds, honest proofs."""

import itertools
import time
import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import oracles
from labelwright.corpus import spans_of
from labelwright.corpus.schemes import boundaries
from labelwright.decode import DECODERS
from labelwright.decode.exact import labellings
from labelwright.decode.ldi import candidates
from labelwright.decode.paths import best_paths
from labelwright.errors import OptionError
from labelwright.kernels.clamped import clamped_posteriors
from labelwright.lattice import Lattice, best_path, label_marginals, labelling_weight, posterior, span_probability
from labelwright.models.linear import _span_moves
from labelwright.states import StateSpace, state_space

exact, ldi, viterbi, marginal, mbr = (DECODERS[name] for name in ("exact", "ldi", "viterbi", "marginal", "mbr"))

SCALES = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4]
LABELS = ["O", "B-X", "I-X", "B-Y"]


class Case(NamedTuple):
    lattice: Lattice
    space: StateSpace

    @property
    def truth(self):
        return oracles.Labellings(*self.lattice, self.space.first)

    @property
    def digits(self):
        """What rounding may change in a log weight."""
        finite = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in self.lattice]
        return 1e-13 * (10 + 2 * len(self.lattice.node) * sum(finite)) + 1e-11

    def codes(self, labels):
        return [self.space.labels.index(label) for label in labels]


@st.composite
def cases(draw, max_paths=300_000, max_tokens=6, max_labels=4):
    """Latent lattices of every kind: real, tied or flat scores of any size, with and without forbidden entries, arcs
    for each token or for all, the same or different numbers of states."""
    L = draw(st.integers(1, max_labels))
    one = st.integers(1, 3)
    sizes = draw(st.one_of(one.map(lambda n: [n] * L), st.lists(one, min_size=L, max_size=L)))
    S = sum(sizes)
    longest = max_tokens if S == 1 else min(max_tokens, int(np.log(max_paths) / np.log(S)))
    T = draw(st.integers(1, longest))
    A = T if draw(st.booleans()) else 1
    scale = draw(st.sampled_from(SCALES))
    kind = draw(st.sampled_from(["real", "real", "tied", "flat"]))
    forbidden = draw(st.sampled_from([0.0, 0.0, 0.1, 0.4]))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    shapes = [(T, S), (A, S, S)]
    if kind == "real":
        node, arc = (random.normal(size=shape) * scale for shape in shapes)
    elif kind == "tied":
        node, arc = (random.integers(-1, 2, size=shape) * scale for shape in shapes)
    else:
        node, arc = (np.full(shape, scale) for shape in shapes)
    for x in (node, arc):
        x[random.random(x.shape) < forbidden] = -np.inf
    return Case(Lattice(node.astype(float), arc.astype(float)), state_space(LABELS[:L], sizes))


few = settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much])
many = settings(max_examples=250, suppress_health_check=[HealthCheck.filter_too_much])


def _late(low, tokens, lost):
    """Two latent paths of label A that never meet: the one that looks lost at first is the better one in the end."""
    node = np.zeros((tokens, 3))
    node[:lost, 1] = low
    node[lost:, 0] = low
    node[:, 2] = 0.9 * low
    return Case(Lattice(node, np.where(np.eye(3) > 0, 0.0, -np.inf)[None]), state_space(["A", "B"], [2, 1]))


def _apart(low, tokens):
    """No way leads from one label to the other, and one of them looks hopeless throughout."""
    node = np.tile([0.0, -1.0, low, low - 1], (tokens, 1))
    arc = np.where(np.kron(np.eye(2), np.ones((2, 2))) > 0, 0.0, -np.inf)
    return Case(Lattice(node, arc[None]), state_space(["A", "B"], 2))


# What is too small for scaled numbers at one token must not be lost: it may win later, or be the second best.
VANISHING = [_late(-290.0, 7, 3), _late(-790.0, 3, 1), _late(-400.0, 5, 2), _apart(-250.0, 5), _apart(-90.0, 6)]


def vanishing(*more):
    """Adds these cases, with more arguments, to the drawn ones of a test."""

    def decorate(test):
        for case in VANISHING:
            test = example(case, *more)(test)
        return test

    return decorate


def check(found, case, truth):
    """What every record must keep: a whole labelling, its true weight, no proof that is not one, no gap too small."""
    assert len(found.labels) == truth.T
    at = truth.at(case.codes(found.labels))
    digits = case.digits
    assert found.log_probability == pytest.approx(min(0.0, truth.weights[at] - truth.log_z), abs=digits)
    assert found.log_probability <= 0
    p, best = truth.p[at], truth.p.max()
    assert isinstance(found.exact, bool)
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
@vanishing()
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
    assert labellings(*case).log_z == pytest.approx(truth.log_z, abs=case.digits)


@few
@given(cases(max_paths=50_000), st.sampled_from([1, 2, 5, 40, 10_000]))
@vanishing(5)
def test_n_best_labellings(case, n):
    truth = case.truth
    assume(truth.possible)
    found = labellings(*case, n)
    m = min(n, len(truth.ranked))
    assert len(found.labels) == found.proven == m
    assert len({tuple(y) for y in found.labels}) == m
    np.testing.assert_allclose(found.log_weights, truth.ranked[:m], atol=case.digits, rtol=0)
    own = [truth.weights[truth.at(y)] for y in found.labels]
    np.testing.assert_allclose(found.log_weights, own, atol=case.digits, rtol=0)
    assert (np.diff(found.log_weights) <= case.digits).all()


@few
@given(cases(max_paths=50_000))
@vanishing()
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
    found = labellings(*case, n, max_expansions=limit)
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


def hard(tokens, seed=0, scale=0.7, labels=4, latent=3):
    """A lattice on which the bound is loose: weak scores, many latent states."""
    random = np.random.default_rng(seed)
    S = labels * latent
    lattice = Lattice(random.normal(size=(tokens, S)) * scale, random.normal(size=(tokens, S, S)) * scale)
    return Case(lattice, state_space([f"l{i}" for i in range(labels)], latent))


def test_limits_of_time_and_expansions_on_long_sentences():
    case = hard(60)
    at_once = exact(*case, time_limit=0)
    short = exact(*case, max_expansions=50)
    longer = exact(*case, max_expansions=20_000)
    best = max(found.log_probability for found in (at_once, short, longer))
    for found in (at_once, short, longer):
        assert len(found.labels) == 60
        weight = labelling_weight(case.lattice, np.array(case.codes(found.labels), np.int32), case.space)
        assert found.score == pytest.approx(weight)
        assert np.exp(found.log_probability) + found.gap >= np.exp(best) * (1 - 1e-9)
        assert found.exact == (found.gap == 0)
    assert not short.exact
    assert short.expansions == 50
    assert at_once.expansions < 20_000
    assert longer.gap <= at_once.gap <= short.gap
    same = exact(*case, time_limit=3600, max_expansions=20_000)
    assert same == longer


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("exact", {"max_expansions": -1}, "max_expansions: expected 0 or more"),
        ("exact", {"time_limit": -1.0}, "time_limit: expected 0 seconds or more"),
        ("exact", {"time_limit": float("nan")}, "time_limit: expected 0 seconds or more"),
        ("ldi", {"n": -1}, "n: expected a number of latent paths"),
        ("ldi", {"alpha": 0}, "alpha: expected a number above 0"),
        ("ldi", {"alpha": 1.5}, "alpha: expected a number above 0"),
        ("ldi", {"alpha": float("nan")}, "alpha: expected a number above 0"),
        ("mbr", {"gain": "bleu"}, "gain: expected one of f1, accuracy"),
        ("mbr", {"candidates": "all"}, "candidates: expected 'nbest' or 'ldi'"),
        ("mbr", {"n": 0}, "n: expected 1 or more"),
        ("mbr", {"max_expansions": -1}, "max_expansions: expected 0 or more"),
    ],
)
def test_options_out_of_range(name, options, message):
    with pytest.raises(OptionError, match=message):
        DECODERS[name](*hard(3), **options)


# --- ldi --------------------------------------------------------------------------------------------------------------


@many
@given(cases(max_paths=50_000))
@vanishing()
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
    met = candidates(*case, n=n, alpha=alpha)
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
    projected = dict.fromkeys(truth.at(case.space.label_of[path]) for path in paths)
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


def test_ldi_claims_no_proof_by_its_looser_rule():
    """With alpha below 1 it may stop early; exactness is still judged by the true condition."""
    stopped = 0
    for seed in range(40):
        case = hard(3, seed)
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
    path, score = best_path(case.lattice)
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
@vanishing()
def test_marginals_of_labels_and_of_latent_states(case):
    truth = case.truth
    assume(truth.possible)
    sums = posterior(case.lattice)
    assert sums.log_z == pytest.approx(truth.log_z, abs=case.digits)
    np.testing.assert_allclose(sums.states, truth.states(), atol=1e-10 + 20 * case.digits)
    np.testing.assert_allclose(label_marginals(sums.states, case.space), truth.labels(), atol=1e-10 + 20 * case.digits)


@few
@given(cases(max_paths=20_000, max_tokens=4))
def test_spans_and_whole_labellings(case):
    truth = case.truth
    assume(truth.possible)
    for y, weight in zip(truth.labellings[:: max(1, len(truth.labellings) // 20)], truth.weights, strict=False):
        weight = truth.weights[truth.at(y)]
        assert labelling_weight(case.lattice, y.astype(np.int32), case.space) == pytest.approx(weight, abs=case.digits)
    table = boundaries(case.space.labels)
    sums, spans = posterior(case.lattice), truth.spans(case.space.labels)
    for i, kind in enumerate(table.types):
        moves = _span_moves(table, i, case.space)
        for begin, end in itertools.combinations(range(truth.T + 1), 2):
            p = span_probability(case.lattice, sums, begin, end, moves)
            assert p == pytest.approx(spans[begin, end, kind], abs=1e-10 + 50 * case.digits)


@few
@given(cases(max_paths=20_000), st.integers(0, 10_000))
@vanishing(0)
def test_sums_over_the_latent_paths_of_one_labelling(case, choice):
    """The observed half of the gradient: posteriors of states and pairs when the labels are known."""
    node, arc = case.lattice
    truth = case.truth
    places = np.flatnonzero(truth.weights > -np.inf)
    assume(len(places))
    y = truth.labellings[places[choice % len(places)]].astype(np.int32)
    T, first = truth.T, case.space.first
    H = int(np.diff(first).max())
    log_z, states, pairs = np.empty(1), np.full((T, H), np.nan), np.full((T, H, H), np.nan)
    clamped_posteriors(node, arc, y, first, np.array([0, T]), log_z, states, pairs)
    held = np.where(case.space.label_of == y[:, None], node, -np.inf)
    alone = oracles.Enumerated(held, arc)
    assert log_z[0] == pytest.approx(alone.log_z, abs=case.digits)
    p, q = alone.states(), alone.arcs()
    for t in range(T):
        here = slice(first[y[t]], first[y[t] + 1])
        n = first[y[t] + 1] - first[y[t]]
        np.testing.assert_allclose(states[t, :n], p[t, here], atol=1e-10 + 20 * case.digits)
        if t > 0:
            before = slice(first[y[t - 1]], first[y[t - 1] + 1])
            m = first[y[t - 1] + 1] - first[y[t - 1]]
            np.testing.assert_allclose(pairs[t, :m, :n], q[t, before, here], atol=1e-10 + 20 * case.digits)


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
    met = labellings(*case, n).labels if source == "nbest" else candidates(*case, n).labels
    texts = [[case.space.labels[y] for y in codes] for codes in met]
    p = [truth.p[truth.at(codes)] for codes in met]
    expected = [sum(q * GAINS[gain](a, b) for q, b in zip(p, texts, strict=True)) for a in texts]
    assert found.labels in texts
    assert expected[texts.index(found.labels)] == pytest.approx(max(expected), abs=1e-9 + 100 * case.digits)
    assert found.label_paths == len(texts)
    assert found.mass == pytest.approx(sum(p), abs=10 * case.digits)


def test_mbr_with_one_candidate_is_exact_decoding():
    for seed in range(10):
        case = hard(5, seed)
        assert mbr(*case, n=1).labels == exact(*case).labels
        assert mbr(*case, n=1).exact


def test_mbr_claims_no_proof_that_its_candidates_lack():
    case = hard(60)
    assert not exact(*case, max_expansions=50).exact
    assert not mbr(*case, n=1, max_expansions=50).exact
    assert not mbr(*case, n=1, time_limit=0).exact
    hopeless = hard(200, scale=0.3)
    plain = exact(*hopeless)
    assert not plain.exact  # the default limit ends the search
    assert not mbr(*hopeless, n=1).exact


def test_mbr_where_every_probability_is_too_small_for_a_number():
    case = hard(1000, scale=0.01)
    found = mbr(*case, gain="accuracy", n=5, max_expansions=3000)
    assert found.log_probability < -800
    met = labellings(*case, 5, max_expansions=3000)
    p = np.exp(np.array(met.log_weights) - max(met.log_weights))
    gains = [sum(q * np.mean(a == b) for q, b in zip(p, met.labels, strict=True)) for a in met.labels]
    assert case.codes(found.labels) == met.labels[int(np.argmax(gains))].tolist()


# --- sizes ------------------------------------------------------------------------------------------------------------


def measured(decode, *arguments, **options):
    """The answer, the seconds, and the most megabytes held."""
    decode(*arguments, **options)  # compiled once
    tracemalloc.start()
    begun = time.monotonic()
    found = decode(*arguments, **options)
    seconds = time.monotonic() - begun
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return found, seconds, most


@pytest.mark.parametrize("name", sorted(DECODERS))
@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-3, 0.1])
def test_a_flat_model_costs_little_and_is_honest(name, noise):
    """Five labels, three latent states each, thirty tokens: no labelling stands out among 5^30."""
    random = np.random.default_rng(0)
    lattice = Lattice(random.normal(size=(30, 15)) * noise, random.normal(size=(1, 15, 15)) * noise)
    case = Case(lattice, state_space([f"l{i}" for i in range(5)], 3))
    found, seconds, most = measured(DECODERS[name], *case)
    assert seconds < 5
    assert most < 150
    assert len(found.labels) == 30
    weight = labelling_weight(lattice, np.array(case.codes(found.labels), np.int32), case.space)
    assert found.log_probability == pytest.approx(weight - posterior(lattice).log_z)
    assert found.exact == (found.gap == 0)
    if noise == 0:
        assert found.log_probability == pytest.approx(-30 * np.log(5))
    if name in ("viterbi", "marginal", "ldi"):
        assert not found.exact
        assert found.gap > 0.99
    if name == "exact" and noise == 0:
        assert found.exact  # all labellings are equal, and the search sees it
        assert found.expansions < 1000


@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0, 1e4])
def test_a_thousand_tokens(scale, by_token):
    random = np.random.default_rng(3)
    T, L, H = 1000, 4, 3
    S = L * H
    arc = random.normal(size=(T if by_token else 1, S, S)) * scale
    case = Case(Lattice(random.normal(size=(T, S)) * scale, arc), state_space(LABELS, H))
    for name, options in [("viterbi", {}), ("marginal", {}), ("exact", {}), ("ldi", {}), ("mbr", {"n": 3})]:
        found, seconds, most = measured(DECODERS[name], *case, **options)
        assert seconds < 5
        assert most < 150
        assert len(found.labels) == T
        weight = labelling_weight(case.lattice, np.array(case.codes(found.labels), np.int32), case.space)
        log_z = posterior(case.lattice).log_z
        assert found.log_probability == pytest.approx(min(0, weight - log_z), abs=1e-6 + 1e-12 * abs(log_z))
        assert not np.isnan(found.score)
        assert found.exact == (found.gap == 0)
        if name == "exact" and scale in (0.0, 1e4):
            assert found.exact
        if name == "exact" and found.exact:
            assert viterbi(*case).log_probability <= found.log_probability + 1e-6 + 1e-12 * abs(log_z)


@pytest.mark.parametrize("name", sorted(DECODERS))
def test_one_token(name):
    node = np.array([[0.0, np.log(2), -np.inf, np.log(3), np.log(4)]])
    for arc in (np.zeros((1, 5, 5)), np.full((1, 5, 5), -np.inf)):
        case = Case(Lattice(node, arc), state_space(["A", "B", "C"], [2, 1, 2]))
        found = DECODERS[name](*case)
        assert found.labels == ["C"]
        assert np.exp(found.log_probability) == pytest.approx(0.7)
        assert found.exact


@pytest.mark.parametrize("name", sorted(DECODERS))
@pytest.mark.parametrize("size", [800.0, 1e5, 1e30, 1e150])
def test_scores_that_overflow_exp(name, size):
    """Two latent states share a label and beat the single best path of another label by log 2."""
    T = 4
    node = np.full((T, 3), -size)
    node[0] = size, size, size + np.log(1.5)
    node[1:, 0] = size
    arc = np.zeros((1, 3, 3))
    case = Case(Lattice(node, arc), state_space(["A", "B"], [2, 1]))
    found = DECODERS[name](*case)
    assert not np.isnan(found.score)
    assert np.isfinite(found.score)
    assert found.log_probability <= 0
    assert found.exact == (found.gap == 0)
    assert found.labels[1:] == ["A"] * (T - 1)
    if size < 1e12 and name != "viterbi":  # beyond, the small difference is below the last digit
        assert found.labels[0] == "A"
        assert np.exp(found.log_probability) == pytest.approx(2 / 3.5, rel=1e-4)


@pytest.mark.parametrize("name", sorted(DECODERS))
def test_a_lattice_without_any_path(name):
    case = Case(Lattice(np.zeros((3, 4)), np.full((1, 4, 4), -np.inf)), state_space(["A", "B"], 2))
    found = DECODERS[name](*case)
    assert found.score == found.log_probability == -np.inf
    assert not found.exact
