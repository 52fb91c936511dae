"""Progressive search: the rule of elimination against a literal twin, samples, scores, failures and Ctrl-C."""

import contextlib
import io
import os
import pickle
import re
import signal
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier
from sklearn.metrics import f1_score, make_scorer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import labelwright
from labelwright import CRF, Cascade, Perceptron, SemiCRF
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.search.progressive import ProgressiveSearch, memory_settings, survivors
from labelwright.taggers.estimator import Estimator

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "search.md"
CHUNKS = builtin_corpus(120, random_state=2, columns=["word", "pos", "chunk"])
GRID = {"template": ["U:%x[0,0]", "U:%x[0,0]\nU:%x[0,1]\nB"], "averaging": ["avg", "none"], "max_iter": [1, 4]}


class Told(Estimator):
    """A classifier that is right as often as it is told, and remembers what it saw."""

    seen: list = []  # noqa: RUF012

    def __init__(self, right=1.0, grows=0.0, refuse_from=None, name="", n_jobs=None):
        self.right, self.grows, self.refuse_from, self.name, self.n_jobs = right, grows, refuse_from, name, n_jobs

    def fit(self, X, y):
        if self.refuse_from is not None and len(X) >= self.refuse_from:
            raise OptionError(f"refused {len(X)} rows")
        self.n_ = len(X)
        self.rows_ = [int(row[0]) for row in X]
        return self

    def predict(self, X):
        Told.seen.append((self.name, self.rows_, [int(row[0]) for row in X]))
        share = min(1.0, self.right + self.grows * self.n_)
        return [int(k >= share * len(X)) for k in range(len(X))]  # 0 is right

    def score(self, X, y):
        return float(np.mean(np.asarray(self.predict(X)) == y))


def rows(n):
    """n rows that say who they are, all of class 0."""
    Told.seen = []
    return np.arange(n)[:, None], np.zeros(n, int)


def told(settings, n=400, **options):
    return ProgressiveSearch(Told(), settings, **{"first": 50, "steps": 4, **options}).fit(*rows(n))


def course(search):
    """What was tried with which outcome, without the time it took."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in search.table_]


# -- who stays --------------------------------------------------------------------------------------------------------


def twin(scores, gaps):
    """The rule to the letter, in fractions."""
    lowest, highest = min(scores), max(scores)
    if lowest == highest:
        return [True] * len(scores)
    width = (highest - lowest) / 10
    bins = [[] for _ in range(10)]
    for number, score in enumerate(scores):
        b = 0
        while b < 9 and score >= lowest + (b + 1) * width:
            b += 1
        bins[b].append(number)
    filled = [members for members in reversed(bins) if members or gaps == "stop"]
    kept = set(filled[0])
    for above, below in pairwise(filled):
        if len(below) < len(above):
            break
        kept |= set(below)
    return [number in kept for number in range(len(scores))]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.sampled_from([10, 60, 97, 300]))
@pytest.mark.parametrize("gaps", ["pass", "stop"])
def test_who_stays_is_what_the_rule_says(gaps, points, size):
    fractions = [Fraction(min(point, size), size) for point in points]
    found = survivors(np.array([float(score) for score in fractions]), gaps)
    assert found.tolist() == twin(fractions, gaps)
    assert found[np.argmax([float(score) for score in fractions])]


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([0.5], [True]),
        ([0.5, 0.5, 0.5], [True, True, True]),
        ([1.0, 0.0], [True, True]),  # nothing speaks against the next one that has as many
        ([1.0, 0.99, 0.0], [True, True, False]),
        ([1.0, 0.85, 0.84, 0.0], [True, True, True, False]),  # density rises, then falls
        ([1.0, 0.55, 0.54, 0.0], [True, True, True, False]),  # over empty bins
        ([1.0, 0.85, 0.84, 0.75, 0.74, 0.73, 0.0], [True] * 6 + [False]),
    ],
)
def test_who_stays_by_hand(scores, kept):
    assert survivors(np.array(scores)).tolist() == kept


def test_who_stays_where_empty_bins_end_it():
    assert survivors(np.array([1.0, 0.55, 0.54, 0.0]), "stop").tolist() == [True, False, False, False]
    search = told({"right": [0.1, 0.5, 0.9]}, gaps="stop")
    assert (search.stopped_, search.best_params_, len(search.table_)) == ("one setting is left", {"right": 0.9}, 3)


# -- the course of a search -------------------------------------------------------------------------------------------


def test_the_better_ones_go_on():
    search = told({"right": [0.1, 0.5, 0.89, 0.9, 0.2], "name": ["a"]}, n=1000, first=100)
    assert search.n_settings_ == 5
    assert search.sizes_ == [100, 215, 464, 1000]
    assert search.stopped_ == "all data have been used"
    assert search.best_params_ == {"right": 0.9, "name": "a"}
    assert [row["setting"]["right"] for row in search.table_ if row["step"] == 2] == [0.89, 0.9]
    only = told({"right": [0.1, 0.5, 0.9, 0.11, 0.12, 0.6, 0.61, 0.92]})
    assert only.best_params_ == {"right": 0.92}
    assert only.best_score_ == pytest.approx(0.925)
    assert only.best_estimator_.n_ == 400
    lonely = told({"right": [0.3]})
    assert (lonely.stopped_, len(lonely.table_)) == ("one setting is left", 1)


def test_a_late_starter_wins_if_it_stays():
    search = told({"right": [0.8], "grows": [0.0, 0.0005], "name": ["flat", "grows"]})
    assert search.best_params_["grows"] == 0.0005
    assert search.table_[-1]["score"] > search.table_[0]["score"]


def test_ties_go_to_the_settings_of_the_estimator_then_to_the_first():
    grid = {"name": ["x", "", "y"], "right": [0.5, 1.0]}
    assert told(grid).best_params_ == {"name": "", "right": 1.0}
    assert told({"name": ["x", "y"]}).best_params_ == {"name": "x"}
    assert told([{"name": "x"}, {}]).best_params_ == {}
    assert told([{"name": ["x", ""], "right": 0.8}, {"right": [0.8]}]).best_params_ == {"name": "x", "right": 0.8}


@given(st.integers(5, 300), st.integers(5, 60), st.integers(1, 6), st.integers(0, 3))
def test_samples_are_nested_and_tests_are_never_trained_on(n, first, steps, seed):
    search = told({"name": ["a", "b"]}, n=n, first=first, steps=steps, random_state=seed)
    a = [(set(train), set(test)) for name, train, test in Told.seen if name == "a"]
    b = [(set(train), set(test)) for name, train, test in Told.seen if name == "b"]
    assert a == b  # every setting is judged by the same sample
    assert len(a) == len(search.sizes_) <= steps
    assert [len(train | test) for train, test in a] == search.sizes_
    assert search.sizes_[-1] == n
    assert search.sizes_[0] == (min(first, n) if steps > 1 else n)
    for (train, test), (more_train, more_test) in pairwise(a):
        assert train < more_train
        assert test <= more_test
    assert not set.union(*(train for train, _ in a)) & set.union(*(test for _, test in a))
    assert all(abs(len(test) - len(train | test) / 5) < 1 for train, test in a)
    assert [(row["n_train"], row["n_test"]) for row in search.table_[::2]] == [(len(x), len(y)) for x, y in a]


def test_other_seeds_give_other_samples_and_the_same_seed_the_same():
    def samples(seed):
        told({"name": ["a"]}, random_state=seed)
        return Told.seen

    assert samples(3) == samples(3) != samples(4)
    assert samples(None) == samples(0)


def test_folds_test_on_the_parts_in_turn():
    search = told({"name": ["a", "b"], "right": [0.5]}, n=100, steps=3, folds=(5, 2, 1))
    a = [(train, test) for name, train, test in Told.seen if name == "a"]
    assert len(a) == 8
    first = a[:5]
    assert sorted(row for _, test in first for row in test) == sorted(set(first[0][0]) | set(first[0][1]))
    assert not any(set(train) & set(test) for train, test in first)
    assert [row["n_test"] for row in search.table_[::2]] == [50, 28, 20]
    assert search.table_[0]["score"] == 0.5  # of 50 in all


def test_settings_are_grids_lists_and_lists_of_grids():
    def of(settings):
        return [row["setting"] for row in told(settings, n=10).table_]

    assert of({"right": [0.1, 0.2], "name": "z"}) == [{"right": 0.1, "name": "z"}, {"right": 0.2, "name": "z"}]
    assert of({"grows": range(2)}) == of({"grows": np.arange(2)}) == [{"grows": 0}, {"grows": 1}]
    assert of([{"name": "a"}, {"name": ["a", "b"]}, {}]) == [{"name": "a"}, {"name": "b"}, {}]
    assert of({"name": [("a", "b")]}) == of({"name": ("a", "b")}) == [{"name": ("a", "b")}]


# -- failures ---------------------------------------------------------------------------------------------------------


def test_settings_that_fail_are_recorded_and_dropped():
    search = told({"refuse_from": [None, 1, 100], "right": [0.9, 0.8]}, n=200)
    assert search.best_params_ == {"refuse_from": None, "right": 0.9}
    failed = [row for row in search.table_ if row["error"]]
    assert [(row["step"], row["error"], row["score"], row["kept"]) for row in failed] == [
        (1, "refused 40 rows", None, False),
        (1, "refused 40 rows", None, False),
        (3, "refused 101 rows", None, False),
        (3, "refused 101 rows", None, False),
    ]
    assert re.search(r"^1 .*0\.9 +failed$", search.table(), re.M)
    with pytest.raises(OptionError, match=r"^refused 40 rows$"):
        told({"refuse_from": [1, 2]})
    with pytest.raises(OptionError, match=r"^refused 160 rows$"):  # all that are left
        told([{"refuse_from": 160, "name": ["a", "b"]}, {"right": 0.1}], n=200, steps=2)


def test_errors_of_scikit_learn_count_as_failures():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    search = ProgressiveSearch(KNeighborsClassifier(), {"n_neighbors": [3, 1000, -1]}, first=20).fit(X, y)
    assert search.best_params_ == {"n_neighbors": 3}
    assert [row["error"].split(":")[0] for row in search.table_[1:3]] == ["ValueError", "InvalidParameterError"]


def test_a_score_that_is_no_number_is_a_failure():
    def odd(model, X, y):
        return float("nan") if model.name == "a" else -2.0

    search = told({"name": ["a", "b"]}, scoring=odd)
    assert (search.best_params_, search.best_score_) == ({"name": "b"}, -2.0)
    assert "expected a finite number, got nan" in search.table_[0]["error"]
    with pytest.raises(OptionError, match="finite number"):
        told({"name": ["a"]}, scoring=odd)


@pytest.mark.parametrize(
    ("settings", "options", "text"),
    [
        ({"nonsense": [1]}, {}, "settings: Told: no parameter 'nonsense', expected one of right"),
        ({"name__k": [1]}, {}, "no model 'name' within it for 'name__k', and none at all"),
        ({"name": []}, {}, "settings: there are none"),
        ([], {}, "settings: there are none"),
        ("k", {}, "settings: expected .*, got 'k'"),
        ([{"name": "a"}, 3], {}, "settings: number 1: expected .*, got 3"),
        ({"name": ["a"]}, {"first": 4}, "first: expected a whole number, 5 or more, got 4"),
        ({"name": ["a"]}, {"steps": 0}, "steps: expected a whole number, 1 or more, got 0"),
        ({"name": ["a"]}, {"steps": True}, "steps: expected a whole number"),
        ({"name": ["a"]}, {"folds": 6}, "folds: expected a whole number, 1 to 5, got 6"),
        ({"name": ["a"]}, {"folds": ()}, "folds: expected a number from 1 to 5, or several"),
        ({"name": ["a"]}, {"gaps": "leap"}, "gaps: expected one of pass, stop, got 'leap'"),
        ({"name": ["a"]}, {"random_state": -1}, "random_state: expected a whole number, 0 or more"),
        ({"name": ["a"]}, {"scoring": "speed"}, "scoring: expected one of f1, accuracy, sentence, or a callable"),
        ({"name": ["a"]}, {"scoring": "f1"}, "scoring: 'f1' is for sentences; use 'accuracy' or a callable"),
        ({"name": ["a"]}, {"n_jobs": 0}, "n_jobs: expected a number of threads"),
    ],
)
def test_what_cannot_be_is_said_before_the_search(settings, options, text):
    with pytest.raises(OptionError, match=text):
        told(settings, **options)
    with pytest.raises(OptionError, match="estimator: expected a model with fit and predict, got <class"):
        ProgressiveSearch(Told, settings).fit(*rows(400))
    assert Told.seen == []


def test_data_that_cannot_be_searched_on():
    search = ProgressiveSearch(Told(), {"name": ["a"]})
    with pytest.raises(OptionError, match="give the labels y"):
        search.fit([["a"]] * 9)
    with pytest.raises(CorpusError, match="a search needs 5 instances at least, got 4"):
        search.fit(*rows(4))
    with pytest.raises(CorpusError, match="y: 8 instances, but X has 9"):
        search.fit(rows(9)[0], [0] * 8)
    with pytest.raises(CorpusError, match="y of pos: 1 sentences, but X has 9"):
        search.fit([["a"]] * 9, {"pos": [["A"]]})
    with pytest.raises(CorpusError, match="no label column"):
        search.fit(Corpus.from_sequences([["a"]] * 9))
    with pytest.raises(OptionError, match="estimator: expected a model with fit and predict, got 3"):
        ProgressiveSearch(3, {"name": ["a"]}).fit(*rows(9))
    with pytest.raises(OptionError, match="'f1' needs chunk labels"):
        ProgressiveSearch(Perceptron(), {"order": [1]}, scoring="f1").fit(CHUNKS.select(["word", "pos"], label="pos"))


# -- Ctrl-C and progress ----------------------------------------------------------------------------------------------


def pressed(at, presses=1):
    """Something to call with every row that presses Ctrl-C after so many."""
    seen = []

    def progress(row, total):
        seen.append((row, total))
        if len(seen) == at:
            for _ in range(presses):
                os.kill(os.getpid(), signal.SIGINT)

    return progress, seen


@pytest.mark.parametrize(
    ("at", "best", "score"),
    [(1, 0.5, 0.5), (2, 0.9, 0.9), (3, 0.9, 0.9), (4, 0.9, 0.9), (5, 0.9, 0.9)],  # 3 settings in the first step
)
def test_ctrl_c_keeps_the_best_so_far(at, best, score):
    progress, seen = pressed(at)
    before = signal.getsignal(signal.SIGINT)
    search = ProgressiveSearch(Told(), {"right": [0.5, 0.9, 0.89]}, first=50, steps=4)
    search.fit(*rows(400), progress=progress)
    assert len(seen) == len(search.table_) == at
    assert seen[0][1] == 3
    assert (search.stopped_, search.best_params_["right"], search.best_score_) == ("interrupted", best, score)
    assert search.best_estimator_.n_ == 400
    assert signal.getsignal(signal.SIGINT) is before
    assert search.table().splitlines()[1].startswith(f"{best}")
    assert search.table().splitlines()[-1] == f"{f'{at} of ' if at < 3 else ''}3 settings; interrupted"
    with pytest.raises(OptionError, match="limit: expected a whole number, 0 or more, got 'a'"):
        search.table("a")


def test_the_second_ctrl_c_ends_it_all():
    progress, _ = pressed(2, presses=2)
    search = ProgressiveSearch(Told(), {"right": [0.5, 0.9, 0.89]})
    with pytest.raises(KeyboardInterrupt):
        search.fit(*rows(400), progress=progress)
    with pytest.raises(NotFittedError):
        search.predict([[1]])


class Pressing(Perceptron):
    """A perceptron at whose second training somebody presses Ctrl-C."""

    fits = 0

    def _optimise(self, *given):
        Pressing.fits += 1
        if Pressing.fits == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return super()._optimise(*given)


def test_ctrl_c_that_a_model_takes_for_itself_ends_the_search():
    Pressing.fits = 0
    search = ProgressiveSearch(Pressing(n_jobs=1), {"max_iter": [2, 3, 4]}, first=40).fit(CHUNKS)
    assert (search.stopped_, search.best_params_, len(search.table_)) == ("interrupted", {"max_iter": 2}, 1)
    assert Pressing.fits == 3  # with that on all data
    Pressing.fits = 1
    with pytest.raises(KeyboardInterrupt):  # nothing is known yet
        ProgressiveSearch(Pressing(n_jobs=1), {"max_iter": [2, 3, 4]}, first=40).fit(CHUNKS)


class Terminal(io.StringIO):
    """Standard error as a person sees it."""

    def isatty(self):
        return True


def test_the_bar_shows_the_step_and_the_best(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "120")
    told({"right": [0.5, 0.9]}, verbose=1, steps=2)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue()).rstrip().splitlines()[-1]
    assert re.search(r"step 2 of 2, 400 in the sample .* 2/2 +best 90\.00", text)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told({"right": [0.5, 0.9]}, verbose=1, steps=2)
    assert sys.stderr.getvalue() == ""


# -- models and data --------------------------------------------------------------------------------------------------


def test_taggers_on_a_corpus_and_on_lists_alike():
    options = {"first": 40, "steps": 3}
    search = ProgressiveSearch(Perceptron(n_jobs=1, random_state=0), GRID, **options).fit(CHUNKS)
    assert search.scoring_ == "f1"
    assert search.best_params_["template"] == GRID["template"][1]
    again = ProgressiveSearch(Perceptron(n_jobs=2, random_state=0), GRID, **options).fit(CHUNKS.X, CHUNKS.y)
    assert course(again) == course(search)
    assert again.predict(CHUNKS.X) == search.predict(CHUNKS)
    best = Perceptron(n_jobs=1, random_state=0, **search.best_params_).fit(CHUNKS)
    assert search.predict(CHUNKS) == best.predict(CHUNKS)
    assert search.score(CHUNKS) == best.score(CHUNKS) == search.score(CHUNKS.X, CHUNKS.y)
    assert [d.score for d in search.decode(CHUNKS)] == [d.score for d in best.decode(CHUNKS)]
    last = [row for row in search.table_ if row["step"] == 3]
    order = np.random.default_rng(0).permutation(120)
    test = np.sort(order[4::5])
    train = np.setdiff1d(order, test)
    model = Perceptron(n_jobs=1, random_state=0, **search.best_params_).fit(CHUNKS.take(train))
    wanted = evaluate(CHUNKS.take(test).y, model.predict(CHUNKS.take(test)))
    assert search.best_score_ == wanted.f1 == max(row["score"] for row in last)
    scores = {}
    for scoring in ("accuracy", "sentence"):
        scores[scoring] = ProgressiveSearch(
            Perceptron(n_jobs=1, random_state=0, **search.best_params_), [{}], first=200, scoring=scoring
        ).fit(CHUNKS)
    assert scores["accuracy"].best_score_ == wanted.token_accuracy
    assert scores["sentence"].best_score_ == wanted.sentence_accuracy


def test_labels_without_chunks_are_scored_by_accuracy():
    tags = CHUNKS.select(["word", "pos"], label="pos")
    search = ProgressiveSearch(CRF(n_jobs=1, max_iter=3, template="U:%x[0,0]"), {"l2": [0.1, 100.0]}, first=60, steps=2)
    search.fit(tags)
    assert search.scoring_ == "accuracy"
    assert search.best_params_ == {"l2": 0.1}
    assert search.predict_marginals(tags)[0][0].keys() == set(tags.values("pos"))


def test_a_segment_model_and_a_cascade():
    segments = ProgressiveSearch(SemiCRF(n_jobs=1, template="words"), {"max_iter": [1, 8]}, first=60, steps=2).fit(
        CHUNKS
    )
    assert segments.best_params_ == {"max_iter": 8}
    layers = [("pos", CRF(template="U:%x[0,0]", max_iter=5)), ("chunk", CRF(template="U:%x[0,0]\nU:%y[0]", max_iter=5))]
    cascade = Cascade(layers, passing="best", n_jobs=1)
    search = ProgressiveSearch(cascade, {"pos__l2": [500.0, 0.1], "chunk__l2": [1.0]}, first=200)
    y = {"pos": CHUNKS.column("pos"), "chunk": CHUNKS.y}
    search.fit(CHUNKS.column("word"), y)
    assert search.best_params_ == {"pos__l2": 0.1, "chunk__l2": 1.0}
    assert [model.l2 for model in search.best_estimator_.layers_.values()] == [0.1, 1.0]
    assert layers[0][1].l2 == 1.0  # the estimator itself stays as it is
    assert course(clone(search).fit(CHUNKS)) == course(search)
    order = np.random.default_rng(0).permutation(120)
    test = CHUNKS.take(np.sort(order[4::5]))
    model = Cascade([("pos", CRF(template="U:%x[0,0]", max_iter=5, l2=0.1)), layers[1]], passing="best", n_jobs=1).fit(
        CHUNKS.take(np.setdiff1d(order, order[4::5]))
    )
    said = model.predict(test)
    reports = [evaluate(test.column(name), said[name]) for name in ("pos", "chunk")]
    assert search.best_score_ == pytest.approx((reports[0].token_accuracy + reports[1].f1) / 2)


def test_classifiers_over_rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=400) > 0, "yes", "no")
    grid = {"n_neighbors": [1, 5, 15], "weights": ["uniform", "distance"]}
    search = ProgressiveSearch(KNeighborsClassifier(), grid, first=60, steps=4).fit(X, y)
    assert search.best_params_["n_neighbors"] > 1
    assert search.predict_proba(X).shape == (400, 2)
    assert search.classes_.tolist() == ["no", "yes"]
    assert search.score(X, y) == search.best_estimator_.score(X, y)
    assert is_classifier(search)
    lists = ProgressiveSearch(KNeighborsClassifier(), grid, first=60, steps=4).fit(X.tolist(), y.tolist())
    assert course(lists) == course(search)
    scorer = make_scorer(f1_score, pos_label="yes")
    tree = ProgressiveSearch(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 9]}, scoring=scorer, folds=5)
    tree.fit(X, y)
    assert tree.best_params_ == {"max_depth": 1}
    assert 0.8 < tree.best_score_ < 1
    assert re.search(r"^1 +0\.\d{4}$", tree.table(), re.M)


def test_models_within_models():
    X, y = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    pipe = make_pipeline(StandardScaler(), KNeighborsClassifier())
    grid = {"kneighborsclassifier__n_neighbors": [1, 5], "standardscaler__with_mean": [True, False]}
    search = ProgressiveSearch(pipe, grid, first=40, steps=2).fit(X, y)
    best = search.best_estimator_.get_params()
    assert {name: best[name] for name in grid} == search.best_params_
    trees = {
        "kneighborsclassifier": [DecisionTreeClassifier(random_state=0)],
        "kneighborsclassifier__max_depth": [1, 2],
    }
    search = ProgressiveSearch(pipe, trees, first=40, steps=2).fit(X, y)
    assert search.best_estimator_[-1].max_depth == search.best_params_["kneighborsclassifier__max_depth"]
    assert trees["kneighborsclassifier"][0].max_depth is None
    with pytest.raises(OptionError, match="settings: ValueError: Invalid parameter 'knn' for estimator Pipeline"):
        ProgressiveSearch(pipe, {"knn__k": [1]}).fit(X, y)


def test_threads_reach_the_model_and_change_nothing():
    found = [told({"right": [0.5, 0.9]}, n_jobs=n) for n in (None, 1, 2)]
    assert [search.best_estimator_.n_jobs for search in found] == [None, 1, 2]
    assert course(found[0]) == course(found[1]) == course(found[2])


# -- conventions ------------------------------------------------------------------------------------------------------


def test_scikit_learns_conventions():
    search = ProgressiveSearch(CRF(l2=2.0), {"order": [1, 2]}, first=50)
    assert search.get_params(deep=False).keys() == {
        *(
            "estimator",
            "settings",
            "first",
            "steps",
            "folds",
            "gaps",
            "scoring",
            "refit",
            "random_state",
            "n_jobs",
            "verbose",
        )
    }
    assert search.get_params()["estimator__l2"] == 2.0
    twin = clone(search)
    assert twin.estimator is not search.estimator
    assert twin.set_params(estimator__l2=3.0, first=60) is twin
    assert (twin.estimator.l2, twin.first, search.estimator.l2, search.first) == (3.0, 60, 2.0, 50)
    with pytest.raises(OptionError, match="CRF: no parameter 'k'"):
        twin.set_params(estimator__k=3)
    with pytest.raises(OptionError, match="ProgressiveSearch: no parameter 'k'"):
        twin.set_params(k=3)
    assert repr(search) == "ProgressiveSearch(CRF(l2=2.0), {'order': [1, 2]}, first=50)"
    for question in (lambda: search.predict([["a"]]), lambda: search.table(), lambda: search.best_params_):
        with pytest.raises(NotFittedError, match="has not searched yet"):
            question()
    assert not hasattr(search, "predict_nbest")
    with pytest.raises(AttributeError, match="_private"):
        search._private  # noqa: B018


def test_a_search_without_refit_and_one_that_is_pickled():
    search = told({"right": [0.5, 0.9]}, refit=False)
    assert search.best_params_ == {"right": 0.9}
    with pytest.raises(NotFittedError, match="use refit=True"):
        search.predict([[1]])
    whole = told({"right": [0.5, 0.9]})
    again = pickle.loads(pickle.dumps(whole))
    assert again.table() == whole.table()
    assert again.predict([[1], [2]]) == whole.predict([[1], [2]])
    assert again.fit(*rows(400)).best_params_ == {"right": 0.9}


def test_the_best_model_is_saved(tmp_path):
    search = ProgressiveSearch(Perceptron(n_jobs=1), {"max_iter": [1, 2]}, first=100, steps=1).fit(CHUNKS)
    search.save(tmp_path / "model")
    assert labelwright.load(tmp_path / "model").predict(CHUNKS) == search.predict(CHUNKS)


def test_the_table_to_read():
    search = told([{"right": [0.1, 0.9, 0.91]}, {"refuse_from": 1, "name": "a\nlong name, longer than columns are"}])
    assert search.table().splitlines() == [
        "right  refuse_from  name                        n=50  n=100  n=200  n=400",
        "0.91                                          100.00  95.00  92.50  91.25",
        "0.9                                            90.00  90.00  90.00  90.00",
        "0.1                                            10.00  10.00",
        "       1            a long name, longer t...  failed",
        "4 settings; all data have been used",
    ]
    assert search.table(2).splitlines() == [
        "right  refuse_from  name    n=50  n=100  n=200  n=400",
        "0.91                      100.00  95.00  92.50  91.25",
        "0.9                        90.00  90.00  90.00  90.00",
        "... and 2 more",
        "4 settings; all data have been used",
    ]


def test_settings_of_memory_based_models():
    found = memory_settings()
    assert len(found) == len({frozenset(setting.items()) for setting in found}) == 5 * 5 + 10 * 5 * 5 * 4
    assert {setting["k"] for setting in found} == {1, 3, 5, 7, 9, 11, 13, 15, 19, 25, 35}
    assert all(setting["votes"] == "none" for setting in found if setting["k"] == 1)
    assert all(("mvdm_threshold" in setting) == (setting["metric"] != "overlap") for setting in found)
    assert memory_settings("classifier__")[0].keys() == {f"classifier__{name}" for name in found[0]}


def test_the_document_shows_what_it_prints():
    text = DOCUMENT.read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, DOCUMENT.name, "exec"), {})
    assert "".join(f"    {line}\n" for line in printed.getvalue().splitlines()) in text
