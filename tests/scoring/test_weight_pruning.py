"""Smaller models of every kind: they load, answer, keep their labels; without loss they answer the
same."""

import io

import numpy as np
import pytest
import small_models

import labelwright
from labelwright.errors import ModelFileError, OptionError
from labelwright.taggers.linear import LinearTagger

KINDS = [name for name in small_models.MODELS if not name.startswith("memory")]


def stored(model):
    """The bytes of its file."""
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def parts(model):
    return [part for part in model._outputs.values() if isinstance(part, LinearTagger)]


@pytest.fixture(scope="module")
def models():
    """Trained models by name, each trained once."""
    made = {}
    return lambda name: made.setdefault(name, small_models.trained(name))


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", list(small_models.MODELS))
def test_without_loss_the_file_is_smaller_and_the_answers_are_the_same(models, name):
    model, X = models(name), small_models.asked(name)
    content = stored(model.compressed())
    assert len(content) < len(stored(model)) or name == "crf-arrays"  # of three columns
    small = labelwright.load(content)
    assert small_models.predicted(small, X) == small_models.predicted(model, X)
    assert len(stored(small)) <= len(content)


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", KINDS)
def test_features_without_weights_change_nothing(models, name):
    """Pruning is setting weights to zero: the reduced vocabulary finds the same features for all
    others."""
    model, X = models(name), small_models.asked(name)
    threshold = float(
        np.quantile(np.abs(np.concatenate([part.weights_ for part in parts(model)])), 0.9)
    )
    small = labelwright.load(stored(model.compressed(prune=threshold)))
    zeroed = labelwright.load(stored(model))
    for part in parts(zeroed):
        weights, slices = part.weights_.copy(), part._parameters.slices
        for kind in part._parameters.cells:
            of_kind = weights[slices[kind]]
            of_kind[np.abs(of_kind) <= threshold] = 0
        part.weights_ = weights
    for before, after in zip(parts(model), parts(small), strict=True):
        assert after.classes_ == before.classes_
        assert (
            np.abs(after.weights_[: after._parameters.slices["transitions"].start]) > threshold
        ).all()
        assert after._extractor.n_features < before._extractor.n_features or name == "crf-arrays"
        assert after.training_["features"] == after._extractor.n_features
    assert small_models.predicted(small, X) == small_models.predicted(zeroed, X)
    if getattr(small, "_probabilistic", False) and not isinstance(small, labelwright.Cascade):
        for x, y in zip(small.predict_nbest(X, 3), zeroed.predict_nbest(X, 3), strict=True):
            assert [p for _, p in x] == pytest.approx([p for _, p in y], rel=1e-4)


@pytest.mark.cases(8)
@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("name", KINDS)
def test_bits(models, name, bits):
    model, X = models(name), small_models.asked(name)
    small = model.compressed(bits=bits)
    content = stored(small)
    loaded = labelwright.load(content)
    for before, after in zip(parts(small), parts(loaded), strict=True):
        assert (before.weights_ == after.weights_).all()
    assert len(stored(loaded)) <= len(content)
    assert small_models.predicted(loaded, X) == small_models.predicted(small, X)
    assert loaded._compression == {"prune": 0.0, "bits": bits}
    assert model._compression == {}


def test_signatures_say_so(models):
    small = models("crf").compressed(prune=0.05, bits=8)
    assert "|prune:0.05|bits:8|" in small.describe()["signature"]
    assert "|prune:" not in models("crf").describe()["signature"]


@pytest.mark.parametrize(
    "record", [[], {}, {"prune": "x", "bits": 8}, {"prune": -1, "bits": 8}, {"prune": 0, "bits": 7}]
)
def test_made_records_are_refused(models, record):
    tensors, header = models("crf").pack()
    header["training"] = header["training"] | {"compressed": record}
    with pytest.raises(ModelFileError, match="compressed"):
        labelwright.CRF.unpack(tensors, header)


def test_all_weights_can_go(models):
    model = models("crf").compressed(prune=1e9)
    assert model._extractor.n_features == 0
    small = labelwright.load(stored(model))
    assert small.classes_ == models("crf").classes_
    assert len(small.predict([["He", "ran"]])[0]) == 2


def test_refusals(models):
    for settings, message in [
        ({"prune": -1}, "prune: expected a number of 0 or more"),
        ({"prune": float("nan")}, "prune: expected a number of 0 or more"),
        ({"bits": 4}, "bits: expected 32, 16 or 8, got 4"),
    ]:
        with pytest.raises(OptionError, match=message):
            models("crf").compressed(**settings)
    for settings in ({"prune": 0.1}, {"bits": 8}):
        with pytest.raises(OptionError, match="has no weights of features to reduce"):
            models("memory").compressed(**settings)
