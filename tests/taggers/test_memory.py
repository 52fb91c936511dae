"""MemoryBased: every answer against a twin that measures all instances, and what scikit-learn asks
of a classifier."""

import pickle
import re
from itertools import product

import numpy as np
import pytest
from drawn import drawn
from hypothesis import example, given
from hypothesis import strategies as st
from memory_twin import Twin, decide, grouped
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_score

import labelwright
from labelwright import MemoryBased
from labelwright.errors import (
    CorpusError,
    LabelwrightError,
    ModelFileError,
    NotFittedError,
    OptionError,
)
from labelwright.memory import search
from labelwright.memory import weights as feature_weights

METRICS = "overlap", "mvdm", "jeffrey", "jensen-shannon"
WEIGHTS = "gain-ratio", "information-gain", "chi-squared", "shared-variance", "none"
VOTES = "none", "inverse-distance", "inverse-linear", "exponential-decay"
ROWS = [["a", "x"], ["b", "x"], ["b", "y"], ["c", "y"]]
LABELS = ["one", "two", "two", "three"]


@st.composite
def tables(draw, numbers=False):
    """A table of few values, its classes, and queries that may hold values never seen: (X, y,
    queries)."""
    n, width = draw(st.integers(1, 14)), draw(st.integers(1, 4))
    kinds = [draw(st.booleans()) if numbers else False for _ in range(width)]
    values = [
        st.sampled_from([-2.5, 0.0, 0.5, 1.0, 7.0])
        if number
        else st.sampled_from("abcde"[: draw(st.integers(1, 5))])
        for number in kinds
    ]
    rows = st.tuples(*values).map(list)
    asked = st.tuples(*(st.sampled_from([-4.0, 0.5, 9.0]) | v if number else v | st.just("?")
                        for v, number in zip(values, kinds, strict=True))).map(list)  # fmt: skip
    X = draw(st.lists(rows, min_size=n, max_size=n))
    y = draw(st.lists(st.sampled_from("ABC"[: draw(st.integers(1, 3))]), min_size=n, max_size=n))
    return X, y, draw(st.lists(asked, min_size=1, max_size=4)), kinds


settings_of_models = st.fixed_dictionaries({
    "k": st.integers(1, 5) | st.just(50),
    "metric": st.sampled_from(METRICS),
    "mvdm_threshold": st.integers(1, 3),
    "weights": st.sampled_from(WEIGHTS),
    "votes": st.sampled_from(VOTES),
    "decay": st.sampled_from([(1.0, 1.0), (0.5, 2.0), (3.0, 0.5)]),
})  # fmt: skip


def given_votes(model, found, n):
    own = slice(found.ptr[n], found.ptr[n + 1])
    return {
        model.seen_[c]: v
        for c, v in zip(found.classes[own], found.votes[own].tolist(), strict=True)
    }


def check(X, y, queries, **words):
    """Distances must be those of the twin; what follows from distances must be exactly what the
    twin makes of them."""
    model, twin = MemoryBased(**words, n_jobs=1).fit(X, y), Twin(X, y, **words)
    assert model.feature_weights_ == pytest.approx(twin.weights, rel=1e-9, abs=1e-9)
    found = model.answers(queries)
    everything = model.neighbours(queries, len(X) + 1)
    nearest = model.neighbours(queries)
    for n, query in enumerate(queries):
        measured = {x.instance: x.distance for x in everything[n]}
        assert sorted(measured) == list(range(len(X)))
        wanted = [twin.distance(query, row) for row in X]
        assert [measured[i] for i in range(len(X))] == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        assert [x.distance for x in everything[n]] == sorted(measured.values())
        assert all(
            list(x.values) == X[x.instance] and x.label == y[x.instance] for x in everything[n]
        )
        groups = grouped((x.distance, x.label) for x in everything[n])
        at_k = sum(classes.total() for _, classes in groups[: words["k"]])
        assert nearest[n] == everything[n][:at_k]
        told = decide(groups, words["k"], words["votes"], words["decay"], twin.frequency)
        assert model.seen_[found.best[n]] == told.label
        assert given_votes(model, found, n) == pytest.approx(dict(told.votes), rel=1e-9)
        assert found.distance[n] == groups[0][0]


@drawn(200)
@given(tables(), settings_of_models)
@example(
    ([["a"]], ["A"], [["a"], ["?"]], [False]),
    {
        "k": 50,
        "metric": "mvdm",
        "mvdm_threshold": 1,
        "weights": "gain-ratio",
        "votes": "inverse-linear",
        "decay": (1.0, 1.0),
    },
)
def test_symbols_against_the_twin(table, words):
    X, y, queries, _ = table
    check(X, y, queries, **words)


@pytest.mark.slow
@drawn(100)
@given(tables(), settings_of_models)
def test_rows_that_share_nothing_against_the_twin(table, words):
    X, y, queries, _ = table
    queries = [*queries, [*queries[0][:1], *"???"][: len(X[0])], ["?"] * len(X[0])]
    with pytest.MonkeyPatch.context() as patch:
        check(X, y, queries, **words)
        patch.setattr(search, "SHARE", 0)  # now by postings
        check(X, y, queries, **words | {"metric": "overlap"})


@drawn(120)
@given(tables(numbers=True), settings_of_models)
def test_numbers_and_symbols_against_the_twin(table, words):
    X, y, queries, kinds = table
    metric = ["numeric" if number else words["metric"] for number in kinds]
    check(X, y, queries, **words | {"metric": metric})


@pytest.mark.parametrize("n", [20, 47, 200])
def test_numbers_are_weighed_by_twenty_bins(n):
    rng = np.random.default_rng(n)
    X = [[round(rng.normal() ** 3, 2), rng.integers(3)] for _ in range(n)]
    y = ["AB"[int(x > 0.2)] if rng.random() < 0.8 else "C" for x, _ in X]
    for weights in WEIGHTS:
        words = {"k": 3, "votes": "none", "decay": (1.0, 1.0), "weights": weights}
        check(X, y, [[99.0, 1], X[0], [0.1, 7]], metric=["numeric", "overlap"], **words)


@pytest.mark.cases(4)
@pytest.mark.parametrize(("metric", "weights"), list(product(METRICS, WEIGHTS)))
def test_larger_tables_against_the_twin(metric, weights):
    rng = np.random.default_rng(3)
    X = [[f"v{rng.integers(size)}" for size in (3, 5, 20, 40)] for _ in range(90)]
    y = ["ABCD"[(int(a[1:]) + int(b[1:])) % 4 if rng.random() < 0.8 else 0] for a, b, *_ in X]
    queries = [[*X[i][:2], "new", *X[-i][3:]] for i in range(4)] + X[:2]
    for k, votes, threshold in [
        (1, "none", 1),
        (3, "inverse-distance", 2),
        (7, "inverse-linear", 1),
    ]:
        words = {"k": k, "votes": votes, "mvdm_threshold": threshold, "decay": (1.0, 1.0)}
        check(X, y, queries, metric=metric, weights=weights, **words)


@drawn(100)
@given(tables(), st.sampled_from(WEIGHTS))
def test_igtree_against_the_twin(table, weights):
    X, y, queries, _ = table
    model, twin = (
        MemoryBased(weights=weights, algorithm="igtree").fit(X, y),
        Twin(X, y, weights=weights, algorithm="igtree"),
    )
    twin.weights = model.feature_weights_.tolist()  # columns may tie but for rounding
    twin.tree_order = sorted(range(len(X[0])), key=lambda i: -twin.weights[i])
    found = model.answers(queries)
    for n, query in enumerate(queries):
        told = twin.classify(query)
        assert model.seen_[found.best[n]] == told.label
        assert given_votes(model, found, n) == told.votes
        assert found.distance[n] == pytest.approx(told.distance, rel=1e-9, abs=1e-12)


def test_igtree_holds_only_exceptions():
    model = MemoryBased(algorithm="igtree", weights=[2.0, 1.0])
    model.fit([["a", "x"], ["a", "y"], ["b", "x"], ["b", "y"]], ["A", "A", "A", "B"])
    assert model.memory_["rows"] == 3  # the root (A), b (A, because of what is below), b y (B)
    assert model.predict([["a", "y"], ["b", "y"], ["b", "?"], ["?", "y"]]).tolist() == [
        "A",
        "B",
        "A",
        "A",
    ]
    assert model.predict_proba([["a", "y"], ["b", "?"]]).tolist() == [[0.75, 0.25], [0.5, 0.5]]
    assert model.answers([["a", "y"], ["b", "?"], ["b", "y"]]).distance.tolist() == [3.0, 1.0, 0.0]


def test_equal_counts_have_equal_votes_however_they_are_spread():
    # six rows and one row six times: 1/3 added six times is not 6 / 3
    X = [[f"a{i}", f"b{i}", f"c{i}"] for i in range(6)] + [["x", "y", "z"]] * 6
    model = MemoryBased(weights="none", votes="inverse-distance").fit(X, ["A"] * 6 + ["B"] * 6)
    assert model.predict([["?", "?", "?"]]).tolist() == ["A"]


def test_a_tie_asks_one_more_distance_then_frequency_then_the_first_seen():
    weights = [1.0, 10.0]
    X = [["a", "x"], ["b", "x"], ["c", "x"], ["a", "y"], ["d", "z"]]
    model = MemoryBased(weights=weights).fit(X, ["A", "B", "B", "A", "C"])
    assert model.predict([["?", "x"]]).tolist() == ["B"]
    model = MemoryBased(weights=weights).fit(X[:2] + X[3:], ["A", "B", "A", "C"])
    # asked: A at distance 11, C there as well
    assert model.predict_proba([["?", "x"]]).tolist() == [[0.5, 0.25, 0.25]]
    assert model.predict([["?", "x"]]).tolist() == ["A"]
    model = MemoryBased(weights=weights).fit(X[:2], ["B", "A"])
    assert model.predict([["?", "x"]]).tolist() == ["B"]


@pytest.mark.parametrize("votes", VOTES)
@pytest.mark.parametrize("k", [1, 9])
def test_small_data(votes, k):
    for X, y in [
        ([["a"]], ["A"]),
        ([["a"], ["b"]], ["A", "A"]),
        ([["a", "x"]] * 3, ["A", "B", "A"]),
    ]:
        model = MemoryBased(k=k, votes=votes).fit(X, y)
        queries = [X[0], ["?"] * len(X[0])]
        assert model.predict(queries).tolist() == ["A", "A"]
        assert model.predict_proba(queries).sum(axis=1).tolist() == [1.0, 1.0]


# -- what is remembered ----------------------------------------------------------------------------


@drawn(40)
@given(tables(), settings_of_models, st.integers(0, 14))
def test_partial_fit_is_fit_on_everything(table, words, cut):
    X, y, queries, _ = table
    whole, parts = MemoryBased(**words).fit(X, y), MemoryBased(**words)
    for part in (slice(0, cut), slice(cut, None)):
        if X[part]:
            parts.partial_fit(X[part], y[part])
    assert parts.seen_ == whole.seen_
    assert parts.classes_.tolist() == whole.classes_.tolist()
    for ours, wanted in zip(parts.answers(queries), whole.answers(queries), strict=True):
        assert ours.tolist() == wanted.tolist()
    assert parts.neighbours(queries) == whole.neighbours(queries)


def random_table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.array(
        [[f"v{int(size * rng.random() ** 2)}" for size in (3, 6, 30, 200)] for _ in range(n)],
        object,
    )
    return X, np.array(["ABCD"[(int(a[1:]) + int(b[1:])) % 4] for a, b, *_ in X])


@pytest.mark.parametrize("metric", ["overlap", "mvdm"])
def test_threads_do_not_change_answers(metric):
    X, y = random_table(600)
    queries, _ = random_table(200, seed=1)
    words = {"k": 4, "metric": metric, "votes": "inverse-distance"}
    one, more = (MemoryBased(**words, n_jobs=n).fit(X, y) for n in (1, 3))
    for ours, wanted in zip(more.answers(queries), one.answers(queries), strict=True):
        assert ours.tolist() == wanted.tolist()
    assert more.neighbours(queries[:20]) == one.neighbours(queries[:20])


@pytest.mark.parametrize("algorithm", ["ib1", "igtree"])
@pytest.mark.parametrize(
    ("X", "y", "metric"),
    [
        (ROWS, LABELS, "mvdm"),
        ([[1, 2], [1, 3], [4, 5]], [0, 1, 1], "overlap"),
        ([[0.5, 2.0], [1.5, 2.0], [2.5, 7.0]], [0.5, 1.5, 1.5], "numeric"),
        ([["1", 1], ["1", 1.5], ["x", 2]], ["A", "B", "B"], ["jeffrey", "numeric"]),
    ],
)
def test_models_survive_files_pickles_and_clones(tmp_path, X, y, metric, algorithm):
    model = MemoryBased(k=2, metric=metric, votes="inverse-distance", algorithm=algorithm).fit(X, y)
    model.save(tmp_path / "memory")
    for again in (
        labelwright.load(tmp_path / "memory"),
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X, y),
    ):
        assert again.get_params() == model.get_params()
        assert again.predict(X).tolist() == model.predict(X).tolist()
        assert again.predict(X).dtype == model.predict(X).dtype
        assert again.predict_proba(X).tolist() == model.predict_proba(X).tolist()
        assert again.classes_.tolist() == model.classes_.tolist()
        if algorithm == "ib1":
            assert again.neighbours(X) == model.neighbours(X)
        assert again.partial_fit(X[:1], y[:1]).predict(X).tolist()


def test_a_file_holds_strings_and_numbers_only(tmp_path):
    model = MemoryBased().fit([[("a", 1)], [("b", 2)]], ["A", "B"])
    with pytest.raises(ModelFileError, match="tuple"):
        model.save(tmp_path / "memory")


def test_memory_is_reported():
    X, y = random_table(300)
    told = MemoryBased().fit(np.concatenate([X, X]), np.concatenate([y, y])).memory_
    assert told["instances"] == 600
    assert told["rows"] == len({tuple(row) for row in X})
    assert told["bytes_per_instance"] == told["bytes"] / 600 > 0


# -- as a classifier -------------------------------------------------------------------------------


def test_probabilities_follow_classes():
    X, y = random_table(200)
    model = MemoryBased(k=5, votes="exponential-decay").fit(X[:150], y[:150])
    shares = model.predict_proba(X[150:])
    assert model.classes_.tolist() == sorted(set(y[:150]))
    assert shares.sum(axis=1) == pytest.approx(np.ones(50))
    assert (shares >= 0).all()
    found = model.answers(X[150:])
    for n, row in enumerate(shares):
        votes = given_votes(model, found, n)
        assert dict(zip(model.classes_.tolist(), row, strict=True)) == pytest.approx(
            {
                label: votes.get(label, 0.0) / sum(votes.values())
                for label in model.classes_.tolist()
            }
        )
    wins = model.classes_[shares.argmax(axis=1)] == model.predict(X[150:])
    assert wins.mean() > 0.9  # ties go by frequency
    assert model.score(X[150:], y[150:]) == np.mean(model.predict(X[150:]) == y[150:])


def test_scikit_learn_searches_settings():
    X, y = random_table(120)
    assert is_classifier(MemoryBased())
    assert len(cross_val_score(MemoryBased(), X, y, cv=3)) == 3
    search = GridSearchCV(MemoryBased(), {"k": [1, 3], "metric": ["overlap", "mvdm"]}, cv=3).fit(
        X, y
    )
    assert search.best_score_ > 0.5
    assert set(search.best_params_) == {"k", "metric"}


class Frame:
    """As much of a data frame as is asked for."""

    def __init__(self, rows, columns=("a", "b")):
        self.rows, self.columns = rows, columns

    def __len__(self):
        return len(self.rows)

    def to_numpy(self):
        return np.array(self.rows, object)


def test_tables_of_many_kinds():
    wanted = MemoryBased().fit(ROWS, LABELS).predict_proba(ROWS).tolist()
    for X in (np.array(ROWS), np.array(ROWS, object), [tuple(row) for row in ROWS], Frame(ROWS)):
        for y in (LABELS, np.array(LABELS), np.array(LABELS, object), tuple(LABELS)):
            assert MemoryBased().fit(X, y).predict_proba(X).tolist() == wanted
    numbers = MemoryBased(metric="numeric").fit(np.array([[1], [2], [5]]), np.array([3, 3, 4]))
    assert numbers.predict([[4.4]]).tolist() == [4]
    assert numbers.predict(np.array([[1.2]], np.float32)).dtype == np.int64


FAULTS = {
    "k: expected": (OptionError, {"k": 0}, ROWS, LABELS),
    "mvdm_threshold: expected": (OptionError, {"mvdm_threshold": 1.5}, ROWS, LABELS),
    "metric: expected one of overlap": (OptionError, {"metric": "cosine"}, ROWS, LABELS),
    "metric: expected one name, or one for each of 2": (
        OptionError,
        {"metric": ["mvdm"]},
        ROWS,
        LABELS,
    ),
    "weights: expected one of gain-ratio": (OptionError, {"weights": "gain"}, ROWS, LABELS),
    "metric: expected one of overlap, mvdm, jeffrey, jensen-shannon, numeric, got ['mvdm']": (
        OptionError,
        {"metric": [["mvdm"]]},
        ROWS,
        LABELS,
    ),
    "weights: expected a name, or for each of 2 columns a number": (
        OptionError,
        {"weights": [1.0]},
        ROWS,
        LABELS,
    ),
    "a number from 0 to 1e+100, got [1e+200, 1]": (
        OptionError,
        {"weights": [1e200, 1]},
        ROWS,
        LABELS,
    ),
    "n_jobs: expected a number of threads, or -1 for one per core, got '2'": (
        OptionError,
        {"n_jobs": "2"},
        ROWS,
        LABELS,
    ),
    "votes: expected one of": (OptionError, {"votes": "majority"}, ROWS, LABELS),
    "algorithm: expected one of ib1": (OptionError, {"algorithm": "tribl"}, ROWS, LABELS),
    "decay: expected two numbers": (OptionError, {"decay": (1.0,)}, ROWS, LABELS),
    "column 0: expected numbers, got 'a'": (CorpusError, {"metric": "numeric"}, ROWS, LABELS),
    "column 0: expected finite numbers": (
        CorpusError,
        {"metric": "numeric"},
        [[1.0], [float("nan")]],
        ["A", "B"],
    ),
    "y: 3 classes, but X has 4": (CorpusError, {}, ROWS, LABELS[:3]),
    "y: expected one class for each": (CorpusError, {}, ROWS, [["A"]] * 4),
    "X: expected at least one instance": (CorpusError, {}, [], []),
    "X: instance 1: expected 2 columns, got 1": (CorpusError, {}, [["a", "b"], ["a"]], ["A", "B"]),
    "X: instance 1, column 0: expected a string": (CorpusError, {}, [["a"], [["b"]]], ["A", "B"]),
    "use X.reshape": (CorpusError, {}, np.array(["a", "b"]), ["A", "B"]),
    "got str": (CorpusError, {}, "ab", ["A", "B"]),
}


@pytest.mark.parametrize("message", FAULTS)
def test_faults_are_one_clear_line(message):
    kind, words, X, y = FAULTS[message]
    with pytest.raises(kind, match=re.escape(message)) as told:
        MemoryBased(**words).fit(X, y)
    assert "\n" not in str(told.value)


def test_columns_of_a_data_frame_are_known_by_name(tmp_path):
    frame = Frame(ROWS, ["left", "right"])
    model = MemoryBased().fit(frame, LABELS)
    for one in (model, labelwright.load(model.save(tmp_path / "m") and tmp_path / "m")):
        assert one.predict(frame).tolist() == model.predict(ROWS).tolist()
        with pytest.raises(
            CorpusError, match="X: expected the columns left, right, got right, left"
        ):
            one.predict(Frame(ROWS, ["right", "left"]))
        with pytest.raises(CorpusError, match="X: expected the columns left, right, got left, up"):
            one.partial_fit(Frame(ROWS, ["left", "up"]), LABELS)


class Unknown:
    """As pandas.NA: nobody can say whether it equals itself."""

    def __eq__(self, other):
        return self

    __ne__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self):
        return "<NA>"


@pytest.mark.parametrize("nothing", [None, float("nan"), Unknown()])
def test_an_instance_without_a_class(nothing):
    with pytest.raises(
        CorpusError, match=f"y: instance 2 has no class, got {nothing}; leave it out"
    ):
        MemoryBased().fit(ROWS, ["A", "B", nothing, "A"])
    assert (
        MemoryBased()
        .fit(ROWS, [np.str_("A"), np.float64(1.0), "B", True])
        .predict(ROWS)
        .tolist()[0]
        == "A"
    )


def test_chi_squared_of_large_tables(monkeypatch):
    wanted = MemoryBased(weights="chi-squared").fit(ROWS, LABELS).feature_weights_.tolist()
    monkeypatch.setattr(feature_weights, "CELLS", 0)
    assert MemoryBased(weights="chi-squared").fit(
        ROWS, LABELS
    ).feature_weights_.tolist() == pytest.approx(wanted)


def test_further_instances_that_fail_leave_the_model_as_it_was():
    model = MemoryBased(metric="numeric").fit([[1.0], [2.0]], ["A", "B"])
    with pytest.raises(CorpusError, match="expected numbers, got 'x'"):
        model.partial_fit([["x"]], ["C"])
    assert model.predict([[1.9]]).tolist() == ["B"]
    assert model.partial_fit([[9.0]], ["C"]).predict([[8.0]]).tolist() == ["C"]


def test_faults_of_questions():
    with pytest.raises(NotFittedError, match="call fit"):
        MemoryBased().predict(ROWS)
    model = MemoryBased().fit(ROWS, LABELS)
    with pytest.raises(CorpusError, match="the model reads 2 columns, got 1"):
        model.predict([["a"]])
    with pytest.raises(CorpusError, match="the model reads 2 columns, got 3"):
        model.partial_fit([["a", "b", "c"]], ["one"])
    with pytest.raises(OptionError, match="k: expected"):
        model.neighbours(ROWS, 0)
    with pytest.raises(OptionError, match="igtree answers by classes, not by instances"):
        MemoryBased(algorithm="igtree").fit(ROWS, LABELS).neighbours(ROWS)
    with pytest.raises(CorpusError, match="expected numbers"):
        MemoryBased(metric="numeric").fit([[1], [2]], ["A", "B"]).predict([["x"]])
    with pytest.raises(LabelwrightError, match="no parameter"):
        model.set_params(neighbours=3)
