"""Agreement with TiMBL 6.5, class by class and vote by vote; every difference must have a reason
(timbl.explain)."""

import random
from collections import Counter
from itertools import product

import pytest
import timbl
from memory_twin import grouped

from labelwright import MemoryBased, read_columns

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        timbl.COMMAND is None,
        reason="timbl is not installed (Debian: apt-get install timbl): agreement is not tested",
    ),
]
METRICS = "overlap", "mvdm", "jeffrey", "jensen-shannon"
SYMBOLS = 3, 4, 12, 30  # values of the columns of generated data


def generated(seed, n, sizes=SYMBOLS, unknown=0):
    """Rows of symbols, two columns of which tell a class; some of the last rows have values never
    seen before."""
    draw = random.Random(seed)
    rows = [[f"v{draw.randrange(size)}" for size in sizes] for _ in range(n)]
    labels = ["ABCDE"[(int(a[1:]) + int(b[1:]) * (draw.random() < 0.7)) % 5] for a, b, *_ in rows]
    for row in rows[n - unknown :]:
        row[draw.randrange(len(row))] = "new"
    return rows, labels


def reasons(folder, train, queries, same_weights=False, **words):
    """How many answers are equal, and how many differ for each reason; a difference without one
    fails."""
    X, y = train
    files = (
        timbl.write(folder / "train", X, y),
        timbl.write(folder / "test", queries, [y[0]] * len(queries)),
    )
    model = MemoryBased(**words).fit(X, y)
    run = timbl.ask(*files, **words, given=model.feature_weights_ if same_weights else None)
    different = timbl.differences(model, queries, run)
    assert [found for found in different if found.reason is None] == []
    return Counter(found.reason for found in different) + Counter(
        equal=len(queries) - len(different)
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("votes", list(timbl.VOTES))
def test_symbols(tmp_path, metric, votes):
    rows, labels = generated(7, 190, unknown=10)
    train, queries = (rows[:150], labels[:150]), rows[150:]
    total = Counter()
    for weights, k, threshold in product(
        timbl.WEIGHTS, (1, 3, 7), (1,) if metric == "overlap" else (1, 2)
    ):
        words = {
            "metric": metric,
            "weights": weights,
            "k": k,
            "votes": votes,
            "mvdm_threshold": threshold,
        }
        found = reasons(tmp_path, train, queries, **words)
        if weights != "chi-squared" or votes != "exponential-decay":  # where all distances are huge
            assert found["vanished"] == 0
        total += found
    assert total["rounding"] <= 0.01 * total.total()
    assert total["inverse linear"] == 0 or votes == "inverse-linear"
    assert (total["vanished"] > 0) == (votes == "exponential-decay")


def test_the_habit_of_inverse_linear_votes(tmp_path):
    # before the first tie TiMBL's votes are ours, after it they are those of votes="none" wherever
    # these do not tie
    rows, labels = generated(0, 120)
    X, y, queries = rows[:60], labels[:60], rows[60:]
    files = (
        timbl.write(tmp_path / "train", X, y),
        timbl.write(tmp_path / "test", queries, labels[60:]),
    )
    run = timbl.ask(*files, k=2, weights="information-gain", votes="inverse-linear")
    ours, plain = (
        MemoryBased(k=2, weights="information-gain", votes=votes).fit(X, y)
        for votes in ("inverse-linear", "none")
    )
    frequency = Counter(y)
    near = [grouped((x.distance, x.label) for x in found) for found in ours.neighbours(queries, 3)]
    first = next(
        n
        for n, groups in enumerate(near)
        if timbl.reading(groups, 2, "inverse-linear", (1, 1), frequency).asked
    )
    like_ours, like_plain = (
        [
            timbl.same(answer, label, dict(zip(model.classes_, shares, strict=True)))
            for answer, label, shares in zip(
                run.answers, model.predict(queries), model.predict_proba(queries), strict=True
            )
        ]
        for model in (ours, plain)
    )
    assert 0 < first < 30
    assert all(like_ours[: first + 1])
    assert not all(like_plain[: first + 1])
    for n in range(first + 1, len(queries)):
        if not timbl.reading(near[n], 2, "none", (1, 1), frequency).asked:
            assert like_plain[n]
    assert not all(like_ours[first + 1 :])


@pytest.mark.parametrize("digits", [0, 2])
@pytest.mark.parametrize(
    "metric",
    [
        ("numeric", "numeric", "overlap", "mvdm"),
        ("numeric", "overlap", "overlap", "jeffrey"),
        ("mvdm", "numeric", "mvdm", "mvdm"),
        ("numeric", "numeric", "numeric", "numeric"),
    ],
)
def test_numbers_and_symbols(tmp_path, metric, digits):
    draw = random.Random(digits)
    rows, labels = [], []
    for _ in range(140):
        # + 0.0: no -0.0, another value for TiMBL
        x, z = round(draw.gauss(0, 3), digits) + 0.0, draw.randrange(5)
        rows.append([x, z, draw.randrange(3), draw.choice("789")])
        labels.append("ABC"[(x > 0) + (z > 2) * (draw.random() < 0.8)])
    train, queries = (rows[:100], labels[:100]), rows[100:]
    for query, (column, value) in zip(
        queries, [(0, 29.5), (0, -17.25), (1, 17), (1, -1)], strict=False
    ):
        query[column] = value  # numbers beyond those of training
    total = Counter()
    for weights, (k, votes) in product(
        timbl.WEIGHTS, [(1, "none"), (3, "inverse-distance"), (3, "inverse-linear")]
    ):
        total += reasons(tmp_path, train, queries, metric=metric, weights=weights, k=k, votes=votes)
    assert total["rounding"] <= 0.01 * total.total()


@pytest.mark.parametrize("weights", list(timbl.WEIGHTS))
def test_a_number_that_never_changes(tmp_path, weights):
    train = [["3", "a"], ["3", "b"], ["3", "a"], ["3", "c"]], list("ABAB")
    queries = [["3", "a"], ["5.5", "a"], ["-2", "b"], ["4", "x"]]
    found = reasons(tmp_path, train, queries, metric=("numeric", "overlap"), weights=weights)
    assert found == {"equal": len(queries)}


@pytest.mark.parametrize("seed", range(6))
def test_igtree(tmp_path, seed):
    sizes = [(3, 4, 5), (2, 2, 2, 2), SYMBOLS][seed % 3]
    n = [12, 60, 300][seed % 3]
    rows, labels = generated(seed, n + 60, sizes, unknown=20)
    for weights in timbl.WEIGHTS:
        found = reasons(
            tmp_path, (rows[:n], labels[:n]), rows[n:], weights=weights, algorithm="igtree"
        )
        assert found == {"equal": 60}


@pytest.mark.parametrize(
    "words", [{"decay": (0.5, 2.0)}, {"decay": (2.0, 0.5)}, {"decay": (0.0, 1.0)}]
)
def test_decay(tmp_path, words):
    rows, labels = generated(3, 160)
    found = reasons(
        tmp_path, (rows[:120], labels[:120]), rows[120:], k=5, votes="exponential-decay", **words
    )
    assert found["equal"] == 40


def test_few_instances(tmp_path):
    # more neighbours than there are, one class, one column, one instance, columns that never change
    cases = [
        ([["a"]], ["A"]),
        ([["a"], ["b"], ["a"]], ["A", "A", "A"]),
        ([["a", "x"], ["b", "x"], ["b", "x"]], ["A", "B", "A"]),
        ([["a", "x"], ["a", "x"]], ["B", "A"]),
    ]
    for (X, y), votes, k in product(cases, timbl.VOTES, (1, 5)):
        queries = [["a", "x"][: len(X[0])], ["b", "y"][: len(X[0])], ["new", "x"][: len(X[0])]]
        for metric, weights in (("overlap", "none"), ("mvdm", "gain-ratio")):
            reasons(tmp_path, (X, y), queries, metric=metric, weights=weights, k=k, votes=votes)


def test_six_rows_weigh_as_much_as_six_equal_ones(tmp_path):
    X = [[f"a{i}", f"b{i}", f"c{i}"] for i in range(6)] + [["x", "y", "z"]] * 6
    found = reasons(
        tmp_path,
        (X, ["A"] * 6 + ["B"] * 6),
        [["?", "?", "?"]],
        weights="none",
        votes="inverse-distance",
    )
    assert found == {"equal": 1}


# -- a corpus --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words(corpora):
    """Windows of seven words and seven tags with trigram classes: 10,000 to remember, 200 to
    ask."""
    train, test = (
        read_columns(corpora / "conll2000" / f"{part}.txt") for part in ("train", "test")
    )
    (X, y), (queries, _) = (
        timbl.windows(train.take(slice(0, 450))),
        timbl.windows(test.take(slice(0, 20))),
    )
    return (X[:10_000], y[:10_000]), queries[:200]


@pytest.mark.corpora
@pytest.mark.parametrize(
    "words_of_model",
    [
        {"k": 1},
        {"k": 3, "weights": "chi-squared", "votes": "inverse-distance"},
        {"k": 7, "metric": "mvdm", "votes": "inverse-distance"},
        {
            "k": 3,
            "metric": "mvdm",
            "mvdm_threshold": 2,
            "weights": "information-gain",
            "votes": "exponential-decay",
        },
        {"k": 5, "metric": "jeffrey", "weights": "shared-variance", "votes": "inverse-linear"},
        {"algorithm": "igtree"},
        {"algorithm": "igtree", "weights": "information-gain"},
    ],
)
def test_word_windows(tmp_path, words, words_of_model):
    # TiMBL's own weights are rounded otherwise in their last digits, as its machine multiplies and
    # adds
    found = reasons(tmp_path, *words, same_weights=True, **words_of_model)
    assert found["rounding"] == 0
    if words_of_model.get("votes") != "inverse-linear":
        assert found["equal"] == len(words[1])
