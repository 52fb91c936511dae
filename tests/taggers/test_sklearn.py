"""scikit-learn's tools on every tagger, and its own checks of estimators."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

from labelwright import (
    CRF,
    Cascade,
    Corpus,
    LatentCRF,
    LatentPerceptron,
    MemoryBased,
    MemoryTagger,
    NgramTagger,
    Perceptron,
    ProgressiveSearch,
    SemiCRF,
)
from labelwright.errors import NotFittedError, OptionError
from labelwright.evaluate.scorers import chunk_f1, sentence_accuracy, token_accuracy
from labelwright.taggers.registry import tagger_names
from taggers import NEW, SENTENCES, Case

sklearn = pytest.importorskip("sklearn")
checks = pytest.importorskip("sklearn.utils.estimator_checks")
exceptions = pytest.importorskip("sklearn.exceptions")
selection = pytest.importorskip("sklearn.model_selection")
base = pytest.importorskip("sklearn.base")
linear_model = pytest.importorskip("sklearn.linear_model")
validation = pytest.importorskip("sklearn.utils.validation")

CASES = {name: Case(name) for name in tagger_names()}
every_tagger = pytest.mark.parametrize("name", list(CASES))


def by_sentence(y):
    """Labels as scikit-learn can index them: of a cascade, a tuple for each token."""
    if not isinstance(y, dict):
        return y
    return [list(zip(*layers, strict=True)) for layers in zip(*y.values(), strict=True)]


# -- tools -----------------------------------------------------------------------------------------


@pytest.mark.cases(3)
@every_tagger
def test_predictions_of_all_folds_come_back_in_order(name):
    case, y = CASES[name], by_sentence(CASES[name].y)
    predicted = selection.cross_val_predict(case.make(), case.X, y, cv=2)
    assert predicted.shape == (len(case.X),)
    assert [len(labels) for labels in predicted] == [len(sentence) for sentence in case.X]
    half = len(case.X) // 2
    alone = np.asarray(case.make().fit(case.X[half:], y[half:]).predict(case.X[:half]))
    assert predicted[:half].tolist() == alone.tolist()


@pytest.mark.cases(3)
@every_tagger
def test_scorers_in_cross_validation_and_grids(name):
    case, y = CASES[name], by_sentence(CASES[name].y)
    scorers = {"f1": chunk_f1, "tokens": token_accuracy, "sentences": sentence_accuracy}
    scores = selection.cross_validate(case.make(), case.X, y, cv=2, scoring=scorers)
    assert (scores["test_sentences"] <= scores["test_tokens"]).all()
    assert (scores["test_tokens"] <= 1).all()
    assert (scores["test_f1"] > 0).all()
    search = selection.GridSearchCV(
        case.make(), {"n_jobs": [1]}, scoring=chunk_f1, cv=2, refit=False
    ).fit(case.X, y)
    assert search.best_score_ == pytest.approx(scores["test_f1"].mean())


def test_the_default_score_of_a_search_is_f1_of_chunks():
    case, grid = CASES["crf"], {"l2": [0.1, 10.0]}
    searches = [
        selection.GridSearchCV(case.make(), grid, cv=2, scoring=scoring).fit(case.X, case.y)
        for scoring in (None, chunk_f1, token_accuracy)
    ]
    plain, f1, accuracy = (search.cv_results_["mean_test_score"].tolist() for search in searches)
    assert plain == f1 != accuracy


@pytest.mark.parametrize("name", ["crf", "cascade"])
def test_scikit_learn_takes_a_corpus(name):
    case = CASES[name]
    layers = case.y if isinstance(case.y, dict) else {"chunk": case.y}
    rows = [
        list(zip(*sentence, strict=True)) for sentence in zip(case.X, *layers.values(), strict=True)
    ]
    corpus = Corpus.from_sequences(rows, names=["word", *layers]).renamed(
        ["word", *layers], "chunk"
    )
    of_lists = selection.cross_val_score(case.make(), case.X, by_sentence(case.y), cv=2)
    assert selection.cross_val_score(case.make(), corpus, cv=2).tolist() == of_lists.tolist()
    assert selection.cross_val_predict(case.make(), corpus, cv=2).shape == (len(corpus),)
    search = selection.GridSearchCV(case.make(), {"n_jobs": [1]}, cv=2, scoring=chunk_f1).fit(
        corpus
    )
    assert search.best_score_ == of_lists.mean()
    assert [len(part) for part in selection.train_test_split(corpus, train_size=2)] == [
        2,
        len(corpus) - 2,
    ]


def test_a_search_reaches_into_the_layers_of_a_cascade():
    case = CASES["cascade"]
    grid = {"pos__l2": [0.1, 10.0], "passing": ["best"]}
    search = selection.GridSearchCV(case.make(), grid, scoring=token_accuracy.of_layer("pos"), cv=2)
    assert set(search.fit(case.X, by_sentence(case.y)).best_params_) == set(grid)
    assert search.predict(NEW).keys() == {"pos", "chunk"}


def test_a_cascade_learns_the_same_from_tuples_frames_and_columns():
    pandas = pytest.importorskip("pandas")
    case = CASES["cascade"]
    tuples = by_sentence(case.y)
    frames = [pandas.DataFrame(rows, columns=list(case.y)) for rows in tuples]
    expected = case.trained.predict(NEW)
    for y in (tuples, frames):
        assert case.make().fit(case.X, y).predict(NEW) == expected
        assert case.trained.score(case.X, y) == case.trained.score(case.X, case.y)
    with pytest.raises(
        ValueError,
        match=r"^y: sentence 0, token 0: expected the labels of every layer, for each token a ",
    ):
        case.make().fit(case.X, case.y["pos"])


# -- conventions -----------------------------------------------------------------------------------


@every_tagger
def test_untrained_taggers_raise_the_error_of_both(name):
    tagger = CASES[name].make()
    with pytest.raises(NotFittedError) as ours:
        tagger.predict(NEW)
    assert isinstance(ours.value, exceptions.NotFittedError)
    again = pickle.loads(pickle.dumps(ours.value))
    assert (type(again), str(again)) == (type(ours.value), str(ours.value))
    with pytest.raises(exceptions.NotFittedError):
        sklearn.utils.validation.check_is_fitted(tagger)
    sklearn.utils.validation.check_is_fitted(CASES[name].trained)


def test_a_search_is_fitted_once_it_has_searched():
    search = ProgressiveSearch(Perceptron(n_jobs=1), {"max_iter": [1, 2]}, first=10, steps=1)
    with pytest.raises(exceptions.NotFittedError):
        sklearn.utils.validation.check_is_fitted(search)
    sklearn.utils.validation.check_is_fitted(search.fit(SENTENCES, CASES["crf"].y))


def test_without_scikit_learn_the_error_is_ours_and_nothing_is_imported():
    code = (
        "import sys\n"
        "from labelwright import CRF\n"
        "from labelwright.errors import NotFittedError\n"
        "try:\n"
        "    CRF().predict([['a']])\n"
        "except NotFittedError as error:\n"
        "    assert type(error) is NotFittedError\n"
        "import labelwright.evaluate.scorers, labelwright.corpus.token_records\n"
        "assert not {'sklearn', 'joblib', 'pandas', 'polars'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@every_tagger
def test_notebooks_show_a_diagram(name):
    page = CASES[name].trained._repr_html_()
    assert type(CASES[name].trained).__name__ in page
    assert "sk-top-container" in page


def test_arguments_of_fit_are_routed_when_requested():
    case = CASES["perceptron"]
    half = len(case.X) // 2
    dev = case.X[half:], case.y[half:]
    with sklearn.config_context(enable_metadata_routing=True):
        asked = case.make().set_fit_request(dev=True)
        search = selection.GridSearchCV(asked, {"max_iter": [4]}, cv=2, scoring=chunk_f1)
        search.fit(case.X, case.y, dev=dev)
        assert "best_dev" in search.best_estimator_.training_
        with pytest.raises(ValueError, match="dev"):
            selection.GridSearchCV(case.make(), {"max_iter": [4]}, cv=2).fit(
                case.X, case.y, dev=dev
            )
    with pytest.raises(OptionError, match="fit has no argument 'nonsense', expected one of dev, "):
        case.make().set_fit_request(nonsense=True)


@every_tagger
def test_skops_stores_every_tagger(name):
    skops = pytest.importorskip("skops.io")
    stored = skops.dumps(CASES[name].trained)
    again = skops.loads(stored, trusted=skops.get_untrusted_types(data=stored))
    assert again.predict(NEW) == CASES[name].trained.predict(NEW)


def test_skops_stores_feature_dicts():
    skops = pytest.importorskip("skops.io")
    X = [[{"word": word, "length": len(word)} for word in sentence] for sentence in SENTENCES]
    tagger = CRF(max_iter=4, n_jobs=1).fit(X, CASES["crf"].y)
    stored = skops.dumps(tagger)
    trusted = skops.get_untrusted_types(data=stored)
    assert all(name.startswith("labelwright.") for name in trusted)
    assert skops.loads(stored, trusted=trusted).predict(X) == tagger.predict(X)


def test_scorers_say_what_is_wrong():
    tagger = Perceptron(n_jobs=1, max_iter=1).fit([["a", "b"]], [["X", "Y"]])
    assert pickle.loads(pickle.dumps(chunk_f1)) == chunk_f1
    with pytest.raises(OptionError, match=r"^chunk_f1: the labels are no chunk labels"):
        chunk_f1(tagger, [["a"]], [["X"]])
    with pytest.raises(OptionError, match=r"^token_accuracy: give the true labels y"):
        token_accuracy(tagger, [["a"]])
    with pytest.raises(
        OptionError, match=r"^sentence_accuracy: no layer 'ner', expected one of pos, chunk"
    ):
        sentence_accuracy.of_layer("ner")(CASES["cascade"].trained, SENTENCES, CASES["cascade"].y)


def test_jobs_of_scikit_learn_have_one_thread_each():
    from joblib import Parallel, delayed

    from labelwright.parallel import available_cores, n_threads

    assert n_threads(None) == available_cores()
    for backend in ("threading", "loky", "multiprocessing"):
        assert Parallel(n_jobs=2, backend=backend)(delayed(n_threads)(None) for _ in range(2)) == [
            1,
            1,
        ], backend
    assert Parallel(n_jobs=1)(delayed(n_threads)(None) for _ in range(1)) == [available_cores()]
    assert Parallel(n_jobs=2, backend="threading")(delayed(n_threads)(3) for _ in range(2)) == [
        3,
        3,
    ]


# -- scikit-learn's own checks ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "classifier", [MemoryBased(), MemoryBased(k=3, metric="numeric"), MemoryBased(metric="mvdm")]
)
def test_check_estimator_of_a_classifier(classifier):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not inherit from BaseEstimator
        for result in checks.check_estimator(classifier.set_params(n_jobs=1), on_skip=None):
            assert result["status"] == "passed" or result["check_name"] == "check_array_api_input"


# Checks that train on a table of numbers, or expect the words of an error about one: for taggers,
# which need sentences, its rows become sentences of one token.
OF_TABLES = """
    fit_score_takes_y estimators_overwrite_params dont_overwrite_parameters
    estimators_fit_returns_self readonly_memmap_input positive_only_tag_during_fit estimators_dtypes
    dtype_object pipeline_consistency estimators_pickle f_contiguous_array_estimator
    methods_sample_order_invariance methods_subset_invariance fit2d_1sample fit2d_1feature
    dict_unchanged fit_idempotent fit_check_is_fitted n_features_in complex_data
    estimators_empty_data_messages estimators_nan_inf fit2d_predict1d requires_y_none
    sample_weights_pandas_series sample_weights_not_an_array sample_weights_list
    all_zero_sample_weights_error sample_weights_shape sample_weights_not_overwritten
    sample_weight_equivalence_on_dense_data
"""
OF_TABLES = [f"check_{name}" for name in OF_TABLES.split()]
ONLINE = (
    "learns one sentence after the other: a sentence of weight 2 is one step, two sentences are "
    "two, in another order"
)
# What cannot pass, by check and tagger (None: all).
SKIPPED = {
    ("check_array_api_input", None): "is about arrays on other devices",
    ("check_sample_weight_equivalence_on_dense_data", "perceptron"): ONLINE,
    ("check_sample_weight_equivalence_on_dense_data", "latent-perceptron"): ONLINE,
    (
        "check_fit2d_1sample",
        "semi-crf",
    ): "expects the words '1 class' of an error that names segments",
}


class RowTagger(base.ClassifierMixin, base.BaseEstimator):
    """A tagger as a classifier of the rows of a table: each of them is a sentence of one token."""

    def __init__(self, tagger=None):
        self.tagger = tagger

    def fit(self, X, y, sample_weight=None):
        X, y = validation.validate_data(self, X, y)
        self.classes_, self.layered_ = np.unique(y), isinstance(self.tagger, Cascade)
        labels = [[(label,) if self.layered_ else label] for label in y.tolist()]
        self.tagger_ = base.clone(self.tagger).fit(
            self.sentences(X), labels, sample_weight=sample_weight
        )
        return self

    def sentences(self, X):
        return [[{f"column {i}": float(value) for i, value in enumerate(row)}] for row in X]

    def predict(self, X):
        validation.check_is_fitted(self)
        labels = self.tagger_.predict(
            self.sentences(validation.validate_data(self, X, reset=False))
        )
        return np.array([row[0] for row in (labels["y"] if self.layered_ else labels)])


ROWS = {
    "crf": CRF(n_jobs=1),
    "latent-crf": LatentCRF(n_jobs=1, random_state=0),
    "perceptron": Perceptron(n_jobs=1),
    "latent-perceptron": LatentPerceptron(n_jobs=1, random_state=0),
    "semi-crf": SemiCRF(n_jobs=1),
    "cascade": Cascade([("y", CRF())], n_jobs=1),
    "memory": MemoryTagger(metric="numeric", n_jobs=1),
    "ngram": NgramTagger(linear_model.LogisticRegression(), n_jobs=1),
}


class Tabular(CRF):
    """Says that it takes tables, so that scikit-learn names all checks of an estimator."""

    def __init__(self):
        pass

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def named_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not inherit from BaseEstimator
        found = list(checks._yield_all_checks(Tabular(), legacy=True))
    return {getattr(check, "func", check).__name__: check for check in found}


@pytest.mark.cases(60)
@every_tagger
@pytest.mark.parametrize("check", list(named_checks()))
def test_checks(name, check):
    reason = SKIPPED.get((check, name)) or SKIPPED.get((check, None))
    if name == "lattice" and check in OF_TABLES:
        reason = "labels of arcs are strings, and those of tables are numbers"
    if reason:
        pytest.skip(reason)
    asked = RowTagger(ROWS[name]) if check in OF_TABLES else CASES[name].make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named_checks()[check](type(asked).__name__, asked)


def test_a_cascade_of_one_layer_is_a_tagger_for_scikit_learn():
    case = CASES["crf"]
    cascade = Cascade([("chunk", CRF(max_iter=4))], n_jobs=1)
    y = [[(label,) for label in labels] for labels in case.y]
    assert selection.cross_val_score(cascade, case.X, y, cv=2, scoring=chunk_f1).shape == (2,)
