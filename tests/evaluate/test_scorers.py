"""Scorers: the numbers of a report, as `scoring=` takes them."""

import pytest

from labelwright import CRF, Cascade
from labelwright.corpus import Corpus
from labelwright.errors import OptionError
from labelwright.evaluate import evaluate
from labelwright.evaluate.scorers import chunk_f1, macro_f1, sentence_accuracy, token_accuracy

GOLD = [["B-NP", "I-NP", "O"], ["O", "B-PP"]]
PREDICTED = [["B-NP", "I-NP", "O"], ["O", "B-NP"]]


class Fixed:
    """A tagger that knows its answer."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return self.answer


def test_scores_are_those_of_the_report():
    report = evaluate(GOLD, PREDICTED)
    scores = [
        scorer(Fixed(PREDICTED), None, GOLD)
        for scorer in (chunk_f1, token_accuracy, sentence_accuracy)
    ]
    assert scores == [report.f1, report.token_accuracy, report.sentence_accuracy] == [0.5, 0.8, 0.5]


def test_the_score_of_a_tagger_is_f1_where_labels_make_chunks():
    X = [["a", "b", "c"], ["d", "e"]]
    tagger = CRF(max_iter=1, n_jobs=1).fit(X, GOLD)
    assert tagger.predict(X) == GOLD
    assert tagger.score(X, PREDICTED) == tagger.score(X, PREDICTED, scoring="f1") == 0.5
    assert tagger.score(X, PREDICTED, scoring="accuracy") == 0.8
    assert tagger.score(X, PREDICTED, scoring=macro_f1) == evaluate(PREDICTED, GOLD).macro.f1
    assert macro_f1(Fixed(PREDICTED), None, GOLD) == pytest.approx(1 / 3)
    with pytest.raises(
        OptionError,
        match=r"^scoring: expected one of f1, accuracy, sentence, or a callable, got 'f2'$",
    ):
        tagger.score(X, GOLD, scoring="f2")


def test_the_score_of_a_tagger_is_the_token_accuracy_where_labels_make_no_chunks():
    X, tags = [["a", "b", "c"], ["d", "e"]], [["D", "N", "V"], ["N", "V"]]
    tagger = CRF(max_iter=1, n_jobs=1).fit(X, tags)
    assert tagger.score(X, [["D", "N", "N"], ["N", "N"]]) == 0.6
    with pytest.raises(OptionError, match=r"^chunk_f1: the labels are no chunk labels"):
        tagger.score(X, tags, scoring="f1")


def test_the_score_of_a_cascade_is_that_of_its_highest_layer():
    X, tags = [["a", "b", "c"], ["d", "e"]], [["D", "N", "V"], ["N", "V"]]
    cascade = Cascade(
        [("pos", CRF(max_iter=1)), ("chunk", CRF(max_iter=1))], passing="best", n_jobs=1
    )
    cascade.fit(X, {"pos": tags, "chunk": GOLD})
    y = {"pos": tags, "chunk": PREDICTED}
    assert cascade.score(X, y) == cascade.score(X, y, scoring="f1") == 0.5
    assert cascade.score(X, y, scoring="accuracy") == 0.8


def test_the_labels_of_a_corpus_are_the_truth():
    corpus = Corpus.from_sequences([["a", "b", "c"], ["d", "e"]], GOLD)
    assert token_accuracy(Fixed(PREDICTED), corpus) == 0.8


def test_a_cascade_is_scored_by_its_highest_layer_or_the_one_that_is_named():
    cascade = Fixed({"pos": [["D", "N", "."]], "chunk": [["B", "I", "I"]]})
    together = [[("D", "B"), ("N", "I"), ("V", "O")]]
    for y in ({"pos": [["D", "N", "V"]], "chunk": [["B", "I", "O"]]}, together):
        assert token_accuracy(cascade, None, y) == pytest.approx(2 / 3)
        assert token_accuracy.of_layer("pos")(cascade, None, y) == pytest.approx(2 / 3)
        assert sentence_accuracy.of_layer("pos")(cascade, None, y) == 0


def test_labels_may_be_numbers():
    assert token_accuracy(Fixed([[0, 1, 1]]), None, [[0, 1, 2]]) == pytest.approx(2 / 3)
    assert list(evaluate([[0, 1]], [[0, 0]]).per_label) == ["0", "1"]
    with pytest.raises(
        ValueError,
        match=r"^labels: expected a label of type int, as those before it, got '1' \(str\)",
    ):
        token_accuracy(Fixed([["1"]]), None, [[1]])
