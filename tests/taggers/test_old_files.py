"""Model files of earlier versions: they load, and predict what they did.

The files of version 0.1.0 were written by that version with `python tests/support/small_models.py FOLDER`."""

import json
from pathlib import Path

import pytest
import small_models

import labelwright

FOLDER = Path(__file__).parent.parent / "data" / "v0.1.0"
PREDICTED = json.loads((FOLDER / "predicted.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", small_models.MODELS)
def test_files_of_version_0_1_0_load_and_predict_the_same(name):
    model = labelwright.load(FOLDER / f"{name}.model")
    assert small_models.predicted(model, small_models.asked(name)) == PREDICTED[name]


@pytest.mark.parametrize("name", small_models.MODELS)
def test_what_was_loaded_is_written_as_it_was(name, tmp_path):
    labelwright.load(FOLDER / f"{name}.model").save(tmp_path / "again")
    labelwright.load(tmp_path / "again").save(tmp_path / "third")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "third").read_bytes()
