"""Entropies and the probabilities of all spans, against enumeration of all labellings."""

import copy
import itertools
from collections import Counter

import numpy as np
import pytest

from labelwright import CRF, Perceptron, SemiCRF
from labelwright.active import rank
from labelwright.active.ranking import binary_entropy
from labelwright.corpus import builtin_corpus
from labelwright.corpus.spans import spans_of
from labelwright.errors import OptionError

CORPUS = builtin_corpus(20, random_state=5, columns=["word", "pos", "chunk"])
X, Y = CORPUS.column("word"), CORPUS.column("chunk")
SHORT = [X[0][:3], X[1][1:4], X[2][:1]]
WEAK = {"template": "U:%x[0,0]\nB", "max_iter": 3, "l2": 10.0, "n_jobs": 1}
MODELS = {
    "order 1": CRF(**WEAK),
    "segments": SemiCRF(**WEAK),
    "pruned": CRF(prune_labels=0.3, **WEAK),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param].fit(X, Y)


def enumerated(model, sentence):
    """All labellings and their probabilities."""
    rows = [list(labels) for labels in itertools.product(model.classes_, repeat=len(sentence))]
    log_p = np.array(model.sequence_log_probabilities([sentence] * len(rows), rows))
    # those of other labels are no part of the distribution
    if getattr(model, "prune_labels", None) == 0.3:
        likely = model.predict_marginals([sentence])[0]
        inside = [all(likely[t][label] > 0 for t, label in enumerate(labels)) for labels in rows]
        log_p = np.where(inside, log_p, -np.inf)
    return rows, np.exp(log_p)


@pytest.mark.cases(3)
def test_the_entropy_is_that_of_all_labellings(model):
    for sentence, found in zip(SHORT, model.sequence_entropies(SHORT), strict=True):
        _, p = enumerated(model, sentence)
        assert p.sum() == pytest.approx(1)
        p = p[p > 0]
        assert found == pytest.approx(-(p @ np.log(p)), abs=1e-9)


def test_likely_spans_are_those_of_all_labellings(model):
    for sentence, found in zip(SHORT, model.likely_spans(SHORT, 0.01), strict=True):
        expected = Counter()
        for labels, p in zip(*enumerated(model, sentence), strict=True):
            for span in spans_of(labels):
                expected[span[:3]] += p
        assert {span[:3] for span in found} == {span for span, p in expected.items() if p >= 0.01}
        assert found == sorted(found)
        for span in found:
            assert span.probability == pytest.approx(expected[span[:3]])


def test_entropies_of_tokens(model):
    batch = model.scored(SHORT)
    for rows, entropies in zip(batch.marginals(), batch.token_entropies(), strict=True):
        expected = [-sum(p * np.log(p) for p in row.values() if p > 0) for row in rows]
        assert entropies.tolist() == pytest.approx(expected)


def test_what_is_refused():
    perceptron = Perceptron(max_iter=2, n_jobs=1).fit(X, Y)
    with pytest.raises(
        OptionError, match=r"^sequence_entropies: a Perceptron has scores, not probabilities"
    ):
        perceptron.sequence_entropies(SHORT)
    with pytest.raises(OptionError, match=r"^likely_spans: a Perceptron has scores"):
        perceptron.likely_spans(SHORT)
    with pytest.raises(
        OptionError, match=r"^least: expected a probability above 0 and up to 1, got 0$"
    ):
        MODELS["order 1"].fit(X, Y).likely_spans(SHORT, 0)


def test_entropies_and_spans_of_a_calibrated_model_go_through_its_maps(model):
    record = {"temperature": 1.4, "span": {"said": [0.1, 0.4], "right": [0.02, 0.6]}}
    sure = copy.copy(model)
    sure._set_calibration(record | {"token": {"said": [0.2, 0.6], "right": [0.3, 0.9]}})
    for rows, entropies in zip(
        sure.predict_marginals(SHORT), sure.scored(SHORT).token_entropies(), strict=True
    ):
        p = np.array([list(row.values()) for row in rows])
        np.testing.assert_allclose(entropies, [-(row[row > 0] @ np.log(row[row > 0])) for row in p])
    everything = sure.likely_spans(SHORT, 1e-9)
    again = sure.span_probabilities(SHORT, everything)
    for least in (0.01, 0.3):
        likely = sure.likely_spans(SHORT, least)
        for found, spans in zip(likely, again, strict=True):
            expected = [span for span in spans if span.probability >= least]
            assert [span[:3] for span in found] == [span[:3] for span in expected]
            np.testing.assert_allclose(
                [s.probability for s in found], [s.probability for s in expected]
            )
    likely = sure.likely_spans(SHORT, 0.001)
    for each in rank(sure, SHORT, "span"):
        assert each.score == pytest.approx(
            sum(binary_entropy(span.probability) for span in likely[each.sentence])
        )
