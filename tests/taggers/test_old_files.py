"""Model files of earlier versions: they load, and predict what they did.

The files of version 0.1.0 were written by that version with `python tests/support/small_models.py FOLDER`."""

import json
from pathlib import Path

import pytest
import small_models

import labelwright
from labelwright import modelfile
from labelwright.errors import ModelFileError

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


def test_of_files_with_states_of_segments_those_with_one_state_load(tmp_path):
    tensors, header = modelfile.read(FOLDER / "semi-crf.model")
    header["parameters"] |= {"n_latent": 1, "n_restarts": 1}
    header["segments"]["n_latent"] = 1
    modelfile.write(tmp_path / "one", tensors, header)
    model, asked = labelwright.load(tmp_path / "one"), small_models.asked("semi-crf")
    assert small_models.predicted(model, asked) == PREDICTED["semi-crf"]
    header["segments"]["n_latent"] = 2
    modelfile.write(tmp_path / "two", tensors, header)
    message = r"header: segments: latent states of segments \(n_latent\) are gone; copy or train it again$"
    with pytest.raises(ModelFileError, match=message):
        labelwright.load(tmp_path / "two")
