"""Model files: they keep everything that a model has learnt, and those of earlier versions still
load.

The files of version 0.1.0 were written by that version with `python tests/support/small_models.py
FOLDER`."""

import json
import pickle
from pathlib import Path

import pytest
import small_models
import zoo

import labelwright
from labelwright import modelfile
from labelwright.errors import ModelFileError

FOLDER = Path(__file__).parent.parent / "data" / "v0.1.0"
PREDICTED = json.loads((FOLDER / "predicted.json").read_text(encoding="utf-8"))
QUESTIONS = {"predict", "predict_proba", "predict_marginals", "predict_nbest", "decode"}
LEARNT = (
    "classes_",
    "scheme_",
    "training_",
    "history_",
    "state_features_",
    "transition_features_",
    "segments_",
)


def settings_of(model):
    """Settings that are plain values, but for the number of threads, which is not for the file to
    say."""
    plain = (str, int, float, bool, tuple, type(None))
    own = {name: value for name, value in model.get_params().items() if isinstance(value, plain)}
    return {
        name: value
        for name, value in own.items()
        if name not in ("template", "n_jobs") and "__" not in name
    }


@pytest.mark.cases(20)
@pytest.mark.parametrize("name", zoo.MODELS)
def test_files_and_pickles_keep_everything(name, tmp_path):
    model, data = zoo.trained(name), zoo.data_of(name)
    X = data(1, 5)[0]
    model.save(tmp_path / "m")
    for copy in (zoo.loaded(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert type(copy) is type(model)
        settings = settings_of(model)
        assert {
            key: value for key, value in settings_of(copy).items() if key in settings
        } == settings
        for attribute in LEARNT:
            assert str(getattr(copy, attribute, {})) == str(getattr(model, attribute, {})), (
                attribute
            )
        for question in QUESTIONS & set(dir(model)):
            if question != "predict_marginals" or "probability" in getattr(
                model, "can", ("probability",)
            ):
                assert str(getattr(copy, question)(X)) == str(getattr(model, question)(X)), question
    copy.set_params(n_jobs=1).fit(*data(0, zoo.N))  # a copy can be trained again
    assert str(copy.predict(X)) == str(zoo.MODELS[name][0]().fit(*data(0, zoo.N)).predict(X))
    copy.save(tmp_path / "m")
    assert str(zoo.loaded(tmp_path / "m").predict(X)) == str(copy.predict(X))


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
    message = (
        r"header: segments: latent states of segments \(n_latent\) are gone; copy or train it "
        r"again$"
    )
    with pytest.raises(ModelFileError, match=message):
        labelwright.load(tmp_path / "two")
