"""What to label next: the order of unlabelled sentences by every measure."""

import numpy as np
import pytest

from labelwright import CRF, MemoryTagger, Perceptron
from labelwright.active import MEASURES, rank
from labelwright.active.ranking import diverse_order
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.errors import OptionError
from taggers import make_cascade

CORPUS = builtin_corpus(40, random_state=2, columns=["word", "pos", "chunk"])
X, POS, Y = CORPUS.column("word"), CORPUS.column("pos"), CORPUS.column("chunk")
KNOWN, NEW = (X[:15], Y[:15]), [*X[15:], []]


@pytest.fixture(scope="module")
def crf():
    return CRF("words", max_iter=8, n_jobs=1).fit(*KNOWN)


def expected_scores(model, by):
    """Each measure by its definition, from public answers."""
    rows, nbest = model.predict_marginals(NEW), model.predict_nbest(NEW, 2)
    tokens = [
        [-sum(p * np.log(p) for p in row.values() if p > 0) for row in sentence]
        for sentence in rows
    ]
    entropies = model.sequence_entropies(NEW)
    spans = [[span.probability for span in sentence] for sentence in model.likely_spans(NEW, 0.001)]
    yes_or_no = [
        sum(-p * np.log(p) - (1 - p) * np.log1p(-min(p, 1 - 1e-16)) for p in each) for each in spans
    ]
    return {
        "sequence": entropies,
        "sequence-mean": [h / max(1, len(x)) for h, x in zip(entropies, NEW, strict=True)],
        "token": [np.mean(each) if each else 0.0 for each in tokens],
        "token-max": [max(each, default=0.0) for each in tokens],
        "span": yes_or_no,
        "least-confidence": [1 - best[0][1] for best in nbest],
        "margin": [1 - (best[0][1] - best[1][1]) if len(best) > 1 else 0.0 for best in nbest],
    }[by]


@pytest.mark.parametrize("by", MEASURES)
def test_the_most_uncertain_comes_first(crf, by):
    ranked, expected = rank(crf, NEW, by), expected_scores(crf, by)
    # but the one without tokens
    assert sorted(each.sentence for each in ranked) == list(range(len(NEW) - 1))
    scores = [each.score for each in ranked]
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx([expected[each.sentence] for each in ranked], abs=1e-9)
    predicted = crf.predict(NEW)
    assert all(each.labels == predicted[each.sentence] for each in ranked)
    assert rank(crf, NEW, by, top=3) == ranked[:3]


def test_a_corpus_is_ranked_like_its_sentences(crf):
    assert rank(crf, Corpus.from_sequences(X[15:])) == rank(crf, X[15:])
    assert rank(crf, iter(X[15:])) == rank(crf, X[15:])
    assert rank(crf, []) == []


def test_taggers_without_probabilities_are_asked_for_margins_or_calibrated():
    memory, perceptron = (
        MemoryTagger(n_jobs=1).fit(*KNOWN),
        Perceptron(max_iter=3, n_jobs=1).fit(*KNOWN),
    )
    for model in (memory, perceptron):
        ranked = rank(model, NEW, "margin")
        best = model.predict_nbest(NEW, 2)
        margins = {n: pair[0][1] - pair[1][1] for n, pair in enumerate(best) if len(pair) > 1}
        assert all(
            each.score == pytest.approx(1 / (1 + margins[each.sentence]))
            for each in ranked
            if each.score
        )
        with pytest.raises(
            OptionError,
            match=r"^by: 'sequence': .* has scores, not probabilities; .*use by='margin'$",
        ):
            rank(model, NEW)
    perceptron.calibrate(*KNOWN)
    assert all(0 <= each.score <= 1 for each in rank(perceptron, NEW, "least-confidence"))
    assert len(rank(perceptron, NEW, "span", diverse=True)) == len(NEW) - 1


def test_a_cascade_is_asked_by_layer():
    cascade = make_cascade().fit(X[:15], {"pos": POS[:15], "chunk": Y[:15]})
    chunks, tags = rank(cascade, NEW), rank(cascade, NEW, layer="pos")
    assert chunks == rank(cascade, NEW, layer="chunk") != tags
    assert {label for each in tags for label in each.labels} <= {
        tag for tags in POS for tag in tags
    }
    with pytest.raises(OptionError, match=r"^layer: got 'ner', expected one of pos, chunk$"):
        rank(cascade, NEW, layer="ner")


def test_what_is_refused(crf):
    with pytest.raises(
        OptionError, match=r"^by: expected one of .*, got 'spans'; did you mean 'span'\?$"
    ):
        rank(crf, NEW, "spans")
    with pytest.raises(OptionError, match=r"^top: expected a whole number"):
        rank(crf, NEW, top=0)
    with pytest.raises(OptionError, match=r"^layer: got 'pos', this model has no layers$"):
        rank(crf, NEW, layer="pos")
    pos = CRF("words", max_iter=2, n_jobs=1).fit(X[:15], POS[:15])
    with pytest.raises(OptionError, match=r"^by: 'span': the labels make no spans"):
        rank(pos, NEW, "span")
    with pytest.raises(OptionError, match=r"^diverse: .* not encoded data$"):
        rank(crf, crf.encode(X[15:]), diverse=True)


def test_diversity_avoids_what_was_chosen():
    bags = [["a", "b", "c"], ["a", "b", "c"], ["x", "y"], ["a", "b", "z"], []]
    order = diverse_order([1.0, 0.99, 0.5, 0.55, 0.1], bags)
    assert order[:2] == [0, 2]  # nothing in common, though less uncertain
    assert order[-1] == 1  # the same words as the first
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert diverse_order([1.0, 0.99, 0.5, 0.55, 0.1], bags, top=2) == [0, 2]
    assert diverse_order([], []) == []


def test_diversity_is_the_greedy_rule_written_out(crf):
    """Against cosines of dense vectors."""
    items = rank(crf, X[15:])
    words = sorted({word.lower() for x in X[15:] for word in x})
    has = np.array(
        [[word in {w.lower() for w in X[15 + each.sentence]} for word in words] for each in items],
        float,
    )
    vectors = has * np.log((1 + len(has)) / has.sum(axis=0))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    chosen = [0]
    while len(chosen) < 6:
        values = [
            -1.0 if n in chosen else item.score * (1 - (vectors[n] @ vectors[chosen].T).max())
            for n, item in enumerate(items)
        ]
        chosen.append(int(np.argmax(values)))
    expected = [items[n].sentence for n in chosen]
    # ties and the order of equal scores aside, the sentences are the same
    assert [each.sentence for each in rank(crf, X[15:], top=6, diverse=True)] == expected


def test_feature_dicts_are_compared_by_their_features():
    dicts = [[{"word": word, "title": word.istitle()} for word in x] for x in X]
    model = CRF(max_iter=3, n_jobs=1).fit(dicts[:15], Y[:15])
    assert len(rank(model, dicts[15:], top=4, diverse=True)) == 4
