"""A search by development data, and one that goes on after an interruption."""

import json

import pytest

from labelwright import CRF, MemoryTagger, Perceptron, ProgressiveSearch
from labelwright.corpus.generated import builtin_corpus
from labelwright.errors import CorpusError, ModelFileError
from labelwright.evaluate import evaluate

CORPUS = builtin_corpus(60, random_state=5, columns=["word", "pos", "chunk"])
TRAIN, DEV = CORPUS.take(slice(0, 40)), CORPUS.take(slice(40, 60))
GRID = {"l2": [0.1, 100.0]}


def small(**options):
    return ProgressiveSearch(CRF(n_jobs=1, max_iter=4), GRID, first=20, steps=2, **options)


def test_settings_are_scored_on_development_data():
    search = small().fit(TRAIN, dev=DEV)
    assert [(row["n_train"], row["n_test"]) for row in search.table_][:2] == [(20, 20), (20, 20)]
    best = evaluate(DEV.y, search.predict(DEV)).score
    assert search.sizes_ == [20, 40]
    assert search.best_estimator_.training_["best_dev"] == pytest.approx(best)
    pairs = small().fit(TRAIN.X, TRAIN.y, dev=(DEV.X, DEV.y))
    assert [row["score"] for row in pairs.table_] == [row["score"] for row in search.table_]


def test_models_without_development_data_are_scored_on_them():
    search = ProgressiveSearch(MemoryTagger(n_jobs=1), {"k": [1, 3]}, first=20, steps=1).fit(
        TRAIN, dev=DEV
    )
    for row in search.table_:
        model = MemoryTagger(n_jobs=1, **row["setting"]).fit(TRAIN)
        assert row["score"] == pytest.approx(evaluate(DEV.y, model.predict(DEV)).score)


def test_only_the_chosen_perceptron_is_calibrated(monkeypatch):
    calls = []
    real = Perceptron.calibrate
    monkeypatch.setattr(
        Perceptron, "calibrate", lambda self, *data: calls.append(1) or real(self, *data)
    )
    search = ProgressiveSearch(Perceptron(n_jobs=1), {"max_iter": [1, 2]}, first=20, steps=1).fit(
        TRAIN, dev=DEV
    )
    assert len(calls) == 1
    assert search.best_estimator_.temperature_ is not None


def test_an_interrupted_search_goes_on(tmp_path, monkeypatch):
    file, whole = tmp_path / "trials", small().fit(TRAIN, dev=DEV)

    def stop(row, total):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        small().fit(TRAIN, dev=DEV, checkpoint=file, progress=stop)
    assert len(json.loads(file.read_text())["trials"]) == 1
    fits = []
    real = CRF.fit
    monkeypatch.setattr(
        CRF, "fit", lambda self, *data, **more: fits.append(1) or real(self, *data, **more)
    )
    again = small().fit(TRAIN, dev=DEV, checkpoint=file)
    assert len(fits) == len(whole.table_)  # one trial less, and the best of all
    assert [row["score"] for row in again.table_] == [row["score"] for row in whole.table_]
    assert again.best_params_ == whole.best_params_
    fits.clear()
    small(random_state=1).fit(TRAIN, dev=DEV, checkpoint=file)  # another search
    assert len(fits) > len(whole.table_)


def test_files_and_data_that_do_not_fit(tmp_path):
    file = tmp_path / "trials"
    small().fit(TRAIN, dev=DEV, checkpoint=file)
    without_error = json.loads(file.read_text())
    for row in without_error["trials"].values():
        del row["error"]
    for text in ("{}", "[" * 100_000, json.dumps(without_error)):
        file.write_text(text)
        with pytest.raises(ModelFileError, match="does not hold the trials of a search; delete it"):
            small().fit(TRAIN, dev=DEV, checkpoint=file)
    with pytest.raises(CorpusError, match="dev needs at least 1 sentence, got 0"):
        small().fit(TRAIN, dev=DEV.take([]))


@pytest.mark.parametrize("searched", [False, True])
def test_a_file_of_other_content_is_another_search(tmp_path, searched):
    template, vectors = tmp_path / "t", tmp_path / "v"

    def known(**settings):
        options, grid = (
            ({}, {name: [value] for name, value in settings.items()})
            if searched
            else (settings, {})
        )
        search = ProgressiveSearch(
            CRF(n_jobs=1, max_iter=1, **options), GRID | grid, first=20, steps=1, refit=False
        )
        return search.fit(TRAIN, checkpoint=tmp_path / "trials")._trials.n_known

    def given(phrase="the man", cluster="1"):
        of_words = {"dictionaries": {"d": [phrase]}, "clusters": {"c": {"the": cluster}}}
        return {"template": str(template), "vectors": str(vectors), **of_words}

    template.write_text("U:%x[0,0]\n")
    vectors.write_text("the 1.0 2.0\na 2.0 1.0\n")
    assert [known(**given()), known(**given())] == [0, 2]
    vectors.write_text("the 1.0 2.5\na 2.0 1.0\n")
    assert [known(**given()), known(**given())] == [0, 2]
    template.write_text("U:%x[0,1]\n")
    assert [known(**given()), known(**given())] == [0, 2]
    assert [known(**given(phrase="a man")), known(**given(cluster="2"))] == [0, 0]
