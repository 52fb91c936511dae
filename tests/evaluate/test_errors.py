"""Errors of labels: every wrong chunk is in exactly one of them, and what is counted agrees with
the scores."""

import re
from collections import Counter
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelwright import CRF, Cascade, Perceptron
from labelwright.corpus.generated import builtin_corpus
from labelwright.corpus.spans import Span
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import evaluate, report_of
from labelwright.evaluate.counts import count
from labelwright.evaluate.error_views import page, tables_of, text_of
from labelwright.evaluate.errors import kind_of, paired

GOLD = [["B-ORG", "I-ORG", "I-ORG", "O", "B-PER"], ["B-LOC", "O", "O"], ["O", "B-PER", "I-PER"]]
PREDICTED = [["B-ORG", "I-ORG", "O", "O", "O"], ["B-ORG", "O", "B-PER"], ["O", "B-LOC", "O"]]
X = [["Bank", "of", "England", "hired", "Mary"], ["Ghent", "is", "Old"], ["saw", "John", "Doe"]]
LABELS = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])


@pytest.fixture(scope="module")
def trained():
    corpus = builtin_corpus(90, random_state=0, columns=["word", "pos", "chunk"])
    train, test = corpus.take(slice(0, 30)), corpus.take(slice(30, 90))
    return CRF(n_jobs=1, max_iter=10).fit(train), train, test


def test_kinds_of_errors():
    analysis = evaluate(GOLD, PREDICTED).errors(
        X, train=[["Bank", "of", "hired", "Mary", "is", "saw"]]
    )
    kinds = [(error.kind, error.sentence, error.text, error.unseen) for error in analysis.errors]
    assert kinds == [
        ("boundary", 0, "Bank of England", True),
        ("missed", 0, "Mary", False),
        ("type", 1, "Ghent", True),
        ("invented", 1, "Old", True),
        ("type+boundary", 2, "John Doe", True),
    ]
    assert analysis.kinds == {
        "missed": 1,
        "invented": 1,
        "type": 1,
        "boundary": 1,
        "type+boundary": 1,
    }
    assert [tuple(pair) for pair in analysis.confusions] == [("LOC", "ORG", 1), ("PER", "LOC", 1)]
    assert [tuple(each) for each in analysis.boundaries] == [("left out after", "England", 1)]
    assert analysis.vocabulary is not None
    assert analysis.vocabulary["seen"].gold == 1
    assert analysis.vocabulary["unseen"].gold == 3


@given(st.lists(st.lists(st.tuples(LABELS, LABELS), max_size=9), min_size=1, max_size=3))
def test_errors_add_up_to_the_scores(sentences):
    gold, predicted = (
        [[pair[side] for pair in sentence] for sentence in sentences] for side in (0, 1)
    )
    for reading in ("conlleval", "token"):
        report = evaluate(gold, predicted, reading=reading)
        analysis = report.errors([["w"] * len(sentence) for sentence in sentences], train=[["w"]])
        counts = count(gold, predicted, reading)
        wanted = int(counts.gold.sum()), int(counts.predicted.sum()), int(counts.correct.sum())
        assert analysis.total[3:] == wanted
        assert analysis.vocabulary is not None
        assert analysis.vocabulary["seen"] == analysis.total
        assert sum(error.gold is not None for error in analysis.errors) == wanted[0] - wanted[2]
        assert (
            sum(error.predicted is not None for error in analysis.errors) == wanted[1] - wanted[2]
        )
        assert sum(analysis.kinds.values()) == len(analysis.errors)
        assert sum(phrase.n for listed in analysis.phrases.values() for phrase in listed) == len(
            analysis.errors
        )


def test_partners_overlap_and_are_used_once():
    gold, predicted = (
        [Span(0, 3, "A"), Span(4, 6, "B")],
        [Span(1, 2, "B"), Span(2, 5, "A"), Span(7, 8, "B")],
    )
    pairs = paired(gold, predicted)
    assert Counter(kind_of(*pair) for pair in pairs) == {"boundary": 1, "missed": 1, "invented": 2}
    assert [pair[0] for pair in pairs if pair[0] is not None] == gold


def test_probabilities_are_those_of_the_model(trained):
    model, _, test = trained
    analysis = evaluate(test.y, model.predict(test)).errors(test, model=model)
    assert analysis.errors
    for error in analysis.errors:
        spans = [span for span in (error.gold, error.predicted) if span is not None]
        asked = [span._replace(probability=None) for span in spans]
        (told,) = model.span_probabilities(test.take([error.sentence]), [asked])
        assert [span.probability for span in spans] == pytest.approx(
            [span.probability for span in told]
        )
    assert analysis.vocabulary is not None  # by the features of the model


def test_labels_of_tokens_have_marginals():
    corpus = builtin_corpus(60, random_state=1, columns=["word", "pos"], label="pos")
    model = CRF(n_jobs=1, max_iter=4).fit(corpus.take(slice(0, 20)))
    test = corpus.take(slice(20, 60))
    analysis = evaluate(test.y, model.predict(test)).errors(test, model=model)
    assert analysis.unit == "token"
    assert set(analysis.kinds) == {"label"}
    marginals = model.predict_marginals(test)
    for error in analysis.errors:
        assert error.gold is not None
        expected = marginals[error.sentence][error.gold.start].get(error.gold.type, 0.0)
        assert error.gold.probability == pytest.approx(expected)
    assert "unseen tokens" in str(analysis)


def test_a_tagger_without_probabilities_has_errors_without_them(trained):
    _, train, test = trained
    model = Perceptron(max_iter=2, n_jobs=1).fit(train)
    analysis = evaluate(test.y, model.predict(test)).errors(test, model=model)
    assert {
        span.probability
        for error in analysis.errors
        for span in (error.gold, error.predicted)
        if span
    } == {None}


def test_a_layer_of_a_cascade():
    corpus = builtin_corpus(40, random_state=2, columns=["word", "pos", "chunk"])
    short = {"n_jobs": 1, "max_iter": 3}
    layers = [("pos", CRF("words", **short)), ("chunk", CRF("words", **short))]
    model = Cascade(layers, passing="best", n_jobs=1).fit(corpus.take(slice(0, 15)))
    test = corpus.take(slice(15, 40)).select(["word"])
    gold = corpus.take(slice(15, 40)).column("chunk")
    analysis = evaluate(gold, model.predict(test)["chunk"]).errors(test, model=model, layer="chunk")
    assert analysis.errors
    assert all(error.either.probability is not None for error in analysis.errors)


def test_a_report_of_counts_has_no_errors_to_show():
    with pytest.raises(OptionError, match="counts alone"):
        report_of(count(GOLD, PREDICTED)).errors()
    with pytest.raises(CorpusError, match="not as long"):
        evaluate(GOLD, PREDICTED).errors([["a"]] * 3)
    assert evaluate(GOLD, PREDICTED).errors().phrases == {}


def test_select():
    analysis = evaluate(GOLD, PREDICTED).errors(X)
    assert [error.text for error in analysis.select(["type"], ["LOC"])] == ["Ghent"]
    assert [error.kind for error in analysis.select(text="mary")] == ["missed"]
    with pytest.raises(OptionError, match="no 'typ' here, expected one of missed"):
        analysis.select(["typ"])


def test_text_shows_both_sides():
    lines = text_of(evaluate(GOLD, PREDICTED).errors(X).as_dict())
    assert "  gold       [Bank of England]ORG hired Mary" in lines
    assert "  predicted  [Bank of]ORG England hired Mary" in lines
    nothing = text_of(evaluate(GOLD, GOLD).errors(X).as_dict())
    assert "0 errors in 0 of 3 sentences" in nothing[0]


def test_the_page_holds_every_error_and_nothing_from_outside():
    hostile = [["</template><b>", *sentence[1:]] for sentence in X]
    analysis = evaluate(GOLD, PREDICTED).errors(hostile).as_dict()
    text = page({"": analysis}, "<title> & @DATA@")
    assert re.findall(r'<article data-kind="(.*?)"', text) == [
        error["kind"] for error in analysis["errors"]
    ]
    rows = re.findall(r'<tr class="pick".*?>', text)
    for pick in (pick for table in tables_of(analysis) for pick in table.picks):
        chosen = [f'data-{name}="{escape(value)}"' for name, value in pick.items()]
        assert any(all(each in row for each in chosen) for row in rows)
    assert "&lt;title&gt;" in text
    assert text.count("</template>") == 1
    assert "http" not in text


def test_labels_without_types_have_no_column_of_types() -> None:
    analysis = evaluate([["B", "I", "O"], ["B", "O"]], [["B", "O", "O"], ["O", "O"]]).errors(
        [["a", "b", "c"], ["d", "e"]], train=[["a", "b", "c", "d", "e"]]
    )
    text = str(analysis)
    assert "(no type)" not in text
    assert "missed most often  errors  of gold" in text


def test_chunks_without_a_type_beside_others_are_named() -> None:
    analysis = evaluate([["B", "O", "B-X"]], [["O", "O", "B"]]).errors([["a", "b", "c"]])
    assert "X -> (no type)" in str(analysis)


@pytest.mark.parametrize(("labels", "dashes"), [("N", 1), ("B-X", 3)])
def test_shares_of_nothing_are_dashes(labels: str, dashes: int) -> None:
    analysis = evaluate([[labels]], [[labels]]).errors([["a"]], train=[["a"]])
    last = next(line for line in str(analysis).splitlines() if "unseen token" in line)
    assert last.split()[-dashes:] == ["-"] * dashes


def test_the_repr_is_one_line() -> None:
    report = evaluate([["B-X", "O"]], [["B-X", "O"]])
    assert (
        repr(report)
        == "<Report: F1 100.00 of chunks, 2 tokens, 1 sentence; print it for the table>"
    )
    wrong = evaluate([["N", "V"]], [["N", "N"]])
    assert (
        repr(wrong)
        == "<Report: accuracy 50.00 of labels, 2 tokens, 1 sentence; print it for the table>"
    )
    assert repr(wrong.errors()) == "<ErrorAnalysis: 1 errors (1 label); print it for the tables>"
