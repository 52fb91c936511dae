"""Sums over labellings of n-gram proposals, against enumeration."""

from itertools import product

import numpy as np
import pytest

from labelwright.answers.batch import Batch
from labelwright.answers.calibrated import Calibration
from labelwright.answers.proposed import ProposalBlock
from labelwright.corpus.schemes import allowed
from labelwright.corpus.spans import Span, spans_of
from labelwright.decode.csi import ANYTHING, satisfied
from labelwright.errors import OptionError
from labelwright.structures.proposals import from_probabilities, propose

LABELS = ["O", "B-X", "I-X", "B-Y"]
T, TEMPERATURE = 4, 0.7


def made(n, seed, scheme=None):
    """One sentence of proposals over label n-grams, and a block of it."""
    rng = np.random.default_rng(seed)
    grams = rng.integers(0, len(LABELS), (6, n))
    votes = rng.random((T, 6)) * (rng.random((T, 6)) < 0.5)
    votes[:, 0] += 0.1
    proposals = propose(from_probabilities(votes), grams, np.array([0, T]))
    tables = ANYTHING if scheme is None else allowed(LABELS, scheme)
    return proposals, ProposalBlock(proposals, LABELS, "iob2", tables, scheme)


def enumerated(proposals, tables=ANYTHING):
    """All labellings that are allowed, and their probabilities."""
    rows = [np.array(codes, np.int32) for codes in product(range(len(LABELS)), repeat=T)]
    if len(tables.start):
        start, arc, end = tables
        rows = [
            row for row in rows if start[row[0]] and end[row[-1]] and arc[row[:-1], row[1:]].all()
        ]
    weights = np.exp([satisfied(proposals, row)[0] / TEMPERATURE for row in rows])
    return np.stack(rows), weights / weights.sum(), float(np.log(weights.sum()))


@pytest.fixture(params=[(1, 0, None), (3, 1, None), (3, 2, "iob2"), (5, 3, None)], ids=str)
def case(request):
    proposals, block = made(*request.param)
    return block.sentences[0].tempered(TEMPERATURE), *enumerated(proposals, block.allowed)


def test_sums_are_those_of_all_labellings(case):
    sentence, rows, p, log_z = case
    assert sentence.log_z() == pytest.approx(log_z)
    expected = np.stack(
        [[p[rows[:, t] == label].sum() for label in range(len(LABELS))] for t in range(T)]
    )
    np.testing.assert_allclose(sentence.marginals(), expected, atol=1e-12)
    assert sentence.entropy() == pytest.approx(-(p * np.log(p)).sum())
    permitted = np.random.default_rng(5).random((T, len(LABELS))) < 0.7
    kept = permitted[np.arange(T), rows].all(axis=1)
    assert sentence.log_z_of(permitted) == pytest.approx(log_z + np.log(p[kept].sum()))


def test_spans_are_those_of_all_labellings(case):
    sentence, rows, p, _ = case
    found = dict[tuple, float]()
    for row, share in zip(rows, p, strict=True):
        for span in spans_of([LABELS[code] for code in row]):
            found[span[:3]] = found.get(span[:3], 0.0) + share
    for (start, end, kind), share in found.items():
        assert sentence.span_probabilities([Span(start, end, kind)])[0] == pytest.approx(share)
    likely = {span[:3]: span.probability for span in sentence.likely_spans(0.01)}
    assert likely == pytest.approx({span: share for span, share in found.items() if share >= 0.01})


def test_best_labellings_are_those_of_all_labels(case):
    sentence, rows, p, log_z = case
    ranked = sentence.best(20)
    shares = np.exp(np.array(ranked.weights) - log_z)
    np.testing.assert_allclose(shares, np.sort(p)[::-1][:20], atol=1e-12)
    assert len({codes.tobytes() for codes in ranked.codes}) == 20
    by_codes = {row.tobytes(): share for row, share in zip(rows, p, strict=True)}
    for codes, share in zip(ranked.codes, shares, strict=True):
        assert by_codes[codes.astype(np.int32).tobytes()] == pytest.approx(share)
        assert sentence.weight_of(codes) - log_z == pytest.approx(np.log(share))


def test_samples_have_their_probabilities(case):
    sentence, rows, p, _ = case
    drawn = sentence.sample(20_000, np.random.default_rng(0))
    for t in range(T):
        expected = np.bincount(rows[:, t], p, len(LABELS))
        np.testing.assert_allclose(
            np.bincount(drawn[:, t], minlength=len(LABELS)) / len(drawn), expected, atol=0.015
        )


def test_a_decoded_labelling_has_its_probability(case):
    sentence, rows, p, _ = case
    record = sentence.decode("csi")
    codes = [LABELS.index(label) for label in record.labels]
    assert np.exp(record.log_probability) == pytest.approx(p[(rows == codes).all(axis=1)].sum())
    assert np.exp(record.log_probability) == pytest.approx(p.max())


def test_under_rules():
    from labelwright.constraints import at_most

    proposals, block = made(3, 1)
    rows, p, _ = enumerated(proposals)
    kept = np.array(
        [sum(span.type == "X" for span in spans_of([LABELS[c] for c in row])) <= 0 for row in rows]
    )
    batch = Batch(block.sentences, probabilistic=False, calibration=Calibration(TEMPERATURE))
    ruled = batch.under([at_most(0, "X")]).sure.sentences[0]
    expected = [p[kept & (rows[:, t] == 0)].sum() / p[kept].sum() for t in range(T)]
    np.testing.assert_allclose(ruled.marginals()[:, 0], expected, atol=1e-12)


def test_without_a_temperature_there_are_scores_alone():
    sentence = made(3, 1)[1].sentences[0]
    with pytest.raises(
        OptionError, match=r"have scores, not probabilities; calibrate the tagger first$"
    ):
        sentence.log_z()


def test_too_many_transitions_are_refused(monkeypatch):
    from labelwright.answers import proposed

    monkeypatch.setattr(proposed, "MOST_ARCS", 20)
    with pytest.raises(
        OptionError, match=r"^confidence: with 4 labels as candidates, .* use a lower ngram"
    ):
        made(3, 1)[1].sentences[0].tempered(1.0).log_z()
