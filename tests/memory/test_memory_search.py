"""The search for neighbours where it is a search: many rows, wide columns, shared tables, tries of
many levels."""

import sys

import numpy as np
import pytest
from memory_twin import Twin

from labelwright import MemoryBased, MemoryTagger, NgramTagger, load
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.errors import LabelwrightError
from labelwright.memory import search, store
from labelwright.memory.windows import windows

# values of the columns; more than 256 are too many for a table of all pairs
SIZES = [3, 12, 400, 40, 700]


def table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Skewed values that go with the classes a little."""
    rng = np.random.default_rng(seed)
    X = np.stack(
        [np.minimum(rng.exponential(n / 5, rows).astype(int), n - 1) for n in SIZES], axis=1
    )
    y = (X[:, 0] + (X[:, 2] > 60) * 3 + rng.integers(0, 4, rows)) % 9
    return X.astype(object), y


def distances(
    X: np.ndarray, y: np.ndarray, queries: np.ndarray, metric: str, weights: np.ndarray, least: int
):
    """All distances [Q, N], by whole arrays."""
    total = np.zeros((len(queries), len(X)))
    for i, weight in enumerate(weights):
        values = sorted(set(X[:, i]))
        shares = np.array([[np.mean(y[X[:, i] == v] == c) for c in range(9)] for v in values])
        often = np.array([np.sum(X[:, i] == v) for v in values])
        at = np.searchsorted(values, X[:, i].astype(int))
        for n, value in enumerate(queries[:, i]):
            apart = np.ones(len(values))
            if value in values and metric != "overlap" and often[values.index(value)] >= least:
                p, q = shares[values.index(value)], shares
                with np.errstate(divide="ignore", invalid="ignore"):
                    mean = (p + q) / 2
                    parts = {
                        "mvdm": abs(p - q),
                        "jeffrey": np.where(
                            (p > 0) & (q > 0), (p - q) * np.log2(p / q), abs(p - q)
                        ),
                        "jensen-shannon": np.where(p > 0, p * np.log2(p / mean), 0)
                        + np.where(q > 0, q * np.log2(q / mean), 0),
                    }[metric]
                apart = np.where(often >= least, parts.sum(axis=1) / 2, 1.0)
            if value in values:
                apart[values.index(value)] = 0.0
            total[n] += weight * apart[at]
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "small", "room", "k", "least"),
    [
        ("overlap", 128, search.TABLES, 1, 1),
        ("overlap", 1, search.TABLES, 30, 1),
        ("mvdm", 128, search.TABLES, 7, 1),
        ("mvdm", 4, 0, 1, 3),
        ("jeffrey", 16, 1 << 14, 30, 1),
        ("jensen-shannon", 4, 1 << 14, 7, 3),
    ],
)
def test_the_nearest_are_those_of_all_distances(monkeypatch, metric, small, room, k, least):
    made = store.trie
    monkeypatch.setattr(store, "trie", lambda rows: made(rows, small))
    monkeypatch.setattr(search, "TABLES", room)
    X, y = table(1500, seed=k)
    queries, _ = table(40, seed=100 + k)
    queries[:8, 2] = 9999  # unknown
    queries[5:9, 0] = 9999
    model = MemoryBased(k=k, metric=metric, mvdm_threshold=least).fit(X, y)
    wanted = distances(X, y, queries, metric, model.feature_weights_, least)
    for near, row in zip(model.neighbours(queries), wanted, strict=True):
        found = {n.instance: n.distance for n in near}
        assert found == pytest.approx({i: row[i] for i in found}, rel=1e-9, abs=1e-12)
        # closer ones are one distance
        steps = np.diff(sorted(found.values())) >= np.finfo(float).eps
        assert steps.sum() + 1 == k or len(found) == len(X)
        farthest = max(found.values())
        assert (
            set(np.flatnonzero(row < farthest - 1e-11))
            <= set(found)
            <= set(np.flatnonzero(row < farthest + 1e-11))
        )


@pytest.mark.parametrize("metric", ["overlap", "mvdm", "jeffrey", "jensen-shannon"])
@pytest.mark.parametrize("weights", ["gain-ratio", [0.0, 2.0, 0.5, 1.0, 0.0]])
def test_what_shares_nothing_with_any_row_is_answered_without_looking_at_rows(metric, weights):
    X, y = table(300, seed=1)
    model = MemoryBased(k=3, metric=metric, weights=weights, n_jobs=1).fit(X, y)
    empty = np.zeros(1, np.int32)
    nothing = model.index_.trie._replace(
        begin=empty, end=empty, code=empty - 1, child=np.ones(2, np.int32)
    )
    model._search.memory = model.index_._replace(trie=nothing)
    queries = [["?"] * 5, ["?"] * 5, [X[0, 0] if weights[0] == 0.0 else "?", *"????"]]
    answers, shares = model.answers(queries), model.predict_proba(queries)
    assert answers.distance.tolist() == [pytest.approx(model.feature_weights_.sum())] * 3
    assert shares.tolist() == [(np.bincount(y) / 300).tolist()] * 3


@pytest.mark.parametrize("most", [1 << 23, 20_000, 0])
@pytest.mark.parametrize(
    ("metric", "weights", "weighted"),
    [
        ("overlap", "gain-ratio", False),
        ("overlap", "none", True),
        ("mvdm", "gain-ratio", True),
        ("jeffrey", "none", False),
    ],
)
def test_queries_that_are_asked_again_with_other_settings(
    monkeypatch, most, metric, weights, weighted
):
    monkeypatch.setattr(search, "KEPT_ROWS", most)
    X, y = table(300, seed=3)
    often = np.random.default_rng(0).uniform(0.5, 3, 300) if weighted else None
    model = MemoryBased(metric=metric, weights=weights).fit(X, y, sample_weight=often)
    both = [table(n, seed=n)[0] for n in (60, 20)]  # asked in turn
    both[0][:3], both[1][0, 0] = 9999, 9999  # unknown
    for k in (30, 300, 5, 1, 40):
        for votes in search.VOTES:
            alone = MemoryBased(metric=metric, weights=weights, k=k, votes=votes).fit(
                X, y, sample_weight=often
            )
            model.set_params(k=k, votes=votes)
            for queries in both:
                for told, wanted in zip(
                    model.answers(queries), alone.answers(queries), strict=True
                ):
                    assert told.tolist() == wanted.tolist()
    kept = [len(request.near[1]) for request in model._search._requests.values()]
    assert len(kept) == 2
    assert sum(kept) <= most
    # all rows are near at 301 distances: too many, but those at 31 are kept
    if most != 1 << 23:
        assert (min(kept) > 0) == (most > 0)


def test_the_oldest_requests_are_forgotten(monkeypatch):
    monkeypatch.setattr(search, "KEPT_REQUESTS", 3)
    X, y = table(50, seed=3)
    model = MemoryBased().fit(X, y)
    for k in (3, 2):
        model.set_params(k=k)
        for row in X[:3]:
            model.predict([row])
    kept = list(model._search._requests)
    assert all(request.within == 3 for request in model._search._requests.values())
    model.predict(X[3:4])
    assert list(model._search._requests)[:2] == kept[1:]


@pytest.mark.parametrize("votes", ["none", "inverse-linear"])
@pytest.mark.parametrize("k", [1, 3])
def test_weights_of_any_size(k, votes):
    X, y = table(600, seed=5)
    queries, _ = table(30, seed=6)
    given = np.array([3.0, 1.0, 0.5, 2.0, 0.25])
    wanted = MemoryBased(k=k, votes=votes, weights=given).fit(X, y)
    for size in (2.0**-40, 2.0**300):
        model = MemoryBased(k=k, votes=votes, weights=given * size).fit(X, y)
        near, other = wanted.neighbours(queries), model.neighbours(queries)
        assert [[n.instance for n in one] for one in near] == [
            [n.instance for n in one] for one in other
        ]
        assert model.predict_proba(queries).tolist() == wanted.predict_proba(queries).tolist()


@pytest.mark.parametrize("size", [1e-15, 3e-16, 1e-17, 2.0**-200])
def test_distances_that_are_too_small_to_differ(size):
    X, y = table(60, seed=5)
    queries = table(40, seed=6)[0]
    weights = [size * w for w in (3.0, 2.0, 1.5, 1.0, 0.5)]
    for k in (1, 2):
        twin = Twin(X.tolist(), y.tolist(), k=k, weights=weights)
        model = MemoryBased(k=k, weights=weights).fit(X, y)
        assert model.predict(queries).tolist() == [
            twin.classify(query).label for query in queries.tolist()
        ]
    assert (len(model.neighbours(queries[:1])[0]) == 60) == (size < 1e-16)


def test_numbers_beyond_all_measure():
    model = MemoryBased(metric="numeric", votes="inverse-distance", k=2)
    model.fit([[1e-5], [1.5e-5], [2e-5]], ["A", "B", "C"])
    # all are equally far
    assert model.predict_proba([[1e305]]).tolist() == [[pytest.approx(1 / 3)] * 3]
    assert len(model.neighbours([[-1e308]])[0]) == 3
    assert model.predict([[1.9e-5]]).tolist() == ["C"]


def test_votes_of_the_farthest_distance_are_nothing():
    # 0.1 + 0.2 is as far as 0.3, but not to the last digit
    X = [["a", "b", "c"], ["x", "y", "c"], ["a", "b", "z"]]
    model = MemoryBased(k=2, weights=[0.1, 0.2, 0.3], votes="inverse-linear").fit(X, list("ABC"))
    near = model.neighbours([["a", "b", "c"]])[0]
    assert [n.label for n in near] == ["A", "C", "B"]
    assert near[1].distance < near[2].distance
    assert model.predict_proba([["a", "b", "c"]]).tolist() == [[1.0, 0.0, 0.0]]


def test_k_may_be_larger_than_the_data():
    X, y = table(50, seed=1)
    many = MemoryBased(k=10**30).fit(X, y)
    assert np.array_equal(many.predict_proba(X), MemoryBased(k=50).fit(X, y).predict_proba(X))


def test_votes_that_decay_beyond_all_numbers():
    model = MemoryBased(
        k=3, metric="numeric", weights=[1e6], votes="exponential-decay", decay=(1.0, 200.0)
    )
    model.fit([[0.0], [1.0], [2.0]], ["a", "b", "c"])
    assert model.predict_proba([[0.1]]).tolist() == [[1.0, 0.0, 0.0]]
    with pytest.raises(LabelwrightError, match="a finite range of numbers"):
        MemoryBased(metric="numeric").fit([[1e308], [-1e308]], ["a", "b"])


def test_what_is_not_a_number_is_a_value():
    model = MemoryBased().fit([[float("nan")], [1.0]], ["none", "one"])
    assert model.predict([[float("nan")], [1.0]]).tolist() == ["none", "one"]
    model.partial_fit([[float("nan")]], ["none"])
    assert len(model.neighbours([[float("nan")]])[0]) == 2
    assert MemoryBased().fit(np.array([[np.nan], [1.0]]), ["none", "one"]).predict(
        [[np.nan]]
    ).tolist() == ["none"]


def test_settings_by_column_as_arrays(tmp_path):
    X, y = table(100, seed=2)
    metrics = ["overlap", "mvdm", "jeffrey", "mvdm", "overlap"]
    listed = MemoryBased(metric=metrics, weights=[1.0, 2.0, 0.5, 1.0, 0.25]).fit(X, y)
    arrays = MemoryBased(
        metric=np.array(metrics), weights=np.array([1.0, 2.0, 0.5, 1.0, 0.25])
    ).fit(X, y)
    assert "weights=array" in repr(arrays)
    assert (
        load(arrays.save(tmp_path / "m") and tmp_path / "m").predict(X).tolist()
        == listed.predict(X).tolist()
    )


def test_settings_that_change_after_fit():
    corpus = builtin_corpus(30, random_state=0, columns=["word", "pos", "chunk"])
    tagger = MemoryTagger().fit(corpus)
    tagger.set_params(k=3)
    assert tagger.neighbours(corpus.X[:1]) == MemoryTagger(k=3).fit(corpus).neighbours(corpus.X[:1])
    for words, complaint in (
        ({"k": 0}, "k: expected"),
        ({"k": 1, "votes": "zz"}, "votes: expected one of"),
    ):
        with pytest.raises(LabelwrightError, match=complaint):
            tagger.set_params(**words).predict(corpus.X[:1])


def test_all_that_is_held_is_reported(tmp_path):
    corpus = builtin_corpus(60, random_state=0, columns=["word", "pos", "chunk"])
    tagger = MemoryTagger(metric="mvdm", n_jobs=1).fit(corpus)
    seen: dict[int, int] = {}

    def held(value):
        if (
            id(value) not in seen
            and not isinstance(value, type | int | float | bool | np.dtype)
            and value is not None
        ):
            own = value.nbytes if isinstance(value, np.ndarray) else sys.getsizeof(value)
            inner = (
                value.values()
                if isinstance(value, dict)
                else value
                if isinstance(value, list | tuple)
                else ()
            )
            seen[id(value)] = own
            for part in inner:
                held(part)

    learner = tagger.learner_
    for value in (learner.data_, learner.targets_, learner.index_):
        held(value)
    assert tagger.memory_["bytes"] == pytest.approx(sum(seen.values()), rel=0.02)
    assert tagger.memory_["bytes_per_instance"] * corpus.n_tokens == pytest.approx(
        tagger.memory_["bytes"]
    )
    again = load(tagger.save(tmp_path / "m") and tmp_path / "m")
    assert again.memory_["bytes"] == pytest.approx(tagger.memory_["bytes"], rel=0.02)


def test_what_was_learnt_is_what_is_saved(tmp_path):
    X, y = [[1.0, "a"], [2.0, "b"], [9.0, "b"]], ["A", "B", "C"]
    model = MemoryBased(metric=["numeric", "overlap"]).fit(X, y)
    queries = [[8.0, "a"], [2.2, "b"]]
    wanted = model.predict(queries).tolist()
    for other in ("overlap", ["numeric", "overlap"]):
        model.set_params(metric=other)
        assert (
            load(model.save(tmp_path / "m") and tmp_path / "m").predict(queries).tolist() == wanted
        )
        assert model.predict(queries).tolist() == wanted
    smaller = load(model.compressed().save(tmp_path / "m") and tmp_path / "m")
    assert smaller.training_ == {"compressed": {"prune": 0.0, "bits": 32}}
    assert smaller.predict(queries).tolist() == wanted


def test_sentences_that_can_be_read_once():
    corpus = builtin_corpus(10, random_state=0)
    tagger = MemoryTagger(n_jobs=1).fit(corpus)
    assert len(tagger.neighbours(iter(corpus.X))) == 10
    with pytest.raises(LabelwrightError, match="neighbours: expected the sentences themselves"):
        tagger.neighbours(tagger.encode(corpus))
    once = MemoryTagger(n_jobs=1).fit(iter(corpus.X), iter(corpus.y))
    assert once.predict(corpus.X) == tagger.predict(corpus.X)


def test_keys_of_dicts_are_strings():
    with pytest.raises(
        LabelwrightError, match="X: expected the name of a feature, a string, got int"
    ):
        MemoryTagger(ngram=1, n_jobs=1).fit([[{1: "a"}, {1: "b"}]], [["A", "B"]])


def test_the_sentence_that_is_wrong_is_named():
    tagger = MemoryTagger(metric="numeric", ngram=1, n_jobs=1).fit([np.zeros((2, 3))], [["A", "B"]])
    with pytest.raises(
        LabelwrightError, match=r"sentence 2: expected rows of 3 numbers, got rows of 2"
    ):
        tagger.predict([np.zeros((1, 3)), np.zeros((0, 3)), np.zeros((1, 2))])
    tagger = MemoryTagger(metric="numeric", template="Un:%x[0,0]").fit([["1", "2"]], [["A", "B"]])
    with pytest.raises(LabelwrightError, match="X: column n: expected numbers, got 'x'"):
        tagger.predict([["x"]])


def test_numbers_in_a_column_file():
    X = [[("a", "1"), ("b", "2"), ("c", "30")], [("b", "29")]]
    template = "Uw:%x[0,0]\nUn:%x[0,1]"
    tagger = MemoryTagger(metric=["overlap", "numeric"], template=template, ngram=1).fit(
        X, [["X", "X", "Y"], ["Y"]]
    )
    assert tagger.predict([[("d", "27.5"), ("d", "-4")]]) == [["Y", "X"]]
    with pytest.raises(LabelwrightError, match=r"column n: expected numbers, got '_'"):
        MemoryTagger(metric="numeric", template="Un:%x[-1,1]").fit(X, [["X", "X", "Y"], ["Y"]])


def test_a_memory_inside_an_ngram_tagger():
    corpus = builtin_corpus(60, random_state=0, columns=["word", "pos", "chunk"])
    words = {"k": 3, "metric": "mvdm", "votes": "inverse-distance"}
    inside, alone = NgramTagger(MemoryBased(**words)).fit(corpus), MemoryTagger(**words).fit(corpus)
    test = builtin_corpus(20, random_state=1, columns=["word", "pos", "chunk"])
    assert inside.predict(test) == alone.predict(test)


def test_nothing_to_look_at():
    corpus = builtin_corpus(10, random_state=0, columns=["word", "pos", "chunk"])
    tagger = MemoryTagger().fit(corpus)
    assert (tagger.neighbours([]), tagger.neighbours([[]]), tagger.predict([[]])) == (
        [],
        [[]],
        [[]],
    )
    arrays = MemoryTagger(metric="numeric").fit([np.eye(2)], [["a", "b"]])
    assert (arrays.predict([np.eye(2)]), arrays.neighbours([])) == ([["a", "b"]], [])
    with pytest.raises(LabelwrightError, match="trained on arrays of numbers, got columns"):
        arrays.predict([["a"]])
    for y in (None, "ab"):
        with pytest.raises(LabelwrightError, match="y: expected one class for each instance"):
            MemoryBased().fit([["a"], ["b"]], y)
    with pytest.raises(LabelwrightError, match="metric: expected one of"):
        MemoryBased(metric=None).fit([["a"]], ["b"])


def test_a_few_tokens_have_the_windows_of_many():
    template = (
        "Ua:%x[0,0]\nUb:%x[-2,0]\nUc:%x[1,1]\nUd:%x[-1,0]/%x[0,1]\nUe:%x[@1,0]\nUf:%x[@-2,1]\n"
        "Ug:%suffix[0,0,2]"
    )
    X = [[("the", "D"), ("dogs", "N"), ("ran", "V")], [], [("a", "D")], [("a/b", "N"), ("c", "N")]]
    made, _ = windows(X, template)
    few, few_offsets = made.few(X)
    many, offsets = made.instances(Corpus.from_sequences(X))
    assert few_offsets.tolist() == offsets.tolist()
    values = [
        [known[code] for code in codes]
        for known, codes in zip(many.values, many.codes.T.tolist(), strict=True)
    ]
    assert few == values
