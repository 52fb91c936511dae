"""A tagger of another package, in under 60 lines, has everything without a line elsewhere."""

import json
from pathlib import Path

import most_frequent
import pytest
from contract import CHECKS
from most_frequent import MostFrequent
from sklearn.model_selection import cross_val_score

import labelwright
from labelwright.taggers import registry
from taggers import Case

CASE = Case("most-frequent", MostFrequent)


@pytest.fixture(autouse=True)
def registered():
    registry.register("most-frequent", "most_frequent:MostFrequent")
    yield
    del registry.TAGGERS["most-frequent"]


def test_it_is_short():
    assert len(Path(most_frequent.__file__).read_text().splitlines()) < 60


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check, tmp_path):
    check(CASE, tmp_path)


def test_answers():
    tagger = CASE.trained
    best = tagger.decode(CASE.X)
    assert all(record.exact and record.log_probability <= 0 for record in best)
    assert tagger.decode(CASE.X, "marginal") is not None
    assert cross_val_score(MostFrequent(), CASE.X, CASE.y, cv=3).min() > 0.25
    batch = tagger.scored(CASE.X)
    assert [record.labels for record in batch.decode("viterbi")] == tagger.predict(CASE.X)


def test_command_line(run, data: Path, tmp_path: Path):
    model, columns = tmp_path / "m", ["--columns", "word,pos,chunk"]
    assert "--smoothing" in run("train", "--model", "most-frequent", "--help")[1]
    options = ["--model", "most-frequent", "--smoothing", 0.5, "--dev", data / "dev.txt", "-q"]
    assert run("train", data / "train.txt", "-o", model, *columns, *options) == (0, "", "")
    assert labelwright.load(model).smoothing == 0.5
    code, out, err = run("tag", model, data / "test.txt", "--json", "--nbest", 2, "--probabilities")
    assert (code, err) == (0, "")
    answer = json.loads(out.splitlines()[0])
    assert {"tokens", "labels", "probability", "exact", "spans", "nbest", "probabilities"} <= set(answer)
    code, out, err = run("eval", model, data / "test.txt")
    assert (code, err) == (0, "")
    assert "f1" in out.lower()
    assert run("inspect", model)[0] == 0
    assert "NP" in run("inspect", model, "--data", data / "test.txt")[1]
    recipe = tmp_path / "r.toml"
    recipe.write_text('model = "most-frequent"\nsmoothing = 0.0\n')
    code, _, err = run("train", data / "train.txt", "-o", model, *columns, "--recipe", recipe)
    assert code == 2
    assert "r.toml: smoothing: expected" in err
