"""Partial matches, confusion and documents, against slow definitions over all pairs of chunks."""

import random

import pytest

from labelwright.corpus.schemes import convert
from labelwright.corpus.spans import spans_of
from labelwright.errors import OptionError
from labelwright.evaluate import count, evaluate, report_of

LABELS = ["O", "O", "B-X", "I-X", "B-Y", "I-Y", "B-Z"]


def sentences(seed, n=40):
    draw = random.Random(seed)
    return [[draw.choice(LABELS) for _ in range(draw.randint(0, 8))] for _ in range(n)]


def slow_pairs(gold, predicted):
    """Chunks that belong together, the best pair first, until none is left; then those without a
    partner."""
    gold, predicted = [
        list(map(tuple, (s[:3] for s in spans))) for spans in (spans_of(gold), spans_of(predicted))
    ]
    pairs = []
    while True:
        best = None
        for i, (a, b, kind) in enumerate(gold):
            for j, (c, d, other) in enumerate(predicted):
                shared = len(set(range(a, b)) & set(range(c, d)))
                rank = ((a, b) != (c, d), kind != other, -shared, i, j)
                if shared and (best is None or rank < best):
                    best = rank
        if best is None:
            return pairs + [(g, None) for g in gold] + [(None, p) for p in predicted]
        pairs.append((gold.pop(best[3]), predicted.pop(best[4])))


def slow_scores(pairs):
    """Each measure by what it says about one pair: 1 right, 1/2 partly right, 0 wrong."""
    same = {
        "strict": lambda g, p: float(g == p),
        "exact": lambda g, p: float(g[:2] == p[:2]),
        "partial": lambda g, p: 1.0 if g[:2] == p[:2] else 0.5,
        "type": lambda g, p: float(g[2] == p[2]),
    }
    both = [(g, p) for g, p in pairs if g and p]
    missed, spurious = sum(p is None for _, p in pairs), sum(g is None for g, _ in pairs)
    scores = {}
    for name, worth in same.items():
        worths = [worth(g, p) for g, p in both]
        precision = sum(worths) / (len(both) + spurious) if len(both) + spurious else 0.0
        recall = sum(worths) / (len(both) + missed) if len(both) + missed else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        scores[name] = (
            precision,
            recall,
            f1,
            worths.count(1.0),
            worths.count(0.0),
            worths.count(0.5),
            missed,
            spurious,
        )
    return scores


@pytest.mark.parametrize("seed", range(8))
def test_partial_scores_and_confusion_by_the_definition(seed):
    gold, predicted = sentences(seed), sentences(seed + 100)
    predicted = [
        (p * 9)[: len(g)] if seed % 2 and len(p) else g
        for g, p in zip(gold, predicted, strict=True)
    ]
    predicted = [
        [random.Random(f"{seed}{t}{y}").choice([y, y, *LABELS]) for t, y in enumerate(p)]
        for p in predicted
    ]
    report = evaluate(gold, predicted)
    pairs = [pair for g, p in zip(gold, predicted, strict=True) for pair in slow_pairs(g, p)]
    found = report.partial()
    assert list(found) == ["strict", "exact", "partial", "type"]
    for name, expected in slow_scores(pairs).items():
        assert tuple(found[name]) == pytest.approx(expected), name
    assert found["strict"][:3] == pytest.approx((report.precision, report.recall, report.f1))
    matrix = report.confusion()
    for i, one in enumerate([*matrix.types, None]):
        for j, other in enumerate([*matrix.types, None]):
            n = sum((g and g[2]) == one and (p and p[2]) == other for g, p in pairs)
            assert matrix.counts[i, j] == n
    scores = report.per_type
    assert matrix.counts.sum(axis=1)[:-1].tolist() == [scores[name].gold for name in matrix.types]
    assert matrix.counts.sum(axis=0)[:-1].tolist() == [
        scores[name].predicted for name in matrix.types
    ]


def test_a_known_example():
    """Rows of the table in the documentation of SemEval's measures: one pair of each kind."""
    gold = [
        ["B-A", "I-A"],
        ["B-A", "I-A"],
        ["B-A", "I-A"],
        ["B-A", "I-A"],
        ["B-A", "I-A"],
        ["O", "O"],
    ]
    predicted = [
        ["B-A", "I-A"],
        ["B-B", "I-B"],
        ["B-A", "O"],
        ["O", "B-B"],
        ["O", "O"],
        ["B-A", "O"],
    ]
    scores = evaluate(gold, predicted).partial()
    assert [tuple(score[3:]) for score in scores.values()] == [
        (1, 3, 0, 1, 1), (2, 2, 0, 1, 1), (2, 0, 2, 1, 1), (2, 2, 0, 1, 1),
    ]  # fmt: skip
    assert scores["partial"].precision == pytest.approx(3 / 5)


@pytest.mark.parametrize("seed", range(3))
def test_documents_are_scored_like_files_of_their_own(seed):
    gold, predicted = sentences(seed), sentences(seed)
    predicted = [[LABELS[(LABELS.index(y) + t) % 5] for t, y in enumerate(p)] for p in predicted]
    scores = evaluate(gold, predicted).by_document([0, 7, 8, 30])
    assert [score.first for score in scores] == [0, 7, 8, 30]
    for score in scores:
        part = slice(score.first, score.first + score.n_sentences)
        report = evaluate(gold[part], predicted[part])
        assert (score.n_sentences, score.n_tokens) == (report.n_sentences, report.n_tokens)
        assert score.chunks == report.chunks
        assert score.token_accuracy == report.token_accuracy
    assert sum(score.n_sentences for score in scores) == len(gold)
    # what is before the first is a document, too
    assert evaluate(gold, predicted).by_document([7])[0].first == 0


def test_labels_without_chunks():
    report = evaluate([["N", "V"], ["N"]], [["N", "N"], ["V"]])
    assert report.confusion().counts.tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert str(report.confusion()).splitlines()[0].split() == ["gold", "\\", "predicted", "N", "V"]
    assert report.by_document([0, 1])[1].chunks is None
    with pytest.raises(OptionError, match="partial: the labels are no chunk labels"):
        report.partial()


def test_a_large_matrix_shows_the_types_with_errors():
    gold = [[f"T{i}"] for i in range(40)]
    predicted = [[f"T{i if i < 38 else 77 - i}"] for i in range(40)]
    matrix = evaluate(gold, predicted).confusion()
    header, *rows = str(matrix).splitlines()
    assert "T38" in header
    assert "T39" in header
    assert "(others)" in header
    assert len(rows) == 13
    assert sum(int(x) for row in rows for x in row.split()[1:]) == matrix.counts.sum()


def test_what_is_refused():
    gold = [["B-X"], ["O"]]
    report = evaluate(gold, gold)
    with pytest.raises(
        OptionError, match="documents: expected numbers of sentences from 0 to 1, got 2"
    ):
        report.by_document([0, 2])
    with pytest.raises(OptionError, match="confusion: this report has counts alone"):
        report_of(count(gold, gold)).confusion()


def test_any_scheme():
    gold, predicted = [["B-X", "I-X", "O"]], [["B-X", "O", "O"]]
    bioes = [convert(labels, "iob2", "bioes") for labels in (gold, predicted)]
    assert evaluate(*bioes).partial() == evaluate(gold, predicted).partial()
