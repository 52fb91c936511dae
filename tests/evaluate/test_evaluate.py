"""Scores agree with conlleval's rules, tests with their definitions, and counts add up."""

import json
import math
import random
import tracemalloc

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labelwright.corpus.schemes import SCHEMES, convert
from labelwright.corpus.spans import spans_of
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import (
    compare,
    count,
    evaluate,
    mcnemar,
    paired_bootstrap,
    report_of,
    significance,
)

# ---------------------------------------------------------------- an oracle: conlleval's rules,
# pair by pair

# Pairs of letters between which a chunk of one type starts or ends.  First the script's own, for B
# I O E; then the usual extension to BIOES: the script has no rule for S, and sees no break between
# E and B.
STARTS = {"OB", "OI", "OE", "BB", "IB", "EE", "EI"} | {
    "EB",
    "OS",
    "BS",
    "IS",
    "ES",
    "SS",
    "SB",
    "SI",
    "SE",
}
ENDS = {"BO", "IO", "EO", "BB", "IB", "EE", "EI"} | {
    "EB",
    "BS",
    "IS",
    "ES",
    "SS",
    "SB",
    "SI",
    "SE",
    "SO",
}


def chunks_in(labels):
    """The chunks (first, last, type) of one sentence: a change of type parts them, else the pair of
    letters decides."""
    found, first = set(), None
    parts = [label.partition("-")[::2] for label in ["O", *labels, "O"]]
    for position in range(1, len(parts)):
        (left, left_type), (right, right_type) = parts[position - 1], parts[position]
        changed = left_type != right_type
        if left + right in ENDS or (left != "O" and changed):
            found.add((first, position - 1, left_type))
        if left + right in STARTS or (right != "O" and changed):
            first = position
    return found


def conlleval(gold, predicted):
    """Counts (gold, predicted, correct) per type."""
    counts = {}
    for g, p in zip(map(chunks_in, gold), map(chunks_in, predicted), strict=True):
        for place, chunks in enumerate((g, p, g & p)):
            for *_, kind in chunks:
                counts.setdefault(kind, [0, 0, 0])[place] += 1
    return {kind: tuple(numbers) for kind, numbers in counts.items()}


LETTERS = {
    "iob1": "BIO",
    "iob2": "BIO",
    "ioe1": "IEO",
    "ioe2": "IEO",
    "bioes": "BIESO",
    "bilou": "BILUO",
    "bmes": "BMESO",
    "io": "IO",
}


@st.composite
def labelled_pairs(draw, letters="BIESO", types=("X", "Y")):
    """Gold and predicted label sequences of equal lengths, valid or not; the prediction is often
    nearly right."""
    alphabet = [
        letter if letter == "O" else f"{letter}-{kind}" for letter in letters for kind in types
    ]
    lengths = draw(st.lists(st.integers(0, 8), min_size=1, max_size=5))
    gold = [draw(st.lists(st.sampled_from(alphabet), min_size=n, max_size=n)) for n in lengths]
    other = [
        draw(st.lists(st.sampled_from([*alphabet, None, None]), min_size=n, max_size=n))
        for n in lengths
    ]
    predicted = [
        [p or g for g, p in zip(*pair, strict=True)] for pair in zip(gold, other, strict=True)
    ]
    return gold, predicted


def triples(report):
    return {kind: score[3:] for kind, score in report.per_type.items()}


@drawn(400)
@given(
    st.sampled_from(sorted(LETTERS[scheme] for scheme in ("iob2", "ioe2", "bioes", "io"))).flatmap(
        labelled_pairs
    )
)
def test_chunks_agree_with_conlleval(pair):
    gold, predicted = pair
    if not any(label != "O" for sentence in gold + predicted for label in sentence):
        return
    report = evaluate(gold, predicted)
    expected = conlleval(gold, predicted)
    assert triples(report) == expected
    totals = tuple(map(sum, zip(*expected.values(), strict=True)))
    assert report.chunks[3:] == totals
    n_gold, n_predicted, n_correct = totals
    assert report.precision == (n_correct / n_predicted if n_predicted else 0)
    assert report.recall == (n_correct / n_gold if n_gold else 0)
    p, r = report.precision, report.recall
    assert report.f1 == pytest.approx(2 * p * r / (p + r) if p + r else 0)


@drawn(100)
@given(
    labelled_pairs(types=("",)).map(
        lambda pair: [[[x[0] for x in s] for s in side] for side in pair]
    )
)
def test_bare_letters_are_chunks_of_no_type(pair):
    gold, predicted = pair
    if any(label != "O" for sentence in gold + predicted for label in sentence):
        assert triples(evaluate(gold, predicted)) == conlleval(gold, predicted)


@drawn(100)
@given(labelled_pairs(), st.sampled_from(SCHEMES))
def test_conversion_between_schemes_keeps_the_chunk_scores(pair, scheme):
    """Except io, which cannot part neighbours of one type."""
    if scheme == "io":
        scheme = "iob2"
    gold, predicted = (
        [list(sentence) for sentence in convert(side, None, scheme)] for side in pair
    )
    assert evaluate(*pair).per_type == evaluate(gold, predicted).per_type


@drawn(200)
@given(st.data(), st.sampled_from(SCHEMES))
def test_strict_counts_the_spans_that_the_scheme_writes(data, scheme):
    gold, predicted = data.draw(labelled_pairs(letters=LETTERS[scheme]))
    if not any(label != "O" for sentence in gold + predicted for label in sentence):
        return
    counts = count(gold, predicted, reading="strict", scheme=scheme)
    for n, (g, p) in enumerate(zip(gold, predicted, strict=True)):
        gold_spans, predicted_spans = set(spans_of(g, scheme)), set(spans_of(p, scheme))
        for c, kind in enumerate(counts.types):
            assert counts.gold[n, c] == sum(span.type == kind for span in gold_spans)
            assert counts.predicted[n, c] == sum(span.type == kind for span in predicted_spans)
            assert counts.correct[n, c] == sum(
                span.type == kind for span in gold_spans & predicted_spans
            )


def test_strict_refuses_what_conlleval_forgives():
    gold, predicted = [["B-X", "I-X", "O"]], [["I-X", "I-X", "O"]]
    assert evaluate(gold, predicted).f1 == 1
    assert evaluate(gold, predicted, reading="strict").f1 == 0
    bilou = [["B-X", "I-X", "L-X", "U-X"]]
    assert evaluate(bilou, bilou, reading="strict").chunks[3:] == (2, 2, 2)
    assert evaluate(bilou, bilou, reading="strict").scheme == "bilou"
    for scheme in ("bioes", "bilou"):  # the letters of one are read as those of the other
        assert evaluate(bilou, bilou, reading="strict", scheme=scheme).chunks[3:] == (2, 2, 2)


# ---------------------------------------------------------------- reports


def example():
    gold = [["B-NP", "I-NP", "O", "B-PP"], ["B-NP"], [], ["O", "O"]]
    predicted = [["B-NP", "I-NP", "I-NP", "B-PP"], ["B-NP"], [], ["O", "B-VP"]]
    return gold, predicted


def test_report_by_hand():
    report = evaluate(*example())
    assert report.per_type == {
        "NP": (0.5, 0.5, 0.5, 2, 2, 1),
        "PP": (1, 1, 1, 1, 1, 1),
        "VP": (0, 0, 0, 0, 1, 0),
    }
    assert report.chunks == (0.5, 2 / 3, 4 / 7, 3, 4, 2)
    assert (report.precision, report.recall, report.f1) == report.chunks[:3]
    assert report.macro == (0.5, 0.5, 0.5)
    assert (report.token_accuracy, report.n_tokens) == (5 / 7, 7)
    assert (report.sentence_accuracy, report.n_sentences) == (0.5, 4)
    assert report.score == report.f1
    assert report.signature.startswith("f1|reading:conlleval|scheme:iob2|labelwright:")
    assert json.loads(json.dumps(report.as_dict()))["per_type"]["PP"]["f1"] == 1


def test_report_is_a_table():
    lines = str(evaluate(*example())).split("\n")
    assert lines[:6] == [
        "chunk          precision  recall      f1  gold  predicted  correct",
        "NP                 50.00   50.00   50.00     2          2        1",
        "PP                100.00  100.00  100.00     1          1        1",
        "VP                  0.00    0.00    0.00     0          1        0",
        "macro average      50.00   50.00   50.00",
        "micro average      50.00   66.67   57.14     3          4        2",
    ]
    assert lines[7] == "token accuracy 71.43 (7 tokens), sentence accuracy 50.00 (4 sentences)"


def test_tags_have_scores_per_label_and_no_chunks():
    report = evaluate([["N", "V", "N"], ["V"]], [["N", "N", "N"], ["V"]])
    assert (report.precision, report.recall, report.f1, report.chunks, report.per_type) == (
        None,
    ) * 4 + ({},)
    assert report.per_label == {"N": (2 / 3, 1, 0.8, 2, 3, 2), "V": (1, 0.5, 2 / 3, 2, 1, 1)}
    assert report.score == report.token_accuracy == 0.75
    assert report.signature.startswith("accuracy|reading:token|labelwright:")
    assert str(report).startswith("label          precision")


def test_chunk_labels_can_be_counted_as_tokens():
    gold, predicted = example()
    report = evaluate(gold, predicted, reading="token")
    assert report.f1 is None
    assert set(report.per_label) == {"B-NP", "I-NP", "B-PP", "B-VP", "O"}
    assert report.per_label["O"][3:] == (3, 1, 1)


def test_nothing_found_is_zero_and_not_an_error():
    report = evaluate([["O", "O"]], [["O", "O"]])
    assert (report.f1, report.token_accuracy, report.chunks[3:]) == (0, 1, (0, 0, 0))
    assert "micro average" in str(report)


def test_counts_of_sentences_are_those_of_the_whole():
    gold, predicted = example()
    whole = count(gold, predicted)
    for n in range(len(gold)):
        alone = count(gold[n : n + 1], predicted[n : n + 1])
        for name in ("gold", "predicted", "correct"):
            row = {
                kind: number
                for kind, number in zip(whole.types, getattr(whole, name)[n], strict=True)
                if number
            }
            assert row == {
                k: number
                for k, number in zip(alone.types, getattr(alone, name)[0], strict=True)
                if number
            }
    assert whole.tokens.tolist() == [4, 1, 0, 2]
    assert whole.correct_tokens.tolist() == [3, 1, 0, 1]


def full_tables(gold, predicted, types):
    """Gold, predicted and correct chunks of each sentence and type [3, N, C], by the spans of each
    sentence."""
    tables = np.zeros((3, len(gold), len(types)), np.int64)
    for n, (g, p) in enumerate(zip(gold, predicted, strict=True)):
        ours, theirs = set(spans_of(g)), set(spans_of(p))
        for table, spans in zip(tables, (ours, theirs, ours & theirs), strict=True):
            for span in spans:
                table[n, types.index(span.type)] += 1
    return tables


@drawn(100)
@given(labelled_pairs(types=("X", "Y", "Z")))
def test_counts_of_the_pairs_that_occur_are_those_of_full_tables(pair):
    counts = count(*pair)
    tables = full_tables(*pair, counts.types)
    assert np.array_equal(np.stack([counts.gold, counts.predicted, counts.correct]), tables)
    assert np.array_equal(counts.by_sentence(), tables.sum(axis=2).T)
    assert np.array_equal(counts.by_type(), tables.sum(axis=1).T)
    # nothing is stored of types that a sentence lacks
    assert counts.chunks[:, :2].any(axis=1).all()
    totals = tables.sum(axis=1).T.tolist()
    expected = {
        kind: tuple(row) for kind, row in zip(counts.types, totals, strict=True) if any(row)
    }
    assert triples(report_of(counts)) == expected
    numerator, denominator = significance.STATISTICS["f1"](counts)
    assert np.array_equal(numerator, 2 * tables[2].sum(axis=1))
    assert np.array_equal(denominator, (tables[0] + tables[1]).sum(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("reading", ["conlleval", "strict", "token"])
def test_memory_is_linear_in_the_number_of_types(reading):
    """One table of all sentences and types, or of all pairs of labels, would take 16 MB or more."""
    gold = [[f"B-{n}"] for n in range(4000)]
    tracemalloc.start()
    report = evaluate(gold, gold, reading=reading)
    both = compare(gold, gold, gold, reading=reading, samples=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.score == both.a.score == 1
    assert peak < 12 << 20


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([["O"], ["O"]], [["O"]], "predicted: 1 sentences, expected 2 as in gold"),
        (
            [["O"], ["O", "O"]],
            [["O"], ["O"]],
            "predicted: sentence 1 has 1 labels, expected 2 as in gold",
        ),
        ([], [], "gold: no sentences, expected at least one"),
        (["O"], ["O"], "gold: sentence 0 is 'O', expected a list of labels"),
        ([["O"]], [3], "predicted: sentence 0 is 3, expected a list of labels"),
        ([["O"]], [[3]], r"labels: expected a string, got 3 \(int\)"),
        ([["O"]], [[["O"]]], "labels: expected strings"),
    ],
)
def test_shapes_are_checked(gold, predicted, expected):
    with pytest.raises(CorpusError, match=expected) as caught:
        evaluate(gold, predicted)
    assert "\n" not in str(caught.value)


def test_options_are_checked():
    for expected, call in [
        (
            "reading: got 'loose', expected one of",
            lambda: evaluate([["O"]], [["O"]], reading="loose"),
        ),
        ("scheme: got 'xyz'", lambda: evaluate([["O"]], [["O"]], scheme="xyz")),
        ("'strict' needs chunk labels", lambda: evaluate([["N"]], [["N"]], reading="strict")),
        ("'strict' needs a scheme", lambda: evaluate([["O"]], [["B-X"]], reading="strict")),
        ("unit: got 'word'", lambda: mcnemar([["N"]], [["N"]], [["N"]], unit="word")),
        (
            "unit: 'chunk' needs chunk labels",
            lambda: mcnemar([["N"]], [["N"]], [["N"]], unit="chunk"),
        ),
        ("metric: got 'bleu'", lambda: paired_bootstrap([["N"]], [["N"]], [["N"]], metric="bleu")),
        (
            "metric: 'f1' needs chunk labels",
            lambda: paired_bootstrap([["N"]], [["N"]], [["N"]], metric="f1"),
        ),
        ("samples: got 0", lambda: paired_bootstrap([["N"]], [["N"]], [["N"]], samples=0)),
    ]:
        with pytest.raises(OptionError, match=expected):
            call()


# ---------------------------------------------------------------- two systems


def disagreeing(only_a, only_b, both=5, neither=3):
    """One long sentence with that many tokens right in one system alone, in both, in none."""
    kinds = [(1, 0)] * only_a + [(0, 1)] * only_b + [(1, 1)] * both + [(0, 0)] * neither
    return [["N"] * len(kinds)], *([["N" if kind[k] else "V" for kind in kinds]] for k in (0, 1))


@pytest.mark.parametrize(
    ("only_a", "only_b"), [(0, 0), (1, 0), (3, 9), (10, 10), (60, 91), (400, 600)]
)
def test_mcnemar_is_the_exact_binomial_test(only_a, only_b):
    result = mcnemar(*disagreeing(only_a, only_b))
    assert (result.only_a, result.only_b, result.exact) == (only_a, only_b, True)
    expected = stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    assert result.p_value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("only_a", "only_b"), [(501, 500), (700, 800), (1500, 1000)])
def test_mcnemar_of_many_is_chi_square(only_a, only_b):
    result = mcnemar(*disagreeing(only_a, only_b))
    statistic = (abs(only_a - only_b) - 1) ** 2 / (only_a + only_b)
    assert not result.exact
    assert result.statistic == pytest.approx(statistic)
    assert result.p_value == pytest.approx(stats.chi2.sf(statistic, 1), rel=1e-9)


def test_mcnemar_units():
    gold = [["B-X", "I-X", "O", "B-Y"], ["B-X"], ["O"]]
    a = [["B-X", "O", "O", "B-Y"], ["B-X"], ["O"]]
    b = [["B-X", "I-X", "O", "B-X"], ["O"], ["B-X"]]
    assert mcnemar(gold, a, b)[:3] == ("token", 3, 1)
    assert mcnemar(gold, a, b, unit="sentence")[:3] == ("sentence", 2, 0)
    assert mcnemar(gold, a, b, unit="chunk")[:3] == ("chunk", 2, 1)


def noisy(gold, share, seed):
    generator = random.Random(seed)
    labels = sorted({label for sentence in gold for label in sentence})
    return [
        [generator.choice(labels) if generator.random() < share else x for x in sentence]
        for sentence in gold
    ]


def made_up(n_sentences, seed=0, length=12):
    generator = random.Random(seed)
    labels = ["O", "O", "B-X", "I-X", "B-Y", "I-Y"]
    return [
        [generator.choice(labels) for _ in range(generator.randint(1, length))]
        for _ in range(n_sentences)
    ]


@pytest.mark.parametrize(
    ("metric", "score"),
    [("f1", "f1"), ("accuracy", "token_accuracy"), ("sentence", "sentence_accuracy")],
)
def test_bootstrap_samples_are_scores_of_resampled_sentences(metric, score, monkeypatch):
    gold = made_up(40)
    a, b = noisy(gold, 0.3, 1), noisy(gold, 0.1, 2)
    result = paired_bootstrap(gold, a, b, metric=metric, samples=50, random_state=7)

    def delta(chosen):
        g, one, two = ([side[n] for n in chosen] for side in (gold, a, b))
        return getattr(evaluate(g, two), score) - getattr(evaluate(g, one), score)

    observed = delta(range(40))
    draws = np.random.default_rng(7).integers(40, size=(50, 40))
    deltas = np.array([delta(row) for row in draws.tolist()])
    assert result.delta == pytest.approx(observed)
    distances = np.abs(deltas - observed)
    assert result.p_value == (1 + (distances >= abs(observed)).sum()) / 51
    reach = sorted([*distances, abs(observed)])[-3]  # that fewer than 5 % of the 51 exceed
    assert result.interval == pytest.approx((observed - reach, observed + reach))
    monkeypatch.setattr(significance, "BLOCK", 7 * 40)
    in_blocks = paired_bootstrap(gold, a, b, metric=metric, samples=50, random_state=7)
    assert in_blocks == result


def test_bootstrap_knows_a_difference_from_none():
    gold = made_up(200)
    a, b = noisy(gold, 0.3, 1), noisy(gold, 0.1, 2)
    better = paired_bootstrap(gold, a, b, samples=2000)
    assert better == paired_bootstrap(gold, a, b, samples=2000)
    assert better.metric == "f1"
    assert 0 < better.interval[0] < better.delta < better.interval[1]
    assert better.p_value == 1 / 2001
    worse = paired_bootstrap(gold, b, a, samples=2000)
    assert worse.delta == pytest.approx(-better.delta)
    assert worse.interval == pytest.approx((-better.interval[1], -better.interval[0]))
    same = paired_bootstrap(gold, a, a, samples=100)
    assert same[1:] == (0, (0, 0), 1, 100)


@pytest.mark.cases(2)
@pytest.mark.parametrize("samples", [1, 19, 20, 39, 40, 999, 1000])
def test_the_interval_has_no_0_exactly_where_p_is_below_a_twentieth(samples):
    gold = made_up(30)
    trials = [
        paired_bootstrap(
            gold, noisy(gold, 0.2, 2 * k), noisy(gold, 0.12, 2 * k + 1), metric, samples
        )
        for k in range(60)
        for metric in ("f1", "sentence")
    ]
    significant = [trial.p_value < 0.05 for trial in trials]
    assert significant == [not trial.interval[0] <= 0 <= trial.interval[1] for trial in trials]
    assert any(significant) == (samples >= 20)
    assert not all(significant)


def test_bootstrap_p_values_of_equal_systems_are_spread_evenly():
    """Two systems with the same error rate: about a tenth of the trials has p below a tenth."""
    gold = made_up(100)
    trials = [
        paired_bootstrap(
            gold, noisy(gold, 0.2, 2 * k), noisy(gold, 0.2, 2 * k + 1), "accuracy", 200
        ).p_value
        for k in range(150)
    ]
    assert 0.03 < np.mean(np.array(trials) < 0.1) < 0.2
    assert 0.35 < np.mean(np.array(trials) < 0.5) < 0.65


def test_comparison():
    gold = made_up(60)
    a, b = noisy(gold, 0.3, 1), noisy(gold, 0.1, 2)
    both = compare(gold, a, b, samples=500, names=("old", "new"))
    assert both.a == evaluate(gold, a)
    assert both.b == evaluate(gold, b)
    assert both.mcnemar == mcnemar(gold, a, b)
    assert both.bootstrap == paired_bootstrap(gold, a, b, samples=500)
    lines = str(both).split("\n")
    assert lines[0].split() == ["old", "new", "difference"]
    assert [line.split("  ")[0] for line in lines[1:6]] == [
        "precision",
        "recall",
        "f1",
        "token accuracy",
        "sentence accuracy",
    ]
    assert lines[7].startswith("McNemar (tokens): right only in old ")
    assert lines[8].startswith("bootstrap (f1): difference +")
    assert json.loads(json.dumps(both.as_dict()))["bootstrap"]["samples"] == 500


def test_comparison_of_tags_has_no_f1():
    both = compare([["N", "V"]] * 4, [["N", "N"]] * 4, [["N", "V"]] * 4, samples=50)
    assert both.bootstrap.metric == "accuracy"
    assert "f1" not in str(both).split("\n\n")[0]
    assert math.isclose(both.mcnemar.p_value, 2 / 2**4)
