"""Doubtful labels: planted mistakes come first."""

import numpy as np
import pytest

from labelwright import CRF, LatentCRF, MemoryBased, Perceptron, SemiCRF
from labelwright.active import doubts
from labelwright.corpus import Span, builtin_corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.search.folds import parts
from taggers import make_cascade

CORPUS = builtin_corpus(90, random_state=7, columns=["word", "pos", "chunk"])
X, POS, CHUNKS = CORPUS.column("word"), CORPUS.column("pos"), CORPUS.column("chunk")
TAGGED = CORPUS.select(["word", "pos"]).X
TAGS = "U1:%x[0,0]\nU2:%x[0,1]\nU3:%x[-1,1]/%x[0,1]\nU4:%x[0,1]/%x[1,1]\nB"
QUICK = {"max_iter": 15, "n_jobs": 1}


def changed(y, sentence, token, label):
    """The labels with another one at one token."""
    labels = [list(row) for row in y]
    labels[sentence][token] = label
    return labels


@pytest.fixture(scope="module")
def planted():
    """Labels with three mistakes: a wrong type, a chunk that is missing, and one too many; and
    where they are."""
    chunks = [list(labels) for labels in CHUNKS]
    found = {}
    for sentence, labels in enumerate(chunks):
        for t, label in enumerate(labels):
            alone = t + 1 == len(labels) or not labels[t + 1].startswith("I-")
            kind = {"B-VP": "type", "B-NP": "missing", "O": "added"}.get(label)
            if alone and kind and kind not in found and sentence > 10 * len(found):
                found[kind] = sentence, t
                labels[t] = {"type": "B-PP", "missing": "O", "added": "B-NP"}[kind]
                break
    assert len(found) == 3
    return chunks, found


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "model",
    [CRF(TAGS, **QUICK), SemiCRF(TAGS, **QUICK), Perceptron(TAGS, max_iter=5, n_jobs=1)],
    ids=lambda model: type(model).__name__,
)
def test_planted_spans_come_first(model, planted):
    labels, places = planted
    before = repr(model)
    result = doubts(model, TAGGED, labels, folds=3)
    assert (result.by, repr(model)) == ("span", before)
    scores = [each.score for each in result.doubts]
    assert scores == sorted(scores)
    first = {(each.sentence, each.place[0]): each for each in result.doubts[:15]}
    wrong, missing, added = (first[places[kind]] for kind in ("type", "missing", "added"))
    assert (wrong.gold.type, wrong.suggested.type) == ("PP", "VP")
    assert (missing.gold, missing.suggested.type) == (None, "NP")
    assert missing.probability == pytest.approx(1 - missing.suggested.probability)
    assert (added.gold.type, added.suggested) == ("NP", None)


def test_one_suggestion_is_one_doubt():
    """Where one span is suggested for two, both are not listed."""
    result = doubts(CRF(TAGS, **QUICK), TAGGED, CHUNKS, folds=2)
    suggestions = [
        (each.sentence, each.suggested) for each in result.doubts if each.suggested is not None
    ]
    assert len(suggestions) == len(set(suggestions)) > 5


def test_probabilities_are_those_of_a_model_of_the_other_folds():
    model = CRF("words", **QUICK)
    result = doubts(model, X, CHUNKS, folds=3, by="token", random_state=5)
    train, test = next(parts(len(X), 3, 5))
    other = CRF("words", **QUICK).fit([X[n] for n in train], [CHUNKS[n] for n in train])
    for n, rows in zip(test.tolist(), other.predict_marginals([X[n] for n in test]), strict=True):
        held = result.sentences[n]
        assert held.labels == other.predict([X[n]])[0]
        assert held.probabilities == [
            row[label] for row, label in zip(rows, CHUNKS[n], strict=True)
        ]
        for each in held.doubts:
            t = each.gold.start
            best = max(rows[t], key=rows[t].get)
            assert each.gold == Span(t, t + 1, CHUNKS[n][t], rows[t][CHUNKS[n][t]])
            assert each.suggested == Span(t, t + 1, best, rows[t][best])
            assert (each.sentence, each.probability) == (n, each.gold.probability)
            assert each.suggested_probability == each.suggested.probability > each.probability
            assert each.score == pytest.approx(each.probability * (1 - each.suggested_probability))
    assert len(result.sentences) == len(X)


def test_spans_have_their_exact_probabilities():
    result = doubts(CRF("words", **QUICK), CORPUS, folds=2)
    train, test = next(parts(len(X), 2, 0))
    other = CRF("words", **QUICK).fit(CORPUS.select(["word", "pos", "chunk"]).take(train))
    for n in test.tolist():
        for each in result.sentences[n].doubts:
            for span in filter(None, (each.gold, each.suggested)):
                asked = other.span_probabilities(CORPUS.take([n]), [[span]])[0][0]
                assert asked.probability == pytest.approx(span.probability)


def test_a_sentence_as_a_whole():
    labels = changed(POS, 8, 2, "MD" if POS[8][2] != "MD" else "NN")
    model = CRF("words", **QUICK)
    result = doubts(model, X, labels, folds=3, by="sentence")
    assert 8 in [each.sentence for each in result.doubts[:10]]
    train, test = next(parts(len(X), 3, 0))
    other = CRF("words", **QUICK).fit([X[n] for n in train], [labels[n] for n in train])
    for n in test.tolist():
        for each in result.sentences[n].doubts:
            log_p = other.sequence_log_probabilities([X[n]], [labels[n]])[0]
            assert each.probability == pytest.approx(np.exp(log_p))
            assert each.score == pytest.approx(np.exp(log_p / len(X[n])))


def test_labels_that_only_one_fold_has_are_doubted_most():
    for y, by in ((changed(POS, 4, 1, "TYPO"), None), (changed(CHUNKS, 4, 0, "B-TYPO"), "span")):
        result = doubts(CRF("words", **QUICK), X, y, folds=3, by=by)
        first = result.doubts[0]
        assert (first.sentence, first.probability) == (4, 0)
        assert "TYPO" in first.gold.type


def test_labels_without_a_scheme_are_looked_at_by_token():
    result = doubts(
        LatentCRF(2, "words", random_state=0, max_iter=4, n_jobs=1), X[:20], POS[:20], folds=2
    )
    assert result.by == "token"


def test_a_cascade_has_doubts_in_each_layer():
    y = {"pos": POS, "chunk": CHUNKS}
    assert doubts(make_cascade(), X, y, folds=2).by == "span"
    tags = doubts(make_cascade(), X, y, folds=2, layer="pos")
    assert tags.by == "token"
    assert tags.doubts[0].gold.type in {tag for row in POS for tag in row}


def test_progress_and_plain_numbers():
    done = []
    result = doubts(CRF("words", **QUICK), X, CHUNKS, folds=3, progress=done.append)
    assert [part.n_train + part.n_test for part in done] == [90, 90, 90]
    assert sum(part.n_doubts for part in done) == len(result.doubts)
    fact = result.doubts[0].as_dict()
    assert set(fact) == {"sentence", "probability", "suggested_probability", "gold", "suggested"}
    assert {type(value) for value in fact.values()} <= {int, float, dict, type(None)}


def test_what_is_refused():
    with pytest.raises(
        OptionError, match=r"^by: expected one of span, token, sentence, got 'word'$"
    ):
        doubts(CRF(), X, CHUNKS, by="word")
    with pytest.raises(OptionError, match=r"^folds: expected a whole number"):
        doubts(CRF(), X, CHUNKS, folds=1)
    with pytest.raises(
        OptionError, match=r"^model: a MemoryBased has no probabilities; use another tagger"
    ):
        doubts(MemoryBased(), X, CHUNKS)
    with pytest.raises(
        CorpusError, match=r"5-fold cross-validation needs at least 5 sentences, got 3"
    ):
        doubts(CRF(), X[:3], CHUNKS[:3])


# --- labels that are known in part ----------------------------------------------------------------


@pytest.mark.cases(2)
@pytest.mark.parametrize("unknown", [None, "_"])
@pytest.mark.parametrize("by", ["token", "span", "sentence"])
def test_unknown_labels_are_never_doubted(planted, by, unknown):
    labels, places = planted
    hidden = {(n, t) for n, row in enumerate(labels) for t in range(len(row)) if (n + t) % 4 == 0}
    hidden -= {(n, t + d) for n, t in places.values() for d in (-1, 0, 1)}
    hidden |= {(5, t) for t in range(len(labels[5]))}  # nothing is known of this sentence
    some = [
        [unknown if (n, t) in hidden else label for t, label in enumerate(row)]
        for n, row in enumerate(labels)
    ]
    result = doubts(CRF(TAGS, **QUICK), TAGGED, some, folds=3, by=by)
    for n, held in enumerate(result.sentences):
        assert [p is None for p in held.probabilities] == [
            (n, t) in hidden for t in range(len(held.labels))
        ]
    assert 5 not in {each.sentence for each in result.doubts}
    if by == "token":
        assert not hidden & {(each.sentence, each.gold.start) for each in result.doubts}
    else:
        about = [set(range(*each.place)) for each in result.doubts]
        assert all(
            any((each.sentence, t) not in hidden for t in tokens)
            for each, tokens in zip(result.doubts, about, strict=True)
        )
    first = [each.sentence for each in result.doubts[:15]]
    assert {sentence for sentence, _ in places.values()} <= set(first)


def test_sets_are_doubted_as_a_whole():
    wrong, right = (3, CHUNKS[3].index("B-NP")), (4, CHUNKS[4].index("B-NP"))
    labels = changed(changed(CHUNKS, *wrong, {"B-VP", "B-PP"}), *right, {"B-NP", "B-VP"})
    model = CRF(TAGS, **QUICK)
    result = doubts(model, TAGGED, labels, folds=3, by="token")
    found = {(each.sentence, each.gold.start): each for each in result.doubts}
    assert (found[wrong].gold.type, found[wrong].suggested.type) == ("B-PP|B-VP", "B-NP")
    assert right not in found
    assert result.sentences[4].probabilities[right[1]] > 0.5
    by_span = doubts(model, TAGGED, labels, folds=3)
    assert [
        each
        for each in by_span.doubts
        if each.sentence == 3 and each.gold and each.gold.type == "B-PP|B-VP"
    ]
    whole = doubts(model, TAGGED, labels, folds=3, by="sentence")
    assert 3 in {each.sentence for each in whole.doubts}


def test_a_span_beside_unknown_labels_may_go_on():
    """Where the next label is unknown, a longer span contradicts nothing."""
    sentence, t = next(
        (n, t)
        for n, row in enumerate(CHUNKS)
        for t in range(len(row) - 1)
        if row[t : t + 2] == ["B-NP", "I-NP"]
    )
    labels = changed(CHUNKS, sentence, t + 1, None)
    result = doubts(CRF(TAGS, **QUICK), TAGGED, labels, folds=3)
    assert not [each for each in result.doubts if each.sentence == sentence and each.place[0] == t]
