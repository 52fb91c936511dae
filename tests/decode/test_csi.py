"""Inference over class n-grams against a slow reading of the paper that enumerates all candidate
sequences."""

import itertools
from collections import Counter

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright.corpus.schemes import allowed, validate
from labelwright.decode.csi import (
    INFERENCE,
    best_labellings,
    csi,
    inference_named,
    none,
    oracle,
    satisfied,
    vote,
)
from labelwright.errors import OptionError
from labelwright.parallel import Workers
from labelwright.structures.proposals import (
    WEIGHTINGS,
    certain,
    from_probabilities,
    n_sequences,
    ngram_classes,
    part,
    problem,
    propose,
    windows,
)

LABELS = ["O", "B-X", "I-X", "B-Y"]
many = drawn(250)


# --- a slow twin ----------------------------------------------------------------------------------


class Slow:
    """One sentence, word for word: classes are tuples of labels (None outside), distributions are
    dicts."""

    def __init__(self, predicted, distributions, n):
        self.predicted, self.distributions, self.n, self.h = predicted, distributions, n, n // 2
        self.T = len(predicted)

    def label(self, p, t):
        """The label that the class predicted at p gives to t, if any."""
        return self.predicted[p][t - p + self.h]

    def covering(self, t):
        return [
            p
            for p in range(max(0, t - self.h), min(self.T, t + self.h + 1))
            if self.label(p, t) is not None
        ]

    def confidence(self, t, fits):
        """The share of the weight of all classes of t that fit."""
        weights = self.distributions[t]
        return sum(w for c, w in weights.items() if fits(c)) / sum(weights.values())

    def domain(self, t):
        nearest = sorted(self.covering(t), key=lambda p: (abs(p - t), p))
        return list(dict.fromkeys(self.label(p, t) for p in nearest))

    def constraints(self, weigh=lambda p, length: p, lengths=None):
        """(positions, labels, weight): every part of every predicted n-gram."""
        found = []
        for t in range(self.T):
            for length in range(1, self.n + 1):
                for first in range(t - self.h, t + self.h + 2 - length):
                    positions = list(range(first, first + length))
                    if first < 0 or positions[-1] >= self.T or (lengths and length not in lengths):
                        continue
                    labels = [self.label(t, at) for at in positions]
                    if None in labels:
                        continue

                    def same(c, t=t, positions=positions, labels=labels):
                        return [c[at - t + self.h] for at in positions] == labels

                    if length == self.n:
                        p = self.confidence(t, lambda c, t=t: c == self.predicted[t])
                    else:
                        p = self.confidence(t, same)
                    found.append((positions, labels, weigh(p, length)))
        return found

    def weight(self, labels, constraints):
        return sum(
            w for positions, wanted, w in constraints if [labels[at] for at in positions] == wanted
        )

    def ranked(self, constraints, valid=lambda labels: True):
        """All candidate sequences that are valid, the best first; those that tie by the places of
        their candidates."""
        domains = [self.domain(t) for t in range(self.T)]
        rows = []
        for places in itertools.product(*(range(len(d)) for d in domains)):
            labels = [d[i] for d, i in zip(domains, places, strict=True)]
            if valid(labels):
                rows.append((-round(self.weight(labels, constraints), 9), places, labels))
        return [(labels, -score) for score, _, labels in sorted(rows)]

    def voted(self):
        answer = []
        for t in range(self.T):
            votes = Counter(self.label(p, t) for p in self.covering(t))
            tied = [label for label in self.domain(t) if votes[label] == max(votes.values())]
            sure = [
                max(
                    self.confidence(p, lambda c, p=p: c == self.predicted[p])
                    for p in self.covering(t)
                    if self.label(p, t) == label
                )
                for label in tied
            ]
            answer.append(next(x for x, s in zip(tied, sure, strict=True) if s > max(sure) - 1e-9))
        return answer

    def oracle(self, gold):
        return [
            label if label in self.domain(t) else self.predicted[t][self.h]
            for t, label in enumerate(gold)
        ]


@st.composite
def predictions(draw, orders=(1, 3, 5), sentences=3, labels=3):
    """Distributions over n-gram classes of a few sentences: (table [C, n], Distributions,
    offsets)."""
    n, L = draw(st.sampled_from(orders)), draw(st.integers(1, labels))
    h = n // 2
    lengths = draw(st.lists(st.integers(0, 6 if n < 5 else 5), min_size=1, max_size=sentences))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    classes = {}
    for _ in range(draw(st.integers(2, 8))):
        gram = rng.integers(0, L, n)
        # some have the ends of a sentence within
        before, after = rng.integers(0, h + 1, 2) * (rng.random(2) < 0.4)
        gram[:before] = -1
        gram[n - after :] = -1
        classes[tuple(gram.tolist())] = None
    table = np.array(list(classes), np.int32)
    kind = draw(st.sampled_from(["real", "whole", "even", "certain"]))
    T, C = int(offsets[-1]), len(table)
    if kind == "certain":
        return table, certain(rng.integers(0, C, T)), offsets
    dense = {"real": rng.random, "whole": lambda s: rng.integers(1, 4, s) * 1.0, "even": np.ones}[
        kind
    ]((T, C))
    dense[rng.random((T, C)) < 0.4] = 0
    dense[np.arange(T), rng.integers(0, C, T)] = 2.0 if kind == "real" else 3.0
    found = from_probabilities(dense)
    if draw(st.booleans()):  # a learner may break ties otherwise
        best = [rng.choice(found.classes[a:b]) for a, b in itertools.pairwise(found.ptr)]
        found = found._replace(best=np.array(best, np.int32))
    return table, found, offsets


def slow(table, found, offsets, sentence):
    grams = [tuple(None if code < 0 else code for code in gram) for gram in table.tolist()]
    a, b = offsets[sentence : sentence + 2].tolist()
    weights = [
        dict(zip([grams[c] for c in found.classes[i:j]], found.weights[i:j].tolist(), strict=True))
        for i, j in itertools.pairwise(found.ptr[a : b + 1].tolist())
    ]
    return Slow([grams[c] for c in found.best[a:b]], weights, table.shape[1])


def sentences(offsets):
    return [(n, slice(a, b)) for n, (a, b) in enumerate(itertools.pairwise(offsets.tolist()))]


# --- n-grams and distributions --------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=5),
    st.sampled_from([1, 3, 5, 7]),
)
def test_classes_are_the_distinct_windows_in_order_of_appearance(rows, n):
    codes = np.array([code for row in rows for code in row], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    h = n // 2
    expected = [
        tuple(row[i] if 0 <= i < len(row) else -1 for i in range(t - h, t + h + 1))
        for row in rows
        for t in range(len(row))
    ]
    assert list(map(tuple, windows(codes, offsets, n).tolist())) == expected
    table, classes = ngram_classes(codes, offsets, n)
    assert table.dtype == classes.dtype == np.int32
    assert list(map(tuple, table.tolist())) == list(dict.fromkeys(expected))
    assert [tuple(table[c].tolist()) for c in classes] == expected


def test_many_labels_make_no_number_too_large():
    codes = np.arange(100_000)
    table, classes = ngram_classes(codes, np.array([0, 100_000]), 15)
    assert len(table) == 100_000
    assert classes.tolist() == codes.tolist()


@pytest.mark.parametrize("n", [0, 2, -1, 17, 3.0, "3", True, None])
def test_an_order_without_a_middle_is_refused(n):
    with pytest.raises(OptionError, match=r"ngram: expected an odd number, 1 to 15, got"):
        ngram_classes(np.zeros(1, np.int32), np.array([0, 1]), n)


def test_distributions_from_probabilities():
    found = from_probabilities([[0.0, 0.2, 0.8], [0.5, 0.0, 0.5]], [7, 5, 9])
    assert found.best.tolist() == [9, 7]  # the first of equals
    assert found.ptr.tolist() == [0, 2, 4]
    assert found.classes.tolist() == [5, 9, 7, 9]
    assert found.weights.tolist() == [0.2, 0.8, 0.5, 0.5]
    assert [a.dtype for a in found] == [np.int32, np.int64, np.int32, np.float64]
    for wrong in ([[np.nan, 1.0]], [[-0.1, 1.1]], [[np.inf, 0.0]]):
        with pytest.raises(OptionError, match="row 0 has"):
            from_probabilities(wrong)
    with pytest.raises(OptionError, match="expected rows of 2"):
        from_probabilities([[1.0, 0.0, 0.0]], [0, 1])


# --- candidates -----------------------------------------------------------------------------------


@many
@given(predictions(), st.sampled_from([*WEIGHTINGS]), st.sampled_from([None, (1,), (2, 3), (1, 3)]))
def test_candidates_and_weights_are_those_of_the_paper(case, weighting, lengths):
    table, found, offsets = case
    n = table.shape[1]
    lengths = None if lengths is None or max(lengths) > n else lengths
    made = propose(found, table, offsets, weighting, lengths)
    weigh = {
        "confidence": lambda p, length: p,
        "count": lambda p, length: 1.0,
        "squared": lambda p, length: p**2,
        "log": lambda p, length: -np.log(1 - min(p, 0.999)),
        "length": lambda p, length: p * length,
    }[weighting]
    for sentence, tokens in sentences(offsets):
        twin = slow(*case, sentence)
        domains = [
            row[:size].tolist()
            for row, size in zip(made.domains[tokens], made.sizes[tokens], strict=True)
        ]
        assert domains == [twin.domain(t) for t in range(twin.T)]
        wanted = [c for c in twin.constraints(weigh, lengths) if c[2] > 0]
        total = Counter()
        for positions, labels, weight in wanted:
            total[tuple(positions), tuple(labels)] += weight
        own = problem(made, sentence, range(100))
        assert own.domains == domains
        assert {(positions, labels): w for positions, labels, w in own.factors} == pytest.approx(
            dict(total)
        )
        assert (made.weights[tokens] > 0).sum() == len(wanted)  # none counts twice
        assert n_sequences(made)[sentence] == np.prod([len(d) for d in domains])


def test_options_of_constraints():
    table, classes = ngram_classes(np.array([0, 1, 0]), np.array([0, 3]), 3)
    given = certain(classes), table, np.array([0, 3])
    made = propose(*given, lambda p, length: p + length)
    assert made.weights[1].tolist() == [[2, 3, 4], [0, 2, 3], [0, 0, 2]]
    with pytest.raises(
        OptionError, match=r"weighting: expected one of confidence, count, .* got 'best'"
    ):
        propose(*given, "best")
    with pytest.raises(OptionError, match="finite number of 0 or more"):
        propose(*given, lambda p, length: -p)
    with pytest.raises(OptionError, match="finite number of 0 or more"):
        propose(*given, lambda p, length: 1.0)
    for wrong in ([0], [4], [1.5], ["1"]):
        with pytest.raises(OptionError, match="lengths: expected whole numbers, 1 to 3"):
            propose(*given, lengths=wrong)
    with pytest.raises(OptionError, match="lengths: got none"):
        propose(*given, lengths=[])
    with pytest.raises(OptionError, match="a label in the middle"):
        propose(certain([0]), np.array([[0, -1, 0]]), np.array([0, 1]))


# --- inference ------------------------------------------------------------------------------------


@many
@given(predictions(), st.sampled_from(["confidence", "count", "length"]))
def test_csi_is_the_best_of_all_candidate_sequences(case, weighting):
    table, found, offsets = case
    made = propose(*(found, table, offsets), weighting)
    best = csi(made)
    assert best.labels.dtype == np.int32
    np.testing.assert_allclose(satisfied(made, best.labels), best.scores, atol=1e-9)
    for sentence, tokens in sentences(offsets):
        twin = slow(*case, sentence)
        constraints = twin.constraints(
            {"confidence": lambda p, k: p, "count": lambda p, k: 1.0, "length": lambda p, k: p * k}[
                weighting
            ]
        )
        labels, score = twin.ranked(constraints)[0]  # ties by the places of candidates
        assert best.scores[sentence] == pytest.approx(score, abs=1e-8)
        assert best.labels[tokens].tolist() == labels


@many
@given(predictions(labels=4), st.sampled_from(["iob2", "iob1", "bioes"]))
def test_csi_keeps_to_a_label_scheme(case, scheme):
    table, found, offsets = case
    names = [*LABELS[:3], "B-Y"] if scheme != "bioes" else ["O", "B-X", "I-X", "E-X"]
    made = propose(found, table, offsets)
    best = csi(made, allowed(names, scheme))
    for sentence, tokens in sentences(offsets):
        twin = slow(*case, sentence)
        rows = twin.ranked(
            twin.constraints(),
            lambda codes: not codes or not validate([[names[c] for c in codes]], scheme),
        )
        listed, scores = best_labellings(made, sentence, 4, allowed(names, scheme))
        if not rows:
            assert best.scores[sentence] == -np.inf
            assert (listed, scores) == ([], [])
            continue
        assert best.scores[sentence] == pytest.approx(rows[0][1], abs=1e-8)
        assert best.labels[tokens].tolist() == rows[0][0]
        np.testing.assert_allclose(scores, [score for _, score in rows[:4]], atol=1e-8)


@many
@given(predictions(orders=(1, 3)), st.integers(1, 30))
def test_n_best_labellings_are_those_of_enumeration(case, n):
    table, found, offsets = case
    made = propose(found, table, offsets)
    best = csi(made)
    for sentence, tokens in sentences(offsets):
        twin = slow(*case, sentence)
        ranked = twin.ranked(twin.constraints())
        rows, scores = best_labellings(made, sentence, n)
        np.testing.assert_allclose(scores, [score for _, score in ranked[:n]], atol=1e-8)
        assert rows[0].tolist() == best.labels[tokens].tolist()
        every = {tuple(labels): score for labels, score in ranked}
        assert len({tuple(row.tolist()) for row in rows}) == len(rows) == min(n, len(ranked))
        assert all(
            every[tuple(row.tolist())] == pytest.approx(s, abs=1e-8)
            for row, s in zip(rows, scores, strict=True)
        )


@many
@given(predictions())
def test_votes_are_counted_as_by_hand(case):
    table, found, offsets = case
    made = propose(found, table, offsets)
    voted, own = vote(made), none(made)
    for sentence, tokens in sentences(offsets):
        twin = slow(*case, sentence)
        constraints = twin.constraints()
        assert voted.labels[tokens].tolist() == twin.voted()
        assert own.labels[tokens].tolist() == [gram[twin.h] for gram in twin.predicted]
        for answer in (voted, own):
            weight = twin.weight(answer.labels[tokens].tolist(), constraints)
            assert answer.scores[sentence] == pytest.approx(weight)


@given(predictions(), st.randoms(use_true_random=False))
def test_the_oracle_knows_the_truth(case, random):
    table, found, offsets = case
    gold = np.array([random.randrange(-1, 4) for _ in found.best], np.int32)
    made = propose(found, table, offsets)
    best = oracle(made, gold)
    for sentence, tokens in sentences(offsets):
        assert best.labels[tokens].tolist() == slow(*case, sentence).oracle(gold[tokens].tolist())
    right = (best.labels == gold).sum()
    assert all(
        (INFERENCE[name](made).labels == gold).sum() <= right for name in ("none", "vote", "csi")
    )


def test_rounding_breaks_no_tie():
    """0 2 is worth 0.15 + 0.15, and 1 2 is worth 0.1 + 0.2, which is a little more in binary
    digits."""
    assert 0.1 + 0.2 > 0.15 + 0.15
    made = propose(certain([0, 1]), np.array([[-1, 0, 2], [1, 2, -1]]), np.array([0, 2]))
    weights = np.zeros_like(made.weights)
    weights[0, 1, 1] = weights[0, 1, 2] = 0.15
    weights[1, 0, 0], weights[1, 0, 1] = 0.1, 0.2
    tied = made._replace(weights=weights)
    assert csi(tied).labels.tolist() == [0, 2]
    rows, scores = best_labellings(tied, 0, 2)
    assert [row.tolist() for row in rows] == [[0, 2], [1, 2]]
    assert scores == [0.3, 0.3]
    weights[1, 0, 1] += 1e-9
    assert csi(tied).labels.tolist() == [1, 2]


def test_threads_and_neighbours_change_nothing():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 30, 700)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    table, classes = ngram_classes(rng.integers(0, 4, offsets[-1]), offsets, 3)
    noisy = rng.random((len(classes), len(table))) ** 8
    noisy[np.arange(len(classes)), classes] += 0.2
    made = propose(from_probabilities(noisy), table, offsets)
    alone = csi(made)
    workers = Workers(2)
    together = csi(made, workers=workers)
    assert np.array_equal(alone.labels, together.labels)
    assert np.array_equal(alone.scores, together.scores)
    for sentence in (0, 300, 699):
        one = csi(part(made, sentence, sentence + 1))
        assert (
            one.labels.tolist() == alone.labels[offsets[sentence] : offsets[sentence + 1]].tolist()
        )
    assert (alone.scores >= vote(made).scores - 1e-9).all()
    assert (alone.scores > vote(made).scores + 1e-6).any()


def test_long_sentences_and_huge_numbers_of_sequences():
    T = 5000
    table = np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2]])
    made = propose(certain(np.arange(T) % 3), table, np.array([0, T]))
    assert n_sequences(made)[0] == np.inf
    assert (
        n_sequences(propose(certain(np.arange(60) % 3), table, np.array([0, 60])))[0]
        == 2.0**2 * 3.0**58
    )
    assert csi(made).scores[0] > vote(made).scores[0]
    wide = np.tile(np.arange(9)[:, None], 9)
    with pytest.raises(
        OptionError, match=r"sentence of 40 tokens disagree so much .* use a lower ngram"
    ):
        csi(
            propose(certain(np.arange(40) % 9), wide, np.array([0, 40])),
            allowed=allowed(LABELS, "iob2"),
        )


def test_names_of_inference():
    assert set(INFERENCE) == {"none", "vote", "csi", "oracle"}
    assert inference_named("vote") is vote
    with pytest.raises(OptionError, match="needs the true labels"):
        inference_named("oracle")
    with pytest.raises(OptionError, match="expected one of none, vote, csi, got 'viterbi'"):
        inference_named("viterbi")
