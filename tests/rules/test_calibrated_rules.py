"""Rules on a calibrated tagger: every answer of a batch under rules against all labellings, one by
one."""

from itertools import product

import numpy as np
import pytest

from labelwright import CRF
from labelwright.constraints import at_most, soft
from labelwright.corpus.spans import spans_of

X = [["Ada", "saw", "Bob"], ["he", "ran", "on"], ["Ada", "Lee", "ran"]]
Y = [["B-P", "O", "B-P"], ["O", "O", "O"], ["B-P", "I-P", "O"]]
ONE, NONE_INSIDE, PRICE = at_most(1, "P"), at_most(0, "I-P"), 0.7


@pytest.mark.parametrize("number", range(len(X)))
def test_answers_are_those_of_calibrated_scores_under_rules(number: int) -> None:
    crf = CRF(max_iter=3, n_jobs=1).fit(X, Y).calibrate(X, Y)
    batch = crf.scored(X)
    assert batch.calibration is not None
    ruled, sentence = batch.under([ONE, soft(NONE_INSIDE, PRICE)], X), batch.sentences[number]
    assert sentence is not None
    every = list(product(range(len(sentence.labels)), repeat=3))
    rows = [[sentence.labels[code] for code in codes] for codes in every]
    weights = (
        np.array([sentence.weight_of(np.array(codes)) for codes in every])
        / batch.calibration.temperature
    )
    weights -= [PRICE * (not NONE_INSIDE.satisfied(row)) for row in rows]
    weights[[not ONE.satisfied(row) for row in rows]] = -np.inf
    p = np.exp(weights - np.logaddexp.reduce(weights))
    spans: dict[tuple[int, int, str], float] = {}
    for share, row in zip(p, rows, strict=True):
        for span in spans_of(row):
            spans[span[:3]] = spans.get(span[:3], 0.0) + float(share)
    labelled = sum(share for share, row in zip(p, rows, strict=True) if set(row) != {"O"})
    assert ruled.entropies()[number] == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum())
    assert ruled.occurrences("P")[number] == pytest.approx(labelled)
    assert ruled.log_probabilities([rows[p.argmax()]] * 3)[number] == pytest.approx(np.log(p.max()))
    likely = {span[:3]: span.probability for span in ruled.likely_spans(0.01)[number]}
    assert likely == pytest.approx({span: share for span, share in spans.items() if share >= 0.01})
