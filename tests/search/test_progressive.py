"""Progressive search: the rule of elimination against a literal twin, samples, scores, failures and
Ctrl-C."""

import io
import os
import re
import signal
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier
from told import Told, rows, told

from labelwright import Perceptron
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.search.progressive import ProgressiveSearch, survivors
from labelwright.taggers.perceptron import Online

CHUNKS = builtin_corpus(120, random_state=2, columns=["word", "pos", "chunk"])


# -- who stays -------------------------------------------------------------------------------------


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
    assert survivors(np.array([1.0, 0.55, 0.54, 0.0]), "stop").tolist() == [
        True,
        False,
        False,
        False,
    ]
    search = told({"right": [0.1, 0.5, 0.9]}, gaps="stop")
    assert (search.stopped_, search.best_params_, len(search.table_)) == (
        "one setting is left",
        {"right": 0.9},
        3,
    )


# -- the course of a search ------------------------------------------------------------------------


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
    assert told([{"name": ["x", ""], "right": 0.8}, {"right": [0.8]}]).best_params_ == {
        "name": "x",
        "right": 0.8,
    }


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
    assert [(row["n_train"], row["n_test"]) for row in search.table_[::2]] == [
        (len(x), len(y)) for x, y in a
    ]


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
    assert sorted(row for _, test in first for row in test) == sorted(
        set(first[0][0]) | set(first[0][1])
    )
    assert not any(set(train) & set(test) for train, test in first)
    assert [row["n_test"] for row in search.table_[::2]] == [50, 28, 20]
    assert search.table_[0]["score"] == 0.5  # of 50 in all


def test_settings_are_grids_lists_and_lists_of_grids():
    def of(settings):
        return [row["setting"] for row in told(settings, n=10).table_]

    assert of({"right": [0.1, 0.2], "name": "z"}) == [
        {"right": 0.1, "name": "z"},
        {"right": 0.2, "name": "z"},
    ]
    assert of({"grows": range(2)}) == of({"grows": np.arange(2)}) == [{"grows": 0}, {"grows": 1}]
    assert of([{"name": "a"}, {"name": ["a", "b"]}, {}]) == [{"name": "a"}, {"name": "b"}, {}]
    assert of({"name": [("a", "b")]}) == of({"name": ("a", "b")}) == [{"name": ("a", "b")}]


# -- failures --------------------------------------------------------------------------------------


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
    search = ProgressiveSearch(
        KNeighborsClassifier(), {"n_neighbors": [3, 1000, -1]}, first=20
    ).fit(X, y)
    assert search.best_params_ == {"n_neighbors": 3}
    assert [row["error"].split(":")[0] for row in search.table_[1:3]] == [
        "ValueError",
        "InvalidParameterError",
    ]


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
        ({"name": []}, {}, "settings: got none"),
        ([], {}, "settings: got none"),
        ("k", {}, "settings: expected .*, got 'k'"),
        ([{"name": "a"}, 3], {}, "settings: number 1: expected .*, got 3"),
        ({"name": ["a"]}, {"first": 4}, "first: expected a whole number of 5 or more, got 4"),
        ({"name": ["a"]}, {"steps": 0}, "steps: expected a whole number of 1 or more, got 0"),
        ({"name": ["a"]}, {"steps": True}, "steps: expected a whole number"),
        ({"name": ["a"]}, {"folds": 6}, "folds: expected a whole number, 1 to 5, got 6"),
        ({"name": ["a"]}, {"folds": ()}, "folds: expected a number from 1 to 5, or several"),
        ({"name": ["a"]}, {"gaps": "leap"}, "gaps: expected one of pass, stop, got 'leap'"),
        (
            {"name": ["a"]},
            {"random_state": -1},
            "random_state: expected a whole number of 0 or more",
        ),
        (
            {"name": ["a"]},
            {"scoring": "speed"},
            "scoring: expected one of f1, accuracy, sentence, or a callable",
        ),
        (
            {"name": ["a"]},
            {"scoring": "f1"},
            "scoring: 'f1' is for sentences; use 'accuracy' or a callable",
        ),
        ({"name": ["a"]}, {"n_jobs": 0}, "n_jobs: expected a number of threads"),
    ],
)
def test_what_cannot_be_is_said_before_the_search(settings, options, text):
    with pytest.raises(OptionError, match=text):
        told(settings, **options)
    with pytest.raises(
        OptionError, match="estimator: expected a model with fit and predict, got <class"
    ):
        ProgressiveSearch(Told, settings).fit(*rows(400))
    assert Told.seen == []


def test_data_that_cannot_be_searched_on():
    search = ProgressiveSearch(Told(), {"name": ["a"]})
    with pytest.raises(OptionError, match="give the labels y"):
        search.fit([["a"]] * 9)
    with pytest.raises(CorpusError, match="a search needs at least 5 instances, got 4"):
        search.fit(*rows(4))
    with pytest.raises(CorpusError, match="y: 8 instances, but X has 9"):
        search.fit(rows(9)[0], [0] * 8)
    with pytest.raises(CorpusError, match="y of pos: 1 sentences, but X has 9"):
        search.fit([["a"]] * 9, {"pos": [["A"]]})
    with pytest.raises(CorpusError, match="no label column"):
        search.fit(Corpus.from_sequences([["a"]] * 9))
    with pytest.raises(
        OptionError, match="estimator: expected a model with fit and predict, got 3"
    ):
        ProgressiveSearch(3, {"name": ["a"]}).fit(*rows(9))
    with pytest.raises(OptionError, match="'f1' needs chunk labels"):
        ProgressiveSearch(Perceptron(), {"order": [1]}, scoring="f1").fit(
            CHUNKS.select(["word", "pos"], label="pos")
        )


# -- Ctrl-C and progress ---------------------------------------------------------------------------


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
    # 3 settings in the first step
    [(1, 0.5, 0.5), (2, 0.9, 0.9), (3, 0.9, 0.9), (4, 0.9, 0.9), (5, 0.9, 0.9)],
)
def test_ctrl_c_keeps_the_best_so_far(at, best, score):
    progress, seen = pressed(at)
    before = signal.getsignal(signal.SIGINT)
    search = ProgressiveSearch(Told(), {"right": [0.5, 0.9, 0.89]}, first=50, steps=4)
    search.fit(*rows(400), progress=progress)
    assert len(seen) == len(search.table_) == at
    assert seen[0][1] == 3
    assert (search.stopped_, search.best_params_["right"], search.best_score_) == (
        "interrupted",
        best,
        score,
    )
    assert search.best_estimator_.n_ == 400
    assert signal.getsignal(signal.SIGINT) is before
    assert search.table().splitlines()[1].startswith(f"{best}")
    assert (
        search.table().splitlines()[-1] == f"{f'{at} of ' if at < 3 else ''}3 settings; interrupted"
    )
    with pytest.raises(OptionError, match="limit: expected a whole number, 0 or more, got 'a'"):
        search.table("a")


def test_the_second_ctrl_c_ends_it_all():
    progress, _ = pressed(2, presses=2)
    search = ProgressiveSearch(Told(), {"right": [0.5, 0.9, 0.89]})
    with pytest.raises(KeyboardInterrupt):
        search.fit(*rows(400), progress=progress)
    with pytest.raises(NotFittedError):
        search.predict([[1]])


class Pressed(Online):
    """Learns by mistakes; at its second training somebody presses Ctrl-C."""

    def optimise(self, *given):
        Pressing.fits += 1
        if Pressing.fits == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return super().optimise(*given)


class Pressing(Perceptron):
    """A perceptron that learns so."""

    fits = 0
    _learner = Pressed


def test_ctrl_c_that_a_model_takes_for_itself_ends_the_search():
    Pressing.fits = 0
    search = ProgressiveSearch(Pressing(n_jobs=1), {"max_iter": [2, 3, 4]}, first=40).fit(CHUNKS)
    assert (search.stopped_, search.best_params_, len(search.table_)) == (
        "interrupted",
        {"max_iter": 2},
        1,
    )
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
